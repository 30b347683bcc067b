"""Mistakes of users, and faults of servers and disks: one clear exception each, no hang, and nothing left behind."""

import asyncio
import hashlib
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from python_testing import PACKAGE, SHAPE, STEPS, Package, descriptors, nothing_left, np, qt, quarry, threads


def mean_of(argument):
    """In a process of a pool: the mean of the first step, or the error's code."""
    dataset, name = argument
    try:
        return float(dataset[name][0].mean())
    except quarry.Error as error:
        return error.code


class Trouble(Package):
    def test_errors_have_codes(self):
        with self.assertRaises(quarry.Error) as raised:
            quarry.open(self.shared / "nothing.quarry")
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        self.assertEqual(pickle.loads(pickle.dumps(raised.exception)).code, "NOT_FOUND")
        with self.assertRaises(quarry.Error) as raised:
            quarry.open("grpc://127.0.0.1:1/run", retries=0, timeout=2)
        self.assertIn(raised.exception.code, ("UNAVAILABLE", "DEADLINE_EXCEEDED"))
        for dataset in self.targets():
            for question, code in ((dict(step=4), "NOT_FOUND"), (dict(level=99), "INVALID_ARGUMENT"),
                                   (dict(box=((0, 99), (0, 1), (0, 1))), "INVALID_ARGUMENT")):
                with self.subTest(**question), self.assertRaises(quarry.Error) as raised:
                    dataset["p"].read(**question)
                self.assertEqual(raised.exception.code, code)
        dataset.close()
        with self.assertRaisesRegex(quarry.Error, "is closed"):
            dataset["p"][0]

    def test_damage_raises_unless_it_is_allowed(self):
        path = self.tmp / "bad.quarry"
        subprocess.run(["cp", "-r", self.path, path], check=True)
        (subfile,) = (path / "steps/000005/p").iterdir()
        content = bytearray(subfile.read_bytes())
        for at in range(len(content) // 2, len(content) // 2 + 300):
            content[at] ^= 0xFF
        subfile.write_bytes(content)
        with quarry.open(path) as dataset:
            for read in (lambda field: field.read(step=5), lambda field: field[1], lambda field: list(field.stream(step=5)),
                         lambda field: asyncio.run(field.aread(step=5)), lambda field: field.stats(step=5)):
                with self.assertRaises(quarry.Error) as raised:
                    read(dataset["p"])
                self.assertEqual(raised.exception.code, "DATA_LOSS")
            np.testing.assert_array_equal(dataset["p"][0], self.decoded["p"][0])
            shown = dataset["p"].read(step=5, strict=False)
            self.assertEqual(shown.max_error, float("inf"))
            ((z, y, x), level), *_ = shown.damaged
            self.assertGreater(level, 0)
            undamaged = np.ones(SHAPE, bool)
            for (z, y, x), _ in shown.damaged:
                undamaged[slice(*z), slice(*y), slice(*x)] = False
            np.testing.assert_array_equal(shown.array[undamaged], self.decoded["p"][1][undamaged])

    def test_damage_in_a_layer_shows_the_one_before(self):
        path = self.tmp / "layers.quarry"
        field = qt.turbulent((40, 31, 20))
        quarry.write(path, field, field="f", layers=(1e-1, 1e-3), patch=16, files=1)
        with quarry.open(path) as dataset:
            rough, fine = (dataset["f"].read(layer=layer).array for layer in (0, 1))
            rough_bytes = dataset["f"].plan(layer=0).price.bytes
        (subfile,) = path.rglob("*.qsf")
        content = bytearray(subfile.read_bytes())
        content[144 + rough_bytes + 50] ^= 0x10  # the first payload behind the header and the rough layer: coarsest, patch 0
        subfile.write_bytes(content)
        with quarry.open(path) as dataset:
            with self.assertRaises(quarry.Error) as raised:
                dataset["f"].read()
            self.assertEqual(raised.exception.code, "DATA_LOSS")
            for shown in (dataset["f"].read(strict=False), dataset["f"].read(strict=False, progress=True)):
                self.assertEqual((shown.layer, shown.max_error), (1, float("inf")))
                self.assertEqual(shown.damaged, [(box, 0) for box, _ in shown.rougher])
                ((z, y, x), layer), = shown.rougher
                self.assertEqual(layer, 0)
                inside = (slice(*z), slice(*y), slice(*x))
                np.testing.assert_array_equal(shown.array[inside], rough[inside])
                fine[inside] = rough[inside]
                np.testing.assert_array_equal(shown.array, fine)

    def test_pickles_open_again(self):
        for dataset in self.targets():
            again = pickle.loads(pickle.dumps(dataset["p"]))
            np.testing.assert_array_equal(again[1], self.decoded["p"][1])
            again.dataset.close()

    def test_processes(self):
        """Forked, what is open is an error at once; handed over, it opens again: never a hang."""
        wanted = float(self.decoded["p"][0].mean())
        dataset = quarry.open(self.path)
        self.assertEqual(float(dataset["p"][0].mean()), wanted)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(mean_of, [(dataset, "p")] * 3).get(timeout=qt.TIMEOUT), [wanted] * 3)
        child = os.fork()
        if child == 0:
            ended = 1
            try:
                dataset["p"][0]
            except quarry.Error as error:
                ended = 0 if "is a fork" in str(error) else 2
            del dataset
            os._exit(ended)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        with quarry.open(self.server.target(self.path)) as remote, multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.map_async(mean_of, [(remote, "p")]).get(timeout=qt.TIMEOUT), ["FAILED_PRECONDITION"])
            self.assertEqual(float(remote["p"][0].mean()), wanted)
            with multiprocessing.get_context("spawn").Pool(1) as spawned:
                found = spawned.map_async(mean_of, [(dataset, "p"), (remote, "p")]).get(timeout=qt.TIMEOUT)
            self.assertEqual(found, [wanted] * 2)

    def test_nothing_is_left_behind(self):
        def use(target):
            with quarry.open(target) as dataset:
                dataset["p"][:]
                for _ in dataset["p"].stream():
                    break
                next(dataset.watch())

        for target in (self.path, self.server.target(self.path)):
            use(target)
            before = threads(), descriptors()
            for _ in range(5):
                use(target)
            # gRPC's own threads and sockets end a little later.
            end = time.monotonic() + qt.TIMEOUT
            while (threads() > before[0] + 2 or descriptors() > before[1] + 2) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertLessEqual(threads(), before[0] + 2)
            self.assertLessEqual(descriptors(), before[1] + 2)

    def test_many_threads(self):
        for dataset in self.targets():
            failures = []

            def read(dataset=dataset, failures=failures):
                for _ in range(5):
                    if not np.array_equal(dataset["p"][:, ::3], self.decoded["p"][:, ::3]):
                        failures.append("differs")

            running = [threading.Thread(target=read) for _ in range(6)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            self.assertEqual(failures, [])

    def test_interrupt(self):
        """Ctrl-C ends a wait for a step that never comes, and the program after it."""
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import quarry\n"
                "with quarry.open(sys.argv[2]) as dataset:\n"
                "    try:\n"
                "        print('begun', flush=True)\n"
                "        for step in dataset.watch(after=9): pass\n"
                "    except KeyboardInterrupt:\n"
                "        print('interrupted', flush=True)\n")
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target=target), subprocess.Popen(
                    [sys.executable, "-c", code, str(PACKAGE), target], stdout=subprocess.PIPE,
                    text=True) as process:
                self.assertEqual(process.stdout.readline(), "begun\n")
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.stdout.read(), "interrupted\n")
                self.assertEqual(process.wait(), 0)

    def interrupted(self, work):
        """Ctrl-C, by another thread, ends what does not end by itself."""
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            try:
                work()
            finally:
                timer.cancel()  # after work that has ended by itself, nothing may interrupt what follows
        timer.join()

    def test_interrupt_of_a_read_from_a_server_that_hangs(self):
        with qt.Server(self.data) as server, quarry.open(server.target(self.path), timeout=qt.TIMEOUT) as dataset:
            field = dataset["p"]
            reads = (lambda: field.read(step=5), lambda: field[1], lambda: next(field.stream(step=5)),
                     lambda: field.stats(step=5), lambda: field.plan(step=5))
            np.testing.assert_array_equal(field[1], self.decoded["p"][1])
            with nothing_left(self, spare=len(reads)):  # half of what ten reads would leave
                for read in reads * 2:
                    with server.hanging():
                        self.interrupted(read)
                    np.testing.assert_array_equal(field[1], self.decoded["p"][1])

    def test_interrupt_of_reads_from_a_directory(self):
        path = self.tmp / "large.quarry"
        quarry.write(path, np.random.default_rng(1).random((128, 256, 256), "f4"), field="f", lossless=True)

        def read_for_ever():
            while True:
                dataset["f"].read()

        with quarry.open(path) as dataset:
            dataset["f"].read()  # starts the threads that decode, which stay
            with nothing_left(self):
                self.interrupted(read_for_ever)

    def test_a_fork_that_only_exits(self):
        """While the parent's stream and watch are open, and with everything that an exit of the interpreter runs."""
        code = ("import os, sys; sys.path.insert(0, sys.argv[1]); import quarry, numpy\n"
                "dataset = quarry.open(sys.argv[2])\n"
                "feeds = [feed for name in 'pmk' for feed in (dataset[name].stream(), dataset.watch())]\n"
                "for feed in feeds: next(feed)\n"
                "child = os.fork()\n"
                "if child == 0: sys.exit(0)\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(list(feeds[0])))\n")
        with quarry.open(self.path) as dataset:
            levels = dataset.levels
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target=target):
                done = subprocess.run([sys.executable, "-c", code, str(PACKAGE), target], capture_output=True, text=True,
                                      timeout=qt.TIMEOUT)
                self.assertEqual((done.stdout, done.stderr), (f"0 {levels - 1}\n", ""))

    def fails(self, code, work, text=""):
        with self.assertRaisesRegex(quarry.Error, text) as raised:
            work()
        self.assertEqual(raised.exception.code, code)

    def test_a_server_that_is_killed_in_mid_stream(self):
        folder = self.tmp / "data"
        folder.mkdir()
        # Sockets and flow-control windows hold some 10 MB, which arrive after the server has ended.
        quarry.write(folder / "large.quarry", np.random.default_rng(1).random((256, 256, 256), "f4"), field="f",
                     lossless=True, patch=32)
        with qt.Server(folder) as server:
            target = server.target("large")
            with quarry.open(target, retries=1) as warm:
                warm["f"][0, 0, 0, 0]
            with nothing_left(self), quarry.open(target, retries=1) as dataset:
                stream = dataset["f"].stream()
                next(stream)
                server.kill()
                self.fails("UNAVAILABLE", lambda: list(stream))
                self.fails("UNAVAILABLE", lambda: dataset["f"][0])
                self.fails("UNAVAILABLE", lambda: asyncio.run(dataset["f"].aread()))
                self.fails("UNAVAILABLE", lambda: list(dataset.watch(patience=0.1)))

    def test_tokens_and_limits(self):
        tokens = self.tmp / "tokens"
        tokens.write_text("".join(f"{name} sha256:{hashlib.sha256(f'{name}-has-a-secret-of-32-characters-'.encode()).hexdigest()} "
                                  f"{datasets}\n" for name, datasets in (("alice", "run"), ("bob", "other"))))
        with qt.Server(self.data, "--tokens", tokens, "--max-request-bytes", 50000) as server:
            target = server.target(self.path)
            for token, code in (("", "UNAUTHENTICATED"), ("wrong", "UNAUTHENTICATED"),
                                ("bob-has-a-secret-of-32-characters-", "PERMISSION_DENIED")):
                self.fails(code, lambda token=token: quarry.open(target, token=token))
            with quarry.open(target, token="alice-has-a-secret-of-32-characters-") as dataset:
                self.fails("RESOURCE_EXHAUSTED", lambda: dataset["p"][0], "level")
                self.assertEqual(dataset["p"].read(level=2).level, 2)
                self.assertEqual(dataset["p"].read(max_bytes=50000).level, 1)

    def test_a_dataset_that_vanishes_and_one_that_grows(self):
        path = self.tmp / "run.quarry"
        shutil.copytree(self.path, path)
        with nothing_left(self), quarry.open(path) as dataset:
            dataset["p"][0, :2]
            quarry.write(path, self.decoded["p"][0], field="p", step=20, mode="append")
            self.assertEqual(dataset["p"].shape[0], len(STEPS))  # an array does not change its shape by itself
            dataset.refresh()
            self.assertEqual(dataset["p"].shape[0], len(STEPS) + 1)
            np.testing.assert_allclose(dataset["p"][-1], self.decoded["p"][0], atol=1e-3)
            shutil.rmtree(path)
            self.fails("DATA_LOSS", lambda: dataset["m"].read(step=5, box=((0, 5), (0, 5), (0, 5))))
            self.fails("NOT_FOUND", lambda: list(dataset.watch()))

    def test_words_that_mean_nothing(self):
        for dataset in self.targets():
            with self.assertRaisesRegex(KeyError, "it has p, m, k"):
                dataset["q"]
            for work in (lambda: dataset["p"].read(level=1, max_error=2), lambda: dataset["p"].read(box=((5, 4), (0, 1), (0, 1))),
                         lambda: dataset["p"].read(max_error=-1), lambda: dataset["p"].stats(percentiles=[101]),
                         lambda: dataset["p"].read(level=-1), lambda: dataset["p"].read(box=((0, 1 << 40), (0, 1), (0, 1)))):
                with self.assertRaises((quarry.Error, ValueError)) as raised:
                    work()
                self.assertIn(getattr(raised.exception, "code", "INVALID_ARGUMENT"), ("INVALID_ARGUMENT", "OUT_OF_RANGE"))
        with self.assertRaisesRegex(ValueError, "encoding"):
            quarry.open(self.path, encoding="zip")
        self.fails("INVALID_ARGUMENT", lambda: quarry.open("ftp://host/run"))

    # ---- Messages

    READS = (
        (TypeError, r"box=\(\(0, 3\), \(0, 3\)\) is not possible; give \(\(z0, z1\), ", {"box": ((0, 3), (0, 3))}),
        (TypeError, "box='all' is not", {"box": "all"}),
        (TypeError, "box=.*3.5.* is not possible; .*whole numbers", {"box": ((0, 3.5), (0, 3), (0, 3))}),
        (quarry.Error, r"^box \(\(0, 50\), \(0, 4\), \(0, 3\)\) is .* outside the grid \(23, 34, 45\) along z; give a part of "
         r"\(\(0, 23\), \(0, 34\), \(0, 45\)\)$", {"box": ((0, 50), (0, 4), (0, 3))}),
        (TypeError, "level='1' is not possible; give a whole number$", {"level": "1"}),
        (TypeError, "step='last' is not", {"step": "last"}), (ValueError, "step=-1 is not", {"step": -1}),
        (TypeError, "max_error='small' is not", {"max_error": "small"}),
        (ValueError, "max_bytes=-1 is not possible; give a whole number from 0 on", {"max_bytes": -1}),
        (TypeError, r"stride=\(1, 2\) is not possible; .*\(z, y, x\)", {"stride": (1, 2)}),
        (quarry.Error, r"the stride \(0, 1, 2\) is not possible", {"stride": (0, 1, 2)}),
        (TypeError, r"values='x' is not possible; give two numbers: \(low, high\)", {"values": "x"}),
        (TypeError, "layer='best' is not", {"layer": "best"}), (TypeError, "strict=3 is not possible; give True", {"strict": 3}),
        (quarry.Error, r"no level of \(\(0, 23\), \(0, 34\), \(0, 45\)\) keeps", {"max_error": 1e-12}),
        (quarry.Error, "step 99 is not in .*; Dataset.steps has the 3 steps that are", {"step": 99}),
    )

    def assert_says(self, error, text, work):
        """In words of Python: no option of a command, no signature, no order x, y, z."""
        with self.subTest(text), self.assertRaisesRegex(error, text) as raised:
            work()
        said = re.sub(r"\"[^\"]*\"", "", str(raised.exception))
        self.assertNotRegex(said, r"--[a-z]|incompatible function|nanobind|_quarry|EnableGrpc|\d+x\d+x\d+|\d:\d+,\d|x fastest")

    def test_messages_about_reading_are_in_words_of_python(self):
        for dataset in self.targets():
            field = dataset["p"]
            for error, text, arguments in self.READS:
                self.assert_says(error, text, lambda arguments=arguments: field.read(**arguments))
            for error, text, work in (
                    (TypeError, r"focus=\(1, 2\) is not possible; .*\(z, y, x\)", lambda: next(field.stream(focus=(1, 2)))),
                    (quarry.Error, "three finite numbers, in samples of full resolution",
                     lambda: next(field.stream(focus=(1, 2, float("nan"))))),
                    (TypeError, "bins='3' is not", lambda: field.stats(bins="3")),
                    (TypeError, "range='all' is not", lambda: field.stats(range="all")),
                    (TypeError, "scale=3 is not", lambda: field.stats(scale=3)),
                    (quarry.Error, r"point 1 \(30, 2, 1\) is outside the grid \(23, 34, 45\) along z",
                     lambda: field.points([[0, 0, 0], [30, 2, 1]])),
                    (TypeError, "step='a' is not", lambda: field.points([[0, 0, 0]], step="a")),
                    (TypeError, "after='a' is not", lambda: dataset.watch(after="a")),
                    (TypeError, "patience=None is not", lambda: dataset.watch(patience=None)),
                    (TypeError, "box=.*is not possible", lambda: dataset.export(self.tmp / "a.nc", box=((0, 1), (0, 1)))),
                    (ValueError, "'q' is none of 'z', 'y', 'x'", lambda: field.plot(axis="q"))):
                self.assert_says(error, text, work)

    def test_messages_about_opening_are_in_words_of_python(self):
        nobody = "grpcs://127.0.0.1:9/run"
        for error, text, work in (
                (quarry.Error, "neither a directory nor a URL of a dataset; .* grpc://HOST:PORT/NAME", lambda: quarry.open("ftp://host/run")),
                (quarry.Error, "or quarry.list has the names", lambda: quarry.open("grpc://127.0.0.1:9")),
                (quarry.Error, "that ca= vouches for", lambda: quarry.open(nobody, retries=0)),
                (TypeError, "threads='all' is not", lambda: quarry.open(self.path, threads="all")),
                (TypeError, "memory='1GiB' is not", lambda: quarry.open(self.path, memory="1GiB")),
                (TypeError, "token=None is not possible; give a text", lambda: quarry.open(self.path, token=None)),
                (TypeError, "timeout='long' is not", lambda: quarry.list(self.data, timeout="long"))):
            self.assert_says(error, text, work)

    def test_messages_about_writing_are_in_words_of_python(self):
        array = np.zeros((3, 4, 5), "f4")
        new, there = self.tmp / "new.quarry", self.tmp / "there.quarry"
        quarry.write(there, array, field="f", tolerance=1, patch=2)
        more = {"field": "f", "mode": "append", "step": 1}
        for error, text, path, data, arguments in (
                (quarry.Error, "exists already; append to it \\(mode=\"append\"\\), or choose another path", there, array, {}),
                (quarry.Error, "to append to; create it \\(mode=\"create\"\\)", new, array, {"mode": "append"}),
                (quarry.Error, r"the grid is \(2, 4, 5\) here, but \(3, 4, 5\) in the dataset", there, array[:2], more),
                (quarry.Error, r"the patch \(1, 2, 4\) differs from the dataset's, \(2, 2, 2\)", there, array,
                 {**more, "patch": (1, 2, 4)}),
                (quarry.Error, r"patch \(3, 2, 1\) has 3 samples along z", new, array, {"patch": (3, 2, 1)}),
                (TypeError, "patch='8' is not possible; .*three: \\(z, y, x\\)", new, array, {"patch": "8"}),
                (TypeError, "spacing=2 is not possible; give three numbers: \\(z, y, x\\)", new, array, {"spacing": 2}),
                (TypeError, "origin='abc' is not", new, array, {"origin": "abc"}),
                (TypeError, "tolerance='a' is not possible; give a number", new, array, {"tolerance": "a"}),
                (ValueError, "layers=.* is not possible; give tolerances", new, array, {"tolerance": None, "layers": (1, "b")}),
                (TypeError, "levels='a' is not", new, array, {"levels": "a"}), (TypeError, "units=5 is not", new, array, {"units": 5}),
                (TypeError, "codec=5 is not", new, array, {"codec": 5}), (TypeError, "fill='a' is not", new, array, {"fill": "a"}),
                (TypeError, "field=5 is not", new, array, {"field": 5}), (TypeError, "files='a' is not", new, array, {"files": "a"}),
                (TypeError, "keyframe='a' is not", new, array, {"keyframe": "a"}),
                (TypeError, "memory='1GiB' is not", new, array, {"memory": "1GiB"}),
                (TypeError, "step='a' is not", new, array, {"step": "a"}), (TypeError, "time='a' is not", new, array, {"time": "a"})):
            arguments = {"tolerance": 1, **arguments}
            self.assert_says(error, text, lambda p=path, d=data, a=arguments: quarry.write(p, d, **a))
        self.assertFalse(new.exists())


if __name__ == "__main__":
    qt.main()
