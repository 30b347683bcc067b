"""Missing samples and exact copies: missing samples come back bit by bit, and all others keep the promise; for every
type, from the directory and through the server."""

import json
import shutil

import numpy as np

import quarry_testing as qt

DIMS = (45, 38, 27)
PATCH = ("--patch", "16")
FILES = ("--files", "3")
RANKS = (1, 3, 5)


def answer(target, folder, dtype, *options):
    return qt.get_array(target, folder / "answer.raw", dtype, *options)


def verify_against(target, field, folder, *options):
    """`quarry verify --against` as JSON, with its exit code."""
    source = folder / "source.raw"
    field.tofile(source)
    outcome = qt.run("quarry", "verify", target, "--field", "f", "--against", source, *qt.describe(field), "--json",
                     *options)
    return outcome.code, json.loads(outcome.out)


class Missing(qt.QuarryTest):
    def check_levels(self, dataset, original, tolerance, fill=None):
        """Level 0 keeps the promise; at every level exactly the samples that lie on missing ones are missing."""
        levels = qt.info(dataset)["levels"]
        self.assert_decoded(original, answer(dataset, self.tmp, original.dtype), tolerance, fill)
        for level in range(1, levels):
            with self.subTest(level=level):
                stride = 2**level
                sampled = original[::stride, ::stride, ::stride].ravel()
                decoded = answer(dataset, self.tmp, original.dtype, "--level", level)
                gone = qt.missing(sampled, fill)
                self.assertTrue((qt.bits(sampled)[gone] == qt.bits(decoded)[gone]).all())
                if original.dtype.kind == "f":
                    self.assertTrue(np.isfinite(decoded[~gone]).all())

    def check_described(self, dataset, original, fill=None):
        """Counts, range and sizes in every place that states them."""
        gone = qt.missing(original, fill)
        record = qt.step_manifest(dataset)["fields"][0]
        described = qt.info(dataset)["fields"][0]
        self.assertEqual(int(record["valid"]), original.size - np.count_nonzero(gone))
        self.assertAlmostEqual(described["valid_fraction"], 1 - gone.mean(), places=12)
        if not gone.all():
            self.assertEqual(record["min"], float(original[~gone].min()))
            self.assertEqual(record["max"], float(original[~gone].max()))
        self.assertEqual([record["mask"]["name"]], qt.masks(dataset))
        sizes = [path.stat().st_size for path in sorted((dataset / "masks").rglob("*.qsf"))]
        self.assertEqual([int(file["bytes"]) for file in record["mask"]["subfiles"]], sizes)
        self.assertEqual(int(record["mask"]["bytes"]), sum(sizes))
        self.assertEqual((described["masks"], described["mask_bytes"]), (1, sum(sizes)))
        coverages = [level["coverage"] for level in record["levels"]]
        self.assertEqual(coverages[0], 1)
        self.assertTrue(all(0 <= coverage <= 1 for coverage in coverages), coverages)

    def check_ranks(self, original, *options):
        """Subfiles of field and mask are the same bytes for any number of ranks. Returns one of the datasets."""
        written = {}
        for ranks in RANKS:
            dataset = self.tmp / f"ranks{ranks}.quarry"
            qt.convert(original, dataset, *PATCH, *FILES, *options, ranks=ranks)
            written[ranks] = qt.subfiles(dataset)
            self.assertEqual(len(written[ranks]), 6, "three of the field, three of the mask")
        for ranks in RANKS[1:]:
            self.assertTrue(written[ranks] == written[RANKS[0]], f"{ranks} ranks wrote other bytes")
        return dataset

    def test_real_ocean(self):
        path = qt.shared_data("levitus_climatology.cdf")
        original = qt.netcdf_variable(path, "TEMP").astype("<f4")
        fill = np.float32(-1e10)
        self.assertAlmostEqual(qt.missing(original, fill).mean(), 0.445, places=3)
        source = self.tmp / "temp.raw"
        original.astype(">f4").tofile(source)
        for bound in ([["--tolerance", "0.01", "--codec", name] for name in qt.lossy_coders()]
                      + [["--relative", "1e-3"], ["--lossless"]]):
            with self.subTest(bound=bound):
                dataset = self.tmp / "ocean.quarry"
                qt.succeed(qt.SERIAL_WRITER, source, *qt.describe(original), "--byte-order", "big", "--field", "f",
                           "--fill", "-1e10", *bound, "--output", dataset)
                tolerance = qt.step_manifest(dataset)["fields"][0]["tolerance"]
                self.assertLess(tolerance, 0.04, "the fill value is no part of the range")
                self.check_levels(dataset, original, tolerance, fill)
                self.check_described(dataset, original, fill)
                code, result = verify_against(dataset, original, self.tmp)
                self.assertEqual((code, result["holds"]), (qt.DONE, True), result)
                shutil.rmtree(dataset)

    def test_every_kind_of_missing_sample(self):
        """NaN with all kinds of bits, both infinities and a fill value in one field, as floats of both sizes."""
        for dtype in ("<f4", "<f8"):
            for bound in ([["--relative", "1e-3", "--codec", name] for name in qt.lossy_coders()]
                          + [["--lossless"]]):
                with self.subTest(dtype=dtype, bound=bound):
                    random = qt.random_numbers("kinds", dtype)
                    original = qt.with_holes(qt.turbulent(DIMS, dtype), np.nan)
                    flat = qt.bits(original).reshape(-1)
                    nan = np.flatnonzero(np.isnan(original))
                    flat[nan[::3]] |= random.integers(0, 2**20, len(nan[::3]), dtype=flat.dtype)  # payloads
                    original.flat[nan[1::9]] = np.inf
                    original.flat[nan[2::9]] = -np.inf
                    original.flat[nan[4::9]] = -9999.5
                    original.flat[7] = -0.0
                    dataset = self.check_ranks(original, "--fill", "-9999.5", *bound)
                    tolerance = qt.step_manifest(dataset)["fields"][0]["tolerance"]
                    self.check_levels(dataset, original, tolerance, -9999.5)
                    self.check_described(dataset, original, -9999.5)
                    if bound == ["--lossless"]:
                        self.assertEqual(answer(dataset, self.tmp, dtype).tobytes(), original.tobytes())
                    for ranks in RANKS:
                        shutil.rmtree(self.tmp / f"ranks{ranks}.quarry")

    def test_integers_with_a_fill_value(self):
        for dtype in qt.TYPES[2:]:
            fill = np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else np.iinfo(dtype).max
            original = qt.with_holes(qt.integers(DIMS, dtype), fill)
            bounds = [[]] + [["--tolerance", "3"]] * ("interpolate" in qt.coders())
            for bound in bounds:
                with self.subTest(dtype=dtype, bound=bound):
                    dataset = self.tmp / "filled.quarry"
                    qt.convert(original, dataset, *PATCH, *bound, "--fill", fill)
                    tolerance = qt.step_manifest(dataset)["fields"][0]["tolerance"]
                    self.assertEqual(tolerance, 3 if bound else 0)
                    self.check_levels(dataset, original, tolerance, fill)
                    self.check_described(dataset, original, fill)
                    shutil.rmtree(dataset)

    def test_nothing_valid(self):
        """A field of missing samples only has an empty range, and comes back."""
        original = np.full(DIMS[::-1], np.nan, "<f4")
        for bound in (["--relative", "1e-3"], ["--tolerance", "1"], ["--lossless"]):
            with self.subTest(bound=bound):
                dataset = self.tmp / "nothing.quarry"
                qt.convert(original, dataset, *PATCH, *bound)
                self.check_levels(dataset, original, 0)
                self.check_described(dataset, original)
                record = qt.step_manifest(dataset)["fields"][0]
                self.assertEqual((record["min"], record["max"]), ("Infinity", "-Infinity"))
                code, result = verify_against(dataset, original, self.tmp)
                self.assertEqual((code, result["valid"], result["missing"]), (qt.DONE, 0, original.size))
                qt.get(dataset, self.tmp / "plane.png", "--box", ":,:,3:4")
                shutil.rmtree(dataset)

    def test_one_value_beside_missing_ones(self):
        """A range of zero makes a relative tolerance of zero, with and without holes."""
        original = qt.with_holes(np.full(DIMS[::-1], 2.5, "<f8"), np.nan)
        dataset = self.tmp / "constant.quarry"
        qt.convert(original, dataset, *PATCH, "--relative", "1e-3")
        self.check_levels(dataset, original, 0)

    def test_fill_that_is_not_there(self):
        """Nothing is missing, so there is no mask; the field still keeps its fill value."""
        dataset = self.tmp / "whole.quarry"
        original = qt.turbulent(DIMS)
        qt.convert(original, dataset, *PATCH, "--tolerance", "0.01", "--fill", "-9999")
        plain = self.tmp / "plain.quarry"
        qt.convert(original, plain, *PATCH, "--tolerance", "0.01")
        self.assertEqual(qt.masks(dataset), [])
        self.assertEqual(qt.info(dataset)["fields"][0]["fill"], -9999)
        self.assertTrue(qt.subfiles(dataset) == qt.subfiles(plain))

    def test_verify_notices_what_has_changed(self):
        """A sample that is missing in the source only, in the dataset only, or has other bits."""
        original = qt.with_holes(qt.turbulent(DIMS), np.nan)
        dataset = self.tmp / "run.quarry"
        qt.convert(original, dataset, *PATCH, "--tolerance", "0.01", "--fill", "-9999")
        self.assertEqual(verify_against(dataset, original, self.tmp)[0], qt.DONE)
        valid = int(np.flatnonzero(np.isfinite(original))[0])
        hole = int(np.flatnonzero(np.isnan(original))[0])
        for place, value in ((valid, np.nan), (valid, -9999), (hole, 0), (hole, np.inf), (hole, -9999)):
            with self.subTest(place=place, value=value):
                other = original.copy()
                other.flat[place] = value
                code, result = verify_against(dataset, other, self.tmp)
                self.assertEqual((code, result["holds"]), (qt.CHECK_FAILED, False))


