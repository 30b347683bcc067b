"""Cost of questions: a read asks for one step, however many there are, and for the layer of accuracy that is enough."""

import asyncio
import json
import unittest

from python_testing import np, qt, quarry

import xarray  # noqa: E402

from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

SHAPE = (12, 20, 24)
LAST = 19
READ = 12
"""The step that is read."""


def series(count=LAST + 1):
    """[step, z, y, x]; some samples of odd steps are missing."""
    generator = np.random.default_rng(42)
    steps = np.cumsum(generator.normal(size=(count, *SHAPE)), axis=3).astype("f4")
    steps[1::2, 2:5, 3:9] = np.nan
    return steps


class Lists(qt.QuarryTest):
    """All step.json are damaged here: lists of steps come from the catalogue."""

    def test_lists_of_steps_read_no_step_json(self):
        folder = self.tmp / "data"
        folder.mkdir()
        path = folder / "run.quarry"
        times = np.arange(LAST + 1) / 4
        quarry.write(path, {"p": series()}, lossless=True, patch=8, time=times)
        with quarry.open(path) as dataset:
            expected = str(dataset["p"].info()), str(dataset.info())
        for step in range(LAST + 1):
            (path / "steps" / f"{step:06}" / "step.json").write_text("{}")
        with qt.Server(folder) as server:
            for target in (str(path), server.target(path)):
                with self.subTest(target=target), quarry.open(target) as dataset:
                    self.assertEqual(dataset.times, times.tolist())
                    said = str(dataset["p"].info()), str(dataset.info())
                    self.assertEqual(tuple(text.replace(target, str(path)) for text in said), expected)
                    self.assertEqual(dataset["p"].shape, (LAST + 1, *SHAPE))
                    found = dataset.watch()
                    self.assertEqual([next(found).step for _ in range(LAST + 1)], list(range(LAST + 1)))
                    found.close()
                    with xarray.open_dataset(target, engine=QuarryBackendEntrypoint) as opened:
                        self.assertEqual(opened.sizes["step"], LAST + 1)
                    self.assertEqual(qt.run("quarry", "info", target).code, qt.DONE)
                    with self.assertRaisesRegex(quarry.Error, "step.json"):
                        dataset["p"].read(step=READ)


class Steps(qt.QuarryTest):
    """Records of most steps are damaged here: who reads one of them gets an error."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.shared / "data"
        cls.folder.mkdir()
        cls.data = series()
        path = cls.folder / "run.quarry"
        quarry.write(path, {"p": cls.data}, lossless=True, patch=8)
        (path / "head").unlink()  # as in datasets of before the catalogue
        for step in set(range(1, LAST)) - {READ}:
            (path / "steps" / f"{step:06}" / "step.json").write_text("{}")
        cls.server = qt.Server(cls.folder)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.path = path

    def each(self):
        """The dataset as a directory and behind a server, opened anew for each question."""
        for target in (str(self.path), self.server.target(self.path)):
            yield target

    def test_a_question_of_one_step_reads_its_record_alone(self):
        p = self.data[READ]
        box = ((2, 9), (0, 20), (5, 24))
        questions = {
            "read": (lambda d: d["p"].read(step=READ).array, p),
            "a box": (lambda d: d["p"].read(step=READ, box=box).array, p[2:9, :, 5:]),
            "a level": (lambda d: d["p"].read(step=READ, level=1).array, p[::2, ::2, ::2]),
            "the first": (lambda d: d["p"].read().array, self.data[0]),
            "stream": (lambda d: [*d["p"].stream(step=READ)][-1].array, p),
            "await": (lambda d: asyncio.run(d["p"].aread(step=READ)).array, p),
            "several": (lambda d: d["p"].read(steps=[0, READ, LAST]).array, self.data[[0, READ, LAST]]),
            "the last by index": (lambda d: d["p"][-1], self.data[LAST]),
            "the first by index": (lambda d: d["p"][0, 3, ::2], self.data[0, 3, ::2]),
            "points": (lambda d: d["p"].points([(1, 2, 3)], step=READ)[0], p[1:2, 2, 3].ravel()),
            "statistics": (lambda d: d["p"].stats(step=READ).max.value, np.nanmax(p)),
            "price": (lambda d: d["p"].plan(step=READ).price.patches, 18),
            "numbers": (lambda d: d.steps, np.arange(LAST + 1)),
        }
        for target in self.each():
            for name, (ask, expected) in questions.items():
                with self.subTest(target=target, question=name), quarry.open(target) as dataset:
                    np.testing.assert_array_equal(ask(dataset), expected)

    def test_records_that_are_wanted_are_read(self):
        for target in self.each():
            with self.subTest(target=target), quarry.open(target) as dataset, \
                    self.assertRaisesRegex(quarry.Error, "step"):
                dataset["p"].info()

    def test_missing_samples_are_known_without_the_record(self):
        for target in self.each():
            with self.subTest(target=target), quarry.open(target) as dataset:
                self.assertFalse(np.isnan(dataset["p"].read(step=READ).array).any())
                last = dataset["p"].read(step=LAST)
                np.testing.assert_array_equal(np.isnan(last.array), np.isnan(self.data[LAST]))


class ManyFields(qt.QuarryTest):
    """All sections of step.json but one are damaged here: who asks for a field of that one reads no other."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.shared / "data"
        cls.folder.mkdir()
        cls.path = cls.folder / "run.quarry"
        cls.data = series(2)[:, :4, :8, :8]
        quarry.write(cls.path, {f"f{number:03}": cls.data + number for number in range(100)}, lossless=True, patch=8)
        for step in (0, 1):
            manifest = cls.path / f"steps/{step:06}/step.json"
            text = bytearray(manifest.read_bytes())
            sections = json.loads(text)["sections"]
            at = int(sections["root_bytes"])
            for section in sections["list"]:
                end = at + int(section["bytes"])
                if b'"name": "f050"' not in text[at:end]:
                    text[at + 20] ^= 1
                at = end + 2
            manifest.write_bytes(text)

    def test_one_field_reads_its_section(self):
        whole = self.data + 50
        questions = {
            "read": (lambda d: d["f050"].read(step=1).array, whole[1]),
            "the first": (lambda d: d["f050"].read().array, whole[0]),
            "several": (lambda d: d["f050"].read(steps=[0, 1]).array, whole),
            "the last by index": (lambda d: d["f050"][-1, 2], whole[1, 2]),
            "points": (lambda d: d["f050"].points([(1, 2, 3)], step=1)[0], whole[1, 1:2, 2, 3]),
            "statistics": (lambda d: d["f050"].stats(step=1).max.value, np.nanmax(whole[1])),
            "price": (lambda d: d["f050"].plan(step=1).price.patches, 1),
        }
        with qt.Server(self.folder) as server:
            for target in (str(self.path), server.target(self.path)):
                for name, (ask, expected) in questions.items():
                    with self.subTest(target=target, question=name), quarry.open(target) as dataset:
                        np.testing.assert_array_equal(ask(dataset), expected)
                with quarry.open(target) as dataset, self.assertRaisesRegex(quarry.Error, "section 0 of"):
                    dataset["f000"].read(step=1)
                with xarray.open_dataset(target, engine=QuarryBackendEntrypoint) as opened:
                    np.testing.assert_array_equal(opened["f050"][1], whole[1])


