#!/usr/bin/env python3
"""Every figure and headline number of the five papers that Quarry is built from: paper, model, measured here, verdict.

    benchmarks/reproduce.py                  # all rows: writes docs/reproduction.md and its plots; minutes
    benchmarks/reproduce.py --only spectrum  # measures one module of benchmarks/reproduction, and prints its rows
    benchmarks/reproduce.py --check          # the rows that are the same on every machine: fails if the page has others
    benchmarks/reproduce.py --check --quick  # without those that take seconds each

Needs the built programs (scripts/build.sh) and mpirun. What is measured needs the Python package too (scripts/build.sh
python), in whose environment it runs; --check needs numpy alone. Progress goes to stderr.
"""

import argparse
import functools
import importlib
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common
from reproduction.running import Row, cores, merged

ENVIRONMENT = common.ROOT / "build" / "python-environment"
PAGE = common.ROOT / "docs" / "reproduction.md"
IMAGES = common.ROOT / "docs" / "images"
PAPERS = {
    "000": "Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts",
    "001": "Marrinan et al., Automated Dynamic Data Redistribution",
    "002": "Czechowski et al., On the Communication Complexity of 3D FFTs and its Implications for Exascale",
    "003": "Robinson et al., Investigating Data Movement Strategies for Distribution of Repartitioned Data",
    "004": "Saule et al., An Out-of-Core Task-based Middleware for Data-Intensive Scientific Computing",
}
# Modules of benchmarks/reproduction, in the order of the page.
MODULES = ("file_system", "fft", "statements", "exchange", "stacks", "in_transit", "spectrum", "out_of_core")

HEADER = ("where", "what", "paper", "model", "measured here", "verdict")
MEASURED = HEADER.index("measured here")

INTRODUCTION = """# The papers, reproduced

This page has {rows} numbers and statements of the five papers that Quarry is built from, beside what our models give
and what is measured here: {processor}, {cores} cores. A model describes the paper's machine. A
measurement is of this machine, so its ratios count, not its seconds. [planning.md](planning.md) and
[benchmarks/reproduction](../benchmarks/reproduction/README.md) explain the models.

The verdicts:

* **agrees**: our number is the paper's, or as close to it as the verdict says. **differs**: it is not.
* **fitted**: constants of the model come from this number, so a small deviation proves nothing.
* **holds**, **does not hold**: what the paper says in words.
* **tested**: a test of this repository has the paper's example.
* **for comparison**: the paper has no such number.
* **built**: the paper suggests it, and Quarry does it.
* **not comparable**, **not reproduced**: the reason follows.

`benchmarks/reproduce.py` writes the page. `benchmarks/reproduce.py --check` fails if a row that is the same on every
machine has changed; its quick rows are the test `docs/reproduction`. The commands below run in the root of the
repository, after these:

```console
$ scripts/build.sh python
$ . scripts/environment.sh
$ export PATH="$PWD/build/release/bin:$PATH"
$ benchmarks/reproduction/file_system.py loads
```

The last line makes `loads/turbulence.json` and the other loads of 000. Most programs print all numbers with `--json`.
"""


def enter_environment() -> None:
    """Continues in the package's environment, which has the libraries that pictures need."""
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        return
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        sys.exit(f"reproduce.py: {python} is missing: run scripts/build.sh python")
    os.execv(python, [str(python), *sys.argv])


def cell(value: Any, unit: str) -> str:
    """A number with its unit, or text."""
    if value is None:
        return ""
    if not numbers(value):
        return str(value)
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1e4 else common.number(value)
    return f"{text} {unit}".strip()


def collect(names: tuple[str, ...], programs: Path, measure: bool, quick: bool = False) -> list[Row]:
    """The rows of some modules. quick: without what a module's own `quick` leaves out."""
    rows: list[Row] = []
    for name in names:
        begin = time.monotonic()
        module = importlib.import_module(f"reproduction.{name}")
        found = module.quick(programs) if quick and hasattr(module, "quick") else module.modelled(programs)
        if measure and hasattr(module, "measured"):
            found = merged(found, module.measured(programs))
        common.say(f"{name}: {len(found)} rows, {time.monotonic() - begin:.0f} s")
        rows += found
    return rows


def in_order(rows: list[Row]) -> list[Row]:
    """By paper; inside a paper by the first appearance of a figure, so that its rows stand together."""
    places = {key: i for i, key in reversed(list(enumerate((row["paper"], row["where"]) for row in rows)))}
    return sorted(rows, key=lambda row: (row["paper"], places[row["paper"], row["where"]]))


