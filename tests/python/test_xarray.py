"""The engine "quarry" of xarray: what it selects is what xarray selects from the decoded arrays, and nothing else is read."""

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import pickle
import re
import signal
import subprocess
import sys
import unittest
import unittest.mock
import warnings

from python_testing import PACKAGE, SHAPE, STEPS, Package, as_installed, np, qt, quarry

import xarray as xr
from quarry import _level_array
from quarry._xarray import QuarryBackendEntrypoint

ENGINE = {"engine": QuarryBackendEntrypoint}
MANUAL = qt.REPOSITORY / "docs" / "operations.md"
TOKEN = "0123456789abcdef"


def write(output, array, field="f", *options, step=0, units=""):
    """A dataset of one array, or one more field or step of it."""
    raw = qt.SCRATCH / f"{field}.raw"
    array.tofile(raw)
    append = ["--append"] if output.exists() else []
    given = [*options, *(["--units", units] if units else [])]
    if append and qt.info(output)["fields"] and field in [known["name"] for known in qt.info(output)["fields"]]:
        given = []
    qt.succeed("quarry-write-single", raw, "--dims", "x".join(map(str, array.shape[::-1])), "--type", array.dtype.name,
               "--field", field, "--step", step, "--output", output, *given, *append)


def decoded(path, field, step, level=0):
    """By the command."""
    output = qt.SCRATCH / "decoded.npy"
    qt.succeed("quarry", "get", path, "--field", field, "--step", step, "--level", level, "--output", output)
    return np.load(output)


@contextlib.contextmanager
def counted_reads():
    """The questions that arrays ask, each with what a plan of it says."""
    questions = []
    made = _level_array._quarry.Question

    class Counting:
        def __getattr__(self, name):
            return getattr(sys.modules["quarry._quarry"], name)

        def Question(self, *arguments, **named):  # noqa: N802
            questions.append((arguments[0], named))
            return made(*arguments, **named)

    original, _level_array._quarry = _level_array._quarry, Counting()
    try:
        yield questions
    finally:
        _level_array._quarry = original


def random_indexer(generator, length):
    """An indexer of xarray's isel along one dimension: integer, slice, list of integers, booleans."""
    kind = generator.choice(["integer", "slice", "slice", "list", "sorted", "mask"])
    if kind == "integer":
        return int(generator.integers(-length, length))
    if kind == "slice":
        # xarray itself miscounts slices that go backwards from before the first position.
        bounds = [None if generator.random() < 0.25 else int(generator.integers(-length, length + 4)) for _ in range(2)]
        return slice(*bounds, None if generator.random() < 0.5 else int(generator.choice([1, 2, 3, 7, 17, -1, -2, -5])))
    if kind == "mask":
        return generator.random(length) < 0.2
    picked = generator.integers(-length, length, int(generator.integers(0, 6)))
    return np.sort(picked % length) if kind == "sorted" else picked


