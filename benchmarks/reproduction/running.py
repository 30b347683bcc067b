"""Rows of docs/reproduction.md, and the programs that they come from. Standard library only."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]

# As in scripts/environment.sh: more ranks than processors, and waiting ranks that yield.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}

Row = dict[str, Any]

# Verdicts that several modules use; the page explains them.
AGREES = "agrees"
HOLDS, FAILS = "holds", "does not hold"
NOT_IN_PAPER = "for comparison"


class Drawing(NamedTuple):
    """A plot beside the rows: docs/images/reproduction-NAME.svg."""

    name: str
    title: str
    draw: Callable[[Any], None]  # on a matplotlib Figure


class Command:
    """A command line, to be run here and to be shown."""

    def __init__(self, program: str, *words: object, ranks: int = 0) -> None:
        """Alone, or with `ranks` ranks of mpirun."""
        self.program = program
        self.words = [str(word) for word in words]
        self.launcher = ["mpirun", "-n", str(ranks)] if ranks else []

    def __str__(self) -> str:
        """As a user types it."""
        return shlex.join([*self.launcher, self.program, *self.words])

    def run(self, programs: Path, *more: str, folder: Path | None = None) -> str:
        """Standard output, in a folder if one is given; RuntimeError with the program's message if it fails."""
        done = subprocess.run(
            [*self.launcher, str(programs.resolve() / self.program), *self.words, *more],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def answer(self, programs: Path, folder: Path | None = None) -> Any:
        """The program's output with --json. Without, a user sees the same as a table."""
        return json.loads(self.run(programs, "--json", folder=folder))


def row(
    paper: str,
    where: str,
    what: str,
    unit: str = "",
    *,
    paper_value: float | str | None = None,
    model_value: float | str | None = None,
    measured_value: float | str | None = None,
    verdict: str,
    command: Command | str | Sequence[Command | str] = "",
    note: str = "",
    drawing: Drawing | None = None,
) -> Row:
    """One row of the page. Several commands: all of them give the value together."""
    commands = [command] if isinstance(command, (Command, str)) else command
    return {
        "paper": paper,
        "where": where,
        "what": what,
        "unit": unit,
        "paper_value": paper_value,
        "model_value": model_value,
        "measured_value": measured_value,
        "verdict": verdict,
        "command": "\n".join(map(str, commands)),
        "note": note,
        "drawing": drawing,
    }


def this_module(name: str) -> str:
    """The command of rows that several programs give."""
    return f"benchmarks/reproduce.py --only {name}"


def merged(modelled: list[Row], measured: list[Row]) -> list[Row]:
    """All rows. A measured row takes the place of the modelled one that it completes."""

    def key(of: Row) -> tuple[str, str, str]:
        return of["paper"], of["where"], of["what"]

    completed = {key(of): of for of in measured}
    for of in modelled:
        other = completed.get(key(of), of)
        if any(other[name] != of[name] for name in ("unit", "paper_value", "model_value")):
            raise ValueError(f"{key(of)} has another number where it is measured")
    names = {key(of) for of in modelled}
    return [completed.get(key(of), of) for of in modelled] + [of for of in measured if key(of) not in names]


def cores() -> int:
    """The number of cores that this process can use."""
    return len(os.sched_getaffinity(0))


def deviation(value: float, paper: float) -> str:
    """How far a value is from the paper's, as "1.3 % more"."""
    percent = 100 * (value / paper - 1)
    return f"{abs(percent):.1f} % {'more' if percent > 0 else 'less'}"


def agreement(value: float, paper: float, within: float) -> str:
    """The verdict on a number, which agrees within a fraction."""
    if abs(value / paper - 1) < 5e-4:
        return AGREES
    return f"{AGREES if abs(value / paper - 1) <= within else 'differs'}: {deviation(value, paper)}"
