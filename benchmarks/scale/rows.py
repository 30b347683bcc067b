"""The rows: what is counted, how it may grow, and the figure that it has to reach."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting import HERE, Command, Cost, Trace, cost_of, peaks_of, run
from made import PATCH, Maker, edge_of

sys.path += [str(HERE.parent / "serve"), str(HERE.parents[1] / "tests/integration")]
from processes import Server  # noqa: E402

RANKS = 4
SERVED = ("--listen", "127.0.0.1:0", "--log-level", "error")
PATCHES_PER_RANK = 100
Counts = dict[str, float]


class MissingError(Exception):
    """A row cannot be measured here; the text says why."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """Allowances of programs, as --memory takes them: so little that the sizes are beyond them."""

    server: str
    rank: str


@dataclasses.dataclass
class Bench:
    """Programs, the package, and room for files."""

    programs: Path
    python: Path | None
    memory: Memory
    folder: Path
    made: Maker

    @property
    def logs(self) -> Path:
        """For strace."""
        return self.folder / "logs"

    @property
    def output(self) -> Path:
        """For answers."""
        return self.folder / "answer.raw"

    def package(self, script: str, *words: str | Path) -> Command:
        """The command line of a script that uses the package."""
        if self.python is None:
            raise MissingError("the Python package is not built: scripts/build.sh python")
        package = self.programs.parent / "python"
        prelude = f"import sys; sys.path.insert(0, {str(package)!r}); "
        return [self.python, "-c", prelude + script, *words]

    def served(self, root: Path, ask: Callable[[Server], None]) -> Cost:
        """Calls of a server on its datasets, from its start to its answer."""
        trace = Trace(self.logs, root)
        command: Command = [self.programs / "quarry-server", root, *SERVED]
        with Server(trace.command(command, stays=True)) as server:
            ask(server)
            return trace.cost()

    def get(self, target: str | Path, *options: str) -> Command:
        """The command line of a read."""
        return [self.programs / "quarry", "get", target, *options, "--output", self.output]


def last_step(bench: Bench, count: int) -> tuple[Path, tuple[str, str]]:
    """A dataset of steps, and the options for the last one."""
    return bench.made.steps(count), ("--step", str(count - 1))


def python_open(bench: Bench, count: int) -> Counts:
    """Opens a dataset in Python, and reads its last step."""
    dataset = bench.made.steps(count)
    command = bench.package("import quarry; assert quarry.open(sys.argv[1])['f'][-1].shape == (16, 16, 16)", dataset)
    cost = cost_of(command, bench.logs, dataset)
    return {"files opened": cost.opens, "bytes read": cost.read, "bytes of lists": cost.listed}


def xarray_open(bench: Bench, count: int) -> Counts:
    """Opens a dataset with xarray, and reads no sample."""
    dataset = bench.made.steps(count)
    command = bench.package("import xarray; from quarry._xarray import QuarryBackendEntrypoint as engine; "
                            "assert xarray.open_dataset(sys.argv[1], engine=engine).sizes['step'] == int(sys.argv[2])",
                            dataset, str(count))
    cost = cost_of(command, bench.logs, dataset)
    return {"files opened": cost.opens, "bytes read": cost.read, "bytes of lists": cost.listed}


def first_question(bench: Bench, count: int) -> Counts:
    """Asks a new server for the last step."""
    dataset, step = last_step(bench, count)
    cost = bench.served(dataset.parent, lambda server: ask_server(bench, server, *step))
    return {"calls": cost.calls, "bytes read": cost.read, "bytes of lists": cost.listed}


def ask_server(bench: Bench, server: Server, *options: str) -> None:
    """One read of a server's dataset."""
    run(bench.get(f"grpc://{server.address}/run", *options))


def watch(bench: Bench, count: int) -> Counts:
    """Follows a directory from its first step to its last."""
    dataset = bench.made.steps(count)
    command: Command = [bench.programs / "quarry", "watch", dataset, "--count", str(count)]
    cost = cost_of(command, bench.logs, dataset)
    return {"calls": cost.calls, "bytes read": cost.read, "bytes of lists": cost.listed}


