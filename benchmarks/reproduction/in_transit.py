#!/usr/bin/python3
"""Bytes of a flow as raw samples, as pictures, and as a Quarry dataset: table IV of Marrinan et al., Automated Dynamic
Data Redistribution, at its smallest shape, 3238 x 1295.

Two runs of examples/lbm in two dimensions:

* at the paper's shape, 10 ranks simulate and 4 consume: they draw each step and write it. There is no time here for the paper's
  20000 iterations, so the flow has only begun, and its pictures are smaller than those of a wake.
* the same flow, at the same Reynolds number, on a fifth of the cells along each axis, until the wake has developed. Its
  vorticity is interpolated to the paper's shape, coloured, and converted: this is what stands beside the paper's number.

Needs numpy and Pillow, and the programs lbm, quarry-write and quarry of the release preset. Takes about a minute.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reproduction.running import ENVIRONMENT

Field = np.ndarray[Any, np.dtype[np.floating[Any]]]
Row = dict[str, str | float | None]

ROOT = Path(__file__).resolve().parents[2]
SHAPE = (3238, 1295)
OUTPUTS = 200  # steps that the paper saves
# The paper's grids, and its raw and processed data: "GB" is 1000 MiB, which all four raw sizes agree with.
TABLE = {
    (3238, 1295): (3.2, 19.9),
    (6476, 2590): (12.8, 61.0),
    (12952, 5180): (51.2, 217.8),
    (25904, 10360): (204.7, 830.9),
}
MIB = 2**20
FRACTION = 5  # of the cells along each axis that the developed wake has
INFLOW = 0.15
PATCH = "256x256x1"  # as lbm has it in two dimensions; the default, 64 along each axis, is for volumes
JPEG_QUALITY = 75  # libjpeg's default; the paper does not say


def call(*command: object) -> str:
    """Standard output of a program that succeeds."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"in_transit.py: {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def lbm_command(ranks: int, *options: object) -> list[str]:
    return ["mpirun", "-n", str(ranks), "build/release/bin/lbm", "--inflow", str(INFLOW), *map(str, options)]


def run_lbm(command: list[str], folder: Path) -> None:
    call(
        *[
            str(ROOT / word) if word.startswith("build/") else str(folder / word) if word.startswith("out-") else word
            for word in command
        ]
    )


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def at_the_papers_shape(folder: Path, steps: int, every: int) -> tuple[str, int, list[int]]:
    """10 ranks simulate, 4 consume: command, bytes of a raw field, and of the last step as PNG, JPEG, Quarry's vorticity."""
    command = lbm_command(
        14,
        "--dims",
        "x".join(map(str, (*SHAPE, 1))),
        "--steps",
        steps,
        "--dump-every",
        every,
        "--consumers",
        4,
        "--pictures",
        "out-pictures",
        "--insitu",
        "out-run.quarry",
        "--output",
        "out-dump",
    )
    run_lbm(command, folder)
    step = f"step{steps:06}"
    raw = size_of(folder / "out-dump" / step / f"lbm-vorticity-[{SHAPE[0]}-{SHAPE[1]}-1]-Float32.raw")
    shutil.rmtree(folder / "out-dump")
    pictures = sorted((folder / "out-pictures").glob("*.png"))
    if len(pictures) != steps // every:
        sys.exit(f"in_transit.py: {len(pictures)} pictures of {steps // every} steps")
    with Image.open(pictures[-1]) as image:
        if image.size != SHAPE:
            sys.exit(f"in_transit.py: a picture of {image.size} pixels instead of {SHAPE}")
        image.convert("RGB").save(folder / "early.jpg", quality=JPEG_QUALITY)
    quarry = size_of(folder / "out-run.quarry" / "steps" / f"{steps:06}" / "vorticity")
    return " ".join(command), raw, [size_of(pictures[-1]), size_of(folder / "early.jpg"), quarry]


def interpolated(field: Field) -> Field:
    """A field at the paper's shape, by bicubic interpolation."""
    return np.asarray(Image.fromarray(field.astype(np.float32)).resize(SHAPE, Image.Resampling.BICUBIC))


def coloured(vorticity: Field, scale: float) -> Image.Image:
    """Blue, white and red as in lbm's pictures, y upwards; the three colours mixed evenly."""
    blue, white, red = (np.array(c, float) for c in ((59, 76, 192), (221, 220, 220), (180, 4, 38)))
    position = np.clip(vorticity / scale, -1, 1)[::-1, :, None]
    end = np.where(position < 0, blue, red)
    return Image.fromarray(np.uint8(np.rint(white + abs(position) * (end - white))))


def converted(binaries: Path, folder: Path, name: str, *bound: str) -> int:
    """Bytes of a field at the paper's shape as a dataset."""
    dataset = folder / "field.quarry"
    call(
        binaries / "quarry-write",
        folder / name,
        "--dims",
        "x".join(map(str, (*SHAPE, 1))),
        "--type",
        "float32",
        "--field",
        "vorticity",
        *bound,
        "--output",
        dataset,
    )
    size = size_of(dataset / "steps")
    shutil.rmtree(dataset)
    return size


def developed_wake(binaries: Path, folder: Path, steps: int, every: int) -> tuple[str, list[float]]:
    """Command, and mean bytes of a step at the paper's shape: PNG, JPEG, Quarry with 1e-3, 1e-2, without loss, and with
    1e-3 in patches of the default size."""
    cells = tuple(round(side / FRACTION) for side in SHAPE)
    command = lbm_command(
        2, "--dims", "x".join(map(str, (*cells, 1))), "--steps", steps, "--dump-every", every, "--output", "out-wake"
    )
    run_lbm(command, folder)
    scale = 5 * INFLOW / (0.17 * cells[1])  # where lbm's colours end
    sizes = []
    for dump in sorted((folder / "out-wake").iterdir()):
        ux, uy = (
            np.fromfile(dump / f"lbm-velocity_{axis}-[{cells[0]}-{cells[1]}-1]-Float32.raw", "<f4").reshape(cells[::-1])
            for axis in "xy"
        )
        vorticity = interpolated(np.gradient(uy, axis=1) - np.gradient(ux, axis=0))
        vorticity.astype("<f4").tofile(folder / "vorticity.f32")
        picture = coloured(vorticity, scale)
        picture.save(folder / "wake.png")
        picture.save(folder / "wake.jpg", quality=JPEG_QUALITY)
        sizes.append(
            [
                size_of(folder / "wake.png"),
                size_of(folder / "wake.jpg"),
                *(
                    converted(binaries, folder, "vorticity.f32", *bound)
                    for bound in (
                        ("--relative", "1e-3", "--patch", PATCH),
                        ("--relative", "1e-2", "--patch", PATCH),
                        ("--lossless", "--patch", PATCH),
                        ("--relative", "1e-3"),
                    )
                ),
            ]
        )
    if len(sizes) != steps // every:
        sys.exit(f"in_transit.py: {len(sizes)} dumps of {steps // every} steps")
    return " ".join(command), [float(mean) for mean in np.mean(sizes, axis=0)]


def row(
    what: str,
    unit: str,
    paper: float | None,
    model: float | None,
    measured: float | None,
    verdict: str,
    command: str = "",
    note: str = "",
) -> Row:
    return {
        "paper": "001",
        "where": "table IV",
        "what": what,
        "unit": unit,
        "paper_value": paper,
        "model_value": model,
        "measured_value": measured,
        "verdict": verdict,
        "command": command,
        "note": note,
    }


def raw_rows(raw: int, command: str) -> list[Row]:
    """Raw data are known to the byte: samples of 4 bytes, 200 times."""
    result = []
    for grid, (paper, _) in TABLE.items():
        model = round(grid[0] * grid[1] * 4 * OUTPUTS / MIB / 1000, 3)
        measured = round(raw * OUTPUTS / MIB / 1000, 3) if grid == SHAPE else None
        agrees = round(model, 1) == paper and measured in (None, model)
        result.append(
            row(
                f"raw data, {grid[0]} x {grid[1]}",
                "1000 MiB of 200 steps",
                paper,
                model,
                measured,
                "agrees" if agrees else "differs",
                command if measured else "",
                "samples of 4 bytes; measured: a dumped field, 200 times",
            )
        )
    return result


def rows(
    binaries: Path = ROOT / "build" / "release" / "bin",
    early: tuple[int, int] = (40, 20),
    wake: tuple[int, int] = (4000, 800),
) -> list[Row]:
    """The rows of the table. early, wake: steps, and steps between outputs, of the two runs."""
    with tempfile.TemporaryDirectory(prefix="quarry-in-transit-") as name:
        folder = Path(name)
        command, raw, of_early = at_the_papers_shape(folder, *early)
        wake_command, of_wake = developed_wake(binaries, folder, *wake)
    paper = TABLE[SHAPE][1] / OUTPUTS
    png, jpeg, thousandth, hundredth, lossless, small_patches = (size / MIB for size in of_wake)
    early_png, early_jpeg, early_quarry = (size / MIB for size in of_early)
    diameters = wake[0] * INFLOW / (0.17 * SHAPE[1] / FRACTION)
    of = (
        f"mean of {wake[0] // wake[1]} steps until {wake[0]}, in which the inflow passes {diameters:.0f} diameters; "
        f"computed on {round(SHAPE[0] / FRACTION)} x {round(SHAPE[1] / FRACTION)} cells and interpolated to 3238 x 1295"
    )
    begun = f"10 + 4 ranks at this shape, step {early[0]}: the flow has only begun"
    raw_mib = raw / MIB

    smooth = (
        of
        + ". Interpolated samples are smoother than computed ones, and the range is that of the layers at the barrier"
    )

    def reduction(size: float) -> float:
        return round(100 * (1 - size / raw_mib), 2)

    result = raw_rows(raw, command)
    result += [
        row(
            "picture of a step, JPEG",
            "MiB",
            round(paper, 4),
            None,
            round(jpeg, 4),
            f"{jpeg / paper:.2f} of the paper's",
            wake_command,
            f"{of}; quality {JPEG_QUALITY}. The paper gives neither its quality nor its Reynolds number",
        ),
        row(
            "data reduction by JPEG",
            "%",
            99.38,
            reduction(paper),
            reduction(jpeg),
            "agrees within 0.5 %" if abs(reduction(jpeg) - 99.38) < 0.5 else "differs",
            wake_command,
            of,
        ),
        row("picture of a step, PNG", "MiB", None, None, round(png, 4), "beside", wake_command, of),
        row(
            "Quarry, vorticity of a step within 1e-2 of its range",
            "MiB",
            None,
            None,
            round(hundredth, 4),
            f"{hundredth / paper:.2f} of the paper's picture",
            wake_command,
            smooth,
        ),
        row(
            "Quarry, vorticity of a step within 1e-3 of its range",
            "MiB",
            None,
            None,
            round(thousandth, 4),
            f"{thousandth / paper:.2f} of the paper's picture",
            wake_command,
            smooth,
        ),
        row(
            "data reduction by Quarry within 1e-3",
            "%",
            None,
            None,
            reduction(thousandth),
            "beside",
            wake_command,
            smooth,
        ),
        row(
            "Quarry, vorticity of a step without loss",
            "MiB",
            None,
            None,
            round(lossless, 4),
            "beside",
            wake_command,
            smooth,
        ),
        row(
            "Quarry within 1e-3 in patches of 64 x 64",
            "MiB",
            None,
            None,
            round(small_patches, 4),
            "beside",
            wake_command,
            of + "; 1071 patches, each with its tables: in a plane, larger patches pay",
        ),
        row("drawn and written while it runs: PNG", "MiB", None, None, round(early_png, 4), "beside", command, begun),
        row(
            "drawn and written while it runs: the same as JPEG",
            "MiB",
            round(paper, 4),
            None,
            round(early_jpeg, 4),
            "not comparable",
            command,
            begun,
        ),
        row(
            "drawn and written while it runs: Quarry, vorticity within 1e-3",
            "MiB",
            None,
            None,
            round(early_quarry, 4),
            "beside",
            command,
            begun,
        ),
    ]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    table = rows()
    if arguments.json:
        print(json.dumps(table, indent=1))
        return
    for r in table:
        values = " | ".join(
            "-" if r[key] is None else str(r[key]) for key in ("paper_value", "model_value", "measured_value")
        )
        print(f"{r['what']} [{r['unit']}] | {values} | {r['verdict']} | {r['note']}")


if __name__ == "__main__":
    main()
