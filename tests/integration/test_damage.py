"""Flipped bits and cut files: every read answers as if nothing had happened, or says which samples it takes from a
coarser level, or which file is damaged. Never a silently wrong value, never a crash."""

import json
import shutil

import numpy as np

import quarry_testing as qt

DIMS = (26, 19, 21)
STEPS = 2
NAME = "run.quarry"


class Damage(qt.QuarryTest):
    """Damage of a dataset whose second step has a mask, for each coder by a class of its own."""

    DTYPE = "<f4"
    HOLE = np.nan
    OPTIONS = ("--relative", "1e-3", "--codec", "wavelet-zfp")
    SHARE = 1  # share of the counts
    IN_FULL = True  # also what is the same for all coders

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dataset = cls.shared / NAME
        for step in range(STEPS):
            field = qt.make_field(DIMS, cls.DTYPE, name=step)
            qt.convert(qt.with_holes(field, cls.HOLE) if step else field, cls.dataset, *cls.OPTIONS, "--patch", "8",
                       "--files", "2", "--step", step, *["--append"] * bool(step))
        qt.succeed("quarry-index", cls.dataset)
        if not qt.masks(cls.dataset):
            raise AssertionError("this test is about masks, too")
        cls.undamaged = qt.snapshot(cls.dataset)
        cls.files = [name for name, data in cls.undamaged.items() if data]
        cls.info = cls.info_of(qt.info(cls.dataset))
        cls.whole = qt.Whole(cls.dataset, cls.shared)
        cls.wholes = [cls.whole.ask(step) for step in range(STEPS)]
        random = qt.random_numbers("questions")
        cls.parts = [cls.whole.ask_anything(random) for _ in range(cls.count(12, 60))]

    @staticmethod
    def info_of(said):
        """Without the state of the catalogue, which is another one where that is damaged."""
        return {name: value for name, value in said.items() if name != "catalogue"}

    @classmethod
    def count(cls, short, full):
        return max(1, round(cls.SHARE * qt.scaled(short, full)))

    def setUp(self):
        super().setUp()
        self.random = qt.random_numbers(self._testMethodName)

    def restore(self, name):
        """Puts the file back, and the whole index, which a server or quarry-index may have replaced."""
        if name.startswith("index/"):
            shutil.rmtree(self.dataset / "index")
            (self.dataset / "index").mkdir()
        for other in [other for other in self.files if other.startswith("index/")] + [name]:
            (self.dataset / other).write_bytes(self.undamaged[other])

    def assert_names(self, name, outcome):
        """One line that names the damaged file, or the index for one of its files."""
        named = "index" if name.startswith("index/") else f"{NAME}/{name}"
        self.assert_one_line(outcome, qt.DAMAGED, named)

    def check_get(self, target, question, name):
        outcome, _ = self.whole.get(target, question, self.tmp / "answer.raw", self.random)
        if outcome.code != qt.DONE:
            self.assert_names(name, outcome)

    def questions(self, step):
        """The whole grid at the step that is damaged, or at one of them, and something else."""
        whole = self.wholes[self.random.integers(0, STEPS) if step is None else step]
        return whole, self.parts[self.random.integers(0, len(self.parts))]

    def check_directory(self, name):
        step = int(name.split("/")[1]) if name.startswith("steps/0") else None
        for question in self.questions(step):
            self.check_get(self.dataset, question, name)
        outcome = qt.run("quarry", "info", self.dataset, "--json")
        if outcome.code == qt.DONE:
            self.assertEqual(self.info_of(json.loads(outcome.out)), self.info)
        else:
            self.assert_names(name, outcome)
        outcome = qt.run("quarry", "verify", self.dataset)
        without_head = name == "head" and not (self.dataset / name).exists()
        if name.startswith("index/") or without_head:
            self.assertEqual(outcome.code, qt.DONE, outcome)
        else:
            self.assert_names(name, outcome)

    def check_server(self, name):
        """A server that starts on the damage. It may refuse to start, too."""
        try:
            with qt.Server(self.shared) as server:
                for question in self.questions(None):
                    self.check_get(server.target(NAME), question, name)
        except qt.Server.Refused as refused:
            self.assert_names(name, refused.args[0])

    def check_index(self, name):
        """The check of an index finds any damage that matters; a file that is gone is not found."""
        outcome = qt.run("quarry-index", self.dataset, "--verify")
        if outcome.code == qt.NOT_FOUND and not (self.dataset / name).exists():
            self.assert_one_line(outcome, qt.NOT_FOUND, "index")
        elif outcome.code != qt.DONE:
            self.assert_names(name, outcome)

    def check_everything(self, name, description, *, server):
        with self.subTest(file=name, damage=description):
            try:
                self.check_directory(name)
                if name.startswith("index/"):
                    self.check_index(name)
                if server or name.startswith("index/"):
                    self.check_server(name)
            finally:
                self.restore(name)

    def tearDown(self):
        self.assertTrue(qt.snapshot(self.dataset) == self.undamaged, "reading has changed the dataset")

    def test_flipped_bits(self):
        """Files take turns, so that small ones are hit as often as large ones."""
        for number in range(self.count(40, 1000)):
            name = self.files[number % len(self.files)]
            data = bytearray(self.undamaged[name])
            position, bit = int(self.random.integers(0, len(data))), int(self.random.integers(0, 8))
            data[position] ^= 1 << bit
            (self.dataset / name).write_bytes(data)
            self.check_everything(name, f"bit {bit} of byte {position}", server=number % 5 == 0)

    def test_cut_files(self):
        for name in self.files:
            data = self.undamaged[name]
            lengths = {*self.random.integers(1, len(data), max(1, self.count(3, 50) - 2))}
            if self.IN_FULL:
                lengths |= {0, len(data) - 1}
            for number, length in enumerate(sorted(map(int, lengths))):
                (self.dataset / name).write_bytes(data[:length])
                self.check_everything(name, f"cut to {length} bytes", server=number % 5 == 1)

    def test_missing_files(self):
        for name in self.files:
            (self.dataset / name).unlink()
            if name == "dataset.json":
                # Without it, it is no dataset to a server, which then has nothing to be asked for.
                self.check_everything(name, "gone", server=False)
            else:
                self.check_everything(name, "gone", server=True)

    def test_files_that_grow(self):
        for name in self.files:
            (self.dataset / name).write_bytes(self.undamaged[name] + b"\0more")
            with self.subTest(file=name):
                try:
                    for question in self.questions(None):
                        self.check_get(self.dataset, question, name)
                    self.check_server(name)
                finally:
                    self.restore(name)

    def test_swapped_files(self):
        """A file that is sound in itself, but another's: from another step, or another place."""
        subfiles = [name for name in self.files if name.endswith(".qsf") and name.startswith("steps")]
        masks = [name for name in self.files if name.startswith("masks")]
        manifests = [name for name in self.files if name.endswith("step.json")]
        pairs = [subfiles[:2], [subfiles[0], subfiles[-2]], masks[:2], [masks[0], subfiles[0]], [subfiles[-2], masks[0]],
                 manifests]
        for first, second in pairs:
            (self.dataset / first).write_bytes(self.undamaged[second])
            self.check_everything(first, f"replaced by {second}", server=True)


class OtherCoder:
    """Leaves out what is the same for all coders, unless the full tests are wanted."""

    SHARE = 0.25
    IN_FULL = qt.FULL
    if not qt.FULL:
        test_missing_files = test_files_that_grow = test_swapped_files = None


class DamageLossless(OtherCoder, Damage):
    DTYPE = "<i2"
    HOLE = -32768
    OPTIONS = ("--fill", "-32768")


class DamageInterpolate(OtherCoder, Damage):
    DTYPE = "<f8"
    HOLE = -1e30
    OPTIONS = ("--relative", "1e-3", "--codec", "interpolate", "--fill", "-1e30")

    @classmethod
    def setUpClass(cls):
        if "interpolate" not in qt.coders():
            qt.skip("this build has no coder interpolate")
        super().setUpClass()


if __name__ == "__main__":
    qt.main()
