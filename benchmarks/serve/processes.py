"""The programs that run.py measures, as processes that stay open, and measurements from outside."""

import json
import mmap
import os
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path


class Failed(Exception):
    """A measured program ended, or answered with an error; the text says which and why."""


class Conversation:
    """A program that answers queries, one JSON object per line. `hello`: it prints something first."""

    def __init__(self, command, hello=True):
        self.command = [str(part) for part in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = self.hear() if hello else None

    def say(self, question):
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Failed(f"{self.command[0]} has ended with {self.process.wait()}") from error

    def hear(self):
        # Skips what a library prints between the answers.
        for line in self.process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                if "error" in answer:
                    raise Failed(f"{' '.join(self.command)}: {answer['error']}")
                return answer
        raise Failed(f"{' '.join(self.command)} ended with {self.process.wait()}")

    def ask(self, question):
        self.say(question)
        return self.hear()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Server:
    """A program that prints "listening on ADDRESS" when it is ready, and ends at SIGTERM. `metrics` and `http`: the
    addresses that it prints before, after "metrics on" and "http on"."""

    metrics = ""
    http = ""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("metrics on "):
                self.metrics = line.split()[-1]
            if line.startswith("http on "):
                self.http = line.split()[-1]
            found = re.match(r"listening on (\S+)", line)
            if found:
                self.address = found[1]
                return
        raise Failed(f"{command[0]} ended with {self.process.wait()}")

    def peak(self) -> int:
        """[bytes] Peak resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(dict(re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE))["VmHWM"]) << 10

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class MemoryWatch(threading.Thread):
    """Memory of a process over time that no file backs: RssAnon + RssShmem. The mapped index does not count: the
    kernel can reclaim it at any time."""

    EVERY = 0.05

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = Path(f"/proc/{pid}/status")
        self.samples, self.stop_event, self.begin = [], threading.Event(), time.monotonic()

    def look(self):
        values = dict(re.findall(r"^(\w+):\s+(\d+) kB", self.status.read_text(), re.M))
        used = (int(values["RssAnon"]) + int(values["RssShmem"])) * 1024
        self.samples.append((time.monotonic() - self.begin, used))

    def run(self):
        while not self.stop_event.wait(self.EVERY):
            self.look()

    def __enter__(self):
        self.look()
        self.start()
        return self

    def __exit__(self, *error):
        self.stop_event.set()
        self.join()


def touch_memory(size):
    """Prepares the machine's free memory. A virtual machine that reports free pages returns them to its host after
    some seconds; the next program that needs them waits, up to seconds per GiB."""
    page = mmap.PAGESIZE
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)  # huge pages, as Quarry's large buffers have
        for begin in range(0, size, page):
            memory[begin] = 1


def files_below(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def drop_from_page_cache(folder):
    """Tells the kernel to forget the pages of all files; needs no root, and leaves pages that a process has
    mapped."""
    for path in files_below(folder):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)  # dirty pages stay
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def bring_to_page_cache(folder):
    for path in files_below(folder):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass


def cached_bytes(folder):
    """Bytes in the page cache, by fincore of util-linux; None if it is not installed."""
    try:
        command = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, files_below(folder))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return sum(int(line) for line in done.stdout.split())
