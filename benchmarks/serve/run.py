#!/usr/bin/env python3
"""Measures Quarry, from a server and from a directory, next to h5py, zarr, OpenVisus, numpy.memmap and gRPC alone: boxes,
overviews, `quarry get`, layers of accuracy, the first picture from a cold cache, many clients, bytes on the wire, and the
memory under many clients.

All output goes to one folder (default build/benchmark-serve): venv/ with the peers, and for each combination of
--edge, --relative and --codec a folder with the field in every format (kept for the next run), results.json with every
figure, tables.md and plots. Builds nothing: build the benchmarks preset first (targets quarry quarry-server quarry-write
quarry-index client_bench codec_bench raw_stream). Needs PyPI for the peers; one that does not install is left out, and
the tables say why.

Clients and servers share this machine, over loopback. Contestants take turns, --repeat times; tables have medians.

Example, a first look in a minute:   benchmarks/serve/run.py --edge 128 --repeat 3
Example, the figures of the README:  benchmarks/serve/run.py
Example, beside an earlier release:  benchmarks/serve/run.py --parts questions get --before ../earlier/build/release/bin
"""

import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "codec")]
from coder_alone import coder_alone
from common import ROOT, processor, say, source_version
from processes import (Conversation, Failed, MemoryWatch, Server, bring_to_page_cache, cached_bytes,
                       drop_from_page_cache, touch_memory)
from stored import PATCH, enter_environment, is_made, make_dataset, make_field, maker, within

OVERVIEW_LEVEL = 3
NEEDED = ["numpy", "scipy", "matplotlib"]
# Packages that a peer requires.
PEERS = {
    "memmap": [], "h5py": ["h5py", "hdf5plugin"], "zarr": ["zarr", "zfpy"], "openvisus": ["openvisusnogui"]}
GET_QUESTIONS = ["box", "unaligned", "full"]
PARTS = ["questions", "get", "coder", "accuracy", "clients", "wire", "first-picture", "memory"]
PROGRAMS = ["quarry", "quarry-server", "quarry-write", "quarry-index", "client_bench", "codec_bench", "raw_stream"]
MIB = 1 << 20

# --- stored once for all contestants ---


def store_peers(args, field, tolerance):
    """Folder of each working peer, and why the others fail."""
    missing = json.loads((args.home / "venv/installed.json").read_text())["missing"]
    folders, absent = {}, {}
    for name, packages in PEERS.items():
        lacking = [package for package in packages if package in missing]
        if name not in args.peers or lacking:
            absent[name] = "; ".join(f"{p} does not install: {missing[p]}" for p in lacking) or "not wanted"
            continue
        folder = args.out / name
        if not (folder / "about.json").exists():
            say(f"storing for {name}")
            shutil.rmtree(folder, ignore_errors=True)
            prepare = [sys.executable, HERE / "peers.py", name, "prepare", field, folder]
            prepare += ["--edge", str(args.edge), "--tolerance", repr(tolerance)]
            done = subprocess.run(prepare, capture_output=True, text=True)
            if done.returncode != 0:
                absent[name] = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
                say(f"{name} is left out: {absent[name]}")
                continue
        folders[name] = folder
    return folders, absent


# --- contestants: one turn of each, from freshly opened to asked twice ---


class Quarry:
    """A newly started server and its client. One tiny read of the first patch connects them and opens the dataset;
    nothing else has been read or decoded."""

    def __init__(self, programs, root, name="quarry"):
        self.programs, self.root, self.name = programs, root, name

    def serve(self, *options):
        program = self.programs / "quarry-server"
        return Server([program, self.root, "--listen", "127.0.0.1:0", "--quiet", *options])

    def client(self, server):
        return Conversation([self.programs / "client_bench", f"grpc://{server.address}/turb"])

    def warm_client(self, server):
        client = self.client(server)
        client.ask({"boxes": ["0:1,0:1,0:1"]})
        return client

    def turn(self, question):
        with self.serve() as server, self.warm_client(server) as client:
            return client.ask(question), client.ask(question)

    def get(self, box, output):
        """Seconds of `quarry get`, see run_get."""
        with self.serve() as server:
            return run_get(self.programs, f"grpc://{server.address}/turb", box, output)

    def first_picture(self):
        """Files dropped before the start, and after it what the start has read. Mapped pages of the server's
        copy of the index stay."""
        drop_from_page_cache(self.root)
        with self.serve() as server:
            drop_from_page_cache(self.root)
            left = cached_bytes(self.root)
            with self.client(server) as client:
                levels = client.ask({"levels": True, "level": OVERVIEW_LEVEL})["levels"]
                opened = client.hello["open_seconds"]
        return {"open": opened, "picture": levels[0]["seconds"], "levels": levels, "cached": left}

    def many(self, questions):
        with self.serve() as server:
            return ask_together([self.warm_client(server) for _ in questions], questions)


