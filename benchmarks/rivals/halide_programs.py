"""Our programs in Halide, and their gradients by its own reverse mode, scheduled by its autoscheduler for gradients.

Every let is a Func over the variables of its gens, every sum an update over an RDom with the sum's predicate, every
parameter a buffer that is zero outside. Halide's dimensions come innermost first. Constructs that Halide lacks, such as
index arrays, are refused with a `LookupError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import and_, or_
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from benchmarks.case import Case
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size
from tensorlang.language.arguments import bind
from tensorlang.language.grammar import Access, Add, Bracket, Call, Const, Expr, Gen, Let, Mul, Sum, Var, children
from tensorlang.language.predicates import And, Equal, NonNegative, Or, Predicate, conjunction, conjuncts, free_atoms

Array = np.ndarray[Any, Any]

_MOST = 100


class Translation:
    """A program at given sizes as Halide Funcs: `result`, and the Funcs of the parameters by name."""

    def __init__(self, hl: Any, f: tl.Function, arrays: Mapping[str, Array], sizes: Mapping[Size, int]):
        self.hl = hl
        self.sizes: dict[Atom, int] = {size: n for size, n in sizes.items()}
        self.funcs: dict[Var, Any] = {}
        for p in f.variables:
            self.funcs[p] = self.outside(arrays[p.name], p.name)
        self.parameters = {p.name: self.funcs[p] for p in f.variables}
        e, lets = f.body, 0
        while isinstance(e, Let):
            lets += 1
            if not isinstance(e.var, Var):
                raise LookupError("Halide has no index arrays")
            self.funcs[e.var] = self._array(e.var.name, e.value)
            e = e.body
        if lets + _operations(e) > _MOST:
            raise LookupError("Halide's compiler takes minutes for programs this long")
        self.result = self._array(f.name, e)

    def outside(self, a: Array, name: str) -> Any:
        """An array as a Func that is zero outside of it."""
        return self.hl.BoundaryConditions.constant_exterior(self.hl.Buffer(np.atleast_1d(a), name), 0.0)

    def _array(self, name: str, e: Expr) -> Any:
        """The Func of gens over a scalar expression."""
        variables: dict[Index, Any] = {}
        while isinstance(e, Gen):
            variables[e.index] = self.hl.Var(e.index.name + f"_{len(variables)}")
            e = e.body
        made = self.hl.Func(name)
        made[_reversed(variables.values())] = self._scalar(e, variables)
        return made

    def _scalar(self, e: Expr, env: Mapping[Index, Any]) -> Any:
        hl = self.hl
        match e:
            case Const(value):
                return hl.f32(float(value))
            case Var() | Access():
                return self._element(e, env)
            case Add(a, b, sign):
                left, right = self._scalar(a, env), self._scalar(b, env)
                return left + right if sign > 0 else left - right
            case Mul(a, b):
                return self._scalar(a, env) * self._scalar(b, env)
            case Call(f, arguments):
                given = [self._scalar(a, env) for a in arguments]
                if f.exponent is not None:
                    return reduce(lambda x, y: x * y, given * int(f.exponent))
                return self._functions[f.name](*given)
            case Sum() | Bracket(_, Sum()):
                return self._total(e, env)
            case Bracket(p, a):
                return hl.select(self._holds(p, env), self._scalar(a, env), hl.f32(0))
            case _:
                raise LookupError(f"{type(e).__name__} isn't translated to Halide")

    @property
    def _functions(self) -> dict[str, Callable[..., Any]]:
        hl = self.hl
        return {
            **{name: getattr(hl, name) for name in ("exp", "log", "sin", "cos", "tanh", "sqrt", "abs", "max", "min")},
            "recip": lambda x: 1 / x,
            "relu": lambda x: hl.max(x, 0.0),
            "sigmoid": lambda x: 1 / (1 + hl.exp(-x)),
            "softplus": lambda x: hl.max(x, 0.0) + hl.log(1 + hl.exp(-hl.abs(x))),
        }

    def _element(self, e: Expr, env: Mapping[Index, Any]) -> Any:
        at: list[Any] = []
        while isinstance(e, Access):
            at.insert(0, self._place(e.at, env))
            e = e.body
        if not isinstance(e, Var):
            raise LookupError("Halide has no pairs of arrays")
        f = self.funcs[e]
        return f[_reversed(at) if at or not f.dimensions() else (0,)]

    def _place(self, a: Affine, env: Mapping[Index, Any]) -> Any:
        """An affine index, as a number if it is constant."""
        found = self.hl.i32(a.constant)
        for atom, k in a.terms:
            if isinstance(atom, Lookup):
                raise LookupError("Halide has no index arrays")
            found += k * (env[atom] if isinstance(atom, Index) else self.sizes[atom])
        return found

    def _holds(self, p: Predicate, env: Mapping[Index, Any]) -> Any:
        match p:
            case Equal(a):
                return self._place(a, env) == 0
            case NonNegative(a):
                return self._place(a, env) >= 0
            case And(parts):
                return reduce(and_, (self._holds(q, env) for q in parts))
            case Or(parts):
                return reduce(or_, (self._holds(q, env) for q in parts))
            case _:
                raise LookupError(f"a predicate of kind {type(p).__name__} isn't translated to Halide")

    def _total(self, e: Expr, env: Mapping[Index, Any]) -> Any:
        """A separate Func over the variables that the sum depends on; its RDom is limited by the sums' predicate."""
        used = [i for i in env if i in _free(e)]
        inner = {i: self.hl.Var(f"{i.name}_{k}") for k, i in enumerate(used)}
        binders: dict[Index, Affine] = {}
        parts: list[Predicate] = []
        while isinstance(e, Sum | Bracket):
            if isinstance(e, Sum):
                binders[e.index] = e.size
            else:
                parts += conjuncts(e.pred)
            e = e.body
        free = _free(e).union(*map(free_atoms, parts))
        summed = {i: size.value(self.sizes) for i, size in binders.items() if i in free}
        alike = prod(size.value(self.sizes) for i, size in binders.items() if i not in free)
        if not summed:
            return self._scalar(e, env) * self.hl.f32(alike)
        domain = self.hl.RDom([(0, n) for n in reversed(summed.values())])
        where = {**inner, **{i: domain[k] for k, i in enumerate(reversed(summed))}}
        outer = [q for q in parts if not free_atoms(q).isdisjoint(used)]
        if len(outer) < len(parts):
            domain.where(self._holds(conjunction(q for q in parts if q not in outer), where))
        term = self._scalar(e, where) * self.hl.f32(alike)
        if outer:  # Halide's reverse mode loses the conditions of an RDom's predicate on other variables
            term = self.hl.select(self._holds(conjunction(outer), where), term, self.hl.f32(0))
        made = self.hl.Func()
        at = _reversed(inner.values())
        made[at] = self.hl.f32(0)
        made[at] += term
        return made[_reversed(env[i] for i in used)]


