"""Published steps survive a crash of the machine: the order of writes, syncs and renames.

A library that is loaded before the programs records their operations on files (tests/testing/record_files.c). The test
replays them against a disk that keeps nothing which was not synced: data of a file without fsync of the file, and
entries of a folder without fsync of the folder, are lost at the worst moment.
"""

import fcntl
import os
import shutil
import subprocess
import threading
from pathlib import PurePath

import numpy as np

import quarry_testing as qt

RECORDER = qt.BIN.parent / "lib" / "librecord_files.so"
DIMS = (40, 30, 20)
LAYOUT = ("--relative", "1e-3", "--patch", "16", "--files", "2")
# Readers of these files go on to the files that they name.
REFERRING = ("dataset.json", "step.json", "seal.json")
CURRENT = ".partial-catalogue-is-current"


def read_operations(record):
    return [line.split("\t") for line in record.read_text().splitlines()]


class Disk:
    """The changes that a crash would lose, in the course of some operations.

    `root`: the folder of the datasets. What is below a name that begins with a dot, and other working files, nobody
    reads after a crash."""

    def __init__(self, root):
        self.root = str(root)
        self.dirty = set()  # files with data that are not synced
        self.loose = set()  # paths whose entry in their folder is not synced
        self.published = []
        self.faults = []

    def visible(self, path):
        parts = PurePath(path).relative_to(self.root).parts
        return not any(part.startswith((".", "working-")) or ".partial" in part for part in parts)

    def _at_or_below(self, paths, folder):
        return sorted(path for path in paths if path == folder or path.startswith(folder + "/"))

    def _check(self, moment, dirty, loose):
        self.faults += [f"{moment}: the data of {path} are not synced" for path in dirty]
        self.faults += [f"{moment}: the entry {path} is not synced" for path in loose]

    def _check_what_is_visible(self, moment):
        # The head before this one has fewer records, which costs time alone.
        loose = [path for path in filter(self.visible, self.loose) if PurePath(path).name != "head"]
        self._check(moment, sorted(filter(self.visible, self.dirty)), sorted(loose))

    def _move(self, old, new):
        if self.visible(new):
            moment = f"when {new} is published"
            below = [path for path in self._at_or_below(self.loose, old) if path != old]
            self._check(moment, self._at_or_below(self.dirty, old), below)
            is_step = PurePath(new).parent.name == "steps"
            if is_step or PurePath(new).name in REFERRING:
                self._check_what_is_visible(moment)
            self.published.append(new)
        for paths in (self.dirty, self.loose):
            for path in self._at_or_below(paths, new):
                paths.remove(path)  # replaced
            for path in self._at_or_below(paths, old):
                paths.remove(path)
                paths.add(new + path[len(old):])
        self.loose.add(new)

    def apply(self, what, path, other=None, _size=None):
        if what in ("create", "link") and PurePath(other if what == "link" else path).name == CURRENT:
            # From now on every record of the head that a crash leaves counts.
            heads = [path for path in self.dirty | self.loose if PurePath(path).name == "head"]
            self.faults += [f"when {path} is made: {head} is not synced" for head in heads]
        if what in ("create", "mkdir"):
            self.loose.add(path)
        if what in ("create", "truncate", "write", "resize"):
            self.dirty.add(path)
        if what == "sync":
            self.dirty.discard(path)
            self.loose -= {entry for entry in self.loose if str(PurePath(entry).parent) == path}
        if what == "remove":
            for paths in (self.dirty, self.loose):
                paths.difference_update(self._at_or_below(paths, path))
        if what in ("rename", "link"):
            self._move(path, other)

    def end(self):
        self._check_what_is_visible("at the end")


