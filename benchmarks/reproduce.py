#!/usr/bin/env python3
"""Every figure and headline number of the five papers that Quarry is built from: paper, model, measured here, verdict.

    benchmarks/reproduce.py            # all rows: writes docs/reproduction.md and its plots; under 30 minutes
    benchmarks/reproduce.py --check    # the rows that are the same on every machine: fails if the page has others

Needs the built programs (scripts/build.sh) and mpirun. All rows need the Python package too (scripts/build.sh python),
in whose environment they are measured; --check needs numpy alone. Progress goes to stderr.
"""

import argparse
import importlib
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common

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
MODELS = ("file_system", "fft", "statements")
MEASURED = ("exchange", "stacks", "in_transit", "spectrum", "out_of_core")

HEADER = ("where", "what", "paper", "model", "measured here", "verdict")


def enter_environment() -> None:
    """Continues in the package's environment, which has the libraries that pictures need."""
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        return
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        sys.exit(f"reproduce.py: {python} is missing: run scripts/build.sh python")
    os.execv(python, [str(python), *sys.argv])


def cell(value: Any, unit: str) -> str:
    if value is None:
        return ""
    text = str(value)
    if numbers(value):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1e4 else common.number(value)
    return f"{text} {unit}".strip() if not isinstance(value, str) else text


def collect(names: tuple[str, ...], programs: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in names:
        begin = time.monotonic()
        found = importlib.import_module(f"reproduction.{name}").rows(programs)
        common.say(f"{name}: {len(found)} rows, {time.monotonic() - begin:.0f} s")
        rows += found
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By paper; inside a paper by the first appearance of a figure, so that its rows stand together."""
    places = {key: i for i, key in reversed(list(enumerate((row["paper"], row["where"]) for row in rows)))}
    return sorted(rows, key=lambda row: (row["paper"], places[row["paper"], row["where"]]))


def stable(row: dict[str, Any]) -> str:
    """What of a row does not depend on the machine."""
    unit = row["unit"]
    return "| " + " | ".join([row["where"], row["what"], cell(row["paper_value"], unit), cell(row["model_value"], unit)]) + " |"


def line(row: dict[str, Any]) -> str:
    return f"{stable(row)} {cell(row['measured_value'], row['unit'])} | {row['verdict']} |"


def footnotes(rows: list[dict[str, Any]]) -> str:
    """The command of each figure once, and the notes."""
    commands: dict[str, list[str]] = {}
    for row in rows:
        places = commands.setdefault(row["command"], [])
        if row["where"] not in places:
            places.append(row["where"])
    text = "\n".join(f"* {', '.join(places)}: `{command}`" for command, places in commands.items() if command)
    notes = {f"* {row['where']}, {row['what']}: {row['note']}" for row in rows if row["note"]}
    return f"Commands:\n\n{text}\n" + (f"\nNotes:\n\n{chr(10).join(sorted(notes))}\n" if notes else "")


def numbers(value: Any) -> bool:
    return isinstance(value, (int, float))


def groups(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The figures with at least three numbers of the same unit that can be compared."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if numbers(row["paper_value"]) and (numbers(row["model_value"]) or numbers(row["measured_value"])):
            found.setdefault((row["paper"], row["where"], row["unit"]), []).append(row)
    return {(paper, where): group for (paper, where, _), group in found.items() if len(group) >= 3}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of one figure: paper, model, measured."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "quarry"  # the same bytes for the same numbers
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.45 * len(rows)), layout="constrained")
    for i, (key, colour) in enumerate((("paper_value", "0.25"), ("model_value", "tab:blue"),
                                       ("measured_value", "tab:orange"))):
        values = [row[key] if numbers(row[key]) else 0 for row in rows]
        if any(values):
            axes.barh([y + 0.27 * i for y in range(len(rows))], values, 0.25, color=colour, label=key.split("_")[0])
    axes.set_yticks([y + 0.27 for y in range(len(rows))], [row["what"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(rows[0]["unit"] or "number")
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def page(rows: list[dict[str, Any]], plots: dict[tuple[str, str], str]) -> str:
    verdicts = len(rows)
    text = [f"""# The papers, reproduced

`benchmarks/reproduce.py` writes this page: {verdicts} numbers and statements of the five papers that Quarry is built from,
beside what our models give and what is measured on a machine with {common.processor()[0]}, 2 cores. A model describes the
paper's machine; a measurement is of this one, so its ratios count, not its seconds. Where a number does not come out, the
verdict says by how much. [planning.md](planning.md) explains the models.
"""]
    for paper, title in PAPERS.items():
        of_paper = [row for row in rows if row["paper"] == paper]
        if not of_paper:
            continue
        text.append(f"\n## {paper}: {title}\n\n| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER) + "\n"
                    + "\n".join(map(line, of_paper)) + "\n")
        text += [f"![{where}](images/{name})\n" for (of, where), name in plots.items() if of == paper]
        text.append(footnotes(of_paper))
    return "\n".join(text)


def write(rows: list[dict[str, Any]]) -> None:
    rows = in_order(rows)
    plots = {}
    for (paper, where), group in groups(rows).items():
        name = f"reproduction-{paper}-{re.sub('[^a-z0-9]+', '-', where.lower())}.svg"
        try:
            plot(group, IMAGES / name)
        except ImportError:
            raise SystemExit("reproduce.py: matplotlib is not installed; install it (Debian: python3-matplotlib)")
        plots[paper, where] = name
    PAGE.write_text(page(rows, plots))
    common.say(f"wrote {PAGE.relative_to(common.ROOT)} and {len(plots)} plots")


def check(rows: list[dict[str, Any]]) -> int:
    """Whether the page has these rows. The models are the same everywhere, so another number is a changed model."""
    text = PAGE.read_text()
    missing = [row for row in rows if (line(row) if row["measured_value"] is None else stable(row)) not in text]
    for row in missing:
        print(f"docs/reproduction.md does not have: {line(row)}")
    if missing:
        print("the models or the programs have changed: run benchmarks/reproduce.py, and look at what it changes")
    return 1 if missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the rows of the models with the page")
    parser.add_argument("--programs", type=Path, default=common.ROOT / "build" / "release" / "bin",
                        help="folder of the programs; default: build/release/bin")
    options = parser.parse_args()
    if options.check:
        return check(collect(MODELS, options.programs))
    enter_environment()
    write(collect(MODELS + MEASURED, options.programs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
