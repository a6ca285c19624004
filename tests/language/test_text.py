"""The text syntax: its meaning, the printing of programs, and the messages about texts that are not programs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings

from tensorlang.errors import (
    Span,
)
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.functions import call, function, raise_to
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Const,
    Expr,
    Gen,
    Let,
    MakePair,
    Mul,
    Sum,
    Var,
    number,
    sums,
)
from tensorlang.language.latex import expr_latex, function_latex, predicate_latex
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    exists,
    less,
    not_equal,
    within,
)
from tensorlang.language.show import expr_text, function_text, predicate_text, unicode_text
from tensorlang.language.types import Array, R
from tensorlang.surface.parse import parse
from tests.support.alike import alike
from tests.support.programs import functions

LOSS = """loss(x: [m + n - 1]R, w: [m]R, z: [n]R) =
  let y = gen i:n. sum j:m. x[i + j] * w[j] in
  sum k:n. (y[k] - z[k]) ^ 2"""

a, b, c, d = (Var(name, R) for name in "abcd")
i, j, k = (atom_affine(Index(name)) for name in "ijk")
n, m = (atom_affine(Size(name)) for name in "nm")


def body(text: str) -> Expr:
    """The expression `text` of the numbers a, b, c, d as the variables above."""
    f = parse(f"f(a: R, b: R, c: R, d: R) = {text}")
    values = dict(zip(f.variables, (a, b, c, d), strict=True))

    def put(e: Expr) -> Expr:
        match e:
            case Var():
                return values.get(e, e)
            case Mul(left, right):
                return Mul(put(left), put(right))
            case Add(left, right, sign):
                return Add(put(left), put(right), sign)
            case Bracket(p, inner):
                return Bracket(p, put(inner))
            case MakePair(left, right):
                return MakePair(put(left), put(right))
        if hasattr(e, "function"):
            return (
                raise_to(put(e.arguments[0]), e.function.exponent)
                if e.function.exponent
                else call(e.function.name, *map(put, e.arguments))
            )
        return e

    return put(f.body)


def recip(e: Expr) -> Expr:
    return call("recip", e)


PRECEDENCE: dict[str, Expr] = {
    "a - b - c": Add(Add(a, b, -1), c, -1),
    "a - (b - c)": Add(a, Add(b, c, -1), -1),
    "a + b * c": Add(a, Mul(b, c), 1),
    "(a + b) * c": Mul(Add(a, b, 1), c),
    "a * b * c": Mul(Mul(a, b), c),
    "a * (b * c)": Mul(a, Mul(b, c)),
    "a / b / c": Mul(Mul(a, recip(b)), recip(c)),
    "a / (b / c)": Mul(a, recip(Mul(b, recip(c)))),
    "a / b * c": Mul(Mul(a, recip(b)), c),
    "a * b ^ 2": Mul(a, raise_to(b, 2)),
    "(a * b) ^ 2": raise_to(Mul(a, b), 2),
    "-a ^ 2": Mul(number(-1), raise_to(a, 2)),
    "(-a) ^ 2": raise_to(Mul(number(-1), a), 2),
    "-a * b": Mul(Mul(number(-1), a), b),
    "-(a * b)": Mul(number(-1), Mul(a, b)),
    "-(-a)": Mul(number(-1), Mul(number(-1), a)),
    "a - -b": Add(a, Mul(number(-1), b), -1),
    "-3": number(-3),
    "-(3)": Mul(number(-1), number(3)),
    "-(-3)": Mul(number(-1), number(-3)),
    "-3 ^ 2": Mul(number(-1), raise_to(number(3), 2)),
    "(-3) ^ 2": raise_to(number(-3), 2),
    "1/3": number(Fraction(1, 3)),
    "-1/3": number(Fraction(-1, 3)),
    "1/3 * a": Mul(number(Fraction(1, 3)), a),
    "a * (1/3)": Mul(a, number(Fraction(1, 3))),
    "a * 1 / 3": Mul(Mul(a, number(1)), recip(number(3))),
    "1/3 / 7": Mul(number(Fraction(1, 3)), recip(number(7))),
    "1 * recip(3)": Mul(number(1), recip(number(3))),
    "-recip(3)": Mul(number(-1), recip(number(3))),
    "-1 / a": Mul(number(-1), recip(a)),
    "1 / 3 ^ 2": Mul(number(1), recip(raise_to(number(3), 2))),
    "-(1/3)": Mul(number(-1), number(Fraction(1, 3))),
    "0.125": number(Fraction(1, 8)),
    "pow(a, 3/2)": raise_to(a, Fraction(3, 2)),
    "pow(a + b, -1/2)": raise_to(Add(a, b, 1), Fraction(-1, 2)),
    "recip(a ^ 2)": recip(raise_to(a, 2)),
    "[0 = 0] * a * b": Bracket(TRUE, Mul(a, b)),
    "([0 = 0] * a) * b": Mul(Bracket(TRUE, a), b),
    "a * [0 = 0] * b": Mul(a, Bracket(TRUE, b)),
    "a * [0 = 0] * b * c": Mul(a, Bracket(TRUE, Mul(b, c))),
    "a * ([0 = 0] * b) * c": Mul(Mul(a, Bracket(TRUE, b)), c),
    "[0 = 0] * a + b": Add(Bracket(TRUE, a), b, 1),
    "[0 = 0] * (a + b)": Bracket(TRUE, Add(a, b, 1)),
    "[0 = 0] * [0 = 1] * a": Bracket(TRUE, Bracket(FALSE, a)),
    "a + [0 = 1]": Add(a, Bracket(FALSE, number(1)), 1),
    "([0 = 1]) * a": Mul(Bracket(FALSE, number(1)), a),
    "-[0 = 1] * a": Mul(number(-1), Bracket(FALSE, a)),
    "a / ([0 = 1] * b)": Mul(a, recip(Bracket(FALSE, b))),
    "(a, (b, c))": MakePair(a, MakePair(b, c)),
    "((a, b), c)": MakePair(MakePair(a, b), c),
    "max(a, b + c)": call("max", a, Add(b, c, 1)),
}


@pytest.mark.parametrize("text", PRECEDENCE)
def test_what_binds_how_tightly_is_read_and_printed_alike(text: str) -> None:
    assert body(text) is PRECEDENCE[text]
    assert expr_text(PRECEDENCE[text]) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a^2", "a ^ 2"),
        ("a ^ -2", "recip(a ^ 2)"),
        ("a ^ 1", "a"),
        ("pow(a, 2)", "a ^ 2"),
        ("pow(a, 0.5)", "pow(a, 1/2)"),
        ("[0 = 0] * 1", "[0 = 0]"),
        ("2/4", "0.5"),
        ("1e2 + 2.50", "100 + 2.5"),
        ("((a))", "a"),
        ("a - - b", "a - -b"),
        ("- - a", "-(-a)"),
        ("a * let e = b in e + c", "a * let e = b in e + c"),
        ("(let e = b in e) + c", "(let e = b in e) + c"),
        ("a + sum p:3. b * c", "a + sum p:3. b * c"),
        ("(sum p:3. b) * c", "(sum p:3. b) * c"),
        ("sum p:3. sum q:4. a", "sum p:3, q:4. a"),
        ("gen p:3. sum q:4. a", "gen p:3. sum q:4. a"),
        ("(gen p:3, q:4. a)[1][2]", "(gen p:3, q:4. a)[1, 2]"),
        ("fst((a, b)) + snd((a, b))", "fst((a, b)) + snd((a, b))"),
        ("a -- comment\n + b", "a + b"),
    ],
)
def test_sugar_is_printed_in_one_way(text: str, printed: str) -> None:
    shown = function_text(parse(f"f(a: R, b: R, c: R) = {text}"))
    assert shown.split(" =", 1)[1].strip().replace("\n  ", " ") == printed


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (less(j, i), "j < i"),
        (less(i + j, n), "i + j < n"),
        (at_most(i + j, n - 1), "i + j < n"),
        (less(i + 2, n), "i + 2 < n"),
        (at_most(i, n), "i <= n"),
        (at_most(i, n + 3), "i <= n + 3"),
        (at_most(constant(0), i), "0 <= i"),
        (less(constant(0), i), "0 < i"),
        (less(constant(2), i), "3 <= i"),
        (less(i, constant(4)), "i < 4"),
        (at_most(i, constant(0)), "i <= 0"),
        (within(i, n), "0 <= i < n"),
        (within(i - j, m), "0 <= i - j < m"),
        (within(i - j + m - 1, n), "0 <= i - j + m - 1 < n"),
        (conjunction([at_most(constant(1), i), less(i, n)]), "0 < i < n"),
        (conjunction([at_most(constant(0), i), less(i, j), less(j, n)]), "0 <= i < j < n"),
        (conjunction([less(i, n), at_most(constant(0), i)]), "i < n and 0 <= i"),
        (conjunction([within(i, n), within(j, m)]), "0 <= i < n and 0 <= j < m"),
        (conjunction([equal(i, j), equal(j, k)]), "i = j = k"),
        (conjunction([equal(i, j), less(j, k)]), "i = j and j < k"),
        (equal(i, j * 2 + 1), "i = 2*j + 1"),
        (equal(i + j, constant(0)), "i + j = 0"),
        (not_equal(i, j), "i != j"),
        (not_equal(i, constant(0)), "i != 0"),
        (not_equal(i, j + 2), "i != j + 2"),
        (disjunction([not_equal(i, j), equal(j, k)]), "i != j or j = k"),
        (disjunction([less(i, j), less(j, i), equal(i, k)]), "i != j or i = k"),
        (conjunction([not_equal(i, j), equal(j, k)]), "i != j and j = k"),
        (conjunction([disjunction([less(i, j), equal(i, k)]), less(k, n)]), "(i < j or i = k) and k < n"),
        (disjunction([conjunction([less(i, j), less(k, n)]), equal(i, k)]), "i < j and k < n or i = k"),
        (TRUE, "0 = 0"),
        (FALSE, "0 = 1"),
    ],
)
def test_comparisons_are_printed_without_negative_terms_and_in_chains(p: Predicate, text: str) -> None:
    assert predicate_text(p) == text


def test_exists_reaches_as_far_right_as_it_can() -> None:
    index = Index("l")
    some = exists([(index, n)], equal(i, atom_affine(index) * 2))
    assert predicate_text(conjunction([less(i, j), some])) == "i < j and exists l:n. i = 2*l"
    assert predicate_text(conjunction([some, less(i, j)])) == "(exists l:n. i = 2*l) and i < j"
    text = "f(x: [n]R) = gen i:n. [i < 3 or (exists k:n, l:n. i = k + l) and 0 < i] * x[i]"
    assert function_text(parse(text)) == text


ROUND_TRIPS = [
    LOSS,
    "one() = 1",
    "trace(a: [n][n]R) = sum i:n. a[i, i]",
    "eye(x: R) = gen i:n, j:n. [i = j] * x",
    "shift(x: [n]R) = gen i:n. [0 < i] * x[i - 1]",
    "pairs(x: [n](R, (R, [m]R))) = gen i:n. (fst(x[i]), sum j:m. snd(snd(x[i]))[j] / 2)",
    "edges(r: rel(n, m), x: [n]R) = gen j:m. sum i:n. [r(i, j) and (i < j or r(j, i))] * x[i]",
    "hidden(x: [n]R) = sum i:n. [exists j:n. i = 2*j] * x[i] * let t = log(x[i]) in t + t",
    "strided(x: [2*n + 1]R) = gen i:n. x[2*i + 1] - x[2*n - 2*i]",
]


@pytest.mark.parametrize("text", ROUND_TRIPS)
def test_a_printed_program_parses_back_to_the_same_program(text: str) -> None:
    f = parse(text)
    assert function_text(f) == text
    assert alike(f, parse(function_text(f)))


@settings(max_examples=60, deadline=None)
@given(f=functions(chooses=True))
def test_random_programs_parse_back_to_the_same_programs(f: Function) -> None:
    text = function_text(f)
    again = parse(text)
    assert alike(f, again), text
    assert function_text(again) == text


def test_lines_are_short_and_every_let_has_its_own() -> None:
    lets = "".join(f"let y{k} = x * y{k - 1} in " if k else "let y0 = x in " for k in range(40))
    long = " + ".join(f"sin(y{k} * y{k})" for k in range(40))
    text = function_text(parse(f"f(x: R) = {lets}{long}"))
    assert text.count("\n") > 41
    assert max(map(len, text.splitlines())) <= 100
    assert function_text(parse(text)) == text


def test_different_variables_in_scope_never_share_a_name() -> None:
    x, y = Var("x", R), Var("x", R)
    f = Function("f", (x,), Let(y, Mul(x, x), Mul(x, y)))
    assert function_text(f) == "f(x: R) =\n  let x1 = x * x in\n  x * x1"


def test_different_indices_in_scope_never_share_a_name() -> None:
    x = Var("x", Array(n, R))
    outer, inner = Index("i"), Index("i")
    at = atom_affine(outer) + atom_affine(inner)
    f = Function("f", (x,), Gen(outer, n, Sum(inner, n, Bracket(less(at, n), Access(x, at, None)))))
    assert function_text(f) == "f(x: [n]R) = gen i:n. sum i1:n. [i + i1 < n] * x[i + i1]"


def test_names_beside_each_other_are_used_again() -> None:
    text = "f(x: [n]R) = (sum i:n. x[i]) * sum i:n. x[i] ^ 2"
    assert function_text(parse(text)) == text


@pytest.mark.parametrize(("name", "printed"), [("gen", "gen1"), ("sin", "sin1"), ("n", "n1"), ("x", "x1"), ("ä", "_")])
def test_bound_names_that_text_cannot_have_are_changed(name: str, printed: str) -> None:
    x, y = Var("x", Array(n, R)), Var(name, Array(n, R))
    f = Function("f", (x,), Let(y, x, y))
    assert function_text(f) == f"f(x: [n]R) =\n  let {printed} = x in\n  {printed}"
    parse(function_text(f))


def test_an_index_bound_twice_in_one_scope_is_told_apart() -> None:
    x, same = Var("x", Array(n, R)), Index("i")
    e = sums([(same, n), (same, n)], Access(x, atom_affine(same), None))
    assert function_text(Function("f", (x,), e)) == "f(x: [n]R) = sum i:n, i1:n. x[i1]"


def test_numbers_are_printed_exactly() -> None:
    values = [
        Fraction(1, 3),
        Fraction("0.1"),
        Fraction(-7, 4),
        Fraction(10) ** 30,
        Fraction(1, 2**80),
        Fraction(5, 10**19),
    ]
    for value in values:
        assert parse(f"f() = {expr_text(number(value))}").body is number(value)
    assert expr_text(number(Fraction("1.50"))) == "1.5"
    assert len(expr_text(number(10**6000))) == 6001


def test_unicode_follows_the_paper() -> None:
    pred = "0 <= i < n and r(i) or (exists k:n. i != k)"
    text = f"f(x: [n](R, R), r: rel(n)) = gen i:n. [{pred}] * fst(x[i]) ^ 2 * sum j:3. 1"
    assert unicode_text(parse(text)) == (
        "f(x: [n](ℝ × ℝ), r: rel(n)) = ⊞ i:n. [0 ≤ i < n ∧ r(i) ∨ ∃ k:n. i ≠ k] · π₀(x[i])² · Σ j:3. 1"
    )


def test_latex_follows_the_paper() -> None:
    assert function_latex(parse(LOSS)) == (
        "\\begin{aligned}\n"
        r"&\mathit{loss}(x: [m + n - 1]\mathbb{R}, w: [m]\mathbb{R}, z: [n]\mathbb{R}) = \\" + "\n"
        r"&\quad \mathbf{let}\ y = \mathop{\boxplus}\limits_{i < n}\,\sum\limits_{j < m}\,x[i + j] \cdot w[j]"
        r"\ \mathbf{in}\  \\" + "\n"
        r"&\quad \sum\limits_{k < n}\,\left(y[k] - z[k]\right)^{2}" + "\n"
        "\\end{aligned}"
    )


@pytest.mark.parametrize(
    ("e", "latex"),
    [
        (Mul(a, recip(Add(b, c, 1))), r"\frac{a}{b + c}"),
        (raise_to(Mul(a, recip(b)), 2), r"\left(\frac{a}{b}\right)^{2}"),
        (Mul(Mul(a, recip(b)), c), r"\frac{a}{b} \cdot c"),
        (raise_to(a, Fraction(3, 2)), "a^{3/2}"),
        (call("sqrt", Add(a, b, 1)), r"\sqrt{a + b}"),
        (call("abs", Add(a, b, 1)), r"\left|a + b\right|"),
        (Mul(call("where_ge", a, b, Add(c, d, 1)), d), r"[a \ge b] \cdot \left(c + d\right) \cdot d"),
        (call("logaddexp", a, b), r"\mathrm{logaddexp}\left(a, b\right)"),
        (number(Fraction(-1, 3)), r"-\frac{1}{3}"),
        (Bracket(within(i - j, m), a), r"\left[0 \le i - j < m\right] \cdot a"),
    ],
)
def test_latex_of_expressions(e: Expr, latex: str) -> None:
    assert expr_latex(e) == latex


def test_latex_names() -> None:
    def shown(name: str) -> str:
        return expr_latex(Var(name, R))

    assert shown("x1") == "x_{1}"
    assert shown("x_bar") == r"\bar{x}"
    assert shown("theta2") == r"\theta_{2}"
    assert shown("c_0") == "c_{0}"
    assert shown("my_loss") == r"\mathit{my\_loss}"
    assert shown("_bar") == r"\mathit{\_bar}"
    assert predicate_latex(at_most(i * 2, j)) == r"2\,i \le j"


def test_an_access_knows_its_place() -> None:
    text = "f(x: [n][n]R) = sum i:n. x[i, i]"
    access = parse(text, "a.tl").body.body  # type: ignore[union-attr]
    assert access.place == Span(text, 25, 32, "a.tl")


def test_a_shared_graph_is_printed_in_the_time_that_its_text_takes() -> None:
    e: Expr = a
    for _ in range(16):
        e = Mul(e, e)
    text = expr_text(e)
    assert text.count("a") == 2**16


def test_a_quotient_of_literals_is_one_constant() -> None:
    assert isinstance(parse("f() = 1/3").body, Const)
    assert function("sin") is parse("f(x: R) = sin(x)").body.function  # type: ignore[union-attr]
