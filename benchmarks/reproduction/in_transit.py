"""Bytes of a flow as raw samples, as pictures, and as a Quarry dataset: table IV of Marrinan et al., Automated Dynamic
Data Redistribution, at its smallest shape, 3238 x 1295.

Two runs of examples/lbm in two dimensions:

* at the paper's shape, 10 ranks simulate and 4 consume: they draw each step and write it. There is no time here for the
  paper's 20000 iterations, so the flow has only begun, and its pictures are smaller than those of a wake.
* the same flow, at the same Reynolds number, on a fifth of the cells along each axis, until the wake has developed. Its
  vorticity is interpolated to the paper's shape, coloured, and converted: this stands beside the paper's number.

Needs numpy and Pillow, and the programs lbm and quarry-write. Takes about a minute.
"""

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction.running import AGREES, NOT_IN_PAPER, Command, Row, row, this_module

Field = np.ndarray[Any, np.dtype[np.floating[Any]]]

SHAPE = (3238, 1295)
OUTPUTS = 200  # steps that the paper saves
# The paper's grids: raw data ["GB", which are 1000 MiB], processed data ["MB", which are MiB], reduction [%].
TABLE = {
    (3238, 1295): (3.2, 19.9, 99.38),
    (6476, 2590): (12.8, 61.0, 99.52),
    (12952, 5180): (51.2, 217.8, 99.57),
    (25904, 10360): (204.7, 830.9, 99.59),
}
MIB = 2**20
FRACTION = 5  # share of the cells along each axis that the developed wake has
INFLOW = 0.15
PATCH = "256x256x1"  # as lbm has it in two dimensions; the default, 64 along each axis, is for volumes
EARLY, WAKE = (40, 20), (4000, 800)  # steps, and steps between outputs, of the two runs
JPEG_QUALITY = 75  # libjpeg's default; the paper does not say


def lbm(ranks: int, cells: tuple[int, ...], steps: int, every: int, *options: object) -> Command:
    """A flow in a plane."""
    words = ("--inflow", INFLOW, "--dims", "x".join(map(str, (*cells, 1))), "--steps", steps, "--dump-every", every)
    return Command("lbm", *words, *options, ranks=ranks)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


class Early(NamedTuple):
    """Bytes of the last step of the run at the paper's shape."""

    raw: int
    png: int
    jpeg: int
    quarry: int


def at_the_papers_shape(programs: Path, folder: Path) -> Early:
    """10 ranks simulate, 4 consume."""
    from PIL import Image

    steps, every = EARLY
    words = ("--consumers", 4, "--pictures", "pictures", "--insitu", "run.quarry", "--output", "dump")
    lbm(14, SHAPE, steps, every, *words).run(programs, folder=folder)
    raw = size_of(folder / "dump" / f"step{steps:06}" / f"lbm-vorticity-[{SHAPE[0]}-{SHAPE[1]}-1]-Float32.raw")
    shutil.rmtree(folder / "dump")
    pictures = sorted((folder / "pictures").glob("*.png"))
    if len(pictures) != steps // every:
        raise RuntimeError(f"{len(pictures)} pictures of {steps // every} steps")
    with Image.open(pictures[-1]) as image:
        if image.size != SHAPE:
            raise RuntimeError(f"a picture of {image.size} pixels instead of {SHAPE}")
        image.convert("RGB").save(folder / "early.jpg", quality=JPEG_QUALITY)
    quarry = size_of(folder / "run.quarry" / "steps" / f"{steps:06}" / "vorticity")
    return Early(raw, size_of(pictures[-1]), size_of(folder / "early.jpg"), quarry)


def interpolated(field: Field) -> Field:
    """A field at the paper's shape, by bicubic interpolation."""
    from PIL import Image

    return np.asarray(Image.fromarray(field.astype(np.float32)).resize(SHAPE, Image.Resampling.BICUBIC))


def coloured(vorticity: Field, scale: float) -> Any:
    """A picture in blue, white and red as lbm's, y upwards; the three colours mixed evenly."""
    from PIL import Image

    blue, white, red = (np.array(c, float) for c in ((59, 76, 192), (221, 220, 220), (180, 4, 38)))
    position = np.clip(vorticity / scale, -1, 1)[::-1, :, None]
    end = np.where(position < 0, blue, red)
    return Image.fromarray(np.uint8(np.rint(white + abs(position) * (end - white))))


