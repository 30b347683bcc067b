"""Any box of a simulation dump, at any resolution, from a directory or a server.

    import quarry

    with quarry.open("run42.quarry") as dataset:        # or "grpc://cluster:50051/run42"
        pressure = dataset["pressure"]                  # an array over [step, z, y, x]
        slab = pressure[-1, 100:164, :, ::2]            # numpy's indexing, samples in full resolution
        overview = pressure.read(level=3)               # coarse, of the whole grid, and fast
        for answer in pressure.stream(level=0):         # coarse first, then finer and finer
            print(answer.level, answer.max_error)

Axes are z, y, x, so that x is the fastest. `level` 0 is full resolution, and each next one has half the samples along
each axis. Errors of data, servers and questions are `quarry.Error`, which says what to do next.

numpy is loaded with the first array, and what writes with the first `write`. Everything is thread-safe. What is open
does not survive a fork: open it again in the child, or hand over the dataset by pickle, which opens it there.
"""

from typing import TYPE_CHECKING, Any

from quarry import _load  # noqa: F401, I001
from quarry._dataset import Dataset, list, open
from quarry._edit import Attributes, Removed, delete
from quarry._errors import Error
from quarry._field import Field
from quarry._quarry import version as __version__
from quarry._samples import Samples
from quarry._series import Series
from quarry._zarr import zarr_store

if TYPE_CHECKING:
    from quarry._write import Written, write

__all__ = ["Attributes", "Dataset", "Error", "Field", "Removed", "Samples", "Series", "Written", "__version__",
           "delete", "list", "open", "write", "zarr_store"]


def __getattr__(name: str) -> Any:
    if name not in {"Written", "write"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from quarry import _write
    return globals().setdefault(name, getattr(_write, name))


def __dir__() -> Any:  # a list, which is a function of this module
    return sorted({*globals(), *__all__})
