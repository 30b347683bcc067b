"""quarry-plan: figures of the papers, and the keys of its JSON."""

import json

import quarry_testing as qt


plot = qt.load("tools/plan/plot.py")  # its numbers, without matplotlib


class PlanTest(qt.QuarryTest):
    def plan(self, *arguments):
        outcome = qt.run("quarry-plan", *arguments, "--json")
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return json.loads(outcome.out)

    def placement(self, dims, ranks, patch, placement):
        return self.plan("placement", "--dims", dims, "--ranks", ranks, "--patch", patch,
                         "--placement", placement)


class Placing(PlanTest):
    def test_figure_of_the_paper(self):
        """Fan et al., figure 6a: 1600^3 in 64^3 patches on 4,096 ranks."""
        greedy = self.placement("1600x1600x1600", "16x16x16", 64, "greedy")
        self.assertEqual(greedy["patches"], 15625)
        self.assertEqual(greedy["patches_per_rank"], {"1": 343, "2": 1323, "4": 1701, "8": 729})
        balanced = self.placement("1600x1600x1600", "16x16x16", 64, "balanced")
        self.assertEqual(balanced["patches_per_rank"], {"3": 759, "4": 3337})

    def test_hand_counted(self):
        """12 samples of 8 bytes, patches of 4, ranks of 6: half of the middle patch moves."""
        plan = self.placement("12", "2", 4, "balanced")
        self.assertEqual(plan["patches_per_rank"], {"1": 1, "2": 1})
        moved = [plan[key] for key in ("bytes", "bytes_moved", "messages", "rank_pairs")]
        self.assertEqual(moved, [96, 16, 1, 1])
        self.assertEqual(plan["bytes_sent_per_rank"], {"min": 0, "max": 16, "mean": 8.0})

    def test_bytes_follow_the_type(self):
        arguments = ("placement", "--dims", "100x90x80", "--ranks", "3x2x2", "--patch", "16")
        wide = self.plan(*arguments)
        narrow = self.plan(*arguments, "--type", "uint16")
        self.assertEqual(wide["bytes_moved"], 4 * narrow["bytes_moved"])
        self.assertEqual(wide["messages"], narrow["messages"])

    def test_settings_of_the_exchange_study(self):
        """Robinson et al., section 4.2; the largest has 8 million patches."""
        grids = {1024: "16x8x8", 2048: "16x16x8", 4096: "16x16x16"}
        extents = (1000, 1600, 3000, 3200, 6000, 6400) if qt.FULL else (1000, 6400)
        for extent in extents:
            for patch in (32, 64):
                for ranks, grid in grids.items() if qt.FULL else ((4096, grids[4096]),):
                    with self.subTest(extent=extent, patch=patch, ranks=ranks):
                        dims = f"{extent}x{extent}x{extent}"
                        balanced = self.placement(dims, grid, patch, "balanced")
                        greedy = self.placement(dims, grid, patch, "greedy")
                        patches = (-(-extent // patch)) ** 3
                        for plan in (balanced, greedy):
                            counts = {int(n): count for n, count in plan["patches_per_rank"].items()}
                            self.assertEqual(plan["patches"], patches)
                            self.assertEqual(sum(counts.values()), ranks)
                            self.assertEqual(sum(n * count for n, count in counts.items()), patches)
                        self.assertLessEqual(set(balanced["patches_per_rank"]),
                                             {str(patches // ranks), str(patches // ranks + 1)})
                        # Greed is the least that can move.
                        self.assertLessEqual(greedy["bytes_moved"], balanced["bytes_moved"])


class Predicting(PlanTest):
    ARGUMENTS = ("predict", "--dims", "128x128x128")

    def test_one_combination(self):
        plan = self.plan(*self.ARGUMENTS, "--ranks", "4", "--files", "2", "--ratio", "8")
        self.assertEqual(plan["bytes_in"], 8 << 20)
        self.assertAlmostEqual(plan["bytes_out"], 1 << 20, delta=8)
        self.assertEqual((plan["ranks"], plan["files"], plan["patches"]), (4, 2, 8))
        # Rank 0 with two patches of 24 bytes, 24 bytes for each rank, and two summaries of each file.
        self.assertEqual(plan["tables"]["most_bytes"], 2 * 24 + 4 * 24 + 2 * 2 * 304)
        # Two patches of each other rank come to rank 0: 16 bytes each, and 24 of the letter.
        self.assertGreaterEqual(plan["tables"]["most_messages"], 3)
        self.assertGreaterEqual(plan["tables"]["most_message_bytes"], 3 * (2 * 16 + 24))
        seconds = dict(plan["seconds"])
        self.assertEqual(set(seconds),
                         {"start", "read", "exchange", "encode", "assign", "transfer", "write", "total"})
        total = seconds.pop("total")
        self.assertAlmostEqual(total, sum(seconds.values()))

    def test_a_simulation_reads_nothing(self):
        self.assertEqual(self.plan(*self.ARGUMENTS, "--ranks", "2x2x1")["seconds"]["read"], 0)
        self.assertGreater(self.plan(*self.ARGUMENTS, "--ranks", "4")["seconds"]["read"], 0)
        plan = self.plan(*self.ARGUMENTS, "--ranks", "2x2x1", "--source", "file")
        self.assertGreater(plan["seconds"]["read"], 0)

    def test_messages_follow_the_exchange(self):
        """As placement counts them: one for each part of a patch, or for each pair of ranks."""
        options = ("--dims", "100x90x80", "--ranks", "3x2x2", "--patch", "16")
        counted = self.plan("placement", *options, "--type", "float32")
        per_patch, per_rank, batched = (self.plan("predict", *options, "--exchange", exchange)
                                        for exchange in ("patch", "rank", "4"))
        self.assertEqual(per_patch["exchange"]["messages"], counted["messages"])
        self.assertEqual(per_rank["exchange"]["messages"], counted["rank_pairs"])
        self.assertGreater(per_patch["exchange"]["messages"], batched["exchange"]["messages"])
        self.assertGreater(batched["exchange"]["messages"], per_rank["exchange"]["messages"])
        self.assertEqual({p["exchange"]["bytes_moved"] for p in (per_patch, per_rank, batched)},
                         {counted["bytes_moved"]})
        self.assertGreater(per_patch["seconds"]["exchange"], batched["seconds"]["exchange"])
        self.assertGreater(batched["seconds"]["exchange"], per_rank["seconds"]["exchange"])

    def test_constants_of_the_machine(self):
        machine = self.tmp / "machine.json"
        machine.write_text('{"name": "mine", "cores_per_node": 1, "encode_s_per_byte": 1e-6}')
        plan = self.plan(*self.ARGUMENTS, "--ranks", "4", "--machine", machine)
        self.assertEqual(plan["machine"]["name"], "mine")
        self.assertAlmostEqual(plan["seconds"]["encode"], (8 << 20) * 1e-6, delta=0.01)
        plan = self.plan(*self.ARGUMENTS, "--ranks", "4", "--machine", machine, "--set", "cores_per_node=4")
        self.assertAlmostEqual(plan["seconds"]["encode"], (2 << 20) * 1e-6, delta=0.01)

    def test_every_combination_in_table_and_plot(self):
        plan = self.plan(*self.ARGUMENTS, "--ranks", "2x1x1,2x2x1", "--patch", "32,64", "--files", "1,2,4")
        combinations = {(c["patch"], c["process_grid"], c["files"]) for c in plan["combinations"]}
        self.assertEqual(len(plan["combinations"]), 12)
        bars = dict(plot.bars(plan))
        self.assertEqual(set(bars), {f"{patch}, {ranks}, {files}" for patch, ranks, files in combinations})
        for c in plan["combinations"]:
            parts = bars[f"{c['patch']}, {c['process_grid']}, {c['files']}"]
            self.assertEqual(parts["encode"], c["seconds"]["encode"])
            self.assertAlmostEqual(sum(parts.values()), c["seconds"]["total"], delta=1e-9 * c["seconds"]["total"])
        alone = self.plan(*self.ARGUMENTS, "--ranks", "4")
        self.assertEqual(len(plot.bars(alone)), 1)

    def test_sizes_of_a_report_unbalance_equal_files(self):
        report = self.tmp / "report.json"
        report.write_text('{"ratio": 4, "size_grid": {"shape": [2, 1, 1], "bytes": [300, 100]}}')
        plan = self.plan(*self.ARGUMENTS, "--ranks", "2", "--files", "2", "--pipeline", "equal",
                         "--patch", "64x128x128", "--sizes", report)
        self.assertEqual(plan["bytes_out"], 2 << 20)
        self.assertEqual(plan["largest_file_bytes"], (2 << 20) * 3 // 4)


    def test_pipelines(self):
        """4 ranks with 8 patches each, 512 KiB of payload a rank."""
        settings = ("--set", "compression_ratio=4", "stream_write_bandwidth_bytes_per_s=1048576",
                    "target_write_bandwidth_bytes_per_s=1e15", "file_create_s=0", "publish_s=0", "file_creates_per_s=4",
                    "message_overhead_s=0")
        plan = self.plan(*self.ARGUMENTS, "--ranks", "1x2x2", "--files", "2", "--pipeline",
                         "fpp,collective,group-collective,equal,balanced", *settings)
        by_name = {c["pipeline"]: c for c in plan["combinations"]}
        self.assertEqual({name: c["files"] for name, c in by_name.items()},
                         {"fpp": 4, "collective": 1, "group-collective": 2, "equal": 2, "balanced": 2})
        # Names at 4 a second, then the largest file at 1 MiB a second.
        self.assertAlmostEqual(by_name["fpp"]["seconds"]["write"], 1 + 0.5)
        self.assertAlmostEqual(by_name["group-collective"]["seconds"]["write"], 0.5 + 1)
        self.assertAlmostEqual(by_name["balanced"]["seconds"]["write"], 0.5 + 1)
        self.assertAlmostEqual(by_name["collective"]["seconds"]["write"], 0.25 + 2)
        self.assertEqual(by_name["fpp"]["transfer"]["messages"], 0)
        self.assert_one_line(qt.run("quarry-plan", *self.ARGUMENTS, "--ranks", "2", "--pipeline", "fast"), qt.USAGE, "fast")

    def test_files_auto(self):
        """The fewest of the counts that are within 3 % of the best."""
        arguments = (*self.ARGUMENTS, "--ranks", "4x4x4", "--patch", "32", "--set", "compression_ratio=4", "file_create_s=0",
                     "publish_s=0", "target_write_bandwidth_bytes_per_s=1e15",
                     # 2 MiB: F / 64 + 4 / F seconds, least at 16 files.
                     "stream_write_bandwidth_bytes_per_s=524288", "file_creates_per_s=64", "encode_s_per_byte=0")
        counts = "1,2,4,8,16,32,64"
        all_counts = self.plan(*arguments, "--files", counts)["combinations"]
        best = min(c["seconds"]["total"] for c in all_counts)
        expected = next(c["files"] for c in all_counts if c["seconds"]["total"] <= 1.03 * best)
        self.assertEqual(expected, 16)
        self.assertEqual(self.plan(*arguments, "--files", "auto")["files"], expected)

    def test_best(self):
        plan = self.plan(*self.ARGUMENTS, "--ranks", "3x1x1", "--patch", "32", "--best")
        totals = [c["seconds"]["total"] for c in plan["combinations"]]
        self.assertEqual(totals, sorted(totals))
        self.assertEqual(len(totals), 2 * 2 * 5)
        ours = next(c for c in plan["combinations"] if c["pipeline"] in ("balanced", "equal"))
        self.assertEqual(plan["advice"], f"quarry-write --patch 32 --placement {ours['placement']} --exchange "
                         f"{ours['exchange_batch']} --aggregation {ours['pipeline']} --files {ours['files']}")


class Calibrating(PlanTest):
    def test_measures_what_predict_needs(self):
        output = self.tmp / "here.json"
        data = self.tmp / "data"
        data.mkdir()
        outcome = qt.run("quarry-plan", "calibrate", "--output", output, "--dir", data, "--file-size", "1MiB")
        self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assertEqual(list(data.iterdir()), [], "measured files stay")
        constants = json.loads(output.read_text())
        for name, value in constants.items():
            # 0: nothing limits it, or nothing measures it.
            if name not in ("name", "topology", "ranks_per_node", "node_write_bandwidth_bytes_per_s", "file_creates_per_s",
                            "stream_write_bandwidth_bytes_per_s", "shared_file_lock", "part_s", "gathered_bytes_per_patch"):
                self.assertGreater(value, 0, name)
        plan = self.plan("predict", "--dims", "64x64x64", "--ranks", "2", "--machine", output)
        self.assertEqual(plan["machine"], constants)


class Mistakes(qt.QuarryTest):
    def check(self, code, *mentions, arguments):
        outcome = qt.run("quarry-plan", *arguments)
        self.assert_one_line(outcome, code, *mentions)

    def test_bad_arguments(self):
        good = {"--dims": "64x64x64", "--ranks": "2x2x2"}
        for command, option, value in (
                ("placement", "--dims", "64x0x64"), ("placement", "--ranks", "2x2x2x2"),
                ("placement", "--ranks", "99999x99999x9"), ("placement", "--patch", "48"),
                ("placement", "--placement", "sideways"), ("placement", "--type", "float33"),
                ("predict", "--files", "0"), ("predict", "--files", "1,x"), ("predict", "--patch", "32,48"),
                ("predict", "--ratio", "-1"), ("predict", "--source", "tape"),
                ("predict", "--exchange", "sideways"), ("predict", "--exchange", "0"),
                ("predict", "--set", "speed=speed"),
                ("predict", "--set", "cores_per_node=0"), ("predict", "--set", "topology=ring")):
            with self.subTest(command=command, option=option, value=value):
                options = [word for pair in (good | {option: value}).items() for word in pair]
                self.check(qt.USAGE, value.split(",")[-1].split("=")[-1], arguments=(command, *options))
        self.check(qt.USAGE, "--ranks", arguments=("placement", "--dims", "64x64x64"))
        self.check(qt.USAGE, "--frobnicate",
                   arguments=("placement", "--dims", "64", "--ranks", "2", "--frobnicate"))
        self.check(qt.USAGE, "2147483648", arguments=("placement", "--dims", "2147483649x1x1", "--ranks", "2"))

    def test_files_that_are_not_there(self):
        question = ("predict", "--dims", "64x64x64", "--ranks", "2")
        self.check(qt.NOT_FOUND, "none.json", arguments=(*question, "--machine", self.tmp / "none.json"))
        self.check(qt.NOT_FOUND, "none.json", arguments=(*question, "--sizes", self.tmp / "none.json"))
        self.check(qt.NOT_FOUND, "none", arguments=("calibrate", "--output", self.tmp / "out.json",
                                                    "--dir", self.tmp / "none"))
        broken = self.tmp / "broken.json"
        broken.write_text("{")
        self.check(qt.USAGE, "broken.json", arguments=(*question, "--machine", broken))
        self.check(qt.USAGE, "broken.json", arguments=(*question, "--sizes", broken))


if __name__ == "__main__":
    qt.main()
