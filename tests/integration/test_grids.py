"""Fields of several shapes in one dataset, written by quarry-write: two volumes, maps, a profile, a short list. Every
way to ask gives the same samples of each of them. What is right, netCDF4-python and numpy say of the source."""

import json
import re
import shutil
import signal
import ssl
import subprocess

import grpc_web
import numpy as np
import quarry_testing as qt
from test_inputs import module
from test_watch import Watcher

LENGTHS = {"time": 3, "depth": 20, "lat": 28, "lon": 37, "lon_u": 38, "k": 3}
VARIABLES = {"temp": ("time", "depth", "lat", "lon"), "ssh": ("time", "lat", "lon"),
             "u": ("time", "depth", "lat", "lon_u"), "area": ("lat", "lon"), "profile": ("depth",), "corner": ("k",)}
UNITS = {"temp": "K", "ssh": "m", "u": "m s-1", "area": "m2", "profile": "kg m-3", "corner": "1"}
GRID_OF = {"temp": 0, "ssh": 1, "area": 1, "u": 2, "profile": 3, "corner": 4}
SERIES = ("temp", "ssh", "u")
TOLERANCE = 1e-3
LAYOUT = ("--patch", 16, "--files", 2)
OK, INVALID_ARGUMENT, NOT_FOUND = 0, 3, 5


def days(first, count):
    return 2.5 * np.arange(first, first + count)


POSITIONS = {"depth": 5 * 1.2 ** np.arange(20), "lat": 54 - 4.0 * np.arange(28), "lon": 2.5 * np.arange(37),
             "lon_u": 2.5 * np.arange(38) - 1.25}
AXIS_UNITS = {"depth": "m", "lat": "degrees_north", "lon": "degrees_east", "lon_u": "degrees_east"}


def samples(name, step=0):
    """Samples of the source: [z, y, x], or with fewer axes, of one step."""
    dims = [dim for dim in VARIABLES[name] if dim != "time"]
    shape = [LENGTHS[dim] for dim in dims]
    field = qt.turbulent((*shape[::-1], 1, 1)[:3], name=f"{name}{step}")
    return field.reshape(shape)


def write_source(path, names=tuple(VARIABLES), first=0, count=3):
    """A NetCDF file with these variables; those with a time at `count` moments from number `first` on."""
    with module("netCDF4").Dataset(path, "w") as file:
        used = {dim for name in names for dim in VARIABLES[name]}
        for dim, length in LENGTHS.items():
            if dim not in used:
                continue
            file.createDimension(dim, count if dim == "time" else length)
            if dim == "k":
                continue  # a dimension without a coordinate
            axis = file.createVariable(dim, "f8", (dim,))
            axis.units = "days since 2001-01-01" if dim == "time" else AXIS_UNITS[dim]
            axis[:] = days(first, count) if dim == "time" else POSITIONS[dim]
        for name in names:
            variable = file.createVariable(name, "f4", VARIABLES[name])
            variable.units = UNITS[name]
            if "time" in VARIABLES[name]:
                variable[:] = np.stack([samples(name, first + moment) for moment in range(count)])
            else:
                variable[:] = samples(name)
    return path


def each(source, names):
    """As the command names variables of a file."""
    return [f"{source}:{name}" for name in names]


def cut(whole, level):
    """Every 2^level-th sample along each axis."""
    return whole[(slice(None, None, 2**level),) * whole.ndim]


def in_three(array):
    """[z, y, x], with one sample along axes that are not there: the last dimension of a file is x."""
    return array.reshape((1,) * (3 - array.ndim) + array.shape)


