"""Operations that indices, conditions and values refuse in Python, values that can't stand for them, and
alternatives."""

from __future__ import annotations

from typing import NoReturn

from tensorlang.language.affine import Affine
from tensorlang.language.function import Function
from tensorlang.language.types import Array, Pair, Type, shape
from tensorlang.surface import foreign
from tensorlang.surface.quotients import HALVES, IndexQuotient
from tensorlang.surface.scope import Surface, refuse

NOT_DIVIDED = (
    "rounded down it is i // 2, and what is left is i % 2; for half of a size, call the half n and the whole 2 * n"
)
NOT_AN_INDEX = "an index is made of indices, sizes, integers, + and -, found {}"


class IndexRefusals(Surface):
    """Operations that index expressions refuse."""

    __slots__ = ()

    def _not_affine(self, *_: object) -> NoReturn:
        refuse(
            f"an integer is not divided by an index or a size, found a division by {self}",
            "quotients and remainders are by positive integers: i // 2, i % 2",
        )

    __rfloordiv__ = __rmod__ = __divmod__ = __rdivmod__ = _not_affine

    def _not_logic(self, _: object) -> NoReturn:
        refuse(
            f"& and | combine conditions, found the index expression {self}",
            "they bind tighter than comparisons: write (0 <= i) & (i < n)",
        )

    __and__ = __rand__ = __or__ = __ror__ = _not_logic

    def _not_known(self) -> NoReturn:
        refuse(
            f"{self} has no value while a program is written",
            "use it inside a tl expression, such as x[i + 1] or (i < n) * x; loop with tl.gen or tl.sum",
        )

    __bool__ = __int__ = __float__ = __index__ = _not_known


