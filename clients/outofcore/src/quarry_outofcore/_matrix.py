"""Symmetric sparse matrices in blocks on disk."""

from __future__ import annotations

import functools
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quarry._errors import Error
from quarry._export_output import sync
from quarry_outofcore._blocks import memory_of_its_own
from quarry_outofcore._order import Task

if TYPE_CHECKING:
    from quarry_outofcore._engine import Vectors

_FORMAT, _VERSION = "quarry-blocked-matrix", 1
_TYPES = ("<f4", "<f8")
_LARGEST = 2**31 - 1  # rows of a block, and entries: indices have 32 bits


class BlockedMatrix:
    """A symmetric sparse matrix in a folder: its upper triangle, in square blocks, each a file that is read as a whole.

    The files never change: `write` makes the whole folder at once. A matrix that is larger than memory is written block
    by block, with `write_blocks`. Pickles as its path.
    """

    def __init__(self, folder: str | os.PathLike[str], *, page_cache: bool = True) -> None:
        """Opens a folder; reads no blocks.

        Args:
            page_cache: False tells the system to drop what was read, so that only our own memory holds blocks

        Raises:
            Error: nothing there (NOT_FOUND), or it is no such folder, or damaged (DATA_LOSS)
        """
        self.folder = Path(folder)
        self._page_cache = page_cache
        said = _manifest(self.folder)
        try:
            self.rows = int(said["rows"])
            """As many columns."""
            self.block = int(said["block"])
            """Rows and columns of a block; fewer at the end."""
            self.dtype = np.dtype({name: name for name in _TYPES}[said["type"]])
            """Of the entries: float32 or float64."""
            self._entries = {(int(one["row"]), int(one["column"])): (int(one["entries"]), int(one["crc32"]))
                             for one in said["blocks"]}
            self._check_manifest()
            self._diagonal_crc = int(said["diagonal_crc32"])
        except (KeyError, TypeError, ValueError) as error:
            raise Error("DATA_LOSS", f'"{self.folder}/matrix.json" does not describe a blocked matrix: {error}; write '
                        "the matrix again") from None
        self.tasks: Sequence[Task] = [
            Task(_name(i, j), (str(i),) if i == j else (str(i), str(j)))
            for i, j in sorted(self._entries, key=lambda place: (place[1], place[0]))]
        """Of a product with a block of vectors, column by column."""
        self.sizes: Mapping[str, int] = {_name(i, j): self._bytes(i, count)
                                         for (i, j), (count, _) in self._entries.items()}
        """[bytes] of every block, in memory as in its file."""

    def _check_manifest(self) -> None:
        if not (0 < self.rows < 2**62 and 0 < self.block <= _LARGEST):
            raise ValueError(f"{self.rows} rows in blocks of {self.block}")
        for (i, j), (count, _) in self._entries.items():
            if not (0 <= i <= j < self.parts and 0 < count <= min(_LARGEST, self._length(i) * self._length(j))):
                raise ValueError(f"block {i},{j} with {count} entries, of {self.parts} block rows")

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, page_cache: bool = True) -> BlockedMatrix:
        """Opens a folder; arguments and errors are those of the class."""
        return cls(folder, page_cache=page_cache)

    def __reduce__(self) -> tuple[Callable[..., BlockedMatrix], tuple[str]]:
        return functools.partial(BlockedMatrix, page_cache=self._page_cache), (str(self.folder),)

    def __repr__(self) -> str:
        return (f'<quarry_outofcore.BlockedMatrix "{self.folder}": {self.rows} x {self.rows}, {len(self._entries)} '
                f"blocks of {self.block}, {self.nbytes} bytes>")

    @property
    def parts(self) -> int:
        """How many blocks there are along an axis."""
        return -(-self.rows // self.block)

    @property
    def nbytes(self) -> int:
        """[bytes] of all blocks."""
        return sum(self.sizes.values())

    def _length(self, part: int) -> int:
        return min(self.block, self.rows - part * self.block)

    def _bytes(self, i: int, entries: int) -> int:
        return 4 * (self._length(i) + 1) + (4 + self.dtype.itemsize) * entries

    # ---- Writing

    @classmethod
    def write(cls, folder: str | os.PathLike[str], matrix: Any, *, block: int) -> BlockedMatrix:
        """Writes a matrix that is in memory.

        Args:
            folder: is made; nothing may be there
            matrix: of scipy.sparse, symmetric
            block: rows and columns of a block

        Raises:
            ValueError: the matrix is not square, not symmetric, or has values that are not finite
            Error: the folder exists (ALREADY_EXISTS)
        """
        matrix = matrix.tocsr()
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}; it has to be symmetric")
        different = abs(matrix - matrix.T)
        if different.nnz and different.max() > 0:
            raise ValueError(f"the matrix is not symmetric: it differs from its transpose by up to {different.max()}")

        def cut(i: int, j: int) -> Any:
            return matrix[i * block:(i + 1) * block, j * block:(j + 1) * block]

        return cls.write_blocks(folder, matrix.shape[0], block, cut,
                                dtype=np.float32 if matrix.dtype == np.float32 else np.float64)

    @classmethod
    def write_blocks(cls, folder: str | os.PathLike[str], rows: int, block: int, make: Callable[[int, int], Any], *,
                     dtype: npt.DTypeLike = np.float64) -> BlockedMatrix:
        """Writes a matrix block by block. The folder appears when it is complete.

        Args:
            folder: is made; nothing may be there
            rows: of the matrix, and columns
            block: rows and columns of a block; fewer at the end
            make: gives block (i, j) of the upper triangle, i <= j, as scipy.sparse has it, or None for zeros. Those of
                the diagonal have both of their triangles
            dtype: float32 or float64

        Raises:
            ValueError: a block of another shape, not symmetric on the diagonal, or with values that are not finite
            Error: the folder exists (ALREADY_EXISTS)
        """
        target, stored = Path(folder), np.dtype(dtype).newbyteorder("<")
        if stored.str not in _TYPES:
            raise ValueError(f"dtype {np.dtype(dtype)} is none of float32 and float64")
        if rows < 1 or not 1 <= block <= _LARGEST:
            raise ValueError(f"rows={rows}, block={block}: both have to be at least 1")
        if target.exists():
            raise Error("ALREADY_EXISTS", f'"{target}" exists; remove it, or choose another folder')
        staging = target.parent / f".{target.name}.{os.getpid()}.partial"
        staging.mkdir(parents=True)
        try:
            _write_all(staging, rows, block, make, stored)
            os.rename(staging, target)
            sync(target.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return cls(target)

    # ---- Reading

    def load(self, block: str) -> Any:
        """Reads a block, and checks it.

        Raises:
            Error: it is damaged, or gone (DATA_LOSS)
        """
        i, j = map(int, block.split("-"))
        entries, crc = self._entries[i, j]
        rows, path = self._length(i), self.folder / f"{block}.blk"
        data = self._checked_bytes(path, self._bytes(i, entries), crc)
        ends = 4 * (rows + 1)
        pointers = np.frombuffer(data, "<i4", rows + 1)
        columns = np.frombuffer(data, "<i4", entries, ends)
        # Products take them as they are, without a look at bounds.
        if (pointers[0] != 0 or pointers[-1] != entries or (np.diff(pointers) < 0).any()
                or columns.min() < 0 or columns.max() >= self._length(j)):
            raise Error("DATA_LOSS", f'"{path}" has entries outside of its block; write the matrix again')
        return _sparse().csr_array((np.frombuffer(data, self.dtype, entries, ends + 4 * entries), columns, pointers),
                                   shape=(rows, self._length(j)), copy=False)

    def _checked_bytes(self, path: Path, size: int, crc: int) -> mmap.mmap:
        data = memory_of_its_own(size)
        try:
            with open(path, "rb") as file:
                length = os.fstat(file.fileno()).st_size
                file.readinto(memoryview(data)[:size])
                if not self._page_cache:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except FileNotFoundError:
            raise Error("DATA_LOSS", f'"{path}" is missing; write the matrix again') from None
        if length != size:
            raise Error("DATA_LOSS", f'"{path}" has {length} bytes instead of {size}; write the matrix again')
        if (computed := zlib.crc32(data)) != crc:
            raise Error("DATA_LOSS", f'"{path}" is damaged: checksum {crc:08x} stored, {computed:08x} computed; write '
                        "the matrix again")
        return data

    def diagonal(self) -> npt.NDArray[np.float64]:
        """The entries on the diagonal, which are stored a second time."""
        data = self._checked_bytes(self.folder / "diagonal.bin", 8 * self.rows, self._diagonal_crc)
        return np.frombuffer(data, "<f8")

    # ---- As a problem of the engine

    working = 2**20
    """[bytes] Beside blocks and vectors."""

    def compute(self, kind: str, task: Task, block: Any, vectors: Vectors) -> Iterator[tuple[str, Any]]:
        """Contribution of a block to the product with vectors: to its rows, and, in place of its mirror image, to its
        columns."""
        yield task.parts[0], block @ vectors[task.parts[-1]]
        if len(task.parts) == 2:
            yield task.parts[1], block.T @ vectors[task.parts[0]]

    def close(self) -> None:
        """Nothing is open."""

    def split(self, vectors: npt.NDArray[np.float64]) -> Vectors:
        """Vectors as parts, which are views."""
        return {str(part): vectors[part * self.block:(part + 1) * self.block] for part in range(self.parts)}


def _name(i: int, j: int) -> str:
    return f"{i}-{j}"


def _sparse() -> Any:
    try:
        import scipy.sparse
    except ImportError:
        raise ImportError("sparse matrices need scipy: pip install scipy") from None
    return scipy.sparse


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "matrix.json"
    try:
        outer = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Error("NOT_FOUND", f'"{folder}" holds no blocked matrix: there is no matrix.json') from None
    except (ValueError, RecursionError) as error:
        raise Error("DATA_LOSS", f'"{path}" is damaged: {error}; write the matrix again') from None
    if not isinstance(outer, dict) or outer.get("format") != _FORMAT:
        raise Error("DATA_LOSS", f'"{path}" does not describe a blocked matrix')
    if outer.get("version") != _VERSION:
        raise Error("UNIMPLEMENTED", f'"{path}" has version {outer.get("version")}; this program reads {_VERSION}')
    text = json.dumps(outer.get("matrix"), sort_keys=True).encode()
    if outer.get("crc32") != zlib.crc32(text):
        raise Error("DATA_LOSS", f'"{path}" is damaged: its checksum is another one; write the matrix again')
    said = outer["matrix"]
    if not isinstance(said, dict):
        raise Error("DATA_LOSS", f'"{path}" does not describe a blocked matrix')
    return said


def _write_all(folder: Path, rows: int, block: int, make: Callable[[int, int], Any], stored: np.dtype[Any]) -> None:
    parts = -(-rows // block)
    diagonal = np.zeros(rows, "<f8")
    blocks = []
    for j in range(parts):
        for i in range(j + 1):
            made = make(i, j)
            shape = (min(block, rows - i * block), min(block, rows - j * block))
            if made is None or not made.nnz:
                continue
            csr = _checked(made, shape, (i, j))
            if i == j:
                diagonal[i * block:i * block + shape[0]] = csr.diagonal()
            crc = _write_file(folder / f"{_name(i, j)}.blk", csr.indptr.astype("<i4"), csr.indices.astype("<i4"),
                              csr.data.astype(stored))
            blocks.append({"row": i, "column": j, "entries": int(csr.nnz), "crc32": crc})
    said = {"rows": rows, "block": block, "type": stored.str, "blocks": blocks,
            "diagonal_crc32": _write_file(folder / "diagonal.bin", diagonal)}
    outer = {"format": _FORMAT, "version": _VERSION, "crc32": zlib.crc32(json.dumps(said, sort_keys=True).encode()),
             "matrix": said}
    _write_file(folder / "matrix.json", json.dumps(outer, indent=1).encode())
    sync(folder)


def _checked(made: Any, shape: tuple[int, int], place: tuple[int, int]) -> Any:
    csr = _sparse().csr_array(made)
    csr.sum_duplicates()
    if csr.shape != shape:
        raise ValueError(f"block {place} is {csr.shape[0]} x {csr.shape[1]}; it has to be {shape[0]} x {shape[1]}")
    if not np.isfinite(csr.data).all():
        raise ValueError(f"block {place} has values that are not finite")
    if csr.nnz > _LARGEST:
        raise ValueError(f"block {place} has {csr.nnz} entries; a block has at most {_LARGEST}: choose a smaller one")
    if place[0] == place[1] and abs(csr - csr.T).max() > 0:
        raise ValueError(f"block {place} lies on the diagonal and is not symmetric")
    return csr


def _write_file(path: Path, *pieces: Any) -> int:
    """Writes bytes and arrays one behind the other, to the disk; their checksum."""
    crc = 0
    with open(path, "wb") as file:
        for piece in pieces:
            data = memoryview(piece).cast("B")
            file.write(data)
            crc = zlib.crc32(data, crc)
    sync(path)
    return crc
