"""Proper orthogonal decomposition of a series that does not fit into memory."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quarry._choice import choose, records_of
from quarry._dataset import Dataset
from quarry._errors import Error
from quarry_outofcore._eigen import OnPass
from quarry_outofcore._engine import Engine, Report, engine, parsed, workers_of
from quarry_outofcore._lobpcg import BLOCKS, Ritz, lobpcg
from quarry_outofcore._order import Order
from quarry_outofcore._series import Series

if TYPE_CHECKING:
    from distributed import Client

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pod:
    """A series as a mean and modes: step n is about mean + the sum over j of coefficients[n, j] modes[j]."""

    modes: Array
    """[mode, field, z, y, x], orthonormal over all fields; on disk where an output folder was given. 0 where samples
    are missing in every step."""
    singular_values: Array
    """Of the series without its mean, the largest first."""
    coefficients: Array
    """[step, mode]: how much of each mode is in each step. Columns are orthogonal, of the length of the singular value;
    the largest entry of each is positive."""
    mean: Array
    """[field, z, y, x], over the steps; zeros if it was not subtracted."""
    energy: float
    """The sum of the squares of all singular values: what is left out of `modes` included."""
    fields: list[str]
    steps: list[int]
    errors: Array
    """Bound of the angle [rad] between each mode and the exact one."""
    converged: bool
    """Whether all of these are within the tolerance."""
    report: Report
    """What was moved, and how long it took."""


def pod(dataset: Dataset, fields: str | Sequence[str], *, modes: int = 10, steps: Sequence[int] | None = None,
        level: int | None = None, max_error: float | None = None, layer: int | None = None,
        subtract_mean: bool = True, memory: int | str = "256MiB", client: Client | None = None,
        order: Order = "data-aware", tolerance: float = 1e-7, guard: int = 6, max_passes: int = 200, threads: int = 1,
        output: str | os.PathLike[str] | None = None, on_pass: OnPass | None = None) -> Pod:
    """The leading modes of a series of steps, by LOBPCG: the singular value decomposition of its samples, [sample,
    step], of which never more than `memory` are decoded. Each iteration is one pass over them. It begins with the modes
    of a coarser level, which are close, and a 64th of the bytes.

        with quarry.open("run42.quarry") as dataset:
            found = quarry_outofcore.pod(dataset, ["velocity_x", "velocity_y", "velocity_z"], memory="1GiB")
        print(found.singular_values**2 / found.energy)

    Args:
        fields: one, or several that make up one vector at each place: of the same unit
        modes: how many
        steps: their numbers; all that hold the first of the fields, if left out
        level: of resolution; 0, full resolution, if nothing else says which
        max_error: instead of level and layer: those with the fewest bytes that show every sample of all fields and
            steps within this error, in the unit of the fields
        layer: of accuracy, 0 the roughest; the last if left out, and of fields that have fewer than others
        subtract_mean: decomposes the fluctuations about the mean over the steps
        memory: [bytes] for samples and vectors, shared by the workers of `client`; or "1GiB". The library's own share
            of it is 128 bytes for each sample of a patch and layer. `modes` come on top, unless they go to `output`
        client: of dask.distributed, whose workers read and compute; left out: this process does
        order: "data-aware" runs first what needs the least new bytes; "fifo" goes through the boxes as they lie
        tolerance: [rad] of the angle between a mode and the exact one, by its residual and the distance of the values
        guard: so many vectors more, which speed up the last of the modes
        max_passes: then it ends, converged or not
        threads: that compute, in each process; one more reads ahead
        output: a folder that is made for the results: modes.npy, mean.npy, coefficients.npy, singular_values.npy and
            pod.json
        on_pass: told the number of each pass, and the largest angle after it

    Raises:
        ValueError: more modes than steps, no such level or layer, a field of another step or with samples that are
            missing in some steps only, or too little memory
        KeyError: no such field
        Error: damage (DATA_LOSS), and those of servers; the folder exists (ALREADY_EXISTS)
    """
    names = [fields] if isinstance(fields, str) else list(fields)
    numbers = list(dataset[names[0]].steps if steps is None else steps)
    dataset.common_grid(names)
    choice = choose(dataset, names, names, lambda name: records_of(dataset[name], numbers), level=level, layer=layer,
                    max_error=None if max_error is None else dict.fromkeys(names, max_error))
    if not 1 <= modes < len(numbers):
        raise ValueError(f"{modes} modes of {len(numbers)} steps: there can be from 1 to {len(numbers) - 1}")
    folder = _new_folder(output)
    limit = parsed(memory)
    width = min(modes + guard, len(numbers) - subtract_mean)
    series = Series(_bounded(dataset), names, numbers, choice, limit // workers_of(client))
    results = (modes + 1) * 8 * max(int(np.prod(series.box_shape(task.block))) for task in series.tasks)
    run = engine(series, order, limit, BLOCKS * len(numbers) * width * 8 + threads * results, threads, client)
    try:
        found = _find(series, run, width, modes, subtract_mean, tolerance, max_passes, on_pass)
        result = _expand(series, run, found, modes, subtract_mean, folder)
    finally:
        run.close()
    errors = _angles(found.values, found.residuals)[:modes]
    converged = bool((errors <= tolerance).all())
    if not converged:
        warnings.warn(f"after {found.passes} passes the modes are within {errors.max():.3g} rad; allow more by "
                      "max_passes=, or a larger tolerance=", RuntimeWarning, stacklevel=2)
    made = Pod(*result, names, numbers, errors, converged, run.report)
    if folder is not None:
        _save(folder, made)
    return made


def _find(series: Series, run: Engine, width: int, wanted: int, subtract_mean: bool,
          tolerance: float, max_passes: int, on_pass: OnPass | None) -> Ritz:
    """Eigenvectors of the products of the steps with each other, the largest first."""
    centred = _centred if subtract_mean else np.copy

    def apply(vectors: Array) -> Array:
        # X without its mean is X J, with J = 1 - 1 1.T / steps.
        return -centred(run.run("product", {"steps": centred(vectors)})["steps"])

    coarse = _coarse(series, run)
    with run.computing():
        start = np.random.default_rng(0).standard_normal((len(series.steps), width))
        if coarse is not None:
            start = np.linalg.eigh(centred(centred(coarse).T))[1][:, ::-1][:, :width]
        return lobpcg(apply, centred(start), error=_angles, wanted=wanted, tolerance=tolerance, max_passes=max_passes,
                      on_pass=on_pass)


def _centred(vectors: Array) -> Array:
    result: Array = vectors - vectors.mean(axis=0)
    return result


def _angles(values: Array, residuals: Array) -> Array:
    """Bounds of the angles [rad] between eigenvectors and the exact ones (Davis and Kahan). The last value has no
    neighbour to tell its distance by, and takes that of the one before."""
    gaps = np.abs(np.diff(values))
    before, after = np.append(np.inf, gaps), np.append(gaps, gaps[-1:] if len(gaps) else np.abs(values))
    smallest = np.finfo(float).tiny
    result: Array = residuals / np.maximum(np.minimum(before, after), smallest)
    return result


def _bounded(dataset: Dataset) -> Dataset:
    """The same, with as little memory for what is decoded as it can do with: blocks are kept by the store."""
    return Dataset(dataset._place, {**dataset._options, "memory": 1})


def _coarse(series: Series, run: Engine) -> Array | None:
    """Products of the steps with each other at a level with every fourth sample along an axis. None: there is none."""
    dataset = series.dataset
    grid = dataset.common_grid(series.fields)
    level = min(series.choice.level + 2, grid.levels - 1)
    samples = np.prod([-(-length // 2**level) for length in grid.shape])
    if level <= series.choice.level or samples < 8 * len(series.steps):
        return None
    choice = replace(series.choice, level=level)
    small = Series(dataset, series.fields, series.steps, choice, 12 * max(series.sizes.values()))
    total = np.zeros((len(series.steps), len(series.steps)))
    for task in small.tasks:
        begin = time.perf_counter()
        block = small.load(task.block)
        loaded = time.perf_counter()
        for _, part in small.compute("gram", task, block, {}):
            total += part
        run.report.io_seconds += loaded - begin
        run.report.compute_seconds += time.perf_counter() - loaded
        run.report.bytes_moved += block.nbytes
    return total


def _expand(series: Series, run: Engine, found: Ritz, wanted: int, subtract_mean: bool,
            folder: Path | None) -> tuple[Array, Array, Array, Array, float]:
    """Modes [mode, field, z, y, x], singular values, coefficients, mean and energy, in one more pass."""
    values = np.sqrt(np.maximum(-found.values[:wanted], 0))
    vectors = found.vectors[:, :wanted].copy()
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(wanted)])
    given = np.divide(vectors, values, out=np.zeros_like(vectors), where=values > 0)
    if subtract_mean:
        given = np.column_stack([_centred(given), np.full(len(vectors), 1 / len(vectors))])
    shape = (len(series.fields), *series.shape)
    modes = _array(folder, "modes.npy", (wanted, *shape))
    mean = _array(folder, "mean.npy", shape)

    def put(block: str, part: Array) -> None:
        field, box = series.place(block)
        modes[(slice(None), field, *box)] = part.T[:wanted].reshape(wanted, *series.box_shape(block))
        if subtract_mean:
            mean[(field, *box)] = part[:, wanted].reshape(series.box_shape(block))

    sums = run.run("modes of fluctuations" if subtract_mean else "modes", {"steps": given}, put)
    return modes, values, vectors * values, mean, float(sums["energy"][0])


def _array(folder: Path | None, name: str, shape: tuple[int, ...]) -> Array:
    if folder is None:
        return np.zeros(shape)
    made: Array = np.lib.format.open_memmap(folder / name, mode="w+", dtype=np.float64, shape=shape)
    return made


def _new_folder(output: str | os.PathLike[str] | None) -> Path | None:
    if output is None:
        return None
    folder = Path(output)
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Error("ALREADY_EXISTS", f'"{folder}" exists; remove it, or choose another folder') from None
    return folder


def _save(folder: Path, made: Pod) -> None:
    for array in (made.modes, made.mean):
        array.flush()  # type: ignore[attr-defined]
    np.save(folder / "singular_values.npy", made.singular_values)
    np.save(folder / "coefficients.npy", made.coefficients)
    (folder / "pod.json").write_text(json.dumps(summary(made), indent=1) + "\n")


def summary(made: Pod) -> dict[str, Any]:
    """Summary of a decomposition, without its arrays, for JSON."""
    return {"fields": made.fields, "steps": made.steps, "singular_values": made.singular_values.tolist(),
            "energy": made.energy, "errors": made.errors.tolist(), "converged": made.converged,
            "report": made.report.summary()}