def index_step(bench: Bench, count: int) -> Counts:
    """Adds one step more to an index."""
    dataset = bench.made.steps(count)
    copy = bench.folder / "indexed" / "run.quarry"
    shutil.rmtree(copy.parent, ignore_errors=True)
    run(["cp", "-al", dataset.parent, copy.parent])  # files of a dataset are replaced, never changed
    command = [bench.programs / "quarry-index", copy]
    run(command)
    bench.made.append(copy)
    cost = cost_of(command, bench.logs, copy)
    again = cost_of(command, bench.logs, copy)
    shutil.rmtree(copy.parent)
    return {"calls": cost.calls, "bytes read": cost.read, "bytes written": cost.written, "bytes of lists": cost.listed,
            "calls, nothing new": again.calls}


STORED = "s3://bucket/run.quarry"


def stored(bench: Bench, count: int) -> tuple[Path, Any]:
    """A dataset of steps that lacks its last one, as objects in a folder, and a server over such folders."""
    stores: Any = importlib.import_module("object_stores")
    stores.PAGE = 1000  # names of a list, as Amazon's
    dataset = bench.made.steps(count)

    def make(folder: Path) -> None:
        (folder / "bucket").mkdir()
        with stores.Store(folder, stores.WritableS3Handler) as store:
            run([bench.programs / "quarry", "cp", dataset, STORED, "--steps", f"0:{count - 1}"], environment=store.environment())

    return bench.made.once(f"stored-{count}", make), stores


def asked_of_store(bench: Bench, folder: Path, stores: Any, command: Command) -> Counts:
    """Requests of a program to a store, and bytes of their bodies."""
    with stores.Store(folder, stores.WritableS3Handler) as store:
        run(command, environment=store.environment())
        return {"requests": len(store.asked), "bytes received": store.server.sent, "bytes sent": store.server.received}


def store_open(bench: Bench, count: int) -> Counts:
    """Opens a dataset in an object store, and reads its last step."""
    folder, stores = stored(bench, count)
    return asked_of_store(bench, folder, stores, bench.get(STORED, "--step", str(count - 2)))


def store_step(bench: Bench, count: int) -> Counts:
    """Adds one step to a dataset in an object store."""
    folder, stores = stored(bench, count)
    copy = bench.folder / "stored"
    shutil.rmtree(copy, ignore_errors=True)
    run(["cp", "-al", folder, copy])  # the server replaces files, and changes none
    command: Command = [bench.programs / "quarry", "cp", bench.made.steps(count), STORED, "--steps", f"{count - 1}:"]
    counts = asked_of_store(bench, copy, stores, command)
    shutil.rmtree(copy)
    return counts


def one_patch(bench: Bench, patches: int) -> Counts:
    """Reads one patch of many in one subfile, from a directory without an index."""
    edge = edge_of(patches)
    dataset = bench.made.patches(edge)
    middle = edge // PATCH // 2 * PATCH
    box = ("--box", ",".join([f"{middle}:{middle + PATCH}"] * 3))
    payload = json.loads(run([bench.programs / "quarry", "plan", dataset, "--json", *box]))["bytes"]
    cost = cost_of(bench.get(dataset, *box), bench.logs, dataset)
    return {"bytes read without payload": cost.read - payload, "calls": cost.calls}


def asked(bench: Bench, patches: int, command: str, *options: str) -> Counts:
    """Asks a server with little memory about many patches, without an index."""
    dataset = bench.made.patches(edge_of(patches))
    start: Command = [bench.programs / "quarry-server", dataset.parent, *SERVED, "--memory", bench.memory.server]
    with Server(start) as server:
        run([bench.programs / "quarry", command, f"grpc://{server.address}/run", *options])
        return {"peak memory": server.peak()}


def coarsest(bench: Bench, patches: int, *options: str) -> Counts:
    """Asks for the coarsest level."""
    return asked(bench, patches, "get", "--level", str(int(math.log2(PATCH))), *options, "--output", str(bench.output))


def overview(bench: Bench, patches: int) -> Counts:
    """Asks a server with little memory for the coarsest level of many patches, without an index."""
    return coarsest(bench, patches)


def focus(bench: Bench, patches: int) -> Counts:
    """Asks such a server for the same, with the nearest patches of a point first."""
    edge = edge_of(patches)
    return coarsest(bench, patches, "--focus", f"{edge // 3},{edge // 2},{edge // 5}")


def values(bench: Bench, patches: int) -> Counts:
    """Asks such a server for the same, of patches with some values."""
    return coarsest(bench, patches, "--values", "0.8:1")


