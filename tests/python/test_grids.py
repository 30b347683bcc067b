"""Fields of several shapes in one dataset: a surface beside a volume, staggered axes, a map without z. What is right, numpy, xarray and
netCDF4 say."""

import json

from python_testing import np, qt, quarry

import netCDF4  # noqa: E402
import xarray  # noqa: E402
import zarr  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

TIMES = np.array(["2001-01-01", "2001-01-02", "2001-01-03"], "M8[ns]")


def ocean():
    """Temperatures (depth, lat, lon), the height of the sea (lat, lon), a staggered velocity (depth, lat, lon_u), and a section
    (depth, lon), each over time."""
    generator = np.random.default_rng(41)
    coords = {"time": TIMES, "depth": ("depth", np.array([5.0, 15, 40, 100]), {"units": "m"}),
              "lat": ("lat", np.linspace(-10, 10, 21), {"units": "degrees_north"}),
              "lon": ("lon", np.linspace(0, 30, 31), {"units": "degrees_east"}),
              "lon_u": ("lon_u", np.linspace(-0.5, 30.5, 32), {"units": "degrees_east"})}
    length = {name: len(values[1]) if isinstance(values, tuple) else len(values) for name, values in coords.items()}

    def field(*dims):
        return dims, generator.normal(size=[length[dim] for dim in dims]).astype("f4")

    return xarray.Dataset({"temp": field("time", "depth", "lat", "lon"), "ssh": field("time", "lat", "lon"),
                           "u": field("time", "depth", "lat", "lon_u"), "section": field("time", "depth", "lon")}, coords)


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
            with self.assertRaisesRegex(ValueError, "lie on two grids"):
                dataset.export(self.tmp / "both.nc", fields=["temp", "ssh"])
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
                np.testing.assert_array_equal(
                    group[f"1/{name}"][:], array.values[(slice(None), *[slice(None, None, 2)] * (array.ndim - 1))], name)

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
        qt.succeed("quarry-write", *(self.tmp / f"{name}.nc" for name in ("temp", "ssh", "u")), "--lossless", "--output", path,
                   "--report", report)
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


if __name__ == "__main__":
    qt.main()
