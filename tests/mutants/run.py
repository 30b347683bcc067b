#!/usr/bin/env python3
"""Do the tests notice when the code is wrong? Applies each patch of mutants.toml to a copy of the source, builds what
its test needs, and expects the test to fail. A mutant that survives is a hole in the tests.

Usage: tests/mutants/run.py [--list] [--only NAME...] [--jobs N]

Copy and build folder are kept in build/mutants, so that the next run builds little. Exit code 1 when a mutant survives,
does not build, or has no place in the source any more, or when a test fails without any mutant.
"""

import argparse
import fcntl
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WORK = REPOSITORY / "build" / "mutants"
SOURCE = WORK / "source"
BUILD = SOURCE / "build" / "quick"
# Files that a mutant may be in.
SOURCES = ("analysis/*.cc", "analysis/*.h", "benchmarks/reproduction/model/*.cc", "clients/*.cc", "clients/*.h",
           "quarry/*.cc", "quarry/*.h", "server/*.cc", "server/*.h", "tools/*.cc", "writer/*.cc", "writer/*.h")
PROGRAMS = ("quarry", "quarry-index", "quarry-server", "quarry-write")
# A test that hangs has noticed as well: it may take so many seconds, and so many times as long as without the mutant.
PATIENCE, TIMES = 60, 10


class Mutant:
    """One wrong line, and the test that must notice."""

    def __init__(self, entry):
        self.name, self.why = entry["name"], entry["why"]
        self.old, self.new = entry["old"], entry["new"]
        self.test = entry["test"].split()
        self.inside = entry.get("file", "*")  # only where the line is in several files
        self.targets = self._targets() + entry.get("build", [])

    def _targets(self):
        return list(PROGRAMS) if self.test[0].endswith(".py") else [self.test[0]]

    def command(self):
        if self.test[0].endswith(".py"):
            return ["/usr/bin/python3", str(SOURCE / "tests" / self.test[0]), *self.test[1:]]
        if self.test[0].startswith("mpi_"):
            return ["mpirun", "-n", "4", str(BUILD / "bin" / self.test[0]), *self.test[1:]]
        return [str(BUILD / "bin" / self.test[0]), *self.test[1:]]

    def place(self):
        """The file that has the line, and its number. @raises LookupError: none has it, or several places"""
        found = []
        for name in source_files(SOURCE):
            if not any(fnmatch.fnmatch(name, pattern) for pattern in SOURCES) or not fnmatch.fnmatch(name, self.inside):
                continue
            lines = (SOURCE / name).read_text().splitlines()
            found += [(name, number) for number, line in enumerate(lines, 1) if self.old in line]
        if len(found) != 1:
            places = ", ".join(f"{name}:{number}" for name, number in found) or "nowhere"
            raise LookupError(f"its line must be in one place, and is {places}")
        return found[0]


def source_files(root, cache={}):
    if root not in cache:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, check=True,
                                capture_output=True, text=True).stdout
        cache[root] = [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]
    return cache[root]


def copy_sources():
    """Brings the copy to the state of the repository; files that are the same keep their times."""
    wanted = set(source_files(SOURCE))
    for name in sorted(wanted):
        source, target = REPOSITORY / name, SOURCE / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for folder in {name.split("/")[0] for name in wanted if "/" in name}:
        for path in (SOURCE / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(SOURCE)) not in wanted:
                path.unlink()
    shared, link = REPOSITORY.parent / "shared", WORK / "shared"
    if shared.is_dir() and not link.exists():
        link.symlink_to(shared.resolve())


def environment():
    """As scripts/environment.sh, which the MPI programs need."""
    settings = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_mpi_yield_when_idle": "1", "QUARRY_BIN": str(BUILD / "bin")}
    if os.geteuid() == 0:
        settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return os.environ | settings


def run(command, timeout=None):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False, timeout=timeout, env=environment())
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, f"took more than {timeout:.0f} s", "")


