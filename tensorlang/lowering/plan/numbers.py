"""Indices and sizes as numbers: read from arrays that the generated code makes.

real(2*i - n + 1), for i:n, is 2*c[i] - s + 1, where c is 0, 1, .., n - 1 and s the size n; real(a[k]) is b[k], where b
has the elements of a parameter a as numbers. The rest of lowering knows arrays only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakSet

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, bound_index
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Mul,
    Sum,
    Var,
    access,
    gen,
    number,
)
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.types import Array, R, array
from tensorlang.lowering.plan.dependence import longer

_NUMBERS: WeakSet[Var] = WeakSet()


@dataclass
class WithoutIntegers:
    """A function without numbers of indices: variables for the numbers below some sizes, for the elements of index
    arrays, and for sizes themselves."""

    function: Function
    below: dict[Affine, Var] = field(default_factory=dict)
    elements: dict[IndexArray, Var] = field(default_factory=dict)
    sizes: dict[Size, Var] = field(default_factory=dict)


def replace_integers(f: Function) -> WithoutIntegers:
    """`f`, reading new variables, which are no parameters, in place of indices and sizes as numbers."""
    found = WithoutIntegers(f)
    if not has_numbers(f):
        return found
    ranges: dict[Index, Affine] = {}
    for e in expressions(f.body):
        if isinstance(e, Gen | Sum | Extremum | Choice):
            ranges[e.index] = longer(ranges.get(e.index, e.size), e.size)
    body = rewrite(f.body, lambda e: _sum(e.value, found, ranges) if isinstance(e, Integer) else None)
    found.function = replace(f, body=body)
    return found


def has_numbers(f: Function) -> bool:
    """Whether `f` uses indices or sizes as numbers."""
    return f.census.has(Integer)


def is_of_numbers(x: Var) -> bool:
    """Whether `x` holds indices or sizes as numbers."""
    return x in _NUMBERS


def numbers_of(x: IndexArray) -> Expr:
    """gen g. real(x[g])."""
    binders = [(bound_index(f"i{k}" if k else "i"), n) for k, n in enumerate(x.sizes)]
    return gen(binders, Integer(atom_affine(Lookup(x, tuple(atom_affine(i) for i, _ in binders)))))


def elements_of(e: Expr) -> tuple[IndexArray, tuple[int, ...]]:
    """The index array of which `e` has the elements as numbers, and which of its axes those of `e` are, in order.

    Raises `NormalFormError` if there is none.
    """
    places: list[Affine] = []
    while isinstance(e, Gen):
        places.append(atom_affine(e.index))
        e = e.body
    match e:
        case Access(Var() as x, at) if is_of_numbers(x):
            for atom in at.atoms:
                if isinstance(atom, Lookup) and at is atom_affine(atom) and {*atom.at} == {*places}:
                    return atom.array, tuple(map(atom.at.index, places))
    raise NormalFormError("an index array is passed on, but the program does not have it")


def _sum(a: Affine, found: WithoutIntegers, ranges: dict[Index, Affine]) -> Expr:
    """The number `a` as a linear combination of numbers that are read."""
    total: Expr | None = None
    for atom, k in sorted(a.terms, key=lambda term: term[1] < 0):
        read = _read(atom, found, ranges)
        if total is None:
            total = read if k == 1 else Mul(number(k), read)
        else:
            total = Add(total, read if abs(k) == 1 else Mul(number(abs(k)), read), 1 if k > 0 else -1)
    if total is None:
        return number(a.constant)
    return Add(total, number(abs(a.constant)), 1 if a.constant > 0 else -1) if a.constant else total


def _read(atom: Atom, found: WithoutIntegers, ranges: dict[Index, Affine]) -> Expr:
    match atom:
        case Size():
            if atom not in found.sizes:
                found.sizes[atom] = Var(f"{atom.name}_number", R)
                _NUMBERS.add(found.sizes[atom])
            return found.sizes[atom]
        case Lookup(own, at) if own in found.function.params:
            if own not in found.elements:
                found.elements[own] = Var(f"{own.name}_numbers", array(own.sizes, R))
                _NUMBERS.add(found.elements[own])
            return access(found.elements[own], *at)
        case Lookup(chosen, _):
            size = chosen.size
        case Index():
            size = ranges[atom]
    if size not in found.below:
        found.below[size] = Var("below", Array(size, R))
        _NUMBERS.add(found.below[size])
    return Access(found.below[size], atom_affine(atom), None)
