"""LOBPCG whose operator is a pass over data that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BLOCKS = 8
"""How many arrays as large as the block of vectors are in memory at most: X, W and P, their products, what a pass adds
up, and one more while they change."""
_TILE = 4096  # rows that change at a time


@dataclass(frozen=True)
class Ritz:
    """Approximate eigenpairs, the lowest first."""

    values: Array
    vectors: Array
    """[row, pair], orthonormal."""
    residuals: Array
    """|A x - value x| of each."""
    passes: int
    """How often the operator was applied."""


def lobpcg(apply: Callable[[Array], Array], start: Array, *, error: Callable[[Array, Array], Array], wanted: int,
           tolerance: float, max_passes: int, precondition: Callable[[Array, Array], Array] | None = None,
           on_pass: Callable[[int, float], None] | None = None) -> Ritz:
    """The lowest eigenpairs of a symmetric operator.

    The operator is applied once to the start, and once for each iteration, to what is new: products of the other
    vectors are combined as the vectors are. Pairs that have converged stay in the basis and need no new vectors.

    Args:
        apply: the operator, of [row, vector]
        start: [row, vector], at least `wanted` vectors and a few more, which speed up the last ones; is overwritten
        error: of pairs, from values and residuals: what is compared with the tolerance
        wanted: so many have to converge
        precondition: from residuals and values to better directions; may overwrite the residuals
        on_pass: told the number of each pass and the largest error after it

    Source: Knyazev 2001, Toward the optimal preconditioned eigensolver, algorithm 4.1; with an orthonormal basis and P
    made orthogonal in coefficients, as Hetmaniuk and Lehoucq 2006, Basis selection in LOBPCG, without which small
    residuals are not reached
    """
    given = start.shape[1]
    x = orthonormalized(start)
    del start
    if x.shape[1] < wanted:
        raise ValueError(f"the {given} vectors of the start have rank {x.shape[1]}; {wanted} pairs need as many")
    ax, passes = apply(x), 1
    values, turn = np.linalg.eigh(_symmetric(x.T @ ax))
    _combine([(x, turn)], x)
    _combine([(ax, turn)], ax)
    p = ap = np.empty((len(x), 0))
    while True:
        w = x * values
        np.subtract(ax, w, out=w)
        residuals = np.sqrt(np.einsum("ij,ij->j", w, w))
        errors = error(values, residuals)
        if on_pass is not None:
            on_pass(passes, float(errors[:wanted].max()))
        if np.all(errors[:wanted] <= tolerance) or passes >= max_passes:
            break
        active = errors > tolerance
        w = np.ascontiguousarray(w[:, active])
        if precondition is not None:
            w = precondition(w, values[active])
        w = _new_directions(w, [x, p])
        if not w.shape[1]:  # nothing is left to improve in this precision
            break
        aw = apply(w)
        passes += 1
        values, p, ap = _rayleigh_ritz(x, ax, w, aw, p, ap, active)
        del w, aw
    return Ritz(values, x, residuals, passes)


def _rayleigh_ritz(x: Array, ax: Array, w: Array, aw: Array, p: Array, ap: Array,
                   active: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """The best `x` of the span of x, w and p, and its product, in place; their values, the next p and its product."""
    basis, products = [x, w, p], [ax, aw, ap]
    gram, energy = _inner(basis, basis), _inner(basis, products)
    # The basis is orthonormal but for rounding, so this is well conditioned.
    inverse = np.linalg.inv(np.linalg.cholesky(gram)).T
    values, turn = np.linalg.eigh(_symmetric(inverse.T @ energy @ inverse))
    count = x.shape[1]
    best = inverse @ turn[:, :count]
    step = best[:, active].copy()
    step[:count] = 0
    for _ in range(2):
        step -= best @ (best.T @ (gram @ step))
    step = step @ _whitening(step.T @ gram @ step)
    cuts = np.cumsum([part.shape[1] for part in basis])[:-1]
    following = []
    for parts, target in ((basis, x), (products, ax)):
        made = np.empty((len(x), step.shape[1]))
        _combine(list(zip(parts, np.split(step, cuts), strict=True)), made,
                 list(zip(parts, np.split(best, cuts), strict=True)), target)
        following.append(made)
    return values[:count], following[0], following[1]


def _inner(basis: list[Array], others: list[Array]) -> Array:
    """All products of columns, which are symmetric: the upper half is computed."""
    count = range(len(basis))
    upper = {(i, j): basis[i].T @ others[j] for i in count for j in count if i <= j}
    return _symmetric(np.block([[upper[i, j] if i <= j else upper[j, i].T for j in count] for i in count]))


def _combine(terms: list[tuple[Array, Array]], target: Array, others: list[tuple[Array, Array]] | None = None,
             other_target: Array | None = None) -> None:
    """Sums of arrays times small matrices, by tiles of rows, so that a target may be one of the arrays; and a second
    such sum of the same arrays."""
    for begin in range(0, len(target), _TILE):
        rows = slice(begin, begin + _TILE)
        first: Any = sum(array[rows] @ matrix for array, matrix in terms)
        second: Any = sum(array[rows] @ matrix for array, matrix in others or [])
        target[rows] = first
        if other_target is not None:
            other_target[rows] = second


def _new_directions(w: Array, bases: list[Array]) -> Array:
    """The part of `w` outside of orthonormal bases, orthonormal. Twice is enough (Parlett)."""
    for _ in range(2):
        for basis in bases:
            w -= basis @ (basis.T @ w)
        w = orthonormalized(w)
    return w


def orthonormalized(w: Array) -> Array:
    """An orthonormal basis of the span of the columns; dependent ones are dropped."""
    for _ in range(2):
        # Columns of length 1 first, so that short ones are not taken for dependent ones.
        lengths = np.sqrt(np.einsum("ij,ij->j", w, w))
        w = w[:, lengths > 0] / lengths[lengths > 0]
        if w.shape[1]:
            w = w @ _whitening(w.T @ w)
    return w


def _whitening(gram: Array) -> Array:
    """M with M.T gram M = 1; has fewer columns where gram is singular."""
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    values, turn = np.linalg.eigh(_symmetric(gram * scale[:, None] * scale))
    good = values > 1e-14 * len(values) * max(values.max(initial=0), 0)
    matrix: Array = scale[:, None] * turn[:, good] / np.sqrt(values[good])
    return matrix


def _symmetric(matrix: Array) -> Array:
    result: Array = (matrix + matrix.T) / 2
    return result
