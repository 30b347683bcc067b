"""Datasets that somebody made to end or stop those who read them: every checksum is right, and the contents are not.
All that a program may do is to say so, in one line and with its exit code."""

import json
import re
import resource
import struct
import subprocess
import sys

import quarry_testing as qt

sys.path.append(str(qt.REPOSITORY / "tests" / "format"))
from worked_example import xxh3  # noqa: E402

DIMS = (24, 20, 16)


def rewrite(dataset, name, change):
    """Changes a manifest of a dataset, and puts the right checksum into it, which the programs tell."""
    path = dataset / name
    manifest = json.loads(path.read_text())
    change(manifest)
    manifest["checksum"] = manifest.pop("checksum")  # the last key

    def write(checksum):
        manifest["checksum"] = checksum
        path.write_text(json.dumps(manifest, indent=1))

    write(16 * "0")
    said = qt.run("quarry", "verify", dataset)
    computed = re.search(r"checksum 0{16} stored, ([0-9a-f]{16}) computed", said.out + said.err)
    if not computed:
        raise AssertionError(f"no checksum: {said}")
    write(computed[1])


def copies(count):
    """A change that gives a manifest so many copies of its field, with names of their own."""
    def change(manifest):
        field = manifest["fields"][0]
        manifest["fields"] = [field | {"name": f"f{number}"} for number in range(count)]
    return change


