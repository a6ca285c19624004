"""Statements on their supports: one whose predicate leaves a thin part of its box is stored as that part.

    X = gen i, j. [j = i and p] * e      ->  X' = gen i. [p] * [j := i] e;    X = gen i, j. [j = i] * X'[i]
    X = gen i, j. [a <= j - i <= b] * e  ->  X' = gen i, d:b - a + 1. [..] * [j := i + d + a] e;
                                             X = gen i, j. sum d. [j = i + d + a] * X'[i, d]
    X = gen i, j. [a <= j <= b] * e      ->  X' = gen i, d:b - a + 1. [..] * [j := d + a] e, and X likewise
    X = gen i. sum j. [i = 2*j] * e      ->  X' = gen j. [i := 2*j] e;        X = gen i. sum j. [i = 2*j] * X'[j]
    X = gen i:n, j. e, without i in e    ->  X' = gen j. [0 < n] * e;         X = gen i, j. X'[j]
    X = gen i, j. [p] * e, likewise      ->  X' = gen j. [exists i. p] * e;   X = gen i, j. [p] * X'[j]
    X = gen i, j. [a[i] = a[j]] * e      ->  X' = gen j. [i := j] e;          X = gen i, j. [a[i] = a[j]] * X'[j]
        where e depends on i through a[i] alone

X is index-only now, so its readers read X' instead, and the box of X is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from operator import is_
from weakref import WeakSet

from tensorlang.costs.bounds import holds_from_1_on
from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant, is_long, is_narrow
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    less,
    lookups,
    substitute,
)
from tensorlang.language.types import R
from tensorlang.memory import cached
from tensorlang.normal.contraction import contraction, inner_solution, solution
from tensorlang.normal.pattern import Pattern, axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Map,
    Selection,
    Statement,
    factor_indices,
    inner_ranges,
    operands,
    own_indices,
    own_ranges,
    summed_indices,
)
from tensorlang.normal.tidy import addition, is_index_only, map_outputs, with_operands, with_predicates
from tensorlang.sets.solve import Ranges, in_range, project, solve
from tensorlang.simplification.dependence import Dependence
from tensorlang.simplification.supports import common

_stored_as_it_is: WeakSet[Statement] = WeakSet()
"""Statements known to stay as they are in any program, since passes meet them again and again."""


def compact(s: SSA) -> SSA:
    """`s` with every statement that has arithmetic stored on the support that its equalities parametrise."""
    new: dict[Statement, Statement] = {}
    names: dict[Statement, str] = {}
    dependence = Dependence()
    for x in s.statements:
        made, stored = _compacted(_with_operands(x, new), dependence)
        new[x] = made
        dependence.define(made)
        if x in s.names:
            names.setdefault(stored, s.names[x])
    if all(map(is_, new, new.values())):
        return s
    return replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)


def _compacted(x: Statement, dependence: Dependence) -> tuple[Statement, Statement]:
    """The replacement of `x`, and the statement that holds its values."""
    if x in _stored_as_it_is or isinstance(x, Input | Constant | Defining) or is_index_only(x):
        return x, x
    if isinstance(x, Contraction):
        strided = _strided(x)
        if strided is not None:
            return strided
    hidden, always, chart = _charted(_outline(x))
    if hidden is not TRUE:
        _, x = _hoisted(x, _always(x))
    if chart is None:
        ties = [q for q in always if isinstance(q, Equal) and compares_elements(q)]
        if not ties and hidden is TRUE:
            _stored_as_it_is.add(x)
        hidden, chart = _tied(x, always, ties, dependence)
    if chart is None:
        return x, x
    stored = _unguarded(_restricted(x, chart), frozenset(less(constant(0), own_ranges(x)[i]) for i in chart.free))
    inner = axes(len(x.shape), len(chart.axes))
    to_inner: dict[Atom, Affine] = {k: atom_affine(i) for k, i in zip(chart.axes, inner, strict=True)}
    at = ((i, a.substitute(to_inner)) for i, a in chart.at.items() if i not in chart.free)
    places = conjunction(equal(atom_affine(i), a) for i, a in at)
    made, stored = _compacted(stored, dependence)
    return Contraction(conjunction([places, hidden]), (made,), (), x.shape), stored


_OPERAND = Var("operand", R)


def _outline(x: Statement) -> Statement:
    """`x` with placeholders for its operands; it has all that decides how `x` can be stored."""

    def outline(y: Contraction) -> Statement:
        return Contraction(y.pred, tuple(map(operand, y.factors)), y.summed, y.shape)

    def operand(y: Statement) -> Statement:
        return y if isinstance(y, Constant) else Input(_OPERAND, (), y.shape)

    def view(y: Statement) -> Statement:
        return outline(y) if isinstance(y, Contraction) else operand(y)

    return with_operands(x, {y: view(y) for y in operands(x)}) if isinstance(x, Addition | Map) else view(x)


@cached
def _charted(x: Statement) -> tuple[Predicate, Sequence[Predicate], Chart | None]:
    """The condition hoisted out of `x` by the fifth law; without it, the conditions on its indices that hold wherever
    `x` is not 0; and a chart of the support that is left, if `x` alone determines one."""
    hidden: Predicate = TRUE
    always = _always(x)
    if always:
        hidden, x = _hoisted(x, always)
        always = always if hidden is TRUE else _always(x)
    return hidden, always, _without_idle_index(x) or chart(x, always)


def _hoisted(x: Statement, always: Sequence[Predicate]) -> tuple[Predicate, Statement]:
    """The fifth law: the conditions of `x` on indices that nothing else in it depends on, and `x` without them."""
    if isinstance(x, Addition | Map) and not all(isinstance(y, Constant | Contraction) for y in operands(x)):
        return TRUE, x  # an operand that is read elementwise depends on all indices
    own = own_ranges(x)
    common = [q for q in always if not isinstance(q, Equal) or compares_elements(q)]
    common = [q for q in common if set(own).issuperset(i for i in free_atoms(q) if isinstance(i, Index))]
    if not common:
        return TRUE, x
    y = _in_own_indices(x)
    idle = [i for i in own if ignores(without(y, [q for q in common if i in free_atoms(q)]), i)]
    hiding = [q for q in common if not free_atoms(q).isdisjoint(idle)]
    if not hiding:
        return TRUE, x
    some = project({i: own[i] for i in idle}, conjunction(hiding), {i: n for i, n in own.items() if i not in idle})
    return conjunction(hiding), _under(some, without(y, hiding))


def _in_own_indices(x: Statement) -> Statement:
    """`x`; if it is a contraction, with conditions on the places of factors restated for the indices equal to them."""
    if not isinstance(x, Contraction):
        return x
    solved = inner_solution(x)
    places = (equal(atom_affine(i), a) for i, a in solved.values.items())
    return Contraction(conjunction([*places, solved.rest]), x.factors, x.summed, x.shape)


def compares_elements(q: Predicate) -> bool:
    """Whether `q` equates elements of index arrays, and has no index outside of them."""
    if not isinstance(q, Equal):
        return False
    return len(q.difference.terms) > 1 and all(isinstance(x, Lookup) for x in q.difference.atoms)


def without(x: Statement, parts: Collection[Predicate]) -> Statement:
    """`x` without these conjuncts, and weaker bounds that they imply, in its predicates and those of the views that it
    reads."""
    bounds = [q.value for q in parts if isinstance(q, NonNegative)]

    def is_said(q: Predicate) -> bool:
        if q in parts or not isinstance(q, NonNegative):
            return q in parts
        return any(q.value.terms == a.terms and q.value.constant >= a.constant for a in bounds)

    def rest(p: Predicate) -> Predicate:
        return conjunction(q for q in conjuncts(p) if not is_said(q))

    return _changed(x, rest, lambda y: without(y, parts))


def _changed(
    x: Statement, change: Callable[[Predicate], Predicate], view: Callable[[Contraction], Statement] = lambda y: y
) -> Statement:
    """`x` with its predicates and the views that it reads changed; a statement that defines an index array stays."""
    if isinstance(x, Defining):
        return x
    if not isinstance(x, Contraction):
        x = with_operands(
            x, {y: view(y) if isinstance(y, Contraction) and is_index_only(y) else y for y in operands(x)}
        )
    return with_predicates(x, change)


def _under(p: Predicate, x: Statement) -> Statement:
    """[p] * x."""
    return _changed(x, lambda q: conjunction([q, p]))


def _unguarded(x: Statement, guards: frozenset[Predicate]) -> Statement:
    """`x` without the guards that an index which it has lost has any values; if it has none, nothing reads `x`.

    Only guards that hold at all sizes of at least 1 are dropped, so there the cost stays the same.
    """
    free = {q for q in guards if holds_from_1_on(q)}

    def strip(p: Predicate) -> Predicate:
        return conjunction(q for q in conjuncts(p) if q not in free)

    return _changed(x, strip, lambda y: _unguarded(y, guards))


@dataclass(frozen=True)
class Chart:
    """Coordinates of a support: new indices with their sizes, and each index of the statement as a function of them.

    An index in `free` may have any value; `at` has one of these.
    """

    axes: dict[Index, Affine]
    at: dict[Index, Affine]
    free: frozenset[Index] = frozenset()


def _without_idle_index(x: Statement) -> Chart | None:
    """The fourth law: the indices that `x` depends on."""
    own = own_ranges(x)
    idle = [i for i in own if ignores(x, i)]
    if not idle:
        return None
    kept = {i: n for i, n in own.items() if i not in idle}
    return Chart(kept, {i: constant(0) if i in idle else atom_affine(i) for i in own}, frozenset(idle))


def ignores(x: Statement, i: Index) -> bool:
    """Whether the elements of `x` are the same for all `i`, if its operands have lost their idle indices already."""
    match x:
        case Input() | Selection() | Comparison():
            return False
        case Constant():
            return True
        case Addition(terms, _):
            return all(i not in free_atoms(t.pred) and reads_all_alike(t.operand, i) for t in terms)
        case Map(p, _, arguments, _):
            return i not in free_atoms(p) and all(reads_all_alike(y, i) for y in arguments)
        case Contraction(p, _, _, _):
            return i not in free_atoms(p)


def reads_all_alike(y: Statement, i: Index) -> bool:
    """Whether `y` is read at the same element for all `i`."""
    return isinstance(y, Constant) or (isinstance(y, Contraction) and i not in free_atoms(y.pred))


def chart(x: Statement, always: Sequence[Predicate]) -> Chart | None:
    """The first and the second law: the indices that no equality determines, or windows."""
    return _forced(x, always) or _band(x, always)


def _forced(x: Statement, always: Sequence[Predicate]) -> Chart | None:
    """The first law: the indices that no equality determines."""
    forced = conjunction(q for q in always if isinstance(q, Equal))
    if forced is TRUE:
        return None
    own = own_ranges(x)
    solution = solve(forced, dict(reversed(own.items())), {})
    if not solution.values:
        return None
    free = {i: n for i, n in own.items() if i in solution.free}
    return Chart(free, {i: solution.values.get(i) or atom_affine(i) for i in own})


def _band(x: Statement, always: Sequence[Predicate]) -> Chart | None:
    """The second law: for j between i + a and i + b, i and d = j - i - a.

    The index with fewer values is i, else the first of the two, so that statements over the same rows share them.
    """
    own = own_ranges(x)
    least: dict[tuple[Atom, Atom], int] = {}
    if not any(lookups(q) for q in always):
        always = [*always, *_at_most_summed(x)]
    always = [*always, *conjuncts(common([conjunction(always)]))]
    for a in (q.value for q in always if isinstance(q, NonNegative)):
        if len(a.terms) == 2 and len(a.indices) == 2 and not a.lookups and {k for _, k in a.terms} == {1, -1}:
            above, below = sorted(a.indices, key=a.coefficient, reverse=True)
            least[above, below] = max(-a.constant, least.get((above, below), -a.constant))  # above - below >= this
    for i, j in sorted(permutations(own, 2), key=lambda pair: _is_longer(own[pair[0]], own[pair[1]])):
        if (i, j) not in least or (j, i) not in least:
            continue
        low = least[j, i]
        width = -least[i, j] - low + 1
        if own[j].is_constant and own[j].constant <= width:
            continue
        d = Index("d")
        new = {d if k is j else k: constant(max(width, 0)) if k is j else n for k, n in own.items()}
        return Chart(new, {k: atom_affine(i) + atom_affine(d) + low if k is j else atom_affine(k) for k in own})
    return _window(own, always)


def _window(own: Ranges, always: Sequence[Predicate]) -> Chart | None:
    """The second law for an index in a window of fixed width, whose start depends on other indices, elements of index
    arrays at these, and sizes: the narrowest such window."""
    found: list[tuple[int, Index, Affine]] = []
    for j, n in own.items():
        value = atom_affine(j)
        bounds = [value, n - 1 - value, *(q.value for q in always if isinstance(q, NonNegative))]
        lows = [value - a for a in bounds if a.coefficient(j) == 1]
        ends = [value + a for a in bounds if a.coefficient(j) == -1]
        lows, ends = ([a for a in side if j not in a.free] for side in (lows, ends))
        widths = [(b - a + 1, a) for a in lows for b in ends if (b - a).is_constant]
        if n.is_constant:  # an axis of constant size with one window stays, unless it loses most values
            widths = [(w, a) for w, a in widths if w.constant < n.constant and (not a.is_constant or is_narrow(w, n))]
        else:  # a long window from a single place that data give may be longer than the axis
            widths = [(w, a) for w, a in widths if a.indices or not (a.lookups and is_long(w))]
        found.extend((max(w.constant, 0), j, a) for w, a in widths)
    if not found:
        return None
    width, j, low = min(found, key=lambda chart: chart[0])
    d = Index("d")
    new = {d if k is j else k: constant(width) if k is j else n for k, n in own.items()}
    return Chart(new, {k: atom_affine(d) + low if k is j else atom_affine(k) for k in own})


def _at_most_summed(x: Statement) -> list[Predicate]:
    """Bounds on the other indices from comparisons with short summed indices, whatever values these have."""
    if not isinstance(x, Contraction):
        return []
    short = {i: n for i, n in inner_ranges(x).items() if not is_long(n)}
    found: list[Predicate] = []
    for a in (q.value for q in conjuncts(inner_solution(x).rest) if isinstance(q, NonNegative)):
        looked_up = {i for x in a.lookups for i in atom_affine(x).free}  # elements elsewhere may be anything
        most: dict[Atom, Affine] = {
            i: n - 1 if a.coefficient(i) > 0 else constant(0) for i, n in short.items() if i not in looked_up
        }
        found.append(at_most(constant(0), a.substitute(most)))
    return [q for q in found if free_atoms(q).isdisjoint(inner_ranges(x))]


def _is_longer(a: Affine, b: Affine) -> bool:
    """Whether a > b at all sizes of at least 1, as far as is obvious."""
    longer = less(b, a)
    return longer is TRUE or holds_from_1_on(longer)


def _tied(
    x: Statement, always: Sequence[Predicate], ties: Sequence[Equal], dependence: Dependence
) -> tuple[Predicate, Chart | None]:
    """The sixth law: the conditions that tie an index to another one which may replace it, and a chart of the other
    indices. All of them hold `always`; the `ties` are the candidates among them."""
    own = own_ranges(x)
    for q in ties:
        for i, j in permutations(q.difference.indices, 2):
            change: dict[Atom, Affine] = {i: atom_affine(j)}
            if own.get(i) is own.get(j) and substitute(q, change) is TRUE and dependence.is_same(x, i, j, always):
                tying = [r for r in always if i in free_atoms(r) and substitute(r, change) is TRUE]
                at = {k: change.get(k) or atom_affine(k) for k in own}
                return conjunction(tying), Chart({k: n for k, n in own.items() if k is not i}, at, frozenset({i}))
    return TRUE, None


def _strided(x: Contraction) -> tuple[Statement, Statement] | None:
    """The third law: `x` with an index i = c*j + .., whose j with |c| > 1 is summed over, stored by j instead."""
    stride = _stride(x.pattern)
    if stride is None:
        return None
    i, j, value = stride
    inner, own = inner_ranges(x), own_ranges(x)
    kept = tuple(j if k is i else k for k in own)
    shape = tuple(inner[j] if k is i else n for k, n in own.items())
    fresh = Index(j.name)  # the j of the factors that is to be the new index
    places = conjunction([x.pred, equal(atom_affine(j), atom_affine(fresh))])
    given = list(zip(x.factors, factor_indices(x), strict=True))
    further = {i: own[i], **dict(zip(summed_indices(x), x.summed, strict=True))}
    stored = contraction(shape, tuple(fresh if k is j else k for k in kept), given, further, places)
    read = axes(len(own), len(own))
    at = [equal(atom_affine(k), atom_affine(r)) for k, r in zip(own, read, strict=True) if k is not i]
    place = next(r for k, r in zip(own, read, strict=True) if k is i)
    at.append(equal(atom_affine(i), value.substitute({j: atom_affine(place)})))
    return Contraction(conjunction(at), (stored,), (), x.shape), stored


@cached
def _stride(x: Pattern) -> tuple[Index, Index, Affine] | None:
    """An index of `x`, the summed index by which `x` can be stored, and the value of the first in terms of it."""
    for a in (q.difference for q in _equalities(solution(x).rest) if not q.difference.lookups):
        summed = [j for j in a.indices if j in x.inner]
        i = next((i for i in a.indices if i in x.outer and abs(a.coefficient(i)) == 1), None)
        if i is not None and len(summed) == 1:
            return i, summed[0], atom_affine(i) - a * a.coefficient(i)
    return None


def _with_operands(x: Statement, new: dict[Statement, Statement]) -> Statement:
    if all([new[y] is y for y in operands(x)]):
        return x
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            return addition([Addend(t.sign, t.pred, new[t.operand]) for t in terms], shape)
        case Map() | Selection() | Comparison():
            return with_operands(x, new)
        case Contraction(p, factors, summed, shape):
            given = [(new[y], at) for y, at in zip(factors, factor_indices(x), strict=True)]
            return contraction(shape, own_indices(x), given, dict(zip(summed_indices(x), summed, strict=True)), p)


def _always(x: Statement) -> list[Predicate]:
    """Comparisons of the indices of `x` that hold wherever it is not zero."""
    match x:
        case Addition(terms, _):
            return list(conjuncts(common(t.pred for t in terms)))
        case Map(p, _, _, _):
            return list(conjuncts(p))
        case Contraction():
            inner, rest = inner_ranges(x), conjuncts(inner_solution(x).rest)
            return [q for q in (*rest, *_through_data(rest, inner)) if free_atoms(q).isdisjoint(inner)]
        case _:
            return []


def _through_data(parts: Collection[Predicate], inner: Ranges) -> list[Predicate]:
    """The `parts` with elements of index arrays at summed places eliminated by equalities: j - 1 <= a[s] and i = a[s]
    become j - 1 <= i."""
    left = list(parts)
    while (found := _element(left, inner)) is not None:
        equation, change = found
        left = [substitute(q, change) for q in left if q is not equation]
    return [q for q in left if q not in parts]


def _element(parts: Collection[Predicate], inner: Ranges) -> tuple[Predicate, dict[Atom, Affine]] | None:
    """An equality that determines an element at a summed place, and the substitution that it gives."""
    for q in parts:
        if isinstance(q, Equal):
            for x in q.difference.lookups:
                k = q.difference.coefficient(x)
                value = atom_affine(x) - q.difference * k
                if abs(k) == 1 and x not in value.lookups and not inner.keys().isdisjoint(atom_affine(x).free):
                    return q, {x: value}
    return None


def _equalities(p: Predicate) -> list[Equal]:
    return [q for q in conjuncts(p) if isinstance(q, Equal)]


def _restricted(x: Statement, chart: Chart) -> Statement:
    """`x` in the coordinates of the chart."""
    own = own_ranges(x)
    shape = tuple(chart.axes.values())
    new = tuple(chart.axes)
    values: dict[Atom, Affine] = {i: a for i, a in chart.at.items() if a is not atom_affine(i)}
    ranges = [in_range(a, own[i], chart.axes) for i, a in chart.at.items()]

    def restrict(p: Predicate) -> Predicate:
        return conjunction([substitute(p, values), *ranges])

    def renewed(p: Predicate) -> Predicate:
        return renamed(restrict(p), new, axes(0, len(new)))

    def reads(y: Statement) -> Statement:
        at = tuple(Index(i.name) for i in own)
        places = [equal(atom_affine(j), chart.at[i]) for i, j in zip(own, at, strict=True)]
        return contraction(shape, new, [(y, at)], {}, conjunction([*places, *ranges]))

    match x:
        case Addition(terms, _):
            return addition([Addend(t.sign, renewed(t.pred), reads(t.operand)) for t in terms], shape)
        case Map(p, f, arguments, _):
            return Map(renewed(p), f, tuple(map(reads, arguments)), shape)
        case Contraction(p, factors, summed, _):
            given = list(zip(factors, factor_indices(x), strict=True))
            return contraction(shape, new, given, dict(zip(summed_indices(x), summed, strict=True)), restrict(p))
        case _:
            raise AssertionError("only statements with arithmetic are compacted")
