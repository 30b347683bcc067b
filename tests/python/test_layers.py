"""Layers of accuracy in everything that shows a field: each costs what a read of the same samples costs."""

import json
import os
import sys
import types
import unittest.mock

os.environ["MPLBACKEND"] = "agg"

import matplotlib.pyplot as plt
from python_testing import PACKAGE, np, qt, quarry

import xarray  # noqa: E402
from vtkmodules.util.numpy_support import vtk_to_numpy  # noqa: E402
from vtkmodules.util.vtkAlgorithm import VTKPythonAlgorithmBase  # noqa: E402

import quarry_outofcore as outofcore  # noqa: E402
from quarry._xarray import QuarryBackendEntrypoint  # noqa: E402


def paraview_reader():
    """The plugin, by VTK's own pipeline: ParaView's decorators only describe its properties to ParaView."""
    described = types.SimpleNamespace(**dict.fromkeys(
        ("source", "stringvector", "intvector", "doublevector", "dataarrayselection", "intrange"),
        lambda *given, **said: lambda of: of))
    algorithm = types.ModuleType("paraview.util.vtkAlgorithm")
    algorithm.VTKPythonAlgorithmBase = VTKPythonAlgorithmBase
    algorithm.smdomain = algorithm.smproperty = algorithm.smproxy = described
    stands = {"paraview": types.ModuleType("paraview"), "paraview.util": types.ModuleType("paraview.util"),
              "paraview.util.vtkAlgorithm": algorithm}
    with unittest.mock.patch.dict(sys.modules, stands):
        from quarry import paraview_reader
        return paraview_reader


class Counting:
    """A dataset of the library that adds up the planned bytes of its reads, and notes their levels and layers."""

    def __init__(self, native):
        self._native, self.bytes, self.shown = native, 0, set()

    def __getattr__(self, name):
        return getattr(self._native, name)

    def read(self, question, *given, **named):
        plan = self._native.plan(question)
        self.bytes += plan.price.bytes
        self.shown.add((plan.levels[-1].level, plan.layer))
        return self._native.read(question, *given, **named)


