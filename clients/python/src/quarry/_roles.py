"""Roles of the fields of a dataset for each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from quarry import _quarry
from quarry._protocols import Dataset


def helpers_among(variables: Iterable[tuple[str, list[str], Mapping[Any, Any]]]) -> set[str]:
    """The variables, (name, dimensions, attributes), that describe others by what attributes say."""
    said = [(name, dims, {str(key): text for key, text in attributes.items() if isinstance(text, str)})
            for name, dims, attributes in variables]
    return {name for (name, _, _), helps in zip(said, _quarry.find_helpers(said), strict=True) if helps}


def helpers_of(dataset: Dataset) -> set[str]:
    """Coordinates, and what attributes say to describe others, as bounds of cells."""
    step, _, time = dataset.native.step_names
    said = [(time, [step], dataset.native.time_attributes)]
    for grid in dataset.grids:
        said += [(dim, [dim], attributes) for dim, attributes in
                 zip(grid.dim_names, grid.axis_attributes, strict=True)]
    for name, field in dataset.items():
        dims = [*itertools.compress(field.grid.dim_names, field.grid.has_axis)]
        said.append((name, dims if field.still else [step, *dims], field._description.attributes))
    helping = helpers_among(said)
    return {name for name, field in dataset.items() if field.is_coordinate or name in helping}
