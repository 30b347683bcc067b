#!/usr/bin/env python3
"""Coming from OpenVisus: what its users write, and what to write instead.

The lines of OpenVisus stand in the comments. With --idx they run as well, if OpenVisus is installed.

Needs: pip install quarry-data
"""

import argparse

import numpy as np

import quarry


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  from_openvisus.py run42.quarry --field pressure --idx run42.idx")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("--field", required=True)
    parser.add_argument("--idx", help="the same data for OpenVisus")
    return parser.parse_args()


def ask_openvisus(path, name):
    """The same questions; nothing where OpenVisus is not installed."""
    try:
        import OpenVisus as ov  # noqa: N813
    except ImportError:
        print("OpenVisus is not installed: its lines are not run")
        return
    db = ov.LoadDataset(path)
    print("OpenVisus:", db.getLogicBox(), db.getTimesteps()[:3], db.getFields())
    time = db.getTimesteps()[0]
    print("OpenVisus: mean", np.mean(db.read(x=[0, 8], y=[0, 8], z=[0, 8], time=time, field=name)))
    print("OpenVisus: coarse", db.read(time=time, field=name, quality=-6).shape)


def main():
    options = parse()
    # db = ov.LoadDataset("http://host/mod_visus?dataset=run42")
    with quarry.open(options.target) as dataset:
        # db.getLogicBox()                ([0, 0, 0], [nx, ny, nz]): x, y, z
        print("shape, z y x:", dataset.shape)
        # db.getTimesteps(), db.getFields()
        print("steps:", dataset.steps, "fields:", list(dataset))
        field = dataset[options.field]

        # db.read(x=[0, 8], y=[0, 8], z=[0, 8], time=T, field=NAME)
        step = field.steps[0]
        print("mean of a corner:", np.mean(field[0, :8, :8, :8]))
        print("the same:", np.mean(field.read(step=step, box=((0, 8), (0, 8), (0, 8)))))

        # db.read(time=T, field=NAME, quality=-6): every 4th sample along 3 axes, since 2^6 = 4^3.
        coarse = field.read(step=step, level=2)
        print("coarse:", coarse.shape)
        # Quarry says how far off that is, and finds the level for an error, or for a number of bytes.
        print("every sample within:", coarse.max_error)
        print("level for that error:", field.read(step=step, max_error=coarse.max_error).level)

        # for data in db.read(time=T, field=NAME, num_refinements=3): ...
        for answer in field.stream(step=step, first_level=2):
            print(f"level {answer.level}: {answer.shape}, mean {float(np.mean(answer.array)):.6g}")

        # db.getAccess(), query.abort(): leaving the loop, or Ctrl-C, ends a stream.
    if options.idx:
        ask_openvisus(options.idx, options.field)


if __name__ == "__main__":
    main()
