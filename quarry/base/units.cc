#include "quarry/base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace quarry {

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit;
  for (const char c : std::string_view(end, text.data() + text.size() - end)) {
    if (!std::isspace(static_cast<unsigned char>(c)))
      unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view kPrefixes = "KMGTPE";
  int power = 0;
  bool unit_known = unit.empty() || unit == "B";
  if (!unit_known && kPrefixes.find(unit[0]) != std::string_view::npos) {
    power = static_cast<int>(kPrefixes.find(unit[0])) + 1;
    const std::string rest = unit.substr(1);
    unit_known = rest.empty() || rest == "B" || rest == "IB";
  }
  const double bytes = std::ldexp(value, 10 * power);
  if (error != std::errc() || !unit_known || !(value >= 0) || bytes >= 9e18) {
    return InvalidArgument("\"{}\" is not a size; write for example 512MiB or 2GiB", text);
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace quarry
