"""Files that say what the files of packages do not: every type, attribute, layout and order that a reader may meet, and
some of them at random (QUARRY_SEED)."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import quarry_testing as qt
import tifffile

SHAPE = (4, 6, 8)
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FORMATS = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4", "NETCDF4_CLASSIC")
# Types before CDF-5.
OLD_TYPES = ("i1", "i2", "i4", "f4", "f8")
RANDOM = 40


def samples(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """0, 1, 2, ..., as far as the type goes; the first is the least value of integers, and NaN of floats."""
    values = np.arange(np.prod(shape)).reshape(shape)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        out = (values / 7).astype(kind)
        out.flat[0], out.flat[1], out.flat[2] = np.nan, -np.inf, -0.0
        return out
    limits = np.iinfo(kind)
    out = (values % (min(limits.max, 30000) + 1)).astype(kind)
    out.flat[0], out.flat[1] = limits.min, limits.max
    return out


def netcdf(path: Path, variables: dict[str, tuple[str, Any, dict[str, Any]]], *, format: str = "NETCDF4",
           dimensions: tuple[str, ...] = ("z", "y", "x"), **options: Any) -> None:
    """Variables (type, samples, attributes) over the same dimensions; samples may be None, or lack the last planes."""
    with netCDF4.Dataset(path, "w", format=format) as file:
        file.set_fill_on()
        for name, n in zip(dimensions, SHAPE, strict=True):
            file.createDimension(name, n)
        for name, (dtype, values, attributes) in variables.items():
            attributes = dict(attributes)
            fill = attributes.pop("_FillValue", None)
            made = file.createVariable(name, dtype, dimensions, fill_value=fill, **options)
            made.set_auto_maskandscale(False)
            made.setncatts(attributes)
            if values is not None:
                made[:len(values)] = values


def types_of_netcdf(folder: Path) -> None:
    for format in FORMATS:
        types = OLD_TYPES if format in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4_CLASSIC") else TYPES
        netcdf(folder / f"types_{format}.nc", {f"v_{t}": (t, samples(t), {}) for t in types}, format=format)
        # The default of each type is in the samples, and the last plane was never written.
        defaults: dict[str, tuple[str, Any, dict[str, Any]]] = {}
        for t in types:
            values = samples(t)[:3]
            values[1, 1] = np.array(netCDF4.default_fillvals[t]).astype(t)
            defaults[f"v_{t}"] = (t, values, {})
        netcdf(folder / f"defaults_{format}.nc", defaults, format=format)
    # As NetCDF's library wrote files before it left its version there.
    with netCDF4.Dataset(folder / "old.nc", "w") as file:
        for name, n in zip("zyx", (None, 6, 8), strict=True):
            file.createDimension(name, n)
        file.createVariable("v", "f4", ("z", "y", "x"), chunksizes=(1, 6, 8))[:4] = samples("f4")
        file["v"][6] = samples("f4")[0]
    with h5py.File(folder / "old.nc", "r+") as hdf5:
        del hdf5.attrs["_NCProperties"]
    netcdf(folder / "big_endian.nc", {f"v_{t}": (t, samples(t), {}) for t in TYPES}, endian="big")
    netcdf(folder / "no_fill.nc", {f"v_{t}": (t, samples(t), {"_FillValue": False}) for t in TYPES})


def attributes_of_netcdf(folder: Path) -> None:
    """Each of a few attributes, of the type of the samples and of others."""
    cases: dict[str, tuple[str, Any, dict[str, Any]]] = {}
    for t in ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"):
        own = np.dtype(t).type
        seen = samples(t)
        several = {
            "fill": {"_FillValue": own(9)}, "missing": {"missing_value": own(9)},
            "both": {"_FillValue": own(9), "missing_value": own(11)},
            "vector": {"missing_value": np.array([9, 11, 13], t)},
            "zero": {"_FillValue": own(0)}, "least": {"valid_min": own(5)}, "most": {"valid_max": own(99)},
            "limits": {"valid_min": own(5), "valid_max": own(99)}, "range": {"valid_range": np.array([5, 99], t)},
            "range_fill": {"valid_range": np.array([5, 99], t), "_FillValue": own(50)},
            "all_missing": {"valid_max": own(0), "valid_min": own(1)},
            "units": {"units": " K ", "long_name": "temperature"},
        }
        if t[0] in "iu":
            several |= {"unsigned": {"_Unsigned": "true", "_FillValue": own(99)}, "signed": {"_Unsigned": "false"},
                        "unsigned_limits": {"_Unsigned": "true", "_FillValue": own(100), "valid_max": own(120)}}
        cases |= {f"{name}_{t}": (t, seen, attributes) for name, attributes in several.items()}
    for format in ("NETCDF3_64BIT_DATA", "NETCDF4"):
        netcdf(folder / f"attributes_{format}.nc", cases, format=format)
    netcdf(folder / "unwritten.nc", {"unsigned": ("i2", samples("i2")[:3], {"_Unsigned": "true"})})
    netcdf(folder / "of_other_types.nc", {
        "double_of_float": ("f4", samples("f4"), {"missing_value": np.float64(samples("f4").flat[20])}),
        "rounded_double": ("f4", samples("f4"), {"missing_value": 20 / 7}),
        "text": ("f4", samples("f4"), {"missing_value": "7"}),
        "words": ("f4", samples("f4"), {"missing_value": "none"}),
        "int_of_float": ("f4", samples("f4"), {"missing_value": np.int32(7)}),
        "int_of_short": ("i2", samples("i2"), {"missing_value": np.int32(7)}),
        "large_of_short": ("i2", samples("i2"), {"missing_value": np.int32(70000)}),
        "double_of_short": ("i2", samples("i2"), {"missing_value": 7.0}),
        "half_of_short": ("i2", samples("i2"), {"missing_value": 7.5}),
        "range_of_double": ("i2", samples("i2"), {"valid_range": [5.0, 99.0]}),
        "half_range": ("i2", samples("i2"), {"valid_range": [5.5, 99.5]}),
        "range_of_text": ("i2", samples("i2"), {"valid_range": "5 99"}),
    })


def packing_of_netcdf(folder: Path) -> None:
    cases: dict[str, tuple[str, Any, dict[str, Any]]] = {}
    for t in ("i1", "u1", "i2", "u2", "i4", "u4"):
        for a in ("f4", "f8"):
            one = np.dtype(a).type
            fill = {"_FillValue": np.dtype(t).type(9)}
            cases |= {f"both_{t}_{a}": (t, samples(t), {"scale_factor": one(0.01), "add_offset": one(273.15)} | fill),
                      f"scale_{t}_{a}": (t, samples(t), {"scale_factor": one(0.1)}),
                      f"offset_{t}_{a}": (t, samples(t), {"add_offset": one(-1000)}),
                      f"neutral_{t}_{a}": (t, samples(t), {"scale_factor": one(1), "add_offset": one(0)}),
                      f"limits_{t}_{a}": (t, samples(t), {"scale_factor": one(0.5), "valid_max": np.dtype(t).type(99)})}
    unsigned = {"scale_factor": np.float32(0.5), "_Unsigned": "true", "_FillValue": np.int16(-1)}
    cases["unsigned"] = ("i2", samples("i2"), unsigned)
    netcdf(folder / "packed.nc", cases)
    for name, types, of in (("floats", ("f4", "f8"), ("f4", "f8", "i4")), ("integers", ("i2", "i4"), ("i2", "i4"))):
        netcdf(folder / f"packed_{name}.nc", {
            f"{t}_{a}": (t, samples(t), {"scale_factor": np.dtype(a).type(3)}) for t in types for a in of})


def random_of_netcdf(folder: Path) -> None:
    """Attributes together, of the type of the samples."""
    numbers = qt.random_numbers("differential")
    cases: dict[str, tuple[str, Any, dict[str, Any]]] = {}
    for k in range(RANDOM):
        t = str(numbers.choice(["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"]))
        values = samples(t)
        pick = [np.dtype(t).type(numbers.choice(values[np.isfinite(values)])) for _ in range(6)]
        least, most = sorted(pick[4:])
        possible = {"_FillValue": pick[0], "missing_value": np.array(pick[1:1 + int(numbers.integers(1, 4))], t),
                    "valid_min": least, "valid_max": most}
        if t[0] in "iu" and t[1] != "4":
            possible |= {"scale_factor": np.float32(0.25), "add_offset": np.float64(4) if k % 2 else np.float32(4)}
        chosen = [name for name in possible if numbers.random() < 0.5]
        if t[0] == "i" and "_FillValue" in chosen and numbers.random() < 0.5:
            possible["_Unsigned"] = "true"
            chosen.append("_Unsigned")
        written = int(numbers.integers(2, 5))
        cases[f"random_{k}"] = (t, values[:written], {name: possible[name] for name in chosen})
    for format in ("NETCDF3_64BIT_DATA", "NETCDF4"):
        netcdf(folder / f"random_{format}.nc", cases, format=format)
    netcdf(folder / "random_chunked.nc", cases, chunksizes=(2, 5, 3), zlib=True, shuffle=True, fletcher32=True)


def axes_of_netcdf(folder: Path) -> None:
    """Coordinates of every type and kind, times, members, and dimensions in other orders."""
    for number, t in enumerate(TYPES):
        for format in ("NETCDF4", "NETCDF3_64BIT_DATA"):
            with netCDF4.Dataset(folder / f"coordinates_{t}_{format}.nc", "w", format=format) as file:
                for name, n in zip("tzyx", (3, *SHAPE), strict=True):
                    file.createDimension(name, n)
                file.createVariable("t", t, ("t",))[:] = [3, 5, 6 + number]
                file["t"].units = ("days", "hours", "seconds", "minutes")[number % 4] + " since 2001-02-03 04:05:06"
                file["t"].calendar = ("noleap", "standard", "360_day", "proleptic_gregorian", "julian")[number % 5]
                for name, positions in (("z", [90, 60, 31, 0]), ("y", np.arange(6) * 2 + 1), ("x", np.arange(8)[::-1])):
                    file.createVariable(name, t, (name,))[:] = positions
                    file[name].units = "m"
                values = samples("f4", (3, *SHAPE))
                file.createVariable("first", "f4", ("t", "z", "y", "x"))[:] = values
                file.createVariable("last", "f4", ("z", "y", "x", "t"))[:] = values.transpose(1, 2, 3, 0)
                file.createVariable("between", "f4", ("y", "t", "x"))[:] = values[:, 0].transpose(1, 0, 2)
                file.createVariable("row", "f4", ("x",))[:] = values[0, 0, 0]
                file.createVariable("moments", "f4", ("t",))[:] = values[:, 0, 0, 3]
    with netCDF4.Dataset(folder / "odd_coordinates.nc", "w") as file:
        lists = {"folded": [350, 355, 0, 5], "gap": [0, 1, np.nan, 3], "same": [1, 1, 1, 1], "uneven": [0, 1, 4, 9],
                 "falling": [4, 3, 1, -5], "float": np.array([0.1, 0.2, 0.3, 0.4], "f4"), "one": [7.5],
                 "packed": [0, 10, 20, 30], "words": None, "missing": [0, 1, 9.969209968386869e36, 3]}
        for name, positions in lists.items():
            n = 4 if positions is None else len(positions)
            file.createDimension(name, n)
            if positions is None:
                file.createVariable(name, str, (name,))[:] = np.array(list("abcd"), object)
            else:
                made = file.createVariable(name, "i2" if name == "packed" else "f8", (name,))
                made.set_auto_maskandscale(False)
                made[:] = positions
                made.units = "m"
            file.createVariable(f"along_{name}", "f4", (name,))[:] = np.arange(n)
        file["packed"].setncatts({"scale_factor": 0.5, "add_offset": 100.0})
        file["along_packed"].coordinates = "uneven"
    with netCDF4.Dataset(folder / "members.nc", "w") as file:
        sizes = {"member": 3, "time": None, "channel": 2, "pressure": 2, "z": 4, "y": 3, "x": 5, "one": 1}
        for name, n in sizes.items():
            file.createDimension(name, n)
        file.createVariable("time", "i8", ("time",))[:] = [0, 6, 12]
        file["time"].units = "hours since 1900-01-01"
        for name, dimensions in (("a", ("member", "time", "z", "y", "x")),
                                 ("b", ("time", "member", "channel", "y", "x")),
                                 ("c", ("z", "y", "x", "pressure")), ("d", ("one", "time", "one", "y", "x")),
                                 ("e", ("pressure", "z", "y", "x", "channel")), ("f", ("time", "z", "y", "x")),
                                 ("g", ("member", "x"))):
            shape = tuple(3 if n == "time" else file.dimensions[n].size for n in dimensions)
            file.createVariable(name, "f4", dimensions)[:] = samples("f4", shape)
        file.createVariable("moment", "f8", ())[...] = 3.25
        file["moment"].setncatts({"units": "days since 2000-01-01", "standard_name": "forecast_reference_time"})
        deep = file.createGroup("deep").createGroup("er")
        deep.createVariable("a", "i2", ("member", "y", "x"))[:] = samples("i2", (3, 3, 5))
        # netCDF4-python would take this x for that of the variable above, too.
        inner = file.createGroup("deep/inner")
        inner.createDimension("x", 6)
        inner.createVariable("b", "u1", ("y", "x"))[:] = samples("u1", (3, 6))


def moments_of_netcdf(folder: Path) -> None:
    """Two numbers that are times, of which one is the field's."""
    orders = (("time", "forecast_reference_time"), ("forecast_reference_time", "time"))
    for number, (order, named) in enumerate(itertools.product(orders, ("", "time", "time forecast_reference_time"))):
        with netCDF4.Dataset(folder / f"two_{number}.nc", "w") as file:
            for name, n in zip("zyx", SHAPE, strict=True):
                file.createDimension(name, n)
            for hours, name in enumerate(order):
                file.createVariable(name, "f8", ())[...] = hours + 10
                file[name].setncatts({"units": "hours since 2000-01-01", "standard_name": name})
            file.createVariable("v", "f4", ("z", "y", "x"))[:] = samples("f4")
            if named:
                file["v"].coordinates = named


