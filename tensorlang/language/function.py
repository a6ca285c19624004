"""A program: a name, parameters, and an expression of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import Any, NoReturn

from tensorlang.errors import ScopeError, TensorlangError, TypeMismatch, UnknownAttribute, here
from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.census import Census, census
from tensorlang.language.grammar import Expr, Var, type_of
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, leaves, shape
from tensorlang.shown import MOST_CHARACTERS, Named, Shown, lines, text

Parameter = Var | Relation | IndexArray
Results = tuple["Results", ...] | None
"""The form of a result in Python: None for that of its type (a pair is a 2-tuple); a tuple of k for k values, which
the language holds in pairs nested to the right."""

call_handlers: list[Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]] = []
"""The functions tried when a `Function` is called, until one does not return NotImplemented; else it is a call on
arrays. The Python embedding puts a call on terms here; the language itself knows neither."""

_ON_ARRAYS, _TRACED = "tensorlang.lowering.lower", "tensorlang.transforms.to_jax"
_call_on_arrays: list[Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]] = []
"""The function for calls on arrays, once it has been imported."""
_FROM_TEXT = "tensorlang.surface.parse"


@dataclass(frozen=True, eq=False, repr=False)
class Function(Named, Shown):
    """A tensor program: a name, parameters, and the expression that is its value.

    `str(f)` is its text. `f(*arrays, **arrays)` runs it compiled: arrays of NumPy or JAX, numbers for parameters of
    type R, tuples for pairs, boolean or SciPy sparse matrices for relations, integers for indices. Sizes are read off
    the arrays' shapes, [n][m]R being the shape (n, m); one that no shape determines is a keyword. Pairs come back as
    tuples, read as `results` says. Raises `ArgumentError` for arguments that don't fit.

    `further` are sizes that it accepts though its value does not depend on them: those of the program that it was
    derived from.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(f, f.sizes)
    f(x: [n]R) = sum i:n. x[i] ^ 2 (n,)
    >>> f([1.0, 2.0])
    Array(5., dtype=float32)
    """

    name: str
    params: tuple[Parameter, ...]
    body: Expr
    results: Results = None
    further: tuple[Size, ...] = ()

    @property
    def type(self) -> Type:
        """The type of its value.

        >>> print(tl.parse("f(x: [n]R) = gen i:n. (x[i], 2 * x[i])").type)
        [n](R, R)
        """
        return self.body.type

    @property
    def variables(self) -> tuple[Var, ...]:
        """The parameters that are real values: neither relations nor index arrays.

        >>> print(tl.parse("f(x: [n]R, k: [m]idx(n)) = gen i:m. x[k[i]]").variables)
        (x,)
        """
        return tuple(p for p in self.params if isinstance(p, Var))

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that its parameters' types name, in order of first appearance, then those only in its body.

        >>> print(tl.parse("f(A: [n][m]R) = gen i:n. sum j:m. A[i, j]").sizes)
        (n, m)
        """
        found: dict[Size, None] = {}
        for p in self.params:
            for size in sizes_of(p):
                found.update(dict.fromkeys(size.sizes))
        found.update((s, None) for s in free_names(self.body) if isinstance(s, Size))
        return tuple(found)

    @cached_property
    def census(self) -> Census:
        """The kinds of expressions in its body, found once for all passes that ask whether there is anything to do.

        >>> tl.parse("f(x: [n]R) = sum i:n. x[i]").census.nodes
        3
        """
        return census(self.body)

    @property
    def nodes(self) -> int:
        """The number of different expressions in it.

        Equal expressions are one.

        >>> tl.parse("f(x: R) = sin(x) * sin(x)").nodes
        3
        """
        return self.census.nodes

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The value at these arguments, by the first of `call_handlers` that takes them, or of compiled code; where JAX
        traces them, as by `to_jax`."""
        try:
            for handler in call_handlers:
                result = handler(self, args, kwargs)
                if result is not NotImplemented:
                    return result
            if not _call_on_arrays:
                _call_on_arrays.append(import_module(_ON_ARRAYS).call)
            result = _call_on_arrays[0](self, args, kwargs)
            return import_module(_TRACED).to_jax(self)(*args, **kwargs) if result is NotImplemented else result
        except TensorlangError as error:
            error.at(here())
            raise

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = "what is done with programs are functions: tl.grad(f), tl.cost(f), tl.lower(f), .."
        raise UnknownAttribute(f"a program has no attribute {name}", here(), hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by text: functions that the text calls must be registered where it is read."""
        return _read_back, (text(self), self.results, tuple(size.name for size in self.further))

    def __str__(self) -> str:
        return text(self)

    def _text_lines(self) -> Iterable[str]:
        return lines(self, MOST_CHARACTERS)

    def _called(self) -> str:
        return self.name


