#include "quarry/calendar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "quarry/base/calendar_text.h"
#include "quarry/base/status.h"

namespace quarry {
namespace {

using calendar::Calendar;
using calendar::Date;
using calendar::FindCalendar;
using calendar::kDay;
using calendar::kMicrosecond;
using calendar::kSecond;
using calendar::ParseDate;
using calendar::ParseUnits;

__extension__ typedef __int128 Int128;  // Nanoseconds of 10^9 years need 85 bits.

/// Units in their calendar.
struct Axis {
  std::int64_t unit = 0;  ///< [ns]; 0 for months, which have no fixed length
  int months = 0;
  Calendar calendar = Calendar::kStandard;
  bool has_reference = false;
  Int128 reference =
      0;  ///< [ns] since the Julian day 0, or since the year 0 of a calendar that has no such day
};

// ---- Days

constexpr std::int64_t kGregorianBegin = 2299161;  // Julian day of 1582-10-15

/// The same count of days for both rules of leap years.
/// @source E. G. Richards, "Calendars", in Explanatory Supplement to the Astronomical Almanac, 2013,
/// section 15.11
std::int64_t JulianDay(std::int64_t year, int month, int day, bool gregorian) {
  const std::int64_t shifted =
      year + 1'000'000'000 - (month < 3 ? 1 : 0);  // Not negative; a multiple of 400 years.
  const std::int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;  // since 1 March
  if (!gregorian) return 365 * shifted + shifted / 4 + day_of_year - 365'250'000'000 + 1721118;
  return 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 365'242'500'000 +
         1721120;
}

Date DateOfJulianDay(std::int64_t day, bool gregorian) {
  std::int64_t rest = day - (gregorian ? 1721120 - 365'242'500'000 : 1721118 - 365'250'000'000);
  std::int64_t year = -1'000'000'000;
  if (gregorian) {
    year += 400 * (rest / 146097);
    rest %= 146097;
    const std::int64_t century = std::min<std::int64_t>(rest / 36524, 3);  // The last one has a day more.
    year += 100 * century;
    rest -= 36524 * century;
  }
  year += 4 * (rest / 1461);
  rest %= 1461;
  const std::int64_t single = std::min<std::int64_t>(rest / 365, 3);  // The last one has a day more.
  year += single;
  rest -= 365 * single;
  const auto month = static_cast<int>((5 * rest + 2) / 153);  // since March
  Date date;
  date.day = static_cast<int>(rest - (153 * month + 2) / 5 + 1);
  date.month = month < 10 ? month + 3 : month - 9;
  date.year = year + (month < 10 ? 0 : 1);
  return date;
}

/// Calendars whose years are all alike.
struct AlikeYears {
  int days;
  std::array<int, 12> months;
};
constexpr AlikeYears kNoLeapYear = {365, {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}};
constexpr AlikeYears kAllLeapYear = {366, {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}};
constexpr AlikeYears k360DayYear = {360, {30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30}};

const AlikeYears* FindAlikeYears(Calendar calendar) {
  switch (calendar) {
    case Calendar::kNoLeap:
      return &kNoLeapYear;
    case Calendar::kAllLeap:
      return &kAllLeapYear;
    case Calendar::k360Day:
      return &k360DayYear;
    default:
      return nullptr;
  }
}

/// In the calendars that people lived by, the year after 1 BC, "-1", is 1.
bool HasYearZero(Calendar calendar) {
  return calendar != Calendar::kStandard && calendar != Calendar::kJulian;
}

std::int64_t DayNumber(std::int64_t year, int month, int day, Calendar calendar) {
  if (const AlikeYears* years = FindAlikeYears(calendar)) {
    std::int64_t number = year * years->days + day - 1;
    for (int i = 0; i + 1 < month; ++i) number += years->months[i];
    return number;
  }
  const std::int64_t counted = !HasYearZero(calendar) && year < 0 ? year + 1 : year;
  const bool gregorian =
      calendar == Calendar::kProlepticGregorian ||
      (calendar == Calendar::kStandard && JulianDay(counted, month, day, true) >= kGregorianBegin);
  return JulianDay(counted, month, day, gregorian);
}

Date DateOfDayNumber(std::int64_t number, Calendar calendar) {
  if (const AlikeYears* years = FindAlikeYears(calendar)) {
    Date date;
    std::int64_t rest = number % years->days;
    if (rest < 0) rest += years->days;
    date.year = (number - rest) / years->days;
    for (; rest >= years->months[date.month - 1]; ++date.month) rest -= years->months[date.month - 1];
    date.day = static_cast<int>(rest) + 1;
    return date;
  }
  const bool gregorian = calendar == Calendar::kProlepticGregorian ||
                         (calendar == Calendar::kStandard && number >= kGregorianBegin);
  Date date = DateOfJulianDay(number, gregorian);
  if (!HasYearZero(calendar) && date.year < 1) --date.year;
  return date;
}

/// @returns nothing for a day that the calendar does not have: 30 February, or 1582-10-10
std::optional<Int128> MomentOf(const Date& date, Calendar calendar) {
  if (date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31) return std::nullopt;
  if (date.year == 0 && !HasYearZero(calendar)) return std::nullopt;
  const std::int64_t number = DayNumber(date.year, date.month, date.day, calendar);
  const Date back = DateOfDayNumber(number, calendar);
  if (back.year != date.year || back.month != date.month || back.day != date.day) return std::nullopt;
  return static_cast<Int128>(number) * kDay + date.nanoseconds;
}

// ---- Units

Result<Axis> ParseAxis(const TimeUnit& unit) {
  const auto units = ParseUnits(unit.units);
  if (!units) {
    return InvalidArgument(
        "\"{}\" is not a unit of time; write for example \"hours\" or \"days since 2001-01-01\"", unit.units);
  }
  Axis axis;
  axis.unit = units->unit.nanoseconds;
  axis.months = units->unit.months;
  axis.has_reference = !units->reference.empty();
  const auto calendar = FindCalendar(unit.calendar);
  if (!calendar && axis.has_reference)
    return InvalidArgument("the calendar \"{}\" is unknown", unit.calendar);
  if (!axis.has_reference) return axis;
  axis.calendar = *calendar;
  const auto moment = units->date ? MomentOf(*units->date, *calendar) : std::nullopt;
  if (!moment) {
    return InvalidArgument("\"{}\" is not a date of the calendar \"{}\"", units->reference,
                           unit.calendar.empty() ? "standard" : unit.calendar);
  }
  axis.reference = *moment;
  if (axis.calendar == Calendar::k360Day && axis.months > 0) {
    axis.unit = 30 * kDay * axis.months;
    axis.months = 0;
  }
  return axis;
}

bool SameMeaning(const Axis& a, const Axis& b) {
  return a.unit == b.unit && a.months == b.months && a.calendar == b.calendar &&
         a.has_reference == b.has_reference && a.reference == b.reference;
}

/// Where the two calendars have the same dates.
bool IsGregorian(const Axis& axis) {
  return axis.calendar == Calendar::kStandard || axis.calendar == Calendar::kProlepticGregorian;
}

constexpr Int128 kGregorianMoment = static_cast<Int128>(kGregorianBegin) * kDay;

Int128 FloorDivide(Int128 a, Int128 b) { return a / b - (a % b < 0 ? 1 : 0); }

/// `time` units of `from` nanoseconds and `difference` nanoseconds more, in units of `to` nanoseconds.
double Rescale(double time, std::int64_t from, std::int64_t to, Int128 difference) {
  constexpr double kWholeLimit = 4.6e18;
  if (!(std::abs(time) < kWholeLimit)) {
    return time * (static_cast<double>(from) / static_cast<double>(to)) +
           static_cast<double>(difference) / static_cast<double>(to);
  }
  // To zero, not down: 1 - 1e-20 is 1.
  const double whole = std::trunc(time);
  const Int128 sum = static_cast<Int128>(static_cast<std::int64_t>(whole)) * from + difference;
  const Int128 quotient = sum / to;
  const double rest = static_cast<double>(sum - quotient * to) + (time - whole) * static_cast<double>(from);
  return static_cast<double>(quotient) + rest / static_cast<double>(to);
}

/// A moment to the nearest microsecond, or as far as the number says: 0.1 days before a date of long ago are
/// some microseconds more or less.
std::optional<Int128> MomentOfTime(double time, const Axis& axis) {
  constexpr double kLongest = 3e25;  // [ns] almost 10^9 years
  if (axis.months > 0 || !(std::abs(time) * static_cast<double>(axis.unit) < kLongest)) return std::nullopt;
  const double whole = std::floor(time);
  const double rest = (time - whole) * static_cast<double>(axis.unit);
  const Int128 moment = axis.reference + static_cast<Int128>(whole) * axis.unit + std::llround(rest);
  if (std::abs(static_cast<double>(moment)) > kLongest) return std::nullopt;
  const double spacing =
      (std::nextafter(std::abs(time), HUGE_VAL) - std::abs(time)) * static_cast<double>(axis.unit);
  std::int64_t grid = kMicrosecond;
  while (static_cast<double>(grid) < spacing && grid < kSecond) grid *= 10;
  return FloorDivide(moment + grid / 2, grid) * grid;
}

Status CannotConvert(const TimeUnit& from, const TimeUnit& to, std::string_view why) {
  return InvalidArgument("times in \"{}\" cannot become times in \"{}\": {}", ToString(from), ToString(to),
                         why);
}

}  // namespace

std::string ToString(const TimeUnit& unit) {
  if (unit.units.empty()) return "no unit";
  return unit.calendar.empty() ? unit.units : fmt::format("{} ({})", unit.units, unit.calendar);
}

std::vector<std::pair<std::string, std::string>> TimeAttributes(const TimeUnit& unit) {
  std::vector<std::pair<std::string, std::string>> attributes = {{"long_name", "physical time"}};
  const bool dated = HasReferenceDate(unit.units);
  if (dated) attributes.emplace_back("standard_name", "time");
  if (!unit.units.empty()) attributes.emplace_back("units", unit.units);
  if (dated || !unit.calendar.empty())
    attributes.emplace_back("calendar", unit.calendar.empty() ? "standard" : unit.calendar);
  return attributes;
}

std::string TimeText(double time, const TimeUnit& unit) {
  if (const auto date = DateOfTime(time, unit)) return *date;
  return unit.units.empty() ? fmt::format("{}", time) : fmt::format("{} {}", time, ToString(unit));
}

bool IsTimeUnit(std::string_view units) { return ParseUnits(units).has_value(); }

bool HasReferenceDate(std::string_view units) {
  const auto parsed = ParseUnits(units);
  return parsed && parsed->date;
}

Result<double> ConvertTime(double time, const TimeUnit& from, const TimeUnit& to) {
  if (from == to) return time;
  const auto source = ParseAxis(from);
  if (!source.ok()) return CannotConvert(from, to, source.status().message());
  const auto target = ParseAxis(to);
  if (!target.ok()) return CannotConvert(from, to, target.status().message());
  if (SameMeaning(*source, *target)) return time;
  if (source->has_reference != target->has_reference)
    return CannotConvert(from, to, "only one of them has a reference date");
  if (source->months != target->months || source->months > 0)
    return CannotConvert(from, to, "months and years have no fixed length");
  if (source->calendar != target->calendar) {
    const bool alike = IsGregorian(*source) && IsGregorian(*target);
    if (!alike) return CannotConvert(from, to, "their calendars differ");
    const auto moment = MomentOfTime(time, *source);
    if (source->reference < kGregorianMoment || target->reference < kGregorianMoment || !moment ||
        *moment < kGregorianMoment)
      return CannotConvert(from, to, "their calendars differ before 1582-10-15");
  }
  if (!std::isfinite(time)) return time;
  return Rescale(time, source->unit, target->unit, source->reference - target->reference);
}

Result<double> TimeOfDate(std::string_view date, const TimeUnit& unit) {
  QUARRY_ASSIGN_OR_RETURN(const Axis axis, ParseAxis(unit));
  if (!axis.has_reference || axis.months > 0) {
    return InvalidArgument(
        "\"{}\" has no reference date for the date \"{}\"; write for example \"days since 2001-01-01\"",
        ToString(unit), date);
  }
  const auto parsed = ParseDate(date);
  const auto moment = parsed ? MomentOf(*parsed, axis.calendar) : std::nullopt;
  if (!moment) {
    return InvalidArgument("\"{}\" is not a date of the calendar \"{}\"", date,
                           unit.calendar.empty() ? "standard" : unit.calendar);
  }
  return Rescale(0, 1, axis.unit, *moment - axis.reference);
}

std::optional<std::string> DateOfTime(double time, const TimeUnit& unit) {
  const auto axis = ParseAxis(unit);
  if (!axis.ok() || !axis->has_reference) return std::nullopt;
  const auto moment = MomentOfTime(time, *axis);
  if (!moment) return std::nullopt;
  const auto number = static_cast<std::int64_t>(FloorDivide(*moment, kDay));
  const Date date = DateOfDayNumber(number, axis->calendar);
  const auto clock = static_cast<std::int64_t>(*moment - static_cast<Int128>(number) * kDay);
  const std::int64_t seconds = clock / kSecond;
  std::string text =
      fmt::format("{}{:04}-{:02}-{:02} {:02}:{:02}:{:02}", date.year < 0 ? "-" : "", std::abs(date.year),
                  date.month, date.day, seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const std::int64_t rest = clock % kSecond / kMicrosecond; rest > 0) {
    text += fmt::format(".{:06}", rest);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

}  // namespace quarry
