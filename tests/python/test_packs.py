"""Datasets with their steps in packs: Python, xarray and Zarr have what they had before, and changes work."""

import shutil

from python_testing import np, qt, quarry

import xarray  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

SHAPE = (6, 10, 12)


class Packs(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path, self.twin = self.tmp / "run.quarry", self.tmp / "twin.quarry"
        data = np.random.default_rng(5).normal(size=(6, *SHAPE)).astype("f4")
        data[:, 2:4, :5, 3:] = np.nan
        quarry.write(self.path, {"t": data, "u": 2 * data}, lossless=True)
        shutil.copytree(self.path, self.twin)
        qt.succeed("quarry", "pack", self.path)
        self.assertEqual([path.name for path in (self.path / "steps").glob("pack*")], ["pack-0_1x5.qsp"])

    def assert_same(self):
        with quarry.open(self.path) as packed, quarry.open(self.twin) as plain:
            self.assertEqual(list(packed), list(plain))
            self.assertEqual(packed.steps, plain.steps)
            for name in plain:
                np.testing.assert_array_equal(packed[name][:], plain[name][:])
                np.testing.assert_array_equal(packed[name][-1, 1:4, ::2], plain[name][-1, 1:4, ::2])
                self.assertEqual(str(packed[name].steps), str(plain[name].steps))
        qt.succeed("quarry", "verify", self.path)

    def test_arrays_and_xarray(self):
        self.assert_same()
        engine = QuarryBackendEntrypoint
        with xarray.open_dataset(self.path, engine=engine) as packed, xarray.open_dataset(self.twin, engine=engine) as plain:
            xarray.testing.assert_identical(packed.load(), plain.load())

    def test_an_open_dataset_goes_on(self):
        with quarry.open(self.path) as packed, quarry.open(self.twin) as plain:
            first = packed["t"][0]
            qt.succeed("quarry", "pack", self.path, "--unpack")
            np.testing.assert_array_equal(first, plain["t"][0])
            np.testing.assert_array_equal(packed["t"][3], plain["t"][3])
            qt.succeed("quarry", "pack", self.path)
            np.testing.assert_array_equal(packed["u"][:], plain["u"][:])

    def test_changes(self):
        for path in (self.path, self.twin):
            quarry.delete(path, steps=[1, 4])
        self.assert_same()
        qt.succeed("quarry", "pack", self.path)
        for path in (self.path, self.twin):
            quarry.delete(path, fields="u")
        self.assert_same()
        qt.succeed("quarry", "pack", self.path)
        more = np.ones((2, *SHAPE), "f4")
        for path in (self.path, self.twin):
            quarry.write(path, {"t": more}, lossless=True, mode="append")
        self.assert_same()


if __name__ == "__main__":
    qt.main()
