"""Datasets as xarray sees them: `xr.open_dataset(target, engine="quarry")`, and a group for each level by
`xr.open_datatree`."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import xarray as xr
from xarray.backends import BackendEntrypoint

from quarry import _dataset
from quarry._dataset import Dataset
from quarry._words import is_url
from quarry._xarray_coords import Decoding
from quarry._xarray_view import View


class QuarryBackendEntrypoint(BackendEntrypoint):
    """The engine "quarry" of xarray."""

    description: ClassVar[str] = "Quarry datasets (.quarry) in a directory or behind grpc:// and grpcs://"
    url: ClassVar[str] = "https://pypi.org/project/quarry-data"
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[Any, ...] | None] = (
        "filename_or_obj", "drop_variables", "mask_and_scale", "decode_times", "decode_timedelta", "level", "max_error",
        "layer", "steps", "token", "ca", "certificate", "key", "threads", "memory", "timeout", "retries", "encoding",
        "allow_http", "cache", "cache_size")

    def open_dataset(  # type: ignore[override]  # it has options of its own
            self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None,
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool | None = None,
            level: int | None = None, max_error: float | Mapping[str, float] | None = None,
            layer: int | None = None, steps: Iterable[int] | None = None, **options: Any) -> xr.Dataset:
        """Opens a dataset at one level; reads no samples, but for those of dates that decide how all are decoded.

        Where the dataset has a name of time, the steps lie along their times; otherwise along their numbers. Attributes
        are those of the source. Besides, a variable has `level` where it is not 0, `layer` where it is not the last,
        `max_error` where the original differs from what is shown, `coverage` where a level cannot show everything, and
        a `comment` where steps do not hold it. What else is known is in the encoding: `coder`, `lossless`, `tolerance`,
        and `created_by` of the dataset.

        Args:
            filename_or_obj: a directory, or "grpc://HOST:PORT/NAME", or the same with "grpcs://" for TLS
            drop_variables: fields that are left out
            mask_and_scale: missing samples are NaN, integers with a fill value floats; False: all are as stored
            decode_times: what has a unit with a reference date is datetime64, or cftime where its calendar needs it
            decode_timedelta: what has a unit without one, as "hours", is timedelta64; if left out, what was timedelta64
                when it was written
            level: 0, full resolution, if nothing else says which
            max_error: instead of level and layer: those with the fewest bytes at which every field and step is within
                this error, in the field's unit; or {field: error}, where fields have different units
            layer: of accuracy, 0 the roughest; the last if left out, and of fields that have fewer than others
            steps: numbers of the steps; all that are published if left out

        The others are those of `quarry.open`.

        Raises:
            Error: those of `quarry.open`; no such step, or no level within max_error (NOT_FOUND)
            ValueError: no such level, or no field has the layer
        """
        times = Decoding(decode_times, decode_timedelta)
        with _viewed(filename_or_obj, drop_variables, steps, mask_and_scale, times, options) as (dataset, view):
            chosen = view.choose(level, max_error, layer)
            if coarser := view.without(chosen):
                warnings.warn(f"level {chosen} is coarser than all levels of {', '.join(coarser)}: left out here",
                              stacklevel=2)
            opened = view.dataset_at(chosen)
        opened.set_close(dataset.close)
        return opened

    def open_groups_as_dict(  # type: ignore[override]
            self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None,
            mask_and_scale: bool = True, decode_times: bool = True, decode_timedelta: bool | None = None,
            layer: int | None = None, steps: Iterable[int] | None = None, **options: Any) -> dict[str, xr.Dataset]:
        """A group for each level: "/0", full resolution, "/1" and so on; the root "/" has attributes only. Arguments
        and errors are those of `open_dataset`."""
        times = Decoding(decode_times, decode_timedelta)
        with _viewed(filename_or_obj, drop_variables, steps, mask_and_scale, times, options) as (dataset, view):
            view.choose(None, None, layer)
            groups = {f"/{level}": view.dataset_at(level) for level in range(view.levels)}
        root = view.root()
        root.set_close(dataset.close)
        return {"/": root, **groups}

    def open_datatree(self, filename_or_obj: str | os.PathLike[str],  # type: ignore[override]
                      **options: Any) -> xr.DataTree:
        """The same as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        tree = xr.DataTree.from_dict(groups)
        tree.set_close(groups["/"].close)
        return tree

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is the address of a server, or a folder NAME.quarry, here or in a store."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        target = os.fspath(filename_or_obj)
        if not isinstance(target, str):
            return False
        if target.startswith(("grpc://", "grpcs://")):
            return True
        is_named = target.partition("?")[0].rstrip("/").endswith(".quarry")
        return is_named and (is_url(target) or os.path.isdir(target))


@contextlib.contextmanager
def _viewed(target: Any, drop: str | Iterable[str] | None, steps: Iterable[int] | None, mask_and_scale: bool,
            times: Decoding, options: Mapping[str, Any]) -> Iterator[tuple[Dataset, View]]:
    """A dataset that is opened, and a view of it. After an error it is closed again."""
    dataset = _open(target, **options)
    try:
        yield dataset, View(dataset, _left(dataset, drop), steps, mask_and_scale, times)
    except BaseException:
        dataset.close()
        raise


def _open(target: Any, **options: Any) -> Dataset:
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"the engine \"quarry\" opens folders and servers, by a text or a path, not {type(target)}")
    name = _dataset.located(target)
    # Workers may have other working directories.
    return _dataset.open(name if is_url(name) else os.path.abspath(name), **options)


def _left(dataset: Dataset, drop: str | Iterable[str] | None) -> list[str]:
    """Names of the fields that are not dropped."""
    dropped = {drop} if isinstance(drop, str) else set(drop or ())
    return [name for name, field in dataset.items() if not dropped & {name, field._description.complex_of}]
