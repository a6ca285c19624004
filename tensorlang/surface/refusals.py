"""What indices, conditions and values refuse to do in Python, and what to write instead."""

from __future__ import annotations

from typing import NoReturn

from tensorlang.surface import foreign
from tensorlang.surface.scope import Surface, refuse

VALUE_CONDITION = "tl.where(x > y, a, b) is a where x > y and else b; tl.maximum, tl.minimum and tl.relu choose, too"
NOT_DIVIDED = (
    "rounded down it is i // 2, and what is left is i % 2; for half of a size, call the half n and the whole 2 * n"
)
NOT_AN_INDEX = "an index is made of indices, sizes, integers, + and -, found {}"


class IndexRefusals(Surface):
    """What no index expression does."""

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
    """What no condition does."""

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
    """What no value of a program does while it is written."""

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
