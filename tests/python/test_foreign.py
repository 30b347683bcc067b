"""Everything that Quarry writes for others is opened by the programs that people use: samples, missing samples, positions,
units, names and times arrive. And what `quarry-write` reads of it is the same dataset again."""

import csv
import json
import re
import subprocess
import sys
import unittest
import unittest.mock
import warnings
import zipfile
from pathlib import Path

import h5py
import matplotlib
import netCDF4
import pandas
import PIL.Image
import pyvista
import tifffile
import xarray as xr
import zarr
from python_testing import np, qt, quarry

from quarry._xarray import QuarryBackendEntrypoint

matplotlib.use("Agg")

SHAPE = (4, 5, 6)
STEPS = (2, 3, 7)
TIMES = (0.0, 0.25, 0.75)
DEPTH, LAT, LON = 1 + 0.5 * np.arange(4), -10 + 2.0 * np.arange(5), 100 + 3.0 * np.arange(6)
UNITS = {"depth": "m", "lat": "degrees_north", "lon": "degrees_east"}
FILL = -999
VTKS = {"of PyPI": sys.executable, "of Debian": "/usr/bin/python3"}


def series(depth, lat, name):
    """Two fields of three steps with missing samples, on axes with names and units."""
    p = np.stack([qt.turbulent(SHAPE[::-1], name=f"{name}{step}").reshape(SHAPE) for step in STEPS])
    p[:, 1, 2:4, 3] = np.nan
    k = np.stack([qt.integers(SHAPE[::-1], "<i2", name=f"{name}k{step}").reshape(SHAPE) for step in STEPS])
    k[:, 2, 1:3, :2] = FILL
    dims = ("step", "depth", "lat", "lon")
    return xr.Dataset({"p": (dims, p, {"units": "Pa"}), "k": (dims, k, {"units": "1", "_FillValue": FILL})},
                      {"step": list(STEPS), "time": ("step", list(TIMES)),
                       **{axis: (axis, values, {"units": UNITS[axis]})
                          for axis, values in (("depth", depth), ("lat", lat), ("lon", LON))}})


