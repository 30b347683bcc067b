"""A proof that docs/format.md is enough to read packs: what pack_decoder.py reads is compared with the folders that were
packed, byte for byte, of datasets that are written here; and golden ones are unpacked, and have their samples."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_test
from catalogue_decoder import Bytes
from catalogue_test import write
from pack_decoder import from_differences, read_pack, read_table, steps_of, unpack
from worked_example import require, xxh3

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ["QUARRY_BIN"])


def folders(dataset):
    steps = dataset / "steps"
    return {str(path.relative_to(steps)): path.read_bytes() for path in steps.rglob("*")
            if path.is_file() and path.relative_to(steps).parts[0].isdigit()}


def unpacked(dataset):
    """The folders of all steps, in packs or not."""
    copy = dataset.with_name(f"copy-of-{dataset.name}")
    unpack(dataset, copy, xxh3)
    found = folders(copy)
    shutil.rmtree(copy)
    return found


def pack(dataset, *options):
    """Packs a dataset, which leaves the files of its steps as they are. Returns the names of its packs."""
    before = unpacked(dataset)
    subprocess.run([BIN / "quarry", "pack", dataset, *options], check=True, stdout=subprocess.DEVNULL)
    require(any((dataset / "steps").glob("pack-*.qsp")), "a pack")
    require(unpacked(dataset) == before, "the files of packs are those that were packed")
    return sorted(path.name for path in (dataset / "steps").glob("pack-*.qsp"))


def main():
    require(steps_of("pack-0_103_120x2.qsp") == [0, 103, 223, 343] and steps_of("pack-5.qsp") == [5], "names")
    # The vectors of docs/format.md, "Test vectors".
    require(from_differences(bytes.fromhex("02030178010200"), b"0123456789", 6) == b"234x67", "differences")
    table = bytes.fromhex("010a662f303030302e717366020064640100900309650701008603")
    first, subfiles = bytes(range(100)), (bytes([1]) * 400, bytes([2]) * 390)
    pieces = bytes([0, 50, 1, 200, 0, 50, 0])
    files = read_table(Bytes(table), bytes(16) + first + subfiles[0] + pieces + subfiles[1], 913)
    require(files == {0: {"step.json": first, "f/0000.qsf": subfiles[0]},
                      10: {"step.json": first[:50] + bytes([200]) + first[50:], "f/0000.qsf": subfiles[1]}}, "table")
    require(steps_of("pack-0_10.qsp") == [0, 10], "name")
    with tempfile.TemporaryDirectory() as name:
        many = Path(name) / "many.quarry"
        write(many, 40, 1500, "f", "--tolerance", "0.01")
        require(sorted(path.name for path in (many / "steps").glob("pack-*")) ==
                sorted(f"pack-{first}_1x255.qsp" for first in (0, 256, 512, 768)), "packs of the writer")
        before = unpacked(many)
        subprocess.run([BIN / "quarry", "pack", many, "--unpack"], check=True, stdout=subprocess.DEVNULL)
        require(folders(many) == before, "unpacked steps")
        require(pack(many, "--keep", "100") == ["pack-0_1x1023.qsp", "pack-1024_1x375.qsp"], "names of packs")
        write(many, 30, 3, "g", "--layers", "1,1e-2", "--step", "1000000")
        write(many, 40, 5, "h", "--lossless", "--step", "1400")
        require(len(pack(many)) == 3, "packs of the rest")
        checked = []
        for golden in sorted((HERE / "golden").iterdir()):
            dataset = golden / "golden.quarry"
            if not any((dataset / "steps").glob("pack-*.qsp")):
                continue
            copy = Path(name) / golden.name
            require(unpack(dataset, copy, xxh3) == 2, "steps of a golden dataset")
            require(golden_test.digests(copy, Path(name)) == (golden / "digests.txt").read_text(), "samples")
            checked.append(golden.name)
        require(checked, "golden datasets with packs")
        first = next((many / "steps").glob("pack-*.qsp"))
        require(len(read_pack(first, xxh3)) == len(steps_of(first.name)), "steps of a pack")
    print("packs have the files of their steps, also in", *checked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