def _reversed(places: Any) -> tuple[Any, ...]:
    return tuple(places)[::-1]


def _operations(e: Expr) -> int:
    return sum(1 for _ in _below(e))


def _free(e: Expr) -> frozenset[Atom]:
    found: set[Atom] = set()
    for part in _below(e):
        if isinstance(part, Access):
            found.update(part.at.free)
        elif isinstance(part, Bracket):
            found |= free_atoms(part.pred)
    return frozenset(found)


def _below(e: Expr) -> list[Expr]:
    found = [e]
    for part in found:
        found += children(part)
    return found


def gradient(hl: Any, case: Case, arguments: Sequence[Array]) -> tuple[Any, list[Any]]:
    """A compiled pipeline of the case's gradient, and the arrays that it fills by `pipeline.realize` on their buffers.

    Raises `LookupError` for a program that can't be expressed in Halide.
    """
    f = tl.simplify(case.function)
    if len(f.variables) < len(f.params):
        raise LookupError("Halide has no relations or index arrays")
    arrays = {p.name: a for p, a in zip(f.variables, arguments, strict=False)}
    t = Translation(hl, f, arrays, bind(f, list(arrays.values()), {}).sizes)
    if case.takes_cotangent:
        bounds = [hl.Range(0, n) for n in reversed(np.shape(arguments[-1]))]
        adjoints = hl.propagate_adjoints(t.result, t.outside(arguments[-1], "cotangent"), bounds)
    else:
        adjoints = hl.propagate_adjoints(t.result)
    outputs, filled = [], []
    for k in case.argnums:
        p = case.function.params[k]
        a = np.zeros_like(np.atleast_1d(arrays[p.name]))
        out = hl.Func(f"{p.name}_bar")
        at = tuple(hl.Var(f"v{d}") for d in range(a.ndim))
        out[at] = adjoints[t.parameters[p.name]][at]
        out.set_estimates([hl.Range(0, n) for n in reversed(a.shape)])
        outputs.append(out)
        filled.append(a)
    pipeline = hl.Pipeline(outputs)
    hl.load_plugin(str(next((Path(hl.__file__).parent / "lib64").glob("*autoschedule_li2018*"))))
    target = hl.get_jit_target_from_environment()
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Li2018", {}))
    pipeline.compile_jit(target)
    return pipeline, filled
