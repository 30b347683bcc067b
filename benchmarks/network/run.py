#!/usr/bin/env python3
"""Measures Quarry over paths of packets, next to zarr-python, TensorStore and h5py over HTTP on the same paths.

Twelve questions in each encoding: the time that `quarry get` prints, the time of the whole process, bytes and round
trips. A path is made of two network namespaces and a relay that delays packets (--wan, or its source in
../shared/tools), so this needs root, the program ip, /dev/net/tun and, for the source, g++. Connections are new for
each question, and Quarry's have TLS and a token; the peers' are plain HTTP. Servers are new, too: nothing is decoded
yet. "warm" is the same question once more over a connection that stays open.

All output goes to one folder (default build/benchmark-network): venv/ with the peers, and for each combination of
--edge, --relative and --codec a folder with the stored field, results.json with every figure, and tables.md. Builds
nothing: build the benchmarks preset first (targets quarry quarry-server quarry-write quarry-index client_bench). Needs
PyPI for the peers; one that does not install is left out. Contestants take turns, --repeat times; tables have medians.

Example, a first look in minutes:       benchmarks/network/run.py --edge 128 --repeat 2 --ways loopback country
Example, the figures of the README:     benchmarks/network/run.py
Example, beside an earlier release:     benchmarks/network/run.py --before ../earlier/build/release/bin
"""

import argparse
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "serve")]
from common import ROOT, processor, say, source_version
from neighbours import token_file
from processes import Conversation, Failed, Server, bring_to_page_cache, touch_memory
from questions import Question, make_questions
from stored import PATCH, enter_environment, make_dataset, make_field, within
from wire import WAYS, ImpossibleError, Wire, check_possible, must, relay

PEERS = {"zarr": ["zarr", "fsspec", "aiohttp"], "tensorstore": ["tensorstore", "aiohttp"],
         "h5py": ["h5py", "hdf5plugin", "fsspec", "aiohttp"]}  # packages that a peer requires, with its server
STORED = ["numpy", "scipy", "zarr", "h5py", "hdf5plugin"]  # without these, nothing is stored
ENCODINGS = ["patches", "samples", "coded", "auto"]
PROGRAMS = ["quarry", "quarry-server", "quarry-write", "quarry-index", "client_bench"]
TOKEN = "benchmark"
MIB = 1 << 20

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Identity:
    """How servers show who they are, and whom they take."""

    certificate: Path
    key: Path
    tokens: Path

    def options(self) -> list[str | Path]:
        """Options of quarry-server."""
        return ["--tls-cert", self.certificate, "--tls-key", self.key, "--tokens", self.tokens]


