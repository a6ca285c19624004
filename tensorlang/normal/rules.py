"""The rules of Figures 7 to 12 as a catalogue: number, name, law, and a smallest program on each side.

The passes apply them by structural recursion, many at once; each pass takes `before` to `after` (tested), and the
numbers are those at its cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorlang.language.function import Function
from tensorlang.normal.eliminate_pairs import eliminate_pairs
from tensorlang.normal.let_lift import let_lift
from tensorlang.normal.push_out_gen import push_out_gen
from tensorlang.normal.to_ssa import to_ssa
from tensorlang.shown import Shown


@dataclass(frozen=True, repr=False)
class PassRule(Shown):
    """A rule of a normalisation pass, and a program to which no other rule applies."""

    number: str
    name: str
    law: str
    apply: Callable[[Function], Function]
    before: str
    after: str

    @property
    def theorems(self) -> tuple[str, ...]:
        """The theorem in proofs/ that it preserves the value and never raises the cost."""
        return (f"rule_{self.number.replace('.', '_')}",)

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.law}"


PASS_RULES: tuple[PassRule, ...] = (
    PassRule(
        "5.1", "let in a sum", "(let x = e0 in e1) + e2  ->  let x = e0 in e1 + e2; both sides", let_lift,
        "f(a: R) = (let x = a * a in x) + (let y = sin(a) in y)",
        "f(a: R) = let x = a * a in let y = sin(a) in x + y",
    ),
    PassRule(
        "5.2", "let in a product", "(let x = e0 in e1) * e2  ->  let x = e0 in e1 * e2; both sides", let_lift,
        "f(a: R) = (let x = a * a in x) * (let y = sin(a) in y)",
        "f(a: R) = let x = a * a in let y = sin(a) in x * y",
    ),
    PassRule(
        "5.3", "let in an argument", "f(let x = e0 in e1, ..)  ->  let x = e0 in f(e1, ..)", let_lift,
        "f(a: R) = max(a, let x = a * a in x)",
        "f(a: R) = let x = a * a in max(a, x)",
    ),
    PassRule(
        "5.4", "let in a pair", "(let x = e0 in e1, e2)  ->  let x = e0 in (e1, e2); both sides", let_lift,
        "f(a: R) = (let x = a * a in x, let y = sin(a) in y)",
        "f(a: R) = let x = a * a in let y = sin(a) in (x, y)",
    ),
    PassRule(
        "5.5", "let under a projection", "fst (let x = e0 in e1)  ->  let x = e0 in fst e1", let_lift,
        "f(a: R) = fst(let x = a * a in (x, a))",
        "f(a: R) = let x = a * a in fst((x, a))",
    ),
    PassRule(
        "5.6", "let in a gen",
        "gen i:n. let x = e0 in e1  ->  let x = gen i:n. e0 in gen i:n. [x := x[i]] e1", let_lift,
        "f(a: [n]R) = gen i:n. let x = a[i] * a[i] in x + x",
        "f(a: [n]R) = let x = gen i:n. a[i] * a[i] in gen i:n. x[i] + x[i]",
    ),
    PassRule(
        "5.7", "let in a sum over an index",
        "sum i:n. let x = e0 in e1  ->  let x = gen i:n. e0 in sum i:n. [x := x[i]] e1", let_lift,
        "f(a: [n]R) = sum i:n. let x = a[i] * a[i] in x + x",
        "f(a: [n]R) = let x = gen i:n. a[i] * a[i] in sum i:n. x[i] + x[i]",
    ),
    PassRule(
        "5.8", "let under an access", "(let x = e0 in e1)[a]  ->  let x = e0 in e1[a]", let_lift,
        "f(a: [n + 1]R) = (let x = gen i:n + 1. a[i] * a[i] in x)[n]",
        "f(a: [n + 1]R) = let x = gen i:n + 1. a[i] * a[i] in x[n]",
    ),
    PassRule(
        "5.9", "let under a bracket", "[p] * let x = e0 in e1  ->  let x = [p]*e0 in [p]*e1", let_lift,
        "f(a: [n]R) = gen i:n. [i < 2] * let x = a[i] * a[i] in x + x",
        "f(a: [n]R) = let x = gen i:n. [i < 2] * a[i] * a[i] in gen i:n. [i < 2] * (x[i] + x[i])",
    ),
    PassRule(
        "5.10", "let in a let's value",
        "let x = (let y = e0 in e1) in e2  ->  let y = e0 in let x = e1 in e2", let_lift,
        "f(a: R) = let x = (let y = a * a in sin(y)) in x + x",
        "f(a: R) = let y = a * a in let x = sin(y) in x + x",
    ),
    PassRule(
        "5.11", "projection of a pair", "fst (e0, e1)  ->  e0", eliminate_pairs,
        "f(a: R) = fst((sin(a), cos(a)))",
        "f(a: R) = sin(a)",
    ),
    PassRule(
        "5.12", "projection of a gen's elements", "fst (gen i. e)  ->  gen i. fst e, where types are [n](T0, T1)",
        eliminate_pairs,
        "f(a: [n]R) = gen k:n. fst((gen i:n. (sin(a[i]), cos(a[i])))[k])",
        "f(a: [n]R) = gen k:n. (gen i:n. sin(a[i]))[k]",
    ),
    PassRule(
        "5.13", "gen of a pair", "gen i. (e0, e1)  ->  (gen i. e0, gen i. e1)", eliminate_pairs,
        "f(a: [n]R) = gen i:n. (sin(a[i]), cos(a[i]))",
        "f(a: [n]R) = (gen i:n. sin(a[i]), gen i:n. cos(a[i]))",
    ),
    PassRule(
        "5.14", "projection of an element", "fst (e[a])  ->  (fst e)[a]", eliminate_pairs,
        "f(a: ([n + 1]R, R)) = fst(a)[n]",
        "f(a: ([n + 1]R, R)) = fst(a)[n]",
    ),
    PassRule(
        "5.15", "element of a pair of arrays", "(e0, e1)[a]  ->  (e0[a], e1[a])", eliminate_pairs,
        "f(a: [n + 1]R) = (gen i:n + 1. (a[i], sin(a[i])))[n]",
        "f(a: [n + 1]R) = ((gen i:n + 1. a[i])[n], (gen i:n + 1. sin(a[i]))[n])",
    ),
    PassRule(
        "5.16", "projection of a bracket", "fst ([p]*e)  ->  [p] * fst e", eliminate_pairs,
        "f(a: (R, R), b: [n]R) = gen i:n. fst([i < 2] * a)",
        "f(a: (R, R), b: [n]R) = gen i:n. [i < 2] * fst(a)",
    ),
    PassRule(
        "5.17", "bracket over a pair", "[p]*(e0, e1)  ->  ([p]*e0, [p]*e1)", eliminate_pairs,
        "f(a: R, b: [n]R) = [n < 2] * (sin(a), cos(a))",
        "f(a: R, b: [n]R) = ([n < 2] * sin(a), [n < 2] * cos(a))",
    ),
    PassRule(
        "5.18", "let of a pair", "let x = (a, b) in e1  ->  let x0 = a in let x1 = b in [x := (x0, x1)] e1",
        eliminate_pairs,
        "f(a: R) = let x = (sin(a), cos(a)) in fst(x) * snd(x)",
        "f(a: R) = let x_0 = sin(a) in let x_1 = cos(a) in x_0 * x_1",
    ),
    PassRule(
        "5.21", "element of a gen", "(gen i. e)[a]  ->  [i := a] e", push_out_gen,
        "f(a: [n + 1]R) = (gen i:n + 1. sin(a[i]))[n]",
        "f(a: [n + 1]R) = sin(a[n])",
    ),
    PassRule(
        "5.22", "element of a bracket", "([p]*e)[a]  ->  [p]*(e[a])", push_out_gen,
        "f(a: [n + 1]R) = ([n < 2] * a)[n]",
        "f(a: [n + 1]R) = [n < 2] * a[n]",
    ),
    PassRule(
        "5.23", "bracket over a gen", "[p]*(gen i. e)  ->  gen i. [p]*e", push_out_gen,
        "f(a: [n]R) = [n < 2] * gen i:n. sin(a[i])",
        "f(a: [n]R) = gen i:n. [n < 2] * sin(a[i])",
    ),
    PassRule(
        "5.24", "bracket over a bracket", "[p0]*[p1]*e  ->  [p0 and p1]*e", push_out_gen,
        "f(a: [n]R) = gen i:n. [i < 3] * ([0 < i] * sin(a[i]))",
        "f(a: [n]R) = gen i:n. [i < 3 and 0 < i] * sin(a[i])",
    ),
    PassRule(
        "5.24'", "sum over a bracket over a sum", "sum i. [p]*sum j. [q]*e  ->  sum i, j. [p and q]*e", push_out_gen,
        "f(a: [n][n]R) = sum i:n. [i < 3] * sum j:n. [j < i] * a[i, j]",
        "f(a: [n][n]R) = sum i:n, j:n. [i < 3 and j < i] * a[i, j]",
    ),
    PassRule(
        "5.25", "let", "let x = e0 in e1  ->  let X = S(e0) in [x := X] S(e1)", to_ssa,
        "f(a: R) = let x = sin(a) in cos(x)",
        "f(a: R) = let x = sin(a) in let y = cos(x) in y",
    ),
    PassRule(
        "5.26", "variable", "S(X)  ->  X", to_ssa,
        "f(a: R) = let x = sin(a) in x",
        "f(a: R) = let x = sin(a) in x",
    ),
    PassRule(
        "5.27", "gen", "S(i, p, gen j. e)  ->  S(ij, p, e)", to_ssa,
        "f(a: [n][n]R) = gen i:n, j:n. sin(a[i, j])",
        "f(a: [n][n]R) = let x = gen i:n, j:n. sin(a[i, j]) in x",
    ),
    PassRule(
        "5.28", "bracket", "S(i, p0, [p1]*e)  ->  S(i, p0 and p1, e)", to_ssa,
        "f(a: [n]R) = gen i:n. [i < 2] * sin(a[i])",
        "f(a: [n]R) = let x = gen i:n. [i < 2] * sin(a[i]) in x",
    ),
    PassRule(
        "5.29", "constant", "S(i, p, c)  ->  C = gen i. c;  gen g. sum i. [p and g = i]*C[i]", to_ssa,
        "f(a: R) = gen i:3. [i = 0] * 5",
        "f(a: R) = let c = gen i:3. 5 in let x = gen i:3. sum j:3. [j = 0 and i = j] * c[j] in x",
    ),
    PassRule(
        "5.30", "access", "S(g, p, x[a0..ak])  ->  gen g. sum i0..ik. [p and i0 = a0 and .. and ik = ak]*X[i0..ik]",
        to_ssa,
        "f(a: [n + 1]R) = gen i:n. a[i + 1]",
        "f(a: [n + 1]R) = let x = gen i:n. sum j:n + 1. [i + 1 = j] * a[j] in x",
    ),
    PassRule(
        "5.31", "addition",
        "S(i, p, [p0]*e0 + [p1]*e1)  ->  X0 = S(i, p and p0, e0);  X1 = S(i, p and p1, e1);  "
        "gen i. [p and p0]*X0[i] + [p and p1]*X1[i]",
        to_ssa,
        "f(a: [n]R) = gen i:n. a[i] + [i < 2] * a[i]",
        "f(a: [n]R) = let x = gen i:n. a[i] + [i < 2] * a[i] in x",
    ),
    PassRule(
        "5.32", "product",
        "S(i, p, e0*e1)  ->  X0 = S(i, p, e0);  X1 = S(i, p, e1);  "
        "gen g. sum i0, i1. [p and g = i0 = i1]*X0[i0]*X1[i1]",
        to_ssa,
        "f(a: [n]R) = gen i:n. a[i] * a[i]",
        "f(a: [n]R) = let x = gen i:n. sum j:n, k:n. [i = j and i = k] * a[j] * a[k] in x",
    ),
    PassRule(
        "5.33", "scalar function", "S(i, p, f(e..))  ->  Xk = S(i, p, ek);  gen g. [p]*f(X0[g], ..)", to_ssa,
        "f(a: [n]R) = gen i:n. sin(cos(a[i]))",
        "f(a: [n]R) = let y = gen i:n. cos(a[i]) in let x = gen i:n. sin(y[i]) in x",
    ),
    PassRule(
        "5.34", "sum",
        "S(i, p, sum j..k. [q]*e)  ->  X = S(i j..k, p and q, e);  "
        "gen g. sum i, j..k. [p and q and g = i]*X[i, j..k]",
        to_ssa,
        "f(a: [n][m]R) = gen i:n. sum j:m. [j = 0] * a[i, j]",
        "f(a: [n][m]R) = let x = gen i:n. sum j:n, k:m. [k = 0 and i = j] * a[j, k] in x",
    ),
)  # fmt: skip
"""The rules of Figures 7 to 12, with the paper's misprints corrected."""
