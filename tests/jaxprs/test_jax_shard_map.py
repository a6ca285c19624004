"""`tl.jax` around, inside of and beside `jax.shard_map`, on 8 devices, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import tensorlang as tl
from tensorlang.jaxprs.lint import lint
from tensorlang.measure.count import count

RNG = np.random.default_rng(0)
N = 48
W, A = jnp.asarray(RNG.normal(size=N), jnp.float32), jnp.asarray(RNG.normal(size=(8 * N, N)), jnp.float32)
X = jnp.tile(W, 8)
ALL = P()


def scaled(x: Any, a: Any) -> Any:
    return jnp.sum((jnp.diag(x) @ a) ** 2)


def on_mesh(f: Callable[..., Any], *specs: Any, out: Any = ALL, check: bool, axes: Any = ("d",), **more: Any) -> Any:
    sizes = (8,) if axes == ("d",) else (4, 2)
    mesh = jax.make_mesh(sizes, axes, axis_types=(AxisType.Auto,) * len(axes))
    return jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=out, check_vma=check, **more)


def total(x: Any) -> Any:
    return jax.lax.psum(x, "d")


def cases(check: bool) -> Iterator[tuple[str, int, Callable[..., Any], tuple[Any, ...]]]:
    """Functions with `shard_map`, the number of parts that are derived, and arguments."""

    def stacked(w: Any, a: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return jnp.tanh((jnp.diag(c) @ r).sum(1)), scaled(c, r)

        return total(jnp.sum(jax.lax.scan(step, w + 0 * a[0], jnp.stack([a, 2 * a]))[1]))

    def gathered(x: Any, a: Any) -> Any:
        return (jnp.diag(jax.lax.all_gather(x, "d", tiled=True)[:N]) @ a).sum(1)

    def turned(w: Any, a: Any) -> Any:
        other = jax.lax.ppermute(jnp.diag(w) @ a, "d", [(k, (k + 1) % 8) for k in range(8)])
        return total(scaled(w, other))

    def by_place(w: Any, a: Any) -> Any:
        k = jax.lax.axis_index("d")
        return total(scaled(w * k, a) * w[k])

    one = on_mesh(lambda w, a: total(scaled(w, a)), P(), P("d"), check=check)
    yield "cut arguments", 1, on_mesh(lambda x, a: total(scaled(x, a)), P("d"), P("d"), check=check), (X, A)
    yield "the same on all devices", 1, one, (W, A)
    yield "closed over", 1, lambda w, a: on_mesh(lambda b: total(scaled(w, b)), P("d"), check=check)(a), (W, A)
    yield "a scan in it", 1, on_mesh(stacked, P(), P("d"), check=check), (W, A)
    yield "in a scan", 1, lambda w, a: jax.lax.scan(lambda c, r: (c / 2, one(c, r)), w, jnp.stack([a, a]))[1][1], (W, A)
    mapped = on_mesh(gathered, P("d"), P("d"), out=P("d"), check=check)
    yield "arrays as results", 1, lambda x, a: jnp.sum(mapped(x, a) ** 2), (X, A)
    yield "numbers sent around", 1, on_mesh(turned, P(), P("d"), check=check), (W, A)
    yield "places of devices", 1, on_mesh(by_place, P(), P("d"), check=check), (W, A)
    partly = on_mesh(
        lambda w, a: total(scaled(w, a)), P(), P("d"), check=check, axes=("d", "e"), axis_names=frozenset("d")
    )
    yield "a part of the axes", 1, partly, (W, A[: 4 * N])


def same(got: Any, want: Any) -> None:
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3 * float(np.max(np.abs(w))))


def in_place(check: bool, cheaper: bool) -> None:
    """Assert that bodies of `shard_map` have derived parts, with JAX's gradients; with `cheaper`, also count the work
    of all cases."""
    for name, parts, f, arguments in cases(check):
        told = tl.jax.explain(f, *arguments)
        assert len(told.programs) == parts and "in the body of shard_map" in str(told), name
        theirs, ours = jax.jit(jax.value_and_grad(f, (0, 1))), tl.jax.value_and_grad(jax.jit(f), (0, 1))
        same(ours(*arguments), theirs(*arguments))
        if cheaper:
            before, after = (count(g, *arguments).operations for g in (theirs, jax.jit(ours)))
            assert after * (1.8 if name == "numbers sent around" else 10) < before, (name, before, after)
        else:
            break


def around(check: bool) -> None:
    """Assert that the gradient may be taken on each device, and be transformed in turn."""

    def wave(x: Any, a: Any) -> Any:
        return jnp.sin(scaled(x, a) / 1000)

    for specs, out in (((P("d"), P("d")), P("d")), ((P(), P("d")), P() if check else P("d"))):
        ours, theirs = (
            on_mesh(g(lambda w, a: total(wave(w, a))), *specs, out=out, check=check) for g in (tl.jax.grad, jax.grad)
        )
        same(ours(X if specs[0] else W, A), theirs(X if specs[0] else W, A))
    f = on_mesh(lambda w, a: total(wave(w, a)), P(), P("d"), check=check)
    same(jax.hessian(tl.jax.differentiable(f))(W, A), jax.hessian(f)(W, A))
    both = jnp.stack([W, 2 * W])
    same(jax.vmap(tl.jax.grad(f), (0, None))(both, A), jax.vmap(jax.grad(f), (0, None))(both, A))


def devices_are_told_apart() -> None:
    """Assert that two meshes with the same text are different meshes."""
    for devices in (jax.devices()[:4], jax.devices()[4:]):
        mesh = jax.sharding.Mesh(np.array(devices), ("d",))
        f = jax.shard_map(
            lambda x: scaled(x, x[:, None] * x), mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False
        )
        x = jax.device_put(X, jax.sharding.NamedSharding(mesh, P("d")))
        assert tl.jax.grad(f)(x).sharding.device_set == set(devices)


def linted() -> None:
    """Assert that the linter looks into bodies, too."""
    f = on_mesh(lambda w, a: total(jnp.cumsum(w)[0] + scaled(w, a)), P(), P("d"), check=True)
    (found,) = (report := lint(f, "n", "8*n n")).findings
    assert found.code == "TL001" and found.line is not None and "diag" in found.line.code
    assert [what.split(":")[1] for what in report.unknown] == [
        " in the body of shard_map, cumsum",
        " in the body of shard_map, psum_invariant",
    ]


CHECKS = {
    "a part of a body is derived": lambda: in_place(True, cheaper=False),
    "gradients on devices": lambda: around(True),
    "all bodies, checked": lambda: in_place(True, cheaper=True),
    "all bodies, unchecked": lambda: in_place(False, cheaper=True),
    "gradients on devices, unchecked": lambda: around(False),
    "devices": devices_are_told_apart,
    "the linter": linted,
}

QUICK = {"a part of a body is derived"}


@pytest.mark.parametrize("name", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CHECKS])
def test_on_devices(name: str) -> None:
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.jaxprs.test_jax_shard_map", name]
    run = subprocess.run(
        command, env={**environment, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.stdout == "done\n", run.stderr


if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
    print("done")
