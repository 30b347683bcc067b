#!/usr/bin/env python3
"""Compares Quarry's coders with each other and with SZ3, SPERR, zfp, zstd, pcodec, fpzip, blosc2, QoZ and ProDM: makes the
volumes, measures, writes the tables.

All output goes to one folder (default build/benchmark): venv/ with the Python packages, fields/ with the volumes,
results.json with every figure, tables.md, and rate-distortion.png. Builds nothing: build the benchmarks preset first
(targets codec_bench and lbm). Needs PyPI for the packages, and GitHub for the sources of source_peers.py; a peer that does
not install is left out with a message.
Measured programs run one after the other, pinned to one processor.

Ends with 1 when a coder broke its promise on any sample.

Example, a first look in a minute:  benchmarks/codec/run.py --quick
Example, the figures of the README: benchmarks/codec/run.py --repeats 5 --patches 64 32 128
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from common import ROOT, make_venv, processor, say, source_version

BASE_PACKAGES = ["numpy==2.*", "scipy==1.*", "h5py==3.*", "matplotlib==3.*"]
PEER_PACKAGES = ["hdf5plugin==7.1.0", "pysz==1.1.0", "pcodec==1.1.0", "fpzip==1.2.5", "blosc2==4.14.1"]
# SZ3 3.3.2, used for earlier figures. Outside the environment, since pysz 1.1.0 has the same module name.
OLDER_SZ3 = "pysz==1.0.3"
QUICK_VOLUME = "wmag91"
ISA_FLAGS = {"scalar": set(), "avx2": {"avx2"}, "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq"}}


def make_environment(args):
    """The venv's Python, with packages in it."""
    python, pip = make_venv(args.output / "venv", args.python)
    subprocess.run(pip + BASE_PACKAGES, check=True)
    for package in PEER_PACKAGES:
        if subprocess.run(pip + ["--only-binary", ":all:", package]).returncode != 0:
            say(f"{package} does not install: the peers in it are left out")
    older = args.output / OLDER_SZ3
    if not older.exists() and subprocess.run(pip + ["--only-binary", ":all:", "--no-deps", "--target", str(older),
                                                    OLDER_SZ3]).returncode != 0:
        say(f"{OLDER_SZ3} does not install: SZ3 3.3.2 is left out")
    return str(python)


def pinned(args):
    """For subprocess: pins the child to the processor of all measurements."""
    return lambda: os.sched_setaffinity(0, {args.cpu})


