"""Small steps in packs: every reader gets what it got before, a step costs little, and writers go on."""

import errno
import fcntl
import json
import os
import shutil

import numpy as np
from test_watch import Watcher

import quarry_testing as qt

DIMS = (12, 10, 8)
PACKED = "packs"


def field_of(step):
    return qt.with_holes(qt.make_field(DIMS, "<f4", name=step), np.nan)


def said(target):
    """`quarry info` without what tells packs from folders."""
    return {key: value for key, value in qt.info(target).items() if key != PACKED}


def disk_bytes(folder):
    """Bytes that files and folders take on the disk, as du counts them."""
    return sum(512 * path.lstat().st_blocks for path in (folder, *folder.rglob("*")))


def inodes(folder):
    return sum(1 for _ in folder.rglob("*"))


class Packs(qt.QuarryTest):
    def make(self, steps=5, name="run", **fields):
        dataset = self.tmp / f"{name}.quarry"
        for step in range(steps):
            qt.convert(field_of(step), dataset, "--relative", "1e-3", "--step", step, *["--append"] * bool(step))
        for field, options in fields.items():
            for step in range(steps):
                qt.convert(field_of(step), dataset, *options, "--field", field, "--step", step, "--append")
        return dataset

    def pack(self, dataset, *options):
        return json.loads(qt.succeed("quarry", "pack", dataset, "--json", *options).out)

    def samples(self, target, steps, *options, field="f"):
        return [qt.get(target, self.tmp / "out.raw", "--step", step, *options, field=field) for step in steps]

    def test_every_reader_gets_what_it_got_before(self):
        dataset = self.make(layers=("--relative-layers", "1e-1,1e-3,exact"), turns=("--tolerance", "0.01", "--keyframe", "3"))
        twin = self.tmp / "twin.quarry"
        shutil.copytree(dataset, twin)
        report = self.pack(dataset)
        self.assertEqual((report["steps"], report["packed"], report["packs"], report["in_packs"], report["damage"]),
                         (5, 5, 1, 5, []))
        self.assertLess(4 * report["disk_after"], report["disk_before"])
        self.assertEqual([path.name for path in (dataset / "steps").iterdir() if path.name.startswith("pack")],
                         ["pack-0_1x4.qsp"])
        self.assertEqual(said(dataset), said(twin))
        self.assertEqual(qt.info(dataset)[PACKED], {"packs": 1, "steps": 5})
        self.assertIn("packs    1 with the files of 5 steps", qt.succeed("quarry", "info", dataset).out)
        self.assert_verified(dataset)
        for field in ("f", "layers", "turns"):
            self.assertEqual(self.samples(dataset, range(5), field=field), self.samples(twin, range(5), field=field))
        for options in (("--level", "1"), ("--box", "3:9,2:7,1:6")):
            self.assertEqual(self.samples(dataset, range(5), *options), self.samples(twin, range(5), *options))
        for command in (("stats", "--field", "f", "--json"), ("points", "--field", "f", "--at", "3,4,5", "--json")):
            for step in (0, 3):
                self.assertEqual(*(qt.succeed("quarry", command[0], one, *command[1:], "--step", step).out
                                   for one in (dataset, twin)))
        qt.succeed("quarry", "upgrade", dataset)
        self.assertEqual(said(dataset), said(twin))

    def test_datasets_of_every_version(self):
        for golden in sorted((qt.REPOSITORY / "tests/format/golden").iterdir()):
            with self.subTest(version=golden.name):
                dataset = self.tmp / f"{golden.name}.quarry"
                shutil.copytree(golden / "golden.quarry", dataset)
                before = said(dataset)
                fields = [field["name"] for field in before["fields"]]
                expected = [self.samples(dataset, before["steps"], field=field) for field in fields]
                report = self.pack(dataset, "--smaller-than", "1MiB")
                self.assertEqual(report["in_packs"], len(before["steps"]))
                self.assertEqual(said(dataset), before)
                self.assertEqual([self.samples(dataset, before["steps"], field=field) for field in fields], expected)
                self.assert_verified(dataset)

    def test_servers_and_the_index(self):
        dataset = self.make()
        qt.succeed("quarry-index", dataset)
        expected, described = self.samples(dataset, range(5)), {**qt.described(dataset)}
        with qt.Server(self.tmp) as server:
            target = server.target(dataset)
            self.assertEqual(self.samples(target, [0, 3]), [expected[0], expected[3]])
            # Packed while it is served, and unpacked again.
            for options in ((), ("--unpack",), ()):
                qt.succeed("quarry", "pack", dataset, *options)
                self.assertEqual(self.samples(target, range(5)), expected)
                self.assertEqual(qt.described(target), described)
        qt.succeed("quarry-index", dataset)
        qt.succeed("quarry-index", dataset, "--verify")
        shutil.rmtree(dataset / "index")
        qt.succeed("quarry-index", dataset)
        qt.succeed("quarry-index", dataset, "--verify")
        with qt.Server(self.tmp) as server:
            self.assertEqual(self.samples(server.target(dataset), range(5)), expected)
            self.assertEqual(qt.described(server.target(dataset)), described)

    def test_a_small_step_costs_little(self):
        """100 steps of 16^3 samples take at most 1 KiB each beyond their payload."""
        sources = []
        z, y, x = np.meshgrid(*[np.linspace(0, 3, 16)] * 3, indexing="ij")
        for step in range(100):
            sources.append(self.tmp / f"{step:03}.raw")
            (np.sin(x + 0.1 * step) * np.cos(y - z / 2) + 0.01 * step).astype("<f4").tofile(sources[-1])
        dataset = self.tmp / "small.quarry"
        qt.succeed(qt.SERIAL_WRITER, *sources, "--dims", "16x16x16", "--type", "float32", "--field", "f", "--tolerance", "1e-3",
                   "--output", dataset)
        payload = sum(level["bytes"] for level in qt.info(dataset)["fields"][0]["levels"])
        before = disk_bytes(dataset / "steps") - payload
        self.assertGreater(before, 100 * 8_000)
        self.assertEqual(inodes(dataset / "steps"), 401)
        self.pack(dataset)
        after = disk_bytes(dataset / "steps") - payload
        self.assertLessEqual(after, 100 * 1024)
        self.assertEqual(inodes(dataset / "steps"), 2)
        self.assert_verified(dataset)

    def test_writers_go_on(self):
        dataset = self.make()
        qt.succeed("quarry", "pack", dataset)
        qt.convert(field_of(5), dataset, "--relative", "1e-3", "--append")
        self.assertEqual(qt.info(dataset)["steps"], [*range(6)])
        # A series that is resumed: what is packed is there.
        sources = []
        for step in range(8):
            sources.append(self.tmp / f"f{step}.raw")
            field_of(step).tofile(sources[-1])
        other = self.tmp / "series.quarry"
        common = (qt.SERIAL_WRITER, "--dims", "12x10x8", "--type", "float32", "--field", "f", "--relative", "1e-3", "--output", other)
        qt.succeed(*common, *sources[:6])
        qt.succeed("quarry", "pack", other)
        before = qt.snapshot(other / "steps")
        qt.succeed(*common, *sources, "--resume")
        self.assertEqual(qt.info(other)["steps"], [*range(8)])
        self.assertEqual({name for name in qt.snapshot(other / "steps") if name.split("/")[0] not in ("000006", "000007")},
                         set(before))
        # Keyframes: references to packed steps.
        turns = self.make(1, name="turns")
        for step in range(4):
            qt.convert(field_of(step), turns, "--tolerance", "0.01", "--keyframe", "4", "--field", "t", "--step", step, "--append")
            qt.succeed("quarry", "pack", turns)
        self.assertEqual(qt.info(turns)[PACKED]["steps"], 4)
        self.assert_verified(turns)

    def test_another_field_of_packed_steps(self):
        dataset = self.make()
        twin = self.tmp / "twin.quarry"
        shutil.copytree(dataset, twin)
        qt.succeed("quarry", "pack", dataset)
        for one in (dataset, twin):
            qt.convert(field_of(7), one, "--relative", "1e-2", "--field", "g", "--step", "2", "--append")
        self.assertEqual(said(dataset), said(twin))
        self.assertNotIn(PACKED, qt.info(dataset))
        self.assertEqual(self.samples(dataset, [2], field="g"), self.samples(twin, [2], field="g"))
        qt.succeed("quarry", "pack", dataset)
        self.assertEqual(said(dataset), said(twin))
        self.assert_verified(dataset)

    def test_a_watcher_gets_each_step_once(self):
        dataset = self.make(2)
        watcher = Watcher(dataset, "--count", "12")
        watcher.wait_for(1)
        for step in range(2, 12):
            qt.convert(field_of(step), dataset, "--relative", "1e-3", "--step", step, "--append")
            if step % 3 == 0:
                qt.succeed("quarry", "pack", dataset, *["--keep", "1"] * (step % 2))
        watcher.finish()
        self.assertEqual(watcher.steps, [*range(12)])

    def test_a_long_run_packs_its_steps(self):
        sources = [self.tmp / "0.raw", self.tmp / "1.raw"]
        for step, source in enumerate(sources):
            field_of(step).tofile(source)
        listed = self.tmp / "list.txt"
        listed.write_text("".join(f"{sources[step % 2]}\n" for step in range(530)))
        dataset, twin = self.tmp / "long.quarry", self.tmp / "twin.quarry"
        common = (qt.SERIAL_WRITER, "--dims", "12x10x8", "--type", "float32", "--relative", "1e-2")
        watcher = None
        for begin in (0, 10):
            # A run of 10 steps, in which nothing is packed, and one of 530.
            few = self.tmp / "few.txt"
            few.write_text("".join(f"{sources[step % 2]}\n" for step in range(10)))
            qt.succeed(*common, f"@{listed if begin else few}", "--field", "f", "--output", dataset, *["--append"] * bool(begin))
            if not begin:
                self.assertNotIn(PACKED, qt.info(dataset))
                watcher = Watcher(dataset, "--count", "540")
                watcher.wait_for(9)
        watcher.finish()
        self.assertEqual(watcher.steps, [*range(540)])
        self.assertEqual([path.name for path in (dataset / "steps").glob("pack*")], ["pack-10_1x255.qsp"])
        self.assertEqual(qt.info(dataset)["steps"], [*range(540)])
        self.assert_verified(dataset)
        # A field of steps in folders and in a pack.
        shutil.copytree(dataset, twin)
        qt.succeed("quarry", "pack", twin, "--unpack")
        for one in (dataset, twin):
            qt.succeed(*common, f"@{few}", "--field", "g", "--output", one, "--step", "5", "--append")
        self.assertEqual(said(dataset), said(twin))
        self.assertNotIn(PACKED, qt.info(dataset))
        self.assert_verified(dataset)

    def test_packing_that_fails_is_told_and_loses_nothing(self):
        source, listed, dataset = self.tmp / "0.raw", self.tmp / "list.txt", self.tmp / "full.quarry"
        field_of(0).tofile(source)
        listed.write_text(f"{source}\n" * 515)
        outcome = qt.succeed(
            qt.SERIAL_WRITER, f"@{listed}", "--dims", "12x10x8", "--type", "float32", "--relative", "1e-2", "--output", dataset,
            "--report", self.tmp / "report.json",
            env=qt.failing_call("open", errno.ENOSPC, below=dataset / "steps/.partial-pack"))
        (warning,) = [line for line in outcome.err.splitlines() if "warning" in line]
        for part in ("small steps stay folders", os.strerror(errno.ENOSPC), f'run "quarry pack {dataset}" later'):
            self.assertIn(part, warning)
        told = json.loads((self.tmp / "report.json").read_text())["warnings"]
        self.assertEqual([f"quarry-write: warning: {one}" for one in told], [warning])
        self.assertEqual(qt.info(dataset)["steps"], [*range(515)])
        self.assertNotIn(PACKED, qt.info(dataset))
        self.assert_verified(dataset)
        qt.succeed("quarry", "pack", dataset)
        self.assertIn(PACKED, qt.info(dataset))

    def test_unpacked_it_is_as_before(self):
        dataset = self.make()
        before = qt.snapshot(dataset)
        qt.succeed("quarry", "pack", dataset)
        self.assertIn("5 steps were in packs", qt.succeed("quarry", "pack", dataset, "--unpack").out)
        after = qt.snapshot(dataset)
        del before["dataset.json"], after["dataset.json"]
        self.assertTrue(after == before)
        self.assertIn("0 steps", qt.succeed("quarry", "pack", dataset, "--unpack").out)

    def test_what_it_says(self):
        dataset = self.make(3)
        self.assertEqual(self.pack(dataset, "--smaller-than", "1KiB")["not_small"], 3)
        outcome = qt.succeed("quarry", "pack", dataset, "--smaller-than", "1KiB")
        self.assertIn("nothing was to be done: 0 of 3 steps are in packs, no other is smaller than 1KiB", outcome.out)
        self.assertNotIn(PACKED, qt.info(dataset))
        self.assertEqual(json.loads((dataset / "dataset.json").read_text())["format_version"], 4)
        self.assertIn("2 of 3 steps are in packs, 2 of them since now",
                      qt.succeed("quarry", "pack", dataset, "--keep", "1").out)
        self.assertEqual(json.loads((dataset / "dataset.json").read_text())["format_version"], 5)
        self.assert_one_line(qt.run("quarry", "pack", dataset, "--smaller-than", "2MiB"), qt.USAGE, "1048576")
        self.assert_one_line(qt.run("quarry", "pack", dataset, "--smaller-than", "0"), qt.USAGE, "cannot be packed")
        self.assert_one_line(qt.run("quarry", "pack", self.tmp / "none.quarry"), qt.NOT_FOUND, "none.quarry")
        self.assert_one_line(qt.run("quarry", "pack", "grpc://127.0.0.1:1/run"), qt.USAGE, "directory")

    def test_the_lock_is_respected(self):
        dataset = self.make(2)
        before = qt.snapshot(dataset)
        folder = os.open(dataset, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            outcome = qt.run("quarry", "pack", dataset)
        finally:
            os.close(folder)
        self.assert_one_line(outcome, qt.UNREACHABLE, "run.quarry")
        self.assertTrue(qt.snapshot(dataset) == before)

    def test_damaged_steps_stay_folders(self):
        dataset = self.make(4)
        subfile = dataset / "steps/000001/f/0000.qsf"
        subfile.write_bytes(subfile.read_bytes()[:-1])
        (dataset / "steps/000002/step.json").write_text("{}")
        outcome = qt.run("quarry", "pack", dataset, "--json")
        self.assert_one_line(outcome, qt.DAMAGED, "steps/000001/f/0000.qsf")
        report = json.loads(outcome.out)
        self.assertEqual((report["packed"], len(report["damage"])), (2, 2))
        self.assertEqual(sorted(path.name for path in (dataset / "steps").iterdir() if path.name[0] != "."),
                         ["000001", "000002", "pack-0_3.qsp"])

    def test_a_planted_fault_is_found_by_name(self):
        dataset = self.make(4)
        payload = (dataset / "steps/000002/f/0000.qsf").read_bytes()[144:]
        qt.succeed("quarry", "pack", dataset)
        pack = dataset / "steps/pack-0_1x3.qsp"
        data = bytearray(pack.read_bytes())
        at = data.find(payload[:64])
        self.assertEqual(data.count(payload[:64]), 1)
        data[at + 20] ^= 1
        pack.write_bytes(data)
        self.assert_one_line(qt.run("quarry", "verify", dataset), qt.DAMAGED, "steps/000002/f/0000.qsf", "pack-0_1x3.qsp")
        # A table that cannot be read: each of its steps says so, and there are all of them.
        pack.write_bytes(data[:-100])
        self.assertEqual(qt.run("quarry", "get", dataset, "--step", "1", "--output", self.tmp / "o.npy").code, qt.DAMAGED)
        outcome = qt.run("quarry", "verify", dataset, "--json")
        self.assertEqual(len(json.loads(outcome.out)["damage"]), 4)


if __name__ == "__main__":
    qt.main()
