"""The dimension of xarray's arrays that has the steps, and its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quarry import _quarry, _times
from quarry._sources import Moments, kept
from quarry._times import Times


def step_axis(data: Any) -> Any:
    """The dimension that brings the steps; None if there is one step. A list along time is a row of samples.

    Raises:
        ValueError: there are two
    """
    if data.ndim <= 1:
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


def step_axes(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The dimension of each array that brings the steps, or None. A list along the time of others has a value in each
    of their steps."""
    found = {name: step_axis(array) for name, array in arrays.items()}
    dims = set(found.values()) - {None}
    return {name: along(array, dims) if array.ndim == 1 else found[name] for name, array in arrays.items()}


def along(array: Any, dims: set[Any]) -> Any:
    """Which of these dimensions an array has; None: none."""
    return next((dim for dim in array.dims if dim in dims), None)


def moments_of(data: Any, steps: Any, used: set[Any], said: list[str]) -> Moments:
    """The moments of the steps, or the one moment, from the coordinates of an array.

    Args:
        steps: the dimension that brings the steps, or None
        used: gets the names of these coordinates
    """
    numbers = _numbers(data, steps, used, said)
    coordinate, times = _find_times(data, steps)
    if times is None:
        return Moments(numbers)
    name = str(coordinate.name)
    used.add(name)
    if None in times.values:
        said.append(f"times of {name} are not all numbers; steps without one have none")
    return Moments(numbers, times, name if steps is None or name == str(steps) else "",
                   kept({**coordinate.attrs, **times.words}, name, said))


def _brings_steps(data: Any, dim: Any, *, is_slowest: bool) -> bool:
    attrs = data.coords[dim].attrs if dim in data.coords else {}
    return _quarry.brings_steps(str(dim), is_slowest, str(attrs.get("axis", "")), str(attrs.get("units", "")))


def _numbers(data: Any, steps: Any, used: set[Any], said: list[str]) -> list[int] | None:
    import numpy as np
    for coordinate in _along_steps(data, steps):
        if coordinate.name == "step" and coordinate.dtype.kind in "iu" and not _times.is_time(coordinate):
            used.add("step")
            if coordinate.attrs not in ({}, {"long_name": "number of the step"}):  # as exports have it
                said.append(f"attributes {', '.join(map(str, coordinate.attrs))} of step are not kept: numbers of "
                            "steps have none")
            return [int(value) for value in np.atleast_1d(coordinate.values)]
    return None


def _find_times(data: Any, steps: Any) -> tuple[Any, Times | None]:
    """The coordinate that is time, and what it holds: that of the dimension if it says so, else the one that says so
    first, else the one with the name."""
    found = _along_steps(data, steps)
    ranks: list[Callable[[Any], bool]] = [
        lambda one: one.name == steps and _times.is_moment(one),
        lambda one: one.attrs.get("standard_name") == "time",
        lambda one: (one.name == steps and not _quarry.counts_steps(str(steps))
                     and (_times.is_time(one) or _brings_steps(data, steps, is_slowest=True))),
        lambda one: one.name == "time",
        _times.is_moment,
        _times.is_time]
    for rank in ranks:
        for coordinate in filter(rank, found):
            if times := _times.of_coordinate(coordinate):
                return coordinate, times
    return None, None


def _along_steps(data: Any, steps: Any) -> list[Any]:
    """The coordinates with a value for each step."""
    count = 1 if steps is None else data.sizes[steps]
    return [one for one in data.coords.values() if one.dims in ((), (steps,)) and one.size == count]
