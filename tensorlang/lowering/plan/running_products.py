"""Triangles of products that are only multiplied and summed again are computed where they are read.

    let t = gen i:n, j:n. sum k. [j <= i] * Q[i, k] * K[j, k] in  .. gen i. sum j. [j <= i] * t[i, j] * V[j, b] ..
        ->  .. gen i. sum j, k. [j <= i] * Q[i, k] * K[j, k] * V[j, b] ..

Causal linear attention is of that form, and so are its derivatives: sums of such products, and of terms with one of the
two indices. As sums of three factors they are computed in chunks (`arrays.sums.chunked`) or as running sums, in time
that is linear in n, and no triangle is ever stored. The same holds for pairs within a group, [p[j] = p[i]], or within a
group and in order, [p[j] = p[i] and j <= i], without an index k: such sums are shared by a group, or run in it. An
index k may also tie j to i, [p[j] = p[k] and q[k] = q[i]]: then one sum is nested in the other, and arrays of three
indices that are tied as a tree are not stored either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Let,
    Sum,
    Var,
    bracket,
    children,
    number,
    sums,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    Exists,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.language.rebuilt import rewrite
from tensorlang.lowering.costs import COSTS
from tensorlang.lowering.plan.decays import Pairs, is_difference, may_decay, pairs_of
from tensorlang.lowering.plan.dependence import is_finite, places, reads, results, variable
from tensorlang.lowering.plan.products import (
    Binder,
    ProductTerm,
    Triangle,
    at_places,
    multiplied_out,
    product,
    read_at,
    single_places,
    total,
    without_answered,
)
from tensorlang.lowering.plan.ties import (
    ends_of_pair,
    in_groups,
    is_diagonal,
    is_ranking,
    is_tree,
    of_pairs,
    tied_indices,
)
from tensorlang.sets.isl import unanswered
from tensorlang.sets.solve import Ranges, ranges_predicate


def inline_running_products(f: Function, strict: bool = False) -> Function:
    """`f` without arrays that are zero outside of a triangle of products, if they are read only in sums of products. In
    `strict` programs what brackets hide has no influence."""
    statements, body = bindings(f.body)
    triangles: dict[Var, Triangle] = {}
    for x, e in statements:
        t = _triangle(e, triangles, strict) if isinstance(x, Var) else None
        if t is not None and isinstance(x, Var):
            triangles[x] = t
    known: dict[Expr, tuple[set[Var], dict[Expr, Expr]]] = {}
    while True:
        sites: dict[Expr, Expr] = {}
        wrong = {x for x, t in triangles.items() if not t.read <= triangles.keys()}
        for e in (*(e for x, e in statements if x not in triangles), *results(body)):
            if e not in known:
                known[e] = _misread(e, triangles, strict)
            wrong |= known[e][0]
            sites |= known[e][1]
        if not wrong:
            break
        triangles = {x: t for x, t in triangles.items() if x not in wrong}
        known = {e: found for e, found in known.items() if wrong.isdisjoint(map(variable, reads(e)))}
    if not sites:
        return f
    memo: dict[Expr, Expr] = {}
    made = _rewritten(body, sites, memo)
    for bound, e in reversed(statements):
        if bound not in triangles:
            made = Let(bound, _rewritten(e, sites, memo), made)
    return replace(f, body=made)


def _triangle(e: Expr, known: Mapping[Var, Triangle], strict: bool) -> Triangle | None:
    sizes: dict[Index, Affine] = {}
    while isinstance(e, Gen):
        sizes[e.index] = e.size
        e = e.body
    if len(sizes) < 2:
        return None
    if len(sizes) == 2 and any(variable(r) not in known and sizes.keys() <= read_at(r) for r in reads(e)):
        return None  # a factor of both ends
    read: set[Var] = set()
    terms = [_told(t, sizes) for t in multiplied_out(e, known, read, strict, differences=True)]
    if not terms:
        return None
    tied = [t for t in terms if not (len(sizes) == 2 and _is_apart(t, sizes))]
    ends = _ends_of(tied[0], sizes) if tied else None
    if ends is None or any(_ends_of(t, sizes) != ends for t in tied) or any(_is_short(sizes[i]) for i in ends):
        return None
    return Triangle(tuple(sizes), tuple(terms), frozenset(read))


def _ends_of(t: ProductTerm, sizes: Ranges) -> frozenset[Index] | None:
    """The indices of an array that the conditions of `t` tie, two or all, if each factor has one of them, or can be
    taken apart into such."""
    ties = [q for q in t.parts if not free_atoms(q).isdisjoint(sizes)]
    ends = ends_of_pair(of_pairs(ties), ranked=True)
    if ends is None:
        asks = len(sizes) == 2 and ties and all(isinstance(q, Exists) for q in ties)  # sums may have the answer
        tied = tied_indices(t) >= sizes.keys() and is_tree(t, dict(t.loops), sizes)
        ends = frozenset(sizes) if asks or tied else None
    elif not ends <= sizes.keys() or (len({sizes[i] for i in ends}) > 1 and not any(map(is_ranking, ties))):
        return None
    if ends is None:
        return None
    both = [part for part in t.factors if ends <= read_at(part)]
    if not all(map(_is_of_pair, both)):
        return None
    if len(ends) > 2:
        return ends
    row, summed = ends
    return ends if pairs_of(both, row, summed) is not None else None


def _is_apart(t: ProductTerm, indices: Collection[Index]) -> bool:
    """Whether each factor and condition of `t` has at most one of `indices`, and `t` is no sum."""
    return (
        not t.loops
        and all(len(free_atoms(q) & set(indices)) <= 1 for q in t.parts)
        and all(len(read_at(e) & set(indices)) <= 1 for e in t.factors)
    )


def _misread(whole: Expr, known: Mapping[Var, Triangle], strict: bool) -> tuple[set[Var], dict[Expr, Expr]]:
    """The triangles that are also read outside of sums of products, and the replacements of such sums."""
    sites: dict[Expr, Expr] = {}
    around: dict[Index, Affine] = {}
    wrong: set[Var] = set()
    seen: set[Expr] = {whole}
    stack: list[Expr] = [whole]
    while stack:
        part = stack.pop()
        x = variable(part)
        if x is not None and x not in known:
            continue
        made = _on_line(part, known[x], around) if x is not None else _expanded(part, around, known, strict)
        if x is not None and made is None:
            wrong.add(x)
            continue
        if made is not None:
            sites[part] = made
            continue
        if isinstance(part, Gen | Sum | Extremum | Choice):
            around[part.index] = part.size
        fresh = [c for c in children(part) if c not in seen]
        seen |= {*fresh}
        stack += fresh
    return wrong, sites


def _on_line(read: Expr, t: Triangle, around: Ranges) -> Expr | None:
    """An element of a triangle at places that depend on one index, expanded. If its terms are sums, it must be on the
    diagonal, where all places are the same."""
    at = places(read)
    if len(at) != len(t.own) or len({i for a in at for i in a.free if isinstance(i, Index)}) > 1:
        return None
    found: list[Expr] = []
    for term in t.terms:
        moved = at_places(term, dict(zip(t.own, at, strict=True)))
        if not moved.loops:
            found.append(bracket(conjunction(moved.parts), product([moved.value, *moved.factors])))
            continue
        first, *others = moved.loops
        runs = _runs([replace(moved, loops=tuple(others))], first, (), around, _running) if len({*at}) == 1 else []
        if not runs:
            return None
        found += runs
    return total(found)


def _expanded(site: Expr, around: Ranges, known: Mapping[Var, Triangle], strict: bool) -> Expr | None:
    """The sum `site` of products with triangles or sums, with their terms in place of these; None if impossible."""
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
    terms = multiplied_out(e, known, read, strict)
    if not terms or not (read or len(terms) > 1 or any(t.loops or _has_squares(t) for t in terms)):
        return None
    tied = (replace(t, parts=(*t.parts, *parts)) for t in terms)
    if not read and any(_is_apart(t, {*around, *(i for i, _ in loops)}) for t in tied):
        return None  # a single sum stays one: sum i. (x[i] - c) is not taken apart
    *others, last = loops
    whole = [replace(t, loops=(*others, *t.loops)) for t in terms] if others else []
    if runs := _runs(whole, last, parts, around, _over_tree):
        return total(runs)
    for binder in reversed(loops):
        others = [b for b in loops if b is not binder]
        inside = [q for q in parts if binder[0] in free_atoms(q)]
        outside = [q for q in parts if q not in inside]
        runs = _runs(terms, binder, inside, {**around, **dict(others)}, _running)
        if runs and len(others) > 1:
            return total([sums(others, bracket(conjunction(outside), e)) for e in runs])
        if runs:
            return sums(others, bracket(conjunction(outside), total(runs)))
    return None


def _runs(
    terms: Sequence[ProductTerm],
    binder: Binder,
    parts: Sequence[Predicate],
    around: Ranges,
    way: Callable[[ProductTerm, Binder, Ranges], Expr | None],
) -> list[Expr]:
    """The sums of the terms over one index under `parts`, each made by `way`; empty if one can't be."""
    found: list[Expr] = []
    summed, size = binder
    for t in terms:
        whole = without_answered(replace(t, parts=tuple(dict.fromkeys((*parts, *t.parts)))))
        made = way(_told(whole, {**around, summed: size}), binder, around)
        if made is None:
            return []
        found.append(made)
    return found


