"""Contents of a file .vti, .pvti or .vtr by VTK, as JSON: run by the interpreters of several versions of VTK."""

import json
import os
import sys

from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkPoints, vtkVersion
from vtkmodules.vtkCommonDataModel import vtkPolyData
from vtkmodules.vtkFiltersCore import vtkProbeFilter
from vtkmodules.vtkIOXML import vtkXMLImageDataReader, vtkXMLPImageDataReader, vtkXMLRectilinearGridReader


def plain(array):
    """Numbers as lists, of which NaN is None; a text as it is."""
    if array.GetClassName() == "vtkStringArray":
        return array.GetValue(0)
    return [None if value != value else value for value in vtk_to_numpy(array).ravel().tolist()]


def probed(grid, point):
    """The value of each field at a point, by VTK's own interpolation; None: VTK finds no cell there."""
    points = vtkPoints()
    points.InsertNextPoint(point)
    asked = vtkPolyData()
    asked.SetPoints(points)
    probe = vtkProbeFilter()
    probe.SetInputData(asked)
    probe.SetSourceData(grid)
    probe.Update()
    data = probe.GetOutput().GetPointData()
    found = probe.GetValidPoints().GetNumberOfTuples() == 1
    return {data.GetArrayName(i): data.GetArray(i).GetTuple1(0) if found else None for i in range(data.GetNumberOfArrays())}


def dump(path, point):
    readers = {".vti": vtkXMLImageDataReader, ".pvti": vtkXMLPImageDataReader, ".vtr": vtkXMLRectilinearGridReader}
    reader = readers[os.path.splitext(path)[1]]()
    reader.SetFileName(path)
    reader.Update()
    grid = reader.GetOutput()
    data, fields = grid.GetPointData(), grid.GetFieldData()
    if not grid.GetNumberOfPoints():
        return {"version": vtkVersion.GetVTKVersion(), "points": 0}
    return {
        "version": vtkVersion.GetVTKVersion(), "points": grid.GetNumberOfPoints(), "dims": grid.GetDimensions(),
        "first": grid.GetPoint(0), "last": grid.GetPoint(grid.GetNumberOfPoints() - 1), "bounds": grid.GetBounds(),
        "types": {data.GetArrayName(i): data.GetArray(i).GetDataTypeAsString() for i in range(data.GetNumberOfArrays())},
        "fields": {data.GetArrayName(i): plain(data.GetArray(i)) for i in range(data.GetNumberOfArrays())},
        "said": {fields.GetArrayName(i): plain(fields.GetAbstractArray(i)) for i in range(fields.GetNumberOfArrays())},
        "probed": probed(grid, point)}


print(json.dumps(dump(sys.argv[1], [float(number) for number in sys.argv[2:5]])))
