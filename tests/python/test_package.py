"""The Python package: the same answers from a directory and from a server, as numpy would give them on the decoded array."""

import asyncio
import shutil
import subprocess
import sys

from python_testing import DIMS, PACKAGE, ROOT, SHAPE, STEPS, Package, np, qt, quarry


def random_index(generator, length, kinds):
    """An integer or a slice, and whether it is inside."""
    kind = generator.choice(kinds)
    if kind == "integer":
        return int(generator.integers(-length, length))
    if kind == "numpy":
        return np.int64(generator.integers(-length, length))
    bounds = [None if generator.random() < 0.25 else int(generator.integers(-length - 3, length + 4)) for _ in range(2)]
    step = None if generator.random() < 0.5 else int(generator.choice([1, 2, 3, 7, -1, -2, -5]))
    return slice(*bounds, step)


def random_key(generator, shape):
    """An index of any kind that selects from an array of this shape."""
    given = int(generator.integers(0, len(shape) + 1))
    indices = [random_index(generator, shape[axis], ("integer", "numpy", "slice", "slice", "slice")) for axis in range(given)]
    if generator.random() < 0.4:
        # Dimensions behind an ellipsis belong to the last axes.
        behind = int(generator.integers(0, given + 1))
        for place in range(given - behind, given):
            axis = len(shape) - given + place
            indices[place] = random_index(generator, shape[axis], ("integer", "slice"))
        indices.insert(given - behind, Ellipsis)
    if generator.random() < 0.2:
        indices.insert(int(generator.integers(0, len(indices) + 1)), None)
    return indices[0] if len(indices) == 1 and generator.random() < 0.5 else tuple(indices)


