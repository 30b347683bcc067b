"""The index: built once, kept up to date, checked, and never needed for a right answer."""

import itertools
import json
import shutil
import signal
import subprocess

import numpy as np

import quarry_testing as qt

DIMS = (40, 33, 29)
LAYOUT = ("--tolerance", "1e-3", "--patch", "16", "--files", "2")


def index(dataset, *options):
    return qt.succeed("quarry-index", dataset, *options).out


class Index(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.dataset = self.make_dataset("run.quarry", ["a"])
        self.append("b", 1)

    def make_dataset(self, name, fields):
        dataset = self.tmp / name
        for step, field in enumerate(fields):
            append = ["--append"] * bool(step)
            qt.convert(qt.turbulent(DIMS, name=field), dataset, *LAYOUT, "--step", step, *append)
        return dataset

    def append(self, field, step):
        """A step with missing samples: its mask has to be found as well."""
        original = qt.with_holes(qt.turbulent(DIMS, name=field), np.nan)
        qt.convert(original, self.dataset, "--append", "--step", step)

    def check_served(self, dataset=None):
        """With the index in any state, every step through a server equals that of the directory."""
        dataset = dataset or self.dataset
        with qt.Server(self.tmp) as server:
            target = server.target(dataset)
            self.assertEqual(qt.described(target), qt.described(dataset))
            for step in qt.info(dataset)["steps"]:
                for options in ([], ["--box", "3:30,7:20,11:12"], ["--level", 2]):
                    local = qt.get(dataset, self.tmp / "local.raw", "--step", step, *options)
                    remote = qt.get(target, self.tmp / "remote.raw", "--step", step, *options)
                    self.assertTrue(local == remote, f"step {step} {options} differs")

    def assert_not_verified(self, dataset, *options):
        outcome = qt.run("quarry-index", dataset, "--verify", *options)
        self.assertIn(outcome.code, (qt.USAGE, qt.DAMAGED), outcome)
        self.assertEqual(len(outcome.lines_of("quarry-index")), 1, outcome)

    def test_says_what_it_has_loaded(self):
        out = index(self.dataset)
        patches = 2 * int(np.prod([-(-n // 16) for n in DIMS]))
        self.assertIn(f"{patches} patches", out)
        self.assertIn("2 steps", out)
        self.check_served()

    def test_second_run_changes_nothing(self):
        index(self.dataset)
        before = qt.snapshot(self.dataset)
        self.assertIn("nothing new", index(self.dataset))
        self.assertTrue(qt.snapshot(self.dataset) == before)

    def test_new_steps_only(self):
        index(self.dataset)
        self.append("c", 2)
        out = index(self.dataset)
        self.assertIn("1 steps loaded", out)
        index(self.dataset, "--verify")
        self.check_served()
        self.assertIn("nothing new", index(self.dataset))

    def test_new_field_of_an_indexed_step(self):
        index(self.dataset)
        qt.convert(qt.smooth(DIMS), self.dataset, *LAYOUT, "--append", "--step", 1, "--field", "g")
        self.check_served()
        self.assertNotIn("nothing new", index(self.dataset))
        index(self.dataset, "--verify")
        with qt.Server(self.tmp) as server:
            local = qt.get(self.dataset, self.tmp / "local.raw", field="g")
            self.assertTrue(local == qt.get(server.target(self.dataset), self.tmp / "remote.raw", field="g"))

    def test_a_changed_and_a_removed_step(self):
        for step in range(2, 6):
            self.append("abc"[step % 3], step)
        index(self.dataset)
        qt.convert(qt.smooth(DIMS), self.dataset, *LAYOUT, "--append", "--step", 2, "--field", "g")
        shutil.rmtree(self.dataset / "steps" / "000004")
        self.check_served()
        self.assertIn("1 steps loaded", index(self.dataset))
        index(self.dataset, "--verify")
        self.check_served()
        self.assertIn("nothing new", index(self.dataset))

    def test_rebuild(self):
        index(self.dataset)
        self.assertNotIn("nothing new", index(self.dataset, "--rebuild"))
        index(self.dataset, "--verify")
        self.check_served()

    def test_other_folder(self):
        index(self.dataset, "--index", self.tmp / "elsewhere" / "run")
        self.assertFalse((self.dataset / "index").exists())
        index(self.dataset, "--verify", "--index", self.tmp / "elsewhere" / "run")

    def test_missing(self):
        self.check_served()
        self.assert_one_line(qt.run("quarry-index", self.dataset, "--verify"), qt.NOT_FOUND, "index")

    def test_stale(self):
        """Steps newer than the index are served, and the check says that the index is out of date."""
        index(self.dataset)
        self.append("c", 2)
        self.check_served()
        self.assert_not_verified(self.dataset)

    def test_step_that_appears_while_the_server_runs(self):
        index(self.dataset)
        with qt.Server(self.tmp) as server:
            target = server.target(self.dataset)
            self.assertEqual(qt.info(target)["steps"], [0, 1])
            self.append("c", 2)
            self.assertEqual(qt.info(target)["steps"], [0, 1, 2])
            index(self.dataset)
            local = qt.get(self.dataset, self.tmp / "local.raw", "--step", 2)
            self.assertTrue(local == qt.get(target, self.tmp / "remote.raw", "--step", 2))

    def test_index_of_another_dataset(self):
        """Same grid, field and steps, other samples: the wrong records look like the right ones."""
        other = self.make_dataset("other.quarry", ["b", "a"])
        index(other)
        shutil.copytree(other / "index", self.dataset / "index")
        self.assert_not_verified(self.dataset)
        self.check_served()
        self.assertNotIn("nothing new", index(self.dataset))
        index(self.dataset, "--verify")
        self.check_served()

    def test_index_of_what_the_dataset_was_before(self):
        """A dataset that was deleted and rewritten under its name, with the old index in place."""
        index(self.dataset)
        shutil.move(self.dataset / "index", self.tmp / "old")
        shutil.rmtree(self.dataset)
        self.make_dataset("run.quarry", ["c", "d"])
        shutil.move(self.tmp / "old", self.dataset / "index")
        self.assert_not_verified(self.dataset)
        self.check_served()

    def assert_no_leftovers_in_index(self):
        folder = self.dataset / "index"
        pieces = json.loads((folder / "seal.json").read_text())["pieces"]
        self.assertEqual({path.name for path in folder.iterdir()},
                         {"seal.json", *(f"patches-{piece['checksum']}.mdb" for piece in pieces)})

    def test_left_overs_are_removed(self):
        """The next run removes what a killed run left in the folder."""
        index(self.dataset)
        for name in ("working-4242.mdb", "working-4242-old.mdb", "patches-0123456789abcdef.mdb"):
            (self.dataset / "index" / name).write_bytes(b"half")
        (self.dataset / "index" / "seal.json.partial-4242").write_bytes(b"half")
        self.check_served()
        index(self.dataset)
        self.assert_no_leftovers_in_index()

    def check_kills(self, put_back, some):
        """Kills quarry-index at calls on files, some of each kind in the short form, from the index that `put_back` leaves."""
        killed = 0
        for kind in ("open", "write", "sync", "rename"):
            for number in itertools.count(1) if qt.FULL else some:
                put_back()
                with self.subTest(kind, number=number):
                    code = self.kill_at(kind, number)
                    self.check_served()
                    index(self.dataset)
                    index(self.dataset, "--verify")
                    self.assert_no_leftovers_in_index()
                if code == 0:  # there are fewer such calls
                    break
                self.assertEqual(code, -signal.SIGKILL)
                killed += 1
        self.assertGreaterEqual(killed, 4)

    def test_interrupted_run(self):
        """A kill at any call on a file leaves an index that the next run completes and readers accept."""
        self.check_kills(lambda: shutil.rmtree(self.dataset / "index", ignore_errors=True), (1, 2, 4, 8, 16))

    def test_interrupted_update(self):
        """The same for a run that finds a changed, a removed and a new step, and merges pieces."""
        for step in range(2, 7):
            self.append("abc"[step % 3], step)
        index(self.dataset)
        self.append("a", 7)
        index(self.dataset)
        qt.convert(qt.smooth(DIMS), self.dataset, *LAYOUT, "--append", "--step", 3, "--field", "g")
        shutil.rmtree(self.dataset / "steps" / "000005")
        self.append("b", 8)
        shutil.copytree(self.dataset / "index", self.tmp / "before")

        def put_back():
            shutil.rmtree(self.dataset / "index")
            shutil.copytree(self.tmp / "before", self.dataset / "index")

        self.check_kills(put_back, (1, 3, 9))

    def kill_at(self, kind, number):
        """The end of a quarry-index that is killed before its n-th call of this kind on a file of the index."""
        fail = qt.failing_call(kind, -signal.SIGKILL, below=self.dataset / "index", at=number)
        environment = qt.ENVIRONMENT | fail | {"QUARRY_FAIL_REPORT": str(self.tmp / "killed")}
        return subprocess.run([qt.executable("quarry-index"), self.dataset], stdout=subprocess.DEVNULL, env=environment,
                              timeout=qt.TIMEOUT, check=False).returncode


if __name__ == "__main__":
    qt.main()