class Directory:
    """The same dataset read by the process that opens it, without a server. One tiny read comes first, as above."""

    def __init__(self, programs, root, name="directory"):
        self.programs, self.root, self.name = programs, root, name
        self.dataset = root / "turb.quarry"

    def turn(self, question):
        with Conversation([self.programs / "client_bench", self.dataset]) as client:
            client.ask({"boxes": ["0:1,0:1,0:1"]})
            return client.ask(question), client.ask(question)

    def get(self, box, output):
        return run_get(self.programs, self.dataset, box, output)


def run_get(programs, target, box, output):
    """[s] `quarry get` of a box, or of everything if that is "", to a file: `seconds` that it prints, and `command`, from its start to its end."""
    command = [programs / "quarry", "get", target, *(["--box", box] if box else []), "--output", output, "--json"]
    begin = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    elapsed = time.monotonic() - begin
    if done.returncode != 0:
        raise Failed(f"quarry get {target} ended with {done.returncode}: {done.stderr.strip()}")
    return {"seconds": json.loads(done.stdout)["seconds"], "command": elapsed}


class Peer:
    """A library in a process of its own, file opened anew."""

    def __init__(self, args, name, folder):
        self.args, self.name, self.folder = args, name, folder
        self.process = self.start()

    def start(self):
        return Conversation([sys.executable, HERE / "peers.py", self.name, "answer", self.folder])

    def turn(self, question):
        self.process.ask({"open": True})
        return self.process.ask(question), self.process.ask(question)

    def first_picture(self):
        self.process.ask({"close": True})
        drop_from_page_cache(self.folder)
        left = cached_bytes(self.folder)
        opened = self.process.ask({"open": True})["seconds"][0]
        return {"open": opened, "picture": self.process.ask({"stride": PATCH})["seconds"][0], "cached": left}

    def many(self, questions):
        return ask_together([self.start() for _ in questions], questions)


class RawStream:
    """gRPC alone: the bytes of the same answer, in messages as large as Quarry's."""

    name = "grpc"

    def __init__(self, args, address):
        self.args, self.address = args, address
        self.process = self.start()

    def start(self):
        client = Conversation([self.args.bin / "raw_stream", self.address], hello=False)
        client.ask({"bytes": [MIB]})
        return client

    def turn(self, question):
        wish = {"bytes": question["answer_bytes"]}
        return self.process.ask(wish), self.process.ask(wish)

    def many(self, questions):
        wishes = [{"bytes": question["answer_bytes"]} for question in questions]
        return ask_together([self.start() for _ in questions], wishes)


def ask_together(conversations, questions):
    """All ask at once. Returns the answers; closes those that asked."""
    for conversation, question in zip(conversations, questions):
        conversation.say(question)
    answers = [conversation.hear() for conversation in conversations]
    for conversation in conversations:
        conversation.close()
    return answers


def store_quarry(args, field, tolerance):
    """Every way to read the field: from a server and a directory, with the programs of each release, which write a dataset
    of their own."""
    ways, dims = [], "x".join([str(args.edge)] * 3)
    for programs, name, suffix in ((args.bin, "served", ""), (args.before, "served-before", "-before")):
        if programs:
            root = make_dataset(args, field, name, dims, within(args, tolerance), programs)
            ways += [Quarry(programs, root, "quarry" + suffix), Directory(programs, root, "directory" + suffix)]
    return ways


# --- questions ---


def text(begin, size):
    return ",".join(f"{b}:{b + size}" for b in begin)


