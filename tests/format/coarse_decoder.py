"""Reader of coarse objects, written from docs/format.md alone: which bytes of which files they have."""

import struct

from catalogue_decoder import require

BEGIN, LIMIT, MOST_FILES, MOST_PATH = 16, 4 << 20, 4096, 255


def read_coarse(path, checksum):
    """{path: (size, table checksum, front, back)} of the files. checksum: XXH3 of bytes."""
    data = path.read_bytes()
    require(BEGIN + 8 <= len(data) <= LIMIT, "size of a coarse object")
    covered = data[:-8]
    require(checksum(covered) == struct.unpack("<Q", data[-8:])[0], "checksum of a coarse object")
    magic, major, _, count = struct.unpack("<8sHHI", covered[:BEGIN])
    require(magic == b"\x89QSO\r\n\x1a\n" and major == 4 and count <= MOST_FILES, "begin of a coarse object")
    listed, at = [], BEGIN
    for _ in range(count):
        size, table, front, back, length = struct.unpack("<4QH", covered[at:at + 34])
        name = covered[at + 34:at + 34 + length].decode("ascii")
        require(len(name) == length <= MOST_PATH and front + back <= size, "a file of a coarse object")
        listed.append((name, size, table, front, back))
        at += 34 + length
    names = [name for name, *_ in listed]
    require(names == sorted(set(names)), "order of the files of a coarse object")
    files = {}
    for name, size, table, front, back in listed:
        require(at + front + back <= len(covered), "bytes of a coarse object")
        files[name] = size, table, covered[at:at + front], covered[at + front:at + front + back]
        at += front + back
    require(at == len(covered), "end of a coarse object")
    return files
