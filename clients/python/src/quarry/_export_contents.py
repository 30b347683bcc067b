"""Contents of an export: fields, the boxes of the grids on which they lie, steps, and attributes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

from quarry._arrays import as_given
from quarry._export_times import Conversion
from quarry._grids import Triple, spacing_of

T = TypeVar("T")
Owner = Literal["dataset", "field", "axis", "time", "text"]
"""Of attributes."""


@dataclass(frozen=True)
class Variable:
    """A field in the file.

    Attributes:
        dtype: little-endian
        units: empty if nobody said
        fill: what missing samples hold; None if the field has no such value
        held: which steps hold it; all, of one that does not change with time
        missing: and which of these have missing samples
        still: whether it has no dimension of steps
        coordinate: whether it says where the samples of others are
        attrs: what Quarry says of it, and what its source says
        grid: the place of its grid in the layout
        level: of its samples, where the grid has that of the layout; otherwise its coarsest, of which some are left out
        layer: of accuracy, of its samples
        conversion: of the samples that are stored; None: they stay as they are
    """

    name: str
    dtype: np.dtype[Any]
    units: str
    fill: Any
    held: tuple[bool, ...]
    missing: tuple[bool, ...]
    still: bool
    coordinate: bool
    attrs: dict[str, Any]
    grid: int
    level: int
    layer: int
    conversion: Conversion | None = None


@dataclass(frozen=True)
class Axis:
    """z, y or x.

    Attributes:
        name: in the file; axes of one name are one
        own_name: in the dataset; empty if it has none
        letter: as CF calls it; empty if it has none
        positions: of the samples
        dtype: of the positions in the source
        placed: whether the source says them
        kept: what the source says besides
    """

    name: str
    own_name: str
    letter: str
    units: str
    positions: npt.NDArray[np.float64]
    dtype: np.dtype[Any]
    placed: bool
    kept: dict[str, Any]

    @property
    def spacing(self) -> float | None:
        """Between neighbours; None where it differs, 1 for a single sample."""
        return spacing_of(self.positions)

    @property
    def attrs(self) -> dict[str, Any]:
        """As CF has them."""
        said = {"units": self.units, "axis": self.letter}
        return {**{name: text for name, text in said.items() if text}, **self.kept}


@dataclass(frozen=True)
class GridBox:
    """The box of a grid that is exported, at the level: everything is z, y, x.

    Attributes:
        has_axis: which axes the fields have: the others have one sample, and are no dimension
        patch: samples of this level that are decoded together
        offset: the first sample, in samples of this level
    """

    axes: tuple[Axis, Axis, Axis]
    has_axis: tuple[bool, bool, bool]
    patch: Triple
    offset: Triple

    @property
    def shape(self) -> Triple:
        """Samples."""
        z, y, x = (len(axis.positions) for axis in self.axes)
        return z, y, x

    def along_axes(self, values: Iterable[T]) -> tuple[T, ...]:
        """Picks from the values for z, y and x those of the axes that the fields have."""
        return tuple(itertools.compress(values, self.has_axis))


class Coordinate(NamedTuple):
    """Numbers or texts along a dimension, or a single one along none. Texts are those of numpy, or objects."""

    name: str
    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attrs: dict[str, Any]

    @property
    def is_dimension(self) -> bool:
        """Whether a dimension has its name."""
        return self.dims == (self.name,)

    @property
    def is_text(self) -> bool:
        """Whether it is one of text."""
        return self.values.dtype.kind in "UO"

    @property
    def objects(self) -> npt.NDArray[Any]:
        """Texts as libraries take them that give each the room of its own."""
        return self.values.astype(object)

    @property
    def is_listed(self) -> bool:
        """Whether `coordinates` of a field can have its name: names have spaces between them there."""
        return " " not in self.name


@dataclass(frozen=True)
class Layout:
    """Contents of an export, in the terms of all formats.

    Attributes:
        grids: on which the fields lie
        step: name of the dimension of the steps
        number, time: names of what has their numbers and their times; one of them is that of the dimension
        times: NaN where a step has none
        time_attrs: of the coordinate with the times, as CF has them
        texts: coordinates of text; one that is called as its dimension is the coordinate of that
        is_moment: whether the dataset has one step, of which all are
        level: of the dataset
        created_by: who made the dataset
        attrs: of the whole: what Quarry says, and what the source says
        warnings: what is not exported
    """

    variables: tuple[Variable, ...]
    grids: tuple[GridBox, ...]
    step: str
    number: str
    time: str
    numbers: tuple[int, ...]
    times: tuple[float, ...]
    time_attrs: dict[str, Any]
    texts: tuple[Coordinate, ...]
    is_moment: bool
    level: int
    created_by: str
    attrs: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def grid(self) -> GridBox:
        """The only one, for formats that hold one."""
        (only,) = self.grids
        return only

    def grid_of(self, variable: Variable) -> GridBox:
        """On which a field lies."""
        return self.grids[variable.grid]

    @property
    def axes(self) -> list[Axis]:
        """All that any field has, one of each name."""
        return [*{axis.name: axis for grid in self.grids for axis in grid.along_axes(grid.axes)}.values()]

    @property
    def has_steps(self) -> bool:
        """Whether a field has the dimension of the steps."""
        return not all(variable.still for variable in self.variables)

    def dims_of(self, variable: Variable) -> tuple[str, ...]:
        """Names of the dimensions of a field."""
        grid = self.grid_of(variable)
        return (*(() if variable.still else (self.step,)), *grid.along_axes(axis.name for axis in grid.axes))

    def shape_of(self, variable: Variable) -> tuple[int, ...]:
        """Samples along these."""
        grid = self.grid_of(variable)
        return (*(() if variable.still else (len(self.numbers),)), *grid.along_axes(grid.shape))

    def dimensions(self) -> dict[str, int]:
        """All that any field has, with their lengths."""
        return {name: length for variable in self.variables
                for name, length in zip(self.dims_of(variable), self.shape_of(variable), strict=True)}

    def has_times(self) -> bool:
        """Whether any step has one."""
        return not all(map(math.isnan, self.times))

    def coordinates(self) -> list[Coordinate]:
        """Coordinates of the dimensions, and behind them the auxiliary ones."""
        of_texts = {text.name for text in self.texts}
        of_axes = [Coordinate(axis.name, (axis.name,), as_given(axis.positions, axis.dtype), axis.attrs)
                   for axis in self.axes if axis.placed and axis.name not in of_texts]
        return sorted([*self._of_steps(), *of_axes, *self.texts], key=lambda one: not one.is_dimension)

    def _of_steps(self) -> Iterator[Coordinate]:
        """Numbers that say no more than places are left out where the times are the coordinate."""
        counted = self.numbers == tuple(range(len(self.numbers)))
        numbers = Coordinate(self.number, (self.step,), np.array(self.numbers, "<i8"),
                             {"long_name": "number of the step"})
        attrs = {"axis": "T", **self.time_attrs} if self.time == self.step else self.time_attrs
        times = Coordinate(self.time, (self.step,), np.array(self.times, "<f8"), attrs)
        if self.has_steps:
            if self.number == self.step or not counted:
                yield numbers
            if self.has_times():
                yield times
        elif self.is_moment:
            if not counted:
                yield numbers._replace(dims=(), values=numbers.values.reshape(()))
            if self.has_times() and self.time == self.step:
                yield times._replace(dims=(), values=times.values.reshape(()))

    def widened(self, types: Mapping[str, str]) -> Layout:
        """With other types of samples."""
        def other(variable: Variable) -> Variable:
            dtype = np.dtype(types.get(variable.dtype.name, variable.dtype)).newbyteorder("<")
            return replace(variable, dtype=dtype, fill=None if variable.fill is None else dtype.type(variable.fill))
        return replace(self, variables=tuple(map(other, self.variables)))

    def in_four_dimensions(self) -> Layout:
        """With every field in each step, and along three axes."""
        return replace(self, grids=tuple(replace(grid, has_axis=(True, True, True)) for grid in self.grids),
                       variables=tuple(replace(variable, still=False) for variable in self.variables))

    def with_attributes(self, change: Callable[[Owner, str, dict[str, Any]], dict[str, Any]]) -> Layout:
        """With what becomes of the attributes of each owner, which has a name for messages."""
        axes = {axis.name: axis for grid in self.grids for axis in grid.axes}
        changed = {name: replace(axis, kept=change("axis", name, axis.kept)) for name, axis in axes.items()}

        def other(grid: GridBox) -> GridBox:
            z, y, x = (changed[axis.name] for axis in grid.axes)
            return replace(grid, axes=(z, y, x))

        return replace(
            self, grids=tuple(map(other, self.grids)), attrs=change("dataset", "the dataset", self.attrs),
            time_attrs=change("time", self.time, self.time_attrs),
            texts=tuple(text._replace(attrs=change("text", text.name, text.attrs)) for text in self.texts),
            variables=tuple(replace(variable, attrs=change("field", variable.name, variable.attrs))
                            for variable in self.variables))

    def attrs_of(self, variable: Variable) -> dict[str, Any]:
        """Attributes with the names of the auxiliary coordinates, as CF has them."""
        dims = set(self.dims_of(variable))
        beside = [one.name for one in self._of_steps() if not one.is_dimension and dims.issuperset(one.dims)]
        if not variable.coordinate:
            beside += [other.name for other in self.variables
                       if other.coordinate and dims.issuperset(self.dims_of(other))]
            beside += [text.name for text in self.texts
                       if text.is_listed and not text.is_dimension and dims.issuperset(text.dims)]
        return {**variable.attrs, **({"coordinates": " ".join(beside)} if beside else {})}
