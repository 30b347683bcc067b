"""The three orders of payload: the same samples from all of them, in the few requests that each is for."""

import json

import numpy as np

import quarry_testing as qt

ORDERS = ("patch", "level", "coarse")
DIMS = (70, 51, 45)
STEPS = 5
PATCH, LEVELS, COARSE = 16, 5, 2
# Each bound with a field of its own: holes with a mask, layers of accuracy, steps that refer to each other.
FIELDS = {
    "plain": ("--relative", 1e-3),
    "holes": ("--relative", 1e-3),
    "ladder": ("--relative-layers", "1e-1,1e-3,exact"),
    "turns": ("--relative", 1e-3, "--keyframe", 3),
    "exact": ("--lossless",),
}


def samples(field, step):
    whole = qt.turbulent(DIMS, name=f"{field}{step // 3}") + np.float32(0.01 * step)
    return qt.with_holes(whole, np.nan) if field == "holes" else whole


class Orders(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.datasets = {}
        for order in ORDERS:
            cls.datasets[order] = dataset = cls.shared / f"{order}.quarry"
            for number, (field, bound) in enumerate(FIELDS.items()):
                for step in range(STEPS):
                    layout = ("--patch", PATCH, "--order", order)
                    qt.convert(samples(field, step), dataset, "--field", field, "--step", step, *bound,
                               *(("--append",) if number or step else layout), "--files", 3, ranks=step % 3)

    def answers(self, target):
        """Levels, layers, boxes and steps of every field."""
        found = {}
        for field in FIELDS:
            for step in (0, STEPS - 1):
                for options in (("--level", 0), ("--level", COARSE - 1), ("--level", COARSE), ("--level", LEVELS - 1),
                                ("--box", "9:40,3:50,17:31"), ("--level", COARSE, "--box", "9:40,3:50,17:31"),
                                *((("--layer", 0, "--level", 1), ("--layer", 1)) if field == "ladder" else ())):
                    found[field, step, options] = qt.get(target, self.tmp / "out.raw", "--step", step, *options, field=field)
        return found

    def test_all_have_the_same_samples(self):
        expected = self.answers(self.datasets["patch"])
        for field in ("exact", "holes"):
            whole = np.frombuffer(expected[field, 0, ("--level", 0)], "<f4").reshape(DIMS[::-1])
            original = samples(field, 0)
            self.assertTrue((np.isnan(whole) == np.isnan(original)).all())
            if field == "exact":
                np.testing.assert_array_equal(whole, original)
        for order in ORDERS:
            self.assertEqual(qt.info(self.datasets[order])["order"], order)
            self.assert_verified(self.datasets[order])
            self.assertTrue(self.answers(self.datasets[order]) == expected, order)

    def test_a_server_with_and_without_an_index_says_the_same(self):
        expected = self.answers(self.datasets["patch"])
        with qt.Server(self.shared) as server:
            for indexed in (False, True):
                if indexed:
                    qt.succeed("quarry-index", self.datasets["coarse"])
                    qt.succeed("quarry-index", self.datasets["coarse"], "--verify")
                self.assertTrue(self.answers(server.target("coarse")) == expected, indexed)

    def test_the_header_says_which_levels_are_coarse(self):
        """Bytes 50 and 52, by docs/format.md; those of the mask too."""
        for order, (number, coarse) in {"patch": (1, 0), "level": (2, 0), "coarse": (3, COARSE)}.items():
            found = qt.subfiles(self.datasets[order])
            self.assertTrue(any(name.startswith("masks/") for name in found))
            self.assertEqual({(data[50], data[52]) for data in found.values()}, {(number, coarse)})

    def test_an_interrupted_series_continues_and_packs_in_its_order(self):
        whole = self.tmp / "whole.quarry"
        parts = self.tmp / "parts.quarry"
        sources = []
        for step in range(3):
            sources.append(self.tmp / f"f-{step}.raw")
            samples("holes", step).tofile(sources[-1])
        describe = (*qt.describe(samples("holes", 0)), "--field", "f", "--relative", 1e-3, "--patch", PATCH, "--files", 2)
        qt.succeed(qt.SERIAL_WRITER, *sources, *describe, "--order", "coarse", "--output", whole)
        qt.succeed(qt.SERIAL_WRITER, *sources[:1], *describe, "--order", "coarse", "--output", parts)
        qt.succeed(qt.SERIAL_WRITER, *sources, *describe, "--resume", "--output", parts)
        self.assertEqual(qt.subfiles(parts), qt.subfiles(whole))
        refused = qt.run(qt.SERIAL_WRITER, *sources, *describe, "--order", "level", "--resume", "--output", parts)
        self.assert_one_line(refused, qt.USAGE, "payload order level", "coarse")

        expected = qt.get(parts, self.tmp / "out.raw", "--step", 1)
        qt.succeed("quarry", "pack", parts, "--smaller-than", "1MiB")
        self.assertFalse((parts / "steps" / "000001").exists())
        self.assertEqual(qt.get(parts, self.tmp / "out.raw", "--step", 1), expected)
        self.assert_verified(parts)
        qt.succeed("quarry", "pack", parts, "--unpack")
        self.assertEqual(qt.subfiles(parts), qt.subfiles(whole))

    def test_few_requests_for_overviews_and_boxes(self):
        def reads(order, *options):
            plan = qt.succeed("quarry", "plan", self.datasets[order], "--field", "exact", "--step", 0, "--json", *options)
            return json.loads(plan.out)["reads"]

        for level in range(COARSE, LEVELS):
            self.assertEqual(reads("coarse", "--level", level), 3, level)
        box = ("--box", "16:48,16:48,8:40")
        # Each coarse level of a subfile is a range more, at most.
        self.assertLessEqual(reads("coarse", *box), reads("patch", *box) + 3 * (LEVELS - COARSE))


if __name__ == "__main__":
    qt.main()
