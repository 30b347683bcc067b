"""Files of VTK: image data (.vti), in pieces too (.pvti), rectilinear grids (.vtr), and collections of them (.pvd)."""

from __future__ import annotations

import base64
import contextlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from xml.sax.saxutils import quoteattr

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

from quarry._export_attributes import fits_netcdf, plain
from quarry._export_contents import Coordinate, Layout, Owner
from quarry._export_output import WIDENED, Output, RawFile
from quarry._grids import Triple

_PIECE_BYTES = 64 << 20
"""Of the samples of one field in a piece of .pvti, about."""

_END = b"\n</AppendedData>\n</VTKFile>\n"

_TAKEN: dict[Owner, tuple[str, ...]] = {"dataset": ("step", "TimeValue"), "axis": ("long_name",)}
"""Names of attributes that mean something else in FieldData."""


class _Vtk(Output):
    """Base of all VTK formats: its axes are x, y, z, whatever a dataset calls them."""

    only_held = in_four_dimensions = names_axes = True
    widened = WIDENED

    def holds(self, owner: Owner, name: str, value: Any) -> bool:
        """A reader finds the name of an axis in its long_name, and time and number of the step by these names."""
        return name.isprintable() and name not in _TAKEN.get(owner, ()) and fits_netcdf(value)

    def why_without(self, text: Coordinate) -> str:
        return "this format has none"

    def as_held(self, value: Any) -> Any:
        return plain(value)


class Grid(_Vtk):
    """XML with the samples behind it, one step in a file."""

    kind: ClassVar[str]
    """As VTK calls it."""
    suffix: ClassVar[str]

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        self._open: tuple[int, RawFile] | None = None
        for variable in layout.variables:
            if variable.dtype.kind != "f" and any(variable.missing):
                self.warnings.append(f"missing samples of {variable.name!r} hold {variable.fill} in {self.suffix} "
                                     f"files, which VTK shows as a value; {variable.name}._FillValue says so")

    @property
    def finals(self) -> list[Path]:
        if len(self.layout.numbers) == 1:
            return [self.path]
        stem = self.path.name.removesuffix(self.path.suffix)
        return [self.path.with_name(f"{stem}-{number}{self.path.suffix}") for number in self.layout.numbers]

    @abstractmethod
    def grid(self) -> str:
        """Where the points lie: attributes of the tag."""

    def positions(self) -> list[npt.NDArray[np.float64]]:
        """Arrays behind those of the fields: of the points along x, y, z."""
        return []

    def _turned(self) -> tuple[bool, ...]:
        """Along which of z, y, x samples come in the opposite order. In a rectilinear grid VTK finds points along
        ascending positions only."""
        return (False, False, False)

    @property
    def shape(self) -> Triple:
        """Samples along z, y, x."""
        return self.layout.grid.shape

    def extent(self) -> str:
        """First and last point along x, y, z."""
        return " ".join(f"0 {length - 1}" for length in self.shape[::-1])

    def _held(self, step: int) -> list[int]:
        return [number for number, variable in enumerate(self.layout.variables) if variable.held[step]]

    def _bytes(self, variable: int) -> int:
        return math.prod(self.shape) * self.layout.variables[variable].dtype.itemsize

    @property
    def sizes(self) -> list[int]:
        return [sum(map(self._bytes, self._held(step))) for step in range(len(self.layout.numbers))]

    def _header(self, step: int) -> bytes:
        offset, arrays = 0, []
        for number in self._held(step):
            variable = self.layout.variables[number]
            arrays.append(f'<DataArray type="{_type(variable.dtype)}" Name={quoteattr(variable.name)} '
                          f'format="appended" offset="{offset}"/>')
            offset += 8 + self._bytes(number)
        coordinates = []
        for letter, places in zip("xyz", self.positions(), strict=False):
            coordinates.append(f'<DataArray type="Float64" Name="{letter}" format="appended" offset="{offset}"/>')
            offset += 8 + places.nbytes
        return "\n".join([
            '<?xml version="1.0"?>',
            f'<VTKFile type="{self.kind}" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
            f'<{self.kind} WholeExtent="{self.extent()}"{self.grid()}>',
            "<FieldData>", *self.field_data(step), "</FieldData>",
            f'<Piece Extent="{self.extent()}">', "<PointData>", *arrays, "</PointData>",
            *(["<Coordinates>", *coordinates, "</Coordinates>"] if coordinates else []), "</Piece>", f"</{self.kind}>",
            '<AppendedData encoding="raw">', "_"]).encode()

    def field_data(self, step: int) -> Iterator[str]:
        """Attributes; those of a field by the names FIELD.NAME, of an axis by x.NAME, y.NAME, z.NAME, of the time by
        TimeValue.NAME."""
        yield _attribute("step", self.layout.numbers[step])
        if not math.isnan(self.layout.times[step]):
            yield _attribute("TimeValue", self.layout.times[step])
            yield from _attributes("TimeValue", self.layout.time_attrs)
        for axis, letter in zip(self.layout.grid.axes, "zyx", strict=True):
            yield _attribute(f"{letter}.long_name", axis.own_name or axis.name)
            yield from _attributes(letter, axis.attrs)
        for number in self._held(step):
            variable = self.layout.variables[number]
            yield from _attributes(variable.name, variable.attrs)
            if variable.fill is not None:
                yield _attribute(f"{variable.name}._FillValue", variable.fill)
        for name, value in self.layout.attrs.items():
            yield _attribute(name, value)

    def create(self) -> None:
        for step in range(len(self.layout.numbers)):
            with contextlib.closing(RawFile(self.parts[step], new=True)) as file:
                header = self._header(step)
                file.write(header, 0)
                at = len(header)
                for number in self._held(step):
                    size = self._bytes(number)
                    file.write(size.to_bytes(8, "little"), at)
                    at += 8 + size
                for places in self.positions():
                    file.write(places.nbytes.to_bytes(8, "little") + places.astype("<f8").tobytes(), at)
                    at += 8 + places.nbytes
                file.write(_END, at)

    def reopen(self) -> None:
        if absent := [part for part in self.parts if not part.exists()]:
            raise FileNotFoundError(f"\"{absent[0]}\" has gone")

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        if self._open is None or self._open[0] != step:
            self.close()
            self._open = step, RawFile(self.parts[step], new=False)
        before = [number for number in self._held(step) if number < variable]
        turned = self._turned()
        z, y, x = (length - first - size if turn else first for first, size, length, turn in
                   zip(begin, block.shape, self.shape, turned, strict=True))
        block = block[tuple(slice(None, None, -1 if turn else 1) for turn in turned)]
        origin = len(self._header(step)) + sum(8 + self._bytes(number) for number in before) + 8
        self._open[1].put(origin, self.shape, (z, y, x), block)

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


