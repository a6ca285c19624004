"""The work of a compiled program, counted in XLA's optimised HLO.

XLA's own `cost_analysis` visits the body of a loop once, and doesn't know what its back ends fuse; here every
instruction that runs is counted, as often as it runs:

- an addition, multiplication or other scalar operation on floating-point numbers is 1 for each element of its result;
- so is a transcendental function, listed apart;
- a dot product is 2 for each point of its index space, like an `einsum`; so is a convolution, its padding included;
- a reduction is 1 for each element beyond the first, and so is a window, whose padding XLA skips;
- an element scattered onto another is 1;
- a Fourier transform of n complex numbers is 5 n log2 n, of real ones half of that;
- sorting n elements is n log2 n comparisons, listed apart;
- comparing, selecting, converting, copying, and arithmetic with indices are free;
- a loop is its body times the number of its trips; of several branches, the most expensive one counts.

An instruction that XLA writes into several fusions is counted in each of them, for the elements that it reads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import ceil, log2, prod
from typing import Any

import jax
import numpy as np

from tensorlang.errors import CountError
from tensorlang.measure.hlo import Instruction, Module, read_module

_ARITHMETIC = {
    "add": 1,
    "subtract": 1,
    "multiply": 1,
    "divide": 1,
    "remainder": 1,
    "negate": 1,
    "maximum": 1,
    "minimum": 1,
    "abs": 1,
    "sign": 1,
    "floor": 1,
    "ceil": 1,
    "round-nearest-afz": 1,
    "round-nearest-even": 1,
    "clamp": 2,
}
_TRANSCENDENTAL = {
    *("exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "erf"),
    *("sine", "cosine", "tan", "asin", "acos", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("sqrt", "rsqrt", "cbrt", "power"),
}
_COMPLEX = {"add": 2, "subtract": 2, "negate": 2, "multiply": 6, "divide": 11}
_UNCOUNTED = {"cholesky", "triangular-solve", "custom-call"}
_WITHOUT_TRAFFIC = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"),
    *("while", "call", "conditional"),
}
_SPREADING = {"broadcast", "pad", "concatenate"}
_PARTIAL = {"slice", "dynamic-slice", "gather"}
_TRACED = np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct | float | int | bool
_HLO_ONLY: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}
"""Options that avoid spending time on machine code, which nobody runs."""
_FREE_CALLS = {'"TopK"', '"AllocateBuffer"', '"SliceToDynamic"', '"PadToStatic"'}


@dataclass(frozen=True)
class Count:
    """The work of one run: operations, bytes that its instructions read and write, and bytes of memory that it holds.

    `arithmetic` and `transcendental` count scalar operations, `comparisons` those of sorts, and `copied` the numbers
    that are copied unchanged, such as the state of a loop that a step both reads and writes. `traffic` is the memory
    that instructions outside of fusions read and write, ignoring caches. `temporaries`, `inputs` and `outputs` are
    bytes of memory, with the temporaries held at once.

    >>> from tensorlang.measure.count import count
    >>> found = count(lambda A, x: A @ x, np.ones((3, 4), np.float32), np.ones(4, np.float32))
    >>> found.operations, found.outputs
    (24, 12)
    """

    arithmetic: int = 0
    transcendental: int = 0
    comparisons: int = 0
    traffic: int = 0
    temporaries: int = 0
    inputs: int = 0
    outputs: int = 0
    copied: int = 0

    @property
    def operations(self) -> int:
        """Arithmetic and transcendental operations together: what the cost model counts."""
        return self.arithmetic + self.transcendental


def count(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Count:
    """The work of `fn` when it is compiled for these arguments; arrays may be given as `jax.ShapeDtypeStruct`s.

    Arguments that JAX can't trace, such as sparse matrices, are given to `fn` as they are. Raises `CountError` for a
    program with an instruction, or a loop, whose operations can't be told.

    >>> from tensorlang.measure.count import count
    >>> count(lambda x: x * x + 1, np.ones(10, np.float32)).arithmetic
    20
    """
    leaves, tree = jax.tree.flatten((args, kwargs))
    traced = [isinstance(x, _TRACED) for x in leaves]

    def flat(*given: Any) -> Any:
        arrays = iter(given)
        some, named = jax.tree.unflatten(tree, [next(arrays) if t else x for t, x in zip(traced, leaves, strict=True)])
        return fn(*some, **named)

    arrays = [x for t, x in zip(traced, leaves, strict=True) if t]
    return count_compiled(jax.jit(flat).lower(*arrays).compile(_HLO_ONLY if jax.default_backend() == "cpu" else None))


def count_compiled(compiled: jax.stages.Compiled) -> Count:
    """The work of an ahead-of-time compiled program: `jax.jit(fn).lower(...).compile()`. Raises `CountError`.

    >>> import jax
    >>> from tensorlang.measure.count import count_compiled
    >>> count_compiled(jax.jit(lambda x: x + 1).lower(np.ones(10, np.float32)).compile()).arithmetic
    10
    """
    work = _Counter(read_module(compiled.as_text() or "")).entry()
    memory: Any = compiled.memory_analysis()
    return Count(
        work.arithmetic,
        work.transcendental,
        work.comparisons,
        work.traffic,
        memory.temp_size_in_bytes,
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        work.copied,
    )


@dataclass(frozen=True)
class _Work:
    arithmetic: int = 0
    transcendental: int = 0
    comparisons: int = 0
    copied: int = 0
    traffic: int = 0

    def __add__(self, other: _Work) -> _Work:
        return _Work(
            self.arithmetic + other.arithmetic,
            self.transcendental + other.transcendental,
            self.comparisons + other.comparisons,
            self.copied + other.copied,
            self.traffic + other.traffic,
        )

    def times(self, k: int) -> _Work:
        return _Work(
            k * self.arithmetic, k * self.transcendental, k * self.comparisons, k * self.copied, k * self.traffic
        )

    def share(self, part: int, whole: int) -> _Work:
        """The work of `part` elements of `whole`."""
        if part >= whole:
            return self
        return _Work(self.arithmetic * part // whole, self.transcendental * part // whole)

    @property
    def operations(self) -> int:
        return self.arithmetic + self.transcendental


_NOTHING = _Work()


class _Counter:
    """The work of the computations of a module, each found once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[str, _Work] = {}

    def entry(self) -> _Work:
        return self._computation(self._module.entry)

    def _computation(self, name: str) -> _Work:
        """The work of all instructions. Computations call one another as deeply as loops are nested."""
        if name not in self._found:
            body = self._module.computations[name]
            self._found[name] = reduce(
                _Work.__add__, (self._instruction(i, body) + self._traffic(i, body) for i in body.values()), _NOTHING
            )
        return self._found[name]

    def _fused(self, body: dict[str, Instruction]) -> _Work:
        """The work of a fusion, in which only the elements that are read are computed."""
        asked = _asked(body)
        parts = [self._instruction(i, body).share(asked[i.name], i.elements) for i in body.values()]
        return reduce(_Work.__add__, parts, _NOTHING)

    def _instruction(self, i: Instruction, body: dict[str, Instruction]) -> _Work:
        match i.opcode:
            case "fusion":
                return self._fused(self._module.computations[i.called("calls")[0]])
            case "call" | "async-start":
                inner = [self._computation(c) for c in i.called("calls") + i.called("to_apply")]
                return reduce(_Work.__add__, inner, _NOTHING)
            case "while":
                turn = [self._computation(c) for c in i.called("body") + i.called("condition")]
                return reduce(_Work.__add__, turn, _NOTHING).times(self._turns(i))
            case "conditional":
                names = [
                    c for a in ("branch_computations", "true_computation", "false_computation") for c in i.called(a)
                ]
                return max((self._computation(c) for c in names), key=lambda w: (w.operations, w.traffic))
            case "copy":
                return _Work(copied=i.elements)
            case "dot":
                left = body[i.operands[0]].shapes[0]
                summed = prod(left.dims[d] for d in i.numbers("lhs_contracting_dims"))
                return _Work((8 if i.shapes[0].is_complex else 2) * i.elements * summed)
            case "convolution":
                kernel = body[i.operands[1]].shapes[0]
                labels = (i.word("dim_labels") or "").split("->")[0].split("_")[-1]
                return _Work(2 * i.elements * kernel.elements // max(kernel.dims[labels.index("o")], 1))
            case "fft":
                n = prod(i.numbers("fft_length"))
                real = not all(s.is_complex for s in (i.shapes[0], body[i.operands[0]].shapes[0]))
                longest = max(i.shapes[0].elements, body[i.operands[0]].elements) if real else i.elements
                return _Work(ceil((2.5 if real else 5) * longest * log2(max(n, 2))))
            case "sort":
                along = i.shapes[0].dims[i.numbers("dimensions")[0]]
                return _Work(comparisons=i.elements * ceil(log2(max(along, 2))))
            case "reduce":
                return self._combined(i, body, max(body[i.operands[0]].elements - i.elements, 0))
            case "reduce-window":
                return self._combined(i, body, max(_points(i, body[i.operands[0]]) - i.elements, 0))
            case "scatter" | "select-and-scatter":
                updates = body[i.operands[-1]].elements if i.opcode == "scatter" else body[i.operands[1]].elements
                compared = updates * prod(i.window("size")) if i.opcode == "select-and-scatter" else 0
                return self._combined(i, body, updates) + _Work(compared)
            case "map":
                return self._combined(i, body, i.elements)
            case _ if i.opcode in _UNCOUNTED and i.word("custom_call_target") not in _FREE_CALLS:
                raise CountError(f"the operations of {i.opcode} {i.word('custom_call_target') or ''} aren't known")
            case _:
                return _elementwise(i)

    def _combined(self, i: Instruction, body: dict[str, Instruction], times: int) -> _Work:
        """`times` applications of the function with which `i` combines elements: at least one operation for numbers."""
        combine = _without_traffic(reduce(_Work.__add__, map(self._computation, self._combines(i)), _NOTHING))
        is_choice = i.opcode.startswith("reduce") and body[i.operands[0]].shapes[0].is_real and not combine.operations
        return (_Work(1) if is_choice else combine).times(times)

    @staticmethod
    def _combines(i: Instruction) -> tuple[str, ...]:
        return i.called("scatter") if i.opcode == "select-and-scatter" else i.called("to_apply")

    def _turns(self, i: Instruction) -> int:
        known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', i.attributes)
        if known is None:
            raise CountError(f"how often the loop {i.name} runs isn't known before it runs")
        return int(known[1])

    def _traffic(self, i: Instruction, body: dict[str, Instruction]) -> _Work:
        if i.opcode in _WITHOUT_TRAFFIC:
            return _NOTHING
        if i.opcode == "fusion":
            return _Work(traffic=self._fused_traffic(i))
        if i.opcode in _PARTIAL:
            return _Work(traffic=2 * i.bytes)
        if i.opcode == "dynamic-update-slice":
            return _Work(traffic=2 * body[i.operands[1]].bytes)
        return _Work(traffic=i.bytes + sum(body[o].bytes for o in i.operands))

    def _fused_traffic(self, i: Instruction) -> int:
        """The bytes that a fusion reads of its operands, perhaps only slices, and writes, perhaps in place."""
        inner = self._module.computations[i.called("calls")[0]]
        users: dict[str, list[Instruction]] = {}
        for user in inner.values():
            for operand in user.operands:
                users.setdefault(operand, []).append(user)
        traffic = 0
        for parameter in inner.values():
            if parameter.opcode == "parameter":
                readers = _through_bitcasts(parameter, users)
                parts = [_part_read(r, parameter, inner) for r in readers]
                traffic += min(parameter.bytes, sum(parameter.bytes if p is None else p for p in parts))
        root = next(x for x in inner.values() if x.is_root)
        while root.opcode == "bitcast":
            root = inner[root.operands[0]]
        return traffic + (inner[root.operands[1]].bytes if root.opcode == "dynamic-update-slice" else i.bytes)


def _asked(body: dict[str, Instruction]) -> dict[str, int]:
    """The number of elements of each instruction of a fusion that are computed: none twice, and no more than are read.

    An instruction with as many elements as its operand reads the elements of that at the places of its own, and all
    such instructions read the same ones.
    """
    read: dict[str, list[int]] = {name: [0, 0] for name in body}
    asked: dict[str, int] = {}
    for i in reversed(body.values()):
        in_place, elsewhere = read[i.name]
        asked[i.name] = i.elements if i.is_root else min(i.elements, in_place + elsewhere)
        for operand in dict.fromkeys(i.operands):
            whole = body[operand].elements
            places = read[operand]
            if i.opcode in _PARTIAL:
                places[1] += asked[i.name]
            elif whole == i.elements:
                places[0] = max(places[0], asked[i.name])
            elif i.opcode in _SPREADING:
                places[1] += min(whole, asked[i.name])
            else:
                places[1] += whole
    return asked


def _through_bitcasts(i: Instruction, users: dict[str, list[Instruction]]) -> list[Instruction]:
    found, pending = [], [*users.get(i.name, ())]
    while pending:
        user = pending.pop()
        if user.opcode == "bitcast":
            pending += users.get(user.name, ())
        else:
            found.append(user)
    return found


def _part_read(reader: Instruction, parameter: Instruction, inner: dict[str, Instruction]) -> int | None:
    """The bytes that `reader` reads of `parameter`; None if it reads all."""
    first = inner[reader.operands[0]]
    while first.opcode == "bitcast":
        first = inner[first.operands[0]]
    if first is not parameter:
        return None
    if reader.opcode in _PARTIAL:
        return reader.bytes
    return 0 if reader.opcode == "dynamic-update-slice" else None


def _points(i: Instruction, operand: Instruction) -> int:
    """The number of pairs of a place of the result and an element in its window, not counting padding."""
    extents = i.window("size")
    ones = (1,) * len(extents)
    steps = i.window("stride") or ones
    spread, apart = i.window("rhs_dilate") or ones, i.window("lhs_dilate") or ones
    found = 1
    for d, extent in enumerate(extents):
        starts = np.arange(i.shapes[0].dims[d]) * steps[d] - i.padding(d)
        last = (operand.shapes[0].dims[d] - 1) * apart[d]
        places = [starts + k * spread[d] for k in range(extent)]
        found *= sum(int(np.sum((p >= 0) & (p <= last) & (p % apart[d] == 0))) for p in places)
    return found


def _elementwise(i: Instruction) -> _Work:
    if not i.shapes or not i.shapes[0].is_real:
        return _NOTHING
    if i.opcode in _TRANSCENDENTAL:
        return _Work(transcendental=i.elements)
    weight = _COMPLEX.get(i.opcode, 0) if i.shapes[0].is_complex else _ARITHMETIC.get(i.opcode, 0)
    return _Work(i.elements * weight)


def _without_traffic(work: _Work) -> _Work:
    return _Work(work.arithmetic, work.transcendental, work.comparisons)
