"""A server of datasets in a bucket or on a web server: the answers of the directory, few requests, and no secret in any of them."""

import json
import re
import signal
import threading
import time
import unittest
import urllib.request

import object_stores
import quarry_testing as qt
import test_object_stores
from object_stores import Handler, S3Handler, Store
from test_watch import Watcher

SECRETS = ("very-secret", object_stores.SECRET, object_stores.KEY)
ACCOUNT = "arn:aws:iam::123456789012:user/jane"  # such names are in the reasons of real stores


class ScriptedS3(S3Handler):
    """A bucket that is down, refuses, or hangs where a test wants it to."""

    def refused(self, path, query):
        mood = getattr(self.server, "mood", "well")
        if mood == "down":
            self.close_connection = True
            return True
        if mood == "refuses" or mood == "refuses lists" and "list-type" in query:
            reason = f"<Error><Code>AccessDenied</Code><Message>User: {ACCOUNT} is not authorized</Message></Error>"
            self.send(403, reason.encode(), self.command == "GET")
            return True
        if isinstance(mood, re.Pattern) and mood.search(self.path):
            self.server.hanging.release()
            self.server.go_on.wait()
        return super().refused(path, query)


class Server(qt.Server):
    def reload(self):
        self._process.send_signal(signal.SIGHUP)


