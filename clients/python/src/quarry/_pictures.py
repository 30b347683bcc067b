"""Fields as pictures: planes with matplotlib, volumes with PyVista, tables in notebooks."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quarry._arrays import with_nan
from quarry._choice import choose, records_of
from quarry._grids import Box, axis_of, coords_of, spacing_of
from quarry._info import bound_of, role_of, stored_size, titled
from quarry._protocols import Dataset, Field, Samples

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MISSING = "0.7"  # grey: no colour of the usual maps


@dataclass(frozen=True)
class Plane:
    """A plane of the grid.

    Attributes:
        axis: 0, 1 or 2, the one that it is normal to: z, y or x
        index: of its samples along that axis, in full resolution
    """

    axis: int
    index: int

    @classmethod
    def of(cls, field: Field, axis: str, at: float | None, index: int | None) -> Plane:
        """The plane nearest to a position; in the middle if neither is given."""
        import numpy as np
        number = axis_of(field.grid, axis)
        if at is not None and index is not None:
            raise ValueError("only one of at and index can be given")
        length = field.grid.shape[number]
        if at is not None:
            positions = coords_of(field.grid)[axis]
            low, high = float(positions.min()), float(positions.max())
            if not low <= at <= high:
                raise ValueError(f"at={at} is outside the grid, which goes from {low} to {high} along {axis}")
            index = int(np.abs(positions - at).argmin())
        if index is None:
            index = length // 2
        if not -length <= index < length:
            raise ValueError(f"index={index} is outside the grid, which has {length} samples along {axis}")
        return cls(number, index % length)

    def axes(self) -> tuple[int, int]:
        """The axes of the picture: up, and to the right."""
        up, right = (axis for axis in range(3) if axis != self.axis)
        return up, right

    def box(self, shape: tuple[int, int, int], level: int) -> Box:
        """The plane of a level that is nearest. Sample i of level l lies on sample i * 2^l of full resolution."""
        spacing = 1 << level
        last = (shape[self.axis] - 1) // spacing
        index = min(round(self.index / spacing), last) * spacing
        z, y, x = ((index, index + 1) if axis == self.axis else (0, length) for axis, length in enumerate(shape))
        return z, y, x


def plot(field: Field, *, step: int | None, image: dict[str, Any], **which: Any) -> Any:
    """See Field.plot."""
    return _draw(_shown(field, _numbers(step), **which), step, image)


def show(field: Field, *, step: int | None, image: dict[str, Any], **which: Any) -> Any:
    """See Field.show."""
    finest = _shown(field, _numbers(step), **which)
    panel = finest.panel
    image = _with_range(field, [step], image)
    notebook = _notebook(panel.figure)
    drawn = None
    for coarse in range(field.levels - 1, finest.level - 1, -1):
        if drawn is not None:
            drawn.colorbar.remove()
            panel.clear()
        drawn = _draw(replace(finest, level=coarse), step, image)
        notebook(last=coarse == finest.level)
    return drawn


def animate(field: Field, steps: Sequence[int] | None, *, interval: float, image: dict[str, Any], **which: Any) -> Any:
    """See Field.animate."""
    from matplotlib.animation import FuncAnimation
    numbers = [*steps] if steps is not None else field.steps
    if not numbers:
        raise ValueError("there is no step to show")
    shown = _shown(field, numbers, **which)
    drawn = _draw(shown, numbers[0], _with_range(field, [*numbers], image))

    def draw(step: int) -> list[Any]:
        samples = shown.read(step)
        drawn.set_array(_picture(shown.plane, samples))
        shown.panel.set_title(_title(field, shown.plane, samples))
        return [drawn]
    return FuncAnimation(shown.panel.figure, draw, frames=numbers, interval=interval, blit=False)


def _numbers(step: int | None) -> list[int] | None:
    return None if step is None else [step]


def _panel(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    return plt.subplots(layout="constrained")[1]


@dataclass(frozen=True)
class _Shown:
    """A plane of a field at a level, in a layer of accuracy, in a panel of matplotlib."""

    field: Field
    panel: Any
    plane: Plane
    level: int
    layer: int

    def read(self, step: int | None) -> Samples:
        """Reads the plane in a step."""
        box = self.plane.box(self.field.grid.shape, self.level)
        return self.field.read(box=box, step=step, level=self.level, layer=self.layer, masked=True)


def _shown(field: Field, steps: Collection[int] | None, *, axis: str, at: float | None, index: int | None,
           level: int | None, max_error: float | None, layer: int | None, ax: Any) -> _Shown:
    """Chooses the level and the layer of pictures of these steps: by default the coarsest level with a sample for each
    pixel. An error is that of the whole grid, because a level shows the nearest of its planes: most planes are in level
    0 alone."""
    panel, plane = _panel(ax), Plane.of(field, axis, at, index)
    if level is None and max_error is None:
        level = _level_for(field, plane, panel)
    choice = choose(field.dataset, [field.name], [field.name], lambda _: records_of(field, steps), level=level,
                    max_error=None if max_error is None else {field.name: max_error}, layer=layer)
    return _Shown(field, panel, plane, choice.level, choice.layers[field.name])


def _level_for(field: Field, plane: Plane, panel: Any) -> int:
    """The coarsest level with a sample for each pixel."""
    box = panel.get_window_extent()
    up, right = plane.axes()
    shape = field.grid.shape
    for coarse in range(field.levels - 1, 0, -1):
        if shape[right] >> coarse >= box.width and shape[up] >> coarse >= box.height:
            return coarse
    return 0


def _draw(shown: _Shown, step: int | None, image: dict[str, Any]) -> Any:
    import matplotlib
    field, panel, plane, samples = shown.field, shown.panel, shown.plane, shown.read(step)
    up, right = (field.grid.dim_names[axis] for axis in plane.axes())
    coords = samples.coords
    settings = {"cmap": "viridis", **image}
    settings["cmap"] = matplotlib.colormaps.get_cmap(settings["cmap"]).with_extremes(bad=_MISSING)
    panel.set_facecolor(_MISSING)
    drawn = panel.pcolormesh(_edges(coords[right]), _edges(coords[up]), _picture(plane, samples), rasterized=True,
                             **settings)
    units = field.axis_units
    panel.set_xlabel(titled(right, units[right]))
    panel.set_ylabel(titled(up, units[up]))
    panel.set_aspect("equal" if units[up] == units[right] and _comparable(coords[up], coords[right]) else "auto")
    panel.set_title(_title(field, plane, samples))
    panel.figure.colorbar(drawn, ax=panel, label=titled(field.name, field.units))
    return drawn


def _comparable(up: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> bool:
    """Whether a picture with equal units along both axes is more than a thin line."""
    extents = [abs(float(positions[-1] - positions[0])) for positions in (up, right)]
    return min(extents) * 20 > max(extents)


def _picture(plane: Plane, samples: Samples) -> Any:
    """[up, right]"""
    return samples.array.squeeze(plane.axis)


def _edges(positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Edges of the cells around samples."""
    import numpy as np
    if len(positions) == 1:
        return np.array([positions[0] - 0.5, positions[0] + 0.5])
    middle = (positions[1:] + positions[:-1]) / 2
    return np.concatenate([[2 * positions[0] - middle[0]], middle, [2 * positions[-1] - middle[-1]]])


