"""Rows of docs/reproduction.md: 000, Fan et al.: the file-system model, with the loads of figures 7, 8, 9 and 11.

The papers' data are not public. A load here is a field of patch sizes, exp(spread x smooth random field), of the shape and
the total of the paper's dataset; the spreads are fitted with the constants of tools/plan/machines/theta.json."""

import functools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[2]
THETA = ROOT / "tools" / "plan" / "machines" / "theta.json"
GIB = 2.0**30

# Of the logarithm of the bytes of a patch: fitted, to figures 7, 8 and 11.
SPREAD_TURBULENCE = 0.44
SPREAD_S3D = 0.39
# Figure 11: 16 variables, one buffer each.
PARTS_PER_RANK = 16
WEAK_GRIDS = {1024: (16, 8, 8), 2048: (16, 16, 8), 4096: (16, 16, 16), 8192: (32, 16, 16), 16384: (32, 32, 16)}

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


class Load:
    """A step of one of the paper's experiments, as options of quarry-plan predict."""

    def __init__(self, folder: Path, name: str, sizes: Sizes, total: float, dims: tuple[int, int, int], kind: str, ranks: str,
                 patch: str = "64"):
        sizes = sizes * (total / sizes.sum())
        self.total = total
        self.path = folder / f"{name}.json"
        nz, ny, nx = sizes.shape
        self.path.write_text(json.dumps({"shape": [nx, ny, nz], "bytes": np.rint(sizes).astype(int).ravel().tolist()}))
        width = {"float32": 4, "float64": 8}[kind]
        ratio = dims[0] * dims[1] * dims[2] * width / total
        self.options = ["--dims", "x".join(map(str, dims)), "--type", kind, "--ranks", ranks, "--patch", patch, "--ratio",
                        repr(ratio), "--sizes", str(self.path), "--machine", str(THETA)]


def turbulence(folder: Path) -> Load:
    return Load(folder, "turbulence", np.exp(SPREAD_TURBULENCE * smooth_field((64, 64, 64), 1)), 38989451056,
                (4096, 4096, 4096), "float32", "32x32x32")


def s3d(folder: Path, ranks: str = "16x16x16") -> Load:
    return Load(folder, "s3d", np.exp(SPREAD_S3D * smooth_field((7, 25, 32), 2)), 786616672, (2025, 1600, 400), "float64",
                ranks)


def micro_benchmark(folder: Path, ranks: int) -> Load:
    """Section V-C: the sizes of 8 x 8 x 8 ranks, interpolated to more ranks with as much work each."""
    nx, ny, nz = WEAK_GRIDS[ranks]
    field = np.exp(SPREAD_S3D * smooth_field((7, 25, 32), 2))
    of_rank = resampled(resampled(field, (8, 8, 8)), (nz, ny, nx))
    # 16 parts of a rank: 4 x 2 x 2 cells, each a patch.
    cells = np.repeat(np.repeat(np.repeat(of_rank, 2, 0), 2, 1), 4, 2)
    return Load(folder, f"micro{ranks}", cells, 153.0 * GIB * ranks / 16384, (nx * 4 * 16, ny * 2 * 16, nz * 2 * 16), "float64",
                f"{nx}x{ny}x{nz}", "16")


class Model:
    """Bandwidths that quarry-plan predict gives: bytes over agreement, transfer and writing."""

    def __init__(self, programs: Path):
        self.program = programs / "quarry-plan"

    def predict(self, load: Load, pipeline: str, files: str | None = None) -> list[dict[str, Any]]:
        command = [self.program, "predict", *load.options, "--pipeline", pipeline, "--json"]
        if files is not None:
            command += ["--files", files]
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found: list[dict[str, Any]] = done.get("combinations", [done])
        return found

    def bandwidths(self, load: Load, pipeline: str, files: str | None = None) -> dict[int, float]:
        """GiB/s by the number of files."""
        return {p["files"]: load.total / GIB / sum(p["seconds"][phase] for phase in ("assign", "transfer", "write"))
                for p in self.predict(load, pipeline, files)}

    def one(self, load: Load, pipeline: str, files: str | None = None) -> float:
        return next(iter(self.bandwidths(load, pipeline, files).values()))


def _verdict(paper: float, model: float) -> str:
    deviation = model / paper - 1
    text = f"{100 * abs(deviation):.1f} % {'above' if deviation > 0 else 'below'}"
    return f"within 15 %: {text}" if abs(deviation) <= 0.15 else f"missed: {text}"


TURBULENCE_FILES = "512,1024,2048,4096,8192,16384"
S3D_FILES = "256,512,1024,2048"


@functools.cache
def rows(programs: Path) -> list[dict[str, Any]]:
    model = Model(programs)
    with tempfile.TemporaryDirectory() as name:
        return _rows(model, Path(name))