class Contents(Package):
    """Over a dataset with three fields, of which one is of integers with a fill value."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.memory = cls.in_memory(0)

    @classmethod
    def in_memory(cls, level, mask=True):
        spacing = 2**level
        arrays = {}
        for name in ("p", "m", "k"):
            array = np.stack([decoded(cls.path, name, step, level) for step in STEPS])
            if name == "k" and mask:
                array = np.where(array == -999, np.nan, array).astype("f4")
            arrays[name] = (("step", "z", "y", "x"), array)
        return xr.Dataset(arrays, {"step": np.array(STEPS), **{axis: np.arange(0, length, spacing, dtype="f8")
                                                             for axis, length in zip("zyx", SHAPE, strict=True)}})

    def opened(self, **options):
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target=target), xr.open_dataset(target, **ENGINE, **options) as dataset:
                yield dataset

    def test_everything_is_what_the_command_decodes(self):
        for dataset in self.opened():
            xr.testing.assert_equal(dataset.load(), self.memory)
            self.assertEqual({name: variable.dtype for name, variable in dataset.items()},
                             {"p": "f4", "m": "f4", "k": "f4"})
        for level in range(1, 5):
            for dataset in self.opened(level=level):
                xr.testing.assert_equal(dataset.load(), self.in_memory(level))

    def test_attributes(self):
        for dataset in self.opened(level=2):
            attrs = dataset["p"].attrs
            manifests = [qt.step_manifest(self.path, step)["fields"] for step in STEPS]
            errors = [field["levels"][2]["max_error"] for fields in manifests for field in fields if field["name"] == "p"]
            self.assertEqual(len(errors), 3)
            self.assertEqual(attrs, {"level": 2, "max_error": max(errors)})
            self.assertLess(dataset["m"].attrs["coverage"], 1)
            self.assertEqual((dataset["z"].attrs, dataset["step"].attrs, dataset.attrs), ({}, {}, {"level": 2}))
            encoding = dataset["p"].encoding
            self.assertEqual({name: encoding[name] for name in ("coder", "tolerance", "lossless")},
                             {"coder": "interpolate", "tolerance": 1e-3, "lossless": False})
            self.assertTrue(dataset["k"].encoding["lossless"])
            self.assertEqual((dataset["k"].encoding["_FillValue"], dataset["k"].encoding["dtype"]), (-999, np.dtype("i2")))
            self.assertIn("quarry-write", dataset.encoding["created_by"])
        for dataset in self.opened():
            self.assertEqual((dataset.attrs, dataset["k"].attrs), ({}, {}))
            self.assertEqual(set(dataset["p"].attrs), {"max_error"})

    def test_any_indexer_selects_what_xarray_selects_in_memory(self):
        generator = qt.random_numbers("isel")
        for dataset in self.opened(cache=False):
            for _ in range(qt.scaled(100, 5000)):
                dims = [dim for dim in ("step", "z", "y", "x") if generator.random() < 0.7]
                indexers = {dim: random_indexer(generator, dataset.sizes[dim]) for dim in dims}
                name = str(generator.choice(["p", "m", "k"]))
                with self.subTest(field=name, indexers=indexers):
                    got, wanted = dataset[name].isel(indexers), self.memory[name].isel(indexers)
                    xr.testing.assert_equal(got.compute(), wanted)

    def test_points_beside_each_other(self):
        """Vectorized indexing: a path through the grid, and a path with everything along other axes."""
        generator = qt.random_numbers("vectorized")
        for dataset in self.opened(cache=False):
            for _ in range(qt.scaled(40, 1000)):
                shape = [(5,), (2, 3), (1,), (0,)][generator.integers(4)]
                dims = list(generator.permutation(["step", "z", "y", "x"])[:generator.integers(1, 5)])
                indexers = {dim: xr.DataArray(generator.integers(-dataset.sizes[dim], dataset.sizes[dim], shape),
                                              dims=["a", "b"][:len(shape)]) for dim in dims}
                for dim in {"step", "z", "y", "x"} - set(dims):
                    if generator.random() < 0.5:
                        indexers[dim] = slice(None, None, int(generator.choice([2, -1, -3])))
                name = str(generator.choice(["p", "m", "k"]))
                with self.subTest(field=name, indexers=indexers):
                    xr.testing.assert_equal(dataset[name].isel(indexers).compute(), self.memory[name].isel(indexers))

    def test_points_along_slices(self):
        """As the protocol of backends has them; xarray itself makes arrays of the slices first."""
        from xarray.core import indexing
        with xr.open_dataset(self.path, **ENGINE) as dataset:
            array = dataset["p"].variable._data.array.array.array
        with quarry.open(self.path) as opened:
            array = dataclasses.replace(array, dataset=opened)
            memory = indexing.NumpyIndexingAdapter(self.decoded["p"])
            at = np.array([[3, 0, 22], [-1, 5, 5]])
            for key in ((slice(None, None, -1), at, at, slice(40, 2, -7)), (at % 3, slice(2, 9), at, slice(None)),
                        (slice(None), slice(None), at, slice(0, 0))):
                indexer = indexing.VectorizedIndexer(key)
                np.testing.assert_array_equal(array[indexer], memory.vindex[indexer])

    def test_selection_by_coordinate(self):
        for dataset in self.opened():
            for select in (lambda ds: ds.sel(step=5, z=slice(3, 9.5), y=12), lambda ds: ds.sel(x=[3.2, 40], method="nearest"),
                           lambda ds: ds.p.sel(step=[9, 3], z=4).where(ds.p.z > 2), lambda ds: ds.m.mean("step"),
                           lambda ds: ds.sel(x=xr.DataArray([3, 40], dims="at"), y=xr.DataArray([1, 30], dims="at"))):
                xr.testing.assert_equal(select(dataset).compute(), select(self.memory))
            with self.assertRaises(KeyError):
                dataset.sel(step=4)

    def test_stored_integers(self):
        raw = self.in_memory(0, mask=False)
        for dataset in self.opened(mask_and_scale=False):
            self.assertEqual((dataset["k"].dtype, dataset["k"].attrs["_FillValue"]), (np.dtype("i2"), -999))
            np.testing.assert_array_equal(dataset["k"], raw["k"])

    def test_missing_floats(self):
        """Infinite samples, and those with the fill value, are missing; as stored, they are what they are."""
        array = qt.turbulent((9, 8, 7)).reshape(7, 8, 9)
        array[1, 2, 3], array[4, 5, 6], array[6, 7, 8] = np.inf, -999, np.nan
        path = self.tmp / "missing.quarry"
        write(path, array, "f", "--lossless", "--fill", "-999")
        with xr.open_dataset(path, **ENGINE) as dataset:
            np.testing.assert_array_equal(dataset["f"][0], np.where(np.isfinite(array) & (array != -999), array, np.nan))
            self.assertEqual(dataset["f"].encoding["_FillValue"], -999)
        with xr.open_dataset(path, **ENGINE, mask_and_scale=False) as dataset:
            np.testing.assert_array_equal(dataset["f"][0], array)
            self.assertEqual(dataset["f"].attrs["_FillValue"], -999)

    def test_written_as_netcdf(self):
        """With the type and fill value of the dataset, and readable without Quarry."""
        with xr.open_dataset(self.path, **ENGINE) as dataset:
            dataset.isel(z=slice(0, 6)).to_netcdf(self.tmp / "out.nc")
        with xr.open_dataset(self.tmp / "out.nc", engine="netcdf4", mask_and_scale=False) as raw:
            self.assertEqual((raw["k"].dtype, raw["k"].attrs["_FillValue"]), (np.dtype("i2"), -999))
            np.testing.assert_array_equal(raw["k"], self.in_memory(0, mask=False)["k"][:, :6])
        with xr.open_dataset(self.tmp / "out.nc", engine="netcdf4") as again:
            xr.testing.assert_equal(again.load(), self.memory.isel(z=slice(0, 6)))

    def test_chosen_steps_and_fields(self):
        for dataset in self.opened(steps=[9, 3], drop_variables=["m"]):
            xr.testing.assert_equal(dataset.load(), self.memory[["p", "k"]].sel(step=[3, 9]))
        with self.assertRaisesRegex(quarry.Error, "has no step 4; it has 3 steps from 3 to 9") as raised:
            xr.open_dataset(self.path, **ENGINE, steps=[3, 4])
        self.assertEqual(raised.exception.code, "NOT_FOUND")

    def test_a_level_by_its_error(self):
        """The level on which the plans of every step agree, and not coarser."""
        with quarry.open(self.path) as dataset:
            for step in STEPS:
                for allowed in [level.max_error for level in dataset["p"].plan(step=step, first_level=4).levels]:
                    wanted = dataset["p"].plan(step=step, max_error=allowed).levels[-1]
                    with xr.open_dataset(self.path, **ENGINE, max_error={"p": allowed}, steps=[step]) as opened:
                        self.assertEqual((opened.attrs.get("level", 0), opened["p"].attrs["max_error"]),
                                         (wanted.level, wanted.max_error))
                    allowed = max(allowed, 1e-3)  # the tolerance: all steps keep it
                    with xr.open_dataset(self.path, **ENGINE, max_error=allowed, drop_variables=["m", "k"]) as opened:
                        self.assertTrue(all(dataset["p"].plan(step=number, level=opened.attrs.get("level", 0)).levels[-1].max_error
                                            <= allowed for number in STEPS))
                with xr.open_dataset(self.path, **ENGINE, max_error=1e9) as opened:
                    self.assertEqual(opened.attrs["level"], 4)
        # No coarse level has a sample from which the only valid one could be shown.
        lonely = np.full((8, 8, 8), np.nan, "f4")
        lonely[3, 3, 3] = 1
        path = self.tmp / "lonely.quarry"
        write(path, lonely, "f", "--tolerance", "1e-3")
        with xr.open_dataset(path, **ENGINE, max_error=1e9) as opened:
            self.assertEqual((opened.attrs, float(opened["f"][0, 3, 3, 3])), ({}, 1))
        for options, error, text in ((dict(max_error=1e-9), quarry.Error, "no level .* keeps an error of 1e-09"),
                                     (dict(max_error=-1), quarry.Error, "not a number from 0 on"),
                                     (dict(max_error={"q": 1}), ValueError, "names q; there are p, m, k"),
                                     (dict(max_error=1, level=0), ValueError, "only one of"),
                                     (dict(level=5), ValueError, "no level 5; .* to 4"),
                                     (dict(level=-1), ValueError, "no level -1")):
            with self.subTest(**options), self.assertRaisesRegex(error, text):
                xr.open_dataset(self.path, **ENGINE, **options)

    def test_a_group_for_each_level(self):
        for target in (str(self.path), self.server.target(self.path)):
            with xr.open_datatree(target, **ENGINE) as tree:
                self.assertEqual(list(tree.children), ["0", "1", "2", "3", "4"])
                for level in (0, 2, 4):
                    xr.testing.assert_equal(tree[f"/{level}"].to_dataset().load(), self.in_memory(level))
                lazy = tree["/1/p"]
            with self.assertRaisesRegex(quarry.Error, "is closed"):
                lazy.load()
        groups = xr.open_groups(self.path, **ENGINE)
        self.assertEqual(list(groups), ["/", "/0", "/1", "/2", "/3", "/4"])

    def test_arrays_of_the_package(self):
        with quarry.open(self.path) as dataset:
            xr.testing.assert_equal(dataset["p"].to_xarray().load(), self.memory["p"])
            self.assertEqual(dataset["k"].to_xarray(level=2, steps=[5]).shape, (1, 6, 9, 12))
            samples = dataset["m"].read(step=5, level=1, box=((2, 9), (1, 8), (0, 45)))
            array = samples.to_xarray()
            self.assertTrue(np.shares_memory(array.values, samples.array))
            xr.testing.assert_equal(array, self.in_memory(1)["m"].sel(step=5, z=slice(2, 8), y=slice(1, 7)))
            masked = dataset["k"].read(step=5, masked=True).to_xarray()
            xr.testing.assert_equal(masked, self.memory["k"].sel(step=5))

    def test_async(self):
        with xr.open_dataset(self.path, **ENGINE) as dataset:
            xr.testing.assert_equal(asyncio.run(dataset.load_async()), self.memory)


class Laziness(Package):
    def test_only_what_is_selected_is_read(self):
        with xr.open_dataset(self.path, **ENGINE, cache=False) as dataset, quarry.open(self.path) as plain, \
                counted_reads() as asked:
            def patches(select):
                """That are read for a selection."""
                asked.clear()
                select(dataset["p"]).compute()
                return sum(plain["p"].plan(step=question["step"], box=question["box"], level=question["level"]).price.patches
                           for _, question in asked)

            repr(dataset), dataset.sizes, dataset["p"].isel(x=3).sel(z=slice(2, 4)).T
            self.assertEqual(asked, [])
            # The grid is 2 x 3 x 3 patches of 16 x 16 x 16, and there are 3 steps.
            for select, wanted in ((lambda p: p, 3 * 18), (lambda p: p.sel(step=5), 18), (lambda p: p.sel(step=5, z=20), 9),
                                   (lambda p: p.sel(step=5, z=20, y=3, x=40), 1), (lambda p: p.sel(x=slice(0, 15)), 3 * 6),
                                   (lambda p: p.isel(step=[0, 2], z=slice(0, 0)), 0),
                                   # Samples between two positions are not read, except in whole patches.
                                   (lambda p: p.isel(step=0, x=[0, 44], y=[33, 0]), 2 * 4),
                                   (lambda p: p.isel(step=0, x=slice(None, None, 40), y=0, z=0), 2),
                                   (lambda p: p.isel(step=0, z=0, x=xr.DataArray([0, 20, 44, 1], dims="a"),
                                                     y=xr.DataArray([0, 20, 33, 2], dims="a")), 3)):
                self.assertEqual(patches(select), wanted)
            self.assertEqual(asked[-1][1]["level"], 0)

    def test_missing_steps_are_not_read(self):
        path = self.tmp / "partly.quarry"
        a, k = qt.turbulent((9, 8, 7)).reshape(7, 8, 9), qt.integers((9, 8, 7), "<i4").reshape(7, 8, 9)
        write(path, a, "a", "--lossless", step=0)
        write(path, k, "k", "--lossless", step=1)
        write(path, a + 1, "a", step=2)
        with xr.open_dataset(path, **ENGINE) as dataset, counted_reads() as asked:
            self.assertEqual((dataset["a"].shape, dataset["k"].dtype), ((3, 7, 8, 9), np.dtype("f8")))
            self.assertIn("1 of 3 steps", dataset["a"].attrs["comment"])
            np.testing.assert_array_equal(dataset["a"], np.stack([a, np.full_like(a, np.nan), a + 1]))
            np.testing.assert_array_equal(dataset["k"], np.stack([np.full(k.shape, np.nan), k, np.full(k.shape, np.nan)]))
            self.assertEqual(len(asked), 3)
        with self.assertRaisesRegex(ValueError, r"'k' is not in the steps \[0, 2\], and has no fill value"):
            xr.open_dataset(path, **ENGINE, mask_and_scale=False)
        with xr.open_dataset(path, **ENGINE, mask_and_scale=False, steps=[1]) as dataset:
            self.assertEqual((list(dataset), dataset["k"].dtype), (["k"], np.dtype("i4")))
            np.testing.assert_array_equal(dataset["k"][0], k)

    def test_axes_and_names(self):
        """A line, a plane, and fields that are called like axes."""
        path = self.tmp / "names.quarry"
        for number, name in enumerate(("x", "time", "step", "q")):
            write(path, np.full((1, 1, 30), number, "f4"), name, "--lossless", *([] if number else [
                "--origin", "5,0,0", "--spacing", "0.5,1,1", "--time", "2.5"]), units="Pa")
        with xr.open_dataset(path, **ENGINE, level=1) as dataset:
            self.assertEqual(dataset["q"].dims, ("step_axis", "z", "y", "x_axis"))
            self.assertEqual(dataset["q"].shape, (1, 1, 1, 15))
            np.testing.assert_array_equal(dataset["x_axis"], 5 + np.arange(15.0))
            np.testing.assert_array_equal(dataset["time_axis"], [2.5])
            self.assertEqual(dataset["q"].attrs["units"], "Pa")
            self.assertEqual([float(dataset[name].max()) for name in ("x", "time", "step", "q")], [0, 1, 2, 3])

    def test_axes_that_the_dataset_names(self):
        """A NetCDF file and the dataset that is made of it are the same for xarray: names, positions, units, times."""
        generator = qt.random_numbers("axes")
        original = xr.Dataset(
            {"rho": (("time", "depth", "lat", "lon"), generator.random((3, 4, 6, 8), "f4"), {"units": "kg m-3"})},
            {"time": [0.5, 1.0, 4.0], "depth": ("depth", [0.0, 1, 4, 9], {"units": "m"}),
             "lat": ("lat", np.arange(20.0, 8, -2), {"units": "degrees_north"}),
             "lon": ("lon", np.arange(8) / 4, {"units": "degrees_east"})})
        original.to_netcdf(self.tmp / "in.nc", unlimited_dims=["time"])
        path = self.tmp / "axes.quarry"
        qt.succeed("quarry-write-single", f"{self.tmp / 'in.nc'}:rho", "--lossless", "--output", path)
        with xr.open_dataset(path, **ENGINE) as dataset:
            self.assertEqual(dataset["rho"].dims, ("time", "depth", "lat", "lon"))
            xr.testing.assert_identical(dataset.load(), original)
            xr.testing.assert_identical(dataset["rho"].sel(lat=slice(17, 11), time=4), original["rho"].sel(lat=slice(17, 11), time=4))

    def test_a_thousand_steps_are_opened_at_once(self):
        """Not step by step: what opening asks of the dataset does not grow with the steps."""
        path = self.tmp / "many.quarry"
        inputs = []
        for number in range(60):
            inputs.append(self.tmp / f"f{number:03}.raw")
            (number + np.random.default_rng(number).random(24, "f4")).tofile(inputs[-1])
        qt.succeed("quarry-write-single", *inputs, "--dims", "4x3x2", "--type", "float32", "--field", "f", "--lossless",
                   "--output", path)
        with counted_reads() as asked, xr.open_dataset(path, **ENGINE, max_error=0) as dataset:
            self.assertEqual(asked, [])
            self.assertEqual((dataset.sizes["step"], dataset.attrs), (60, {}))
            np.testing.assert_array_equal(dataset["f"].isel(z=0, y=1, x=2).astype(int), np.arange(60))

    def test_chunks(self):
        for target in (str(self.path), self.server.target(self.path)):
            with xr.open_dataset(target, **ENGINE, chunks={}) as dataset:
                self.assertEqual(dataset["p"].chunks, ((1, 1, 1), (23,), (34,), (45,)))
                xr.testing.assert_equal(dataset["p"].compute(), xr.DataArray(
                    self.decoded["p"], dims=("step", "z", "y", "x"), coords=dataset["p"].coords))
            with xr.open_dataset(target, **ENGINE, chunks={"step": 2}) as dataset:
                np.testing.assert_allclose(dataset["p"].mean(("step", "y")), self.decoded["p"].mean((0, 2)), atol=1e-6)
        for level, shape, patch, wanted in ((0, (300, 400, 500), 64, (128, 128, 256)), (0, (2000, 1, 3000), 64, (2000, 1, 2048)),
                                            (2, (300, 400, 500), 64, (75, 100, 125)), (5, (9, 9, 9), 16, (1, 1, 1))):
            array = _level_array.LevelArray(
                None, "f", level, np.arange(2), np.ones(2, bool), np.zeros(2, bool), shape, (patch,) * 3, np.dtype("f4"),
                np.dtype("f4"), None, True)
            self.assertEqual(array.chunk(), (1, *wanted))
            for chunk, length, whole in zip(array.chunk()[1:], array.shape[1:], array._patch()[1:], strict=True):
                self.assertTrue(chunk == length or chunk % whole == 0)


class Trouble(Package):
    def test_nothing_there(self):
        with self.assertRaises(quarry.Error) as raised:
            xr.open_dataset(self.tmp / "nothing.quarry", **ENGINE)
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        with self.assertRaises(quarry.Error) as raised:
            xr.open_datatree(f"grpc://{self.server.address}/nothing", **ENGINE)
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        with self.assertRaisesRegex(TypeError, "opens folders and servers"):
            xr.open_dataset(b"bytes", **ENGINE)

    def test_damage_raises_in_compute(self):
        path = self.tmp / "bad.quarry"
        subprocess.run(["cp", "-r", self.path, path], check=True)
        (subfile,) = (path / "steps/000005/p").iterdir()
        content = bytearray(subfile.read_bytes())
        for at in range(len(content) // 2, len(content) // 2 + 300):
            content[at] ^= 0xFF
        subfile.write_bytes(content)
        for chunks in (None, {}):
            with xr.open_dataset(path, **ENGINE, chunks=chunks) as dataset:
                np.testing.assert_array_equal(dataset["p"].sel(step=3), self.decoded["p"][0])
                with self.assertRaises(quarry.Error) as raised:
                    dataset["p"].sel(step=5).compute()
                self.assertEqual(raised.exception.code, "DATA_LOSS")

    def test_found_by_name(self):
        """As an installed distribution is found: by its entry point."""
        code = ("import sys, xarray as xr\n"
                "for options in ({'engine': 'quarry'}, {}):\n"
                "    print(float(xr.open_dataset(sys.argv[1], **options)['p'].isel(step=1).mean()))\n"
                "print(len(xr.open_datatree(sys.argv[1]).children))\n"
                "print(xr.backends.list_engines()['quarry'].guess_can_open(sys.argv[2]))\n"
                "try: xr.open_dataset(sys.argv[1] + '/nothing.quarry')\n"
                "except FileNotFoundError: print('no file')\n")
        done = subprocess.run([sys.executable, "-c", code, str(self.path), self.server.target(self.path)], check=True,
                              capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": as_installed(self.tmp)})
        mean = float(self.decoded["p"][1].mean())
        first, second, levels, *others = done.stdout.split("\n")[:5]
        np.testing.assert_allclose([float(first), float(second)], [mean, mean], rtol=1e-5)
        self.assertEqual([levels, *others], ["5", "True", "no file"])

    def test_pickled_arrays_share_a_connection(self):
        for target in (str(self.path), self.server.target(self.path)):
            with xr.open_dataset(target, **ENGINE) as dataset:
                content = pickle.dumps(dataset)
            again = pickle.loads(content)
            datasets = {id(again[name].variable._data.array.array.array.dataset) for name in ("p", "m", "k")}
            self.assertEqual(len(datasets), 1)
            np.testing.assert_array_equal(again["p"][1], self.decoded["p"][1])
        with contextlib.chdir(self.data):
            dataset = xr.open_dataset(self.path.name, **ENGINE)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(dataset))["p"][0], self.decoded["p"][0])
        for number in range(40):
            _level_array._of_this_process(quarry.Dataset, f"target{number}", ())
        self.assertLessEqual(len(_level_array._kept), _level_array._KEPT)


class Distributed(qt.QuarryTest):
    """Two worker processes that read through a server with a token over TLS."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        cls.path = cls.data / "run.quarry"
        cls.steps = 6
        inputs = []
        for number in range(cls.steps):
            inputs.append(cls.shared / f"f{number}.raw")
            qt.turbulent((20, 18, 16), name=f"d{number}").tofile(inputs[-1])
        qt.succeed("quarry-write-single", *inputs, "--dims", "20x18x16", "--type", "float32", "--field", "f", "--tolerance",
                   "1e-3", "--patch", "16", "--output", cls.path)
        cls.decoded = np.stack([decoded(cls.path, "f", step) for step in range(cls.steps)])
        section = MANUAL.read_text().split("# Certificates\n", 1)[1].split("\n## ", 1)[0]
        subprocess.run(["bash", "-euc", "\n".join(re.findall(r"(?s)```bash\n(.*?)```", section))], cwd=cls.shared, check=True,
                       capture_output=True)
        tokens = cls.shared / "tokens"
        tokens.write_text(f"alice sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()} *\n")
        tokens.chmod(0o600)
        cls.start_server()
        cls.options = {**ENGINE, "ca": str(cls.shared / "ca.pem"), "token": TOKEN}
        cls.target = f"grpcs://{cls.server.address}/run"

    @classmethod
    def start_server(cls, address="127.0.0.1:0"):
        cls.server = qt.Server(cls.data, "--tls-cert", cls.shared / "server.pem", "--tls-key", cls.shared / "server-key.pem",
                               "--tokens", cls.shared / "tokens")
        cls.server.command = [address if word == "127.0.0.1:0" else word for word in cls.server.command]
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def open(self, **options):
        dataset = xr.open_dataset(self.target, **self.options, **options)
        self.addCleanup(dataset.close)
        return dataset

    @contextlib.contextmanager
    def cluster(self):
        import dask
        from distributed import Client, LocalCluster
        paths = os.pathsep.join([str(PACKAGE), str(qt.REPOSITORY / "tests/python")])
        configuration = {"distributed.nanny.pre-spawn-environ.PYTHONPATH": paths, "temporary_directory": str(self.tmp),
                         "distributed.worker.daemon": True, "distributed.scheduler.allowed-failures": 10}
        with dask.config.set(configuration), LocalCluster(
                n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50,
                worker_dashboard_address=None) as cluster, Client(cluster) as client:
            client.wait_for_workers(2)
            yield client

    def test_without_the_token(self):
        with self.assertRaises(quarry.Error) as raised:
            xr.open_dataset(self.target, **{**self.options, "token": TOKEN[::-1]})
        self.assertIn(raised.exception.code, ("UNAUTHENTICATED", "PERMISSION_DENIED"))

    def test_workers_read_and_are_replaced(self):
        with self.cluster() as client:
            array = self.open(chunks={"step": 1, "z": 16})["f"]
            means = array.mean(("z", "y", "x")).compute()
            np.testing.assert_allclose(means, self.decoded.mean((1, 2, 3)), rtol=1e-5)
            np.testing.assert_allclose(array.std("step").compute(), self.decoded.std(0), rtol=1e-3, atol=1e-5)

            # Every worker has one connection, however many arrays and tasks it had.
            counts = client.run(lambda: len(_level_array._kept))
            self.assertEqual(sorted(counts.values()), [1, 1])

            # A worker ends in the middle; another one takes its place, opens again, and the result is right.
            import dask.array
            killed, mark = next(iter(client.run(os.getpid).values())), str(self.tmp / "killed")

            def deadly(block):
                """Ends the process the first time it is there."""
                if os.getpid() == killed and not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
                return block

            doubled = dask.array.map_blocks(deadly, array.data, dtype=array.dtype, meta=np.empty((0, 0, 0, 0), "f4")) * 2
            np.testing.assert_array_equal(doubled.compute(), self.decoded * 2)
            self.assertTrue(os.path.exists(mark))
            client.wait_for_workers(2)
            self.assertNotIn(killed, client.run(os.getpid).values())

    def test_a_server_that_goes_for_five_seconds_is_waited_out(self):
        with self.cluster() as client:
            array = self.open(chunks={"step": 1, "z": 16})["f"]
            self.server.kill()
            result = client.compute(array.mean(("z", "y", "x")))
            with self.assertRaises(TimeoutError):
                result.result(timeout=5)
            self.assertEqual(result.status, "pending", "a worker has given up")
            self.start_server(self.server.address)
            np.testing.assert_allclose(result.result(), self.decoded.mean((1, 2, 3)), rtol=1e-5)

    def test_without_retries_a_server_is_asked_once(self):
        opened = xr.open_dataset(self.target, **self.options, retries=0)
        self.addCleanup(opened.close)
        self.server.kill()
        self.addCleanup(self.start_server, self.server.address)
        with self.assertRaises(quarry.Error) as raised, unittest.mock.patch.object(_level_array.time, "sleep") as waited:
            opened["f"][0].values
        self.assertEqual((raised.exception.code, waited.call_count), ("UNAVAILABLE", 0))


