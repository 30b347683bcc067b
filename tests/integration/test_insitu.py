"""In-situ writing by real simulations: examples/lbm (C++) and examples/fortran/heat write datasets while they
run, and dumps beside them. quarry-write makes the same bytes from the dumps."""

import errno
import json
import os

import numpy as np

import quarry_testing as qt

LBM_FIELDS = ("density", "velocity_x", "velocity_y", "velocity_z", "vorticity")


def manifests_without_origin(dataset):
    """The manifests, without what says who wrote the dataset and from what: created_by in dataset.json, the
    source of each field in step.json, and with them the checksum of each text."""
    manifests = {}
    for path in dataset.rglob("*.json"):
        manifest = json.loads(path.read_text())
        del manifest["checksum"]
        if path.name == "dataset.json":
            del manifest["created_by"]
        for field in manifest["fields"] if path.name == "step.json" else ():
            del field["source"]
        manifests[str(path.relative_to(dataset))] = manifest
    return manifests


class InSitu(qt.QuarryTest):
    def run_example(self, ranks, name, *arguments, environment=None):
        program = qt.BIN / name
        if not program.is_file():
            qt.skip(f"{name} is not built here")
        # mpirun does not hand on LD_PRELOAD.
        own = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
        return qt.succeed(*qt.mpi_command(ranks, *own, program, *arguments))

    def assert_same_dataset(self, one, other):
        self.assertEqual(qt.subfiles(one), qt.subfiles(other))
        self.assertNotEqual(qt.subfiles(one), {})
        self.assertEqual(manifests_without_origin(one), manifests_without_origin(other))

    def test_lbm_writes_what_its_dumps_are_converted_to(self):
        simulation = ("--dims", "48x40x36", "--steps", 60, "--dump-every", 30)
        written, converted = self.tmp / "insitu.quarry", self.tmp / "converted.quarry"
        self.run_example(4, "lbm", *simulation, "--output", self.tmp / "dump", "--insitu", written)
        for number, step in enumerate((30, 60)):
            folder = self.tmp / "dump" / f"step{step:06}"
            dumps = [folder / f"lbm-{name}-[48-40-36]-Float32.raw" for name in LBM_FIELDS]
            qt.succeed(*qt.mpi_command(3, "quarry-write", *dumps, "--relative", "1e-3", "--step", step,
                                       *(["--append"] if number else []), "--output", converted))
        self.assert_same_dataset(written, converted)
        self.assert_verified(written)
        self.assertEqual([field["name"] for field in qt.info(written)["fields"]], list(LBM_FIELDS))

        # Without dumps, on other ranks, some of them without a block: the same dataset.
        alone = self.tmp / "alone.quarry"
        self.run_example(17, "lbm", *simulation, "--no-dump", "--output", self.tmp / "none", "--insitu", alone,
                         "--relative", "1e-3")
        self.assertFalse((self.tmp / "none").exists())
        self.assert_same_dataset(alone, written)

    def test_packing_that_fails_is_a_warning(self):
        # Small steps go to packs; without space for one they stay folders.
        for in_transit in (False, True):
            dataset = self.tmp / f"packs-{in_transit}.quarry"
            outcome = self.run_example(
                1 + in_transit, "lbm", "--dims", "24x20x18", "--steps", 515, "--dump-every", 1, "--no-dump", "--insitu",
                dataset, *(["--intransit", 1] if in_transit else []),
                environment=qt.failing_call("open", errno.ENOSPC, below=dataset / "steps/.partial-pack"))
            (warning,) = [line for line in outcome.err.splitlines() if "warning" in line]
            for part in ("lbm: warning: small steps stay folders", os.strerror(errno.ENOSPC),
                         f'run "quarry pack {dataset}" later'):
                self.assertIn(part, warning)
            self.assertEqual(len(qt.info(dataset)["steps"]), 515)

    def test_lbm_refuses_what_is_there_in_one_line(self):
        (self.tmp / "there.quarry").mkdir()
        program = qt.BIN / "lbm"
        outcome = qt.run(*qt.mpi_command(4, program, "--dims", "16x16x16", "--steps", 1,
                                         "--output", self.tmp / "dump", "--insitu", self.tmp / "there.quarry"))
        self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
        self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
        self.assertIn("exists already", outcome.err)

    def test_fortran_example_is_readable_and_right(self):
        datasets = []
        for ranks in (1, 4, 5):
            datasets.append(self.tmp / f"heat{ranks}.quarry")
            raw = self.tmp / f"heat{ranks}.raw"
            self.run_example(ranks, "heat", datasets[-1], raw)
            self.assert_verified(datasets[-1])
            computed = np.fromfile(raw, "<f8")
            self.assertEqual(computed.size, 48 * 40 * 33)
            self.assertTrue(np.isfinite(computed).all())
            read = qt.get_array(datasets[-1], self.tmp / "read.raw", "<f8", "--step", 60, field="temperature")
            self.assert_decoded(computed, read, 1e-5)
        about = qt.info(datasets[0])
        self.assertEqual(about["fields"][0]["units"], "K")
        self.assertEqual(about["steps"], [20, 40, 60])
        self.assertEqual(about["attributes"], {"title": "heat in a periodic box"})
        self.assertEqual(about["fields"][0]["attributes"], {"conduction": 0.1})
        self.assert_same_dataset(datasets[1], datasets[0])
        self.assert_same_dataset(datasets[2], datasets[0])

        # The last step through quarry-write.
        converted = self.tmp / "converted.quarry"
        computed.reshape(33, 40, 48).tofile(self.tmp / "heat.raw")
        qt.succeed("quarry-write", self.tmp / "heat.raw", "--dims", "48x40x33", "--type", "float64",
                   "--field", "temperature", "--tolerance", "1e-5", "--patch", "16", "--order", "coarse", "--units", "K",
                   "--step", 60, "--time", 60, "--output", converted)
        step = "steps/000060/"
        written = {name: data for name, data in qt.subfiles(datasets[0]).items() if name.startswith(step)}
        self.assertEqual(written, qt.subfiles(converted))

    def test_fortran_example_reports_errors_and_ends(self):
        program = qt.BIN / "heat"
        if not program.is_file():
            qt.skip("heat is not built here")
        nowhere = self.tmp / "no-such-directory" / "heat.quarry"
        outcome = qt.run(*qt.mpi_command(4, program, nowhere, self.tmp / "heat.raw"))
        self.assertNotEqual(outcome.code, 0, outcome)
        self.assertEqual(outcome.out.count("heat: there is no directory"), 1, outcome)
        # The host goes on with its own work: the dump is complete.
        self.assertEqual((self.tmp / "heat.raw").stat().st_size, 48 * 40 * 33 * 8)


if __name__ == "__main__":
    qt.main()
