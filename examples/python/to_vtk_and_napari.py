#!/usr/bin/env python3
"""To programs that draw volumes: VTK, ParaView and PyVista by files or in memory, napari by a list of levels.

napari draws the level that fits the screen, if it gets an array for each level: the groups of `open_datatree` are
these, as arrays of dask that read what is drawn. napari itself need not be there. Prints the files, and the levels.

Needs: pip install quarry-data[xarray] pyvista
"""

import contextlib
import tempfile

import dask.array
import numpy as np
import pyvista
import xarray as xr

import quarry

TOLERANCE = 1e-3
SPACING = (0.5, 0.25, 0.25)  # z, y, x


def to_vtk(original):
    """A file for each step, which series.pvd lists with its time: what ParaView opens."""
    with quarry.open("run.quarry") as dataset:
        files = dataset.export("series.pvd", fields="rho")
        print("files:", ", ".join(file.name for file in files))
        grid = dataset["rho"].read(step=1, level=1).to_pyvista()  # without a file, and coarser

    series = pyvista.get_reader("series.pvd")
    series.set_active_time_value(series.time_values[2])
    volume = series.read()[0]
    print(f"series.pvd: times {series.time_values}, {volume.dimensions} points, spacing {volume.spacing}")
    assert series.time_values == [0, 0.5, 1]
    assert volume.spacing == SPACING[::-1] and volume.dimensions == original.shape[:0:-1]  # VTK: x, y, z
    assert np.abs(volume["rho"].reshape(original.shape[1:]) - original[2]).max() <= TOLERANCE

    surface = grid.contour([1.0], scalars="rho")
    print(f"surface where rho is 1, at level 1: {surface.n_points} points")
    assert np.abs(grid["rho"].reshape(grid.dimensions[::-1]) - original[1, ::2, ::2, ::2]).max() <= TOLERANCE
    assert surface.n_points > 0 and grid.spacing == tuple(2 * spacing for spacing in SPACING[::-1])


def to_napari(original):
    """The arguments of napari's add_image."""
    with xr.open_datatree("run.quarry", engine="quarry", chunks={}) as tree:
        levels = [tree[str(level)].rho.data for level in range(len(tree.children))]
        levels = [array for array in levels if min(array.shape[1:]) > 1]  # coarser levels are no pictures
        image = {"data": levels, "multiscale": True, "scale": (1, *SPACING), "axis_labels": ("step", "z", "y", "x")}
        # import napari
        # napari.Viewer().add_image(**image)
        # napari.run()
        for level, array in enumerate(image["data"]):
            print(f"level {level}: {array.shape} {array.dtype}, {array.npartitions} chunks")
            assert isinstance(array, dask.array.Array)
            stride = 2**level
            assert np.abs(array.compute() - original[:, ::stride, ::stride, ::stride]).max() <= TOLERANCE
        assert [array.shape for array in levels[:2]] == [(3, 24, 40, 48), (3, 12, 20, 24)]


def main():
    z, y, x = np.meshgrid(*(np.linspace(-2, 2, n) for n in (24, 40, 48)), indexing="ij")
    original = np.stack([x**2 + y**2 + z**2 + 0.3 * np.sin(4 * x + t) for t in range(3)]).astype("f4")
    quarry.write("run.quarry", original, field="rho", tolerance=TOLERANCE, spacing=SPACING, time=[0, 0.5, 1],
                 time_units="s")
    to_vtk(original)
    to_napari(original)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
