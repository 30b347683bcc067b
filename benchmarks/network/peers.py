#!/usr/bin/env python3
"""Peers of Quarry over a network: libraries that read chunked arrays over HTTP in the user's process.

  peers.py prepare FIELD.raw FOLDER --edge 384 --tolerance 0.01     stores the field for all of them, checks its error
  peers.py answer NAME http://HOST:PORT --device near               answers questions, one JSON object a line

The field is int16 in steps of twice the tolerance, in chunks of 64^3 with zstd and bit shuffling, and every second
sample of it again and again in arrays of their own: levels, so that an overview needs few bytes. Arrays are [z, y, x].
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))
from wire import received

CHUNK = 64
LEVELS = 5

Samples = NDArray[np.float32]


class Peer:
    """A library. Each instance has connections of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def level(self, number: int) -> Any:
        """The array of a level, opened."""
        raise NotImplementedError

    def box(self, array: Any, box: tuple[slice, ...]) -> NDArray[np.int16]:
        """Samples of a box."""
        return np.asarray(array[box])

    def points(self, array: Any, places: NDArray[np.int64]) -> NDArray[np.int16]:
        """The samples at places z, y, x, a column each."""
        raise NotImplementedError


class Zarr(Peer):
    """zarr-python through fsspec."""

    def level(self, number: int) -> Any:
        """With a file system of its own, whose session is closed with the process."""
        import fsspec
        import zarr
        from zarr.storage import FsspecStore

        files = fsspec.filesystem("http", asynchronous=True, skip_instance_cache=True)
        store = FsspecStore(files, read_only=True, path=f"{self.url}/level{number}.zarr")
        return zarr.open_array(store, mode="r", zarr_format=3)

    def points(self, array: Any, places: NDArray[np.int64]) -> NDArray[np.int16]:
        """Reads each chunk once."""
        return np.asarray(array.vindex[tuple(places)])


class TensorStore(Peer):
    """TensorStore's own HTTP, without a cache."""

    def level(self, number: int) -> Any:
        """Opens the same files as Zarr."""
        import tensorstore as ts

        where = {"driver": "http", "base_url": self.url, "path": f"/level{number}.zarr/"}
        context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
        return ts.open({"driver": "zarr3", "kvstore": where}, read=True, context=context).result()

    def box(self, array: Any, box: tuple[slice, ...]) -> NDArray[np.int16]:
        """Reads at once."""
        return np.asarray(array[box].read().result())

    def points(self, array: Any, places: NDArray[np.int64]) -> NDArray[np.int16]:
        """Reads each chunk once."""
        return np.asarray(array.vindex[tuple(places)].read().result())


class H5py(Peer):
    """h5py through fsspec, in blocks of 1 MiB that stay in memory."""

    def level(self, number: int) -> Any:
        """A dataset of the only file."""
        import fsspec
        import h5py
        import hdf5plugin  # noqa: F401

        files = fsspec.filesystem("http", skip_instance_cache=True)
        file = files.open(f"{self.url}/field.h5", block_size=1 << 20, cache_type="blockcache")
        return h5py.File(file, "r")[f"level{number}"]

    def points(self, array: Any, places: NDArray[np.int64]) -> NDArray[np.int16]:
        """HDF5 takes points one by one: the box around all of them is faster."""
        return np.asarray(np.asarray(array[...])[tuple(places)])


PEERS: dict[str, type[Peer]] = {"zarr": Zarr, "tensorstore": TensorStore, "h5py": H5py}


def store(field: Samples, folder: Path, tolerance: float) -> float:
    """Stores all levels twice: as Zarr and as HDF5. Returns the largest error."""
    import h5py
    import hdf5plugin
    import zarr
    from zarr.codecs import BloscCodec

    stored = np.round(field / (2 * tolerance)).astype(np.int16)
    blosc = BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle")
    coder = hdf5plugin.Blosc(cname="zstd", clevel=5, shuffle=hdf5plugin.Blosc.BITSHUFFLE)
    with h5py.File(folder / "field.h5", "w") as file:
        for level in range(LEVELS):
            samples = stored[(slice(None, None, 1 << level),) * 3]
            array = zarr.create_array(str(folder / f"level{level}.zarr"), shape=samples.shape, dtype="int16",
                                      chunks=(CHUNK,) * 3, zarr_format=3, compressors=blosc)
            array[...] = samples
            chunks = tuple(min(CHUNK, n) for n in samples.shape)
            file.create_dataset(f"level{level}", data=samples, chunks=chunks, **coder)
    return float(np.abs(stored * (2 * tolerance) - field).max())


def read(peer: Peer, array: Any, question: dict[str, Any], scale: float) -> Samples:
    """The answer in the unit of the field."""
    step = 1 << question["level"]
    if question["points"]:
        places = np.rint(np.array(question["points"])).astype(np.int64)[:, ::-1].T
        found = peer.points(array, places)
    else:
        box = tuple(slice(-(-begin // step), -(-end // step)) for begin, end in reversed(question["box"]))
        found = peer.box(array, box)
    return np.asarray(found, np.float32) * np.float32(scale)


def reply(peer: Peer, question: dict[str, Any], device: str, scale: float) -> dict[str, Any]:
    """Opens and reads, and reads once more."""
    before = received(device)
    asked = time.perf_counter()
    array = peer.level(question["level"])
    answer = read(peer, array, question, scale)
    first = time.perf_counter() - asked
    taken = received(device) - before
    asked = time.perf_counter()
    read(peer, array, question, scale)
    return {"seconds": first, "warm": time.perf_counter() - asked, "wire_bytes": taken, "samples": answer.size}


def converse(args: argparse.Namespace) -> None:
    """Answers each question in a process of its own, which has the libraries, but no connection yet."""
    peer = PEERS[args.name]
    for module in ("fsspec.implementations.http", "h5py", "hdf5plugin", "tensorstore", "zarr"):
        __import__(module)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                said = reply(peer(args.url), json.loads(line), args.device, args.scale)
            except Exception as error:  # any exception of a library is the answer
                said = {"error": repr(error)}
            print(json.dumps(said), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def prepare(args: argparse.Namespace) -> None:
    """Stores the field, and its error."""
    field = np.fromfile(args.field, "<f4").reshape((args.edge,) * 3)
    args.folder.mkdir(parents=True)
    error = store(field, args.folder, args.tolerance)
    (args.folder / "about.json").write_text(json.dumps({"max_error": error, "scale": 2 * args.tolerance}))


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("prepare")
    storing.add_argument("field", type=Path)
    storing.add_argument("folder", type=Path)
    storing.add_argument("--edge", type=int, required=True)
    storing.add_argument("--tolerance", type=float, required=True)
    answering = commands.add_parser("answer")
    answering.add_argument("name", choices=PEERS)
    answering.add_argument("url")
    answering.add_argument("--device", required=True, help="network device whose bytes are counted")
    answering.add_argument("--scale", type=float, required=True, help="unit of the stored integers")
    args = parser.parse_args()
    if args.command == "prepare":
        prepare(args)
    else:
        converse(args)


if __name__ == "__main__":
    main()
