#!/usr/bin/env python3
"""Makes the volumes for the comparison of coders, once, in a folder of the user's choice.

Every volume is a raw little-endian file, x fastest; fields.json beside them describes all of them. Real data come from
the folder of --data, a simulation from examples/lbm; volumes without their source are left out with a message.
The others are synthetic, from fixed seeds; their last bits may depend on the version of numpy, so fields.json has a hash
of each file.

Example: fields.py build/benchmark/fields --data ../shared/data --lbm build/release/bin/lbm
Needs numpy, scipy and h5py; run.py makes an environment that has them.
"""

import argparse
import hashlib
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SYNTHETIC_SIDE = 256
INTEGER_SIDE = 192
LBM_STEP = 1800


class Missing(Exception):
    """The source of a volume is missing; the text says what and where."""


def wave_numbers(side, dimensions):
    """Modulus of the wave vector for every coefficient of rfftn over `dimensions` axes of `side` samples; 1 at zero."""
    full = np.fft.fftfreq(side, 1.0 / side)
    half = np.fft.rfftfreq(side, 1.0 / side)
    axes = np.meshgrid(*([full] * (dimensions - 1) + [half]), indexing="ij", sparse=True)
    k = np.sqrt(sum(a * a for a in axes))
    k[(0,) * dimensions] = 1.0
    return k


def random_field(seed, side, dimensions, slope, cutoff=None):
    """Gaussian field of mean 0 and variance 1 with the modal amplitude k^slope, nothing above `cutoff`."""
    noise = np.random.default_rng(seed).standard_normal((side,) * dimensions)
    spectrum = np.fft.rfftn(noise)
    k = wave_numbers(side, dimensions)
    spectrum *= k**slope
    spectrum[(0,) * dimensions] = 0.0
    if cutoff is not None:
        spectrum[k > cutoff] = 0.0
    field = np.fft.irfftn(spectrum, s=noise.shape, axes=range(dimensions))
    return field / field.std()


def unit_grid(side):
    """z, y, x in [0, 1), each broadcastable to (side, side, side)."""
    axis = np.arange(side) / side
    return np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)


def turbulence():
    # Energy k^-5/3 over shells of area k^2: amplitude of a mode k^(-5/6 - 1).
    return random_field(1, SYNTHETIC_SIDE, 3, -11.0 / 6.0).astype("<f4")


def front():
    """Temperature of a premixed flame: cold gas, a wrinkled front of about three samples, burnt gas with slow variations."""
    side = SYNTHETIC_SIDE
    z, _, _ = unit_grid(side)
    wrinkles = random_field(2, side, 2, -2.0, cutoff=48)[np.newaxis, :, :]
    overhang = random_field(3, side, 3, -2.2, cutoff=64)
    distance = (z - 0.5) * side - 20.0 * wrinkles - 14.0 * overhang
    burnt = 1800.0 + 40.0 * random_field(4, side, 3, -3.0, cutoff=32)
    return (300.0 + burnt * 0.5 * (1.0 + np.tanh(distance / 1.5))).astype("<f4")


def smooth():
    """Five long waves and three Gaussians."""
    side = SYNTHETIC_SIDE
    z, y, x = unit_grid(side)
    rng = np.random.default_rng(17)
    field = np.zeros((side,) * 3)
    for _ in range(5):
        k = rng.integers(-3, 4, 3)
        field += rng.uniform(0.3, 1.0) * np.sin(2 * np.pi * (k[0] * x + k[1] * y + k[2] * z + rng.uniform()))
    for _ in range(3):
        center, width = rng.uniform(0.2, 0.8, 3), rng.uniform(0.08, 0.2)
        r2 = (x - center[0]) ** 2 + (y - center[1]) ** 2 + (z - center[2]) ** 2
        field += rng.uniform(-2.0, 2.0) * np.exp(-r2 / (2 * width * width))
    return field.astype("<f4")


def ct_u8():
    """Like a scan: soft tissue with smooth edges, empty surroundings, noise of two grey values."""
    side = INTEGER_SIDE
    z, y, x = unit_grid(side)
    tissue = random_field(5, side, 3, -2.2, cutoff=24)
    body = 1.0 / (1.0 + np.exp(((x - 0.5) ** 2 + (y - 0.5) ** 2 + 0.6 * (z - 0.5) ** 2 - 0.16) / 0.004))
    grey = body * (110.0 + 60.0 * np.tanh(2.0 * tissue)) + np.random.default_rng(6).normal(0.0, 2.0, (side,) * 3)
    return np.clip(np.rint(grey), 0, 255).astype("u1")


def noise_u16():
    """12 bits of a camera: a smooth background and noise that grows with it."""
    side = INTEGER_SIDE
    signal = 1500.0 + 400.0 * random_field(7, side, 3, -3.0, cutoff=24)
    noise = np.random.default_rng(8).standard_normal((side,) * 3) * np.sqrt(np.maximum(signal, 1.0)) * 0.5
    return np.clip(np.rint(signal + noise), 0, 4095).astype("<u2")


