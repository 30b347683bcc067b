"""The files that `Dataset.export` writes: each format takes boxes of samples at their places, in any order."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

from quarry._export_attributes import fits_hdf5, fits_netcdf, is_netcdf_name, plain
from quarry._export_contents import Coordinate, Layout, Owner, Variable
from quarry._export_images import Tiff
from quarry._export_numpy import Npy, Npz
from quarry._export_output import WIDENED, Contiguous, Output, as_json, library, sync
from quarry._export_tables import Csv
from quarry._export_vtk import Pvd, Pvti, Vti, Vtr
from quarry._grids import Triple, chunk_of

_ZARR_CHUNK_BYTES = 4 << 20

_NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable. {:10}"
"""By this name of a scale, who reads NetCDF knows that it is none but a dimension's name."""


# ---- Formats with a library

class Hdf5(Contiguous):
    """HDF5, with dimension scales."""

    lists_coordinates = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._library = library("h5py")

    def holds(self, owner: Owner, name: str, value: Any) -> bool:
        return "\0" not in name and fits_hdf5(value)

    def why_without(self, text: Coordinate) -> str:
        return "" if fits_netcdf(text.values.ravel().tolist()) else "they hold zeros, at which texts of this format end"

    def as_held(self, value: Any) -> Any:
        return plain(value)

    def lay_out(self) -> None:
        with self._library.File(self.parts[0], "w") as file:
            file.attrs.update(self.layout.attrs)
            coordinates = self.layout.coordinates()
            for name, length in self.layout.dimensions().items():
                if not any(one.name == name for one in coordinates):
                    file.create_dataset(name, (length,), ">f4").make_scale(_NO_COORDINATE.format(length))
            for one in coordinates:
                data, dtype = (one.objects, self._library.string_dtype()) if one.is_text else (one.values, None)
                made = file.create_dataset(one.name, data=data, dtype=dtype)
                made.attrs.update(one.attrs)
                if one.is_dimension:
                    made.make_scale(one.name)
                else:
                    self._attach_scales(file, made, one.dims)
            for variable in self.layout.variables:
                made = self._place(file, variable)
                made.attrs.update(self.layout.attrs_of(variable))
                if variable.fill is not None:
                    made.attrs["_FillValue"] = variable.fill
                self._attach_scales(file, made, self.layout.dims_of(variable))

    @staticmethod
    def _attach_scales(file: Any, made: Any, dims: tuple[str, ...]) -> None:
        for number, name in enumerate(dims):
            made.dims[number].attach_scale(file[name])

    def _place(self, file: Any, variable: Variable) -> Any:
        """A dataset that has its place from the beginning, and nothing in it."""
        h5d, h5p, h5s, h5t = (getattr(self._library, name) for name in ("h5d", "h5p", "h5s", "h5t"))
        how = h5p.create(h5p.DATASET_CREATE)
        how.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        how.set_fill_time(h5d.FILL_TIME_NEVER)
        if variable.fill is not None:
            how.set_fill_value(np.asarray(variable.fill))
        space = h5s.create_simple(self.layout.shape_of(variable))
        h5d.create(file.id, variable.name.encode(), h5t.py_create(variable.dtype), space, how)
        return file[variable.name]

    def origins(self) -> list[int]:
        with self._library.File(self.parts[0], "r") as file:
            found = [file[variable.name].id.get_offset() for variable in self.layout.variables]
        if None in found:
            raise RuntimeError("the library has not laid out its fields")
        return found


class NetCdf(Hdf5):
    """NetCDF 4, which is HDF5 underneath. A bool is a byte that says so, as xarray writes and reads it."""

    widened = WIDENED

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._given = [variable.dtype for variable in layout.variables]
        self._netcdf = library("netCDF4")

    def holds(self, owner: Owner, name: str, value: Any) -> bool:
        return is_netcdf_name(name) and fits_netcdf(value)

    def lay_out(self) -> None:
        with self._netcdf.Dataset(self.parts[0], "w", format="NETCDF4", clobber=True) as file:
            file.set_fill_off()
            for name, length in self.layout.dimensions().items():
                file.createDimension(name, length)
            for one in self.layout.coordinates():
                coordinate = file.createVariable(one.name, str if one.is_text else one.values.dtype, one.dims)
                coordinate.setncatts(one.attrs)
                coordinate[...] = one.objects if one.is_text else one.values
            for variable, given in zip(self.layout.variables, self._given, strict=True):
                made = file.createVariable(variable.name, variable.dtype, self.layout.dims_of(variable),
                                           fill_value=variable.fill, contiguous=True, endian="little")
                made.setncatts(self.layout.attrs_of(variable))
                if given.kind == "b":
                    made.setncattr("dtype", "bool")
                made.set_auto_maskandscale(False)
                made[(0,) * made.ndim or ...] = 0  # it has its place from its first sample on
            file.setncatts(self.layout.attrs)


