"""Fields of several shapes in one dataset: a surface beside a volume, staggered axes, a map without z. What is right,
numpy, xarray and netCDF4 say."""

import json
import re
import warnings

from python_testing import np, qt, quarry

import netCDF4  # noqa: E402
import xarray  # noqa: E402
import zarr  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

TIMES = np.array(["2001-01-01", "2001-01-02", "2001-01-03"], "M8[ns]")


def ocean():
    """Temperatures (depth, lat, lon), the height of the sea (lat, lon), a staggered velocity (depth, lat, lon_u), and a
    section (depth, lon), each over time."""
    generator = np.random.default_rng(41)
    coords = {"time": TIMES, "depth": ("depth", np.array([5.0, 15, 40, 100]), {"units": "m"}),
              "lat": ("lat", np.linspace(-10, 10, 21), {"units": "degrees_north"}),
              "lon": ("lon", np.linspace(0, 30, 31), {"units": "degrees_east"}),
              "lon_u": ("lon_u", np.linspace(-0.5, 30.5, 32), {"units": "degrees_east"})}
    length = {name: len(values[1]) if isinstance(values, tuple) else len(values) for name, values in coords.items()}

    def field(*dims):
        return dims, generator.normal(size=[length[dim] for dim in dims]).astype("f4")

    return xarray.Dataset({"temp": field("time", "depth", "lat", "lon"), "ssh": field("time", "lat", "lon"),
                           "u": field("time", "depth", "lat", "lon_u"), "section": field("time", "depth", "lon")},
                          coords)


