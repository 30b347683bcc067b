#!/usr/bin/env python3
"""Libraries that read a field from a bucket, in a process that forks for each question.

  readers.py upload FOLDER PREFIX           puts the files of a folder into the bucket
  readers.py answer NAME --scale 0.01       answers questions, one JSON object a line

The store is that of the variables AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and
AWS_CA_BUNDLE. The peers' arrays are those of ../network/peers.py: int16 in chunks of 64^3, and levels of them.
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

BUCKET = "bench"
MODULES = {"quarry": ["quarry"], "tensorstore": ["tensorstore"], "zarr": ["zarr", "obstore.store", "zarr.storage"],
           "h5py": ["h5py", "hdf5plugin", "s3fs"]}

Samples = NDArray[np.float32]
Box = tuple[slice, ...]  # along z, y, x, in samples of the level


def is_plain() -> bool:
    """Whether the store has no TLS."""
    return os.environ["AWS_ENDPOINT_URL"].startswith("http://")


def bucket() -> Any:
    """The bucket as obstore has it."""
    from obstore.store import S3Store

    return S3Store(BUCKET, endpoint=os.environ["AWS_ENDPOINT_URL"], region=os.environ["AWS_REGION"],
                   client_options={"allow_http": is_plain()})


def quarry_read(level: int, box: Box, _: float) -> Samples:
    """Opens the dataset and reads: boxes are in samples of full resolution."""
    import quarry

    with quarry.open(f"s3://{BUCKET}/served/turb.quarry", allow_http=True) as dataset:
        whole = [(part.start << level, part.stop << level) for part in box]
        return np.asarray(dataset["u"].read(box=tuple(whole), level=level))


def tensorstore_read(level: int, box: Box, scale: float) -> Samples:
    """Without a cache."""
    import tensorstore as ts

    where = {"driver": "s3", "bucket": BUCKET, "path": f"peers/level{level}.zarr/",
             "endpoint": os.environ["AWS_ENDPOINT_URL"], "aws_region": os.environ["AWS_REGION"]}
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    array = ts.open({"driver": "zarr3", "kvstore": where}, read=True, context=context).result()
    return np.asarray(array[box].read().result(), np.float32) * np.float32(scale)


def zarr_read(level: int, box: Box, scale: float) -> Samples:
    """zarr-python with obstore, as many requests at a time as it likes."""
    import zarr
    from zarr.storage import ObjectStore

    array: Any = zarr.open_array(ObjectStore(bucket(), read_only=True), path=f"peers/level{level}.zarr", mode="r",
                                 zarr_format=3)
    return np.asarray(array[box], np.float32) * np.float32(scale)


def h5py_read(level: int, box: Box, scale: float) -> Samples:
    """h5py with s3fs, in blocks of 1 MiB that stay in memory."""
    import h5py
    import hdf5plugin  # noqa: F401
    import s3fs

    files = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"], skip_instance_cache=True)
    file = files.open(f"{BUCKET}/peers/field.h5", block_size=1 << 20, cache_type="blockcache")
    return np.asarray(h5py.File(file, "r")[f"level{level}"][box], np.float32) * np.float32(scale)


READERS = {"quarry": quarry_read, "tensorstore": tensorstore_read, "zarr": zarr_read, "h5py": h5py_read}


def reply(name: str, question: dict[str, Any], scale: float) -> dict[str, Any]:
    """Opens and reads; then looks at a few samples, so that nobody is quick and wrong."""
    level = question["level"]
    box = tuple(slice(begin, end) for begin, end in question["box"])
    begin = time.perf_counter()
    found = READERS[name](level, box, scale)
    seconds = time.perf_counter() - begin
    if list(found.shape) != [part.stop - part.start for part in box]:
        raise ValueError(f"the answer has the shape {found.shape}")
    if level == 0:
        field = np.memmap(question["field"], "<f4", "r").reshape((question["edge"],) * 3)
        worst = float(np.abs(found[::8].astype(np.float64) - field[box][::8]).max())
        if worst > 1.001 * question["tolerance"]:
            raise ValueError(f"a sample differs by {worst} instead of {question['tolerance']}")
    return {"seconds": seconds}


def converse(args: argparse.Namespace) -> None:
    """Each question in a process of its own, which has the library, but no connection yet."""
    for module in MODULES[args.name]:
        __import__(module)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                said = reply(args.name, json.loads(line), args.scale)
            except Exception as error:  # any exception of a library is the answer
                said = {"error": repr(error)}
            print(json.dumps(said), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def upload(args: argparse.Namespace) -> None:
    """Files that are laid into the server's folder would have no ETag."""
    import obstore

    store = bucket()
    for file in sorted(args.folder.rglob("*")):
        if file.is_file():
            obstore.put(store, f"{args.prefix}/{file.relative_to(args.folder)}", file.read_bytes())


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    uploading = commands.add_parser("upload")
    uploading.add_argument("folder", type=Path)
    uploading.add_argument("prefix")
    answering = commands.add_parser("answer")
    answering.add_argument("name", choices=READERS)
    answering.add_argument("--scale", type=float, required=True, help="unit of the stored integers")
    args = parser.parse_args()
    if args.command == "upload":
        upload(args)
    else:
        converse(args)


if __name__ == "__main__":
    main()
