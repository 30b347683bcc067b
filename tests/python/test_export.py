"""Dataset.export: every format holds the decoded samples, and an interruption costs nothing that was done."""

import base64
import json
import math
import re
import subprocess
import sys
import threading
import unittest.mock
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import h5py
import netCDF4
import zarr
from python_testing import PACKAGE, STEPS, Package, np, qt, quarry

from quarry import _export, _export_formats

SUFFIXES = (".nc", ".h5", ".zarr", ".vti", ".npy")
FIELDS = ("p", "m", "k")
BOX = ((3, 20), (1, 33), (5, 44))
BOX_TEXT = "5:44,1:33,3:20"


def paths_of(path, steps=STEPS):
    if path.suffix != ".vti" or len(steps) == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{step}.vti") for step in steps]


def plain(value):
    """Attributes of all libraries alike."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return value.decode() if isinstance(value, bytes) else value


class Read:
    """Contents of a file, by the library of its format: arrays, their attributes, coordinates, attributes of the
    whole."""

    def __init__(self, path, field, steps=STEPS):
        self.attrs, self.coords, self.units = {}, {}, {}
        getattr(self, path.suffix[1:])(path, field, steps)
        self.attrs = {name: plain(value) for name, value in self.attrs.items()}
        self.whole = {name: plain(value) for name, value in self.whole.items()}

    def nc(self, path, field, steps):
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            self.array, self.dims = file[field][...], file[field].dimensions
            self.attrs = {name: file[field].getncattr(name) for name in file[field].ncattrs()}
            self.whole = {name: file.getncattr(name) for name in file.ncattrs()}
            for name in self.dims:
                self.coords[name], self.units[name] = file[name][...], getattr(file[name], "units", "")

    def h5(self, path, field, steps):
        with h5py.File(path) as file:
            self.array, self.dims = file[field][...], tuple(dim[0].name.strip("/") for dim in file[field].dims)
            self.attrs = {name: value for name, value in file[field].attrs.items() if name != "DIMENSION_LIST"}
            self.whole = dict(file.attrs)
            for name in self.dims:
                self.coords[name], self.units[name] = file[name][...], file[name].attrs.get("units", "")

    def zarr(self, path, field, steps):
        group = zarr.open_consolidated(str(path))
        self.array, self.dims = group[field][...], group[field].metadata.dimension_names
        self.attrs, self.whole = dict(group[field].attrs), dict(group.attrs)
        if self.array.dtype.kind == "f":
            self.attrs["_FillValue"] = group[field].fill_value
        for name in self.dims:
            self.coords[name], self.units[name] = group[name][...], group[name].attrs.get("units", "")

    def npy(self, path, field, steps):
        self.array = np.load(path)
        said = json.loads(path.with_name(path.name + ".json").read_text())
        self.dims, self.attrs, self.whole = tuple(said["dimensions"]), said["attributes"], said["global_attributes"]
        assert said["field"] == field
        for name in self.dims:
            self.coords[name] = np.array(said["coordinates"][name]["values"])
            self.units[name] = said["coordinates"][name].get("units", "")

    def vti(self, path, field, steps):
        files = [parse_vti(one) for one in paths_of(path, steps)]
        self.array, self.dims = np.stack([arrays[field] for arrays, _, _ in files]), ("step", "z", "y", "x")
        _, said, axes = files[0]
        self.attrs = {name.removeprefix(f"{field}."): value for name, value in said.items() if name.startswith(f"{field}.")}
        self.whole = {name: value for name, value in said.items() if "." not in name}
        self.coords = {"step": np.array([one["step"] for _, one, _ in files]), **axes}
        self.units = {"step": "", **{axis: said.get(f"{axis}.units", "") for axis in "zyx"}}


def parse_vti(path):
    """Arrays [z, y, x], attributes, positions."""
    data = path.read_bytes()
    mark = data.index(b'<AppendedData encoding="raw">')
    start = data.index(b"_", mark + 29) + 1
    root = ElementTree.fromstring(data[:mark] + b"</VTKFile>")
    assert data.endswith(b"\n</AppendedData>\n</VTKFile>\n")
    assert root.attrib["byte_order"] == "LittleEndian" and root.attrib["header_type"] == "UInt64"
    image = root.find("ImageData")
    extent = [int(number) for number in image.attrib["WholeExtent"].split()]
    assert image.find("Piece").attrib["Extent"] == image.attrib["WholeExtent"]
    shape = tuple(end + 1 for end in extent[1::2])[::-1]
    types = {"Float": "f", "Int": "i", "UInt": "u"}

    def dtype(one):
        letters, bits = re.fullmatch("([A-Za-z]+)([0-9]+)", one.attrib["type"]).groups()
        return np.dtype(f"<{types[letters]}{int(bits) // 8}")

    arrays, attributes = {}, {}
    for one in image.find("Piece/PointData"):
        at = start + int(one.attrib["offset"])
        size = int.from_bytes(data[at:at + 8], "little")
        assert size == math.prod(shape) * dtype(one).itemsize
        arrays[one.attrib["Name"]] = np.frombuffer(data[at + 8:at + 8 + size], dtype(one)).reshape(shape)
    for one in image.find("FieldData"):
        if one.attrib["type"] == "String":
            codes = bytes(map(int, one.text.split()))
            assert codes[-1] == 0
            attributes[one.attrib["Name"]] = codes[:-1].decode()
        else:
            values = (np.array(one.text.split(), int) if one.attrib["format"] == "ascii" else
                      np.frombuffer(base64.b64decode(one.text)[8:], dtype(one)))
            attributes[one.attrib["Name"]] = values[0] if len(values) == 1 else values
    origin, spacing = ([float(number) for number in image.attrib[name].split()][::-1] for name in ("Origin", "Spacing"))
    axes = {axis: origin[number] + spacing[number] * np.arange(shape[number]) for number, axis in enumerate("zyx")}
    return arrays, attributes, axes


class Native:
    """The C++ client's dataset, with a count of what is read, and something that happens before a read."""

    def __init__(self, native, before=lambda count: None):
        self._native, self._before, self.count = native, before, 0

    def __getattr__(self, name):
        return getattr(self._native, name)

    def read(self, *arguments):
        self._before(self.count)
        self.count += 1
        return self._native.read(*arguments)


