"""Draws levels.png: a plane of a turbulent field at four levels, with what each one costs and promises.

PYTHONPATH=build/release/python build/python-environment/bin/python docs/images/levels.py
"""

import tempfile
from pathlib import Path

import matplotlib
import numpy as np
import quarry

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402


def turbulence(edge):
    """Random modes with a spectrum a little steeper than that of turbulence, so that levels differ to the eye."""
    k2 = sum(np.meshgrid(*[np.fft.fftfreq(edge, 1 / edge) ** 2] * 3, indexing="ij", sparse=True))
    noise = np.random.default_rng(7).standard_normal((edge, edge, edge))
    field = np.fft.ifftn(np.fft.fftn(noise) * np.maximum(k2, 1) ** -1.4).real
    return (field / field.std()).astype("f4")


with tempfile.TemporaryDirectory() as folder:
    quarry.write(f"{folder}/t.quarry", turbulence(192), field="speed", tolerance=1e-3)
    field = quarry.open(f"{folder}/t.quarry")["speed"]
    figure, panels = plt.subplots(1, 4, figsize=(12, 4.2), layout="constrained")
    total = 192**3 * 4
    for panel, level in zip(panels, (4, 3, 2, 0)):
        answer = field.read(level=level)
        price = field.plan(level=level).price
        panel.imshow(answer.array[0], cmap="coolwarm", vmin=-2.5, vmax=2.5, origin="lower", extent=(0, 192, 0, 192))
        panel.set_title(f"level {level}: {answer.shape[0]}³ samples\n{price.bytes_read / 1e3:,.0f} kB read of {total / 1e3:,.0f}\n"
                        f"max_error {answer.max_error:.2g}", fontsize=11)
        panel.set_xticks([])
        panel.set_yticks([])
    figure.savefig(Path(__file__).with_name("levels.png"), dpi=90, bbox_inches="tight")
