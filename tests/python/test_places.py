"""Points by longitude and latitude, where these are fields along axes without positions: from Python and by the command, of
a directory and through a server. What is right, an analytic map between the sphere and the grid says, and scipy."""

import csv
import re
import warnings

import scipy.interpolate
import xarray as xr
from python_testing import np, qt, quarry

SHAPE = (3, 4, 31, 41)  # time, deptht, y, x
DEPTHS = np.array([0.5, 10, 50, 200])
POLE = (-162.0, 39.25)  # longitude and latitude of the north pole of the grid, which lies about 50 N, 18 E
SPACING = 0.5  # [degrees]
# [cells] sides of cells are great circles here, and no parallels of the turned sphere
ROUNDING = 3e-4


def turned(j, i, pole=POLE, shape=SHAPE):
    """Latitude and longitude of sample coordinates: those of a sphere whose north pole is elsewhere."""
    lon, lat = (np.radians(SPACING * (at - (length - 1) / 2)) for at, length in ((i, shape[-1]), (j, shape[-2])))
    to = np.radians(pole[1])
    up = np.sin(lat) * np.sin(to) + np.cos(lat) * np.cos(lon) * np.cos(to)
    north = np.sin(lat) * np.cos(to) - np.cos(lat) * np.cos(lon) * np.sin(to)
    around = pole[0] + np.degrees(np.arctan2(-np.cos(lat) * np.sin(lon), north))
    return np.degrees(np.arcsin(up)), (around + 180) % 360 - 180


def ocean(places=turned, names=("nav_lat", "nav_lon"), shape=SHAPE):
    """Noise in three dimensions and in two, on axes y and x without positions."""
    random = np.random.default_rng(qt.SEED)
    lat, lon = places(*np.meshgrid(np.arange(shape[-2]), np.arange(shape[-1]), indexing="ij"))
    plane = ("y", "x")
    return xr.Dataset(
        {"temp": (("time", "deptht", *plane), random.normal(size=shape), {"units": "degC"}),
         "ssh": (("time", *plane), random.normal(size=(shape[0], *shape[2:])), {"units": "m"})},
        {"time": np.arange(shape[0], dtype="f8"), "deptht": ("deptht", DEPTHS, {"units": "m"}),
         names[0]: (plane, lat, {"units": "degrees_north"}), names[1]: (plane, lon, {"units": "degrees_east"})})


def noise_at(data, name, step, depths, rows, columns):
    """The field between its samples, by scipy."""
    axes = (DEPTHS, *map(np.arange, SHAPE[2:]))
    positions = np.column_stack([depths, rows, columns])
    at = data[name].values[step]
    if name == "ssh":
        axes, positions = axes[1:], positions[:, 1:]
    return scipy.interpolate.RegularGridInterpolator(axes, at)(positions)


