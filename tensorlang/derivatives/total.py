"""Figure 13: the total (forward) derivative, on tensor SSA.

For each statement let X = E that depends on a differentiated parameter, let dX = D[E] is added:

    6.1 to 6.3  D of a differentiated input is its differential; of any other input and of a constant it is 0
    6.4   D([p0]*X0 + [p1]*X1) = [p0]*dX0 + [p1]*dX1
    6.5   D(gen g. sum .. [p]*X0*X1) = gen g. sum .. [p]*dX0*X1  +  gen g. sum .. [p]*X0*dX1     (6.9 to 6.12)
    6.6   D([p]*f(X0, ..)) = [p]*(D_0 f(X0, ..; dX0) + ..)
    6.13  let X = E in S:  let X = E in let dX = D[E] in D[S]

The index that a selection chooses has no differential, though the values that it chooses from may have: where the
choice changes, a greatest value has none either. Nor has a comparison: on both sides of a tie the condition is
constant, and at the tie the derivative is that of the branch that is taken.

A statement's differential costs at most 3 times the statement, so both together cost at most 4 times the program
(Theorem 6.1).
"""

from __future__ import annotations

from fractions import Fraction

from tensorlang.derivatives.declared import differentials
from tensorlang.derivatives.recurrence import differential
from tensorlang.derivatives.recurrence_supports import active_states
from tensorlang.language.affine import atom_affine
from tensorlang.language.function import unused_name
from tensorlang.language.grammar import Expr, Var, access
from tensorlang.language.predicates import Predicate
from tensorlang.language.types import R, array
from tensorlang.normal.pattern import Shape
from tensorlang.normal.recurrences import merged
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Application,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Loop,
    Map,
    Result,
    Selection,
    Statement,
    States,
    inner_ranges,
    operands,
    own_indices,
    own_ranges,
    states,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.normal.to_ssa import StatementBuilder
from tensorlang.sets.solve import project


def total_derivative(s: SSA, wrt: tuple[Var, ...]) -> SSA:
    """D[S]: a program of the parameters of `s`, then a differential for each of `wrt` (6.1 to 6.13)."""
    return with_differentials(s, wrt)[0]


def active(s: SSA, wrt: tuple[Var, ...]) -> set[Statement]:
    """The statements that depend on the parameters `wrt`, except for selections and comparisons."""
    found: set[Statement] = set()
    for x in s.statements:
        if isinstance(x, Defining):
            continue
        if (isinstance(x, Input) and x.param in wrt) or any(y in found for y in operands(x)):
            found.add(x)
    return found


def with_differentials(s: SSA, wrt: tuple[Var, ...]) -> tuple[SSA, dict[Statement, Statement]]:
    """D[S], and dX for each statement X whose differential is not 0."""
    made, d, _ = _all_differentials(s, wrt)
    return made, d


def _all_differentials(
    s: SSA, wrt: tuple[Var, ...]
) -> tuple[SSA, dict[Statement, Statement], dict[Statement, Statement]]:
    """D[S], dX for each statement X, and the replacement of each statement of `s`."""
    taken = {p.name for p in s.params}
    differentials: dict[Var, Var] = {}
    for param in wrt:
        name = unused_name(f"d{param.name}", taken)
        taken.add(name)
        differentials[param] = Var(name, param.type)
    builder = StatementBuilder({p for p in s.params if isinstance(p, Var)} | set(differentials.values()))
    d: dict[Statement, Statement] = {}
    names = dict(s.names)
    loops: dict[Loop, Loop] = {}
    called: dict[Application, list[Statement]] = {}
    for x in s.statements:
        builder.emit(x)
        if isinstance(x, States):
            dx = _of_states(x, d, loops)
        elif isinstance(x, Result):
            dx = _of_result(x, d, called, builder)
        else:
            dx = _differential(x, d, differentials, builder)
        if dx is not None:
            d[x] = builder.include(dx)
            if x in s.names:
                names.setdefault(dx, f"d{s.names[x]}")
    zeros = {x: builder.emit(Constant(Fraction(0), x.shape)) for x in s.statements if x not in d}
    outputs = map_outputs(s.outputs, {**zeros, **d})
    params = (*s.params, *differentials.values())
    if loops:
        new = merged(builder.statements, loops)
        names = {new[x]: name for x, name in names.items() if x in new}
        outputs, statements = map_outputs(outputs, new), tuple(dict.fromkeys(new.values()))
        d = {new[x]: new[dx] for x, dx in d.items()}
        return SSA(s.name, params, statements, outputs, names, s.results), d, new
    return SSA(s.name, params, tuple(builder.statements), outputs, names, s.results), d, {x: x for x in s.statements}


