#!/usr/bin/env python3
"""Peers of Quarry's server: libraries that read boxes of a field in the user's process.

  peers.py NAME prepare FIELD.raw FOLDER --edge 512 --tolerance 0.01    stores the field, checks every sample
  peers.py NAME answer FOLDER                                           answers as client_bench does

A peer is a class with `store`, `open`, `close`, `read` and `overview`; arrays are [z, y, x].
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

CHUNK = 64


class Peer:
    """`data` is the open source."""

    data = None

    def close(self):
        self.data = None


class Memmap(Peer):
    """Raw samples, x fastest: no compression, no decoding; as fast as the page cache."""

    about = "numpy.memmap, raw float32, copied"
    file = "field.raw"

    def store(self, field, folder, tolerance):
        field.tofile(folder / self.file)

    def open(self, folder, shape):
        self.data = np.memmap(folder / self.file, "<f4", "r", shape=shape)

    def read(self, box):
        return np.array(self.data[box])

    def overview(self, stride):
        return np.array(self.data[::stride, ::stride, ::stride])


class H5py(Peer):
    """One thread: HDF5's filters use only one."""

    file = "field.h5"

    def __init__(self):
        import h5py
        import hdf5plugin

        self.h5py, self.plugin = h5py, hdf5plugin
        self.about = (
            f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}, hdf5plugin {hdf5plugin.version}: zfp, "
            f"accuracy mode, chunks of {CHUNK}^3, default chunk cache, 1 thread")

    def store(self, field, folder, tolerance):
        with self.h5py.File(folder / self.file, "w") as file:
            coder = self.plugin.Zfp(accuracy=tolerance)
            file.create_dataset("field", data=field, chunks=(CHUNK,) * 3, **coder)

    def open(self, folder, shape):
        self.data = self.h5py.File(folder / self.file, "r")["field"]

    def close(self):
        if self.data:
            self.data.file.close()  # while it is open, HDF5 shares the chunk cache with later opens
        self.data = None

    def read(self, box):
        return self.data[box]

    def overview(self, stride):
        return self.data[::stride, ::stride, ::stride]


class Zarr(Peer):
    file = "field.zarr"

    def __init__(self):
        import numcodecs
        import zarr
        import zfpy

        self.zarr, self.numcodecs, self.zfpy = zarr, numcodecs, zfpy
        self.about = (
            f"zarr {zarr.__version__}, format 2, numcodecs {numcodecs.__version__} with zfpy: accuracy mode, "
            f"chunks of {CHUNK}^3, zarr's default threads")

    def store(self, field, folder, tolerance):
        coder = self.numcodecs.ZFPY(mode=self.zfpy.mode_fixed_accuracy, tolerance=tolerance)
        stored = self.zarr.create_array(str(folder / self.file), shape=field.shape, dtype="<f4", zarr_format=2,
                                        chunks=(CHUNK,) * 3, compressors=coder, filters=None)
        for z in range(0, field.shape[0], CHUNK):
            stored[z:z + CHUNK] = field[z:z + CHUNK]

    def open(self, folder, shape):
        self.data = self.zarr.open_array(str(folder / self.file), mode="r")

    def read(self, box):
        return self.data[box]

    def overview(self, stride):
        return self.data[::stride, ::stride, ::stride]


class OpenVisus(Peer):
    """Multiresolution like Quarry: an overview needs only the blocks of its levels."""

    file = "field.idx"

    def __init__(self):
        import importlib.metadata

        import OpenVisus

        self.visus = OpenVisus
        self.about = (
            f"OpenVisus {importlib.metadata.version('openvisusnogui')}, IDX, zfp, accuracy mode, blocks of "
            f"2^18 samples (as many as {CHUNK}^3)")

    def store(self, field, folder, tolerance):
        dims = list(field.shape[::-1])
        columns = [self.visus.Field("data", "float32", "row_major")]
        stored = self.visus.CreateIdx(url=str(folder / self.file), dims=dims, fields=columns, bitsperblock=18)
        stored.write(field)
        stored.compressDataset([f"zfp-{tolerance:.12f}-{tolerance:.12f}"])

    def open(self, folder, shape):
        self.data = self.visus.LoadDataset(str(folder / self.file))

    def read(self, box):
        z, y, x = box
        return self.data.read(logic_box=[(x.start, y.start, z.start), (x.stop, y.stop, z.stop)])

    def overview(self, stride):
        return self.data.read(quality=-3 * (stride.bit_length() - 1))


PEERS = {"memmap": Memmap, "h5py": H5py, "zarr": Zarr, "openvisus": OpenVisus}


def parse_box(text, shape):
    """"x0:x1,y0:y1,z0:z1" as slices z, y, x; empty: everything."""
    if not text:
        return tuple(slice(0, n) for n in shape)
    return tuple(slice(*map(int, part.split(":"))) for part in reversed(text.split(",")))


def stored_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def prepare(peer, args):
    field = np.fromfile(args.field, "<f4").reshape((args.edge,) * 3)
    args.folder.mkdir(parents=True)
    peer.store(field, args.folder, args.tolerance)
    peer.open(args.folder, field.shape)
    error = 0.0
    for z in range(0, args.edge, CHUNK):
        box = (slice(z, min(z + CHUNK, args.edge)), slice(0, args.edge), slice(0, args.edge))
        error = max(error, float(np.abs(peer.read(box).astype(np.float64) - field[box]).max()))
    about = {"about": peer.about, "max_error": error, "bytes": stored_bytes(args.folder), "shape": field.shape}
    (args.folder / "about.json").write_text(json.dumps(about))


def ask(peer, question, folder, shape):
    if question.get("close"):
        peer.close()
        return {}
    if question.get("open"):
        peer.close()
        asked = time.monotonic()
        peer.open(folder, shape)
        return {"seconds": [time.monotonic() - asked]}
    seconds = []
    begin = time.monotonic()
    for box in question.get("boxes", [""]):
        asked = time.monotonic()
        answer = peer.overview(question["stride"]) if "stride" in question else peer.read(parse_box(box, shape))
        seconds.append(time.monotonic() - asked)
    return {"seconds": seconds, "begin": begin, "end": time.monotonic(), "bytes": answer.nbytes}


def answer(peer, args):
    shape = tuple(json.loads((args.folder / "about.json").read_text())["shape"])
    peer.open(args.folder, shape)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            reply = ask(peer, json.loads(line), args.folder, shape)
        except Exception as error:  # any exception of a library is the answer
            reply = {"error": repr(error)}
        print(json.dumps(reply), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PEERS)
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("prepare")
    storing.add_argument("field", type=Path)
    storing.add_argument("folder", type=Path)
    storing.add_argument("--edge", type=int, required=True)
    storing.add_argument("--tolerance", type=float, required=True)
    answering = commands.add_parser("answer")
    answering.add_argument("folder", type=Path)
    args = parser.parse_args()
    peer = PEERS[args.name]()
    prepare(peer, args) if args.command == "prepare" else answer(peer, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
