"""Attributes in formats that know texts and numbers alone, and those by which CF knows an axis."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quarry import _quarry

_MOST_BYTES = 64_000
"""Of an attribute in HDF5, which keeps it in the header of an object, but for texts."""

_REFERENCE_BYTES = 16
"""To a text, which lies elsewhere."""

_NAME_OF_NETCDF = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]([^\x00-\x1f/\x7f]*[^\x00-\x20/\x7f])?")

_NORTH = re.compile("degrees?_?(north|N)")
_EAST = re.compile("degrees?_?(east|E)")
_PRESSURE = re.compile("[hk]?Pa|d?bar|mbar|decibars?|millibars?|bars?|atm|atmospheres?")

_EASTWARD = ("longitude", "grid_longitude", "projection_x_coordinate", "projection_x_angular_coordinate")
_NORTHWARD = ("latitude", "grid_latitude", "projection_y_coordinate", "projection_y_angular_coordinate")
_VERTICAL = re.compile("depth|height.*|altitude|air_pressure|geopotential_height|model_level_number|"
                       "(atmosphere|ocean)_.*_coordinate(_g[12])?")


def plain(value: Any) -> Any:
    """A text, a list of texts, a number of numpy or an array of them: of what JSON has besides, its text."""
    if isinstance(value, (str, np.generic, np.ndarray)) or _are_texts(value):
        return value
    numbers = value if isinstance(value, list) else [value]
    if numbers and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers):
        array = np.asarray(value)
        if array.dtype.kind in "iuf":  # numbers too large for them become objects
            return array if array.ndim else array[()]
    return json.dumps(value, ensure_ascii=False)


def fits_hdf5(value: Any) -> bool:
    """Whether an attribute of HDF5 can have a value."""
    value = plain(value)
    if isinstance(value, (str, list)):
        return fits_netcdf(value) and (isinstance(value, str) or len(value) * _REFERENCE_BYTES <= _MOST_BYTES)
    return bool(np.asarray(value).nbytes <= _MOST_BYTES)


def fits_netcdf(value: Any) -> bool:
    """Whether an attribute of NetCDF can have a value: its texts end at their first zero."""
    value = plain(value)
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return not any("\0" in text for text in texts)


def is_netcdf_name(name: str) -> bool:
    """Whether an attribute of NetCDF can have this name. Those that begin with "_" are the library's."""
    return _NAME_OF_NETCDF.fullmatch(name) is not None


def letters_of(axes: Sequence[Mapping[str, Any]]) -> list[str]:
    """CF's letters for the axes z, y and x of a grid: "X", "Y" or "Z", from the attributes of each, or else from its
    position. Empty where attributes give two axes one letter, or give another axis the letter of the position. A row
    along time has none: its unit says what it is."""
    said = [_letter_of(attributes) for attributes in axes]
    letters = [letter or (place if place not in said else "") for letter, place in zip(said, "ZYX", strict=True)]
    return [letter if letter != "T" and letters.count(letter) == 1 else "" for letter in letters]


def _letter_of(attributes: Mapping[str, Any]) -> str:
    """Letter from a source's attributes of an axis; empty: none."""
    axis, name, units = (str(attributes.get(key, "")) for key in ("axis", "standard_name", "units"))
    if axis in ("X", "Y", "Z"):
        return axis
    if _quarry.says_time(axis, name, units):
        return "T"
    if name in _EASTWARD or _EAST.fullmatch(units):
        return "X"
    if name in _NORTHWARD or _NORTH.fullmatch(units):
        return "Y"
    is_directed = str(attributes.get("positive", "")) in ("up", "down")
    return "Z" if is_directed or _VERTICAL.fullmatch(name) or _PRESSURE.fullmatch(units) else ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
