"""Pictures show the decoded samples where they lie, say what is shown, and show what is missing."""

import contextlib
import io
import os
import sys
import unittest.mock

os.environ["MPLBACKEND"] = "agg"

import matplotlib
import matplotlib.pyplot as plt
from python_testing import SHAPE, STEPS, Package, np, qt, quarry


class Pictures(Package):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.placed = cls.shared / "data/placed.quarry"
        field = qt.turbulent((45, 34, 23)).reshape(SHAPE)
        cls.field = np.where(field > 1, np.nan, field).astype("f4")
        quarry.write(cls.placed, np.stack([cls.field, -cls.field]), field="a", units="<Pa>", tolerance=1e-3, patch=16,
                     origin=(1, 2, 3), spacing=(0.5, 0.25, 0.125), time=[0, 0.5])

    def setUp(self):
        super().setUp()
        self.addCleanup(plt.close, "all")

    def shown(self, mesh):
        """The values in a picture, [up, right]; missing ones are NaN."""
        return np.ma.filled(mesh.get_array().astype("f8"), np.nan)

    def test_a_plane_is_the_decoded_samples(self):
        for dataset in self.targets():
            for axis, number in zip("zyx", range(3)):
                mesh = dataset["m"].plot(axis=axis, index=-5, step=5, level=0)
                wanted = np.take(self.decoded["m"][1], -5, number)
                np.testing.assert_array_equal(self.shown(mesh), wanted)
                self.assertIn("step 5", mesh.axes.get_title())

    def test_levels_take_their_nearest_plane(self):
        with quarry.open(self.path) as dataset:
            for level in range(dataset.levels):
                for index in (0, 3, 11, 22):
                    mesh = dataset["p"].plot(index=index, level=level)
                    spacing = 1 << level
                    whole = dataset["p"].read(level=level).array
                    distances = [abs(spacing * plane - index) for plane in range(len(whole))]
                    candidates = [self.shown(mesh).tolist() == whole[plane].astype("f8").tolist()
                                  for plane, distance in enumerate(distances) if distance == min(distances)]
                    self.assertTrue(any(candidates), (level, index))

    def test_positions_units_and_what_is_said(self):
        with quarry.open(self.placed) as dataset:
            mesh = dataset["a"].plot(axis="y", at=2 + 0.25 * 7 + 0.1, step=1, level=0)
            np.testing.assert_array_equal(self.shown(mesh), dataset["a"][1, :, 7])
            axes = mesh.axes
            self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("x", "z"))
            np.testing.assert_allclose(axes.get_xlim(), (3 - 0.0625, 3 + 0.125 * 44 + 0.0625))
            np.testing.assert_allclose(axes.get_ylim(), (1 - 0.25, 1 + 0.5 * 22 + 0.25))
            for text in ("step 1, time 0.5", "y = 3.75", "level 0, within 0.00", "Pa", "missing in grey"):
                self.assertIn(text, axes.get_title())
            self.assertEqual(mesh.colorbar.ax.get_ylabel(), "a [<Pa>]")
            self.assertEqual(matplotlib.colors.to_hex(mesh.cmap.get_bad()), matplotlib.colors.to_hex("0.7"))
            for arguments in ({"at": 99}, {"index": 34}, {"axis": "t"}, {"at": 3, "index": 3}):
                with self.assertRaises(ValueError):
                    dataset["a"].plot(**{"axis": "y", **arguments})

    def test_the_level_follows_the_pixels(self):
        with quarry.open(self.path) as dataset:
            for inches, level in ((10, 0), (0.2, 1), (0.09, 2)):
                figure = plt.figure(figsize=(inches, inches), dpi=100)
                mesh = dataset["p"].plot(ax=figure.add_axes((0, 0, 0.99, 0.85)))
                self.assertEqual(f"level {level}," in mesh.axes.get_title(), True, mesh.axes.get_title())
            mesh = dataset["p"].plot(max_error=1e9)
            self.assertNotIn("level 0", mesh.axes.get_title())
            self.assertIn("level 0", dataset["p"].plot(max_error=2e-3).axes.get_title())

    def test_a_picture_that_sharpens(self):
        drawn = []
        with quarry.open(self.path) as dataset, \
                unittest.mock.patch("matplotlib.backend_bases.FigureCanvasBase.flush_events",
                                    lambda canvas: drawn.append(canvas.figure.axes[0].get_title())):
            mesh = dataset["p"].show(level=0, step=5, axis="x", index=8)
            np.testing.assert_array_equal(self.shown(mesh), self.decoded["p"][1][:, :, 8])
            levels = [int(title.split("level ")[1].split(",")[0]) for title in drawn]
            self.assertEqual(levels, list(range(dataset.levels - 1, -1, -1)))
            self.assertEqual(len(mesh.figure.axes), 2)  # with one colour bar

    def test_a_notebook_shows_one_picture_that_sharpens(self):
        """Against a stand-in for IPython: shown once, updated in place for each level, and closed behind the last."""
        titles, closed = [], []

        class Handle:
            def update(self, figure):
                titles.append(figure.axes[0].get_title())

        ipython, display = type(sys)("IPython"), type(sys)("IPython.display")
        ipython.get_ipython, shown = object, []
        display.display = lambda figure, display_id: shown.append(figure) or Handle()
        with unittest.mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}), \
                unittest.mock.patch("matplotlib.pyplot.close", closed.append), quarry.open(self.path) as dataset:
            mesh = dataset["p"].show(level=0, step=5, index=8)
            self.assertEqual(len(titles), dataset.levels)
        self.assertEqual((shown, closed), ([mesh.figure], [mesh.figure]))
        self.assertIn("level 0", titles[-1])

    def test_a_film(self):
        with quarry.open(self.path) as dataset:
            film = dataset["p"].animate(steps=STEPS[1:], index=4, level=0)
            output = self.tmp / "film.gif"
            film.save(output)
            from PIL import Image
            with Image.open(output) as image:
                self.assertEqual(image.n_frames, 2)
            (mesh,) = film._draw_frame(STEPS[1]) or film._drawn_artists
            np.testing.assert_array_equal(self.shown(mesh), self.decoded["p"][1][4])
            records = [field for step in dataset._steps() if step.step in STEPS[1:] for field in step.fields
                       if field.name == "p"]
            self.assertEqual(mesh.get_clim(), (min(one.min for one in records), max(one.max for one in records)))

    def test_tables_of_notebooks(self):
        with quarry.open(self.placed) as dataset:
            for table in (dataset._repr_html_(), dataset["a"]._repr_html_()):
                self.assertIn("<td>&lt;Pa&gt;</td>", table)
                self.assertNotIn("<Pa>", table)
                self.assertIn("23 × 34 × 45", table)
                self.assertIn("± 0.001", table)

    def test_a_bar_changes_nothing(self):
        boxes = (None, ((3, 21), (5, 30), (7, 8)), ((16, 17), (0, 1), (0, 45)))
        for dataset in self.targets():
            for name in ("m", "k"):
                for question in ({"level": 0}, {"level": 1}, {"max_error": 1.5}, {"max_bytes": 30000}):
                    for box in boxes:
                        plain = dataset[name].read(box=box, step=9, **question)
                        with contextlib.redirect_stderr(io.StringIO()) as bar:
                            told = dataset[name].read(box=box, step=9, progress=True, **question)
                        np.testing.assert_array_equal(told.array, plain.array)
                        for attribute in ("field", "step", "level", "box", "spacing", "damaged", "left_out"):
                            self.assertEqual(getattr(told, attribute), getattr(plain, attribute), attribute)
                        self.assertLessEqual(told.max_error, plain.max_error)
                        if plain.array.size:
                            self.assertIn("100%", bar.getvalue())
            with self.assertRaisesRegex(ValueError, "leave it out"):
                dataset["p"].read(stride=2, progress=True)

    def test_grids_of_vtk(self):
        """Against a stand-in: PyVista itself is not among what the tests install."""
        class Grid:
            def __init__(self, *axes, **shape):
                self.axes, self.shape, self.point_data = axes, shape, {}

        stand_in = type(sys)("pyvista")
        stand_in.ImageData = stand_in.RectilinearGrid = Grid
        with unittest.mock.patch.dict(sys.modules, pyvista=stand_in), quarry.open(self.placed) as dataset:
            samples = dataset["a"].read(level=1, box=((2, 9), (0, 34), (5, 20)))
            grid = samples.to_pyvista()
            self.assertEqual(grid.shape["dimensions"], samples.shape[::-1])
            np.testing.assert_allclose(grid.shape["origin"], (3 + 6 * 0.125, 2, 1 + 2 * 0.5))
            np.testing.assert_allclose(grid.shape["spacing"], (0.25, 0.5, 1))
            np.testing.assert_array_equal(grid.point_data["a"], samples.array.reshape(-1))
        with unittest.mock.patch.dict(sys.modules, pyvista=stand_in), quarry.open(self.path) as dataset:
            integers = dataset["k"].read(step=3).to_pyvista().point_data["k"]
            wanted = self.decoded["k"][0].astype("f4").reshape(-1)
            np.testing.assert_array_equal(integers, np.where(wanted == -999, np.nan, wanted))


if __name__ == "__main__":
    qt.main()
