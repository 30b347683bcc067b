"""Programs that read Zarr read `quarry serve-zarr` and quarry-server's port for HTTP, unmodified: tensorstore, ome-zarr-py,
ome-zarr-models, napari, neuroglancer and dask.distributed. ParaView reads by its plugin, and PyVista shows what it gets. Run by
hand, since they are large; what is not installed is skipped:

    apt-get install python3-paraview xvfb     # takes the place of python3-vtk9, which other tests need
    pip install pyvista tensorstore ome-zarr ome-zarr-models napari-ome-zarr PyQt6 dask distributed xarray zarr aiohttp
    pip install neuroglancer playwright pillow    # and Debian's chromium
    python tests/python/ecosystem_test.py
"""

import contextlib
import importlib.metadata
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import unittest

import matplotlib.image
from python_testing import PACKAGE, STEPS, np, qt, quarry
from test_zarr import LEVELS, Hierarchy, Served, damage


def needs(*distributions):
    """Skips a test where one is not installed; says which versions it was run with."""
    def wrap(test):
        try:
            versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in distributions)
        except importlib.metadata.PackageNotFoundError as missing:
            return unittest.skip(f"{missing.name} is not installed")(test)
        test.__doc__ = versions
        return test
    return wrap


def behind(path):
    """quarry-server with a port for HTTP, and the dataset's URL there."""
    server = qt.Server(path.parent, "--http", "127.0.0.1:0", "--http-cors", "*", "--client-rate", 0)
    return server, lambda: f"http://{server.http_address()}/zarr/{path.stem}.zarr"