def cells(row: Row) -> list[str]:
    """The cells of one line of the table."""
    values = [cell(row[key], row["unit"]) for key in ("paper_value", "model_value", "measured_value")]
    return [row["where"], row["what"], *values, row["verdict"]]


def line(row: Row) -> str:
    """A row as a line of the page."""
    return "| " + " | ".join(cells(row)) + " |"


def unique(values: list[str]) -> list[str]:
    """In the order of their first appearance."""
    return list(dict.fromkeys(values))


def commands(rows: list[Row]) -> list[str]:
    """Each command once, as lines for a shell below the names of its figures."""
    figures: dict[str, list[str]] = {}
    for row in rows:
        for command in row["command"].splitlines():
            figures.setdefault(command, []).append(row["where"])
    lines: list[str] = []
    last = ""
    for command, where in figures.items():
        title = f"# {', '.join(unique(where))}"
        lines += [f"$ {command}"] if title == last else [title, f"$ {command}"]
        last = title
    return lines


def notes(rows: list[Row]) -> list[str]:
    """Each note once, with its rows."""
    noted: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["note"]:
            noted.setdefault((row["where"], row["note"]), []).append(row["what"])
    all_of = {where: [row["what"] for row in rows if row["where"] == where] for where, _ in noted}
    lines = [f"* {where}, {named(whats, all_of[where])}: {note}" for (where, note), whats in noted.items()]
    return [wrapped(line) for line in lines]


