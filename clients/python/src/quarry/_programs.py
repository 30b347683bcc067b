"""The programs in the package, as commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from quarry import _commands


def _run(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    os.execv(program, [name, *sys.argv[1:]])


def quarry() -> NoReturn:
    """`quarry`: asks datasets."""
    if (ended := _commands.run(sys.argv[1:])) is not None:
        sys.exit(ended)
    _run("quarry")


def quarry_server() -> NoReturn:
    """`quarry-server`: answers over gRPC."""
    _run("quarry-server")


def quarry_index() -> NoReturn:
    """`quarry-index`: indexes datasets."""
    _run("quarry-index")


def quarry_write() -> NoReturn:
    """`quarry-write`: converts dumps, in one process."""
    _run("quarry-write")