def converted(programs: Path, folder: Path, *bound: str) -> int:
    """Bytes of vorticity.f32, a field at the paper's shape, as a dataset."""
    words = ("--dims", "x".join(map(str, (*SHAPE, 1))), "--type", "float32", "--field", "vorticity")
    Command("quarry-write", "vorticity.f32", *words, *bound, "--output", "field.quarry").run(programs, folder=folder)
    size = size_of(folder / "field.quarry" / "steps")
    shutil.rmtree(folder / "field.quarry")
    return size


class Wake(NamedTuple):
    """MiB of a step at the paper's shape; Quarry's vorticity within a fraction of its range."""

    png: float
    jpeg: float
    thousandth: float
    hundredth: float
    lossless: float
    small_patches: float


def developed_wake(programs: Path, folder: Path) -> Wake:
    """Means over the dumped steps."""
    steps, every = WAKE
    cells = tuple(round(side / FRACTION) for side in SHAPE)
    lbm(2, cells, steps, every, "--output", "wake").run(programs, folder=folder)
    dumps = sorted((folder / "wake").iterdir())
    if len(dumps) != steps // every:
        raise RuntimeError(f"{len(dumps)} dumps of {steps // every} steps")
    sizes = [sizes_of_step(programs, folder, dump, cells) for dump in dumps]
    return Wake(*(float(mean) / MIB for mean in np.mean(sizes, axis=0)))


def sizes_of_step(programs: Path, folder: Path, dump: Path, cells: tuple[int, ...]) -> list[int]:
    """Bytes, in the order of Wake."""
    ux, uy = (
        np.fromfile(dump / f"lbm-velocity_{axis}-[{cells[0]}-{cells[1]}-1]-Float32.raw", "<f4").reshape(cells[::-1])
        for axis in "xy"
    )
    vorticity = interpolated(np.gradient(uy, axis=1) - np.gradient(ux, axis=0))
    vorticity.astype("<f4").tofile(folder / "vorticity.f32")
    picture = coloured(vorticity, 5 * INFLOW / (0.17 * cells[1]))  # where lbm's colours end
    picture.save(folder / "wake.png")
    picture.save(folder / "wake.jpg", quality=JPEG_QUALITY)
    bounds = (
        ("--relative", "1e-3", "--patch", PATCH),
        ("--relative", "1e-2", "--patch", PATCH),
        ("--lossless", "--patch", PATCH),
        ("--relative", "1e-3"),
    )
    pictures = [size_of(folder / "wake.png"), size_of(folder / "wake.jpg")]
    return pictures + [converted(programs, folder, *bound) for bound in bounds]


of_table = functools.partial(row, "001", "table IV")


def raw_mib(grid: tuple[int, int]) -> float:
    """MiB of a step: samples of 4 bytes."""
    return grid[0] * grid[1] * 4 / MIB


def raw_row(grid: tuple[int, int], measured_mib: float | None = None) -> Row:
    """Raw data are known to the byte."""
    model = round(raw_mib(grid) * OUTPUTS / 1000, 3)
    measured = None if measured_mib is None else round(measured_mib * OUTPUTS / 1000, 3)
    same = round(model, 1) == TABLE[grid][0] and measured in (None, model)
    return of_table(
        f"raw data of {OUTPUTS} steps, {grid[0]} x {grid[1]}",
        "GB",
        paper_value=TABLE[grid][0],
        model_value=model,
        measured_value=measured,
        verdict=AGREES if same else "differs",
        command="" if measured is None else this_module("in_transit"),
        note="samples of 4 bytes; the paper's GB are 1000 MiB. Measured: a dumped field, times the number of steps",
    )


def reduction(size: float, raw: float) -> float:
    """In percent."""
    return round(100 * (1 - size / raw), 2)


def reduction_row(grid: tuple[int, int], jpeg_mib: float | None = None) -> Row:
    """The savings of the paper's JPEG files, from the sizes that it prints, and of ours."""
    _, processed, paper = TABLE[grid]
    model = reduction(processed, raw_mib(grid) * OUTPUTS)
    measured = None if jpeg_mib is None else reduction(jpeg_mib, raw_mib(grid))
    close = abs((model if measured is None else measured) - paper) <= (0.011 if measured is None else 0.5)
    smallest = "the model is computed from the paper's own sizes"
    times = round(grid[0] * grid[1] / (SHAPE[0] * SHAPE[1]))
    larger = (
        f"{smallest}. Not measured: a step has {times} times the cells of the smallest grid, on which a wake already "
        "takes too long, so that it is interpolated"
    )
    return of_table(
        f"data reduction by JPEG, {grid[0]} x {grid[1]}",
        "%",
        paper_value=paper,
        model_value=model,
        measured_value=measured,
        verdict=("differs" if not close else AGREES if measured is None else f"{AGREES} within 0.5 %"),
        command="" if measured is None else this_module("in_transit"),
        note=f"{smallest}; measured: the interpolated wake" if grid == SHAPE else larger,
    )