def points(bench: Bench, patches: int) -> Counts:
    """Asks such a server for values at 2,000 points in as many patches."""
    numbers = random.Random(1)
    edge = edge_of(patches)
    places = bench.folder / "points.txt"
    lines = [",".join(f"{numbers.uniform(0, edge - 1):.3f}" for _ in range(3)) for _ in range(2000)]
    places.write_text("\n".join(lines) + "\n")
    return asked(bench, patches, "points", "--file", str(places), "--output", str(bench.output.with_suffix(".csv")))


def statistics(bench: Bench, patches: int) -> Counts:
    """Asks a server with little memory for statistics of the coarsest level of many patches, without an index."""
    return asked(bench, patches, "stats", "--level", str(int(math.log2(PATCH))), "--percentiles", "50")


def index_memory(bench: Bench, patches: int) -> Counts:
    """Makes the index of many patches, and compares it with the tables."""
    dataset = bench.made.patches(edge_of(patches))
    command: Command = [bench.programs / "quarry-index", dataset]
    (peak,) = peaks_of(command, bench.folder / "peaks")
    (verifying,) = peaks_of([*command, "--verify"], bench.folder / "peaks")
    shutil.rmtree(dataset / "index")
    return {"peak memory": peak, "peak memory, --verify": verifying}


def writer_memory(bench: Bench, patches: int) -> Counts:
    """Converts zeros to many patches, on ranks with little memory."""
    edge = edge_of(patches)
    field, output = bench.made.zeros(edge), bench.folder / "written.quarry"
    command: Command = [bench.programs / "quarry-write", field, *bench.made.cube(edge), "--memory", bench.memory.rank,
                        "--output", output]
    peaks = peaks_of(command, bench.folder / "peaks", ["mpirun", "-n", str(RANKS)])
    shutil.rmtree(output)
    return {"peak memory of the largest rank": max(peaks)}


def rank_tables(bench: Bench, ranks: int) -> Counts:
    """Predicts what each rank holds about the patches of a field, with as many patches a rank at each size."""
    edge = 64 * round((ranks * PATCHES_PER_RANK) ** (1 / 3))
    told = json.loads(run([bench.programs / "quarry-plan", "predict", "--dims", f"{edge}x{edge}x{edge}", "--patch",
                           "64", "--ranks", str(ranks), "--json"]))["tables"]
    return {"bytes": told["most_bytes"], "messages": told["most_messages"],
            "bytes of messages": told["most_message_bytes"]}


