"""Which variables of a whole xarray.Dataset are fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from quarry import _quarry


def members_of(dataset: Any, chosen: Collection[str], types: Collection[str], said: list[str]) -> dict[str, Any]:
    """The variables that are fields: all but those that describe others, and those of text.

    Args:
        chosen: dimensions along which an index is chosen, which makes no difference between grids
        types: those that samples may have
        said: gets a sentence for what is left out

    Raises:
        ValueError, TypeError: some cannot be fields, or not beside the others; all of them are named
    """
    helpers = _helpers(dataset)
    texts = {str(name) for name, one in dataset.data_vars.items() if is_text(one)}
    left_out = [str(name) for name in dataset.data_vars if str(name) in helpers | texts]
    if left_out:
        numbers = [name for name in left_out if name not in texts]
        said.append(f"of the Dataset, {', '.join(left_out)} are left out: they describe other variables (bounds, "
                    "coordinates, grid mappings) or hold text"
                    + (f"; write ds[{numbers[0]!r}] by itself if you need it" if numbers else ""))
    members = {str(name): one for name, one in dataset.data_vars.items() if str(name) not in left_out}
    if len(members) > 1:
        _check(members, chosen, types)
    return members


def _helpers(dataset: Any) -> set[str]:
    """Variables that describe others. xarray moves the attributes that say so to the encoding, when it decodes."""
    words = []
    for name, variable in dataset.variables.items():
        attributes = {str(key): text for key, text in {**variable.encoding, **variable.attrs}.items()
                      if isinstance(text, str)}
        words.append((str(name), [str(dim) for dim in variable.dims], attributes))
    return {name for (name, _, _), helps in zip(words, _quarry.find_helpers(words), strict=True) if helps}


def is_text(variable: Any) -> bool:
    """Whether a variable of xarray holds texts, which it often has as objects."""
    if variable.dtype.kind != "O":
        return variable.dtype.kind in "SUT"
    return any(isinstance(value, (str, bytes)) for value in variable.values.flat)


def _check(members: dict[str, Any], chosen: Collection[str], types: Collection[str]) -> None:
    """Refuses what cannot be a field, or lies on another grid than most fields of as many axes."""
    of_type = [name for name, one in members.items() if one.dtype.name not in types]
    grids = {name: _grid(one, chosen) for name, one in members.items() if name not in of_type and one.ndim}
    several = Counter(grids.values())
    grid = max(several, key=lambda one: (_is_whole(one), len(one), several[one]), default=None)
    fit = [name for name in grids if grids[name] == grid]
    if len(fit) == len(members):
        return
    unfit: dict[str, list[str]] = {}
    for name, one in members.items():
        if name not in fit:
            unfit.setdefault(str(one.dtype) if name in of_type else _dimensions(one), []).append(name)
    reasons = [f"samples of {', '.join(types)}"] if of_type else []
    if len(fit) + len(of_type) < len(members):
        reasons.insert(0, f"one grid, here that of {fit[0]!r} ({_dimensions(members[fit[0]])})" if fit else "a grid")
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


def _is_whole(grid: frozenset[Any]) -> bool:
    """Whether all dimensions are axes, or time."""
    return not any(_quarry.is_no_axis(str(dim)) for dim in grid)


def _grid(variable: Any, chosen: Collection[str]) -> frozenset[Any]:
    """Its dimensions of several samples, in any order."""
    return frozenset(dim for dim, length in variable.sizes.items() if length > 1 and dim not in chosen)
