"""A proof that docs/format.md is enough to read the head and the catalogue: the records that catalogue_decoder.py reads
are compared with every step.json, of datasets that are written here and of golden ones."""

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_test
from catalogue_decoder import NUMBERS, REALS, read_catalogue
from pack_decoder import unpack
from worked_example import read_manifest, require, xxh3

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ["QUARRY_BIN"])


def same_real(stored, said):
    return struct.pack("<d", stored) == struct.pack("<d", float(said))


def check_levels(levels, said):
    require(len(levels) == len(said), "number of levels")
    for level, other in zip(levels, said, strict=True):
        require(all(same_real(level[name], other[name]) for name in ("max_error", "rmse", "coverage")), "errors of a level")
        require(level["bytes"] == int(other["bytes"]), "bytes of a level")


def check_field(field, said):
    require((field["name"], field["source"].decode()) == (said["name"], said["source"]), "name and source")
    for name in REALS:
        require(same_real(field[name], said[name]), f"{name}: {field[name]} is not {said[name]}")
    for name in NUMBERS:
        require(field[name] == int(said[name]), f"{name}: {field[name]} is not {said[name]}")
    mask = said.get("mask")
    require(field["mask"] == (mask and (mask["name"], int(mask["bytes"]))), "mask")
    require(field["references"] == [int(step) for step in said["references"]], "references")
    check_levels(field["levels"], said["levels"])
    require(len(field["rougher"]) == len(said["rougher"]), "number of layers")
    for layer, other in zip(field["rougher"], said["rougher"], strict=True):
        require(same_real(layer["tolerance"], other["tolerance"]), "tolerance of a layer")
        check_levels(layer["levels"], other["levels"])


def check(dataset):
    """Every step of a dataset has the record that it should have. Returns the number of pages."""
    records, pages, listed, publishes = read_catalogue(dataset, xxh3)
    require(listed in (None, sorted(records)), f"steps of the head: {listed}")
    require(not publishes, "a directory lists its steps itself")
    if any((dataset / "steps").glob("pack-*.qsp")):
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / "copy"
            unpack(dataset, copy, xxh3)
            return check(copy)
    manifests = {int(path.parent.name): path for path in (dataset / "steps").glob("[0-9]*/step.json")}
    require(records.keys() == manifests.keys(), f"steps with records: {sorted(records)}")
    for step, path in manifests.items():
        record, said = records[step], read_manifest(path)
        require(record["bytes"] == path.stat().st_size and record["checksum"] == said["checksum"], f"file of step {step}")
        time = said.get("time")
        require((record["time"] is None) == (time is None) and (time is None or same_real(record["time"], time)), "time")
        require(len(record["fields"]) == len(said["fields"]), "number of fields")
        for field, other in zip(record["fields"], said["fields"], strict=True):
            check_field(field, other)
    require((dataset / "steps/.partial-catalogue-is-current").exists(), "the records count")
    folder = dataset / "catalogue"  # git keeps no empty folders
    files = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    require(files == sorted(pages), "files of the catalogue")
    return len(pages)


def write(dataset, samples, steps, field, *options):
    """A series of small steps, in which some files come again."""
    names = []
    for number in range(min(steps, 7)):
        path = dataset.parent / f"{field}{number}.raw"
        values = [None if sample == 13 else (sample * (number + 2)) % 17 + number / 3 for sample in range(samples)]
        path.write_bytes(struct.pack(f"<{samples}f", *(float("nan") if value is None else value for value in values)))
        names.append(path)
    listed = dataset.parent / f"{field}.list"
    listed.write_text("".join(f"{names[step % len(names)]}\n" for step in range(steps)))
    append = ["--append"] if dataset.exists() else []
    subprocess.run([BIN / "quarry-write", f"@{listed}", "--dims", f"{samples}x1x1", "--type", "float32", "--field", field,
                    "--output", dataset, *options, *append], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory() as name:
        many = Path(name) / "many.quarry"
        write(many, 40, 300, "f", "--tolerance", "0.01")
        require(check(many) == 1, "a page for 300 steps")
        write(many, 30, 3, "g", "--layers", "1,1e-2", "--step", "1000000")
        write(many, 40, 5, "h", "--lossless")
        check(many)
        subprocess.run([BIN / "quarry", "upgrade", many], check=True, stdout=subprocess.DEVNULL)
        check(many)
        require(read_catalogue(many, xxh3)[2] == [*range(300), *range(1000000, 1000003)], "the head lists the steps")
        times = golden_test.write(Path(name) / "times", golden_test.ATTRIBUTES)
        require(read_manifest(times / "steps/000001/step.json")["time"] == 1, "a time")
        check(times)
    checked = [golden.name for golden in sorted((HERE / "golden").iterdir())
               if (golden / "golden.quarry/head").exists() and check(golden / "golden.quarry") >= 0]
    require(checked, "golden datasets with a catalogue")
    print("records are as step.json has them, also in", *checked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
