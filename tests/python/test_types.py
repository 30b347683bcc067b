"""Every type of samples comes back as it was given: int64, uint64, bool and float16 beside those of 32 bits, through files, arrays, exports
and stores. What is right, numpy, h5py, netCDF4, tifffile, xarray and zarr say."""

import json

from python_testing import np, qt, quarry

import h5py  # noqa: E402
import netCDF4  # noqa: E402
import tifffile  # noqa: E402
import xarray  # noqa: E402
import zarr  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

SHAPE = (9, 17, 21)
SMALL, LARGE = np.iinfo(np.int64).min, np.iinfo(np.int64).max
MOST = np.iinfo(np.uint64).max


def sample(dtype):
    """Samples of a type that no narrower one holds: both ends of integers, and every kind of float."""
    generator = np.random.default_rng(62)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.indices(SHAPE).sum(0) % 5 < 2
    if dtype.kind == "f":
        field = (100 * np.sin(np.indices(SHAPE).sum(0) / 7)).astype(dtype)
        field[0, 0, :5] = [np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, -0.0, np.nan]
        return field
    field = generator.integers(0, 1000, SHAPE).astype(dtype)
    field[2:5] += np.array(2 ** 53, dtype)  # float64 has every second number
    field[0, 0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return field


NEW = ("int64", "uint64", "bool", "float16")


class Types(qt.QuarryTest):
    def assert_same(self, got, expected, name=""):
        """Type and bits."""
        self.assertEqual(got.dtype.newbyteorder("="), expected.dtype.newbyteorder("="), name)
        bits = np.dtype(f"u{expected.dtype.itemsize}")
        np.testing.assert_array_equal(np.ascontiguousarray(got).astype(got.dtype.newbyteorder("=")).view(bits),
                                      np.ascontiguousarray(expected).astype(expected.dtype.newbyteorder("=")).view(bits), name)

    def convert(self, source, name, *options):
        path = self.tmp / f"{name}.quarry"
        outcome = qt.run("quarry-write", source, "--output", path, *options)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return path

    def write(self, name, data, **options):
        path = self.tmp / f"{name}.quarry"
        quarry.write(path, data, **options)
        return path

    def check(self, path, expected, source=None):
        """Compares the answers of Python and the command, and finds the source in them."""
        name = f"{path.name} of {source}"
        with quarry.open(path) as dataset:
            (field,) = dataset.values()
            self.assertEqual(field.dtype, expected.dtype.newbyteorder("="), name)
            self.assert_same(field[0], expected, name)
            self.assert_same(field.read().array, expected, name)
            self.assert_same(field[0, 3, ::-2, 4:9], expected[3, ::-2, 4:9], name)
            self.assert_same(field.read(level=2).array, expected[::4, ::4, ::4], name)
            self.assert_same([*field.stream()][-1].array, expected, name)
        out = path.with_suffix(".npy")
        qt.succeed("quarry", "get", path, "--output", out)
        self.assert_same(np.load(out), expected, name)
        qt.succeed("quarry", "verify", path)
        if source is not None:
            outcome = qt.run("quarry", "verify", path, "--against", source, "--json")
            self.assertEqual(outcome.code, qt.DONE, outcome)
            self.assertEqual(json.loads(outcome.out)["different"], 0)
        self.assertEqual(qt.info(path)["fields"][0]["dtype"], expected.dtype.name)

    def test_arrays_of_numpy(self):
        for dtype in (*NEW, "float32", "float64"):
            with self.subTest(dtype):
                field = sample(dtype)
                lossless = {"lossless": True} if field.dtype.kind == "f" else {}
                self.check(self.write(f"array-{dtype}", field, **lossless), field)

    def test_servers_give_the_same(self):
        data = self.tmp / "served"
        data.mkdir()
        for dtype in NEW:
            quarry.write(data / f"{dtype}.quarry", sample(dtype), lossless=True)
        with qt.Server(data) as server:
            for dtype in NEW:
                with self.subTest(dtype), quarry.open(server.target(f"{dtype}.quarry")) as dataset:
                    (field,) = dataset.values()
                    self.assert_same(field[0], sample(dtype))
                    self.assert_same(field.read(level=1).array, sample(dtype)[::2, ::2, ::2])

    def test_files_of_numpy(self):
        for dtype in NEW:
            for order in "<>":
                with self.subTest(dtype=dtype, order=order):
                    field = sample(dtype)
                    source = self.tmp / f"{dtype}{'big' if order == '>' else ''}.npy"
                    np.save(source, field.astype(field.dtype.newbyteorder(order)))
                    self.check(self.convert(source, source.stem, "--lossless"), field, source)

    def test_raw_files(self):
        for dtype in NEW:
            with self.subTest(dtype):
                field = sample(dtype)
                source = self.tmp / f"raw-{dtype}.raw"
                field.tofile(source)
                dims = "x".join(map(str, SHAPE[::-1]))
                self.check(self.convert(source, f"raw-{dtype}", "--dims", dims, "--type", dtype, "--lossless"), field)

    def test_hdf5(self):
        for dtype in NEW:
            with self.subTest(dtype):
                field = sample(dtype)
                source = self.tmp / f"{dtype}.h5"
                with h5py.File(source, "w") as file:
                    file.create_dataset("f", data=field, chunks=(4, 8, 8), compression="gzip")
                self.check(self.convert(source, f"hdf5-{dtype}", "--lossless"), field, source)

    def test_netcdf(self):
        for dtype in ("int64", "uint64"):
            with self.subTest(dtype):
                field = sample(dtype)
                source = self.tmp / f"{dtype}.nc"
                with netCDF4.Dataset(source, "w") as file:
                    for name, length in zip("zyx", SHAPE, strict=True):
                        file.createDimension(name, length)
                    file.createVariable("f", dtype, ("z", "y", "x"))[:] = field
                with netCDF4.Dataset(source) as file:  # its default fill value is none of the samples
                    self.assertFalse(np.ma.is_masked(file["f"][:]))
                path = self.convert(source, f"netcdf-{dtype}")
                with quarry.open(path) as dataset:
                    self.assert_same(dataset["f"][0], field)

    def test_bool_as_xarray_writes_it(self):
        field = sample("bool")
        source = self.tmp / "bool.nc"
        xarray.Dataset({"f": (("z", "y", "x"), field)}).to_netcdf(source)
        self.check(self.convert(source, "xarray-bool"), field)

    def test_tiff(self):
        for dtype in ("int64", "uint64", "float16"):
            with self.subTest(dtype):
                field = sample(dtype)
                source = self.tmp / f"{dtype}.tif"
                tifffile.imwrite(source, field, photometric="minisblack", metadata={"axes": "ZYX"})
                self.check(self.convert(source, f"tiff-{dtype}", "--lossless"), field, source)

    def test_fill_values_have_all_digits(self):
        for dtype, fill in (("int64", SMALL + 2), ("int64", LARGE), ("uint64", MOST), ("uint64", 2 ** 53 + 1), ("int64", -1)):
            with self.subTest(dtype=dtype, fill=fill):
                field = sample(dtype)
                field[0, 0, :2] = 5
                hole = np.zeros(SHAPE, bool)
                hole[3:6, 4:9, 5:] = True
                near = fill - 1 if fill > 0 else fill + 1
                field[7] = near  # float64 rounds most of them to the fill value
                masked = np.ma.masked_array(field, hole, fill_value=fill)
                path = self.write(f"fill-{dtype}-{fill}", masked)
                with quarry.open(path) as dataset:
                    (one,) = dataset.values()
                    read = one[0]
                    self.assertEqual(read.dtype, field.dtype)
                    np.testing.assert_array_equal(read.mask, hole)
                    np.testing.assert_array_equal(read.compressed(), masked.compressed())
                    self.assertEqual(dataset.native.fields[0].fill, fill)
                    with xarray.open_dataset(path, engine=QuarryBackendEntrypoint, mask_and_scale=False) as opened:
                        (variable,) = opened.data_vars.values()
                        self.assertEqual(int(variable.attrs["_FillValue"]), fill)
                        np.testing.assert_array_equal(variable.values[0] == fill, hole)
                self.assertEqual(qt.info(path)["fields"][0]["fill"], fill)
                source = self.tmp / "fill.nc"
                with netCDF4.Dataset(source, "w") as file:
                    for name, length in zip("zyx", SHAPE, strict=True):
                        file.createDimension(name, length)
                    file.createVariable("f", dtype, ("z", "y", "x"), fill_value=np.dtype(dtype).type(fill))[:] = masked
                with netCDF4.Dataset(source) as file:
                    np.testing.assert_array_equal(np.ma.getmaskarray(file["f"][:]), hole)
                with quarry.open(self.convert(source, f"fill-nc-{dtype}-{fill}")) as dataset:
                    np.testing.assert_array_equal(dataset["f"][0].mask, hole)

    def test_ranges_and_statistics_hold_every_sample(self):
        field = np.full(SHAPE, 2 ** 53 + 1, np.int64)
        field[0] = -(2 ** 62) - 1
        path = self.write("range", field)
        with quarry.open(path) as dataset:
            (one,) = dataset.values()
            (step,) = dataset.native.steps()
            self.assertLessEqual(int(step.fields[0].min), int(field.min()))
            self.assertGreaterEqual(int(step.fields[0].max), int(field.max()))
            said = one.stats()
            self.assertLessEqual(int(said.min.low), int(field.min()))
            self.assertGreaterEqual(int(said.min.high), int(field.min()))
            self.assertGreaterEqual(int(said.max.high), int(field.max()))

    def test_tolerances_are_refused_with_the_way_to_go(self):
        for dtype, words in (("int64", "convert the samples to float64 first"), ("bool", "leave tolerance out")):
            for bound in ({"tolerance": 0.5}, {"relative": 1e-3}, {"pointwise_relative": 1e-3}, {"layers": [1, 0.1]}):
                with self.subTest(dtype=dtype, bound=bound), self.assertRaises(quarry.Error) as caught:
                    self.write("refused", sample(dtype), **bound)
                self.assertIn(f"is {dtype}, which is stored without loss", str(caught.exception))
                if "tolerance" in bound:
                    self.assertIn(words, str(caught.exception))
        source = self.tmp / "refused.npy"
        np.save(source, sample("int64"))
        outcome = qt.run("quarry-write", source, "--tolerance", "1", "--output", self.tmp / "refused.quarry")
        self.assertEqual(outcome.code, qt.USAGE, outcome)
        self.assertIn("leave --tolerance out, or convert the samples to float64 first", outcome.err)

    def test_float16_with_a_tolerance_is_float32_within_it(self):
        field = sample("float16")
        field[0, 0, :5] = 1
        path = self.write("half", field, tolerance=0.01)
        with quarry.open(path) as dataset:
            (one,) = dataset.values()
            self.assertEqual(one.dtype, np.float32)
            self.assertLessEqual(float(np.abs(one[0] - field.astype("f4")).max()), 0.01)

    def test_bool_has_no_third_value(self):
        field = sample("bool")
        with self.assertRaisesRegex(ValueError, "astype"):
            self.write("masked", np.ma.masked_array(field, sample("bool")))

    def test_steps_are_appended_as_the_same_type(self):
        field = sample("bool")
        path = self.write("steps", field)
        quarry.write(path, ~field, mode="append", step=1)
        with quarry.open(path) as dataset:
            (one,) = dataset.values()
            self.assert_same(one[1], ~field)
        with self.assertRaisesRegex(quarry.Error, "is bool .* in the dataset, but uint8"):
            quarry.write(path, field.astype("uint8"), mode="append", step=2)

    def test_xarray_brings_types_and_takes_them(self):
        given = xarray.Dataset({dtype: (("z", "y", "x"), sample(dtype)) for dtype in NEW})
        path = self.write("xarray", given, lossless=True)
        with xarray.open_dataset(path, engine=QuarryBackendEntrypoint) as opened:
            for dtype in NEW:
                self.assert_same(opened[dtype].values, sample(dtype), dtype)
            again = self.write("again", opened.load(), lossless=True)
        with quarry.open(again) as dataset:
            for dtype in NEW:
                self.assert_same(dataset[dtype][0], sample(dtype), dtype)

    def test_exports_have_the_type_or_say_what_they_have(self):
        given = {dtype: sample(dtype) for dtype in NEW}
        for dtype in NEW:
            field = given[dtype]
            with quarry.open(self.write(f"export-{dtype}", field, lossless=True, field="f")) as dataset:
                for suffix in (".npy", ".h5", ".zarr", ".npz"):
                    with self.subTest(dtype=dtype, suffix=suffix):
                        out = self.tmp / f"{dtype}{suffix}"
                        dataset.export(out)
                        self.assert_same(self.load(out), field)
                        if suffix != ".zarr":
                            self.check(self.convert(f"{out}:f" if suffix != ".npy" else out, f"back-{dtype}-{suffix[1:]}",
                                                    "--lossless"), field)
                out = self.tmp / f"{dtype}.nc"
                with self.subTest(dtype=dtype, suffix=".nc"):
                    if dtype in ("bool", "float16"):
                        with self.assertWarnsRegex(UserWarning, f"holds {dtype}, which becomes"):
                            dataset.export(out)
                    else:
                        dataset.export(out)
                    with xarray.open_dataset(out) as opened:
                        got = opened["f"].values[0]
                    self.assert_same(got, field if dtype != "float16" else field.astype("f4"))
                with self.subTest(dtype=dtype, suffix=".vti"):
                    out = self.tmp / f"{dtype}.vti"
                    if dtype in ("bool", "float16"):
                        with self.assertWarnsRegex(UserWarning, f"holds {dtype}, which becomes"):
                            dataset.export(out)
                    else:
                        dataset.export(out)
                    stored = {"bool": "uint8", "float16": "float32"}.get(dtype, dtype)
                    with quarry.open(self.convert(out, f"vti-{dtype}", "--lossless")) as again:
                        (one,) = again.values()
                        self.assert_same(one[0], field.astype(stored))

    def load(self, path):
        """The first step of the field, by the libraries of the formats."""
        if path.suffix == ".npy":
            loaded = np.load(path)
        elif path.suffix == ".npz":
            loaded = np.load(path)["f"]
        elif path.suffix == ".h5":
            with h5py.File(path) as file:
                loaded = file["f"][...]
        else:
            loaded = zarr.open_group(str(path), mode="r")["f"][...]
        return loaded.reshape(SHAPE)

    def test_zarr_stores(self):
        for dtype in NEW:
            with self.subTest(dtype):
                field = sample(dtype)
                store = quarry.zarr_store(self.write(f"zarr-{dtype}", field, lossless=True, field="f"))
                group = zarr.open_group(store, mode="r")
                self.assert_same(group["0/f"][:], field)

    def test_what_samples_stand_for_is_in_the_manifest(self):
        path = self.write("manifest", sample("bool"))
        field = json.loads((path / "dataset.json").read_text())["fields"][0]
        self.assertEqual((field["dtype"], field["given_type"]), ("DATA_TYPE_UINT8", "GIVEN_TYPE_BOOL"))
        said = qt.info(path)["fields"][0]
        self.assertEqual((said["dtype"], said["stored_dtype"]), ("bool", "uint8"))
        self.assertIn("bool as uint8", qt.succeed("quarry", "info", path).out)



class Complex(Types):
    """Complex samples are two fields, and one array again."""

    def wave(self, dtype="c8"):
        generator = np.random.default_rng(63)
        wave = (generator.normal(size=(2, *SHAPE)) + 1j * generator.normal(size=(2, *SHAPE))).astype(dtype)
        wave[0, 1, :3] = np.nan
        return wave

    def opened(self, path, **options):
        opened = xarray.open_dataset(path, engine=QuarryBackendEntrypoint, **options)
        self.addCleanup(opened.close)
        return opened

    def test_arrays_of_numpy(self):
        for dtype in ("c8", "c16", ">c8"):
            with self.subTest(dtype):
                wave = self.wave(dtype)
                path = self.write(f"numpy{dtype[-2:]}{dtype[0] == '>'}", wave, field="psi", lossless=True)
                with quarry.open(path) as dataset:
                    self.assertEqual(list(dataset), ["psi.real", "psi.imag"])
                    np.testing.assert_array_equal(dataset["psi.imag"][:], wave.imag)
                    with self.assertRaisesRegex(KeyError, "psi.real and psi.imag"):
                        dataset["psi"]
                again = self.opened(path)
                self.assertEqual(list(again.data_vars), ["psi"])
                self.assert_same(again.psi.values.view(f"f{wave.itemsize // 2}"),
                                 wave.astype(wave.dtype.newbyteorder("=")).view(f"f{wave.itemsize // 2}"))
                np.testing.assert_array_equal(again.psi[1, 2, ::-3, [4, 1]], wave[1, 2, ::-3, [4, 1]].T)
                np.testing.assert_array_equal(again.psi.isel(y=xarray.DataArray([1, 5], dims="p"), x=xarray.DataArray([2, 0], dims="p")),
                                              wave[:, :, [1, 5], [2, 0]])

    def test_datasets_of_xarray(self):
        given = xarray.Dataset({"psi": (("time", "z", "y", "x"), self.wave(), {"units": "1", "long_name": "wave"}),
                                "t": (("time", "z", "y", "x"), self.wave().real)},
                               {"time": np.array(["2001-01-01", "2001-01-02"], "M8[ns]"), "x": np.arange(21.0)})
        path = self.write("labelled", given, lossless=True)
        xarray.testing.assert_identical(self.opened(path).load(), given)
        self.assertEqual(self.opened(path, chunks={}).psi.chunks[0], (1, 1))
        xarray.testing.assert_identical(self.opened(path, drop_variables="psi").load(), given[["t"]])
        twice = self.write("twice", self.opened(path), lossless=True)
        xarray.testing.assert_identical(self.opened(twice).load(), given)
        quarry.write(path, given.assign_coords(time=given.time + np.timedelta64(2, "D")), mode="append")
        np.testing.assert_array_equal(self.opened(path).psi, np.concatenate([self.wave()] * 2))

    def test_the_bound_is_of_each_part_and_the_error_of_both(self):
        wave = np.nan_to_num(self.wave())
        path = self.write("bounded", {"psi": wave, "t": wave.real}, tolerance={"psi": 1e-2, "t": 1e-3})
        psi = self.opened(path).psi
        error = np.abs(psi.values - wave)
        self.assertLessEqual(np.abs(psi.values.real - wave.real).max(), 1e-2)
        self.assertLessEqual(error.max(), psi.attrs["max_error"])
        self.assertLessEqual(psi.attrs["max_error"], 1e-2 * 2 ** 0.5)
        coarse = self.opened(path, max_error={"psi": 3.0}).psi
        self.assertLessEqual(coarse.attrs["max_error"], 3.0)
        with self.assertRaisesRegex(quarry.Error, "no level"):
            self.opened(path, max_error={"psi": 1e-3})
        with self.assertRaisesRegex(ValueError, "max_error names chi; there are psi.real, psi.imag, t, psi"):
            self.opened(path, max_error={"chi": 1})

    def test_files(self):
        wave = self.wave("c16")
        np.save(self.tmp / "a.npy", wave[0])
        np.save(self.tmp / "b.npy", np.asfortranarray(wave[0].astype(">c8")))
        np.savez(self.tmp / "c.npz", psi=wave[0])
        with h5py.File(self.tmp / "d.h5", "w") as file:
            file.create_dataset("psi", data=wave[0], chunks=(4, 5, 6), compression="gzip")
        with netCDF4.Dataset(self.tmp / "e.nc", "w") as file:
            pair = file.createCompoundType(np.dtype([("real", "f8"), ("imag", "f8")]), "complex128")
            for name, length in zip("zyx", wave[0].shape):
                file.createDimension(name, length)
            file.createVariable("psi", pair, ("z", "y", "x"), zlib=True)[:] = wave[0].view(pair.dtype)
        for source in ("a.npy", "b.npy", "c.npz", "d.h5", "e.nc"):
            with self.subTest(source):
                expected = wave[0].astype("c8") if source == "b.npy" else wave[0]
                path = self.convert(self.tmp / source, f"of-{source}", "--lossless", "--field", "psi")
                self.assert_same(self.opened(path).psi.values[0].view(expected.real.dtype), expected.view(expected.real.dtype))
                parts = {field["name"]: field["complex"] for field in qt.info(path)["fields"]}
                self.assertEqual(parts, {"psi.real": {"of": "psi", "part": "real"}, "psi.imag": {"of": "psi", "part": "imaginary"}})
                self.assertIn("the imaginary parts of complex psi", qt.succeed("quarry", "info", path).out)
                for part in ("real", "imag"):
                    qt.succeed("quarry", "verify", path, "--field", f"psi.{part}", "--against", self.tmp / source)

    def test_what_is_no_part_of_it(self):
        path = self.write("parts", {"psi": self.wave()}, lossless=True)
        with self.assertRaisesRegex(quarry.Error, 'a part of complex "psi", by lossless'):
            quarry.write(path, {"psi.real": self.wave().real}, lossless=True, mode="append")
        with self.assertRaisesRegex(quarry.Error, "has the name of a field"):
            quarry.write(path, {"psi": self.wave().real}, lossless=True, mode="append")


if __name__ == "__main__":
    qt.main()
