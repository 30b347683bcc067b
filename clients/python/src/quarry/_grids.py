"""Where samples lie: axes, boxes and positions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from quarry import _quarry

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


def coords_of(grid: _quarry.FieldGrid) -> ByAxis[npt.NDArray[np.float64]]:
    """Positions of the samples of full resolution along z, y, x, by the names of the axes."""
    return ByAxis({axis: positions(grid, number) for number, axis in enumerate(grid.dim_names)})


def positions(grid: _quarry.FieldGrid, axis: int) -> npt.NDArray[np.float64]:
    """Positions of all samples of full resolution along axis 0 (z), 1 (y) or 2 (x)."""
    found: npt.NDArray[np.float64] = grid.positions(axis)
    return found


def spacing_of(positions: npt.NDArray[np.float64]) -> float | None:
    """Between neighbours; None where it differs, 1 for a single sample."""
    import numpy as np
    steps = np.diff(positions)
    if not steps.size:
        return 1.0
    mean = float(steps.mean())
    return mean if np.allclose(steps, mean, rtol=1e-6, atol=0) else None


def chunk_of(patch: Sequence[int], shape: Sequence[int], most: int) -> Triple:
    """The shape of a box of whole patches with about `most` samples, no longer than the grid along any axis. The
    shortest axis grows first, of equal ones the fastest."""
    chunk = [min(length, whole) for length, whole in zip(patch, shape, strict=True)]
    while 2 * math.prod(chunk) <= most:
        growing = [axis for axis in (2, 1, 0) if chunk[axis] < shape[axis]]
        if not growing:
            break
        axis = min(growing, key=lambda axis: chunk[axis])
        chunk[axis] = min(2 * chunk[axis], shape[axis])
    z, y, x = chunk
    return z, y, x
