"""Commands of `quarry` that are written in Python. All others are those of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def _demo(arguments: Sequence[str]) -> int:
    from quarry._demo import main
    return main(arguments)


def _export(arguments: Sequence[str]) -> int:
    from quarry._export_command import main
    return main(arguments)


def _serve_zarr(arguments: Sequence[str]) -> int:
    from quarry._serve_zarr import main
    return main(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": _demo,
    "export": _export,
    "serve-zarr": _serve_zarr,
}
"""Each takes the arguments behind its name and returns the exit code. Modules are imported when they run."""

HELP = """
Of the Python package, each with a --help of its own:
  demo                        writes a turbulent field, serves it, and reads it coarse to fine
  export                      writes fields as NetCDF, HDF5, Zarr, VTK or NumPy files
  serve-zarr                  serves a dataset as Zarr over HTTP, for tools that open a URL
"""


def run(arguments: Sequence[str]) -> int | None:
    """Runs a command. None: it is none of these."""
    command = _COMMANDS.get(arguments[0]) if arguments else None
    return command(arguments[1:]) if command else None
