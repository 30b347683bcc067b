#!/usr/bin/env python3
"""Climatology and anomalies of a monthly series, by xarray and dask.

Only the engine is another one: groupby works as with NetCDF. Each chunk of dask is read when it is needed. Prints the
mean year at a place, and the month and the place with the strongest anomaly.

Needs: pip install quarry-data[xarray]
"""

import contextlib
import tempfile

import dask
import numpy as np
import pandas as pd
import xarray as xr

import quarry

TOLERANCE = 0.01  # [K]


def temperature():
    """Ten years of monthly means: a season, some noise, and a heat wave in July 2003."""
    time = pd.date_range("2000-01-01", periods=120, freq="MS")
    lat, lon = np.arange(30, 70, 2.5), np.arange(-20, 40, 2.5)
    noise = np.random.default_rng(2).normal(0, 0.3, (120, 16, 24))
    season = -10 * np.cos(2 * np.pi * (time.month - 1) / 12).to_numpy()[:, None, None]
    wave = (time == "2003-07-01")[:, None, None] * 6 * np.exp(-((lat[:, None] - 47.5)**2 + (lon - 5)**2) / 100)
    values = 300 - 0.5 * lat[:, None] + season + noise + wave
    return xr.DataArray(values.astype("f4"), {"time": time, "lat": lat, "lon": lon}, name="t2m", attrs={"units": "K"})


def anomalies(t2m):
    """The mean of each month of the year, and what each month differs from it by."""
    months = t2m.groupby("time.month")
    climatology = months.mean()
    return climatology, months - climatology


def main():
    original = temperature()
    quarry.write("t2m.quarry", original, tolerance=TOLERANCE)

    with xr.open_dataset("t2m.quarry", engine="quarry", chunks={}) as run:
        t2m = run.t2m
        print(f"{t2m.sizes['time']} months in {t2m.data.npartitions} chunks of dask")
        climatology, anomaly = dask.compute(*anomalies(t2m))  # one pass over the data for both

    here = climatology.sel(lat=47.5, lon=5)
    print("mean year at 47.5 N, 5 E [K]:", *(f"{value:.1f}" for value in here.values))
    strongest = anomaly.isel(anomaly.argmax(...))
    print(f"strongest anomaly: {strongest.item():+.2f} K in {strongest.time.dt.strftime('%Y-%m').item()} "
          f"at {strongest.lat.item()} N, {strongest.lon.item()} E")

    wanted, wanted_anomaly = anomalies(original)
    rounding = 1e-4  # rounding of float32
    assert abs(climatology - wanted).max() <= TOLERANCE + rounding  # a mean is as close as what it is of
    assert abs(anomaly - wanted_anomaly).max() <= 2 * TOLERANCE + rounding
    assert strongest.time.values == np.datetime64("2003-07-01")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
