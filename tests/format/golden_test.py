"""Datasets of every released format version stay readable for ever, with the same samples bit for bit, and the current
writer still produces the newest of them byte for byte. `--update VERSION` makes a new one."""
import filecmp
import hashlib
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ["QUARRY_BIN"])
NEWEST = "v4"
DIMS = (37, 19, 5)

# For each field: name, type, coder, options, and the value of missing samples. "edges" misses what "holes" does, so
# that they share their masks.
FIELDS = (
    ("smooth", "float32", "wavelet-zfp", ("--tolerance", "0.01"), None),
    ("precise", "float64", "wavelet-zfp", ("--tolerance", "1e-12"), None),
    ("holes", "float32", "wavelet-zfp", ("--relative", "1e-3"), math.nan),
    ("near", "float32", "interpolate", ("--tolerance", "0.01"), None),
    ("far", "float64", "interpolate", ("--relative", "1e-5", "--fill", "-1e30"), -1e30),
    ("rounded", "int32", "interpolate", ("--tolerance", "5"), None),
    ("exact", "float64", "lossless", ("--lossless",), math.inf),
    ("edges", "float32", "lossless", ("--lossless", "--fill", "-999.5"), -999.5),
    ("counts", "int16", "lossless", ("--fill", "-32768"), -32768),
    ("labels", "uint8", "lossless", (), None),
    ("wide", "uint32", "lossless", ("--fill", "4294967295"), 4294967295),
    ("ladder", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), None),
    ("rungs", "float64", "interpolate", ("--layers", "1,1e-2,1e-6"), math.nan),
    ("dry", "float32", "interpolate-zeros", ("--tolerance", "0.5", "--keep-zeros"), None),
    ("charge", "int16", "interpolate-signs", ("--tolerance", "40", "--keep-sign"), None),
    ("ratios", "float64", "interpolate-relative", ("--pointwise-relative", "1e-3"), math.nan),
    ("turns", "float32", "interpolate", ("--tolerance", "0.01", "--keyframe", "2"), None),
    ("widened", "float64", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), None),
    ("repeats", "float64", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), None),
    ("unpacked", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), None),
    ("packed", "float32", "lossless", ("--lossless",), None),
)
# Types that are stored without loss or not at all, in a dataset of its own.
TYPES = (
    ("ids", "int64", "lossless", ("--fill", "-9223372036854775806"), -9223372036854775806),
    ("keys", "uint64", "lossless", ("--fill", "18446744073709551615"), 18446744073709551615),
    ("mask", "bool", "lossless", (), None),
    ("half", "float16", "lossless", ("--lossless",), math.nan),
)
# Fields on three grids, in a dataset of their own; their dims come last unless they are DIMS. "floor" lies on the grid of
# "surface" and misses what it does.
GRIDS = (
    ("volume", "float32", "wavelet-zfp", ("--tolerance", "0.01"), math.nan),
    ("surface", "float32", "interpolate", ("--tolerance", "0.01", "--patch", "8x8x1", "--levels", "2"), math.nan, (37, 19, 1)),
    ("floor", "int16", "lossless", ("--fill", "-32768"), -32768, (37, 19, 1)),
    ("profile", "float64", "lossless", ("--lossless", "--patch", "1x1x4"), math.inf, (1, 1, 5)),
)
# Fields that do not depend on some axes, in a dataset of their own. The mask of "cloud" does.
PLANES = (
    ("column", "float32", "interpolate", ("--tolerance", "0.01"), None),
    ("wall", "float64", "wavelet-zfp", ("--tolerance", "0.01"), None),
    ("coast", "int16", "lossless", ("--fill", "-32768"), -32768),
    ("cloud", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), math.nan),
    ("sounding", "float64", "interpolate-relative", ("--pointwise-relative", "1e-3"), math.nan),
    ("line", "uint8", "interpolate", ("--tolerance", "3"), None),
)
SAME_ALONG = {"column": "z", "wall": "x", "coast": "y", "cloud": "z", "sounding": "yz", "line": "yz"}
# Fields with more patches in a subfile than a table without blocks has rows; the mask, too.
BLOCKS = (
    ("tiles", "int16", "lossless", ("--fill", "-32768", "--patch", "2x2x1", "--levels", "2"), -32768, (64, 144, 1)),
    ("points", "float32", "interpolate", ("--tolerance", "0.01", "--patch", "4x1x1"), None, (37, 19, 15)),
)
# Metadata of a NetCDF file besides samples, in a dataset of its own: an attribute of each kind for each owner.
ATTRIBUTES = {"text": "\u00b0C", "empty": "", "texts": ["a", "b"], "byte": "i1 -128", "numbers": "f4 0.1 0.2", "double": "f8 0.1",
              "wide": "i8 -9007199254740993", "natural": "u8 18446744073709551615"}
