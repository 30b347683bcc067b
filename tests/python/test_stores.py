"""Datasets in an S3 store and on a web server, from Python: the arrays of the directory."""

import os
import pickle
import unittest.mock
import urllib.request

from python_testing import np, qt, quarry

import xarray  # noqa: E402
import zarr  # noqa: E402

from object_stores import Handler, Store  # noqa: E402
from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402
from test_zarr import Served  # noqa: E402


class Stores(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path = self.tmp / "store" / "bucket" / "run.quarry"
        self.path.parent.mkdir(parents=True)
        data = np.random.default_rng(5).normal(size=(4, 6, 10, 12)).astype("f4")
        data[:, 2:4, :5, 3:] = np.nan
        quarry.write(self.path, {"t": data, "u": 2 * data}, lossless=True)

    def assert_same(self, target):
        with quarry.open(target) as stored, quarry.open(self.path) as plain:
            self.assertEqual(list(stored), list(plain))
            self.assertEqual(stored.steps, plain.steps)
            for name in plain:
                np.testing.assert_array_equal(stored[name][:], plain[name][:])
                np.testing.assert_array_equal(stored[name][-1, 1:4, ::2], plain[name][-1, 1:4, ::2])
        self.assertTrue(QuarryBackendEntrypoint().guess_can_open(target))
        engine = QuarryBackendEntrypoint
        with xarray.open_dataset(target, engine=engine) as stored, xarray.open_dataset(self.path, engine=engine) as plain:
            xarray.testing.assert_identical(stored.load(), plain.load())

    def test_a_store(self):
        with Store(self.tmp / "store") as store, unittest.mock.patch.dict(os.environ, store.environment()):
            self.assert_same("s3://bucket/run.quarry")
            self.assertEqual([found.name for found in quarry.list("s3://bucket")], ["run"])

    def test_a_web_server(self):
        with Store(self.path.parent, Handler) as web:
            self.assert_same(f"{web.url}/run.quarry")
            self.assert_same(f"{web.url}/run.quarry?sig=very-secret")

    def test_new_steps_are_seen(self):
        """On a web server by the head, in a store that another tool has copied to by the names."""
        def ask(dataset):
            while 4 not in dataset.steps:  # a look is trusted for two seconds
                dataset.refresh()
            np.testing.assert_array_equal(dataset["t"][-1], new)

        new = np.ones((6, 10, 12), "f4")
        with Store(self.path.parent, Handler) as web, Store(self.tmp / "store") as store, \
                unittest.mock.patch.dict(os.environ, store.environment()), quarry.open(f"{web.url}/run.quarry") as on_web, \
                quarry.open("s3://bucket/run.quarry") as in_store:
            quarry.write(self.path, {"t": new[None]}, lossless=True, step=4, mode="append")
            for dataset in (on_web, in_store):
                ask(dataset)

    def test_a_cache_on_disk(self):
        cache = self.tmp / "cache"
        with Store(self.tmp / "store") as store, unittest.mock.patch.dict(os.environ, store.environment()):
            for again in (False, True):
                before = len(store.asked)
                with quarry.open("s3://bucket/run.quarry", cache=cache, cache_size=10 << 20) as dataset:
                    with quarry.open(self.path) as plain:
                        np.testing.assert_array_equal(dataset["t"][:], plain["t"][:])
                    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dataset))["t"][0], dataset["t"][0])
                self.assertNotEqual(any(".qsf" in line for line in store.asked[before:]), again)
            with unittest.mock.patch.dict(os.environ, {"QUARRY_CACHE": str(self.tmp / "other")}):
                quarry.open("s3://bucket/run.quarry", cache="")["t"][0]
                self.assertFalse((self.tmp / "other").exists())
                quarry.open("s3://bucket/run.quarry")["t"][0]
                self.assertTrue((self.tmp / "other").exists())
        with self.assertRaisesRegex(TypeError, "cache_size"):
            quarry.open(self.path, cache_size="much")

    def test_a_signature_in_a_url_is_not_shown(self):
        with Store(self.path.parent, Handler) as web, quarry.open(f"{web.url}/run.quarry?sig=very-secret") as dataset:
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(dataset))["t"][0], dataset["t"][0])
            store = quarry.zarr_store(dataset)
            texts = [repr(dataset), dataset.target, repr(store), str(dataset["t"])]
            for change in (lambda: dataset["none"], lambda: dataset.attrs.update(a=1)):
                with self.assertRaises((quarry.Error, KeyError)) as raised:
                    change()
                texts.append(str(raised.exception))
            texts.append(qt.succeed("quarry", "info", f"{web.url}/run.quarry?sig=very-secret").out)
            for text in texts:
                self.assertNotIn("secret", text)

    def test_a_server_of_a_store(self):
        with Store(self.tmp / "store") as store, qt.Server("s3://bucket", env=store.environment()) as server:
            self.assert_same(server.target("run"))
            self.assertEqual([found.name for found in quarry.list(f"grpc://{server.address}")], ["run"])

    def test_serve_zarr(self):
        with Store(self.path.parent, Handler) as web, \
                Served(f"{web.url}/run.quarry?sig=very-secret", "--field", "t") as served:
            self.assertTrue(served.url.endswith("/zarr/run/fields=t.zarr"), served.url)
            with urllib.request.urlopen(f"{served.url}/zarr.json") as answer:
                self.assertNotIn(b"secret", answer.read())
            with quarry.open(self.path) as plain:
                np.testing.assert_array_equal(zarr.open(served.url, mode="r")["0/t"][:], plain["t"][:])

    def test_plain_http_elsewhere_is_refused(self):
        with self.assertRaisesRegex(quarry.Error, "allow_http"):
            quarry.open("http://store.invalid/run.quarry")


if __name__ == "__main__":
    unittest.main()
