"""The meaning of a file: missing samples, axes, times and names are kept, converted, or refused by name. netCDF4-python
tells the missing samples of a NetCDF file, h5py and numpy the values of the others."""

import shutil
import unittest

import numpy as np

import quarry_testing as qt
from test_inputs import Inputs, module

SHAPE = (4, 6, 8)  # z, y, x


def masked(path, name):
    """The samples of a variable as netCDF4-python gives them: missing ones are masked, packed ones are unpacked."""
    netcdf = module("netCDF4")
    with netcdf.Dataset(path) as file:
        return np.ma.masked_invalid(np.ma.asarray(file[name][...]))


class Meaning(Inputs):
    def netcdf(self, name, variables, *, dims=None, format="NETCDF4"):
        """variables: name -> (type, dimensions, values, attributes); values may be a slice and values, or None."""
        netcdf = module("netCDF4")
        path = self.tmp / name
        with netcdf.Dataset(path, "w", format=format) as file:
            for dimension, n in (dims or dict(zip("zyx", SHAPE))).items():
                file.createDimension(dimension, n)
            for variable, (dtype, dimensions, values, attributes) in variables.items():
                attributes = dict(attributes)
                fill = attributes.pop("_FillValue", None)
                made = file.createVariable(variable, dtype, dimensions, fill_value=fill)
                made.set_auto_maskandscale(False)
                made.setncatts(attributes)
                if isinstance(values, tuple):
                    made[values[0]] = values[1]
                elif values is not None:
                    made[...] = values
        return path

    def decoded(self, dataset, field, dtype, *arguments):
        return qt.get_array(dataset, self.tmp / "decoded.raw", dtype, *arguments, field=field)

    def assert_means(self, path, variable, dtype, *, name):
        """Without loss: the values of netCDF4-python, and the same samples missing."""
        expected = masked(path, variable)
        dataset = self.convert(f"{path}:{variable}", "--lossless", name=name)
        field = qt.info(dataset)["fields"][0]
        self.assertEqual(field["dtype"], np.dtype(dtype).name)
        decoded = self.decoded(dataset, variable, dtype)
        missing = np.broadcast_to(expected.mask, expected.shape).ravel()
        np.testing.assert_array_equal(qt.missing(decoded, field.get("fill")), missing)
        np.testing.assert_array_equal(decoded[~missing], expected.compressed().astype(dtype))
        return dataset