# With head and catalogue, which those from before do not have.
CATALOGUE = (
    ("near", "float32", "interpolate", ("--tolerance", "0.01"), None, (9, 7, 3)),
    ("holes", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), math.nan, (9, 7, 3)),
    ("turns", "float32", "interpolate", ("--tolerance", "0.01", "--keyframe", "2"), None, (9, 7, 3)),
    ("counts", "int16", "lossless", ("--fill", "-32768"), -32768, (9, 7, 3)),
)
# The same, with both steps in a pack: a field with a mask, and one that refers to the step before.
PACKED = CATALOGUE[:3]
# With payload in order coarse: a mask, layers, and a step that refers to the one before.
COARSE = (
    ("holes", "float32", "wavelet-zfp", ("--relative", "1e-3"), math.nan),
    ("ladder", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), None),
    ("turns", "float32", "interpolate", ("--tolerance", "0.01", "--keyframe", "2"), None),
    ("counts", "int16", "lossless", ("--fill", "-32768"), -32768),
)
# So large a step that it has a coarse object, with the mask.
OBJECTS = (("holes", "float32", "wavelet-zfp", ("--relative", "1e-6", "--patch", "16x16x16"), math.nan, (80, 64, 36)),)
# With a head that has the steps as runs. Those of the other datasets are from before.
RUNS = CATALOGUE[:1]
# So many fields that their records are in sections of step.json.
WIDE = tuple((f"f{number:02}", "float32", "interpolate", ("--relative-layers", "1e-1,1e-3,exact"), math.nan if number % 8 == 5 else None,
              (9, 7, 3)) for number in range(32))
WRITTEN = {NEWEST: FIELDS, f"{NEWEST}-catalogue": CATALOGUE, f"{NEWEST}-types": TYPES, f"{NEWEST}-grids": GRIDS,
           f"{NEWEST}-planes": PLANES, f"{NEWEST}-pack": PACKED, f"{NEWEST}-blocks": BLOCKS, f"{NEWEST}-attributes": ATTRIBUTES,
           f"{NEWEST}-wide": WIDE, f"{NEWEST}-coarse": COARSE, f"{NEWEST}-objects": OBJECTS,
           f"{NEWEST}-runs": RUNS}
BY_COARSE_LEVELS = (COARSE, OBJECTS)
CHOOSE_THE_CODER = {"--keep-zeros", "--keep-sign", "--pointwise-relative"}
LETTERS = {"float32": "f", "float64": "d", "int16": "h", "int32": "i", "uint8": "B", "uint32": "I",
           "int64": "q", "uint64": "Q", "bool": "?", "float16": "e"}


def coders():
    """Names of the coders of this build, from the error message for a wrong one."""
    command = [BIN / "quarry-write", __file__, "--dims", "1", "--type", "uint8", "--tolerance", "1", "--codec", "?",
               "--offset", str(os.path.getsize(__file__) - 1), "--output", "none.quarry"]
    errors = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return re.search(r"knows ([\w, -]+)", errors)[1].split(", ")


def float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


