#!/usr/bin/env python3
"""Counts how costs grow: calls, bytes, peak memory and messages at two sizes, over steps, patches, fields, datasets and
ranks. Fails where a number grows faster than rows.py allows. Nothing is timed, so other work does not matter.

Needs the built programs (scripts/build.sh) and strace; rows of the Python package need that too (scripts/build.sh
python). --small is a test. The long form writes results.json and table.md into --out, where the datasets stay for the
next run.

Example, the test:                  benchmarks/scale/run.py --small
Example, the table of the README:   benchmarks/scale/run.py --sizes steps=1000,10000
Example, the largest:               benchmarks/scale/run.py --rows one-patch --sizes patches=1000000,10000000
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from common import ROOT, say, source_version, table  # noqa: E402
from counting import ProgramError, can_count  # noqa: E402
from made import Maker, edge_of, patches_of  # noqa: E402
from rows import ROWS, Bench, Counts, Limit, Memory, MissingError, Row  # noqa: E402

Sizes = dict[str, tuple[int, int]]

SMALL: Sizes = {"steps": (200, 400), "patches": (50_000, 200_000), "fields": (50, 100), "datasets": (20, 40),
                "ranks": (100, 1000)}
LONG: Sizes = {"steps": (10_000, 100_000), "patches": (100_000, 1_000_000), "fields": (100, 1000),
               "datasets": (1000, 10_000), "ranks": (10_000, 100_000)}
SMALL_MEMORY, LONG_MEMORY = Memory("32MiB", "4MiB"), Memory("64MiB", "64MiB")
SKIPPED = 77
"""ctest shows a test that ends with this as skipped."""


@dataclasses.dataclass(frozen=True)
class Number:
    """One number of a row at both sizes."""

    row: str
    over: str
    what: str
    sizes: tuple[int, int]
    values: tuple[float, float]
    limit: Limit

    @property
    def growth(self) -> float:
        """By the measure of the limit: a slope, or so much with one more of the size."""
        before, after = self.values
        if self.limit.slope is None:
            return (after - before) / (self.sizes[1] - self.sizes[0])
        if before == after:
            return 0
        if min(before, after) <= 0:
            return math.inf if after > before else -math.inf
        return math.log(after / before) / math.log(self.sizes[1] / self.sizes[0])

    @property
    def most(self) -> float:
        """The growth that is allowed."""
        return self.limit.slope if self.limit.slope is not None else self.limit.each or 0

    @property
    def holds(self) -> bool:
        """Whether it grows no faster than allowed."""
        return self.growth <= self.most

    @property
    def unit(self) -> str:
        """The unit of the growth."""
        return "" if self.limit.slope is not None else " each"

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.holds:
            return "grows too fast"
        if self.limit.reach is None or self.sizes[1] < 0.99 * self.limit.at:
            return ""
        return "reached" if self.values[1] <= self.limit.reach else "missed"

    def complaint(self) -> str:
        """One line about a number that does not hold."""
        what = f"a slope of {self.growth:.2f}" if self.limit.slope is not None else text(self.growth) + self.unit
        return (f"{self.row}: {self.what}: {text(self.values[0])} at {self.sizes[0]:,} {self.over}, "
                f"{text(self.values[1])} at {self.sizes[1]:,}: {what}, at most {self.most:g} is allowed")


def measure(row: Row, bench: Bench, sizes: tuple[int, int]) -> list[Number]:
    """All numbers of a row."""
    counted: list[Counts] = []
    for size in sizes:
        say(f"{row.name}: {size:,} {row.over}")
        counted.append(row.measure(bench, size))
    exact = sizes if row.over != "patches" else (patches_of(edge_of(sizes[0])), patches_of(edge_of(sizes[1])))
    if any(counts.keys() != row.limits.keys() for counts in counted):
        raise AssertionError(f"{row.name} counts {list(counted[0])}, and has limits for {list(row.limits)}")
    return [Number(row.name, row.over, what, exact, (counted[0][what], counted[1][what]), limit)
            for what, limit in row.limits.items()]


def text(value: float) -> str:
    """A count, or a mean of counts."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def tables(numbers: list[Number]) -> str:
    """One table for each pair of sizes."""
    parts = []
    for over, sizes in dict.fromkeys((number.over, number.sizes) for number in numbers):
        lines = []
        last = ""
        for number in numbers:
            if (number.over, number.sizes) != (over, sizes):
                continue
            reach = "" if number.limit.reach is None else f"{text(number.limit.reach)} at {number.limit.at:,}"
            row = next(row for row in ROWS if row.name == number.row)
            lines.append([f"**{row.name}**: {row.title}" if row.name != last else "", number.what,
                          *map(text, number.values), text(number.growth) + number.unit if number.unit else
                          f"{number.growth:.2f}", f"{number.most:g}", reach, number.verdict])
            last = row.name
        parts.append(table(["", "number", *(f"{size:,} {over}" for size in sizes), "growth", "allowed", "to reach", ""],
                           lines))
    return "\n".join(parts)


