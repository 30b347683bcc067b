#!/usr/bin/env python3
"""Measures SZ3, SPERR, zfp, pcodec, fpzip and blosc2 on the volumes that fields.py made.

Each gets the whole volume, at the same absolute tolerances as Quarry's coders, in memory, on one thread.
  sz3-VERSION    PyPI's pysz, the binding of SZ3's authors; the version is that in the stream. Default algorithm
                 (interpolation and Lorenzo), absolute error mode.
  sz3-hdf5plugin, sperr, zfp
                 PyPI's hdf5plugin: filters of HDF5, the volume one chunk of a file in memory. The SZ3 in it is an older one
                 (3.1). SPERR in point-wise error mode, zfp at fixed accuracy. The wheel is built for SSE2.
  hdf5-unfiltered
                 HDF5 without a filter: the cost of the library's copies, which the times of the filters include.
  pcodec, fpzip, blosc2
                 lossless: PyPI's packages of these names with their defaults; blosc2 with bit shuffle and zstd. They get the
                 volume as it is, fill values and all.
Where a volume has missing samples, peers get it with these replaced smoothly, because they have no masks. Errors are those of
the valid samples, and the bytes of a mask (one bit a sample, lzma) are added.

Writes one JSON object per line, like codec_bench:
  volume, coder, tolerance (of the range; none: lossless), ratio, bytes, bits_per_sample, error_over_tolerance, psnr, encode_mbps, decode_mbps
MB/s are 1e6 bytes of samples a second, the best of --repeats.

Example: peers.py build/benchmark/fields --tolerances 1e-2 1e-3 --only wmag91
"""

import argparse
import importlib.metadata
import json
import math
import os
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

LOSSY = ["sz3", "sz3-hdf5plugin", "sperr", "zfp", "hdf5-unfiltered"]
LOSSLESS = ["pcodec", "fpzip", "blosc2"]


class Sz3:
    """Through pysz."""

    def __init__(self):
        from pysz import sz, szConfig, szErrorBoundMode

        self._sz, self._config, self._mode = sz, szConfig, szErrorBoundMode.ABS
        self.version = None

    def round_trip(self, samples, tolerance):
        """Encodes and decodes once. Returns the bytes, the seconds of both, and the decoded samples."""
        config = self._config()
        config.errorBoundMode = self._mode
        config.absErrorBound = tolerance
        begin = time.perf_counter()
        stream, _ = self._sz.compress(samples, config)
        middle = time.perf_counter()
        decoded, _ = self._sz.decompress(stream, samples.dtype, samples.shape)
        end = time.perf_counter()
        # A stream starts with a magic number and the version, four bytes each, lowest byte first.
        self.version = ".".join(str(part) for part in bytes(stream[4:8])[:0:-1])
        return stream.nbytes, middle - begin, end - middle, decoded

    def name(self):
        return f"sz3-{self.version}"


class Hdf5Filter:
    """Through hdf5plugin."""

    def __init__(self, name):
        import h5py
        import hdf5plugin

        self._h5py, self._name, self.version = h5py, name, f"hdf5plugin {hdf5plugin.version}"
        self._options = {
            "sz3-hdf5plugin": lambda tolerance: hdf5plugin.SZ3(absolute=tolerance),
            "sperr": lambda tolerance: hdf5plugin.Sperr(absolute=tolerance),
            "zfp": lambda tolerance: hdf5plugin.Zfp(accuracy=tolerance),
            "hdf5-unfiltered": lambda tolerance: {},
        }[name]

    def round_trip(self, samples, tolerance):
        """As Sz3.round_trip."""
        import numpy as np

        shape = samples.shape
        if self._name == "sperr":
            # SPERR's filter takes HDF5's first dimension for the fastest one: with dimensions in HDF5's order, a volume that
            # is not a cube would be cut across its rows, at three times the size.
            samples = samples.reshape(shape[::-1])
        decoded = np.empty_like(samples)
        # Without a chunk cache write_direct runs the filter itself; with a cache it may run at the next flush or not at all.
        with self._h5py.File("memory", "w", driver="core", backing_store=False, rdcc_nbytes=0) as file:
            dataset = file.create_dataset("samples", samples.shape, samples.dtype, chunks=samples.shape,
                                          **self._options(tolerance))
            begin = time.perf_counter()
            dataset.write_direct(samples)
            file.flush()
            middle = time.perf_counter()
            dataset.read_direct(decoded)
            end = time.perf_counter()
            chunk = dataset.id.get_chunk_info(0)
            if chunk.filter_mask != 0:
                raise RuntimeError("the filter was skipped")
            return chunk.size, middle - begin, end - middle, decoded.reshape(shape)

    def name(self):
        return self._name


