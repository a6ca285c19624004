"""Figures 7 to 12: the four passes to tensor SSA."""

from tensorlang.budget import limited
from tensorlang.language.function import Function
from tensorlang.normal.eliminate_pairs import eliminate_pairs
from tensorlang.normal.let_lift import let_lift
from tensorlang.normal.push_out_gen import push_out_gen
from tensorlang.normal.ssa import SSA
from tensorlang.normal.to_ssa import ssa_of, to_ssa

__all__ = ["eliminate_pairs", "let_lift", "normal_ssa", "normalize", "push_out_gen", "to_ssa"]


@limited
def normalize(f: Function) -> Function:
    """`f` in tensor SSA, by all four passes; the same meaning, at no more cost (section 5).

    >>> f = tl.parse("f(x: [n]R) = sum i:n. (let y = x[i] * x[i] in y + y)")
    >>> print(tl.normalize(f))
    f(x: [n]R) =
      let y = gen i:n. sum j:n, k:n. [i = j and i = k] * x[j] * x[k] in
      let X1 = gen i:n. y[i] + y[i] in
      let X2 = sum i:n. X1[i] in
      X2
    """
    return to_ssa(push_out_gen(eliminate_pairs(let_lift(f))))


@limited
def normal_ssa(f: Function) -> SSA:
    """`normalize(f)` as a list of statements."""
    return ssa_of(push_out_gen(eliminate_pairs(let_lift(f))))
