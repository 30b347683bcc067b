"""The lowest eigenpairs of a matrix that does not fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from quarry_outofcore._engine import Report, engine, parsed
from quarry_outofcore._lobpcg import BLOCKS, lobpcg
from quarry_outofcore._matrix import BlockedMatrix
from quarry_outofcore._order import Order

if TYPE_CHECKING:
    from distributed import Client

Array = npt.NDArray[np.float64]
OnPass = Callable[[int, float], None]


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues and eigenvectors, the lowest first."""

    values: Array
    vectors: Array
    """[row, pair], orthonormal."""
    residuals: Array
    """|A x - value x|: each value is at most so far from an eigenvalue."""
    converged: bool
    """Whether all residuals are within the tolerance."""
    report: Report
    """What was moved, and how long it took."""


def lowest_eigenpairs(matrix: BlockedMatrix, count: int, *, memory: int | str = "256MiB", client: Client | None = None,
                      order: Order = "data-aware", tolerance: float = 1e-8, guard: int = 5, max_passes: int = 1000,
                      threads: int = 1, seed: int = 0, on_pass: OnPass | None = None) -> Eigenpairs:
    """The lowest eigenpairs of a symmetric matrix, by LOBPCG. Each iteration is one pass over the blocks.

        matrix = BlockedMatrix.open("hamiltonian.blocks")
        pairs = lowest_eigenpairs(matrix, 10, memory="2GiB")

    Args:
        count: how many
        memory: [bytes] for vectors and blocks, shared by the workers of `client`; or "2GiB"
        client: of dask.distributed, whose workers read and compute; left out: this process does
        order: "data-aware" runs first what needs the least new bytes; "fifo" goes through the blocks as they lie
        tolerance: of a residual, as a fraction of the largest value that was met
        guard: so many vectors more, which speed up the last of the pairs
        max_passes: then it ends, converged or not
        threads: that compute, in each process; one more reads ahead
        seed: of the random start
        on_pass: told the number of each pass, and the largest residual that is still too large

    Raises:
        ValueError: more pairs than the matrix has room for, or too little memory for the vectors and two blocks
        Error: a block is damaged (DATA_LOSS)
    """
    width = min(count + guard, matrix.rows)
    if count < 1 or 3 * width > matrix.rows:
        raise ValueError(f"{count} pairs and {guard} more of a matrix of {matrix.rows} rows: three times as "
                         "many have to fit; for so small a matrix use numpy.linalg.eigh")
    vectors = (BLOCKS if client is None else 2) * matrix.rows * width * 8
    run = engine(matrix, order, parsed(memory), vectors, threads, client)
    diagonal = matrix.diagonal()
    scale = float(np.abs(diagonal).max())

    def apply(block: Array) -> Array:
        parts = run.run("product", matrix.split(block))
        product = np.zeros_like(block)
        for name, part in matrix.split(product).items():
            if name in parts:
                part += parts.pop(name)
        return product

    def error(values: Array, residuals: Array) -> Array:
        return residuals / max(scale, float(np.abs(values).max()))

    spread = float(diagonal.max() - diagonal.min())

    def precondition(residuals: Array, values: Array) -> Array:
        for column, value in zip(residuals.T, values, strict=True):
            column /= np.maximum(np.abs(diagonal - value), 0.01 * spread)
        return residuals

    try:
        with run.computing():
            # The start has no name here, so that its memory is free once it is orthonormal.
            found = lobpcg(apply, np.random.default_rng(seed).standard_normal((matrix.rows, width)), error=error,
                           wanted=count, tolerance=tolerance, max_passes=max_passes, on_pass=on_pass,
                           precondition=precondition if spread > 0 else None)
    finally:
        run.close()
    residuals = found.residuals[:count]
    converged = bool(np.all(error(found.values, found.residuals)[:count] <= tolerance))
    if not converged:
        warnings.warn(f"after {found.passes} passes the largest residual is {residuals.max():.3g}; allow more by "
                      "max_passes=, or a larger tolerance=", RuntimeWarning, stacklevel=2)
    return Eigenpairs(found.values[:count], found.vectors[:, :count], residuals, converged, run.report)
