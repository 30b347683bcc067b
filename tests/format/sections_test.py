"""A proof that docs/format.md is enough to read one field of a step.json in sections: what sections_decoder.py reads is
compared with the whole file. `--update` writes the example of docs/format.md."""

import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from sections_decoder import digits_of, read_field, read_root
from worked_example import read_manifest, require, xxh3

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "format.md"
GOLDEN = HERE / "golden" / "v4-wide" / "golden.quarry" / "steps" / "000000" / "step.json"
BIN = Path(os.environ["QUARRY_BIN"])
EXAMPLE = re.compile(r"<!-- sections example begin -->\n(.*)<!-- sections example end -->", re.DOTALL)


def check(path):
    """Every field is in its section as in the file. Returns the most bytes that one takes."""
    said = read_manifest(path)
    with path.open("rb") as file:
        step, _ = read_root(file, xxh3)
    whole = {key: value for key, value in said.items() if key not in ("sections", "time", "checksum")}
    require(step == whole | {"fields": []}, "the step without fields")
    most = 0
    for field in said["fields"]:
        found, read = read_field(path, field["name"], xxh3)
        require(found == field, f"field {field['name']}")
        most = max(most, read)
    require(read_field(path, "none", xxh3)[0] is None, "a field that is not there")
    return most


def write(folder, fields):
    """A step of many small fields."""
    names = []
    for number in range(fields):
        path = folder / f"f{number:03}-[8-8-8]-Float32.raw"
        path.write_bytes(struct.pack("<512f", *(sample * number / 7 for sample in range(512))))
        names.append(path)
    subprocess.run([BIN / "quarry-write", *names, "--output", folder / "many.quarry", "--tolerance", "0.1"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "many.quarry"


def example():
    """The front of the golden file, without most sections, and the beginning of the first one."""
    with GOLDEN.open("rb") as file:
        _, sections = read_root(file, xxh3)
    text = GOLDEN.read_text()
    root, section = text[:sections[0][0]], text[sections[0][0]:][:sections[0][1]].splitlines()
    head, rest = root.split('"list":[', 1)
    first, last = rest[:rest.index("}") + 1], rest[rest.index("]") + 1:]
    names = re.search(r'"names":"([0-9a-f]{24})', first)[1]
    first = re.sub(r'"names":"[0-9a-f]*"', f'"names":"{names}..."', first)
    lines = [*f'{head}"list":[\n  {first},\n  ... {len(sections) - 1} more]{last}'.splitlines(), *section[:3], "   ..."]
    return "\n".join(["```text", *lines, "```", ""])


def main():
    document = DOCUMENT.read_text()
    if sys.argv[1:] == ["--update"]:
        block = f"<!-- sections example begin -->\n{example()}<!-- sections example end -->"
        DOCUMENT.write_text(EXAMPLE.sub(lambda _: block, document))
        return 0
    require(EXAMPLE.search(document)[1] == example(), "docs/format.md is out of date: run this with --update")
    require(f"`{digits_of('f00', xxh3)}`." in document, "digits of the example")
    check(GOLDEN)
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), 150) / "steps" / "000000" / "step.json"
        require(path.stat().st_size > 150_000, "a large step.json")
        require(check(path) < 40_000, "bytes for one field")
    print("fields in sections are as step.json has them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
