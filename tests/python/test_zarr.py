"""The Zarr store and `quarry serve-zarr`: what zarr and xarray read is what the command `quarry get` decodes.

zarr's own tests of stores are in zarr_store_cases.py.
"""

import asyncio
import contextlib
import http.client
import itertools
import json
import math
import multiprocessing
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import unittest.mock
import urllib.parse
import warnings
from pathlib import Path

from python_testing import DIMS, PACKAGE, STEPS, Package, np, qt, quarry

import xarray  # noqa: E402
import zarr  # noqa: E402

LEVELS = 5
HERE = Path(__file__).resolve().parent
ENVIRONMENT = qt.ENVIRONMENT | {"PYTHONPATH": str(PACKAGE)}


def write(path, name, array, *options, step=0, new=False):
    """A field of a step, [z, y, x]."""
    raw = path.parent / "field.raw"
    array.tofile(raw)
    qt.succeed("quarry-write-single", raw, "--dims", "x".join(map(str, array.shape[::-1])), "--type", array.dtype.name,
               "--field", name, "--step", step, "--output", path, *options, *([] if new else ["--append"]))


def decode(path, folder, fields, steps, level):
    """By the command: each field and step, [z, y, x]."""
    qt.succeed("quarry", "get", path, "--fields", ",".join(fields), "--steps", f"0:{max(steps) + 1}", "--level", level,
               "--output", folder / "{field}-{step}.npy")
    dims = json.loads((path / "dataset.json").read_text())["grids"][0]["dims"]
    shape = [-(-n >> level) for n in dims[::-1]]
    return {name: np.stack([np.load(folder / f"{name}-{step}.npy").reshape(shape) for step in steps]) for name in fields}


