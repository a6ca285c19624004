"""Triangles of products that are only multiplied and summed again are computed where they are read.

    let t = gen i:n, j:n. sum k. [j <= i] * Q[i, k] * K[j, k] in  .. gen i. sum j. [j <= i] * t[i, j] * V[j, b] ..
        ->  .. gen i. sum j, k. [j <= i] * Q[i, k] * K[j, k] * V[j, b] ..

Causal linear attention is of that form, and so are its derivatives: sums of such products, and of what has one of both
indices. As sums of three factors they are computed in chunks (`arrays.sums.chunked`) or as running sums, in time that
is linear in n, and no triangle is ever stored. It is the same with pairs of a group, [p[j] = p[i]], or of one in order,
[p[j] = p[i] and j <= i], without an index k: sums of these are shared by a group, or run in it. An index k may also be
what ties j to i, [p[j] = p[k] and q[k] = q[i]]: then one sum is nested in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Add,
    Bracket,
    Call,
    Const,
    Expr,
    Gen,
    Let,
    Mul,
    Sum,
    Var,
    bracket,
    children,
    number,
    sums,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import (
    Equal,
    Exists,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lower.plan.dependence import FreeIndices, is_finite, places, reads, results, telling, variable
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import unanswered
from tensorlang.sets.solve import Ranges, ranges_predicate

_MOST_TERMS, _MOST_FACTORS = 6, 9

Binder = tuple[Index, Affine]
Places = Mapping[Atom, Affine]


def inline_running_products(f: Function) -> Function:
    """`f` without arrays that are zero but in a triangle of products, where all that read them sum products of them."""
    statements, body = bindings(f.body)
    triangles: dict[Var, _Triangle] = {}
    for x, e in statements:
        t = _triangle(e, triangles) if isinstance(x, Var) else None
        if t is not None and isinstance(x, Var):
            triangles[x] = t
    while True:
        sites: dict[Expr, Expr] = {}
        wrong = {x for x, t in triangles.items() if not t.read <= triangles.keys()}
        for e in (*(e for x, e in statements if x not in triangles), *results(body)):
            wrong |= _misread(e, triangles, sites)
        if not wrong:
            break
        triangles = {x: t for x, t in triangles.items() if x not in wrong}
    if not sites:
        return f
    memo: dict[Expr, Expr] = {}
    made = _rewritten(body, sites, memo)
    for bound, e in reversed(statements):
        if bound not in triangles:
            made = Let(bound, _rewritten(e, sites, memo), made)
    return replace(f, body=made)


@dataclass(frozen=True)
class _Term:
    """value * sum loops. [parts] * the product of the factors, each an element of a variable."""

    value: Expr
    loops: tuple[Binder, ...] = ()
    parts: tuple[Predicate, ...] = ()
    factors: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class _Triangle:
    """gen own. [what ties two indices] * the terms, each factor of which has one of both at most."""

    own: tuple[Index, ...]
    terms: tuple[_Term, ...]
    read: frozenset[Var]
    """Other triangles of which it is made."""


def _triangle(e: Expr, known: Mapping[Var, _Triangle]) -> _Triangle | None:
    sizes: dict[Index, Affine] = {}
    while isinstance(e, Gen):
        sizes[e.index] = e.size
        e = e.body
    if len(sizes) < 2:
        return None
    read: set[Var] = set()
    terms = [_told(t, sizes) for t in _terms(e, known, read)]
    if not terms:
        return None
    ends = _ends_of(terms[0], sizes)
    if ends is None or any(_ends_of(t, sizes) != ends for t in terms) or any(sizes[i].is_constant for i in ends):
        return None
    return _Triangle(tuple(sizes), tuple(terms), frozenset(read))


def _ends_of(t: _Term, sizes: Ranges) -> frozenset[Index] | None:
    """The indices of an array that the conditions of `t` tie, two or all, if no factor has two of them."""
    ties = [q for q in t.parts if not free_atoms(q).isdisjoint(sizes)]
    ends = _ends(ties if t.loops else _of_pairs(ties))
    if ends is None:
        asks = len(sizes) == 2 and ties and all(isinstance(q, Exists) for q in ties)  # sums may have the answer
        tied = _tied(t) >= sizes.keys() and _is_tree(t, dict(t.loops), sizes)
        ends = frozenset(sizes) if asks or tied else None
    elif not ends <= sizes.keys() or len({sizes[i] for i in ends}) > 1:
        return None
    return None if ends is None or any(ends <= _read_at(part) for part in t.factors) else ends


def _terms(e: Expr, known: Mapping[Var, _Triangle], read: set[Var]) -> tuple[_Term, ...]:
    """`e` multiplied out; nothing if it is no sum of products of elements, or a long one."""
    found = run(_multiplied_out(e, known, read))
    if len(found) > _MOST_TERMS or any(len(t.factors) > _MOST_FACTORS for t in found):
        return ()
    return found


def _multiplied_out(e: Expr, known: Mapping[Var, _Triangle], read: set[Var]) -> Deep[tuple[_Term, ...]]:
    x = variable(e)
    if x is not None and x in known:
        at = plain_places(e)
        if at is None or len(at) != len(known[x].own):
            return ()
        read.add(x)
        moved: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip(known[x].own, at, strict=True)}
        return tuple(_at(t, moved) for t in known[x].terms)
    if x is not None:
        return (_Term(number(1), factors=(e,)),)
    match e:
        case Const():
            return (_Term(e),)
        case Bracket(p, a):
            inner = yield from call(_multiplied_out(a, known, read))
            return tuple(replace(t, parts=tuple(dict.fromkeys((*conjuncts(p), *t.parts)))) for t in inner)
        case Sum() if _is_vector(e, known):
            return (_Term(number(1), factors=(e,)),)
        case Sum(i, size, a):
            inner = yield from call(_multiplied_out(a, known, read))
            return tuple(replace(t, loops=((i, size), *t.loops)) for t in inner)
        case Add(a, b, sign):
            left = yield from call(_multiplied_out(a, known, read))
            right = yield from call(_multiplied_out(b, known, read))
            if not left or not right:
                return ()
            return (*left, *(replace(t, value=_product([number(sign), t.value])) for t in right))
        case Mul(a, b):
            left = yield from call(_multiplied_out(a, known, read))
            right = yield from call(_multiplied_out(b, known, read))
            if len(left) * len(right) > _MOST_TERMS:
                return ()
            return tuple(_times(t, u) for t in left for u in right)
        case _:
            return (_Term(number(1), factors=(e,)),) if _is_vector(e, known) else ()


def _is_vector(e: Expr, known: Mapping[Var, _Triangle]) -> bool:
    """Whether `e`, a sum or a function, is one for each value of an index, to be computed once for each."""
    finite = is_finite(e) or isinstance(e, Call)
    return finite and len(_read_at(e)) <= 1 and all(variable(x) not in known for x in reads(e))


def _times(t: _Term, u: _Term) -> _Term:
    parts = tuple(dict.fromkeys((*t.parts, *u.parts)))
    return _Term(_product([t.value, u.value]), (*t.loops, *u.loops), parts, (*t.factors, *u.factors))


def _product(several: Sequence[Expr]) -> Expr:
    kept = [e for e in several if e is not number(1)] or [number(1)]
    made = kept[0]
    for e in kept[1:]:
        made = number(made.value * e.value) if isinstance(made, Const) and isinstance(e, Const) else Mul(made, e)
    return made


def _at(t: _Term, at: Places) -> _Term:
    """`t` at these places, its loops renamed so that no two of one sum are the same."""
    fresh = {i: Index(i.name) for i, _ in t.loops}
    moved: dict[Atom, Affine] = {**at, **{i: atom_affine(j) for i, j in fresh.items()}}
    return _Term(
        t.value,
        tuple((fresh[i], size) for i, size in t.loops),
        tuple(substitute(q, moved) for q in t.parts),
        tuple(_moved(e, moved) for e in t.factors),
    )


def _moved(e: Expr, at: Places) -> Expr:
    return with_atoms(rewrite(e, lambda _: None, _with_own_index), at)


def _with_own_index(_: Expr, e: Expr) -> Expr:
    """`e`, a sum over an index that nothing else binds if it is a sum."""
    if not isinstance(e, Sum):
        return e
    own = Index(e.index.name)
    return Sum(own, e.size, with_atoms(e.body, {e.index: atom_affine(own)}))


def _ends(ties: Sequence[Predicate], scattered: bool = False) -> frozenset[Index] | None:
    """The two indices that `ties` say are in order, j <= i or j < i, or of one group, p[j] = p[i], or both; or one is
    an element of the other, i = p[j], if that is `scattered`."""
    indices = frozenset(i for q in ties for i in free_atoms(q) if isinstance(i, Index))
    if len(indices) != 2 or not all(_compares(q, indices) for q in ties):
        return None
    if not _in_groups(ties, scattered) and not (len(ties) == 1 and _is_order(ties[0])):
        return None
    return indices


def _compares(q: Predicate, indices: frozenset[Index]) -> bool:
    """Whether `q` compares something of one of two indices with something of the other."""
    if not isinstance(q, Equal | NonNegative):
        return False
    found = [
        indices.intersection(atom_affine(x).free) for x in (q.difference if isinstance(q, Equal) else q.value).atoms
    ]
    return len(frozenset().union(*found)) == 2 and all(len(at) <= 1 for at in found)


def _in_groups(ties: Sequence[Predicate], scattered: bool = False) -> bool:
    """Whether some of `ties` ask for elements of a group, and at most one other for an order."""
    equal = [q.difference for q in ties if isinstance(q, Equal)]
    if not equal or len(ties) - len(equal) > 1:
        return False
    return all(len(a.terms) == 2 and len(a.lookups) >= 1 and (scattered or not _has_index(a)) for a in equal)


def _has_index(a: Affine) -> bool:
    return any(isinstance(x, Index) for x in a.atoms)


def _is_order(q: Predicate) -> bool:
    if not isinstance(q, NonNegative) or q.value.lookups or q.value.constant not in (0, -1):
        return False
    return sorted(k for _, k in q.value.terms) == [-1, 1]


def plain_places(e: Expr) -> tuple[Index, ...] | None:
    """The indices at which `e` reads an element of a variable, each another one; None if it is anything else."""
    if variable(e) is None:
        return None
    at = [a.indices[0] for a in places(e) if len(a.indices) == 1 and a is atom_affine(a.indices[0])]
    return tuple(at) if len(at) == len(places(e)) == len(set(at)) else None


def _read_at(e: Expr) -> frozenset[Index]:
    """The indices on which a factor depends: an element of a variable, a sum or a function."""
    if variable(e) is None:
        return FreeIndices().free(e, {})
    return frozenset(i for a in places(e) for i in a.free if isinstance(i, Index))


def _misread(whole: Expr, known: Mapping[Var, _Triangle], sites: dict[Expr, Expr]) -> set[Var]:
    """The triangles that are read otherwise than in sums of products; what becomes of these sums is put in `sites`."""
    around: dict[Index, Affine] = {}
    wrong: set[Var] = set()
    seen: set[Expr] = {whole}
    stack: list[Expr] = [whole]
    while stack:
        part = stack.pop()
        x = variable(part)
        if x is not None and x not in known:
            continue
        made = _diagonal(part, known[x], around) if x is not None else _expanded(part, around, known)
        if x is not None and made is None:
            wrong.add(x)
            continue
        if made is not None:
            sites[part] = made
            continue
        if isinstance(part, Gen | Sum):
            around[part.index] = part.size
        fresh = [c for c in children(part) if c not in seen]
        seen |= {*fresh}
        stack += fresh
    return wrong


def _diagonal(read: Expr, t: _Triangle, around: Ranges) -> Expr | None:
    """An element of which both indices are the same, of a triangle of sums, as the sums that it is."""
    at = places(read)
    if len(at) != len(t.own) or len(set(at)) != 1 or not all(term.loops for term in t.terms):
        return None
    (place,) = set(at)
    runs: list[Expr] = []
    for term in t.terms:
        moved = _at(term, dict.fromkeys(t.own, place))
        first, *others = moved.loops
        runs += _runs([replace(moved, loops=tuple(others))], first, (), around, _running)
    return _total(runs) if len(runs) == len(t.terms) else None


def _expanded(site: Expr, around: Ranges, known: Mapping[Var, _Triangle]) -> Expr | None:
    """A sum up to where it stands, of products of a triangle or of sums, as sums of what these are made of."""
    loops: list[Binder] = []
    parts: list[Predicate] = []
    e = site
    while isinstance(e, Sum | Bracket):
        if isinstance(e, Sum):
            loops.append((e.index, e.size))
        else:
            parts += conjuncts(e.pred)
        e = e.body
    if not loops:
        return None
    read: set[Var] = set()
    terms = _terms(e, known, read)
    if not terms or not (read or len(terms) > 1 or any(t.loops for t in terms)):
        return None
    *others, last = loops
    whole = [replace(t, loops=(*others, *t.loops)) for t in terms] if others else []
    if runs := _runs(whole, last, parts, around, _over_tree):
        return _total(runs)
    for binder in reversed(loops):
        others = [b for b in loops if b is not binder]
        inside = [q for q in parts if binder[0] in free_atoms(q)]
        outside = [q for q in parts if q not in inside]
        runs = _runs(terms, binder, inside, {**around, **dict(others)}, _running)
        if runs and len(others) > 1:
            return _total([sums(others, bracket(conjunction(outside), e)) for e in runs])
        if runs:
            return sums(others, bracket(conjunction(outside), _total(runs)))
    return None


def _total(several: Sequence[Expr]) -> Expr:
    return fold(lambda a, b: Add(a, b, 1), several)


def _runs(
    terms: Sequence[_Term],
    binder: Binder,
    parts: Sequence[Predicate],
    around: Ranges,
    way: Callable[[_Term, Binder, Ranges], Expr | None],
) -> list[Expr]:
    """The sums of the terms over one index under `parts`, each in this way; nothing if one can't be."""
    found: list[Expr] = []
    summed, size = binder
    for t in terms:
        whole = replace(t, parts=tuple(dict.fromkeys((*parts, *t.parts))))
        made = way(_told(whole, {**around, summed: size}), binder, around)
        if made is None:
            return []
        found.append(made)
    return found


