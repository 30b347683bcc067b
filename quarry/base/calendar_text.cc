#include "quarry/base/calendar_text.h"

#include <array>
#include <charconv>

namespace quarry::calendar {
namespace {

struct CalendarName {
  std::string_view name;
  Calendar calendar;
};
constexpr std::array kCalendars = {
    CalendarName{"", Calendar::kStandard},
    CalendarName{"standard", Calendar::kStandard},
    CalendarName{"gregorian", Calendar::kStandard},
    CalendarName{"proleptic_gregorian", Calendar::kProlepticGregorian},
    CalendarName{"julian", Calendar::kJulian},
    CalendarName{"noleap", Calendar::kNoLeap},
    CalendarName{"365_day", Calendar::kNoLeap},
    CalendarName{"all_leap", Calendar::kAllLeap},
    CalendarName{"366_day", Calendar::kAllLeap},
    CalendarName{"360_day", Calendar::k360Day},
};

constexpr std::array kUnits = {
    UnitName{"nanosecond", 1},
    UnitName{"nanosec", 1},
    UnitName{"ns", 1, 0, true},
    UnitName{"nsec", 1},
    UnitName{"microsecond", kMicrosecond},
    UnitName{"microsec", kMicrosecond},
    UnitName{"us", kMicrosecond, 0, true},
    UnitName{"usec", kMicrosecond},
    UnitName{"\u00b5s", kMicrosecond, 0, true},  // micro sign
    UnitName{"\u03bcs", kMicrosecond, 0, true},  // Greek mu
    UnitName{"millisecond", kMillisecond},
    UnitName{"millisec", kMillisecond},
    UnitName{"ms", kMillisecond, 0, true},
    UnitName{"msec", kMillisecond},
    UnitName{"second", kSecond},
    UnitName{"sec", kSecond},
    UnitName{"s", kSecond, 0, true},
    UnitName{"minute", 60 * kSecond},
    UnitName{"min", 60 * kSecond},
    UnitName{"hour", 3600 * kSecond},
    UnitName{"hr", 3600 * kSecond},
    UnitName{"h", 3600 * kSecond, 0, true},
    UnitName{"day", kDay},
    UnitName{"d", kDay, 0, true},
    UnitName{"week", 7 * kDay},
    UnitName{"common_year", 365 * kDay},
    UnitName{"month", 0, 1},
    UnitName{"year", 0, 12},
    UnitName{"yr", 0, 12},
};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool SameWord(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (Lower(a[i]) != Lower(b[i])) return false;
  return true;
}

/// Removes the first word of the text, up to a space.
std::string_view TakeWord(std::string_view* text) {
  *text = Trimmed(*text);
  std::size_t end = 0;
  while (end < text->size() && !IsSpace((*text)[end])) ++end;
  const std::string_view word = text->substr(0, end);
  *text = Trimmed(text->substr(end));
  return word;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

/// Removes up to `most` digits; nothing if the text begins with none.
std::optional<std::int64_t> TakeNumber(std::string_view* text, std::size_t most) {
  std::size_t end = 0;
  while (end < text->size() && end < most && IsDigit((*text)[end])) ++end;
  std::int64_t value = 0;
  if (end == 0) return std::nullopt;
  std::from_chars(text->data(), text->data() + end, value);
  text->remove_prefix(end);
  return value;
}

/// ".25" as nanoseconds; digits beyond them are not counted.
std::int64_t TakeFraction(std::string_view* text) {
  if (!Take(text, '.')) return 0;
  std::int64_t unit = kSecond / 10;
  std::int64_t sum = 0;
  for (; !text->empty() && IsDigit(text->front()); text->remove_prefix(1), unit /= 10)
    sum += unit * (text->front() - '0');
  return sum;
}

/// "12", "12:30", "12:30:15.5" as nanoseconds since midnight.
std::optional<std::int64_t> TakeClock(std::string_view* text) {
  const auto hour = TakeNumber(text, 2);
  if (!hour || *hour > 23) return std::nullopt;
  std::int64_t minute = 0;
  std::int64_t second = 0;
  std::int64_t fraction = 0;
  if (Take(text, ':')) {
    const auto value = TakeNumber(text, 2);
    if (!value || *value > 59) return std::nullopt;
    minute = *value;
    if (Take(text, ':')) {
      const auto whole = TakeNumber(text, 2);
      if (!whole || *whole > 59) return std::nullopt;
      second = *whole;
      fraction = TakeFraction(text);
    }
  }
  return ((*hour * 60 + minute) * 60 + second) * kSecond + fraction;
}

/// "Z", "UTC", "+01:00", "-0600", "-6:00", "0:00" or nothing, as nanoseconds ahead of UTC.
std::optional<std::int64_t> ParseZone(std::string_view text) {
  text = Trimmed(text);
  for (const std::string_view name : {"", "Z", "UTC", "GMT"})
    if (SameWord(text, name)) return 0;
  const bool behind = Take(&text, '-');
  if (!behind) Take(&text, '+');
  const auto hour = TakeNumber(&text, 2);
  Take(&text, ':');
  const auto minute = text.empty() ? 0 : TakeNumber(&text, 2);
  if (!hour || !minute || *minute > 59 || !text.empty()) return std::nullopt;
  const std::int64_t offset = (*hour * 60 + *minute) * 60 * kSecond;
  return behind ? -offset : offset;
}

std::optional<UnitName> FindUnit(std::string_view word) {
  for (const UnitName& unit : kUnits) {
    if (unit.is_symbol ? word == unit.name : SameWord(word, unit.name)) return unit;
    const bool plural = !unit.is_symbol && word.size() == unit.name.size() + 1 && Lower(word.back()) == 's';
    if (plural && SameWord(word.substr(0, unit.name.size()), unit.name)) return unit;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Date> ParseDate(std::string_view text) {
  Date date;
  text = Trimmed(text);
  const bool negative = Take(&text, '-');
  if (!negative) Take(&text, '+');
  const auto year = TakeNumber(&text, 9);
  if (!year) return std::nullopt;
  date.year = negative ? -*year : *year;
  for (int* part : {&date.month, &date.day}) {
    if (!Take(&text, '-')) break;
    const auto value = TakeNumber(&text, 2);
    if (!value) return std::nullopt;
    *part = static_cast<int>(*value);
  }
  const bool separated =
      Take(&text, 'T') || Take(&text, 't') || Take(&text, '_') || (!text.empty() && IsSpace(text.front()));
  text = Trimmed(text);
  if (separated && !text.empty() && IsDigit(text.front())) {
    const auto clock = TakeClock(&text);
    if (!clock) return std::nullopt;
    date.nanoseconds = *clock;
  }
  const auto zone = ParseZone(text);
  if (!zone) return std::nullopt;
  date.nanoseconds -= *zone;
  return date;
}

std::optional<Units> ParseUnits(std::string_view text) {
  const auto unit = FindUnit(TakeWord(&text));
  if (!unit) return std::nullopt;
  Units units{*unit, {}, {}};
  if (text.empty()) return units;
  if (!SameWord(TakeWord(&text), "since") || text.empty()) return std::nullopt;
  units.reference = text;
  units.date = ParseDate(text);
  return units;
}

std::optional<Calendar> FindCalendar(std::string_view name) {
  for (const CalendarName& known : kCalendars)
    if (SameWord(Trimmed(name), known.name)) return known.calendar;
  return std::nullopt;
}

}  // namespace quarry::calendar
