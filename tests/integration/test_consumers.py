"""Consumers in transit of a real simulation: some ranks of examples/lbm draw pictures of the vorticity while the others go
on. Every pixel is compared with the vorticity that numpy computes of dumps, which travel another way."""

import numpy as np
import quarry_testing as qt

BARRIER = (64, 64, 64)
STEPS = (20, 40, 60)
# The ends and the middle of Moreland's blue-white-red map.
BLUE, WHITE, RED = (59, 76, 192), (221, 220, 220), (180, 4, 38)


def pixels_of(folder, step):
    return qt.read_png((folder / f"vorticity{step:06}.png").read_bytes())[::-1]  # y upwards, as in the dumps


class Consumers(qt.QuarryTest):
    def lbm(self, ranks, *arguments):
        program = qt.BIN / "lbm"
        if not program.is_file():
            qt.skip("lbm is not built here")
        return qt.run(*qt.mpi_command(ranks, program, "--steps", STEPS[-1], "--dump-every", STEPS[0], *arguments))

    def draw(self, ranks, consumers, name, *arguments):
        folder = self.tmp / name
        outcome = self.lbm(ranks, "--consumers", consumers, "--pictures", folder, *arguments)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assertEqual([path.name for path in sorted(folder.iterdir())],
                         [f"vorticity{step:06}.png" for step in STEPS])
        self.assertRegex(outcome.out, r"(?m)^writers: .* 3 pictures, .*; the simulation has waited \d+\.\d+ s$")
        return folder

    def velocity(self, dump, step, axis, dims):
        name = f"lbm-velocity_{axis}-[{'-'.join(map(str, dims))}]-Float32.raw"
        field = np.fromfile(dump / f"step{step:06}" / name, "<f4").reshape(dims[::-1])
        return field[dims[2] // 2].astype(float)  # the plane in the middle of z, [y, x]

    def assert_drawn(self, pixels, ux, uy, dims, inflow=0.1):
        # np.gradient is one-sided at the edges, and half the difference of the neighbours elsewhere.
        vorticity = np.gradient(uy, axis=1) - np.gradient(ux, axis=0)
        # As in examples/lbm/README.md: a cylinder of 0.17 of the y axis; the colours end at 5 inflow / diameter.
        diameter = np.float32(0.17) * min(dims[0] / 2, dims[1])
        scale = 5 * inflow / diameter
        self.assertEqual(pixels.shape, (dims[1], dims[0], 3))
        barrier = (pixels == BARRIER).all(axis=2)
        self.assertTrue(((ux == 0) & (uy == 0))[barrier].all())
        self.assertAlmostEqual(barrier.sum(), np.pi * diameter**2 / 4, delta=2 * np.pi * diameter)
        flow, drawn = vorticity[~barrier], pixels[~barrier]
        # From blue to white red grows, and from white to red blue shrinks: each pixel is in its place.
        red, _, blue = drawn.T
        shade = np.where(blue > red, red, WHITE[0] + WHITE[2] - blue)[np.argsort(flow)]
        self.assertGreaterEqual((shade - np.maximum.accumulate(shade)).min(), -1)
        for wrong, right, colour in ((flow < -1.001 * scale, "below", BLUE), (flow > 1.001 * scale, "above", RED),
                                     (abs(flow) < 1e-3 * scale, "at rest", WHITE)):
            self.assertTrue((abs(drawn[wrong] - colour) <= 1).all(), right)
        self.assertGreater((abs(flow) > 0.2 * scale).sum(), 20)  # there is something to see

    def test_pictures_show_the_vorticity_of_every_step(self):
        for ranks, consumers, dims in ((14, 4, (64, 40, 1)), (5, 3, (47, 33, 16))):
            with self.subTest(ranks=ranks, consumers=consumers):
                dump = self.tmp / f"dump{ranks}"
                folder = self.draw(ranks, consumers, f"pictures{ranks}", "--dims", "x".join(map(str, dims)), "--output",
                                   dump)
                for step in STEPS:
                    ux, uy = (self.velocity(dump, step, axis, dims) for axis in "xy")
                    self.assert_drawn(pixels_of(folder, step), ux, uy, dims)

    def test_any_split_draws_the_same_beside_or_instead_of_a_dataset(self):
        dims = ("--dims", "50x41x1", "--no-dump")
        insitu = self.tmp / "insitu.quarry"
        outcome = self.lbm(3, *dims, "--insitu", insitu)
        self.assertEqual(outcome.code, qt.DONE, outcome)
        first = self.draw(2, 1, "first", *dims)
        for ranks, consumers in ((6, 2), (7, 5)):
            with self.subTest(ranks=ranks, consumers=consumers):
                dataset = self.tmp / f"{ranks}.quarry"
                folder = self.draw(ranks, consumers, f"pictures{ranks}", *dims, "--insitu", dataset)
                for step in STEPS:
                    name = f"vorticity{step:06}.png"
                    self.assertEqual((folder / name).read_bytes(), (first / name).read_bytes())
                files = [{str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*")
                          if path.is_file()} for root in (insitu, dataset)]
                self.assertEqual(files[0], files[1])

    def test_a_picture_that_cannot_be_written_ends_all_ranks_with_one_line(self):
        dims = ("--dims", "32x32x1", "--no-dump")
        folder = self.tmp / "pictures"
        (folder / "vorticity000040.png").mkdir(parents=True)  # a file cannot take its place
        outcome = self.lbm(6, *dims, "--consumers", 2, "--pictures", folder)
        self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
        self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
        self.assertIn("consumer 0 has failed in step 40 of \"lbm\"", outcome.err)
        self.assertTrue((folder / "vorticity000020.png").is_file())
        self.assertFalse((folder / "vorticity000060.png").exists())

        (self.tmp / "file").touch()
        outcome = self.lbm(3, *dims, "--consumers", 1, "--pictures", self.tmp / "file" / "pictures")
        self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
        self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
        self.assertIn("consumer 0 has failed at the opening", outcome.err)

    def test_wrong_options(self):
        for arguments, mention in ((("--no-dump",), "nothing to write"), (("--pictures", "x"), "nobody who draws"),
                                   (("--consumers", 1), "--pictures"), (("--dims", "32x32x0"), "1 and more of z"),
                                   (("--consumers", 1, "--pictures", "x", "--intransit", 1, "--insitu", "y"),
                                    "--intransit")):
            with self.subTest(mention):
                outcome = self.lbm(2, *arguments)
                self.assertEqual(outcome.code, qt.USAGE, outcome)
                self.assertEqual(len(outcome.lines_of("lbm")), 1, outcome)
                self.assertIn(mention, outcome.err)


if __name__ == "__main__":
    qt.main()