def _told(t: _Term, around: Ranges) -> _Term:
    """`t` without conditions that others of its own answer."""
    return replace(t, parts=tuple(unanswered(t.parts, ranges_predicate({**around, **dict(t.loops)}))))


def _over_tree(t: _Term, binder: Binder, around: Ranges) -> Expr | None:
    """The sum of `t` as one over several indices of which each is tied to another, one is to what is around."""
    inner = [i for i, _ in t.loops]
    summed = {binder[0], *inner}
    if not inner or any(size.is_constant for _, size in t.loops) or len(_tied(t) - summed) > 1:
        return None
    return _as_sum(t, binder) if _is_tree(t, summed, around) and not _may_spoil(t) else None


def _may_spoil(t: _Term) -> bool:
    """Whether 0 * inf may occur in a sum in order; in a group there is nothing but its own."""
    return not all(isinstance(q, Equal) for q in t.parts) and not all(map(is_finite, t.factors))


def _running(t: _Term, binder: Binder, around: Ranges) -> Expr | None:
    """The sum of `t` as one that is computed as a running sum or in chunks; None if it can't be."""
    if (made := _over_tree(t, binder, around)) is not None:
        return made
    summed, inner = binder[0], [i for i, _ in t.loops]
    ties = [q for q in t.parts if not free_atoms(q).isdisjoint({summed, *around, *inner})]
    ends = _ends(ties if inner else _of_pairs(ties))
    if (
        ends is None
        or _may_spoil(t)
        or (inner and _in_groups(ties))
        or summed not in ends
        or len(inner) > 1
        or not ends - {summed} <= around.keys()
    ):
        return None
    (row,) = ends - {summed}
    if inner and any(plain_places(a) is None for a in t.factors):
        return None
    used = [_read_at(a) for a in t.factors]
    if any(not at <= {summed, *around, *inner} or at >= ends for at in used):
        return None
    values = [at for at in used if summed in at and at.isdisjoint(inner)]
    if inner:
        both = [at for at in used if inner[0] in at]
        if len(both) != 2 or sorted((row in at, summed in at) for at in both) != [(False, True), (True, False)]:
            return None
        shared = both[0] | both[1]
        if len(frozenset().union(*values) - shared) > 1:
            return None
    return _as_sum(t, binder)


