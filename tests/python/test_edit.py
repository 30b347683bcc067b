"""Datasets that exist are changed: attributes are set and deleted, steps and fields are removed. What is right, the samples that were
written say, and xarray."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import warnings

from python_testing import PACKAGE, np, qt, quarry

import xarray  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

SHAPE = (3, 20, 30)


def samples(seed, steps=4):
    return np.random.default_rng(seed).normal(size=(steps, *SHAPE)).astype("f4")


class Edits(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path = self.tmp / "run.quarry"

    def write(self, data, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quarry.write(self.path, data, lossless=True, **options)

    def sound(self, *fields):
        """Checks it with a reader and the verification."""
        qt.succeed("quarry", "verify", self.path)
        with quarry.open(self.path) as dataset:
            self.assertEqual(list(dataset), list(fields))
            return {name: (field.steps, field[:]) for name, field in dataset.items()}


class Attributes(Edits):
    def setUp(self):
        super().setUp()
        lat, lon = np.linspace(-10, 10, 20), np.linspace(0, 29, 30)
        self.data = xarray.Dataset(
            {"t": (("time", "depth", "lat", "lon"), samples(1), {"units": "K", "standard_name": "air_temperature"}),
             "ssh": (("time", "lat", "lon"), samples(2)[:, 0], {"long_name": "height"})},
            {"time": ("time", np.arange(4.0), {"units": "days since 2001-01-01"}), "depth": ("depth", [5.0, 15, 40]),
             "lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})},
            {"title": "first", "history": "made"})
        self.write(self.data)

    def reread(self):
        with xarray.open_dataset(self.path, engine=QuarryBackendEntrypoint) as opened:
            return opened.load()

    def test_those_of_a_dataset(self):
        values = {"title": "Größe", "count": 5, "levels": np.array([1.5, 2.5], "f4"), "names": ["a", "b"], "whole": {"a": [1, None]}}
        with quarry.open(self.path) as dataset:
            dataset.attrs.update(values)
            del dataset.attrs["history"]
            self.assertEqual(list(dataset.attrs), list(values))
            self.assertEqual(dataset.attrs["levels"].dtype, np.float32)
        got = self.reread()
        self.assertNotIn("history", got.attrs)
        xarray.testing.assert_identical(got.drop_attrs(deep=False), self.data.drop_attrs(deep=False).pipe(xarray.decode_cf))
        for name, value in values.items():
            np.testing.assert_equal(got.attrs[name], value)

    def test_those_of_fields_and_their_units(self):
        with quarry.open(self.path) as dataset:
            field = dataset["t"]
            field.attrs["units"] = "degC"
            field.attrs["standard_name"] = "sea_water_temperature"
            self.assertEqual((field.attrs["units"], dataset["t"].units, field.attrs["lossless"]), ("degC", "degC", True))
            self.assertEqual(dict(dataset["ssh"].attrs)["long_name"], "height")
        got = self.reread()
        self.assertEqual(got.t.attrs, {"units": "degC", "standard_name": "sea_water_temperature"})
        np.testing.assert_array_equal(got.t, self.data.t)
        self.sound("t", "ssh")

    def test_those_of_an_axis_are_those_of_all_fields_along_it(self):
        with quarry.open(self.path) as dataset:
            dataset["ssh"].axis_attrs["lat"]["axis"] = "Y"
            dataset["t"].axis_attrs["lat"]["units"] = "degree_north"
            self.assertEqual(dataset["ssh"].axis_units["lat"], "degree_north")
            self.assertEqual(dict(dataset["t"].axis_attrs["lat"]), {"axis": "Y"})
        self.assertEqual(self.reread().lat.attrs, {"units": "degree_north", "axis": "Y"})

    def test_what_cannot_be_set(self):
        before = (self.path / "dataset.json").read_bytes()
        with quarry.open(self.path) as dataset:
            for attrs, name, value, error, words in (
                    (dataset.attrs, "x", object(), TypeError, "values of x cannot be kept"),
                    (dataset.attrs, "_FillValue", 5, quarry.Error, "_FillValue.*not an attribute here"),
                    (dataset["t"].attrs, "coder", "none", TypeError, "coder of t cannot be set"),
                    (dataset["t"].attrs, "units", 5, quarry.Error, "units must be a text"),
                    (dataset["t"].attrs, "scale_factor", 2.0, quarry.Error, "scale_factor"),
                    (dataset.attrs, "", "no name", TypeError, "cannot be kept"),
                    (dataset.attrs, "long", "a" * (2 << 20), quarry.Error, "with 1048576 bytes")):
                with self.subTest(name), self.assertRaisesRegex(error, words):
                    attrs[name] = value
            for name in ("absent", "coder"):
                with self.subTest(name), self.assertRaises((KeyError, TypeError)):
                    del dataset["ssh"].attrs[name]
            with self.assertRaises(TypeError):
                dataset.attrs.clear()
        self.assertEqual((self.path / "dataset.json").read_bytes(), before)

    def test_they_are_a_dict_for_others(self):
        with quarry.open(self.path) as dataset:
            self.assertEqual(json.loads(json.dumps(dataset.attrs)), {"title": "first", "history": "made"})
            self.assertEqual(pickle.loads(pickle.dumps(dataset.attrs)), {"title": "first", "history": "made"})
            self.assertEqual(dataset.attrs.pop("history"), "made")
            self.assertEqual(dataset.attrs.setdefault("title", "second"), "first")
            attrs = dataset.attrs
            attrs |= {"more": 1}
            self.assertEqual((dict(attrs), dict(dataset.attrs)), ({"title": "first", "more": 1},) * 2)

    def test_the_working_directory_may_change(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.tmp)
        with quarry.open("run.quarry") as dataset:
            os.chdir("/")
            dataset.attrs["title"] = "second"
        self.assertEqual(self.reread().attrs["title"], "second")

    def test_a_server_changes_nothing_and_sees_what_is_changed(self):
        with qt.Server(self.tmp) as server, quarry.open(f"grpc://{server.address}/run") as served:
            with self.assertRaisesRegex(quarry.Error, "read from a server"):
                served.attrs["title"] = "second"
            with quarry.open(self.path) as dataset:
                dataset.attrs["title"] = "second"
            with quarry.open(f"grpc://{server.address}/run") as again:
                self.assertEqual(again.attrs["title"], "second")


class Removals(Edits):
    def setUp(self):
        super().setUp()
        self.values = {name: samples(seed) for seed, name in enumerate(("a", "b", "c"))}
        self.values["b"][:, 0, :5] = np.nan
        self.values["c"][2:, 1, 5:9] = np.nan
        self.write(self.values)

    def assert_holds(self, fields, steps):
        found = self.sound(*fields)
        for name in fields:
            self.assertEqual(found[name][0], steps)
            np.testing.assert_array_equal(found[name][1], self.values[name][steps])

    def test_steps(self):
        removed = quarry.delete(self.path, steps=[1, 3])
        self.assertEqual(removed.steps, [1, 3])
        self.assertGreater(removed.bytes, 0)
        self.assert_holds(("a", "b", "c"), [0, 2])
        self.assertEqual(sorted(os.listdir(self.path / "steps")), [".partial-catalogue-is-current", "000000", "000002"])

    def test_fields_leave_the_others_as_they_are(self):
        for name, left in (("a", ("b", "c")), ("c", ("b",))):
            self.assertEqual(quarry.delete(self.path, fields=name).steps, [])
            self.assert_holds(left, [0, 1, 2, 3])
        quarry.write(self.path, {"d": self.values["a"]}, lossless=True, mode="append", step=0)
        self.values["d"] = self.values["a"]
        self.assert_holds(("b", "d"), [0, 1, 2, 3])

    def test_a_field_of_the_same_name_is_a_new_one(self):
        quarry.delete(self.path, fields="a")
        quarry.write(self.path, {"a": self.values["b"].astype("f8")}, lossless=True, mode="append", step=0)
        found = self.sound("b", "c", "a")
        np.testing.assert_array_equal(found["a"][1], self.values["b"].astype("f8"))

    def test_masks_stay_while_a_step_needs_them(self):
        masks = set(os.listdir(self.path / "masks"))
        self.assertEqual(len(masks), 2)
        quarry.delete(self.path, fields="c")
        kept = set(os.listdir(self.path / "masks"))
        self.assertEqual((len(kept), kept <= masks), (1, True))
        quarry.delete(self.path, fields="b")
        self.assertFalse((self.path / "masks").exists())
        self.assert_holds(("a",), [0, 1, 2, 3])

    def test_bytes_are_those_that_the_disk_gets_back(self):
        def size():
            return sum(file.stat().st_size for file in self.path.rglob("*.qsf"))
        before = size()
        said = quarry.delete(self.path, steps=2, fields=["c"]).bytes
        self.assertEqual(said, before - size())

    def test_an_index_finds_what_is_left(self):
        qt.succeed("quarry-index", self.path)
        quarry.delete(self.path, steps=0, fields="a")
        self.assert_holds(("b", "c"), [1, 2, 3])
        qt.succeed("quarry-index", self.path)
        self.assert_holds(("b", "c"), [1, 2, 3])
        with qt.Server(self.tmp) as server, quarry.open(f"grpc://{server.address}/run") as served:
            np.testing.assert_array_equal(served["b"][:], self.values["b"][1:])

    def test_what_is_needed_stays(self):
        slow = np.stack([samples(9)[0] + 0.01 * step for step in range(4)])
        quarry.write(self.tmp / "keys.quarry", slow, field="k", tolerance=1e-3, keyframe=4)
        still = xarray.Dataset({"t": (("time", "y", "x"), samples(3)[:, 0]), "area": (("y", "x"), samples(4)[0, 0])},
                               {"time": np.arange(4)})
        quarry.write(self.tmp / "still.quarry", still, lossless=True)
        quarry.write(self.tmp / "complex.quarry", {"psi": samples(5) * (1 + 2j), "a": samples(6)}, lossless=True)
        for name, what, words in (
                ("keys", {"steps": 0}, 'field "k" of step 1 refers to step 0'),
                ("still", {"steps": 0}, 'step 0 has the field "area", which stands for all steps'),
                ("complex", {"fields": "psi.real"}, 'a part of complex "psi", as is "psi.imag"; remove both'),
                ("run", {"fields": ["a", "b", "c"]}, "no field .* would remain"),
                ("run", {"steps": 7}, "step 7 is not in"), ("run", {"fields": "z"}, 'field "z" is not in'),
                ("none", {"steps": 0}, "there is no dataset")):
            path = self.tmp / f"{name}.quarry"
            before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
            with self.subTest(name, **what), self.assertRaisesRegex(quarry.Error, words):
                quarry.delete(path, **what)
            self.assertEqual({file: file.read_bytes() for file in path.rglob("*") if file.is_file()}, before)
        with self.assertRaisesRegex(ValueError, "nothing is to be deleted"):
            quarry.delete(self.path)
        for steps in ("12", b"1", [1.7], 0.5):
            with self.subTest(steps=steps), self.assertRaises(TypeError):
                quarry.delete(self.path, steps=steps)
        self.assertEqual(quarry.delete(self.tmp / "keys.quarry", steps=[3]).steps, [3])
        self.assertEqual(quarry.delete(self.tmp / "still.quarry", steps=[0], fields="area").steps, [0])
        quarry.delete(self.tmp / "complex.quarry", fields=["psi.real", "psi.imag"])
        for name in ("keys", "still", "complex"):
            qt.succeed("quarry", "verify", self.tmp / f"{name}.quarry")

    def test_what_a_crash_has_hidden_is_no_unknown_step(self):
        for number in (1, 2):
            (self.path / f"steps/00000{number}").rename(self.path / f"steps/.partial-removed-{number}")
        self.assertEqual(quarry.delete(self.path, steps=[np.int64(1)], fields="b").steps, [1])
        self.assert_holds(("a", "c"), [0, 3])

    def test_steps_without_a_field_go(self):
        quarry.write(self.path, {"d": samples(7, 1)}, lossless=True, mode="append", step=9)
        self.assertEqual(quarry.delete(self.path, fields="d").steps, [9])
        self.assert_holds(("a", "b", "c"), [0, 1, 2, 3])

    def test_another_writer_is_waited_for_and_named(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import numpy as np, quarry\n"
                "class Slow:\n"
                "    shape, dtype = (1, 3, 20, 30), np.dtype('f4')\n"
                "    def __getitem__(self, key):\n"
                "        print('writes', flush=True); sys.stdin.read(); return np.zeros(self.shape, 'f4')[key]\n"
                "quarry.write(sys.argv[2], {'a': Slow()}, mode='append')")
        with subprocess.Popen([sys.executable, "-c", code, str(PACKAGE), str(self.path)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as writer:
            self.assertEqual(writer.stdout.readline(), "writes\n")
            with self.assertRaises(quarry.Error) as raised:
                quarry.delete(self.path, steps=0)
            self.assertEqual(raised.exception.code, "UNAVAILABLE")
            writer.stdin.close()
            self.assertEqual(writer.wait(), 0)
        self.assertEqual(quarry.delete(self.path, steps=4).steps, [4])

    def crash(self, path, call, number):
        """Whether the n-th call of a kind was there, and ended the process that removes."""
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import quarry\n"
                "quarry.delete(sys.argv[2], steps=[1], fields=['a', 'b'])")
        fail = {"LD_PRELOAD": str(qt.BIN.parent / "lib" / "libfail_call.so"), "QUARRY_FAIL_CALL": call, "QUARRY_FAIL_AT": str(number),
                "QUARRY_FAIL_ERRNO": str(-signal.SIGKILL), "QUARRY_FAIL_BELOW": str(path)}
        ended = subprocess.run([sys.executable, "-c", code, str(PACKAGE), str(path)], env={**os.environ, **fail}, check=False)
        self.assertIn(ended.returncode, (0, -signal.SIGKILL))
        return ended.returncode != 0

    def complete(self, path):
        """Completes an interrupted operation, found by the names of its files."""
        with quarry.open(path) as dataset:
            steps = [1] if 1 in dataset.steps else []
            fields = [name for name in ("a", "b") if name in dataset]
        if steps or fields:
            quarry.delete(path, steps=steps, fields=fields)

    def test_a_crash_at_any_moment_leaves_a_dataset(self):
        """Each rename and each sync may be the last thing that happens; another call then completes it."""
        whole = self.path
        for call in ("rename", "sync"):
            for number in range(1, 200):
                self.path = self.tmp / f"{call}{number}.quarry"
                shutil.copytree(whole, self.path)
                crashed = self.crash(self.path, call, number)
                qt.succeed("quarry", "verify", self.path)
                with self.subTest(call, number=number), quarry.open(self.path) as dataset:
                    for name, field in dataset.items():
                        np.testing.assert_array_equal(field[:], self.values[name][field.steps])
                self.complete(self.path)
                self.assert_holds(("c",), [0, 2, 3])
                shutil.rmtree(self.path)
                if not crashed:
                    break
            self.assertGreater(number, 4, call)


if __name__ == "__main__":
    qt.main()
