"""From arrays to datasets."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quarry import _dataset, _quarry
from quarry._field import Field
from quarry._given import Given, Selection, given
from quarry._grids import Box, Triple
from quarry._progress import progress_bar
from quarry._sources import Moments, Source, Text
from quarry._times import Times, of_argument
from quarry._words import check, explained

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
Layers = Sequence[float | Literal["exact"]]


@dataclass(frozen=True)
class Written:
    """Result for one field of one step.

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
          memory: int = 1 << 30, files: int | None = None,
          payload_order: Literal["", "patch", "level", "coarse"] = "", progress: bool = False,
          break_lock: bool = False, accept_range: bool = False,
          select: Selection | None = None) -> list[Written]:
    """Writes arrays into a dataset, in this process and without MPI. The payloads are those of `quarry-write`. Readers
    never see half a step; after Ctrl-C or an error the published steps stay.

        quarry.write("run.quarry", pressure, field="pressure", tolerance=1e-3, units="Pa")
        quarry.write("run.quarry", later, field="pressure", mode="append")

    Arrays of xarray without an axis of steps stand still: one step has them, and they have no such axis when they are
    read. A single value that is time is the time of that step. With `step` or `time`, or with such a time and mode
    "append", they are a further step instead; so are fields that the dataset has already, where nothing with steps
    comes along. So files of a moment each become a series. Coordinates of several samples without an axis of steps
    always stand still.

    Args:
        path: of the dataset, a directory NAME.quarry; or its URL in a store, s3://
        data: an array [z, y, x], [y, x] or [x]; [step, z, y, x] holds several steps. Or a mapping from names of fields
            to such arrays. Or an xarray.DataArray or an xarray.Dataset: they bring names, dimensions, units, fill
            values, positions and attributes, and an axis of time, or `step`, brings the steps. `xarray.open_dataset`
            gives the Dataset again. Time is what holds dates or lengths of time, or says axis "T", standard_name "time"
            or a unit "since", or is slowest and in a unit of time; a list along time is a row of samples, or beside
            fields with steps one value for each. Coordinates that are no positions, times or numbers of steps are
            fields of their own, which lose nothing and are coordinates again in xarray; those of text are kept along
            one axis. Complex samples become two fields, NAME.real and NAME.imag, each within the bound, and are
            complex again in xarray. What has a shape, a type and slices is an array: of numpy, dask, h5py, zarr,
            another field of Quarry. What is not in memory is loaded part by part. Samples that are NaN, infinite or
            masked are missing. What is not kept is a UserWarning
        field: the name of the only field; "data" if neither this nor the array gives one
        tolerance: largest absolute error of any sample, in the field's unit; a mapping gives one for each field.
            Coordinates, dates and what describes other fields lose nothing, unless a mapping names them
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
            calendar. A dataset has one unit: times that are appended are converted to it. If it is the coordinate of
            the dimension of the steps, that keeps its name
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
        payload_order: in a subfile: "patch" for boxes, "level" for overviews of everything, "coarse" for both in few
            reads, as object stores need it; if left out, "patch", or that of the dataset
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
    whole = given(data, field, select, said)
    for sentence in dict.fromkeys(said):
        warnings.warn(sentence, UserWarning, stacklevel=2)
    if not whole.has_series and (step is not None or time is not None or (mode == "append" and whole.has_moment)):
        _move(whole, goes_on=mode in ("append", "resume"))
    fields = whole.sources
    for source in fields:
        source.declare_fill(_of(fill, source))
    several = relative_layers if layers is None else layers
    first = _one_series(fields)
    numbers = _numbers(step, first)
    moments = _moments_of(fields)
    times = _times_of(time, time_units, calendar, moments, first)
    requests = [explained(
        _quarry.FieldRequest, name=source.name, dtype=source.dtype.name, tolerance=_of(tolerance, source),
        relative=_of(relative, source), pointwise_relative=_of(pointwise_relative, source),
        lossless=lossless or source.exact, layers=_tolerances(_of(several, source)),
        relative_layers=relative_layers is not None, units=_of(units, source) or source.units, fill=source.fill,
        codec="" if source.exact else codec or kept, keyframe=None if source.exact else keyframe,
        attributes=source.attributes, still=source.still, coordinate=source.coordinate, moves=source.moves,
        complex=source.complex)
        for source in fields]
    settings = explained(_quarry.WriteSettings, mode=mode, memory=memory, files=files, payload_order=payload_order,
                         break_lock=break_lock, accept_range=accept_range,
                         goes_on=step is None and not first.moments.numbers, attributes=whole.attributes,
                         texts=[_text(*text) for text in whole.texts])
    axis = explained(_quarry.TimeAxis, units=times.units, calendar=times.calendar, name=moments.name,
                     attributes=moments.attributes)
    passes = 1 if relative is None and relative_layers is None else 2
    size = passes * sum(source.steps * source.step_bytes for source in fields)
    with _place_of(path, mode, break_lock) as place, progress_bar(size, "writing", shown=progress) as advance:
        def load(step: int, field: int, box: Box) -> npt.NDArray[np.generic]:
            array = fields[field].load(step, box)
            advance(array.nbytes)
            return array

        outcome = _quarry.write(
            place, settings, [_grid(source, origin, spacing, patch, levels) for source in fields], requests,
            [*zip(numbers, times.values, strict=True)], axis, load)
    for owner, names in outcome.others:
        warnings.warn(f"attributes of {owner or 'the whole'} differ, and the dataset keeps its own: {', '.join(names)}",
                      UserWarning, stacklevel=2)
    for sentence in outcome.warnings:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    for name in outcome.other_texts:
        warnings.warn(f"the dataset keeps other texts of the coordinate {name}; delete the dataset, or write another "
                      "one, if you need these", UserWarning, stacklevel=2)
    there = outcome.there  # a list made from the library's, at each access
    if others := _others(place, [source for source in fields if source.name in there]):
        warnings.warn(f"the dataset keeps other values of what does not change with time: {', '.join(others)}; write "
                      "them under another name if you need these", UserWarning, stacklevel=2)
    return [Written(number, one.name, one.raw_bytes, one.stored_bytes, one.max_error)
            for number, one in outcome.written]


@contextlib.contextmanager
def _place_of(path: str | os.PathLike[str], mode: str, break_lock: bool) -> Iterator[str]:
    """The path at which the library writes. For the mode "overwrite", one beside an old dataset, whose place the new
    one takes at the end; if that is not reached, the old one stays."""
    place = os.path.expanduser(os.fspath(path))
    if mode != "overwrite":
        yield place
        return
    replacement = _quarry.Replacement(place, break_lock)
    try:
        yield replacement.staged
        replacement.publish()
    finally:
        replacement.abandon()


def _others(path: str, fields: Sequence[Source]) -> list[str]:
    """Names of still fields that have other samples in the dataset, beyond the tolerance."""
    if not fields:
        return []
    with _dataset.open(path) as dataset:
        return [source.name for source in fields if not _is_same(dataset[source.name], source)]


def _is_same(stored: Field, source: Source) -> bool:
    import numpy as np
    (_, said), *_ = stored._holding()
    z, y, x = source.shape
    for plane in range(z):  # one at a time, as it may be large
        kept, given = stored[0, plane], source.load(0, ((plane, plane + 1), (0, y), (0, x)))[0]
        if source.fill is not None:
            kept = np.ma.filled(kept, source.fill)
            given = np.where(given == source.fill, np.nan, given) if given.dtype.kind == "f" else given
        same = np.array_equal(kept, given, equal_nan=given.dtype.kind == "f")
        if not same and not np.allclose(kept, given, rtol=0, atol=said.tolerance, equal_nan=True):
            return False
    return True


def _text(text: Text, along: tuple[int, int] | None) -> _quarry.Text:
    field, axis = along or (None, None)
    return _quarry.Text(name=text.name, field=field, axis=axis, texts=text.texts, attributes=text.attributes)


def _move(whole: Given, *, goes_on: bool) -> None:
    """Data of one moment become the next step, instead of a still field.

    Args:
        goes_on: whether there may be earlier ones, so that single values beside it are those of this moment
    """
    for source in whole.sources:
        if source.moves and (goes_on or not source.coordinate):
            source.still = False


def _of(value: T | Mapping[str, T] | None, source: Source) -> T | None:
    """The option for a field: by its name, or for all that are not exact."""
    if isinstance(value, Mapping):
        whole = value.get(source.complex[0]) if source.complex else None
        return value.get(source.name, whole)
    return None if source.exact else value


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
    """The first field with steps. All that do not stand still have these, as a dataset has one series; their grids may
    differ."""
    moving = [source for source in fields if not source.still]
    first = moving[0] if moving else fields[0]
    for other in moving[1:]:
        if other.steps != first.steps:
            raise ValueError(f"{other.name!r} has {other.steps} steps, but {first.name!r} has {first.steps}; fields "
                             "of one call have the same steps, so write them one after the other with "
                             "mode=\"append\", or into two datasets")
        if first.moments.times and other.moments.times and first.moments.times != other.moments.times:
            raise ValueError(f"{other.name!r} has other times than {first.name!r}; a step has one, so write them into "
                             "two datasets, or give `time`")
    return first


def _moments_of(fields: Sequence[Source]) -> Moments:
    """The moments of the steps, from the first field that has them."""
    found = [source.moments for source in sorted(fields, key=lambda source: source.still)]
    return next((moments for moments in found if moments.times), found[0])


def _listed(value: Any) -> list[Any]:
    """One, or those of a list."""
    return [*value] if hasattr(value, "__iter__") and not isinstance(value, str) else [value]


def _numbers(step: int | Sequence[int] | None, source: Source) -> list[int]:
    if step is None:
        step = source.moments.numbers or 0
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


def _times_of(time: Any, units: str, calendar: str, moments: Moments, first: Source) -> Times:
    if time is None:
        found = moments.times or Times((None,) * first.steps)
        if not units and not calendar:
            return found
        if found.units:
            raise ValueError(f"time_units={units!r} and calendar={calendar!r} were given, and the times of "
                             f"{first.name!r} are in {found.units!r}; leave them out, or give `time` as well")
        return Times(found.values, units, calendar)
    times = of_argument(time, units, calendar)
    if len(times.values) != first.steps:
        raise ValueError(f"{len(times.values)} times were given, and {first.name!r} has {first.steps} steps")
    return times


def _grid(source: Source, origin: Sequence[float] | None, spacing: Sequence[float] | None,
          patch: int | Triple | None, levels: int | None) -> _quarry.Grid:
    axes = source.axes
    evenly = origin is not None or spacing is not None
    if isinstance(patch, int):
        patch = (patch, patch, patch)
    for triple in (origin, spacing):
        if isinstance(triple, Sequence) and not isinstance(triple, str):
            _three(triple)
    check(origin=origin, spacing=spacing, patch=patch, levels=levels)
    if source.exact or not any(source.has_axis):  # cut as those are beside which it is
        patch, levels = None, None
    return _quarry.Grid(
        shape=source.shape,
        origin=_three(origin) if origin is not None else _three([axis.origin for axis in axes]),
        spacing=_three(spacing) if spacing is not None else _three([axis.spacing for axis in axes]),
        names=_three([axis.name for axis in axes]), units=_three([axis.units for axis in axes]),
        coordinates=_three([[] if evenly else axis.coordinates for axis in axes]),
        has_axis=_three(source.has_axis), placed=evenly or any(axis.placed for axis in axes),
        unplaced=_three([False] * 3 if evenly else source.unplaced), dtypes=_three([axis.dtype for axis in axes]),
        attributes=_three([axis.attributes for axis in axes]), patch=patch, levels=levels)


def _three(values: Sequence[T]) -> tuple[T, T, T]:
    if len(values) != 3:
        raise ValueError(f"{values} is to be three values, of z, y and x")
    return values[0], values[1], values[2]
