#!/usr/bin/env python3
"""Measures coders that exist as sources only: QoZ 2.0, the branch `progressive` of SZ3, and ProDM (MDR), on the volumes
that fields.py made.

Each gets whole volumes of float32 with three axes, at the same absolute tolerances as Quarry's coders. Missing samples
are replaced smoothly first, as for all peers.
  qoz               the best level of its tuning (-q 4).
  sz3-progressive   test/sz_pinterp_mquant.cpp: cubic interpolation, bit planes in the three finest levels. It retrieves in
                    steps of its own choice.
  prodm             test/test_mdr_refactor.cpp and test_mdr_reconstructor.cpp: 3 levels, 32 bit planes.
The two progressive coders store one archive: sz3-progressive for the finest tolerance, prodm for all. What they retrieve
for a tolerance is the first step whose largest error, as their own programs measure it, is within it.

Sources lie in --sources: folders QoZ, SZ3, ProDM and MGARDx. What is not there is fetched from GitHub, at the commits
below. Needs git, a C++ compiler, and the headers of zstd (Debian: libzstd-dev). A coder that cannot be fetched or does not
build is left out with a message.

Writes one JSON object per line:
  qoz:     volume, coder, tolerance (of the range), bytes, ratio, bits_per_sample, max_error, psnr
  others:  volume, coder, ladder: [{tolerance, bytes (retrieved for it and those before), max_error}]

Example: source_peers.py build/benchmark/fields --sources build/benchmark/sources --ladder 1e-2 1e-4 --only wmag91
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import compare, load

SOURCES = {
    "QoZ": ("https://github.com/szcompressor/QoZ.git", "a506cb0"),
    "SZ3": ("https://github.com/szcompressor/SZ3.git", "66c0cba"),  # its branch progressive
    "ProDM": ("https://github.com/lxAltria/ProDM.git", "015a44f"),
    "MGARDx": ("https://github.com/lxAltria/MGARDx.git", "7f94507"),
}
# Program: its source, and include folders.
PROGRAMS = {
    "qoz": ("QoZ/test/qoz.cpp", ["QoZ/include"]),
    "sz_pinterp_mquant": ("SZ3/test/sz_pinterp_mquant.cpp", ["SZ3/include"]),
    "test_mdr_refactor": ("ProDM/test/test_mdr_refactor.cpp", ["ProDM/include", "MGARDx/include"]),
    "test_mdr_reconstructor": ("ProDM/test/test_mdr_reconstructor.cpp", ["ProDM/include", "MGARDx/include"]),
}
SECONDS = 300  # sz_pinterp_mquant may go on for ever


def run(command, folder):
    """Runs a program and returns its output; RuntimeError with its first error, or last line, if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{Path(str(command[0])).name}: not done after {SECONDS} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"ended with {done.returncode}"]
        said = next((line for line in lines if "error:" in line), lines[-1])
        raise RuntimeError(f"{Path(str(command[0])).name}: {said}")
    return done.stdout


def fetch(name, sources):
    folder = sources / name
    if folder.exists():
        return
    address, commit = SOURCES[name]
    sources.mkdir(parents=True, exist_ok=True)
    run(["git", "clone", "--quiet", address, folder], sources)
    run(["git", "-c", "advice.detachedHead=false", "checkout", "--quiet", commit], folder)


def build(program, sources):
    """The program, made if it does not exist."""
    source, includes = PROGRAMS[program]
    out = sources / "bin" / program
    if out.exists():
        return out
    for folder in {Path(path).parts[0] for path in [source, *includes]}:
        fetch(folder, sources)
    out.parent.mkdir(exist_ok=True)
    make_version_header(sources)
    # QoZ uses std::array without its header.
    run(["c++", "-std=c++17", "-O3", "-march=native", "-w", "-fopenmp", "-include", "array",
         *(f"-I{sources / path}" for path in includes), sources / source, "-lzstd", "-o", out], sources)
    return out


def make_version_header(sources):
    """Writes the header with versions that QoZ's own build writes."""
    header = sources / "QoZ/include/QoZ/version.hpp"
    if header.parent.exists() and not header.exists():
        names = {"VER": '"2.0.0.0"', "VER_MAJOR": 2, "VER_MINOR": 0, "VER_PATCH": 0, "VER_TWEAK": 0, "NAME": '"QoZ"'}
        header.write_text("".join(f"#define QoZ_{name} {value}\n" for name, value in names.items()))


class Volume:
    """A volume in a file, as these programs read it."""

    def __init__(self, entry, samples, valid, folder):
        self.entry, self.samples, self.valid, self.folder = entry, samples, valid, folder
        self.range = entry["max"] - entry["min"]
        self.file = folder / "samples.f32"
        samples.tofile(self.file)
        self.slowest_first = [str(n) for n in samples.shape]
        self.mask_bytes = entry.get("filled_mask_bytes", 0)


