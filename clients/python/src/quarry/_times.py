"""Times in the user's data: of steps, along axes and as samples, all as numbers with a unit and a calendar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarry import _quarry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NONE = -2**63
"""What stands for no time among integers, as in numpy."""

_REFERENCE = "since 1970-01-01"
"""Of dates as samples; all calendars have it."""


@dataclass(frozen=True)
class Times:
    """Several of them.

    Attributes:
        values: None where there is none
        units: "days since 2001-01-01", "s"; empty if nobody said
        calendar: empty: the standard one, or nobody said
        words: attributes that say besides how xarray is to read the numbers
    """

    values: tuple[float | None, ...]
    units: str = ""
    calendar: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)


def is_time(coordinate: Any) -> bool:
    """Whether a coordinate of xarray says by its values or attributes that it is time. Its name says nothing."""
    return is_date(coordinate) or _says_time(coordinate)


def is_moment(coordinate: Any) -> bool:
    """The same, and lengths of time are none."""
    return (is_date(coordinate) and coordinate.dtype.kind != "m") or _says_time(coordinate)


def is_date(variable: Any) -> bool:
    """Whether an array of xarray holds dates or lengths of time, of numpy or cftime."""
    if variable.dtype.kind in "mM":
        return True
    return variable.dtype.kind == "O" and any(hasattr(value, "calendar") for value in variable.values.flat[:1])


def of_coordinate(coordinate: Any) -> Times | None:
    """The times of a coordinate of xarray, as xarray would encode them; None if it holds no times.

    Raises:
        ValueError: a number cannot hold them exactly
    """
    if is_date(coordinate):
        return _of_dates(coordinate.variable, str(coordinate.name))
    if coordinate.dtype.kind not in "fiu":
        return None
    units, calendar = (str(coordinate.attrs.get(name, "")) for name in ("units", "calendar"))
    return Times(_numbers(coordinate.values, str(coordinate.name)), units, calendar)


def of_argument(time: Any, units: str, calendar: str) -> Times:
    """The caller's times: numbers, or dates of numpy, cftime or pandas."""
    import numpy as np
    values = np.atleast_1d(np.asarray(time))
    if values.dtype.kind in "SU":
        raise TypeError(f"time={time!r} is not possible; give numbers, or dates of numpy, cftime or pandas")
    if values.dtype.kind not in "mMO":
        _numbers(values, "time")
        # The library refuses values that are not numbers.
        return Times(tuple(float(value) for value in values.flat), units, calendar)
    if any(value is None or isinstance(value, (int, float)) for value in values.flat):
        return Times(tuple(None if value is None else float(value) for value in values.flat), units, calendar)
    import xarray as xr
    encoding = {name: text for name, text in (("units", units), ("calendar", calendar)) if text}
    return _of_dates(xr.Variable(("time",), values, encoding=encoding), "time")


def as_numbers(variable: Any, name: str) -> Any:
    """Dates or lengths of time as samples: the variable as integers, with unit and calendar among its attributes.
    Samples without a date are missing. Unit and fill value are the same wherever they can be, so that others can be
    appended.

    Raises:
        ValueError: xarray has no numbers for them
    """
    import numpy as np
    import xarray as xr
    known = ~variable.isnull().values
    dates = variable.values[known]
    numbers, words = _integers_of_cftime(dates, name) if dates.dtype.kind == "O" else _integers(dates)
    samples = np.full(variable.shape, _NONE, np.int64)
    samples[known] = numbers
    return xr.Variable(variable.dims, samples, {**variable.attrs, **words, "_FillValue": _NONE})


def _integers(dates: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], dict[str, str]]:
    import numpy as np
    kind = dates.dtype.kind
    rounded = {unit: dates.astype(f"{kind}8[{code}]")
               for unit, code in (("seconds", "s"), ("microseconds", "us"), ("nanoseconds", "ns"))}
    unit = next(unit for unit, numbers in rounded.items() if (numbers == dates).all() or unit == "nanoseconds")
    words = {"units": unit, "dtype": str(dates.dtype)}
    if kind == "M":
        words = {"units": f"{unit} {_REFERENCE}", "calendar": "proleptic_gregorian"}
    return rounded[unit].astype(np.int64), words