class ConditionRefusals(Surface):
    """Operations that conditions refuse."""

    __slots__ = ()

    def _not_known(self, *_: object) -> NoReturn:
        refuse(
            "a condition is neither true nor false while a program is written",
            "write (0 <= i) & (i < n) instead of 0 <= i < n, &, | and ~ instead of and, or and not; tl.where(c, a, b) "
            "instead of a if c else b; tl.maximum and tl.minimum instead of max and min",
        )

    __bool__ = _not_known

    def _not_compared(self, _: object) -> NoReturn:
        refuse(
            "a condition is not compared with anything",
            "combine conditions by & and |; == binds looser than &, so write (i == j) & (j == k)",
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _not_compared
    __hash__ = object.__hash__


class TermRefusals(Surface):
    """Operations that values of a program refuse while it is written."""

    __slots__ = ()

    def __call__(self, *at: object) -> NoReturn:
        """Raise `TypeMismatch`: a value is no function."""
        refuse(f"only functions are called, found {self.described()}", "an element is read with brackets: x[i]")

    def _matrix_product(self, _: object) -> NoReturn:
        refuse("products of matrices are written as sums", foreign.mend("matmul"))

    __matmul__ = __rmatmul__ = _matrix_product

    def _no_operation(self, *_: object) -> NoReturn:
        refuse(
            f"there is no such operation on {self.described()}",
            "numbers have + - * / and **; tl.scalar_function registers a function with its derivative",
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _no_operation
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _no_operation
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _no_operation
    __invert__ = __round__ = __floor__ = __ceil__ = __trunc__ = _no_operation

    def _not_known(self) -> NoReturn:
        refuse(
            "a term has no value while a program is written",
            "define the program with tl.function, then call it with numbers or arrays",
        )

    def _not_an_index(self) -> NoReturn:
        refuse(NOT_AN_INDEX.format(self.described()))

    __bool__ = __int__ = __float__ = __complex__ = _not_known
    __index__ = _not_an_index


def described(value: object) -> str:
    """A description of `value`, for a message."""
    if isinstance(value, Surface):
        return value.described()
    if value is None:
        return "None"
    return f"{value!r}" if isinstance(value, int | float | str) else f"a Python {type(value).__name__}"


def need_number(kind: Type, what: str, form: str) -> None:
    """Raise `TypeMismatch` for an array where a number is wanted; `form` is an expression for elements along one
    axis."""
    if isinstance(kind, Array):
        sizes, _ = shape(kind)
        indices = ", ".join("ijklpqrs"[: len(sizes)])
        shown = f"({', '.join(map(str, sizes))})" if len(sizes) > 1 else str(sizes[0])
        refuse(
            f"{what} takes numbers, found an array of type {kind}",
            f"write the elements: tl.gen({shown}, lambda {indices}: {form.replace('[i]', f'[{indices}]')})",
        )
    if isinstance(kind, Pair):
        refuse(f"{what} takes numbers, found a pair of type {kind}", "its parts: a, b = p, or tl.fst(p) and tl.snd(p)")


def refuse_as_term(value: object) -> NoReturn:
    """Raise `TypeMismatch` for anything but a value of a program."""
    if hasattr(value, "shape"):
        hint = foreign.captured(len(value.shape))
    elif isinstance(value, list):
        hint = "several values are a tuple: (a, b)"
    elif isinstance(value, dict):
        hint = "several values are a tuple, in the order of the dict: (a, b)"
    elif isinstance(value, Function):
        hint = f"a program is called with terms: {value.name}(..)"
    else:
        hint = "a number, or what tl's functions and Python's + - * / ** make of parameters"
    refuse(f"expected a number, a term or a tuple of them, found {described(value)}", hint)


def refuse_as_condition(value: object, what: str) -> NoReturn:
    """Raise `TypeMismatch` for anything but a condition."""
    refuse(
        f"{what} must be a condition, found {described(value)}",
        "& and | bind tighter than comparisons: write (0 <= i) & (i < n)"
        + "; of values: x[i] != 0" * isinstance(value, TermRefusals),
    )


def refuse_as_index(value: object, what: str, divided: bool) -> NoReturn:
    """Raise `TypeMismatch` for anything but an index expression; `divided` tells whether it is a number made of
    such."""
    if divided:
        hint = NOT_DIVIDED
    elif isinstance(value, ConditionRefusals | TermRefusals):
        hint = "values are no indices: an array that is read at is declared as one of indices, y: tl.idx(m)[n]"
    elif isinstance(value, str):
        hint = f'sizes are made first: {value} = tl.sizes("{value}")' if value.isidentifier() else "n = tl.sizes(..)"
    elif callable(value):
        hint = "the size comes first, then the function: tl.gen(n, lambda i: x[i])"
    elif isinstance(value, list):
        hint = "several sizes are a tuple: tl.gen((n, m), lambda i, j: A[i, j])"
    elif isinstance(value, float) and value.is_integer():
        hint = f"a whole number: {int(value)}"
    else:
        hint = "index expressions have whole numbers, indices and sizes, + - and * by a whole number"
    refuse(f"{what} must be an index, a size or an integer, found {described(value)}", hint)


def refuse_as_place(value: object, divided: bool) -> NoReturn:
    """Raise `TypeMismatch` for a value that can't be in the brackets of an access."""
    if divided:
        hint = NOT_DIVIDED
    elif isinstance(value, TermRefusals):
        hint = "an array that is read at is declared as one of indices: y: tl.idx(m)[n], then x[y[i]]"
    elif isinstance(value, ConditionRefusals):
        hint = "a condition stands in front: (i > 0) * x[i]"
    elif value is None or value is Ellipsis:
        hint = "every axis is named by an index; an array with more axes is made by tl.gen"
    else:
        hint = "an element at a time: tl.gen(n, lambda i: x[i]); data that choose are a parameter, y: tl.idx(m)[n]"
    refuse(NOT_AN_INDEX.format(described(value)), hint)


def refuse_as_size(a: Affine) -> NoReturn:
    """Raise `TypeMismatch` for an index expression that is no size."""
    unfit = a.lookups or a.indices
    if not unfit:
        refuse(f"a size is at least 0, found {a}", 'such as 3, or n = tl.sizes("n")')
    refuse(
        f"a size is made of size names and integers, found the index {unfit[0].name} in {a}",
        HALVES
        if any(isinstance(i, IndexQuotient) for i in unfit)
        else "a condition makes a range depend on an index: tl.sum(n, lambda j: (j < i) * x[j])",
    )


def refuse_product(left: Affine, right: Affine) -> NoReturn:
    """Raise `TypeMismatch` for the product of two index expressions, neither of which is constant."""
    if left.indices or right.indices:
        hint = "an array that is read at i * m + j has two axes: x: tl.R[n, m], read at x[i, j]"
    else:
        hint = f"two sizes are two axes: tl.R[{left}, {right}], read at x[i, j]"
    refuse(
        f"{left} * {right} is not affine: an index or size can only be multiplied by an integer",
        f"{hint}; as a number, tl.real({left}) * tl.real({right})",
    )
