#!/usr/bin/python3
"""Everything at once, for as long as wanted: simulations that write and are killed, disks that are full, an index that is
made anew, a server that is killed, too few descriptors and little memory, readers, watchers, bits that flip, and hostile
clients. Datasets have one layer of accuracy, several, or steps that refer to others. Every answer is compared with the right
one, which is known beforehand.

What may happen: an error that says what is wrong, with one of Quarry's exit codes. What may not: a wrong sample, a published
step that is gone, a program that crashes, a server that ends by itself or grows beyond its memory, damage that nobody is
told of.

Threads choose what to do from the seed; how they meet depends on the machine.

Example: tests/soak/soak.py --minutes 3 --seed 7
"""

import argparse
import collections
import dataclasses
import gzip
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import typing
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "integration"))
import grpc_web
import http2
import quarry_testing as qt

DIMS = (44, 37, 29)
STEPS = 6
TOLERANCE = 0.01
LAYOUT = ("--dims", "x".join(map(str, DIMS)), "--type", "float32", "--field", "f", "--patch", "16", "--files", "2")
MEMORY = 24 << 20
# The program, its connections and threads, messages on their way, and freed memory that is not returned yet.
BESIDE_MEMORY = 150 << 20
SIMULATIONS = 2
READERS = 2
STRANGERS = 3
# A message that decompresses to 448 MiB.
BOMB = gzip.compress(bytes(448 << 20), 9)
FAIL_CALL = qt.BIN.parent / "lib" / "libfail_call.so"
# Without MPI, which would start for longer than a killed writer lives.
WRITER = "quarry-write-single"
# How `quarry` ends when a server has refused the call, or has gone.
REFUSED_OR_GONE = (qt.UNREACHABLE,)


class Wrong(Exception):
    """Something that must not happen."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How a dataset is written."""
    name: str
    options: tuple
    tolerances: tuple  # tolerance of each layer of accuracy


ONE_LAYER = Way("one layer", ("--tolerance", TOLERANCE), (TOLERANCE,))
WAYS = (ONE_LAYER,
        Way("layers", ("--layers", f"0.1,{TOLERANCE},exact"), (0.1, TOLERANCE, 0)),
        Way("keyframes", ("--tolerance", TOLERANCE, "--keyframe", 3), (TOLERANCE,)))


def write_sources(folder):
    """Steps that change slowly, so that they can refer to others; every second one with holes."""
    sources = [folder / f"step{step}.raw" for step in range(STEPS)]
    lasting, moving = qt.turbulent(DIMS, name="soak, lasting"), qt.turbulent(DIMS, name="soak, moving")
    for step, source in enumerate(sources):
        field = (lasting + np.float32(0.05 * step) * moving).astype("<f4")
        (qt.with_holes(field, np.nan) if step % 2 else field).tofile(source)
    return sources


class Question(typing.NamedTuple):
    """A box that has a sample of the level; `layer` is the last one where none is asked for."""
    step: int
    layer: int
    level: int
    begin: list
    end: list


