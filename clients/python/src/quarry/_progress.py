"""Bars that show how far a call is, and reads that have one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quarry._grids import Box, Region, box_of
from quarry._protocols import Answer, Encoding, Field


@contextlib.contextmanager
def progress_bar(size: int, text: str, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A bar of so many bytes, if it is shown. Gives the function that moves it on.

    Raises:
        ImportError: tqdm is not installed
    """
    if not shown:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress needs tqdm: pip install tqdm") from error
    with tqdm(total=size, unit="B", unit_scale=True, desc=text) as bar:
        yield bar.update
        bar.total = bar.n  # fewer, where some of it was there already
        bar.refresh()


def read_with_bar(field: Field, *, box: Box | Region | None, step: int | None, level: int | None,
                  max_error: float | None, max_bytes: int | None, strict: bool, layer: int | None,
                  encoding: Encoding | None, recode: str | float | None) -> Answer:
    """Reads a box slab by slab of patches, and shows how far it is. An answer like that of one read."""
    import numpy as np
    box = box_of(field.grid, box)
    plan = field.plan(box=box, step=step, level=level, max_error=max_error, max_bytes=max_bytes, layer=layer)
    target = plan.levels[-1]
    (first, _), (top, bottom), (left, right) = target.extent
    shape = tuple(end - begin for begin, end in target.extent)
    whole = np.empty(shape, field.dtype)
    errors, damaged, rougher, left_out, may_miss = [0.0], [], [], [], False
    with progress_bar(whole.nbytes, f"{field.name}, step {plan.step}") as advance:
        for slab in _slabs(field, box):
            begin, end = (-(-bound // target.spacing[0]) - first for bound in slab[0])
            if begin == end:
                continue
            part = field.read(box=slab, step=plan.step, level=target.level, layer=plan.layer, strict=strict,
                              masked=False, encoding=encoding, recode=recode)
            whole[begin:end] = part.array
            errors.append(part.max_error)
            damaged += part.damaged
            rougher += part.rougher
            left_out += part.left_out
            may_miss |= part._answer.may_miss
            advance(part.array.nbytes)
    return Merged(field.name, plan.step, target.level, plan.layer, True, max(errors), target.extent,
                  target.spacing, damaged, rougher, left_out, may_miss, whole)


@dataclass(frozen=True)
class Merged:
    """Several native answers as one."""

    field: str
    step: int
    level: int
    layer: int
    last: bool
    max_error: float
    extent: Box
    spacing: tuple[int, int, int]
    damaged: list[tuple[Box, int]]
    rougher: list[tuple[Box, int]]
    left_out: list[Box]
    may_miss: bool
    array: Any


def _slabs(field: Field, box: Box | None) -> Iterator[Box]:
    """The box cut along z where patches begin."""
    z, y, x = field.grid.shape
    (begin, end), rows, columns = box or ((0, z), (0, y), (0, x))
    thickness = field.chunks[1]
    while begin < end:
        behind = min(end, (begin // thickness + 1) * thickness)
        yield (begin, behind), rows, columns
        begin = behind
