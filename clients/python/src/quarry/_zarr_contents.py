"""A dataset as the keys and values of a Zarr hierarchy (format 3), whoever asks for them. zarr-python is not needed.

    zarr.json                      the root: fields as multiscale images, and the metadata of everything below
    L/zarr.json                    a group for each level
    L/FIELD/zarr.json              an array over [step, z, y, x] for each field, without axes that its grid lacks, and
                                   without steps where the field does not change with time
    L/FIELD/c/S/Z/Y/X              its chunks
    L/z, L/y, L/x, L/step, L/time  coordinates, likewise; axes are called as the dataset calls them
    L/TEXT                         coordinates of text, likewise

docs/decisions/zarr-xarray-export.md says why chunks and dimensions are what they are.

The server has the same hierarchy in C++ (server/zarr): every key has the same value there, documents as JSON, chunks
by their bytes. What both have to do alike, besides what is obvious:

* Steps are those that hold a field which changes with time; all, if no field does. Fields that all of these hold have
  the dimension `names[0]` of the dataset's `step_names`, and the others that of their own.
* Along a dimension of steps lie their numbers, in the array `names[1]`, unless the dimension is called otherwise and
  they are 0, 1, 2, ...; and their times, in `names[2]`, if any has one. Where no field changes, there is neither.
* Attributes are the source's, and then Quarry's, which take the place of those of their names. Root: `ome`, `quarry`.
  Groups: `level`. Fields: `units`, `coder`, `lossless`, `tolerance`, `relative_tolerance`,
  `pointwise_relative_tolerance`, `max_error`, `level`, `coordinates`, `_FillValue`, as far as there are any. Axes:
  `units`, and `axis` unless the source has it. Times: `time_attributes` of the dataset. Numbers of steps: `long_name`
  alone. Texts: the source's alone.
* `coordinates` of a field names, with spaces between: of the arrays along its steps, that which is not called as the
  dimension; then, unless the field is a coordinate itself, the fields that are coordinates, that a step holds, that the
  level has, and whose dimensions it has too; in the order of the fields; then the texts, likewise, in their order, but
  for those that are called as their dimension, or have a space in their name.
* Positions along an axis are those of the first grid that says them. An axis of which no grid does has no array.
* Texts are one chunk, in the coding vlen-utf8: how many there are, and for each how many bytes it has, and these;
  numbers are of 32 bits. A level has every 2^level-th, where a grid has their dimension; one text alone is in all
  levels. Texts that are called as their axis take the place of the positions along their dimension.
* Samples are of the type in which they were given: bool is bool, and float16 float16.
* Coordinates are arrays, and no images. What does not change has no axis of time in its image.
* A field that does not change and that no step holds yet has an array without chunks.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quarry import _quarry
from quarry._zarr_description import Description, FieldContents, Grid, Names, Shape, json_number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from quarry._dataset import Dataset

COORDINATES_PER_CHUNK = 1 << 20

# The names of OME-Zarr for what people write as units.
_UNITS = {"m": "meter", "km": "kilometer", "dm": "decimeter", "cm": "centimeter", "mm": "millimeter",
          "um": "micrometer", "µm": "micrometer", "μm": "micrometer", "nm": "nanometer", "pm": "picometer",
          "fm": "femtometer", "Å": "angstrom", "pc": "parsec", "ft": "foot", "in": "inch"}
_UNITS |= {name: name for name in _UNITS.values()} | {f"{name}s": name for name in _UNITS.values()}


# ---- Arrays

@dataclass(frozen=True)
class Array:
    """An array of the hierarchy."""

    shape: Shape
    chunks: Shape
    dtype: str
    fill: int | float | str
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]

    @property
    def has_chunks(self) -> bool:
        """Whether there are any."""
        return math.prod(self.shape) > 0

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
            "fill_value": self.fill if isinstance(self.fill, str) else json_number(self.fill), "codecs": self.codecs(),
            "attributes": self.attributes, "dimension_names": self.dimensions, "storage_transformers": []}

    def codecs(self) -> list[dict[str, Any]]:
        """How its chunks become bytes."""
        return [{"name": "bytes", "configuration": {"endian": "little"}}]

    def chunk(self, dataset: Dataset, index: Shape) -> bytes | memoryview:
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
    """A field at a level, [step, z, y, x]; without steps, if it does not change."""

    contents: FieldContents
    level: int

    @property
    def has_chunks(self) -> bool:
        """Whether a step holds it."""
        return bool(self.contents.steps)

    def samples(self, dataset: Dataset, begin: Shape, end: Shape) -> npt.NDArray[Any]:
        """Of one step."""
        grid, level = self.contents.grid, min(self.level, self.contents.grid.levels - 1)
        first = 0 if self.contents.still else 1
        place = begin[0] if first else 0
        box = tuple((b << level, min(e << level, n)) for b, e, n in zip(
            grid.spread(begin[first:], 0), grid.spread(end[first:], 1), grid.shape, strict=True))
        question = _quarry.Question(self.contents.name, step=self.contents.steps[place],
                                    box=(box[0], box[1], box[2]), level=level)
        array: npt.NDArray[Any] = dataset.native.read(question).array
        return array.reshape((*(1,) * first, *grid.kept(array.shape)))


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


@dataclass(frozen=True)
class TextArray(Array):
    """Texts, in one chunk."""

    texts: tuple[str, ...]

    @cached_property
    def _encoded(self) -> bytes:
        coded = [text.encode() for text in self.texts]
        return struct.pack("<I", len(coded)) + b"".join(struct.pack("<I", len(one)) + one for one in coded)

    @property
    def chunk_bytes(self) -> int:
        """The size of the chunk."""
        return len(self._encoded)

    def codecs(self) -> list[dict[str, Any]]:
        """Those of numcodecs."""
        return [{"name": "vlen-utf8"}]

    def chunk(self, dataset: Dataset, index: Shape) -> bytes:
        """The bytes of the chunk."""
        return self._encoded


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
            return iter(["zarr.json", "c"] if self._arrays[path].has_chunks else ["zarr.json"])
        parts = path.split("/")
        array = self._arrays.get("/".join(parts[:2]))
        if array is None or parts[2] != "c" or not array.has_chunks:
            return iter(())
        counts = array.chunk_counts
        place = _index(parts[3:], counts[:len(parts) - 3])
        return iter(()) if place is None or len(place) == len(counts) else map(str, range(counts[len(place)]))

    def _chunk(self, key: str) -> tuple[Array, Shape] | None:
        """The array and the place of the chunk with this key."""
        level, _, rest = key.partition("/")
        name, _, chunk = rest.partition("/")
        array = self._arrays.get(f"{level}/{name}")
        first, *places = chunk.split("/")
        if array is None or first != "c" or not array.has_chunks:
            return None
        index = _index(places, array.chunk_counts)
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
        said = self.description
        groups = {path: _group({**said.attributes, "level": int(path)}) for path in self._levels}
        patches = {field.name: field.grid.patch for field in said.fields}
        root = _group({**said.attributes,
                       "ome": {"version": "0.5", "multiscales": _multiscales(said, self._arrays)},
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


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _consolidated(group: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    return {**group, "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": below}}


def _step_names(said: Description, field: FieldContents | None) -> Names:
    """Common to the fields that every step holds."""
    return said.step_names if field is None or field.steps == said.steps else field.own_names


def _level_arrays(said: Description, level: int) -> dict[str, Array]:
    """By name: the fields, then the coordinates of their dimensions."""
    fields = {field.name: _field_array(said, field, level) for field in said.fields if field.grid.has_level(level)}
    texts = _text_arrays(said, level)
    arrays: dict[str, Array] = {**fields, **texts}
    for name, positions in _position_arrays(said, level).items():
        arrays.setdefault(name, positions)
    moving = [field for field in said.fields if not field.still]
    for field in [None, *moving] if moving or not said.fields else []:
        arrays |= _step_arrays(said, field)
    for name, array in fields.items():
        if beside := _coordinates_of(said, array, fields, texts):
            arrays[name] = replace(array, attributes=array.attributes | {"coordinates": " ".join(beside)})
    return arrays


def _text_arrays(said: Description, level: int) -> dict[str, TextArray]:
    """Every 2^level-th text along the dimensions that the level shows, and what is one text."""
    shown = {dim for grid in said.grids if grid.has_level(level) for dim in grid.kept(grid.dims)}
    arrays = {}
    for text in said.texts:
        if not text.dim:
            arrays[text.name] = TextArray((), (), "string", "", (), text.attributes, texts=text.texts)
        elif text.dim in shown:
            texts = text.texts[::1 << level]
            arrays[text.name] = TextArray((len(texts),), (len(texts),), "string", "", (text.dim,), text.attributes,
                                          texts=texts)
    return arrays


def _position_arrays(said: Description, level: int) -> dict[str, Array]:
    """Of the axes whose positions a grid of the level says."""
    arrays: dict[str, Array] = {}
    for grid in said.grids:
        if not grid.has_level(level):
            continue
        for number, name in enumerate(grid.dims):
            if not grid.has_axis[number] or grid.unplaced[number] or name in arrays:
                continue
            attributes = {"axis": "ZYX"[number], **grid.attributes[number]}
            if grid.units[number]:
                attributes["units"] = grid.units[number]
            arrays[name] = PositionArray(*_coordinate(grid.level_shape(level)[number]), "float64", math.nan, (name,),
                                         attributes, axis=number, level=level, grid=grid)
    return arrays


def _field_array(said: Description, field: FieldContents, level: int) -> FieldArray:
    grid = field.grid
    attributes = field.attributes | {"max_error": json_number(field.max_errors[min(level, grid.levels - 1)]),
                                     "level": level}
    if field.fill is not None:
        attributes["_FillValue"] = field.fill
    fill: int | float = math.nan if field.dtype.startswith("float") else field.fill or 0
    if field.dtype == "bool":
        fill = False
    shape, chunks, dims = grid.kept(grid.level_shape(level)), grid.kept(grid.chunk_shape(level)), grid.kept(grid.dims)
    if not field.still:
        shape, chunks, dims = (len(field.steps), *shape), (1, *chunks), (_step_names(said, field)[0], *dims)
    return FieldArray(shape, chunks, field.dtype, fill, dims, attributes, contents=field, level=level)


def _coordinates_of(said: Description, array: FieldArray, fields: Mapping[str, FieldArray],
                    texts: Mapping[str, TextArray]) -> list[str]:
    """Names of what says where its samples are, and is no dimension."""
    field = array.contents
    names = [] if field.still else [name for name in _step_arrays(said, field) if name not in array.dimensions]
    if not field.coordinate:
        names += [name for name, other in fields.items() if other.contents.coordinate and other.has_chunks
                  and set(other.dimensions) <= set(array.dimensions)]
        names += [name for name, text in texts.items() if name not in text.dimensions and " " not in name
                  and set(text.dimensions) <= set(array.dimensions)]
    return names


def _step_arrays(said: Description, field: FieldContents | None) -> dict[str, Array]:
    """The numbers of the steps that hold a field, or of all, unless they say no more than places beside a dimension of
    another name; then their times if there are any."""
    steps, times = (said.steps, said.times) if field is None else (field.steps, field.times)
    dimension, numbers, moments = _step_names(said, field)
    dtype = "int64" if max(steps, default=0) < 1 << 63 else "uint64"
    arrays: dict[str, Array] = {}
    if numbers == dimension or steps != tuple(range(len(steps))):
        arrays[numbers] = ListArray(*_coordinate(len(steps)), dtype, 0, (dimension,),
                                    {"long_name": "number of the step"}, values=steps)
    if any(known is not None for known in times):
        values = tuple(math.nan if known is None else known for known in times)
        arrays[moments] = ListArray(*_coordinate(len(times)), "float64", math.nan, (dimension,),
                                    dict(said.time_attributes), values=values)
    return arrays


def _multiscales(said: Description, arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """An image for each field that is no coordinate, as OME-Zarr describes them."""
    images = []
    for field in said.fields:
        if not field.steps or field.coordinate:
            continue
        dims = arrays[f"0/{field.name}"].dimensions
        axes = [] if field.still else [{"name": dims[0], "type": "time"}]
        units = field.grid.kept(field.grid.units)
        for name, unit in zip(dims[len(axes):], units, strict=True):
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
    scale = grid.kept([(distance or 1.0) * (1 << level if n > 1 else 1)
                       for distance, n in zip(grid.spacing, grid.shape, strict=True)])
    translation = grid.kept(grid.origin)
    if not field.still:
        scale, translation = (between, *scale), (start, *translation)
    return [{"type": "scale", "scale": scale}, {"type": "translation", "translation": translation}]


def _evenly(times: Sequence[float | None]) -> tuple[float, float]:
    """The first time and the distance of two, where the distance is always the same; otherwise steps are counted."""
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len(known) < 2:
        return 0.0, 1.0
    between = (known[-1] - known[0]) / (len(known) - 1)
    even = all(abs(known[0] + i * between - time) <= 1e-6 * abs(between) for i, time in enumerate(known))
    return (known[0], between) if even and between > 0 else (0.0, 1.0)
