"""States of which a step changes a few places: these are written, and the rest of the array stays what it is.

    gen i, j. s[i, j] + [i = k[t]] * e[j]                  s, with row k[t] of that put into it
    gen i. [i != k[t]] * s[i] + [i = k[t]] * e             s, with e put at the place k[t]
    gen i. s[i] + [k[t] <= i < k[t] + 3] * e[i - k[t]]     s, with three elements of that put into it
    gen i. s[i] + sum q. [i = k[t, q]] * e[q]              s, with e added at all places k[t, q]

XLA writes into an array that a loop carries, if nothing reads it afterwards. So such a step takes as long as what it
changes, which is what the model counts, and not as long as the whole state. `write_last` makes sure that all is read
before.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.grammar import Access, Add, Bracket, Expr, Sum, bracket, sums
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    lookups,
    substitute,
)
from tensorlang.lowering.arrays.accesses import EVERY, positions
from tensorlang.lowering.arrays.brackets import bounded_index, solved
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import (
    ADD_TO_ALL,
    IN_PLACE,
    PUT_IN,
    ArrayOperation,
    Assign,
    Block,
    Define,
    Name,
    Node,
    Statement,
    names_in,
)
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.undecided import exclude_one_another, has_elements, undecided_conditions
from tensorlang.lowering.arrays.values import Axes, Value, apply, negated
from tensorlang.lowering.plan.dependence import Key, read_by
from tensorlang.lowering.plan.short_windows import WIDEST
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call
from tensorlang.sets.solve import simplify_in

_MOST = 8
"""The most terms of a sum that is tried."""


@dataclass(frozen=True, eq=False)
class _Term:
    """sign * sum s... [the conjunction of `parts`] * body."""

    sign: int
    summed: Mapping[Index, Affine]
    parts: tuple[Predicate, ...]
    body: Expr


@dataclass(frozen=True, eq=False)
class _Places:
    """The values of some axes, `pins`, at the points of the axes `along`, among which are `windows` of these widths."""

    pins: Mapping[Index, Affine]
    along: Axes
    windows: Mapping[Index, Affine]


def updated(ctx: Context, scope: Scope, e: Expr, states: Collection[Key]) -> Deep[Value | None]:
    """The array of `e`, if it is one of the `states` that changes at some places: new values are written there."""
    terms = _terms(scope, e)
    bases = [t for t in terms if _is_state(ctx, scope, t, states) and None in _alternatives(ctx, scope, t.parts)]
    state = {term.body for term in bases}
    kept = [conjunction(undecided_conditions(ctx, scope, term.parts)) for term in bases]
    if len(state) != 1 or not exclude_one_another(ctx, scope, kept):
        return None
    others = [term for term in terms if term not in bases]
    where = _stays(scope, disjunction(kept))
    found = [_places(ctx, scope, _kept_from(scope, q)) for q in conjuncts(where)]
    found += [at for term in others for at in _alternatives(ctx, scope, term.parts, term.summed)]
    places = {tuple(at.pins.items()): at for at in found if at is not None}
    if not places or None in found:
        return None
    node: Node = Name(ctx.held_by(state.pop())[0].name)
    if any(s in at.along for at in places.values() for term in others for s in term.summed):
        (term, *more), (at, *_) = others, places.values()
        if more or where is not TRUE:
            return None
        inner = _scope(ctx, scope, at, term.summed)
        own = bracket(conjunction(term.parts), term.body)
        rest = [(s, n) for s, n in term.summed.items() if s not in at.along]
        v: Value = yield from call(ctx.value(sums(rest, own), inner))
        v = negated(v) if term.sign < 0 else v
        return Value(_written(ctx, scope, inner, ADD_TO_ALL, node, at, v), scope.order, 1)
    for at in places.values():
        inner = _scope(ctx, scope, at, {})
        v = yield from call(ctx.value(e, inner))
        node = _written(ctx, scope, inner, PUT_IN, node, at, v)
    return Value(node, scope.order, 1)


def _terms(scope: Scope, e: Expr) -> list[_Term]:
    """The terms of `e`; none if there are too many."""
    found: list[_Term] = []
    stack = [_Term(1, {}, (), e)]
    while stack:
        term = stack.pop()
        match term.body:
            case Add(a, b, sign) if not term.summed:
                stack += [replace(term, sign=term.sign * sign, body=b), replace(term, body=a)]
            case Bracket(p, a):
                stack.append(replace(term, parts=(*term.parts, *conjuncts(substitute(p, scope.env))), body=a))
            case Sum(s, n, a):
                stack.append(replace(term, summed={**term.summed, s: n}, body=a))
            case _:
                found.append(term)
        if len(found) + len(stack) > _MOST:
            return []
    return found


def _is_state(ctx: Context, scope: Scope, term: _Term, states: Collection[Key]) -> bool:
    """Whether it is a state, each of whose elements stays in its place."""
    if term.sign < 0 or term.summed or not isinstance(term.body, Access):
        return False
    key, at = read_by(term.body)
    if key not in states or ctx.held[key].points is not None or ctx.held[key].cut is not None:
        return False
    ranges = tuple(Range(ZERO, n) for n in ctx.held[key].shape)
    return at == tuple(map(atom_affine, scope.domain)) and tuple(scope.domain.values()) == ranges


def _stays(scope: Scope, p: Predicate) -> Predicate:
    """Where `p` holds, as a conjunction of disjunctions."""
    sizes = {i: r.stop for i, r in scope.domain.items()}
    found: list[Predicate] = []
    waiting = [simplify_in(p, sizes)]
    while waiting:
        q = waiting.pop()
        parts = [conjuncts(part) for part in q.parts] if isinstance(q, Or) else [(q,)]
        if not isinstance(q, Or):
            new = list(conjuncts(q))
        elif 1 < math.prod(map(len, parts)) <= _MOST:
            new = [simplify_in(disjunction(some), sizes) for some in itertools.product(*parts)]
        else:
            new = [q]
        if new == [q]:
            found.append(q)
        else:
            waiting += reversed(new)
    return conjunction(found)


def _kept_from(scope: Scope, q: Predicate) -> list[Predicate]:
    """Comparisons that hold wherever `q` does not, equalities first."""
    alternatives = q.parts if isinstance(q, Or) else (q,)
    bounds = [p.value for p in alternatives if isinstance(p, NonNegative)]
    found = [equal(a + 1, ZERO) for k, a in enumerate(bounds) if constant(-2) - a in bounds[:k]]
    for bound in (bounded_index(scope, scope.domain, p) for p in alternatives):
        if bound is not None:
            i, a = bound
            end = scope.domain[i].start if a.coefficient(i) > 0 else scope.domain[i].last
            if a.substitute({i: end}) is constant(-1):  # all but the first or the last one
                found.append(equal(atom_affine(i), end))
    return [*found, *(at_most(a + 1, ZERO) for a in bounds)]


def _alternatives(
    ctx: Context, scope: Scope, parts: Sequence[Predicate], summed: Mapping[Index, Affine] | None = None
) -> list[_Places | None]:
    """The places where `parts` may hold, one by one for their alternatives; None for those that determine none."""
    found = _places(ctx, scope, parts, summed)
    either = next((q for q in parts if isinstance(q, Or)), None)
    if found is not None or either is None or len(either.parts) > _MOST:
        return [found]
    rest = [q for q in parts if q is not either]
    return [at for q in either.parts for at in _alternatives(ctx, scope, [*rest, *conjuncts(q)], summed)]


def _places(
    ctx: Context, scope: Scope, parts: Sequence[Predicate], summed: Mapping[Index, Affine] | None = None
) -> _Places | None:
    """Where `parts` may hold, if they determine some axes, or short windows of these, in terms of the others."""
    extents = {r.extent for r in scope.domain.values()}
    # where there was nothing to be chosen, the state has no elements either
    there = [q for q in parts if all(x.value + 1 in extents for x in has_elements(ctx, scope, lookups(q)))]
    pins: dict[Atom, Affine] = {}
    for q in there:
        a = q.difference.substitute(pins) if isinstance(q, Equal) else ZERO
        values = {i: solved(a, i) for i in scope.domain if i not in pins and abs(a.coefficient(i)) == 1}
        own = [i for i, value in values.items() if i not in value.free]
        if own:
            i = min(own, key=lambda i: len(scope.axes(values[i])))
            pins = {j: b.substitute({i: values[i]}) for j, b in pins.items()} | {i: values[i]}
    windows: dict[Index, Affine] = {}
    for i in scope.domain:
        found = None if i in pins else _window(scope, i, [substitute(q, pins) for q in there])
        if found is not None:
            low, width = found
            step = _step_in(low, width)
            windows[step] = width
            pins = {j: b.substitute({i: low + atom_affine(step)}) for j, b in pins.items()}
            pins[i] = low + atom_affine(step)
    read = {atom for a in pins.values() for atom in a.free}
    along = tuple(i for i in (*windows, *(summed or {}), *scope.domain) if i in read)
    places = _Places({i: pins[i] for i in scope.domain if i in pins}, along, windows)
    if not pins or not any(i in along for i in summed or ()):
        return places if pins else None
    # sums only over places that data give, on the first axes: sums over slices are fast
    first = list(places.pins) == list(scope.domain)[: len(pins)] and all(a.lookups for a in pins.values())
    return places if first and not any(i in along for i in scope.domain) else None


def _window(scope: Scope, i: Index, parts: Sequence[Predicate]) -> tuple[Affine, Affine] | None:
    """The start and the width of the part of axis `i` where `parts` may hold, if the width is a small number."""
    at = atom_affine(i)
    bounds = [q.value for q in parts if isinstance(q, NonNegative)]
    lows = [at - a for a in bounds if a.coefficient(i) == 1 and i not in (at - a).free]
    highs = [a + at for a in bounds if a.coefficient(i) == -1 and i not in (a + at).free]
    ends = [(low, high) for low in lows for high in (*highs, scope.domain[i].last)]
    ends += [(scope.domain[i].start, high) for high in highs]
    for low, high in ends:
        width = high - low + 1
        if width.is_constant and 0 < width.constant <= WIDEST:
            return low, width
    return None


@cached
def _step_in(low: Affine, width: Affine) -> Index:
    """The index of a window; equal windows share it."""
    return Index("w")


def _scope(ctx: Context, scope: Scope, at: _Places, summed: Mapping[Index, Affine]) -> Scope:
    """The scope of values at these places."""
    sizes = {**at.windows, **summed}
    own = {s: ctx.integers.range_of(s, n, scope.fixed) for s, n in sizes.items() if s in at.along}
    domain = {**own, **{i: r for i, r in scope.domain.items() if i not in at.pins}}
    values: dict[Atom, Affine] = {}
    inside: list[Predicate] = []
    for i, a in at.pins.items():
        values[i] = a
        inside += [at_most(scope.domain[i].start, a), at_most(a, scope.domain[i].last)]
    env = {k: a.substitute(values) for k, a in scope.env.items()} | values
    return ctx.scope(scope, domain=domain, env=env, masks=(*scope.masks, *inside))


def _written(ctx: Context, scope: Scope, inner: Scope, how: str, of: Node, places: _Places, v: Value) -> Node:
    """The array `of` with the value `v` put or added at these places."""
    at: list[Node] = []
    indexed: list[int] = []
    for k, i in enumerate(scope.domain):
        if i in places.pins or i in places.along:
            indexed.append(k)
            at.append(positions(ctx, inner, places.pins.get(i, atom_affine(i)), places.along))
        else:
            at.append(EVERY)
    at = at[: indexed[-1] + 1]
    left = [(k, i) for k, i in enumerate(scope.domain) if k not in indexed]
    # NumPy puts what the places give in front, unless they are next to each other
    front = indexed if indexed == list(range(indexed[0], indexed[-1] + 1)) else [0]
    before = [i for k, i in left if k < front[0]]
    order = (*before, *places.along, *(i for k, i in left if i not in before))
    return apply(how, of, whole(ctx, inner, ctx.short(v, scope.block), order), *at)


def write_last(body: Block, head: int, results: Collection[str], fresh: Callable[[str], str]) -> None:
    """Move the writes into states that give some of the `results` behind all else in `body` that reads these states.

    All that depends on them is computed first, at once: XLA computes what is cheap anew for each use, and would keep a
    copy of the state for that. The first `head` statements are about shapes and dtypes alone.
    """
    read = Counter(name for node in body.nodes() for name in names_in(node))
    assigned = Counter(name for s in body.walk() if isinstance(s, Assign) for name in s.names)
    unused = (name for name in iter(lambda: fresh("new"), "") if name not in assigned)
    writes: dict[str, Node] = {}
    others: list[Statement] = []
    for s in body.statements:
        if not isinstance(s, Assign) or not is_write(s) or read[s.names[0]]:
            others.append(s)
            continue
        moved: dict[Node, Node] = {}
        for part, _ in _arguments(s.value):
            if any(assigned[name] > 1 for name in _read(part)):  # it may be something else later
                name = next(unused)
                others.append(Assign((name,), part))
                moved[part] = Name(name)
        writes[s.names[0]] = _with_arguments(s.value, moved)
    changed = {name for value in writes.values() for name in names_in(_state(value))}
    for s in others[head:] if writes else ():
        if isinstance(s, Assign | Define) and not changed.isdisjoint(_read(*Block([s]).nodes())):
            changed.update(s.names if isinstance(s, Assign) else [s.name])
    late: dict[Node, str] = {Name(x): x for x in results if x in changed and x not in writes}
    for value in writes.values():
        for part, is_value in _arguments(value):
            # a value that reads nothing waits for what others read, too
            if is_value or not changed.isdisjoint(_read(part)):
                late.setdefault(part, part.name if isinstance(part, Name) else next(unused))
    if all(changed.isdisjoint(_read(part)) for part in late):
        late = {}
    body.statements = others
    if len(late) > 1:
        body.blank()
        body.unpack(list(late.values()), apply("_all_first", *late))
        writes = {x: _with_arguments(value, {part: Name(y) for part, y in late.items()}) for x, value in writes.items()}
    for x, value in writes.items():
        body.assign(x, value)


def is_write(s: Assign) -> bool:
    """Whether `s` assigns a state with something written into it."""
    return isinstance(s.value, ArrayOperation) and s.value.operation in IN_PLACE


def _read(*nodes: Node) -> set[str]:
    return {name for whole in nodes for node in whole.walk() for name in names_in(node)}


def _state(node: Node) -> Node:
    """The state into which this writes."""
    while isinstance(node, ArrayOperation) and node.operation in IN_PLACE:
        node = node.arguments[0]
    return node


def _arguments(node: Node) -> list[tuple[Node, bool]]:
    """The values that are written, and their places; each with whether it is a value."""
    found: list[tuple[Node, bool]] = []
    while isinstance(node, ArrayOperation) and node.operation in IN_PLACE:
        node, value, *at = node.arguments
        found += [(value, True), *((place, False) for place in at)]
    return found


def _with_arguments(node: Node, moved: Mapping[Node, Node]) -> Node:
    """The writes of `node`, with `moved` values and places."""
    if not isinstance(node, ArrayOperation) or node.operation not in IN_PLACE:
        return node
    of, *own = node.arguments
    return apply(node.operation, _with_arguments(of, moved), *(moved.get(part, part) for part in own))
