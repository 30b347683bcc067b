"""Datasets as Zarr behind quarry-server: every key has the value that the store of the Python package has."""

import http.client
import json
import shutil
import urllib.parse

from python_testing import Package, np, qt, quarry

import warnings

import xarray  # noqa: E402
import zarr  # noqa: E402
from quarry._zarr_contents import Contents  # noqa: E402


def write(path, name, array, *options, step=0, new=False):
    """A field of a step, [z, y, x]."""
    raw = path.parent / "field.raw"
    array.tofile(raw)
    qt.succeed("quarry-write-single", raw, "--dims", "x".join(map(str, array.shape[::-1])), "--type", array.dtype.name,
               "--field", name, "--step", step, "--output", path, *options, *([] if new else ["--append"]))


class SameAsTheStore(qt.QuarryTest):
    def check(self, path, view="", **options):
        """All keys of a dataset in a view, and what is not quite one of them."""
        with qt.Server(path.parent, "--http", "127.0.0.1:0", "--quiet", "--client-rate", 0) as server, \
                quarry.open(path) as dataset:
            host, port = server.http_address().rsplit(":", 1)
            connection = http.client.HTTPConnection(host, int(port), timeout=qt.TIMEOUT)
            contents = Contents.of(dataset, **options)
            name = path.stem + view
            keys = list(contents.keys())
            self.assertIn("zarr.json", keys)
            for key in keys:
                connection.request("GET", f"/zarr/{name}/{urllib.parse.quote(key)}")
                answer = connection.getresponse()
                body = answer.read()
                self.assertEqual(answer.status, 200, (key, body))
                if key.endswith("zarr.json"):
                    self.assertEqual(json.loads(body), json.loads(bytes(contents.get(key))), key)
                else:
                    self.assertEqual(body, bytes(contents.get(key)), key)
                self.assertEqual(answer.getheader("content-length"), str(len(body)))
                beyond = key.rsplit("/", 1)[0] + "/99"
                if key[-1].isdigit() and contents.size(beyond) is None:
                    connection.request("GET", f"/zarr/{name}/{urllib.parse.quote(beyond)}")
                    answer = connection.getresponse()
                    answer.read()
                    self.assertEqual(answer.status, 404, beyond)
            connection.close()
            return len(keys)

    def test_types_and_fill_values(self):
        path = self.tmp / "types.quarry"
        dims = (19, 10, 7)
        for number, dtype in enumerate(qt.TYPES):
            field = qt.make_field(dims, dtype, name=dtype).reshape(dims[::-1])
            write(path, f"f{number}", field, "--lossless", "--patch", "8", new=number == 0)
            field[1:3, :, 2] = 77
            write(path, f"g{number}", field, "--lossless", "--fill", "77")
        self.check(path)

    def test_types_that_are_stored_as_others(self):
        """bool and float16, with holes and without."""
        field = qt.turbulent((19, 10, 7), name="given").reshape(7, 10, 19)
        halves = field.astype("f2")
        path = self.tmp / "given.quarry"
        quarry.write(path, {"b": field > field.mean(), "h": halves}, lossless=True, patch=8)
        holes = halves.copy()
        holes[2:4, :, 3:9], holes[0, 0, :4] = 77, [np.nan, np.inf, -np.inf, -0.0]
        for name, fill in (("m", None), ("f", 77)):
            quarry.write(path, holes, field=name, fill=fill, lossless=True, patch=8, step=0, mode="append")
        self.check(path)
        with quarry.open(path) as dataset:
            documents = Contents.of(dataset)
            types = {name: json.loads(bytes(documents.get(f"0/{name}/zarr.json")))["data_type"] for name in "bhmf"}
        self.assertEqual(types, {"b": "bool", "h": "float16", "m": "float16", "f": "float16"})

    def test_views(self):
        """A layer of accuracy, some fields, and float64 as float32: with the bytes of the samples that are shown alone."""
        path = self.tmp / "views.quarry"
        field = qt.turbulent((38, 30, 27), "<f8", name="views").reshape(27, 30, 38)
        write(path, "p", field, "--relative-layers", "1e-2,1e-4,exact", "--patch", 16, new=True)
        write(path, "k", field.astype("f4"), "--lossless", "--patch", 16)
        for layer in range(3):
            self.check(path, f"/layer={layer}", layer=layer)
            with quarry.open(path) as dataset, quarry.zarr_store(dataset, layer=layer) as store:
                array = zarr.open(store)["0/p"]
                np.testing.assert_array_equal(array[:], dataset["p"].read(layer=layer).array)
                self.assertEqual(array.attrs["layer"], layer)
                error = np.abs(array[:] - field).max()
                self.assertLessEqual(error, array.attrs["max_error"])
                self.assertEqual("lossless" in array.attrs, layer == 2)
                np.testing.assert_array_equal(zarr.open(store)["0/k"][:], field.astype("f4"))
        self.check(path, "/float32=true/fields=k,p/layer=1", fields=["k", "p"], float32=True, layer=1)
        with qt.Server(self.tmp, "--http", "127.0.0.1:0") as server:
            url = f"http://{server.http_address()}/zarr/views"
            root = zarr.open(f"{url}.zarr/layer=0/fields=p.zarr", mode="r")
            self.assertEqual({*root["0"].array_keys()}, {"p", "x", "y", "z", "step"})
            for bad, status in (("layer=x", 422), ("fields=", 422), ("fields=q", 404), ("layer=3", 404), ("layer=0/none", 404)):
                answer = http.client.HTTPConnection(server.http_address(), timeout=qt.TIMEOUT)
                answer.request("GET", f"/zarr/views/{bad}/zarr.json")
                self.assertEqual(answer.getresponse().status, status, bad)
                answer.close()

    def test_a_step_alone_is_no_dimension(self):
        path = self.tmp / "alone.quarry"
        write(path, "p", qt.turbulent((19, 10, 7), name="alone").reshape(7, 10, 19), "--lossless", "--time", 2.5, step=4, new=True)
        self.check(path)
        with xarray.open_zarr(quarry.zarr_store(path), group="0", chunks=None) as opened:
            self.assertEqual((opened["p"].dims, {*opened.data_vars}), (("z", "y", "x"), {"p"}))
            self.assertEqual((opened["p"].coords["step"], opened["p"].coords["time"]), (4, 2.5))

    def test_float_fields_with_holes(self):
        path = self.tmp / "holes.quarry"
        dims = (45, 34, 23)
        for step in range(2):
            field = qt.turbulent(dims, name=f"holes{step}").reshape(dims[::-1])
            if step == 1:
                field[3:9, 2:20, :] = np.nan
                field[0, 0, 0:9] = np.inf
                field[12:, :5, :] = -999
            write(path, "p", field, "--tolerance", "1e-3", "--fill", "-999", "--patch", 16, step=step, new=step == 0)
        self.check(path)

    def test_fields_that_not_all_steps_hold(self):
        path = self.tmp / "gaps.quarry"
        dims = (19, 10, 7)
        for number, (name, step) in enumerate((("a", 1), ("a", 4), ("a", 6), ("b", 1), ("b", 6), ("c", 4), ("x", 1), ("x", 4),
                                               ("x", 6), ("step_b", 4))):
            write(path, name, qt.turbulent(dims, name=f"{name}{step}").reshape(dims[::-1]), "--relative", "1e-3",
                  "--units", "K", "--spacing", "0.5,1,2", "--origin", "10,0,-3", *(("--time", step / 2) if step != 4 else ()),
                  step=step, new=number == 0)
        self.check(path)

    def test_times_with_a_calendar(self):
        path = self.tmp / "dates.quarry"
        quarry.write(path, np.zeros((3, 1, 10, 19), "f4"), field="f", lossless=True, time=[0, 1, 2], calendar="noleap",
                     time_units="days since 2001-02-28")
        self.check(path)

    def test_times_at_even_distances(self):
        path = self.tmp / "even.quarry"
        dims = (19, 10, 1)
        for step in range(3):
            write(path, "a", qt.turbulent(dims, name=f"{step}").reshape(dims[::-1]), "--lossless", "--time", 0.25 * step,
                  step=step, new=step == 0)
        self.check(path)

    def test_grids_of_fewer_axes(self):
        for number, shape in enumerate([(1, 1, 45), (1, 37, 21), (9, 1, 33), (1, 1, 1), (2, 3, 1)]):
            path = self.tmp / f"grid{number}.quarry"
            field = qt.turbulent(shape[::-1], name=str(shape)).reshape(shape)
            write(path, "f", field, "--lossless", "--patch", "x".join("8" if n > 1 else "1" for n in shape[::-1]), new=True)
            self.check(path)

    def test_chunks_of_many_small_patches(self):
        path = self.tmp / "small.quarry"
        write(path, "f", qt.turbulent((90, 70, 50), name="small").reshape(50, 70, 90), "--tolerance", "1e-2", "--patch", "8",
              new=True)
        self.assertGreater(self.check(path), 600)

    def test_uneven_axes_with_units(self):
        import netCDF4
        path, source = self.tmp / "uneven.quarry", self.tmp / "uneven.nc"
        with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as file:
            for name, n in (("z", 7), ("y", 10), ("x", 19)):
                file.createDimension(name, n)
                axis = file.createVariable(name, "f8", (name,))
                axis[:] = 2.0 ** np.arange(n) if name == "z" else np.arange(n) * 0.25
                axis.units = {"z": "km", "y": "furlong", "x": "µm"}[name]
            file.createVariable("f", "f4", ("z", "y", "x"))[:] = 1
        qt.succeed("quarry-write-single", f"{source}:f", "--lossless", "--output", path)
        self.check(path)


    def write(self, name, data, **options):
        path = self.tmp / f"{name}.quarry"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quarry.write(path, data, lossless=True, **options)
        return path

    def test_attributes_of_all_owners(self):
        """Attributes of all kinds; those that Quarry has a name for as well."""
        of_all = {"title": "É", "n": np.int16(-3), "huge": np.uint64(2**64 - 1), "threshold": np.float32(0.1),
                  "nan": np.float64("nan"), "list": np.array([1.5, np.inf, -np.inf]), "texts": ["a", "b"], "true": True,
                  "none": None, "empty": [], "tree": {"a": [1, {"b": 2.5}]}, "level": "top", "ome": "mine", "quarry": "mine",
                  "axis": "?", "long_name": "l", "coder": "c", "max_error": 7, "standard_name": "s"}
        time = xarray.Variable("time", [0.0, 1, 2], {**of_all, "units": "days since 2001-01-01", "calendar": "noleap"})
        self.check(self.write("said", xarray.Dataset(
            {"p": (("time", "lat", "lon"), np.zeros((3, 4, 5), "f4"), {**of_all, "units": "Pa"})},
            {"time": time, "lat": ("lat", np.arange(4.0), {**of_all, "units": "degrees_north"}), "lon": np.arange(5.0)}, of_all)))

    def test_what_does_not_change_and_coordinates(self):
        places = {"lat": (("y", "x"), np.zeros((5, 6))), "height": ((), 2.0), "depth": ("z", [1.0, 2.0, 4.0])}
        fields = {"p": (("time", "z", "y", "x"), np.zeros((3, 3, 5, 6), "f4")),
                  "ssh": (("time", "y", "x"), np.ones((3, 5, 6), "f4")), "area": (("y", "x"), np.ones((5, 6))),
                  "total": ("time", np.arange(3.0))}
        times = {"time": ("time", [1.0, 2.0, 4.0], {"units": "days since 2001-01-01"})}
        for number, steps in enumerate(([0, 1, 2], [0, 2, 4], [3, 4, 5])):
            self.check(self.write(f"moving{number}", xarray.Dataset(fields, places | times), step=steps))
        self.check(self.write("still", xarray.Dataset({"area": fields["area"]}, places)))
        self.check(self.write("plain", xarray.Dataset(fields, places).rename(time="step")))

    def test_coordinates_of_text(self):
        """Along a dimension that is called so, beside one, and alone; with fields of several grids and levels."""
        names = ["a", "", "É", "d\0", "e" * 300, "f", "g", "h", "i"]
        coords = {"station": ("station", names, {"long_name": "n", "standard_name": "platform_name"}),
                  "region": ("station", names[::-1]), "a b": ("x", [*"123456"]), "run": ((), "hist"), "x": np.arange(6.0),
                  "lat": (("station", "x"), np.ones((9, 6)))}
        fields = {"p": (("time", "station", "x"), np.zeros((3, 9, 6), "f4")), "q": (("time", "x"), np.ones((3, 6))),
                  "total": ("time", np.arange(3.0)), "map": (("y", "x"), np.ones((40, 6)))}
        path = self.write("texts", xarray.Dataset(fields, coords))
        # A grid with fewer levels, and one that places the stations.
        few = xarray.DataArray(np.arange(3.0), {"letter": ("few", ["x", "y", "z"])}, ("few",), "few")
        placed = xarray.DataArray(np.arange(9.0), {"station": np.arange(9.0)}, ("station",), "placed")
        for further, patch in ((few, 4), (placed, None)):
            quarry.write(path, further, lossless=True, mode="append", patch=patch)
        self.check(path)
        with quarry.open(path) as dataset:
            contents = Contents.of(dataset)
            self.assertEqual([grid.unplaced for grid in dataset.grids if grid.dim_names[2] == "station"], [(False,) * 3])
            self.assertEqual(json.loads(bytes(contents.get("0/station/zarr.json")))["data_type"], "string")
            self.assertEqual([contents.size(f"{level}/letter/c/0") is None for level in range(4)], [False] * 3 + [True])
        self.check(self.write("one", xarray.Dataset({"one": ((), 3.0)}, {"run": ((), "hist")})))
        # Neither Zarr nor NetCDF can have this name: the dimension has another, and its texts with it.
        path = self.write("slash", xarray.Dataset({"p": ("a/b", np.arange(3.0))}, {"a/b": ["x", "y", "z"]}))
        self.check(path)
        self.assertEqual(zarr.open(quarry.zarr_store(path))["0/x"][:].tolist(), ["x", "y", "z"])

    def test_axes_of_which_nobody_says_the_positions(self):
        """They have no array; others of the same dataset have one."""
        fields = {"p": (("time", "z", "y", "x"), np.zeros((3, 3, 5, 6), "f4")), "q": (("y", "x"), np.ones((5, 6)))}
        places = {"z": ("z", [1.0, 2.0, 4.0], {"units": "m"}), "x": ("x", np.arange(6.0))}
        path = self.write("unplaced", xarray.Dataset(fields, places))
        self.check(path)
        with quarry.open(path) as dataset:
            contents = Contents.of(dataset)
            self.assertEqual([name for name in "zyx" if contents.size(f"1/{name}/c/0")], ["z", "x"])

    def test_what_does_not_change_came_before_the_rest(self):
        """A step of its own is no step of the others."""
        places = {"lat": np.arange(5.0), "lon": np.arange(6.0)}
        path = self.write("late", xarray.DataArray(np.ones((5, 6)), places, ("lat", "lon"), "area"))
        time = ("time", [1.0, 2.0], {"units": "days since 2001-01-01"})
        moving = xarray.DataArray(np.ones((2, 5, 6)), places | {"time": time}, ("time", "lat", "lon"), "p")
        quarry.write(path, moving, lossless=True, mode="append", step=1)
        self.check(path)


