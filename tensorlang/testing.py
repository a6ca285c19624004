"""Assertions for the tests of programs that use tensorlang; pytest finds more in `_tensorlang_pytest`."""

from __future__ import annotations

from fractions import Fraction

from tensorlang.certificate import Certificate, certify
from tensorlang.errors import CertificateError, CostBoundExceeded
from tensorlang.language.function import Function
from tensorlang.pipeline import Wrt

__all__ = ["assert_cheap_adjoint"]


def assert_cheap_adjoint(f: Function, bound: int | float | Fraction = 4, wrt: Wrt = None) -> Certificate:
    """Assert that for all sizes the adjoint of `f` costs at most `bound` times `f`, inputs and outputs counted.

    Gives the certificate. Raises `AssertionError` if it costs more, or if that can't be told, with the sizes, both
    costs and the step of the derivation that costs most.
    """
    __tracebackhide__ = True
    try:
        return certify(f, bound, wrt)
    except (CostBoundExceeded, CertificateError) as error:
        raise AssertionError(str(error)) from None
