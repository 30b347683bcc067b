#!/usr/bin/env python3
"""Follows a running simulation: a line with statistics for each step, as soon as it is published.

The simulation may write through the in-situ library (examples/lbm does), or its dumps may be converted one by one with
quarry-write --append. Without a target, another process appends steps with quarry.write, and this one watches. Ctrl-C
ends the following; --last ends it after that step.

Needs: pip install quarry-data
"""

import argparse
import contextlib
import multiprocessing
import tempfile

import numpy as np

import quarry

LAST = 5  # step of our own simulation


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  follow_simulation.py grpc://cluster:50051/lbm --field speed --max-error 0.01")
    parser.add_argument("target", nargs="?", help="a dataset: a folder, grpc://HOST:PORT/NAME or "
                        "grpcs://HOST:PORT/NAME; default: that of a small simulation of our own")
    parser.add_argument("--field", default="speed", help="default: speed")
    parser.add_argument("--after", type=int, metavar="STEP", help="only steps with a larger number")
    parser.add_argument("--last", type=int, metavar="STEP", help="ends after this step or a later one")
    parser.add_argument("--max-error", type=float, help="of the samples that are read; default: those of level 2")
    parser.add_argument("--token", default="", help="for the server")
    parser.add_argument("--ca", default="", help="file with the authorities of servers")
    return parser.parse_args()


def follow(options):
    """Prints a line for each step, and gives its number and its mean."""
    with quarry.open(options.target, token=options.token, ca=options.ca) as dataset:
        for step in dataset.watch(after=options.after):
            if options.field in [field.name for field in step.fields]:
                mean = dataset[options.field].stats(step=step.step).mean
                print(line(dataset[options.field], step, mean, options.max_error), flush=True)
                yield step.step, mean
            if options.last is not None and step.step >= options.last:
                break


def line(field, step, mean, max_error):
    """Statistics, which were computed where the data are, and the largest sample of a coarse view, read from there."""
    coarsest = min(2, field.dataset.levels - 1)
    level = {"level": coarsest} if max_error is None else {"max_error": max_error}
    answer = field.read(step=step.step, **level)
    time = "" if step.time is None else f" time {step.time:g}"
    return (f"step {step.step}{time} mean {mean.value:.6g} in [{mean.low:.6g}, {mean.high:.6g}] "
            f"largest {np.nanmax(answer.array):.6g} at level {answer.level}")


def pulse(step):
    """It moves along x and spreads."""
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in (24, 32, 48)), indexing="ij")
    width = 0.1 + 0.02 * step
    return np.exp(-((x + 0.5 - 0.2 * step)**2 + y**2 + z**2) / width).astype("f4") / width


def simulate(target, steps):
    """The other process: it appends a step as soon as it has one. Readers see all of it or nothing."""
    for step in steps:
        quarry.write(target, pulse(step), field="speed", units="m s-1", tolerance=1e-3, step=step, time=step / 10,
                     time_units="s", mode="create" if step == 0 else "append")


def follow_our_own(options):
    options.target, options.last = "pulse.quarry", LAST
    simulate(options.target, [0])  # a dataset that is not there yet cannot be opened
    other = multiprocessing.get_context("spawn").Process(target=simulate, args=(options.target, range(1, LAST + 1)))
    other.start()
    seen = dict(follow(options))
    other.join()
    assert [*seen] == [*range(LAST + 1)]
    for step, mean in seen.items():
        assert mean.low <= pulse(step).mean(dtype="f8") <= mean.high
    print(f"all {len(seen)} steps were seen, each as a whole")


def main():
    options = parse()
    if options.target:
        for _ in follow(options):
            pass
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        follow_our_own(options)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("ended")