def measure(command, args, environment=None):
    """Runs a program that prints JSON lines. Returns them and its exit status."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=pinned(args), env=environment)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def make_fields(python, args):
    fields = args.output / "fields"
    command = [python, str(HERE / "fields.py"), str(fields), "--data", str(args.data), "--lbm", str(args.lbm)]
    command += ["--sdrbench", str(args.sdrbench)] if args.sdrbench else []
    subprocess.run(command + (["--only"] + args.only if args.only else []), check=True)
    entries = json.loads((fields / "fields.json").read_text()) if (fields / "fields.json").exists() else []
    entries = [entry for entry in entries if not args.only or entry["name"] in args.only]
    if not entries:
        sys.exit("run.py: there is no volume to measure")
    return entries


def run_peers(python, args):
    fields = args.output / "fields"
    command = [python, str(HERE / "peers.py"), str(fields), "--repeats", str(args.repeats), "--tolerances"]
    command += [str(tolerance) for tolerance in args.tolerances]
    command += ["--only"] + args.only if args.only else []
    say("peers on whole volumes")
    results, _ = measure(command, args)
    older = args.output / OLDER_SZ3
    if older.exists():
        results += measure(command + ["--peers", "sz3"], args, dict(os.environ, PYTHONPATH=str(older)))[0]
    return results


def run_source_peers(python, args):
    """QoZ, and progressive coders at the steps of the first ladder without an exact layer."""
    ladders = [ladder for ladder in (text.split(",") for text in args.ladders) if float(ladder[-1]) > 0]
    command = [python, str(HERE / "source_peers.py"), str(args.output / "fields"), "--sources", str(args.sources)]
    command += ["--tolerances"] + [str(tolerance) for tolerance in args.tolerances]
    command += ["--ladder"] + ladders[0] if ladders else []
    command += ["--only"] + args.only if args.only else []
    say("peers from sources")
    return measure(command, args)[0]


def codec_command(entry, args):
    fields = args.output / "fields"
    command = [str(args.binary), str(fields / entry["file"]), "--name", entry["name"], "--type", entry["type"],
               "--dims", "x".join(str(n) for n in entry["dims"]), "--repeats", str(args.repeats)]
    if "fill" in entry:
        command += ["--fill", repr(entry["fill"]), "--filled", str(fields / entry["filled"]),
                    "--filled-mask-bytes", str(entry["filled_mask_bytes"])]
    return command


def run_coders(entries, args):
    """Every coder with the best available instructions, at every size of patch."""
    results, violated = [], False
    tolerances = ",".join(repr(tolerance) for tolerance in args.tolerances)
    for entry in entries:
        say(f"coders on {entry['name']}")
        command = codec_command(entry, args) + ["--tolerances", tolerances]
        command += ["--patches", ",".join(str(patch) for patch in args.patches)]
        if entry["purpose"] == "lossless":
            # Without lossy coders, even for types that they take.
            command += ["--coders", "lossless,zfp-reversible,zstd-1,zstd-3,shuffle-zstd-1,shuffle-zstd-3"]
        lines, status = measure(command, args)
        if status not in (0, 1):
            sys.exit(f"run.py: codec_bench ended with {status} on {entry['name']}")
        results += lines
        violated = violated or status == 1
    return results, violated


def run_instruction_sets(entries, measured, args):
    """`interpolate` once for each instruction set of this machine, zfp in turn with it."""
    if not any(result["coder"] == "interpolate" for result in measured):
        say("no figures by instruction set: this version has no coder interpolate")
        return [], False
    results, violated = [], False
    tolerances = ",".join(repr(tolerance) for tolerance in args.tolerances)
    for isa in args.isa:
        say(f"interpolate with {isa}")
        for entry in entries:
            if entry["purpose"] == "lossless":
                continue
            lines, status = measure(codec_command(entry, args) + [
                "--tolerances", tolerances, "--patches", str(args.patches[0]), "--isa", isa, "--coders", "interpolate,zfp"], args)
            if status not in (0, 1):
                sys.exit(f"run.py: codec_bench --isa {isa} ended with {status} on {entry['name']}")
            results += lines
            violated = violated or status == 1
    return results, violated


def run_ladders(entries, args):
    """`interpolate` in layers of accuracy, and each tolerance alone."""
    results, violated = [], False
    for entry in entries:
        if entry["purpose"] == "lossless":
            continue
        say(f"layers of accuracy on {entry['name']}")
        for ladder in args.ladders:
            lines, status = measure(codec_command(entry, args) + ["--patches", str(args.patches[0]), "--ladder", ladder], args)
            if status not in (0, 1):
                sys.exit(f"run.py: codec_bench --ladder {ladder} ended with {status} on {entry['name']}")
            results += lines
            violated = violated or status == 1
    return results, violated


def describe_machine(args):
    return {
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
        "processor": processor()[0],
        "processors": os.cpu_count(),
        "pinned_to": args.cpu,
        "load_before": os.getloadavg(),
        "source": source_version(),
        "repeats": args.repeats,
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build/benchmark", help="folder for everything")
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/codec_bench")
    parser.add_argument("--lbm", type=Path, default=ROOT / "build/release/bin/lbm", help="program of examples/lbm")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with the real data")
    parser.add_argument("--sdrbench", type=Path, metavar="FOLDER",
                        help="also the volumes of SDRBench that are unpacked below it; their dimensions are taken from their names")
    parser.add_argument("--python", default="/usr/bin/python3", help="makes the environment")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_VOLUME} only, at 1e-2 and 1e-3")
    parser.add_argument("--only", nargs="+", metavar="VOLUME")
    parser.add_argument("--tolerances", type=float, nargs="+", help="of the range; default 1e-1 to 1e-5")
    parser.add_argument("--patches", type=int, nargs="+", default=[64], help="the tables show the first")
    parser.add_argument("--ladders", nargs="+", metavar="TOLERANCES", default=["1e-2,1e-4", "1e-2,1e-4,0"],
                        help="layers of accuracy, of the range; 0 the last: bit by bit; default: %(default)s")
    parser.add_argument("--isa", nargs="+", choices=list(ISA_FLAGS), help="default: those of this machine")
    parser.add_argument("--repeats", type=int, default=3, help="the best time of each patch counts")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="where measured programs run")
    parser.add_argument("--no-peers", action="store_true", help="without the coders that get whole volumes")
    parser.add_argument("--speed", action="store_true",
                        help="interpolate and zfp alone, by instruction set; writes no tables")
    parser.add_argument("--sources", type=Path, metavar="FOLDER",
                        help="of peers that source_peers.py builds, where they are there; default: sources in --output")
    args = parser.parse_args()
    if args.quick:
        args.only = args.only or [QUICK_VOLUME]
        args.tolerances = args.tolerances or [1e-2, 1e-3]
    args.tolerances = args.tolerances or [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
    flags = processor()[1]
    args.isa = args.isa or [isa for isa, needed in ISA_FLAGS.items() if needed <= flags]
    args.output = args.output.resolve()
    args.sources = (args.sources or args.output / "sources").resolve()
    if not args.binary.exists():
        parser.error(f"{args.binary} not found: build it (cmake --preset benchmarks && cmake --build --preset benchmarks --target codec_bench lbm)")
    return args


def main():
    args = parse_arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    python = make_environment(args)
    entries = make_fields(python, args)
    machine = describe_machine(args)
    if args.speed:
        by_isa, violated = run_instruction_sets(entries, [{"coder": "interpolate"}], args)
        (args.output / "speed.json").write_text(json.dumps({"machine": machine, "results": by_isa}, indent=1) + "\n")
        return 1 if violated else 0
    coders, violated = run_coders(entries, args)
    by_isa, isa_violated = run_instruction_sets(entries, coders, args)
    ladders, ladders_violated = run_ladders(entries, args)
    peers = [] if args.no_peers else run_peers(python, args) + run_source_peers(python, args)
    machine["load_after"] = os.getloadavg()
    results = {"machine": machine, "patch": args.patches[0], "results": coders + by_isa + peers, "ladders": ladders}
    (args.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    subprocess.run([python, str(HERE / "report.py"), str(args.output / "results.json")], check=True)
    say(f"figures in {args.output}: results.json, tables.md, rate-distortion.png")
    if violated or isa_violated or ladders_violated:
        say("a coder broke its promise: see VIOLATION above")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
