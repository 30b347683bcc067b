"""A series of steps in blocks: boxes of the grid, each over all steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quarry import _quarry
from quarry._arrays import floating
from quarry._choice import Choice
from quarry._dataset import Dataset
from quarry._grids import Box
from quarry_outofcore._blocks import memory_of_its_own
from quarry_outofcore._order import Task

if TYPE_CHECKING:
    from quarry_outofcore._engine import Vectors

_TILE_BYTES = 2**20  # samples in computation at a time, as float64: they stay in a core's cache
_STORE_PER_SAMPLE = 128  # [bytes] of the library, of a patch that it decodes, in each layer, and for its plan


class Series:
    """Fields of a dataset over steps. A block is [step, sample], of one field and box; boxes are whole patches, unless
    these are too large for the memory. Pickles as the dataset, which opens again where it is used."""

    def __init__(self, dataset: Dataset, fields: Sequence[str], steps: Sequence[int], choice: Choice,
                 memory: int) -> None:
        """`memory`: [bytes] of which a block takes up to a twelfth."""
        self.fields, self.steps, self.choice = list(fields), list(steps), choice
        self.dataset = dataset
        self._missing = {name: _missing_steps(dataset, name, self.steps) for name in self.fields}
        self._types = {name: floating(dataset[name].dtype) for name in self.fields}
        self._spacing = 2**choice.level
        grid = dataset.common_grid(self.fields)
        self.shape = (ceil_div(grid.shape[0], self._spacing), ceil_div(grid.shape[1], self._spacing),
                      ceil_div(grid.shape[2], self._spacing))
        """[z, y, x] of the samples of the level."""
        patch = grid.patch
        layers = max(dataset[name].layers for name in self.fields)
        self.working = _STORE_PER_SAMPLE * layers * int(np.prod(patch)) + 2 * _TILE_BYTES
        """[bytes] Beside blocks and vectors."""
        widest = max(np.dtype(kind).itemsize for kind in self._types.values())
        size = _box_size(patch, grid.shape, self._spacing, memory // 12 // (len(self.steps) * widest))
        self._boxes: dict[str, tuple[str, Box]] = {}
        for name in self.fields:
            for box in _boxes(grid.shape, size):
                self._boxes[f"{name} {box}"] = (name, box)
        self.tasks: Sequence[Task] = [Task(block, ("steps",)) for block in self._boxes]
        self.sizes: Mapping[str, int] = {
            block: len(self.steps) * int(np.prod(self.box_shape(block))) * self._types[name].itemsize
            for block, (name, _) in self._boxes.items()}
        """[bytes] of every block."""

    def place(self, block: str) -> tuple[int, tuple[slice, slice, slice]]:
        """Where a block is: the number of its field, and its samples of the level along z, y, x."""
        name, box = self._boxes[block]
        z, y, x = (slice(ceil_div(begin, self._spacing), ceil_div(end, self._spacing)) for begin, end in box)
        return self.fields.index(name), (z, y, x)

    def box_shape(self, block: str) -> tuple[int, int, int]:
        """[z, y, x] of the samples of a block in each step."""
        z, y, x = (axis.stop - axis.start for axis in self.place(block)[1])
        return z, y, x

    def load(self, block: str) -> npt.NDArray[Any]:
        """Decodes a box of all steps: [step, sample]. What is missing in every step is 0.

        Raises:
            Error: damage (DATA_LOSS), and those of servers
            ValueError: a sample is missing in some of the steps
        """
        name, box = self._boxes[block]
        shape, native = self.box_shape(block), self.dataset.native
        kind, stored = self._types[name], self.dataset[name].dtype
        samples: npt.NDArray[Any] = np.ndarray((len(self.steps), int(np.prod(shape))), kind,
                                               memory_of_its_own(self.sizes[block]))
        missing = self._missing[name]
        for row, step in zip(samples, self.steps, strict=True):
            question = _quarry.Question(name, step=step, box=box, level=self.choice.level,
                                        layer=self.choice.layers[name])
            if stored == kind:
                native.read(question, step in missing, row.reshape(shape))
                continue
            read = native.read(question, step in missing).array
            row[:] = read.ravel()
            fill = self.dataset[name]._description.fill
            if step in missing and fill is not None:
                row[(read == stored.type(fill)).ravel()] = np.nan
        if missing:
            self._fill(samples, block)
        return samples

    def _fill(self, samples: npt.NDArray[Any], block: str) -> None:
        absent = ~np.isfinite(samples)
        sometimes = absent.any(axis=0) & ~absent.all(axis=0)
        if sometimes.any():
            name, box = self._boxes[block]
            step = self.steps[int(absent[:, int(np.argmax(sometimes))].argmax())]
            raise ValueError(f"{name!r} has samples in the box {box} that are missing in step {step}, but not in all "
                             "steps; choose other steps")
        samples[absent] = 0

    def compute(self, kind: str, task: Task, block: Any, vectors: Vectors) -> Iterator[tuple[str, Any]]:
        """With X the samples [sample, step] of all blocks and V the vectors: "product" adds to X.T X V, "gram" to X.T
        X. "modes" gives X V of the block."""
        tile = max(1, _TILE_BYTES // (8 * len(self.steps)))
        cuts = [slice(begin, begin + tile) for begin in range(0, block.shape[1], tile)]
        if kind == "gram":
            yield "steps", sum(part @ part.T for part in (block[:, cut].astype(np.float64) for cut in cuts))
            return
        given = vectors["steps"]
        if kind == "product":
            total = np.zeros_like(given)
            for cut in cuts:
                part = block[:, cut].astype(np.float64)
                total += part @ (part.T @ given)
            yield "steps", total
            return
        result = np.empty((block.shape[1], given.shape[1]))
        squares = 0.0
        for cut in cuts:
            part = block[:, cut].astype(np.float64)
            result[cut] = part.T @ given
            part -= part.mean(axis=0) if kind == "modes of fluctuations" else 0
            squares += float(np.einsum("ij,ij->", part, part))
        yield task.block, result
        yield "energy", np.array([squares])

    def close(self) -> None:
        """Closes the dataset."""
        self.dataset.close()


def ceil_div(number: int, by: int) -> int:
    """Rounded up."""
    return -(-number // by)


def _missing_steps(dataset: Dataset, name: str, steps: Sequence[int]) -> set[int]:
    said = {step.step: field for step, field in dataset[name]._holding()}
    if dataset[name].still:
        said = {step: one for step in steps for one in said.values()}
    for step in steps:
        if step not in said:
            raise ValueError(f"step {step} does not hold {name!r}; choose others with steps=")
    return {step for step in steps if said[step].has_missing}


def _box_size(patch: Sequence[int], shape: Sequence[int], spacing: int, samples: int) -> list[int]:
    """[z, y, x] of the boxes in level-0 samples: patches, as many as make up so many samples of the level, or halves of
    one."""
    size = [max(length, spacing) for length in patch]

    def count() -> int:
        lengths = [ceil_div(min(length, whole), spacing) for length, whole in zip(size, shape, strict=True)]
        return int(np.prod(lengths))

    for axis in (2, 1, 0):  # the fastest axis first: fewer, longer runs
        while size[axis] < shape[axis] and 2 * count() <= samples:
            size[axis] *= 2
    while count() > samples and max(size) > 8 * spacing:  # smaller ones would be too many
        size[size.index(max(size))] //= 2
    return size


def _boxes(shape: Sequence[int], size: Sequence[int]) -> Iterator[Box]:
    for z in range(0, shape[0], size[0]):
        for y in range(0, shape[1], size[1]):
            for x in range(0, shape[2], size[2]):
                yield ((z, min(z + size[0], shape[0])), (y, min(y + size[1], shape[1])),
                       (x, min(x + size[2], shape[2])))