class Vti(Grid):
    """Image data: the points are evenly spaced."""

    kind, suffix = "ImageData", ".vti"

    def __init__(self, path: Path, layout: Layout) -> None:
        for axis in layout.grid.axes:
            if axis.spacing is None:
                raise ValueError(f"the samples are not evenly spaced along {axis.name!r}, which .vti files cannot say; "
                                 "export to .vtr, .nc, .h5 or .zarr")
        super().__init__(path, layout)

    def grid(self) -> str:
        axes = self.layout.grid.axes[::-1]
        origin = " ".join(repr(float(axis.positions[0])) for axis in axes)
        spacing = " ".join(repr(axis.spacing) for axis in axes)
        return f' Origin="{origin}" Spacing="{spacing}"'


class _Piece(Vti):
    """Planes of image data, with their places in the whole."""

    def __init__(self, path: Path, layout: Layout, planes: range) -> None:
        super().__init__(path, layout)
        self._planes = planes

    @property
    def shape(self) -> Triple:
        _, height, width = self.layout.grid.shape
        return len(self._planes), height, width

    def extent(self) -> str:
        _, height, width = self.layout.grid.shape
        return f"0 {width - 1} 0 {height - 1} {self._planes[0]} {self._planes[-1]}"

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        first, behind = max(begin[0], self._planes.start), min(begin[0] + len(block), self._planes.stop)
        if first < behind:
            super().put(variable, step, (first - self._planes.start, *begin[1:]),
                        block[first - begin[0]:behind - begin[0]])


class _Several(_Vtk):
    """Files that are written together, and lists of them."""

    _files: Sequence[Grid]

    @property
    def sizes(self) -> list[int]:
        return [size for file in self._files for size in file.sizes]

    def reopen(self) -> None:
        for file in self._files:
            file.reopen()

    def put(self, variable: int, step: int, begin: Triple, block: npt.NDArray[Any]) -> None:
        for file in self._files:
            file.put(variable, step, begin, block)

    def close(self) -> None:
        for file in self._files:
            file.close()


