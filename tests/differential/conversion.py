"""Converts a variable of a file as a user does, plainly at first and then with what the message asks for, and reads it
back."""

from __future__ import annotations

import itertools
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import quarry_testing as qt

# With more indices than these, some at both ends are taken.
RANGE, COMBINATIONS = 40, 12

PROGRAM = "quarry-write-single"
SAMPLES = {np.dtype(name) for name in ("f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")}


def ranks_of(variable: oracle.Variable, chosen: list[int]) -> int:
    """Axes that are left without time and the dimensions of which an index is chosen."""
    return sum(not d.is_time and i not in chosen for i, d in enumerate(variable.dimensions))


# Reasons to refuse, and what must be true of the variable then.
REFUSALS: dict[str, tuple[str, Callable[[oracle.Variable, list[int]], bool]]] = {
    "type of the samples": (r"only floats of up to 64 bits, complex numbers of two of them, integers and bool are understood",
                            lambda v, _: v.dtype not in SAMPLES),
    "a single number": (r"it is a single number", lambda v, others: ranks_of(v, others) == 0),
    "no samples": (r"has no samples", lambda v, _: 0 in v.shape),
    "an HDF5 filter that is not installed": (r'compressed by the HDF5 filter \d+ ".+", .*HDF5_PLUGIN_PATH',
                                             lambda v, _: v.plugins),
    "a part that is gone": (r"is a virtual dataset, and its source .* is missing", lambda v, _: v.gone),
    "no variable to NetCDF's library": (r"has no variable", lambda v, _: v.dtype is None),
    "several planes in a page": (r"ImageDepth", lambda v, _: "planes in a page" in v.kind),
    "several samples per pixel": (r"samples per pixel", lambda v, _: any(d.letter == "S" for d in v.dimensions)),
}
FILTER = "an HDF5 filter that is not installed"


class FailureError(Exception):
    """Something that is no difference, and never right."""


class RefusedError(Exception):
    """args: the reason and the message."""


def message_of(outcome: qt.Outcome) -> str:
    """The one line of an error, without warnings."""
    lines = [line for line in outcome.err.splitlines() if ": warning: " not in line]
    if len(lines) != 1 or not lines[0].startswith("quarry-write: "):
        raise FailureError(f"not one line of error: {outcome}")
    return lines[0]


@dataclass
class Choice:
    """The choices of the command line beside the file: indices by dimension, one of them possibly a range."""

    fixed: dict[int, int] = field(default_factory=dict)
    span: tuple[int, int, int] | None = None  # dimension, begin, end
    names: dict[int, str] = field(default_factory=dict)
    axes: str = ""

    def options(self) -> list[str]:
        options = ["--axes", self.axes] if self.axes else []
        for dimension, index in self.fixed.items():
            options += ["--index", f"{self.names[dimension]}={index}"]
        if self.span:
            options += ["--index", f"{self.names[self.span[0]]}={self.span[1]}:{self.span[2]}"]
        return options


