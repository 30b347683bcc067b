"""Where the samples come from that are written: arrays of any kind, box by box."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarry import _members, _quarry, _times
from quarry._field import Field
from quarry._samples import Box, coords_of
from quarry._times import Times
from quarry._words import check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "bool")
_STANDARD = ("", "standard", "gregorian", "proleptic_gregorian")
"""Calendars in which a unit alone says the date."""


@dataclass
class Axis:
    """Positions of the samples along z, y or x."""

    name: str
    units: str = ""
    origin: float = 0.0
    spacing: float = 1.0
    coordinates: list[float] = field(default_factory=list)
    """Of all samples, where they are not evenly spaced."""
    placed: bool = False
    """Whether anybody said where they lie."""

    @classmethod
    def at(cls, name: str, units: str, positions: npt.NDArray[np.generic]) -> Axis | None:
        """An axis with samples at these positions; None if samples cannot lie there."""
        import numpy as np
        exact = positions.astype(np.float64).tolist()
        found = _quarry.place_axis(exact, positions.dtype.newbyteorder("=") == np.float32)
        if found is None:
            return None
        origin, spacing, is_even = found
        return cls(name, units, origin, spacing, [] if is_even else exact, placed=True)


class Source:
    """One field, of one or several steps."""

    def __init__(self, name: str, array: Any, *, has_steps: bool, units: str = "", fill: float | int | None = None,
                 axes: Sequence[Axis] | None = None, numbers: list[int] | None = None,
                 times: Times | None = None) -> None:
        import numpy as np
        self.name = name
        self.units = units
        self.fill = fill
        self.numbers = numbers
        self.times = times
        self._array = array
        self._has_steps = has_steps
        self.dtype = np.dtype(array.dtype).newbyteorder("=")
        self._stored = np.dtype(np.float32) if self.dtype == np.float16 else self.dtype
        if self.dtype.name not in _TYPES:
            raise TypeError(f"{name!r} holds {self.dtype.name}, and a dataset one of {', '.join(_TYPES)}; convert it "
                            "with astype")
        shape = tuple(int(length) for length in array.shape)
        if not 1 <= len(shape) - has_steps <= 3 or 0 in shape:
            raise ValueError(f"{name!r} has the shape {shape}; it is to be [z, y, x], [y, x] or [x], with a first axis "
                             "for the steps if there are several, and samples along each axis")
        self.steps = shape[0] if has_steps else 1
        spatial = shape[1:] if has_steps else shape
        self._absent = 3 - len(spatial)
        z, y, x = (1,) * self._absent + spatial
        self.shape = (z, y, x)
        self.axes = axes or [Axis(axis) for axis in "zyx"]
        self.has_names = axes is not None

    @property
    def has_axis(self) -> list[bool]:
        """Whether there is a dimension along z, y, x. Arrays without names have all three."""
        return [not self.has_names or number >= self._absent for number in range(3)]

    @property
    def step_bytes(self) -> int:
        """Of the samples of a step."""
        z, y, x = self.shape
        return z * y * x * int(self._stored.itemsize)

    def declare_fill(self, fill: float | int | None) -> None:
        """What is missing holds this value. Masked integers need one."""
        import numpy as np
        if fill is not None:
            check(fill=fill)
            self.fill = _exactly(fill)
        elif self.fill is None and isinstance(self._array, np.ma.MaskedArray) and self.dtype.kind in "iu":
            self.fill = int(self._array.fill_value)

    def load(self, step: int, box: Box) -> npt.NDArray[np.generic]:
        """The samples of a box, [z, y, x]. A view, where they are in memory."""
        key = tuple(slice(*bounds) for bounds in box[self._absent:])
        loaded = self._array[(step, *key) if self._has_steps else key]
        if hasattr(loaded, "compute"):  # dask's arrays would lose their mask in numpy.asarray
            loaded = loaded.compute()
        loaded = self._unmask(getattr(loaded, "values", loaded))  # xarray's variables have values
        return loaded.astype(self._stored, copy=False)[(None,) * self._absent]

    def _unmask(self, samples: Any) -> npt.NDArray[np.generic]:
        """As an array that says by its values what is missing."""
        import numpy as np
        if not isinstance(samples, np.ma.MaskedArray):
            return np.asarray(samples)
        filled: npt.NDArray[np.generic]
        if self.dtype.kind == "f":
            filled = samples.filled(np.nan)
            return filled
        if np.ma.is_masked(samples):
            if self.dtype.kind == "b":
                raise ValueError(f"{self.name!r} has masked samples of bool, which has no third value; convert it with "
                                 "astype('uint8') and give a `fill`")
            if self.fill is None:
                raise ValueError(f"{self.name!r} has masked samples of {self.dtype.name}; give a `fill` that no sample "
                                 "has")
            if (samples.compressed() == self.fill).any():
                raise ValueError(f"{self.name!r} has samples that are not masked and hold the fill value {self.fill}; "
                                 "give another `fill`")
        filled = samples.filled(self.fill if self.fill is not None else 0)
        return filled


def _exactly(fill: Any) -> float | int:
    """A fill value with all its digits: float64 does not hold those of all integers of 64 bits."""
    number = fill.item() if hasattr(fill, "item") else fill
    return int(number) if isinstance(number, int) else float(number)


Selection = Mapping[str, "int | slice"]


def sources(data: Any, name: str | None, select: Selection | None, said: list[str]) -> list[Source]:
    """The fields in what a user hands over.

    Args:
        select: indices along dimensions that are no axes of a grid; a slice makes a field of each
        said: gets a sentence for all that is not kept

    Raises:
        ValueError: there is none, or a name for several
        TypeError: no array
    """
    members: Mapping[Any, Any]
    if _is_xarray(data, "Dataset"):
        members = _members.members_of(data, select or (), _TYPES, _step_axis, said)
    elif isinstance(data, Mapping):
        members = data
    elif select and _is_xarray(data, "DataArray"):
        members = {name or data.name or "data": data}
        name = None
    elif select:
        raise TypeError(f"select={dict(select)} names dimensions, and {type(data).__name__} has none; index the array "
                        "itself, or give an xarray.DataArray")
    else:
        return [_source(name, data, (), said)]
    if name is not None:
        raise ValueError(f"field={name!r} names one field, and {len(members)} were given by their names; leave it out")
    if not members:
        raise ValueError(": ".join(["there is no field to write", *said]))
    chosen = _selected(members, select) if select else ((str(key), array) for key, array in members.items())
    return [_source(key, array, select or (), said) for key, array in chosen]


def _selected(members: Mapping[Any, Any], select: Selection) -> Iterator[tuple[str, Any]]:
    """The fields that a selection makes of each array; "temp_member0", "temp_member1" of a slice.

    Raises:
        ValueError: no array has such a dimension, or such an index
    """
    for dim, index in select.items():
        sizes = {array.sizes[dim] for array in members.values() if dim in array.dims}
        if not sizes:
            raise ValueError(f"select names the dimension {dim!r}, and no field has it")
        if not isinstance(index, slice) and not 0 <= index < min(sizes):
            raise ValueError(f"select[{dim!r}]={index} is not from 0 to {min(sizes) - 1}")
    for key, array in members.items():
        chosen = [(str(key), array)]
        for dim, index in select.items():
            if dim not in array.dims:
                continue
            if isinstance(index, slice):
                chosen = [(f"{name}_{dim}{k}", one.isel({dim: k})) for name, one in chosen
                          for k in range(*index.indices(one.sizes[dim]))]
            else:
                chosen = [(name, one.isel({dim: index})) for name, one in chosen]
        yield from chosen


def _source(name: str | None, data: Any, chosen: Collection[str], said: list[str]) -> Source:
    import numpy as np
    if isinstance(data, Field):
        return _from_field(name, data)
    if _is_xarray(data, "DataArray"):
        return _from_xarray(name, data, chosen, said)
    if not (hasattr(data, "shape") and hasattr(data, "dtype")):
        data = np.asarray(data)
    return Source(name or "data", data, has_steps=len(data.shape) == 4)


def _is_xarray(data: Any, name: str) -> bool:
    """Without loading it: who has one of its objects has loaded it."""
    return type(data).__module__.startswith("xarray.") and any(base.__name__ == name for base in type(data).__mro__)


def _from_field(name: str | None, data: Field) -> Source:
    times = dict(zip(data.dataset.steps, data.dataset.times, strict=True))
    grid, coords = data.grid, coords_of(data.grid).values()
    return Source(name or data.name, data, has_steps=True, units=data.units, fill=data.attrs.get("_FillValue"),
                  axes=[Axis.at(*one) or Axis(one[0])
                        for one in zip(grid.axis_names, grid.axis_units, coords, strict=True)], numbers=data.steps,
                  times=Times(tuple(times[step] for step in data.steps), data.dataset.time_units,
                              data.dataset.calendar))


def _from_xarray(name: str | None, data: Any, chosen: Collection[str], said: list[str]) -> Source:
    own = data.name
    data = data.rename(name or own or "data")
    steps = _step_axis(data)
    if steps is not None:
        data = data.transpose(steps, ...)
    spatial = data.dims[1:] if steps is not None else data.dims
    for dim in spatial:
        if data.sizes[dim] > 1 and _quarry.is_no_axis(str(dim)):
            raise ValueError(f"{data.name!r} has the dimension {dim!r}, which is no axis of a grid; choose with "
                             f"select={{{dim!r}: 0}}, or make a field of each with select={{{dim!r}: slice(None)}}")
    singles = [dim for dim in spatial if _quarry.is_no_axis(str(dim))]
    data, spatial = data.isel(dict.fromkeys(singles, 0)), [dim for dim in spatial if dim not in singles]
    absent = [Axis(axis) for axis in "zyx"[:max(0, 3 - len(spatial))]]
    fill = data.attrs.get("_FillValue")
    if fill is None and data.dtype.kind in "iu":
        fill = data.encoding.get("_FillValue")
    axes = [_axis_of(data, dim, letter, said) for dim, letter in zip(spatial, "zyx"[-len(spatial):], strict=False)]
    if len(spatial) == 3 and data.sizes[slowest := spatial[0]] > 1 and slowest not in data.coords and (
            not _quarry.names_vertical(str(slowest))):
        said.append(f"{data.name}: nothing says that its dimension {slowest} is an axis of the grid; it is taken as z "
                    f"(select={{{slowest!r}: K}} chooses of it)")
    used = {own, *spatial, *chosen}
    source = Source(str(data.name), data.variable, has_steps=steps is not None,
                    units=str(data.attrs.get("units", "")), fill=None if fill is None else _exactly(fill),
                    axes=absent + axes, numbers=_step_numbers(data, steps, used),
                    times=_step_times(data, steps, used, said))
    _say_what_is_not_applied(data, said)
    _say_what_is_left(data, used, said)
    return source


def _axis_of(data: Any, dim: str, letter: str, said: list[str]) -> Axis:
    """Along a dimension. Positions that no axis can have lend it neither name nor unit: 0, 1, 2, ... are none."""
    import numpy as np
    if dim not in data.coords or data.coords[dim].dims != (dim,):  # `get` makes one of a dimension
        return Axis(str(dim))
    coordinate = data.coords[dim]
    positions, units, calendar = None, str(coordinate.attrs.get("units", "")), ""
    if times := _times.of_coordinate(coordinate) if _times.is_time(coordinate) else None:  # of a row
        positions, units, calendar = np.array(times.values, np.float64), times.units, times.calendar
    elif coordinate.dtype.kind in "fiu":
        positions = coordinate.values
    axis = None if positions is None else Axis.at(str(dim), units, positions)
    if axis is None:
        why = "is not finite, or neither ascends nor descends"
        if positions is None:
            why = f"holds {'text' if _members.is_text(coordinate) else coordinate.dtype}"
        said.append(f"the coordinate {dim} {why}; its axis has no name, and its samples lie at 0, 1, 2, ... (origin= "
                    "and spacing= place them)")
        return Axis(letter)
    if calendar not in _STANDARD:
        said.append(f"{data.name}: the calendar of its coordinate {dim}, {calendar!r}, is not kept, as an axis has "
                    "none; note it elsewhere")
    return axis


def _say_what_is_not_applied(data: Any, said: list[str]) -> None:
    """Attributes about samples that xarray has not decoded, or never does."""
    import numpy as np
    attrs = data.attrs
    left = [name for name in ("scale_factor", "add_offset", "missing_value") if name in attrs]
    if "missing_value" in left and np.array_equal(attrs["missing_value"], attrs.get("_FillValue")):
        left.remove("missing_value")
    if left:
        said.append(f"{data.name}: its attributes {', '.join(left)} are not applied: samples are kept as they are; "
                    "xarray.decode_cf applies them")
    if left := [name for name in ("valid_range", "valid_min", "valid_max") if name in attrs]:
        said.append(f"{data.name}: samples outside its {', '.join(left)} are not missing; data.where masks them")


def _say_what_is_left(data: Any, used: Collection[Any], said: list[str]) -> None:
    """Which coordinates a dataset does not hold. Single values come with what they are."""
    left = {name: one for name, one in data.coords.items() if name not in used}
    if not left:
        return
    words = [str(name) if one.ndim else f"{name} = {one.values} {one.attrs.get('units', '')}".rstrip()
             for name, one in left.items()]
    go = "convert them as fields" if any(one.ndim for one in left.values()) else "note them elsewhere"
    said.append(f"{data.name}: its coordinates {', '.join(words)} are not kept; {go} if you need them")


def _step_axis(data: Any) -> Any:
    """The dimension that brings the steps; None if there is one step. A list along time is a row of samples.

    Raises:
        ValueError: there are two
    """
    if data.ndim == 1:
        return None
    said = [dim for dim in data.dims if dim == "step" or any(
        coordinate.dims == (dim,) and _times.is_time(coordinate) for coordinate in data.coords.values())]
    if len(said) > 1:
        raise ValueError(f"{data.name!r} has several axes of time, {', '.join(map(repr, said))}; choose a value "
                         "along all but one of them with isel, or stack them")
    if said:
        return said[0]
    named = next((dim for i, dim in enumerate(data.dims) if _brings_steps(data, dim, is_slowest=i == 0)), None)
    if named is None and data.ndim == 4:
        raise ValueError(f"{data.name!r} has the dimensions {', '.join(map(repr, data.dims))}, of which none says that "
                         f"it is time; choose with select={{{data.dims[0]!r}: 0}}, or rename the one of the steps to "
                         "'step'")
    return named


def _brings_steps(data: Any, dim: Any, *, is_slowest: bool) -> bool:
    attrs = data.coords[dim].attrs if dim in data.coords else {}
    return _quarry.brings_steps(str(dim), is_slowest, str(attrs.get("axis", "")), str(attrs.get("units", "")))


def _step_numbers(data: Any, steps: str | None, used: set[Any]) -> list[int] | None:
    import numpy as np
    for coordinate in _along_steps(data, steps):
        if coordinate.name == "step" and coordinate.dtype.kind in "iu" and not _times.is_time(coordinate):
            used.add("step")
            return [int(value) for value in np.atleast_1d(coordinate.values)]
    return None


def _step_times(data: Any, steps: str | None, used: set[Any], said: list[str]) -> Times | None:
    """Of the coordinate that is time: the one that says so first, else the one with the name."""
    found = _along_steps(data, steps)
    ranks: list[Callable[[Any], bool]] = [
        lambda one: one.attrs.get("standard_name") == "time",
        lambda one: (one.name == steps and not _quarry.counts_steps(str(steps))
                     and (_times.is_time(one) or _brings_steps(data, steps, is_slowest=True))),
        lambda one: one.name == "time",
        lambda one: _times.is_time(one) and one.dtype.kind != "m",
        _times.is_time]
    for rank in ranks:
        for coordinate in filter(rank, found):
            if times := _times.of_coordinate(coordinate):
                used.add(coordinate.name)
                if None in times.values:
                    said.append(f"times of {coordinate.name} are not all numbers; steps without one have none")
                return times
    return None


def _along_steps(data: Any, steps: str | None) -> list[Any]:
    """The coordinates with a value for each step."""
    count = 1 if steps is None else data.sizes[steps]
    return [one for one in data.coords.values() if one.dims in ((), (steps,)) and one.size == count]
