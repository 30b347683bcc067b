"""Datasets, fields, samples and answers as the modules below them see them.

These are the modules of pictures, texts, exports and arrays of xarray. The classes in `_dataset`, `_field` and
`_samples` use them, so they cannot use these.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Protocol

from quarry._grids import Box, ByAxis, Region, Triple

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from quarry import _quarry
    from quarry._edit import Attributes, Owner


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


class Field(Protocol):
    """See `quarry.Field`."""

    @property
    def dataset(self) -> Dataset:
        """The dataset that has the field."""

    @property
    def _description(self) -> _quarry.FieldDescription:
        ...

    def _all_attributes(self) -> dict[str, Any]:
        ...

    def _holding(self) -> list[tuple[_quarry.Step, _quarry.FieldStep]]:
        ...

    def _along_steps(self, numbers: Sequence[int]) -> npt.NDArray[Any]:
        ...

    def _masked(self, array: npt.NDArray[Any]) -> Any:
        ...

    @property
    def name(self) -> str:
        """Name in the dataset."""

    @property
    def units(self) -> str:
        """Unit of the values."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples."""

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps that hold the field."""

    @property
    def grid(self) -> _quarry.FieldGrid:
        """The grid of the field."""

    @property
    def levels(self) -> int:
        """Number of levels of resolution."""

    @property
    def layers(self) -> int:
        """Number of layers of accuracy."""

    @property
    def axis_units(self) -> ByAxis[str]:
        """Units of the axes, by their names."""

    @property
    def still(self) -> bool:
        """Whether the field does not change with time."""

    @property
    def is_coordinate(self) -> bool:
        """Whether the field describes others."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[step, z, y, x]."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array of all samples."""

    @property
    def chunks(self) -> tuple[int, int, int, int]:
        """The shape of a patch."""

    @property
    def dims(self) -> tuple[str, str, str, str]:
        """Names of the four axes."""

    def __len__(self) -> int:
        ...

    def read(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             strict: bool = True, masked: bool | None = None, layer: int | None = None) -> Samples:
        """Reads a box of one step."""

    def plan(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, layer: int | None = None) -> _quarry.Plan:
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
    def grid(self) -> _quarry.FieldGrid:
        """The only grid."""

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps, ascending."""

    @property
    def times(self) -> list[float | None]:
        """Times of the steps."""

    @property
    def dates(self) -> list[str | None]:
        """Dates of the steps."""

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

    def _step(self, number: int) -> _quarry.Step:
        ...

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[str, dict[str, Any]]]:
        ...

    def __getitem__(self, name: str) -> Field:
        ...

    def __iter__(self) -> Iterator[str]:
        ...

    def __len__(self) -> int:
        ...

    def items(self) -> ItemsView[str, Field]:
        """The fields and their names."""

    def values(self) -> ValuesView[Field]:
        """The fields."""

    def refresh(self) -> None:
        """Looks for steps and fields that were published since."""

    def close(self) -> None:
        """Frees memory and connections."""

    def export(self, path: str | os.PathLike[str], *arguments: Any, **options: Any) -> list[Path]:
        """Writes fields to a file of another format."""
