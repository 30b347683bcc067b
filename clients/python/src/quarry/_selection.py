"""Indices of an array, as numpy understands them: integers, slices, `...` and `None`."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Selection:
    """The samples that an index selects.

    Attributes:
        ranges: positions along each axis of the array, in the order of the result
        shape: that of the result
    """

    ranges: tuple[range, ...]
    shape: tuple[int, ...]

    @property
    def full_shape(self) -> tuple[int, ...]:
        """That of the result, with all axes of the array and no new ones."""
        return tuple(len(positions) for positions in self.ranges)


def select(key: Any, shape: tuple[int, ...]) -> Selection:
    """What `key` selects from an array of this shape.

    Raises:
        IndexError: too many indices, one outside the array, or one that is none of the four kinds
    """
    ranges: list[range] = []
    result: list[int] = []
    for index in _with_all_axes(key, len(shape)):
        if index is None:
            result.append(1)
            continue
        length = shape[len(ranges)]
        if isinstance(index, slice):
            ranges.append(range(*index.indices(length)))
            result.append(len(ranges[-1]))
        else:
            position = _position(index, length, axis=len(ranges))
            ranges.append(range(position, position + 1))
    return Selection(tuple(ranges), tuple(result))


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
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise IndexError(f"{index!r} is no index of axis {axis}: only integers, slices, '...' and None are; for "
                         "points, see Field.points")
    position = operator.index(index)
    if not -length <= position < length:
        raise IndexError(f"index {position} is out of bounds for axis {axis} with size {length}")
    return position + length if position < 0 else position
