"""Types of arrays for samples, positions and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quarry import _quarry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def floating(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest float that holds every integer of a type, and NaN."""
    import numpy as np
    return np.dtype(stored if stored.kind == "f" else np.float32 if stored.itemsize <= 2 else np.float64)


def with_nan(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A masked array as floats with NaN, for callers without masks; any other one unchanged."""
    import numpy as np
    if not isinstance(array, np.ma.MaskedArray):
        return array
    floats: Any = array.astype(floating(array.dtype))
    filled: npt.NDArray[Any] = floats.filled(np.nan)
    return filled


def as_given(places: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Positions along an axis, in the type in which the source has them."""
    import numpy as np
    given = np.dtype(dtype)
    return (np.rint(places) if given.kind in "iu" else places).astype(given)


def array_of(texts: Sequence[str]) -> npt.NDArray[Any]:
    """Texts as numpy has them, or as objects: its type of text drops zeros at the end, and gives each the room of the
    longest."""
    import numpy as np
    longest = max(map(len, texts), default=0)
    as_objects = any(text.endswith("\0") for text in texts) or longest * len(texts) > 8 * sum(map(len, texts)) + 4096
    return np.array(texts, dtype=object if as_objects else np.str_)


def texts_along(texts: Iterable[_quarry.TextCoordinate], places: Mapping[str, slice]
                ) -> Iterator[tuple[str, tuple[str, ...], npt.NDArray[Any], dict[str, Any]]]:
    """Name, dimensions, values and attributes of coordinates: of those that are one text, and of those along
    dimensions that have a place here, at that place."""
    for text in texts:
        if not text.dim:
            yield text.name, (), array_of(text.texts).reshape(()), text.attributes
        elif text.dim in places:
            yield text.name, (text.dim,), array_of(text.texts[places[text.dim]]), text.attributes
