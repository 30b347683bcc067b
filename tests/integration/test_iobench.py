"""quarry-iobench: five ways of writing an uneven load."""

import json

import numpy as np

import quarry_testing as qt

PIPELINES = ["fpp", "collective", "group-collective", "equal", "balanced"]

# Settings of ranks under a limit on file sizes: their own shared memory must not be files.
NO_SHARED_FILES = {
    "PMIX_MCA_gds": "hash",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
}


def sheet(shape):
    """Sizes of patches around a flame: much in a sheet across the domain, little elsewhere."""
    z, y, x = np.meshgrid(*[(np.arange(n) + 0.5) / n for n in shape[::-1]], indexing="ij")
    distance = (y - 0.3 - 0.2 * np.sin(6 * x) * z) / 0.15
    return {"shape": list(shape), "bytes": (500 + 20000 * np.exp(-(distance**2))).astype(int).ravel().tolist()}


def rough(shape):
    """Unrelated sizes, one far above the others."""
    sizes = qt.random_numbers("rough", shape).integers(1, 5000, np.prod(shape))
    sizes[0] = 100000
    return {"shape": list(shape), "bytes": sizes.tolist()}


class Iobench(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.folder = self.tmp / "out"
        self.folder.mkdir()
        self.report = self.tmp / "report.json"

    def command(self, ranks, *options):
        return qt.mpi_command(ranks, "quarry-iobench", "--dir", self.folder, "--repeat", 2, *options)

    def bench(self, ranks, *options):
        """The JSON object of a run; the run leaves no files."""
        outcome = qt.succeed(*self.command(ranks, "--json", *options))
        self.assertEqual(qt.snapshot(self.folder), {})
        return json.loads(outcome.out)

    def test_every_pipeline_writes_everything(self):
        self.report.write_text(json.dumps({"ratio": 3, "size_grid": sheet((4, 4, 4))}))
        for ranks in (0, 1, 3, 8):
            with self.subTest(ranks=ranks):
                result = self.bench(ranks, "--sizes", self.report, "--files", 4)
                count = max(ranks, 1)
                self.assertEqual((result["ranks"], result["units"]), (count, 8 * count))
                self.assertEqual(np.prod(result["process_grid"]), count)
                self.assertTrue(result["verified"])
                self.assertAlmostEqual(result["bytes_per_rank"]["mean"] * count, result["bytes"], delta=1)
                self.assertEqual([p["pipeline"] for p in result["pipelines"]], PIPELINES)
                self.assertEqual([p["files"] for p in result["pipelines"]], [count, 1, min(4, count), 4, 4])
                for p in result["pipelines"]:
                    self.assertAlmostEqual(p["bytes_per_file"]["mean"] * p["files"], result["bytes"], delta=1)
                    self.assertLessEqual(p["bytes_per_file"]["min"], p["bytes_per_file"]["mean"])
                    self.assertLessEqual(0, p["seconds"]["min"])
                    self.assertLessEqual(p["seconds"]["min"], p["seconds"]["median"])
                    self.assertLessEqual(p["seconds"]["median"], p["seconds"]["max"])
                    rate = result["bytes"] / 2**30 / p["seconds"]["median"]
                    self.assertAlmostEqual(p["gib_per_second"], rate, delta=1e-6 * rate)

    def test_balanced_is_never_worse_than_equal(self):
        uneven = 0
        for make in (sheet, rough):
            for shape in ((8, 8, 8), (3, 5, 2), (1, 1, 7)):
                self.report.write_text(json.dumps({"size_grid": make(shape)}))
                for ranks, files, units in ((1, 3, 27), (3, 2, 8), (8, 8, 4)):
                    with self.subTest(sizes=make.__name__, shape=shape, ranks=ranks):
                        result = self.bench(ranks, "--sizes", self.report, "--pipeline", "equal,balanced",
                                            "--files", files, "--units-per-rank", units)
                        equal, balanced = (p["bytes_per_file"]["max"] for p in result["pipelines"])
                        self.assertLessEqual(balanced, equal)
                        uneven += balanced < 0.9 * equal
        self.assertGreater(uneven, 5, "on such loads it should be much better")

    def test_sizes_of_a_real_conversion(self):
        """4x4x4 patches for 8 ranks of 2x2x2 units: every unit is a patch, and nothing is interpolated."""
        qt.convert(qt.uneven((64, 64, 64)), self.tmp / "u.quarry", "--relative", 1e-4, "--patch", 16,
                   "--report", self.report)
        sizes = json.loads(self.report.read_text())["size_grid"]
        self.assertEqual(sizes["shape"], [4, 4, 4])
        result = self.bench(8, "--sizes", self.report, "--pipeline", "equal,balanced", "--files", 4)
        self.assertEqual(result["bytes"], sum(sizes["bytes"]))
        equal, balanced = (p["bytes_per_file"]["max"] for p in result["pipelines"])
        self.assertLess(balanced, equal)

    def test_numbers_of_mebibytes_are_uniform(self):
        result = self.bench(3, "--sizes", "0.25", "--pipeline", "fpp")
        self.assertEqual(result["bytes"], 3 * 2**18)
        self.assertEqual(result["pipelines"][0]["bytes_per_file"]["max_over_mean"], 1)
        self.assertEqual(self.bench(1, "--sizes", "0.25", "--scale", 2, "--pipeline", "equal")["bytes"], 2**19)

    def test_table_and_kept_files(self):
        outcome = qt.succeed(*self.command(3, "--sizes", "0.125", "--files", 2, "--keep"))
        for name in PIPELINES:
            self.assertIn(f"\n{name} ", outcome.out)
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        self.assertEqual(len(files), 3 + 1 + 2 + 2 + 2)
        self.assertEqual(sum(path.stat().st_size for path in files), 5 * 3 * 2**17)

    def test_bad_usage(self):
        def check(code, *mentions, options, folder=self.folder):
            outcome = qt.run("quarry-iobench", "--dir", folder, "--repeat", 1, *options)
            self.assert_one_line(outcome, code, *mentions)
            self.assertEqual(qt.snapshot(self.folder), {})

        check(qt.USAGE, "sideways", options=["--pipeline", "sideways"])
        check(qt.USAGE, "--frobnicate", options=["--frobnicate"])
        check(qt.USAGE, "--sizes 0", options=["--sizes", "0"])
        check(qt.USAGE, "--files", options=["--files", "0"])
        check(qt.USAGE, "--ranks 2x2", options=["--ranks", "2x2"])
        check(qt.NOT_FOUND, "missing.json", options=["--sizes", self.tmp / "missing.json"])
        check(qt.NOT_FOUND, "nowhere", options=[], folder=self.tmp / "nowhere")
        check(qt.IO_ERROR, "/proc", options=[], folder="/proc")
        self.report.write_text('{"ratio": 2}')
        check(qt.USAGE, "report.json", "size_grid", options=["--sizes", self.report])
        self.assert_one_line(qt.run("quarry-iobench"), qt.USAGE, "--dir")

    def test_full_disk(self):
        """A limit on file sizes acts like a full disk. MPI-IO may hide the error; then the file size shows
        it."""
        limited = ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh"]
        for pipeline in PIPELINES:
            with self.subTest(pipeline=pipeline):
                program = self.command(0, "--sizes", 2, "--pipeline", pipeline, "--no-verify")
                outcome = qt.run("mpirun", "-n", 3, *limited, *program, env=NO_SHARED_FILES)
                self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
                self.assertEqual(len(outcome.lines_of("quarry-iobench")), 1, outcome)
                self.assertEqual(qt.snapshot(self.folder), {})


if __name__ == "__main__":
    qt.main()
