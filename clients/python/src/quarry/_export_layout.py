"""What an export holds: which fields, steps, level and box, and what is said about them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from quarry import _quarry
from quarry._dataset import Dataset
from quarry._errors import Error
from quarry._export_output import Axis, Layout, Variable
from quarry._field import Field
from quarry._samples import Box, Region, box_of, positions
from quarry._words import check


def layout_of(dataset: Dataset, fields: str | Iterable[str] | None, steps: int | Iterable[int] | None,
              box: Box | Region | None, level: int | None, max_error: float | Mapping[str, float] | None, *,
              of_one: bool = False) -> Layout:
    """What the arguments of Dataset.export select.

    Args:
        of_one: whether the format holds one field: what describes others and nobody names is left out then
    """
    names = [fields] if isinstance(fields, str) else list(dataset if fields is None else dict.fromkeys(fields))
    said = {name: dataset[name]._description for name in names}
    if not names:
        raise ValueError("there is no field to export")
    chosen = _chosen(dataset, said, steps)
    held = {name: _held(dataset[name], chosen) for name in names}
    left: tuple[str, ...] = ()
    if fields is None:
        names = [name for name in names if any(held[name])]  # what none of the steps has is no part of them
        names, left = _without_helpers(dataset, names, of_one)
    for name in names:
        if not any(held[name]):
            raise Error("NOT_FOUND", f"none of the steps {[step.step for step in chosen][:10]} of "
                        f"\"{dataset.target}\" has the field {name!r}; leave it out, or give other steps")
    grid = dataset.common_grid(names)
    fields_of_level = [name for name in names if not said[name].coordinate] or names
    at = _level(dataset, grid, {name: held[name] for name in names}, fields_of_level, level, max_error)
    box = box_of(grid, box)
    extent = _extent(grid, box, at)
    z, y, x = (_axis(grid, number, at, extent[number]) for number in range(3))
    patch = [max(1, length >> at) for length in grid.patch]
    step, number, time = dataset.native.step_names
    return Layout(
        variables=tuple(_variable(said[name], held[name], at, [step.step for step in chosen]) for name in names),
        axes=(z, y, x), has_axis=grid.has_axis, step=step, number=number, time=time,
        numbers=tuple(step.step for step in chosen),
        times=tuple(float("nan") if step.time is None else step.time for step in chosen),
        time_attrs=dataset.native.time_attributes, is_moment=len(dataset.native.steps()) == 1, level=at,
        created_by=dataset.native.created_by, patch=(patch[0], patch[1], patch[2]),
        offset=(extent[0][0], extent[1][0], extent[2][0]), attrs=_provenance(dataset, grid, box, at), warnings=left)


def _chosen(dataset: Dataset, said: Mapping[str, _quarry.FieldDescription], numbers: int | Iterable[int] | None
            ) -> list[_quarry.Step]:
    """The steps of these numbers. If none are given, those that hold a field that changes with time; of fields that
    do not, one that holds any of them."""
    steps = dataset.native.steps()
    if numbers is None:
        moving = [name for name in said if not said[name].still]
        chosen = _holding(steps, moving) or _holding(steps, said)[:1]
        if not chosen:
            raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step with {', '.join(said)} yet")
        return chosen
    known = {step.step: step for step in steps}
    wanted = sorted({numbers} if isinstance(numbers, int) else {int(number) for number in numbers})
    if not wanted:
        raise ValueError("there is no step to export")
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


def _holding(steps: Iterable[_quarry.Step], names: Collection[str]) -> list[_quarry.Step]:
    """Those that hold one of the fields."""
    return [step for step in steps if any(field.name in names for field in step.fields)]


def _held(field: Field, chosen: Sequence[_quarry.Step]) -> Held:
    """What each of the steps says of a field. Of one that does not change, the step that holds it says the same of
    all."""
    if field.still:
        return [next((said for _, said in field._holding()), None)] * len(chosen)
    return [next((one for one in step.fields if one.name == field.name), None) for step in chosen]


def _without_helpers(dataset: Dataset, names: list[str], of_one: bool) -> tuple[list[str], tuple[str, ...]]:
    """Without what describes other fields and cannot go along with them, and a sentence that names it."""
    helping = helpers_of(dataset)
    fields = [name for name in names if name not in helping]
    if not fields:
        return names, ()
    grid = dataset[fields[0]]._description.grid
    left = [name for name in names if name in helping and (of_one or dataset[name]._description.grid != grid)]
    if not left:
        return names, ()
    why = "the format holds one field" if of_one else "they lie on another grid"
    return ([name for name in names if name not in left],
            (f"{', '.join(map(repr, left))} are left out, which describe other fields: {why}; export them by their "
             "names",))


def helpers_of(dataset: Dataset) -> set[str]:
    """Coordinates, and what attributes say to describe others, as bounds of cells."""
    def texts(attributes: Mapping[str, Any]) -> dict[str, str]:
        return {name: text for name, text in attributes.items() if isinstance(text, str)}

    step, _, time = dataset.native.step_names
    said = [(time, [step], texts(dataset.native.time_attributes))]
    for grid in dataset.grids:
        said += [(dim, [dim], texts(attributes)) for dim, attributes in
                 zip(grid.dim_names, grid.axis_attributes, strict=True)]
    for name, field in dataset.items():
        dims = [*itertools.compress(field.grid.dim_names, field.grid.has_axis)]
        said.append((name, dims if field.still else [step, *dims], texts(field._description.attributes)))
    helping = {name for (name, _, _), helps in zip(said, _quarry.find_helpers(said), strict=True) if helps}
    return {name for name, field in dataset.items() if field.is_coordinate or name in helping}


Held = Sequence[_quarry.FieldStep | None]


def _worst(held: Held, level: int) -> tuple[float, float]:
    """The largest error of a level, and the least coverage."""
    records = [step.levels[level] for step in held if step]
    return max(record.max_error for record in records), min(record.coverage for record in records)


def _level(dataset: Dataset, grid: _quarry.FieldGrid, held: Mapping[str, Held], fields: Sequence[str],
           level: int | None, max_error: float | Mapping[str, float] | None) -> int:
    """The level that is meant. For a max_error, the coarsest at which all fields and steps are within it.

    Args:
        fields: of which one number is meant
    """
    if max_error is None:
        if not 0 <= (level or 0) < grid.levels:
            raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to "
                             f"{grid.levels - 1}")
        return int(level or 0)
    if level:
        raise ValueError("only one of level and max_error can be given")
    allowed = dict(max_error) if isinstance(max_error, Mapping) else dict.fromkeys(fields, max_error)
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
    return Axis(grid.dim_names[axis], grid.axis_names[axis], grid.axis_units[axis],
                positions(grid, axis)[::1 << level][slice(*extent)], not grid.unplaced[axis],
                grid.axis_attributes[axis])


def _variable(said: _quarry.FieldDescription, held: Held, level: int, numbers: Sequence[int]) -> Variable:
    dtype = np.dtype(said.dtype).newbyteorder("<")
    fill = dtype.type(np.nan) if dtype.kind == "f" else None if said.fill is None else dtype.type(said.fill)
    without = [number for number, step in zip(numbers, held, strict=True) if step is None]
    if without and fill is None:
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}, and has no fill value that could stand "
                         "there; give steps that have it, or leave it out of fields")
    error, coverage = _worst(held, level)
    attrs: dict[str, Any] = {
        "units": said.units or None, "coder": said.coder,
        "lossless": 1 if said.lossless else None, "level": level, "max_error": error,
        "tolerance": max(step.tolerance for step in held if step), "relative_tolerance": said.relative_tolerance,
        "pointwise_relative_tolerance": said.pointwise_relative_tolerance,
        "coverage": coverage,
        "comment": f"missing in {len(without)} of {len(held)} steps, which do not hold it" if without else None}
    return Variable(said.name, dtype, said.units, fill, tuple(step is not None for step in held),
                    tuple(step is not None and step.has_missing for step in held), said.still, said.coordinate,
                    {name: value for name, value in attrs.items() if value is not None} | said.attributes)


def _provenance(dataset: Dataset, grid: _quarry.FieldGrid, box: Box | None, level: int) -> dict[str, Any]:
    """What is said of the whole."""
    from quarry import __version__
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    whole = np.array(box or [(0, length) for length in grid.shape], "<i8")
    return {"Conventions": "CF-1.11", "source": dataset.target, "created_by": dataset.native.created_by,
            "quarry_version": __version__, "date": now, "level": level, "box": whole.ravel(), **dataset.attrs}
