"""Where a dataset is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from quarry import _quarry


@contextmanager
def place_of(path: str | os.PathLike[str], mode: str, break_lock: bool) -> Iterator[str]:
    """The path at which the library writes. For the mode "overwrite", one beside an old dataset, whose place the new
    one takes at the end; if that is not reached, the old one stays."""
    place = os.path.expanduser(os.fspath(path))
    if mode != "overwrite":
        yield place
        return
    replacement = _quarry.Replacement(place, break_lock)
    try:
        yield replacement.staged
        replacement.publish()
    finally:
        replacement.abandon()
