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
from quarry._level_array import LevelArray
from quarry._samples import Samples, floating, positions, with_nan

if TYPE_CHECKING:
    import numpy.typing as npt

class QuarryBackendEntrypoint(BackendEntrypoint):
    """The engine "quarry" of xarray."""

    description: ClassVar[str] = "Quarry datasets (.quarry) in a directory or behind grpc:// and grpcs://"
    url: ClassVar[str] = "https://pypi.org/project/quarry-data"
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[Any, ...] | None] = (
        "filename_or_obj", "drop_variables", "mask_and_scale", "decode_times", "decode_timedelta", "level", "max_error",
        "steps", "token", "ca", "certificate", "key", "threads", "memory", "timeout", "retries", "encoding")

    def open_dataset(  # type: ignore[override]  # it has options of its own
            self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None,
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool = False,
            level: int | None = None, max_error: float | Mapping[str, float] | None = None,
            steps: Iterable[int] | None = None, token: str = "", ca: str = "", certificate: str = "", key: str = "",
            threads: int = 0, memory: int = 0, timeout: float = 0, retries: int = 5,
            encoding: Literal["auto", "samples", "patches"] = "auto") -> xr.Dataset:
        """Opens a dataset at one level; reads no samples.

        Args:
            filename_or_obj: a directory, or "grpc://HOST:PORT/NAME", or the same with "grpcs://" for TLS
            drop_variables: fields that are left out
            mask_and_scale: missing samples are NaN, integers with a fill value floats; False: all are as stored
            decode_times: times with a reference date are datetime64, or cftime where their calendar needs it
            decode_timedelta: times without one, as "hours", are timedelta64
            level: 0, full resolution, if nothing else says which
            max_error: instead of a level: the coarsest at which every field and step is within this error, in the
                field's unit; or {field: error}, where fields have different units
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
            chosen = view.choose(level, max_error)
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
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool = False,
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
        root = xr.Dataset(attrs=view.attributes())
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
                    steps: Iterable[int] | None = None) -> xr.DataArray:
    """See Field.to_xarray."""
    view = _View(source.dataset, [source.name], steps, True, _Decoding())
    at = view.dataset_at(view.choose(level, max_error))
    if source.name not in at:
        raise Error("NOT_FOUND", f"{source.name!r} is in none of the steps {view.numbers.tolist()}")
    return at[source.name]


def samples_to_xarray(samples: Samples) -> xr.DataArray:
    """See Samples.to_xarray."""
    grid, said = samples._grid, samples._field._description
    step = samples._field.dims[0]
    coords: dict[str, Any] = {
        name: _axis(grid, axis, values) for axis, (name, values) in enumerate(samples.coords.items())
        if grid.has_axis[axis]}
    coords[step] = ((), np.int64(samples.step), {"long_name": "number of the step"})
    attrs = {"long_name": said.name, "units": said.units or None, "coder": said.coder, "level": samples.level,
             "max_error": samples.max_error}
    array = with_nan(samples.array)[tuple(slice(None) if has else 0 for has in grid.has_axis)]
    return xr.DataArray(array, coords, _dims(grid), samples.field, _known(attrs))


def _open(target: Any, **options: Any) -> Dataset:
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"the engine \"quarry\" opens folders and servers, by a text or a path, not {type(target)}")
    name = _dataset.located(target)
    # Workers may have other working directories.
    return _dataset.open(name if _dataset.is_server(name) else os.path.abspath(name), **options)


def _left(dataset: Dataset, drop: str | Iterable[str] | None) -> list[str]:
    """Names of the fields that are not dropped."""
    dropped = {drop} if isinstance(drop, str) else set(drop or ())
    return [name for name in dataset if name not in dropped]


def _known(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if value is not None}


# ---- What is where

def _dims(grid: _quarry.FieldGrid) -> tuple[str, ...]:
    """Names of the axes that a grid has, z first."""
    return tuple(name for name, has in zip(grid.dim_names, grid.has_axis, strict=True) if has)


def _has_level(grid: _quarry.FieldGrid, level: int) -> bool:
    """A single sample is that of every level."""
    return level < grid.levels or grid.shape == (1, 1, 1)


def _axis(grid: _quarry.FieldGrid, axis: int, values: npt.NDArray[np.float64]) -> xr.Variable:
    name = grid.dim_names[axis]
    attrs = {"long_name": grid.axis_names[axis] or name, "units": grid.axis_units[axis] or None, "axis": "ZYX"[axis]}
    return xr.Variable((name,), values, _known(attrs))


@dataclass
class _Decoding:
    """What becomes of times, as in xarray.open_dataset."""

    dates: bool = True
    lengths: bool = False

    def decode(self, name: str, variable: xr.Variable) -> xr.Variable:
        """Numbers stay numbers, with their unit, where it or its calendar is not known to xarray."""
        units = str(variable.attrs.get("units", ""))
        if not (self.dates if " since " in units else self.lengths):
            return variable
        try:
            decoded = xr.conventions.decode_cf_variable(name, variable, decode_times=self.dates,
                                                        decode_timedelta=self.lengths)
            values = np.array(decoded.values)
            if values.dtype.kind == "O":  # cftime takes NaN for the reference date
                values[np.isnan(variable.values)] = np.nan
            return xr.Variable(decoded.dims, values, decoded.attrs, decoded.encoding)
        except (ValueError, OverflowError) as error:
            warnings.warn(f"the times stay numbers, in {units!r}: {error}", stacklevel=4)
            return variable


@dataclass
class _Series:
    """What the steps say about a field.

    Attributes:
        held: which steps hold it
        missing: and which of these have missing samples
        tolerance: the largest
        errors, coverages: of each level, the worst; empty if no step holds it
    """

    said: _quarry.FieldDescription
    grid: _quarry.FieldGrid
    held: npt.NDArray[np.bool_]
    missing: npt.NDArray[np.bool_]
    tolerance: float = 0
    errors: list[float] = field(default_factory=list)
    coverages: list[float] = field(default_factory=list)

    def add(self, position: int, step: _quarry.FieldStep) -> None:
        records = step.levels
        errors, coverages = [record.max_error for record in records], [record.coverage for record in records]
        if self.errors:
            errors, coverages = list(map(max, self.errors, errors)), list(map(min, self.coverages, coverages))
        self.errors, self.coverages = errors, coverages
        self.tolerance = max(self.tolerance, step.tolerance)
        self.held[position] = True
        self.missing[position] = step.has_missing


class _View:
    """The fields and steps that somebody wants of a dataset. The steps are looked through once for all levels."""

    def __init__(self, dataset: Dataset, names: Sequence[str], steps: Iterable[int] | None, decode: bool,
                 decoding: _Decoding) -> None:
        self._dataset, self._native, self._decode, self._decoding = dataset, dataset.native, decode, decoding
        chosen = _chosen(dataset, steps)
        self.numbers = np.array([step.step for step in chosen], dtype=np.int64)
        self._times = [step.time for step in chosen]
        said = {said.name: said for said in self._native.fields}
        self._series = {name: _Series(said[name], dataset.grids[said[name].grid], np.zeros(len(chosen), bool),
                                      np.zeros(len(chosen), bool)) for name in names}
        for position, step in enumerate(chosen):
            for of_field in step.fields:
                if series := self._series.get(of_field.name):
                    series.add(position, of_field)
        # What is in none of the steps is no part of them.
        self._series = {name: series for name, series in self._series.items() if series.held.any() or not chosen}
        self._step, self._time = self._native.step_names
        self.levels = max((series.grid.levels for series in self._series.values()), default=1)
        """Of the field that has the most."""

    def without(self, level: int) -> list[str]:
        """The fields whose grid has no such level."""
        return [name for name, series in self._series.items() if not _has_level(series.grid, level)]

    def choose(self, level: int | None, max_error: float | Mapping[str, float] | None) -> int:
        """The level that is meant. For a max_error, the one that a plan of the whole grid would choose for the worst
        field and step: the records of the steps are the worst of their patches, and asking a server once is enough."""
        if max_error is None:
            return _checked(level or 0, self.levels)
        if level is not None:
            raise ValueError("only one of level and max_error can be given")
        allowed = dict(max_error) if isinstance(max_error, Mapping) else dict.fromkeys(self._series, max_error)
        if unknown := set(allowed) - set(self._series):
            raise ValueError(f"max_error names {', '.join(sorted(unknown))}; there are {', '.join(self._series)}")
        levels = min((self._series[name].grid.levels for name in allowed), default=1)
        for candidate in reversed(range(levels)):
            if all(self._keeps(self._series[name], candidate, float(error)) for name, error in allowed.items()):
                return candidate
        least = {name: self._series[name].errors[0] for name in allowed}
        raise Error("NOT_FOUND", f"no level of \"{self._dataset.target}\" keeps an error of {max_error}: level 0, the "
                    f"finest, has {least}; ask for an error of at least that, or for level 0")

    @staticmethod
    def _keeps(series: _Series, level: int, error: float) -> bool:
        if not error >= 0:
            raise ValueError(f"max_error {error} of {series.said.name} is not a number from 0 on")
        return not series.errors or (series.errors[level] <= error and series.coverages[level] >= 1)

    def attributes(self) -> dict[str, Any]:
        return _known({"Conventions": "CF-1.11", "source": self._native.created_by or None})

    def dataset_at(self, level: int) -> xr.Dataset:
        """Lazy arrays at a level."""
        coords: dict[str, Any] = {self._step: xr.Variable(
            (self._step,), self.numbers, {"long_name": "number of the step"})}
        if any(time is not None for time in self._times):
            times = np.array([np.nan if time is None else time for time in self._times])
            encoded = xr.Variable((self._step,), times, dict(self._native.time_attributes))
            coords[self._time] = self._decoding.decode(self._time, encoded)
        shown = {name: series for name, series in self._series.items() if _has_level(series.grid, level)}
        for series in shown.values():
            for axis, name in enumerate(series.grid.dim_names):
                if series.grid.has_axis[axis] and name not in coords:
                    coords[name] = _axis(series.grid, axis, positions(series.grid, axis)[::1 << level])
        variables = {name: self._variable(series, level) for name, series in shown.items()}
        return xr.Dataset(variables, xr.Coordinates(coords, indexes={}), {**self.attributes(), "level": level})

    def _variable(self, series: _Series, level: int) -> xr.Variable:
        said, grid = series.said, series.grid
        level = min(level, grid.levels - 1)
        stored = np.dtype(said.dtype)
        array = LevelArray(self._dataset, said.name, level, self.numbers, series.held, series.missing,
                           grid.shape, grid.patch, stored, self._type(series), said.fill, self._decode)
        # An axis that the grid lacks has one sample, and is no dimension.
        has = (True, *grid.has_axis)
        dims, chunk = (self._step, *_dims(grid)), tuple(itertools.compress(array.chunk(), has))
        key = indexing.BasicIndexer(tuple(slice(None) if one else 0 for one in has))
        attrs: dict[str, Any] = {
            "long_name": said.name, "units": said.units or None, "coder": said.coder,
            "lossless": 1 if said.lossless else None, "level": level}
        if series.errors:
            attrs |= {"max_error": series.errors[level], "tolerance": series.tolerance,
                      "coverage": series.coverages[level]}
        if not series.held.all():
            absent = np.count_nonzero(~series.held)
            attrs["comment"] = f"missing in {absent} of {len(series.held)} steps, which do not hold it"
        encoding: dict[str, Any] = {"preferred_chunks": dict(zip(dims, chunk, strict=True))}
        if said.fill is not None:
            # As if xarray had decoded it: what is written again has the same type and fill value.
            (encoding if self._decode else attrs)["_FillValue"] = stored.type(said.fill)
            encoding["dtype"] = stored
        return xr.Variable(dims, indexing.LazilyIndexedArray(array, key), _known(attrs), encoding)

    def _type(self, series: _Series) -> np.dtype[Any]:
        """Of the array."""
        said, stored = series.said, np.dtype(series.said.dtype)
        if stored.kind == "f" or (said.fill is None and series.held.all()):
            return stored
        if self._decode:
            return floating(stored)
        if said.fill is not None:
            return stored
        without = self.numbers[~series.held].tolist()
        others = " and others" if without[10:] else ""
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}{others}, and has no fill value that "
                         "could stand there; leave out mask_and_scale=False, or those steps, "
                         f"or say drop_variables=[{said.name!r}]")


def _chosen(dataset: Dataset, numbers: Iterable[int] | None) -> list[_quarry.Step]:
    steps = dataset.native.steps()
    if numbers is None:
        return steps
    known = {step.step: step for step in steps}
    wanted = sorted({int(number) for number in numbers})
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


def _checked(level: int, levels: int) -> int:
    if not 0 <= level < levels:
        raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to {levels - 1}")
    return int(level)