class Reading(Package):
    def test_numpy_is_not_loaded_before_it_is_needed(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import quarry; d = quarry.open(sys.argv[2]); d.steps, d.levels;"
                "assert 'numpy' not in sys.modules, 'numpy'; d['p'][0]; assert 'numpy' in sys.modules")
        subprocess.run([sys.executable, "-c", code, str(PACKAGE), str(self.path)], check=True)

    def test_what_writes_is_loaded_with_its_first_use_and_listed_before(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import quarry; assert 'quarry._write' not in sys.modules; "
                "assert {*quarry.__all__} <= {*dir(quarry)}, dir(quarry); from quarry import write; "
                "assert write is quarry.write is sys.modules['quarry._write'].write; assert not hasattr(quarry, 'wrote')")
        subprocess.run([sys.executable, "-c", code, str(PACKAGE)], check=True)

    def test_another_protobuf_in_the_process(self):
        """Its symbols would take the place of ours: the module is loaded so that it finds its own first."""
        code = """
import ctypes, os, sys
if sys.argv[1] == "other":
    ctypes.CDLL("libprotobuf.so.32", os.RTLD_GLOBAL)
set_flags, flags = sys.setdlopenflags, []
sys.setdlopenflags = lambda given: (flags.append(given), set_flags(given))
before = sys.getdlopenflags()
import quarry
assert sys.getdlopenflags() == before
print(any(given & os.RTLD_DEEPBIND for given in flags))
"""
        for other, expected in (("other", "True"), ("none", "False")):
            done = subprocess.run([sys.executable, "-c", code, other], cwd=PACKAGE, capture_output=True, text=True)
            self.assertEqual((done.stdout.strip(), done.stderr), (expected, ""))

    def test_what_a_dataset_says(self):
        for dataset in self.targets():
            self.assertEqual(list(dataset), ["p", "m", "k"])
            self.assertEqual((dataset.shape, dataset.steps), (SHAPE, list(STEPS)))
            field = dataset["k"]
            self.assertEqual((field.shape, field.dtype, field.chunks), ((3, *SHAPE), np.dtype("i2"), (1, 16, 16, 16)))
            self.assertEqual(field.attrs["_FillValue"], -999)
            self.assertTrue(field.attrs["lossless"])
            np.testing.assert_array_equal(field.coords["x"], np.arange(45))
            with self.assertRaisesRegex(KeyError, "no field .* it has p, m, k"):
                dataset["q"]

    def test_any_index_selects_what_numpy_selects(self):
        generator = np.random.default_rng(qt.SEED)
        count = qt.scaled(120, 5000)
        for dataset in self.targets():
            for name, decoded in self.decoded.items():
                field = dataset[name]
                expected = np.ma.masked_equal(decoded, -999) if name == "k" else decoded
                for _ in range(count // 3):
                    key = random_key(generator, expected.shape)
                    with self.subTest(field=name, key=key):
                        got, wanted = field[key], expected[key]
                        self.assertEqual((np.shape(got), getattr(got, "dtype", None)), (np.shape(wanted), wanted.dtype))
                        if name == "k":
                            np.testing.assert_array_equal(np.ma.filled(got, -1), np.ma.filled(wanted, -1))
                        else:
                            np.testing.assert_array_equal(got, wanted)

    def test_bad_indices(self):
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for key, text in (((0, 0, 0, 0, 0), "too many"), (3, "out of bounds"), ((0, -24), "out of bounds for axis 1"),
                              ((Ellipsis, Ellipsis), "single ellipsis"), (1.5, "no index"),
                              (True, "no index"), ("p", "no index")):
                with self.subTest(key=key), self.assertRaisesRegex(IndexError, text):
                    field[key]

    def test_levels(self):
        box = ((3, 20), (1, 30), (5, 44))
        for dataset in self.targets():
            field = dataset["m"]
            seen = []
            for answer in field.stream(box=box, step=5):
                seen.append(answer.level)
                output = self.tmp / "level.npy"
                qt.succeed("quarry", "get", self.path, "--field", "m", "--step", 5, "--box", "5:44,1:30,3:20", "--level",
                           answer.level, "--output", output)
                wanted = np.load(output)
                np.testing.assert_array_equal(answer.array, wanted)
                np.testing.assert_array_equal(field.read(box=box, step=5, level=answer.level), wanted)
                self.assertEqual(answer.shape, wanted.shape)
                self.assertEqual(answer.coords["z"][0] % answer.spacing[0], 0)
                self.assertEqual([len(axis) for axis in answer.coords.values()], list(wanted.shape))
            self.assertEqual(seen, list(range(dataset.levels))[::-1])

    def test_other_ways_to_say_which_level(self):
        original = qt.turbulent(DIMS, name="p9").reshape(SHAPE)
        for dataset in self.targets():
            field = dataset["p"]
            allowed = field.plan(step=9, level=1).levels[-1].max_error
            answer = field.read(step=9, max_error=allowed)
            self.assertLessEqual(answer.max_error, allowed)
            self.assertGreater(answer.level, 0)
            spaced = original[tuple(slice(None, None, step) for step in answer.spacing)]
            self.assertLessEqual(np.abs(answer.array - spaced).max(), answer.max_error)
            plan = field.plan(step=9, max_bytes=20_000)
            self.assertLessEqual(plan.price.reply_bytes, 20_000)
            self.assertEqual(field.read(step=9, max_bytes=20_000).array.nbytes, plan.price.reply_bytes)
            self.assertEqual(field.read(step=9, stride=(1, 2, 4)).shape, (23, 17, 12))
            with self.assertRaisesRegex(ValueError, "only one of"):
                field.read(level=1, max_error=1)

    def test_layers_of_accuracy(self):
        original = qt.turbulent((40, 30, 20))
        path = self.tmp / "layers.quarry"
        qt.convert(original, path, "--layers", "1e-1,1e-3,exact")
        with quarry.open(path) as dataset:
            field = dataset["f"]
            for layer, tolerance in enumerate((1e-1, 1e-3, 0)):
                self.assertLessEqual(np.abs(field.read(layer=layer).array - original).max(), tolerance)
                came = [(answer.level, answer.layer, answer.is_last) for answer in field.stream(layer=layer)]
                self.assertEqual(came, [(level, 0, (level, layer) == (0, 0)) for level in reversed(range(dataset.levels))] +
                                 [(0, further, further == layer) for further in range(1, layer + 1)])
                alone = [(answer.level, answer.layer) for answer in field.stream(layer=layer, first_layer=layer)]
                self.assertEqual(alone, [(level, layer) for level in reversed(range(dataset.levels))])
                for answer in field.stream():
                    self.assertEqual(answer.array.tobytes(), field.read(level=answer.level, layer=answer.layer).array.tobytes())
            self.assertEqual([(level.level, level.layer) for level in field.plan(first_level=1, first_layer=1).levels],
                             [(1, 1), (0, 1), (0, 2)])
            np.testing.assert_array_equal(field.read().array, original)
            self.assertLess(field.plan(max_error=0.1).price.bytes, field.plan().price.bytes / 2)
            self.assertEqual(field.read(max_error=0.1).array.tobytes(), field.read(layer=0).array.tobytes())
            for layer, tolerance in enumerate((1e-1, 1e-3, 0)):
                (value,), error = field.points([(3, 5, 7)], layer=layer)
                self.assertEqual(value, field.read(layer=layer, box=((3, 4), (5, 6), (7, 8))).array.item())
                self.assertLessEqual(error, tolerance)
            for wrong in (lambda: field.read(layer=3), lambda: field.points([(3, 5, 7)], layer=3)):
                with self.assertRaisesRegex(quarry.Error, "layers of accuracy 0"):
                    wrong()

    def test_masked_arrays(self):
        """Missing integers are masked by default, floats on request; masked=False gives what is in the files."""
        missing = {"m": np.isnan(self.decoded["m"][0]), "k": self.decoded["k"][0] == -999}
        for dataset in self.targets():
            for name, mask in missing.items():
                field, plain = dataset[name], self.decoded[name][0]
                for given in ({}, {"masked": True}, {"masked": False}):
                    expected = given.get("masked", name == "k")
                    for samples in (field.read(step=3, **given), [*field.stream(step=3, **given)][-1],
                                    asyncio.run(field.aread(step=3, **given))):
                        array = samples.array
                        self.assertEqual(isinstance(array, np.ma.MaskedArray), expected, (name, given))
                        np.testing.assert_array_equal(np.ma.getdata(array)[~mask], plain[~mask])
                        if expected:
                            np.testing.assert_array_equal(np.ma.getmaskarray(array), mask)
                        else:
                            np.testing.assert_array_equal(array, plain)
            self.assertNotIsInstance(dataset["p"].read().array, np.ma.MaskedArray)
            present = self.decoded["k"][0][~missing["k"]]
            self.assertAlmostEqual(float(dataset["k"].read(step=3).array.mean()), present.mean(), places=6)

    def test_integers_without_missing_samples_are_not_masked(self):
        path = self.tmp / "counts.quarry"
        quarry.write(path, qt.integers(DIMS, "<i2").reshape(SHAPE), field="n", lossless=True)
        with quarry.open(path) as dataset:
            self.assertIs(type(dataset["n"].read().array), np.ndarray)

    def test_values_leave_out_patches(self):
        """Without any of the values in a patch, its box is left out; everywhere else are the decoded samples."""
        decoded = self.decoded["p"][0]
        low, high = np.sort(decoded, axis=None)[[-3, -1]]
        for dataset in self.targets():
            answer = dataset["p"].read(step=3, values=(float(low), float(high)))
            self.assertTrue(answer.left_out)
            shown = np.ones(SHAPE, bool)
            for z, y, x in answer.left_out:
                part = np.s_[slice(*z), slice(*y), slice(*x)]
                self.assertLess(decoded[part].max(), low + 1e-3)  # patches are told by what they held before
                shown[part] = False
            self.assertTrue(shown.any())
            np.testing.assert_array_equal(answer.array[shown], decoded[shown])
            self.assertLess(dataset["p"].plan(step=3, values=(float(low), float(high))).price.patches,
                            dataset["p"].plan(step=3).price.patches)

    def test_a_focus_changes_no_sample(self):
        for dataset in self.targets():
            levels = [answer.array for answer in dataset["p"].stream(step=3, focus=(20, 3, 40))]
            np.testing.assert_array_equal(levels[-1], self.decoded["p"][0])
            self.assertEqual(len(levels), dataset.levels)
            with self.assertRaises(quarry.Error) as raised:
                list(dataset["p"].stream(step=3, focus=(20, float("nan"), 40)))
            self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")

    def test_statistics_and_points(self):
        original = qt.turbulent(DIMS, name="p3").reshape(SHAPE)
        for dataset in self.targets():
            stats = dataset["p"].stats(percentiles=(0, 50), bins=4)
            self.assertEqual(float(stats.mean), stats.mean.value)
            self.assertTrue(stats.mean.low <= original.mean() <= stats.mean.high)
            # The range is the original's, and a decoded sample may lie outside by the tolerance.
            histogram = stats.histogram
            self.assertEqual(histogram.below + sum(histogram.counts) + histogram.above, original.size)
            values, error = dataset["p"].points([[1, 2, 3], [22, 33, 44], [0, 0, 0.5]])
            wanted = [original[1, 2, 3], original[22, 33, 44], (original[0, 0, 0] + original[0, 0, 1]) / 2]
            np.testing.assert_allclose(values, wanted, atol=error)
            with self.assertRaisesRegex(quarry.Error, "outside the grid") as raised:
                dataset["p"].points([[0, 0, 45]])
            self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")

    def test_percentiles_and_histograms_are_those_of_numpy(self):
        original = qt.turbulent(DIMS, name="p3").reshape(SHAPE)
        decoded = self.decoded["p"][0].astype("f8")
        for dataset in self.targets():
            field = dataset["p"]
            said = field.stats(percentiles=(1, 50, 99), bins=8, scale="quantile")
            for percent, value in said.percentiles:
                for samples in (original, decoded):
                    exact = np.percentile(samples, percent, method="inverted_cdf")
                    self.assertTrue(value.resolved and value.low <= exact <= value.high, (percent, value, exact))
            for histogram in (said.histogram, field.stats(bins=8).histogram,
                              field.stats(bins=8, scale="log", range=(1e-3, 1)).histogram):
                counts, edges = np.histogram(decoded, histogram.edges)
                self.assertEqual((histogram.counts, len(histogram.edges)), (counts.tolist(), 9))
                self.assertEqual((histogram.begin, histogram.end), (edges[0], edges[-1]))
                self.assertEqual(histogram.below, (decoded < edges[0]).sum())
                self.assertEqual(histogram.above, (decoded > edges[-1]).sum())
            for scale, more, text in (("log", {"bins": 8}, "has values from -.* logarithmic bins begin above 0"),
                                      ("log", {}, "there are none"), ("cubic", {"bins": 8}, "linear, log and quantile"),
                                      ("quantile", {"bins": 8, "range": (0, 1)}, "leave the range out")):
                with self.assertRaisesRegex(quarry.Error, text) as raised:
                    field.stats(scale=scale, **more)
                self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")

    def test_points_in_units_of_the_axes(self):
        path = self.tmp / "placed.quarry"
        field = qt.turbulent(DIMS).reshape(SHAPE)
        quarry.write(path, field, field="p", lossless=True, origin=(1, 2, 3), spacing=(0.5, 0.25, 0.125))
        with quarry.open(path) as dataset:
            values, error = dataset["p"].points([[1 + 0.5 * 7, 2 + 0.25 * 8, 3 + 0.125 * 9.5]], physical=True)
        self.assertAlmostEqual(values[0], (float(field[7, 8, 9]) + float(field[7, 8, 10])) / 2, delta=error + 1e-6)

    def test_async(self):
        async def use(dataset):
            whole, *levels = await asyncio.gather(dataset["p"].aread(step=5), *(dataset["p"].aread(level=n) for n in (1, 2)))
            np.testing.assert_array_equal(whole.array, self.decoded["p"][1])
            self.assertEqual([answer.level for answer in levels], [1, 2])
            self.assertEqual([answer.level async for answer in dataset["p"].astream(level=1)],
                             list(range(1, dataset.levels))[::-1])
            async for step in dataset.awatch(after=4):
                if step.step == 9:
                    break

        for dataset in self.targets():
            asyncio.run(use(dataset))

    def test_watch_follows_a_run(self):
        path = self.data / "growing.quarry"
        raw = self.shared / "p.raw"

        def write(step, *options):
            qt.succeed("quarry-write-single", raw, "--dims", "x".join(map(str, DIMS)), "--type", "float32", "--field", "p",
                       "--step", step, "--output", path, "--lossless", *options)

        write(1)
        for target in (path, self.server.target(path)):
            with self.subTest(target=target), quarry.open(target) as dataset:
                steps = dataset.watch()
                last = dataset.steps[-1]
                for _ in range(len(dataset.steps)):
                    next(steps)
                write(last + 1, "--append")
                self.assertEqual(next(steps).step, last + 1)
                steps.close()
                dataset.refresh()
                self.assertEqual(dataset["p"].steps[-1], last + 1)

    def test_list(self):
        names = {dataset.name for dataset in quarry.list(f"grpc://{self.server.address}")}
        self.assertIn("run", names)
        self.assertEqual([dataset.shape for dataset in quarry.list(self.data) if dataset.name == "run"], [SHAPE])


class EveryType(qt.QuarryTest):
    """Every type of sample in one, two and three dimensions, at every level."""

    SHAPES = {"one": (1, 1, 97), "two": (1, 23, 41), "three": (17, 18, 20)}
    TYPES = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        for name, shape in cls.SHAPES.items():
            dims = shape[::-1]
            for number, dtype in enumerate(cls.TYPES):
                raw = cls.shared / f"{dtype}.raw"
                real = dtype.startswith("float")
                (qt.turbulent(dims, name=dtype).astype(dtype) if real else qt.integers(dims, dtype, name=dtype)).tofile(raw)
                qt.succeed("quarry-write-single", raw, "--dims", "x".join(map(str, dims)), "--type", dtype, "--field", dtype,
                           "--output", cls.data / f"{name}.quarry", "--patch", "8",
                           *(["--tolerance", "1e-3"] if real else ["--lossless"]), *(["--append"] if number else []))
        cls.server = qt.Server(cls.data)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def decode(self, path, field, level):
        """By the command, not by the package."""
        output = self.tmp / "decoded.npy"
        qt.succeed("quarry", "get", path, "--field", field, "--level", level, "--output", output)
        return np.load(output)

    def check(self, field, decoded, generator):
        count = qt.scaled(5, 100)
        for _ in range(count):
            key = random_key(generator, (1, *decoded[0].shape))
            np.testing.assert_array_equal(field[key], decoded[0][None][key], str(key))
        for level, samples in enumerate(decoded):
            for _ in range(count):
                ends = [np.sort(generator.choice(length + 1, 2, replace=False)) for length in decoded[0].shape]
                # Level sample i lies on sample i 2^level.
                wanted = samples[tuple(slice(*-(-end // 2 ** level)) for end in ends)]
                got = field.read(box=tuple((int(begin), int(end)) for begin, end in ends), level=level)
                self.assertEqual((got.array.dtype, got.level), (field.dtype, level))
                np.testing.assert_array_equal(got.array, wanted, f"{ends} at level {level}")

    def test_any_selection_and_any_box_of_any_level(self):
        generator = np.random.default_rng(qt.SEED)
        for name in self.SHAPES:
            path = self.data / f"{name}.quarry"
            with quarry.open(path) as directory, quarry.open(self.server.target(path)) as served:
                for dtype in self.TYPES:
                    decoded = [self.decode(path, dtype, level) for level in range(directory.levels)]
                    self.assertEqual(decoded[0].dtype, dtype)
                    for dataset in (directory, served):
                        with self.subTest(dataset=dataset.target, field=dtype):
                            self.check(dataset[dtype], decoded, generator)


CONFIGURATION = ROOT / "clients/python/pyproject.toml"


class Types(qt.QuarryTest):
    def test_the_types_are_right(self):
        package = PACKAGE / "quarry"
        subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file", CONFIGURATION, "-p", "quarry",
                        "-p", "quarry_outofcore"],
                       cwd=package.parent, check=True)
        subprocess.run([sys.executable, "-m", "ruff", "check", "--config", CONFIGURATION, ROOT / "clients/python/src",
                        ROOT / "clients/outofcore/src"], check=True)


class Imports(qt.QuarryTest):
    """The modules import each other in layers, without a circle: types, and imports inside functions, included."""

    def lint(self, name="", planted=""):
        """Checks copies of the packages, with lines planted at the end of a module: the exit code and what it prints."""
        sources = [ROOT / "clients/python/src/quarry", ROOT / "clients/outofcore/src/quarry_outofcore"]
        for source in sources:
            shutil.copytree(source, self.tmp / source.name, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        (self.tmp / "quarry/_quarry.py").touch()  # the module in C++, which has no source here
        if name:
            with open(self.tmp / name, "a") as module:
                module.write(planted)
        done = subprocess.run([sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()",
                               "--no-cache", "--no-logo", CONFIGURATION], cwd=self.tmp, capture_output=True, text=True)
        for source in sources:
            shutil.rmtree(self.tmp / source.name)
        return done.returncode, done.stdout + done.stderr

    def test_they_are_in_layers(self):
        code, text = self.lint()
        self.assertEqual(code, 0, text)
        self.assertIn("2 kept, 0 broken", text)

    def test_an_import_that_closes_a_circle_is_found(self):
        of_types = "\nif TYPE_CHECKING:\n    from quarry._dataset import Dataset\n"
        in_function = "\ndef planted():\n    from quarry._field import Field\n    return Field\n"
        for name, planted, said in (
                ("quarry/_grids.py", of_types, "quarry._grids is not allowed to import quarry._dataset"),
                ("quarry/_pictures.py", in_function, "quarry._pictures is not allowed to import quarry._field"),
                ("quarry/_grids.py", "\nimport quarry\n", "quarry._grids is not allowed to import quarry._write"),
                ("quarry_outofcore/_order.py", "\nfrom quarry_outofcore._pod import pod\n",
                 "quarry_outofcore._order is not allowed to import quarry_outofcore._pod"),
                ("quarry/_beside.py", "", "quarry._beside")):
            with self.subTest(name=name, planted=planted):
                code, text = self.lint(name, planted)
                self.assertEqual(code, 1, text)
                self.assertIn(said, text)


class Said(qt.QuarryTest):
    """Metadata of the source besides samples."""

    GLOBAL = {"title": "Sea", "version": np.int32(7), "levels": np.array([1, 2, 3], "i2"), "authors": ["a", "É"],
              "threshold": np.float32(0.1), "namelist": {"dt": 0.5}, "history": "converted " * 20}
    FIELD = {"standard_name": "sea_water_temperature", "tolerance": "none", "coder": "by hand", "lossless": "no", "level": "top"}
    TIMES = [0.5, 1.5, 4]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import xarray as xr
        random = np.random.default_rng(qt.SEED)
        cls.samples = random.normal(size=(3, 4, 9, 7)).astype("f4")
        cls.mask = random.integers(0, 3, (4, 9, 7)).astype("i2")
        dims = ("depth", "lat", "lon")
        lat = ("lat", np.linspace(-40, 40, 9), {"units": "degrees_north", "standard_name": "latitude"})
        places = {"time": ("time", cls.TIMES, {"units": "days since 2001-01-01"}), "lat": lat,
                  "height": (dims, np.ones(cls.mask.shape), {"units": "m"})}
        cls.path = cls.shared / "data/said.quarry"
        cls.path.parent.mkdir()
        quarry.write(cls.path, xr.Dataset({"temp": (("time", *dims), cls.samples, cls.FIELD | {"units": "K"}),
                                           "mask": (dims, cls.mask, {"_FillValue": np.int16(2)}), "flags": (dims, cls.mask)},
                                          places, cls.GLOBAL),
                     tolerance={"temp": 1e-3})
        server = qt.Server(cls.path.parent)
        server.__enter__()
        cls.addClassCleanup(server.__exit__, None, None, None)
        cls.target = server.target(cls.path)

    def datasets(self):
        for target in (self.path, self.target):
            with self.subTest(target=str(target)), quarry.open(target) as dataset:
                yield dataset

    def test_attributes(self):
        for dataset in self.datasets():
            self.assertEqual(list(dataset.attrs), list(self.GLOBAL))
            for name, value in self.GLOBAL.items():
                self.assertIs(type(dataset.attrs[name]), type(value))
                np.testing.assert_array_equal(dataset.attrs[name], value)
            self.assertEqual(dataset.attrs["levels"].dtype, "i2")
            field = dataset["temp"]
            self.assertEqual({name: field.attrs[name] for name in self.FIELD}, self.FIELD)
            self.assertEqual(field.attrs["units"], "K")
            self.assertEqual(field.axis_attrs["lat"], {"standard_name": "latitude"})
            self.assertEqual((field.axis_attrs["y"], field.axis_attrs["z"], dataset.axis_attrs["lat"]),
                             (field.axis_attrs["lat"], {}, {"standard_name": "latitude"}))

    def test_they_change_nothing(self):
        """They have names of what Quarry says."""
        for dataset in self.datasets():
            self.assertIn("± 0.001", dataset.info())
            self.assertRegex(dataset["temp"].info(), "(?m)^coder +interpolate$")
            self.assertLessEqual(np.abs(dataset["temp"][:] - self.samples).max(), 1e-3)

    def test_they_are_shown(self):
        for dataset in self.datasets():
            text = dataset.info()
            for line in ("title +Sea", "version +7", "levels +1, 2, 3", "authors +a, É", "threshold +0.1",
                         r'namelist +\{"dt": 0.5\}', r"history +(converted ){6}\.\.\.", "standard_name +latitude"):
                self.assertRegex(text, f"(?m)^  {line}$")
            lines = {line.split()[0]: line for line in text.splitlines() if line}
            self.assertRegex(lines["mask"], "does not change$")
            self.assertRegex(lines["height"], "does not change, coordinate$")
            self.assertNotRegex(lines["temp"], "change")
            self.assertIn("<td>does not change</td>", dataset._repr_html_())
            self.assertRegex(dataset["temp"].info(), "(?m)^  tolerance +none$")

    def test_times_are_the_coordinate_of_their_dimension(self):
        for dataset in self.datasets():
            field = dataset["temp"]
            self.assertEqual(field.dims, ("time", "depth", "lat", "lon"))
            np.testing.assert_array_equal(field.coords["time"], self.TIMES)
            series = field.read(steps=[2, 0], level=1)
            np.testing.assert_array_equal(series.coords["time"], [4, 0.5])
            self.assertEqual((series.steps, [*series.coords]), ([2, 0], [*field.dims]))

    def test_what_does_not_change_is_the_same_in_every_step(self):
        for dataset in self.datasets():
            field = dataset["mask"]
            self.assertEqual((field.still, field.is_coordinate, dataset["temp"].still), (True, False, False))
            self.assertTrue(dataset["height"].is_coordinate)
            self.assertEqual((field.shape, len(field), field.steps), ((1, 4, 9, 7), 1, [0]))
            expected = np.ma.masked_equal(self.mask, 2)
            for got in (field[0], field.read().array, field.read(step=2).array, field.read(steps=[2, 1])[1],
                        [*field.stream(step=1)][-1].array):
                np.testing.assert_array_equal(np.ma.getmaskarray(got), expected.mask)
                np.testing.assert_array_equal(np.ma.filled(got, 2), self.mask)
            for got in (dataset["flags"].read(step=2).array, dataset["flags"].read(steps=[2]).array):
                self.assertNotIsInstance(got, np.ma.MaskedArray)
            series = field.read(steps=[2, 1])
            self.assertEqual(series.steps, [2, 1])
            np.testing.assert_array_equal(series.coords["time"], [4, 1.5])
            with self.assertRaises(IndexError):
                field[1]
            self.assertEqual(field.max(step=2).value, 1)
            with self.assertRaisesRegex(quarry.Error, "no step 7|step 7 is not"):
                field.read(step=7)

    def test_a_field_begins_to_change(self):
        path = self.tmp / "begins.quarry"
        array = np.ones((3, 4, 5), "f4")
        import xarray as xr
        quarry.write(path, xr.DataArray(array, dims=("z", "y", "x"), name="p"), lossless=True)
        with quarry.open(path) as dataset:
            self.assertTrue(dataset["p"].still)
            quarry.write(path, 2 * array, field="p", lossless=True, mode="append")
            dataset.refresh()
            self.assertFalse(dataset["p"].still)
            np.testing.assert_array_equal(dataset["p"][:, 0, 0, 0], [1, 2])


if __name__ == "__main__":
    qt.main()
