"""The first bytes of a file give its kind; raw files with something around their samples; NumPy's archives; VTK's
grids. The oracles are the programs that write these formats: numpy, gfortran, VTK, tifffile."""

import bz2
import gzip
import lzma
import os
import struct
import subprocess
import unittest
import zipfile

import numpy as np

import quarry_testing as qt
from test_inputs import Inputs, module

DIMS = (13, 7, 5)


class Formats(Inputs):
    def refuse(self, *arguments, code=qt.USAGE, says=()):
        outcome, dataset = self.write(*arguments, "--lossless")
        self.assert_one_line(outcome, code, *says)
        self.assertFalse(dataset.exists())

    def check(self, expected, *arguments, field=None):
        """Converts without loss; the dataset has exactly the samples of an array."""
        self.count = getattr(self, "count", 0) + 1
        dataset = self.convert(*arguments, "--lossless", name=f"{self.count}.quarry")
        described = qt.info(dataset)
        names = [f["name"] for f in described["fields"]]
        decoded = qt.get_array(dataset, self.tmp / "decoded.raw", expected.dtype.newbyteorder("<"), field=field or names[0])
        shape = tuple(reversed(described["dims"]))
        self.assertEqual(shape, (1,) * (3 - expected.ndim) + expected.shape)
        np.testing.assert_array_equal(decoded, expected.ravel())
        return described


class Kinds(Formats):
    def test_the_name_does_not_matter(self):
        field = qt.make_field(DIMS, "<f4", name="kinds")
        np.save(self.tmp / "a.npy", field)
        os.rename(self.tmp / "a.npy", self.tmp / "a.h5")
        self.check(field, self.tmp / "a.h5")
        tifffile, h5py, netcdf = module("tifffile"), module("h5py"), module("netCDF4")
        tifffile.imwrite(self.tmp / "image", field, photometric="minisblack")
        self.check(field, self.tmp / "image")
        with h5py.File(self.tmp / "plain", "w", userblock_size=1024) as file:
            file["p"] = field
        self.check(field, self.tmp / "plain")
        for format in "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4":
            path = self.tmp / f"wrfout_{format}_2019-07-04_12:00:00"
            with netcdf.Dataset(path, "w", format=format) as file:
                for name, n in zip("zyx", field.shape):
                    file.createDimension(name, n)
                file.createVariable("T", "f4", ("z", "y", "x"))[:] = field
                file["T"].units = "K"
            for name in path, f"{path}:T":
                with self.subTest(name=name):
                    self.assertEqual(self.check(field, name)["fields"][0]["units"], "K")

    def test_what_is_not_read_is_refused_by_name(self):
        raw = np.arange(24, dtype="<f4")
        raw.tofile(self.tmp / "raw")
        body = raw.tobytes()
        nifti = bytearray(352) + body
        nifti[:4], nifti[344:348] = struct.pack("<i", 348), b"n+1\0"
        kinds = {
            "a.grib": (b"GRIB\0\0\0\2" + body, "GRIB", 'engine="cfgrib"'),
            "b.fits": (b"SIMPLE  =                    T", "FITS", "astropy"),
            "c.nii": (bytes(nifti), "NIfTI", "nibabel"),
            "d.nii.gz": (gzip.compress(bytes(nifti)), "NIfTI", "nibabel"),
            "e": (gzip.compress(body), "gzip", "gunzip"),
            "f.raw": (bz2.compress(body), "bzip2", "bunzip2"),
            "g.dat": (lzma.compress(body), "xz", "unxz"),
            "h.dcm": (bytes(128) + b"DICM" + body, "DICOM", "SimpleITK"),
            "i.mat": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + body, "MATLAB", "-v7.3"),
            "j.png": (b"\x89PNG\r\n\x1a\n" + body, "PNG", "TIFF"),
            "k.jpg": (b"\xff\xd8\xff\xe0" + body, "JPEG", "TIFF"),
            "n.cdf": (b"\xcd\xf3\0\1\0\0\xff\xff" + body, "NASA CDF", "cdflib"),
            "o.ply": (b"ply\nformat ascii 1.0\n", "PLY", "array"),
            "p.cdl": (b"netcdf a {\n}\n", "CDL", "ncgen"),
            "l.pvd": (b'<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1">\n</VTKFile>', "Collection", "files"),
            "m.vtu": (b'<VTKFile type="UnstructuredGrid" version="1.0"></VTKFile>', "UnstructuredGrid", "ResampleToImage"),
        }
        for name, (content, kind, remedy) in kinds.items():
            with self.subTest(name=name):
                path = self.tmp / name
                path.write_bytes(content)
                given = ("--dims", f"{len(content)}x1x1", "--type", "uint8")
                for options in (), given:
                    self.refuse(path, *options, says=(name, kind, remedy, "--format raw"))
        # Unless the user insists.
        self.check(np.frombuffer(kinds["e"][0], "u1"), self.tmp / "e", "--format", "raw", "--type", "uint8", "--dims",
                   f"{len(kinds['e'][0])}x1x1")
        # Unknown bytes are raw, whatever the name; the first letters alone are not GRIB.
        self.check(raw.reshape(2, 3, 4), self.tmp / "raw", "--dims", "4x3x2", "--type", "float32")
        (self.tmp / "letters").write_bytes(b"GRIB" + body[4:])
        self.check(np.frombuffer(b"GRIB" + body[4:], "<f4"), self.tmp / "letters", "--dims", "24x1x1", "--type", "float32")

    def test_folders(self):
        for name, files, kind, remedy in (("a.zarr", {".zgroup": "{}"}, "Zarr", "open_zarr"), ("b", {"zarr.json": "{}"}, "Zarr", "open_zarr"),
                                          ("c.bp", {"md.idx": "", "data.0": ""}, "ADIOS2", "adios2"),
                                          ("plt00010", {"Header": "HyperCLaw-V1.1\n1\n"}, "AMReX", "covering_grid"),
                                          ("series", {"1": "\0" * 128 + "DICM"}, "DICOM", "SimpleITK")):
            with self.subTest(name=name):
                (self.tmp / name).mkdir()
                for file, content in files.items():
                    (self.tmp / name / file).write_text(content)
                self.refuse(self.tmp / name, says=(name, kind, remedy))


