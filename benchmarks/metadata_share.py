#!/usr/bin/env python3
"""How many bytes of a dataset are patch tables and masks, with the default patch.

Converts rows, planes and volumes at several tolerances, and counts the bytes of the subfiles, by docs/format.md alone. With
--before, the programs of an earlier release convert the same fields. Needs numpy, and the program quarry-write-single of a release build.

Example: benchmarks/metadata_share.py --data ../shared/data --before ../earlier/build/release/bin
"""

import argparse
import json
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from common import ROOT, say, source_version, table

BOUNDS = {"1e-1": ["--relative", "1e-1"], "1e-2": ["--relative", "1e-2"], "1e-3": ["--relative", "1e-3"],
          "1e-4": ["--relative", "1e-4"], "lossless": ["--lossless"]}


def turbulence(*shape, slope=5 / 3, seed=1):
    """Random phases with energy like k^-slope, float32 of this shape (z, y, x)."""
    noise = np.fft.rfftn(np.random.default_rng(seed).standard_normal(shape, dtype="f4"))
    k = np.sqrt(sum(np.meshgrid(*[np.square(np.fft.fftfreq(n) * n) for n in shape[:-1]],
                                np.square(np.fft.rfftfreq(shape[-1]) * shape[-1]), indexing="ij")))
    k.flat[0] = np.inf
    return np.fft.irfftn(noise * k ** (-(slope + len(shape) - 1) / 2), shape, axes=range(len(shape))).astype("f4")


def with_land(samples):
    """NaN where a rough field of few waves is above its median: coasts, and islands."""
    samples = samples.copy()
    height = turbulence(*samples.shape, slope=3, seed=2)
    samples[height > np.quantile(height, 0.6)] = np.nan
    return samples


def fields(data):
    """Name, and samples that are made when they are asked for."""
    yield "row, 10,000", lambda: turbulence(10_000)
    yield "row, 100,000", lambda: turbulence(100_000)
    yield "row, 10,000,000", lambda: turbulence(10_000_000)
    yield "plane, 1440x721", lambda: turbulence(721, 1440)
    yield "plane, 1440x721, land", lambda: with_land(turbulence(721, 1440))
    yield "plane, 1440x721, smooth", lambda: turbulence(721, 1440, slope=3)
    yield "plane, 2048x2048", lambda: turbulence(2048, 2048)
    yield "plane, 2048x2048, land", lambda: with_land(turbulence(2048, 2048))
    yield "volume, 1440x721x10", lambda: turbulence(10, 721, 1440)
    yield "volume, 64^3", lambda: turbulence(64, 64, 64)
    yield "volume, 128^3", lambda: turbulence(128, 128, 128)
    yield "volume, 128^3, land", lambda: with_land(turbulence(128, 128, 128))
    yield "volume, 256^3", lambda: turbulence(256, 256, 256)
    yield "volume, 256^3, land", lambda: with_land(turbulence(256, 256, 256))
    if data:
        yield "wmag91", lambda: np.fromfile(data / "wmag91.f32", "<f4").reshape(91, 91, 91)
        yield "levitus TEMP", lambda: levitus(data / "levitus_climatology.cdf")


def levitus(path):
    import netCDF4
    with netCDF4.Dataset(path) as file:
        return np.ma.filled(file["TEMP"][:].astype("f4"), np.nan)


def count(dataset):
    """Bytes by their kind: payload, rows of the tables, the same two of masks, ends of files, manifests."""
    bytes_of = dict.fromkeys(["payload", "rows", "mask payload", "mask rows", "ends", "manifests"], 0)
    for path in dataset.rglob("*"):
        if path.name.endswith(".json"):
            bytes_of["manifests"] += path.stat().st_size
        elif path.name.endswith(".qsf"):
            content = path.read_bytes()
            prefix = "mask " if "masks" in path.relative_to(dataset).parts else ""
            begin, size = struct.unpack_from("<QQ", content, len(content) - 48)
            header = struct.unpack_from("<I", content, 12)[0]
            bytes_of[prefix + "payload"] += begin - header
            bytes_of[prefix + "rows"] += size
            bytes_of["ends"] += header + 48
    return bytes_of


def convert(program, source, bound, dataset):
    """@returns the patch, and bytes by their kind"""
    subprocess.run([program, source, *bound, "--output", dataset], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    manifest = json.loads((dataset / "dataset.json").read_text())
    patch = manifest["grids"][0]["patch"] if "grids" in manifest else manifest["patch"]
    counted = {"patch": "x".join(str(extent) for extent in patch), **count(dataset)}
    shutil.rmtree(dataset)
    return counted


def whole(counted):
    """Bytes of all subfiles."""
    return sum(counted[kind] for kind in ["payload", "rows", "mask payload", "mask rows", "ends"])


def measure(args, folder):
    """By field: by bound: by program."""
    results = {}
    for name, make in fields(args.data):
        if args.fields and not any(word in name for word in args.fields):
            continue
        say(name)
        source = folder / "f.npy"
        np.save(source, make())
        results[name] = {bound: {when: convert(folder_of / "quarry-write-single", source, options, folder / "f.quarry")
                                 for when, folder_of in [("before", args.before), ("now", args.bin)] if folder_of}
                         for bound, options in BOUNDS.items()}
    return results


def arrows(values):
    return " → ".join(values)


def tables(results):
    """Shares of tables and masks; and the masks' own payload, and bytes of all, at 1e-2."""
    rows = []
    for name, bounds in results.items():
        row = [name, arrows(dict.fromkeys(counted["patch"] for counted in bounds["1e-2"].values()))]
        for found in bounds.values():
            shares = [100 * (counted["rows"] + counted["mask rows"] + counted["mask payload"]) / whole(counted)
                      for counted in found.values()]
            row.append(arrows(f"{share:.1f}" for share in shares))
        row.append(arrows(f"{whole(counted):,}" for counted in bounds["1e-2"].values()))
        now = bounds["1e-2"]["now"]
        row.append(f"{100 * now['mask payload'] / whole(now):.1f}" if now["mask payload"] else "")
        rows.append(row)
    return table(["", "patch", *(f"{bound}, %" for bound in BOUNDS), "bytes at 1e-2", "of these coded masks, %"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with wmag91.f32 and levitus_climatology.cdf (needs netCDF4)")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--before", type=Path, help="programs of an earlier release")
    parser.add_argument("--fields", nargs="+", help="only those whose name contains one of these words")
    parser.add_argument("--json", type=Path, help="writes every figure to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(args, Path(folder))
    print(tables(results))
    if args.json:
        args.json.write_text(json.dumps({"source": source_version(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
