"""Compares what a dataset has with what another library says of the variable that was converted."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import oracle
import quarry_testing as qt
from conversion import Choice, FailureError


class Comparison:
    """Compares one dataset with a part of a variable."""

    def __init__(self, variable: oracle.Variable, values: np.ma.MaskedArray, exact: np.ndarray | None, choice: Choice,
                 info: dict[str, Any], outcome: qt.Outcome, reader: str):
        self.variable, self.choice, self.info, self.err, self.reader = variable, choice, info, outcome.err, reader
        self.values, self.exact = values, exact
        self.differences: dict[str, str] = {}
        self.gone_somewhere = False

    def differ(self, kind: str, what: str) -> None:
        self.differences.setdefault(kind, what)

    def free(self) -> list[int]:
        """Dimensions that are neither fixed nor a range of fields."""
        gone = set(self.choice.fixed) | ({self.choice.span[0]} if self.choice.span else set())
        return [i for i in range(len(self.variable.shape)) if i not in gone]

    def time(self) -> int | None:
        """The dimension that became steps."""
        dims, steps = self.variable.dimensions, len(self.info["steps"])
        said = self.choice.axes
        moments = [i for i in self.free() if (said[i] == "t" if said else dims[i].is_time)]
        if moments and dims[moments[0]].size == steps:
            return moments[0]
        if moments:
            self.differ("axes", f"{dims[moments[0]].name} is time, but there are {steps} steps")
        if steps == 1:
            return None
        same = [i for i in self.free() if dims[i].size == steps]
        if not same:
            raise FailureError(f"{steps} steps are along no dimension of {self.variable.shape}")
        self.differ("axes", f"steps along {dims[same[0]].name}, which is no time")
        return same[0]

    def grid(self, time: int | None) -> list[int]:
        """The dimensions that became z, y, x, and their shape."""
        dims = self.variable.dimensions
        grid = [i for i in self.free() if i != time]
        shape = self.info["dims"][::-1]
        # Dimensions of one sample may be dropped.
        for i in list(grid):
            if len(grid) > 3 and dims[i].size == 1:
                grid.remove(i)
        if [dims[i].size for i in grid] != shape[3 - len(grid):] or any(n != 1 for n in shape[:3 - len(grid)]):
            long = [i for i in grid if dims[i].size > 1]
            if [dims[i].size for i in long] != shape[3 - len(long):] or any(n != 1 for n in shape[:3 - len(long)]):
                raise FailureError(f"z, y, x are {shape}, and the dimensions {[(d.name, d.size) for d in dims]}")
            grid = long
        return grid

    def run(self, samples: dict[tuple[str, int], np.ndarray]) -> int:
        """Compares everything; the number of samples."""
        time = self.time()
        grid = self.grid(time)
        count = 0
        indices = range(*self.choice.span[1:]) if self.choice.span else [None]
        names = [f["name"] for f in self.info["fields"]]
        if len(names) != len(indices):
            raise FailureError(f"{len(indices)} indices are {len(names)} fields: {names}")
        for described, index in zip(self.info["fields"], indices, strict=True):
            for number, step in enumerate(self.info["steps"]):
                at: list[Any] = [0 if d.size else slice(None) for d in self.variable.dimensions]
                for i in grid:
                    at[i] = slice(None)
                for i, fixed in self.choice.fixed.items():
                    at[i] = fixed
                if self.choice.span:
                    at[self.choice.span[0]] = index
                if time is not None:
                    at[time] = number
                exact = None if self.exact is None else np.ravel(self.exact[tuple(at)])
                expected = np.ma.ravel(self.values[tuple(at)])
                count += self.compare(expected, exact, samples[described["name"], step], described)
        self.compare_words(time, grid)
        return count

    def compare(self, expected: np.ma.MaskedArray, exact: np.ndarray | None, decoded: np.ndarray,
                described: dict[str, Any]) -> int:
        if decoded.size != expected.size:
            raise FailureError(f"{decoded.size} samples, and not {expected.size}")
        gone = np.ma.getmaskarray(expected)
        data = np.ma.getdata(expected)
        if data.dtype.kind == "f":
            gone = gone | ~np.isfinite(data)
        data = data.astype(data.dtype.newbyteorder("="))
        if data.dtype != decoded.dtype:
            self.differ("type", f"{data.dtype}, and Quarry has {decoded.dtype}")
        missing = qt.missing(decoded, described.get("fill"))
        self.gone_somewhere |= bool(missing.any())
        if (missing != gone).any():
            at = int(np.flatnonzero(missing != gone)[0])
            self.differ("mask", f"{int((missing & ~gone).sum())} samples are missing here alone, "
                                f"{int((gone & ~missing).sum())} there alone, of {gone.size}; "
                                f"sample {at} is {data[at]!r} there, and {decoded[at]!r} here")
        both = ~gone & ~missing
        ours, theirs = decoded[both], data[both].astype(decoded.dtype)
        if exact is not None:
            theirs = self.unpacked(exact[both], data[both], decoded.dtype)
        wrong = qt.bits(ours) != qt.bits(theirs)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            self.differ("values", f"{int(wrong.sum())} of {wrong.size}; {theirs[at]!r} there, {ours[at]!r} here")
        return int(decoded.size)

    def unpacked(self, exact: np.ndarray, theirs: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Unpacked in double and rounded once. numpy may round in between, so that its last bits differ."""
        rounded = exact.astype(dtype)
        if dtype.kind == "f" and theirs.size:
            scale = float(np.abs(exact).max())
            narrow = np.finfo(np.float32 if np.float32 in (theirs.dtype, dtype) else np.float64).eps
            offset = float(np.abs(theirs.astype("f8") - exact).max())
            if offset > 8 * narrow * max(scale, 1e-300):
                self.differ("values", f"unpacked values are off by {offset}")
            elif (rounded != theirs.astype(dtype)).any():
                self.differ("last bits", "of values that are unpacked")
        return rounded

    def compare_words(self, time: int | None, grid: list[int]) -> None:
        """Units, times, positions, and what must be said."""
        for described in self.info["fields"]:
            if described["units"].strip() != self.variable.units.strip():
                self.differ("units", f"{self.variable.units!r}, and Quarry has {described['units']!r}")
        self.compare_times(None if time is None else self.variable.dimensions[time])
        if not self.choice.axes:
            for axis, i in enumerate(reversed(grid)):
                self.compare_positions(axis, self.variable.dimensions[i])
        if self.variable.unwritten and "never written" not in self.err and not self.gone_somewhere:
            self.differ("unsaid", "no sample was ever written, and nothing says so")
        for name in self.variable.coordinates:
            if name not in self.info["beside"] and not re.search(rf"coordinates .*\b{re.escape(name)}\b", self.err):
                self.differ("unsaid", f"the coordinate {name} is dropped without a word")

    def compare_times(self, dimension: oracle.Dimension | None) -> None:
        times = dimension.times if dimension is not None else self.variable.moment
        ours = self.info["times"]
        if times is None:
            if any(t is not None for t in ours):
                self.differ("times", f"none, and Quarry has {ours[:3]}")
            elif self.variable.moment is not None and "time" not in self.err:
                self.differ("unsaid", f"its moment {self.variable.moment.values} is dropped without a word")
            return
        if ours != times.values:
            at = next((i for i, (a, b) in enumerate(zip(ours, times.values, strict=False)) if a != b), 0)
            self.differ("times", f"{times.values[at:at + 3]}, and Quarry has {ours[at:at + 3]}")
        if all(t is None for t in times.values):
            if "are not all numbers" not in self.err:
                self.differ("unsaid", "its times are no numbers, and nothing says so")
            return
        if (self.info["time_units"] or "") != times.units.strip():
            self.differ("times", f"unit {times.units!r}, and Quarry has {self.info['time_units']!r}")
        if (self.info["calendar"] or "").lower() != times.calendar.lower():
            self.differ("times", f"calendar {times.calendar!r}, and Quarry has {self.info['calendar']!r}")

    def compare_positions(self, axis: int, dimension: oracle.Dimension) -> None:
        info, n = self.info, dimension.size
        if dimension.letter:
            return
        name = info["axis_names"][axis]
        spaced = info["coordinates"][axis]
        if spaced is None:
            spaced = info["origin"][axis] + info["spacing"][axis] * np.arange(n)
        spaced = np.asarray(spaced)
        positions = dimension.positions
        if positions is not None and dimension.lies():
            step = abs(positions[-1] - positions[0]) / max(1, n - 1)
            # As float32 has them.
            rounding = max(1e-6 * step, np.abs(positions).max() * 2.0**-23)
            off = float(np.abs(spaced - positions).max())
            if not off <= rounding:
                self.differ("positions", f"of {dimension.name}: off by {off}")
            if (dimension.name, dimension.units.strip()) != (name, info["axis_units"][axis]):
                self.differ("positions", f"axis {dimension.name!r} in {dimension.units!r}, and Quarry has {name!r} in "
                                         f"{info['axis_units'][axis]!r}")
            return
        if not np.array_equal(spaced, np.arange(n)):
            self.differ("positions", f"of {dimension.name}: none, and Quarry has {spaced[:3]}")
        is_said = f"the coordinate {dimension.name}" in self.err.replace("the coordinate /", "the coordinate ")
        is_kept = dimension.name in info["beside"]
        if dimension.has_coordinate and not (info["unplaced"][axis] and (is_said or is_kept)):
            self.differ("positions", f"those of {dimension.name} are dropped without a word")
        unnamed = dimension.name is None or dimension.name.startswith("phony_dim")  # by NetCDF's library
        if not dimension.has_coordinate and not (unnamed and name == "xyz"[axis]) and name != dimension.name:
            self.differ("positions", f"axis {dimension.name!r}, and Quarry has {name!r}")
