"""Changes of existing datasets: attributes, and removals."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quarry import _quarry
from quarry._errors import Error
from quarry._words import check, is_url, without_secret


@dataclass(frozen=True)
class Removed:
    """Result of `delete`.

    Attributes:
        steps: numbers of the steps that are gone, ascending: also those that held nothing but the fields
        bytes: of compressed data and masks that no step needs any more
    """

    steps: list[int]
    bytes: int


def delete(path: str | os.PathLike[str], *, steps: int | Iterable[int] = (), fields: str | Iterable[str] = (),
           break_lock: bool = False) -> Removed:
    """Removes steps and fields of a dataset in a directory. Readers that have it open should open it again. After a
    crash each step and field is unchanged or gone, and the same call completes the removal.

        quarry.delete("run.quarry", steps=range(0, 100), fields="scratch")

    Args:
        path: of the dataset, a directory NAME.quarry
        steps: their numbers
        fields: their names; they are removed from all steps
        break_lock: removes the lock of a writer that ended without removing it

    Raises:
        Error: no such dataset, step or field (NOT_FOUND); something that stays needs what is to be removed: patches
            that refer to an earlier step, a field that stands still, one part of complex samples, or no field would
            stay (FAILED_PRECONDITION); another process writes it (UNAVAILABLE)
        ValueError: neither steps nor fields are given
    """
    if isinstance(steps, str | bytes):
        raise TypeError(f"steps={steps!r} is a text; give numbers")
    numbers = [operator.index(step) for step in (steps if isinstance(steps, Iterable) else [steps])]
    names = [fields] if isinstance(fields, str) else list(fields)
    if not numbers and not names:
        raise ValueError("nothing is to be deleted; give steps, fields, or both")
    for number in numbers:
        check(step=number)
    place = os.path.expanduser(os.fspath(path))
    gone, size = _quarry.remove(place, numbers, names, break_lock)
    return Removed(gone, size)


@dataclass(frozen=True)
class Owner:
    """The owner of attributes: the "dataset", a "field", or an "axis", 0 to 2 for z, y, x, of a field.

    Attributes:
        fixed: names of what follows from how samples are stored
    """

    kind: str
    field: str = ""
    axis: int = 0
    fixed: frozenset[str] = frozenset()


class Attributes(dict[str, Any]):
    """Attributes of a dataset, a field or an axis, as of the time of access. Those of a dataset in a directory can be
    set and deleted, which changes the dataset at once:

        dataset.attrs["title"] = "Run 42"
        dataset["t"].attrs.update(standard_name="air_temperature", units="K")
        del dataset.attrs["history"]

    Values are texts, lists of texts, numbers, arrays of one dimension, and what JSON holds. Another value is a
    TypeError. What follows from how samples are stored, as the coder, cannot be set. A copy is a dict like others.
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], target: str, owner: Owner,
                 refresh: Callable[[], None]) -> None:
        super().__init__(read())
        self._read, self._target, self._owner, self._refresh = read, target, owner, refresh

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)

    def __setitem__(self, name: str, value: Any) -> None:
        self._edit({name: value}, [])

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._edit({}, [name])

    def __ior__(self, other: Any) -> Attributes:  # type: ignore[override,misc]
        self._edit(dict(other), [])
        return self

    def update(self, *others: Any, **named: Any) -> None:
        """Sets several at once: the dataset changes once."""
        self._edit(dict(*others, **named), [])

    def setdefault(self, name: str, value: Any = None) -> Any:
        """Sets it, if there is none of this name."""
        if name not in self:
            self[name] = value
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Deletes it, and returns its value."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Not possible."""
        raise TypeError("attributes are deleted by name; del attrs[name]")

    def clear(self) -> None:
        """Not possible."""
        raise TypeError("attributes are deleted by name; del attrs[name]")

    def _edit(self, new: Mapping[str, Any], removed: list[str]) -> None:
        if is_url(self._target):
            raise Error("FAILED_PRECONDITION", f"\"{without_secret(self._target)}\" is read from a server, which "
                        "changes no dataset; open its directory to set attributes")
        if fixed := self._owner.fixed & {*new, *removed}:
            raise TypeError(f"{', '.join(sorted(fixed))} of {self._owner.field} cannot be set: it follows from how the "
                            "samples are stored; write the field again to change it")
        given = _quarry.Attributes(dict(new), all=True)
        if given.left:
            raise TypeError(f"the values of {', '.join(given.left)} cannot be kept: a dataset holds texts, numbers, "
                            "arrays of one dimension, and what JSON holds")
        _quarry.edit_attributes(self._target, self._owner.kind, self._owner.field, self._owner.axis, given, removed,
                                False)
        self._refresh()
        super().clear()
        super().update(self._read())