def _as_sum(t: _Term, binder: Binder) -> Expr:
    loops = [binder, *t.loops]
    within = [q for q in t.parts if not free_atoms(q).isdisjoint(i for i, _ in loops)]
    outside = conjunction(q for q in t.parts if q not in within)
    body = bracket(conjunction(within), _product(t.factors))
    return bracket(outside, _product([t.value, sums(loops, body)]))


def _of_pairs(ties: Sequence[Predicate]) -> list[Predicate]:
    """Those of `ties` that are not conditions of one index alone."""
    return [q for q in ties if sum(isinstance(i, Index) for i in free_atoms(q)) > 1]


def _tied(t: _Term) -> set[Index]:
    """The indices of the conditions of `t`."""
    return {i for q in t.parts for i in free_atoms(q) if isinstance(i, Index)}


def _is_tree(t: _Term, summed: Collection[Index], around: Collection[Index]) -> bool:
    """Whether `t` is a sum of vectors whose indices are tied in pairs, each to any other in one way: it is summed over
    one index after the other then."""
    pairs: dict[frozenset[Index], list[Predicate]] = {}
    for q in telling(_of_pairs(t.parts), summed):
        pairs.setdefault(frozenset(i for i in free_atoms(q) if isinstance(i, Index)), []).append(q)
    if not all(_ends(ties, scattered=True) == ends for ends, ties in pairs.items()):
        return False
    trees: list[frozenset[Index]] = []
    for ends in pairs:
        touched = [tree for tree in trees if tree & ends]
        if any(ends <= tree for tree in touched):
            return False
        trees = [*(tree for tree in trees if tree not in touched), ends.union(*touched)]
    return len(trees) == 1 and all(len(_read_at(e) & {*summed, *around}) <= 1 for e in t.factors)


def _rewritten(e: Expr, sites: Mapping[Expr, Expr], memo: dict[Expr, Expr]) -> Expr:
    return rewrite(e, lambda old: sites.get(old) or (old if variable(old) is not None else None), memo=memo)