def damage(path):
    """The middle of the only subfile in this folder."""
    (subfile,) = path.iterdir()
    content = bytearray(subfile.read_bytes())
    for at in range(len(content) // 2, len(content) // 2 + 300):
        content[at] ^= 0xFF
    subfile.write_bytes(content)


def sum_of(store):
    """In another process."""
    return float(np.nansum(zarr.open(store)["0/m"][1]))


async def _listed(store, prefix):
    return [key async for key in store.list_prefix(prefix)]


class Served:
    """`quarry serve-zarr` of a target. Leaving it by SIGTERM ends it cleanly."""

    def __init__(self, target, *options):
        self.process = subprocess.Popen([sys.executable, "-m", "quarry", "serve-zarr", str(target), *map(str, options)],
                                        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.url = self.process.stdout.readline().strip()
        place = urllib.parse.urlsplit(self.url)
        self.address, self.root = (place.hostname, place.port), place.path
        return self

    def __exit__(self, *error):
        self.process.terminate()
        _, self.errors = self.process.communicate(timeout=qt.TIMEOUT)
        if self.process.returncode != 0:
            raise AssertionError(f"ended with {self.process.returncode}: {self.errors}")

    def ask(self, path, method="GET", body=None, **headers):
        """Status, headers and body of the answer for a key; //PATH is a path."""
        path = path.removeprefix("/") if path.startswith("//") else self.root + path
        connection = http.client.HTTPConnection(*self.address, timeout=qt.TIMEOUT)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content


class Hierarchy(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.levels = {name: [] for name in "pmk"}
        for level in range(LEVELS):
            for name, decoded in decode(cls.path, cls.shared, "pmk", STEPS, level).items():
                cls.levels[name].append(decoded)

    def stores(self):
        """Stores of the directory and of the server; from a path, and from an open dataset."""
        for dataset in self.targets():
            for target in (dataset, dataset.target):
                with self.subTest(store=str(target)), quarry.zarr_store(target) as store:
                    yield store
                self.assertEqual(dataset["p"].read(level=4).shape, (2, 3, 3))  # open still

    def test_every_level_of_every_field(self):
        for store in self.stores():
            for root in (zarr.open(store), zarr.open_consolidated(store, mode="r")):
                self.assertEqual(sorted(root.group_keys()), [str(level) for level in range(LEVELS)])
                for name, levels in self.levels.items():
                    for level, decoded in enumerate(levels):
                        array = root[f"{level}/{name}"]
                        self.assertEqual(array.dtype, decoded.dtype)
                        np.testing.assert_array_equal(array[:], decoded)

    def test_slices(self):
        random = np.random.default_rng(qt.SEED)
        with quarry.zarr_store(self.path) as store:
            root = zarr.open(store)
            for _ in range(qt.scaled(60, 2000)):
                name, level = random.choice(list("pmk")), int(random.integers(LEVELS))
                decoded = self.levels[name][level]
                key = []
                for n in decoded.shape:
                    begin, end = sorted(random.integers(0, n + 1, 2))
                    key.append(int(random.integers(n)) if random.random() < 0.3 else
                               slice(int(begin), int(end), int(random.integers(1, 4))))
                with self.subTest(name=name, level=level, key=key):
                    np.testing.assert_array_equal(root[f"{level}/{name}"][tuple(key)], decoded[tuple(key)])

    def test_chunks(self):
        """Whole patches, padded: of level 0 one each. No patch is in two chunks."""
        with quarry.open(self.path) as dataset, quarry.zarr_store(dataset) as store:
            root = zarr.open(store)
            self.assertEqual([root[f"{level}/p"].chunks for level in range(LEVELS)],
                             [(1, 16, 16, 16), (1, 12, 17, 23), (1, 6, 9, 12), (1, 3, 5, 6), (1, 2, 3, 3)])
            for level in range(LEVELS):
                array = root[f"{level}/p"]
                _, *starts = (range(0, n, chunk) for n, chunk in zip(array.shape, array.chunks))
                patches = []
                for place in np.ndindex(*map(len, starts)):
                    box = [(first[i] << level, min((first[i] + chunk) << level, n)) for i, first, chunk, n in
                           zip(place, starts, array.chunks[1:], dataset.shape)]
                    patches.append(dataset["p"].plan(box=tuple(box), level=level).price.patches)
                self.assertEqual(sum(patches), 2 * 3 * 3)
                if level == 0:
                    self.assertEqual(set(patches), {1})
            for name, fill in (("p", np.nan), ("k", -999)):
                value = asyncio.run(store.get(f"0/{name}/c/1/1/2/2")).to_bytes()
                padded = np.frombuffer(value, root[f"0/{name}"].dtype).reshape(16, 16, 16)
                expected = np.full((16, 16, 16), fill, padded.dtype)
                expected[:7, :2, :13] = self.levels[name][0][1, 16:, 32:, 32:]
                np.testing.assert_array_equal(padded, expected)

    def test_attributes(self):
        with quarry.zarr_store(self.path) as store:
            root = zarr.open(store)
            for name in "pmk":
                for level in range(LEVELS):
                    array = root[f"{level}/{name}"]
                    recorded = [next(field for field in qt.step_manifest(self.path, step)["fields"] if field["name"] == name)
                                ["levels"][level]["max_error"] for step in STEPS]
                    self.assertEqual(array.attrs["max_error"], max(recorded))
                    self.assertEqual(array.metadata.dimension_names, ("step", "z", "y", "x"))
            self.assertEqual(root["0/p"].attrs["tolerance"], 1e-3)
            self.assertEqual((root["0/k"].attrs["_FillValue"], root["0/k"].fill_value), (-999, -999))
            self.assertTrue(root["0/k"].attrs["lossless"])
            self.assertTrue(np.isnan(root["0/m"].fill_value))
            np.testing.assert_array_equal(root["3/step"][:], STEPS)
            self.assertNotIn("time", root["0"])

    def test_metadata_are_json(self):
        """With no NaN in it, which JSON lacks; and as the specification says: little-endian bytes, no more."""
        def refuse(constant):
            raise AssertionError(constant)

        with quarry.zarr_store(self.path) as store:
            for level in (None, *range(LEVELS)):
                key = "zarr.json" if level is None else f"{level}/zarr.json"
                group = json.loads(asyncio.run(store.get(key)).to_bytes(), parse_constant=refuse)
                below = group["consolidated_metadata"]["metadata"]
                self.assertIn("p" if level is not None else "4/p", below)
                for path, document in below.items():
                    own = json.loads(asyncio.run(store.get(f"{key.removesuffix('zarr.json')}{path}/zarr.json")).to_bytes())
                    own.pop("consolidated_metadata", None)
                    self.assertEqual(own, document)
                    if document["node_type"] == "array":
                        self.assertEqual(document["codecs"], [{"name": "bytes", "configuration": {"endian": "little"}}])

    def test_xarray(self):
        for store in self.stores():
            for options in ({}, {"chunks": {}}, {"consolidated": True}, {"consolidated": False}):
                with self.subTest(**options), xarray.open_zarr(store, group="1", **options) as level:
                    self.assertEqual(dict(level.sizes), {"step": 3, "z": 12, "y": 17, "x": 23})
                    np.testing.assert_array_equal(level["m"], self.levels["m"][1])
                    np.testing.assert_array_equal(level["x"], np.arange(0, 45, 2))
                    np.testing.assert_array_equal(level["p"].sel(step=5, z=6, method="nearest"), self.levels["p"][1][1, 3])
                    decoded = self.levels["k"][1].astype(float)
                    np.testing.assert_array_equal(level["k"], np.where(decoded == -999, np.nan, decoded))
                    if options.get("chunks") == {}:
                        self.assertEqual(level["p"].data.chunksize, (1, 12, 17, 23))
            tree = xarray.open_datatree(store, engine="zarr")
            self.assertEqual(sorted(tree.children), ["0", "1", "2", "3", "4"])
            np.testing.assert_array_equal(tree["2/p"], self.levels["p"][2])

    def test_zarrs_own_tests_of_stores(self):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o",
                               "asyncio_default_fixture_loop_scope=function", str(HERE / "zarr_store_cases.py")],
                              env=os.environ | {"QUARRY_ZARR_TARGET": str(self.path), "QUARRY_PYTHON": str(PACKAGE)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("warning", done.stdout)

    def test_writes_are_refused(self):
        before = qt.snapshot(self.path)
        with quarry.zarr_store(self.path) as store:
            array = zarr.open(store)["0/p"]
            for change in (lambda: array.__setitem__(0, 1), lambda: zarr.open(store, mode="w"), lambda: array.resize((1, 1, 1, 1)),
                           lambda: array.update_attributes({"units": "m"}), lambda: zarr.consolidate_metadata(store),
                           lambda: zarr.create_array(store, name="new", shape=3, dtype="i4")):
                with self.assertRaisesRegex(ValueError, "read-only"):
                    change()
        self.assertEqual(qt.snapshot(self.path), before)

    def test_which_stores_are_equal(self):
        with quarry.open(self.path) as dataset:
            stores = [quarry.zarr_store(self.path), quarry.zarr_store(dataset), quarry.zarr_store(self.path, fields=["p"]),
                      quarry.zarr_store(self.path, threads=1), quarry.zarr_store(self.server.target(self.path))]
            self.assertEqual(stores[0], stores[1])
            for number, store in enumerate(stores[2:]):
                self.assertNotIn(store, stores[:2] + stores[number + 3:])
            with self.assertRaisesRegex(TypeError, "token.*open already"):
                quarry.zarr_store(dataset, token="x")

    def test_fields_and_their_order(self):
        with quarry.zarr_store(self.path, fields=["k", "p"]) as store:
            root = zarr.open(store)
            self.assertEqual([image["name"] for image in root.attrs["ome"]["multiscales"]], ["k", "p"])
            self.assertNotIn("m", root["0"])
        with self.assertRaisesRegex(KeyError, "q.* is no field of .* it has p, m, k"):
            quarry.zarr_store(self.path, fields=["q"])

    def test_closing(self):
        store = quarry.zarr_store(self.path)
        array = zarr.open(store)["0/p"]
        store.close()
        with self.assertRaisesRegex(quarry.Error, "is closed"):
            array[0]

    def test_damage_raises(self):
        path = self.data / "bad.quarry"
        shutil.copytree(self.path, path)
        self.addCleanup(shutil.rmtree, path)
        damage(path / "steps/000005/p")
        for target in (path, self.server.target(path)):
            with self.subTest(target=target), quarry.zarr_store(target) as store:
                root = zarr.open(store)
                with self.assertRaises(quarry.Error) as raised:
                    root["0/p"][1]
                self.assertEqual(raised.exception.code, "DATA_LOSS")
                with self.assertRaises(quarry.Error):
                    xarray.open_zarr(store, group="0", chunks={})["p"].sel(step=5).mean().compute(scheduler="threads")
                np.testing.assert_array_equal(root["0/p"][0], self.levels["p"][0][0])
        with Served(path) as served:
            with self.assertRaises(Exception) as raised:
                zarr.open(served.url)["0/p"][1]
            self.assertRegex(str(raised.exception), "422")
            np.testing.assert_array_equal(zarr.open(served.url)["0/p"][2], self.levels["p"][0][2])
            shutil.rmtree(path / "steps/000009/p")
            path.joinpath("steps/000009/p").mkdir()
            statuses = {served.ask(f"/0/p/c/1/{z}/{y}/{x}")[0] for z in range(2) for y in range(3) for x in range(3)}
            self.assertEqual(statuses, {422, 200})

    def test_what_is_gone_is_no_missing_chunk(self):
        """Readers of Zarr take that for fill values."""
        path = self.data / "gone.quarry"
        shutil.copytree(self.path, path)
        with Served(path) as served, quarry.zarr_store(path) as store:
            array = zarr.open(store)["0/p"]
            shutil.rmtree(path)
            with self.assertRaises(quarry.Error):
                array[2]
            status, _, text = served.ask("/0/p/c/2/0/0/0")
            self.assertEqual(status, 422, text)

    def test_other_processes(self):
        wanted = float(np.nansum(self.levels["m"][0][1]))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for store in self.stores():
                self.assertAlmostEqual(pool.map_async(sum_of, [store]).get(timeout=qt.TIMEOUT)[0], wanted)

    def test_other_working_directories(self):
        with contextlib.chdir(self.data):
            for target in ("run.quarry", Path("run.quarry"), quarry.open("run.quarry")):
                store = quarry.zarr_store(target)
                self.assertEqual(store, quarry.zarr_store(self.path))
                pickled = pickle.dumps(store)
                with contextlib.chdir("/"):
                    np.testing.assert_array_equal(zarr.open(pickle.loads(pickled))["4/p"][:], self.levels["p"][4])

    def test_steps_stay_what_they_were(self):
        """Also where a store is unpickled after an earlier step was published."""
        path = self.tmp / "grows.quarry"
        arrays = [qt.turbulent(DIMS, name=f"grows{step}").reshape(DIMS[::-1]) for step in range(3)]
        write(path, "p", arrays[1], "--lossless", step=1, new=True)
        write(path, "p", arrays[2], "--lossless", step=2)
        pickled = pickle.dumps(quarry.zarr_store(path))
        write(path, "p", arrays[0], "--lossless", step=0)
        np.testing.assert_array_equal(zarr.open(pickle.loads(pickled))["0/p"][:], arrays[1:])
        np.testing.assert_array_equal(zarr.open(quarry.zarr_store(path))["0/p"][:], arrays)


class Shapes(qt.QuarryTest):
    def check(self, path, names, steps):
        """Every level of fields against the command. Where a dataset has one step, there is no axis of it."""
        root = zarr.open(quarry.zarr_store(path))
        alone = len(list((path / "steps").glob("[0-9]*"))) == 1
        for level in range(len(list(root.group_keys()))):
            for name, decoded in decode(path, self.tmp, names, steps, level).items():
                np.testing.assert_array_equal(root[f"{level}/{name}"][...], decoded[0] if alone else decoded)
        return root

    def test_grids_of_fewer_axes(self):
        for number, shape in enumerate([(1, 1, 45), (1, 37, 21), (9, 1, 33), (1, 1, 1), (2, 3, 1)]):
            with self.subTest(shape=shape):
                path = self.tmp / f"grid{number}.quarry"
                field = qt.turbulent(shape[::-1], name=str(shape)).reshape(shape)
                write(path, "f", field, "--lossless", "--patch", "x".join("8" if n > 1 else "1" for n in shape[::-1]), new=True)
                root = self.check(path, ["f"], [0])
                np.testing.assert_array_equal(root["0/f"][:], field)
                self.assertEqual([axis["name"] for axis in root.attrs["ome"]["multiscales"][0]["axes"]], ["z", "y", "x"])
                self.assertEqual(root["0/step"][()], 0)
                scales = [np.array(level["coordinateTransformations"][0]["scale"])
                          for level in root.attrs["ome"]["multiscales"][0]["datasets"]]
                for level, scale in enumerate(scales):
                    self.assertEqual(scale.tolist(), [2 ** level if n > 1 else 1 for n in shape])

    def test_types(self):
        path = self.tmp / "types.quarry"
        dims = (19, 10, 7)
        for number, dtype in enumerate(qt.TYPES):
            field = qt.make_field(dims, dtype, name=dtype).reshape(dims[::-1])
            write(path, f"f{number}", field, "--lossless", "--patch", "8", new=number == 0)
        root = self.check(path, [f"f{number}" for number in range(len(qt.TYPES))], [0])
        for number, dtype in enumerate(qt.TYPES):
            self.assertEqual(root[f"0/f{number}"].dtype, np.dtype(dtype))
            self.assertNotIn("_FillValue", root[f"0/f{number}"].attrs)

    def test_float32(self):
        path = self.tmp / "double.quarry"
        dims = (19, 10, 7)
        field = 1e3 * qt.turbulent(dims, "<f8", name="double").reshape(dims[::-1])
        write(path, "d", field, "--tolerance", "1e-6", new=True)
        write(path, "l", field, "--lossless")
        huge = np.full(dims[::-1], 1e300)
        write(path, "h", huge, "--lossless")
        root = zarr.open(quarry.zarr_store(path, float32=True))
        for level in range(len(list(root.group_keys()))):
            for name, decoded in decode(path, self.tmp, "dl", [0], level).items():
                array = root[f"{level}/{name}"]
                self.assertEqual(array.dtype, np.float32)
                np.testing.assert_array_equal(array[:], decoded[0].astype(np.float32))
                error = np.abs(array[:].astype("f8") - field[::1 << level, ::1 << level, ::1 << level]).max()
                self.assertLessEqual(error, array.attrs["max_error"])
        self.assertGreater(root["0/l"].attrs["max_error"], 0)
        self.assertNotIn("lossless", root["0/l"].attrs)
        self.assertEqual(root["0/h"].attrs["max_error"], "Infinity")
        self.assertTrue(np.isinf(root["0/h"][:]).all())
        self.assertEqual(zarr.open(quarry.zarr_store(path))["0/d"].dtype, np.float64)

    def test_fields_that_not_all_steps_hold(self):
        path = self.tmp / "gaps.quarry"
        dims = (19, 10, 7)
        arrays = {(name, step): qt.turbulent(dims, name=f"{name}{step}").reshape(dims[::-1])
                  for name, step in (("a", 1), ("a", 4), ("a", 6), ("b", 1), ("b", 6), ("c", 4), ("x", 1), ("x", 4), ("x", 6),
                                     ("step_b", 4))}
        for number, ((name, step), array) in enumerate(arrays.items()):
            write(path, name, array, "--lossless", "--units", "K", "--spacing", "0.5,1,2", "--origin", "10,0,-3",
                  "--time", step / 2, step=step, new=number == 0)
        for name in ("a", "b", "c", "x", "step_b"):
            held = [step for other, step in arrays if other == name]
            root = self.check(path, [name], held)
            np.testing.assert_array_equal(root[f"0/{name}"][:], [arrays[name, step] for step in held])
            self.assertEqual(root[f"0/{name}"].attrs["units"], "K")
        for chunks in (None, {}):
            level = xarray.open_zarr(quarry.zarr_store(path), group="1", chunks=chunks)
            self.assertEqual(level["a"].dims, ("step", "z", "y", "x_axis"))
            self.assertEqual(level["b"].dims[0], "step_b_axis")
            np.testing.assert_array_equal(level["b"]["step_b_axis"], [1, 6])
            np.testing.assert_array_equal(level["b"].coords["time_b"], [0.5, 3])
            np.testing.assert_array_equal(level["step"], [1, 4, 6])
            np.testing.assert_array_equal(level["a"].coords["time"], [0.5, 2, 3])
            np.testing.assert_array_equal(level["x_axis"], 10 + 0.5 * np.arange(0, 19, 2))
            np.testing.assert_array_equal(level["z"], -3 + 2.0 * np.arange(0, 7, 2))
            np.testing.assert_array_equal(level["x"].sel(step=4), arrays["x", 4][::2, ::2, ::2])
        image = root.attrs["ome"]["multiscales"][1]
        self.assertEqual((image["name"], image["axes"][0]), ("b", {"name": "step_b_axis", "type": "time"}))
        self.assertEqual(image["datasets"][2], {"path": "2/b", "coordinateTransformations": [
            {"type": "scale", "scale": [2.5, 8.0, 4.0, 2.0]}, {"type": "translation", "translation": [0.5, -3.0, 0.0, 10.0]}]})

    def ocean(self, **options):
        """Temperatures over time beside a mask, and latitudes of the same grid and of a grid without depth."""
        random = np.random.default_rng(qt.SEED)
        lat = np.linspace(-10, 10, 9)[:, None] + 0.01 * np.arange(12)
        places = {"z": ("z", [5.0, 15, 40], {"units": "m", "positive": "down"}),
                  "lat": (("y", "x"), lat, {"units": "degrees_north"}),
                  "lat3": (("z", "y", "x"), lat + np.zeros((3, 1, 1))), "height": ((), 2.0),
                  "time": ("time", [0.0, 1, 2], {"units": "days since 2001-01-01", "standard_name": "time"})}
        data = xarray.Dataset(
            {"temp": (("time", "z", "y", "x"), random.normal(size=(3, 3, 9, 12)).astype("f4"),
                      {"units": "K", "cell_methods": "time: mean"}),
             "mask": (("z", "y", "x"), random.integers(0, 2, (3, 9, 12)).astype("i2"))},
            places, {"title": "Sea", "levels": np.array([1, 2], "i2")})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quarry.write(self.tmp / "ocean.quarry", data, lossless=True, mode="overwrite", **options)
        return data, quarry.zarr_store(self.tmp / "ocean.quarry")

    def test_what_the_source_says(self):
        data, store = self.ocean()
        root = zarr.open(store)
        for group in (root, root["0"], root["3"]):
            self.assertEqual((group.attrs["title"], group.attrs["levels"]), ("Sea", [1, 2]))
        self.assertEqual((root["3"].attrs["level"], root.attrs["quarry"]["levels"]), (3, 7))
        self.assertEqual((root["1/temp"].attrs["cell_methods"], root["1/temp"].attrs["units"], root["1/temp"].attrs["level"]),
                         ("time: mean", "K", 1))
        self.assertEqual(dict(root["0/z"].attrs), {"axis": "Z", "positive": "down", "units": "m"})
        self.assertEqual(dict(root["0/time"].attrs), {"standard_name": "time", "units": "days since 2001-01-01"})
        self.assertEqual(store, pickle.loads(pickle.dumps(store)))

    def test_what_does_not_change(self):
        data, store = self.ocean()
        root = zarr.open(store)
        for level in range(2):
            every = slice(None, None, 1 << level)
            self.assertEqual(root[f"{level}/mask"].metadata.dimension_names, ("z", "y", "x"))
            np.testing.assert_array_equal(root[f"{level}/mask"][:], data["mask"][every, every, every])
            np.testing.assert_array_equal(root[f"{level}/mask"][1, 2:4, ::2], data["mask"].values[every, every, every][1, 2:4, ::2])
        self.assertEqual(root["2/height"][()], 2)
        image = root.attrs["ome"]["multiscales"][1]
        self.assertEqual((image["name"], [axis["type"] for axis in image["axes"]]), ("mask", ["space"] * 3))
        self.assertEqual([len(one["scale" if number == 0 else "translation"]) for number, one in
                          enumerate(image["datasets"][0]["coordinateTransformations"])], [3, 3])

    def test_coordinates_that_are_fields(self):
        data, store = self.ocean()
        root = zarr.open(store)
        self.assertEqual([image["name"] for image in root.attrs["ome"]["multiscales"]], ["temp", "mask"])
        self.assertEqual({*root["0/temp"].attrs["coordinates"].split()}, {"lat", "lat3", "height"})
        self.assertNotIn("coordinates", root["0/lat"].attrs)
        for level in range(2):
            with xarray.open_zarr(store, group=str(level), chunks=None) as opened:
                self.assertEqual(set(opened.data_vars), {"temp", "mask"})
                self.assertEqual(opened["temp"].dims, ("time", "z", "y", "x"))
                np.testing.assert_array_equal(opened["temp"].coords["lat"], data["lat"][::1 << level, ::1 << level])
                every = slice(None, None, 1 << level)
                np.testing.assert_array_equal(opened["temp"].sel(time="2001-01-02"), data["temp"][1, every, every, every])

    def stations(self):
        """Samples of stations, whose names are their dimension; regions beside it, the name of a run, and a text with a
        space in its name."""
        names = ["Brest", "", "Łódź", "long " * 60, "e", "zero\0", "f", "g", "h"]
        data = xarray.Dataset(
            {"p": (("station", "x"), np.arange(63, dtype="f2").reshape(9, 7)), "few": ("x", np.arange(7, dtype="f4"))},
            {"station": ("station", np.array(names, object), {"long_name": "name of the station", "cf_role": "timeseries_id"}),
             "region": ("station", np.array(names[::-1], object)), "run": ((), "historical", {"source": "a model"}),
             "few p": ("x", [*"abcdefg"])})
        quarry.write(self.tmp / "stations.quarry", data, lossless=True, mode="overwrite")
        return data, quarry.zarr_store(self.tmp / "stations.quarry")

    def test_texts_are_coordinates(self):
        data, store = self.stations()
        for level, options in itertools.product(range(3), ({"chunks": None}, {"chunks": {}}, {"consolidated": False})):
            every = slice(None, None, 1 << level)
            expected = data.isel(station=every, x=every)
            with self.subTest(level=level, **options), warnings.catch_warnings():
                warnings.simplefilter("error")
                with xarray.open_zarr(store, group=str(level), **options) as opened:
                    self.assertEqual({*opened.coords}, {"station", "region", "run"})
                    self.assertEqual({*opened["few"].coords}, {"run"})
                    for name in ("station", "region", "run", "few p"):
                        self.assertEqual(opened[name].values.tolist(), expected[name].values.tolist())
                        self.assertEqual(opened[name].dims, expected[name].dims)
                        self.assertEqual(opened[name].attrs, expected[name].attrs)
                    np.testing.assert_array_equal(opened["p"].sel(station="e"), expected["p"][4 >> level])
        tree = xarray.open_datatree(store, engine="zarr")
        self.assertEqual(tree["1/region"].values.tolist(), data["region"].values.tolist()[::2])

    def test_texts_are_as_zarr_writes_them(self):
        data, store = self.stations()
        other = zarr.storage.MemoryStore()
        prototype = zarr.core.buffer.default_buffer_prototype()
        for level, (name, chunk) in itertools.product(range(3), (("station", "c/0"), ("region", "c/0"), ("run", "c"))):
            values = np.asarray(data[name].values[:: 1 << level] if data[name].ndim else data[name].values)
            texts = values.astype(np.dtypes.StringDType())
            array = zarr.create_array(other, name=f"{level}{name}", data=texts, chunks=texts.shape, compressors=None)
            theirs = asyncio.run(other.get(f"{level}{name}/{chunk}", prototype)).to_bytes()
            with self.subTest(level=level, name=name):
                self.assertEqual(asyncio.run(store.get(f"{level}/{name}/{chunk}")).to_bytes(), theirs)
                self.assertEqual(asyncio.run(store.getsize(f"{level}/{name}/{chunk}")), len(theirs))
                ours = zarr.open(store)[f"{level}/{name}"]
                self.assertEqual((ours.dtype, ours.shape, ours.chunks, ours.fill_value),
                                 (array.dtype, array.shape, array.chunks, array.fill_value))
                self.assertEqual(ours.metadata.codecs, array.metadata.codecs)
        self.assertEqual(store, pickle.loads(pickle.dumps(store)))
        self.assertIn("0/run/c", asyncio.run(_listed(store, "0/run")))

    def test_axes_of_which_nobody_says_the_positions(self):
        """As in xarray, they are dimensions without a coordinate; images have their scale all the same."""
        data = xarray.Dataset({"p": (("z", "y", "x"), np.zeros((3, 5, 6), "f4")), "q": (("y", "x"), np.ones((5, 6)))},
                              {"z": [1.0, 2.0, 4.0], "x": np.arange(6.0)})
        quarry.write(self.tmp / "unplaced.quarry", data, lossless=True)
        store = quarry.zarr_store(self.tmp / "unplaced.quarry")
        for level in range(2):
            every = slice(None, None, 1 << level)
            with xarray.open_zarr(store, group=str(level), chunks=None) as opened:
                xarray.testing.assert_equal(opened.load(), data.isel(z=every, y=every, x=every))
        scale = zarr.open(store).attrs["ome"]["multiscales"][0]["datasets"][1]["coordinateTransformations"][0]["scale"]
        self.assertEqual(scale[1:], [2.0, 2.0])

    def test_numbers_of_steps_beside_times(self):
        for steps in ([0, 1, 2], [3, 4, 9]):
            _, store = self.ocean(step=steps)
            with xarray.open_zarr(store, group="0", chunks=None) as opened:
                self.assertEqual(set(opened.data_vars), {"temp", "mask"})
                self.assertEqual(opened["time"].dims, ("time",))
                self.assertEqual("step" in opened.coords, steps[0] == 3)
            if steps[0] == 3:
                np.testing.assert_array_equal(zarr.open(store)["1/step"][:], steps)

    def test_where_nothing_changes_there_are_no_steps(self):
        data = xarray.Dataset({"area": (("lat", "lon"), np.ones((5, 6)))}, {"lat": np.arange(5.0), "lon": np.arange(6.0)})
        quarry.write(self.tmp / "still.quarry", data, lossless=True)
        root = zarr.open(quarry.zarr_store(self.tmp / "still.quarry"))
        self.assertEqual(set(root["0"].array_keys()), {"area", "lat", "lon"})
        quarry.write(self.tmp / "still.quarry", data.rename(area="p").expand_dims(step=[4, 5]), lossless=True, mode="append")
        root = zarr.open(quarry.zarr_store(self.tmp / "still.quarry"))
        self.assertEqual(root["0/p"].metadata.dimension_names, ("step", "lat", "lon"))
        np.testing.assert_array_equal(root["0/step"][:], [4, 5])

    def test_uneven_axes_with_units(self):
        import netCDF4
        path, source = self.tmp / "uneven.quarry", self.tmp / "uneven.nc"
        z = np.array([0, 1, 3, 7, 15, 31, 63], "f8")
        with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as file:
            for name, n in (("z", 7), ("y", 10), ("x", 19)):
                file.createDimension(name, n)
                axis = file.createVariable(name, "f8", (name,))
                axis[:] = z if name == "z" else np.arange(n) * 0.25
                axis.units = "km" if name == "z" else "furlong"
            file.createVariable("f", "f4", ("z", "y", "x"))[:] = 1
        qt.succeed("quarry-write-single", f"{source}:f", "--lossless", "--output", path)
        root = zarr.open(quarry.zarr_store(path))
        np.testing.assert_array_equal(root["0/z"][:], z)
        np.testing.assert_array_equal(root["1/z"][:], z[::2])
        self.assertEqual([root[f"0/{axis}"].attrs["units"] for axis in "zyx"], ["km", "furlong", "furlong"])
        axes = root.attrs["ome"]["multiscales"][0]["axes"]
        self.assertEqual(axes, [{"name": "z", "type": "space", "unit": "kilometer"}, {"name": "y", "type": "space"},
                                    {"name": "x", "type": "space"}])


class Http(Package):
    def test_zarr_over_http(self):
        with Served(self.path) as served:
            self.assertTrue(served.url.endswith("/run.zarr"))
            root = zarr.open(served.url, mode="r")
            for name, decoded in self.decoded.items():
                np.testing.assert_array_equal(root[f"0/{name}"][:], decoded)
            np.testing.assert_array_equal(xarray.open_zarr(served.url, group="0", chunks={})["p"], self.decoded["p"])
            self.assertEqual(served.ask("/none/zarr.json")[0], 404)
            self.assertEqual(served.ask("/zarr.json", Host="evil.example:80")[0], 421)

    def test_other_sites(self):
        site = "https://site.example"
        with Served(self.path, "--cors", site) as served:
            for origin, allowed in ((site, site), ("https://other.example", None)):
                _, headers, _ = served.ask("/zarr.json", Origin=origin)
                self.assertEqual(headers["Access-Control-Allow-Origin"], allowed)

    def test_options(self):
        def fails(code, text, *arguments):
            done = subprocess.run([sys.executable, "-m", "quarry", "serve-zarr", *map(str, arguments)], env=ENVIRONMENT,
                                  capture_output=True, text=True, timeout=qt.TIMEOUT)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertRegex(done.stderr, text)

        fails(3, "nothing", self.tmp / "nothing.quarry")
        fails(3, "'q' is no field", self.path, "--field", "q")
        fails(2, "--port", self.path, "--port", 70000)
        fails(2, "layer=-1", self.path, "--layer", -1)
        fails(2, "TARGET")
        fails(2, "shows it as Zarr itself", self.server.target(self.path))
        with Served(self.path, "--field", "m", "--field", "p", "--address", "localhost") as served:
            root = zarr.open(served.url, mode="r")
            self.assertEqual([image["name"] for image in root.attrs["ome"]["multiscales"]], ["m", "p"])
            self.assertTrue(served.url.endswith(".zarr"))
            fails(5, "in use", self.path, "--port", served.address[1])
        text = subprocess.run([sys.executable, "-m", "quarry", "serve-zarr", "--help"], env=ENVIRONMENT, capture_output=True,
                              text=True, check=True).stdout
        self.assertIn("Example:\n  quarry serve-zarr run42.quarry", text)

    def test_everything_else_is_the_programs(self):
        from quarry import _programs
        for arguments in (["ls", "."], [], ["serve"], ["ls", "--help"]):
            with unittest.mock.patch.object(sys, "argv", ["quarry", *arguments]), \
                    unittest.mock.patch.object(os, "execv", side_effect=SystemExit) as execute, self.assertRaises(SystemExit):
                _programs.quarry()
            self.assertEqual(execute.call_args.args[1], ["quarry", *arguments])

    def test_the_help_has_all_commands(self):
        text = subprocess.run([sys.executable, "-m", "quarry", "--help"], env=ENVIRONMENT, capture_output=True, text=True,
                              check=True).stdout
        for command in ("get", "info", "demo", "export", "serve-zarr"):
            self.assertRegex(text, f"(?m)^  {command}  ")

    def test_zarr_is_not_loaded_before_it_is_needed(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import quarry; assert not {'zarr', 'numpy'} & set(sys.modules);"
                "from quarry import _serve_zarr; assert not {'zarr', 'numpy'} & set(sys.modules);"
                "sys.modules['zarr'] = None\n"
                "try: quarry.zarr_store(sys.argv[2])\n"
                "except ImportError as error: print(error)\n"
                "sys.exit(_serve_zarr.main(['--help']))")
        done = subprocess.run([sys.executable, "-c", code, str(PACKAGE), str(self.path)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pip install", done.stdout)


if __name__ == "__main__":
    qt.main()