def _row(where: str, what: str, paper: Any, value: Any, verdict: str, note: str = "", unit: str = "GiB/s") -> dict[str, Any]:
    return {"paper": "000", "where": where, "what": what, "unit": unit, "paper_value": paper, "model_value": value,
            "measured_value": None, "verdict": verdict, "note": note,
            "command": "quarry-plan predict --machine tools/plan/machines/theta.json --sizes LOAD.json --pipeline P --files F"}


def _figure(where: str, values: list[tuple[str, float, float]]) -> list[dict[str, Any]]:
    """What, the paper's number, ours; and whether they come in the same order."""
    found = [_row(where, what, paper, round(value, 2), _verdict(paper, value)) for what, paper, value in values]
    papers = [what for what, _, _ in sorted(values, key=lambda v: -v[1])]
    ours = [what for what, _, _ in sorted(values, key=lambda v: -v[2])]
    found.append(_row(where, "order, fastest first", " > ".join(papers), " > ".join(ours),
                      "holds" if papers == ours else "does not hold", unit=""))
    return found


def _rows(model: Model, folder: Path) -> list[dict[str, Any]]:
    flow, flame = turbulence(folder), s3d(folder)
    balanced, equal = model.bandwidths(flow, "balanced", TURBULENCE_FILES), model.bandwidths(flow, "equal", TURBULENCE_FILES)
    found = _figure("figure 7", [("balanced, 8,192 files", 58.08, balanced[8192]),
                                 ("equal, best of its counts", 51.11, max(equal.values())),
                                 ("file per process", 33.01, model.one(flow, "fpp"))])
    best = max(balanced, key=lambda files: balanced[files])
    near = balanced[8192] / balanced[best]
    inner = best not in (min(balanced), max(balanced))
    found.append(_row("figure 7", "best number of files, balanced", 8192, best,
                      f"an inner optimum; 8,192 files reach {100 * near:.0f} % of it" if inner else "at the edge", unit=""))
    flame_balanced, flame_equal = model.bandwidths(flame, "balanced", S3D_FILES), model.bandwidths(flame, "equal", S3D_FILES)
    found += _figure("figure 8", [("balanced, 512 files", 9.97, flame_balanced[512]),
                                  ("equal, best of its counts", 7.5, max(flame_equal.values())),
                                  ("file per process", 5.14, model.one(flame, "fpp"))])
    best = max(flame_balanced, key=lambda files: flame_balanced[files])
    found.append(_row("figure 8", "best number of files, balanced", 512, best, "holds" if best == 512 else "does not hold",
                      unit=""))
    for name, load in (("turbulence", flow), ("S3D", flame)):
        chosen = model.predict(load, "balanced", "auto")[0]["files"]
        found.append(_row("figure 7" if name == "turbulence" else "figure 8", f"files that --files auto chooses, {name}", None,
                          chosen, "the fewest within 3 % of the best, of all phases", unit=""))
    found += _scaling(model, folder)
    found += _weak_scaling(model, folder)
    return found


def _scaling(model: Model, folder: Path) -> list[dict[str, Any]]:
    """Figure 9: balanced above equal at all counts; it prints no numbers."""
    ahead = []
    for ranks, grid in ((512, "8x8x8"), (1024, "16x8x8"), (2048, "16x16x8"), (4096, "16x16x16")):
        load = s3d(folder, grid)
        files = str(ranks // 8)
        ahead.append(model.one(load, "balanced", files) / model.one(load, "equal", files))
    text = ", ".join(f"{ratio:.2f}" for ratio in ahead)
    return [_row("figure 9", "balanced over equal at 512, 1,024, 2,048, 4,096 ranks", "above 1", text,
                 "holds" if min(ahead) > 1 else "does not hold", unit="")]


def _weak_scaling(model: Model, folder: Path) -> list[dict[str, Any]]:
    loads = {ranks: micro_benchmark(folder, ranks) for ranks in WEAK_GRIDS}
    large = loads[16384]
    balanced, group = model.one(large, "balanced", "2048"), model.one(large, "group-collective", "2048")
    found = _figure("figure 11", [("balanced, 16,384 ranks", 72.75, balanced), ("file per process", 59.65, model.one(large, "fpp")),
                                  ("collective: an eighth of balanced", 72.75 / 8, model.one(large, "collective"))])
    equal = model.one(large, "equal", "2048")
    found.append(_row("figure 11", "equal over group at 16,384 ranks", "similar", f"{equal / group:.2f}",
                      "does not hold" if abs(equal / group - 1) > 0.15 else "holds", unit=""))
    few = model.one(loads[1024], "fpp") / model.one(loads[1024], "balanced", "128")
    found.append(_row("figure 11", "file per process over balanced at 1,024 ranks", "above 1", f"{few:.2f}",
                      "holds" if few > 1 else "does not hold", unit=""))
    return found
