"""Reader of the head and the catalogue of a dataset, written from docs/format.md alone. Records come as step.json has
them, without subfiles."""

import struct

MAGIC = {"head": b"\x89QSH\r\n\x1a\n", "page": b"\x89QSC\r\n\x1a\n"}
REALS = ("tolerance", "min", "max", "max_error", "rmse", "psnr")
NUMBERS = ("raw_bytes", "stored_bytes", "patches", "valid")
MODULUS = 2**64


class Damaged(Exception):
    """The bytes are not as docs/format.md describes them."""


def require(holds, what):
    if not holds:
        raise Damaged(what)


class Bytes:
    """Values from the front of some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        require(self.at + count <= len(self.data), "the end is missing")
        taken = self.data[self.at:self.at + count]
        self.at += count
        return taken

    def byte(self):
        return self.take(1)[0]

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                require(value < MODULUS, "varint")
                return value

    def difference(self, last):
        folded = self.varint()
        step = folded // 2 if folded % 2 == 0 else MODULUS - (folded + 1) // 2
        return (last + step) % MODULUS

    def real(self, last):
        widths = self.byte()
        zeros, count = widths >> 4, widths & 15
        require(zeros + count <= 8, "widths of a real")
        changed = bytes(zeros) + self.take(count) + bytes(8 - zeros - count)
        mixed = bytes(a ^ b for a, b in zip(changed, struct.pack(">d", last), strict=True))
        return struct.unpack(">d", mixed)[0]

    def text(self, last):
        front, back, middle = self.varint(), self.varint(), self.varint()
        require(front + back <= len(last), "parts of a text")
        return last[:front] + self.take(middle) + last[len(last) - back:]


def read_levels(data, before, first):
    """first: errors that stand before those of level 0, or None."""
    levels = []
    for number in range(data.varint()):
        last = before[number] if number < len(before) else {"max_error": 0.0, "rmse": 0.0, "bytes": 0, "coverage": 1.0}
        if number == 0 and first is not None:
            last = {**last, **first}
        levels.append({"max_error": data.real(last["max_error"]), "rmse": data.real(last["rmse"]),
                       "bytes": data.difference(last["bytes"]), "coverage": data.real(last["coverage"])})
    return levels


def new_field(name):
    return {"name": name, "source": b"", **dict.fromkeys(REALS, 0.0), **dict.fromkeys(NUMBERS, 0), "mask": None,
            "references": [], "levels": [], "rougher": []}


def read_field(data, step, last):
    field = {"name": last["name"], "source": data.text(last["source"])}
    for name in REALS:
        field[name] = data.real(last[name])
    for name in NUMBERS:
        field[name] = data.difference(last[name])
    form = data.byte()
    require(form <= 2 and not (form == 1 and last["mask"] is None), "mask")
    field["mask"] = (None, last["mask"], None)[form] if form < 2 else (f"{data.u64():016x}", data.varint())
    field["references"] = [data.difference(step) for _ in range(data.varint())]
    field["levels"] = read_levels(data, last["levels"], {name: field[name] for name in ("max_error", "rmse")})
    field["rougher"] = []
    for number in range(data.varint()):
        before = last["rougher"][number] if number < len(last["rougher"]) else {"tolerance": 0.0, "levels": []}
        field["rougher"].append({"tolerance": data.real(before["tolerance"]),
                                 "levels": read_levels(data, before["levels"], None)})
    return field


def read_records(data, count):
    """Records by step, from bytes that hold nothing else."""
    records, fields = {}, []
    step, size, time = -1, 0, None
    for _ in range(count):
        bits = data.byte()
        require(bits <= 1, "bits of a record")
        step += data.varint() + 1
        size = data.difference(size)
        checksum = data.u64()
        time = data.real(time or 0.0) if bits else None
        record = {"step": step, "bytes": size, "checksum": f"{checksum:016x}", "time": time, "fields": []}
        for _ in range(data.varint()):
            number = data.varint()
            require(number <= len(fields), "number of a field")
            if number == len(fields):
                fields.append(new_field(data.text(b"").decode()))
            fields[number] = read_field(data, step, fields[number])
            record["fields"].append(fields[number])
        records[step] = record
    require(data.at == len(data.data), "bytes behind the records")
    return records


def begin(data, kind):
    """The version, and the number of records."""
    require(data.take(8) == MAGIC[kind], "magic")
    major, _minor, records = struct.unpack("<HHI", data.take(8))
    require(major in {"head": (4, 5), "page": (4,)}[kind], "version")
    return major, records


def read_runs(data, runs):
    """Steps in ascending order."""
    steps = []
    for first, distance, count in [[data.u64() for _ in range(3)] for _ in range(runs)]:
        require(distance > 0 and count > 0 and (not steps or first > steps[-1]), "run of steps")
        require(first + distance * (count - 1) < MODULUS, "end of a run")
        steps += range(first, first + distance * count, distance)
    return steps


def read_catalogue(dataset, checksum):
    """The records of a dataset by step, the names of the pages, the steps of the head (None: it does not have them), and
    whether it publishes. checksum: XXH3 of bytes."""
    head = (dataset / "head").read_bytes()
    require(int.from_bytes(head[-8:], "little") == checksum(head[:-8]), "checksum of the head")
    data = Bytes(head[:-8])
    version, count = begin(data, "head")
    steps, pages = data.u64(), data.u64()
    flags, runs = (data.u64(), data.u64()) if version > 4 else (0, 0)
    require(flags <= 1 and runs <= 4096, "flags and runs")
    named = [[data.u64() for _ in range(5)] for _ in range(pages)]
    listed = read_runs(data, runs)
    all_records, names = {}, []
    for name, size, first, last, number in named:
        page = (dataset / "catalogue" / f"{name:016x}").read_bytes()
        require(len(page) == size and checksum(page) == name, "name of a page")
        of_page = Bytes(page)
        require(begin(of_page, "page") == (4, number), "records of a page")
        records = read_records(Bytes(page[16:]), number)
        require((min(records), max(records)) == (first, last), "steps of a page")
        all_records.update(records)
        names.append(f"{name:016x}")
    all_records.update(read_records(Bytes(data.data[data.at:]), count))
    require(len(all_records) == steps, "number of steps")
    return all_records, names, listed if runs or not steps else None, flags == 1
