"""Samples as arrays of xarray."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import xarray as xr

from quarry._arrays import texts_along, with_nan
from quarry._protocols import Samples
from quarry._xarray_coords import Decoding, Moments, axis_variable, dims_of, moving
from quarry._xarray_view import attributes_of


def samples_to_xarray(samples: Samples) -> xr.DataArray:
    """See Samples.to_xarray."""
    grid, said = samples._grid, samples._field._description
    decoding = Decoding()
    coords: dict[str, Any] = {
        name: decoding.decode(name, axis_variable(grid, axis, values))
        for axis, (name, values) in enumerate(samples.coords.items())
        if grid.has_axis[axis] and not grid.unplaced[axis]}
    coords |= _texts_beside(samples)
    if not said.still:
        coords |= _moment_of(samples, decoding)
    array = with_nan(samples.array)[tuple(slice(None) if has else 0 for has in grid.has_axis)]
    return xr.DataArray(array, coords, dims_of(grid), samples.field,
                        attributes_of(said, samples.level, samples.max_error, layer=samples.layer))


def _texts_beside(samples: Samples) -> dict[str, Any]:
    """Coordinates of text along the axes of a field."""
    grid = samples._grid
    places = [slice(first * step, last * step, step)
              for (first, last), step in zip(samples.box, samples.spacing, strict=True)]
    along = dict(itertools.compress(zip(grid.dim_names, places, strict=True), grid.has_axis))
    return {name: xr.Variable(dims, values, attrs)
            for name, dims, values, attrs in texts_along(samples._field.dataset.native.texts, along)}


def _moment_of(samples: Samples, decoding: Decoding) -> dict[str, Any]:
    """The time of a step and its number, as the whole dataset has them."""
    dataset = samples._field.dataset
    steps = moving(dataset.native, dataset._steps())
    moments = Moments(dataset.native, steps)
    here = np.flatnonzero(moments.numbers == samples.step)
    if not here.size:  # published after the list of the others was made
        return {moments.numbers_name: xr.Variable((), np.int64(samples.step))}
    return {name: variable[int(here[0])] for name, variable in moments.coords(decoding).items()}
