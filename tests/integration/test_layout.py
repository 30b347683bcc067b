"""The layout of the bytes: subfiles of equal size, and previews that read little more than they need."""

import json
import struct

import numpy as np

import quarry_testing as qt

SIZE = 512 if qt.FULL else 128
PATCH = 64 if qt.FULL else 16
FILES = 4
PREVIEW_LEVEL = 3


def table_and_payload(subfile):
    """Bytes of both, by the footer and the header of docs/format.md."""
    begin, size = struct.unpack_from("<QQ", subfile, len(subfile) - 48)
    return size, begin - struct.unpack_from("<I", subfile, 12)[0]


def disc_out_of(field):
    """The field with a round hole in the middle, as land or a cylinder has it."""
    places = np.meshgrid(*(np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in field.shape), indexing="ij", sparse=True)
    return np.where(sum(np.square(place) for place in places) < 0.25, np.nan, field).astype(field.dtype)


class Layout(qt.QuarryTest):
    def balance_of(self, field, aggregation):
        """max/mean of the bytes of the subfiles, and the smallest number of patches in a subfile."""
        dataset = self.tmp / f"{aggregation}.quarry"
        report = self.tmp / "report.json"
        qt.convert(field, dataset, "--relative", 1e-4, "--patch", PATCH, "--files", FILES, "--report", report,
                   "--aggregation", aggregation, ranks=4)
        sizes = [len(data) for data in qt.subfiles(dataset).values()]
        self.assertEqual(len(sizes), FILES)
        balance = json.loads(report.read_text())["bytes_per_file"]
        self.assertEqual(balance["max"], max(sizes))
        self.assertAlmostEqual(balance["mean"], sum(sizes) / FILES, delta=1)
        patches = [int(file["patches"]) for file in qt.step_manifest(dataset)["fields"][0]["subfiles"]]
        return balance["max"] / balance["mean"], min(patches)

    def test_subfiles_of_an_uneven_field(self):
        """Patches that compress very differently still make subfiles of one size."""
        field = qt.uneven((SIZE, SIZE, SIZE))
        balanced, fewest_patches = self.balance_of(field, "balanced")
        equal, _ = self.balance_of(field, "equal")
        print(f"max/mean of subfile bytes: balanced {balanced:.3f}, equal {equal:.3f}", flush=True)
        self.assertGreaterEqual(fewest_patches, 20, "too few patches in a file to say anything")
        self.assertLessEqual(balanced, 1.1)
        self.assertGreater(equal, 1.3)

    def test_metadata_of_the_default_patch(self):
        """Rows, planes and volumes, with holes too: tables and masks take at most 3 % of the bytes, whatever the shape of
        the grid."""
        for dims in ((1_000_000, 1, 1), (1440, 721, 1), (1440, 721, 10), (128, 128, 128)):
            field = qt.turbulent(dims)
            for bound, holes in ((("--relative", 1e-2), False), (("--lossless",), False), (("--relative", 1e-3), True)):
                with self.subTest(dims=dims, bound=bound, holes=holes):
                    dataset = self.tmp / f"{'x'.join(map(str, dims))}{bound[-1]}.quarry"
                    qt.convert(disc_out_of(field) if holes else field, dataset, *bound)
                    files = qt.subfiles(dataset)
                    tables, payload = (sum(sizes) for sizes in zip(*map(table_and_payload, files.values()), strict=True))
                    masks = sum(table_and_payload(data)[1] for name, data in files.items() if name.startswith("masks"))
                    whole = sum(map(len, files.values()))
                    print(f"{dims} {bound}: {tables} of {whole} bytes are tables, {masks} masks", flush=True)
                    self.assertEqual(masks > 0, holes)
                    self.assertEqual(tables + payload + 192 * len(files), whole)
                    self.assertLessEqual(tables + masks, 0.03 * whole)

    def test_a_row_of_numbers_does_not_grow(self):
        """100,000 whole numbers without loss: below their 391 KiB, in one patch. Python and the program agree."""
        row = np.arange(100_000, dtype="<f4")
        np.save(self.tmp / "row.npy", row)
        qt.succeed(qt.SERIAL_WRITER, self.tmp / "row.npy", "--lossless", "--output", self.tmp / "row.quarry")
        self.assertLess(sum(map(len, qt.subfiles(self.tmp / "row.quarry").values())), row.nbytes // 100)
        (grid,) = json.loads((self.tmp / "row.quarry" / "dataset.json").read_text())["grids"]
        self.assertEqual((grid["patch"], grid["levels"]), ([131072, 1, 1], 10))
        qt.succeed("quarry", "get", self.tmp / "row.quarry", "--output", self.tmp / "back.npy")
        np.testing.assert_array_equal(np.load(self.tmp / "back.npy").ravel(), row)
        qt.succeed("quarry", "get", self.tmp / "row.quarry", "--level", 9, "--output", self.tmp / "coarse.npy")
        np.testing.assert_array_equal(np.load(self.tmp / "coarse.npy").ravel(), row[::512])

    def test_the_way_of_the_samples_changes_no_byte(self):
        """Any number of ranks, parts that fit little memory, payload that goes to a temporary file, every exchange,
        placement and reading order: the same subfiles."""
        field = qt.with_holes(qt.turbulent((70, 51, 45)), np.nan)
        ways = [(1, []), (3, []), (1, ["--memory", "1B"]), (4, ["--memory", "1B"]), (3, ["--memory", "200KiB"]),
                (3, ["--exchange", "rank"]), (4, ["--exchange", "3"]), (3, ["--placement", "greedy"]),
                (4, ["--reading", "round-robin", "--memory", "300KiB"]), (4, ["--reading", "direct"]),
                (6, ["--reading", "direct", "--memory", "300KiB"])]
        for number, (bound, order) in enumerate([("--relative", "patch"), ("--tolerance", "level"), ("--tolerance", "coarse")]):
            expected = None
            for ranks, options in ways:
                with self.subTest(bound=bound, order=order, ranks=ranks, options=options):
                    dataset = self.tmp / f"{number}-{ways.index((ranks, options))}.quarry"
                    qt.convert(field, dataset, bound, 1e-3, "--patch", 16, "--files", 3, "--order", order, *options,
                               ranks=ranks)
                    found = {name: data for name, data in qt.snapshot(dataset).items() if name.endswith(".qsf")}
                    expected = expected or found
                    self.assertEqual(found.keys(), expected.keys())
                    self.assertTrue(found == expected, "other bytes")

    def test_a_curve_in_pieces_is_cut_like_a_whole_one(self):
        """40,960 patches: on several ranks two of them decide about the files and the mask, and pass numbers on."""
        field = qt.with_holes(qt.turbulent((64, 32, 20)), np.nan)
        expected = None
        for ranks in (1, 3, 5):
            with self.subTest(ranks=ranks):
                dataset = self.tmp / f"{ranks}.quarry"
                qt.convert(field, dataset, "--tolerance", 1e-3, "--patch", 1, "--files", 7, ranks=ranks)
                found = {name: data for name, data in qt.snapshot(dataset).items() if name.endswith(".qsf")}
                self.assertEqual(len(found), 14, "seven of the samples, seven of the mask")
                expected = expected or found
                self.assertTrue(found == expected, "other bytes")

    def test_preview(self):
        """A coarse level of the whole domain is contiguous: one read per subfile, with almost no extra bytes."""
        field = qt.turbulent((SIZE, SIZE, SIZE))
        for codec in qt.coders():
            with self.subTest(codec=codec):
                bound = {"lossless": [], "interpolate-relative": ["--pointwise-relative", 1e-4]}.get(codec, ["--relative", 1e-4])
                self.check_preview(field, codec, bound, FILES, "level")
        for order in ("level", "coarse"):
            with self.subTest("with a mask", order=order):
                self.check_preview(qt.with_holes(field, np.nan), "wavelet-zfp", ["--relative", 1e-4], 2 * FILES, order)
        with self.subTest(order="coarse"):
            self.check_preview(field, "interpolate", ["--relative", 1e-4], FILES, "coarse")

    def check_preview(self, field, codec, bound, reads, order):
        dataset = self.tmp / f"{codec}-{reads}-{order}.quarry"
        qt.convert(field, dataset, "--codec", codec, *bound, "--patch", PATCH, "--files", FILES,
                   "--order", order, ranks=4)
        options = ["--field", "f", "--level", PREVIEW_LEVEL, "--json"]
        plan = json.loads(qt.succeed("quarry", "plan", dataset, *options).out)
        print("plan:", plan, flush=True)
        self.assertEqual(plan["patches"], (SIZE // PATCH) ** 3)
        self.assertLessEqual(plan["bytes_read"], 1.1 * plan["bytes"])
        self.assertEqual(plan["reads"], reads)
        recorded = qt.step_manifest(dataset)["fields"][0]["levels"]
        needed = sum(int(level["bytes"]) for level in recorded if level["level"] >= PREVIEW_LEVEL)
        if reads == FILES:
            self.assertEqual(plan["bytes"], needed)
        else:
            self.assertGreater(plan["bytes"], needed, "the mask has a price")
        output = self.tmp / "preview.raw"
        answer = json.loads(qt.succeed("quarry", "get", dataset, *options, "--output", output).out)
        self.assertEqual(answer["shape"], [SIZE >> PREVIEW_LEVEL] * 3)
        self.assertEqual(answer["patches"], plan["patches"])


if __name__ == "__main__":
    qt.main()
