"""Derivatives inside of programs: `grad x. e`, `jacobian x. e`, `hessian x. e`, `derivative x = dx. e` and
`adjoint x with c. e`.

`e`, with its free names as parameters, is a program. Its derivative is derived like any other, and then replaces the
operator. Differentials and cotangents are bound anew each time, so that those of nested operators can't be confused.
These are the operators of dF~ (`grad`, `jacob`, `hessian`, `deriv`), under our names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine
from tensorlang.language.function import Function, Parameter, unused_name
from tensorlang.language.grammar import Expr, Let, MakePair, Proj, Var, access, gen
from tensorlang.language.names import Named, free_names
from tensorlang.language.predicates import Relation
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.recurrence import straight
from tensorlang.language.types import Pair, shape
from tensorlang.recursion import run
from tensorlang.surface.inline import Inlining, inlined
from tensorlang.surface.lookups import Indices
from tensorlang.surface.scope import Surface
from tensorlang.surface.terms import Idx, Rel, Term

OPERATORS = ("grad", "jacobian", "hessian", "derivative", "adjoint")
"""Functions of a program and names of its parameters that return its derivative with respect to these."""

_DERIVATIVES = "tensorlang.pipeline"
"""Their module, which is higher up, and imported when the first operator is met."""

OF_NUMBERS = ("grad", "hessian")
"""The operators for expressions whose value is a number."""


def derived_in_place(word: str, e: Expr, wrt: Sequence[Var], seeds: Sequence[Expr]) -> Expr:
    """The operator `word` applied to `e`, for the variables `wrt`; `seeds` are differentials, or the cotangent.

    Raises `TypeMismatch` and `SizeMismatch` for seeds of another type.
    """
    closed = _Closed()
    f = Function(word, (), straight(closed.over(e, wrt)))
    f = Function(word, tuple(closed.given), f.body)
    g = getattr(import_module(_DERIVATIVES), word)(f, tuple(closed.names[x] for x in wrt))
    values: list[Surface] = [*closed.given.values(), *(Term(_pairs_of_arrays(seed)) for seed in seeds)]
    sizes = {s.name: closed.sizes.get(s, atom_affine(s)) for s in g.sizes}
    return inlined(g, dict(zip(g.params, values, strict=True)), sizes)


@dataclass
class _Closed:
    """An expression with parameters for its free names, each with its value, and sizes for its free indices."""

    given: dict[Parameter, Surface] = field(default_factory=dict)
    sizes: dict[Size, Affine] = field(default_factory=dict)
    names: dict[Named, str] = field(default_factory=dict)

    def over(self, e: Expr, wrt: Sequence[Var]) -> Expr:
        """`e` in terms of the parameters."""
        free = list(dict.fromkeys([*free_names(e), *wrt]))
        taken = {x.name for x in free if isinstance(x, Size)}
        inlining = Inlining()
        for x in free:
            if isinstance(x, Size):
                continue
            self.names[x] = name = unused_name(x.name, taken)
            taken.add(name)
            match x:
                case Var():
                    inlining.vars[x] = new = Var(name, x.type)
                    self.given[new] = Term(_pairs_of_arrays(x))
                case IndexArray():
                    array = IndexArray(name, x.sizes, x.size)
                    inlining.atoms[Lookup(x, ())] = atom_affine(Lookup(array, ()))
                    self.given[array] = Indices(x, ()) if x.sizes else Idx(atom_affine(Lookup(x, ())))
                case Relation():
                    inlining.relations[x] = relation = Relation(name, x.sizes)
                    self.given[relation] = Rel(x)
                case Index():
                    inlining.atoms[x] = atom_affine(Size(name))
                    self.sizes[Size(name)] = atom_affine(x)
        return run(inlining.expr(e))


def _pairs_of_arrays(e: Expr) -> Expr:
    """`e`, with arrays of pairs turned into pairs of arrays."""
    sizes, element = shape(e.type)
    if not isinstance(element, Pair):
        return e
    binders = [(Index("i"), size) for size in sizes]
    inner = access(e, *(atom_affine(i) for i, _ in binders))
    return MakePair(*(_pairs_of_arrays(gen(binders, Proj(which, inner))) for which in (0, 1)))


def without_lets(f: Function, left_out: Collection[Var]) -> Function:
    """`f` without the lets of these variables, which nothing reads."""

    def body_of(_: Expr, new: Expr) -> Expr:
        return new.body if isinstance(new, Let) and new.var in left_out else new

    return replace(f, body=rewrite(f.body, lambda _: None, body_of)) if left_out else f
