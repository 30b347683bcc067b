"""Foreign formats: the same samples give the same dataset from every format, and grid, units, missing samples and time
of a file arrive in the dataset."""

import importlib
import json
import unittest

import numpy as np

import quarry_testing as qt

DIMS = (37, 22, 13)
TYPES = ("<f4", "<f8", "<i2")
# Types in such an order that those of each format meet all of its sources on 3 ranks.
TURNS = [np.dtype(name).char for name in ("f4", "f8", "i2", "u1", "u2", "i4")]


def module(name):
    """A Python module; skips the test where it is absent."""
    try:
        return importlib.import_module(name)
    except ImportError:
        qt.skip(f"the Python module {name} is not installed")


def bound(dtype):
    return ("--tolerance", "0.01") if np.dtype(dtype).kind == "f" else ("--lossless",)


def write_netcdf(path, variables, *, format="NETCDF4", time=None, **options):
    """Variables [z, y, x], or [time, z, y, x] with a time coordinate, over dimensions z, y, x."""
    netcdf = module("netCDF4")
    with netcdf.Dataset(path, "w", format=format) as file:
        shape = next(iter(variables.values())).shape
        names = ("time", "z", "y", "x")[-len(shape):]
        for name, n in zip(names, shape):
            file.createDimension(name, None if name == "time" else n)
        if time is not None:
            coordinate = file.createVariable("time", "f8", ("time",))
            coordinate.units = "days since 2000-01-01"
            coordinate[:] = time
        for name, values in variables.items():
            variable = file.createVariable(name, values.dtype, names, **options)
            variable.set_auto_maskandscale(False)
            variable[:] = values


class Inputs(qt.QuarryTest):
    def write(self, *arguments, ranks=0, name="out.quarry"):
        dataset = self.tmp / name
        program = "quarry-write" if ranks else qt.SERIAL_WRITER
        return qt.run(*qt.mpi_command(ranks, program, *arguments, "--output", dataset)), dataset

    def convert(self, *arguments, **options):
        outcome, dataset = self.write(*arguments, **options)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return dataset

    def assert_same_as_raw(self, field, *sources, field_options=("--field", "f")):
        """Every source gives the subfiles that a raw file gives, on 1 and on 3 ranks; in the short tests on one of
        them, 3 for another third of the sources with each type."""
        kind = np.dtype(field.dtype).name
        raw = self.tmp / f"{kind}.raw"
        field.tofile(raw)
        options = (*bound(field.dtype), "--patch", "16", "--files", "2", *field_options)
        expected = qt.subfiles(self.convert(raw, *qt.describe(field), *options, name=f"{kind}.quarry"))
        self.assertEqual(len(expected), 2)
        turn = TURNS.index(field.dtype.char)
        for number, source in enumerate(sources):
            # Without MPI, which takes longer than all the rest, for 0.
            for ranks in (1, 3) if qt.FULL else (3 if (number + turn) % 3 == 0 else 0,):
                with self.subTest(source=str(source), ranks=ranks):
                    dataset = self.convert(source, *options, ranks=ranks, name=f"{kind}.{number}.{ranks}.quarry")
                    self.assertEqual(qt.subfiles(dataset), expected)


