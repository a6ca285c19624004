"""External functions with declared adjoints: a solver, a Fourier transform, and others that are simple to check."""

from __future__ import annotations

import jax.numpy as jnp

import tensorlang as tl

n, m = tl.sizes("n m")


@tl.external(cost="n^3 + n^2")
def solve(A: tl.R[n, n], b: tl.R[n]) -> tl.R[n]:
    return jnp.linalg.solve(A, b)


@tl.adjoint_of(solve)
def solve_adjoint(A, b, y, y_bar):  # type: ignore[no-untyped-def]
    b_bar = solve(tl.gen((n, n), lambda i, j: A[j, i]), y_bar)
    return tl.gen((n, n), lambda i, j: -b_bar[i] * y[j]), b_bar


@tl.external(cost="20*n^2")
def fft(x: tl.R[n], y: tl.R[n]) -> (tl.R[n], tl.R[n]):  # type: ignore[syntax, valid-type]
    z = jnp.fft.fft(x + 1j * y)
    return z.real, z.imag


@tl.adjoint_of(fft)
def fft_adjoint(x, y, z, z_bar):  # type: ignore[no-untyped-def]
    u, v = fft(tl.fst(z_bar), tl.gen(n, lambda i: -tl.snd(z_bar)[i]))
    return u, tl.gen(n, lambda i: -v[i])


@tl.external(cost="2*n")
def sines(x: tl.R[n]) -> tl.R[n]:
    return jnp.sin(x)


@tl.adjoint_of(sines)
def sines_adjoint(x, y, y_bar):  # type: ignore[no-untyped-def]
    return tl.gen(n, lambda i: tl.cos(x[i]) * y_bar[i])


@tl.external(cost="3*n*m")
def pulled(A: tl.R[n, m], x: tl.R[m], y: tl.R[n], y_bar: tl.R[n]) -> (tl.R[n, m], tl.R[m]):  # type: ignore[syntax, valid-type]
    return jnp.outer(y_bar, x), A.T @ y_bar


@tl.external(cost="2*n*m")
def times(A: tl.R[n, m], x: tl.R[m]) -> tl.R[n]:
    return A @ x


tl.adjoint_of(times)(pulled)


@tl.external(cost="2*n*m + 4*n")
def layer(A: tl.R[n, m], x: tl.R[m], y: tl.R[n]) -> tl.R[n]:
    return jnp.tanh(A @ x) * y


@tl.adjoint_of(layer)
def layer_adjoint(A, x, y, z, z_bar):  # type: ignore[no-untyped-def]
    t = tl.gen(n, lambda i: tl.tanh(tl.sum(m, lambda j: A[i, j] * x[j])))
    u = tl.gen(n, lambda i: z_bar[i] * y[i] * (1 - t[i] * t[i]))
    x_bar = tl.gen(m, lambda j: tl.sum(n, lambda i: u[i] * A[i, j]))
    return tl.gen((n, m), lambda i, j: u[i] * x[j]), x_bar, tl.gen(n, lambda i: t[i] * z_bar[i])


@tl.external(cost="3*n")
def energy(x: tl.R[n], y: tl.R[n]) -> tl.R:
    return jnp.sum(x * y * y)


@tl.adjoint_of(energy)
def energy_adjoint(x, y, e, e_bar):  # type: ignore[no-untyped-def]
    t = tl.gen(n, lambda i: e_bar * y[i])
    return tl.gen(n, lambda i: t[i] * y[i]), tl.gen(n, lambda i: 2 * t[i] * x[i])
