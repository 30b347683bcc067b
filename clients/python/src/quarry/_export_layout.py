"""What an export holds: which fields, steps, level and box, and what is said about them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from quarry import _quarry
from quarry._dataset import Dataset
from quarry._errors import Error
from quarry._export_output import Axis, Layout, Variable
from quarry._samples import Box, Region, box_of, positions
from quarry._words import check


def layout_of(dataset: Dataset, fields: str | Iterable[str] | None, steps: int | Iterable[int] | None,
              box: Box | Region | None, level: int | None, max_error: float | Mapping[str, float] | None) -> Layout:
    """What the arguments of Dataset.export select."""
    names = [fields] if isinstance(fields, str) else list(dataset if fields is None else dict.fromkeys(fields))
    said = {name: dataset[name]._description for name in names}
    if not names:
        raise ValueError("there is no field to export")
    chosen = _chosen(dataset, names, steps)
    held = {name: [next((one for one in step.fields if one.name == name), None) for step in chosen] for name in names}
    if fields is None:
        names = [name for name in names if any(held[name])]  # what none of the steps has is no part of them
    for name in names:
        if not any(held[name]):
            raise Error("NOT_FOUND", f"none of the steps {[step.step for step in chosen][:10]} of "
                        f"\"{dataset.target}\" has the field {name!r}; leave it out, or give other steps")
    grid = dataset.common_grid(names)
    at = _level(dataset, grid, {name: held[name] for name in names}, level, max_error)
    box = box_of(grid, box)
    extent = _extent(grid, box, at)
    axes = [_axis(grid, number, at, extent[number]) for number in range(3)]
    step, time = dataset.native.step_names
    z, y, x = (max(1, length >> at) for length in grid.patch)
    return Layout(
        variables=tuple(_variable(said[name], held[name], at, [step.step for step in chosen]) for name in names),
        axes=(axes[0], axes[1], axes[2]), step=step, time=time,
        numbers=tuple(step.step for step in chosen),
        times=tuple(float("nan") if step.time is None else step.time for step in chosen),
        time_attrs=dict(dataset.native.time_attributes), patch=(z, y, x),
        offset=(extent[0][0], extent[1][0], extent[2][0]), attrs=_provenance(dataset, grid, box, at))


def _chosen(dataset: Dataset, names: Sequence[str], numbers: int | Iterable[int] | None) -> list[_quarry.Step]:
    """The steps of these numbers; those that hold one of the fields, if none are given."""
    steps = dataset.native.steps()
    if numbers is None:
        chosen = [step for step in steps if any(field.name in names for field in step.fields)]
        if not chosen:
            raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step with {', '.join(names)} yet")
        return chosen
    known = {step.step: step for step in steps}
    wanted = sorted({numbers} if isinstance(numbers, int) else {int(number) for number in numbers})
    if not wanted:
        raise ValueError("there is no step to export")
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


Held = Sequence[_quarry.FieldStep | None]


def _worst(held: Held, level: int) -> tuple[float, float]:
    """The largest error of a level, and the least coverage."""
    records = [step.levels[level] for step in held if step]
    return max(record.max_error for record in records), min(record.coverage for record in records)


def _level(dataset: Dataset, grid: _quarry.FieldGrid, held: Mapping[str, Held], level: int | None,
           max_error: float | Mapping[str, float] | None) -> int:
    """The level that is meant. For a max_error, the coarsest at which all fields and steps are within it."""
    if max_error is None:
        if not 0 <= (level or 0) < grid.levels:
            raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to "
                             f"{grid.levels - 1}")
        return int(level or 0)
    if level:
        raise ValueError("only one of level and max_error can be given")
    allowed = dict(max_error) if isinstance(max_error, Mapping) else dict.fromkeys(held, max_error)
    if unknown := set(allowed) - set(held):
        raise ValueError(f"max_error names {', '.join(sorted(unknown))}; there are {', '.join(held)}")
    if bad := [error for error in allowed.values() if not error >= 0]:
        raise ValueError(f"max_error {bad[0]} is not a number from 0 on")
    for candidate in reversed(range(grid.levels)):
        worst = {name: _worst(held[name], candidate) for name in allowed}
        if all(error <= allowed[name] and coverage >= 1 for name, (error, coverage) in worst.items()):
            return candidate
    if all(_worst(held[name], 0)[0] <= error for name, error in allowed.items()):
        return 0
    least = {name: _worst(held[name], 0)[0] for name in allowed}
    raise Error("NOT_FOUND", f"no level of \"{dataset.target}\" keeps an error of {max_error}: level 0, the finest, "
                f"has {least}; ask for an error of at least that, or for level 0")


def _extent(grid: _quarry.FieldGrid, box: Box | None, level: int) -> list[tuple[int, int]]:
    """First and last of the samples of a level in a box, z, y, x."""
    extent = []
    check(box=box)
    asked = box or [(0, length) for length in grid.shape]
    for axis, (length, (begin, end)) in enumerate(zip(grid.shape, asked, strict=True)):
        if not 0 <= begin < end <= length:
            raise ValueError(f"the box has [{begin}, {end}) along {grid.dim_names[axis]}, and the grid [0, {length}); "
                             "give ((z0, z1), (y0, y1), (x0, x1)) inside it, not empty")
        first, behind = -(-begin >> level), -(-end >> level)
        if first >= behind:
            raise ValueError(f"no sample of level {level} lies in [{begin}, {end}) along {grid.dim_names[axis]}; give "
                             "a larger box or a finer level")
        extent.append((first, behind))
    return extent


def _axis(grid: _quarry.FieldGrid, axis: int, level: int, extent: tuple[int, int]) -> Axis:
    name = grid.dim_names[axis]
    return Axis(name, grid.axis_names[axis] or name, grid.axis_units[axis],
                positions(grid, axis)[::1 << level][slice(*extent)])


def _variable(said: _quarry.FieldDescription, held: Held, level: int, numbers: Sequence[int]) -> Variable:
    dtype = np.dtype(said.dtype).newbyteorder("<")
    fill = dtype.type(np.nan) if dtype.kind == "f" else None if said.fill is None else dtype.type(said.fill)
    without = [number for number, step in zip(numbers, held, strict=True) if step is None]
    if without and fill is None:
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}, and has no fill value that could stand "
                         "there; give steps that have it, or leave it out of fields")
    error, coverage = _worst(held, level)
    attrs: dict[str, Any] = {
        "long_name": said.name, "units": said.units or None, "coder": said.coder,
        "lossless": 1 if said.lossless else None, "level": level, "max_error": error,
        "tolerance": max(step.tolerance for step in held if step), "relative_tolerance": said.relative_tolerance,
        "pointwise_relative_tolerance": said.pointwise_relative_tolerance,
        "coverage": coverage,
        "comment": f"missing in {len(without)} of {len(held)} steps, which do not hold it" if without else None}
    return Variable(said.name, dtype, fill, tuple(step is not None for step in held),
                    tuple(step is not None and step.has_missing for step in held),
                    {name: value for name, value in attrs.items() if value is not None})


def _provenance(dataset: Dataset, grid: _quarry.FieldGrid, box: Box | None, level: int) -> dict[str, Any]:
    from quarry import __version__
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    whole = np.array(box or [(0, length) for length in grid.shape], "<i8")
    return {"Conventions": "CF-1.11", "source": dataset.target, "created_by": dataset.native.created_by,
            "quarry_version": __version__, "date": now, "level": level, "box": whole.ravel()}
