"""quarry cp: between directories, from a web server, and to and from an object store; killed and resumed."""

import json
import os
import shutil
import signal
import subprocess
import threading

import numpy as np
import object_stores
import quarry_testing as qt
from object_stores import Handler, Store, WritableS3Handler

DIMS = (40, 33, 21)
STEPS = range(4)


def files_of(folder):
    """Its files; an empty folder, as of a catalogue without pages, is no part of a dataset."""
    return {path: data for path, data in qt.snapshot(folder).items() if data is not None}


def names_below(folder):
    """Their number; folders may be renamed meanwhile."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def field_of(name, step):
    field = qt.make_field(DIMS, "<f4", name=f"{name}{step}")
    return qt.with_holes(field, np.nan, name=step) if name == "b" else field


class Copies(qt.QuarryTest):
    """A dataset of two fields, one of them with masks."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.shared / "bucket" / "run.quarry"
        cls.source.parent.mkdir()
        for name in "ab":
            for step in STEPS:
                qt.convert(field_of(name, step), cls.source, "--relative", "1e-3", "--patch", "16", "--files", "3",
                           "--field", name, "--step", step, *["--append"] * cls.source.exists())
        cls.files = files_of(cls.source)

    def cp(self, *arguments, env=None):
        return json.loads(qt.succeed("quarry", "cp", *arguments, "--json", env=env or {}).out)

    def store(self, name="store"):
        (self.tmp / name / "bucket").mkdir(parents=True)
        return Store(self.tmp / name, WritableS3Handler)

    def samples(self, target, field, step, env=None):
        output = self.tmp / "out.raw"
        qt.succeed("quarry", "get", target, "--output", output, "--field", field, "--step", step, env=env or {})
        return np.fromfile(output, "<f4").reshape(DIMS[::-1])

    def assert_copied(self, folder):
        """All files are those of the source."""
        self.assertEqual(files_of(folder), self.files)
        self.assert_verified(folder)

    def assert_same_in_store(self, folder, source):
        """The head, which publishes the steps there, and no other file differs."""
        files, known = files_of(folder), files_of(source)
        head, other = files.pop("head"), known.pop("head")
        self.assertEqual(files, known)
        # docs/format.md: version 5, bit 0 of the flags, and the checksum.
        self.assertEqual((head[8], head[32], other[8], other[32]), (5, 1, 5, 0))
        self.assertEqual(head[:32] + head[33:-8], other[:32] + other[33:-8])
        self.assert_verified(folder)


