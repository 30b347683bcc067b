"""Sources of samples to be written: arrays of any kind, box by box, with their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarry import _quarry
from quarry._grids import Box
from quarry._times import Times
from quarry._words import check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "bool")
"""Of samples."""

COMPLEX = ("complex64", "complex128")
"""Of samples that become two fields."""

_EXACT = 2**53
"""Up to which float64 has all integers."""


@dataclass
class Axis:
    """Positions of the samples along z, y or x."""

    name: str
    units: str = ""
    origin: float = 0.0
    spacing: float = 1.0
    coordinates: list[float] = field(default_factory=list)
    """Of all samples, where they are not evenly spaced."""
    placed: bool = False
    """Whether anybody said where they lie."""
    dtype: str = "float64"
    """Of the positions, where they come from."""
    attributes: _quarry.Attributes = field(default_factory=lambda: _quarry.Attributes({}))

    @classmethod
    def at(cls, name: str, units: str, positions: npt.NDArray[np.generic],
           attributes: _quarry.Attributes | None = None) -> Axis | None:
        """An axis with samples at these positions; None if samples cannot lie there."""
        import numpy as np
        exact = positions.astype(np.float64).tolist()
        found = _quarry.place_axis(exact, positions.dtype.newbyteorder("=") == np.float32)
        if found is None:
            return None
        origin, spacing, is_even = found
        dtype = "float32" if positions.dtype.name == "float16" else positions.dtype.name
        return cls(name, units, origin, spacing, [] if is_even else exact, True, dtype,
                   attributes or _quarry.Attributes({}))


def holds_exactly(positions: npt.NDArray[np.generic]) -> bool:
    """Whether float64, in which positions are stored, has all of these numbers."""
    if positions.dtype.kind not in "iu":
        return positions.dtype.itemsize <= 8
    return all(abs(int(end)) <= _EXACT for end in (positions.min(), positions.max()))


@dataclass(frozen=True)
class Moments:
    """Moments of the steps that come with data.

    Attributes:
        numbers: None if nobody counts them
        times: None if nobody said any
        name: of the dimension of the steps if the times are its coordinate, or of the one moment; empty otherwise
        attributes: of the times
    """

    numbers: list[int] | None = None
    times: Times | None = None
    name: str = ""
    attributes: _quarry.Attributes = field(default_factory=lambda: _quarry.Attributes({}))


@dataclass(frozen=True)
class Text:
    """A coordinate of text.

    Attributes:
        dim: the dimension along which it lies; None: it is one text
    """

    name: str
    dim: str | None
    texts: list[str]
    attributes: _quarry.Attributes


def is_complex(array: Any) -> bool:
    """Whether samples are complex numbers, in any byte order."""
    return str(getattr(array, "dtype", "")).lstrip("<>=") in (*COMPLEX, "c8", "c16")


class ComplexPart:
    """The real or the imaginary parts of an array of complex numbers, which is loaded part by part."""

    def __init__(self, array: Any, imaginary: bool) -> None:
        import numpy as np
        self._array, self._imaginary = array, imaginary
        self.shape = array.shape
        self.dtype = np.empty(0, np.dtype(array.dtype).newbyteorder("=")).real.dtype

    def __getitem__(self, key: Any) -> Any:
        loaded = self._array[key]
        if hasattr(loaded, "compute"):
            loaded = loaded.compute()
        loaded = getattr(loaded, "values", loaded)
        return loaded.imag if self._imaginary else loaded.real


class Source:
    """One field, of one or several steps.

    Attributes:
        moments: what is said of its steps
        still: it does not change with time
        coordinate: it says where the samples of others are
        exact: nothing of it may be lost, and what is said of all fields is not said of it: it describes others, or
            holds dates
        moves: it is another one at another moment, as all are that do not describe others
        complex: the name of the complex samples of which it holds a part, and whether these are imaginary
    """

    def __init__(self, name: str, array: Any, *, has_steps: bool, units: str = "", fill: float | int | None = None,
                 axes: Sequence[Axis] | None = None, has_axis: Sequence[bool] | None = None,
                 attributes: _quarry.Attributes | None = None, moments: Moments | None = None, still: bool = False,
                 coordinate: bool = False, exact: bool = False, moves: bool = True,
                 complex: tuple[str, bool] | None = None) -> None:
        """Where axes are left out, the array has no names. It has all three then, unless `has_axis` says which."""
        import numpy as np
        self.name = name
        self.units = units
        self.fill = fill
        self.attributes = attributes or _quarry.Attributes({})
        self.moments = moments or Moments()
        self.complex = complex
        self.still, self.coordinate, self.exact, self.moves = still, coordinate, exact or coordinate, moves
        self._array = array
        self._has_steps = has_steps
        self.dtype = np.dtype(array.dtype).newbyteorder("=")
        self._stored = np.dtype(np.float32) if self.dtype == np.float16 else self.dtype
        if self.dtype.name not in TYPES:
            raise TypeError(f"{name!r} holds {self.dtype.name}, and a dataset one of {', '.join(TYPES + COMPLEX)}; "
                            "convert it with astype")
        self.has_names = axes is not None
        shape = tuple(int(length) for length in array.shape)
        fewest = 0 if self.has_names else 1
        if not fewest <= len(shape) - has_steps <= 3 or 0 in shape:
            raise ValueError(f"{name!r} has the shape {shape}; it is to be [z, y, x], [y, x] or [x], with a first axis "
                             "for the steps if there are several, and samples along each axis")
        self.steps = shape[0] if has_steps else 1
        spatial = shape[1:] if has_steps else shape
        self._absent = 3 - len(spatial)
        z, y, x = (1,) * self._absent + spatial
        self.shape = (z, y, x)
        self.axes = axes if axes is not None else [Axis(axis) for axis in "zyx"]
        self.has_axis = list(has_axis or (not self.has_names or number >= self._absent for number in range(3)))

    @property
    def step_bytes(self) -> int:
        """Bytes of the samples of a step."""
        z, y, x = self.shape
        return z * y * x * int(self._stored.itemsize)

    @property
    def unplaced(self) -> list[bool]:
        """Which of the axes z, y, x have a name, but no positions."""
        return [self.has_names and has and not axis.placed for has, axis in zip(self.has_axis, self.axes, strict=True)]

    def declare_fill(self, fill: float | int | None) -> None:
        """Declares this value as the one of missing samples. Masked integers need one."""
        import numpy as np
        if fill is not None:
            check(fill=fill)
            self.fill = exactly(fill)
        elif self.fill is None and isinstance(self._array, np.ma.MaskedArray) and self.dtype.kind in "iu":
            self.fill = int(self._array.fill_value)

    def load(self, step: int, box: Box) -> npt.NDArray[np.generic]:
        """The samples of a box, [z, y, x]. A view, where they are in memory."""
        key = tuple(slice(*bounds) for bounds in box[self._absent:])
        loaded = self._array[(step, *key) if self._has_steps else key]
        if hasattr(loaded, "compute"):  # dask's arrays would lose their mask in numpy.asarray
            loaded = loaded.compute()
        loaded = self._unmask(getattr(loaded, "values", loaded))  # xarray's variables have values
        return loaded.astype(self._stored, copy=False)[(None,) * self._absent]

    def _unmask(self, samples: Any) -> npt.NDArray[np.generic]:
        """As an array whose missing samples have a value."""
        import numpy as np
        if not isinstance(samples, np.ma.MaskedArray):
            return np.asarray(samples)
        filled: npt.NDArray[np.generic]
        if self.dtype.kind == "f":
            filled = samples.filled(np.nan)
            return filled
        if np.ma.is_masked(samples):
            if self.dtype.kind == "b":
                raise ValueError(f"{self.name!r} has masked samples of bool, which has no third value; convert it with "
                                 "astype('uint8') and give a `fill`")
            if self.fill is None:
                raise ValueError(f"{self.name!r} has masked samples of {self.dtype.name}; give a `fill` that no sample "
                                 "has")
            if (samples.compressed() == self.fill).any():
                raise ValueError(f"{self.name!r} has samples that are not masked and hold the fill value {self.fill}; "
                                 "give another `fill`")
        filled = samples.filled(self.fill if self.fill is not None else 0)
        return filled


def kept(attributes: Mapping[Any, Any], owner: str, said: list[str]) -> _quarry.Attributes:
    """The attributes of a field, a coordinate or a dataset, as far as a dataset can hold them; the others are said."""
    found = _quarry.Attributes(dict(attributes))
    left: dict[str, list[str]] = {}
    for name in found.left:
        value = attributes.get(name)
        left.setdefault(str(getattr(value, "dtype", type(value).__name__)), []).append(name)
    for kind, names in left.items():
        said.append(f"attributes {', '.join(names)} of {owner} hold {kind}, which is not kept")
    return found


def exactly(fill: Any) -> float | int:
    """A fill value with all its digits: float64 does not hold those of all integers of 64 bits."""
    number = fill.item() if hasattr(fill, "item") else fill
    return int(number) if isinstance(number, int) else float(number)
