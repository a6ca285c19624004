"""Statements whose arrays XLA must store.

XLA's fusions on CPUs compute a cheap array again for each of its readers, and for each place at which a reader reads
it, and so again what that array is made of:

    let u1 = gen i. a*u[i - 1] + b*u[i] + a*u[i + 1] in
    let u2 = gen i. a*u1[i - 1] + b*u1[i] + a*u1[i + 1] in ..        each element of u1 three times, of u nine times

The model counts it once. So an array is stored where this saves enough arithmetic to pay for writing it to memory and
reading it again. Stored, too, are the results of slow functions that two loops read, if one of them reads all of them,
and arrays made of sums whose elements are read where data choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensorlang.language.affine import Affine, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Choice,
    Expr,
    Extremum,
    Gen,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.lets import bindings
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Equal, NonNegative, Predicate, conjuncts
from tensorlang.language.types import shape
from tensorlang.lowering.plan.dependence import accesses, places, reads, results, variable

_WORTH = 6
"""Operations for each element from which storing it pays: in one loop, at each further place or piece of it."""

_WORTH_IN_STEPS = 16
"""The same in a step of a recurrence: storing is one more call in each step, and caches hold its arrays anyway."""

_ALIKE = 16
"""How many times more operations it takes in separate loops: they cost little, as each reads the operands anyway."""

_SMALL = 256
"""The most elements of an array that is always computed again."""

_SLOW = {"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "cbrt", "lgamma", "digamma", "trigamma", "tetragamma"}
"""Functions that XLA's compiler for CPUs doesn't vectorise, but calls for each number."""

_SLOWLY = _WORTH * _ALIKE
"""The operations that take as long as one of these, so that storing its results pays where two loops read them."""

_MOST = 64
"""The most times that an array is computed, and operations for an element of it, that are counted."""

_TAPS = 8
"""The places at which a correlation, sum j. x[i + j] * w[j], or gen i, j. x[i + j], is assumed to read an element of x,
and the operations assumed for an element of it, or of a similar extremum: it may become shifted slices, and be fused.
"""

Time = tuple[object, ...]
"""One time that an array is computed: the stored array or the sum that it is computed for, and then the places where it
is read on the way there, unless these are simply its reader's own indices."""


@dataclass(frozen=True)
class _Element:
    """What is evaluated for each element of an array: its operations, whether one is a slow function, its sums and
    extrema, and its reads of variables."""

    operations: int
    slow: bool
    sums: tuple[Sum | Extremum, ...]
    reads: tuple[tuple[Expr, Var], ...]
    variables: frozenset[Var]


def materialized(f: Function, on_points: Collection[Var] = (), in_step: bool = False) -> frozenset[Var]:
    """The variables whose arrays are to be stored, not computed anew for each reader; `f` may be a recurrence's step.

    Variables in `on_points` are held at the points of a relation. Sums among them are stored, too: otherwise they
    would be fused with their readers.
    """
    worth = _WORTH_IN_STEPS if in_step else _WORTH
    given, body = bindings(f.body)
    statements = [(x, e) for x, e in given if isinstance(x, Var)]
    times: dict[Var, set[Time]] = {x: set() for x, _ in statements}
    apart = {x for _, e in given for x in _summed_apart(e)}
    elements = {x: _element(e) for x, e in statements}
    made_of_sums = _made_of_sums(statements, elements)
    for result in results(body):
        _note(result, {(result,)}, times, made_of_sums)
    work: dict[Var, int] = {}
    slow: set[Var] = set()
    for x, made_of in elements.items():
        work[x] = _work(made_of, work)
        if _is_slow(x, made_of, slow):
            slow.add(x)
    whole = {x for result in results(body) for x in _read_whole(result)}

    def saved(x: Var) -> float:
        return _saved(times[x], _SLOWLY if x in slow and x in whole else work[x], x in apart)

    found: set[Var] = set()
    for y, e in reversed(given):
        if isinstance(y, Var) and not _is_small(y) and saved(y) >= worth:
            found.add(y)
        if not isinstance(y, Var) or y in whole or y in found:
            whole.update(_read_whole(e))
        # places that are chosen are stored anyway
        _note(e, times[y] if isinstance(y, Var) and y not in found else {(y,)}, times, made_of_sums)
    # reading stored arrays takes less work than was counted above
    work.clear()
    slow.clear()
    for x, made_of in elements.items():
        work[x] = _work(made_of, work)
        if _is_slow(x, made_of, slow):
            slow.add(x)
        if saved(x) < worth:
            found.discard(x)
        if x in found:
            work[x] = 0
            slow.discard(x)
    sums = (x for x in elements if x in on_points and any(isinstance(part, Sum) for part in elements[x].sums))
    return frozenset(found.union(sums))