def configure():
    command = ["cmake", "-S", str(SOURCE), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
               "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DQUARRY_BUILD_BENCHMARKS=OFF", "-DQUARRY_BUILD_EXAMPLES=OFF"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    done = run(command)
    if done.returncode != 0:
        raise SystemExit(f"mutants: cannot configure\n{done.stdout}")


def build(targets, jobs):
    return run(["ninja", "-C", str(BUILD), f"-j{jobs}", *targets])


def tests_were_run(output):
    return not re.search(r"Running 0 tests|^Ran 0 tests|NO TESTS RAN", output, re.MULTILINE)


class Trial:
    """Result of a mutant."""

    def __init__(self, mutant):
        self.mutant = mutant
        self.place, self.result, self.output, self.seconds = "", "", "", 0.0
        self.good = False

    def run(self, jobs, seconds):
        """@param seconds  that the test takes without the mutant"""
        begun = time.monotonic()
        try:
            name, number = self.mutant.place()
        except LookupError as error:
            self.result = f"DOES NOT APPLY: {error}"
            return
        self.place = f"{name}:{number}"
        path = SOURCE / name
        original = path.read_text()
        path.write_text(original.replace(self.mutant.old, self.mutant.new))
        try:
            built = build(self.mutant.targets, jobs)
            if built.returncode != 0:
                self.result, self.output = "DOES NOT BUILD", built.stdout
                return
            done = run(self.mutant.command(), PATIENCE + TIMES * seconds)
            self.output = done.stdout
            self.good = done.returncode not in (0, 77)
            self.result = "died" if self.good else "SURVIVED"
        finally:
            path.write_text(original)
            self.seconds = time.monotonic() - begun


def check_whole(mutants, jobs):
    """The tests pass while nothing is wrong, and are there.
    @returns seconds of each command, and what is wrong"""
    seconds, wrong = {}, []
    built = build(sorted({target for mutant in mutants for target in mutant.targets}), jobs)
    if built.returncode != 0:
        return seconds, [f"the source does not build:\n{built.stdout[-4000:]}"]
    for command in sorted({tuple(mutant.command()) for mutant in mutants}):
        begun = time.monotonic()
        done = run(command)
        seconds[command] = time.monotonic() - begun
        if done.returncode != 0 or not tests_were_run(done.stdout):
            wrong.append(f"without a mutant, this fails or runs no test: {' '.join(command)}\n{done.stdout[-4000:]}")
    return seconds, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="say what there is, and where, and end")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names or patterns of mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build")
    options = parser.parse_args()
    mutants = [Mutant(entry) for entry in tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]]
    names = [mutant.name for mutant in mutants]
    if len(names) != len(set(names)):
        raise SystemExit("mutants: two have the same name")
    if options.only:
        mutants = [mutant for mutant in mutants
                   if any(fnmatch.fnmatch(mutant.name, pattern) for pattern in options.only)]
        if not mutants:
            raise SystemExit(f"mutants: none is called {' or '.join(options.only)}; see --list")

    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_sources()
        if options.list:
            return list_all(mutants)
        configure()
        print(f"{len(mutants)} mutants; first the tests without any", flush=True)
        seconds, wrong = check_whole(mutants, options.jobs)
        if wrong:
            print("\n".join(wrong))
            return 1
        trials = []
        for mutant in mutants:
            trial = Trial(mutant)
            trial.run(options.jobs, seconds[tuple(mutant.command())])
            trials.append(trial)
            print(f"{trial.result:9} {mutant.name:28} {trial.seconds:6.1f} s  {trial.place}", flush=True)
            if trial.result == "DOES NOT BUILD":
                print(trial.output[-3000:])
    good = sum(trial.good for trial in trials)
    print(f"\n{'mutant':28} {'test':55} result")
    for trial in trials:
        print(f"{trial.mutant.name:28} {' '.join(trial.mutant.test):55} {trial.result}")
    print(f"{good} of {len(trials)} mutants died")
    return 0 if good == len(trials) else 1


def list_all(mutants):
    lost = 0
    for mutant in mutants:
        try:
            place = "{}:{}".format(*mutant.place())
        except LookupError as error:
            place, lost = str(error), lost + 1
        print(f"{mutant.name:28} {mutant.why}\n{'':28} {place}; {' '.join(mutant.test)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
