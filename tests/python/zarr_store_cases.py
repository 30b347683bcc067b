"""The cases of zarr's own tests of stores that make sense for one that is read-only. test_zarr.py runs them by pytest.

  QUARRY_ZARR_TARGET  the dataset
"""

import os
import pickle
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from python_testing import quarry  # noqa: E402

import pytest  # noqa: E402
from zarr.abc.store import RangeByteRequest, SuffixByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.core.sync import _collect_aiterator  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

ZarrStore = type(quarry.zarr_store(os.environ["QUARRY_ZARR_TARGET"]))
REFUSED = "does not support writing"


class Overlaid:
    """The contents of a store, with values that a test has put there."""

    def __init__(self, contents):
        self.contents, self.added = contents, {}

    def __getattr__(self, name):
        return getattr(self.contents, name)

    def get(self, key):
        return memoryview(self.added[key]) if key in self.added else self.contents.get(key)

    def size(self, key):
        return len(self.added[key]) if key in self.added else self.contents.size(key)


class TestZarrStore(StoreTests[ZarrStore, cpu.Buffer]):
    """Tests that this class does not mention are zarr's, unchanged."""

    store_cls = ZarrStore
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        # As zarr wants it, this bypasses the methods of the store.
        if not isinstance(store._contents, Overlaid):
            store._contents = Overlaid(store._contents)
        store._contents.added[key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store._contents.get(key))

    @pytest.fixture
    def store_kwargs(self):
        return {"target": os.environ["QUARRY_ZARR_TARGET"]}

    def test_store_repr(self, store):
        assert os.environ["QUARRY_ZARR_TARGET"] in repr(store)

    def test_store_supports_writes(self, store):
        assert not store.supports_writes and not store.supports_deletes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    # ---- Cases that would write, or begin with an empty store

    def test_store_read_only(self, store):
        assert store.read_only
        with pytest.raises(AttributeError):
            store.read_only = False

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_store_open_read_only(self, open_kwargs, read_only):
        if read_only:
            assert (await self.store_cls.open(**open_kwargs, read_only=True)).read_only
        else:
            with pytest.raises(ValueError, match="read_only=False"):
                await self.store_cls.open(**open_kwargs, read_only=False)

    async def test_serializable_store(self, store):
        again = pickle.loads(pickle.dumps(store))
        assert again == store and again.read_only
        for key in ("zarr.json", "0/p/c/1/0/1/0"):
            assert (await again.get(key)).to_bytes() == (await store.get(key)).to_bytes()

    async def test_get_chunk_ranges(self, store):
        whole = (await store.get("1/p/c/0/0/0/0")).to_bytes()
        prototype = default_buffer_prototype()
        parts = await store.get_partial_values(prototype, [("1/p/c/0/0/0/0", RangeByteRequest(8, 99)),
                                                           ("1/p/c/0/0/0/0", SuffixByteRequest(len(whole) + 99)),
                                                           ("1/p/c/0/0/0/0", RangeByteRequest(len(whole) - 3, 10 ** 9)),
                                                           ("1/p/c/9/0/0/0", None)])
        assert [part and part.to_bytes() for part in parts] == [whole[8:99], whole, whole[-3:], None]

    async def _refused(self, write):
        with pytest.raises(ValueError, match=REFUSED):
            await write

    @pytest.mark.parametrize("key", ["zarr.json", "0/p/c/0/0/0/0", "new"])
    async def test_set(self, store, key):
        await self._refused(store.set(key, self.buffer_cls.from_bytes(b"bar")))
        await self._refused(store.delete(key))

    async def test_set_not_open(self, store_not_open):
        await self._refused(store_not_open.set("zarr.json", self.buffer_cls.from_bytes(b"bar")))

    async def test_set_many(self, store):
        await self._refused(store._set_many([("new", self.buffer_cls.from_bytes(b"bar"))]))

    async def test_set_if_not_exists(self, store):
        await self._refused(store.set_if_not_exists("zarr.json", self.buffer_cls.from_bytes(b"bar")))
        await self._refused(store.set_if_not_exists("new", self.buffer_cls.from_bytes(b"bar")))

    async def test_clear(self, store):
        await self._refused(store.clear())
        await self._refused(store.delete_dir("0"))
        assert not await store.is_empty("")

    async def test_exists(self, store):
        for key in ("zarr.json", "0/zarr.json", "0/p/zarr.json", "0/p/c/2/1/2/2", "0/z/c/0"):
            assert await store.exists(key)
        for key in ("", "0", "0/p", "0/p/c", "0/p/c/", "0/p/c/0/0/0", "0/p/c/0/0/0/0/0", "0/p/c/3/0/0/0", "0/p/c/0/0/0/3",
                    "0/p/c/0/0/0/00", "0/p/c/0/0/0/-1", "0/p/c/0/0/0/+0", "0/p/c/0/0/0/" + "9" * 5000, "0/p/c/0/0/0/\u0661",
                    "9/p/zarr.json", "../zarr.json", "0/../zarr.json", "/zarr.json", "0/q/c/0/0/0/0", "zarr.json/"):
            assert not await store.exists(key), key
            assert await store.get(key) is None, key

    async def test_is_empty(self, store):
        for prefix in ("", "0", "0/", "0/p", "0/p/c/1"):
            assert not await store.is_empty(prefix), prefix
        for prefix in ("spam", "0/q", "0/p/c/3", "0/p/zarr"):
            assert await store.is_empty(prefix), prefix

    async def test_list(self, store):
        keys = await _collect_aiterator(store.list())
        assert len(keys) == len(set(keys))
        # 3 steps of 2 x 3 x 3 patches.
        assert sum(key.startswith("0/p/c/") for key in keys) == 3 * 2 * 3 * 3
        for key in keys:
            assert await store.exists(key), key

    async def test_list_prefix(self, store):
        keys = await _collect_aiterator(store.list())
        for prefix in ("", "0", "0/", "0/p", "0/p/c/1", "0/p/c/1/", "1/m/c/0/0/0/", "0/p/zarr.json", "zarr", "x", "0/p/c/3/"):
            found = await _collect_aiterator(store.list_prefix(prefix))
            assert sorted(found) == sorted(key for key in keys if key.startswith(prefix)), prefix

    async def test_list_empty_path(self, store):
        assert await _collect_aiterator(store.list()) == await _collect_aiterator(store.list_prefix(""))

    async def test_list_dir(self, store):
        keys = await _collect_aiterator(store.list())
        folders = {"/".join(key.split("/")[:depth]) for key in keys for depth in range(key.count("/") + 1)}
        for folder in folders:
            below = f"{folder}/" if folder else ""
            names = {key.removeprefix(below).split("/")[0] for key in keys if key.startswith(below)}
            for spelled in (folder, below):
                assert sorted(await _collect_aiterator(store.list_dir(spelled))) == sorted(names), spelled
        for nothing in ("spam", "0/q", "0/p/d", "0/p/c/3", "0/p/c/0/0/0/0", "0/p/c/0/0/0/0/0", "zarr.json"):
            assert await _collect_aiterator(store.list_dir(nothing)) == (), nothing

    async def test_getsize_prefix(self, store):
        keys = [key for key in await _collect_aiterator(store.list()) if key.startswith("2/k/c/")]
        sizes = [len((await store.get(key)).to_bytes()) for key in keys]
        assert await store.getsize_prefix("2/k/c") == sum(sizes)