class Raw(Formats):
    RAW = ("--dims", "13x7x5", "--type", "float32")

    def test_samples_between_others(self):
        a, b = (qt.make_field(DIMS, "<f4", name=name) for name in "ab")
        path = self.tmp / "two.bin"
        path.write_bytes(b"head!" + a.tobytes() + b.tobytes())
        self.refuse(path, *self.RAW, says=("two.bin", f"{5 + 2 * a.nbytes} bytes", "--offset"))
        self.check(a, path, *self.RAW, "--offset", 5)
        self.check(b, path, *self.RAW, "--offset", 5 + a.nbytes)
        self.refuse(path, *self.RAW, "--offset", 6 + a.nbytes, says=("two.bin", "--offset"))

    PROGRAM = """
program write_records
  implicit none
  real(4) :: a(13, 7, 5)
  integer :: y, z
  open(1, file="in.raw", access="stream"); read(1) a; close(1)
  open(1, file="whole", form="unformatted"); write(1) a; close(1)
  open(1, file="planes", form="unformatted"); do z = 1, 5; write(1) a(:, :, z); end do; close(1)
  open(1, file="rows", form="unformatted"); do z = 1, 5; do y = 1, 7; write(1) a(:, y, z); end do; end do; close(1)
  open(1, file="big", form="unformatted", convert="big_endian"); write(1) a; close(1)
  open(1, file="behind", form="unformatted"); write(1) 13, 7, 5; write(1) a; write(1) -a; close(1)
end program
"""

    def test_records_of_fortran(self):
        """As gfortran writes them: with marks of 4 and of 8 bytes, and in parts of at most 100 bytes."""
        field = qt.make_field(DIMS, "<f4", name="records")
        (self.tmp / "write.f90").write_text(self.PROGRAM)
        for name, *flags in ("marks4",), ("marks8", "-frecord-marker=8"), ("parts", "-fmax-subrecord-length=100"):
            with self.subTest(name=name):
                folder = self.tmp / name
                folder.mkdir()
                field.tofile(folder / "in.raw")
                subprocess.run(["gfortran", *flags, self.tmp / "write.f90", "-o", folder / "program"], check=True)
                subprocess.run([folder / "program"], cwd=folder, check=True)
                records = (*self.RAW, "--records", "fortran")
                for file in "whole", "planes", "rows":
                    self.refuse(folder / file, *self.RAW, says=(file, "--records fortran"))
                    self.check(field, folder / file, *records)
                self.refuse(folder / "big", *self.RAW, says=("big", "--records fortran --byte-order big"))
                self.refuse(folder / "big", *records, says=("big", "--byte-order big"))
                self.check(field, folder / "big", *records, "--byte-order", "big")
                head = 12 + 2 * (8 if name == "marks8" else 4)
                self.refuse(folder / "behind", *records, says=("behind", "byte 0 has 12 bytes", "--offset"))
                self.check(field, folder / "behind", *records, "--offset", head)
                whole = (folder / "whole").stat().st_size
                dataset = self.convert(folder / "behind", *records, "--offset", head + whole, "--lossless", name=f"{name}.v.quarry")
                np.testing.assert_array_equal(qt.get_array(dataset, self.tmp / "a.raw", "<f4", field="behind"), -field.ravel())
                qt.succeed("quarry", "verify", dataset, "--against", folder / "behind", *records, "--offset", head + whole)

    def test_marks_that_are_wrong(self):
        field = qt.make_field(DIMS, "<f4", name="records")
        mark = struct.pack("<i", field.nbytes)
        path = self.tmp / "a.dat"
        for content, *says in ((mark + field.tobytes() + struct.pack("<i", 7), "byte 0 says 1820", "behind it 7"),
                               (mark + field.tobytes(), "no mark", "byte 1824"), (mark, "of 1820 bytes follows"), (b"", "no mark"),
                               (field.tobytes(), "a.dat"), (2 * (mark + field.tobytes() + mark), "1828 bytes behind", "--offset 0")):
            with self.subTest(says=says):
                path.write_bytes(content)
                self.refuse(path, *self.RAW, "--records", "fortran", says=("a.dat", *says))
        self.refuse(path, *self.RAW, "--records", "pascal", says=("pascal", "fortran"))


