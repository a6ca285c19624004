"""Statements restricted to where they are read.

A mask that comes last, as it does in JAX programs, so reaches the statements before it: those statements are
computed where one of at most two conditions holds under which their readers read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Var,
    bracket,
    children,
    gen,
)
from tensorlang.language.predicates import (
    TRUE,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    free_atoms,
    lookups,
    substitute,
)

_MOST = 2
"""So many conditions of readers are joined; more make predicates that take long to simplify."""

Statement = tuple[Var | IndexArray, Expr]
_Reads = dict[Var, list[tuple[tuple[Affine, ...], tuple[Predicate, ...]]]]


def restricted(statements: Sequence[Statement], results: Iterable[Expr]) -> list[Statement]:
    """The statements, each computed only where those after it and `results` read it."""
    reads: _Reads = {}
    for e in results:
        _collect(e, reads)
    found: list[Statement] = []
    for x, value in reversed(statements):
        if isinstance(x, IndexArray) or x in reads:
            needed = value if isinstance(x, IndexArray) else _where_read(value, reads[x])
            _collect(needed, reads)
            found.append((x, needed))
    return found[::-1]


def _collect(e: Expr, reads: _Reads) -> None:
    stack: list[tuple[Expr, tuple[Predicate, ...]]] = [(e, ())]
    while stack:
        e, where = stack.pop()
        match e:
            case Access():
                at: list[Affine] = []
                root: Expr = e
                while isinstance(root, Access):
                    at.append(root.at)
                    root = root.body
                if isinstance(root, Var):
                    reads.setdefault(root, []).append((tuple(reversed(at)), where))
                else:
                    stack.append((root, where))
            case Var():
                reads.setdefault(e, []).append(((), where))
            case Bracket(pred=p) | Extremum(pred=p) | Choice(pred=p):
                stack += [(part, (*where, *conjuncts(p))) for part in children(e)]
            case _:
                stack += [(part, where) for part in children(e)]


def _where_read(value: Expr, reads: list[tuple[tuple[Affine, ...], tuple[Predicate, ...]]]) -> Expr:
    binders: list[tuple[Index, Affine]] = []
    body = value
    while isinstance(body, Gen):
        binders.append((body.index, body.size))
        body = body.body
    wanted: dict[Predicate, None] = {}
    for at, where in reads:
        p = _condition(at, where, [i for i, _ in binders])
        if p is None or p is TRUE:
            return value
        wanted[p] = None
    return gen(binders, bracket(disjunction(wanted), body)) if len(wanted) <= _MOST else value


def _condition(at: tuple[Affine, ...], where: tuple[Predicate, ...], indices: Sequence[Index]) -> Predicate | None:
    """Which elements are read at `at` where `where` holds; None if that can't be said at `indices` alone."""
    if len(at) != len(indices):
        return None
    values: dict[Atom, Affine] = {}
    repeated = []
    for a, i in zip(at, indices, strict=True):
        (atom, k), *more = a.terms or ((None, 0),)
        if not isinstance(atom, Index) or k != 1 or more or a.constant:
            return None
        if atom in values:
            repeated.append(equal(values[atom], atom_affine(i)))
        else:
            values[atom] = atom_affine(i)
    known = [
        p
        for p in where
        if all(not isinstance(atom, Index) or atom in values for atom in free_atoms(p)) and not lookups(p)
    ]
    return conjunction([*(substitute(p, values) for p in known), *repeated])
