#!/usr/bin/env python3
"""Follows a running simulation: a line with statistics for each step, as soon as it is published.

The simulation may write through the in-situ library (examples/lbm does), or its dumps may be converted one by one with
quarry-write --append. Ctrl-C ends the following; --last ends it after that step.

Needs: pip install quarry-data
"""

import argparse

import numpy as np

import quarry


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  follow_simulation.py grpc://cluster:50051/lbm --field speed --max-error 0.01")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("--field", required=True)
    parser.add_argument("--after", type=int, metavar="STEP", help="only steps with a larger number")
    parser.add_argument("--last", type=int, metavar="STEP", help="ends after this step or a later one")
    parser.add_argument("--max-error", type=float, help="of the samples that are read; default: those of level 2")
    parser.add_argument("--token", default="", help="for the server")
    parser.add_argument("--ca", default="", help="file with the authorities of servers")
    return parser.parse_args()


def line(field, step, max_error):
    """Statistics, computed where the data are, and the change of a coarse view, read from there."""
    coarsest = min(2, field.dataset.levels - 1)
    level = {"level": coarsest} if max_error is None else {"max_error": max_error}
    mean = field.stats(step=step.step).mean
    answer = field.read(step=step.step, **level)
    time = "" if step.time is None else f" time {step.time:g}"
    return (f"step {step.step}{time} mean {mean.value:.6g} in [{mean.low:.6g}, {mean.high:.6g}] "
            f"largest {np.nanmax(answer.array):.6g} at level {answer.level}")


def main():
    options = parse()
    with quarry.open(options.target, token=options.token, ca=options.ca) as dataset:
        for step in dataset.watch(after=options.after):
            if options.field in [field.name for field in step.fields]:
                print(line(dataset[options.field], step, options.max_error), flush=True)
            if options.last is not None and step.step >= options.last:
                break


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("ended")
