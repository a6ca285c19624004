"""Bundle adjustment: cameras and points from images, by Gauss-Newton steps with sparse J^T J.

Each of m observations sees point b[p] from camera a[p]; its two residuals depend on that camera and that point alone.
The Jacobians come with the places where their elements are: `layout="bcoo"` stores 2 * m * 3 of them for cameras and as
many for points, and nothing of the 2 * m by 3 * (k + q) matrix in between.

    python examples/bundle.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import spsolve

import tensorlang as tl

residuals = tl.parse("""
  residuals(C: [k][3]R, X: [q][3]R, a: [m]idx(k), b: [m]idx(q), z: [m][2]R) =
    gen p:m, c:2. (X[b[p], c] - C[a[p], c]) / (X[b[p], 2] - C[a[p], 2]) - z[p, c]
""")
jacobians = tl.jacobian(residuals, ("C", "X"), layout="bcoo")


def matrix(blocks: Any) -> scipy.sparse.csr_array:
    """The four-dimensional Jacobians of (observation, coordinate) by (camera or point, coordinate) as one matrix."""
    parts = []
    for j in blocks:
        m, two, n, three = j.shape
        p, c, i, d = np.asarray(j.indices).T
        inside = (p < m) & (i < n)
        at = (two * p + c)[inside], (three * i + d)[inside]
        parts.append(scipy.sparse.coo_array((np.asarray(j.data, float)[inside], at), shape=(two * m, three * n)))
    return scipy.sparse.csr_array(scipy.sparse.hstack(parts))


def step(cameras: Any, points: Any, a: Any, b: Any, z: Any, damping: float) -> tuple[Any, Any, scipy.sparse.csr_array]:
    """Cameras and points after one damped Gauss-Newton step, and J^T J."""
    J = matrix(jacobians(cameras, points, a, b, z))
    r = np.asarray(residuals(cameras, points, a, b, z), float).ravel()
    normal = scipy.sparse.csr_array(J.T @ J)
    change = spsolve((normal + damping * scipy.sparse.eye_array(normal.shape[0])).tocsc(), J.T @ r)
    n = cameras.size
    return cameras - change[:n].reshape(cameras.shape), points - change[n:].reshape(points.shape), normal


def scene(k: int, q: int, seen: int, seed: int = 0) -> tuple[Any, ...]:
    """k cameras at the origin's side, q points ahead of them, each seen by some cameras; with noise to start from."""
    rng = np.random.default_rng(seed)
    cameras = rng.normal(size=(k, 3)) * [1, 1, 0.2]
    points = rng.normal([0, 0, 6], 1, size=(q, 3))
    a = np.concatenate([rng.choice(k, min(seen, k), replace=False) for _ in range(q)])
    b = np.repeat(np.arange(q), min(seen, k))
    z = np.asarray(residuals(cameras, points, a, b, np.zeros((len(a), 2))))
    return cameras + rng.normal(size=(k, 3)) / 50, points + rng.normal(size=(q, 3)) / 50, a, b, z


def main() -> None:
    """A few steps, with the size of what is solved."""
    cameras, points, a, b, z = scene(20, 400, 5)
    for k in range(5):
        error = float(np.square(residuals(cameras, points, a, b, z)).sum())
        cameras, points, normal = step(cameras, points, a, b, z, 1e-4)
        print(f"step {k}: error {error:.3e}, J^T J is {normal.shape[0]} square with {normal.nnz} elements")
    print(f"in the end: error {float(np.square(residuals(cameras, points, a, b, z)).sum()):.3e}")


if __name__ == "__main__":
    main()
