"""quarry-write to an object store: the files of a directory, readers that see whole steps, ends at every moment."""

import json

import numpy as np
import quarry_testing as qt
from object_stores import Store, WritableS3Handler

DIMS = (40, 33, 21)
TARGET = "s3://bucket/runs/new.quarry"
#: Steps of the long series, which takes more than 100 changes of the store.
MANY = 20


def files_of(folder):
    """Its files but the head: in a store it says that it publishes the steps."""
    return {path: data for path, data in qt.snapshot(folder).items() if data is not None and path != "head"}


class Writing(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.inputs = []
        for step in range(MANY):
            field = qt.make_field(DIMS, "<f4", name=f"f{step}")
            cls.inputs.append(cls.shared / f"f-{step:02}.raw")
            qt.with_holes(field, np.nan, name=step % 3).tofile(cls.inputs[-1])

    def command(self, target, *options, steps=slice(0, 3), ranks=0, files=3):
        return qt.mpi_command(ranks, "quarry-write" if ranks else qt.SERIAL_WRITER, *self.inputs[steps], "--dims",
                              "x".join(map(str, DIMS)), "--type", "float32", "--tolerance", "1e-3", "--patch", "16",
                              "--files", files, "--order", "coarse", "--field", "f", "--output", target, *options)

    def write(self, target, *options, env=None, **keywords):
        return qt.succeed(*self.command(target, *options, **keywords), env=env or {})

    def store(self, name="store"):
        (self.tmp / name / "bucket").mkdir(parents=True)
        return Store(self.tmp / name, WritableS3Handler)

    def path_of(self, store):
        return store.server.folder / "bucket" / "runs" / "new.quarry"

    def names_in(self, store):
        return [str(path) for path in (store.server.folder / "bucket").rglob("*")]

    def written(self, name, *options, **keywords):
        """A directory with the same data."""
        path = self.tmp / name
        self.write(path, *options, **keywords)
        return path

    def assert_same(self, store, directory, env):
        self.assertEqual(files_of(self.path_of(store)), files_of(directory))
        self.assertEqual(store.server.uploads, {})
        qt.succeed("quarry", "verify", TARGET, env=env)

    def steps(self, store):
        """That readers see."""
        if not (self.path_of(store) / "dataset.json").exists():
            return []
        return json.loads(qt.succeed("quarry", "info", TARGET, "--json", env=store.environment()).out)["steps"]

    def test_the_files_are_those_of_a_directory(self):
        for ranks in (0, 1, 2, 4):
            with self.subTest(ranks=ranks), self.store(f"store{ranks}") as store:
                env = store.environment()
                self.write(TARGET, env=env, ranks=ranks)
                self.assert_same(store, self.written(f"{ranks}.quarry", ranks=ranks), env)
                self.assertEqual(self.steps(store), [0, 1, 2])

    def test_steps_and_fields_are_added(self):
        with self.store() as store:
            env = store.environment()
            directory = self.tmp / "a.quarry"
            for target, used in ((TARGET, env), (directory, {})):
                self.write(target, env=used)
                self.write(target, "--append", steps=slice(3, 5), env=used, ranks=2)
                command = self.command(target, "--append", "--step", "1", steps=slice(7, 9))
                command[command.index("f")] = "g"
                qt.succeed(*command, env=used)
            self.assert_same(store, directory, env)
            self.assertEqual(self.steps(store), [0, 1, 2, 3, 4])
            self.write(TARGET, "--resume", steps=slice(0, 6), env=env)
            self.assertEqual(self.steps(store), [0, 1, 2, 3, 4, 5])

    def test_steps_that_refer_to_others(self):
        with self.store() as store:
            env = store.environment()
            self.write(TARGET, "--keyframe", "4", steps=slice(0, 5), env=env)
            self.assert_same(store, self.written("keyed.quarry", "--keyframe", "4", steps=slice(0, 5)), env)

    def test_large_files_come_in_parts(self):
        noise = self.tmp / "noise.raw"
        np.frombuffer(np.random.default_rng(1).bytes(40 << 20), "<u4").tofile(noise)
        for ranks, files in ((0, 2), (2, 2)):
            with self.subTest(ranks=ranks), self.store(f"store{ranks}") as store:
                env = store.environment()
                command = qt.mpi_command(ranks, "quarry-write" if ranks else qt.SERIAL_WRITER, noise, "--dims", "512x256x80",
                                         "--type", "uint32", "--files", files, "--field", "n")
                qt.succeed(*command, "--output", TARGET, env=env)
                directory = self.tmp / f"{ranks}.quarry"
                qt.succeed(*command, "--output", directory)
                self.assert_same(store, directory, env)
                # 20 MiB in each of two files, in parts of 8 MiB.
                self.assertEqual(len([line for line in store.asked if "partNumber=" in line]), 6)

    def test_a_writer_that_was_killed(self):
        """The process ends before its first change, before its second one and so on. Readers see whole steps."""
        steps = slice(0, MANY)
        directory = self.written("all.quarry", steps=steps)
        moment = 0
        while True:
            moment += 1 if qt.FULL else 9
            with self.subTest(moment=moment), self.store(f"store{moment}") as store:
                env = store.environment()
                ended = store.kill_at(moment, self.command(TARGET, steps=steps), qt.ENVIRONMENT)
                seen = self.steps(store)
                self.assertEqual(seen, list(range(len(seen))))
                if seen:
                    qt.succeed("quarry", "verify", TARGET, env=env)
                if not ended:
                    self.assertEqual(len(seen), MANY)
                    break
                again = qt.run(*self.command(TARGET, "--resume", steps=steps), env=env)
                if again.code != qt.DONE:
                    self.assert_one_line(again, qt.UNREACHABLE, "--break-lock")
                    self.write(TARGET, "--resume", "--break-lock", steps=steps, env=env)
                self.assert_same(store, directory, env)
                self.assertEqual(self.steps(store), list(range(MANY)))
        self.assertGreater(moment, 100)

    def test_a_writer_that_was_killed_between_parts(self):
        noise = self.tmp / "noise.raw"
        np.frombuffer(np.random.default_rng(1).bytes(20 << 20), "<u4").tofile(noise)
        command = qt.mpi_command(0, qt.SERIAL_WRITER, noise, "--dims", "512x256x40", "--type", "uint32", "--field", "n",
                                 "--output", TARGET)
        parts_left = False
        for moment in range(1, 100):
            with self.subTest(moment=moment), self.store(f"store{moment}") as store:
                env = store.environment()
                if not store.kill_at(moment, command, qt.ENVIRONMENT):
                    break
                if self.steps(store) == [0]:
                    continue  # it was killed before it has removed its claim
                parts_left = parts_left or bool(store.server.uploads)
                if moment % 2:
                    clean = ("quarry", "cp", self.tmp, TARGET, "--clean")
                    if (self.path_of(store) / "steps" / ".partial-writer").exists():
                        self.assert_one_line(qt.run(*clean, env=env), qt.UNREACHABLE, "--break-lock")
                    qt.succeed(*clean, "--break-lock", env=env)
                    self.assertEqual((self.names_in(store), store.server.uploads), ([], {}))
                    qt.succeed(*command, env=env)
                else:
                    qt.succeed(*command, "--break-lock", env=env)
                self.assertEqual((self.steps(store), store.server.uploads), ([0], {}))
                qt.succeed("quarry", "verify", TARGET, env=env)
        self.assertTrue(parts_left)

    def test_lost_answers_and_broken_connections_do_no_harm(self):
        directory = self.written("a.quarry", steps=slice(0, 6))
        with self.store() as store:
            with store.losing_answers(qt.random_numbers("lost")):
                self.write(TARGET, steps=slice(0, 6), env=store.environment())
            self.assert_same(store, directory, store.environment())

    def test_a_store_that_refuses_a_file_ends_all_ranks(self):
        for part in ("0002.qsf", "0000.qsf", "step.json", "dataset.json"):
            for ranks in (0, 2):
                with self.subTest(part=part, ranks=ranks), self.store(f"{part}{ranks}") as store:
                    env = store.environment()

                    def refuse(handler, part=part):
                        if handler.command != "PUT" or part not in handler.path:
                            return False
                        handler.send(403, b"<Error><Code>AccessDenied</Code><Message>not here</Message></Error>")
                        return True

                    store.server.before = refuse
                    outcome = qt.run(*self.command(TARGET, ranks=ranks), env=env)
                    self.assertNotEqual(outcome.code, qt.DONE)
                    self.assertEqual(len(outcome.lines_of("quarry-write")), 1, outcome)
                    self.assertIn(part, outcome.err)
                    store.server.before = None
                    self.assertEqual(self.steps(store), [])
                    if part != "dataset.json":  # it might have been there
                        self.assertEqual((self.names_in(store), store.server.uploads), ([], {}))
                    self.write(TARGET, "--break-lock", env=env)
                    self.assertEqual(self.steps(store), [0, 1, 2])

    def test_two_writers_are_told_apart(self):
        with self.store() as store:
            env = store.environment()
            other = []

            def intrude(handler):
                if "000001/step.json" in handler.path and not other:
                    other.append(None)
                    other[0] = qt.run(*self.command(TARGET, "--append"), env=env)
                return False

            store.server.before = intrude
            self.write(TARGET, env=env)
            self.assert_one_line(other[0], qt.UNREACHABLE, "another process writes there", "--break-lock")
            self.assertEqual(self.steps(store), [0, 1, 2])

    def test_a_store_that_ignores_conditions_is_said(self):
        with self.store() as store:
            store.server.keeps_conditions = False
            self.assertIn("ignores conditions", self.write(TARGET, env=store.environment()).err)
            self.assertEqual(self.steps(store), [0, 1, 2])

    def test_errors_say_what_to_do(self):
        with self.store() as store:
            env = store.environment()
            self.assert_one_line(qt.run(*self.command(TARGET, "--append"), env=env), qt.NOT_FOUND, "no dataset")
            self.assert_one_line(qt.run(*self.command(TARGET, "--append", "--dry-run"), env=env), qt.NOT_FOUND,
                                 "dataset.json")
            self.write(TARGET, "--dry-run", env=env)
            self.assertEqual(self.names_in(store), [])
            self.write(TARGET, env=env)
            self.assert_one_line(qt.run(*self.command(TARGET), env=env), qt.USAGE, "exists already")
            before = qt.snapshot(store.server.folder / "bucket")
            self.assert_one_line(qt.run(*self.command("https://host/x.quarry"), env=env), qt.USAGE, "web server")
            self.assert_one_line(qt.run(*self.command("s3://bucket/runs"), env=env), qt.USAGE, "no dataset")
            self.assert_one_line(qt.run(*self.command("s3://bucket/x", "--memory", "1MiB", files=18), env=env),
                                 qt.UNREACHABLE, "--files", "--memory")
            outcome = qt.run(*self.command(TARGET, "--append"), env=store.environment(secret="another"))
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertEqual(qt.snapshot(store.server.folder / "bucket"), before)


if __name__ == "__main__":
    qt.main()
