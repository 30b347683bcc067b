"""Rows of docs/reproduction.md without a model: drawn examples, which tests hold; sizes that follow from others; and
what cannot be reproduced, with the reason."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reproduction.running import Row, agreement, row

# paper, figure, what it shows, test
EXAMPLES = (
    (
        "000",
        "figure 4",
        "3 x 3 patches on 2 x 2 ranks: who gets which",
        "unit/distribution/PlacePatches.EqualsTheFigureOfThePaper",
    ),
    (
        "000",
        "figure 5",
        "files of nearly equal bytes against files of equally many patches",
        "unit/distribution/AssignPatches.BalancesVeryUnevenPatchesWhereEqualDoesNot",
    ),
    (
        "001",
        "table I",
        "example E1: 8 x 8 samples on 4 ranks, in rows and in quadrants",
        "unit/mapping/ForEachPart.EqualsExampleE1OfThePaper",
    ),
    ("001", "figure 1", "what one rank of E1 sends and receives", "unit/mapping/ScheduleForRank.IsFigure1bOfThePaper"),
    (
        "001",
        "figure 4",
        "10 simulation ranks for 4 others: 3, 3, 2, 2",
        "unit/intransit/Groups.TenRanksForFourAsInThePaper",
    ),
)

OF_TABLE = "dims, type and size of the table"

# paper, figure, what, unit, number of the paper, number that follows, from what
ARITHMETIC = (
    ("000", "table I", "ratio of the synthetic field", "", 10.6, 1600**3 * 4 / 1540263880, OF_TABLE),
    ("000", "table I", "ratio of S3D", "", 13.2, 2025 * 1600 * 400 * 8 / 786616672, OF_TABLE),
    ("000", "table I", "ratio of turbulence", "", 7.1, 4096**3 * 4 / 38989451056, OF_TABLE),
    ("004", "table 2", "matrix blocks", "", 3828, 87 * 88 // 2, "the upper half of 87 x 87 blocks"),
    ("004", "table 2", "size of the matrix", "GB", 920, 246e6 * 3828 / 1e9, "its blocks, 246 MB each"),
    (
        "004",
        "table 3",
        "size of a block of vectors",
        "MB",
        58.8,
        159.9e6 / 87 * 8 * 4 / 1e6,
        "n / 87 rows of 8 numbers of 4 bytes",
    ),
    ("004", "table 3", "six vectors", "GB", 30.6, 6 * 159.9e6 * 8 * 4 / 1e9, "6 n rows of 8 numbers of 4 bytes"),
)

# A number that follows from others agrees within this fraction: the paper rounds them.
ROUNDING = 0.03

# paper, figure, what, why not
BEYOND = (
    ("000", "figures 1 and 10", "loads of S3D and turbulence", "the data are not public, and the text prints no loads"),
    (
        "000",
        "table I",
        "sizes at 33.9 to 37.7 dB",
        "the data are not public; benchmarks/codec compares coders on others",
    ),
    ("001", "figure 2", "picture of a tooth", "the stack is not public; the viewer draws volumes"),
    ("002", "figures 3 and 4", "times of DiGPUFFT on Keeneland", "needs that machine, or 64 nodes with GPUs"),
    ("003", "figures 3 to 5", "seconds at 1,024 to 4,096 ranks", "the text prints no times, but orders"),
    (
        "004",
        "figures 1 and 3",
        "memory of supercomputers, sizes of nuclear Hamiltonians",
        "they are context, not results",
    ),
    (
        "004",
        "figures 5 to 7",
        "seconds on Carver, 920 GB",
        "needs the matrix of 10B and 12 nodes; the same shapes are measured on matrices made here",
    ),
)


def modelled(programs: Path) -> list[Row]:
    """No program runs."""
    del programs
    found = [
        row(paper, where, what, paper_value="drawn", verdict="tested", command=f"ctest --preset release -R {test}")
        for paper, where, what, test in EXAMPLES
    ]
    for paper, where, what, unit, printed, follows, source in ARITHMETIC:
        found.append(
            row(
                paper,
                where,
                what,
                unit,
                paper_value=printed,
                model_value=round(follows, 2),
                verdict=agreement(follows, printed, ROUNDING),
                note=f"computed from {source}",
            )
        )
    found += [row(paper, where, what, verdict=f"not reproduced: {why}") for paper, where, what, why in BEYOND]
    return found
