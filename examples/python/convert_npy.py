#!/usr/bin/env python3
"""Converts 200 .npy files, one for each step, and can be started again.

The number of a step comes from the name of its file. With mode="resume" the steps that are there are skipped, so that
the same loop goes on after it was interrupted, or when there are more files. Prints what was written in each of two
runs, and what became of the files.

Needs: pip install quarry-data
"""

import contextlib
import re
import tempfile
from pathlib import Path

import numpy as np

import quarry

TOLERANCE = 1e-3
TIME_STEP = 0.01  # [s]


def simulate(folder):
    """A wave in a box: a file every 50 steps."""
    z, y, x = np.meshgrid(*(np.linspace(0, 6, n) for n in (16, 24, 32)), indexing="ij")
    for step in range(0, 10_000, 50):
        density = 1 + 0.1 * np.sin(2 * x - step / 1000) * np.cos(y) + 0.02 * z
        np.save(folder / f"density_{step:06}.npy", density.astype("f4"))


def convert(files):
    """How many steps were written."""
    written = []
    for file in files:
        step = int(re.search(r"_(\d+)\.npy$", file.name)[1])
        written += quarry.write("run.quarry", np.load(file, mmap_mode="r"), field="density", units="kg m-3",
                                tolerance=TOLERANCE, step=step, time=step * TIME_STEP, time_units="s",
                                spacing=(0.4, 0.26, 0.19), mode="resume")
    return len(written)


def main():
    folder = Path("dumps")
    folder.mkdir()
    simulate(folder)
    files = sorted(folder.glob("density_*.npy"))

    print(f"first run: {convert(files[:120])} steps")  # the job ended here
    print(f"second run: {convert(files)} steps")

    stored = sum(file.stat().st_size for file in Path("run.quarry").rglob("*") if file.is_file())
    raw = sum(file.stat().st_size for file in files)
    print(f"{raw / 1e6:.1f} MB in {len(files)} files became {stored / 1e6:.1f} MB")

    with quarry.open("run.quarry") as dataset:
        density = dataset["density"]
        assert density.steps == list(range(0, 10_000, 50))
        np.testing.assert_allclose(dataset.times, np.arange(200) * 50 * TIME_STEP)
        for file, decoded in zip(files, density, strict=True):
            assert np.abs(decoded - np.load(file)).max() <= TOLERANCE
        print(f"density {density.shape}, from {dataset.times[0]} to {dataset.times[-1]} {dataset.time_units}")
        probe = density[:, 8, 12, 16]  # one sample, of all steps
        print(f"in the middle it is between {probe.min():.3f} and {probe.max():.3f} {density.units}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
