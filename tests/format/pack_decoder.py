"""Reader of packs, written from docs/format.md alone: the files of the steps of a pack, byte for byte."""

import shutil
import struct

from catalogue_decoder import Bytes, Damaged, require

BEGIN, FOOTER = 16, 48
MOST_STEPS = 4096


def steps_of(name):
    """The steps of a pack, from the name of its file."""
    require(name.startswith("pack-") and name.endswith(".qsp"), "name of a pack")
    first, *runs = name[len("pack-"):-len(".qsp")].split("_")
    steps = [number(first)]
    for run in runs:
        distance, _, times = run.partition("x")
        require(number(distance) >= 1 and (not times or number(times) >= 2), "distance of steps")
        for _ in range(number(times) if times else 1):
            require(len(steps) < MOST_STEPS, "number of steps")
            steps.append(steps[-1] + number(distance))
    return steps


def number(text):
    require(text.isascii() and text.isdigit() and str(int(text)) == text, "number in the name of a pack")
    return int(text)


def from_differences(stored, first, size):
    data, text, at = Bytes(stored), b"", 0
    while data.at < len(stored):
        at += data.varint()
        copied, fresh = data.varint(), data.varint()
        require(at + copied <= len(first), "differences of step.json")
        text += first[at:at + copied] + data.take(fresh)
        at += copied
    require(len(text) == size, "size of step.json")
    return text


def read_pack(path, checksum):
    """The files of each step: {step: {name: bytes}}. checksum: XXH3 of bytes."""
    data = path.read_bytes()
    require(data[:8] == b"\x89QSP\r\n\x1a\n" and struct.unpack("<H", data[8:10])[0] == 4, "begin of a pack")
    footer = data[-FOOTER:]
    offset, size, of_table, length, of_footer = struct.unpack("<5Q", footer[:40])
    require(footer[40:] == b"QSPend\r\n" and length == len(data) and offset + size + FOOTER == length, "footer of a pack")
    require(checksum(footer[:32]) == of_footer and checksum(data[offset:offset + size]) == of_table, "checksums of a pack")
    files = read_table(Bytes(data[offset:offset + size]), data, offset)
    require(list(files) == steps_of(path.name), "steps of a pack")
    return files


def read_table(table, data, offset):
    """The files of each step. data: of the pack, up to the table at least. offset: of the table."""
    names = [table.take(table.varint()).decode("ascii") for _ in range(table.varint())]
    require(names == sorted(set(names)), "names in a pack")
    files, step, at, first = {}, -1, BEGIN, None
    for _ in range(table.varint()):
        step += table.varint() + 1
        whole, stored = table.varint(), table.varint()
        manifest = data[at:at + stored]
        at += stored
        require(first is not None or stored == whole, "first step.json of a pack")
        text = manifest if stored == whole else from_differences(manifest, first, whole)
        first = text if first is None else first
        files[step] = {"step.json": text}
        name = -1
        for _ in range(table.varint()):
            name += table.varint() + 1
            size_of_file = table.varint()
            files[step][names[name]] = data[at:at + size_of_file]
            at += size_of_file
    require(at == offset and table.at == len(table.data), "end of the files of a pack")
    return files


def unpack(dataset, target, checksum):
    """A copy of a dataset with a folder for each step. Returns the number of steps that were in packs."""
    shutil.copytree(dataset, target)
    unpacked = 0
    for pack in sorted((target / "steps").glob("pack-*.qsp")):
        for step, files in read_pack(pack, checksum).items():
            folder = target / "steps" / f"{step:06}"
            if folder.exists():
                continue
            unpacked += 1
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        pack.unlink()
    return unpacked


__all__ = ["Damaged", "from_differences", "read_pack", "read_table", "steps_of", "unpack"]
