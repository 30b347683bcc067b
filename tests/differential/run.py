#!/usr/bin/env python3
"""Does Quarry see in a file what other libraries see? Converts every variable of every file without loss, reads it back,
and compares values, missing samples, units, times and positions with netCDF4-python, h5py, tifffile and numpy.

Files are those of iris-sample-data, of the packages of netCDF4, h5py and xarray, and of the generators in ../shared/cases
and in generate.py. `scripts/differential.sh` brings the packages, and runs this program with them.

A difference is a failure unless differences.toml lists it with a reason, and so is an entry of it that nothing needs. A
refusal is none if it has one of the reasons below and the reason is true of the variable. Everything else is a failure:
other refusals, crashes, and what converts though no library takes it for numbers.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import importlib.util
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WORK = REPOSITORY / "build" / "differential"
sys.path += [str(HERE), str(REPOSITORY / "tests" / "integration")]

import quarry_testing as qt  # noqa: E402

os.environ.pop("HDF5_PLUGIN_PATH", None)
qt.ENVIRONMENT.pop("HDF5_PLUGIN_PATH", None)

import generate  # noqa: E402
import hdf5plugin  # noqa: E402
import numpy as np  # noqa: E402
import oracle  # noqa: E402

# With more indices than these, some at both ends are taken.
RANGE, COMBINATIONS = 40, 12
# Of a folder with many files alike, every so many.
MANY, SPARSE = 500, 100

PROGRAM = "quarry-write-single"
SAMPLES = {np.dtype(name) for name in ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4")}


def ranks_of(variable: oracle.Variable, chosen: list[int]) -> int:
    """Axes that are left without time and the dimensions of which an index is chosen."""
    return sum(not d.is_time and i not in chosen for i, d in enumerate(variable.dimensions))


# Reasons to refuse, and what must be true of the variable then.
REFUSALS: dict[str, tuple[str, Callable[[oracle.Variable, list[int]], bool]]] = {
    "type of the samples": (r"only floats and integers of up to 32 bits", lambda v, _: v.dtype not in SAMPLES),
    "a single number": (r"it is a single number", lambda v, others: ranks_of(v, others) == 0),
    "no samples": (r"has no samples", lambda v, _: 0 in v.shape),
    "an HDF5 filter that is not installed": (r"compressed by the HDF5 filter \d+", lambda v, _: True),
    "a part that is gone": (r"is a virtual dataset, and its source .* is missing", lambda v, _: v.gone),
    "no variable to NetCDF's library": (r"has no variable", lambda v, _: v.dtype is None),
    "several samples per pixel": (r"samples per pixel", lambda v, _: any(d.letter == "S" for d in v.dimensions)),
}
FILTER = "an HDF5 filter that is not installed"


@dataclass
class Result:
    """What became of one variable, read by one reader of Quarry."""

    file: str
    variable: str
    reader: str
    outcome: str  # same, different, refused, skipped, failed
    detail: str = ""
    differences: list[tuple[str, str]] = field(default_factory=list)  # kind and what
    warnings: list[str] = field(default_factory=list)
    samples: int = 0
    in_part: bool = False


@dataclass
class Known:
    """An entry of differences.toml."""

    file: str
    variable: str
    kind: str
    reason: str
    reader: str = "*"
    used: int = 0

    def matches(self, result: Result, kind: str) -> bool:
        pairs = ((result.file, self.file), (result.variable, self.variable), (kind, self.kind), (result.reader, self.reader))
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in pairs)


class Failure(Exception):
    """Something that is no difference, and never right."""


class Refused(Exception):
    """args: the reason and the message."""


# --- Quarry's side ---


def message_of(outcome: qt.Outcome) -> str:
    """The one line of an error, without warnings."""
    lines = [line for line in outcome.err.splitlines() if ": warning: " not in line]
    if len(lines) != 1 or not lines[0].startswith("quarry-write: "):
        raise Failure(f"not one line of error: {outcome}")
    return lines[0]


@dataclass
class Choice:
    """What the command line says beside the file: indices by dimension, one of them possibly a range."""

    fixed: dict[int, int] = field(default_factory=dict)
    span: tuple[int, int, int] | None = None  # dimension, begin, end
    names: dict[int, str] = field(default_factory=dict)
    axes: str = ""

    def options(self) -> list[str]:
        options = ["--axes", self.axes] if self.axes else []
        for dimension, index in self.fixed.items():
            options += ["--index", f"{self.names[dimension]}={index}"]
        if self.span:
            options += ["--index", f"{self.names[self.span[0]]}={self.span[1]}:{self.span[2]}"]
        return options


def choices(others: list[int], names: dict[int, str], shape: tuple[int, ...], axes: str) -> tuple[list[Choice], bool]:
    """Choices that take every index of the dimensions that are no axes, and whether they leave some out."""
    if not others:
        return [Choice(axes=axes)], False
    first, *rest = others
    in_part = shape[first] > RANGE
    spans = [(0, RANGE // 2), (shape[first] - RANGE // 2, shape[first])] if in_part else [(0, shape[first])]
    all_indices = [range(shape[d]) for d in rest]
    if np.prod([len(r) for r in all_indices], dtype=float) > COMBINATIONS:
        in_part = True
        all_indices = [sorted({0, shape[d] - 1}) for d in rest]
    return [Choice(dict(zip(rest, indices, strict=True)), (first, *span), names, axes)
            for span in spans for indices in itertools.product(*all_indices)], in_part


class Conversions:
    """Converts a variable of a file as a user does: plainly at first, then with what the message asks for."""

    def __init__(self, path: Path, variable: oracle.Variable, reader: str, environment: dict[str, str], folder: Path):
        self.source = f"{path}:{variable.name}" if variable.name else str(path)
        self.variable, self.folder, self.environment = variable, folder, environment
        self.reader = ["--format", reader] if reader else []
        self.in_part = False

    def run(self, choice: Choice) -> qt.Outcome:
        shutil.rmtree(self.folder / "a.quarry", ignore_errors=True)
        return qt.run(PROGRAM, self.source, "--lossless", *self.reader, *choice.options(), "--output", self.folder / "a.quarry",
                      env=self.environment)

    def all(self) -> Iterator[tuple[Choice, qt.Outcome]]:
        """Conversions that take every index; each one's dataset is there until the next."""
        others: list[int] = []
        names: dict[int, str] = {}
        axes = ""
        while True:
            wanted, self.in_part = choices(others, names, self.variable.shape, axes)
            outcome = self.run(wanted[0])
            if outcome.code == qt.DONE:
                break
            message = message_of(outcome)
            more, axes_more = self.asked(message, names, others, axes)
            if not more and axes_more == axes:
                self.refuse(message, others, outcome)
            others, axes = others + more, axes_more
        yield wanted[0], outcome
        for choice in wanted[1:]:
            outcome = self.run(choice)
            if outcome.code != qt.DONE:
                raise Failure(f"the first of several choices converts, this one does not: {outcome}")
            yield choice, outcome

    def asked(self, message: str, names: dict[int, str], others: list[int], axes: str) -> tuple[list[int], str]:
        """Dimensions that the message wants an index of, and letters that it proposes."""
        listed = re.search(r"its dimensions are (\S+=\d+(?: x \S+=\d+)*)", message)
        if not listed:
            return [], axes
        shown = [part.rsplit("=", 1) for part in listed[1].split(" x ")]
        letters = [d.letter for d in self.variable.dimensions]
        named = {"T": "frame", "Z": "z", "C": "channel", "Y": "y", "X": "x"}
        if all(letter in named for letter in letters):
            # tifffile leaves out what is there once, and has another order.
            sizes = dict(shown)
            shown = [[named[letter], sizes.get(named[letter], "1")] for letter in letters]
        if tuple(int(n) for _, n in shown) != self.variable.shape:
            raise Failure(f"the message lists other dimensions than {self.variable.shape}: {message}")
        names.update({i: name for i, (name, _) in enumerate(shown)})
        proposed = re.search(r"as --axes (\w+)", message)
        if proposed and len(shown) == 4 and not axes and not others and shown[0][0] == "0":
            return [], proposed[1]
        asked = re.findall(r"--index (\S+)=K", message)
        found = [i for i, (name, _) in enumerate(shown) if name in asked and i not in others]
        return found, axes

    def refuse(self, message: str, others: list[int], outcome: qt.Outcome) -> None:
        for reason, (pattern, holds) in REFUSALS.items():
            if re.search(pattern, message) and holds(self.variable, others):
                raise Refused(reason, message)
        raise Failure(f"refused for a reason that is not understood, or not true: {outcome}")

    def read(self) -> tuple[dict[str, Any], dict[tuple[str, int], np.ndarray]]:
        """What the dataset says, and its samples by field and step, flat."""
        dataset = self.folder / "a.quarry"
        info = qt.info(dataset)
        fields = {f["name"]: np.dtype(f["dtype"]) for f in info["fields"]}
        names = list(fields)
        samples = {}
        for begin in range(0, len(names), 50):
            some = names[begin:begin + 50]
            qt.succeed("quarry", "get", dataset, "--fields", ",".join(some), "--steps", f"0:{len(info['steps'])}", "--output",
                       self.folder / "{field}-{step}.raw")
            for name, step in itertools.product(some, info["steps"]):
                path = self.folder / f"{name}-{step}.raw"
                samples[name, step] = np.fromfile(path, fields[name])
                path.unlink()
        return info, samples


