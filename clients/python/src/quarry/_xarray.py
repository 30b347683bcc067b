"""Datasets as xarray sees them: `xr.open_dataset(target, engine="quarry")`, and a group for each level by
`xr.open_datatree`."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

try:
    import xarray as xr
    from xarray.backends import BackendEntrypoint
    from xarray.core import indexing
except ImportError as error:
    raise ImportError("quarry needs xarray for this; pip install xarray") from error

from quarry import _dataset, _quarry
from quarry._dataset import Dataset
from quarry._errors import Error
from quarry._field import Field
from quarry._level_array import ComplexArray, LevelArray
from quarry._roles import helpers_of
from quarry._samples import Samples, array_of, as_given, floating, layer_of, positions, with_nan

if TYPE_CHECKING:
    import numpy.typing as npt

class QuarryBackendEntrypoint(BackendEntrypoint):
    """The engine "quarry" of xarray."""

    description: ClassVar[str] = "Quarry datasets (.quarry) in a directory or behind grpc:// and grpcs://"
    url: ClassVar[str] = "https://pypi.org/project/quarry-data"
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[Any, ...] | None] = (
        "filename_or_obj", "drop_variables", "mask_and_scale", "decode_times", "decode_timedelta", "level", "max_error",
        "layer", "steps", "token", "ca", "certificate", "key", "threads", "memory", "timeout", "retries", "encoding")

    def open_dataset(  # type: ignore[override]  # it has options of its own
            self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None,
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool | None = None,
            level: int | None = None, max_error: float | Mapping[str, float] | None = None,
            layer: int | None = None, steps: Iterable[int] | None = None, token: str = "", ca: str = "",
            certificate: str = "", key: str = "", threads: int = 0, memory: int = 0, timeout: float = 0,
            retries: int = 5, encoding: Literal["auto", "samples", "patches"] = "auto") -> xr.Dataset:
        """Opens a dataset at one level; reads no samples, but for those of dates that decide how all are decoded.

        Where the dataset has a name of time, the steps lie along their times; otherwise along their numbers. Attributes
        are those of the source. Besides, a variable has `level` where it is not 0, `layer` where it is not the last,
        `max_error` where the original differs from what is shown, `coverage` where a level cannot show everything, and
        a `comment` where steps do not hold it. What else is known is in the encoding: `coder`, `lossless`, `tolerance`,
        and `created_by` of the dataset.

        Args:
            filename_or_obj: a directory, or "grpc://HOST:PORT/NAME", or the same with "grpcs://" for TLS
            drop_variables: fields that are left out
            mask_and_scale: missing samples are NaN, integers with a fill value floats; False: all are as stored
            decode_times: what has a unit with a reference date is datetime64, or cftime where its calendar needs it
            decode_timedelta: what has a unit without one, as "hours", is timedelta64; if left out, what was timedelta64
                when it was written
            level: 0, full resolution, if nothing else says which
            max_error: instead of level and layer: those with the fewest bytes at which every field and step is within
                this error, in the field's unit; or {field: error}, where fields have different units
            layer: of accuracy, 0 the roughest; the last if left out, and of fields that have fewer
            steps: numbers of the steps; all that are published if left out

        The others are those of `quarry.open`.

        Raises:
            Error: those of `quarry.open`; no such step, or no level within max_error (NOT_FOUND)
            ValueError: no such level
        """
        dataset = _open(filename_or_obj, token=token, ca=ca, certificate=certificate, key=key, threads=threads,
                        memory=memory, timeout=timeout, retries=retries, encoding=encoding)
        try:
            times = _Decoding(decode_times, decode_timedelta)
            view = _View(dataset, _left(dataset, drop_variables), steps, mask_and_scale, times)
            chosen = view.choose(level, max_error, layer)
            if coarser := view.without(chosen):
                warnings.warn(f"level {chosen} is coarser than all levels of {', '.join(coarser)}: left out here",
                              stacklevel=2)
            opened = view.dataset_at(chosen)
        except BaseException:
            dataset.close()
            raise
        opened.set_close(dataset.close)
        return opened

    def open_groups_as_dict(  # type: ignore[override]
            self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None,
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool | None = None,
            steps: Iterable[int] | None = None, token: str = "", ca: str = "", certificate: str = "", key: str = "",
            threads: int = 0, memory: int = 0, timeout: float = 0, retries: int = 5,
            encoding: Literal["auto", "samples", "patches"] = "auto") -> dict[str, xr.Dataset]:
        """A group for each level: "/0", full resolution, "/1" and so on; the root "/" has attributes only. Arguments
        and errors are those of `open_dataset`."""
        dataset = _open(filename_or_obj, token=token, ca=ca, certificate=certificate, key=key, threads=threads,
                        memory=memory, timeout=timeout, retries=retries, encoding=encoding)
        try:
            times = _Decoding(decode_times, decode_timedelta)
            view = _View(dataset, _left(dataset, drop_variables), steps, mask_and_scale, times)
            groups = {f"/{level}": view.dataset_at(level) for level in range(view.levels)}
        except BaseException:
            dataset.close()
            raise
        root = view.root()
        root.set_close(dataset.close)
        return {"/": root, **groups}

    def open_datatree(self, filename_or_obj: str | os.PathLike[str],  # type: ignore[override]
                      **options: Any) -> xr.DataTree:
        """The same as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        tree = xr.DataTree.from_dict(groups)
        tree.set_close(groups["/"].close)
        return tree

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is the address of a server, or a folder NAME.quarry."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        target = os.fspath(filename_or_obj)
        if not isinstance(target, str):
            return False
        return _dataset.is_server(target) or (target.rstrip("/").endswith(".quarry") and os.path.isdir(target))


