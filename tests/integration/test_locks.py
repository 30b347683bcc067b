"""Two writers at a time, on file systems without flock: no damage, and nothing is lost."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import quarry_testing as qt

FAULTY_FILES = qt.BIN.parent / "lib" / "libfaulty_files.so"
DIMS = (24, 20, 16)
ERRORS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
PAIRS = qt.scaled(5, 15)  # pairs of appends, for each error: 15 in short


class Locks(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        if not FAULTY_FILES.is_file():
            qt.skip(f"there is no {FAULTY_FILES}; build the target faulty_files")
        self.dataset = self.tmp / "a.quarry"
        self.owner = self.dataset / ".quarry-owner"
        self.source = self.tmp / "f.f32"
        qt.with_holes(qt.make_field(DIMS, "<f4", name="f"), float("nan")).tofile(self.source)

    def without_flock(self, error):
        return {"LD_PRELOAD": str(FAULTY_FILES), "QUARRY_FLOCK_ERRNO": str(error),
                "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}

    def write(self, step, *options):
        return ["quarry-write", self.source, "--dims", "x".join(map(str, DIMS)), "--type", "float32", "--field", "f",
                "--tolerance", "1e-3", "--patch", "8", "--files", "3", "--step", step, *options, "--output",
                self.dataset]

    def run_together(self, commands, error):
        """Starts all and waits for all. Returns their exit codes and messages. Each has a folder of its own for temporary
        files: Open MPI fails where two processes make its folder at once."""
        started = []
        for number, command in enumerate(commands):
            own = {"TMPDIR": str(self.tmp / f"tmp{number}")}
            Path(own["TMPDIR"]).mkdir(exist_ok=True)
            started.append(subprocess.Popen([str(qt.executable(command[0])), *map(str, command[1:])],
                                            env=qt.ENVIRONMENT | self.without_flock(error) | own,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return [(process.communicate(timeout=qt.TIMEOUT)[1], process.returncode) for process in started]

    def test_pairs_of_appends(self):
        qt.succeed(*self.write(0))
        steps = 1
        for error in ERRORS:
            for _ in range(PAIRS):
                pair = [self.write(step, "--append") for step in (steps, steps + 1)]
                for message, code in self.run_together(pair, error):
                    self.assertEqual(code, qt.DONE, message)
                steps += 2
            self.assertEqual(qt.info(self.dataset)["steps"], list(range(steps)))
            self.assertFalse(self.owner.exists())
            self.assert_verified(self.dataset)

    def test_pairs_that_create(self):
        """One creates the dataset, the other says so, or creates it where the first one ends before."""
        for error in ERRORS:
            codes = sorted(code for _, code in self.run_together([self.write(0), self.write(0)], error))
            self.assertEqual(codes, [qt.DONE, qt.USAGE])
            self.assert_verified(self.dataset)
            self.assertEqual([path.name for path in self.tmp.iterdir() if path.name.startswith(".")], [])
            shutil.rmtree(self.dataset)

    def test_pairs_of_index_updates(self):
        qt.succeed(*self.write(0))
        for error in ERRORS:
            for message, code in self.run_together([["quarry-index", self.dataset, "--rebuild"]] * 2, error):
                self.assertEqual(code, qt.DONE, message)
            qt.succeed("quarry-index", self.dataset, "--verify")

    def test_a_lock_that_was_left_behind(self):
        qt.succeed(*self.write(0))
        qt.succeed("quarry-index", self.dataset)
        # A process number that no process has: the kernel's numbers are smaller.
        left = f"{os.uname().nodename} {2 ** 30} 2026-01-31T12:00:00Z 0\n"
        for owner, command in ((self.owner, self.write(1, "--append")),
                               (self.dataset / "index" / ".quarry-owner", ["quarry-index", self.dataset])):
            owner.write_text(left)
            for environment in ({}, self.without_flock(errno.ENOLCK)):
                before = qt.snapshot(self.dataset)
                refused = qt.run(*command, env=environment)
                self.assertEqual(refused.code, qt.UNREACHABLE, refused)
                for part in (str(owner), str(2 ** 30), "2026-01-31T12:00:00Z", "--break-lock"):
                    self.assertIn(part, refused.err)
                self.assertEqual(qt.snapshot(self.dataset), before)
            qt.succeed(*command, "--break-lock", env=self.without_flock(errno.ENOLCK))
            self.assertFalse(owner.exists())
        self.assertEqual(qt.info(self.dataset)["steps"], [0, 1])
        qt.succeed("quarry-index", self.dataset, "--verify")


if __name__ == "__main__":
    qt.main()