# --- the comparison ---


class Comparison:
    """Compares one dataset with a part of a variable."""

    def __init__(self, variable: oracle.Variable, values: np.ma.MaskedArray, exact: np.ndarray | None, choice: Choice,
                 info: dict[str, Any], outcome: qt.Outcome, reader: str):
        self.variable, self.choice, self.info, self.err, self.reader = variable, choice, info, outcome.err, reader
        self.values, self.exact = values, exact
        self.differences: dict[str, str] = {}

    def differ(self, kind: str, what: str) -> None:
        self.differences.setdefault(kind, what)

    def free(self) -> list[int]:
        """Dimensions that are neither fixed nor a range of fields."""
        gone = set(self.choice.fixed) | ({self.choice.span[0]} if self.choice.span else set())
        return [i for i in range(len(self.variable.shape)) if i not in gone]

    def time(self) -> int | None:
        """The dimension that became steps."""
        dims, steps = self.variable.dimensions, len(self.info["steps"])
        moments = [i for i in self.free() if self.choice.axes[i:i + 1] == "t" or (dims[i].is_time and not self.choice.axes)]
        if moments and dims[moments[0]].size == steps:
            return moments[0]
        if moments:
            self.differ("axes", f"{dims[moments[0]].name} is time, but there are {steps} steps")
        if steps == 1:
            return None
        same = [i for i in self.free() if dims[i].size == steps]
        if not same:
            raise Failure(f"{steps} steps are along no dimension of {self.variable.shape}")
        self.differ("axes", f"steps along {dims[same[0]].name}, which is no time")
        return same[0]

    def grid(self, time: int | None) -> list[int]:
        """The dimensions that became z, y, x, and their shape."""
        dims = self.variable.dimensions
        grid = [i for i in self.free() if i != time]
        shape = self.info["dims"][::-1]
        # Those of one sample may be dropped.
        for i in list(grid):
            if len(grid) > 3 and dims[i].size == 1:
                grid.remove(i)
        if [dims[i].size for i in grid] != shape[3 - len(grid):] or any(n != 1 for n in shape[:3 - len(grid)]):
            long = [i for i in grid if dims[i].size > 1]
            if [dims[i].size for i in long] != shape[3 - len(long):] or any(n != 1 for n in shape[:3 - len(long)]):
                raise Failure(f"z, y, x are {shape}, and the dimensions {[(d.name, d.size) for d in dims]}")
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
            raise Failure(f"{len(indices)} indices are {len(names)} fields: {names}")
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
                count += self.compare(np.ma.ravel(self.values[tuple(at)]), exact, samples[described["name"], step], described)
        self.compare_words(time, grid)
        return count

    def compare(self, expected: np.ma.MaskedArray, exact: np.ndarray | None, decoded: np.ndarray,
                described: dict[str, Any]) -> int:
        if decoded.size != expected.size:
            raise Failure(f"{decoded.size} samples, and not {expected.size}")
        gone = np.ma.getmaskarray(expected)
        data = np.ma.getdata(expected)
        if data.dtype.kind == "f":
            gone = gone | ~np.isfinite(data)
        data = data.astype(data.dtype.newbyteorder("="))
        if data.dtype != decoded.dtype:
            self.differ("type", f"{data.dtype}, and Quarry has {decoded.dtype}")
        missing = qt.missing(decoded, described.get("fill"))
        if (missing != gone).any():
            at = int(np.flatnonzero(missing != gone)[0])
            self.differ("mask", f"{int((missing & ~gone).sum())} samples are missing here alone, {int((gone & ~missing).sum())} there "
                                f"alone, of {gone.size}; sample {at} is {data[at]!r} there, and {decoded[at]!r} here")
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
            if described["units"] != self.variable.units.strip():
                self.differ("units", f"{self.variable.units!r}, and Quarry has {described['units']!r}")
        self.compare_times(None if time is None else self.variable.dimensions[time])
        if not self.choice.axes:
            for axis, i in enumerate(reversed(grid)):
                self.compare_positions(axis, self.variable.dimensions[i])
        for name in self.variable.coordinates:
            if not re.search(rf"coordinates .*\b{re.escape(name)}\b", self.err):
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
        if dimension.lies():
            positions = dimension.positions
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
        if dimension.has_coordinate and (name != "xyz"[axis] or f"the coordinate {dimension.name}" not in
                                         self.err.replace("the coordinate /", "the coordinate ")):
            self.differ("positions", f"those of {dimension.name} are dropped without a word")
        unnamed = dimension.name is None or dimension.name.startswith("phony_dim")  # by NetCDF's library
        if not dimension.has_coordinate and not (unnamed and name == "xyz"[axis]) and name != dimension.name:
            self.differ("positions", f"axis {dimension.name!r}, and Quarry has {name!r}")


