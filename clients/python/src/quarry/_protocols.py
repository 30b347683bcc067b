"""Datasets, fields, samples and answers as the modules below them see them.

These are the modules of pictures, texts, exports and arrays of xarray. The classes in `_dataset`, `_field` and
`_samples` use them, so they cannot use these. A field has here all but what reads its samples.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quarry import _quarry
from quarry._edit import Attributes, Owner
from quarry._grids import Box, ByAxis, Region, Triple, coords_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Encoding = Literal["auto", "samples", "patches", "coded"]
"""How a server sends samples, see `quarry.open`."""


class Shown(Protocol):
    """Facts that an answer and its samples have in common."""

    @property
    def field(self) -> str:
        """Name of the field."""

    @property
    def step(self) -> int:
        """The number of the step."""

    @property
    def level(self) -> int:
        """0 is full resolution."""

    @property
    def layer(self) -> int:
        """Layer of accuracy."""

    @property
    def max_error(self) -> float:
        """Largest difference from the original field, in the field's unit."""

    @property
    def spacing(self) -> Triple:
        """Samples of full resolution between neighbours."""

    @property
    def damaged(self) -> list[tuple[Box, int]]:
        """Damaged boxes, each with the level that is shown there."""

    @property
    def rougher(self) -> list[tuple[Box, int]]:
        """Damaged boxes that show a rougher layer, each with the layer."""

    @property
    def left_out(self) -> list[Box]:
        """Boxes that were left out."""


class Answer(Shown, Protocol):
    """An answer of the library, or several of them as one. See `quarry.Samples`."""

    @property
    def array(self) -> Any:
        """[z, y, x]."""

    @property
    def last(self) -> bool:
        """Whether no finer level follows in a stream."""

    @property
    def extent(self) -> Box:
        """The box in samples of this level."""

    @property
    def may_miss(self) -> bool:
        """Whether samples may be missing."""


class Samples(Shown, Protocol):
    """See `quarry.Samples`."""

    _answer: Answer
    _field: Field
    _grid: _quarry.FieldGrid

    @property
    def array(self) -> npt.NDArray[Any]:
        """[z, y, x]."""

    @property
    def box(self) -> Box:
        """The box in samples of this level."""

    @property
    def coords(self) -> ByAxis[npt.NDArray[np.float64]]:
        """Positions along the axes, by their names."""


