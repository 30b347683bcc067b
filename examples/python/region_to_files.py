#!/usr/bin/env python3
"""A region over many steps as NetCDF, Zarr and CSV files.

`export` goes box by box, so that the region may be larger than memory, and goes on where it was interrupted. Units,
coordinates, missing samples and error bounds come along. It writes a line of the grid as CSV; a table of a whole region
is pandas' business. Prints what each file holds.

Needs: pip install quarry-data[export,xarray] pandas
"""

import contextlib
import tempfile

import numpy as np
import pandas as pd
import xarray as xr

import quarry

TOLERANCE = 1e-3


def temperature():
    """Temperature of a sea over a slope: samples below the ground are missing."""
    z, y, x = np.meshgrid(np.arange(0, 400, 20.0), np.arange(0, 30, 1.0), np.arange(0, 40, 1.0), indexing="ij")
    values = [4 + 16 * np.exp(-z / 100) + 0.5 * np.sin(x / 5 + day / 3) * np.cos(y / 4) for day in range(5)]
    return np.where(z > 40 + 6 * x, np.nan, values).astype("f4")


def close(decoded, original):
    """Every sample within the tolerance, and NaN where it has to be."""
    np.testing.assert_allclose(decoded, original, rtol=0, atol=TOLERANCE)


def main():
    original = temperature()
    quarry.write("sea.quarry", original, field="temperature", units="degC", tolerance=TOLERANCE, spacing=(20, 1, 1),
                 time=range(5), time_units="days since 2024-03-01")

    # Steps 1 to 3 of a box, in samples: z, y, x.
    region = {"fields": "temperature", "steps": range(1, 4), "box": ((0, 10), (5, 25), (8, 24))}
    wanted = original[1:4, 0:10, 5:25, 8:24]

    with quarry.open("sea.quarry") as dataset:
        dataset.export("region.nc", **region, resume=True)  # begins, or goes on
        dataset.export("region.zarr", **region)
        dataset.export("overview.nc", **region, level=1)
        dataset.export("profile.csv", box=((0, 20), (15, 16), (10, 11)), steps=2)

        with xr.open_dataset("region.nc") as netcdf, xr.open_zarr("region.zarr") as zarr:
            for file in (netcdf, zarr):
                print(f"{dict(file.sizes)}, {file.time.dt.date.values[0]} to {file.time.dt.date.values[-1]}, "
                      f"mean {float(file.temperature.mean()):.3f} {file.temperature.units}")
                close(file.temperature, wanted)
                np.testing.assert_array_equal(file.z, np.arange(0, 200, 20))
            netcdf.temperature.to_dataframe().dropna().to_csv("region.csv")
        with xr.open_dataset("overview.nc") as overview:
            print(f"every second sample: {dict(overview.sizes)}")  # the even ones of the grid
            close(overview.temperature, original[1:4, 0:10:2, 6:25:2, 8:24:2])

    table = pd.read_csv("region.csv")
    print(f"region.csv: {len(table)} rows of {[*table]}")
    assert len(table) == np.isfinite(wanted).sum()

    profile = pd.read_csv("profile.csv")
    print(profile.dropna().to_string(index=False))
    close(profile["temperature [degC]"], original[2, :, 15, 10])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
