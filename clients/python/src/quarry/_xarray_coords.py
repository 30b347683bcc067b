"""Coordinates of xarray's arrays: axes, steps and times, and the decoding of times."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from quarry import _quarry
from quarry._arrays import as_given

if TYPE_CHECKING:
    import numpy.typing as npt


def dims_of(grid: _quarry.FieldGrid) -> tuple[str, ...]:
    """Names of the axes that a grid has, z first."""
    return tuple(name for name, has in zip(grid.dim_names, grid.has_axis, strict=True) if has)


def axis_variable(grid: _quarry.FieldGrid, axis: int, values: npt.NDArray[np.float64]) -> xr.Variable:
    """The positions along an axis, in the type of the source."""
    attrs = dict(grid.axis_attributes[axis])
    if grid.axis_units[axis]:
        attrs["units"] = grid.axis_units[axis]
    return xr.Variable((grid.dim_names[axis],), as_given(values, grid.position_dtypes[axis]), attrs)


@dataclass
class Decoding:
    """Decoding of times, as in xarray.open_dataset."""

    dates: bool = True
    lengths: bool | None = None

    def concerns(self, attrs: Mapping[str, Any]) -> bool:
        """Whether numbers with these attributes become dates or lengths of time."""
        units = attrs.get("units")
        if isinstance(units, str) and " since " in units:
            return self.dates
        if self.lengths is None:
            return str(attrs.get("dtype", "")).startswith("timedelta64")
        return self.lengths and isinstance(units, str)

    def decode(self, name: str, variable: xr.Variable) -> xr.Variable:
        """Numbers stay numbers, with their unit, where it or its calendar is not known to xarray. Of an array that is
        not in memory, two values are read."""
        if not self.concerns(variable.attrs):
            return variable
        try:
            decoded = xr.conventions.decode_cf_variable(name, variable, decode_times=self.dates,
                                                        decode_timedelta=self.lengths is not False)
        except (ValueError, OverflowError) as error:
            warnings.warn(f"{name}: the times stay numbers, in {variable.attrs['units']!r}: {error}", stacklevel=4)
            return variable
        if decoded.dtype.kind == "m":
            decoded.attrs.pop("dtype", None)  # which older xarray leaves there
        return decoded

    def decode_at_once(self, name: str, variable: xr.Variable) -> xr.Variable:
        """The same in memory, also of times that are missing."""
        decoded = self.decode(name, variable)
        if decoded is variable:
            return variable
        values = np.array(decoded.values)
        if values.dtype.kind == "O":  # cftime takes NaN for the reference date
            values[np.isnan(variable.values)] = np.nan
        return xr.Variable(decoded.dims, values, decoded.attrs, decoded.encoding)


def moving(native: _quarry.Dataset, steps: Sequence[_quarry.Step]) -> list[_quarry.Step]:
    """The steps that hold a field which changes with time: the others lie along no axis."""
    return [step for step in steps if native.moves(step)]


class Moments:
    """Numbers and times of steps."""

    def __init__(self, native: _quarry.Dataset, steps: Sequence[_quarry.Step]) -> None:
        self._native, self._steps = native, steps
        self.dim, self.numbers_name, self.times_name = native.step_names
        self.numbers = np.array([step.step for step in steps], dtype=np.int64)

    def coords(self, decoding: Decoding) -> dict[str, xr.Variable]:
        """Along the dimension of the steps."""
        coords = {}
        is_counted = np.array_equal(self.numbers, np.arange(len(self.numbers)))
        if self.dim == self.numbers_name or not is_counted:
            coords[self.numbers_name] = xr.Variable((self.dim,), self.numbers)
        if any(step.time is not None for step in self._steps):
            times = np.array([np.nan if step.time is None else step.time for step in self._steps])
            units, calendar = self._native.time_units, self._native.calendar
            said = {"units": units, "calendar": calendar}
            attrs = self._native.kept_time_attributes | {name: text for name, text in said.items() if text}
            coords[self.times_name] = decoding.decode_at_once(
                self.times_name, xr.Variable((self.dim,), times, attrs))
        return coords

    def coords_of_one(self, decoding: Decoding) -> dict[str, xr.Variable]:
        """Coordinates of the only step, which is no dimension: a number that is not 0, and the time if it has a
        name."""
        if len(self._steps) != 1:
            return {}
        coords = {name: variable[0] for name, variable in self.coords(decoding).items()}
        if not self._native.time_name:
            coords.pop(self.times_name, None)
        if not self.numbers.any():
            coords.pop(self.numbers_name, None)
        return coords
