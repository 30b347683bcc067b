#!/usr/bin/env python3
"""How exactly, and how fast, quarry-spectrum computes spectra.

    benchmarks/spectrum/run.py                   # both parts, the tables of benchmarks/README.md
    benchmarks/spectrum/run.py --part accuracy   # up to which wave number tolerances and levels keep a spectrum
    benchmarks/spectrum/run.py --part speed      # beside numpy and pyFFTW; the constant A of the FFT model

Needs numpy, pyfftw (pip install -r benchmarks/spectrum/requirements.txt) and mpirun; builds nothing:
scripts/build.sh first. --heffte PROGRAM adds the program that heFFTe's own build calls benchmarks/speed3d_r2c.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common

BIN = common.ROOT / "build" / "release" / "bin"
RELATIVE = (1e-2, 1e-3, 1e-4, 1e-5)
REPEAT = 5


def kolmogorov(n, seed=1):
    """A real n^3 field, [z, y, x], whose spectrum is k^(-5/3) for 1 <= k <= n / 2."""
    transform = np.fft.fftn(np.random.default_rng(seed).standard_normal((n, n, n)))
    waves = np.fft.fftfreq(n, 1 / n)
    k = np.rint(np.sqrt(waves[:, None, None] ** 2 + waves[None, :, None] ** 2 + waves[None, None, :] ** 2)).astype(int)
    energy = 0.5 * np.bincount(k.ravel(), (np.abs(transform / n**3) ** 2).ravel())
    wanted = np.zeros_like(energy)
    wanted[1 : n // 2 + 1] = np.arange(1, n // 2 + 1) ** (-5 / 3)
    return np.fft.ifftn(transform * np.sqrt(wanted / energy)[k]).real.astype("<f4")


def write(field, folder, *quality):
    """A dataset of the field; its path."""
    n = field.shape[0]
    source, dataset = folder / "f.f32", folder / f"f{''.join(quality)}.quarry"
    field.tofile(source)
    subprocess.run([BIN / "quarry-write", source, "--dims", f"{n}x{n}x{n}", "--type", "float32", "--field", "f", *quality,
                    "--output", dataset], check=True, capture_output=True)
    return dataset


def spectrum(dataset, ranks, *options):
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), BIN / "quarry-spectrum", dataset, "--field", "f", *options,
               "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def kept(answer, reference):
    """The largest k up to which all shells have the energy of the reference within 1 %."""
    last = 0
    for k in range(1, min(answer["last_whole_shell"], reference["last_whole_shell"]) + 1):
        if abs(answer["energy"][k] / reference["energy"][k] - 1) > 0.01:
            break
        last = k
    return last


def accuracy(n, folder):
    field = kolmogorov(n)
    reference = spectrum(write(field, folder, "--lossless"), 2)
    rows = []
    for relative in RELATIVE:
        dataset = write(field, folder, "--relative", f"{relative:g}")
        info = json.loads(subprocess.run([BIN / "quarry", "info", dataset, "--json"], check=True, capture_output=True).stdout)
        by_level = [kept(spectrum(dataset, 2, "--level", str(level)), reference) for level in range(4)]
        rows.append([f"{relative:g}", f"{info['fields'][0]['ratio']:.1f}", *map(str, by_level)])
    return (f"{n}^3 samples, a spectrum of k^(-5/3) up to k = {n // 2}; the largest k up to which every shell is within 1 %.\n\n"
            + common.table(["tolerance, of the range", "ratio", "level 0", "level 1", "level 2", "level 3"], rows))


def median_seconds(work):
    times = []
    for _ in range(REPEAT):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def shells_of(n):
    waves = np.fft.fftfreq(n, 1 / n)
    half = np.fft.rfftfreq(n, 1 / n)
    k = np.rint(np.sqrt(waves[:, None, None] ** 2 + waves[None, :, None] ** 2 + half[None, None, :] ** 2)).astype(np.int64)
    weight = np.where((half == 0) | (half == n / 2), 0.5, 1.0)
    return k.ravel(), weight


def energy_of(transform, n, k, weight):
    return np.bincount(k, (np.abs(transform / n**3) ** 2 * weight).ravel())


def library_rows(field):
    """Seconds of the transform and of the shells, by what a script in Python would call, from an array in memory."""
    import pyfftw

    n = field.shape[0]
    k, weight = shells_of(n)
    samples = field.astype(np.float64)
    rows = []
    for name, transform in (("numpy", np.fft.rfftn),
                            ("pyFFTW, 2 threads", lambda u: pyfftw.interfaces.numpy_fft.rfftn(
                                u, threads=2, planner_effort="FFTW_ESTIMATE"))):
        done = transform(samples)
        rows.append((name, median_seconds(lambda t=transform: t(samples)),
                     median_seconds(lambda d=done: energy_of(d, n, k, weight))))
    return rows


def heffte_seconds(program, n, ranks):
    """Seconds of one transform, the mean of forward and backward ones."""
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), program, "fftw", "double", str(n), str(n), str(n),
                           "-no-reorder"], check=True, capture_output=True, text=True)
    return float(re.search(r"Time per run:\s*([0-9.e+-]+)", done.stdout)[1])


def memory_constant(seconds, n, ranks, machine):
    """A of the FFT model, equation 2 of Czechowski et al., from the time of the lines: three passes over the
    n^2 (n / 2 + 1) words of 16 bytes of a real field, each read and written A / 2 times."""
    words = 3 * n * n * (n // 2 + 1)
    del ranks  # all on one node, which shares the bandwidth
    return seconds * machine["memory_bandwidth_bytes_per_s"] / (16 * words)


def speed(n, folder, heffte):
    field = kolmogorov(n)
    dataset = write(field, folder, "--relative", "1e-4")
    machine_file = folder / "machine.json"
    subprocess.run([BIN / "quarry-plan", "calibrate", "--output", machine_file, "--dir", folder], check=True,
                   capture_output=True)
    machine = json.loads(machine_file.read_text())
    rows = []
    for name, transform, shells in library_rows(field):
        rows.append([name, "", f"{transform:.3f}", f"{shells:.3f}"])
    for ranks, grid in ((1, "1x1"), (2, "1x2"), (2, "2x1")):
        answers = [spectrum(dataset, ranks, "--grid", grid)["seconds"] for _ in range(REPEAT)]
        median = {key: statistics.median(a[key] for a in answers) for key in answers[0]}
        transform = median["lines"] + median["transposes"]
        constant = memory_constant(median["lines"], n, ranks, machine)
        rows.append([f"quarry-spectrum, {grid} ranks", f"{median['read']:.3f}",
                     f"{transform:.3f} (lines {median['lines']:.3f}, transposes {median['transposes']:.3f}; A = {constant:.1f})",
                     f"{median['energy']:.3f}"])
    if heffte:
        for ranks in (1, 2):
            seconds = statistics.median(heffte_seconds(heffte, n, ranks) for _ in range(REPEAT))
            rows.append([f"heFFTe, {ranks} ranks", "", f"{seconds:.3f}", ""])
    return (f"{n}^3 samples, {common.processor()[0]}, memory {machine['memory_bandwidth_bytes_per_s'] / 1e9:.1f} GB/s; "
            f"medians of {REPEAT}, seconds.\n\n" + common.table(["", "read, decode", "transform", "shells"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("accuracy", "speed"))
    parser.add_argument("--size", type=int, default=256, help="samples along an axis; default: 256")
    parser.add_argument("--heffte", type=Path, help="heFFTe's benchmarks/speed3d_r2c, built with FFTW")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quarry-benchmark-") as folder:
        if options.part != "speed":
            print(accuracy(options.size, Path(folder)))
        if options.part != "accuracy":
            print(speed(options.size, Path(folder), options.heffte))


if __name__ == "__main__":
    main()
