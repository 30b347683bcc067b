"""Datasets in an S3 store and on a web server: the same bytes as from the directory, or an error that says what to do."""

import http.server
import json
import shutil
import ssl
import unittest

import object_stores
import quarry_testing as qt
from object_stores import Handler, Lies, Store, WritableS3Handler

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
        """The manifest, and where the steps are listed, at once; the step, the tables, and the payload."""
        with Store(self.folder, WritableS3Handler) as store:
            published = self.target.replace("turb.quarry", "published.quarry")
            qt.succeed("quarry", "cp", self.path, published, env=store.environment())
            for target, number_of_lists in ((self.target, 1), (published, 0)):
                before = len(store.asked)
                self.bytes_of(target, "--step", 0, "--level", 2, env=store.environment())
                asked = store.asked[before:]
                files = [line for line in asked if ".qsf" in line]
                lists = [line for line in asked if "list-type" in line]
                self.assertEqual(len([line for line in lists if "continuation-token" not in line]), number_of_lists, asked)
                others = [line.rpartition("turb.quarry/")[2].rpartition("published.quarry/")[2]
                          for line in asked if line not in files + lists]
                self.assertEqual(sorted(others), ["dataset.json", "head", "steps/.partial-catalogue-is-current",
                                                  "steps/000000/step.json"])
                self.assertEqual([line for line in asked if line.startswith("HEAD")], [])

    def test_a_first_picture_is_in_the_coarse_object(self):
        path = self.path.with_name("coarse.quarry")
        for field in ("f", "g"):
            qt.convert(qt.make_field((80, 70, 50), "<f4", name=field), path, "--relative", "1e-6", "--patch", "16", "--files", "3",
                       "--field", field, *(["--append", "--step", 0] if field == "g" else ["--order", "coarse"]))
        target = self.target.replace("turb.quarry", "coarse.quarry")
        with Store(self.folder) as store, Store(path.parent, Handler) as web:
            for place, server, env in ((target, store, store.environment()), (f"{web.url}/coarse.quarry", web, {})):
                for field in ("f", "g"):
                    for question, objects, ranges in ((("--level", 2), 1, False), (("--level", 0), 1, True),
                                                      (("--box", "3:30,5:20,7:20"), 0, True)):
                        with self.subTest(place=place, field=field, question=question):
                            before = len(server.asked)
                            got = self.bytes_of(place, "--field", field, *question, env=env)
                            asked = server.asked[before:]
                            self.assertEqual(got, self.bytes_of(path, "--field", field, *question))
                            self.assertEqual(len([line for line in asked if line.endswith("/steps/000000/coarse")]), objects, asked)
                            self.assertEqual(any(".qsf" in line for line in asked), ranges, asked)
            (path / "steps/000000/coarse").unlink()
            self.assertEqual(self.bytes_of(target, "--field", "f", "--level", 2, env=store.environment()),
                             self.bytes_of(path, "--field", "f", "--level", 2))

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

    def test_a_certificate_that_nobody_has_signed_has_to_be_named(self):
        object_stores.make_certificate(self.tmp)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.tmp / "cert.pem", self.tmp / "key.pem")
        with Store(self.path.parent, Handler, tls=tls) as web:
            target = f"{web.url}/turb.quarry"
            outcome = qt.run("quarry", "info", target)
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertIn("certificate is not trusted", outcome.err)
            self.assertIn("AWS_CA_BUNDLE", outcome.err)
            self.assertEqual(self.bytes_of(target, "--step", 1, env={"AWS_CA_BUNDLE": str(self.tmp / "cert.pem")}),
                             self.bytes_of(self.path, "--step", 1))

    def test_a_web_server_cannot_be_listed(self):
        with Store(self.path.parent, Handler) as web:
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
                # An honest store and one that always lies make sure of both outcomes, whatever the seed.
                store.server.spoil = Lies(qt.SEED + run, share=(0.05, 0.3, 0, 1)[(run + run // 4) % 4])
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
