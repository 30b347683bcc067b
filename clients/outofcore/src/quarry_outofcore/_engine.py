"""Runs passes over all blocks: in this process, or by the workers of dask.distributed."""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from quarry_outofcore._blocks import BlockStore, Counts
from quarry_outofcore._order import Order, Task, arrange, assign

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from distributed import Client

    Sink = Callable[[str, npt.NDArray[np.float64]], None]
    """Takes what was computed of a block, by its name."""
    Vectors = dict[str, npt.NDArray[np.float64]]
    """Parts of vectors beside each other, by their names: each [row, vector]."""


_AT_A_TIME = 2  # tasks of a worker whose results go to a sink


class Problem(Protocol):
    """Blocks on disk, and the computations on them. Pickles as the location of the blocks."""

    @property
    def tasks(self) -> Sequence[Task]:
        """One for each block."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """[bytes] of every block in memory."""

    @property
    def working(self) -> int:
        """[bytes] Memory beside blocks and vectors: of reading, and of a task while it computes."""

    def load(self, block: str) -> Any:
        """Reads a block."""

    def compute(self, kind: str, task: Task, block: Any, vectors: Vectors) -> Iterator[tuple[str, Any]]:
        """Contributions of a task to parts of the result."""

    def close(self) -> None:
        """Frees what reading has opened."""


@dataclass
class Report:
    """Traffic and time of an analysis. For several workers: sums, and for times the longest."""

    passes: int = 0
    """Over all blocks."""
    seconds: float = 0
    """Of all, by the clock."""
    io_seconds: float = 0
    """While blocks were loaded: read, checked, decoded."""
    compute_seconds: float = 0
    """While tasks and the work between passes were computed."""
    data_bytes: int = 0
    """Of all blocks in memory, if they fitted."""
    memory: int = 0
    """[bytes] The limit."""
    peak: int = 0
    """[bytes] Most that blocks and reserved memory came to."""
    bytes_moved: int = 0
    """Of the blocks that were loaded."""
    bytes_sent: int = 0
    """Of vectors, to and from workers."""
    hits: int = 0
    """Tasks that found their block in memory."""
    misses: int = 0
    """Tasks whose block was loaded for them."""
    trace: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Of this process, or of the first worker: (seconds, bytes of blocks in memory, bytes of these in use, tasks that
    wait)."""

    @property
    def hit_ratio(self) -> float:
        """Share of the tasks that found their block in memory."""
        return self.hits / max(1, self.hits + self.misses)

    @property
    def overlap(self) -> float:
        """Seconds of all, over the larger of loading and computing: 1 is perfect."""
        return self.seconds / max(self.io_seconds, self.compute_seconds, 1e-9)

    def summary(self) -> dict[str, float | int]:
        """All but the trace, for JSON."""
        numbers = {name: value for name, value in vars(self).items() if name != "trace"}
        return {**numbers, "hit_ratio": self.hit_ratio, "overlap": self.overlap}


class Runner:
    """The local scheduler: runs tasks in their order on threads, while the store loads ahead."""

    def __init__(self, problem: Problem, order: Order, limit: int, threads: int) -> None:
        self._problem, self._order, self._threads = problem, order, threads
        self._one_pass = threading.Lock()
        self._adding = threading.Lock()
        self.compute_seconds = 0.0
        self.store = BlockStore(problem.load, problem.sizes, limit)

    def run(self, kind: str, tasks: Sequence[Task], vectors: Vectors, sink: Sink | None = None) -> Vectors:
        """The sums of what the tasks add to each part; but what is of one block goes to `sink` at once."""
        with self._one_pass:
            held = self.store.held() | vectors.keys()
            sizes = {**self._problem.sizes, **{name: part.nbytes for name, part in vectors.items()}}
            ordered = arrange(self._order, tasks, held, sizes)
            sums: Vectors = {}
            self.store.begin([task.block for task in ordered])
            try:
                self._run_all(kind, ordered, vectors, sums, sink)
            finally:
                self.store.end()
            return sums

    def _run_all(self, kind: str, ordered: Sequence[Task], vectors: Vectors, sums: Vectors,
                 sink: Sink | None) -> None:
        tasks, taking, ended = iter(ordered), threading.Lock(), threading.Event()

        def work() -> float:
            busy = 0.0
            while True:
                with taking:
                    task = None if ended.is_set() else next(tasks, None)
                if task is None:
                    return busy
                with self.store.pinned(task.block) as block:
                    begin = time.perf_counter()
                    for name, part in self._problem.compute(kind, task, block, vectors):
                        with self._adding:
                            if name == task.block and sink is not None:
                                sink(name, part)
                            elif name in sums:
                                sums[name] += part
                            else:
                                sums[name] = part
                    del block
                    busy += time.perf_counter() - begin

        if self._threads == 1:
            self.compute_seconds += work()
            return
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                running = [pool.submit(work) for _ in range(self._threads)]
                self.compute_seconds += max(future.result() for future in running)
            finally:
                ended.set()  # after an error, or Ctrl-C: the others take no more

    def close(self) -> None:
        """Ends the store."""
        self.store.close()
        self._problem.close()


