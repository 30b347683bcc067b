"""A file as netCDF4-python, h5py, tifffile and numpy read it: its variables with dimensions, samples, missing samples,
positions, times and units. Knows nothing of Quarry."""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import tifffile

# Names of dimensions that count moments, where nothing else is said of them.
COUNTS = {"step", "steps", "frame", "frames", "timestep", "timesteps", "time_step", "time_steps"}
MOMENTS = {"time", "times", "t", "nt", "ntime", *COUNTS}


@dataclass
class Times:
    """Moments along a dimension, or the one moment of a variable."""

    values: list[float | None]
    units: str
    calendar: str


@dataclass
class Dimension:
    """One dimension of a variable."""

    name: str | None
    size: int
    is_time: bool = False
    has_coordinate: bool = False
    positions: np.ndarray | None = None  # float64, NaN where one is missing
    units: str = ""
    times: Times | None = None
    letter: str = ""  # letter of tifffile's axes

    def lies(self) -> bool:
        """Whether its positions can be those of an axis: finite, and ascending or descending."""
        if self.positions is None or not np.isfinite(self.positions).all():
            return False
        steps = np.diff(self.positions)
        return bool((steps > 0).all() or (steps < 0).all())


@dataclass
class Variable:
    """An array of a file."""

    name: str  # empty where the file has one array without a name
    dtype: np.dtype | None  # None: no numbers
    kind: str  # the type in words
    dimensions: list[Dimension]
    read: Callable[[], np.ma.MaskedArray]
    units: str = ""
    # Packed samples, unpacked in double and not rounded; None where they are not packed.
    exact: Callable[[], np.ndarray] | None = None
    moment: Times | None = None
    coordinates: list[str] = field(default_factory=list)  # coordinates in two and more dimensions, by name
    reader: str | None = None  # the only one of Quarry that can find it
    gone: bool = False  # a part of it lies in a file that is missing
    plugins: bool = False  # a filter that is not HDF5's own compresses it
    unwritten: bool = False  # no sample of it was ever written

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dimensions)


def kind_of(path: Path) -> str | None:
    """The format by the first bytes; an archive is one of numpy by the end of its name."""
    head = path.open("rb").read(512)
    if head[:3] == b"CDF" and head[3:4] in (b"\1", b"\2", b"\5"):
        return "netcdf3"
    if head[:8] == b"\x89HDF\r\n\x1a\n" or h5py.is_hdf5(path):
        return "hdf5"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "tiff"
    if head[:6] == b"\x93NUMPY":
        return "npy"
    if path.suffix == ".npz":
        return "npz"
    return None


@contextlib.contextmanager
def open_file(path: Path, kind: str) -> Iterator[tuple[str, list[Variable]]]:
    """The library that reads the file, and what it finds there."""
    if kind in ("netcdf3", "hdf5"):
        with contextlib.ExitStack() as stack:
            file = None
            if kind == "netcdf3" or not has_plugins(path):
                with contextlib.suppress(OSError):
                    file = stack.enter_context(netCDF4.Dataset(path))
            if file is not None:
                found = netcdf_variables(file)
                if kind == "hdf5":
                    # NetCDF's library leaves out what it has no type for.
                    known = {v.name.lstrip("/"): v for v in found}
                    for other in hdf5_variables(stack.enter_context(h5py.File(path, "r"))):
                        if other.name in known:
                            known[other.name].gone = other.gone
                        elif other.unwritten:
                            pass  # a dimension of NetCDF without a variable
                        else:
                            other.reader = "hdf5"
                            found.append(other)
                yield "netCDF4", found
            else:
                yield "h5py", hdf5_variables(stack.enter_context(h5py.File(path, "r")))
    elif kind == "tiff":
        yield "tifffile", tiff_variables(path)
    else:
        yield "numpy", numpy_variables(path)


