"""A store of blocks in memory, within a limit; the storage service of DOoC."""

from __future__ import annotations

import mmap
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_TRACED = 4096


@dataclass
class Counts:
    """Counters of a store."""

    bytes_moved: int = 0
    """Of all blocks that were loaded."""
    hits: int = 0
    """Uses of a block that was in memory when its pass began."""
    misses: int = 0
    """Uses of a block that was loaded for them."""
    io_seconds: float = 0
    """While blocks were loaded."""
    peak: int = 0
    """[bytes] Most that was ever in memory, blocks that are being loaded included."""
    trace: list[tuple[float, int, int, int]] = field(default_factory=list)
    """(time, bytes in memory, bytes of these in use, tasks that wait), at every change; thinned when it grows long."""


def memory_of_its_own(size: int) -> mmap.mmap:
    """[bytes] for a block, zeros, which go back to the system when the block is evicted. An allocator would keep them,
    in pieces where blocks of other sizes do not fit."""
    return mmap.mmap(-1, max(1, size))


class BlockStore:
    """LRU cache of loaded blocks. One thread loads ahead.

    A block is immutable. While it is pinned it stays, and so does one that a task waits for which comes before the task
    that wants to load: what was loaded ahead is not lost before its use. Memory is taken before a block is loaded, so
    that what is held never exceeds the limit. Thread-safe; one pass at a time.

    Source: Saule et al., section 3.2
    """

    def __init__(self, load: Callable[[str], Any], sizes: Mapping[str, int], limit: int) -> None:
        """`load` makes a block of its name; `sizes`: [bytes] of every block; `limit`: [bytes] for all of them."""
        self._load, self._sizes, self._limit = load, sizes, limit
        self._changed = threading.Condition()
        self._blocks: OrderedDict[str, Any] = OrderedDict()  # the least recently used first
        self._used = 0
        self._pins: Counter[str] = Counter()
        self._pass: list[str] = []
        self._next = 0  # position in the pass of the first block that was not looked at
        self._waiting: set[str] = set()  # blocks whose task of the pass has not begun
        self._ahead: set[str] = set()  # subset that was loaded or found: it stays
        self._loaded: set[str] = set()  # in this pass
        self._error: BaseException | None = None
        self._closed = False
        self._thinning = 1
        self._changes = 0
        self.counts = Counts()
        self._thread = threading.Thread(target=self._read_ahead, name="quarry-outofcore-io", daemon=True)
        self._thread.start()

    def held(self) -> set[str]:
        """Names of the blocks in memory."""
        with self._changed:
            return set(self._blocks)

    def begin(self, blocks: Sequence[str]) -> None:
        """Begins a pass, in which every one of these is pinned once, in about this order."""
        with self._changed:
            self._pass, self._next, self._waiting, self._ahead = list(blocks), 0, set(blocks), set()
            self._loaded, self._error = set(), None
            self._changed.notify_all()

    def end(self) -> None:
        """Ends a pass, also one that has failed: no more is loaded for it."""
        with self._changed:
            self._pass, self._next, self._waiting, self._ahead = [], 0, set(), set()
            self._note()

    @contextmanager
    def pinned(self, name: str) -> Iterator[Any]:
        """A block of the pass, which stays in memory until it is given back. Waits until it is loaded."""
        with self._changed:
            while name not in self._blocks:
                if self._error is not None:
                    raise self._error
                if self._closed:
                    raise RuntimeError("the store is closed")
                self._changed.wait()
            self._pins[name] += 1
            self.counts.hits += name not in self._loaded
            self._waiting.discard(name)
            self._ahead.discard(name)
            self._blocks.move_to_end(name)
            block = self._blocks[name]
            self._note()
        try:
            yield block
        finally:
            del block
            with self._changed:
                self._pins[name] -= 1
                if not self._pins[name]:
                    del self._pins[name]
                self._changed.notify_all()

    def close(self) -> None:
        """Ends its thread, and frees its blocks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._blocks.clear()

    # ---- The thread that loads

    def _read_ahead(self) -> None:
        while (name := self._room_for_next()) is not None:
            begin = time.perf_counter()
            try:
                block = self._load(name)
            except BaseException as error:  # noqa: BLE001  # for the thread that waits for it
                with self._changed:
                    self._used -= self._sizes[name]
                    self._error, self._pass = error, []
                    self._changed.notify_all()
                continue
            with self._changed:
                self._blocks[name] = block
                del block
                self.counts.io_seconds += time.perf_counter() - begin
                self.counts.bytes_moved += self._sizes[name]
                self.counts.misses += 1
                self._note()
                self._changed.notify_all()

    def _room_for_next(self) -> str | None:
        """The next block to load, with memory taken for it. None: there will be no more."""
        with self._changed:
            while not self._closed:
                # A task may have taken its block, which was here, before this thread came to it.
                while self._next < len(self._pass) and ((name := self._pass[self._next]) not in self._waiting
                                                        or name in self._blocks):
                    if name in self._waiting:
                        self._ahead.add(name)
                    self._next += 1
                if self._next < len(self._pass) and self._make_room(self._sizes[self._pass[self._next]]):
                    name = self._pass[self._next]
                    self._ahead.add(name)
                    self._loaded.add(name)
                    self._next += 1
                    return name
                self._changed.wait()
            return None

    def _make_room(self, size: int) -> bool:
        """Takes memory, and evicts blocks for it. False: all blocks in memory have to stay."""
        movable = [name for name in self._blocks if name not in self._pins and name not in self._ahead]
        free = self._limit - self._used
        if free + sum(self._sizes[name] for name in movable) < size:
            return False
        for name in movable:
            if free >= size:
                break
            del self._blocks[name]
            self._used -= self._sizes[name]
            free += self._sizes[name]
        self._used += size
        self.counts.peak = max(self.counts.peak, self._used)
        return True

    def _note(self) -> None:
        """Adds to the trace."""
        self._changes += 1
        if self._changes % self._thinning:
            return
        trace = self.counts.trace
        trace.append((time.time(), self._used, sum(self._sizes[name] for name in self._pins), len(self._waiting)))
        if len(trace) >= _TRACED:
            del trace[::2]
            self._thinning *= 2