def ncdump(*arguments):
    return subprocess.run(["ncdump", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def quietly(dataset, *arguments, **options):
    """An export whose warnings are tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dataset.export(*arguments, **options)


class Foreign(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.even, cls.uneven = series(DEPTH, LAT, "even"), series(DEPTH ** 2, LAT[::-1], "uneven")
        for name in ("even", "uneven"):
            quarry.write(cls.shared / f"{name}.quarry", getattr(cls, name), lossless=True, patch=2)

    def export(self, name, suffix, **options):
        """The file, and its path."""
        path = self.tmp / f"{name}{suffix}"
        with quarry.open(self.shared / f"{name}.quarry") as dataset:
            quietly(dataset, path, overwrite=True, **options)
        return path

    # ---- By format

    def test_netcdf4(self):
        for name in ("even", "uneven"):
            original = getattr(self, name)
            with netCDF4.Dataset(self.export(name, ".nc")) as file:
                for field in ("p", "k"):
                    self.assertEqual(file[field].dimensions, ("step", "depth", "lat", "lon"))
                    self.assertEqual(file[field].units, original[field].attrs["units"])
                    read = file[field][...]
                    missing = np.isnan(original[field].values) if field == "p" else original[field].values == FILL
                    np.testing.assert_array_equal(np.ma.getmaskarray(read), missing)
                    np.testing.assert_array_equal(read.data[~missing], original[field].values[~missing])
                    self.assertEqual(read.dtype, original[field].dtype)
                for axis in ("depth", "lat", "lon"):
                    np.testing.assert_array_equal(file[axis][...], original[axis])
                    self.assertEqual((file[axis].units, file[axis].dimensions), (UNITS[axis], (axis,)))
                np.testing.assert_array_equal(file["step"][...], STEPS)
                np.testing.assert_array_equal(file["time"][...], TIMES)

    def test_ncdump(self):
        path = self.export("even", ".nc")
        head = ncdump("-h", path)
        for line in ("float p(step, depth, lat, lon) ;", "p:_FillValue = NaNf ;", "short k(step, depth, lat, lon) ;",
                     "k:_FillValue = -999s ;", "p:units = \"Pa\" ;", "double depth(depth) ;", "depth:units = \"m\" ;",
                     "lat:axis = \"Y\" ;", "double time(step) ;"):
            self.assertIn(line, head)
        self.assertIn(" depth = 1, 1.5, 2, 2.5 ;", ncdump("-v", "depth", path))
        self.assertIn(" time = 0, 0.25, 0.75 ;", ncdump("-v", "time", path))
        self.assertIn("_, _, ", ncdump("-v", "k", path))  # how ncdump shows what is missing

    def test_h5py(self):
        for name in ("even", "uneven"):
            original = getattr(self, name)
            with h5py.File(self.export(name, ".h5")) as file:
                for field in ("p", "k"):
                    np.testing.assert_array_equal(file[field][...], original[field])
                    self.assertEqual(file[field].attrs["units"], original[field].attrs["units"])
                    self.assertEqual([dim[0].name for dim in file[field].dims], ["/step", "/depth", "/lat", "/lon"])
                np.testing.assert_equal((file["p"].attrs["_FillValue"], file["k"].attrs["_FillValue"]), (np.nan, FILL))
                np.testing.assert_equal((file["p"].fillvalue, file["k"].fillvalue), (np.nan, FILL))
                for axis in ("depth", "lat", "lon"):
                    np.testing.assert_array_equal(file[axis][...], original[axis])
                    self.assertEqual(file[axis].attrs["units"], UNITS[axis])
                np.testing.assert_array_equal(file["time"][...], TIMES)

    def test_zarr_and_xarray(self):
        path = self.export("uneven", ".zarr")
        group = zarr.open_consolidated(str(path))
        self.assertEqual(group["p"].metadata.dimension_names, ("step", "depth", "lat", "lon"))
        for opened in (xr.open_zarr(path), xr.open_dataset(self.export("uneven", ".nc"), engine="netcdf4")):
            with opened:
                self.assertEqual(opened["p"].dims, ("step", "depth", "lat", "lon"))
                np.testing.assert_array_equal(opened["p"], self.uneven["p"])
                np.testing.assert_array_equal(opened["k"], self.uneven["k"].where(self.uneven["k"] != FILL))
                for axis in ("depth", "lat", "lon"):
                    np.testing.assert_array_equal(opened[axis], self.uneven[axis])
                    self.assertEqual(opened[axis].attrs["units"], UNITS[axis])
                np.testing.assert_array_equal(opened["time"], TIMES)

    def dump(self, path, point):
        """The output of each VTK."""
        for name, interpreter in VTKS.items():
            with self.subTest(vtk=name):
                yield json.loads(subprocess.run(
                    [interpreter, Path(__file__).with_name("vtk_dump.py"), path, *map(str, point)], check=True,
                    capture_output=True, text=True).stdout)

    def assert_fields(self, read, original, step):
        for field, kind in (("p", "float"), ("k", "short")):
            self.assertEqual(read["types"][field], kind)
            wanted = [None if value != value else value for value in original[field].values[step].ravel().tolist()]
            self.assertEqual(read["fields"][field], wanted)
            self.assertEqual(read["said"][f"{field}.units"], original[field].attrs["units"])
        self.assertEqual((read["said"]["TimeValue"], read["said"]["step"]), ([TIMES[step]], [STEPS[step]]))
        self.assertEqual((read["said"]["p._FillValue"], read["said"]["k._FillValue"]), ([None], [FILL]))
        self.assertEqual([read["said"][f"{axis}.long_name"] for axis in "zyx"], ["depth", "lat", "lon"])
        self.assertEqual([read["said"][f"{axis}.units"] for axis in "zyx"], list(UNITS.values()))

    def test_image_data_in_vtk(self):
        path = self.export("even", ".vti")
        between = self.even["p"].values[1, 2:4, :2, :2].astype("f8").mean()
        for read in self.dump(path.with_name("even-3.vti"), (101.5, -9, 2.25)):
            self.assertEqual((read["dims"], read["first"], read["last"]), ([6, 5, 4], [100, -10, 1], [115, -2, 2.5]))
            self.assert_fields(read, self.even, 1)
            self.assertAlmostEqual(read["probed"]["p"], between, delta=1e-5)

    def test_image_data_in_pieces_in_vtk(self):
        between = self.even["p"].values[1, 2:4, :2, :2].astype("f8").mean()
        for planes in (1, 2, 3, 100):
            with unittest.mock.patch("quarry._export_vtk._PIECE_BYTES", planes * 5 * 6 * 4):
                path = self.export("even", ".pvti")
            pieces = sorted(file.name for file in self.tmp.glob("even_*-3.vti"))
            self.assertEqual(len(pieces), {1: 3, 2: 2, 3: 1, 100: 1}[planes])
            for read in self.dump(path.with_name("even-3.pvti"), (101.5, -9, 2.25)):
                self.assertEqual((read["dims"], read["first"], read["last"]), ([6, 5, 4], [100, -10, 1], [115, -2, 2.5]))
                self.assert_fields(read, self.even, 1)
                self.assertAlmostEqual(read["probed"]["p"], between, delta=1e-5)
            for file in self.tmp.glob("even*vti"):
                file.unlink()

    def test_image_data_of_descending_axes_in_vtk(self):
        array = self.even["p"].isel(step=0, drop=True)[:, ::-1]
        quarry.write(self.tmp / "down.quarry", array, field="p", lossless=True)
        path = self.export_of(self.tmp / "down.quarry", ".vti")
        for read in self.dump(path, (101.5, -3, 2.25)):
            self.assertEqual((read["first"], read["last"]), ([100, -2, 1], [115, -10, 2.5]))
            self.assertAlmostEqual(read["probed"]["p"], array.values[2:4, :2, :2].astype("f8").mean(), delta=1e-5)

    def export_of(self, dataset, suffix, **options):
        path = self.tmp / f"file{suffix}"
        with quarry.open(dataset) as opened:
            quietly(opened, path, **options)
        return path

    def test_rectilinear_grids_in_vtk(self):
        """VTK finds points along ascending positions only: the latitudes come the other way round, with their samples."""
        path = self.export("uneven", ".vtr", steps=7)
        ascending = self.uneven.isel(lat=slice(None, None, -1))
        between = ascending["p"].values[2, 2:4, :2, :2].astype("f8").mean()
        for read in self.dump(path, (101.5, -9, (DEPTH[2] ** 2 + DEPTH[3] ** 2) / 2)):
            self.assertEqual((read["dims"], read["first"], read["last"]), ([6, 5, 4], [100, -10, 1], [115, -2, 6.25]))
            self.assert_fields(read, ascending, 2)
            self.assertAlmostEqual(read["probed"]["p"], between, delta=1e-5)

    def test_collections_in_pyvista(self):
        for name, depth in (("even", DEPTH), ("uneven", DEPTH ** 2)):
            reader = pyvista.get_reader(str(self.export(name, ".pvd")))
            self.assertEqual(reader.time_values, list(TIMES))
            for number, time in enumerate(TIMES):
                reader.set_active_time_value(time)
                (grid,) = reader.read()
                self.assertEqual(sorted(grid.point_data), ["k", "p"])
                np.testing.assert_array_equal(np.unique(grid.points[:, 2]), depth.astype(grid.points.dtype))
                wanted = getattr(self, name).sortby("lat")["p"].values[number]
                np.testing.assert_array_equal(grid.point_data["p"].reshape(SHAPE), wanted)

    def test_to_pyvista(self):
        with quarry.open(self.shared / "uneven.quarry") as dataset:
            grid = dataset["p"].read(step=2).to_pyvista()
        np.testing.assert_array_equal(grid.point_data["p"].reshape(SHAPE), self.uneven.sortby("lat")["p"].values[0])
        self.assertEqual(grid.bounds[2:4], (-10, -2))
        self.assertGreaterEqual(grid.find_closest_point((100, -2, 1)), 0)
        self.assertEqual(grid.find_containing_cell((101, -3, 1.5)), 15)

    def test_stacks_of_images(self):
        for field, kind in (("p", "float32"), ("k", "int16")):
            path = self.export("even", ".tif", fields=field, steps=3)
            with tifffile.TiffFile(path) as file:
                (read,) = file.series
                self.assertEqual((read.axes, read.shape, read.dtype), ("ZYX", SHAPE, np.dtype(kind)))
                np.testing.assert_array_equal(read.asarray(), self.even[field].values[1])
                said, first = file.imagej_metadata, file.pages[0]
                self.assertEqual((said["spacing"], said["unit"], said["yunit"], said["zunit"]),
                                 (0.5, "degrees_east", "degrees_north", "m"))
                for tag, spacing in (("XResolution", 3), ("YResolution", 2)):
                    over, under = first.tags[tag].value
                    self.assertAlmostEqual(under / over, spacing)
                self.assertAlmostEqual(-said["xorigin"] * 3, 100)
                self.assertAlmostEqual(-said["yorigin"] * 2, -10)
                self.assertAlmostEqual(-said["zorigin"] * 0.5, 1)
                self.assertEqual(first.tags[42113].value, "nan" if field == "p" else "-999")
                self.assertEqual(said["Labels"][1], "step 3, time 0.25, depth 1.5")
                told = json.loads(said["Info"])
                self.assertEqual((told["attributes"]["units"], told["dimensions"][1:]),
                                 (self.even[field].attrs["units"], ["depth", "lat", "lon"]))
                self.assertEqual(told["coordinates"]["time"]["values"], [0.25])

    def test_stacks_of_several_steps(self):
        array = self.even["p"].isel(lat=slice(1, 3)).assign_coords(time=("step", [1.0, 1.5, 2.0]))
        array["lon"].attrs["units"] = "µm"
        quarry.write(self.tmp / "film.quarry", array, field="p", lossless=True)
        with tifffile.TiffFile(self.export_of(self.tmp / "film.quarry", ".tif")) as file:
            self.assertEqual(file.series[0].axes, "TZYX")
            np.testing.assert_array_equal(file.asarray(), array)
            self.assertEqual((file.imagej_metadata["finterval"], file.imagej_metadata["unit"]), (0.5, r"\u00B5m"))
            self.assertEqual(len(file.pages), 12)

    def test_numpy(self):
        path = self.export("uneven", ".npy", fields="k")
        np.testing.assert_array_equal(np.load(path), self.uneven["k"])
        said = json.loads(Path(f"{path}.json").read_text())
        self.assertEqual((said["dimensions"], said["attributes"]["_FillValue"]), (["step", "depth", "lat", "lon"], FILL))

    def test_archives_of_numpy(self):
        path = self.export("uneven", ".npz")
        self.assertIsNone(zipfile.ZipFile(path).testzip())
        with np.load(path) as arrays:
            for field in ("p", "k"):
                np.testing.assert_array_equal(arrays[field], self.uneven[field])
            for name in ("time", "depth", "lat", "lon"):
                np.testing.assert_array_equal(arrays[name], self.uneven[name])
            said = json.loads(arrays["quarry.json"])
        self.assertEqual([field["attributes"]["units"] for field in said["fields"]], ["Pa", "1"])
        self.assertEqual(said["coordinates"]["lat"]["units"], "degrees_north")

    def test_arrays_and_pictures_of_the_command(self):
        where = ("--field", "k", "--step", 3, "--box", ":,:,2:3", "--output")
        qt.succeed("quarry", "get", self.shared / "even.quarry", *where, self.tmp / "k.npy")
        array = np.load(self.tmp / "k.npy")
        np.testing.assert_array_equal(array, self.even["k"].values[1, 2:3])
        qt.succeed("quarry", "get", self.shared / "even.quarry", *where, self.tmp / "k.png", "--colormap", "gray", "--zoom", 3)
        with PIL.Image.open(self.tmp / "k.png") as picture:
            pixels = np.asarray(picture.convert("RGBA"))[::-3, ::3]  # the first row is the upper one
        np.testing.assert_array_equal(pixels[..., 3] == 0, array[0] == FILL)
        valid = array[0] != FILL
        self.assertEqual(pixels[..., 0][valid].argmax(), array[0][valid].argmax())
        self.assertEqual(pixels[..., 0][valid].argmin(), array[0][valid].argmin())

    # ---- Tables

    def test_profiles(self):
        path = self.export("uneven", ".csv", box=((0, 4), (1, 2), (3, 4)))
        table = pandas.read_csv(path)
        self.assertEqual([*table], ["step", "time", "depth [m]", "p [Pa]", "k [1]"])
        for number, (step, rows) in enumerate(table.groupby("step")):
            np.testing.assert_array_equal(rows["depth [m]"], DEPTH ** 2)
            self.assertEqual((step, set(rows["time"])), (STEPS[number], {TIMES[number]}))
            np.testing.assert_array_equal(rows["p [Pa]"].astype("f4"), self.uneven["p"].values[number, :, 1, 3])
        line = self.export("even", ".csv", box=((2, 3), (1, 2), (0, 6)), steps=7, fields="k")
        self.assertEqual([*csv.reader(line.read_text().splitlines())][:3],
                         [["time", "lon [degrees_east]", "k [1]"], ["0.75", "100.0", ""], ["0.75", "103.0", ""]])
        said = json.loads(Path(f"{line}.json").read_text())
        self.assertEqual(said["coordinates"]["lat"]["values"], [-8])

    def test_profiles_by_the_command(self):
        path = self.tmp / "line.csv"
        qt.succeed("quarry", "get", self.shared / "uneven.quarry", "--field", "p", "--step", 3, "--box", "3:4,1:2,:", "--output", path)
        table = pandas.read_csv(path)
        np.testing.assert_array_equal(table["depth [m]"], DEPTH ** 2)
        np.testing.assert_array_equal(table["p [Pa]"].astype("f4"), self.uneven["p"].values[1, :, 1, 3])
        qt.succeed("quarry", "get", self.shared / "even.quarry", "--field", "k", "--step", 2, "--box", ":,2:3,2:3", "--level", 1,
                   "--output", path)
        table = pandas.read_csv(path)
        self.assertEqual(table["lon [degrees_east]"].tolist(), [100, 106, 112])
        self.assertEqual(table["k [1]"].isna().tolist(), [True, False, False])
        self.assertEqual(table["k [1]"][2], self.even["k"].values[0, 2, 2, 4])
        refused = qt.run("quarry", "get", self.shared / "even.quarry", "--field", "k", "--output", path)
        self.assert_one_line(refused, qt.USAGE, "one sample thick along two axes")

    def test_points(self):
        positions = [[0.5, 0, 0], [1, 2, 3], [3, 4, 5]]
        path = self.tmp / "points.csv"
        with quarry.open(self.shared / "even.quarry") as dataset:
            values, _ = dataset["p"].points(positions, step=2, output=path)
            table = pandas.read_csv(path)
            self.assertEqual([*table], ["depth", "lat", "lon", "p [Pa]"])
            np.testing.assert_array_equal(table.values, np.column_stack([positions, values]))
            self.assertEqual(table["p [Pa]"].isna().tolist(), [False, True, False])
            with self.assertRaisesRegex(ValueError, "points go to a .csv file"):
                dataset["p"].points(positions, output=self.tmp / "points.txt")
        qt.succeed("quarry", "points", self.shared / "even.quarry", "--field", "p", "--step", 2, "--physical", "--at", "100,-10,1.25",
                   "--at", "109,-6,1.5", "--output", path)
        table = pandas.read_csv(path)
        self.assertEqual([*table], ["lon [degrees_east]", "lat [degrees_north]", "depth [m]", "p [Pa]"])
        np.testing.assert_array_equal(table["p [Pa]"], values[:2])

    # ---- What a format cannot hold

    def test_what_a_format_cannot_hold_is_said(self):
        def said(name, suffix, **options):
            with quarry.open(self.shared / f"{name}.quarry") as dataset, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                dataset.export(self.tmp / f"said{suffix}", overwrite=True, **options)
            self.assertEqual({warning.filename for warning in caught} - {__file__}, set())
            return [str(warning.message) for warning in caught]

        for suffix in (".vti", ".tif"):
            (text,) = said("even", suffix, fields="k", steps=2)
            self.assertRegex(text, f"missing samples of 'k' hold -999 in {suffix} files, which")
            self.assertEqual(said("even", suffix, fields="p", steps=3), [])
        self.assertEqual(said("even", ".nc"), [])
        for name, suffix, options, text in (
                ("uneven", ".vti", {}, "not evenly spaced along 'depth', which .vti files cannot say; export to .vtr"),
                ("uneven", ".tif", {"fields": "p"}, "not evenly spaced along 'depth', which .tif files cannot say"),
                ("uneven", ".tif", {"fields": "p", "box": ((0, 1), (0, 5), (0, 6))}, "descending positions along 'lat'"),
                ("even", ".tif", {}, "a .tif file holds one field, and these are 2"),
                ("even", ".csv", {}, "a .csv file holds a line, and these are 4 x 5 x 6 samples")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                said(name, suffix, **options)
        quarry.write(self.tmp / "double.quarry", np.zeros((2, 2, 2)), field="f", lossless=True)
        with self.assertRaisesRegex(ValueError, "holds uint8, uint16, int16, float32, and 'f' is float64"):
            self.export_of(self.tmp / "double.quarry", ".tif")

    def test_an_interruption_is_continued(self):
        """After an error in the fourth read, each format has what it would have had."""
        class Native:
            def __init__(self, native):
                self._native, self._left = native, 3

            def __getattr__(self, name):
                return getattr(self._native, name)

            def read(self, *arguments):
                self._left -= 1
                if self._left < 0:
                    raise ArithmeticError("enough")
                return self._native.read(*arguments)

        for suffix, options in ((".vtr", {}), (".pvti", {}), (".pvd", {}), (".npz", {}), (".tif", {"fields": "p"}), (".csv", {"box": ((0, 4), (0, 1), (0, 1))})):
            with self.subTest(suffix), quarry.open(self.shared / "even.quarry") as dataset, \
                    unittest.mock.patch("quarry._export._BOX_BYTES", 64):
                path = self.tmp / f"broken{suffix}"
                whole = dataset.native
                dataset._native = Native(whole)
                with self.assertRaises(ArithmeticError):
                    quietly(dataset, path, **options)
                self.assertFalse(path.exists())
                dataset._native = whole
                written = quietly(dataset, path, resume=True, **options)
                for one, other in zip(written, quietly(dataset, self.tmp / f"whole{suffix}", **options), strict=True):
                    if one.suffix in (".vti", ".vtr", ".tif"):  # their dates differ
                        same = [pyvista.read(file)["p"] if suffix != ".tif" else tifffile.imread(file) for file in (one, other)]
                        np.testing.assert_array_equal(*same)
                    elif one.suffix == ".npz":
                        np.testing.assert_array_equal(np.load(one)["p"], np.load(other)["p"])
                    elif one.suffix == ".csv":
                        self.assertEqual(one.read_bytes(), other.read_bytes())


class Names(qt.QuarryTest):
    """Axes have one name wherever a dataset is seen."""

    NAMES = (  # names of the axes in the source and of the field, and of the axes in the dataset
        (("depth", "lat", "lon"), "p", ("depth", "lat", "lon")),
        (("z", "y", "x"), "x", ("z", "y", "x_axis")),
        (("x", "y", "z"), "p", ("x", "y", "z")),
        (("lat", "bottom_top", "lon"), "lat", ("z", "bottom_top", "lon")),
        (("along track", "θ", "a/b"), "p", ("along track", "θ", "x")),
    )

    def test_they_are_the_same_everywhere(self):
        data = self.tmp / "data"
        data.mkdir()
        for number, (given, field, _) in enumerate(self.NAMES):
            array = np.arange(24, dtype="f4").reshape(2, 3, 4)
            coords = {axis: (axis, np.arange(length) + 10.0) for axis, length in zip(given, array.shape, strict=True)}
            quarry.write(data / f"d{number}.quarry", xr.DataArray(array, coords, given), field=field, lossless=True, step=0)
        with qt.Server(data, "--http", "127.0.0.1:0") as server:
            for number, (given, field, wanted) in enumerate(self.NAMES):
                url = f"http://{server.http_address()}/zarr/d{number}"
                with self.subTest(given=given), quarry.open(data / f"d{number}.quarry") as dataset:
                    self.assertEqual(dataset.grid.axis_names, given)
                    for place, names in self.seen(data / f"d{number}.quarry", dataset, field, url):
                        self.assertEqual(tuple(names), wanted, place)

    def seen(self, path, dataset, field, url):
        """Where axes have names, and which."""
        yield "dims", dataset.dims
        yield "coords", dataset.coords
        yield "coords of a field", [*dataset[field].coords][1:]
        yield "dims of a field", dataset[field].dims[1:]
        yield "units", dataset.axis_units
        yield "samples", dataset[field].read().coords
        yield "samples in xarray", dataset[field].read().to_xarray().dims
        with xr.open_dataset(path, engine=QuarryBackendEntrypoint) as opened:
            yield "engine", opened[field].dims[1:]
        for store in (quarry.zarr_store(path), url):
            group = zarr.open(store, mode="r")
            yield "zarr", group[f"0/{field}"].metadata.dimension_names
            yield "OME", [axis["name"] for axis in group.attrs["ome"]["multiscales"][0]["axes"]]
            for axis, positions in zip(dataset.dims, dataset.coords.values(), strict=True):
                np.testing.assert_array_equal(group[f"0/{axis}"][:], positions)
        with netCDF4.Dataset(dataset.export(self.tmp / "a.nc", overwrite=True)[0]) as file:
            yield ".nc", file[field].dimensions[1:]
        with h5py.File(dataset.export(self.tmp / "a.h5", overwrite=True)[0]) as file:
            yield ".h5", [dim[0].name[1:] for dim in file[field].dims][1:]
        yield ".zarr", zarr.open(dataset.export(self.tmp / "a.zarr", overwrite=True)[0])[field].metadata.dimension_names[1:]
        yield ".npy", json.loads(dataset.export(self.tmp / "a.npy", overwrite=True)[1].read_text())["dimensions"][1:]
        drawn = []
        for axis in dataset.dims:
            picture = dataset[field].plot(axis=axis, index=0)
            drawn.append(picture.axes.get_title().split(", ")[1].split(" = ")[0])
        yield "pictures", drawn
        with self.assertRaisesRegex(ValueError, re.escape(f"'q' is none of {', '.join(map(repr, dataset.dims))}")):
            dataset[field].plot(axis="q")

    def test_letters_find_axes_that_have_other_names(self):
        array = xr.DataArray(np.zeros((2, 3, 4), "f4"), dims=("depth", "lat", "x"))
        quarry.write(self.tmp / "a.quarry", array, field="p", lossless=True)
        with quarry.open(self.tmp / "a.quarry") as dataset:
            self.assertEqual([len(dataset.coords[axis]) for axis in "zyx"], [2, 3, 4])
            self.assertEqual(len(dataset["p"].coords["z"]), 2)
            with self.assertRaisesRegex(KeyError, "'q' is no axis; there are depth, lat, x"):
                dataset.coords["q"]
            with self.assertRaisesRegex(quarry.Error, r"outside the grid \(2, 3, 4\) along z; .*; z is depth, y is lat"):
                dataset["p"].read(box=((0, 9), (0, 3), (0, 4)))
            quarry.write(self.tmp / "b.quarry", dataset["p"], lossless=True)
        with quarry.open(self.tmp / "b.quarry") as copied:
            self.assertEqual(copied.dims, ("depth", "lat", "x"))


class Back(qt.QuarryTest):
    """Our own exports convert to the dataset that they come from, without any option about their meaning."""

    def test_they_convert_back(self):
        grids = {"even": (DEPTH, LAT, (".nc", ".h5", ".npy", ".npz", ".vti", ".pvti", ".vtr", ".tif")),
                 "stretched": (DEPTH ** 2, LAT, (".nc", ".h5", ".npy", ".npz", ".vtr")),
                 "descending": (DEPTH, LAT[::-1], (".nc", ".h5", ".npy", ".npz")),
                 "as long as time": (DEPTH, LAT, (".nc", ".h5", ".npy", ".npz"))}
        for name, (depth, lat, suffixes) in grids.items():
            array = series(depth, lat, name)
            if name == "as long as time":
                array = array.isel(depth=slice(0, len(STEPS)))
            array["time"].attrs.update(units="days since 2001-01-01", calendar="noleap")
            for field in ("p", "k"):
                quarry.write(self.tmp / f"{name}-{field}.quarry", array[[field]], lossless=True)
                for suffix in suffixes:
                    with self.subTest(suffix=suffix, grid=name, field=field):
                        self.convert(self.tmp / f"{name}-{field}.quarry", suffix, field, array)

    def test_zarr_converts_through_xarray(self):
        array = series(DEPTH ** 2, LAT[::-1], "zarr")
        array["time"].attrs.update(units="days since 2001-01-01", calendar="noleap")
        quarry.write(self.tmp / "first.quarry", array, lossless=True)
        with quarry.open(self.tmp / "first.quarry") as dataset:
            quietly(dataset, self.tmp / "3.zarr")
        array.to_zarr(self.tmp / "2.zarr", zarr_format=2)
        for version in ("2", "3"):
            back = self.tmp / f"{version}.quarry"
            quarry.write(back, xr.open_zarr(self.tmp / f"{version}.zarr", mask_and_scale=False), lossless=True)
            with quarry.open(back) as dataset:
                np.testing.assert_array_equal(dataset["p"][:], array["p"])
                np.testing.assert_array_equal(np.ma.getmaskarray(dataset["k"][:]), array["k"] == FILL)
                np.testing.assert_array_equal(np.ma.getdata(dataset["k"][:]), array["k"])
                self.assert_means_the_same(dataset, array, ("p", "k"))

    def convert(self, source, suffix, field, array):
        path, back = self.tmp / f"{source.stem}{suffix}", self.tmp / f"{source.stem}{suffix}.quarry"
        with quarry.open(source) as dataset:
            quietly(dataset, path)
        paths = [path]
        if suffix in (".vti", ".pvti", ".vtr"):  # a file for each step
            paths = [path.with_name(f"{path.stem}-{step}{suffix}") for step in STEPS]
        qt.succeed("quarry-write-single", *paths, "--lossless", "--output", back)
        with quarry.open(back) as dataset:
            (name,) = dataset
            self.assertEqual(name, field)
            wanted, read = array[field].values, dataset[name][:]
            missing = np.isnan(wanted) if field == "p" else wanted == FILL
            np.testing.assert_array_equal(np.isnan(read) if field == "p" else np.ma.getmaskarray(read), missing)
            np.testing.assert_array_equal(np.ma.getdata(read), wanted)
            self.assert_means_the_same(dataset, array, (field,))

    def assert_means_the_same(self, dataset, array, fields):
        self.assertEqual([dataset[field].units for field in fields], [array[field].attrs["units"] for field in fields])
        for number, axis in enumerate(UNITS):
            np.testing.assert_array_equal(list(dataset.coords.values())[number], array[axis])
            self.assertEqual((dataset.dims[number], dataset.axis_units[axis]), (axis, UNITS[axis]))
        self.assertEqual(dataset.times, list(TIMES))
        self.assertEqual((dataset.time_units, dataset.calendar), ("days since 2001-01-01", "noleap"))


if __name__ == "__main__":
    qt.main()