class Numpy(Formats):
    def test_archives(self):
        """Stored and deflated, in both orders, of every type; large archives have numbers of 64 bits."""
        arrays = {"a": qt.make_field(DIMS, "<f4", name="a"), "b": qt.make_field(DIMS, "<i2", name="b"),
                  "c": np.asfortranarray(qt.make_field(DIMS, ">f8", name="c")), "plane": qt.make_field(DIMS, "u1", name="d")[0]}
        np.savez(self.tmp / "stored.npz", **arrays, words=np.array(["x"]))
        np.savez_compressed(self.tmp / "deflated.npz", **arrays)
        with zipfile.ZipFile(self.tmp / "zip64.npz", "w") as archive:
            for name, array in arrays.items():
                with archive.open(name + ".npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array)
        for archive in "stored.npz", "deflated.npz", "zip64.npz":
            for name, array in arrays.items():
                with self.subTest(archive=archive, name=name):
                    described = self.check(array, f"{self.tmp / archive}:{name}", "--memory", "4KiB")
                    self.assertEqual(described["fields"][0]["name"], name)
        self.refuse(self.tmp / "stored.npz", says=("stored.npz:a", "a 13x7x5, b 13x7x5, c 13x7x5"))
        self.refuse(f"{self.tmp}/stored.npz:words", says=("words", "<U1"))
        self.refuse(f"{self.tmp}/stored.npz:nothing", code=qt.NOT_FOUND, says=("nothing", "plane 13x7x1"))
        np.savez(self.tmp / "one.npz", arrays["a"])
        self.check(arrays["a"], self.tmp / "one.npz")

    def test_four_axes(self):
        """In both orders: steps, fields, or one of them."""
        for order in "CF":
            field = np.array(np.stack([qt.make_field(DIMS, "<f4", name=f"{order}{k}") for k in range(3)]), order=order)
            np.save(self.tmp / "tzyx.npy", field)
            np.save(self.tmp / "zyxc.npy", np.array(np.moveaxis(field, 0, -1), order=order))
            with self.subTest(order=order):
                self.refuse(self.tmp / "tzyx.npy", says=("tzyx.npy", "0=3 x 1=5 x 2=7 x 3=13", "--axes tzyx"))
                dataset = self.convert(self.tmp / "tzyx.npy", "--axes", "tzyx", "--lossless", name=f"{order}.t.quarry")
                self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2])
                for k in range(3):
                    decoded = qt.get_array(dataset, self.tmp / "a.raw", "<f4", "--step", k, field="tzyx")
                    np.testing.assert_array_equal(decoded, field[k].ravel())
                self.check(field[2], self.tmp / "zyxc.npy", "--axes", "zyxc", "--index", "c=2")
                self.refuse(self.tmp / "zyxc.npy", "--axes", "zyxc", says=("zyxc.npy", "--index c=K"))
                names = [f["name"] for f in self.check(field[1], self.tmp / "zyxc.npy", "--axes", "zyxc", "--index",
                                                       "c=1:3", field="zyxc_c1")["fields"]]
                self.assertEqual(names, ["zyxc_c1", "zyxc_c2"])

    def test_descriptions_that_do_not_fit(self):
        """JSON beside or among arrays that is not what an export has written: the samples are those of the arrays."""
        field = qt.make_field(DIMS, "<f4", name="described")
        listed = ', "coordinates": {"x": {"dimension": "x", "values": [1, 2]}, "f": {"dimension": "z", "values": [1]}}}'
        for text in ("", "null", "[" * 1_000_000, '{"a":' * 100_000, '{"field": 3}', '{"field": "f", "dimensions": ["a"]}',
                     '{"field": "f", "dimensions": ["z", "y", "x"]' + listed, '{"field": "f", "dimensions": [1, [2], {}]' + listed,
                     '{"fields": [{"field": "f", "dimensions": ["z", "y", "x"]}, 7]' + listed):
            with self.subTest(text=text[:80]):
                np.save(self.tmp / "f.npy", field)
                (self.tmp / "f.npy.json").write_text(text)
                with zipfile.ZipFile(self.tmp / "f.npz", "w") as archive:
                    archive.write(self.tmp / "f.npy", "f.npy")
                    archive.writestr("quarry.json", text)
                for path in (self.tmp / "f.npy", self.tmp / "f.npz"):
                    self.check(field, path)

    def test_damaged_archives(self):
        np.savez_compressed(self.tmp / "whole.npz", f=qt.make_field(DIMS, "<f4", name="a"))
        whole = (self.tmp / "whole.npz").read_bytes()
        path = self.tmp / "cut.npz"
        for length in 0, 3, 40, len(whole) // 2, len(whole) - 1:
            with self.subTest(length=length):
                path.write_bytes(whole[:length])
                self.refuse(path, code=qt.DAMAGED, says=("cut.npz",))
        # A sample that is another one: only the checksum tells.
        with zipfile.ZipFile(self.tmp / "whole.npz") as archive:
            plain = bytearray(archive.read("f.npy"))
        checksum = zipfile.crc32(plain)
        plain[-1] ^= 1
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("f.npy", bytes(plain))
        path.write_bytes(path.read_bytes().replace(struct.pack("<I", zipfile.crc32(plain)), struct.pack("<I", checksum)))
        self.refuse(path, code=qt.DAMAGED, says=("cut.npz", "checksum"))

    def test_order_of_fortran(self):
        field = qt.make_field((40, 33, 17), "<f4", name="order")
        np.save(self.tmp / "f.npy", np.asfortranarray(field))
        self.check(field, self.tmp / "f.npy", "--memory", "32KiB", "--patch", 16)

