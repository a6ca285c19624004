"""Values of programs in a normal form, and whether two are equal for all sizes from 1 on and whatever the data.

A value is a sum of terms: a number times a product of atoms, added up over binders, where predicates hold. An atom is a
parameter's element, or a scalar function of values, a *node*, at places that are index expressions. Nothing of a
program's text survives: lets are expanded, pairs taken apart, products multiplied out. Scalar functions and data are
uninterpreted, so values that are equal here are equal in every commutative ring, wherever both programs have a value.

Why this is sound is written down in docs/certificates.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice, permutations, product
from math import prod
from typing import Protocol

from . import trees
from .budget import Undecided
from .facts import Facts, fresh, is_index, parts_of
from .linear import isolated, names_of, solve
from .matchings import Atom, matchings
from .predicates import affines, changed, moved, renamed, told, within, without_elements
from .semantics import fine, length, names_in, names_in_atom
from .trees import Affine, Compare, Element, Exists, Pred

REAL = "real "
"""The atom that is an index expression as a number."""
_MOST_TERMS = 600
_MOST_FACTORS = 200
_MOST_BITS = 10_000
_ALIGNMENTS = 24
_CANDIDATES = 24
_NODES = 60
_UNFOLDED = 12
_PRODUCTS = 2
"""The difference of two products is unfolded as long as there are names in it, the shorter product first. Common
factors are divided out, so neither product gets long."""


@dataclass(frozen=True)
class Term:
    """coefficient * the product of `atoms`, added up over `binders`, where all of `preds` hold; the binders' ranges are
    among these."""

    coefficient: Fraction
    atoms: tuple[Atom, ...] = ()
    binders: tuple[str, ...] = ()
    preds: tuple[Pred, ...] = ()

    def moved(self, names: Mapping[str, Affine]) -> Term:
        """The term with index expressions substituted for some free names, and binders of its own."""
        own = {b: fresh("%") for b in self.binders}
        names = {**names, **{b: trees.name(i) for b, i in own.items()}}
        if not names:
            return self
        atoms = tuple((key, tuple(moved(a, names) for a in at)) for key, at in self.atoms)
        return Term(self.coefficient, atoms, tuple(own.values()), tuple(renamed(p, names) for p in self.preds))

    @property
    def skeleton(self) -> tuple[str, ...]:
        """The keys of the atoms, without their places."""
        return tuple(sorted(key for key, _ in self.atoms))

    @property
    def free(self) -> frozenset[str]:
        """The names of free indices."""
        found = names_of(a for _, at in self.atoms for a in at).union(*map(names_in, self.preds))
        return frozenset(x for x in found if is_index(x) and x not in self.binders)


Value = list[Term]


def element_of(key: str, path: Iterable[int], at: Iterable[Affine], places: Iterable[Affine]) -> Value:
    """An element of the result of the call with the node `key` at some places: a part of it, read at places."""
    return [Term(Fraction(1), ((f"{key}.{'.'.join(map(str, path))}", (*at, *places)),))]


def node_of(key: str) -> str:
    """The node that an atom reads; for an element of a call, the call's node."""
    return key.partition(".")[0]


def number(k: Fraction) -> Value:
    """A number."""
    return [Term(k)] if k else []


def rational(v: Value) -> Fraction | None:
    """The number that `v` equals, if `v` is plainly a number."""
    if any(t.atoms or t.binders or t.preds for t in v):
        return None
    return sum((t.coefficient for t in v), Fraction(0))


def is_long(v: Value) -> bool:
    """Whether a term of `v` is so long that it should have a name."""
    return any(10 * len(t.atoms) > _MOST_FACTORS or 10 * length(t.coefficient) > _MOST_BITS for t in v)


def negated(v: Value) -> Value:
    """-v"""
    return [replace(t, coefficient=-t.coefficient) for t in v]


def where(p: Pred, v: Value) -> Value:
    """[p] * v"""
    return [replace(t, preds=(*t.preds, p)) for t in v]


def summed(i: str, size: Affine, v: Value) -> Value:
    """The sum of `v` over i, a free index of it, from 0 to size."""
    here = within(trees.name(i), size)
    return [replace(t, binders=(*t.binders, i), preds=(*t.preds, here)).moved({}) for t in v]


def times(v: Value, w: Value) -> Value:
    """v * w, multiplied out."""
    if len(v) * len(w) > _MOST_TERMS:
        raise Undecided(f"a product of {len(v)} and {len(w)} terms")
    found = []
    for one in v:
        for other in w:
            found.append(_product(one.moved({}), other.moved({})))
    return found


