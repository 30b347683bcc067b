"""`--max-error E`: the answer, interpolated as in docs/format.md, is nowhere further than E from the original, and a
larger E never costs more. From the directory and through the server."""

import json
from typing import NamedTuple

import numpy as np

import quarry_testing as qt

PATCH = 32
RELATIVE = 1e-3


class Case(NamedTuple):
    """A dataset and what it was made from."""

    path: object
    original: np.ndarray  # [z, y, x]; NaN where missing
    levels: int

    @property
    def dims(self):
        return self.original.shape[::-1]


# --- docs/format.md, "Error record" ---


def extend(samples, axis):
    """One more sample after the last along an axis: 2a - b, a copy of the one that exists, or NaN."""
    last = samples.take([-1], axis)
    before = samples.take([-2], axis) if samples.shape[axis] > 1 else np.full_like(last, np.nan)
    new = np.where(np.isnan(last), before, np.where(np.isnan(before), last, 2 * last - before))
    return np.concatenate([samples, new], axis)


def interpolate(samples, shape, level):
    """A level of one patch, [z, y, x], interpolated to every level-0 sample of the patch; NaN where it covers none."""
    for axis in (2, 1, 0):
        samples = extend(samples, axis)
    there = ~np.isnan(samples)
    values = np.where(there, samples, 0)
    total = np.zeros(shape)
    weights = np.zeros(shape)
    places = [np.arange(n) / 2**level for n in shape]
    cells = [np.floor(p).astype(int) for p in places]
    for corner in np.ndindex(2, 2, 2):
        at = np.ix_(*(c + k for c, k in zip(cells, corner)))
        weight = np.ones(shape)
        for axis, k in enumerate(corner):
            fraction = places[axis] - cells[axis]
            weight = weight * (fraction if k else 1 - fraction).reshape([-1 if a == axis else 1 for a in range(3)])
        total += weight * values[at]
        weights += weight * there[at]
    return np.divide(total, weights, out=np.full(shape, np.nan), where=weights > 0)


