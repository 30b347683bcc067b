"""Conveniences that users of h5py, zarr and xarray expect: lists and masks as indices, several steps at once, sizes,
texts, boxes by position. The oracle is numpy, and xarray where it has the same, on the decoded arrays."""

import asyncio
import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import unittest.mock

import xarray as xr

from python_testing import DIMS, PACKAGE, SHAPE, STEPS, Package, np, qt, quarry

Q = quarry._quarry


def listed(index, length):
    """Positions of one index, and whether it keeps its axis."""
    if isinstance(index, slice):
        return np.arange(length)[index], True
    if np.ndim(index) == 0:
        return np.array([range(length)[index]]), False
    array = np.asarray(index)
    return (np.flatnonzero(array) if array.dtype == bool else np.arange(length)[array.astype(int)]), True


def outer(array, key):
    """Selection like numpy.ix_; integers drop their axis."""
    along = [listed(index, length) for index, length in zip(key, array.shape)]
    return array[np.ix_(*(one for one, _ in along))].reshape([len(one) for one, kept in along if kept])


def random_index(generator, length):
    kind = generator.choice(["integer", "slice", "list", "array", "mask", "unsigned"])
    if kind == "integer":
        return int(generator.integers(-length, length))
    if kind == "slice":
        begin, end = (int(generator.integers(-length - 2, length + 3)) for _ in range(2))
        return slice(begin, end, int(generator.choice([1, 2, -1, -3])))
    if kind == "mask":
        return generator.random(length) < generator.choice([0.05, 0.5])
    wanted = generator.integers(-length, length, generator.integers(0, 7))
    if kind == "list":
        return [int(one) for one in wanted]
    return wanted if kind == "array" else np.abs(wanted).clip(max=length - 1).astype("u1")


@contextlib.contextmanager
def asked():
    """The boxes that are asked for, z, y, x."""
    boxes, question = [], Q.Question

    def noting(*given, **arguments):
        boxes.append(arguments["box"])
        return question(*given, **arguments)
    with unittest.mock.patch.object(quarry._field._quarry, "Question", noting):
        yield boxes


class Indices(Package):
    def test_lists_and_masks_select_along_their_axis(self):
        generator = np.random.default_rng(qt.SEED)
        for dataset in self.targets():
            for name, decoded in self.decoded.items():
                expected = np.ma.masked_equal(decoded, -999) if name == "k" else decoded
                for _ in range(qt.scaled(40, 2000)):
                    key = tuple(random_index(generator, length) for length in decoded.shape)
                    with self.subTest(field=name, key=key):
                        got, wanted = dataset[name][key], outer(expected, key)
                        self.assertEqual((np.shape(got), getattr(got, "dtype", None)), (np.shape(wanted), wanted.dtype))
                        if name == "k":
                            np.testing.assert_array_equal(np.ma.filled(got, -1), np.ma.filled(wanted, -1))
                        else:
                            np.testing.assert_array_equal(got, wanted)

    def test_one_list_is_what_numpy_selects(self):
        decoded = self.decoded["p"]
        mask = decoded[0, :, 0, 0] > 0
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for key in ([2, 0], np.s_[:, [3, 7, 9]], np.s_[..., [44, -1, 0, 0]], np.s_[1, mask], np.s_[None, :, [5]],
                        np.s_[:, range(3)], np.s_[[True, False, True]], np.s_[..., []]):
                with self.subTest(key=key):
                    np.testing.assert_array_equal(field[key], decoded[key])
            # Here numpy moves the axis of the list to the front.
            self.assertEqual((field[0, :, [1, 2]].shape, decoded[0, :, [1, 2]].shape), ((23, 2, 45), (2, 23, 45)))

    def test_what_is_no_list(self):
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for key, text in (([0.5], "holds float64; give integers"), ([[0]], "axis 0 has 2 dimensions"),
                              ((0, np.zeros(SHAPE, bool)), "axis 1 has 3 dimensions"), ((0, [23]), "index 23 is out of bounds for"),
                              ([0, -4], "index -4 is out of bounds for axis 0 with size 3"), ([[0], [1, 2]], "holds lists"),
                              ((0, [True] * 22), "mask for axis 1 has 22 values, and the axis 23"), (np.True_, "no index"),
                              (["p"], "holds <U1")):
                with self.subTest(key=key), self.assertRaisesRegex(IndexError, text):
                    field[key]

    def test_patches_between_listed_samples_are_not_read(self):
        """Patches have 16 samples along each axis."""
        with quarry.open(self.path) as dataset:
            for key, wanted in ((np.s_[0, [0, 22], :, [2, 40]], {(0, 2), (0, 40)}),
                                (np.s_[0, [0, 17], :, ::44], {(0, 0), (0, 44)}),
                                (np.s_[0, 3:5, 3, np.arange(45) > 43], {(3, 44)})):
                with self.subTest(key=key), asked() as boxes:
                    dataset["p"][key]
                    self.assertEqual({(z[0], x[0]) for z, _, x in boxes}, wanted)
                    self.assertTrue(all(x[1] - x[0] <= 3 for _, _, x in boxes))


