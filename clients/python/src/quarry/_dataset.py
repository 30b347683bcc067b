"""Datasets and their fields."""

from __future__ import annotations

import atexit
import builtins
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

# The transport reports what it meets as an error; its own lines on stderr would be a second report.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from quarry import _quarry  # noqa: E402
from quarry._errors import Error  # noqa: E402
from quarry._samples import Box, Samples, positions  # noqa: E402
from quarry._selection import select  # noqa: E402

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr

    from quarry._pictures import Merged

T = TypeVar("T")
Triple = tuple[int, int, int]

_running: weakref.WeakSet[_quarry.Stream | _quarry.Watch] = weakref.WeakSet()


@atexit.register
def _end_running() -> None:
    """A thread that still reads would meet libraries that are being unloaded."""
    for feed in builtins.list(_running):
        feed.close()


def open(target: str | os.PathLike[str], *, token: str = "", ca: str = "", certificate: str = "", key: str = "",
         threads: int = 0, timeout: float = 0, retries: int = 5,
         encoding: Literal["auto", "samples", "patches"] = "auto") -> Dataset:
    """Opens a dataset.

    Args:
        target: a directory, or "grpc://HOST:PORT/NAME", or the same with "grpcs://" for TLS
        token: sent to the server, over TLS or within this machine only
        ca: file with the authorities of servers, in PEM format; the system's if empty
        certificate: file with our own, for servers that want one; with `key`
        threads: for decoding; 0: one for each processor
        timeout: [s] of each call to a server; 0: none
        retries: how often in a row a broken answer of a server is resumed
        encoding: what a server sends: decoded "samples", or "patches" as they are stored, which are fewer bytes and are
            decoded here; "auto": samples within this machine

    Raises:
        Error: no dataset or server there (NOT_FOUND, UNAVAILABLE), another token is needed (UNAUTHENTICATED,
            PERMISSION_DENIED), or it is damaged (DATA_LOSS)
    """
    if encoding not in ("auto", "samples", "patches"):
        raise ValueError(f"encoding {encoding!r} is none of \"auto\", \"samples\" and \"patches\"")
    options = {"token": token, "ca": ca, "certificate": certificate, "key": key, "threads": threads, "timeout": timeout,
               "retries": retries, "encoding": encoding}
    dataset = Dataset(os.fspath(target), options)
    dataset._open()
    return dataset


def list(target: str | os.PathLike[str], *, token: str = "", ca: str = "", certificate: str = "", key: str = "",
         timeout: float = 0) -> builtins.list[_quarry.DatasetSummary]:
    """The datasets of a server ("grpc://HOST:PORT") or below a directory: name, shape [z, y, x], number of steps and
    fields. Arguments and errors are those of `open`."""
    return _quarry.list_datasets(os.fspath(target), _quarry.Options(
        token=token, ca=ca, certificate=certificate, key=key, threads=0, timeout=timeout, retries=5, encoding="auto"))


