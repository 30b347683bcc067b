"""The command `quarry export`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from quarry import _dataset, _quarry
from quarry._errors import Error
from quarry._grids import Box, Region

_EXIT_CODES = {
    **dict.fromkeys(("INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"), 2),
    "NOT_FOUND": 3, "DATA_LOSS": 4,
    **dict.fromkeys(("CANCELLED", "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "ABORTED",
                     "UNAVAILABLE", "UNAUTHENTICATED"), 5)}


_OPTIONS = {"resume=True": "--resume", "overwrite=True": "--overwrite", "fields=[NAME]": "--fields NAME",
            "box={\"AXIS\": (LOW, HIGH)}": "--region AXIS=LOW:HIGH", "in `fields`": "in --fields"}
"""What they are instead of arguments in Python."""


def main(arguments: Sequence[str]) -> int:
    """`quarry export TARGET OUTPUT ...`; the exit code."""
    given = _parser().parse_args(arguments)
    warnings.showwarning = lambda message, *where: print(f"quarry export: warning: {message}", file=sys.stderr)
    return ended("quarry export", lambda: _export(given), "interrupted; --resume continues", _in_options)


def _export(given: argparse.Namespace) -> int:
    with opened(given) as dataset:
        fields = given.fields.split(",") if given.fields else None
        steps = steps_of(given.steps, dataset.steps)
        paths = dataset.export(
            given.output, fields=fields, steps=steps, box=_box(given, dataset, fields, steps), level=given.level,
            max_error=given.max_error, layer=given.layer, format=given.format,
            overwrite=given.overwrite, resume=given.resume, progress=given.progress)
    for path in paths:
        print(path)
    return 0


def ended(command: str, act: Callable[[], int], interrupted: str = "interrupted",
          reworded: Callable[[str], str] = str) -> int:
    """The exit code of what a command does. Its errors go to stderr, reworded for users of the command."""
    try:
        return act()
    except KeyboardInterrupt:
        text, code = interrupted, 130
    except Error as error:
        text, code = reworded(str(error)), _EXIT_CODES.get(error.code, 1)
    except (ValueError, KeyError, ImportError, OSError) as error:
        text, code = reworded(str(error.args[0] if isinstance(error, KeyError) else error)), 2
    print(f"{command}: {text}", file=sys.stderr)
    return code


def opened(given: argparse.Namespace) -> _dataset.Dataset:
    """The dataset that the arguments name, with those of `add_server`."""
    token = Path(given.token_file).read_text().strip() if given.token_file else os.environ.get("QUARRY_TOKEN", "")
    return _dataset.open(given.target, token=token, ca=given.ca, certificate=given.cert, key=given.key,
                         timeout=given.timeout, encoding=given.encoding)


def _in_options(text: str) -> str:
    """A message as users of the command would say it."""
    for said, meant in _OPTIONS.items():
        text = text.replace(said, meant)
    return text


def steps_of(text: str | None, known: Sequence[int]) -> list[int] | None:
    """Numbers, or ranges of published steps: "3,5,10:100:5". None of no text."""
    if not text:
        return None
    chosen: list[int] = []
    for part in text.split(","):
        try:
            bounds = [int(number) if number else None for number in part.split(":")]
            if len(bounds) == 1 and bounds[0] is not None:
                chosen.append(bounds[0])
                continue
            begin, end, stride = (*bounds, None)[:3] if len(bounds) in (2, 3) else (None, None, 0)
            if end is None:
                end = known[-1] + 1 if known else 0
            wanted = range(begin or 0, end, 1 if stride is None else stride)
        except (ValueError, IndexError):
            raise ValueError(f"--steps {text} is no list of numbers and of BEGIN:END or BEGIN:END:STRIDE") from None
        chosen += [number for number in known if number in wanted]
    return chosen


def _box(given: argparse.Namespace, dataset: _dataset.Dataset, fields: Sequence[str] | None,
         steps: Sequence[int] | None) -> Box | Region | None:
    """AXIS=LOW:HIGH or x0:x1,y0:y1,z0:z1, as for the other commands; the default is the whole grid."""
    if given.region:
        positions: dict[str, tuple[float | None, float | None]] = {}
        for axis, low, high in _quarry.parse_region(given.region):
            if axis in positions:
                raise ValueError(f"\"{axis}\" and \"{axis}\" are the same axis; give it once")
            positions[axis] = low, high
        return positions
    if not given.box:
        return None
    from quarry._export_formats import format_of
    from quarry._export_selection import select
    kind = format_of(Path(given.output), given.format)
    grid = select(dataset, fields, steps, kind).grid_of_samples
    try:
        parts = [part.split(":") for part in given.box.split(",")]
        x, y, z = ((int(begin or 0), int(end or length))
                   for (begin, end), length in zip(parts, grid.shape[::-1], strict=True))
    except ValueError:
        raise ValueError(f"--box {given.box} is no x0:x1,y0:y1,z0:z1") from None
    return z, y, x


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quarry export", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="writes fields of a dataset to a NetCDF, HDF5, Zarr, VTK, TIFF, CSV or NumPy file, box by box",
        epilog="Example:\n  quarry export grpc://127.0.0.1:50051/run42 region.nc --fields speed,pressure --steps "
               "0:1000:10 --box 0:64,0:64,: --resume --progress")
    add = parser.add_argument
    add("target", metavar="TARGET", help="dataset directory, or grpc://HOST:PORT/NAME")
    add("output", metavar="OUTPUT", help="file to write: .nc, .h5, .hdf5, .zarr, .npz, .npy or .tif (one field), "
        ".csv (a line of the grid), .vti or .vtr (a file a step: NAME-STEP.vti, if there are several), .pvti (each of "
        "them in pieces), or .pvd (the same, and a list of them with their times)")
    add("--fields", help="names, separated by commas; default: all. Of formats that hold one grid or one field, a "
        "warning names what is left out")
    add("--steps", help="numbers, BEGIN:END or BEGIN:END:STRIDE, separated by commas; default: all that hold one of "
        "the fields")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--box", help="x0:x1,y0:y1,z0:z1, half-open, level-0 samples, of fields on one grid; default: "
                       "the whole grid")
    where.add_argument("--region", help="instead of --box: AXIS=LOW:HIGH, in the units of the axes, both ends "
                       "included, for example lat=40:50,z=0:100, for each field that has the axis; default for "
                       "each axis: the whole axis")
    add_level(parser)
    add("--format", choices=["netcdf", "hdf5", "zarr", "vti", "vtr", "pvti", "pvd", "tiff", "csv", "npy", "npz"],
        help="default: that of the suffix of OUTPUT")
    add("--overwrite", action="store_true", help="replace OUTPUT when the export is complete")
    add("--resume", action="store_true", help="continue an interrupted export, or begin a new one")
    add("--progress", action="store_true", help="show a bar; needs tqdm")
    add_server(parser)
    return parser


def add_level(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose a level and a layer."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--level", type=int, help="0 is full resolution, l every 2^l-th sample; default: 0")
    which.add_argument("--max-error", type=float, help="instead of --level and --layer: those with the fewest bytes at "
                       "which all fields and steps are within this error, in the field's unit")
    parser.add_argument("--layer", type=int, help="layer of accuracy, 0 the roughest; default: the last")


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds the options for servers."""
    server = parser.add_argument_group("Server").add_argument
    server("--timeout", type=float, default=0,
           help="timeout for an answer of the server, in seconds; default: 0, no limit")
    server("--ca", default=os.environ.get("QUARRY_CA", ""), help="for grpcs://: PEM file of the authorities to trust")
    server("--cert", default=os.environ.get("QUARRY_CERT", ""),
           help="for grpcs://: PEM file of the client's certificate")
    server("--key", default=os.environ.get("QUARRY_KEY", ""), help="private key of --cert, a PEM file")
    server("--token-file", default=os.environ.get("QUARRY_TOKEN_FILE"), help="file with the token; default: the "
           "variable QUARRY_TOKEN")
    server("--encoding", choices=["auto", "samples", "patches", "coded"], default="auto",
           help="encoding of a server's answer")
