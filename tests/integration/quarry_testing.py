"""Shared by the integration tests: running the programs, making fields, reading what they write.

The tests see Quarry as its users do: executables, exit codes, messages and files. Environment:

  QUARRY_BIN         directory of the executables; default: build/release/bin
  QUARRY_TEST_FULL   1: the full counts and sizes instead of the short ones
  QUARRY_TEST_SCALE  factor for the short counts; default: 1
  QUARRY_TEST_SEED   another number makes other random fields, boxes and moments; default: QUARRY_SEED, or 1
  QUARRY_REQUIRE_DATA  1: a missing library, program or file of ../shared/data is a failure, not a skip

Shapes are x, y, z as in Quarry's options; arrays are [z, y, x].
"""

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("QUARRY_BIN") or REPOSITORY / "build" / "release" / "bin").resolve()
FULL = os.environ.get("QUARRY_TEST_FULL") == "1"
SCALE = float(os.environ.get("QUARRY_TEST_SCALE", "1"))
SEED = int(os.environ.get("QUARRY_TEST_SEED") or os.environ.get("QUARRY_SEED") or 1)
# AddressSanitizer surrounds memory with more memory: bounds on it hold for other builds.
SANITIZED = os.environ.get("QUARRY_SANITIZED") == "1"
REQUIRE_DATA = os.environ.get("QUARRY_REQUIRE_DATA") == "1"

# Exit codes of every program.
DONE, CHECK_FAILED, USAGE, NOT_FOUND, DAMAGED, UNREACHABLE, IO_ERROR = range(7)

# Program that writes a dataset in one process. The bytes are those of quarry-write (test_single.py), and starting MPI
# takes ten times as long as writing a small dataset. The full tests start MPI all the same; sanitizer builds have
# nothing else.
SERIAL_WRITER = "quarry-write-single" if not FULL and (BIN / "quarry-write-single").exists() else "quarry-write"

# A test program that passed, but left something out, ends with this; ctest shows it as skipped.
SKIPPED = 77

# Long enough for any machine: what runs into it hangs.
TIMEOUT = 600

SCRATCH = Path(tempfile.mkdtemp(prefix="quarry-test-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)

# By default Open MPI refuses root and more ranks than processors, and each rank looks for network cards for 0.2 s
# before it takes "ob1", half the time of a small run. What it leaves behind when it is killed goes with the rest of the
# scratch. LeakSanitizer would report what the MPI library keeps.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_vader_backing_directory": str(SCRATCH),
    "TMPDIR": str(SCRATCH),
    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=0"),
}


def scaled(short, full):
    """A count: `short` times the scale, at most `full`; `full` where the full tests are wanted."""
    return full if FULL else max(1, min(full, round(short * SCALE)))


def random_numbers(*names):
    """A generator that gives the same numbers in every run with the same seed."""
    return np.random.default_rng([SEED, *(zlib.crc32(str(name).encode()) for name in names)])


def skip(what):
    """Leaves a test out for want of something; fails it where nothing may be left out."""
    if REQUIRE_DATA:
        raise AssertionError(f"{what}, and QUARRY_REQUIRE_DATA=1 allows no skips")
    raise unittest.SkipTest(what)


def shared_data(name):
    """Path of a file of real data beside the repository; skips the test where it is absent."""
    path = REPOSITORY.parent / "shared" / "data" / name
    if not path.is_file():
        skip(f"{name} is not in ../shared/data beside the repository")
    return path


# --- programs ---


class Outcome(NamedTuple):
    """How a program ended."""

    command: str
    code: int
    out: str
    err: str

    def lines_of(self, name):
        """The lines on stderr that the program `name` itself has written; mpirun adds others."""
        return [line for line in self.err.splitlines() if line.startswith(name + ":")]

    def __str__(self):
        return f"{self.command}\nexit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


def check_sound(outcome):
    """A signal or a sanitizer's report is always a failure."""
    crashed = outcome.code < 0 or outcome.code - 128 in (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)
    if crashed or "ERROR: AddressSanitizer" in outcome.err or "runtime error:" in outcome.err:
        raise AssertionError(f"crashed: {outcome}")
    return outcome


def executable(name):
    """Quarry's own programs by path, others by name."""
    return str(BIN / name) if str(name).startswith("quarry") else str(name)


def run(*command, timeout=TIMEOUT, **options):
    """Runs a program to its end; any end except a crash is accepted."""
    command = [executable(command[0]), *map(str, command[1:])]
    environment = ENVIRONMENT | options.pop("env", {})
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout,
                          env=environment, check=False, **options)
    return check_sound(Outcome(" ".join(command), done.returncode, done.stdout, done.stderr))


