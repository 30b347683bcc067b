"""Answers: samples, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr

    from quarry import _quarry
    from quarry._field import Field
    from quarry._pictures import Merged

T = TypeVar("T")
Triple = tuple[int, int, int]
Box = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""The first sample along z, y and x, and the one behind the last."""
Region = Mapping[str, tuple[float | None, float | None]]
"""{"lat": (40, 50)}: the lowest and the highest position along axes, both included; None: the end of the axis. Axes
that are left out are whole."""


class ByAxis(dict[str, T]):
    """Values for each axis, in the order z, y, x, by the name of its dimension. The letters "z", "y" and "x" find the
    axes too, unless another axis has that name."""

    def __missing__(self, key: str) -> T:
        if key in ("z", "y", "x"):
            return list(self.values())["zyx".index(key) - 3]
        raise KeyError(f"{key!r} is no axis; there are {', '.join(self)}")


def axis_of(grid: _quarry.FieldGrid, axis: str) -> int:
    """The place of an axis, 0 (z) to 2 (x), by its name or its letter.

    Raises:
        ValueError: there is none
    """
    found = grid.find_axis(axis)
    if found is None:
        raise ValueError(f"axis {axis!r} is none of {', '.join(map(repr, grid.dim_names))}")
    return found


def box_of(grid: _quarry.FieldGrid, box: Box | Region | None) -> Box | None:
    """The samples of a box that may be given by positions. The library says which samples those are.

    Raises:
        TypeError: an interval that is no pair of numbers
        Error: no such axis; no sample in an interval (INVALID_ARGUMENT)
    """
    if not isinstance(box, Mapping):
        return box
    return grid.box_of([(axis, *_interval(axis, given)) for axis, given in box.items()])


def layer_of(said: _quarry.FieldDescription, layer: int) -> int:
    """A layer of accuracy that is meant for several fields: of one that has fewer, the last.

    Raises:
        ValueError: it is below 0
    """
    if layer < 0:
        raise ValueError(f"there is no layer {layer}; 0 is the roughest")
    return min(layer, said.layers - 1)


def _interval(axis: Any, given: Any) -> tuple[float | None, float | None]:
    if isinstance(given, slice) and given.step is None:
        given = (given.start, given.stop)
    try:
        if isinstance(given, str) or not isinstance(axis, str):
            raise TypeError
        low, high = given
        return None if low is None else float(low), None if high is None else float(high)
    except (TypeError, ValueError):
        raise TypeError(f"box={{{axis!r}: {given!r}}} is not possible; give {{\"AXIS\": (low, high)}}, positions "
                        "along the axis, or None for an end of it") from None


