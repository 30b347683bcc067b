"""From datasets to files of other formats, box by box."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from quarry import _quarry
from quarry._errors import Error
from quarry._export_contents import Layout, Variable
from quarry._export_formats import format_of
from quarry._export_layout import layout_of
from quarry._export_output import Output, boxes, make_room, remove, sync
from quarry._grids import Box, Region, Triple
from quarry._progress import progress_bar
from quarry._protocols import Dataset

if TYPE_CHECKING:
    import numpy.typing as npt

_BOX_BYTES = 64 << 20
"""Of samples that are held at a time, where a patch is not larger."""

_RECORD_BYTES = 64 << 20
"""After so much the disk is waited for, and what is done is recorded."""


def export(dataset: Dataset, path: str | os.PathLike[str], *, fields: str | Iterable[str] | None,
           steps: int | Iterable[int] | None, box: Box | Region | None, level: int | None,
           max_error: float | Mapping[str, float] | None, layer: int | None, format: str | None,
           overwrite: bool, resume: bool, progress: bool) -> list[Path]:
    """See Dataset.export."""
    final = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    kind = format_of(final, format)
    output = kind(final, layout_of(dataset, fields, steps, box, level, max_error, layer, kind))
    _check_target(output, overwrite)
    for text in output.warnings:
        warnings.warn(text, stacklevel=3)  # for who calls Dataset.export
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


# ---- What is done

class _Record:
    """PATH.part.json: the description of the export, and a line with the number of finished boxes whenever it grew. It
    is locked while an export runs."""

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
        if len(lines) < 2:  # a line without an end was never finished
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
    """The settings that must be the same for an export to be continued."""
    variables = [(variable.name, variable.dtype.str, layout.dims_of(variable), variable.grid, variable.held,
                  repr(variable.fill)) for variable in layout.variables]
    errors = [(variable.attrs, variable.missing) for variable in layout.variables]
    axes = [axis for grid in layout.grids for axis in grid.axes]
    coordinates = hashlib.sha256(b"".join(axis.positions.tobytes() for axis in axes)).hexdigest()
    texts = [(text.name, text.values.tolist()) for text in layout.texts]
    types = [axis.dtype.str for axis in axes]
    content = hashlib.sha256(repr((errors, layout.times, coordinates, types, texts)).encode()).hexdigest()
    return {"fields": json.loads(json.dumps(variables)), "steps": list(layout.numbers),
            "shape": [list(grid.shape) for grid in layout.grids],
            "offset": [list(grid.offset) for grid in layout.grids], "level": layout.level,
            "created_by": layout.created_by, "box_bytes": _BOX_BYTES, "content": content}


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
    size = sum(unit.bytes for unit in units)
    with progress_bar(size, output.path.name, shown=progress) as advance, contextlib.ExitStack() as stack:
        stack.callback(_close, output)
        with _reported(output, record.done):
            _begin(output, record, len(units))
        advance(sum(unit.bytes for unit in units[:record.done]))
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
                advance(unit.bytes)
        except BaseException:
            # On a full disk this can fail once more, and the last record holds.
            with contextlib.suppress(Exception):
                _note(output, record, done)
            raise
        with _reported(output, done):
            output.finish()
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
    if record.is_begun and output.resumable and all(there):
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
        z, y, x = (((first + offset) << layout.level, ((behind + offset - 1) << layout.level) + 1) for
                   first, behind, offset in zip(self.begin, self.end, layout.grid_of(variable).offset, strict=True))
        question = _quarry.Question(variable.name, step=layout.numbers[self.step], box=(z, y, x), level=variable.level,
                                    layer=variable.layer)
        samples = np.asarray(dataset.native.read(question).array)
        # Level l has every 2^l-th sample: of those of a finer one, some are left out.
        stride = slice(None, None, 1 << (layout.level - variable.level))
        samples = samples[stride, stride, stride]
        if variable.conversion is not None:
            samples = variable.conversion.samples(samples)
        return samples.astype(variable.dtype, copy=False)


def _kind(variable: Variable) -> tuple[int, int, int]:
    """Key that fields with the same boxes share."""
    return variable.grid, variable.level, variable.dtype.itemsize


def _units(output: Output) -> Iterator[_Unit]:
    """Everything, in the order of the file."""
    of_kind = {_kind(variable): boxes(output, variable, _BOX_BYTES) for variable in output.layout.variables}
    for step in range(len(output.layout.numbers)):
        for number, variable in enumerate(output.layout.variables):
            if variable.still and step or not variable.held[step] and output.only_held:
                continue
            for begin, end in of_kind[_kind(variable)]:
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