def hdf5_files(folder: Path) -> None:
    """Types, layouts and filters of HDF5's own."""
    with h5py.File(folder / "layouts.h5", "w") as file:
        for t in (*TYPES, ">f4", ">f8", ">i2", ">u4", "f2"):
            file[f"types/{t.replace('>', 'big_')}"] = samples(t)
        values = samples("f4", (5, 7, 9))
        layouts: dict[str, dict[str, Any]] = {
            "chunked": {}, "gzip": {"compression": "gzip"}, "lzf": {"compression": "lzf"}, "shuffle": {"shuffle": True},
            "checksum": {"fletcher32": True}, "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
            "grows": {"maxshape": (None, None, 9)}}
        for name, options in layouts.items():
            file.create_dataset(f"layout/{name}", data=values, chunks=(2, 3, 4), **options)
        file.create_dataset("layout/scaled", data=samples("i2"), chunks=SHAPE, scaleoffset=0)
        file["layout/bool"] = values > 3
        file["layout/complex"] = values.astype("c8")
        file["layout/half"] = np.float16(1.5)
        file["layout/scalar"] = 1.5
        file["layout/empty"] = np.zeros((0, 3), "f4")
        file["layout/null"] = h5py.Empty("f4")
        file["layout/text"] = "words"
        file["layout/enumeration"] = values.astype("i1")
        file["row"], file["plane"], file["five"] = values[0, 0], values[0], samples("f4", (2, 3, 2, 3, 4))
        file["four"] = samples("f8", (3, *SHAPE))
        file["linked"] = file["plane"]
        file["other_name"] = h5py.SoftLink("/row")
        layout = h5py.VirtualLayout((10, 7, 9), "f4")
        for k in range(2):
            layout[5 * k:5 * k + 5] = h5py.VirtualSource(".", "layout/gzip", (5, 7, 9))
        file.create_virtual_dataset("virtual", layout)
        for name, fill in (("half_written", -9999.0), ("never_written", -1.0)):
            file.create_dataset(f"fill/{name}", SHAPE, "f4", chunks=(2, 6, 8), fillvalue=fill)
        file["fill/half_written"][:2] = 5
        file.create_dataset("fill/chunks_without", SHAPE, "f4", chunks=(2, 6, 8))[:2] = 5
        file.create_dataset("fill/all_without", SHAPE, "f4")
    with h5py.File(folder / "attributes.h5", "w") as file:
        for name, attributes in {"fill": {"_FillValue": np.float32(3)},
                                 "missing": {"missing_value": np.float32([3, 4])},
                                 "units": {"units": "K"}, "bytes": {"units": np.bytes_("m s-1")}}.items():
            file[name] = samples("f4")
            file[name].attrs.update(attributes)


