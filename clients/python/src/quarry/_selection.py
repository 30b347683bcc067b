"""Indices of an array: integers, slices, `...` and `None` as numpy understands them, lists of integers and masks each
along its own axis, and the reads for their selections.

Several lists mean each combination, as for xarray, h5py and zarr's `oindex`, because the axes of a field have names,
and each index is one of an axis. numpy pairs the lists instead, and moves their axes to the front if a slice lies
between them; what it calls a pair is a point here, and Field.points takes those. With one list and no integer the two
agree.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Indices = Any
"""Positions along an axis, none of them negative: a range for an integer or a slice, else an array of int64."""


@dataclass(frozen=True)
class Selection:
    """The samples that an index selects.

    Attributes:
        along: positions along each axis of the array, in the order of the result
        shape: that of the result
    """

    along: tuple[Indices, ...]
    shape: tuple[int, ...]


def select(key: Any, shape: tuple[int, ...]) -> Selection:
    """The selection of `key` from an array of this shape: each of its indices from its own axis.

    Raises:
        IndexError: too many indices, one outside the array, or one that is of no kind that this module knows
    """
    along: list[Indices] = []
    result: list[int] = []
    for index in _with_all_axes(key, len(shape)):
        if index is None:
            result.append(1)
            continue
        axis, length = len(along), shape[len(along)]
        if isinstance(index, slice):
            along.append(range(*index.indices(length)))
            result.append(len(along[-1]))
        elif _is_list(index):
            along.append(_listed(index, length, axis))
            result.append(len(along[-1]))
        else:
            position = _position(index, length, axis)
            along.append(range(position, position + 1))
    return Selection(tuple(along), tuple(result))


def _is_list(index: Any) -> bool:
    return isinstance(index, (list, range)) or (hasattr(index, "ndim") and index.ndim > 0)


def _with_all_axes(key: Any, axes: int) -> list[Any]:
    """The indices, one for each axis and None for each new one."""
    indices = list(key) if isinstance(key, tuple) else [key]
    given = sum(index is not None and index is not Ellipsis for index in indices)
    if given > axes:
        raise IndexError(f"too many indices: the array has {axes} axes, and {given} were given")
    ellipses = [number for number, index in enumerate(indices) if index is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    first = ellipses[0] if ellipses else len(indices)
    return indices[:first] + [slice(None)] * (axes - given) + indices[first + 1:]


def _position(index: Any, length: int, axis: int) -> int:
    # A bool, and numpy's, has the type of a number, and means a mask.
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise IndexError(f"{index!r} is no index of axis {axis}: only integers, slices, lists of integers, masks, "
                         "'...' and None are; for points, see Field.points")
    position = operator.index(index)
    if not -length <= position < length:
        raise IndexError(f"index {position} is out of bounds for axis {axis} with size {length}")
    return position + length if position < 0 else position


def _listed(index: Any, length: int, axis: int) -> Indices:
    """The positions of a list of integers or of a mask."""
    import numpy as np
    try:
        array = np.asarray(index)
    except ValueError:  # lists of different lengths
        raise IndexError(f"the list for axis {axis} holds lists; give integers, or a mask of True and False") from None
    if array.ndim != 1:
        raise IndexError(f"the list for axis {axis} has {array.ndim} dimensions; each axis has an index of its own, of "
                         "one dimension; read a slice, and index the array that comes, to select by a mask of several")
    if array.dtype == bool:
        if len(array) != length:
            raise IndexError(f"the mask for axis {axis} has {len(array)} values, and the axis {length} positions")
        return np.flatnonzero(array)
    if not len(array):
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise IndexError(f"the list for axis {axis} holds {array.dtype}; give integers, or a mask of True and False")
    outside = array[(array < -length) | (array >= length)]
    if len(outside):
        raise IndexError(f"index {outside[0]} is out of bounds for axis {axis} with size {length}")
    positions = array.astype(np.int64)
    return np.where(positions < 0, positions + length, positions)


# ---- Reading

def ordered(along: Sequence[Indices]) -> tuple[list[Indices], list[Any]]:
    """The positions along each axis, ascending and each once; and an index of what is read at these for the positions
    as they were wanted, None where they are just these."""
    in_turn = [_ordered(one) for one in along]
    return [ascending for ascending, _ in in_turn], [order for _, order in in_turn]


def in_order(array: npt.NDArray[Any], orders: Sequence[Any]) -> npt.NDArray[Any]:
    """Reorders samples from ascending positions to the wanted ones."""
    for axis, order in enumerate(orders):
        if order is not None:
            array = array[(slice(None),) * axis + (order,)]
    return array


def _ordered(wanted: Indices) -> tuple[Indices, Any]:
    if isinstance(wanted, range):
        return (wanted, None) if wanted.step > 0 else (wanted[::-1], slice(None, None, -1))
    import numpy as np
    steps = np.diff(wanted)
    if (steps > 0).all():
        return wanted, None
    ascending, order = np.unique(wanted, return_inverse=True)
    return ascending, slice(None, None, -1) if (steps < 0).all() else order


@dataclass(frozen=True)
class Run:
    """Wanted positions along an axis that are read together.

    Attributes:
        first, last: of the samples that are read
        inside: which of these are wanted
        outside: where they stand in the result
    """

    first: int
    last: int
    inside: slice | npt.NDArray[np.int64]
    outside: slice

    def is_all_of(self, length: int) -> bool:
        """Whether the samples that are read are the whole result along the axis."""
        return isinstance(self.inside, slice) and self.inside.step == 1 and self.outside == slice(0, length)


def _runs(along: Indices, patch: int) -> Iterator[Run]:
    """Ascending positions, cut where whole patches lie between two of them: those are not read."""
    if isinstance(along, range) and along.step <= patch:
        yield Run(along[0], along[-1], slice(0, along[-1] - along[0] + 1, along.step), slice(0, len(along)))
        return
    import numpy as np
    along = np.asarray(along)
    cuts = np.flatnonzero(np.diff(along // patch) > 1) + 1
    for begin, end in itertools.pairwise([0, *cuts.tolist(), len(along)]):
        wanted = along[begin:end] - along[begin]
        steps = np.diff(wanted)
        # Most are slices, and numpy takes these without a copy.
        even = len(steps) == 0 or (steps[0] > 0 and bool((steps == steps[0]).all()))
        inside = slice(0, int(wanted[-1]) + 1, int(steps[0]) if len(steps) else 1) if even else wanted
        yield Run(int(along[begin]), int(along[end - 1]), inside, slice(begin, end))


def boxes(along: Sequence[Indices], patch: Sequence[int]) -> Iterator[tuple[Run, ...]]:
    """The boxes in which samples at ascending positions are read.

    Args:
        along: positions along z, y, x; none of them empty
        patch: samples that are read as a whole along z, y, x
    """
    return itertools.product(*(list(_runs(one, length)) for one, length in zip(along, patch, strict=True)))


def put(block: npt.NDArray[Any], box: Sequence[Run], out: npt.NDArray[Any]
        ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Copies the selected samples of a box to their position in `out`. Returns the position, and the copied samples."""
    for axis, run in enumerate(box):
        block = block[(slice(None),) * axis + (run.inside,)]
    wanted = out[tuple(run.outside for run in box)]
    wanted[...] = block
    return wanted, block
