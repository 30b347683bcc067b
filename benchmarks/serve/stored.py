"""Fields and datasets that benchmarks store once, and the environment that has their peers."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "codec")]
from common import make_venv, say

PATCH = 64  # the coarsest level has a sample of each patch


def enter_environment(home, interpreter, requirements, needed):
    """Continues in the Python of a virtual environment that has the packages.

    Args:
        home: folder of the environment
        requirements: file with a line for each package, which is installed on its own
        needed: packages without which nothing runs
    """
    venv = home / "venv"
    if Path(sys.prefix).resolve() == venv.resolve():
        return
    python, pip = make_venv(venv, interpreter)
    wanted = requirements.read_text()
    stamp = venv / "installed.json"
    if not stamp.exists() or json.loads(stamp.read_text())["wanted"] != wanted:
        missing = {}
        for line in wanted.splitlines():
            if line and not line.startswith("#"):
                done = subprocess.run(pip + ["--only-binary", ":all:", line], capture_output=True, text=True)
                if done.returncode != 0:
                    missing[line.split("=")[0]] = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        if set(missing) & set(needed):
            sys.exit(f"{Path(sys.argv[0]).name}: cannot do without these packages: {missing}")
        stamp.write_text(json.dumps({"wanted": wanted, "missing": missing}))
    os.execv(python, [str(python), *sys.argv])


def make_field(args):
    """The raw field, and its tolerance. Energy k^-5/3 over shells, as turbulence256 of the coder benchmark."""
    import numpy as np
    from fields import random_field

    path = args.out / "field.raw"
    if not path.exists():
        say(f"making a field of {args.edge}^3")
        field = random_field(1, args.edge, 3, -11.0 / 6.0).astype("<f4")
        field.tofile(path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
    field = np.memmap(path, "<f4", "r")
    return path, float(args.relative * (field.max().astype(np.float64) - field.min()))


def must_run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).name}: {command[0]} ended with {done.returncode}: {done.stderr.strip()}")


def maker(programs, promise):
    """The settings that a dataset depends on beside its field."""
    return " ".join([hashlib.sha256((programs / "quarry-write").read_bytes()).hexdigest(), *promise])


def is_made(root, made_by):
    done = root / "done"
    return done.exists() and done.read_text() == made_by


def make_dataset(args, field, name, dims, promise, programs=None):
    """A dataset with its index, in a folder of its own: the root of a server. Kept until another quarry-write or promise is
    asked for.

    Args:
        promise: options of quarry-write that say how accurate it is
        programs: folder of those that write it; default: --bin
    """
    root, programs = args.out / name, programs or args.bin
    made_by = maker(programs, promise)
    if not is_made(root, made_by):
        say(f"converting {name}")
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        dataset = root / "turb.quarry"
        write = [programs / "quarry-write", field, "--dims", dims, "--type", "float32", "--field", "u", *promise]
        must_run(write + ["--patch", str(PATCH), "--output", dataset, "--report", root / "report.json"])
        must_run([programs / "quarry-index", dataset])
        (root / "done").write_text(made_by)
    return root


def within(args, tolerance):
    """The promise that all contestants keep."""
    return ["--codec", args.codec, "--tolerance", repr(tolerance)]
