"""The worked example of docs/format.md, and a proof that the specification is enough to write a reader.

Writes a tiny dataset with quarry-write, reads it with the small reader in this file, which is written from docs/format.md
alone, and compares the annotated dump of its subfile with the one in the document. It also checks every checksum, every
decoded sample against its source, every recorded error, and the answers of `quarry get`. Then it reads the same example in
versions 1 and 3 of the format, as the last of several grids, and the files of masks. Standard library only. It knows all of the
coder except zfp, which the example does not need, and all of masks except their payload.

Usage: worked_example.py            exit code 0, or 1 and the difference
       worked_example.py --update   writes the dump into docs/format.md
Environment: QUARRY_BIN, the directory of the executables; default: build/release/bin
"""

import difflib
import itertools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("QUARRY_BIN") or REPOSITORY / "build" / "release" / "bin").resolve()
DOCUMENT = REPOSITORY / "docs" / "format.md"
OLDER_VERSIONS = [Path(__file__).resolve().parent / "example" / version / "example.quarry" for version in ("v1", "v3")]
MARKERS = {name: (f"<!-- {name} example begin -->", f"<!-- {name} example end -->") for name in ("worked", "blocks")}

# The example: three patches of 4x4x1 on a grid of 9x3x1. The first is constant, the second is coded as a wavelet, and
# the third has values so large that no float32 wavelet holds the tolerance, so that its samples are stored as they are.
DIMS = (9, 3, 1)
TOLERANCE = 1e-6
ROWS = (
    (2.5, 2.5, 2.5, 2.5, 0.1, 0.7, -0.4, 1.3, 3e7),
    (2.5, 2.5, 2.5, 2.5, 0.9, -1.2, 0.3, 0.6, -1e10),
    (2.5, 2.5, 2.5, 2.5, -0.8, 0.2, 1.1, -0.5, 7.0),
)


def require(condition, text):
    if not condition:
        raise SystemExit(f"worked_example: {text}")


# --- XXH3, 64 bits, seed 0: docs/format.md, "Checksums" ---------------------------------------------------------------