def tiff_files(folder: Path) -> None:
    """Types, byte orders, compressions, tiles, pages, and the descriptions of ImageJ, OME and tifffile."""
    gray: dict[str, Any] = {"photometric": "minisblack"}
    for t, order in itertools.product(("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "f2", "i8"), "<>"):
        name = f"type_{t}_{'little' if order == '<' else 'big'}.tif"
        tifffile.imwrite(folder / name, samples(t, (3, 20, 33)), byteorder=order, **gray)
    values = samples("u2", (3, 40, 33))
    for name, options in {"deflated": {"compression": "zlib"}, "strips": {"rowsperstrip": 7},
                          "tiles": {"tile": (16, 16)}, "big": {"bigtiff": True},
                          "tiles_deflated": {"tile": (16, 32), "compression": "zlib"}, "separate": {"metadata": None},
                          "volume": {"volumetric": True, "tile": (16, 16, 16)}}.items():
        tifffile.imwrite(folder / f"{name}.tif", values, **gray, **options)
    floats = samples("f4", (3, 40, 33))
    tifffile.imwrite(folder / "plane.tif", values[0], **gray)
    tifffile.imwrite(folder / "white.tif", values[0], photometric="miniswhite")
    tifffile.imwrite(folder / "colours.tif", samples("u1", (20, 33, 3)), photometric="rgb")
    tifffile.imwrite(folder / "four.tif", samples("f4", (2, 3, 20, 33)), **gray)
    tifffile.imwrite(folder / "nodata.tif", floats[0], extratags=[(42113, "s", 0, "2", True)], **gray)
    for axes in ("TYX", "ZYX", "CYX", "TZYX", "ZCYX", "TZCYX"):
        sizes = {"T": 2, "Z": 3, "C": 2, "Y": 12, "X": 10}
        image = samples("u2", tuple(sizes[a] for a in axes))
        tifffile.imwrite(folder / f"imagej_{axes}.tif", image, imagej=True, metadata={"axes": axes})
        tifffile.imwrite(folder / f"ome_{axes}.ome.tif", image, ome=True, metadata={"axes": axes}, **gray)
        tifffile.imwrite(folder / f"shaped_{axes}.tif", image, metadata={"axes": axes}, **gray)


def numpy_files(folder: Path) -> None:
    for t in (*TYPES, ">f4", ">i2", "f2", "c8", "?", "U3"):
        values = samples(t) if t not in ("c8", "?", "U3") else np.zeros(SHAPE, t)
        np.save(folder / f"{t.replace('>', 'big_').replace('?', 'bool')}.npy", values)
    np.save(folder / "fortran.npy", np.asfortranarray(samples("f8")))
    for rank in range(6):
        np.save(folder / f"rank_{rank}.npy", samples("f4", (3, 4, 5, 2, 3)[:rank]) if rank else np.float32(1))
    np.save(folder / "empty.npy", np.zeros((0, 3), "f4"))
    several = {"a": samples("f4"), "b": np.asfortranarray(samples("i2")), "c": samples("i8"), "d": samples("u1")[0],
               "e": samples("f4", (2, *SHAPE))}
    np.savez(folder / "stored.npz", **several)
    np.savez_compressed(folder / "deflated.npz", **several)


def make_all(folder: Path) -> None:
    """Writes every file into a new folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in (types_of_netcdf, attributes_of_netcdf, packing_of_netcdf, random_of_netcdf, axes_of_netcdf,
                     moments_of_netcdf, hdf5_files, tiff_files, numpy_files):
            (folder / make.__name__).mkdir(parents=True)
            make(folder / make.__name__)
