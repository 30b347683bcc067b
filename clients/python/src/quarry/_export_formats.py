"""The files that `Dataset.export` writes: each format takes boxes of samples at their places, in any order."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

from quarry._export_output import Layout, Output, Variable, library, sync
from quarry._samples import Triple

_ZARR_CHUNK_BYTES = 4 << 20


# ---- Arrays at known places of a file

class _Raw:
    """Arrays [z, y, x], of which boxes are written where they belong. Not mapped into memory: a full disk would end the
    process then."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0), 0o666)

    def write(self, data: bytes | memoryview, at: int) -> None:
        left = memoryview(data).cast("B")
        while left:
            written = os.pwrite(self._descriptor, left, at)
            left, at = left[written:], at + written

    def put(self, origin: int, shape: Triple, begin: Triple, block: npt.NDArray[Any]) -> None:
        """The array begins at the byte `origin`."""
        _, height, width = shape
        whole_rows = block.shape[2] == width
        whole_planes = whole_rows and block.shape[1] == height
        # What lies together in the file is written together.
        rows = block.reshape(1, -1) if whole_planes else block.reshape(len(block), -1) if whole_rows else (
            block.reshape(-1, block.shape[2]))
        for number, row in enumerate(rows):
            z, y = (0, 0) if whole_planes else (number, 0) if whole_rows else divmod(number, block.shape[1])
            place = ((begin[0] + z) * height + begin[1] + y) * width + begin[2]
            self.write(np.ascontiguousarray(row).data, origin + place * block.itemsize)

    def resize(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _as_json(value: Any) -> Any:
    """JSON has no infinite numbers, and no types of numpy."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_as_json(one) for one in value]
    if isinstance(value, np.generic):
        return _as_json(value.item())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Contiguous(Output):
    """Formats in which a field of all steps lies at one place of the file: once that is laid out, no library is needed,
    and none meets a full disk or the end of its process."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._file: _Raw | None = None
        self._origins: list[int] = []

    @abstractmethod
    def lay_out(self) -> None:
        """Makes the file, but for its samples."""

    @abstractmethod
    def origins(self) -> list[int]:
        """Where the samples of each field begin."""

    def create(self) -> None:
        self.lay_out()
        self.reopen()

    def reopen(self) -> None:
        self._origins = self.origins()
        self._file = _Raw(self.parts[0], new=False)

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        assert self._file is not None
        origin = self._origins[variable] + step * math.prod(self.layout.grid) * block.itemsize
        self._file.put(origin, self.layout.grid, begin, block)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Npy(Contiguous):
    """NumPy's format for one array; what it has no place for is in PATH.json."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        if len(layout.variables) != 1:
            raise ValueError(f"a .npy file holds one field, and these are {len(layout.variables)}; give fields=[NAME]")

    @property
    def finals(self) -> list[Path]:
        return [self.path, self.path.with_name(self.path.name + ".json")]

    def _header(self) -> bytes:
        import io
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {
            "descr": self.layout.variables[0].dtype.str, "fortran_order": False, "shape": self.layout.shape})
        return header.getvalue()

    def _describe(self) -> str:
        (variable,) = self.layout.variables
        coordinates = {name: {"dimension": dim, "values": values, **attrs}
                       for name, dim, values, attrs in self.layout.coordinates()}
        return json.dumps(_as_json({
            "field": variable.name, "dimensions": self.layout.dims,
            "attributes": {**variable.attrs, "_FillValue": variable.fill},
            "global_attributes": self.layout.attrs, "coordinates": coordinates}), indent=1, allow_nan=False)

    def lay_out(self) -> None:
        header = self._header()
        samples, description = self.parts
        with contextlib.closing(_Raw(samples, new=True)) as file:
            file.write(header, 0)
            file.resize(len(header) + self.sizes[0])
        description.write_text(self._describe() + "\n")

    def origins(self) -> list[int]:
        return [len(self._header())]


class Vti(Output):
    """VTK's image data: XML with the samples behind it, one step in a file."""

    only_held = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        for axis in layout.axes:
            spaced = np.diff(axis.positions)
            if spaced.size and not np.allclose(spaced, spaced.mean(), rtol=1e-6, atol=0):
                raise ValueError(f"the samples are not evenly spaced along {axis.long_name!r}, which .vti files "
                                 "cannot say; export to .nc, .h5 or .zarr")
        self._open: tuple[int, _Raw] | None = None

    @property
    def finals(self) -> list[Path]:
        if len(self.layout.numbers) == 1:
            return [self.path]
        stem = self.path.name.removesuffix(".vti")
        return [self.path.with_name(f"{stem}-{number}.vti") for number in self.layout.numbers]

    def _held(self, step: int) -> list[int]:
        return [number for number, variable in enumerate(self.layout.variables) if variable.held[step]]

    def _bytes(self, variable: int) -> int:
        return math.prod(self.layout.grid) * self.layout.variables[variable].dtype.itemsize

    @property
    def sizes(self) -> list[int]:
        return [sum(map(self._bytes, self._held(step))) for step in range(len(self.layout.numbers))]

    def _header(self, step: int) -> bytes:
        axes = self.layout.axes[::-1]
        extent = " ".join(f"0 {len(axis.positions) - 1}" for axis in axes)
        origin = " ".join(repr(float(axis.positions[0])) for axis in axes)
        spacing = " ".join(repr(float(np.diff(axis.positions).mean()) if len(axis.positions) > 1 else 1.0)
                           for axis in axes)
        offset, arrays = 0, []
        for number in self._held(step):
            variable = self.layout.variables[number]
            arrays.append(f'<DataArray type="{_vtk_type(variable.dtype)}" Name={quoteattr(variable.name)} '
                          f'format="appended" offset="{offset}"/>')
            offset += 8 + self._bytes(number)
        return "\n".join([
            '<?xml version="1.0"?>',
            '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
            f'<ImageData WholeExtent="{extent}" Origin="{origin}" Spacing="{spacing}">',
            "<FieldData>", *self._field_data(step), "</FieldData>",
            f'<Piece Extent="{extent}">', "<PointData>", *arrays, "</PointData>", "</Piece>", "</ImageData>",
            '<AppendedData encoding="raw">', "_"]).encode()

    def _field_data(self, step: int) -> Iterator[str]:
        """Attributes; those of a field by the names FIELD.NAME."""
        yield _vtk_attribute("step", self.layout.numbers[step])
        if not math.isnan(self.layout.times[step]):
            yield _vtk_attribute("TimeValue", self.layout.times[step])
        for name, value in self.layout.attrs.items():
            yield _vtk_attribute(name, value)
        for axis, letter in zip(self.layout.axes, "zyx", strict=True):
            for name, value in axis.attrs(letter.upper()).items():
                yield _vtk_attribute(f"{letter}.{name}", value)
        for number in self._held(step):
            variable = self.layout.variables[number]
            for name, value in variable.attrs.items():
                yield _vtk_attribute(f"{variable.name}.{name}", value)
            if variable.fill is not None:
                yield _vtk_attribute(f"{variable.name}._FillValue", variable.fill)

    def create(self) -> None:
        for step in range(len(self.layout.numbers)):
            with contextlib.closing(_Raw(self.parts[step], new=True)) as file:
                header = self._header(step)
                file.write(header, 0)
                at = len(header)
                for number in self._held(step):
                    size = self._bytes(number)
                    file.write(size.to_bytes(8, "little"), at)
                    at += 8 + size
                file.write(b"\n</AppendedData>\n</VTKFile>\n", at)

    def reopen(self) -> None:
        if absent := [part for part in self.parts if not part.exists()]:
            raise FileNotFoundError(f"\"{absent[0]}\" has gone")

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        if self._open is None or self._open[0] != step:
            self.close()
            self._open = step, _Raw(self.parts[step], new=False)
        before = [number for number in self._held(step) if number < variable]
        origin = len(self._header(step)) + sum(8 + self._bytes(number) for number in before) + 8
        self._open[1].put(origin, self.layout.grid, begin, block)

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def _vtk_type(dtype: np.dtype[Any]) -> str:
    return {"f": "Float", "i": "Int", "u": "UInt"}[dtype.kind] + str(8 * dtype.itemsize)


def _vtk_attribute(name: str, value: Any) -> str:
    """In FieldData. A text is the codes of its characters, with a zero behind them."""
    if isinstance(value, str):
        codes = " ".join(map(str, [*value.encode(), 0]))
        return f'<DataArray type="String" Name={quoteattr(name)} NumberOfTuples="1" format="ascii">{codes}</DataArray>'
    values = np.atleast_1d(np.asarray(value))
    text = " ".join(repr(one) for one in values.tolist())
    return (f'<DataArray type="{_vtk_type(values.dtype)}" Name={quoteattr(name)} NumberOfTuples="{len(values)}" '
            f'format="ascii">{text}</DataArray>')


# ---- Formats with a library

class Hdf5(Contiguous):
    """HDF5, with dimension scales."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._library = library("h5py")

    def lay_out(self) -> None:
        with self._library.File(self.parts[0], "w") as file:
            file.attrs.update(self.layout.attrs)
            for name, _, values, attrs in self.layout.coordinates():
                made = file.create_dataset(name, data=values)
                made.attrs.update(attrs)
                if name != self.layout.time:
                    made.make_scale(name)
            for variable in self.layout.variables:
                made = self._place(file, variable)
                made.attrs.update(self.layout.attrs_of(variable))
                if variable.fill is not None:
                    made.attrs["_FillValue"] = variable.fill
                for number, name in enumerate(self.layout.dims):
                    made.dims[number].attach_scale(file[name])

    def _place(self, file: Any, variable: Variable) -> Any:
        """A dataset that has its place from the beginning, and nothing in it."""
        h5d, h5p, h5s, h5t = (getattr(self._library, name) for name in ("h5d", "h5p", "h5s", "h5t"))
        how = h5p.create(h5p.DATASET_CREATE)
        how.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        how.set_fill_time(h5d.FILL_TIME_NEVER)
        if variable.fill is not None:
            how.set_fill_value(np.asarray(variable.fill))
        space = h5s.create_simple(self.layout.shape)
        h5d.create(file.id, variable.name.encode(), h5t.py_create(variable.dtype), space, how)
        return file[variable.name]

    def origins(self) -> list[int]:
        with self._library.File(self.parts[0], "r") as file:
            found = [file[variable.name].id.get_offset() for variable in self.layout.variables]
        if None in found:
            raise RuntimeError("the library has not laid out its fields")
        return found


class NetCdf(Hdf5):
    """NetCDF 4, which is HDF5 underneath."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._netcdf = library("netCDF4")

    def lay_out(self) -> None:
        with self._netcdf.Dataset(self.parts[0], "w", format="NETCDF4", clobber=True) as file:
            file.set_fill_off()
            for name, length in zip(self.layout.dims, self.layout.shape, strict=True):
                file.createDimension(name, length)
            for name, dim, values, attrs in self.layout.coordinates():
                coordinate = file.createVariable(name, values.dtype, (dim,), endian="little")
                coordinate.setncatts(attrs)
                coordinate[:] = values
            for variable in self.layout.variables:
                made = file.createVariable(variable.name, variable.dtype, self.layout.dims, fill_value=variable.fill,
                                           contiguous=True, endian="little")
                made.setncatts(self.layout.attrs_of(variable))
                made.set_auto_maskandscale(False)
                made[0, 0, 0, 0] = 0  # it has its place from its first sample on
            file.setncatts(self.layout.attrs)


class Zarr(Output):
    """A group of Zarr 3 in a folder, with consolidated metadata."""

    aligned = False  # its chunks begin at the first sample

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._library = library("zarr")
        self._group: Any = None
        self._arrays: list[Any] = []
        self._touched: set[Path] = set()

    @property
    def unit(self) -> Triple:
        chunk = [min(patch, length) for patch, length in zip(self.layout.patch, self.layout.grid, strict=True)]
        itemsize = max(variable.dtype.itemsize for variable in self.layout.variables)
        while 2 * math.prod(chunk) * itemsize <= _ZARR_CHUNK_BYTES:
            growing = [axis for axis in (2, 1, 0) if chunk[axis] < self.layout.grid[axis]]
            if not growing:
                break
            axis = min(growing, key=lambda axis: chunk[axis])
            chunk[axis] = min(2 * chunk[axis], self.layout.grid[axis])
        z, y, x = chunk
        return z, y, x

    def create(self) -> None:
        group = self._library.open_group(str(self.parts[0]), mode="w", zarr_format=3,
                                         attributes=_as_json(self.layout.attrs))
        for name, dim, values, attrs in self.layout.coordinates():
            made = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape,
                                      dimension_names=(dim,), attributes=_as_json(attrs))
            made[...] = values
        for variable in self.layout.variables:
            attrs = self.layout.attrs_of(variable)
            if variable.fill is not None and variable.dtype.kind != "f":  # NaN is the fill value of the array itself
                attrs["_FillValue"] = variable.fill
            group.create_array(variable.name, shape=self.layout.shape, dtype=variable.dtype, chunks=(1, *self.unit),
                               dimension_names=self.layout.dims,
                               fill_value=0 if variable.fill is None else variable.fill,
                               attributes=_as_json(attrs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who does not know consolidated metadata lists the folder
            self._library.consolidate_metadata(group.store)
        self._touched.update(self._files(self.parts[0]))
        self._use(group)

    @property
    def sizes(self) -> list[int]:
        return []  # it compresses

    def reopen(self) -> None:
        for path in list(self._files(self.parts[0])):
            if path.suffix == ".partial":  # a chunk whose writer was killed
                path.unlink()
        self._use(self._library.open_group(str(self.parts[0]), mode="r+", use_consolidated=False))

    def _use(self, group: Any) -> None:
        self._group = group
        self._arrays = [group[variable.name] for variable in self.layout.variables]

    @staticmethod
    def _files(folder: Path) -> Iterator[Path]:
        """With all folders."""
        for place, _, names in os.walk(folder):
            yield Path(place)
            yield from (Path(place, name) for name in names)

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        place = (slice(first, first + length) for first, length in zip(begin, block.shape, strict=True))
        self._arrays[variable][(step, *place)] = block
        steps = self.parts[0] / self.layout.variables[variable].name / "c"
        unit = self.unit[0]
        self._touched.update([self.parts[0], steps.parent, steps, steps / str(step)])
        for chunk in range(begin[0] // unit, -(-(begin[0] + len(block)) // unit)):
            self._touched.update(self._files(steps / str(step) / str(chunk)))

    def flush(self) -> None:
        for path in self._touched:
            if path.exists():  # a chunk without a valid sample is no file
                sync(path)
        self._touched.clear()

    def close(self) -> None:
        self._group, self._arrays = None, []


FORMATS: dict[str, type[Output]] = {"netcdf": NetCdf, "hdf5": Hdf5, "zarr": Zarr, "vti": Vti, "npy": Npy}
SUFFIXES = {".nc": "netcdf", ".h5": "hdf5", ".hdf5": "hdf5", ".zarr": "zarr", ".vti": "vti", ".npy": "npy"}


def format_of(path: Path, given: str | None) -> type[Output]:
    """The format of that name, or of the file's suffix."""
    name = given or SUFFIXES.get(path.suffix.lower())
    if name not in FORMATS:
        what = f"format {given!r}" if given else f"the suffix of \"{path}\""
        raise ValueError(f"{what} names no format; formats are {', '.join(FORMATS)}, suffixes {', '.join(SUFFIXES)}")
    if sys.byteorder != "little":
        raise NotImplementedError("export needs a little-endian machine")
    return FORMATS[name]
