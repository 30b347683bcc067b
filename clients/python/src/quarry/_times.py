"""Times of steps in what a user hands over: numbers with a unit and a calendar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quarry import _quarry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Times:
    """One for each step.

    Attributes:
        values: None where a step has none
        units: "days since 2001-01-01", "s"; empty if nobody said
        calendar: empty: the standard one, or nobody said
    """

    values: tuple[float | None, ...]
    units: str = ""
    calendar: str = ""


def is_time(coordinate: Any) -> bool:
    """Whether a coordinate of xarray says by its values or attributes that it is time. Its name says nothing."""
    said = [str(coordinate.attrs.get(name, "")) for name in ("axis", "standard_name", "units")]
    return _is_date(coordinate.dtype, coordinate.variable) or _quarry.says_time(*said)


def of_coordinate(coordinate: Any) -> Times | None:
    """The times of a coordinate of xarray, as xarray would encode them; None if it holds no times.

    Raises:
        ValueError: a number cannot hold them exactly
    """
    if _is_date(coordinate.dtype, coordinate.variable):
        return _encoded(coordinate.variable, str(coordinate.name))
    if coordinate.dtype.kind not in "fiu":
        return None
    units, calendar = (str(coordinate.attrs.get(name, "")) for name in ("units", "calendar"))
    return Times(_numbers(coordinate.values, str(coordinate.name)), units, calendar)


def of_argument(time: Any, units: str, calendar: str) -> Times:
    """What a caller has said: numbers, or dates of numpy, cftime or pandas."""
    import numpy as np
    values = np.atleast_1d(np.asarray(time))
    if values.dtype.kind in "SU":
        raise TypeError(f"time={time!r} is not possible; give numbers, or dates of numpy, cftime or pandas")
    if values.dtype.kind not in "mMO":
        _numbers(values, "time")
        # The library refuses what is no number.
        return Times(tuple(float(value) for value in values.flat), units, calendar)
    if any(value is None or isinstance(value, (int, float)) for value in values.flat):
        return Times(tuple(None if value is None else float(value) for value in values.flat), units, calendar)
    import xarray as xr
    encoding = {name: text for name, text in (("units", units), ("calendar", calendar)) if text}
    return _encoded(xr.Variable(("time",), values, encoding=encoding), "time")


def _is_date(dtype: np.dtype[Any], variable: Any) -> bool:
    if dtype.kind in "mM":
        return True
    return dtype.kind == "O" and variable.size > 0 and hasattr(variable.values.flat[0], "calendar")


def _numbers(values: npt.NDArray[Any], name: str) -> tuple[float | None, ...]:
    import numpy as np
    flat = np.atleast_1d(values)
    exact = [float(value) for value in flat]
    if flat.dtype.kind in "iu" and any(int(a) != int(b) for a, b in zip(flat, exact, strict=True)):
        raise ValueError(f"times are stored as float64, which holds {name!r} up to {flat.max()} not exactly; give them "
                         "in a larger unit, or since a later date")
    return tuple(value if np.isfinite(value) else None for value in exact)


def _encoded(variable: Any, name: str) -> Times:
    """Dates or lengths of time: in the unit that they came with, or the one that xarray chooses."""
    kept = {key: value for key, value in variable.encoding.items() if key in ("units", "calendar")}
    for names in (("units", "calendar"), ("calendar",)):
        encoding = {key: kept.get(key) for key in names}
        found = _encode(variable, name, {key: value for key, value in encoding.items() if value})
        if found is not None:
            return found
    raise ValueError(f"times are stored as float64, which does not hold all of {name!r} exactly; round them")


def _encode(variable: Any, name: str, encoding: dict[str, Any]) -> Times | None:
    """None if the numbers do not give the same dates again."""
    import numpy as np
    import xarray as xr
    known = ~np.atleast_1d(variable.isnull().values)
    dates = np.atleast_1d(variable.values)[known]
    if not dates.size:
        return Times((None,) * known.size)
    if "units" in encoding:  # Numbers of another resolution need no warning: what they give again is compared.
        encoding = {**encoding, "dtype": np.dtype(np.float64)}
    numeric = xr.conventions.encode_cf_variable(xr.Variable(("time",), dates, encoding=encoding), name=name)
    units, calendar = (str(numeric.attrs.get(key, "")) for key in ("units", "calendar"))
    numbers = numeric.values.astype(np.float64)
    if not _give(numbers, units, calendar, dates):
        return None
    values = iter(numbers.tolist())
    return Times(tuple(next(values) if there else None for there in known), units, calendar)


def _give(numbers: npt.NDArray[np.float64], units: str, calendar: str, dates: npt.NDArray[Any]) -> bool:
    """Whether these are the numbers of the dates."""
    import xarray as xr
    if dates.dtype.kind == "O":
        import cftime
        again = cftime.num2date(numbers, units, calendar, only_use_cftime_datetimes=True)
        return all(one.calendar == other.calendar and one == other for one, other in zip(again, dates, strict=True))
    attrs = {key: text for key, text in (("units", units), ("calendar", calendar)) if text}
    encoded = xr.Variable(("time",), numbers, attrs)
    return bool((xr.conventions.decode_cf_variable("time", encoded, decode_timedelta=True).values == dates).all())
