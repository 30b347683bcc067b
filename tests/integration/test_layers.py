"""Layers of accuracy: every layer keeps its own tolerance at every level, the last may be exact, none is read that is not
needed, and directory and server give the same."""

import json
import re
from typing import NamedTuple

import numpy as np

import quarry_testing as qt

PATCH = 16
LAYERS = (1e-1, 1e-2, 1e-4)  # shares of the range


class Case(NamedTuple):
    path: object
    original: np.ndarray  # [z, y, x]
    tolerances: tuple
    levels: int


def holes(dims):
    return qt.with_holes(qt.turbulent(dims), np.nan)


def varint(data, at):
    """The number, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def patch_table(subfile, levels, layers):
    """For each patch: (level, layer) to (offset, size) of the payload, by docs/format.md alone."""
    data = subfile.read_bytes()
    count = int.from_bytes(data[56:64], "little")
    at = int.from_bytes(data[-48:-40], "little")
    patches = [-(-int.from_bytes(data[32 + 4 * a:36 + 4 * a], "little") // 2 ** data[44 + a]) for a in range(3)]
    code, sizes = -1, {}
    for _ in range(count):
        step, at = varint(data, at)
        code += step + 1
        bits, widths = data[at], data[at + 1]
        at += 2 + (widths & 15) + (widths >> 4)
        if bits & 2:
            _, at = varint(data, at)
        row = {}
        for k in reversed(range(layers)):
            for l in range(levels):
                row[l, k] = 0
                if not bits & 4:
                    widths = data[at]
                    row[l, k], at = varint(data, at + 1)
                    at += 8 * (row[l, k] > 0) + (widths & 7) + (widths >> 3 & 15) + 4 * (widths >> 7)
        x, y, z = (sum((code >> 3 * bit + a & 1) << bit for bit in range(21)) for a in range(3))
        sizes[x + patches[0] * (y + patches[1] * z)] = row
    # By patch are the levels below this one.
    fine = {1: levels, 2: 0, 3: data[52]}[data[50]]
    runs = [(k, run) for k in range(layers)
            for run in [*((l,) for l in reversed(range(fine, levels))), *([range(fine)] if fine else [])]]
    offset, rows = 144, {patch: {} for patch in sizes}
    for k, run in runs:
        for patch, row in sizes.items():
            for l in reversed(run):
                rows[patch][l, k] = (offset, row[l, k])
                offset += row[l, k]
    return rows


class Layers(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cases = {
            "bounded": cls.make("bounded", qt.turbulent((53, 40, 33)), LAYERS),
            "exact": cls.make("exact", qt.turbulent((40, 31, 20)), (1e-2, 1e-4, 0)),
            "double": cls.make("double", qt.turbulent((40, 31, 20), "<f8"), (1e-2, 1e-6, 0), "--order", "level"),
            "coarse": cls.make("coarse", qt.turbulent((40, 31, 20)), (1e-2, 1e-4, 0), "--order", "coarse"),
            "holes": cls.make("holes", holes((45, 40, 17)), (1e-2, 1e-4, 0)),
            "integers": cls.make("integers", qt.integers((33, 20, 18), "<i2"), (1e-1, 1e-2, 0)),
            "plane": cls.make("plane", qt.smooth((100, 77, 1)), (1e-2, 1e-5)),
        }
        cls.server = cls.enterClassContext(qt.Server(cls.shared))

    @classmethod
    def make(cls, name, original, relative, *options):
        path = cls.shared / f"{name}.quarry"
        depth = PATCH if original.shape[0] > 1 else 1
        words = ",".join("exact" if tolerance == 0 else repr(tolerance) for tolerance in relative)
        qt.convert(original, path, "--relative-layers", words, "--patch", f"{PATCH}x{PATCH}x{depth}", "--files", 2,
                   *options)
        extent = float(np.nanmax(original)) - float(np.nanmin(original))
        return Case(path, original, tuple(extent * tolerance for tolerance in relative), qt.info(path)["levels"])

    def targets(self, case):
        yield case.path, ()
        for encoding in ("samples", "patches"):
            yield self.server.target(case.path), ("--encoding", encoding)

    def array(self, target, *options):
        output = self.tmp / "answer.npy"
        outcome = qt.succeed("quarry", "get", target, "--output", output, "--json", *options)
        return np.load(output), json.loads(outcome.out)

    def plan(self, target, *options):
        return json.loads(qt.succeed("quarry", "plan", target, "--json", *options).out)

    def check(self, case):
        for layer, tolerance in enumerate(case.tolerances):
            for level in range(case.levels):
                original = case.original[::2**level, ::2**level, ::2**level]
                answers = []
                for target, options in self.targets(case):
                    answer, said = self.array(target, "--layer", layer, "--level", level, *options)
                    answers.append(answer.tobytes())
                with self.subTest(case=case.path.name, layer=layer, level=level):
                    self.assertEqual(len(set(answers)), 1, "directory and server differ")
                    self.assertEqual(answer.shape, original.shape)
                    valid = ~np.isnan(original.astype("f8"))
                    error = np.abs(answer.astype("f8") - original.astype("f8"))[valid]
                    self.assertLessEqual(error.max(), tolerance * (1 + 1e-12))
                    self.assertEqual(qt.bits(answer)[~valid].tobytes(), qt.bits(np.ascontiguousarray(original))[~valid].tobytes())
                    if tolerance == 0:
                        self.assertEqual(answer.tobytes(), np.ascontiguousarray(original).tobytes())

    def test_layers_keep_their_tolerances(self):
        self.check(self.cases["bounded"])

    def test_the_last_layer_is_exact(self):
        for name in ("exact", "double", "holes", "integers"):
            self.check(self.cases[name])

    def test_a_plane(self):
        self.check(self.cases["plane"])

    def test_the_last_layer_is_the_default(self):
        for case in self.cases.values():
            default, _ = self.array(case.path)
            last, _ = self.array(case.path, "--layer", len(case.tolerances) - 1)
            self.assertEqual(default.tobytes(), last.tobytes())

    def test_answers_come_level_by_level(self):
        case = self.cases["bounded"]
        for layer in range(len(case.tolerances)):
            whole, _ = self.array(case.path, "--layer", layer)
            for target, options in self.targets(case):
                output = self.tmp / "levels.npy"
                done = qt.succeed("quarry", "get", target, "--progressive", "--layer", layer, "--output", output, *options)
                self.assertEqual(np.load(output).tobytes(), whole.tobytes())
                # Coarse to fine in the roughest layer, then rough to fine at the last level.
                came = [tuple(map(int, re.match(r"level (\d+)  layer (\d+) ", line).groups()))
                        for line in done.out.splitlines() if line.startswith("level ")]
                self.assertEqual(came, [(level, 0) for level in reversed(range(case.levels))] +
                                 [(0, further) for further in range(1, layer + 1)])

    def test_a_stream_costs_what_its_last_layer_costs(self):
        for case in (self.cases["bounded"], self.cases["holes"]):
            size = self.plan(case.path)["bytes"]
            for target, options in self.targets(case):
                if "samples" in options:
                    continue
                output = self.tmp / "levels.npy"
                said = json.loads(qt.succeed("quarry", "get", target, "--progressive", "--json", "--output", output, *options).out)
                self.assertEqual(said["bytes_received"], size)

    def test_points_are_of_a_layer(self):
        case = self.cases["exact"]
        for layer in range(3):
            expected, _ = self.array(case.path, "--layer", layer, "--box", "7:8,5:6,3:4")
            for target in (case.path, self.server.target(case.path)):
                said = json.loads(qt.succeed("quarry", "points", target, "--at", "7,5,3", "--layer", layer, "--json").out)
                self.assertEqual(said["values"], [float(expected.item())])
                self.assertLessEqual(said["max_error"], case.tolerances[layer] * (1 + 1e-12))

    # --- which level and layer ---

    def records(self, case):
        """For each (layer, level): the largest error, and the payload of an answer of the whole grid."""
        field = qt.step_manifest(case.path)["fields"][0]
        layers = [layer["levels"] for layer in field.get("rougher", [])] + [field["levels"]]
        sizes = [[int(level.get("bytes", 0)) for level in levels] for levels in layers]
        return {(k, l): (levels[l].get("maxError", levels[l].get("max_error", 0.0)), sum(sum(of[l:]) for of in sizes[:k + 1]))
                for k, levels in enumerate(layers) for l in range(case.levels)}

    def test_max_error_is_kept_and_nothing_cheaper_would_keep_it(self):
        for name in ("bounded", "exact", "double", "plane"):
            case = self.cases[name]
            records = self.records(case)
            errors = sorted(error for error, _ in records.values())
            wanted = qt.random_numbers(name).uniform(np.log(max(errors[0], 1e-9)), np.log(errors[-1]), qt.scaled(12, 400))
            for error in [*np.exp(wanted), errors[0], errors[-1]]:
                # A level without a sample in some patch is none that shows it.
                cheapest = min(size for (_, level), (of, size) in records.items() if of <= error and 2**level <= PATCH)
                for target in (case.path, self.server.target(case.path)):
                    plan = self.plan(target, "--max-error", repr(float(error)))
                    with self.subTest(case=name, error=error, target=str(target)):
                        self.assertLessEqual(plan["max_error"], error)
                        self.assertEqual(plan["bytes"], cheapest)
                        self.assertEqual(records[plan["layer"], plan["level"]], (plan["max_error"], plan["bytes"]))

    def test_max_bytes_gives_the_best_that_fits(self):
        case = self.cases["bounded"]
        records = self.records(case)
        samples = {level: case.original[::2**level, ::2**level, ::2**level].nbytes for level in range(case.levels)}
        cost = {key: max(size, samples[key[1]]) for key, (_, size) in records.items()}
        for allowed in qt.random_numbers("bytes").integers(min(cost.values()), 2 * max(cost.values()), qt.scaled(12, 200)):
            # The finest level of each layer that fits.
            fitting = {}
            for (layer, level), bytes_needed in sorted(cost.items(), reverse=True):
                if bytes_needed <= allowed:
                    fitting[layer] = (layer, level)
            best = min(records[key][0] for key in fitting.values())
            for target in (case.path, self.server.target(case.path)):
                plan = self.plan(target, "--max-bytes", int(allowed))
                self.assertLessEqual(max(plan["bytes"], plan["reply_bytes"]), allowed)
                self.assertEqual(plan["max_error"], best)

    def test_a_preview_reads_one_run(self):
        case = self.cases["exact"]
        path = self.tmp / "one.quarry"
        qt.convert(case.original, path, "--relative-layers", "1e-2,1e-4,exact", "--patch", PATCH, "--files", 1)
        plan = self.plan(path, "--layer", 0)
        self.assertEqual(plan["reads"], 1)
        self.assertEqual(plan["bytes_read"], plan["bytes"])
        self.assertLess(plan["bytes"], self.plan(path)["bytes"] / 4)

    # --- writing ---

    def test_ranks_make_no_difference(self):
        case = self.cases["holes"]
        path = self.tmp / "ranks.quarry"
        qt.convert(case.original, path, "--relative-layers", "1e-2,1e-4,exact", "--patch", PATCH, "--files", 2, ranks=3)
        self.assertEqual(qt.subfiles(path), qt.subfiles(case.path))

    def test_one_layer_is_the_same_as_its_bound(self):
        field = self.cases["exact"].original
        layer, bound = self.tmp / "layer.quarry", self.tmp / "bound.quarry"
        qt.convert(field, layer, "--layers", "1e-3")
        qt.convert(field, bound, "--tolerance", "1e-3")
        self.assertEqual(qt.subfiles(layer), qt.subfiles(bound))

    def test_further_steps_have_the_same_layers(self):
        path = self.tmp / "steps.quarry"
        field = self.cases["bounded"].original
        qt.convert(field, path, "--layers", "1e-1,1e-3")
        qt.convert(field, path, "--append", "--step", 1)
        for step in range(2):
            answer, said = self.array(path, "--step", step, "--layer", 0)
            self.assertLessEqual(np.abs(answer - field).max(), 1e-1)
            self.assertEqual(qt.get(path, self.tmp / "a.raw", "--step", step), qt.get(path, self.tmp / "b.raw"))
        source = self.tmp / "other.raw"
        field.tofile(source)
        outcome = qt.run("quarry-write", source, *qt.describe(field), "--field", "f", "--append", "--step", 2, "--layers",
                         "1e-1,1e-2", "--output", path)
        self.assertEqual(outcome.code, qt.USAGE)
        self.assertIn("in layers 0.1, 0.001", outcome.err)

    def test_impossible_layers_are_refused(self):
        source = self.tmp / "f.raw"
        field = np.zeros((4, 4, 4), "<f4")
        field.tofile(source)
        for options, says in (
                (("--layers", "1e-4,1e-2"), "give the largest tolerance first"),
                (("--layers", "exact,1e-2"), "exact"),
                (("--layers", "1e-2,,1e-3"), '"" is not a tolerance'),
                (("--layers", "1e-2,-1"), '"-1" is not a tolerance'),
                (("--layers", "1e-2,nan"), '"nan" is not a tolerance'),
                (("--layers", "1e-2,1e-3", "--tolerance", "1"), "several error bounds"),
                (("--layers", "1e-2,1e-3", "--relative-layers", "1e-2"), "exclude each other"),
                (("--layers", "1e-2,1e-3", "--codec", "lossless"), "--codec lossless does not code"),
                (("--layers", "1e-2,1e-3", "--codec", "wavelet-zfp"), "--codec wavelet-zfp does not code"),
                (("--layers", ",".join(f"1e-{k}" for k in range(9))), "the maximum is 8")):
            output = self.tmp / "refused.quarry"
            outcome = qt.run("quarry-write", source, *qt.describe(field), *options, "--output", output)
            with self.subTest(options=options):
                self.assertEqual(outcome.code, qt.USAGE, outcome.err)
                self.assertIn(says, outcome.err)
                self.assertFalse(output.exists())
        for layer in (3, 99):
            outcome = qt.run("quarry", "get", self.cases["exact"].path, "--layer", layer, "--output", self.tmp / "x.npy")
            self.assertEqual(outcome.code, qt.USAGE)
            self.assertIn("has layers of accuracy 0 (the roughest) to 2", outcome.err)

    # --- damage ---

    def test_damage_in_a_layer_leaves_those_before_it(self):
        path = self.tmp / "damaged.quarry"
        field = self.cases["exact"].original
        qt.convert(field, path, "--relative-layers", "1e-2,1e-4,exact", "--files", 1)
        before = [self.array(path, "--layer", layer)[0].tobytes() for layer in range(3)]
        subfile = next(path.rglob("*.qsf"))
        data = bytearray(subfile.read_bytes())
        rough = self.plan(path, "--layer", 1)["bytes"]
        data[144 + rough + 100] ^= 0x10  # behind the header and the first two layers
        subfile.write_bytes(data)
        for target, options in ((path, ()), (self.server_of(path), ())):
            for layer in range(2):
                self.assertEqual(self.array(target, "--layer", layer, *options)[0].tobytes(), before[layer])
            outcome = qt.run("quarry", "get", target, "--output", self.tmp / "x.npy", *options)
            self.assertEqual(outcome.code, qt.DAMAGED, outcome.err)
            self.assertIn("checksum", outcome.err)
        outcome = qt.run("quarry", "verify", path)
        self.assertEqual(outcome.code, qt.DAMAGED)
        self.assertIn("of layer 2", outcome.out + outcome.err)

    def test_damage_shows_what_is_left(self):
        """The most layers of the finest level that are whole, at it and at all coarser ones; found here from the table."""
        path = self.tmp / "left.quarry"
        field = self.cases["exact"].original
        qt.convert(field, path, "--relative-layers", "1e-2,1e-4,exact", "--files", 1, "--patch", PATCH)
        levels, layers = qt.info(path)["levels"], 3
        whole = {(k, l): self.array(path, "--layer", k, "--level", l)[0] for k in range(layers) for l in range(levels)}
        subfile = next(path.rglob("*.qsf"))
        rows = patch_table(subfile, levels, layers)
        random = qt.random_numbers("damage")
        damage = {patch: [] for patch in rows}
        for patch, level, layer in [(0, 0, 2), (1, 0, 1), (2, 0, 0), (3, 1, 2), (4, 1, 1), (5, 1, 0), (6, 2, 2)]:
            damage[patch].append((level, layer))
        # Twice in a patch, in any order.
        damage[7] += [(1, 2), (0, 1)]
        damage[8] += [(2, 1), (1, 0)]
        for patch in sorted(rows)[9:]:
            damage[patch] = [(int(random.integers(0, levels - 1)), int(random.integers(0, layers)))
                             for _ in range(random.integers(0, 3))]
        data = bytearray(subfile.read_bytes())
        for patch, places in damage.items():
            # Each place once: the same byte flipped twice would be whole again.
            places[:] = [place for place in dict.fromkeys(places) if rows[patch][place][1] > 0]
            for place in places:
                offset, size = rows[patch][place]
                data[offset + int(random.integers(0, size))] ^= 0x10
        subfile.write_bytes(data)

        def left(patch, level):
            """The (level, layer) that a patch shows instead of a level."""
            for shown in range(level, levels):
                bad = [layer for l, layer in damage[patch] if l >= shown]
                if min(bad, default=layers) > 0:
                    return shown, min(bad, default=layers) - 1
            raise AssertionError("the coarsest level was left whole")

        counts = [-(-n // PATCH) for n in field.shape[::-1]]
        server = self.server_of(path)
        for level in range(levels):
            expected = whole[layers - 1, level].copy()
            listed = set()
            for patch in rows:
                shown = left(patch, level)
                if shown == (level, layers - 1):
                    continue
                position = [patch % counts[0], patch // counts[0] % counts[1], patch // (counts[0] * counts[1])]
                begin = [-(-PATCH * i // 2**level) for i in position]
                end = [min(-(-PATCH * (i + 1) // 2**level), n) for i, n in zip(position, expected.shape[::-1])]
                if any(b >= e for b, e in zip(begin, end)):
                    continue
                places = [np.arange(b, e) >> (shown[0] - level) for b, e in zip(begin, end)]
                inside = tuple(slice(b, e) for b, e in zip(begin, end))[::-1]
                expected[inside] = whole[shown[1], shown[0]][np.ix_(*places[::-1])]
                listed.add((tuple(begin), tuple(e - b for b, e in zip(begin, end)), *shown))
            for target, options in ((path, ()), (server, ("--encoding", "samples")), (server, ("--encoding", "patches"))):
                for progressive in ((), ("--progressive",)):
                    answer, said = self.damaged(target, "--level", level, *options, *progressive)
                    with self.subTest(level=level, options=options, progressive=progressive):
                        self.assertEqual(answer.tobytes(), expected.tobytes())
                        self.assertEqual({(tuple(box["begin"]), tuple(box["shape"]), box["shown_level"], box["shown_layer"])
                                          for box in said["damaged"]}, listed)
                        self.assertEqual(said["max_error"] is None, bool(listed))
                        self.assertEqual(said["layer"], layers - 1)

    def test_what_goes_on_from_damage_is_not_sent(self):
        path = self.tmp / "useless.quarry"
        qt.convert(self.cases["exact"].original, path, "--relative-layers", "1e-2,1e-4,exact", "--files", 1, "--patch", PATCH)
        levels = qt.info(path)["levels"]
        subfile = next(path.rglob("*.qsf"))
        rows = patch_table(subfile, levels, 3)
        data = bytearray(subfile.read_bytes())
        data[rows[0][0, 1][0]] ^= 0x10  # damages layer 1, at the finest level of the first patch
        subfile.write_bytes(data)
        due = sum(size for patch, places in rows.items() for (_, layer), (_, size) in places.items() if patch > 0 or layer == 0)
        _, said = self.damaged(self.server_of(path), "--encoding", "patches", "--progressive")
        self.assertEqual(said["bytes_received"], due)

    def test_a_file_that_is_cut_shows_the_layers_before(self):
        """With an index the tables are known, and payload that is gone cannot even be read."""
        path = self.tmp / "cut.quarry"
        field = self.cases["exact"].original
        qt.convert(field, path, "--relative-layers", "1e-2,1e-4,exact", "--files", 1, "--patch", PATCH)
        qt.succeed("quarry-index", path)
        levels, layers = qt.info(path)["levels"], 3
        whole = {(k, l): self.array(path, "--layer", k, "--level", l)[0] for k in range(layers) for l in range(levels)}
        subfile = next(path.rglob("*.qsf"))
        rows = patch_table(subfile, levels, layers)
        data = bytearray(subfile.read_bytes())
        # Layers lie one after the other: the last one is cut away behind its first patch, and two patches have a wrong
        # byte in what is left.
        end = sum(rows[0][0, layers - 1])
        for patch, place in ((5, (0, 0)), (6, (0, 1))):
            data[rows[patch][place][0]] ^= 0x10
        subfile.write_bytes(data[:end])
        server = self.server_of(path)
        expected = whole[layers - 2, 0].copy()
        expected[:PATCH, :PATCH, :PATCH] = whole[layers - 1, 0][:PATCH, :PATCH, :PATCH]
        shape = [-(-n // PATCH) for n in field.shape[::-1]]
        for patch, (layer, level) in ((5, (layers - 2, 1)), (6, (0, 0))):
            at = [patch % shape[0] * PATCH, patch // shape[0] % shape[1] * PATCH, patch // (shape[0] * shape[1]) * PATCH]
            places = [np.arange(b, min(b + PATCH, n)) for b, n in zip(at, field.shape[::-1])]
            inside = np.ix_(*places[::-1])
            expected[inside] = whole[layer, level][np.ix_(*[axis >> level for axis in places[::-1]])]
        for encoding in ("samples", "patches"):
            answer, said = self.damaged(server, "--encoding", encoding)
            with self.subTest(encoding=encoding):
                self.assertEqual(answer.tobytes(), expected.tobytes())
                self.assertEqual(len(said["damaged"]), len(rows) - 1)

    def damaged(self, target, *options):
        """The finest answer, with damage allowed, and what is said of it."""
        output = self.tmp / "answer.npy"
        outcome = qt.succeed("quarry", "get", target, "--output", output, "--json", "--allow-damage", *options)
        return np.load(output), json.loads(outcome.out.splitlines()[-1])

    def server_of(self, path):
        return self.enterContext(qt.Server(path.parent)).target(path)


if __name__ == "__main__":
    qt.main()
