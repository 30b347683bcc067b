#!/usr/bin/env python3
"""Time series at stations: points between the samples, over all steps.

By `Field.points`, which interpolates where the data are and says how far off the result is at most, and by xarray,
which takes the nearest sample. Prints a table of the series.

Needs: pip install quarry-data[xarray] pandas scipy
"""

import contextlib
import tempfile

import numpy as np
import pandas as pd
import xarray as xr

import quarry

TOLERANCE = 0.005  # [m]
STATIONS = pd.DataFrame({"lat": [53.9, 51.4, 56.7], "lon": [8.7, 3.5, 8.2]},
                        index=["Cuxhaven", "Vlissingen", "Thyboron"])


def sea_level():
    """A tide that goes round the North Sea: 49 hours."""
    time = pd.date_range("2024-01-01", periods=49, freq="h")
    lat, lon = np.arange(50, 60, 0.25), np.arange(-2, 10, 0.25)
    phase = np.arctan2(lat[:, None] - 55, lon - 4)
    hours = np.arange(49)[:, None, None]
    level = 0.2 * np.hypot(lat[:, None] - 55, lon - 4) * np.cos(2 * np.pi * hours / 12.42 - phase)
    return xr.DataArray(level.astype("f4"), {"time": time, "lat": lat, "lon": lon}, name="level", attrs={"units": "m"})


def main():
    original = sea_level()
    quarry.write("tide.quarry", original, tolerance=TOLERANCE)

    with quarry.open("tide.quarry") as dataset:
        field = dataset["level"]
        positions = [(0, lat, lon) for lat, lon in STATIONS.to_numpy()]  # z, y, x: a map lies at z = 0
        rows, errors = zip(*(field.points(positions, step=step, physical=True) for step in field.steps), strict=True)
        series = pd.DataFrame(rows, index=pd.to_datetime(dataset.dates), columns=STATIONS.index)
    print(series.iloc[::8].round(3))
    print(f"all within {max(errors):.3g} m of the same interpolation of the original")
    print("high water:", ", ".join(f"{name} {time:%d %B %H:%M}" for name, time in series.idxmax().items()))

    # The nearest sample, as xarray users write it: one read for all stations.
    with xr.open_dataset("tide.quarry", engine="quarry") as run:
        places = STATIONS.to_xarray().rename(index="station")
        nearest = run.level.sel(lat=places.lat, lon=places.lon, method="nearest").load()
    print(f"nearest samples: {dict(nearest.sizes)}")

    interpolated = original.interp(lat=places.lat, lon=places.lon)
    assert np.abs(series.to_numpy() - interpolated).max() <= max(errors) <= TOLERANCE
    assert (series.index == original.indexes["time"]).all()
    there = original.sel(lat=places.lat, lon=places.lon, method="nearest")
    assert np.abs(nearest.values - there.values).max() <= TOLERANCE


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
