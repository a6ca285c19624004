"""Triton's code in JAX's lowering for GPUs, on any machine; and compiled for Hopper where Triton is installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.pallas.triton import lowering

from benchmarks.kernels import lowered_for_gpu


@dataclass(frozen=True)
class TritonKernel:
    """A kernel's code, and how it is to be compiled."""

    name: str
    text: str
    warps: int
    stages: int


def triton_kernels(fn: Any, *arguments: Any) -> list[TritonKernel]:
    """The kernels that `fn` launches on a GPU for arguments of these shapes and dtypes."""
    module = lowered_for_gpu(fn, arguments).compiler_ir()
    return [_kernel(call) for call in _calls(module.operation)]


def _calls(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.custom_call":
                    yield inner.operation
                yield from _calls(inner.operation)


def _kernel(call: Any) -> TritonKernel:
    config = ir.DictAttr(call.attributes["mhlo.backend_config"])
    code = ir.StringAttr(config["ir"]).value_bytes
    with lowering._new_ir_context(), ir.Location.unknown():
        text = ir.Module.parse(code).operation.get_asm()
    numbers = [ir.IntegerAttr(config[key]).value for key in ("num_warps", "num_stages")]
    return TritonKernel(ir.StringAttr(config["name"]).value, text, *numbers)


@dataclass(frozen=True)
class Compiled:
    """The result of Triton's compiler: bytes of shared memory, bytes spilled by a thread, instructions."""

    shared: int
    spilled: int
    code: str


def compiled_for_hopper(triton: Any, kernel: TritonKernel, folder: Path) -> Compiled:
    """`kernel` compiled for compute capability 9.0 by the package `triton`."""
    from triton.backends.compiler import GPUTarget

    path = folder / f"{kernel.name}.ttir"
    path.write_text(kernel.text)
    options = {"num_warps": kernel.warps, "num_stages": kernel.stages}
    made = triton.compile(str(path), target=GPUTarget("cuda", 90, 32), options=options)
    binary = path.with_suffix(".cubin")
    binary.write_bytes(made.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    usage = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True, check=True).stdout
    found = re.search(r"STACK:(\d+)", usage)
    assert found is not None
    return Compiled(made.metadata.shared, int(found[1]), made.asm["ptx"])
