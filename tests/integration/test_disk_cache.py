"""The cache on disk of datasets in stores and on web servers: the right bytes whatever happens to its files, and fewer
requests."""

import errno
import json
import random
import shutil
import signal
import subprocess
import unittest

import quarry_testing as qt
import test_object_stores
from object_stores import Handler, Lies, Store

LIBRARY = qt.BIN.parent / "lib" / "libfail_call.so"
MOMENTS = qt.scaled(100, 1000)


class DiskCache(test_object_stores.Datasets):
    def setUp(self):
        super().setUp()
        self.cache = self.tmp / "cache"

    def cached(self, store, size="64MiB"):
        return store.environment() | {"QUARRY_CACHE": str(self.cache), "QUARRY_CACHE_SIZE": size}

    def files(self):
        return sorted(path for path in (self.cache / "blocks-1").rglob("*") if path.is_file())

    def asked_by(self, store, target, question, env):
        """Bytes of an answer, and what the store was asked for."""
        before = len(store.asked)
        return self.bytes_of(target, *question, env=env), store.asked[before:]

    def test_the_second_run_asks_for_manifests_and_lists_alone(self):
        with Store(self.folder) as store, Store(self.path.parent, Handler) as web:
            places = [(store, self.target, self.cached(store)),
                      (web, f"{web.url}/turb.quarry?sig=very-secret", {"QUARRY_CACHE": str(self.cache)})]
            for server, target, env in places:
                for question in self.questions():
                    with self.subTest(target=target, question=question):
                        wanted = self.bytes_of(self.path, *question)
                        got, first = self.asked_by(server, target, question, env)
                        self.assertEqual(got, wanted)
                        self.assertTrue(any(".qsf" in line for line in first), first)
                        got, second = self.asked_by(server, target, question, env)
                        self.assertEqual(got, wanted)
                        self.assertEqual([line for line in second if ".qsf" in line], [])
        for file in self.files():
            self.assertNotIn(b"very-secret", file.read_bytes())
            self.assertNotIn("secret", str(file))

    def test_packed_steps_are_kept_by_the_version_of_the_pack(self):
        wanted = self.bytes_of(self.path, "--step", 2)
        qt.succeed("quarry", "pack", self.path)
        with Store(self.folder) as store:
            question = ("--step", 2)
            _, first = self.asked_by(store, self.target, question, self.cached(store))
            got, second = self.asked_by(store, self.target, question, self.cached(store))
            self.assertEqual(got, wanted)
            self.assertLess(len([line for line in second if ".qsp" in line]), len([line for line in first if ".qsp" in line]))
            self.assertTrue(self.files())

    def test_what_a_command_says_of_it(self):
        with Store(self.folder) as store:
            environment = store.environment()
            get = ("quarry", "get", self.target, "--step", 0, "--output", self.tmp / "a.raw", "--cache", self.cache)
            first = json.loads(qt.succeed(*get, "--json", env=environment).out)
            second = json.loads(qt.succeed(*get, "--json", env=environment).out)
            self.assertGreaterEqual(second["bytes_from_cache"], second["bytes_received"])
            self.assertLess(first["bytes_from_cache"], second["bytes_from_cache"])
            self.assertIn("from the cache, 0 B from the store", qt.succeed(*get, "--verbose", env=environment).err)
            without = qt.succeed("quarry", "get", *get[2:-2], "--cache", "", "--verbose",
                                 env=environment | {"QUARRY_CACHE": str(self.cache)})
            self.assertNotIn("cache", without.err)
        held = json.loads(qt.succeed("quarry", "cache", self.cache, "--json").out)
        self.assertEqual([dataset["url"] for dataset in held["datasets"]], [f"s3://bucket/{test_object_stores.FOLDER}/turb.quarry"])
        self.assertEqual(held["files"], len(self.files()))
        self.assertEqual(held["bytes"], sum(file.stat().st_blocks * 512 for file in self.files()))
        half = held["bytes"] // 2
        trimmed = json.loads(qt.succeed("quarry", "cache", self.cache, "--size", half, "--json").out)
        self.assertLessEqual(trimmed["bytes"], half)
        self.assertIn("turb.quarry", qt.succeed("quarry", "cache", env={"QUARRY_CACHE": str(self.cache)}).out)
        qt.succeed("quarry", "cache", self.cache, "--clear")
        self.assertEqual(self.files(), [])
        self.assertEqual(qt.run("quarry", "cache", self.tmp / "none").code, qt.NOT_FOUND)
        self.assertEqual(qt.run("quarry", "cache", env={"QUARRY_CACHE": ""}).code, qt.USAGE)
        self.assertEqual(qt.run("quarry", "info", "s3://b/a.quarry", env={"QUARRY_CACHE": str(self.cache),
                                                                          "QUARRY_CACHE_SIZE": "much"}).code, qt.USAGE)

    def test_a_republished_dataset_is_read_anew(self):
        with Store(self.folder) as store:
            for _ in range(2):
                self.bytes_of(self.target, "--step", 0, env=self.cached(store))
            shutil.rmtree(self.path)
            other = qt.make_field(test_object_stores.DIMS, "<f4", name="another")
            qt.convert(qt.with_holes(other, float("nan")), self.path, "--relative", "1e-3", "--patch", "16", "--files", "3")
            wanted = self.bytes_of(self.path, "--step", 0)
            for _ in range(2):
                self.assertEqual(self.bytes_of(self.target, "--step", 0, env=self.cached(store)), wanted)

    def test_verify_looks_at_the_store(self):
        with Store(self.folder) as store:
            self.bytes_of(self.target, "--step", 0, env=self.cached(store))
            file = sorted(self.path.rglob("*.qsf"))[0]
            data = bytearray(file.read_bytes())
            data[200] ^= 1
            file.write_bytes(data)
            self.assertEqual(qt.run("quarry", "verify", self.target, env=self.cached(store)).code, qt.DAMAGED)

    def test_a_folder_that_cannot_be_used_costs_a_warning(self):
        wanted = self.bytes_of(self.path, "--step", 0)
        self.cache.mkdir()
        self.cache.chmod(0o777)
        file = self.tmp / "file"
        file.write_text("mine")
        with Store(self.folder) as store:
            for place in (self.cache, file, file / "below"):
                output = self.tmp / "out.raw"
                outcome = qt.succeed("quarry", "get", self.target, "--step", 0, "--output", output, "--cache", place,
                                     env=store.environment())
                self.assertEqual(output.read_bytes(), wanted)
                self.assertEqual(outcome.err.count("warning: the cache"), 1, outcome.err)

    def test_a_store_that_lies(self):
        """The right answer or an error; and when the store is honest again, the right answer, whatever was kept."""
        wanted = {question: self.bytes_of(self.path, *question) for question in self.questions()}
        bad = 0
        with Store(self.folder) as store:
            for run in range(qt.scaled(12, 300)):
                question = self.questions()[run % len(wanted)]
                output = self.tmp / "out.raw"
                store.server.spoil = Lies(qt.SEED + run, share=1 if run == 0 else 0.3)  # so that one run fails
                outcome = qt.run("quarry", "get", self.target, "--output", output, *question, env=self.cached(store))
                if outcome.code == qt.DONE:
                    self.assertEqual(output.read_bytes(), wanted[question])
                bad += outcome.code != qt.DONE
                store.server.spoil = None
                self.assertEqual(self.bytes_of(self.target, *question, env=self.cached(store)), wanted[question])
        self.assertGreater(bad, 0)

    def flip(self, chance):
        """Damages a file: a bit, its end, or a piece of another one."""
        files = self.files()
        if not files:
            return
        file = chance.choice(files)
        data = bytearray(file.read_bytes())
        if not data:
            return
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            other = chance.choice(files).read_bytes()
            data[at:at + 4096] = other[at:at + 4096]
        else:
            data[at] ^= 1 << chance.randrange(8)
        file.write_bytes(data)

    def test_killed_and_flipped_at_any_moment(self):
        """A reader is killed before a write to the cache, or in the midst of one, while another one reads; then the files
        are damaged. Every answer is right all the same."""
        chance = random.Random(qt.SEED)
        wanted = {question: self.bytes_of(self.path, *question) for question in self.questions()}
        killed = 0
        with Store(self.folder) as store:
            for moment in range(MOMENTS):
                question = chance.choice(self.questions())
                env = self.cached(store, chance.choice(["100KiB", "1MiB", "64MiB"]))
                fault = {"LD_PRELOAD": str(LIBRARY), "QUARRY_FAIL_CALL": chance.choice(["write", "write", "open", "read"]),
                         "QUARRY_FAIL_AT": str(chance.randrange(1, 20)), "QUARRY_FAIL_BELOW": str(self.cache),
                         "QUARRY_FAIL_ERRNO": str(-signal.SIGKILL), "QUARRY_FAIL_REPORT": str(self.tmp / "report")}
                output = self.tmp / "killed.raw"
                output.unlink(missing_ok=True)
                victim = subprocess.Popen([qt.executable("quarry"), "get", self.target, "--output", output,
                                           *map(str, question)], env=qt.ENVIRONMENT | env | fault,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                beside = chance.choice(self.questions())
                self.assertEqual(self.bytes_of(self.target, *beside, env=env), wanted[beside], moment)
                code = victim.wait()
                self.assertIn(code, (0, -signal.SIGKILL))
                killed += code != 0
                if code == 0:
                    self.assertEqual(output.read_bytes(), wanted[question])
                self.flip(chance)
                self.assertEqual(self.bytes_of(self.target, *question, env=env), wanted[question], moment)
        self.assertGreater(killed, MOMENTS // 4)

    def test_each_call_on_its_files_may_fail(self):
        """A full disk, a disk that fails and half-done writes: the right answer, with at most one warning."""
        wanted = self.bytes_of(self.path, "--step", 1)
        with Store(self.folder) as store:
            for kind in ("open", "write", "read"):
                for error in (errno.ENOSPC, errno.EIO, errno.EROFS, 0)[:4 if kind != "open" else 3]:
                    for at in range(1, qt.scaled(4, 100)):
                        report = self.tmp / "report"
                        report.unlink(missing_ok=True)
                        shutil.rmtree(self.cache, ignore_errors=True)
                        if kind == "read":
                            self.bytes_of(self.target, "--step", 1, env=self.cached(store))
                        env = self.cached(store) | {
                            "LD_PRELOAD": str(LIBRARY), "QUARRY_FAIL_CALL": kind, "QUARRY_FAIL_AT": str(at),
                            "QUARRY_FAIL_BELOW": str(self.cache), "QUARRY_FAIL_ERRNO": str(error),
                            "QUARRY_FAIL_REPORT": str(report)}
                        output = self.tmp / "out.raw"
                        outcome = qt.succeed("quarry", "get", self.target, "--step", 1, "--output", output, env=env)
                        self.assertEqual(output.read_bytes(), wanted, (kind, error, at))
                        self.assertLessEqual(outcome.err.count("warning"), 1, outcome.err)
                        self.assertEqual(self.bytes_of(self.target, "--step", 1, env=self.cached(store)), wanted)
                        if not report.exists():
                            break


if __name__ == "__main__":
    unittest.main()
