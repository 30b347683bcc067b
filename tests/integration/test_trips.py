"""`quarry get` asks a server once: counted by the server's metrics, for every encoding and form of question. The answer
is that of the directory. Bytes and round trips of the twelve questions of benchmarks/network are counted, too."""

import json

import numpy as np

import quarry_testing as qt

DIMS = (70, 50, 40)
ENCODINGS = ("samples", "patches", "coded")

QUESTIONS = {
    "everything": (),
    "the only field": ("--level", "1"),
    "closed box": ("--box", "3:60,7:50,0:33"),
    "plane": ("--box", ":,:,20:21"),
    "open ends": ("--box", "5:,:30,9:"),
    "level": ("--level", "2", "--box", ":,9:"),
    "stride": ("--stride", "3,2,5"),
    "error": ("--max-error", "0.5"),
    "bytes": ("--max-bytes", "20000"),
    "near a point": ("--focus", "60,3,30"),
    "progressive": ("--progressive",),
    "progressive to a level": ("--progressive", "--level", "1", "--box", ":,5:"),
    "progressive to an error": ("--progressive", "--max-error", "0.5"),
}


def requests(server):
    """Calls that the server has answered."""
    return sum(number for name, number in server.metrics().items() if name.startswith("quarry_requests_total"))


class Trips(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        field = qt.turbulent(DIMS)
        for name, samples, options in (
                ("float", field, ("--relative", "1e-3", "--codec", "interpolate")),
                ("ocean", qt.with_holes(field, np.nan), ("--relative", "1e-3", "--codec", "interpolate")),
                ("layers", field, ("--relative-layers", "1e-2,1e-3"))):
            qt.convert(samples, cls.shared / f"{name}.quarry", "--patch", "16", *options)
        cls.server = cls.enterClassContext(qt.Server(cls.shared, "--metrics", "127.0.0.1:0"))

    def read(self, target, *options, ending="npy"):
        output = self.tmp / f"answer.{ending}"
        qt.succeed("quarry", "get", target, "--output", output, *options)
        return output.read_bytes()

    def assert_calls(self, calls, name, *options, ending="npy"):
        """The answer of the server is that of the directory, after so many calls."""
        stored = self.read(self.shared / f"{name}.quarry", *options, ending=ending)
        before = requests(self.server)
        answer = self.read(self.server.target(name), *options, ending=ending)
        self.assertEqual(requests(self.server) - before, calls)
        self.assertEqual(answer, stored)

    def test_a_question_takes_one_call(self):
        for name in ("float", "ocean", "layers"):
            for what, options in QUESTIONS.items():
                stored = self.read(self.shared / f"{name}.quarry", *options)
                for encoding in ENCODINGS:
                    with self.subTest(field=name, encoding=encoding, question=what):
                        before = requests(self.server)
                        answer = self.read(self.server.target(name), "--encoding", encoding, *options)
                        self.assertEqual(requests(self.server) - before, 1)
                        # Coded samples use all of the error that is allowed.
                        if encoding != "coded" or "--max-error" not in options:
                            self.assertEqual(answer, stored)

    def test_so_does_every_file_that_needs_no_positions(self):
        for ending in ("raw", "png", "npy"):
            with self.subTest(ending=ending):
                self.assert_calls(1, "ocean", "--field", "f", "--box", ":,:,20:21", ending=ending)

    def test_positions_along_axes_take_one_more(self):
        self.assert_calls(2, "float", "--box", ":,3:4,20:21", ending="csv")
        self.assert_calls(2, "float", "--region", "x=3:20")

    def test_what_is_wrong_is_said_in_the_words_of_the_options(self):
        target = self.server.target("float")
        for options, code, mention in (
                (("--box", "0:71,:,:"), qt.USAGE, "70x50x40"),
                (("--box", "9:4"), qt.USAGE, "70x50x40"),
                (("--box", "much"), qt.USAGE, "write x0:x1,y0:y1,z0:z1"),
                (("--level", "9"), qt.USAGE, "level 9"),
                (("--level", "9", "--progressive"), qt.USAGE, "level 9"),
                (("--stride", "2", "--progressive"), qt.USAGE, "leave out --progressive"),
                (("--layer", "3"), qt.USAGE, "layer 3"),
                (("--field", "none"), qt.NOT_FOUND, "it has: f"),
                (("--max-error", "1e-30"), qt.NOT_FOUND, "1e-30")):
            with self.subTest(options=options):
                outcome = qt.run("quarry", "get", target, "--output", self.tmp / "answer.raw", *options)
                self.assert_one_line(outcome, code, mention)
                self.assertFalse((self.tmp / "answer.raw").exists())


FIRST_WINDOW = 14_600  # [bytes] that TCP sends before it hears from the other end; twice as many after each round trip


def round_trips(size):
    """Round trips of an answer of so many bytes over an open connection: the question, and windows that double."""
    trips = 1
    while size > FIRST_WINDOW * (2**trips - 1):
        trips += 1
    return trips


class Twelve(qt.QuarryTest):
    """Bytes and round trips, which no machine changes. `--recode 2x` adds as much error as there is."""

    DIMS = (128, 128, 64)
    RELATIVE = 1e-4
    # Options, and the largest parts of the patches' bytes that a coded answer may have: without loss, and with 2x.
    QUESTIONS = {
        "overview": (("--level", "4"), 3, 1.1),
        "small level": (("--level", "3"), 3, 1.1),
        "plane across z": (("--box", ":,:,37:38"), 1 / 15, 1 / 40),
        "plane across y": (("--box", ":,69:70,:"), 1 / 15, 1 / 40),
        "plane across x": (("--box", "69:70,:,:"), 1 / 15, 1 / 40),
        "unaligned box": (("--box", "35:99,35:99,:"), 1, 1 / 2),
        "large box": (("--box", "21:107,21:107,:"), 1.5, 2 / 3),
        "every eighth sample": (("--stride", "8"), 3, 1.1),
        "line": (("--box", ":,69:70,37:38"), 1 / 500, 1 / 1000),
        "level of a box": (("--box", "21:107,21:107,:", "--level", "1"), 1.5, 2 / 3),
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.field = qt.turbulent(cls.DIMS)
        qt.convert(cls.field, cls.shared / "f.quarry", "--relative", cls.RELATIVE, "--codec", "interpolate",
                   "--patch", "64")
        cls.server = cls.enterClassContext(qt.Server(cls.shared, "--metrics", "127.0.0.1:0"))

    def received(self, *options):
        """Bytes of the answer to one call."""
        before = requests(self.server)
        outcome = qt.succeed("quarry", "get", self.server.target("f"), "--output", self.tmp / "answer.raw", "--json",
                             *options)
        self.assertEqual(requests(self.server) - before, 1)
        return json.loads(outcome.out)["bytes_received"]

    def test_coded_answers_are_small(self):
        for what, (options, exact, recoded) in self.QUESTIONS.items():
            with self.subTest(question=what):
                samples = self.received("--encoding", "samples", *options)
                patches = self.received("--encoding", "patches", *options)
                coded = self.received("--encoding", "coded", *options)
                twice = self.received("--encoding", "coded", "--recode", "2x", *options)
                self.assertLessEqual(coded, samples + 32)
                self.assertLessEqual(coded, exact * patches)
                self.assertLessEqual(twice, recoded * patches)
                self.assertLessEqual(2 * twice, samples)
                self.assertLessEqual(round_trips(twice), round_trips(min(samples, patches)))
                if "plane" in what:
                    self.assertLessEqual(round_trips(twice), 2)
                    self.assertGreaterEqual(round_trips(patches), 6)

    def test_a_plane_for_256_colours_fits_the_first_window(self):
        options = ("--box", ":,:,37:38", "--max-error", repr(4e-3 * float(np.ptp(self.field))))
        coded = self.received("--encoding", "coded", *options)
        self.assertEqual(round_trips(coded), 1)
        self.assertLess(60 * coded, self.received("--encoding", "patches", *options))

    def test_so_does_an_overview_in_every_encoding(self):
        for encoding in (*ENCODINGS, "auto"):
            self.assertEqual(round_trips(self.received("--encoding", encoding, "--level", "3")), 1, encoding)

    def test_points_take_two_calls(self):
        """One opens the dataset."""
        points = [[1.5, 2.25, 3], [126, 64.5, 8.125], [0, 0, 63]]
        places = [",".join(map(str, point)) for point in points]
        before = requests(self.server)
        told = qt.succeed("quarry", "points", self.server.target("f"), "--json", "--at", *places).out
        self.assertEqual(requests(self.server) - before, 2)
        stored = qt.succeed("quarry", "points", self.shared / "f.quarry", "--json", "--at", *places).out
        self.assertEqual(json.loads(told)["values"], json.loads(stored)["values"])


class Refers(qt.QuarryTest):
    def test_patches_that_refer_to_other_steps_come_as_samples(self):
        """Only the server has the steps to which they refer."""
        dataset = self.tmp / "steps.quarry"
        files = []
        field = qt.turbulent(DIMS)
        for step in range(3):
            files.append(self.tmp / f"step{step}.raw")
            (field + np.float32(0.01 * step)).tofile(files[-1])
        qt.succeed(qt.SERIAL_WRITER, *files, *qt.describe(field), "--field", "f", "--relative", "1e-3",
                   "--keyframe", "2", "--output", dataset)
        self.assertTrue(qt.step_manifest(dataset, 1)["fields"][0]["references"])
        with qt.Server(self.tmp, "--metrics", "127.0.0.1:0") as server:
            options = ("--step", "1", "--box", ":,:,7:8")
            answer = qt.get(server.target("steps"), self.tmp / "answer.raw", "--encoding", "patches", *options)
            self.assertEqual(server.metrics()['quarry_requests_total{code="OK",method="Read"}'], 1)
            self.assertEqual(requests(server), 1)
        self.assertEqual(answer, qt.get(dataset, self.tmp / "stored.raw", *options))


if __name__ == "__main__":
    qt.main()