def needs_plugin(dataset: h5py.Dataset) -> bool:
    """Whether a filter that is not HDF5's own compresses it."""
    return any(dataset._dcpl.get_filter(i)[0] > 255 for i in range(dataset._dcpl.get_nfilters()))


def has_plugins(path: Path) -> bool:
    """Whether some of a file needs plugins, which hdf5plugin brings to h5py alone."""
    with h5py.File(path, "r") as file:
        found: list[h5py.Dataset] = []
        file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
        return any(needs_plugin(item) for item in found)


# --- NetCDF ---


def text_of(of: Any, name: str) -> str:
    """An attribute that is text, else nothing."""
    try:
        value = of.getncattr(name)
    except (AttributeError, KeyError, RuntimeError):
        return ""
    return value if isinstance(value, str) else ""


def is_time(variable: Any) -> bool:
    return bool(text_of(variable, "axis").lower() == "t" or text_of(variable, "standard_name") == "time"
                or re.search(r"^\s*\w+\s+since\s", text_of(variable, "units")))


def is_time_unit(units: str) -> bool:
    return re.match(r"^\s*(years?|months?|days?|d|hours?|hrs?|h|minutes?|mins?|seconds?|secs?|s|ms|milliseconds?"
                    r"|microseconds?|us|nanoseconds?|ns)\b", units) is not None


def numbers(variable: Any) -> np.ndarray:
    """Positions or times, NaN where one is missing."""
    values = np.ma.asarray(variable[...])
    return np.ma.filled(values.astype("f8"), np.nan)


def is_numeric(variable: Any) -> bool:
    is_plain = isinstance(variable.dtype, np.dtype) and isinstance(variable.datatype, np.dtype)
    return is_plain and variable.dtype.kind in "iuf"


def times_of(variable: Any) -> Times:
    values = [float(v) if math.isfinite(v) else None for v in np.atleast_1d(numbers(variable))]
    return Times(values, text_of(variable, "units"), text_of(variable, "calendar"))


def times_of_texts(variable: Any) -> Times:
    """WRF's dates, a row of characters each."""
    epoch = datetime.datetime(1970, 1, 1)
    dates = ["".join(c.decode() for c in np.ma.filled(row, b"")) for row in variable[...]]
    seconds = [(datetime.datetime.strptime(date, "%Y-%m-%d_%H:%M:%S") - epoch).total_seconds() for date in dates]
    return Times(list(seconds), "seconds since 1970-01-01 00:00:00", "")


def netcdf_variables(file: netCDF4.Dataset) -> list[Variable]:
    """Every variable of every group."""
    found = []
    groups = [file]
    while groups:
        group = groups.pop(0)
        groups += group.groups.values()
        found += [netcdf_variable(file, group, v) for v in group.variables.values()]
    return found


def in_scope(group: Any) -> Iterator[Any]:
    while group is not None:
        yield group
        group = group.parent


def has_moment(variable: Any) -> bool:
    """Whether a time without dimensions is the variable's own."""
    named = text_of(variable, "coordinates").split()
    return any(one.dimensions == () and is_time(one)
               and (one.name in named or text_of(one, "standard_name") == "time" or text_of(one, "axis").lower() == "t"
                    or one.name.lower() == "time")
               for group in in_scope(variable.group()) for one in group.variables.values() if is_numeric(one))


