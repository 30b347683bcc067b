"""Exports of fields on several grids: one file has all of them, with one dimension for each axis. What is right, the Dataset says that
was written, and netCDF4, h5py, zarr, numpy and xarray, which read the files."""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest.mock
import warnings

import cftime
import h5py
import netCDF4
import xarray as xr
import zarr
from python_testing import PACKAGE, np, qt, quarry
from test_roundtrip import CASES

from quarry import _export, _export_formats
from quarry._export_command import main
from quarry._xarray import QuarryBackendEntrypoint

SUFFIXES = (".nc", ".h5", ".zarr")
TIMES = np.array(["2001-01-01", "2001-01-02", "2001-01-03"], "M8[ns]")
PLACES = {"depth": np.array([5.0, 15, 40, 100]), "lat": np.linspace(-10, 10, 21), "lon": np.linspace(0, 30, 31),
          "lon_u": np.linspace(-0.5, 30.5, 32), "time": TIMES}
BOUNDS = PLACES["lat"][:, None] + [-0.5, 0.5]


def ocean():
    """A section (depth, lon) that comes first, temperatures (depth, lat, lon), the height of the sea and a count with missing samples
    (lat, lon), a staggered velocity (depth, lat, lon_u), the area of cells, which does not change, a value for each step, numbers along an
    axis without positions, bounds of cells, and coordinates of every sample, of each latitude and of all samples."""
    random = np.random.default_rng(qt.SEED)

    def field(*dims, dtype="f4", **attrs):
        return dims, (100 * random.normal(size=[len(PLACES[dim]) for dim in dims])).astype(dtype), attrs

    fields = {"section": field("time", "depth", "lon"), "temp": field("time", "depth", "lat", "lon", units="K"),
              "ssh": field("time", "lat", "lon"), "count": field("time", "lat", "lon", dtype="i2", _FillValue=np.int16(-999)),
              "u": field("time", "depth", "lat", "lon_u", dtype="f8"), "area": field("lat", "lon", units="m2"), "mean": field("time"),
              "stations": (("station",), np.arange(7.0)), "lat_bnds": (("lat", "bnds"), BOUNDS)}
    fields["count"][1][:, 3:9] = -999
    fields["ssh"][1][:, 5:, 20:] = np.nan
    said = {"depth": {"units": "m", "long_name": "under the sea"}, "lat": {"units": "degrees_north", "bounds": "lat_bnds"}}
    axes = {name: (name, values, said.get(name, {})) for name, values in PLACES.items()}
    return xr.Dataset(fields, {**axes, "angle": field("lat", "lon", units="degrees"), "cell": ("lat", np.arange(21)), "height": 2.0},
                      {"title": "Ocean"})


def is_date(variable):
    return isinstance(variable.values.flat[0], cftime.datetime)


def is_text(variable):
    return variable.dtype.kind in "OSUT" and not is_date(variable)


def opened(path):
    """By the reader of xarray for the format, in memory."""
    with xr.open_dataset(path, engine="zarr" if path.suffix == ".zarr" else "netcdf4") as found:
        return found.load()


class Ending:
    """The C++ client's dataset, which counts what is read and how many bytes at most at a time, and fails at a read."""

    def __init__(self, native, at=-1):
        self._native, self._at, self.count, self.largest = native, at, 0, 0

    def __getattr__(self, name):
        return getattr(self._native, name)

    def read(self, *arguments):
        self.count += 1
        if self.count == self._at:
            raise ArithmeticError("enough")
        answer = self._native.read(*arguments)
        self.largest = max(self.largest, answer.array.nbytes)
        return answer


