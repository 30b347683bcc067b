"""Datasets that somebody made to end or stop those who read them: every checksum is right, and the contents are not.
All that a program may do is to say so, in one line and with its exit code."""

import json
import re
import resource
import subprocess

import quarry_testing as qt

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
    """Of a program, whatever its exit code."""
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
        self.assert_one_line(qt.run("quarry", "info", self.bad), qt.DAMAGED, "step.json", "appears twice")

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


if __name__ == "__main__":
    qt.main()
