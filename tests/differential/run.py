#!/usr/bin/env python3
"""Does Quarry see in a file what other libraries see? Converts every variable of every file without loss, reads it
back, and compares values, missing samples, units, times and positions with netCDF4-python, h5py, tifffile and numpy.

Files are those of iris-sample-data, of the packages of netCDF4, h5py and xarray, and of the generators in
../shared/cases and in generate.py. `scripts/differential.sh` brings the packages, and runs this program with them.

A difference is a failure unless differences.toml lists it with a reason, and so is an entry of it that nothing needs. A
refusal is none if it has one of the reasons in conversion.py and the reason is true of the variable. Everything else is
a failure: other refusals, crashes, and what converts though no library takes it for numbers.
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
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
from comparison import Comparison  # noqa: E402
from conversion import FILTER, Conversions, FailureError, RefusedError  # noqa: E402

# In a folder with many files alike, only some are read, at this interval.
MANY, SPARSE = 500, 100
# Ends of the names of programs, which packages have beside their files.
PROGRAMS = (".py", ".pyc", ".pyi", ".pyx", ".so")



@dataclass
class Result:
    """Result of one variable, read by one reader of Quarry."""

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
        pairs = ((result.file, self.file), (result.variable, self.variable), (kind, self.kind),
                 (result.reader, self.reader))
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in pairs)


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
                raise FailureError(f"a part of it is in a file that is missing, and it converts: {outcome.command}")
            if variable.dtype is None and re.match(r"complex|.*'names': \['r', 'i'\]", variable.kind):
                result.outcome, result.detail = "skipped", "complex samples: tests/python/test_types.py compares both parts"
                return result
            if variable.dtype is None:
                raise FailureError(f"{variable.kind} is no number, and converts: {outcome.command}")
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
    except RefusedError as refused:
        result.outcome, result.detail = "refused", refused.args[0]
        result.warnings.append(refused.args[1])
    except (FailureError, AssertionError) as failure:
        result.outcome, result.detail = "failed", str(failure)
    return result


def natural_reader(path: Path) -> str:
    """The one that Quarry takes for a file of HDF5, which a NetCDF-4 file is."""
    return "hdf5" if path.suffix in (".h5", ".hdf5", ".he5", ".hdf") else "netcdf"


def readers_of(path: Path, kind: str, library: str) -> list[str]:
    """Values of --format: none first, then the other reader of a NetCDF-4 file."""
    if kind != "hdf5" or library != "netCDF4":
        return [""]
    return ["", "netcdf" if natural_reader(path) == "hdf5" else "hdf5"]


def compare_file(path: Path, label: str, folder: Path) -> Iterator[Result]:
    """Every variable of a file, with every reader of Quarry that knows its format."""
    kind = oracle.kind_of(path)
    if kind is None:
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
    return {"iris-sample-data": of("iris_sample_data"), "netCDF4": sources[0], "h5py": of("h5py"),
            "xarray": of("xarray"), "tifffile": of("tifffile")}


def shared_cases(folder: Path) -> None:
    """The files of every generator beside the repository."""
    generators = sorted((REPOSITORY.parent / "shared" / "cases" / "inputs").glob("*.py"))
    if not generators:
        raise FileNotFoundError("there are no generators in ../shared/cases/inputs beside the repository")
    for generator in generators:
        (folder / generator.stem).mkdir(parents=True)
        outcome = qt.run(sys.executable, generator, folder / generator.stem)
        if outcome.code != 0:
            raise FailureError(f"a generator failed: {outcome}")
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
        for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix not in PROGRAMS):
            by_kind[path.parent, path.suffix].append(path)
        for alike in by_kind.values():
            if len(alike) > MANY:
                alike = alike[::SPARSE] + alike[-1:]
            files += [(f"{name}/{path.relative_to(root)}", path) for path in alike]
    return files


# --- the report ---


def judge(results: list[Result], known: list[Known], *, everything: bool) -> list[str]:
    """The errors, a line each."""
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
                                     epilog="Example:\n  scripts/differential.sh --only 'netCDF4/*' --json all.json")
    parser.add_argument("--only", nargs="+", metavar="PATTERN",
                        help="files whose name is like one of these; see --list")
    parser.add_argument("--list", action="store_true", help="prints the names of the files, and ends")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes every result")
    parser.add_argument("--known", type=Path, default=HERE / "differences.toml", metavar="FILE",
                        help="differences that are right, each with a reason; default: our own")
    options = parser.parse_args()
    known = [Known(**entry) for entry in tomllib.loads(options.known.read_text()).get("difference", [])]
    # Publishing a step waits for the disk: a file system in memory has none to wait for.
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    results = []
    with tempfile.TemporaryDirectory(prefix="quarry-differential-", dir=place) as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # netCDF4 warns about attributes
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
                    reader = f" ({result.reader})" if result.reader else ""
                    print(f"[{number}/{len(files)}] {result.outcome:9} {label}:{result.variable}{reader} "
                          f"{about.splitlines()[0] if about else ''}", flush=True)
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
