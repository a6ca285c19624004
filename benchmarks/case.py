"""A benchmark program with everything needed to run it: text, rivals, sizes, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

import jax
import numpy as np
import scipy.sparse

import tensorlang as tl
from tensorlang.language.affine import Atom, Index, IndexArray, Size, atom_affine
from tensorlang.language.grammar import Let, Var, access, gen
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape

Suite = Literal["structured", "seeds", "dense", "kernels"]
What = Literal["gradient", "jacobian", "blocks", "hessian"]
Sizes = Mapping[str, int]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def positive(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    """Numbers between 1/2 and 2."""
    return rng.uniform(0.5, 2, dims).astype(np.float32)


def small(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    """Normal numbers, divided by the root of the last extent: weights of a layer."""
    return (rng.normal(size=dims) / np.sqrt(dims[-1] if dims else 1)).astype(np.float32)


def sparse(points: int) -> Draw:
    """A relation with about `points` points."""

    def draw(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
        places = rng.choice(dims[0] * dims[1], size=min(points, dims[0] * dims[1] // 4), replace=False)
        rows, columns = np.divmod(np.sort(places), dims[1])
        return scipy.sparse.csr_matrix((np.ones(len(places), bool), (rows, columns)), shape=dims)

    return draw


def dense(argument: Any) -> Any:
    """A relation as a boolean array; anything else as it is."""
    return argument.toarray() if scipy.sparse.issparse(argument) else argument


def points(argument: Any) -> Any:
    """A sparse relation as its points in order, an array for each axis; anything else as it is."""
    if not scipy.sparse.issparse(argument):
        return argument
    places = argument.tocoo()
    order = np.lexsort((places.col, places.row))
    return places.row[order].astype(np.int32), places.col[order].astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program and its rivals.

    `program(xp, *arguments)` is the program as one would naturally write it for `xp`, which is `jax.numpy` or `torch`;
    `torch`, where given, is the program for PyTorch, and `reference` the program for answers, where JAX gets the
    gradient of the natural one wrong, or takes too long to compile it. `by_hand(*arguments)` is the best gradient that
    we can write in JAX; it also takes the output's cotangent if the program isn't scalar. Relations are dense boolean
    arrays to `program`, and their points in order, as an array for each axis, to `by_hand`. `sizes` grow; `odd` are
    awkward ones at which answers are checked. `limits` says which promise a case is known to break, and why: "cost",
    "model" or "space" (counted in compiled code, see tests/measure/test_compiled_cost.py), with a number for only one
    of `sizes`.
    """

    name: str
    suite: Suite
    text: str
    program: Callable[..., Any]
    sizes: Sequence[Sizes]
    odd: Sizes
    wrt: tuple[str, ...] = ()
    what: What = "gradient"
    by_hand: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    draw: Mapping[str, Draw] = field(default_factory=dict)
    multiplied_out: bool = False
    grows: str = "n"
    limits: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def function(self) -> tl.Function:
        """The program."""
        return tl.parse(self.text)

    @cached_property
    def derived(self) -> tl.Function:
        """The measured derivative: the gradient, the adjoint if the program isn't scalar, the Jacobian, the Hessian, or
        the blocks J[i, .., i, ..] of a Jacobian J, which are all of J where rows are independent. Squares are
        `multiplied_out` if the case says so."""
        return tl.expand_squares(self._derivative) if self.multiplied_out else self._derivative

    @cached_property
    def _derivative(self) -> tl.Function:
        wrt = self.wrt or None
        match self.what:
            case "gradient":
                return tl.grad(self.function, wrt) if self.is_scalar else tl.adjoint(self.function, wrt)
            case "jacobian":
                return tl.jacobian(self.function, wrt)
            case "blocks":
                return _blocks(tl.jacobian(self.function, wrt), len(shape(self.function.type)[0]))
            case "hessian":
                return tl.jacobian(tl.grad(self.function, wrt), wrt)

    @property
    def is_scalar(self) -> bool:
        """Whether the program returns one number."""
        return not shape(self.function.type)[0]

    @property
    def takes_cotangent(self) -> bool:
        """Whether `derived` has a parameter for the output's cotangent."""
        return self.what == "gradient" and not self.is_scalar

    def _cost(self, f: tl.Function, sizes: Sizes, data: Mapping[str, Any]) -> int:
        """The cost of `f`. Where the cost depends on which points are chosen, all arrays are given."""
        try:
            return tl.cost(f, **{**sizes, **data})
        except tl.ArgumentError:
            arrays = {p.name: a for p, a in zip(f.params, self.arguments(sizes), strict=False)}
            return tl.cost(f, {**sizes, **arrays})

    @property
    def _wanted(self) -> tuple[Var, ...]:
        """The parameters by which we differentiate."""
        return tuple(v for v in self.function.variables if not self.wrt or v.name in self.wrt)

    @property
    def argnums(self) -> tuple[int, ...]:
        """The places of the parameters by which we differentiate."""
        names = [p.name for p in self.function.params]
        return tuple(names.index(name) for name in self.wrt or [v.name for v in self._wanted])

    def arguments(self, sizes: Sizes, seed: int = 0) -> list[Any]:
        """Random arguments of the program, in single precision; then a cotangent, if `derived` takes one."""
        rng = np.random.default_rng(seed)
        values: dict[Atom, int] = {Size(name): n for name, n in sizes.items()}
        found = []
        for p in self.function.params:
            dims = tuple(a.value(values) for a in (shape(p.type)[0] if isinstance(p, Var) else p.sizes))
            draw = self.draw.get(p.name, _normal)
            if isinstance(p, IndexArray) and p.name not in self.draw:
                found.append(_indices(rng, dims, p.size.value(values)))
            else:
                found.append(draw(rng, dims))
        if self.takes_cotangent:
            found.append(_normal(rng, tuple(a.value(values) for a in shape(self.function.type)[0])))
        return found

    def shapes(self, sizes: Sizes) -> list[Any]:
        """As `arguments`, with shapes instead of arrays; relations and index arrays are still data."""
        rng = np.random.default_rng(0)
        values: dict[Atom, int] = {Size(name): n for name, n in sizes.items()}
        found: list[Any] = []
        for p in self.function.params:
            dims = tuple(a.value(values) for a in (shape(p.type)[0] if isinstance(p, Var) else p.sizes))
            if isinstance(p, Relation):
                found.append(self.draw[p.name](rng, dims))
            elif isinstance(p, IndexArray) and p.name not in self.draw:
                found.append(_indices(rng, dims, p.size.value(values)))
            elif isinstance(p, IndexArray):
                found.append(self.draw[p.name](rng, dims))
            else:
                found.append(jax.ShapeDtypeStruct(dims, np.float32))
        if self.takes_cotangent:
            dims = tuple(a.value(values) for a in shape(self.function.type)[0])
            found.append(jax.ShapeDtypeStruct(dims, np.float32))
        return found

    def model(self, sizes: Sizes, arguments: Sequence[Any]) -> tuple[int, int, int, int]:
        """By the cost model: operations of the program and of its derivative, and their inputs and outputs.

        Only data among `arguments` are looked at; shapes suffice for the others.
        """
        data = {p.name: a for p, a in zip(self.function.params, arguments, strict=False) if not isinstance(p, Var)}
        program, derived = self._cost(self.function, sizes, data), self._cost(self.derived, sizes, data)
        values: dict[Atom, int] = {Size(name): n for name, n in sizes.items()}
        inputs = sum(prod(np.shape(a)) for a in arguments if not scipy.sparse.issparse(a))
        outputs = sum(prod(a.value(values) for a in shape(v.type)[0]) for v in self._wanted)
        return program, derived, inputs, outputs


def _blocks(f: tl.Function, at: int) -> tl.Function:
    """The elements J[i, .., i, ..] of the array J that `f` returns, whose second i is at axis `at`."""
    whole = Var("J", f.type)
    binders = [(Index(f"i{k}"), size) for k, size in enumerate(shape(f.type)[0])]
    del binders[at]
    places = [atom_affine(i) for i, _ in binders]
    element = access(whole, *places[:at], places[0], *places[at:])
    return tl.simplify(tl.Function(f.name, f.params, Let(whole, f.body, gen(binders, element))))


def _indices(rng: np.random.Generator, dims: tuple[int, ...], size: int) -> Any:
    return rng.integers(size, size=dims).astype(np.int32)


def _normal(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    return rng.normal(size=dims).astype(np.float32)