class Sharing(qt.QuarryTest):
    """One folder in masks/ for all steps and fields that miss the same samples."""

    def write(self, dataset, original, *options):
        report = self.tmp / "report.json"
        append = ["--append"] * dataset.exists()
        qt.convert(original, dataset, *append, *options, "--report", report)
        return json.loads(report.read_text())["fields"][0]

    def test_steps_and_fields_share_a_mask(self):
        dataset = self.tmp / "run.quarry"
        holes = [qt.with_holes(qt.turbulent(DIMS, name=n), np.nan) for n in range(3)]
        options = (*PATCH, *FILES, "--tolerance", "0.01")
        first = self.write(dataset, holes[0], *options)
        self.assertGreater(first["mask_bytes"], 0)
        self.assertEqual(first["bytes_out"] - first["mask_bytes"], int(self.record(dataset, 0, 0)["stored_bytes"]))
        before = qt.snapshot(dataset / "masks")
        numbers = qt.integers(DIMS, "<i4")
        self.assertNotIn(77, numbers)
        second = self.write(dataset, holes[1], "--step", "1", "--files", "1")
        third = self.write(dataset, qt.with_holes(numbers, 77), "--field", "g", "--fill", "77")
        self.assertEqual([second["mask_bytes"], third["mask_bytes"]], [0, 0])
        self.assertTrue(qt.snapshot(dataset / "masks") == before, "written again")
        self.assertEqual(qt.masks(dataset), [self.record(dataset, 0, 0)["mask"]["name"]])
        for step, field in ((1, 0), (0, 1)):
            self.assertEqual(self.record(dataset, step, field)["mask"], self.record(dataset, 0, 0)["mask"])

        moved = np.roll(holes[2], 1, axis=2)
        self.assertGreater(self.write(dataset, moved, "--step", "2")["mask_bytes"], 0)
        self.write(dataset, qt.turbulent(DIMS), "--step", "3")
        self.assertEqual(len(qt.masks(dataset)), 2)
        self.assertNotIn("mask", self.record(dataset, 3, 0))
        self.assert_verified(dataset)
        self.assertEqual(qt.info(dataset)["fields"][0]["masks"], 2)
        for step, original in ((0, holes[0]), (1, holes[1]), (2, moved), (3, qt.turbulent(DIMS))):
            self.assert_decoded(original, answer(dataset, self.tmp, "<f4", "--step", step), 0.01)

    def record(self, dataset, step, field):
        return qt.step_manifest(dataset, step)["fields"][field]

    def test_several_steps_in_one_run(self):
        sources = []
        for step in range(3):
            sources.append(self.tmp / f"step{step}.raw")
            qt.with_holes(qt.turbulent(DIMS, name=step), np.nan).tofile(sources[-1])
        dataset = self.tmp / "run.quarry"
        report = self.tmp / "report.json"
        qt.succeed(*qt.mpi_command(3, "quarry-write", *sources, *qt.describe(qt.turbulent(DIMS)), *PATCH, "--field", "f",
                                   "--relative", "1e-3", "--report", report, "--output", dataset))
        self.assertEqual(len(qt.masks(dataset)), 1)
        fields = json.loads(report.read_text())["fields"]
        self.assertEqual([field["mask_bytes"] > 0 for field in fields], [True, False, False])
        self.assert_verified(dataset)

    def test_left_overs_of_a_killed_run(self):
        """A partial mask is removed; a mask that no step names yet is used."""
        dataset = self.tmp / "run.quarry"
        first = qt.with_holes(qt.turbulent(DIMS, name=1), np.nan)
        second = np.roll(first, 1, axis=2)
        qt.convert(first, dataset, *PATCH, "--tolerance", "0.01")
        other = self.tmp / "other.quarry"
        qt.convert(second, other, *PATCH, "--tolerance", "0.01")
        name = qt.masks(other)[0]
        half = dataset / "masks" / ".0123456789abcdef.partial"
        half.mkdir()
        (half / "0000.qsf").write_bytes(b"half")
        shutil.copytree(other / "masks" / name, dataset / "masks" / name)
        before = qt.snapshot(dataset / "masks" / name)
        self.assert_verified(dataset)

        self.assertEqual(self.write(dataset, second, "--step", "1")["mask_bytes"], 0)
        self.assert_no_leftovers(dataset)
        self.assertTrue(qt.snapshot(dataset / "masks" / name) == before)
        self.assert_verified(dataset)
        self.assert_decoded(second, answer(dataset, self.tmp, "<f4", "--step", "1"), 0.01)

    def test_a_damaged_mask_is_not_named_again(self):
        dataset = self.tmp / "run.quarry"
        original = qt.with_holes(qt.turbulent(DIMS), np.nan)
        qt.convert(original, dataset, *PATCH, "--tolerance", "0.01")
        file = dataset / "masks" / qt.masks(dataset)[0] / "0000.qsf"
        data = bytearray(file.read_bytes())
        data[-60] ^= 4  # in the patch table
        file.write_bytes(data)
        source = self.tmp / "again.raw"
        original.tofile(source)
        before = qt.snapshot(dataset)
        outcome = qt.run(qt.SERIAL_WRITER, source, *qt.describe(original), "--field", "f", "--append", "--step", "1",
                         "--output", dataset)
        self.assertEqual(outcome.code, qt.DAMAGED, outcome)
        self.assertEqual(len(outcome.lines_of("quarry-write")), 1, outcome)
        self.assertIn(file.parent.name, outcome.err)
        self.assertTrue(qt.snapshot(dataset) == before, "something has changed")


