"""h5netcdf, cf-xarray and iris say of an export to NetCDF what they say of its source, which xarray wrote: axes, times, units,
cells, coordinates. Quarry may say more, as error bounds."""

import warnings
from typing import NamedTuple

import cf_xarray  # noqa: F401 - adds ".cf" to xarray
import cftime
import h5netcdf
import iris
import xarray as xr
from python_testing import np, qt, quarry

GLOBAL = {"Conventions": "CF-1.7", "title": "Sea and air", "institution": "École", "version": np.int32(7),
          "levels": np.array([1, 2, 3], "i2"), "mean": 2.5}
LAT = {"standard_name": "latitude", "units": "degrees_north"}
LON = {"standard_name": "longitude", "units": "degrees_east", "long_name": "east of Greenwich"}
OF_STORAGE = {"_FillValue", "DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Coordinates", "_Netcdf4Dimid",
              "_NCProperties", "_nc3_strict"}


def samples(*shape, dtype="f4"):
    return np.random.default_rng([qt.SEED, *shape]).normal(280, 5, shape).astype(dtype)


def times(calendar, count=4):
    return "time", 30.5 + np.arange(count) * 30, {"standard_name": "time", "long_name": "model time",
                                                  "units": "days since 1850-01-01", "calendar": calendar}


def air():
    """A mean over cells and months of 30 days, 2 m above the ground, and the areas of the cells, which do not change."""
    tas = {"standard_name": "air_temperature", "long_name": "near the surface", "units": "K", "cell_measures": "area: areacella",
           "cell_methods": "area: mean time: mean (interval: 30 minutes)"}
    return xr.Dataset(
        {"tas": (("time", "lat", "lon"), samples(4, 5, 6), tas),
         "areacella": (("lat", "lon"), samples(5, 6) * 1e9, {"standard_name": "cell_area", "units": "m2"})},
        {"time": times("360_day"), "lat": ("lat", np.linspace(-60, 60, 5, dtype="f4"), LAT | {"axis": "Y"}),
         "lon": ("lon", np.linspace(0, 300, 6), LON | {"axis": "X"}),
         "height": ((), 2.0, {"standard_name": "height", "units": "m", "axis": "Z", "positive": "up"})}, GLOBAL)


def sea():
    """A curvilinear grid with land: latitudes and longitudes of each column, uneven depths."""
    j, i = np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij")
    water = samples(4, 3, 5, 6)
    water[..., :2, 3:] = np.nan
    thetao = {"standard_name": "sea_water_potential_temperature", "units": "degC", "cell_methods": "time: point"}
    depth = {"standard_name": "depth", "units": "m", "positive": "down", "axis": "Z"}
    return xr.Dataset(
        {"thetao": (("time", "lev", "j", "i"), water, thetao)},
        {"time": times("noleap"), "lev": ("lev", np.array([5, 15, 40], "i4"), depth),
         "lat": (("j", "i"), j ** 2 + 0.1 * i, LAT), "lon": (("j", "i"), i - 0.1 * j, LON)}, GLOBAL)


def surface():
    """The same without depths."""
    return sea().isel(lev=0, drop=True).rename(thetao="tos")


