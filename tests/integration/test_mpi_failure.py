"""An MPI that fails on one rank in the messages by which the ranks agree: the others may wait for that rank, so it ends
the whole program; what is published is right. (mpi/failing has every other call.)"""

import quarry_testing as qt

DIMS = (20, 12, 10)


class Agreement(qt.QuarryTest):
    def write(self, source, dataset, call, rank, ranks):
        environment = {"LD_PRELOAD": str(qt.BIN / "libfailing_mpi.so"), "QUARRY_FAIL_HOW": "agreement",
                       "QUARRY_FAIL_CALL": str(call), "QUARRY_FAIL_RANK": str(rank)}
        return qt.run(*qt.mpi_command(ranks, "quarry-write", source, "--dims", "x".join(map(str, DIMS)), "--type",
                                      "float32", "--relative", "1e-3", "--patch", "8", "--output", dataset),
                      env=environment)

    def test_the_program_ends_and_nothing_wrong_is_published(self):
        source = self.tmp / "f.f32"
        qt.smooth(DIMS).tofile(source)
        for ranks, rank in ((2, 1), (3, 0)):
            outcome = self.write(source, self.tmp / f"whole{ranks}.quarry", 10000, rank, ranks)
            self.assertEqual(outcome.code, qt.DONE, outcome)
            expected = qt.subfiles(self.tmp / f"whole{ranks}.quarry")
            failures = 0
            for call in range(1, qt.scaled(60, 60), 1 if qt.FULL else 6):
                with self.subTest(ranks=ranks, rank=rank, call=call):
                    dataset = self.tmp / f"failed{ranks}-{call}.quarry"
                    outcome = self.write(source, dataset, call, rank, ranks)
                    if outcome.code != qt.DONE:
                        failures += 1
                        self.assertIn("the ranks cannot agree", outcome.err)
                    if dataset.exists():
                        self.assertEqual(qt.subfiles(dataset), expected)
            self.assertGreater(failures, 3)


if __name__ == "__main__":
    qt.main()