class Pvti(_Several):
    """Image data in pieces, which programs read in parallel: NAME_0.vti, NAME_1.vti, ... beside a file that lists them.
    Pieces share a plane of points, or no piece had the cells between two."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        layout = self.layout
        self._whole = Vti(path, layout)
        self.warnings += self._whole.warnings
        stem, depth = path.name.removesuffix(path.suffix), layout.grid.shape[0]
        plane = math.prod(layout.grid.shape[1:]) * max(variable.dtype.itemsize for variable in layout.variables)
        planes = max(1, _PIECE_BYTES // plane)
        parts = [range(first, min(first + planes + 1, depth)) for first in range(0, max(1, depth - 1), planes)]
        self._files = [_Piece(path.with_name(f"{stem}_{number}.vti"), layout, part)
                       for number, part in enumerate(parts)]

    @property
    def finals(self) -> list[Path]:
        """The pieces come first, so that a reader of the list finds them."""
        return [*(final for piece in self._files for final in piece.finals), *self._whole.finals]

    def create(self) -> None:
        for piece in self._files:
            piece.create()
        lists = self.parts[-len(self.layout.numbers):]
        for step, path in enumerate(lists):
            path.write_text(self._list(step), encoding="utf-8")

    def _list(self, step: int) -> str:
        arrays = [f'<PDataArray type="{_type(variable.dtype)}" Name={quoteattr(variable.name)}/>'
                  for variable in self.layout.variables if variable.held[step]]
        pieces = [f'<Piece Extent="{piece.extent()}" Source={quoteattr(piece.finals[step].name)}/>'
                  for piece in self._files]
        return "\n".join([
            '<?xml version="1.0"?>',
            '<VTKFile type="PImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
            f'<PImageData WholeExtent="{self._whole.extent()}" GhostLevel="0"{self._whole.grid()}>',
            "<FieldData>", *self._whole.field_data(step), "</FieldData>",
            "<PPointData>", *arrays, "</PPointData>", *pieces, "</PImageData>", "</VTKFile>"]) + "\n"


class Vtr(Grid):
    """A rectilinear grid: each axis has a list of positions."""

    kind, suffix = "RectilinearGrid", ".vtr"

    def grid(self) -> str:
        return ""

    def positions(self) -> list[npt.NDArray[np.float64]]:
        return [axis.positions[::-1] if turned else axis.positions
                for axis, turned in zip(self.layout.grid.axes[::-1], self._turned()[::-1], strict=True)]

    def _turned(self) -> tuple[bool, ...]:
        return tuple(bool(axis.positions[0] > axis.positions[-1]) for axis in self.layout.grid.axes)


class Pvd(_Several):
    """A list of files and their times, beside these files: .vti, or .vtr where the samples are not evenly spaced."""

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(path, layout)
        layout = self.layout
        kind: type[Grid] = Vti if all(axis.spacing is not None for axis in layout.grid.axes) else Vtr
        steps = kind(path.with_suffix(kind.suffix), layout)
        self._files = [steps]
        self.warnings += steps.warnings
        untimed = [number for number, time in zip(layout.numbers, layout.times, strict=True) if math.isnan(time)]
        self._times = layout.numbers if untimed else layout.times
        if untimed and layout.has_times():
            self.warnings.append(f"the steps {untimed[:10]} have no time, and a .pvd file needs one for each: it has "
                                 "the numbers of the steps instead")

    @property
    def finals(self) -> list[Path]:
        return [*self._files[0].finals, self.path]

    def create(self) -> None:
        (steps,) = self._files
        steps.create()
        listed = [f'<DataSet timestep="{time!r}" part="0" file={quoteattr(final.name)}/>'
                  for time, final in zip(self._times, steps.finals, strict=True)]
        self.parts[-1].write_text("\n".join([
            '<?xml version="1.0"?>', '<VTKFile type="Collection" version="1.0" byte_order="LittleEndian">',
            "<Collection>", *listed, "</Collection>", "</VTKFile>"]) + "\n", encoding="utf-8")


def _type(dtype: np.dtype[Any]) -> str:
    return {"f": "Float", "i": "Int", "u": "UInt"}[dtype.kind] + str(8 * dtype.itemsize)


def _attributes(owner: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in attributes.items():
        yield _attribute(f"{owner}.{name}", value)


def _attribute(name: str, value: Any) -> str:
    """In FieldData. A text is the codes of its characters, with a zero behind them. VTK reads no `nan` and no `inf` as
    text, and then nothing of the file: floating-point numbers are bytes in base64."""
    if isinstance(value, (str, list)):
        texts = [value] if isinstance(value, str) else value
        codes = " ".join(str(code) for text in texts for code in (*text.encode(), 0))
        return (f'<DataArray type="String" Name={quoteattr(name)} NumberOfTuples="{len(texts)}" format="ascii">'
                f"{codes}</DataArray>")
    values = np.atleast_1d(np.asarray(value))
    form, text = "ascii", " ".join(map(str, values.tolist()))
    if values.dtype.kind == "f":
        data = values.astype(values.dtype.newbyteorder("<")).tobytes()
        form, text = "binary", base64.b64encode(len(data).to_bytes(8, "little") + data).decode()
    return (f'<DataArray type="{_type(values.dtype)}" Name={quoteattr(name)} NumberOfTuples="{len(values)}" '
            f'format="{form}">{text}</DataArray>')