def unaligned_boxes(args, size, most=8):
    """Boxes that share no patch with each other or the first patch, so that none finds patches already decoded."""
    numbers = random.Random(1)
    taken, boxes = {(0, 0, 0)}, []
    for _ in range(2000):
        begin = [numbers.randrange(args.edge - size + 1) for _ in range(3)]
        if len(boxes) == most or all(b % PATCH == 0 for b in begin):
            continue
        spans = [range(b // PATCH, (b + size - 1) // PATCH + 1) for b in begin]
        patches = {(x, y, z) for x in spans[0] for y in spans[1] for z in spans[2]}
        if not patches & taken:
            taken |= patches
            boxes.append(text(begin, size))
    return boxes or [text([args.edge - size - 1] * 3, size)]


def make_questions(args):
    half, small = args.edge // 2, min(64, args.edge // 4)
    whole = 4 * args.edge**3
    boxes = unaligned_boxes(args, small)
    stride = 2**OVERVIEW_LEVEL
    questions = {
        "box": {"title": f"{half}^3 box", "boxes": [text([args.edge // 4] * 3, half)]},
        "unaligned": {"title": f"unaligned {small}^3 box", "boxes": boxes},
        "overview": {"title": f"stride-{stride} overview", "stride": stride},
        "full": {"title": f"full {args.edge}^3"},
    }
    answers = {"box": [4 * half**3], "unaligned": [4 * small**3] * len(boxes), "overview": [whole // stride**3],
               "full": [whole]}
    return {key: question | {"answer_bytes": answers[key]} for key, question in questions.items()}


def measure_questions(args, contestants, questions):
    results = []
    for repeat in range(args.repeat):
        for key, question in questions.items():
            say(f"turn {repeat + 1} of {args.repeat}: {question['title']}")
            # The first one changes from turn to turn.
            begin = repeat % len(contestants)
            for contestant in contestants[begin:] + contestants[:begin]:
                touch_memory(64 * MIB + 3 * max(question["answer_bytes"]))  # in a server, in transit, in a client
                for read, answer in zip(("first", "second"), contestant.turn(question)):
                    turn = {"question": key, "contestant": contestant.name, "read": read, "repeat": repeat}
                    results += [turn | {"seconds": seconds} for seconds in answer["seconds"]]
    return results


def measure_get(args, contestants, questions):
    """`quarry get` of boxes to a .npy file, from programs that start and connect first."""
    results, output = [], args.out / "box.npy"
    for repeat in range(args.repeat):
        for key in GET_QUESTIONS:
            question = questions[key]
            say(f"turn {repeat + 1} of {args.repeat}: quarry get of {question['title']}")
            for contestant in contestants:
                touch_memory(64 * MIB + 3 * question["answer_bytes"][0])
                turn = {"question": key, "contestant": contestant.name, "repeat": repeat}
                results += [turn | contestant.get(box, output) for box in question.get("boxes", [""])]
    output.unlink()
    return results


def measure_coder(args, directories, field, tolerance):
    """MB/s of each release's coder with everything in memory, on every processor at once."""
    results, cores = [], os.cpu_count()
    for directory in directories:
        say(f"the coder alone: {directory.name}")
        encode, decode = coder_alone(directory.programs, field, args.edge, tolerance, cores)
        results.append({"contestant": directory.name, "cores": cores, "encode_mbps": encode, "decode_mbps": decode})
    return results


def measure_accuracy(args, field, tolerance):
    """An archive in layers within 1e-2 of the range, --relative, and exact, beside `lossless` alone: stored bytes, and
    bytes and seconds of the whole field within each bound, from a new server."""
    bounds = [tolerance * 1e-2 / args.relative, tolerance]
    dims = "x".join([str(args.edge)] * 3)
    layers = ",".join([*map(repr, bounds), "exact"])
    stored, results = {}, []
    for name, promise in (("layers", ["--layers", layers]), ("lossless", ["--lossless"])):
        root = make_dataset(args, field, name, dims, promise)
        stored[name] = json.loads((root / "report.json").read_text())["bytes_out"]
    bring_to_page_cache(args.out / "layers")
    archive = Quarry(args.bin, args.out / "layers")
    for repeat in range(args.repeat):
        say(f"turn {repeat + 1} of {args.repeat}: layers of accuracy")
        for bound in [*bounds, 0.0]:
            touch_memory(64 * MIB + 12 * args.edge**3)
            with archive.serve() as server, archive.warm_client(server) as client:
                seconds = client.ask({"max_error": bound})["seconds"][0]
                sent = client.ask({"drain": 1, "encoding": "patches", "max_error": bound})["wire_bytes"]
            results.append({"max_error": bound, "repeat": repeat, "seconds": seconds, "patch_bytes": sent})
    return {"stored": stored, "reads": results}


def check_answers(args, quarry, field):
    """Largest error of the whole field in the client."""
    import numpy as np

    output = args.out / "answer.raw"
    with quarry.serve() as server, quarry.client(server) as client:
        client.ask({"output": str(output)})
    got, original = np.memmap(output, "<f4", "r"), np.memmap(field, "<f4", "r")
    parts = (slice(i, i + 16 * MIB) for i in range(0, original.size, 16 * MIB))
    error = max(float(np.abs(got[part].astype(np.float64) - original[part]).max()) for part in parts)
    output.unlink()
    return error


def measure_first_picture(args, contestants):
    results = []
    for repeat in range(args.repeat):
        say(f"turn {repeat + 1} of {args.repeat}: first picture from a cold cache")
        for contestant in contestants:
            touch_memory(256 * MIB)
            results.append({"contestant": contestant.name, "repeat": repeat} | contestant.first_picture())
    return results


def measure_wire(quarry, questions):
    """Bytes of the messages in each encoding, and the payload that the patches of the answer have."""
    results = []
    with quarry.serve() as server, quarry.client(server) as client:
        for key in ("box", "unaligned", "full"):
            boxes = questions[key].get("boxes", [""])[:1]
            result = {"question": key, "price": client.ask({"price": boxes[0]})}
            for encoding in ("samples", "patches"):
                try:
                    drain = {"drain": 1, "encoding": encoding, "boxes": boxes}
                    result[encoding] = client.ask(drain)["wire_bytes"]
                except Failed as error:
                    result[encoding], result["reason"] = None, str(error).rpartition(": ")[2]
            results.append(result)
    return results


def measure_clients(args, contestants):
    """Each client reads random boxes, one after the other; the total is the same for any number of clients."""
    results = []
    size = min(64, args.edge // 4)
    for repeat in range(args.repeat):
        for count in args.clients:
            numbers = random.Random(1000 * repeat + count)
            each = max(1, args.client_reads // count)
            begins = [[[numbers.randrange(args.edge - size + 1) for _ in range(3)] for _ in range(each)]
                      for _ in range(count)]
            questions = [{"boxes": [text(begin, size) for begin in of_one], "answer_bytes": [4 * size**3] * each}
                         for of_one in begins]
            for contestant in contestants:
                say(f"turn {repeat + 1} of {args.repeat}: {count} clients of {contestant.name}")
                touch_memory((256 + 32 * count) * MIB)
                answers = contestant.many(questions)
                wall = max(a["end"] for a in answers) - min(a["begin"] for a in answers)
                results.append({"contestant": contestant.name, "clients": count, "repeat": repeat, "wall": wall,
                                "seconds": [seconds for answer in answers for seconds in answer["seconds"]]})
    return results


# --- memory ---


def make_large(args, field, tolerance):
    """The field twice along z, the second time mirrored: 1 GiB for an edge of 512."""
    import numpy as np

    root, promise = args.out / "memory", within(args, tolerance)
    if not is_made(root, maker(args.bin, promise)):
        small = np.memmap(field, "<f4", "r", shape=(args.edge,) * 3)
        with open(args.out / "large.raw", "wb") as file:
            for plane in list(range(args.edge)) + list(reversed(range(args.edge))):
                small[plane].tofile(file)
        dims = f"{args.edge}x{args.edge}x{2 * args.edge}"
        make_dataset(args, args.out / "large.raw", "memory", dims, promise)
        (args.out / "large.raw").unlink()
    return root


def measure_memory(args, root):
    """Every client reads everything, at once, and discards it."""
    say(f"{args.memory_clients} clients, {8 * args.edge**3 / 2**30:.2g} GiB each, budget {args.budget}")
    quarry = Quarry(args.bin, root)
    with quarry.serve("--memory", args.budget) as server, quarry.client(server) as client:
        with MemoryWatch(server.process.pid) as watch:
            answer = client.ask({"drain": args.memory_clients})
    thinned = watch.samples[::max(1, len(watch.samples) // 2000)]  # for the plot
    return {"clients": args.memory_clients, "raw_bytes": 8 * args.edge**3, "budget": args.budget,
            "seconds": answer["end"] - answer["begin"], "wire_bytes": answer["wire_bytes"],
            "before": watch.samples[0][1], "peak": max(used for _, used in watch.samples), "samples": thinned}


# --- main ---


def describe(args, tolerance):
    return {"date": datetime.datetime.now().isoformat(timespec="minutes"), "processor": processor()[0],
            "processors": os.cpu_count(), "load_before": os.getloadavg(), "source": source_version(),
            "edge": args.edge, "patch": PATCH, "codec": args.codec, "repeat": args.repeat,
            "relative": args.relative, "tolerance": tolerance}


def sizes(args, root, folders, error):
    stored = {name: json.loads((folder / "about.json").read_text()) for name, folder in folders.items()}
    report = json.loads((root / "report.json").read_text())
    about = f"C++ client, {args.codec}, patches of {PATCH}^3, {os.cpu_count()} decoding threads"
    return {"quarry": {"about": about, "bytes": report["bytes_out"], "max_error": error}, **stored}


def keep(results, part, path):
    """Writes the figures and the time of this part: other parts may be from an earlier run."""
    machine = results["machine"]
    machine["load_after"] = os.getloadavg()
    results.setdefault("measured", {})[part] = f"{machine['date']}, source {machine['source']}"
    path.write_text(json.dumps(results) + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-serve", help="for everything")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--before", type=Path, metavar="FOLDER",
                        help="programs of an earlier release, which take turns in the parts questions and get")
    parser.add_argument("--python", default="/usr/bin/python3", help="makes the environment")
    parser.add_argument("--edge", type=int, default=512, help="samples along each axis: 64, 128, 256, ...")
    parser.add_argument("--relative", type=float, default=1e-4, help="tolerance, of the range of the field")
    parser.add_argument("--codec", default="interpolate")
    parser.add_argument("--repeat", type=int, default=5, help="turns; medians count")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="other parts keep their figures")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16], help="numbers of clients at once")
    parser.add_argument("--client-reads", type=int, default=256, help="boxes that all clients together read")
    parser.add_argument("--memory-clients", type=int, default=64)
    parser.add_argument("--budget", default="256MiB", help="--memory of the server in the part `memory`")
    args = parser.parse_args()
    if args.edge < 64 or args.edge & (args.edge - 1):
        parser.error(f"--edge {args.edge} is no power of two from 64 on")
    for folder in filter(None, (args.bin, args.before)):
        for program in PROGRAMS:
            if not (folder / program).exists():
                parser.error(f"{folder / program} not found: build the target {program} of the preset benchmarks")
    args.home = args.out.resolve()
    args.out = args.home / f"edge{args.edge}-{args.relative:g}-{args.codec}"
    return args


def main():
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    enter_environment(args.home, args.python, HERE / "requirements.txt", NEEDED)
    field, tolerance = make_field(args)
    ways = store_quarry(args, field, tolerance)
    folders, absent = store_peers(args, field, tolerance)
    path = args.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    questions = make_questions(args)
    quarry, directories = ways[0], [way for way in ways if isinstance(way, Directory)]
    results |= {"machine": describe(args, tolerance), "absent": absent,
                "sizes": sizes(args, quarry.root, folders, check_answers(args, quarry, field)),
                "titles": {key: question["title"] for key, question in questions.items()}}
    for folder in ({way.root for way in ways} | set(folders.values())):
        bring_to_page_cache(folder)
    with Server([args.bin / "raw_stream", "--serve", str(4 * args.edge**3)]) as raw:
        libraries = [Peer(args, name, folder) for name, folder in folders.items()]
        contestants = [*ways, RawStream(args, raw.address), *libraries]
        together = [contestant for contestant in contestants if contestant.name in ("quarry", "grpc", "h5py")]
        measure = {
            "questions": lambda: measure_questions(args, contestants, questions),
            "get": lambda: measure_get(args, ways, questions),
            "coder": lambda: measure_coder(args, directories, field, tolerance),
            "accuracy": lambda: measure_accuracy(args, field, tolerance),
            "clients": lambda: measure_clients(args, together),
            "wire": lambda: measure_wire(quarry, questions),
            "first-picture": lambda: measure_first_picture(args, [quarry, *libraries]),
        }
        for part in args.parts:
            if part in measure:
                results[part] = measure[part]()
                keep(results, part, path)
        for contestant in contestants[len(ways):]:
            contestant.process.close()
    if "memory" in args.parts:
        results["memory"] = measure_memory(args, make_large(args, field, tolerance))
        keep(results, "memory", path)
    subprocess.run([sys.executable, HERE / "report.py", path], check=True)
    say(f"figures in {args.out}: results.json, tables.md and plots")
    return 0


if __name__ == "__main__":
    sys.exit(main())