def netcdf_dimension(variable: Any, place: int, dimension: Any) -> Dimension:
    name = dimension.name
    out = Dimension(name, len(dimension))
    home = dimension.group()
    # The coordinate lies beside the dimension, or nearer to the variable.
    coordinate = next((g.variables[name] for g in in_scope(variable.group())
                       if name in g.variables and g.variables[name].dimensions == (name,)), None)
    units = text_of(coordinate, "units") if coordinate is not None else ""
    axis = text_of(coordinate, "axis").lower() if coordinate is not None else ""
    if coordinate is not None:
        out.has_coordinate = True
        out.units = units
        if is_numeric(coordinate):
            out.positions = numbers(coordinate)
    lists = [v for v in home.variables.values()
             if v.dimensions == (name,) and v.name not in (name, variable.name) and is_numeric(v)
             and (is_time(v) or v.name.lower() == "time")]
    texts = home.variables.get("Times")
    has_texts = texts is not None and texts.dtype == "S1" and texts.dimensions[:1] == (name,)
    may_be = axis in ("", "t") and (not units or units == "1" or is_time_unit(units))
    # A record dimension brings moments, unless the variable has one; a length of time brings those of a forecast.
    leads = place == 0 and (is_time_unit(units) or (dimension.isunlimited() and not has_moment(variable)))
    out.is_time = variable.ndim > 1 and (
        (coordinate is not None and is_time(coordinate)) or len(lists) == 1
        or (may_be and (name.lower() in MOMENTS or leads)))
    if not out.is_time:
        return out
    if coordinate is not None and is_numeric(coordinate) and (is_time(coordinate) or not lists):
        if is_time(coordinate) or name.lower() not in COUNTS:
            out.times = times_of(coordinate)
    elif len(lists) == 1:
        out.times = times_of(lists[0])
    elif has_texts:
        out.times = times_of_texts(texts)
    return out


def netcdf_variable(file: Any, group: Any, variable: Any) -> Variable:
    name = variable.name if group.parent is None else f"{group.path}/{variable.name}"
    dimensions = [netcdf_dimension(variable, i, d) for i, d in enumerate(variable.get_dims())]
    numeric = is_numeric(variable)
    out = Variable(name, None, str(variable.datatype), dimensions, lambda: np.ma.asarray(variable[...]),
                   text_of(variable, "units"))
    if not numeric:
        return out
    out.dtype = variable.dtype.newbyteorder("=")
    out.exact = unpacker(variable)
    named = text_of(variable, "coordinates").split()
    if not any(d.times for d in dimensions):
        moments = [v for v in file.variables.values() if v.ndim == 0 and is_numeric(v) and is_time(v)]
        # Moments that the variable names come first, then the one that is time itself.
        moments = [v for v in moments if v.name in named] or moments
        moments = [v for v in moments if text_of(v, "standard_name") == "time" or v.name == "time"] or moments
        if len(moments) == 1 and math.isfinite(float(numbers(moments[0]))):
            out.moment = times_of(moments[0])
    out.coordinates = [n for n in named if n in group.variables and group.variables[n].ndim > 1]
    return out


def unpacker(variable: Any) -> Callable[[], np.ndarray] | None:
    """Physical values of packed samples, calculated in double."""
    constants = []
    for name, neutral in (("scale_factor", 1.0), ("add_offset", 0.0)):
        value = neutral
        if name in variable.ncattrs():
            with contextlib.suppress(TypeError, ValueError):
                value = float(np.ravel(variable.getncattr(name))[0])
        constants.append(value)
    if not {"scale_factor", "add_offset"} & set(variable.ncattrs()):
        return None

    def exact() -> np.ndarray:
        variable.set_auto_scale(False)
        try:
            stored = np.ma.getdata(variable[...])
        finally:
            variable.set_auto_scale(True)
        sign = {"true": "u", "false": "i"}.get(text_of(variable, "_Unsigned").lower())
        if sign and stored.dtype.kind in "iu":
            stored = stored.view(stored.dtype.str.replace(stored.dtype.kind, sign))
        return stored.astype("f8") * constants[0] + constants[1]

    return exact


# --- HDF5 ---


def hdf5_variables(file: h5py.File) -> list[Variable]:
    """Every dataset; each object once."""
    found: list[Variable] = []

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found.append(hdf5_variable(name, item))

    file.visititems(visit)
    return found


def hdf5_number(dataset: h5py.Dataset) -> np.dtype | None:
    try:
        dtype = dataset.dtype
    except (TypeError, OSError):
        return None
    plain = dtype.kind in "iufb" and h5py.check_enum_dtype(dtype) is None
    return dtype.newbyteorder("=") if plain and dtype.names is None and dtype.subdtype is None else None


