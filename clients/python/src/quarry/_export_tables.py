"""Tables as text (.csv), which spreadsheets and pandas read: profiles, and values at points."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quarry._export_contents import Layout, Variable
from quarry._export_output import Output, describe, sync
from quarry._grids import Triple
from quarry._info import titled

if TYPE_CHECKING:
    import numpy.typing as npt


def write_table(path: Path, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """As RFC 4180 has it, but that lines end as text here does."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(rows)


def write_points(path: str | os.PathLike[str], titles: Sequence[str], positions: npt.NDArray[np.float64],
                 values: npt.NDArray[np.float64]) -> None:
    """Positions and values; a missing value is an empty cell. The file appears as a whole."""
    final = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    if final.suffix.lower() != ".csv":
        raise ValueError(f"points go to a .csv file, and \"{final}\" is none")
    part = final.with_name(final.name + ".part")
    try:
        write_table(part, titles, ((*map(repr, point), "" if math.isnan(value) else repr(value))
                                   for point, value in zip(positions.tolist(), values.tolist(), strict=True)))
        sync(part)
        os.replace(part, final)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class Csv(Output):
    """A line of the grid: a row for each sample, its position and the fields there. A missing sample is an empty cell.
    Several steps come one after the other, with their numbers, and their times if there are any. Metadata that a table
    cannot hold are in PATH.json."""

    resumable = False
    in_four_dimensions = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        layout = self.layout
        long = [axis for axis, length in enumerate(layout.grid.shape) if length > 1]
        if len(long) > 1:
            shape = " x ".join(map(str, layout.grid.shape))
            raise ValueError(f"a .csv file holds a line, and these are {shape} samples (z, y, x); give a box that is "
                             "one sample thick along two axes, or export to .nc, .h5, .zarr or .npy")
        self._axis = layout.grid.axes[long[0] if long else 2]
        self._columns = [np.full((len(layout.numbers), len(self._axis.positions)), 0, variable.dtype)
                         for variable in layout.variables]

    @property
    def finals(self) -> list[Path]:
        return [self.path, self.path.with_name(self.path.name + ".json")]

    @property
    def sizes(self) -> list[int]:
        return []  # the lengths of the numbers are unknown

    def create(self) -> None:
        self.parts[0].touch()
        self.parts[1].write_text(describe(self.layout) + "\n")

    def reopen(self) -> None:
        raise AssertionError("a table is written at once")

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        first = max(begin)
        self._columns[variable][step, first:first + block.size] = block.ravel()

    def flush(self) -> None:
        write_table(self.parts[0], self._titles(), self._rows())
        super().flush()

    def _titles(self) -> list[str]:
        layout = self.layout
        steps = [layout.number] if len(layout.numbers) > 1 else []
        times = [layout.time] if layout.has_times() else []
        return [*steps, *times, titled(self._axis.name, self._axis.units),
                *(titled(variable.name, variable.units) for variable in layout.variables)]

    def _rows(self) -> Iterator[list[str]]:
        layout = self.layout
        positions = [repr(position) for position in self._axis.positions.tolist()]
        for place, (number, time) in enumerate(zip(layout.numbers, layout.times, strict=True)):
            before = [str(number)] if len(layout.numbers) > 1 else []
            before += ["" if math.isnan(time) else repr(time)] if layout.has_times() else []
            cells = [_cells(column[place], variable, place)
                     for column, variable in zip(self._columns, layout.variables, strict=True)]
            for position, *values in zip(positions, *cells, strict=True):
                yield [*before, position, *values]

    def close(self) -> None:
        pass


def _cells(samples: npt.NDArray[Any], variable: Variable, step: int) -> list[str]:
    """The shortest text that gives each sample again."""
    may_miss = variable.missing[step] or not variable.held[step]
    missing = np.zeros(len(samples), bool) if not may_miss else (
        ~np.isfinite(samples) if variable.dtype.kind == "f" else samples == variable.fill)
    return ["" if gone else str(one) for one, gone in zip(samples, missing.tolist(), strict=True)]
