"""Lazy arrays of xarray: the fields and steps of a dataset at a level."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from quarry import _quarry
from quarry._arrays import floating, texts_along
from quarry._choice import choose, shows_level, steps_numbered, worst_of
from quarry._errors import Error
from quarry._grids import positions
from quarry._level_array import ComplexArray, LevelArray
from quarry._protocols import Dataset, Field
from quarry._roles import helpers_of
from quarry._xarray_coords import Decoding, Moments, axis_variable, dims_of, moving

if TYPE_CHECKING:
    import numpy.typing as npt


def field_to_xarray(source: Field, *, level: int | None = None, max_error: float | None = None,
                    layer: int | None = None, steps: Iterable[int] | None = None) -> xr.DataArray:
    """See Field.to_xarray."""
    beside = [said.name for said in source.dataset.native.fields if said.coordinate and said.name != source.name]
    view = View(source.dataset, [source.name, *beside], steps, True, Decoding())
    view.look_at(source.name)
    at = view.dataset_at(view.choose(level, max_error, layer), is_indexed=True)
    if source.name not in at.variables:
        raise Error("NOT_FOUND", f"{source.name!r} is in none of the steps {view.numbers.tolist()}")
    return at[source.name]


def attributes_of(said: _quarry.FieldDescription, level: int, max_error: float, coverage: float = 1,
                comment: str = "", layer: int | None = None) -> dict[str, Any]:
    """Attributes of the source, and a note where the shown samples differ from it."""
    facts = {"level": level or None, "layer": layer if layer not in (None, said.layers - 1) else None,
             "max_error": max_error or None, "coverage": coverage if coverage < 1 else None, "comment": comment or None,
             "units": said.units or None}
    return {name: value for name, value in facts.items() if value is not None} | said.attributes


@dataclass
class _Series:
    """Records of the steps about a field.

    Attributes:
        numbers: of the steps along its axis; of a field that stands still, the one that has it
        held: which of them hold it
        records: of the steps that hold it
        layer: of accuracy, that is shown
        worst: error and coverage of each level of this layer; empty if no step holds it
    """

    said: _quarry.FieldDescription
    grid: _quarry.FieldGrid
    numbers: npt.NDArray[np.int64]
    held: npt.NDArray[np.bool_]
    records: list[_quarry.FieldStep]
    layer: int = 0
    worst: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def of(cls, said: _quarry.FieldDescription, grid: _quarry.FieldGrid, steps: Sequence[_quarry.Step]) -> _Series:
        """In these steps."""
        numbers = np.array([step.step for step in steps], dtype=np.int64)
        records = [step.field(said.name) for step in steps]
        return cls(said, grid, numbers, np.array([one is not None for one in records], bool), [*filter(None, records)])

    def show(self, layer: int) -> None:
        """Chooses the layer."""
        self.layer, self.worst = layer, worst_of(self.records, layer)


class View:
    """The fields and steps that somebody wants of a dataset. The steps are looked through once for all levels."""

    def __init__(self, dataset: Dataset, names: Sequence[str], steps: Iterable[int] | None, decode: bool,
                 decoding: Decoding) -> None:
        self._dataset, self._native, self._decode, self._decoding = dataset, dataset.native, decode, decoding
        published = dataset._steps()
        chosen = moving(self._native, published) if steps is None else steps_numbered(dataset, steps)
        self._moments = Moments(self._native, chosen)
        self.numbers = self._moments.numbers
        self._published = published
        said = {said.name: said for said in self._native.fields}
        self._has_steps = not said or not all(one.still for one in said.values())
        self._series = {}
        for name in names:
            still = said[name].still
            holding = (step for step in published if step.field(name) is not None)
            place = [*itertools.islice(holding, 1)] if still else chosen
            series = _Series.of(said[name], dataset.grids[said[name].grid], place)
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
        return [name for name, series in self._series.items() if not shows_level(series.grid, series.said, level)]

    def choose(self, level: int | None, max_error: float | Mapping[str, float] | None, layer: int | None) -> int:
        """The level that is meant, and sets the layer of each field."""
        choice = choose(self._dataset, self._series, self._chosen_by, lambda name: self._series[name].records,
                        level=level, layer=layer, max_error=None if max_error is None else self._allowed(max_error))
        for name, layer_of_field in choice.layers.items():
            self._series[name].show(layer_of_field)
        return choice.level

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
        moments = self._moments if self._has_steps else Moments(self._native, self._published)
        coords: dict[str, Any] = dict(moments.coords(self._decoding) if self._has_steps else
                                      moments.coords_of_one(self._decoding))
        shown = {name: series for name, series in self._series.items() if shows_level(series.grid, series.said, level)}
        for series in shown.values():
            grid = series.grid
            for axis, name in enumerate(grid.dim_names):
                if grid.has_axis[axis] and not grid.unplaced[axis] and name not in coords:
                    places = axis_variable(grid, axis, positions(grid, axis)[::1 << level])
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
        places = {dim: slice(None, None, 1 << level)
                  for variable in [*variables.values(), *coords.values()] for dim in variable.dims}
        return {name: xr.Variable(dims, values, attrs)
                for name, dims, values, attrs in texts_along(self._native.texts, places)}

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
        dims = (*(() if said.still else (self._moments.dim,)), *dims_of(grid))
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
        if series.said.coordinate or not series.worst:  # a coordinate is exact where samples are shown
            return attributes_of(series.said, 0, 0, comment=comment)
        return attributes_of(series.said, own, *series.worst[own], comment, series.layer)

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
