"""Metadata that a dataset keeps of its source: attributes, coordinate fields, still fields, and their continuation when
steps are appended. The oracle is xarray."""

import pickle
import warnings

from python_testing import np, qt, quarry
from test_roundtrip import CASES, DAYS, LAT, LON, along, area_beside_rain, field, latitudes_in_two_dimensions, volumes_over_time

import pandas as pd  # noqa: E402
import xarray as xr  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402


class Kept(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path = self.tmp / "kept.quarry"

    def write(self, data, **options):
        """Writes, and returns the warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quarry.write(self.path, data, **options)
        self.assertEqual({one.filename for one in caught} - {__file__}, set())
        return [str(one.message) for one in caught if one.category is UserWarning]

    def open(self, **options):
        opened = xr.open_dataset(self.path, engine=QuarryBackendEntrypoint, **options)
        self.addCleanup(opened.close)
        return opened

    def assert_is(self, expected, **options):
        xr.testing.assert_identical(self.open(**options).load(), expected)


class Attributes(Kept):
    def test_what_the_dataset_says_stays_when_steps_are_appended(self):
        data = volumes_over_time().assign_attrs(history="made", title="all")
        data.temp.attrs["cell_methods"] = "time: mean"
        data.time.attrs["axis"] = "T"
        self.write(data.isel(time=slice(0, 2)), lossless=True)
        later = data.isel(time=slice(2, None)).assign_attrs(history="made later", more=1)
        later["temp"] = later.temp.assign_attrs(cell_methods="time: point")
        self.assertEqual(self.write(later, lossless=True, mode="append"),
                         ["attributes of the whole differ, and the dataset keeps its own: history, more",
                          "attributes of temp differ, and the dataset keeps its own: cell_methods"])
        self.assert_is(data)

    def test_values_that_are_not_kept_are_said_by_name(self):
        data = xr.Dataset({"u": (("x",), field(4), {"made": pd.Timestamp("2001-01-01"), "by": object(), "long_name": "wind"})},
                          {"x": ("x", np.arange(4.0), {"raw": b"\xff\xfe"})}, {"when": np.datetime64("2001-01-01", "s")})
        said = self.write(data, lossless=True)
        for words in ("attributes made of u hold Timestamp, which is not kept", "attributes by of u hold object, which is not kept",
                      "attributes raw of x hold bytes, which is not kept",
                      "attributes when of the Dataset hold datetime64[s], which is not kept"):
            self.assertIn(words, said)
        self.assertEqual(len(said), 4)
        self.assertEqual(self.open().u.attrs, {"long_name": "wind"})

    def test_attributes_beyond_the_bounds_are_refused(self):
        with self.assertRaisesRegex(quarry.Error, "attributes"):
            self.write(xr.Dataset({"u": ("x", field(4))}, attrs={"long": "a" * 700_000, "longer": "b" * 700_000}), lossless=True)
        self.assertFalse(self.path.exists())

    def test_fields_of_quarry_bring_what_their_dataset_says(self):
        self.write(latitudes_in_two_dimensions().assign_attrs(title="all"), lossless=True)
        first = self.open().load()
        with quarry.open(self.path) as dataset:
            quarry.write(self.tmp / "copy.quarry", dataset, lossless=True)
        with xr.open_dataset(self.tmp / "copy.quarry", engine=QuarryBackendEntrypoint) as copied:
            xr.testing.assert_identical(copied.load(), first)

    def test_what_quarry_knows_is_said_where_it_matters(self):
        data = volumes_over_time()
        data.temp.attrs["long_name"] = "temperature"
        data["temp"][:, :, :3, :5] = np.nan
        self.write(data, tolerance=1e-2)
        opened = self.open()
        self.assertEqual(set(opened.temp.attrs) - {"max_error"}, {"long_name"})
        self.assertEqual((opened.attrs, opened.encoding["created_by"].split()[0]), ({}, "quarry-python"))
        encoding = opened.temp.encoding
        self.assertEqual((encoding["tolerance"], encoding["lossless"]), (1e-2, False))
        self.assertIn("coder", encoding)
        coarse = self.open(level=1)
        self.assertEqual((coarse.attrs, coarse.temp.attrs["level"]), ({"level": 1}, 1))
        self.assertGreater(coarse.temp.attrs["max_error"], opened.temp.attrs.get("max_error", 0))
        self.assertTrue(0 < coarse.temp.attrs.get("coverage", 1) <= 1)
        opened.to_netcdf(self.tmp / "again.nc")  # which knows nothing of our encoding
        with xr.open_dataset(self.tmp / "again.nc", engine="netcdf4") as again:
            xr.testing.assert_identical(again.load(), opened.load())

    def test_steps_that_do_not_hold_a_field_are_said(self):
        data = volumes_over_time()
        self.write(data, lossless=True)
        self.write(xr.Dataset({"late": data.temp[2:]}), lossless=True, mode="append", step=2)
        opened = self.open()
        self.assertEqual(opened.late.attrs, {"comment": "missing in 2 of 4 steps, which do not hold it"})
        xr.testing.assert_equal(opened.late.load(), data.temp.where(data.time >= data.time[2]).rename("late"))


class Steps(Kept):
    def test_files_of_a_moment_each_become_a_series(self):
        data = latitudes_in_two_dimensions().assign_coords(height=2.0, lead=("time", np.array([6, 12, 18, 30], "m8[h]").astype("m8[ns]")))
        data["time"].attrs["standard_name"] = "time"
        for number in range(4):
            one = data.isel(time=number)
            self.assertEqual(self.write(one, lossless=True, mode="append" if number else "create"), [])
            if number == 0:
                self.assert_is(one)
        # One value beside a moment is that of the moment; more of them stand still.
        self.assert_is(data.assign_coords(height=("time", np.full(4, 2.0))))
        with quarry.open(self.path) as dataset:
            self.assertEqual((dataset.steps, dataset.time_units), ([0, 1, 2, 3], "days since 2001-01-30 00:00:00"))

    def test_what_says_how_long_a_moment_is_goes_with_it(self):
        data = CASES["bounds of cells"]()
        self.write(data.isel(time=0), lossless=True)
        self.assert_is(data.isel(time=0))
        for number in range(1, 4):
            self.write(data.isel(time=number), lossless=True, mode="append")
        self.assert_is(data)

    def test_what_stands_still_is_written_once(self):
        data = area_beside_rain().assign_coords(cell=(("lat", "lon"), np.arange(108).reshape(9, 12)))
        self.write(data.isel(time=slice(0, 2)), lossless=True)
        self.write(data.isel(time=slice(2, 4)), lossless=True, mode="append")
        self.assert_is(data)
        with quarry.open(self.path) as dataset:
            self.assertEqual((dataset["area"].steps, dataset["cell"].steps, dataset["rain"].steps), ([0], [0], [0, 1, 2, 3]))
            self.assertEqual([one.name for one in dataset.native.fields if one.still], ["area", "weight", "gravity", "cell"])

    def test_other_values_of_what_stands_still_are_said(self):
        data = area_beside_rain()
        first, later = data.isel(time=slice(0, 2)), data.isel(time=slice(2, 4))
        self.write(first, lossless=True)
        said = self.write(later.assign(area=later.area + 1), lossless=True, mode="append")
        self.assertEqual([sentence for sentence in said if "keeps other values" in sentence],
                         ["the dataset keeps other values of what does not change with time: area; write them under another "
                          "name if you need these"])
        self.assert_is(data)

    def test_resumed_writing_has_it_once(self):
        data = area_beside_rain()
        self.write(data.isel(time=slice(0, 2)), lossless=True)
        self.write(data, lossless=True, mode="resume")
        self.assert_is(data)
        with quarry.open(self.path) as dataset:
            self.assertEqual(dataset["area"].steps, [0])

    def test_what_changes_in_the_dataset_cannot_stand_still(self):
        data = area_beside_rain()
        self.write(data.drop_vars("area").assign(area=data.rain), lossless=True)
        with self.assertRaisesRegex(quarry.Error, '"area" has no steps here, and changes with time in the dataset'):
            self.write(data.assign_coords(time=data.time + np.timedelta64(9, "D")), lossless=True, mode="append")

    def test_another_unit_is_another_field(self):
        data = xr.Dataset({"u": (("time", "x"), field(2, 6), {"units": "m"})}, {"time": [0.0, 1.0]})
        self.write(data, lossless=True)
        other = data.assign(u=data.u.assign_attrs(units="km"))
        with self.assertRaisesRegex(quarry.Error, '"u" are in km here, but in m in the dataset'):
            self.write(other, lossless=True, mode="append")

    def test_what_stands_still_comes_later(self):
        data = area_beside_rain()
        self.write(data[["rain"]], lossless=True)
        self.write(data[["area"]], lossless=True, mode="append")
        self.assert_is(data[["rain", "area"]])

    def test_arrays_that_say_no_time_go_on(self):
        first, second = (xr.Dataset({"u": (("y", "x"), field(5, 6) + number)}) for number in range(2))
        self.write(first, lossless=True)
        self.assert_is(first)
        self.write(second, mode="append")
        self.assert_is(xr.concat([first, second], "step").assign_coords(step=[0, 1]))

    def test_a_step_or_a_time_makes_steps(self):
        data = CASES["a map"]().assign_coords(height=2.0)
        self.write(data, lossless=True, step=3)
        self.assert_is(data.expand_dims(step=[3]))
        self.write(data, mode="append", step=5)
        expected = data.expand_dims(step=[3, 5]).assign_coords(height=("step", [2.0, 2.0]))
        self.assert_is(expected)
        quarry.write(self.tmp / "timed.quarry", data, lossless=True, time=np.datetime64("2001-01-01", "ns"))
        with quarry.open(self.tmp / "timed.quarry") as dataset:
            self.assertEqual((dataset["temp"]._description.still, dataset.dates), (False, ["2001-01-01 00:00:00"]))

    def test_arrays_without_names_have_steps(self):
        self.write(field(5, 6), lossless=True, field="u")
        self.assertEqual(self.open().u.dims, ("step", "z", "y", "x"))
        with quarry.open(self.path) as dataset:
            self.assertFalse(dataset["u"]._description.still)

    def test_times_are_an_index(self):
        data = volumes_over_time()
        self.write(data, lossless=True)
        opened = self.open()
        xr.testing.assert_identical(opened.sel(time="2001-02").load(), data.sel(time="2001-02"))
        xr.testing.assert_identical(opened.temp.groupby("time.month").mean(), data.temp.groupby("time.month").mean())
        xr.testing.assert_identical(self.open(steps=[1, 3]).load(), data.isel(time=[1, 3]).assign_coords(step=("time", [1, 3])))

    def test_two_series_are_refused(self):
        data = area_beside_rain().assign(other=(("time2", "lat"), field(3, 9)))
        data = data.assign_coords(time2=DAYS[:3])
        with self.assertRaisesRegex(ValueError, "along time2, lat: other.*one series of steps, here that of 'rain'"):
            self.write(data, lossless=True)


class Coordinates(Kept):
    def test_every_level_has_them(self):
        data = latitudes_in_two_dimensions().assign_coords(sigma=("y", np.arange(9.0)), height=2.0)
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            levels = dataset["rain"].levels
        self.assertGreater(levels, 2)
        tree = xr.open_datatree(self.path, engine=QuarryBackendEntrypoint)
        self.addCleanup(tree.close)
        for level in range(levels):
            stride = slice(None, None, 1 << level)
            expected = data.isel(y=stride, x=stride)
            for opened in (self.open(level=level), tree[f"/{level}"].to_dataset()):
                xr.testing.assert_equal(opened.load(), expected)
                for name in expected.coords:
                    self.assertEqual(opened[name].attrs, data[name].attrs, name)

    def test_levels_are_chosen_by_what_is_no_coordinate(self):
        data = latitudes_in_two_dimensions()
        data["rain"][:] = 1.5
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            coarsest = dataset["rain"].levels - 1
        self.assertEqual(self.open(max_error=0).attrs["level"], coarsest)

    def test_levels_are_chosen_by_what_describes_no_others(self):
        """Bounds of cells and single values, which have few levels, say nothing about the level of the field."""
        data = CASES["bounds of cells"]().assign(p0=1000.0)
        name = next(name for name in data.data_vars if data[name].ndim > 2)
        data[name][:] = 1.5
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            coarsest = dataset[name].levels - 1
        self.assertGreater(coarsest, 0)
        self.assertEqual(self.open(max_error=0).attrs["level"], coarsest)

    def test_arrays_of_the_package_have_them(self):
        data = latitudes_in_two_dimensions().assign_coords(height=2.0)
        data.rain.attrs["units"] = "mm"
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            xr.testing.assert_identical(dataset["rain"].to_xarray().load(), data.rain)
            xr.testing.assert_identical(dataset["lat"].to_xarray().load(), data.lat.drop_vars("lat").assign_coords(lat=data.lat))
            samples = dataset["rain"].read(step=2).to_xarray()
        # An answer has the places of its samples, and reads nothing for others.
        xr.testing.assert_identical(samples, data.rain[2].drop_vars(["lat", "lon", "height"]))

    def test_answers_have_the_time_of_their_step(self):
        data = volumes_over_time()
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            xr.testing.assert_identical(dataset["temp"].read(step=2, box={"lat": (0, 5)}).to_xarray(),
                                        data.temp[2].sel(lat=slice(0, 5)))
            self.assertEqual(dataset["temp"].read(step=2, level=1).to_xarray().attrs["level"], 1)

    def test_they_lose_nothing_and_have_no_unit_but_their_own(self):
        data = latitudes_in_two_dimensions()
        self.write(data, tolerance=0.5, units="mm", fill=float(data.lat[0, 0]), keep_zeros=True)
        opened = self.open()
        xr.testing.assert_identical(opened.lat.load(), data.lat)
        self.assertEqual((opened.rain.units, opened.lon.units), ("mm", "degrees_east"))

    def test_a_server_gives_them(self):
        for name in ("coordinates beside axes", "bounds of cells", "area beside rain", "one moment", "dates as samples"):
            quarry.write(self.tmp / f"{name.replace(' ', '_')}.quarry", CASES[name](), lossless=True)
        with qt.Server(self.tmp) as server:
            for name in ("coordinates beside axes", "bounds of cells", "area beside rain", "one moment", "dates as samples"):
                with self.subTest(name), xr.open_dataset(server.target(f"{name.replace(' ', '_')}.quarry"),
                                                         engine=QuarryBackendEntrypoint) as opened:
                    xr.testing.assert_identical(opened.load(), CASES[name]())

    def test_they_are_pickled(self):
        data = CASES["dates as samples"]().assign_coords(height=2.0)
        self.write(data, lossless=True)
        xr.testing.assert_identical(pickle.loads(pickle.dumps(self.open())).load(), data)

    def test_those_of_arrays_that_contradict_each_other_are_said(self):
        u, v = (xr.DataArray(field(4, 5), dims=("y", "x"), coords={"height": height, "mask": (("y", "x"), field(4, 5))})
                for height in (2.0, 10.0))
        said = self.write({"u": u, "v": v}, lossless=True)
        self.assertEqual(said, ["v: the coordinate height is not kept: another field has this name; rename it"])
        opened = self.open().load()
        xr.testing.assert_identical(opened, xr.Dataset({"u": u, "v": v.drop_vars("height")}))

    def test_what_cannot_be_a_coordinate_is_said(self):
        array = xr.DataArray(field(4, 5), dims=("y", "x"), name="u", coords={
            "complex": ("y", np.zeros(4, complex)), "of four": (("y", "x"), field(4, 5)), "who": "me", "region": ("y", list("abcd"))})
        said = self.write(array, lossless=True)
        self.assertEqual(len(said), 2)
        for one, words in zip(said, ("u: the coordinate complex is not kept: it is complex, and coordinates are one field each",
                                     "u: the coordinate of four is not kept: a field cannot have this name"), strict=True):
            self.assertIn(words, one)
        opened = self.open().load()
        self.assertEqual((opened.who.item(), opened.region.values.tolist()), ("me", list("abcd")))

    def test_coordinates_along_what_is_selected_are_said(self):
        array = xr.concat([CASES["a map"]().temp] * 2, "member").assign_coords(member=[7, 8], seed=("member", [1, 2]))
        said = self.write(array, lossless=True, select={"member": 1})
        self.assertEqual(said, ["temp: the coordinate seed is not kept: it lies along member, of which some is selected"])
        self.assertEqual(set(self.open().coords), {"lat", "lon"})

    def test_variables_that_others_name_as_coordinates_are_some(self):
        data = latitudes_in_two_dimensions()
        data.rain.attrs["coordinates"] = "lat lon"
        self.write(data.reset_coords(["lat", "lon"]), lossless=True)
        self.assert_is(latitudes_in_two_dimensions())

    def test_variables_are_called_like_what_arrays_have(self):
        data = xr.Dataset({"name": ("x", field(4)), "variable": ("x", field(4)), "dims": ("x", field(4))}, {"attrs": 2.0})
        self.write(data, lossless=True)
        self.assert_is(data)

    def test_positions_that_float64_does_not_have_are_no_axis(self):
        data = xr.Dataset({"u": ("x", field(3))}, {"x": np.array([2**60, 2**60 + 1, 2**60 + 2])})
        said = self.write(data, lossless=True)
        self.assertIn("holds numbers that positions, which are float64, cannot have", said[0])
        np.testing.assert_array_equal(self.open()["x"].values, data["x"].values)

    def test_grids_of_other_sizes_keep_their_levels(self):
        data = xr.Dataset({"p0": 1000.0, "temp": (("lat", "lon"), field(9, 12))},
                          {"lat": LAT, "lon": along("lon", LON[1]), "height": 2.0})
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            self.assertGreater(dataset["temp"].levels, 1)
        self.assert_is(data)


def stations():
    """Rain at stations that have names, countries and heights; the whole of it in one region."""
    names = ["Kiel", "Köln", "", "Málaga", "長崎", "Bonn", "Oslo", "a name with a zero\0 in it"]
    return xr.Dataset({"rain": (("time", "station"), field(4, 8)), "wind": (("time", "z", "station"), field(4, 3, 8))},
                      {"time": DAYS, "station": ("station", names, {"cf_role": "timeseries_id"}),
                       "country": ("station", np.array(["D", "D", "", "ES", "JP", "D", "N", "D"], object), {"long_name": "country"}),
                       "height": ("station", np.arange(8.0)), "region": "everywhere", "layer": ("z", ["low", "middle", "high"])})


class Texts(Kept):
    def test_they_come_back(self):
        self.assertEqual(self.write(stations(), lossless=True), [])
        self.assert_is(stations())
        xr.testing.assert_identical(self.open().sel(station="長崎", layer=self.open().layer == "high").load(),
                                    stations().sel(station="長崎", layer=stations().layer == "high"))
        xr.testing.assert_identical(pickle.loads(pickle.dumps(self.open())).load(), stations())
        with quarry.open(self.path) as dataset:
            twice = self.tmp / "twice.quarry"
            quarry.write(twice, dataset, lossless=True)
            self.assertEqual([text.name for text in dataset.native.texts], ["country", "region", "layer", "station"])
        with xr.open_dataset(twice, engine=QuarryBackendEntrypoint) as opened:
            xr.testing.assert_identical(opened.load(), stations())

    def test_levels_and_boxes_have_theirs(self):
        data = stations()
        self.write(data, lossless=True)
        with quarry.open(self.path) as dataset:
            levels = dataset["rain"].levels
            self.assertGreater(levels, 1)
            got = dataset["wind"].read(step=1, box=((0, 1), (1, 3), (2, 7)), level=0).to_xarray()
            # Coordinates of numbers are not read for it.
            xr.testing.assert_identical(got, data.wind[1, 1:3, 2:7].drop_vars("height"))
            xr.testing.assert_identical(dataset["rain"].to_xarray().load(), data.rain)
            self.assertIn("Köln", dataset.info())
        for level in range(levels):
            xr.testing.assert_equal(self.open(level=level).load()[["rain"]],
                                    data[["rain"]].isel(station=slice(None, None, 1 << level)).drop_vars("layer", errors="ignore"))

    def test_a_server_and_the_command_have_them(self):
        self.write(stations(), lossless=True)
        with qt.Server(self.tmp) as server, xr.open_dataset(server.target("kept"), engine=QuarryBackendEntrypoint) as opened:
            xr.testing.assert_identical(opened.load(), stations())
        texts = {text["name"]: text for text in qt.info(self.path)["texts"]}
        self.assertEqual(texts["station"], {"name": "station", "dimension": "station", "texts": stations().station.values.tolist(),
                                            "attributes": {"cf_role": "timeseries_id"}})
        self.assertEqual((texts["region"]["dimension"], texts["region"]["texts"]), (None, ["everywhere"]))
        self.assertIn("text     layer along z: low, middle, high", qt.succeed("quarry", "info", self.path).out)

    def test_what_is_appended_has_the_same(self):
        data = stations()
        self.write(data.isel(time=slice(0, 2)), lossless=True)
        self.assertEqual(self.write(data.isel(time=slice(2, None)), lossless=True, mode="append"), [])
        self.assert_is(data)
        other = data.assign_coords(country=("station", list("abcdefgh")), time=data.time + np.timedelta64(4, "D"))
        said = self.write(other, lossless=True, mode="append")
        self.assertEqual(len(said), 1)
        self.assertIn("keeps other texts of the coordinate country", said[0])
        later = data.assign_coords(more=("station", list("abcdefgh")), time=data.time + np.timedelta64(8, "D"))
        self.assertEqual(self.write(later, lossless=True, mode="append"), [])
        self.assertEqual(self.open().more.values.tolist(), list("abcdefgh"))

    def test_what_is_no_text_of_an_axis_is_said(self):
        data = stations().drop_vars(["country", "layer"]).assign_coords(
            mixed=("station", np.array(["a", 1, None, "b", "c", "d", "e", "f"], object)), raw=("station", np.array(list("abcdefgh"), "S1")))
        said = self.write(data, lossless=True)
        self.assertEqual(said, ["the Dataset: the coordinate mixed is not kept: not all of it is text",
                                "the Dataset: the coordinate raw holds bytes, which are kept as text"])
        self.assertEqual(self.open().raw.values.tolist(), list("abcdefgh"))

    def test_files_say_them_too(self):
        data = stations().assign_coords(station=("station", [f"station {i}" for i in range(8)], {"cf_role": "timeseries_id"}))
        data.to_netcdf(self.tmp / "strings.nc")
        encoding = {name: {"dtype": "S1"} for name in ("station", "country", "region", "layer")}
        data.to_netcdf(self.tmp / "characters.nc", encoding=encoding)
        data.to_netcdf(self.tmp / "classic.nc", format="NETCDF3_CLASSIC")
        for kind in ("strings", "characters", "classic"):
            for suffix in (".nc", ".h5") if kind != "classic" else (".nc",):
                with self.subTest(kind + suffix):
                    (self.tmp / f"copy{suffix}").write_bytes((self.tmp / f"{kind}.nc").read_bytes())
                    self.path = self.tmp / f"{kind}{suffix}.quarry"
                    report = self.tmp / "report.json"
                    for name in ("rain", "wind"):
                        more = [] if name == "rain" else ["--append", "--step", "0"]
                        qt.succeed("quarry-write", f"{self.tmp}/copy{suffix}:{name}", "--output", self.path, "--lossless",
                                   "--report", report, *more)
                    opened = self.open().load()
                    self.assertEqual(set(opened.coords), set(data.coords))
                    for name in ("station", "country", "region", "layer", "height"):
                        self.assertEqual(opened[name].dims, data[name].dims, name)
                        self.assertEqual(opened[name].values.tolist(), data[name].values.tolist(), name)
                        self.assertEqual(opened[name].attrs, data[name].attrs, name)

    def test_more_fields_have_the_same(self):
        data = stations()
        self.write(data[["wind"]], lossless=True)
        self.assertEqual(self.write(data[["rain"]].isel(time=0, drop=True), lossless=True, mode="append"), [])
        said = self.write(data[["rain"]].rename(rain="snow").isel(time=0, drop=True).assign_coords(
            country=("station", data.country.values, {"long_name": "state"})), lossless=True, mode="append")
        self.assertEqual(said, ["attributes of country differ, and the dataset keeps its own: long_name"])

    def test_texts_called_as_the_field_are_left_with_a_word(self):
        stations()[["rain"]].drop_vars(["height", "region"]).to_netcdf(self.tmp / "a.nc")
        outcome = qt.succeed("quarry-write", self.tmp / "a.nc:rain", "--field", "country", "--output", self.path, "--lossless")
        self.assertIn('coordinates of text are not kept: country (text "country" has the name of a field', outcome.err)
        self.assertEqual(set(self.open().coords), {"time", "station"})

    def test_letters_along_an_axis_are_no_text(self):
        import h5py
        with h5py.File(self.tmp / "letters.h5", "w") as file:
            file["comp"] = np.array([b"u", b"v", b"w"], "S1")
            file["comp"].make_scale("comp")
            file["f"] = np.zeros((3, 5), "f4")
            file["f"].dims[0].attach_scale(file["comp"])
        qt.succeed("quarry-write", self.tmp / "letters.h5:f", "--output", self.path, "--lossless")
        self.assertEqual(self.open().comp.values.tolist(), ["u", "v", "w"])

    def test_what_a_file_names_is_what_is_meant(self):
        import netCDF4
        with netCDF4.Dataset(self.tmp / "groups.nc", "w") as file:
            for name, length in (("time", 2), ("y", 5), ("x", 6)):
                file.createDimension(name, length)
            file.createVariable("time", "f8", ("time",))[:] = [1, 2]
            file["time"].units = "days since 2001-01-01"
            reference = file.createVariable("reftime", "f8", ())
            reference.standard_name, reference.units = "forecast_reference_time", "days since 2000-01-01"
            reference[:] = 3
            for number, group in enumerate(("g1", "g2")):
                made = file.createGroup(group)
                made.createVariable("lat", "f4", ("y", "x"))[:] = number
                field = made.createVariable("t", "f4", ("time", "y", "x"))
                field[:] = number
                field.coordinates = "lat\treftime nowhere" if number else "/g2/lat"
        for group, expected in (("g1", 1), ("g2", 1)):
            with self.subTest(group):
                self.path = self.tmp / f"{group}.quarry"
                outcome = qt.succeed("quarry-write", f"{self.tmp}/groups.nc:/{group}/t", "--output", self.path, "--lossless")
                self.assertEqual("nowhere are not in the file" in outcome.err, group == "g2")
                (lat,) = (self.open()[name] for name in self.open().coords if name.endswith("lat"))
                np.testing.assert_array_equal(lat, np.full((5, 6), expected))
        qt.succeed("quarry-write", f"{self.tmp}/groups.nc:/g2/t", "--output", self.path, "--lossless", "--append", "--dry-run")
        outcome = qt.succeed("quarry-write", f"{self.tmp}/groups.nc:/g2/t", "--output", self.tmp / "called.quarry", "--lossless",
                             "--field", "lat")
        self.assertIn("its coordinate /g2/lat is not kept", outcome.err)

    def test_latitudes_of_files_in_two_dimensions_are_coordinates(self):
        data = latitudes_in_two_dimensions().assign_coords(height=2.0)
        data.to_netcdf(self.tmp / "a.nc")
        qt.succeed("quarry-write", self.tmp / "a.nc:rain", "--output", self.path, "--tolerance", "0.5")
        opened = self.open().load()
        xr.testing.assert_identical(opened.lat, data.lat)
        xr.testing.assert_identical(opened.lon, data.lon)
        xr.testing.assert_equal(opened.height, data.height)
        qt.succeed("quarry", "verify", self.path)


if __name__ == "__main__":
    qt.main()