def within_term(t: Term, v: Value) -> Value:
    """t * v, where `v` may read the binders of `t`."""
    return [_product(t, u.moved({})) for u in v]


def _product(a: Term, b: Term) -> Term:
    coefficient = a.coefficient * b.coefficient
    if len(a.atoms) + len(b.atoms) > _MOST_FACTORS or length(coefficient) > _MOST_BITS:
        raise Undecided("a product that is too long, multiplied out")
    return Term(coefficient, a.atoms + b.atoms, a.binders + b.binders, a.preds + b.preds)


def at(v: Value, names: Mapping[str, Affine]) -> Value:
    """`v` with index expressions substituted for some free names."""
    return [t.moved(names) for t in v]


def normal(t: Term) -> Term | None:
    """`t` without binders that equalities determine; None if its predicates exclude one another."""
    preds = parts_of(t.preds)
    if preds is None or not t.coefficient:
        return None
    atoms, binders = t.atoms, t.binders
    preds = _pinned(preds)
    while True:
        found = next(
            (
                (p, b, value)
                for p in preds
                if isinstance(p, Compare) and p.equal
                for b in binders
                if (value := isolated(p.value, b)) is not None
            ),
            None,
        )
        if found is None:
            one = _with_one_element(Term(t.coefficient, atoms, binders, preds))
            return one and _folded(one)
        p, b, value = found
        names = {b: value}
        binders = tuple(x for x in binders if x != b)
        atoms = tuple((key, tuple(moved(a, names) for a in at)) for key, at in atoms)
        preds = parts_of(renamed(q, names) if b in names_in(q) else q for q in preds if q is not p)
        if preds is None:
            return None
        preds = _pinned(preds)


def _with_one_element(t: Term) -> Term | None:
    """`t` with one element of index arrays substituted for all others that its predicates say are equal to it, one at
    free indices if there is one; None if its predicates exclude one another."""
    while True:
        found = next(
            ((p, pair) for p in t.preds if (pair := _equal_elements(p, t.binders)) and _occurs(pair[1], p, t)), None
        )
        if found is None:
            return t
        equality, (kept, gone) = found
        change = partial(without_elements, values={gone: Affine(((kept, 1),))})
        atoms = tuple((key, tuple(map(change, places))) for key, places in t.atoms)
        preds = parts_of(p if p is equality else changed(p, change) for p in t.preds)
        if preds is None:
            return None
        t = replace(t, atoms=atoms, preds=preds)


def _equal_elements(p: Pred, binders: Sequence[str]) -> tuple[Element, Element] | None:
    """The two elements of index arrays that `p` says are equal, the one to be kept first."""
    match p:
        case Compare(True, Affine(((Element() as a, k), (Element() as b, j)), 0)) if k + j == 0:
            a, b = sorted((a, b), key=lambda e: (not names_in_atom(e).isdisjoint(binders), e.array, repr(e)))
            return None if b in _nested(a) else (a, b)
    return None


def _occurs(e: Element, but: Pred, t: Term) -> bool:
    """Whether `t` reads `e` elsewhere than in its predicate `but`."""
    read = (a for _, places in t.atoms for a in places)
    asked = (a for p in t.preds if p is not but for a in affines(p))
    return any(e == atom or e in _nested(atom) for a in (*read, *asked) for atom, _ in a.terms)


def _nested(atom: str | Element) -> Iterator[Element]:
    """The elements at which an element is read."""
    if isinstance(atom, Element):
        for inner, _ in (term for a in atom.at for term in a.terms):
            if isinstance(inner, Element):
                yield inner
                yield from _nested(inner)


def _folded(t: Term) -> Term | None:
    """`t` with the integers among its atoms multiplied into its coefficient."""
    known = [places[0] for key, places in t.atoms if key == REAL and not places[0].terms]
    if not known:
        return t
    coefficient = t.coefficient * prod(a.constant for a in known)
    rest = tuple(atom for atom in t.atoms if atom[0] != REAL or atom[1][0].terms)
    return replace(t, coefficient=coefficient, atoms=rest) if coefficient else None


def spread(v: Value) -> Value:
    """`v` with numbers that are index expressions taken apart: real(2*i + 1) = 2 * real(i) + 1."""
    found: Value = []
    for t in v:
        k = next((k for k, (key, places) in enumerate(t.atoms) if key == REAL and not _is_name(places[0])), None)
        if k is None:
            found.append(t)
            continue
        a, rest = t.atoms[k][1][0], t.atoms[:k] + t.atoms[k + 1 :]
        parts = [(c, ((REAL, (Affine(((x, 1),)),)),)) for x, c in a.terms]
        for c, atom in [*parts, (a.constant, ())]:
            if c:
                found += spread([replace(t, coefficient=c * t.coefficient, atoms=rest + atom)])
    return found


