"""Times that describe those of the steps, as the ends of means, in the unit of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quarry import _quarry
from quarry._errors import Error

if TYPE_CHECKING:
    import numpy.typing as npt

    from quarry._export_contents import Variable


@dataclass(frozen=True)
class Conversion:
    """Into the unit of the times of the steps.

    Attributes:
        units, calendar: of the samples that are stored
        to_units, to_calendar: of the times of the steps
        fill: what missing samples hold; None if nothing says it
    """

    units: str
    calendar: str
    to_units: str
    to_calendar: str
    fill: Any

    def samples(self, stored: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """NaN where they are missing."""
        values, places = np.unique(stored, return_inverse=True)
        missing = ~np.isfinite(values) | (False if self.fill is None else values == self.fill)
        times = [np.nan if gone else self._time(float(value))
                 for value, gone in zip(values, missing, strict=True)]
        return np.array(times, np.float64)[places].reshape(stored.shape)

    def length(self, length: float) -> float:
        """Converts a duration, such as an error of a time.

        Raises:
            Error: the units are not of the same kind, or have other calendars (INVALID_ARGUMENT)
        """
        self._time(0.0)
        own, other = (units.partition(" since ")[0] for units in (self.units, self.to_units))
        return _quarry.convert_time(length, own, "", other, "") if np.isfinite(length) else length

    def _time(self, time: float) -> float:
        return _quarry.convert_time(time, self.units, self.calendar, self.to_units, self.to_calendar)


def in_unit_of_steps(variable: Variable, native: _quarry.Dataset) -> Variable:
    """The ends of means and the like, which CF wants in the unit of the times that name them. Others stay as they are,
    and so do those whose unit cannot become that one. Ends have no unit of their own; those of a climatology have that
    of the times, as xarray looks for none elsewhere."""
    said = native.time_attributes
    if variable.name not in (said.get("bounds"), said.get("climatology")) or not variable.units:
        return variable
    conversion = Conversion(variable.units, str(variable.attrs.get("calendar", "")), native.time_units,
                            native.calendar, variable.fill)
    attrs = {key: value for key, value in variable.attrs.items() if key not in ("units", "calendar", "dtype")}
    try:
        attrs |= {key: conversion.length(attrs[key]) for key in ("max_error", "tolerance") if key in attrs}
    except Error:
        return variable
    if variable.name != said.get("bounds"):
        attrs |= {key: said[key] for key in ("units", "calendar") if key in said}
    return replace(variable, dtype=np.dtype("<f8"), units=attrs.get("units", ""), fill=np.float64(np.nan), attrs=attrs,
                   conversion=conversion)
