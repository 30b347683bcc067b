"""From datasets to files of other formats, box by box."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from quarry import _dataset, _quarry
from quarry._dataset import Dataset
from quarry._errors import Error
from quarry._export_formats import (
    Axis,
    Layout,
    Output,
    Triple,
    Variable,
    boxes,
    format_of,
    library,
    make_room,
    remove,
    sync,
)
from quarry._samples import Box, positions

if TYPE_CHECKING:
    import numpy.typing as npt

_BOX_BYTES = 64 << 20
"""Of samples that are held at a time, where a patch is not larger."""

_RECORD_BYTES = 64 << 20
"""After so much the disk is waited for, and what is done is recorded."""


def export(dataset: Dataset, path: str | os.PathLike[str], *, fields: str | Iterable[str] | None,
           steps: int | Iterable[int] | None, box: Box | None, level: int | None,
           max_error: float | Mapping[str, float] | None, format: str | None, overwrite: bool, resume: bool,
           progress: bool) -> list[Path]:
    """See Dataset.export."""
    final = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    kind = format_of(final, format)
    output = kind(final, _layout(dataset, fields, steps, box, level, max_error))
    _check_target(output, overwrite)
    with _Record(output, resume) as record:
        _write(dataset, output, record, progress)
        _publish(output, overwrite)
        record.remove()
    return output.finals


def _check_target(output: Output, overwrite: bool) -> None:
    """Before anything is read, and again before anything is replaced."""
    if not output.path.parent.is_dir():
        raise Error("NOT_FOUND", f"there is no folder \"{output.path.parent}\" to export to; make it first")
    for final in output.finals:
        if not os.path.lexists(final):
            continue
        if not overwrite:
            raise Error("ALREADY_EXISTS", f"\"{final}\" exists; give another name, or overwrite=True to replace it "
                        "when the export is complete")
        if final.is_dir() and not (final / "zarr.json").is_file():
            raise Error("ALREADY_EXISTS", f"\"{final}\" is a folder, and no group of Zarr that an export could "
                        "replace; give another name")


# ---- What is exported

def _layout(dataset: Dataset, fields: str | Iterable[str] | None, steps: int | Iterable[int] | None, box: Box | None,
            level: int | None, max_error: float | Mapping[str, float] | None) -> Layout:
    grid = dataset.native
    names = [fields] if isinstance(fields, str) else list(dataset if fields is None else dict.fromkeys(fields))
    said = {name: dataset[name]._description for name in names}
    if not names:
        raise ValueError("there is no field to export")
    chosen = _chosen(dataset, names, steps)
    held = {name: [next((one for one in step.fields if one.name == name), None) for step in chosen] for name in names}
    if fields is None:
        names = [name for name in names if any(held[name])]  # what none of the steps has is no part of them
    for name in names:
        if not any(held[name]):
            raise Error("NOT_FOUND", f"none of the steps {[step.step for step in chosen][:10]} of "
                        f"\"{dataset.target}\" has the field {name!r}; leave it out, or give other steps")
    at = _level(dataset, {name: held[name] for name in names}, level, max_error)
    extent = _extent(grid, box, at)
    taken = set(names)
    axes = [_axis(grid, number, at, extent[number], taken) for number in range(3)]
    z, y, x = (max(1, length >> at) for length in grid.patch)
    return Layout(
        variables=tuple(_variable(said[name], held[name], at, [step.step for step in chosen]) for name in names),
        axes=(axes[0], axes[1], axes[2]), step=_free("step", taken), time=_free("time", taken),
        numbers=tuple(step.step for step in chosen),
        times=tuple(float("nan") if step.time is None else step.time for step in chosen), patch=(z, y, x),
        offset=(extent[0][0], extent[1][0], extent[2][0]), attrs=_provenance(dataset, box, at))


def _chosen(dataset: Dataset, names: Sequence[str], numbers: int | Iterable[int] | None) -> list[_quarry.Step]:
    """The steps of these numbers; those that hold one of the fields, if none are given."""
    steps = dataset.native.steps()
    if numbers is None:
        chosen = [step for step in steps if any(field.name in names for field in step.fields)]
        if not chosen:
            raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step with {', '.join(names)} yet")
        return chosen
    known = {step.step: step for step in steps}
    wanted = sorted({numbers} if isinstance(numbers, int) else {int(number) for number in numbers})
    if not wanted:
        raise ValueError("there is no step to export")
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


Held = Sequence[_quarry.FieldStep | None]


def _worst(held: Held, level: int) -> tuple[float, float]:
    """The largest error of a level, and the least coverage."""
    records = [step.levels[level] for step in held if step]
    return max(record.max_error for record in records), min(record.coverage for record in records)


def _level(dataset: Dataset, held: Mapping[str, Held], level: int | None,
           max_error: float | Mapping[str, float] | None) -> int:
    """The level that is meant. For a max_error, the coarsest at which all fields and steps are within it."""
    if max_error is None:
        if not 0 <= (level or 0) < dataset.levels:
            raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to "
                             f"{dataset.levels - 1}")
        return int(level or 0)
    if level:
        raise ValueError("only one of level and max_error can be given")
    allowed = dict(max_error) if isinstance(max_error, Mapping) else dict.fromkeys(held, max_error)
    if unknown := set(allowed) - set(held):
        raise ValueError(f"max_error names {', '.join(sorted(unknown))}; there are {', '.join(held)}")
    if bad := [error for error in allowed.values() if not error >= 0]:
        raise ValueError(f"max_error {bad[0]} is not a number from 0 on")
    for candidate in reversed(range(dataset.levels)):
        worst = {name: _worst(held[name], candidate) for name in allowed}
        if all(error <= allowed[name] and coverage >= 1 for name, (error, coverage) in worst.items()):
            return candidate
    if all(_worst(held[name], 0)[0] <= error for name, error in allowed.items()):
        return 0
    least = {name: _worst(held[name], 0)[0] for name in allowed}
    raise Error("NOT_FOUND", f"no level of \"{dataset.target}\" keeps an error of {max_error}: level 0, the finest, "
                f"has {least}; ask for an error of at least that, or for level 0")


def _extent(grid: _quarry.Dataset, box: Box | None, level: int) -> list[tuple[int, int]]:
    """First and last of the samples of a level in a box, z, y, x."""
    extent = []
    asked = box or [(0, length) for length in grid.shape]
    for axis, (length, (begin, end)) in enumerate(zip(grid.shape, asked, strict=True)):
        if not 0 <= begin < end <= length:
            raise ValueError(f"the box has [{begin}, {end}) along {'zyx'[axis]}, and the grid [0, {length}); give "
                             "((z0, z1), (y0, y1), (x0, x1)) inside it, not empty")
        first, behind = -(-begin >> level), -(-end >> level)
        if first >= behind:
            raise ValueError(f"no sample of level {level} lies in [{begin}, {end}) along {'zyx'[axis]}; give a larger "
                             "box or a finer level")
        extent.append((first, behind))
    return extent


def _free(name: str, taken: set[str]) -> str:
    """The name, unless something else in the file has it."""
    while name in taken:
        name += "_axis"
    taken.add(name)
    return name


def _axis(grid: _quarry.Dataset, axis: int, level: int, extent: tuple[int, int], taken: set[str]) -> Axis:
    letter = "zyx"[axis]
    return Axis(_free(letter, taken), grid.axis_names[axis] or letter, grid.axis_units[axis],
                positions(grid, axis)[::1 << level][slice(*extent)])


def _variable(said: _quarry.FieldDescription, held: Held, level: int, numbers: Sequence[int]) -> Variable:
    dtype = np.dtype(said.dtype).newbyteorder("<")
    fill = dtype.type(np.nan) if dtype.kind == "f" else None if said.fill is None else dtype.type(said.fill)
    without = [number for number, step in zip(numbers, held, strict=True) if step is None]
    if without and fill is None:
        raise ValueError(f"{said.name!r} is not in the steps {without[:10]}, and has no fill value that could stand "
                         "there; give steps that have it, or leave it out of fields")
    error, coverage = _worst(held, level)
    attrs: dict[str, Any] = {
        "long_name": said.name, "units": said.units or None, "coder": said.coder,
        "lossless": 1 if said.lossless else None, "level": level, "max_error": error,
        "tolerance": max(step.tolerance for step in held if step), "relative_tolerance": said.relative_tolerance,
        "coverage": coverage,
        "comment": f"missing in {len(without)} of {len(held)} steps, which do not hold it" if without else None}
    return Variable(said.name, dtype, fill, tuple(step is not None for step in held),
                    tuple(step is not None and step.has_missing for step in held),
                    {name: value for name, value in attrs.items() if value is not None})


def _provenance(dataset: Dataset, box: Box | None, level: int) -> dict[str, Any]:
    from quarry import __version__
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    whole = np.array(box or [(0, length) for length in dataset.shape], "<i8")
    return {"Conventions": "CF-1.11", "source": dataset.target, "created_by": dataset.native.created_by,
            "quarry_version": __version__, "date": now, "level": level, "box": whole.ravel()}


# ---- What is done

class _Record:
    """PATH.part.json: what is exported, and a line with the number of finished boxes whenever it grew. It is locked
    while an export runs."""

    def __init__(self, output: Output, resume: bool) -> None:
        self._output, self._resume = output, resume
        self._path = output.path.with_name(output.path.name + ".part.json")
        self._descriptor = -1
        self.done = 0
        """Boxes, in their order. None of them is read again."""
        self.is_begun = False
        """Whether an earlier export has made the files."""

    def __enter__(self) -> _Record:
        with _reported(self._output, 0):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._descriptor).st_nlink:
                raise BlockingIOError  # that one has just ended
        except OSError:
            os.close(self._descriptor)
            raise Error("UNAVAILABLE", f"another process exports to \"{self._output.path}\"; wait for it, or give "
                        "another name") from None
        try:
            if self._resume:
                self._read()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def _read(self) -> None:
        lines = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0).decode(errors="replace").split("\n")
        if len(lines) < 2:  # what has no end was never finished
            return
        try:
            begun = json.loads(lines[0])
            done = max(int(json.loads(line)["done"]) for line in lines[1:-1])
        except (ValueError, KeyError, TypeError):
            return
        ours = _identity(self._output.layout)
        if differing := [name for name in ours if begun.get(name) != ours[name]]:
            raise Error("FAILED_PRECONDITION", f"\"{self._output.parts[0]}\" was begun with other "
                        f"{', '.join(differing)}; ask for the same again, or leave out resume to begin anew")
        self.is_begun, self.done = True, done

    def begin(self) -> None:
        """Nothing is done."""
        os.ftruncate(self._descriptor, 0)
        self._append(_identity(self._output.layout))
        self.note(0)

    def note(self, done: int) -> None:
        """That so many boxes are on the disk."""
        self._append({"done": done})
        self.done = done

    def _append(self, line: dict[str, Any]) -> None:
        text = (json.dumps(line) + "\n").encode()
        if os.write(self._descriptor, text) != len(text):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(self._descriptor)

    def remove(self) -> None:
        """All is done."""
        self._path.unlink()


def _identity(layout: Layout) -> dict[str, Any]:
    """What has to be the same for an export to be continued."""
    variables = [(variable.name, variable.dtype.str, variable.held, repr(variable.fill))
                 for variable in layout.variables]
    errors = [(variable.attrs, variable.missing) for variable in layout.variables]
    coordinates = hashlib.sha256(b"".join(axis.positions.tobytes() for axis in layout.axes)).hexdigest()
    content = hashlib.sha256(repr((errors, layout.times, coordinates)).encode()).hexdigest()
    return {"fields": json.loads(json.dumps(variables)), "steps": list(layout.numbers), "shape": list(layout.shape),
            "offset": list(layout.offset), "level": layout.attrs["level"], "created_by": layout.attrs["created_by"],
            "box_bytes": _BOX_BYTES, "content": content}


# ---- Writing

@contextlib.contextmanager
def _reported(output: Output, done: int) -> Iterator[None]:
    """Errors of the system, and of libraries that hide them, as errors of Quarry."""
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError) as error:
        why = str(error)
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        if not why.startswith(("No space", "File too large", "Permission")):
            with contextlib.suppress(OSError):
                space = os.statvfs(output.path.parent)
                why += f" ({space.f_bavail * space.f_frsize >> 20} MiB are free on that disk)"
        raise Error("INTERNAL", f"cannot write \"{output.parts[0]}\": {why}; {done} boxes are complete: make room, "
                    "and continue with resume=True") from error


def _write(dataset: Dataset, output: Output, record: _Record, progress: bool) -> None:
    units = list(_units(output))
    with _Bar(output, units, progress) as bar, contextlib.ExitStack() as stack:
        stack.callback(_close, output)
        with _reported(output, record.done):
            _begin(output, record, len(units))
        bar.update(sum(unit.bytes for unit in units[:record.done]))
        written, done = 0, record.done
        try:
            for unit in units[record.done:]:
                block = unit.load(dataset, output.layout)
                with _reported(output, done):
                    output.put(unit.variable, unit.step, unit.begin, block)
                written, done = written + unit.bytes, done + 1
                if written >= _RECORD_BYTES:
                    _note(output, record, done)
                    written = 0
                bar.update(unit.bytes)
        except BaseException:
            # On a full disk this can fail once more, and the last record holds.
            with contextlib.suppress(Exception):
                _note(output, record, done)
            raise
        if written:
            _note(output, record, done)


def _note(output: Output, record: _Record, done: int) -> None:
    with _reported(output, record.done):
        output.flush()
        record.note(done)


def _begin(output: Output, record: _Record, units: int) -> None:
    """Makes the files, or goes on with those of an earlier export."""
    there = [part.exists() for part in output.parts]
    if record.done == units and any(there):  # it was interrupted while it gave them their names
        return
    if record.is_begun and all(there):
        output.reopen()
        return
    record.done = 0
    for part in output.parts:
        remove(part)
    try:
        make_room(output)
        output.create()
        output.flush()
        record.begin()
    except BaseException:
        _close(output)
        for part in output.parts:
            remove(part)
        record.remove()
        raise


def _close(output: Output) -> None:
    # All is flushed, or an error is on its way.
    with contextlib.suppress(OSError, RuntimeError):
        output.close()


@dataclass(frozen=True)
class _Unit:
    """A box of a field and step, in samples of the file.

    Attributes:
        variable, step: their places
        begin, end: z, y, x
    """

    variable: int
    step: int
    begin: Triple
    end: Triple
    bytes: int

    def load(self, dataset: Dataset, layout: Layout) -> npt.NDArray[Any]:
        """Its samples, [z, y, x]."""
        variable = layout.variables[self.variable]
        if not variable.held[self.step]:
            shape = [end - begin for begin, end in zip(self.begin, self.end, strict=True)]
            return np.full(shape, variable.fill, variable.dtype)
        level = layout.attrs["level"]
        z, y, x = (((first + offset) << level, ((behind + offset - 1) << level) + 1)
                   for first, behind, offset in zip(self.begin, self.end, layout.offset, strict=True))
        question = _quarry.Question(variable.name, step=layout.numbers[self.step], box=(z, y, x), level=level)
        return np.asarray(dataset.native.read(question, variable.missing[self.step]).array)


def _units(output: Output) -> Iterator[_Unit]:
    """Everything, in the order of the file."""
    of_type = {variable.dtype: boxes(output, variable.dtype.itemsize, _BOX_BYTES)
               for variable in output.layout.variables}
    for step in range(len(output.layout.numbers)):
        for number, variable in enumerate(output.layout.variables):
            if not variable.held[step] and output.only_held:
                continue
            for begin, end in of_type[variable.dtype]:
                samples = int(np.prod([behind - first for first, behind in zip(begin, end, strict=True)]))
                yield _Unit(number, step, begin, end, samples * variable.dtype.itemsize)


def _publish(output: Output, overwrite: bool) -> None:
    """Gives everything its name; what had it stays until then."""
    with _reported(output, len(list(_units(output)))):
        parts = [(part, final) for part, final in zip(output.parts, output.finals, strict=True) if part.exists()]
        if len(parts) == len(output.finals):  # otherwise an earlier export had begun to
            _check_target(output, overwrite)
        for part, final in parts:
            _replace(part, final)
        sync(output.path.parent)


def _replace(part: Path, final: Path) -> None:
    if not (final.is_dir() or part.is_dir()) or not os.path.lexists(final):
        os.rename(part, final)
        return
    # A folder cannot be replaced at once.
    old = final.with_name(final.name + ".old")
    remove(old)
    os.rename(final, old)
    try:
        os.rename(part, final)
    except OSError:
        os.rename(old, final)
        raise
    remove(old)


class _Bar:
    """Shows how much is done."""

    def __init__(self, output: Output, units: Sequence[_Unit], shown: bool) -> None:
        self._bar: Any = None
        if shown:
            self._bar = library("tqdm.auto").tqdm(total=sum(unit.bytes for unit in units), unit="B", unit_scale=True,
                                                  desc=output.path.name)

    def update(self, count: int) -> None:
        if self._bar is not None:
            self._bar.update(count)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()


# ---- The command

_EXIT_CODES = {
    **dict.fromkeys(("INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"), 2),
    "NOT_FOUND": 3, "DATA_LOSS": 4,
    **dict.fromkeys(("CANCELLED", "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "ABORTED",
                     "UNAVAILABLE", "UNAUTHENTICATED"), 5)}


def main(arguments: Sequence[str]) -> int:
    """`quarry export TARGET OUTPUT ...`; the exit code."""
    given = _parser().parse_args(arguments)
    try:
        token = _token(given.token_file)
        with _dataset.open(given.target, token=token, ca=given.ca, certificate=given.cert, key=given.key,
                           timeout=given.timeout, encoding=given.encoding) as dataset:
            steps = [step.step for step in dataset.native.steps()]
            paths = dataset.export(
                given.output, fields=given.fields.split(",") if given.fields else None,
                steps=_steps(given.steps, steps) if given.steps else None,
                box=_box(given.box, dataset.shape) if given.box else None, level=given.level, max_error=given.max_error,
                format=given.format, overwrite=given.overwrite, resume=given.resume,
                progress=given.progress)
    except KeyboardInterrupt:
        print("quarry export: interrupted; --resume continues", file=sys.stderr)
        return 130
    except Error as error:
        print(f"quarry export: {_in_options(str(error))}", file=sys.stderr)
        return _EXIT_CODES.get(error.code, 1)
    except (ValueError, KeyError, ImportError, OSError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"quarry export: {_in_options(str(text))}", file=sys.stderr)
        return 2
    for path in paths:
        print(path)
    return 0


def _in_options(text: str) -> str:
    """A message as users of the command would say it."""
    for name in ("resume", "overwrite"):
        text = text.replace(f"{name}=True", f"--{name}")
    return text


def _token(path: str | None) -> str:
    if path:
        return Path(path).read_text().strip()
    return os.environ.get("QUARRY_TOKEN", "")


def _steps(text: str, known: Sequence[int]) -> list[int]:
    """Numbers, or ranges of published steps: "3,5,10:100:5"."""
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


def _box(text: str, shape: Triple) -> Box:
    """x0:x1,y0:y1,z0:z1, as the other commands have it; what is left out is the grid's."""
    try:
        parts = [part.split(":") for part in text.split(",")]
        x, y, z = ((int(begin or 0), int(end or length))
                   for (begin, end), length in zip(parts, shape[::-1], strict=True))
    except ValueError:
        raise ValueError(f"--box {text} is no x0:x1,y0:y1,z0:z1") from None
    return z, y, x


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quarry export", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="writes fields of a dataset to a NetCDF, HDF5, Zarr, VTK or NumPy file, box by box",
        epilog="Example:\n  quarry export grpc://127.0.0.1:50051/run42 region.nc --fields speed,pressure --steps "
               "0:1000:10 --box 0:64,0:64,: --resume --progress")
    add = parser.add_argument
    add("target", metavar="TARGET", help="dataset directory, or grpc://HOST:PORT/NAME")
    add("output", metavar="OUTPUT", help="file to write: .nc, .h5, .hdf5, .zarr, .npy (one field), or .vti (a file a "
        "step: NAME-STEP.vti, if there are several)")
    add("--fields", help="names, separated by commas; default: all")
    add("--steps", help="numbers, BEGIN:END or BEGIN:END:STRIDE, separated by commas; default: all that hold one of "
        "the fields")
    add("--box", help="x0:x1,y0:y1,z0:z1, half-open, level-0 samples; default: the whole grid")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--level", type=int, help="0 is full resolution, l every 2^l-th sample; default: 0")
    which.add_argument("--max-error", type=float, help="instead of --level: the coarsest level at which all fields "
                       "and steps are within this error, in the field's unit")
    add("--format", choices=["netcdf", "hdf5", "zarr", "vti", "npy"], help="default: that of the suffix of OUTPUT")
    add("--overwrite", action="store_true", help="replace OUTPUT when the export is complete")
    add("--resume", action="store_true", help="continue what was interrupted, and begin where nothing was")
    add("--progress", action="store_true", help="show a bar; needs tqdm")
    _add_server(parser)
    return parser


def _add_server(parser: argparse.ArgumentParser) -> None:
    server = parser.add_argument_group("Server").add_argument
    server("--timeout", type=float, default=0,
           help="seconds that a server may take for an answer; default: 0, no limit")
    server("--ca", default=os.environ.get("QUARRY_CA", ""), help="for grpcs://: PEM file of the authorities to trust")
    server("--cert", default=os.environ.get("QUARRY_CERT", ""),
           help="for grpcs://: PEM file of the client's certificate")
    server("--key", default=os.environ.get("QUARRY_KEY", ""), help="the key of --cert, a PEM file")
    server("--token-file", default=os.environ.get("QUARRY_TOKEN_FILE"), help="file that holds the token; default: the "
           "variable QUARRY_TOKEN")
    server("--encoding", choices=["auto", "samples", "patches"], default="auto", help="what a server sends")
