"""Datasets in an S3 store and on a web server: the same bytes as from the directory, or an error that says what to do."""

import http.server
import json
import shutil
import unittest

import object_stores
import quarry_testing as qt
from object_stores import Handler, Lies, Store

DIMS = (40, 33, 21)
FOLDER = "run 42/a+b"  # names that have to be escaped


class Datasets(qt.QuarryTest):
    """A dataset of four steps, and questions."""

    def setUp(self):
        super().setUp()
        self.path = self.tmp / "store" / "bucket" / FOLDER / "turb.quarry"
        self.path.parent.mkdir(parents=True)
        for step in range(4):  # more names than a page of a list has
            qt.convert(qt.with_holes(qt.make_field(DIMS, "<f4", name=step), float("nan")), self.path, "--relative", "1e-3",
                       "--patch", "16", "--files", "3", "--step", step, *["--append"] * bool(step))
        self.folder = self.tmp / "store"
        self.target = f"s3://bucket/{FOLDER.replace(' ', '%20')}/turb.quarry"

    def bytes_of(self, target, *options, env=None):
        output = self.tmp / "out.raw"
        qt.succeed("quarry", "get", target, "--output", output, *options, env=env or {})
        return output.read_bytes()

    def questions(self):
        return [("--step", 0), ("--step", 3, "--box", "3:30,5:20,7:20"), ("--step", 2, "--level", 2),
                ("--step", 1, "--stride", 5)]

    def assert_same_reports(self, target, env):
        for command in (("info", "--json"), ("stats", "--field", "f", "--json"), ("verify", "--json"),
                        ("plan", "--json", "--step", 1)):
            with self.subTest(command=command):
                wanted, got = (json.loads(qt.succeed("quarry", command[0], place, *command[1:], env=env).out)
                               for place in (self.path, target))
                for cost in ("reads", "bytes_read"):  # gaps are joined as the storage wants it
                    wanted.pop(cost, None), got.pop(cost, None)
                self.assertEqual(got, wanted)


