"""The examples of examples/python, on small data: what they print and write is what numpy computes. Each finds nothing
but what it says that it needs."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from bare_environment import bare_environment
from python_testing import ROOT, SHAPE, STEPS, Package, np, qt

FOLDER = ROOT / "examples" / "python"
BOX = ((2, 20), (5, 30), (0, 45))
INSIDE = (slice(None), *(slice(*axis) for axis in BOX))


def index():
    """{heading: {example: what it needs}}, as the page of the folder lists them."""
    _, *sections = re.split(r"^## (.*)$", (FOLDER / "README.md").read_text(), flags=re.M)
    return {heading: dict(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \| .+ \| `(.+)` \|$", text, re.M))
            for heading, text in zip(sections[::2], sections[1::2], strict=True)}


JOBS, PROGRAMS = index().values()


class Examples(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environments = {}
        for name, needed in (JOBS | PROGRAMS).items():
            path = bare_environment(cls.shared / name, needed.split())
            cls.environments[name] = qt.ENVIRONMENT | {"PYTHONPATH": path, "MPLBACKEND": "agg"}

    def start(self, name, *arguments):
        return subprocess.Popen([sys.executable, FOLDER / f"{name}.py", *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environments[name])

    def example(self, name, *arguments, code=0):
        """The output of an example; of one that fails, its message."""
        with self.start(name, *arguments) as process:
            out, err = process.communicate(timeout=qt.TIMEOUT)
        self.assertEqual(process.returncode, code, f"{name}: {err}")
        return out if code == 0 else err

    def pair(self, out, question):
        """Both answers to a question."""
        return re.search(rf"^{re.escape(question)}: (.*) and (.*)$", out, re.M).groups()

    def assert_close(self, text, number, rtol=1e-4):
        np.testing.assert_allclose(float(text), number, rtol=rtol)

    def test_the_index(self):
        """It names every example with what its text says that it needs, and the pages before it lead to it."""
        self.assertEqual(len(JOBS), 10)
        self.assertEqual(sorted(JOBS | PROGRAMS), sorted(path.stem for path in FOLDER.glob("*.py")))
        for name, needed in (JOBS | PROGRAMS).items():
            self.assertRegex((FOLDER / f"{name}.py").read_text(),
                             rf"(?m)^(# )?Needs: `?pip install {re.escape(needed)}`?$")
        links = {"README.md": "examples/python/README.md", "docs/python.md": "../examples/python/README.md"}
        for page, link in links.items():
            self.assertTrue(f"]({link})" in (ROOT / page).read_text(), f"{page} does not lead to {link}")

    def test_every_program_has_help_and_a_test(self):
        for name in PROGRAMS:
            with self.subTest(example=name):
                self.assertTrue(hasattr(self, f"test_example_{name}"))
                self.assertIn(f"Example:\n  {name}.py ", self.example(name, "--help"))

    def test_every_job_runs(self):
        """It compares what it reads with what it wrote, and leaves nothing in its folder or another one."""
        def run(name):
            here, scratch = self.tmp / f"{name}-here", self.tmp / f"{name}-scratch"
            here.mkdir()
            scratch.mkdir()
            done = subprocess.run([sys.executable, FOLDER / f"{name}.py"], capture_output=True, text=True, cwd=here,
                                  env=self.environments[name] | {"TMPDIR": str(scratch)}, timeout=qt.TIMEOUT)
            return name, done, [*here.iterdir(), *scratch.iterdir()]

        with ThreadPoolExecutor(2) as pool:
            for name, done, left in pool.map(run, JOBS):
                with self.subTest(example=name):
                    self.assertEqual((done.returncode, left), (0, []), done.stderr)
                    self.assertNotIn("Warning", done.stderr)
                    self.assertGreater(len(done.stdout.splitlines()), 2)

    def test_the_notebook_has_cells(self):
        """Each is whole statements: a notebook runs one after the other."""
        kinds = re.split(r"^# %%(.*)$", (FOLDER / "coarse_to_fine.py").read_text(), flags=re.M)[1:]
        cells = {"": [], " [markdown]": []}
        for kind, text in zip(kinds[::2], kinds[1::2], strict=True):
            cells[kind].append(text.strip())
        for code in cells[""]:
            compile(code, "coarse_to_fine.py", "exec")
        self.assertGreater(min(map(len, cells.values())), 5)
        for text in cells[" [markdown]"]:
            self.assertEqual([line for line in text.splitlines() if not line.startswith("#")], [])

    def test_example_extract_region(self):
        import netCDF4
        output, region = self.tmp / "region.nc", ",".join(f"{first}:{last}" for first, last in BOX)

        def extract(*options, **expected):
            return self.example("extract_region", self.server.target(self.path), output, "--field", "p",
                                "--box", region, *options, **expected)

        self.assertIn("2 steps added to 0", extract("--last", STEPS[1]))
        self.assertIn("1 steps added to 2", extract())
        with netCDF4.Dataset(output) as file:
            self.assertEqual(file["step"][:].tolist(), list(STEPS))
            np.testing.assert_array_equal(file["p"][:], self.decoded["p"][INSIDE])
            np.testing.assert_array_equal(file["y"][:], np.arange(5, 30))
            self.assertEqual(file["p"].tolerance, 1e-3)
        # A run that was ended while it wrote its last step, and has read the others: it reads that one again, only.
        with netCDF4.Dataset(output, "a") as file:
            file["p"][0, 0, 0, 0] = 77
            file["p"][2] = 0
            file["step"][2] = np.ma.masked
        self.assertIn("1 steps added to 2", extract())
        self.assertIn("0 steps added to 3", extract())
        with netCDF4.Dataset(output) as file:
            wanted = self.decoded["p"][INSIDE].copy()
            wanted[0, 0, 0, 0] = 77
            np.testing.assert_array_equal(file["p"][:], wanted)
        self.assertIn("remove it, or ask for the same", extract("--level", 1, code=1))
        whole = self.tmp / "whole.nc"
        self.example("extract_region", self.path, whole, "--field", "k", "--first", 5, "--level", 2)
        with netCDF4.Dataset(whole) as file:
            self.assertEqual((file["k"].shape, file["k"]._FillValue), ((2, 6, 9, 12), -999))
            self.assertEqual(np.ma.count_masked(file["k"][:]), np.count_nonzero(
                self.decoded["k"][1:, ::4, ::4, ::4] == -999))

    def test_example_from_h5py(self):
        import h5py
        with h5py.File(self.tmp / "run.h5", "w") as file:
            file.create_dataset("p", data=self.decoded["p"], chunks=(1, 8, 8, 8))
        out = self.example("from_h5py", self.tmp / "run.h5", self.path, "--field", "p")
        p = self.decoded["p"]
        self.assertEqual(self.pair(out, "shape"), (str(p.shape),) * 2)
        for question, wanted in (("mean of a slab", p[-1, 2:6, :, ::2].mean()), ("a sample", p[0, 1, 2, 3]),
                                 ("mean of a line over all steps", p[:, 0, 0].mean())):
            for answer in self.pair(out, question):
                self.assert_close(answer, wanted)
        self.assertIn("a fourth of the resolution: (6, 9, 12)", out)
        mean = float(re.search(r"mean of everything.*: (.*)", out)[1])
        np.testing.assert_allclose(mean, p[0].mean(), atol=2e-3)
        self.assertIn("largest difference in the first step: 0, tolerance 0.001", out)

    def test_example_from_zarr(self):
        import xarray as xr
        xr.Dataset({"p": (("step", "z", "y", "x"), self.decoded["p"])}, {
            "step": list(STEPS), "x": np.arange(45.0)}).to_zarr(self.tmp / "run.zarr")
        out = self.example("from_zarr", self.tmp / "run.zarr", self.path, "--field", "p")
        p = self.decoded["p"]
        for question, wanted in (("mean of a slab", p[-1, 2:6, :, ::2].mean()), ("a sample", p[0, 1, 2, 3]),
                                 ("mean of a plane by its position", p[0, :, :, 22].mean()),
                                 ("mean of all steps by dask", p.mean(dtype="f8"))):
            for answer in self.pair(out, question):
                np.testing.assert_allclose(float(answer), wanted, atol=1e-6)
        self.assertEqual(self.pair(out, "steps"), ("[3, 5, 9]",) * 2)
        self.assertEqual(re.findall(r"^group /(\d): (\S+ \S+ \S+ \S+), every", out, re.M)[1], ("1", "(3, 12, 17, 23)"))

    def test_example_from_openvisus(self):
        out = self.example("from_openvisus", self.server.target(self.path), "--field", "p", "--idx", "none.idx")
        p = self.decoded["p"][0]
        self.assertIn(f"shape, z y x: {SHAPE}", out)
        for line in ("mean of a corner", "the same"):
            self.assert_close(re.search(rf"^{line}: (.*)$", out, re.M)[1], p[:8, :8, :8].mean())
        self.assertIn("coarse: (6, 9, 12)", out)
        levels = re.findall(r"^level (\d): .*, mean (\S+)$", out, re.M)
        self.assertEqual([level for level, _ in levels], ["2", "1", "0"])
        self.assert_close(levels[-1][1], p.mean(), rtol=1e-3)

    def test_example_follow_simulation(self):
        path = self.data / "growing.quarry"
        originals = {step: qt.turbulent((20, 18, 16), name=f"follow{step}") for step in (4, 6, 7)}

        def publish(step, *options):
            originals[step].tofile(self.tmp / "f.raw")
            qt.succeed("quarry-write-single", self.tmp / "f.raw", "--dims", "20x18x16", "--type", "float32", "--field", "f",
                       "--step", step, "--time", step / 2, "--output", path, *options)

        publish(4, "--tolerance", "1e-4")
        with self.start("follow_simulation", self.server.target(path), "--field", "f", "--last", 7) as process:
            for step in (4, 6, 7):
                if step != 4:
                    publish(step, "--append")  # the line for the step before is there
                line = process.stdout.readline()
                said = re.fullmatch(r"step (\d+) time (\S+) mean (\S+) in \[(\S+), (\S+)\] largest (\S+) at level 2\n", line)
                self.assertTrue(said, line)
                number, time, mean, low, high, largest = map(float, said.groups())
                original = originals[step].reshape(16, 18, 20)
                self.assertEqual((number, time), (step, step / 2))
                self.assertTrue(low - 1e-6 <= original.mean() <= high + 1e-6 and low <= mean <= high, line)
                np.testing.assert_allclose(largest, original[::4, ::4, ::4].max(), atol=1e-3)
            out, err = process.communicate(timeout=qt.TIMEOUT)
        self.assertEqual((process.returncode, out), (0, ""), err)

    def test_example_dask_series(self):
        output = self.tmp / "series.npz"
        out = self.example("dask_series", self.server.target(self.path), "--field", "p", "--output", output)
        p = self.decoded["p"].astype("f8")
        results = np.load(output)
        np.testing.assert_allclose([results["mean"], results["std"]], [p.mean(), p.std()], rtol=1e-6)
        bin_ = (p.max() - p.min() + 4e-3) / 4096
        np.testing.assert_allclose(results["percentiles"], np.percentile(p, (1, 5, 25, 50, 75, 95, 99)), atol=2 * bin_)
        # Parseval's theorem, and a wave number by the sum over its samples.
        np.testing.assert_allclose(results["spectrum"].sum(), p.var(axis=(1, 2, 3)).mean(), rtol=1e-6)
        waves = np.stack(np.meshgrid(*(np.fft.fftfreq(length, 1 / 45) for length in SHAPE), indexing="ij"))
        third = np.rint(np.linalg.norm(waves, axis=0)) == 3
        power = np.mean([(np.abs(np.fft.fftn(step))**2 / step.size**2)[third].sum() for step in p])
        np.testing.assert_allclose(results["spectrum"][3], power, rtol=1e-6)
        self.assertIn("3 steps at level 0", out)


if __name__ == "__main__":
    qt.main()
