"""Fields from arrays of xarray: what their dimensions, coordinates and attributes say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from quarry import _moments, _quarry, _times
from quarry._sources import Axis, ComplexPart, Moments, Source, Text, exactly, holds_exactly, is_complex, kept

_PACKING = ("scale_factor", "add_offset")
_VALID = ("valid_range", "valid_min", "valid_max")

Role = Literal["field", "helper", "coordinate"]
"""A helper describes other fields, as bounds of cells do, and is no coordinate for xarray."""


class Labelled:
    """A Dataset or a DataArray of xarray, whose arrays share dimensions and coordinates.

    Attributes:
        used: names of the coordinates that have a place of their own: positions of axes, times and numbers of steps
        texts: coordinates of text, once `coordinates` has been through
    """

    def __init__(self, data: Any, name: str, selected: Collection[str], said: list[str]) -> None:
        """Takes the name for messages, and the dimensions along which an index is chosen."""
        self._data, self._name, self._selected, self._said = data, name, selected, said
        self._axes: dict[Any, Axis] = {}
        self.texts: list[Text] = []
        # An array that is a coordinate has itself among its own.
        self.used: set[Any] = set() if hasattr(type(data), "data_vars") else {data.name}

    def source(self, name: str, data: Any, steps: Any, *, role: Role = "field", moments: Moments | None = None,
               moves: bool = True, part: tuple[str, bool] | None = None) -> Source:
        """The field that an array of it is.

        Args:
            steps: the dimension that brings the steps, or None
            part: the name of complex samples, and whether the field holds their imaginary parts

        Raises:
            ValueError, TypeError: it cannot be one
        """
        data = data.rename(name) if data.name != name else data
        if steps is not None:
            data = data.transpose(steps, ...)
        data = self._without_singles(data, steps)
        spatial = data.dims[1:] if steps is not None else data.dims
        if role == "field":
            self._check_axes(data, spatial)
        said = self._said
        is_date = _times.is_date(data)
        variable = _times.as_numbers(data.variable, name) if is_date else data.variable
        absent = [Axis(axis) for axis in "zyx"[:max(0, 3 - len(spatial))]]
        axes = absent + [self._axis(data, dim, lies_there=role != "coordinate" or dim != name) for dim in spatial]
        array = variable if part is None else ComplexPart(variable, part[1])
        source = Source(name, array, has_steps=steps is not None, units=_units_of(variable, name, said),
                        fill=_fill_of(variable), axes=axes, moments=moments, still=steps is None,
                        attributes=_attributes_of(variable, variable.attrs, name, said),
                        coordinate=role == "coordinate", exact=role == "helper" or is_date, moves=moves, complex=part)
        _say_what_is_not_applied(variable, name, said)
        return source

    def coordinates(self, dims: set[Any], taken: Mapping[str, Any]) -> Iterator[tuple[str, Any, Source]]:
        """The coordinates that have no place of their own, as fields: name, array and field.

        Args:
            dims: that bring steps
            taken: arrays that are fields already; their names are theirs
        """
        # Variables along other dimensions say which positions along these are of use.
        ordered = sorted(self._data.coords.items(), key=lambda item: item[1].dims == (item[0],))
        for name, coordinate in ordered:
            if name in self.used or name in self._selected or _is_same(taken.get(str(name)), coordinate):
                continue
            if why := self._unkept(str(name), coordinate, taken):
                self._said.append(f"{self._name}: the coordinate {name} is not kept: {why}")
            elif is_text(coordinate):
                self._take_text(str(name), coordinate, dims)
            elif found := self._coordinate(str(name), coordinate, dims):
                yield str(name), coordinate, found

    def _take_text(self, name: str, coordinate: Any, dims: set[Any]) -> None:
        """A coordinate of text is kept along one axis of a grid, or as one text."""
        texts, why = texts_of(coordinate), ""
        if set(coordinate.dims) & dims:
            why = "text along the steps has no place in a dataset"
        elif coordinate.ndim > 1:
            why = f"it holds text along {', '.join(map(str, coordinate.dims))}; text lies along one axis"
        elif texts is None:
            why = "not all of it is text"
        elif coordinate.dims != (name,) and not _quarry.is_dimension_name(name):
            why = "files of other formats cannot have this name; rename it"
        if why or texts is None:
            self._said.append(f"{self._name}: the coordinate {name} is not kept: {why}")
            return
        if coordinate.dtype.kind == "S" or any(isinstance(one, bytes) for one in coordinate.values.flat):
            self._said.append(f"{self._name}: the coordinate {name} holds bytes, which are kept as text")
        dim = str(coordinate.dims[0]) if coordinate.dims else None
        self.texts.append(Text(name, dim, texts, kept(coordinate.attrs, name, self._said)))

    def _coordinate(self, name: str, coordinate: Any, dims: set[Any]) -> Source | None:
        steps = _moments.along(coordinate, dims)
        try:
            # A scalar coordinate has one value, that of its moment.
            return self.source(name, coordinate, steps, role="coordinate", moves=not coordinate.ndim)
        except (ValueError, TypeError) as error:
            self._said.append(f"{self._name}: the coordinate {name} is not kept: {error}")
            return None

    def _unkept(self, name: str, coordinate: Any, taken: Mapping[str, Any]) -> str:
        """Why a coordinate cannot be a field; empty: it may be one."""
        if set(coordinate.dims) & set(self._selected):
            return f"it lies along {', '.join(map(str, coordinate.dims))}, of which some is selected"
        if is_complex(coordinate):
            return "it is complex, and coordinates are one field each"
        if not is_text(coordinate) and not _quarry.is_field_name(name):
            return "a field cannot have this name; rename it"
        return "another field has this name; rename it" if name in taken else ""

    def _without_singles(self, data: Any, steps: Any) -> Any:
        """Drops dimensions of one sample that are not axes from an array of too many dimensions."""
        spatial = [dim for dim in data.dims if dim != steps]
        if len(spatial) <= 3:
            return data
        singles = [dim for dim in spatial if data.sizes[dim] == 1 and _quarry.is_no_axis(str(dim))]
        if singles:
            self._said.append(f"{data.name}: its dimension {', '.join(map(str, singles))} has one sample and is left "
                              "out, as a grid has three axes")
        return data.isel(dict.fromkeys(singles, 0))

    def _check_axes(self, data: Any, spatial: tuple[Any, ...]) -> None:
        """Refuses dimensions that are not axes, and warns about the one that is taken as an axis."""
        for dim in spatial:
            if data.sizes[dim] > 1 and _quarry.is_no_axis(str(dim)):
                raise ValueError(f"{data.name!r} has the dimension {dim!r}, which is no axis of a grid; choose with "
                                 f"select={{{dim!r}: 0}}, or make a field of each with select={{{dim!r}: slice(None)}}")
        if len(spatial) == 3 and data.sizes[slowest := spatial[0]] > 1 and slowest not in data.coords and (
                not _quarry.names_vertical(str(slowest))):
            self._said.append(f"{data.name}: nothing says that its dimension {slowest} is an axis of the grid; it is "
                              f"taken as z (select={{{slowest!r}: K}} chooses of it)")

    def _axis(self, data: Any, dim: Any, *, lies_there: bool) -> Axis:
        """Along a dimension, the same for all arrays.

        Args:
            lies_there: whether a coordinate with its name says where samples lie; otherwise it is they
        """
        if dim not in self._axes:
            self._axes[dim] = self._placed(data, dim) if lies_there else Axis(str(dim))
        return self._axes[dim]

    def _placed(self, data: Any, dim: Any) -> Axis:
        """An axis with the positions of the coordinate of its name, if samples can lie there."""
        import numpy as np
        if dim not in data.coords or data.coords[dim].dims != (dim,):  # `get` makes one of a dimension
            return Axis(str(dim))
        coordinate, said = data.coords[dim], self._said
        positions, units, attributes = None, _units_of(coordinate, str(dim), said), dict(coordinate.attrs)
        if _times.is_date(coordinate) and (times := _times.of_coordinate(coordinate)):  # coordinate of a row
            positions, units = np.array(times.values, np.float64), times.units
            if (np.rint(positions) == positions).all():
                positions = positions.astype(np.int64)
            attributes |= {**({"calendar": times.calendar} if times.calendar else {}), **times.words}
        elif coordinate.dtype.kind in "fiu":
            positions = coordinate.values
        why = "is not finite, or neither ascends nor descends"
        if is_text(coordinate):
            return Axis(str(dim))  # a coordinate of text lies along it
        if positions is None:
            why = f"holds {coordinate.dtype}"
        elif not holds_exactly(positions):
            positions, why = None, "holds numbers that positions, which are float64, cannot have"
        axis = None if positions is None else Axis.at(str(dim), units, positions)
        if axis is None:
            said.append(f"the coordinate {dim} {why}; its axis has no positions, and its samples lie at 0, 1, 2, ... "
                        "(origin= and spacing= place them)")
            return Axis(str(dim))
        self.used.add(dim)
        axis.attributes = _attributes_of(coordinate, attributes, str(dim), said)
        return axis


def is_text(variable: Any) -> bool:
    """Whether a variable of xarray holds texts, which it often has as objects."""
    if variable.dtype.kind != "O":
        return variable.dtype.kind in "SUT"
    return any(isinstance(value, (str, bytes)) for value in variable.values.flat)


def texts_of(variable: Any) -> list[str] | None:
    """All texts of a variable; None if some values are none."""
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in variable.values.flat]
    return [str(one) for one in texts] if all(isinstance(one, str) for one in texts) else None


def _is_same(one: Any, other: Any) -> bool:
    return one is not None and bool(one.variable.identical(other.variable))


def _units_of(variable: Any, name: str, said: list[str]) -> str:
    units = variable.attrs.get("units", "")
    if not isinstance(units, str):
        said.append(f"the units of {name}, {units!r}, are kept as text")
    return str(units)


def _fill_of(variable: Any) -> float | int | None:
    fill = None if is_complex(variable) else variable.attrs.get("_FillValue")
    if fill is None and variable.dtype.kind in "iu":
        fill = variable.encoding.get("_FillValue")
    return None if fill is None else exactly(fill)


def _attributes_of(variable: Any, attributes: Mapping[Any, Any], name: str, said: list[str]) -> _quarry.Attributes:
    """The kept attributes: none about packed numbers, which a dataset does not hold."""
    left = [key for key in _VALID if key in attributes]
    if left and any(key in variable.encoding or key in variable.attrs for key in _PACKING):
        said.append(f"{name}: its attributes {', '.join(left)} are about packed numbers, and are not kept")
        attributes = {key: value for key, value in attributes.items() if key not in left}
    return kept(attributes, name, said)


def _say_what_is_not_applied(variable: Any, name: str, said: list[str]) -> None:
    """Attributes about samples that xarray has not decoded, or never does."""
    import numpy as np
    attrs = variable.attrs
    of_complex = ("_FillValue",) if is_complex(variable) else ()
    left = [key for key in (*_PACKING, "missing_value", *of_complex) if key in attrs]
    if "missing_value" in left and np.array_equal(attrs["missing_value"], attrs.get("_FillValue")):
        left.remove("missing_value")
    if left:
        said.append(f"{name}: its attributes {', '.join(left)} are not applied: samples are kept as they are; "
                    "xarray.decode_cf applies them")
    is_packed = any(key in variable.encoding or key in attrs for key in _PACKING)
    if not is_packed and (left := [key for key in _VALID if key in attrs]):
        said.append(f"{name}: samples outside its {', '.join(left)} are not missing; data.where masks them")
