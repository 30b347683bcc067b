"""Datasets of every released format version must stay readable for ever, with the same samples bit for bit; and the
current writer must still produce the newest of them byte for byte. `--update VERSION` makes a new one."""
import filecmp
import hashlib
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ["QUARRY_BIN"])
NEWEST = "v1"
DIMS = (37, 19, 5)


def source(step, double):
    """A field with a smooth part, a front and a constant corner: every way in which a patch can be stored."""
    values = []
    for z in range(DIMS[2]):
        for y in range(DIMS[1]):
            for x in range(DIMS[0]):
                # Multiples of 1/64 are exact in float32, whatever the machine's sine does in its last bit.
                value = round(64 * (math.sin(0.3 * x + step) + 0.1 * y * z)) / 64
                values.append(293.0 if x >= 32 else value + (5.0 if x + y > 30 else 0.0))
    return struct.pack(f"<{len(values)}{'d' if double else 'f'}", *values)


def write(folder):
    """The golden dataset, by quarry-write: two steps, two fields, both types."""
    dataset = folder / "golden.quarry"
    for field, double, order in (("smooth", False, "level"), ("precise", True, None)):
        inputs = []
        for step in range(2):
            path = folder / f"golden{step}-{field}-[{DIMS[0]}-{DIMS[1]}-{DIMS[2]}]-Float{64 if double else 32}.raw"
            path.write_bytes(source(step, double))
            inputs.append(path)
        command = [BIN / "quarry-write", *inputs, "--output", dataset, "--tolerance", "1e-12" if double else "0.01", "--files", "2"]
        command += ["--append"] if dataset.exists() else ["--patch", "16x8x4", "--order", order]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return dataset


def digests(dataset, folder):
    """Hash of every field, step and level as `quarry get` writes them."""
    lines = []
    for field in ("smooth", "precise"):
        for step in range(2):
            for level in range(3):
                out = folder / "out.raw"
                subprocess.run([BIN / "quarry", "get", dataset, "--field", field, "--step", str(step), "--level", str(level), "--output", out],
                               check=True, stdout=subprocess.DEVNULL)
                lines.append(f"{field} {step} {level} {hashlib.sha256(out.read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


def files(folder):
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        written = write(scratch)
        if sys.argv[1:2] == ["--update"]:
            target = HERE / "golden" / sys.argv[2]
            target.mkdir(parents=True)
            written.rename(target / "golden.quarry")
            (target / "digests.txt").write_text(digests(target / "golden.quarry", scratch))
            return 0
        failures = 0
        for version in sorted((HERE / "golden").iterdir()):
            if digests(version / "golden.quarry", scratch) != (version / "digests.txt").read_text():
                print(f"{version.name}: samples differ from those of the release")
                failures += 1
            subprocess.run([BIN / "quarry", "verify", version / "golden.quarry"], check=True, stdout=subprocess.DEVNULL)
        golden = HERE / "golden" / NEWEST / "golden.quarry"
        same = files(golden) == files(written) and all(filecmp.cmp(golden / f, written / f, shallow=False) for f in files(golden))
        if not same:
            print(f"the writer no longer produces {NEWEST} byte for byte: a change of format needs a new version and docs/format.md")
            failures += 1
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
