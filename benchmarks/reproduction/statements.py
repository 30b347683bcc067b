"""Rows of docs/reproduction.md without a model: drawn examples, which tests hold; sizes that follow from others; and what
cannot be reproduced, with the reason."""

from pathlib import Path
from typing import Any

# paper, figure, what it shows, test
EXAMPLES = (
    ("000", "figure 4", "3 x 3 patches on 2 x 2 ranks: who gets which", "unit/distribution/PlacePatches.EqualsTheFigureOfThePaper"),
    ("000", "figure 5", "files of nearly equal bytes against files of equally many patches",
     "unit/distribution/AssignPatches.BalancesVeryUnevenPatchesWhereEqualDoesNot"),
    ("001", "table I", "example E1: 8 x 8 samples on 4 ranks, in rows and in quadrants",
     "unit/mapping/MapLayout.EqualsExampleE1OfThePaper"),
    ("001", "figure 1", "what one rank of E1 sends and receives", "unit/mapping/ScheduleForRank.IsFigure1bOfThePaper"),
    ("001", "figure 4", "10 simulation ranks for 4 others: 3, 3, 2, 2", "unit/intransit/Groups.TenRanksForFourAsInThePaper"),
)

# paper, figure, what, unit, number of the paper, number that follows, from what
ARITHMETIC = (
    ("000", "table I", "ratio of the synthetic field", "", 10.6, 1600**3 * 4 / 1540263880, "dims, type and size of the table"),
    ("000", "table I", "ratio of S3D", "", 13.2, 2025 * 1600 * 400 * 8 / 786616672, "dims, type and size of the table"),
    ("000", "table I", "ratio of turbulence", "", 7.1, 4096**3 * 4 / 38989451056, "dims, type and size of the table"),
    ("004", "table 2", "matrix blocks", "", 3828, 87 * 88 // 2, "the upper half of 87 x 87 blocks"),
    ("004", "table 2", "size of the matrix", "GB", 920, 246e6 * 3828 / 1e9, "its blocks, 246 MB each"),
    ("004", "table 3", "size of a block of vectors", "MB", 58.8, 159.9e6 / 87 * 8 * 4 / 1e6, "n / 87 rows of 8 numbers of 4 bytes"),
    ("004", "table 3", "six vectors", "GB", 30.6, 6 * 159.9e6 * 8 * 4 / 1e9, "six times n rows of 8 numbers of 4 bytes"),
)

# paper, figure, what, why not
BEYOND = (
    ("000", "figures 1 and 10", "loads of S3D and turbulence", "the data are not public, and the text prints no loads"),
    ("000", "table I", "sizes at 33.9 to 37.7 dB", "the data are not public; benchmarks/codec compares coders on others"),
    ("001", "figure 2", "picture of a tooth", "the stack is not public; the viewer draws volumes"),
    ("002", "figures 3 and 4", "times of DiGPUFFT on Keeneland", "needs that machine, or 64 nodes with GPUs"),
    ("003", "figures 3 to 5", "seconds at 1,024 to 4,096 ranks", "the text prints no times: orders only"),
    ("004", "figures 1 and 3", "memory of supercomputers, sizes of nuclear Hamiltonians", "context, not results"),
    ("004", "figures 5 to 7", "seconds on Carver, 920 GB", "needs the matrix of 10B and 12 nodes; the same shapes are measured on matrices made here"),
)


def _row(paper: str, where: str, what: str, **values: Any) -> dict[str, Any]:
    return {"paper": paper, "where": where, "what": what, "unit": "", "paper_value": None, "model_value": None,
            "measured_value": None, "verdict": "", "command": "", "note": ""} | values


def rows(programs: Path) -> list[dict[str, Any]]:
    del programs  # nothing runs
    found = [_row(paper, where, what, paper_value="drawn", verdict="held by a test",
                  command=f"ctest --preset release -R {test}") for paper, where, what, test in EXAMPLES]
    for paper, where, what, unit, printed, follows, source in ARITHMETIC:
        deviation = abs(follows / printed - 1)
        found.append(_row(paper, where, what, unit=unit, paper_value=printed, model_value=round(follows, 2),
                          verdict="follows" if deviation < 0.03 else f"{100 * deviation:.0f} % off", note=f"from {source}"))
    found += [_row(paper, where, what, verdict=f"not reproduced: {why}") for paper, where, what, why in BEYOND]
    return found