class Fronts(qt.QuarryTest):
    """Each front that shows a field in layers costs what a read of the same samples costs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.shared / "fronts.quarry"
        cls.data = np.cumsum(np.random.default_rng(8).normal(size=(6, 32, 48, 64)), axis=3)
        quarry.write(cls.path, {"p": cls.data, "q": cls.data[:, ::-1]}, patch=16, relative_layers=[1e-2, 1e-4, "exact"])
        quarry.write(cls.path, {"area": np.ones((32, 48, 64))}, lossless=True, mode="append", step=0, patch=16)
        cls.steps = list(range(6))
        with quarry.open(cls.path) as dataset:
            cls.levels = dataset.levels
        cls.allowed = 1e-2 * float(np.ptp(cls.data, axis=(1, 2, 3)).max())

    def cost(self, ask):
        """Planned bytes, levels and layers of all reads."""
        made, original = [], quarry._quarry.open_dataset

        def opened(*given):
            made.append(Counting(original(*given)))
            return made[-1]
        with unittest.mock.patch.object(quarry._quarry, "open_dataset", opened):
            ask()
        return sum(one.bytes for one in made), set().union(*(one.shown for one in made))

    def read(self, *boxes, **how):
        """The cost of reading these boxes in all steps."""
        def ask():
            with quarry.open(self.path) as dataset:
                for box in boxes:
                    for step in self.steps:
                        dataset["p"].read(step=step, box=box, **how)
        return self.cost(ask)

    def fronts(self, **how):
        """Each front, by its name, as a function that shows all steps."""
        def xarrays():
            with xarray.open_dataset(self.path, engine=QuarryBackendEntrypoint,
                                     **({"max_error": {"p": how["max_error"]}} if "max_error" in how else how)) as opened:
                opened.p.load()

        def trees():
            with xarray.open_datatree(self.path, engine=QuarryBackendEntrypoint, **how) as tree:
                tree["0/p"].load()

        def field(ask):
            with quarry.open(self.path) as dataset:
                ask(dataset["p"])
        fronts = {
            "xarray": xarrays, "to_xarray": lambda: field(lambda p: p.to_xarray(**how).load()),
            "export": lambda: field(lambda p: p.dataset.export(self.tmp / "p.npy", fields="p", overwrite=True, **how)),
            "ParaView": lambda: self.paraview(**how)}
        return fronts | ({} if "max_error" in how else {"xarray's trees": trees})

    def paraview(self, max_error=-1.0, layer=-1):
        reader = paraview_reader().QuarryReader()
        reader.SetTarget(str(self.path))
        reader.SetMaxError(max_error)
        reader.SetLayer(layer)
        reader.UpdateInformation()
        for name in ("q", "area"):
            reader.GetFields().DisableArray(name)
        for step in self.steps:
            reader.UpdateTimeStep(float(step))
        return reader

    def test_a_source_of_paraview_without_fields_has_the_extent_of_its_level(self):
        reader = paraview_reader().QuarryReader()
        reader.SetTarget(str(self.path))
        reader.SetLevel(1)
        reader.UpdateInformation()
        for name in ("p", "q", "area"):
            reader.GetFields().DisableArray(name)
        reader.UpdateTimeStep(0.0)
        image = reader.GetOutputDataObject(0)
        self.assertEqual((image.GetDimensions(), image.GetPointData().GetNumberOfArrays()), ((32, 24, 16), 0))

    def test_samples_of_paraview_are_those_of_a_read(self):
        """VTK's image has x as the fastest axis."""
        image = self.paraview(layer=1).GetOutputDataObject(0)
        with quarry.open(self.path) as dataset:
            wanted = dataset["p"].read(step=self.steps[-1], layer=1).array
        self.assertEqual(image.GetDimensions(), wanted.shape[::-1])
        np.testing.assert_array_equal(vtk_to_numpy(image.GetPointData().GetArray("p")).reshape(wanted.shape), wanted)

    def test_arguments_of_paraview_that_exclude_each_other(self):
        """VTK prints errors of a source in Python, and its pipeline goes on without samples."""
        for sets in (lambda reader: reader.SetLayer(0), lambda reader: reader.SetLevel(1)):
            reader = paraview_reader().QuarryReader()
            reader.SetTarget(str(self.path))
            reader.SetMaxError(self.allowed)
            sets(reader)
            with self.assertRaisesRegex(ValueError, "only one of level and max_error"):
                reader._choice()

    def chosen(self):
        """The level and layer that a read of all steps within the error shows."""
        with quarry.open(self.path) as dataset:
            plans = [dataset["p"].plan(step=step, max_error=self.allowed) for step in self.steps]
            return max((plan.levels[-1].level, plan.layer) for plan in plans)

    def test_a_hundredth_of_the_range_costs_what_a_read_does(self):
        level, layer = self.chosen()
        wanted = self.read(None, max_error=self.allowed)
        self.assertEqual(wanted[1], {(level, 0)})
        self.assertLess(4 * wanted[0], self.read(None)[0])
        for name, ask in self.fronts(max_error=self.allowed).items():
            with self.subTest(front=name):
                self.assertEqual(self.cost(ask), wanted)

    def test_a_layer_costs_what_a_read_of_it_does(self):
        for layer in (0, 1, 2):
            wanted = self.read(None, layer=layer)
            for name, ask in self.fronts(layer=layer).items():
                with self.subTest(front=name, layer=layer):
                    self.assertEqual(self.cost(ask), wanted)

    def test_pictures(self):
        box = ((16, 17), (0, 48), (0, 64))
        picture = {"axis": "z", "index": 16}

        def ask(draw):
            with quarry.open(self.path) as dataset:
                draw(dataset["p"])
            plt.close("all")

        def film(p, how):
            film = p.animate(**picture, **how)  # which reads the first picture
            for step in self.steps[1:]:
                film._draw_frame(step)
            film._draw_was_started = True

        for how in ({"max_error": self.allowed}, {"level": 0, "layer": 0}, {"level": 1, "layer": 1}, {"level": 0}):
            with self.subTest(how=how):
                level, layer = self.chosen() if "max_error" in how else (how["level"], how.get("layer", 2))
                wanted = self.read(box, level=level, layer=layer)
                self.assertEqual(wanted[1], {(level, layer)})
                self.assertEqual(self.cost(lambda how=how: ask(lambda p: film(p, how))), wanted)
                for step in self.steps:
                    with quarry.open(self.path) as dataset:
                        one = dataset["p"].plan(step=step, box=box, level=level, layer=layer).price.bytes
                    self.assertEqual(self.cost(lambda how=how, step=step: ask(lambda p: p.plot(step=step, **picture, **how))),
                                     (one, {(level, layer)}))
                    seen = self.cost(lambda how=how, step=step: ask(lambda p: p.show(step=step, **picture, **how)))[1]
                    self.assertEqual(seen, {(coarse, layer) for coarse in range(level, self.levels)})

    def test_a_picture_within_an_error_is_within_it(self):
        with quarry.open(self.path) as dataset:
            mesh = dataset["p"].plot(axis="z", index=16, step=3, max_error=self.allowed)
            drawn = np.asarray(mesh.get_array())
        plt.close("all")
        level, _ = self.chosen()
        self.assertLessEqual(np.abs(drawn - self.data[3, 16, ::1 << level, ::1 << level]).max(), self.allowed)

    def test_modes(self):
        """The boxes are read at the chosen level and layer, and for the start at a level with a 64th of the samples."""
        level, layer = self.chosen()
        for how, shown in (({"max_error": self.allowed}, (level, layer)), ({"layer": 0}, (0, 0)), ({"level": 1, "layer": 1}, (1, 1)),
                           ({}, (0, 2))):
            with self.subTest(how=how):
                found = []

                def ask(how=how, found=found):
                    with quarry.open(self.path) as dataset:
                        found.append(outofcore.pod(dataset, "p", modes=2, memory="64MiB", subtract_mean=False, **how))
                cost, seen = self.cost(ask)
                self.assertEqual(seen, {shown, (shown[0] + 2, shown[1])})
                # All samples fit into memory, so that each is read once.
                self.assertEqual(cost, sum(self.read(None, level=level, layer=layer)[0] for level, layer in seen))
                original = self.data[:, ::1 << shown[0], ::1 << shown[0], ::1 << shown[0]].reshape(6, -1)
                values = np.linalg.svd(original, compute_uv=False)[:2]
                error = self.allowed if layer == 0 else 0
                np.testing.assert_allclose(found[0].singular_values, values, atol=error * original.size ** 0.5 + 1e-6)

    def test_modes_by_the_command(self):
        for arguments, how in ((["--layer", 0], {"layer": 0}), (["--max-error", self.allowed], {"max_error": self.allowed})):
            said = json.loads(qt.succeed(sys.executable, "-m", "quarry_outofcore", self.path, "--field", "p", "--modes", 2,
                                         "--json", *arguments, env={"PYTHONPATH": str(PACKAGE)}).out)
            with quarry.open(self.path) as dataset:
                wanted = outofcore.pod(dataset, "p", modes=2, **how).singular_values
            np.testing.assert_allclose(said["singular_values"], wanted, rtol=1e-9)

    def test_statistics_are_of_the_layer(self):
        with quarry.open(self.path) as dataset:
            field = dataset["p"]
            for layer in (0, 1, 2):
                decoded = np.asarray(field.read(steps="all", layer=layer))
                self.assertEqual((field.min(layer=layer).value, field.max(layer=layer).value), (decoded.min(), decoded.max()))
                self.assertAlmostEqual(field.mean(layer=layer).value, decoded.mean())

    def test_a_layer_that_no_field_has_is_refused(self):
        """One rule: a read of one field refuses it, and so does a front that shows several fields."""
        with quarry.open(self.path) as dataset:
            self.assertEqual((dataset["p"].layers, dataset["area"].layers), (3, 1))
            with self.assertRaisesRegex(quarry.Error, r"layers of accuracy 0 \(the roughest\) to 2"):
                dataset["p"].read(layer=3)
            with self.assertRaisesRegex(quarry.Error, r"layers of accuracy 0 \(the roughest\) to 0"):
                dataset["area"].read(layer=1)
            p, area = dataset["p"], dataset["area"]
            refused = {
                "plot": lambda layer: p.plot(layer=layer), "show": lambda layer: p.show(layer=layer),
                "animate": lambda layer: p.animate(layer=layer), "to_xarray": lambda layer: p.to_xarray(layer=layer),
                "export": lambda layer: dataset.export(self.tmp / "no.nc", layer=layer),
                "pod": lambda layer: outofcore.pod(dataset, ["p", "q"], modes=2, layer=layer),
                "xarray": lambda layer: xarray.open_dataset(self.path, engine=QuarryBackendEntrypoint, layer=layer)}
            for name, ask in refused.items():
                for layer in (3, -1):
                    with self.subTest(front=name, layer=layer), \
                            self.assertRaisesRegex(ValueError, f"there is no layer {layer}; .*layers of accuracy 0, the roughest, to 2"):
                        ask(layer)
            plt.close("all")
            for ask in (area.to_xarray, lambda layer: dataset.export(self.tmp / "no.npy", fields="area", layer=layer)):
                with self.assertRaisesRegex(ValueError, "there is no layer 1; area has layers of accuracy 0"):
                    ask(layer=1)
            with self.assertRaisesRegex(ValueError, "max_error chooses the layer, too"):
                p.plot(max_error=1, layer=0)

    def test_a_field_with_fewer_layers_shows_its_last(self):
        with xarray.open_dataset(self.path, engine=QuarryBackendEntrypoint, layer=1) as opened:
            np.testing.assert_array_equal(opened.area[0], np.ones(self.data.shape[1:]))
            self.assertEqual(opened.p.attrs["layer"], 1)


if __name__ == "__main__":
    qt.main()