def _of_states(x: States, d: dict[Statement, Statement], loops: dict[Loop, Loop]) -> Statement | None:
    """6.R0: the differential of a state of a recurrence is a further state of the recurrence."""
    places = active_states(x.loop, d.__contains__, active)
    if x.place not in places:
        return None
    if x.loop not in loops:
        loops[x.loop] = differential(x.loop, d, places, _of_step)
    return states(loops[x.loop], len(x.loop.inits) + places.index(x.place), x.word)


def _of_result(
    x: Result, d: dict[Statement, Statement], called: dict[Application, list[Statement]], builder: StatementBuilder
) -> Statement | None:
    """The differential of a routine's result that follows from its declared adjoint."""
    a = x.application
    if not any(y in d for y in a.operands):
        return None
    if a not in called:
        called[a] = differentials(builder, a, [d.get(y) for y in a.operands])
    return called[a][x.place]


def _of_step(
    s: SSA, wrt: tuple[Var, ...]
) -> tuple[tuple[Var, ...], dict[Statement, Statement], dict[Statement, Statement]]:
    """The variables of the differentials, dX for each statement X of a step, and the replacement of X itself."""
    made, d, new = _all_differentials(s, wrt)
    variables = tuple(p for p in made.params[len(s.params) :] if isinstance(p, Var))
    return variables, {x: d[new[x]] for x in s.statements if new[x] in d}, new


def _differential(
    x: Statement, d: dict[Statement, Statement], differentials: dict[Var, Var], builder: StatementBuilder
) -> Statement | None:
    """dX, or None for 0."""
    match x:
        case Input(param, path, shape):  # 6.1, 6.2
            return Input(differentials[param], path, shape) if param in differentials else None
        case Constant() | Selection() | Comparison():  # 6.3
            return None
        case Addition(terms, shape):  # 6.4
            active = tuple(Addend(t.sign, t.pred, d[t.operand]) for t in terms if t.operand in d)
            return Addition(active, shape) if active else None
        case Map(p, _, arguments, shape):  # 6.6
            parts = []
            for k, y in enumerate(arguments):
                part = transposed(builder, x, k, d[y], p) if y in d else None
                if part is not None:
                    parts.append(part)
            return _sum([Addend(1, p, part) for part in parts], shape)
        case Contraction(p, factors, summed, shape):  # 6.5
            parts = [
                Contraction(p, (*factors[:k], d[y], *factors[k + 1 :]), summed, shape)
                for k, y in enumerate(factors)
                if y in d
            ]
            where = project(inner_ranges(x), p, own_ranges(x)) if len(parts) > 1 else p
            for part in parts:
                builder.include(part)
            return _sum([Addend(1, where, part) for part in parts], shape)


def _sum(terms: list[Addend], shape: Shape) -> Statement | None:
    if len(terms) == 1:
        return terms[0].operand
    return Addition(tuple(terms), shape) if terms else None


def transposed(builder: StatementBuilder, x: Map, k: int, t: Statement, p: Predicate) -> Statement | None:
    """[p] * Dt_k f(X0, ..; t), the k-th component of f's derivative applied to `t`; None where it is zero.

    For scalars the transpose is the derivative itself, so this serves both (6.6) and (6.27). It is to be read
    only where `p` holds.
    """
    here = tuple(map(atom_affine, own_indices(x)))

    def element(y: Statement) -> Expr:
        variable = Var("x", array(y.shape, R))
        builder.values[variable] = y
        return access(variable, *here)

    component = x.function.transpose(tuple(element(y) for y in x.arguments), element(x), element(t))[k]
    return None if component is None else builder.translate_element(component, x.shape, p)