def _read_back(said: str, results: Results, further: tuple[str, ...]) -> Function:
    f: Function = import_module(_FROM_TEXT).parse(said)
    return replace(f, results=results, further=tuple(map(Size, further)))


def _no_value(f: Function, *_: object) -> NoReturn:
    """An operator, given a program where it takes values."""
    hint = f"call it: {f.name}(..) of arrays, or of the terms of another program"
    raise TypeMismatch(f"{f.name} is a program, not one of its values", here(), hint)


for _name in ("add", "sub", "mul", "truediv", "matmul", "pow"):
    setattr(Function, f"__{_name}__", _no_value)
    setattr(Function, f"__r{_name}__", _no_value)
for _name in ("neg", "getitem", "iter"):
    setattr(Function, f"__{_name}__", _no_value)


def differentiated(f: Function, wrt: str | tuple[str, ...] | None) -> tuple[Var, ...]:
    """The parameters that `wrt` names, by default every one that is not a relation.

    Raises `ScopeError` for a name that is no such parameter, or comes twice, and if there is none at all.
    """
    by_name = {v.name: v for v in f.variables}
    names: tuple[Any, ...] = tuple(by_name) if wrt is None else tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    for k, name in enumerate(names):
        if not isinstance(name, str) or name not in by_name:
            known = ", ".join(by_name) or "none"
            hint = did_you_mean(name, list(by_name)) if isinstance(name, str) else None
            if isinstance(name, int) and 0 <= name < len(f.params) and f.params[name].name in by_name:
                hint = f'parameters are named, not counted: wrt="{f.params[name].name}"'
            elif isinstance(name, str) and any(name == p.name for p in f.params):
                hint = "relations and index arrays have no derivative"
            message = f"{f.name} has no real-valued parameter {name!r} to differentiate by; it has {known}"
            raise ScopeError(message, hint=hint or 'a name, wrt="x", or a tuple of them')
        if name in names[:k]:
            raise ScopeError(f"wrt names {name!r} twice", hint=f'once is enough: wrt="{name}"')
    if not names:
        hint = "its parameters are relations and index arrays, or there are none"
        raise ScopeError(f"{f.name} has no real-valued parameter to differentiate by", hint=hint)
    return tuple(by_name[name] for name in names)


def derived(g: Function, f: Function) -> Function:
    """`g`, which was made from `f`, and so accepts the sizes of `f`."""
    known = set(g.sizes)
    return replace(g, further=tuple(s for s in (*f.sizes, *f.further) if s not in known))


def did_you_mean(name: str, known: Sequence[str]) -> str | None:
    """A hint that names those of `known` that are spelled nearly like `name`, or all if they are few."""
    close = get_close_matches(name[:80], known[:2000], n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known here: {', '.join(known)}" if 0 < len(known) <= 8 else None


def unused_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted` with a number that makes it differ from all of `taken`."""
    if wanted not in taken:
        return wanted
    k = 1
    while f"{wanted}{k}" in taken:
        k += 1
    return f"{wanted}{k}"


def taken_names(f: Function) -> set[str]:
    """The names of `f`'s parameters and sizes."""
    return {p.name for p in f.params} | {s.name for s in f.sizes}


def type_text(p: Parameter) -> str:
    """The type of a parameter as text."""
    if isinstance(p, Relation):
        return f"rel({', '.join(map(str, p.sizes))})"
    return str(type_of(p))


def sizes_of(p: Parameter) -> list[Affine]:
    """The sizes that the type of a parameter names."""
    if isinstance(p, Relation):
        return list(p.sizes)
    if isinstance(p, IndexArray):
        return [*p.sizes, p.size]
    found: list[Affine] = []
    for _, part in leaves(p.type):
        found += shape(part)[0]
    return found


__all__ = [
    "Function",
    "Pair",
    "Parameter",
    "Results",
    "call_handlers",
    "derived",
    "did_you_mean",
    "differentiated",
    "sizes_of",
    "taken_names",
    "type_text",
    "unused_name",
]
