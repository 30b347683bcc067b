#!/usr/bin/env python3
"""Plots the output of quarry-plan predict --json: the seconds of each phase, one stacked bar for each combination.

    quarry-plan predict --dims 4096x4096x4096 --ranks 8x8x8,16x16x16 --patch 32,64 --json | tools/plan/plot.py what-if.svg

The ending of the output names the format: .svg, .png, .pdf. Needs matplotlib (Debian: python3-matplotlib).
"""

import json
import sys


def bars(prediction):
    """For each combination its label and the seconds of each phase, by the name of the phase."""
    combinations = prediction.get("combinations", [prediction])
    return [(f"{c['patch']}, {c['process_grid']}, {c['files']}",
             {phase: seconds for phase, seconds in c["seconds"].items() if phase != "total"})
            for c in combinations]


def draw(prediction, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = bars(prediction)
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.3 * len(rows)), layout="constrained")
    left = [0.0] * len(rows)
    phases = list(rows[0][1])
    for phase in phases:
        seconds = [parts[phase] for _, parts in rows]
        axes.barh(range(len(rows)), seconds, left=left, label=phase)
        left = [a + b for a, b in zip(left, seconds)]
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("predicted time, seconds")
    axes.set_ylabel("patch, ranks, files")
    axes.set_title(f"Predicted time to write one step of {prediction['dims']} {prediction['type']}, "
                   f"machine \"{prediction['machine']['name']}\"", fontsize="medium")
    axes.legend(ncols=len(phases), loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
    figure.savefig(path)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.strip())
    try:
        prediction = json.load(sys.stdin)
    except json.JSONDecodeError as error:
        raise SystemExit(f"plot.py: the input is not JSON ({error}); pipe quarry-plan predict --json into it")
    try:
        draw(prediction, sys.argv[1])
    except ImportError:
        raise SystemExit("plot.py: matplotlib is not installed; install it (Debian: python3-matplotlib)")


if __name__ == "__main__":
    main()