def choices(others: list[int], names: dict[int, str], shape: tuple[int, ...], axes: str) -> tuple[list[Choice], bool]:
    """Choices that take every index of the dimensions that are no axes, and whether they leave some out."""
    if not others:
        return [Choice(axes=axes)], False
    first, *rest = others
    in_part = shape[first] > RANGE
    spans = [(0, RANGE // 2), (shape[first] - RANGE // 2, shape[first])] if in_part else [(0, shape[first])]
    all_indices: list[Iterable[int]] = [range(shape[d]) for d in rest]
    if math.prod(shape[d] for d in rest) > COMBINATIONS:
        in_part = True
        all_indices = [sorted({0, shape[d] - 1}) for d in rest]
    return [Choice(dict(zip(rest, indices, strict=True)), (first, *span), names, axes)
            for span in spans for indices in itertools.product(*all_indices)], in_part


class Conversions:
    """Converts a variable of a file as a user does: plainly at first, then with what the message asks for."""

    def __init__(self, path: Path, variable: oracle.Variable, reader: str, environment: dict[str, str], folder: Path):
        self.source = f"{path}:{variable.name}" if variable.name else str(path)
        self.variable, self.folder, self.environment = variable, folder, environment
        self.reader = ["--format", reader] if reader else []
        self.in_part = False

    def run(self, choice: Choice) -> qt.Outcome:
        shutil.rmtree(self.folder / "a.quarry", ignore_errors=True)
        return qt.run(PROGRAM, self.source, "--lossless", *self.reader, *choice.options(), "--output",
                      self.folder / "a.quarry", env=self.environment)

    def all(self) -> Iterator[tuple[Choice, qt.Outcome]]:
        """Conversions that take every index; each one's dataset is there until the next."""
        others: list[int] = []
        names: dict[int, str] = {}
        axes = ""
        while True:
            wanted, self.in_part = choices(others, names, self.variable.shape, axes)
            outcome = self.run(wanted[0])
            if outcome.code == qt.DONE:
                break
            message = message_of(outcome)
            more, axes_more = self.asked(message, names, others, axes)
            if not more and axes_more == axes:
                self.refuse(message, others, outcome)
            others, axes = others + more, axes_more
        yield wanted[0], outcome
        for choice in wanted[1:]:
            outcome = self.run(choice)
            if outcome.code != qt.DONE:
                raise FailureError(f"the first of several choices converts, this one does not: {outcome}")
            yield choice, outcome

    def asked(self, message: str, names: dict[int, str], others: list[int], axes: str) -> tuple[list[int], str]:
        """Dimensions that the message wants an index of, and letters that it proposes."""
        listed = re.search(r"its dimensions are (\S+=\d+(?: x \S+=\d+)*)", message)
        if not listed:
            return [], axes
        shown = [part.rsplit("=", 1) for part in listed[1].split(" x ")]
        letters = [d.letter for d in self.variable.dimensions]
        named = {"T": "frame", "Z": "z", "C": "channel", "Y": "y", "X": "x"}
        if all(letter in named for letter in letters):
            # tifffile leaves out what is there once, and has another order.
            sizes = dict(shown)
            shown = [[named[letter], sizes.get(named[letter], "1")] for letter in letters]
        if tuple(int(n) for _, n in shown) != self.variable.shape:
            raise FailureError(f"the message lists other dimensions than {self.variable.shape}: {message}")
        names.update({i: name for i, (name, _) in enumerate(shown)})
        proposed = re.search(r"as --axes (\w+)", message)
        if proposed and len(shown) == 4 and not axes and not others and shown[0][0] == "0":
            return [], proposed[1]
        asked = re.findall(r"--index (\S+)=K", message)
        found = [i for i, (name, _) in enumerate(shown) if name in asked and i not in others]
        return found, axes

    def refuse(self, message: str, others: list[int], outcome: qt.Outcome) -> None:
        for reason, (pattern, holds) in REFUSALS.items():
            if re.search(pattern, message) and holds(self.variable, others):
                raise RefusedError(reason, message)
        raise FailureError(f"refused for a reason that is not understood, or not true: {outcome}")

    def read(self) -> tuple[dict[str, Any], dict[tuple[str, int], np.ndarray]]:
        """The description of the dataset, and its samples by field and step, flat. Coordinates of the variable are
        variables that are compared by themselves."""
        dataset = self.folder / "a.quarry"
        info = qt.info(dataset)
        info["beside"] = [one["name"] for one in [*info["texts"], *(f for f in info["fields"] if f["coordinate"])]]
        info["fields"] = [f for f in info["fields"] if not f["coordinate"]]
        fields = {f["name"]: np.dtype(f["dtype"]) for f in info["fields"]}
        names = list(fields)
        samples = {}
        for begin in range(0, len(names), 50):
            some = names[begin:begin + 50]
            qt.succeed("quarry", "get", dataset, "--fields", ",".join(some), "--steps", f"0:{len(info['steps'])}",
                       "--output", self.folder / "{field}-{step}.raw")
            for name, step in itertools.product(some, info["steps"]):
                path = self.folder / f"{name}-{step}.raw"
                samples[name, step] = np.fromfile(path, fields[name])
                path.unlink()
        return info, samples
