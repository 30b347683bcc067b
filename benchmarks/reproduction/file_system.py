#!/usr/bin/env python3
"""The loads of figures 7, 8, 9 and 11 of Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts.

    benchmarks/reproduction/file_system.py loads      # writes loads/turbulence.json and six more

The files are for `quarry-plan predict --sizes`. The papers' data are not public. A load here is a field of patch sizes,
exp(spread x smooth random field), of the shape and the total of the paper's dataset; the spreads are fitted with the
constants of benchmarks/reproduction/theta.json. Needs numpy. docs/reproduction.md has the rows that come from them.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reproduction.running import FAILS, HOLDS, ROOT, Command, Row, deviation, row

# Both as seen from the root of the repository, where the commands of the page run.
FOLDER = "loads"
THETA = "benchmarks/reproduction/theta.json"
GIB = 2.0**30

# Spread of the logarithm of the bytes of a patch: fitted, to figures 7, 8 and 11.
SPREAD_TURBULENCE = 0.44
SPREAD_S3D = 0.39
WEAK_GRIDS = {1024: (16, 8, 8), 2048: (16, 16, 8), 4096: (16, 16, 16), 8192: (32, 16, 16), 16384: (32, 32, 16)}
STRONG_GRIDS = {512: "8x8x8", 1024: "16x8x8", 2048: "16x16x8", 4096: "16x16x16"}

Sizes = npt.NDArray[np.float64]


def smooth_field(shape: tuple[int, int, int], seed: int) -> Sizes:
    """A Gaussian field with a spectrum of k^-3 a mode on a part of a periodic box, [z, y, x]; mean 0, deviation 1."""
    whole = tuple(2 * n for n in shape)
    waves = np.meshgrid(*[np.fft.fftfreq(n, 1.0 / n) for n in whole], indexing="ij", sparse=True)
    k = np.sqrt(sum(w**2 for w in waves))
    k[0, 0, 0] = np.inf
    noise = np.random.default_rng(seed).standard_normal(whole)
    field = np.fft.ifftn(np.fft.fftn(noise) * k**-1.5).real[tuple(slice(n) for n in shape)]
    return np.asarray((field - field.mean()) / field.std())


def resampled(field: Sizes, shape: tuple[int, int, int]) -> Sizes:
    """The field on another grid over the same domain: linear between the first and the last sample of each axis."""
    for axis, n in enumerate(shape):
        old = field.shape[axis]
        at = np.arange(n) * (old - 1) / max(1, n - 1)
        low = np.minimum(at.astype(int), max(0, old - 2))
        high = np.minimum(low + 1, old - 1)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(3)])
        field = np.take(field, low, axis) * (1 - part) + np.take(field, high, axis) * part
    return field


class Load(NamedTuple):
    """A step of one of the paper's experiments."""

    name: str
    sizes: Sizes  # relative sizes of the patches, [z, y, x]
    total: float  # bytes of all patches
    dims: tuple[int, int, int]
    kind: str
    ranks: str
    patch: int = 64

    def write(self, folder: Path) -> Path:
        """A file for --sizes."""
        path = folder / f"{self.name}.json"
        nz, ny, nx = self.sizes.shape
        sizes = np.rint(self.sizes * (self.total / self.sizes.sum())).astype(int).ravel().tolist()
        path.write_text(json.dumps({"shape": [nx, ny, nz], "bytes": sizes}))
        return path

    def predict(self, pipeline: str, files: str = "") -> Command:
        """From the root of the repository."""
        width = {"float32": 4, "float64": 8}[self.kind]
        ratio = self.dims[0] * self.dims[1] * self.dims[2] * width / self.total
        words = ["--dims", "x".join(map(str, self.dims)), "--type", self.kind, "--ranks", self.ranks]
        words += ["--patch", str(self.patch), "--ratio", f"{ratio:.15g}", "--sizes", f"{FOLDER}/{self.name}.json"]
        words += ["--machine", THETA, "--pipeline", pipeline]
        return Command("quarry-plan", "predict", *words, *(["--files", files] if files else []))


