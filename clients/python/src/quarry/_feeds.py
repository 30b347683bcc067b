"""Queues that a thread fills and a loop empties: the answers of a stream, the steps of a watch."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

from quarry import _quarry

_running: weakref.WeakSet[_quarry.Stream | _quarry.Watch] = weakref.WeakSet()


@atexit.register
def _end_running() -> None:
    """A thread that still reads would meet libraries that are being unloaded."""
    for feed in list(_running):
        feed.close()


def taken(feed: Any) -> Iterator[Any]:
    _running.add(feed)
    try:
        while (value := feed.next()) is not None:
            yield value
    finally:
        feed.close()


async def taken_async(feed: Any) -> AsyncIterator[Any]:
    import asyncio
    _running.add(feed)
    try:
        while (value := await asyncio.to_thread(feed.next)) is not None:
            yield value
    finally:
        await asyncio.shield(asyncio.to_thread(feed.close))
