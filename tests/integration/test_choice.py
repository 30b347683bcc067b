"""`--encoding auto`: the server chooses the encoding, says why, and changes no sample. Bytes and calls are counted."""

import json

import numpy as np

import quarry_testing as qt

DIMS = (150, 130, 70)
ENCODINGS = ("samples", "patches", "coded")

QUESTIONS = {
    "everything": (),
    "plane": ("--box", ":,:,35:36"),
    "line": ("--box", ":,64:65,35:36"),
    "box": ("--box", "13:90,7:101,20:66"),
    "level": ("--level", "2"),
    "stride": ("--stride", "3,2,5"),
    "near a point": ("--focus", "140,3,60"),
    "progressive": ("--progressive",),
}


class Choice(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        field = qt.turbulent(DIMS)
        for name, samples, options in (
                ("float", field, ("--relative", "1e-4", "--codec", "interpolate")),
                ("ocean", qt.with_holes(field, np.nan), ("--relative", "1e-3", "--codec", "interpolate")),
                ("integers", qt.integers(DIMS, "<i2"), ("--tolerance", "3", "--codec", "interpolate")),
                ("layers", field, ("--relative-layers", "1e-2,1e-4")),
                ("exact", qt.smooth(DIMS, "<f8"), ("--codec", "lossless"))):
            qt.convert(samples, cls.path(name), "--patch", "32", *options)
        cls.server = cls.enterClassContext(qt.Server(cls.shared, "--metrics", "127.0.0.1:0"))

    @classmethod
    def path(cls, name):
        return cls.shared / f"{name}.quarry"

    def get(self, target, *options):
        """The samples of an answer, the JSON of `get`, and what it writes to stderr."""
        output = self.tmp / "answer.npy"
        outcome = qt.succeed("quarry", "get", target, "--output", output, "--json", *options)
        return np.load(output), json.loads(outcome.out), outcome.err

    def plan(self, target, *options):
        return json.loads(qt.succeed("quarry", "plan", target, "--json", "--field", "f", *options).out)

    def requests(self):
        return sum(number for name, number in self.server.metrics().items() if name.startswith("quarry_requests_total"))

    def test_a_choice_changes_no_sample_and_takes_no_call(self):
        for name in ("float", "ocean", "integers", "layers", "exact"):
            for what, options in QUESTIONS.items():
                with self.subTest(field=name, question=what):
                    stored, said, err = self.get(self.path(name), *options)
                    self.assertEqual(("encoding" in said, err), (False, ""))
                    before = self.requests()
                    answer, told, err = self.get(self.server.target(name), *options)
                    self.assertEqual(self.requests() - before, 1)
                    self.assertEqual(answer.tobytes(), stored.tobytes())
                    self.assertEqual(told["max_error"], said["max_error"])
                    self.assertIn(told["encoding"], ENCODINGS)
                    self.assertEqual(err, "")
                    alone = self.get(self.server.target(name), "--encoding", told["encoding"], *options)[1]
                    self.assertEqual(told["bytes_received"], alone["bytes_received"])
                    self.assertNotIn("encoding", alone)

    def test_with_an_error_the_answer_is_within_it(self):
        field = qt.turbulent(DIMS)
        error = 1e-3 * float(np.ptp(field))
        answer, said, _ = self.get(self.server.target("float"), "--box", ":,:,35:36", "--max-error", repr(error))
        self.assertLessEqual(said["max_error"], error)
        self.assertEqual(said["level"], 0)
        self.assert_decoded(field[35:36], answer, said["max_error"])

    def test_the_estimate_of_coded_bytes(self):
        """For planes, boxes and levels of turbulence, within a factor of 1.5; never above the samples by more than a
        tile's frame."""
        for name in ("float", "layers"):
            for what in ("everything", "plane", "box", "level", "stride"):
                with self.subTest(field=name, question=what):
                    plan = self.plan(self.path(name), *QUESTIONS[what])
                    _, said, _ = self.get(self.server.target(name), "--encoding", "coded", *QUESTIONS[what])
                    coded = said["bytes_received"]
                    self.assertLess(coded, 1.5 * plan["coded_bytes"])
                    self.assertLess(plan["coded_bytes"], 1.5 * coded)
                    self.assertLess(plan["coded_bytes"], plan["reply_bytes"] + 32 * (1 + plan["reply_bytes"] // 2**16))

    def test_a_plan_prices_every_encoding(self):
        options = QUESTIONS["plane"]
        local, remote = (self.plan(target, *options) for target in (self.path("float"), self.server.target("float")))
        self.assertEqual(local, remote)
        for encoding, member in zip(ENCODINGS, ("reply_bytes", "bytes")):
            came = self.get(self.server.target("float"), "--encoding", encoding, *options)[1]["bytes_received"]
            self.assertEqual(came, local[member])
        verbose = self.plan(self.server.target("float"), "--verbose", *options)
        self.assertEqual(verbose.keys() - local.keys(), {"encoding", "seconds"})
        self.assertEqual(tuple(verbose["seconds"]), ENCODINGS)
        best = min(verbose["seconds"].values())
        self.assertLessEqual(verbose["seconds"][verbose["encoding"]] * 0.95, best)
        self.assertEqual(self.plan(self.path("float"), "--verbose", *options), local)

    def test_verbose_says_why(self):
        for encoding, mentions in (((), (*ENCODINGS, " ms and ", "/s", "f, step 0: ")),
                                   (("--encoding", "samples"), ("no server has chosen",))):
            _, said, err = self.get(self.server.target("float"), "--verbose", *QUESTIONS["plane"], *encoding)
            self.assertEqual(len(err.splitlines()), 1, err)
            for mention in (*mentions, said.get("encoding", "")):
                self.assertIn(mention, err)


if __name__ == "__main__":
    qt.main()
