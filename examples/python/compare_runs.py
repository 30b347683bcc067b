#!/usr/bin/env python3
"""Compares two runs: where they differ by more than their errors can explain, and a picture of it.

Each sample of a run, at any level, is within the tolerance of the original one. So a difference of two is within the
sum of both, and what is larger than that is real. A coarse level comes first: it says with little data where to look.
Prints the bound, and how much of the grid differs at each level.

Needs: pip install quarry-data[xarray,pictures]
"""

import contextlib
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import quarry


def runs():
    """A field, and the same with a vortex that the other model does not have."""
    z, y, x = np.meshgrid(*(np.linspace(0, 6, n) for n in (16, 48, 64)), indexing="ij")
    first = np.sin(x) * np.cos(y) + 0.1 * z
    second = first + 0.2 * np.exp(-((x - 4)**2 + (y - 2)**2) / 0.3)
    return first.astype("f4"), second.astype("f4")


def difference(level):
    """The second run less the first, and how far that of the original samples is from it at most."""
    with (xr.open_dataset("first.quarry", engine="quarry", level=level) as first,
          xr.open_dataset("second.quarry", engine="quarry", level=level) as second):
        bound = first.w.encoding["tolerance"] + second.w.encoding["tolerance"]
        return (second.w - first.w).isel(step=0).load(), bound


def main():
    first, second = runs()
    options = {"field": "w", "units": "m s-1", "spacing": (0.4, 0.13, 0.1)}
    quarry.write("first.quarry", first, tolerance=1e-3, **options)
    quarry.write("second.quarry", second, tolerance=5e-3, **options)

    for level in (2, 1, 0):  # coarse first
        found, bound = difference(level)
        real = abs(found) > bound
        share = float(real.mean())
        print(f"level {level}: {found.size} samples, {share:.1%} differ by more than {bound:.3g} m/s")
        stride = 2**level
        originals = (second - first)[::stride, ::stride, ::stride]
        rounding = 1e-6  # rounding of float32
        assert np.abs(found - originals).max() <= bound + rounding
        assert np.all(real.values[np.abs(originals) > 2 * bound])  # nothing that is much larger is overlooked
        assert np.all(np.abs(originals)[real] > 0)

    peak = found.isel(found.argmax(...))
    print(f"the largest is {peak.item():.3f} m/s at x = {peak.x.item():.1f}, y = {peak.y.item():.1f}")
    assert bound == 1e-3 + 5e-3 and abs(peak.item() - 0.2) <= bound

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    found.isel(z=8).plot(ax=panels[0])
    found.where(real).isel(z=8).plot(ax=panels[1])
    panels[1].set_title("more than the errors can explain")
    figure.savefig("difference.png")
    print(f"difference.png: {Path('difference.png').stat().st_size // 1000} kB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