def field_to_xarray(source: Field, *, level: int | None = None, max_error: float | None = None,
                    layer: int | None = None, steps: Iterable[int] | None = None) -> xr.DataArray:
    """See Field.to_xarray."""
    beside = [said.name for said in source.dataset.native.fields if said.coordinate and said.name != source.name]
    view = _View(source.dataset, [source.name, *beside], steps, True, _Decoding())
    view.look_at(source.name)
    at = view.dataset_at(view.choose(level, max_error, layer), is_indexed=True)
    if source.name not in at.variables:
        raise Error("NOT_FOUND", f"{source.name!r} is in none of the steps {view.numbers.tolist()}")
    return at[source.name]


def samples_to_xarray(samples: Samples) -> xr.DataArray:
    """See Samples.to_xarray."""
    grid, said = samples._grid, samples._field._description
    decoding = _Decoding()
    coords: dict[str, Any] = {
        name: decoding.decode(name, _axis(grid, axis, values))
        for axis, (name, values) in enumerate(samples.coords.items())
        if grid.has_axis[axis] and not grid.unplaced[axis]}
    coords |= _texts_beside(samples)
    if not said.still:
        coords |= _moment_of(samples, decoding)
    array = with_nan(samples.array)[tuple(slice(None) if has else 0 for has in grid.has_axis)]
    return xr.DataArray(array, coords, _dims(grid), samples.field,
                        _attributes(said, samples.level, samples.max_error, layer=samples.layer))


def _texts_beside(samples: Samples) -> dict[str, Any]:
    """Coordinates of text along the axes of a field."""
    grid = samples._grid
    found: dict[str, Any] = {}
    for text in samples._field.dataset.native.texts:
        if not text.dim:
            found[text.name] = xr.Variable((), text.texts[0], text.attributes)
        elif text.dim in _dims(grid):
            number = grid.dim_names.index(text.dim)
            (first, last), step = samples.box[number], samples.spacing[number]
            here = text.texts[first * step:(last - 1) * step + 1:step] if last > first else []
            found[text.name] = xr.Variable((text.dim,), array_of(here), text.attributes)
    return found


def _moment_of(samples: Samples, decoding: _Decoding) -> dict[str, Any]:
    """The time of a step and its number, as the whole dataset has them."""
    dataset = samples._field.dataset
    steps = _moving(dataset.native, dataset._steps())
    moments = _Moments(dataset.native, steps)
    here = np.flatnonzero(moments.numbers == samples.step)
    if not here.size:  # published after the list of the others was made
        return {moments.numbers_name: xr.Variable((), np.int64(samples.step))}
    return {name: variable[int(here[0])] for name, variable in moments.coords(decoding).items()}


def _open(target: Any, **options: Any) -> Dataset:
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"the engine \"quarry\" opens folders and servers, by a text or a path, not {type(target)}")
    name = _dataset.located(target)
    # Workers may have other working directories.
    return _dataset.open(name if _dataset.is_server(name) else os.path.abspath(name), **options)