# Changes of the samples of some fields, in operations that every machine rounds alike.
CHANGES = {
    "repeats": lambda value: 1 / (value + 7),  # few numbers, multiples of nothing
    "unpacked": lambda value: float32(float32(round(64 * value) * 0.001) - 10),  # as programs do with packed integers
}
CHANGES["packed"] = CHANGES["unpacked"]
# Numbers that float64 does not hold, and integers of both signs.
CHANGES["ids"] = lambda value: (value - 100) * (1 << 53) + 1
CHANGES["keys"] = lambda value: (1 << 63) + value
CHANGES["mask"] = lambda value: value % 2 == 1


def source(step, field, kind, hole, dims):
    """A field with a smooth part, a front and a constant corner: every way in which a patch can be stored."""
    values = []
    for k in range(dims[2]):
        for j in range(dims[1]):
            for i in range(dims[0]):
                x, y, z = (0 if axis in SAME_ALONG.get(field, "") else at for axis, at in zip("xyz", (i, j, k)))
                # Multiples of 1/64 are exact in float32, whatever the machine's sine does in its last bit.
                value = round(64 * (math.sin(0.3 * x + step) + 0.1 * y * z)) / 64
                value = 293.0 if x >= 32 else value + (5.0 if x + y > 30 else 0.0)
                if not kind.startswith("float"):
                    value = min(max(int(value * 16) + 20, 0), 250)
                value = CHANGES.get(field, lambda same: same)(value)
                if field == "cloud":
                    x, y, z = i, j, k
                # A whole patch, parts of others and single samples.
                missing = (x < 20 and 6 <= y < 17 and z < 4) or (x + 3 * y + 5 * z + step) % 29 == 0
                values.append(hole if hole is not None and missing else value)
    return struct.pack(f"<{len(values)}{LETTERS[kind]}", *values)


def give_attributes(owner):
    import numpy
    for name, value in ATTRIBUTES.items():
        kind, *numbers = value.split() if isinstance(value, str) and value[2:3] == " " else [None]
        made = [numpy.dtype(kind).type(number) for number in numbers] if kind else value
        owner.setncattr(name, made[0] if kind and len(made) == 1 else made)


