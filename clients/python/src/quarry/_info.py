"""Summaries of a dataset and its fields, as texts for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quarry._grids import positions
from quarry._protocols import Dataset, Field

if TYPE_CHECKING:
    from quarry import _quarry


class Text(str):
    """A text of several lines that a prompt shows as such."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_LONGEST = 60
"""Characters of an attribute that are shown."""


def titled(name: str, unit: str) -> str:
    """The title of an axis or a column."""
    return f"{name} [{unit}]" if unit else name


def bound_of(field: Field) -> str:
    """How much samples may be off."""
    said = field._description
    if said.tolerance is not None:
        return f"± {said.tolerance:.3g}"
    if said.relative_tolerance is not None:
        return f"± {said.relative_tolerance:.3g} of the range"
    if said.pointwise_relative_tolerance is not None:
        return f"± {said.pointwise_relative_tolerance:.3g} of each sample"
    return "lossless"


def role_of(field: Field) -> str:
    """The role of a field beside its values; empty for most."""
    part = "imaginary" if field._description.is_imaginary else "real"
    return ", ".join(text for text, holds in (
        ("does not change", field.still), ("coordinate", field.is_coordinate),
        (f"{part} parts of {field._description.complex_of}", bool(field._description.complex_of))) if holds)


def stored_size(field: Field) -> str:
    """On the disk, of all steps."""
    holding = [said for _, said in field._holding()]
    stored = sum(said.stored_bytes for said in holding)
    raw = sum(said.raw_bytes for said in holding)
    return f"{stored / 1e6:,.1f} MB" + (f", {raw / stored:.1f} times smaller" if stored else "")


def dataset_info(dataset: Dataset) -> Text:
    """See Dataset.info."""
    lines = [("dataset", dataset.target), *_attributes(dataset.attrs),
             *(line for grid in dataset.grids for line in _grid_lines(grid)),
             ("steps", _steps(dataset.steps)),
             ("times", _times(dataset)),
             *(line for text in dataset.native.texts for line in [_text_line(text), *_attributes(text.attributes)]),
             ("as arrays", f"{dataset.nbytes / 1e6:,.1f} MB"),
             ("written by", dataset.native.created_by)]
    rows = [(name, field.dtype.name, field.units, f"{len(field)} steps", bound_of(field), stored_size(field),
             role_of(field)) for name, field in dataset.items()]
    titles = ("field", "type", "unit", "steps", "bound", "stored", "")
    return Text("\n".join([*_aligned(lines), "", *_table(titles, rows)]))


def field_info(field: Field) -> Text:
    """See Field.info."""
    holding = [said for _, said in field._holding()]
    low, high = min((said.min for said in holding), default=1.0), max((said.max for said in holding), default=0.0)
    unit = f" {field.units}" if field.units else ""
    fill = field._description.fill
    missing = sum(said.has_missing for said in holding)
    lines = [("field", f"{field.name} of {field.dataset.target}"), *_attributes(field._description.attributes),
             ("type", field.dtype.name),
             ("unit", field.units),
             ("shape", f"{_product(field.shape)} ({', '.join(field.dims)})"),
             ("chunks", _product(field.chunks)),
             ("levels", str(field.levels)),
             ("steps", _steps(field.steps)),
             ("range", f"{low:.6g} to {high:.6g}{unit}" if low <= high else ""),
             ("missing", f"in {missing} steps" if missing else ""),
             ("fill value", "" if fill is None else str(fill)),
             ("coder", field._description.coder),
             ("bound", bound_of(field)),
             ("layers", str(field._description.layers) if field._description.layers > 1 else ""),
             ("as array", f"{field.nbytes / 1e6:,.1f} MB"),
             ("stored", stored_size(field)),
             ("role", role_of(field))]
    return Text("\n".join(_aligned(lines)))


def _product(lengths: Iterable[int]) -> str:
    return " x ".join(map(str, lengths))


def _grid_lines(grid: _quarry.FieldGrid) -> list[tuple[str, str]]:
    return [("samples", f"{_product(grid.shape)} ({', '.join(grid.dim_names)})"),
            *(line for number, name in enumerate(grid.dim_names) if grid.has_axis[number]
              for line in [(f"axis {name}", _axis(grid, number)), *_attributes(grid.axis_attributes[number])]),
            ("patch", _product(grid.patch)),
            ("levels", str(grid.levels))]


def _attributes(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Below what has them, with long ones cut."""
    texts = {name: _printable(_text(value)) for name, value in said.items()}
    return [(f"  {_printable(name)}", text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
            for name, text in texts.items()]


def _text(value: Any) -> str:
    """An attribute as text: a text, numbers or texts behind each other, or JSON."""
    if hasattr(value, "ndim"):
        return ", ".join(map(str, value if value.ndim else [value]))
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    import json
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _axis(grid: _quarry.FieldGrid, number: int) -> str:
    along = positions(grid, number)
    return f"{along[0]:.6g} to {along[-1]:.6g} {grid.axis_units[number]}".rstrip()


def _text_line(text: _quarry.TextCoordinate) -> tuple[str, str]:
    shown = _printable(", ".join(text.texts[:_LONGEST]))
    cut = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    return f"text {_printable(text.name)}", cut + (f" (along {text.dim})" if text.dim else "")


def _steps(numbers: list[int]) -> str:
    return f"{len(numbers)}" + (f", {numbers[0]} to {numbers[-1]}" if numbers else "")


def _times(dataset: Dataset) -> str:
    """Times of the first and the last step that has one."""
    known = [time for time in dataset.times if time is not None]
    return " to ".join(dataset.native.time_text(time) for time in dict.fromkeys((known[0], known[-1]))) if known else ""


def _aligned(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Aligned lines, without empty ones."""
    said = [(name, value) for name, value in lines if value]
    width = max(len(name) for name, _ in said)
    return [f"{name:<{width}}  {value}" for name, value in said]


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (titles, *rows)]
