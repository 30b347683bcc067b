#!/usr/bin/env python3
"""Coming from Zarr: the same questions to a Zarr group and to a dataset of Quarry, side by side, by array and by xarray.

Needs: pip install quarry-data[xarray,zarr]
"""

import argparse

import numpy as np
import xarray as xr
import zarr

import quarry


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  from_zarr.py run42.zarr run42.quarry --field pressure")
    parser.add_argument("group", help="a Zarr group that xarray has written, with the field over step, z, y, x")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("--field", required=True)
    return parser.parse_args()


def ask_array(field):
    """Arrays: the same words in both."""
    return {
        "shape": field.shape,
        "type": field.dtype,
        "chunks": field.chunks,
        "mean of a slab": np.nanmean(field[-1, 2:6, :, ::2]),
        "a sample": np.asarray(field[0, 1, 2, 3])[()],
    }


def ask_xarray(dataset, name):
    """xarray: nothing but the engine is another."""
    field = dataset[name]
    middle = float(dataset["x"][dataset.sizes["x"] // 2])
    return {
        "mean of a plane by its position": float(field.isel(step=0).sel(x=middle).mean()),
        "mean of all steps by dask": float(field.mean().compute()),
        "steps": dataset["step"].values.tolist(),
    }


def main():
    options = parse()
    # zarr.open_group(PATH)[NAME]                  quarry.open(TARGET)[NAME]
    group = zarr.open_group(options.group, mode="r")
    with quarry.open(options.target) as dataset:
        show(ask_array(group[options.field]), ask_array(dataset[options.field]))

    # xr.open_zarr(PATH)                           xr.open_dataset(TARGET, engine="quarry", chunks={})
    with xr.open_zarr(options.group) as old, xr.open_dataset(options.target, engine="quarry", chunks={}) as new:
        show(ask_xarray(old, options.field), ask_xarray(new, options.field))

    # A Zarr pyramid has groups that somebody has to write; here every dataset has them.
    with xr.open_datatree(options.target, engine="quarry") as tree:
        for name, level in tree.children.items():
            print(f"group /{name}: {tuple(level[options.field].shape)}, every sample within "
                  f"{level[options.field].attrs.get('max_error', 0):.3g}")


def show(old, new):
    for question in old:
        print(f"{question}: {old[question]} and {new[question]}")


if __name__ == "__main__":
    main()
