"""Statements that are elements of others: equal ones up to the order of axes, shifts, diagonals and broadcasts.

    X = gen i, j. f(A[i, j], b[j]);  Y = gen j, i. f(A[i, j], b[j])   ->  Y = gen j, i. X[i, j]
    X = gen i, j. f(a[i], b[j]);     Y = gen i. [p] * f(a[i], b[i])   ->  Y = gen i. [p] * X[i, i]
    X = gen i. f(a[i]);              Y = gen i. f(a[i + 1])           ->  Y = gen i. X[i + 1]

for scalar functions, additions and sums of products. Y is no longer computed, and the elements of X that it reads are
at most as many as were computed for Y; so the cost never rises.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine, constant
from tensorlang.language.predicates import (
    TRUE,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    lookups,
    substitute,
)
from tensorlang.memory import cached
from tensorlang.normal.contraction import contraction, inner_solution, only_moves
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Map,
    Statement,
    live,
    operands,
    own_ranges,
    predicates,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import Ranges, project, ranges_predicate, simplify_in
from tensorlang.simplification.summation import scheme

_MOST_TRIES, _MOST_COMPARED, _MOST_OPERANDS = 64, 16, 12

Places = Mapping[Atom, Affine]


@dataclass(frozen=True)
class _Operand:
    """sign * [pred] * root[at]."""

    root: object
    at: tuple[Affine, ...]
    pred: Predicate = TRUE
    sign: int = 1

    @property
    def kind(self) -> object:
        """The key that two operands must share to be compared."""
        return self.root, self.sign


@dataclass(frozen=True)
class _Form:
    """The computation of a statement: the elements that are its operands, and the condition `pred` where it is done."""

    statement: Statement
    own: Ranges
    loops: Ranges
    operands: tuple[_Operand, ...]
    pred: Predicate
    ordered: bool
    """Whether the order of the operands matters."""

    @property
    def ranges(self) -> dict[Index, Affine]:
        """The ranges of all indices."""
        return {**self.own, **self.loops}

    @property
    def support(self) -> Predicate:
        """Where it may be other than 0, as a predicate over its own indices."""
        if isinstance(self.statement, Addition):
            return simplify_in(disjunction(o.pred for o in self.operands), self.own)
        return project(self.loops, self.pred, self.own) if self.loops else self.pred


def same(s: SSA) -> SSA:
    """`s` with statements whose elements are all elements of another one reading that one."""
    s, alike = _later_ones_read(s)
    moved = _earlier_ones(alike, selections(s.statements).keys())
    return _reordered(s, moved) if moved else s


def _later_ones_read(s: SSA) -> tuple[SSA, list[list[Statement]]]:
    """`s` with statements replaced by reads of earlier ones that have their elements; and the groups of statements of
    one kind for which that failed."""
    new: dict[Statement, Statement] = {}
    seen: dict[object, list[Statement]] = defaultdict(list)
    names: dict[Statement, str] = {}
    for x in s.statements:
        made = with_operands(x, new)
        kind = None if is_index_only(made) else _kind(made)
        if kind is not None:
            near = seen[kind]
            found = next((y for other in near if (y := _elements(made, other)) is not None), None)
            if found is not None:
                made = found
            elif len(near) < _MOST_COMPARED and made not in near:
                near.append(made)
        new[x] = made
        if x in s.names and not is_index_only(made):
            names.setdefault(made, s.names[x])
    if all(y is x for x, y in new.items()):
        changed = s
    else:
        outputs = map_outputs(s.outputs, new)
        changed = live(replace(s, statements=tuple(new.values()), outputs=outputs, names=names))
    return changed, [near for near in seen.values() if len(near) > 1]


def _earlier_ones(alike: Iterable[list[Statement]], selected: Collection[IndexArray]) -> dict[Statement, Statement]:
    """Statements whose elements are elements of later ones, mapped to reads of these."""
    moved: dict[Statement, Statement] = {}
    for near in alike:
        # a statement that looks up selected elements may depend on the later one
        those = [x for x in near if all(y.array not in selected for p in predicates(x) for y in lookups(p))]
        read: set[Statement] = set()
        for k, x in enumerate(those):
            for later in those[k + 1 :] if x not in read else ():
                found = _elements(x, later)
                if found is not None:
                    moved[x] = found
                    read.add(later)
                    break
    return moved


def _reordered(s: SSA, moved: Mapping[Statement, Statement]) -> SSA:
    """`s` with statements replaced as `moved` says, reordered so that each comes after what it reads."""
    new: dict[Statement, Statement] = {}
    for start in s.statements:
        stack = [start]
        while stack:
            x = stack[-1]
            y = moved.get(x, x)
            missing = [z for z in operands(y) if z not in new]
            if missing and x not in new:
                stack += missing
            else:
                new.setdefault(x, with_operands(y, new))
                stack.pop()
    names: dict[Statement, str] = {}
    for x, name in s.names.items():
        if not is_index_only(new[x]):
            names.setdefault(new[x], name)
    return live(replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names))


def _kind(x: Statement) -> object | None:
    """The key that two statements must share to be compared; None for one that is not compared."""
    read = operands(x)
    if len(read) > _MOST_OPERANDS:
        return None
    match x:
        case Map():
            return x.function, tuple(map(_root, read))
        case Addition():
            return _counted((t.sign, _root(t.operand)) for t in x.terms)
        case Contraction():
            return frozenset([y.value if isinstance(y, Constant) else y for y in read]), len(read)
        case _:
            return None


def _counted(several: Iterable[object]) -> frozenset[tuple[object, int]]:
    return frozenset(Counter(several).items())


def _root(y: Statement) -> object:
    """The statement or number of which `y` is a view."""
    while _is_move(y):
        y = y.factors[0]
    return y.value if isinstance(y, Constant) else y


def _is_move(y: Statement) -> TypeGuard[Contraction]:
    return isinstance(y, Contraction) and only_moves(y) and not inner_solution(y).free


@cached
def _form(x: Statement) -> _Form:
    """What `x`, which has arithmetic, computes."""
    own = own_ranges(x)
    if isinstance(x, Contraction):
        found = scheme(x.pattern)
        loops = {i: n for i, n in found.ranges.items() if i not in own}
        factors = tuple(_factor(y, r.at) for y, r in zip(x.factors, found.reads, strict=True))
        return _Form(x, own, loops, factors, found.pred, False)
    if isinstance(x, Addition):
        terms = tuple(_operand(t.operand, simplify_in(t.pred, own), t.sign) for t in x.terms)
        return _Form(x, own, {}, terms, TRUE, False)
    assert isinstance(x, Map)
    return _Form(x, own, {}, tuple(map(_operand, x.arguments)), x.pred, True)


def _factor(y: Statement, at: tuple[Affine, ...]) -> _Operand:
    return _Operand(y.value, ()) if isinstance(y, Constant) else _Operand(y, at)


def _operand(y: Statement, p: Predicate = TRUE, sign: int = 1) -> _Operand:
    """sign * [p] * y[g], read through views."""
    at = tuple(map(atom_affine, own_ranges(y)))
    while _is_move(y):
        found = inner_solution(y)
        here: Places = dict(zip(own_ranges(y), at, strict=True))
        p = conjunction([p, substitute(found.rest, here)])
        at = tuple(found.values[i].substitute(here) for i in y.pattern.places[0])
        y = y.factors[0]
    return replace(_factor(y, at), pred=p, sign=sign)


def _elements(those: Statement, of: Statement) -> Statement | None:
    """A statement equal to `those` that reads its elements from `of`; None if they are not all elements of `of`."""
    if those is of:
        return None
    y, x = _form(those), _form(of)
    if sorted(map(id, y.loops.values())) != sorted(map(id, x.loops.values())):
        return None
    for pairs in _pairings(y, x):
        at = _places(y, x, pairs)
        if at is not None:
            where = _where(y, x, pairs, at)
            if where is not None:
                own = tuple(y.own)
                places = axes(len(own), len(x.own))
                here = (equal(atom_affine(i), at[j]) for i, j in zip(places, x.own, strict=True))
                shape = tuple(y.own.values())
                return contraction(shape, own, [(x.statement, places)], {}, conjunction([where, *here]))
    return None


Pairs = tuple[tuple[_Operand, _Operand], ...]
"""Operands of one statement, paired with equal ones of the other."""


def _pairings(y: _Form, x: _Form) -> Iterator[Pairs]:
    if y.ordered:
        yield tuple(zip(y.operands, x.operands, strict=True))
        return
    pending: list[tuple[int, ...]] = [()]
    tries = 0
    while pending and tries < _MOST_TRIES:
        used = pending.pop()
        if len(used) == len(x.operands):
            tries += 1
            yield tuple((y.operands[k], o) for k, o in zip(used, x.operands, strict=True))
            continue
        o = x.operands[len(used)]
        pending += [(*used, k) for k, b in reversed(tuple(enumerate(y.operands))) if k not in used and b.kind == o.kind]


def _places(y: _Form, x: _Form, pairs: Pairs) -> dict[Atom, Affine] | None:
    """The indices of `x` in terms of those of `y` such that both read their operands at the same places; None if there
    are none."""
    at: dict[Atom, Affine] = {}
    pending = [(a, b) for theirs, ours in pairs for a, b in zip(ours.at, theirs.at, strict=True)]
    while pending:
        left = []
        for a, b in pending:
            unknown = [i for i in _free(a) if i in x.ranges and i not in at]
            if not unknown:
                if a.substitute(at) is not b:
                    return None
            elif len(unknown) == 1 and abs(k := a.coefficient(unknown[0])) == 1:
                (i,) = unknown
                k = a.coefficient(i)
                value = (b - (a - atom_affine(i) * k).substitute(at)) * k
                if i in _free(a - atom_affine(i) * k) or not _fits(i, value, y, x, at):
                    return None
                at[i] = value
            else:
                left.append((a, b))
        if len(left) == len(pending):
            return None
        pending = left
    for i, n in x.loops.items():  # loops that only the condition mentions
        if i not in at:
            free = [j for j, m in y.loops.items() if m is n and atom_affine(j) not in at.values()]
            if not free:
                return None
            at[i] = atom_affine(free[0])
    return at if all(i in at for i in x.own) else None


def _fits(i: Index, value: Affine, y: _Form, x: _Form, at: Places) -> bool:
    """Whether index `i` of `x` can be `value`: for a loop, another loop of the same size that is not yet used; for an
    own index, a value without lookups and loops."""
    if i in x.own:
        return not value.lookups and not any(j in y.loops for j in value.indices)
    found = any(value is atom_affine(j) and n is x.loops[i] for j, n in y.loops.items())
    return found and all(a is not value for a in at.values())


def _free(a: Affine) -> set[Atom]:
    """The indices in `a`, including those at which it looks up elements."""
    return set(a.free)


def _where(y: _Form, x: _Form, pairs: Pairs, at: Places) -> Predicate | None:
    """The condition under which `y` equals `x` at these places, being 0 elsewhere; None if there is none."""
    inside = conjunction(q for i, n in x.own.items() for q in (at_most(constant(0), at[i]), at_most(at[i], n - 1)))
    same_condition = substitute(x.pred, at)
    conditions = [(theirs.pred, substitute(ours.pred, at)) for theirs, ours in pairs]
    for where in (TRUE, y.support):
        known = conjunction([where, ranges_predicate(y.ranges)])
        if not implies(known, inside):
            continue
        if y.ordered:
            here = conjunction([known, y.pred])
            if not implies(here, same_condition) or not all(_agree(here, p, q) for p, q in conditions):
                continue
            if where is TRUE and not implies(conjunction([known, same_condition]), y.pred):
                continue
        elif not _agree(known, y.pred, same_condition) or not all(_agree(known, p, q) for p, q in conditions):
            continue
        return where
    return None


def _agree(known: Predicate, p: Predicate, q: Predicate) -> bool:
    """Whether `p` and `q` are the same where `known` holds."""
    return p is q or (implies(conjunction([known, p]), q) and implies(conjunction([known, q]), p))
