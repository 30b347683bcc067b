"""Metadata of exports: attributes, axes and times as CF has them, still fields, and coordinate fields. netCDF4, h5py,
zarr and xarray find those of the Dataset that was written."""

import contextlib
import io
import json
import warnings

import h5py
import netCDF4
import xarray as xr
import zarr
from python_testing import np, qt, quarry

from quarry._export_command import main

GLOBAL = {"title": "Sea", "institution": "École", "version": np.int32(7), "threshold": np.float32(0.1), "mean": 2.5,
          "levels": np.array([1, 2, 3], "i2"), "authors": ["a", "É"], "empty": "", "history": "x" * 100_000}
JSON = {"is_forced": True, "parent": None, "namelist": {"dt": 0.5, "steps": [1, 2]}}
CLASHING = {"Conventions": "CF-1.6", "source": "model 3", "level": "surface"}
TEMPERATURE = {"standard_name": "sea_water_temperature", "long_name": "temperature", "cell_methods": "time: mean",
               "flag_values": np.array([0, 1], "i1"), "tolerance": "none", "coder": "by hand", "max_error": "unknown"}
AXES = {"depth": {"standard_name": "depth", "positive": "down", "units": "m"},
        "lat": {"standard_name": "latitude", "units": "degrees_north"},
        "lon": {"standard_name": "longitude", "units": "degrees_east", "long_name": "east of Greenwich"}}
TIME = {"standard_name": "time", "units": "days since 2001-02-27", "calendar": "noleap", "long_name": "model time"}
SHAPE = (3, 4, 5, 6)  # time, depth, lat, lon


def regular(**attrs):
    """On axes that have positions."""
    random = np.random.default_rng(qt.SEED)
    places = {"depth": np.array([5.0, 15, 40, 100]), "lat": np.linspace(-10, 10, 5), "lon": np.linspace(0, 50, 6)}
    return xr.Dataset(
        {"temp": (("time", *places), random.normal(size=SHAPE).astype("f4"), {**TEMPERATURE, "units": "K"}),
         "basin": (tuple(places), random.integers(0, 5, SHAPE[1:]).astype("i2"), {"long_name": "basins"})},
        {"time": ("time", [0.5, 1.5, 2.5], TIME), **{axis: (axis, values, AXES[axis]) for axis, values in places.items()}},
        attrs=attrs)


def curvilinear():
    """On axes without positions, with latitudes and longitudes of each sample, and the height of all."""
    random = np.random.default_rng(qt.SEED)
    j, i = np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij")
    return xr.Dataset(
        {"temp": (("time", "j", "i"), random.normal(size=(3, 5, 6)).astype("f4"), {"units": "K"}),
         "area": (("j", "i"), 1 + j * i, {"units": "m2"})},
        {"time": ("time", [0.0, 1, 2], TIME), "lat": (("j", "i"), j ** 2 + 0.1 * i, AXES["lat"]),
         "lon": (("j", "i"), i - 0.1 * j, AXES["lon"]), "height": ((), 2.0, {"units": "m"})})


def attributes_of(path, name=None):
    """Attributes of the dataset, or of a variable, by the library of the format."""
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            owner = file if name is None else file[name]
            return {key: owner.getncattr(key) for key in owner.ncattrs()}
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return dict((file if name is None else file[name]).attrs)
    group = zarr.open_consolidated(str(path))
    return dict((group if name is None else group[name]).attrs)


def dimensions_of(path, name):
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            return file[name].dimensions
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return tuple(dim[0].name[1:] for dim in file[name].dims)
    return zarr.open_consolidated(str(path))[name].metadata.dimension_names


