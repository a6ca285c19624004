"""Conditions that tie indices to one another: an order, a group, a tree of these."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.predicates import Equal, NonNegative, Predicate, free_atoms
from tensorlang.lowering.plan.dependence import telling
from tensorlang.lowering.plan.products import ProductTerm, read_at


def ends_of_pair(ties: Sequence[Predicate], scattered: bool = False, ranked: bool = False) -> frozenset[Index] | None:
    """The two indices that `ties` relate, if they are in order, j + 2 <= i, or the same, or of one group, p[j] = p[i],
    or in order and of one group. If `scattered`, one may be an element of the other, i = p[j]; if `ranked`, their
    elements may be in order, p[j] <= p[i]."""
    indices = frozenset(i for q in ties for i in free_atoms(q) if isinstance(i, Index))
    if len(indices) != 2 or not all(_compares(q, indices) for q in ties):
        return None
    if not in_groups(ties, scattered) and not (
        len(ties) == 1 and (_is_order(ties[0]) or is_diagonal(ties[0]) or (ranked and is_ranking(ties[0])))
    ):
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


def in_groups(ties: Sequence[Predicate], scattered: bool = False) -> bool:
    """Whether some of `ties` demand the same group, and at most one other an order."""
    equal = [q.difference for q in ties if isinstance(q, Equal)]
    if not equal or len(ties) - len(equal) > 1:
        return False
    return all(len(a.terms) == 2 and len(a.lookups) >= 1 and (scattered or not _has_index(a)) for a in equal)


def _has_index(a: Affine) -> bool:
    return any(isinstance(x, Index) for x in a.atoms)


def _is_order(q: Predicate) -> bool:
    if not isinstance(q, NonNegative) or q.value.lookups:
        return False
    return sorted(k for _, k in q.value.terms) == [-1, 1]


def is_ranking(q: Predicate) -> bool:
    """Whether `q` orders two elements of index arrays, or one of these and an index."""
    if not isinstance(q, NonNegative) or not q.value.lookups:
        return False
    return sorted(k for _, k in q.value.terms) == [-1, 1]


def is_diagonal(q: Predicate) -> bool:
    """Whether `q` says that two indices are the same."""
    if not isinstance(q, Equal) or q.difference.constant:
        return False
    return all(isinstance(x, Index) for x in q.difference.atoms) and sorted(k for _, k in q.difference.terms) == [-1, 1]


def of_pairs(ties: Sequence[Predicate]) -> list[Predicate]:
    """Those of `ties` that involve more than one index."""
    return [q for q in ties if sum(isinstance(i, Index) for i in free_atoms(q)) > 1]


def tied_indices(t: ProductTerm) -> set[Index]:
    """The indices of the conditions of `t`."""
    return {i for q in t.parts for i in free_atoms(q) if isinstance(i, Index)}


def is_tree(t: ProductTerm, summed: Collection[Index], around: Collection[Index]) -> bool:
    """Whether `t` is a sum of products of vectors whose indices are tied in pairs, and these form a tree: then it can
    be summed over one index after the other."""
    pairs: dict[frozenset[Index], list[Predicate]] = {}
    for q in telling(of_pairs(t.parts), summed):
        pairs.setdefault(frozenset(i for i in free_atoms(q) if isinstance(i, Index)), []).append(q)
    if not all(ends_of_pair(ties, scattered=True) == ends for ends, ties in pairs.items()):
        return False
    trees: list[frozenset[Index]] = []
    for ends in pairs:
        touched = [tree for tree in trees if tree & ends]
        if any(ends <= tree for tree in touched):
            return False
        trees = [*(tree for tree in trees if tree not in touched), ends.union(*touched)]
    return len(trees) == 1 and all(len(read_at(e) & {*summed, *around}) <= 1 for e in t.factors)