class Ecosystem(Hierarchy):
    """The datasets of test_zarr.py, without its tests."""

    def urls(self, path, field=None):
        """Addresses at both servers. `serve-zarr` can show a field alone; the other server has it first for readers
        that take the first one."""
        with Served(path, *(["--field", field] if field else [])) as served, self.subTest("serve-zarr"):
            yield served.url
        if field in (None, "p"):
            server, url = behind(path)
            with server, self.subTest("quarry-server"):
                yield url()

    @needs("tensorstore")
    def test_tensorstore(self):
        import tensorstore
        path = self.data / "bad.quarry"
        shutil.copytree(self.path, path)
        self.addCleanup(shutil.rmtree, path)
        damage(path / "steps/000005/p")
        for url in self.urls(path):
            def open_array(array, url=url):
                kvstore = {"driver": "http", "base_url": f"{url}/{array}/"}
                return tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
            random = np.random.default_rng(qt.SEED)
            for name, levels in self.levels.items():
                for level, decoded in enumerate(levels):
                    array = open_array(f"{level}/{name}")
                    self.assertEqual(array.domain.labels, ("step", "z", "y", "x"))
                    np.testing.assert_array_equal(array[0, 1:].read().result(), decoded[0, 1:])
                    for _ in range(qt.scaled(20, 500)):
                        box = tuple(slice(*sorted(random.integers(0, n + 1, 2))) for n in decoded.shape)
                        if name == "p":
                            box = (slice(0, 1), *box[1:])  # the others are damaged
                        np.testing.assert_array_equal(array[box].read().result(), decoded[box])
            array = open_array("0/p")
            self.assertEqual(array.chunk_layout.read_chunk.shape, (1, 16, 16, 16))
            with self.assertRaisesRegex(ValueError, "422"):
                array[1].read().result()
            with self.assertRaises((ValueError, NotImplementedError)):
                array[0].write(0).result()

    @needs("ome-zarr", "zarr")
    def test_ome_zarr(self):
        from ome_zarr.io import parse_url
        from ome_zarr.reader import Reader
        for field in "pm":
            for url in self.urls(self.path, field):
                image = next(iter(Reader(parse_url(url))()))
                for data, decoded in zip(image.data, self.levels[field], strict=True):
                    np.testing.assert_array_equal(data, decoded)
                transformations = image.metadata["coordinateTransformations"]
                self.assertEqual([level[0]["scale"] for level in transformations],
                                 [[1, *[2 ** level] * 3] for level in range(LEVELS)])

    @needs("ome-zarr-models")
    def test_ome_zarr_models(self):
        import zarr
        from ome_zarr_models.v05 import Image
        image = Image.from_zarr(zarr.open_group(quarry.zarr_store(self.path), mode="r"))
        self.assertEqual([multiscale.name for multiscale in image.ome_attributes.multiscales], ["p", "m", "k"])

    @needs("napari", "napari-ome-zarr", "PyQt6")
    def test_napari(self):
        """Its window on Qt's offscreen platform, which paints no OpenGL, and in an X server, with a picture."""
        script = self.tmp / "napari_window.py"
        script.write_text(f"""
import json, sys
import napari, numpy as np
viewer = napari.Viewer()
layer = viewer.open(sys.argv[1], plugin="napari-ome-zarr")[0]
np.save({str(self.tmp / 'level2.npy')!r}, np.asarray(layer.data[2]))
viewer.screenshot({str(self.tmp / 'napari.png')!r}, canvas_only=True, flash=False)
print(json.dumps([layer.multiscale, [data.shape for data in layer.data], layer.extent.world[1].tolist()]))
viewer.close()
""")
        for field, platform in itertools.product("mp", ("offscreen", "xcb")):
            for url in self.urls(self.path, field):
                done = subprocess.run(["xvfb-run", "-a", "-s", "-noreset", sys.executable, script, url], capture_output=True,
                                      text=True, env=os.environ | {"QT_QPA_PLATFORM": platform}, timeout=qt.TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stderr)
                multiscale, shapes, corner = json.loads(done.stdout.splitlines()[-1])
                self.assertTrue(multiscale)
                self.assertEqual(shapes, [list(level.shape) for level in self.levels[field]])
                self.assertEqual(corner, [2, 22, 33, 44])
                np.testing.assert_array_equal(np.load(self.tmp / "level2.npy"), self.levels[field][2])
                if platform == "xcb":
                    colours = np.unique(matplotlib.image.imread(self.tmp / "napari.png").reshape(-1, 4), axis=0)
                    self.assertGreater(len(colours), 50, "the field is not in the window")

    @needs("neuroglancer", "playwright", "pillow")
    def test_neuroglancer(self):
        """In a browser, by its Python package: what is on screen is the slice that the command decodes."""
        import neuroglancer
        from PIL import Image
        from playwright.sync_api import sync_playwright
        neuroglancer.set_server_bind_address("127.0.0.1", 0)
        decoded = self.levels["p"][0][0]
        low, high = float(decoded.min()), float(decoded.max())
        server, url = behind(self.path)
        flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        with server, sync_playwright() as playwright, contextlib.closing(
                playwright.chromium.launch(executable_path="/usr/bin/chromium", args=flags)) as browser:
            viewer = neuroglancer.Viewer()
            with viewer.txn() as state:
                state.dimensions = neuroglancer.CoordinateSpace(names=["x", "y", "z", "step"], units="", scales=[1, 1, 1, 1])
                state.layers["p"] = neuroglancer.ImageLayer(
                    source=f"zarr3://{url()}/", shader_controls={"normalized": {"range": [low, high]}},
                    shader="#uicontrol invlerp normalized\nvoid main() { emitGrayscale(normalized()); }")
                state.layout, state.cross_section_scale = "xy", 0.1
                depth, height, width = decoded.shape
                # Samples lie at whole numbers, as OME-Zarr has it.
                state.position = [(width - 1) / 2, (height - 1) / 2, depth // 2, 0]
                state.show_axis_lines = state.show_scale_bar = state.show_default_annotations = False
            page = browser.new_page(viewport={"width": 800, "height": 600})
            page.goto(viewer.get_viewer_url())
            expected = (decoded[depth // 2] - low) / (high - low) * 255
            for _ in range(600):
                screenshot = page.locator(".neuroglancer-rendered-data-panel").screenshot()
                picture = np.asarray(Image.open(io.BytesIO(screenshot)).convert("L"))
                page.wait_for_timeout(100)
                # Ten pixels a sample, in the middle of the panel.
                top, left = (round(n / 2 - 5 * m) for n, m in zip(picture.shape, expected.shape, strict=True))
                shown = picture[max(0, top) + 5::10, max(0, left) + 5::10][:height, :width].astype(float)
                if shown.shape == expected.shape and np.abs(shown - expected).max() < 3:
                    break
            np.testing.assert_allclose(shown, expected, atol=3)

    @needs("dask", "distributed", "xarray")
    def test_dask_distributed(self):
        import distributed
        import xarray
        for target in (str(self.path), self.server.target(self.path)):
            with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, \
                    distributed.Client(cluster):
                level = xarray.open_zarr(quarry.zarr_store(target), group="0", chunks={})
                means = level["m"].mean(["z", "y", "x"]).compute()
                np.testing.assert_allclose(means, np.nanmean(self.decoded["m"], (1, 2, 3)), rtol=1e-4, atol=1e-6)

    @unittest.skipUnless(shutil.which("pvpython"), "there is no pvpython")
    def test_paraview(self):
        """A box at level 1 of the last step, by the plugin, and a picture of a slice."""
        picture = self.tmp / "slice.png"
        script = self.tmp / "script.py"
        script.write_text(f"""
import inspect
if not hasattr(inspect, "getargspec"): inspect.getargspec = inspect.getfullargspec
from paraview.simple import *
from paraview import numpy_support
LoadPlugin({str(PACKAGE / 'quarry/paraview_reader.py')!r}, remote=False, ns=globals())
run = Quarry(Target={str(self.path)!r}, Level=1, Box=[5, 40, 0, -1, 2, 2])
run.UpdatePipeline(time={STEPS[-1]})
image = servermanager.Fetch(run)
print(image.GetExtent(), image.GetBounds())
chosen = Quarry(Target={str(self.path)!r}, Level=1, Step={STEPS[0]})
chosen.UpdatePipeline(time={STEPS[-1]})
numpy_support.vtk_to_numpy(servermanager.Fetch(chosen).GetPointData().GetArray("m")).tofile({str(self.tmp / 'first.raw')!r})
Delete(chosen)
numpy_support.vtk_to_numpy(image.GetPointData().GetArray("m")).tofile({str(self.tmp / 'm.raw')!r})
view = GetActiveViewOrCreate("RenderView")
shown = Show(run, view)
shown.SetRepresentationType("Slice")
ColorBy(shown, ("POINTS", "m"))
shown.RescaleTransferFunctionToDataRange()
view.ResetCamera()
SaveScreenshot({str(picture)!r}, view)
""")
        # A server that starts anew when its first client leaves may refuse the second.
        done = subprocess.run(["xvfb-run", "-a", "-s", "-noreset", "pvpython", "--force-offscreen-rendering", script],
                              capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(PACKAGE)}, timeout=qt.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(3, 20, 0, 16, 1, 1)", done.stdout)
        np.testing.assert_array_equal(np.fromfile(self.tmp / "m.raw", "f4"),
                                      self.levels["m"][1][-1, 1, :, 3:21].ravel())
        np.testing.assert_array_equal(np.fromfile(self.tmp / "first.raw", "f4"), self.levels["m"][1][0].ravel())
        colours = np.unique(matplotlib.image.imread(picture).reshape(-1, 3), axis=0)
        self.assertGreater(len(colours), 50, "the slice is not on the picture")

    @needs("pyvista")
    def test_pyvista(self):
        import pyvista
        with quarry.open(self.path) as dataset:
            samples = dataset["p"].read(level=1, step=STEPS[-1])
        grid = samples.to_pyvista()
        self.assertEqual(grid.dimensions, samples.shape[::-1])
        np.testing.assert_array_equal(grid["p"].reshape(samples.shape), self.levels["p"][1][-1])
        plotter = pyvista.Plotter(off_screen=True)
        plotter.add_mesh(grid.slice())
        self.assertGreater(plotter.screenshot(self.tmp / "p.png").std(), 1)


for inherited in [name for name in dir(Hierarchy) if name.startswith("test")]:
    setattr(Ecosystem, inherited, None)


del Hierarchy


if __name__ == "__main__":
    qt.main()