class UrlRoots(test_object_stores.Datasets):
    def setUp(self):
        super().setUp()
        self.root = self.target.rpartition("/")[0]

    def store(self, handler=ScriptedS3):
        store = Store(self.folder, handler)
        store.server.hanging, store.server.go_on = threading.Semaphore(0), threading.Event()
        return store

    def ask(self, server, *options):
        """Outcome of a question, and the bytes of its answer."""
        output = self.tmp / "answer.raw"
        output.unlink(missing_ok=True)
        outcome = qt.run("quarry", "get", server.target("turb"), "--output", output, *options)
        return outcome, output.read_bytes() if output.exists() else b""

    def assert_no_secret(self, *texts):
        for text in texts:
            for secret in (*SECRETS, ACCOUNT):
                self.assertNotIn(secret, text)

    def fetch(self, server, path):
        with urllib.request.urlopen(f"http://{server.http_address()}{path}") as answer:
            return answer.read()

    def assert_same_zarr(self, server, directory):
        keys = ["zarr.json", "0/f/zarr.json", "0/f/c/2/0/0/0", "2/f/c/3/0/0/0"]
        for key in keys:
            with self.subTest(key=key):
                self.assertEqual(self.fetch(server, f"/zarr/turb/{key}"), self.fetch(directory, f"/zarr/turb/{key}"))

    def test_every_answer_is_that_of_the_directory(self):
        options = ("--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
        with self.store() as store, Store(self.path.parent, Handler) as web, qt.Server(self.path.parent, *options) as directory:
            roots = [(self.root, store.environment()), (self.target, store.environment()),
                     (f"{web.url}/turb.quarry?sig=very-secret", {})]
            for root, environment in roots:
                with self.subTest(root=root), qt.Server(root, *options, env=environment) as server:
                    for question in self.questions():
                        outcome, got = self.ask(server, *question)
                        self.assertEqual(outcome.code, qt.DONE, outcome)
                        self.assertEqual(got, self.bytes_of(self.path, *question))
                    for command in (("info", "--json"), ("stats", "--field", "f", "--json"), ("plan", "--json", "--step", 1)):
                        wanted, got = (json.loads(qt.succeed("quarry", command[0], of.target("turb"), *command[1:]).out)
                                       for of in (directory, server))
                        for cost in ("reads", "bytes_read"):  # gaps are joined as the storage wants it
                            wanted.pop(cost, None), got.pop(cost, None)
                        self.assertEqual(got, wanted)
                    wanted, got = (qt.succeed("quarry", "ls", "--json", f"grpc://{of.address}").out for of in (directory, server))
                    self.assertEqual(got, wanted)
                    self.assert_same_zarr(server, directory)
                    self.assert_no_secret(server.log(), json.dumps(server.metrics()), qt.succeed(
                        "quarry", "info", server.target("turb")).out)
            asked = store.asked + web.asked
            self.assertEqual([line for line in asked if "index" in line or "seal" in line], [], "it is for local datasets")

    def test_questions_cost_their_payload(self):
        """Looks at the dataset are shared by all questions of two seconds."""
        with self.store() as store, qt.Server(self.root, env=store.environment()) as server:
            self.assertEqual(self.ask(server, "--step", 1, "--box", "0:4,0:4,0:4")[0].code, qt.DONE)
            begin, before = time.monotonic(), len(store.asked)
            for corner in range(30):
                self.assertEqual(self.ask(server, "--step", 1, "--box", f"{corner}:{corner + 9},3:9,2:7")[0].code, qt.DONE)
            seconds = time.monotonic() - begin
            asked = store.asked[before:]
        looks = [line for line in asked if ".qsf" not in line]
        self.assertNotEqual(looks, asked, "payload is read")
        per_look = 5  # dataset.json, the steps with two pages of their list, step.json
        self.assertLessEqual(len(looks), per_look * (1 + seconds / 2), looks)

    def test_the_next_server_goes_on_with_the_cache_on_disk(self):
        options = ("--cache", self.tmp / "cache", "--cache-size", "1GiB", "--metrics", "127.0.0.1:0")
        metric = "quarry_disk_cache_{}_total".format
        question = ("--step", 1, "--box", "0:20,0:20,0:10")
        with self.store() as store:
            for turn in (0, 1):
                before = len(store.asked)
                with qt.Server(self.root, *options, env=store.environment()) as server:
                    outcome, got = self.ask(server, *question)
                    self.assertEqual(outcome.code, qt.DONE, outcome)
                    self.assertEqual(got, self.bytes_of(self.path, *question))
                    metrics = server.metrics()
                payload = [line for line in store.asked[before:] if ".qsf" in line]
                self.assertEqual(bool(payload), turn == 0, payload)
                self.assertEqual(metrics[metric("fetched_bytes")] > 0, turn == 0)
                self.assertGreaterEqual(metrics[metric("read_bytes")], turn * len(got) / 20)
                self.assertEqual(metrics[metric("damaged_blocks")], 0)
        for size in ("0", "much"):
            outcome = qt.run("quarry-server", self.root, "--cache", self.tmp / "cache", "--cache-size", size, "--listen", "127.0.0.1:0")
            self.assert_one_line(outcome, qt.USAGE, "--cache-size")
        with qt.Server(self.path.parent, "--metrics", "127.0.0.1:0") as local:
            self.assertNotIn(metric("read_bytes"), local.metrics())

    def looks_of_servers(self, asked):
        """The looks at a dataset that a server has open, one line of each."""
        return [line for line in asked if line.startswith("HEAD") and "turb.quarry/dataset.json" in line]

    def test_watchers_share_their_looks(self):
        for step in (4, 5):  # new steps come later
            qt.convert(qt.make_field(test_object_stores.DIMS, "<f4", name=step), self.path, "--relative", "1e-3", "--patch", "16",
                       "--step", step, "--append")
        late = self.path / "steps" / "000005"
        kept = late.rename(self.tmp / "kept")
        (self.path / "steps" / "current").unlink(missing_ok=True)
        with self.store() as store, qt.Server(self.root, "--watch", "0.05", env=store.environment()) as server:
            watchers = [Watcher(server.target("turb")) for _ in range(4)]
            watchers.append(Watcher(self.target, env=store.environment()))
            try:
                for watcher in watchers:
                    watcher.wait_for(4)
                begin, before = time.monotonic(), len(store.asked)
                while len(looks := self.looks_of_servers(store.asked[before:])) < 4:
                    pass
                self.assertLessEqual(len(looks), 2 + (time.monotonic() - begin) / 2, "one for all watchers")
                kept.rename(late)
                for watcher in watchers:
                    watcher.wait_for(5)
                    self.assertEqual(watcher.steps, [0, 1, 2, 3, 4, 5])
            finally:
                for watcher in watchers:
                    watcher.stop()

    def test_a_store_that_dies_and_comes_back(self):
        with self.store() as store, qt.Server(self.root, env=store.environment()) as server:
            wanted = self.bytes_of(self.path, "--step", 2)
            self.assertEqual(self.ask(server, "--step", 2)[1], wanted)
            store.server.mood = "down"
            while (outcome := self.ask(server, "--step", 3)[0]).code == qt.DONE:
                pass  # it is in memory
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertIn("its store does not answer", outcome.err)
            self.assertNotIn("s3://", outcome.err)
            self.assertIn("s3://bucket", server.log_until("cannot be read"))
            listed = qt.run("quarry", "ls", f"grpc://{server.address}")
            self.assertEqual(listed.code, qt.UNREACHABLE, listed)
            store.server.mood = "well"
            while (got := self.ask(server, "--step", 2))[0].code == qt.UNREACHABLE:
                pass  # for as long as an error is kept
            self.assertEqual(got[1], wanted)
            self.assert_no_secret(server.log(), outcome.err, listed.err)

    def test_a_store_that_refuses(self):
        with self.store() as store, Server(self.root, env=store.environment()) as server:
            store.server.mood = "refuses lists"
            outcome, _ = self.ask(server, "--step", 2)
            self.assertIn("does not answer as it should", outcome.err)
            self.assert_no_secret(outcome.err, qt.run("quarry", "ls", f"grpc://{server.address}").err)
            server.reload()
            server.log_until("opened anew")
            store.server.mood = "refuses"
            outcome, _ = self.ask(server, "--step", 2)
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertIn("may not be read by this server", outcome.err)
            self.assert_no_secret(outcome.err)
            for word in ("s3://", "AWS_", "Denied"):
                self.assertNotIn(word, outcome.err)
            self.assertIn(ACCOUNT, server.log_until("AccessDenied"), "the operator has to know")

    def test_a_store_that_hangs_holds_no_deadline_and_no_other_dataset(self):
        other = self.path.with_name("other.quarry")
        qt.convert(qt.make_field(test_object_stores.DIMS, "<f4", name="other"), other, "--relative", "1e-3", "--step", 0)
        for place in ("turb.quarry/dataset.json", r"turb.*step\.json", r"turb.*\.qsf"):
            with self.subTest(place=place), self.store() as store, \
                    qt.Server(self.root, "--deadline", "1", env=store.environment()) as server:
                store.server.mood = re.compile(place)
                held = []
                asking = threading.Thread(target=lambda: held.append(self.ask(server, "--step", 0)[0]))
                asking.start()
                store.server.hanging.acquire()
                got = qt.get(server.target("other"), self.tmp / "other.raw")
                self.assertEqual(got, self.bytes_of(other))
                asking.join()
                self.assertIn("longer than the 1 s that this server allows", held[0].err)
                store.server.go_on.set()

    def test_a_list_goes_on_without_what_hangs(self):
        other = self.path.with_name("other.quarry")
        qt.convert(qt.make_field(test_object_stores.DIMS, "<f4", name="other"), other, "--relative", "1e-3", "--step", 0)
        with self.store() as store, qt.Server(self.root, env=store.environment()) as server:
            store.server.mood = re.compile(r"turb.*(head|steps)")
            listed = json.loads(qt.succeed("quarry", "ls", "--json", f"grpc://{server.address}").out)
            store.server.go_on.set()
        self.assertEqual([(one["name"], one["late"]) for one in listed], [("other", False), ("turb", True)])

    def test_a_web_server_shows_new_steps(self):
        with Store(self.path.parent, Handler) as web, qt.Server(f"{web.url}/turb.quarry") as server:
            self.assertEqual(self.ask(server, "--step", 4)[0].code, qt.NOT_FOUND)
            qt.convert(qt.make_field(test_object_stores.DIMS, "<f4", name=4), self.path, "--relative", "1e-3", "--patch", "16",
                       "--step", 4, "--append")
            while (got := self.ask(server, "--step", 4))[0].code == qt.NOT_FOUND:
                pass  # a look is trusted for two seconds
            self.assertEqual(got[1], self.bytes_of(self.path, "--step", 4))

    def test_a_web_server_is_watched_by_its_head(self):
        with Store(self.path.parent, Handler) as web, qt.Server(f"{web.url}/turb.quarry", "--watch", "0.05") as server:
            watchers = [Watcher(server.target("turb")), Watcher(f"{web.url}/turb.quarry")]
            try:
                for watcher in watchers:
                    watcher.wait_for(3)
                qt.convert(qt.make_field(test_object_stores.DIMS, "<f4", name=4), self.path, "--relative", "1e-3", "--patch",
                           "16", "--step", 4, "--append")
                for watcher in watchers:
                    watcher.wait_for(4)
                    self.assertEqual(watcher.steps, [0, 1, 2, 3, 4])
            finally:
                for watcher in watchers:
                    watcher.stop()

    def test_what_cannot_be_served_is_refused_at_the_start(self):
        with self.store() as store, Store(self.path.parent, Handler) as web:
            cases = [
                ((web.url,), {}, qt.NOT_FOUND, "no lists of files"),
                ((f"{web.url}/none.quarry?sig=very-secret",), {}, qt.NOT_FOUND, "none.quarry"),
                (("s3://bucket/nothing",), store.environment(), qt.NOT_FOUND, "s3://bucket/nothing"),
                ((self.root,), store.environment(secret="very-secret"), qt.UNREACHABLE, "AWS_ACCESS_KEY_ID"),
                ((self.root, "--index", self.tmp), store.environment(), qt.USAGE, "--index"),
                (("http://store.invalid/turb.quarry",), {}, qt.USAGE, "--allow-http"),
                (("https://me:very-secret@host/turb.quarry",), {}, qt.USAGE, "user and password"),
            ]
            for arguments, environment, code, word in cases:
                with self.subTest(arguments=arguments), self.assertRaises(qt.Server.Refused) as refused, \
                        qt.Server(*arguments, env=environment):
                    pass
                outcome = refused.exception.args[0]
                self.assertEqual(outcome.code, code, outcome)
                self.assertIn(word, outcome.err)
                self.assert_no_secret(outcome.err.replace("AWS_ACCESS_KEY_ID", ""))

    def test_no_index_of_a_url(self):
        for arguments in ((self.target,), ("https://host/x.quarry?sig=very-secret", "--verify"), (self.path, "--index", self.root)):
            outcome = qt.run("quarry-index", *arguments)
            self.assertEqual(outcome.code, qt.USAGE, outcome)
            self.assertIn("dataset in a directory", outcome.err)
            self.assert_no_secret(outcome.err)


if __name__ == "__main__":
    unittest.main()
