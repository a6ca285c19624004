"""Assertions for the tests of programs that use tensorlang; pytest finds more in `_tensorlang_pytest`.

>>> import tensorlang as tl
>>> certificate = tl.testing.assert_cheap_adjoint(tl.parse("f(x: [n]R) = sum i:n. x[i]^2"))
>>> certificate.is_decided
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tensorlang.certificate import Certificate, certify
from tensorlang.errors import CertificateError, CostBoundExceeded
from tensorlang.language.function import Function
from tensorlang.pipeline import Wrt

if TYPE_CHECKING:
    from tensorlang.jaxprs.lint import Report

__all__ = ["assert_cheap_adjoint", "assert_cheap_gradient"]


def assert_cheap_adjoint(f: Function, bound: int | float | Fraction = 4, wrt: Wrt = None) -> Certificate:
    """Assert that for all sizes the adjoint of `f` costs at most `bound` times `f`, inputs and outputs counted.

    Gives the certificate. Raises `AssertionError` if it costs more, or if that can't be decided, with the sizes, both
    costs and the step of the derivation that costs most.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> tl.testing.assert_cheap_adjoint(f, bound=2).bound
    Fraction(2, 1)
    """
    __tracebackhide__ = True
    try:
        return certify(f, bound, wrt)
    except (CostBoundExceeded, CertificateError) as error:
        raise AssertionError(str(error)) from None


def assert_cheap_gradient(
    fun: Callable[..., Any],
    *specs: Any,
    bound: float = 4,
    argnums: int | Sequence[int] | None = None,
    sizes: Sequence[int | Mapping[str, int]] | None = None,
    compiled: bool = False,
) -> Report:
    """Assert that JAX's gradient of the function `fun` does less than `bound` times the work of the derived one, by a
    factor that does not grow.

    The operations are counted at arguments as in `specs`, such as "n" and "n n", with all sizes as in `sizes`: numbers
    for all of them, or mappings such as {"n": 48, "m": 10}; if none are given, 48 and 192, and where the gradient is
    fine at these, 192 and 1536, unless its code gets longer with them. With `compiled` they are counted in what XLA
    makes of both. Gives the linter's report. Raises `AssertionError` with the lines otherwise, and `ArgumentError` if
    there is nothing to differentiate, or a size has no value.

    >>> import jax.numpy as jnp
    >>> report = tl.testing.assert_cheap_gradient(lambda x: jnp.sum(x * x), "n")
    >>> len(report.findings)
    0
    """
    __tracebackhide__ = True
    from tensorlang.jaxprs.lint import lint

    report = lint(fun, *specs, argnums=argnums, sizes=sizes, compiled=compiled, factor=bound)
    if report.findings:
        raise AssertionError(str(report))
    return report
