#!/usr/bin/env python3
"""Measures the Python package: next to the C++ client, to zarr and h5py in the same process, and to a Zarr copy under dask.

Builds nothing: build the presets benchmarks and python first (targets client_bench and quarry_python_types). Runs in
build/python-environment with benchmarks/python/requirements.txt on top, which come from PyPI. Contestants take turns,
--repeat times; the table has medians. Everything is in the page cache unless a row says otherwise.

Example, a first look in a minute:   benchmarks/python/run.py --edge 128 --steps 20 --repeat 3
Example, the figures of the README:  benchmarks/python/run.py
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "serve"), str(HERE.parent / "codec")]
from common import ROOT, processor, say, source_version, table
from processes import Conversation, Server, bring_to_page_cache, drop_from_page_cache

BIN = ROOT / "build/release/bin"
PACKAGE = ROOT / "build/release/python"
ENVIRONMENT = ROOT / "build/python-environment"
RELATIVE = 1e-4
PATCH = 64


def enter_environment():
    """Continues in the package's environment, with the peers."""
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        return
    python = ENVIRONMENT / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"],
                   check=True)
    os.environ["PYTHONPATH"] = str(PACKAGE)
    os.execv(python, [str(python), *sys.argv])


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def take_turns(contestants, repeat):
    """Median seconds of each, which run one after the other, in turns."""
    taken = {name: [] for name in contestants}
    for turn in range(repeat):
        names = list(contestants)
        for name in names if turn % 2 == 0 else reversed(names):
            taken[name].append(contestants[name]())
    return {name: statistics.median(values) for name, values in taken.items()}


def box_text(box):
    return ",".join(f"{begin}:{end}" for begin, end in reversed(box))


def slices(box):
    return tuple(slice(*bounds) for bounds in box)


def random_boxes(edge, size, count):
    generator = random.Random(7)
    corners = [[generator.randrange(edge - size) | 1 for _ in range(3)] for _ in range(count)]
    return [tuple((c, c + size) for c in corner) for corner in corners]


# --- the parts, each a list of rows: what, ours in seconds, theirs by name