class MissingSamples(Meaning):
    def test_as_netcdf4_python(self):
        counting = np.arange(np.prod(SHAPE)).reshape(SHAPE)
        junk = (20 + counting / 7).astype("f4")
        junk[0, :3, :3], junk[1, :3, :3], junk[2, 1, 1] = -9.96921e36, -33, np.nan
        packed = counting.astype("i2")
        packed[0, 0, :4] = -32768
        packed[1, 1, :4] = 30000
        cases = {
            "fill is nan": ("f4", junk, {"_FillValue": np.float32(np.nan), "missing_value": np.float32(-9.96921e36)}),
            "several values": ("f4", junk, {"missing_value": np.array([-33, -9.96921e36], "f4")}),
            "value of double": ("f4", junk, {"missing_value": -33.0}),
            "default": ("f4", (slice(0, 3), junk[:3]), {}),
            "default of double": ("f8", (slice(0, 3), junk[:3]), {}),
            "default of integers": ("i4", (slice(0, 3), counting[:3]), {}),
            "default of short": ("i2", (slice(0, 3), counting[:3]), {}),
            "default of bytes": ("u1", np.where(counting > 150, 255, counting).astype("u1"), {}),
            "limits": ("f4", junk, {"valid_min": np.float32(-40), "valid_max": np.float32(30)}),
            "range": ("f4", junk, {"valid_range": np.array([0, 40], "f4")}),
            "range of integers": ("i2", packed, {"valid_range": np.array([3, 200], "i2")}),
            "range of bytes": ("u1", counting.astype("u1"), {"valid_max": np.uint8(99)}),
            "two of integers": ("i2", packed, {"_FillValue": np.int16(-32768), "missing_value": np.int16(30000)}),
            "unsigned": ("i2", packed, {"_Unsigned": "true", "_FillValue": np.int16(-32768)}),
            "packed": ("i2", packed, {"scale_factor": np.float32(0.01), "add_offset": np.float32(273.15),
                                      "_FillValue": np.int16(-32768), "valid_max": np.int16(29999)}),
            "packed doubles": ("f8", counting / 7, {"scale_factor": np.float32(0.5)}),
            "packed integers": ("i4", (10**9 + counting).astype("i4"), {"scale_factor": np.float32(0.5)}),
        }
        for number, (case, (dtype, values, attributes)) in enumerate(cases.items()):
            for format in ("NETCDF4", "NETCDF3_64BIT_DATA"):
                with self.subTest(case=case, format=format):
                    path = self.netcdf(f"{number}{format}.nc", {"v": (dtype, tuple("zyx"), values, attributes)}, format=format)
                    stored = {"unsigned": "u2", "packed": "f4", "packed integers": "f8"}.get(case, dtype)
                    self.assert_means(path, "v", stored, name=f"{number}{format}.quarry")

    def test_a_value_as_text(self):
        """netCDF4-python warns and masks nothing; the file's intent is plain."""
        values = np.arange(np.prod(SHAPE), dtype="f4").reshape(SHAPE)
        for number, text in enumerate(("7", " 7.", "7.f")):
            path = self.netcdf(f"{number}.nc", {"v": ("f4", tuple("zyx"), values, {"missing_value": text})})
            dataset = self.convert(path, "--lossless", name=f"{number}.quarry")
            self.assertEqual(qt.missing(self.decoded(dataset, "v", "f4"), 7).nonzero()[0].tolist(), [7])
        path = self.netcdf("none.nc", {"v": ("f4", tuple("zyx"), values, {"missing_value": "none"})})
        self.assertIn("missing_value is not a number", self.write(path, "--lossless")[0].err)

    def test_the_same_content_as_hdf5(self):
        """A NetCDF-4 file is an HDF5 file: both readers make the same dataset of it."""
        values = (np.arange(np.prod(SHAPE)).reshape(SHAPE) / 7).astype("f4")
        values[0, 0] = -5
        coordinates = {name: ("i8" if name == "y" else "f8", (name,), 10 - 2 * np.arange(n), {"units": unit})
                       for name, n, unit in zip("zyx", SHAPE, ("m", "degrees_north", "degrees_east"))}
        for number, (dtype, attributes) in enumerate((
                ("f4", {"missing_value": np.array([-5, -6], "f4"), "units": "K"}), ("f4", {"_FillValue": np.float32(-5)}),
                ("f4", {}), ("i2", {"scale_factor": np.float32(0.5), "valid_min": np.int16(0)}), ("u1", {}), ("i4", {}))):
            with self.subTest(dtype=dtype, attributes=attributes):
                # The last plane is never written.
                path = self.netcdf(f"{number}.nc", {**coordinates, "v": (dtype, tuple("zyx"), (slice(0, 3), values[:3].astype(dtype)),
                                                                         attributes)})
                other = self.tmp / f"{number}.h5"
                other.write_bytes(path.read_bytes())
                infos, samples = [], []
                for source in (path, other):
                    dataset = self.convert(source, "--lossless", name=f"{number}{source.suffix}.quarry")
                    info = qt.info(dataset)
                    infos.append([info[key] for key in ("dims", "axis_names", "axis_units", "origin", "spacing")]
                                 + [[info["fields"][0].get(key) for key in ("name", "dtype", "units", "fill")]])
                    samples.append(self.decoded(dataset, "v", infos[-1][-1][1]).tobytes())
                self.assertEqual(infos[0], infos[1])
                self.assertEqual(samples[0], samples[1])
                self.assertEqual((infos[0][1], infos[0][4]), (["x", "y", "z"], [-2, -2, -2]))

    def test_what_hdf5_never_wrote(self):
        h5py = module("h5py")
        values = np.arange(np.prod(SHAPE), dtype="f4").reshape(SHAPE)
        with h5py.File(self.tmp / "a.h5", "w") as file:
            for name, fill in (("declared", -9999.0), ("default", None)):
                file.create_dataset(name, SHAPE, "f4", chunks=(2, 6, 8), fillvalue=fill)[:2] = values[:2] + 1
        dataset = self.convert(f"{self.tmp}/a.h5:declared", "--lossless")
        decoded = self.decoded(dataset, "declared", "f4").reshape(SHAPE)
        np.testing.assert_array_equal(qt.missing(decoded, qt.info(dataset)["fields"][0].get("fill")), np.arange(4)[:, None, None]
                                      + np.zeros(SHAPE) >= 2)
        outcome, _ = self.write(f"{self.tmp}/a.h5:default", "--lossless", name="b.quarry")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("1 of 2 chunks were never written", outcome.err)

    def test_parts_of_hdf5_that_are_gone(self):
        h5py = module("h5py")
        layout = h5py.VirtualLayout(SHAPE, "f4")
        for rank in range(2):
            with h5py.File(self.tmp / f"rank{rank}.h5", "w") as file:
                file["u"] = np.full((2, 6, 8), rank + 1, "f4")
            layout[2 * rank:2 * rank + 2] = h5py.VirtualSource(f"rank{rank}.h5", "u", (2, 6, 8))
        with h5py.File(self.tmp / "whole.h5", "w") as file:
            file.create_virtual_dataset("u", layout)
            samples = self.tmp / "samples.bin"
            np.ones(SHAPE, "f4").tofile(samples)
            file.create_dataset("outside", SHAPE, "f4", external=[(samples.name, 0, samples.stat().st_size)])
        dataset = self.convert(f"{self.tmp}/whole.h5:u", "--lossless")
        np.testing.assert_array_equal(self.decoded(dataset, "u", "f4").reshape(SHAPE)[:, 0, 0], [1, 1, 2, 2])
        (self.tmp / "rank1.h5").rename(self.tmp / "moved.h5")
        samples.write_bytes(samples.read_bytes()[:-4])
        shutil.copy(self.tmp / "whole.h5", self.tmp / "whole.nc")  # for the reader of NetCDF
        for ending in ".h5", ".nc":
            outcome, dataset = self.write(f"{self.tmp}/whole{ending}:u", "--lossless", name="b.quarry")
            self.assert_one_line(outcome, qt.DAMAGED, "rank1.h5", "missing")
            self.assertFalse(dataset.exists())
            outcome, _ = self.write(f"{self.tmp}/whole{ending}:outside", "--lossless", name="b.quarry")
            self.assert_one_line(outcome, qt.DAMAGED, "samples.bin")

    def test_a_missing_filter_is_named(self):
        """By both readers: the filter's number is changed to one that nobody has."""
        h5py = module("h5py")
        path = self.tmp / "a.h5"
        with h5py.File(path, "w") as file:
            data = file.create_dataset("u", data=np.zeros(SHAPE, "f4"), chunks=SHAPE, compression="lzf")
            data.dims[0].label = "z"
        for source in (path, self.tmp / "a.nc"):
            source.write_bytes(path.read_bytes().replace(b"\x00\x7d\x08\x00\x01\x00", b"\xff\x7d\x08\x00\x01\x00"))
            outcome, _ = self.write(source, "--lossless", name="b.quarry")
            self.assert_one_line(outcome, qt.UNREACHABLE, "HDF5 filter", "HDF5_PLUGIN_PATH")


