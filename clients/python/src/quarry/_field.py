"""A field of a dataset as an array."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from quarry import _protocols, _quarry
from quarry._errors import Error
from quarry._feeds import taken, taken_async
from quarry._grids import Box, Region, Triple, box_of
from quarry._info import Text, field_info, titled
from quarry._protocols import Answer, Encoding
from quarry._samples import Samples
from quarry._selection import Run, boxes, in_order, ordered, put, select
from quarry._series import Series, Steps, numbers_of, points_of_steps, read_series
from quarry._words import explained

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr


_NEAR = 4
"""Indices of steps from either end for which the steps up to there are asked, one at a time."""


class Field(_protocols.Field):
    """A field of a dataset: an array over [step, z, y, x]. An index reads just its selection.

    The first axis is the position in the ascending list of the steps that hold the field; what does not change with
    time has one. Integers, slices, `...` and `None` select as they do in numpy, in full resolution. Lists of integers
    and masks, one for each axis, select along that axis alone, as with numpy.ix_: several give each combination, and no
    axis changes its place. Missing samples of floating-point fields are NaN; an integer field with missing samples
    gives a masked array, here and from `read` and `stream`. Damage raises an Error.
    """

    def info(self) -> Text:
        """Summary as a text of several lines: shape, steps, range of the original samples, bound, sizes."""
        return field_info(self)

    def _repr_html_(self) -> str:
        from quarry._pictures import field_html
        return field_html(self)

    # ---- Reading

    def __getitem__(self, key: Any) -> Any:
        """The selected samples in full resolution: an array, or a scalar. Patches without any of them are not read."""
        import numpy as np
        numbers, key = self._steps_of(key)
        selection = select(key, (len(numbers), *self.grid.shape))
        (positions, *along), orders = ordered(selection.along)
        array = np.empty([len(positions), *map(len, along)], self.dtype)
        masked = False
        if array.size:
            for place, position in enumerate(positions):
                for box in boxes(along, self.grid.patch):
                    masked |= self._read_box(numbers[position], box, array[place])
        result = in_order(array, orders).reshape(selection.shape)
        if masked and array.dtype.kind in "iu":
            return self._masked(result)
        return result if selection.shape else result[()]

    def _steps_of(self, key: Any) -> tuple[builtins.list[int], Any]:
        """Numbers of steps, and the key that selects from them: of all that hold the field, unless one index says
        which. Those near an end are found without the records of the others."""
        first, *rest = (key or (None,)) if isinstance(key, tuple) else (key,)
        if type(first) is int and -_NEAR <= first < _NEAR and not self.still:
            numbers = self.dataset.steps
            beyond = -first - 1 if first < 0 else first
            for number in reversed(numbers) if first < 0 else numbers:
                if beyond == 0 and self._is_in(number):
                    return [number], (0, *rest)
                beyond -= self._is_in(number)
        return self.steps, key

    def _is_in(self, number: int) -> bool:
        """Whether a step holds it."""
        return self.dataset._has(number, self.name)

    def _read_box(self, step: int, box: Sequence[Run], out: npt.NDArray[Any]) -> bool:
        """Reads the box of the runs, and puts what they want into `out`, which is for all runs of a step.

        Returns:
            whether samples may be missing
        """
        z, y, x = ((run.first, run.last + 1) for run in box)
        question = _quarry.Question(self.name, step=step, box=(z, y, x))
        if all(run.is_all_of(length) for run, length in zip(box, out.shape, strict=True)):
            return self.dataset.native.read(question, out=out).may_miss
        answer = self.dataset.native.read(question)
        put(answer.array, box, out)
        return answer.may_miss

    def _masked(self, array: npt.NDArray[Any]) -> Any:
        import numpy as np
        ma: Any = np.ma  # has no types
        if array.dtype.kind == "f":
            return ma.masked_invalid(array, copy=False)
        fill = self._description.fill
        return ma.asarray(array) if fill is None else ma.masked_equal(array, array.dtype.type(fill), copy=False)

    def _question(self, *, box: Box | Region | None = None, stride: int | Triple | None = None,
                  encoding: Encoding | None = None, recode: str | float | None = None,
                  **question: Any) -> _quarry.Question:
        if isinstance(stride, int):
            stride = (stride, stride, stride)
        if encoding is not None or recode is not None:
            question |= {"encoding": encoding or self.dataset._options["encoding"], "recode": recode}
        return explained(_quarry.Question, self.name, box=box_of(self.grid, box), stride=stride, **question)

    def _samples(self, answer: Answer, masked: bool | None) -> Samples:
        if masked is None:
            masked = answer.may_miss and self.dtype.kind in "iu"
        array = self._masked(answer.array) if masked else answer.array
        return Samples(answer, array, self)

    @overload
    def read(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, stride: int | Triple | None = None,
             values: tuple[float, float] | None = None, strict: bool = True, masked: bool | None = None,
             progress: bool = False, layer: int | None = None, steps: None = None,
             encoding: Encoding | None = None, recode: str | float | None = None) -> Samples:
        ...

    @overload
    def read(self, *, box: Box | Region | None = None, step: None = None, level: int | None = None,
             max_error: None = None, max_bytes: None = None, stride: int | Triple | None = None, values: None = None,
             strict: bool = True, masked: bool | None = None, progress: Literal[False] = False,
             layer: int | None = None, steps: Steps, encoding: Encoding | None = None,
             recode: str | float | None = None) -> Series:
        ...

    def read(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, stride: int | Triple | None = None,
             values: tuple[float, float] | None = None, strict: bool = True, masked: bool | None = None,
             progress: bool = False, layer: int | None = None, steps: Steps | None = None,
             encoding: Encoding | None = None, recode: str | float | None = None) -> Samples | Series:
        """Reads a box of one step, or of several.

        Args:
            box: ((z0, z1), (y0, y1), (x0, x1)) in samples of full resolution, half-open; or positions along axes by
                their names, {"lat": (40, 50), "z": (None, 100)}, the smaller one first, both included, and axes that
                are left out whole; the whole grid if left out
            step: the number of the step; the first that holds the field if left out
            level: 0, full resolution, if nothing else says which
            max_error: instead of a level: the cheapest that shows every sample within this error, in the field's unit
            max_bytes: instead of a level: the finest of which at most so many bytes are read, and of samples
            stride: instead of a level: every so many-th sample, along all axes or along (z, y, x)
            values: (low, high): patches without a value between these are not read, see `Samples.left_out`
            strict: damage is an Error; False: a rougher layer or a coarser level is shown, see `Samples.damaged`
            masked: True: a numpy.ma array, with missing samples masked; False: a plain array, in which they are NaN or,
                in fields of integers, the fill value. If left out, only missing integers are masked
            progress: shows a bar; needs tqdm, and does not go with `stride` and `values`
            layer: of accuracy, 0 the roughest; the last if left out, and the best for `max_error` and `max_bytes`
            steps: instead of a step: the numbers of several, or "all" that hold the field; with `level` or `stride`
            encoding: of a server's answer, see `quarry.open`; that of the dataset if left out. A directory has no use
                for it
            recode: with the encoding "coded": the error that a server may add to that of the stored samples: "2x", at
                most so much that it doubles, or a number, at most so much, in the field's unit. `Samples.max_error`
                includes it. If left out, nothing is added, but `max_error` leaves coding what the stored samples do not
                need of it

        Returns:
            Samples [z, y, x]; with `steps`, a Series [step, z, y, x]

        Raises:
            ValueError: arguments that exclude each other; no step at all; no such encoding
            Error: no such step (NOT_FOUND), box or level outside, no such axis, no sample between positions
                (INVALID_ARGUMENT), damage (DATA_LOSS), and those of
                the server
        """
        question = self._question(step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes,
                                  stride=stride, values=values, strict=strict, layer=layer, encoding=encoding,
                                  recode=recode)
        if steps is not None:
            given = {"step": step, "max_error": max_error, "max_bytes": max_bytes, "values": values,
                     "progress": progress or None}
            if other := [name for name, value in given.items() if value is not None]:
                raise ValueError(f"{other[0]}={given[other[0]]!r} does not go with steps, of which all are read alike; "
                                 "read one step after the other, or leave one of the two out")
            return read_series(self, steps, masked, lambda number: self._question(
                step=number, box=box, level=level, stride=stride, strict=strict, layer=layer, encoding=encoding,
                recode=recode))
        if progress:
            if stride is not None or values is not None:
                raise ValueError("progress does not go with stride and values; leave it out")
            from quarry._progress import read_with_bar
            return self._samples(read_with_bar(self, box=box, step=step, level=level, max_error=max_error,
                                               max_bytes=max_bytes, strict=strict, layer=layer, encoding=encoding,
                                               recode=recode), masked)
        return self._samples(self.dataset.native.read(question), masked)

    def stream(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
               max_error: float | None = None, max_bytes: int | None = None, first_level: int | None = None,
               focus: tuple[float, float, float] | None = None, values: tuple[float, float] | None = None,
               strict: bool = True, masked: bool | None = None, layer: int | None = None,
               first_layer: int | None = None, encoding: Encoding | None = None, recode: str | float | None = None
               ) -> Iterator[Samples]:
        """Reads a box level by level, the coarsest first. Of a field in layers of accuracy, levels come in the roughest
        layer, and then the last one again in each further layer. The next is read while this one is looked at. Close
        the generator, or leave its loop and drop it, to end the read.

        Args:
            first_level: begin with this one; the coarsest of the dataset if left out
            first_layer: begin with this one; the roughest if left out
            focus: (z, y, x) in samples of full resolution: what is near comes first within each level

        The others, and the errors, are those of `read`.
        """
        return (self._samples(answer, masked) for answer in taken(self._stream(
            box=box, step=step, level=level, max_error=max_error, max_bytes=max_bytes, first_level=first_level,
            focus=focus, values=values, strict=strict, layer=layer, first_layer=first_layer, encoding=encoding,
            recode=recode)))

    def _stream(self, *, first_level: int | None = None, first_layer: int | None = None,
                **question: Any) -> _quarry.Stream:
        if first_level is None:
            first_level = self.levels - 1
        return self.dataset.native.stream(self._question(first_level=first_level, first_layer=first_layer or 0,
                                                         stride=None, **question))

    async def aread(self, *, masked: bool | None = None, step: int | None = None, box: Box | Region | None = None,
                    level: int | None = None, max_error: float | None = None, max_bytes: int | None = None,
                    stride: int | Triple | None = None, values: tuple[float, float] | None = None,
                    strict: bool = True, layer: int | None = None, encoding: Encoding | None = None,
                    recode: str | float | None = None) -> Samples:
        """`read` for `await`. A task that is cancelled ends the read."""
        question = self._question(step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes,
                                  stride=stride, values=values, strict=strict, layer=layer, encoding=encoding,
                                  recode=recode)
        async for answer in taken_async(self.dataset.native.stream(question)):
            return self._samples(answer, masked)
        raise Error("INTERNAL", "the answer has no level")

    async def astream(self, *, masked: bool | None = None, **question: Any) -> AsyncIterator[Samples]:
        """`stream` for `async for`. A task that is cancelled ends the read."""
        async for answer in taken_async(self._stream(**question)):
            yield self._samples(answer, masked)

    def plan(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             max_error: float | None = None, max_bytes: int | None = None, stride: int | Triple | None = None,
             first_level: int | None = None, values: tuple[float, float] | None = None,
             layer: int | None = None, first_layer: int | None = None) -> _quarry.Plan:
        """Plan of `read`, or of `stream` with a `first_level` and a `first_layer`: the answer and its cost. Reads no
        data. Arguments and errors are theirs."""
        return self.dataset.native.plan(self._question(
            step=step, box=box, level=level, max_error=max_error, max_bytes=max_bytes, stride=stride, values=values,
            first_level=first_level, layer=layer, first_layer=first_layer))

    def stats(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
              max_error: float | None = None, percentiles: Sequence[float] = (), bins: int = 0,
              range: tuple[float, float] | None = None, strict: bool = True, layer: int | None = None,
              scale: Literal["linear", "log", "quantile"] = "linear") -> _quarry.Statistics:
        """Statistics of a box, computed where the data are. Each comes with an interval that holds the statistic of the
        original samples at the same positions.

        Args:
            percentiles: 0 to 100 each
            bins: of a histogram; 0: none
            range: its first and last edge; what was recorded for the patches if left out
            scale: bins of equal width ("linear"), of equal ratio ("log", from above 0), or with about as many samples
                in each ("quantile", without a range)

        The others, and the errors, are those of `read`.
        """
        question = self._question(step=step, box=box, level=level, max_error=max_error, strict=strict, layer=layer)
        return explained(self.dataset.native.statistics, question, [float(percent) for percent in percentiles],
                         bins=bins, range=range, scale=scale)

    def min(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
            layer: int | None = None) -> _quarry.Bounded:
        """The smallest sample, computed where the data are: `value` of the decoded samples, and an interval from `low`
        to `high` that holds the smallest of the original samples at the same places. `float()` gives the value. NaN if
        all are missing.

        Args:
            box: as for `read`
            step: of this step alone; of all that hold the field if left out
            level: 0, full resolution, if left out
            layer: of accuracy, 0 the roughest; the last if left out

        Raises:
            ValueError: no step holds the field
            Error: those of `read`
        """
        return self._totals(box, step, level, layer).min

    def max(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
            layer: int | None = None) -> _quarry.Bounded:
        """The largest sample. Arguments, answer and errors are those of `min`."""
        return self._totals(box, step, level, layer).max

    def mean(self, *, box: Box | Region | None = None, step: int | None = None, level: int | None = None,
             layer: int | None = None) -> _quarry.Bounded:
        """The mean of the samples that are not missing. Arguments, answer and errors are those of `min`."""
        return self._totals(box, step, level, layer).mean

    def _totals(self, box: Box | Region | None, step: int | None, level: int | None, layer: int | None
                ) -> _quarry.Totals:
        numbers = numbers_of(self, "all" if step is None else [step])
        return _quarry.together([self.stats(box=box, step=number, level=level, layer=layer) for number in numbers])

    def points(self, positions: npt.ArrayLike, *, step: int | None = None, physical: bool = False,
               layer: int | None = None, output: str | os.PathLike[str] | None = None, steps: Steps | None = None
               ) -> tuple[npt.NDArray[np.float64], float]:
        """The field between its samples, by trilinear interpolation.

        Args:
            positions: [point, 3]: z, y, x of each, in samples, the first of which is 0
            physical: they are in the units of the axes instead. Where the axes y and x have no positions, and two
                fields that are coordinates say where samples lie: z, latitude, longitude, in the units of these
                fields. Both are read whole, and kept for the next points
            layer: of accuracy, 0 the roughest; the last if left out
            output: a file .csv, to which positions, as they were given, and values are written too; the cell of a
                missing value is empty. Of one step
            steps: instead of a step: the numbers of several, or "all" that hold the field

        Returns:
            the values [point], or with `steps` [step, point], NaN where a sample around a point is missing; and what
            the same interpolation of the original samples differs by at most

        Raises:
            ValueError: positions of another shape; `steps` with `step` or `output`
            Error: a point is outside the grid, or physical, and y and x have no positions, and not one longitude and
                one latitude either (INVALID_ARGUMENT); and those of `read`
        """
        import numpy as np
        array = np.ascontiguousarray(positions, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3:
            raise ValueError(f"positions have the shape {array.shape}; it is to be (points, 3)")
        if steps is not None:
            if step is not None or output is not None:
                raise ValueError(f"{'output' if step is None else 'step'} does not go with steps; leave one of the two "
                                 "out")
            return points_of_steps(self, steps, lambda number: self._points(number, array, physical, layer))
        values, error = self._points(step, array, physical, layer)
        if output is not None:
            from quarry._export_tables import write_points
            names, units = self.dataset.native.position_titles(self.name, physical)
            write_points(output, [*map(titled, names, units), titled(self.name, self.units)], array, values)
        return values, error

    def _points(self, step: int | None, positions: npt.NDArray[np.float64], physical: bool, layer: int | None
                ) -> tuple[npt.NDArray[np.float64], float]:
        return explained(self.dataset.native.points, self.name, step=step, positions=positions, physical=physical,
                         layer=layer)

    def to_xarray(self, *, level: int | None = None, max_error: float | None = None,
                  layer: int | None = None, steps: Sequence[int] | None = None) -> xr.DataArray:
        """The field as xarray's engine "quarry" has it: lazy, with coordinates and attributes, without axes that it
        lacks.

        Args:
            level: 0, full resolution, if nothing else says which
            max_error: instead of level and layer: those with the fewest bytes that show every sample of all steps
                within this error
            layer: of accuracy, 0 the roughest; the last if left out
            steps: numbers of the steps; all that are published, if left out

        Raises:
            ImportError: xarray is not installed
            Error: no such step, or no level within max_error (NOT_FOUND)
        """
        try:
            from quarry._xarray_view import field_to_xarray
        except ImportError as error:
            raise ImportError("arrays of xarray need xarray: pip install xarray") from error
        return field_to_xarray(self, level=level, max_error=max_error, layer=layer, steps=steps)

    # ---- Looking

    def plot(self, *, axis: str = "z", at: float | None = None, index: int | None = None, step: int | None = None,
             level: int | None = None, max_error: float | None = None, layer: int | None = None, ax: Any = None,
             **image: Any) -> Any:
        """Draws a plane of one step with matplotlib: positions and values with their units, missing samples in grey.

        Args:
            axis: the one that the plane is normal to, by its name; "z", "y" and "x" are known too
            at: where along it, in the unit of the axis; the nearest plane is drawn, the middle one if left out
            index: the same as the number of a sample of full resolution
            step: the number of the step; the first that holds the field if left out
            level: the coarsest with a sample for each pixel if left out
            max_error: instead of level and layer: those with the fewest bytes that show every sample of the step within
                this error, in the field's unit
            layer: of accuracy, 0 the roughest; the last if left out
            ax: matplotlib's Axes; those of a new figure if left out
            image: for matplotlib's pcolormesh: cmap, vmin, vmax, norm

        Returns:
            matplotlib's QuadMesh; its figure is `plot(...).figure`

        Raises:
            ValueError: a plane outside the grid, no such level or layer; ImportError: no matplotlib; and the errors of
                `read`
        """
        from quarry import _pictures
        return _pictures.plot(self, axis=axis, at=at, index=index, step=step, level=level, max_error=max_error,
                              layer=layer, ax=ax, image=image)

    def show(self, *, axis: str = "z", at: float | None = None, index: int | None = None, step: int | None = None,
             level: int | None = None, max_error: float | None = None, layer: int | None = None, ax: Any = None,
             **image: Any) -> Any:
        """`plot` that begins with the coarsest level and sharpens while data come in: in a notebook, or in a window of
        matplotlib. Arguments, answer and errors are those of `plot`."""
        from quarry import _pictures
        return _pictures.show(self, axis=axis, at=at, index=index, step=step, level=level, max_error=max_error,
                              layer=layer, ax=ax, image=image)

    def animate(self, steps: Sequence[int] | None = None, *, axis: str = "z", at: float | None = None,
                index: int | None = None, level: int | None = None, max_error: float | None = None,
                layer: int | None = None, interval: float = 100, ax: Any = None, **image: Any) -> Any:
        """A film of `plot` over steps, in colours that mean the same in each picture.

        Args:
            steps: their numbers; all that hold the field if left out
            max_error: as for `plot`, in each of the steps
            interval: [ms] between pictures

        The others, and the errors, are those of `plot`.

        Returns:
            matplotlib's FuncAnimation: `.save("run.gif")` writes it; keep it as long as it is shown
        """
        from quarry import _pictures
        return _pictures.animate(self, steps, axis=axis, at=at, index=index, level=level, max_error=max_error,
                                 layer=layer, interval=interval, ax=ax, image=image)
