"""Runs programs for rows of docs/reproduction.md, with or without mpirun. Standard library only."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

# As in scripts/environment.sh: more ranks than processors, and waiting ranks that yield.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


class Command:
    """A command line, to be run here and to be shown."""

    def __init__(self, program: str, *words: object, ranks: int = 0) -> None:
        """Alone, or with `ranks` ranks of mpirun."""
        self.program = program
        self.words = [str(word) for word in words]
        self.ranks = ranks

    def __str__(self) -> str:
        """As a user types it."""
        launcher = ["mpirun", "-n", str(self.ranks)] if self.ranks else []
        return shlex.join([*launcher, self.program, *self.words])

    def run(self, programs: Path) -> str:
        """Standard output; RuntimeError with the program's message if it fails."""
        launcher = ["mpirun", "-n", str(self.ranks)] if self.ranks else []
        done = subprocess.run(
            [*launcher, str(programs / self.program), *self.words],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def answer(self, programs: Path) -> Any:
        """The JSON object that it prints."""
        return json.loads(self.run(programs))


def row(
    paper: str,
    where: str,
    what: str,
    unit: str,
    *,
    paper_value: float | str | None = None,
    model_value: float | str | None = None,
    measured_value: float | str | None = None,
    verdict: str,
    command: Command | str,
    note: str = "",
) -> dict[str, object]:
    """One row of the page."""
    return {
        "paper": paper,
        "where": where,
        "what": what,
        "unit": unit,
        "paper_value": paper_value,
        "model_value": model_value,
        "measured_value": measured_value,
        "verdict": verdict,
        "command": str(command),
        "note": note,
    }


def deviation(value: float, paper: float) -> str:
    """How far a value is from the paper's, as "1.3 % more"."""
    percent = 100 * (value / paper - 1)
    return f"{abs(percent):.1f} % {'more' if percent > 0 else 'less'}"
