"""The order of the axes of arrays in memory, where it isn't that of their program.

Arrays of short rows, of which single columns are read, with the columns one after the other:

    let y = gen i:n, a:3. x[i, a] - c[a] in  .. y[i, 0] * v[1] - y[i, 1] * v[0] ..
                ->  let y = gen a:3, i:n. x[i, a] - c[a] in  .. y[0, i] * v[1] - y[1, i] * v[0] ..

A column of an array that lies in memory row by row is read with strides: slower, and as much memory as the whole array.
The few diagonals of a band, sum d:3. y[i, d] * x[i + d], are such columns. Index arrays with a short last axis,
k[i, l], are assembled from their columns, too, and read by column.

Arrays of which greatest values are taken, and that are computed from arrays in the other order, in that order:

    let y = gen i:n, j:n. s[j] + A[j, i] in gen i:n. max j:n. y[i, j]
                ->  let y = gen j:n, i:n. s[j] + A[j, i] in gen i:n. max j:n. y[j, i]

Nothing is transposed, and greatest values of columns are found for many columns at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, is_long
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Let,
    Sum,
    Var,
    access,
    children,
    gen,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import Predicate, lookups, mapped
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import R, array, shape
from tensorlang.lowering.plan.dependence import places, reads, variable
from tensorlang.recursion import Deep, call, run

_SHORT = 8
"""Elements of a row that is short."""

_MANY = 2
"""Reads of single columns from which transposing pays."""

T = TypeVar("T")
Array = Var | IndexArray


def order_axes(f: Function) -> Function:
    """`f` with the last axis of an array moved to the front where it is short and read at single places, or where
    greatest values along it are taken and what it is computed from has it in front."""
    whole: set[Var] = set()
    columns: Counter[Var] = Counter()
    given, body = bindings(f.body)
    every = [*(value for _, value in given), body]
    for e in every:
        _note(e, whole, columns)
    others = {x for e in every for x in _read_otherwise(e)}
    new: dict[Array, Array] = {}
    for x, value in reversed(given):
        if isinstance(x, Var) and x not in others and _is_made_in_front(value, len(_sizes(x))):
            new[x] = Var(x.name, array(_last_first(_sizes(x)), R))
            continue
        if not _has_short_rows(x, value):
            continue
        if isinstance(x, IndexArray):
            new[x] = replace(x, sizes=_last_first(x.sizes))
        elif columns[x] >= _MANY and x not in whole:
            new[x] = Var(x.name, array(_last_first(shape(x.type)[0]), R))
            _note_rows(value, columns)
    return replace(f, body=run(_rewritten(f.body, new, {}))) if new else f


def _note(e: Expr, whole: set[Var], columns: Counter[Var]) -> None:
    """Add to `whole` the variables that are not read element by element, and count in `columns` the reads at a constant
    last place or along diagonals."""
    read = [(variable(part), places(part)) for part in reads(e)]
    mixed = {i for _, at in read for a in at if len(a.indices) > 1 for i in a.indices}
    for x, at in read:
        assert x is not None
        if len(at) < len(shape(x.type)[0]):
            whole.add(x)
        elif at and at[-1].is_constant:
            columns[x] += 1
        elif at and at[-1].indices and mixed.issuperset(at[-1].indices):
            columns[x] += _MANY


def _note_rows(e: Expr, columns: Counter[Var]) -> None:
    """Count as column reads those by which `e`, an array to be transposed, gets its rows from rows of other arrays."""
    rows = None
    while isinstance(e, Gen):
        rows, e = atom_affine(e.index), e.body
    for part in reads(e):
        x, at = variable(part), places(part)
        if x is not None and at and at[-1] is rows:
            columns[x] += _MANY


def _read_otherwise(e: Expr) -> Iterator[Var]:
    """The variables that `e` reads other than for extremal elements along their last axis."""
    binders = [part for part in expressions(e) if isinstance(part, Gen | Sum | Extremum | Choice)]
    chosen = {part.index for part in binders if isinstance(part, Extremum | Choice)}
    chosen -= {part.index for part in binders if isinstance(part, Gen | Sum)}
    for part in reads(e):
        x, at = variable(part), places(part)
        if x is not None and not (
            0 < len(at) == len(_sizes(x))
            and any(at[-1] is atom_affine(i) and not any(i in a.free for a in at[:-1]) for i in chosen)
        ):
            yield x


def _is_made_in_front(e: Expr, rank: int) -> bool:
    """Whether `e`, an array of that rank, is computed from arrays that have its last index in front of the others."""
    own: list[Index] = []
    while isinstance(e, Gen):
        own.append(e.index)
        e = e.body
    if rank < 2 or len(own) != rank:
        return False
    last = atom_affine(own[-1])
    both = [at for at in map(places, reads(e)) if last in at and any(i in a.free for a in at for i in own[:-1])]
    return bool(both) and all(at[0] is last for at in both)


def _sizes(x: Array) -> Sequence[Affine]:
    return x.sizes if isinstance(x, IndexArray) else shape(x.type)[0]


def _has_short_rows(x: Array, value: Expr) -> bool:
    sizes = _sizes(x)
    for _ in sizes:
        if not isinstance(value, Gen):
            return False
        value = value.body
    short = len(sizes) > 1 and sizes[-1].is_constant and sizes[-1].constant <= _SHORT
    return short and any(map(is_long, sizes))


def _last_first(parts: Sequence[T]) -> tuple[T, ...]:
    return (parts[-1], *parts[:-1])


def _rewritten(e: Expr, new: Mapping[Array, Array], memo: dict[Expr, Expr]) -> Deep[Expr]:
    if e not in memo:
        x = variable(e)
        y = None if x is None else new.get(x)
        if isinstance(y, Var):
            memo[e] = access(y, *_last_first([_turned_places(a, new) for a in places(e)]))
        elif isinstance(e, Let) and e.var in new:
            binders, element = [], e.value
            for _ in _sizes(e.var):
                assert isinstance(element, Gen)
                binders.append((element.index, element.size))
                element = element.body
            inner = yield from call(_rewritten(element, new, memo))
            body = yield from call(_rewritten(e.body, new, memo))
            memo[e] = Let(new[e.var], gen([binders[-1], *binders[:-1]], inner), body)
        else:
            parts = []
            for part in children(e):
                parts.append((yield from call(_rewritten(part, new, memo))))
            memo[e] = _reading(with_children(e, parts), new)
    return memo[e]


def _reading(e: Expr, new: Mapping[Array, Array]) -> Expr:
    """`e`, in whose own places and predicates the reads of transposed index arrays are adapted."""
    match e:
        case Access(a, at, place):
            return Access(a, _turned_places(at, new), place)
        case Bracket(p, a):
            return Bracket(_turned_condition(p, new), a)
        case Extremum(sign, i, n, p, a):
            return Extremum(sign, i, n, _turned_condition(p, new), a)
        case Choice(sign, i, n, p, a):
            return Choice(sign, i, n, _turned_condition(p, new), a)
        case _:
            return e


def _turned_condition(p: Predicate, new: Mapping[Array, Array]) -> Predicate:
    return mapped(p, lambda a: _turned_places(a, new)) if lookups(p) else p


def _turned_places(a: Affine, new: Mapping[Array, Array]) -> Affine:
    return a.substitute(_moved(a.lookups, new))


def _moved(found: Sequence[Lookup], new: Mapping[Array, Array]) -> dict[Atom, Affine]:
    """Replacements for the lookups in `found` once the index arrays in `new` are transposed."""
    moved: dict[Atom, Affine] = {}
    for x in found:
        at = tuple(_turned_places(a, new) for a in x.at)
        y = new.get(x.array)
        moved[x] = atom_affine(Lookup(y, _last_first(at)) if isinstance(y, IndexArray) else Lookup(x.array, at))
    return moved
