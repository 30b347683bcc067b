"""Reader of one field of a step.json in sections, written from docs/format.md alone. It reads the root and the section
of the field, never the whole file."""

import json

START = b'{\n "sections": {"root_bytes":"'
CHECKSUM_AT = len(START) + 10 + len('","root_checksum":"')
FIELDS = b' "fields": [\n'
END = b'\n ],\n "checksum": "'


def require(condition, message):
    if not condition:
        raise ValueError(message)


def parse(text):
    return json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))


def read_root(file, xxh3):
    """The step without fields and time, and of each section its first byte, its bytes, checksum and names. None if there are none."""
    front = file.read(CHECKSUM_AT + 16)
    if not front.startswith(START):
        return None
    size = int(front[len(START):len(START) + 10])
    require(size <= 1 << 20, "bytes of the root")
    root = front + file.read(size - len(front))
    stored = root[CHECKSUM_AT:CHECKSUM_AT + 16]
    require(stored == b"%016x" % xxh3(root[:CHECKSUM_AT] + b"0" * 16 + root[CHECKSUM_AT + 16:]), "checksum of the root")
    require(root.endswith(FIELDS), "end of the root")
    step = parse(root + b"]}")
    sections, end = [], size - 2
    for said in step.pop("sections")["list"]:
        begin = end + 2  # behind a comma and the end of a line, but for the first
        end = begin + int(said["bytes"])
        names = [said["names"][at:at + 8] for at in range(0, len(said["names"]), 8)]
        sections.append((begin, end - begin, said["checksum"], names))
    file.seek(end)
    require(file.read(len(END)) == END, "end of the sections")
    return step, sections


def digits_of(name, xxh3):
    return f"{xxh3(name.encode()) & 0xffffffff:08x}"


def read_section(file, section, xxh3):
    """The fields of a section."""
    begin, size, checksum, names = section
    file.seek(begin)
    text = file.read(size)
    require(f"{xxh3(text):016x}" == checksum, "checksum of a section")
    fields = parse(b'{"fields": [' + text + b"]}")["fields"]
    require([digits_of(field["name"], xxh3) for field in fields] == names, "names of a section")
    return fields


def read_field(path, name, xxh3):
    """The record of a field, None if the step does not have it; and the bytes that were read."""
    with path.open("rb") as file:
        step, sections = read_root(file, xxh3)
        read = sections[0][0]
        for section in sections:
            if digits_of(name, xxh3) not in section[3]:
                continue
            read += section[1]
            for field in read_section(file, section, xxh3):
                if field["name"] == name:
                    return field, read
        return None, read