class Grids(qt.QuarryTest):
    """A dataset that one call has made of all variables but the last, which came later and has a patch of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if "path" not in vars(Grids):  # one dataset for all classes
            Grids.make()

    @classmethod
    def make(cls):
        cls.data = qt.SCRATCH / "data"
        cls.data.mkdir()
        cls.source = write_source(qt.SCRATCH / "source.nc")
        cls.path = cls.write(cls.data / "ocean.quarry")
        qt.succeed("quarry-index", cls.path)
        cls.source_of = {}
        with module("netCDF4").Dataset(cls.source) as file:
            for name, dims in VARIABLES.items():
                moments = file[name][:].data
                for step in range(3 if dims[0] == "time" else 1):
                    cls.source_of[name, step] = in_three(moments[step] if dims[0] == "time" else moments)
        cls.decoded = {(name, step): cls.read(cls.path, qt.SCRATCH, name, step) for name, step in cls.source_of}

    @classmethod
    def write(cls, path, *options, ranks=0, source=None):
        """The shared dataset, or one like it."""
        source, bound = source or cls.source, ("--tolerance", TOLERANCE)
        if any(str(option).endswith("layers") for option in options):
            bound = ()
        program = "quarry-write" if ranks else qt.SERIAL_WRITER
        for names, further in (([*VARIABLES][:-1], LAYOUT), (["corner"], ("--patch", 4, "--append"))):
            qt.succeed(*qt.mpi_command(ranks, program, *each(source, names), *bound, *further, *options, "--output",
                                       path))
        return path

    @staticmethod
    def read(target, folder, name, step, *options):
        """[z, y, x], by the command."""
        output = folder / "read.npy"
        qt.succeed("quarry", "get", target, "--field", name, "--step", step, *options, "--output", output)
        return np.load(output)

    def series(self, target, names, level, *options):
        """The samples of several fields and all of their steps, in one answer."""
        folder = self.tmp / "series"
        folder.mkdir()
        qt.succeed("quarry", "get", target, "--fields", ",".join(names), "--steps", "0:99", "--level", level, *options,
                   "--output", folder / "{field}-{step}.npy")
        answers = {(file.stem.split("-")[0], int(file.stem.split("-")[1])): np.load(file) for file in folder.iterdir()}
        shutil.rmtree(folder)
        return answers

    def copy(self):
        """Copy of the shared dataset, to be changed."""
        path = self.tmp / "data" / "ocean.quarry"
        shutil.copytree(self.path, path)
        return path

    def append(self, path, source, names, *options):
        return qt.succeed(qt.SERIAL_WRITER, *each(source, names), "--append", *options, "--output", path)

    def both(self, command, server, name, *options):
        """The JSON output of a command, which is the same from the directory and through the server."""
        local, remote = (json.loads(qt.succeed("quarry", command, target, "--field", name, "--json", *options).out)
                         for target in (self.path, server.target(self.path)))
        self.assertEqual(local, remote)
        return local

    def assert_right(self, target, tolerance=TOLERANCE):
        """Every field and step is the source within the tolerance."""
        answers = self.series(target, VARIABLES, 0)
        self.assertEqual(answers.keys(), self.source_of.keys())
        for key, expected in self.source_of.items():
            self.assertEqual(answers[key].shape, expected.shape, key)
            self.assertLessEqual(qt.largest_error(expected, answers[key]), tolerance, key)
        return answers


def http_server(root, *options):
    return qt.Server(root, "--http", "127.0.0.1:0", "--client-rate", 0, *options)


def read_question(dataset, name, step, level, box=None):
    question = grpc_web.parse(grpc_web.read_question(dataset, name, level, box))[1][0]
    return grpc_web.field(1, question + grpc_web.field(3, step))


def zarr_array(client, dataset, array):
    """The metadata and all samples of an array, chunk by chunk."""
    status, _, body = client.ask("GET", f"/zarr/{dataset}/{array}/zarr.json")
    if status != 200:
        raise AssertionError(f"{array}: {status} {body}")
    said = json.loads(body)
    shape, chunk = said["shape"], said["chunk_grid"]["configuration"]["chunk_shape"]
    whole = np.empty([-(-n // c) * c for n, c in zip(shape, chunk, strict=True)], np.dtype(said["data_type"]))
    for place in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk, strict=True))):
        status, _, body = client.ask("GET", "/".join(["", "zarr", dataset, array, "c", *map(str, place)]))
        if status != 200:
            raise AssertionError(f"{array} {place}: {status} {body}")
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(place, chunk, strict=True))
        whole[box] = np.frombuffer(body, whole.dtype.newbyteorder("<")).reshape(chunk)
    return said, whole[tuple(map(slice, shape))]


class Fronts(Grids):
    def test_a_file_is_in_the_dataset_with_all_its_shapes(self):
        said = qt.info(self.path)
        self.assertEqual({field["name"]: field["grid"] for field in said["fields"]}, GRID_OF)
        self.assertEqual({field["name"]: field["units"] for field in said["fields"]}, UNITS)
        self.assertEqual({field["name"]: field["steps"] for field in said["fields"]},
                         {name: 3 if name in SERIES else 1 for name in VARIABLES})
        self.assertEqual([grid["dims"] for grid in said["grids"]],
                         [[37, 28, 20], [37, 28, 1], [38, 28, 20], [20, 1, 1], [3, 1, 1]])
        for name, number in GRID_OF.items():
            dims = [dim for dim in VARIABLES[name] if dim != "time"][::-1]
            grid = said["grids"][number]
            with self.subTest(name):
                self.assertEqual(grid["has_axis"], [axis < len(dims) for axis in range(3)])
                self.assertEqual(grid["axis_names"][:len(dims)], dims)
                self.assertEqual(grid["axis_units"][:len(dims)], [AXIS_UNITS.get(dim, "") for dim in dims])
                for axis, dim in enumerate(dims):
                    positions = grid["coordinates"][axis] or (grid["origin"][axis] + grid["spacing"][axis] *
                                                              np.arange(grid["dims"][axis]))
                    np.testing.assert_allclose(positions, POSITIONS.get(dim, np.arange(3)), rtol=1e-12)
        self.assertEqual(said["grids"][4]["unplaced"], [True, False, False])
        self.assertEqual((said["steps"], said["times"]), ([0, 1, 2], days(0, 3).tolist()))
        self.assertRegex(qt.succeed("quarry", "info", self.path).out, r"grid 4 +3x1x1 samples")

    def test_samples_are_those_of_the_source(self):
        self.assert_right(self.path)

    def test_every_front_gives_the_same_samples(self):
        """The directory, both encodings of the server, gRPC-Web, and Zarr."""
        with http_server(self.data) as server, grpc_web.Client(server.http_address()) as client:
            self.assertEqual(qt.described(server.target(self.path)), qt.described(self.path))
            for level in (0, 1, 2, 4):
                names = [name for name in VARIABLES if level < 3 or name != "corner"]
                expected = {key: cut(array, level) for key, array in self.decoded.items() if key[0] in names}
                answers = {"directory": self.series(self.path, names, level),
                           "gRPC-Web": self.by_grpc_web(client, names, level),
                           "Zarr": self.by_zarr(client, names, level)}
                for encoding in ("samples", "patches"):
                    answers[encoding] = self.series(server.target(self.path), names, level, "--encoding", encoding)
                for front, answer in answers.items():
                    with self.subTest(front=front, level=level):
                        self.assertEqual(answer.keys(), expected.keys())
                        for key, array in expected.items():
                            self.assertEqual(answer[key].shape, array.shape, key)
                            self.assertEqual(answer[key].tobytes(), array.tobytes(), key)

    def by_grpc_web(self, client, names, level):
        answers = {}
        for name, step in self.decoded:
            if name not in names:
                continue
            answer = client.call("Read", read_question("ocean", name, step, level))
            self.assertEqual((answer.status, answer.message), (OK, ""))
            answers[name, step] = grpc_web.samples_of(answer.messages, "<f4")
        return answers

    def by_zarr(self, client, names, level):
        answers = {}
        for name in names:
            said, array = zarr_array(client, "ocean", f"{level}/{name}")
            dims = [dim for dim in VARIABLES[name] if dim != "time"]
            self.assertEqual(said["dimension_names"][1:], dims, "no dimension along an axis that the grid lacks")
            self.assertEqual(said["attributes"]["units"], UNITS[name])
            for step, samples_of_step in enumerate(array):
                answers[name, step] = in_three(samples_of_step)
        return answers

    def test_zarr_has_the_positions_of_every_axis_once(self):
        with http_server(self.data) as server, grpc_web.Client(server.http_address()) as client:
            root = json.loads(client.ask("GET", "/zarr/ocean/zarr.json")[2])["consolidated_metadata"]["metadata"]
            for level in (0, 2):
                arrays = {key.split("/")[1] for key, node in root.items() if key.startswith(f"{level}/")}
                self.assertLessEqual({*VARIABLES, *POSITIONS, "time"}, arrays)
                for dim, positions in POSITIONS.items():
                    said, array = zarr_array(client, "ocean", f"{level}/{dim}")
                    np.testing.assert_allclose(array, cut(positions, level), rtol=1e-12)
                    self.assertEqual(said["attributes"]["units"], AXIS_UNITS[dim])
            self.assertFalse([key for key in root if re.match(r"[34]/corner", key)], "levels that it does not have")
            self.assertEqual(client.ask("GET", "/zarr/ocean/3/corner/zarr.json")[0], 404)
            self.assertEqual(client.ask("GET", "/zarr/ocean/0/ssh/c/0/0/0/0")[0], 404, "a z that it has not")

    def test_the_page_is_told_of_all_grids(self):
        """By what it asks first: the list of datasets, and the manifest of one."""
        dims = [[37, 28, 20], [37, 28, 1], [38, 28, 20], [20, 1, 1], [3, 1, 1]]
        with http_server(self.data) as server, grpc_web.Client(server.http_address()) as client:
            (listed,) = (grpc_web.parse(one) for one in grpc_web.parse(client.call("ListDatasets").messages[0])[1])
            opened = grpc_web.parse(client.call("GetDataset", grpc_web.field(1, "ocean")).messages[0])
            manifest = grpc_web.parse(opened[1][0])
            for grids in (listed[2], manifest[9]):
                self.assertEqual([grpc_web.unpack(grpc_web.parse(grid)[1][0]) for grid in grids], dims)
            fields = [grpc_web.parse(one) for one in manifest[7]]
            self.assertEqual({field[1][0].decode(): field.get(13, [0])[0] for field in fields}, GRID_OF)
            (from_command,) = json.loads(qt.succeed("quarry", "ls", f"grpc://{server.address}", "--json").out)
        self.assertEqual((from_command["dims"], from_command["grids"]), (dims[0], dims))
        (local,) = json.loads(qt.succeed("quarry", "ls", self.data, "--json").out)
        self.assertEqual(local, from_command)
        self.assertIn("37x28x20 and 4 more", qt.succeed("quarry", "ls", self.data).out)

    def test_over_tls(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.tmp / "key.pem", "-out", self.tmp / "cert.pem"], check=True,
                       capture_output=True)
        trust = ssl.create_default_context(cafile=self.tmp / "cert.pem")
        with http_server(self.data, "--tls-cert", self.tmp / "cert.pem", "--tls-key", self.tmp / "key.pem") as server, \
                grpc_web.Client(server.http_address(), context=trust) as client:
            target = server.target(self.path).replace("grpc://", "grpcs://")
            answers = (self.series(target, VARIABLES, 0, "--ca", self.tmp / "cert.pem"),
                       self.by_grpc_web(client, VARIABLES, 0), self.by_zarr(client, VARIABLES, 0))
        for answer in answers:
            self.assertEqual(answer.keys(), self.decoded.keys())
            for key, array in self.decoded.items():
                self.assertEqual(answer[key].tobytes(), array.tobytes(), key)

    def test_progressive(self):
        with qt.Server(self.data) as server:
            for target in (self.path, server.target(self.path)):
                for name in VARIABLES:
                    out = qt.succeed("quarry", "get", target, "--field", name, "--progressive", "--output",
                                     self.tmp / "p.npy").out
                    self.assertEqual([int(level) for level in re.findall(r"^level (\d)", out, re.MULTILINE)],
                                     [2, 1, 0] if name == "corner" else [4, 3, 2, 1, 0])
                    np.testing.assert_array_equal(np.load(self.tmp / "p.npy"), self.decoded[name, 0])


class Questions(Grids):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.enterClassContext(http_server(cls.data))
        cls.client = cls.enterClassContext(grpc_web.Client(cls.server.http_address()))
        cls.targets = (cls.path, cls.server.target(cls.path))

    def test_boxes(self):
        random = qt.random_numbers("boxes of grids")
        for (name, step), whole in self.decoded.items():
            dims = whole.shape[::-1]
            begin = [int(random.integers(n)) for n in dims]
            end = [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, dims, strict=True)]
            box = ("--box", qt.box_text(begin, end))
            inside = whole[tuple(slice(b, e) for b, e in zip(begin[::-1], end[::-1], strict=True))]
            with self.subTest(name=name, box=box):
                plan = self.both("plan", self.server, name, "--step", step, *box)
                self.assertEqual((plan["begin"], plan["shape"]), (begin, list(inside.shape[::-1])))
                self.assertEqual(plan["reply_bytes"], inside.nbytes)
                for target in self.targets:
                    self.assertEqual(self.read(target, self.tmp, name, step, *box).tobytes(), inside.tobytes())
                question = read_question("ocean", name, step, 0, [*zip(begin, end, strict=True)])
                answer = self.client.call("Read", question)
                self.assertEqual(grpc_web.samples_of(answer.messages, "<f4").tobytes(), inside.tobytes())

    def test_regions_are_in_the_axes_of_the_field(self):
        lat = (POSITIONS["lat"] >= -20) & (POSITIONS["lat"] <= 10)
        for name, axis, low, high in (("temp", "lon", 10, 30), ("u", "lon_u", 10, 30), ("ssh", "lon", 10, 30)):
            along = (POSITIONS[axis] >= low) & (POSITIONS[axis] <= high)
            expected = self.decoded[name, 1][:, lat][:, :, along]
            for target in self.targets:
                got = self.read(target, self.tmp, name, 1, "--region", f"lat=-20:10,{axis}={low}:{high}")
                np.testing.assert_array_equal(got, expected)
        expected = self.decoded["profile", 0][..., (POSITIONS["depth"] >= 10) & (POSITIONS["depth"] <= 50)]
        for target in self.targets:
            got = self.read(target, self.tmp, "profile", 0, "--region", "depth=10:50")
            np.testing.assert_array_equal(got, expected)
            for name, axis in (("temp", "lon_u"), ("u", "lon"), ("ssh", "depth"), ("profile", "lat")):
                outcome = qt.run("quarry", "get", target, "--field", name, "--region", f"{axis}=0:1", "--output",
                                 self.tmp / "no.npy")
                self.assert_one_line(outcome, qt.USAGE, f'there is no axis "{axis}"')

    def test_statistics(self):
        for (name, step), whole in self.decoded.items():
            said = self.both("stats", self.server, name, "--step", step, "--level", 1)
            level = cut(whole, 1).astype("f8")
            with self.subTest(name=name, step=step):
                self.assertEqual((said["valid"], said["missing"], said["shape"]), (level.size, 0, [*level.shape[::-1]]))
                for entry, expected in (("min", level.min()), ("max", level.max()), ("mean", level.mean()),
                                        ("stddev", level.std())):
                    self.assertAlmostEqual(said[entry]["value"], expected, delta=1e-9)
                original = cut(self.source_of[name, step], 1).astype("f8")
                low, high = said["mean"]["interval"]
                self.assertTrue(low <= original.mean() <= high)

    def test_points(self):
        """On a sample, and in the middle of two along each axis that has two."""
        for name in VARIABLES:
            whole = self.decoded[name, 0].astype("f8")
            last = [n - 1 for n in whole.shape[::-1]]
            points, expected = [last], [whole[-1, -1, -1]]
            for axis in range(3):
                if last[axis] == 0:
                    continue
                points.append([n - 0.5 * (a == axis) for a, n in enumerate(last)])
                expected.append((whole[-1, -1, -1] + np.take(whole, -2, 2 - axis)[-1, -1]) / 2)
            at = [word for point in points for word in ("--at", ",".join(map(str, point)))]
            said = self.both("points", self.server, name, *at)
            np.testing.assert_allclose(said["values"], expected, rtol=1e-12, err_msg=name)
        header = [qt.succeed("quarry", "points", target, "--field", "u", "--at", "0,0,0").out
                  for target in self.targets]
        self.assertTrue(header[0].startswith("lon_u,lat,depth,u [m s-1]\n"), header)
        self.assertEqual(*header)

    def test_points_by_positions(self):
        for name, x in (("temp", "lon"), ("u", "lon_u")):
            place = f"{POSITIONS[x][7]},{POSITIONS['lat'][11]},{POSITIONS['depth'][4]}"
            said = self.both("points", self.server, name, "--physical", "--at", place)
            np.testing.assert_allclose(said["values"], self.decoded[name, 0][4, 11, 7], rtol=1e-6)

    def test_other_targets_than_a_level(self):
        for name in VARIABLES:
            whole = self.decoded[name, 0]
            for options in (("--stride", 3), ("--max-error", 0.2), ("--max-bytes", 3000), ("--max-error", 0.01)):
                with self.subTest(name=name, options=options):
                    plan = self.both("plan", self.server, name, *options)
                    level = plan["spacing"]
                    expected = whole[tuple(slice(None, None, s) for s in level[::-1])]
                    # Without an encoding, a server may use the room that a largest error leaves.
                    for target in self.targets:
                        answer = self.read(target, self.tmp, name, 0, *options, "--encoding", "samples")
                        self.assertEqual(answer.tobytes(), expected.tobytes())

    def test_several_fields_have_one_plan(self):
        for names in (("temp", "ssh", "area"), [*VARIABLES]):
            local, remote = (json.loads(qt.succeed("quarry", "plan", target, "--fields", ",".join(names), "--steps",
                                                   "0:3", "--level", 2, "--json").out) for target in self.targets)
            self.assertEqual(local, remote)
            shapes = {(answer["field"], answer["step"]): answer["shape"] for answer in local["answers"]}
            self.assertEqual(shapes, {key: [*cut(array, 2).shape[::-1]] for key, array in self.decoded.items()
                                      if key[0] in names})
            self.assertEqual(local["reply_bytes"], sum(cut(self.decoded[key], 2).nbytes for key in shapes))

    def assert_refused(self, code, *mentions, options, command="get"):
        """From the directory and through the server, in the same words."""
        output = ("--output", self.tmp / "no.npy") if command == "get" else ()
        lines = []
        for target in self.targets:
            outcome = qt.run("quarry", command, target, *options, *output)
            self.assert_one_line(outcome, code, *mentions)
            lines.append(re.sub(r"\(request .*\)|\"[^\"]*ocean(\.quarry)?\"", "", outcome.err).strip())
        self.assertEqual(*lines)

    def test_a_box_of_another_grid_is_refused_with_the_shape_of_the_field(self):
        for command in ("get", "plan", "stats"):
            for name, box, shape in (("temp", "0:38,0:28,0:20", "37x28x20"), ("ssh", "0:37,0:28,0:20", "37x28x1"),
                                     ("area", "0:37,0:28,3:4", "37x28x1"), ("profile", "0:1,0:1,0:20", "20x1x1"),
                                     ("u", "0:39,:,:", "38x28x20"), ("corner", "0:20", "3x1x1")):
                with self.subTest(command=command, name=name):
                    self.assert_refused(qt.USAGE, f"outside the grid {shape}", command=command,
                                        options=("--field", name, "--box", box))

    def test_the_server_refuses_such_boxes_itself(self):
        for name, box, shape in (("temp", ((0, 38), (0, 28), (0, 20)), "37x28x20"),
                                 ("ssh", ((0, 37), (0, 28), (0, 20)), "37x28x1"),
                                 ("profile", ((0, 1), (0, 1), (0, 20)), "20x1x1")):
            for method in ("Read", "PlanRead", "GetStatistics"):
                answer = self.client.call(method, read_question("ocean", name, 0, 0, box))
                self.assertEqual((answer.status, answer.messages), (INVALID_ARGUMENT, []))
                self.assertIn(shape, answer.message)

    def test_a_box_of_several_fields(self):
        """On the wire it means for each the samples of its own grid; the command takes it for fields of one grid."""
        box = ("--box", "3:9,4:8,:", "--steps", "0:1")
        output = ("--output", self.tmp / "{field}-{step}.npy")
        for target in self.targets:
            outcome = qt.run("quarry", "get", target, "--fields", "temp,u", *box, *output)
            self.assert_one_line(outcome, qt.USAGE, '"temp"', '"u"', "two grids")
            qt.succeed("quarry", "get", target, "--fields", "ssh,area", *box, *output)
            for name in ("ssh", "area"):
                np.testing.assert_array_equal(np.load(self.tmp / f"{name}-0.npy"), self.decoded[name, 0][:, 4:8, 3:9])
        corners = [b"".join(map(grpc_web.varint, corner)) for corner in ((3, 4, 0), (9, 8, 1))]
        on_wire = grpc_web.field(4, grpc_web.field(1, corners[0]) + grpc_web.field(2, corners[1]))
        query = grpc_web.field(1, "ocean") + on_wire
        for names, status in ((("temp", "u", "ssh"), OK), (("temp", "profile"), INVALID_ARGUMENT)):
            wanted = b"".join(grpc_web.field(12, name) for name in names)
            answer = self.client.call("PlanRead", grpc_web.field(1, query + wanted))
            self.assertEqual(answer.status, status, answer)
        self.assertIn("20x1x1", answer.message)

    def test_levels_that_the_grid_of_the_field_has_not(self):
        for command in ("get", "plan", "stats"):
            self.assert_refused(qt.USAGE, "level 3", '"corner"', "levels 0 (full resolution) to 2", command=command,
                                options=("--field", "corner", "--level", 3))
            self.assert_refused(qt.USAGE, "level 5", '"ssh"', "levels 0 (full resolution) to 4", command=command,
                                options=("--field", "ssh", "--level", 5))
        self.assert_refused(qt.USAGE, "level 3", '"corner"', command="plan",
                            options=("--fields", "temp,corner", "--steps", "0:3", "--level", 3))

    def test_fields_and_steps_that_are_not_there(self):
        for command in ("get", "plan", "stats"):
            self.assert_refused(qt.NOT_FOUND, '"salt"', command=command, options=("--field", "salt"))
            self.assert_refused(qt.USAGE, "temp, ssh, u, area, profile, corner", command=command, options=())
        self.assert_refused(qt.NOT_FOUND, '"salt"', command="points", options=("--field", "salt", "--at", "0,0,0"))
        self.assert_refused(qt.NOT_FOUND, "area", options=("--field", "area", "--step", 1))

    def test_points_outside_the_grid_of_the_field(self):
        for name, point, shape in (("temp", "37,0,0", "37x28x20"), ("ssh", "0,0,1", "37x28x1"),
                                   ("profile", "0,0,3", "20x1x1")):
            self.assert_refused(qt.USAGE, shape, command="points", options=("--field", name, "--at", point))
        self.both("points", self.server, "u", "--at", "37,0,0")


class Writing(Grids):
    def test_any_number_of_ranks_writes_the_same(self):
        cases = (((), (2, 3)), (("--layers", "1e-1,1e-3"), (3,)), (("--keyframe", 2, "--order", "level"), (2,)))
        for number, (options, counts) in enumerate(cases):
            single = qt.snapshot(self.write(self.tmp / f"{number}.quarry", *options))
            for ranks in counts:
                # Memory for some planes of the volumes at a time.
                path = self.write(self.tmp / f"{number}on{ranks}.quarry", *options, "--memory", "64KiB", ranks=ranks)
                self.assertTrue(qt.snapshot(path) == single, f"{options} on {ranks} ranks")

    def test_one_call_for_each_field_writes_the_same(self):
        path = self.tmp / "ocean.quarry"
        for number, name in enumerate(VARIABLES):
            layout = ("--patch", 4) if name == "corner" else LAYOUT
            qt.succeed(qt.SERIAL_WRITER, f"{self.source}:{name}", "--tolerance", TOLERANCE, *layout,
                       *["--append"] * (number > 0), "--output", path)
        self.assertEqual(qt.subfiles(path), qt.subfiles(self.path))
        said = [qt.info(one) for one in (path, self.path)]
        self.assertEqual(*said)

    def test_a_single_value_says_nothing_about_the_levels_of_others(self):
        """It has one level, wherever it comes in the order of the inputs."""
        np.save(self.tmp / "value.npy", np.ones(1, "f4"))
        np.save(self.tmp / "volume.npy", samples("temp"))
        levels = {}
        for names in (("volume", "value"), ("value", "volume")):
            path = self.tmp / f"{names[0]}.quarry"
            qt.succeed(qt.SERIAL_WRITER, *(self.tmp / f"{name}.npy" for name in names), "--lossless", *LAYOUT,
                       "--output", path)
            said = qt.described(path)
            levels[names[0]] = {field["name"]: said["grids"][field["grid"]]["levels"] for field in said["fields"]}
        self.assertEqual(levels["volume"], {"volume": 5, "value": 1})
        self.assertEqual(levels["value"], levels["volume"])

    def test_dry_run_and_report_name_each_grid(self):
        report = self.tmp / "report.json"
        arguments = (qt.SERIAL_WRITER, *each(self.source, VARIABLES), "--tolerance", TOLERANCE, *LAYOUT, "--output",
                     self.tmp / "new.quarry")
        planned = qt.succeed(*arguments, "--dry-run").out
        self.assertEqual(re.findall(r"^grid +(\S+) samples", planned, re.MULTILINE),
                         ["37x28x20", "37x28x1", "38x28x20", "20x1x1", "3x1x1"])
        self.assertFalse((self.tmp / "new.quarry").exists())
        written = qt.succeed(*arguments, "--report", report).out
        self.assertEqual(re.findall(r": grid (\S+),", written), ["37x28x20", "37x28x1", "38x28x20", "20x1x1", "3x1x1"])
        said = json.loads(report.read_text())
        self.assertEqual({(field["field"], field["step"]): field["bytes_in"] for field in said["fields"]},
                         {key: array.nbytes for key, array in self.source_of.items()})
        self.assertEqual(said["size_grid"]["shape"], [3, 2, 2])
        # Stored bytes of the patches of the volume alone.
        stored = sum(field["payload_bytes"] for field in said["fields"] if field["step"] == 0
                     and field["field"] == "temp")
        self.assertGreaterEqual(sum(said["size_grid"]["bytes"]), stored)

    def test_layers_hold_on_every_grid(self):
        path = self.write(self.tmp / "layered.quarry", "--layers", "1e-1,1e-2,exact")
        self.assert_verified(path)
        qt.succeed("quarry-index", path)
        with qt.Server(self.tmp) as server:
            for layer, tolerance in enumerate((1e-1, 1e-2, 0)):
                local, remote = (self.series(target, VARIABLES, 0, "--layer", layer)
                                 for target in (path, server.target(path)))
                for key, array in self.source_of.items():
                    self.assertLessEqual(qt.largest_error(array, local[key]), tolerance, key)
                    self.assertEqual(local[key].tobytes(), remote[key].tobytes(), key)

    def write_slow(self, names):
        """Steps with keyframes that hardly differ, each with fields of its own."""
        inputs = []
        for step, fields in names.items():
            source = write_source(self.tmp / f"{step}.nc", fields, step, 1)
            inputs += each(source, fields)
            with module("netCDF4").Dataset(source, "a") as file:
                for name in fields:
                    file[name][0] = samples(name) * np.float32(1 + 0.01 * step)
        path = self.tmp / "data" / "moving.quarry"
        path.parent.mkdir()
        qt.succeed(qt.SERIAL_WRITER, *inputs, "--tolerance", TOLERANCE, "--keyframe", 4, *LAYOUT, "--output", path)
        return path

    def test_a_field_that_ends_earlier_than_others_has_references_too(self):
        path = self.write_slow({0: SERIES, 1: SERIES, 2: SERIES, 3: ("temp", "ssh"), 4: ("temp", "ssh")})
        for step in (1, 2):
            (field,) = (one for one in qt.step_manifest(path, step)["fields"] if one["name"] == "u")
            self.assertNotEqual(field.get("references", []), [], f"step {step} is coded on its own")

    def test_keyframes_are_of_the_field(self):
        """Steps that hardly differ refer to each other, on every grid that has several."""
        path = self.write_slow(dict.fromkeys(range(4), SERIES))
        self.append(path, self.source, ["area", "profile"], "--tolerance", TOLERANCE)
        for step, references in enumerate(([], [0, 3], [1, 3], [0])):
            fields = {field["name"]: field for field in qt.step_manifest(path, step)["fields"]}
            for name in SERIES:
                found = [int(other) for other in fields[name].get("references", [])]
                self.assertEqual(found, references, f"step {step} of {name}")
        self.assert_verified(path)
        qt.succeed("quarry-index", path)
        with qt.Server(path.parent) as server:
            local, remote = (self.series(target, [*SERIES, "area", "profile"], 0)
                             for target in (path, server.target(path)))
        self.assertEqual(len(local), 3 * 4 + 2)
        for (name, step), array in local.items():
            self.assertEqual(array.tobytes(), remote[name, step].tobytes())
            expected = samples(name) * np.float32(1 + 0.01 * step)
            self.assertLessEqual(qt.largest_error(expected, array), TOLERANCE, (name, step))

    def test_further_steps_of_some_fields(self):
        """Two more of the volume and the map, and then one of the other volume: a step has what was written of it."""
        path = self.copy()
        with qt.Server(path.parent, "--watch", 0.05) as server:
            target = server.target(path)
            watchers = [Watcher(one, "--count", 5) for one in (path, target)]
            for watcher in watchers:
                self.addCleanup(watcher.stop)
                watcher.wait_for(2)
            self.append(path, write_source(self.tmp / "more.nc", ("temp", "ssh"), 3, 2), ("temp", "ssh"))
            for watcher in watchers:
                self.assertEqual(watcher.finish().code, qt.DONE)
                self.assertEqual([event["step"] for event in watcher.events], [0, 1, 2, 3, 4])
                self.assertEqual([{*event["fields"]} for event in watcher.events],
                                 [{*VARIABLES}, {*SERIES}, {*SERIES}, {"temp", "ssh"}, {"temp", "ssh"}])
            self.append(path, write_source(self.tmp / "later.nc", ("u",), 3, 1), ("u",))
            self.assertEqual(qt.described(target), qt.described(path))
            self.check_appended(path, target)
            # The index has the first three steps.
            self.assertIn("loaded", qt.succeed("quarry-index", path).out)
            qt.succeed("quarry-index", path, "--verify")
            self.check_appended(path, target)
        self.assert_verified(path)

    def check_appended(self, path, target):
        said = qt.described(path)
        counts = {"temp": 5, "ssh": 5, "u": 4, "area": 1, "profile": 1, "corner": 1}
        self.assertEqual({field["name"]: field["steps"] for field in said["fields"]}, counts)
        self.assertEqual((said["times"], len(said["grids"])), (days(0, 5).tolist(), 5))
        local, remote = (self.series(one, SERIES, 0) for one in (path, target))
        self.assertEqual({*local}, {(name, step) for name in SERIES for step in range(counts[name])})
        for (name, step), array in local.items():
            self.assertLessEqual(qt.largest_error(in_three(samples(name, step)), array), TOLERANCE, (name, step))
            self.assertEqual(array.tobytes(), remote[name, step].tobytes())

    def test_a_field_keeps_its_grid_and_an_axis_its_positions(self):
        path = self.copy()
        before = qt.snapshot(path)

        def assert_refused(*mentions, sources, options=()):
            outcome = qt.run(qt.SERIAL_WRITER, *sources, "--append", *options, "--output", path)
            self.assert_one_line(outcome, qt.USAGE, *mentions)
            self.assertTrue(qt.snapshot(path) == before, "nothing of it is written")

        other = write_source(self.tmp / "other.nc", ("temp", "ssh"), 3, 1)
        assert_refused("37x28x1 here", "37x28x20 in the dataset", sources=[f"{other}:ssh"], options=("--field", "temp"))
        with module("netCDF4").Dataset(other, "a") as file:
            file["lat"][:] = POSITIONS["lat"] + 1
        assert_refused("the positions along y", "y is lat", sources=[f"{other}:ssh"])
        assert_refused('"lat"', sources=[f"{other}:ssh"], options=("--field", "tide", "--tolerance", TOLERANCE))
        assert_refused("5 levels do not fit patches of 4x1x1", sources=[f"{self.source}:corner"],
                       options=("--field", "edge", "--tolerance", TOLERANCE, "--patch", 4, "--levels", 5, "--origin",
                                "9,0,0"))

    def test_missing_samples_have_masks_of_their_grid(self):
        """Where two grids miss everything, their masks have equal digests."""
        source = self.tmp / "land.nc"
        write_source(source)
        with module("netCDF4").Dataset(source, "a") as file:
            for name in ("temp", "ssh", "area"):
                file[name][..., 5:20, 8:30] = np.nan
            file["u"][:] = np.nan
            file["profile"][:] = np.nan
        path = self.write(self.tmp / "land.quarry", source=source)
        self.assert_verified(path)
        # Land of the volume and of the map, which ssh and area share; nothing of the other volume and of the profile.
        self.assertEqual(len(qt.masks(path)), 4)
        qt.succeed("quarry-index", path)
        with module("netCDF4").Dataset(source) as file:
            file.set_auto_mask(False)
            original = {name: file[name][:] for name in VARIABLES}
        with qt.Server(self.tmp) as server:
            local, remote = (self.series(target, VARIABLES, 0) for target in (path, server.target(path)))
        for (name, step), array in local.items():
            expected = original[name][step] if name in SERIES else original[name]
            self.assert_decoded(expected, array, TOLERANCE)
            self.assertEqual(array.tobytes(), remote[name, step].tobytes())

    def test_an_interrupted_run_is_resumed(self):
        """Killed when its first step is there; and started again where steps and fields of one grid are not."""
        sources = [write_source(self.tmp / f"{step}.nc", SERIES, step, 1) for step in range(5)]
        inputs = [one for source in sources for one in each(source, SERIES)]
        arguments = [*inputs, f"{self.source}:area", "--tolerance", TOLERANCE, *LAYOUT, "--output"]
        whole = self.tmp / "whole.quarry"
        qt.succeed(qt.SERIAL_WRITER, *arguments, whole)
        path = self.tmp / "killed.quarry"
        command = [qt.executable(qt.SERIAL_WRITER), *map(str, arguments), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=qt.ENVIRONMENT) as process:
            for line in process.stdout:
                if line.startswith("step 0: "):
                    process.send_signal(signal.SIGKILL)
        qt.succeed(qt.SERIAL_WRITER, *arguments, path, "--resume")
        self.assertEqual(qt.subfiles(path), qt.subfiles(whole))
        self.assertEqual(qt.info(path), qt.info(whole))
        self.assert_no_leftovers(path)

        for step in (1, 4):
            shutil.rmtree(path / "steps" / f"{step:06}")
        qt.succeed(qt.SERIAL_WRITER, *(one for one in arguments if not str(one).endswith(":u")), path, "--resume")
        out = qt.succeed(qt.SERIAL_WRITER, *arguments, path, "--resume").out
        self.assertIn("14 fields published already, skipped", out)
        self.assertEqual(qt.subfiles(path), qt.subfiles(whole))
        self.assertEqual(qt.info(path), qt.info(whole))

    def test_what_is_there_is_not_overwritten(self):
        path = self.copy()
        before = qt.snapshot(path)
        outcome = qt.run(qt.SERIAL_WRITER, f"{self.source}:ssh", "--tolerance", TOLERANCE, "--output", path)
        self.assert_one_line(outcome, qt.USAGE, "exists already")
        outcome = qt.run(qt.SERIAL_WRITER, f"{self.source}:ssh", "--append", "--step", 1, "--output", path)
        self.assertIn("step 1 of", outcome.err)
        self.assertTrue(qt.snapshot(path) == before)


class Checks(Grids):
    def test_verify_counts_the_patches_of_all_grids(self):
        def patches(array, patch):
            return int(np.prod([-(-n // patch) for n in array.shape]))

        said = json.loads(qt.succeed("quarry", "verify", self.path, "--json").out)
        counts = {key: patches(array, 4 if key[0] == "corner" else 16) for key, array in self.source_of.items()}
        self.assertEqual((said["steps"], said["patches"], said["damage"]), (3, sum(counts.values()), []))
        self.assertEqual(said["subfiles"], sum(min(2, count) for count in counts.values()))
        indexed = qt.succeed("quarry-index", self.path, "--rebuild").out
        self.assertIn(f"{sum(counts.values())} patches", indexed)

    def test_verify_against_the_source(self):
        with qt.Server(self.data) as server:
            for (name, step), array in self.source_of.items():
                said = [json.loads(qt.succeed("quarry", "verify", target, "--field", name, "--step", step, "--against",
                                              f"{self.source}:{name}", "--json").out)
                        for target in (self.path, server.target(self.path))]
                self.assertEqual(*said)
                self.assertEqual((said[0]["valid"], said[0]["holds"]), (array.size, True))
                error = qt.largest_error(array, self.decoded[name, step])
                self.assertAlmostEqual(said[0]["max_error"], error, delta=1e-9)
            for target in (self.path, server.target(self.path)):
                outcome = qt.run("quarry", "verify", target, "--field", "ssh", "--against", f"{self.source}:temp")
                self.assert_one_line(outcome, qt.USAGE, "37x28x20", '"ssh" 37x28x1')

    def test_a_damaged_field_leaves_those_on_other_grids_alone(self):
        path = self.copy()
        victim = sorted((path / "steps" / "000001" / "u").glob("*.qsf"))[0]
        data = bytearray(victim.read_bytes())
        data[200] ^= 1  # payload begins at 144
        victim.write_bytes(data)
        with qt.Server(path.parent) as server:
            for target in (path, server.target(path)):
                for key, array in self.decoded.items():
                    outcome = qt.run("quarry", "get", target, "--field", key[0], "--step", key[1], "--output",
                                     self.tmp / "d.npy")
                    if key == ("u", 1):
                        self.assertEqual(outcome.code, qt.DAMAGED, outcome)
                        continue
                    self.assertEqual(outcome.code, qt.DONE, outcome)
                    np.testing.assert_array_equal(np.load(self.tmp / "d.npy"), array)
                said = json.loads(qt.succeed("quarry", "get", target, "--field", "u", "--step", 1, "--allow-damage",
                                             "--json", "--output", self.tmp / "d.npy").out)
                self.assertTrue(said["damaged"])
                self.assertEqual(np.load(self.tmp / "d.npy").shape, (20, 28, 38))
        outcome = qt.run("quarry", "verify", path)
        self.assertEqual(outcome.code, qt.DAMAGED, outcome)
        self.assertIn("steps/000001/u/", outcome.err)


class InSitu(Grids):
    def test_a_simulation_and_files_write_into_one_dataset(self):
        """The simulation has a grid without names; maps and volumes of other sizes come from files."""
        program = qt.BIN / "lbm"
        if not program.is_file():
            qt.skip("lbm is not built here")
        path = self.tmp / "data" / "run.quarry"
        path.parent.mkdir()
        qt.succeed(*qt.mpi_command(2, program, "--dims", "24x20x16", "--steps", 4, "--dump-every", 2, "--insitu", path,
                                   "--output", self.tmp / "dump"))
        dumps = {step: np.fromfile(self.tmp / "dump" / f"step{step:06}" / "lbm-density-[24-20-16]-Float32.raw", "<f4")
                 for step in (2, 4)}
        plane = qt.turbulent((24, 20, 1), name="plane").reshape(20, 24)
        fine = qt.turbulent((48, 40, 32), name="fine")
        np.save(self.tmp / "plane.npy", plane)
        np.save(self.tmp / "fine.npy", fine)
        for name in ("plane", "fine"):
            qt.succeed(*qt.mpi_command(3, "quarry-write", self.tmp / f"{name}.npy", "--tolerance", TOLERANCE,
                                       "--step", 4, "--append", "--output", path))
        self.assert_verified(path)
        qt.succeed("quarry-index", path)
        said = qt.described(path)
        self.assertEqual([grid["dims"] for grid in said["grids"]], [[24, 20, 16], [24, 20, 1], [48, 40, 32]])
        with http_server(path.parent) as server, grpc_web.Client(server.http_address()) as client:
            self.assertEqual(qt.described(server.target(path)), said)
            for name, step, array, tolerance in (("density", 2, dumps[2], None), ("density", 4, dumps[4], None),
                                                 ("plane", 4, plane, TOLERANCE), ("fine", 4, fine, TOLERANCE)):
                local, remote = (self.read(target, self.tmp, name, step) for target in (path, server.target(path)))
                self.assertEqual(local.tobytes(), remote.tobytes())
                # The simulation's bound is relative.
                self.assertLessEqual(qt.largest_error(array, local), tolerance or 1e-3 * np.ptp(array))
                answer = client.call("Read", read_question("run", name, step, 0))
                self.assertEqual(grpc_web.samples_of(answer.messages, "<f4").tobytes(), local.tobytes())


if __name__ == "__main__":
    qt.main()