def load(name):
    """A script of the repository as a module."""
    path = Path(__file__).resolve().parents[2] / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mpi_command(ranks, *command):
    """The command line that runs a program on some ranks; without mpirun for 0."""
    command = [executable(command[0]), *map(str, command[1:])]
    return ["mpirun", "-n", str(ranks), *command] if ranks else command


class Server:
    """A quarry-server on a free port of the loopback interface. Leaving the context ends it by SIGTERM, and
    the end must be a clean one."""

    class Refused(Exception):
        """The server ended before it was ready; args[0] is its Outcome."""

    def __init__(self, root, *options, descriptors=None, env=None):
        """`descriptors`: most files that it may have open; `env`: added to its environment."""
        self._killed = False
        self._environment = ENVIRONMENT | (env or {})
        self._limits = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        self.command = [executable("quarry-server"), str(root), "--listen", "127.0.0.1:0", *map(str, options)]

    def __enter__(self):
        self._errors = tempfile.TemporaryFile("w+", dir=SCRATCH, errors="replace")
        self._process = subprocess.Popen(self._limits + self.command, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                                         env=self._environment)
        self._lines = []
        watchdog = threading.Timer(TIMEOUT, self._process.kill)
        watchdog.start()
        try:
            self.address = self._wait_until_ready()
        finally:
            watchdog.cancel()
        # A full pipe must not stop a server that logs.
        self._drain = threading.Thread(target=lambda: self._lines.extend(self._process.stdout))
        self._drain.start()
        return self

    def _wait_until_ready(self):
        for line in self._process.stdout:
            self._lines.append(line)
            if ready := re.match(r"listening on (\S+:\d+)\s*$", line):
                return ready[1]
        self._process.wait()
        raise Server.Refused(check_sound(self._close()))

    def _close(self):
        self._process.stdout.close()
        with self._errors:
            self._errors.seek(0)
            errors = self._errors.read()
        return Outcome(" ".join(self.command), self._process.returncode, "".join(self._lines), errors)

    def target(self, name):
        """The TARGET of the dataset NAME.quarry of this server."""
        return f"grpc://{self.address}/{Path(name).name.removesuffix('.quarry')}"

    def metrics(self):
        """The metrics of a server with --metrics, by name with labels."""
        with urllib.request.urlopen(f"http://{self.metrics_address()}/metrics", timeout=TIMEOUT) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def metrics_address(self):
        return self._said("metrics")

    def http_address(self):
        """Address of a server with --http."""
        return self._said("http")

    def _said(self, what):
        for line in self._lines:
            if found := re.match(rf"{what} on (\S+:\d+)$", line):
                return found[1]
        raise AssertionError(f"no {what}: {self._lines}")

    def runs(self):
        return self._process.poll() is None

    def largest_memory(self):
        """[bytes] The server's peak memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10

    def threads(self):
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"^Threads:\s+(\d+)", status, re.MULTILINE)[1])

    def cpu_seconds(self):
        """Processor time that the server has taken."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self):
        """The log so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def log_until(self, text):
        """The log as soon as it has the text; the time limit of the test ends the wait."""
        while text not in self.log():
            if not self.runs():
                raise AssertionError(f"the server ended: {self.log()}")
        return self.log()

    @contextlib.contextmanager
    def hanging(self):
        """Meanwhile it does nothing, and keeps its connections."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # until then it may still answer
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self):
        """Ends it at once, without a chance to end cleanly."""
        self._killed = True
        self._process.kill()
        self._process.wait()

    def __exit__(self, error_type, error, traceback):
        if not self._killed:
            self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._drain.join()
            outcome = self._close()
        if self._killed:
            return
        check_sound(outcome)
        if error_type is None and outcome.code != DONE:
            raise AssertionError(f"the server did not end cleanly: {outcome}")