class Exports(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.shared / "ocean.quarry"
        cls.data = xr.decode_cf(ocean())
        quarry.write(cls.path, ocean(), lossless=True)

    def write(self, data, name="source", **options):
        path = self.tmp / f"{name}.quarry"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quarry.write(path, data, lossless=True, **options)
        return path

    def export(self, suffix, source=None, **options):
        """The file, and what is said of it."""
        path = self.tmp / f"out{suffix}"
        with quarry.open(source or self.path) as dataset, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset.export(path, overwrite=True, **options)
        return path, [str(warning.message) for warning in caught]

    def everywhere(self, **options):
        """The Dataset that xarray reads of each format, without warnings."""
        for suffix in SUFFIXES:
            with self.subTest(suffix):
                path, said = self.export(suffix, **options)
                self.assertEqual(said, [])
                yield opened(path)


class Formats(Exports):
    DIMS = {"section": ("time", "depth", "lon"), "temp": ("time", "depth", "lat", "lon"), "ssh": ("time", "lat", "lon"),
            "count": ("time", "lat", "lon"), "u": ("time", "depth", "lat", "lon_u"), "area": ("lat", "lon"), "mean": ("time",),
            "stations": ("station",), "lat_bnds": ("lat", "bnds"), "angle": ("lat", "lon"), "cell": ("lat",), "height": ()}
    LENGTHS = {"time": 3, "depth": 4, "lat": 21, "lon": 31, "lon_u": 32, "station": 7, "bnds": 2}
    BESIDE = {"section": "height", "temp": "angle cell height", "u": "cell height", "mean": "height", "lat_bnds": "cell height"}

    def raw(self, name):
        """As it is stored."""
        return ocean()[name].values

    def test_netcdf4_finds_one_dimension_for_each_axis(self):
        path, said = self.export(".nc")
        self.assertEqual(said, [])
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            self.assertEqual({name: dim.size for name, dim in file.dimensions.items()}, self.LENGTHS)
            self.assertEqual(set(file.variables), {*self.DIMS, *PLACES})
            for name, dims in self.DIMS.items():
                with self.subTest(name):
                    self.assertEqual(file[name].dimensions, dims)
                    np.testing.assert_array_equal(file[name][...], self.raw(name))
            self.assertEqual({name: file[name].coordinates for name in self.BESIDE}, self.BESIDE)
            self.assertFalse(any("coordinates" in file[name].ncattrs() for name in ("angle", "cell", "height")))
            self.assertEqual({name: file[name].axis for name in PLACES},
                             {"time": "T", "depth": "Z", "lat": "Y", "lon": "X", "lon_u": "X"})
            self.assertEqual((file["depth"].long_name, file["lat"].units, file["temp"].units), ("under the sea", "degrees_north", "K"))
            np.testing.assert_array_equal(file["temp"].box, [0, 4, 0, 21, 0, 31])
            np.testing.assert_array_equal(file["stations"].box, [0, 1, 0, 1, 0, 7])
            self.assertNotIn("box", file.ncattrs())

    def test_h5py_finds_scales(self):
        path, _ = self.export(".h5")
        with h5py.File(path) as file:
            for name, dims in self.DIMS.items():
                with self.subTest(name):
                    self.assertEqual(tuple(dim[0].name[1:] for dim in file[name].dims), dims)
                    np.testing.assert_array_equal(file[name][()], self.raw(name))
            for name in PLACES:
                self.assertTrue(file[name].is_scale)

    def test_zarr_finds_names(self):
        path, _ = self.export(".zarr")
        group = zarr.open_consolidated(str(path))
        self.assertEqual(set(group.array_keys()), {*self.DIMS, *PLACES})
        for name, dims in self.DIMS.items():
            with self.subTest(name):
                self.assertEqual(group[name].metadata.dimension_names or (), dims)
                np.testing.assert_array_equal(group[name][...], self.raw(name))

    def test_numpy_finds_arrays_of_their_own_shapes(self):
        path, said = self.export(".npz")
        self.assertEqual(said, [])
        with np.load(path) as arrays:
            self.assertEqual(set(arrays), {*self.DIMS, *PLACES, "quarry.json"})
            for name in self.DIMS:
                np.testing.assert_array_equal(arrays[name], self.raw(name))
            described = json.loads(arrays["quarry.json"])
        self.assertEqual({one["field"]: tuple(one["dimensions"]) for one in described["fields"]}, self.DIMS)

    def test_xarray_gets_the_dataset_that_was_written(self):
        for found in self.everywhere():
            xr.testing.assert_equal(found, self.data)
            self.assertEqual({name: found[name].dtype for name in found.variables},
                             {name: self.data[name].dtype if name != "cell" else np.int64 for name in self.data.variables})

    def test_some_of_the_fields(self):
        for found in self.everywhere(fields=["ssh", "u", "height"], steps=[0, 2]):
            wanted = self.data[["ssh", "u"]].drop_vars(["angle", "cell"]).isel(time=[0, 2])
            xr.testing.assert_equal(found, wanted.assign_coords(step=("time", [0, 2])))

    def test_xarray_gets_what_the_engine_shows(self):
        for level in (0, 1, 2):
            with xr.open_dataset(self.path, engine=QuarryBackendEntrypoint, level=level) as shown:
                shown.load()
            for found in self.everywhere(level=level):
                xr.testing.assert_equal(found, shown)
                self.assertEqual(found["temp"].attrs["level"], level)


class Same(Exports):
    """xarray reads an export as the engine shows it, for all kinds of Datasets."""

    UNNAMED = {"bears of xarray": {"l"}, "test data of xarray": {"time"}, "coordinate of scipy": {"Temperature"},
               "a mesh": {"node_x", "node_y"}, "positions that nothing uses": {"edges"}}
    """Coordinates along dimensions that no field has: CF cannot say what they are."""

    def assert_shown(self, name, found, shown, said):
        self.assertEqual([one for one in said if "left out" in one and "attributes" not in one], [])
        found = found.set_coords(self.UNNAMED.get(name, ()))
        self.assertTrue(self.UNNAMED.get(name, set()) <= set(found.coords))
        xr.testing.assert_equal(found, shown)
        for one in shown.variables:
            if one in shown.indexes and not is_text(shown[one]):
                self.assertEqual(found[one].dtype, shown[one].dtype, one)
            for key, value in shown[one].attrs.items():
                is_number = isinstance(value, (np.number, np.ndarray)) and np.isfinite(value).all()
                if isinstance(value, str) or is_number:  # other types become texts
                    np.testing.assert_array_equal(found[one].attrs[key], value, f"{one}.{key}")

    def test_what_the_engine_shows(self):
        for name, make in CASES.items():
            source = self.write(make(), name)
            with xr.open_dataset(source, engine=QuarryBackendEntrypoint) as shown:
                shown.load()
            for suffix in (".nc", ".zarr"):
                with self.subTest(name, suffix=suffix):
                    path, said = self.export(suffix, source)
                    self.assert_shown(name, opened(path), shown, said)


    def test_positions_that_are_said_later_are_those_of_all_fields(self):
        source = self.write(xr.Dataset({"a": (("y", "x"), np.arange(30).reshape(5, 6))}))
        placed = xr.Dataset({"b": ("x", np.arange(6.0))}, {"x": ("x", np.arange(6.0), {"long_name": "east"})})
        quarry.write(source, placed, lossless=True, mode="append")
        for found in self.everywhere(source=source):
            self.assertEqual(found["a"].coords["x"].attrs["long_name"], "east")
            self.assertNotIn("y", found.coords)


STATIONS = [f"Köln {i}" for i in range(40)]


def stations():
    """Rain at stations, which are called, by weeks, which have names beside their numbers, with a text for all; and, on grids of their
    own, what is of the stations alone, and of none."""
    random = np.random.default_rng(qt.SEED)
    fields = {"rain": (("time", "station", "week"), random.normal(size=(3, 40, 12)).astype("f4"), {"units": "mm"}),
              "height": ("station", random.normal(size=40)), "alone": ("week_of_all", np.arange(5.0)),
              "depth": (("time", "level", "x"), np.zeros((3, 2, 9), "f4"))}
    return xr.Dataset(fields, {
        "time": TIMES, "station": ("station", STATIONS, {"long_name": "where it is", "cf_role": "timeseries_id"}),
        "week": np.arange(2, 14, dtype="i2"), "of_week": ("week", [f"week {i}" * (i % 3) for i in range(12)]), "region": "Rhein",
        "country": ("station", np.array(["D", "NL"] * 20, object), {"standard_name": "region", "count": np.int16(2)})})


class Texts(Exports):
    """Coordinates of text."""

    NAMES = ("station", "country", "of_week", "region")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.shared / "stations.quarry"
        cls.data = stations()
        quarry.write(cls.path, stations(), lossless=True, patch=4)

    def assert_named(self, coordinates_of):
        """The names in `coordinates` of each field."""
        self.assertEqual({name: set(coordinates_of(name).split()) for name in ("rain", "height", "alone", "depth")}, {
            "rain": {"country", "of_week", "region"}, "height": {"country", "region"}, "alone": {"region"}, "depth": {"region"}})

    def test_netcdf4_finds_strings(self):
        path, said = self.export(".nc")
        self.assertEqual(said, [])
        with netCDF4.Dataset(path) as file:
            for name in self.NAMES:
                wanted = self.data[name]
                self.assertEqual((file[name].dtype, file[name].dimensions), (str, wanted.dims))
                np.testing.assert_array_equal(file[name][...], wanted.values)
                self.assertEqual({key: file[name].getncattr(key) for key in file[name].ncattrs()}, wanted.attrs)
            self.assertEqual(file["country"].getncattr("count").dtype, np.int16)
            self.assert_named(lambda name: file[name].coordinates)

    def test_h5py_finds_strings_and_scales(self):
        path, said = self.export(".h5")
        self.assertEqual(said, [])
        with h5py.File(path) as file:
            for name in self.NAMES:
                self.assertEqual(h5py.check_string_dtype(file[name].dtype), ("utf-8", None))
                np.testing.assert_array_equal(file[name].asstr()[()], self.data[name].values)
            self.assertEqual([file[name].is_scale for name in self.NAMES], [True, False, False, False])
            for name, dims in (("rain", ("time", "station", "week")), ("height", ("station",)), ("country", ("station",)),
                               ("of_week", ("week",))):
                self.assertEqual([dim[0].name for dim in file[name].dims], [f"/{dim}" for dim in dims])
            self.assert_named(lambda name: file[name].attrs["coordinates"])

    def test_zarr_finds_strings(self):
        path, said = self.export(".zarr")
        self.assertEqual(said, [])
        group = zarr.open_consolidated(str(path))
        for name in self.NAMES:
            wanted = self.data[name]
            metadata = json.loads((path / name / "zarr.json").read_text())
            self.assertEqual((metadata["data_type"], metadata["codecs"][0]["name"]), ("string", "vlen-utf8"))
            self.assertEqual(group[name].metadata.dimension_names or (), wanted.dims)
            np.testing.assert_array_equal(np.asarray(group[name][...], object), wanted.values.astype(object))
            self.assertEqual(dict(group[name].attrs), wanted.attrs)
        self.assert_named(lambda name: group[name].attrs["coordinates"])

    def test_numpy_finds_texts(self):
        path, said = self.export(".npz")
        self.assertEqual(said, [])
        with np.load(path) as arrays:
            for name in self.NAMES:
                self.assertEqual(arrays[name].dtype.kind, "U")
                np.testing.assert_array_equal(arrays[name], self.data[name].values)

    def test_xarray_gets_those_of_a_box_and_a_level(self):
        for level in (0, 1, 2):
            data = self.data.isel({dim: slice(None, None, 1 << level) for dim in self.data.dims if dim != "time"})
            for found in self.everywhere(level=level):
                xr.testing.assert_equal(found, data)
                self.assertEqual(found["week"].dtype, np.int16)
            data = data.sel(week=slice(4, 11))
            for found in self.everywhere(level=level, box={"week": (4, 11)}):
                xr.testing.assert_equal(found, data)
            for found in self.everywhere(level=level, fields="rain", box=((0, 1), (5, 21), (3, 9))):
                places = {"station": slice(5, 21), "week": slice(3, 9)}
                shown = {dim: np.arange(40)[place][np.arange(40)[place] % (1 << level) == 0] for dim, place in places.items()}
                xr.testing.assert_equal(found, self.data[["rain"]].isel(shown))

    def test_fields_have_those_of_their_dimensions(self):
        for found in self.everywhere(fields="depth"):
            xr.testing.assert_equal(found, self.data[["depth"]])

    def test_descriptions_beside_files_have_them(self):
        import tifffile
        wanted = {name: np.atleast_1d(self.data[name].values).tolist() for name in self.NAMES}
        path, said = self.export(".npy", fields="rain")
        self.assertEqual(said, [])
        described = [json.loads(path.with_name("out.npy.json").read_text())]
        path, said = self.export(".tif", fields="rain", level=1)
        self.assertEqual(said, [])
        with tifffile.TiffFile(path) as file:
            described.append(json.loads(file.imagej_metadata["Info"]))
        path, said = self.export(".csv", fields="height")
        self.assertEqual(said, [])
        described.append(json.loads(path.with_name("out.csv.json").read_text()))
        self.assertEqual({name: described[0]["coordinates"][name]["values"] for name in wanted}, wanted)
        self.assertEqual(described[0]["coordinates"]["country"] | {"values": None}, {
            "standard_name": "region", "count": 2, "dimension": "station", "values": None})
        self.assertEqual(described[1]["coordinates"]["country"]["values"], wanted["country"][::2])
        self.assertNotIn("of_week", described[2]["coordinates"])

    def test_vtk_has_none(self):
        for suffix in (".vtr", ".pvd"):
            _, said = self.export(suffix, fields="height")
            self.assertEqual([one for one in said if "of text" in one],
                             ["the coordinates of text 'region', 'country', 'station' are left out: this format has none"])

    def test_what_formats_cannot_have(self):
        """Texts of NetCDF and HDF5 end at their first zero, those of numpy before zeros at their end; names in `coordinates` have spaces
        between them."""
        inside, end, long, plain = ([*first, *"abcdefghijkl"] for first in (["a\0b"], ["c\0"], ["x" * 9000], ["é"]))
        coords = {"inside": inside, "at_the_end": end, "long": long, "two words": plain, "one": plain}
        source = self.write(xr.Dataset({"t": ("s", np.arange(13.0))}, {
            name: ("s", np.array(texts, object)) for name, texts in coords.items()}))
        spaced = ("no field names 'two words' as its coordinate in this format, whose list of coordinates has spaces between names; it "
                  "is a variable like others")
        left = "the coordinates of text 'inside', 'at_the_end' are left out: they hold zeros, at which texts of this format end"
        alone = [f"the texts of {name!r} are in quarry.json alone: numpy's type of text gives each the room of the longest, and drops "
                 "zeros at the end" for name in ("at_the_end", "long")]
        for suffix, wanted in ((".nc", [left, spaced]), (".h5", [left, spaced]), (".zarr", [spaced]), (".npz", alone)):
            path, said = self.export(suffix, source)
            self.assertEqual(said, wanted, suffix)
            if suffix == ".npz":
                with np.load(path) as arrays:
                    described = json.loads(arrays["quarry.json"])["coordinates"]
                    self.assertEqual(set(arrays), {"t", "inside", "two words", "one", "quarry.json"})
                    self.assertEqual(arrays["inside"].tolist(), inside)
                self.assertEqual([described[name]["values"] for name in ("at_the_end", "long")], [end, long])
                continue
            found = opened(path)
            kept = {"one", "long", *(["inside", "at_the_end"] if suffix == ".zarr" else [])}
            self.assertEqual((set(found.coords), set(found.data_vars)), (kept, {"t", "two words"}))
            self.assertEqual(set(found["t"].encoding["coordinates"].split()), kept)
            self.assertEqual({name: found[name].values.tolist() for name in kept}, {name: coords[name] for name in kept})

    def test_what_is_interrupted_goes_on_with_the_same_texts(self):
        other = self.write(stations().assign_coords(region="Ruhr"), patch=4)
        with quarry.open(self.path) as dataset, quarry.open(other) as changed:
            dataset._native = Ending(dataset.native, at=5)
            with self.assertRaises(ArithmeticError):
                dataset.export(self.tmp / "out.nc")
            with self.assertRaisesRegex(quarry.Error, "begun with other content"):
                changed.export(self.tmp / "out.nc", resume=True)

    def test_they_convert_back(self):
        for suffix in SUFFIXES:
            path, _ = self.export(suffix)
            with xr.open_dataset(path, engine="zarr" if suffix == ".zarr" else "netcdf4") as found:
                self.assert_back(self.write(found, f"again{suffix}"), self.data)

    def test_the_writer_converts_them_back(self):
        path, _ = self.export(".nc")
        qt.succeed("quarry-write", f"{path}:rain", "--lossless", "--output", self.tmp / "again.quarry")
        self.assert_back(self.tmp / "again.quarry", self.data[["rain"]])

    def assert_back(self, path, wanted):
        with xr.open_dataset(path, engine=QuarryBackendEntrypoint) as shown:
            xr.testing.assert_equal(shown.load(), wanted)
            for name in self.NAMES:
                self.assertEqual(shown[name].attrs, wanted[name].attrs)


class Ends(Exports):
    """Ends of means are in the unit of the times that name them, as CF 7.1 wants."""

    WORDS = {"units": "hours since 2001-02-27 06:00:00"}

    def means(self, calendar, ends_calendar=None, name="bounds"):
        """Means of cftime's dates, but for the ends of the second, which are missing."""
        def dates(hours, calendar):
            return np.array([cftime.num2date(hour, self.WORDS["units"], calendar) for hour in hours.flat]).reshape(hours.shape)

        hours = np.array([[0, 6], [6, 12.5], [12.5, 36]])
        ends = dates(hours, ends_calendar or calendar)
        ends[1] = np.nan
        time = xr.Variable("time", dates(hours.mean(axis=1), calendar), {name: "ends"}, {**self.WORDS, "calendar": calendar})
        return xr.Dataset({"t": (("time", "x"), np.zeros((3, 9), "f4")), "ends": (("time", "nv"), ends, {"long_name": "ends"})},
                          {"time": time}), hours

    def test_netcdf4_finds_numbers_in_the_unit_of_the_time(self):
        for calendar in ("noleap", "360_day", "julian"):
            for name in ("bounds", "climatology"):
                data, hours = self.means(calendar, name=name)
                path, said = self.export(".nc", self.write(data, calendar + name), steps=[0, 1, 2])
                self.assertEqual(said, [])
                with self.subTest(calendar + name), netCDF4.Dataset(path) as file:
                    file.set_auto_mask(False)
                    ends, time = file["ends"], file["time"]
                    hours[1] = np.nan
                    self.assertEqual((ends.dtype, time.calendar), (np.float64, calendar))
                    self.assertEqual(cftime.num2date(0, time.units, calendar), cftime.num2date(0, self.WORDS["units"], calendar))
                    np.testing.assert_allclose(ends[...], hours, rtol=1e-14)
                    units = [] if name == "bounds" else ["units", "calendar"]  # see xarray.conventions: it looks for units of "bounds"
                    self.assertEqual([key for key in ends.ncattrs() if key in ("units", "calendar", "dtype")], units)
                    self.assertTrue(all(ends.getncattr(key) == time.getncattr(key) for key in units))
                    self.assertEqual((ends.long_name, ends.max_error, ends.tolerance), ("ends", 0, 0))

    def test_some_steps_and_a_level(self):
        data, hours = self.means("noleap")
        source = self.write(data, patch=2)
        for suffix in SUFFIXES:
            path, _ = self.export(suffix, source, steps=[1, 2], level=1)
            with xr.open_dataset(path, engine="zarr" if suffix == ".zarr" else "netcdf4", decode_times=False) as found:
                np.testing.assert_array_equal(found["ends"], [[np.nan], [12.5]])
                # An end that is left out lies within the larger of both errors, in hours.
                self.assertLess(found["ends"].attrs["max_error"], 48)
                self.assertGreaterEqual(found["ends"].attrs["max_error"], 23.5)

    def test_units_that_are_none_of_the_time_stay(self):
        data, _ = self.means("noleap", "360_day")
        path, _ = self.export(".nc", self.write(data))
        with netCDF4.Dataset(path) as file:
            self.assertEqual((file["time"].calendar, file["ends"].calendar, file["ends"].dtype), ("noleap", "360_day", np.int64))


class Boxes(Exports):
    SEA = {"lat": (-3, 4), "lon": (10, 20)}

    def cut(self, *without, **places):
        return self.data.drop_vars(without).sel({axis: slice(*ends) for axis, ends in places.items()})

    def test_positions_are_those_of_each_field_that_has_the_axis(self):
        for found in self.everywhere(box=self.SEA):
            xr.testing.assert_equal(found, self.cut(**self.SEA))
            np.testing.assert_array_equal(found["u"].attrs["box"], [0, 4, 7, 15, 0, 32])
            np.testing.assert_array_equal(found["area"].attrs["box"], [0, 1, 7, 15, 10, 21])

    def test_a_box_of_a_level(self):
        for found in self.everywhere(box={"lat": (-3, 4), "lon_u": (None, 7)}, level=1):
            cut = self.data.isel({dim: slice(None, None, 2) for dim in self.data.dims if dim != "time"})
            xr.testing.assert_equal(found, cut.sel(lat=slice(-3, 4), lon_u=slice(None, 7)))

    def test_a_letter_is_an_axis_where_it_is_one_of_all_fields(self):
        for found in self.everywhere(fields=["temp", "ssh", "angle", "cell", "height"], box={"x": (10, 20), "y": (-3, 4)}):
            xr.testing.assert_equal(found, self.cut(**self.SEA)[["temp", "ssh"]])

    def test_a_letter_that_is_several_axes_is_refused(self):
        with quarry.open(self.path) as dataset:
            for box, text in (({"x": (1, 2)}, "axis 'x' is another one on each grid: lon, lon_u, station; give the box by these names"),
                              ({"y": (1, 2)}, "axis 'y' is another one on each grid: depth, lat;"),
                              ({"lat": (1, 2), "z": (1, 9), "depth": (3, 8)}, "\"z\" and \"depth\" are the same axis; give it once")):
                with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                    dataset.export(self.tmp / "out.nc", box=box)
            with self.assertRaisesRegex(quarry.Error, "no axis 'lat_v'; the axes are depth, lon, lat, lon_u, station, bnds"):
                dataset.export(self.tmp / "out.nc", box={"lat_v": (1, 2)})
            with self.assertRaisesRegex(quarry.Error, "no sample lies from 50 to 60 along lat"):
                dataset.export(self.tmp / "out.nc", box={"lat": (50, 60)})
            with self.assertRaisesRegex(TypeError, "not possible"):
                dataset.export(self.tmp / "out.nc", box={"lat": "all"})

    def test_samples_are_those_of_one_grid(self):
        """Fields that describe its fields follow along its axes."""
        names = ["temp", "area", "lat_bnds", "angle", "cell", "height"]
        wanted = self.data.isel(depth=slice(0, 2), lat=slice(7, 15), lon=slice(10, 21))
        for found in self.everywhere(fields=["temp", *names[2:]], box=((0, 2), (7, 15), (10, 21))):
            xr.testing.assert_equal(found, wanted[["temp", "lat_bnds"]])
        source = self.write(ocean()[["temp", "lat_bnds"]])
        for found in self.everywhere(source=source, box=((0, 2), (7, 15), (10, 21))):
            xr.testing.assert_equal(found, wanted[["temp", "lat_bnds"]])

    def test_samples_of_several_grids_are_refused(self):
        with quarry.open(self.path) as dataset:
            for fields, text in ((["temp", "u"], r"temp \(4, 21, 31\), u \(4, 21, 32\) samples \(z, y, x\)"),
                                 (None, r"section \(1, 4, 31\), temp \(4, 21, 31\), .*, mean \(1, 1, 1\) samples \(z, y, x\)")):
                with self.subTest(fields), self.assertRaisesRegex(
                        ValueError, rf"fields lie on several: {text}; give positions, box=.*, or .*fields="):
                    dataset.export(self.tmp / "out.nc", fields=fields, box=((0, 2), (0, 5), (0, 5)))
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_the_command_has_both(self):
        def command(*arguments):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = main([str(self.path), str(self.tmp / "out.nc"), "--overwrite", *arguments])
            return code, said.getvalue()

        self.assertEqual(command("--region", "lat=-3:4,lon=10:20"), (0, ""))
        xr.testing.assert_equal(opened(self.tmp / "out.nc"), self.cut(**self.SEA))
        self.assertEqual(command("--fields", "temp,height", "--box", "10:21,7:15,:"), (0, ""))
        xr.testing.assert_equal(opened(self.tmp / "out.nc"), self.cut("angle", "cell", **self.SEA)[["temp"]])
        code, said = command("--box", "0:5,0:5,:")
        self.assertEqual(code, 2)
        self.assertRegex(said, "^quarry export: .*give positions, --region AXIS=LOW:HIGH, or fields of one grid, --fields NAME\n$")
        code, said = command("--region", "lat=0:1,lat=2:3")
        self.assertEqual((code, said), (2, 'quarry export: "lat" and "lat" are the same axis; give it once\n'))


class Levels(Exports):
    def test_a_level_within_an_error_is_that_of_fields_that_describe_no_others(self):
        data = ocean()[["temp", "ssh", "mean", "lat_bnds"]]
        data["temp"] = xr.zeros_like(data["temp"])
        data["ssh"] = xr.full_like(data["ssh"], 2)
        source = self.write(data)
        path, said = self.export(".nc", source, max_error=1e-6)
        with quarry.open(source) as dataset:
            coarsest = dataset["temp"].levels - 1
            with self.assertRaisesRegex(ValueError, "max_error names section; there are temp, ssh, mean"):
                dataset.export(path, overwrite=True, max_error={"section": 1})
        self.assertGreater(coarsest, 1)
        self.assertEqual((opened(path).attrs["level"], said), (coarsest, []))

    def test_grids_of_fewer_levels(self):
        """Coordinates and single samples are in each, other fields are left out by their names."""
        data = ocean().drop_vars("angle")
        source = self.write(data[["u", "mean"]], patch=4)
        quarry.write(source, data[["ssh"]], lossless=True, mode="append", patch=8, levels=4)
        with quarry.open(source) as dataset:
            self.assertEqual({name: dataset[name].levels for name in dataset}, {"u": 3, "mean": 1, "cell": 3, "height": 1, "ssh": 4})
        for suffix in SUFFIXES:
            for box in (None, {"lat": (-3, 9)}):
                path, said = self.export(suffix, source, level=3, box=box)
                self.assertEqual(said, ["'u' are left out: level 3 is coarser than all levels that they have"])
                wanted = self.data[["ssh", "mean"]].drop_vars("angle").isel(lat=slice(None, None, 8), lon=slice(None, None, 8))
                found = opened(path)
                xr.testing.assert_equal(found, wanted.sel(lat=slice(-3, 9)) if box else wanted)
                self.assertEqual([name for name in ("mean", "cell", "ssh") if "max_error" in found[name].attrs], ["mean", "ssh"])
            with self.assertRaisesRegex(ValueError, "level 3 is coarser than all levels of 'u'; give a finer level"):
                self.export(suffix, source, fields=["ssh", "u"], level=3)
            with self.assertRaisesRegex(ValueError, "there is no level 4; the dataset has levels 0, full resolution, to 3"):
                self.export(suffix, source, level=4)


class OneGrid(Exports):
    """Formats that hold one grid, or one field."""

    def test_what_nobody_names_is_left_out_by_name(self):
        import pyvista
        source = self.write(ocean().drop_vars(["section", "mean", "stations", "count"]))
        path, said = self.export(".vtr", source, steps=1)
        read = pyvista.read(path)
        self.assertEqual(set(read.point_data), {"temp"})
        np.testing.assert_array_equal(read["temp"].reshape(4, 21, 31), self.data["temp"][1])
        self.assertEqual([one for one in said if "left out" in one and "attributes" not in one], [
            "'lat_bnds', 'angle', 'cell', 'height' are left out, which describe other fields: they lie on another grid; export them by "
            "their names",
            "'ssh', 'u', 'area' are left out: the format holds fields of one grid, here that of 'temp'; export them by their names"])

    def test_what_is_named_is_refused(self):
        for suffix in (".vti", ".vtr", ".pvti", ".pvd", ".csv"):
            with self.subTest(suffix), quarry.open(self.path) as dataset, self.assertRaisesRegex(
                    ValueError, r"holds fields of one grid, .*: temp \(4, 21, 31\), ssh \(1, 21, 31\) .*export to .nc, .h5, .zarr or .npz"):
                dataset.export(self.tmp / f"out{suffix}", fields=["temp", "ssh"])
        for suffix in (".npy", ".tif"):
            for fields, count in ((None, 8), (["temp", "ssh"], 2)):
                with self.subTest(suffix), quarry.open(self.path) as dataset, self.assertRaisesRegex(
                        ValueError, f"holds one field, and these are {count}"):
                    dataset.export(self.tmp / f"out{suffix}", fields=fields)

    def test_one_field_of_any_grid(self):
        path, said = self.export(".npy", fields="u")
        np.testing.assert_array_equal(np.load(path), self.data["u"])
        path, _ = self.export(".tif", fields="ssh")
        import tifffile
        np.testing.assert_array_equal(tifffile.imread(path).reshape(3, 21, 31), self.data["ssh"])
        path, _ = self.export(".csv", fields="section", box={"depth": (15, 15)}, steps=0)
        rows = path.read_text().splitlines()
        self.assertEqual([row.split(",")[-1] for row in rows[1:]], [str(one) for one in self.data["section"][0, 1].values])


class OneAfterTheOther(Exports):
    """Boxes of all grids: what is interrupted goes on, and memory has a bound."""

    def setUp(self):
        super().setUp()
        for module, name, value in ((_export, "_BOX_BYTES", 1 << 11), (_export_formats, "_ZARR_CHUNK_BYTES", 1 << 11)):
            patcher = unittest.mock.patch.object(module, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)
        self.path = self.write(ocean(), patch=8)

    def test_an_interruption_costs_nothing_that_was_done(self):
        for suffix in (*SUFFIXES, ".npz"):
            with self.subTest(suffix), quarry.open(self.path) as dataset:
                native = dataset.native
                counter = dataset._native = Ending(native)
                dataset.export(self.tmp / f"whole{suffix}")
                self.assertGreater(counter.count, 60)
                dataset._native = Ending(native, at=40)
                path = self.tmp / f"out{suffix}"
                with self.assertRaises(ArithmeticError):
                    dataset.export(path)
                self.assertFalse(path.exists())
                with self.assertRaisesRegex(quarry.Error, "begun with other .*shape, offset"):
                    dataset.export(path, resume=True, box={"lat": (0, 4)})
                rest = dataset._native = Ending(native)
                dataset.export(path, resume=True)
                self.assertEqual(rest.count, counter.count - 39)
                if suffix == ".npz":
                    with np.load(path) as arrays:
                        np.testing.assert_array_equal(arrays["u"], self.data["u"])
                else:
                    xr.testing.assert_equal(opened(path), self.data)

    def test_boxes_of_a_finer_level_are_no_larger(self):
        """A coordinate that has fewer levels is read at its coarsest."""
        angle = np.arange(1100.0)[:, None] + np.arange(600)
        first, then = (xr.Dataset({name: ((layer, "lat", "lon"), np.zeros((2, 1100, 600), "f4"))})
                       for name, layer in (("temp", "z"), ("q", "k")))
        source = self.write(first.assign_coords(angle=(("lat", "lon"), angle)), "finer", patch=16, levels=3)
        quarry.write(source, then, lossless=True, mode="append", patch=16, levels=4)
        most = 128 * 128 * 8  # a patch of the coordinate at its level 2, where it has 512 x 512 samples
        with quarry.open(source) as dataset, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual({name: dataset[name].levels for name in dataset}, {"temp": 3, "angle": 3, "q": 4})
            counter = dataset._native = Ending(dataset.native)
            with unittest.mock.patch.object(_export, "_BOX_BYTES", most):
                dataset.export(self.tmp / "out.nc", level=3)
        self.assertEqual([str(one.message) for one in said], ["'temp' are left out: level 3 is coarser than all levels that they have"])
        self.assertLessEqual(counter.largest, most)
        np.testing.assert_array_equal(opened(self.tmp / "out.nc")["angle"], angle[::8, ::8])

    def test_what_is_there_is_replaced_on_demand(self):
        with quarry.open(self.path) as dataset, contextlib.redirect_stderr(io.StringIO()) as shown:
            dataset.export(self.tmp / "out.nc", fields=["temp", "ssh"])
            with self.assertRaisesRegex(quarry.Error, "exists"):
                dataset.export(self.tmp / "out.nc")
            dataset.export(self.tmp / "out.nc", overwrite=True, progress=True)
        self.assertRegex(shown.getvalue(), "out.nc: 100%")
        xr.testing.assert_equal(opened(self.tmp / "out.nc"), self.data)

    def test_memory_has_a_bound(self):
        """96 MiB on two grids, 2 MiB at a time, by the largest memory of a process that has loaded all libraries."""
        code = ("import resource, sys; sys.path.insert(0, sys.argv[1]); import quarry\n"
                "from quarry import _export\n"
                "_export._BOX_BYTES, _export._RECORD_BYTES = 2 << 20, 4 << 20\n"
                "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
                "with quarry.open(sys.argv[2], threads=2) as dataset:\n"
                "    for suffix in sys.argv[4:]: dataset.export(sys.argv[3] + '/small' + suffix, box={'z': (0, 40), 'y': (0, 99)})\n"
                "    for suffix in sys.argv[4:]:\n"
                "        before = peak()\n"
                "        dataset.export(sys.argv[3] + '/large' + suffix)\n"
                "        print(suffix, peak() - before)\n")
        z, y, x = (np.arange(length, dtype="f4") for length in (48, 512, 512))
        array = np.sin(z / 31)[:, None, None] + np.cos(y / 47)[:, None] * np.sin(x / 13)
        data = xr.Dataset({"w": (("z", "y", "x"), array), "u": (("z", "y", "x_u"), array[:, :, 1:])})
        quarry.write(self.tmp / "large.quarry", data, tolerance=1e-2, patch=32)
        answer = subprocess.run([sys.executable, "-c", code, PACKAGE, self.tmp / "large.quarry", self.tmp, *SUFFIXES],
                                capture_output=True, text=True, env=os.environ)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        grown = dict(line.split() for line in answer.stdout.splitlines())
        self.assertEqual(list(grown), list(SUFFIXES))
        for suffix, mebibytes in grown.items():
            self.assertLess(int(mebibytes), 40, suffix)
        with h5py.File(self.tmp / "large.h5") as file:
            self.assertLessEqual(np.abs(file["u"][40] - array[40, :, 1:]).max(), 1e-2)


class Back(Exports):
    def test_exports_convert_back(self):
        for suffix in SUFFIXES:
            with self.subTest(suffix):
                path, _ = self.export(suffix)
                again = self.tmp / f"again{suffix}.quarry"
                with xr.open_dataset(path, engine="zarr" if suffix == ".zarr" else "netcdf4") as found:
                    quarry.write(again, found, lossless=True)
                with xr.open_dataset(again, engine=QuarryBackendEntrypoint) as shown:
                    xr.testing.assert_equal(shown.load(), self.data)
                with quarry.open(again) as dataset, quarry.open(self.path) as first:
                    self.assertEqual(set(dataset), set(first))
                    for name in first:
                        with self.subTest(name):
                            self.assertEqual(dataset[name].shape, first[name].shape)
                            self.assertEqual(dataset[name].grid.has_axis, first[name].grid.has_axis)
                            self.assertEqual((dataset[name].still, dataset[name].is_coordinate),
                                             (first[name].still, first[name].is_coordinate))

    def test_the_writer_converts_files_back(self):
        path, _ = self.export(".nc")
        names = ("temp", "ssh", "u", "section", "area")
        qt.succeed("quarry-write", *(f"{path}:{name}" for name in names), "--lossless", "--output", self.tmp / "again.quarry")
        with quarry.open(self.tmp / "again.quarry") as dataset:
            for name in names:
                np.testing.assert_array_equal(dataset[name][:].squeeze(), self.data[name].values.squeeze(), name)


if __name__ == "__main__":
    qt.main()