def turbulence() -> Load:
    """Figure 7."""
    sizes = np.exp(SPREAD_TURBULENCE * smooth_field((64, 64, 64), 1))
    return Load("turbulence", sizes, 38989451056, (4096, 4096, 4096), "float32", "32x32x32")


def s3d(ranks: str = STRONG_GRIDS[4096]) -> Load:
    """Figures 8 and 9."""
    sizes = np.exp(SPREAD_S3D * smooth_field((7, 25, 32), 2))
    return Load("s3d", sizes, 786616672, (2025, 1600, 400), "float64", ranks)


def micro_benchmark(ranks: int) -> Load:
    """Section V-C, figure 11: the sizes of 8 x 8 x 8 ranks, interpolated to more ranks with as much work each."""
    nx, ny, nz = WEAK_GRIDS[ranks]
    field = np.exp(SPREAD_S3D * smooth_field((7, 25, 32), 2))
    of_rank = resampled(resampled(field, (8, 8, 8)), (nz, ny, nx))
    # 16 parts of a rank: 4 x 2 x 2 cells, each a patch.
    cells = np.repeat(np.repeat(np.repeat(of_rank, 2, 0), 2, 1), 4, 2)
    dims = (nx * 4 * 16, ny * 2 * 16, nz * 2 * 16)
    return Load(f"micro{ranks}", cells, 153.0 * GIB * ranks / 16384, dims, "float64", f"{nx}x{ny}x{nz}", 16)


def all_loads() -> list[Load]:
    """Figure 9 has that of figure 8, on other numbers of ranks."""
    return [turbulence(), s3d(), *map(micro_benchmark, WEAK_GRIDS)]


class Model:
    """Bandwidths from quarry-plan predict: bytes over the seconds of agreement, transfer and writing."""

    def __init__(self, programs: Path, root: Path) -> None:
        """The root has the folder of loads, and the machine."""
        self.programs = programs
        self.root = root

    def predict(self, command: Command) -> list[Any]:
        """One answer for each number of files."""
        answer = command.answer(self.programs, self.root)
        return list(answer.get("combinations", [answer]))

    def bandwidths(self, load: Load, command: Command) -> dict[int, float]:
        """GiB/s by the number of files."""
        phases = ("assign", "transfer", "write")
        return {p["files"]: load.total / GIB / sum(p["seconds"][x] for x in phases) for p in self.predict(command)}

    def best(self, load: Load, command: Command) -> float:
        """GiB/s with the best number of files."""
        return max(self.bandwidths(load, command).values())


TURBULENCE_FILES = "512,1024,2048,4096,8192,16384"
S3D_FILES = "256,512,1024,2048"
FITTED = "eight constants fitted to the nine numbers of figures 7, 8 and 11; GiB/s of assign, transfer and write"


class Number(NamedTuple):
    """A bandwidth of a figure."""

    what: str
    paper: float
    model: float
    command: Command


def figure(where: str, numbers: list[Number]) -> list[Row]:
    """The numbers; and whether they come in the same order."""
    found = [
        row(
            "000",
            where,
            number.what,
            "GiB/s",
            paper_value=number.paper,
            model_value=round(number.model, 2),
            verdict=f"fitted: {deviation(number.model, number.paper)}",
            command=number.command,
            note=FITTED,
        )
        for number in numbers
    ]
    papers = [number.what for number in sorted(numbers, key=lambda n: -n.paper)]
    ours = [number.what for number in sorted(numbers, key=lambda n: -n.model)]
    found.append(
        row(
            "000",
            where,
            "order, fastest first",
            paper_value=" > ".join(papers),
            model_value=" > ".join(ours),
            verdict=HOLDS if papers == ours else FAILS,
            command=[number.command for number in numbers],
        )
    )
    return found


def best_files(where: str, balanced: dict[int, float], paper: int, command: Command) -> Row:
    """The number of files that the model finds best, of those that the paper has."""
    best = max(balanced, key=lambda files: balanced[files])
    near = f"differs: the paper's {paper:,} files reach {100 * balanced[paper] / balanced[best]:.0f} % of the best"
    return row(
        "000",
        where,
        "best number of files, balanced",
        paper_value=paper,
        model_value=best,
        verdict=HOLDS if best == paper else near,
        command=command,
    )


