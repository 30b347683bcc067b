#!/usr/bin/env python3
"""A field larger than the memory of its conversion: how much memory all ranks of quarry-write take together, and how
fast it is compared with its coder alone, with everything in memory. One run, one machine.

Example: benchmarks/writer/large_field.py --edge 1024 --ranks 4        (4 GiB of float32 in a temporary folder)
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
from coder_alone import coder_alone


def write_field(path, edge):
    """Turbulence-like noise with the spectrum k^(-5/3), made for a quarter of the edge and repeated under a slow
    modulation, so that it is quick to make and no two patches are the same."""
    base = max(edge // 4, 16)
    random = numpy.random.default_rng(1)
    k = numpy.fft.fftfreq(base) * base
    kx, ky, kz = numpy.meshgrid(k, k, k[: base // 2 + 1], indexing="ij")
    magnitude = numpy.sqrt(kx**2 + ky**2 + kz**2)
    magnitude[0, 0, 0] = 1
    spectrum = numpy.fft.rfftn(random.standard_normal((base,) * 3)) * magnitude ** (-11 / 6)
    noise = numpy.fft.irfftn(spectrum, s=(base,) * 3)
    noise = (noise / noise.std()).astype(numpy.float32)
    y, x = numpy.meshgrid(numpy.arange(edge), numpy.arange(edge), indexing="ij")
    repeat = -(-edge // base)
    with open(path, "wb") as out:
        for z in range(edge):
            plane = numpy.tile(noise[z % base], (repeat, repeat))[:edge, :edge]
            wave = 1 + 0.5 * numpy.sin(2 * numpy.pi * (x + 2 * y + 3 * z) / edge * 1.3)
            out.write((plane * wave).astype("<f4").tobytes())


class MemoryWatch(threading.Thread):
    """Peak memory of a process and its descendants: resident pages, shared ones in parts (PSS)."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.stop = pid, 0, threading.Event()

    def run(self):
        while not self.stop.wait(0.5):
            self.peak = max(self.peak, sum(self.pss(pid) for pid in self.tree()))

    def tree(self):
        pids, found = [self.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    pids += map(int, open(f"/proc/{pid}/task/{task}/children").read().split())
            except OSError:
                pass
        return found

    @staticmethod
    def pss(pid):
        try:
            for line in open(f"/proc/{pid}/smaps_rollup"):
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge", type=int, default=1024, help="samples along each axis")
    parser.add_argument("--field", help="an existing field: float32, little-endian")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--dir", help="where to work; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="prints the figures as one JSON object")
    parser.add_argument("options", nargs="*", help="more options of quarry-write, after --")
    arguments = parser.parse_args()
    binaries = pathlib.Path(os.environ.get("QUARRY_BIN", ROOT / "build/release/bin"))
    work = pathlib.Path(tempfile.mkdtemp(prefix="quarry-large-", dir=arguments.dir))
    try:
        field = pathlib.Path(arguments.field) if arguments.field else work / "field.f32"
        if not arguments.field:
            write_field(field, arguments.edge)
        edge = arguments.edge
        cores = min(arguments.ranks, os.cpu_count())
        coder, _ = coder_alone(binaries, field, edge, arguments.tolerance, cores)
        command = ["mpirun", "-n", str(arguments.ranks), str(binaries / "quarry-write"), str(field), "--dims",
                   f"{edge}x{edge}x{edge}", "--type", "float32", "--tolerance", repr(arguments.tolerance),
                   "--field", "field", "--output", str(work / "field.quarry"), "--report", str(work / "report.json"),
                   *arguments.options]
        process = subprocess.Popen(command, stdout=sys.stderr if arguments.json else None)
        watch = MemoryWatch(process.pid)
        watch.start()
        if process.wait() != 0:
            raise SystemExit(process.returncode)
        watch.stop.set()
        report = json.load(open(work / "report.json"))
        per_core = report["bytes_in"] / 1e6 / report["seconds"]["total"] / cores
        if arguments.json:
            print(json.dumps({"coder_mbps": coder, "conversion_mbps": per_core, "ratio": per_core / coder,
                              "memory_bytes": watch.peak}))
            return
        print(f"\nfield          {report['bytes_in'] / 2**30:.2f} GiB, ratio {report['ratio']:.2f}")
        print(f"memory         {watch.peak / 2**30:.2f} GiB in {arguments.ranks} ranks together at the most")
        print(f"coder alone    {coder:.0f} MB/s for each of {cores} cores, in memory")
        print(f"quarry-write   {per_core:.0f} MB/s for each of {cores} cores, reading and writing included")
        print(f"ratio          {per_core / coder:.2f}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
