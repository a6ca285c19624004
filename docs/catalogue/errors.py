"""The error index: every class of error that a user can cause, with a program that causes it and its message."""

from __future__ import annotations

import inspect
import linecache
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl
from docs.catalogue.markdown import fence
from tensorlang import errors
from tensorlang.errors import TensorlangError

NAMES: dict[str, Any] = {
    "Fraction": Fraction, "jax": jax, "jnp": jnp, "np": np, "os": os, "pathlib": pathlib, "tl": tl
}  # fmt: skip
"""The names that the examples may use."""


class Example(NamedTuple):
    """Python that raises the error, when the error happens, the packages that it needs, and those that must be
    missing."""

    code: str
    remark: str
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


EXAMPLES: dict[type[TensorlangError], Example] = {
    errors.ParseError: Example(
        'tl.parse("f(x: [n]R) = sum i:n. x[i] ** 2")',
        "Raised by `tl.parse`, `tl.parse_module`, `tl.read_cost` and the commands that read `.tl` files.",
    ),
    errors.ScopeError: Example(
        'tl.parse("f(x: [n]R) = sum i:n. xs[i]")',
        "Also for parameters that `wrt` names, and in Python for an index that is used after its `gen` has ended.",
    ),
    errors.UnknownAttribute: Example(
        """\
n = tl.sizes("n")

@tl.function
def f(x: tl.R[n]):
    return x.sum()
""",
        "An `AttributeError` as well, so `hasattr` works as it does elsewhere.",
    ),
    errors.TypeMismatch: Example(
        """\
n = tl.sizes("n")

@tl.function
def f(x: tl.R[n]):
    return x + 1
""",
        "In Python the place is a line of yours; in text, a line, a column and carets.",
    ),
    errors.SizeMismatch: Example(
        """\
dot = tl.parse("dot(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]")
n, m = tl.sizes("n m")

@tl.function
def f(x: tl.R[n], y: tl.R[m]):
    return dot(x, y)
""",
        "A `TypeMismatch` where nothing but sizes differs.",
    ),
    errors.OutOfBounds: Example(
        'tl.parse("f(x: [n]R, w: [m]R) = gen i:n. sum j:m. x[i - j] * w[j]")',
        "Bounds are proved when a program is made, for all sizes; `error.witness` holds the sizes and indices named.",
    ),
    errors.EmptyExtremum: Example(
        'tl.parse("f(x: [n]R) = gen j:n. max i:n where j < i. x[i]")',
        "Refuted when a program is made, for sizes from 1 on. For sizes of 0, and for conditions on data, it is raised "
        "by `tl.evaluate`; of simplified programs, which derivatives are, only where something reads the value.",
    ),
    errors.ArgumentError: Example(
        """\
f = tl.parse("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]")
f(np.ones(3), np.ones(4))
""",
        "Raised when a program is called, evaluated, or asked for its cost; inside JAX, when a call is traced.",
    ),
    errors.ImportRefused: Example(
        """\
def loss(A):
    return jnp.sum(jnp.linalg.cholesky(A))

tl.from_jax(loss, "n n")
""",
        "Raised by `tl.from_jax`, and by the functions of `tl.jax` with `strict=True`; without it, what is refused "
        "stays JAX.",
    ),
    errors.NormalFormError: Example(
        """\
f = tl.parse("f(x: R) = sin(x) + (let y = x * x in y)")
tl.eliminate_pairs(f)
""",
        "Each pass says which form it requires; `tl.normalize` applies them all in order.",
    ),
    errors.AdjointError: Example(
        """\
f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
n = tl.sizes("n")


@tl.adjoint_of(f)
def rule(x, y, y_bar):
    return tl.gen(n, lambda i: x[i] * y_bar)
""",
        "A declared adjoint is compared with the one that is derived, or with differences, at small sizes. Also where "
        "none is declared, and for a declared cost that is lower than what is counted.",
    ),
    errors.ScalarFunctionError: Example(
        """\
from scipy.special import ndtr

tl.scalar_function(
    "gelu",
    derivative=lambda x, y: 0.5 + 0.5 * tl.erf(0.7071 * x) + 0.3989 * x * tl.exp(-0.5 * x * x),
    evaluate=lambda x: x * ndtr(x),
    source="jax.nn.gelu({0})",
)
""",
        "The bound of 4 rests on derivatives being cheap; a function declares what it really costs. Also for "
        "a name that is no function's.",
        ("scipy",),
    ),
    errors.EvaluationError: Example(
        """\
f = tl.parse("f(x: R) = 1 / x")
tl.evaluate(f, Fraction(0))
""",
        "Only where arguments are fractions, and values therefore exact; in floating point there are inf and nan.",
    ),
    errors.LimitError: Example(
        'tl.parse("f(x: R) = x ^ 10000000")',
        "Such limits are far beyond what programs need; they keep hostile input from running for ever.",
    ),
    errors.CostTableError: Example(
        """\
os.environ["TENSORLANG_COSTS"] = "costs.json"
pathlib.Path("costs.json").write_text('{"fft_taps": "many"}')
tl.lower(tl.parse("f(x: [n + m]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]")).source
""",
        "The table that `tensorlang tune` writes says what is fast on a machine.",
    ),
    errors.CountError: Example(
        """\
from tensorlang.measure.count import count

count(lambda x: jax.lax.while_loop(lambda y: y < 100, lambda y: 2 * y, x), jnp.float32(1))
""",
        "Raised by `tensorlang check --compiled` where XLA made something whose operations can't be told beforehand.",
    ),
    errors.CountingError: Example(
        """\
f = tl.parse("f(x: [n]R, y: [m]R) = sum i:n, j:m. [exists k:n. 91*k <= 17*i + 23*j and 5*i <= 77*k] * x[i] * y[j]")
tl.cost_polynomial(f)
""",
        "Costs at given sizes can always be had from `tl.cost`.",
    ),
    errors.MissingPackage: Example(
        """\
f = tl.parse("f(x: [n]R) = sum i:n. x[i]")
tl.cost_polynomial(f).expr
""",
        "Shown as it is where SymPy is not installed.",
        without=("sympy",),
    ),
    errors.CertificateError: Example(
        """\
pathlib.Path("loss.json").write_text("{}")
tl.Certificate.load("loss.json")
""",
        "Also where a bound below 4 can be neither proved nor refuted.",
    ),
    errors.CostBoundExceeded: Example(
        """\
f = tl.parse("f(x: [n]R) = gen i:n. sin(x[i]) * x[i]")
tl.certify(f, bound=1)
""",
        "`error.sizes` and `error.costs` hold what the message names.",
    ),
}
"""Each class, in the order of the page."""


