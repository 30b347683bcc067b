# %% [markdown]
# # Coarse to fine
#
# A first look at a field that is too large to load: the table of the dataset, what each level costs, a picture that
# sharpens, and a box in full resolution.
#
# This is a notebook as a script: VS Code, Spyder and PyCharm run its cells, `jupytext --to ipynb coarse_to_fine.py`
# makes an .ipynb of it, and `python coarse_to_fine.py` runs it from top to bottom.
#
# Needs: `pip install quarry-data[pictures]`

# %%
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import quarry

# %% [markdown]
# A field of our own, so that there is something to look at. Yours is there already: `quarry.open("run42.quarry")`.

# %%
folder = tempfile.TemporaryDirectory()
z, y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in (48, 96, 128)), indexing="ij")
speed = np.exp(-4 * ((x + 0.3)**2 + y**2 + z**2)) + 0.1 * np.sin(9 * x + 5 * y) * np.cos(7 * z)
quarry.write(f"{folder.name}/wake.quarry", speed.astype("f4"), field="speed", units="m s-1", tolerance=1e-4,
             origin=(-1, -1, -1), spacing=(2 / 47, 2 / 95, 2 / 127))

dataset = quarry.open(f"{folder.name}/wake.quarry")
dataset  # noqa: B018 - a notebook shows a table of the fields

# %% [markdown]
# A plan says what each level costs, and how far off it is. It reads no data.

# %%
field = dataset["speed"]
for level in reversed(range(dataset.levels)):
    plan = field.plan(level=level)
    error = plan.levels[-1].max_error
    print(f"level {level}: {plan.price.bytes_read:>6} bytes, every sample within {error:.4f} {field.units}")

# %% [markdown]
# All of them, one after the other: the first is there at once. Leave the loop as soon as you have seen enough.

# %%
figure, panels = plt.subplots(1, 4, figsize=(14, 3), layout="constrained")
for panel, samples in zip(panels, field.stream(first_level=3), strict=True):
    panel.imshow(samples.array[samples.shape[0] // 2], origin="lower", extent=(-1, 1, -1, 1), vmin=-0.1, vmax=1.1)
    panel.set_title(f"level {samples.level}, {samples.shape}")
    print(samples)
figure.savefig(f"{folder.name}/levels.png")

# %% [markdown]
# The same in one line, which draws into the same picture again and again: the coarsest level first, up to one sample
# for each pixel.

# %%
picture = field.show(axis="z", at=0)

# %% [markdown]
# How fine does it have to be? Say the error that you can live with, or how many bytes.

# %%
enough = field.read(max_error=0.05)
small = field.read(max_bytes=100_000)
print(f"within 0.05 {field.units}: level {enough.level}")
print(f"with 100 kB: level {small.level}, within {small.max_error:.4f} {field.units}")

# %% [markdown]
# And now the interesting part, in full resolution: around the fastest sample of the overview.

# %%
peak = np.array(np.unravel_index(np.argmax(enough.array), enough.shape)) * enough.spacing
box = [(max(0, at - 8), min(at + 8, length)) for at, length in zip(peak.tolist(), dataset.shape, strict=True)]
close = field.read(box=box)
print(f"largest in {box}: {close.array.max():.4f} {field.units}; in the overview it was {enough.array.max():.4f}")

# %% [markdown]
# The promise held.

# %%
inside = tuple(slice(*axis) for axis in box)
assert np.abs(close.array - speed[inside]).max() <= 1e-4 + 1e-7
assert np.abs(enough.array - speed[::enough.spacing[0], ::enough.spacing[1], ::enough.spacing[2]]).max() <= 0.05
assert close.array.max() >= speed.max() - 1e-4
dataset.close()
folder.cleanup()