class Durability(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        if not RECORDER.is_file():
            qt.skip(f"there is no {RECORDER}; build the target record_files")
        self.root = self.tmp / "data"
        self.root.mkdir()
        self.dataset = self.root / "a.quarry"
        self.record = self.tmp / "operations"
        self.environment = {"LD_PRELOAD": str(RECORDER), "QUARRY_RECORD": str(self.record),
                            "QUARRY_RECORD_ROOT": str(self.root),
                            "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
        self.sources = []
        for number in range(2):
            source = self.tmp / f"step{number}.f32"
            qt.with_holes(qt.make_field(DIMS, "<f4", name=number), np.nan).tofile(source)
            self.sources.append(source)

    def write(self, *options, ranks=0, field="f"):
        return qt.mpi_command(ranks, "quarry-write", *options, "--dims", "x".join(map(str, DIMS)), "--type", "float32",
                              "--field", field, *LAYOUT, "--output", self.dataset)

    def recorded(self, command):
        """Runs a program and replays what it did. Returns its operations and what it has published."""
        self.record.unlink(missing_ok=True)
        # Only the ranks are recorded: mpirun itself does nothing to the dataset.
        program = command.index(qt.executable("quarry-write")) if command[0] == "mpirun" else 0
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        qt.succeed(*command[:program], "env", *settings, qt.executable(command[program]), *command[program + 1:])
        operations = read_operations(self.record)
        disk = Disk(self.root)
        for operation in operations:
            # An index can always be made anew: a crash may take its whole folder.
            if operation != ["mkdir", str(self.dataset / "index")]:
                disk.apply(*operation)
        disk.end()
        self.assertEqual(disk.faults, [])
        return operations, [str(PurePath(path).relative_to(self.root)) for path in disk.published]

    def test_a_new_dataset(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                operations, published = self.recorded(self.write(*self.sources, "--step", 0, ranks=ranks))
                self.assertEqual(published[0], "a.quarry")
                self.assertEqual([path for path in published if path.startswith("a.quarry/steps/")],
                                 ["a.quarry/steps/000001"])
                self.assert_payload_before_table(operations)
            shutil.rmtree(self.dataset)

    def assert_payload_before_table(self, operations):
        """A reader that finds a table finds the payload that it names: there is a sync before the last writes, and one
        after."""
        histories = {}
        for what, path, *_ in operations:
            if path.endswith(".qsf") and what in ("write", "sync"):
                histories[path] = histories.get(path, "") + what[0]
        self.assertGreater(len(histories), 2)
        for path, history in histories.items():
            self.assertRegex(history, "^w+sw+s$", path)

    def test_steps_fields_and_masks_that_are_added(self):
        qt.succeed(*self.write(self.sources[0], "--step", 0))
        _, published = self.recorded(self.write(self.sources[1], "--step", 1, "--append"))
        self.assertEqual(published, ["a.quarry/steps/000001", "a.quarry/head"])
        other = self.tmp / "other.f32"
        field = qt.make_field(DIMS, "<f4", name="other")
        field[:5] = np.nan
        field.tofile(other)
        _, published = self.recorded(self.write(other, "--step", 2, "--append"))
        self.assertEqual([PurePath(path).parent.name for path in published], ["masks", "steps", "a.quarry"])
        _, published = self.recorded(self.write(self.sources[0], "--step", 0, "--append", field="g"))
        self.assertEqual(published, ["a.quarry/dataset.json", "a.quarry/steps/000000/g", "a.quarry/steps/000000/step.json",
                                     "a.quarry/head"])
        self.assert_verified(self.dataset)

    def test_an_index(self):
        qt.succeed(*self.write(self.sources[0], "--step", 0))
        for step in (0, 1):
            _, published = self.recorded(["quarry-index", self.dataset])
            self.assertEqual([PurePath(path).name.split("-")[0] for path in published], ["patches", "seal.json"])
            if step == 0:
                qt.succeed(*self.write(self.sources[1], "--step", 1, "--append"))

    def test_what_changes_a_dataset_holds_its_lock(self):
        qt.succeed(*self.write(self.sources[0], "--step", 0))
        operations, _ = self.recorded(self.write(self.sources[1], "--step", 1, "--append"))
        self.assertEqual(operations[0][:2], ["lock", str(self.dataset)])

    def test_an_append_waits_for_the_lock(self):
        qt.succeed(*self.write(self.sources[0], "--step", 0))
        before = qt.snapshot(self.dataset)
        holder = os.open(self.dataset, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, holder)
        fcntl.flock(holder, fcntl.LOCK_EX)
        os.mkfifo(self.record)  # tells at once what the program does
        told, waits = [], threading.Event()

        def listen():
            with open(self.record, encoding="utf-8") as lines:
                for line in lines:
                    told.append(line.split()[0])
                    waits.set()

        listener = threading.Thread(target=listen)
        listener.start()
        writer = subprocess.Popen([str(part) for part in self.write(self.sources[1], "--step", 1, "--append")],
                                  env=qt.ENVIRONMENT | self.environment, stdout=subprocess.DEVNULL)
        keep_open = os.open(self.record, os.O_WRONLY)  # the writer opens it anew for each line
        try:
            self.assertTrue(waits.wait(qt.TIMEOUT), "the program did nothing to the dataset")
            self.assertEqual(told[0], "lock-wait")
            self.assertEqual(qt.snapshot(self.dataset), before)
        finally:
            fcntl.flock(holder, fcntl.LOCK_UN)
            code = writer.wait(qt.TIMEOUT)
            os.close(keep_open)
            listener.join()
        self.assertEqual(code, qt.DONE)
        self.assertEqual(qt.info(self.dataset)["steps"], [0, 1])


if __name__ == "__main__":
    qt.main()