def _told(t: ProductTerm, around: Ranges) -> ProductTerm:
    """`t` without conditions that its others imply, or that hold wherever two indices that it equates are the same."""
    parts = t.parts
    for i, j in (q.difference.indices for q in t.parts if isinstance(q, Equal) and is_diagonal(q)):
        same: dict[Atom, Affine] = {i: atom_affine(j)}
        parts = tuple(q for q in parts if is_diagonal(q) or substitute(q, same) is not TRUE)
    return replace(t, parts=tuple(unanswered(parts, ranges_predicate({**around, **dict(t.loops)}))))


def _over_tree(t: ProductTerm, binder: Binder, around: Ranges) -> Expr | None:
    """The sum of `t` over several indices tied as a tree, one of them to an index around; None if it is no such sum."""
    inner = [i for i, _ in t.loops]
    summed = {binder[0], *inner}
    if not inner or any(_is_short(size) for _, size in t.loops) or len(tied_indices(t) - summed) > 1:
        return None
    return _as_sum(t, binder) if is_tree(t, summed, around) and not _may_spoil(t) else None


def _may_spoil(t: ProductTerm) -> bool:
    """Whether 0 * inf may occur, as it may in a sum in order; the sum of a group has only its own terms."""
    return not all(isinstance(q, Equal) for q in t.parts) and not all(map(is_finite, t.factors))