class Grids(qt.QuarryTest):
    def write(self, data, name="ocean", **options):
        path = self.tmp / f"{name}.quarry"
        quarry.write(path, data, lossless=True, **options)
        return path

    def assert_same(self, opened, expected):
        """Names, dimensions, samples, places and attributes."""
        xarray.testing.assert_identical(opened.load(), expected)

    def test_a_dataset_of_xarray_comes_back_with_its_shapes(self):
        data = ocean()
        path = self.write(data)
        with xarray.open_dataset(path, engine=QuarryBackendEntrypoint) as opened:
            self.assert_same(opened, data)
        with quarry.open(path) as dataset:
            self.assertEqual(len(dataset.grids), 4)
            self.assertEqual(dataset["temp"].shape, (3, 4, 21, 31))
            self.assertEqual(dataset["ssh"].shape, (3, 1, 21, 31))
            self.assertEqual(dataset["u"].dims, ("time", "depth", "lat", "lon_u"))
            self.assertEqual(dataset["section"].dims[2:], ("depth", "lon"))
            for name in data:
                with self.subTest(name):
                    expected = data[name].values.reshape(dataset[name].shape)
                    np.testing.assert_array_equal(dataset[name][:], expected)
                    np.testing.assert_array_equal(dataset[name].read(step=1).array, expected[1])

    def test_what_speaks_of_one_grid_names_the_fields(self):
        with quarry.open(self.write(ocean())) as dataset:
            for ask in ("shape", "levels", "coords", "dims", "axis_units"):
                with self.subTest(ask), self.assertRaisesRegex(ValueError, r"4 grids.*temp \(4, 21, 31\)"):
                    getattr(dataset, ask)
            self.assertIn("ssh", repr(dataset))

    def test_boxes_are_those_of_the_field(self):
        data = ocean()
        path = self.write(data)
        with quarry.open(path) as dataset:
            np.testing.assert_array_equal(dataset["ssh"].read(box={"lat": (-3, 4)}, step=0).array[0],
                                          data["ssh"][0].sel(lat=slice(-3, 4)).values)
            np.testing.assert_array_equal(dataset["u"].read(box={"lon_u": (2, 5)}, step=2).array,
                                          data["u"][2].sel(lon_u=slice(2, 5)).values)
            with self.assertRaisesRegex(quarry.Error, "no axis \"lon_u\"; the axes are depth, lat and lon"):
                dataset["temp"].read(box={"lon_u": (2, 5)})
            with self.assertRaises((ValueError, quarry.Error)):
                dataset["ssh"].read(box=((0, 2), (0, 5), (0, 5)))

    def test_the_server_gives_the_same(self):
        data = ocean()
        self.write(data)
        with qt.Server(self.tmp) as server, xarray.open_dataset(
                server.target("ocean.quarry"), engine=QuarryBackendEntrypoint) as opened:
            self.assert_same(opened, data)

    def test_zarr_of_python_leaves_out_what_a_grid_lacks(self):
        data = ocean()
        group = zarr.open_group(quarry.zarr_store(self.write(data)), mode="r")
        for name, array in data.data_vars.items():
            np.testing.assert_array_equal(group[f"0/{name}"][:], array.values, name)

    def test_zarr_of_the_server_gives_the_same(self):
        data = ocean()
        self.write(data)
        with qt.Server(self.tmp, "--http", "127.0.0.1:0", "--client-rate", 0) as server:
            group = zarr.open_group(f"http://{server.http_address()}/zarr/ocean", mode="r")
            for name, array in data.data_vars.items():
                np.testing.assert_array_equal(group[f"0/{name}"][:], array.values, name)
                coarse = array.values[(slice(None), *[slice(None, None, 2)] * (array.ndim - 1))]
                np.testing.assert_array_equal(group[f"1/{name}"][:], coarse, name)

    def test_the_command_shows_and_cuts_each_field_on_its_grid(self):
        data = ocean()
        path = self.write(data)
        said = qt.info(path)
        self.assertEqual([grid["dims"] for grid in said["grids"]], [[31, 21, 4], [31, 21, 1], [32, 21, 4], [31, 4, 1]])
        self.assertEqual([grid["has_axis"] for grid in said["grids"]],
                         [[True, True, True], [True, True, False], [True, True, True], [True, True, False]])
        self.assertEqual({field["name"]: field["grid"] for field in said["fields"]},
                         {"temp": 0, "ssh": 1, "u": 2, "section": 3})
        for name in data:
            out = self.tmp / f"{name}.npy"
            qt.succeed("quarry", "get", path, "--field", name, "--step", 1, "--output", out)
            np.testing.assert_array_equal(np.load(out).ravel(), data[name][1].values.ravel(), name)
        qt.succeed("quarry", "verify", path)
        qt.succeed("quarry-index", path)
        qt.succeed("quarry", "verify", path)

    def test_further_steps_go_on_on_every_grid(self):
        data = ocean()
        path = self.write(data.isel(time=slice(0, 2)))
        quarry.write(path, data.isel(time=slice(2, 3)), lossless=True, mode="append")
        with xarray.open_dataset(path, engine=QuarryBackendEntrypoint) as opened:
            self.assert_same(opened, data)

    def test_layers_and_references_to_other_steps_are_of_the_field(self):
        data = ocean()
        path = self.tmp / "layered.quarry"
        quarry.write(path, data, layers=[0.5, 0.05], keyframe=3)
        qt.succeed("quarry", "verify", path)
        qt.succeed("quarry-index", path)
        with qt.Server(self.tmp) as server:
            for target in (path, server.target("layered.quarry")):
                with quarry.open(target) as dataset:
                    for name, array in data.data_vars.items():
                        for layer, bound in enumerate((0.5, 0.05)):
                            with self.subTest(target=target, name=name, layer=layer):
                                got = dataset[name].read(step=2, layer=layer).array
                                self.assertLessEqual(np.abs(got - array.values[2].reshape(got.shape)).max(), bound)

    def test_a_field_keeps_its_grid(self):
        data = ocean()
        path = self.write(data.isel(time=slice(0, 2)))
        with self.assertRaisesRegex(quarry.Error, 'field "ssh": the grid is .* a field has one grid'):
            quarry.write(path, {"ssh": data["u"][2:]}, lossless=True, mode="append")

    def test_missing_samples_of_two_grids_are_two_masks(self):
        """Both miss everything: their masks have equal digests, and other shapes."""
        data = ocean()[["temp", "ssh"]]
        data = data.where(np.zeros(1, bool)[0])
        path = self.write(data)
        qt.succeed("quarry", "verify", path)
        with xarray.open_dataset(path, engine=QuarryBackendEntrypoint) as opened:
            self.assertTrue(np.isnan(opened["temp"].values).all())
            self.assertTrue(np.isnan(opened["ssh"].values).all())

    def test_files_whose_fields_have_other_sizes_go_into_one_dataset(self):
        data = ocean()
        for name in ("temp", "ssh", "u"):
            with netCDF4.Dataset(self.tmp / f"{name}.nc", "w") as file:
                array = data[name][0]
                for dim in array.dims:
                    file.createDimension(dim, array.sizes[dim])
                    file.createVariable(dim, "f8", (dim,))[:] = array[dim].values
                file.createVariable(name, "f4", array.dims)[:] = array.values
        path = self.tmp / "files.quarry"
        report = self.tmp / "report.json"
        qt.succeed("quarry-write", *(self.tmp / f"{name}.nc" for name in ("temp", "ssh", "u")), "--lossless",
                   "--output", path, "--report", report)
        self.assertEqual(len(json.loads((path / "dataset.json").read_text())["grids"]), 3)
        with quarry.open(path) as dataset:
            for name in ("temp", "ssh", "u"):
                np.testing.assert_array_equal(dataset[name][0].squeeze(), data[name][0].values, name)

    def test_axes_of_one_name_are_one_axis(self):
        data = ocean()
        path = self.write(data[["temp"]])
        moved = data[["ssh"]].assign_coords(lat=data["lat"] + 1)
        with self.assertRaisesRegex(quarry.Error, 'axis "lat".*rename'):
            quarry.write(path, moved, lossless=True, mode="append")