class Zarr(Output):
    """A group of Zarr 3 in a folder, with consolidated metadata."""

    aligned = False  # its chunks begin at the first sample
    lists_coordinates = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._library = library("zarr")
        self._group: Any = None
        self._arrays: list[Any] = []
        self._touched: set[Path] = set()

    def unit_of(self, variable: Variable) -> Triple:
        """Shape of a chunk, the same for all fields on a grid."""
        grid = self.layout.grid_of(variable)
        itemsize = max(other.dtype.itemsize for other in self.layout.variables)
        return chunk_of(grid.patch, grid.shape, _ZARR_CHUNK_BYTES // itemsize)

    def create(self) -> None:
        group = self._library.open_group(str(self.parts[0]), mode="w", zarr_format=3,
                                         attributes=as_json(self.layout.attrs))
        for one in self.layout.coordinates():
            made = group.create_array(one.name, shape=one.values.shape, dtype=str if one.is_text else one.values.dtype,
                                      chunks=one.values.shape, dimension_names=one.dims,
                                      attributes=as_json(one.attrs))
            made[...] = one.objects if one.is_text else one.values
        for variable in self.layout.variables:
            attrs = self.layout.attrs_of(variable)
            if variable.fill is not None and variable.dtype.kind != "f":  # NaN is the fill value of the array itself
                attrs["_FillValue"] = variable.fill
            along = self.layout.grid_of(variable).along_axes(self.unit_of(variable))
            chunk = (*(() if variable.still else (1,)), *along)
            group.create_array(variable.name, shape=self.layout.shape_of(variable), dtype=variable.dtype, chunks=chunk,
                               dimension_names=self.layout.dims_of(variable),
                               fill_value=0 if variable.fill is None else variable.fill,
                               attributes=as_json(attrs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # readers that do not know consolidated metadata list the folder
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
    def _files(path: Path) -> Iterator[Path]:
        """A file, or a folder with all that is in it."""
        yield path
        for place, folders, names in os.walk(path):
            yield from (Path(place, name) for name in (*folders, *names))

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        said = self.layout.variables[variable]
        along_axes = self.layout.grid_of(said).along_axes
        of_step = () if said.still else (step,)
        place = [slice(first, first + length) for first, length in zip(begin, block.shape, strict=True)]
        self._arrays[variable][(*of_step, *along_axes(place))] = block.reshape(along_axes(block.shape))
        folder = self.parts[0] / said.name / "c"
        self._touched.update([self.parts[0], folder.parent, folder])
        for number in of_step:
            folder /= str(number)
            self._touched.add(folder)
        for first, length, unit in along_axes(zip(begin, block.shape, self.unit_of(said), strict=True))[:1]:
            for chunk in range(first // unit, -(-(first + length) // unit)):
                self._touched.update(self._files(folder / str(chunk)))

    def flush(self) -> None:
        for path in self._touched:
            if path.exists():  # a chunk without a valid sample has no file
                sync(path)
        self._touched.clear()

    def close(self) -> None:
        self._group, self._arrays = None, []


FORMATS: dict[str, type[Output]] = {"netcdf": NetCdf, "hdf5": Hdf5, "zarr": Zarr, "vti": Vti, "vtr": Vtr,
                                    "pvti": Pvti, "pvd": Pvd, "tiff": Tiff, "csv": Csv, "npy": Npy, "npz": Npz}
SUFFIXES = {".nc": "netcdf", ".h5": "hdf5", ".hdf5": "hdf5", ".zarr": "zarr", ".vti": "vti", ".vtr": "vtr",
            ".pvti": "pvti", ".pvd": "pvd", ".tif": "tiff", ".tiff": "tiff", ".csv": "csv", ".npy": "npy",
            ".npz": "npz"}


def format_of(path: Path, given: str | None) -> type[Output]:
    """The format of that name, or of the file's suffix."""
    name = given or SUFFIXES.get(path.suffix.lower())
    if name not in FORMATS:
        what = f"format {given!r}" if given else f"the suffix of \"{path}\""
        raise ValueError(f"{what} names no format; formats are {', '.join(FORMATS)}, suffixes {', '.join(SUFFIXES)}")
    if sys.byteorder != "little":
        raise NotImplementedError("export needs a little-endian machine")
    return FORMATS[name]