def compare_variable(path: Path, label: str, variable: oracle.Variable, reader: str, folder: Path, *,
                     plugins: bool = False) -> Result:
    """Converts a variable and compares all of it."""
    result = Result(label, variable.name, (reader or "as it is") + (" with plugins" if plugins else ""), "same")
    environment = {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH} if plugins else {}
    conversions = Conversions(path, variable, reader, environment, folder)
    values = exact = None
    found: dict[str, str] = {}
    try:
        for choice, outcome in conversions.all():
            if variable.gone:
                raise Failure(f"a part of it is in a file that is missing, and it converts: {outcome.command}")
            if variable.dtype is None:
                raise Failure(f"{variable.kind} is no number, and converts: {outcome.command}")
            if values is None:
                try:
                    values = variable.read()
                    exact = None if variable.exact is None else variable.exact()
                except (OSError, RuntimeError, TypeError, ValueError) as error:
                    result.outcome, result.detail = "skipped", f"the other library cannot read it: {error}"
                    return result
            info, samples = conversions.read()
            comparison = Comparison(variable, values, exact, choice, info, outcome, reader)
            result.samples += comparison.run(samples)
            found = comparison.differences | found
            result.warnings += [line for line in outcome.err.splitlines() if line not in result.warnings]
        result.in_part = conversions.in_part
        result.differences = list(found.items())
        result.outcome = "different" if found else "same"
    except Refused as refused:
        result.outcome, result.detail = "refused", refused.args[0]
        result.warnings.append(refused.args[1])
    except (Failure, AssertionError) as failure:
        result.outcome, result.detail = "failed", str(failure)
    return result