def sea():
    """Fields of `ocean` that do not change: an area of cells and a profile."""
    generator = np.random.default_rng(42)
    data = ocean()
    data["area"] = ("lat", "lon"), generator.normal(size=(21, 31)).astype("f4")
    data["profile"] = "depth", generator.normal(size=4).astype("f4")
    return data


class EveryWay(qt.QuarryTest):
    """The same dataset of four grids and a profile, asked in every way that Python has."""

    BOUNDS = (0.5, 0.01)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = sea()
        cls.folder = cls.shared / "data"
        cls.folder.mkdir()
        cls.path = cls.folder / "sea.quarry"
        # The maps come first, and have larger patches: their grid has more levels.
        cls.names = ("ssh", "area", "temp", "u", "section", "profile")
        quarry.write(cls.path, cls.data[["ssh", "area"]], layers=cls.BOUNDS, keyframe=2, patch=32)
        quarry.write(cls.path, cls.data[["temp", "u", "section", "profile"]], layers=cls.BOUNDS, keyframe=2, patch=4,
                     mode="append")
        qt.succeed("quarry-index", cls.path)
        cls.server = cls.enterClassContext(qt.Server(cls.folder, "--http", "127.0.0.1:0", "--client-rate", 0))
        cls.targets = (str(cls.path), cls.server.target(cls.path))
        cls.decoded = {}
        for name in cls.names:
            steps = range(1 if name in ("area", "profile") else 3)
            cls.decoded[name] = np.stack([cls.decode(cls.path, name, step) for step in steps])

    @classmethod
    def decode(cls, target, name, step, *options):
        """[z, y, x], by the command."""
        output = cls.shared / "decoded.npy"
        qt.succeed("quarry", "get", target, "--field", name, "--step", step, *options, "--output", output)
        return np.load(output)

    def at(self, name, level):
        """[step, z, y, x]: every 2^level-th sample."""
        return self.decoded[name][(slice(None), *[slice(None, None, 2**level)] * 3)]

    def in_xarray(self, name, level):
        """The same without the dimensions that the field does not have."""
        sizes = self.data[name].sizes.items()
        return self.at(name, level).reshape([size if dim == "time" else -(-size >> level) for dim, size in sizes])

    def shown(self, level):
        """The fields whose grid has a level."""
        return [name for name in self.names if level < self.levels[name]]

    @property
    def levels(self):
        return {"ssh": 6, "area": 6, "temp": 3, "u": 3, "section": 3, "profile": 3}

    def test_samples_are_those_of_the_source(self):
        for name in self.names:
            source = self.data[name].values
            for layer, bound in enumerate(self.BOUNDS):
                steps = range(len(self.decoded[name]))
                got = np.stack([self.decode(self.path, name, step, "--layer", layer) for step in steps])
                self.assertLessEqual(np.abs(got - source.reshape(got.shape)).max(), bound, (name, layer))

    def test_fields(self):
        for target in self.targets:
            with quarry.open(target) as dataset:
                self.assertEqual({name: field.levels for name, field in dataset.items()}, self.levels)
                for name, field in dataset.items():
                    for level in range(field.levels):
                        with self.subTest(target=target, name=name, level=level):
                            expected = self.at(name, level)
                            self.assertEqual(field.read(steps="all", level=level).array.tobytes(), expected.tobytes())
                            one = field.read(step=0, level=level)
                            self.assertEqual(one.array.tobytes(), expected[0].tobytes())
                    self.assertEqual(field[:].tobytes(), self.decoded[name].tobytes())
                    # With two layers: all levels in the first, then the last level in the second.
                    streamed = [(answer.level, answer.layer, answer.array.shape) for answer in field.stream(step=0)]
                    self.assertEqual(streamed, [(level, 0, self.at(name, level).shape[1:])
                                                for level in reversed(range(field.levels))]
                                     + [(0, 1, self.decoded[name].shape[1:])])

    def test_plans_statistics_and_points(self):
        with quarry.open(self.targets[0]) as local, quarry.open(self.targets[1]) as remote:
            for name in self.names:
                with self.subTest(name):
                    whole = self.decoded[name][0].astype("f8")
                    last = [n - 1 for n in whole.shape]
                    asked = [last, [max(0, n - 0.5) for n in last]]
                    for field in (local[name], remote[name]):
                        plan = field.plan(step=0, level=1)
                        (extent,) = (level.extent for level in plan.levels)
                        self.assertEqual(extent, tuple((0, n) for n in self.at(name, 1).shape[1:]))
                        said = field.stats(step=0, bins=4)
                        self.assertEqual((said.valid, said.min.value, said.max.value),
                                         (whole.size, whole.min(), whole.max()))
                        self.assertAlmostEqual(said.mean.value, whole.mean(), delta=1e-9)
                        values, error = field.points(asked, step=0)
                        middle = whole[tuple(slice(max(0, n - 1), n + 1) for n in last)].mean()
                        np.testing.assert_allclose(values, [whole[tuple(last)], middle], rtol=1e-12)
                        self.assertLessEqual(error, self.BOUNDS[-1])
                    self.assertEqual(local[name].plan(step=0).price.bytes, remote[name].plan(step=0).price.bytes)

    def test_xarray(self):
        for target in self.targets:
            for level in range(6):
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    opened = xarray.open_dataset(target, engine=QuarryBackendEntrypoint, level=level)
                names = self.shown(level)
                with opened, self.subTest(target=target, level=level):
                    self.assertEqual({*opened.data_vars}, {*names})
                    self.assert_left_out(warned, level)
                    for name in names:
                        self.assertEqual(opened[name].dims, self.data[name].dims)
                        self.assertEqual(opened[name].values.tobytes(), self.in_xarray(name, level).tobytes(), name)
                        for dim in self.data[name].dims:
                            stride = 1 if dim == "time" else 2**level
                            np.testing.assert_array_equal(opened[name][dim], self.data[dim][::stride])

    def assert_left_out(self, warned, level):
        """One warning names the fields whose grids have no such level, and there is none where all have it."""
        missing = [name for name in self.names if level >= self.levels[name]]
        self.assertEqual(len(warned), 1 if missing else 0, [str(one.message) for one in warned])
        for name in missing:
            self.assertIn(name, str(warned[0].message))

    def test_trees_of_xarray_and_zarr(self):
        stores = {"tree": xarray.open_datatree(self.targets[1], engine=QuarryBackendEntrypoint),
                  "zarr": zarr.open_group(quarry.zarr_store(self.path), mode="r"),
                  "served": zarr.open_group(f"http://{self.server.http_address()}/zarr/sea", mode="r")}
        for kind, store in stores.items():
            for level in range(6):
                with self.subTest(kind=kind, level=level):
                    group = store[f"{level}"]
                    names = {*(group.data_vars if kind == "tree" else group.array_keys())}
                    self.assertEqual(names & {*self.names}, {*self.shown(level)})
                    for name in self.shown(level):
                        array = np.asarray(group[name])
                        self.assertEqual(array.tobytes(), self.in_xarray(name, level).tobytes(), name)
                        self.assertEqual(array.shape, self.in_xarray(name, level).shape, name)
        stores["tree"].close()

    def test_xarray_opens_the_zarr_of_the_server(self):
        with xarray.open_zarr(f"http://{self.server.http_address()}/zarr/sea", group="1") as opened:
            for name in self.names:
                self.assertEqual(opened[name].dims, self.data[name].dims)
                self.assertEqual(opened[name].values.tobytes(), self.in_xarray(name, 1).tobytes(), name)

    def test_a_level_that_is_good_enough_for_all(self):
        """No sample of the source is farther from the level of its field, for named fields or for all."""
        for target in self.targets:
            with xarray.open_dataset(target, engine=QuarryBackendEntrypoint, max_error=0.02) as opened:
                self.assertEqual({*opened.data_vars}, {*self.names})
                for name in self.names:
                    self.assertLessEqual(float(np.abs(opened[name] - self.data[name]).max()), 0.02)
            with self.assertRaisesRegex(quarry.Error, "level 0, the finest"):
                xarray.open_dataset(target, engine=QuarryBackendEntrypoint, max_error=1e-9)
            with self.assertRaisesRegex(ValueError, "no level 6"):
                xarray.open_dataset(target, engine=QuarryBackendEntrypoint, level=6)

    def test_exports(self):
        """The fields of each grid, as netCDF4-python reads them."""
        for target in self.targets:
            with quarry.open(target) as dataset:
                for names in (("ssh", "area"), ("temp",), ("u",), ("section",), ("profile",)):
                    out = self.tmp / f"{names[0]}.nc"
                    dataset.export(out, fields=[*names], level=1)
                    with netCDF4.Dataset(out) as file:
                        for name in names:
                            self.assertEqual(file[name].dimensions, self.data[name].dims)
                            got = np.asarray(file[name][:])
                            self.assertEqual(got.tobytes(), self.in_xarray(name, 1).tobytes(), name)
                    out.unlink()

    def test_a_level_that_the_grid_of_the_field_has_not(self):
        for target in self.targets:
            with quarry.open(target) as dataset:
                self.assertEqual(dataset["ssh"].read(step=0, level=3).shape, (1, 3, 4))
                for ask in (dataset["temp"].read, dataset["temp"].plan, dataset["temp"].stats):
                    with self.assertRaisesRegex(quarry.Error, "level 3 .*\"temp\".* 0 .* to 2"):
                        ask(step=0, level=3)

    def test_wrong_questions_are_answered_with_the_shape_of_the_field(self):
        """In the same words from the directory and through the server."""
        wrong = {"temp": ((0, 4), (0, 21), (0, 32)), "ssh": ((0, 4), (0, 21), (0, 31)), "u": ((0, 5), (0, 1), (0, 1)),
                 "section": ((0, 4), (0, 21), (0, 31)), "profile": ((0, 1), (0, 5), (0, 31))}
        said = []
        for target in self.targets:
            messages = []
            with quarry.open(target) as dataset:
                for name, box in wrong.items():
                    field = dataset[name]
                    for ask in (field.read, field.plan, field.stats):
                        outside = re.escape(f"outside the grid {field.shape[1:]}")
                        with self.assertRaisesRegex(quarry.Error, outside, msg=name) as raised:
                            ask(step=0, box=box)
                        messages.append(str(raised.exception))
                with self.assertRaisesRegex(quarry.Error, re.escape("(1, 21, 31)")):
                    dataset["ssh"].points([[1, 0, 0]], step=0)
                with self.assertRaisesRegex(KeyError, "salt"):
                    dataset["salt"]
            said.append(messages)
        self.assertEqual(*said)