def labels_i32():
    """Segmentation: 400 cells with wrinkled borders and labels without order, background 0."""
    from scipy.spatial import cKDTree

    side = INTEGER_SIDE
    rng = np.random.default_rng(9)
    points = np.stack(np.meshgrid(*[np.arange(side) / side] * 3, indexing="ij"), axis=-1)
    for axis in range(3):
        points[..., axis] += 0.01 * random_field(10 + axis, side, 3, -2.5, cutoff=32)
    _, nearest = cKDTree(rng.uniform(0.0, 1.0, (400, 3))).query(points.reshape(-1, 3), workers=1)
    names = rng.integers(1, 2_000_000, 400, dtype=np.int32)
    labels = names[nearest].reshape((side,) * 3)
    z, y, x = unit_grid(side)
    return np.where((x - 0.5) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2 > 0.2, 0, labels).astype("<i4")


def fixed_f32():
    """Unpacked int16 with a scale factor: float32 numbers that are multiples of 0.01."""
    values = 15.0 + 9.0 * random_field(13, INTEGER_SIDE, 3, -2.2)
    return (np.clip(np.rint(values * 100.0), -32768, 32767).astype(np.float32) * np.float32(0.01)).astype("<f4")


def wmag91(args):
    return np.fromfile(existing(args.data / "wmag91.f32"), "<f4").reshape(91, 91, 91)


def openpmd_b(args, component):
    import h5py

    with h5py.File(existing(args.data / "example-femm-3d.h5"), "r") as file:
        mesh = file["data/1/meshes/B"]
        labels = [bytes(label).decode() for label in mesh.attrs["axisLabels"]]
        if bytes(mesh.attrs["dataOrder"]) != b"C" or labels != ["x", "y", "z"]:
            raise Missing(f"example-femm-3d.h5 has unexpected axes {labels}")
        # Dimensions are (x, y, z), the last one fastest; here x is fastest.
        return np.ascontiguousarray(mesh[component][...].transpose(2, 1, 0)).astype("<f8")


def levitus(args):
    from scipy.io import netcdf_file

    with netcdf_file(existing(args.data / "levitus_climatology.cdf"), "r", mmap=False) as file:
        return np.ascontiguousarray(file.variables["TEMP"][:]).astype("<f4")


def without_missing(volume, missing):
    """Missing samples replaced smoothly, for coders without masks.

    Starts from the nearest valid samples and then takes the mean of the six neighbours a hundred times over. Without that,
    the edges between the regions of nearest samples cost SZ3 and SPERR half of their ratio.
    """
    from scipy.ndimage import distance_transform_edt

    nearest = distance_transform_edt(missing, return_distances=False, return_indices=True)
    filled = volume[tuple(nearest)].astype(np.float64)
    for _ in range(100):
        p = np.pad(filled, 1, mode="edge")
        mean = (p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, 2:]
                + p[1:-1, 1:-1, :-2]) / 6.0
        filled[missing] = mean[missing]
    return filled.astype(volume.dtype)


def lbm(args, field):
    dump = args.output / "lbm" / f"step{LBM_STEP:06d}"
    files = sorted(dump.glob(f"lbm-{field}-*.raw"))
    if not files:
        run_lbm(args)
        files = sorted(dump.glob(f"lbm-{field}-*.raw"))
    if len(files) != 1:
        raise Missing(f"no dump of {field} in {dump}")
    return np.fromfile(files[0], "<f4").reshape(64, 64, 128)


def run_lbm(args):
    if args.lbm is None or not args.lbm.exists():
        raise Missing("program lbm not found: build it and give its path with --lbm")
    if shutil.which("mpirun") is None:
        raise Missing("mpirun not found")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")
    # Into a folder of its own first, so that a killed run leaves nothing that looks finished.
    with tempfile.TemporaryDirectory(dir=args.output) as scratch:
        command = ["mpirun", "-n", "2", str(args.lbm.resolve()), "--dims", "128x64x64", "--steps", str(LBM_STEP),
                   "--dump-every", str(LBM_STEP), "--output", scratch]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"lbm ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        shutil.copytree(scratch, args.output / "lbm", dirs_exist_ok=True)


def existing(path):
    if not path.exists():
        raise Missing(f"{path} not found")
    return path


ENDINGS = {".f32": "<f4", ".d64": "<f8", ".f64": "<f8"}
# 100x500x500 or 1_26_1800_3600, as the archives of SDRBench and their files are named, slowest axis first.
DIMS = re.compile(r"(?<![0-9])[0-9]+(?:[x_][0-9]+){2,3}(?![0-9])")


def sdrbench_shape(path, root, samples):
    """z, y, x of a volume, from its name or that of a folder above it. Of four axes the slowest two are one."""
    names = [path.name, *(folder.name for folder in path.parents if folder.is_relative_to(root))]
    for name in names:
        for text in DIMS.findall(name):
            shape = [int(number) for number in re.split("[x_]", text)]
            if math.prod(shape) == samples:
                return (math.prod(shape[:-2]), *shape[-2:])
    raise Missing(f"the dimensions of {path}, {samples} samples, are neither in its name nor in that of a folder; name it like "
                  "pressure_100x500x500.f32, slowest axis first")