class Ranges(Meaning):
    """A tolerance relative to a range that undeclared fill values make would leave nothing of the samples."""

    def test_outlying_samples_are_refused(self):
        field = qt.turbulent((32, 32, 32)) + 20
        for junk in (-9.96921e36, -999, 1e20):
            with self.subTest(junk=junk):
                values = field.copy()
                values[:3, :5] = junk
                np.save(self.tmp / "a.npy", values)
                outcome, dataset = self.write(self.tmp / "a.npy", "--relative", "1e-3")
                self.assert_one_line(outcome, qt.USAGE, "--fill", "--accept-range", str(float(np.float32(junk)))[:4], "1.5 %")
                self.assertFalse(dataset.exists())
                outcome, _ = self.write(self.tmp / "a.npy", "--relative", "1e-3", "--dry-run")
                self.assert_one_line(outcome, qt.USAGE, "--fill")
                dataset = self.convert(self.tmp / "a.npy", "--relative", "1e-3", "--fill", np.float32(junk), name=f"{junk}.quarry")
                decoded = self.decoded(dataset, "a", "f4").reshape(values.shape)
                spread = float(np.ptp(field[3:]))
                self.assertLess(np.abs(decoded[3:] - field[3:]).max(), 1.1e-3 * spread)

    def test_most_samples_may_be_missing(self):
        field = qt.turbulent((32, 32, 32)) + 20
        for junk in (-999, np.finfo("f4").min, -3e30):
            with self.subTest(junk=junk):
                values = field.copy()
                values[:24] = junk
                np.save(self.tmp / "a.npy", values)
                outcome, _ = self.write(self.tmp / "a.npy", "--relative", "1e-3")
                self.assert_one_line(outcome, qt.USAGE, "--fill", "75 %")

    def test_insisting_is_said(self):
        values = qt.turbulent((32, 32, 32)).copy()
        values[5, 5, 5] = 1e20
        np.save(self.tmp / "a.npy", values)
        outcome, dataset = self.write(self.tmp / "a.npy", "--relative", "1e-3", "--accept-range")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("warning", outcome.err)
        self.assertRegex(outcome.out, r"0  a .* - +100.00%")  # no PSNR
        outcome = qt.run("quarry", "verify", dataset, "--against", self.tmp / "a.npy")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("--fill", outcome.err)
        self.assertNotIn("PSNR", outcome.out)

    def test_wide_ranges_are_none(self):
        z, y, x = np.mgrid[0:32, 0:32, 0:32] - 16.0
        fields = {"pulse": np.exp(-(x**2 + y**2 + z**2) / 8), "mask": (x > 10).astype("f8"), "rain": np.maximum(0, x - 12),
                  "heavy tail": np.exp(3 * qt.random_numbers("tail").normal(size=x.shape)),
                  "pole": 1 / (0.01 + x**2 + y**2 + z**2)}
        fields = {name: field.astype("f4") for name, field in fields.items()}
        bytes_ = qt.random_numbers("bytes").integers(0, 256, (32, 32, 32))
        fields["image"] = np.where(bytes_ < 80, bytes_ % 3, np.where(bytes_ < 230, 255, bytes_)).astype("u1")
        fields["few"] = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 900, 2000], "f4")
        for number, (name, field) in enumerate(fields.items()):
            with self.subTest(field=name):
                np.save(self.tmp / "a.npy", field)
                self.convert(self.tmp / "a.npy", "--relative", "1e-3", name=f"{number}.quarry")


