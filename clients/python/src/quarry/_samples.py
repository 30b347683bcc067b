"""Answers: samples, and facts about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quarry._grids import Box, ByAxis, positions
from quarry._protocols import Answer, Field

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr


class AsArray:
    """An array of samples, for numpy."""

    _array: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of `array`."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """As numpy names it."""
        return self._array.dtype

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        import numpy as np
        array = np.asarray(self._array, dtype=dtype)
        return array.copy() if copy and array is self._array else array

    def __getitem__(self, key: Any) -> Any:
        return self._array[key]


class Samples(AsArray):
    """The samples of one field and step at one level.

    `numpy.asarray(samples)` and indexing give the array itself, without a copy.
    """

    def __init__(self, answer: Answer, array: npt.NDArray[Any], field: Field) -> None:
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
        return ByAxis({axis: positions(self._grid, number)[first * step:last * step:step]
                       for number, (axis, (first, last), step) in enumerate(zip(names, extent, spacing, strict=True))})

    def to_xarray(self) -> xr.DataArray:
        """The samples with their coordinates and attributes, without a copy. Masked integers become floats with NaN.

        Raises:
            ImportError: xarray is not installed
        """
        try:
            from quarry._xarray_samples import samples_to_xarray
        except ImportError as error:
            raise ImportError("arrays of xarray need xarray: pip install xarray") from error
        return samples_to_xarray(self)

    def to_pyvista(self) -> Any:
        """A grid of VTK with the samples at its points: an image, or a rectilinear grid where the spacing differs.
        Masked integers become floats with NaN.

        Raises:
            ImportError: PyVista is not installed
        """
        from quarry._pictures import to_pyvista
        return to_pyvista(self)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<quarry.Samples {self.field!r}, step {self.step}, level {self.level}: {shape} {self.dtype}>"
