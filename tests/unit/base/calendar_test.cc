#include "quarry/calendar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quarry {
namespace {

struct Case {
  const char* calendar;
  const char* units;
  const char* date;
  double time;
};
constexpr Case kCases[] = {
#include "calendar_cases.inc"
};

std::string Message(const Result<double>& result) {
  return result.ok() ? "converted" : result.status().message();
}

double Converted(double time, const TimeUnit& from, const TimeUnit& to) {
  const auto result = ConvertTime(time, from, to);
  EXPECT_TRUE(result.ok()) << Message(result);
  return result.ok() ? *result : std::nan("");
}

TEST(Calendar, HasTheDatesAndTimesOfCftime) {
  for (const Case& c : kCases) {
    const TimeUnit unit = {c.units, c.calendar};

    const auto time = TimeOfDate(c.date, unit);
    ASSERT_TRUE(time.ok()) << time.status().message();
    EXPECT_DOUBLE_EQ(*time, c.time) << c.date << " in " << ToString(unit);
    EXPECT_EQ(DateOfTime(c.time, unit).value_or("none"), c.date) << c.time << " in " << ToString(unit);
  }
}

TEST(Calendar, ConvertsBetweenTheUnitsAndReferenceDatesOfACalendar) {
  for (std::size_t i = 1; i < std::size(kCases); ++i) {
    const Case& c = kCases[i];
    const Case& other = kCases[i - 1];
    if (std::string_view(c.calendar) != other.calendar) continue;
    const TimeUnit unit = {c.units, c.calendar};
    const TimeUnit target = {other.units, other.calendar};

    const double expected = *TimeOfDate(c.date, target);
    const double slack = std::abs(*TimeOfDate("2000-01-01", target)) * 1e-15 + std::abs(expected) * 1e-15;
    EXPECT_NEAR(Converted(c.time, unit, target), expected, slack) << c.date << " in " << ToString(target);
  }
}

TEST(ConvertTime, CountsDaysOfTheCalendar) {
  // Three years, of which 2004 has 366 days: 3 * 365 + 1, and 3 * 360.
  EXPECT_EQ(Converted(0.5, {"days since 2004-01-01", "standard"}, {"days since 2001-01-01", ""}), 1095.5);
  EXPECT_EQ(Converted(0.5, {"days since 2005-01-01", ""}, {"days since 2001-01-01", ""}), 1461.5);
  EXPECT_EQ(Converted(0.5, {"days since 2005-01-01", "noleap"}, {"hours since 2001-01-01", "365_day"}),
            1460.5 * 24);
  EXPECT_EQ(Converted(0.5, {"days since 2005-01-01", "all_leap"}, {"days since 2001-01-01", "366_day"}),
            1464.5);
  EXPECT_EQ(Converted(0.5, {"days since 2005-01-01", "360_day"}, {"days since 2001-01-01", "360_day"}),
            1440.5);
  EXPECT_EQ(Converted(2, {"months since 2005-01-01", "360_day"}, {"days since 2005-01-01", "360_day"}), 60);
  EXPECT_EQ(Converted(0, {"days since 1582-10-15", ""}, {"days since 1582-10-04", ""}), 1)
      << "ten days never were";
}

TEST(ConvertTime, KeepsEveryBitOfUnitsOfTheSameMeaning) {
  for (const double time : {0.1, -1e-300, 1e300, 123456.789, -0.0, std::numeric_limits<double>::infinity()}) {
    for (const auto& [from, to] :
         {std::pair<TimeUnit, TimeUnit>{{"days since 1800-1-1", "noleap"},
                                        {"d since 1800-01-01T00:00:00Z", "365_day"}},
          {{"Hours since 2001-01-01 00:00:0.0", ""}, {"hr since 2001-01-01 01:00 +01:00", "gregorian"}},
          {{"s", "noleap"}, {"Seconds", ""}},
          {{"years since 2000-01-01", ""}, {"yr since 2000-01-01", "standard"}},
          {{"steps", ""}, {"steps", ""}}}) {
      const double converted = Converted(time, from, to);
      EXPECT_EQ(std::signbit(converted), std::signbit(time));
      EXPECT_EQ(converted, time) << ToString(from) << ", " << ToString(to);
    }
  }
  EXPECT_TRUE(std::isnan(Converted(std::nan(""), {"days", ""}, {"hours", ""})));
}

TEST(ConvertTime, RoundsOnce) {
  EXPECT_EQ(Converted(0.1, {"days", ""}, {"hours", ""}), 2.4);
  EXPECT_EQ(Converted(36, {"hours", ""}, {"days", ""}), 1.5);
  EXPECT_EQ(Converted(1, {"weeks", ""}, {"ns", ""}), 604800e9);
  EXPECT_EQ(Converted(-1, {"ns", ""}, {"ms", ""}), -1e-6);
  EXPECT_EQ(Converted(1e300, {"weeks", ""}, {"days", ""}), 7e300);
  // Nanoseconds since 1970, as pandas has them: 52 years, of which 13 have a day more, and 2^53 is less.
  EXPECT_EQ(Converted(1640995200e9, {"nanoseconds since 1970-01-01", "proleptic_gregorian"},
                      {"days since 2022-01-01", ""}),
            0);
}

TEST(ConvertTime, RefusesWhatHasNoAnswerAndNamesBoth) {
  const auto message = [](const TimeUnit& from, const TimeUnit& to) {
    return Message(ConvertTime(1, from, to));
  };

  EXPECT_EQ(message({"days since 2001-01-01", "noleap"}, {"days since 2001-01-01", "standard"}),
            "times in \"days since 2001-01-01 (noleap)\" cannot become times in \"days since 2001-01-01 "
            "(standard)\": "
            "their calendars differ");
  EXPECT_EQ(message({"days", ""}, {"days since 2001-01-01", ""}),
            "times in \"days\" cannot become times in \"days since 2001-01-01\": only one of them has a "
            "reference date");
  EXPECT_EQ(message({"months since 2001-01-01", ""}, {"days since 2001-01-01", ""}),
            "times in \"months since 2001-01-01\" cannot become times in \"days since 2001-01-01\": months "
            "and years have "
            "no fixed length");
  EXPECT_EQ(message({"days since 2001-01-01", "mayan"}, {"hours since 2001-01-01", "mayan"}),
            "times in \"days since 2001-01-01 (mayan)\" cannot become times in \"hours since 2001-01-01 "
            "(mayan)\": the "
            "calendar \"mayan\" is unknown");
  EXPECT_EQ(
      message({"", ""}, {"s", ""}),
      "times in \"no unit\" cannot become times in \"s\": \"\" is not a unit of time; write for example "
      "\"hours\" or "
      "\"days since 2001-01-01\"");
  EXPECT_NE(message({"days since 2001-02-29", ""}, {"days since 2001-01-01", ""})
                .find("\"2001-02-29\" is not a date of the calendar \"standard\""),
            std::string::npos);
}

TEST(ConvertTime, TakesTheTwoGregorianCalendarsForOneAfterTheChange) {
  const TimeUnit standard = {"days since 1990-01-01", "standard"};
  const TimeUnit proleptic = {"days since 2000-01-01", "proleptic_gregorian"};
  const TimeUnit old = {"days since 1500-01-01", "standard"};

  EXPECT_EQ(Converted(3652, standard, proleptic), 0);
  EXPECT_EQ(Converted(0, proleptic, standard), 3652);
  EXPECT_NE(Message(ConvertTime(-200000, standard, proleptic)).find("differ before 1582-10-15"),
            std::string::npos);
  EXPECT_NE(Message(ConvertTime(200000, old, proleptic)).find("differ before 1582-10-15"), std::string::npos);
}

TEST(TimeUnits, AreKnownInTheSpellingsOfUdunits) {
  for (const char* text : {"s",
                           "sec",
                           "secs",
                           "Second",
                           "seconds",
                           "ms",
                           "msec",
                           "milliseconds",
                           "us",
                           "\u00b5s",
                           "\u03bcs",
                           "microsecond",
                           "ns",
                           "nanoseconds",
                           "min",
                           "mins",
                           "minutes",
                           "h",
                           "hr",
                           "hrs",
                           "Hours",
                           "d",
                           "day",
                           "days",
                           "week",
                           "weeks",
                           "month",
                           "years",
                           "yr",
                           " days since 2001-01-01 ",
                           "days  since  1-1-1",
                           "DAYS SINCE 0000-00-00",
                           "days since start"})
    EXPECT_TRUE(IsTimeUnit(text)) << text;
  for (const char* text : {"", "m", "S", "Ms", "K", "degrees_east", "day as %Y%m%d.%f", "since 2001-01-01",
                           "days since", "days from 2001-01-01", "ss"})
    EXPECT_FALSE(IsTimeUnit(text)) << text;
  EXPECT_TRUE(HasReferenceDate("days since 2001-01-01"));
  EXPECT_FALSE(HasReferenceDate("days"));
  EXPECT_FALSE(HasReferenceDate("days since start"));
}

TEST(ReferenceDates, AreReadAsCfWritesThem) {
  const auto first = [](const std::string& date) {
    return DateOfTime(0, {"seconds since " + date, ""}).value_or("none");
  };

  for (const char* text :
       {"1800-1-1", "1800-01-01", "1800", "1800-01", "1800-01-01 00:00:00", "1800-01-01T00:00:00Z",
        "1800-01-01 00:00:0.0", "1800-1-1 0:0", "1800-01-01 00:00:00 UTC", "1800-01-01 00:00:00.000 +00:00",
        "1800-01-01_00:00:00", "1800-01-01 01:00:00+01:00", "1799-12-31 18:00:00 -6:00",
        "1800-01-01 00:00 0:00", "+1800-01-01 0"})
    EXPECT_EQ(first(text), "1800-01-01 00:00:00") << text;
  EXPECT_EQ(first("1992-10-8 15:15:42.5 -6:00"), "1992-10-08 21:15:42.5") << "the example of CF";
  EXPECT_EQ(first("-5-03-01"), "-0005-03-01 00:00:00");
  for (const char* text : {"start", "2001-13-01", "2001-02-30", "2001-00-01", "2001-01-01 24:00",
                           "2001-01-01 12:60", "2001-01-01 EST", "0000-01-01", "1582-10-10",
                           "2001-01-01 12:00:00 +1:75", "99999999999-01-01", "2001/01/01"})
    EXPECT_EQ(first(text), "none") << text;
}

TEST(DateOfTime, SaysFractionsOfSecondsAndNothingWithoutADate) {
  const auto date = [](double time, const TimeUnit& unit) { return DateOfTime(time, unit).value_or("none"); };

  EXPECT_EQ(date(0.25, {"s since 2001-01-01", ""}), "2001-01-01 00:00:00.25");
  EXPECT_EQ(date(-1e-6, {"s since 2001-01-01", ""}), "2000-12-31 23:59:59.999999");
  EXPECT_EQ(date(31.5, {"days since 2001-02-01", "360_day"}), "2001-03-02 12:00:00");
  EXPECT_EQ(date(59, {"days since 2001-01-01", "all_leap"}), "2001-02-29 00:00:00");
  for (const TimeUnit& unit :
       {TimeUnit{"s", ""}, {"months since 2001-01-01", ""}, {"days since 2001-01-01", "mayan"}, {"", ""}})
    EXPECT_EQ(date(1, unit), "none") << ToString(unit);
  for (const double time : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300, -1e18})
    EXPECT_EQ(date(time, {"days since 2001-01-01", ""}), "none") << time;
}