def modelled(programs: Path) -> list[Row]:
    """Raw data, and the reductions that follow from the paper's sizes."""
    del programs
    return [raw_row(grid) for grid in TABLE] + [reduction_row(grid) for grid in TABLE]


def wake_rows(wake: Wake) -> list[Row]:
    """Pictures and datasets of the developed wake."""
    paper = TABLE[SHAPE][1] / OUTPUTS
    diameters = WAKE[0] * INFLOW / (0.17 * SHAPE[1] / FRACTION)
    of = (
        f"mean of {WAKE[0] // WAKE[1]} steps until {WAKE[0]}, in which the inflow passes {diameters:.0f} diameters; "
        f"computed on {round(SHAPE[0] / FRACTION)} x {round(SHAPE[1] / FRACTION)} cells and interpolated to 3238 x 1295"
    )
    smooth = (
        f"{of}. Interpolated samples are smoother than computed ones. The range is that of the layers at the barrier"
    )
    quality = f"{of}; quality {JPEG_QUALITY}. The paper gives neither its quality nor its Reynolds number"
    small = f"{of}; 1071 patches, each with its tables: in a plane, larger patches pay"
    share = "of the paper's picture"
    jpeg = of_table(
        "picture of a step, JPEG",
        "MiB",
        paper_value=round(paper, 4),
        measured_value=round(wake.jpeg, 4),
        verdict=f"not comparable: {wake.jpeg / paper:.2f} {share}, at another quality and Reynolds number",
        command=this_module("in_transit"),
        note=quality,
    )
    others = (
        ("picture of a step, PNG", wake.png, "", of),
        ("Quarry, vorticity of a step within 1e-2 of its range", wake.hundredth, share, smooth),
        ("Quarry, vorticity of a step within 1e-3 of its range", wake.thousandth, share, smooth),
        ("Quarry, vorticity of a step without loss", wake.lossless, "", smooth),
        ("Quarry within 1e-3 in patches of 64 x 64", wake.small_patches, "", small),
    )
    saved = of_table(
        "data reduction by Quarry within 1e-3, 3238 x 1295",
        "%",
        measured_value=reduction(wake.thousandth, raw_mib(SHAPE)),
        verdict=NOT_IN_PAPER,
        command=this_module("in_transit"),
        note=smooth,
    )
    beside_it = [beside(what, mib, note, f": {mib / paper:.2f} {to}" if to else "") for what, mib, to, note in others]
    return [jpeg, *beside_it, saved]


def beside(what: str, mib: float, note: str, more: str = "") -> Row:
    """A size that the paper does not have."""
    return of_table(
        what,
        "MiB",
        measured_value=round(mib, 4),
        verdict=f"{NOT_IN_PAPER}{more}",
        command=this_module("in_transit"),
        note=note,
    )


def early_rows(early: Early) -> list[Row]:
    """Pictures and dataset of the run at the paper's shape."""
    begun = f"10 + 4 ranks at this shape, step {EARLY[0]}: the flow has only begun"
    jpeg = of_table(
        "drawn and written while it runs: the same as JPEG",
        "MiB",
        paper_value=round(TABLE[SHAPE][1] / OUTPUTS, 4),
        measured_value=round(early.jpeg / MIB, 4),
        verdict="not comparable: the flow has only begun",
        command=this_module("in_transit"),
        note=begun,
    )
    return [
        beside("drawn and written while it runs: PNG", early.png / MIB, begun),
        jpeg,
        beside("drawn and written while it runs: Quarry, vorticity within 1e-3", early.quarry / MIB, begun),
    ]


def measured(programs: Path) -> list[Row]:
    """The rows of the smallest grid."""
    with tempfile.TemporaryDirectory(prefix="quarry-in-transit-") as name:
        folder = Path(name)
        early = at_the_papers_shape(programs, folder)
        wake = developed_wake(programs, folder)
    of_grid = [raw_row(SHAPE, early.raw / MIB), reduction_row(SHAPE, wake.jpeg)]
    return of_grid + wake_rows(wake) + early_rows(early)