def _left(dataset: Dataset, drop: str | Iterable[str] | None) -> list[str]:
    """Names of the fields that are not dropped."""
    dropped = {drop} if isinstance(drop, str) else set(drop or ())
    return [name for name, field in dataset.items() if not dropped & {name, field._description.complex_of}]


def _attributes(said: _quarry.FieldDescription, level: int, max_error: float, coverage: float = 1,
                comment: str = "", layer: int | None = None) -> dict[str, Any]:
    """Attributes of the source, and a note where the shown samples differ from it."""
    facts = {"level": level or None, "layer": layer if layer not in (None, said.layers - 1) else None,
             "max_error": max_error or None, "coverage": coverage if coverage < 1 else None, "comment": comment or None,
             "units": said.units or None}
    return {name: value for name, value in facts.items() if value is not None} | said.attributes


# ---- What is where

def _dims(grid: _quarry.FieldGrid) -> tuple[str, ...]:
    """Names of the axes that a grid has, z first."""
    return tuple(name for name, has in zip(grid.dim_names, grid.has_axis, strict=True) if has)


def _axis(grid: _quarry.FieldGrid, axis: int, values: npt.NDArray[np.float64]) -> xr.Variable:
    """The positions along an axis, in the type of the source."""
    attrs = dict(grid.axis_attributes[axis])
    if grid.axis_units[axis]:
        attrs["units"] = grid.axis_units[axis]
    return xr.Variable((grid.dim_names[axis],), as_given(values, grid.position_dtypes[axis]), attrs)


@dataclass
class _Decoding:
    """Decoding of times, as in xarray.open_dataset."""

    dates: bool = True
    lengths: bool | None = None

    def concerns(self, attrs: Mapping[str, Any]) -> bool:
        """Whether numbers with these attributes become dates or lengths of time."""
        units = attrs.get("units")
        if isinstance(units, str) and " since " in units:
            return self.dates
        if self.lengths is None:
            return str(attrs.get("dtype", "")).startswith("timedelta64")
        return self.lengths and isinstance(units, str)

    def decode(self, name: str, variable: xr.Variable) -> xr.Variable:
        """Numbers stay numbers, with their unit, where it or its calendar is not known to xarray. Of an array that is
        not in memory, two values are read."""
        if not self.concerns(variable.attrs):
            return variable
        try:
            decoded = xr.conventions.decode_cf_variable(name, variable, decode_times=self.dates,
                                                        decode_timedelta=self.lengths is not False)
        except (ValueError, OverflowError) as error:
            warnings.warn(f"{name}: the times stay numbers, in {variable.attrs['units']!r}: {error}", stacklevel=4)
            return variable
        if decoded.dtype.kind == "m":
            decoded.attrs.pop("dtype", None)  # which older xarray leaves there
        return decoded

    def decode_at_once(self, name: str, variable: xr.Variable) -> xr.Variable:
        """The same in memory, also of times that are missing."""
        decoded = self.decode(name, variable)
        if decoded is variable:
            return variable
        values = np.array(decoded.values)
        if values.dtype.kind == "O":  # cftime takes NaN for the reference date
            values[np.isnan(variable.values)] = np.nan
        return xr.Variable(decoded.dims, values, decoded.attrs, decoded.encoding)


def _moving(native: _quarry.Dataset, steps: Sequence[_quarry.Step]) -> list[_quarry.Step]:
    """The steps that hold a field which changes with time: the others lie along no axis."""
    still = {said.name for said in native.fields if said.still}
    return [step for step in steps if any(one.name not in still for one in step.fields)]


