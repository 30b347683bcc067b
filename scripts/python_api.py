"""Writes docs/python-api.md from the docstrings of the Python packages, which have to be on PYTHONPATH."""

import inspect
from pathlib import Path

import quarry
import quarry_outofcore

PAGE = Path(__file__).resolve().parents[1] / "docs/python-api.md"
INTRODUCTION = """\
# The Python interface

Made from the docstrings of the packages by `scripts/python_api.py`. [python.md](python.md) is a tutorial.
"""


def quoted(docstring):
    """A docstring as text of a page: sections as they stand."""
    return "```text\n" + inspect.cleandoc(docstring) + "\n```\n"


def signature(name, function):
    """As a user would write it, wrapped between arguments."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        parts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    returns = inspect.signature(function).return_annotation
    text, width = f"{name}(", len(name) + 1
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if number and len(text.split("\n")[-1]) + len(part) > 108:
            text = text.rstrip() + "\n" + " " * width
        text += part + ("" if last else ", ")
    return f"{text}) -> {returns}"


def entry(level, name, function):
    """A function with its arguments."""
    return f"{'#' * level} {name}\n\n```python\n{signature(name, function)}\n```\n\n{quoted(function.__doc__)}"


def of_class(name, kind):
    """A class: its text, its attributes as a table, and its methods."""
    parts = [f"## {name}\n\n{quoted(kind.__doc__)}"]
    own = [base for base in reversed(kind.__mro__) if base.__module__.startswith(("quarry.", "quarry_outofcore."))]
    members = {key: value for base in own for key, value in vars(base).items() if not key.startswith("_") and value.__doc__}
    properties = {key: value for key, value in members.items() if isinstance(value, property)}
    if properties:
        rows = [f"| `{key}` | {' '.join(value.__doc__.split()).replace('|', chr(92) + '|')} |" for key, value in properties.items()]
        parts.append("| attribute | |\n|---|---|\n" + "\n".join(rows) + "\n")
    methods = {key: getattr(value, "__func__", value) for key, value in members.items()}
    parts += [entry(3, f"{name}.{key}", value) for key, value in methods.items() if inspect.isfunction(value)]
    return "\n".join(parts)


def returned():
    """Other return types of functions and methods: the module in C++ has the types, in the order of their use."""
    names = ("Plan", "PlannedLevel", "Price", "Statistics", "Bounded", "Histogram", "Step", "FieldStep", "LevelRecord",
             "LayerRecord", "FieldDescription", "DatasetSummary")
    return [of_class(name, getattr(quarry._quarry, name)) for name in names]


def page():
    """The text of the page."""
    return "\n".join([INTRODUCTION, *of_module(quarry, ""), *returned(), f"## quarry_outofcore\n\n{quoted(quarry_outofcore.__doc__)}",
                      *of_module(quarry_outofcore, "quarry_outofcore.")])


def of_module(module, prefix):
    """Its functions, and then its classes."""
    public = {name: getattr(module, name) for name in sorted(module.__all__, key=str.lower) if not name.startswith("_")}
    functions = [entry(2, f"{module.__name__}.{name}", value) for name, value in public.items() if not inspect.isclass(value)]
    return functions + [of_class(prefix + name, value) for name, value in public.items() if inspect.isclass(value)]


if __name__ == "__main__":
    PAGE.write_text(page())
