"""quarry-spectrum: the same spectra as numpy's, on any number of ranks."""

import json
import resource

import numpy as np

import quarry_testing as qt

RANKS = (0, 3, 8)


def spectrum_of(*components):
    """Half the sum of |u(K)|^2 over all wave vectors K with |K| rounded to k; arrays are [z, y, x]."""
    energy = 0
    for u in components:
        transform = np.abs(np.fft.fftn(u.astype(np.float64)) / u.size) ** 2
        waves = np.meshgrid(*[np.fft.fftfreq(n, 1 / n) for n in u.shape], indexing="ij", sparse=True)
        k = np.rint(np.sqrt(sum(w**2 for w in waves))).astype(int)
        energy = energy + 0.5 * np.bincount(k.ravel(), transform.ravel())
    return energy


def kolmogorov(n, seed):
    """A real n^3 field whose spectrum is k^(-5/3) for 1 <= k <= n / 2, and 0 otherwise."""
    transform = np.fft.fftn(np.random.default_rng(seed).standard_normal((n, n, n)))
    waves = np.fft.fftfreq(n, 1 / n)
    k = np.rint(np.sqrt(waves[:, None, None] ** 2 + waves[None, :, None] ** 2 + waves[None, None, :] ** 2)).astype(int)
    energy = 0.5 * np.bincount(k.ravel(), (np.abs(transform / n**3) ** 2).ravel())
    wanted = np.zeros_like(energy)
    wanted[1 : n // 2 + 1] = np.arange(1, n // 2 + 1) ** (-5 / 3)
    return np.fft.ifftn(transform * np.sqrt(wanted / energy)[k]).real, wanted


class SpectrumTest(qt.QuarryTest):
    def spectrum(self, dataset, *options, ranks=0):
        outcome = qt.succeed(*qt.mpi_command(ranks, "quarry-spectrum", dataset, *options, "--json"))
        return json.loads(outcome.out)

    def assert_same(self, answer, expected, tolerance=1e-12):
        self.assertEqual(answer["k"], list(range(len(expected))))
        np.testing.assert_allclose(answer["energy"], expected, rtol=tolerance, atol=tolerance * expected.max())


class Energies(SpectrumTest):
    def test_turbulence(self):
        """The numbers were computed once by numpy from the file, and are written here by hand."""
        field = np.fromfile(qt.shared_data("wmag91.f32"), "<f4").reshape(91, 91, 91)
        qt.convert(field, self.tmp / "wmag.quarry", "--lossless")
        for ranks in RANKS:
            answer = self.spectrum(self.tmp / "wmag.quarry", "--field", "f", ranks=ranks)
            self.assert_same(answer, spectrum_of(field))
            np.testing.assert_allclose(answer["energy"][:4], [208.9747409, 12.53619087, 11.1601859, 8.28528052],
                                       rtol=1e-9)
            self.assertAlmostEqual(sum(answer["energy"]), 344.6701781, places=6)
            self.assertEqual(answer["last_whole_shell"], 45)

    def test_inertial_range(self):
        field, wanted = kolmogorov(48, qt.SEED)
        qt.convert(field, self.tmp / "k53.quarry", "--lossless", "--patch", 16)
        for ranks in RANKS:
            self.assert_same(self.spectrum(self.tmp / "k53.quarry", "--field", "f", ranks=ranks), wanted)
        for grid in ("2x4", "8x1"):
            answer = self.spectrum(self.tmp / "k53.quarry", "--field", "f", "--grid", grid, ranks=8)
            self.assertEqual(answer["ranks"], [int(n) for n in grid.split("x")])
            self.assert_same(answer, wanted)

    def test_shapes_and_types(self):
        random = qt.random_numbers("spectrum")
        for shape, dtype in (((5, 40, 33), "<i2"), ((1, 70, 21), "<u1"), ((1, 1, 100), "<f8"), ((66, 1, 7), "<f4"),
                             ((1, 1, 1), "<i4")):
            field = (random.standard_normal(shape) * 50 + 100).astype(dtype)
            dataset = self.tmp / f"{field.ndim}-{'-'.join(map(str, shape))}.quarry"
            qt.convert(field, dataset, "--lossless", "--patch", 16)
            for ranks in (0, 5):
                with self.subTest(shape=shape, dtype=dtype, ranks=ranks):
                    self.assert_same(self.spectrum(dataset, "--field", "f", ranks=ranks), spectrum_of(field))

    def test_vector(self):
        random = qt.random_numbers("vector")
        components = [random.standard_normal((20, 30, 17)).astype("<f4") for _ in range(3)]
        for i, (name, field) in enumerate(zip("uvw", components, strict=True)):
            qt.convert(field, self.tmp / "flow.quarry", "--field", name, "--lossless", *(["--append"] if i else []))
        self.assert_same(self.spectrum(self.tmp / "flow.quarry", "--vector", "u,v,w", ranks=3),
                         spectrum_of(*components))
        self.assert_same(self.spectrum(self.tmp / "flow.quarry", "--vector", "w", ranks=2), spectrum_of(components[2]))

    def test_levels_and_errors(self):
        """A coarser level is that of `quarry get`, asked for by its number and by its error."""
        field = qt.smooth((45, 50, 39))
        dataset = self.tmp / "smooth.quarry"
        qt.convert(field, dataset, "--tolerance", "1e-3", "--patch", 16)
        info = json.loads(qt.succeed("quarry", "info", dataset, "--json").out)
        for level in range(info["levels"]):
            out = self.tmp / "level.npy"
            got = json.loads(qt.succeed("quarry", "get", dataset, "--field", "f", "--level", level, "--output", out,
                                        "--json").out)
            expected = spectrum_of(np.load(out))
            for options in (("--level", level), ("--max-error", got["max_error"])):
                answer = self.spectrum(dataset, "--field", "f", *options, ranks=3)
                self.assertEqual((answer["level"], answer["max_error"]), (level, got["max_error"]))
                self.assertEqual(answer["dims"], got["shape"])
                self.assert_same(answer, expected)

    def test_layers(self):
        """A layer is that of `quarry get`, and an error is kept by the layer with the fewest bytes."""
        field = qt.turbulent((45, 50, 39), name="spectrum of layers").reshape(39, 50, 45)
        dataset = self.tmp / "layers.quarry"
        qt.convert(field, dataset, "--relative-layers", "1e-2,1e-4,exact", "--patch", 16)
        levels = qt.step_manifest(dataset)["fields"][0]
        errors = [layer["levels"][0]["max_error"] for layer in levels["rougher"]] + [levels["levels"][0]["max_error"]]
        for layer, error in enumerate(errors):
            out = self.tmp / "layer.npy"
            qt.succeed("quarry", "get", dataset, "--field", "f", "--layer", layer, "--output", out)
            expected = spectrum_of(np.load(out))
            for options in (("--layer", layer), ("--max-error", error)):
                answer = self.spectrum(dataset, "--field", "f", *options, ranks=2)
                self.assertEqual((answer["level"], answer["layers"], answer["max_error"]), (0, [layer], error))
                self.assert_same(answer, expected)
        self.assert_one_line(qt.run("quarry-spectrum", dataset, "--field", "f", "--layer", 3), qt.USAGE, "no layer 3")

    def test_components_of_two_sizes(self):
        dataset = self.tmp / "sizes.quarry"
        qt.convert(qt.smooth((20, 21, 22)), dataset, "--lossless", "--field", "u")
        qt.convert(qt.smooth((19, 21, 22)), dataset, "--lossless", "--field", "v", "--append")
        self.assert_one_line(qt.run("quarry-spectrum", dataset, "--vector", "u,v"), qt.USAGE, "19x21x22")

    def test_steps(self):
        first, second = qt.smooth((20, 21, 22)), qt.smooth((20, 21, 22)) + 1
        dataset = self.tmp / "steps.quarry"
        qt.convert(first, dataset, "--lossless", "--step", 3)
        qt.convert(second, dataset, "--lossless", "--step", 7, "--append")
        self.assertEqual(self.spectrum(dataset, "--field", "f")["step"], 3)
        answer = self.spectrum(dataset, "--field", "f", "--step", 7)
        self.assertEqual(answer["step"], 7)
        self.assert_same(answer, spectrum_of(second))

    def test_table(self):
        wave = np.cos(2 * np.pi * 3 * np.arange(16) / 16)[None, None, :] * np.ones((12, 10, 1))
        qt.convert(wave, self.tmp / "wave.quarry", "--lossless")
        lines = qt.succeed("quarry-spectrum", self.tmp / "wave.quarry", "--field", "f").out.splitlines()
        # By hand: the mean of cos^2 is 1/2, and half of that is energy.
        self.assertEqual([line.split() for line in lines if line.split()[0] == "3"], [["3", "0.25"]])
        self.assertIn("from k = 5 on", "\n".join(lines))  # 10 samples have waves -4 to 5


class Memory(SpectrumTest):
    def test_field_larger_than_a_rank(self):
        """64 MiB of samples are 135 MB in double precision, twice: each of 8 ranks has an eighth, and what it
        reads at a time."""
        n = qt.scaled(256, 400)
        field = qt.make_field((n, n, n), "<f4", name="turbulent")
        qt.convert(field, self.tmp / "large.quarry", "--relative", "1e-2")
        # Into files of their own: lines of several ranks may be mixed on the way through mpirun.
        wrapper = ("import os, pathlib, resource, subprocess, sys; code = subprocess.call(sys.argv[2:]);"
                   "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024;"
                   "pathlib.Path(sys.argv[1], f'peak.{os.getpid()}').write_text(str(peak)); sys.exit(code)")
        qt.succeed(*qt.mpi_command(8, "python3", "-c", wrapper, self.tmp, qt.executable("quarry-spectrum"),
                                   self.tmp / "large.quarry", "--field", "f", "--json"))
        peaks = [int(path.read_text()) for path in self.tmp.glob("peak.*")]
        self.assertEqual(len(peaks), 8)
        whole = 2 * 16 * (n // 2 + 1) * n * n
        # A read of 4 Mi samples, the patches that are kept, and what any MPI program has.
        beside = 96 << 20
        self.assertLess(max(peaks), whole / 8 + beside)


class Trouble(SpectrumTest):
    def assert_refused(self, code, mention, *arguments, ranks=3):
        outcome = qt.run(*qt.mpi_command(ranks, "quarry-spectrum", *arguments))
        self.assertEqual(outcome.code, code, outcome)
        lines = outcome.lines_of("quarry-spectrum")
        self.assertEqual(len(lines), 1, outcome)
        self.assertIn(mention, lines[0])
        self.assertEqual(outcome.out, "")

    def test_wrong_questions(self):
        dataset = self.tmp / "f.quarry"
        qt.convert(qt.smooth((20, 20, 20)), dataset, "--lossless", "--patch", 16)
        for ranks in (0, 3):
            for code, mention, *options in (
                (qt.NOT_FOUND, "nothing", "--field", "nothing"),
                (qt.NOT_FOUND, "step 5", "--field", "f", "--step", "5"),
                (qt.USAGE, "level", "--field", "f", "--level", "9"),
                (qt.USAGE, "--field or --vector"),
                (qt.USAGE, "twice", "--vector", "f,f"),
                (qt.USAGE, "--vector", "--vector", "f", "--field", "f"),
                (qt.USAGE, "--grid 2x7", "--field", "f", "--grid", "2x7"),
            ):
                with self.subTest(options=options, ranks=ranks):
                    self.assert_refused(code, mention, dataset, *options, ranks=ranks)
        self.assert_refused(qt.NOT_FOUND, "none.quarry", self.tmp / "none.quarry", "--field", "f")
        self.assert_refused(qt.USAGE, "directories", "grpc://127.0.0.1:1/f", "--field", "f")

    def test_missing_samples(self):
        field = qt.smooth((20, 20, 20))
        field[3, 4, 5] = np.nan
        qt.convert(field, self.tmp / "holes.quarry", "--lossless")
        self.assert_refused(qt.USAGE, "1 of 8000 samples", self.tmp / "holes.quarry", "--field", "f")

    def test_damage_on_one_rank(self):
        """Only the ranks that read the damaged patch notice; all end with one message."""
        dataset = self.tmp / "damaged.quarry"
        qt.convert(qt.smooth((48, 48, 48)), dataset, "--lossless", "--patch", 16, "--files", 1)
        path = next(dataset.rglob("*.qsf"))
        content = bytearray(path.read_bytes())
        content[200] ^= 1
        path.write_bytes(content)
        self.assert_refused(qt.DAMAGED, "checksum", dataset, "--field", "f", ranks=4)


if __name__ == "__main__":
    qt.main()