# ---- xarray's own tests of backends

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from xarray.tests import test_backends
except ImportError:
    test_backends = None


class Stored:
    """xarray's cases about indexing, laziness and pickling, over arrays that Quarry stores: each variable of numbers is a
    dataset of its own, whose axes get the names that the case gives them."""

    written = {}

    @classmethod
    def stored(cls, variable, open_kwargs):
        """The variable, read from a dataset. The cases use few different arrays: each is written once."""
        array = np.asarray(variable.values)
        array = array.astype("i4") if array.dtype.kind in "iu" else array
        key = (array.shape, array.dtype, array.tobytes())
        if key not in cls.written:
            cls.written[key] = qt.SCRATCH / f"case{len(cls.written)}.quarry"
            write(cls.written[key], array.reshape((1,) * (3 - array.ndim) + array.shape), "f", "--lossless", "--patch", "4")
        opened = xr.open_dataset(cls.written[key], **ENGINE, **(open_kwargs or {}))
        lazy = opened["f"].variable[(0,) * (4 - array.ndim)]
        return xr.Variable(variable.dims, lazy._data, variable.attrs)

    @contextlib.contextmanager
    def roundtrip(self, data, save_kwargs=None, open_kwargs=None, allow_cleanup_failure=False):
        """The same dataset, with arrays that are read when they are needed."""
        variables = {}
        for name, variable in data.variables.items():
            squeezed = variable.squeeze()
            if name not in data.dims and variable.dtype.kind in "fi" and variable.ndim and squeezed.ndim <= 3:
                stored = self.stored(squeezed, open_kwargs)
                variables[name] = stored if variable.ndim == squeezed.ndim else stored.set_dims(variable.sizes)
        yield data.assign(variables)


CASES = ("test_array_type_after_indexing", "test_dataset_compute", "test_dropna", "test_empty_isel",
         "test_empty_isel_multidim", "test_isel_dataarray", "test_load", "test_load_async", "test_ondisk_after_print",
         "test_orthogonal_indexing", "test_outer_indexing_reversed", "test_pickle", "test_pickle_dataarray",
         "test_vectorized_indexing", "test_dataset_caching")


class CasesOfXarray(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if test_backends is None:
            qt.skip("xarray's tests are not installed")

    def test_cases(self):
        cases = type("Cases", (Stored, test_backends.DatasetIOBase), {})()
        for name in CASES:
            with self.subTest(case=name):
                done = getattr(cases, name)()
                if asyncio.iscoroutine(done):
                    asyncio.run(done)
        for use_dask in (False, True):
            with self.subTest(use_dask=use_dask):
                cases.test_vectorized_indexing_negative_step(use_dask)


if __name__ == "__main__":
    qt.main()
