"""Queries beyond a level: a number of bytes, a stride, statistics, points. Each is compared with NumPy over the whole
field, from the directory and through the server, and with its price."""

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

import quarry_testing as qt
from test_inputs import module


class Case(NamedTuple):
    """A dataset, its source, and all its decoded samples."""

    path: object
    original: np.ndarray  # [z, y, x]
    decoded: np.ndarray  # [z, y, x]
    levels: int
    fill: object = None

    @property
    def dims(self):
        return self.original.shape[::-1]


def random_box(random, dims):
    begin = [int(random.integers(n)) for n in dims]
    return begin, [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, dims)]


def cut(field, begin, end, stride=(1, 1, 1)):
    """The samples of a box at the multiples of a stride."""
    return field[tuple(slice(-(-b // s) * s, e, s) for b, e, s in zip(begin[::-1], end[::-1], stride[::-1]))]


def together(function, *arguments):
    """As map: several programs run at the same time, each of which takes longer to start than to answer."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(function, *arguments))


class Queries(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ocean = qt.with_holes(qt.turbulent((61, 45, 38)), np.nan)
        labels = qt.with_holes(qt.integers((50, 41, 1), "<i2"), -7)
        cls.cases = [
            cls.make("turbulent", qt.turbulent((70, 45, 40)), "--relative", 1e-3),
            cls.make("ocean", ocean, "--relative", 1e-3),
            cls.make("filtered", qt.turbulent((70, 33, 20)), "--relative", 1e-3, "--codec", "wavelet-zfp"),
            cls.make("labels", labels, "--fill", -7, fill=-7),
            cls.make("exact", qt.turbulent((40, 40, 21), "<f8"), "--lossless"),
        ]
        decades = (10 ** (3 * qt.random_numbers("density").standard_normal((38, 45, 61)))).astype("<f4")
        cls.density = cls.make("density", decades, "--lossless")
        cls.rough = cls.make("rough", decades, "--tolerance", 100, "--codec", "wavelet-zfp")
        together(functools.partial(qt.succeed, "quarry-index"),
                 [case.path for case in (*cls.cases, cls.density, cls.rough)])
        cls.server = cls.enterClassContext(qt.Server(cls.shared))

    @classmethod
    def make(cls, name, original, *options, fill=None):
        path = cls.shared / f"{name}.quarry"
        qt.convert(original, path, *options, "--patch", "16", "--files", 2)
        output = cls.shared / f"{name}.npy"
        qt.succeed("quarry", "get", path, "--field", "f", "--output", output)
        return Case(path, original, np.load(output), qt.info(path)["levels"], fill)

    def everywhere(self, case):
        return case.path, self.server.target(case.path)

    def ask(self, command, target, *options):
        """The JSON of a command."""
        return json.loads(qt.succeed("quarry", command, target, "--field", "f", "--json", *options).out)

    def same_everywhere(self, case, command, *options):
        """The answer, which is the same from the directory and through the server."""
        local, remote = together(lambda target: self.ask(command, target, *options), self.everywhere(case))
        self.assertEqual(local, remote)
        return local

    def get_everywhere(self, case, *options):
        """The samples of an answer, which are the same from the directory and through the server, with the JSON of
        both."""
        outputs = [self.tmp / f"{number}.npy" for number in range(2)]
        said = together(lambda target, output: self.ask("get", target, *options, "--encoding", "samples", "--output",
                                                        output), self.everywhere(case), outputs)
        local, remote = map(np.load, outputs)
        self.assertEqual(local.tobytes(), remote.tobytes())
        return local, said

    def get(self, case, *options):
        """An answer as an array, with its JSON; the samples are the same from directory and server, and the cost equals
        the price."""
        plan, (array, said) = together(lambda ask: ask(), [
            lambda: self.same_everywhere(case, "plan", *options), lambda: self.get_everywhere(case, *options)])
        for one in said:
            for member in ("level", "begin", "shape", "spacing", "dtype", "max_error", "patches"):
                self.assertEqual(one[member], plan[member])
        self.assertEqual([one["bytes_received"] for one in said], [plan["bytes"], plan["reply_bytes"]])
        self.assertEqual(plan["reply_bytes"], array.nbytes)
        return array, plan, said

    # --- a number of bytes ---

    def test_the_finest_level_that_fits_is_answered(self):
        random = qt.random_numbers("max bytes")
        for case in self.cases:
            chosen = set()
            # The whole grid first: its levels differ in what they cost, which those of a small box may not.
            boxes = [((0, 0, 0), case.dims)] + [random_box(random, case.dims) for _ in range(qt.scaled(2, 100))]
            for begin, end in boxes:
                box = ("--box", qt.box_text(begin, end))
                plans = together(lambda level: self.ask("plan", case.path, *box, "--level", level), range(case.levels))
                # Minimum for any level: the larger of the bytes read and the bytes sent.
                costs = {plan["level"]: max(plan["bytes"], plan["reply_bytes"]) for plan in plans
                         if 0 not in plan["shape"]}
                least, most = min(costs.values()), max(costs.values())
                every = costs.values() if qt.FULL else (least, most)
                for budget in {*every, int(random.integers(1, 2 * most))}:
                    fitting = [level for level, cost in costs.items() if cost <= budget]
                    if not fitting:
                        continue
                    answer, plan, said = self.get(case, *box, "--max-bytes", budget)
                    self.assertEqual(plan["level"], min(fitting))
                    self.assertTrue(all(one["bytes_received"] <= budget for one in said))
                    chosen.add(plan["level"])
                refused = [(command, target, *more) for target in self.everywhere(case) for command, *more in (
                    ("get", "--output", self.tmp / "x.raw"), ("plan",), ("stats",))]
                for outcome in together(lambda asked: qt.run("quarry", *asked, "--field", "f", *box, "--max-bytes",
                                                             least - 1), refused):
                    self.assert_one_line(outcome, qt.NOT_FOUND, least - 1, f"is {least};")
            self.assertGreater(len(chosen), 1, case.path)

    def test_coarse_levels_on_the_way_count(self):
        case = self.cases[0]
        for target in self.everywhere(case):
            for budget in (3000, 30_000, 300_000):
                said = self.ask("get", target, "--max-bytes", budget, "--progressive", "--output", self.tmp / "x.raw")
                self.assertLessEqual(said["bytes_received"], budget)
                alone = self.ask("plan", target, "--max-bytes", budget)
                self.assertGreaterEqual(said["level"], alone["level"])
        sizes = self.ask("plan", case.path, "--max-bytes", "1MiB")
        self.assertEqual(sizes["level"], 0)

    # --- a stride ---

    def test_a_stride_gives_every_so_manyth_sample(self):
        random = qt.random_numbers("stride")
        for case in self.cases:
            for number in range(qt.scaled(3, 200)):
                begin, end = random_box(random, case.dims)
                stride = [int(random.integers(1, 10)) for _ in range(3)]
                if number % 3 == 0:
                    stride = [2 ** (number % 4)] * 3
                text = ",".join(map(str, stride)) if number % 2 or len(set(stride)) > 1 else str(stride[0])
                answer, plan, _ = self.get(case, "--box", qt.box_text(begin, end), "--stride", text)
                expected = cut(case.decoded, begin, end, stride)
                self.assertEqual(answer.shape, expected.shape)
                self.assertEqual(answer.tobytes(), expected.tobytes())
                self.assertEqual(plan["spacing"], stride)
                if case.path.stem == "filtered":
                    self.assertEqual(plan["level"], 0, "coarse levels of this coder are no samples")

    def test_a_stride_that_is_a_level_costs_what_the_level_costs(self):
        case = self.cases[0]
        for level in range(case.levels):
            _, by_stride, _ = self.get(case, "--stride", 2**level)
            _, by_level, _ = self.get(case, "--level", level)
            self.assertEqual(by_stride, by_level)

    # --- statistics ---

    def check_statistics(self, case, said, samples, originals):
        valid, true = (values[~qt.missing(values, case.fill)].astype("f8") for values in (samples, originals))
        self.assertEqual((said["valid"], said["missing"]), (valid.size, samples.size - valid.size))
        if valid.size == 0:
            self.assertIsNone(said["mean"]["value"])
            return
        rounding = 1e-12 * max(1, np.abs(valid).max())

        def check(name, entry, value, truth, tolerance=rounding):
            self.assertAlmostEqual(entry["value"], value, delta=tolerance, msg=name)
            low, high = entry["interval"]
            self.assertLessEqual(low, truth + rounding, name)
            self.assertGreaterEqual(high, truth - rounding, name)
            self.assertTrue(low <= entry["value"] + tolerance and entry["value"] - tolerance <= high, name)

        for name, function in (("min", np.min), ("max", np.max), ("mean", np.mean), ("stddev", np.std)):
            check(name, said[name], function(valid), function(true))
        for entry in said["percentiles"]:
            # By the definition: the smallest value that at least this share of the samples does not exceed.
            of = [np.sort(v)[max(1, int(np.ceil(entry["percent"] / 100 * v.size))) - 1] for v in (valid, true)]
            check(f"{entry['percent']}%", entry, *of, tolerance=2e-3 if valid.dtype.kind == "f" else 0)
        histogram = said["histogram"]
        bins = len(histogram["counts"])
        width = histogram["end"] / bins - histogram["begin"] / bins
        edges = [histogram["begin"] + width * b for b in range(bins)] + [histogram["end"]]
        self.assertEqual(histogram["counts"], np.histogram(valid, edges)[0].tolist())
        counts = np.histogram(true, edges)[0]
        self.assertTrue((np.array(histogram["low"]) <= counts).all())
        self.assertTrue((np.array(histogram["high"]) >= counts).all())
        self.assertEqual(histogram["below"], (valid < edges[0]).sum())
        self.assertEqual(histogram["above"], (valid > edges[-1]).sum())

    def test_statistics_are_those_of_the_samples_and_hold_those_of_the_original(self):
        random = qt.random_numbers("statistics")
        for case in self.cases:
            for number in range(qt.scaled(2, 200)):
                begin, end = random_box(random, case.dims)
                level = int(random.integers(case.levels))
                box = ("--box", qt.box_text(begin, end), "--level", level)
                with self.subTest(path=case.path.name, options=box):
                    options = ("--percentiles", "0,2.5,50,97.5,100", "--bins", int(random.integers(1, 40)))
                    if number % 2:
                        options += ("--range", "-1.25:0.75")
                    said = self.same_everywhere(case, "stats", *box, *options)
                    samples, plan, _ = self.get(case, *box)
                    self.check_statistics(case, said, samples, cut(case.original, begin, end, [2**level] * 3))
                    for member in ("level", "begin", "shape", "spacing", "max_error", "patches", "bytes", "bytes_read",
                                   "reads"):
                        self.assertEqual(said[member], plan[member], member)
                    whole = cut(case.original, begin, end)
                    whole = whole[~qt.missing(whole, case.fill)].astype("f8")
                    if whole.size:
                        for name, true in (("box_min", whole.min()), ("box_max", whole.max())):
                            low, high = said[name]
                            self.assertTrue(low is None or low <= true, name)
                            self.assertTrue(high is None or true <= high, name)

    def test_statistics_of_lossless_fields_are_exact(self):
        for case in self.cases[3:]:
            said = self.ask("stats", case.path)
            for name in ("min", "max"):
                self.assertEqual(said[name]["interval"], [said[name]["value"]] * 2)
            self.assertEqual(said["histogram"]["low"], said["histogram"]["counts"])
            self.assertEqual(said["histogram"]["high"], said["histogram"]["counts"])

    def test_percentiles_over_many_decades(self):
        for case in (self.density, self.rough):
            for level in range(case.levels):
                said = self.same_everywhere(case, "stats", "--level", level)
                for entry in said["percentiles"]:
                    low, high = entry["interval"]
                    for samples in (case.decoded, case.original):
                        exact = np.percentile(cut(samples, (0, 0, 0), case.dims, [2**level] * 3), entry["percent"],
                                              method="inverted_cdf")
                        self.assertTrue(low <= exact <= high, (case.path.name, level, entry, exact))
                    if case is self.density and level == 0:
                        self.assertLess(high - low, 0.01 * exact)
                        self.assertTrue(entry["resolved"])

    def test_percentiles_that_the_tolerance_hides_are_not_resolved(self):
        percentiles = self.same_everywhere(self.rough, "stats")["percentiles"]
        resolved = {entry["percent"]: entry["resolved"] for entry in percentiles}
        self.assertEqual((resolved[50], resolved[99]), (False, True), "these are about 1 and 1e7, within 100")
        outcome = qt.succeed("quarry", "stats", self.rough.path)
        self.assertRegex(outcome.out, r"(?m)^  50% +not resolved +original in \[")
        self.assertRegex(outcome.out, r"(?m)^  99% +\d")

    def test_histograms_of_every_scale(self):
        for case, options in ((self.density, ("log",)), (self.density, ("quantile",)), (self.cases[0], ("quantile",)),
                              (self.cases[0], ("log", "--range", "0.01:1")), (self.cases[3], ("quantile",))):
            with self.subTest(path=case.path.name, options=options):
                histogram = self.same_everywhere(case, "stats", "--bins", 20, "--bin-scale", *options)["histogram"]
                valid, true = (values[~qt.missing(values, case.fill)].astype("f8")
                               for values in (case.decoded, case.original))
                edges = np.array(histogram["edges"])
                self.assertEqual(histogram["counts"], np.histogram(valid, edges)[0].tolist())
                counts = np.histogram(true, edges)[0]
                self.assertTrue((np.array(histogram["low"]) <= counts).all())
                self.assertTrue((np.array(histogram["high"]) >= counts).all())
                self.assertEqual((histogram["below"], histogram["above"]),
                                 ((valid < edges[0]).sum(), (valid > edges[-1]).sum()))
                if options[0] == "log":
                    np.testing.assert_allclose(edges, np.geomspace(edges[0], edges[-1], 21), rtol=1e-9)
                else:
                    self.assertEqual((edges[0], edges[-1]), (valid.min(), valid.max()))
                if options[0] == "quantile" and case is not self.cases[3]:  # integers have many ties
                    np.testing.assert_allclose(histogram["counts"], valid.size / 20, rtol=0.02)

    def test_statistics_as_text(self):
        outcome = qt.succeed("quarry", "stats", self.cases[1].path)
        for word in ("min", "max", "mean", "stddev", "50%", "missing", "original in ["):
            self.assertIn(word, outcome.out)

    # --- points ---

    def interpolated(self, field, point, fill):
        """By the definition, in rational weights; None where a sample that takes part is missing."""
        total = 0.0
        for corner in np.ndindex(2, 2, 2):
            low = [int(np.floor(p)) for p in point]
            weight = 1.0
            for a in range(3):
                fraction = point[a] - low[a]
                weight *= fraction if corner[a] else 1 - fraction
            if weight == 0:
                continue
            sample = field[tuple(low[a] + corner[a] for a in (2, 1, 0))]
            if qt.missing(np.array([sample], field.dtype), fill)[0]:
                return None
            total += weight * float(sample)
        return total

    def test_points_are_interpolated(self):
        random = qt.random_numbers("points")
        for case in self.cases:
            last = np.array(case.dims) - 1
            points = random.random((qt.scaled(300, 5000), 3)) * last
            points[::3] = np.rint(points[::3])
            points[1] = last
            points[2] = 0
            np.save(self.tmp / "points.npy", points)
            np.savetxt(self.tmp / "points.csv", points, "%.17g", ",", header="x,y,z")
            said = self.same_everywhere(case, "points", "--file", self.tmp / "points.npy")
            self.assertEqual(said, self.same_everywhere(case, "points", "--file", self.tmp / "points.csv"))
            price = self.same_everywhere(case, "points", "--file", self.tmp / "points.npy", "--price")
            self.assertEqual(price.pop("values"), [])
            self.assertEqual(price, {member: said[member] for member in price})
            for point, value in zip(points, said["values"], strict=True):
                expected = self.interpolated(case.decoded, point, case.fill)
                true = self.interpolated(case.original, point, case.fill)
                self.assertEqual(value is None, expected is None)
                if value is not None:
                    scale = max(1, abs(expected))
                    self.assertAlmostEqual(value, expected, delta=1e-9 * scale)
                    self.assertLessEqual(abs(value - true), said["max_error"] + 1e-9 * scale)

    def test_points_on_physical_axes(self):
        field = qt.smooth((20, 9, 5), "<f8")
        path = self.tmp / "axes.quarry"
        qt.convert(field, path, "--lossless", "--origin", "100,-4,0", "--spacing", "2,0.5,10")
        said = self.ask("points", path, "--at", "110,-1,20", "--at", "111,-1.25,25", "--physical")
        self.assertEqual(said["values"][0], field[2, 6, 5])
        self.assertAlmostEqual(said["values"][1], self.interpolated(field, (5.5, 5.5, 2.5), None), delta=1e-12)
        self.assert_one_line(qt.run("quarry", "points", path, "--at", "99,0,0", "--physical"), qt.USAGE, "point 0")

    def write_curvilinear(self, field):
        """A file as models write it: axes without positions, and places of columns, one of which is missing."""
        j, i = np.meshgrid(np.arange(15.0), np.arange(20.0), indexing="ij")
        lon, lat = (175 + 0.75 * i + 180) % 360 - 180, -60 + 0.5 * j
        with module("netCDF4").Dataset(self.tmp / "ocean.nc", "w") as file:
            for name, length in (("deptht", 4), ("y", 15), ("x", 20)):
                file.createDimension(name, length)
            depth = file.createVariable("deptht", "f4", ("deptht",))
            depth.units, depth[:] = "m", [1, 2, 4, 8]
            for name, values, units in (("nav_lon", lon, "degrees_east"), ("nav_lat", lat, "degrees_north")):
                variable = file.createVariable(name, "f8", ("y", "x"), fill_value=1e20)
                variable.units, variable[:] = units, np.where((j == 9) & (i == 3), 1e20, values)
            variable = file.createVariable("f", "f4", ("deptht", "y", "x"))
            variable.units, variable.coordinates, variable[:] = "degC", "nav_lon nav_lat", field
        return f"{self.tmp}/ocean.nc:f"

    def test_points_by_longitude_and_latitude(self):
        field = qt.turbulent((20, 15, 4), "<f4", name="curvilinear").reshape(4, 15, 20)
        path = self.shared / "curvilinear.quarry"
        qt.succeed(qt.SERIAL_WRITER, self.write_curvilinear(field), "--lossless", "--output", path)
        options = ("--physical", "--at", "-180,-57,4", "--at", "185.25,-56.9,3", "--at", "-174,-53.25,8")
        samples = ((20 / 3, 6, 2), (10.25 / 0.75, 6.2, 1.5), (11 / 0.75, 13.5, 3))
        expected = [self.interpolated(field.astype("f8"), point, None) for point in samples]
        for target in (path, self.server.target(path)):
            np.testing.assert_allclose(self.ask("points", target, *options)["values"], expected, rtol=1e-6)
            lines = qt.succeed("quarry", "points", target, "--field", "f", *options).out.splitlines()
            self.assertEqual(lines[0], "nav_lon,nav_lat,deptht,f [degC]")
            self.assertTrue(lines[2].startswith("185.25,-56.9,3,"), lines)
            for place in ("-10,-57,4", "177.5,-55.4,4"):
                outcome = qt.run("quarry", "points", target, "--field", "f", *options[:3], "--at", place)
                self.assert_one_line(outcome, qt.USAGE, f"point 1 ({place.replace(',', ', ')})", "nav_lon", "nav_lat")

    def test_points_as_text(self):
        case = self.cases[0]
        lines = qt.succeed("quarry", "points", case.path, "--at", "1,2,3", "--at", "0.5,0,0").out.splitlines()
        self.assertEqual(lines[0], "x,y,z,f")
        self.assertEqual(np.float32(lines[1].split(",")[3]), case.decoded[3, 2, 1])
        self.assertTrue(lines[2].startswith("0.5,0,0,"))

    def test_points_that_cannot_be_are_refused(self):
        for target in self.everywhere(self.cases[0]):
            for options, mention in ((("--at", "70,0,0"), "70"), (("--at", "1,2"), "1,2"), ((), "--at"),
                                     (("--at", "0,0,nan"), "nan")):
                self.assert_one_line(qt.run("quarry", "points", target, "--field", "f", *options), qt.USAGE, mention)
            self.assert_one_line(qt.run("quarry", "points", target, "--at", "0,0,0", "--field", "g"), qt.NOT_FOUND, "g")

    # --- a focus ---

    def test_a_focus_changes_the_order_alone(self):
        for case in self.cases:
            plain, plan, _ = self.get(case, "--level", 0)
            near, near_plan, _ = self.get(case, "--level", 0, "--focus", "60.5,3,200")
            self.assertEqual(near.tobytes(), plain.tobytes())
            for member in ("patches", "bytes", "reply_bytes", "max_error"):
                self.assertEqual(near_plan[member], plan[member])

    # --- a range of values ---

    def test_a_range_of_values_leaves_out_patches_without_them(self):
        random = qt.random_numbers("values")
        for case in self.cases:
            narrowed = 0
            valid = case.original[~qt.missing(case.original, case.fill)]
            questions = [((0, 0, 0), case.dims, 0, valid.max())]
            questions += [(*random_box(random, case.dims), 1, random.choice(valid)) for _ in range(qt.scaled(2, 50))]
            for begin, end, level, low in questions:
                options = ("--box", qt.box_text(begin, end), "--level", level, f"--values={low}:{low}")
                whole, *_ = self.get(case, *options[:4])
                plan = self.same_everywhere(case, "plan", *options)
                some, (_, remote) = self.get_everywhere(case, *options)
                self.assertEqual(remote["bytes_received"], plan["reply_bytes"])
                out = np.zeros(whole.shape, bool)
                for box in remote["left_out"]:
                    first = [b - o for b, o in zip(box["begin"], plan["begin"])][::-1]
                    out[tuple(slice(b, b + n) for b, n in zip(first, box["shape"][::-1]))] = True
                self.assertEqual(plan["samples_left_out"], out.sum())
                self.assertEqual(plan["reply_bytes"], (~out).sum() * whole.itemsize)
                self.assertEqual(some[~out].tobytes(), whole[~out].tobytes())
                self.assertTrue(qt.missing(some[out], case.fill).all() or case.original.dtype.kind != "f")
                originals = cut(case.original, begin, end, [2**level] * 3)
                self.assertFalse((originals[out] == low).any())
                narrowed += 0 < out.sum() < out.size
            self.assertGreater(narrowed, 0, case.path.name)

    # --- several fields and steps ---

    def test_several_fields_and_steps_are_answered_one_after_the_other(self):
        path = self.shared / "series.quarry"
        fields = {"u": qt.turbulent((40, 30, 20)), "v": qt.turbulent((40, 30, 20), "<f8")}
        for number, step in enumerate((0, 100, 200, 300)):
            for name, field in fields.items():
                if (name, step) != ("v", 200):
                    more = ("--append",) if (number, name) != (0, "u") else ()
                    qt.convert(field + number, path, "--relative", 1e-3, "--patch", 16, "--field", name, "--step", step,
                               *more)
        expected = [("u", 100), ("v", 100), ("u", 200), ("u", 300), ("v", 300)]
        series = ("--fields", "u,v", "--steps", "100:400", "--box", "3:40,:,7:19", "--level", 1)
        for target in (path, self.server.target(path)):
            out = self.tmp / "{field}-{step}.npy"
            lines = qt.succeed("quarry", "get", target, *series, "--json", "--output", out).out.splitlines()
            answers = [json.loads(line) for line in lines]
            self.assertEqual([(answer["field"], answer["step"]) for answer in answers], expected)
            plan = json.loads(qt.succeed("quarry", "plan", target, *series, "--json").out)
            self.assertEqual([(answer["field"], answer["step"]) for answer in plan["answers"]], expected)
            for member in ("patches", "bytes", "reply_bytes"):
                self.assertEqual(plan[member], sum(answer[member] for answer in plan["answers"]))
            alone = together(lambda asked: qt.get(target, self.tmp / "alone-{}-{}.npy".format(*asked), "--step",
                                                  asked[1], *series[4:], field=asked[0]), expected)
            for (field, step), samples in zip(expected, alone, strict=True):
                self.assertEqual((self.tmp / f"{field}-{step}.npy").read_bytes(), samples)
            for options, mention in ((("--fields", "u,v", "--output", "{step}.npy"), "{field}"),
                                     (("--field", "u", "--steps", ":", "--output", "u.npy"), "{step}"),
                                     (("--field", "u", "--steps", "3", "--output", "{step}.npy"), "--steps"),
                                     (("--field", "u", "--steps", "5:5", "--output", "{step}.npy"), "empty"),
                                     (("--fields", "u,u", "--output", "{field}.npy"), "twice")):
                self.assert_one_line(qt.run("quarry", "get", target, *options), qt.USAGE, mention)
            self.assert_one_line(qt.run("quarry", "plan", target, "--field", "v", "--steps", "101:300"), qt.NOT_FOUND)
            self.assert_one_line(qt.run("quarry", "plan", target, "--fields", "u,w"), qt.NOT_FOUND, "w")

    def test_what_cannot_be_asked_is_refused(self):
        plans = (("--max-bytes", 1000, "--level", 1), ("--max-bytes", 1000, "--max-error", 1),
                 ("--stride", 2, "--level", 1), ("--stride", 0), ("--stride", "2,2"), ("--stride", 1.5),
                 ("--focus", "1,2"), ("--focus", "1,2,nan"), ("--max-bytes", "many"),
                 ("--values", "2:1"), ("--values", "nan:1"), ("--values", "1"))
        statistics = (("--percentiles", "101"), ("--percentiles", "a"), ("--bins", 5000), ("--bins", -1),
                      ("--range", "1:1"), ("--range", "1"), ("--bin-scale", "log"), ("--bin-scale", "cubic"),
                      ("--bin-scale", "log", "--range", "0:1"), ("--bin-scale", "log", "--bins", 0),
                      ("--bin-scale", "quantile", "--range", "0:1"))
        for target in self.everywhere(self.cases[0]):
            for outcome in together(lambda options: qt.run("quarry", "plan", target, *options), plans):
                self.assertEqual(outcome.code, qt.USAGE, outcome)
            for outcome in together(lambda options: qt.run("quarry", "stats", target, *options), statistics):
                self.assert_one_line(outcome, qt.USAGE)


if __name__ == "__main__":
    qt.main()
