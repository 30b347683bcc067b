"""A reader for ParaView, in directories and from servers.

In ParaView: Tools > Manage Plugins > Load New, and choose this file, which lies in the folder that
`python3 -c "import quarry; print(*quarry.__path__)"` prints. Then Sources > Quarry. In pvpython:

    from paraview.simple import *
    LoadPlugin(".../quarry/paraview_reader.py", remote=False, ns=globals())
    run = Quarry(Target="run42.quarry", Level=2)

ParaView's own Python has to find the package: put the folder that holds `quarry` on PYTHONPATH, or install the wheel
for it. ParaView 5.11 with Python 3.11, as in Debian 12, loads no plugin in Python unless a script first says
`import inspect; inspect.getargspec = inspect.getfullargspec`. Damaged data are an error, which ParaView shows in its
Output Messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from paraview.util.vtkAlgorithm import VTKPythonAlgorithmBase, smdomain, smproperty, smproxy
from vtkmodules.numpy_interface import dataset_adapter
from vtkmodules.vtkCommonCore import vtkDataArraySelection
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Pipeline

import quarry
from quarry._arrays import with_nan
from quarry._choice import Choice, choose, records_of
from quarry._roles import helpers_of


@smproxy.source(name="Quarry", label="Quarry")
class QuarryReader(VTKPythonAlgorithmBase):
    """A box of a dataset at one level, for each step. The points are the samples, at their positions."""

    def __init__(self) -> None:
        super().__init__(nInputPorts=0, nOutputPorts=1, outputType="vtkImageData")
        self._target = ""
        self._token = ""
        self._level = 0
        self._max_error = -1.0
        self._layer = -1
        self._chosen = -1
        self._box = (0, -1, 0, -1, 0, -1)
        self._dataset: quarry.Dataset | None = None
        self._fields = vtkDataArraySelection()
        self._fields.AddObserver("ModifiedEvent", lambda *_: self.Modified())

    # ---- What users set

    @smproperty.stringvector(name="Target", default_values="")
    def SetTarget(self, target: str | None) -> None:
        self._set("_target", target or "", reopens=True)

    @smproperty.stringvector(name="Token", default_values="", panel_visibility="advanced")
    def SetToken(self, token: str | None) -> None:
        self._set("_token", token or "", reopens=True)  # an empty one comes as None

    @smproperty.intvector(name="Level", default_values=0)
    @smdomain.intrange(min=0, max=16)
    def SetLevel(self, level: int) -> None:
        """0 is full resolution; each next one has half the samples along each axis."""
        self._set("_level", level)

    @smproperty.doublevector(name="MaxError", default_values=-1)
    def SetMaxError(self, error: float) -> None:
        """Largest error in the unit of the fields, from 0 on, instead of Level and Layer: it chooses those with the
        fewest bytes that keep every sample of all steps within it. -1: no bound."""
        self._set("_max_error", error)

    @smproperty.intvector(name="Layer", default_values=-1)
    @smdomain.intrange(min=-1, max=7)
    def SetLayer(self, layer: int) -> None:
        """Layer of accuracy, 0 the roughest; -1: the last. Fields with fewer layers than others show their last."""
        self._set("_layer", layer)

    @smproperty.intvector(name="Step", default_values=-1)
    def SetStep(self, step: int) -> None:
        """The number of the step that is shown at any time; -1: the one of ParaView's time."""
        self._set("_chosen", step)

    @smproperty.intvector(name="Box", default_values=[0, -1, 0, -1, 0, -1])
    def SetBox(self, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> None:
        """First and last sample of full resolution along x, y and z; -1 is the last one of the grid."""
        self._set("_box", (x0, x1, y0, y1, z0, z1))

    @smproperty.dataarrayselection(name="Fields")
    def GetFields(self) -> Any:
        return self._fields

    @smproperty.doublevector(name="TimestepValues", information_only="1", si_class="vtkSITimeStepsProperty")
    def GetTimestepValues(self) -> list[float] | None:
        return self._times() if self._target else None

    def _set(self, name: str, value: Any, *, reopens: bool = False) -> None:
        """A new value makes ParaView ask again; one that `reopens` is of another dataset."""
        if value == getattr(self, name):
            return
        setattr(self, name, value)
        if reopens:
            self._dataset = None
        self.Modified()

    # ---- What ParaView asks

    def RequestInformation(self, request: Any, inputs: Any, outputs: Any) -> int:
        if not self._target:
            return 1
        information = outputs.GetInformationObject(0)
        lowest, highest = zip(*self._extent(), strict=True)
        extent = [bound for pair in zip(lowest, [end - 1 for end in highest], strict=True) for bound in pair]
        information.Set(Pipeline.WHOLE_EXTENT(), extent, 6)
        times = self._times()
        if times:
            information.Set(Pipeline.TIME_STEPS(), times, len(times))
            information.Set(Pipeline.TIME_RANGE(), [times[0], times[-1]], 2)
        return 1

    def RequestData(self, request: Any, inputs: Any, outputs: Any) -> int:
        if not self._target:
            return 1
        information = outputs.GetInformationObject(0)
        output = dataset_adapter.WrapDataObject(self.GetOutputDataObject(0))
        dataset, step, choice = self._open(), self._step(information), self._choice()
        spacing = 1 << choice.level
        grid = dataset.grid
        extent = self._extent()
        image = self.GetOutputDataObject(0)
        image.SetExtent([bound for first, end in extent for bound in (first, end - 1)])
        image.SetOrigin([grid.origin[axis] for axis in (2, 1, 0)])
        image.SetSpacing([grid.spacing[axis] * spacing for axis in (2, 1, 0)])
        for name, layer in choice.layers.items():
            if self._fields.ArrayIsEnabled(name) and (dataset[name].still or step in dataset[name].steps):
                samples = dataset[name].read(step=step, level=choice.level, layer=layer, box=self._samples_box())
                output.PointData.append(np.ascontiguousarray(with_nan(samples.array)).reshape(-1), name)
        return 1

    # ---- The dataset

    def _open(self) -> quarry.Dataset:
        if self._dataset is None:
            self._dataset = quarry.open(self._target, token=self._token)
            for name in self._dataset:
                if not self._fields.ArrayExists(name):
                    self._fields.AddArray(name)
            if any(self._dataset.grid.coordinates):
                raise quarry.Error("UNIMPLEMENTED", f"\"{self._target}\" has axes that are not evenly spaced, which an "
                                   "image cannot have; export it to .vti, or use Samples.to_pyvista")
        return self._dataset

    def _choice(self) -> Choice:
        """Level and layers of the selected fields, the same in each step. A level beyond the coarsest means the
        coarsest."""
        dataset = self._open()
        selected = [name for name in dataset if self._fields.ArrayIsEnabled(name)] or [*dataset]
        helping = helpers_of(dataset)
        meant = [name for name in selected if name not in helping] or selected
        layer = None if self._layer < 0 else self._layer
        if self._max_error < 0:
            return choose(dataset, dataset, meant, lambda name: [], level=min(self._level, dataset.levels - 1),
                          max_error=None, layer=layer)
        steps = [self._chosen] if self._chosen >= 0 else dataset.steps
        return choose(dataset, dataset, meant, lambda name: records_of(dataset[name], steps), level=self._level or None,
                      max_error=dict.fromkeys(meant, self._max_error), layer=layer)

    def _samples_box(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """z, y, x; half-open."""
        shape = self._open().shape
        bounds = []
        for axis, length in enumerate(shape):
            first, last = self._box[2 * (2 - axis):2 * (2 - axis) + 2]
            end = length if last < 0 else min(last + 1, length)
            bounds.append((min(max(first, 0), end - 1), end))
        z, y, x = bounds
        return z, y, x

    def _extent(self) -> list[tuple[int, int]]:
        """Samples of the level along x, y, z; half-open."""
        spacing = 1 << self._choice().level
        return [(-(-first // spacing), -(-end // spacing)) for first, end in self._samples_box()][::-1]

    def _times(self) -> list[float]:
        """Times of the steps; their numbers, if the simulation gave no times."""
        dataset = self._open()
        times = [time for time in dataset.times if time is not None]
        ascending = len(times) == len(dataset.steps) and all(a < b for a, b in zip(times, times[1:], strict=False))
        return times if ascending else [float(step) for step in dataset.steps]

    def _step(self, information: Any) -> int:
        """The chosen one; else the one whose time ParaView asks for, or the last before it."""
        dataset, times = self._open(), self._times()
        if self._chosen >= 0:
            if self._chosen not in dataset.steps:
                raise quarry.Error("NOT_FOUND", f"\"{self._target}\" has no step {self._chosen}; Step -1 follows "
                                   "the time")
            return self._chosen
        if not information.Has(Pipeline.UPDATE_TIME_STEP()):
            return dataset.steps[0]
        asked = float(information.Get(Pipeline.UPDATE_TIME_STEP()))
        return dataset.steps[max(0, sum(time <= asked for time in times) - 1)]