TEST(TimeOfDate, ReadsTheDatesOfWrf) {
  const TimeUnit unit = {"hours since 2019-07-01", ""};

  EXPECT_EQ(*TimeOfDate("2019-07-04_12:00:00", unit), 84);
  EXPECT_EQ(*TimeOfDate("2019-07-04T12:00:00Z", unit), 84);
  EXPECT_EQ(Message(TimeOfDate("2019-02-30", unit)),
            "\"2019-02-30\" is not a date of the calendar \"standard\"");
  EXPECT_EQ(Message(TimeOfDate("2019-07-04", {"hours", ""})),
            "\"hours\" has no reference date for the date \"2019-07-04\"; write for example \"days since "
            "2001-01-01\"");
}

TEST(TimeUnits, AreAttributesOfCf) {
  using Attributes = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(TimeAttributes({}), (Attributes{{"long_name", "physical time"}}));
  EXPECT_EQ(TimeAttributes({"s", ""}), (Attributes{{"long_name", "physical time"}, {"units", "s"}}));
  EXPECT_EQ(TimeAttributes({"days since 2001-01-01", ""}), (Attributes{{"long_name", "physical time"},
                                                                       {"standard_name", "time"},
                                                                       {"units", "days since 2001-01-01"},
                                                                       {"calendar", "standard"}}));
  EXPECT_EQ(TimeAttributes({"hours since 2001-01-01", "noleap"}).back(),
            (std::pair<std::string, std::string>("calendar", "noleap")));
}

TEST(TimeUnits, HaveWordsForMessages) {
  EXPECT_EQ(ToString(TimeUnit{}), "no unit");
  EXPECT_EQ(ToString({"s", ""}), "s");
  EXPECT_EQ(ToString({"days since 2001-01-01", "noleap"}), "days since 2001-01-01 (noleap)");
  EXPECT_EQ(TimeText(59, {"days since 2001-01-01", "noleap"}), "2001-03-01 00:00:00");
  EXPECT_EQ(TimeText(1.5, {"months since 2001-01-01", ""}), "1.5 months since 2001-01-01");
  EXPECT_EQ(TimeText(0.25, {"s", ""}), "0.25 s");
  EXPECT_EQ(TimeText(0.1, {}), "0.1");
}

}  // namespace
}  // namespace quarry
