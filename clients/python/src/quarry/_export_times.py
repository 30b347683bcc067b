"""Conversion of exported times to the unit of the times of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quarry import _quarry

if TYPE_CHECKING:
    import numpy.typing as npt


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