def shown(answer, box, level):
    """A level's answer to a box of whole patches, interpolated patch by patch."""
    begin, end = box
    stride = 2**level
    out = np.full([e - b for b, e in zip(begin, end)], np.nan)
    corners = np.ndindex(*(-(-(e - b) // PATCH) for b, e in zip(begin, end)))
    for patch in ([PATCH * p for p in corner] for corner in corners):
        part = tuple(slice(p, min(p + PATCH, n)) for p, n in zip(patch, out.shape))
        coarse = tuple(slice(s.start // stride, -(-s.stop // stride)) for s in part)
        out[part] = interpolate(answer[coarse].astype("f8"), out[part].shape, level)
    return out


# --- fields ---


def ocean(dims):
    """A field with land, islands of missing samples, and a lake of one sample that only level 0 has: the samples of the
    coarser levels nearest to it are land, whatever the seed."""
    field = qt.turbulent(dims, name="ocean")
    field[qt.turbulent(dims, name="land") > 0.8] = np.nan
    field[:17, :17, :17] = np.nan
    field[11, 11, 11] = 1
    return field


class MaxError(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cases = {
            "turbulent": cls.make("turbulent", qt.turbulent((70, 45, 40))),
            "ocean": cls.make("ocean", ocean((64, 50, 33))),
            "plane": cls.make("plane", qt.smooth((120, 77, 1), "<f8")),
        }
        cls.server = cls.enterClassContext(qt.Server(cls.shared))

    @classmethod
    def make(cls, name, original):
        path = cls.shared / f"{name}.quarry"
        depth = PATCH if original.shape[0] > 1 else 1
        qt.convert(original, path, "--relative", RELATIVE, "--patch", f"{PATCH}x{PATCH}x{depth}", "--files", 2)
        return Case(path, original, qt.info(path)["levels"])

    def get(self, target, *options):
        """The answer as an array, and the JSON of `get`."""
        output = self.tmp / "answer.npy"
        outcome = qt.succeed("quarry", "get", target, "--field", "f", "--output", output, "--json", *options)
        return np.load(output), json.loads(outcome.out)

    def check(self, case, box, errors):
        """Answers to growing errors: right, ever coarser, ever cheaper, and the same from everywhere."""
        begin, end = box
        original = case.original[tuple(slice(b, e) for b, e in zip(begin, end))].astype("f8")
        received = None
        levels = set()
        options = ("--box", qt.box_text(begin[::-1], end[::-1]), "--max-error")
        for error in sorted(errors):
            with self.subTest(path=case.path.name, box=box, error=error):
                answer, said = self.get(case.path, *options, repr(error))
                difference = np.abs(shown(answer, box, said["level"]) - original)[~np.isnan(original)]
                self.assertFalse(np.isnan(difference).any(), "the answer does not show every valid sample")
                # 1e-12: this program rounds, too.
                self.assertLessEqual(difference.max(), error * (1 + 1e-12))
                self.assertLessEqual(said["max_error"], error)
                self.assertEqual(said["coverage"], 1)
                self.assertLessEqual(said["bytes_received"], received or np.inf)
                received = said["bytes_received"]
                levels.add(said["level"])

                remote, remotely = self.get(self.server.target(case.path), *options, repr(error), "--encoding",
                                            "samples")
                self.assertEqual(remote.tobytes(), answer.tobytes())
                for member in ("level", "begin", "shape", "max_error", "coverage", "patches"):
                    self.assertEqual(remotely[member], said[member])
                for target in (case.path, self.server.target(case.path)):
                    plan = json.loads(qt.succeed("quarry", "plan", target, "--field", "f", *options, repr(error),
                                                 "--json").out)
                    self.assertEqual((plan["level"], plan["max_error"]), (said["level"], said["max_error"]))
        return levels

    def errors_of(self, case, count=qt.scaled(8, 20)):
        """From the error of level 0 to more than that of any level."""
        records = qt.step_manifest(case.path)["fields"][0]["levels"]
        lowest = records[0]["max_error"]
        highest = 2 * max(record["max_error"] for record in records)
        return [lowest, *np.geomspace(lowest * 1.01, highest, count - 1).tolist()]

    def check_whole(self, name):
        case = self.cases[name]
        box = ((0, 0, 0), case.original.shape)
        return case, self.check(case, box, self.errors_of(case))

    def test_turbulent_field(self):
        case, levels = self.check_whole("turbulent")
        self.assertEqual(levels & {0, case.levels - 1}, {0, case.levels - 1}, "both ends were met")

    def test_field_with_missing_samples(self):
        case, levels = self.check_whole("ocean")
        self.assertIn(0, levels)
        # Where the coarsest level cannot show every sample, no error is large enough for it.
        coverages = [level["coverage"] for level in qt.step_manifest(case.path)["fields"][0]["levels"]]
        self.assertLess(coverages[-1], 1)
        self.assertTrue(all(coverages[level] == 1 for level in levels))

    def test_plane(self):
        case, levels = self.check_whole("plane")
        self.assertGreater(len(levels), 2)

    def test_real_field(self):
        source = qt.shared_data("wmag91.f32")
        case = self.make("wmag91", np.fromfile(source, "<f4").reshape(91, 91, 91))
        # The server has listed its datasets before this one was there.
        with qt.Server(self.shared) as server:
            self.server = server
            levels = self.check(case, ((0, 0, 0), (91, 91, 91)), self.errors_of(case))
        self.assertGreater(len(levels), 2)

    def test_boxes_of_whole_patches(self):
        case = self.cases["turbulent"]
        for box in (((0, 0, 32), (32, 32, 64)), ((32, 0, 64), (40, 45, 70)), ((0, 32, 0), (40, 45, 70))):
            self.check(case, box, self.errors_of(case, qt.scaled(4, 6)))

    def test_progressive_ends_at_the_level_that_keeps_the_error(self):
        case = self.cases["turbulent"]
        records = qt.step_manifest(case.path)["fields"][0]["levels"]
        error = records[0]["max_error"]  # on some random fields a coarse level shows more than a finer one
        target = self.server.target(case.path)
        alone, said = self.get(target, "--max-error", error)
        self.assertLess(said["level"], case.levels - 1)
        last, all_said = self.get(target, "--max-error", error, "--progressive")
        self.assertEqual(last.tobytes(), alone.tobytes())
        self.assertEqual(all_said["level"], said["level"])
        text = qt.succeed("quarry", "get", target, "--field", "f", "--output", self.tmp / "p.raw", "--max-error", error,
                          "--progressive").out
        lines = [line for line in text.splitlines() if line.startswith("level ")]
        self.assertEqual(len(lines), case.levels - said["level"])

    def test_thin_boxes_get_samples(self):
        """A plane between the samples of coarse levels is never answered by one of them."""
        case = self.cases["turbulent"]
        answer, said = self.get(case.path, "--box", ":,:,5:6", "--max-error", 1e9)
        self.assertEqual(said["level"], 0)
        self.assertGreater(answer.size, 0)
        self.assertEqual(self.get(case.path, "--box", ":,:,4:5", "--max-error", 1e9)[1]["level"], 2)

    def test_what_cannot_be_had_is_refused(self):
        case = self.cases["turbulent"]
        best = qt.info(case.path)["fields"][0]["max_error"]
        for target in (case.path, self.server.target(case.path)):
            for command in (("get", "--output", self.tmp / "x.raw"), ("plan",)):
                question = (command[0], target, "--field", "f", *command[1:])
                self.assert_one_line(qt.run("quarry", *question, "--max-error", best / 2), qt.NOT_FOUND, repr(best),
                                     "level 0")
                self.assert_one_line(qt.run("quarry", *question, "--max-error", -1), qt.USAGE, "-1")
                self.assert_one_line(qt.run("quarry", *question, "--max-error", "nan"), qt.USAGE, "nan")
                self.assertEqual(qt.run("quarry", *question, "--max-error", 1, "--level", 1).code, qt.USAGE)
        self.assertFalse((self.tmp / "x.raw").exists())


if __name__ == "__main__":
    qt.main()
