"""A newcomer's first hour: twelve tasks, each in at most fifteen lines, beside the same in JAX.

    python examples/first_hour.py

checks values and gradients against JAX's, and times the gradients of both; `tests/project/test_first_hour.py` does
the first.
"""

import inspect
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl


class Task(NamedTuple):
    """`ours` makes a JAX function of a tensor program, `theirs` is written with jax.numpy alone."""

    ours: Callable[[], Callable[..., Any]]
    theirs: Callable[..., Any]
    arguments: Callable[[Any], tuple[Any, ...]]
    wrt: tuple[int, ...]


# -- 1. logistic regression


def logistic_regression():
    loss = tl.parse("""
        loss(w: [d]R, b: R, x: [n][d]R, y: [n]R) =
          let z = gen i:n. b + dot(x[i], w) in
          (sum i:n. softplus(z[i]) - y[i] * z[i]) / n
    """)
    return tl.to_jax(loss)


def logistic_regression_in_jax(w, b, x, y):
    z = x @ w + b
    return jnp.mean(jax.nn.softplus(z) - y * z)


# -- 2. a multi-layer perceptron


def perceptron():
    loss = tl.parse("""
        loss(w0: [h][d]R, b0: [h]R, w1: [c][h]R, b1: [c]R, x: [n][d]R, labels: [n]idx(c)) =
          let hidden = gen i:n, k:h. tanh(b0[k] + dot(w0[k], x[i])) in
          let scores = gen i:n, l:c. b1[l] + dot(w1[l], hidden[i]) in
          cross_entropy(scores, labels) / n
    """)
    return tl.to_jax(loss)


def perceptron_in_jax(w0, b0, w1, b1, x, labels):
    scores = jnp.tanh(x @ w0.T + b0) @ w1.T + b1
    return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(x)), labels])


# -- 3. a cubic spline through noisy points: which cell a point is in, and how far, is data


def spline():
    loss = tl.parse("""
        loss(c: [m + 3]R, cell: [n]idx(m), t: [n]R, y: [n]R) =
          let s = gen i:n.
            c[cell[i]] * (1 - t[i])^3 + c[cell[i] + 1] * (4 - 6 * t[i]^2 + 3 * t[i]^3)
            + c[cell[i] + 2] * (1 + 3 * t[i] + 3 * t[i]^2 - 3 * t[i]^3) + c[cell[i] + 3] * t[i]^3 in
          sum i:n. (s[i] / 6 - y[i])^2
    """)
    return tl.to_jax(loss)


def spline_in_jax(c, cell, t, y):
    basis = [(1 - t) ** 3, 4 - 6 * t**2 + 3 * t**3, 1 + 3 * t + 3 * t**2 - 3 * t**3, t**3]
    return jnp.sum((sum(c[cell + k] * b for k, b in enumerate(basis)) / 6 - y) ** 2)


# -- 4. a graph network on a list of edges


def graph_network():
    loss = tl.parse("""
        loss(w: [d][d]R, x: [n][d]R, source: [e]idx(n), target: [e]idx(n)) =
          let message = gen k:e, i:d. tanh(dot(w[i], x[source[k]])) in
          let state = gen v:n, i:d. x[v, i] + sum k:e. [target[k] = v] * message[k, i] in
          sum v:n, i:d. state[v, i]^2
    """)
    return tl.to_jax(loss)


def graph_network_in_jax(w, x, source, target):
    message = jnp.tanh(x[source] @ w.T)
    return jnp.sum((x + jax.ops.segment_sum(message, target, len(x))) ** 2)


# -- 5. attention within a window


def window_attention():
    loss = tl.parse("""
        loss(q: [n][d]R, k: [n][d]R, v: [n][d]R) =
          let y = causal_attention(q, k, v, window=8) in
          sum i:n, l:d. y[i, l]^2
    """)
    return tl.to_jax(loss)