class Calls(qt.QuarryTest):
    """Calls and bytes of a server, with few steps and with many."""

    def asked(self, name, count, question):
        folder = self.tmp / f"{name} {count}"
        folder.mkdir()
        quarry.write(folder / "run.quarry", {"p": series(2)[np.arange(count) % 2]}, lossless=True, patch=8)
        with qt.Server(folder, "--metrics", "127.0.0.1:0") as server:
            with quarry.open(server.target("run.quarry"), encoding="samples") as dataset:
                question(dataset)
            metrics = server.metrics()
        return self.calls(metrics), metrics["quarry_sent_bytes_total"]

    @staticmethod
    def calls(metrics):
        """The number of calls of each method."""
        return {name.split('method="')[1].split('"')[0]: number for name, number in metrics.items()
                if name.startswith("quarry_requests_total")}

    def test_a_further_question_takes_one(self):
        quarry.write(self.tmp / "run.quarry", {"p": series(3)}, lossless=True, patch=8)
        questions = {"a box": lambda p: p.read(step=1, box=((0, 5), (0, 20), (3, 9))), "the last": lambda p: p[-1],
                     "a part of the last": lambda p: p[-1, 3:7, ::2], "the second": lambda p: p[1, 5],
                     "of several": lambda p: p[:2, 3, 4, 5:6]}
        with qt.Server(self.tmp, "--metrics", "127.0.0.1:0") as server, \
                quarry.open(server.target("run.quarry")) as dataset:
            for name, question in questions.items():
                first = question(dataset["p"])
                before = self.calls(server.metrics())
                again = question(dataset["p"])
                after = self.calls(server.metrics())
                with self.subTest(name):
                    np.testing.assert_array_equal(again, first)
                    reads = 2 if name == "of several" else 1  # one for each step
                    self.assertEqual(after, before | {"Read": before["Read"] + reads})

    def test_do_not_grow_with_the_steps(self):
        for name, question in {"read": lambda dataset: dataset["p"].read(step=1),
                               "the last": lambda dataset: dataset["p"][-1]}.items():
            with self.subTest(name):
                few, many = self.asked(name, 4, question), self.asked(name, 64, question)
                self.assertEqual(few[0], many[0])
                self.assertLess(abs(many[1] - few[1]), 256)  # bytes of numbers

    def test_an_index_asks_once_for_the_record_of_a_step(self):
        once, _ = self.asked("once", 4, lambda dataset: dataset["p"][-1])
        again, _ = self.asked("again", 4, lambda dataset: [dataset["p"][-1] for _ in range(5)])
        self.assertEqual(again, once | {"Read": once["Read"] + 4})


