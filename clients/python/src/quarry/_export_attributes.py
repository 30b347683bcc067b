"""Attributes in formats that know texts and numbers alone."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

_MOST_BYTES = 64_000
"""Of an attribute in HDF5, which keeps it in the header of an object, but for texts."""

_REFERENCE_BYTES = 16
"""To a text, which lies elsewhere."""

_NAME_OF_NETCDF = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]([^\x00-\x1f/\x7f]*[^\x00-\x20/\x7f])?")


def plain(value: Any) -> Any:
    """A text, a list of texts, a number of numpy or an array of them: of what JSON has besides, its text."""
    if isinstance(value, (str, np.generic, np.ndarray)) or _are_texts(value):
        return value
    numbers = value if isinstance(value, list) else [value]
    if numbers and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers):
        array = np.asarray(value)
        if array.dtype.kind in "iuf":  # what is too large for them is an object
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


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