def make_identity(folder: Path) -> Identity:
    """A certificate for the addresses of all paths, and a token."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    must("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "365", "-subj", "/CN=quarry", "-addext", "subjectAltName=IP:127.0.0.1,IP:10.77.0.2", "-keyout", key, "-out",
         certificate)
    return Identity(certificate, key, token_file(folder / "tokens", [TOKEN]))


class Quarry:
    """A newly started server, and `quarry get` as a process that connects anew."""

    def __init__(self, programs: Path, root: Path, encoding: str, identity: Identity, name: str) -> None:
        self.programs, self.root, self.encoding, self.identity, self.name = programs, root, encoding, identity, name

    def turn(self, wire: Wire, question: Question, output: Path) -> Row:
        """Figures of one question."""
        command = wire.far(self.programs / "quarry-server", self.root, "--listen", f"{wire.host}:0",
                           "--log-level", "error", *self.identity.options())
        with Server(command) as server:
            target = f"grpcs://{server.address}/turb"
            ask = self._points if question.points else self._get
            before = wire.received()
            row = ask(wire, question, target, output)
            row["wire_bytes"] = wire.received() - before
            row["warm"] = self._warm(wire, question, target)
            server.process.kill()  # draining takes its time, and is not measured
            return row

    def _client(self, wire: Wire, command: list[str | Path]) -> tuple[float, str]:
        """Seconds and output of a client."""
        begin = time.perf_counter()
        done = subprocess.run(wire.near(*command), capture_output=True, text=True)
        elapsed = time.perf_counter() - begin
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
        return elapsed, done.stdout

    def _get(self, wire: Wire, question: Question, target: str, output: Path) -> Row:
        elapsed, said = self._client(wire, [self.programs / "quarry", "get", target, "--ca", self.identity.certificate,
                                            "--json", "--encoding", self.encoding, "--output", output,
                                            *question.options()])
        told = json.loads(said)
        return {"seconds": told["seconds"], "process": elapsed, "bytes": told["bytes_received"],
                "max_error": told["max_error"]}

    def _points(self, wire: Wire, question: Question, target: str, output: Path) -> Row:
        output.with_suffix(".txt").write_text("".join(f"{x},{y},{z}\n" for x, y, z in question.points))
        elapsed, _ = self._client(wire, [self.programs / "quarry", "points", target, "--ca", self.identity.certificate,
                                         "--file", output.with_suffix(".txt"), "--json"])
        return {"seconds": None, "process": elapsed, "bytes": None, "max_error": None}

    def _warm(self, wire: Wire, question: Question, target: str) -> float | None:
        """Seconds of the second of two questions over one connection; None: this program does not ask it."""
        if question.points:
            return None
        command = wire.near(self.programs / "client_bench", target, "--ca", self.identity.certificate, "--encoding",
                            self.encoding)
        try:
            with Conversation(command) as client:
                client.ask(question.warm())
                return float(client.ask(question.warm())["seconds"][0])
        except Failed:
            return None  # an earlier one


class Directory:
    """`quarry get` of the same dataset without a server."""

    name = "directory"

    def __init__(self, programs: Path, root: Path) -> None:
        self.programs, self.root = programs, root

    def turn(self, wire: Wire, question: Question, output: Path) -> Row:
        """Figures of one question; a path does not matter."""
        begin = time.perf_counter()
        said = must(self.programs / "quarry", "get", self.root / "turb.quarry", "--json", "--output", output,
                    *question.options())
        elapsed = time.perf_counter() - begin
        told = json.loads(said)
        return {"seconds": told["seconds"], "process": elapsed, "bytes": told["bytes_received"],
                "max_error": told["max_error"], "wire_bytes": None, "warm": None}


class Peer:
    """A library in a process that forks for each question, and a server of files."""

    def __init__(self, name: str, folder: Path, wire: Wire) -> None:
        self.name = name
        self.scale = json.loads((folder / "about.json").read_text())["scale"]
        self.server = Server(wire.far(sys.executable, HERE / "files.py", folder, wire.host))
        self.client = Conversation(wire.near(sys.executable, HERE / "peers.py", "answer", name,
                                             f"http://{self.server.address}", "--device", wire.device, "--scale",
                                             repr(self.scale)))

    def turn(self, wire: Wire, question: Question, output: Path) -> Row:
        """Figures of one question."""
        said: Row = self.client.ask(question.plain())
        return {"seconds": said["seconds"], "process": None, "bytes": said["wire_bytes"], "max_error": None,
                "wire_bytes": said["wire_bytes"], "warm": said["warm"]}

    def close(self) -> None:
        """Ends both processes."""
        self.client.close()
        self.server.__exit__()


def store_peers(args: argparse.Namespace, field: Path, tolerance: float) -> tuple[Path, dict[str, str]]:
    """Folder of the peers' arrays, and why some of them are left out."""
    missing = json.loads((args.home / "venv/installed.json").read_text())["missing"]
    folder = args.out / "peers"
    if not (folder / "about.json").exists():
        say("storing for the peers")
        must("rm", "-rf", folder)
        must(sys.executable, HERE / "peers.py", "prepare", field, folder, "--edge", str(args.edge), "--tolerance",
             repr(tolerance))
    absent = {}
    for name, packages in PEERS.items():
        lacking = [package for package in packages if package in missing]
        if lacking:
            absent[name] = "; ".join(f"{package} does not install: {missing[package]}" for package in lacking)
        elif name not in args.peers:
            absent[name] = "not wanted"
    return folder, absent


def encodings_of(programs: Path) -> list[str]:
    """Encodings that `quarry get` takes."""
    told = must(programs / "quarry", "get", "--help")
    return [encoding for encoding in ENCODINGS if encoding in told]


def measure_way(args: argparse.Namespace, wire: Wire, contestants: list[Any], questions: list[Question]) -> list[Row]:
    """All questions to all contestants over one path."""
    rows: list[Row] = []
    output = args.out / "answer.npy"
    for repeat in range(args.repeat):
        for question in questions:
            say(f"{wire.way.name}, turn {repeat + 1} of {args.repeat}: {question.title}")
            # The first one changes from turn to turn.
            begin = repeat % len(contestants)
            for contestant in contestants[begin:] + contestants[:begin]:
                if question.points and not contestant.name.endswith(("auto", *PEERS)):
                    continue  # they have one form only
                touch_memory(64 * MIB + 12 * question.samples() if not question.points else 64 * MIB)
                row = {"way": wire.way.name, "question": question.key, "contestant": contestant.name, "repeat": repeat}
                rows.append(row | contestant.turn(wire, question, output))
    return rows


