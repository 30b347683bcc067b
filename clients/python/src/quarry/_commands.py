"""Commands of `quarry` that are written in Python. All others are those of the program."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

_MODULES = {"demo": "_demo", "export": "_export_command", "serve-zarr": "_serve_zarr"}
"""Each has a `main` that takes the arguments behind the name and returns the exit code. Imported when it runs."""

HELP = """
Of the Python package, each with a --help of its own:
  demo                        writes a turbulent field, serves it, and reads it coarse to fine
  export                      writes fields as NetCDF, HDF5, Zarr, VTK or NumPy files
  serve-zarr                  serves a dataset as Zarr over HTTP, for tools that open a URL
"""


def run(arguments: Sequence[str]) -> int | None:
    """Runs a command. None: it is none of these."""
    if not arguments or arguments[0] not in _MODULES:
        return None
    ended: int = importlib.import_module(f"quarry.{_MODULES[arguments[0]]}").main(arguments[1:])
    return ended
