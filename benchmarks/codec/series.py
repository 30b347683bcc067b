#!/usr/bin/env python3
"""A series in time: steps that refer to others, next to steps one by one and to SZ3 with time as an axis.

The series is a flow of examples/lbm, once dumped every 10 time steps and once every 50. Each contestant stores it at the same
absolute tolerances, and every decoded sample is compared with its original. Quarry codes patches of 64^3 on their own, and any step
can be read; SZ3 gets the series as one array of four axes, of which nothing can be read without the rest.
  alone      quarry-write without --keyframe
  hierarchy  quarry-write --keyframe, all files at once
  chain      the same, one step at a time with --append, as steps come in situ
  sz3-steps  SZ3, a stream for each step
  sz3        SZ3, the series as one array

Writes results.json and tables.md into --output. Builds nothing: build the benchmarks preset first (targets quarry, quarry-write and
lbm). Needs PyPI. Ends with 1 when a contestant broke its promise on any sample.

Example, two minutes: benchmarks/codec/series.py
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from common import ROOT, make_venv, number, say, source_version, table

PACKAGES = ["numpy==2.*", "pysz==1.1.0"]
DIMS = (96, 48, 48)
FIELDS = ("velocity_x", "vorticity")
STEPS = 33
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_ess_singleton_isolated="1", OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")


def run(*command):
    """@returns what the program writes to stdout"""
    done = subprocess.run([str(part) for part in command], env=ENVIRONMENT, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"series.py: {command[0]} ended with {done.returncode}: {done.stderr.decode().strip()[-500:]}")
    return done.stdout


def dump(args, every):
    """The last dumps of a run, as files of each field."""
    folder = args.output / f"every{every}"
    if not folder.exists():
        say(f"simulating, a dump every {every} time steps")
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        run("mpirun", "-n", "1", args.bin / "lbm", "--dims", "x".join(map(str, DIMS)), "--steps", every * (STEPS - 1) + args.begin,
            "--dump-every", every, "--output", part)
        part.rename(folder)
    return {field: sorted(folder.glob(f"*/lbm-{field}-*.raw"))[-STEPS:] for field in FIELDS}


def payload_of(dataset, step):
    fields = json.loads((dataset / "steps" / f"{step:06d}" / "step.json").read_text())["fields"]
    return sum(int(level["bytes"]) for level in fields[0]["levels"])


class Quarry:
    """Datasets of the series."""

    def __init__(self, args, name):
        self._args, self._name = args, name

    def _convert(self, dataset, files, tolerance, *options):
        run(self._args.bin / "quarry-write", *files, "--dims", "x".join(map(str, DIMS)), "--type", "float32", "--field", "f",
            "--tolerance", repr(tolerance), "--output", dataset, *options)

    def _write(self, dataset, files, tolerance):
        keyframe = ("--keyframe", self._args.keyframe)
        if self._name == "alone":
            self._convert(dataset, files, tolerance)
        elif self._name == "hierarchy":
            self._convert(dataset, files, tolerance, *keyframe)
        else:
            self._convert(dataset, files[:1], tolerance, *keyframe)
            for step, file in enumerate(files[1:], 1):
                self._convert(dataset, [file], tolerance, "--append", "--step", step)

    def measure(self, files, series, tolerance):
        import numpy as np

        dataset = self._args.output / f"{self._name}.quarry"
        shutil.rmtree(dataset, ignore_errors=True)
        self._write(dataset, files, tolerance)
        read, error = [], 0.0
        for step in range(STEPS):
            plan = json.loads(run(self._args.bin / "quarry", "plan", dataset, "--step", step, "--json"))
            read.append(plan["bytes"])
            run(self._args.bin / "quarry", "get", dataset, "--step", step, "--output", self._args.output / "step.raw")
            got = np.fromfile(self._args.output / "step.raw", "<f4")
            error = max(error, float(np.abs(got.astype("f8") - series[step].ravel()).max()))
        return {"bytes": sum(payload_of(dataset, step) for step in range(STEPS)), "read": sum(read) / STEPS, "error": error}


class Sz3:
    """Through pysz."""

    def __init__(self, by_step):
        self._by_step = by_step

    def measure(self, _, series, tolerance):
        import numpy as np
        from pysz import sz, szConfig, szErrorBoundMode

        config = szConfig()
        config.errorBoundMode = szErrorBoundMode.ABS
        config.absErrorBound = tolerance
        size, error = 0, 0.0
        for part in series if self._by_step else [series]:
            stream, _ = sz.compress(np.ascontiguousarray(part), config)
            decoded, _ = sz.decompress(stream, part.dtype, part.shape)
            size += len(stream)
            error = max(error, float(np.abs(decoded.astype("f8") - part).max()))
        return {"bytes": size, "read": size / STEPS if self._by_step else size, "error": error}


def contestants(args):
    return {"alone": Quarry(args, "alone"), "hierarchy": Quarry(args, "hierarchy"), "chain": Quarry(args, "chain"),
            "sz3-steps": Sz3(by_step=True), "sz3": Sz3(by_step=False)}


def measure(args):
    import numpy as np

    results = []
    for every in args.every:
        for field, files in dump(args, every).items():
            series = np.stack([np.fromfile(file, "<f4").reshape(DIMS[::-1]) for file in files])
            spread = float(series.max()) - float(series.min())
            for relative in args.tolerances:
                say(f"{field}, every {every}, {relative:g} of the range")
                for name, contestant in contestants(args).items():
                    result = contestant.measure(files, series, relative * spread)
                    results.append({"field": field, "every": every, "tolerance": relative, "contestant": name, "samples": series.nbytes}
                                   | result | {"error_over_tolerance": result.pop("error") / (relative * spread)})
    return results


def report(results):
    """Ratios, and what reading one step takes of its samples."""
    names = list(dict.fromkeys(r["contestant"] for r in results))
    rows, read, gains = [], [], {name: [] for name in names}
    for key in dict.fromkeys((r["field"], r["every"], r["tolerance"]) for r in results):
        found = {r["contestant"]: r for r in results if (r["field"], r["every"], r["tolerance"]) == key}
        head = [f"{key[0]}, every {key[1]}", f"{key[2]:g}"]
        rows.append(head + [number(found[name]["samples"] / found[name]["bytes"], 3) for name in names])
        read.append(head + [f"{100 * found[name]['read'] * STEPS / found[name]['samples']:.3g} %" for name in names])
        for name in names:
            gains[name].append(math.log(found["alone"]["bytes"] / found[name]["bytes"]))
    rows.append(["geometric mean, over alone", ""] + [f"{math.exp(sum(gains[name]) / len(gains[name])):.2f}" for name in names])
    header = ["series", "tolerance, of range"] + names
    return (f"Ratios of {STEPS} steps of {'x'.join(map(str, DIMS))}:\n\n{table(header, rows)}\n"
            f"What reading one step takes in the mean, of its samples:\n\n{table(header, read)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build/benchmark-series", help="folder for everything")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of quarry, quarry-write and lbm")
    parser.add_argument("--every", type=int, nargs="+", default=[10, 50], help="time steps between dumps; default: 10 50")
    parser.add_argument("--begin", type=int, default=400, help="time step of the first; before, the flow settles; default: 400")
    parser.add_argument("--keyframe", type=int, default=16, help="default: 16")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-2, 1e-3, 1e-4], help="of the range of the series")
    parser.add_argument("--python", default="/usr/bin/python3", help="makes the environment")
    args = parser.parse_args()
    args.output, args.bin = args.output.resolve(), args.bin.resolve()
    for program in ("quarry", "quarry-write", "lbm"):
        if not (args.bin / program).exists():
            parser.error(f"{args.bin / program} not found: build it (cmake --preset benchmarks && cmake --build --preset benchmarks "
                         "--target quarry quarry-write lbm)")
    return args


def main():
    args = parse_arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    python, pip = make_venv(args.output / "venv", args.python)
    if Path(sys.prefix) != args.output / "venv":
        subprocess.run(pip + PACKAGES, check=True)
        return subprocess.run([python, __file__, *sys.argv[1:]]).returncode
    results = measure(args)
    (args.output / "results.json").write_text(json.dumps({"source": source_version(), "results": results}, indent=1) + "\n")
    tables = report(results)
    (args.output / "tables.md").write_text(tables)
    print(tables)
    broken = [r for r in results if r["error_over_tolerance"] > 1]
    for r in broken:
        say(f"VIOLATION: {r['contestant']} on {r['field']} every {r['every']} at {r['tolerance']:g}: "
            f"{r['error_over_tolerance']:.9g} of the tolerance")
    return 1 if any(not r["contestant"].startswith("sz3") for r in broken) else 0


if __name__ == "__main__":
    sys.exit(main())
