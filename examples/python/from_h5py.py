#!/usr/bin/env python3
"""Coming from h5py: the same questions to an HDF5 file and to a dataset of Quarry, side by side.

Needs: pip install quarry-data h5py
"""

import argparse

import h5py
import numpy as np

import quarry


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  from_h5py.py run42.h5 run42.quarry --field pressure")
    parser.add_argument("file", help="an HDF5 file with the field as an array [step, z, y, x]")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("--field", required=True)
    return parser.parse_args()


def ask(field):
    """Features of both: shape, type, chunks and numpy's indexing. Only the selection is read."""
    return {
        "shape": field.shape,
        "type": field.dtype,
        "chunks": field.chunks,
        "mean of a slab": np.nanmean(field[-1, 2:6, :, ::2]),
        "a sample": field[0, 1, 2, 3],
        "mean of a line over all steps": np.nanmean(field[:, 0, 0, :]),
    }


def main():
    options = parse()
    with h5py.File(options.file) as file, quarry.open(options.target) as dataset:
        print(f"fields: {list(file)} and {list(dataset)}")
        old, new = ask(file[options.field]), ask(dataset[options.field])
        for question in old:
            print(f"{question}: {old[question]} and {new[question]}")
        print(f"unit: {file[options.field].attrs.get('units', '')} and {dataset[options.field].attrs.get('units', '')}")

        # Features that an HDF5 file does not have.
        field = dataset[options.field]
        overview = field.read(level=2)
        print(f"a fourth of the resolution: {overview.shape}, every sample within {overview.max_error:.3g}")
        within = 2 * field.read(level=1).max_error
        print(f"the coarsest level within {within:.3g}: {field.read(max_error=within).level}")
        print(f"mean of everything, without reading it here: {field.stats().mean.value:.6g}")

        # Into an array that is there already: read_direct in h5py.
        array = np.empty(field.shape[1:], field.dtype)
        file[options.field].read_direct(array, np.s_[0])
        difference = np.nanmax(np.abs(array - np.asarray(field[0], dtype="f8")))
        print(f"largest difference in the first step: {difference:.3g}, tolerance {field.attrs.get('tolerance', 0)}")


if __name__ == "__main__":
    main()
