"""Guarantees of a field beside the largest error: zeros, signs, and an error that is a fraction of each sample."""

import json

import numpy as np

import quarry_testing as qt

DIMS = (41, 22, 13)
TOLERANCE = 0.2


def waves(dtype="<f4", scale=1.0):
    """Around zero, with zeros in one corner, and samples of many magnitudes."""
    generator = qt.random_numbers("safeguards")
    field = (qt.smooth(DIMS, "<f8") - 0.5) * 10.0 ** generator.uniform(-6, 0, DIMS[::-1])
    field[:6, :9, :20] = 0
    return (scale * field).astype(dtype)


class Safeguards(qt.QuarryTest):
    def store(self, field, *options, name="out.quarry", ranks=0):
        dataset = self.tmp / name
        qt.convert(field, dataset, *options, "--patch", 16, ranks=ranks)
        return dataset

    def level(self, dataset, field, level):
        """Decoded and original samples of a level."""
        decoded = qt.get_array(dataset, self.tmp / "level.raw", field.dtype.str, "--level", level)
        original = field[:: 1 << level, :: 1 << level, :: 1 << level]
        return decoded.reshape(original.shape).astype("<f8"), original.astype("<f8")

    def verified(self, dataset, field):
        source = self.tmp / "against.raw"
        field.tofile(source)
        return qt.run("quarry", "verify", dataset, "--against", source, *qt.describe(field), "--json")

    def test_zeros_stay_zero(self):
        for field, tolerance in ((waves(), TOLERANCE), (waves("<i2", 300), 60)):
            dataset = self.store(field, "--tolerance", tolerance, "--keep-zeros", name=f"zeros-{field.dtype}.quarry")
            plain = self.store(field, "--tolerance", tolerance, name=f"plain-{field.dtype}.quarry")
            for level in (0, 1, 2):
                decoded, original = self.level(dataset, field, level)
                self.assertLessEqual(np.abs(decoded - original).max(), tolerance)
                self.assertTrue((decoded[original == 0] == 0).all())
            self.assertEqual(qt.info(dataset)["fields"][0]["codec"], "interpolate-zeros")
            self.assertEqual(self.verified(dataset, field).code, qt.DONE)
            self.assertEqual(self.verified(plain, field).code, qt.DONE, "which promises nothing of zeros")

    def test_signs_stay(self):
        field = waves()
        plain, original = self.level(self.store(field, "--tolerance", TOLERANCE, name="plain.quarry"), field, 0)
        self.assertFalse((np.sign(plain) == np.sign(original)).all(), "otherwise this test shows nothing")
        dataset = self.store(field, "--tolerance", TOLERANCE, "--keep-sign")
        for level in (0, 1, 2):
            decoded, original = self.level(dataset, field, level)
            self.assertLessEqual(np.abs(decoded - original).max(), TOLERANCE)
            self.assertTrue((np.sign(decoded) == np.sign(original)).all())
        self.assertEqual(self.verified(dataset, field).code, qt.DONE)

    def test_each_sample_is_within_a_fraction_of_itself(self):
        for dtype in ("<f4", "<f8"):
            for relative in (0.1, 1e-4):
                field = waves(dtype)
                dataset = self.store(field, "--pointwise-relative", relative, name=f"{dtype[1:]}-{relative}.quarry")
                for level in (0, 1, 2):
                    decoded, original = self.level(dataset, field, level)
                    self.assertTrue((np.abs(decoded - original) <= relative * np.abs(original)).all())
                    self.assertTrue((np.sign(decoded) == np.sign(original)).all())
                record = qt.info(dataset)["fields"][0]
                self.assertEqual(record["pointwise_relative_tolerance"], relative)
                self.assertEqual(record["tolerance"], relative * float(np.abs(field).max()))
                self.assertLessEqual(record["max_error"], record["tolerance"])
                self.assertIn(f"({relative:.5g} of each sample)", qt.succeed("quarry", "info", dataset).out)
                verified = self.verified(dataset, field)
                self.assertEqual((verified.code, json.loads(verified.out)["kept"]), (qt.DONE, True))

    def test_verify_finds_a_sample_that_is_not_kept(self):
        field = waves()
        for options in (("--tolerance", TOLERANCE, "--keep-zeros"), ("--tolerance", TOLERANCE, "--keep-sign"),
                        ("--pointwise-relative", 0.1)):
            dataset = self.store(field, *options, name=f"{len(options)}{options[-1]}.quarry")
            other = field.copy()
            other[np.unravel_index(np.argmax(self.level(dataset, field, 0)[0] != 0), field.shape)] = 0
            outcome = self.verified(dataset, other)
            self.assertEqual((outcome.code, json.loads(outcome.out)["kept"]), (qt.CHECK_FAILED, False), options)

    def test_parts_ranks_and_servers_give_the_same(self):
        field = waves()
        options = ("--pointwise-relative", 1e-2, "--files", 2)
        whole = self.store(field, *options, name="whole.quarry")
        parts = self.store(field, *options, "--memory", "64KiB", name="parts.quarry")
        ranks = self.store(field, *options, name="ranks.quarry", ranks=3)
        self.assertEqual(qt.subfiles(whole), qt.subfiles(parts))
        self.assertEqual(qt.subfiles(whole), qt.subfiles(ranks))
        box = ("--box", "3:30,1:20,2:11")
        direct = qt.get(whole, self.tmp / "direct.raw", *box)
        with qt.Server(self.tmp, "--quiet") as server:
            for encoding in ("samples", "patches"):
                self.assertEqual(qt.get(server.target("whole"), self.tmp / "served.raw", *box, "--encoding", encoding), direct)

    def test_missing_samples_are_none_of_the_zeros(self):
        field = qt.with_holes(waves(), np.nan)
        for options in (("--tolerance", TOLERANCE, "--keep-sign"), ("--pointwise-relative", 0.01)):
            dataset = self.store(field, *options, name=f"holes{len(options)}.quarry")
            decoded = self.level(dataset, field, 0)[0]
            self.assertTrue((np.isnan(decoded) == np.isnan(field)).all())
            self.assertTrue((np.sign(decoded) == np.sign(field))[~np.isnan(field)].all())

    def test_a_field_goes_on_as_it_began(self):
        field = waves()
        dataset = self.store(field, "--pointwise-relative", 0.01)
        qt.convert(2 * field, dataset, "--append", "--step", 1)
        decoded = qt.get_array(dataset, self.tmp / "next.raw", "<f4", "--step", 1).reshape(field.shape)
        self.assertTrue((np.abs(decoded - 2 * field) <= 0.02 * np.abs(field)).all())
        source = self.tmp / "f.raw"
        field.tofile(source)
        self.assert_one_line(qt.run(qt.SERIAL_WRITER, source, *qt.describe(field), "--field", "f", "--append", "--step", 2,
                                    "--pointwise-relative", 0.02, "--output", dataset), qt.USAGE, "0.02", "of each sample")

    def test_what_does_not_go_together(self):
        field = waves("<f8")
        source = self.tmp / "f.raw"
        field.tofile(source)
        for options, *mentions in (
                (("--pointwise-relative", 1), "between 0 and 1"),
                (("--pointwise-relative", 0.1, "--tolerance", 1), "--pointwise-relative"),
                (("--keep-sign",), "no error bound"),
                (("--keep-sign", "--tolerance", 1, "--codec", "interpolate"), "--keep-sign", "--codec"),
                (("--keep-zeros", "--layers", "1,0.1"), "--keep-zeros", "layers"),
                (("--codec", "interpolate-relative", "--tolerance", 1), "interpolate-relative"),
                (("--codec", "interpolate", "--pointwise-relative", 0.1), "--pointwise-relative", "interpolate"),
                (("--keep-sign", "--tolerance", 1, "--store-as", "float32"), "--store-as")):
            outcome = qt.run(qt.SERIAL_WRITER, source, *qt.describe(field), *options, "--output", self.tmp / "no.quarry")
            self.assert_one_line(outcome, qt.USAGE, *mentions)
            self.assertFalse((self.tmp / "no.quarry").exists())
        kept = self.store(field, "--lossless", "--keep-sign", name="kept.quarry")
        self.assertEqual(qt.info(kept)["fields"][0]["codec"], "lossless")


if __name__ == "__main__":
    qt.main()