def against_cpp(args, store):
    """Boxes of 256^3: first reads of a directory that is opened anew, and from a server that has decoded them."""
    import quarry
    edge = min(256, args.edge // 2)
    offset = (args.edge - edge) // 2
    box = ((offset, offset + edge),) * 3
    rows = []

    def ours_anew():
        with quarry.open(store["quarry"]) as dataset:
            field = dataset["f"]
            return seconds(lambda: field[(0, *slices(box))])

    def theirs_anew():
        with Conversation([BIN / "client_bench", store["quarry"]]) as client:
            return client.ask({"boxes": [box_text(box)]})["seconds"][0]
    taken = take_turns({"python": ours_anew, "C++ client": theirs_anew}, args.repeat)
    rows.append((f"{edge}³ from a directory, first read", taken))
    with Server([BIN / "quarry-server", args.out, "--listen", "127.0.0.1:0", "--quiet"]) as server:
        target = f"grpc://{server.address}/field"
        with quarry.open(target) as dataset, Conversation([BIN / "client_bench", target]) as client:
            field = dataset["f"]
            taken = take_turns({"python": lambda: seconds(lambda: field[(0, *slices(box))]),
                                "C++ client": lambda: client.ask({"boxes": [box_text(box)]})["seconds"][0]}, 2 * args.repeat)
    rows.append((f"{edge}³ from a server that has it decoded", taken))
    return rows


def small_boxes(args, store):
    """Unaligned 64^3, decoded each time: every contestant opens its file anew."""
    import h5py
    import hdf5plugin  # noqa: F401
    import quarry
    import zarr
    boxes = random_boxes(args.edge, 64, 12)

    def with_quarry(box):
        with quarry.open(store["quarry"]) as dataset:
            field = dataset["f"]
            return seconds(lambda: field[(0, *slices(box))])

    def with_h5py(box):
        with h5py.File(store["h5py"]) as file:
            data = file["f"]
            return seconds(lambda: data[slices(box)])

    def with_zarr(box):
        data = zarr.open_array(store["zarr"], mode="r")
        return seconds(lambda: data[slices(box)])
    contestants = {"python": with_quarry, "h5py + zfp": with_h5py, "zarr + zfp": with_zarr}
    sums = take_turns({name: (lambda read=read: sum(read(box) for box in boxes) / len(boxes)) for name, read in contestants.items()},
                      args.repeat)
    return [("unaligned 64³", sums)]


def imports(args, store):
    def once(module):
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    return [("import", take_turns({"python": lambda: once("quarry"), "numpy": lambda: once("numpy")}, 3 * args.repeat))]


def opening(args, store):
    code = ("import sys, time, xarray as xr\nt = time.perf_counter()\n"
            "from quarry._xarray import QuarryBackendEntrypoint\n"
            "ds = xr.open_dataset(sys.argv[1], engine=QuarryBackendEntrypoint)\nassert ds.f.shape[0] == 1000\n"
            "print(time.perf_counter() - t)")

    def cold():
        drop_from_page_cache(store["many"])
        done = subprocess.run([sys.executable, "-c", code, store["many"]], check=True, capture_output=True, text=True)
        return float(done.stdout)
    return [("xr.open_dataset of 1,000 steps, cold", take_turns({"python": cold}, args.repeat))]


def under_dask(args, store):
    import xarray as xr
    from dask.distributed import Client, LocalCluster
    from quarry._xarray import QuarryBackendEntrypoint
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        def ours():
            with xr.open_dataset(store["series"], engine=QuarryBackendEntrypoint, chunks={}) as ds:
                return seconds(lambda: ds.f.mean("step").compute())

        def theirs():
            with xr.open_zarr(store["series_zarr"], chunks={}) as ds:
                return seconds(lambda: ds.f.mean("step").compute())
        ours(), theirs()  # workers import what they need
        return [(f"mean over {args.steps} steps of {args.series_edge}³, 2 workers of dask",
                 take_turns({"python": ours, "Zarr, Blosc zstd": theirs}, args.repeat))]


def through_the_store(args, store):
    import quarry
    import zarr
    edge = min(args.edge, 256) // PATCH * PATCH
    boxes = [((z, z + PATCH), (y, y + PATCH), (x, x + PATCH))
             for z in range(0, edge, PATCH) for y in range(0, edge, PATCH) for x in range(0, edge, PATCH)]

    def direct():
        with quarry.open(store["quarry"]) as dataset:
            field = dataset["f"]
            return seconds(lambda: [field[(0, *slices(box))] for box in boxes])

    def through_zarr():
        array = zarr.open_group(quarry.zarr_store(store["quarry"]), mode="r")["0/f"]
        return seconds(lambda: [array[slices(box)] for box in boxes])  # one step is no dimension
    return [(f"{len(boxes)} patches of 64³, one by one", take_turns({"zarr_store": through_zarr, "python": direct}, args.repeat))]


PARTS = {"cpp": against_cpp, "boxes": small_boxes, "import": imports, "open": opening, "dask": under_dask, "store": through_the_store}

# --- what they read


def prepare(args):
    """The same field for all, and series of steps."""
    import h5py
    import hdf5plugin
    import numpy as np
    import quarry
    import xarray as xr
    import zarr
    from fields import random_field
    from numcodecs.zarr3 import ZFPY
    store = {"quarry": args.out / "field.quarry", "h5py": args.out / "field.h5", "zarr": args.out / "field.zarr",
             "many": args.out / "many.quarry", "series": args.out / "series.quarry", "series_zarr": args.out / "series.zarr"}
    if not store["quarry"].exists():
        say(f"making a field of {args.edge}^3")
        field = random_field(1, args.edge, 3, -11.0 / 6.0).astype("<f4")
        field = field.reshape((args.edge,) * 3)
        tolerance = float(RELATIVE * (field.max() - field.min()))
        with h5py.File(store["h5py"], "w") as file:
            file.create_dataset("f", data=field, chunks=(PATCH,) * 3, **hdf5plugin.Zfp(accuracy=tolerance))
        array = zarr.create_array(store["zarr"], shape=field.shape, chunks=(PATCH,) * 3, dtype="f4", compressors=None,
                                  serializer=ZFPY(mode=4, tolerance=tolerance), overwrite=True)
        array[:] = field
        quarry.write(store["quarry"], field, field="f", tolerance=tolerance, patch=PATCH)
    if not store["series"].exists():
        say(f"making {args.steps} steps of {args.series_edge}^3")
        edge = args.series_edge
        first, last = (random_field(seed, edge, 3, -11.0 / 6.0).astype("<f4").reshape((edge,) * 3) for seed in (2, 3))
        steps = np.stack([np.cos(t) * first + np.sin(t) * last for t in np.linspace(0, 1.5, args.steps, dtype="f4")])
        tolerance = float(RELATIVE * (steps.max() - steps.min()))
        quarry.write(store["series"], steps, field="f", tolerance=tolerance, patch=PATCH)
        ds = xr.Dataset({"f": (("step", "z", "y", "x"), steps)})
        chunks = (1, *(min(PATCH, edge),) * 3)
        blosc = zarr.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
        ds.to_zarr(store["series_zarr"], mode="w", encoding={"f": {"chunks": chunks, "compressors": [blosc]}})
    if not store["many"].exists():
        say("making 1,000 small steps")
        steps = np.zeros((1000, 8, 8, 8), "f4") + np.arange(1000, dtype="f4")[:, None, None, None]
        quarry.write(store["many"], steps, field="f", lossless=True)
    for path in store.values():
        bring_to_page_cache(path)
    return {name: str(path) for name, path in store.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge", type=int, default=512, help="samples along each axis of the large field")
    parser.add_argument("--steps", type=int, default=200, help="of the series")
    parser.add_argument("--series-edge", type=int, default=64, help="samples along each axis of its steps")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-python")
    args = parser.parse_args()
    enter_environment()
    args.out = args.out / f"{args.edge}-{args.steps}x{args.series_edge}"
    args.out.mkdir(parents=True, exist_ok=True)
    store = prepare(args)
    rows = []
    for part in args.parts:
        say(part)
        rows += PARTS[part](args, store)
    lines = []
    for what, taken in rows:
        (first, ours), *others = taken.items()
        lines.append([what, f"{first}: {1e3 * ours:.2f} ms", ", ".join(f"{name}: {1e3 * value:.2f} ms" for name, value in others),
                      ", ".join(f"{value / ours:.2f}" for _, value in others)])
    text = table(["", "ours", "others", "times as fast as the others"], lines)
    (args.out / "results.json").write_text(json.dumps({"source": source_version(), "processor": processor()[0], "rows": rows}))
    (args.out / "tables.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
