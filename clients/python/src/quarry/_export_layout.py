"""Layout of an export: the boxes of the grids, the fields, and their attributes."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quarry import _quarry
from quarry._arrays import texts_along
from quarry._choice import Choice, worst_of
from quarry._errors import Error
from quarry._export_attributes import letters_of
from quarry._export_contents import Axis, Coordinate, GridBox, Layout, Variable
from quarry._export_output import Output
from quarry._export_selection import Selection, at_level, select
from quarry._export_times import Conversion
from quarry._grids import Box, Region, positions
from quarry._protocols import Dataset


def layout_of(dataset: Dataset, fields: str | Iterable[str] | None, steps: int | Iterable[int] | None,
              box: Box | Region | None, level: int | None, max_error: float | Mapping[str, float] | None,
              layer: int | None, kind: type[Output]) -> Layout:
    """The layout that the arguments of Dataset.export select, for a format."""
    selection = select(dataset, fields, steps, kind)
    boxes = selection.boxes(box)
    selection, shown = at_level(selection, level, max_error, layer)
    at = shown.level
    numbers = selection.numbers_of_grids(selection.names)
    grids = _grids([dataset.grids[number] for number in numbers], [boxes[number] for number in numbers], at)
    said = [np.array(boxes[number], "<i8").ravel() for number in numbers]
    variables = [_in_unit_of_steps(_variable(selection, name, numbers.index(selection.number_of_grid(name)), shown),
                                  dataset.native) for name in selection.names]
    if len(said) > 1:  # otherwise it is said of the whole
        variables = [replace(one, attrs={"box": said[one.grid], **one.attrs}) for one in variables]
    step, number, time = dataset.native.step_names
    return Layout(
        variables=tuple(variables), grids=grids, step=step, number=number, time=time,
        numbers=tuple(step.step for step in selection.steps),
        times=tuple(float("nan") if step.time is None else step.time for step in selection.steps),
        time_attrs=dataset.native.time_attributes, texts=_texts(dataset, grids, at),
        is_moment=len(dataset.steps) == 1, level=at, created_by=dataset.native.created_by,
        attrs=_provenance(dataset, at) | ({"box": said[0]} if len(said) == 1 else {}) | dataset.native.attributes,
        warnings=selection.left)


def _texts(dataset: Dataset, grids: Iterable[GridBox], level: int) -> tuple[Coordinate, ...]:
    """The coordinates of text along the axes that the fields have, in their boxes, and those that are one text."""
    places = {axis.name: slice(first << level, (first + len(axis.positions)) << level, 1 << level) for grid in grids
              for axis, first in grid.along_axes(zip(grid.axes, grid.offset, strict=True))}
    return tuple(Coordinate(*text) for text in texts_along(dataset.native.texts, places))


def _extent(grid: _quarry.FieldGrid, box: Box, level: int) -> list[tuple[int, int]]:
    """First and last of the samples of a level in a box, z, y, x."""
    extent = []
    for axis, (length, (begin, end)) in enumerate(zip(grid.shape, box, strict=True)):
        if not 0 <= begin < end <= length:
            raise ValueError(f"the box has [{begin}, {end}) along {grid.dim_names[axis]}, and the grid [0, {length}); "
                             "give ((z0, z1), (y0, y1), (x0, x1)) inside it, not empty")
        first, behind = -(-begin >> level), -(-end >> level)
        if first >= behind:
            raise ValueError(f"no sample of level {level} lies in [{begin}, {end}) along {grid.dim_names[axis]}; give "
                             "a larger box or a finer level")
        extent.append((first, behind))
    return extent


def _grids(grids: Sequence[_quarry.FieldGrid], boxes: Sequence[Box], level: int) -> tuple[GridBox, ...]:
    """Axes of one name are one: the first grid that places it says where its samples are. What CF calls it, that with
    the most axes says: of a section along depth and lon, depth is the second."""
    letters: dict[str, str] = {}
    for grid in sorted(grids, key=lambda grid: -sum(grid.has_axis)):
        words = [{"units": units, **said} for units, said in zip(grid.axis_units, grid.axis_attributes, strict=True)]
        letters = dict(zip(grid.dim_names, letters_of(words), strict=True)) | letters
    extents = [_extent(grid, box, level) for grid, box in zip(grids, boxes, strict=True)]
    axes: dict[str, Axis] = {}
    for grid, extent in zip(grids, extents, strict=True):
        for axis, name in enumerate(grid.dim_names):
            if name not in axes or (not axes[name].placed and not grid.unplaced[axis]):
                axes[name] = _axis(grid, axis, level, extent[axis], letters[name])
    return tuple(_grid(grid, axes, level, extent) for grid, extent in zip(grids, extents, strict=True))


def _axis(grid: _quarry.FieldGrid, axis: int, level: int, extent: tuple[int, int], letter: str) -> Axis:
    return Axis(grid.dim_names[axis], grid.axis_names[axis], letter, grid.axis_units[axis],
                positions(grid, axis)[::1 << level][slice(*extent)], np.dtype(grid.position_dtypes[axis]),
                not grid.unplaced[axis], grid.axis_attributes[axis])


def _grid(grid: _quarry.FieldGrid, axes: Mapping[str, Axis], level: int, extent: Sequence[tuple[int, int]]) -> GridBox:
    z, y, x = (axes[name] for name in grid.dim_names)
    patch = [max(1, length >> level) for length in grid.patch]
    return GridBox((z, y, x), grid.has_axis, (patch[0], patch[1], patch[2]),
                   (extent[0][0], extent[1][0], extent[2][0]))


def _variable(selection: Selection, name: str, grid: int, shown: Choice) -> Variable:
    """A field.

    Args:
        grid: its place in the layout
    """
    field, held = selection.dataset[name], selection.held[name]
    level, layer = shown.level, shown.layers[name]
    said = field._description
    dtype = np.dtype(said.dtype).newbyteorder("<")
    fill = dtype.type(np.nan) if dtype.kind == "f" else None if said.fill is None else dtype.type(said.fill)
    without = [step.step for step, one in zip(selection.steps, held, strict=True) if one is None]
    if without and fill is None:
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}, and has no fill value that could stand "
                         "there; give steps that have it, or leave it out of fields")
    attrs: dict[str, Any] = {
        "units": said.units or None, "coder": said.coder,
        "lossless": 1 if said.lossless and layer == said.layers - 1 else None, "level": level,
        "layer": layer if layer < said.layers - 1 else None, "max_error": None,
        "tolerance": max(step.tolerance_of(layer) for step in held if step),
        "relative_tolerance": said.relative_tolerance,
        "pointwise_relative_tolerance": said.pointwise_relative_tolerance,
        "coverage": None,
        "comment": f"missing in {len(without)} of {len(held)} steps, which do not hold it" if without else None}
    own = min(level, field.levels - 1)
    if own == level or not said.coordinate:  # coarser levels have no record of a comparison
        attrs["max_error"], attrs["coverage"] = worst_of(filter(None, held), layer)[own]
    return Variable(said.name, dtype, said.units, fill, tuple(step is not None for step in held),
                    tuple(step is not None and step.has_missing for step in held), said.still, said.coordinate,
                    {key: value for key, value in attrs.items() if value is not None} | said.attributes, grid, own,
                    layer)


def _in_unit_of_steps(variable: Variable, native: _quarry.Dataset) -> Variable:
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


def _provenance(dataset: Dataset, level: int) -> dict[str, Any]:
    """Quarry's attributes about the whole dataset."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"Conventions": "CF-1.11", "source": dataset.target, "created_by": dataset.native.created_by,
            "quarry_version": _quarry.version, "date": now, "level": level}
