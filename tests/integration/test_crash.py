"""After a crash at any moment of a publication, an append, a new field or an update of the index, a dataset is as before or
as after: what the programs do to their files is recorded, and every state that a disk may have kept is opened."""

import shutil
import signal
import subprocess

import numpy as np

import crash_states
import quarry_testing as qt

RECORDER = qt.BIN.parent / "lib" / "librecord_files.so"
DIMS = (40, 30, 20)
LAYOUT = ("--tolerance", "1e-3", "--patch", "16", "--files", "2")
STATES = qt.scaled(30, 100_000)
MOMENTS = qt.scaled(8, 50)


class Crash(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.root = self.tmp / "data"
        self.root.mkdir()
        self.path = self.root / "a.quarry"
        self.layout = LAYOUT
        self.inputs = {}
        for name in "fgh":
            self.inputs[name] = self.tmp / f"{name}.raw"
            qt.turbulent(DIMS, name=name).tofile(self.inputs[name])

    def writing(self, name, *options, field="f", path=None):
        return ("quarry-write-single", self.inputs[name], "--dims", "x".join(map(str, DIMS)), "--type", "float32",
                "--field", field, *self.layout, "--output", path or self.path, *options)

    def samples(self, path, step, field="f"):
        output = self.tmp / "samples.npy"
        outcome = qt.run("quarry", "get", path, "--step", step, "--field", field, "--output", output)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return np.load(output).tobytes()

    def record(self, command):
        """Runs a program. Returns what the disk held before, and a record of what it did."""
        before = self.tmp / "before"
        shutil.copytree(self.root, before)
        record, data = self.tmp / "record", self.tmp / "written"
        data.touch()
        qt.succeed(*command, env={"LD_PRELOAD": str(RECORDER), "QUARRY_RECORD": str(record),
                                  "QUARRY_RECORD_ROOT": str(self.root), "QUARRY_RECORD_DATA": str(data)})
        lines = [[part.replace(str(self.root), str(before)) for part in line.split("\t")]
                 for line in record.read_text().splitlines()]
        return before, lines, data

    def faults(self, command, check, left_out=None, most=STATES):
        """Looks at states with `check`, which is given the dataset's path. Yields what is wrong with each that it does not
        hold for."""
        before, lines, data = self.record(command)
        without = {number for number, line in enumerate(lines) if left_out and left_out(line)}
        states = list(crash_states.crash_states(before, lines, data, qt.SEED, without))
        self.assertGreater(len(states), 5, lines)
        for moment, choice in states[:most]:
            folder = self.tmp / "after"
            crash_states.write_state(before, lines, data, moment, choice, folder, without)
            try:
                check(folder / "a.quarry")
            except AssertionError as fault:
                yield f"after {lines[:moment + 1][-3:]} with {sorted(choice)}: {fault}"
            shutil.rmtree(folder)

    def published(self, path):
        return sorted(int(step.name) for step in (path / "steps").iterdir() if step.name.isdigit())

    def test_a_new_dataset(self):
        other = self.tmp / "other.quarry"
        qt.succeed(*self.writing("f", path=other))
        expected = self.samples(other, 0)

        def check(path):
            if not path.exists():
                return
            if self.published(path):
                self.assertEqual(self.samples(path, 0), expected)
            else:
                qt.succeed(*self.writing("f", "--resume", path=path))
                self.assertEqual(self.samples(path, 0), expected)
            self.assert_verified(path)

        self.assertEqual(list(self.faults(self.writing("f"), check)), [])

    def faults_of_append(self, **options):
        qt.succeed(*self.writing("f"))
        first = self.samples(self.path, 0)
        other = self.tmp / "other.quarry"
        qt.succeed(*self.writing("g", path=other))
        second = self.samples(other, 0)

        def check(path):
            self.assertEqual(self.samples(path, 0), first)
            if self.published(path) == [0]:
                qt.succeed(*self.writing("g", "--append", "--step", 1, path=path))
            self.assertEqual(self.published(path), [0, 1])
            self.assertEqual(self.samples(path, 1), second)
            self.assert_verified(path)

        return self.faults(self.writing("g", "--append", "--step", 1), check, **options)

    def test_an_append(self):
        self.assertEqual(list(self.faults_of_append()), [])

    def test_an_append_of_tables_in_blocks(self):
        """1,500 patches in a subfile, of which 1,024 are in a block."""
        self.layout = ("--tolerance", "1e-3", "--patch", "2", "--files", "2")
        self.assertEqual(list(self.faults_of_append()), [])

    def test_a_missing_fsync_is_found(self):
        """The check itself: without the syncs of the subfiles, some state is damaged. Looks at states until one is."""
        faults = self.faults_of_append(left_out=lambda line: line[0] == "sync" and line[1].endswith(".qsf"), most=None)
        self.assertIsNotNone(next(faults, None))

    def test_a_new_field(self):
        qt.succeed(*self.writing("f"))
        first = self.samples(self.path, 0)
        other = self.tmp / "other.quarry"
        qt.succeed(*self.writing("h", field="h", path=other))
        added = self.samples(other, 0, "h")

        def check(path):
            self.assertEqual(self.samples(path, 0), first)
            added_before = "h" in [field["name"] for field in qt.step_manifest(path)["fields"]]
            self.assertEqual(added_before, qt.info(path)["fields"][-1]["steps"] == 1 and len(qt.info(path)["fields"]) == 2)
            if not added_before:
                qt.succeed(*self.writing("h", "--append", field="h", path=path))
            self.assertEqual(self.samples(path, 0, "h"), added)
            self.assert_verified(path)

        self.assertEqual(list(self.faults(self.writing("h", "--append", field="h"), check)), [])

    def listed(self, path):
        """The list of the steps, whatever it comes from."""
        return {name: said for name, said in qt.info(path).items() if name != "catalogue"}

    def test_an_upgrade(self):
        """Also of a catalogue that is there, and out of date: nobody trusts a record before it is right."""
        for found in ("none", "old", "large"):
            with self.subTest(catalogue=found):
                shutil.rmtree(self.root)
                self.root.mkdir()
                qt.succeed(*self.writing("f"))
                qt.succeed(*self.writing("g", "--append", "--step", 1))
                old = (self.path / "head").read_bytes()
                qt.succeed(*self.writing("h", "--append", field="h"))
                if found == "old":
                    # As after a program that knows no catalogue has added the field.
                    (self.path / "head").write_bytes(old)
                elif found == "large":
                    manifest = self.path / "steps/000000/step.json"
                    qt.seal_manifest(manifest, manifest.read_text().replace('"source": "', f'"source": "{"x" * 40_000}'))
                    qt.succeed("quarry", "upgrade", self.path)
                    qt.into_one_piece(manifest)
                else:
                    shutil.rmtree(self.path / "catalogue", ignore_errors=True)
                    (self.path / "head").unlink()
                (self.path / "steps/.partial-catalogue-is-current").unlink()
                expected, first = self.listed(self.path), self.samples(self.path, 0)
                shutil.rmtree(self.tmp / "before", ignore_errors=True)
                for name in ("record", "written"):  # by the upgrade before
                    (self.tmp / name).unlink(missing_ok=True)

                def check(path, expected=expected, first=first):
                    self.assertEqual(self.listed(path), expected)
                    self.assertEqual(self.samples(path, 0), first)
                    self.assert_verified(path)

                self.assertEqual(list(self.faults(("quarry", "upgrade", self.path), check)), [])

    def a_small_dataset(self):
        """Three steps of two fields, which are small enough for packs. Returns a check of a dataset that has them."""
        for step, name in enumerate("fgh"):
            small = self.tmp / f"small-{name}.raw"
            qt.turbulent((12, 10, 8), name=name).tofile(small)
            for field in "ab":
                qt.succeed("quarry-write-single", small, "--dims", "12x10x8", "--type", "float32", "--field", field,
                           "--tolerance", "1e-3", "--output", self.path, "--step", step, *["--append"] * self.path.exists())

        def all_of(path):
            said = qt.described(path)
            return said, [self.samples(path, step, field["name"]) for step in said["steps"] for field in said["fields"]]

        expected = all_of(self.path)

        def check(path):
            self.assertEqual(all_of(path), expected)
            self.assert_verified(path)

        return check

    def test_packing(self):
        check = self.a_small_dataset()

        def check_again(path):
            check(path)
            qt.succeed("quarry", "pack", path)
            check(path)
            self.assertEqual(sorted(name.name for name in (path / "steps").iterdir()),
                             [".partial-catalogue-is-current", "pack-0_1x2.qsp"])

        self.assertEqual(list(self.faults(("quarry", "pack", self.path), check_again)), [])

    def assert_needs_sync(self, part):
        """The check itself: without some syncs, some state lacks a step."""
        check = self.a_small_dataset()
        faults = self.faults(("quarry", "pack", self.path), check, most=None,
                             left_out=lambda line: line[0] == "sync" and line[1].endswith(part))
        self.assertIsNotNone(next(faults, None))

    def test_a_missing_fsync_of_a_pack_is_found(self):
        self.assert_needs_sync(".partial-pack")

    def test_a_missing_fsync_of_the_folder_of_packs_is_found(self):
        self.assert_needs_sync("/steps")

    def test_unpacking(self):
        check = self.a_small_dataset()
        qt.succeed("quarry", "pack", self.path)

        def check_again(path):
            check(path)
            qt.succeed("quarry", "pack", path)
            check(path)

        self.assertEqual(list(self.faults(("quarry", "pack", self.path, "--unpack"), check_again)), [])

    def test_a_field_of_a_packed_step(self):
        check = self.a_small_dataset()
        qt.succeed("quarry", "pack", self.path)
        small = self.tmp / "small-f.raw"
        command = ("quarry-write-single", small, "--dims", "12x10x8", "--type", "float32", "--field", "c", "--tolerance", "1e-3",
                   "--step", "1", "--append", "--output")

        def check_both(path):
            if "c" not in [field["name"] for field in qt.info(path)["fields"] if field["steps"] > 0]:
                if len(qt.info(path)["fields"]) == 2:
                    check(path)
                qt.succeed(*command, path)
            self.assertEqual(self.samples(path, 1, "c"), self.samples(path, 0, "a"))
            self.assertEqual(qt.info(path)["steps"], [0, 1, 2])
            self.assert_verified(path)

        self.assertEqual(list(self.faults((*command, self.path), check_both)), [])

    def test_an_index(self):
        qt.succeed(*self.writing("f"))
        qt.succeed("quarry-index", self.path)
        qt.succeed(*self.writing("g", "--append", "--step", 1))
        first, second = self.samples(self.path, 0), self.samples(self.path, 1)

        def check(path):
            with qt.Server(path.parent) as server:
                self.assertEqual(self.samples(server.target(path), 0), first)
                self.assertEqual(self.samples(server.target(path), 1), second)
            qt.succeed("quarry-index", path)
            qt.succeed("quarry-index", path, "--verify")

        self.assertEqual(list(self.faults(("quarry-index", self.path), check)), [])


class Killed(qt.QuarryTest):
    """A program is killed after some of its changes: nothing is lost, and it finishes when it runs again."""

    def setUp(self):
        super().setUp()
        self.root = self.tmp / "data"
        self.path = self.root / "a.quarry"
        self.steps = range(12)
        for step in self.steps:
            for field in "ab":
                samples = self.tmp / "samples.raw"
                qt.turbulent((12, 10, 8), name=f"{field}{step}").tofile(samples)
                self.root.mkdir(exist_ok=True)
                qt.succeed("quarry-write-single", samples, "--dims", "12x10x8", "--type", "float32", "--field", field,
                           "--tolerance", "1e-3", "--output", self.path, "--step", step,
                           *["--append"] * self.path.exists())

    def samples(self, path):
        """All samples of a dataset, by field and step."""
        output = self.tmp / "read"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        qt.succeed("quarry", "get", path, "--fields", "a,b", "--steps", "0:1000", "--output", output / "{field}-{step}.npy")
        return {file.stem: np.load(file) for file in output.iterdir()}

    def assert_same(self, path, expected):
        found = self.samples(path)
        self.assertEqual(sorted(found), sorted(expected))
        for name, samples in expected.items():
            np.testing.assert_array_equal(found[name], samples, err_msg=name)

    def recorded(self, path, last=None):
        """The record of the changes beside a dataset, and the environment that makes it."""
        record = self.tmp / "record"
        record.unlink(missing_ok=True)
        return record, {"LD_PRELOAD": str(RECORDER), "QUARRY_RECORD": str(record), "QUARRY_RECORD_ROOT": str(path.parent),
                        **({} if last is None else {"QUARRY_RECORD_KILL": str(last)})}

    def code_of(self, program, *words, env):
        """The end of a program that may be killed."""
        return subprocess.run([qt.executable(program), *map(str, words)], capture_output=True, env=qt.ENVIRONMENT | env,
                              timeout=qt.TIMEOUT, check=False).returncode

    def assert_survives(self, *command):
        """Kills a command, which is given the path, on copies of the dataset at moments all over its work."""
        untouched, copy = self.samples(self.path), self.tmp / "copy/a.quarry"
        shutil.copytree(self.path, copy)
        record, environment = self.recorded(copy)
        qt.succeed(*command, copy, env=environment)
        changes = len(record.read_text().splitlines())
        self.assert_same(copy, untouched)
        done = qt.snapshot(copy).keys()
        self.assertGreaterEqual(changes, 50)
        moments = sorted({1 + round(i * (changes - 1) / (MOMENTS - 1)) for i in range(MOMENTS)})
        self.assertEqual(len(moments), MOMENTS)
        for moment in moments:
            with self.subTest(command=command, killed_after=moment):
                shutil.rmtree(copy.parent)
                shutil.copytree(self.path, copy)
                record, environment = self.recorded(copy, moment)
                self.assertEqual(self.code_of(*command, copy, env=environment), -signal.SIGKILL)
                self.assertEqual(len(record.read_text().splitlines()), moment)
                self.assert_same(copy, untouched)
                self.assert_verified(copy)
                qt.succeed(*command, copy)
                self.assert_same(copy, untouched)
                self.assert_verified(copy)
                self.assertEqual(qt.snapshot(copy).keys(), done)

    def test_packing(self):
        self.assert_survives("quarry", "pack")

    def test_unpacking(self):
        qt.succeed("quarry", "pack", self.path)
        self.assert_survives("quarry", "pack", "--unpack")

    def test_an_upgrade(self):
        """Steps of many fields get sections, and all get a catalogue."""
        for step in self.steps:
            manifest = self.path / f"steps/{step:06}/step.json"
            qt.seal_manifest(manifest, manifest.read_text().replace('"source": "', f'"source": "{"x" * 40_000}'))
        qt.succeed("quarry", "upgrade", self.path)
        for step in self.steps:
            qt.into_one_piece(self.path / f"steps/{step:06}/step.json")
        shutil.rmtree(self.path / "catalogue", ignore_errors=True)
        (self.path / "head").unlink()
        (self.path / "steps/.partial-catalogue-is-current").unlink()
        self.assert_survives("quarry", "upgrade")


if __name__ == "__main__":
    qt.main()
