#!/usr/bin/env python3
"""Effect of the patch size: bytes, conversion, and first reads of boxes of several sizes, in turns.

Stores a raw volume of float32 with each size, then reads random boxes whose ends lie on no patch, each from a dataset that was
just opened: nothing is decoded, and files are in the page cache. Needs the package quarry and the programs of a release build.

Example: PYTHONPATH=build/release/python build/python-environment/bin/python benchmarks/python/patch_sizes.py turb.f32 256
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import quarry

sys.path.append(str(Path(__file__).resolve().parent.parent))
from common import ROOT, processor, source_version, table


def convert(args, size):
    """@returns dataset, its bytes, and the seconds of each conversion"""
    dataset, seconds = args.output / f"patch{size}.quarry", []
    for _ in range(args.conversions):
        shutil.rmtree(dataset, ignore_errors=True)
        begin = time.perf_counter()
        subprocess.run([args.bin / "quarry-write", args.volume, "--dims", f"{args.edge}x{args.edge}x{args.edge}", "--type", "float32",
                        "--relative", str(args.relative), "--patch", str(size), "--output", dataset], check=True,
                       stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    subprocess.run([args.bin / "quarry-index", dataset], check=True, stdout=subprocess.DEVNULL)
    return dataset, sum(path.stat().st_size for path in dataset.rglob("*.qsf")), seconds


def first_read(dataset, box, level=0):
    with quarry.open(dataset) as opened:
        field = next(iter(opened.values()))
        field.plan(box=((0, 1), (0, 1), (0, 1)))  # opens the index
        begin = time.perf_counter()
        field.read(box=box, level=level)
        return time.perf_counter() - begin


def some_box(chooser, edge, whole):
    """A cube that lies on no boundary of patches, as (begin, end) along each axis."""
    if edge == whole:
        return ((0, whole),) * 3
    begins = [chooser.randrange(1, whole - edge) | 1 for _ in range(3)]
    return tuple((begin, begin + edge) for begin in begins)


def measure(args):
    stored = {size: convert(args, size) for size in args.patches}
    kinds = [(f"{edge}³", edge, 0, args.turns) for edge in args.boxes] + [
        ("all", args.edge, 0, max(3, args.turns // 5)), ("every eighth sample", args.edge, 3, args.turns)]
    chooser = random.Random(1)
    times = {}
    for name, edge, level, turns in kinds:
        for _ in range(turns):
            box = some_box(chooser, edge, args.edge)
            for size in chooser.sample(args.patches, len(args.patches)):
                times.setdefault((name, size), []).append(first_read(stored[size][0], box, level))
    rows = [["bytes"] + [f"{stored[size][1]:,}" for size in args.patches],
            ["conversion, s"] + [f"{min(stored[size][2]):.2f}" for size in args.patches]]
    for name, *_ in kinds:
        rows.append([f"{name}, ms"] + [f"{1000 * statistics.median(times[name, size]):.2f}" for size in args.patches])
    return rows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("volume", type=Path, help="raw float32, a cube")
    parser.add_argument("edge", type=int, help="samples along each axis")
    parser.add_argument("--relative", type=float, default=1e-4, help="tolerance, of the range")
    parser.add_argument("--patches", type=int, nargs="+", default=[64, 32, 128])
    parser.add_argument("--boxes", type=int, nargs="+", default=[32, 64, 128], help="edges of the boxes")
    parser.add_argument("--turns", type=int, default=40, help="medians of so many reads of each kind")
    parser.add_argument("--conversions", type=int, default=3, help="the fastest counts")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--output", type=Path, default=ROOT / "build/benchmark-patches", help="folder for the datasets")
    return parser.parse_args()


def main():
    args = parse_arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    rows = measure(args)
    print(f"{source_version()}, {processor()[0]}, quarry from {Path(quarry.__file__).parent.name}\n")
    print(table(["patches of"] + [f"{size}³" for size in args.patches], rows))
    (args.output / "results.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