def window_attention_in_jax(q, k, v):
    back = jnp.arange(len(q))[:, None] - jnp.arange(len(q))
    scores = jnp.where((back >= 0) & (back < 8), q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
    return jnp.sum((jax.nn.softmax(scores, axis=1) @ v) ** 2)


# -- 6. which temperatures led to those that were measured: a known number of steps is a loop in Python


def heat_inversion():
    n = tl.sizes("n")

    def step(u):
        spread = lambda i: (i > 0) * u[i - 1] + (i < n - 1) * u[i + 1] - 2 * u[i]
        return tl.gen(n, lambda i: u[i] + 0.2 * spread(i))

    @tl.function
    def loss(u: tl.R[n], measured: tl.R[n]):
        for _ in range(10):
            u = step(u)
        return tl.sum(n, lambda i: (u[i] - measured[i]) ** 2)

    return tl.to_jax(loss)


def heat_inversion_in_jax(u, measured):
    for _ in range(10):
        around = jnp.pad(u, 1)
        u = u + 0.2 * (around[:-2] + around[2:] - 2 * u)
    return jnp.sum((u - measured) ** 2)


# -- 7. the likelihood of a hidden Markov model


def hidden_markov():
    n, m = tl.sizes("n m")

    def step(a, moves, shown):
        return tl.gen(n, lambda j: shown[j] + tl.lib.logsumexp(tl.gen(n, lambda i: a[i] + moves[i, j])))

    @tl.function
    def likelihood(start: tl.R[n], moves: tl.R[n, n], shown: tl.R[n, m], seen: tl.idx(m)[12]):
        of = [tl.gen(n, lambda i, t=t: shown[i, seen[t]]) for t in range(12)]
        a = tl.gen(n, lambda i: start[i] + of[0][i])
        for y in of[1:]:
            a = step(a, moves, y)
        return tl.lib.logsumexp(a)

    return tl.to_jax(likelihood)


def hidden_markov_in_jax(start, moves, shown, seen):
    a = start + shown[:, seen[0]]
    for y in seen[1:]:
        a = shown[:, y] + jax.nn.logsumexp(a[:, None] + moves, axis=0)
    return jax.nn.logsumexp(a)


# -- 8. a regression with the Huber loss


def robust_regression():
    loss = tl.parse("""
        loss(w: [d]R, x: [n][d]R, y: [n]R, width: R) = sum i:n. huber(dot(x[i], w) - y[i], width)
    """)
    return tl.to_jax(loss)


def robust_regression_in_jax(w, x, y, width):
    r = jnp.abs(x @ w - y)
    return jnp.sum(jnp.where(r <= width, r**2 / 2, width * (r - width / 2)))


# -- 9. a convolutional network with pooling


def conv_net():
    loss = tl.parse("""
        score(x: [c][4*h][4*w]R, k0: [d][c][3][3]R, k1: [e][d][3][3]R, v: [e]R) =
          let y = conv2d(x, k0, padding=1) in
          let y2 = max_pool(gen o:d, i:4*h, j:4*w. relu(y[o, i, j]), window=2) in
          let z = conv2d(y2, k1, padding=1, stride=2) in
          sum o:e. v[o] * (sum i:h, j:w. tanh(z[o, i, j])) / h / w
    """)
    return tl.to_jax(loss)


def conv_net_in_jax(x, k0, k1, v):
    conv = lambda x, k, s: jax.lax.conv_general_dilated(x[None], k, (s, s), [(1, 1), (1, 1)])[0]
    y = jax.nn.relu(conv(x, k0, 1))
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2), (1, 2, 2), "VALID")
    return v @ jnp.mean(jnp.tanh(conv(y, k1, 2)), (1, 2))


# -- 10. particles that push one another away when they are near


def particles():
    loss = tl.parse("""
        energy(x: [n][3]R) =
          let r = squared_distances(x, x) in
          sum i:n, j:n. [i < j and r[i, j] < 1] * (1 - sqrt(r[i, j]))^2
    """)
    return tl.to_jax(loss)


def particles_in_jax(x):
    r = jnp.sum((x[:, None] - x) ** 2, axis=-1)
    near = (r < 1) & jnp.triu(jnp.ones_like(r, bool), 1)
    return jnp.sum(jnp.where(near, (1 - jnp.sqrt(jnp.where(near, r, 1))) ** 2, 0))


# -- 11. a regression whose matrix is sparse: the places of its entries are a relation


def sparse_regression():
    loss = tl.parse("""
        loss(w: [d]R, x: [n][d]R, known: rel(n, d), y: [n]R, penalty: R) =
          let r = gen i:n. (sum j:d. [known(i, j)] * x[i, j] * w[j]) - y[i] in
          (sum i:n. r[i]^2) / n + penalty * sum j:d. abs(w[j])
    """)
    return tl.to_jax(loss)


def sparse_regression_in_jax(w, x, known, y, penalty):
    return jnp.mean((jnp.where(known, x, 0) @ w - y) ** 2) + penalty * jnp.sum(jnp.abs(w))


# -- 12. a linear system inside of a loss: JAX solves it, and the matrix is a tensor program


def solve_inside():
    matrix = tl.parse("""
        stiffness(k: [n + 1]R) = gen i:n, j:n.
          [i = j] * (k[i] + k[i + 1]) - [i = j + 1] * k[i] - [j = i + 1] * k[j]
    """)
    stiffness = tl.to_jax(matrix)
    return lambda k, force, wanted: jnp.sum((jnp.linalg.solve(stiffness(k), force) - wanted) ** 2)


