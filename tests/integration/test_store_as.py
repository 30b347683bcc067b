"""float64 stored as float32: the rounding counts in the tolerance, which holds against the float64 samples."""

import json

import numpy as np

import quarry_testing as qt

DIMS = (37, 22, 13)


def rough(scale=1.0):
    """Samples that float32 cannot hold: rounding changes nearly all of them."""
    generator = qt.random_numbers("store_as")
    return qt.smooth(DIMS, "<f8") * scale + scale * 1e-9 * generator.standard_normal(DIMS[::-1])


class StoreAs(qt.QuarryTest):
    def store(self, field, *options, name="out.quarry", ranks=0):
        dataset = self.tmp / name
        qt.convert(field, dataset, "--store-as", "float32", *options, ranks=ranks)
        return dataset

    def refused(self, field, *options):
        source = self.tmp / "refused.raw"
        field.tofile(source)
        dataset = self.tmp / "refused.quarry"
        outcome = qt.run(qt.SERIAL_WRITER, source, *qt.describe(field), *options, "--output", dataset)
        self.assertEqual(outcome.code, qt.USAGE, outcome)
        self.assertFalse(dataset.exists())
        return outcome.err

    def assert_promise(self, field, dataset, tolerance):
        """The tolerance holds for the float64 samples, and what is recorded is no less than what was lost."""
        decoded = qt.get_array(dataset, self.tmp / "whole.raw", "<f4").reshape(field.shape)
        error = float(np.abs(decoded.astype("<f8") - field).max())
        record = qt.info(dataset)["fields"][0]
        self.assertEqual(record["dtype"], "float32")
        self.assertLessEqual(error, tolerance)
        self.assertLessEqual(error, record["max_error"])
        self.assertLessEqual(record["max_error"], tolerance)
        self.assertGreater(float(np.abs(field.astype("<f4") - field).max()), 0)
        source = self.tmp / "source.raw"
        field.tofile(source)
        verified = qt.run("quarry", "verify", dataset, "--against", source, *qt.describe(field), "--json")
        self.assertEqual(verified.code, qt.DONE, verified)
        self.assertAlmostEqual(json.loads(verified.out)["max_error"], error, delta=1e-15)

    def test_the_tolerance_holds_against_the_source(self):
        field = rough()
        rounding = float(np.abs(field.astype("<f4") - field).max())
        for codec in qt.lossy_coders():
            # Tolerances that leave the coder nearly all, and nearly nothing.
            for factor in (1.0001, 1.5, 3, 1e4):
                with self.subTest(codec=codec, factor=factor):
                    tolerance = factor * rounding
                    dataset = self.store(field, "--tolerance", repr(tolerance), "--codec", codec,
                                         name=f"{codec}-{factor}.quarry")
                    self.assert_promise(field, dataset, tolerance)

    def test_relative_tolerances_are_of_the_range_of_the_source(self):
        field = rough()
        relative = 1e-5
        dataset = self.store(field, "--relative", relative)
        self.assert_promise(field, dataset, relative * (field.max() - field.min()))

    def test_parts_and_ranks_give_the_same_bytes(self):
        field = rough()
        options = ("--tolerance", "1e-6", "--patch", "8", "--files", "2")
        whole = qt.subfiles(self.store(field, *options, name="whole.quarry"))
        parts = qt.subfiles(self.store(field, *options, "--memory", "64KiB", name="parts.quarry"))
        ranks = qt.subfiles(self.store(field, *options, name="ranks.quarry", ranks=3))
        self.assertEqual(whole, parts)
        self.assertEqual(whole, ranks)

    def test_less_is_stored_than_of_float64(self):
        field = rough()
        narrow = self.store(field, "--tolerance", "1e-4", name="narrow.quarry")
        record = qt.step_manifest(narrow)["fields"][0]
        self.assertEqual(int(record["raw_bytes"]), field.nbytes)

    def test_a_tolerance_below_the_rounding_is_refused(self):
        field = rough()
        rounding = float(np.abs(field.astype("<f4") - field).max())
        message = self.refused(field, "--tolerance", repr(0.99 * rounding), "--store-as", "float32")
        self.assertIn("larger tolerance", message)
        self.assertIn(repr(rounding), message)

    def test_lossless_needs_samples_that_float32_holds(self):
        exact = qt.smooth(DIMS, "<f4").astype("<f8")
        dataset = self.store(exact, "--lossless", name="exact.quarry")
        decoded = qt.get_array(dataset, self.tmp / "whole.raw", "<f4").reshape(exact.shape)
        self.assertTrue(np.array_equal(decoded.astype("<f8"), exact))
        exact[3, 2, 1] = 0.1
        message = self.refused(exact, "--lossless", "--store-as", "float32")
        self.assertIn("0.1", message)
        self.assertIn("(1,2,3)", message)
        self.assertIn("leave --lossless out", message)

    def test_values_beyond_float32_are_refused(self):
        field = rough()
        field[5, 4, 3] = -1e39
        message = self.refused(field, "--tolerance", "1e30", "--store-as", "float32")
        self.assertIn("-1e+39", message)
        self.assertIn("(3,4,5)", message)

    def test_missing_samples_stay_missing_and_others_do_not_become_so(self):
        for fill, stored in (("-999.9", np.float32(-999.9)), ("1e300", np.float32(np.nan)), ("nan", np.float32(np.nan))):
            with self.subTest(fill=fill):
                field = rough(100.0)
                field[::3, 1, ::2] = float(fill)
                # Rounds to the stored fill value, and is valid.
                field[1, 1, 1] = float(np.float32(-999.9))
                dataset = self.store(field, "--tolerance", "0.01", "--fill", fill, name=f"fill{fill}.quarry")
                decoded = qt.get_array(dataset, self.tmp / "whole.raw", "<f4").reshape(field.shape)
                lost = np.zeros(field.shape, bool)
                lost[::3, 1, ::2] = True
                self.assertTrue(np.array_equal(qt.bits(decoded[lost]), qt.bits(np.full(lost.sum(), stored))))
                self.assertLessEqual(np.abs(decoded[~lost].astype("<f8") - field[~lost]).max(), 0.01)
                if np.isfinite(stored):
                    self.assertNotEqual(decoded[1, 1, 1], stored)

    def test_other_types_are_refused(self):
        self.assertIn("stores float64", self.refused(qt.integers(DIMS, "<i2"), "--store-as", "float32"))
        field = rough()
        self.assertIn("float32", self.refused(field, "--tolerance", "1", "--store-as", "int8"))

    def test_a_field_of_float32_says_how_it_takes_float64(self):
        field = rough()
        dataset = self.store(field, "--tolerance", "1e-3")
        source = self.tmp / "next.npy"
        np.save(source, field)
        append = ("quarry-write", source, "--field", "f", "--step", "1", "--append", "--output", dataset)
        self.assertIn("--store-as float32", qt.run(*append).err)
        qt.succeed(*append, "--store-as", "float32")
        self.assertEqual(qt.run("quarry", "verify", dataset, "--against", source, "--step", "1").code, qt.DONE)

    def test_a_wrong_type_names_the_option(self):
        source = self.tmp / "double.npy"
        np.save(source, rough())
        raw = self.tmp / "double.raw"
        rough().tofile(raw)
        for arguments in ((source,), (raw, "--dims", "x".join(map(str, DIMS)))):
            with self.subTest(source=arguments[0].name):
                outcome = qt.run(qt.SERIAL_WRITER, *arguments, "--type", "float32", "--tolerance", "1", "--output",
                                 self.tmp / "x.quarry")
                self.assertEqual(outcome.code, qt.USAGE, outcome)
                self.assertIn("--store-as float32", outcome.err)

    def test_a_dry_run_estimates_what_is_stored(self):
        source = self.tmp / "double.npy"
        np.save(source, rough())
        outcome = qt.succeed(qt.SERIAL_WRITER, source, "--store-as", "float32", "--tolerance", "1e-3", "--dry-run",
                             "--output", self.tmp / "x.quarry")
        self.assertIn("float64 as float32", outcome.out)


if __name__ == "__main__":
    qt.main()
