"""From arrays to datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quarry import _quarry
from quarry._replace import place_of
from quarry._samples import Box, Triple
from quarry._sources import Selection, Source, sources
from quarry._times import Times, of_argument
from quarry._words import check, explained

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
Layers = Sequence[float | Literal["exact"]]
Load = Callable[[int, int, Box], "npt.NDArray[np.generic]"]


@dataclass(frozen=True)
class Written:
    """What became of one field of one step.

    Attributes:
        step: its number
        field: its name
        raw_bytes: of its samples
        stored_bytes: on disk, with a mask that no other field had
        max_error: largest difference of a stored sample from the given one, in the field's unit
    """

    step: int
    field: str
    raw_bytes: int
    stored_bytes: int
    max_error: float

    @property
    def ratio(self) -> float:
        """How many times smaller it is than its samples."""
        return self.raw_bytes / self.stored_bytes


def write(path: str | os.PathLike[str], data: Any, *, field: str | None = None,
          tolerance: float | Mapping[str, float] | None = None, relative: float | Mapping[str, float] | None = None,
          pointwise_relative: float | Mapping[str, float] | None = None, lossless: bool = False,
          keep_zeros: bool = False, keep_sign: bool = False, layers: Layers | Mapping[str, Layers] | None = None,
          relative_layers: Layers | Mapping[str, Layers] | None = None, step: int | Sequence[int] | None = None,
          time: Any = None, time_units: str = "", calendar: str = "",
          mode: Literal["create", "append", "resume", "overwrite"] = "create",
          units: str | Mapping[str, str] | None = None, fill: float | Mapping[str, float] | None = None,
          codec: str = "", keyframe: int | None = None, origin: Sequence[float] | None = None,
          spacing: Sequence[float] | None = None, patch: int | Triple | None = None, levels: int | None = None,
          memory: int = 1 << 30, files: int | None = None, progress: bool = False,
          break_lock: bool = False, accept_range: bool = False,
          select: Selection | None = None) -> list[Written]:
    """Writes arrays into a dataset, in this process and without MPI. The payloads are those of `quarry-write`. Readers
    never see half a step; after Ctrl-C or an error the published steps stay.

        quarry.write("run.quarry", pressure, field="pressure", tolerance=1e-3, units="Pa")
        quarry.write("run.quarry", later, field="pressure", mode="append")

    Args:
        path: of the dataset, a directory NAME.quarry
        data: an array [z, y, x], [y, x] or [x]; [step, z, y, x] holds several steps. Or a mapping from names of fields
            to such arrays. Or an xarray.DataArray or an xarray.Dataset, whose data variables are the fields, but for
            those that describe others (bounds, grid mappings) and those of text: they bring names, units, fill values
            and positions, and an axis of time, or `step`, brings the steps. Time is what holds dates or lengths of
            time, or says axis "T", standard_name "time" or a unit "since", or is slowest and in a unit of time; a list
            along time is a row of samples. What has a shape, a type and slices is an array: of numpy, dask, h5py, zarr,
            another field of Quarry. What is not in memory is loaded part by part. Samples that are NaN, infinite or
            masked are missing. What is not kept is a UserWarning
        field: the name of the only field; "data" if neither this nor the array gives one
        tolerance: largest absolute error of any sample, in the field's unit; a mapping gives one for each field
        relative: the same as a fraction of the value range of each step, for which larger data are loaded twice. A
            range that a few samples make, such as undeclared fill values, is refused
        pointwise_relative: the same as a fraction of each sample's own magnitude, below 1; keeps zeros and signs
        lossless: nothing is lost; so are integers without a bound. A field that the dataset has already needs no bound
        keep_zeros: samples that are zero stay zero, beside a tolerance
        keep_sign: no sample changes its sign, and zero stays zero, beside a tolerance
        layers: of accuracy: several tolerances, the largest first, and "exact" at the end if nothing may be lost
            (docs/inputs.md). Readers take those that they need
        relative_layers: the same as fractions of the value range of each step
        step: the number of the first one, or those of all. If left out: the coordinate `step`, or from 0, or with
            "append" after the last step that has one of the fields
        time: of each step, numbers or dates; the coordinate of time if left out, as xarray encodes it: number, unit and
            calendar. A dataset has one unit: times that are appended are converted to it
        time_units: of `time`, or of a coordinate without a unit: "s", "days since 2001-01-01"
        calendar: of `time`, a name of the CF conventions; the standard one if left out
        mode: "create" a dataset, "append" to one, or "resume": either of them, and what is published is skipped, unless
            its time is another one; "overwrite": create one, and only when all of it is written, replace the dataset
            that is there. That stays if the writing fails. Readers that have it open are to open it again
        units: of the field, or of each one
        fill: samples with this value are missing; masked integers become it, or the array's own fill_value
        codec: "interpolate", "wavelet-zfp" or "lossless"; chosen from type and bound if left out
        keyframe: lets steps refer to the one before, at least every so many to none: fewer bytes where a field changes
            slowly, and up to so many steps to read for one
        origin: (z, y, x): position of the first sample, in axis units
        spacing: (z, y, x): between samples, in axis units
        patch: samples of a patch along each axis, or (z, y, x); at most 262,144 in all if left out, 64 along each axis
            of a volume
        levels: of resolution; as many as fit, up to 10, if left out
        memory: [bytes] of samples and payload that are held at a time
        files: subfiles of each field and step
        progress: shows a bar; needs tqdm
        break_lock: removes the lock of a writer that ended without removing it
        accept_range: takes a tolerance relative to a range that a few samples make
        select: of xarray's dimensions that are no axes of a grid (members, channels): {"member": 0}; a slice makes a
            field of each index, "temp_member0" and so on

    Returns:
        one entry for each field and step that was written

    Raises:
        ValueError: shapes or steps that do not fit together; TypeError: samples of a type that datasets do not have
        Error: the dataset exists, or does not (ALREADY_EXISTS, NOT_FOUND); another process writes it (UNAVAILABLE); the
            arguments contradict each other or the dataset (INVALID_ARGUMENT); what is to be overwritten holds
            something else (FAILED_PRECONDITION); the disk is full (INTERNAL)
    """
    if mode not in ("create", "append", "resume", "overwrite"):
        raise ValueError(f"mode {mode!r} is none of \"create\", \"append\", \"resume\" and \"overwrite\"")
    check(break_lock=break_lock)
    if layers is not None and relative_layers is not None:
        raise ValueError("layers and relative_layers exclude each other; give one of them")
    kept = _keeping(keep_zeros, keep_sign, codec, lossless or pointwise_relative is not None)
    if field is not None:
        check(field=field)
    said: list[str] = []
    fields = sources(data, field, select, said)
    for sentence in dict.fromkeys(said):
        warnings.warn(sentence, UserWarning, stacklevel=2)
    for source in fields:
        source.declare_fill(_of(fill, source.name))
    several = relative_layers if layers is None else layers
    first = _one_series(fields)
    numbers = _numbers(step, first)
    times = _times_of(time, time_units, calendar, first)
    requests = [explained(
        _quarry.FieldRequest, name=source.name, dtype=source.dtype.name, tolerance=_of(tolerance, source.name),
        relative=_of(relative, source.name), pointwise_relative=_of(pointwise_relative, source.name),
        lossless=lossless, layers=_tolerances(_of(several, source.name)), relative_layers=relative_layers is not None,
        units=_of(units, source.name) or source.units, fill=source.fill, codec=codec or kept, keyframe=keyframe)
        for source in fields]
    settings = explained(_quarry.WriteSettings, mode=mode, memory=memory, files=files, break_lock=break_lock,
                         accept_range=accept_range, goes_on=step is None and not first.numbers)
    passes = 1 if relative is None and relative_layers is None else 2
    with place_of(path, mode, break_lock) as place, _Bar(fields, passes=passes, shown=progress) as bar:
        written = _quarry.write(
            place, settings, [_grid(source, origin, spacing, patch, levels) for source in fields], requests,
            [*zip(numbers, times.values, strict=True)], (times.units, times.calendar), bar.watch(_loader(fields)))
    return [Written(number, one.name, one.raw_bytes, one.stored_bytes, one.max_error) for number, one in written]


def _of(value: T | Mapping[str, T] | None, name: str) -> T | None:
    """What was said for the field of this name."""
    return value.get(name) if isinstance(value, Mapping) else value


def _keeping(zeros: bool, sign: bool, codec: str, anyway: bool) -> str:
    """The coder that keeps zeros or signs; none is named where the bound keeps them anyway."""
    if not zeros and not sign or anyway:
        return ""
    if codec:
        raise ValueError(f"keep_zeros and keep_sign choose the coder; leave codec={codec!r} out")
    return "interpolate-signs" if sign else "interpolate-zeros"


def _tolerances(layers: Layers | None) -> list[float]:
    if layers is None:
        return []
    if isinstance(layers, str) or not hasattr(layers, "__iter__"):
        raise ValueError(f"layers are to be several tolerances, like (1e-2, 1e-4, \"exact\"), and not {layers!r}")
    try:
        return [0.0 if isinstance(one, str) and one == "exact" else float(one) for one in layers]
    except (TypeError, ValueError):
        raise ValueError(f"layers={layers!r} is not possible; give tolerances, and \"exact\" at the end if nothing may "
                         "be lost") from None


def _one_series(fields: Sequence[Source]) -> Source:
    """The first field. All have its steps, as a dataset has one series; their grids may differ."""
    first = fields[0]
    for other in fields[1:]:
        if other.steps != first.steps:
            raise ValueError(f"{other.name!r} has {other.steps} steps, but {first.name!r} has {first.steps}; fields "
                             "of one call have the same steps, so write them one after the other with "
                             "mode=\"append\", or into two datasets")
        if first.times and other.times and first.times != other.times:
            raise ValueError(f"{other.name!r} has other times than {first.name!r}; a step has one, so write them into "
                             "two datasets, or give `time`")
    return first


def _listed(value: Any) -> list[Any]:
    """One, or those of a list."""
    return [*value] if hasattr(value, "__iter__") and not isinstance(value, str) else [value]


def _loader(fields: Sequence[Source]) -> Load:
    return lambda step, field, box: fields[field].load(step, box)


def _numbers(step: int | Sequence[int] | None, source: Source) -> list[int]:
    if step is None:
        step = source.numbers or 0
    for number in _listed(step):
        if not isinstance(number, int):
            check(step=number)
    numbers = [int(one) for one in _listed(step)]
    if not hasattr(step, "__iter__"):
        numbers = [numbers[0] + i for i in range(source.steps)]
    if len(numbers) != source.steps:
        raise ValueError(f"{len(numbers)} numbers of steps were given, and {source.name!r} has {source.steps} steps")
    ascending = all(a < b for a, b in zip(numbers, numbers[1:], strict=False))
    if not ascending or any(not 0 <= number < 2**64 for number in numbers):
        raise ValueError(f"the numbers of the steps, {numbers}, are to be 0 or more, below 2^64, and to ascend")
    return numbers


def _times_of(time: Any, units: str, calendar: str, source: Source) -> Times:
    if time is None:
        found = source.times or Times((None,) * source.steps)
        if not units and not calendar:
            return found
        if found.units:
            raise ValueError(f"time_units={units!r} and calendar={calendar!r} were given, and the times of "
                             f"{source.name!r} are in {found.units!r}; leave them out, or give `time` as well")
        return Times(found.values, units, calendar)
    times = of_argument(time, units, calendar)
    if len(times.values) != source.steps:
        raise ValueError(f"{len(times.values)} times were given, and {source.name!r} has {source.steps} steps")
    return times


def _grid(source: Source, origin: Sequence[float] | None, spacing: Sequence[float] | None,
          patch: int | Triple | None, levels: int | None) -> _quarry.Grid:
    axes = source.axes
    evenly = origin is not None or spacing is not None
    if isinstance(patch, int):
        patch = (patch, patch, patch)
    for given in (origin, spacing):
        if isinstance(given, Sequence) and not isinstance(given, str):
            _three(given)
    check(origin=origin, spacing=spacing, patch=patch, levels=levels)
    return _quarry.Grid(
        shape=source.shape,
        origin=_three(origin) if origin is not None else _three([axis.origin for axis in axes]),
        spacing=_three(spacing) if spacing is not None else _three([axis.spacing for axis in axes]),
        names=_three([axis.name for axis in axes]), units=_three([axis.units for axis in axes]),
        coordinates=_three([[] if evenly else axis.coordinates for axis in axes]),
        has_axis=_three(source.has_axis), placed=evenly or any(axis.placed for axis in axes),
        patch=patch, levels=levels)


def _three(values: Sequence[T]) -> tuple[T, T, T]:
    if len(values) != 3:
        raise ValueError(f"{values} is to be three values, of z, y and x")
    return values[0], values[1], values[2]


class _Bar:
    """Shows how much was loaded."""

    def __init__(self, fields: Iterable[Source], passes: int, shown: bool) -> None:
        self._bar: Any = None
        if shown:
            from tqdm.auto import tqdm
            total = passes * sum(source.steps * source.step_bytes for source in fields)
            self._bar = tqdm(total=total, unit="B", unit_scale=True, desc="writing")

    def watch(self, load: Load) -> Load:
        if self._bar is None:
            return load

        def watched(step: int, field: int, box: Box) -> npt.NDArray[np.generic]:
            array = load(step, field, box)
            self._bar.update(array.nbytes)
            return array
        return watched

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is None:
            return
        if error is None:  # smaller data are loaded once, and what is published already is not loaded at all
            self._bar.total = self._bar.n
            self._bar.refresh()
        self._bar.close()