MASK = 2**64 - 1
PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def read32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def read64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def rotate(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def fold(a, b):
    """Both halves of the product of 128 bits, combined."""
    return (a * b & MASK) ^ (a * b >> 64)


def avalanche(h):
    h = (h ^ h >> 37) * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def avalanche_xxh64(h):
    h = (h ^ h >> 33) * PRIME64[1] & MASK
    h = (h ^ h >> 29) * PRIME64[2] & MASK
    return h ^ h >> 32


def mix16(data, at, secret_at):
    return fold(read64(data, at) ^ read64(SECRET, secret_at), read64(data, at + 8) ^ read64(SECRET, secret_at + 8))


def xxh3_up_to_16(data):
    n = len(data)
    if n > 8:
        low = read64(data, 0) ^ read64(SECRET, 24) ^ read64(SECRET, 32)
        high = read64(data, n - 8) ^ read64(SECRET, 40) ^ read64(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche((n + swapped + high + fold(low, high)) & MASK)
    if n >= 4:
        h = (read32(data, n - 4) + (read32(data, 0) << 32)) ^ read64(SECRET, 8) ^ read64(SECRET, 16)
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * 0x9FB21C651E98DF25 & MASK
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if n > 0:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_xxh64(combined ^ read32(SECRET, 0) ^ read32(SECRET, 4))
    return avalanche_xxh64(read64(SECRET, 56) ^ read64(SECRET, 64))


def xxh3_up_to_240(data):
    n = len(data)
    h = n * PRIME64[0]
    if n <= 128:
        for pair in reversed(range((n - 1) // 32 + 1)):
            h += mix16(data, 16 * pair, 32 * pair) + mix16(data, n - 16 * (pair + 1), 32 * pair + 16)
        return avalanche(h & MASK)
    h = avalanche((h + sum(mix16(data, 16 * i, 16 * i) for i in range(8))) & MASK)
    h += sum(mix16(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
    return avalanche((h + mix16(data, n - 16, 136 - 17)) & MASK)


def xxh3_long(data):
    lanes = [PRIME32[2], *PRIME64[0:4], PRIME32[1], PRIME64[4], PRIME32[0]]

    def accumulate(at, secret_at):
        for i in range(8):
            value = read64(data, at + 8 * i)
            key = value ^ read64(SECRET, secret_at + 8 * i)
            lanes[i ^ 1] = (lanes[i ^ 1] + value) & MASK
            lanes[i] = (lanes[i] + (key & 0xFFFFFFFF) * (key >> 32)) & MASK

    stripes = (len(SECRET) - 64) // 8  # stripes of 64 bytes in a block
    last = (len(data) - 1) // 64
    for stripe in range(last):
        accumulate(64 * stripe, 8 * (stripe % stripes))
        if stripe % stripes == stripes - 1:
            for i in range(8):
                mixed = lanes[i] ^ lanes[i] >> 47 ^ read64(SECRET, len(SECRET) - 64 + 8 * i)
                lanes[i] = mixed * PRIME32[0] & MASK
    accumulate(len(data) - 64, len(SECRET) - 64 - 7)
    h = len(data) * PRIME64[0]
    for i in range(0, 8, 2):
        h += fold(lanes[i] ^ read64(SECRET, 11 + 8 * i), lanes[i + 1] ^ read64(SECRET, 11 + 8 * (i + 1)))
    return avalanche(h & MASK)


def xxh3(data):
    if len(data) <= 16:
        return xxh3_up_to_16(data)
    return xxh3_up_to_240(data) if len(data) <= 240 else xxh3_long(data)


# --- geometry: docs/format.md, "Coordinates" --------------------------------------------------------------------------


def ceil_divide(a, b):
    return -(-a // b)


def volume(shape):
    return shape[0] * shape[1] * shape[2]


def level_shape(shape, level):
    return tuple(ceil_divide(n, 2**level) for n in shape)


def morton(position):
    return sum((position[axis] >> bit & 1) << (3 * bit + axis) for bit in range(21) for axis in range(3))


def patch_position(index, patches):
    return index % patches[0], index // patches[0] % patches[1], index // patches[0] // patches[1]


def patch_box(index, dims, patch):
    patches = tuple(ceil_divide(n, p) for n, p in zip(dims, patch))
    begin = tuple(i * p for i, p in zip(patch_position(index, patches), patch))
    return begin, tuple(min(b + p, n) for b, p, n in zip(begin, patch, dims))


# --- wavelet: docs/format.md, "Wavelet". Every operation is rounded to float32, in the order that is written there ----


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def inverse_line(evens, odds, rounded=f32):
    count = len(odds)
    if count == 0:
        return list(evens)
    even = []
    for i, s in enumerate(evens):
        before = odds[i - 1] if i > 0 else odds[i]
        after = odds[i] if i < count else odds[i - 1]
        even.append(rounded(s - rounded(0.25 * rounded(before + after))))
    line = []
    for i, e in enumerate(even):
        line.append(e)
        if i == count:
            break
        if i + 1 < len(even):
            prediction = rounded(0.5 * rounded(e + even[i + 1]))
        elif i > 0:
            prediction = rounded(rounded(1.5 * e) - rounded(0.5 * even[i - 1]))
        else:
            prediction = e
        line.append(rounded(odds[i] + prediction))
    return line


def merge(coarse, details, shape):
    """The fine box, evens before odds along every axis, as {(x, y, z): sample}, from coarse box and detail slabs."""
    nx, ny, nz = shape
    ex, ey, ez = level_shape(shape, 1)
    samples = {}
    slabs = (((0, 0, 0), (ex, ey, ez), coarse),
             ((0, 0, ez), (nx, ny, nz - ez), details),
             ((0, ey, 0), (nx, ny - ey, ez), details[nx * ny * (nz - ez):]),
             ((ex, 0, 0), (nx - ex, ey, ez), details[nx * ny * (nz - ez) + nx * (ny - ey) * ez:]))
    for corner, (sx, sy, sz), values in slabs:
        for i in range(sx * sy * sz):
            samples[corner[0] + i % sx, corner[1] + i // sx % sy, corner[2] + i // sx // sy] = values[i]
    return samples


def refine(coarse, details, shape, transform, rounded=f32):
    """One level finer: the inverse transform, or where there is none the mere merging of evens and odds."""
    samples = merge(coarse, details, shape)
    for axis in range(3):  # x, then y, then z
        half = ceil_divide(shape[axis], 2)
        starts = [p for p in samples if p[axis] == 0]
        for start in starts:
            places = [start[:axis] + (i,) + start[axis + 1:] for i in range(shape[axis])]
            evens = [samples[p] for p in places[:half]]
            odds = [samples[p] for p in places[half:]]
            if transform:
                line = inverse_line(evens, odds, rounded)
            else:
                line = [(odds if i % 2 else evens)[i // 2] for i in range(shape[axis])]
            samples.update(zip(places, line))
    return [samples[i % shape[0], i // shape[0] % shape[1], i // shape[0] // shape[1]] for i in range(volume(shape))]


# --- payload: docs/format.md, "Payload of wavelet-zfp" ----------------------------------------------------------------

CONSTANT, WAVELET, VERBATIM = 0, 1, 2
ARRAY_ZFP, ARRAY_VERBATIM = 1, 2
MODE_NAMES = ("constant", "wavelet", "verbatim")


def unpack_samples(data, count):
    require(len(data) == 4 * count, f"{len(data)} bytes for {count} samples")
    return list(struct.unpack(f"<{count}f", data))


def unpack_arrays(data, count):
    if not data:
        return [0.0] * count
    require(data[0] == ARRAY_VERBATIM, "the example has an array that only zfp can decode; choose other samples")
    return unpack_samples(data[1:], count)


def decode_patch(shape, levels, payloads):
    """Samples of every level, finest first; `payloads` likewise."""
    coarsest = levels - 1
    mode = payloads[coarsest][0]
    body = payloads[coarsest][1:]
    count = volume(level_shape(shape, coarsest))
    decoded = [None] * levels
    if mode == CONSTANT:
        decoded[coarsest] = unpack_samples(body, 1) * count
    elif mode == VERBATIM:
        decoded[coarsest] = unpack_samples(body, count)
    else:
        require(mode == WAVELET and struct.unpack("<d", body[:8])[0] > 0, "mode of a patch")
        decoded[coarsest] = unpack_arrays(body[8:], count)
    for level in reversed(range(coarsest)):
        fine = level_shape(shape, level)
        missing = volume(fine) - len(decoded[level + 1])
        if mode == CONSTANT:
            require(not payloads[level], "a constant patch has finer levels")
            decoded[level] = [decoded[coarsest][0]] * volume(fine)
        else:
            unpack = unpack_samples if mode == VERBATIM else unpack_arrays
            details = unpack(payloads[level], missing)
            decoded[level] = refine(decoded[level + 1], details, fine, mode == WAVELET)
    return mode, decoded


def level_error(original, shape, decoded, level, rounded):
    """Largest difference and RMSE of a level, interpolated to full resolution: docs/format.md, "Error record"."""
    for finer in reversed(range(level)):
        fine = level_shape(shape, finer)
        decoded = refine(decoded, [0.0] * (volume(fine) - len(decoded)), fine, True, rounded)
    differences = [abs(a - b) for a, b in zip(original, decoded)]
    return max(differences), math.sqrt(sum(d * d for d in differences) / len(differences))


# --- subfile: docs/format.md, "Subfile" -------------------------------------------------------------------------------


class Dump:
    """Reads fields one after another and keeps a line for each."""

    def __init__(self, data):
        self.data = data
        self.lines = []

    def title(self, text):
        self.lines += ["", text] if self.lines else [text]

    def line(self, at, size, meaning):
        part = self.data[at:at + size]
        rows = [part[i:i + 8].hex(" ") for i in range(0, size, 8)]
        if size > 8 and not any(part):
            rows = [f"00, {size} times"]
        for i, row in enumerate(rows):
            self.lines.append(f"{at + 8 * i:5}  {row:<23}  {meaning if i == 0 else ''}".rstrip())

    def samples(self, at, values, shape):
        """Two float32 a line; `shape` is for the first line to tell."""
        for i in range(0, len(values), 2):
            pair = values[i:i + 2]
            told = f"  (a box of {'x'.join(map(str, shape))})" if shape and i == 0 else ""
            self.line(at + 4 * i, 4 * len(pair), ", ".join(f"{value:.7g}" for value in pair) + told)

    def number(self, at, form, meaning, show="{}"):
        size = struct.calcsize("<" + form)
        value = struct.unpack_from("<" + form, self.data, at)[0]
        self.line(at, size, f"{meaning}: {show.format(value)}")
        return value

    def varint(self, at, meaning):
        """The number, and the place behind it."""
        end = at + 1
        while self.data[end - 1] >= 128:
            end += 1
        value = sum((byte & 127) << 7 * i for i, byte in enumerate(self.data[at:end]))
        self.line(at, end - at, f"{meaning}: {value}")
        return value, end

    def leading(self, at, size, form, meaning, *, rotated, show="{}"):
        """A number by its leading bytes, and the place behind them."""
        whole = struct.calcsize(form)
        require(size <= whole, f"width of {meaning}")
        bits = int.from_bytes(self.data[at:at + size].ljust(whole, b"\0"), "big")
        if rotated:
            bits = bits >> 1 | (bits & 1) << 8 * whole - 1
        value = struct.unpack(">" + form, bits.to_bytes(whole, "big"))[0]
        if size:
            self.line(at, size, f"{meaning}: {show.format(value)}")
        return value, at + size

    def checksum(self, at, begin, end, meaning):
        stored = self.number(at, "Q", meaning, "{:016x}")
        require(stored == xxh3(self.data[begin:end]), f"{meaning} does not hold")


TYPES = {1: "float32", 4: "uint8"}
CODERS = {1: "wavelet-zfp", 4: "validity"}
ORDERS = {1: "patch", 3: "coarse"}


def read_header(dump):
    require(dump.data[:8] == b"\x89QSF\r\n\x1a\n", "magic")
    dump.title("header")
    dump.line(0, 8, "magic")
    version = dump.number(8, "H", "major version")
    require(version in (1, 2, 3, 4), "major version")
    dump.number(10, "H", "minor version")
    size = dump.number(12, "I", "bytes of the header")
    require(size == (136 if version == 1 else 144), "bytes of the header")
    header = {"version": version, "size": size,
              "step": dump.number(16, "Q", "step"), "field": dump.number(24, "I", "field number"),
              "subfile": dump.number(28, "I", "subfile number"),
              "dims": tuple(dump.number(32 + 4 * a, "I", f"samples along {'xyz'[a]}") for a in range(3)),
              "patch": tuple(2**dump.number(44 + a, "B", f"log2 of the patch along {'xyz'[a]}") for a in range(3)),
              "levels": dump.number(47, "B", "levels")}
    header["type"] = TYPES[dump.data[48]]
    header["coder"] = CODERS[dump.data[49]]
    dump.number(48, "B", f"type ({header['type']})")
    dump.number(49, "B", f"coder ({header['coder']})")
    order = dump.data[50]
    header["block_rows"] = 2**(order >> 3) if version >= 4 and order >> 3 else None
    in_blocks = f", table in blocks of {header['block_rows']} rows" if header["block_rows"] else ""
    order -= order >> 3 << 3 if header["block_rows"] else 0
    require(order in ORDERS and dump.data[50] >> 3 <= 10, "payload order")
    dump.number(50, "B", f"payload order ({ORDERS[order]}){in_blocks}")
    header["fine"] = header["levels"]  # so many of the finest levels lie patch by patch
    if ORDERS[order] == "coarse":
        require(version >= 4 and 1 <= dump.data[52] <= header["levels"], "finest coarse level")
        header["fine"] = dump.data[52]
    dump.line(51, 5, "reserved, zero")
    header["patch_count"] = dump.number(56, "Q", "patches in this subfile")
    name = dump.data[64:128].split(b"\0")[0]
    dump.line(64, len(name), f"field name: {name.decode()}")
    dump.line(64 + len(name), 64 - len(name), "")
    header["mask"] = dump.number(128, "Q", "name of the mask", "{:016x}") if version > 1 else 0
    dump.checksum(size - 8, 0, size - 8, f"checksum of bytes 0..{size - 8}")
    header["name"] = name.decode()
    return header


def runs_of(header):
    """The levels of each run of the payload of one layer."""
    coarse = [[level] for level in reversed(range(header["fine"], header["levels"]))]
    return [*coarse, list(reversed(range(header["fine"])))]


def entry_bytes(header):
    return 24 + 8 * len(runs_of(header))


def entry_lists(header):
    """Lengths of the lists of entries of a table in blocks; the last is the root."""
    lists = [ceil_divide(header["patch_count"], header["block_rows"])]
    while lists[-1] > header["block_rows"]:
        lists.append(ceil_divide(lists[-1], header["block_rows"]))
    return lists


def read_footer(dump, at, header):
    dump.title("footer")
    table = (dump.number(at, "Q", "offset of the patch table"), dump.number(at + 8, "Q", "bytes of the patch table"))
    if header["block_rows"]:
        dump.checksum(at + 16, at - entry_bytes(header) * entry_lists(header)[-1], at, "checksum of the root")
    else:
        dump.checksum(at + 16, table[0], table[0] + table[1], "checksum of the patch table")
    require(dump.number(at + 24, "Q", "bytes of the file") == len(dump.data) == sum(table) + 48, "bytes of the file")
    dump.checksum(at + 32, at, at + 32, f"checksum of bytes {at}..{at + 32}")
    require(dump.data[at + 40:] == b"QSFend\r\n", "magic of the footer")
    dump.line(at + 40, 8, "magic")
    return table


def read_part(dump, at, level):
    widths = dump.number(at, "B", f"level {level}: widths", "{:#04x}")
    size, at = dump.varint(at + 1, f"level {level}: bytes")
    stored = xxh3(b"")
    if size:
        stored = dump.number(at, "Q", f"level {level}: checksum of the payload", "{:016x}")
        at += 8
    rmse, at = dump.leading(at, widths & 7, "f", f"level {level}: RMSE", rotated=True, show="{:.6g}")
    error, at = dump.leading(at, widths >> 3 & 15, "d", f"level {level}: largest error", rotated=True, show="{:.6g}")
    coverage = 1
    if widths & 128:
        coverage = dump.number(at, "f", f"level {level}: coverage")
        at += 4
    return {"size": size, "rmse": rmse, "max_error": error, "coverage": coverage, "checksum": stored}, at


def read_entries(dump, header, table):
    """Entries of the blocks of rows, found from the root down, and the end of the rows."""
    lists, size = entry_lists(header), entry_bytes(header)
    begins = [sum(table) - size * sum(lists[i:]) for i in range(len(lists))]
    above = None
    for begin, count in reversed(list(zip(begins, lists))):
        entries = [struct.unpack_from(f"<{size // 8}Q", dump.data, begin + size * i) for i in range(count)]
        for number, (code, offset, checksum, *payloads) in enumerate(above or []):
            first, last = number * header["block_rows"], min((number + 1) * header["block_rows"], count)
            require(checksum == xxh3(dump.data[begin + size * first:begin + size * last]), "checksum of a block of entries")
            require((code, offset, *payloads) == (*entries[first][:2], *entries[first][3:]), "begin of a block of entries")
        above = entries
    return above, begins[0]


def dump_entries(dump, header, table):
    """All lists of entries, in the order of the file."""
    lists = entry_lists(header)
    at = sum(table) - entry_bytes(header) * sum(lists)
    for stage, count in enumerate(lists):
        for number in range(count):
            dump.title(f"{'root' if stage + 1 == len(lists) else f'list {stage}'}, entry {number}")
            dump.number(at, "Q", "smallest code of the first row")
            dump.number(at + 8, "Q", "offset of the block")
            dump.number(at + 16, "Q", "checksum of the block", "{:016x}")
            for run in range(len(runs_of(header))):
                dump.number(at + 24 + 8 * run, "Q", "offset of its first payload")
            at += entry_bytes(header)


def read_rows(dump, header, table):
    """Rows of version 4: as long as they need to be, without the offsets of payloads."""
    blocks, rows_end = read_entries(dump, header, table) if header["block_rows"] else ([], sum(table))
    patches = tuple(ceil_divide(n, p) for n, p in zip(header["dims"], header["patch"]))
    numbers = {morton(patch_position(index, patches)): index for index in range(volume(patches))}
    at, code, rows = table[0], -1, []
    for number in range(header["patch_count"]):
        if blocks and number % header["block_rows"] == 0:
            block = number // header["block_rows"]
            block_end = blocks[block + 1][1] if block + 1 < len(blocks) else rows_end
            require(blocks[block][:3] == (code + 1, at, xxh3(dump.data[at:block_end])), f"entry of block {block}")
        dump.title(f"patch table, row {number}")
        begin_of_row = at
        step, at = dump.varint(at, "step of the Morton code")
        code += step + 1
        begin, end = patch_box(numbers[code], header["dims"], header["patch"])
        row = {"patch": numbers[code], "at": begin_of_row, "code": code, "valid": volume(tuple(e - b for b, e in zip(begin, end))), "levels": []}
        bits = dump.number(at, "B", "bits")
        widths = dump.number(at + 1, "B", "widths", "{:#04x}")
        require(bits in (0, 2, 4, 6), "bits of a row")
        row["min"], at = dump.leading(at + 2, widths & 15, "d", "smallest sample", rotated=False)
        row["max"], at = dump.leading(at, widths >> 4, "d", "largest sample", rotated=False)
        if bits & 2:
            row["valid"], at = dump.varint(at, "valid samples")
        for level in range(header["levels"]):
            part = {"size": 0, "rmse": 0, "max_error": 0, "coverage": 1, "checksum": xxh3(b"")}
            if not bits & 4:
                part, at = read_part(dump, at, level)
            row["levels"].append(part)
        rows.append(row)
    require(at == rows_end, "end of the rows")
    place_payloads(dump.data, header, rows, blocks, table[0])
    return rows


def place_payloads(data, header, rows, blocks, end):
    """Offsets of the payloads, one run after the other."""
    offset = header["size"]
    for run, levels in enumerate(runs_of(header)):
        for number, row in enumerate(rows):
            if blocks and number % header["block_rows"] == 0:
                require(blocks[number // header["block_rows"]][3 + run] == offset, f"payloads of a block in run {run}")
            for level in levels:
                part = row["levels"][level]
                part["offset"] = offset
                offset += part["size"]
                require(part["checksum"] == xxh3(data[part["offset"]:offset]), f"checksum of level {level}")
    require(offset == end, "end of the payloads")


def read_table(dump, header, table):
    if header["version"] >= 4:
        return read_rows(dump, header, table)
    fixed, of_level = (24, 32) if header["version"] == 1 else (28, 36)
    row_bytes = fixed + of_level * header["levels"]
    require(table[1] == row_bytes * header["patch_count"], "bytes of the patch table")
    patches = tuple(ceil_divide(n, p) for n, p in zip(header["dims"], header["patch"]))
    rows = []
    for number in range(header["patch_count"]):
        at = table[0] + number * row_bytes
        dump.title(f"patch table, row {number}")
        row = {"patch": dump.number(at, "Q", "patch index"), "min": dump.number(at + 8, "d", "smallest sample"),
               "max": dump.number(at + 16, "d", "largest sample"), "levels": []}
        if header["version"] > 1:
            row["valid"] = dump.number(at + 24, "I", "valid samples")
        for level in range(header["levels"]):
            entry = at + fixed + of_level * level
            offset = dump.number(entry, "Q", f"level {level}: offset")
            size = dump.number(entry + 8, "I", f"level {level}: bytes")
            rmse = dump.number(entry + 12, "f", f"level {level}: RMSE", "{:.6g}")
            require(header["size"] <= offset and offset + size <= table[0], "payload range")
            dump.checksum(entry + 16, offset, offset + size, f"level {level}: checksum of the payload")
            error = dump.number(entry + 24, "d", f"level {level}: largest error", "{:.6g}")
            coverage = dump.number(entry + 32, "f", f"level {level}: coverage") if header["version"] > 1 else 1
            row["levels"].append({"offset": offset, "size": size, "rmse": rmse, "max_error": error,
                                  "coverage": coverage, "checksum": xxh3(dump.data[offset:offset + size])})
        rows.append(row)
    codes = [morton(patch_position(row["patch"], patches)) for row in rows]
    require(codes == sorted(set(codes)), "Morton order")
    return rows


def dump_payload(dump, header, rows, decoded):
    """Payload in the order of the file."""
    position = header["size"]
    for levels, row in itertools.product(runs_of(header), rows):
        begin, end = patch_box(row["patch"], header["dims"], header["patch"])
        shape = tuple(e - b for b, e in zip(begin, end))
        mode = decoded[row["patch"]][0]
        for level in levels:
            at, size = row["levels"][level]["offset"], row["levels"][level]["size"]
            require(at == position, "payload with a gap")
            position += size
            coarsest = level == header["levels"] - 1
            dump.title(f"payload of patch {row['patch']}, level {level}: {size} bytes")
            stop = at + size
            if coarsest:
                dump.line(at, 1, f"mode: {MODE_NAMES[mode]}")
                at += 1
                if mode == WAVELET:
                    dump.number(at, "d", "accuracy unit", "{:.6g}")
                    at += 8
            if mode == WAVELET and at < stop:
                dump.line(at, 1, "kind of the arrays: verbatim")
                at += 1
            values = unpack_samples(dump.data[at:stop], (stop - at) // 4)
            dump.samples(at, values, level_shape(shape, level) if coarsest and mode != CONSTANT else None)
    return position


def source_samples(box):
    (x0, y0, _), (x1, y1, _) = box
    return [f32(ROWS[y][x]) for y in range(y0, y1) for x in range(x0, x1)]


def check_samples(header, rows, decoded):
    """Tolerance, range and error record of every patch."""
    for row in rows:
        box = patch_box(row["patch"], header["dims"], header["patch"])
        shape = tuple(e - b for b, e in zip(*box))
        original = source_samples(box)
        require((row["min"], row["max"]) == (min(original), max(original)), "range of a patch")
        require(row.get("valid", volume(shape)) == volume(shape), "valid samples of a patch")
        for level, samples in enumerate(decoded[row["patch"]][1]):
            first = header["version"] == 1
            error, rmse = level_error(original, shape, samples, level, f32 if first else float)
            require(level > 0 or error <= TOLERANCE, f"patch {row['patch']}: error {error}")
            recorded = row["levels"][level]
            # Version 1 recorded what float32 gives, version 2 never less than the true one.
            most = error if first or level == 0 else 1.125 * error + max(map(abs, original)) / 2**44
            require(error <= recorded["max_error"] <= most, f"recorded error of patch {row['patch']}, level {level}")
            require(math.isclose(rmse, recorded["rmse"], rel_tol=1e-5), f"recorded RMSE of patch {row['patch']}")
            require(recorded["coverage"] == 1, "coverage where nothing is missing")


def read_tables(data):
    """Header and rows of a subfile, without looking at its payload."""
    dump = Dump(data)
    header = read_header(dump)
    return header, read_table(dump, header, read_footer(dump, len(data) - 48, header))


def read_subfile(data):
    dump = Dump(data)
    header = read_header(dump)
    head, dump.lines = dump.lines, []
    table = read_footer(dump, len(data) - 48, header)
    foot, dump.lines = dump.lines, []
    rows = read_table(dump, header, table)
    middle, dump.lines = dump.lines, []
    if header["block_rows"]:
        dump_entries(dump, header, table)
        foot, dump.lines = [*dump.lines, "", *foot], []
    decoded = {}
    for row in rows:
        begin, end = patch_box(row["patch"], header["dims"], header["patch"])
        payloads = [data[entry["offset"]:entry["offset"] + entry["size"]] for entry in row["levels"]]
        decoded[row["patch"]] = decode_patch(tuple(e - b for b, e in zip(begin, end)), header["levels"], payloads)
    require(dump_payload(dump, header, rows, decoded) == table[0], "bytes between payload and table")
    require({mode for mode, _ in decoded.values()} == {CONSTANT, WAVELET, VERBATIM}, "the example lacks a mode")
    check_samples(header, rows, decoded)
    return header, rows, decoded, [*head, "", *dump.lines, "", *middle, "", *foot]


# --- the files around it: docs/format.md, "dataset.json and step.json", "Index" ---------------------------------------


def read_manifest(path):
    """A manifest, after its checksum over its own text."""
    text = path.read_bytes()
    at = text.rindex(b'"checksum": "') + len(b'"checksum": "')
    stored = text[at:at + 16]
    require(stored == b"%016x" % xxh3(text[:at] + b"0" * 16 + text[at + 16:]), f"checksum of {path.name}")
    return json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))


def grids_of(described):
    """Grids of dataset.json; before `grids` there is one, with patch and levels beside it."""
    grids = described.get("grids") or [described["grid"] | {"patch": described["patch"], "levels": described["levels"]}]
    first = {}  # first grid and axis of each name
    for number, grid in enumerate(grids):
        grid["has_axis"] = grid.get("has_axis") or [True, True, True]
        for key in ("dims", "origin", "spacing", "axis_names", "axis_units", "patch", "has_axis"):
            require(len(grid[key]) == 3, f"{key} of grid {number}")
        for axis, name in enumerate(grid["axis_names"]):
            if not grid["has_axis"][axis]:
                require(grid["dims"][axis] == 1 and not along(grid, axis)["coordinates"], f"the lacking axis {'xyz'[axis]}")
            elif name not in ("", "xyz"[axis]):
                other, of_other = first.setdefault(name, (number, axis))
                here, there = along(grid, axis), along(grids[other], of_other)
                require(other == number or here == there, f"the axes \"{name}\" of grids {other} and {number} differ")
    require(all(field.get("grid", 0) < len(grids) for field in described["fields"]), "grid of a field")
    return grids


def along(grid, axis):
    """The common properties of axes of one name."""
    dims = grid["dims"][axis]
    return {"dims": dims, "origin": grid["origin"][axis], "spacing": grid["spacing"][axis] if dims > 1 else None,
            "unit": grid["axis_units"][axis], "coordinates": grid.get("coordinates", {}).get("xyz"[axis], [])}


def record_of(step, name):
    return next(record for record in step["fields"] if record["name"] == name)


def check_manifests(dataset, header, rows, subfile):
    described = read_manifest(dataset / "dataset.json")
    version = header["version"]
    require(described["format_version"] == version, "format_version")
    field = described["fields"][header["field"]]
    require(field["name"] == header["name"], "field name")
    grid = grids_of(described)[field.get("grid", 0)]
    require(tuple(grid["dims"]) == header["dims"] and tuple(grid["patch"]) == header["patch"], "grid")
    require(grid["levels"] == header["levels"] and described["order"] == "PAYLOAD_ORDER_PATCH", "levels and order")
    require((field["dtype"], field["codec"]) == ("DATA_TYPE_FLOAT32", "wavelet-zfp"), "type and coder")
    require(field["tolerance"] == TOLERANCE, "tolerance")
    step = read_manifest(dataset / "steps" / "000000" / "step.json")
    require(step["step"] == "0", "step")
    record = record_of(step, header["name"])
    require(record["patches"] == str(len(rows)), "patches")
    require(len(record["levels"]) == grid["levels"], "levels of the step")
    require(record["max_error"] == max(row["levels"][0]["max_error"] for row in rows), "largest error")
    if version > 1:
        require(step["format_version"] == version, "format_version of the step")
        require(record["valid"] == str(volume(DIMS)) and "mask" not in record, "valid samples")
        require(all(level["coverage"] == 1 for level in record["levels"]), "coverage")
    listed = record["subfiles"][header["subfile"]]
    require(listed["name"] == "0000.qsf" and listed["bytes"] == str(len(subfile)), "subfile")
    require(listed["bounds"] == {"begin": [0, 0, 0], "end": list(DIMS)}, "bounds")
    require(listed["table_checksum"] == subfile[-32:-24][::-1].hex(), "checksum of the patch table")
    for level, entry in enumerate(record["levels"]):
        recorded = [row["levels"][level] for row in rows]
        require(entry["bytes"] == str(sum(record["size"] for record in recorded)), "bytes of a level")
        require(entry["max_error"] == max(record["max_error"] for record in recorded), "largest error of a level")


def check_seal(dataset):
    seal = json.loads((dataset / "index" / "seal.json").read_text())
    values = [seal["version"]]
    steps = []
    for piece in seal["pieces"]:
        values += [piece["checksum"], piece["bytes"], piece["steps"]]
        for part in piece["ranges"]:
            values += [part["first"], part["last"], part["steps"], part["marks"]]
            steps.append((part["first"], part["last"], part["steps"]))
        data = (dataset / "index" / f"patches-{piece['checksum']}.mdb").read_bytes()
        require(len(data) == piece["bytes"] and f"{xxh3(data):016x}" == piece["checksum"], "checksum of a piece")
    text = " ".join(map(str, values))
    require(seal["version"] == 5 and seal["seal"] == f"{xxh3(text.encode()):016x}", "seal of the index")
    require(steps == [(0, 0, 1)], "steps of the index")


def check_answers(dataset, answers, header, decoded):
    """`quarry get` answers bit for bit what the reader of this file has decoded."""
    for level in range(header["levels"]):
        shape = level_shape(header["dims"], level)
        whole = [0.0] * volume(shape)
        for index, (_, samples) in decoded.items():
            begin, end = (tuple(ceil_divide(n, 2**level) for n in corner)
                          for corner in patch_box(index, header["dims"], header["patch"]))
            width, height = end[0] - begin[0], end[1] - begin[1]
            for i, sample in enumerate(samples[level]):
                x, y, z = begin[0] + i % width, begin[1] + i // width % height, begin[2] + i // width // height
                whole[x + shape[0] * (y + shape[1] * z)] = sample
        answer = answers / f"level{level}.raw"
        run("quarry", "get", dataset, "--field", header["name"], "--level", level, "--output", answer)
        expected = struct.pack(f"<{len(whole)}f", *whole)
        require(answer.read_bytes() == expected, f"quarry get answers otherwise at level {level}")


# --- the example ------------------------------------------------------------------------------------------------------


def run(program, *arguments):
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [BIN / program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    require(done.returncode == 0, f"{program} ended with {done.returncode}: {done.stderr}")


EXAMPLE = [value for row in ROWS for value in row]


def write_field(dataset, field, dims, values, *options):
    source = dataset.with_suffix(".raw")
    source.write_bytes(struct.pack(f"<{len(values)}f", *values))
    run("quarry-write", source, "--dims", "x".join(map(str, dims)), "--type", "float32", "--field", field,
        "--codec", "wavelet-zfp", "--tolerance", TOLERANCE, *options, "--output", dataset)


def finish(dataset):
    run("quarry-index", dataset)
    run("quarry", "verify", dataset)
    return dataset


def make_dataset(folder, name, values, *options):
    dataset = folder / f"{name}.quarry"
    write_field(dataset, "f", DIMS, values, "--patch", 4, "--levels", 2, *options)
    return finish(dataset)


def make_example(folder):
    return make_dataset(folder, "example", EXAMPLE)


def check_example(dataset, answers):
    """The whole dataset; returns the lines of the dump of its subfile."""
    subfile = (dataset / "steps" / "000000" / "f" / "0000.qsf").read_bytes()
    header, rows, decoded, lines = read_subfile(subfile)
    check_manifests(dataset, header, rows, subfile)
    check_answers(dataset, answers, header, decoded)
    return lines


def mask_name(digests, grid):
    """Name of the mask of patches in Morton order, on a grid of this number."""
    counted = [*digests, grid] if grid else digests
    return xxh3(struct.pack(f"<{len(counted)}Q", *counted)) or 1


def check_mask_files(dataset, field, grid):
    """The subfiles of the mask of a field, without their payload, and what step.json says of them; returns digests and
    rows of the patches."""
    mask = record_of(read_manifest(dataset / "steps" / "000000" / "step.json"), field)["mask"]
    digests, all_rows = [], []
    for number, listed in enumerate(mask["subfiles"]):
        data = (dataset / "masks" / mask["name"] / listed["name"]).read_bytes()
        require((listed["name"], listed["bytes"]) == (f"{number:04}.qsf", str(len(data))), "subfile of the mask")
        header, rows = read_tables(data)
        require((header["type"], header["coder"], header["name"]) == ("uint8", "validity", mask["name"]), "header of a mask")
        require((header["step"], header["field"], header["subfile"], header["mask"]) == (0, 0, number, 0), "numbers")
        described = grids_of(read_manifest(dataset / "dataset.json"))[grid]
        require([list(header["dims"]), list(header["patch"]), header["levels"]] ==
                [described["dims"], described["patch"], described["levels"]], "grid of a mask")
        require(listed["table_checksum"] == data[-32:-24][::-1].hex(), "checksum of the mask's patch table")
        for row in rows:
            levels = reversed(row["levels"])
            digests.append(xxh3(b"".join(struct.pack("<IQ", level["size"], level["checksum"]) for level in levels)))
        all_rows += rows
    require(mask_name(digests, grid) == int(mask["name"], 16), "name of the mask")
    require(mask["bytes"] == str(sum(int(listed["bytes"]) for listed in mask["subfiles"])), "bytes of the mask")
    for path in sorted((dataset / "steps" / "000000" / field).iterdir()):
        require(f"{read_tables(path.read_bytes())[0]['mask']:016x}" == mask["name"], "mask in the header of a field")
    return digests, all_rows


def check_mask(folder):
    """The mask of a field with whole patches and such that miss samples."""
    values = list(EXAMPLE)
    for missing in (5, 6, 14, 23, 26):
        values[missing] = -1.0
    dataset = make_dataset(folder, "masked", values, "--fill", "-1", "--files", 2)
    require(read_manifest(dataset / "dataset.json")["fields"][0]["fill"] == -1, "fill value")
    record = read_manifest(dataset / "steps" / "000000" / "step.json")["fields"][0]
    require(record["valid"] == str(volume(DIMS) - 5), "valid samples of the field")
    require([path.name for path in (dataset / "masks").iterdir()] == [record["mask"]["name"]], "folder of the mask")
    for row in check_mask_files(dataset, "f", 0)[1]:
        require(any(level["size"] for level in row["levels"]) == (row["patch"] != 0), "patches with a mask")
        require((row["min"], row["max"]) == (float(row["patch"] == 0), 1.0), "range of a mask")
    valid = {}
    for path in sorted((dataset / "steps" / "000000" / "f").iterdir()):
        valid.update((row["patch"], row["valid"]) for row in read_tables(path.read_bytes())[1])
    require(valid == {0: 12, 1: 12 - 4, 2: 3 - 1}, "valid samples of the patches")


def check_grids(folder):
    """The example as the last of three grids, behind two fields that miss everything: masks that differ by the grid alone."""
    dataset = folder / "grids.quarry"
    for field, width in (("a", 10), ("b", 11)):
        write_field(dataset, field, (width, 3, 1), [-1.0] * 3 * width, "--fill", "-1", "--patch", 4, "--levels", 3,
                    *(["--append"] if field == "b" else []))
    write_field(dataset, "f", DIMS, EXAMPLE, "--patch", 4, "--levels", 2, "--append")
    finish(dataset)
    described = read_manifest(dataset / "dataset.json")
    found = [(field["name"], field["grid"]) for field in described["fields"]]
    require(found == [("a", 0), ("b", 1), ("f", 2)], f"fields and their grids: {found}")
    layouts = [(grid["dims"], grid["patch"], grid["levels"]) for grid in grids_of(described)]
    require(layouts == [([10, 3, 1], [4, 4, 1], 3), ([11, 3, 1], [4, 4, 1], 3), ([9, 3, 1], [4, 4, 1], 2)], "grids")
    masks = [check_mask_files(dataset, "a", 0), check_mask_files(dataset, "b", 1)]
    require(masks[0][0] == masks[1][0], "digests of masks of nothing valid")
    require(len(list((dataset / "masks").iterdir())) == 2, "masks of two grids")
    return dataset


def put_in_blocks(data, bits):
    """The same subfile with its table in blocks of 2^bits rows, made from docs/format.md alone."""
    header, rows = read_tables(data)
    size, begin = 2**bits, struct.unpack_from("<Q", data, len(data) - 48)[0]
    table, entries = data[begin:len(data) - 48], []
    for first in range(0, len(rows), size):
        end = rows[first + size]["at"] if first + size < len(rows) else len(data) - 48
        code = rows[first - 1]["code"] + 1 if first else 0
        payloads = [rows[first]["levels"][levels[0]]["offset"] for levels in runs_of(header)]
        entries.append((code, rows[first]["at"], xxh3(data[rows[first]["at"]:end]), *payloads))
    while True:
        blocks = [struct.pack(f"<{len(part) * len(part[0])}Q", *itertools.chain(*part))
                  for part in (entries[i:i + size] for i in range(0, len(entries), size))]
        table += b"".join(blocks)
        if len(blocks) == 1:
            break
        entries = [(*entries[size * i][:2], xxh3(block), *entries[size * i][3:]) for i, block in enumerate(blocks)]
    head = data[:50] + bytes([data[50] | bits << 3]) + data[51:header["size"] - 8]
    foot = struct.pack("<4Q", begin, len(table), xxh3(blocks[0]), begin + len(table) + 48)
    return b"".join((head, struct.pack("<Q", xxh3(head)), data[header["size"]:begin], table, foot,
                     struct.pack("<Q", xxh3(foot)), b"QSFend\r\n"))


def put_in_order_coarse(data, coarse):
    """The same subfile with its payload in order coarse, made from docs/format.md alone. The table stays."""
    header, rows = read_tables(data)
    head = data[:50] + bytes([3]) + data[51:52] + bytes([coarse]) + data[53:header["size"] - 8]
    runs = runs_of(header | {"fine": coarse})
    places = [row["levels"][level] for levels in runs for row in rows for level in levels]
    payload = b"".join(data[place["offset"]:place["offset"] + place["size"]] for place in places)
    return head + struct.pack("<Q", xxh3(head)) + payload + data[header["size"] + len(payload):]


def in_blocks(folder, dataset, bits):
    return with_subfile(folder, dataset, bits, lambda data: put_in_blocks(data, bits))


def with_subfile(folder, dataset, name, change):
    """A copy of a dataset of one subfile, with another form of it; `quarry verify` finds nothing wrong with it."""
    copy = folder / f"{dataset.stem}-{name}.quarry"
    shutil.copytree(dataset, copy)
    shutil.rmtree(copy / "index", ignore_errors=True)
    subfile, step = copy / "steps" / "000000" / "f" / "0000.qsf", copy / "steps" / "000000" / "step.json"
    old = subfile.read_bytes()
    new = change(old)
    subfile.write_bytes(new)
    text = step.read_text().replace(f'"{len(old)}"', f'"{len(new)}"')
    text = text.replace(old[-32:-24][::-1].hex(), new[-32:-24][::-1].hex())
    at = text.rindex('"checksum": "') + len('"checksum": "')
    text = text[:at] + "0" * 16 + text[at + 16:]
    step.write_text(text[:at] + f"{xxh3(text.encode()):016x}" + text[at + 16:])
    run("quarry", "upgrade", copy)  # the catalogue has what step.json was
    run("quarry", "verify", copy)
    return copy


def check_blocks(folder, example):
    """Tables in blocks that this file makes, read by the programs, and such that the writer makes, read by this file.
    Returns the lines of the dump."""
    lines = check_example(in_blocks(folder, example, 1), folder)
    # 45 patches: lists of 23, 12, 6, 3 and 2 entries, or of fewer.
    flat = folder / "many.quarry"
    write_field(flat, "f", (9, 5, 1), EXAMPLE + EXAMPLE[:18], "--patch", 1, "--levels", 1)
    run("quarry", "get", flat, "--output", folder / "flat.raw")
    for bits in (1, 2, 5):
        many = in_blocks(folder, flat, bits)
        run("quarry", "get", many, "--output", folder / "many.raw")
        require((folder / "many.raw").read_bytes() == (folder / "flat.raw").read_bytes(), "samples found through blocks")
        run("quarry", "get", many, "--box", "7:8,3:4,0:1", "--output", folder / "one.raw")
        sample = 4 * (7 + 9 * 3)
        require((folder / "one.raw").read_bytes() == (folder / "flat.raw").read_bytes()[sample:sample + 4], "one sample")
    large = folder / "large.quarry"
    values = [float(i % 61) for i in range(45 * 31)]
    write_field(large, "f", (45, 31, 1), values, "--patch", 1, "--levels", 1)
    run("quarry", "verify", large)
    header, rows = read_tables((large / "steps" / "000000" / "f" / "0000.qsf").read_bytes())
    require(header["block_rows"] == 1024 and len(rows) == len(values), "a large table in blocks")
    require(all(abs(row["min"] - values[row["patch"]]) <= TOLERANCE for row in rows), "rows of a large table")
    begin = next(i for i, line in enumerate(lines) if line.startswith("root"))
    return [line for line in lines if line.startswith("   50 ")] + [""] + lines[begin:]


def check_order_coarse(folder, example):
    """Subfiles in order coarse that this file makes, read by the programs, and one that the writer makes, read by this file."""
    for coarse in (1, 2):
        copy = with_subfile(folder, example, f"coarse{coarse}", lambda data, coarse=coarse: put_in_order_coarse(data, coarse))
        check_example(copy, folder)
        check_example(in_blocks(folder, copy, 1), folder)
    written = folder / "coarse.quarry"
    write_field(written, "f", (45, 31, 1), [math.sin(i / 7) for i in range(45 * 31)], "--patch", 8, "--order", "coarse")
    run("quarry", "verify", written)
    header, rows = read_tables((written / "steps" / "000000" / "f" / "0000.qsf").read_bytes())
    require((header["levels"], header["fine"], len(rows)) == (4, 3, 24), "levels by patch of a file in order coarse")
    require(read_manifest(written / "dataset.json")["order"] == "PAYLOAD_ORDER_COARSE", "order of the dataset")


CHECKSUM_VECTORS = {0: 0x2D06800538D394C2, 12: 0x5ACE6A511C10894B, 100: 0x004E4F921A64BD1C,
                    200: 0xF42A8864FEAF0703, 2000: 0x26AF7994E0E20830}


def check_test_vectors():
    """The vectors of docs/format.md, "Test vectors"."""
    for length, expected in CHECKSUM_VECTORS.items():
        require(xxh3(bytes(i % 256 for i in range(length))) == expected, f"XXH3 of {length} bytes")
    require(xxh3(b"Quarry") == 0xDF8C00681FF5D62C, "XXH3 of 6 bytes")
    positions = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 5, 1), (2**21 - 1,) * 3)
    require([morton(position) for position in positions] == [1, 2, 4, 143, 2**63 - 1], "Morton codes")
    names = [mask_name([1, 2, 3], grid) for grid in (0, 1, 4095)]
    require(names == [0x7C68B4906E7EA780, 0xCAA0A06D4C905408, 0x4A4BF345E440EF5F], "names of masks")
    require(inverse_line([1.5, 4.0, 6.0], [0.5, -1.0]) == [1.25, 3.1875, 4.125, 4.3125, 6.5], "a line of 5 samples")
    require(inverse_line([1.5, 4.0], [0.5, -1.0]) == [1.25, 3.1875, 4.125, 4.5625], "a line of 4 samples")


def main():
    require((BIN / "quarry-write").is_file(), f"there are no executables in {BIN}; build Quarry, or set QUARRY_BIN")
    check_test_vectors()
    with tempfile.TemporaryDirectory() as folder:
        dataset = make_example(Path(folder))
        lines = check_example(dataset, Path(folder))
        check_seal(dataset)
        for older in OLDER_VERSIONS:
            check_example(older, Path(folder))
        check_mask(Path(folder))
        check_example(check_grids(Path(folder)), Path(folder))
        check_order_coarse(Path(folder), dataset)
        examples = {"worked": lines, "blocks": check_blocks(Path(folder), dataset)}
    document = DOCUMENT.read_text()
    updated = document
    for name, (begin, end) in MARKERS.items():
        require(begin in document and end in document, f"{DOCUMENT} has no markers for the example {name}")
        before, rest = updated.split(begin)
        block = "\n".join(["", "```text", *examples[name], "```", ""])
        updated = before + begin + block + end + rest.split(end)[1]
    if sys.argv[1:] == ["--update"]:
        DOCUMENT.write_text(updated)
        return 0
    lines = (text.splitlines(True) for text in (document, updated))
    sys.stdout.writelines(difflib.unified_diff(*lines, str(DOCUMENT), "as it is now"))
    return 0 if document == updated else 1


if __name__ == "__main__":
    sys.exit(main())