class Axes(Meaning):
    def members(self):
        values = np.arange(2 * 3 * np.prod(SHAPE), dtype="f4").reshape(2, 3, *SHAPE)
        path = self.netcdf("members.nc", {"temp": ("f4", ("member", "time", "z", "y", "x"), values, {}),
                                          "land": ("i1", ("y", "x"), 1, {})},
                           dims={"member": 2, "time": 3, **dict(zip("zyx", SHAPE))})
        return path, values

    def test_members_are_chosen(self):
        path, values = self.members()
        outcome, _ = self.write(path, "--lossless")
        self.assert_one_line(outcome, qt.USAGE, "temp", "member", "--index member=K")  # and not land
        dataset = self.convert(path, "--lossless", "--index", "member=1")
        self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2])
        np.testing.assert_array_equal(self.decoded(dataset, "temp", "f4", "--step", 2), values[1, 2].ravel())
        dataset = self.convert(path, "--lossless", "--index", "member=0:2", "--index", "time=1", name="b.quarry")
        self.assertEqual([field["name"] for field in qt.info(dataset)["fields"]], ["temp_member0", "temp_member1"])
        np.testing.assert_array_equal(self.decoded(dataset, "temp_member1", "f4"), values[1, 1].ravel())
        qt.succeed("quarry", "verify", dataset, "--field", "temp_member1", "--against", path, "--index", "member=0:2",
                   "--index", "time=1")
        for wrong, mention in (("member=2", "beyond"), ("level=0", "is not a dimension"), ("member", "does not choose an index"),
                               ("member=1:1", "does not choose an index")):
            with self.subTest(index=wrong):
                outcome, _ = self.write(path, "--lossless", "--index", wrong, name="c.quarry")
                self.assert_one_line(outcome, qt.USAGE, mention)

    def test_letters_for_arrays_without_names(self):
        h5py = module("h5py")
        values = np.arange(3 * np.prod(SHAPE), dtype="f4").reshape(3, *SHAPE)
        with h5py.File(self.tmp / "a.h5", "w") as file:
            file["u"] = values
            file["t"] = [0.0, 1.0, 2.0]
        outcome, _ = self.write(self.tmp / "a.h5", "--lossless")
        self.assert_one_line(outcome, qt.USAGE, "/u", "--axes")  # and not t
        dataset = self.convert(self.tmp / "a.h5", "--lossless", "--axes", "tzyx")
        self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2])
        np.testing.assert_array_equal(self.decoded(dataset, "u", "f4", "--step", 1), values[1].ravel())
        dataset = self.convert(self.tmp / "a.h5", "--lossless", "--axes", "xyzc", "--index", "c=2", name="b.quarry")
        np.testing.assert_array_equal(self.decoded(dataset, "u", "f4"), values[..., 2].transpose(2, 1, 0).ravel())
        outcome, _ = self.write(self.tmp / "a.h5", "--lossless", "--axes", "zyx", name="c.quarry")
        self.assert_one_line(outcome, qt.USAGE, "--axes zyx", "4")

    def test_time_by_what_it_is(self):
        """Not by its name: a unit with a reference date, axis, standard name, or a dimension that grows first."""
        values = np.arange(5 * 60, dtype="f4").reshape(5, 6, 10)
        since = {"units": "days since 2000-01-01"}
        cases = {
            "ocean_time": ({"ocean_time": 5, "y": 6, "x": 10}, values, since),
            "axis": ({"moment": 5, "y": 6, "x": 10}, values, {"axis": "T"}),
            "last": ({"y": 6, "x": 10, "when": 5}, values.transpose(1, 2, 0), since),
            "grows": ({"tstep": None, "y": 6, "x": 10}, values, None),
            "int64": ({"time": 5, "y": 6, "x": 10}, values, since),
        }
        for number, (case, (dims, samples, attributes)) in enumerate(cases.items()):
            with self.subTest(case=case):
                time = next(name for name in dims if name not in "xy")
                variables = {"sst": ("f4", tuple(dims), (slice(None), samples), {})}
                if attributes is not None:
                    variables[time] = ("i8" if case == "int64" else "f8", (time,), 3 * np.arange(5), attributes)
                path = self.netcdf(f"{number}.nc", variables, dims=dims)
                dataset = self.convert(path, "--lossless", name=f"{number}.quarry")
                info = qt.info(dataset)
                self.assertEqual(info["dims"], [10, 6, 1])
                self.assertEqual(info["times"], [0, 3, 6, 9, 12] if attributes else [None] * 5)
                np.testing.assert_array_equal(self.decoded(dataset, "sst", "f4", "--step", 3), values[3].ravel())

    def test_the_one_moment(self):
        """Among several scalar times, the named one that is "time" counts; where two are alike, none, and a warning."""
        units = {"units": "hours since 2001-01-01"}
        start = ("f8", (), 4, {**units, "standard_name": "forecast_reference_time"})
        moment = ("f8", (), 10, {**units, "standard_name": "time"})
        plain = ("f8", (), 10, units)
        plane, dims = ("f4", ("y", "x"), np.zeros((6, 8))), {"y": 6, "x": 8, "record": None}
        records = ("f4", ("record", "y", "x"), np.zeros((3, 6, 8)))
        for number, (variables, expected, says) in enumerate((
                ({"time": moment, "forecast_reference_time": start, "p": (*plane, {"coordinates": "time forecast_reference_time"})}, 10, ""),
                ({"time": moment, "forecast_reference_time": start, "p": (*plane, {})}, 10, ""),
                ({"b": start, "a": plain, "p": (*plane, {"coordinates": "a"})}, 10, ""),
                ({"b": start, "a": plain, "p": (*plane, {})}, None, "its time is ambiguous: any of"),
                ({"when": plain, "p": (*records, {"coordinates": "when"})}, 10, ""))):
            for ending, format in (".nc", "netcdf"), (".h5", "hdf5"):
                with self.subTest(number=number, format=format):
                    path = self.netcdf(f"{number}{ending}", variables, dims=dims)
                    outcome, dataset = self.write(f"{path}:p", "--lossless", "--format", format, name=f"{number}{format}.quarry")
                    self.assertEqual(outcome.code, qt.DONE, outcome)
                    self.assertEqual(qt.info(dataset)["times"], [expected])
                    self.assertIn(says, outcome.err)

    def test_files_of_old_netcdf(self):
        """They have no _NCProperties, and mean the same to both readers."""
        path = self.netcdf("a.nc", {"p": ("f4", ("record", "y", "x"), np.zeros((3, 6, 8)), {})},
                           dims={"record": None, "y": 6, "x": 8})
        with module("h5py").File(path, "a") as file:
            del file.attrs["_NCProperties"]
        for format in "netcdf", "hdf5":
            self.assertEqual(len(qt.info(self.convert(path, "--lossless", "--format", format, name=f"{format}.quarry"))["steps"]), 3)

    def test_groups_have_the_moment_around_them(self):
        path = self.tmp / "a.nc"
        with module("netCDF4").Dataset(path, "w") as file:
            time = file.createVariable("time", "f8", ())
            time.units, time[...] = "hours since 2001-01-01", 3.25
            for name, n in {"y": 6, "x": 8}.items():
                file.createDimension(name, n)
            file.createGroup("deep/inner").createVariable("b", "f4", ("y", "x"))[...] = 1
        for format in "netcdf", "hdf5":
            self.assertEqual(qt.info(self.convert(f"{path}:/deep/inner/b", "--lossless", "--format", format,
                                                  name=f"{format}.quarry"))["times"], [3.25])

    def test_times_beside_numbers_of_steps(self):
        """As our own exports have them: the times are a list beside the coordinate of the dimension."""
        h5py = module("h5py")
        values = np.arange(3 * 60, dtype="f4").reshape(3, 6, 10)
        since = {"units": "days since 2000-01-01"}
        self.netcdf("a.nc", {"step": ("i4", ("step",), [0, 5, 7], {}), "time": ("f8", ("step",), [0, 1.5, 3], since),
                             "u": ("f4", ("step", "y", "x"), values, {"coordinates": "time"})}, dims={"step": 3, "y": 6, "x": 10})
        with h5py.File(self.tmp / "a.h5", "w") as file:
            file["step"], file["time"], file["u"] = [0, 5, 7], [0, 1.5, 3], values
            file["step"].make_scale("step")
            file["u"].dims[0].attach_scale(file["step"])
            file["time"].attrs["units"], file["u"].attrs["coordinates"] = since["units"], "time"
        for name in ("a.nc", "a.h5"):
            with self.subTest(name=name):
                outcome, dataset = self.write(f"{self.tmp / name}:u", "--lossless", name=f"{name}.quarry")
                self.assertEqual((outcome.code, outcome.err), (qt.DONE, ""))
                self.assertEqual((qt.info(dataset)["times"], qt.info(dataset)["time_units"]), ([0, 1.5, 3], since["units"]))
                np.testing.assert_array_equal(self.decoded(dataset, "u", "f4", "--step", 2), values[2].ravel())

    def test_positions_keep_their_precision(self):
        """Positions are even within the precision in which they are stored: float64 is not rounded as float32 is."""
        random = qt.random_numbers("positions")
        positions = {"time": 1.7e9 + 60 * np.arange(200) + random.uniform(-29, 29, 200),
                     "northing": 5.4e6 + 2 * np.arange(200) + random.uniform(-0.5, 0.5, 200),
                     "even": 5.4e6 + 2 * np.arange(200.), "tenths": 1e5 + np.cumsum(np.full(200, 0.1))}
        for name, at in positions.items():
            with self.subTest(name=name):
                path = self.netcdf(f"{name}.nc", {"s": ("f8", ("s",), at, {"units": "m"}), "v": ("f4", ("s",), np.arange(200), {})},
                                   dims={"s": 200})
                dataset = self.convert(f"{path}:v", "--lossless", name=f"{name}.quarry")
                listed = qt.info(dataset)["coordinates"][0]
                if name in ("even", "tenths"):
                    self.assertIsNone(listed)
                else:
                    np.testing.assert_array_equal(listed, at)

    def test_leads_of_a_forecast_are_times(self):
        path = self.netcdf("a.nc", {"frtime": ("i4", ("frtime",), [0, 6, 12], {"units": "hours"}),
                                    "p": ("f4", ("frtime", "y", "x"), np.arange(3 * 6 * 8).reshape(3, 6, 8), {})},
                           dims={"frtime": 3, "y": 6, "x": 8})
        said = qt.info(self.convert(f"{path}:p", "--lossless"))
        self.assertEqual((said["times"], said["time_units"]), ([0, 6, 12], "hours"))

    def test_guessed_axes_are_said(self):
        path = self.netcdf("a.nc", {"cape": ("f4", ("mcape_mcin_lcl_lfc", "y", "x"), np.zeros((4, 6, 8)), {})},
                           dims={"mcape_mcin_lcl_lfc": 4, "y": 6, "x": 8})
        outcome, _ = self.write(path, "--lossless")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("mcape_mcin_lcl_lfc", outcome.err)
        self.assertIn("--index mcape_mcin_lcl_lfc=K", outcome.err)
        np.save(self.tmp / "rgb.npy", np.zeros((40, 60, 3), "u1"))
        outcome, _ = self.write(self.tmp / "rgb.npy", "--lossless", name="rgb.quarry")
        self.assertIn("--axes yxc", outcome.err)

    def test_tables_of_meshes_are_no_fields(self):
        numbers = np.arange(12).reshape(4, 3)
        path = self.netcdf("a.nc", {"mesh": ("i4", (), 0, {"cf_role": "mesh_topology", "face_node_connectivity": "faces"}),
                                    "faces": ("i4", ("face", "three"), numbers, {}),
                                    "bounds": ("f4", ("face", "three", "three"), np.zeros((4, 3, 3)), {"cf_role": "face_bounds"}),
                                    "p": ("f4", ("face",), np.arange(4.), {})}, dims={"face": 4, "three": 3})
        self.assertEqual([field["name"] for field in qt.info(self.convert(path, "--lossless"))["fields"]], ["p"])
        path = self.netcdf("b.nc", {"ele": ("i4", ("face", "nface"), numbers, {})}, dims={"face": 4, "nface": 3})
        outcome, _ = self.write(path, "--lossless", name="b.quarry")
        self.assert_one_line(outcome, qt.USAGE, "nface is not an axis")

    def test_lists_without_a_scale_belong_to_one_dimension(self):
        """A list of times is as long as an axis of space, too."""
        h5py = module("h5py")
        with h5py.File(self.tmp / "a.h5", "w") as file:
            file["p"] = np.arange(6 * 6 * 6, dtype="f4").reshape(6, 6, 6)
            file["time"] = 0.5 * np.arange(6)
            file["time"].attrs["units"] = "days since 2001-01-01"
            for number, name in enumerate(("record", "y", "x")):
                file[name] = np.arange(6.)
                file[name].make_scale(name)
                file["p"].dims[number].attach_scale(file[name])
            file["p"].attrs["coordinates"] = "time"
        said = qt.info(self.convert(self.tmp / "a.h5:/p", "--lossless"))
        self.assertEqual((said["dims"], said["times"]), ([6, 6, 1], [0, 0.5, 1, 1.5, 2, 2.5]))

    def test_names_that_change_are_said(self):
        path = self.netcdf("a.nc", {"H+": ("f4", ("z", "y", "x"), np.zeros(SHAPE), {"Units": "vmr"})})
        outcome, dataset = self.write(path, "--lossless")
        self.assertIn('"H+"', outcome.err)
        self.assertEqual([(field["name"], field["units"]) for field in qt.info(dataset)["fields"]], [("H_", "vmr")])

    def test_coordinates_that_are_not_kept_are_said(self):
        plane = {"lat": ("f4", ("y", "x"), np.zeros((6, 8)), {}), "height": ("f4", (), 2, {"units": "m"}),
                 "level": ("f4", ("level",), [850], {"units": "hPa"}),
                 "time": ("f8", (), 3, {"units": "days since 2001-01-01"}),
                 "p": ("f4", ("level", "k", "z", "y", "x"), np.zeros((1, 2, 3, 6, 8)),
                       {"coordinates": "lat height time"})}
        outcome, dataset = self.write(self.netcdf("a.nc", plane, dims={"level": 1, "k": 2, "z": 3, "y": 6, "x": 8}),
                                      "--lossless", "--index", "k=1")
        self.assertIn("its coordinates level are not kept", outcome.err)
        info = qt.info(dataset)
        self.assertEqual(info["times"], [3])
        self.assertEqual([(field["name"], field["still"], field["coordinate"]) for field in info["fields"]],
                         [("p", False, False), ("lat", True, True), ("height", True, True)])

    def test_two_files_of_one_moment_are_said(self):
        paths = [self.netcdf(f"tile{tile}.nc", {"time": ("f8", ("time",), [10], {"units": "days since 2001-01-01"}),
                                                "ps": ("f4", ("time", "y", "x"), np.full((1, 6, 8), tile), {})},
                             dims={"time": 1, "y": 6, "x": 8}) for tile in (1, 2)]
        outcome, _ = self.write(*paths, "--lossless")
        self.assertIn("has the time 10, as the step before has", outcome.err)

    def test_coordinates_that_cannot_be_used(self):
        """Lend no unit to 0, 1, 2, ..., which nobody has said."""
        longitude = np.array([350, 355, 0, 5, 10, 15, 20, 25.0])
        path = self.netcdf("a.nc", {"lon": ("f8", ("lon",), longitude, {"units": "degrees_east"}),
                                    "t": ("f4", ("z", "y", "lon"), 1, {})}, dims={"z": 4, "y": 6, "lon": 8})
        outcome, dataset = self.write(path, "--lossless")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("lon", outcome.err)
        self.assertIn("neither ascends nor descends", outcome.err)
        info = qt.info(dataset)
        self.assertEqual((info["axis_names"][0], info["axis_units"][0], info["unplaced"][0]), ("lon", "", True))

    def test_refined_meshes_are_refused_by_name(self):
        h5py = module("h5py")
        for kind, datasets, attributes in (("FLASH", ("bounding box", "refine level"), {}), ("Chombo", ("Chombo_global/a",), {}),
                                           ("Enzo", ("Grid00000001/Density",), {}),
                                           ("Athena++", ("hydro",), {"NumMeshBlocks": 8, "MeshBlockSize": [8, 8, 8]}),
                                           ("Fluent", ("meshes/1/nodes/coords/1", "settings/Version"), {}),
                                           ("DOLFINx", ("Mesh/mesh/geometry",), {}),
                                           ("VTKHDF", ("VTKHDF/PointData/p",), {})):
            with self.subTest(kind=kind):
                with h5py.File(self.tmp / "a.h5", "w") as file:
                    for name in datasets:
                        file[name] = np.zeros(SHAPE, "f4")
                    file.attrs.update(attributes)
                outcome, _ = self.write(self.tmp / "a.h5", "--lossless")
                self.assert_one_line(outcome, qt.USAGE, kind)