def _is_name(a: Affine) -> bool:
    return len(a.terms) == 1 and a.terms[0][1] == 1 and not a.constant


def _pinned(preds: tuple[Pred, ...]) -> tuple[Pred, ...]:
    """`preds` with a = 0 where they say 0 <= a and a <= 0."""
    signs = {p.value for p in preds if isinstance(p, Compare) and not p.equal}
    both = {a for a in signs if a.times(-1) in signs}
    if not both:
        return preds
    kept = (p for p in preds if not (isinstance(p, Compare) and not p.equal and p.value in both))
    return (*dict.fromkeys(Compare(True, a if str(a) < str(a.times(-1)) else a.times(-1)) for a in both), *kept)


def normals(v: Iterable[Term]) -> Value:
    """The terms of `v` in normal form, those that read the same added up."""
    found: dict[object, Term] = {}
    for term in v:
        t = normal(term)
        if t is None:
            continue
        own = {b: trees.name(f"%c{k}") for k, b in enumerate(t.binders)}
        atoms = tuple(sorted(((key, tuple(moved(a, own) for a in at)) for key, at in t.atoms), key=repr))
        text = atoms, len(own), frozenset(told(p, own) for p in t.preds)
        same = found.get(text)
        found[text] = t if same is None else replace(same, coefficient=same.coefficient + t.coefficient)
    return [t for t in found.values() if t.coefficient]


@dataclass(frozen=True)
class Node:
    """A scalar function, or another name, of values over `params`."""

    key: str
    kind: str
    params: tuple[str, ...]
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class OneCall:
    """A call of an external function: its sizes there, and the sizes below which its node's parameters are at its place
    in a program, each None where that is not plain."""

    external: trees.External
    sizes: Mapping[str, Affine]
    ranges: tuple[Affine | None, ...]


