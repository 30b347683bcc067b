"""Which variables of a whole xarray.Dataset are fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from quarry import _quarry

StepAxis = Callable[[Any], Any]


def members_of(dataset: Any, chosen: Collection[str], types: Collection[str], step_axis: StepAxis,
               said: list[str]) -> dict[str, Any]:
    """The variables that are fields: all but those that describe others, and those of text.

    Args:
        chosen: dimensions along which an index is chosen, so that they may be no axes
        types: those that samples may have
        step_axis: gives the dimension of a variable that brings the steps, or None
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
        _check(members, chosen, types, step_axis)
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


def _check(members: dict[str, Any], chosen: Collection[str], types: Collection[str], step_axis: StepAxis) -> None:
    """Refuses what cannot be a field, or has no steps where others have some."""
    of_type = [name for name, one in members.items() if one.dtype.name not in types]
    steps = {name: step_axis(one) for name, one in members.items()
             if name not in of_type and one.ndim and _is_whole(one, chosen)}
    several = Counter(steps.values())
    series = max(several, key=lambda dim: (dim is not None, several[dim]), default=None)
    fit = [name for name in steps if steps[name] == series]
    if len(fit) == len(members):
        return
    unfit: dict[str, list[str]] = {}
    for name, one in members.items():
        if name not in fit:
            unfit.setdefault(str(one.dtype) if name in of_type else _dimensions(one), []).append(name)
    reasons = [f"samples of {', '.join(types)}"] if of_type else []
    if len(fit) + len(of_type) < len(members):
        reasons.insert(0, f"one series of steps, here that of {fit[0]!r} ({_dimensions(members[fit[0]])})" if fit
                       else "a grid")
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