def wrapped(item: str) -> str:
    """An item of a list in lines of at most 120 columns."""
    return textwrap.fill(item, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def named(whats: list[str], all_of_figure: list[str]) -> str:
    """Some rows of a figure, in few words."""
    if whats == all_of_figure and len(whats) > 1:
        return "all rows"
    return "; ".join(whats) if len(whats) <= 3 else f"{whats[0]}, and {len(whats) - 1} rows like it"


def footnotes(rows: list[Row]) -> str:
    """Below the table of a paper."""
    text = "\n".join(["Commands:", "", "```console", *commands(rows), "```"]) + "\n"
    return text + ("\n".join(["", "Notes:", "", *notes(rows)]) + "\n" if notes(rows) else "")


def numbers(value: Any) -> bool:
    """Whether a plot can show it."""
    return isinstance(value, (int, float))


def groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """The figures with at least three numbers of the same unit that can be compared; of the first such unit."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if numbers(row["paper_value"]) and (numbers(row["model_value"]) or numbers(row["measured_value"])):
            found.setdefault((row["paper"], row["where"], row["unit"]), []).append(row)
    first: dict[tuple[str, str], list[Row]] = {}
    for (paper, where, _), group in found.items():
        if len(group) >= 3:
            first.setdefault((paper, where), group)
    return first


def draw_bars(rows: list[Row], figure: Any) -> None:
    """Bars of one figure: paper, model, measured."""
    figure.set_size_inches(8, 0.8 + 0.45 * len(rows))
    axes = figure.subplots()
    colours = {"paper_value": "0.25", "model_value": "tab:blue", "measured_value": "tab:orange"}
    for i, (key, colour) in enumerate(colours.items()):
        values = [row[key] if numbers(row[key]) else 0 for row in rows]
        if any(values):
            places = [y + 0.27 * i for y in range(len(rows))]
            axes.barh(places, values, 0.25, color=colour, label=key.split("_")[0])
    axes.set_yticks([y + 0.27 for y in range(len(rows))], [row["what"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(rows[0]["unit"] or "number")
    shown = [row[key] for row in rows for key in colours if numbers(row[key]) and row[key] > 0]
    if max(shown) > 100 * min(shown):
        axes.set_xscale("log")
    figure.legend(loc="outside lower center", ncols=len(colours), frameon=False)


def save(draw: Callable[[Any], None], path: Path) -> None:
    """An SVG; the same bytes for the same numbers."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("reproduce.py: matplotlib is not installed; install it (Debian: python3-matplotlib)") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "quarry"
    from matplotlib import pyplot

    figure = pyplot.figure(layout="constrained")
    draw(figure)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def plots(rows: list[Row]) -> dict[str, list[tuple[str, str]]]:
    """Draws all: title and file name by paper."""
    for old in IMAGES.glob("reproduction-*.svg"):
        old.unlink()
    made: dict[str, list[tuple[str, str]]] = {paper: [] for paper in PAPERS}
    for (paper, where), group in groups(rows).items():
        name = f"reproduction-{paper}-{re.sub('[^a-z0-9]+', '-', where.lower())}.svg"
        save(functools.partial(draw_bars, group), IMAGES / name)
        made[paper].append((where, name))
    for drawing, paper in {row["drawing"]: row["paper"] for row in rows if row["drawing"]}.items():
        name = f"reproduction-{drawing.name}.svg"
        save(drawing.draw, IMAGES / name)
        made[paper].append((drawing.title, name))
    return made


def page(rows: list[Row], images: dict[str, list[tuple[str, str]]]) -> str:
    """The text."""
    text = [INTRODUCTION.format(rows=len(rows), processor=common.processor()[0], cores=cores())]
    for paper, title in PAPERS.items():
        of_paper = [row for row in rows if row["paper"] == paper]
        table = common.table(HEADER, [cells(row) for row in of_paper])
        text.append(f"\n## {paper}: {title}\n\n{table}")
        text += [f"{name[0].upper()}{name[1:]}:\n\n![{name}](images/{path})\n" for name, path in images[paper]]
        text.append(footnotes(of_paper))
    return "\n".join(text)


def write(rows: list[Row]) -> None:
    """The page and its plots."""
    rows = in_order(rows)
    images = plots(rows)
    PAGE.write_text(page(rows, images))
    common.say(f"wrote {PAGE.relative_to(common.ROOT)} and {sum(map(len, images.values()))} plots")


def differences(rows: list[Row], text: str, whole: bool) -> list[str]:
    """Rows that the page lacks; with the whole list, also rows that only the page has, except measured ones.

    The verdict, the commands and the notes of a row that is completed by a measurement may be others.
    """
    lines = [found.strip("| ").split(" | ") for found in text.splitlines() if found.startswith("| ")]
    on_page = [found for found in lines if len(found) == len(HEADER) and found != list(HEADER)]
    completed = {tuple(found[:MEASURED]) for found in on_page if found[MEASURED].strip()}
    own = [row for row in rows if tuple(cells(row)[:MEASURED]) not in completed]
    wanted = {line(row) for row in own}
    missing = [f"does not have: {found}" for found in sorted(wanted - set(text.splitlines()))]
    stale = ["| " + " | ".join(found) + " |" for found in on_page if not found[MEASURED].strip()]
    missing += [f"has, and the models do not: {found}" for found in stale if whole and found not in wanted]
    missing += [
        f"does not have the command: {command}"
        for command in unique([command for row in own for command in row["command"].splitlines()])
        if f"$ {command}" not in text.splitlines()
    ]
    words = " ".join(text.split())
    unknown = [note for note in unique([row["note"] for row in own]) if " ".join(note.split()) not in words]
    return missing + [f"does not have the note: {note}" for note in unknown]


def check(programs: Path, quick: bool) -> int:
    """Whether the page has these rows. The models are the same everywhere, so another number is a changed model."""
    begin = time.monotonic()
    rows = collect(MODULES, programs, measure=False, quick=quick)
    found = differences(rows, PAGE.read_text(), whole=not quick)
    for difference in found:
        print(f"docs/reproduction.md {difference}")
    if found:
        print("the models or the programs have changed: run benchmarks/reproduce.py, and look at what it changes")
    else:
        print(f"docs/reproduction.md has {len(rows)} rows of the models; {time.monotonic() - begin:.0f} s")
    return 1 if found else 0


def main() -> int:
    """Writes, prints or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--check", action="store_true", help="compare the rows of the models with the page")
    one_of = f"measure one module and print its rows: {', '.join(MODULES)}"
    kinds.add_argument("--only", choices=MODULES, metavar="MODULE", help=one_of)
    parser.add_argument("--quick", action="store_true", help="with --check: leave out what takes seconds a row")
    parser.add_argument(
        "--programs",
        type=Path,
        default=common.ROOT / "build" / "release" / "bin",
        help="folder of the programs; default: build/release/bin",
    )
    options = parser.parse_args()
    if options.check:
        return check(options.programs, options.quick)
    if options.quick:
        parser.error("--quick needs --check")
    enter_environment()
    rows = collect((options.only,) if options.only else MODULES, options.programs, measure=True)
    if options.only:
        print(common.table(HEADER, [cells(row) for row in in_order(rows)]), footnotes(rows), sep="\n", end="")
    else:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