class Opens(Protocol):
    """The states of recurrences, as `recurrences.States` knows them."""

    def opened(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with the states that it reads replaced by what is known of them."""

    def unrolled(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with states that are read after a step replaced by the result of that step."""


class Values:
    """Nodes, and whether values are equal."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.zeros = False
        """Whether to look closer, at where the arguments of functions are 0."""
        self.nodes: dict[str, Node] = {}
        self.linear = False
        """Whether where_ge and where_gt are taken as products with their last argument."""
        self.branches = False
        """Whether where_ge and where_gt are taken as their last argument in brackets of a comparison."""
        self.calls: dict[str, OneCall] = {}
        """The nodes that are calls of external functions."""
        self.states: Opens | None = None
        """The states of recurrences."""
        self._alike: dict[object, list[Node]] = {}
        self._same: dict[object, Node] = {}
        self._functions: set[str] = set()
        """The nodes that are scalar functions, by their keys."""

    # ---- zero

    def is_zero(self, v: Value, context: Sequence[Pred]) -> bool:
        """Whether it is shown that `v` is 0 wherever `context` holds."""
        try:
            return not self.left(v, context)
        except Undecided:
            return False

    def left(self, v: Value, context: Sequence[Pred]) -> Value:
        """The part of `v` that is not shown to be 0 wherever `context` holds."""
        left = self._left(v, context)
        if any(key == REAL and not _is_name(places[0]) for t in left for key, places in t.atoms):
            return self._left(spread(left), context)
        return left

    def _left(self, v: Value, context: Sequence[Pred]) -> Value:
        v = _divided(self.cancelled(normals(v), context))
        unfolded = 0
        while True:
            v = self._groups(v, context)
            shortest = min(v, key=lambda t: (not self._cuts(t), len(t.atoms)), default=None)
            cuts = self._cuts(*([shortest] if shortest and len(v) <= _PRODUCTS else v))
            if not cuts or (unfolded >= _UNFOLDED and len(v) > _PRODUCTS):
                return v
            unfolded += 1
            v = _divided(self.cancelled(normals(self.unfolded(v, f"#{max(cuts)}")), context))

    def _cuts(self, *v: Term) -> list[int]:
        """The numbers of the nodes in `v` that only name a value."""
        return [int(key[1:]) for t in v for key, _ in t.atoms if key in self.nodes and self.nodes[key].kind in CUTS]

    def unfolded(self, v: Value, key: str) -> Value:
        """`v` with the value that the node `key` names in its place."""
        found: Value = []
        for t in v:
            k = next((k for k, (other, _) in enumerate(t.atoms) if other == key), None)
            if k is None:
                found.append(t)
                continue
            node, places = self.nodes[key], t.atoms[k][1]
            rest = replace(t, atoms=t.atoms[:k] + t.atoms[k + 1 :])
            here = at(node.arguments[0], dict(zip(node.params, places, strict=True)))
            found += self.unfolded(within_term(rest, here), key)
            if len(found) > _MOST_TERMS:
                raise Undecided("too many terms")
        return found

    def _groups(self, v: Value, context: Sequence[Pred]) -> Value:
        groups: dict[tuple[str, ...], Value] = {}
        for t in v:
            groups.setdefault(t.skeleton, []).append(t)
        return [t for group in groups.values() for t in self._group(group, context)]

    def _group(self, terms: Value, context: Sequence[Pred]) -> Value:
        """What is left of terms with the same skeleton: each is a weight on the points of the term with most
        binders."""
        if len(terms) > 1 and all(map(_is_pinned, terms)):
            apart: dict[Atom, Value] = {}
            for t in terms:
                apart.setdefault(t.atoms[0], []).append(t)
            if len(apart) > 1:
                return [t for group in apart.values() for t in self._group(group, context)]
        waiting = sorted(terms, key=lambda t: -len(t.binders))
        left: Value = []
        while waiting:
            self.facts.budget.spend()
            first, *rest = waiting
            waiting, mine = [], [first]
            cells = self._cells(first, first.moved({}), context)
            if not cells:
                left.append(first)
                waiting = rest
                continue
            for t in rest:
                if _apart(first, t):
                    waiting.append(t)
                    continue
                found = self._cells(first, t.moved({}), context)
                if found:
                    cells += found
                    mine.append(t)
                else:
                    waiting.append(t)
            if not self.facts.vanish(cells, context):
                left += mine
        return left

    def _cells(self, first: Term, t: Term, context: Sequence[Pred]) -> list[tuple[Fraction, tuple[Pred, ...]]]:
        """`t` as weights on the points of `first`: the average over all ways to match its factors with those of
        `first`."""
        found = list(islice(self._aligned(first, t, context), _ALIGNMENTS))
        return [(t.coefficient / len(found), p) for p in found]

    def _aligned(self, first: Term, t: Term, context: Sequence[Pred]) -> Iterator[tuple[Pred, ...]]:
        """The predicates of `t` in terms of the binders of `first`, for each way to match the factors.

        A match is a map f from the binders of t to those of `first`, and a map g back, such that wherever t has a point
        b, the factors of `first` at f(b) read the same as those of t, and g(f(b)) = b. Then the points of t are those r
        at which its predicates hold at g(r), and f(g(r)) = r.
        """
        for pairs in matchings(first.atoms, t.atoms, first.binders):
            equations = [(a, b) for x, y in pairs for a, b in zip(x, y, strict=True)]
            there = solve(equations, first.binders)
            back = solve([(b, a) for a, b in equations], t.binders)
            if there is None or back is None:
                continue
            free = [b for b in first.binders if b not in there[0]]
            others = [b for b in t.binders if b not in back[0]]
            if len(free) != len(others):
                continue
            if free:
                equations += [(trees.name(a), trees.name(b)) for a, b in zip(free, others, strict=True)]
                there = solve(equations, first.binders)
                back = solve([(b, a) for a, b in equations], t.binders)
            if (
                there is None
                or back is None
                or there[0].keys() != set(first.binders)
                or back[0].keys() != set(t.binders)
            ):
                continue
            f, g = there[0], back[0]
            if names_of(f.values()) & set(first.binders) or names_of(g.values()) & set(t.binders):
                continue
            needed = [moved(a, f) - b for x, y in pairs for a, b in zip(x, y, strict=True)]
            needed += [moved(g[b], f) - trees.name(b) for b in t.binders]
            if not all(self.facts.implies((*context, *t.preds), Compare(True, a)) for a in needed if a != Affine(())):
                continue
            image = [moved(f[r], g) - trees.name(r) for r in first.binders]
            found = parts_of((*(renamed(p, g) for p in t.preds), *(Compare(True, a) for a in image if a != Affine(()))))
            yield (trees.Any(),) if found is None else found

    # ---- one law of division

    def cancelled(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with (sum s. e) * recip(sum s. e) = 1 used within its terms."""
        found = [self._cancelled(t, context) for t in v]
        return v if all(a is b for a, b in zip(found, v, strict=True)) else normals(found)

    def _cancelled(self, t: Term, context: Sequence[Pred]) -> Term:
        for k, (key, places) in enumerate(t.atoms):
            node = self.nodes.get(key)
            if node is None or node.kind != "recip":
                continue
            below = normals(at(node.arguments[0], dict(zip(node.params, places, strict=True))))
            if len(below) != 1 or not below[0].atoms:
                continue
            for rest in self._without(t, k, below[0], context):
                return self._cancelled(rest, context)
        return t

    def _without(self, t: Term, k: int, below: Term, context: Sequence[Pred]) -> Iterator[Term]:
        """`t` without its factor k, which is the reciprocal of `below`, and the factors that are `below`."""
        choices = [[j for j, (key, _) in enumerate(t.atoms) if key == wanted and j != k] for wanted, _ in below.atoms]
        for chosen in islice(product(*choices), _CANDIDATES):
            if len(set(chosen)) < len(chosen):
                continue
            equations = [
                (a, b)
                for (_, mine), j in zip(below.atoms, chosen, strict=True)
                for a, b in zip(mine, t.atoms[j][1], strict=True)
            ]
            found = solve(equations, below.binders)
            if found is None or found[1] or found[0].keys() != set(below.binders):
                continue
            bound = [plain_name(a) for a in found[0].values()]
            if None in bound or len(set(bound)) < len(bound) or not set(bound) <= set(t.binders):
                continue
            rest = tuple(atom for j, atom in enumerate(t.atoms) if j != k and j not in chosen)
            if names_of(a for _, at in (*rest, t.atoms[k]) for a in at) & set(bound):
                continue
            inside = [p for p in t.preds if names_in(p) & set(bound)]
            outside = [p for p in t.preds if not names_in(p) & set(bound)]
            own = [renamed(p, found[0]) for p in below.preds]
            known = [*context, *outside]
            some: Pred = trees.All(tuple(inside))
            for b in bound:
                size = range_of(b or "", inside)
                if size is None:
                    break
                some = Exists(b or "", size, some)
            else:
                if (
                    all(self.facts.implies([*known, *inside], p) for p in own)
                    and all(self.facts.implies([*known, *own], p) for p in inside)
                    and self.facts.implies(known, some)
                ):
                    left = tuple(b for b in t.binders if b not in bound)
                    yield Term(t.coefficient / below.coefficient, rest, left, tuple(outside))

    # ---- nodes

    def node(self, kind: str, arguments: Sequence[Value], contexts: Sequence[Sequence[Pred]]) -> Atom:
        """The atom for the function `kind` of these values, each of which matters only where its context holds."""
        self.facts.budget.spend()
        if self.states is not None:
            arguments = [self.states.opened(v, context) for v, context in zip(arguments, contexts, strict=True)]
        known, values = self._sought(kind, arguments, contexts)
        if known is not None or self.states is None:
            return known or self._made(kind, values)
        made = [self.states.unrolled(v, context) for v, context in zip(arguments, contexts, strict=True)]
        if made == arguments:
            return self._made(kind, values)
        known, after = self._sought(kind, made, contexts)
        return known or self._made(kind, values, after)

    def _sought(
        self, kind: str, arguments: Sequence[Value], contexts: Sequence[Sequence[Pred]]
    ) -> tuple[Atom | None, tuple[Value, ...]]:
        """A known node of these values, if there is one, and the arguments of a new one."""
        around = list(contexts)
        if kind.startswith(CHOICE):  # a chosen index is in its range wherever equal choices are, too
            around[-1] = ()
        values = tuple(
            [self._weakened(t, given) for t in normals(v) if k < _marked(kind) or not self._is_dead(t, context)]
            for k, (v, given, context) in enumerate(zip(arguments, around, contexts, strict=True))
        )
        order, text = _canonical(values, kind)
        known = self._same.get((kind, text))
        if known is not None:
            return (known.key, tuple(order)), values
        for node in self._alike.get(_signature(kind, values), ())[-_NODES:]:
            for names in islice(self._substitutions(node, values), _CANDIDATES):
                mine = self._read_at(node, names, contexts)
                pairs = islice(zip(mine, values, contexts, strict=True), _marked(kind), None)
                if all(self.is_zero([*v, *negated(w)], context) for v, w, context in pairs):
                    return (node.key, tuple(names[p] for p in node.params)), values
        return None, values

    def _read_at(self, node: Node, names: Mapping[str, Affine], contexts: Sequence[Sequence[Pred]]) -> Iterator[Value]:
        """The arguments of a node at some places, in the form that `node` has, which may be after steps of states."""
        own = self.nodes[node.key]
        for v, context in zip(own.arguments, contexts, strict=True):
            there = at(v, names)
            yield there if node is own or self.states is None else self.states.unrolled(there, context)

    def _made(self, kind: str, values: Sequence[Value], same: Sequence[Value] | None = None) -> Atom:
        """A new node of these values; `same` are equal values after steps of states."""
        order, text = _canonical(values, kind)
        node = self.named(kind, order, values)
        self._alike.setdefault(_signature(kind, values), []).append(node)
        self._same[kind, text] = node
        if same is not None:
            other = replace(node, arguments=_over(node.params, order, same))
            self._alike.setdefault(_signature(kind, same), []).append(other)
        return node.key, tuple(order)

    def call(self, f: str, arguments: Sequence[Value], context: Sequence[Pred]) -> Value:
        """A scalar function of values, where `context` holds."""
        last: Value = number(Fraction(1))
        if self.linear and f in LINEAR:
            *rest, last = arguments
            arguments = [*rest, number(Fraction(1))]
        one = self.function(f, arguments, context)
        return times([Term(Fraction(1), (one,))], last)

    def function(self, f: str, arguments: Sequence[Value], context: Sequence[Pred]) -> Atom:
        """The atom that is a scalar function of values, where `context` holds."""
        one = self.node(f, arguments, [context] * len(arguments))
        self._functions.add(one[0])
        return one

    def narrowed(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with the arguments of functions restricted to where the term has points: to one element of a matrix, say,
        where other elements are 0 there."""
        return [
            replace(t, atoms=tuple(self._narrowed(atom, (*context, *t.preds)) for atom in t.atoms)) for t in normals(v)
        ]

    def _narrowed(self, atom: Atom, context: Sequence[Pred]) -> Atom:
        key, places = atom
        if key not in self._functions:
            return atom
        node = self.nodes[key]
        names = dict(zip(node.params, places, strict=True))
        return self.function(node.kind, [self.narrowed(at(v, names), context) for v in node.arguments], context)

    def chosen(self, kind: str, arguments: Sequence[Value], contexts: Sequence[Sequence[Pred]], i: str) -> Affine:
        """The index i of a choice, whose arguments are the index with the size of its range, the compared values, and
        the condition within that range. Choices that count from different places are the same choice: by i + a the same
        place is chosen as by i, since both go through the places in the same order."""
        key, places = self.node(kind, arguments, contexts)
        shift = places[0] - trees.name(i)
        if any(i in names_in(a) for a in (shift, *places[1:])):
            raise Undecided("a choice by an index that is read elsewhere")
        node = self.nodes[key]
        if key not in self.facts.arrays:
            names = {p: trees.name(f"$at{k}") for k, p in enumerate(node.params)}
            ((_, (_, size)),) = node.arguments[0][0].atoms
            params = tuple(f"$at{k}" for k in range(1, len(node.params)))
            self.facts.arrays[key] = params, moved(size, names)
            (*where_,) = node.arguments[2]
            if len(where_) == 1 and not where_[0].binders and where_[0].preds:
                own_index = fresh("%")
                names = {**names, node.params[0]: trees.name(own_index)}
                size = self.facts.arrays[key][1]
                ranges = fine(within(trees.name(own_index), size))
                there = tuple(p for q in where_[0].preds if (p := renamed(q, names)) not in ranges)
                self.facts.conditions[key] = params, Exists(own_index, size, trees.All(there))
        return Affine(((Element(key, places[1:]), 1),)) - shift

    def support(self, v: Value, context: Sequence[Pred]) -> tuple[Pred, ...]:
        """Predicates that hold wherever `v` is not 0, except those that hold wherever `context` does."""
        found: list[Pred] = []
        for t in (t for t in normals(v) if not self._is_dead(t, context)):
            some: Pred = trees.All(t.preds)
            for b in t.binders:
                size = range_of(b, t.preds)
                if size is None or not self.facts.implies(t.preds, Compare(False, trees.name(b))):
                    return ()
                some = Exists(b, size, some)
            found.append(some)
        where = found[0] if len(found) == 1 else trees.Any(tuple(found))
        return () if self.facts.implies(context, where) else fine(where)

    def named(self, kind: str, order: Sequence[Affine], values: Sequence[Value]) -> Node:
        """A new node of these values, which read `order` where the node has its parameters."""
        params = tuple(fresh() for _ in order)
        node = Node(f"#{len(self.nodes)}", kind, params, _over(params, order, values))
        self.nodes[node.key] = node
        return node

    def _is_dead(self, t: Term, context: Sequence[Pred]) -> bool:
        """Whether `t` has no points where `context` holds; asked only on a closer look, since it rarely is so."""
        return self.zeros and self.facts.empty((*context, *t.preds))

    def _weakened(self, t: Term, context: Sequence[Pred]) -> Term:
        """`t` without predicates that the context and the others imply."""
        preds = list(t.preds)
        for p in t.preds:
            if not names_in(p) & set(t.binders):
                rest = [q for q in preds if q is not p]
                if self.facts.implies((*context, *rest), p):
                    preds = rest
        return replace(t, preds=tuple(preds))

    def _substitutions(self, node: Node, values: Sequence[Value]) -> Iterator[dict[str, Affine]]:
        """Index expressions for the node's parameters that may make its arguments these values."""
        order, _ = _canonical(values, node.kind)
        if len(order) == len(node.params):
            yield dict(zip(node.params, order, strict=True))
        found: list[dict[str, Affine]] = [{}]
        both = islice(zip(node.arguments, values, strict=True), _marked(node.kind), None)
        pairs = [(t, v) for u, v in both for t in u]
        for t, v in sorted(pairs, key=lambda pair: -len(pair[0].atoms)):
            more = []
            for known in found:
                unknown = [p for p in node.params if p not in known]
                hits = [
                    {**known, **solution}
                    for w in v
                    if unknown and w.skeleton == t.skeleton
                    for matched in islice(matchings(_at(t.atoms, known), w.atoms, {*unknown, *t.binders}), _CANDIDATES)
                    if (solution := _parameters(matched, known, unknown, t, w))
                ]
                more += hits or [known]
            found = more[:_CANDIDATES]
        free = sorted({x for v in values for t in v for x in t.free})
        for known in found:
            unknown = [p for p in node.params if p not in known]
            left = [x for x in free if trees.name(x) not in known.values()]
            for chosen in islice(permutations(left, len(unknown)), _CANDIDATES):
                yield {**known, **{p: trees.name(x) for p, x in zip(unknown, chosen, strict=True)}}


LINEAR = {"where_ge": ">=", "where_gt": ">"}
"""The functions that are their last argument where this comparison of the others holds, else 0."""
CHOICE = "choice"
INDEX = "index"
"""The atom with a chosen index and the size of its range: the first argument of a choice."""
TEST = "test"
SUM = "+"
LET = "let"
ARGUMENT = "argument"
"""The atoms that stand for arbitrary numbers and distinguish the elements of an array: two arrays are equal if the sums
of their elements times these atoms are."""
CUTS = {SUM, LET}
"""Kinds of nodes that only name a value."""


def _signature(kind: str, values: Sequence[Value]) -> object:
    """An object that is the same for nodes whose values may be equal."""
    return kind, tuple(tuple(sorted(t.skeleton for t in v)) for v in values)


def _divided(v: Value) -> Value:
    """`v` without the factors common to all its terms; `v` is 0 wherever the result is."""
    if len(v) < 2:
        return v
    bound = frozenset().union(*(t.binders for t in v))
    common = Counter(atom for atom in v[0].atoms if not names_of(atom[1]) & bound)
    for t in v[1:]:
        common &= Counter(t.atoms)
    return [replace(t, atoms=tuple((Counter(t.atoms) - common).elements())) for t in v] if common else v


def _marked(kind: str) -> int:
    """How many of the arguments of a node of that kind only name its parameters."""
    return int(kind.startswith(CHOICE))


def _is_pinned(t: Term) -> bool:
    """Whether a term reads one thing, at a place that consists of numbers."""
    return len(t.atoms) == 1 and not t.binders and not any(x.terms for x in t.atoms[0][1])


def _apart(a: Term, b: Term) -> bool:
    """Whether two terms of the same skeleton read one thing, at different places that consist of numbers."""
    return _is_pinned(a) and _is_pinned(b) and a.atoms != b.atoms


def _parameters(
    matched: list[tuple[tuple[Affine, ...], tuple[Affine, ...]]],
    known: Mapping[str, Affine],
    unknown: Sequence[str],
    t: Term,
    w: Term,
) -> dict[str, Affine] | None:
    equations = [(moved(a, known), b) for x, y in matched for a, b in zip(x, y, strict=True)]
    solution = solve(equations, {*unknown, *t.binders})
    if solution is None:
        return None
    hidden = {*w.binders, *t.binders, *unknown}
    return {p: a for p, a in solution[0].items() if p in unknown and not names_in(a) & hidden}


def _at(atoms: Sequence[Atom], names: Mapping[str, Affine]) -> list[Atom]:
    return [(key, tuple(moved(a, names) for a in places)) for key, places in atoms]


def _canonical(values: Sequence[Value], kind: str) -> tuple[list[Affine], object]:
    """The expressions that become parameters of a node of these values, in an order that does not depend on names, and
    the values with these expressions replaced by their numbers. They are all places, if no term is bound or masked and
    no index is chosen; otherwise they are all free indices, where elements of index arrays replace an index on which
    the values depend only through them."""
    simple = not kind.startswith(CHOICE) and all(not t.binders and not t.preds for v in values for t in v)
    order: dict[Affine, None] = {}
    sorted_values = [sorted(v, key=lambda t: (t.skeleton, -t.coefficient)) for v in values]
    for v in sorted_values:
        for t in v:
            for _, places in sorted(t.atoms, key=lambda atom: atom[0]):
                for a in places:
                    if simple:
                        order.setdefault(a)
                    else:
                        order.update(dict.fromkeys(trees.name(x) for x in _indices(a) if x not in t.binders))
    if not simple:
        for v in sorted_values:
            for t in v:
                for p in t.preds:
                    order.update(dict.fromkeys(trees.name(x) for x in sorted(names_in(p)) if x in t.free))
        through = _elements_of(values)
        order = dict.fromkeys(b for a in order for b in through.get(plain_name(a) or "") or (a,))
    names = {a: trees.name(f"$c{k}") for k, a in enumerate(order)}
    text = []
    for v in values:
        terms = []
        for term in v:
            t = _with_places(term, names)
            own = {b: trees.name(f"%c{k}") for k, b in enumerate(t.binders)}
            read = [(key, tuple(moved(a, own) for a in places)) for key, places in t.atoms]
            atoms = tuple(sorted(read, key=repr))
            terms.append((t.coefficient, atoms, len(own), frozenset(told(p, own) for p in t.preds)))
        text.append(frozenset(terms) if len(set(terms)) == len(terms) else tuple(terms))
    return list(order), tuple(text)


def _elements_of(values: Sequence[Value]) -> dict[str, list[Affine]]:
    """Free indices that occur only in elements of index arrays at that index and no other, with these elements."""
    found: dict[str, dict[Affine, None]] = {}
    bare: set[str] = set()
    for t in (t for v in values for t in v):
        for a in (*(a for _, at in t.atoms for a in at), *(a for p in t.preds for a in affines(p))):
            for atom, _ in a.terms:
                own = [x for x in names_in_atom(atom) if is_index(x)]
                if isinstance(atom, Element) and len(own) == 1:
                    found.setdefault(own[0], {})[Affine(((atom, 1),))] = None
                else:
                    bare.update(own)
        bare.update(t.binders)
    return {x: sorted(elements, key=repr) for x, elements in found.items() if x not in bare}


def _with_places(t: Term, names: Mapping[Affine, Affine]) -> Term:
    """`t` with whole places replaced, if these are named, or else with names and elements replaced."""
    if all(a in names for _, places in t.atoms for a in places) and not t.preds and not t.binders:
        return replace(t, atoms=tuple((key, tuple(names[a] for a in places)) for key, places in t.atoms))
    elements = {atom: b for a, b in names.items() for atom, _ in a.terms if isinstance(atom, Element)}
    if elements:
        atoms = tuple((key, tuple(without_elements(a, elements) for a in places)) for key, places in t.atoms)
        t = replace(t, atoms=atoms, preds=tuple(changed(p, lambda a: without_elements(a, elements)) for p in t.preds))
    return t.moved({x: b for a, b in names.items() if (x := plain_name(a)) is not None})


def _over(params: Sequence[str], order: Sequence[Affine], values: Sequence[Value]) -> tuple[Value, ...]:
    """`values`, which read `order`, over the parameters of a node."""
    names = {a: trees.name(p) for a, p in zip(order, params, strict=True)}
    return tuple([_with_places(t, names) for t in v] for v in values)


def _indices(a: Affine) -> Iterator[str]:
    """The names of indices in `a`, those with large coefficients first."""
    for atom, _ in sorted(a.terms, key=lambda term: (isinstance(term[0], str), -abs(term[1]), -term[1])):
        if isinstance(atom, Element):
            for b in atom.at:
                yield from _indices(b)
        elif is_index(atom):
            yield atom


def plain_name(a: Affine) -> str | None:
    """The name that an index expression consists of, if it is just a name."""
    match a:
        case Affine(((str() as x, 1),), 0):
            return x
    return None


def range_of(b: str, preds: Sequence[Pred]) -> Affine | None:
    """The first size such that `preds` say that `b` is below it."""
    for p in preds:
        if isinstance(p, Compare) and not p.equal and (b, -1) in p.value.terms:
            size = p.value + trees.name(b) + trees.number(1)
            if not any(is_index(x) for x in names_in(size)):
                return size
    return None
