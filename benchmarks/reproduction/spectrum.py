"""Rows of docs/reproduction.md: 002, Czechowski et al.: the transform itself, and what it takes here."""

import json
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.running import ENVIRONMENT

SAMPLES = 192
REPEAT = 5
PRINTED = 6.3  # A in section 3.1.2


def _run(*command: Any) -> str:
    words = list(map(str, command))
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _seconds(programs: Path, dataset: Path, grid: str) -> dict[str, float]:
    """Medians of the seconds of the phases of quarry-spectrum."""
    ranks = int(grid[0]) * int(grid[-1])
    command = ["mpirun", "--oversubscribe", "-n", ranks, programs / "quarry-spectrum", dataset, "--field", "f", "--grid",
               grid, "--json"]
    runs = [json.loads(_run(*command))["seconds"] for _ in range(REPEAT)]
    return {phase: statistics.median(run[phase] for run in runs) for phase in runs[0]}


def rows(programs: Path) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        field = np.random.default_rng(1).standard_normal((SAMPLES,) * 3, dtype=np.float32)
        field.tofile(folder / "f.f32")
        _run(programs / "quarry-write", folder / "f.f32", "--dims", f"{SAMPLES}x{SAMPLES}x{SAMPLES}", "--type", "float32",
             "--field", "f", "--relative", "1e-3", "--output", folder / "f.quarry")
        _run(programs / "quarry-plan", "calibrate", "--output", folder / "machine.json", "--dir", folder)
        machine = json.loads((folder / "machine.json").read_text())
        two, four = _seconds(programs, folder / "f.quarry", "1x2"), _seconds(programs, folder / "f.quarry", "2x2")
    words = 3 * SAMPLES**2 * (SAMPLES // 2 + 1)
    constant = two["lines"] * machine["memory_bandwidth_bytes_per_s"] / (16 * words)
    share = four["transposes"] / (four["transposes"] + four["lines"])
    common = {"paper": "002", "model_value": None}
    return [
        {**common, "where": "equation 2", "what": "A, the constant of the memory term, for the lines of quarry-spectrum",
         "unit": "", "paper_value": PRINTED, "measured_value": round(constant, 1),
         "verdict": "of the same order; the printed one is of another library and machine",
         "command": f"mpirun -n 2 quarry-spectrum NAME.quarry --field f --grid 1x2 ({SAMPLES}^3)",
         "note": "the time of the lines on 2 ranks, times the bandwidth that quarry-plan calibrate finds, over three "
                 "passes of 16 bytes a sample"},
        {**common, "where": "figure 2", "what": "share of communication in the transform", "unit": "",
         "paper_value": "larger part at scale", "measured_value": round(share, 2),
         "verdict": "not to be reproduced: ranks here share one memory",
         "command": f"mpirun -n 4 quarry-spectrum NAME.quarry --field f --grid 2x2 ({SAMPLES}^3)",
         "note": "the paper measures P3DFFT on 4,096 nodes of Hopper"},
    ]
