"""What a Zarr hierarchy needs to know of a dataset: plain data, which pickle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from quarry import _quarry

if TYPE_CHECKING:
    from quarry._dataset import Dataset

CHUNK_SAMPLES = 32 ** 3
"""The fewest samples of a chunk of a coarse level that there are patches for."""

Shape = tuple[int, ...]
Names = tuple[str, str, str]
"""Of the dimension of steps, of the array of their numbers, and of that of their times."""
T = TypeVar("T")


@dataclass(frozen=True)
class Grid:
    """Where samples lie. Axes are z, y, x."""

    shape: tuple[int, int, int]
    patch: tuple[int, int, int]
    levels: int
    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    coordinates: tuple[tuple[float, ...], ...]
    """Positions along axes that are not evenly spaced; empty for the others."""
    units: tuple[str, str, str]
    dims: tuple[str, str, str]
    """As dimensions are called."""
    has_axis: tuple[bool, bool, bool]
    """Whether fields have a dimension along it."""
    attributes: tuple[dict[str, Any], ...]
    """What the source says of each axis."""
    unplaced: tuple[bool, bool, bool]
    """Whether nobody has said the positions along it."""

    def kept(self, along: Sequence[T]) -> tuple[T, ...]:
        """Of what there is along z, y, x, what belongs to axes that the grid has."""
        return tuple(itertools.compress(along, self.has_axis))

    def spread(self, kept: Sequence[int], other: int) -> Shape:
        """Numbers along z, y, x: those of the axes that the grid has, and `other` along those that it lacks."""
        given = iter(kept)
        return tuple(next(given) if has else other for has in self.has_axis)

    def has_level(self, level: int) -> bool:
        """Whether the level shows it: a single sample is that of every level."""
        return level < self.levels or self.shape == (1, 1, 1)

    def level_shape(self, level: int) -> Shape:
        """Every 2^level-th sample, from the first on."""
        return tuple(-(-n >> level) for n in self.shape)

    def chunk_shape(self, level: int) -> Shape:
        """Whole patches: one at level 0, and at coarser levels as many as make a chunk of useful size."""
        shape = self.level_shape(level)
        chunk = tuple(max(p >> level, 1) for p in self.patch)
        enough = min(CHUNK_SAMPLES, math.prod(map(min, self.patch, self.shape)))
        while math.prod(map(min, chunk, shape)) < enough and any(c < n for c, n in zip(chunk, shape, strict=True)):
            chunk = tuple(2 * c for c in chunk)
        # A chunk that is all there is along an axis need not be padded.
        return tuple(map(min, chunk, shape))


@dataclass(frozen=True)
class FieldContents:
    """A field, and the steps that held it when the store was made."""

    name: str
    grid: Grid
    still: bool
    """It does not change with time, and has no dimension of steps."""
    coordinate: bool
    """It says where samples of others are."""
    dtype: str
    fill: int | None
    """Of integers with missing samples."""
    attributes: dict[str, Any]
    steps: tuple[int, ...]
    times: tuple[float | None, ...]
    missing: tuple[bool, ...]
    """Whether samples of a step are missing."""
    max_errors: tuple[float, ...]
    """Of each level, the largest of all steps."""
    own_names: Names
    """Where not all steps hold it."""


@dataclass(frozen=True)
class TextContents:
    """A coordinate of text."""

    name: str
    """Of its array: that of the dimension where it is called as its axis."""
    dim: str
    """Along which it lies; empty: it is one text."""
    texts: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Description:
    """Everything that metadata need."""

    grids: tuple[Grid, ...]
    fields: tuple[FieldContents, ...]
    texts: tuple[TextContents, ...]
    steps: tuple[int, ...]
    times: tuple[float | None, ...]
    step_names: Names
    """Of the fields that all steps hold."""
    created_by: str
    attributes: dict[str, Any]
    """What the source says of the whole."""
    time_attributes: dict[str, Any]

    @property
    def levels(self) -> int:
        """Of the grid that has the most."""
        return max(grid.levels for grid in self.grids)


def describe(dataset: Dataset, fields: Sequence[str] | None, float32: bool) -> Description:
    """Asks a dataset, once.

    Raises:
        KeyError: there is no such field
        Error: what is described cannot be read
    """
    native = dataset.native
    grids = tuple(Grid(grid.shape, grid.patch, grid.levels, grid.origin, grid.spacing,
                       tuple(tuple(axis) for axis in grid.coordinates), grid.axis_units,
                       grid.dim_names, grid.has_axis, tuple(map(_as_json, grid.axis_attributes)), grid.unplaced)
                  for grid in dataset.grids)
    steps = dataset._steps()
    held: dict[str, list[tuple[_quarry.Step, _quarry.FieldStep]]] = {name: [] for name in dataset}
    for step in steps:
        for said in step.fields:
            if said.name in held:  # not one that was declared since
                held[said.name].append((step, said))
    chosen = list(dataset) if fields is None else list(dict.fromkeys(fields))
    fields_said = tuple(_describe_field(dataset, name, grids, held.get(name, []), float32) for name in chosen)
    steps = _moving(dataset, steps)
    return Description(grids, fields_said, tuple(_describe_text(dataset, text) for text in native.texts),
                       tuple(step.step for step in steps), tuple(step.time for step in steps), native.step_names,
                       native.created_by, _as_json(native.attributes), _as_json(native.time_attributes))


def _moving(dataset: Dataset, steps: list[_quarry.Step]) -> list[_quarry.Step]:
    """The steps that hold a field which changes with time; all, if no field does."""
    moving = {name for name, field in dataset.items() if not field.still}
    return [step for step in steps if any(said.name in moving for said in step.fields)] if moving else steps


def _describe_field(dataset: Dataset, name: str, grids: Sequence[Grid],
                    held: list[tuple[_quarry.Step, _quarry.FieldStep]], float32: bool) -> FieldContents:
    field = dataset[name]
    facts = field._facts()
    fill = facts.pop("_FillValue", None)
    stored = next(field.dtype for field in dataset.native.fields if field.name == name)
    dtype = stored
    max_errors = [max((said.levels[level].max_error for _, said in held), default=0.0)
                  for level in range(field.levels)]
    if float32 and stored == "float64":
        dtype = "float32"
        facts.pop("lossless", None)
        facts["stored_as"] = stored
        max_errors = [error + _rounding(max((max(abs(said.min), abs(said.max)) for _, said in held if said.valid),
                                            default=0.0) + error) for error in max_errors]
    return FieldContents(name, grids[field._description.grid], field.still, field.is_coordinate, dtype,
                         int(fill) if fill is not None and not dtype.startswith("float") else None,
                         _as_json(field._description.attributes) | facts, tuple(step.step for step, _ in held),
                         tuple(step.time for step, _ in held), tuple(said.has_missing for _, said in held),
                         tuple(max_errors), dataset.native.own_step_names(name))


def _describe_text(dataset: Dataset, text: _quarry.TextCoordinate) -> TextContents:
    is_axis = text.axis is not None and dataset.grids[text.grid].axis_names[text.axis] == text.name
    return TextContents(text.dim if is_axis else text.name, text.dim, tuple(text.texts), _as_json(text.attributes))


def _rounding(largest: float) -> float:
    """What numbers up to this lose in float32, subnormal ones included."""
    return max(largest * 2.0 ** -24, 2.0 ** -150) if largest < 3.4e38 else math.inf


def _as_json(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Of the source, with numbers as Zarr writes them."""
    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # numpy's, which need not be loaded
            value = value.tolist()
        if isinstance(value, list):
            return list(map(plain, value))
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return json_number(value) if isinstance(value, float) else value

    return {name: plain(value) for name, value in attributes.items()}


def json_number(value: float) -> int | float | str:
    """As Zarr writes numbers that JSON lacks."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
