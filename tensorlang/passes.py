"""The steps from a program to one that runs, each a function from a program to another of the same meaning.

>>> import tensorlang as tl
>>> f = tl.parse("f(x: [n]R) = sum i:n. (let y = x[i] * x[i] in y + y)")
>>> print(tl.passes.let_lift(f))
f(x: [n]R) =
  let y = gen i:n. x[i] * x[i] in
  sum i:n. y[i] + y[i]

`normalize` is all steps of the paper's normal form, Figures 7 to 12, one after the other; `to_ssa` gives it as tensor
SSA, and `simplify` is what follows derivatives.
"""

from tensorlang.normal import eliminate_pairs, let_lift, normalize, push_out_gen, to_ssa
from tensorlang.simplification import simplify

__all__ = ["eliminate_pairs", "let_lift", "normalize", "push_out_gen", "simplify", "to_ssa"]
