"""Paths of packets: two network namespaces, joined by a relay that passes packets on after a delay and at a rate."""

import argparse
import dataclasses
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType


class ImpossibleError(Exception):
    """This machine makes no such path; the text says why."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How far away the server is. Without a rate, both ends are one machine."""

    name: str
    title: str
    round_trip_ms: float = 0
    mbit: float = 0


WAYS = {way.name: way for way in (
    Way("loopback", "loopback"),
    Way("rack", "1 ms, 10 Gbit/s", 1, 10_000),
    Way("campus", "20 ms, 1 Gbit/s", 20, 1000),
    Way("country", "40 ms, 100 Mbit/s", 40, 100),
    Way("far", "100 ms, 10 Mbit/s", 100, 10),
)}


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds there and back, and bytes a second, of a bare TCP connection over a path."""

    round_trip: float
    rate: float


def must(*command: str | Path) -> str:
    """Output of a command of the system, which must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise ImpossibleError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def check_possible() -> None:
    """@raises ImpossibleError: the user is not root, or something that a path is made of is not there"""
    if os.geteuid() != 0:
        raise ImpossibleError("network namespaces need root; run this as root")
    if shutil.which("ip") is None:
        raise ImpossibleError("the program \"ip\" is not installed (Debian's package iproute2)")
    if not Path("/dev/net/tun").exists():
        raise ImpossibleError("there is no /dev/net/tun; load the module tun")


def relay(given: Path | None, source: Path, folder: Path) -> Path:
    """The program that joins namespaces: the given one, or one that is compiled from its source."""
    if given is not None:
        if not os.access(given, os.X_OK):
            raise ImpossibleError(f"--wan {given} is no program")
        return given
    program = folder / "wan"
    if not source.exists():
        raise ImpossibleError(f"the relay is not at {source}; give its program with --wan PATH")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        must("g++", "-O2", "-std=c++20", "-pthread", source, "-o", program)
    return program


class Wire:
    """A path while it is there: programs run at either end of it."""

    def __init__(self, way: Way, program: Path) -> None:
        self.way = way
        self._program = program
        self._near = f"quarry-near-{os.getpid()}"
        self._far = self._near if way.mbit == 0 else f"quarry-far-{os.getpid()}"
        self.device = "lo" if way.mbit == 0 else "near"
        self.host = "127.0.0.1" if way.mbit == 0 else "10.77.0.2"  # address of servers
        self._relay: subprocess.Popen[bytes] | None = None

    def near(self, *command: str | Path) -> list[str]:
        """The command line of a program at the end of the clients."""
        return ["ip", "netns", "exec", self._near, *map(str, command)]

    def far(self, *command: str | Path) -> list[str]:
        """The command line of a program at the end of the servers."""
        return ["ip", "netns", "exec", self._far, *map(str, command)]

    def received(self) -> int:
        """Bytes of packets that have come to the clients so far."""
        return received(self.device, must(*self.near("cat", "/proc/net/dev")))

    def measure(self) -> Measured:
        """Round trip and rate of the path as it is."""
        size = int(self.way.mbit * 1e6 / 8 * 0.4) or 1 << 28
        here = Path(__file__).resolve()
        answering = subprocess.Popen(self.far(sys.executable, here, "answer", self.host), stdout=subprocess.PIPE,
                                     text=True)
        assert answering.stdout is not None
        try:
            port = answering.stdout.readline().strip()
            said = must(*self.near(sys.executable, here, "ask", self.host, port, str(size)))
        finally:
            answering.kill()
            answering.wait()
            answering.stdout.close()
        return Measured(**json.loads(said))

    def _make(self) -> None:
        for name in {self._near, self._far}:
            must("ip", "netns", "add", name)
            must("ip", "-n", name, "link", "set", "lo", "up")
        if self.way.mbit == 0:
            return
        half = self.way.round_trip_ms / 2
        self._relay = subprocess.Popen([self._program, self._near, "near", self._far, "far", f"{half:g}",
                                        f"{self.way.mbit:g}"], stderr=subprocess.DEVNULL)
        for name, device, address in ((self._near, "near", "10.77.0.1"), (self._far, "far", self.host)):
            while subprocess.run(["ip", "-n", name, "link", "show", device], capture_output=True).returncode != 0:
                if self._relay.poll() is not None:
                    raise ImpossibleError(f"{self._program} ended with {self._relay.returncode}; run it by hand")
                time.sleep(0.01)
            must("ip", "-n", name, "address", "add", f"{address}/30", "dev", device)
            must("ip", "-n", name, "link", "set", device, "mtu", "1500", "up", "txqueuelen", "5000")

    def _remove(self) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
        for name in {self._near, self._far}:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def __enter__(self) -> "Wire":
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._remove()


def received(device: str, table: str | None = None) -> int:
    """Bytes that a network device has received.

    Args:
        table: text of /proc/net/dev; default: that of this process
    """
    for line in (table or Path("/proc/net/dev").read_text()).splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == device:
            return int(numbers.split()[0])
    raise ImpossibleError(f"there is no network device {device}")


# --- a bare connection, at both ends


def take(connection: socket.socket, size: int) -> None:
    """@raises ConnectionError: the other end closes before so many bytes"""
    while size > 0:
        piece = connection.recv(min(size, 1 << 20))
        if not piece:
            raise ConnectionError("the other end has closed")
        size -= len(piece)


def answer(host: str) -> None:
    """Sends as many bytes as each 8-byte question of one connection asks for."""
    with socket.create_server((host, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        zeros = bytes(1 << 20)
        while question := connection.recv(8, socket.MSG_WAITALL):
            left = int.from_bytes(question, "little")
            while left > 0:
                left -= connection.send(zeros[:min(left, len(zeros))])


def ask(host: str, port: int, size: int) -> Measured:
    """Five small questions, and a large one, whose first quarter is not counted."""
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(5):
            begin = time.perf_counter()
            connection.sendall((1).to_bytes(8, "little"))
            take(connection, 1)
            trips.append(time.perf_counter() - begin)
        connection.sendall(size.to_bytes(8, "little"))
        take(connection, size // 4)
        begin = time.perf_counter()
        take(connection, size - size // 4)
        return Measured(statistics.median(trips), (size - size // 4) / (time.perf_counter() - begin))


def main() -> None:
    """For Wire.measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    answering = commands.add_parser("answer")
    answering.add_argument("host")
    asking = commands.add_parser("ask")
    asking.add_argument("host")
    asking.add_argument("port", type=int)
    asking.add_argument("size", type=int)
    args = parser.parse_args()
    if args.command == "answer":
        answer(args.host)
    else:
        print(json.dumps(dataclasses.asdict(ask(args.host, args.port, args.size))))


if __name__ == "__main__":
    main()