class Field:
    """A field of a dataset as an array over [step, z, y, x]: its shape, axes, units and attributes."""

    def __init__(self, dataset: Dataset, description: _quarry.FieldDescription) -> None:
        self.dataset = dataset
        self._description = description

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Dataset, str]]:
        return operator.getitem, (self.dataset, self.name)

    @property
    def name(self) -> str:
        """Its name in the dataset."""
        return self._description.name

    @property
    def units(self) -> str:
        """Unit of its values; empty if unknown."""
        return self._description.units

    @property
    def dtype(self) -> np.dtype[Any]:
        """As numpy names it."""
        import numpy as np
        return np.dtype(self._description.dtype)

    def _holding(self) -> builtins.list[tuple[_quarry.Step, _quarry.FieldStep]]:
        """The steps that hold the field, and their records of it."""
        found = ((step, step.field(self.name)) for step in self.dataset._steps())
        return [(step, record) for step, record in found if record is not None]

    @property
    def steps(self) -> builtins.list[int]:
        """Numbers of the steps that hold it, ascending: those of the first axis."""
        return [step.step for step, _ in self._holding()]

    @property
    def grid(self) -> _quarry.FieldGrid:
        """On which its samples lie."""
        return self.dataset.grids[self._description.grid]

    @property
    def levels(self) -> int:
        """How many levels of resolution there are: 0, full resolution, to levels - 1."""
        return self.grid.levels

    @property
    def layers(self) -> int:
        """How many layers of accuracy there are: 0, the roughest, to layers - 1. Most fields have one."""
        return self._description.layers

    @property
    def axis_units(self) -> ByAxis[str]:
        """Units of z, y, x, by the names of the axes."""
        return ByAxis(zip(self.dims[1:], self.grid.axis_units, strict=True))

    @property
    def axis_attrs(self) -> ByAxis[Attributes]:
        """Attributes of z, y, x from the source, by the names of the axes. Those of a directory can be set, for all
        fields along the axis."""
        return ByAxis((dim, self._axis_attrs(axis)) for axis, dim in enumerate(self.dims[1:]))

    def _axis_attrs(self, axis: int) -> Attributes:
        return self.dataset._attributes(lambda: self.dataset[self.name].grid.axis_attributes[axis],
                                        Owner("axis", self.name, axis))

    @property
    def still(self) -> bool:
        """Whether it does not change with time: one step has it, and any other reads the same."""
        return self._description.still

    @property
    def is_coordinate(self) -> bool:
        """Whether it says where, when or under which conditions the samples of other fields are."""
        return self._description.coordinate

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[step, z, y, x]."""
        return (len(self.steps), *self.grid.shape)

    @property
    def ndim(self) -> int:
        """4."""
        return 4

    @property
    def size(self) -> int:
        """Samples of all steps."""
        steps, z, y, x = self.shape
        return steps * z * y * x

    @property
    def nbytes(self) -> int:
        """Bytes of the array of all samples; the stored bytes are fewer, see `info`."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, int, int, int]:
        """The shape of a patch, which is read as a whole: [1, z, y, x]."""
        return (1, *self.grid.patch)

    @property
    def dims(self) -> tuple[str, str, str, str]:
        """Names of the four axes: of the steps, as the source calls the time if that is the coordinate along them, else
        "step"; and of z, y, x as `Dataset.dims` says."""
        return (self.dataset.native.step_names[0], *self.grid.dim_names)

    @property
    def coords(self) -> ByAxis[Any]:
        """Coordinates: of its steps, and positions along z, y, x, by the names of the axes. Steps have their numbers,
        or their times in `Dataset.time_units` where the dimension is called as the time is; NaN for a step without
        one."""
        return ByAxis({self.dims[0]: self._along_steps(self.steps), **coords_of(self.grid)})

    def _along_steps(self, numbers: Sequence[int]) -> npt.NDArray[Any]:
        """The coordinate of these steps."""
        import numpy as np
        if not self.dataset.native.time_name:
            return np.asarray(numbers)
        times = {step.step: step.time for step in self.dataset._steps()}
        return np.array([times.get(number) for number in numbers], np.float64)

    @property
    def attrs(self) -> Attributes:
        """Unit, coder, error bound and fill value, if any, and the attributes of its source, which win where both have
        one name. Values have the types of `Dataset.attrs`; the unit and the attributes of the source can be set."""
        fixed = frozenset(self._facts()) - {"units"}
        return self.dataset._attributes(lambda: self.dataset[self.name]._all_attributes(),
                                        Owner("field", self.name, fixed=fixed))

    def _all_attributes(self) -> dict[str, Any]:
        return self._facts() | self._description.attributes

    def _facts(self) -> dict[str, Any]:
        """Quarry's own attributes of the field."""
        said = self._description
        attrs = {"units": said.units or None, "coder": said.coder, "lossless": said.lossless or None,
                 "tolerance": said.tolerance, "relative_tolerance": said.relative_tolerance,
                 "pointwise_relative_tolerance": said.pointwise_relative_tolerance, "_FillValue": said.fill}
        return {name: value for name, value in attrs.items() if value is not None}

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<quarry.Field {self.name!r}: [{shape}] {self._description.dtype} {self.units}".rstrip() + ">"

    if TYPE_CHECKING:  # quarry.Field has them
        def _masked(self, array: npt.NDArray[Any]) -> Any:
            ...

        def read(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
                 strict: bool = True, masked: bool | None = None, layer: int | None = None,
                 encoding: Encoding | None = None, recode: str | float | None = None) -> Samples:
            """Reads a box of one step."""

        def plan(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
                 max_error: float | None = None, max_bytes: int | None = None, layer: int | None = None
                 ) -> _quarry.Plan:
            """The answer of a read and its cost."""


class Dataset(Protocol):
    """See `quarry.Dataset`."""

    target: str
    _options: dict[str, Any]

    @property
    def native(self) -> _quarry.Dataset:
        """The dataset of the C++ client."""

    @property
    def grids(self) -> list[_quarry.FieldGrid]:
        """Grids of the fields."""

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps, ascending."""

    @property
    def times(self) -> list[float | None]:
        """Times of the steps."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of all fields."""

    @property
    def attrs(self) -> Attributes:
        """Attributes from the source."""

    def _attributes(self, read: Callable[[], Mapping[str, Any]], owner: Owner) -> Attributes:
        ...

    def _steps(self) -> list[_quarry.Step]:
        ...

    def _has(self, number: int, field: str) -> bool:
        ...

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[str, dict[str, Any]]]:
        ...

    def __getitem__(self, name: str) -> Field:
        ...

    def __iter__(self) -> Iterator[str]:
        ...

    def items(self) -> ItemsView[str, Field]:
        """The fields and their names."""
