"""The grammars of the normal forms, one for the result of each pass, as predicates that give a reason.

Each function returns None for a program in the form, else a sentence that names the first part that is not.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang.errors import NormalFormError
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.lets import bindings
from tensorlang.language.types import R, struct_of_arrays

Why = str | None


def why_not_let_lifted(f: Function) -> Why:
    """Le ::= e | let x = e in Le, where e has no let (after Figure 7)."""
    return _in_each_statement(f, lambda e: "a let is inside an expression" if isinstance(e, Let) else None)


def why_not_pair_free(f: Function) -> Why:
    """Pairs only as projections of inputs and around the outputs (after Figure 8)."""
    inputs = set(f.variables)
    for x in inputs:
        if struct_of_arrays(x.type) is not x.type:
            return f"the parameter {x.name} is an array of pairs"

    def why(e: Expr) -> Why:
        if isinstance(e, MakePair):
            return "a pair is made inside an expression"
        if isinstance(e, Proj) and not _is_input(e, inputs):
            return "a projection is not of an input"
        return None

    return why_not_let_lifted(f) or _in_each_statement(f, why, below_pairs=True)


def why_not_gen_outermost(f: Function) -> Why:
    """Gens outermost in each right-hand side, accesses only to variables and inputs, brackets merged (Figure 9)."""

    def why(e: Expr) -> Why:
        if isinstance(e, Gen):
            return "a gen is inside an expression"
        if isinstance(e, Access):
            while isinstance(e, Access):
                e = e.body
            return None if isinstance(e, Var | Proj) else "an access is to neither a variable nor an input"
        if isinstance(e, Bracket) and isinstance(e.body, Bracket):
            return "a bracket is directly under a bracket"
        return None

    return why_not_pair_free(f) or _in_each_statement(f, why, below_pairs=True, below_gens=True)


def why_not_ssa(f: Function) -> Why:
    """Each right-hand side one of the E of Figure 10, the output a variable, an input or pairs of them."""
    inputs = set(f.variables)
    given, body = bindings(f.body)
    for x, value in given:
        if not _is_right_hand_side(value, inputs):
            return f"the right-hand side of {x.name} is none of the statements of Figure 10"
    stack: list[Expr] = [body]
    while stack:
        e = stack.pop()
        if isinstance(e, MakePair):
            stack += children(e)
        elif not (isinstance(e, Var) or _is_input(e, inputs)):
            return "an output is neither a variable nor an input"
    return None


def require(why: Callable[[Function], Why], f: Function) -> Function:
    """`f`, if it is in the form. Raises `NormalFormError` saying why it is not."""
    reason = why(f)
    if reason is not None:
        raise NormalFormError(f"{f.name} is not in the normal form: {reason}")
    return f


def _in_each_statement(
    f: Function, why: Callable[[Expr], Why], below_pairs: bool = False, below_gens: bool = False
) -> Why:
    """The first reason that `why` gives for a node of a right-hand side or output."""
    given, body = bindings(f.body)
    stack = [_under_gens(value) if below_gens else value for _, value in given]
    outputs: list[Expr] = [body]
    while outputs:
        e = outputs.pop()
        if below_pairs and isinstance(e, MakePair):
            outputs += children(e)
        else:
            stack.append(_under_gens(e) if below_gens else e)
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        reason = why(e)
        if reason is not None:
            return reason
        stack += children(e)
    return None


def _under_gens(e: Expr) -> Expr:
    while isinstance(e, Gen):
        e = e.body
    return e


def _is_input(e: Expr, inputs: set[Var]) -> bool:
    while isinstance(e, Proj):
        e = e.body
    return isinstance(e, Var) and e in inputs


def _is_right_hand_side(e: Expr, inputs: set[Var]) -> bool:
    if _is_input(e, inputs):
        return True
    g = []
    while isinstance(e, Gen):
        g.append(e.index)
        e = e.body
    body = e.body if isinstance(e, Bracket) else e
    if isinstance(body, Const | Integer):
        return True
    if isinstance(body, Choice):
        return _reads_at(body.body, (*g, body.index), inputs)
    if isinstance(body, Compared):
        return _reads_at(body.left, tuple(g), inputs) and _reads_at(body.right, tuple(g), inputs)
    if isinstance(body, Call):
        return all(_reads_at(argument, tuple(g), inputs) for argument in body.arguments)
    if isinstance(body, Add) or _is_negation(body):
        return _is_sum_of_terms(e, tuple(g), inputs)
    if isinstance(body, Access | Var | Proj) and _reads_at(body, tuple(g), inputs):
        return True  # an addition of one term
    while isinstance(e, Sum):
        e = e.body
    if isinstance(e, Bracket):
        e = e.body
    factors = (e.left, e.right) if isinstance(e, Mul) else (e,)
    return all(_is_plain_access(factor, inputs) for factor in factors)


def _is_negation(e: Expr) -> bool:
    return isinstance(e, Mul) and isinstance(e.left, Const) and e.left.value == -1


def _is_sum_of_terms(e: Expr, g: tuple[object, ...], inputs: set[Var]) -> bool:
    stack = [e]
    while stack:
        e = stack.pop()
        if isinstance(e, Bracket):
            e = e.body
        if isinstance(e, Add):
            stack += [e.left, e.right]
        elif isinstance(e, Mul) and _is_negation(e):
            stack.append(e.right)
        elif not _reads_at(e, g, inputs):
            return False
    return True


def _reads_at(e: Expr, g: tuple[object, ...], inputs: set[Var]) -> bool:
    """Whether `e` is X[g], or an index expression as a number, which is read like an input."""
    if isinstance(e, Integer):
        return True
    at = []
    while isinstance(e, Access):
        at.append(e.at)
        e = e.body
    plain = all(
        len(a.terms) == 1 and a.constant == 0 and a.terms[0] == (i, 1) for a, i in zip(at[::-1], g, strict=False)
    )
    return plain and len(at) == len(g) and (isinstance(e, Var) or _is_input(e, inputs))


def _is_plain_access(e: Expr, inputs: set[Var]) -> bool:
    """Whether `e` is X[i0, ..] at plain, distinct indices, or an index expression as a number."""
    if isinstance(e, Integer):
        return True
    seen = set()
    while isinstance(e, Access):
        if len(e.at.terms) != 1 or e.at.constant or e.at.terms[0][1] != 1 or not e.at.indices:
            return False
        if e.at.indices[0] in seen:
            return False
        seen.add(e.at.indices[0])
        e = e.body
    return e.type is R or isinstance(e, Var) or _is_input(e, inputs)