class Samples:
    """The samples of one field and step at one level.

    `numpy.asarray(samples)` and indexing give the array itself, without a copy.
    """

    def __init__(self, answer: _quarry.Answer | Merged, array: npt.NDArray[Any], field: Field) -> None:
        self._answer = answer
        self._field = field
        self._grid = field.grid
        self._array = array

    @property
    def array(self) -> npt.NDArray[Any]:
        """[z, y, x]. Missing samples of floating-point fields are NaN, and those of integers masked, unless the request
        said something else."""
        return self._array

    @property
    def field(self) -> str:
        """Its name."""
        return self._answer.field

    @property
    def step(self) -> int:
        """The number of the step."""
        return self._answer.step

    @property
    def level(self) -> int:
        """0 is full resolution."""
        return self._answer.level

    @property
    def layer(self) -> int:
        """Layer of accuracy, 0 is the roughest."""
        return self._answer.layer

    @property
    def is_last(self) -> bool:
        """Whether no finer level follows in a stream."""
        return self._answer.last

    @property
    def max_error(self) -> float:
        """Largest difference between the original field and this level, in the field's unit. Infinite where damaged
        samples are shown."""
        return self._answer.max_error

    @property
    def spacing(self) -> tuple[int, int, int]:
        """Samples of full resolution between neighbours along z, y, x."""
        return self._answer.spacing

    @property
    def box(self) -> Box:
        """Samples of this level: sample i of an axis lies at i * spacing of full resolution."""
        return self._answer.extent

    @property
    def damaged(self) -> list[tuple[Box, int]]:
        """Where data are damaged, and the level that is shown there: a coarser one, or this one in a rougher layer.
        Empty unless the request had strict=False."""
        return self._answer.damaged

    @property
    def rougher(self) -> list[tuple[Box, int]]:
        """The boxes of `damaged` that show a rougher layer of accuracy, each with its layer."""
        return self._answer.rougher

    @property
    def left_out(self) -> list[Box]:
        """Where no value between the requested ones is: the array has no samples there."""
        return self._answer.left_out

    @property
    def coords(self) -> ByAxis[npt.NDArray[np.float64]]:
        """Positions along the axes z, y and x, by their names, in the unit of the axis."""
        extent, spacing, names = self._answer.extent, self._answer.spacing, self._grid.dim_names
        return ByAxis({axis: positions(self._grid, number)[first * step:(last - 1) * step + 1:step] if last > first else
                       positions(self._grid, number)[:0]
                       for number, (axis, (first, last), step) in enumerate(zip(names, extent, spacing, strict=True))})

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        import numpy as np
        array = np.asarray(self.array, dtype=dtype)
        return array.copy() if copy and array is self.array else array

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

    def to_xarray(self) -> xr.DataArray:
        """The samples with their coordinates and attributes, without a copy. Masked integers become floats with NaN.

        Raises:
            ImportError: xarray is not installed
        """
        from quarry._xarray import samples_to_xarray
        return samples_to_xarray(self)

    def to_pyvista(self) -> Any:
        """A grid of VTK with the samples at its points: an image, or a rectilinear grid where the spacing differs.
        Masked integers become floats with NaN.

        Raises:
            ImportError: PyVista is not installed
        """
        from quarry._pictures import to_pyvista
        return to_pyvista(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """[z, y, x]."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """As numpy names it."""
        return self.array.dtype

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<quarry.Samples {self.field!r}, step {self.step}, level {self.level}: {shape} {self.dtype}>"


def floating(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest float that holds every integer of a type, and NaN."""
    import numpy as np
    return np.dtype(stored if stored.kind == "f" else np.float32 if stored.itemsize <= 2 else np.float64)


def with_nan(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A masked array as floats with NaN, for callers without masks; any other one unchanged."""
    import numpy as np
    if not isinstance(array, np.ma.MaskedArray):
        return array
    floats: Any = array.astype(floating(array.dtype))
    filled: npt.NDArray[Any] = floats.filled(np.nan)
    return filled


def coords_of(grid: _quarry.FieldGrid) -> ByAxis[npt.NDArray[np.float64]]:
    """Positions of the samples of full resolution along z, y, x, by the names of the axes."""
    return ByAxis({axis: positions(grid, number) for number, axis in enumerate(grid.dim_names)})


def positions(grid: _quarry.FieldGrid, axis: int) -> npt.NDArray[np.float64]:
    """Positions of all samples of full resolution along axis 0 (z), 1 (y) or 2 (x)."""
    found: npt.NDArray[np.float64] = grid.positions(axis)
    return found


def as_given(places: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Positions along an axis, in the type in which the source has them."""
    import numpy as np
    given = np.dtype(dtype)
    return (np.rint(places) if given.kind in "iu" else places).astype(given)


def array_of(texts: Sequence[str]) -> npt.NDArray[Any]:
    """Texts as numpy has them, or as objects: its type of text drops zeros at the end, and gives each the room of the
    longest."""
    import numpy as np
    longest = max(map(len, texts), default=0)
    as_objects = any(text.endswith("\0") for text in texts) or longest * len(texts) > 8 * sum(map(len, texts)) + 4096
    return np.array(texts, dtype=object if as_objects else np.str_)
