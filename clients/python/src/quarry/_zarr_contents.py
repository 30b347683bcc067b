"""The keys and values of a dataset as a Zarr hierarchy. zarr-python is not needed.

The C++ library decides what they are (quarry/zarr), for the server as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quarry import _quarry

if TYPE_CHECKING:
    from quarry._dataset import Dataset


class Contents:
    """The keys of the hierarchy, and their values. Thread-safe. Pickles with its dataset, which opens again.

    Steps are those that were published when it was made. They are read by their numbers, so that a process that opens
    the dataset later gives the same answers.
    """

    def __init__(self, dataset: Dataset, hierarchy: _quarry.ZarrHierarchy) -> None:
        self.dataset = dataset
        self._hierarchy = hierarchy
        # A process that it is handed to may have another working directory.
        self._target = dataset._place

    @classmethod
    def of(cls, dataset: Dataset, fields: Sequence[str] | None = None, float32: bool = False,
           layer: int | None = None) -> Contents:
        """Makes the contents of a dataset as it is now.

        Raises:
            KeyError: there is no such field
            ValueError: the layer is negative
            Error: the records of the steps cannot be read
        """
        names = [dataset[name].name for name in fields or ()]
        if layer is not None and layer < 0:
            raise ValueError(f"layer={layer} is not the number of a layer of accuracy: 0, the roughest, 1, ...")
        return cls(dataset, _quarry.ZarrHierarchy(dataset.native, dataset._steps(), names, float32, layer))

    def __reduce__(self) -> tuple[Callable[..., Contents], tuple[str, dict[str, Any], tuple[Any, ...]]]:
        return _opened_again, (self._target, self.dataset.__reduce__()[1][1], self._hierarchy.state())

    def get(self, key: str) -> memoryview | None:
        """The value, None where there is no such key. A chunk is read and decoded.

        Raises:
            Error: the samples of a chunk cannot be had, because of damage or of the server
        """
        value: Any = self._hierarchy.get(self.dataset.native, key)
        return None if value is None else memoryview(value)

    def size(self, key: str) -> int | None:
        """[bytes] Of the value, None where there is no such key. Reads nothing."""
        return self._hierarchy.size(key)

    def children(self, path: str) -> Iterator[str]:
        """The names in a folder of keys: none where there is no such folder."""
        names, chunks = self._hierarchy.children(path)
        return itertools.chain(names, map(str, range(chunks)))

    def keys(self, prefix: str = "", path: str = "") -> Iterator[str]:
        """All keys in a folder of keys that begin with this."""
        for child in self.children(path):
            key = f"{path}/{child}" if path else child
            if not key.startswith(prefix) and not prefix.startswith(f"{key}/"):
                continue
            if self.size(key) is None:
                yield from self.keys(prefix, key)
            else:
                yield key


def _opened_again(target: str, options: dict[str, Any], state: tuple[Any, ...]) -> Contents:
    from quarry._dataset import Dataset
    return Contents(Dataset(target, options), _quarry.ZarrHierarchy.of_state(state))
