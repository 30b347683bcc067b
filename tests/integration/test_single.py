"""quarry-write without MPI: the same bytes as with MPI and one rank."""

import json
import os
import shutil
import subprocess

import numpy as np

import quarry_testing as qt

SINGLE = qt.BIN / "quarry-write-single"
DIMS = (50, 41, 37)

# Every coder, order and type with its bound, missing samples, and fields that go through in parts.
KINDS = {
    "float32": (qt.turbulent(DIMS), ["--tolerance", 1e-3]),
    "missing": (qt.with_holes(qt.turbulent(DIMS), np.nan), ["--relative", 1e-3]),
    "wavelet-zfp": (qt.turbulent(DIMS), ["--codec", "wavelet-zfp", "--relative", 1e-4]),
    "lossless, level order": (qt.turbulent(DIMS), ["--lossless", "--order", "level"]),
    "coarse order, 2 files": (qt.turbulent(DIMS), ["--tolerance", 1e-3, "--order", "coarse", "--files", 2]),
    "int16 lossless": (qt.integers(DIMS, "<i2"), []),
    "int16 with a tolerance": (qt.integers(DIMS, "<i2"), ["--tolerance", 3]),
    "float64 as float32": (qt.turbulent(DIMS, "<f8"), ["--store-as", "float32", "--relative", 1e-4]),
    "float64 in parts, 3 files": (qt.turbulent(DIMS, "<f8"), ["--relative", 1e-5, "--memory", "200KiB", "--files", 3]),
}


class WithoutMpi(qt.QuarryTest):
    def write(self, program, name, *arguments):
        """All that a program writes for these arguments. The name of the dataset is not in it."""
        folder = self.tmp / name
        folder.mkdir()
        qt.succeed(program, *arguments, "--patch", 16, "--output", folder / "run.quarry", cwd=self.tmp)
        written = qt.snapshot(folder)
        shutil.rmtree(folder)
        return written

    def assert_same_bytes(self, *arguments):
        with_mpi = self.write(qt.executable("quarry-write"), "with", *arguments)
        without = self.write(SINGLE, "without", *arguments)
        self.assertTrue(any(name.endswith(".qsf") for name in with_mpi), with_mpi.keys())
        self.assertEqual(with_mpi.keys(), without.keys())
        for name, data in with_mpi.items():
            self.assertEqual(data, without[name], name)

    def test_same_bytes(self):
        for name, (field, options) in KINDS.items():
            with self.subTest(name):
                field.tofile(self.tmp / "f.raw")
                self.assert_same_bytes("f.raw", *qt.describe(field), *options)

    def test_same_bytes_of_two_fields(self):
        for name in ("u", "v"):
            qt.turbulent(DIMS, "<f8", name=name).tofile(self.tmp / f"flow-{name}-[50-41-37]-Float64.raw")
        sources = sorted(path.name for path in self.tmp.glob("flow-*.raw"))
        self.assert_same_bytes(*sources, "--relative", 1e-3)

    def test_links_no_mpi(self):
        loaded = subprocess.run(["ldd", SINGLE], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("libmpi", loaded)
        self.assertIn("libmpi", subprocess.run(["ldd", qt.executable("quarry-write")], check=True, capture_output=True,
                                               text=True).stdout, "the test would notice no MPI")


class UnderALauncher(qt.QuarryTest):
    """Several processes that know nothing of each other would all write the dataset."""

    def test_without_the_program_with_mpi(self):
        qt.turbulent((8, 8, 8)).tofile(self.tmp / "f.raw")
        command = (SINGLE, self.tmp / "f.raw", "--dims", "8x8x8", "--type", "float32", "--lossless", "--output",
                   self.tmp / "run.quarry")
        for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
            outcome = qt.run(*command, env={variable: "2"})
            self.assert_one_line(outcome, qt.USAGE, "built without MPI", "2 processes", "quarry-mpi")
            self.assertFalse((self.tmp / "run.quarry").exists())
        qt.succeed(*command, env={"OMPI_COMM_WORLD_SIZE": "1"})

    def test_hands_over_to_the_program_with_mpi(self):
        """As in the packages: quarry-write, and quarry-write-mpi beside it."""
        shutil.copy(SINGLE, self.tmp / "quarry-write")
        os.symlink(qt.executable("quarry-write"), self.tmp / "quarry-write-mpi")
        qt.turbulent(DIMS).tofile(self.tmp / "f.raw")
        report = self.tmp / "report.json"
        qt.succeed("mpirun", "-n", 2, self.tmp / "quarry-write", self.tmp / "f.raw", "--dims", "50x41x37", "--type",
                   "float32", "--lossless", "--output", self.tmp / "run.quarry", "--patch", 16, "--report", report)
        qt.succeed("quarry", "verify", self.tmp / "run.quarry")
        patches = 4 * 3 * 3
        self.assertEqual(json.loads(report.read_text())["patches_per_rank"]["mean"], patches / 2)


if __name__ == "__main__":
    qt.main()
