"""Which variables of a whole xarray.Dataset are fields."""

from __future__ import annotations

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
    texts = {str(name) for name, one in dataset.data_vars.items() if _is_text(one)}
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


def _is_text(variable: Any) -> bool:
    if variable.dtype.kind != "O":
        return variable.dtype.kind in "SUT"
    return any(isinstance(value, (str, bytes)) for value in variable.values.flat)


def _check(members: dict[str, Any], chosen: Collection[str], types: Collection[str]) -> None:
    """Refuses what cannot be a field, or lies on another grid than the largest one."""
    of_type = {name: str(one.dtype) for name, one in members.items() if one.dtype.name not in types}
    fit = [name for name in members if name not in of_type]
    largest = max(fit, key=lambda name: (members[name].ndim, members[name].size), default="")
    elsewhere = {name: _dimensions(members[name]) for name in fit
                 if not members[name].ndim or _grid(members[name], chosen) != _grid(members[largest], chosen)}
    if not of_type and not elsewhere:
        return
    unfit = of_type | elsewhere
    listed = ", ".join(f"{name!r} ({why})" for name, why in unfit.items())
    reasons = [f"one grid, here that of {largest!r} ({_dimensions(members[largest])})"] if elsewhere else []
    reasons += [f"samples of {', '.join(types)}"] if of_type else []
    take = f"take what fits together, as ds[[{largest!r}]], or " if largest not in ("", *unfit) else ""
    raise (TypeError if of_type else ValueError)(
        f"{listed} of the Dataset cannot be fields: a dataset has {' and '.join(reasons)}; {take}leave them out with "
        f"ds.drop_vars({[*unfit]})")


def _dimensions(variable: Any) -> str:
    return f"along {', '.join(map(str, variable.dims))}" if variable.dims else "a single value"


def _grid(variable: Any, chosen: Collection[str]) -> set[str]:
    """Its dimensions of several samples, in any order."""
    return {dim for dim, length in variable.sizes.items() if length > 1 and dim not in chosen}
