"""Counts of a process's calls on the files below a folder, by strace, and the peak memory of processes."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "reproduction")]
from running import ENVIRONMENT  # noqa: E402

READS = {"read", "pread64", "readv", "preadv", "preadv2", "copy_file_range", "sendfile"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2"}
LOOKS = {"stat", "lstat", "fstat", "statx", "newfstatat"}
OPENS = {"open", "openat", "openat2", "creat"}
LISTS = {"getdents64"}
# A question mark: not every machine has the call.
TRACED = ",".join(["%file", *(f"?{name}" for name in sorted(READS | WRITES | LISTS | {"fstat", "fsync", "fdatasync"}))])
CALL = re.compile(r"(\w+)\(.* = (-?\d+)")

Command = Sequence[str | Path]


class ProgramError(Exception):
    """A measured program failed; the text says which and why."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Calls of a process that concern files below a folder, those that failed included, and bytes that they moved."""

    calls: int = 0
    opens: int = 0
    looks: int = 0
    """Calls of the family of stat."""
    read: int = 0
    written: int = 0
    listed: int = 0
    """[bytes] Entries of folders."""

    def __sub__(self, earlier: Cost) -> Cost:
        """The calls since then."""
        return Cost(*(a - b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(earlier), strict=True)))


class Trace:
    """The calls of a process, of its threads and of its children."""

    def __init__(self, folder: Path, below: Path) -> None:
        """`folder`: for the logs, one of each thread. A tracer beside its process ends later than it, so each trace has
        a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.below = Path(tempfile.mkdtemp(dir=folder)), f"{below.resolve()}/"

    def command(self, command: Command, *, stays: bool = False) -> list[str | Path]:
        """The command line that traces another one. `stays`: the tracer is beside the process, which has the id of the
        command."""
        beside = ["--daemonize"] if stays else []
        return ["strace", *beside, "-ff", "-y", "-s", "0", "-e", "signal=none", "-e", f"trace={TRACED}", "-o",
                self.folder / "log", *command]

    def cost(self) -> Cost:
        """So far. A call is in the log before its process goes on, so all that was answered is counted."""
        calls = opens = looks = read = written = listed = 0
        for log in self.folder.iterdir():
            with log.open(errors="replace") as lines:
                for line in lines:
                    found = CALL.match(line) if self.below in line else None
                    if found is None:
                        continue
                    name, moved = found[1], max(0, int(found[2]))
                    calls += 1
                    opens += name in OPENS
                    looks += name in LOOKS
                    read += moved * (name in READS)
                    written += moved * (name in WRITES)
                    listed += moved * (name in LISTS)
        return Cost(calls, opens, looks, read, written, listed)


def can_count() -> bool:
    """Whether strace is here, and may trace."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


def run(command: Command, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a program that must succeed. `environment`: further variables."""
    done = subprocess.run([str(word) for word in command], env={**ENVIRONMENT, **(environment or {})}, capture_output=True,
                          text=True, cwd=folder, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(map(str, command[:12]))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def cost_of(command: Command, logs: Path, below: Path) -> Cost:
    """Calls of a program on files below a folder, from its start to its end."""
    trace = Trace(logs, below)
    run(trace.command(command))
    return trace.cost()


def peaks_of(command: Command, file: Path, launcher: Command = ()) -> list[int]:
    """[bytes] Peak resident memory of a program; with a launcher, as mpirun, of each process that it starts."""
    file.write_text("")
    # A small process in between: a peak includes that of the process that forked.
    run([*launcher, sys.executable, "-I", "-S", HERE / "peak.py", file, *command])
    return [int(line) << 10 for line in file.read_text().splitlines()]