class ObjectStores(Datasets):
    def test_every_answer_is_that_of_the_directory(self):
        with Store(self.folder) as store, Store(self.path.parent, Handler) as web:
            for question in self.questions():
                with self.subTest(question=question):
                    wanted = self.bytes_of(self.path, *question)
                    self.assertEqual(self.bytes_of(self.target, *question, env=store.environment()), wanted)
                    self.assertEqual(self.bytes_of(f"{web.url}/turb.quarry", *question), wanted)
            self.assert_same_reports(self.target, store.environment())
            listed = qt.succeed("quarry", "ls", self.target.rpartition("/")[0], env=store.environment()).out
            self.assertIn("turb", listed)

    def test_the_first_picture_takes_few_requests(self):
        """The manifest and the lists at once, the step, the tables, and the payload: more would be asked one after the other."""
        with Store(self.folder) as store:
            self.bytes_of(self.target, "--step", 0, "--level", 2, env=store.environment())
            asked = list(store.asked)
        files = [line for line in asked if ".qsf" in line]
        lists = [line for line in asked if "list-type" in line]
        self.assertEqual(len([line for line in lists if "continuation-token" not in line]), 1, asked)
        self.assertEqual(len(asked) - len(files) - len(lists), 2, asked)
        self.assertEqual([line for line in asked if line.startswith("HEAD")], [])

    def test_a_public_bucket_needs_no_credentials(self):
        with Store(self.folder, public=True) as store:
            environment = store.environment(key="", secret="")
            self.assertEqual(self.bytes_of(self.target, "--step", 0, env=environment), self.bytes_of(self.path, "--step", 0))

    def test_errors_say_what_to_do_and_no_secret(self):
        with Store(self.folder) as store, Store(self.path.parent, Handler) as web:
            cases = [
                (self.target, store.environment(key="", secret=""), qt.UNREACHABLE, "AWS_ACCESS_KEY_ID"),
                (self.target, store.environment(secret="another-secret"), qt.UNREACHABLE, "AWS_ACCESS_KEY_ID"),
                (self.target, store.environment(secret=""), qt.USAGE, "AWS_SECRET_ACCESS_KEY"),
                (self.target, store.environment() | {"AWS_PROFILE": "x", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
                 qt.USAGE, "\"x\""),
                (self.target.replace("turb", "none"), store.environment(), qt.NOT_FOUND, "none.quarry"),
                (f"{web.url}/none.quarry?sig=very-secret", {}, qt.NOT_FOUND, "none.quarry"),
                ("http://store.invalid/turb.quarry", {}, qt.USAGE, "--allow-http"),
                ("https://me:very-secret@host/turb.quarry", {}, qt.USAGE, "user and password"),
            ]
            for target, environment, code, word in cases:
                with self.subTest(target=target, word=word):
                    outcome = qt.run("quarry", "info", target, env=environment)
                    self.assertEqual(outcome.code, code, outcome)
                    self.assertIn(word, outcome.err)
                    self.assertNotIn("secret=", outcome.err)
                    for secret in ("another-secret", "very-secret", object_stores.SECRET):
                        self.assertNotIn(secret, outcome.err)

    def test_a_server_without_ranges_is_refused(self):
        class Files(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, directory=str(outer), **options)

            def log_message(self, *words):
                pass

        outer = self.path.parent
        with Store(outer, Files) as web:
            outcome = qt.run("quarry", "get", f"{web.url}/turb.quarry", "--output", self.tmp / "out.raw")
        self.assertEqual(outcome.code, qt.USAGE, outcome)
        self.assertIn("Range", outcome.err)
        self.assertFalse((self.tmp / "out.raw").exists())

    def test_a_web_server_cannot_be_watched_or_listed(self):
        with Store(self.path.parent, Handler) as web:
            outcome = qt.run("quarry", "watch", f"{web.url}/turb.quarry")
            self.assertEqual(outcome.code, qt.USAGE, outcome)
            self.assertIn("no lists of files", outcome.err)
            self.assertIn("no lists of files", qt.run("quarry", "ls", web.url).err)

    def test_packs_are_read_from_a_store_and_refused_on_a_web_server(self):
        wanted = self.bytes_of(self.path, "--step", 2)
        qt.succeed("quarry", "pack", self.path)
        with Store(self.folder) as store, Store(self.path.parent, Handler) as web:
            self.assertEqual(self.bytes_of(self.target, "--step", 2, env=store.environment()), wanted)
            outcome = qt.run("quarry", "info", f"{web.url}/turb.quarry")
            self.assertEqual(outcome.code, qt.USAGE, outcome)
            self.assertIn("--unpack", outcome.err)

    def test_a_store_that_lies(self):
        """The right answer, or an error; never other bytes, nor a program that does not end."""
        wanted = {question: self.bytes_of(self.path, *question) for question in self.questions()}
        good = bad = 0
        with Store(self.folder, public=True) as store:
            environment = store.environment(key="", secret="")
            for run in range(qt.scaled(12, 1000)):
                store.server.spoil = Lies(qt.SEED + run, share=(0.05, 0.3)[run % 2])
                question = self.questions()[run % len(wanted)]
                output = self.tmp / "out.raw"
                output.unlink(missing_ok=True)
                outcome = qt.run("quarry", "get", self.target, "--output", output, *question, env=environment)
                if outcome.code == qt.DONE:
                    self.assertEqual(output.read_bytes(), wanted[question])
                    good += 1
                else:
                    self.assertIn(outcome.code, (qt.NOT_FOUND, qt.DAMAGED, qt.UNREACHABLE, qt.USAGE, qt.IO_ERROR), outcome)
                    self.assertIn("quarry: ", outcome.err)
                    self.assertFalse(output.exists(), outcome)
                    bad += 1
        self.assertGreater(good, 0)
        self.assertGreater(bad, 0)


if __name__ == "__main__":
    unittest.main()
