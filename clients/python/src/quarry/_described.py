"""Properties of a field, without its samples."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quarry import _quarry
from quarry._edit import Attributes, Owner
from quarry._grids import ByAxis, coords_of
from quarry._protocols import Dataset

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Described:
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
        found = []
        for step in self.dataset._steps():
            found += [(step, field) for field in step.fields if field.name == self.name]
        return found

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