def rotated():
    """A rotated pole, ends of cells and of means, and levels of pressure, upwards."""
    rlat, rlon, plev = np.linspace(-2, 2, 5), np.linspace(8, 13, 6), np.array([1e5, 85e3, 5e4])
    days = np.arange(4.0)
    hus = {"standard_name": "specific_humidity", "units": "1", "grid_mapping": "rotated_pole", "cell_methods": "time: mean"}
    pole = {"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 39.25,
            "grid_north_pole_longitude": -162.0}
    return xr.Dataset(
        {"hus": (("time", "plev", "rlat", "rlon"), samples(4, 3, 5, 6, dtype="f8"), hus), "rotated_pole": ((), np.int32(0), pole),
         "time_bnds": (("time", "bnds"), days[:, None] + [0, 1]), "rlat_bnds": (("rlat", "bnds"), rlat[:, None] + [-0.5, 0.5])},
        {"time": ("time", days + 0.5, {"standard_name": "time", "units": "days since 2001-02-27 06:00:00",
                                       "calendar": "proleptic_gregorian", "bounds": "time_bnds"}),
         "plev": ("plev", plev, {"standard_name": "air_pressure", "units": "Pa", "positive": "down", "axis": "Z"}),
         "rlat": ("rlat", rlat, {"standard_name": "grid_latitude", "units": "degrees", "axis": "Y", "bounds": "rlat_bnds"}),
         "rlon": ("rlon", rlon, {"standard_name": "grid_longitude", "units": "degrees", "axis": "X"})}, GLOBAL)


def section():
    """Along a meridian. Nothing says "axis", nor in those that follow."""
    depth = {"standard_name": "depth", "units": "m", "positive": "down"}
    return xr.Dataset(
        {"so": (("time", "depth", "lat"), samples(4, 3, 5), {"standard_name": "sea_water_salinity", "units": "1e-3"})},
        {"time": times("standard"), "depth": ("depth", np.array([5.0, 15, 40]), depth),
         "lat": ("lat", np.linspace(-60, 60, 5), LAT)})


def turned():
    """Latitudes vary fastest, and have nothing but a unit."""
    return xr.Dataset({"tas": (("time", "lon", "lat"), samples(4, 6, 5), {"units": "K"})},
                      {"time": times("standard"), "lon": ("lon", np.linspace(0, 300, 6), {"units": "degrees_east"}),
                       "lat": ("lat", np.linspace(-60, 60, 5), {"units": "degrees_north"})})


def profile():
    """By pressure."""
    return xr.Dataset({"ta": (("time", "level"), samples(4, 3), {"units": "K"})},
                      {"time": times("standard"), "level": ("level", np.array([1000.0, 850, 500]), {"units": "hPa"})})


def series():
    """At one place: a row along time."""
    return xr.Dataset({"ta": ("time", samples(4), {"units": "K"})}, {"time": times("standard")})


def covariance():
    """Covariance of latitudes with each other."""
    return xr.Dataset({"c": (("time", "lat", "other"), samples(4, 5, 5), {"units": "K2"})},
                      {"time": times("standard"), **{name: (name, np.linspace(-60, 60, 5), LAT) for name in ("lat", "other")}})


def climate():
    """Means of one month over several years, between years that the source has in the unit of its time."""
    words = {"units": "days since 1981-01-01", "calendar": "standard"}
    ends = np.array([[0, 10957], [31, 10985], [59, 11016]], "f8")
    tas = {"standard_name": "air_temperature", "units": "K", "cell_methods": "time: mean within years time: mean over years"}
    return xr.Dataset(
        {"tas": (("time", "lat", "lon"), samples(3, 5, 6), tas), "climatology_bounds": (("time", "nv"), ends, words)},
        {"time": ("time", np.array([15.0, 45, 74.5]), {"standard_name": "time", "climatology": "climatology_bounds"} | words),
         "lat": ("lat", np.linspace(-60, 60, 5), LAT | {"axis": "Y"}), "lon": ("lon", np.linspace(0, 300, 6), LON | {"axis": "X"})},
        GLOBAL)


SOURCES = (air, sea, surface, rotated, climate)
WITHOUT_LETTERS = (section, turned, profile, series)


class Native(NamedTuple):
    """Contents by h5netcdf: lengths of dimensions; dimensions and samples of variables; attributes, of the whole by
    None."""

    dimensions: dict
    variables: dict
    attributes: dict

    def samples(self, name):
        """Dates, where there is a unit for them. Bounds may have one of their own, or none beside that of their parent."""
        parents = [said for said in self.attributes.values() if said.get("bounds") == name]
        words = {key: value for said in (*parents, self.attributes[name]) for key, value in said.items()}
        samples = self.variables[name][1]
        if "calendar" not in words:
            return samples
        return cftime.num2date(samples, words["units"], words["calendar"], only_use_cftime_datetimes=True)