class Places(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        cls.ocean = ocean()
        cls.path = cls.write(cls.ocean, cls.data / "ocean.quarry")
        cls.server = cls.enterClassContext(qt.Server(cls.data))
        random = np.random.default_rng(qt.SEED)
        cls.rows, cls.columns = (random.uniform(0, length - 1, 200) for length in SHAPE[2:])
        cls.depths = random.uniform(DEPTHS[0], DEPTHS[-1], 200)
        cls.positions = np.column_stack([cls.depths, *turned(cls.rows, cls.columns)])

    @staticmethod
    def write(data, path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quarry.write(path, data, lossless=True)
        return path

    def written(self, data):
        return self.write(data, self.tmp / "run.quarry")

    def expected(self, name, step):
        return noise_at(self.ocean, name, step, self.depths, self.rows, self.columns)

    def points(self, path, positions, field="temp", **options):
        with quarry.open(path) as dataset:
            return dataset[field].points(positions, physical=True, **options)[0]

    def refused(self, path, positions, field="temp", step=0):
        """The error in Python; the command gives the same for numbers in its own order."""
        with self.assertRaises(quarry.Error) as caught:
            self.points(path, positions, field, step=step)
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        at = [word for z, y, x in positions for word in ("--at", f"{x},{y},{z}")]
        outcome = qt.run("quarry", "points", path, "--field", field, "--step", step, "--physical", *at)
        self.assert_one_line(outcome, qt.USAGE)
        self.assertEqual(str(caught.exception).split("(")[0], outcome.err.removeprefix("quarry: ").split("(")[0])
        return str(caught.exception), outcome.err

    # ---- Where points are

    def test_points_lie_where_the_coordinates_say(self):
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target), quarry.open(target) as dataset:
                for name, step in (("temp", 0), ("temp", 2), ("ssh", 1)):
                    depth = 1 if name == "temp" else 0
                    values, error = dataset[name].points(self.positions * (depth, 1, 1), step=step, physical=True)
                    np.testing.assert_allclose(values, self.expected(name, step), atol=20 * ROUNDING)
                    self.assertEqual(error, 0)

    def test_samples_are_themselves(self):
        rows, columns = np.indices(SHAPE[2:]).reshape(2, -1)
        positions = np.column_stack([np.full(rows.size, DEPTHS[1]), *turned(rows, columns)])
        values = self.points(self.path, positions, step=1)
        np.testing.assert_array_equal(values, self.ocean["temp"].values[1, 1].ravel())

    def test_several_steps_at_once(self):
        values = self.points(self.path, self.positions, steps="all")
        for step in range(SHAPE[0]):
            np.testing.assert_allclose(values[step], self.expected("temp", step), atol=20 * ROUNDING)

    def test_by_the_command(self):
        file = self.tmp / "points.csv"
        np.savetxt(file, self.positions[:, ::-1], "%.17g", ",", header="lon,lat,depth")
        for target in (self.path, self.server.target(self.path)):
            table = self.tmp / "values.csv"
            qt.succeed("quarry", "points", target, "--field", "temp", "--step", 2, "--physical", "--file", file,
                       "--output", table)
            with open(table, newline="") as lines:
                titles, *cells = csv.reader(lines)
            self.assertEqual(titles, ["nav_lon [degrees_east]", "nav_lat [degrees_north]", "deptht [m]", "temp [degC]"])
            np.testing.assert_array_equal(np.array(cells, "f8")[:, 3], self.points(self.path, self.positions, step=2))
        said = qt.succeed("quarry", "points", self.path, "--field", "ssh", "--physical", "--at", "18,50,0").out
        self.assertTrue(said.startswith("nav_lon,nav_lat,z,ssh [m]\n18,50,0,"), said)
        said = qt.succeed("quarry", "points", self.path, "--field", "ssh", "--at", "3,4,0").out
        self.assertTrue(said.startswith("x,y,z,ssh [m]\n3,4,0,"), said)

    def test_tables_of_python_have_the_names(self):
        table = self.tmp / "values.csv"
        physical = "deptht [m],nav_lat [degrees_north],nav_lon [degrees_east],temp [degC]"
        for positions, titles in (([[10, 50, 18]], physical), ([[1, 2, 3]], "deptht,y,x,temp [degC]")):
            with quarry.open(self.path) as dataset:
                dataset["temp"].points(positions, step=0, physical=titles == physical, output=table)
            self.assertEqual(table.read_text().splitlines()[0], titles)

    def test_across_the_date_line_and_over_the_pole(self):
        for pole, coordinate, most in (((0.0, 50.0), "nav_lon", 179), ((40.0, 0.0), "nav_lat", 89)):
            data = ocean(lambda j, i, pole=pole: turned(j, i, pole))
            self.assertGreater(data[coordinate].max(), most)
            path = self.write(data, self.tmp / f"{pole[0]}.quarry")
            positions = np.column_stack([self.depths, *turned(self.rows, self.columns, pole)])
            positions[::2, 2] += 360
            expected = noise_at(data, "temp", 0, self.depths, self.rows, self.columns)
            np.testing.assert_allclose(self.points(path, positions, step=0), expected, atol=20 * ROUNDING)

    def test_a_plane_in_metres(self):
        def sheared(j, i):
            return 4e6 + 1000 * j - 100 * i, 5e5 + 1000 * i + 300 * j

        plane = {"nav_lat": {"standard_name": "projection_y_coordinate", "units": "m"},
                 "nav_lon": {"standard_name": "projection_x_coordinate", "units": "m"}}
        data = ocean(sheared)
        for name, attrs in plane.items():
            data[name].attrs = attrs
        positions = np.column_stack([self.depths, *sheared(self.rows, self.columns)])
        expected = noise_at(data, "temp", 0, self.depths, self.rows, self.columns)
        np.testing.assert_allclose(self.points(self.written(data), positions, step=0), expected, atol=1e-8)

    def test_coordinates_that_change_with_time_are_those_of_the_step(self):
        """As in the files of WRF."""
        data = ocean(names=("XLAT", "XLONG"))
        for name in ("XLAT", "XLONG"):
            moved = np.stack([data[name].values + step for step in range(SHAPE[0])])
            data[name] = (("time", "y", "x"), moved, data[name].attrs)
        path = self.written(data)
        for step in range(SHAPE[0]):
            values = self.points(path, self.positions + (0, step, step), step=step)
            np.testing.assert_allclose(values, self.expected("temp", step), atol=20 * ROUNDING)
        # In the middle of the grid, where it is at all steps.
        middle = np.hypot(self.rows - SHAPE[2] / 2, self.columns - SHAPE[3] / 2).argmin()
        values = self.points(path, self.positions[middle] + [[0, 0, 0], [0, 1, 1], [0, 2, 2]], steps="all")
        for step in range(SHAPE[0]):
            np.testing.assert_allclose(values[step, step], self.expected("temp", step)[middle], atol=20 * ROUNDING)

    def test_coordinates_are_read_once(self):
        path = self.written(self.ocean)
        with quarry.open(path, memory=1) as dataset:  # decoded patches are not kept
            first, _ = dataset["temp"].points(self.positions, step=0, physical=True)
            for name in ("nav_lat", "nav_lon"):
                for file in path.rglob(f"{name}/*.qsf"):
                    file.write_bytes(b"")
            with quarry.open(path) as anew, self.assertRaises(quarry.Error):
                anew["nav_lat"].read(step=0)
            again, _ = dataset["temp"].points(self.positions, step=0, physical=True)
            np.testing.assert_array_equal(again, first)
            other, _ = dataset["ssh"].points(self.positions * (0, 1, 1), step=1, physical=True)
            np.testing.assert_allclose(other, self.expected("ssh", 1), atol=20 * ROUNDING)
        with self.assertRaises(quarry.Error) as caught:
            self.points(path, self.positions, step=0)
        self.assertEqual(caught.exception.code, "DATA_LOSS")

    # ---- What stays

    def test_axes_with_positions_are_asked_as_before(self):
        """As in CORDEX: the grid is turned, and its axes have positions on the turned sphere."""
        axes = {"y": 100 + 2.0 * np.arange(SHAPE[2]), "x": 7 - 0.5 * np.arange(SHAPE[3])}
        data = self.ocean.assign_coords(axes)
        path = self.written(data)
        positions = np.column_stack([self.depths, 100 + 2 * self.rows, 7 - 0.5 * self.columns])
        np.testing.assert_allclose(self.points(path, positions, step=0), self.expected("temp", 0), atol=1e-9)
        said = qt.succeed("quarry", "points", path, "--field", "ssh", "--physical", "--at", "5,102,0").out
        self.assertTrue(said.startswith("x,y,z,ssh [m]\n"), said)

    def test_arrays_that_nobody_described_lie_at_0_1_2(self):
        array = np.arange(24, dtype="f8").reshape(2, 3, 4)
        quarry.write(self.tmp / "run.quarry", array, field="p", lossless=True)
        np.testing.assert_array_equal(self.points(self.tmp / "run.quarry", [[1, 2, 3], [0, 0.5, 0]], "p"), [23, 2])

    # ---- What is refused

    def test_points_outside(self):
        inside = [10, 50.25, 18.125]
        said, by_command = self.refused(self.path, [inside, [10, -50, 18.125]])
        self.assertIn('point 1 (10, -50, 18.125) is outside the grid of "temp"', said)
        self.assertIn('point 1 (18.125, -50, 10) is outside the grid of "temp"', by_command)
        for one in (said, by_command):
            for name in ("nav_lon", "nav_lat"):
                low, high, unit = re.search(rf'"{name}" runs from (\S+) to (\S+) (\w+)', one).groups()
                coordinate = self.ocean[name]
                self.assertEqual([float(low), float(high)], [coordinate.values.min(), coordinate.values.max()])
                self.assertEqual(unit, coordinate.attrs["units"])
        for depth in (0, 200.5):
            said, _ = self.refused(self.path, [[depth, *inside[1:]]])
            self.assertIn(f'point 0 ({depth}, 50.25, 18.125) is outside the grid of "temp": "deptht" runs from 0.5 to '
                          "200 m", said)
        self.refused(self.path, [inside], field="ssh")
        for place in range(3):  # the command refuses NaN itself
            with self.assertRaisesRegex(quarry.Error, r"point 0 \(.*nan.*\) is outside the grid"):
                self.points(self.path, [[*inside[:place], np.nan, *inside[place + 1:]]])

    def test_cells_with_a_missing_corner_hold_nothing(self):
        data = self.ocean.copy(deep=True)
        data["nav_lat"][10, 20] = np.nan
        path = self.written(data)
        for row, column in ((9.5, 19.5), (9.25, 20.5), (10.5, 20.75)):
            said, _ = self.refused(path, [[10, *map(float, turned(row, column))]])
            self.assertIn("no four samples with positions", said)
        around = np.array([[8.5, 19.5], [11.5, 20.5], [10.5, 18.5], [9.5, 21.5]])
        positions = np.column_stack([np.full(4, 10.0), *turned(*around.T)])
        expected = noise_at(data, "temp", 0, np.full(4, 10.0), *around.T)
        np.testing.assert_allclose(self.points(path, positions, step=0), expected, atol=20 * ROUNDING)

    def test_coordinates_that_are_not_one_of_each(self):
        staggered = (("y", "x"), self.ocean["nav_lon"].values + 0.25, {"units": "degrees_east"})
        further = self.ocean.assign_coords(glamu=staggered)
        for data, names in ((further, 'longitude: "nav_lon", "glamu"; latitude: "nav_lat"'),
                            (self.ocean.drop_vars("nav_lat"), 'longitude: "nav_lon"; latitude: none'),
                            (self.ocean.drop_vars(["nav_lat", "nav_lon"]), "longitude: none; latitude: none")):
            path = self.write(data, self.tmp / f"{len(names)}.quarry")
            said, by_command = self.refused(path, [[10, 50, 18]])
            self.assertIn('the axes "y" and "x" of "temp" have no positions', said)
            for one, words in ((said, "without physical="), (by_command, "without --physical")):
                self.assertIn(f"({names}); give sample coordinates, {words}", one)
            with quarry.open(path) as dataset:
                values, _ = dataset["temp"].points([[1, 2, 3]], step=0)
            self.assertEqual(values[0], data["temp"].values[0, 1, 2, 3])

    def test_a_field_that_is_not_there(self):
        outcome = qt.run("quarry", "points", self.path, "--field", "salt", "--physical", "--at", "18,50,0")
        self.assert_one_line(outcome, qt.NOT_FOUND, '"salt"')


if __name__ == "__main__":
    qt.main()