class Engine(ABC):
    """Runs passes, and reports what they take."""

    def __init__(self, problem: Problem, memory: int, reserved: int) -> None:
        """`memory`: [bytes] the limit for all; `reserved`: [bytes] what is no blocks of it."""
        self._problem, self._reserved = problem, reserved
        self.report = Report(memory=memory, data_bytes=sum(problem.sizes.values()))
        self._begin = time.time()
        self._pass_seconds = 0.0

    def run(self, kind: str, vectors: Vectors, sink: Sink | None = None) -> Vectors:
        """One pass: the sums of what the tasks add to each part. What is of one block goes to `sink`, if there is
        one."""
        self.report.passes += 1
        begin = time.perf_counter()
        sums = self._run(kind, vectors, sink)
        self._pass_seconds += time.perf_counter() - begin
        return sums

    @abstractmethod
    def _run(self, kind: str, vectors: Vectors, sink: Sink | None) -> Vectors:
        """See `run`."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Adds the caller's work between passes to the report."""
        begin, before = time.perf_counter(), self._pass_seconds
        yield
        self.report.compute_seconds += time.perf_counter() - begin - (self._pass_seconds - before)

    @abstractmethod
    def close(self) -> None:
        """Completes the report, and frees the blocks."""

    def _complete(self, shares: Sequence[tuple[Counts, float]]) -> None:
        """Adds the counters of the stores, and the seconds of computing beside each."""
        report = self.report
        report.seconds = time.time() - self._begin
        for counts, _ in shares:
            report.bytes_moved += counts.bytes_moved
            report.hits += counts.hits
            report.misses += counts.misses
        report.io_seconds += max((counts.io_seconds for counts, _ in shares), default=0)
        report.compute_seconds += max((seconds for _, seconds in shares), default=0)
        report.peak = sum(counts.peak for counts, _ in shares) + self._reserved
        for counts, _ in shares[:1]:
            report.trace = [(when - self._begin, *rest) for when, *rest in counts.trace]  # type: ignore[misc]


class Local(Engine):
    """All passes in this process."""

    def __init__(self, problem: Problem, order: Order, memory: int, vectors: int, threads: int) -> None:
        """`memory`: [bytes] the limit for all; `vectors`: [bytes] what the caller has of it."""
        super().__init__(problem, memory, vectors + problem.working)
        self._runner = Runner(problem, order, blocks_limit(problem, memory, self._reserved, threads), threads)

    def _run(self, kind: str, vectors: Vectors, sink: Sink | None) -> Vectors:
        return self._runner.run(kind, self._problem.tasks, vectors, sink)

    def close(self) -> None:
        self._complete([(self._runner.store.counts, self._runner.compute_seconds)])
        self._runner.close()


def blocks_limit(problem: Problem, memory: int, reserved: int, threads: int) -> int:
    """[bytes] left for blocks: one for each thread, and one that is loaded ahead.

    Raises:
        ValueError: that is too little
    """
    needed = (threads + 1) * max(problem.sizes.values(), default=0)
    if memory - reserved < needed:
        raise ValueError(f"{memory} bytes of memory are too few: vectors and reading take {reserved}, and "
                         f"{threads + 1} blocks {needed}; allow {reserved + needed} or more, or have smaller blocks")
    return memory - reserved


# ---- Workers of dask.distributed

_runners: dict[str, Runner] = {}
"""Of this process, by the analysis they belong to."""
_making = threading.Lock()


@dataclass
class _Share:
    """Share of a worker in a pass."""

    worker: str
    sums: Vectors
    held: set[str]
    counts: Counts
    compute_seconds: float


def _run_share(analysis: str, problem: Problem, order: Order, limit: int, threads: int, kind: str,
               tasks: Sequence[Task], vectors: Vectors) -> _Share:
    """In a worker: the tasks that it was given. Blocks stay for the next pass."""
    from distributed import get_worker
    with _making:
        runner = _runners.get(analysis)
        if runner is None:
            runner = _runners[analysis] = Runner(problem, order, limit, threads)
    sums = runner.run(kind, tasks, vectors)
    return _Share(get_worker().address, sums, runner.store.held(), runner.store.counts, runner.compute_seconds)


