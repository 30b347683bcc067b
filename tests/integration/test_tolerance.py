"""The promise |original - decoded| <= tolerance at every sample, for all layouts and numbers of ranks."""

import itertools
import json

import numpy as np

import quarry_testing as qt

RANKS = (1, 3, 8)
FILES = 3


class Tolerance(qt.QuarryTest):
    def check_promise(self, original, relative, patch, order, codec):
        """Converts with each number of ranks, reads everything back and compares; the subfiles must not
        depend on the number of ranks."""
        low, high = float(original.min()), float(original.max())
        tolerance = relative * (high - low)
        subfiles = {}
        for ranks in RANKS:
            dataset = self.tmp / f"r{relative}-p{patch}-{order}-{codec}-n{ranks}.quarry"
            report = self.tmp / "report.json"
            qt.convert(original, dataset, "--relative", relative, "--patch", patch, "--order", order,
                       "--codec", codec, "--files", FILES, "--report", report, ranks=ranks)
            decoded = qt.get_array(dataset, self.tmp / "whole.raw", original.dtype)
            self.assertEqual(decoded.size, original.size)
            error = qt.largest_error(original, decoded)
            self.assertLessEqual(error, tolerance)
            self.check_records(dataset, report, tolerance, error)
            subfiles[ranks] = qt.subfiles(dataset)
            self.assertEqual(len(subfiles[ranks]), FILES)
        for ranks in RANKS[1:]:
            self.assertEqual(subfiles[ranks], subfiles[RANKS[0]], f"{ranks} ranks wrote other bytes")

    def check_records(self, dataset, report, tolerance, error):
        """Every stated error equals the one measured here."""
        recorded = qt.step_manifest(dataset)["fields"][0]
        described = qt.info(dataset)["fields"][0]
        reported = json.loads(report.read_text())
        for record in (recorded, described, reported):
            self.assertAlmostEqual(record["max_error"], error, delta=1e-12 * tolerance)
        for record in (recorded, described):
            self.assertAlmostEqual(record["tolerance"], tolerance, delta=1e-12 * tolerance)

    def check_all(self, original, short):
        everything = list(itertools.product((1e-2, 1e-3, 1e-4), (32, 64), ("patch", "level", "coarse")))
        cases = everything if qt.FULL else short
        for (relative, patch, order), codec in itertools.product(cases, qt.lossy_coders()):
            with self.subTest(relative=relative, patch=patch, order=order, codec=codec):
                self.check_promise(original, relative, patch, order, codec)

    def test_real_turbulence(self):
        original = np.fromfile(qt.shared_data("wmag91.f32"), "<f4").reshape(91, 91, 91)
        self.check_all(original, [(1e-2, 32, "level"), (1e-4, 64, "patch")])

    def test_made_turbulence(self):
        self.check_all(qt.turbulent((67, 45, 71), "<f4"), [(1e-3, 32, "patch")])

    def test_double_precision(self):
        self.check_all(qt.turbulent((33, 67, 70), "<f8"), [(1e-4, 32, "level")])

    def test_tolerance_below_the_precision_of_the_type(self):
        """A bound at the limit of single precision must hold too."""
        original = qt.turbulent((40, 30, 20)) + np.float32(1000)
        for codec in qt.lossy_coders():
            with self.subTest(codec=codec):
                self.check_promise(original, 1e-7, 16, "patch", codec)

    def test_constant_field(self):
        """A range of zero makes a relative tolerance of zero: nothing may be lost."""
        original = np.full((9, 10, 11), 2.5, "<f4")
        for codec in qt.lossy_coders():
            with self.subTest(codec=codec):
                dataset = self.tmp / f"{codec}.quarry"
                qt.convert(original, dataset, "--relative", 1e-3, "--codec", codec)
                decoded = qt.get_array(dataset, self.tmp / "whole.raw", original.dtype)
                self.assertEqual(decoded.tobytes(), original.tobytes())


if __name__ == "__main__":
    qt.main()
