"""Our programs as tensorgrad's tensor networks, and their derivatives by its own rules and compiler.

An expression is a tensor with an edge for each index that occurs in it, named by the index; a tensor that is read at an
affine place is contracted with the indicator of that place. Constructs that tensorgrad lacks, such as comparisons, are
refused with a `LookupError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

import tensorlang as tl
from benchmarks.case import Case
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size
from tensorlang.language.arguments import bind
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Const,
    Expr,
    Extremum,
    Gen,
    Let,
    Mul,
    Sum,
    Var,
)
from tensorlang.language.predicates import TRUE, Equal, Predicate, conjuncts
from tensorlang.language.types import shape

Array = np.ndarray[Any, Any]

_AS_THEY_ARE = ("exp", "log", "tanh", "sqrt", "relu", "sigmoid", "abs")


class Translation:
    """A program at given sizes: `variables` by name, each with edges 0, 1, ..; `result`, whose edges are `axes`."""

    def __init__(self, tg: Any, f: tl.Function, sizes: Mapping[Size, int]) -> None:
        self.tg, self.functions = tg, import_module("tensorgrad.functions")
        self.affine = import_module("tensorgrad.compiler").Affine
        self.atoms: dict[Atom, int] = {size: n for size, n in sizes.items()}
        self.symbols: dict[int, Any] = {}
        self.names: dict[Index, str] = {}
        self.extents: dict[str, int] = {}
        self.fresh = count()
        self.tensors: dict[Var, tuple[Any, tuple[str, ...]]] = {}
        for p in f.variables:
            self.tensors[p] = self.variable(p.name, [a.value(self.atoms) for a in shape(p.type)[0]])
        self.variables = {p.name: self.tensors[p][0] for p in f.variables}
        e = f.body
        while isinstance(e, Let):
            if not isinstance(e.var, Var):
                raise LookupError("tensorgrad has no index arrays as this one")
            self.tensors[e.var] = self._array(e.value)
            e = e.body
        self.result, self.axes = self._array(e)

    @property
    def sizes(self) -> dict[Any, int]:
        """The values of the sizes that tensorgrad knows by symbols."""
        return {symbol: n for n, symbol in self.symbols.items()}

    def variable(self, name: str, shape: Sequence[int]) -> tuple[Any, tuple[str, ...]]:
        """A variable of that shape, and its edges."""
        edges = tuple(f"{name}{k}" for k in range(len(shape)))
        return self.tg.Variable(name, **{edge: self._symbol(n) for edge, n in zip(edges, shape, strict=True)}), edges

    def _symbol(self, n: int) -> Any:
        if n not in self.symbols:
            (self.symbols[n],) = (self.tg.symbols(f"n{n}"),)
        return self.symbols[n]

    def _edge(self, i: Index, size: Affine) -> str:
        name = self.names[i] = f"{i.name}_{next(self.fresh)}"
        self.extents[name] = size.value(self.atoms)
        return name

    def _array(self, e: Expr) -> tuple[Any, tuple[str, ...]]:
        edges = []
        while isinstance(e, Gen):
            edges.append(self._edge(e.index, e.size))
            e = e.body
        return self._over(self._scalar(e), edges), tuple(edges)

    def _over(self, t: Any, edges: Sequence[str]) -> Any:
        missing = {edge: self._symbol(self.extents[edge]) for edge in edges if edge not in t.edges}
        return t @ self.tg.Ones(**missing) if missing else t

    def _scalar(self, e: Expr) -> Any:
        functions = self.functions
        match e:
            case Const(value):
                return self.tg.Product([]) * float(value)
            case Var() | Access():
                return self._element(e)
            case Add(a, b, sign):
                left, right = self._scalar(a), self._scalar(b)
                return left + right if sign > 0 else left - right
            case Mul(a, b):
                return self._scalar(a) * self._scalar(b)
            case Call(f, arguments):
                (x,) = map(self._scalar, arguments)
                if f.exponent is not None:
                    return functions.pow(x, int(f.exponent))
                if f.name == "recip":
                    return functions.pow(x, -1)
                if f.name not in _AS_THEY_ARE:
                    raise LookupError(f"{f.name} isn't translated to tensorgrad")
                return getattr(functions, f.name)(x)
            case Sum(i, size, a):
                edge = self._edge(i, size)
                return functions.sum(self._over(self._scalar(a), [edge]), (edge,))
            case Extremum(1, i, size, p, a) if p is TRUE:
                edge = self._edge(i, size)
                return functions.max(self._over(self._scalar(a), [edge]), (edge,))
            case Bracket(p, a):
                t = self._scalar(a)
                for q in conjuncts(p):
                    t = t * self._indicator(q)
                return t
            case _:
                raise LookupError(f"{type(e).__name__} isn't translated to tensorgrad")

    def _element(self, e: Expr) -> Any:
        at: list[Affine] = []
        while isinstance(e, Access):
            at.insert(0, e.at)
            e = e.body
        if not isinstance(e, Var):
            raise LookupError("tensorgrad has no pairs")
        t, edges = self.tensors[e]
        plain: dict[str, str] = {}
        for edge, a in zip(edges, at, strict=True):
            place = self._plain(a, t.shape[edge])
            plain[edge] = place if place and place not in plain.values() else f"{edge}_{next(self.fresh)}"
        extents = {plain[edge]: t.shape[edge] for edge in edges}
        t = t.rename(**plain)
        for edge, a in zip(edges, at, strict=True):
            if self._plain(a, extents[plain[edge]]) != plain[edge]:
                t = self._tied(t, plain[edge], extents[plain[edge]], a)
        return t

    def _plain(self, a: Affine, size: Any) -> str | None:
        """The edge of an index that stands alone and ranges over all of a dimension."""
        alone = len(a.terms) == 1 and not a.constant and a.terms[0][1] == 1
        atom = a.terms[0][0] if alone else None
        name = self.names[atom] if isinstance(atom, Index) else None
        return name if name and self._symbol(self.extents[name]) == size else None

    def _tied(self, t: Any, edge: str, size: Any, a: Affine) -> Any:
        """`t` at edge = a. Indices of a may already be edges of `t`; then the result is their product."""
        coefficients, value = self._row(a)
        others = {name: self._symbol(self.extents[name]) for name in coefficients}
        rows = [({edge: 1, **{name: -k for name, k in coefficients.items()}}, value)]
        indicator = self.affine(rows, **{edge: size}, **others)
        return self.functions.sum(t * indicator, (edge,)) if set(t.edges) & set(others) else t @ indicator

    def _row(self, a: Affine) -> tuple[dict[str, int], int]:
        value = a.constant
        coefficients: dict[str, int] = {}
        for atom, k in a.terms:
            if isinstance(atom, Lookup):
                raise LookupError("tensorgrad has no index arrays as this one")
            if isinstance(atom, Index):
                coefficients[self.names[atom]] = k
            else:
                value += k * self.atoms[atom]
        return coefficients, value

    def _indicator(self, p: Predicate) -> Any:
        if not isinstance(p, Equal):
            raise LookupError("tensorgrad has no comparisons of indices but equality")
        coefficients, value = self._row(p.difference)
        return self.affine([(coefficients, -value)], **{k: self._symbol(self.extents[k]) for k in coefficients})


def derivative(tg: Any, torch: Any, case: Case, arguments: Sequence[Array]) -> Callable[[], list[Any]]:
    """A function that computes the case's derivative, a list of PyTorch's tensors.

    Raises `LookupError` for a program that can't be expressed in tensorgrad.
    """
    f = tl.simplify(case.function)
    if len(f.variables) < len(f.params) or case.what == "blocks":
        raise LookupError("tensorgrad has no relations, index arrays or blocks of Jacobians")
    given = arguments[: len(f.params)]
    t = Translation(tg, f, bind(f, given, {}).sizes)
    values = {t.variables[p.name]: torch.tensor(a) for p, a in zip(f.variables, given, strict=True)}
    value = t.result
    if case.takes_cotangent:
        cotangent, edges = t.variable("cotangent", np.shape(arguments[-1]))
        values[cotangent] = torch.tensor(arguments[-1])
        value = value @ cotangent.rename(**dict(zip(edges, t.axes, strict=True)))
    found, orders = [], []
    for k in case.argnums:
        x = t.variables[case.function.params[k].name]
        orders.append([*(t.axes if case.what == "jacobian" else ()), *(f"d{edge}" for edge in x.edges)])
        made = value.grad(x, {edge: f"d{edge}" for edge in x.edges})
        if case.what == "hessian":
            orders[-1] += [f"e{edge}" for edge in x.edges]
            made = made.grad(x, {edge: f"e{edge}" for edge in x.edges})
        found.append(made)
    compiled = import_module("tensorgrad.compiler").compile_to_callable(*found)

    def run() -> list[Any]:
        got = compiled(values, t.sizes)
        every = got if isinstance(got, tuple) else (got,)
        return [(a.align_to(*order) if order else a).rename(None) for a, order in zip(every, orders, strict=True)]

    return run
