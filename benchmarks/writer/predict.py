#!/usr/bin/python3
"""Compares quarry-plan's prediction with quarry-write's own seconds, on this machine.

Calibrates, makes a field of turbulence, converts it on several numbers of ranks, and predicts each run with
the same options and the ratio that it reached. Prints a table and marks rows beyond the limit. Ends with 1
when there is one.

Run it on a quiet machine: calibration measures what the machine can do, so other programs make the measured
seconds longer than the predicted ones.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
PHASES = ("read", "exchange", "encode", "assign", "transfer", "write")
# As in scripts/environment.sh: more ranks than processors, and waiting ranks that yield.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def call(*command):
    """Standard output of a program that succeeds."""
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"predict.py: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def turbulence(edge):
    """Random phases under a k^-5/3 energy spectrum, [z, y, x], float32."""
    k = np.fft.fftfreq(edge) * edge
    wavenumber = np.sqrt(k[:, None, None] ** 2 + k[None, :, None] ** 2 + (np.fft.rfftfreq(edge) * edge) ** 2)
    wavenumber[0, 0, 0] = 1
    noise = np.random.default_rng(1).standard_normal((edge, edge, edge), dtype=np.float32)
    spectrum = np.fft.rfftn(noise) * wavenumber ** (-11 / 6)
    spectrum[0, 0, 0] = 0
    field = np.fft.irfftn(spectrum, s=(edge, edge, edge)).astype(np.float32)
    return field / field.std()


def measure(options, source, dims, ranks, folder):
    """The report of the run whose total is the median, with its phases."""
    reports = []
    for _ in range(options.repeat):
        output = folder / "out.quarry"
        shutil.rmtree(output, ignore_errors=True)
        report = folder / "report.json"
        call("mpirun", "-n", ranks, options.bin / "quarry-write", source, "--dims", dims, "--type", "float32",
             "--relative", options.relative, "--patch", options.patch, "--output", output, "--report", report)
        reports.append(json.loads(report.read_text()))
    median = statistics.median_low(report["seconds"]["total"] for report in reports)
    return next(report for report in reports if report["seconds"]["total"] == median)


def predict(options, machine, dims, ranks, ratio):
    """The prediction of quarry-plan for that run."""
    # mpirun binds few ranks to a core each and leaves many alone; what counts is what a rank may use.
    cores = int(call("mpirun", "-n", ranks, "nproc").split()[0])
    return json.loads(call(options.bin / "quarry-plan", "predict", "--dims", dims, "--type", "float32",
                           "--ranks", ranks, "--patch", options.patch, "--machine", machine, "--ratio", ratio,
                           "--set", f"cores_per_rank={cores}", "--json"))


def calibrate(options, source, dims, folder):
    """Path of the machine's constants: those given, or measured on the field itself."""
    if options.machine:
        return options.machine
    machine = folder / "machine.json"
    call(options.bin / "quarry-plan", "calibrate", "--output", machine, "--dir", folder, "--sample", source,
         "--dims", dims, "--relative", options.relative)
    return machine


def print_row(name, measured, predicted, limit):
    """One number of ranks. Returns whether it is within the limit."""
    deviation = predicted["total"] / measured["total"] - 1
    good = abs(deviation) <= limit
    print(f"{name:>5}  {measured['total']:>9.3f}  {predicted['total']:>9.3f}  {100 * deviation:>+8.1f} %"
          f"{'   ' if good else ' !!'} " +
          "  ".join(f"{phase} {measured.get(phase, 0):.3f}/{predicted[phase]:.3f}" for phase in PHASES),
          flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog="Example: benchmarks/writer/predict.py --repeat 5 --dir /scratch")
    parser.add_argument("--bin", type=Path, default=REPOSITORY / "build/release/bin",
                        help="where the executables are")
    parser.add_argument("--dir", type=Path, help="where to write; default: a temporary directory")
    parser.add_argument("--machine", type=Path, help="constants to use; default: calibrate first")
    parser.add_argument("--edge", type=int, default=256, help="samples of the cube along an axis; default: 256")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--patch", default="64")
    parser.add_argument("--relative", default="1e-4", help="tolerance over value range; default: 1e-4")
    parser.add_argument("--repeat", type=int, default=3, help="runs; the median counts; default: 3")
    parser.add_argument("--limit", type=float, default=0.3, help="deviation of the total to mark; default: 0.3")
    options = parser.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="quarry-predict-", dir=options.dir))
    try:
        source = folder / "turbulence.f32"
        turbulence(options.edge).tofile(source)
        dims = "x".join([str(options.edge)] * 3)
        machine = calibrate(options, source, dims, folder)
        print(f"{dims} float32, {options.patch} samples a patch, relative tolerance {options.relative}; "
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; seconds, phases measured/predicted")
        print(f"{'ranks':>5}  {'measured':>9}  {'predicted':>9}  {'deviation':>10}")
        good = []
        for ranks in options.ranks:
            report = measure(options, source, dims, ranks, folder)
            plan = predict(options, machine, dims, ranks, report["ratio"])
            good.append(print_row(ranks, report["seconds"], plan["seconds"], options.limit))
        print(f"load at the end {os.getloadavg()[0]:.1f}; "
              f"{sum(good)} of {len(good)} within {100 * options.limit:.0f} %")
        return 0 if all(good) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
