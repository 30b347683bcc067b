#!/usr/bin/env python3
"""Random crops of a field for training, read by several processes.

`Crops` is what PyTorch calls a map-style dataset: it has a length, and item i is a coarse crop and the same one in full
resolution. multiprocessing stands in for PyTorch, which takes the same class:

    DataLoader(Crops(...), batch_size=8, num_workers=4, multiprocessing_context="spawn")

A crop depends on the seed and its number, not on the worker that reads it. Prints a line for each batch.

Needs: pip install quarry-data
"""

import contextlib
import multiprocessing
import tempfile

import numpy as np

import quarry

SIZE = 16
TOLERANCE = 1e-3


class Crops:
    """Pairs of crops: every second sample, and all of them. A copy by pickle, in a worker, opens the dataset again."""

    def __init__(self, target, field, count, seed=0):
        self.field = quarry.open(target)[field]
        self.shape = self.field.shape
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def place(self, index):
        """Position in the list of steps, and the first sample along z, y and x: even, where coarse samples lie."""
        random = np.random.default_rng([self.seed, index])
        return [random.integers(self.shape[0]), *(2 * random.integers((n - SIZE) // 2 + 1) for n in self.shape[1:])]

    def __getitem__(self, index):
        step, z, y, x = map(int, self.place(index))
        box = ((z, z + SIZE), (y, y + SIZE), (x, x + SIZE))
        step = self.field.steps[step]
        return self.field.read(step=step, box=box, level=1).array, self.field.read(step=step, box=box).array


def batches(crops, size, workers):
    """Works like a DataLoader: batches in the order of the numbers, each read by a free worker."""
    numbers = np.arange(len(crops)).reshape(-1, size)
    # Not "fork": a forked process cannot use what its parent has opened.
    with multiprocessing.get_context("spawn").Pool(workers, initializer=keep, initargs=(crops,)) as pool:
        yield from pool.imap(batch, numbers)


def keep(crops):
    """In each worker, once."""
    global kept
    kept = crops


def batch(numbers):
    return tuple(np.stack(side) for side in zip(*(kept[number] for number in numbers), strict=True))


def main():
    z, y, x = np.meshgrid(*(np.linspace(0, 9, n) for n in (40, 48, 64)), indexing="ij")
    original = np.stack([np.sin(x + t) * np.cos(2 * y) + np.sin(z * y / 3 - t) for t in range(4)]).astype("f4")
    quarry.write("run.quarry", original, field="u", tolerance=TOLERANCE)

    crops = Crops("run.quarry", "u", count=32, seed=7)
    for number, (coarse, fine) in enumerate(batches(crops, size=8, workers=2)):
        print(f"batch {number}: {coarse.shape} -> {fine.shape}, mean {fine.mean():+.4f}, deviation {fine.std():.4f}")
        for item, (low, high) in enumerate(zip(coarse, fine, strict=True)):
            step, z, y, x = crops.place(8 * number + item)
            wanted = original[step, z:z + SIZE, y:y + SIZE, x:x + SIZE]
            assert np.abs(high - wanted).max() <= TOLERANCE
            assert np.abs(low - wanted[::2, ::2, ::2]).max() <= TOLERANCE
    assert number == 3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