class Pictures(qt.QuarryTest):
    def test_missing_samples_are_transparent(self):
        original = qt.with_holes(qt.integers((20, 14, 1), "<i2"), -7)
        dataset = self.tmp / "plane.quarry"
        qt.convert(original, dataset, "--patch", "8", "--fill", "-7")
        image = qt.read_png(qt.get(dataset, self.tmp / "plane.png", "--zoom", "2"))
        self.assertEqual(image.shape, (28, 40, 4))
        expected = np.where(original[0, ::-1] == -7, 0, 255)  # y goes up
        self.assertTrue((image[::2, ::2, 3] == expected).all())
        self.assertTrue((image[1::2, 1::2, 3] == expected).all())

        qt.convert(qt.integers((20, 14, 1), "<i2"), self.tmp / "whole.quarry", "--patch", "8")
        image = qt.read_png(qt.get(self.tmp / "whole.quarry", self.tmp / "whole.png"))
        self.assertEqual(image.shape, (14, 20, 3))


class Versions(qt.QuarryTest):
    """A dataset of version 1 can be read, indexed, served and continued."""

    def test_version_1_goes_on(self):
        golden = qt.REPOSITORY / "tests" / "format" / "golden" / "v1" / "golden.quarry"
        dataset = self.tmp / "old.quarry"
        shutil.copytree(golden, dataset)
        before = [qt.get(golden, self.tmp / "before.raw", "--step", step, field="smooth") for step in range(2)]
        dims = tuple(qt.info(golden)["dims"])
        holes = qt.with_holes(qt.smooth(dims), np.nan)
        source = self.tmp / "holes.raw"
        holes.tofile(source)
        append = ["quarry-write", source, *qt.describe(holes), "--append", "--output", dataset]
        qt.succeed(*append, "--field", "smooth", "--step", "2")
        qt.succeed(*append, "--field", "new", "--step", "0", "--lossless")
        qt.succeed("quarry-index", dataset, "--verify", "--rebuild")
        self.assert_verified(dataset)
        versions = [qt.step_manifest(dataset, step)["format_version"] for step in range(3)]
        self.assertEqual(versions, [4, 1, 4], "steps that were touched are written anew")
        record = qt.step_manifest(dataset, 0)["fields"][0]
        self.assertEqual((record["name"], int(record["valid"])), ("smooth", holes.size))
        self.assertEqual([level["coverage"] for level in record["levels"]], [1] * len(record["levels"]))
        described = {field["name"]: field for field in qt.info(dataset)["fields"]}
        self.assertEqual(described["precise"]["valid_fraction"], 1)
        with qt.Server(self.tmp) as server:
            for target in (dataset, server.target(dataset)):
                for step in range(2):
                    after = qt.get(target, self.tmp / "after.raw", "--step", step, field="smooth")
                    self.assertTrue(after == before[step], "old samples have changed")
                decoded = qt.get_array(target, self.tmp / "new.raw", "<f4", "--step", 2, field="smooth")
                self.assert_decoded(holes, decoded, 0.01)
                self.assertTrue(qt.get(target, self.tmp / "new.raw", field="new") == holes.tobytes())


