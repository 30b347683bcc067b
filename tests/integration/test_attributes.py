"""Metadata of a file is kept: attributes of the dataset, of fields, axes and the time, with their types. netCDF4-python
and h5py write the files; `quarry info --json` shows the dataset."""

import json
import unittest

import numpy as np

import quarry_testing as qt
from test_inputs import module
from test_meaning import Meaning

SHAPE = (3, 4, 5)  # time, lat, lon
SAMPLES = np.arange(60, dtype="f4").reshape(SHAPE)
GLOBAL = {"title": "Sea surface temperature", "institution": "\u00c9cole", "version": np.int32(7),
          "threshold": np.float32(0.1), "levels": np.array([1, 2, 3], "i2"), "empty": ""}
FIELD = {"standard_name": "sea_surface_temperature", "long_name": "temperature", "cell_methods": "time: mean",
         "flag_values": np.array([0, 1], "i1"), "grid_mapping": "crs"}
LAT = {"standard_name": "latitude", "long_name": "latitude of the cell", "bounds": "lat_bnds"}
TIME = {"standard_name": "time", "axis": "T", "bounds": "time_bnds"}


def as_json(attributes):
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in attributes.items()}


class Kept(Meaning):
    def file(self, name="source.nc", extra=(), samples=SAMPLES, format="NETCDF4"):
        path = self.netcdf(name, {
            "time": ("f8", ("time",), np.arange(3.0),
                     {**TIME, "units": "days since 2001-01-01", "calendar": "noleap"}),
            "lat": ("f4", ("lat",), np.linspace(-60, 60, 4), {**LAT, "units": "degrees_north"}),
            "sst": ("f4", ("time", "lat", "lon"), samples,
                    {**FIELD, "units": "K", "_FillValue": np.float32(-1e20), "coordinates": "lat"}),
        }, dims=dict(zip(("time", "lat", "lon"), SHAPE)), format=format)
        with module("netCDF4").Dataset(path, "a") as file:
            file.setncatts({**GLOBAL, **dict(extra)})
        return path

    def test_of_netcdf(self):
        for format in ("NETCDF4", "NETCDF3_CLASSIC"):
            dataset = self.convert(self.file(f"{format}.nc", format=format), "--lossless", name=f"{format}.quarry")
            said = qt.info(dataset)
            self.assertEqual(said["attributes"], as_json(GLOBAL))
            self.assertEqual(said["fields"][0]["attributes"], as_json(FIELD))
            self.assertEqual(said["fields"][0]["units"], "K")
            self.assertEqual(said["axis_attributes"], [{}, as_json(LAT), {}], "x, y, z")
            self.assertEqual(said["unplaced"], [True, False, False], "lon is a dimension without a coordinate")
            self.assertEqual(said["time_name"], "time")
            self.assertEqual(said["time_attributes"], as_json(TIME))
            self.assertEqual((said["time_units"], said["calendar"]), ("days since 2001-01-01", "noleap"))

    def test_keep_their_types(self):
        dataset = self.convert(self.file(), "--lossless", name="typed.quarry")
        manifest = json.loads((dataset / "dataset.json").read_text())
        types = {one["name"]: one["numbers"]["dtype"] for one in manifest["attributes"] if "numbers" in one}
        self.assertEqual(types, {"version": "DATA_TYPE_INT32", "threshold": "DATA_TYPE_FLOAT32",
                                 "levels": "DATA_TYPE_INT16"})
        self.assertEqual(manifest["grids"][0]["position_types"][1], "DATA_TYPE_FLOAT32")

    def test_of_hdf5_and_the_groups_around(self):
        h5py = module("h5py")
        path = self.tmp / "groups.h5"
        with h5py.File(path, "w") as file:
            file.attrs["title"] = "outer"
            file.attrs["run"] = np.int64(2**53 + 1)
            group = file.create_group("data")
            group.attrs["title"] = "inner"
            made = group.create_dataset("p", data=SAMPLES[0])
            made.attrs["names"] = ["a", "b"]
            made.attrs["complex"] = np.complex64(1j)
        outcome, dataset = self.write(f"{path}:/data/p", "--lossless", name="groups.quarry")
        said = qt.info(dataset)
        self.assertEqual(said["attributes"], {"run": 2**53 + 1, "title": "inner"})
        self.assertEqual(said["fields"][0]["attributes"], {"names": ["a", "b"]})
        self.assertRegex(outcome.err, r"warning: .*its attributes complex are not kept")

    def test_that_are_too_long_are_left_by_name(self):
        path = self.file("long.nc", {"history": "x" * 2**20})
        outcome, dataset = self.write(path, "--lossless", name="long.quarry")
        self.assertRegex(outcome.err, "the file: its attributes history are not kept")
        self.assertEqual(qt.info(dataset)["attributes"], as_json(GLOBAL))

    def test_in_which_files_differ_are_named_once(self):
        paths = [self.file(f"{i}.nc", {"history": f"made on day {i}", "seed": i}) for i in range(3)]
        outcome, dataset = self.write(*paths, "--lossless", name="several.quarry")
        told = [line for line in outcome.err.splitlines() if "attributes of the files differ" in line]
        self.assertEqual(len(told), 1, outcome.err)
        self.assertRegex(told[0], "the dataset keeps the first: history, seed$")
        self.assertEqual(qt.info(dataset)["attributes"]["history"], "made on day 0")

        later, _ = self.write(self.file("later.nc", {"history": "later"}), "--lossless", "--append",
                              name="several.quarry")
        self.assertRegex(later.err, "the dataset keeps the first: history")
        self.assertEqual(qt.info(dataset)["attributes"]["history"], "made on day 0")

    def test_valid_range_has_been_applied(self):
        path = self.netcdf("range.nc", {"p": ("f4", ("y", "x"), SAMPLES[0], {"valid_max": np.float32(10)})},
                           dims={"y": 4, "x": 5})
        dataset = self.convert(path, "--lossless", name="range.quarry")
        field = qt.info(dataset)["fields"][0]
        self.assertEqual(field["attributes"], {})
        self.assertAlmostEqual(field["valid_fraction"], 11 / 20)

    def test_are_shown(self):
        out = qt.run("quarry", "info", self.convert(self.file(), "--lossless", name="shown.quarry")).out
        for line in ("title: Sea surface temperature", "standard_name: sea_surface_temperature",
                     "long_name: latitude of the cell", "levels: 1, 2, 3"):
            self.assertIn(line, out)

    def test_are_the_same_behind_a_server(self):
        dataset = self.convert(self.file(), "--lossless", name="served.quarry")
        with qt.Server(self.tmp) as server:
            remote = qt.info(server.target("served"))
        local = qt.info(dataset)
        for key in ("attributes", "axis_attributes", "time_attributes", "time_name", "unplaced"):
            self.assertEqual(remote[key], local[key])
        self.assertEqual(remote["fields"][0]["attributes"], local["fields"][0]["attributes"])


del Meaning  # its own tests run in its own program


if __name__ == "__main__":
    unittest.main()
