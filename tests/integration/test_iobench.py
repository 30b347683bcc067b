"""quarry-iobench: five ways of writing an uneven load, and the exchange study."""

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
        check(qt.USAGE, "--dims", options=["--exchange"])
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


class Exchange(qt.QuarryTest):
    def study(self, ranks, *options):
        command = qt.mpi_command(ranks, "quarry-iobench", "--exchange", "--repeat", 2, "--json", *options)
        return json.loads(qt.succeed(*command).out)

    def test_traffic_by_hand(self):
        """3 samples-wide shares of 12 samples on 4 ranks, 3 patches of 4: patch 0 has 3 samples of rank 0 and 1
        of rank 1, patch 1 two of ranks 1 and 2 each, patch 2 one of rank 2 and 3 of rank 3. Greedy leaves the
        largest parts, of equals that of the lowest rank: 1 + 2 + 1 samples move in three messages."""
        result = self.study(4, "--dims", "12x1x1", "--ranks", "4x1x1", "--patch", "4", "--type", "int16")
        self.assertEqual(result["process_grid"], [4, 1, 1])
        greedy = [row for row in result["exchanges"] if row["placement"] == "greedy"]
        self.assertEqual([row["exchange"] for row in greedy], ["patch", "8", "rank", "packed"])
        for row in greedy:
            self.assertEqual((row["patch"], row["bytes_moved"], row["messages"]), ([4, 4, 4], 2 * 4, 3))

    def test_every_combination(self):
        result = self.study(5, "--dims", "44x36x20", "--patch", "8,16x8x8", "--batch", 3)
        rows = {(tuple(r["patch"]), r["placement"], r["exchange"]): r for r in result["exchanges"]}
        self.assertEqual(len(rows), 2 * 2 * 4)
        for patch in ((8, 8, 8), (16, 8, 8)):
            patches = np.prod([-(-n // p) for n, p in zip((44, 36, 20), patch)])
            for exchange in ("patch", "3", "rank"):
                balanced, greedy = (rows[patch, placement, exchange] for placement in ("balanced", "greedy"))
                self.assertLessEqual(greedy["bytes_moved"], balanced["bytes_moved"])
                self.assertEqual(balanced["patches_per_rank"]["min"], patches // 5)
                self.assertEqual(balanced["patches_per_rank"]["max"], -(-patches // 5))
            for placement in ("balanced", "greedy"):
                per_patch, batched, per_rank = (rows[patch, placement, exchange]["messages"]
                                                for exchange in ("patch", "3", "rank"))
                self.assertGreater(per_patch, batched)
                self.assertGreaterEqual(batched, max(per_rank, per_patch / 3))
                self.assertEqual(rows[patch, placement, "packed"]["messages"], per_rank)

    def test_times_of_all_ranks(self):
        """A box plot for each rank needs every run; the table has the slowest rank of each."""
        for row in self.study(3, "--dims", "40x20x20", "--patch", "8")["exchanges"]:
            self.assertEqual([len(runs) for runs in row["seconds_of_ranks"]], [2, 2, 2])
            slowest = [max(run) for run in zip(*row["seconds_of_ranks"])]
            self.assertEqual((row["seconds"]["min"], row["seconds"]["max"]), (min(slowest), max(slowest)))
            self.assertGreater(min(slowest), 0)
            self.assertGreater(row["setup_seconds"], 0)

    def test_bad_usage(self):
        for options, mention in ((("--dims", "0x1"), "0x1"), (("--dims", "8", "--patch", "7"), "7"),
                                 (("--dims", "8", "--type", "float33"), "float33"),
                                 (("--dims", "2000000000x2000000000x2000000000"), "2000000000")):
            with self.subTest(mention=mention):
                self.assert_one_line(qt.run("quarry-iobench", "--exchange", *options), qt.USAGE, mention)


class Placement(qt.QuarryTest):
    def study(self, *options):
        command = qt.mpi_command(8, "quarry-iobench", "--placement", "--repeat", 3, "--json", *options)
        rows = json.loads(qt.succeed(*command).out)["placements"]
        return {row["placement"]: row for row in rows}

    def test_the_example_of_the_paper_in_small(self):
        """Fan et al., figure 6a, in small: 3 patches of 4 along each axis, 2 ranks of 6. The middle patch is cut in
        halves, and greedy leaves it to the lower rank: 2 and 1 patches along each axis, so 8 on rank 0 and 1 on rank 7.
        10^3 of 12^3 samples stay. Patches with 1, 2 and 3 middle axes, of which there are 12, 6 and 1, have 2, 4 and 8
        ranks, and all but one of them send. Every rank has one patch to itself."""
        machine = self.tmp / "machine.json"
        machine.write_text('{"name": "slow", "encode_s_per_byte": 1e-3, "cores_per_node": 2}')
        rows = self.study("--dims", "12x12x12", "--patch", 4, "--ranks", "2x2x2", "--machine", machine)
        greedy, balanced = rows["greedy"], rows["balanced"]
        self.assertEqual(greedy["patches_of_ranks"], [8, 4, 4, 2, 4, 2, 2, 1])
        self.assertEqual(sorted(balanced["patches_of_ranks"]), [3] * 5 + [4] * 3)
        self.assertEqual((greedy["bytes_moved"], greedy["messages"]), (4 * (12**3 - 10**3), 12 + 3 * 6 + 7))
        for row in rows.values():
            self.assertEqual(row["contained_of_ranks"], [1] * 8)
            # 27 patches of 256 bytes at 1 ms a byte on two cores; 8 or 4 patches on a core of their own.
            self.assertAlmostEqual(row["predicted"]["encode_s"], 27 * 0.256 / 2, delta=0.01)
        self.assertAlmostEqual(greedy["predicted"]["encode_core_s"], 8 * 0.256, delta=0.01)
        self.assertAlmostEqual(balanced["predicted"]["encode_core_s"], 4 * 0.256, delta=0.01)

    def test_prediction_is_that_of_quarry_plan(self):
        options = ("--dims", "40x40x40", "--patch", 16, "--ranks", "2x2x2")
        rows = self.study(*options)
        for placement, row in rows.items():
            outcome = qt.succeed("quarry-plan", "predict", *options, "--placement", placement, "--json")
            plan = json.loads(outcome.out)["seconds"]
            self.assertEqual((row["predicted"]["exchange_s"], row["predicted"]["encode_s"]),
                             (plan["exchange"], plan["encode"]))

    def test_times_of_all_ranks(self):
        for row in self.study("--dims", "44x44x44", "--patch", 8, "--ranks", "2x2x2").values():
            times = {name: np.array(row[name]["seconds_of_ranks"]) for name in ("exchange", "encode", "both")}
            self.assertEqual(times["both"].shape, (8, 3))
            np.testing.assert_allclose(times["both"], times["exchange"] + times["encode"])
            self.assertEqual(row["encode"]["seconds"]["max"], times["encode"].max())
            self.assertTrue((np.array(row["encode_core"]["seconds_of_ranks"]) > 0).all())
            # Upper bound of the time that contained patches can hide.
            self.assertTrue((np.array(row["contained_of_ranks"]) > 0).all())
            share = np.array(row["contained_of_ranks"]) / np.maximum(row["patches_of_ranks"], 1)
            hidden = np.minimum(times["exchange"], share[:, None] * times["encode"])
            left = (times["both"] - hidden).max(axis=0)
            self.assertAlmostEqual(row["both_early_start"]["median"], np.median(left))

    def test_bad_usage(self):
        for options, mention in (((), "--dims"), (("--dims", "8", "--patch", "7"), "7"),
                                 (("--dims", "8", "--type", "int16"), "int16"),
                                 (("--dims", "8", "--relative", "0"), "--relative"),
                                 (("--dims", "8", "--exchange"), "--exchange")):
            with self.subTest(mention=mention):
                self.assert_one_line(qt.run("quarry-iobench", "--placement", *options), qt.USAGE, mention)
        self.assert_one_line(qt.run("quarry-iobench", "--placement", "--dims", "8", "--machine", self.tmp / "no.json"),
                             qt.NOT_FOUND, "no.json")


if __name__ == "__main__":
    qt.main()
