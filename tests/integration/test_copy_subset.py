"""quarry cp with --box, --region, --level and --recode: samples are read and coded anew. What is right, numpy says of the
samples that `quarry get` writes, and netCDF4-python of the positions in the source."""

import json

import numpy as np
import quarry_testing as qt
import test_grids as grids
from object_stores import Handler, Store, WritableS3Handler

DIMS = (44, 35, 26)
STEPS = range(3)
BOX = ((5, 3, 2), (41, 30, 23))  # begins within patches
BOX_TEXT = qt.box_text(*BOX)


def samples(target, field, step, *options, folder, dtype="<f4", env=None):
    """As `quarry get` writes them, with their shape [z, y, x]."""
    output = folder / "out.npy"
    qt.succeed("quarry", "get", target, "--output", output, "--field", field, "--step", step, *options, env=env or {})
    found = np.load(output)
    assert found.dtype == np.dtype(dtype), found.dtype
    return found


def in_box(whole, begin=BOX[0], end=BOX[1], stride=1):
    """The samples of a level whose position lies in a box."""
    ranges = [slice(-(-b // stride) * stride, e, stride) for b, e in zip(begin, end)]
    return whole[tuple(reversed(ranges))]


class Subsets(qt.QuarryTest):
    """A dataset of a field without and one with missing samples."""

    TOLERANCE = 1e-3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.shared / "run.quarry"
        for step in STEPS:
            for name in "ab":
                qt.convert(cls.field(name, step), cls.source, "--tolerance", cls.TOLERANCE, "--patch", 16, "--field", name,
                           "--step", step, "--time", step / 4, "--spacing", "0.5,1,2", "--origin", "10,20,30",
                           *["--append"] * cls.source.exists())

    @staticmethod
    def field(name, step):
        field = qt.make_field(DIMS, "<f4", name=f"{name}{step}")
        return qt.with_holes(field, np.nan, name=step) if name == "b" else field

    def cp(self, source, target, *options, env=None):
        return json.loads(qt.succeed("quarry", "cp", source, target, "--json", *options, env=env or {}).out)

    def get(self, target, field, step, *options, **keywords):
        return samples(target, field, step, *options, folder=self.tmp, **keywords)

    def assert_same_samples(self, target, stride=1, steps=STEPS, fields="ab", env=None):
        """The copy has the samples of the box, bit by bit."""
        for field in fields:
            for step in steps:
                wanted = in_box(self.get(self.source, field, step), stride=stride)
                got = self.get(target, field, step, env=env)
                self.assertEqual(got.shape, wanted.shape)
                np.testing.assert_array_equal(qt.bits(got), qt.bits(wanted))


class Directories(Subsets):
    def test_a_box_has_the_same_samples_and_places(self):
        target = self.tmp / "box.quarry"
        report = self.cp(self.source, target, "--box", BOX_TEXT)
        self.assertEqual((report["steps"], report["there"], report["dry_run"]), (3, 0, False))
        shape = np.subtract(BOX[1], BOX[0])
        self.assertEqual(report["samples"], 2 * 3 * int(np.prod(shape)))
        self.assertEqual(report["sample_bytes"], 4 * report["samples"])
        self.assert_verified(target)
        self.assert_same_samples(target)
        described = qt.info(target)
        grid = described["grids"][0]
        self.assertEqual((grid["dims"], grid["origin"], grid["spacing"]), (list(shape), [12.5, 23, 34], [0.5, 1, 2]))
        self.assertEqual(described["times"], qt.info(self.source)["times"])
        self.assert_no_leftovers(self.tmp)

    def test_a_level_becomes_level_0(self):
        for level, stride in ((1, 2), (3, 8)):
            target = self.tmp / f"level{level}.quarry"
            self.cp(self.source, target, "--box", BOX_TEXT, "--level", level)
            self.assert_verified(target)
            self.assert_same_samples(target, stride)
            grid = qt.info(target)["grids"][0]
            self.assertEqual(grid["spacing"], [0.5 * stride, stride, 2 * stride])
            first = [-(-begin // stride) * stride for begin in BOX[0]]
            self.assertEqual(grid["origin"], [10 + 0.5 * first[0], 20 + first[1], 30 + 2 * first[2]])

    def test_recoding_adds_no_more_error_than_it_may(self):
        exact = self.cp(self.source, self.tmp / "exact.quarry", "--box", BOX_TEXT)
        for recode, most in (("2x", 2), ("0.004", 5)):
            target = self.tmp / f"recode{most}.quarry"
            report = self.cp(self.source, target, "--box", BOX_TEXT, "--recode", recode)
            self.assertLess(report["bytes"], exact["bytes"] / 2)
            self.assert_verified(target)
            worst = 0
            for field in "ab":
                for step in STEPS:
                    wanted = in_box(self.field(field, step))
                    got = self.get(target, field, step)
                    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
                    worst = max(worst, np.nanmax(np.abs(got.astype("f8") - wanted)))
            self.assertLessEqual(worst, most * self.TOLERANCE)
            self.assertGreater(worst, self.TOLERANCE)

    def test_each_field_says_where_it_comes_from(self):
        target = self.tmp / "box.quarry"
        self.cp(self.source, target, "--box", BOX_TEXT, "--level", "1", "--fields", "a", "--steps", "1:2")
        described = qt.info(target)
        self.assertEqual((described["steps"], [field["name"] for field in described["fields"]]), ([1], ["a"]))
        said = described["fields"][0]["attributes"]["quarry_source"]
        for word in ("level 1", "[5:41,3:30,2:23)", '"run.quarry"', "tolerance 0.001"):
            self.assertIn(word, said)
        # A copy of a copy says both.
        again = self.tmp / "again.quarry"
        self.cp(target, again, "--level", "1")
        self.assertIn(f"that was {said}", qt.info(again)["fields"][0]["attributes"]["quarry_source"])

    def test_it_goes_on_where_it_ended(self):
        whole, parts = self.tmp / "whole.quarry", self.tmp / "parts.quarry"
        options = ("--box", BOX_TEXT, "--recode", "2x")
        self.cp(self.source, whole, *options)
        self.cp(self.source, parts, "--steps", ":1", *options)
        self.assertEqual(self.cp(self.source, parts, *options)["there"], 1)
        self.assertEqual(self.cp(self.source, parts, *options)["there"], 3)
        self.assertEqual(qt.subfiles(parts), qt.subfiles(whole))
        # Another field of steps that are there.
        self.cp(self.source, self.tmp / "fields.quarry", "--fields", "b", *options)
        self.cp(self.source, self.tmp / "fields.quarry", *options)
        self.assert_verified(self.tmp / "fields.quarry")
        self.assertEqual(len(qt.subfiles(self.tmp / "fields.quarry")), len(qt.subfiles(whole)))

    def test_samples_of_elsewhere_are_not_mixed(self):
        target = self.tmp / "box.quarry"
        self.cp(self.source, target, "--box", "0:16,0:16,0:16", "--steps", "0:1")
        before = qt.snapshot(target)
        for options in (("--box", "16:32,0:16,0:16"), ("--box", "0:16,0:16,0:16", "--recode", "2x"),
                        ("--box", "0:32,0:32,0:26", "--level", "1")):
            self.assert_one_line(qt.run("quarry", "cp", self.source, target, *options), qt.USAGE, "box.quarry")
        # Other samples under the same name and in the same steps.
        other = self.tmp / "other" / "run.quarry"
        other.parent.mkdir()
        qt.convert(self.field("a", 7), other, "--tolerance", self.TOLERANCE, "--patch", 16, "--field", "a", "--time", 0,
                   "--spacing", "0.5,1,2", "--origin", "10,20,30")
        part = self.tmp / "part.quarry"
        self.cp(self.source, part, "--box", "0:16,0:16,0:16", "--fields", "a")
        whole = qt.snapshot(part)
        self.assert_one_line(qt.run("quarry", "cp", other, part, "--box", "0:16,0:16,0:16"), qt.USAGE, "step 0", "other samples")
        self.assertEqual(qt.snapshot(part), whole)
        # The same samples under another name.
        moved = self.tmp / "moved.quarry"
        moved.symlink_to(self.source)
        self.assertEqual(self.cp(moved, part, "--box", "0:16,0:16,0:16", "--fields", "a")["there"], 3)
        self.assertEqual(qt.snapshot(target), before)

    def test_zeros_stay_zeros(self):
        field = self.field("a", 0)
        field[np.abs(field) < 0.3] = 0
        source, target = self.tmp / "zeros.quarry", self.tmp / "copy.quarry"
        qt.convert(field, source, "--tolerance", self.TOLERANCE, "--keep-zeros")
        self.cp(source, target, "--recode", "2x")
        got = self.get(target, "f", 0)
        np.testing.assert_array_equal(got[field == 0], 0)
        self.assertLessEqual(np.abs(got - field).max(), 2 * self.TOLERANCE)

    def test_questions_without_an_answer_write_nothing(self):
        target = self.tmp / "none.quarry"
        for code, words, *options in (
                (qt.USAGE, "outside", "--box", "0:45,0:1,0:1"), (qt.USAGE, "level 3 has no sample", "--box", "1:2,1:2,1:2", "--level", "3"),
                (qt.NOT_FOUND, '"run.quarry" has no field "c"', "--box", BOX_TEXT, "--fields", "c"), (qt.NOT_FOUND, "no such step", "--level", "1", "--steps", "7:"),
                (qt.USAGE, "there is no level 5", "--level", "5"), (qt.USAGE, "--allow-damage", "--level", "1", "--allow-damage"), (qt.USAGE, "--recode", "--recode", "half"),
                (qt.USAGE, 'no axis "lat"', "--region", "lat=0:1")):
            self.assert_one_line(qt.run("quarry", "cp", self.source, target, *options), code, words)
            self.assertFalse(target.exists())
        self.assert_no_leftovers(self.tmp)

    def test_a_file_in_the_place_stays(self):
        file = self.tmp / "notes.quarry"
        file.write_text("mine")
        for options in ((), ("--level", "1")):
            self.assert_one_line(qt.run("quarry", "cp", self.source, file, *options), qt.USAGE, "notes.quarry", "is a file")
        self.assertEqual(file.read_text(), "mine")
        for target, words in ((self.source, "copied to itself"), (self.source / "part.quarry", "lies in the dataset")):
            for options in ((), ("--level", "1")):
                self.assert_one_line(qt.run("quarry", "cp", self.source, target, *options), qt.USAGE, words)
        empty = self.tmp / "empty.quarry"
        empty.mkdir()
        self.assert_one_line(qt.run("quarry", "cp", self.source, empty, "--level", "1"), qt.USAGE, "empty.quarry", "is there")

    def test_a_dry_run_writes_nothing(self):
        target = self.tmp / "box.quarry"
        said = self.cp(self.source, target, "--box", BOX_TEXT, "--dry-run")
        self.assertFalse(target.exists())
        self.assertIsNone(said["bytes"])
        done = self.cp(self.source, target, "--box", BOX_TEXT)
        self.assertEqual((said["steps"], said["sample_bytes"], said["dry_run"]), (done["steps"], done["sample_bytes"], True))
        again = self.cp(self.source, target, "--box", BOX_TEXT, "--dry-run")
        self.assertEqual((again["there"], again["samples"]), (3, 0))
        self.assert_one_line(qt.run("quarry", "cp", self.source, target, "--level", "1", "--dry-run"), qt.USAGE, "other samples")

    def test_damage_ends_it(self):
        damaged = self.tmp / "damaged.quarry"
        qt.succeed("quarry", "cp", self.source, damaged)
        path = damaged / "steps" / "000001" / "a" / "0000.qsf"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        target = self.tmp / "box.quarry"
        self.assert_one_line(qt.run("quarry", "cp", damaged, target, "--level", "0"), qt.DAMAGED, "step 1", "a")
        # The step before is whole, and the copy goes on once the source is whole again.
        self.assertEqual(qt.info(target)["steps"], [0])
        self.assert_verified(target)
        self.assertEqual(self.cp(self.source, self.tmp / "other.quarry", "--level", "0")["steps"], 3)

    def test_little_memory_gives_the_same_samples(self):
        target = self.tmp / "box.quarry"
        self.cp(self.source, target, "--box", BOX_TEXT, "--memory", "1MiB")
        self.assert_same_samples(target)


class Places(Subsets):
    def test_from_a_server(self):
        target = self.tmp / "box.quarry"
        with qt.Server(self.source.parent) as server:
            self.cp(server.target("run"), target, "--box", BOX_TEXT, "--steps", "1:")
            plain = qt.run("quarry", "cp", server.target("run"), self.tmp / "whole.quarry")
            self.assert_one_line(plain, qt.USAGE, "--level 0")
        self.assert_same_samples(target, steps=(1, 2))

    def test_from_and_to_a_store(self):
        (self.tmp / "store" / "bucket").mkdir(parents=True)
        with Store(self.tmp / "store", WritableS3Handler) as store:
            env = store.environment()
            qt.succeed("quarry", "cp", self.source, "s3://bucket/run.quarry", env=env)
            self.cp("s3://bucket/run.quarry", "s3://bucket/box.quarry", "--box", BOX_TEXT, env=env)
            self.assert_same_samples("s3://bucket/box.quarry", env=env)


    def test_a_signature_is_not_kept(self):
        target = self.tmp / "box.quarry"
        with Store(self.source.parent, Handler) as web:
            self.cp(f"{web.url}/run.quarry?sig=very-secret", target, "--box", BOX_TEXT, "--steps", "0:1")
            # Another signature is for the same dataset.
            self.assertEqual(self.cp(f"{web.url}/run.quarry?sig=next", target, "--box", BOX_TEXT)["there"], 1)
        self.assertNotIn("very-secret", qt.succeed("quarry", "info", target, "--json").out)
        self.assertNotIn(b"very-secret", b"".join(data for data in qt.snapshot(target).values() if data))
        self.assertIn('"run.quarry"', qt.info(target)["fields"][0]["attributes"]["quarry_source"])
        self.assert_same_samples(target)


class Types(qt.QuarryTest):
    def test_types_and_coders(self):
        """Samples come back as `get` has them of the source, also those of coarse levels that are filtered."""
        cases = [(dtype, ["--lossless"]) for dtype in (*qt.TYPES, "<i8", "<u8")]
        cases += [("<f4", ["--codec", coder, "--tolerance", "0.01"]) for coder in qt.lossy_coders()]
        cases += [("<f8", ["--pointwise-relative", "1e-3"]), ("<f4", ["--layers", "0.1,0.01,exact"]),
                  ("<i2", ["--tolerance", "3", "--fill", "-32768"])]
        for number, (dtype, options) in enumerate(cases):
            with self.subTest(dtype=dtype, options=options):
                field = qt.make_field((21, 18, 9), dtype, name=f"type{number}")
                source, target = self.tmp / f"{number}.quarry", self.tmp / f"{number}-copy.quarry"
                qt.convert(field, source, "--patch", 8, *options)
                qt.succeed("quarry", "cp", source, target, "--level", 1, "--box", "3:20,1:18,0:9")
                wanted = samples(source, "f", 0, "--level", 1, "--box", "3:20,1:18,0:9", folder=self.tmp, dtype=dtype)
                got = samples(target, "f", 0, folder=self.tmp, dtype=dtype)
                np.testing.assert_array_equal(qt.bits(got), qt.bits(wanted))
                self.assert_verified(target)

    def test_an_added_error_leaves_exact_fields_exact(self):
        target, source = self.tmp / "copy.quarry", self.tmp / "mixed.quarry"
        ids = qt.make_field((16, 12, 8), "<i8", name="ids")
        qt.convert(ids, source, "--field", "ids")
        qt.convert(qt.make_field((16, 12, 8), "<f4", name="f"), source, "--lossless", "--append")
        qt.succeed("quarry", "cp", source, target, "--recode", "0.01")
        np.testing.assert_array_equal(samples(target, "ids", 0, folder=self.tmp, dtype="<i8"), ids)
        self.assertGreater(np.ptp(samples(target, "f", 0, folder=self.tmp) - samples(source, "f", 0, folder=self.tmp)), 0)

    def test_booleans_half_floats_and_complex_samples_stay_what_they_are(self):
        numbers = qt.random_numbers("kinds")
        values = numbers.standard_normal((9, 12, 17))
        kinds = {"bool": values > 0, "half": values.astype("<f2"), "wave": (values + 1j * values[::-1]).astype("<c8")}
        for name, field in kinds.items():
            with self.subTest(name):
                np.save(self.tmp / f"{name}.npy", field)
                source, target = self.tmp / f"{name}.quarry", self.tmp / f"{name}-copy.quarry"
                qt.succeed("quarry-write", self.tmp / f"{name}.npy", "--field", name, "--lossless", "--output", source)
                qt.succeed("quarry", "cp", source, target, "--box", "2:15,0:12,3:9")
                for said in qt.info(source)["fields"]:
                    part = said["name"]
                    wanted = np.frombuffer(qt.get(source, self.tmp / "a.raw", "--box", "2:15,0:12,3:9", field=part), "u1")
                    got = np.frombuffer(qt.get(target, self.tmp / "b.raw", field=part), "u1")
                    np.testing.assert_array_equal(got, wanted)
                same = [{key: field[key] for key in ("name", "dtype") if key in field} for field in qt.info(target)["fields"]]
                self.assertEqual(same, [{key: field[key] for key in ("name", "dtype") if key in field}
                                        for field in qt.info(source)["fields"]])

    def test_complex_samples_are_copied_with_both_parts(self):
        source, target = self.tmp / "wave.quarry", self.tmp / "copy.quarry"
        np.save(self.tmp / "wave.npy", np.ones((4, 4, 4), "<c8"))
        qt.succeed("quarry-write", self.tmp / "wave.npy", "--field", "wave", "--lossless", "--output", source)
        one, other = (field["name"] for field in qt.info(source)["fields"])
        for options in ((), ("--box", "0:2,0:2,0:2")):
            with self.subTest(options=options):
                outcome = qt.run("quarry", "cp", source, target, "--fields", one, *options)
                self.assertEqual(outcome.code, qt.USAGE, outcome)
                self.assertIn(f'field "{one}" is a part of complex "wave", as is "{other}"; copy both', outcome.err)
                self.assertFalse(target.exists())


class SeveralGrids(qt.QuarryTest):
    """Fields of several shapes whose axes have names."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        file = grids.write_source(cls.shared / "ocean.nc")
        cls.source = cls.shared / "ocean.quarry"
        qt.succeed("quarry-write", *grids.each(file, ("temp", "ssh", "area", "profile")), "--tolerance", grids.TOLERANCE,
                   "--patch", 16, "--output", cls.source)

    def test_axes_of_one_name_are_cut_alike(self):
        target = self.tmp / "part.quarry"
        # lon 25 to 60, lat 10 to -50 in steps of 4 from 54, depth all.
        qt.succeed("quarry", "cp", self.source, target, "--region", "lon=25:60,lat=-50:10", "--level", 1)
        lon, lat = grids.POSITIONS["lon"], grids.POSITIONS["lat"]
        x = [i for i in np.flatnonzero((lon >= 25) & (lon <= 60)) if i % 2 == 0]
        y = [i for i in np.flatnonzero((lat >= -50) & (lat <= 10)) if i % 2 == 0]
        described = qt.info(target)
        for name in ("temp", "ssh", "area", "profile"):
            wanted = samples(self.source, name, 0, folder=self.tmp)
            if name == "profile":
                wanted = wanted[..., ::2]  # the last axis of a field is x
            else:
                wanted = wanted[..., y, :][..., x]
            if name == "temp":
                wanted = wanted[::2]
            np.testing.assert_array_equal(samples(target, name, 0, folder=self.tmp), wanted, name)
        temp = described["grids"][next(field["grid"] for field in described["fields"] if field["name"] == "temp")]
        self.assertEqual(temp["axis_names"], ["lon", "lat", "depth"])
        np.testing.assert_array_equal(temp["coordinates"][2], grids.POSITIONS["depth"][::2])
        self.assertEqual((temp["origin"][0], temp["spacing"][0], temp["dims"][0]), (lon[x[0]], 5.0, len(x)))
        self.assertEqual((temp["origin"][1], temp["spacing"][1], temp["dims"][1]), (lat[y[0]], -8.0, len(y)))
        # Fields that do not change with time add no step.
        self.assertEqual(described["steps"], [0, 1, 2])

    def test_fields_that_do_not_change_are_copied_for_any_steps(self):
        y, x = np.mgrid[0:20, 0:31]
        with grids.module("netCDF4").Dataset(self.tmp / "a.nc", "w") as file:
            for name, length in (("time", 3), ("y", 20), ("x", 31)):
                file.createDimension(name, length)
            for name, values in (("lat", 1.5 * y + 0.1 * x), ("lon", 2.0 * x + 0.05 * y)):
                file.createVariable(name, "f4", ("y", "x"))[:] = values
            sst = file.createVariable("sst", "f4", ("time", "y", "x"))
            sst.coordinates = "lat lon"
            sst[:] = np.random.default_rng(1).random((3, 20, 31))
        source = self.tmp / "curved.quarry"
        qt.succeed("quarry-write", f"{self.tmp / 'a.nc'}:sst", "--relative", "1e-3", "--output", source)
        for number, options in enumerate((("--fields", "lat,lon", "--steps", "1:"), ("--fields", "lat,lon"), ("--steps", "1:2"), ())):
            target = self.tmp / f"{number}.quarry"
            qt.succeed("quarry", "cp", source, target, "--box", "3:20,2:15", *options)
            steps = qt.info(target)["steps"]
            self.assertEqual(len(steps), (1, 1, 1, 3)[number])
            for field in ("lat", "lon"):
                np.testing.assert_array_equal(samples(target, field, steps[0], folder=self.tmp),
                                              samples(source, field, 0, folder=self.tmp)[:, 2:15, 3:20])

    def test_a_box_on_two_grids_is_refused(self):
        both = self.tmp / "both.quarry"
        file = grids.write_source(self.tmp / "both.nc", ("temp", "u"))
        qt.succeed("quarry-write", *grids.each(file, ("temp", "u")), "--tolerance", grids.TOLERANCE, "--output", both)
        target = self.tmp / "part.quarry"
        self.assert_one_line(qt.run("quarry", "cp", both, target, "--box", "0:9,0:9,0:9"), qt.USAGE, '"u"', "another grid", "--fields")
        qt.succeed("quarry", "cp", both, target, "--box", "0:9,0:9,0:9", "--fields", "u")
        # A level needs no box, and suits all grids.
        qt.succeed("quarry", "cp", both, self.tmp / "level.quarry", "--level", 2)


if __name__ == "__main__":
    qt.main()
