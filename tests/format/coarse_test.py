"""A proof that docs/format.md is enough to read coarse objects: what coarse_decoder.py reads is compared with the
subfiles, byte for byte, of datasets that are written here and of golden ones."""

import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from coarse_decoder import read_coarse
from worked_example import read_manifest, require, xxh3

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ["QUARRY_BIN"])
ROOM, LEAST = 2 << 20, 128 << 10


def subfiles(dataset, step):
    """The files of a step and of its masks: {path: (size, checksum of the table)}."""
    said, found = read_manifest(dataset / "steps" / f"{step:06}" / "step.json"), {}
    for field in said["fields"]:
        folders = [(f"steps/{step:06}/{field['name']}", field["subfiles"])]
        if field.get("mask"):
            folders.append((f"masks/{field['mask']['name']}", field["mask"]["subfiles"]))
        for folder, files in folders:
            for file in files:
                found[f"{folder}/{file['name']}"] = int(file["bytes"]), int(file["table_checksum"], 16)
    return found


def check(dataset, step):
    """The object has the front and the back of every file. Returns [bytes] of it."""
    path = dataset / "steps" / f"{step:06}" / "coarse"
    files = read_coarse(path, xxh3)
    require({name: file[:2] for name, file in files.items()} == subfiles(dataset, step), "files of the object")
    for name, (size, table, front, back) in files.items():
        data = (dataset / name).read_bytes()
        require(len(data) == size and data.startswith(front) and data.endswith(back), f"bytes of {name}")
        offset, length, checksum = struct.unpack("<3Q", back[-48:-24])
        require(offset + length + 48 == size and len(back) == length + 48 and checksum == table, f"table of {name}")
        require(xxh3(back[:length]) == table or data[50] >> 4 > 0, f"checksum of {name}")
        require(len(front) > 144, f"coarse levels of {name}")
    require(sum(len(front) + len(back) for _, _, front, back in files.values()) <= ROOM, "room")
    return path.stat().st_size


def write(dataset, order, *options):
    """Two steps of a field of 48^3 samples with some that are missing."""
    paths = []
    for step in range(2):
        path = dataset.with_name(f"{dataset.stem}{step}-[48-48-48]-Float32.raw")
        path.write_bytes(b"".join(struct.pack("<f", ((7 * i * i + step) % 1009) / 7 if i % 5000 > 40 else float("nan"))
                                  for i in range(48**3)))
        paths.append(path)
    subprocess.run([BIN / "quarry-write", *paths, "--output", dataset, "--field", "f", "--tolerance", "0.01", "--order", order,
                    "--patch", "16x16x16", "--files", "2", *options], check=True, stdout=subprocess.DEVNULL)


def says(dataset):
    described = subprocess.run([BIN / "quarry", "info", dataset, "--json"], check=True, capture_output=True).stdout
    key = read_manifest(dataset / "dataset.json").get("coarse_objects", False)
    require(json.loads(described).get("coarse_objects", False) == key, "quarry info")
    return key


def main():
    with tempfile.TemporaryDirectory() as name:
        for order in ("coarse", "level", "patch"):
            dataset = Path(name) / f"{order}.quarry"
            write(dataset, order)
            require(says(dataset) == (order != "patch"), "the key of dataset.json")
            for step in range(2):
                if order == "patch":
                    require(not (dataset / "steps" / f"{step:06}" / "coarse").exists(), "no object")
                else:
                    require(check(dataset, step) < ROOM, "size")
            subprocess.run([BIN / "quarry", "verify", dataset], check=True, stdout=subprocess.DEVNULL)
        checked = []
        for golden in sorted((HERE / "golden").iterdir()):
            dataset = golden / "golden.quarry"
            for step in range(2 if read_manifest(dataset / "dataset.json").get("coarse_objects") else 0):
                check(dataset, step)
                checked.append(golden.name)
        require(checked, "golden datasets with coarse objects")
    print("coarse objects have the bytes of their files, also in", *sorted(set(checked)))


if __name__ == "__main__":
    main()