def chosen_files(where: str, name: str, load: Load, model: Model) -> Row:
    """The number of files that --files auto takes."""
    command = load.predict("balanced", "auto")
    return row(
        "000",
        where,
        f"files that --files auto chooses, {name}",
        model_value=model.predict(command)[0]["files"],
        verdict="for comparison: the fewest within 3 % of the best, of all phases",
        command=command,
    )


def file_counts(model: Model) -> list[Row]:
    """Figures 7 and 8."""
    found = []
    for where, name, load, counts, (files, most, equal_most, each) in (
        ("figure 7", "turbulence", turbulence(), TURBULENCE_FILES, (8192, 58.08, 51.11, 33.01)),
        ("figure 8", "S3D", s3d(), S3D_FILES, (512, 9.97, 7.5, 5.14)),
    ):
        balanced, equal, alone = load.predict("balanced", counts), load.predict("equal", counts), load.predict("fpp")
        bandwidths = model.bandwidths(load, balanced)
        found += figure(
            where,
            [
                Number(f"balanced, {files:,} files", most, bandwidths[files], balanced),
                Number("equal, best of its counts", equal_most, model.best(load, equal), equal),
                Number("file per process", each, model.best(load, alone), alone),
            ],
        )
        found += [best_files(where, bandwidths, files, balanced), chosen_files(where, name, load, model)]
    return found


def scaling(model: Model) -> Row:
    """Figure 9: balanced above equal at all counts; it prints no numbers."""
    ahead, commands = [], []
    for ranks, grid in STRONG_GRIDS.items():
        load = s3d(grid)
        pair = [load.predict(pipeline, str(ranks // 8)) for pipeline in ("balanced", "equal")]
        ahead.append(model.best(load, pair[0]) / model.best(load, pair[1]))
        commands += pair
    return row(
        "000",
        "figure 9",
        "balanced over equal at 512, 1,024, 2,048, 4,096 ranks",
        paper_value="above 1",
        model_value=", ".join(f"{ratio:.2f}" for ratio in ahead),
        verdict=HOLDS if min(ahead) > 1 else FAILS,
        command=commands,
    )


def weak_scaling(model: Model) -> list[Row]:
    """Figure 11."""
    large, small = micro_benchmark(16384), micro_benchmark(1024)
    balanced, equal, group = (large.predict(p, "2048") for p in ("balanced", "equal", "group-collective"))
    alone, collective = large.predict("fpp"), large.predict("collective")
    found = figure(
        "figure 11",
        [
            Number("balanced, 16,384 ranks", 72.75, model.best(large, balanced), balanced),
            Number("file per process", 59.65, model.best(large, alone), alone),
            Number("collective: an eighth of balanced", 72.75 / 8, model.best(large, collective), collective),
        ],
    )
    quotient = model.best(large, equal) / model.best(large, group)
    found.append(
        row(
            "000",
            "figure 11",
            "equal over group at 16,384 ranks",
            paper_value="similar",
            model_value=f"{quotient:.2f}",
            verdict=FAILS if abs(quotient - 1) > 0.15 else HOLDS,
            command=[equal, group],
        )
    )
    few = [small.predict("fpp"), small.predict("balanced", "128")]
    quotient = model.best(small, few[0]) / model.best(small, few[1])
    found.append(
        row(
            "000",
            "figure 11",
            "file per process over balanced at 1,024 ranks",
            paper_value="above 1",
            model_value=f"{quotient:.2f}",
            verdict=HOLDS if quotient > 1 else FAILS,
            command=few,
        )
    )
    return found


def modelled(programs: Path) -> list[Row]:
    """The rows of all four figures. The commands run in a folder that looks like the root of the repository."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / FOLDER).mkdir()
        (root / "benchmarks").symlink_to(ROOT / "benchmarks")
        for load in (turbulence(), s3d(), micro_benchmark(1024), micro_benchmark(16384)):
            load.write(root / FOLDER)
        model = Model(programs, root)
        return [*file_counts(model), scaling(model), *weak_scaling(model)]


def main() -> None:
    """Writes all loads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the files; made if it does not exist")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for load in all_loads():
        print(load.write(folder))


if __name__ == "__main__":
    main()
