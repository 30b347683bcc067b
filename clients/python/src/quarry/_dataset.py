"""Datasets."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quarry import _quarry
from quarry._edit import Attributes, Owner
from quarry._errors import Error
from quarry._feeds import taken, taken_async
from quarry._field import Field
from quarry._grids import Box, ByAxis, Region, Triple, coords_of
from quarry._info import Text, dataset_info
from quarry._protocols import Encoding
from quarry._words import check, explained, is_url, without_secret

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
_MOST_RECORDS = 64
"""Records of single steps that a dataset keeps."""


def located(target: str | os.PathLike[str]) -> str:
    """A target, with the home folder in place of "~"."""
    name = os.fspath(target)
    return name if is_url(name) else os.path.expanduser(name)


def open(target: str | os.PathLike[str], *, token: str = "", ca: str = "", certificate: str = "", key: str = "",
         threads: int = 0, memory: int = 0, timeout: float = 0, retries: int = 5,
         encoding: Encoding = "auto", allow_http: bool = False, cache: str | os.PathLike[str] | None = None,
         cache_size: int = 0) -> Dataset:
    """Opens a dataset.

    Args:
        target: a directory, in which "~" is the home folder; or its URL on a web server or in an object store,
            "https://HOST/NAME.quarry" or "s3://BUCKET/NAME.quarry"; or "grpc://HOST:PORT/NAME" of a server, or the same
            with "grpcs://" for TLS
        token: sent to the server, over TLS or within this machine only
        ca: file with the authorities of servers, in PEM format; the system's if empty
        certificate: file with our own, for servers that want one; with `key`
        threads: for decoding; 0: one for each processor
        memory: [bytes] of a directory: for what is read and decoded, and kept for the next read; more if a patch needs
            it; 0: 1 GiB
        timeout: [s] of each call to a server; 0: none
        retries: how often in a row a broken answer of a server is resumed
        encoding: what a server sends: decoded "samples"; "patches" as they are stored, which are fewer bytes and are
            decoded here; or samples that it has "coded" for the question, the fewest bytes of planes and other thin
            boxes. All give the same samples, unless a `max_error` leaves room for coding. "auto": the server
            chooses what is complete first
        allow_http: takes "http://" URLs of other machines: plain text, which anybody on the way can read and change
        cache: folder that keeps what is read from a web server or an object store, for the next time and for other
            processes; "" for none; None: that of the variable QUARRY_CACHE, else none
        cache_size: [bytes] that the cache may take; 0: those of the variable QUARRY_CACHE_SIZE, else 10 GiB

    Raises:
        Error: no dataset or server there (NOT_FOUND, UNAVAILABLE), another token is needed (UNAUTHENTICATED,
            PERMISSION_DENIED), or it is damaged (DATA_LOSS)
        ValueError: no such encoding
    """
    check(memory=memory, cache_size=cache_size)
    options = {"token": token, "ca": ca, "certificate": certificate, "key": key, "threads": threads, "memory": memory,
               "timeout": timeout, "retries": retries, "encoding": encoding, "allow_http": allow_http,
               "cache": cache if cache is None else os.path.expanduser(cache), "cache_size": cache_size}
    dataset = Dataset(located(target), options)
    dataset._open()
    return dataset


def list(target: str | os.PathLike[str], *, token: str = "", ca: str = "", certificate: str = "", key: str = "",
         timeout: float = 0, allow_http: bool = False) -> builtins.list[_quarry.DatasetSummary]:
    """The datasets of a server ("grpc://HOST:PORT"), in a folder of an object store, or below a directory: name, shape
    [z, y, x] of the first grid and of all, number of steps and fields. Arguments and errors are those of `open`."""
    return _quarry.list_datasets(located(target), explained(
        _quarry.Options, token=token, ca=ca, certificate=certificate, key=key, threads=0, memory=0, timeout=timeout,
        retries=5, encoding="auto", allow_http=allow_http))


class Dataset(Mapping[str, "Field"]):
    """A dataset: a mapping from the names of its fields to the fields. Made by `quarry.open`. Thread-safe.

    Pickles as its target and options, and opens again where it is first used. So the token goes with it.
    """

    def __init__(self, target: str, options: dict[str, Any]) -> None:
        self.target = without_secret(target)
        """What was opened; a URL without its query."""
        self._given = target
        # The working directory may change before somebody sets attributes.
        self._place = target if is_url(target) else os.path.abspath(target)
        self._options = options
        self._lock = threading.Lock()
        self._closed = False
        self._native: _quarry.Dataset | None = None
        self._known_fields: dict[str, _quarry.FieldDescription] = {}
        self._known_grids: builtins.list[_quarry.FieldGrid] = []
        self._known_numbers: builtins.list[int] | None = None
        self._known_steps: builtins.list[_quarry.Step] | None = None
        self._some_fields: dict[tuple[int, str], bool] = {}

    def _open(self) -> _quarry.Dataset:
        with self._lock:
            if self._closed:
                raise Error("FAILED_PRECONDITION", f"\"{self.target}\" is closed; open it again")
            if self._native is None:
                self._native = _quarry.open_dataset(self._place, explained(_quarry.Options, **self._options))
                self._known_fields = {field.name: field for field in self._native.fields}
                self._known_grids = self._native.grids
            return self._native

    @property
    def native(self) -> _quarry.Dataset:
        """The C++ client's. Raises Error once the dataset is closed."""
        return self._native or self._open()

    @property
    def _fields(self) -> dict[str, _quarry.FieldDescription]:
        self._open()
        return self._known_fields

    def close(self) -> None:
        """Frees its memory and connections, once calls in progress have ended. Further use is an Error."""
        with self._lock:
            self._closed, self._native, self._known_grids = True, None, []

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[str, dict[str, Any]]]:
        return Dataset, (self._given, self._options)

    def __getitem__(self, name: str) -> Field:
        if name not in self._fields:
            if parts := [part.name for part in self._fields.values() if part.complex_of == name]:
                raise KeyError(f"{name!r} is complex, and its parts are the fields {' and '.join(parts)}; "
                               "xarray.open_dataset gives them as one")
            raise KeyError(f"{name!r} is no field of \"{self.target}\"; it has {', '.join(self._fields) or 'none'}")
        return Field(self, self._fields[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def grids(self) -> builtins.list[_quarry.FieldGrid]:
        """On which the fields lie: most datasets have one."""
        self._open()
        return self._known_grids

    @property
    def grid(self) -> _quarry.FieldGrid:
        """The only grid.

        Raises:
            ValueError: there are several
        """
        if len(self.grids) == 1:
            return self.grids[0]
        shapes = ", ".join(f"{name} {field.shape[1:]}" for name, field in self.items())
        raise ValueError(f"\"{self.target}\" has {len(self.grids)} grids, so ask one of its fields instead: {shapes}")

    def common_grid(self, names: Sequence[str]) -> _quarry.FieldGrid:
        """The grid on which all of these fields lie.

        Raises:
            ValueError: they lie on several; KeyError: no such field
        """
        first = self[names[0]]
        for other in (self[name] for name in names[1:]):
            if other._description.grid != first._description.grid:
                raise ValueError(f"{first.name!r} and {other.name!r} lie on two grids, {first.shape[1:]} and "
                                 f"{other.shape[1:]} samples (z, y, x); take them apart, by their names in `fields`")
        return first.grid

    @property
    def shape(self) -> Triple:
        """Samples of full resolution along z, y, x. Raises ValueError, as all about the grid, where there are several:
        the fields have shapes of their own."""
        return self.grid.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of all fields; the stored bytes are fewer, see `info`."""
        return sum(field.nbytes for field in self.values())

    @property
    def levels(self) -> int:
        """How many there are: 0, full resolution, to levels - 1."""
        return self.grid.levels

    @property
    def dims(self) -> tuple[str, str, str]:
        """The names of the axes z, y, x, as `coords`, xarray, Zarr and exports have them: those of the dataset. An axis
        has its letter instead if it has no name, if a field or another axis has the name, or if files of other formats
        cannot have it."""
        return self.grid.dim_names

    @property
    def coords(self) -> ByAxis[npt.NDArray[np.float64]]:
        """Positions of the samples of full resolution along z, y, x, by the names of the axes, in their units."""
        return coords_of(self.grid)

    @property
    def axis_units(self) -> ByAxis[str]:
        """Units of z, y, x, by the names of the axes."""
        return ByAxis(zip(self.dims, self.grid.axis_units, strict=True))

    @property
    def attrs(self) -> Attributes:
        """Attributes of the whole dataset, from its source: texts, lists of texts, numbers of numpy's types and arrays
        of them; other JSON as `json.loads` gives it. The attributes of a directory can be set, see `Attributes`."""
        return self._attributes(lambda: self.native.attributes, Owner("dataset"))

    def _attributes(self, read: Callable[[], Mapping[str, Any]], owner: Owner) -> Attributes:
        return Attributes(read, self._place, owner, self._reopen)

    def _reopen(self) -> None:
        """Refreshes attributes that are read when a dataset is opened, after a change."""
        with self._lock:
            self._native = self._known_numbers = self._known_steps = None
            self._some_fields = {}
        self._open()

    @property
    def axis_attrs(self) -> ByAxis[Attributes]:
        """Attributes of z, y, x, by the names of the axes. Those of a directory can be set."""
        _ = self.grid  # there is one
        return next(iter(self.values())).axis_attrs

    def refresh(self) -> None:
        """Looks for steps and fields that were published since; `Dataset.watch` waits for them."""
        numbers = self.native.step_numbers()
        now = _quarry.open_dataset(self._place, explained(_quarry.Options, **self._options))
        with self._lock:
            self._known_numbers, self._known_steps, self._some_fields = numbers, None, {}
            # An open dataset knows neither new fields, nor that one has begun to change.
            known = {name: field.still for name, field in self._known_fields.items()}
            if not self._closed and known != {field.name: field.still for field in now.fields}:
                self._native = None
        self._open()

    def _steps(self) -> builtins.list[_quarry.Step]:
        """The records of the steps."""
        if self._known_steps is None:
            records = self.native.steps()
            if self._known_numbers is None:
                self._known_numbers = [step.step for step in records]
            wanted = set(self._known_numbers)
            self._known_steps = [step for step in records if step.step in wanted]
        return self._known_steps

    def _has(self, number: int, field: str) -> bool:
        """Whether a step has a field. Indices ask for those near the ends again and again."""
        if self._known_steps is not None:
            step = next(step for step in self._known_steps if step.step == number)
            return any(said.name == field for said in step.fields)
        some, key = self._some_fields, (number, field)
        known = some.get(key)
        held: bool = self.native.has_field(number, field) if known is None else known
        if len(some) < _MOST_RECORDS:
            some[key] = held
        return held

    @property
    def steps(self) -> builtins.list[int]:
        """Numbers of the steps that were published at the first use of this property, ascending."""
        if self._known_numbers is None:
            self._known_numbers = self.native.step_numbers()
        return self._known_numbers.copy()

    @property
    def times(self) -> builtins.list[float | None]:
        """Times of the steps, where the simulation gave one, in `time_units`."""
        return [step.time for step in self._steps()]

    @property
    def time_units(self) -> str:
        """Unit of the times: "days since 2001-01-01", or "s"; empty if unknown."""
        return self.native.time_units

    @property
    def calendar(self) -> str:
        """Calendar of the times, a name of the CF conventions; empty: the standard one, or unknown."""
        return self.native.calendar

    @property
    def dates(self) -> builtins.list[str | None]:
        """Dates of the steps, "2001-02-01 12:00:00" in `calendar`; None without a time, or without a reference date in
        `time_units`."""
        return [None if step.time is None else self.native.date_of(step.time) for step in self._steps()]

    def watch(self, after: int | None = None, *, patience: float = 60) -> Iterator[_quarry.Step]:
        """Every published step with a number above `after`, then each one when it is published, without end. Close the
        generator to end it.

        Args:
            patience: [s] how long to look for a server that has gone

        Raises:
            Error: no server for longer than that (UNAVAILABLE), or the dataset has gone (NOT_FOUND)
        """
        return taken(explained(self.native.watch, after=after, patience=patience))

    def awatch(self, after: int | None = None, *, patience: float = 60) -> AsyncIterator[_quarry.Step]:
        """`watch` for `async for`."""
        return taken_async(explained(self.native.watch, after=after, patience=patience))

    def info(self) -> Text:
        """Summary as a text of several lines: grid, steps, and a table of the fields."""
        return dataset_info(self)

    def _repr_html_(self) -> str:
        from quarry._pictures import dataset_html
        return dataset_html(self)

    def export(self, path: str | os.PathLike[str], *, fields: str | Sequence[str] | None = None,
               steps: int | Sequence[int] | None = None, box: Box | Region | None = None, level: int | None = None,
               max_error: float | Mapping[str, float] | None = None, layer: int | None = None,
               format: Literal["netcdf", "hdf5", "zarr", "vti", "vtr", "pvti", "pvd", "tiff", "csv", "npy",
                               "npz"] | None = None,
               overwrite: bool = False, resume: bool = False, progress: bool = False) -> builtins.list[Path]:
        """Writes fields to a file of another format, box by box: they may be larger than memory. Arrays are [step, z,
        y, x], without the axes that the grid of the field lacks, and without that of the steps where it does not
        change. Fields on several grids go into one .nc, .h5, .zarr or .npz, where axes of one name are one dimension;
        the other formats hold one grid. Coordinates, units, fill values, attributes, error bounds and where all came
        from go along; where source and Quarry say something by the same name, the source does. Missing samples of
        floating-point fields are NaN, those of integers hold the fill value. Until it is complete the file is called
        PATH.part.

            dataset.export("region.nc", fields="pressure", steps=range(0, 100, 10), box=((0, 64), (0, 64), (0, 64)))

        Args:
            path: a file .nc, .h5 or .hdf5; a folder .zarr; .npy (of one field, its attributes in PATH.json), or .npz;
                .vti, or .vtr where the samples are not evenly spaced: a file for each step, NAME-STEP.vti if there are
                several; .pvti: each of them in pieces; .pvd: a list of them with their times; .tif (of one field): a
                stack of ImageJ; .csv: a line of the grid as a table, its attributes in PATH.json. docs/python.md says
                what each format keeps; what it cannot hold of these samples is a warning
            fields: names; all, if left out. What a format of one grid or one field cannot hold of them is left out
                then, and a warning names it: fields on other grids than the first, and what describes others, as
                coordinates and bounds of cells do
            steps: their numbers; those that hold one of the fields, if left out. Where one does not hold a field, that
                is missing in it
            box: {"lat": (40, 50)}, positions along axes, both included, of each field that has the axis; or ((z0, z1),
                (y0, y1), (x0, x1)) in samples of full resolution, half-open, of fields on one grid, where what
                describes them follows along their axes; all samples if left out
            level: 0, full resolution, if nothing else says which. Of grids that have fewer levels, coordinates and
                single samples are there at each; other fields are left out, and a warning names them
            max_error: instead of level and layer: those with the fewest bytes at which every field and step is within
                this error, in the field's unit; or {field: error}. A single number says nothing of coordinates, nor of
                what else describes others and nobody names
            layer: of accuracy, 0 the roughest; the last if left out, and of fields that have fewer than others
            format: that of the suffix if left out
            overwrite: replaces what is there, when the export is complete
            resume: continues an export of the same that was interrupted, and begins where there is none
            progress: shows a bar; needs tqdm

        Returns:
            what was written

        Raises:
            Error: the target exists (ALREADY_EXISTS); no such step, or no level within max_error (NOT_FOUND); the
                export that was interrupted was another one (FAILED_PRECONDITION); another process writes it
                (UNAVAILABLE); the disk is full (INTERNAL); damage (DATA_LOSS), and those of the server
            ValueError: no such format, level, layer or box, a box of samples for several grids, or what the format
                cannot hold; KeyError: no such field
            ImportError: the library of the format is not installed
        """
        from quarry._export import export
        return export(self, path, fields=fields, steps=steps, box=box, level=level, max_error=max_error, layer=layer,
                      format=format, overwrite=overwrite, resume=resume, progress=progress)

    def __repr__(self) -> str:
        if self._closed:
            return f"<quarry.Dataset \"{self.target}\", closed>"
        shapes = " and ".join(f"{' x '.join(map(str, grid.shape))} samples, {grid.levels} levels"
                              for grid in self.grids)
        return f"<quarry.Dataset \"{self.target}\": {', '.join(self._fields)}; {shapes}>"