class Steps(Package):
    def test_several_steps_are_one_array(self):
        box = ((3, 20), (1, 30), (5, 44))
        for dataset in self.targets():
            for name, decoded in self.decoded.items():
                field = dataset[name]
                series = field.read(steps=[9, 3], box=box)
                self.assertEqual((series.steps, series.shape, len(series)), ([9, 3], (2, 17, 29, 39), 2))
                wanted = decoded[[2, 0], 3:20, 1:30, 5:44]
                np.testing.assert_array_equal(np.ma.filled(series.array, -999), wanted)
                self.assertEqual(isinstance(series.array, np.ma.MaskedArray), name == "k")
                np.testing.assert_array_equal(np.ma.filled(series[1, ::2], -999), wanted[1, ::2])
                coarse = field.read(steps="all", level=1)
                for place, number in enumerate(STEPS):
                    alone = field.read(step=number, level=1)
                    np.testing.assert_array_equal(np.ma.filled(coarse[place], -999), np.ma.filled(alone.array, -999))
                    self.assertEqual(coarse.samples[place].max_error, alone.max_error)
                self.assertEqual(coarse.max_error, max(one.max_error for one in coarse.samples))
                self.assertEqual((coarse.level, coarse.spacing, coarse.field), (1, (2, 2, 2), name))
                self.assertEqual({axis: len(along) for axis, along in coarse.coords.items()},
                                 dict(zip(field.dims, (3, 12, 17, 23))))
                self.assertTrue(np.shares_memory(coarse.samples[1].array, coarse.array))
                np.testing.assert_array_equal(np.ma.filled(field.read(steps=[5], stride=4), -999), decoded[1:2, ::4, ::4, ::4])
            self.assertNotIsInstance(dataset["k"].read(steps="all", masked=False).array, np.ma.MaskedArray)

    def test_what_does_not_go_with_several_steps(self):
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for name, value in (("step", 3), ("max_error", 0.1), ("max_bytes", 5000), ("values", (0, 1)), ("progress", True)):
                with self.subTest(name=name), self.assertRaisesRegex(ValueError, f"{name}=.*does not go with steps"):
                    field.read(steps=[3], **{name: value})
            with self.assertRaisesRegex(ValueError, r"steps=\[\] has no step of 'p'; it is in 3, 5, 9"):
                field.read(steps=[])
            for wrong in (3, "3", [3.5], ["3"]):
                with self.subTest(steps=wrong), self.assertRaises(TypeError):
                    field.read(steps=wrong)
            with self.assertRaises(quarry.Error) as raised:
                field.read(steps=[3, 4])
            self.assertEqual(raised.exception.code, "NOT_FOUND")

    def test_points_of_several_steps(self):
        points = [[1, 2, 3], [22, 33, 44], [0, 0, 0.5], [4, 7, 12]]
        for dataset in self.targets():
            for name, decoded in self.decoded.items():
                field = dataset[name]
                values, error = field.points(points, steps=[9, 3])
                each = [field.points(points, step=step) for step in (9, 3)]
                np.testing.assert_array_equal(values, [alone for alone, _ in each])
                self.assertEqual(error, max(bound for _, bound in each))
                exact = np.where(decoded[[2, 0], 1, 2, 3] == -999, np.nan, decoded[[2, 0], 1, 2, 3])
                np.testing.assert_array_equal(values[:, 0], exact)
            self.assertEqual(field.points(points, steps="all")[0].shape, (3, 4))
            for other in ({"step": 3}, {"output": self.tmp / "x.csv"}):
                with self.assertRaisesRegex(ValueError, f"{list(other)[0]} does not go with steps"):
                    field.points(points, steps=[3], **other)


