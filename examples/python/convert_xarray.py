#!/usr/bin/env python3
"""Converts an xarray Dataset with a land mask and dates, and opens it again.

Land is NaN and stays NaN. Dates, units, positions and attributes come along. Each variable has its own bound, in its own
unit. What does not change with time, here the mask, is stored once. Prints the size of what was written, and the dataset
as xarray sees it.

Needs: pip install quarry-data[xarray] netCDF4
"""

import contextlib
import tempfile

import numpy as np
import pandas as pd
import xarray as xr

import quarry

BOUNDS = {"sst": 0.01, "salinity": 0.001}


def ocean():
    """Three years of monthly means on a globe with two continents."""
    lat = np.arange(-88.75, 90, 2.5)
    lon = np.arange(1.25, 360, 2.5)
    time = pd.date_range("2001-01-15", periods=36, freq="30D")
    land = (np.abs(lat[:, None] - 10) < 45) & ((np.abs(lon - 20) < 25) | (np.abs(lon - 260) < 30))

    noise = np.random.default_rng(1).normal(size=(2, 36, 72, 144))
    season = np.cos(2 * np.pi * time.day_of_year / 365.25).to_numpy()[:, None, None]
    warm = np.cos(np.deg2rad(lat))[:, None]
    sst = 28 * warm - 3 * season * np.sin(np.deg2rad(lat))[:, None] + 0.2 * noise[0]
    salinity = 34 + warm + 0.05 * noise[1]

    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "sst": (dims, np.where(land, np.nan, sst).astype("f4"), {"units": "degC"}),
            "salinity": (dims, np.where(land, np.nan, salinity).astype("f4"), {"units": "1e-3"}),
            "land": (("lat", "lon"), land.astype("i1")),
        },
        coords={
            "time": time,
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
        },
    )


def main():
    ocean().to_netcdf("ocean.nc")

    with xr.open_dataset("ocean.nc", chunks={"time": 12}) as original:
        written = quarry.write("ocean.quarry", original, tolerance=BOUNDS)  # integers stay exact
        for name, bound in BOUNDS.items():
            steps = [step for step in written if step.field == name]
            raw, stored = sum(step.raw_bytes for step in steps), sum(step.stored_bytes for step in steps)
            print(f"{name}: {len(steps)} steps, {raw / stored:.1f} times smaller, "
                  f"largest error {max(step.max_error for step in steps):.3g} of {bound}")

        with xr.open_dataset("ocean.quarry", engine="quarry") as run:
            print(run)

            for name, bound in BOUNDS.items():
                assert {**original[name].attrs, "max_error": run[name].attrs["max_error"]} == run[name].attrs
                assert (run[name].isnull() == original[name].isnull()).all()
                assert abs(run[name] - original[name]).max() <= bound
            for name in ("time", "lat", "lon"):
                np.testing.assert_array_equal(run[name], original[name])
            assert run.land.identical(original.land.load())
            winter = run.sst.sel(time="2002-01", lat=slice(30, 60)).mean()
            print(f"January 2002 between 30 and 60 degrees north: {float(winter):.2f} {run.sst.units}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
