"""Figures 7 to 12: the four passes to tensor SSA."""

from tensorlang.budget import limited
from tensorlang.language.function import Function
from tensorlang.normal.as_program import to_function
from tensorlang.normal.eliminate_pairs import eliminate_pairs
from tensorlang.normal.let_lift import let_lift
from tensorlang.normal.push_out_gen import push_out_gen
from tensorlang.normal.put_together import put_together
from tensorlang.normal.recurrences import apart, has_recurrences
from tensorlang.normal.ssa import SSA
from tensorlang.normal.take_recurrences import normal_with_recurrences
from tensorlang.normal.to_ssa import ssa_of, to_ssa

__all__ = ["eliminate_pairs", "function_of", "let_lift", "normal_ssa", "normalize", "push_out_gen", "to_ssa"]


@limited
def normalize(f: Function) -> Function:
    """`f` in tensor SSA, by all four passes; the same meaning, at no more cost (section 5).

    The steps of recurrences are in tensor SSA, too.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. (let y = x[i] * x[i] in y + y)")
    >>> print(tl.normalize(f))
    f(x: [n]R) =
      let y = gen i:n. sum j:n, k:n. [i = j and i = k] * x[j] * x[k] in
      let X1 = gen i:n. y[i] + y[i] in
      let X2 = sum i:n. X1[i] in
      X2
    """
    return function_of(normal_ssa(f))


@limited
def normal_ssa(f: Function) -> SSA:
    """`normalize(f)` as a list of statements."""
    lifted = let_lift(f)
    return normal_with_recurrences(lifted, normal_ssa, _flat) if has_recurrences(f) else _flat(lifted)


def function_of(s: SSA) -> Function:
    """The program as a function of the core language, a let for each statement, and for each recurrence."""
    d = apart(s)
    return put_together(to_function(d.s), d, function_of)


def _flat(f: Function) -> SSA:
    """The SSA of a program without recurrences whose lets are outermost."""
    return ssa_of(push_out_gen(eliminate_pairs(f)))
