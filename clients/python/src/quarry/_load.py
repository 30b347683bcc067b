"""Loads the native module. Before everything that uses it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The transport's failures become exceptions; its own lines on stderr would report them twice.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _has_protobuf() -> bool:
    """Whether the process has loaded a protobuf of its own, as ParaView does."""
    maps = Path("/proc/self/maps")
    return maps.exists() and "protobuf" in maps.read_text()


# Its symbols must not take the place of ours.
_flags = sys.getdlopenflags()
if _has_protobuf():
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
try:
    from quarry import _quarry  # noqa: F401
finally:
    sys.setdlopenflags(_flags)
