"""quarry upgrade: datasets of every version get a catalogue, nothing else changes, and lists of steps stay what they
were."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import numpy as np

import quarry_testing as qt

GOLDEN = Path(__file__).resolve().parents[1] / "format" / "golden"
DIMS = (12, 10, 8)


def of_catalogue(name):
    return name == "head" or name.split("/")[0] == "catalogue" or name.endswith(".partial-catalogue-is-current")


def rest(dataset):
    """Everything but the catalogue."""
    return {name: data for name, data in qt.snapshot(dataset).items() if not of_catalogue(name)}


def info(dataset):
    """The answer of `quarry info`, and its part about the catalogue."""
    said = qt.info(dataset)
    return said, said.pop("catalogue")


class Upgrade(qt.QuarryTest):
    def make(self, steps=3):
        dataset = self.tmp / "run.quarry"
        for step in range(steps):
            qt.convert(qt.with_holes(qt.make_field(DIMS, "<f4", name=step), np.nan), dataset, "--relative", "1e-3",
                       "--step", step, *["--append"] * bool(step))
        return dataset

    def remove_catalogue(self, dataset):
        shutil.rmtree(dataset / "catalogue")
        (dataset / "head").unlink()
        (dataset / "steps/.partial-catalogue-is-current").unlink()

    def test_datasets_of_every_version(self):
        for golden in sorted(GOLDEN.iterdir()):
            with self.subTest(version=golden.name):
                dataset = self.tmp / f"{golden.name}.quarry"
                shutil.copytree(golden / "golden.quarry", dataset)
                before, (said, catalogue) = rest(dataset), info(dataset)
                outcome = qt.succeed("quarry", "upgrade", dataset, "--json")
                steps = len(said["steps"])
                self.assertEqual(json.loads(outcome.out), {"steps": steps, "records": steps, "pages": 0, "damage": [],
                                                           "changed": catalogue["records"] == 0})
                self.assertEqual(info(dataset), (said, {"records": steps, "pages": 0, "current": True}))
                self.assertTrue(rest(dataset) == before, "more than the catalogue has changed")
                self.assert_verified(dataset)
                self.assertFalse(json.loads(qt.succeed("quarry", "upgrade", dataset, "--json").out)["changed"])

    def test_damage_of_the_catalogue_is_repaired(self):
        dataset = self.make()
        whole, said = qt.snapshot(dataset), info(dataset)
        (dataset / "head").write_bytes(whole["head"][:-1])
        self.assertEqual(info(dataset)[0], said[0])
        self.assert_one_line(qt.run("quarry", "verify", dataset), qt.DAMAGED, "quarry upgrade")
        outcome = qt.succeed("quarry", "upgrade", dataset)
        self.assertIn("3 of 3 steps are in the catalogue", outcome.out)
        self.assertTrue(qt.snapshot(dataset) == whole)
        self.assertIn("nothing was to be done", qt.succeed("quarry", "upgrade", dataset).out)

    def test_a_damaged_step_has_no_record(self):
        dataset = self.make()
        self.remove_catalogue(dataset)
        (dataset / "steps/000001/step.json").write_text("{}")
        outcome = qt.run("quarry", "upgrade", dataset, "--json")
        self.assert_one_line(outcome, qt.DAMAGED, "steps/000001/step.json")
        self.assertEqual(json.loads(outcome.out)["records"], 2)
        self.assertEqual(qt.run("quarry", "info", dataset).code, qt.DAMAGED)

    def test_refusals(self):
        dataset = self.make(1)
        self.assert_one_line(qt.run("quarry", "upgrade", self.tmp / "none.quarry"), qt.NOT_FOUND, "none.quarry")
        self.assert_one_line(qt.run("quarry", "upgrade", self.tmp), qt.NOT_FOUND, "dataset.json")
        self.assert_one_line(qt.run("quarry", "upgrade", "grpc://127.0.0.1:1/run"), qt.USAGE, "directory")
        before = qt.snapshot(dataset)
        lock = os.open(dataset, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # A writer waits for another one before it gives up; this one does not end.
            outcome = qt.run("quarry", "upgrade", dataset)
            self.assert_one_line(outcome, qt.UNREACHABLE, "run.quarry")
        finally:
            os.close(lock)
        self.assertTrue(qt.snapshot(dataset) == before)

    def test_a_server_says_what_it_reads_instead(self):
        dataset = self.make()
        (dataset / "head").write_bytes(b"no head")
        with qt.Server(self.tmp) as server:
            said = qt.info(server.target(dataset))
            self.assertEqual(said["steps"], [0, 1, 2])
            self.assertIsNone(said["catalogue"])
            qt.info(server.target(dataset))  # damage that a list has met is logged with the next question
            server.log_until("reading step.json instead")


if __name__ == "__main__":
    qt.main()
