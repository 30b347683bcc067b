"""quarry.write: the same payloads as quarry-write, from arrays of any kind, and nothing half-written after trouble."""

import json
import multiprocessing
import resource
import shutil
import signal
import subprocess
import sys
import warnings

from python_testing import PACKAGE, Package, nothing_left, np, qt, quarry
from quarry import _words as words

DIMS = (50, 41, 37)
SHAPE = DIMS[::-1]
TYPES = ("<f4", "<f8", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4")


def make(dtype, name="w"):
    return qt.make_field(DIMS, dtype, name=name).reshape(SHAPE)


class Blocks:
    """An array that is never whole in memory: its samples follow from their places."""

    dtype = np.dtype("<f4")

    def __init__(self, shape):
        self.shape = shape

    def __getitem__(self, key):
        z, y, x = (np.arange(*part.indices(length), dtype="<f4") for part, length in zip(key, self.shape))
        return np.sin(z / 31)[:, None, None] + np.cos(y / 47)[:, None] * np.sin(x / 13)


def write_large(kind, path):
    """Writes 256 MiB of samples; how much more memory that took than what came before, in bytes."""
    array = Blocks((256, 512, 512))
    if kind == "dask":
        import dask.array
        array = dask.array.from_array(array, chunks=(32, 256, 256), meta=np.empty((0, 0, 0), "<f4"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    quarry.write(path, array, field="f", tolerance=1e-2, memory=32 << 20)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


class Writing(qt.QuarryTest):
    def convert(self, array, *options):
        """The dataset that quarry-write makes of an array."""
        output = self.tmp / "by_command.quarry"
        qt.convert(np.ascontiguousarray(array), output, *options)
        return output

    def assert_same(self, ours, theirs, *, stored=True):
        """The same subfiles, bit by bit, and the same descriptions but for who wrote them."""
        files, wanted = qt.subfiles(ours), qt.subfiles(theirs)
        self.assertTrue(wanted)
        self.assertEqual(files.keys(), wanted.keys())
        self.assertEqual([name for name in files if files[name] != wanted[name]], [])
        described = [json.loads((path / "dataset.json").read_text()) for path in (ours, theirs)]
        for description in described:
            description.pop("created_by")
            description.pop("checksum", None)
        self.assertEqual(*described)
        self.assertEqual(qt.info(ours)["steps"] if stored else 0, qt.info(theirs)["steps"] if stored else 0)
        qt.succeed("quarry", "verify", ours)

    def test_payloads_of_every_coder_and_type(self):
        for dtype in TYPES:
            field = make(dtype)
            bounds = [("--lossless", {"lossless": True})]
            for coder in qt.lossy_coders():
                bound = 1e-3 if field.dtype.kind == "f" else 3
                bounds.append((("--codec", coder, "--tolerance", bound), {"codec": coder, "tolerance": bound}))
            for options, arguments in bounds:
                with self.subTest(dtype=dtype, **arguments):
                    output = self.tmp / "by_command.quarry"
                    np.ascontiguousarray(field).tofile(self.tmp / "f.raw")
                    outcome = qt.run(qt.SERIAL_WRITER, self.tmp / "f.raw", *qt.describe(field), "--field", "f", "--patch", 16,
                                     *([options] if isinstance(options, str) else options), "--output", output)
                    ours = self.tmp / "ours.quarry"
                    if outcome.code != 0:  # a coder that does not take the type: the same word from both
                        with self.assertRaises(quarry.Error) as raised:
                            quarry.write(ours, field, field="f", patch=16, **arguments)
                        self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")
                        continue
                    (written,) = quarry.write(ours, field, field="f", patch=16, **arguments)
                    self.assertEqual((written.step, written.field, written.raw_bytes), (0, "f", field.nbytes))
                    self.assertLessEqual(written.max_error, arguments.get("tolerance", 0))
                    self.assert_same(ours, output)
                    for path in (ours, output):
                        shutil.rmtree(path)

    def test_missing_samples(self):
        import dask.array
        field = qt.with_holes(make("<f4"), np.nan)
        ours = self.tmp / "nan.quarry"
        quarry.write(ours, np.ma.array(np.nan_to_num(field), mask=np.isnan(field)), field="f", relative=1e-3, patch=16)
        self.assert_same(ours, self.convert(field, "--relative", 1e-3, "--patch", 16))
        integers = qt.with_holes(make("<i2"), -999)
        masked = np.ma.array(np.where(integers == -999, 5, integers), mask=integers == -999)
        lazy = dask.array.from_array(masked, chunks=(20, 20, 20))
        for number, masked in enumerate((np.ma.masked_equal(integers, -999), masked, lazy)):
            ours = self.tmp / f"fill{number}.quarry"
            quarry.write(ours, masked, field="f", fill=-999, patch=16)
            shutil.rmtree(self.tmp / "by_command.quarry")
            self.assert_same(ours, self.convert(integers, "--fill", -999, "--patch", 16))
        some = integers == integers[integers != -999][0]  # at least one is masked, for every seed
        with self.assertRaisesRegex(ValueError, "hold the fill value -999"):
            quarry.write(self.tmp / "x.quarry", np.ma.array(integers, mask=some), field="f", fill=-999)
        self.assertFalse((self.tmp / "x.quarry").exists())

    def test_parts_files_and_relative_bounds(self):
        field = make("<f8")
        ours = self.tmp / "ours.quarry"
        quarry.write(ours, field, field="f", relative=1e-5, patch=16, memory=200 << 10, files=3)
        self.assert_same(ours, self.convert(field, "--relative", 1e-5, "--patch", 16, "--memory", "200KiB", "--files", 3))

    def test_payload_order(self):
        field = make("<f8")
        for order in ("patch", "level", "coarse"):
            ours = self.tmp / f"{order}.quarry"
            quarry.write(ours, field, field="f", relative=1e-5, patch=16, payload_order=order)
            theirs = self.convert(field, "--relative", 1e-5, "--patch", 16, "--order", order)
            self.assert_same(ours, theirs)
            shutil.rmtree(theirs)
        quarry.write(ours, field, field="f", mode="append", payload_order="coarse")
        with self.assertRaisesRegex(quarry.Error, "payload order level differs from the dataset's, coarse"):
            quarry.write(ours, field, field="f", mode="append", payload_order="level")
        with self.assertRaisesRegex(quarry.Error, "\"rows\" is no payload order"):
            quarry.write(self.tmp / "rows.quarry", field, field="f", relative=1e-5, payload_order="rows")
        with self.assertRaises(TypeError):
            quarry.write(self.tmp / "rows.quarry", field, field="f", relative=1e-5, payload_order=3)
        self.assertFalse((self.tmp / "rows.quarry").exists())

    def test_safeguards(self):
        field = np.where(make("<f4") > 0.3, make("<f4") - 1, 0).astype("<f4")
        cases = ((("--tolerance", 0.2, "--keep-zeros"), {"tolerance": 0.2, "keep_zeros": True}),
                 (("--relative", 0.1, "--keep-sign"), {"relative": {"f": 0.1}, "keep_sign": True}),
                 (("--pointwise-relative", 0.05), {"pointwise_relative": 0.05, "keep_sign": True}))
        for number, (options, arguments) in enumerate(cases):
            ours = self.tmp / f"ours{number}.quarry"
            (written,) = quarry.write(ours, field, field="f", patch=16, **arguments)
            theirs = self.convert(field, *options, "--patch", 16)
            self.assert_same(ours, theirs)
            shutil.rmtree(theirs)
            read = quarry.open(ours)["f"]
            self.assertTrue(np.array_equal(read[0] == 0, field == 0) or number == 0)
            self.assertTrue((read[0][field == 0] == 0).all())
            self.assertEqual(read.attrs.get("pointwise_relative_tolerance"), arguments.get("pointwise_relative"))
            self.assertGreaterEqual(written.max_error, np.abs(read[0] - field).max())
        with self.assertRaisesRegex(ValueError, "choose the coder"):
            quarry.write(self.tmp / "x.quarry", field, field="f", tolerance=1, keep_sign=True, codec="interpolate")
        for wrong, says in (({"pointwise_relative": 1.5}, "between 0 and 1"), ({"pointwise_relative": 0.1, "tolerance": 1}, "several"),
                            ({"tolerance": 1, "codec": "interpolate-relative"}, "leave one of them out"),
                            ({"layers": (0.1, 0.01), "keep_zeros": True}, "layers")):
            with self.assertRaisesRegex(quarry.Error, says):
                quarry.write(self.tmp / "x.quarry", field, field="f", **wrong)

    def test_layers_of_accuracy(self):
        """The same as by command; each layer keeps its tolerance."""
        field = qt.with_holes(make("<f4"), np.nan)
        extent = np.nanmax(field) - np.nanmin(field)
        for name, option, arguments, tolerances in (
                ("absolute", ("--layers", "0.5,1e-3"), {"layers": (0.5, 1e-3)}, (0.5, 1e-3)),
                ("relative", ("--relative-layers", "1e-2,1e-4,exact"), {"relative_layers": [1e-2, 1e-4, "exact"]},
                 (1e-2 * extent, 1e-4 * extent, 0)),
                ("mapping", ("--layers", "0.5,exact"), {"layers": {"f": (0.5, "exact")}}, (0.5, 0))):
            with self.subTest(name):
                ours = self.tmp / f"{name}.quarry"
                quarry.write(ours, field, field="f", patch=16, **arguments)
                self.assert_same(ours, self.convert(field, *option, "--patch", 16))
                shutil.rmtree(self.tmp / "by_command.quarry")
                with quarry.open(ours) as dataset:
                    for layer, tolerance in enumerate(tolerances):
                        samples = dataset["f"].read(layer=layer)
                        self.assertEqual(samples.layer, layer)
                        self.assertLessEqual(np.nanmax(np.abs(samples.array - field)), tolerance * (1 + 1e-6))
        for layers, says in (((1e-4, 1e-2), "largest tolerance first"), (("exact", 1e-2), "positive"), ([0.1, -1], "positive")):
            with self.assertRaisesRegex(quarry.Error, says):
                quarry.write(self.tmp / "x.quarry", field, field="f", layers=layers)
        with self.assertRaisesRegex(quarry.Error, "several error bounds"):
            quarry.write(self.tmp / "x.quarry", field, field="f", layers=(1e-1, 1e-2), tolerance=1)
        for layers in ("exact", 1e-3):
            with self.assertRaisesRegex(ValueError, "several tolerances"):
                quarry.write(self.tmp / "x.quarry", field, field="f", layers=layers)
        quarry.write(self.tmp / "array.quarry", field, field="f", layers=np.logspace(-1, -3, 3))
        with self.assertRaisesRegex(ValueError, "one of them"):
            quarry.write(self.tmp / "x.quarry", field, field="f", layers=(1e-1, 1e-2), relative_layers=(1e-1, 1e-2))

    def test_any_arrangement_in_memory(self):
        field = make("<f4")
        theirs = self.convert(field, "--tolerance", 1e-3, "--patch", 16)
        wide = np.zeros((SHAPE[0] + 3, SHAPE[1], 2 * SHAPE[2]), "<f4")
        wide[2:-1, :, ::2] = field
        arrangements = {"fortran": np.asfortranarray(field), "strided": wide[2:-1, :, ::2],
                        "backwards": np.ascontiguousarray(field[::-1, :, ::-1])[::-1, :, ::-1],
                        "big-endian": field.astype(">f4")}
        for name, array in arrangements.items():
            with self.subTest(name):
                ours = self.tmp / f"{name}.quarry"
                quarry.write(ours, array, field="f", tolerance=1e-3, patch=16)
                self.assert_same(ours, theirs)

    def test_fewer_axes(self):
        for shape in ((SHAPE[1], SHAPE[2]), (SHAPE[2],)):
            field = make("<f4").ravel()[:int(np.prod(shape))].reshape(shape)
            ours = self.tmp / f"{len(shape)}.quarry"
            quarry.write(ours, field, field="f", tolerance=1e-3, patch=16)
            self.assert_same(ours, self.convert(field, "--tolerance", 1e-3, "--patch", 16))
            shutil.rmtree(self.tmp / "by_command.quarry")

    def test_steps_append_and_resume(self):
        steps = np.stack([make("<f4", f"s{n}") for n in range(4)])
        path = self.tmp / "run.quarry"
        quarry.write(path, steps[:2], field="f", step=[3, 7], time=[0.5, 1.5], tolerance=1e-3, units="Pa", spacing=(1, 2, 3))
        with self.assertRaises(quarry.Error) as raised:
            quarry.write(path, steps[0], field="f", tolerance=1e-3)
        self.assertEqual(raised.exception.code, "ALREADY_EXISTS")
        with self.assertRaisesRegex(quarry.Error, "step 7 .* has the field \"f\" already") as raised:
            quarry.write(path, steps[2], field="f", step=7, mode="append")
        with self.assertRaisesRegex(quarry.Error, "the positions along x"):
            quarry.write(path, steps[2], field="f", step=8, mode="append", spacing=(1, 2, 4))
        # The bound is the one that the field has.
        written = quarry.write(path, steps[1:], field="f", step=[7, 8, 12], time=[1.5, 2.5, 3.5], mode="resume")
        self.assertEqual([one.step for one in written], [8, 12])
        quarry.write(path, -steps[3], field="g", step=12, lossless=True, mode="append")
        with quarry.open(path) as dataset:
            self.assertEqual((dataset.steps, dataset.times), ([3, 7, 8, 12], [0.5, 1.5, 2.5, 3.5]))
            self.assertEqual((dataset["f"].units, dataset["g"].steps), ("Pa", [12]))
            np.testing.assert_array_equal(dataset.coords["x"], 3.0 * np.arange(SHAPE[2]))
            self.assertLessEqual(np.abs(dataset["f"][:] - steps).max(), 1e-3)
            np.testing.assert_array_equal(dataset["g"][0], -steps[3])
        with self.assertRaisesRegex(ValueError, "2 numbers of steps .* 4 steps"):
            quarry.write(path, steps, field="f", step=[1, 2], mode="append")

    def test_the_default_patch_is_that_of_the_program(self):
        for shape, patch in (((300_000,), [262144, 1, 1]), ((1, 40, 700), [1024, 64, 1]), ((5, 300, 400), [256, 128, 64])):
            field = np.random.default_rng(1).random(shape, "f4")
            ours = self.tmp / f"{len(shape)}-{shape[-1]}.quarry"
            with self.subTest(shape):
                quarry.write(ours, field, field="f", tolerance=1e-3)
                theirs = self.convert(field, "--tolerance", 1e-3)
                self.assert_same(ours, theirs)
                self.assertEqual(json.loads((ours / "dataset.json").read_text())["grids"][0]["patch"], patch)
                shutil.rmtree(theirs)

    def test_what_cannot_be_written(self):
        field = make("<f4")
        path = self.tmp / "no.quarry"
        for error, data, arguments, text in (
                (TypeError, field.astype("M8[s]"), {}, "holds datetime64"),
                (ValueError, np.zeros((1, 1, 1, 1, 1)), {}, "shape"),
                (ValueError, np.zeros((3, 0)), {"tolerance": 1}, "shape"),
                (ValueError, {"a": field, "b": np.stack([field, field])}, {"tolerance": 1}, "'b' has 2 steps, but 'a' has 1"),
                (ValueError, {"a": field}, {"tolerance": 1, "field": "b"}, "leave it out"),
                (ValueError, {}, {}, "no field"),
                (ValueError, field, {"mode": "replace"}, "mode"),
                (ValueError, field, {"step": -1, "tolerance": 1}, "0 or more"),
                (ValueError, field, {"origin": (0, 0), "tolerance": 1}, "three values"),
                (quarry.Error, field, {"spacing": (1, 0, 1), "tolerance": 1}, "spacing 0"),
                (quarry.Error, field, {"spacing": (1, np.nan, 1), "tolerance": 1}, "spacing nan along y"),
                (quarry.Error, field, {"origin": (1, 1, np.inf), "tolerance": 1}, "origin inf"),
                (quarry.Error, field, {"time": np.nan, "tolerance": 1}, "time nan"),
                (quarry.Error, field, {"time": -np.inf, "tolerance": 1}, "time -inf"),
                (ValueError, field, {"step": 2**64, "tolerance": 1}, "18446744073709551616"),
                (quarry.Error, field, {}, "no error bound"),
                (quarry.Error, field, {"tolerance": 1, "relative": 1}, "several error bounds"),
                (quarry.Error, field, {"tolerance": 1, "codec": "jpeg"}, "jpeg"),
                (quarry.Error, field, {"tolerance": 1, "field": "a/b"}, "a/b"),
                (quarry.Error, field, {"tolerance": 1, "mode": "append"}, "no.quarry")):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                quarry.write(path, data, **arguments)
            self.assertFalse(path.exists())

    def test_an_exception_of_the_array(self):
        class Broken(Blocks):
            def __getitem__(self, key):
                if key[0].start > 0:
                    raise OSError("the disk has gone")
                return super().__getitem__(key)

        path = self.tmp / "run.quarry"
        quarry.write(path, Blocks((40, 40, 40)), field="f", tolerance=1e-3, patch=8)
        before = qt.snapshot(path)
        for data in (Broken((40, 40, 40)), {"f": Blocks((40, 40, 40)), "g": Broken((40, 40, 40))}):
            with nothing_left(self), self.assertRaisesRegex(OSError, "the disk has gone"):
                arguments = {} if isinstance(data, dict) else {"field": "f"}
                quarry.write(path, data, step=1, tolerance=1e-3, mode="append", memory=1 << 16, **arguments)
            self.assertEqual(qt.snapshot(path), before)

    def test_a_full_disk(self):
        """A process that may not write large files meets an error, and its dataset stays as it was."""
        path = self.tmp / "run.quarry"
        quarry.write(path, make("<f4"), field="f", lossless=True)
        before = qt.snapshot(path)
        code = ("import resource, signal, sys; sys.path.insert(0, sys.argv[1]); import numpy as np, quarry\n"
                "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                "noise = np.random.default_rng(1).random((64, 64, 64))\n"
                "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
                "try: quarry.write(sys.argv[2], noise[:37, :41, :50].astype('f4'), field='f', step=1, mode='append')\n"
                "except quarry.Error as error: print(error.code, error)\n")
        answer = subprocess.run([sys.executable, "-c", code, str(PACKAGE), str(path)], check=True, capture_output=True, text=True)
        self.assertRegex(answer.stdout, "^INTERNAL .*(File too large|space)")
        self.assertEqual(qt.snapshot(path), before)

    def test_interrupt(self):
        """Ctrl-C ends the writing of an array that takes for ever."""
        path = self.tmp / "run.quarry"
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import numpy as np, quarry\n"
                "class Slow:\n"
                "    shape, dtype, parts = (64, 64, 64), np.dtype('f4'), 0\n"
                "    def __getitem__(self, key):\n"
                "        if self.parts == 3: print('begun', flush=True)\n"
                "        self.parts += 1\n"
                "        return np.zeros([len(range(*part.indices(64))) for part in key[-3:]], 'f4')\n"
                "class Steps(Slow):\n"
                "    shape = (1 << 20, 64, 64, 64)\n"
                "try: quarry.write(sys.argv[2], Steps(), field='f', tolerance=1)\n"
                "except KeyboardInterrupt: print('interrupted', flush=True)\n")
        with subprocess.Popen([sys.executable, "-c", code, str(PACKAGE), str(path)], stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), "interrupted\n")
        self.assertEqual(process.returncode, 0)
        qt.succeed("quarry", "verify", path)
        self.assert_no_leftovers(path)

    def test_memory_is_bounded(self):
        """256 MiB of samples in 32 MiB, by the largest memory of a process of its own."""
        for kind in ("blocks", "dask"):
            with self.subTest(kind=kind):
                path = self.tmp / f"{kind}.quarry"
                done = subprocess.run([sys.executable, __file__, "--write-large", kind, path], capture_output=True, text=True,
                                      env=qt.ENVIRONMENT)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertLess(int(done.stdout), 128 << 20)
                with quarry.open(path) as dataset:
                    box = Blocks(dataset.shape)[slice(100, 110), slice(0, 512), slice(17, 19)]
                    self.assertEqual(dataset["f"].size * 4, 256 << 20)
                    self.assertLessEqual(np.abs(dataset["f"][0, 100:110, :, 17:19] - box).max(), 1e-2)

    def test_in_a_fork(self):
        """A child writes after its parent has."""
        context = multiprocessing.get_context("fork")
        quarry.write(self.tmp / "parent.quarry", make("<f4"), field="f", tolerance=1e-3)
        child = context.Process(target=quarry.write, args=(self.tmp / "child.quarry", make("<f4")),
                                kwargs={"field": "f", "tolerance": 1e-3})
        child.start()
        child.join(qt.TIMEOUT)
        self.assertEqual(child.exitcode, 0)
        self.assertTrue(qt.subfiles(self.tmp / "child.quarry") == qt.subfiles(self.tmp / "parent.quarry"))

    def test_links_no_mpi(self):
        module = next((PACKAGE / "quarry").glob("_quarry*.so"))
        loaded = subprocess.run(["ldd", module], check=True, capture_output=True, text=True).stdout
        self.assertIn("libgrpc", loaded)
        self.assertNotIn("libmpi", loaded)


class Sources(Package):
    def test_another_field_of_quarry(self):
        """Coarser bounds for what was stored finer; steps, times, units and missing samples go along."""
        with quarry.open(self.path) as dataset:
            for name in ("m", "k"):
                copy = self.tmp / f"{name}.quarry"
                quarry.write(copy, dataset[name], lossless=True, patch=16)
                with quarry.open(copy) as again:
                    self.assertEqual((again[name].steps, again[name].units), (dataset[name].steps, dataset[name].units))
                    np.testing.assert_array_equal(np.ma.getdata(again[name][:]), self.decoded[name])
                    masked = again[name].read(step=3, masked=True).array
                    np.testing.assert_array_equal(masked.mask, dataset[name].read(step=3, masked=True).array.mask)

    def test_xarray(self):
        """A NetCDF file of xarray: quarry-write makes the same dataset of it."""
        import xarray as xr
        z, x = np.linspace(0, 9, 12), np.arange(30) * 0.25 - 3
        y = np.cumsum(np.linspace(0.5, 1.5, 20))
        fields = {name: qt.turbulent((30, 20, 12), name=name).reshape(12, 20, 30) for name in ("pressure", "density")}
        ds = xr.Dataset({name: (("z", "y", "x"), field, {"units": f"unit of {name}"}) for name, field in fields.items()},
                        {"z": ("z", z, {"units": "km"}), "y": ("y", y), "x": ("x", x, {"units": "m"})})
        ds.to_netcdf(self.tmp / "dump.nc", format="NETCDF3_64BIT", encoding={name: {"_FillValue": None} for name in fields})
        qt.succeed(qt.SERIAL_WRITER, *(f"{self.tmp}/dump.nc:{name}" for name in fields), "--relative", 1e-3,
                   "--output", self.tmp / "theirs.quarry")
        quarry.write(self.tmp / "ours.quarry", ds, relative=1e-3, step=0)  # as a step, which every file is for the command
        Writing.assert_same(self, self.tmp / "ours.quarry", self.tmp / "theirs.quarry", stored=False)

    def test_xarray_with_steps(self):
        import xarray as xr
        fields = np.stack([qt.turbulent((30, 20, 1), name=f"t{n}").reshape(20, 30) for n in range(3)])
        dates = np.array(["2026-01-01", "2026-01-02", "2026-01-04"], "M8[ns]")
        array = xr.DataArray(fields.transpose(1, 0, 2), dims=("lat", "time", "lon"), name="t2m",
                             coords={"time": dates, "lat": np.linspace(50, 31, 20), "lon": np.arange(30)},
                             attrs={"units": "K"})
        path = self.tmp / "era.quarry"
        quarry.write(path, array, tolerance=1e-2)
        quarry.write(path, array.isel(time=2).assign_coords(step=9), mode="append")
        with quarry.open(path) as dataset:
            self.assertEqual(dataset.steps, [0, 1, 2, 9])
            self.assertEqual(dataset.times, [0, 1, 3, 3])
            self.assertEqual((dataset.time_units, dataset.calendar), ("days since 2026-01-01 00:00:00", "proleptic_gregorian"))
            self.assertEqual(dataset.dates[1:], ["2026-01-02 00:00:00", *2 * ["2026-01-04 00:00:00"]])
            self.assertEqual(dataset["t2m"].units, "K")
            np.testing.assert_allclose(dataset.coords["y"], np.linspace(50, 31, 20))
            self.assertLessEqual(np.abs(dataset["t2m"][:3, 0] - fields).max(), 1e-2)
            np.testing.assert_array_equal(dataset["t2m"][3], dataset["t2m"][2])

    def test_arrays_of_other_libraries(self):
        import dask.array
        import h5py
        import zarr
        field = qt.turbulent(DIMS, name="other").reshape(SHAPE)
        quarry.write(self.tmp / "numpy.quarry", field, field="f", tolerance=1e-3)
        with h5py.File(self.tmp / "f.h5", "w") as file:
            others = {"dask": dask.array.from_array(field, chunks=(9, 20, 50)), "h5py": file.create_dataset("f", data=field),
                      "zarr": zarr.array(field, chunks=(16, 16, 16))}
            for name, array in others.items():
                with self.subTest(name):
                    quarry.write(self.tmp / f"{name}.quarry", array, field="f", tolerance=1e-3, memory=200 << 10)
                    self.assertTrue(qt.subfiles(self.tmp / f"{name}.quarry") == qt.subfiles(self.tmp / "numpy.quarry"))

class Times(qt.QuarryTest):
    """Numbers, units and calendars of xarray and netCDF4, through a dataset and every way out of it."""

    def series(self, times, dim="time", shape=(4, 2, 3), **attrs):
        import xarray as xr
        array = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        return xr.DataArray(array, dims=(dim, "lat", "lon"), name="t", coords={dim: (dim, times, attrs)})

    def written(self, data, **options):
        path = self.tmp / f"times{len(list(self.tmp.iterdir()))}.quarry"
        quarry.write(path, data, lossless=True, **options)
        return path

    def said(self, path):
        with quarry.open(path) as dataset:
            return dataset.times, dataset.time_units, dataset.calendar

    def calendars(self):
        """By name: times as xarray has them."""
        import pandas as pd
        import xarray as xr
        found = {calendar: xr.date_range("2001-02-27", periods=4, freq="36h", calendar=calendar, use_cftime=True)
                 for calendar in ("noleap", "360_day", "julian", "all_leap", "standard")}
        return {**found, "datetime64": pd.date_range("2001-02-27", periods=4, freq="36h")}

    def test_what_xarray_reads_is_what_was_written(self):
        import netCDF4
        import xarray as xr
        from quarry._xarray import QuarryBackendEntrypoint
        for name, times in self.calendars().items():
            with self.subTest(name):
                array = self.series(times)
                path = self.written(array)
                with xr.open_dataset(path, engine=QuarryBackendEntrypoint) as again:
                    expected = array.time
                    if name == "standard":  # which datetime64 holds
                        expected = expected.convert_calendar("standard", use_cftime=False).time
                    self.assertEqual(again.time.dtype.kind, expected.dtype.kind)
                    np.testing.assert_array_equal(again.time.values, expected.values)
                    self.assertEqual(again.time.dt.year.values.tolist(), 4 * [2001])
                    self.assertEqual(again.time.attrs, {})
                    again.load().to_netcdf(self.tmp / f"{name}.nc")
                with quarry.open(path) as dataset:
                    for suffix in ("nc", "h5", "zarr"):
                        dataset.export(self.tmp / f"{name}_out.{suffix}")
                    decoded = netCDF4.num2date(dataset.times, dataset.time_units, dataset.calendar)
                    self.assertEqual(dataset.dates, [f"{date:%Y-%m-%d %H:%M:%S}" for date in decoded])
                with xr.open_dataset(self.tmp / f"{name}_out.nc") as nc, \
                        xr.open_zarr(self.tmp / f"{name}_out.zarr") as group, \
                        xr.open_dataset(self.tmp / f"{name}.nc") as again, \
                        xr.open_zarr(quarry.zarr_store(path), group="0") as served:
                    for exported in (nc, again, group, served):
                        np.testing.assert_array_equal(exported.time.values, expected.values)
                with netCDF4.Dataset(self.tmp / f"{name}_out.nc") as nc, netCDF4.Dataset(self.tmp / f"{name}_out.h5") as h5:
                    for file in (nc, h5):
                        time = file["time"]
                        self.assertEqual((netCDF4.num2date(time[:], time.units, time.calendar) == decoded).all(), True)

    def test_lengths_of_time(self):
        import xarray as xr
        from quarry._xarray import QuarryBackendEntrypoint
        times = np.array([0, 6, 12, 18], "m8[h]").astype("m8[ns]")
        path = self.written(self.series(times))
        self.assertEqual(self.said(path), ([0, 6, 12, 18], "hours", ""))
        for options in ({"decode_timedelta": False}, {"decode_cf": False}):
            with xr.open_dataset(path, engine=QuarryBackendEntrypoint, **options) as dataset:
                self.assertEqual((dataset.time.values.tolist(), dataset.time.attrs["units"]), ([0, 6, 12, 18], "hours"))
        for options in ({}, {"decode_timedelta": True}):
            with xr.open_dataset(path, engine=QuarryBackendEntrypoint, **options) as dataset:
                self.assertEqual(dataset.time.values.tolist(), times.tolist())
        # Numbers in hours are what they were, unless somebody wants lengths.
        numbers = self.written(self.series(np.array([0, 6, 12, 18]), units="hours"))
        with xr.open_dataset(numbers, engine=QuarryBackendEntrypoint) as dataset:
            self.assertEqual(dataset.time.values.tolist(), [0, 6, 12, 18])
        with xr.open_dataset(numbers, engine=QuarryBackendEntrypoint, decode_timedelta=True) as dataset:
            self.assertEqual(dataset.time.values.tolist(), times.tolist())

    def test_leads_of_a_forecast_are_times(self):
        """As in files: numbers in hours are lengths of time, if nothing varies more slowly."""
        array = self.series(np.array([0, 6, 12, 18]), "frtime", units="hours")
        self.assertEqual(self.said(self.written(array)), ([0, 6, 12, 18], "hours", ""))
        for other in (array.transpose("lat", "frtime", "lon"), self.series(np.arange(4.0), "frtime", units="hours", axis="Z"),
                      self.series(np.arange(4.0), units="m")):
            self.assertEqual(self.said(self.written(other))[0], [None])

    def test_names_do_not_say_what_time_is(self):
        import pandas as pd
        dates = pd.date_range("2001-01-01", periods=4)
        numbers = np.arange(4.0)
        expected = ([0, 1, 2, 3], "days since 2001-01-01")
        for dim, times, attrs in (("ocean_time", dates, {}), ("Time", numbers, {"units": "days since 2001-01-01"}),
                                  ("valid_time", numbers, {"units": "days since 2001-01-01", "axis": "T"}),
                                  ("when", numbers, {"units": "days since 2001-01-01", "standard_name": "time"})):
            with self.subTest(dim):
                array = self.series(times, dim, **attrs)
                for data in (array, array.transpose("lat", "lon", dim), array.to_dataset()):
                    path = self.written(data)
                    with quarry.open(path) as dataset:
                        self.assertEqual((dataset.times, dataset.time_units[:21]), expected)
                        np.testing.assert_array_equal(dataset["t"][:, 0], array.values)
        # As cfgrib has it: three things that are time, of which one is the time of the samples.
        array = self.series(np.array([0, 6, 12, 18], "m8[h]").astype("m8[ns]"), "lead").assign_coords(
            time=np.datetime64("2001-01-01", "ns"),
            valid_time=("lead", pd.date_range("2001-01-01", periods=4, freq="6h"), {"standard_name": "time"}))
        self.assertEqual(self.said(self.written(array))[:2], ([0, 6, 12, 18], "hours since 2001-01-01 00:00:00"))
        with self.assertRaisesRegex(ValueError, "several axes of time, 'time', 'lead'"):
            quarry.write(self.tmp / "two.quarry", self.series(dates).drop_vars("time").rename(lat="lead").assign_coords(
                time=dates, lead=np.array([0, 6], "m8[h]").astype("m8[ns]")), lossless=True)

    def test_the_unit_that_the_times_came_with(self):
        import pandas as pd
        array = self.series(pd.date_range("2001-01-01", periods=4, freq="8h"))
        array.time.encoding = {"units": "days since 1900-01-01", "calendar": "standard"}
        times, units, calendar = self.said(self.written(array))
        self.assertEqual((units, calendar), ("days since 1900-01-01", "standard"))
        self.assertEqual(times, [36890 + i / 3 for i in range(4)])
        # Where it loses something, another one is taken.
        exact = self.series(pd.DatetimeIndex(["2001-01-01T00:00:00.123456789", "2001-01-02", "2001-01-03", "NaT"]))
        exact.time.encoding = {"units": "days since 1900-01-01"}
        times, units, calendar = self.said(self.written(exact))
        self.assertEqual((times[1:], units), ([86399876543211, 172799876543211, None],
                                              "nanoseconds since 2001-01-01 00:00:00.123456789"))
        with self.assertRaisesRegex(ValueError, "float64, which holds 'time' up to 9007199254740993 not exactly"):
            quarry.write(self.tmp / "large.quarry", self.series(np.array([0, 1, 2, 2**53 + 1]), units="ns"), lossless=True)

    def test_times_of_another_unit_are_converted_or_refused(self):
        import pandas as pd
        import xarray as xr
        array = self.series(pd.date_range("2001-01-01", periods=4))
        path = self.written(array, time_units="", calendar="")
        later = array.assign_coords(time=pd.date_range("2001-01-05T06:00", periods=4, freq="6h"))
        quarry.write(path, later, step=4, mode="append")
        quarry.write(path, array[0], step=8, time=5.5, mode="append")
        quarry.write(path, array[0], step=9, time=36, time_units="hours since 2001-01-05", mode="append")
        self.assertEqual(self.said(path)[0], [0, 1, 2, 3, 4.25, 4.5, 4.75, 5, 5.5, 5.5])
        before = (path / "dataset.json").read_bytes()
        noleap = array.assign_coords(time=xr.date_range("2001-01-01", periods=4, calendar="noleap", use_cftime=True))
        for data, options, words in (
                (noleap, {}, 'times in "days since 2001-01-01 00:00:00.000000 (noleap)" cannot become times in "days since '
                 '2001-01-01 00:00:00 (proleptic_gregorian)": their calendars differ'),
                (array[0], {"time": 1, "time_units": "s"}, "only one of them has a reference date")):
            with self.assertRaises(quarry.Error) as raised:
                quarry.write(path, data, step=20, mode="append", **options)
            self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")
            self.assertIn(words, str(raised.exception))
        self.assertEqual(((path / "dataset.json").read_bytes(), len(self.said(path)[0])), (before, 10))

    def test_numbers_without_a_unit_stay_numbers(self):
        array = self.series(np.arange(4.0))
        path = self.written(array)
        self.assertEqual(self.said(path), ([0, 1, 2, 3], "", ""))
        time = json.loads((path / "dataset.json").read_text())["time"]
        self.assertEqual((time["name"], time["units"], time["calendar"]), ("time", "", ""))
        with self.assertRaisesRegex(quarry.Error, 'in "s" here, and those of the dataset have no unit'):
            quarry.write(path, array[0], step=9, time=1, time_units="s", mode="append")
        # No time, no meaning: the first that comes with one says it.
        empty = self.written(array[0].drop_vars("time").values[None], field="t")
        quarry.write(empty, array[0].drop_vars("time").values[None], field="t", step=1, time=np.datetime64("2001-01-02"),
                     mode="append")
        self.assertEqual(self.said(empty), ([None, 0], "days since 2001-01-02 00:00:00", "proleptic_gregorian"))
        self.assertEqual(self.said(self.written(array[0].drop_vars("time"), time=0.5, time_units="s")), ([0.5], "s", ""))
        with self.assertRaisesRegex(ValueError, "are in 'd'; leave them out"):
            quarry.write(self.tmp / "both.quarry", self.series(np.arange(4.0), units="d"), lossless=True, time_units="s")

    def test_times_go_along_with_fields_of_another_dataset(self):
        import xarray as xr
        times = xr.date_range("2001-02-28", periods=4, calendar="noleap", use_cftime=True)
        path = self.written(self.series(times))
        with quarry.open(path) as dataset:
            copy = self.written(dataset["t"])
            self.assertEqual(self.said(copy), (dataset.times, dataset.time_units, dataset.calendar))

    def test_programs_say_dates(self):
        import xarray as xr
        path = self.written(self.series(xr.date_range("2001-02-28", periods=4, calendar="noleap", use_cftime=True)))
        info = qt.info(path)
        self.assertEqual((info["times"], info["time_units"], info["calendar"]),
                         ([0, 1, 2, 3], "days since 2001-02-28 00:00:00.000000", "noleap"))
        self.assertIn("times    0 to 3 days since 2001-02-28 00:00:00.000000 (noleap), 2001-02-28 00:00:00 to "
                      "2001-03-03 00:00:00\n", qt.succeed("quarry", "info", path).out)
        self.assertIn("step 1, time 2001-03-01 00:00:00: 1 field",
                      qt.succeed("quarry", "watch", path, "--count", 2).out)
        lines = qt.succeed("quarry", "watch", path, "--count", 1, "--json").out.splitlines()
        self.assertEqual({**json.loads(lines[0]), "bytes": 0},
                         {"step": 0, "time": 0, "time_units": info["time_units"], "calendar": "noleap", "fields": ["t"],
                          "bytes": 0})

    def test_a_calendar_that_nobody_knows_is_kept(self):
        import xarray as xr
        from quarry._xarray import QuarryBackendEntrypoint
        path = self.written(self.series(np.arange(4.0), units="days since 2001-01-01", calendar="darian"))
        self.assertEqual(self.said(path), ([0, 1, 2, 3], "days since 2001-01-01", "darian"))
        with quarry.open(path) as dataset:
            self.assertEqual(dataset.dates, [None] * 4)
        with warnings.catch_warnings(record=True) as said, xr.open_dataset(path, engine=QuarryBackendEntrypoint) as dataset:
            warnings.simplefilter("always")
            self.assertEqual(dataset.time.values.tolist(), [0, 1, 2, 3])
            self.assertEqual(dataset.time.attrs["calendar"], "darian")
        del said


class Meaning(qt.QuarryTest):
    """Nothing is skipped, guessed or flattened without a word."""

    def setUp(self):
        super().setUp()
        self.path = self.tmp / "a.quarry"
        self.values = make("<f4")

    def timed(self, *times):
        import xarray as xr
        return xr.DataArray(np.stack([self.values + k for k in range(len(times))]), dims=("time", "z", "y", "x"), name="u",
                            coords={"time": ("time", list(times), {"units": "days since 2001-01-01"})})

    def test_append_goes_on_after_the_last_step(self):
        quarry.write(self.path, self.values, field="u", lossless=True)
        written = quarry.write(self.path, self.values, field="u", mode="append")
        self.assertEqual([one.step for one in written], [1])
        quarry.write(self.path, self.values, field="v", lossless=True, mode="append")
        with quarry.open(self.path) as dataset:
            self.assertEqual((dataset.steps, dataset["u"].steps, dataset["v"].steps), ([0, 1], [0, 1], [0]))

    def test_resume_refuses_the_next_part(self):
        quarry.write(self.path, self.timed(1, 2, 3), lossless=True)
        self.assertEqual(quarry.write(self.path, self.timed(1, 2, 3), mode="resume"), [])
        with self.assertRaisesRegex(quarry.Error, "time 1 already, and .* time 4"):
            quarry.write(self.path, self.timed(4, 5, 6), mode="resume")
        self.assertEqual(len(quarry.write(self.path, self.timed(1, 2, 3, 4), mode="resume")), 1)

    def written(self, data, name="a", **options):
        """The dataset, and what was said about its writing, in the caller's line."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            quarry.write(self.tmp / f"{name}.quarry", data, lossless=True, **options)
        said = [one for one in said if one.category is UserWarning]
        self.assertEqual({one.filename for one in said} - {__file__}, set())
        return self.tmp / f"{name}.quarry", [str(one.message) for one in said]

    def of_climate(self):
        """As archives of climate models have it: the field, what describes its coordinates, and a text."""
        import xarray as xr
        time = xr.date_range("2001-01-16", periods=3, freq="30D", calendar="360_day", use_cftime=True)
        ds = xr.Dataset({"tos": (("time", "lat", "lon"), np.arange(60, dtype="f4").reshape(3, 4, 5), {"grid_mapping": "crs"}),
                         "lat_bnds": (("lat", "bnds"), np.zeros((4, 2))), "crs": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
                         "time_bnds": (("time", "bnds"), np.stack([time, time], axis=1)),
                         "mesh": ((), 0, {"cf_role": "mesh_topology"}), "who": (("time",), ["a", "b", "c"])},
                        {"time": ("time", time, {"bounds": "time_bnds"}), "lat": ("lat", np.arange(4.0), {"bounds": "lat_bnds"}),
                         "lon": ("lon", np.arange(5.0))})
        ds.time.encoding["units"] = "days since 2001-01-16"
        ds.to_netcdf(self.tmp / "climate.nc")
        return xr.open_dataset(self.tmp / "climate.nc")

    def test_what_describes_other_variables_stands_beside_them(self):
        """By the command it is no field."""
        import xarray as xr
        from quarry._xarray import QuarryBackendEntrypoint
        with self.of_climate() as ds:
            ours, said = self.written(ds)
            self.assertEqual(said, ["of the Dataset, who are left out: they hold text"])
            qt.succeed(qt.SERIAL_WRITER, self.tmp / "climate.nc", "--lossless", "--output", self.tmp / "theirs.quarry")
            with quarry.open(ours) as dataset, quarry.open(self.tmp / "theirs.quarry") as theirs:
                self.assertEqual(list(dataset), ["tos", "lat_bnds", "crs", "time_bnds", "mesh"])
                self.assertEqual(dataset["time_bnds"].steps, [0, 1, 2])
                np.testing.assert_array_equal(dataset["tos"][:, 0], ds.tos.values)
                self.assertEqual((dataset.times, dataset.time_units, dataset.calendar, list(theirs)),
                                 (theirs.times, theirs.time_units, theirs.calendar, ["tos"]))
            with xr.open_dataset(ours, engine=QuarryBackendEntrypoint) as opened:
                xr.testing.assert_identical(opened.load(), ds.drop_vars("who").load())
            self.assertEqual(self.written(ds[["tos"]].drop_vars(["time", "lat"]), "b")[1], [])
            with quarry.open(self.written(ds["lat_bnds"], "c", select={"bnds": 1})[0]) as dataset:
                self.assertEqual(list(dataset), ["lat_bnds"])
            with self.assertRaisesRegex(ValueError, "no field to write: of the Dataset, who are left out"):
                quarry.write(self.tmp / "d.quarry", ds[["who"]].drop_vars(["time"]), lossless=True)

    def assert_as_by_command(self, array):
        """From xarray's rereading of its own file we make the grid that quarry-write makes of the file, with its
        warnings."""
        import xarray as xr
        for path in self.tmp.glob("*.quarry"):
            shutil.rmtree(path)
        array.to_netcdf(self.tmp / "a.nc")
        with xr.open_dataset(self.tmp / "a.nc") as ds:
            ours, said = self.written(ds[array.name])
        report = self.tmp / "report.json"
        qt.succeed(qt.SERIAL_WRITER, f"{self.tmp}/a.nc:{array.name}", "--lossless", "--output", self.tmp / "theirs.quarry",
                   "--report", report)
        grids = [json.loads((path / "dataset.json").read_text())["grids"][0] for path in (ours, self.tmp / "theirs.quarry")]
        self.assertEqual(*grids)
        theirs = [words.in_python(one.removeprefix(f'"{self.tmp}/a.nc": ').replace("holds string", "holds text"))
                  for one in json.loads(report.read_text()).get("warnings", [])]
        self.assertEqual(sorted(said), sorted(theirs))
        return grids[0], said

    def test_coordinates_that_are_no_positions(self):
        """Lend no unit to 0, 1, 2, ..., in the words of the command."""
        import xarray as xr
        values = np.arange(40, dtype="f4").reshape(5, 8)
        for name, along in (("across the date line", [350, 355, 0, 5, 10, 15, 20, 25.0]), ("twice", [0, 1, 1, 2, 3, 4, 5, 6]),
                            ("not finite", [0, 1, 2, np.nan, 4, 5, 6, 7]), ("whole", np.arange(8))):
            with self.subTest(name):
                array = xr.DataArray(values, dims=("lat", "lon"), name="u",
                                     coords={"lat": ("lat", np.arange(5) * 2.0 - 4, {"units": "degrees_north"}),
                                             "lon": ("lon", along, {"units": "degrees_east"})})
                grid, said = self.assert_as_by_command(array)
                self.assertEqual((grid["axis_names"][:2], grid["axis_units"][:2]),
                                 (["lon", "lat"], ["degrees_east" if name == "whole" else "", "degrees_north"]))
                self.assertEqual((grid["unplaced"] or [False])[0], name != "whole")
                why = "is not finite, or neither ascends nor descends; "
                self.assertEqual([f"the coordinate lon {why}" in one for one in said], [] if name == "whole" else [True])
                if name == "not finite":
                    with self.assertRaises(UserWarning), warnings.catch_warnings():
                        warnings.simplefilter("error")
                        quarry.write(self.tmp / "b.quarry", array, lossless=True)
                    self.assertFalse((self.tmp / "b.quarry").exists())

    def test_guessed_axes_are_said(self):
        import xarray as xr
        for name, coords, is_said in (("cape_cin", {}, True), ("level", {}, False), ("cape_cin", {"cape_cin": np.arange(3.0)}, False)):
            array = xr.DataArray(np.zeros((3, 4, 5), "f4"), dims=(name, "y", "x"), name="u", coords=coords)
            said = self.written(array, f"{name}{len(coords)}")[1]
            self.assertEqual(["cape_cin" in one and "select=" in one for one in said], [True] if is_said else [])

    def test_attributes_that_are_not_applied_are_said(self):
        import xarray as xr
        array = xr.DataArray(np.arange(24, dtype="i2").reshape(2, 3, 4), dims=("z", "y", "x"), name="u")
        for number, (attributes, words) in enumerate((
                ({"scale_factor": 0.5, "missing_value": [1, 2]}, ["scale_factor, missing_value", "decode_cf"]),
                ({"_FillValue": 7, "missing_value": 7}, []), ({"valid_range": [0, 9]}, ["valid_range", "data.where"]))):
            said = self.written(array.assign_attrs(attributes), f"{number}")[1]
            self.assertEqual(len(said), bool(words))
            for word in words:
                self.assertIn(word, said[0])

    def test_coordinates_that_are_not_kept_are_said(self):
        """Numbers are fields, and texts are kept along one axis."""
        import xarray as xr
        array = xr.DataArray(np.arange(24, dtype="f4").reshape(2, 3, 4), dims=("time", "y", "x"), name="u",
                             coords={"time": ("time", [1.5, 2.5], {"units": "days since 2001-01-01"}), "x": np.arange(4.0),
                                     "XLAT": (("y", "x"), np.ones((3, 4))), "sigma": ("y", np.arange(3.0))})
        path, said = self.written(array)
        self.assertEqual(said, [])
        with quarry.open(path) as dataset:
            self.assertEqual([(one.name, one.coordinate, one.still) for one in dataset.native.fields],
                             [("u", False, False), ("XLAT", True, True), ("sigma", True, True)])
            np.testing.assert_array_equal(dataset["XLAT"][0, 0], array["XLAT"])
        path, said = self.written(array["XLAT"], "b")
        self.assertEqual(said, [])
        with quarry.open(path) as dataset:
            self.assertEqual([(one.name, one.coordinate) for one in dataset.native.fields], [("XLAT", False), ("sigma", True)])
        lone = array.drop_vars(["XLAT", "sigma"]).assign_coords(height=((), 2.0, {"units": "m"}), who="me", step=9)
        self.assertEqual(self.written(lone, "c")[1], [])
        when = lone.drop_vars("step").assign_coords(season=("time", ["winter", "spring"]), of_two=(("y", "x"), [list("abcd")] * 3))
        self.assertEqual(self.written(when, "f")[1], [
            "u: the coordinate season is not kept: text along the steps has no place in a dataset",
            "u: the coordinate of_two is not kept: it holds text along y, x; text lies along one axis"])
        self.assertEqual(self.written(lone[0].drop_vars(["height", "who"]), "d")[1], [])  # a number and a time of a step
        members = xr.concat([array.drop_vars(["XLAT", "sigma"])] * 2, "member").assign_coords(member=[7, 8])
        self.assertEqual(self.written(members, "e", select={"member": 1})[1], [])

    def test_axes_of_one_name_lie_at_one_place(self):
        """A dataset has the positions of an axis once, and other grids for other axes."""
        import xarray as xr
        u = xr.DataArray(np.arange(9, dtype="f4").reshape(3, 3), dims=("lat", "lon"), coords={"lat": [0, 1, 2], "lon": [5, 6, 7]})
        for name, other in (("moved", u.assign_coords(lon=[6, 7, 8])),
                            ("turned, without positions", u.drop_vars(["lat", "lon"]).transpose("lon", "lat")),
                            ("other units", u.assign_coords(lon=("lon", [5, 6, 7], {"units": "m"})))):
            with self.subTest(name), self.assertRaisesRegex(quarry.Error, '"v": axis "lon".*axes of one name are one axis'):
                quarry.write(self.path, {"u": u, "v": other}, lossless=True)
        with self.assertRaisesRegex(quarry.Error, 'axis "height".* from 10 on, .* from 2 on'):
            quarry.write(self.path, {"u": u.expand_dims(height=[2.0]), "v": u.expand_dims(height=[10.0])}, lossless=True)
        quarry.write(self.path, {"u": u, "v": u.values, "w": u.drop_vars(["lat", "lon"]), "turned": u.transpose("lon", "lat")},
                     lossless=True)
        with quarry.open(self.path) as dataset:
            self.assertEqual([field._description.grid for field in dataset.values()], [0, 0, 0, 1])
            np.testing.assert_array_equal(dataset["v"][0, 0], u)
            np.testing.assert_array_equal(dataset["turned"][0, 0], u.T)
            self.assertEqual(dataset["turned"].dims[2:], ("lon", "lat"))
        quarry.write(self.path, u.drop_vars(["lat", "lon"]), field="u", mode="append")  # says nothing against them
        with self.assertRaisesRegex(quarry.Error, "the positions along x"):
            quarry.write(self.path, u.assign_coords(lon=[6, 7, 8]), field="u", mode="append")

    def test_times_that_are_none_are_said(self):
        import pandas as pd
        import xarray as xr
        array = xr.DataArray(np.zeros((2, 3), "f4"), dims=("time", "x"), name="u",
                             coords={"time": pd.DatetimeIndex(["2001-01-01", "NaT"])})
        self.assertEqual(self.written(array)[1], ["times of time are not all numbers; steps without one have none"])

    def test_what_cannot_be_a_field_of_a_dataset_is_named_at_once(self):
        with self.of_climate() as ds:
            several = ds[["tos"]].assign(count=ds.tos.astype("g"), mixed=("lat", np.array([None, 1, 2, 3], object)), gw=ds.lat * 1,
                                         p0=5.0, ice=ds.tos * 2, when=ds.time)
            with self.assertRaises(TypeError) as raised:
                quarry.write(self.path, several, lossless=True)
            self.assertEqual(
                str(raised.exception), "some variables of the Dataset cannot be fields: float128: count; object: mixed. A dataset has "
                "samples of float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64, bool, complex64, complex128; leave them out, "
                "ds.drop_vars(['count', 'mixed']), and write what else you need by itself")
            other = ds.tos[:2].rename(time="time2").rename("other")
            for data, error, says in (
                    (several[["ice", "tos"]].assign(other=other), ValueError,
                     r"along time2, lat, lon: other\. A dataset has one series of steps.* ds\.drop_vars\(\['other'\]\)"),
                    (several[["count", "mixed"]], TypeError, "float128: count; object: mixed. A dataset has samples of float16.*astype"),
                    (ds.tos[0].expand_dims(bnds=4, axis=2).to_dataset(name="corners").assign(tos=ds.tos), ValueError,
                     "along lat, lon, bnds: corners.* that of 'tos'")):
                with self.subTest(says), self.assertRaisesRegex(error, says):
                    quarry.write(self.path, data, lossless=True)
            self.assertFalse(self.path.exists())
            with quarry.open(self.written(several.drop_vars(["count", "mixed"]))[0]) as dataset:
                np.testing.assert_array_equal(dataset["ice"][:, 0], ds.tos.values * 2)
                self.assertEqual(dataset["when"].steps, [0, 1, 2])
                self.assertEqual([one.name for one in dataset.native.fields if one.still], ["gw", "p0"])

    def test_a_list_along_time_is_a_row(self):
        """As quarry-write has it."""
        import pandas as pd
        import xarray as xr
        uneven = pd.DatetimeIndex(["2001-01-01", "2001-01-02T06:00", "2001-01-09"])
        for name, times in (("even", pd.date_range("2001-01-01", periods=3)), ("uneven", uneven),
                            ("noleap", xr.date_range("2001-02-28", periods=3, calendar="noleap", use_cftime=True))):
            with self.subTest(name):
                array = xr.DataArray(np.arange(3, dtype="f4"), dims="time", coords={"time": times}, name="sst")
                array.time.encoding["units"] = "hours since 2001-01-01"
                grid, said = self.assert_as_by_command(array)
                self.assertEqual((grid["axis_names"][0], grid["axis_units"][0], said), ("time", "hours since 2001-01-01", []))
                (calendar,) = grid["axis_attributes"][0]["attributes"]
                self.assertEqual(calendar, {"name": "calendar", "text": "noleap" if name == "noleap" else "proleptic_gregorian"})

    def test_a_range_of_few_samples(self):
        self.values[3, 4, 5] = 1e20
        with self.assertRaisesRegex(quarry.Error, "fill=1.*e\\+20.*tolerance.*accept_range=True") as caught:
            quarry.write(self.path, self.values, field="u", relative=1e-3)
        self.assertNotIn("--", str(caught.exception))
        self.assertFalse(self.path.exists())
        quarry.write(self.path, self.values, field="u", relative=1e-3, fill=float(np.float32(1e20)))
        with quarry.open(self.path) as dataset:
            decoded = dataset["u"][...].reshape(SHAPE)
        valid = self.values < 1e19
        self.assertLess(np.abs(decoded - self.values)[valid].max(), 1.1e-3 * np.ptp(self.values[valid]))
        quarry.write(self.tmp / "b.quarry", self.values, field="u", relative=1e-3, accept_range=True)

    def test_members_are_no_axis(self):
        import xarray as xr
        plane = xr.DataArray(self.values[:2], dims=("member", "y", "x"), name="u")
        volume = xr.DataArray(np.stack([self.values, self.values + 1]), dims=("run", "z", "y", "x"), name="u")
        for data, dim in ((plane, "member"), (volume, "run")):
            with self.subTest(dim=dim), self.assertRaisesRegex(ValueError, f"select={{'{dim}': 0}}"):
                quarry.write(self.path, data, lossless=True)
        quarry.write(self.path, plane, lossless=True, select={"member": 1})
        with quarry.open(self.path) as dataset:
            np.testing.assert_array_equal(dataset["u"][...].ravel(), self.values[1].ravel())
        quarry.write(self.tmp / "b.quarry", volume.to_dataset(), lossless=True, select={"run": slice(None)})
        with quarry.open(self.tmp / "b.quarry") as dataset:
            self.assertEqual(list(dataset), ["u_run0", "u_run1"])
            np.testing.assert_array_equal(dataset["u_run1"][...].ravel(), (self.values + 1).ravel())
        for select in ({"level": 0}, {"run": 2}):
            with self.subTest(select=select), self.assertRaises(ValueError):
                quarry.write(self.tmp / "c.quarry", volume, lossless=True, select=select)
        with self.assertRaises(TypeError):
            quarry.write(self.tmp / "c.quarry", self.values, field="u", lossless=True, select={"z": 0})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write-large"]:
        print(write_large(*sys.argv[2:]))
    else:
        qt.main()
