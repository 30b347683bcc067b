"""`--encoding coded`: the samples of the directory, bit by bit or within the error that the answer states, for floats
with a mask, integers, exact fields, layers, planes, lines, boxes, strides and levels; a plane costs a part of its
samples."""

import json

import numpy as np

import quarry_testing as qt

DIMS = (150, 130, 70)
RELATIVE = 1e-4
LAYERS = (1e-2, 1e-3)

QUESTIONS = {
    "plane": ("--box", ":,:,35:36"),
    "plane across x": ("--box", "77:78,:,:"),
    "line": ("--box", ":,64:65,35:36"),
    "box": ("--box", "13:90,7:101,20:66"),
    "sample": ("--box", "1:2,2:3,3:4"),
    "level": ("--level", "2"),
    "stride": ("--stride", "3,2,5"),
    "plane of a level": ("--box", ":,:,32:33", "--level", "1"),
    "near a point": ("--focus", "140,3,60"),
}


class Coded(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        field = qt.turbulent(DIMS)
        cls.originals = {
            "float": field,
            "ocean": qt.with_holes(field, np.nan),
            "integers": qt.integers(DIMS, "<i2"),
            "layers": field,
            "exact": qt.smooth(DIMS, "<f8"),
        }
        patch = ("--patch", "32")
        for name, options in {
                "float": ("--relative", RELATIVE, "--codec", "interpolate"),
                "ocean": ("--relative", RELATIVE, "--codec", "interpolate"),
                "integers": ("--tolerance", "3", "--codec", "interpolate"),
                "layers": ("--relative-layers", ",".join(map(str, (*LAYERS, RELATIVE)))),
                "exact": ("--codec", "lossless"),
        }.items():
            qt.convert(cls.originals[name], cls.path(name), *patch, *options)
        cls.server = cls.enterClassContext(qt.Server(cls.shared, "--metrics", "127.0.0.1:0"))

    @classmethod
    def path(cls, name):
        return cls.shared / f"{name}.quarry"

    def get(self, target, *options):
        """The answer as an array, and the JSON of `get`."""
        output = self.tmp / "answer.npy"
        outcome = qt.succeed("quarry", "get", target, "--field", "f", "--output", output, "--json", *options)
        return np.load(output), json.loads(outcome.out)

    def coded(self, name, *options):
        return self.get(self.server.target(name), "--encoding", "coded", *options)

    def original(self, name, said):
        """The original samples of an answer."""
        begin, shape, spacing = (said[key][::-1] for key in ("begin", "shape", "spacing"))
        return self.originals[name][tuple(slice(b * s, (b + n - 1) * s + 1, s) for b, n, s in zip(begin, shape, spacing))]

    def test_without_an_error_every_encoding_gives_the_same(self):
        for name in self.originals:
            for what, options in QUESTIONS.items():
                with self.subTest(field=name, question=what):
                    stored, said = self.get(self.path(name), *options)
                    for encoding in ("samples", "patches", "coded"):
                        answer, told = self.get(self.server.target(name), "--encoding", encoding, *options)
                        self.assertEqual(answer.tobytes(), stored.tobytes(), encoding)
                        self.assertEqual(told["max_error"], said["max_error"])

    def test_recode_keeps_the_error_that_it_states(self):
        for name, original in self.originals.items():
            for what, options in QUESTIONS.items():
                for recode in ("1.5x", "2x", "0.01"):
                    with self.subTest(field=name, question=what, recode=recode):
                        _, stored = self.get(self.path(name), *options)
                        answer, said = self.coded(name, *options, "--recode", recode)
                        if recode.endswith("x"):
                            most = float(recode[:-1]) * stored["max_error"]
                        else:
                            most = stored["max_error"] + float(recode)
                        self.assertLessEqual(said["max_error"], most * (1 + 1e-12))
                        self.assertGreaterEqual(said["max_error"], stored["max_error"])
                        # At the places of its samples, a level is within its error of the original.
                        self.assert_decoded(self.original(name, said), answer, said["max_error"])

    def test_exact_fields_stay_exact(self):
        answer, said = self.coded("exact", "--recode", "2x")
        self.assertEqual(answer.tobytes(), self.originals["exact"].tobytes())
        self.assertEqual(said["max_error"], 0)

    def test_max_error_is_kept_by_both_steps_together(self):
        span = float(np.ptp(self.originals["layers"]))
        for error in (span * relative for relative in (1.5e-4, 1e-3, 3e-3, 1e-2, 2e-2)):
            with self.subTest(error=error):
                options = ("--max-error", repr(error))
                _, stored = self.get(self.path("layers"), *options)
                answer, said = self.coded("layers", *options)
                self.assertEqual((said["level"], said["layer"]), (stored["level"], stored["layer"]))
                self.assertLessEqual(said["max_error"], error)
                self.assert_decoded(self.original("layers", said), answer, error)

    def test_layers_come_one_by_one(self):
        for layer in range(len(LAYERS) + 1):
            stored, _ = self.get(self.path("layers"), "--layer", layer)
            answer, _ = self.coded("layers", "--layer", layer)
            self.assertEqual(answer.tobytes(), stored.tobytes())
        stored, _ = self.get(self.path("layers"), "--progressive")
        answer, _ = self.coded("layers", "--progressive")
        self.assertEqual(answer.tobytes(), stored.tobytes())

    def test_a_plane_costs_a_part_of_its_samples(self):
        for name in ("float", "layers"):
            options = QUESTIONS["plane"]
            samples = self.get(self.server.target(name), "--encoding", "samples", *options)[1]["bytes_received"]
            patches = self.get(self.server.target(name), "--encoding", "patches", *options)[1]["bytes_received"]
            exact = self.coded(name, *options)[1]["bytes_received"]
            recoded = self.coded(name, *options, "--recode", "2x")[1]["bytes_received"]
            self.assertEqual(samples, DIMS[0] * DIMS[1] * 4)
            self.assertLess(exact, samples)
            self.assertLess(3 * recoded, samples)
            self.assertLess(10 * recoded, patches)

    def test_a_plane_that_many_ask_for_is_coded_once(self):
        options = ("--box", ":,:,11:12")
        before = self.server.metrics()["quarry_coded_tiles_total"]
        for _ in range(3):
            self.coded("float", *options)
        self.assertEqual(self.server.metrics()["quarry_coded_tiles_total"], before + 1)

    def test_an_impossible_recode_is_refused(self):
        target = self.server.target("float")
        output = ("--output", self.tmp / "answer.raw")
        for options, mention in ((("--encoding", "coded", "--recode", "0.5x"), "0.5x"),
                                 (("--encoding", "coded", "--recode", "much"), "much"),
                                 (("--encoding", "coded", "--recode=-1"), "-1"),
                                 (("--encoding", "samples", "--recode", "2x"), "--encoding coded"),
                                 (("--encoding", "coded", "--recode", "2x", "--max-error", "1"), "largest error")):
            with self.subTest(options=options):
                outcome = qt.run("quarry", "get", target, "--field", "f", *output, *options)
                self.assert_one_line(outcome, qt.USAGE, mention)


if __name__ == "__main__":
    qt.main()