class Continuing(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.data = sea()
        self.path = self.tmp / "sea.quarry"

    def write(self, data, path=None, **options):
        return quarry.write(path or self.path, data, lossless=True, **options)

    def assert_opens_as(self, expected, path=None):
        path = path or self.path
        with qt.Server(self.tmp) as server:
            for target in (path, server.target(path)):
                with xarray.open_dataset(target, engine=QuarryBackendEntrypoint) as opened:
                    xarray.testing.assert_identical(opened.load(), expected)

    def test_the_command_writes_the_same_of_the_same_file(self):
        source = self.tmp / "source.nc"
        self.data.to_netcdf(source)
        names = ["temp", "ssh", "u", "section"]
        bounds = {"tolerance": 1e-2, "patch": 8, "files": 2}
        quarry.write(self.path, self.data[names], **bounds)
        other = self.tmp / "other.quarry"
        qt.succeed("quarry-write", *(f"{source}:{name}" for name in names), "--tolerance", 1e-2, "--patch", 8,
                   "--files", 2, "--output", other)
        self.assertEqual(qt.subfiles(self.path), qt.subfiles(other))
        ours, theirs = (json.loads((path / "dataset.json").read_text()) for path in (self.path, other))
        self.assertEqual(ours["grids"], theirs["grids"])

    def test_one_grid_alone_goes_on(self):
        self.write(self.data.isel(time=slice(0, 2)))
        later = self.data.isel(time=slice(2, 3))
        written = self.write(later[["ssh"]], mode="append")
        self.assertEqual([(one.field, one.step) for one in written], [("ssh", 2)])
        expected = self.data.copy(deep=True)
        for name in ("temp", "u", "section"):
            expected[name][2] = np.nan
            expected[name].attrs["comment"] = "missing in 1 of 3 steps, which do not hold it"
        self.assert_opens_as(expected)
        group = zarr.open_group(quarry.zarr_store(self.path), mode="r")
        self.assertEqual({name: group[f"0/{name}"].shape[0] for name in ("temp", "ssh", "u")},
                         {"temp": 2, "ssh": 3, "u": 2})

        # The fields that were left out come into the existing step.
        self.write(later[["temp", "u", "section"]], mode="append")
        self.assert_opens_as(self.data)
        qt.succeed("quarry", "verify", self.path)

    def test_a_field_on_a_further_grid_comes_later(self):
        names = [name for name in self.data if name != "u"]
        self.write(self.data[names])
        qt.succeed("quarry-index", self.path)
        self.write(self.data[["u"]], mode="append")
        self.assert_opens_as(self.data[[*names, "u"]])
        qt.succeed("quarry-index", self.path)
        qt.succeed("quarry-index", self.path, "--verify")
        self.assert_opens_as(self.data[[*names, "u"]])

    def test_a_grid_that_comes_while_the_dataset_is_open(self):
        """Its fields are there as soon as somebody looks, from the directory, the server and its Zarr."""
        self.write(self.data[["ssh", "area"]])
        with qt.Server(self.tmp, "--http", "127.0.0.1:0", "--client-rate", 0, "--watch", 0.05) as server, \
                quarry.open(self.path) as local, quarry.open(server.target(self.path)) as remote:
            for dataset in (local, remote):
                self.assertEqual((len(dataset.grids), dataset["ssh"].read(step=2).shape), (1, (1, 21, 31)))
            watched = remote.watch(after=1)
            self.assertEqual([one.name for one in next(watched).fields], ["ssh"])
            quarry.write(self.path, self.data[["u"]], layers=(0.1, "exact"), keyframe=3, mode="append")
            for dataset in (local, remote):
                dataset.refresh()
                self.assertEqual(len(dataset.grids), 2)
                for step in range(3):
                    for name in ("u", "ssh"):
                        got = dataset[name].read(step=step).array
                        self.assertEqual(got.tobytes(), self.data[name][step].values.tobytes(), name)
            watched.close()
            group = zarr.open_group(f"http://{server.http_address()}/zarr/sea", mode="r")
            np.testing.assert_array_equal(group["0/u"][:], self.data["u"].values)

    def test_an_interrupted_call_is_resumed(self):
        """The third step of the third field cannot be loaded, and later it can."""
        import dask.array
        names = ["temp", "ssh", "u", "section", "area", "profile"]
        broken = self.data[names].copy()

        def load(block, block_info=None):
            if block_info[0]["chunk-location"][0] == 2:
                raise OSError("the tape is torn")
            return block

        chunked = dask.array.from_array(self.data["u"].values, chunks=(1, -1, -1, -1))
        torn = dask.array.map_blocks(load, chunked, dtype="f4", meta=np.empty((0,) * 4, "f4"))
        broken["u"] = self.data["u"].dims, torn
        with self.assertRaisesRegex(OSError, "the tape is torn"):
            self.write(broken)
        with quarry.open(self.path) as dataset:
            self.assertEqual(dataset.steps, [0, 1])
        written = self.write(self.data[names], mode="resume")
        self.assertEqual({(one.field, one.step) for one in written},
                         {(name, 2) for name in ("temp", "ssh", "u", "section")})
        self.assert_opens_as(self.data[names])
        whole = self.tmp / "whole.quarry"
        self.write(self.data[names], whole)
        self.assertEqual(qt.subfiles(self.path), qt.subfiles(whole))
        self.assertEqual(qt.info(self.path), qt.info(whole))

    def test_another_dataset_takes_its_place(self):
        self.write(self.data)
        qt.succeed("quarry-index", self.path)
        smaller = self.data[["u", "area"]].isel(lat=slice(0, 9), time=slice(0, 1))

        with self.assertRaisesRegex(quarry.Error, 'axis "lat"'):
            moved = self.data["ssh"].isel(lat=slice(3, 9)).values
            self.write({"u": smaller["u"], "tide": xarray.DataArray(moved, dims=("time", "lat", "lon"), coords={
                "time": TIMES, "lat": np.arange(6.0)})[:1]}, mode="overwrite")
        self.assert_opens_as(self.data)

        self.write(smaller, mode="overwrite")
        self.assert_opens_as(smaller)
        self.assertEqual(len(qt.info(self.path)["grids"]), 2)


if __name__ == "__main__":
    qt.main()
