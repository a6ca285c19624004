"""Kernels compiled by the real compiler for TPUs, on a machine without a TPU; the memory that they use."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from tests.kernels.test_pallas import CASES, DERIVED, alone, lowered, named, shapes

pytest.importorskip("libtpu", reason="the compiler for TPUs comes with the extra tpu")

SIZES: dict[str, dict[str, int]] = {
    "matrix product": {"n": 1100, "m": 1024, "p": 700},
    "triangle times matrix": {"n": 1100, "p": 512},
    "band times matrix": {"n": 1100, "p": 512},
    "causal attention": {"h": 2, "n": 1100, "d": 128},
    "sliding-window attention": {"h": 2, "n": 2048, "d": 64},
    "logsumexp": {"n": 1000, "m": 32768},
    "softmax cross-entropy": {"n": 1000, "m": 32768},
    "layer norm": {"n": 1000, "m": 4096},
    "HM-LSTM cell": {"n": 1024},
    "block-sparse product": {"n": 16, "m": 16, "p": 512},
    "segment sums": {"n": 1024, "m": 2048, "d": 128},
    "2-D convolution": {"n": 32, "m": 32, "h": 3, "w": 3, "c": 128, "o": 256},
}

SCOPED = re.compile(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"\d+","size":"(\d+)"\}\]')
"""The bytes of VMEM that a kernel takes, as reported by the compiler."""
VMEM = 2**24
"""The bytes of VMEM that a kernel may take on the chip that allows least, unless it asks for more; ours don't."""

CHIPS = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2"}


@pytest.fixture(autouse=True)
def several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several processes load the compiler, since no device is opened."""
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")


def compiled(name: str, what: str, chip: str, kind: Any) -> Any:
    """The program compiled for a chip."""
    device = SingleDeviceSharding(topologies.get_topology_desc(CHIPS[chip], "tpu").devices[0])
    case = named(name)
    f = DERIVED[what](case)
    given = []
    for x in shapes(case, SIZES[name], what):
        wanted = kind if x.dtype == np.float32 else x.dtype
        given.append(jax.ShapeDtypeStruct(x.shape, wanted, sharding=device))
    return jax.jit(alone(lowered(f))[f.name]).lower(*given).compile()


def check(name: str, what: str, chip: str, kind: Any) -> None:
    """Assert that the program compiles to kernels, and that none takes more VMEM than there is."""
    text = compiled(name, what, chip, kind).as_text()
    kernels = [line for line in text.splitlines() if 'custom_call_target="tpu_custom_call"' in line]
    taken = [int(size) for line in kernels for size in SCOPED.findall(line)]
    assert kernels
    assert len(taken) == len(kernels)
    assert all(0 < size <= VMEM for size in taken), taken


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
@pytest.mark.parametrize(("name", "what"), [("causal attention", "adjoint"), ("2-D convolution", "adjoint")])
def test_kernels_compile_for_tpus(name: str, what: str, chip: str) -> None:
    check(name, what, chip, jax.numpy.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize(("chip", "kind"), [("v5e", jax.numpy.bfloat16), ("v6e", np.float32)])
@pytest.mark.parametrize(("name", "what"), CASES)
def test_every_kernel_compiles_for_tpus(name: str, what: str, chip: str, kind: Any) -> None:
    check(name, what, chip, kind)


TURNED = pytest.mark.xfail(strict=True, reason="the compiler for v4 can't turn a column of a register into a row")
OLDER = [
    pytest.param(name, what, chip, marks=[TURNED] if (chip, what) == ("v4", "adjoint") and "attention" in name else [])
    for name, what in CASES
    for chip in ("v4", "v5p")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what", "chip"), OLDER)
def test_every_kernel_compiles_for_older_tpus(name: str, what: str, chip: str) -> None:
    check(name, what, chip, np.float32)
