#!/usr/bin/env python3
"""Measures `quarry get` from a file server whose calls take 2 ms each, as cold NFS, next to other builds.

There is no server: late_files.c is preloaded and makes each call below the dataset wait. The times are those of whole
processes, in turns; each build reads a dataset that its own quarry-write has written, in --files subfiles. The first
picture is the level with 64^3 samples, the box 64^3 samples at full resolution. The field is that of ../serve, within
1e-4 of its range. It needs numpy and scipy.

Example, the figures of the README:     benchmarks/objects/late_files.py --before /path/to/older/build/release/bin
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "serve")]
from common import ROOT, table
from stored import make_field


def written(programs: Path, field: Path, edge: int, files: int, folder: Path) -> Path:
    """A dataset of one field and step."""
    dataset = folder / "field.quarry"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([programs / "quarry-write", field, "--dims", f"{edge}x{edge}x{edge}", "--type", "float32", "--field",
                    "f", "--relative", "1e-4", "--files", str(files), "--output", dataset], check=True,
                   stdout=subprocess.DEVNULL, env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    return dataset


def seconds_of(programs: Path, dataset: Path, question: list[str], late: dict[str, str]) -> float:
    output = dataset.parent / "out.raw"
    begin = time.perf_counter()
    subprocess.run([programs / "quarry", "get", dataset, *question, "--output", output], check=True,
                   stdout=subprocess.DEVNULL, env=os.environ | late)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin", help="programs of this build")
    parser.add_argument("--before", type=Path, help="programs of an older build; default: none")
    parser.add_argument("--edge", type=int, default=512, help="samples along each axis; default: 512")
    parser.add_argument("--files", type=int, default=8, help="subfiles; default: 8")
    parser.add_argument("--delay", type=float, default=2, help="milliseconds of a call; default: 2")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmark-late-files", help="folder of the data")
    parser.add_argument("--repeat", type=int, default=9, help="turns; default: 9")
    chosen = parser.parse_args()
    builds = {"now": chosen.bin} | ({"before": chosen.before} if chosen.before else {})
    level = (chosen.edge // 64).bit_length() - 1
    middle = chosen.edge // 2
    box = ",".join([f"{middle - 27}:{middle + 37}"] * 3)
    questions = {"first picture, 64^3": ["--level", str(level)], "64^3 box, unaligned": ["--box", box],
                 "the same, coarse to fine": ["--box", box, "--progressive"]}
    chosen.out.mkdir(parents=True, exist_ok=True)
    library = chosen.out / "late_files.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "late_files.c", "-ldl"], check=True)
    chosen.relative = 1e-4
    field, _ = make_field(chosen)
    datasets = {name: written(programs, field, chosen.edge, chosen.files, chosen.out / name)
                for name, programs in builds.items()}
    late = {"LD_PRELOAD": str(library), "QUARRY_LATE": "field.quarry", "QUARRY_LATE_US": str(int(1000 * chosen.delay))}
    rows = []
    for question, options in questions.items():
        taken: dict[str, list[float]] = {name: [] for name in [*builds, "as a local disk", "no delay"]}
        for _ in range(chosen.repeat):
            for name, programs in builds.items():
                taken[name].append(seconds_of(programs, datasets[name], options, late))
            taken["as a local disk"].append(
                seconds_of(chosen.bin, datasets["now"], options, late | {"QUARRY_LATE_KIND": "local"}))
            taken["no delay"].append(seconds_of(chosen.bin, datasets["now"], options, {}))
        medians = {name: 1e3 * statistics.median(times) for name, times in taken.items()}
        ratio = f"{medians['before'] / medians['now']:.2f}" if chosen.before else ""
        rows.append([question, *(f"{medians[name]:.1f} ms" for name in taken), ratio])
    print(table(["question", *taken, "before over now"], rows))


if __name__ == "__main__":
    main()
