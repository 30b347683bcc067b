"""What a file is, its first bytes say; raw files with something around their samples; NumPy's archives; VTK's grids. The
oracles are the programs that write these formats: numpy, gfortran, VTK, tifffile."""

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
        # Nobody's bytes are raw, whatever the name; the first letters alone are not GRIB.
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


if __name__ == "__main__":
    qt.main()
