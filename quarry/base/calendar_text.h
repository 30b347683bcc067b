#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// Dates, units of time and names of calendars as text.
namespace quarry::calendar {

inline constexpr std::int64_t kSecond = 1'000'000'000;  // [ns], as all lengths below
inline constexpr std::int64_t kDay = 86400 * kSecond;
inline constexpr std::int64_t kMicrosecond = 1000;
inline constexpr std::int64_t kMillisecond = 1'000'000;

enum class Calendar : std::uint8_t { kStandard, kProlepticGregorian, kJulian, kNoLeap, kAllLeap, k360Day };

/// A word for a length of time: so many nanoseconds, or so many months of the calendar.
struct UnitName {
  std::string_view name;
  std::int64_t nanoseconds;
  int months = 0;
  bool is_symbol = false;  ///< "s" is a second, and "S" is none
};

struct Date {
  std::int64_t year = 0;
  int month = 1;
  int day = 1;
  std::int64_t nanoseconds =
      0;  ///< since midnight; minus the offset of the time zone, so perhaps of another day
};

/// A text of units taken apart, as far as no calendar is needed.
struct Units {
  UnitName unit;
  std::string_view reference;  ///< text behind "since"; empty without one
  std::optional<Date> date;    ///< date of `reference`, if it is a date
};

/// A date as CF, ISO 8601 and WRF write it. Whether the calendar has the day is another question.
/// @source UDUNITS-2, "Grammar", TIMESTAMP; CF conventions 1.11, section 4.4
std::optional<Date> ParseDate(std::string_view text);

std::optional<Units> ParseUnits(std::string_view text);

std::optional<Calendar> FindCalendar(std::string_view name);

}  // namespace quarry::calendar
