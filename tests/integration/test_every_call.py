"""Every call to the system fails once, as SQLite's authors test: the first read, the second, ..., until a run meets no
failure; the same for writes, syncs, renames, opened files, listed folders, mappings and memory.

A library that is loaded before the program makes the n-th call of a kind fail (tests/testing/fail_call.c). Whatever fails,
the program ends with one of its exit codes and at most one message, nothing that was published is lost, nothing wrong is
published, and the next run repairs what is left. Short runs take some of the calls, the long form all of them."""

import errno
import hashlib
import shutil
import subprocess

import numpy as np

import quarry_testing as qt

LIBRARY = qt.BIN.parent / "lib" / "libfail_call.so"
DIMS = (40, 30, 20)
LAYOUT = ("--tolerance", "1e-3", "--patch", "16", "--files", "2")
# Half of the work is done, or none.
KINDS = (("open", errno.EACCES), ("open", errno.EMFILE), ("read", errno.EIO), ("read", 0), ("write", errno.ENOSPC),
         ("write", 0), ("sync", errno.EIO), ("rename", errno.EIO), ("list", errno.EIO), ("mmap", errno.ENOMEM),
         ("malloc", errno.ENOMEM))
# gRPC ends a process that has no memory for it.
WITHOUT_MEMORY = tuple(kind for kind in KINDS if kind[0] != "malloc")
EXIT_CODES = range(7)
# Calls of a kind that a short run tries; the long form tries all.
TRIED = 8
TRIES_OF_MEMORY = 25