class Readers(Package):
    """Programs that know nothing of Quarry."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = qt.Server(cls.data, "--http", "127.0.0.1:0", "--client-rate", 0)
        cls.web.__enter__()
        cls.addClassCleanup(cls.web.__exit__, None, None, None)

    def url(self, name="run.zarr"):
        return f"http://{self.web.http_address()}/zarr/{name}"

    def test_zarr_and_xarray(self):
        for name in ("run", "run.zarr", "run.quarry"):
            root = zarr.open(self.url(name), mode="r")
            for field, decoded in self.decoded.items():
                np.testing.assert_array_equal(root[f"0/{field}"][:], decoded)
                np.testing.assert_array_equal(root[f"2/{field}"][:], decoded[:, ::4, ::4, ::4])
        level = xarray.open_zarr(self.url(), group="1", chunks={})
        np.testing.assert_array_equal(level["p"].sel(step=5), self.decoded["p"][1, ::2, ::2, ::2])

    def test_texts(self):
        data = xarray.Dataset({"p": (("station", "x"), np.zeros((5, 7), "f2"))},
                              {"station": [*"abcde"], "region": ("station", ["", "é", "r", "s", "t"]), "run": "hist"})
        quarry.write(self.data / "texts.quarry", data, lossless=True)
        for level in range(2):
            with xarray.open_zarr(self.url("texts"), group=str(level), chunks=None) as opened:
                xarray.testing.assert_equal(opened.load(), data.isel(station=slice(None, None, 1 << level),
                                                                     x=slice(None, None, 1 << level)))
                self.assertEqual(opened["p"].dtype, "f2")
                self.assertEqual({*opened["p"].coords}, {"station", "region", "run"})
        texts = b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in data["region"].values)
        host, port = self.web.http_address().rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=qt.TIMEOUT)
        self.addCleanup(connection.close)
        for method, asked, status, expected in (("GET", "4-12", 206, texts[:9]), ("GET", "-5", 206, texts[-5:]),
                                                ("HEAD", None, 200, b"")):
            connection.request(method, "/zarr/texts/0/region/c/0", headers={"Range": f"bytes={asked}"} if asked else {})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (status, expected))
            self.assertEqual(answer.getheader("content-type"), "application/octet-stream")
        self.assertEqual(answer.getheader("content-length"), str(4 + len(texts)))

    def test_damage_raises(self):
        path = self.data / "bad.quarry"
        shutil.copytree(self.path, path)
        self.addCleanup(shutil.rmtree, path)
        (subfile,) = (path / "steps/000005/p").iterdir()
        content = bytearray(subfile.read_bytes())
        for at in range(len(content) // 2, len(content) // 2 + 300):
            content[at] ^= 0xFF
        subfile.write_bytes(content)
        array = zarr.open(self.url("bad"), mode="r")["0/p"]
        with self.assertRaises(Exception) as raised:
            array[1]
        self.assertRegex(str(raised.exception), "422")
        np.testing.assert_array_equal(array[2], self.decoded["p"][2])

    def test_steps_that_come_later(self):
        path = self.tmp / "grows.quarry"
        arrays = [qt.turbulent((19, 10, 7), name=f"grows{step}").reshape(7, 10, 19) for step in range(3)]
        write(path, "p", arrays[1], "--lossless", step=1, new=True)
        with qt.Server(self.tmp, "--http", "127.0.0.1:0") as server:
            url = f"http://{server.http_address()}/zarr/grows"
            self.assertEqual(zarr.open(url, mode="r")["0/p"].shape, (7, 10, 19))
            write(path, "p", arrays[2], "--lossless", step=2)
            np.testing.assert_array_equal(zarr.open(url, mode="r")["0/p"][:], arrays[1:])
            write(path, "p", arrays[0], "--lossless", step=0)
            np.testing.assert_array_equal(zarr.open(url, mode="r")["0/p"][:], arrays)


if __name__ == "__main__":
    qt.main()