def _running(t: ProductTerm, binder: Binder, around: Ranges) -> Expr | None:
    """The sum of `t` as one that is computed as a running sum or in chunks; None if it can't be."""
    if (made := _over_tree(t, binder, around)) is not None:
        return made
    summed, inner = binder[0], [i for i, _ in t.loops]
    if _is_apart(t, {summed, *around}):
        return None if _may_spoil(t) else _factored(t, binder)
    ties = [q for q in t.parts if not free_atoms(q).isdisjoint({summed, *around, *inner})]
    if any(not free_atoms(q).isdisjoint(inner) and len(of_pairs([q])) == 0 for q in ties):
        return None
    ties = of_pairs(ties)
    ends = ends_of_pair(ties, ranked=True)
    by_rank = any(map(is_ranking, ties))
    if ends is None or summed not in ends or not ends - {summed} <= around.keys():
        return None
    if inner and (by_rank or in_groups(ties)):
        return None
    (row,) = ends - {summed}
    pairs = pairs_of(t.factors, row, summed)
    if pairs is None or (pairs.factors and not _is_in_order(ties, pairs, around[row] is binder[1])):
        return None
    rest = replace(t, factors=tuple(e for e in t.factors if e not in pairs.factors))
    if _may_spoil(rest) or ((inner or pairs.factors) and any(single_places(a) is None for a in rest.factors)):
        return None
    used = [read_at(a) for a in rest.factors]
    shared = frozenset().union(*map(read_at, pairs.parts)) - {row, summed}
    both = [i for i in inner if any({row, i} <= at for at in used) and any({summed, i} <= at for at in used)]
    both = [i for i in both if i not in shared] or both
    of_both = [at for at in used if not at.isdisjoint(both)]
    together = len(of_both) == 2 and all(at.issuperset(both) for at in of_both)
    if len(inner) > 1 and not (shared.union(both).issuperset(inner) and (together or not both)):
        return _nested(t, binder, around, row)
    if any(not at <= {summed, *around, *inner} or at >= ends for at in used):
        return None
    if both and sorted((row in at, summed in at) for at in of_both) != [(False, True), (True, False)]:
        return None
    of_numbers = frozenset().union(*map(read_at, pairs.of_numbers))
    if not shared.isdisjoint(both) and (len(both) > 1 or not of_numbers.isdisjoint(both)):
        return None
    return _as_sum(t, binder) if shared.union(both).issuperset(inner) else None