class Exact(qt.QuarryTest):
    """Lossless: bit by bit, for all types and any bits."""

    def test_every_type_from_raw_and_numpy_files(self):
        for dtype in qt.TYPES:
            with self.subTest(dtype=dtype):
                original = qt.make_field(DIMS, dtype, name="exact")
                raw = self.tmp / f"raw-{np.dtype(dtype).name}.quarry"
                options = [] if np.dtype(dtype).kind != "f" else ["--lossless"]
                qt.convert(original, raw, *PATCH, *options)
                self.assertEqual(answer(raw, self.tmp, dtype).tobytes(), original.tobytes())
                described = qt.info(raw)["fields"][0]
                self.assertEqual((described["lossless"], described["codec"], described["max_error"]),
                                 (True, "lossless", 0))
                code, result = verify_against(raw, original, self.tmp)
                self.assertEqual((code, result["different"]), (qt.DONE, 0))
                other = original.copy()
                changed = qt.bits(other).reshape(-1)
                changed[5] ^= changed.dtype.type(1)
                self.assertEqual(verify_against(raw, other, self.tmp)[0], qt.CHECK_FAILED)

                big = original.astype(np.dtype(dtype).newbyteorder(">"))
                np.save(self.tmp / "f.npy", big)
                npy = self.tmp / f"npy-{np.dtype(dtype).name}.quarry"
                qt.succeed(qt.SERIAL_WRITER, self.tmp / "f.npy", *PATCH, *options, "--output", npy)
                self.assertTrue(qt.subfiles(npy) == qt.subfiles(raw), ".npy and .raw give other bytes")
                qt.get(npy, self.tmp / "back.npy", "--level", "1")
                back = np.load(self.tmp / "back.npy")
                self.assertEqual(back.dtype, np.dtype(dtype))
                self.assertEqual(back.tobytes(), original[::2, ::2, ::2].tobytes(), "an exact subsample")
                qt.get(npy, self.tmp / "plane.png", "--box", ":,:,4:5")

    def test_any_bits(self):
        """Random bits: every kind of number and NaN, and nothing to compress."""
        for dtype in ("<f4", "<f8"):
            with self.subTest(dtype=dtype):
                size = int(np.prod(DIMS)) * np.dtype(dtype).itemsize
                original = np.frombuffer(qt.random_numbers("bits", dtype).bytes(size), dtype).reshape(DIMS[::-1])
                dataset = self.tmp / f"{np.dtype(dtype).name}.quarry"
                qt.convert(original, dataset, *PATCH, "--lossless", "--fill", "0")
                self.assertEqual(answer(dataset, self.tmp, dtype).tobytes(), original.tobytes())

    def test_ranks(self):
        original = qt.integers(DIMS, "<i4")
        written = []
        for ranks in RANKS:
            dataset = self.tmp / f"ranks{ranks}.quarry"
            qt.convert(original, dataset, *PATCH, *FILES, ranks=ranks)
            written.append(qt.subfiles(dataset))
        self.assertTrue(written[0] == written[1] == written[2])

    def test_wider_range_than_the_tolerance_needs(self):
        """Integers with a tolerance use a lossy coder, and keep the promise."""
        if "interpolate" not in qt.coders():
            qt.skip("this build has no coder for integers with a tolerance")
        for dtype in qt.TYPES[2:]:
            with self.subTest(dtype=dtype):
                original = qt.integers(DIMS, dtype)
                dataset = self.tmp / f"{np.dtype(dtype).name}.quarry"
                qt.convert(original, dataset, *PATCH, "--relative", "1e-2")
                tolerance = qt.step_manifest(dataset)["fields"][0]["tolerance"]
                self.assert_decoded(original, answer(dataset, self.tmp, dtype), tolerance)
                self.assertEqual(qt.info(dataset)["fields"][0]["codec"], "interpolate")


if __name__ == "__main__":
    qt.main()
