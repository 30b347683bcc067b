"""Random boxes at random levels of random grids: disk and network give the same bytes, and the right ones."""

import itertools
import json
from typing import NamedTuple

import numpy as np

import quarry_testing as qt

RELATIVE = 1e-3


class Kind(NamedTuple):
    """Contents and coding of a field."""

    dtype: str
    options: tuple
    hole: object = None  # value of missing samples


def kinds():
    """Every coder with the types that it codes, without and with holes; short runs take the first ones."""
    bound = ("--relative", RELATIVE)
    lossy = [Kind("<f4", (*bound, "--codec", name), hole) for hole in (None, np.nan) for name in qt.lossy_coders()]
    lossy += [Kind("<f8", (*bound, "--codec", name, "--fill", "-1e30"), -1e30) for name in qt.lossy_coders()]
    exact = [Kind("<i2", ()), Kind("<f8", ("--lossless",), np.inf), Kind("u1", ("--fill", "200"), 200),
             Kind("<u4", ("--fill", "0"), 0), Kind("<f4", ("--lossless",))]
    if "interpolate" in qt.coders():
        exact.insert(2, Kind("<i4", ("--tolerance", "100000", "--fill", "-7"), -7))
    return [kind for pair in itertools.zip_longest(lossy, exact) for kind in pair if kind]


class Case(NamedTuple):
    """A dataset and its source."""

    path: object
    original: np.ndarray  # [z, y, x]
    fill: object
    tolerance: float
    levels: int

    @property
    def dims(self):
        return self.original.shape[::-1]


def random_dims(random, dimensions, most_samples):
    """Irregular sizes; axes beyond `dimensions` are 1, and which ones is random too."""
    largest = int(most_samples ** (1 / dimensions))
    dims = [1, 1, 1]
    for axis in random.permutation(3)[:dimensions]:
        dims[axis] = int(random.integers(largest // 3, largest)) | 1
    return tuple(dims)


def level_extent(begin, end, level):
    """Level samples whose level-0 position lies in the box: begin and shape."""
    stride = 2**level
    first = [-(-b // stride) for b in begin]
    last = [-(-e // stride) for e in end]
    return first, [e - b for b, e in zip(first, last)]


class Boxes(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = qt.random_numbers("boxes")
        cls.cases = []
        for number, kind in enumerate(kinds()[:qt.scaled(8, 99)]):
            dims = random_dims(random, 3 - number % 3, 30_000)
            original = qt.make_field(dims, kind.dtype, name=number)
            if kind.hole is not None:
                original = qt.with_holes(original, kind.hole, name=number)
            patch = "x".join(str(2 ** random.integers(2, 6)) for _ in range(3))
            path = cls.shared / f"grid{number}.quarry"
            qt.convert(original, path, *kind.options, "--patch", patch,
                       "--files", random.integers(1, 4), "--order", ("patch", "level", "coarse")[number // 2 % 3])
            described = qt.info(path)
            fill = described["fields"][0].get("fill")
            cls.cases.append(Case(path, original, fill, described["fields"][0]["tolerance"], described["levels"]))
            qt.succeed("quarry-index", path)
        cls.server = cls.enterClassContext(qt.Server(cls.shared))

    def get_everywhere(self, case, name, *options):
        """Bytes of an answer, which must be the same from the directory and through the server."""
        local = qt.get(case.path, self.tmp / f"local-{name}", *options)
        remote = qt.get(self.server.target(case.path), self.tmp / f"remote-{name}", *options)
        self.assertTrue(local == remote, f"{case.path.name} {options}: directory and server differ")
        return local

    def whole_levels(self, case):
        """All samples of every level, [z, y, x]."""
        levels = []
        for level in range(case.levels):
            _, shape = level_extent((0, 0, 0), case.dims, level)
            data = self.get_everywhere(case, "whole.raw", "--level", level)
            levels.append(np.frombuffer(data, case.original.dtype).reshape(shape[::-1]))
        return levels

    def check_box(self, case, levels, begin, end, level):
        options = ["--box", qt.box_text(begin, end), "--level", level]
        data = self.get_everywhere(case, "box.raw", *options)
        first, shape = level_extent(begin, end, level)
        part = tuple(slice(b, b + n) for b, n in zip(first[::-1], shape[::-1]))
        self.assertTrue(data == levels[level][part].tobytes(), "not the part of the whole level")
        if level == 0:
            self.assert_decoded(case.original[part], np.frombuffer(data, case.original.dtype), case.tolerance,
                                case.fill)
        return options, first, shape, data

    def check_other_forms(self, case, options, first, shape, data):
        """The same answer as NumPy array, coarse to fine, with its JSON."""
        for target in (case.path, self.server.target(case.path)):
            qt.get(target, self.tmp / "box.npy", *options)
            array = np.load(self.tmp / "box.npy")
            self.assertEqual(list(array.shape), shape[::-1])
            self.assertEqual(array.dtype, case.original.dtype)
            self.assertTrue(array.tobytes() == data, "the .npy file has other samples")

            file = self.tmp / "progressive.raw"
            ask = ["--field", "f", *options]
            out = qt.succeed("quarry", "get", target, *ask, "--output", file, "--progressive").out
            self.assertTrue(file.read_bytes() == data, "coarse to fine ends with other samples")
            wanted_level = options[-1]
            self.assertGreaterEqual(len(out.splitlines()), case.levels - wanted_level)

            answer = json.loads(qt.succeed("quarry", "get", target, *ask, "--output", file, "--json").out)
            self.assertEqual(answer["level"], wanted_level)
            self.assertEqual(answer["begin"], first)
            self.assertEqual(answer["shape"], shape)
            self.assertEqual(answer["dtype"], qt.type_name(case.original.dtype))
            self.assertLessEqual({"max_error", "bytes_received", "patches", "seconds"}, answer.keys())
            self.assertTrue(0 <= answer["coverage"] <= 1, answer)
            if wanted_level == 0:
                self.assertLessEqual(answer["max_error"], case.tolerance)
                self.assertEqual(answer["coverage"], 1)
            plan = json.loads(qt.succeed("quarry", "plan", target, *ask, "--json").out)
            for member in ("level", "begin", "shape", "dtype", "max_error", "coverage", "patches"):
                self.assertEqual(plan[member], answer[member])
            self.assertEqual(plan["reply_bytes"], len(data))

    def test_random_boxes(self):
        boxes = qt.scaled(10, 40)
        for case in self.cases:
            random = qt.random_numbers("boxes of", case.path.name)
            levels = self.whole_levels(case)
            for number in range(boxes):
                begin = [int(random.integers(0, n)) for n in case.dims]
                end = [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, case.dims)]
                level = int(random.integers(0, case.levels)) if number % 2 else 0
                with self.subTest(grid=case.dims, begin=begin, end=end, level=level):
                    answer = self.check_box(case, levels, begin, end, level)
                    if number % 10 == 1:
                        self.check_other_forms(case, *answer)

    def test_box_between_the_samples_of_a_level(self):
        """A box without samples gives an empty reply, not an error."""
        for case in self.cases:
            axis = int(np.argmax(case.dims))
            if case.levels < 2:
                continue
            begin, end = [0, 0, 0], list(case.dims)
            begin[axis], end[axis] = 1, 2
            with self.subTest(grid=case.dims):
                options = ["--box", qt.box_text(begin, end), "--level", 1]
                first, shape = level_extent(begin, end, 1)
                self.assertEqual(shape[axis], 0)
                self.assertEqual(self.get_everywhere(case, "empty.raw", *options), b"")
                self.check_other_forms(case, options, first, shape, b"")


if __name__ == "__main__":
    qt.main()