class Vtk(Formats):
    """Grids as VTK itself writes them."""

    def grid(self, kind, arrays, *, cells=False, coordinates=None, time=None):
        """An image or a rectilinear grid with arrays [z, y, x] or [z, y, x, component]."""
        model, core = module("vtkmodules.vtkCommonDataModel"), module("vtkmodules.vtkCommonCore")
        support = module("vtkmodules.util.numpy_support")
        shape = next(iter(arrays.values())).shape[:3]
        grid = getattr(model, kind)()
        grid.SetDimensions(*(n + cells for n in reversed(shape)))
        if kind == "vtkImageData":
            grid.SetOrigin(1.5, -2, 10)
            grid.SetSpacing(0.5, 0.25, 2)
        else:
            for axis, positions in zip("XYZ", coordinates):
                getattr(grid, f"Set{axis}Coordinates")(support.numpy_to_vtk(positions, deep=True))
        for name, array in arrays.items():
            flat = array.reshape(-1, array.shape[3]) if array.ndim == 4 else array.ravel()
            values = support.numpy_to_vtk(np.ascontiguousarray(flat), deep=True)
            values.SetName(name)
            (grid.GetCellData() if cells else grid.GetPointData()).AddArray(values)
        if time is not None:
            moment = core.vtkDoubleArray()
            moment.SetName("TimeValue")
            moment.InsertNextValue(time)
            grid.GetFieldData().AddArray(moment)
        return grid

    def save(self, writer, grid, path, *, binary=None):
        writer = getattr(module("vtkmodules.vtkIOLegacy" if binary is not None else "vtkmodules.vtkIOXML"), writer)()
        writer.SetFileName(str(path))
        writer.SetInputData(grid)
        if binary is not None:
            (writer.SetFileTypeToBinary if binary else writer.SetFileTypeToASCII)()
        self.assertEqual(writer.Write(), 1)
        return path

    POSITIONS = (np.cumsum(np.arange(1.0, 14)), np.arange(7.0) * 0.5 + 1, np.array([0, 1, 4, 9, 16.0], "f4"))

    def test_rectilinear_grids(self):
        field = qt.make_field(DIMS, "<f4", name="vtr")
        path = self.save("vtkXMLRectilinearGridWriter",
                         self.grid("vtkRectilinearGrid", {"p": field}, coordinates=self.POSITIONS, time=2.5), self.tmp / "a.vtr")
        info = self.check(field, path)
        self.assertEqual(info["coordinates"], [self.POSITIONS[0].tolist(), None, self.POSITIONS[2].tolist()])
        self.assertEqual((info["origin"][1], info["spacing"][1], info["times"]), (1, 0.5, [2.5]))
        # Samples of cells lie between the points.
        cells = field[:4, :6, :12]
        path = self.save("vtkXMLRectilinearGridWriter",
                         self.grid("vtkRectilinearGrid", {"p": cells}, cells=True, coordinates=self.POSITIONS), self.tmp / "c.vtr")
        info = self.check(cells, path)
        x = self.POSITIONS[0]
        self.assertEqual(info["coordinates"][0], ((x[1:] + x[:-1]) / 2).tolist())

    def save_pieces(self, path, field, cells):
        """Four pieces, which share their points where they meet; VTK itself puts them together to the field."""
        points = [n + cells for n in reversed(field.shape)]
        listed = []
        for number, (x, z) in enumerate(((x, z) for x in ((0, 6), (6, points[0] - 1)) for z in ((0, 2), (2, points[2] - 1)))):
            end = 0 if cells else 1
            part = field[z[0]:z[1] + end, :, x[0]:x[1] + end]
            grid = self.grid("vtkImageData", {"p": part}, cells=cells)
            extent = (*x, 0, points[1] - 1, *z)
            grid.SetExtent(*extent)
            piece = path.with_name(f"{path.stem}_{number}.vti")
            self.save("vtkXMLImageDataWriter", grid, piece)
            listed.append(f'<Piece Extent="{" ".join(map(str, extent))}" Source="{piece.name}"/>')
        kind = "PCellData" if cells else "PPointData"
        whole = " ".join(f"0 {n - 1}" for n in points)
        path.write_text(f"""<?xml version="1.0"?>
<VTKFile type="PImageData" version="0.1" byte_order="LittleEndian">
<PImageData WholeExtent="{whole}" GhostLevel="0" Origin="1.5 -2 10" Spacing="0.5 0.25 2">
<{kind}><PDataArray type="Float64" Name="p"/></{kind}>
""" + "\n".join(listed) + "\n</PImageData></VTKFile>\n")
        reader = module("vtkmodules.vtkIOXML").vtkXMLPImageDataReader()
        reader.SetFileName(str(path))
        reader.Update()
        data = reader.GetOutput().GetCellData() if cells else reader.GetOutput().GetPointData()
        array = module("vtkmodules.util.numpy_support").vtk_to_numpy(data.GetArray("p"))
        np.testing.assert_array_equal(array, field.ravel())

    def test_pieces(self):
        field = qt.make_field(DIMS, "<f8", name="pvti")
        for cells in False, True:
            with self.subTest(cells=cells):
                path = self.tmp / f"{cells}.pvti"
                self.save_pieces(path, field, cells)
                info = self.check(field, path, "--memory", "4KiB", "--patch", 4)
                self.assertEqual(info["origin"], [1.75, -1.875, 11] if cells else [1.5, -2, 10])
                piece = path.with_name(f"{cells}_2.vti")
                piece.rename(self.tmp / "away")
                self.refuse(path, code=qt.NOT_FOUND, says=(piece.name, path.name))
                # A piece that the file does not name.
                (self.tmp / "away").rename(piece)
                path.write_text("\n".join(line for line in path.read_text().splitlines() if piece.name not in line))
                self.refuse(path, code=qt.DAMAGED, says=(path.name, "has no piece with the samples"))

    def test_components(self):
        field = np.stack([qt.make_field(DIMS, "<f4", name=f"v{k}") for k in range(3)], axis=-1)
        scalar = qt.make_field(DIMS, "<i2", name="s")
        vti = self.save("vtkXMLImageDataWriter", self.grid("vtkImageData", {"v": field, "s": scalar}), self.tmp / "v.vti")
        vtk = self.save("vtkStructuredPointsWriter", self.grid("vtkImageData", {"v": field, "s": scalar}), self.tmp / "v.vtk",
                        binary=True)
        for path in vti, vtk:
            with self.subTest(path=path):
                self.check(scalar, path)
                self.refuse(f"{path}:v", says=("3 components", "--index component=0"))
                self.refuse(f"{path}:v", "--index", "component=3", says=("components 0 to 2",))
                self.refuse(f"{path}:s", "--index", "component=0", says=(":s", "component"))
                self.check(field[..., 1], f"{path}:v", "--index", "component=1")
                described = self.check(field[..., 2], f"{path}:v", "--index", "component=0:3", field="v_2")
                self.assertEqual([f["name"] for f in described["fields"]], ["v_0", "v_1", "v_2"])
                qt.succeed("quarry", "verify", self.tmp / f"{self.count}.quarry", "--field", "v_1", "--against", f"{path}:v",
                           "--index", "component=0:3")

    def test_legacy_files(self):
        for dtype in "u1", "<i2", "<f4", "<f8":
            for binary in False, True:
                with self.subTest(dtype=dtype, binary=binary):
                    # VTK writes at most 6 digits of a fraction.
                    field = np.round(100 * qt.make_field(DIMS, "<f4", name="legacy")).astype(dtype)
                    grid = self.grid("vtkImageData", {"a b": field, "other": field[..., None] * np.ones(2, field.dtype)}, time=1.25)
                    info = self.check(field, self.save("vtkStructuredPointsWriter", grid, self.tmp / "a.vtk", binary=binary))
                    self.assertEqual((info["origin"], info["spacing"]), ([1.5, -2, 10], [0.5, 0.25, 2]))
                    self.assertEqual((info["fields"][0]["name"], info["times"]), ("a_b", [1.25]))
        field = np.round(100 * qt.make_field(DIMS, "<f4", name="legacy"))
        for binary in False, True:
            grid = self.grid("vtkRectilinearGrid", {"p": field}, coordinates=self.POSITIONS)
            info = self.check(field, self.save("vtkRectilinearGridWriter", grid, self.tmp / "r.vtk", binary=binary))
            self.assertEqual(info["coordinates"][2], self.POSITIONS[2].tolist())
            cells = self.grid("vtkImageData", {"p": field}, cells=True)
            info = self.check(field, self.save("vtkStructuredPointsWriter", cells, self.tmp / "c.vtk", binary=binary))
            self.assertEqual(info["origin"], [1.75, -1.875, 11])
            whole = (self.tmp / "c.vtk").read_bytes()
            for part in 0.1, 0.5, 0.98:
                (self.tmp / "cut.vtk").write_bytes(whole[:int(len(whole) * part)])
                self.refuse(self.tmp / "cut.vtk", code=qt.DAMAGED, says=("cut.vtk",))
        self.save("vtkStructuredPointsWriter", self.grid("vtkImageData", {"p": field}), self.tmp / "t.vtk", binary=True)
        title, rest = (self.tmp / "t.vtk").read_bytes().split(b"\n", 2)[::2]
        (self.tmp / "t.vtk").write_bytes(title + b"\nPRIMITIVE vars at time= 1.5e+00, level= 0, domain= 0\n" + rest)
        self.assertEqual(self.check(field, self.tmp / "t.vtk")["times"], [1.5])
        (self.tmp / "p.vtk").write_text("# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS 0 float\n")
        self.refuse(self.tmp / "p.vtk", says=("POLYDATA", "ResampleToImage"))


