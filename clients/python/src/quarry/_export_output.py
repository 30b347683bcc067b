"""Output of `Dataset.export`: what all file formats have in common."""

from __future__ import annotations

import errno
import importlib
import json
import math
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

from quarry._export_contents import Coordinate, Layout, Owner, Variable
from quarry._grids import Triple


def library(name: str) -> Any:
    """An optional library. Most have no types."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"quarry needs {name} to export to this format; pip install {name}") from error


WIDENED = {"bool": "uint8", "float16": "float32"}
"""For formats that lack these types: what Quarry stores them as."""


class Output(ABC):
    """An export in progress. It has the name `PATH.part` until it is complete."""

    aligned = True
    """Whether boxes begin at patches of the dataset; otherwise at multiples of a patch from the first sample."""

    resumable = True
    """Whether `reopen` can go on with what was put before."""

    only_held = False
    """Whether a step has just the fields that it holds; otherwise the others are missing in it."""

    of_one = False
    """Whether it holds one field."""

    in_four_dimensions = False
    """Whether every field is in each step, and along the same three axes: all lie on one grid. Otherwise each has the
    dimensions of its own."""

    names_axes = False
    """Whether it has the names of axes that no dimension can have."""

    lists_coordinates = False
    """Whether fields name their coordinates, with spaces between the names."""

    widened: ClassVar[Mapping[str, str]] = {}
    """Types that the format lacks, and those that stand for them: nothing is lost."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.warnings = list(layout.warnings)
        """What this format cannot say of what is exported."""
        given = layout
        layout = replace(layout.widened(self.widened), warnings=())
        if self.in_four_dimensions:
            layout = layout.in_four_dimensions()
        self.layout = self._with_texts(layout).with_attributes(self._said)
        if not self.names_axes:
            self.warnings += [f"the axis {axis.own_name!r} is called {axis.name!r} in this format"
                              for axis in layout.axes
                              if axis.own_name not in ("", *"xyz", axis.name)]
        self.warnings += [f"{before.name!r} holds {before.dtype.name}, which becomes {after.dtype.name} in this format"
                          for before, after in zip(given.variables, self.layout.variables, strict=True)
                          if before.dtype != after.dtype]

    def _with_texts(self, layout: Layout) -> Layout:
        """With the coordinates of text that the format can have."""
        whys = [self.why_without(text) for text in layout.texts]
        for why in dict.fromkeys(filter(None, whys)):
            left = [repr(text.name) for text, its in zip(layout.texts, whys, strict=True) if its == why]
            self.warnings.append(f"the coordinates of text {', '.join(left)} are left out: {why}")
        texts = tuple(text for text, why in zip(layout.texts, whys, strict=True) if not why)
        if self.lists_coordinates:
            self.warnings += [f"no field names {text.name!r} as its coordinate in this format, whose list of "
                              "coordinates has spaces between names; it is a variable like others"
                              for text in texts if not text.is_dimension and not text.is_listed]
        return replace(layout, texts=texts)

    def why_without(self, text: Coordinate) -> str:
        """Why there can be no such coordinate of text; empty: there can be."""
        return ""

    def _said(self, owner: Owner, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes in the form of the format."""
        left = [key for key, value in attributes.items() if not self.holds(owner, key, value)]
        if left:
            self.warnings.append(f"attributes {', '.join(map(repr, left))} of {name} are left out: this format cannot "
                                 "have them")
        return {key: self.as_held(value) for key, value in attributes.items() if key not in left}

    def holds(self, owner: Owner, name: str, value: Any) -> bool:
        """Whether there can be such an attribute."""
        return True

    def as_held(self, value: Any) -> Any:
        """The value of an attribute, as the format has it."""
        return value

    @property
    def finals(self) -> list[Path]:
        """Everything that is there once it is complete."""
        return [self.path]

    @property
    def parts(self) -> list[Path]:
        """The same while it is not."""
        return [final.with_name(final.name + ".part") for final in self.finals]

    def unit_of(self, variable: Variable) -> Triple:
        """Boxes of a field have multiples of so many samples along z, y, x."""
        return self.layout.grid_of(variable).patch

    @property
    def sizes(self) -> list[int]:
        """Approximate size of each file in bytes; empty where it is unknown."""
        return [sum(math.prod(self.layout.shape_of(variable)) * variable.dtype.itemsize
                    for variable in self.layout.variables)]

    @abstractmethod
    def create(self) -> None:
        """Begins anew, with all metadata."""

    @abstractmethod
    def reopen(self) -> None:
        """Goes on with what `create` has begun, perhaps in another process."""

    @abstractmethod
    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        """Writes samples [z, y, x] of a step, by its position, from `begin` on. A still field has one step, 0."""

    def finish(self) -> None:  # noqa: B027 - most formats need nothing
        """Writes what follows from all samples, once they are there; does so again if it was interrupted."""

    def flush(self) -> None:
        """Flushes written samples to the disk."""
        for part in self.parts:
            sync(part)

    @abstractmethod
    def close(self) -> None:
        """Frees open files. Flushed data stay."""


class RawFile:
    """Arrays [z, y, x], written box by box at their positions. Not mapped into memory: a full disk would end the
    process then."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0), 0o666)

    def write(self, data: bytes | memoryview, at: int) -> None:
        left = memoryview(data).cast("B")
        while left:
            written = os.pwrite(self._descriptor, left, at)
            left, at = left[written:], at + written

    def put(self, origin: int, shape: Triple, begin: Triple, block: npt.NDArray[Any]) -> None:
        """The array begins at the byte `origin`."""
        _, height, width = shape
        whole_rows = block.shape[2] == width
        whole_planes = whole_rows and block.shape[1] == height
        # Samples that lie together in the file are written together.
        rows = block.reshape(1, -1) if whole_planes else block.reshape(len(block), -1) if whole_rows else (
            block.reshape(-1, block.shape[2]))
        for number, row in enumerate(rows):
            z, y = (0, 0) if whole_planes else (number, 0) if whole_rows else divmod(number, block.shape[1])
            place = ((begin[0] + z) * height + begin[1] + y) * width + begin[2]
            self.write(np.ascontiguousarray(row).data, origin + place * block.itemsize)

    def resize(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Contiguous(Output):
    """Formats in which a field of all steps lies at one place of the file: once that is laid out, no library is needed,
    and none meets a full disk or the end of its process."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._file: RawFile | None = None
        self._origins: list[int] = []

    @abstractmethod
    def lay_out(self) -> None:
        """Makes the file, but for its samples."""

    @abstractmethod
    def origins(self) -> list[int]:
        """Where the samples of each field begin."""

    def create(self) -> None:
        self.lay_out()
        self.reopen()

    def reopen(self) -> None:
        self._origins = self.origins()
        self._file = RawFile(self.parts[0], new=False)

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        assert self._file is not None
        shape = self.layout.grid_of(self.layout.variables[variable]).shape
        origin = self._origins[variable] + step * math.prod(shape) * block.itemsize
        self._file.put(origin, shape, begin, block)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def as_json(value: Any) -> Any:
    """JSON has no infinite numbers, and no types of numpy."""
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_json(one) for one in value]
    if isinstance(value, np.generic):
        return as_json(value.item())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def describe(layout: Layout) -> str:
    """Everything but the samples as JSON, for formats that have no place for it."""
    coordinates = {one.name: {**one.attrs, "dimension": one.dims[0] if one.dims else "",
                              "values": np.atleast_1d(one.values)} for one in layout.coordinates()}
    fields: list[dict[str, Any]] = [{"field": variable.name, "dimensions": layout.dims_of(variable),
               "attributes": {**variable.attrs, "_FillValue": variable.fill}} for variable in layout.variables]
    only: dict[str, Any] = fields[0] if len(fields) == 1 else {"fields": fields}
    return json.dumps(as_json({**only, "global_attributes": layout.attrs, "coordinates": coordinates}), indent=1,
                      allow_nan=False)


def make_room(output: Output) -> None:
    """Finds out before anything is read whether the files have room: libraries say little when they meet a full disk.

    Raises:
        OSError: they have not
    """
    for part, size in zip(output.parts, output.sizes, strict=False):
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    space = os.statvfs(output.path.parent)
    if space.f_bavail * space.f_frsize < sum(output.sizes):
        raise OSError(errno.ENOSPC, f"No space left on device: {sum(output.sizes) >> 20} MiB are wanted, and "
                                    f"{space.f_bavail * space.f_frsize >> 20} are free")


def sync(path: Path) -> None:
    """Brings a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """A file, a folder with all that is in it, or nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def cuts(first: int, length: int, size: int, aligned: bool) -> list[tuple[int, int]]:
    """[0, length) in parts of `size`. The first sample is `first` of the grid, and parts may begin at multiples of
    `size` there."""
    ends = [*range(size - (first % size if aligned else 0), length, size), length]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def whole(unit: Triple, grid: Triple, most: int) -> Triple:
    """The largest box of at most `most` samples, of whole units: along x first, then y and z."""
    size = list(unit)
    for axis in (2, 1, 0):
        others = math.prod(min(size[other], grid[other]) for other in range(3) if other != axis)
        fitting = max(1, most // (others * unit[axis]))
        size[axis] = unit[axis] * min(fitting, -(-grid[axis] // unit[axis]))
    z, y, x = size
    return z, y, x


def boxes(output: Output, variable: Variable, most: int) -> Sequence[tuple[Triple, Triple]]:
    """Begin and end of the boxes of a field's step, for which at most `most` bytes are decoded, or one unit."""
    grid = output.layout.grid_of(variable)
    # A finer level decodes more than is left.
    decoded = variable.dtype.itemsize << 3 * (output.layout.level - variable.level)
    size = whole(output.unit_of(variable), grid.shape, most // decoded)
    z, y, x = (cuts(*axis, output.aligned) for axis in zip(grid.offset, grid.shape, size, strict=True))
    return [((z0, y0, x0), (z1, y1, x1)) for z0, z1 in z for y0, y1 in y for x0, x1 in x]