class Netcdf(Inputs):
    def test_same_samples_same_dataset(self):
        for dtype in TYPES:
            with self.subTest(dtype=dtype):
                field = qt.make_field(DIMS, dtype, name="inputs")
                np.save(self.tmp / "f.npy", field)
                sources = [self.tmp / "f.npy"]
                for format in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4"):
                    sources.append(self.tmp / f"{format}.nc")
                    write_netcdf(sources[-1], {"pressure": field}, format=format)
                sources.append(self.tmp / "chunked.nc")
                write_netcdf(sources[-1], {"pressure": field}, zlib=True, chunksizes=(5, 8, 16))
                self.assert_same_as_raw(field, *sources)

    def test_grid_units_and_fill_come_from_the_file(self):
        netcdf = module("netCDF4")
        field = qt.with_holes(qt.make_field(DIMS, "<f4", name="inputs"), np.float32(-1e20))
        path = self.tmp / "ocean.nc"
        depth = np.cumsum(np.arange(DIMS[2]), dtype="f4") + 5
        with netcdf.Dataset(path, "w") as file:
            for name, n in zip(("depth", "lat", "lon"), field.shape):
                file.createDimension(name, n)
            positions = {"depth": depth, "lat": 60 - 0.25 * np.arange(DIMS[1]), "lon": 0.1 * np.arange(DIMS[0])}
            for name, unit in (("depth", "m"), ("lat", "degrees_north"), ("lon", "degrees_east")):
                file.createVariable(name, "f4", (name,))[:] = positions[name]
                file[name].units = unit
            variable = file.createVariable("salinity", "f4", ("depth", "lat", "lon"), fill_value=-1e20)
            variable.units = "g/kg"
            variable[:] = field
        dataset = self.convert(path, "--tolerance", "1e-3")
        info = qt.info(dataset)
        self.assertEqual(info["dims"], list(DIMS))
        self.assertEqual(info["axis_names"], ["lon", "lat", "depth"])
        self.assertEqual(info["axis_units"], ["degrees_east", "degrees_north", "m"])
        np.testing.assert_allclose(info["spacing"][:2], [0.1, -0.25], rtol=1e-6)
        np.testing.assert_allclose(info["origin"], [0, 60, 5])
        self.assertEqual(info["coordinates"][:2], [None, None])
        self.assertEqual(info["coordinates"][2], depth.astype("f8").tolist())
        described = info["fields"][0]
        self.assertEqual((described["name"], described["units"]), ("salinity", "g/kg"))
        self.assertEqual(described["fill"], float(np.float32(-1e20)))
        self.assert_decoded(field, qt.get_array(dataset, self.tmp / "a.raw", "<f4", field="salinity"), 1e-3,
                            np.float32(-1e20))
        text = qt.succeed("quarry", "info", dataset).out
        self.assertIn("z depth in m: 5 to 83, unevenly spaced", text)
        with qt.Server(self.tmp) as server:
            self.assertEqual(qt.info(server.target(dataset))["coordinates"], info["coordinates"])

    def test_options_overrule_the_file(self):
        path = self.tmp / "a.nc"
        write_netcdf(path, {"t": qt.smooth(DIMS)})
        info = qt.info(self.convert(path, "--tolerance", "1", "--field", "u", "--units", "K", "--spacing", "1,2,3",
                                    "--origin", "4,5,6", "--fill", "7"))
        self.assertEqual((info["spacing"], info["origin"]), ([1, 2, 3], [4, 5, 6]))
        described = info["fields"][0]
        self.assertEqual((described["name"], described["units"], described["fill"]), ("u", "K", 7))

    def test_moments_are_steps(self):
        field = np.stack([qt.make_field(DIMS, "<f4", name=f"moment {i}") for i in range(3)])
        for format in ("NETCDF3_CLASSIC", "NETCDF4"):
            with self.subTest(format=format):
                path = self.tmp / f"{format}.nc"
                write_netcdf(path, {"a": field, "b": -field}, format=format, time=[0.5, 1.5, 4])
                dataset = self.convert(f"{path}:a", f"{path}:b", "--tolerance", "0.01", "--step", "10",
                                       name=format + ".quarry", ranks=2)
                info = qt.info(dataset)
                self.assertEqual((info["steps"], info["times"]), ([10, 11, 12], [0.5, 1.5, 4]))
                for i in range(3):
                    decoded = qt.get_array(dataset, self.tmp / "a.raw", "<f4", "--step", 10 + i, field="b")
                    self.assert_decoded(-field[i], decoded, 0.01)
                    qt.succeed("quarry", "verify", dataset, "--field", "b", "--step", 10 + i, "--against", f"{path}:b")

    def test_packed_samples_become_physical_values(self):
        stored = qt.with_holes(qt.integers(DIMS, "<i2", name="packed"), -32768)
        for kind in ("f4", "f8"):
            with self.subTest(attributes=kind):
                netcdf = module("netCDF4")
                path = self.tmp / f"{kind}.nc"
                write_netcdf(path, {"t": stored}, fill_value=-32768)
                with netcdf.Dataset(path, "a") as file:
                    file["t"].scale_factor = np.array(0.01, kind)[()]
                    file["t"].add_offset = np.array(273.15, kind)[()]
                dataset = self.convert(path, "--lossless", name=kind + ".quarry")
                scale, offset = (float(np.array(v, kind)) for v in (0.01, 273.15))
                expected = (stored.astype("f8") * scale + offset).astype("<" + kind)
                expected[stored == -32768] = np.nan
                decoded = qt.get_array(dataset, self.tmp / "a.raw", "<" + kind, field="t")
                np.testing.assert_array_equal(decoded, expected.ravel())

    def test_names_of_variables(self):
        netcdf = module("netCDF4")
        path = self.tmp / "several.nc"
        field = qt.smooth(DIMS)
        write_netcdf(path, {"u": field, "v": field})
        with netcdf.Dataset(path, "a") as file:
            file.createVariable("large", "S1", ("z", "y", "x"))
            file.createGroup("deep").createVariable("w", "f4", ("z", "y", "x"))[:] = field
        outcome, _ = self.write(path, "--tolerance", "1")
        self.assert_one_line(outcome, qt.USAGE, f"{path}:u", "u 37x22x13, v 37x22x13, /deep/w 37x22x13")
        outcome, _ = self.write(f"{path}:nothing", "--tolerance", "1")
        self.assert_one_line(outcome, qt.NOT_FOUND, "nothing", "u 37x22x13")
        outcome, _ = self.write(f"{path}:large", "--tolerance", "1")
        self.assert_one_line(outcome, qt.USAGE, "large", "char")
        info = qt.info(self.convert(f"{path}:/deep/w", "--tolerance", "1"))
        self.assertEqual(info["fields"][0]["name"], "w")

    def test_many_variables_of_a_file_open_it_once(self):
        """Reads of the file: those of its metadata, and some for each variable."""
        names = [f"v{i:03}" for i in range(60)]
        path, record = self.tmp / "many.nc", self.tmp / "record"
        write_netcdf(path, {name: qt.smooth((8, 8, 8)) for name in names})

        def reads(some):
            record.unlink(missing_ok=True)
            qt.succeed(qt.SERIAL_WRITER, *(f"{path}:{name}" for name in some), "--tolerance", "0.01", "--output",
                       self.tmp / f"{len(some)}.quarry", env={
                           "LD_PRELOAD": str(qt.BIN.parent / "lib/librecord_files.so"), "QUARRY_RECORD": str(record),
                           "QUARRY_RECORD_ROOT": str(path), "QUARRY_RECORD_READS": "1"})
            return len(record.read_text().splitlines())

        few, all_of_them = reads(names[:2]), reads(names)
        self.assertGreater(few, 0)
        self.assertLess(all_of_them - few, 20 * (len(names) - 2))

    def test_other_grid_is_refused_unless_overruled(self):
        netcdf = module("netCDF4")
        for name, spacing in (("a", 0.5), ("b", 0.25)):
            write_netcdf(self.tmp / f"{name}.nc", {"t": qt.smooth(DIMS)})
            with netcdf.Dataset(self.tmp / f"{name}.nc", "a") as file:
                file.createVariable("x", "f8", ("x",))[:] = spacing * np.arange(DIMS[0])
        self.convert(self.tmp / "a.nc", "--tolerance", "1")
        outcome, _ = self.write(self.tmp / "b.nc", "--append", "--step", "1")
        self.assert_one_line(outcome, qt.USAGE, "b.nc", "spacing 0.25", "0.5", "--spacing 0.5,1,1")
        self.convert(self.tmp / "b.nc", "--append", "--step", "1", "--spacing", "0.5,1,1")

    def test_damaged_files_are_data_loss(self):
        field = qt.make_field(DIMS, "<f4", name="inputs")
        for format in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4"):
            path = self.tmp / "whole.nc"
            write_netcdf(path, {"t": field, "u": field}, format=format)
            data = path.read_bytes()
            for length in (0, 3, 40, len(data) // 2, len(data) - 4):
                with self.subTest(format=format, length=length):
                    cut = self.tmp / "cut.nc"
                    cut.write_bytes(data[:length])
                    outcome, _ = self.write(f"{cut}:u", "--tolerance", "1")
                    self.assert_one_line(outcome, qt.DAMAGED, "cut.nc")
        (self.tmp / "text.nc").write_text("not a NetCDF file at all" * 10)
        outcome, _ = self.write(self.tmp / "text.nc", "--tolerance", "1")
        self.assert_one_line(outcome, qt.DAMAGED, "text.nc")
        outcome, _ = self.write(self.tmp / "absent.nc", "--tolerance", "1")
        self.assert_one_line(outcome, qt.NOT_FOUND, "absent.nc")

    def test_levitus(self):
        path = qt.shared_data("levitus_climatology.cdf")
        dataset = self.convert(f"{path}:TEMP", f"{path}:SALT", "--relative", "1e-3", ranks=3)
        info = qt.info(dataset)
        self.assertEqual(info["dims"], [360, 180, 20])
        self.assertEqual(info["axis_units"], ["degrees_east", "degrees_north", "METERS"])
        self.assertEqual((info["spacing"][:2], info["origin"]), ([1, 1], [20.5, -89.5, 0]))
        self.assertEqual(info["coordinates"][2][:4], [0, 10, 20, 30])
        self.assertEqual(info["coordinates"][2][-1], 5000)
        for described, units in zip(info["fields"], ("DEG C", "PPT")):
            self.assertEqual((described["units"], described["fill"]), (units, -1e10))
            original = qt.netcdf_variable(path, described["name"]).astype("<f4")
            decoded = qt.get_array(dataset, self.tmp / "a.raw", "<f4", field=described["name"])
            self.assert_decoded(original, decoded, described["tolerance"], np.float32(-1e10))


class Hdf5(Inputs):
    def test_same_samples_same_dataset(self):
        h5py = module("h5py")
        for dtype in TYPES:
            with self.subTest(dtype=dtype):
                field = qt.make_field(DIMS, dtype, name="inputs")
                path = self.tmp / f"{np.dtype(dtype).name}.h5"
                labels = np.array(["x", "y", "z"], dtype="S")
                with h5py.File(path, "w") as file:
                    file["contiguous"] = field
                    file.create_dataset("chunked", data=field, chunks=(5, 8, 16), compression="gzip", shuffle=True)
                    file["big"] = field.astype(field.dtype.newbyteorder(">"))
                    # The same samples with x slowest, and in the order y, z, x.
                    file["c/x_first"] = np.ascontiguousarray(field.transpose(2, 1, 0))
                    file.create_dataset("c/x_first_chunked", data=field.transpose(2, 1, 0), chunks=(7, 16, 3))
                    file["f/labelled"] = field
                    file.create_dataset("c/mixed", data=field.transpose(1, 0, 2), chunks=(8, 4, 30), compression="gzip")
                    for name, order, axes in (("c/x_first", "C", labels), ("c/x_first_chunked", "C", labels),
                                              ("f/labelled", "F", labels), ("c/mixed", "C", labels[[1, 2, 0]])):
                        attributes = file[name].attrs
                        attributes["dataOrder"], attributes["axisLabels"] = np.bytes_(order), axes
                        attributes["gridSpacing"] = attributes["gridGlobalOffset"] = np.ones(3)
                names = ["contiguous", "chunked", "big", "/c/x_first", "c/x_first_chunked", "f/labelled", "c/mixed"]
                self.assert_same_as_raw(field, *(f"{path}:{name}" for name in names))

    def test_openpmd(self):
        h5py = module("h5py")
        path = qt.shared_data("example-femm-3d.h5")
        dataset = self.convert(f"{path}:/data/1/meshes/B/x", f"{path}:/data/1/meshes/B/z", "--lossless", ranks=3)
        info = qt.info(dataset)
        self.assertEqual(info["dims"], [47, 47, 47])
        np.testing.assert_allclose(info["spacing"], [0.05, 0.05, 0.125], rtol=1e-12)
        np.testing.assert_allclose(info["origin"], [-1.15, -1.15, -0.375], rtol=1e-12)
        self.assertEqual((info["axis_names"], info["axis_units"]), (["x", "y", "z"], ["m"] * 3))
        self.assertEqual(info["times"], [0])
        self.assertEqual([(f["name"], f["units"]) for f in info["fields"]], [("B_x", "T"), ("B_z", "T")])
        with h5py.File(path) as file:
            for component in "xz":
                stored = file[f"data/1/meshes/B/{component}"][...]  # [x, y, z]
                decoded = qt.get_array(dataset, self.tmp / "a.raw", "<f8", field=f"B_{component}")
                np.testing.assert_array_equal(decoded.reshape(47, 47, 47), stored.transpose(2, 1, 0))
        qt.succeed("quarry", "verify", dataset, "--field", "B_x", "--against", f"{path}:/data/1/meshes/B/x")
        outcome, _ = self.write(path, "--lossless", name="other.quarry")
        self.assert_one_line(outcome, qt.USAGE, "/data/1/meshes/B/x 47x47x47", "/data/1/meshes/B/z 47x47x47")

    def test_attributes_and_names(self):
        h5py = module("h5py")
        field = qt.with_holes(qt.smooth(DIMS), np.float32(-999.9))
        path = self.tmp / "a.h5"
        with h5py.File(path, "w") as file:
            file["run/pressure"] = field[np.newaxis]
            file["run/pressure"].attrs["units"] = "Pa"
            file["run/pressure"].attrs["_FillValue"] = -999.9
            file["run/x"] = np.arange(5.0)
            file["run/large"] = np.zeros((2, 2, 2), [("a", "f4"), ("b", "f4")])
        described = qt.info(self.convert(path, "--tolerance", "1"))["fields"][0]
        self.assertEqual((described["name"], described["units"], described["fill"]),
                         ("pressure", "Pa", float(np.float32(-999.9))))
        outcome, _ = self.write(f"{path}:run/large", "--tolerance", "1")
        self.assert_one_line(outcome, qt.USAGE, "run/large", "compound")
        outcome, _ = self.write(f"{path}:nothing", "--tolerance", "1")
        self.assert_one_line(outcome, qt.NOT_FOUND, "nothing", "/run/pressure 37x22x13")

    def test_damaged_files_are_data_loss(self):
        h5py = module("h5py")
        path, cut = self.tmp / "whole.h5", self.tmp / "cut.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("t", data=qt.make_field(DIMS, "<f4", name="inputs"), chunks=(5, 8, 16),
                                compression="gzip")
        data = path.read_bytes()
        for length in (0, 7, 100, len(data) // 2, len(data) - 1):
            with self.subTest(length=length):
                cut.write_bytes(data[:length])
                outcome, _ = self.write(f"{cut}:t", "--tolerance", "1")
                self.assert_one_line(outcome, qt.DAMAGED, "cut.h5")
        # A chunk that does not decompress.
        cut.write_bytes(data[:-20000] + bytes(10000) + data[-10000:])
        outcome, _ = self.write(f"{cut}:t", "--tolerance", "1")
        self.assert_one_line(outcome, qt.DAMAGED, "cut.h5")


class Tiff(Inputs):
    def write_stack(self, folder, field, **options):
        """One image for each z; names in natural, not in alphabetical order."""
        tifffile = module("tifffile")
        folder.mkdir()
        for z, image in enumerate(field):
            tifffile.imwrite(folder / f"img{z}.tif", image, photometric="minisblack", **options)

    def test_same_samples_same_dataset(self):
        tifffile = module("tifffile")
        for dtype in ("u1", "<u2", "<i2", "<i4", "<f4", "<f8"):
            with self.subTest(dtype=dtype):
                field = qt.make_field(DIMS, dtype, name="inputs")
                base = self.tmp / np.dtype(dtype).name
                base.mkdir()
                self.write_stack(base / "plain", field)
                self.write_stack(base / "big", field, byteorder=">", rowsperstrip=5)
                self.write_stack(base / "tiled", field, tile=(16, 32), compression="zlib")
                tifffile.imwrite(base / "pages.tif", field, photometric="minisblack", compression="zlib", rowsperstrip=3)
                self.assert_same_as_raw(field, base / "plain", f"{base}/plain/img*.tif", base / "big", base / "tiled",
                                        base / "pages.tif")

    def test_a_stack_of_200_images(self):
        field = qt.integers((64, 48, 200), "<u2", name="stack")
        self.write_stack(self.tmp / "scan", field)
        # In one part and in many, whichever ranks read which images: every image is read once.
        report = self.tmp / "report.json"
        for reading in ("consecutive", "round-robin"):
            for memory in ("512MiB", "64KiB"):
                with self.subTest(reading=reading, memory=memory):
                    dataset = self.convert(self.tmp / "scan", "--patch", "16", "--reading", reading, "--memory", memory,
                                           "--report", report, ranks=4, name=f"{reading}.{memory}.quarry")
                    self.assertEqual(json.loads(report.read_text())["fields"][0]["images_read"], 200)
        self.check_direct_reading(dataset)
        info = qt.info(dataset)
        self.assertEqual((info["dims"], info["fields"][0]["name"]), ([64, 48, 200], "scan"))
        decoded = qt.get_array(dataset, self.tmp / "a.raw", "<u2", field="scan")
        np.testing.assert_array_equal(decoded, field.ravel())
        qt.succeed("quarry", "verify", dataset, "--field", "scan", "--against", self.tmp / "scan")

    def check_direct_reading(self, redistributed):
        """4x3x13 patches of 16 on 2x1x2 ranks, whose boxes have the smallest surface. The lower two ranks have 6 layers of
        2x3 patches, the upper two 7: of 200 images they decode 96 and 104, each of them."""
        report = self.tmp / "report.json"
        direct = self.convert(self.tmp / "scan", "--patch", "16", "--reading", "direct", "--report", report, ranks=4,
                              name="direct.quarry")
        told = json.loads(report.read_text())
        self.assertEqual(told["fields"][0]["images_read"], 2 * (96 + 104))
        self.assertEqual((told["patches_per_rank"]["min"], told["patches_per_rank"]["max"]), (36, 42))
        same = {name: data for name, data in qt.snapshot(redistributed).items() if name.endswith(".qsf")}
        self.assertGreater(len(same), 0)
        self.assertEqual({name: data for name, data in qt.snapshot(direct).items() if name.endswith(".qsf")}, same)

    def test_bad_images_are_named(self):
        tifffile = module("tifffile")
        field = qt.integers(DIMS, "<u2", name="stack")
        scan = self.tmp / "scan"
        self.write_stack(scan, field)
        good = (scan / "img10.tif").read_bytes()
        (scan / "img10.tif").write_bytes(good[:len(good) // 2])
        outcome, _ = self.write(scan)
        self.assert_one_line(outcome, qt.DAMAGED, "img10.tif")
        (scan / "img10.tif").write_text("no image")
        outcome, _ = self.write(scan)
        self.assert_one_line(outcome, qt.DAMAGED, "img10.tif")
        tifffile.imwrite(scan / "img10.tif", field[0, :-1], photometric="minisblack")
        outcome, _ = self.write(scan)
        self.assert_one_line(outcome, qt.USAGE, "img10.tif", "37x21 uint16", "37x22 uint16")
        (scan / "img10.tif").write_bytes(good)
        tifffile.imwrite(scan / "img0.tif", np.zeros((22, 37, 3), "u1"), photometric="rgb")
        outcome, _ = self.write(scan)
        self.assert_one_line(outcome, qt.USAGE, "img0.tif", "3 samples per pixel")
        (self.tmp / "empty").mkdir()
        outcome, _ = self.write(self.tmp / "empty")
        self.assert_one_line(outcome, qt.NOT_FOUND, "empty")
        outcome, _ = self.write(f"{scan}/nothing*.tif")
        self.assert_one_line(outcome, qt.NOT_FOUND, "nothing*.tif")

    def test_a_size_that_the_file_cannot_hold_is_refused_before_memory_is_made(self):
        tifffile = module("tifffile")
        image = self.tmp / "img.tif"
        for options, parts in ({}, "strips"), ({"compression": "zlib"}, "strips"), ({"tile": (16, 16)}, "tiles"):
            with self.subTest(**options):
                tifffile.imwrite(image, np.zeros((22, 37), "u1"), photometric="minisblack", **options)
                with tifffile.TiffFile(image, mode="r+") as file:
                    for tag in ("TileWidth", "TileLength") if "tile" in options else ("ImageWidth", "ImageLength", "RowsPerStrip"):
                        file.pages[0].tags[tag].overwrite(60000)
                outcome, _ = self.write(image)
                self.assert_one_line(outcome, qt.DAMAGED, "img.tif", f"its {parts} have", "more than a file of")


class Vti(Inputs):
    def write_image(self, path, arrays, *, cells=False, mode="appended", encode=False, compressor=None, header=32,
                    byte_order="LittleEndian", origin=(1.5, -2, 10), spacing=(0.5, 0.25, 2), time=None):
        """Fields [z, y, x] as VTK itself writes them."""
        model = module("vtkmodules.vtkCommonDataModel")
        core = module("vtkmodules.vtkCommonCore")
        io = module("vtkmodules.vtkIOXML")
        support = module("vtkmodules.util.numpy_support")
        image = model.vtkImageData()
        shape = next(iter(arrays.values())).shape
        image.SetDimensions(*(n + cells for n in reversed(shape)))
        image.SetOrigin(origin)
        image.SetSpacing(spacing)
        data = image.GetCellData() if cells else image.GetPointData()
        for name, field in arrays.items():
            values = support.numpy_to_vtk(np.ascontiguousarray(field).ravel(), deep=True)
            values.SetName(name)
            data.AddArray(values)
        if time is not None:
            moment = core.vtkDoubleArray()
            moment.SetName("TimeValue")
            moment.InsertNextValue(time)
            image.GetFieldData().AddArray(moment)
        writer = io.vtkXMLImageDataWriter()
        writer.SetFileName(str(path))
        writer.SetInputData(image)
        {"appended": writer.SetDataModeToAppended, "binary": writer.SetDataModeToBinary,
         "ascii": writer.SetDataModeToAscii}[mode]()
        writer.SetEncodeAppendedData(encode)
        writer.SetCompressorType(1 if compressor == "zlib" else 0)
        if compressor:
            writer.SetBlockSize(4096)
        (writer.SetHeaderTypeToUInt64 if header == 64 else writer.SetHeaderTypeToUInt32)()
        (writer.SetByteOrderToBigEndian if byte_order == "BigEndian" else writer.SetByteOrderToLittleEndian)()
        self.assertEqual(writer.Write(), 1)
        return path

    def test_same_samples_same_dataset(self):
        for dtype in ("u1", "<i2", "<f4", "<f8"):
            with self.subTest(dtype=dtype):
                field = qt.make_field(DIMS, dtype, name="inputs")
                kind = np.dtype(dtype).name
                ways = (dict(mode="appended"), dict(mode="appended", encode=True, header=64),
                        dict(mode="appended", compressor="zlib"), dict(mode="binary"),
                        dict(mode="binary", compressor="zlib", header=64), dict(mode="ascii"),
                        dict(mode="appended", byte_order="BigEndian"), dict(mode="appended", cells=True))
                self.assert_same_as_raw(field, *(self.write_image(self.tmp / f"{kind}.{n}.vti", {"p": field}, **way)
                                                 for n, way in enumerate(ways)))

    def test_grid_and_time_come_from_the_file(self):
        field = qt.smooth(DIMS)
        points = self.write_image(self.tmp / "points.vti", {"pressure": field}, time=0.75)
        info = qt.info(self.convert(points, "--tolerance", "1e-3", name="points.quarry"))
        self.assertEqual((info["origin"], info["spacing"]), ([1.5, -2, 10], [0.5, 0.25, 2]))
        self.assertEqual((info["fields"][0]["name"], info["times"]), ("pressure", [0.75]))
        cells = self.write_image(self.tmp / "cells.vti", {"pressure": field}, cells=True)
        info = qt.info(self.convert(cells, "--tolerance", "1e-3", name="cells.quarry"))
        self.assertEqual((info["dims"], info["origin"]), (list(DIMS), [1.75, -1.875, 11]))

    def test_arrays_are_chosen_by_name(self):
        a, b = qt.smooth(DIMS), -qt.smooth(DIMS)
        path = self.write_image(self.tmp / "two.vti", {"a": a, "b": b})
        outcome, _ = self.write(path, "--tolerance", "1e-3")
        self.assert_one_line(outcome, qt.USAGE, "a", "b")
        outcome, _ = self.write(f"{path}:c", "--tolerance", "1e-3")
        self.assert_one_line(outcome, qt.NOT_FOUND, "a", "b")
        dataset = self.convert(f"{path}:b", "--tolerance", "1e-3")
        self.assert_decoded(b, qt.get_array(dataset, self.tmp / "b.raw", "<f4", field="b"), 1e-3)

    def test_damaged_files_are_refused(self):
        field = qt.smooth(DIMS)
        path = self.tmp / "a.vti"
        for way in (dict(mode="appended"), dict(mode="appended", compressor="zlib"), dict(mode="ascii"),
                    dict(mode="binary", compressor="zlib")):
            whole = self.write_image(path, {"p": field}, **way).read_bytes()
            for part in (0, 0.02, 0.3, 0.9):
                with self.subTest(part=part, **way):
                    path.write_bytes(whole[:int(len(whole) * part)])
                    outcome, dataset = self.write(path, "--tolerance", "1e-3")
                    self.assert_one_line(outcome, qt.DAMAGED, "a.vti")
                    self.assertFalse(dataset.exists())
        path.write_bytes(whole.replace(b"ImageData", b"PolyDatas"))
        self.assert_one_line(self.write(path, "--tolerance", "1e-3")[0], qt.USAGE, "PolyDatas")


class Faults(Inputs):
    """A file that is damaged in the middle of a series gives one message, and what was published stays. Once the file is
    whole again, --resume leads to the bytes of an undisturbed run."""

    def check_series(self, sources, damaged, *name):
        options = ("--lossless", "--patch", "16", "--files", "2", "--field", "f")
        prefix = sources[0].parent.name
        expected = qt.subfiles(self.convert(*sources, *options, ranks=4, name=f"{prefix}.undisturbed.quarry"))
        dataset = self.convert(sources[0], *options, ranks=4, name=f"{prefix}.quarry")
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:len(whole) // 2])
        outcome, _ = self.write(*sources, *options, "--resume", ranks=4, name=dataset.name)
        self.assertEqual(outcome.code, qt.DAMAGED, outcome)
        messages = outcome.lines_of("quarry-write")
        self.assertEqual(len(messages), 1, outcome)
        for part in name:
            self.assertIn(part, messages[0])
        published = qt.info(dataset)["steps"]
        self.assertIn(published, ([0], [0, 1]))
        qt.succeed("quarry", "verify", dataset)
        damaged.write_bytes(whole)
        qt.succeed(*qt.mpi_command(4, "quarry-write", *sources, *options, "--resume", "--output", dataset))
        self.assertEqual(qt.info(dataset)["steps"], [0, 1, 2])
        self.assertEqual(qt.subfiles(dataset), expected)

    def test_netcdf_cut_in_the_middle(self):
        for format in ("NETCDF3_64BIT_OFFSET", "NETCDF4"):
            with self.subTest(format=format):
                folder = self.tmp / format
                folder.mkdir()
                sources = [folder / f"dump{step}.nc" for step in range(3)]
                for step, source in enumerate(sources):
                    write_netcdf(source, {"t": qt.make_field(DIMS, "<f4", name=f"moment {step}")}, format=format)
                self.check_series(sources, sources[2], "dump2.nc")

    def test_image_that_cannot_be_read(self):
        tifffile = module("tifffile")
        sources = [self.tmp / f"scan{step}" for step in range(3)]
        for step, source in enumerate(sources):
            source.mkdir()
            for z, image in enumerate(qt.integers(DIMS, "<u2", name=f"moment {step}")):
                tifffile.imwrite(source / f"img{z}.tif", image, photometric="minisblack")
        self.check_series(sources, sources[2] / "img7.tif", "scan2", "img7.tif")


class ManyFiles(Inputs):
    """Lists, patterns and folders are the dataset that their files give as arguments."""

    def setUp(self):
        super().setUp()
        self.folder = self.tmp / "dumps"
        self.folder.mkdir()
        fields = {step: qt.make_field(DIMS, "<f4", name=f"dump {step}") for step in (1, 2, 10)}
        for step, field in fields.items():
            field.tofile(self.folder / f"d{step}.f32")
        self.options = (*qt.describe(fields[1]), "--field", "f", "--tolerance", 0.01, "--files", 2)

    def dumps(self, *steps):
        return [self.folder / f"d{step}.f32" for step in steps]

    def test_a_list_keeps_its_order(self):
        expected = qt.subfiles(self.convert(*self.dumps(2, 10, 1), *self.options, name="arguments.quarry"))
        listed = self.tmp / "files.txt"
        first, *others = self.dumps(2, 10, 1)
        listed.write_text("\n".join(["# two of three", "", *map(str, others)]))
        for ranks in (0, 3):
            dataset = self.convert(first, f"@{listed}", *self.options, ranks=ranks, name=f"{ranks}.quarry")
            self.assertEqual(qt.subfiles(dataset), expected)

    def test_patterns_and_folders_are_sorted_by_number(self):
        expected = qt.subfiles(self.convert(*self.dumps(1, 2, 10), *self.options, name="arguments.quarry"))
        listed = self.tmp / "files.txt"
        listed.write_text(f"{self.folder}/d*.f32\n")
        for number, source in enumerate((f"{self.folder}/d*.f32", self.folder, f"@{listed}")):
            with self.subTest(source=source):
                dataset = self.convert(source, *self.options, name=f"{number}.quarry")
                self.assertEqual(qt.subfiles(dataset), expected)

    def test_a_folder_says_what_it_leaves_out(self):
        (self.folder / "logs").mkdir()
        outcome, _ = self.write(self.folder, *self.options)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assertIn('"logs"', outcome.err)

    def test_errors_name_the_line(self):
        listed = self.tmp / "files.txt"
        (self.folder / "short.f32").write_bytes(b"1234")
        for name, code in (("none.f32", qt.NOT_FOUND), ("x*.f32", qt.NOT_FOUND), ("short.f32", qt.USAGE), ("../files.txt", qt.USAGE)):
            with self.subTest(name=name):
                listed.write_text(f"{self.folder}/d1.f32\n{self.folder}/{name}\n")
                outcome, dataset = self.write(f"@{listed}", *self.options)
                self.assert_one_line(outcome, code, f'"{listed}", line 2', name)
                self.assertFalse(dataset.exists())

    def test_paths_count_from_the_current_folder(self):
        (self.folder / "files.txt").write_text("d1.f32\nd2.f32\n")
        outcome, dataset = self.write(f"@{self.folder}/files.txt", *self.options)
        self.assert_one_line(outcome, qt.NOT_FOUND, "d1.f32", "current folder")
        qt.succeed(qt.SERIAL_WRITER, "@files.txt", *self.options, "--output", dataset, cwd=self.folder)
        self.assertEqual(qt.info(dataset)["steps"], [0, 1])


class PlacesAndTimes(Inputs):
    """Files whose positions or times say nothing: refused by name, or what docs/inputs.md says."""

    VTI = """<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian">
<ImageData WholeExtent="{extent}" Origin="{origin}" Spacing="{spacing}">
<FieldData><DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time}</DataArray></FieldData>
<Piece Extent="{extent}"><PointData><DataArray type="Float32" Name="p" format="ascii">{samples}</DataArray></PointData></Piece>
</ImageData></VTKFile>"""

    def image(self, *, dims=(3, 4, 2), origin="0 0 0", spacing="1 1 1", time="1.5"):
        path = self.tmp / "image.vti"
        path.write_text(self.VTI.format(extent=" ".join(f"0 {n - 1}" for n in dims), origin=origin, spacing=spacing, time=time,
                                        samples=" ".join(map(str, range(int(np.prod(dims)))))))
        return path

    def refuse(self, path, *mentions, code=qt.USAGE):
        outcome, dataset = self.write(path, "--tolerance", 1)
        self.assert_one_line(outcome, code, path, *mentions)
        self.assertFalse(dataset.exists())

    def test_vti(self):
        for grid in (dict(spacing="1 1 nan"), dict(spacing="inf 1 1"), dict(origin="0 nan 0"), dict(origin="0 0 inf")):
            with self.subTest(grid=grid):
                self.refuse(self.image(**grid), code=qt.DAMAGED)
        for spacing in ("1 0 1", "0 0 0", "1 -0.0 1", "1 1e308 1"):
            with self.subTest(spacing=spacing):
                path = self.image(spacing=spacing)
                self.refuse(path, "spacing")
                dataset = self.convert(path, "--tolerance", 1, "--spacing", "1,2,3", name=f"{spacing}.quarry")
                self.assertEqual(qt.info(dataset)["spacing"], [1, 2, 3])

    def test_an_image_of_one_plane(self):
        """Has no distance to the next one."""
        path = self.image(dims=(3, 4, 1), spacing="0.5 0.25 0")
        dataset = self.convert(path, "--tolerance", 1)
        self.assertEqual(qt.info(dataset)["spacing"], [0.5, 0.25, 1])
        qt.succeed(qt.SERIAL_WRITER, path, "--tolerance", 1, "--append", "--step", 1, "--output", dataset)

    def test_appended(self):
        dataset = self.convert(self.image(), "--tolerance", 1)
        before = qt.snapshot(dataset)
        path = self.image(spacing="1 0 1")
        outcome = qt.run(qt.SERIAL_WRITER, path, "--tolerance", 1, "--append", "--step", 1, "--output", dataset)
        self.assert_one_line(outcome, qt.USAGE, path, "spacing 0")
        self.assertTrue(qt.snapshot(dataset) == before)

    def test_times_that_are_none(self):
        for number, time in enumerate(("nan", "inf", "-inf")):
            with self.subTest(time=time):
                info = qt.info(self.convert(self.image(time=time), "--tolerance", 1, name=f"{number}.quarry"))
                self.assertEqual(info["times"], [None])
        field = np.stack([qt.smooth(DIMS)] * 3)
        write_netcdf(self.tmp / "moments.nc", {"a": field}, time=[0.5, np.nan, np.inf])
        self.assertEqual(qt.info(self.convert(self.tmp / "moments.nc", "--tolerance", 1))["times"], [0.5, None, None])

    def test_netcdf_coordinates(self):
        netcdf = module("netCDF4")
        for number, positions in enumerate(([0, 1, np.nan, 3], [0, 1, 1, 2], [0, np.inf, 2, 3], [2, 3, 0, 1])):
            with self.subTest(positions=positions):
                path = self.tmp / f"{number}.nc"
                with netcdf.Dataset(path, "w") as file:
                    file.createDimension("x", 4)
                    file.createVariable("x", "f8", ("x",))[:] = positions
                    file.createVariable("p", "f4", ("x",))[:] = 1
                info = qt.info(self.convert(f"{path}:p", "--tolerance", 1, name=f"{number}.quarry"))
                self.assertEqual((info["origin"], info["spacing"]), ([0, 0, 0], [1, 1, 1]))
                self.assertEqual(info["coordinates"], [None] * 3)

    def test_openpmd(self):
        h5py = module("h5py")
        path = self.tmp / "mesh.h5"
        for spacing, offset in (([0, 1, 1], [0, 0, 0]), ([1, np.nan, 1], [0, 0, 0]), ([1, 1, 1], [np.inf, 0, 0])):
            with self.subTest(spacing=spacing, offset=offset):
                with h5py.File(path, "w") as file:
                    file["p"] = qt.smooth(DIMS)
                    attributes = file["p"].attrs
                    attributes["dataOrder"], attributes["axisLabels"] = np.bytes_("C"), np.array(["z", "y", "x"], dtype="S")
                    attributes["gridSpacing"], attributes["gridGlobalOffset"] = np.array(spacing, "f8"), np.array(offset, "f8")
                self.refuse(f"{path}:p", "spacing")


if __name__ == "__main__":
    qt.main()