class Stacks(Formats):
    """TIFF: what descriptions and tags say of planes, channels, times and voxels; written by tifffile."""

    def stack(self, *shape, dtype="<u2"):
        return np.arange(np.prod(shape)).reshape(*shape).astype(dtype)

    def assert_steps(self, expected, dataset, field, times=None):
        info = qt.info(dataset)
        self.assertEqual(len(info["steps"]), len(expected))
        for step, volume in enumerate(expected):
            decoded = qt.get_array(dataset, self.tmp / "a.raw", volume.dtype, "--step", step, field=field)
            np.testing.assert_array_equal(decoded, volume.ravel())
        if times is not None:
            np.testing.assert_allclose(info["times"], times)

    def test_imagej(self):
        tifffile = module("tifffile")
        field = self.stack(2, 3, 2, 6, 8)  # t, z, c, y, x
        path = self.tmp / "hyper.tif"
        metadata = {"spacing": 0.5, "unit": "um", "finterval": 1.5}
        tifffile.imwrite(path, field, imagej=True, resolution=(10, 4), metadata={**metadata, "axes": "TZCYX"})
        self.refuse(path, says=("hyper.tif", "channel=2", "--index channel=K"))
        dataset = self.convert(path, "--index", "channel=1", "--lossless", name="one.quarry")
        self.assert_steps(field[:, :, 1], dataset, "hyper", [0, 1.5])
        info = qt.info(dataset)
        self.assertEqual((info["dims"], info["axis_units"]), ([8, 6, 3], ["um"] * 3))
        np.testing.assert_allclose(info["spacing"], [0.1, 0.25, 0.5])
        dataset = self.convert(path, "--index", "channel=0:2", "--lossless", name="two.quarry")
        for c in range(2):
            self.assert_steps(field[:, :, c], dataset, f"hyper_channel{c}")
            qt.succeed("quarry", "verify", dataset, "--field", f"hyper_channel{c}", "--step", 1, "--against", path, "--index",
                       "channel=0:2")
        self.refuse(path, "--index", "channel=2", says=("channel=2", "which is 1"))
        self.check(field[1, :, 0], path, "--index", "channel=0", "--index", "frame=1")
        tifffile.imwrite(self.tmp / "volume.tif", field[0, :, 0], imagej=True, resolution=(10, 10),
                         metadata={**metadata, "axes": "ZYX", "unit": "\\u00B5m"})
        info = self.check(field[0, :, 0], self.tmp / "volume.tif")
        np.testing.assert_allclose(info["spacing"], [0.1, 0.1, 0.5])
        self.assertEqual(info["axis_units"], ["um"] * 3)
        tifffile.imwrite(self.tmp / "time.tif", field[:, 0, 0], imagej=True, metadata={"axes": "TYX"})
        self.assert_steps(field[:, 0, 0], self.convert(self.tmp / "time.tif", "--lossless"), "time")

    def test_one_page_with_all_images(self):
        """As ImageJ saves more than 4 GiB."""
        tifffile = module("tifffile")
        for byteorder in "<", ">":
            field = self.stack(5, 6, 8, dtype=byteorder + "u2")
            path = self.tmp / "large.tif"
            tifffile.imwrite(path, field[0], byteorder=byteorder, description="ImageJ=1.53t\nimages=5\nslices=5\n", metadata=None)
            with open(path, "ab") as file:
                file.write(field[1:].tobytes())
            np.testing.assert_array_equal(tifffile.imread(path), field)
            self.check(field, path, "--memory", "256")
            path.write_bytes(path.read_bytes()[:-1])
            self.refuse(path, code=qt.DAMAGED, says=("large.tif", "5 images", "behind image 4 of 5"))
        tifffile.imwrite(path, field, truncate=True)
        self.check(field, path)

    def test_ome(self):
        tifffile = module("tifffile")
        field = self.stack(2, 2, 3, 6, 8)  # t, c, z, y, x
        path = self.tmp / "vol.ome.tif"
        for axes in "TCZYX", "TZCYX", "CTZYX":
            array = field.transpose(*("TCZYX".index(letter) for letter in axes))
            tifffile.imwrite(path, array, ome=True, metadata={
                "axes": axes, "PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "um", "PhysicalSizeY": 0.2, "PhysicalSizeZ": 0.5,
                "TimeIncrement": 3.0, "TimeIncrementUnit": "min", "Channel": {"Name": ["DAPI", "GFP"]}})
            with self.subTest(axes=axes):
                self.refuse(path, says=("vol.ome.tif", "--index channel=K"))
                dataset = self.convert(path, "--index", "channel=0:2", "--lossless", name=f"{axes}.quarry")
                for c, name in enumerate(("DAPI", "GFP")):
                    self.assert_steps(field[:, c], dataset, f"vol.ome_{name}", [0, 3])
                info = qt.info(dataset)
                np.testing.assert_allclose(info["spacing"], [0.1, 0.2, 0.5])
                self.assertEqual(info["axis_units"], ["um"] * 3)
        whole = path.read_bytes()
        for said, says in ((b'SizeT="3"', "no page for"), (b'SizeT="x"', "SizeT")):
            path.write_bytes(whole.replace(b'SizeT="2"', said))
            self.refuse(path, "--index", "channel=0", code=qt.DAMAGED, says=("vol.ome.tif", says))

    def test_axes_of_tifffile(self):
        tifffile = module("tifffile")
        field = self.stack(2, 3, 6, 8)
        path = self.tmp / "a.tif"
        tifffile.imwrite(path, field, photometric="minisblack")
        self.refuse(path, says=("a.tif", "0=2 x 1=3", "--axes tzyx"))
        self.assert_steps(field, self.convert(path, "--axes", "tzyx", "--lossless", name="a.quarry"), "a")
        self.check(field[1], path, "--axes", "czyx", "--index", "c=1")
        self.refuse(path, "--axes", "yxtz", says=("a.tif", "y and x"))
        tifffile.imwrite(path, field, photometric="minisblack", metadata={"axes": "TZYX"})
        self.assert_steps(field, self.convert(path, "--lossless", name="b.quarry"), "a")
        tifffile.imwrite(path, field[0], photometric="minisblack")
        self.check(field[0], path)
        self.assert_steps(field[0], self.convert(path, "--axes", "tyx", "--lossless", name="c.quarry"), "a")

    def test_pages_that_are_missing(self):
        tifffile = module("tifffile")
        field = self.stack(4, 6, 8)
        path = self.tmp / "a.tif"
        with tifffile.TiffWriter(path) as file:
            for plane in field[:3]:
                file.write(plane, photometric="minisblack", metadata=None, contiguous=False,
                           description="ImageJ=1.53t\nimages=4\nslices=4\n")
        self.refuse(path, code=qt.DAMAGED, says=("a.tif", "4 images", "no page for 1"))
        tifffile.imwrite(path, field, volumetric=True, tile=(4, 16, 16), photometric="minisblack")
        self.refuse(path, says=("a.tif", "4 planes", "ImageDepth"))
        for tag, name in (33629, "MetaMorph"), (34412, "Zeiss"):
            tifffile.imwrite(path, field, photometric="minisblack", metadata=None, extratags=[(tag, "I", 4, (1, 2, 3, 4), True)])
            self.refuse(path, says=("a.tif", name, "OME-TIFF"))

    def test_names_of_images(self):
        tifffile = module("tifffile")
        field = self.stack(6, 6, 8)

        def folder(name, *files):
            (self.tmp / name).mkdir()
            for file, plane in zip(files, field):
                tifffile.imwrite(self.tmp / name / file, plane, photometric="minisblack")
            return self.tmp / name

        for name, files, pattern in (("channels", [f"img_c{c}_z{z:04}.tif" for c in range(2) for z in range(3)], "img_c0_z*.tif"),
                                     ("ends", [f"s{z:03}_ch{c:02}.tif" for z in range(3) for c in range(2)], "s*_ch00.tif"),
                                     ("plate", [f"CV8-E05T01F{f}Z{z}C{c}.tif" for f in (1, 2) for z in range(3) for c in (1,)],
                                      "CV8-E05T01F1Z*C1.tif")):
            path = folder(name, *files)
            self.refuse(path, says=(name, *sorted(files)[:2], pattern))
            chosen = [k for k, file in enumerate(files) if file in {f.name for f in path.glob(pattern)}]
            self.check(field[chosen], f"{path}/{pattern}", "--field", "f")
        self.refuse(folder("mixed", "a1.tif", "a2.tif", "dark.tif"), says=("mixed", '"a#.tif" (2 images)', "dark.tif"))
        for name, files, says in (("gap", ("i1.tif", "i2.tif", "i5.tif"), "number 3, 4"), ("odd", ("i1.tif", "i3.tif"), "number 2"),
                                  ("steps", ("i0.tif", "i10.tif", "i20.tif"), "in steps of 10")):
            outcome, _ = self.write(folder(name, *files), "--lossless", name=f"{name}.quarry")
            self.assertEqual(outcome.code, qt.DONE, outcome)
            self.assertIn(says, outcome.err)
        for name, files in (("whole", ("i9.tif", "i10.tif", "i11.tif")), ("times", ("i_20190704_120001.tif", "i_20190704_233502.tif")),
                            ("letters", ("a.tif", "b.tif", "c.tif"))):
            outcome, _ = self.write(folder(name, *files), "--lossless", name=f"{name}.quarry")
            self.assertEqual((outcome.code, outcome.err), (qt.DONE, ""), outcome)
        path = folder("volumes", "v1.tif", "v2.tif")
        tifffile.imwrite(path / "v1.tif", field, photometric="minisblack")
        self.refuse(path, says=("v1.tif", "several images"))

    def test_resolution(self):
        tifffile = module("tifffile")
        plane = self.stack(6, 8)
        for number, (resolution, unit, spacing, units) in enumerate((((100, 50), "CENTIMETER", [0.01, 0.02], ["cm", "cm"]),
                                                                    ((254, 254), "INCH", [1 / 254] * 2, ["inch"] * 2),
                                                                    ((72, 72), "INCH", [1, 1], ["", ""]), ((5, 5), "NONE", [1, 1], ["", ""]))):
            with self.subTest(resolution=resolution, unit=unit):
                path = self.tmp / f"{number}.tif"
                tifffile.imwrite(path, plane, photometric="minisblack", resolution=resolution, resolutionunit=unit)
                info = self.check(plane, path)
                np.testing.assert_allclose(info["spacing"][:2], spacing)
                self.assertEqual(info["axis_units"][:2], units)
        tifffile.imwrite(path, np.stack([plane] * 2), photometric="minisblack", resolution=(100, 100), resolutionunit="CENTIMETER")
        outcome, _ = self.write(path, "--lossless")
        self.assertIn("along x, y, but not along z", outcome.err)

    def test_geography(self):
        """Tags of GDAL and GeoTIFF."""
        tifffile = module("tifffile")
        field = self.stack(6, 8, dtype="<f4")
        field[2, 3] = -9999
        path = self.tmp / "a.tif"
        tags = [(42113, "s", 0, "-9999", True), (33550, "d", 3, (0.5, 0.25, 0), True), (33922, "d", 6, (0, 0, 0, 10, 50, 0), True),
                (34735, "H", 12, (1, 1, 0, 2, 1024, 0, 1, 2, 1025, 0, 1, 1), True),
                (42112, "s", 0, '<GDALMetadata><Item name="UNITTYPE" sample="0" role="unittype">m</Item></GDALMetadata>', True)]
        tifffile.imwrite(path, field, photometric="minisblack", metadata=None, extratags=tags)
        info = self.check(field, path)
        self.assertEqual((info["fields"][0]["fill"], info["fields"][0]["units"]), (-9999, "m"))
        self.assertEqual((info["spacing"][:2], info["origin"][:2]), ([0.5, -0.25], [10.25, 49.875]))
        self.assertEqual((info["axis_names"][:2], info["axis_units"][:2]), (["lon", "lat"], ["degrees_east", "degrees_north"]))
        for values, says in (((42113, "s", 0, "300", True), "nodata value 300 is not a uint8"),
                             ((34264, "d", 16, tuple(range(16)), True), "ModelTransformation"),
                             ((42112, "s", 0, '<Item role="scale">0.1</Item><Item role="offset">5</Item>', True), "0.1 * sample + 5")):
            tifffile.imwrite(path, field.astype("u1"), photometric="minisblack", metadata=None, extratags=[values])
            outcome, _ = self.write(path, name=f"{values[0]}.quarry")
            self.assertEqual(outcome.code, qt.DONE)
            self.assertIn(says, outcome.err)

    def test_colours(self):
        tifffile = module("tifffile")
        plane = self.stack(6, 8, dtype="u1")
        path = self.tmp / "a.tif"
        for number, (options, says) in enumerate((({"photometric": "miniswhite"}, "MINISWHITE"),
                                                  ({"photometric": "palette", "colormap": np.zeros((3, 256), "u2")}, "colour map"),
                                                  ({"photometric": "minisblack", "extratags": [(274, "H", 1, 4, True)]}, "Orientation 4"))):
            tifffile.imwrite(path, plane, **options)
            outcome, dataset = self.write(path, name=f"{number}.quarry")
            self.assertEqual(outcome.code, qt.DONE)
            self.assertIn(says, outcome.err)
            np.testing.assert_array_equal(qt.get_array(dataset, self.tmp / "a.raw", "u1", field="a"), plane.ravel())


if __name__ == "__main__":
    qt.main()
