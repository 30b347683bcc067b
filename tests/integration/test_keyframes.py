"""Steps that refer to others: every step, box and level comes back as it was written, whichever is read first; what
is damaged damages those that refer to it, and never gives a wrong value."""

import json
import shutil

import numpy as np

import quarry_testing as qt

DIMS = (41, 30, 17)
STEPS = 9
PATCH = 16
RELATIVE = 1e-3


def series(dtype="<f4", holes=False):
    """Waves that move slowly over noise that stays, [step, z, y, x]; with holes that move."""
    noise = qt.random_numbers("keyframes").standard_normal(DIMS[::-1])
    z, y, x = np.meshgrid(*[np.arange(n) for n in DIMS[::-1]], indexing="ij")
    steps = []
    for step in range(STEPS):
        field = np.sin(0.3 * x + 0.05 * step) + np.cos(0.2 * y - 0.03 * step + 0.1 * z) + 0.3 * noise
        field = (100 * field).astype(dtype)
        if holes:
            field[(x + 2 * y + 3 * z + step) % 13 < 4] = np.nan
            field[:, :, :20 + step] = np.nan
        steps.append(field)
    return np.stack(steps)



class Keyframes(qt.QuarryTest):
    def convert(self, steps, name, *options, first=0, ranks=0, patch=PATCH):
        """Writes the steps, from number `first` on, as one run does."""
        folder = self.tmp / f"{name}-source"
        folder.mkdir(exist_ok=True)
        files = []
        for number, field in enumerate(steps, first):
            files.append(folder / f"step{number:03}.raw")
            field.tofile(files[-1])
        command = qt.mpi_command(ranks, "quarry-write" if ranks else qt.SERIAL_WRITER, *files, *qt.describe(steps[0]), "--field",
                                 "f", "--patch", patch, *options, "--output", self.tmp / f"{name}.quarry")
        qt.succeed(*command)
        return self.tmp / f"{name}.quarry"

    def read(self, target, step, *options, dtype="<f4"):
        return qt.get_array(target, self.tmp / "read.raw", dtype, "--step", step, *options)

    def references(self, dataset, steps=STEPS):
        """For each step, the steps to which it refers."""
        return [[int(other) for other in qt.step_manifest(dataset, step)["fields"][0].get("references", [])]
                for step in range(steps)]

    # --- what is written ---

    def test_a_keyframe_every_so_many_steps(self):
        dataset = self.convert(series(), "four", "--relative", RELATIVE, "--keyframe", 4)
        self.assertEqual(self.references(dataset), [[], [0, 2], [0, 4], [2, 4], [], [4, 6], [4, 8], [6, 8], []])
        self.assertEqual(qt.info(dataset)["fields"][0]["keyframe"], 4)
        self.assertIn("a keyframe at least every 4 steps", qt.succeed("quarry", "info", dataset).out)
        alone = self.convert(series(), "alone", "--relative", RELATIVE)
        self.assertEqual(self.references(alone), [[]] * STEPS)
        # The last two steps hang on the last one.
        self.assertEqual(self.references(self.convert(series()[:7], "seven", "--relative", RELATIVE, "--keyframe", 4), 7)[4:],
                         [[], [4, 6], [4]])
        size = {name: sum(map(len, qt.subfiles(path).values())) for name, path in (("four", dataset), ("alone", alone))}
        self.assertLess(size["four"], 0.9 * size["alone"])

    def test_steps_that_come_one_by_one_are_a_chain(self):
        dataset = self.convert(series()[:1], "chain", "--relative", RELATIVE, "--keyframe", 4)
        for step in range(1, STEPS):
            self.convert(series()[step:step + 1], "chain", "--append", "--step", step, first=step)
        self.assertEqual(self.references(dataset), [[], [0], [1], [2], [], [4], [5], [6], []])

    def test_what_does_not_change_takes_nothing(self):
        field = series()[0]
        dataset = self.convert([field] * 4, "same", "--relative", RELATIVE, "--keyframe", 16)
        bytes_of = [int(qt.step_manifest(dataset, step)["fields"][0]["stored_bytes"]) for step in range(4)]
        payload = [sum(int(level["bytes"]) for level in qt.step_manifest(dataset, step)["fields"][0]["levels"]) for step in range(4)]
        self.assertLess(max(payload[1:]), payload[0] / 50)
        # Beside the payload, which a sample on the edge of the tolerance may need, a step has the same rows; those of a
        # patch with payload have its checksum besides.
        beside = [size - used for size, used in zip(bytes_of[1:], payload[1:], strict=True)]
        least = min(payload[1:])
        self.assertEqual([one for one, used in zip(beside, payload[1:], strict=True) if used > least],
                         [beside[payload[1:].index(least)] + 8] * sum(used > least for used in payload[1:]))
        self.assertEqual(len({one for one, used in zip(beside, payload[1:], strict=True) if used == least}), 1)

    def test_what_has_nothing_in_common_does_not_refer(self):
        generator = qt.random_numbers("unrelated")
        steps = [generator.standard_normal(DIMS[::-1]).astype("<f4") for _ in range(3)]
        # One large patch: one of some dozen samples can seem to have something in common, by chance.
        dataset = self.convert(steps, "unrelated", "--relative", RELATIVE, "--keyframe", 16, patch=64)
        alone = self.convert(steps, "plain", "--relative", RELATIVE, patch=64)
        self.assertEqual(self.references(dataset, 3), [[]] * 3)
        self.assertEqual(qt.subfiles(dataset), qt.subfiles(alone))

    def test_ranks_parts_and_interruptions_write_the_same(self):
        steps = series()
        options = ("--relative", RELATIVE, "--keyframe", 5, "--files", 2)
        whole = qt.subfiles(self.convert(steps, "whole", *options))
        self.assertEqual(qt.subfiles(self.convert(steps, "parts", *options, "--memory", "128KiB")), whole)
        self.assertEqual(qt.subfiles(self.convert(steps, "ranks", *options, ranks=3)), whole)
        # One run for each step, as in situ after each restart, by one rank and by two.
        chains = []
        for ranks in (0, 2):
            chain = self.convert(steps[:1], f"chain{ranks}", *options, ranks=ranks)
            for step in range(1, STEPS):
                self.convert(steps[step:step + 1], f"chain{ranks}", *options, "--append", "--step", step, first=step, ranks=ranks)
            chains.append(qt.subfiles(chain))
        self.assertEqual(*chains)
        # A run that ended in the middle, and one that makes what is missing.
        resumed = self.convert(steps, "resumed", *options)
        for step in (1, 3, 4, 7, 8):
            shutil.rmtree(resumed / "steps" / f"{step:06}")
        self.convert(steps, "resumed", *options, "--resume")
        self.assertEqual(qt.subfiles(resumed), whole)

    def test_options_that_do_not_go_together(self):
        source = self.tmp / "f.raw"
        series()[0].tofile(source)
        for options, *mentions in ((("--keyframe", 4, "--lossless"), "--keyframe", "lossless"),
                                   (("--keyframe", 4, "--relative", 0.1, "--codec", "wavelet-zfp"), "wavelet-zfp"),
                                   (("--keyframe", 1000, "--relative", 0.1), "256")):
            outcome = qt.run(qt.SERIAL_WRITER, source, *qt.describe(series()[0]), *options, "--output", self.tmp / "no.quarry")
            self.assert_one_line(outcome, qt.USAGE, *mentions)
        dataset = self.convert(series()[:1], "eight", "--relative", RELATIVE, "--keyframe", 8)
        outcome = qt.run(qt.SERIAL_WRITER, source, *qt.describe(series()[0]), "--field", "f", "--append", "--step", 1, "--keyframe", 4,
                         "--output", dataset)
        self.assert_one_line(outcome, qt.USAGE, "a keyframe every 8 steps", "a keyframe every 4 steps")

    # --- what is read ---

    def test_any_step_box_and_level_in_any_order(self):
        for name, steps, options in (("float", series(), ()), ("double", series("<f8"), ("--order", "level")),
                                     ("integers", series("<i2"), ()), ("holes", series(holes=True), ())):
            bound = ("--tolerance", 3) if steps.dtype.kind == "i" else ("--relative", RELATIVE)
            dataset = self.convert(steps, name, *bound, "--keyframe", 6, *options)
            self.assertEqual(self.references(dataset)[3], [0, 6], name)
            whole = {}
            for step, original in enumerate(steps):
                for level in (0, 1, 3):
                    stride = 1 << level
                    part = original[::stride, ::stride, ::stride]
                    whole[step, level] = self.read(dataset, step, "--level", level, dtype=steps.dtype.str).reshape(part.shape)
                    valid = ~np.isnan(part) if part.dtype.kind == "f" else np.ones(part.shape, bool)
                    tolerance = float(qt.step_manifest(dataset, step)["fields"][0]["tolerance"])
                    error = np.abs(whole[step, level][valid].astype("f8") - part[valid].astype("f8"))
                    self.assertLessEqual(error.max(initial=0), tolerance, (name, step, level))
                    if part.dtype.kind == "f":
                        self.assertTrue((np.isnan(whole[step, level]) == np.isnan(part)).all())
            generator = qt.random_numbers("reads", name)
            qt.succeed("quarry-index", dataset)
            with qt.Server(self.tmp, "--quiet") as server:
                for _ in range(qt.scaled(25, 2000)):
                    step, level = int(generator.integers(STEPS)), int(generator.choice((0, 1, 3)))
                    begin = [int(generator.integers(n)) for n in DIMS]
                    end = [int(generator.integers(b, n)) + 1 for b, n in zip(begin, DIMS)]
                    box = ",".join(f"{b}:{e}" for b, e in zip(begin, end))
                    stride = 1 << level
                    expected = whole[step, level][tuple(slice(-(-b // stride), -(-e // stride)) for b, e in zip(begin[::-1], end[::-1]))]
                    target = dataset if generator.random() < 0.3 else server.target(name)
                    encoding = ("--encoding", str(generator.choice(("samples", "patches", "auto"))))
                    got = self.read(target, step, "--box", box, "--level", level, *encoding, dtype=steps.dtype.str)
                    self.assertEqual(got.tobytes(), expected.tobytes(), (name, step, level, box))

    def test_layers_refer_to_the_same_layer(self):
        steps = series()
        dataset = self.convert(steps, "layers", "--layers", "30,1,exact", "--keyframe", 4)
        self.assertEqual(self.references(dataset)[1], [0, 2])
        for step in (7, 2, 0):
            for layer, tolerance in enumerate((30, 1, 0)):
                for level in (2, 0):
                    stride = 1 << level
                    part = steps[step][::stride, ::stride, ::stride]
                    got = self.read(dataset, step, "--layer", layer, "--level", level).reshape(part.shape)
                    self.assertLessEqual(np.abs(got - part).max(), tolerance)
        rough, fine = (json.loads(qt.succeed("quarry", "plan", dataset, "--field", "f", "--step", 3, "--layer", layer, "--json").out)
                       for layer in (0, 2))
        self.assertLess(rough["bytes"], fine["bytes"] / 5)

    def test_the_price_has_all_steps_that_are_read(self):
        dataset = self.convert(series(), "price", "--relative", RELATIVE, "--keyframe", 4)
        def price(step, *options):
            return json.loads(qt.succeed("quarry", "plan", dataset, "--field", "f", "--step", step, *options, "--json").out)
        own = [sum(int(level["bytes"]) for level in qt.step_manifest(dataset, step)["fields"][0]["levels"]) for step in range(STEPS)]
        self.assertEqual(price(0)["bytes"], own[0])
        self.assertEqual(price(2)["bytes"], own[0] + own[2] + own[4])
        self.assertEqual(price(3)["bytes"], own[0] + own[2] + own[3] + own[4])
        self.assertEqual(price(4)["bytes"], own[4])
        outcome = json.loads(qt.succeed("quarry", "get", dataset, "--field", "f", "--step", 3, "--output", self.tmp / "o.raw",
                                        "--json").out)
        self.assertEqual(outcome["bytes_received"], price(3)["bytes_read"])

    def test_max_bytes_counts_all_steps_that_are_read(self):
        dataset = self.convert(series(), "within", "--relative", 1e-6, "--keyframe", 4)
        own = sum(int(level["bytes"]) for level in qt.step_manifest(dataset, 3)["fields"][0]["levels"])
        room = series()[3].nbytes
        self.assertLess(own, room, "alone it would fit")
        choice = json.loads(qt.succeed("quarry", "plan", dataset, "--field", "f", "--step", 3, "--max-bytes", room, "--json").out)
        self.assertLessEqual(choice["bytes"], room)
        self.assertEqual(choice["level"], 1)

    # --- damage ---

    def test_damage_reaches_those_that_refer_and_no_other(self):
        steps = series()
        dataset = self.convert(steps, "damaged", "--relative", RELATIVE, "--keyframe", 4)
        whole = {step: self.read(dataset, step) for step in range(STEPS)}
        subfile = dataset / "steps" / "000002" / "f" / "0000.qsf"
        data = bytearray(subfile.read_bytes())
        data[200:230] = bytes(30)
        subfile.write_bytes(data)
        with qt.Server(self.tmp, "--quiet") as server:
            for target in (dataset, server.target("damaged")):
                for step in range(STEPS):
                    command = ("quarry", "get", target, "--field", "f", "--step", step, "--output", self.tmp / "d.raw")
                    if step not in (1, 2, 3):
                        qt.succeed(*command)
                        self.assertEqual((self.tmp / "d.raw").read_bytes(), whole[step].tobytes())
                        continue
                    outcome = qt.run(*command)
                    self.assert_one_line(outcome, qt.DAMAGED, "000002")
                    shown = qt.run(*command, "--allow-damage", "--json")
                    if shown.code == qt.DONE:
                        self.assertTrue(json.loads(shown.out)["damaged"])
        self.assertEqual(qt.run("quarry", "verify", dataset).code, qt.DAMAGED)

    def test_a_step_that_is_gone_is_missed(self):
        dataset = self.convert(series(), "gone", "--relative", RELATIVE, "--keyframe", 4)
        shutil.rmtree(dataset / "steps" / "000002")
        self.read(dataset, 0)
        for step in (1, 3):
            outcome = qt.run("quarry", "get", dataset, "--field", "f", "--step", step, "--output", self.tmp / "g.raw")
            self.assert_one_line(outcome, qt.DAMAGED, "refers to step 2")
        self.read(dataset, 4)


if __name__ == "__main__":
    qt.main()
