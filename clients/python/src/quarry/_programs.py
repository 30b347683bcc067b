"""The programs in the package, as commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from quarry import _commands


def _program(name: str) -> Path:
    return Path(__file__).parent / "bin" / name


def _run(name: str) -> NoReturn:
    os.execv(_program(name), [name, *sys.argv[1:]])


def quarry() -> NoReturn:
    """`quarry`: asks datasets."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        shown = subprocess.run([_program("quarry"), "--help"]).returncode
        print(_commands.HELP, end="")
        sys.exit(shown)
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