def classes(of: type[TensorlangError] = TensorlangError) -> list[type[TensorlangError]]:
    """All classes of errors that are raised, i.e. all except the common base class."""
    return [kind for direct in of.__subclasses__() for kind in (direct, *classes(direct))]


def raised(example: Example) -> TensorlangError | None:
    """The error that the example ends in, run in a directory of its own; None if there is none."""
    lines = example.code.splitlines(keepends=True)
    linecache.cache["example.py"] = (len(example.code), None, lines, "example.py")  # for errors that quote a line
    with TemporaryDirectory() as folder, chdir(folder), patch.dict(os.environ), _without(example.without):
        try:
            exec(compile(example.code, "example.py", "exec"), dict(NAMES))
        except TensorlangError as error:
            return error
    return None


@contextmanager
def _without(packages: Iterable[str]) -> Iterator[None]:
    """A context in which these packages can't be imported; other imports stay."""
    held = {name: sys.modules[name] for name in packages if name in sys.modules}
    sys.modules.update(dict.fromkeys(packages))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in packages:
            del sys.modules[name]
        sys.modules.update(held)


def page() -> str:
    """The index in Markdown."""
    parts = []
    for kind, example in EXAMPLES.items():
        base = kind.__mro__[1]
        above = "" if base is TensorlangError else f" A kind of [{base.__name__}](#error-{base.__name__.lower()})."
        parts += [
            f"(error-{kind.__name__.lower()})=\n## {kind.__name__}\n",
            f"{inspect.cleandoc(kind.__doc__ or '')}{above} {example.remark}\n",
            fence(example.code, "python"),
            fence(str(raised(example)), "text"),
        ]
    return "\n".join(parts)
