"""The lazy arrays of the engine "quarry" of xarray: they read only the selected samples.

They pickle as the target and the options of their dataset: each process that reads through them opens it once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from quarry import _quarry
from quarry._errors import Error
from quarry._grids import chunk_of
from quarry._protocols import Dataset
from quarry._selection import Indices, Run, boxes, in_order, ordered, put

if TYPE_CHECKING:
    import numpy.typing as npt

_CHUNK_BYTES = 16 << 20
"""Of a chunk, where dask asks for none. Thousands of tasks of one patch each would cost more than the patches do."""

_KEPT = 16
"""Datasets that a process keeps open for arrays that were pickled."""

_PATIENCE = 30.0
"""[s] For a server that does not answer. Analysis of hours does not end because a server is started anew."""

_PAUSE = 0.5
"""[s] Between two attempts."""

_kept: dict[Any, Dataset] = {}


def _of_this_process(make: Callable[[str, dict[str, Any]], Dataset], target: str,
                     options: tuple[tuple[str, Any], ...]) -> Dataset:
    """The dataset that all arrays share which come from elsewhere: a worker has one connection, and keeps it from one
    task to the next. A fork does not get that of its parent. Opened at the first use.

    Args:
        make: makes the dataset, as its pickle says
    """
    key = (os.getpid(), target, options)
    shared = _kept.get(key)
    if shared is None:
        # One thread wins.
        shared = _kept.setdefault(key, make(target, dict(options)))
    if len(_kept) > _KEPT:
        _kept.pop(list(_kept)[0], None)
    return shared


def _unpickled(make: Callable[[str, dict[str, Any]], Dataset], target: str, options: tuple[tuple[str, Any], ...],
               *rest: Any) -> LevelArray:
    return LevelArray(_of_this_process(make, target, options), *rest)


@dataclass(frozen=True, eq=False)
class LevelArray(BackendArray):
    """A field at one level, over [step, z, y, x]. Thread-safe.

    Attributes:
        layer: of accuracy; None: the last
        numbers, held: of each step: its number, and whether it holds the field
        grid, patch: samples of full resolution of the whole grid and of a patch, z, y, x
        stored: type of the samples in the dataset
        dtype: that of this array
        decode: whether missing samples are NaN
    """

    dataset: Dataset
    name: str
    level: int
    layer: int | None
    numbers: npt.NDArray[np.int64]
    held: npt.NDArray[np.bool_]
    grid: tuple[int, int, int]
    patch: tuple[int, int, int]
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    fill: float | None
    decode: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """[step, z, y, x] of this level."""
        return (len(self.numbers), *(-(-length >> self.level) for length in self.grid))

    def __reduce__(self) -> tuple[Callable[..., LevelArray], tuple[Any, ...]]:
        rest = (getattr(self, attribute.name) for attribute in fields(self)[1:])
        make, (target, options) = self.dataset.__reduce__()
        return _unpickled, (make, target, tuple(options.items()), *rest)

    def _patch(self) -> tuple[int, ...]:
        """Samples of this level that are read as a whole: [step, z, y, x]."""
        return (1, *(max(1, length >> self.level) for length in self.patch))

    def chunk(self) -> tuple[int, ...]:
        """The shape of a chunk: whole patches of one step, as a box of about _CHUNK_BYTES."""
        return (1, *chunk_of(self._patch()[1:], self.shape[1:], _CHUNK_BYTES // self.dtype.itemsize))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        # xarray's explicit_indexing_adapter fails at slices that are empty and go backwards.
        return (self._points if isinstance(key, indexing.VectorizedIndexer) else self._outer)(key.tuple)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """`__getitem__` on another thread."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _outer(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        """Selects like numpy.ix_; integers drop their axis."""
        along = [_positions(index, length) for index, length in zip(key, self.shape, strict=True)]
        ascending, orders = ordered(along)
        read = in_order(self._read(ascending), orders)
        kept = [len(one) for one, index in zip(along, key, strict=True) if isinstance(index, slice) or np.ndim(index)]
        return read.reshape(kept)

    def _points(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        """The points whose positions stand beside each other in the arrays of `key`, each with all positions along the
        slices: [*shape of the arrays, *slices]. Patches without a point are not read."""
        sliced = [axis for axis, index in enumerate(key) if isinstance(index, slice)]
        arrays = []
        for axis, (index, length) in enumerate(zip(key, self.shape, strict=True)):
            behind = len(sliced) - sliced.index(axis) - 1 if axis in sliced else len(sliced)
            along = _positions(index, length)
            arrays.append(along.reshape(along.shape + (1,) * behind))
        alike = np.broadcast_arrays(*arrays)
        points = np.stack([array.ravel() for array in alike])
        result = np.empty(points.shape[1], self.dtype)
        for members in self._groups(points):
            # For each axis: the positions, and which of them each point has.
            unique = [np.unique(row, return_inverse=True) for row in points[:, members]]
            result[members] = self._read([one for one, _ in unique])[tuple(places for _, places in unique)]
        return result.reshape(alike[0].shape)

    def _groups(self, points: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """The columns of `points`, [axis, point], that lie in the same patch."""
        if not points.size:
            return
        patches = [-(-length // patch) for length, patch in zip(self.shape, self._patch(), strict=True)]
        number = np.ravel_multi_index(tuple(points // np.array(self._patch())[:, None]), tuple(patches))
        order = np.argsort(number, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(number[order])) + 1)

    def _read(self, along: Sequence[Indices]) -> npt.NDArray[Any]:
        """The samples at these positions along each axis."""
        out = np.empty([len(one) for one in along], self.dtype)
        if not out.size:
            return out
        for place, position in enumerate(along[0]):
            if not self.held[position]:
                out[place] = np.nan if self.decode or self.fill is None else self.fill
                continue
            for box in boxes(along[1:], self._patch()[1:]):
                self._read_box(position, box, out[place])
        return out

    def _read_box(self, position: int, box: Sequence[Run], out: npt.NDArray[Any]) -> None:
        """Reads the box of the runs, and puts what they want into `out`, which is for all runs of a step."""
        z, y, x = ((run.first << self.level, min((run.last << self.level) + 1, length))
                   for run, length in zip(box, self.grid, strict=True))
        question = _quarry.Question(self.name, step=int(self.numbers[position]), box=(z, y, x), level=self.level,
                                    layer=self.layer)
        if self.stored == self.dtype and all(run.is_all_of(length) for run, length in zip(box, out.shape, strict=True)):
            self._patiently(lambda: self.dataset.native.read(question, self.decode, out))
            return
        block = self._patiently(lambda: self.dataset.native.read(question, self.decode)).array
        wanted, block = put(block, box, out)
        if self.decode and self.fill is not None and self.stored.kind != "f":
            wanted[block == self.stored.type(self.fill)] = np.nan

    def _patiently(self, read: Callable[[], _quarry.Answer]) -> _quarry.Answer:
        """The answer, also of a server that is away for a while; `retries=0` asks once."""
        end = time.monotonic() + (_PATIENCE if self.dataset._options["retries"] else 0)
        while True:
            try:
                return read()
            except Error as error:
                if error.code != "UNAVAILABLE" or time.monotonic() >= end:
                    raise
            time.sleep(_PAUSE)


@dataclass(frozen=True, eq=False)
class ComplexArray(BackendArray):
    """Complex samples, whose parts are two fields: arrays of one shape and type, indexed by xarray. Thread-safe."""

    real: Any
    imaginary: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its parts."""
        return tuple(self.real.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """complex64 of float32, else complex128."""
        return np.dtype(np.complex64 if self.real.dtype == np.float32 else np.complex128)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        real, imaginary = (_indexed(part, key) for part in (self.real, self.imaginary))
        samples = np.empty(np.shape(real), self.dtype)
        samples.real, samples.imag = real, imaginary
        return samples

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """`__getitem__` on another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


def _indexed(array: Any, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
    """The samples, with the axes that numpy would give."""
    if isinstance(key, indexing.VectorizedIndexer):
        part = array.vindex[key]
    elif isinstance(key, indexing.OuterIndexer):
        part = array.oindex[key]
    else:
        part = array[key]
    return np.asarray(part.get_duck_array())


def _positions(index: Any, length: int) -> Indices:
    """None of them negative; an array keeps its shape."""
    if isinstance(index, slice):
        return np.arange(*index.indices(length))
    array = np.atleast_1d(np.asarray(index, dtype=np.int64))
    return np.where(array < 0, array + length, array)