def _end_analysis(analysis: str) -> None:
    runner = _runners.pop(analysis, None)
    if runner is not None:
        runner.close()


class Distributed(Engine):
    """All passes by the workers of a dask cluster: which has which tasks is decided here before each pass, from what
    each holds; how they are sent, and sent again to another worker when one is lost, is dask's.

    A worker has all tasks of a pass as one task of dask: dask knows nothing of our blocks, and would run them in an
    order of its own.
    """

    def __init__(self, problem: Problem, order: Order, memory: int, vectors: int, threads: int, client: Any) -> None:
        """`client`: of dask, which has no types; `memory`: [bytes] the limit for all workers; `vectors`: [bytes] what
        the caller and each worker has of it."""
        self._order, self._threads, self._client = order, threads, client
        workers, reserved = self._workers(), vectors + problem.working
        super().__init__(problem, memory, len(workers) * reserved)
        self._limit = blocks_limit(problem, memory // len(workers), reserved, threads)
        self._analysis = uuid.uuid4().hex
        self._shares: dict[str, _Share] = {}
        """The last one of each worker."""

    def _workers(self) -> list[str]:
        workers = list(self._client.nthreads())
        if not workers:
            raise ValueError("the dask cluster of client= has no workers; start some, as "
                             "LocalCluster(n_workers=2) does")
        return workers

    def _run(self, kind: str, vectors: Vectors, sink: Sink | None) -> Vectors:
        """With a sink, workers have a few tasks at a time, so that what they made for it does not pile up."""
        import distributed
        as_completed: Any = distributed.as_completed  # has no types
        held = {worker: self._shares[worker].held if worker in self._shares else set() for worker in self._workers()}
        shares = assign(self._order, self._problem.tasks, held, self._problem.sizes)
        sizes = {**self._problem.sizes, **{name: part.nbytes for name, part in vectors.items()}}
        left = {worker: arrange(self._order, share, held[worker], sizes) for worker, share in shares.items()}
        sums: Vectors = {}
        running: dict[Any, str] = {}

        def send(worker: str) -> Any:
            count = len(left[worker]) if sink is None else _AT_A_TIME
            tasks, left[worker] = left[worker][:count], left[worker][count:]
            parts = {name: vectors[name] for task in tasks for name in task.parts}
            self.report.bytes_sent += sum(part.nbytes for part in parts.values())
            future = self._client.submit(
                _run_share, self._analysis, self._problem, self._order, self._limit, self._threads, kind, tasks, parts,
                workers=[worker], allow_other_workers=True, pure=False)
            running[future] = worker
            return future

        done = as_completed([send(worker) for worker in shares if left[worker]])
        try:
            for future in done:
                worker = running.pop(future)
                self._take(future.result(), sums, sink)
                future.release()
                if left[worker]:
                    done.add(send(worker))
        finally:
            self._client.cancel(list(running))
        return sums

    def _take(self, share: _Share, sums: Vectors, sink: Sink | None) -> None:
        for name, part in share.sums.items():
            self.report.bytes_sent += part.nbytes
            if sink is not None and name in self._problem.sizes:
                sink(name, part)
            elif name in sums:
                sums[name] = sums[name] + part
            else:
                sums[name] = part
        share.sums = {}
        self._shares[share.worker] = share

    def close(self) -> None:
        self._complete([(share.counts, share.compute_seconds) for _, share in sorted(self._shares.items())])
        self._client.run(_end_analysis, self._analysis, on_error="ignore")


def engine(problem: Problem, order: Order, memory: int, vectors: int, threads: int,
           client: Client | None) -> Engine:
    """By the workers of `client`, or here."""
    if order not in ("data-aware", "fifo"):
        raise ValueError(f'order {order!r} is none of "data-aware" and "fifo"')
    if threads < 1:
        raise ValueError(f"threads={threads}: there has to be one that computes")
    if client is None:
        return Local(problem, order, memory, vectors, threads)
    return Distributed(problem, order, memory, vectors, threads, client)


def workers_of(client: Any) -> int:
    """How many share the work; without a client, this process."""
    return max(1, len(client.nthreads())) if client is not None else 1


def parsed(memory: int | str) -> int:
    """Bytes, of a number or of a text as "256MiB"."""
    if isinstance(memory, int):
        return memory
    units = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6,
             "gb": 10**9, "tb": 10**12}
    text = memory.strip().lower()
    unit = text.lstrip("0123456789.")
    try:
        return int(float(text[:len(text) - len(unit)]) * units[unit.strip()])
    except (KeyError, ValueError):
        raise ValueError(f'memory {memory!r} is no size; write 268435456, "256MiB" or "0.5GB"') from None