def list_datasets(bench: Bench, count: int) -> Counts:
    """Asks a server for the list of its datasets, page by page, and for the second page again."""
    try:
        web: Any = importlib.import_module("grpc_web")
    except ImportError as error:
        raise MissingError(str(error)) from error
    root = bench.made.datasets(count)
    for dataset in root.iterdir():
        os.utime(dataset / "steps", (0, 0))  # nothing has changed of late
    trace = Trace(bench.logs, root)
    command: Command = [bench.programs / "quarry-server", root, *SERVED, "--http", "127.0.0.1:0"]
    with Server(trace.command(command, stays=True)) as server, web.Client(server.http) as client:
        started = trace.cost()
        size = min(count // 2, 1000)
        tokens, found = [b""], 0
        while tokens[-1] or not found:
            answer = page(web, client, size, tokens[-1])
            found += len(answer[1])
            tokens += answer.get(2, [b""])
        if found != count:
            raise AssertionError(f"{found} datasets of {count}")
        once = trace.cost()
        page(web, client, size, tokens[1])
        return {"calls of stat": (once - started).looks, "calls of stat, page again": (trace.cost() - once).looks}


def page(web: Any, client: Any, size: int, token: bytes = b"") -> dict[int, list[bytes]]:
    """A page of the list: summaries of datasets are field 1, the token of the next page is field 2."""
    answer = client.call("ListDatasets", web.field(1, size) + web.field(2, token))
    fields: dict[int, list[bytes]] = web.parse(answer.messages[0])
    return fields


def one_field(bench: Bench, count: int) -> Counts:
    """Reads one field of a step with many."""
    dataset = bench.made.fields(count)
    command = bench.get(dataset, "--field", "f000000")
    cost, of_step = (cost_of(command, bench.logs, below) for below in (dataset, dataset / "steps"))
    return {"bytes read": cost.read, "bytes read of the step": of_step.read, "calls": cost.calls}


def step_on_disk(bench: Bench, count: int) -> Counts:
    """The blocks of a dataset's files and folders, a step, in folders and in packs."""
    packed = bench.folder / "packed" / "run.quarry"
    shutil.rmtree(packed.parent, ignore_errors=True)
    shutil.copytree(bench.made.steps(count), packed)
    run([bench.programs / "quarry", "pack", packed, "--unpack"])
    folders = disk_use(packed)
    run([bench.programs / "quarry", "pack", packed])
    packs = disk_use(packed)
    shutil.rmtree(packed.parent)
    return {"bytes in folders, a step": folders[0] / count, "files and folders, a step": folders[1] / count,
            "bytes in packs, a step": packs[0] / count, "files and folders, packed": packs[1] / count}


def disk_use(folder: Path) -> tuple[int, int]:
    """[bytes] in blocks of the disk below a folder, and the number of files and folders."""
    found = [path.lstat() for path in folder.rglob("*")]
    return 512 * sum(stat.st_blocks for stat in found), len(found)


WRITE = """
import numpy, quarry
steps = numpy.zeros((int(sys.argv[2]), 8, 8, 8), 'f4') + numpy.arange(int(sys.argv[2]), dtype='f4').reshape(-1, 1, 1, 1)
quarry.write(sys.argv[1], {'f': steps, 'g': steps}, tolerance=1e-3, keyframe=8)
"""


def keyframes(bench: Bench, count: int) -> Counts:
    """Writes steps of two fields that refer to earlier steps, from memory."""
    output = bench.folder / "keyframes" / "run.quarry"
    shutil.rmtree(output.parent, ignore_errors=True)
    output.parent.mkdir()
    cost = cost_of(bench.package(WRITE.strip(), output, str(count)), bench.logs, output)
    shutil.rmtree(output.parent)
    return {"calls, a step": cost.calls / count, "bytes of lists, a step": cost.listed / count}


@dataclasses.dataclass(frozen=True)
class Limit:
    """How a number may grow, and how large it may become."""

    slope: float | None = None
    """Of its logarithm over that of the size, at most."""
    each: float | None = None
    """Instead of a slope: growth with one more of the size, for numbers that begin far from zero, as memory."""
    reach: float | None = None
    at: int = 0
    """The size that `reach` is for."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Something that is counted at two sizes."""

    name: str
    over: str
    """The size that grows: steps, patches, fields, datasets or ranks."""
    measure: Callable[[Bench, int], Counts]
    limits: dict[str, Limit]
    package: bool = False
    """Whether it needs the Python package."""

    @property
    def title(self) -> str:
        """For the table."""
        return (self.measure.__doc__ or self.name).split(".")[0]


FLAT = 0.05
"""Slope of a number that does not grow."""
BLOCKS = 0.1
"""Slope of a number that does not grow, in blocks of a disk: packs of 200 steps have 28 of 4 KiB, and one more or less
is a slope of 0.05."""
LINEAR = 1.02
# Numbers of readers are bounded by their growth with one step more. A file that was written less than a tick of its file
# system's clock ago is looked at again, so a reader of a dataset that was made just now makes some calls more.
CALLS = 0.1
"""Some calls for each page of the catalogue (1024 steps) or of a list (1000 names). A look at each step would be 1."""
NO_BYTES = 20
"""A record in the catalogue would be 50 and more, a step.json 1700."""
RECORD = 120
"""[bytes] A record in the head, or in the last page: until that is full, with 1024 of them, each step adds one."""
NAMES = 300
"""[bytes] 32 for a name, as often as a folder is listed: twice or three times."""

ROWS = (
    # The files of the dataset and of one step, whatever their number. A folder of steps can only be listed whole.
    Row("python-open", "steps", python_open,
        {"files opened": Limit(each=CALLS, reach=10, at=10**5),
         "bytes read": Limit(each=NO_BYTES, reach=1e6, at=10**5), "bytes of lists": Limit(each=NAMES)}, package=True),
    # Coordinates need the time of each step: a record of the catalogue.
    Row("xarray-open", "steps", xarray_open,
        {"files opened": Limit(each=CALLS), "bytes read": Limit(LINEAR, reach=12e6, at=10**5),
         "bytes of lists": Limit(each=NAMES)}, package=True),
    Row("first-question", "steps", first_question,
        {"calls": Limit(each=CALLS), "bytes read": Limit(each=NO_BYTES), "bytes of lists": Limit(each=NAMES)}),
    # Each step is told once, and the catalogue has them all.
    Row("watch", "steps", watch,
        {"calls": Limit(each=CALLS), "bytes read": Limit(LINEAR), "bytes of lists": Limit(each=NAMES)}),
    # It reads and writes the piece of the new step, the head of the catalogue, which names the pages, and the seal,
    # which has at most 64 lines.
    Row("index-step", "steps", index_step,
        {"calls": Limit(each=CALLS), "bytes read": Limit(each=NO_BYTES, reach=1e5, at=10**5),
         "bytes written": Limit(each=NO_BYTES, reach=1e5, at=10**5), "bytes of lists": Limit(each=NAMES),
         "calls, nothing new": Limit(each=CALLS)}),
    # The head has the newest records, and names pages, 40 bytes each. A list has the names of packs, and of the folders
    # of steps that are in none.
    Row("store-open", "steps", store_open,
        {"requests": Limit(each=CALLS), "bytes received": Limit(each=RECORD, reach=1e6, at=10**5), "bytes sent": Limit(0)}),
    # The head, its last page, and the files of the step.
    Row("store-step", "steps", store_step,
        {"requests": Limit(each=CALLS), "bytes received": Limit(each=2 * RECORD, reach=1e6, at=10**5),
         "bytes sent": Limit(each=2 * RECORD, reach=4e5, at=10**5)}),
    # Packs have up to 1024 steps, beside head and catalogue.
    Row("step-on-disk", "steps", step_on_disk,
        {"bytes in folders, a step": Limit(FLAT), "files and folders, a step": Limit(FLAT),
         "bytes in packs, a step": Limit(BLOCKS, reach=1000, at=10**4), "files and folders, packed": Limit(FLAT)}),
    # The earlier step with the field is looked for in a list of all steps, which a run makes once.
    Row("keyframes", "steps", keyframes,
        {"calls, a step": Limit(FLAT), "bytes of lists, a step": Limit(FLAT)}, package=True),
    # A block of 1024 rows, and the entries that lead to it: one of 32 bytes for each block, at most 1024 of them in a
    # list. So they grow up to 10^6 patches, and then no more.
    Row("one-patch", "patches", one_patch,
        {"bytes read without payload": Limit(0.2, reach=3e5, at=10**7), "calls": Limit(each=1e-3)}),
    # Sums over runs of 8192 patches, and entries of tables. A plan at once takes 340 bytes a patch, reading it 1700.
    Row("overview", "patches", overview, {"peak memory": Limit(each=100, reach=214 << 20, at=10**6)}),
    # As an overview. The order by distance takes no list, what is left out a bit a patch.
    *(Row(measure.__name__, "patches", measure, {"peak memory": Limit(each=100, reach=214 << 20, at=10**6)})
      for measure in (statistics, focus, values, points)),
    # LMDB has the pages of a transaction in memory, up to 64 MiB. A check maps the piece, 172 bytes a patch that the
    # kernel can drop, and keeps blocks of tables, up to 128 MiB. Lists of all patches would be 490 bytes a patch more.
    Row("index-memory", "patches", index_memory,
        {"peak memory": Limit(each=250), "peak memory, --verify": Limit(each=400)}),
    # 24 bytes for each patch of the rank, 16 in letters. Rows of all patches would be 1400.
    Row("writer-memory", "patches", writer_memory,
        {"peak memory of the largest rank": Limit(each=150, reach=150 << 20, at=10**6)}),
    # dataset.json has all fields, once for each opening. Of step.json, a reader needs the root, which has a name of 8
    # bytes for each field, and a section.
    Row("one-field", "fields", one_field,
        {"bytes read": Limit(LINEAR), "bytes read of the step": Limit(each=12, reach=1e5, at=10**3),
         "calls": Limit(each=0.2)}),
    # Each dataset is looked at and opened once, and a list is kept for its further pages. Three calls: at the manifest, at
    # its open file, and at the folder of steps once it is listed; and some at the root.
    Row("list", "datasets", list_datasets,
        {"calls of stat": Limit(LINEAR, reach=30_010, at=10**4),
         "calls of stat, page again": Limit(0, reach=0, at=10**4)}),
    # 32 bytes for each rank are the only growth. There are as many patches a rank at each size.
    Row("rank-tables", "ranks", rank_tables,
        {"bytes": Limit(LINEAR, reach=20e6, at=10**5), "messages": Limit(LINEAR), "bytes of messages": Limit(LINEAR)}),
)
