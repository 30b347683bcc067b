"""A dataset as the keys and values of a Zarr hierarchy (format 3), whoever asks for them. zarr-python is not needed.

    zarr.json                      the root: fields as multiscale images, and the metadata of everything below
    L/zarr.json                    a group for each level
    L/FIELD/zarr.json              an array over [step, z, y, x] for each field, without axes that its grid lacks
    L/FIELD/c/S/Z/Y/X              its chunks
    L/z, L/y, L/x, L/step, L/time  coordinates, likewise; axes are called as the dataset calls them

Decision 36 says why chunks and dimensions are what they are.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from quarry import _quarry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from quarry._dataset import Dataset

CHUNK_SAMPLES = 32 ** 3
"""The fewest samples of a chunk of a coarse level that there are patches for."""

COORDINATES_PER_CHUNK = 1 << 20

# The names of OME-Zarr for what people write as units.
_UNITS = {"m": "meter", "km": "kilometer", "dm": "decimeter", "cm": "centimeter", "mm": "millimeter",
          "um": "micrometer", "µm": "micrometer", "μm": "micrometer", "nm": "nanometer", "pm": "picometer",
          "fm": "femtometer", "Å": "angstrom", "pc": "parsec", "ft": "foot", "in": "inch"}
_UNITS |= {name: name for name in _UNITS.values()} | {f"{name}s": name for name in _UNITS.values()}

Shape = tuple[int, ...]
T = TypeVar("T")


# ---- What is known of the dataset: plain data, which pickles

@dataclass(frozen=True)
class Grid:
    """Where samples lie. Axes are z, y, x."""

    shape: tuple[int, int, int]
    patch: tuple[int, int, int]
    levels: int
    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    coordinates: tuple[tuple[float, ...], ...]
    """Positions along axes that are not evenly spaced; empty for the others."""
    units: tuple[str, str, str]
    names: tuple[str, str, str]
    """As the dataset has them; any text."""
    dims: tuple[str, str, str]
    """As dimensions are called."""
    has_axis: tuple[bool, bool, bool]
    """Whether fields have a dimension along it."""

    def kept(self, along: Sequence[T]) -> tuple[T, ...]:
        """Of what there is along z, y, x, what belongs to axes that the grid has."""
        return tuple(itertools.compress(along, self.has_axis))

    def spread(self, kept: Sequence[int], other: int) -> Shape:
        """Numbers along z, y, x: those of the axes that the grid has, and `other` along those that it lacks."""
        given = iter(kept)
        return tuple(next(given) if has else other for has in self.has_axis)

    def has_level(self, level: int) -> bool:
        """Whether the level shows it: a single sample is that of every level."""
        return level < self.levels or self.shape == (1, 1, 1)

    def level_shape(self, level: int) -> Shape:
        """Every 2^level-th sample, from the first on."""
        return tuple(-(-n >> level) for n in self.shape)

    def chunk_shape(self, level: int) -> Shape:
        """Whole patches: one at level 0, and at coarser levels as many as make a chunk of useful size."""
        shape = self.level_shape(level)
        chunk = tuple(max(p >> level, 1) for p in self.patch)
        enough = min(CHUNK_SAMPLES, math.prod(map(min, self.patch, self.shape)))
        while math.prod(map(min, chunk, shape)) < enough and any(c < n for c, n in zip(chunk, shape, strict=True)):
            chunk = tuple(2 * c for c in chunk)
        # A chunk that is all there is along an axis need not be padded.
        return tuple(map(min, chunk, shape))


@dataclass(frozen=True)
class FieldContents:
    """A field, and the steps that held it when the store was made."""

    name: str
    grid: Grid
    dtype: str
    fill: int | None
    """Of integers with missing samples."""
    attributes: dict[str, Any]
    steps: tuple[int, ...]
    times: tuple[float | None, ...]
    missing: tuple[bool, ...]
    """Whether samples of a step are missing."""
    max_errors: tuple[float, ...]
    """Of each level, the largest of all steps."""
    own_names: tuple[str, str]
    """Of its first dimension and the array of its times, where not all steps hold it."""


@dataclass(frozen=True)
class Description:
    """Everything that metadata need."""

    grids: tuple[Grid, ...]
    fields: tuple[FieldContents, ...]
    steps: tuple[int, ...]
    times: tuple[float | None, ...]
    step_names: tuple[str, str]
    """Of the first dimension and the array of the times, of the fields that all steps hold."""
    created_by: str
    time_attributes: dict[str, str]

    @property
    def levels(self) -> int:
        """Of the grid that has the most."""
        return max(grid.levels for grid in self.grids)


def describe(dataset: Dataset, fields: Sequence[str] | None, float32: bool) -> Description:
    """Asks a dataset, once.

    Raises:
        KeyError: there is no such field
        Error: what is described cannot be read
    """
    native = dataset.native
    grids = tuple(Grid(grid.shape, grid.patch, grid.levels, grid.origin, grid.spacing,
                       tuple(tuple(axis) for axis in grid.coordinates), grid.axis_units, grid.axis_names,
                       grid.dim_names, grid.has_axis) for grid in dataset.grids)
    steps = native.steps()
    held: dict[str, list[tuple[_quarry.Step, _quarry.FieldStep]]] = {name: [] for name in dataset}
    for step in steps:
        for said in step.fields:
            if said.name in held:  # not one that was declared since
                held[said.name].append((step, said))
    chosen = list(dataset) if fields is None else list(dict.fromkeys(fields))
    fields_said = tuple(_describe_field(dataset, name, grids, held.get(name, []), float32) for name in chosen)
    return Description(grids, fields_said,
                       tuple(step.step for step in steps), tuple(step.time for step in steps), native.step_names,
                       native.created_by, dict(native.time_attributes))


def _describe_field(dataset: Dataset, name: str, grids: Sequence[Grid],
                    held: list[tuple[_quarry.Step, _quarry.FieldStep]], float32: bool) -> FieldContents:
    attributes = dict(dataset[name].attrs)
    fill = attributes.pop("_FillValue", None)
    stored = next(field.dtype for field in dataset.native.fields if field.name == name)
    dtype = stored
    max_errors = [max((said.levels[level].max_error for _, said in held), default=0.0)
                  for level in range(dataset[name].levels)]
    if float32 and stored == "float64":
        dtype = "float32"
        attributes.pop("lossless", None)
        attributes["stored_as"] = stored
        max_errors = [error + _rounding(max((max(abs(said.min), abs(said.max)) for _, said in held if said.valid),
                                            default=0.0) + error) for error in max_errors]
    return FieldContents(name, grids[dataset[name]._description.grid], dtype,
                         int(fill) if fill is not None and not dtype.startswith("float") else None,
                         attributes, tuple(step.step for step, _ in held), tuple(step.time for step, _ in held),
                         tuple(said.has_missing for _, said in held), tuple(max_errors),
                         dataset.native.own_step_names(name))


def _rounding(largest: float) -> float:
    """What numbers up to this lose in float32, subnormal ones included."""
    return max(largest * 2.0 ** -24, 2.0 ** -150) if largest < 3.4e38 else math.inf


# ---- Arrays

@dataclass(frozen=True)
class Array:
    """An array of the hierarchy."""

    shape: Shape
    chunks: Shape
    dtype: str
    fill: int | float
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]

    @property
    def chunk_bytes(self) -> int:
        """The size of each chunk; those at the end are padded."""
        import numpy as np
        return math.prod(self.chunks) * np.dtype(self.dtype).itemsize

    @property
    def chunk_counts(self) -> Shape:
        """Along each axis."""
        return tuple(-(-n // chunk) for n, chunk in zip(self.shape, self.chunks, strict=True))

    def document(self) -> dict[str, Any]:
        """Its zarr.json."""
        return {
            "zarr_format": 3, "node_type": "array", "shape": self.shape, "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunks}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _number(self.fill), "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": self.attributes, "dimension_names": self.dimensions, "storage_transformers": []}

    def chunk(self, dataset: Dataset, index: Shape) -> memoryview:
        """The bytes of a chunk that exists.

        Raises:
            Error: as reading does; damage is one, and never fill values
        """
        import numpy as np
        begin = tuple(i * chunk for i, chunk in zip(index, self.chunks, strict=True))
        end = tuple(map(min, (b + chunk for b, chunk in zip(begin, self.chunks, strict=True)), self.shape))
        samples = self.samples(dataset, begin, end)
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if samples.dtype != dtype:
            with np.errstate(over="ignore"):
                samples = samples.astype(dtype)
        if samples.shape != self.chunks:
            padded = np.full(self.chunks, self.fill, dtype)
            padded[tuple(map(slice, samples.shape))] = samples
            samples = padded
        return samples.data.cast("B")

    def samples(self, dataset: Dataset, begin: Shape, end: Shape) -> npt.NDArray[Any]:
        """Those of a box."""
        raise NotImplementedError


@dataclass(frozen=True)
class FieldArray(Array):
    """A field at a level, [step, z, y, x]."""

    contents: FieldContents
    level: int

    def samples(self, dataset: Dataset, begin: Shape, end: Shape) -> npt.NDArray[Any]:
        """Of one step."""
        grid, level = self.contents.grid, min(self.level, self.contents.grid.levels - 1)
        box = tuple((b << level, min(e << level, n)) for b, e, n in zip(
            grid.spread(begin[1:], 0), grid.spread(end[1:], 1), grid.shape, strict=True))
        question = _quarry.Question(self.contents.name, step=self.contents.steps[begin[0]],
                                    box=(box[0], box[1], box[2]), level=level)
        array: npt.NDArray[Any] = dataset.native.read(question, self.contents.missing[begin[0]]).array
        return array.reshape(1, *grid.kept(array.shape))


@dataclass(frozen=True)
class PositionArray(Array):
    """The positions of a level's samples along an axis: 0 (z), 1 (y), 2 (x)."""

    axis: int
    level: int
    grid: Grid

    def samples(self, dataset: Dataset, begin: Shape, end: Shape) -> npt.NDArray[np.float64]:
        """Computed."""
        import numpy as np
        places = np.arange(begin[0], end[0]) << self.level
        if self.grid.coordinates[self.axis]:
            return np.take(np.asarray(self.grid.coordinates[self.axis]), places)
        return self.grid.origin[self.axis] + self.grid.spacing[self.axis] * places.astype(np.float64)