def natural_reader(path: Path) -> str:
    """The one that Quarry takes for a file of HDF5, which a NetCDF-4 file is."""
    return "hdf5" if path.suffix in (".h5", ".hdf5", ".he5", ".hdf") else "netcdf"


def readers_of(path: Path, kind: str, library: str) -> list[str]:
    """What is said by --format: nothing first, then the other reader of a NetCDF-4 file."""
    if kind != "hdf5" or library != "netCDF4":
        return [""]
    return ["", "netcdf" if natural_reader(path) == "hdf5" else "hdf5"]


def compare_file(path: Path, label: str, folder: Path) -> Iterator[Result]:
    """Every variable of a file, with every reader of Quarry that knows its format."""
    kind = oracle.kind_of(path)
    if kind in (None, "damaged"):
        yield Result(label, "", "", "skipped", "another format")
        return
    with oracle.open_file(path, kind) as (library, variables):
        readers = readers_of(path, kind, library)
        if not variables:
            yield Result(label, "", "", "skipped", "no variables")
        for variable, reader in itertools.product(variables, readers):
            if variable.reader and variable.reader != (reader or natural_reader(path)):
                continue
            result = compare_variable(path, label, variable, reader, folder)
            yield result
            if result.detail == FILTER:
                yield compare_variable(path, label, variable, reader, folder, plugins=True)