def native(path):
    with h5netcdf.File(path, "r") as file:
        owners = {None: file, **file.variables}
        return Native({name: len(one) for name, one in file.dimensions.items()},
                      {name: (one.dimensions, one[...]) for name, one in file.variables.items()},
                      {name: {key: plain(key, value) for key, value in owner.attrs.items() if key not in OF_STORAGE}
                       for name, owner in owners.items()})


def plain(name, value):
    """An attribute that compares: arrays as lists, names in any order as a set."""
    return set(value.split()) if name == "coordinates" else np.asarray(value).tolist()


def by_cf_xarray(data):
    """Names of what is found by CF in a Dataset or DataArray."""
    found = {"axes": data.cf.axes, "coordinates": data.cf.coordinates, "measures": data.cf.cell_measures,
             "standard names": data.cf.standard_names}
    if isinstance(data, xr.Dataset):
        found |= {"bounds": data.cf.bounds, "grid mappings": data.cf.grid_mapping_names}
    return {what: {key: sorted(names) for key, names in one.items()} for what, one in found.items()}


class Cube(NamedTuple):
    """A cube by iris: its coordinates by their names, and their names by their axis."""

    standard_name: str
    units: str
    cell_methods: tuple
    measures: list
    axes: dict
    coordinates: dict
    samples: np.ndarray