def _is_short(size: Affine) -> bool:
    """Whether this many rows are computed faster as all pairs than in chunks."""
    return size.is_constant and size.constant < 4 * COSTS["chunk"]


def _is_in_order(ties: Sequence[Predicate], pairs: Pairs, is_square: bool) -> bool:
    if in_groups(ties) or any(map(is_ranking, ties)):
        return pairs.is_exponential and all(len(q.difference.lookups) == 2 for q in ties if isinstance(q, Equal))
    return is_square and len(ties) == 1 and isinstance(ties[0], NonNegative)


def _has_squares(t: ProductTerm) -> bool:
    return sum(map(is_difference, t.factors)) > 1


def _is_of_pair(e: Expr) -> bool:
    return may_decay(e) or is_difference(e)


def _nested(t: ProductTerm, binder: Binder, around: Ranges, row: Index) -> Expr | None:
    """The sum of `t`, which has at least two further indices, as a sum over the last of these: the one factor that has
    it and the row, times the sum of the other factors."""
    *loops, (last, size) = t.loops
    outside = [e for e in t.factors if read_at(e) >= {row, last}]
    if len(outside) != 1 or single_places(outside[0]) is None or any(last in free_atoms(q) for q in t.parts):
        return None
    inside = replace(t, loops=tuple(loops), factors=tuple(e for e in t.factors if e is not outside[0]))
    made = _running(inside, binder, {**around, last: size})
    return None if made is None else sums([(last, size)], product([outside[0], made]))


def _factored(t: ProductTerm, binder: Binder) -> Expr:
    """The sum of `t`, with the factors that do not depend on its index outside."""
    outside = [e for e in t.factors if binder[0] not in read_at(e)]
    inside = replace(t, value=number(1), factors=tuple(e for e in t.factors if e not in outside))
    return product([t.value, *outside, _as_sum(inside, binder)])


def _as_sum(t: ProductTerm, binder: Binder) -> Expr:
    loops = [binder, *t.loops]
    within = [q for q in t.parts if not free_atoms(q).isdisjoint(i for i, _ in loops)]
    outside = conjunction(q for q in t.parts if q not in within)
    body = bracket(conjunction(within), product(t.factors))
    return bracket(outside, product([t.value, sums(loops, body)]))


def _rewritten(e: Expr, sites: Mapping[Expr, Expr], memo: dict[Expr, Expr]) -> Expr:
    return rewrite(e, lambda old: sites.get(old) or (old if variable(old) is not None else None), memo=memo)
