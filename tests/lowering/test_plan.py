"""Plans: which arrays a program makes, as text, and which plans are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tensorlang as tl
from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Add, Bracket, Expr, Gen, MakePair, Sum, Var, access, gen
from tensorlang.language.predicates import NonNegative, Related, Relation
from tensorlang.language.types import R, array
from tensorlang.lowering.plan import passes
from tensorlang.lowering.plan.check import why_not
from tensorlang.lowering.plan.fuse_sums import fuse_sums
from tensorlang.lowering.plan.ir import (
    AtPoints,
    Dense,
    FusedSums,
    Given,
    Plan,
    RowBlocks,
    Step,
    Storage,
    StoredArray,
)
from tensorlang.lowering.plan.passes import plan
from tensorlang.lowering.plan.triangular import Cut

TEXTS = {
    "f(x: [n]R, y: [n]R) = (gen i:n. real(i) * x[i], (real(n) * sum i:n. x[i] * y[i], y))": """
plan f(x, y)
  below := the numbers below n
  n_number := the size n as a number
  return (gen i:n. below[i] * x[i], (n_number * sum i:n. x[i] * y[i], y)) : ([n]R, (R, [n]R))""",
    """f(A: [n][n]R, x: [n]R) =
      let S = gen i:n, j:n. [j <= i] * exp(A[i, j] * x[j]) in
      let z = gen i:n. sum j:n. [j <= i] * S[i, j] in
      gen i:n. (sum j:n. [j <= i] * S[i, j] * x[j]) / z[i]""": """
plan f(A, x)
  S[i, j] in blocks of rows of i, zero unless j <= i := gen i:n, j:n. [j <= i] * exp(A[i, j] * x[j]) : [n][n]R
  z[i] dense := gen i:n. sum j:n. [j <= i] * S[i, j] : [n]R
  return gen i:n. (sum j:n. [j <= i] * S[i, j] * x[j]) / z[i] : [n]R""",
    """f(x: [n]R, y: [m]R, E: rel(n, m)) =
      let s = gen i:n, j:m. [E(i, j)] * exp(x[i] * y[j]) in
      (max i:n. sum j:m. [E(i, j)] * s[i, j], sum i:n, j:m. [E(i, j)] * s[i, j] * x[i])""": """
plan f(x, y, E)
  s[i, j] only at the points of E := gen i:n, j:m. [E(i, j)] * exp(x[i] * y[j]) : [n][m]R
  return (max i:n. sum j:m. [E(i, j)] * s[i, j], sum i:m, j:n. [E(j, i)] * s[j, i] * x[j]) : (R, R)""",
    "f(x: [n]R, z: [n]R) = let y = gen i:n. sin(x[i]) in (gen i:n. y[i] * z[i], gen i:n. y[i] + z[i])": """
plan f(x, z)
  y[i] dense, forced := gen i:n. sin(x[i]) : [n]R
  return (gen i:n. y[i] * z[i], gen i:n. y[i] + z[i]) : ([n]R, [n]R)""",
    """f(x: [n]R, y: [n]idx(m)) =
      let t = gen k:m. [exists j:n. y[j] = k] * max j:n where y[j] = k. x[j] in gen i:n. exp(x[i] - t[y[i]])""": """
plan f(x, y)
  t0[i] dense, certain := gen i:m. max j:n where i = y[j]. x[j] : [m]R
  return gen i:n. exp(x[i] - t0[y[i]]) : [n]R""",
    """f(x: [n]R, c: [4]R) =
      let s = (sum i:n. x[i]) * (sum i:n. x[i]^2) * (sum i:n. exp(x[i])) * (sum i:n. sin(x[i])) in s + s^2""": """