class Dataset(Mapping[str, "Field"]):
    """A dataset: a mapping from the names of its fields to the fields. Made by `quarry.open`. Thread-safe.

    Pickles as its target and options, and opens again where it is first used. So the token goes with it.
    """

    def __init__(self, target: str, options: dict[str, Any]) -> None:
        self.target = target
        """What was opened."""
        self._options = options
        self._lock = threading.Lock()
        self._closed = False
        self._native: _quarry.Dataset | None = None
        self._known_fields: dict[str, _quarry.FieldDescription] = {}
        self._known_steps: builtins.list[_quarry.Step] | None = None

    def _open(self) -> _quarry.Dataset:
        with self._lock:
            if self._closed:
                raise Error("FAILED_PRECONDITION", f"\"{self.target}\" is closed; open it again")
            if self._native is None:
                self._native = _quarry.open_dataset(self.target, _quarry.Options(**self._options))
                self._known_fields = {field.name: field for field in self._native.fields}
            return self._native

    @property
    def native(self) -> _quarry.Dataset:
        """The C++ client's. Raises Error once the dataset is closed."""
        return self._native or self._open()

    @property
    def _fields(self) -> dict[str, _quarry.FieldDescription]:
        self._open()
        return self._known_fields

    def close(self) -> None:
        """Frees its memory and connections, once calls in progress have ended. Further use is an Error."""
        with self._lock:
            self._closed, self._native = True, None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[str, dict[str, Any]]]:
        return Dataset, (self.target, self._options)

    def __getitem__(self, name: str) -> Field:
        if name not in self._fields:
            raise KeyError(f"{name!r} is no field of \"{self.target}\"; it has {', '.join(self._fields) or 'none'}")
        return Field(self, self._fields[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def shape(self) -> Triple:
        """Samples of full resolution along z, y, x."""
        return self.native.shape

    @property
    def levels(self) -> int:
        """How many there are: 0, full resolution, to levels - 1."""
        return self.native.levels

    @property
    def coords(self) -> dict[str, npt.NDArray[np.float64]]:
        """Positions of the samples of full resolution along z, y, x, in the units of the axes."""
        return {axis: positions(self.native, number) for number, axis in enumerate("zyx")}

    @property
    def axis_units(self) -> dict[str, str]:
        """Of z, y, x."""
        return dict(zip("zyx", self.native.axis_units, strict=True))

    def refresh(self) -> None:
        """Looks for steps and fields that were published since; `Dataset.watch` waits for them."""
        steps = self.native.steps()
        named = {field.name for step in steps for field in step.fields}
        with self._lock:
            self._known_steps = steps
            if not self._closed and not named <= self._known_fields.keys():  # what is open does not know new fields
                self._native = None
        self._open()

    def _steps(self) -> builtins.list[_quarry.Step]:
        if self._known_steps is None:
            self.refresh()
        assert self._known_steps is not None
        return self._known_steps

    @property
    def steps(self) -> builtins.list[int]:
        """Numbers of the steps that were published when they were first asked for, ascending."""
        return [step.step for step in self._steps()]

    @property
    def times(self) -> builtins.list[float | None]:
        """Of the steps, where the simulation gave one."""
        return [step.time for step in self._steps()]

    def watch(self, after: int | None = None, *, patience: float = 60) -> Iterator[_quarry.Step]:
        """Every published step with a number above `after`, then each one when it is published, for ever. Close the
        generator to end it.

        Args:
            patience: [s] how long to look for a server that has gone

        Raises:
            Error: no server for longer than that (UNAVAILABLE), or the dataset has gone (NOT_FOUND)
        """
        return _taken(self.native.watch(after, patience))

    def awatch(self, after: int | None = None, *, patience: float = 60) -> AsyncIterator[_quarry.Step]:
        """`watch` for `async for`."""
        return _taken_async(self.native.watch(after, patience))

    def _repr_html_(self) -> str:
        from quarry._pictures import dataset_html
        return dataset_html(self)

    def export(self, path: str | os.PathLike[str], *, fields: str | Sequence[str] | None = None,
               steps: int | Sequence[int] | None = None, box: Box | None = None, level: int | None = None,
               max_error: float | Mapping[str, float] | None = None,
               format: Literal["netcdf", "hdf5", "zarr", "vti", "npy"] | None = None, overwrite: bool = False,
               resume: bool = False, progress: bool = False) -> builtins.list[Path]:
        """Writes fields to a file of another format, box by box: they may be larger than memory. Arrays are [step, z,
        y, x]; coordinates, units, fill values, error bounds and where all came from go along. Missing samples of
        floating-point fields are NaN, those of integers hold the fill value. Until it is complete the file is called
        PATH.part.

            dataset.export("region.nc", fields="pressure", steps=range(0, 100, 10), box=((0, 64), (0, 64), (0, 64)))

        Args:
            path: a file .nc, .h5, .hdf5 or .npy (of one field, its attributes in PATH.json), a folder .zarr, or .vti: a
                file for each step, NAME-STEP.vti if there are several
            fields: names; all, if left out
            steps: their numbers; those that hold one of the fields, if left out. Where one does not hold a field, that
                is missing in it
            box: ((z0, z1), (y0, y1), (x0, x1)) in samples of full resolution, half-open; the whole grid if left out
            level: 0, full resolution, if nothing else says which
            max_error: instead of a level: the coarsest at which every field and step is within this error, in the
                field's unit; or {field: error}
            format: that of the suffix if left out
            overwrite: replaces what is there, when the export is complete
            resume: continues an export of the same that was interrupted, and begins where there is none
            progress: shows a bar; needs tqdm

        Returns:
            what was written

        Raises:
            Error: the target exists (ALREADY_EXISTS); no such step, or no level within max_error (NOT_FOUND); the
                export that was interrupted was another one (FAILED_PRECONDITION); another process writes it
                (UNAVAILABLE); the disk is full (INTERNAL); damage (DATA_LOSS), and those of the server
            ValueError: no such format, level or box, or one that the format cannot hold; KeyError: no such field
            ImportError: the library of the format is not installed
        """
        from quarry._export import export
        return export(self, path, fields=fields, steps=steps, box=box, level=level, max_error=max_error, format=format,
                      overwrite=overwrite, resume=resume, progress=progress)

    def __repr__(self) -> str:
        if self._closed:
            return f"<quarry.Dataset \"{self.target}\", closed>"
        shape = " x ".join(map(str, self.shape))
        return f"<quarry.Dataset \"{self.target}\": {', '.join(self._fields)}; {shape} samples, {self.levels} levels>"


class Field:
    """A field of a dataset: an array over [step, z, y, x], of which an index reads just what it selects.

    The first axis is the position in the ascending list of the steps that hold the field. Integers, slices, `...` and
    `None` select as they do in numpy, in full resolution. Missing samples of floating-point fields are NaN; an integer
    field with missing samples gives a masked array. Damage raises an Error.
    """

    def __init__(self, dataset: Dataset, description: _quarry.FieldDescription) -> None:
        self.dataset = dataset
        self._description = description

    def __reduce__(self) -> tuple[Callable[..., Field], tuple[Dataset, str]]:
        return Dataset.__getitem__, (self.dataset, self.name)

    # ---- What it is

    @property
    def name(self) -> str:
        """Its name in the dataset."""
        return self._description.name

    @property
    def units(self) -> str:
        """Of its values; empty if nobody said."""
        return self._description.units

    @property
    def dtype(self) -> np.dtype[Any]:
        """As numpy names it."""
        import numpy as np
        return np.dtype(self._description.dtype)

    def _holding(self) -> builtins.list[tuple[_quarry.Step, _quarry.FieldStep]]:
        """The steps that hold the field, and what they say about it."""
        found = []
        for step in self.dataset._steps():
            found += [(step, field) for field in step.fields if field.name == self.name]
        return found

    @property
    def steps(self) -> builtins.list[int]:
        """Numbers of the steps that hold it, ascending: those of the first axis."""
        return [step.step for step, _ in self._holding()]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[step, z, y, x]."""
        return (len(self.steps), *self.dataset.shape)

    @property
    def ndim(self) -> int:
        """4."""
        return 4

    @property
    def size(self) -> int:
        """Samples of all steps."""
        steps, z, y, x = self.shape
        return steps * z * y * x

    @property
    def chunks(self) -> tuple[int, int, int, int]:
        """The shape of a patch, which is read as a whole: [1, z, y, x]."""
        return (1, *self.dataset.native.patch)

    @property
    def coords(self) -> dict[str, Any]:
        """The numbers of its steps, and positions along z, y, x."""
        import numpy as np
        return {"step": np.asarray(self.steps), **self.dataset.coords}

    @property
    def attrs(self) -> dict[str, Any]:
        """Unit, coder and error bound, and the fill value, as far as there are any."""
        said = self._description
        attrs = {"units": said.units or None, "coder": said.coder, "lossless": said.lossless or None,
                 "tolerance": said.tolerance, "relative_tolerance": said.relative_tolerance, "_FillValue": said.fill}
        return {name: value for name, value in attrs.items() if value is not None}

    def __len__(self) -> int:
        return len(self.steps)

    def _repr_html_(self) -> str:
        from quarry._pictures import field_html
        return field_html(self)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<quarry.Field {self.name!r}: [{shape}] {self._description.dtype} {self.units}".rstrip() + ">"

    # ---- Reading

    def __getitem__(self, key: Any) -> Any:
        """The selected samples in full resolution: an array of what numpy's shape would be, or a scalar."""
        import numpy as np
        holding = self._holding()
        selection = select(key, (len(holding), *self.dataset.shape))
        array = np.empty(selection.full_shape, self.dtype)
        masked = False
        if array.size:
            dense = tuple(range(min(axis), max(axis) + 1) for axis in selection.ranges[1:])
            for place, position in enumerate(selection.ranges[0]):
                step, said = holding[position]
                masked = masked or said.has_missing
                self._read_dense(step.step, said.has_missing, dense, selection.ranges[1:], array[place])
        result = array.reshape(selection.shape)
        if masked and array.dtype.kind in "iu":
            return self._masked(result)
        return result if selection.shape else result[()]

    def _read_dense(self, step: int, missing: bool, dense: tuple[range, ...], wanted: tuple[range, ...],
                    out: npt.NDArray[Any]) -> None:
        """Reads the box `dense` of a step, and puts the `wanted` samples into `out`."""
        z, y, x = ((axis.start, axis.stop) for axis in dense)
        question = _quarry.Question(self.name, step=step, box=(z, y, x))
        if dense == wanted:
            self.dataset.native.read(question, missing, out)
            return
        block = self.dataset.native.read(question, missing).array
        # Ranges whose first sample is behind the last go backwards.
        parts = []
        for axis, positions_ in zip(dense, wanted, strict=True):
            first = positions_[0] - axis.start
            end = positions_[-1] - axis.start + (1 if positions_.step > 0 else -1)
            parts.append(slice(first, end if end >= 0 else None, positions_.step))
        out[...] = block[tuple(parts)]

    def _masked(self, array: npt.NDArray[Any]) -> Any:
        import numpy as np
        ma: Any = np.ma  # has no types
        if array.dtype.kind == "f":
            return ma.masked_invalid(array, copy=False)
        fill = self._description.fill
        return ma.asarray(array) if fill is None else ma.masked_equal(array, array.dtype.type(fill), copy=False)

    def _question(self, *, step: int | None, box: Box | None, level: int | None, max_error: float | None,
                  max_bytes: int | None, stride: int | Triple | None, values: tuple[float, float] | None, strict: bool,
                  first_level: int | None = None, focus: tuple[float, float, float] | None = None) -> _quarry.Question:
        if sum(given is not None for given in (level, max_error, max_bytes, stride)) > 1:
            raise ValueError("only one of level, max_error, max_bytes and stride can be given")
        if isinstance(stride, int):
            stride = (stride, stride, stride)
        return _quarry.Question(self.name, step=step, box=box, level=level or 0, max_error=max_error,
                                max_bytes=max_bytes, stride=stride, values=values, strict=strict,
                                first_level=first_level, focus=focus)

    def _may_miss(self, step: int | None) -> bool:
        """Whether a step has missing samples."""
        for number, said in self._holding():
            if step is None or number.step == step:
                return said.has_missing
        return True  # a step that was published since

    def _samples(self, answer: _quarry.Answer | Merged, masked: bool) -> Samples:
        array = self._masked(answer.array) if masked else answer.array
        return Samples(answer, array, self.dataset.native)

    def read(self, *, box: Box | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, stride: int | Triple | None = None,
             values: tuple[float, float] | None = None, strict: bool = True, masked: bool = False,
             progress: bool = False) -> Samples:
        """Reads a box of one step.

        Args:
            box: ((z0, z1), (y0, y1), (x0, x1)) in samples of full resolution, half-open; the whole grid if left out
            step: the number of the step; the first that holds the field if left out
            level: 0, full resolution, if nothing else says which
            max_error: instead of a level: the coarsest that shows every sample within this error, in the field's unit
            max_bytes: instead of a level: the finest of which at most so many bytes are read, and of samples
            stride: instead of a level: every so many-th sample, along all axes or along (z, y, x)
            values: (low, high): patches without a value between these are not read, see `Samples.left_out`
            strict: damage is an Error; False: a coarser level is shown in its place, see `Samples.damaged`
            masked: a numpy.ma array, with missing samples masked
            progress: shows a bar; needs tqdm, and does not go with `stride` and `values`

        Raises:
            Error: no such step (NOT_FOUND), box or level outside (INVALID_ARGUMENT), damage (DATA_LOSS), and those of
                the server
        """
        question = self._question(step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes,
                                  stride=stride, values=values, strict=strict)
        if progress:
            if stride is not None or values is not None:
                raise ValueError("progress does not go with stride and values; leave it out")
            from quarry._pictures import read_with_bar
            return self._samples(read_with_bar(self, box=box, step=step, level=level, max_error=max_error,
                                               max_bytes=max_bytes, strict=strict), masked)
        return self._samples(self.dataset.native.read(question, self._may_miss(step)), masked)

    def stream(self, *, box: Box | None = None, step: int | None = None, level: int | None = None,
               max_error: float | None = None, max_bytes: int | None = None, first_level: int | None = None,
               focus: tuple[float, float, float] | None = None, values: tuple[float, float] | None = None,
               strict: bool = True, masked: bool = False) -> Iterator[Samples]:
        """Reads a box level by level, the coarsest first. The next level is read while this one is looked at. Close the
        generator, or leave its loop and drop it, to end the read.

        Args:
            first_level: begin with this one; the coarsest of the dataset if left out
            focus: (z, y, x) in samples of full resolution: what is near comes first within each level

        The others, and the errors, are those of `read`.
        """
        return (self._samples(answer, masked) for answer in _taken(self._stream(
            box=box, step=step, level=level, max_error=max_error, max_bytes=max_bytes, first_level=first_level,
            focus=focus, values=values, strict=strict)))

    def _stream(self, *, step: int | None, first_level: int | None, **question: Any) -> _quarry.Stream:
        if first_level is None:
            first_level = self.dataset.levels - 1
        return self.dataset.native.stream(self._question(step=step, first_level=first_level, stride=None, **question),
                                          self._may_miss(step))

    async def aread(self, *, masked: bool = False, step: int | None = None, box: Box | None = None,
                    level: int | None = None, max_error: float | None = None, max_bytes: int | None = None,
                    stride: int | Triple | None = None, values: tuple[float, float] | None = None,
                    strict: bool = True) -> Samples:
        """`read` for `await`. A task that is cancelled ends the read."""
        import asyncio  # here, as it takes longer to import than all the rest
        question = self._question(step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes,
                                  stride=stride, values=values, strict=strict)
        missing = await asyncio.to_thread(self._may_miss, step)
        async for answer in _taken_async(self.dataset.native.stream(question, missing)):
            return self._samples(answer, masked)
        raise Error("INTERNAL", "the answer has no level")

    async def astream(self, *, masked: bool = False, **question: Any) -> AsyncIterator[Samples]:
        """`stream` for `async for`. A task that is cancelled ends the read."""
        import asyncio
        arguments: dict[str, Any] = {"box": None, "step": None, "level": None, "max_error": None, "max_bytes": None,
                                     "first_level": None, "focus": None, "values": None, "strict": True, **question}
        stream = await asyncio.to_thread(lambda: self._stream(**arguments))
        async for answer in _taken_async(stream):
            yield self._samples(answer, masked)

    def plan(self, *, box: Box | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, stride: int | Triple | None = None,
             first_level: int | None = None, values: tuple[float, float] | None = None) -> _quarry.Plan:
        """What `read`, or `stream` with a `first_level`, would answer and cost; reads no data. Arguments and errors are
        theirs."""
        return self.dataset.native.plan(self._question(
            step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes, stride=stride, values=values,
            strict=True, first_level=first_level))

    def stats(self, *, box: Box | None = None, step: int | None = None, level: int | None = None,
              max_error: float | None = None, percentiles: Sequence[float] = (), bins: int = 0,
              range: tuple[float, float] | None = None, strict: bool = True) -> _quarry.Statistics:
        """Statistics of a box, computed where the data are. Each comes with an interval that holds that of the original
        samples at the same places.

        Args:
            percentiles: 0 to 100 each
            bins: of a histogram; 0: none
            range: its first and last edge; what was recorded for the patches if left out

        The others, and the errors, are those of `read`.
        """
        question = self._question(step=step, box=box, level=level, max_error=max_error, max_bytes=None, stride=None,
                                  values=None, strict=strict)
        return self.dataset.native.statistics(question, [float(percent) for percent in percentiles], bins, range)

    def points(self, positions: npt.ArrayLike, *, step: int | None = None,
               physical: bool = False) -> tuple[npt.NDArray[np.float64], float]:
        """The field between its samples, by trilinear interpolation.

        Args:
            positions: [point, 3]: z, y, x of each, in samples, the first of which is 0
            physical: they are in the units of the axes instead

        Returns:
            the values, NaN where a sample around a point is missing, and what the same interpolation of the original
            samples differs by at most

        Raises:
            Error: a point is outside the grid (INVALID_ARGUMENT), and those of `read`
        """
        import numpy as np
        array = np.ascontiguousarray(positions, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3:
            raise ValueError(f"positions have the shape {array.shape}; it is to be (points, 3)")
        return self.dataset.native.points(self.name, step, array, physical)

    def to_xarray(self, *, level: int | None = None, max_error: float | None = None,
                  steps: Sequence[int] | None = None) -> xr.DataArray:
        """The field as xarray's engine "quarry" has it: lazy, [step, z, y, x], with coordinates and attributes.

        Args:
            level: 0, full resolution, if nothing else says which
            max_error: instead of a level: the coarsest that shows every sample of all steps within this error
            steps: numbers of the steps; all that are published, if left out

        Raises:
            ImportError: xarray is not installed
            Error: no such step, or no level within max_error (NOT_FOUND)
        """
        from quarry._xarray import field_to_xarray
        return field_to_xarray(self, level=level, max_error=max_error, steps=steps)

    # ---- Looking

    def plot(self, *, axis: str = "z", at: float | None = None, index: int | None = None, step: int | None = None,
             level: int | None = None, max_error: float | None = None, ax: Any = None, **image: Any) -> Any:
        """Draws a plane of one step with matplotlib: positions and values with their units, missing samples in grey.

        Args:
            axis: the one that the plane is normal to: "z", "y" or "x"
            at: where along it, in the unit of the axis; the nearest plane is drawn, the middle one if left out
            index: the same as the number of a sample of full resolution
            step: the number of the step; the first that holds the field if left out
            level: the coarsest with a sample for each pixel if left out
            max_error: instead of a level: the coarsest that shows the plane within this error, in the field's unit
            ax: matplotlib's Axes; those of a new figure if left out
            image: for matplotlib's pcolormesh: cmap, vmin, vmax, norm

        Returns:
            matplotlib's QuadMesh; its figure is `plot(...).figure`

        Raises:
            ValueError: a plane outside the grid; ImportError: no matplotlib; and the errors of `read`
        """
        from quarry._pictures import plot
        return plot(self, axis=axis, at=at, index=index, step=step, level=level, max_error=max_error, ax=ax,
                    image=image)

    def show(self, *, axis: str = "z", at: float | None = None, index: int | None = None, step: int | None = None,
             level: int | None = None, ax: Any = None, **image: Any) -> Any:
        """`plot` that begins with the coarsest level and sharpens while data come in: in a notebook, or in a window of
        matplotlib. Arguments, answer and errors are those of `plot`."""
        from quarry._pictures import show
        return show(self, axis=axis, at=at, index=index, step=step, level=level, ax=ax, image=image)

    def animate(self, steps: Sequence[int] | None = None, *, axis: str = "z", at: float | None = None,
                index: int | None = None, level: int | None = None, interval: float = 100, ax: Any = None,
                **image: Any) -> Any:
        """A film of `plot` over steps, in colours that mean the same in each picture.

        Args:
            steps: their numbers; all that hold the field if left out
            interval: [ms] between pictures

        The others, and the errors, are those of `plot`.

        Returns:
            matplotlib's FuncAnimation: `.save("run.gif")` writes it; keep it as long as it is shown
        """
        from quarry._pictures import animate
        return animate(self, steps, axis=axis, at=at, index=index, level=level, interval=interval, ax=ax, image=image)


# ---- What a thread makes and a loop takes

def _taken(feed: Any) -> Iterator[Any]:
    _running.add(feed)
    try:
        while (value := feed.next()) is not None:
            yield value
    finally:
        feed.close()


async def _taken_async(feed: Any) -> AsyncIterator[Any]:
    import asyncio
    _running.add(feed)
    try:
        while (value := await asyncio.to_thread(feed.next)) is not None:
            yield value
    finally:
        await asyncio.shield(asyncio.to_thread(feed.close))
