"""Arrays in and out: matching arguments to parameters, reading sizes off shapes, and results as Python values."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.elements import check_integers, check_range
from tensorlang.language.function import Function, Parameter, Results, type_text
from tensorlang.language.given import apart, spread, together
from tensorlang.language.grammar import Var
from tensorlang.language.linear import Equations
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, shape
from tensorlang.recursion import Deep, call, run


@dataclass(frozen=True)
class Bound:
    """The value of each parameter, pairs as 2-tuples with arrays innermost, and the value of each size."""

    values: dict[Parameter, Any]
    sizes: dict[Size, int]


def bind(f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """Match positional and keyword arguments to the parameters of `f`, and read the sizes off their shapes.

    A keyword may also give a size. The fields of records (NamedTuples, dataclasses and dicts) are matched by name, and
    a mapping as the last positional argument counts as keywords. A pair is a tuple; pairs nested to the right may come
    as one longer tuple. Values with a `shape` and a `dtype` are passed on unchanged; numbers and lists become arrays.
    Raises `ArgumentError`, also for an element of an index array that is out of range, unless JAX is tracing the array.
    """
    args, kwargs = spread(f, args, kwargs)
    args, mapping = apart(args)
    kwargs = together(mapping, kwargs)
    named = {p.name: p for p in f.params}
    given: dict[Parameter, Any] = {}
    if len(args) > len(f.params):
        many = "argument" if len(f.params) == 1 else "arguments"
        raise ArgumentError(f"{_signature(f)} takes {len(f.params)} {many}, found {len(args)}", hint=_types(f))
    given.update(zip(f.params, args, strict=False))
    sizes: dict[str, Any] = {}
    for name, value in kwargs.items():
        p = named.get(name)
        if p is None:
            sizes[name] = value
        elif p in given:
            raise ArgumentError(f"{name} is given twice, by position and by name", hint=_types(f))
        else:
            given[p] = value
    equations = _Equations(f, sizes)
    missing = [p.name for p in f.params if p not in given]
    if missing:
        raise ArgumentError(f"{_signature(f)} needs {' and '.join(missing)} too", hint=_types(f))
    values: dict[Parameter, Any] = {}
    for p in f.params:
        if isinstance(p, Var):
            values[p] = run(_structured(p.name, p.type, given[p]))
            for path, sizes_of_part, part in _parts(p.name, p.type, values[p]):
                equations.shape(path, sizes_of_part, part)
        else:
            values[p] = _data(p, given[p], equations)
    return _checked(values, equations.solve())


def size_values(f: Function, /, **given: Any) -> Bound:
    """The sizes of `f` from keywords, and from the data of relations and index arrays given by name.

    `values` has the relations and the given index arrays. Raises `ArgumentError`.
    """
    data = {p.name: p for p in f.params if not isinstance(p, Var)}
    for p in f.params:
        if p.name in given and p.name not in data:
            named = ", ".join(f"{s.name}=.." for s in f.sizes)
            raise ArgumentError(
                f"{p.name} is an array; only sizes, relations and index arrays are needed here",
                hint=f"pass the sizes: {named}" if named else "leave it out",
            )
    equations = _Equations(f, {name: value for name, value in given.items() if name not in data})
    values: dict[Parameter, Any] = {}
    for name, p in data.items():
        if name in given:
            values[p] = _data(p, given[name], equations)
        elif isinstance(p, Relation):
            raise ArgumentError(
                f"{_signature(f)} needs the data of the relation {name}: pass {name}=...",
                hint="a boolean array or a SciPy sparse matrix",
            )
        else:
            equations.declared(name, p.sizes)
    for v in f.variables:
        for path, kind in _leaf_names(v.name, v.type):
            equations.declared(path, kind)
    return _checked(values, equations.solve())


def _data(p: Relation | IndexArray, value: Any, equations: _Equations) -> Any:
    """The array `value` of a relation or of indices."""
    if isinstance(p, IndexArray) and isinstance(value, list) and not value:
        value = np.zeros(0, np.int64)
    array = _array(p.name, value)
    if isinstance(p, IndexArray):
        check_integers(p, array)
    equations.shape(p.name, p.sizes, array)
    return array


def _checked(values: dict[Parameter, Any], sizes: dict[Size, int]) -> Bound:
    for p, value in values.items():
        if isinstance(p, IndexArray):
            check_range(p, value, sizes)
    return Bound(values, sizes)


def unpack(value: Any, results: Results) -> Any:
    """A value in the form for Python that `results` describes: pairs nested to the right as one tuple."""
    return run(_unpack(value, results))


def _unpack(value: Any, results: Results) -> Deep[Any]:
    if results is None:
        return value
    found = []
    for part in results[:-1]:
        first, value = value
        found.append((yield from call(_unpack(first, part))))
    found.append((yield from call(_unpack(value, results[-1]))))
    return tuple(found)


def leaf_shapes(kind: Type) -> list[tuple[Affine, ...]]:
    """The shapes of the arrays that hold a value of type `kind`, pairs outermost, from left to right."""
    return [sizes for _, sizes in _leaf_names("", kind)]


def _leaf_names(name: str, kind: Type) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    """The parts of `kind` in the order of `leaf_shapes`, each with its name for messages."""
    stack: list[tuple[str, tuple[Affine, ...], Type]] = [(name, (), kind)]
    while stack:
        path, outer, part = stack.pop()
        inner, element = shape(part)
        if isinstance(element, Pair):
            stack.append((f"snd({path})", outer + inner, element.second))
            stack.append((f"fst({path})", outer + inner, element.first))
        else:
            yield path, outer + inner


def from_leaves(kind: Type, leaves: Iterator[Any]) -> Any:
    """The value of type `kind` whose arrays, from left to right, are `leaves`."""
    return run(_from_leaves(kind, leaves))


def _from_leaves(kind: Type, leaves: Iterator[Any]) -> Deep[Any]:
    _, element = shape(kind)
    if not isinstance(element, Pair):
        return next(leaves)
    first = yield from call(_from_leaves(element.first, leaves))
    return first, (yield from call(_from_leaves(element.second, leaves)))


def to_leaves(kind: Type, value: Any) -> list[Any]:
    """The arrays in a value of type `kind`, from left to right."""
    return [part for _, _, part in _parts("", kind, value)]


def _parts(name: str, kind: Type, value: Any) -> Iterator[tuple[str, tuple[Affine, ...], Any]]:
    stack = [value]
    for (path, sizes), depth in zip(_leaf_names(name, kind), _left_depths(kind), strict=True):
        for _ in range(depth):
            first, second = stack.pop()
            stack += [second, first]
        yield path, sizes, stack.pop()


def _left_depths(kind: Type) -> Iterator[int]:
    """For each leaf, how many pairs begin at it."""
    stack = [kind]
    depth = 0
    while stack:
        _, element = shape(stack.pop())
        if isinstance(element, Pair):
            stack += [element.second, element.first]
            depth += 1
        else:
            yield depth
            depth = 0


def _structured(name: str, kind: Type, value: Any) -> Deep[Any]:
    """`value` with its pairs as 2-tuples and everything else with a shape."""
    _, element = shape(kind)
    if not isinstance(element, Pair):
        return _array(name, value)
    if not isinstance(value, tuple):
        message = f"{name} must be a tuple of 2 for the type {kind}, found {_describe(value)}"
        raise ArgumentError(message, hint=f"its two parts: {name}=(a, b)")
    if len(value) > 2 and isinstance(shape(element.second)[1], Pair):
        value = (value[0], value[1:])
    if len(value) != 2:
        message = f"{name} must be a tuple of 2 for the type {kind}, found a tuple of {len(value)}"
        raise ArgumentError(message, hint=f"its two parts: {name}=(a, b)")
    first = yield from call(_structured(f"fst({name})", element.first, value[0]))
    return first, (yield from call(_structured(f"snd({name})", element.second, value[1])))


def _array(name: str, value: Any) -> Any:
    """`value` if it has a shape and a dtype of NumPy's, or the array of a number, a list or another library's array."""
    if is_foreign(value):
        return _from_dlpack(name, value)
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple):
        return value
    hint = "arrays of NumPy, JAX and PyTorch, lists of numbers, and numbers are taken"
    if isinstance(value, Number | list):
        try:
            made = np.asarray(value)
        except ValueError as error:
            raise ArgumentError(f"{name} must be an array: {error}", hint="the rows are of one length") from None
        if made.dtype.kind in "biufcO":
            return made
    raise ArgumentError(f"{name} must be an array or a number, found {_describe(value)}", hint=hint)


def is_foreign(value: Any) -> bool:
    """Whether `value` is an array of a library other than NumPy and JAX that can be shared by DLPack."""
    known = isinstance(getattr(value, "dtype", None), np.dtype) or hasattr(value, "aval")
    return hasattr(value, "__dlpack__") and not known


def _from_dlpack(name: str, value: Any) -> Any:
    """The NumPy array that shares the memory of another library's tensor, without its derivative."""
    detached = value.detach() if hasattr(value, "detach") else value
    try:
        return np.from_dlpack(detached)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} is a {type(value).__name__} that NumPy can't read: {str(error).splitlines()[0]}",
            hint=f"on the host, of a usual dtype: {name}.cpu(); or as a JAX array: jax.dlpack.from_dlpack({name})",
        ) from None