def sdrbench_volume(path, root):
    volume = np.fromfile(path, ENDINGS[path.suffix])
    return volume.reshape(sdrbench_shape(path, root, volume.size))


def sdrbench_fields(root):
    """Volumes below a folder with unpacked archives of https://sdrbench.github.io, as entries like those of FIELDS."""
    paths = sorted(path for path in root.rglob("*") if path.suffix in ENDINGS and path.is_file())
    return [("_".join(path.relative_to(root).with_suffix("").parts), lambda args, path=path: sdrbench_volume(path, root), "lossy", {})
            for path in paths]


# name, how to make it, its purpose, and further notes
FIELDS = [
    ("wmag91", wmag91, "lossy", {}),
    ("lbm_vorticity", lambda args: lbm(args, "vorticity"), "lossy", {}),
    ("lbm_velocity_x", lambda args: lbm(args, "velocity_x"), "lossy", {}),
    ("openpmd_bx", lambda args: openpmd_b(args, "x"), "lossy", {}),
    ("openpmd_by", lambda args: openpmd_b(args, "y"), "lossy", {}),
    ("openpmd_bz", lambda args: openpmd_b(args, "z"), "lossy", {}),
    ("levitus_temp", levitus, "lossy", {"fill": -1e10}),
    ("turbulence256", lambda args: turbulence(), "lossy", {}),
    ("front256", lambda args: front(), "lossy", {}),
    ("smooth256", lambda args: smooth(), "lossy", {}),
    ("ct_u8", lambda args: ct_u8(), "lossless", {}),
    ("noise_u16", lambda args: noise_u16(), "lossless", {}),
    ("labels_i32", lambda args: labels_i32(), "lossless", {}),
    ("fixed_f32", lambda args: fixed_f32(), "lossless", {}),
]


def write(path, volume):
    """In one step, so that every existing file is complete."""
    part = path.with_suffix(".part")
    volume.tofile(part)
    part.replace(path)


def describe(name, purpose, extra, volume, path):
    fill = extra.get("fill")
    missing = np.zeros(volume.shape, bool) if fill is None else volume == np.asarray(fill, volume.dtype)
    valid = volume[~missing]
    entry = {
        "name": name,
        "purpose": purpose,  # lossy: for all coders; lossless: for those only
        "file": path.name,
        "dims": list(volume.shape[::-1]),
        "type": volume.dtype.name,
        "min": float(valid.min()),
        "max": float(valid.max()),
        "sha256": hashlib.sha256(volume.tobytes()).hexdigest(),
    }
    if fill is not None:
        filled = path.with_name(f"{name}_filled{path.suffix}")
        write(filled, without_missing(volume, missing))
        # A coder without masks needs one in addition: a bit a sample, compressed by lzma.
        mask = lzma.compress(np.packbits(missing).tobytes(), preset=9, format=lzma.FORMAT_ALONE)
        entry.update(fill=fill, filled=filled.name, missing=float(missing.mean()), filled_mask_bytes=len(mask))
    return entry


def make(args, name, build, purpose, extra):
    volume = build(args)
    path = args.output / f"{name}.raw"
    entry = describe(name, purpose, extra, volume, path)
    write(path, volume)
    return entry


def cached(args, known, name):
    entry = known.get(name)
    if entry is None:
        return None
    needed = [entry["file"]] + ([entry["filled"]] if "filled" in entry else [])
    return entry if all((args.output / file).exists() for file in needed) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="folder for the volumes and fields.json; existing ones are kept")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the real data")
    parser.add_argument("--lbm", type=Path, help="program of examples/lbm")
    parser.add_argument("--sdrbench", type=Path, metavar="FOLDER", help="also the volumes of SDRBench that are unpacked below it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these volumes only")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    if args.sdrbench and not args.sdrbench.is_dir():
        parser.error(f"there is no folder {args.sdrbench} for --sdrbench")
    fields = FIELDS + (sdrbench_fields(args.sdrbench) if args.sdrbench else [])
    unknown = set(args.only or []) - {name for name, *_ in fields}
    if unknown:
        parser.error(f"unknown volumes {sorted(unknown)}; there are {[name for name, *_ in fields]}")

    listing = args.output / "fields.json"
    known = {entry["name"]: entry for entry in json.loads(listing.read_text())} if listing.exists() else {}
    for name, build, purpose, extra in fields:
        if (args.only and name not in args.only) or cached(args, known, name):
            continue
        try:
            known[name] = make(args, name, build, purpose, extra)
        except (Missing, ImportError) as error:
            print(f"fields.py: {name} is left out: {error}", file=sys.stderr)
            continue
        print(f"fields.py: made {name}", file=sys.stderr)
        ordered = [known[n] for n, *_ in fields if n in known]
        listing.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main()
