#!/usr/bin/env python3
"""Makes calendar_cases.inc: dates of each calendar and their times, as cftime has them.
Usage: build/python-environment/bin/python tests/unit/base/make_calendar_cases.py > tests/unit/base/calendar_cases.inc"""

import random
import warnings

import cftime

CALENDARS = ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]
UNITS = ["microseconds", "milliseconds", "seconds", "minutes", "hours", "days"]


def random_date(calendar: str, first: int, last: int) -> cftime.datetime:
    while True:
        numbers = [random.randint(first, last), random.randint(1, 12), random.randint(1, 31), random.randint(0, 23)]
        try:
            return cftime.datetime(*numbers, random.choice([0, random.randint(0, 59)]), 0, calendar=calendar)
        except ValueError:  # No such day, or no such year.
            continue


def text(date: cftime.datetime) -> str:
    return f"{'-' if date.year < 0 else ''}{abs(date.year):04}-{date.month:02}-{date.day:02} {date.hour:02}:{date.minute:02}:{date.second:02}"


def main() -> None:
    random.seed(40)
    warnings.simplefilter("ignore")
    print("// Made by make_calendar_cases.py with cftime: calendar, units, date, time.")
    for calendar in CALENDARS:
        for i in range(90):
            first, last = [(1900, 2100), (1400, 1800), (-3000, 9000)][i % 3]
            reference = random_date(calendar, first, last)
            date = random_date(calendar, first, last)
            units = f"{random.choice(UNITS)} since {text(reference)}"
            time = cftime.date2num(date, units, calendar)
            assert cftime.num2date(time, units, calendar) == date or time != int(time)
            print(f'{{"{calendar}", "{units}", "{text(date)}", {float(time)!r}}},')


main()