class QoZ:
    name = "qoz"

    def __init__(self, sources):
        self._program = build("qoz", sources)

    def measure(self, volume, tolerances):
        import numpy as np

        for relative in tolerances:
            tolerance = relative * volume.range
            stream, out = volume.folder / "qoz.stream", volume.folder / "qoz.out"
            run([self._program, "-f", "-i", volume.file, "-z", stream, "-o", out, "-3", *reversed(volume.slowest_first),
                 "-M", "ABS", repr(tolerance), "-q", "4"], volume.folder)
            size = stream.stat().st_size + volume.mask_bytes
            decoded = np.fromfile(out, "<f4").reshape(volume.samples.shape)
            max_error, rmse = compare(volume.samples, decoded, volume.valid)
            yield {"tolerance": relative, "bytes": size, "ratio": volume.samples.nbytes / size,
                   "bits_per_sample": 8.0 * size / volume.samples.size, "max_error": max_error,
                   "error_over_tolerance": max_error / tolerance, "filled_before": volume.valid is not None,
                   "psnr": 20.0 * math.log10(volume.range / rmse) if rmse > 0 else None}


def ladder_of(steps, tolerances, volume):
    """For each tolerance the first step within it; errors are printed with three digits."""
    ladder = []
    for relative in tolerances:
        within = [step for step in steps if step[1] <= relative * volume.range * 1.005]
        if not within:
            raise RuntimeError(f"no step is within {relative:g}; the last one is within {steps[-1][1] / volume.range:g}")
        ladder.append({"tolerance": relative, "bytes": within[0][0] + volume.mask_bytes, "max_error": within[0][1]})
    return ladder


class Sz3Progressive:
    name = "sz3-progressive"

    def __init__(self, sources):
        self._program = build("sz_pinterp_mquant", sources)

    def measure(self, volume, tolerances):
        cubic, axes_order, progressive_levels, block = 1, 0, 3, 128
        printed = run([self._program, volume.file, "-3", *volume.slowest_first, repr(min(tolerances) * volume.range), cubic,
                       axes_order, progressive_levels, block], volume.folder)
        retrieved = [int(size) for size in re.findall(r"^retrieved = .*% (\d+)$", printed, re.MULTILINE)]
        errors = [float(error) for error in re.findall(r"Rate=.*ABS = (\S+) ,", printed)]
        # The first sizes are those of what comes before the bit planes.
        steps = list(zip(retrieved[len(retrieved) - len(errors):], errors, strict=True))
        yield {"ladder": ladder_of(steps, tolerances, volume)}


class ProDM:
    name = "prodm"

    def __init__(self, sources):
        self._refactor = build("test_mdr_refactor", sources)
        self._reconstruct = build("test_mdr_reconstructor", sources)

    def measure(self, volume, tolerances):
        levels, bit_planes = 3, 32
        (volume.folder / "refactored_data").mkdir(exist_ok=True)
        run([self._refactor, volume.file, levels, bit_planes, len(volume.slowest_first), *volume.slowest_first], volume.folder)
        # Its estimate of the error is far above the error, so it is asked for less, too.
        asked = [relative * volume.range * 2.0 ** k for relative in sorted(tolerances, reverse=True) for k in range(5, -1, -1)]
        printed = run([self._reconstruct, volume.file, len(asked), *asked], volume.folder)
        retrieved = [int(size) for size in re.findall(r"Retrieval size = (\d+)", printed)]
        errors = [float(error) for error in re.findall(r"Max error = ([^,]+),", printed)]
        yield {"ladder": ladder_of(list(zip(retrieved, errors, strict=True)), tolerances, volume)}


PEERS = {kind.name: kind for kind in (QoZ, Sz3Progressive, ProDM)}


def open_peers(names, sources):
    peers = []
    for name in names:
        try:
            peers.append(PEERS[name](sources))
        except (OSError, RuntimeError) as error:
            print(f"source_peers.py: {name} is left out: {error}", file=sys.stderr)
    return peers


def measured(entry, args, peers):
    if entry["purpose"] != "lossy" or entry["type"] != "float32" or len(entry["dims"]) != 3:
        return
    samples, valid = load(args.fields, entry, lossless=False)
    with tempfile.TemporaryDirectory() as folder:
        volume = Volume(entry, samples, valid, Path(folder))
        for peer in peers:
            tolerances = args.tolerances if isinstance(peer, QoZ) else args.ladder
            try:
                for result in peer.measure(volume, tolerances):
                    yield {"program": "source_peers", "volume": entry["name"], "coder": peer.name} | result
            except (OSError, RuntimeError, ValueError) as error:
                print(f"source_peers.py: {peer.name} failed on {entry['name']}: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields", type=Path, help="folder that fields.py filled")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the sources and their programs")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3, 1e-4, 1e-5],
                        help="of qoz, relative to the range")
    parser.add_argument("--ladder", type=float, nargs="+", default=[1e-2, 1e-4], help="of the progressive coders, from the largest")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these volumes only")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    args = parser.parse_args()
    args.sources = args.sources.resolve()
    peers = open_peers(args.peers, args.sources)
    for entry in json.loads((args.fields / "fields.json").read_text()):
        if args.only and entry["name"] not in args.only:
            continue
        for result in measured(entry, args, peers):
            print(json.dumps(result), flush=True)
    return 0 if peers else 3


if __name__ == "__main__":
    sys.exit(main())
