#include "quarry/base/missing.h"

#include "quarry/base/numbers.h"

namespace quarry {

std::string ToString(const SampleValue& value) {
  if (value.is_double()) return fmt::format("{}", value.nearest());
  if (const auto integer = value.As<std::int64_t>()) return fmt::format("{}", *integer);
  return fmt::format("{}", value.As<std::uint64_t>().value_or(0));
}

std::optional<SampleValue> ParseInteger(std::string_view text) {
  const auto parse = [&](auto integer) -> std::optional<SampleValue> {
    return ReadNumber(text, &integer) ? std::optional(SampleValue(integer)) : std::nullopt;
  };
  if (const auto integer = parse(std::int64_t{})) return integer;
  return parse(std::uint64_t{});
}

}  // namespace quarry
