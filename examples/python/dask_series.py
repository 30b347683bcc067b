#!/usr/bin/env python3
"""Mean, spread, percentiles and spectrum of a field over a series of steps, by the workers of dask.

Each worker opens the dataset itself. Every sample is read once: all results come from one graph.

Needs: pip install quarry-data[xarray]
"""

import argparse

import dask
import dask.array
import numpy as np
import xarray as xr
from distributed import Client, LocalCluster

import quarry

BINS = 4096
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  dask_series.py grpcs://cluster:50051/run42 --field pressure --max-error 0.01 --workers 4")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("--field", required=True)
    parser.add_argument("--max-error", type=float, help="reads the coarsest level within it; default: full resolution")
    parser.add_argument("--workers", type=int, default=2, help="processes on this machine; default: 2")
    parser.add_argument("--scheduler", help="address of a cluster that runs, instead of --workers")
    parser.add_argument("--output", help="file for the results, .npz")
    parser.add_argument("--token", default="", help="for the server")
    parser.add_argument("--ca", default="", help="file with the authorities of servers")
    return parser.parse_args()


def value_range(options, margin):
    """Range of all samples that differ from the original ones by at most `margin`, from the records of the steps: reads
    no data."""
    with quarry.open(options.target, token=options.token, ca=options.ca) as dataset:
        said = [field for step in dataset.native.steps() for field in step.fields if field.name == options.field]
    return min(field.min for field in said) - margin, max(field.max for field in said) + margin


def percentiles(counts, edges):
    """From a histogram: off by less than the width of a bin."""
    below = np.concatenate([[0], np.cumsum(counts)])
    return np.interp(np.array(PERCENTILES) / 100 * below[-1], below, edges)


def spectrum(block):
    """Power of the fluctuations for each whole wave number, in cycles along the longest axis: [..., wave number]. NaN
    where samples are missing."""
    shape = block.shape[-3:]
    power = np.abs(np.fft.fftn(block - block.mean((-3, -2, -1), keepdims=True), axes=(-3, -2, -1), norm="forward"))**2
    waves = np.meshgrid(*(np.fft.fftfreq(length) * max(shape) for length in shape), indexing="ij")
    shell = np.rint(np.sqrt(sum(wave**2 for wave in waves))).astype(int).ravel()
    rows = power.reshape(-1, shell.size)
    summed = np.stack([np.bincount(shell, row, minlength=shells(shape)) for row in rows])
    return summed.reshape(*block.shape[:-3], -1)


def shells(shape):
    """How many wave numbers there are."""
    largest = [max(abs(np.fft.fftfreq(length))) * max(shape) for length in shape]
    return int(np.rint(np.sqrt(sum(wave**2 for wave in largest)))) + 1


def compute(array, low, high):
    """All results, of one pass over the data."""
    steps, *axes = array.dims
    whole = array.chunk({steps: 1, **dict.fromkeys(axes, -1)})
    counts, edges = dask.array.histogram(whole.data, bins=BINS, range=(low, high))
    powers = xr.apply_ufunc(spectrum, whole, input_core_dims=[axes], output_core_dims=[["wavenumber"]],
                            dask="parallelized", output_dtypes=["f8"],
                            dask_gufunc_kwargs={"output_sizes": {"wavenumber": shells(array.shape[1:])}})
    mean, std, counts, power = dask.compute(whole.mean(dtype="f8"), whole.std(dtype="f8"), counts, powers.mean(steps))
    return {"mean": float(mean), "std": float(std), "percentiles": percentiles(counts, edges), "spectrum": power.values}


def main():
    options = parse()
    cluster = options.scheduler or LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
    with Client(cluster):
        level = {} if options.max_error is None else {"max_error": {options.field: options.max_error}}
        with xr.open_dataset(options.target, engine="quarry", chunks={}, token=options.token, ca=options.ca,
                             **level) as dataset:
            array = dataset[options.field]
            results = compute(array, *value_range(options, array.attrs.get("max_error", 0)))
            print(f"{len(array)} steps at level {dataset.attrs.get('level', 0)}")
    if not options.scheduler:
        cluster.close()
    print(f"mean {results['mean']:.6g}, standard deviation {results['std']:.6g}")
    for percent, value in zip(PERCENTILES, results["percentiles"], strict=True):
        print(f"{percent} % lie below {value:.6g}")
    print("strongest wave number:", int(np.argmax(results["spectrum"])))
    if options.output:
        np.savez(options.output, **results)


if __name__ == "__main__":
    main()