def hdf5_variable(name: str, dataset: h5py.Dataset) -> Variable:
    dtype = hdf5_number(dataset)
    shape = dataset.shape or ()  # none of a dataset without a space
    dimensions = []
    for i, size in enumerate(shape):
        scales = list(dataset.dims[i].values()) if len(dataset.dims) > i else []
        if dataset.is_scale and len(shape) == 1:
            scales = [dataset]
        label = dataset.dims[i].label if len(dataset.dims) > i else ""
        out = Dimension(label or (scales[0].name.rsplit("/", 1)[1] if scales else None), size)
        if scales and hdf5_number(scales[0]) is not None:
            out.has_coordinate, out.positions = True, scales[0][...].astype("f8")
            units = scales[0].attrs.get("units", "")
            out.units = units.decode() if isinstance(units, bytes) else str(units)
        dimensions.append(out)
    try:
        kind = str(dataset.dtype)
    except (TypeError, OSError) as error:
        kind = str(error)
    units = dataset.attrs.get("units", "") if dtype is not None else ""
    units = units.decode() if isinstance(units, bytes) else units
    variable = Variable(name, dtype, kind, dimensions, functools.partial(hdf5_values, dataset),
                        units if isinstance(units, str) else "")
    variable.plugins = needs_plugin(dataset)
    variable.unwritten = dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_NOT_ALLOCATED and not dataset.is_virtual
    if dataset.is_virtual:
        folder = Path(dataset.file.filename).parent
        sources = {source.file_name for source in dataset.virtual_sources()} - {"."}
        variable.gone = any(not (folder / name).exists() for name in sources)
    return variable


def hdf5_values(dataset: h5py.Dataset) -> np.ma.MaskedArray:
    """Samples; those of a fill value that is declared, in an attribute or when the dataset was made, are missing."""
    values = dataset[...]
    gone = np.zeros(values.shape, bool)
    declared = [np.ravel(dataset.attrs[name]) for name in ("_FillValue", "missing_value") if name in dataset.attrs]
    if dataset._dcpl.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED and dataset.fillvalue != 0:
        declared.append(np.ravel(dataset.fillvalue))
    for value in (v for row in declared for v in row):
        gone |= values == value
    return np.ma.array(values, mask=gone)


# --- images and arrays ---


def tiff_variables(path: Path) -> list[Variable]:
    with tifffile.TiffFile(path) as file:
        series = file.series
        found = []
        for number, one in enumerate(series):
            shape, axes = one.shape, one.axes
            dimensions = [Dimension(None, n, letter == "T", letter=letter)
                          for n, letter in zip(shape, axes, strict=True)]
            kind = f"{one.dtype}, {axes}" + (", planes in a page" if one.pages[0].imagedepth > 1 else "")
            read = functools.partial(tiff_values, path, number)
            found.append(Variable("", one.dtype.newbyteorder("="), kind, dimensions, read))
        if len(series) > 1:
            found = found[:1]
        nodata = file.pages[0].tags.get(42113)
        if nodata is not None and found:
            plain = found[0].read
            found[0].read = lambda: np.ma.masked_equal(plain(), np.array(float(nodata.value), found[0].dtype))
    return found


def tiff_values(path: Path, series: int) -> np.ma.MaskedArray:
    with tifffile.TiffFile(path) as file:
        return np.ma.asarray(file.series[series].asarray())


def numpy_variables(path: Path) -> list[Variable]:
    def variable(name: str, array: np.ndarray) -> Variable:
        plain = array.dtype.kind in "iufb"
        return Variable(name, array.dtype.newbyteorder("=") if plain else None, str(array.dtype),
                        [Dimension(None, n) for n in array.shape], lambda: np.ma.asarray(array))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return [variable("", loaded)]
    with loaded:
        return [variable(name, loaded[name]) for name in loaded.files]
