"""Which variables of a whole xarray.Dataset are fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from quarry import _moments, _quarry, _times
from quarry._labelled import is_text
from quarry._roles import helpers_among
from quarry._sources import COMPLEX, TYPES, is_complex


@dataclass
class Members:
    """The data variables of a Dataset that are fields.

    Attributes:
        fields: those that stand for themselves
        helpers: those that describe others: bounds of cells, grid mappings, meshes
        coordinates: names of helpers that others name as coordinates
        of_moments: names of helpers that say how long a moment is
    """

    fields: dict[str, Any] = field(default_factory=dict)
    helpers: dict[str, Any] = field(default_factory=dict)
    coordinates: set[str] = field(default_factory=set)
    of_moments: set[str] = field(default_factory=set)


def members_of(dataset: Any, chosen: Collection[str], said: list[str]) -> Members:
    """The variables that are fields: all but those of text.

    Args:
        chosen: dimensions along which an index is chosen, so that they may be no axes
        said: gets a sentence for what is left out

    Raises:
        ValueError, TypeError: some cannot be fields, or not beside the others; all of them are named
    """
    helping = _helpers(dataset)
    texts = [str(name) for name, one in dataset.data_vars.items() if is_text(one)]
    if texts:
        said.append(f"of the Dataset, {', '.join(texts)} are left out: they hold text")
    members = Members()
    for name, one in dataset.data_vars.items():
        if str(name) not in texts:
            (members.helpers if str(name) in helping else members.fields)[str(name)] = one
    members.coordinates = helping & _named(dataset.variables.values(), "coordinates", decoded=False)
    times = [one.variable for one in dataset.coords.values() if _times.is_time(one)]
    members.of_moments = helping & (_named(times, "bounds") | _named(times, "climatology"))
    if len(members.fields) > 1:
        _check(members.fields, chosen)
    return members


def _helpers(dataset: Any) -> set[str]:
    """Variables that describe others. xarray moves the attributes that say so to the encoding, when it decodes."""
    return helpers_among((str(name), [str(dim) for dim in variable.dims], {**variable.encoding, **variable.attrs})
                         for name, variable in dataset.variables.items())


def _named(variables: Collection[Any], attribute: str, *, decoded: bool = True) -> set[str]:
    """The names in an attribute of these variables, or in their encoding where xarray has decoded it."""
    texts = [holder.get(attribute) for variable in variables
             for holder in ([variable.attrs, variable.encoding] if decoded else [variable.attrs])]
    return {name for text in texts if isinstance(text, str) for name in text.split()}


def _check(members: dict[str, Any], chosen: Collection[str]) -> None:
    """Refuses what cannot be a field, or has other steps than the others."""
    of_type = [name for name, one in members.items()
               if one.dtype.name not in TYPES and not is_complex(one) and not _times.is_date(one)]
    whole = {name: one for name, one in members.items() if name not in of_type and _is_whole(one, chosen)}
    steps = _moments.step_axes(whole)
    several = Counter(dim for dim in steps.values() if dim is not None)
    series = max(several, key=lambda dim: several[dim], default=None)
    fit = [name for name in whole if steps[name] in (None, series)]
    if len(fit) == len(members):
        return
    unfit: dict[str, list[str]] = {}
    for name, one in members.items():
        if name not in fit:
            unfit.setdefault(str(one.dtype) if name in of_type else _dimensions(one), []).append(name)
    reasons = [f"samples of {', '.join(TYPES + COMPLEX)}"] if of_type else []
    if len(fit) + len(of_type) < len(members):
        first = next((name for name in fit if steps[name] == series), None)
        reasons.insert(0, f"one series of steps, here that of {first!r} ({_dimensions(members[first])})"
                       if first is not None and series is not None else "axes of a grid")
    others = [name for name in members if name not in fit]
    take = f"take the rest, ds[{fit}]" if len(fit) <= len(others) else f"leave them out, ds.drop_vars({others})"
    if not fit:
        take = "convert their type with astype"
    raise (TypeError if of_type else ValueError)(
        f"some variables of the Dataset cannot be fields: "
        f"{'; '.join(f'{why}: ' + ', '.join(names) for why, names in unfit.items())}. A dataset has "
        f"{' and '.join(reasons)}; {take}, and write what else you need by itself")


def _dimensions(variable: Any) -> str:
    return f"along {', '.join(map(str, variable.dims))}" if variable.dims else "a single value"


def _is_whole(variable: Any, chosen: Collection[str]) -> bool:
    """Whether all dimensions of several samples are axes, or time."""
    return not any(_quarry.is_no_axis(str(dim)) for dim, length in variable.sizes.items()
                   if length > 1 and dim not in chosen)