def as_json(number: Number) -> dict[str, Any]:
    """For results.json."""
    return {"row": number.row, "over": number.over, "what": number.what, "sizes": number.sizes, "values": number.values,
            "growth": number.growth, "allowed": number.most, "unit": number.unit.strip() or "slope",
            "reach": number.limit.reach, "at": number.limit.at, "verdict": number.verdict}


def parse_sizes(text: str) -> tuple[str, tuple[int, int]]:
    """OVER=SMALLER,LARGER."""
    over, _, pair = text.partition("=")
    try:
        small, large = map(int, pair.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"\"{text}\" is not like steps=1000,10000") from None
    if over not in LONG or not 0 < small < large:
        raise argparse.ArgumentTypeError(f"\"{text}\" is not like steps=1000,10000, with one of {', '.join(LONG)}")
    return over, (small, large)


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--small", action="store_true", help="small sizes, in a temporary folder: for tests")
    parser.add_argument("--rows", nargs="+", metavar="NAME", choices=[*names, *LONG],
                        help=f"some of {', '.join(names)}; or all that grow with {', '.join(LONG)}; others keep their "
                        "figures")
    parser.add_argument("--sizes", nargs="+", type=parse_sizes, default=[], metavar="OVER=SMALLER,LARGER",
                        help="other sizes")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-scale", help="for everything")
    parser.add_argument("--bin", type=Path, default=Path(os.environ.get("QUARRY_BIN") or ROOT / "build/release/bin"),
                        help="folder of the programs")
    parser.add_argument("--python", type=Path, default=ROOT / "build/python-environment/bin/python",
                        help="interpreter of the Python package, which is beside --bin")
    parser.add_argument("--no-python", action="store_true", help="leave out the rows of the Python package")
    return parser.parse_args()


def measure_all(args: argparse.Namespace, folder: Path) -> tuple[list[Number], list[str]]:
    """The numbers of all rows that are wanted, and the rows that cannot be measured here, with their reasons."""
    python = args.python if args.python.exists() and (args.bin.parent / "python/quarry").exists() else None
    memory = SMALL_MEMORY if args.small else LONG_MEMORY
    bench = Bench(args.bin.resolve(), python, memory, folder, Maker(args.bin, folder / "datasets"))
    sizes = (SMALL if args.small else LONG) | dict(args.sizes)
    numbers, missing = [], []
    for row in ROWS:
        if args.rows and not {row.name, row.over} & set(args.rows):
            continue
        if row.package and args.no_python:
            continue
        try:
            numbers += measure(row, bench, sizes[row.over])
        except MissingError as error:
            missing.append(f"{row.name} is left out: {error}")
    return numbers, missing


def from_json(entry: dict[str, Any]) -> Number | None:
    """A number of an earlier run, with the limit of now; none: it is not counted any more."""
    limits = {row.name: row.limits for row in ROWS}.get(entry["row"], {})
    if entry["what"] not in limits:
        return None
    (small, large), (before, after) = entry["sizes"], entry["values"]
    return Number(entry["row"], entry["over"], entry["what"], (small, large), (before, after), limits[entry["what"]])


def save(args: argparse.Namespace, numbers: list[Number]) -> None:
    """Replaces the rows that were measured; the table has all."""
    file = args.out / "results.json"
    measured = {number.row for number in numbers}
    earlier = json.loads(file.read_text())["numbers"] if file.exists() else []
    source = {"source": source_version(), "date": datetime.date.today().isoformat()}
    entries = [entry for entry in earlier if entry["row"] not in measured]
    entries += [as_json(number) | source for number in numbers]
    file.write_text(json.dumps({"numbers": entries}, indent=1) + "\n")
    order = [row.name for row in ROWS]
    shown = [number for number in map(from_json, entries) if number is not None]
    (args.out / "table.md").write_text(tables(sorted(shown, key=lambda number: order.index(number.row))))


def main() -> int:
    """See the top."""
    args = parse_arguments()
    if not can_count():
        print("run.py: strace is not installed, or may not trace", file=sys.stderr)
        return 1 if os.environ.get("QUARRY_REQUIRE_DATA") == "1" else SKIPPED
    try:
        return count(args)
    except ProgramError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1


def count(args: argparse.Namespace) -> int:
    """Counts, and tells the tables and what is wrong."""
    if args.small:
        with tempfile.TemporaryDirectory(prefix="quarry-scale-", ignore_cleanup_errors=True) as folder:
            numbers, missing = measure_all(args, Path(folder))
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        numbers, missing = measure_all(args, args.out.resolve())
        save(args, numbers)
    print(tables(numbers))
    for reason in missing:
        say(reason)
    wrong = [number for number in numbers if not number.holds]
    for number in wrong:
        print(f"run.py: {number.complaint()}", file=sys.stderr)
    if wrong or (missing and os.environ.get("QUARRY_REQUIRE_DATA") == "1"):
        return 1
    return SKIPPED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
