"""The functions that users call, composed of passes; each is a function from programs to programs.

Function -> let_lift -> eliminate_pairs -> push_out_gen -> to_ssa -> tidy      section 5
         -> adjoint_steps or total_derivative                                  section 6
         -> simplify -> read_back -> Function
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorlang.budget import limited
from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.derivatives.derivation import Derivation
from tensorlang.derivatives.total import total_derivative
from tensorlang.errors import TypeMismatch
from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.function import Function, Results, derived, differentiated
from tensorlang.language.grammar import Bracket, Expr, Let, MakePair, Var, gen, number, zero
from tensorlang.language.predicates import conjunction, equal
from tensorlang.language.routines import with_rule
from tensorlang.language.types import R, Type, leaves, shape, struct_of_arrays
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA, Constant, Input
from tensorlang.normal.tidy import replaced, tidy
from tensorlang.simplification import read_simplified, recalled, simplify_ssa
from tensorlang.simplification.points import over_points
from tensorlang.simplification.read_back import read_back

Wrt = str | tuple[str, ...] | None


@limited
@recalled
def derivative(f: Function, wrt: Wrt = None) -> Function:
    """The total derivative (Figure 13): a function of f's parameters, then one differential for each of `wrt`.

    A differential has its parameter's type, and the result that of f's. It is made by 6.1 to 6.13, and costs at most
    4 times f at sizes from 1 on (Theorem 6.1). Raises `ScopeError` if `wrt` names anything but a real-valued parameter.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.derivative(f))
    f_derivative(x: [n]R, dx: [n]R) = 2 * sum i:n. x[i] * dx[i]
    """
    s, variables = _prepared(f, wrt)
    d = total_derivative(s, variables)
    return _named(read_simplified(d), f, "derivative", f.results)


@limited
def derive(f: Function, wrt: Wrt = None) -> Derivation:
    """The adjoint of `f` together with the steps that lead to it (Figures 14 to 16).

    Raises `ScopeError` if `wrt` names anything but a real-valued parameter.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(len(tl.derive(f).steps))
    11
    """
    s, variables = _prepared(f, wrt)
    result, steps = adjoint_steps(s, variables, f.type)
    return Derivation(f, s, variables, tuple(steps), result, derived(read_simplified(result), f))


@recalled
def adjoint(f: Function, wrt: Wrt = None) -> Function:
    """The adjoint: a function of f's parameters, then the output's cotangent, that gives the cotangents of `wrt`.

    A cotangent has the type of what it belongs to; the result is one of them, or a flat tuple. It is derived by 6.14 to
    6.29, and costs at most 4 times f at sizes from 1 on, inputs and outputs counted (Theorem 6.35). Like every
    parameter's, the sizes of the output's cotangent are at least 0, so where a program's own output has a negative
    size, and no elements, there is no adjoint. Raises `ScopeError` if `wrt` names anything but a real-valued parameter.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.adjoint(f))
    f_adjoint(x: [n]R, f_bar: R) =
      let t0 = 2 * f_bar in
      gen i:n. t0 * x[i]
    """
    return derive(f, wrt).adjoint


@limited
@recalled
def grad(f: Function, wrt: Wrt = None) -> Function:
    """The gradient of a scalar `f`: its adjoint at the cotangent 1, a function of f's parameters.

    One gradient, of the parameter's type, or a flat tuple of them. Raises `TypeMismatch` if `f` is not scalar,
    `ScopeError` if `wrt` names anything but a real-valued parameter.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> tl.grad(f)([1.0, 2.0])
    Array([2., 4.], dtype=float32)
    """
    return _named(read_simplified(_gradient(f, wrt)), f, "grad")


@limited
@recalled
def value_and_grad(f: Function, wrt: Wrt = None) -> Function:
    """The pair of f's value and its gradient, sharing all they have in common. Raises what `grad` raises.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> value, gradient = tl.value_and_grad(f)([1.0, 2.0])
    >>> float(value)
    5.0
    """
    g = _gradient(f, wrt)
    s, _ = _prepared(f, wrt)
    both = replace(g, statements=(*s.statements, *g.statements), outputs=(s.outputs, g.outputs))
    return _named(read_simplified(both), f, "value_and_grad", (None, g.results))


@limited
@recalled
def hvp(f: Function, wrt: Wrt = None) -> Function:
    """The Hessian of a scalar `f` times a vector: a function of f's parameters, then a vector for each of `wrt`.

    The total derivative of the gradient: of each parameter's type again. Raises what `grad` raises.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> tl.hvp(f)([1.0, 2.0], [1.0, 0.0])
    Array([2., 0.], dtype=float32)
    """
    g = simplify_ssa(_gradient(f, wrt))
    s = simplify_ssa(total_derivative(g, _held(g, differentiated(f, wrt))))
    return _named(read_back(s), f, "hvp", g.results)


@limited
@recalled
def jacobian(f: Function, wrt: Wrt = None) -> Function:
    """The Jacobian: for each number of f's output the cotangents of `wrt`, an array of the output's sizes and then
    the parameter's; a tuple of them for several parameters, pairs of these for an output of pairs.

    It is the adjoint at each one-hot cotangent; simplification removes the zeros of these. Raises `ScopeError` if `wrt`
    names anything but a real-valued parameter.
    """
    g = adjoint(f, wrt)
    *params, cotangent = g.params
    assert isinstance(cotangent, Var)
    parts: list[Expr] = []
    for path, kind in leaves(f.type):
        sizes, _ = shape(kind)
        binders = [(Index(f"g{k}"), size) for k, size in enumerate(sizes)]
        seed = _one_hot(struct_of_arrays(f.type), path, tuple(index for index, _ in binders))
        parts.append(gen(binders, Let(cotangent, seed, g.body)))
    body = parts[-1]
    results = g.results
    for part in reversed(parts[:-1]):
        body = MakePair(part, body)
        results = (g.results, results)
    s = simplify_ssa(normal_ssa(Function(f.name, tuple(params), body)))
    return _named(read_simplified(over_points(s)), f, "jacobian", results)


@limited
@recalled
def hessian(f: Function, wrt: Wrt = None) -> Function:
    """The Hessian of a scalar `f`: the Jacobian of its gradient, of the parameter's sizes twice; for several parameters
    a tuple, for each of them, of tuples. Raises what `grad` and `jacobian` raise.
    """
    return _named(jacobian(grad(f, wrt), wrt), f, "hessian")


def _prepared(f: Function, wrt: Wrt) -> tuple[SSA, tuple[Var, ...]]:
    """The tidy SSA of `f`, and its parameters that `wrt` names."""
    s = simplify_ssa(normal_ssa(with_rule(f)))
    return s, _held(s, differentiated(f, wrt))


def _held(s: SSA, wanted: tuple[Var, ...]) -> tuple[Var, ...]:
    """The parameters of `s` with these names; their types differ, as arrays of pairs have become pairs of arrays."""
    by_name = {p.name: p for p in s.params if isinstance(p, Var)}
    return tuple(by_name[x.name] for x in wanted)


def _gradient(f: Function, wrt: Wrt) -> SSA:
    if f.type is not R:
        hint = f"tl.adjoint({f.name}) takes a cotangent of that type; tl.jacobian({f.name}) has all derivatives"
        raise TypeMismatch(f"the gradient is of a function that gives a number, but {f.name} gives {f.type}", hint=hint)
    s, variables = _prepared(f, wrt)
    g, _ = adjoint_steps(s, variables, f.type)
    *params, cotangent = g.params
    assert isinstance(cotangent, Var)
    seeded = replaced(g, {Input(cotangent, (), ()): Constant(Fraction(1), ())})
    return tidy(replace(seeded, params=tuple(params)))


def _one_hot(kind: Type, path: tuple[int, ...], at: tuple[Index, ...]) -> Expr:
    """The value of type `kind` that is 1 in one place of the part that `path` leads to, and 0 elsewhere."""
    parts: list[tuple[tuple[int, ...], Expr]] = []
    for leaf, part in leaves(kind):
        if leaf != path:
            parts.append((leaf, zero(part)))
            continue
        binders = [(Index("k"), size) for size in shape(part)[0]]
        here = conjunction(equal(atom_affine(i), atom_affine(j)) for (i, _), j in zip(binders, at, strict=True))
        parts.append((leaf, gen(binders, Bracket(here, number(1)) if at else number(1))))
    while len(parts) > 1:
        deepest = max(range(len(parts)), key=lambda k: len(parts[k][0]))
        (left, a), (_, b) = parts[deepest : deepest + 2]
        parts[deepest : deepest + 2] = [(left[:-1], MakePair(a, b))]
    return parts[0][1]


def _named(g: Function, f: Function, what: str, results: Results = None) -> Function:
    """`g`, named as the `what` of `f`."""
    results = results if results is not None else g.results
    return derived(replace(g, name=f"{f.name}_{what}", results=results), f)
