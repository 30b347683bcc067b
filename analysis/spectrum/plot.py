#!/usr/bin/env python3
"""Plots spectra from quarry-spectrum --json, several in one picture; the dashed line falls as k^(-5/3).

    mpirun -n 8 quarry-spectrum run42.quarry --vector u,v,w --json > fine.json
    mpirun -n 8 quarry-spectrum run42.quarry --vector u,v,w --level 2 --json > coarse.json
    analysis/spectrum/plot.py fine.json coarse.json spectra.svg

The ending of the output names the format: .svg, .png, .pdf. Needs matplotlib (Debian: python3-matplotlib).
"""

import json
import sys
from pathlib import Path


def curve(spectrum):
    """The wave numbers and energies of the whole shells that have energy, without k = 0, which has no place on a
    logarithmic axis."""
    return [(k, e) for k, e in zip(spectrum["k"], spectrum["energy"])
            if 0 < k <= spectrum["last_whole_shell"] and e > 0]


def label(spectrum):
    return f"{', '.join(spectrum['fields'])}, step {spectrum['step']}, level {spectrum['level']}"


def draw(spectra, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    for spectrum in spectra:
        points = curve(spectrum)
        axes.loglog([k for k, _ in points], [e for _, e in points], label=label(spectrum))
    first = curve(spectra[0])
    if first:
        axes.loglog([k for k, _ in first], [first[0][1] * (k / first[0][0]) ** (-5 / 3) for k, _ in first],
                    "k--", linewidth=0.8, label="k^(-5/3)")
    axes.set_xlabel("waves in the box, k")
    axes.set_ylabel("energy in shell k, square of the field's unit")
    axes.legend(frameon=False)
    figure.savefig(path)


def load(path):
    try:
        return json.loads(Path(path).read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise SystemExit(f"plot.py: {path} is no output of quarry-spectrum --json ({error})")


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__.strip())
    spectra = [load(path) for path in sys.argv[1:-1]]
    try:
        draw(spectra, sys.argv[-1])
    except ImportError:
        raise SystemExit("plot.py: matplotlib is not installed; install it (Debian: python3-matplotlib)")


if __name__ == "__main__":
    main()
