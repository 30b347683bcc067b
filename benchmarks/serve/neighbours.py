#!/usr/bin/env python3
"""How long one client waits while another does its worst: the times of small boxes, alone and beside a neighbour that
sends one kind of large request again and again, with the server's default limits.

Each client has a token of its own. Everything shares this machine; the neighbour's own work, which would be another
machine's, has the lowest priority (nice 19). How much of the waiting is for the processors and not for the server shows
when the neighbour asks another server ("other"): then the clients share nothing else.
Needs the programs of the preset benchmarks and the target hostile_client.

Example: benchmarks/serve/run.py --edge 256 --parts questions
         benchmarks/serve/neighbours.py build/benchmark-serve/edge256-0.0001-interpolate/served
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from common import ROOT
from processes import Conversation, Server, bring_to_page_cache

KINDS = ["samples", "patches", "statistics", "points", "plan", "values", "list", "streams"]
BOX = 32


def token_file(path, names):
    """A token file for clients with these names; each name is its secret, too."""
    lines = [f"{name} sha256:{hashlib.sha256(name.encode()).hexdigest()} *\n" for name in names]
    path.write_text("".join(lines))
    path.chmod(0o600)
    return path


class Neighbour(threading.Thread):
    """Sends requests until it is told to stop."""

    def __init__(self, args, address, kind):
        super().__init__()
        self.stop, self.rounds = threading.Event(), 0
        command = ["nice", "-n", "19", args.bin / "hostile_client", "streams" if kind == "streams" else "largest", address]
        command += ["--dataset", args.dataset, "--field", args.field, "--count", args.count]
        if kind == "streams":
            command += ["--connections", 4]
        else:
            command += ["--kind", kind, "--dims", ",".join([str(args.edge)] * 3)]
        self.command = [str(part) for part in command]

    def run(self):
        environment = dict(os.environ, QUARRY_TOKEN="neighbour")
        while not self.stop.is_set():
            process = subprocess.Popen(self.command, env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            while process.poll() is None:
                if self.stop.wait(0.02):
                    process.kill()
            self.rounds += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        self.join()


def box(generator, edge):
    """A small box somewhere in the grid."""
    begins = [generator.randrange(0, edge - BOX) for _ in range(3)]
    return ",".join(f"{begin}:{begin + BOX}" for begin in begins)


def times(client, args):
    """[s] of each of many boxes, the same ones each time."""
    generator = random.Random(args.seed)
    return client.ask({"boxes": [box(generator, args.edge) for _ in range(args.boxes)]})["seconds"]


def summary(seconds):
    ordered = sorted(seconds)
    return {"median_ms": 1e3 * statistics.median(ordered), "p99_ms": 1e3 * ordered[int(0.99 * len(ordered))]}


def start_server(args, tokens):
    return Server([args.bin / "quarry-server", args.root, "--listen", "127.0.0.1:0", "--tokens", tokens, "--quiet",
                   "--memory", args.memory])


def alone(args, tokens):
    """Times of a client that has a freshly started server to itself."""
    with start_server(args, tokens) as server, victim(args, server) as client:
        times(client, args)  # decoded, as far as there is memory
        return summary(times(client, args))


def beside(args, tokens, kind, other):
    """The same beside a neighbour, who asks the same server or another one."""
    with start_server(args, tokens) as server, start_server(args, tokens) as second, victim(args, server) as client:
        times(client, args)
        with Neighbour(args, (second if other else server).address, kind) as neighbour:
            times(client, args)  # until the neighbour is in full swing
            return summary(times(client, args)) | {"rounds": neighbour.rounds}


def victim(args, server):
    os.environ["QUARRY_TOKEN"] = "victim"
    return Conversation([args.bin / "client_bench", f"grpc://{server.address}/{args.dataset}"])


def middle(rows):
    """Medians of each figure over the turns."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def measure(args, tokens):
    """Measures each kind of neighbour, [with the same server, with another one], and alone; in turns."""
    turns = []
    for _ in range(args.repeat):
        turns.append({"alone": [alone(args, tokens)]} |
                     {kind: [beside(args, tokens, kind, other) for other in (False, True)] for kind in args.kinds})
    return {kind: [middle([turn[kind][n] for turn in turns]) for n in range(len(turns[0][kind]))] for kind in turns[0]}


def table(results):
    ms = "{:7.2f} ms"
    base = results["alone"][0]
    lines = [f"{'neighbour':12} {'median':>10} {'p99':>10} {'of alone':>9} {'other: p99':>11} {'of other':>9}",
             f"{'alone':12} {ms.format(base['median_ms'])} {ms.format(base['p99_ms'])}"]
    for kind, rows in list(results.items())[1:]:
        same, other = rows
        lines.append(f"{kind:12} {ms.format(same['median_ms'])} {ms.format(same['p99_ms'])} "
                     f"{same['p99_ms'] / base['p99_ms']:8.1f}x {other['p99_ms']:8.2f} ms "
                     f"{same['p99_ms'] / other['p99_ms']:8.1f}x")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder of the dataset, as run.py leaves it")
    parser.add_argument("--dataset", default="turb")
    parser.add_argument("--field", default="u")
    parser.add_argument("--edge", type=int, default=256, help="samples along each axis")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--boxes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=64, help="requests of the neighbour at a time")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--memory", default="2GiB", help="of the server")
    parser.add_argument("--repeat", type=int, default=3, help="turns, of which the medians are shown")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    bring_to_page_cache(args.root)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(args, token_file(Path(folder) / "tokens", ["victim", "neighbour"]))
    if args.json:
        print(json.dumps(results, indent=1))
        return 0
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