def write_attributes(folder):
    """A map that changes along "time", on float32 latitudes and at places that have names."""
    import netCDF4
    import numpy
    path = folder / "golden.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", 2), ("lat", 5), ("lon", 8)):
            file.createDimension(name, length)
        time = file.createVariable("time", "f8", ("time",))
        time[:] = numpy.arange(2)
        time.units, time.calendar = "days since 2001-01-01", "noleap"
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:] = numpy.linspace(-60, 60, 5)
        lat.units = "degrees_north"
        field = file.createVariable("t", "f4", ("time", "lat", "lon"))
        field[:] = numpy.arange(80).reshape(2, 5, 8)
        place = file.createVariable("lon", str, ("lon",))
        place[:] = numpy.array(["Oslo", "", "K\u00f6ln", *"abcde"], object)
        file.createDimension("letters", 5)
        file.createVariable("region", "S1", ("letters",))[:] = numpy.array(list("north"), "S1")
        field.coordinates = "region"
        for owner in (file, time, lat, field, place):
            give_attributes(owner)
    subprocess.run([BIN / "quarry-write", path, "--output", folder / "golden.quarry", "--lossless"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "golden.quarry"


def write(folder, fields):
    """The golden dataset, by quarry-write: two steps, every coder, with and without missing samples. One step of very many fields."""
    folder.mkdir()
    if fields is ATTRIBUTES:
        return write_attributes(folder)
    dataset = folder / "golden.quarry"
    known = coders()
    for field, kind, coder, options, hole, *own_dims in fields:
        if coder not in known:
            continue
        dims = own_dims[0] if own_dims else DIMS
        inputs = []
        for step in range(1 if fields is WIDE else 2):
            ending = "" if kind == "bool" else f"-{kind.capitalize()}"
            path = folder / f"golden{step}-{field}-[{dims[0]}-{dims[1]}-{dims[2]}]{ending}.raw"
            path.write_bytes(source(step, field, kind, hole, dims))
            inputs.append(path)
        command = [BIN / "quarry-write", *inputs, "--output", dataset, *options, "--files", "2"]
        # A name like the others' ends in digits.
        command += ["--type", kind, "--dims", "x".join(map(str, dims)), "--field", field] if kind == "bool" else []
        command += [] if CHOOSE_THE_CODER & set(options) else ["--codec", coder]
        command += ["--append"] if dataset.exists() else ["--order", "coarse" if fields in BY_COARSE_LEVELS else "level"]
        command += [] if dataset.exists() or "--patch" in options else ["--patch", "16x8x4"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if fields is PACKED:
        subprocess.run([BIN / "quarry", "pack", dataset], check=True, stdout=subprocess.DEVNULL)
    return dataset


def digests(dataset, folder):
    """Hash of every field, step and level as `quarry get` writes them, and of the layers before the last."""
    described = json.loads(subprocess.run([BIN / "quarry", "info", dataset, "--json"], check=True, capture_output=True).stdout)
    lines = []
    for field in described["fields"]:
        rougher = range(len(field.get("rougher_layers", [])))
        for step in described["steps"]:
            for level in range(len(field["levels"])):
                for layer in [(), *(("--layer", str(layer)) for layer in rougher)]:
                    out = folder / "out.raw"
                    subprocess.run([BIN / "quarry", "get", dataset, "--field", field["name"], "--step", str(step), "--level", str(level), *layer,
                                    "--output", out], check=True, stdout=subprocess.DEVNULL)
                    lines.append(" ".join([field["name"], str(step), str(level), *layer[1:], hashlib.sha256(out.read_bytes()).hexdigest()]))
    return "\n".join(lines) + "\n"


def attributes(dataset):
    """Attributes in `quarry info`: of the dataset, of fields, time and axes."""
    described = json.loads(subprocess.run([BIN / "quarry", "info", dataset, "--json"], check=True, capture_output=True).stdout)
    said = {"dataset": described["attributes"], "fields": [field["attributes"] for field in described["fields"]],
            "time": described["time_attributes"], "axes": [grid["axis_attributes"] for grid in described["grids"]],
            "texts": described["texts"]}
    return json.dumps(said, indent=1) + "\n"


def is_of_catalogue(path):
    return path.name in ("head", ".partial-catalogue-is-current") or path.parts[0] == "catalogue"


def files(folder, with_catalogue):
    found = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return [path for path in found if with_catalogue or not is_of_catalogue(path)]


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        if sys.argv[1:2] == ["--update"]:
            target = HERE / "golden" / sys.argv[2]
            target.mkdir(parents=True)
            write(scratch / "new", WRITTEN[sys.argv[2]]).rename(target / "golden.quarry")
            (target / "digests.txt").write_text(digests(target / "golden.quarry", scratch))
            if WRITTEN[sys.argv[2]] is ATTRIBUTES:
                (target / "attributes.json").write_text(attributes(target / "golden.quarry"))
            return 0
        failures = 0
        for version in sorted((HERE / "golden").iterdir()):
            if digests(version / "golden.quarry", scratch) != (version / "digests.txt").read_text():
                print(f"{version.name}: samples differ from those of the release")
                failures += 1
            said = version / "attributes.json"
            if said.exists() and attributes(version / "golden.quarry") != said.read_text():
                print(f"{version.name}: attributes differ from those of the release")
                failures += 1
            subprocess.run([BIN / "quarry", "verify", version / "golden.quarry"], check=True, stdout=subprocess.DEVNULL)
        for version, fields in WRITTEN.items():
            written = write(scratch / version, fields)
            golden = HERE / "golden" / version / "golden.quarry"
            has_catalogue = (golden / "head").exists()
            expected = files(golden, has_catalogue)
            of_version_4 = has_catalogue and (golden / "head").read_bytes()[8] == 4
            same = expected == files(written, has_catalogue) and all(
                filecmp.cmp(golden / f, written / f, shallow=False) for f in expected
                if not (of_version_4 and str(f) == "head"))
            if not same:
                print(f"the writer no longer produces {version} byte for byte: a change of format needs a new version and "
                      "docs/format.md")
                failures += 1
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