class Regions(qt.QuarryTest):
    """xarray's `sel` is the oracle."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.shared / "data/placed.quarry"
        cls.path.parent.mkdir()
        coords = {"depth": np.arange(23.0) ** 1.5, "lat": np.linspace(60, 30, 34), "lon": 0.1 + 0.1 * np.arange(45)}
        data = np.stack([qt.turbulent((45, 34, 23), name=f"r{step}").reshape(23, 34, 45) for step in range(2)])
        cls.array = xr.DataArray(data, {"step": [0, 1], **coords}, ("step", *coords), "p")
        quarry.write(cls.path, cls.array, lossless=True, patch=16)
        cls.server = qt.Server(cls.path.parent)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def targets(self):
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target=target), quarry.open(target) as dataset:
                yield dataset

    def selected(self, box, step=0):
        """By xarray, which takes the ends in the direction of the axis."""
        ends = {axis: slice(*(pair[::-1] if axis == "lat" else pair)) for axis, pair in box.items()}
        return self.array.isel(step=step).sel(ends)

    def some(self, generator):
        """A box that is not empty, with ends on samples and between them."""
        box = {}
        for axis in generator.permutation(["depth", "lat", "lon"])[:generator.integers(0, 4)]:
            at = np.sort(self.array[axis].values)
            low, high = np.sort(generator.integers(0, len(at), 2))
            ends = [at[low], at[high]]
            if generator.random() < 0.5:
                ends = [at[low] - 0.01, at[high] + 0.01]
            box[str(axis)] = tuple(None if generator.random() < 0.2 else float(end) for end in ends)
        return box

    def test_samples_between_positions(self):
        generator = np.random.default_rng(qt.SEED)
        for dataset in self.targets():
            for _ in range(qt.scaled(40, 2000)):
                box = self.some(generator)
                with self.subTest(box=box):
                    got, wanted = dataset["p"].read(box=box), self.selected(box)
                    np.testing.assert_array_equal(got.array, wanted.values)
                    for axis, positions in got.coords.items():
                        np.testing.assert_array_equal(positions, wanted[axis].values)

    def test_each_call_with_a_box_takes_positions(self):
        box = {"lat": (40, 50.1), "z": (None, 20)}  # letters find axes too
        wanted = self.selected({"lat": (40, 50.1), "depth": (None, 20)}).values
        later = self.selected({"lat": (40, 50.1), "depth": (None, 20)}, 1).values
        for dataset in self.targets():
            field = dataset["p"]
            np.testing.assert_array_equal(field.read(box=box, steps="all").array, [wanted, later])
            np.testing.assert_array_equal([*field.stream(box=box)][-1].array, wanted)
            np.testing.assert_array_equal(asyncio.run(field.aread(box=box)).array, wanted)
            np.testing.assert_array_equal(field.read(box=box, progress=True).array, wanted)
            self.assertEqual(field.plan(box=box).price.reply_bytes, wanted.nbytes)
            self.assertEqual(field.stats(box=box).valid, wanted.size)
            self.assertEqual(field.read(box={"lat": slice(40, 50.1), "z": [None, np.float32(20)]}).shape, wanted.shape)
            output = self.tmp / f"{dataset.target.startswith('grpc')}.nc"
            dataset.export(output, box=box)
            with xr.open_dataset(output) as exported:
                np.testing.assert_array_equal(exported.p.values[0], wanted)
            output = self.tmp / "region.npy"
            qt.succeed("quarry", "get", dataset.target, "--region", "lat=40:50.1,depth=:20", "--step", 0, "--output", output)
            np.testing.assert_array_equal(np.load(output), wanted)

    def test_regions_of_the_command_that_exports(self):
        from quarry._export_command import main
        output = self.tmp / "region.nc"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main([str(self.path), str(output), "--region", "lat=40:50.1,depth=:20"]), 0)
            self.assertEqual(main([str(self.path), str(self.tmp / "x.nc"), "--region", "lat=40:50,lat=30:60"]), 2)
        with xr.open_dataset(output) as exported:
            np.testing.assert_array_equal(exported.p.values[0], self.selected({"lat": (40, 50.1), "depth": (None, 20)}).values)
        self.assertIn('"lat" and "lat" are the same axis', said.getvalue())

    def test_what_is_no_box(self):
        for dataset in self.targets():
            for box, text in (({"lt": (1, 2)}, 'no axis "lt"; the axes are depth, lat and lon'),
                              ({"lat": (50, 40)}, "not the smaller one"), ({"lat": (float("nan"), 40)}, "not the smaller one"),
                              ({"lat": (40.1, 40.2)}, "from 60 to 30, the nearest at 40.909.* and 40"),
                              ({"lat": (70, 80)}, "the nearest at 60"), ({"lat": (40, 50), "y": (1, 2)}, "are the same axis")):
                for read in (dataset["p"].read, dataset["p"].stats, lambda box: dataset.export(self.tmp / "x.nc", box=box)):
                    with self.subTest(box=box), self.assertRaisesRegex(quarry.Error, text) as raised:
                        read(box=box)
                    self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")
            for box in ({"lat": 3}, {"lat": ("a", 3)}, {3: (1, 2)}, {"lat": (1, 2, 3)}, {"lat": slice(1, 9, 2)}, {"lat": "40"}):
                with self.subTest(box=box), self.assertRaisesRegex(TypeError, "box=.*is not possible; give"):
                    dataset["p"].read(box=box)

    def test_positions_that_others_compute(self):
        """Each sample lies in the interval that has its position, as numpy computes it, at both ends."""
        with quarry.open(self.path) as dataset:
            for position in 0.1 + 0.1 * np.arange(45):
                self.assertEqual(dataset["p"].read(box={"lon": (position, position)}).shape, (23, 34, 1))


class Reductions(Package):
    def test_extremes_and_means_hold_those_of_the_originals(self):
        """Decoded samples are compared with numpy; the interval with the written samples."""
        originals = np.stack([qt.turbulent(DIMS, name=f"p{step}").reshape(SHAPE) for step in STEPS]).astype("f8")
        missing = np.stack([qt.turbulent(DIMS, name=f"m{step}").reshape(SHAPE) for step in STEPS]).astype("f8")
        missing[:, 2:9, 5:20, 7:30] = np.nan
        counts = np.where(self.decoded["k"] == -999, np.nan, self.decoded["k"].astype("f8"))
        box, part = ((1, 20), (3, 30), (0, 44)), np.s_[1:20, 3:30, :44]
        for dataset in self.targets():
            for name, array in (("p", originals), ("m", missing), ("k", counts)):
                shown = np.where(self.decoded[name] == -999, np.nan, self.decoded[name].astype("f8"))
                field = dataset[name]
                for given, at in (({}, np.s_[:]), ({"step": 5}, np.s_[1]), ({"box": box}, np.s_[:, *part]),
                                  ({"box": box, "step": 9}, np.s_[2, *part]), ({"level": 1}, np.s_[:, ::2, ::2, ::2])):
                    for method, reduce in ((field.min, np.nanmin), (field.max, np.nanmax), (field.mean, np.nanmean)):
                        with self.subTest(field=name, method=method.__name__, **given):
                            found, wanted = method(**given), reduce(array[at])
                            if "level" not in given:  # coarse levels have values of their own
                                self.assertAlmostEqual(float(found), reduce(shown[at]), places=9)
                            self.assertTrue(found.low - 1e-12 <= wanted <= found.high + 1e-12, (found, wanted))
                            if "level" not in given:
                                self.assertLessEqual(found.high - found.low, 0 if name == "k" else 0.0021)
            with self.assertRaises(quarry.Error):
                field.min(step=4)

    def test_where_all_is_missing(self):
        with quarry.open(self.path) as dataset:
            found = dataset["m"].mean(box=((3, 8), (6, 19), (8, 29)))
            self.assertTrue(np.isnan([found.value, found.low, found.high]).all())


class Overwriting(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path = self.tmp / "run.quarry"
        self.old = qt.turbulent((20, 10, 6), name="old").reshape(6, 10, 20)
        self.new = qt.turbulent((8, 9, 10), name="new").reshape(1, 10, 9, 8).repeat(2, axis=0)
        quarry.write(self.path, self.old, field="a", lossless=True)

    def held(self):
        with quarry.open(self.path) as dataset:
            return {name: np.asarray(field[:]) for name, field in dataset.items()}

    def check_old(self):
        np.testing.assert_array_equal(self.held()["a"][0], self.old)
        self.assertEqual(os.listdir(self.tmp), ["run.quarry"])

    def test_the_new_dataset_takes_the_place_of_the_old(self):
        written = quarry.write(self.path, self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual([(one.step, one.field) for one in written], [(0, "b"), (1, "b")])
        held = self.held()
        self.assertEqual(list(held), ["b"])
        np.testing.assert_array_equal(held["b"], self.new)
        self.assertEqual(os.listdir(self.tmp), ["run.quarry"])
        qt.succeed("quarry", "verify", self.path)

    def test_nothing_there_is_a_new_dataset(self):
        quarry.write(self.tmp / "first.quarry", self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual(sorted(os.listdir(self.tmp)), ["first.quarry", "run.quarry"])

    def test_a_dataset_that_fails_leaves_the_old_one(self):
        """After the first step was written, and when the array cannot be loaded."""
        class Failing:
            shape, dtype, ndim = self.new.shape, self.new.dtype, 4

            def __getitem__(_, key):
                if key[0] == 1 or isinstance(key[0], slice) and key[0].start == 1:
                    raise RuntimeError("the disk of the source is gone")
                return self.new[key]

        with self.assertRaisesRegex(RuntimeError, "source is gone"):
            quarry.write(self.path, Failing(), field="b", lossless=True, mode="overwrite")
        self.check_old()
        with self.assertRaises(quarry.Error):
            quarry.write(self.path, self.new, field="b", tolerance=-1, mode="overwrite")
        self.check_old()

    def test_a_killed_writer_leaves_the_old_one(self):
        """The files of the killed writer go with the next one."""
        code = ("import sys, os; sys.path.insert(0, sys.argv[1]); import numpy as np, quarry\n"
                "class A:\n"
                "    shape, dtype, ndim = (2, 4, 4, 4), np.dtype('f4'), 4\n"
                "    def __getitem__(self, key):\n"
                "        if os.path.exists(sys.argv[3]): os.kill(os.getpid(), 9)\n"
                "        return np.zeros((2, 4, 4, 4), 'f4')[key]\n"
                "quarry.write(sys.argv[2], A(), field='b', lossless=True, mode='overwrite')")
        staged = self.tmp / ".run.quarry.replacement"
        done = subprocess.run([sys.executable, "-c", code, str(PACKAGE), str(self.path), str(staged)])
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertTrue(staged.is_dir())
        np.testing.assert_array_equal(self.held()["a"][0], self.old)
        quarry.write(self.path, self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual(list(self.held()), ["b"])
        self.assertEqual(os.listdir(self.tmp), ["run.quarry"])

    def test_a_dataset_made_of_itself(self):
        with quarry.open(self.path) as dataset:
            quarry.write(self.path, dataset["a"], field="a", lossless=True, mode="overwrite")
        self.check_old()

    def test_what_is_no_dataset_stays(self):
        (self.path / "notes.txt").write_text("mine")
        with self.assertRaisesRegex(quarry.Error, "holds \"notes.txt\", which does not belong to a dataset") as raised:
            quarry.write(self.path, self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual(raised.exception.code, "FAILED_PRECONDITION")
        (self.path / "notes.txt").unlink()
        self.check_old()
        folder = self.tmp / "results"
        folder.mkdir()
        with self.assertRaisesRegex(quarry.Error, "has no dataset.json, so it is not a dataset"):
            quarry.write(folder, self.new, field="b", lossless=True, mode="overwrite")
        self.assertTrue(folder.is_dir())

    def test_of_a_link_what_it_leads_to_is_replaced(self):
        link = self.tmp / "latest.quarry"
        link.symlink_to("run.quarry")
        quarry.write(link, self.new, field="b", lossless=True, mode="overwrite")
        self.assertTrue(link.is_symlink())
        self.assertEqual(list(self.held()), ["b"])

    def test_the_home_folder(self):
        with unittest.mock.patch.dict(os.environ, {"HOME": str(self.tmp)}):
            quarry.write("~/run.quarry", self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual(list(self.held()), ["b"])


class WhatItIs(Package):
    def test_sizes_are_those_of_the_arrays(self):
        for dataset in self.targets():
            for name, decoded in self.decoded.items():
                self.assertEqual((dataset[name].nbytes, dataset[name].size), (decoded.nbytes, decoded.size))
            self.assertEqual(dataset.nbytes, sum(decoded.nbytes for decoded in self.decoded.values()))

    def test_texts_for_people(self):
        for dataset in self.targets():
            text = dataset.info()
            self.assertEqual(repr(text), str(text))
            lines = {line.split("  ")[0]: line for line in text.splitlines()}
            self.assertRegex(lines["samples"], "23 x 34 x 45")
            self.assertRegex(lines["steps"], "3, 3 to 9")
            self.assertRegex(lines["k"], "int16 .*3 steps .*lossless .*times smaller")
            self.assertRegex(lines["p"], "float32 .*± 0.001")
            text = dataset["k"].info()
            originals = np.stack([qt.integers(SHAPE[::-1], "<i2", name=f"k{step}").reshape(SHAPE) for step in STEPS])
            originals[:, :4, :, 3] = -999
            valid = originals[originals != -999]
            for line in (f"range +{valid.min()} to {valid.max()}$", "fill value +-999", "missing +in 3 steps",
                         "shape +3 x 23 x 34 x 45", "chunks +1 x 16 x 16 x 16", f"as array +{originals.nbytes / 1e6:.1f} MB"):
                self.assertRegex(text, f"(?m)^{line}")

    def test_all_that_is_printed_says_what_it_is(self):
        for dataset in self.targets():
            field, step = dataset["p"], next(dataset.watch())
            stats, plan = field.stats(step=5, bins=20, percentiles=[5]), field.plan(step=5, level=1)
            of_step = step.fields[0]
            for one, text in ((stats, rf"Statistics\(step=5, level=0, valid={np.prod(SHAPE)}, missing=0, min=Bounded\(value="),
                              (stats.histogram, r"Histogram\(begin=.*, counts=\[\d+, \d+, \d+, \.\.\., \d+\], below="),
                              (plan, r"Plan\(field='p', step=5, layer=0, levels=\[1\], price=Price\(patches=18, bytes="),
                              (plan.levels[0], r"PlannedLevel\(level=1, layer=0, extent=\(\(0, 12\), "),
                              (step, r"Step\(step=3, time=None, fields=\['p', 'm', 'k'\]\)"),
                              (of_step, r"FieldStep\(name='p', source='p.raw', tolerance=0.001, min="),
                              (of_step.levels[0], r"LevelRecord\(max_error="), (dataset.native, r"Dataset\(grids=\[\(23, 34, 45\)\], "), (dataset.grid, r"FieldGrid\(shape=\(23, 34, 45\), "),
                              (dataset.native.fields[2], r"FieldDescription\(name='k', dtype='int16'"),
                              (quarry.list(self.data)[0], rf"DatasetSummary\(name='run', shape=\({SHAPE[0]}, ")):
                self.assertRegex(repr(one), f"^{text}")
                self.assertNotIn(" object at ", repr(one))

    def test_the_home_folder(self):
        with unittest.mock.patch.dict(os.environ, {"HOME": str(self.data)}):
            with quarry.open("~/run.quarry") as dataset:
                self.assertEqual(dataset.steps, list(STEPS))
                self.assertEqual(dataset.target, str(self.path))
            self.assertEqual([one.name for one in quarry.list("~")], ["run"])

    def test_xarray_hands_on_memory_and_threads(self):
        from quarry._xarray import QuarryBackendEntrypoint as Engine
        for call in (lambda **options: xr.open_dataset(self.path, engine=Engine, **options),
                     lambda **options: xr.open_datatree(self.path, engine=Engine, **options)):
            with unittest.mock.patch.object(quarry._dataset, "open", wraps=quarry._dataset.open) as opened:
                call(memory=64 << 20, threads=3).close()
            self.assertEqual((opened.call_args.kwargs["memory"], opened.call_args.kwargs["threads"]), (64 << 20, 3))
            with self.assertRaisesRegex(ValueError, "memory=-1"):
                call(memory=-1)
        self.assertLessEqual({"memory", "threads", "decode_times"}, set(Engine.open_dataset_parameters))

    def test_fields_pickle_with_the_options_of_their_dataset(self):
        with quarry.open(self.path, threads=2, memory=64 << 20) as dataset:
            again = pickle.loads(pickle.dumps(dataset["k"]))
            self.assertEqual(again.dataset._options, dataset._options)
            np.testing.assert_array_equal(np.ma.filled(again[1, [3, 4]], -999), self.decoded["k"][1, [3, 4]])


if __name__ == "__main__":
    qt.main()
