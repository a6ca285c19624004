"""A tensor language with Iverson brackets, and its provably cheap derivatives.

The layout follows the paper that it implements, and imports go one way only:

    language/     Figures 3 to 5: expressions, predicates, affine indices, types; their meaning; how they are shown
    scalars/      functions of numbers with loops that data decide: their SSA form and its derivatives
    sets/         predicates as integer sets: the only place that knows islpy; the bounds check
    surface/      the two ways to write a program: text and Python
    costs/        Figure 6: what a program costs
    normal/       Figures 7 to 12: let-lifting, pair elimination, gen push-out, tensor SSA
    derivatives/  Figures 13 to 17: the total derivative; the adjoint by rewriting inner products; its ledger
    simplification/  statements on their supports, and SSA read back as programs
    lowering/     programs as jax.numpy source
    transforms/   programs under JAX's transformations
    pipeline      the arrows composed: adjoint, derivative, grad, ...
    declared/     whole functions of arrays whose adjoints users declare
    sparse/       Jacobians and Hessians stored as they are sparse, and formats for sparse matrices
    certificate/  proofs that an adjoint is cheap at all sizes, which others can check
    jaxprs/       programs from JAX functions
    pictures/     supports, access maps, graphs, costs and certificates as pictures
    notebook/     how values show themselves in notebooks
    jax           JAX's derivatives for JAX's functions, derived where that is cheaper
    fn, passes    scalar functions, and the steps from a program to another, by name
    lib           the standard library; entrances: the errors that wrong calls of public functions raise

Each module is imported when it is first used, and JAX when something is lowered or run.

A program is a `Function`. Start at `tensorlang.language.grammar`, which is Figure 3, and
`tensorlang.derivatives.adjoint`, which everything else serves.
"""

from importlib import import_module
from inspect import isfunction
from sys import modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensorlang.shown import when_shown, when_written

