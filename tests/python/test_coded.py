"""Coded answers of a server: the samples of the directory, or within the error that the answer states, for fewer bytes."""

import asyncio

from python_testing import np, qt, quarry

import xarray  # noqa: E402
from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402

SHAPE = (2, 40, 72, 96)
"""[step, z, y, x]: several patches and tiles along each axis."""
PLANE = ((17, 18), (0, 72), (0, 96))
RELATIVE = 1e-4

QUESTIONS = {
    "whole": {},
    "plane": {"box": PLANE},
    "plane across x": {"box": ((0, 40), (0, 72), (50, 51))},
    "box": {"box": ((3, 30), (10, 61), (7, 90))},
    "sample": {"box": ((1, 2), (2, 3), (3, 4))},
    "level": {"level": 2},
    "stride": {"stride": (2, 3, 5)},
}
RECODES = ("1.5x", "2x", 0.01, np.float32(0.25), 1)
"""A factor, or an error."""


class Coded(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.shared / "data"
        folder.mkdir()
        x, y, z = SHAPE[:0:-1]
        turbulent = np.stack([qt.turbulent((x, y, z), name=f"coded {step}").reshape(z, y, x) for step in range(SHAPE[0])])
        ocean = turbulent.copy()
        ocean[:, :9, 5:30, 7:40] = np.nan
        counts = np.rint(turbulent * 100).astype("i2")
        counts[:, 3:20, 60:, :] = -999
        cls.originals = {"t": turbulent, "ocean": ocean, "counts": counts, "exact": turbulent.astype("f8")}
        cls.path = folder / "run.quarry"
        quarry.write(cls.path, {"t": turbulent, "ocean": ocean}, relative=RELATIVE, patch=16)
        quarry.write(cls.path, {"counts": counts}, tolerance=3, fill=-999, patch=16, mode="append")
        quarry.write(cls.path, {"exact": cls.originals["exact"]}, lossless=True, patch=16, mode="append")
        cls.server = cls.enterClassContext(qt.Server(folder, "--metrics", "127.0.0.1:0"))
        cls.target = cls.server.target(cls.path)
        cls.stored = cls.enterClassContext(quarry.open(cls.path))
        cls.served = cls.enterClassContext(quarry.open(cls.target))

    def sent(self, ask):
        """Bytes that the server sends for a question."""
        before = self.server.metrics()["quarry_sent_bytes_total"]
        ask()
        return self.server.metrics()["quarry_sent_bytes_total"] - before

    def tiles(self):
        return self.server.metrics()["quarry_coded_tiles_total"]

    def original(self, name, samples):
        """The original samples of an answer: of each sample, that at its place."""
        places = tuple(slice(first * step, (last - 1) * step + 1, step)
                       for (first, last), step in zip(samples.box, samples.spacing))
        return self.originals[name][samples.step][places]

    def assert_within(self, name, samples):
        """Valid samples are within the stated error of the original, and missing ones are missing."""
        original = np.ma.masked_invalid(np.ma.masked_equal(self.original(name, samples), -999))
        array = np.ma.masked_invalid(np.ma.asarray(samples.array))
        np.testing.assert_array_equal(np.ma.getmaskarray(array), np.ma.getmaskarray(original))
        error = np.abs(array.astype("f8") - original.astype("f8")).max()
        self.assertLessEqual(0 if error is np.ma.masked else error, samples.max_error)

    # ---- Without an error

    def test_every_encoding_gives_the_samples_of_the_directory(self):
        for name, field in self.stored.items():
            for what, question in QUESTIONS.items():
                stored = field.read(step=1, **question)
                for encoding in ("auto", "samples", "patches", "coded"):
                    with self.subTest(field=name, question=what, encoding=encoding):
                        read = self.served[name].read(step=1, encoding=encoding, **question)
                        np.testing.assert_array_equal(read.array, stored.array)
                        self.assertEqual((read.array.dtype, read.max_error), (stored.array.dtype, stored.max_error))

    def test_every_way_of_reading_takes_an_encoding(self):
        for name, field in self.served.items():
            with self.subTest(name):
                stored = self.stored[name]
                plane = ((24, 25), (0, 72), (0, 96))
                before = self.tiles()
                series = field.read(steps="all", box=plane, encoding="coded")
                np.testing.assert_array_equal(series.array, stored.read(steps="all", box=plane).array)
                self.assertEqual(self.tiles(), before + 2, "one for each step")
                awaited = asyncio.run(field.aread(box=plane, level=1, encoding="coded"))
                np.testing.assert_array_equal(awaited.array, stored.read(box=plane, level=1).array)
                self.assertEqual(self.tiles(), before + 3)
                levels = zip(field.stream(step=0, encoding="coded"), stored.stream(step=0), strict=True)
                for streamed, expected in levels:
                    np.testing.assert_array_equal(streamed.array, expected.array)
                self.assertGreater(self.tiles(), before + 3)
                shown = field.read(step=1, progress=True, encoding="coded")
                np.testing.assert_array_equal(shown.array, stored.read(step=1).array)

    def test_a_dataset_that_is_opened_with_it_reads_so(self):
        expected = self.stored["ocean"][1, 20]
        with quarry.open(self.target, encoding="coded") as coded:
            before = self.tiles()
            np.testing.assert_array_equal(coded["ocean"][1, 20], expected)
            self.assertEqual(self.tiles(), before + 1)
            coded["ocean"].read(step=1, box=((20, 21), (0, 72), (0, 96)), encoding="samples")
            coded["ocean"].read(step=1, box=((20, 21), (0, 72), (0, 96)))
            self.assertEqual(self.tiles(), before + 1, "what many ask for is coded once")
            self.assert_within("ocean", coded["ocean"].read(step=1, box=PLANE, recode="2x"))
            self.assertEqual(self.tiles(), before + 2)
        with xarray.open_dataset(self.target, engine=QuarryBackendEntrypoint, encoding="coded", chunks={}) as opened:
            before = self.tiles()
            plane = opened["ocean"].isel(step=0, z=33)
            np.testing.assert_array_equal(plane.compute(), self.stored["ocean"][0, 33])
            self.assertGreater(self.tiles(), before)

    # ---- Within an error

    def test_recoded_samples_keep_the_error_that_they_state(self):
        for name in self.originals:
            for what, question in QUESTIONS.items():
                stored = self.stored[name].read(step=1, **question)
                for recode in RECODES:
                    with self.subTest(field=name, question=what, recode=recode):
                        read = self.served[name].read(step=1, encoding="coded", recode=recode, **question)
                        self.assert_within(name, read)
                        most = (float(recode[:-1]) * stored.max_error if isinstance(recode, str)
                                else stored.max_error + float(recode))
                        self.assertLessEqual(read.max_error, most * (1 + 1e-12))
                        self.assertGreaterEqual(read.max_error, stored.max_error)
                        if name == "exact" and isinstance(recode, str):
                            np.testing.assert_array_equal(read.array, stored.array)

    def test_every_way_of_reading_states_it(self):
        field, stored = self.served["ocean"], self.stored["ocean"].read().max_error
        how = {"encoding": "coded", "recode": "2x"}
        *_, streamed = field.stream(step=1, **how)
        answers = [field.read(step=1, **how), streamed, asyncio.run(field.aread(step=1, **how)),
                   field.read(step=1, progress=True, **how), *field.read(steps=[1, 0], **how).samples]
        for answer in answers:
            self.assert_within("ocean", answer)
            self.assertGreater(answer.max_error, 1.5 * stored)
        self.assertEqual(answers[0].to_xarray().attrs["max_error"], answers[0].max_error)
        np.testing.assert_array_equal(answers[1].array, answers[0].array)

    def test_max_error_is_kept_by_both_steps_together(self):
        stored = self.stored["t"].read(step=1)
        for factor in (1.5, 4, 20):
            error = factor * stored.max_error
            read = self.served["t"].read(step=1, max_error=error, encoding="coded")
            expected = self.stored["t"].read(step=1, max_error=error)
            self.assertEqual((read.level, read.shape), (expected.level, expected.shape))
            self.assertLessEqual(read.max_error, error)
            self.assertGreater(read.max_error, expected.max_error)
            self.assert_within("t", read)

    # ---- What it costs

    def test_a_plane_costs_a_part_of_its_samples(self):
        field = self.served["t"]
        plane = ((21, 22), (0, 72), (0, 96))
        samples = 72 * 96 * 4
        cost = {how: self.sent(lambda how=how: field.read(step=0, box=plane, encoding=how[0], recode=how[1]))
                for how in (("samples", None), ("patches", None), ("coded", None), ("coded", "2x"))}
        self.assertGreater(cost["samples", None], samples)
        self.assertLess(cost["samples", None], samples + 4096)
        self.assertLess(cost["coded", None], samples)
        estimated = field.plan(step=0, box=plane).price.coded_bytes
        self.assertTrue(estimated / 2 < cost["coded", None] < 2 * estimated, (estimated, cost))
        self.assertLess(3 * cost["coded", "2x"], samples)
        self.assertLess(10 * cost["coded", "2x"], cost["patches", None])

    # ---- What is refused

    def test_what_does_not_fit_is_refused_alike(self):
        impossible = (
            (ValueError, 'encoding= "zip" is none of auto, samples, patches and coded', {"encoding": "zip"}),
            (ValueError, 'recode is for encoding="coded"; give both', {"recode": "2x"}),
            (ValueError, 'recode is for encoding="coded"; give both', {"encoding": "samples", "recode": 0.1}),
            (ValueError, '"much" is neither a factor from 1x on', {"encoding": "coded", "recode": "much"}),
            (ValueError, '"0.5x" is neither', {"encoding": "coded", "recode": "0.5x"}),
            (ValueError, '"-1.*" is neither', {"encoding": "coded", "recode": -1}),
            (ValueError, '"nan" is neither', {"encoding": "coded", "recode": float("nan")}),
            (ValueError, "largest error is for stored samples and coding", {"encoding": "coded", "recode": "2x", "max_error": 1}),
            (TypeError, r"recode=\[1\] is not possible; give a number, or a factor as a text", {"encoding": "coded", "recode": [1]}),
            (TypeError, "encoding=3 is not possible; give a text", {"encoding": 3}),
        )
        for dataset in (self.stored, self.served):
            for error, text, how in impossible:
                for ask in (lambda how: dataset["t"].read(box=PLANE, **how), lambda how: [*dataset["t"].stream(**how)],
                            lambda how: dataset["t"].read(progress=True, **how)):
                    with self.subTest(dataset=dataset.target, how=how), self.assertRaisesRegex(error, text):
                        ask(how)

    def test_a_directory_has_its_samples(self):
        for how in ({"encoding": "patches"}, {"encoding": "coded", "recode": "10x"}):
            read = self.stored["t"].read(box=PLANE, **how)
            np.testing.assert_array_equal(read.array, self.stored["t"].read(box=PLANE).array)
            self.assertEqual(read.max_error, self.stored["t"].read(box=PLANE).max_error)


if __name__ == "__main__":
    qt.main()