class _Moments:
    """Numbers and times of steps."""

    def __init__(self, native: _quarry.Dataset, steps: Sequence[_quarry.Step]) -> None:
        self._native, self._steps = native, steps
        self.dim, self.numbers_name, self.times_name = native.step_names
        self.numbers = np.array([step.step for step in steps], dtype=np.int64)

    def coords(self, decoding: _Decoding) -> dict[str, xr.Variable]:
        """Along the dimension of the steps."""
        coords = {}
        is_counted = np.array_equal(self.numbers, np.arange(len(self.numbers)))
        if self.dim == self.numbers_name or not is_counted:
            coords[self.numbers_name] = xr.Variable((self.dim,), self.numbers)
        if any(step.time is not None for step in self._steps):
            times = np.array([np.nan if step.time is None else step.time for step in self._steps])
            units, calendar = self._native.time_units, self._native.calendar
            said = {"units": units, "calendar": calendar}
            attrs = self._native.kept_time_attributes | {name: text for name, text in said.items() if text}
            coords[self.times_name] = decoding.decode_at_once(
                self.times_name, xr.Variable((self.dim,), times, attrs))
        return coords

    def coords_of_one(self, decoding: _Decoding) -> dict[str, xr.Variable]:
        """Coordinates of the only step, which is no dimension: a number that is not 0, and the time if it has a
        name."""
        if len(self._steps) != 1:
            return {}
        coords = {name: variable[0] for name, variable in self.coords(decoding).items()}
        if not self._native.time_name:
            coords.pop(self.times_name, None)
        if not self.numbers.any():
            coords.pop(self.numbers_name, None)
        return coords


@dataclass
class _Series:
    """Records of the steps about a field.

    Attributes:
        numbers: of the steps along its axis; of a field that stands still, the one that has it
        held: which of them hold it
        missing: and which of these have missing samples
        errors, coverages: of each layer of accuracy and level, the worst; empty if no step holds it
        layer: of accuracy, that is shown
        records: of the steps that hold it
    """

    said: _quarry.FieldDescription
    grid: _quarry.FieldGrid
    numbers: npt.NDArray[np.int64]
    held: npt.NDArray[np.bool_]
    errors: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    coverages: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    layer: int = 0
    records: list[_quarry.FieldStep] = field(default_factory=list)

    @classmethod
    def of(cls, said: _quarry.FieldDescription, grid: _quarry.FieldGrid, steps: Sequence[_quarry.Step]) -> _Series:
        """In these steps."""
        numbers = np.array([step.step for step in steps], dtype=np.int64)
        series = cls(said, grid, numbers, np.zeros(len(steps), bool), layer=said.layers - 1)
        for position, step in enumerate(steps):
            for of_field in step.fields:
                if of_field.name == said.name:
                    series._add(position, of_field)
        return series

    def _add(self, position: int, step: _quarry.FieldStep) -> None:
        layers = [step.levels_of(layer) for layer in range(self.said.layers)]
        errors = np.array([[record.max_error for record in levels] for levels in layers])
        coverages = np.array([[record.coverage for record in levels] for levels in layers])
        self.errors = np.maximum(self.errors, errors) if self.errors.size else errors
        self.coverages = np.minimum(self.coverages, coverages) if self.coverages.size else coverages
        self.held[position] = True
        self.records.append(step)

    def has_level(self, level: int) -> bool:
        """Coordinates exist at every level; a single sample belongs to all levels."""
        return level < self.grid.levels or self.said.coordinate or self.grid.shape == (1, 1, 1)