class Export(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.axes = cls.data / "axes.quarry"
        array = qt.turbulent((12, 10, 8), name="axes").reshape(8, 10, 12)
        quarry.write(cls.axes, array, field="x", tolerance=1e-3, units="Pa", spacing=(0.5, 2, 3), origin=(1, 2, 3), time=0.25)

    def setUp(self):
        super().setUp()
        # Small boxes, so that there are several.
        for module, name, value in ((_export, "_BOX_BYTES", 1 << 13), (_export_formats, "_ZARR_CHUNK_BYTES", 1 << 13)):
            patcher = unittest.mock.patch.object(module, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)

    def get(self, field, step, *options):
        """By the command."""
        output = self.tmp / "wanted.npy"
        qt.succeed("quarry", "get", self.path, "--field", field, "--step", step, "--output", output, *options)
        return np.load(output)

    @staticmethod
    def units(dataset, path, field):
        """How many boxes there are."""
        kind = _export_formats.format_of(path, None)
        return len(list(_export._units(kind(path, _export.layout_of(dataset, field, None, None, None, None, None, kind)))))

    def assert_nothing_left(self, *finals):
        """No more than these in the folder of the test."""
        names = {path.name for path in self.tmp.iterdir()} - {"wanted.npy"}
        self.assertEqual(names, {path.name for path in finals})

    def test_every_format_holds_the_decoded_samples(self):
        for suffix in SUFFIXES:
            for fields in [FIELDS] if suffix != ".npy" else [[name] for name in FIELDS]:
                path = self.tmp / f"{fields[0]}{suffix}"
                with self.subTest(path.name), quarry.open(self.path) as dataset:
                    written = dataset.export(path, fields=fields)
                    self.assertEqual(written[:len(paths_of(path))], paths_of(path))
                    for name in fields:
                        read = Read(path, name)
                        self.assertEqual(read.array.dtype, self.decoded[name].dtype)
                        np.testing.assert_array_equal(read.array, self.decoded[name])

    def test_levels_and_boxes(self):
        for suffix in SUFFIXES:
            for level in (0, 1, 2):
                path = self.tmp / f"{level}{suffix}"
                for name in FIELDS:
                    with self.subTest(suffix=suffix, level=level, field=name), quarry.open(self.path) as dataset:
                        dataset.export(path, fields=name, steps=[5, 9], box=BOX, level=level, overwrite=True)
                        read = Read(path, name, (5, 9))
                        wanted = [self.get(name, step, "--box", BOX_TEXT, "--level", level) for step in (5, 9)]
                        np.testing.assert_array_equal(read.array, wanted)
                        for (begin, end), axis in zip(BOX, "zyx"):
                            positions = [place for place in range(begin, end) if place % (1 << level) == 0]
                            np.testing.assert_array_equal(read.coords[axis], positions)
                        np.testing.assert_array_equal(read.coords["step"], [5, 9])
                        self.assertEqual((read.attrs["level"], read.whole["level"]), (level, level))
                        self.assertEqual(read.whole["box"], [3, 20, 1, 33, 5, 44])

    def test_attributes(self):
        steps = qt.info(self.path)["steps"]
        for suffix in SUFFIXES:
            path = self.tmp / f"a{suffix}"
            for name in FIELDS:
                with self.subTest(suffix=suffix, field=name), quarry.open(self.path) as dataset:
                    dataset.export(path, fields=name, level=1, overwrite=True)
                    read = Read(path, name)
                    worst = max(next(one for one in step.fields if one.name == name).levels[1].max_error
                                for step in dataset.native.steps())
                    self.assertEqual(read.attrs["max_error"], worst)
                    self.assertEqual(read.attrs["tolerance"], 0 if name == "k" else 1e-3)
                    self.assertEqual(read.attrs["coder"], dataset[name].attrs["coder"])
                    if name == "k":
                        self.assertEqual((read.attrs["_FillValue"], read.attrs["lossless"]), (-999, 1))
                    elif suffix != ".npy":
                        self.assertTrue(math.isnan(read.attrs["_FillValue"]))
                    self.assertEqual(read.whole["source"], str(self.path))
                    self.assertEqual(read.whole["quarry_version"], quarry.__version__)
                    self.assertRegex(read.whole["created_by"], "quarry")
                    self.assertRegex(read.whole["date"], "^20..-..-..T..:..:..")
        self.assertEqual(len(steps), 3)

    def test_units_and_positions(self):
        """A field that is called like an axis makes that give way."""
        for suffix in SUFFIXES:
            path = self.tmp / f"units{suffix}"
            with self.subTest(suffix), quarry.open(self.axes) as dataset:
                dataset.export(path, box=((2, 8), (1, 9), (4, 12)), level=1)
                read = Read(path, "x", (0,))
                self.assertEqual(read.attrs["units"], "Pa")
                width = "x" if suffix == ".vti" else "x_axis"
                self.assertEqual(tuple(read.dims)[1:], ("z", "y", width))
                np.testing.assert_allclose(read.coords["z"], [2, 3, 4])
                np.testing.assert_allclose(read.coords["y"], [6, 10, 14, 18])
                np.testing.assert_allclose(read.coords[width], [15, 21, 27, 33])
        with h5py.File(self.tmp / "units.h5") as file:
            self.assertEqual(file["time"][...].tolist(), [0.25])
        self.assertEqual(parse_vti(self.tmp / "units.vti")[1]["TimeValue"], 0.25)

    def test_xarray_reads_them(self):
        import xarray as xr
        with quarry.open(self.path) as dataset:
            for suffix, engine in ((".nc", "netcdf4"), (".zarr", "zarr")):
                path = self.tmp / f"x{suffix}"
                dataset.export(path)
                with self.subTest(engine), xr.open_dataset(path, engine=engine) as opened:
                    np.testing.assert_array_equal(opened["m"], self.decoded["m"])
                    masked = np.where(self.decoded["k"] == -999, np.nan, self.decoded["k"])
                    np.testing.assert_array_equal(opened["k"], masked)
                    self.assertEqual(opened["k"].sel(step=5, z=3, y=2, x=1).item(), self.decoded["k"][1, 3, 2, 1])

    def test_a_fill_value_of_floats_becomes_nan(self):
        path = self.tmp / "fill.quarry"
        array = qt.turbulent((20, 18, 16), name="fill").reshape(16, 18, 20)
        array[2:5, 3:9] = -9999
        quarry.write(path, array, field="f", lossless=True, fill=-9999)
        with quarry.open(path) as dataset:
            for suffix in SUFFIXES:
                with self.subTest(suffix):
                    dataset.export(self.tmp / f"fill{suffix}")
                    read = Read(self.tmp / f"fill{suffix}", "f", (0,))
                    np.testing.assert_array_equal(read.array[0], np.where(array == -9999, np.nan, array))

    def test_a_step_without_the_field(self):
        path = self.tmp / "gaps.quarry"
        arrays = {name: qt.turbulent((20, 18, 16), name=name).reshape(16, 18, 20) for name in "ab"}
        counts = np.arange(16 * 18 * 20, dtype="i4").reshape(16, 18, 20)
        quarry.write(path, {**arrays, "n": counts}, lossless=True, step=0, patch=8)
        quarry.write(path, {"a": -arrays["a"]}, lossless=True, step=4, mode="append")
        with quarry.open(path) as dataset:
            for suffix in (".nc", ".h5", ".zarr"):
                with self.subTest(suffix):
                    output = self.tmp / f"gaps{suffix}"
                    dataset.export(output, fields=["a", "b"])
                    read = Read(output, "b", (0, 4))
                    np.testing.assert_array_equal(read.array[0], arrays["b"])
                    self.assertTrue(np.isnan(read.array[1]).all())
                    self.assertEqual(read.attrs["comment"], "missing in 1 of 2 steps, which do not hold it")
                    np.testing.assert_array_equal(Read(output, "a", (0, 4)).array[1], -arrays["a"])
                    with self.assertRaisesRegex(ValueError, r"'n' is not in the steps \[4\], and has no fill value"):
                        dataset.export(self.tmp / f"n{suffix}")
            dataset.export(self.tmp / "b.npy", fields="b")
            self.assertEqual(np.load(self.tmp / "b.npy").shape, (1, 16, 18, 20))
            with self.assertRaisesRegex(quarry.Error, r"none of the steps \[4\] .* has the field 'b'"):
                dataset.export(self.tmp / "none.nc", fields=["a", "b"], steps=4)

    def test_within_an_error(self):
        with quarry.open(self.path) as dataset:
            allowed = max(field.levels[1].max_error for step in dataset.native.steps() for field in step.fields
                          if field.name == "p")
            dataset.export(self.tmp / "p.nc", fields="p", max_error=allowed)
            self.assertEqual(Read(self.tmp / "p.nc", "p").whole["level"], 1)
            dataset.export(self.tmp / "p2.nc", fields=["p", "m"], max_error={"p": allowed * 0.999})
            self.assertEqual(Read(self.tmp / "p2.nc", "p").whole["level"], 0)
            with self.assertRaisesRegex(quarry.Error, "no level .* keeps an error of 1e-09"):
                dataset.export(self.tmp / "p3.nc", fields="p", max_error=1e-9)

    def test_a_server_gives_the_same(self):
        for suffix in SUFFIXES:
            for name in ("m", "k"):
                reads = []
                for number, target in enumerate((str(self.path), self.server.target(self.path))):
                    path = self.tmp / f"{name}{number}{suffix}"
                    with quarry.open(target) as dataset:
                        dataset.export(path, fields=name, level=1, box=BOX)
                    reads.append(Read(path, name))
                    self.assertEqual(reads[-1].whole.pop("source"), target)
                    reads[-1].whole.pop("date")
                with self.subTest(suffix=suffix, field=name):
                    np.testing.assert_array_equal(reads[0].array, reads[1].array)
                    self.assertEqual(repr(reads[0].attrs), repr(reads[1].attrs))
                    self.assertEqual(reads[0].whole, reads[1].whole)

    # ---- Interruptions

    def test_resume(self):
        """Finished steps are not read again, after an exception as after Ctrl-C."""
        def stop(kind, at):
            def before(count):
                if count == at:
                    raise kind("enough")
            return before

        for suffix in SUFFIXES:
            fields = FIELDS if suffix != ".npy" else ["m"]
            path = self.tmp / f"r{suffix}"
            with self.subTest(suffix), quarry.open(self.path) as dataset:
                whole = dataset._native
                counter = dataset._native = Native(whole)
                dataset.export(self.tmp / f"whole{suffix}", fields=fields)
                total = counter.count
                self.assertGreater(total, 10)
                for kind, at in ((KeyboardInterrupt, 0), (KeyboardInterrupt, 4), (ArithmeticError, 5)):
                    dataset._native = Native(whole, stop(kind, at))
                    with self.assertRaises(kind):
                        dataset.export(path, fields=fields, resume=True)
                    self.assertFalse(any(one.exists() for one in paths_of(path)))
                with self.assertRaisesRegex(quarry.Error, "begun with other .*steps.*leave out resume") as raised:
                    dataset.export(path, fields=fields, steps=3, resume=True)
                self.assertEqual(raised.exception.code, "FAILED_PRECONDITION")
                counter = dataset._native = Native(whole)
                dataset.export(path, fields=fields, resume=True)
                self.assertEqual(counter.count, total - 9)
                for name in fields:
                    np.testing.assert_array_equal(Read(path, name).array, self.decoded[name])
        self.assertFalse([one.name for one in self.tmp.iterdir() if ".part" in one.name])

    def test_without_resume_it_begins_anew(self):
        path = self.tmp / "r.nc"
        with quarry.open(self.path) as dataset:
            whole = dataset._native
            dataset._native = Native(whole, lambda count: 1 // (3 - count))
            with self.assertRaises(ZeroDivisionError):
                dataset.export(path, fields="p")
            counter = dataset._native = Native(whole)
            dataset.export(path, fields="p")
            first = counter.count
            dataset.export(self.tmp / "other.nc", fields="p")
            self.assertEqual(counter.count, 2 * first)
        self.assert_nothing_left(path, self.tmp / "other.nc")

    def test_a_killed_export_is_continued(self):
        """Nothing of the process is left to tidy up."""
        code = ("import os, signal, sys; sys.path[:0] = sys.argv[1:3]; from python_testing import quarry\n"
                "from test_export import Native, _export, _export_formats\n"
                "_export._BOX_BYTES, _export._RECORD_BYTES, _export_formats._ZARR_CHUNK_BYTES = 1 << 13, 1 << 14, 1 << 13\n"
                "dataset = quarry.open(sys.argv[3])\n"
                "def before(count):\n"
                "    if count == 11: os.kill(os.getpid(), signal.SIGKILL)\n"
                "dataset._native = Native(dataset.native, before)\n"
                "dataset.export(sys.argv[4], fields='m')\n")
        for suffix in SUFFIXES:
            path = self.tmp / f"killed{suffix}"
            with self.subTest(suffix), quarry.open(self.path) as dataset:
                here = Path(__file__).parent
                ended = subprocess.run([sys.executable, "-c", code, here, PACKAGE, self.path, path], capture_output=True, text=True)
                self.assertEqual(ended.returncode, -9, ended.stderr)
                self.assertFalse(any(one.exists() for one in paths_of(path)))
                counter = dataset._native = Native(dataset._native)
                dataset.export(path, fields="m", resume=True)
                self.assertLess(counter.count, self.units(dataset, path, "m") - 6)
                np.testing.assert_array_equal(Read(path, "m").array, self.decoded["m"])

    def test_a_full_disk(self):
        """A process that may not write large files, from the beginning or from the sixth box on, meets one error, and
        nothing has the final name."""
        code = ("import resource, signal, sys; sys.path[:0] = sys.argv[1:3]; from python_testing import quarry\n"
                "from test_export import Native, _export, _export_formats\n"
                "_export._BOX_BYTES = _export_formats._ZARR_CHUNK_BYTES = 1 << 13\n"
                "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                "path, limit, first = sys.argv[4], int(sys.argv[5]), int(sys.argv[6])\n"
                "dataset = quarry.open(sys.argv[3])\n"
                "def before(count):\n"
                "    if count == first: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
                "if first < 0: before(first)\n"
                "dataset._native = Native(dataset.native, before)\n"
                "try: dataset.export(path, fields='p')\n"
                "except quarry.Error as error: print(error.code, error)\n")
        for suffix in SUFFIXES:
            # Chunks of Zarr are files of their own.
            limit = 1 << 10 if suffix == ".zarr" else 1 << 16
            for first in (-1, 6):
                path = self.tmp / f"full{first}{suffix}"
                with self.subTest(path.name), quarry.open(self.path) as dataset:
                    answer = subprocess.run(
                        [sys.executable, "-c", code, Path(__file__).parent, PACKAGE, self.path, path, str(limit), str(first)],
                        capture_output=True, text=True)
                    self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                    self.assertRegex(answer.stdout, "^INTERNAL cannot write .*full.*resume=True\n$")
                    self.assertIn("File too large", answer.stdout)
                    self.assertFalse(any(one.exists() for one in paths_of(path)))
                    counter = dataset._native = Native(dataset.native)
                    dataset.export(path, fields="p", resume=True)
                    self.assertLess(counter.count, 1 << 30 if first < 0 else self.units(dataset, path, "p") - first + 1)
                    np.testing.assert_array_equal(Read(path, "p").array, self.decoded["p"])

    # ---- What is there already

    def test_a_target_is_replaced_on_demand_only(self):
        for suffix in SUFFIXES:
            path = self.tmp / f"there{suffix}"
            with self.subTest(suffix), quarry.open(self.path) as dataset:
                dataset.export(path, fields="p", steps=3)
                for resume in (False, True):
                    with self.assertRaisesRegex(quarry.Error, "exists; .*overwrite=True") as raised:
                        dataset.export(path, fields="m", steps=3, resume=resume)
                    self.assertEqual(raised.exception.code, "ALREADY_EXISTS")
                whole = dataset._native
                dataset._native = Native(whole, lambda count: 1 // (2 - count))
                with self.assertRaises(ZeroDivisionError):
                    dataset.export(path, fields="m", steps=3, overwrite=True)
                np.testing.assert_array_equal(Read(path, "p", (3,)).array[0], self.decoded["p"][0])
                dataset._native = whole
                dataset.export(path, fields="m", steps=3, overwrite=True, resume=True)
                np.testing.assert_array_equal(Read(path, "m", (3,)).array[0], self.decoded["m"][0])
        finals = [self.tmp / f"there{suffix}" for suffix in SUFFIXES]
        self.assert_nothing_left(*finals, self.tmp / "there.npy.json")

    def test_a_folder_of_others_stays(self):
        folder = self.tmp / "mine.zarr"
        folder.mkdir()
        (folder / "thesis.txt").write_text("all of it")
        with quarry.open(self.path) as dataset, self.assertRaisesRegex(quarry.Error, "is a folder, and no group of Zarr"):
            dataset.export(folder, overwrite=True)
        self.assertEqual((folder / "thesis.txt").read_text(), "all of it")

    def test_two_exports_at_a_time(self):
        path = self.tmp / "two.nc"
        reading, go_on = threading.Event(), threading.Event()

        def before(count):
            reading.set()
            go_on.wait(qt.TIMEOUT)

        with quarry.open(self.path) as slow, quarry.open(self.path) as dataset:
            slow._native = Native(slow._native, before)
            thread = threading.Thread(target=slow.export, args=(path,), kwargs={"fields": "p"})
            thread.start()
            try:
                self.assertTrue(reading.wait(qt.TIMEOUT))
                with self.assertRaisesRegex(quarry.Error, "another process exports"):
                    dataset.export(path, fields="m")
            finally:
                go_on.set()
                thread.join()
        np.testing.assert_array_equal(Read(path, "p").array, self.decoded["p"])

    def test_what_cannot_be_exported(self):
        uneven = self.tmp / "uneven.quarry"
        import xarray as xr
        quarry.write(uneven, xr.DataArray(np.zeros((3, 4, 5), "f4"), {"z": [0.0, 1.0, 3.0]}, ("z", "y", "x")), field="u",
                     tolerance=1)
        with quarry.open(self.path) as dataset, quarry.open(uneven) as other:
            for error, text, given, arguments in (
                    (ValueError, "names no format; formats are netcdf", dataset, {"path": "a.xls"}),
                    (ValueError, "format 'excel' names no format", dataset, {"format": "excel"}),
                    (ValueError, "holds one field, and these are 3", dataset, {"path": "a.npy"}),
                    (KeyError, "no field .* it has p, m, k", dataset, {"fields": ["q"]}),
                    (quarry.Error, "has no step 4; it has 3 steps from 3 to 9", dataset, {"steps": [3, 4]}),
                    (ValueError, "no step to export", dataset, {"steps": []}),
                    (ValueError, "there is no level 9", dataset, {"level": 9}),
                    (ValueError, "only one of level and max_error", dataset, {"level": 1, "max_error": 1}),
                    (ValueError, r"\[0, 99\) along x", dataset, {"box": ((0, 1), (0, 1), (0, 99))}),
                    (ValueError, "no sample of level 1 lies", dataset, {"box": ((1, 2), (0, 9), (0, 9)), "level": 1}),
                    (quarry.Error, "there is no folder", dataset, {"path": "absent/a.nc"}),
                    (ValueError, "not evenly spaced along 'z'", other, {"path": "u.vti"})):
                with self.subTest(text), self.assertRaisesRegex(error, text):
                    path = self.tmp / arguments.pop("path", "a.nc")
                    given.export(path, **arguments)
        self.assert_nothing_left(uneven)

    # ---- Memory, the bar, the command

    def test_memory_is_bounded(self):
        """96 MiB of samples, 2 MiB at a time, by the largest memory of a process that has loaded all libraries."""
        code = ("import resource, sys; sys.path.insert(0, sys.argv[1]); import quarry\n"
                "from quarry import _export\n"
                "_export._BOX_BYTES, _export._RECORD_BYTES = 2 << 20, 4 << 20\n"
                "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
                "with quarry.open(sys.argv[2], threads=2) as dataset:\n"
                "    box = ((0, 64), (0, 128), (0, 128))\n"
                "    for suffix in sys.argv[4:]: dataset.export(sys.argv[3] + '/small' + suffix, box=box)\n"
                "    for suffix in sys.argv[4:]:\n"
                "        before = peak()\n"
                "        dataset.export(sys.argv[3] + '/large' + suffix)\n"
                "        print(suffix, peak() - before)\n")
        z, y, x = (np.arange(length, dtype="f4") for length in (96, 512, 512))
        array = np.sin(z / 31)[:, None, None] + np.cos(y / 47)[:, None] * np.sin(x / 13)
        quarry.write(self.tmp / "large.quarry", array, field="f", tolerance=1e-2, patch=32)
        answer = subprocess.run([sys.executable, "-c", code, PACKAGE, self.tmp / "large.quarry", self.tmp, *SUFFIXES], check=True,
                                capture_output=True, text=True)
        grown = dict(line.split() for line in answer.stdout.splitlines())
        self.assertEqual(list(grown), list(SUFFIXES))
        for suffix, mebibytes in grown.items():
            self.assertLess(int(mebibytes), 40, suffix)
        with h5py.File(self.tmp / "large.h5") as file:
            self.assertLessEqual(np.abs(file["f"][0, 40] - array[40]).max(), 1e-2)

    def test_progress(self):
        import io
        with quarry.open(self.path) as dataset, unittest.mock.patch("sys.stderr", io.StringIO()) as shown:
            dataset.export(self.tmp / "p.nc", fields="p", progress=True)
        self.assertRegex(shown.getvalue(), "p.nc: 100%")

    def test_a_library_that_is_not_there(self):
        for suffix, name in ((".nc", "netCDF4"), (".h5", "h5py"), (".zarr", "zarr")):
            with self.subTest(name), unittest.mock.patch.dict(sys.modules, {name: None}), quarry.open(self.path) as dataset, \
                    self.assertRaisesRegex(ImportError, f"pip install {name}"):
                dataset.export(self.tmp / f"a{suffix}")
        self.assert_nothing_left()

    def test_the_command(self):
        def command(*arguments):
            code = "import sys; sys.path.insert(0, sys.argv[1]); from quarry._export_command import main; sys.exit(main(sys.argv[2:]))"
            return subprocess.run([sys.executable, "-c", code, PACKAGE, *map(str, arguments)], capture_output=True, text=True)

        path = self.tmp / "c.h5"
        answer = command(self.path, path, "--fields", "m,k", "--steps", "5:", "--box", BOX_TEXT, "--level", 1)
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, f"{path}\n", ""))
        wanted = [self.get("m", step, "--box", BOX_TEXT, "--level", 1) for step in (5, 9)]
        np.testing.assert_array_equal(Read(path, "m").array, wanted)
        np.testing.assert_array_equal(Read(path, "m").coords["step"], [5, 9])
        answer = command(self.path, path)
        self.assertEqual(answer.returncode, 2)
        self.assertRegex(answer.stderr, "^quarry export: .* exists; .*--overwrite to replace it.*\n$")
        self.assertEqual(command(self.tmp / "absent.quarry", path).returncode, 3)
        self.assertEqual(command(self.path, path, "--box", "1:2").returncode, 2)
        answer = command("--help")
        self.assertRegex(answer.stdout, "Example:\n  quarry export ")
        self.assertEqual(answer.returncode, 0)


if __name__ == "__main__":
    qt.main()
