"""Datasets of xarray come back from the engine "quarry" with the same variables, coordinates, attributes and types. The
oracle is xarray's own `assert_identical`; DIFFERENCES has the known differences, and SAID the warnings about them."""

import warnings
from pathlib import Path

from python_testing import np, qt, quarry

import pandas as pd  # noqa: E402
import scipy.io  # noqa: E402
import xarray as xr  # noqa: E402
import xarray.tests  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

TOLERANCE = 1e-2
OF_XARRAY = Path(xarray.tests.__file__).parent / "data"
OF_SCIPY = Path(scipy.io.__file__).parent / "tests" / "data"

CASES = {}


def case(make):
    """Adds a Dataset to those that are tried, by its name in plain words."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


def field(*shape, dtype="f4"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def along(name, values, **attrs):
    return name, np.asarray(values), attrs


DAYS = pd.date_range("2001-01-30", periods=4)
LAT, LON = along("lat", np.arange(-10.0, 11, 2.5), units="degrees_north"), along("lon", np.arange(0.0, 30, 2.5), units="degrees_east")
DEPTH = along("depth", [5.0, 15, 40, 100], units="m", positive="down")


def of_file(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)  # several fill values
        with xr.open_dataset(path, engine="netcdf4", decode_timedelta=False) as opened:
            return opened.load()


# ---- Of others

@case
def example_of_xarray():
    return of_file(OF_XARRAY / "example_1.nc")


@case
def bears_of_xarray():
    return of_file(OF_XARRAY / "bears.nc")


@case
def test_data_of_xarray():
    return xarray.tests.create_test_data(seed=1)


@case
def coordinate_of_scipy():
    return of_file(OF_SCIPY / "example_2.nc")


@case
def masked_values_of_scipy():
    return of_file(OF_SCIPY / "example_3_maskedvals.nc")


# ---- Attributes

ALL_KINDS = {
    "title": "what we know", "empty": "", "unicode": "Größe in µm, 温度", "lines": "one\ntwo", "whole": 5, "large": 2**60,
    "number": 0.1, "true": True, "nothing": None, "not a number": np.float64("nan"), "infinite": float("inf"),
    "float32": np.float32(0.1), "int16": np.int16(-3), "uint64": np.uint64(2**64 - 1), "floats": np.array([0.1, np.nan]),
    "singles": np.array([0.1, 0.2], "f4"), "shorts": np.array([1, 2], "i2"), "one in a list": np.array([7], "i4"),
    "none in a list": np.array([], "f8"), "texts": ["a", "", "ü"], "empty list": [], "mixed": [1, "a", None, 2.5],
    "nested": {"made by": {"name": "model", "versions": [1, 2]}, "flags": [True, False]}}


@case
def attributes_of_every_kind():
    return xr.Dataset({"rain": (("time", "lat", "lon"), field(4, 9, 12), ALL_KINDS | {"units": "mm"})},
                      {"time": ("time", DAYS, ALL_KINDS), "lat": LAT, "lon": (*LON[:2], ALL_KINDS | {"units": "degrees_east"})},
                      ALL_KINDS | {"Conventions": "CF-1.8", "source": "a model", "history": "made"})


@case
def attributes_that_quarry_has_names_for():
    said = {"level": "surface", "coder": "none", "max_error": 7, "tolerance": "small", "comment": "ours", "long_name": "rain",
            "lossless": "no", "coverage": 0.5}
    return xr.Dataset({"rain": (("time", "lat", "lon"), field(4, 9, 12), said)}, {"time": DAYS, "lat": LAT, "lon": LON}, said)


@case
def flags():
    said = {"flag_values": np.array([0, 1, 2], "i1"), "flag_meanings": "clear cloud snow", "valid_range": np.array([0, 2], "i1")}
    return xr.Dataset({"mask": (("lat", "lon"), (field(9, 12) > 0).astype("i1"), said)}, {"lat": LAT, "lon": LON})


# ---- Shapes

@case
def a_single_value():
    return xr.Dataset({"mean": ((), np.float32(0.5), {"units": "K"})})


@case
def a_profile():
    return xr.Dataset({"temp": (("depth",), field(4))}, {"depth": DEPTH})


@case
def a_section():
    return xr.Dataset({"temp": (("depth", "lon"), field(4, 12))}, {"depth": DEPTH, "lon": LON})


@case
def a_map():
    return xr.Dataset({"temp": (("lat", "lon"), field(9, 12))}, {"lat": LAT, "lon": LON})


@case
def a_volume():
    return xr.Dataset({"temp": (("depth", "lat", "lon"), field(4, 9, 12))}, {"depth": DEPTH, "lat": LAT, "lon": LON})


@case
def volumes_over_time():
    return xr.Dataset({"temp": (("time", "depth", "lat", "lon"), field(4, 4, 9, 12))},
                      {"time": DAYS, "depth": DEPTH, "lat": LAT, "lon": LON})


@case
def several_patches():
    return xr.Dataset({"temp": (("time", "y", "x"), field(2, 70, 1100))}, {"time": DAYS[:2]})


@case
def axes_of_one_sample():
    return xr.Dataset({"temp": (("time", "height", "lat", "lon"), field(1, 1, 9, 1)), "runs": (("member", "lat"), field(1, 9))},
                      {"time": DAYS[:1], "height": [2.0], "lat": LAT, "lon": [7.5], "member": [3]})


@case
def lengths_that_have_no_coordinates():
    return xr.Dataset({"a": (("south_north", "west_east"), field(9, 12)), "b": (("bottom_top",), field(4))})


@case
def descending_and_uneven_axes():
    return xr.Dataset({"temp": (("level", "lat", "lon"), field(4, 9, 5))},
                      {"level": along("level", [1000.0, 850, 700, 500], units="hPa", positive="down"),
                       "lat": along("lat", np.arange(10.0, -11, -2.5)), "lon": along("lon", [0.0, 1, 3, 10, 11])})


@case
def axes_of_other_types():
    return xr.Dataset({"temp": (("level", "lat", "lon"), field(4, 9, 12))},
                      {"level": np.array([1000, 850, 700, 500], "i2"), "lat": np.linspace(-90, 90, 9, dtype="f4"),
                       "lon": np.arange(12, dtype="i8")})


@case
def decimals_along_an_axis():
    return xr.Dataset({"t": (("lat", "lon"), field(9, 12))},
                      {"lat": np.round(np.arange(9) * 0.1 - 0.3, 1), "lon": np.round(np.arange(12) * 0.1, 1).astype("f4")})


@case
def grids_of_several_shapes():
    coords = {"time": DAYS, "depth": DEPTH, "lat": LAT, "lon": LON, "lon_u": along("lon_u", np.arange(-1.25, 30, 2.5))}
    return xr.Dataset({"temp": (("time", "depth", "lat", "lon"), field(4, 4, 9, 12)), "ssh": (("time", "lat", "lon"), field(4, 9, 12)),
                       "u": (("time", "depth", "lat", "lon_u"), field(4, 4, 9, 13)), "turned": (("time", "lon", "lat"), field(4, 12, 9)),
                       "section": (("time", "depth", "lon"), field(4, 4, 12))}, coords)


@case
def area_beside_rain():
    return xr.Dataset({"area": (("lat", "lon"), field(9, 12), {"units": "m2"}), "rain": (("time", "lat", "lon"), field(4, 9, 12)),
                       "weight": ("lat", field(9)), "gravity": 9.81}, {"time": DAYS, "lat": LAT, "lon": LON})


@case
def a_value_for_each_step():
    return xr.Dataset({"rain": (("time", "lat", "lon"), field(4, 9, 12)), "mean": ("time", field(4)), "count": ("time", [4, 5, 6, 7])},
                      {"time": DAYS, "lat": LAT, "lon": LON})


# ---- Samples

@case
def samples_of_every_type():
    kinds = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
    variables = {kind: (("time", "lat", "lon"), (100 * np.abs(field(4, 9, 12))).astype(kind)) for kind in kinds}
    variables["u8"][1][0, 0, 0], variables["i8"][1][0, 0, 0] = 2**64 - 1, -2**63
    return xr.Dataset({**variables, "bool": (("time", "lat", "lon"), field(4, 9, 12) > 0)}, {"time": DAYS, "lat": LAT, "lon": LON})


@case
def land():
    sea = field(4, 9, 12)
    sea[:, 2:6, 3:8] = np.nan
    return xr.Dataset({"sst": (("time", "lat", "lon"), sea), "static": (("lat", "lon"), sea[0].astype("f8"))},
                      {"time": DAYS, "lat": LAT, "lon": LON})


@case
def integers_with_a_fill_value():
    counts = (100 * field(4, 9, 12)).astype("i2")
    counts[:, 2:6] = -999
    return xr.Dataset({"n": (("time", "lat", "lon"), counts, {"_FillValue": np.int16(-999), "long_name": "number"})},
                      {"time": DAYS, "lat": LAT, "lon": LON})


@case
def integers_with_a_fill_value_decoded():
    return integers_with_a_fill_value()


@case
def packed_samples():
    data = xr.Dataset({"t": (("lat", "lon"), (100 * field(9, 12)).astype("i2"), {
        "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-999), "valid_range": np.array([-300, 300], "i2"),
        "long_name": "temperature"})}, {"lat": LAT, "lon": LON})
    return xr.decode_cf(data)


@case
def dates_as_samples():
    dates = np.datetime64("2001-02-03T04:05:06.000000007", "ns") + (1e15 * field(9, 12, dtype="f8")).astype("m8[ns]")
    dates[2, 3:5] = np.datetime64("NaT")
    return xr.Dataset({"first": (("lat", "lon"), dates, {"long_name": "of the year"}),
                       "last": (("time", "lat", "lon"), np.broadcast_to(dates, (4, 9, 12)) + np.timedelta64(3, "D")),
                       "took": (("lat", "lon"), np.abs(dates - dates[0, 0])), "began": np.datetime64("2001-01-01", "ns")},
                      {"time": DAYS, "lat": LAT, "lon": LON})


@case
def dates_of_a_calendar_as_samples():
    dates = xr.date_range("2001-02-27", periods=12, freq="36h", calendar="360_day", use_cftime=True).values.reshape(3, 4)
    return xr.Dataset({"first": (("y", "x"), dates)})


@case
def not_in_memory():
    return area_beside_rain().chunk(lat=4)


# ---- Time

@case
def seconds_of_numpy():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))}, {"time": DAYS.values.astype("M8[s]")})


@case
def a_calendar_without_leap_days():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))}, {
        "time": ("time", xr.date_range("2000-02-27", periods=4, freq="12h", calendar="noleap", use_cftime=True),
                 {"standard_name": "time", "axis": "T"})})


@case
def a_calendar_of_360_days():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))},
                      {"time": xr.date_range("2000-02-29", periods=4, calendar="360_day", use_cftime=True)})


@case
def lengths_of_time():
    return xr.Dataset({"t": (("lead", "x"), field(4, 5))},
                      {"lead": ("lead", np.array([0, 6, 12, 18], "m8[h]").astype("m8[ns]"), {"standard_name": "forecast_period"})})


@case
def times_that_are_numbers():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))}, {"time": along("time", [0, 0.5, 1.25, 7], units="s", long_name="model time")})


@case
def times_that_are_integers():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))}, {"time": [3, 4, 5, 6]})


@case
def times_that_are_not_decoded():
    return xr.Dataset({"t": (("time", "x"), field(4, 5))},
                      {"time": along("time", [0.0, 1, 2, 3], units="days since 2001-01-01", calendar="noleap")})


@case
def times_of_another_name():
    return xr.Dataset({"t": (("ocean_time", "x"), field(4, 5))}, {"ocean_time": ("ocean_time", DAYS, {"field": "time, scalar, series"})})


@case
def one_moment():
    return volumes_over_time().isel(time=1)


@case
def one_moment_with_a_number():
    return volumes_over_time().isel(time=1).assign_coords(step=7)


@case
def numbers_along_the_time():
    return volumes_over_time().assign_coords(step=("time", [3, 5, 9, 11]))


@case
def numbers_of_steps():
    return xr.Dataset({"t": (("step", "x"), field(4, 5))}, {"step": [3, 5, 9, 11]})


@case
def times_beside_numbers_of_steps():
    return xr.Dataset({"t": (("step", "x"), field(4, 5))}, {"step": [3, 5, 9, 11], "time": ("step", DAYS, {"standard_name": "time"})})


@case
def a_list_along_the_time():
    return xr.Dataset({"level": (("time",), field(4)), "flow": (("time",), field(4))}, {
        "time": pd.DatetimeIndex(["2001-01-01", "2001-01-02T06:00", "2001-01-09", "2001-02-01"])})


@case
def a_list_along_a_calendar():
    return xr.Dataset({"level": (("time",), field(4))},
                      {"time": xr.date_range("2000-02-27", periods=4, calendar="noleap", use_cftime=True)})


# ---- Coordinates

@case
def latitudes_in_two_dimensions():
    lat, lon = np.meshgrid(np.linspace(40, 60, 9), np.linspace(0, 20, 12), indexing="ij")
    return xr.Dataset({"rain": (("time", "y", "x"), field(4, 9, 12))}, {
        "time": DAYS, "lat": (("y", "x"), lat + lon / 7, {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": (("y", "x"), lon - lat / 9, {"units": "degrees_east"})})


@case
def a_rotated_pole():
    lat, lon = np.meshgrid(np.linspace(40, 60, 9), np.linspace(0, 20, 12), indexing="ij")
    return xr.Dataset(
        {"rain": (("time", "rlat", "rlon"), field(4, 9, 12), {"grid_mapping": "rotated_pole"}),
         "rotated_pole": ((), np.int32(0), {"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 39.25})},
        {"time": DAYS, "rlat": along("rlat", np.arange(9.0), units="degrees"), "rlon": along("rlon", np.arange(12.0), units="degrees"),
         "lat": (("rlat", "rlon"), lat), "lon": (("rlat", "rlon"), lon)})


@case
def a_grid_that_moves():
    return xr.Dataset({"T": (("Time", "south_north", "west_east"), field(4, 9, 12))}, {
        "XLAT": (("Time", "south_north", "west_east"), field(4, 9, 12)), "XTIME": ("Time", DAYS)})


@case
def single_coordinates():
    return volumes_over_time().assign_coords(
        height=((), 2.0, {"units": "m"}), member=((), np.int64(7)), is_control=False, reference=np.datetime64("2001-01-01", "ns"),
        lead=np.timedelta64(6, "h").astype("m8[ns]"))


@case
def coordinates_beside_axes():
    return volumes_over_time().assign_coords(
        sigma=("depth", [1.0, 0.9, 0.5, 0.1]), cell=(("lat", "lon"), np.arange(108).reshape(9, 12)), month=("time", [1, 1, 2, 2]),
        valid=("time", DAYS + pd.Timedelta("3h"), {"long_name": "valid time"}), east=("lon", np.arange(12) > 5))


@case
def a_track():
    return xr.Dataset({"sst": ("time", field(4))}, {"time": DAYS, "lat": ("time", field(4)), "lon": ("time", field(4))})


@case
def bounds_of_cells():
    edges = np.stack([DAYS, DAYS + pd.Timedelta("1D")], axis=1)
    return xr.Dataset(
        {"rain": (("time", "lat", "lon"), field(4, 9, 12), {"cell_methods": "time: mean", "grid_mapping": "crs"}),
         "time_bnds": (("time", "bnds"), edges), "lat_bnds": (("lat", "bnds"), np.stack([LAT[1] - 1.25, LAT[1] + 1.25], 1)),
         "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"})},
        {"time": ("time", DAYS, {"bounds": "time_bnds"}), "lat": (*LAT[:2], {**LAT[2], "bounds": "lat_bnds"}), "lon": LON})


@case
def a_mesh():
    return xr.Dataset(
        {"mesh": ((), np.int32(0), {"cf_role": "mesh_topology", "topology_dimension": np.int32(2), "node_coordinates": "node_x node_y",
                                    "face_node_connectivity": "face_nodes"}),
         "face_nodes": (("face", "corner"), np.array([[0, 1, 2], [1, 2, 3]], "i4"), {"start_index": np.int32(0)}),
         "depth": (("time", "face"), field(4, 2), {"mesh": "mesh", "location": "face"})},
        {"time": DAYS, "node_x": ("node", field(4)), "node_y": ("node", field(4))})


@case
def longitudes_that_pass_360():
    return xr.Dataset({"rain": (("time", "lat", "lon"), field(4, 9, 6))},
                      {"time": DAYS, "lat": LAT, "lon": along("lon", [350.0, 355, 0, 5, 10, 15], units="degrees_east")})


@case
def positions_that_nothing_uses():
    return a_map().assign_coords(edges=along("edges", [0.0, 5, 15, 40, 100], units="m"))


@case
def names_of_stations():
    return xr.Dataset({"rain": (("time", "station"), field(4, 3))},
                      {"time": DAYS, "station": ["Kiel", "Köln", "Bonn"], "height": ("station", [5.0, 37, 60])})


@case
def a_forecast():
    return xr.Dataset({"t": (("lead", "lat", "lon"), field(4, 9, 12))}, {
        "lead": np.array([0, 6, 12, 18], "m8[h]").astype("m8[ns]"), "lat": LAT, "lon": LON,
        "time": ((), np.datetime64("2001-01-01", "ns"), {"standard_name": "forecast_reference_time"}),
        "valid_time": ("lead", pd.date_range("2001-01-01", periods=4, freq="6h"), {"standard_name": "time"})})


@case
def steps_that_have_no_coordinate():
    return xr.Dataset({"t": (("time", "y", "x"), field(4, 5, 6))})


@case
def frames():
    return xr.Dataset({"t": (("frame", "y", "x"), field(4, 5, 6))}, {"frame": [10, 20, 30, 40]})


@case
def time_that_varies_fastest():
    return area_beside_rain().transpose("lat", "lon", "time")


@case
def attributes_that_change():
    return a_map().assign_attrs(pair=(1, 2), mask=np.array([True, False])).assign(
        temp=lambda data: data.temp.assign_attrs(units="", missing_value=-1.0, scale=1))


# ---- What differs, and what is said

def with_numbers(data, dim, *names):
    """Where the dimension of the steps loses its name, they lie along their numbers."""
    return data.drop_indexes([name for name in names if name in data.xindexes]).rename_dims({dim: "step"}).assign_coords(
        step=np.arange(data.sizes[dim]))


def beside(data, name, dim):
    """A coordinate of a dimension that an axis cannot have is one beside it."""
    return data.drop_indexes(name).rename_dims({name: dim})


def even(data, *names):
    """Positions that are even within a millionth of their spacing are exactly so."""
    for name in names:
        values = data[name].values.astype("f8")
        placed = values[0] + (values[-1] - values[0]) / (len(values) - 1) * np.arange(len(values))
        data = data.assign_coords({name: placed.astype(data[name].dtype)})
    return data


def of_bears(data):
    return beside(data.drop_vars("bears"), "l", "x")


def of_forecast(data):
    found = with_numbers(data, "lead", "lead").drop_vars("valid_time")
    return found.assign_coords(time_axis=("step", data.valid_time.values, data.valid_time.attrs))


DIFFERENCES = {
    "bears of xarray": ("texts are no fields, and l is no axis of a field", of_bears),
    "test data of xarray": ("time is no axis of a field", lambda data: beside(data, "time", "x")),
    "coordinate of scipy": ("it is no axis of a field", lambda data: beside(data, "Temperature", "x")),
    "masked values of scipy": ("texts are no fields", lambda data: data.drop_vars("var6_char")),
    "integers with a fill value decoded": ("they are decoded, as xarray does", xr.decode_cf),
    "packed samples": ("the numbers that were packed are not kept, nor is what is said of them",
                       lambda data: data.assign(t=data.t.drop_attrs(deep=False).assign_attrs(long_name="temperature"))),
    "decimals along an axis": ("positions that are even but for roundings are stored as origin and spacing",
                               lambda data: even(data, "lat", "lon")),
    "times that are integers": ("times are float64", lambda data: data.assign_coords(time=[3.0, 4, 5, 6])),
    "a grid that moves": ("the steps lie along their numbers where their dimension has no time of its name",
                          lambda data: with_numbers(data, "Time").rename_vars(XTIME="time")),
    "longitudes that pass 360": ("they are no axis", lambda data: beside(data, "lon", "x")),
    "positions that nothing uses": ("they are no axis of a field", lambda data: beside(data, "edges", "x")),
    "a forecast": ("the time is another coordinate than that of the dimension", of_forecast),
    "steps that have no coordinate": ("the steps lie along their numbers", lambda data: with_numbers(data, "time")),
    "frames": ("their numbers are no times, and the steps have their own", lambda data: with_numbers(data, "frame", "frame")),
    "time that varies fastest": ("steps come first", lambda data: data.transpose("time", "lat", "lon", missing_dims="ignore")),
    "attributes that change": (
        "JSON has lists alone, and what Quarry says in its own way is no attribute",
        lambda data: data.assign_attrs(pair=[1, 2], mask=[True, False]).assign(
            temp=data.temp.drop_attrs(deep=False).assign_attrs(scale=1)))}

SAID = {
    "example of xarray": ["rh: samples outside its valid_range are not missing"],
    "bears of xarray": ["of the Dataset, bears are left out: they hold text"],
    "masked values of scipy": ["of the Dataset, var6_char are left out: they hold text"],
    "flags": ["mask: samples outside its valid_range are not missing"],
    "packed samples": ["t: its attributes valid_range are about packed numbers, and are not kept"],
    "longitudes that pass 360": ["the coordinate lon is not finite, or neither ascends nor descends; its axis has no positions"],
    "attributes that change": ["temp: its attributes missing_value are not applied"]}

HELPERS = {"crs", "rotated_pole", "lat_bnds", "time_bnds", "mesh", "face_nodes"}
"""That describe other variables, and lose nothing."""

OPENED = {"integers with a fill value": {"mask_and_scale": False}, "times that are not decoded": {"decode_times": False}}


class RoundTrips(qt.QuarryTest):
    def write(self, name, data, **options):
        """The path, and what was said."""
        path = self.tmp / f"{name}.quarry"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quarry.write(path, data, **options)
        return path, [str(one.message) for one in caught if one.category is UserWarning]

    def open(self, path, **options):
        opened = xr.open_dataset(path, engine=QuarryBackendEntrypoint, **options)
        self.addCleanup(opened.close)
        return opened

    def expected(self, name):
        data = CASES[name]()
        _, change = DIFFERENCES.get(name, ("", lambda data: data))
        return data, change(data)

    def assert_identical(self, got, expected):
        """Also in their types, but for the resolution of dates, and how a text is held."""
        xr.testing.assert_identical(got, expected)
        for name, variable in expected.variables.items():
            if variable.dtype.kind not in "mMOSU":
                self.assertEqual(got[name].dtype, variable.dtype, name)
        self.assert_typed(got.attrs, expected.attrs)
        for name, variable in expected.variables.items():
            self.assert_typed(got[name].attrs, variable.attrs)

    def assert_typed(self, got, expected):
        """Numbers in attributes have the types of numpy that they had."""
        for name, value in expected.items():
            if hasattr(value, "dtype"):
                self.assertEqual((got[name].dtype, got[name].shape), (value.dtype, value.shape), name)

    def test_without_loss(self):
        for name in CASES:
            with self.subTest(name):
                data, expected = self.expected(name)
                path, said = self.write(name, data, lossless=True)
                self.assertEqual(len(said), len(SAID.get(name, [])), said)
                for one, wanted in zip(said, SAID.get(name, []), strict=True):
                    self.assertIn(wanted, one)
                self.assert_identical(self.open(path, **OPENED.get(name, {})).load(), expected)

    def test_within_a_tolerance(self):
        """Samples of floats are within it, and say so; all else is the same, coordinates and what describes others too."""
        for name in CASES:
            data, expected = self.expected(name)
            exact = {one for one in data.data_vars if one in HELPERS or data[one].dtype.kind in "mMOSU"}
            floats = [one for one in data.data_vars if data[one].dtype.kind == "f" and one not in exact]
            if not floats:
                continue
            with self.subTest(name):
                of_all = {*floats, *exact} == set(data.data_vars)
                path, _ = self.write(name, data, tolerance=TOLERANCE if of_all else dict.fromkeys(floats, TOLERANCE),
                                     lossless=False)
                got = self.open(path, **OPENED.get(name, {})).load()
                for one in floats:
                    self.assert_within(got[one], expected[one])
                    got[one] = got[one].copy(data=expected[one].values)
                self.assert_identical(got, expected)

    def assert_within(self, got, expected):
        """Samples, and what is said of their error, which is taken away."""
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        error = float(np.nan_to_num(np.abs(got.astype("f8") - expected)).max())
        self.assertLessEqual(error, TOLERANCE)
        self.assertEqual(got.encoding["tolerance"], TOLERANCE)
        if "max_error" not in expected.attrs:
            self.assertGreaterEqual(got.attrs.pop("max_error", 0), error)

    def test_once_more(self):
        """The result is written again, and comes back once more."""
        for name in CASES:
            with self.subTest(name):
                _, expected = self.expected(name)
                first, _ = self.write(f"{name} once", CASES[name](), lossless=True)
                second, _ = self.write(f"{name} twice", self.open(first, **OPENED.get(name, {})), lossless=True)
                xr.testing.assert_identical(self.open(second, **OPENED.get(name, {})).load(), expected)

    def test_in_chunks(self):
        for name in CASES:
            with self.subTest(name):
                data, expected = self.expected(name)
                path, _ = self.write(name, data, lossless=True)
                opened = self.open(path, chunks={}, **OPENED.get(name, {}))
                self.assertTrue(all(one.chunks is not None or not one.ndim for one in opened.data_vars.values()))
                xr.testing.assert_identical(opened.load(), expected)

    def test_arrays_alone(self):
        """As in a Dataset of their own."""
        for name in ("volumes over time", "latitudes in two dimensions", "single coordinates", "one moment", "coordinates beside axes"):
            for variable in CASES[name]().data_vars:
                with self.subTest(name, variable=variable):
                    array = CASES[name]()[variable]
                    path, said = self.write(f"{name} {variable}", array, lossless=True)
                    self.assertEqual(said, [])
                    self.assert_identical(self.open(path).load(), array.to_dataset())

    def test_all_that_differs_does(self):
        """The table has no entry that is none."""
        for name, (_, change) in DIFFERENCES.items():
            with self.subTest(name):
                data = CASES[name]()
                changed = change(data)
                same = data.identical(changed) and all(data[one].dtype == changed[one].dtype for one in data.variables)
                self.assertFalse(same, "this is no difference")

    def test_climatology_of_levitus(self):
        data = of_file(qt.shared_data("levitus_climatology.cdf"))
        path, _ = self.write("levitus", data, lossless=True)
        self.assert_identical(self.open(path).load(), beside(data, "ZAXLEVITRedges", "x"))


if __name__ == "__main__":
    qt.main()