class EveryCall(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.field = cls.shared / "f.raw"
        cls.other = cls.shared / "g.raw"
        cls.original = qt.turbulent(DIMS, name="f")
        cls.original.tofile(cls.field)
        qt.turbulent(DIMS, name="g").tofile(cls.other)
        cls.base = cls.shared / "base.quarry"
        cls.write(cls.base, "--step", 1, field=cls.field)
        qt.succeed("quarry-index", cls.base)
        cls.expected = cls.samples(cls.base, 1)

    @classmethod
    def write_command(cls, path, *options, field):
        return ("quarry-write-single", field, "--dims", "x".join(map(str, DIMS)), "--type", "float32", "--field", "f",
                *LAYOUT, "--output", path, *options)

    @classmethod
    def write(cls, path, *options, field):
        return qt.succeed(*cls.write_command(path, *options, field=field))

    @classmethod
    def samples(cls, path, step):
        """Samples of a step, by a program that meets no failure."""
        output = cls.shared / "samples.npy"
        qt.succeed("quarry", "get", path, "--step", step, "--output", output)
        return np.load(output).tobytes()

    def steps(self, path):
        return sorted(int(step.name) for step in (path / "steps").iterdir() if step.name.isdigit())

    def failing(self, kind, code, number):
        """The environment of a program whose n-th call fails."""
        self.report = self.tmp / "failed"
        self.report.unlink(missing_ok=True)
        return {"LD_PRELOAD": str(LIBRARY), "QUARRY_FAIL_CALL": kind, "QUARRY_FAIL_AT": str(number),
                "QUARRY_FAIL_ERRNO": str(code), "QUARRY_FAIL_BELOW": str(self.tmp),
                "QUARRY_FAIL_REPORT": str(self.report)}

    def run_failing(self, kind, code, number, *command):
        """The outcome with the n-th call failing, and whether there was such a call."""
        outcome = qt.run(*command, env=self.failing(kind, code, number))
        self.assertIn(outcome.code, EXIT_CODES, outcome)
        self.assertLessEqual(len(outcome.err.splitlines()), 2, outcome)
        return outcome, self.report.exists()

    def numbers(self, kind):
        """The calls to fail, until there are no more."""
        if qt.FULL:
            return range(1, 1 << 30)
        first = range(1, TRIED // 2 + 1)
        tries = TRIES_OF_MEMORY if kind == "malloc" else TRIED
        later = np.unique(np.geomspace(TRIED // 2 + 1, 40_000 if kind == "malloc" else 200, tries).astype(int))
        return [*first, *(int(number) for number in later)]

    def each_call(self, attempt, *, meets, kinds=KINDS):
        """Calls `attempt` with each call to fail: kind, error and number. It returns whether there was such a call.

        `meets`: kinds of calls that the program is known to make."""
        for kind, code in kinds:
            met = 0
            for number in self.numbers(kind):
                failed = True
                with self.subTest(kind=kind, error=errno.errorcode.get(code, "half"), number=number):
                    failed = attempt(kind, code, number)
                if not failed:
                    break
                met += 1
            if kind in meets:
                self.assertGreater(met, 0, f"no {kind} failed: the test tests nothing")

    def left(self, outcome):
        """Output and files of a run: two that are the same need to be looked at once."""
        self.report.unlink(missing_ok=True)
        paths = sorted(self.tmp.rglob("*"))
        contents = hashlib.sha256()
        for path in paths:
            contents.update(hashlib.sha256(path.read_bytes() if path.is_file() else b"").digest())
        return outcome.code, outcome.out, *(str(path) for path in paths), contents.digest()

    def each_failure(self, prepare, command, check, **options):
        """Runs `command` with each call failing, after `prepare`, and looks at what is left with `check`."""
        good = set()

        def attempt(*call):
            prepare()
            outcome, failed = self.run_failing(*call, *command)
            left = self.left(outcome)
            if left not in good:
                check(outcome)
                good.add(left)
            return failed

        self.each_call(attempt, **options)

    def fresh(self):
        path = self.tmp / "d.quarry"
        shutil.rmtree(path, ignore_errors=True)
        return path

    def copied(self):
        path = self.fresh()
        shutil.copytree(self.base, path)
        return path

    def check_append(self, path, outcome):
        """Step 1 is as it was; step 2 is there and right, or not there and can be written."""
        self.assertEqual(self.samples(path, 1), self.expected)
        steps = self.steps(path)
        if outcome.code == qt.DONE:
            self.assertEqual(steps, [1, 2], outcome)
        else:
            self.assertIn(steps, ([1], [1, 2]), outcome)
        if steps == [1]:
            self.write(path, "--step", 2, "--append", field=self.other)
        self.assertEqual(self.samples(path, 2), self.second)
        self.assert_verified(path)

    def test_write(self):
        path = self.tmp / "d.quarry"

        def check(outcome):
            steps = self.steps(path) if (path / "dataset.json").exists() else []
            self.assertEqual(steps == [1], outcome.code == qt.DONE or steps == [1], outcome)
            if not steps:
                self.write(path, "--step", 1, *(["--resume"] if path.exists() else []), field=self.field)
            self.assertEqual(self.samples(path, 1), self.expected)
            self.assert_verified(path)

        self.each_failure(self.fresh, self.write_command(path, "--step", 1, field=self.field), check,
                          meets=("open", "write", "sync", "rename", "malloc"))

    def test_append(self):
        path = self.copied()
        self.write(path, "--step", 2, "--append", field=self.other)
        type(self).second = self.samples(path, 2)
        self.each_failure(self.copied, self.write_command(path, "--step", 2, "--append", field=self.other),
                          lambda outcome: self.check_append(path, outcome),
                          meets=("open", "read", "write", "sync", "rename", "malloc"))

    def test_index(self):
        path = self.tmp / "d.quarry"

        def prepare():
            self.copied()
            shutil.rmtree(path / "index")

        def check(outcome):
            if outcome.code == qt.DONE:
                qt.succeed("quarry-index", path, "--verify")
            qt.succeed("quarry-index", path)
            qt.succeed("quarry-index", path, "--verify")
            self.assertEqual(self.samples(path, 1), self.expected)

        self.each_failure(prepare, ("quarry-index", path), check,
                          meets=("open", "read", "write", "sync", "rename", "mmap", "malloc"))

    def test_get(self):
        path = self.copied()
        output = self.tmp / "out.npy"

        def check(outcome):
            if outcome.code == qt.DONE:
                self.assertEqual(np.load(output).tobytes(), self.expected)

        self.each_failure(lambda: output.unlink(missing_ok=True), ("quarry", "get", path, "--output", output), check,
                          meets=("open", "read", "write", "malloc"))

    def test_verify(self):
        """A check that could not check everything does not say that all is well."""
        path = self.copied()
        passed = qt.succeed("quarry", "verify", path).out
        self.each_failure(lambda: None, ("quarry", "verify", path),
                          lambda outcome: self.assertEqual(outcome.out == passed, outcome.code == qt.DONE, outcome),
                          meets=("open", "read", "list", "malloc"))

    def test_server(self):
        """A question that meets a failure gets an error or the right answer; the next one gets the right answer."""
        path = self.copied()
        output = self.tmp / "out.npy"

        def ask(server):
            output.unlink(missing_ok=True)
            # Decoded samples stay in memory, so that the second question meets no call of its own.
            outcome = qt.run("quarry", "get", server.target(path), "--encoding", "samples", "--output", output)
            self.assertIn(outcome.code, EXIT_CODES, outcome)
            if outcome.code == qt.DONE:
                self.assertEqual(np.load(output).tobytes(), self.expected)
            return outcome

        def attempt(kind, code, number):
            try:
                with qt.Server(self.tmp, env=self.failing(kind, code, number)) as server:
                    ask(server)
                    self.assertEqual(ask(server).code, qt.DONE)
            except qt.Server.Refused as refused:
                self.assertIn(refused.args[0].code, EXIT_CODES, refused)
            return self.report.exists()

        self.each_call(attempt, meets=("open", "read", "list", "mmap"), kinds=WITHOUT_MEMORY)

    def test_client_of_a_server(self):
        path = self.copied()
        output = self.tmp / "out.npy"
        with qt.Server(self.tmp) as server:

            def check(outcome):
                if outcome.code == qt.DONE:
                    self.assertEqual(np.load(output).tobytes(), self.expected)

            self.each_failure(lambda: output.unlink(missing_ok=True),
                              ("quarry", "get", server.target(path), "--output", output), check,
                              meets=("open", "write"), kinds=WITHOUT_MEMORY)


if __name__ == "__main__":
    qt.main()
