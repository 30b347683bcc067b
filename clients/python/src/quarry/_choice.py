"""The level and the layers of accuracy of calls that show several steps or fields.

The library has the rules for an error, that of `Field.read` for the worst of the steps, and for a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quarry import _quarry
from quarry._errors import Error
from quarry._protocols import Dataset, Field
from quarry._words import check


@dataclass(frozen=True)
class Choice:
    """The chosen level and layers.

    Attributes:
        level: that of all fields; 0 is full resolution
        layers: layers of accuracy by the names of the fields
    """

    level: int
    layers: Mapping[str, int]


def choose(dataset: Dataset, names: Iterable[str], meant: Collection[str],
           records: Callable[[str], Sequence[_quarry.FieldStep]], *, level: int | None,
           max_error: Mapping[str, float] | None, layer: int | None) -> Choice:
    """The level and the layers of fields. For errors, those with the fewest bytes that a plan of the whole grid would
    choose for the worst field and step.

    Args:
        names: all fields that are shown; with errors, a field without one is shown in its last layer
        meant: the fields among them that decide which levels and layers there are: a number that none of them has is
            refused. A field with fewer layers shows its last
        records: gives the records of the steps that hold a field
        max_error: instead of level and layer, the error of each field that has a bound

    Raises:
        ValueError: no such level or layer, or arguments that exclude each other
        Error: no level keeps an error (NOT_FOUND), an error that is no number from 0 on (INVALID_ARGUMENT)
    """
    fields = {name: dataset[name] for name in names}
    layers = {name: field.layers - 1 for name, field in fields.items()}
    if max_error is not None:
        if level is not None or layer is not None:
            raise ValueError("only one of level and max_error can be given; max_error chooses the layer, too")
        for error in max_error.values():
            check(max_error=error)
        chosen, bounded = dataset.native.choose([(name, float(error), records(name))
                                                 for name, error in max_error.items()])
        return Choice(chosen, layers | dict(zip(max_error, bounded, strict=True)))
    level = 0 if level is None else level
    check(level=level, layer=layer)
    if level not in range(levels := max((fields[name].levels for name in meant), default=1)):
        raise ValueError(f"there is no level {level}; the dataset has levels 0, full resolution, to {levels - 1}")
    _quarry.check_layer([fields[name]._description for name in meant], layer)
    if layer is not None:
        layers = {name: min(layer, last) for name, last in layers.items()}
    return Choice(int(level), layers)


def steps_numbered(dataset: Dataset, numbers: Iterable[int]) -> list[_quarry.Step]:
    """The records of the steps of these numbers, ascending.

    Raises:
        Error: no such step (NOT_FOUND)
    """
    known = {step.step: step for step in dataset._steps()}
    wanted = sorted({int(number) for number in numbers})
    if absent := [number for number in wanted if number not in known]:
        raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step {absent[0]}; it has {len(known)} steps"
                    + (f" from {min(known)} to {max(known)}" if known else ""))
    return [known[number] for number in wanted]


def records_of(field: Field, steps: Collection[int] | None) -> list[_quarry.FieldStep]:
    """Records of a field in steps that hold it; a field that stands still has only one record.

    Args:
        steps: numbers of the steps; the first that holds the field if left out
    """
    holding = field._holding()
    if field.still or steps is None:
        return [record for _, record in holding[:1]]
    return [record for step, record in holding if step.step in steps]


def shows_level(grid: _quarry.FieldGrid, said: _quarry.FieldDescription, level: int) -> bool:
    """Whether a field is there at a level: coordinates are at every one, and a single sample is that of all."""
    return level < grid.levels or said.coordinate or grid.shape == (1, 1, 1)


def worst_of(records: Iterable[_quarry.FieldStep], layer: int) -> list[tuple[float, float]]:
    """The largest error and the least coverage in steps, of each level of a layer, the finest first."""
    return _quarry.worst_levels([*records], layer)
