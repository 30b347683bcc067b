"""NumPy's files: an array (.npy), or several in an archive (.npz)."""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from quarry._export_contents import Layout
from quarry._export_output import Contiguous, RawFile, describe, sync

_DESCRIPTION = "quarry.json"
_BLOCK = 1 << 20
_LOCAL_BYTES, _CENTRAL_BYTES = 30, 46
"""Of a zip archive's headers, before the name of the member."""


def _header(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue()


class Npy(Contiguous):
    """NumPy's format for one array; metadata that it cannot hold are in PATH.json."""

    of_one = True

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        if len(layout.variables) != 1:
            raise ValueError(f"a .npy file holds one field, and these are {len(layout.variables)}; give "
                             "fields=[NAME], or export to .npz")

    @property
    def finals(self) -> list[Path]:
        return [self.path, self.path.with_name(self.path.name + ".json")]

    def _header(self) -> bytes:
        (variable,) = self.layout.variables
        return _header(self.layout.shape_of(variable), variable.dtype)

    def lay_out(self) -> None:
        header = self._header()
        samples, description = self.parts
        with contextlib.closing(RawFile(samples, new=True)) as file:
            file.write(header, 0)
            file.resize(len(header) + self.sizes[0])
        description.write_text(describe(self.layout) + "\n")

    def origins(self) -> list[int]:
        return [len(self._header())]


class Npz(Contiguous):
    """NumPy's archive: each field and coordinate is an array, and what these have no place for is in quarry.json. Not
    compressed, so that samples lie at known places."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._only_described = [text.name for text in self.layout.texts if text.values.dtype.kind == "O"]
        self.warnings += [f"the texts of {name!r} are in {_DESCRIPTION} alone: numpy's type of text gives each the "
                          "room of the longest, and drops zeros at the end" for name in self._only_described]

    def lay_out(self) -> None:
        with zipfile.ZipFile(self.parts[0], "w") as archive:
            for variable in self.layout.variables:
                with archive.open(zipfile.ZipInfo(f"{variable.name}.npy"), "w", force_zip64=True) as member:
                    shape = self.layout.shape_of(variable)
                    member.write(_header(shape, variable.dtype))
                    left = math.prod(shape) * variable.dtype.itemsize
                    while left:
                        left -= member.write(bytes(min(left, _BLOCK)))
            for coordinate in self.layout.coordinates():
                if coordinate.name not in self._only_described:
                    with archive.open(zipfile.ZipInfo(f"{coordinate.name}.npy"), "w") as member:
                        np.lib.format.write_array(member, coordinate.values, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(_DESCRIPTION), describe(self.layout) + "\n")

    def origins(self) -> list[int]:
        with zipfile.ZipFile(self.parts[0]) as archive, self.parts[0].open("rb") as file:
            return [_begin(file, archive.getinfo(f"{variable.name}.npy"))
                    + len(_header(self.layout.shape_of(variable), variable.dtype))
                    for variable in self.layout.variables]

    def finish(self) -> None:
        """The archive has a checksum of each member, twice."""
        if not self.parts[0].exists():
            return
        with zipfile.ZipFile(self.parts[0]) as archive, self.parts[0].open("r+b") as file:
            place = archive.start_dir
            for member in archive.infolist():
                checksum = _checksum(file, member).to_bytes(4, "little")
                for at in (member.header_offset + 14, place + 16):
                    file.seek(at)
                    file.write(checksum)
                place += _CENTRAL_BYTES + sum(_lengths(file, place + 28, 3))
        sync(self.parts[0])


def _lengths(file: BinaryIO, at: int, count: int) -> list[int]:
    """Lengths of a name and of the field behind it."""
    file.seek(at)
    data = file.read(2 * count)
    return [int.from_bytes(data[2 * i:2 * i + 2], "little") for i in range(count)]


def _begin(file: BinaryIO, member: zipfile.ZipInfo) -> int:
    """The first byte of a member that is stored."""
    return member.header_offset + _LOCAL_BYTES + sum(_lengths(file, member.header_offset + 26, 2))


def _checksum(file: BinaryIO, member: zipfile.ZipInfo) -> int:
    file.seek(_begin(file, member))
    checksum, left = 0, member.file_size
    while left:
        block = file.read(min(left, _BLOCK))
        if not block:
            raise OSError(f"{member.filename} ends {left} bytes early")
        checksum, left = zlib.crc32(block, checksum), left - len(block)
    return checksum
