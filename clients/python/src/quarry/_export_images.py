"""Stacks of images (.tif) as ImageJ has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from quarry._export_contents import Axis, Layout
from quarry._export_output import WIDENED, Contiguous, describe, library
from quarry._grids import spacing_of

_TYPES = ("uint8", "uint16", "int16", "float32")
_MOST_BYTES = (4 << 30) - (64 << 20)
_FINEST, _COARSEST = 1e-9, 1e9
"""Spacings that TIFF's resolution, a fraction of two numbers of 32 bits, can say."""


class Tiff(Contiguous):
    """A TIFF of ImageJ: a page for each step and z, with voxel sizes, units and the place of the first sample. What
    ImageJ has no place for is in its text "Info", as JSON."""

    of_one = in_four_dimensions = True
    widened = WIDENED

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        if len(layout.variables) != 1:
            raise ValueError(f"a .tif file holds one field, and these are {len(layout.variables)}; give fields=[NAME]")
        (self._variable,) = self.layout.variables
        if self._variable.dtype.name not in _TYPES:
            raise ValueError(f"a .tif file of ImageJ holds {', '.join(_TYPES)}, and {self._variable.name!r} is "
                             f"{self._variable.dtype.name}; export to .nc, .h5, .zarr, .vti or .npy")
        if self.sizes[0] > _MOST_BYTES:
            raise ValueError(f"a .tif file of ImageJ holds up to 4 GiB, and these samples are {self.sizes[0] >> 20} "
                             "MiB; give fewer steps, a box or a level, or export to .nc, .h5 or .zarr")
        for axis in layout.grid.axes:
            _check(axis)
        if self._variable.dtype.kind != "f" and any(self._variable.missing):
            self.warnings.append(f"missing samples of {self._variable.name!r} hold {self._variable.fill} in .tif "
                                 "files, which ImageJ shows as a value; GDAL's tag for nodata says so")
        self._library = library("tifffile")

    def lay_out(self) -> None:
        z, y, x = self.layout.grid.axes
        assert x.spacing and y.spacing and z.spacing  # _check says so
        nodata = [] if self._variable.fill is None else [(42113, "s", 0, repr(self._variable.fill.item()), True)]
        self._library.imwrite(
            self.parts[0], shape=self.layout.shape_of(self._variable), dtype=self._variable.dtype, imagej=True,
            byteorder="<", resolution=(1 / x.spacing, 1 / y.spacing), metadata=self._metadata(), extratags=nodata)

    def _metadata(self) -> dict[str, Any]:
        z, y, x = self.layout.grid.axes
        said: dict[str, Any] = {"axes": "TZYX", "spacing": z.spacing, "Info": describe(self.layout),
                                "Labels": self._labels()}
        for name, axis in (("unit", x), ("yunit", y), ("zunit", z)):
            if axis.units:
                said[name] = _in_ascii(axis.units)
        for name, axis in (("xorigin", x), ("yorigin", y), ("zorigin", z)):
            assert axis.spacing
            said[name] = -float(axis.positions[0]) / axis.spacing
        interval = spacing_of(np.array(self.layout.times)) if len(self.layout.times) > 1 else None
        return said if interval is None else {**said, "finterval": interval}

    def _labels(self) -> list[str]:
        """A label for each page."""
        labels, z = [], self.layout.grid.axes[0]
        for number, time in zip(self.layout.numbers, self.layout.times, strict=True):
            when = f"step {number}" + ("" if math.isnan(time) else f", time {time!r}")
            labels += [f"{when}, {z.name} {place!r}" for place in z.positions.tolist()]
        return labels

    def origins(self) -> list[int]:
        with self._library.TiffFile(self.parts[0]) as file:
            return [file.series[0].dataoffset]


def _in_ascii(text: str) -> str:
    """As ImageJ escapes what is not: "µm" is "\\u00B5m"."""
    return "".join(letter if letter.isascii() else f"\\u{ord(letter):04X}" for letter in text)


def _check(axis: Axis) -> None:
    why = ""
    if axis.spacing is None:
        why = "are not evenly spaced"
    elif axis.spacing < 0:
        why = "are at descending positions"
    elif not _FINEST <= axis.spacing <= _COARSEST:
        why = f"are {axis.spacing:g} from one another"
    if why:
        raise ValueError(f"the samples {why} along {axis.name!r}, which .tif files cannot say; export to .nc, .h5 or "
                         ".zarr")
