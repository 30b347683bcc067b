"""Data that a user gives to be written: fields of arrays, of labelled arrays and of whole datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quarry import _moments, _quarry
from quarry._dataset import Dataset
from quarry._field import Field
from quarry._labelled import Labelled, Role
from quarry._members import Members, members_of
from quarry._sources import Axis, ComplexPart, Moments, Source, Text, is_complex, kept
from quarry._times import Times

Selection = Mapping[str, "int | slice"]


@dataclass
class Given:
    """Fields, and the metadata that they share.

    Attributes:
        attributes: of the dataset
        has_series: whether some have an axis of steps
        texts: coordinates of text; of those along an axis, the field that has it and its place, 0 to 2 for z, y, x
    """

    sources: list[Source]
    attributes: _quarry.Attributes
    has_series: bool
    texts: list[tuple[Text, tuple[int, int] | None]]

    @property
    def has_moment(self) -> bool:
        """Whether it is said of all of them when they are."""
        moments = [source.moments for source in self.sources]
        return not self.has_series and any(one.times is not None or one.numbers is not None for one in moments)


def given(data: Any, name: str | None, select: Selection | None, said: list[str]) -> Given:
    """The fields in the user's data. Coordinates come last, and fields that describe others before them: no grid has
    more levels than the first.

    Args:
        select: indices along dimensions that are no axes of a grid; a slice makes a field of each
        said: gets a sentence for all that is not kept

    Raises:
        ValueError: there is none, or a name for several
        TypeError: no array
    """
    members, is_named = _members(data, name, select, said)
    if name is not None and is_named:
        count = len(members.fields) + len(members.helpers)
        raise ValueError(f"field={name!r} names one field, and {count} were given by their names; leave it out")
    gathering = _Gathering(data, members, select or {}, said)
    sources = gathering.sources()
    if not sources:
        raise ValueError(": ".join(["there is no field to write", *said]))
    return Given(sources, kept(_whole(data), "the Dataset", said), gathering.has_series,
                 _texts_of(data, said) if isinstance(data, Dataset) else gathering.texts(sources))


def _texts_of(data: Dataset, said: list[str]) -> list[tuple[Text, tuple[int, int] | None]]:
    """The text coordinates of another dataset, along axes of its fields."""
    fields = list(data.values())
    found: list[tuple[Text, tuple[int, int] | None]] = []
    for one in data.native.texts:
        text = Text(one.name, one.dim or None, one.texts, kept(one.attributes, one.name, said))
        first = next((place for place, field in enumerate(fields) if field._description.grid == one.grid), None)
        if one.axis is None:
            found.append((text, None))
        elif first is not None:
            found.append((text, (first, one.axis)))
    return found


def _whole(data: Any) -> Mapping[Any, Any]:
    """Attributes of all that is handed over."""
    if _is_xarray(data, "Dataset"):
        return dict(data.attrs)
    return data.native.attributes if isinstance(data, Dataset) else {}


def _members(data: Any, name: str | None, select: Selection | None, said: list[str]) -> tuple[Members, bool]:
    """The arrays, and whether their names were given with them."""
    if _is_xarray(data, "Dataset"):
        return members_of(data, select or (), said), True
    if isinstance(data, Mapping) and not isinstance(data, Field):
        return Members({str(key): array for key, array in data.items()}), True
    if select and not _is_xarray(data, "DataArray"):
        raise TypeError(f"select={dict(select)} names dimensions, and {type(data).__name__} has none; index the array "
                        "itself, or give an xarray.DataArray")
    own = data.name if isinstance(data, Field) or _is_xarray(data, "DataArray") else None
    return Members({str(name or own or "data"): data}), False


class _Gathering:
    """Makes fields of arrays. Those of xarray know each other: one says for all which dimension brings the steps."""

    def __init__(self, data: Any, members: Members, select: Selection, said: list[str]) -> None:
        self._members, self._said = members, said
        arrays = members.fields
        self._selected = list(_selected(arrays, select)) if select else [(key, key, one) for key, one in arrays.items()]
        if _is_xarray(data, "Dataset"):
            shared = Labelled(data, "the Dataset", select, said)
            self._labels = dict.fromkeys([*arrays, *members.helpers], shared)
            self._holders = [shared]
        else:
            self._labels = {key: Labelled(one, key, select, said) for key, one in arrays.items()
                            if _is_xarray(one, "DataArray")}
            self._holders = list(self._labels.values())
        self._steps = _moments.step_axes({name: array for key, name, array in self._selected if key in self._labels})
        self._dims = set(self._steps.values()) - {None}
        self.has_series = bool(self._dims) or any(_is_series(array) for _, _, array in self._selected)

    def sources(self) -> list[Source]:
        """All fields, in the order in which they are written."""
        fields = [source for key, name, array in self._selected for source in self._fields(key, name, array)]
        # A single value has one level.
        fields.sort(key=lambda source: (source.exact, not any(source.has_axis)))
        helpers = [found for name, array in self._members.helpers.items() if (found := self._helper(name, array))]
        taken: dict[str, Any] = {name: array if hasattr(array, "variable") else None
                                 for _, name, array in self._selected}
        taken |= self._members.helpers
        coordinates = []
        for labels in self._holders:
            for name, array, source in labels.coordinates(self._dims, taken):
                taken[name] = array
                coordinates.append(source)
        return [*fields, *helpers, *coordinates]

    def texts(self, sources: list[Source]) -> list[tuple[Text, tuple[int, int] | None]]:
        """Coordinates of text, once all fields are made. What lies along no axis of a field is said."""
        found: dict[str, tuple[Text, tuple[int, int] | None]] = {}
        for text in (text for labels in self._holders for text in labels.texts):
            along = _axis_called(text.dim, sources)
            if text.name in found:
                if found[text.name][0].texts != text.texts:
                    self._said.append(f"two arrays have other texts of the coordinate {text.name}; the first is kept")
            elif text.dim is None or along is not None:
                found[text.name] = (text, along)
            else:
                self._said.append(f"the coordinate {text.name} is not kept: it holds text along {text.dim}, which is "
                                  "no axis of a field")
        return list(found.values())

    def _fields(self, key: str, name: str, array: Any) -> list[Source]:
        """One field; of complex samples two."""
        if not is_complex(array):
            return [self._field(key, name, array, None)]
        return [self._field(key, _quarry.complex_field_name(name, imaginary), array, (name, imaginary))
                for imaginary in (False, True)]

    def _field(self, key: str, name: str, array: Any, part: tuple[str, bool] | None) -> Source:
        if isinstance(array, Field):
            return _of_field(name, array, self._said)
        if key not in self._labels:
            return _of_array(name, array, part)
        labels, steps = self._labels[key], self._steps[name if part is None else part[0]]
        moments = Moments()
        if steps is not None or not self.has_series:
            moments = _moments.moments_of(array, steps, labels.used, self._said)
        return labels.source(name, array, steps, moments=moments, part=part)

    def _helper(self, name: str, array: Any) -> Source | None:
        steps = _moments.along(array, self._dims)
        role: Role = "coordinate" if name in self._members.coordinates else "helper"
        try:
            return self._labels[name].source(name, array, steps, role=role, moves=name in self._members.of_moments)
        except (ValueError, TypeError) as error:
            self._said.append(f"of the Dataset, {name} is left out: {error}")
            return None


def _selected(members: Mapping[str, Any], select: Selection) -> Iterator[tuple[str, str, Any]]:
    """The fields that a selection makes of each array, with its name: "temp_member0", "temp_member1" of a slice.

    Raises:
        ValueError: no array has such a dimension, or such an index
    """
    for dim, index in select.items():
        sizes = {array.sizes[dim] for array in members.values() if dim in array.dims}
        if not sizes:
            raise ValueError(f"select names the dimension {dim!r}, and no field has it")
        if not isinstance(index, slice) and not 0 <= index < min(sizes):
            raise ValueError(f"select[{dim!r}]={index} is not from 0 to {min(sizes) - 1}")
    for key, array in members.items():
        chosen = [(key, array)]
        for dim, index in select.items():
            if dim not in array.dims:
                continue
            if isinstance(index, slice):
                chosen = [(f"{name}_{dim}{k}", one.isel({dim: k})) for name, one in chosen
                          for k in range(*index.indices(one.sizes[dim]))]
            else:
                chosen = [(name, one.isel({dim: index})) for name, one in chosen]
        yield from ((key, name, one) for name, one in chosen)


def _is_xarray(data: Any, name: str) -> bool:
    """Without loading it: who has one of its objects has loaded it."""
    return type(data).__module__.startswith("xarray.") and any(base.__name__ == name for base in type(data).__mro__)


def _is_series(array: Any) -> bool:
    """Whether an array without names has an axis of steps."""
    if isinstance(array, Field):
        return not array._description.still
    return not _is_xarray(array, "DataArray") and len(getattr(array, "shape", ())) == 4


def _axis_called(dim: str | None, sources: list[Source]) -> tuple[int, int] | None:
    """The first field with an axis of this name, and the place of the axis."""
    for number, source in enumerate(sources):
        for place, (axis, has) in enumerate(zip(source.axes, source.has_axis, strict=True)):
            if has and source.has_names and axis.name == dim:
                return number, place
    return None


def _of_array(name: str, array: Any, part: tuple[str, bool] | None) -> Source:
    import numpy as np
    if not (hasattr(array, "shape") and hasattr(array, "dtype")):
        array = np.asarray(array)
    given = array if part is None else ComplexPart(array, part[1])
    return Source(name, given, has_steps=len(array.shape) == 4, complex=part)


def _of_field(name: str, data: Field, said: list[str]) -> Source:
    """A field of Quarry, with all that its dataset says of it."""
    native, described = data.dataset.native, data._description
    times = dict(zip(data.dataset.steps, data.dataset.times, strict=True))
    found = Times(tuple(times[step] for step in data.steps), native.time_units, native.calendar)
    moments = Moments(data.steps, found, native.time_name, kept(native.kept_time_attributes, "the time", said))
    return Source(name, data, has_steps=True, units=data.units, fill=described.fill,
                  axes=_axes_of_grid(data.grid, said), has_axis=data.grid.has_axis,
                  attributes=kept(described.attributes, name, said), moments=moments, still=described.still,
                  coordinate=described.coordinate, moves=not described.coordinate,
                  complex=(described.complex_of, described.is_imaginary) if described.complex_of else None)


def _axes_of_grid(grid: _quarry.FieldGrid, said: list[str]) -> list[Axis]:
    said_of = zip(grid.axis_names, grid.axis_units, grid.origin, grid.spacing, grid.coordinates, grid.unplaced,
                  grid.position_dtypes, grid.axis_attributes, strict=True)
    return [Axis(name, units, origin, spacing, list(coordinates), not unplaced, dtype, kept(attributes, name, said))
            for name, units, origin, spacing, coordinates, unplaced, dtype, attributes in said_of]
