"""Bits flip and files are truncated under a running server, during reads. Each answer is as if nothing had happened, or
says which samples come from a coarser level, or which file is damaged. Repaired files are served again without a
restart."""

import os
import re
import shutil
import threading

import numpy as np

import quarry_testing as qt

DIMS = (70, 52, 45)
STEPS = 2
READERS = 2
MEMORY = "2MiB"  # much less than all patches, decoded: they are fetched and decoded again all the time


class Reader(threading.Thread):
    """Asks one query after the other until it is stopped. Bytes change while it waits for the answers."""

    def __init__(self, test, name):
        super().__init__()
        self._test, self._random = test, qt.random_numbers(test.id(), name)
        self._output = test.tmp / f"{name}.raw"
        self._over = threading.Event()
        self._error = None

    def run(self):
        try:
            while not self._over.is_set():
                self._test.read(self._random, self._output)
        except BaseException as error:  # pylint: disable=broad-except  # told by finish()
            self._error = error

    @property
    def failed(self):
        return self._error is not None

    def finish(self):
        self._over.set()
        self.join()
        if self._error:
            raise self._error


class LiveDamage(qt.QuarryTest):
    """One dataset has an index; of the other the server reads the tables of the subfiles. Both have masks."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.datasets = [
            cls.make("indexed", "<f4", np.nan, "--relative", "1e-3", "--codec", "wavelet-zfp"),
            cls.make("tables", "<i2", -32768, "--fill", "-32768"),
        ]
        qt.succeed("quarry-index", cls.datasets[0])
        random = qt.random_numbers("questions")
        cls.questions, cls.wholes = [], {}  # dataset and step to the number of the question
        for dataset in cls.datasets:
            # Coding a tile takes more than MEMORY.
            whole = qt.Whole(dataset, cls.shared, encodings=("samples", "patches"))
            for step in range(STEPS):
                cls.wholes[dataset, step] = len(cls.questions)
                cls.questions.append((whole, whole.ask(step)))
            cls.questions += [(whole, whole.ask_anything(random)) for _ in range(qt.scaled(4, 40))]
        cls.undamaged = {path: path.read_bytes() for dataset in cls.datasets for path in dataset.rglob("*.qsf")}
        cls.files = sorted(cls.undamaged)
        cls.server = cls.enterClassContext(qt.Server(cls.shared, "--memory", MEMORY, "--metrics", "127.0.0.1:0",
                                                     "--log-level", "error"))

    @classmethod
    def make(cls, name, dtype, hole, *options):
        dataset = cls.shared / f"{name}.quarry"
        for step in range(STEPS):
            field = qt.make_field(DIMS, dtype, name=(name, step))
            field = qt.with_holes(field, hole) if step else field
            qt.convert(field, dataset, *options, "--patch", "16", "--files", "2", "--step", step,
                       *["--append"] * bool(step))
            # The whole answers of the comparison below keep the promise.
            promised = qt.info(dataset)["fields"][0]["tolerance"]
            decoded = qt.get_array(dataset, cls.shared / "all.raw", dtype, "--step", step)
            cls().assert_decoded(field, decoded, promised, hole)
        return dataset

    def setUp(self):
        super().setUp()
        self.random = qt.random_numbers(self.id())
        self.changes = 0
        self.damaged = set()  # paths of files that are, or were
        self._lock = threading.Lock()
        self.counts = dict.fromkeys(("whole", "shown coarser", "refused", "under way at a change"), 0)
        self.check_all_whole()

    def read(self, random, output, number=None):
        """A question, which is one of all unless there is a number, and its answer, checked."""
        whole, question = self.questions[random.integers(len(self.questions)) if number is None else number]
        changes = self.changes
        options = question.options + ("--progressive",) * int(random.integers(0, 2))
        outcome, said = whole.get(self.server.target(whole.dataset), question._replace(options=options), output, random)
        if said is None:
            self.assert_one_line(outcome, qt.DAMAGED)
            named = re.search(r'"([^"]*\.qsf)"', outcome.err)
            # Beside what names a file: patches that show nothing at the only level that is left.
            # A server's paths begin at the folder that it serves.
            damaged = named and str(self.shared / named[1]) in self.damaged
            self.assertTrue(damaged or "has no sample" in outcome.err, outcome)
        kind = "refused" if said is None else "shown coarser" if said["damaged"] else "whole"
        with self._lock:
            self.counts[kind] += 1
            self.counts["under way at a change"] += self.changes != changes
        return outcome, said

    def check_all_whole(self):
        for number in range(len(self.questions)):
            self.read_whole(number)

    def change(self, path, position, data):
        """In place: whoever has the file open sees it, too."""
        self.damaged.add(str(path))
        with open(path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), data, position)
        self.changes += 1

    def under_readers(self, changes):
        """Makes changes while others read, and checks that everything is as before in the end."""
        evicted = self.server.metrics()["quarry_store_evictions_total"]
        readers = [Reader(self, f"reader{number}") for number in range(READERS)]
        try:
            for reader in readers:
                reader.start()
            for _ in changes:
                self.assertTrue(self.server.runs(), "the server has crashed")
                if any(reader.failed for reader in readers):
                    break
        finally:
            for path in self.files:
                if str(path) in self.damaged:
                    self.restore(path)
            for reader in readers:
                reader.finish()
        counts = dict(self.counts)
        print(f"{self.changes} changes, answers: {counts}", flush=True)
        self.assertGreater(counts["shown coarser"] + counts["refused"], 0, counts)
        self.assertGreater(counts["under way at a change"], 0, counts)
        self.assertGreater(self.server.metrics()["quarry_store_evictions_total"], evicted, "nothing was decoded anew")
        self.assertGreater(self.server.metrics()['quarry_damage_total{dataset="indexed"}'], 0)
        self.check_all_whole()

    def restore(self, path):
        self.change(path, 0, self.undamaged[path])

    def test_flipped_bits(self):
        """Up to eight at a time; each stays for a while."""
        self.under_readers(self.flips(qt.scaled(50, 1000)))

    def flips(self, count):
        flipped = []
        for number in range(count):
            # Files take turns, so that small ones are hit as often as large ones.
            path = self.files[number % len(self.files)]
            data = self.undamaged[path]
            position, bit = int(self.random.integers(len(data))), int(self.random.integers(8))
            self.change(path, position, bytes([data[position] ^ 1 << bit]))
            flipped.append((path, position))
            yield self.read(self.random, self.tmp / "main.raw", self.random.choice(self.questions_about(path)))
            if len(flipped) > self.random.integers(1, 9):
                path, position = flipped.pop(self.random.integers(len(flipped)))
                self.change(path, position, self.undamaged[path][position:position + 1])

    def questions_about(self, path):
        """The numbers of those for the whole grid that need a file; a mask may be of any step."""
        return [number for (dataset, step), number in self.wholes.items()
                if path.is_relative_to(dataset) and path.parts[-3] in ("masks", f"{step:06}")]

    def test_cut_files(self):
        self.under_readers(self.cuts(qt.scaled(7, 100)))

    def cuts(self, count):
        """Each file in turn. Other files, and the file itself once it is back, are served as before."""
        for turn in range(count):
            path = self.files[turn % len(self.files)]
            self.damaged.add(str(path))
            os.truncate(path, int(self.random.integers(len(self.undamaged[path]))))
            self.changes += 1
            for number in self.wholes.values():
                if number in self.questions_about(path):
                    yield self.read(self.random, self.tmp / "main.raw", number)
                else:
                    yield self.read_whole(number)
            self.restore(path)
            for number in self.questions_about(path):
                yield self.read_whole(number)

    def read_whole(self, number):
        """A query whose answer must be whole."""
        outcome, said = self.read(self.random, self.tmp / "main.raw", number)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assertEqual(said["damaged"], [], outcome)


if __name__ == "__main__":
    qt.main()
