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
        shutil.rmtree(dataset / "catalogue", ignore_errors=True)
        (dataset / "head").unlink()
        (dataset / "steps/.partial-catalogue-is-current").unlink()

    def test_info_opens_a_dataset_once(self):
        """Also one that has just been written, in folders and in a pack."""
        dataset, record = self.make(), self.tmp / "record"
        for packed in (False, True):
            if packed:
                qt.succeed("quarry", "pack", dataset)
            record.unlink(missing_ok=True)
            qt.succeed("quarry", "info", dataset, env={
                "LD_PRELOAD": str(qt.BIN.parent / "lib/librecord_files.so"), "QUARRY_RECORD": str(record),
                "QUARRY_RECORD_ROOT": str(dataset), "QUARRY_RECORD_READS": "1"})
            read = [Path(line.split("\t")[1]).relative_to(dataset) for line in record.read_text().splitlines()]
            self.assertEqual([str(name) for name in read], ["dataset.json", "head"])

    def test_datasets_of_every_version(self):
        for golden in sorted(GOLDEN.iterdir()):
            with self.subTest(version=golden.name):
                dataset = self.tmp / f"{golden.name}.quarry"
                shutil.copytree(golden / "golden.quarry", dataset)
                before, (said, catalogue) = rest(dataset), info(dataset)
                head = dataset / "head"
                has_no_runs = not head.exists() or head.read_bytes()[8] == 4
                outcome = json.loads(qt.succeed("quarry", "upgrade", dataset, "--json").out)
                steps, made = len(said["steps"]), outcome["coarse"]
                self.assertEqual(outcome, {"steps": steps, "records": steps, "pages": 0, "sectioned": 0, "coarse": made,
                                           "damage": [], "changed": has_no_runs or made > 0})
                self.assertIn(made, (0, steps))
                after, (says, catalogue) = rest(dataset), info(dataset)
                self.assertEqual(catalogue, {"records": steps, "pages": 0, "current": True})
                if made:
                    self.assertTrue(says.pop("coarse_objects"))
                    changed = {"coarse_objects": True, "checksum": json.loads(after["dataset.json"])["checksum"]}
                    self.assertEqual(json.loads(after.pop("dataset.json")), json.loads(before.pop("dataset.json")) | changed)
                    for step in said["steps"]:
                        self.assertTrue(after.pop(f"steps/{step:06}/coarse"))
                self.assertEqual(says, said)
                self.assertTrue(after == before, "more than the catalogue and coarse objects has changed")
                self.assert_verified(dataset)
                self.assertFalse(json.loads(qt.succeed("quarry", "upgrade", dataset, "--json").out)["changed"])

    def test_large_steps_of_older_programs_get_sections(self):
        dataset = self.tmp / "wide.quarry"
        shutil.copytree(GOLDEN / "v4-wide/golden.quarry", dataset)
        whole, said = qt.snapshot(dataset), info(dataset)
        manifest = dataset / "steps/000000/step.json"
        qt.into_one_piece(manifest)
        (dataset / "steps/.partial-catalogue-is-current").unlink()  # as those programs leave it
        before = qt.snapshot(dataset)
        self.assertGreater(manifest.stat().st_size, 1 << 16)
        self.assertEqual(info(dataset)[0], said[0])
        self.assert_verified(dataset)
        self.assertTrue(qt.snapshot(dataset) == before)
        outcome = qt.succeed("quarry", "upgrade", dataset, "--json")
        self.assertEqual(json.loads(outcome.out), {"steps": 1, "records": 1, "pages": said[1]["pages"], "sectioned": 1,
                                                   "coarse": 0, "damage": [], "changed": True})
        self.assertTrue(rest(dataset) == {name: data for name, data in whole.items() if not of_catalogue(name)})
        self.assertEqual(info(dataset), said)
        self.assert_verified(dataset)
        qt.into_one_piece(manifest)
        self.assertIn("1 step of many fields is in sections now", qt.succeed("quarry", "upgrade", dataset).out)
        self.assertIn("nothing was to be done", qt.succeed("quarry", "upgrade", dataset).out)

    def test_a_damaged_section_is_named(self):
        """And costs its own fields alone."""
        dataset = self.tmp / "wide.quarry"
        shutil.copytree(GOLDEN / "v4-wide/golden.quarry", dataset)
        manifest = dataset / "steps/000000/step.json"
        text = manifest.read_text()
        manifest.write_text(text.replace('"name": "f31"', '"name": "f13"'))
        self.assert_one_line(qt.run("quarry", "verify", dataset), qt.DAMAGED, "step.json", "section 2 of 3")
        output = self.tmp / "out.npy"
        self.assert_one_line(qt.run("quarry", "get", dataset, "--field", "f31", "--output", output), qt.DAMAGED,
                             "section 2 of 3")
        qt.succeed("quarry", "get", dataset, "--field", "f02", "--output", output)

    def test_fields_come_to_steps_of_many_and_go(self):
        dataset = self.tmp / "wide.quarry"
        shutil.copytree(GOLDEN / "v4-wide/golden.quarry", dataset)
        manifest = dataset / "steps/000000/step.json"
        names = [field["name"] for field in qt.step_manifest(dataset)["fields"]]
        qt.convert(qt.make_field((9, 7, 3), "<f4", name="more"), dataset, "--append", "--tolerance", "1e-3", "--step", 0,
                   "--field", "more")
        self.assertEqual([field["name"] for field in qt.step_manifest(dataset)["fields"]], [*names, "more"])
        self.assertIn("sections", qt.step_manifest(dataset))
        self.assert_verified(dataset)
        self.assertEqual(info(dataset)[1]["current"], True)
        self.assertLess(manifest.read_text().index("sections"), 10)

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
