"""Answers for several steps."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from quarry import _quarry
from quarry._grids import Box, ByAxis
from quarry._protocols import Field
from quarry._samples import AsArray, Samples
from quarry._words import check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Steps = Sequence[int] | Literal["all"]
"""Their numbers; "all": those that hold the field."""


def numbers_of(field: Field, steps: Steps) -> list[int]:
    """The numbers of the steps that are meant.

    Raises:
        ValueError: there is none, or one is below 0; TypeError: something else than numbers
    """
    if isinstance(steps, str) and steps == "all":
        numbers = field.steps
    else:
        if isinstance(steps, str) or not hasattr(steps, "__iter__"):
            raise TypeError(f"steps={steps!r} is not possible; give a list of the numbers of steps, or \"all\"")
        for number in steps:
            if not hasattr(number, "__index__"):
                check(step=number)
        numbers = [operator.index(number) for number in steps]
        for number in numbers:
            check(step=number)
    if not numbers:
        raise ValueError(f"steps={steps!r} has no step of {field.name!r}; it is in {_few(field.steps) or 'none'}")
    return numbers


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (" and others" if numbers[10:] else "")


class Series(AsArray):
    """The samples of one field at one level in several steps.

    `numpy.asarray(series)` and indexing give the array itself, without a copy.
    """

    def __init__(self, array: npt.NDArray[Any], samples: list[Samples], numbers: list[int], field: Field) -> None:
        self._array = array
        self._samples = samples
        self._numbers = numbers
        self._field = field

    @property
    def array(self) -> npt.NDArray[Any]:
        """[step, z, y, x]. Missing samples of floating-point fields are NaN, and those of integers masked, unless the
        request said something else."""
        return self._array

    @property
    def samples(self) -> list[Samples]:
        """Samples of each step, as `Field.read` gives them for it; in the memory of `array`."""
        return self._samples

    @property
    def field(self) -> str:
        """Its name."""
        return self._samples[0].field

    @property
    def steps(self) -> list[int]:
        """The numbers of the steps, in the requested order."""
        return self._numbers

    @property
    def level(self) -> int:
        """0 is full resolution."""
        return self._samples[0].level

    @property
    def layer(self) -> int:
        """Layer of accuracy, 0 is the roughest."""
        return self._samples[0].layer

    @property
    def max_error(self) -> float:
        """Largest difference, in any of the steps, between the original field and this level, in the field's unit.
        Infinite where damaged samples are shown."""
        return max(one.max_error for one in self._samples)

    @property
    def spacing(self) -> tuple[int, int, int]:
        """Samples of full resolution between neighbours along z, y, x."""
        return self._samples[0].spacing

    @property
    def box(self) -> Box:
        """Samples of this level: sample i of an axis lies at i * spacing of full resolution."""
        return self._samples[0].box

    @property
    def coords(self) -> ByAxis[Any]:
        """Coordinates of the steps, as `Field.coords` has them, and positions along the axes z, y and x, by their
        names."""
        return ByAxis({self._field.dims[0]: self._field._along_steps(self.steps), **self._samples[0].coords})

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<quarry.Series {self.field!r}, {len(self)} steps, level {self.level}: {shape} {self.dtype}>"


def read_series(field: Field, steps: Steps, masked: bool | None, question: Callable[[int], _quarry.Question]
                ) -> Series:
    """See Field.read. The samples of a step are decoded to their place.

    Args:
        question: makes the question for the number of a step
    """
    import numpy as np
    numbers = numbers_of(field, steps)
    native = field.dataset.native
    answers: list[_quarry.Answer] = []
    array: npt.NDArray[Any] | None = None
    for place, number in enumerate(numbers):
        if array is None:
            answers.append(native.read(question(number)))
            array = np.empty((len(numbers), *answers[0].array.shape), field.dtype)
            array[0] = answers[0].array
        else:
            answers.append(native.read(question(number), out=array[place]))
    assert array is not None
    if masked is None:
        masked = any(answer.may_miss for answer in answers) and field.dtype.kind in "iu"
    shown = field._masked(array) if masked else array
    samples = [Samples(answer, shown[place], field) for place, answer in enumerate(answers)]
    return Series(shown, samples, numbers, field)


def points_of_steps(field: Field, steps: Steps, points: Callable[[int], tuple[npt.NDArray[np.float64], float]]
                    ) -> tuple[npt.NDArray[np.float64], float]:
    """See Field.points: values [step, point], and the largest error.

    Args:
        points: returns values and error for the number of a step
    """
    import numpy as np
    numbers = numbers_of(field, steps)
    values, errors = zip(*map(points, numbers), strict=True)
    return np.stack(values), max(errors)
