"""Programs on 8 devices, which are parts of a CPU, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.mesh_cases import CASES
from tests.support.mesh_partitioned import CASES as PARTITIONED


def on_devices(*command: str, count: int = 8) -> str:
    """The output of a Python command that sees `count` devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    ran = subprocess.run([sys.executable, *command], check=False, env=env, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.fixture(scope="module")
def ran() -> dict[str, Any]:
    """The outcome of each case."""
    lines = map(json.loads, on_devices("-m", "tests.support.mesh_cases").splitlines())
    return {line["name"]: line for line in lines}


def counted(sent: list[Any]) -> Counter[tuple[str, tuple[str, ...], int]]:
    return Counter((kind, tuple(along), size) for kind, along, size in sent)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_devices_together_compute_what_one_does(name: str, ran: dict[str, Any]) -> None:
    assert ran[name]["error"] < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_devices_send_what_the_indices_say(name: str, ran: dict[str, Any]) -> None:
    line = ran[name]
    assert Counter(kind for kind, *_ in line["required"]) == Counter(CASES[name].kinds)
    required, compiled = counted(line["required"]), counted(line["compiled"])
    assert required <= compiled
    # JAX gathers results that can't be cut into equal blocks
    further = (compiled - required).elements()
    assert not [kind for kind, *_ in further if line["even"] or kind != "all_gather"]


AS_THEY_ARE = """
import jax, jax.numpy as jnp, numpy as np, tensorlang as tl
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

loss = tl.parse("loss(x: [n][m]R, w: [m]R, y: [n]R) = sum i:n. (sin(sum j:m. x[i, j] * w[j]) - y[i])^2")
x, w, y = (np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((16, 8), (8,), (16,)))
alike = lambda a, b: jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-4), a, b)
auto = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
explicit = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
at = lambda mesh, *specs: [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip((x, w, y), specs)]
both = tl.value_and_grad(loss, ("x", "w"))
want = tl.evaluate(both, x, w, y)

one = tl.lower(both)  # knows of no mesh: XLA lays it out
given = at(auto, P("x"), P(), P("x"))
got = jax.jit(one)(*given)
alike(got, want)
alike(one(*given), want)
x_bar, w_bar = got[1]
assert x_bar.sharding.is_equivalent_to(given[0].sharding, 2) and w_bar.sharding.is_fully_replicated
assert "all-reduce" in jax.jit(one).lower(*given).compile().as_text()

for mesh in (auto, explicit):
    several = tl.lower(both, mesh=mesh, sharding={"n": "x", "m": "y"})
    for specs in ((P("x", "y"), P("y"), P("x")), (P(), P(), P()), (P("y", "x"), P("x"), P(("x", "y")))):
        for run in (several, jax.jit(several)):
            got = run(*at(auto, *specs))
            alike(got, want)
            assert several.out_specs == (P(), (P("x", "y"), P("y")))
            assert tuple(a.sharding.spec for a in got[1]) == several.out_specs[1]
with jax.set_mesh(explicit):
    got = several(*at(explicit, P("x", "y"), P("y"), P("x")))
    alike(got, want)
    assert jax.typeof(got[1][0]).sharding.spec == P("x", "y")

one, several = tl.lower(loss), tl.lower(loss, mesh=auto, sharding={"i": "x", "j": "y"})
alike(jax.grad(several, 1)(x, w, y), want[1][1])
ways = np.stack([w, 2 * w])
alike(jax.vmap(several, (None, 0, None))(x, ways, y), jax.vmap(one, (None, 0, None))(x, ways, y))

namespace = {}
exec(several.source, namespace)  # the source stands alone
alike(namespace["loss"](x, w, y, mesh=auto), want[0])
print("ok")
"""


@pytest.mark.slow
def test_lowered_programs_take_arrays_as_they_lie() -> None:
    assert on_devices("-c", AS_THEY_ARE) == "ok\n"


@pytest.mark.slow
def test_what_xla_partitions_is_what_one_device_computes() -> None:
    lines = {
        line["name"]: line for line in map(json.loads, on_devices("-m", "tests.support.mesh_partitioned").splitlines())
    }
    assert lines.keys() > PARTITIONED.keys()
    assert max(line["error"] for line in lines.values()) < 1e-5
    for name, case in PARTITIONED.items():
        if case.kinds:
            assert lines[name]["kinds"] == sorted(case.kinds), name
