"""Selection by the arguments of `Dataset.export`: which fields, steps and level, and the box on each grid."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from quarry import _quarry
from quarry._choice import Choice, choose, shows_level, steps_numbered
from quarry._errors import Error
from quarry._export_output import Output
from quarry._grids import Box, Region, box_of
from quarry._protocols import Dataset, Field
from quarry._roles import helpers_of
from quarry._words import check

Held = Sequence[_quarry.FieldStep | None]
"""What each of the chosen steps says of a field."""


@dataclass(frozen=True)
class Selection:
    """Fields and steps that somebody wants of a dataset.

    Attributes:
        names: of the fields
        leading: those of them that describe no others; all, if all do. They say which box is meant, and which level
        held: by name
        are_named: whether the caller named the fields
        left: sentences that name what is left out
    """

    dataset: Dataset
    names: list[str]
    leading: list[str]
    steps: list[_quarry.Step]
    held: Mapping[str, Held]
    are_named: bool
    left: tuple[str, ...] = ()

    def number_of_grid(self, name: str) -> int:
        """Number of the grid on which a field lies."""
        return self.dataset[name]._description.grid

    def numbers_of_grids(self, names: Iterable[str]) -> list[int]:
        """Numbers of the grids on which these fields lie."""
        return [*dict.fromkeys(map(self.number_of_grid, names))]

    def shapes(self, names: Iterable[str]) -> str:
        """Shapes of these fields, for messages."""
        return ", ".join(f"{name} {self.dataset[name].grid.shape}" for name in names) + " samples (z, y, x)"

    def without(self, names: Collection[str], why: str) -> Selection:
        """The others, with a sentence about these."""
        if not names:
            return self
        return replace(self, names=[name for name in self.names if name not in names],
                       leading=[name for name in self.leading if name not in names],
                       left=(*self.left, f"{_quoted(names)} are left out{why}"))

    # ---- The box

    @property
    def grid_of_samples(self) -> _quarry.FieldGrid:
        """The grid that a box means which is given by samples.

        Raises:
            ValueError: there are several
        """
        if len(self.numbers_of_grids(self.leading)) > 1:
            raise ValueError(f"a box of samples is one of a grid, and these fields lie on several: "
                             f"{self.shapes(self.leading)}; give positions, box={{\"AXIS\": (LOW, HIGH)}}, or fields "
                             "of one grid, fields=[NAME]")
        return self.dataset[self.leading[0]].grid

    def boxes(self, box: Box | Region | None) -> dict[int, Box]:
        """The samples of full resolution on each grid, by its number. A box is one of axes: a grid that lacks one of
        them is whole along its own.

        Raises:
            ValueError: samples of several grids, or an axis that could be several; TypeError: no numbers
            Error: no such axis; no sample in an interval (INVALID_ARGUMENT)
        """
        grids = {number: self.dataset.grids[number] for number in self.numbers_of_grids(self.names)}
        along: Mapping[str, tuple[int, int]] = {}
        if isinstance(box, Mapping) and len(grids) > 1:
            along = self._along_positions(box, [*grids.values()])
        elif box is not None:
            samples = box_of(self.grid_of_samples, box)
            check(box=samples)
            assert samples is not None
            along = dict(zip(self.grid_of_samples.dim_names, samples, strict=True))
        found = {}
        for number, grid in grids.items():
            z, y, x = (along.get(name, (0, length))
                       for name, length in zip(grid.dim_names, grid.shape, strict=True))
            found[number] = z, y, x
        return found

    def _along_positions(self, box: Region, grids: Sequence[_quarry.FieldGrid]) -> dict[str, tuple[int, int]]:
        """The samples along each axis that is named, by its name."""
        leading = [self.dataset.grids[number] for number in self.numbers_of_grids(self.leading)]
        along: dict[str, tuple[int, int]] = {}
        called: dict[str, str] = {}
        for given, interval in box.items():
            found = _axes_called(given, grids, leading)
            if not found:
                known = dict.fromkeys(name for grid in grids
                                      for name in itertools.compress(grid.dim_names, grid.has_axis))
                raise Error("INVALID_ARGUMENT", f"there is no axis {given!r}; the axes are {', '.join(known)}")
            if len(found) > 1:
                raise ValueError(f"the axis {given!r} is another one on each grid: {', '.join(found)}; give the box by "
                                 "these names")
            (name, (grid, axis)), = found.items()
            if name in called:
                raise ValueError(f"\"{called[name]}\" and \"{given}\" are the same axis; give it once")
            called[name] = given
            samples = box_of(grid, {name: interval})
            assert samples is not None
            along[name] = samples[axis]
        return along


def _axes_called(name: str, grids: Iterable[_quarry.FieldGrid], leading: Iterable[_quarry.FieldGrid]
                 ) -> dict[str, tuple[_quarry.FieldGrid, int]]:
    """The axes that fields have and that a name can mean, by their own names: that which is called so; otherwise those
    that the leading grids find, as by a letter."""
    for grid in grids:
        if name in itertools.compress(grid.dim_names, grid.has_axis):
            return {name: (grid, grid.dim_names.index(name))}
    found: dict[str, tuple[_quarry.FieldGrid, int]] = {}
    for grid in leading if isinstance(name, str) else ():
        axis = grid.find_axis(name)
        if axis is not None and grid.has_axis[axis]:
            found.setdefault(grid.dim_names[axis], (grid, axis))
    return found


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


# ---- Fields and steps

def select(dataset: Dataset, fields: str | Iterable[str] | None, steps: int | Iterable[int] | None,
           kind: type[Output]) -> Selection:
    """The fields and steps for a format. By default, fields that it cannot hold are left out.

    Raises:
        Error: no such step, or none that holds a field (NOT_FOUND)
        ValueError: no field, no step, or fields on several grids that the format cannot hold; KeyError: no such field
    """
    names = [fields] if isinstance(fields, str) else list(dataset if fields is None else dict.fromkeys(fields))
    said = {name: dataset[name]._description for name in names}
    if not names:
        raise ValueError("there is no field to export")
    chosen = _chosen(dataset, said, steps)
    held = {name: _held(dataset[name], chosen) for name in names}
    if fields is None:
        names = [name for name in names if any(held[name])]  # a field that none of the steps has is left out
    for name in names:
        if not any(held[name]):
            raise Error("NOT_FOUND", f"none of the steps {[step.step for step in chosen][:10]} of "
                        f"\"{dataset.target}\" has the field {name!r}; leave it out, or give other steps")
    helping = helpers_of(dataset)
    leading = [name for name in names if name not in helping] or names
    return _fitting(Selection(dataset, names, leading, chosen, held, fields is not None), kind)


def _fitting(selection: Selection, kind: type[Output]) -> Selection:
    """The selection that the format can hold. A format that holds one field says itself that several are too many."""
    helping = [name for name in selection.names if name not in selection.leading]
    if kind.of_one:
        return selection if selection.are_named else selection.without(
            helping, ", which describe other fields: the format holds one field; export them by their names")
    grid = selection.number_of_grid(selection.leading[0])
    elsewhere = [name for name in selection.names if selection.number_of_grid(name) != grid]
    if not kind.in_four_dimensions or not elsewhere:
        return selection
    if selection.are_named:
        raise ValueError(f"this format holds fields of one grid, and these lie on several: "
                         f"{selection.shapes(selection.names)}; take them apart, by their names in `fields`, or export "
                         "to .nc, .h5, .zarr or .npz")
    helping = [name for name in helping if name in elsewhere]
    others = [name for name in elsewhere if name not in helping]
    selection = selection.without(helping, ", which describe other fields: they lie on another grid; export them by "
                                           "their names")
    return selection.without(others, ": the format holds fields of one grid, here that of "
                                     f"{selection.leading[0]!r}; export them by their names")


def _chosen(dataset: Dataset, said: Mapping[str, _quarry.FieldDescription], numbers: int | Iterable[int] | None
            ) -> list[_quarry.Step]:
    """The steps of these numbers. If none are given, those that hold a field that changes with time; of fields that
    do not, one that holds any of them."""
    if numbers is None:
        steps = dataset._steps()
        moving = [name for name in said if not said[name].still]
        chosen = _holding(steps, moving) or _holding(steps, said)[:1]
        if not chosen:
            raise Error("NOT_FOUND", f"\"{dataset.target}\" has no step with {', '.join(said)} yet")
        return chosen
    chosen = steps_numbered(dataset, [numbers] if isinstance(numbers, int) else numbers)
    if not chosen:
        raise ValueError("there is no step to export")
    return chosen


def _holding(steps: Iterable[_quarry.Step], names: Collection[str]) -> list[_quarry.Step]:
    """The steps that hold one of the fields."""
    return [step for step in steps if any(field.name in names for field in step.fields)]


def _held(field: Field, chosen: Sequence[_quarry.Step]) -> Held:
    """Records of a field in each of the steps. The step that holds a still field has the record for all steps."""
    if field.still:
        return [next((said for _, said in field._holding()), None)] * len(chosen)
    return [next((one for one in step.fields if one.name == field.name), None) for step in chosen]


# ---- The level

def at_level(selection: Selection, level: int | None, max_error: float | Mapping[str, float] | None,
             layer: int | None) -> tuple[Selection, Choice]:
    """The level and layers that are meant, and the fields that the level shows: all, where nothing says otherwise."""
    shown = _shown(selection, level, max_error, layer)
    fields = [selection.dataset[name] for name in selection.names]
    coarser = [field.name for field in fields if not shows_level(field.grid, field._description, shown.level)]
    if coarser and selection.are_named:
        raise ValueError(f"level {shown.level} is coarser than all levels of {_quoted(coarser)}; give a finer level, "
                         "or leave them out of fields")
    return selection.without(coarser, f": level {shown.level} is coarser than all levels that they have"), shown


def _shown(selection: Selection, level: int | None, max_error: float | Mapping[str, float] | None,
           layer: int | None) -> Choice:
    """For a max_error, those with the fewest bytes at which all fields and steps are within it."""
    fields = {name: selection.dataset[name] for name in selection.names}
    # Bounds and the like have another unit.
    meant = [name for name, field in fields.items() if not field.is_coordinate and (
        selection.are_named or name in selection.leading)] or selection.names
    allowed = max_error if max_error is None or isinstance(max_error, Mapping) else dict.fromkeys(meant, max_error)
    if unknown := set(allowed or ()) - set(fields):
        raise ValueError(f"max_error names {', '.join(sorted(unknown))}; there are {', '.join(fields)}")
    return choose(selection.dataset, fields, meant, lambda name: [step for step in selection.held[name] if step],
                  level=level, max_error=allowed, layer=layer)