@dataclass(frozen=True)
class ListArray(Array):
    """Numbers that are known: of steps, or their times."""

    values: tuple[float, ...]

    def samples(self, dataset: Dataset, begin: Shape, end: Shape) -> npt.NDArray[Any]:
        """Of a part."""
        import numpy as np
        return np.asarray(self.values[begin[0]:end[0]], self.dtype)


def _coordinate(length: int) -> tuple[Shape, Shape]:
    """Shape and chunks."""
    return (length,), (min(max(length, 1), COORDINATES_PER_CHUNK),)


# ---- The hierarchy

class Contents:
    """The keys of the hierarchy, and their values. Thread-safe. Pickles with its dataset, which opens again.

    Steps are those that were published when it was made. They are read by their numbers, so that a process that opens
    the dataset later gives the same answers.
    """

    def __init__(self, dataset: Dataset, description: Description) -> None:
        self.dataset = dataset
        self.description = description
        # A process that it is handed to may have another working directory.
        self._target = dataset.target if "://" in dataset.target else os.path.abspath(dataset.target)

    def __reduce__(self) -> tuple[Callable[..., Contents], tuple[str, dict[str, Any], Description]]:
        return _opened_again, (self._target, self.dataset.__reduce__()[1][1], self.description)

    def get(self, key: str) -> bytes | memoryview | None:
        """The value, None where there is no such key. A chunk is read and decoded.

        Raises:
            Error: the samples of a chunk cannot be had, because of damage or of the server
        """
        if (document := self._documents.get(key)) is not None:
            return document
        found = self._chunk(key)
        return found[0].chunk(self.dataset, found[1]) if found else None

    def size(self, key: str) -> int | None:
        """[bytes] Of the value, None where there is no such key. Reads nothing."""
        if (document := self._documents.get(key)) is not None:
            return len(document)
        found = self._chunk(key)
        return found[0].chunk_bytes if found else None

    def keys(self, prefix: str = "") -> Iterator[str]:
        """All keys that begin with this."""
        return self._keys_below("", prefix)

    def _keys_below(self, path: str, prefix: str) -> Iterator[str]:
        for child in self.children(path):
            key = f"{path}/{child}" if path else child
            if not key.startswith(prefix) and not prefix.startswith(f"{key}/"):
                continue
            if self.size(key) is None:
                yield from self._keys_below(key, prefix)
            else:
                yield key

    def children(self, path: str) -> Iterator[str]:
        """The names in a folder of keys: none where there is no such folder."""
        if not path:
            return itertools.chain(["zarr.json"], self._levels)
        if path in self._levels:
            return itertools.chain(["zarr.json"], self._levels[path])
        if path in self._arrays:
            return iter(["zarr.json", "c"] if math.prod(self._arrays[path].shape) else ["zarr.json"])
        parts = path.split("/")
        array = self._arrays.get("/".join(parts[:2]))
        if array is None or parts[2] != "c":
            return iter(())
        counts = array.chunk_counts
        place = _index(parts[3:], counts[:len(parts) - 3])
        return iter(()) if place is None or len(place) == len(counts) else map(str, range(counts[len(place)]))

    def _chunk(self, key: str) -> tuple[Array, Shape] | None:
        """The array and the place of the chunk with this key."""
        level, _, rest = key.partition("/")
        name, _, chunk = rest.partition("/")
        array = self._arrays.get(f"{level}/{name}")
        if array is None or not chunk.startswith("c/"):
            return None
        index = _index(chunk[2:].split("/"), array.chunk_counts)
        return None if index is None else (array, index)

    # ---- Metadata

    @cached_property
    def _levels(self) -> dict[str, list[str]]:
        """The names of the arrays in the group of each level."""
        levels: dict[str, list[str]] = {str(level): [] for level in range(self.description.levels)}
        for path in self._arrays:
            level, _, name = path.partition("/")
            levels[level].append(name)
        return levels

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        """By path."""
        return {f"{level}/{name}": array for level in range(self.description.levels)
                for name, array in _level_arrays(self.description, level).items()}

    @cached_property
    def _documents(self) -> dict[str, bytes]:
        """Every zarr.json by its key. Groups have the metadata of all below them, so that one read opens them."""
        arrays = {path: array.document() for path, array in self._arrays.items()}
        groups = {path: _group({"level": int(path)}) for path in self._levels}
        said = self.description
        patches = {field.name: field.grid.patch for field in said.fields}
        root = _group({"ome": {"version": "0.5", "multiscales": _multiscales(said, self._arrays)},
                       "quarry": {"levels": said.levels, "patches": patches, "created_by": said.created_by}})
        documents = {"zarr.json": _consolidated(root, groups | arrays)}
        for path, group in groups.items():
            below = {array.removeprefix(f"{path}/"): document for array, document in arrays.items()
                     if array.startswith(f"{path}/")}
            documents[f"{path}/zarr.json"] = _consolidated(group, below)
        documents |= {f"{path}/zarr.json": document for path, document in arrays.items()}
        return {key: json.dumps(document, allow_nan=False).encode() for key, document in documents.items()}


