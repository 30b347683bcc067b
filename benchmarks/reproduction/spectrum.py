"""Rows of docs/reproduction.md: 002, Czechowski et al.: the transform itself, and what it takes here."""

import json
import statistics
import tempfile
from pathlib import Path

import numpy as np

from reproduction.running import Command, Row, cores, row, this_module

SAMPLES = 192
REPEAT = 5
PRINTED = 6.3  # A in section 3.1.2


def phases(programs: Path, folder: Path, grid: str) -> dict[str, float]:
    """Medians of the seconds of the phases of quarry-spectrum."""
    ranks = int(grid[0]) * int(grid[-1])
    command = Command("quarry-spectrum", "f.quarry", "--field", "f", "--grid", grid, ranks=ranks)
    runs = [command.answer(programs, folder)["seconds"] for _ in range(REPEAT)]
    return {phase: statistics.median(run[phase] for run in runs) for phase in runs[0]}


def write_field(programs: Path, folder: Path) -> None:
    """White noise; the same in every run."""
    field = np.random.default_rng(1).standard_normal((SAMPLES,) * 3, dtype=np.float32)
    field.tofile(folder / "f.f32")
    words = ("--dims", f"{SAMPLES}x{SAMPLES}x{SAMPLES}", "--type", "float32", "--field", "f", "--relative", "1e-3")
    Command("quarry-write", "f.f32", *words, "--output", "f.quarry").run(programs, folder=folder)


def modelled(programs: Path) -> list[Row]:
    """None: fft.py has the model."""
    del programs
    return []


def measured(programs: Path) -> list[Row]:
    """The constant of the memory term, and the share of communication."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_field(programs, folder)
        Command("quarry-plan", "calibrate", "--output", "machine.json").run(programs, folder=folder)
        machine = json.loads((folder / "machine.json").read_text())
        two, four = phases(programs, folder, "1x2"), phases(programs, folder, "2x2")
    words = 3 * SAMPLES**2 * (SAMPLES // 2 + 1)
    constant = two["lines"] * machine["memory_bandwidth_bytes_per_s"] / (16 * words)
    share = four["transposes"] / (four["transposes"] + four["lines"])
    return [
        row(
            "002",
            "equation 2",
            "A, the constant of the memory term, for the lines of quarry-spectrum",
            paper_value=PRINTED,
            measured_value=round(constant, 1),
            verdict="not comparable: the paper has another library and another machine",
            command=this_module("spectrum"),
            note=f"{SAMPLES}^3 samples: the time of the lines on 2 ranks, times the bandwidth that quarry-plan "
            "calibrate finds, over three passes of 16 bytes a sample",
        ),
        row(
            "002",
            "figure 2",
            "share of communication in the transform",
            paper_value="the larger part at scale",
            measured_value=round(share, 2),
            verdict=f"not comparable: 4 ranks on {cores()} cores share one memory",
            command=this_module("spectrum"),
            note="the paper measures P3DFFT on 4,096 nodes of Hopper",
        ),
    ]
