"""Datasets whose sizes the tables vary: steps, patches, fields, and folders of datasets. Each is made once."""

from __future__ import annotations

import array
import math
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from counting import run

EDGE = 16
"""Samples along each axis of a small step: one patch in one file."""
PATCH = 4
"""Samples along each axis of the patches of a field of many."""
SMALL = ("--dims", f"{EDGE}x{EDGE}x{EDGE}", "--type", "float32", "--tolerance", "1e-3")


def edge_of(patches: int) -> int:
    """Samples along each axis of the cube of about so many patches."""
    return PATCH * round(math.cbrt(patches))


def patches_of(edge: int) -> int:
    """Patches of such a cube."""
    return (edge // PATCH) ** 3


class Maker:
    """Makes datasets with the programs of a build, in a folder that is empty at first."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs.resolve(), folder.resolve()

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder of its own, so that no dataset's path begins with that of another."""
        path = self.folder / name
        if not path.exists():
            half = self.folder / "half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            make(half)
            half.rename(path)
        return path

    def _write(self, folder: Path, *words: str | Path) -> None:
        run([self.programs / "quarry-write-single", *words, "--output", "run.quarry"], folder)

    def small(self) -> Path:
        """A file with the samples of a small step."""
        def make(folder: Path) -> None:
            samples = array.array("f", (i / EDGE**3 for i in range(EDGE**3)))
            (folder / "f.raw").write_bytes(samples.tobytes())

        return self.once("small", make) / "f.raw"

    def steps(self, count: int) -> Path:
        """A dataset of small steps, all of the same samples."""
        small = self.small()

        def make(folder: Path) -> None:
            (folder / "f").symlink_to(small)
            self._write(folder, *["f"] * count, *SMALL, "--field", "f")
            (folder / "f").unlink()

        return self.once(f"steps-{count}", make) / "run.quarry"

    def append(self, dataset: Path) -> None:
        """One small step more."""
        run([self.programs / "quarry-write-single", self.small(), *SMALL[:4], "--field", "f", "--append", "--output",
             dataset])

    def fields(self, count: int) -> Path:
        """A dataset of one step with so many fields."""
        small = self.small()

        def make(folder: Path) -> None:
            names = [f"f{number:06}.raw" for number in range(count)]
            for name in names:
                (folder / name).symlink_to(small)
            self._write(folder, *names, *SMALL)
            for name in names:
                (folder / name).unlink()

        return self.once(f"fields-{count}", make) / "run.quarry"

    def datasets(self, count: int) -> Path:
        """A folder of copies of one small dataset."""
        original = self.steps(1)

        def make(folder: Path) -> None:
            for number in range(count):
                shutil.copytree(original, folder / f"run{number:06}.quarry", copy_function=os.link)

        return self.once(f"datasets-{count}", make)

    def zeros(self, edge: int) -> Path:
        """A cube of zeros, which takes no room on the disk."""
        def make(folder: Path) -> None:
            with (folder / "f.raw").open("wb") as file:
                file.truncate(4 * edge**3)

        return self.once(f"zeros-{edge}", make) / "f.raw"

    def cube(self, edge: int) -> list[str]:
        """Options of quarry-write for a cube of patches in one subfile."""
        return ["--dims", f"{edge}x{edge}x{edge}", *SMALL[2:], "--field", "f", "--patch", str(PATCH), "--files", "1"]

    def patches(self, edge: int) -> Path:
        """A dataset of noise in many patches, without an index: each has a payload, and numbers of its own."""
        def make(folder: Path) -> None:
            numbers = random.Random(1)
            plane = array.array("f", (numbers.random() for _ in range(edge**2))).tobytes()
            with (folder / "f.raw").open("wb") as file:
                for z in range(edge):
                    file.write(plane[4 * z:] + plane[:4 * z])
            self._write(folder, "f.raw", *self.cube(edge))
            (folder / "f.raw").unlink()

        dataset = self.once(f"patches-{edge}", make) / "run.quarry"
        shutil.rmtree(dataset / "index", ignore_errors=True)
        return dataset
