"""The store of zarr-python. Importing this imports zarr."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from quarry._dataset import Dataset, open
from quarry._zarr_contents import Contents

# Keys of a listing that are made at a time, on another thread.
_LISTED_AT_ONCE = 1000


class ZarrStore(Store):
    """A dataset as a store: see `quarry.zarr_store`. Thread-safe.

    Reads run on threads, never in the event loop. Stores of the same target, options and steps are equal.
    """

    supports_writes: bool = False
    supports_deletes: bool = False
    supports_listing: bool = True

    def __init__(self, target: str | os.PathLike[str] | Dataset, *, float32: bool = False,
                 fields: Sequence[str] | None = None, layer: int | None = None, read_only: bool = True,
                 **options: Any) -> None:
        if not read_only:
            raise ValueError(f"a Quarry dataset is read-only here, so read_only={read_only} cannot be")
        super().__init__(read_only=True)
        if isinstance(target, Dataset) and options:
            raise TypeError(f"{', '.join(options)}: options of quarry.open, but the dataset is open already")
        self._owns_dataset = not isinstance(target, Dataset)
        dataset = target if isinstance(target, Dataset) else open(target, **options)
        try:
            self._contents = Contents.of(dataset, fields, float32, layer)
        except BaseException:
            if self._owns_dataset:
                dataset.close()
            raise

    @classmethod
    def _of(cls, contents: Contents) -> ZarrStore:
        """A store in another process."""
        store = cls.__new__(cls)
        Store.__init__(store, read_only=True)
        store._owns_dataset, store._contents = True, contents
        return store

    def __reduce__(self) -> tuple[Callable[[Contents], ZarrStore], tuple[Contents]]:
        return self._of, (self._contents,)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZarrStore):
            return NotImplemented
        return self._contents.__reduce__() == other._contents.__reduce__()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"quarry:{self._contents.dataset.target}"

    def __repr__(self) -> str:
        return f"<quarry.ZarrStore \"{self._contents.dataset.target}\">"

    def close(self) -> None:
        """Closes the dataset too, if the store has opened it. Reading chunks is an Error from then on."""
        super().close()
        if self._owns_dataset:
            self._contents.dataset.close()

    def with_read_only(self, read_only: bool = False) -> Store:
        """The store itself: nothing makes it writable."""
        return self if read_only else super().with_read_only(read_only)

    # ---- Reading

    async def get(self, key: str, prototype: BufferPrototype | None = None,
                  byte_range: ByteRequest | None = None) -> Buffer | None:
        """The value of a key, or a part of it; None where there is no such key.

        Raises:
            Error: the samples of a chunk cannot be had: damage (DATA_LOSS), or the server's errors
        """
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    def get_sync(self, key: str, *, prototype: BufferPrototype | None = None,
                 byte_range: ByteRequest | None = None) -> Buffer | None:
        """`get`, on this thread."""
        self._is_open = True
        value = self._contents.get(key)
        if value is None:
            return None
        part = _slice(byte_range, len(value))
        return (prototype or default_buffer_prototype()).buffer.from_bytes(value[part])

    async def get_partial_values(self, prototype: BufferPrototype,
                                 key_ranges: Iterable[tuple[str, ByteRequest | None]]) -> list[Buffer | None]:
        """`get` of each."""
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    async def exists(self, key: str) -> bool:
        """Whether there is such a key. Reads no samples."""
        return self._contents.size(key) is not None

    async def getsize(self, key: str) -> int:
        """[bytes] Of its value. Reads no samples."""
        size = self._contents.size(key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    # ---- Listing

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in _listed(self._contents.keys()):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """The keys that begin with this."""
        async for key in _listed(self._contents.keys(prefix)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a folder of keys."""
        async for name in _listed(self._contents.children(prefix.strip("/"))):
            yield name

    # ---- Writing

    def _check_writable(self) -> None:
        raise ValueError("this store was opened in read-only mode and does not support writing: "
                         f"\"{self._contents.dataset.target}\" is a Quarry dataset, which quarry-write makes")

    async def set(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._check_writable()

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refused."""
        self._check_writable()

    async def delete_dir(self, prefix: str) -> None:
        """Refused."""
        self._check_writable()

    async def clear(self) -> None:
        """Refused."""
        self._check_writable()


def _slice(byte_range: ByteRequest | None, size: int) -> slice:
    """Slice of a value of so many bytes."""
    if byte_range is None:
        return slice(0, size)
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, size)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(max(size - byte_range.suffix, 0), size)
    raise ValueError(f"Unexpected byte_range, got {byte_range!r}.")


async def _listed(names: Iterator[str]) -> AsyncIterator[str]:
    """The names, which may be millions, without holding up the event loop."""
    def some() -> list[str]:
        return [name for _, name in zip(range(_LISTED_AT_ONCE), names, strict=False)]

    while found := await asyncio.to_thread(some):
        for name in found:
            yield name