class QuarryTest(unittest.TestCase):
    """A test with a folder of its own in `self.tmp`, and checks that speak about programs. `cls.shared` is a
    folder for what the tests of a class share."""

    longMessage = True

    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(dir=SCRATCH))
        cls.addClassCleanup(shutil.rmtree, cls.shared)

    def setUp(self):
        self.tmp = Path(tempfile.mkdtemp(dir=SCRATCH))
        self.addCleanup(shutil.rmtree, self.tmp)

    def assert_one_line(self, outcome, code, *mentions):
        """The rule for errors: an exit code, and one line on stderr with the program and what is wrong."""
        self.assertEqual(outcome.code, code, outcome)
        program = Path(outcome.command.split()[0]).name
        lines = outcome.err.splitlines()
        self.assertEqual(len(lines), 1, outcome)
        # quarry-write-single is installed as quarry-write.
        self.assertTrue(lines[0].startswith((f"{program}: ", f"{program.removesuffix('-single')}: ")), outcome)
        for mention in mentions:
            self.assertIn(str(mention), lines[0], outcome)

    def assert_verified(self, dataset):
        succeed("quarry", "verify", dataset)

    def assert_decoded(self, original, decoded, tolerance, fill=None):
        """Valid samples are within the tolerance, missing ones are the same bit by bit."""
        original, decoded = original.ravel(), decoded.ravel()
        self.assertEqual((decoded.size, decoded.dtype), (original.size, original.dtype))
        gone = missing(original, fill)
        self.assertTrue((bits(original)[gone] == bits(decoded)[gone]).all(), "missing samples have changed")
        if not gone.all():
            self.assertLessEqual(largest_error(original[~gone], decoded[~gone]), tolerance)

    def assert_no_leftovers(self, folder):
        """No partial file is left below a folder."""
        leftovers = [str(path) for path in Path(folder).rglob("*")
                     if ".partial" in path.name and path.name != ".partial-catalogue-is-current"]
        self.assertEqual(leftovers, [])


class Question(NamedTuple):
    """A query, and the bytes that answer it while the dataset is whole."""

    options: tuple
    step: int
    answer: bytes