class Names(Meaning):
    def test_groups_are_fields(self):
        h5py = module("h5py")
        with h5py.File(self.tmp / "a.h5", "w") as file:
            for k, species in enumerate(("electrons", "ions")):
                file[f"{species}/density"] = np.full(SHAPE, 10.0**k, "f4")
            for k in range(2):
                file[f"step{k}/u"] = np.full(SHAPE, k, "f4")
        paths = [f"{self.tmp}/a.h5:/{species}/density" for species in ("electrons", "ions")]
        info = qt.info(self.convert(*paths, "--lossless"))
        self.assertEqual(([f["name"] for f in info["fields"]], info["steps"]), (["electrons_density", "ions_density"], [0]))
        outcome, _ = self.write(*paths, "--lossless", "--field", "u", name="b.quarry")
        self.assert_one_line(outcome, qt.USAGE, "ions", "--field")
        # Groups that differ in a number are moments.
        info = qt.info(self.convert(f"{self.tmp}/a.h5:step0/u", f"{self.tmp}/a.h5:step1/u", "--lossless", name="c.quarry"))
        self.assertEqual(([f["name"] for f in info["fields"]], info["steps"]), (["u"], [0, 1]))


class Series(Meaning):
    def month(self, number, times, units, *, of=None):
        values = np.stack([np.full(SHAPE, 100 * number + k, "f4") for k in range(len(times))])
        return self.netcdf(f"month{number}.nc", {"time": ("f8", ("time",), times, {"units": units, "calendar": "noleap"}),
                                                 "t": ("f4", ("time", "z", "y", "x"), (slice(None), values), {"units": of} if of else {})},
                           dims={"time": None, **dict(zip("zyx", SHAPE))})

    def test_times_in_one_unit(self):
        first = self.month(1, [0, 10, 20], "days since 2001-01-01")
        second = self.month(2, [0, 240, 480], "hours since 2001-02-01")
        dataset = self.convert(first, second, "--lossless")
        info = qt.info(dataset)
        self.assertEqual(info["times"], [0, 10, 20, 31, 41, 51])
        self.assertEqual((info["time_units"], info["calendar"]), ("days since 2001-01-01", "noleap"))
        outcome, _ = self.write(first, self.month(3, [0], "s"), "--lossless", name="b.quarry")
        self.assert_one_line(outcome, qt.USAGE, "month3.nc", "days since 2001-01-01", "s")
        third = self.month(4, [5], "days since 2001-01-01")
        outcome, _ = self.write(first, third, "--lossless", name="c.quarry")
        self.assertIn("not after", outcome.err)

    def test_units_of_samples_are_compared(self):
        first, second = self.month(1, [0], "s", of="K"), self.month(2, [1], "s", of="degC")
        outcome, _ = self.write(first, second, "--lossless")
        self.assert_one_line(outcome, qt.USAGE, "month2.nc", "degC", "K", "--units")
        self.assertEqual(qt.info(self.convert(first, second, "--lossless", "--units", "K"))["steps"], [0, 1])

    def test_append_goes_on(self):
        dataset = self.convert(self.month(1, [0, 1], "s"), "--lossless")
        output = ("--append", "--output", dataset)
        qt.succeed(qt.SERIAL_WRITER, self.month(2, [2], "s"), *output)
        self.assertEqual((qt.info(dataset)["steps"], qt.info(dataset)["times"]), ([0, 1, 2], [0, 1, 2]))
        outcome = qt.run(qt.SERIAL_WRITER, self.month(3, [1], "s"), *output)
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("not after", outcome.err)
        # A new field begins with the steps that are there, at their times.
        outcome = qt.run(qt.SERIAL_WRITER, self.month(4, [7], "s"), "--field", "u", "--lossless", *output)
        self.assert_one_line(outcome, qt.USAGE, "step 0", "7")
        self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2, 3])

    def test_resume_refuses_the_next_part(self):
        parts = [[self.tmp / f"{part}_{k}.npy" for k in range(2)] for part in range(2)]
        for path in sum(parts, []):
            np.save(path, np.ones(SHAPE, "f4"))
        dataset = self.convert(*parts[0], "--lossless", "--field", "u")
        outcome = qt.run(qt.SERIAL_WRITER, *parts[1], "--field", "u", "--resume", "--output", dataset)
        self.assert_one_line(outcome, qt.USAGE, "0_0.npy", "1_0.npy", "append")
        qt.succeed(qt.SERIAL_WRITER, *parts[0], *parts[1], "--field", "u", "--resume", "--output", dataset)
        self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2, 3])
        timed = self.convert(self.month(1, [0, 1], "s"), "--lossless", name="b.quarry")
        outcome = qt.run(qt.SERIAL_WRITER, self.month(2, [2, 3], "s"), "--resume", "--output", timed)
        self.assert_one_line(outcome, qt.USAGE, "time 0", "time 2")
        self.assertEqual(qt.info(timed)["steps"], [0, 1])

    def test_names_out_of_order_are_said(self):
        for k in (2, 10):
            np.save(self.tmp / f"dump_{k}.npy", np.full(SHAPE, k, "f4"))
        names = [self.tmp / f"dump_{k}.npy" for k in (10, 2)]
        outcome, _ = self.write(*names, "--lossless", "--field", "u")
        self.assertEqual(outcome.code, qt.DONE)
        self.assertIn("dump_2.npy", outcome.err)
        self.assertEqual(self.write(*reversed(names), "--lossless", "--field", "u", name="b.quarry")[0].err, "")


if __name__ == "__main__":
    qt.main()