class Directories(Copies):
    def test_the_copy_has_the_same_files(self):
        target = self.tmp / "copy.quarry"
        report = self.cp(self.source, target)
        self.assertEqual((report["steps"], report["there"], report["kept"], report["damage"]), (4, 0, 0, []))
        self.assert_copied(target)
        self.assert_no_leftovers(self.tmp)
        self.assertEqual(self.cp(self.source, target)["there"], 4)
        self.assert_copied(target)

    def test_steps_and_fields_are_those_that_were_chosen(self):
        target = self.tmp / "part.quarry"
        self.assertEqual(self.cp(self.source, target, "--steps", "1:3", "--fields", "b")["steps"], 2)
        self.assert_verified(target)
        described = qt.info(target)
        self.assertEqual([field["name"] for field in described["fields"]], ["b"])
        for step in (1, 2):
            got = self.samples(target, "b", step)
            self.assertEqual(got.tobytes(), self.samples(self.source, "b", step).tobytes())
            wanted = field_of("b", step).reshape(got.shape)
            self.assert_decoded(wanted, got, 1.001e-3 * np.ptp(wanted[np.isfinite(wanted)]))
        # More steps come beside them, and other fields of the same steps do not.
        self.assertEqual(self.cp(self.source, target, "--fields", "b")["there"], 2)
        self.assert_verified(target)
        before = files_of(target)
        self.assert_one_line(qt.run("quarry", "cp", self.source, target), qt.USAGE, "step 0", "other contents")
        self.assertEqual(files_of(target), before)

    def test_packs_stay_packs(self):
        packed = self.tmp / "packed.quarry"
        self.cp(self.source, packed)
        qt.succeed("quarry", "pack", packed, "--smaller-than", "1MiB")
        target = self.tmp / "copy.quarry"
        self.cp(packed, target)
        self.assertEqual(files_of(target), files_of(packed))
        self.assert_verified(target)
        part = self.tmp / "part.quarry"
        self.cp(packed, part, "--steps", "1:3")
        self.assertEqual(sorted(path.name for path in (part / "steps").glob("0*")), ["000001", "000002"])
        self.assert_verified(part)

    def test_coarse_objects_come_along(self):
        large = self.tmp / "large.quarry"
        for step in (0, 1):
            qt.convert(qt.make_field((96, 80, 64), "<f4", name=step), large, "--relative", "1e-5", "--order", "coarse", "--step",
                       step, *["--append"] * bool(step))
        self.assertEqual(len(list(large.glob("steps/*/coarse"))), 2)
        target = self.tmp / "copy.quarry"
        said = self.cp(large, target, "--dry-run")
        done = self.cp(large, target)
        self.assertEqual((said["files"], said["bytes"]), (done["files"], done["bytes"]))
        self.assertEqual(files_of(target), files_of(large))
        self.assert_verified(target)
        damaged = large / "steps" / "000001" / "coarse"
        damaged.write_bytes(damaged.read_bytes()[:-1])
        other = self.tmp / "other.quarry"
        self.assert_one_line(qt.run("quarry", "cp", large, other), qt.DAMAGED, "000001/coarse")
        (found,) = self.cp(large, other, "--allow-damage")["damage"]
        self.assertIn("000001/coarse", found)
        self.assertFalse((other / "steps" / "000001" / "coarse").exists())
        self.assertTrue((other / "steps" / "000001" / "step.json").exists())
        self.assert_verified(other)

    def test_a_dry_run_says_what_a_copy_does(self):
        target = self.tmp / "copy.quarry"
        said = self.cp(self.source, target, "--dry-run")
        self.assertFalse(target.exists())
        done = self.cp(self.source, target)
        self.assertEqual((said["files"], said["bytes"]), (done["files"], done["bytes"]))

    def test_errors_say_what_to_do(self):
        other = self.tmp / "other.quarry"
        qt.convert(field_of("a", 0), other, "--relative", "1e-2", "--field", "a")
        (self.tmp / "folder").mkdir()
        (self.tmp / "folder" / "file").touch()
        for arguments, code, words in (
                ((self.source, self.source), qt.USAGE, ["itself"]),
                ((self.tmp / "none.quarry", self.tmp / "x.quarry"), qt.NOT_FOUND, ["none.quarry"]),
                ((self.source, self.tmp / "folder"), qt.USAGE, ["is no dataset"]),
                ((self.source, other), qt.USAGE, ["another dataset"]),
                ((self.source, "https://host/x.quarry"), qt.USAGE, ["web server"]),
                ((self.source, "grpc://host:1/x"), qt.USAGE, ["no URL of a store"]),
                ((self.source, self.tmp / "x.quarry", "--steps", "9:"), qt.NOT_FOUND, ["range"]),
                ((self.source, self.tmp / "x.quarry", "--steps", "9"), qt.USAGE, ["BEGIN:END"]),
                ((self.source, self.tmp / "x.quarry", "--fields", "c"), qt.NOT_FOUND, ['"c"']),
                ((self.source, self.tmp / "x.quarry", "--memory", "1"), qt.USAGE, ["--memory"])):
            with self.subTest(arguments=arguments):
                self.assert_one_line(qt.run("quarry", "cp", *arguments), code, *words)
        self.assertFalse((self.tmp / "x.quarry").exists())

    def test_steps_that_others_refer_to_are_needed(self):
        keyed = self.tmp / "keyed.quarry"
        for step in STEPS:
            qt.convert(field_of("a", 0), keyed, "--relative", "1e-3", "--keyframe", "16", "--step", step,
                       *["--append"] * bool(step))
        target = self.tmp / "x.quarry"
        self.assert_one_line(qt.run("quarry", "cp", keyed, target, "--steps", "1:2"), qt.USAGE, "refers to step", "--steps")
        self.assertFalse(target.exists())

    def test_damage_is_refused_or_copied(self):
        damaged = self.tmp / "damaged.quarry"
        self.cp(self.source, damaged)
        file = damaged / "steps" / "000002" / "a" / "0000.qsf"
        data = bytearray(file.read_bytes())
        data[300] ^= 1
        file.write_bytes(data)
        target = self.tmp / "copy.quarry"
        self.assert_one_line(qt.run("quarry", "cp", damaged, target), qt.DAMAGED, "000002/a/0000.qsf")
        self.assertFalse(target.exists())
        self.assertEqual(len(self.cp(damaged, target, "--allow-damage")["damage"]), 1)
        self.assertEqual(files_of(target), files_of(damaged))

    def test_a_copy_that_was_killed_goes_on(self):
        """The process ends when so many names have appeared; at the last ones it may be done."""
        names = names_below(self.source)
        for moment in range(0, names, max(1, names // qt.scaled(12, 100))):
            with self.subTest(moment=moment):
                place = self.tmp / str(moment)
                place.mkdir()
                target = place / "copy.quarry"
                process = subprocess.Popen([qt.executable("quarry"), "cp", str(self.source), str(target)],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=qt.ENVIRONMENT)
                while process.poll() is None and names_below(place) <= moment:
                    pass
                process.send_signal(signal.SIGKILL)
                process.wait()
                if target.exists():
                    self.assert_verified(target)
                report = self.cp(self.source, target)
                self.assertEqual(report["steps"], 4)
                self.assert_verified(target)
                qt.succeed("quarry", "cp", self.source, target, "--clean")
                self.assert_copied(target)
                self.assert_no_leftovers(place)

    def test_a_copy_that_is_killed_and_given_up_leaves_nothing(self):
        target = self.tmp / "copy.quarry"
        hidden = self.tmp / ".copy.quarry.partial"
        process = subprocess.Popen([qt.executable("quarry"), "cp", str(self.source), str(target)],
                                   stdout=subprocess.DEVNULL, env=qt.ENVIRONMENT)
        while process.poll() is None and not hidden.exists():
            pass
        process.kill()
        process.wait()
        qt.succeed("quarry", "cp", self.source, target, "--clean")
        self.assertFalse(hidden.exists())


class Stores(Copies):
    TARGET = "s3://bucket/runs/copy.quarry"

    def path_of(self, store):
        return store.server.folder / "bucket" / "runs" / "copy.quarry"

    def test_there_and_back_again(self):
        with self.store() as store, Store(self.shared / "bucket", Handler) as web:
            env = store.environment()
            self.cp(self.source, self.TARGET, env=env)
            self.assert_same_in_store(self.path_of(store), self.source)
            self.assertEqual(self.cp(self.source, self.TARGET, env=env)["there"], 4)
            qt.succeed("quarry", "verify", self.TARGET, env=env)
            self.cp(self.TARGET, self.tmp / "back.quarry", env=env)
            self.assert_copied(self.tmp / "back.quarry")
            self.cp(f"{web.url}/run.quarry", self.tmp / "web.quarry")
            self.assert_copied(self.tmp / "web.quarry")
            self.cp(self.TARGET, "s3://bucket/part.quarry", "--steps", "2:", "--fields", "a", env=env)
            self.assertEqual(self.samples("s3://bucket/part.quarry", "a", 3, env=env).tobytes(),
                             self.samples(self.source, "a", 3).tobytes())

    def test_steps_are_added(self):
        with self.store() as store:
            env = store.environment()
            self.cp(self.source, self.TARGET, "--steps", "1:3", env=env)
            report = self.cp(self.source, self.TARGET, env=env)
            self.assertEqual((report["steps"], report["there"]), (4, 2))
            self.assert_same_in_store(self.path_of(store), self.source)
            # As other tools copy it: the head is that of a directory.
            other = store.server.folder / "bucket" / "other.quarry"
            shutil.copytree(self.source, other)
            (other / "steps" / "000003" / "step.json").unlink()
            self.assert_one_line(qt.run("quarry", "cp", self.source, "s3://bucket/other.quarry", env=env), qt.USAGE,
                                 "no steps can be added")

    def test_of_two_that_add_steps_one_has_to_go_on(self):
        with self.store() as store:
            env = store.environment()
            self.cp(self.source, self.TARGET, "--steps", "0:1", env=env)
            begun = threading.Event()

            def before(handler):
                """Before the first head comes, another process adds a step."""
                if not handler.path.endswith("/head") or begun.is_set():
                    return False
                begun.set()
                self.cp(self.source, self.TARGET, "--steps", "2:3", env=env)
                return False

            store.server.before = before
            self.assert_one_line(qt.run("quarry", "cp", self.source, self.TARGET, "--steps", "0:2", env=env), qt.UNREACHABLE,
                                 "another process has added steps", "run the command again")
            described = json.loads(qt.succeed("quarry", "info", self.TARGET, "--json", env=env).out)
            self.assertEqual(described["steps"], [0, 2])
            self.cp(self.source, self.TARGET, env=env)
            self.assert_same_in_store(self.path_of(store), self.source)

    def test_readers_see_added_steps_with_the_head(self):
        """A copy that adds steps ends before its first change, before its second one and so on."""
        for moment in range(1, 1000, 1 if qt.FULL else 4):
            with self.subTest(moment=moment), self.store(f"store{moment}") as store:
                env = store.environment()
                self.cp(self.source, self.TARGET, "--steps", "0:1", env=env)
                ended = self.kill_at(store, moment)
                described = json.loads(qt.succeed("quarry", "info", self.TARGET, "--json", env=env).out)
                if not ended:
                    self.assertEqual(described["steps"], [0, 1, 2, 3])
                    break
                self.assertIn(described["steps"], ([0], [0, 1, 2, 3]))
                qt.succeed("quarry", "verify", self.TARGET, env=env)
                self.cp(self.source, self.TARGET, env=env)
                self.assert_same_in_store(self.path_of(store), self.source)

    def test_large_files_come_in_parts(self):
        noise = np.frombuffer(np.random.default_rng(1).bytes(20 << 20), "<u4").reshape(40, 256, 512)
        large = self.tmp / "large.quarry"
        qt.convert(noise, large, "--field", "n")
        with self.store() as store:
            env = store.environment()
            self.cp(large, self.TARGET, env=env)
            self.assert_same_in_store(self.path_of(store), large)
            self.assertEqual(len([line for line in store.asked if "partNumber=" in line]), 3, store.asked)
            self.assertEqual(store.server.uploads, {})

    def kill_at(self, store, moment):
        return store.kill_at(moment, [qt.executable("quarry"), "cp", str(self.source), self.TARGET], qt.ENVIRONMENT)

    def test_a_copy_that_was_killed_goes_on(self):
        """The process ends before its first change, before its second one and so on."""
        for moment in range(1, 1000, 1 if qt.FULL else 4):
            with self.subTest(moment=moment), self.store(f"store{moment}") as store:
                if not self.kill_at(store, moment):
                    self.assert_same_in_store(self.path_of(store), self.source)
                    break
                # It has not ended, so it is not there for readers.
                self.assertFalse((self.path_of(store) / "dataset.json").exists())
                self.cp(self.source, self.TARGET, env=store.environment())
                self.assert_same_in_store(self.path_of(store), self.source)

    def test_a_copy_that_is_killed_and_given_up_leaves_nothing(self):
        with self.store() as store:
            self.assertTrue(self.kill_at(store, 12))
            qt.succeed("quarry", "cp", self.source, self.TARGET, "--clean", env=store.environment())
            self.assertEqual([str(path) for path in (store.server.folder / "bucket").rglob("*")], [])
            self.assertEqual(store.server.uploads, {})

    def test_lost_answers_and_broken_connections_do_no_harm(self):
        with self.store() as store:
            with store.losing_answers(qt.random_numbers("lost")):
                self.cp(self.source, self.TARGET, env=store.environment())
            self.assert_same_in_store(self.path_of(store), self.source)

    def test_a_store_that_ignores_conditions_is_said(self):
        with self.store() as store:
            store.server.keeps_conditions = False
            self.assertIn("ignores conditions", qt.succeed("quarry", "cp", self.source, self.TARGET,
                                                           env=store.environment()).out)
            self.assert_same_in_store(self.path_of(store), self.source)

    def test_wrong_credentials_are_said(self):
        with self.store() as store:
            outcome = qt.run("quarry", "cp", self.source, self.TARGET, env=store.environment(secret="another"))
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertNotIn(object_stores.SECRET, outcome.err)


if __name__ == "__main__":
    qt.main()
