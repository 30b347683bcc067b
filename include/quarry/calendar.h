#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/result.h"

/// Times as the CF conventions have them: a number, a unit and a calendar.
/// @source CF conventions 1.11, section 4.4, "Time Coordinate"
namespace quarry {

/// The meaning of a time's number: "days since 2001-01-01" in the calendar "noleap", or "s", a length of
/// time without a first moment. Both are text as the source has it.
struct TimeUnit {
  std::string units;     ///< empty: unknown
  std::string calendar;  ///< empty: the standard one, which matters only with a reference date

  friend bool operator==(const TimeUnit&, const TimeUnit&) = default;
};

/// "days since 2001-01-01 (noleap)", or "no unit": for messages.
std::string ToString(const TimeUnit& unit);

/// Whether text is a unit of time: "days since 2001-01-01", "hours", "s".
bool IsTimeUnit(std::string_view units);

/// Whether text has a reference date: "days since 2001-01-01".
bool HasReferenceDate(std::string_view units);

/// A time in another unit. Units of the same meaning keep every bit of the number.
/// @errors kInvalidArgument: one of them is unknown, their calendars differ, or only one has a reference
/// date; the text names both
Result<double> ConvertTime(double time, const TimeUnit& from, const TimeUnit& to);

/// The time of a date as people and WRF write it, "2019-07-04_12:00:00" or "2019-07-04T12:00:00Z".
/// @errors kInvalidArgument: no date of the calendar, or `unit` has no reference date
Result<double> TimeOfDate(std::string_view date, const TimeUnit& unit);

/// "2001-02-01 12:00:00" in the calendar of the unit; nothing for units without a reference date.
std::optional<std::string> DateOfTime(double time, const TimeUnit& unit);

/// The attributes of a variable of such times, names and values, as CF has them.
std::vector<std::pair<std::string, std::string>> TimeAttributes(const TimeUnit& unit);

/// For people: the date of a time, or the number with its unit: "3 s", "3".
std::string TimeText(double time, const TimeUnit& unit);

}  // namespace quarry