def processor_seconds(*command):
    """Processor seconds of a program, whatever its exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([qt.executable(command[0]), *map(str, command[1:])], env=qt.ENVIRONMENT, check=False,
                   capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class HostileDatasets(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.data.mkdir()
        for name in ("good", "bad"):
            qt.convert(qt.smooth(DIMS), self.data / f"{name}.quarry", "--tolerance", "1e-3", "--patch", "8")
        self.bad = self.data / "bad.quarry"

    def commands(self, target):
        """Everything that reads a dataset."""
        return [("quarry", "info", target), ("quarry", "get", target, "--field", "f", "--output", self.tmp / "x.npy"),
                ("quarry", "plan", target, "--field", "f"), ("quarry", "stats", target, "--field", "f"),
                ("quarry", "points", target, "--field", "f", "--at", "1,1,1"),
                ("quarry", "watch", target, "--after", "0", "--patience", "1")]

    def assert_refused(self, *mentions):
        """By every command and program, from a directory and from a server, which goes on."""
        for command in [*self.commands(self.bad), ("quarry", "verify", self.bad), ("quarry-index", self.bad)]:
            with self.subTest(command=command):
                self.assert_one_line(qt.run(*command), qt.DAMAGED, *mentions)
        with qt.Server(self.data) as server:
            for command in self.commands(server.target("bad")):
                with self.subTest(command=command):
                    self.assert_one_line(qt.run(*command), qt.DAMAGED, *mentions)
            self.assertEqual(self.listed(server), ["bad", "good"])
            qt.succeed("quarry", "get", server.target("good"), "--output", self.tmp / "good.npy")

    def listed(self, server):
        return [dataset["name"] for dataset in
                json.loads(qt.succeed("quarry", "ls", f"grpc://{server.address}", "--json").out)]

    def test_no_fields(self):
        rewrite(self.bad, "dataset.json", lambda manifest: manifest.update(fields=[]))
        self.assert_refused("dataset.json", "no fields")

    def test_a_field_twice_in_a_step(self):
        rewrite(self.bad, "steps/000000/step.json",
                lambda manifest: manifest.update(fields=2000 * manifest["fields"]))
        self.assert_one_line(qt.run("quarry", "verify", self.bad), qt.DAMAGED, "step.json", "appears twice")
        self.assert_one_line(qt.run("quarry", "get", self.bad, "--output", self.tmp / "x.npy"), qt.DAMAGED, "step.json",
                             "appears twice")

    def test_very_many_fields(self):
        """More than a dataset may have, which costs what reading them costs: twice as many take twice as long."""
        count = 50_000
        rewrite(self.bad, "dataset.json", copies(count))
        once = processor_seconds("quarry", "info", self.bad)
        rewrite(self.bad, "dataset.json", copies(2 * count))
        twice = processor_seconds("quarry", "info", self.bad)
        self.assertLess(twice, 3 * once)
        self.assert_refused("dataset.json", f"{2 * count} fields")

    def test_as_many_fields_as_there_may_be(self):
        rewrite(self.bad, "dataset.json", copies(4096))
        rewrite(self.bad, "steps/000000/step.json", copies(4096))
        self.assertEqual(len(qt.info(self.bad)["fields"]), 4096)
        rewrite(self.bad, "dataset.json", copies(4097))
        self.assert_one_line(qt.run("quarry", "info", self.bad), qt.DAMAGED, "4097 fields")


def seal(folder, data):
    """Makes these bytes the only piece of the index, with a seal that holds."""
    for old in folder.glob("patches-*.mdb"):
        old.unlink()
    checksum = f"{xxh3(data):016x}"
    (folder / f"patches-{checksum}.mdb").write_bytes(data)
    steps = {"first": 0, "last": 0, "steps": 1, "marks": checksum}
    text = f"5 {checksum} {len(data)} 1 0 0 1 {checksum}"
    (folder / "seal.json").write_text(json.dumps(
        {"version": 5, "pieces": [{"checksum": checksum, "bytes": len(data), "steps": 1, "ranges": [steps]}],
         "seal": f"{xxh3(text.encode()):016x}"}))


class ForgedIndices(qt.QuarryTest):
    """An index inside of a dataset is served without being asked for, so it comes from whoever writes datasets."""

    PAGE = 4096

    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.data.mkdir()
        self.dataset = self.data / "run.quarry"
        qt.convert(qt.with_holes(qt.smooth(DIMS), float("nan")), self.dataset, "--tolerance", "1e-3", "--patch", "4")
        qt.succeed("quarry-index", self.dataset)
        self.index = self.dataset / "index"
        self.original = next(self.index.glob("patches-*.mdb")).read_bytes()
        self.whole = qt.get(self.dataset, self.tmp / "whole.raw")

    def forged(self, kind, at, *numbers):
        """With numbers in both of the pages in which LMDB begins."""
        data = bytearray(self.original)
        for page in (0, self.PAGE):
            struct.pack_into(f"={kind}", data, page + at, *numbers)
        return bytes(data)

    def check(self, server):
        self.assertTrue(qt.get(server.target("run"), self.tmp / "served.raw") == self.whole)

    def check_programs(self):
        """quarry-index ends with an exit code, and mends what it finds."""
        outcome = qt.run("quarry-index", self.dataset, "--verify")
        self.assertIn(outcome.code, (qt.DONE, qt.USAGE, qt.DAMAGED), outcome)
        qt.succeed("quarry-index", self.dataset, "--rebuild", "--verify")

    def test_numbers_of_lmdb(self):
        for name, forged in {"pages of 0 bytes": self.forged("I", 40, 0), "pages of 3 bytes": self.forged("I", 40, 3),
                             "a root beyond the end": self.forged("Q", 128, 1 << 40),
                             "a root in the first page": self.forged("Q", 128, 0),
                             "no magic": self.forged("I", 16, 0), "nothing": b"", "a page": self.original[:self.PAGE],
                             "only pages with numbers": self.original[:2 * self.PAGE]}.items():
            with self.subTest(name):
                seal(self.index, forged)
                with qt.Server(self.data) as server:
                    self.check(server)
                    self.assertIn("reading patch tables instead", server.log())
                self.check_programs()

    def test_any_numbers(self):
        random = qt.random_numbers("forged indices")
        with qt.Server(self.data) as server:
            for number in range(qt.scaled(60, 1000)):
                data = bytearray(self.original)
                for _ in range(random.integers(1, 5)):
                    # Half of them where LMDB has its own numbers, the begin of a page.
                    at = int(random.integers(0, len(data)))
                    if random.integers(0, 2):
                        at = at // self.PAGE * self.PAGE + int(random.integers(0, 160))
                    data[at] = int(random.integers(0, 256))
                with self.subTest(number=number):
                    seal(self.index, bytes(data))
                    outcome = qt.run("quarry", "get", server.target("run"), "--output", self.tmp / "served.npy")
                    self.assertIn(outcome.code, (qt.DONE, qt.DAMAGED), outcome)
                    self.assertTrue(server.runs())
                    if number % 10 == 0:
                        self.check_programs()


if __name__ == "__main__":
    qt.main()
