"""Memory under every kind of request at its largest: many clients send it at the same time, and the server stays within
its budget and a fixed amount beside it."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import quarry_testing as qt

CLIENTS = 64
MEMORY = 128 << 20
# Memory of the process beside its budget: the program, 64 connections and threads, and freed memory that is not
# returned yet.
MOST = MEMORY + (150 << 20)

OK, INVALID, DEADLINE, REFUSED = "0", "3", "4", "8"


def largest_memory(server):
    """[bytes] The peak memory of a server."""
    status = Path(f"/proc/{server._process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


class Limits(qt.QuarryTest):
    """Fields of very many tiny patches, where planning takes a hundred times the samples; of usual ones; and steps with
    long manifests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        x = np.arange(92) // 2
        checkered = (np.add.outer(np.add.outer(x, x), x) % 2).astype("<f4")
        qt.convert(checkered, cls.data / "wide.quarry", "--patch", "2", "--tolerance", "0.25")  # 97,336 patches
        qt.succeed("quarry-index", cls.data / "wide.quarry")
        qt.convert(qt.smooth((92, 92, 92)), cls.data / "usual.quarry", "--patch", "16", "--tolerance", "1e-3")
        files = []
        for step in range(2):
            files.append(cls.shared / f"{step}.raw")
            qt.smooth((16, 16, 16)).tofile(files[-1])
        qt.succeed(qt.SERIAL_WRITER, *files, "--dims", "16x16x16", "--type", "float32", "--field", "f", "--patch", "2",
                   "--files", "512", "--tolerance", "0.25", "--output", cls.data / "steps.quarry")

    def peak(self, kind, dataset, expected):
        """[bytes] The peak memory of a server whose clients all ask for the same at once."""
        options = ("--memory", f"{MEMORY}B", "--client-calls", CLIENTS, "--quiet")
        with qt.Server(self.data, *options) as server:
            done = subprocess.run([qt.BIN / "hostile_client", "largest", server.address, "--dataset", dataset,
                                   "--field", "f", "--kind", kind, "--count", str(CLIENTS),
                                   "--dims", "92,92,92", "--seed", str(qt.SEED)],
                                  capture_output=True, text=True, timeout=qt.TIMEOUT, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), {expected: CLIENTS}, done.stderr)
            return largest_memory(server)

    def assert_bounded(self, kind, *, dataset="wide", expected=OK):
        peak = self.peak(kind, dataset, expected)
        print(f"{kind} of {dataset}: {peak >> 20} MiB")
        self.assertLessEqual(peak, MOST, f"{kind} of {dataset}: {peak >> 20} MiB")

    def test_plans(self):
        self.assert_bounded("plan")

    def test_plans_that_list_what_they_leave_out(self):
        """More than half of the server's memory for one of them: refused before a patch is located."""
        self.assert_bounded("values", expected=REFUSED)

    def test_questions_of_empty_names(self):
        self.assert_bounded("names", expected=INVALID)

    def test_reads_of_samples(self):
        self.assert_bounded("samples", dataset="usual")

    def test_reads_of_patches(self):
        self.assert_bounded("patches", dataset="usual")

    def test_statistics(self):
        self.assert_bounded("statistics", dataset="usual")

    def test_points(self):
        self.assert_bounded("points", dataset="usual")

    def test_steps(self):
        self.assert_bounded("steps", dataset="steps")

    def test_watched_steps(self):
        self.assert_bounded("watch", dataset="steps", expected=DEADLINE)

    def test_names(self):
        self.assert_bounded("list")


if __name__ == "__main__":
    qt.main()