def measure(args: argparse.Namespace, root: Path, folder: Path, names: list[str], questions: list[Question],
            results: dict[str, Any], path: Path) -> None:
    """Way by way; keeps the figures after each."""
    identity = make_identity(args.out / "identity")
    contestants: list[Any] = [Quarry(args.bin, root, encoding, identity, encoding)
                              for encoding in encodings_of(args.bin)]
    if args.before:
        contestants += [Quarry(args.before, root, encoding, identity, f"before {encoding}")
                        for encoding in encodings_of(args.before)]
    program = relay(args.wan, ROOT.parent / "shared/tools/wan.cc", args.home)
    for way in args.ways:
        with Wire(WAYS[way], program) as wire:
            results["paths"][way] = dataclasses.asdict(wire.measure())
            peers = [Peer(name, folder, wire) for name in names]
            here = [Directory(args.bin, root)] if way == "loopback" else []
            try:
                rows = measure_way(args, wire, [*contestants, *here, *peers], questions)
            finally:
                for peer in peers:
                    peer.close()
        results["rows"] = [row for row in results["rows"] if row["way"] != way] + rows
        path.write_text(json.dumps(results) + "\n")


def parse_arguments() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-network", help="for everything")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--before", type=Path, metavar="FOLDER",
                        help="programs of an earlier release, which take turns")
    parser.add_argument("--wan", type=Path, metavar="PATH",
                        help="the relay; default: compiled from ../shared/tools/wan.cc")
    parser.add_argument("--python", default="/usr/bin/python3", help="makes the environment")
    parser.add_argument("--edge", type=int, default=384, help="samples along each axis, at least 128")
    parser.add_argument("--relative", type=float, default=1e-4, help="tolerance, of the range of the field")
    parser.add_argument("--codec", default="interpolate")
    parser.add_argument("--repeat", type=int, default=5, help="turns; medians count")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, help="others keep their figures")
    parser.add_argument("--questions", nargs="+", metavar="KEY",
                        help="some of the questions, by their keys in questions.py")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--json", action="store_true", help="prints all figures instead of the tables")
    args = parser.parse_args()
    if args.edge < 128:
        parser.error(f"--edge {args.edge} is below 128")
    for programs in filter(None, (args.bin, args.before)):
        for name in PROGRAMS:
            if not (programs / name).exists():
                parser.error(f"{programs / name} not found: build the target {name} of the preset benchmarks")
    known = {question.key for question in make_questions(args.edge, 1)}
    for key in set(args.questions or []) - known:
        parser.error(f"there is no question {key}; there are {', '.join(sorted(known))}")
    args.home = args.out.resolve()
    args.out = args.home / f"edge{args.edge}-{args.relative:g}-{args.codec}"
    return args


def main() -> int:
    """See the top."""
    args = parse_arguments()
    try:
        check_possible()
    except ImpossibleError as error:
        sys.exit(f"run.py: cannot make a path: {error}")
    args.out.mkdir(parents=True, exist_ok=True)
    enter_environment(args.home, args.python, HERE / "requirements.txt", STORED)
    os.environ["QUARRY_TOKEN"] = TOKEN
    field, tolerance = make_field(args)
    root = make_dataset(args, field, "served", "x".join([str(args.edge)] * 3), within(args, tolerance))
    folder, absent = store_peers(args, field, tolerance)
    bring_to_page_cache(root)
    bring_to_page_cache(folder)
    questions = make_questions(args.edge, tolerance / args.relative)
    path = args.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"paths": {}, "rows": []}
    results |= {"machine": {"date": datetime.datetime.now().isoformat(timespec="minutes"), "processor": processor()[0],
                            "processors": os.cpu_count(), "load_before": os.getloadavg(), "source": source_version(),
                            "edge": args.edge, "patch": PATCH, "codec": args.codec, "relative": args.relative,
                            "repeat": args.repeat},
                "absent": absent, "titles": {question.key: question.title for question in questions}}
    wanted = [question for question in questions if question.key in (args.questions or results["titles"])]
    try:
        measure(args, root, folder, [name for name in args.peers if name not in absent], wanted, results, path)
    except (Failed, ImpossibleError) as error:
        sys.exit(f"run.py: {error}")
    if args.json:
        print(path.read_text(), end="")
        return 0
    subprocess.run([sys.executable, HERE / "report.py", path], check=True)
    say(f"figures in {args.out}: results.json and tables.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