class Truth:
    """Every right answer: the samples of each step, layer and level, of a dataset that is written in peace."""

    def __init__(self, way, sources, folder):
        self.way, self.sources = way, sources
        dataset = folder / "truth.quarry"
        for step, source in enumerate(sources):
            qt.succeed(WRITER, source, *LAYOUT, *way.options, "--step", step, *["--append"] * bool(step), "--output", dataset)
        self.level_count = qt.info(dataset)["levels"]
        self.levels = {(step, layer, level): self.samples(dataset, folder, step, layer, level) for step in range(STEPS)
                       for layer in range(len(way.tolerances)) for level in range(self.level_count)}
        shutil.rmtree(dataset)

    def samples(self, dataset, folder, step, layer, level):
        """A whole level, [z, y, x]; compared with the original before it counts as the truth."""
        original = np.fromfile(self.sources[step], "<f4").reshape(DIMS[::-1])[(slice(None, None, 2**level),) * 3]
        decoded = qt.get_array(dataset, folder / "level.raw", "<f4", "--step", step, "--layer", layer, "--level", level)
        gone = ~np.isfinite(original.ravel())
        if not np.array_equal(gone, ~np.isfinite(decoded)):
            raise Wrong(f"{self.way.name}, step {step}, level {level}: other samples are missing")
        # Coarse samples are within the tolerance, too: they are every 2^l-th sample.
        if qt.largest_error(original.ravel()[~gone], decoded[~gone]) > self.way.tolerances[layer]:
            raise Wrong(f"{self.way.name}, step {step}, layer {layer}, level {level} is not within the tolerance")
        return decoded.reshape(original.shape)

    def question(self, random):
        level = int(random.integers(self.level_count))
        begin = [int(random.integers(0, max(1, n - 2**level))) for n in DIMS]
        end = [int(random.integers(min(b + 2**level, n), n + 1)) for b, n in zip(begin, DIMS)]
        return Question(int(random.integers(STEPS)), int(random.integers(len(self.way.tolerances))), level, begin, end)

    def everything(self, step):
        return Question(step, len(self.way.tolerances) - 1, 0, [0, 0, 0], list(DIMS))

    def answer(self, question):
        """The first sample of the level in the box, and the samples."""
        first, last = ([-(-place // 2**question.level) for place in corner] for corner in (question.begin, question.end))
        inside = tuple(slice(b, e) for b, e in zip(first, last))
        return first, self.levels[question.step, question.layer, question.level][inside[::-1]]


class Simulation:
    """A dataset that grows step by step."""

    def __init__(self, path, truth):
        self.path, self.truth = path, truth
        self.published = set()  # steps that a program has reported as written
        self.gone = False

    def exists(self):
        return (self.path / "dataset.json").exists()


class Soak:
    """State that all threads share."""

    def __init__(self, root, truths):
        self.root, self.truths = root, truths
        self.sources = truths[0].sources
        self.over, self.lock = threading.Event(), threading.Lock()
        self.counts = collections.Counter()
        self.errors = []
        self.simulations = []
        self.server, self.generation = None, 0  # the generation changes whenever a server goes

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fail(self, who, error):
        with self.lock:
            self.errors.append(f"{who}: {type(error).__name__}: {error}")
        self.over.set()

    def current(self, random):
        """Some simulation whose dataset is there; None in the beginning."""
        with self.lock:
            there = [simulation for simulation in self.simulations if simulation.published and not simulation.gone]
        return there[random.integers(len(there))] if there else None


class Actor(threading.Thread):
    """Takes turns until the time is over."""

    def __init__(self, soak, name):
        super().__init__(name=name)
        self.soak, self.random = soak, qt.random_numbers("soak", name)
        self.folder = qt.SCRATCH / name
        self.folder.mkdir()

    def run(self):
        try:
            while not self.soak.over.is_set():
                self.turn()
        except BaseException as error:  # pylint: disable=broad-except  # told by main()
            self.soak.fail(self.name, error)

    def one_of(self, **weights):
        total = sum(weights.values())
        return str(self.random.choice(list(weights), p=[weight / total for weight in weights.values()]))

    def rest(self, seconds):
        self.soak.over.wait(seconds * self.random.random())


class Writer(Actor):
    """Writes one dataset after the other, in runs that are killed or meet a full disk, and removes old ones."""

    def __init__(self, soak, number):
        super().__init__(soak, f"writer{number}")
        self.number, self.mine = number, []

    def turn(self):
        truth = self.soak.truths[(self.number + len(self.mine)) % len(self.soak.truths)]
        simulation = Simulation(self.soak.root / f"{self.name}-{len(self.mine)}.quarry", truth)
        self.mine.append(simulation)
        with self.soak.lock:
            self.soak.simulations.append(simulation)
        for step in range(STEPS):
            while step not in simulation.published and not self.soak.over.is_set():
                self.publish(simulation, step)
            self.index(simulation)
            self.rest(0.5)
        if len(self.mine) > 2:
            self.remove(self.mine[-3])

    def publish(self, simulation, step):
        fate = self.one_of(normal=5, killed=3, full=2)
        before = set(simulation.published)
        command = [WRITER, self.soak.sources[step], *LAYOUT, *simulation.truth.way.options, "--step", step,
                   *["--append"] * simulation.exists(), "--output", simulation.path]
        outcome = self.run_to(fate, *command)
        found = set(qt.info(simulation.path)["steps"]) if simulation.exists() else set()
        if not before <= found <= before | {step}:
            raise Wrong(f"{simulation.path} has the steps {found} after {before} and an attempt at {step}: {outcome}")
        if fate == "normal" and (outcome.code != qt.DONE or step not in found):
            raise Wrong(f"step {step} was not written: {outcome}")
        if step in found:
            simulation.published.add(step)
        self.soak.count(f"writers, {fate}")

    def index(self, simulation):
        fate = self.one_of(normal=3, killed=1, full=1)
        outcome = self.run_to(fate, "quarry-index", simulation.path)
        if fate == "normal" and outcome.code != qt.DONE:
            raise Wrong(f"no index: {outcome}")
        self.soak.count(f"indices, {fate}")

    def run_to(self, fate, *command):
        """Runs a program to its end, or to a sudden one. Returns its outcome, None if it was killed."""
        if fate == "killed":
            process = subprocess.Popen([qt.executable(command[0]), *map(str, command[1:])], env=qt.ENVIRONMENT,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.rest(0.06)
            process.kill()
            process.wait()
            return None
        environment = {}
        if fate == "full":
            kind = str(self.random.choice(["write", "sync", "rename", "open"]))
            environment = {"LD_PRELOAD": str(FAIL_CALL), "QUARRY_FAIL_CALL": kind, "QUARRY_FAIL_ERRNO": "28",
                           "QUARRY_FAIL_AT": str(self.random.integers(1, 30)), "QUARRY_FAIL_BELOW": str(self.soak.root),
                           "QUARRY_FAIL_REPORT": str(self.folder / "failed")}
        outcome = qt.run(*command, env=environment)
        if outcome.code not in range(7):
            raise Wrong(outcome)
        return outcome

    def remove(self, simulation):
        simulation.gone = True
        shutil.rmtree(simulation.path)
        self.soak.count("datasets removed")


class Keeper(Actor):
    """Keeps a server, kills it now and then, and starts another."""

    def turn(self):
        descriptors = int(self.random.choice([0, 96])) or None
        with qt.Server(self.soak.root, "--memory", f"{MEMORY}B", "--watch", "0.1", "--drain", "1", "--log-level", "error",
                       "--http", "127.0.0.1:0",
                       descriptors=descriptors) as server:
            self.soak.server = server
            try:
                self.look_after(server)
            finally:
                self.soak.server = None
                self.soak.generation += 1
            # Or by SIGTERM at the end of the context, which must end it cleanly under all that goes on.
            end = self.one_of(killed=1, stopped=1)
            self.soak.count(f"servers {end}")
            if end == "killed":
                server.kill()

    def look_after(self, server):
        end = time.monotonic() + self.random.uniform(3, 15)
        while time.monotonic() < end and not self.soak.over.wait(0.1):
            if not server.runs():
                raise Wrong(f"the server ended by itself: {server.log()}")
        if not qt.SANITIZED and server.largest_memory() > MEMORY + BESIDE_MEMORY:
            raise Wrong(f"the server took {server.largest_memory() >> 20} MiB")


class Reader(Actor):
    """Asks for boxes, from files and from the server, and compares every sample."""

    def turn(self):
        generation, server, simulation = self.soak.generation, self.soak.server, self.soak.current(self.random)
        if simulation is None:
            return self.rest(0.1)
        published = set(simulation.published)
        question = simulation.truth.question(self.random)
        remote = server is not None and self.one_of(server=3, files=1) == "server"
        target = server.target(simulation.path) if remote else simulation.path
        output = self.folder / "answer.raw"
        output.unlink(missing_ok=True)
        outcome = qt.run("quarry", "get", target, "--field", "f", "--step", question.step, "--layer", question.layer,
                         "--level", question.level, "--box", qt.box_text(question.begin, question.end), "--output", output,
                         "--json", "--encoding", self.random.choice(["samples", "patches"]),
                         *["--progressive"] * int(self.random.integers(2)))
        if outcome.code == qt.DONE:
            self.check(outcome, output, simulation.truth, question)
            self.soak.count(f"right answers, {simulation.truth.way.name}")
            return self.soak.count("right answers")
        if simulation.gone or question.step not in published and outcome.code == qt.NOT_FOUND:
            return self.soak.count("answers about what is not there")
        if remote and (outcome.code in REFUSED_OR_GONE or generation != self.soak.generation):
            return self.soak.count("calls refused or cut")
        raise Wrong(outcome)

    def check(self, outcome, output, truth, question):
        said = json.loads(outcome.out.splitlines()[-1])
        first, samples = truth.answer(question)
        if said["begin"] != first or said["shape"] != list(samples.shape[::-1]) or said["damaged"]:
            raise Wrong(f"another box than {first} {samples.shape[::-1]}: {outcome}")
        if output.read_bytes() != samples.tobytes():
            raise Wrong(f"wrong samples of step {question.step}: {outcome}")


class Watcher(Actor):
    """Follows a simulation for a while: each step once, in order, and none that nobody has written."""

    def turn(self):
        simulation, server = self.soak.current(self.random), self.soak.server
        if simulation is None or server is None:
            return self.rest(0.1)
        process = subprocess.Popen([qt.executable("quarry"), "watch", server.target(simulation.path), "--json", "--patience",
                                    "2"], env=qt.ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.rest(5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=qt.TIMEOUT)
        qt.check_sound(qt.Outcome("quarry watch", max(process.returncode, 0), out, err))
        steps = [json.loads(line)["step"] for line in out.splitlines() if line.endswith("}")]
        if steps != list(range(len(steps))):
            raise Wrong(f"a watcher saw the steps {steps}: {err}")
        self.soak.count("watched steps" if steps else "watchers without a step")


class Damager(Actor):
    """Flips bits of a dataset of its own and cuts its files, while it asks for them; then makes them whole again."""

    def __init__(self, soak, name):
        super().__init__(soak, name)
        self.dataset = soak.root / "flipped.quarry"
        for step in range(2):
            qt.succeed(WRITER, soak.sources[step], *LAYOUT, *ONE_LAYER.options, "--step", step, *["--append"] * bool(step),
                       "--output", self.dataset)
        qt.succeed("quarry-index", self.dataset)
        self.whole = qt.Whole(self.dataset, self.folder)
        self.questions = [self.whole.ask_anything(self.random) for _ in range(8)]
        self.files = {path: path.read_bytes() for path in sorted(self.dataset.rglob("*.qsf"))}

    def turn(self):
        path = list(self.files)[self.random.integers(len(self.files))]
        data = self.files[path]
        position = int(self.random.integers(len(data)))
        if self.one_of(flip=3, cut=1) == "flip":
            self.put(path, position, bytes([data[position] ^ 1 << int(self.random.integers(8))]))
        else:
            os.truncate(path, position)
        for _ in range(2):
            self.ask(may_be_damaged=True)
        self.put(path, 0, data)
        self.ask(may_be_damaged=False)

    def put(self, path, position, data):
        with open(path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), data, position)

    def ask(self, *, may_be_damaged):
        generation, server = self.soak.generation, self.soak.server
        remote = server is not None and self.one_of(server=1, files=1) == "server"
        target = server.target(self.dataset) if remote else self.dataset
        question = self.questions[self.random.integers(len(self.questions))]
        outcome, said = self.whole.get(target, question, self.folder / "answer.raw", self.random)
        if remote and (outcome.code in REFUSED_OR_GONE or outcome.code != qt.DONE and generation != self.soak.generation):
            return self.soak.count("calls refused or cut")
        if not may_be_damaged and (outcome.code != qt.DONE or said["damaged"]):
            raise Wrong(f"damaged, and is whole again: {outcome}")
        if outcome.code not in (qt.DONE, qt.DAMAGED):
            raise Wrong(outcome)
        self.soak.count("answers about damage" if outcome.code == qt.DAMAGED or said["damaged"] else "right answers")


class Stranger(Actor):
    """Hostile clients: large requests, streams that nobody reads, bytes that are no HTTP, headers without end, calls that the
    server ends for their faults, compressed messages, bodies without end, values of Zarr that nobody takes. Those that a
    server may cut come from addresses of their own: it lets an address wait then."""

    KINDS = ("plan", "values", "names", "samples", "patches", "statistics", "points", "steps", "list")

    def turn(self):
        server = self.soak.server
        simulation = self.soak.current(self.random)
        if server is None or simulation is None:
            return self.rest(0.1)
        kind = self.one_of(largest=4, streams=2, requests=2, garbage=1, header=1, faults=3, compressed=1, bodies=2, codings=1,
                           zarr=1)
        try:
            getattr(self, kind)(server, simulation.path.name.removesuffix(".quarry"))
        except OSError:
            pass  # the server has cut it off, or has gone
        self.soak.count(f"hostile, {kind}")

    def client(self, command, server, dataset, *options):
        """Until it ends, or for some seconds."""
        process = subprocess.Popen([str(qt.BIN / "hostile_client"), command, server.address, "--dataset", dataset,
                                    "--field", "f", *map(str, options)], env=qt.ENVIRONMENT, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        end = time.monotonic() + self.random.uniform(0.5, 4)
        while process.poll() is None and time.monotonic() < end and not self.soak.over.wait(0.05):
            pass
        process.kill()
        process.wait()

    def largest(self, server, dataset):
        self.client("largest", server, dataset, "--count", self.random.integers(1, 64), "--kind",
                    self.random.choice(self.KINDS), "--dims", ",".join(map(str, DIMS)))

    def streams(self, server, dataset):
        self.client("streams", server, dataset, "--count", self.random.integers(1, 300), "--connections", 4)

    def requests(self, server, dataset):
        self.client("requests", server, dataset, "--count", 200, "--seed", self.random.integers(1 << 30))

    def garbage(self, server, _):
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(self.random.bytes(int(self.random.integers(1, 100_000))))

    def address(self):
        return f"127.0.0.{self.random.integers(2, 20)}"

    def faults(self, server, _):
        fault = self.random.choice(list(http2.FAULTS))
        with http2.Connection(server.address, source=self.address()) as connection:
            connection.answers_nobody()
            for first in range(1, int(self.random.integers(1, 40_000)), 400):
                connection.send(http2.calls_that_the_server_ends(fault, first, 200))

    def compressed(self, server, _):
        with http2.Connection(server.address, source=self.address()) as connection:
            for stream in (1, 3, 5):
                headers = http2.call_headers("PlanRead", grpc_encoding="gzip")
                connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers))
                connection.send_data(stream, b"\1" + struct.pack(">I", len(BOMB)) + BOMB)

    def bodies(self, server, _):
        strangers = [grpc_web.Raw(server.http_address(), timeout=5, source=self.address()) for _ in range(20)]
        for stranger in strangers:
            with stranger:
                stranger.send(grpc_web.CHUNKED.format("Read", "") + str(self.random.choice(grpc_web.ENDLESS_BODIES)))
                stranger.all()

    def codings(self, server, _):
        coding = self.random.choice(["xchunked", "chunked, identity", "chunked;q=1", "gzip, chunked"])
        with grpc_web.Raw(server.http_address(), timeout=5, source=self.address()) as stranger:
            stranger.send(f"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {coding}\r\n\r\n"
                          "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = stranger.all()
        if answer.count(b"HTTP/1.1 ") > 1:
            raise Wrong(f"the body of a request with {coding} was taken for the next one: {answer}")

    def zarr(self, server, dataset):
        strangers = [grpc_web.Raw(server.http_address(), timeout=5, source=self.address()) for _ in range(20)]
        for stranger in strangers:
            stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for key in ("zarr.json", "0/x/c/0", "0/f/c/0/0/0/0"):
                stranger.send(f"GET /zarr/{dataset}/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.rest(2)
        for stranger in strangers:
            stranger.socket.close()

    def header(self, server, _):
        with http2.Connection(server.address, source=self.address()) as connection:
            connection.send(http2.frame(http2.HEADERS, 0, 1, http2.call_headers("Read")))
            for _ in range(200):
                connection.send(http2.frame(http2.CONTINUATION, 0, 1, http2.literal("a" * 100, "b" * 8000)))


def check_what_is_left(soak):
    """After the last kill: every published step is there and right, one more run of the writer and of the index repairs what
    killed ones have left."""
    checker = Reader(soak, "checker")
    with qt.Server(soak.root, "--memory", f"{MEMORY}B") as server:
        for simulation in soak.simulations:
            if simulation.gone or not simulation.exists():
                continue
            path = simulation.path
            qt.succeed(WRITER, soak.sources[0], *LAYOUT, *simulation.truth.way.options, "--step", STEPS, "--append",
                       "--output", path)
            qt.succeed("quarry", "verify", path)
            qt.succeed("quarry-index", path)  # removes what killed ones have left
            leftovers = [file for file in path.rglob("*") if ".partial" in file.name]
            if leftovers:
                raise Wrong(f"left over: {leftovers}")
            for target in (path, server.target(path)):
                for step in simulation.published:
                    output = checker.folder / "answer.raw"
                    outcome = qt.succeed("quarry", "get", target, "--field", "f", "--step", step, "--output", output, "--json")
                    checker.check(outcome, output, simulation.truth, simulation.truth.everything(step))
                    soak.count("right answers in the end")


def soak_for(minutes):
    root = qt.SCRATCH / "served"
    root.mkdir()
    sources = write_sources(qt.SCRATCH)
    soak = Soak(root, [Truth(way, sources, qt.SCRATCH) for way in WAYS])
    actors = [Keeper(soak, "keeper"), Damager(soak, "damager"), Watcher(soak, "watcher")]
    actors += [Stranger(soak, f"stranger{number}") for number in range(STRANGERS)]
    actors += [Writer(soak, number) for number in range(SIMULATIONS)]
    actors += [Reader(soak, f"reader{number}") for number in range(READERS)]
    begin = time.monotonic()
    for actor in actors:
        actor.start()
    while not soak.over.wait(min(10.0, max(0.0, begin + 60 * minutes - time.monotonic()))):
        elapsed = time.monotonic() - begin
        print(f"{elapsed:5.0f} s: {soak.counts['right answers']} right answers, {soak.counts['writers, killed']} writers and "
              f"{soak.counts['servers killed']} servers killed", flush=True)
        if elapsed >= 60 * minutes:
            break
    soak.over.set()
    for actor in actors:
        actor.join()
    if not soak.errors:
        check_what_is_left(soak)
    return soak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3, help="default: 3")
    parser.add_argument("--seed", type=int, help="default: QUARRY_SEED, or 1")
    args = parser.parse_args()
    if args.seed is not None:
        qt.SEED = args.seed
    print(f"executables in {qt.BIN}, {args.minutes:g} minutes, seed {qt.SEED}", flush=True)
    soak = soak_for(args.minutes)
    print(json.dumps(dict(sorted(soak.counts.items())), indent=1))
    for error in soak.errors:
        print(error, file=sys.stderr)
    if soak.errors:
        return 1
    needed = ("right answers", "answers about damage", "watched steps", "servers killed", "servers stopped", "writers, killed",
              "right answers in the end", *(f"right answers, {way.name}" for way in WAYS))
    missing = [what for what in needed if not soak.counts[what]]
    if missing:
        print(f"the soak was too short to have {', '.join(missing)}", file=sys.stderr)
        return 1
    print("every answer was right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