class Exports(qt.QuarryTest):
    SUFFIXES = (".nc", ".h5", ".zarr")

    def write(self, data, name="source", **options):
        path = self.tmp / f"{name}.quarry"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quarry.write(path, data, lossless=True, **options)
        return path

    def export(self, source, suffix, **options):
        """The file, and what is said of it."""
        path = self.tmp / f"out{suffix}"
        with quarry.open(source) as dataset, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset.export(path, overwrite=True, **options)
        return path, [str(warning.message) for warning in caught]

    def assert_has(self, said, wanted, as_json=False):
        for name, value in wanted.items():
            with self.subTest(attribute=name):
                found = said[name]
                if not as_json and isinstance(value, np.generic | np.ndarray):
                    self.assertEqual(np.asarray(found).dtype, value.dtype)
                np.testing.assert_array_equal(found, value)

    # ---- Attributes

    def test_attributes_of_all_owners_go_along(self):
        source = self.write(regular(**GLOBAL))
        for suffix in self.SUFFIXES:
            with self.subTest(suffix):
                path, said = self.export(source, suffix)
                self.assertEqual(said, [])
                self.assert_has(attributes_of(path), GLOBAL, suffix == ".zarr")
                self.assert_has(attributes_of(path, "temp"), {**TEMPERATURE, "units": "K"}, suffix == ".zarr")
                for axis, wanted in AXES.items():
                    self.assert_has(attributes_of(path, axis), wanted)
                self.assert_has(attributes_of(path, "time"), TIME)

    def test_what_the_source_does_not_say_quarry_does(self):
        source = self.write(regular())
        for suffix in self.SUFFIXES:
            path, _ = self.export(source, suffix, level=1)
            self.assert_has(attributes_of(path), {"Conventions": "CF-1.11", "source": str(source), "level": 1})
            self.assert_has(attributes_of(path, "basin"), {"coder": "lossless", "lossless": 1, "level": 1, "tolerance": 0})
            self.assertGreater(attributes_of(path, "basin")["max_error"], 0)
            for name, letter in zip(("time", *AXES), "TZYX", strict=True):
                self.assertEqual(attributes_of(path, name)["axis"], letter)
            self.assertNotIn("long_name", attributes_of(path, "lat"))

    def test_the_source_says_it_where_both_do(self):
        source = self.write(regular(**CLASHING).assign_coords(lat=("lat", np.arange(5.0), {"axis": "?"})))
        for suffix in self.SUFFIXES:
            path, _ = self.export(source, suffix, level=1)
            self.assert_has(attributes_of(path), CLASHING)
            self.assertEqual(attributes_of(path, "temp")["coder"], "by hand")
            self.assertEqual(attributes_of(path, "lat")["axis"], "?")

    def test_json_is_text_where_a_format_has_none(self):
        source = self.write(regular(**JSON))
        for suffix in self.SUFFIXES:
            texts = {"is_forced": "true", "parent": "null", "namelist": '{"dt": 0.5, "steps": [1, 2]}'}
            wanted = JSON if suffix == ".zarr" else texts
            said = attributes_of(self.export(source, suffix)[0])
            self.assertEqual({name: said[name] for name in wanted}, wanted)

    def test_what_a_format_cannot_have_is_named(self):
        source = self.write(regular(**{"a/b": "slash", "_Filter": "library", "end ": "space", "ok": "yes"},
                                    nul="a\0b", numbers=np.zeros(10_000)))
        for suffix, left in ((".nc", ["a/b", "_Filter", "end ", "nul"]), (".h5", ["nul", "numbers"]), (".zarr", [])):
            with self.subTest(suffix):
                path, said = self.export(source, suffix)
                self.assertEqual(attributes_of(path)["ok"], "yes")
                self.assertFalse(set(left) & set(attributes_of(path)))
                self.assertEqual(len(said), 1 if left else 0, said)
                for sentence in said:
                    self.assertIn(f"attributes {', '.join(map(repr, left))} of the dataset are left out", sentence)

    def test_vtk_and_json_have_them_too(self):
        data = regular(**GLOBAL, **JSON, step=5).isel(depth=slice(0, 2))
        source = self.write(data)
        _, said = self.export(source, ".vti", steps=0)
        self.assertEqual(len(said), 2, said)
        self.assertIn("attributes 'step' of the dataset are left out", "".join(said))
        self.assertIn("attributes 'long_name' of lon are left out", "".join(said))
        import pyvista
        read = pyvista.read(self.tmp / "out.vti").field_data
        self.assertEqual([read[name][0] for name in ("title", "version", "namelist", "temp.standard_name", "y.standard_name",
                                                     "x.long_name", "TimeValue.long_name")],
                         ["Sea", 7, '{"dt": 0.5, "steps": [1, 2]}', "sea_water_temperature", "latitude", "lon", "model time"])
        self.assertEqual([*read["authors"], *read["levels"], *read["temp.flag_values"]], ["a", "É", 1, 2, 3, 0, 1])
        self.export(source, ".npy", fields="temp")
        said = json.loads((self.tmp / "out.npy.json").read_text())
        self.assertEqual(said["attributes"]["flag_values"], [0, 1])
        self.assertEqual(said["global_attributes"]["namelist"], JSON["namelist"])
        self.assertEqual(said["coordinates"]["depth"]["positive"], "down")

    def test_an_export_with_attributes_is_continued(self):
        with quarry.open(self.write(regular(**GLOBAL))) as dataset:
            class Ending:
                def __getattr__(self, name):
                    return getattr(native, name)

                def read(self, *arguments):
                    raise ArithmeticError("enough")

            native = dataset.native
            dataset._native = Ending()
            with self.assertRaises(ArithmeticError):
                dataset.export(self.tmp / "out.nc")
            dataset._native = native
            dataset.export(self.tmp / "out.nc", resume=True)
        self.assert_has(attributes_of(self.tmp / "out.nc"), GLOBAL)

    # ---- Axes and times

    def test_xarray_finds_axes_and_times(self):
        data = regular()
        wanted = xr.decode_cf(data)
        source = self.write(data)
        for path, engine in ((self.export(source, ".nc")[0], "netcdf4"), (self.export(source, ".zarr")[0], "zarr")):
            with self.subTest(engine), xr.open_dataset(path, engine=engine) as opened:
                self.assertEqual(opened["temp"].dims, ("time", "depth", "lat", "lon"))
                self.assertEqual(set(opened.data_vars), {"temp", "basin"})
                for name in opened.coords:
                    np.testing.assert_array_equal(opened[name], wanted[name])
                self.assertEqual(set(opened.coords), {"time", *AXES})
                np.testing.assert_array_equal(opened["temp"].sel(time="2001-02-28")[0], data["temp"][1])
                self.assertEqual(opened["time"].encoding["calendar"], "noleap")
                self.assertEqual(opened["time"].dt.year.values.tolist(), [2001] * 3)
                self.assertEqual([opened[axis].attrs["axis"] for axis in AXES], ["Z", "Y", "X"])
                self.assertEqual(opened["depth"].attrs["positive"], "down")

    def test_numbers_of_steps_stand_beside_the_times_where_they_say_something(self):
        for numbers in ([0, 1, 2], [3, 4, 9]):
            source = self.write(regular(), f"steps{numbers[0]}", step=numbers)
            for suffix in self.SUFFIXES:
                path, _ = self.export(source, suffix)
                said = attributes_of(path, "temp")
                if numbers[0] == 0:
                    self.assertNotIn("coordinates", said)
                    with self.assertRaises((KeyError, IndexError)):
                        attributes_of(path, "step")
                else:
                    self.assertEqual(said["coordinates"], "step")
                    self.assertEqual(dimensions_of(path, "step"), ("time",))
            with xr.open_dataset(self.export(source, ".nc")[0]) as opened:
                self.assertEqual(set(opened.data_vars), {"temp", "basin"})
            path, _ = self.export(source, ".csv", box=((0, 4), (1, 2), (2, 3)), fields="temp")
            self.assertTrue(path.read_text().startswith("step,time,depth [m],temp [K]\n"))
        with xr.open_dataset(self.export(source, ".nc", steps=[4])[0]) as opened:
            self.assertEqual(opened["step"].values.tolist(), [4])

    def test_times_of_arrays_stand_beside_the_steps(self):
        quarry.write(self.tmp / "plain.quarry", np.zeros((2, 3, 4, 5), "f4"), field="p", lossless=True, time=[1.5, 2],
                     time_units="hours since 2000-01-01")
        for suffix in self.SUFFIXES:
            path, _ = self.export(self.tmp / "plain.quarry", suffix)
            self.assertEqual(dimensions_of(path, "p"), ("step", "z", "y", "x"))
            self.assertEqual(attributes_of(path, "p")["coordinates"], "time")
            self.assertEqual(attributes_of(path, "time")["units"], "hours since 2000-01-01")

    def test_axes_that_a_grid_lacks_and_axes_without_positions(self):
        source = self.write(curvilinear())
        for suffix in self.SUFFIXES:
            with self.subTest(suffix):
                path, _ = self.export(source, suffix)
                self.assertEqual(dimensions_of(path, "temp"), ("time", "j", "i"))
                if suffix != ".zarr":
                    with netCDF4.Dataset(path) as file:  # an HDF5 file, too
                        self.assertEqual(file["temp"].dimensions, ("time", "j", "i"))
                        self.assertEqual(set(file.variables), {"time", "temp", "area", "lat", "lon", "height"})
                        np.testing.assert_array_equal(file["temp"][...], curvilinear()["temp"])
        path, _ = self.export(source, ".npy", fields="temp")
        self.assertEqual(np.load(path).shape, (3, 5, 6))

    # ---- What does not change

    def test_what_does_not_change_has_no_steps(self):
        data = regular()
        source = self.write(data)
        for suffix in self.SUFFIXES:
            with self.subTest(suffix):
                path, _ = self.export(source, suffix)
                self.assertEqual(dimensions_of(path, "basin"), ("depth", "lat", "lon"))
                part, _ = self.export(source, suffix, steps=[1, 2], level=1, box=((0, 4), (1, 5), (0, 6)))
                with netCDF4.Dataset(part) if suffix != ".zarr" else xr.open_zarr(part) as opened:
                    np.testing.assert_array_equal(opened["basin"][...], data["basin"][::2, 2::2, ::2])
                    np.testing.assert_array_equal(opened["temp"][...], data["temp"][1:, ::2, 2::2, ::2])
        path, _ = self.export(source, ".npz")
        with np.load(path) as arrays:
            np.testing.assert_array_equal(arrays["basin"], data["basin"])
            self.assertEqual(json.loads(arrays["quarry.json"])["fields"][1]["dimensions"], ["depth", "lat", "lon"])

    def test_formats_of_steps_have_it_in_each(self):
        data = regular()
        source = self.write(data)
        self.export(source, ".vtr")
        import pyvista
        for step in range(3):
            read = pyvista.read(self.tmp / f"out-{step}.vtr")
            np.testing.assert_array_equal(read["basin"].reshape(SHAPE[1:]), data["basin"])
        path, _ = self.export(source, ".csv", box=((0, 4), (1, 2), (2, 3)))
        rows = [line.split(",") for line in path.read_text().splitlines()]
        self.assertEqual([row[-1] for row in rows[1:]], [str(value) for value in data["basin"].values[:, 1, 2]] * 3)

    def test_where_nothing_changes_there_is_no_axis_of_time(self):
        data = regular().isel(time=1)
        source = self.write(data)
        for suffix in self.SUFFIXES:
            with self.subTest(suffix):
                path, _ = self.export(source, suffix)
                self.assertEqual(dimensions_of(path, "temp"), ("depth", "lat", "lon"))
        with xr.open_dataset(self.export(source, ".nc")[0]) as opened:
            self.assertEqual(opened["time"].dims, ())
            self.assertEqual(opened["time"], xr.decode_cf(data)["time"])

    # ---- Coordinates

    def test_coordinates_are_named_by_the_fields(self):
        data = curvilinear()
        source = self.write(data)
        for suffix in self.SUFFIXES:
            with self.subTest(suffix):
                path, said = self.export(source, suffix)
                self.assertEqual([attributes_of(path, name).get("coordinates") for name in ("temp", "area", "lat")],
                                 ["lat lon height", "lat lon height", None])
                self.assertEqual(dimensions_of(path, "height") or (), ())
                self.assertEqual(said, [])
        with xr.open_dataset(self.export(source, ".nc", level=1)[0]) as opened:
            self.assertEqual(set(opened.data_vars), {"temp", "area"})
            np.testing.assert_array_equal(opened["temp"].coords["lat"], data["lat"][::2, ::2])
            self.assertEqual(opened["lon"].attrs["standard_name"], "longitude")

    def test_a_format_of_one_field_leaves_them_out(self):
        source = self.write(curvilinear().drop_vars("area"))
        path, said = self.export(source, ".npy")
        np.testing.assert_array_equal(np.load(path), curvilinear()["temp"])
        self.assertRegex("".join(said), "'lat', 'lon', 'height' are left out.*: the format holds one field; export them by")
        path, _ = self.export(source, ".npy", fields="lat")
        np.testing.assert_array_equal(np.load(path), curvilinear()["lat"])

    def test_bounds_of_cells_go_along(self):
        data = regular()
        data["lat"].attrs["bounds"] = "lat_bnds"
        data["lat_bnds"] = (("lat", "bnds"), data["lat"].values[:, None] + [-2.5, 2.5])
        source = self.write(data)
        path, said = self.export(source, ".nc")
        self.assertEqual(said, [])
        with xr.open_dataset(path) as opened:
            self.assertEqual(set(opened.data_vars), {"temp", "basin", "lat_bnds"})
            self.assertEqual(opened["lat"].attrs["bounds"], "lat_bnds")
        with xr.open_dataset(self.export(source, ".nc", fields="lat_bnds")[0]) as opened:
            np.testing.assert_array_equal(opened["lat_bnds"], data["lat_bnds"])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main([str(source), str(path), "--region", "lat=-5:5", "--overwrite"]), 0)
        self.assertEqual(said.getvalue(), "")
        with xr.open_dataset(path) as opened:
            np.testing.assert_array_equal(opened["lat"], [-5, 0, 5])
            np.testing.assert_array_equal(opened["lat_bnds"], data["lat_bnds"][1:4])

    def test_they_say_nothing_about_the_error_that_is_allowed(self):
        """Their samples are exact at every level, and their unit is another one."""
        data = curvilinear()
        data["temp"] = data["temp"] * 0 + 1
        with xr.open_dataset(self.export(self.write(data), ".nc", fields=["temp", "lat"], max_error=1e-6)[0]) as opened:
            self.assertGreater(opened.attrs["level"], 0)

    def test_those_on_another_grid_are_refused_by_name_where_a_format_has_one(self):
        with quarry.open(self.write(curvilinear())) as dataset, self.assertRaisesRegex(ValueError, "these lie on several: temp"):
            dataset.export(self.tmp / "out.vtr", fields=["temp", "height"])


if __name__ == "__main__":
    qt.main()
