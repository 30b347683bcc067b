#include "quarry/base/missing.h"

#include <charconv>

namespace quarry {

std::string ToString(const SampleValue& value) {
  if (value.is_double()) return fmt::format("{}", value.nearest());
  if (const auto integer = value.As<std::int64_t>()) return fmt::format("{}", *integer);
  return fmt::format("{}", value.As<std::uint64_t>().value_or(0));
}

std::optional<SampleValue> ParseInteger(std::string_view text) {
  const auto parse = [&](auto integer) -> std::optional<SampleValue> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return SampleValue(integer);
  };
  if (const auto integer = parse(std::int64_t{})) return integer;
  return parse(std::uint64_t{});
}

}  // namespace quarry