if TYPE_CHECKING:
    from tensorlang import fn, jax, lib, passes, pictures, testing
    from tensorlang.budget import limits
    from tensorlang.certificate.certificate import Certificate, certify
    from tensorlang.costs.cost import cost
    from tensorlang.costs.read import read_cost
    from tensorlang.costs.symbolic import CostPolynomial, cost_polynomial
    from tensorlang.declared.adjoint import adjoint_of
    from tensorlang.declared.external import external
    from tensorlang.derivatives.derivation import Derivation, Rule, Step
    from tensorlang.errors import (
        AdjointError,
        ArgumentError,
        CertificateError,
        CostBoundExceeded,
        CountingError,
        EmptyExtremum,
        EvaluationError,
        ImportRefused,
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
    from tensorlang.jaxprs.imported import Imported, from_jax
    from tensorlang.language.evaluate import evaluate
    from tensorlang.language.function import Function
    from tensorlang.language.show import unicode_text
    from tensorlang.lowering.lower import lower
    from tensorlang.lowering.plan.kept import memory_polynomial
    from tensorlang.lowering.run import Lowered
    from tensorlang.memory import clear_caches
    from tensorlang.normal import normalize
    from tensorlang.normal.eliminate_pairs import eliminate_pairs
    from tensorlang.normal.let_lift import let_lift
    from tensorlang.normal.push_out_gen import push_out_gen
    from tensorlang.normal.to_ssa import to_ssa
    from tensorlang.pipeline import adjoint, derivative, derive, grad, hvp, value_and_grad
    from tensorlang.simplification import simplify
    from tensorlang.simplification.squares import expand_squares
    from tensorlang.sparse.layouts import hessian, jacobian
    from tensorlang.sparse.pieces import structure
    from tensorlang.surface.embed import *  # noqa: F403
    from tensorlang.surface.parse import parse, parse_module
    from tensorlang.transforms.to_jax import to_jax

__version__ = "0.1.0"

_HOMES = {
    "budget": "limits",
    "certificate.certificate": "Certificate certify",
    "costs.cost": "cost",
    "costs.read": "read_cost",
    "costs.symbolic": "CostPolynomial cost_polynomial",
    "declared.adjoint": "adjoint_of",
    "declared.external": "external",
    "derivatives.derivation": "Derivation Rule Step",
    "errors": (
        "AdjointError ArgumentError CertificateError CostBoundExceeded CountingError EmptyExtremum EvaluationError "
        "ImportRefused LimitError MissingPackage NormalFormError OutOfBounds ParseError ScalarFunctionError ScopeError "
        "SizeMismatch TensorlangError TypeMismatch UnknownAttribute"
    ),
    "jaxprs.imported": "Imported from_jax",
    "language.evaluate": "evaluate",
    "language.function": "Function",
    "language.show": "unicode_text",
    "lowering.lower": "lower",
    "lowering.plan.kept": "memory_polynomial",
    "lowering.run": "Lowered",
    "memory": "clear_caches",
    "normal": "normalize",
    "normal.eliminate_pairs": "eliminate_pairs",
    "normal.let_lift": "let_lift",
    "normal.push_out_gen": "push_out_gen",
    "normal.to_ssa": "to_ssa",
    "pipeline": "adjoint derivative derive grad hvp value_and_grad",
    "simplification": "simplify",
    "simplification.squares": "expand_squares",
    "surface.embed": (
        "Cond Idx IndexType Indices R RelationType Term ValueType acos acosh argmax argmin asin asinh "
        "atan atan2 atanh call cbrt ceil cos cosh digamma erf erfc erfinv exists exp expm1 floor fold fst function gen "
        "idx let lgamma log log1p log2 log10 logaddexp max maximum min minimum mod pair pair_type power prescan "
        "real recip relation relu rsqrt scalar scalar_function scan sigmoid sign sin sinh sizes snd softplus sqrt "
        "states sum tan tanh where where_ge where_gt"
    ),
    "surface.parse": "parse parse_module",
    "sparse.pieces": "structure",
    "sparse.layouts": "hessian jacobian",
    "transforms.to_jax": "to_jax",
}
"""The public names, by the modules that define them."""

_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = ("fn", "jax", "lib", "passes", "pictures", "testing")
_GUARDED = ("jax", "passes", "pictures", "testing")
_SHADOWING = ("max", "min", "sum")
"""Public names that a star import leaves out, since they would shadow builtins: `tl.sum`."""

__all__ = [  # noqa: PLE0604
    "AdjointError",
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
    "ImportRefused",
    "Imported",
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
    "adjoint_of",
    "certify",
    "clear_caches",
    "cost",
    "cost_polynomial",
    "derivative",
    "derive",
    "eliminate_pairs",
    "evaluate",
    "expand_squares",
    "external",
    "fn",
    "from_jax",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jax",
    "let_lift",
    "lib",
    "limits",
    "lower",
    "memory_polynomial",
    "normalize",
    "parse",
    "parse_module",
    "passes",
    "pictures",
    "push_out_gen",
    "read_cost",
    "simplify",
    "structure",
    "testing",
    "to_jax",
    "to_ssa",
    "unicode_text",
    "value_and_grad",
    *(name for name in _HOMES["surface.embed"].split() if name not in _SHADOWING),
]


class _Package(ModuleType):
    """The package. The functions of its public modules tell wrong arguments however the module is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _GUARDED and isinstance(value, ModuleType):
            import_module("tensorlang.entrances").guard(value, value.__all__)
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tensorlang.{name}")
    entrances = import_module("tensorlang.entrances")
    if name not in _HOME:
        entrances.unknown(name, __dir__())
    what = getattr(import_module(f"tensorlang.{_HOME[name]}"), name)
    found = globals()[name] = entrances.entrance(what, name, __name__) if isfunction(what) else what
    return found


def __dir__() -> list[str]:
    return sorted({"__version__", *__all__, *_SHADOWING})


modules[__name__].__class__ = _Package
when_shown(lambda: import_module("tensorlang.notebook"))
when_written(lambda: import_module("tensorlang.language.show"))
when_written(lambda: import_module("tensorlang.normal.as_program"))
when_written(lambda: import_module("tensorlang.derivatives.transcript"))