def _time_text(field: Field, time: float) -> str:
    """The date, or the number with its unit."""
    native = field.dataset.native
    unit = f" {native.time_units}" if native.time_units else ""
    return native.date_of(time) or f"{time:.6g}{unit}"


def _title(field: Field, plane: Plane, samples: Samples) -> str:
    import numpy as np
    axis = field.grid.dim_names[plane.axis]
    unit = field.axis_units[axis]
    where = f"{axis} = {float(samples.coords[axis][0]):.6g}{' ' + unit if unit else ''}"
    time = dict(zip(field.dataset.steps, field.dataset.times, strict=True)).get(samples.step)
    when = f"step {samples.step}" + (f", time {_time_text(field, time)}" if time is not None else "")
    how = f"level {samples.level}, within {samples.max_error:.3g}{' ' + field.units if field.units else ''}"
    missing = np.ma.is_masked(samples.array)
    return f"{when}, {where}\n{how}{', missing in grey' if missing else ''}"


def _with_range(field: Field, steps: Sequence[int | None], image: dict[str, Any]) -> dict[str, Any]:
    """The same colours for all pictures: those of the values that the steps were recorded with."""
    if "norm" in image or ("vmin" in image and "vmax" in image):
        return image
    said = [record for step, record in field._holding() if field.still or steps == [None] or step.step in steps]
    return {"vmin": min(record.min for record in said), "vmax": max(record.max for record in said), **image}


