"""A tensor language with Iverson brackets, and its provably cheap derivatives.

The layout follows the paper that it implements, and imports go one way only:

    language/     Figures 3 to 5: expressions, predicates, affine indices, types; their meaning; how they are shown
    sets/         predicates as integer sets: the only place that knows islpy; the bounds check
    surface/      the two ways to write a program: text and Python
    cost/         Figure 6: what a program costs
    normal/       Figures 7 to 12: let-lifting, pair elimination, gen push-out, tensor SSA
    derivative/   Figures 13 to 17: the total derivative; the adjoint by rewriting inner products; its ledger
    simplify/     statements on their supports, and SSA read back as programs
    lower/        programs as jax.numpy source
    transforms/   programs under JAX's transformations
    pipeline      the arrows composed: adjoint, derivative, grad, ...
    certificate/  that an adjoint is cheap, for all sizes and shown to others
    pictures/     supports, access maps, graphs, costs and certificates as pictures
    notebook/     how values show themselves in notebooks
    lib           the standard library; entrances: what is said of wrong calls of the public functions

A program is a `Function`. Start at `tensorlang.language.grammar`, which is Figure 3, and
`tensorlang.derivative.adjoint`, which is what all the rest is for.
"""

import sys
from typing import Any

import tensorlang.notebook  # noqa: F401 - registers how values show themselves
from tensorlang import entrances, lib, pictures, testing  # noqa: F401 - lib is found here
from tensorlang.certificate import Certificate, certify
from tensorlang.cost.cost import cost
from tensorlang.cost.read import read_cost
from tensorlang.cost.symbolic import CostPolynomial, cost_polynomial
from tensorlang.derivative.derivation import Derivation, Rule, Step
from tensorlang.errors import (
    ArgumentError,
    CertificateError,
    CostBoundExceeded,
    CountingError,
    EmptyExtremum,
    EvaluationError,
    LimitError,
    MissingPackage,
    NormalFormError,
    OutOfBounds,
    ParseError,
    ScalarFunctionError,
    ScopeError,
    SizeMismatch,
    TensorlangError,
    TypeMismatch,
    UnknownAttribute,
)
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.show import unicode_text
from tensorlang.lower import Lowered, lower
from tensorlang.normal import eliminate_pairs, let_lift, normalize, push_out_gen, to_ssa
from tensorlang.pipeline import adjoint, derivative, derive, grad, hvp, jacobian, value_and_grad
from tensorlang.simplify import simplify
from tensorlang.surface.embed import *  # noqa: F403
from tensorlang.surface.embed import __all__ as _embedding
from tensorlang.surface.parse import parse, parse_module
from tensorlang.transforms.to_jax import to_jax

__all__ = [  # noqa: PLE0604
    "ArgumentError",
    "Certificate",
    "CertificateError",
    "CostBoundExceeded",
    "CostPolynomial",
    "CountingError",
    "Derivation",
    "EmptyExtremum",
    "EvaluationError",
    "Function",
    "LimitError",
    "Lowered",
    "MissingPackage",
    "NormalFormError",
    "OutOfBounds",
    "ParseError",
    "Rule",
    "ScalarFunctionError",
    "ScopeError",
    "SizeMismatch",
    "Step",
    "TensorlangError",
    "TypeMismatch",
    "UnknownAttribute",
    "adjoint",
    "certify",
    "cost",
    "cost_polynomial",
    "derivative",
    "derive",
    "eliminate_pairs",
    "evaluate",
    "grad",
    "hvp",
    "jacobian",
    "let_lift",
    "lower",
    "normalize",
    "parse",
    "parse_module",
    "pictures",
    "push_out_gen",
    "read_cost",
    "simplify",
    "testing",
    "to_jax",
    "to_ssa",
    "unicode_text",
    "value_and_grad",
    *_embedding,
]

entrances.guard(sys.modules[__name__], __all__)
entrances.guard(testing, testing.__all__)
entrances.guard(pictures, pictures.__all__)


def __getattr__(name: str) -> Any:
    entrances.unknown(name, __all__)