def _integers_of_cftime(dates: npt.NDArray[Any], name: str) -> tuple[npt.NDArray[np.int64], dict[str, str]]:
    import cftime
    import numpy as np
    calendar = str(dates[0].calendar)
    for unit in ("seconds", "microseconds"):
        words = {"units": f"{unit} {_REFERENCE}", "calendar": calendar}
        numbers = np.asarray(cftime.date2num(dates, words["units"], calendar))
        if numbers.dtype.kind == "i" and _give(numbers, words, dates):
            return numbers, words
    raise ValueError(f"{name!r} holds dates that are no whole microseconds of one calendar; round them")


def _says_time(coordinate: Any) -> bool:
    said = [str(coordinate.attrs.get(name, "")) for name in ("axis", "standard_name", "units")]
    return _quarry.says_time(*said)


def _numbers(values: npt.NDArray[Any], name: str) -> tuple[float | None, ...]:
    import numpy as np
    flat = np.atleast_1d(values)
    exact = [float(value) for value in flat]
    if flat.dtype.kind in "iu" and any(int(a) != int(b) for a, b in zip(flat, exact, strict=True)):
        raise ValueError(f"times are stored as float64, which holds {name!r} up to {flat.max()} not exactly; give them "
                         "in a larger unit, or since a later date")
    return tuple(value if np.isfinite(value) else None for value in exact)


def _of_dates(variable: Any, name: str) -> Times:
    """Dates or lengths of time: in the unit that they came with, or the one that xarray chooses."""
    import numpy as np
    known = ~np.atleast_1d(variable.isnull().values)
    dates = np.atleast_1d(variable.values)[known]
    if not dates.size:
        return Times((None,) * known.size)
    kept = {key: value for key, value in variable.encoding.items() if key in ("units", "calendar") and value}
    found = _encode(dates, name, kept) or _encode(dates, name, {key: kept[key] for key in kept if key != "units"})
    if found is None:
        raise ValueError(f"times are stored as float64, which does not hold all of {name!r} exactly; round them")
    numbers, words = found
    units, calendar = (str(words.pop(key, "")) for key in ("units", "calendar"))
    values = iter(numbers.tolist())
    return Times(tuple(next(values) if there else None for there in known), units, calendar, words)


def _encode(dates: npt.NDArray[Any], name: str, encoding: dict[str, Any]) -> tuple[
        npt.NDArray[np.float64], dict[str, Any]] | None:
    """The numbers of dates, and the attributes that say how to read them; None if they do not give the same dates
    again."""
    import numpy as np
    import xarray as xr
    if "units" in encoding:  # Numbers of another resolution need no warning: what they give again is compared.
        encoding = {**encoding, "dtype": np.dtype(np.float64)}
    numeric = xr.conventions.encode_cf_variable(xr.Variable(("time",), dates, encoding=encoding), name=name)
    numbers = numeric.values.astype(np.float64)
    words = {key: numeric.attrs[key] for key in ("units", "calendar", "dtype") if key in numeric.attrs}
    if dates.dtype.kind == "m":  # which older xarray does not say
        words.setdefault("dtype", str(dates.dtype))
    return (numbers, words) if _give(numbers, words, dates) else None


def _give(numbers: npt.NDArray[Any], words: Mapping[str, Any], dates: npt.NDArray[Any]) -> bool:
    """Whether these are the numbers of the dates."""
    import xarray as xr
    if dates.dtype.kind == "O":
        import cftime
        again = cftime.num2date(numbers, words["units"], words["calendar"], only_use_cftime_datetimes=True)
        return all(one.calendar == other.calendar and one == other for one, other in zip(again, dates, strict=True))
    encoded = xr.Variable(("time",), numbers, words)
    return bool((xr.conventions.decode_cf_variable("time", encoded, decode_timedelta=True).values == dates).all())