def by_iris(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", iris.warnings.IrisUserWarning)
        cubes = iris.load_raw(path)
    return {cube.var_name: Cube(
        cube.standard_name, str(cube.units), cube.cell_methods,
        [(one.measure, one.var_name, str(one.units), cube.cell_measure_dims(one)) for one in cube.cell_measures()],
        {axis: [one.var_name for one in cube.coords(axis=axis)] for axis in "TZYX"},
        {one.var_name: (words_of(cube, one), one.attributes) for one in cube.coords()},
        np.ma.filled(cube.data, np.nan)) for cube in cubes}


def words_of(cube, coordinate):
    """All but the attributes that iris does not know."""
    return {"class": type(coordinate), "standard_name": coordinate.standard_name, "long_name": coordinate.long_name,
            "units": str(coordinate.units), "calendar": coordinate.units.calendar, "dims": cube.coord_dims(coordinate),
            "points": coordinate.points.tolist(), "system": coordinate.coord_system,
            "bounds": coordinate.bounds.tolist() if coordinate.has_bounds() else None}


class Readers(qt.QuarryTest):
    """Each program is its own oracle: it reads the source, and it reads the export."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pairs = {(make.__name__, dates): cls.pair(make, dates) for make in SOURCES for dates in (True, False)}

    @classmethod
    def pair(cls, make, dates):
        """A file that xarray writes, and the export of what Quarry makes of it.

        Args:
            dates: whether xarray hands over dates; otherwise numbers
        """
        source, dataset, exported = (cls.shared / f"{make.__name__}{dates}.{suffix}" for suffix in ("nc", "quarry", "out.nc"))
        xr.decode_cf(make()).to_netcdf(source)
        with xr.open_dataset(source, decode_times=dates) as opened:
            quarry.write(dataset, opened, lossless=True)
        with quarry.open(dataset) as opened, warnings.catch_warnings():
            warnings.simplefilter("error")
            opened.export(exported)
        return source, exported

    def compare(self, check):
        """Has `check` compare each source with its export."""
        for name, (source, exported) in self.pairs.items():
            with self.subTest(name):
                check(source, exported)

    def assert_says(self, said, wanted):
        """All that is wanted, and perhaps more."""
        self.assertEqual({key: said.get(key) for key in wanted}, wanted)

    # ---- h5netcdf

    def test_h5netcdf_finds_dimensions_samples_and_attributes(self):
        self.compare(self.check_native)

    def check_native(self, source, exported):
        wanted, said = native(source), native(exported)
        self.assertEqual(said.dimensions, wanted.dimensions)
        self.assertEqual(set(said.variables), set(wanted.variables))
        for name, (dims, _) in wanted.variables.items():
            self.assertEqual(said.variables[name][0], dims)
            np.testing.assert_array_equal(said.samples(name), wanted.samples(name))
        for name, attributes in wanted.attributes.items():
            self.assert_says(said.attributes[name], attributes)
        # CF 7.1: ends have the unit of what they are the ends of, or none. Source and export may have another for the time.
        units = said.attributes["time"]["units"], said.attributes["time"]["calendar"]
        for name, wants in (("time_bnds", (None, None)), ("climatology_bounds", units)):
            if name in said.attributes:
                ends = said.attributes[name]
                self.assertEqual((ends.get("units"), ends.get("calendar")), wants)
                self.assertEqual(said.variables[name][1].dtype, np.float64)

    def test_xarray_opens_them_with_h5netcdf(self):
        self.compare(self.check_by_xarray)

    def check_by_xarray(self, source, exported):
        with xr.open_dataset(source, engine="h5netcdf") as wanted, xr.open_dataset(exported, engine="h5netcdf") as said:
            xr.testing.assert_equal(said, wanted)
            self.assertEqual(set(said.data_vars), set(wanted.data_vars))
            for name, one in wanted.variables.items():
                self.assert_says(said[name].attrs, one.attrs)
            for name, one in wanted.variables.items():
                self.assertEqual(said[name].dtype, one.dtype, name)
            self.assert_says(said["time"].encoding, {key: wanted["time"].encoding[key] for key in ("units", "calendar")})

    # ---- cf-xarray

    def test_cf_xarray_finds_axes_coordinates_and_cells(self):
        self.compare(self.check_by_cf_xarray)

    def check_by_cf_xarray(self, source, exported):
        with xr.open_dataset(source) as wanted, xr.open_dataset(exported) as said:
            self.assertEqual(by_cf_xarray(said), by_cf_xarray(wanted))
            for name in wanted.data_vars:
                self.assertEqual(by_cf_xarray(said[name]), by_cf_xarray(wanted[name]))

    def test_axes_that_a_source_does_not_name_are_those_that_iris_finds_in_it(self):
        for make in WITHOUT_LETTERS:
            source, exported = self.pair(make, True)
            (wanted,) = by_iris(source).values()
            with self.subTest(make.__name__), xr.open_dataset(exported) as said:
                self.assertEqual(said.cf.axes, {axis: names for axis, names in wanted.axes.items() if names})

    def test_no_two_axes_share_a_letter(self):
        _, exported = self.pair(covariance, True)
        with xr.open_dataset(exported) as said:
            self.assertEqual(said.cf.axes, {"T": ["time"]})
            self.assertEqual(sorted(said.cf.coordinates["latitude"]), ["lat", "other"])

    # ---- iris

    def test_iris_finds_the_same_cubes(self):
        self.compare(self.check_by_iris)

    def check_by_iris(self, source, exported):
        wanted, said = by_iris(source), by_iris(exported)
        self.assertEqual(set(said), set(wanted))
        for name, cube in wanted.items():
            self.assertEqual(said[name]._replace(samples=None, coordinates=None), cube._replace(samples=None, coordinates=None))
            np.testing.assert_array_equal(said[name].samples, cube.samples)
            self.assertEqual(set(said[name].coordinates), set(cube.coordinates))
            for coordinate, (words, attributes) in cube.coordinates.items():
                self.assertEqual(said[name].coordinates[coordinate][0], words)
                self.assert_says(said[name].coordinates[coordinate][1], attributes)


if __name__ == "__main__":
    qt.main()
