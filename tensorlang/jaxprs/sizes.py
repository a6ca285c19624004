"""The sizes of JAX's arrays, numbers or symbolic dimensions, as affine expressions, and vice versa."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import export

from tensorlang.errors import ArgumentError
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.language.affine import Affine, Size, atom_affine, constant


def affine(d: Any) -> Affine:
    """A dimension as an affine expression. Raises `Unsupported` if it is not affine."""
    if isinstance(d, int | np.integer):
        return constant(int(d))
    return _read(ast.parse(str(d), mode="eval").body, str(d))


def _read(node: ast.expr, text: str) -> Affine:
    match node:
        case ast.Constant(value=int(k)):
            return constant(k)
        case ast.Name(id=name):
            return atom_affine(Size(name))
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return -_read(a, text)
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return _read(a, text) + _read(b, text)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return _read(a, text) - _read(b, text)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            left, right = _read(a, text), _read(b, text)
            if left.is_constant:
                return right * left.constant
            if right.is_constant:
                return left * right.constant
    raise Unsupported(f"the size {text}, which is not affine", hint="give that argument a shape of numbers")


def is_one(a: Affine) -> bool:
    """Whether `a` is the number 1."""
    return a.is_constant and a.constant == 1


def product(sizes: tuple[Affine, ...]) -> Affine:
    """The product of `sizes`. Raises `Unsupported` if it is not affine."""
    found = constant(1)
    for size in sizes:
        if size.is_constant:
            found = found * size.constant
        elif found.is_constant:
            found = size * found.constant
        else:
            raise Unsupported(f"an axis of the size ({found})*({size}), which is not affine")
    return found


def specs(given: Any) -> Any:
    """Specifications of arguments as shapes: texts such as "n m" name sizes, one scope for all of them.

    A text may end in a dtype: "n m: int32"; it is float32 otherwise. Raises `ArgumentError` for other texts.
    """
    texts = [x for x in jax.tree.leaves(given) if isinstance(x, str)]
    scope = export.SymbolicScope() if texts else None

    def read(x: Any) -> Any:
        if not isinstance(x, str):
            if not isinstance(x, bool | int | float | complex) and not hasattr(x, "shape"):
                hint = 'an array, jax.ShapeDtypeStruct, or a text such as "n m"'
                raise ArgumentError(f"{x!r} describes no argument of a JAX function", hint=hint)
            return x
        dims, _, dtype = x.partition(":")
        try:
            kind = np.dtype(jax.numpy.dtype(dtype.strip() or "float32"))
            shape = export.symbolic_shape(", ".join(dims.split()), scope=scope)
            if any(isinstance(d, int) and d < 0 for d in shape):
                raise ValueError("a size is negative")
            return jax.ShapeDtypeStruct(shape, kind)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError) as error:
            hint = 'sizes with blanks between: "n m", "2*n+1", "m 3: int32", or "" for a number'
            raise ArgumentError(f"{x!r} is no shape: {str(error).splitlines()[0]}", hint=hint) from None

    return jax.tree.map(read, given)


def have_names(given: Any) -> bool:
    """Whether any size in these specifications has a name."""
    return any(export.is_symbolic_dim(d) for x in jax.tree.leaves(given) for d in np.shape(x))


def at(given: Any, sizes: int | Mapping[str, int]) -> Any:
    """Shapes with these numbers, or one number, for the named sizes. Raises `ArgumentError` if one has none."""

    def value(s: Any) -> int:
        if isinstance(sizes, int):
            return sizes
        if s.name not in sizes:
            raise ArgumentError(f"no number is given for the size {s.name}", hint=f"sizes=({{{s.name!r}: 48}}, ..)")
        return sizes[s.name]

    def fixed(x: Any) -> Any:
        if not hasattr(x, "shape"):
            return jax.ShapeDtypeStruct(np.shape(x), jax.numpy.asarray(x).dtype)  # type: ignore[no-untyped-call]
        dims = []
        for d in x.shape:
            a = affine(d)
            dims.append(a.value({s: value(s) for s in a.atoms if isinstance(s, Size)}))
        return jax.ShapeDtypeStruct(tuple(dims), x.dtype)  # type: ignore[no-untyped-call]

    return jax.tree.map(fixed, given)