def _types(f: Function) -> str:
    """The parameters of `f` and their types, for a hint."""
    return f"{f.name}({', '.join(f'{p.name}: {type_text(p)}' for p in f.params)})"


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


def _signature(f: Function) -> str:
    return f"{f.name}({', '.join(p.name for p in f.params)})"


@dataclass
class _Equation:
    """size = value, for the reason `why`; `name` is the parameter or keyword that it comes from."""

    size: Affine
    value: int
    name: str
    axes: tuple[int, int] | None = None
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.axes is None:
            return f"{self.name}={self.value} is given"
        return f"{self.name} has shape {_show_shape(self.shape)}"


def _show_shape(dims: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, dims)) + ("," if len(dims) == 1 else "") + ")"


class _Equations:
    """Affine equations in the sizes of `f`, and their only solution."""

    def __init__(self, f: Function, keywords: Mapping[str, Any]) -> None:
        self.function = f
        self.sizes = f.sizes
        self.equations: list[_Equation] = []
        self.declarations: list[tuple[str, Affine]] = []
        self.values: dict[Size, Fraction] = {}
        self.source: dict[Size, str] = {}
        by_name = {s.name: s for s in (*self.sizes, *f.further)}
        for name, value in keywords.items():
            if name not in by_name:
                sizes = ", ".join(by_name) or "none"
                raise ArgumentError(
                    f"{_signature(f)} has no parameter or size called {name}", hint=f"its sizes are: {sizes}"
                )
            try:
                known = operator.index(value)
            except TypeError:
                known = -1
            if known < 0 or isinstance(value, bool):
                raise ArgumentError(
                    f"the size {name} must be a whole number from 0 on, found {value!r}", hint=f"such as {name}=3"
                )
            self.values[by_name[name]] = Fraction(known)
            self.source[by_name[name]] = ""

    def shape(self, name: str, sizes: tuple[Affine, ...], array: Any) -> None:
        """The axes of `array` have these `sizes`."""
        dims = tuple(array.shape)
        if len(dims) != len(sizes):
            axes = "1 axis" if len(sizes) == 1 else f"{len(sizes)} axes"
            wanted = f"{axes}, {''.join(f'[{s}]' for s in sizes)}" if sizes else "a number"
            if len(dims) == len(sizes) + 1:
                hint = f"jax.vmap(tl.to_jax({self.function.name})) maps over a further axis"
            else:
                hint = _types(self.function)
            raise ArgumentError(f"{name} has shape {_show_shape(dims)}, expected {wanted}", hint=hint)
        for k, (size, dim) in enumerate(zip(sizes, dims, strict=True)):
            self.equations.append(_Equation(size, int(dim), name, (k, len(dims)), dims))
        self.declared(name, sizes)

    def declared(self, name: str, sizes: tuple[Affine, ...]) -> None:
        """`name` has axes of these `sizes`, so they are not negative."""
        self.declarations += [(name, size) for size in sizes]

    def solve(self) -> dict[Size, int]:
        """The sizes. Raises `ArgumentError` if there are none, or several."""
        waiting = self.equations
        while waiting:
            # a size on its own explains itself best, so it is read first
            waiting = sorted(waiting, key=lambda q: len(q.size.terms) + abs(q.size.constant) * 0.01)
            later = []
            for q in waiting:
                unknown = [s for s in q.size.sizes if s not in self.values]
                if not unknown:
                    self._check(q)
                elif len(unknown) == 1:
                    self._learn(unknown[0], self._remainder(q) / q.size.coefficient(unknown[0]), q)
                else:
                    later.append(q)
            if len(later) == len(waiting):
                self._eliminate(later)
                break
            waiting = later
        missing = [s.name for s in self.sizes if s not in self.values]
        if missing:
            names = " and ".join(missing)
            raise ArgumentError(
                f"{names} can't be read off the arguments: pass {', '.join(f'{s}=...' for s in missing)}",
                hint=f"by name, besides the arguments: {', '.join(f'{s}=3' for s in missing)}",
            )
        solved = {s: int(self.values[s]) for s in self.sizes}
        for name, size in self.declarations:
            if size.value(solved) < 0:  # type: ignore[arg-type]
                raise ArgumentError(
                    f"{name} has an axis [{size}], which is negative{self._known(size)}",
                    hint=f"arrays for which {size} is at least 0",
                )
        return solved

    def _remainder(self, q: _Equation) -> Fraction:
        known = sum((k * self.values[s] for s, k in q.size.terms if isinstance(s, Size) and s in self.values), 0)
        return Fraction(q.value - q.size.constant - known)

    def _learn(self, size: Size, value: Fraction, q: _Equation) -> None:
        if value < 0 or value.denominator != 1:
            wanted = "negative" if value < 0 else "not a whole number"
            raise ArgumentError(
                f"{q}, expected [{q.size}]{self._axis(q)}{self._known(q.size)}; "
                f"so {size.name} would be {value}, which is {wanted}",
                hint=_types(self.function),
            )
        self.values[size] = value
        self.source[size] = q.name

    def _check(self, q: _Equation) -> None:
        if self._remainder(q) != 0:
            value = q.value - self._remainder(q)
            equals = "" if q.size.is_constant else f" = {value}"
            told = [s for s in q.size.sizes if not self.source.get(s)]
            if told and q.axes is not None:
                hint = f"shapes tell {' and '.join(s.name for s in told)}: leave it out"
            else:
                hint = f"where the lengths differ, they are two sizes: {_types(self.function)}"
            raise ArgumentError(f"{q}, expected [{q.size}]{equals}{self._axis(q)}{self._known(q.size)}", hint=hint)

    def _axis(self, q: _Equation) -> str:
        return f" for axis {q.axes[0]}" if q.axes and q.axes[1] > 1 else ""

    def _known(self, size: Affine) -> str:
        """` with n = 3 (from x), m = 2` for the sizes in `size` that are known."""
        parts = [
            f"{s.name} = {self.values[s]}" + (f" (from {self.source[s]})" if self.source[s] else "")
            for s in size.sizes
            if s in self.values
        ]
        return f" with {', '.join(parts)}" if parts else ""

    def _eliminate(self, equations: list[_Equation]) -> None:
        """Solve equations that each have several unknowns."""
        known: Equations[Size, None] = Equations()
        names: dict[Size, _Equation] = {}
        for q in equations:
            terms = {s: k for s, k in q.size.terms if isinstance(s, Size) and s not in self.values}
            names.update(dict.fromkeys(terms, q))
            if known.add(terms, {None: self._remainder(q)}):
                several = ", ".join(dict.fromkeys(p.name for p in equations))
                message = f"{q}, which [{q.size}]{self._axis(q)} can't have: the shapes of {several} disagree"
                raise ArgumentError(message, hint=_types(self.function))
        for size, value in known.solved():
            self._learn(size, value.get(None, Fraction(0)), names[size])