class _View:
    """The fields and steps that somebody wants of a dataset. The steps are looked through once for all levels."""

    def __init__(self, dataset: Dataset, names: Sequence[str], steps: Iterable[int] | None, decode: bool,
                 decoding: _Decoding) -> None:
        self._dataset, self._native, self._decode, self._decoding = dataset, dataset.native, decode, decoding
        published = dataset._steps()
        chosen = _moving(self._native, published) if steps is None else _chosen(dataset, published, steps)
        self._moments = _Moments(self._native, chosen)
        self.numbers = self._moments.numbers
        self._published = published
        said = {said.name: said for said in self._native.fields}
        self._has_steps = not said or not all(one.still for one in said.values())
        self._series = {}
        for name in names:
            place = [step for step in published if any(one.name == name for one in step.fields)][:1]
            series = _Series.of(said[name], dataset.grids[said[name].grid], place if said[name].still else chosen)
            # A field that none of the steps holds is left out.
            if series.held.any() or not published:
                self._series[name] = series
        helping = helpers_of(dataset)
        self.look_at(*(name for name, series in self._series.items()
                       if name not in helping and series.grid.shape != (1, 1, 1)))

    def look_at(self, *names: str) -> None:
        """Says by which fields a level is chosen: by all, if these are not there."""
        self._chosen_by = [name for name in names if name in self._series] or list(self._series)
        self.levels = max((self._series[name].grid.levels for name in self._chosen_by), default=1)
        """Of the field that has the most."""

    def without(self, level: int) -> list[str]:
        """The fields whose grid has no such level."""
        return [name for name, series in self._series.items() if not series.has_level(level)]

    def choose(self, level: int | None, max_error: float | Mapping[str, float] | None, layer: int | None) -> int:
        """The level that is meant, and sets the layer of each field. For a max_error, those that a plan of the whole
        grid would choose for the worst field and step."""
        if layer is not None:
            for series in self._series.values():
                series.layer = layer_of(series.said, layer)
        if max_error is None:
            return _checked(level or 0, self.levels)
        if level is not None or layer is not None:
            raise ValueError("only one of level and max_error can be given; max_error chooses the layer, too")
        allowed = {name: float(error) for name, error in self._allowed(max_error).items()}
        chosen, layers = self._native.choose([(name, error, self._series[name].records)
                                              for name, error in allowed.items()])
        for name, of_field in zip(allowed, layers, strict=True):
            self._series[name].layer = of_field
        return chosen

    def _allowed(self, max_error: float | Mapping[str, float]) -> dict[str, float]:
        """The error of each field. Two parts of complex samples have that of the whole together."""
        by_name = max_error if isinstance(max_error, Mapping) else {}
        wholes = dict.fromkeys(series.said.complex_of for series in self._series.values() if series.said.complex_of)
        known = [*self._series, *wholes]
        if unknown := set(by_name) - set(known):
            raise ValueError(f"max_error names {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        allowed = {}
        for name in self._series if isinstance(max_error, Mapping) else self._chosen_by:
            of = self._series[name].said.complex_of
            error = by_name.get(name) if isinstance(max_error, Mapping) else max_error
            if of and error is None:
                error = by_name.get(of)
            if error is not None:
                is_part = of and not (isinstance(max_error, Mapping) and name in by_name)
                allowed[name] = error / 2 ** 0.5 if is_part else error
        return allowed

    def root(self) -> xr.Dataset:
        """The attributes of the dataset at all levels."""
        root = xr.Dataset(attrs=self._native.attributes)
        root.encoding["created_by"] = self._native.created_by
        return root

    def dataset_at(self, level: int, *, is_indexed: bool = False) -> xr.Dataset:
        """Lazy arrays at a level. xarray itself makes the indices of what it opens."""
        moments = self._moments if self._has_steps else _Moments(self._native, self._published)
        coords: dict[str, Any] = dict(moments.coords(self._decoding) if self._has_steps else
                                      moments.coords_of_one(self._decoding))
        shown = {name: series for name, series in self._series.items() if series.has_level(level)}
        for series in shown.values():
            grid = series.grid
            for axis, name in enumerate(grid.dim_names):
                if grid.has_axis[axis] and not grid.unplaced[axis] and name not in coords:
                    places = _axis(grid, axis, positions(grid, axis)[::1 << level])
                    coords[name] = self._decoding.decode_at_once(name, places)
        variables = {name: self._variable(series, level) for name, series in shown.items()}
        coords |= {name: variables.pop(name) for name, series in shown.items() if series.said.coordinate}
        variables = self._with_complex(variables)
        coords |= self._texts(variables, coords, level)
        root = self.root()
        at = xr.Dataset(variables, coords if is_indexed else xr.Coordinates(coords, indexes={}),
                        ({"level": level} if level else {}) | root.attrs)
        at.encoding = root.encoding
        return at

    def _with_complex(self, variables: dict[str, xr.Variable]) -> dict[str, xr.Variable]:
        """Two fields that hold the parts of complex samples are one variable, in the place of the first."""
        parts: dict[str, dict[bool, xr.Variable]] = {}
        for name, variable in variables.items():
            said = self._series[name].said
            parts.setdefault(said.complex_of, {})[said.is_imaginary] = variable
        whole: dict[str, xr.Variable] = {}
        for name, variable in variables.items():
            of = self._series[name].said.complex_of
            if not of or len(parts[of]) < 2:
                whole[name] = variable
            elif of not in whole:
                whole[of] = self._joined(parts[of][False], parts[of][True], self._series[name].said.attributes)
        return whole

    @staticmethod
    def _joined(real: xr.Variable, imaginary: xr.Variable, said: Mapping[str, Any]) -> xr.Variable:
        """Complex samples. Their error is at most that of both parts together.

        Args:
            said: attributes of the source
        """
        array = ComplexArray(real._data, imaginary._data)
        attrs = dict(real.attrs)
        errors = [part.attrs.get("max_error", 0) for part in (real, imaginary)]
        if any(errors) and "max_error" not in said:
            attrs["max_error"] = float(np.hypot(*errors))
        encoding = {key: value for key, value in real.encoding.items() if key not in ("dtype", "_FillValue")}
        return xr.Variable(real.dims, indexing.LazilyIndexedArray(array), attrs, encoding)

    def _texts(self, variables: Mapping[str, xr.Variable], coords: Mapping[str, Any], level: int
               ) -> dict[str, xr.Variable]:
        """Coordinates of text along the dimensions that are shown."""
        dims = {dim for variable in [*variables.values(), *coords.values()] for dim in variable.dims}
        texts = {}
        for text in self._native.texts:
            if not text.dim:
                texts[text.name] = xr.Variable((), text.texts[0], text.attributes)
            elif text.dim in dims:
                texts[text.name] = xr.Variable((text.dim,), array_of(text.texts[::1 << level]), text.attributes)
        return texts

    def _variable(self, series: _Series, level: int) -> xr.Variable:
        said, grid = series.said, series.grid
        own = min(level, grid.levels - 1)
        # Level l has every 2^l-th sample: of those of a finer one, some are left out.
        stride = 1 << (level - own)
        stored = np.dtype(said.dtype)
        attrs = self._attributes(series, own)
        # xarray decodes numbers of dates with all their digits.
        is_raw = stored.kind in "iu" and self._decoding.concerns(attrs)
        array = LevelArray(self._dataset, said.name, own, series.layer, series.numbers, series.held,
                           grid.shape, grid.patch, stored, self._type(series, is_raw), said.fill,
                           self._decode and not is_raw)
        # An axis that the grid lacks has one sample, and is no dimension, as that of the steps of what stands still.
        has = (not said.still, *grid.has_axis)
        strides = (1, *(stride,) * 3)
        dims = (*(() if said.still else (self._moments.dim,)), *_dims(grid))
        chunk = (-(-length // step) for length, step in zip(array.chunk(), strides, strict=True))
        key = indexing.BasicIndexer(tuple(slice(None, None, step) if one else 0
                                          for one, step in zip(has, strides, strict=True)))
        encoding: dict[str, Any] = {
            "preferred_chunks": dict(zip(dims, itertools.compress(chunk, has), strict=True)), "coder": said.coder,
            "lossless": said.lossless and series.layer == said.layers - 1,
            "tolerance": max((step.tolerance_of(series.layer) for step in series.records), default=0.0)}
        if said.fill is not None:
            # As if xarray had decoded it: what is written again has the same type and fill value.
            (encoding if self._decode and not is_raw else attrs)["_FillValue"] = stored.type(said.fill)
            encoding["dtype"] = stored
        variable = xr.Variable(dims, indexing.LazilyIndexedArray(array, key), attrs, encoding)
        return self._decoding.decode(said.name, variable)

    def _attributes(self, series: _Series, own: int) -> dict[str, Any]:
        absent = np.count_nonzero(~series.held)
        comment = f"missing in {absent} of {len(series.held)} steps, which do not hold it" if absent else ""
        if series.said.coordinate or not series.errors.size:  # a coordinate is exact where samples are shown
            return _attributes(series.said, 0, 0, comment=comment)
        return _attributes(series.said, own, float(series.errors[series.layer, own]),
                           float(series.coverages[series.layer, own]), comment, series.layer)

    def _type(self, series: _Series, is_raw: bool) -> np.dtype[Any]:
        """Type of the array."""
        said, stored = series.said, np.dtype(series.said.dtype)
        if stored.kind == "f" or (said.fill is None and series.held.all()) or (said.fill is not None and is_raw):
            return stored
        if self._decode:
            return floating(stored)
        if said.fill is not None:
            return stored
        without = series.numbers[~series.held].tolist()
        others = " and others" if without[10:] else ""
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}{others}, and has no fill value that "
                         "could stand there; leave out mask_and_scale=False, or those steps, "
                         f"or say drop_variables=[{said.name!r}]")


def _chosen(dataset: Dataset, published: Sequence[_quarry.Step], numbers: Iterable[int]) -> list[_quarry.Step]:
    known = {step.step: step for step in published}
    wanted = sorted({int(number) for number in numbers})
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


def _checked(level: int, levels: int) -> int:
    if not 0 <= level < levels:
        raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to {levels - 1}")
    return int(level)
