"""Messages in the words of Python.

The C++ library and servers speak of boxes and shapes in the order x, y, z, and of the options of our commands. What
they say about a call from Python is said here as one would write that call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from quarry import _quarry

T = TypeVar("T")

_SENTENCES = {
    "append to it (--append), or choose another name (--output)":
        "append to it (mode=\"append\"), or choose another path",
    "choose another name (--output)": "choose another path",
    "create it (without --append)": "create it (mode=\"create\")",
    "quarry-write --resume --break-lock": "mode=\"resume\" and break_lock=True",
    " (quarry-write: --resume)": " (mode=\"resume\")",
    "a certificate that --ca (QUARRY_CA) vouches for": "a certificate that ca= vouches for",
    "give --break-lock": "give break_lock=True",
    "run \"quarry info\" for the": "Dataset.steps has the",
    "list the names with \"quarry ls\"": "quarry.list has the names",
    "--recode is for --encoding coded; give both": "recode is for encoding=\"coded\"; give both",
    "level-0 samples": "samples of full resolution",
    " (x fastest)": "",
}

_RANGE = r"(-?\d+):(-?\d+)"
_BOX = re.compile(rf"\[{_RANGE},{_RANGE},{_RANGE}\)")
_SHAPE = re.compile(r"\b(\d+)x(\d+)x(\d+)\b")
_POINT = re.compile(r"\((-?[\d.einfa+-]+), (-?[\d.einfa+-]+), (-?[\d.einfa+-]+)\)")
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def in_python(text: str) -> str:
    """A message of the library. Names in quotes stay as they are."""
    for said, meant in _SENTENCES.items():
        text = text.replace(said, meant)
    parts = re.split(r"(\"[^\"]*\")", text)
    return "".join(part if part.startswith("\"") else _turned(part) for part in parts)


def _turned(text: str) -> str:
    text = _POINT.sub(r"(\3, \2, \1)", text)  # before there are triples of ours
    text = _BOX.sub(r"((\5, \6), (\3, \4), (\1, \2))", text)
    text = _SHAPE.sub(r"(\3, \2, \1)", text)
    return _OPTION.sub(lambda option: option[1].replace("-", "_") + "=", text)


# ---- Arguments of a wrong type

_KINDS: dict[str, tuple[Callable[[Any], object], str]] = {
    "text": (lambda value: _quarry.Question(value), "a text"),
    "yes": (lambda value: _quarry.Question("", strict=value), "True or False"),
    "count": (lambda value: _quarry.Question("", step=value), "a whole number from 0 on"),
    "integer": (lambda value: _quarry.Question("", layer=value), "a whole number"),
    "number": (lambda value: _quarry.Question("", max_error=value), "a number"),
    "pair": (lambda value: _quarry.Question("", values=value), "two numbers: (low, high)"),
    "integers": (lambda value: _quarry.Question("", stride=value), "a whole number, or three: (z, y, x)"),
    "numbers": (lambda value: _quarry.Question("", focus=value), "three numbers: (z, y, x)"),
    "recode": (lambda value: _quarry.Question("", encoding="coded", recode=value),
               "a number, or a factor as a text, like \"2x\""),
    "box": (lambda value: _quarry.Question("", box=value), "((z0, z1), (y0, y1), (x0, x1)), whole numbers"),
}
"""What takes a value of this kind, and how it is called. The library says what it takes: nobody else has a rule."""

_ARGUMENTS = {
    **dict.fromkeys(("field", "units", "codec", "token", "ca", "certificate", "key", "encoding", "scale", "cache",
                     "payload_order"),
                    "text"),
    **dict.fromkeys(("strict", "physical", "lossless", "break_lock", "accept_range", "allow_http"), "yes"),
    **dict.fromkeys(("step", "after", "max_bytes", "memory", "cache_size"), "count"),
    **dict.fromkeys(("level", "first_level", "layer", "first_layer", "bins", "keyframe", "levels", "files", "threads",
                     "retries"), "integer"),
    **dict.fromkeys(("max_error", "patience", "tolerance", "relative", "pointwise_relative", "fill", "time", "timeout"),
                    "number"),
    **dict.fromkeys(("values", "range"), "pair"), **dict.fromkeys(("stride", "patch"), "integers"),
    **dict.fromkeys(("focus", "origin", "spacing"), "numbers"), "box": "box", "recode": "recode",
}
_NEVER_NONE = {"memory", "cache_size", "bins", "threads", "retries", "patience", "timeout"}
"""Of the kinds that a question may leave out."""


def is_url(target: str) -> bool:
    """Whether it is the address of a server, a web server or a store, and no path."""
    return "://" in target


def without_secret(target: str) -> str:
    """A target for messages: a URL without its query, which may hold a signature."""
    return target.partition("?")[0] if is_url(target) else target


def check(**arguments: Any) -> None:
    """That arguments have the types that the library wants.

    Raises:
        TypeError, ValueError: names the first that has another one, or a number that is too large or too small
    """
    for name, value in arguments.items():
        take, meaning = _KINDS[_ARGUMENTS[name]]
        try:
            if value is None and name in _NEVER_NONE:
                raise TypeError
            take(value)
        except (TypeError, RuntimeError):
            kind = ValueError if isinstance(value, int) and _ARGUMENTS[name] in ("count", "integer") else TypeError
            raise kind(f"{name}={value!r} is not possible; give {meaning}") from None


def explained(call: Callable[..., T], *given: Any, **arguments: Any) -> T:
    """The call. An argument of a wrong type is a TypeError that names it.

    Raises:
        TypeError: and all that the call raises
    """
    try:
        return call(*given, **arguments)
    except TypeError as error:
        if "incompatible function arguments" not in str(error):
            raise
    check(**{name: value for name, value in arguments.items() if name in _ARGUMENTS})
    raise TypeError(f"the library does not take {', '.join(f'{name}={value!r}' for name, value in arguments.items())}")
