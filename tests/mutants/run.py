#!/usr/bin/env python3
"""Do the tests notice when the code is wrong? Applies each patch of mutants.toml to a copy of the source, builds what
its test needs, and expects the test to fail. A mutant that survives is a hole in the tests.

Usage: tests/mutants/run.py [--list] [--only NAME...] [--jobs N] [--lanes N]

Copies and build folders are kept in build/mutants, so that the next run builds little. Each lane has a copy and a build
folder of its own, and takes the next mutant. Exit code 1 when a mutant survives, does not build, or has no place in the
source any more, or when a test fails without any mutant.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import fnmatch
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WORK = REPOSITORY / "build" / "mutants"
# Files that a mutant may be in.
SOURCES = ("analysis/*.cc", "analysis/*.h", "benchmarks/reproduction/model/*.cc", "clients/*.cc", "clients/*.h",
           "quarry/*.cc", "quarry/*.h", "server/*.cc", "server/*.h", "tools/*.cc", "writer/*.cc", "writer/*.h")
PROGRAMS = ("quarry", "quarry-index", "quarry-server", "quarry-write", "quarry-write-single")
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

    def place(self, source):
        """The file that has the line, and its number. @raises LookupError: none has it, or several places"""
        found = []
        for name in source_files():
            if not any(fnmatch.fnmatch(name, pattern) for pattern in SOURCES) or not fnmatch.fnmatch(name, self.inside):
                continue
            lines = (source / name).read_text().splitlines()
            found += [(name, number) for number, line in enumerate(lines, 1) if self.old in line]
        if len(found) != 1:
            places = ", ".join(f"{name}:{number}" for name, number in found) or "nowhere"
            raise LookupError(f"its line must be in one place, and is {places}")
        return found[0]


def named_tests(cache=[]):
    """All (suite, case) in the sources of tests."""
    if not cache:
        for name in source_files():
            if name.startswith("tests/") and name.endswith((".cc", ".py")):
                text = (REPOSITORY / name).read_text()
                cache += re.findall(r"TEST(?:_[FP])?\((\w+), *(\w+)\)", text)
                for suite, body in re.findall(r"^class (\w+)\(.*?\):\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
                    cache += [(suite, case) for case in re.findall(r"^    def (test_\w+)", body, re.MULTILINE)]
    return cache


def names_a_test(words):
    """Whether each test that a command names is in the sources. A renamed one would show in the next run of all."""
    filters = [word.removeprefix("--gtest_filter=") for word in words if word.startswith("--gtest_filter=")]
    wanted = [name for text in filters for name in text.split("-")[0].split(":")]
    wanted += [word for word in words[1:] if words[0].endswith(".py") and re.fullmatch(r"\w+\.test_\w+", word)]
    # A name with "/" is that of an instance, which sources make from parts.
    return all("/" in name or any(fnmatch.fnmatch(f"{suite}.{case}", name) for suite, case in named_tests())
               for name in wanted)


def source_files(cache=[]):
    if not cache:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, check=True,
                                capture_output=True, text=True).stdout
        cache += [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]
    return cache


class Lane:
    """A copy of the source with a build folder; one mutant at a time is in it."""

    def __init__(self, number, jobs):
        self.jobs = jobs
        self.source = WORK / f"lane-{number}"
        self.build_folder = self.source / "build" / "quick"

    def prepare(self):
        self._copy_sources()
        command = ["cmake", "-S", str(self.source), "-B", str(self.build_folder), "-G", "Ninja",
                   "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DQUARRY_BUILD_BENCHMARKS=OFF",
                   "-DQUARRY_BUILD_EXAMPLES=OFF"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        done = self.run(command)
        if done.returncode != 0:
            raise SystemExit(f"mutants: cannot configure\n{done.stdout}")

    def _copy_sources(self):
        """Brings the copy to the state of the repository; files that are the same keep their times."""
        wanted = set(source_files())
        for name in sorted(wanted):
            source, target = REPOSITORY / name, self.source / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
        for folder in {name.split("/")[0] for name in wanted if "/" in name}:
            for path in (self.source / folder).rglob("*"):
                if path.is_file() and str(path.relative_to(self.source)) not in wanted:
                    path.unlink()
        shared, link = REPOSITORY.parent / "shared", WORK / "shared"
        if shared.is_dir() and not link.exists():
            link.symlink_to(shared.resolve())

    def command(self, mutant):
        program = str(self.build_folder / "bin" / mutant.test[0])
        if mutant.test[0].endswith(".py"):
            return ["/usr/bin/python3", str(self.source / "tests" / mutant.test[0]), *mutant.test[1:]]
        if mutant.test[0].startswith("mpi_"):
            return ["mpirun", "-n", "4", program, *mutant.test[1:]]
        return [program, *mutant.test[1:]]

    def build(self, targets):
        return self.run(["ninja", "-C", str(self.build_folder), f"-j{self.jobs}", *targets])

    def run(self, command, timeout=None):
        """Runs a command without input, in a process group of its own, which ends with it."""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", env=self._environment(), start_new_session=True) as child:
            try:
                output, _ = child.communicate(timeout=timeout)
                return subprocess.CompletedProcess(command, child.returncode, output, "")
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(command, -1, f"took more than {timeout:.0f} s", "")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)

    def _environment(self):
        """As scripts/environment.sh, which the MPI programs need."""
        settings = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                    "OMPI_MCA_mpi_yield_when_idle": "1", "QUARRY_BIN": str(self.build_folder / "bin")}
        if os.geteuid() == 0:
            settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return os.environ | settings


def tests_were_run(output):
    return not re.search(r"Running 0 tests|^Ran 0 tests|NO TESTS RAN", output, re.MULTILINE)


class Trial:
    """Result of a mutant."""

    def __init__(self, mutant):
        self.mutant = mutant
        self.place, self.result, self.output, self.seconds = "", "", "", 0.0
        self.good = False

    def run(self, lane, seconds):
        """@param seconds  that the test takes without the mutant"""
        begun = time.monotonic()
        try:
            name, number = self.mutant.place(lane.source)
        except LookupError as error:
            self.result = f"DOES NOT APPLY: {error}"
            return
        self.place = f"{name}:{number}"
        path = lane.source / name
        original = path.read_text()
        path.write_text(original.replace(self.mutant.old, self.mutant.new))
        try:
            built = lane.build(self.mutant.targets)
            if built.returncode != 0:
                self.result, self.output = "DOES NOT BUILD", built.stdout
                return
            done = lane.run(lane.command(self.mutant), PATIENCE + TIMES * seconds)
            self.output = done.stdout
            self.good = done.returncode not in (0, 77)
            self.result = "died" if self.good else "SURVIVED"
        finally:
            path.write_text(original)
            self.seconds = time.monotonic() - begun


def check_whole(mutants, lane):
    """The tests pass while nothing is wrong, and are there.
    @returns seconds of each test, and what is wrong"""
    seconds, wrong = {}, []
    built = lane.build(sorted({target for mutant in mutants for target in mutant.targets}))
    if built.returncode != 0:
        return seconds, [f"the source does not build:\n{built.stdout[-4000:]}"]
    for mutant in {tuple(mutant.test): mutant for mutant in mutants}.values():
        begun = time.monotonic()
        done = lane.run(lane.command(mutant))
        seconds[tuple(mutant.test)] = time.monotonic() - begun
        if done.returncode != 0 or not tests_were_run(done.stdout):
            wrong.append(f"without a mutant, this fails or runs no test: {' '.join(mutant.test)}\n"
                         f"{done.stdout[-4000:]}")
    return seconds, wrong


def try_all(mutants, lanes, seconds):
    """Each lane takes the next mutant until none is left. @returns a trial of each, in their order"""
    trials = [Trial(mutant) for mutant in mutants]
    left, printing = queue.SimpleQueue(), threading.Lock()
    for trial in trials:
        left.put(trial)

    def work(lane):
        with contextlib.suppress(queue.Empty):
            while True:
                trial = left.get_nowait()
                trial.run(lane, seconds[tuple(trial.mutant.test)])
                with printing:
                    print(f"{trial.result:9} {trial.mutant.name:28} {trial.seconds:6.1f} s  {trial.place}", flush=True)
                    if trial.result == "DOES NOT BUILD":
                        print(trial.output[-3000:], flush=True)

    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(work, lane) for lane in lanes]:
            done.result()
    return trials


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="say what there is, and where, and end")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names or patterns of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="compilers side by side in a lane (default 1)")
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="mutants side by side (default: processors)")
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
    if options.list:
        return list_all(mutants)

    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lanes = [Lane(number, options.jobs) for number in range(max(1, min(options.lanes, len(mutants))))]
        for lane in lanes:
            lane.prepare()
        print(f"{len(mutants)} mutants; first the tests without any", flush=True)
        lanes[0].jobs = options.jobs * len(lanes)
        seconds, wrong = check_whole(mutants, lanes[0])
        lanes[0].jobs = options.jobs
        if wrong:
            print("\n".join(wrong))
            return 1
        trials = try_all(mutants, lanes, seconds)
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
            place = "{}:{}".format(*mutant.place(REPOSITORY))
        except LookupError as error:
            place, lost = str(error), lost + 1
        if not names_a_test(mutant.test):
            place, lost = f"{place}: its test must be in one place, and is nowhere", lost + 1
        print(f"{mutant.name:28} {mutant.why}\n{'':28} {place}; {' '.join(mutant.test)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