class Lossless:
    """Through the package of the same name."""

    def __init__(self, name):
        self._name = name
        self._encode, self._decode = getattr(self, f"_{name}")()
        self.version = importlib.metadata.version(name)

    @staticmethod
    def _pcodec():
        from pcodec import ChunkConfig, standalone

        return lambda samples: standalone.simple_compress(samples.ravel(), ChunkConfig()), standalone.simple_decompress

    @staticmethod
    def _fpzip():
        import fpzip

        return lambda samples: fpzip.compress(samples, order="C"), lambda stream: fpzip.decompress(stream, order="C")

    @staticmethod
    def _blosc2():
        import blosc2

        def encode(samples):
            return blosc2.compress2(samples, typesize=samples.itemsize, codec=blosc2.Codec.ZSTD, clevel=5, nthreads=1,
                                    filters=[blosc2.Filter.BITSHUFFLE])

        return encode, lambda stream: blosc2.decompress2(stream, nthreads=1)

    def round_trip(self, samples, tolerance):
        """As Sz3.round_trip. There is no tolerance."""
        import numpy as np

        begin = time.perf_counter()
        stream = self._encode(samples)
        middle = time.perf_counter()
        decoded = self._decode(stream)
        end = time.perf_counter()
        return len(stream), middle - begin, end - middle, np.frombuffer(decoded, samples.dtype).reshape(samples.shape)

    def name(self):
        return self._name


def open_peers(names):
    """The installed peers; prints the missing ones."""
    peers = []
    for name in names:
        try:
            peers.append(Sz3() if name == "sz3" else Lossless(name) if name in LOSSLESS else Hdf5Filter(name))
        except ImportError as error:
            print(f"peers.py: {name} is left out: {error}; pip install pysz h5py hdf5plugin pcodec fpzip blosc2", file=sys.stderr)
    return peers


def load(folder, entry, lossless):
    """The samples that are coded, and which of them count (None: all)."""
    import numpy as np

    dtype = np.dtype(entry["type"]).newbyteorder("<")
    shape = tuple(reversed(entry["dims"]))
    original = np.fromfile(folder / entry["file"], dtype).reshape(shape)
    if lossless or "filled" not in entry:
        return original, None
    filled = np.fromfile(folder / entry["filled"], dtype).reshape(shape)
    return filled, original != dtype.type(entry["fill"])


def compare(samples, decoded, valid):
    """Largest absolute difference and RMSE over the valid samples, in float64."""
    import numpy as np

    difference = samples.astype(np.float64) - decoded
    if valid is not None:
        difference = difference[valid]
    return float(np.abs(difference).max()), math.sqrt(float(np.mean(difference * difference)))


def figures(entry, samples, peer, size, runs):
    """Figures that lossy and lossless peers have in common."""
    return {
        "program": "peers",
        "volume": entry["name"],
        "coder": peer.name(),
        "version": peer.version,
        "bytes": size,
        "ratio": samples.nbytes / size,
        "bits_per_sample": 8.0 * size / samples.size,
        "encode_mbps": samples.nbytes / 1e6 / min(run[1] for run in runs),
        "decode_mbps": samples.nbytes / 1e6 / min(run[2] for run in runs),
        "repeats": len(runs),
    }


def measure_lossless(entry, samples, peer, repeats):
    runs = [peer.round_trip(samples, None) for _ in range(repeats)]
    size, _, _, decoded = runs[0]
    if decoded.tobytes() != samples.tobytes():
        raise RuntimeError("the samples that come back are others")
    return figures(entry, samples, peer, size, runs)


def measure(entry, samples, valid, peer, relative, repeats):
    value_range = entry["max"] - entry["min"]
    tolerance = relative * value_range
    runs = [peer.round_trip(samples, tolerance) for _ in range(repeats)]
    size, _, _, decoded = runs[0]
    size += entry.get("filled_mask_bytes", 0)
    max_error, rmse = compare(samples, decoded, valid)
    return figures(entry, samples, peer, size, runs) | {
        "tolerance": relative,
        "tolerance_absolute": tolerance,
        "max_error": max_error,
        "error_over_tolerance": max_error / tolerance,
        "psnr": 20.0 * math.log10(value_range / rmse) if rmse > 0 else None,
        "filled_before": valid is not None,
    }


def measured(entry, args, peers):
    """The results for a volume, one after the other; prints what fails."""
    exact = [peer for peer in peers if isinstance(peer, Lossless)]
    lossy = [peer for peer in peers if peer not in exact] if entry["purpose"] == "lossy" else []
    for peer, relative in [(peer, None) for peer in exact] + [(peer, t) for t in args.tolerances for peer in lossy]:
        samples, valid = load(args.fields, entry, lossless=relative is None)
        try:
            if relative is None:
                yield measure_lossless(entry, samples, peer, args.repeats)
            else:
                yield measure(entry, samples, valid, peer, relative, args.repeats)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            at = "" if relative is None else f" at {relative:g}"
            print(f"peers.py: {peer.name()} failed on {entry['name']}{at}: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields", type=Path, help="folder that fields.py filled")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3, 1e-4, 1e-5],
                        help="relative to the range of each volume")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these volumes only")
    parser.add_argument("--peers", nargs="+", choices=LOSSY + LOSSLESS, default=LOSSY + LOSSLESS)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    peers = open_peers(args.peers)
    for entry in json.loads((args.fields / "fields.json").read_text()):
        if args.only and entry["name"] not in args.only:
            continue
        for result in measured(entry, args, peers):
            print(json.dumps(result), flush=True)
    return 0 if peers else 3


if __name__ == "__main__":
    sys.exit(main())
