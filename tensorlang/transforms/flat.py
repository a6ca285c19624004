"""Flat programs: parameters that are arrays, statements in a row, results that are arrays.

    let x0 = e0 in let x1 = e1 in ... (r0, (r1, ...))

JAX knows only arrays, so a pair among the parameters becomes an array for each of its parts. The transformations only
select statements of a program and put others around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine
from tensorlang.language.function import Function, Parameter, taken_names, unused_name
from tensorlang.language.grammar import Const, Expr, Gen, MakePair, Var, access, gen
from tensorlang.language.lets import bindings, under
from tensorlang.language.names import free_names
from tensorlang.language.types import Pair, R, Type, array, leaves, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.simplification import recalled, simplify

Statement = tuple[Var | IndexArray, Expr]
"""let x = e."""


@dataclass(frozen=True)
class Parts:
    """A flat program taken apart: its statements in order, and its results."""

    statements: tuple[Statement, ...]
    results: tuple[Expr, ...]


@recalled
def flat(f: Function) -> Function:
    """`f`, simplified, with a parameter for each array that it takes, also for the parts of pairs."""
    params: list[Parameter] = []
    pairs: list[Statement] = []
    taken = taken_names(f)
    for p in f.params:
        if not isinstance(p, Var) or shape(p.type)[1] is R:
            params.append(p)
            continue
        parts = []
        for k, (_, kind) in enumerate(leaves(p.type)):
            parts.append(Var(unused_name(f"{p.name}_{k}", taken), kind))
            taken.add(parts[-1].name)
        params += parts
        pairs.append((p, run(_paired(p.type, iter(parts), ()))))
    return simplify(Function(f.name, tuple(params), under(pairs, f.body)))


def _paired(kind: Type, parts: Iterator[Var], outer: tuple[Affine, ...]) -> Deep[Expr]:
    """The value of type `kind` made of `parts`, arrays with further leading axes that are read at `outer`."""
    sizes, element = shape(kind)
    if not isinstance(element, Pair):
        return access(next(parts), *outer)
    binders = [(Index("i"), size) for size in sizes]
    at = (*outer, *(atom_affine(i) for i, _ in binders))
    first: Expr = yield from call(_paired(element.first, parts, at))
    second: Expr = yield from call(_paired(element.second, parts, at))
    return gen(binders, MakePair(first, second))


def taken_apart(f: Function) -> Parts:
    """The statements and results of a flat program."""
    statements, body = bindings(f.body)
    results: list[Expr] = []
    stack: list[Expr] = [body]
    while stack:
        e = stack.pop()
        if isinstance(e, MakePair):
            stack += [e.second, e.first]
        else:
            results.append(e)
    return Parts(tuple(statements), tuple(results))


def put_together(name: str, params: Iterable[Parameter], parts: Parts) -> Function:
    """The flat program of these parts, with only the statements on which the results depend."""
    needed = set(reads(parts.results))
    kept: list[Statement] = []
    for x, value in reversed(parts.statements):
        if x in needed:
            kept.append((x, value))
            needed |= reads([value])
    return Function(name, tuple(params), under(kept[::-1], paired(parts.results)))


def paired(results: Sequence[Expr]) -> Expr:
    """The results as pairs nested to the right."""
    body: Expr = results[-1]
    for e in reversed(results[:-1]):
        body = MakePair(e, body)
    return body


def reads(expressions: Iterable[Expr]) -> set[Any]:
    """The variables, relations and index arrays, and the sizes, that occur in the expressions."""
    found: set[Any] = set()
    for e in expressions:
        found.update(free_names(e))
    return found


def is_zero(e: Expr) -> bool:
    """Whether `e` is written as an array of zeros."""
    while isinstance(e, Gen):
        e = e.body
    return isinstance(e, Const) and e.value == 0


def result_shapes(f: Function) -> list[tuple[Affine, ...]]:
    """The shapes of the results of a flat program."""
    return [shape(kind)[0] for _, kind in leaves(f.type)]


def like(names: Iterable[str], shapes: Iterable[tuple[Affine, ...]], taken: set[str]) -> tuple[Var, ...]:
    """New variables of these shapes, called `names` or similar; their names are added to those `taken`."""
    made = []
    for name, sizes in zip(names, shapes, strict=True):
        made.append(Var(unused_name(name, taken), array(sizes, R)))
        taken.add(made[-1].name)
    return tuple(made)
