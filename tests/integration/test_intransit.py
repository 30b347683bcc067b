"""In-transit writing by a real simulation: some ranks of examples/lbm write the steps of the others, to the same
dataset as in situ."""

import re

import quarry_testing as qt

SIMULATION = ("--dims", "48x40x36", "--steps", 60, "--dump-every", 15, "--no-dump")


class InTransit(qt.QuarryTest):
    def lbm(self, ranks, *arguments):
        program = qt.BIN / "lbm"
        if not program.is_file():
            qt.skip("lbm is not built here")
        return qt.run(*qt.mpi_command(ranks, program, *arguments))

    def written(self, ranks, name, *arguments):
        dataset = self.tmp / f"{name}.quarry"
        outcome = self.lbm(ranks, *SIMULATION, "--insitu", dataset, *arguments)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return dataset, outcome

    def assert_same_files(self, one, other):
        files = [{str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
                 for root in (one, other)]
        self.assertNotEqual(files[0], {})
        self.assertEqual(files[0], files[1])

    def test_writer_ranks_write_what_the_simulation_would(self):
        insitu, outcome = self.written(4, "insitu")
        self.assertNotIn("waited", outcome.out)
        for ranks, writers in ((6, 2), (4, 3), (3, 1)):
            with self.subTest(ranks=ranks, writers=writers):
                intransit, outcome = self.written(ranks, f"intransit{ranks}", "--intransit", writers)
                self.assert_same_files(insitu, intransit)
                self.assert_verified(intransit)
                # Both sides report how long the simulation waited.
                waited = re.findall(r"^waited \d+\.\d+ s for the writers in \d of the steps, and \d+\.\d+ s",
                                    outcome.out, re.MULTILINE)
                served = re.findall(r"^writers: 4 steps, .*; the simulation has waited \d+\.\d+ s$",
                                    outcome.out, re.MULTILINE)
                self.assertEqual((len(waited), len(served)), (1, 1), outcome)

    def test_simulation_ranks_without_a_block(self):
        # 17 ranks in a line do not fit 16 cells.
        small = ("--dims", "16x16x16", "--steps", 2, "--dump-every", 1, "--no-dump")
        one, other = self.tmp / "one.quarry", self.tmp / "other.quarry"
        for ranks, dataset, arguments in ((1, one, ()), (19, other, ("--intransit", 2))):
            outcome = self.lbm(ranks, *small, "--insitu", dataset, *arguments)
            self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assert_same_files(one, other)

    def test_errors_of_the_writers_end_all_ranks_with_one_line(self):
        (self.tmp / "there.quarry").mkdir()
        outcome = self.lbm(3, *SIMULATION, "--insitu", self.tmp / "there.quarry", "--intransit", 1)
        self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
        self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
        self.assertIn("exists already", outcome.err)

    def test_nobody_left_to_simulate(self):
        outcome = self.lbm(2, *SIMULATION, "--insitu", self.tmp / "no.quarry", "--intransit", 2)
        self.assertEqual(outcome.code, qt.USAGE, outcome)
        self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
        self.assertIn("2 writers of 2 ranks leave no rank to simulate", outcome.err)


if __name__ == "__main__":
    qt.main()