class Whole:
    """Answers of a dataset with the field "f" before it is damaged, and its permitted answers afterwards."""

    def __init__(self, dataset, folder, encodings=("samples", "patches", "coded")):
        self.dataset, self._folder, self._encodings = Path(dataset), Path(folder), encodings
        self.info = info(dataset)
        self.dims, self.steps = self.info["dims"], self.info["steps"]
        self.dtype = np.dtype(self.info["fields"][0]["dtype"]).newbyteorder("<")
        self._levels = {step: [self._level(step, level) for level in range(self.info["levels"])]
                        for step in self.steps}

    def _level(self, step, level):
        """A whole level, [z, y, x]."""
        answer = get_array(self.dataset, self._folder / "level.raw", self.dtype, "--step", step, "--level", level)
        return answer.reshape([-(-n // 2**level) for n in self.dims[::-1]])

    def ask(self, step, *options):
        options = ("--step", step, *options)
        return Question(options, step, get(self.dataset, self._folder / "answer.raw", *options))

    def ask_anything(self, random):
        """Asks for some box at some level of some step."""
        begin = [int(random.integers(0, n)) for n in self.dims]
        end = [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, self.dims)]
        return self.ask(int(random.choice(self.steps)), "--box", box_text(begin, end),
                        "--level", random.integers(0, self.info["levels"]))

    def as_said(self, said, question):
        """The answer, except in the boxes that are listed as repeating samples of a coarser level."""
        answer = np.frombuffer(question.answer, self.dtype).reshape(said["shape"][::-1]).copy()
        for box in said["damaged"]:
            coarser = box["shown_level"] - said["level"]
            if coarser <= 0:
                raise AssertionError(f"level {box['shown_level']} for {said['level']}")
            places = [np.arange(b, b + n) >> coarser for b, n in zip(box["begin"], box["shape"])]
            shown = self._levels[question.step][box["shown_level"]][np.ix_(*places[::-1])]
            inside = tuple(slice(b - first, b - first + n)
                           for b, n, first in zip(box["begin"], box["shape"], said["begin"]))
            answer[inside[::-1]] = shown
        return answer.tobytes()

    def get(self, target, question, output, random):
        """Asks in some encoding, with damage allowed or not, and checks what comes: the whole answer, or one that
        says where it shows a coarser level and promises no error, or none.

        Returns the outcome, and what was said of the answer; nothing where there was none."""
        output.unlink(missing_ok=True)
        allow_damage = bool(random.integers(0, 2))
        outcome = run("quarry", "get", target, "--field", "f", "--output", output, *question.options, "--json",
                      "--encoding", random.choice(self._encodings), *["--allow-damage"] * allow_damage)
        if outcome.code != DONE:
            if output.exists() and "--progressive" not in question.options:
                raise AssertionError(f"an error, but a file as well: {outcome}")
            return outcome, None
        said = json.loads(outcome.out)
        if bool(said["damaged"]) != ("warning: " in outcome.err) or said["damaged"] and not allow_damage:
            raise AssertionError(f"damage not told, or shown all the same: {outcome}")
        if bool(said["damaged"]) != (said["max_error"] is None):
            raise AssertionError(f"an error is promised for damaged samples, or none for whole ones: {outcome}")
        if output.read_bytes() != self.as_said(said, question):
            raise AssertionError(f"wrong samples: {outcome}")
        return outcome, said


def failing_call(kind, errno, *, below, at=1):
    """Environment in which the `at`-th call of a kind on a file whose path begins with `below` fails."""
    return {"LD_PRELOAD": str(BIN.parent / "lib" / "libfail_call.so"), "QUARRY_FAIL_CALL": kind, "QUARRY_FAIL_AT": str(at),
            "QUARRY_FAIL_ERRNO": str(errno), "QUARRY_FAIL_BELOW": str(below)}


def succeed(*command, **options):
    """Runs a program that must end with 0."""
    outcome = run(*command, **options)
    if outcome.code != DONE:
        raise AssertionError(f"failed: {outcome}")
    return outcome


# --- fields ---


def smooth_file(dims, path):
    """Waves with some noise, float32, written plane by plane: for fields that need not fit into memory."""
    numbers = random_numbers("smooth_file")
    x, y = np.arange(dims[0]), np.arange(dims[1])[:, None]
    with open(path, "wb") as file:
        for z in range(dims[2]):
            plane = np.sin(0.05 * x + 0.02 * z) * np.cos(0.04 * y) + 0.01 * numbers.standard_normal((dims[1], dims[0]))
            file.write(plane.astype("<f4").tobytes())


def smooth(dims, dtype="<f4"):
    """A few waves along every axis."""
    field = np.zeros(dims[::-1])
    for axis, n in enumerate(dims):
        shape = [1, 1, 1]
        shape[2 - axis] = n
        field = field + np.sin(np.linspace(0, 3 + axis, n)).reshape(shape)
    return field.astype(dtype)


def turbulent(dims, dtype="<f4", *, name="turbulent"):
    """Noise with the energy spectrum k^(-5/3) of turbulence and a standard deviation of 1."""
    shape = dims[::-1]
    axes = [np.fft.fftfreq(n, 1 / n) for n in shape[:2]] + [np.fft.rfftfreq(shape[2], 1 / shape[2])]
    k_squared = sum(np.square(k) for k in np.meshgrid(*axes, indexing="ij", sparse=True))
    k_squared[0, 0, 0] = np.inf  # no mean
    # A shell of radius k holds k^(d - 1) modes in d dimensions.
    dimensions = sum(n > 1 for n in dims)
    spectrum = np.fft.rfftn(random_numbers(name, dims).standard_normal(shape))
    spectrum *= k_squared ** (-(5 / 3 + dimensions - 1) / 4)
    field = np.fft.irfftn(spectrum, shape, axes=(0, 1, 2))
    return (field / (field.std() or 1)).astype(dtype)


def uneven(dims, dtype="<f4"):
    """Turbulence in a quarter of the domain, and almost nothing in the rest."""
    field = turbulent(dims, "<f8", name="uneven")
    field[dims[2] // 4:] *= 1e-7
    return field.astype(dtype)


TYPES = ("<f4", "<f8", "i1", "u1", "<i2", "<u2", "<i4", "<u4")


def integers(dims, dtype, *, name="integers"):
    """Turbulence over most of the range of an integer type, with both ends of the range in it."""
    limits = np.iinfo(dtype)
    field = turbulent(dims, "<f8", name=name)
    field = np.clip((field + 4) / 8, 0, 1) * (float(limits.max) - float(limits.min)) + float(limits.min)
    field = np.clip(np.rint(field), limits.min, limits.max).astype(dtype)
    field.flat[0], field.flat[-1] = limits.min, limits.max
    return field


def make_field(dims, dtype, *, name):
    """Turbulence of any type."""
    kind = np.dtype(dtype).kind
    return turbulent(dims, dtype, name=name) if kind == "f" else integers(dims, dtype, name=name)


def with_holes(field, value, *, name="holes"):
    """A copy with samples set to `value`: a large box, so that whole patches are gone, and one in ten of the
    rest of some planes."""
    field = field.copy()
    box = tuple(slice(n // 5, n // 5 + -(-n // 2)) for n in field.shape)
    field[box] = value
    scattered = random_numbers(name, field.shape).random(field.shape) < 0.1
    scattered[field.shape[0] // 2 + 1:] = False
    field[scattered] = value
    return field


def bits(field):
    """Samples as unsigned integers: equal when every bit is."""
    field = np.ascontiguousarray(field)
    return field.view(f"u{field.itemsize}")


def missing(field, fill=None):
    """The samples that Quarry treats as missing."""
    gone = ~np.isfinite(field) if field.dtype.kind == "f" else np.zeros(field.shape, bool)
    return gone if fill is None else gone | (bits(field) == bits(np.array([fill], field.dtype)))


def netcdf_variable(path, name):
    """A variable without records of a NetCDF classic file (version 1) as an array."""
    data = Path(path).read_bytes()
    if data[:4] != b"CDF\x01":
        raise ValueError(f"{path} is no NetCDF classic file")
    position = 8  # behind magic and number of records

    def take(length):
        """Everything is padded to multiples of four bytes."""
        nonlocal position
        begin = position
        position += -(-length // 4) * 4
        return data[begin:begin + length]

    def number():
        return int.from_bytes(take(4), "big")

    def text():
        return take(number()).decode()

    def skip_attributes():
        number()
        for _ in range(number()):
            text()
            size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8}[number()]
            take(size * number())

    number()
    dimensions = [(text(), number())[1] for _ in range(number())]
    skip_attributes()
    number()
    for _ in range(number()):
        found = text()
        shape = [dimensions[number()] for _ in range(number())]
        skip_attributes()
        dtype = {1: "i1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8"}[number()]
        number()
        begin = number()
        if found == name:
            return np.frombuffer(data, dtype, int(np.prod(shape)), begin).reshape(shape)
    raise ValueError(f"{path} has no variable {name}")


def type_name(dtype):
    """Quarry's name of a NumPy type."""
    return np.dtype(dtype).name


def convert(field, dataset, *options, ranks=0):
    """Writes an array as a raw file beside the dataset and converts it. The field's name is "f" unless the
    options say otherwise."""
    source = Path(dataset).parent / f"{Path(dataset).stem}.raw"
    field.tofile(source)
    if "--field" not in options:
        options = ("--field", "f", *options)
    program = "quarry-write" if ranks else SERIAL_WRITER
    command = mpi_command(ranks, program, source, *describe(field), *options, "--output", dataset)
    outcome = succeed(*command)
    source.unlink()
    return outcome


def describe(field):
    """The options that tell quarry-write what a raw file of this array holds."""
    return "--dims", "x".join(map(str, field.shape[::-1])), "--type", type_name(field.dtype)


# --- datasets ---


@functools.cache
def coders():
    """Names of the coders of this build, from the error message for a wrong one."""
    source = SCRATCH / "coders.raw"
    source.write_bytes(bytes(4))
    outcome = run("quarry-write", source, "--dims", "1", "--type", "float32", "--tolerance", "1", "--codec", "?",
                  "--output", SCRATCH / "coders.quarry")
    return re.search(r"knows ([\w, -]+)", outcome.err)[1].split(", ")


def lossy_coders():
    """Coders that promise a tolerance and nothing more."""
    return [name for name in coders() if name != "lossless" and not name.startswith("interpolate-")]


def subfiles(dataset):
    """Bytes of every subfile, of fields and masks, by its path in the dataset."""
    return {str(path.relative_to(dataset)): path.read_bytes() for path in Path(dataset).rglob("*.qsf")}


def masks(dataset):
    """Names of the masks in a dataset."""
    folder = Path(dataset) / "masks"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def get(target, output, *options, field="f"):
    """Bytes of the file that `quarry get` writes."""
    succeed("quarry", "get", target, "--field", field, "--output", output, *options)
    return Path(output).read_bytes()


def get_array(target, output, dtype, *options, **keywords):
    """The output of `quarry get`, as a flat array."""
    return np.frombuffer(get(target, output, *options, **keywords), dtype)


def info(target):
    return json.loads(succeed("quarry", "info", target, "--json").out)


def described(target):
    """The part of `quarry info` that a directory and a server say alike: a server does not tell of its catalogue and packs."""
    return {key: value for key, value in info(target).items() if key not in ("catalogue", "packs")}


def read_png(data):
    """The pixels of a PNG as `quarry get` writes them, [row, column, channel]."""
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    channels = {2: 3, 6: 4}[colour]
    if data[:8] != b"\x89PNG\r\n\x1a\n" or depth != 8:
        raise AssertionError("not such a PNG")
    packed, position = b"", 8
    while position < len(data):
        length, kind = struct.unpack(">I4s", data[position:position + 8])
        if kind == b"IDAT":
            packed += data[position + 8:position + 8 + length]
        position += length + 12
    rows = np.frombuffer(zlib.decompress(packed), "u1").reshape(height, 1 + channels * width)
    image = np.zeros((height + 1, width + 1, channels), int)  # a border of zeros above and to the left
    for y in range(height):
        method, row = rows[y, 0], rows[y, 1:].reshape(width, channels)
        for x in range(width):
            left, up, corner = image[y + 1, x], image[y, x + 1], image[y, x]
            estimate = left + up - corner
            distances = np.abs(np.stack([estimate - left, estimate - up, estimate - corner]))
            paeth = np.choose(distances.argmin(axis=0), [left, up, corner])
            image[y + 1, x + 1] = (row[x] + [0 * left, left, up, (left + up) // 2, paeth][method]) % 256
    return image[1:, 1:]


def step_manifest(dataset, step=0):
    return json.loads((Path(dataset) / "steps" / f"{step:06}" / "step.json").read_text())


def seal_manifest(path, text):
    """Writes a manifest with the checksum that belongs to it."""
    sys.path.append(str(REPOSITORY / "tests" / "format"))
    from worked_example import xxh3
    head, tail = text[:text.rindex('"checksum": "') + 13], text[text.rindex('"checksum": "') + 29:]
    path.write_text(f"{head}{xxh3((head + '0' * 16 + tail).encode()):016x}{tail}")


def into_one_piece(path):
    """Takes the sections of a step.json away, as programs from before them wrote it."""
    first, sections, *rest = path.read_text().split("\n")
    assert sections.startswith(' "sections": '), sections[:40]
    seal_manifest(path, "\n".join([first, *rest]))


def largest_error(original, decoded):
    """Largest absolute difference, in double precision for all types."""
    difference = original.astype("f8").ravel() - decoded.astype("f8").ravel()
    return float(np.abs(difference).max())


def snapshot(folder):
    """Everything below a folder: relative path to bytes, or to None for a folder."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(folder.rglob("*"))}


def box_text(begin, end):
    return ",".join(f"{b}:{e}" for b, e in zip(begin, end))


def main():
    """Runs the tests of the file that was started."""
    if not (BIN / "quarry-write").is_file():
        raise SystemExit(f"there are no executables in {BIN}; build Quarry, or set QUARRY_BIN")
    print(f"executables in {BIN}, {'full' if FULL else 'short'} counts, seed {SEED}", flush=True)
    result = unittest.main(verbosity=2, exit=False).result
    if not result.wasSuccessful():
        raise SystemExit(1)
    raise SystemExit(SKIPPED if result.skipped else 0)
