"""The beginning of every generated function: parameters as arrays of one dtype, and sizes that shapes determine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Var
from tensorlang.language.types import Pair, Type, shape, struct_of_arrays
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Length, Name, Node, Tuple
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.sizes import Axis, infer_sizes
from tensorlang.lowering.arrays.values import INT32, apply, cast
from tensorlang.lowering.plan.dependence import Key
from tensorlang.recursion import Deep, call

_LONG = 100


@dataclass(frozen=True)
class Signature:
    """The names of a function's `parameters`, in order, of the arrays in them, which have these `shapes`, and of the
    sizes `told` that no shape determines."""

    parameters: dict[Parameter, str]
    arrays: dict[Key, str]
    shapes: dict[Key, tuple[Affine, ...]]
    told: dict[Size, str]


def signature(
    f: Function, integers: StaticIntegers, body: Block, apart: Collection[Parameter] = (), single: bool = False
) -> Signature:
    """Name the parameters of `f` and their arrays, bring numbers to one dtype, and read sizes off the shapes.

    Parameters that are `apart` are only named. If `single`, the dtype is one that kernels compute with.
    """
    names = integers.names
    parameters = {p: names.fresh_global(p.name) for p in f.params}
    arrays: dict[Key, str] = {}
    shapes: dict[Key, tuple[Affine, ...]] = {}
    for p in f.params:
        if p not in apart:
            for key, name, shapes[key] in _take_apart(p, parameters[p], integers, body):
                arrays[key] = name
    numbers = [name for (p, _), name in arrays.items() if isinstance(p, Var)]
    dtype = apply("result_type", Name("float"), *map(Name, numbers))
    body.assign("dtype", apply("_single", dtype) if single else dtype)
    for name in numbers:
        body.assign(name, cast(Name(name)))
    for (p, _), name in arrays.items():
        if not isinstance(p, Var):
            body.assign(name, cast(Name(name), INT32 if isinstance(p, IndexArray) else Name("bool")))
    for size in f.sizes:
        integers.spelled[size] = names.fresh_global(size.name)
    axes = [Axis(n, Length(Name(name), k)) for key, name in arrays.items() for k, n in enumerate(shapes[key])]
    known = infer_sizes(axes, lambda s: integers.spelled[s])
    for size, value in known.items():
        body.assign(integers.spelled[size], value)
    integers.nonnegative += dict.fromkeys(a.size for a in axes if len(a.size.terms) > 1)
    integers.nonnegative += dict.fromkeys(a.size for a in axes if len(a.size.terms) == 1 and a.size.constant < 0)
    return Signature(parameters, arrays, shapes, {s: integers.spelled[s] for s in f.sizes if s not in known})


def _take_apart(
    p: Parameter, name: str, integers: StaticIntegers, body: Block
) -> Iterator[tuple[Key, str, tuple[Affine, ...]]]:
    """The arrays of a parameter from left to right: the projections that lead to each, its name and shape."""
    if not isinstance(p, Var):
        yield (p, ()), name, p.sizes
        return
    stack: list[tuple[tuple[int, ...], str, Type]] = [((), name, struct_of_arrays(p.type))]
    while stack:
        path, here, kind = stack.pop()
        if isinstance(kind, Pair):
            first, second = (integers.names.fresh_global(f"{here}_{k}") for k in range(2))
            body.unpack((first, second), Name(here))
            stack += [((*path, 1), second, kind.second), ((*path, 0), first, kind.first)]
        else:
            yield (p, path), here, shape(kind)[0]


def result_of(tree: Any, names: Names, body: Block, width: Callable[[Node], int]) -> Deep[Node]:
    """A tuple of the names in `tree`; a deep one is put together in steps."""
    if isinstance(tree, str):
        return Name(tree)
    parts = []
    for part in tree:
        parts.append((yield from call(result_of(part, names, body, width))))
    made = Tuple(tuple(parts))
    if width(made) < _LONG:
        return made
    name = names.fresh_global("results")
    body.assign(name, made)
    return Name(name)