def solve_inside_in_jax(k, force, wanted):
    a = jnp.diag(k[:-1] + k[1:]) - jnp.diag(k[1:-1], 1) - jnp.diag(k[1:-1], -1)
    return jnp.sum((jnp.linalg.solve(a, force) - wanted) ** 2)


def _random(*shapes: tuple[int, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda rng: tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)


TASKS = {
    "logistic regression": Task(
        logistic_regression,
        logistic_regression_in_jax,
        lambda rng: (*_random((8,), (), (500, 8))(rng), rng.integers(0, 2, 500).astype(np.float32)),
        (0, 1),
    ),
    "perceptron": Task(
        perceptron,
        perceptron_in_jax,
        lambda rng: (*_random((32, 8), (32,), (5, 32), (5,), (200, 8))(rng), rng.integers(0, 5, 200)),
        (0, 1, 2, 3),
    ),
    "spline": Task(
        spline,
        spline_in_jax,
        lambda rng: (*_random((43,))(rng), rng.integers(0, 40, 500), *_random((500,), (500,))(rng)),
        (0,),
    ),
    "graph network": Task(
        graph_network,
        graph_network_in_jax,
        lambda rng: (*_random((8, 8), (100, 8))(rng), *rng.integers(0, 100, (2, 600))),
        (0, 1),
    ),
    "window attention": Task(
        window_attention, window_attention_in_jax, _random((128, 16), (128, 16), (128, 16)), (0, 1, 2)
    ),
    "heat inversion": Task(heat_inversion, heat_inversion_in_jax, _random((1000,), (1000,)), (0,)),
    "hidden Markov model": Task(
        hidden_markov,
        hidden_markov_in_jax,
        lambda rng: (*_random((16,), (16, 16), (16, 9))(rng), rng.integers(0, 9, 12)),
        (0, 1, 2),
    ),
    "Huber loss": Task(robust_regression, robust_regression_in_jax, _random((8,), (500, 8), (500,), ()), (0,)),
    "conv net with pooling": Task(
        conv_net, conv_net_in_jax, _random((3, 32, 32), (8, 3, 3, 3), (16, 8, 3, 3), (16,)), (1, 2, 3)
    ),
    "particles with a cut-off": Task(particles, particles_in_jax, _random((200, 3)), (0,)),
    "sparse regression": Task(
        sparse_regression,
        sparse_regression_in_jax,
        lambda rng: (
            *_random((300,), (400, 300))(rng),
            rng.random((400, 300)) < 0.02,
            *_random((400,))(rng),
            np.float32(0.1),
        ),
        (0,),
    ),
    "a solve inside a loss": Task(
        solve_inside,
        solve_inside_in_jax,
        lambda rng: (rng.uniform(1, 2, 41).astype(np.float32), *_random((40,), (40,))(rng)),
        (0, 1),
    ),
}


def lines(task: Task) -> int:
    """How many lines a task takes, without the `def` around it."""
    return sum(1 for line in inspect.getsource(task.ours).splitlines()[1:] if line.strip())


def compare(task: Task, seed: int = 0) -> float:
    """The largest error of value and gradients, relative to the largest element."""
    arguments = task.arguments(np.random.default_rng(seed))
    found = []
    for f in (task.ours(), task.theirs):
        value, gradients = jax.value_and_grad(f, task.wrt)(*arguments)
        found.append([value, *gradients])
    return max(float(np.max(np.abs(a - b)) / (1e-6 + np.max(np.abs(b)))) for a, b in zip(*found, strict=True))


def _seconds(f: Callable[..., Any], arguments: tuple[Any, ...]) -> list[float]:
    found = []
    for _ in range(15):
        begin = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        found.append(time.perf_counter() - begin)
    return found


def main() -> None:
    """Print a line for each task."""
    print(f"{'task':26}{'lines':>6}{'largest error':>16}{'our gradient':>15}{'time of jax.grad':>18}")
    for name, task in TASKS.items():
        arguments = task.arguments(np.random.default_rng(0))
        if name == "sparse regression":  # known when it is traced, so that what is not there is not looked at
            ours, theirs = _without(task.ours(), arguments), _without(task.theirs, arguments)
            numbers = (*arguments[:2], *arguments[3:])
        else:
            ours, theirs, numbers = task.ours(), task.theirs, arguments
        times = []
        for f in (jax.jit(jax.grad(ours, task.wrt)), jax.jit(jax.grad(theirs, task.wrt))):
            jax.block_until_ready(f(*numbers))
            times.append(sorted(_seconds(f, numbers))[7])
        print(
            f"{name:26}{lines(task):6}{compare(task):16.1e}{times[0] * 1e6:12.0f} us{times[0] / times[1]:11.2f} times"
        )


def _without(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda w, x, y, penalty: f(w, x, arguments[2], y, penalty)


if __name__ == "__main__":
    main()