class Layers(qt.QuarryTest):
    """A field in layers of accuracy, through everything that takes a max_error."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.shared / "layered.quarry"
        cls.data = np.cumsum(np.random.default_rng(7).normal(size=(2, 32, 48, 64)), axis=3)
        quarry.write(cls.path, {"p": cls.data, "q": cls.data[:, ::-1] * 10}, layers=[1e-1, 1e-3, "exact"], patch=16)

    def opened(self, **options):
        opened = xarray.open_dataset(self.path, engine=QuarryBackendEntrypoint, **options)
        self.addCleanup(opened.close)
        return opened

    def test_everybody_chooses_as_a_read_does(self):
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for error in (30, 1, 0.1, 1e-2, 1e-3, 0):
                plans = [field.plan(step=step, max_error=error) for step in (0, 1)]
                level, layer = max((plan.levels[-1].level, plan.layer) for plan in plans)
                read = field.read(steps=[0, 1], level=level, layer=layer)
                with self.subTest(error=error):
                    lazy = field.to_xarray(max_error=error)
                    self.assertEqual((lazy.attrs.get("level", 0), lazy.attrs.get("layer", 2)), (level, layer))
                    np.testing.assert_array_equal(lazy, read.array)
                    self.assertEqual(lazy.attrs.get("max_error", 0), read.max_error)
                    self.assertLessEqual(read.max_error, error)
                    np.testing.assert_array_equal(self.opened(max_error={"p": error}).p, read.array)
                    target = self.tmp / f"{error}.npy"
                    dataset.export(target, fields="p", max_error=error, overwrite=True)
                    np.testing.assert_array_equal(np.load(target), read.array)
                    said = json.loads((self.tmp / f"{error}.npy.json").read_text())
                    attrs = said.get("attributes", said.get("fields", [said])[0] if "fields" in said else said)
                    self.assertEqual(attrs.get("layer", 2), layer)

    def test_bytes_are_those_of_the_layer(self):
        with quarry.open(self.path) as dataset:
            lazy = dataset["p"].to_xarray(max_error=0.1)
            enough = dataset["p"].plan(step=0, level=lazy.attrs.get("level", 0), layer=lazy.attrs["layer"]).price.bytes
            self.assertEqual(enough, dataset["p"].plan(step=0, max_error=0.1).price.bytes)
            self.assertLess(4 * enough, dataset["p"].plan(step=0).price.bytes)

    def test_the_least_memory_is_enough_for_each_layer(self):
        with quarry.open(self.path, memory=1) as dataset:
            for layer, bound in enumerate((1e-1, 1e-3, 0)):
                self.assertLessEqual(np.abs(dataset["p"].read(step=1, layer=layer).array - self.data[1]).max(), bound)

    def test_a_layer_by_its_number(self):
        for layer, bound in enumerate((1e-1, 1e-3, 0)):
            with self.subTest(layer=layer):
                p = self.opened(layer=layer).p
                self.assertLessEqual(np.abs(p - self.data).max(), bound)
                self.assertEqual(p.attrs.get("layer", 2), layer)
                self.assertEqual(p.encoding["lossless"], layer == 2)
                self.assertEqual(p.encoding["tolerance"], bound)
                with quarry.open(self.path) as dataset:
                    dataset.export(self.tmp / f"{layer}.nc", layer=layer)
                    self.assertLessEqual(np.abs(dataset["p"].to_xarray(layer=layer) - self.data).max(), bound)
                with xarray.open_dataset(self.tmp / f"{layer}.nc") as exported:
                    np.testing.assert_array_equal(exported.p, p)

    def test_each_field_has_its_own(self):
        data = self.opened(max_error={"p": 0.1, "q": 0})
        self.assertEqual((data.p.attrs["layer"], data.q.attrs.get("layer")), (0, None))
        self.assertLessEqual(np.abs(data.p - self.data).max(), 0.1)
        np.testing.assert_array_equal(data.q, self.data[:, ::-1] * 10)

    def test_what_goes_together(self):
        with quarry.open(self.path) as dataset:
            for ask in (dataset["p"].to_xarray, lambda **options: dataset.export(self.tmp / "a.nc", **options)):
                with self.assertRaisesRegex(ValueError, "max_error chooses the layer, too"):
                    ask(max_error=1, layer=0)
                with self.assertRaises(ValueError):
                    ask(layer=-1)
                with self.assertRaisesRegex(quarry.Error, "not a number from 0 on"):
                    ask(max_error=-1)


if __name__ == "__main__":
    unittest.main()
