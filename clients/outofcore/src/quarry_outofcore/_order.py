"""Which task runs when, and where: pure functions."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Order = Literal["data-aware", "fifo"]


@dataclass(frozen=True)
class Task:
    """Work on one block."""

    block: str
    """Its name; no two tasks of a pass have the same."""
    parts: tuple[str, ...] = ()
    """Names of the parts of the vectors that it needs, and adds to."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of all that it needs."""
        return (self.block, *self.parts)


def data_aware(tasks: Sequence[Task], held: Collection[str], sizes: Mapping[str, int]) -> list[Task]:
    """The tasks, each time the one next whose inputs bring the least new bytes to what is held by then. Equal ones keep
    their order.

    Args:
        held: names of what is in memory
        sizes: [bytes] of all inputs

    O(n log n) for n inputs: bytes that a task brings only become fewer, so old entries of the heap are recognized by
    being too large. The paper's loop asks every task each time.

    Source: Saule et al., An Out-of-Core Task-based Middleware for Data-Intensive Scientific Computing, algorithm 1.
    Where memory ends, which is where the algorithm stops, is for `BlockStore` to say, when it loads.
    """
    available = set(held)
    missing = [{name for name in task.inputs if name not in available} for task in tasks]
    cost = [sum(sizes[name] for name in names) for names in missing]
    users = defaultdict(list)
    for number, names in enumerate(missing):
        for name in names:
            users[name].append(number)
    heap = [(bytes_, number) for number, bytes_ in enumerate(cost)]
    heapq.heapify(heap)
    ordered: list[Task] = []
    while heap:
        bytes_, number = heapq.heappop(heap)
        if cost[number] != bytes_:  # an old entry of a task that is in the heap with less, or was taken
            continue
        ordered.append(tasks[number])
        cost[number] = -1
        for name in missing[number] - available:
            available.add(name)
            for other in users[name]:
                if cost[other] >= 0:
                    cost[other] -= sizes[name]
                    heapq.heappush(heap, (cost[other], other))
    return ordered


def arrange(order: Order, tasks: Sequence[Task], held: Collection[str], sizes: Mapping[str, int]) -> list[Task]:
    """The tasks in the order that they run in. "fifo": as they were given."""
    return data_aware(tasks, held, sizes) if order == "data-aware" else list(tasks)


def assign(order: Order, tasks: Sequence[Task], held: Mapping[str, Collection[str]],
           sizes: Mapping[str, int]) -> dict[str, list[Task]]:
    """Which worker has which tasks, about equal bytes each: a task goes to the worker that holds its block, unless that
    has its share. Of the rest, each worker has runs of neighbours, which share parts of the vectors. "fifo": what is
    held makes no difference.

    Args:
        held: for every worker, by its address, the names of the blocks in its memory

    Source: Saule et al., section 3.1, the global scheduler
    """
    workers = sorted(held)
    share = -(-sum(sizes[task.block] for task in tasks) // len(workers))
    load = dict.fromkeys(workers, 0)
    chosen: dict[str, str] = {}
    if order == "data-aware":
        holder = {name: worker for worker in reversed(workers) for name in held[worker]}
        for task in tasks:
            worker = holder.get(task.block)
            if worker is not None and load[worker] + sizes[task.block] <= share:
                chosen[task.block] = worker
                load[worker] += sizes[task.block]
    rest = iter(workers)
    current = next(rest)
    for task in tasks:
        if task.block in chosen:
            continue
        while load[current] >= share and (following := next(rest, None)) is not None:
            current = following
        chosen[task.block] = current
        load[current] += sizes[task.block]
    shares: dict[str, list[Task]] = {worker: [] for worker in workers}
    for task in tasks:
        shares[chosen[task.block]].append(task)
    return shares
