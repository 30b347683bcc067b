"""Shared by the tests of the Python package: the package of the build tree, datasets, a server in front of them.

Run by the interpreter that the module was built for. Environment, besides that of the integration tests:

  QUARRY_PYTHON  the folder with the package; default: python beside QUARRY_BIN
"""

import contextlib
import gc
import os
import sys
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import quarry_testing as qt  # noqa: E402

PACKAGE = Path(os.environ.get("QUARRY_PYTHON") or qt.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import quarry  # noqa: E402

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DIMS = (45, 34, 23)  # x, y, z
SHAPE = (23, 34, 45)
STEPS = (3, 5, 9)


def as_installed(folder):
    """Makes the package's engine known to xarray, as installing its distribution does: entries for PYTHONPATH."""
    with open(ROOT / "clients/python/pyproject.toml", "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["xarray.backends"]
    info = Path(folder) / "quarry_data-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quarry-data\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        "\n".join(["[xarray.backends]", *(f"{name} = {place}" for name, place in points.items())]) + "\n")
    return os.pathsep.join([str(folder), str(PACKAGE)])


def threads():
    """Number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def descriptors():
    """That this process has open."""
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def nothing_left(test, spare=0):
    """No thread and no descriptor more after than before. gRPC's own end a little later; `spare`: how many it may add and keep."""
    before = threads(), descriptors()
    yield
    gc.collect()
    end = time.monotonic() + qt.TIMEOUT
    while (threads() > before[0] + spare or descriptors() > before[1] + spare) and time.monotonic() < end:
        time.sleep(0.05)
    test.assertLessEqual(threads(), before[0] + spare)
    test.assertLessEqual(descriptors(), before[1] + spare)


class Package(qt.QuarryTest):
    """Datasets that all tests read."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        cls.path = cls.data / "run.quarry"
        cls.originals = {}
        for number, step in enumerate(STEPS):
            p = qt.turbulent(DIMS, name=f"p{step}")
            m = qt.turbulent(DIMS, name=f"m{step}")
            m.reshape(SHAPE)[2:9, 5:20, 7:30] = np.nan
            k = qt.integers(DIMS, "<i2", name=f"k{step}")
            k.reshape(SHAPE)[:4, :, 3] = -999
            arrays = {"p": p, "m": m, "k": k}
            for name, array in arrays.items():
                array.tofile(cls.shared / f"{name}.raw")
                options = ["--lossless"] if name == "k" else ["--tolerance", "1e-3"]
                if name == "k":
                    options += ["--fill", "-999"]
                new = number == 0 and name == "p"
                qt.succeed("quarry-write-single", cls.shared / f"{name}.raw", "--dims", "x".join(map(str, DIMS)), "--type",
                           np.dtype(array.dtype).name, "--field", name, "--step", step, "--output", cls.path, "--patch", "16",
                           *options, *([] if new else ["--append"]))
        cls.server = qt.Server(cls.data)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.decoded = {name: np.stack([cls.decode(name, step) for step in STEPS]) for name in ("p", "m", "k")}

    @classmethod
    def decode(cls, name, step):
        """By the command, not by the package."""
        output = cls.shared / "decoded.npy"
        qt.succeed("quarry", "get", cls.path, "--field", name, "--step", step, "--output", output)
        return np.load(output).reshape(SHAPE)

    def targets(self):
        """The dataset as a directory and behind a server."""
        for target in (str(self.path), self.server.target(self.path)):
            with self.subTest(target=target), quarry.open(target) as dataset:
                yield dataset