def _notebook(figure: Any) -> Any:
    """Shows a figure again and again in its place: in a notebook, or in a window of matplotlib."""
    try:
        from IPython import get_ipython
        from IPython.display import display
        in_notebook = get_ipython() is not None
    except ImportError:
        in_notebook = False
    if not in_notebook:
        def draw(last: bool) -> None:
            figure.canvas.draw()
            figure.canvas.flush_events()
        return draw
    handle = display(figure, display_id=True)

    def update(last: bool) -> None:
        handle.update(figure)
        if last:  # or the notebook would show it a second time
            import matplotlib.pyplot as plt
            plt.close(figure)
    return update


def to_pyvista(samples: Samples) -> Any:
    """See Samples.to_pyvista."""
    try:
        import pyvista
    except ImportError as error:
        raise ImportError("volumes need PyVista: pip install pyvista") from error
    coords = samples.coords
    z, y, x = coords.values()
    array = with_nan(samples.array)
    spacing = [spacing_of(positions) or 0 for positions in (x, y, z)]
    if not array.size or min(spacing) <= 0:  # which an image cannot have
        # VTK finds points along ascending positions only.
        turned = tuple(slice(None, None, -1 if len(axis) > 1 and axis[0] > axis[-1] else 1) for axis in (z, y, x))
        array = array[turned]
        grid = pyvista.RectilinearGrid(x[turned[2]], y[turned[1]], z[turned[0]])
    else:
        grid = pyvista.ImageData(dimensions=(len(x), len(y), len(z)), origin=(x[0], y[0], z[0]), spacing=spacing)
    grid.point_data[samples.field] = array.ravel()  # x is the fastest, as VTK has it
    return grid


def dataset_html(dataset: Dataset) -> str:
    """A table of the fields, for notebooks."""
    shapes = " and ".join(f"{' × '.join(map(str, grid.shape))} samples (z, y, x), {grid.levels} levels"
                          for grid in dataset.grids)
    steps = dataset.steps
    rows = "".join(_field_row(dataset[name]) for name in dataset)
    span = f"{len(steps)} steps" + (f", {steps[0]} to {steps[-1]}" if steps else "")
    return (f"<div><strong>{html.escape(dataset.target)}</strong>: {shapes}, {span}"
            f"<table>{_head()}{rows}</table></div>")


def field_html(field: Field) -> str:
    """One row of that table, with its head."""
    shape = " × ".join(map(str, field.shape))
    return f"<div>{shape} samples (step, z, y, x)<table>{_head()}{_field_row(field)}</table></div>"


def _head() -> str:
    titles = ("field", "type", "unit", "steps", "bound", "stored", "")
    return "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"


def _field_row(field: Field) -> str:
    cells = (field.name, field.dtype.name, field.units, str(len(field)), bound_of(field), stored_size(field),
             role_of(field))
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