plan f(x, c)
  s_part_terms[i] dense := gen i:n. x[i] ^ 2 : [n]R
  s_part_terms1[i] dense := gen i:n. exp(x[i]) : [n]R
  s_part_terms2[i] dense := gen i:n. sin(x[i]) : [n]R
  s_part in one pass with s_part1, s_part2, s_part3 := sum i:n. x[i] : R
  s_part1 in one pass with s_part, s_part2, s_part3 := sum i:n. s_part_terms[i] : R
  s_part2 in one pass with s_part, s_part1, s_part3 := sum i:n. s_part_terms1[i] : R
  s_part3 in one pass with s_part, s_part1, s_part2 := sum i:n. s_part_terms2[i] : R
  s dense := s_part * s_part1 * s_part2 * s_part3 : R
  return s + s ^ 2 : R""",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_plan_is_text_with_its_expressions_and_outputs(text: str) -> None:
    f = tl.parse(text)
    made = plan(tl.simplify(f), [p for p in f.params if isinstance(p, Relation)])
    assert str(made) == TEXTS[text].strip()


F = tl.parse("f(x: [n]R, E: rel(n, n)) = x")
X, E = (p for p in F.params if not isinstance(p, IndexArray))
assert isinstance(X, Var) and isinstance(E, Relation)
ROW, COLUMN, N = Index("i"), Index("j"), atom_affine(F.sizes[0])
Y, T, Z = Var("y", X.type), Var("t", R), Var("z", array((N, N), R))
XI, YI = (access(a, atom_affine(ROW)) for a in (X, Y))
DOUBLE = StoredArray(Y, Gen(ROW, N, Add(XI, XI, 1)), Dense())


def plan_of(*steps: Step, outputs: Expr = X, given: tuple[Given, ...] = ()) -> Plan:
    return Plan(F, given, steps, outputs)


def table(storage: Storage, first: Index = ROW, second: Index = COLUMN) -> Plan:
    """A matrix whose axes are `first` and `second`, stored in some way."""
    return plan_of(StoredArray(Z, gen([(first, N), (second, N)], access(X, atom_affine(ROW))), storage))


K = IndexArray("k", (), N)
BELOW = NonNegative(atom_affine(ROW) - atom_affine(COLUMN))
TERMS = Sum(ROW, N, YI)

WRONG = {
    "y: it is made twice": plan_of(DOUBLE, DOUBLE),
    "x: it is made twice": plan_of(given=(Given(X, N),)),
    "t: y is read before it is made": plan_of(StoredArray(T, TERMS, Dense()), DOUBLE),
    "t: k is read before it is made": plan_of(StoredArray(T, access(X, atom_affine(Lookup(K, ()))), Dense())),
    "y: G is read before it is made": plan_of(
        StoredArray(Y, Gen(ROW, N, Bracket(Related(Relation("G", (N,)), (atom_affine(ROW),)), XI)), Dense())
    ),
    "the outputs: y is read before it is made": plan_of(outputs=MakePair(X, Y)),
    "y: the index j has no range": plan_of(StoredArray(Y, Gen(ROW, N, access(X, atom_affine(COLUMN))), Dense())),
    "t: it is of type R, and its expression of type [n]R": plan_of(StoredArray(T, X, Dense())),
    "t: a Gen is inside an expression": plan_of(StoredArray(T, access(Gen(ROW, N, XI), constant(0)), Dense())),
    "the outputs: a MakePair is inside an expression": plan_of(outputs=Gen(ROW, N, MakePair(XI, XI))),
    "z: it is stored only at the points of E, whose arguments are not axes of it": table(
        AtPoints(Related(E, (atom_affine(ROW), atom_affine(ROW))))
    ),
    "z: it is stored in blocks of rows of i, zero unless j <= i, and has the axes j, i": table(
        RowBlocks(Cut((ROW, COLUMN), ROW, (BELOW,))), COLUMN, ROW
    ),
    "t: it is added up in one pass, but is no sum of x": plan_of(DOUBLE, FusedSums(((T, X),), (TERMS,))),
}
RIGHT = [
    plan_of(DOUBLE, FusedSums(((T, Y),), (TERMS,)), outputs=MakePair(T, Gen(ROW, N, YI))),
    plan_of(StoredArray(T, access(X, atom_affine(Lookup(K, ()))), Dense()), given=(Given(K, (0,)),)),
    table(AtPoints(Related(E, (atom_affine(ROW), atom_affine(COLUMN))))),
    table(RowBlocks(Cut((ROW, COLUMN), ROW, (BELOW,)))),
]


@pytest.mark.parametrize("reason", WRONG)
def test_a_malformed_plan_is_refused_with_the_reason(reason: str) -> None:
    assert why_not(WRONG[reason]) == reason


@pytest.mark.parametrize("made", RIGHT, ids=str)
def test_a_plan_of_its_grammar_is_not_refused(made: Plan) -> None:
    assert why_not(made) is None


def test_a_plan_is_checked_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "fuse_sums", lambda f: fuse_sums(replace(f, body=Y)))
    with pytest.raises(NormalFormError, match=r"lowering made no plan: the outputs: .* is read before it is made"):
        plan(F)


def test_the_text_of_a_plan_has_literal_values_and_notes() -> None:
    made = replace(RIGHT[1], notes={"u": "inlined: computed where it is read"})
    assert str(made).splitlines()[1:] == [
        "  k := 0",
        "  t dense := x[k] : R",
        "  ; u: inlined: computed where it is read",
        "  return x : [n]R",
    ]


def test_arrays_that_share_a_name_are_not_told_to_be_transposed() -> None:
    split = "f(X: [n][3]R) = let Y = gen i:n, j:3. sin(X[i, j]) in gen i:n. exp(Y[i, 0]) * Y[i, 1] + Y[i, 2]"
    assert not tl.lower(tl.parse(split)).plan.notes