# --- the files ---


def packages() -> dict[str, Path]:
    """Folders of the packages with files, by the names of the packages."""
    def of(module: str) -> Path:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"the Python package {module} is not installed; scripts/differential.sh brings it")
        return Path(spec.origin).parent

    sources = sorted((WORK / "sources").glob("netcdf4-*/"))
    if not sources:
        raise FileNotFoundError("the source distribution of netCDF4 is not there; scripts/differential.sh brings it")
    return {"iris-sample-data": of("iris_sample_data"), "netCDF4": sources[0], "h5py": of("h5py"), "xarray": of("xarray"),
            "tifffile": of("tifffile")}


def shared_cases(folder: Path) -> None:
    """The files of every generator beside the repository."""
    generators = sorted((REPOSITORY.parent / "shared" / "cases" / "inputs").glob("*.py"))
    if not generators:
        raise FileNotFoundError("there are no generators in ../shared/cases/inputs beside the repository")
    for generator in generators:
        (folder / generator.stem).mkdir(parents=True)
        outcome = qt.run(sys.executable, generator, folder / generator.stem)
        if outcome.code != 0:
            raise Failure(f"a generator failed: {outcome}")
    # This one makes datasets of xarray, not files.
    spec = importlib.util.spec_from_file_location("xr_times", generators[0].parent / "xr_times.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, dataset in module.make():
        dataset.to_netcdf(folder / "xr_times" / f"{name}.nc")


def list_files(scratch: Path) -> list[tuple[str, Path]]:
    """All files, by a name that is the same on every machine."""
    shared_cases(scratch / "shared")
    generate.make_all(scratch / "generated")
    roots = packages() | {"shared": scratch / "shared", "generated": scratch / "generated"}
    files = []
    for name, root in roots.items():
        by_kind: dict[tuple[Path, str], list[Path]] = collections.defaultdict(list)
        for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc", ".so", ".pyi")):
            by_kind[path.parent, path.suffix].append(path)
        for alike in by_kind.values():
            if len(alike) > MANY:
                alike = alike[::SPARSE] + alike[-1:]
            files += [(f"{name}/{path.relative_to(root)}", path) for path in alike]
    return files


# --- the report ---


def judge(results: list[Result], known: list[Known], *, everything: bool) -> list[str]:
    """What is wrong, a line each."""
    problems = []
    for result in results:
        where = f"{result.file}:{result.variable} ({result.reader})"
        if result.outcome == "failed":
            problems.append(f"{where}: {result.detail}")
        for kind, what in result.differences:
            entry = next((k for k in known if k.matches(result, kind)), None)
            if entry is None:
                problems.append(f"{where}: {kind}: {what}")
            else:
                entry.used += 1
    if everything:
        problems += [f"differences.toml: nothing differs in {k.file}:{k.variable}, {k.kind}: remove the entry"
                     for k in known if not k.used]
    return problems


def print_tables(results: list[Result], known: list[Known]) -> None:
    def table(title: str, counts: collections.Counter[str]) -> None:
        print(f"\n{title}")
        for name, count in counts.most_common():
            print(f"  {count:6}  {name}")

    by_package: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    files: dict[str, set[str]] = collections.defaultdict(set)
    for r in results:
        package = r.file.split("/")[0]
        by_package[package][r.outcome] += 1
        if r.outcome != "skipped":
            files[package].add(r.file)
    columns = ("same", "different", "refused", "failed", "skipped")
    print(f"\n{'':18}{'files':>10}" + "".join(f"{c:>10}" for c in columns))
    for package, counts in by_package.items():
        print(f"{package:18}{len(files[package]):10}" + "".join(f"{counts[c]:10}" for c in columns))
    total = sum(by_package.values(), collections.Counter())
    print(f"{'all':18}{sum(map(len, files.values())):10}" + "".join(f"{total[c]:10}" for c in columns))
    print(f"{sum(r.samples for r in results)} samples compared; {sum(r.in_part for r in results)} variables in part")
    table("refused", collections.Counter(r.detail for r in results if r.outcome == "refused"))
    table("skipped", collections.Counter(r.detail for r in results if r.outcome == "skipped"))
    said: collections.Counter[str] = collections.Counter()
    for r in results:
        said.update({re.sub(r"[\"'][^\"']*[\"']|\S*:\S*|\d[\d.]*", "..", w.split("warning: ")[1]).split(";")[0][:90]
                     for w in r.warnings if "warning: " in w})
    table("warnings", said)
    table("known differences", collections.Counter({f"{k.kind}: {k.reason}": k.used for k in known if k.used}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Example:\n  scripts/differential.sh --only 'netCDF4/*' --json build/differential.json")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="files whose name is like one of these; see --list")
    parser.add_argument("--list", action="store_true", help="prints the names of the files, and ends")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes every result")
    parser.add_argument("--known", type=Path, default=HERE / "differences.toml", metavar="FILE",
                        help="the differences that are right, each with its reason; default: differences.toml beside this program")
    options = parser.parse_args()
    known = [Known(**entry) for entry in tomllib.loads(options.known.read_text()).get("difference", [])]
    # Publishing a step waits for the disk: a file system in memory has none to wait for.
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    results = []
    with tempfile.TemporaryDirectory(prefix="quarry-differential-", dir=place) as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of netCDF4 about attributes
        with np.errstate(all="ignore"):
            files = list_files(Path(scratch))
            if options.only:
                files = [f for f in files if any(fnmatch.fnmatchcase(f[0], pattern) for pattern in options.only)]
            if options.list:
                print("\n".join(name for name, _ in files))
                return 0
            if not files:
                print("differential: no file has such a name; see --list", file=sys.stderr)
                return 1
            (Path(scratch) / "work").mkdir()
            for number, (label, path) in enumerate(files, 1):
                for result in compare_file(path, label, Path(scratch) / "work"):
                    results.append(result)
                    about = result.detail or "; ".join(f"{kind}: {what}" for kind, what in result.differences)
                    print(f"[{number}/{len(files)}] {result.outcome:9} {label}:{result.variable}"
                          f"{f' ({result.reader})' if result.reader else ''} {about.splitlines()[0] if about else ''}", flush=True)
    problems = judge(results, known, everything=not options.only)
    if options.json:
        options.json.write_text(json.dumps({"results": [asdict(r) for r in results], "problems": problems}, indent=1))
    print_tables(results, known)
    for problem in problems:
        print(f"\nPROBLEM {problem}")
    compared = sum(r.outcome in ("same", "different") for r in results)
    print(f"\n{compared} compared, {len(problems)} problems; seed {qt.SEED}")
    return 1 if problems or not compared else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
