#!/usr/bin/env python3
"""Measures analysis with a quarter of the memory: run time against the larger of I/O and computing, bytes moved by the
data-aware order and by first in, first out, and memory over time (figures 5 to 7 of Saule et al.).

Makes a sparse matrix and runs examples/lbm for a series of steps; builds nothing: build the presets python and release first.
Blocks of the matrix are dropped from the page cache when they were read, so that each pass reads the disk. Runs in
build/python-environment.

Example, in two or three minutes:   benchmarks/outofcore/run.py --plot memory.png
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from common import ROOT, say, table  # noqa: E402

BIN = ROOT / "build/release/bin"
PACKAGE = ROOT / "build/release/python"
ENVIRONMENT = ROOT / "build/python-environment"
ORDERS = ("data-aware", "fifo")
FIELDS = ["velocity_x", "velocity_y", "velocity_z"]


def enter_environment():
    """Continues in the package's environment. One thread of BLAS: another core reads."""
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve() or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ |= {"PYTHONPATH": str(PACKAGE), "OPENBLAS_NUM_THREADS": "1"}
        python = ENVIRONMENT / "bin/python"
        os.execv(python, [str(python), *sys.argv])


def hamiltonian(folder, rows, entries, block):
    """A sparse symmetric matrix with a diagonal that grows, and about so many entries in a row."""
    import numpy as np
    import scipy.sparse as sp
    from quarry_outofcore import BlockedMatrix

    def make(i, j):
        generator = np.random.default_rng((7, i, j))
        shape = (min(block, rows - i * block), min(block, rows - j * block))
        made = sp.random_array(shape, density=entries / rows, rng=generator, format="csr",
                               data_sampler=lambda size: 0.05 * generator.standard_normal(size))
        if i != j:
            return made
        made = sp.triu(made, 1)
        return (made + made.T + sp.diags_array(0.5 * np.sqrt(1 + i * block + np.arange(shape[0])))).tocsr()

    BlockedMatrix.write_blocks(folder, rows, block, make)
    return BlockedMatrix.open(folder, page_cache=False)


def flow(folder, dims, steps, every=10, patch=16):
    """Velocities of a flow around a cylinder as a dataset."""
    import numpy as np
    import quarry
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(["mpirun", "--oversubscribe", "-n", "2", BIN / "lbm", "--dims", "x".join(map(str, dims)), "--steps",
                    str(steps * every), "--dump-every", str(every), "--output", folder / "dump"], check=True,
                   stdout=subprocess.DEVNULL, env=environment)
    arrays = {}
    for name in FIELDS:
        paths = sorted((folder / "dump").glob(f"step*/lbm-{name}-*.raw"))
        arrays[name] = np.stack([np.fromfile(path, "<f4").reshape(dims[::-1]) for path in paths])
    quarry.write(folder / "wake.quarry", arrays, relative=1e-4, patch=patch)
    shutil.rmtree(folder / "dump")
    return quarry.open(folder / "wake.quarry", memory=1)


def measure(rows, entries, block, dims, steps, folder):
    """Reports of both programs in both orders: {(program, order): Report}."""
    import quarry_outofcore as outofcore
    say("writing the matrix")
    matrix = hamiltonian(folder / "hamiltonian.blocks", rows, entries, block)
    reports = {}
    for order in ORDERS:
        say(f"eigenpairs, {order}")
        reports["eigenpairs", order] = outofcore.lowest_eigenpairs(matrix, 10, memory=matrix.nbytes // 4,
                                                                   order=order).report
    say("running lbm, and writing its steps")
    dataset = flow(folder, dims, steps)
    size = len(FIELDS) * steps * dims[0] * dims[1] * dims[2] * 4
    for order in ORDERS:
        say(f"modes, {order}")
        reports["modes", order] = outofcore.pod(dataset, FIELDS, memory=size // 4, order=order).report
    dataset.close()
    return reports


def lines(reports):
    """The lines of the table."""
    for (program, order), one in reports.items():
        yield [program, order, str(one.passes), f"{one.seconds:.1f} s", f"{one.io_seconds:.1f} s",
               f"{one.compute_seconds:.1f} s", f"{one.overlap:.2f}", f"{one.hit_ratio:.1%}",
               f"{one.bytes_moved / 1e6:.0f} MB", f"{one.data_bytes / 1e6:.0f} MB",
               f"{one.peak / 1e6:.1f} of {one.memory / 1e6:.1f} MB"]


def plot(reports, path):
    """Bytes of blocks in memory, and tasks that wait, over the first three passes."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, len(reports), figsize=(4 * len(reports), 5), squeeze=False, layout="constrained")
    for (above, below), (name, one) in zip(axes.T, reports.items(), strict=True):
        end = 3 * one.seconds / one.passes
        seconds, used, pinned, waiting = zip(*[point for point in one.trace if point[0] <= end], strict=True)
        above.plot(seconds, [bytes_ / 1e6 for bytes_ in used], label="in memory")
        above.plot(seconds, [bytes_ / 1e6 for bytes_ in pinned], label="in use")
        above.set(title=", ".join(name), ylabel="blocks [MB]")
        below.plot(seconds, waiting)
        below.set(xlabel="time [s]", ylabel="tasks that wait")
        above.legend()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000, help="of the matrix; default: 20000")
    parser.add_argument("--entries", type=int, default=2000, help="in each of its rows; default: 2000")
    parser.add_argument("--block", type=int, default=1250, help="its rows and columns; default: 1250")
    parser.add_argument("--dims", default="96x48x48", help="of the flow; default: 96x48x48")
    parser.add_argument("--steps", type=int, default=200, help="of the flow; default: 200")
    parser.add_argument("--folder", help="for the data, which are removed; default: a temporary one")
    parser.add_argument("--plot", help="file for memory and waiting tasks over time")
    parser.add_argument("--json", help="file for all figures, with the memory over time")
    args = parser.parse_args()
    enter_environment()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        reports = measure(args.rows, args.entries, args.block, tuple(map(int, args.dims.split("x"))), args.steps, Path(folder))
    print(table(["program", "order", "passes", "run time", "I/O", "compute", "run time / larger", "found in memory", "moved",
                 "data", "memory"], lines(reports)))
    if args.json:
        Path(args.json).write_text(json.dumps([{"program": program, "order": order, **one.summary(), "trace": one.trace}
                                               for (program, order), one in reports.items()]))
    if args.plot:
        plot(reports, args.plot)


if __name__ == "__main__":
    main()