def _opened_again(target: str, options: dict[str, Any], description: Description) -> Contents:
    from quarry._dataset import Dataset
    return Contents(Dataset(target, options), description)


def _index(parts: Sequence[str], counts: Shape) -> Shape | None:
    """The place of a chunk, as keys give it: decimal numbers without leading zeros, one for each axis."""
    if len(parts) != len(counts):
        return None
    for part in parts:
        if len(part) > 19 or not (part.isascii() and part.isdigit()) or str(int(part)) != part:
            return None
    index = tuple(map(int, parts))
    return index if all(i < count for i, count in zip(index, counts, strict=True)) else None


def _number(value: float) -> int | float | str:
    """As Zarr writes numbers that JSON lacks."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _consolidated(group: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    return {**group, "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": below}}


def _step_names(said: Description, field: FieldContents | None) -> tuple[str, str]:
    """The first dimension, and the array of its times: common to the fields that every step holds."""
    return said.step_names if field is None or field.steps == said.steps else field.own_names


def _level_arrays(said: Description, level: int) -> dict[str, Array]:
    """By name: the fields, then the coordinates of their dimensions."""
    arrays: dict[str, Array] = {}
    for field in said.fields:
        grid = field.grid
        if not grid.has_level(level):
            continue
        shape, chunks = grid.kept(grid.level_shape(level)), grid.kept(grid.chunk_shape(level))
        step, time = _step_names(said, field)
        attributes = field.attributes | {"max_error": _number(field.max_errors[min(level, grid.levels - 1)]),
                                         "level": level}
        if any(known is not None for known in field.times):
            attributes["coordinates"] = time
        if field.fill is not None:
            attributes["_FillValue"] = field.fill
        fill: int | float = math.nan if field.dtype.startswith("float") else field.fill or 0
        if field.dtype == "bool":
            fill = False
        arrays[field.name] = FieldArray((len(field.steps), *shape), (1, *chunks), field.dtype, fill,
                                        (step, *grid.kept(grid.dims)), attributes, contents=field, level=level)
    for grid in said.grids:
        if not grid.has_level(level):
            continue
        for number, axis in enumerate(grid.dims):
            if not grid.has_axis[number] or axis in arrays:
                continue
            attributes = {"axis": "ZYX"[number], "long_name": grid.names[number], "units": grid.units[number]}
            arrays[axis] = PositionArray(*_coordinate(grid.level_shape(level)[number]), "float64", math.nan, (axis,),
                                         {name: text for name, text in attributes.items() if text},
                                         axis=number, level=level, grid=grid)
    arrays |= _step_arrays(said, None)
    for field in said.fields:
        arrays |= _step_arrays(said, field)
    return arrays


def _step_arrays(said: Description, field: FieldContents | None) -> dict[str, Array]:
    """The numbers of the steps that hold a field, or of all, and their times if there are any."""
    steps, times = (said.steps, said.times) if field is None else (field.steps, field.times)
    step, time = _step_names(said, field)
    dtype = "int64" if max(steps, default=0) < 1 << 63 else "uint64"
    arrays: dict[str, Array] = {step: ListArray(*_coordinate(len(steps)), dtype, 0, (step,),
                                                {"long_name": "number of the step"}, values=steps)}
    if any(known is not None for known in times):
        values = tuple(math.nan if known is None else known for known in times)
        arrays[time] = ListArray(*_coordinate(len(times)), "float64", math.nan, (step,),
                                 dict(said.time_attributes), values=values)
    return arrays


def _multiscales(said: Description, arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """An image for each field, as OME-Zarr describes them."""
    images = []
    for field in said.fields:
        if not field.steps:
            continue
        first, *space = arrays[f"0/{field.name}"].dimensions
        axes = [{"name": first, "type": "time"}]
        for name, unit in zip(space, field.grid.kept(field.grid.units), strict=True):
            axes.append({"name": name, "type": "space"} | ({"unit": _UNITS[unit]} if unit in _UNITS else {}))
        datasets = [{"path": f"{level}/{field.name}",
                     "coordinateTransformations": _transformations(field, level)}
                    for level in range(field.grid.levels)]
        images.append({"name": field.name, "axes": axes, "datasets": datasets})
    return images


def _transformations(field: FieldContents, level: int) -> list[dict[str, Any]]:
    """Sample i of a level lies on sample i 2^level: its spacing grows, its first sample stays. An axis with one sample
    stays as it is."""
    grid = field.grid
    start, between = _evenly(field.times)
    scale = [between, *grid.kept([(distance or 1.0) * (1 << level if n > 1 else 1)
                                  for distance, n in zip(grid.spacing, grid.shape, strict=True)])]
    return [{"type": "scale", "scale": scale},
            {"type": "translation", "translation": [start, *grid.kept(grid.origin)]}]


def _evenly(times: Sequence[float | None]) -> tuple[float, float]:
    """The first time and the distance of two, where the distance is always the same; otherwise steps are counted."""
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len(known) < 2:
        return 0.0, 1.0
    between = (known[-1] - known[0]) / (len(known) - 1)
    even = all(abs(known[0] + i * between - time) <= 1e-6 * abs(between) for i, time in enumerate(known))
    return (known[0], between) if even and between > 0 else (0.0, 1.0)