def _element(e: Expr) -> _Element:
    """What is evaluated for each element of `e`."""
    operations, slow = 0, False
    sums: list[Sum | Extremum] = []
    found: list[tuple[Expr, Var]] = []
    for part in _at_each_element(e):
        if isinstance(part, Add | Mul | Call):
            operations += 1
            slow = slow or (isinstance(part, Call) and part.function.name in _SLOW)
        elif isinstance(part, Sum | Extremum):
            operations += _TAPS if _is_correlation(part) else 0
            sums.append(part)
        elif (x := variable(part)) is not None:
            found.append((part, x))
    return _Element(operations, slow, tuple(sums), tuple(found), frozenset(x for _, x in found))


def _work(e: _Element, work: Mapping[Var, int]) -> int:
    """The operations for each element, where those of variables are `work`."""
    return min(_MOST, e.operations + sum([work.get(x, 0) for x in e.variables]))


def _is_slow(x: Var, e: _Element, slow: Collection[Var]) -> bool:
    """Whether each element of `x` takes a slow function, or is made of one that does."""
    return (e.slow or not e.variables.isdisjoint(slow)) and not _is_small(x)


def _read_whole(e: Expr) -> Iterator[Var]:
    """The variables that `e` reads at indices, and so all of them, not at places that are fixed or that data choose."""
    for read in reads(e):
        x = variable(read)
        if x is not None and all(a.indices and not a.lookups for a in places(read)):
            yield x


def _saved(times: set[Time], work: int, apart: bool) -> float:
    """The operations saved by storing an array that takes `work` at each of `times`, summed `apart` or not."""
    loops = len({time[0] for time in times})
    return work * (len(times) - loops + (loops - 1) / (1 if apart else _ALIKE))


def _made_of_sums(statements: Sequence[tuple[Var, Expr]], elements: Mapping[Var, _Element]) -> set[Var]:
    """The variables each element of which is made of a sum of its own, or of an element of another such variable."""
    found: set[Var] = set()
    for x, e in statements:
        parts = [*elements[x].sums, *(part for part, y in elements[x].reads if y in found)]
        own, inner = set(), e
        while parts and isinstance(inner, Gen):
            own.add(inner.index)
            inner = inner.body
        if any(own.issubset(free_names(part)) for part in parts):
            found.add(x)
    return found


def _summed_apart(e: Expr) -> Iterator[Var]:
    """The variables in `e` that are summed over axes that are not their last: those sums are products with ones, which
    XLA fuses with nothing else that reads the variable."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        summed = set()
        while isinstance(part, Sum | Bracket):
            if isinstance(part, Sum):
                summed.add(atom_affine(part.index))
            part = part.body
        x = variable(part)
        if x is not None and summed and (at := tuple(places(part))) and at[-1] not in summed and summed.issubset(at):
            yield x
        fresh = [child for child in children(part) if child not in seen]
        seen.update(fresh)
        stack += fresh


def _is_small(x: Var) -> bool:
    sizes, _ = shape(x.type)
    return all(n.is_constant for n in sizes) and prod(n.constant for n in sizes) <= _SMALL


def _at_each_element(e: Expr) -> Iterator[Expr]:
    """The expressions in `e` that are evaluated for each of its elements: readers of a sum are not fused with it."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, Sum | Extremum | Choice | Access | Proj):
            fresh = [child for child in children(part) if child not in seen]
            seen.update(fresh)
            stack += fresh


def _note(e: Expr, readers: set[Time], times: dict[Var, set[Time]], made_of_sums: Collection[Var]) -> None:
    """Add to `times` when `e`, computed at the times of its `readers`, computes the variables that it reads."""
    own = []
    while isinstance(e, Gen):
        own.append(atom_affine(e.index))
        e = e.body
    seen: set[tuple[Expr, Expr | None, Time]] = set()
    stack: list[tuple[Expr, Expr | None, Time]] = [(e, None, ())]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        part, reduced, within = item
        x = variable(part)
        if x is not None:
            at = tuple(places(part))
            step: Time = () if not within and at == tuple(own) else ((within, at),)
            if x in times and len(times[x]) < _MOST:
                times[x] |= {(*reader, *step) for reader in (readers if reduced is None else {(reduced,)})}
                if _is_mixed(at) or (x in made_of_sums and any(a.lookups for a in at)):
                    loops = readers if reduced is None else {(reduced,)}
                    times[x] |= {(*reader, *step, tap) for reader in loops for tap in range(_TAPS - 1)}
            continue
        if isinstance(part, Sum | Extremum | Choice):
            reduced, within = part, ()
        elif isinstance(part, Bracket) and _is_piece(part.pred):
            within = (*within, part.pred)
        stack += [(child, reduced, within) for child in children(part)]


def _is_mixed(at: Sequence[Affine]) -> bool:
    """Whether a place is a combination of indices: within a sum, that of a correlation."""
    return any(len(a.indices) > 1 and not a.lookups for a in at)


def _is_correlation(e: Sum | Extremum) -> bool:
    return any(_is_mixed(places(read)) for read in accesses(e.body))


def _is_piece(p: Predicate) -> bool:
    """Whether `p` confines something to part of an axis: such pieces are computed one by one."""
    values = (
        q.difference if isinstance(q, Equal) else q.value for q in conjuncts(p) if isinstance(q, Equal | NonNegative)
    )
    return any(len(a.indices) == 1 and not a.lookups for a in values)
