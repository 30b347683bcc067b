"""Datasets for everything that reads Zarr."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarry._dataset import Dataset
    from quarry._zarr_store import ZarrStore


def zarr_store(target: str | os.PathLike[str] | Dataset, *, float32: bool = False, fields: Sequence[str] | None = None,
               layer: int | None = None, **options: Any) -> ZarrStore:
    """A dataset as a read-only store of zarr-python 3, in Zarr's format 3.

        import xarray, zarr
        zarr.open(quarry.zarr_store("run42.quarry"))["2/pressure"][-1]
        xarray.open_zarr(quarry.zarr_store("grpc://cluster:50051/run42"), group="0", chunks={})

    Groups `0`, `1`, ... are the levels. In each are the fields, [step, z, y, x], with the bound of their error in the
    attribute `max_error`, and the coordinates: those of the axes whose positions are known, by the names of
    `Dataset.dims`, those of text, `step` and, where the simulation gave one, `time`. In a dataset with one step, fields
    are [z, y, x]. A field that only some steps hold has a dimension `step_NAME` of its own. Sample i of level l lies on
    sample i 2^l. The attributes of the root describe each field as an image of OME-Zarr 0.5.

    A chunk is a patch, of coarse levels several. Missing samples are NaN, those of integers the fill value. Steps are
    those that are published now. The store pickles, and opens again where it is first used.

    Args:
        target: what `quarry.open` takes, or what it returns
        float32: float64 fields as float32, for tools without float64; `max_error` counts the rounding
        fields: names of those to show, in this order: many viewers of OME-Zarr show the first; all if left out
        layer: of accuracy, 0 the roughest; the last if left out, and of fields that have fewer. One that none of the
            fields has is an Error (NOT_FOUND)
        options: those of `quarry.open`

    Raises:
        Error: those of `quarry.open`; later, when chunks are read, those of `Field.read`: damage is an error
        KeyError: there is no such field
        ValueError: the layer is negative
        ImportError: zarr-python 3 is not installed
    """
    try:
        from quarry._zarr_store import ZarrStore
    except ImportError as error:
        raise ImportError("quarry.zarr_store needs zarr-python 3: pip install \"zarr>=3\"") from error
    return ZarrStore(target, float32=float32, fields=fields, layer=layer, **options)
