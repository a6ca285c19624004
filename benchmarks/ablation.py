"""`python -m benchmarks.ablation`: the effect of each pass on derivatives that are taken direction by direction.

The programs are those of dF~'s experiments (Shaikhha et al., figures 9 to 11). A derivative in n directions by forward
mode costs n times the program, as written: `gen k:n. let dx = gen j:n. [j = k] in D[program]`. The cost after each of
our passes is counted (Figure 6), for all sizes, next to that of the gradient or Jacobian by the adjoint.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorlang as tl
from benchmarks.programs.seeds import CASES
from tensorlang.derivatives.total import total_derivative
from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Expr, Let, MakePair, Var, gen, number, zero
from tensorlang.language.predicates import conjunction, equal
from tensorlang.language.types import shape
from tensorlang.normal import function_of, normal_ssa
from tensorlang.normal.tidy import tidy
from tensorlang.simplification import passes

PROGRAMS = (
    "gradient of dot",
    "gradient of max",
    "Jacobian of vector addition",
    "Jacobian of a vector times a number",
    "NNMF",
    "NNMF, rank 8",
    "bundle adjustment: project",
)


def directions(f: Function, wrt: tuple[str, ...]) -> Function:
    """The derivative of `f` in each direction of `wrt`, by forward mode: an array for each parameter."""
    s = normal_ssa(f)
    held = tuple(p for name in wrt for p in s.params if isinstance(p, Var) and p.name == name)
    d = function_of(total_derivative(s, held))
    differentials = d.params[len(f.params) :]
    columns: list[Expr] = []
    for chosen in differentials:
        assert isinstance(chosen, Var)
        binders = [(Index("k"), size) for size in shape(chosen.type)[0]]
        body = d.body
        for x in differentials:
            assert isinstance(x, Var)
            body = Let(x, _unit(binders) if x is chosen else zero(x.type), body)
        columns.append(gen(binders, body))
    body = columns.pop()
    while columns:
        body = MakePair(columns.pop(), body)
    return Function(f.name, f.params, body)


def _unit(at: list[tuple[Index, Affine]]) -> Expr:
    """The array of these sizes that is 1 at one place."""
    own = [(Index("j"), size) for _, size in at]
    here = conjunction(equal(atom_affine(i), atom_affine(j)) for (i, _), (j, _) in zip(at, own, strict=True))
    return gen(own, Bracket(here, number(1))) if at else number(1)


def stages(f: Function) -> Iterator[tuple[str, Function]]:
    """`f`, in normal form, tidy, and after each pass that changes it."""
    yield "as written", f
    s = normal_ssa(f)
    yield "normal form", function_of(s)
    s = tidy(s)
    yield "one-point sums solved", function_of(s)
    for change in passes():
        changed = change(s)
        if changed.statements != s.statements:
            s = tidy(changed)
            yield change.__name__, function_of(s)


def main() -> None:
    """Print, for each program, the cost after each pass, and that of the adjoint."""
    cases = {case.name: case for case in CASES}
    for name in PROGRAMS:
        case = cases[name]
        f = case.function
        wrt = case.wrt or tuple(p.name for p in f.params)
        print(f"\n{name}\n  the program: {tl.cost_polynomial(f)}")
        for stage, g in stages(directions(f, wrt)):
            print(f"  {stage}: {tl.cost_polynomial(g)}")
        reverse = tl.grad if case.is_scalar else tl.jacobian
        print(f"  by the adjoint: {tl.cost_polynomial(reverse(f, wrt))}")


if __name__ == "__main__":
    main()
