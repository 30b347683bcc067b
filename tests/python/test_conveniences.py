"""What users of h5py, zarr and xarray expect: lists and masks as indices, several steps at once, sizes, texts, boxes by
position. The oracle is numpy, and xarray where it has the same, on the decoded arrays."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import unittest.mock

import xarray as xr

from python_testing import PACKAGE, SHAPE, STEPS, Package, np, qt, quarry

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
    """What numpy.ix_ selects; integers drop their axis."""
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
        """What it has written goes with the next one."""
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
        with self.assertRaisesRegex(quarry.Error, "holds \"notes.txt\", which is no part of a dataset") as raised:
            quarry.write(self.path, self.new, field="b", lossless=True, mode="overwrite")
        self.assertEqual(raised.exception.code, "FAILED_PRECONDITION")
        (self.path / "notes.txt").unlink()
        self.check_old()
        folder = self.tmp / "results"
        folder.mkdir()
        with self.assertRaisesRegex(quarry.Error, "is no dataset, as it has no dataset.json"):
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
