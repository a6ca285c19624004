"""Every value shows itself: as text in a terminal, typeset or as HTML in a notebook, and however long it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.derivatives.derivation import RULES
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.functions import call
from tensorlang.language.grammar import Add, Expr, MakePair, Mul, Var
from tensorlang.language.latex import WIDTH, function_latex, function_rows
from tensorlang.language.layout import visible
from tensorlang.language.predicates import less, within
from tensorlang.language.types import Pair, R, Type
from tensorlang.normal import normal_ssa
from tensorlang.normal.rules import PASS_RULES
from tensorlang.notebook.html import code, fold, preformatted
from tensorlang.notebook.lattice import lattice, picture
from tensorlang.shown import MOST_LINES, Shown
from tests.support import GOLDEN

LOSS = tl.parse("""
  loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
    let y = gen i:n. sum j:m. x[i + j] * w[j] in
    sum k:n. (y[k] - z[k])^2
""")
PROGRAMS = [
    *tl.parse_module((GOLDEN / "paper.tl").read_text()).values(),
    *(tl.parse(text) for rule in PASS_RULES for text in (rule.before, rule.after)),
]


def chain(statements: int) -> tl.Function:
    """A program of `statements` statements."""
    lets = " ".join(f"let x{k + 1} = gen i:n. sin(x{k}[i]) * x0[i] in" for k in range(statements - 1))
    return tl.parse(f"chain(x0: [n]R) = {lets} x{statements - 1}")


def doubled(times: int, double: Callable[[Expr], Expr]) -> Expr:
    """An expression of about `times` nodes, and of 2^times symbols if written out."""
    e: Expr = Var("x", R)
    for _ in range(times):
        e = double(e)
    return e


def the_error() -> tl.TensorlangError:
    with pytest.raises(tl.OutOfBounds) as raised:
        tl.parse("f(x: [n]R) = sum i:n. x[i + 1]")
    return raised.value


DERIVATION = tl.derive(LOSS)
SSA = normal_ssa(LOSS)
N, M = tl.sizes("n m")

VALUES: dict[str, tuple[Any, str, str | None]] = {
    "program": (LOSS, "let y = gen i:n.", r"\mathbf{let}\ y"),
    "adjoint": (DERIVATION.adjoint, "[0 <= i - j < n]", r"\bar{y}"),
    "SSA": (SSA, "let X0 = gen", "X_{0}"),
    "statement": (SSA.statements[1], "[i + j = k] * x[k]", r"\left[i + j = k\right] \cdot x[k]"),
    "expression": (LOSS.body, "let y = gen", r"\sum"),
    "predicate": (SSA.statements[1].pred, "i + j = k", "i + j = k"),
    "type": (LOSS.params[0].type, "[m + n - 1]R", r"[m + n - 1]\mathbb{R}"),
    "relation": (tl.parse("f(E: rel(n, m)) = [E(0, 0)]").params[0], "E: rel(n, m)", r"E: \mathrm{rel}(n, m)"),
    "cost": (tl.cost_polynomial(LOSS), "2*m*n", r"2 \, m \, n"),
    "certificate": (tl.certify(LOSS), "at most 4 times", None),
    "derivation": (DERIVATION, "derivation of loss", None),
    "step": (DERIVATION.steps[3], "6.", None),
    "told step": (DERIVATION.tell()[3], "6.", None),
    "rule": (RULES["6.28"], "6.28 product", None),
    "rule of a pass": (PASS_RULES[0], "5.1 let in a sum", None),
    "lowered": (tl.lower(LOSS), "import jax.numpy as jnp", None),
    "error": (the_error(), "OutOfBounds: <text>:1:23\n  f(x: [n]R) = sum i:n. x[i + 1]\n", None),
    "size": (N + 2 * M, "2*m + n", r"2\,m + n"),
    "condition": (N < M, "n < m", "n < m"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_shows_itself_everywhere(kind: str) -> None:
    value, text, latex = VALUES[kind]
    assert isinstance(value, Shown)
    shown = value._repr_mimebundle_()
    shown = shown[0] if isinstance(shown, tuple) else shown
    assert text in shown["text/plain"] == repr(value)
    assert {"text/html", "text/latex"} & set(shown)
    if latex is not None:
        assert latex in value._repr_latex_()


class Elements(HTMLParser):
    """Refuses HTML whose elements don't close each other in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("br", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def text_of(html: str) -> str:
    elements = Elements()
    elements.feed(html)
    assert not elements.open
    return "".join(elements.text)


OWN_HTML = [kind for kind in VALUES if kind != "derivation" and VALUES[kind][0]._repr_html_() is not None]


@pytest.mark.parametrize("kind", OWN_HTML)
def test_html_is_well_formed_and_readable_without_styles(kind: str) -> None:
    html = VALUES[kind][0]._repr_html_()
    assert text_of(html).strip()
    assert "$" not in text_of(html)  # nothing that MathJax would mistake for a formula


def test_text_is_escaped() -> None:
    assert "<b>" not in code("<b>") + preformatted(["<b>"]) + fold("<b>")
    assert text_of(preformatted(["a < b & c"])) == "a < b & c"


def test_a_certificate_says_what_it_rests_on() -> None:
    certificate = tl.certify(LOSS)
    text = text_of(certificate._repr_html_() or "")
    for part in ("2·m·n + 2·n - 1", "6·m·n - 2·m + n + 2", "3, approached as", "24 steps by rule", "theorem"):
        assert part in text
    for obligation in certificate.obligations:
        assert obligation.claim in text


COMMANDS = re.compile(r"\\([a-zA-Z]+)")
KNOWN_TO_MATHJAX = re.compile(
    "math(bf|it|rm|bb|op)|limits|boxplus|sum|exists|max|min|exp|log|sin|cos|tan|tanh|sinh|cosh|sqrt|frac|left|right|Big[lr]"
    "|begin|end|quad|cdots?|le|ge|ne|wedge|vee|pi|times|bar|overline|substack|sigma|displaystyle"
)


def check_latex(text: str) -> None:
    """Braces, environments and \\left with \\right close each other, within a row; MathJax knows every command."""
    assert [name for name in COMMANDS.findall(text) if not KNOWN_TO_MATHJAX.fullmatch(name)] == []
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin{") == text.count(r"\end{")
    for row in re.split(r"\\\\\n", text):
        depth = 0
        for brace in re.findall("[{}]", row):
            depth += 1 if brace == "{" else -1
            assert depth >= 0
        assert row.count(r"\left") == row.count(r"\right")


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.name)
def test_latex_is_what_mathjax_takes(f: tl.Function) -> None:
    for g in (f, tl.adjoint(f)) if f.variables else (f,):
        check_latex(g._repr_latex_() or "")
    for x in normal_ssa(f).statements:
        check_latex(x._repr_latex_() or "")


LONG_SUM = tl.parse(
    "long(x: [n]R) = gen i:n. (" + " + ".join(f"sin({k} * x[i])" for k in range(40)) + ")^2 * exp(x[i])"
)


def test_long_right_hand_sides_break_at_operators() -> None:
    rows = list(function_rows(LONG_SUM))
    assert len(rows) > 3
    assert all(visible(row) <= 1.2 * WIDTH for row in rows)
    assert all(row.lstrip(r"\quad ").startswith(("{}+ ", r"{}\cdot ")) for row in rows[2:])
    check_latex(function_latex(LONG_SUM))


def test_a_bracket_that_breaks_has_ends_of_its_own() -> None:
    latex = function_latex(LONG_SUM)
    assert r"\Bigl(" in latex and r"\Bigr)^{2}" in latex
    assert r"\left(" in latex  # brackets that stay on one row


def test_a_fraction_stays_on_its_row() -> None:
    numerator = " + ".join(f"sin({k} * x)" for k in range(40))
    rows = list(function_rows(tl.parse(f"f(x: R) = ({numerator}) / (1 + x^2)")))
    assert len([row for row in rows if r"\frac{" in row]) == 1


def test_a_long_program_is_text_that_folds() -> None:
    f = chain(300)
    html = f._repr_html_()
    assert html is not None and html.count("<details>") == 1
    assert "let x299 = ⊞ i:n. sin(x298[i]) · x0[i] in" in text_of(html)
    assert (f._repr_latex_() or "").count(r"\\") <= 41


def test_a_short_program_is_typeset() -> None:
    assert LOSS._repr_html_() is None
    assert (LOSS._repr_latex_() or "").startswith(r"$\displaystyle \begin{aligned}")


@pytest.mark.slow
def test_ten_thousand_statements_make_a_small_page() -> None:
    f = chain(10_000)
    for value in (f, normal_ssa(f)):
        forms = value._repr_mimebundle_()
        assert sum(map(len, forms.values())) < 200_000
        assert re.search(r"there are (10,000|19,99\d|20,00\d) statements", text_of(forms["text/html"]))
        assert forms["text/plain"].count("\n") == MOST_LINES


@pytest.mark.parametrize(
    "depth, double",
    [
        (60, lambda e: Add(e, e, 1)),
        (60, lambda e: Mul(e, e)),
        (16, lambda e: MakePair(e, e)),
        (60, lambda e: call("recip", Mul(e, e))),
    ],
)
def test_a_shared_expression_does_not_explode(depth: int, double: Callable[[Expr], Expr]) -> None:
    for value in (e := doubled(depth, double), tl.Function("f", (), e)):
        assert sum(map(len, value._repr_mimebundle_().values())) < 200_000


def test_a_shared_type_does_not_explode() -> None:
    kind: Type = R
    for _ in range(16):
        kind = Pair(kind, kind)
    assert len(repr(kind)) < 2_000
    assert kind._repr_latex_() is None


def test_only_so_much_text_is_shown_unasked() -> None:
    f = chain(MOST_LINES + 100)
    assert repr(f).endswith("\n... and more, which print shows")
    assert repr(f).count("\n") == MOST_LINES
    assert str(f).endswith(f"\n  x{MOST_LINES + 99}")


def test_a_predicate_is_shown_as_the_points_that_it_has() -> None:
    i, j = Index("i"), Index("j")
    band = within(atom_affine(i) - atom_affine(j), constant(2))
    shown = picture(band)
    assert shown is not None and "11 points with 0 ≤ i, j &lt; 6" in shown
    assert lattice(["i", "j"], [2, 2], [(0, 0), (1, 1)]).count('r="4.67"') == 2


def test_points_are_at_small_sizes_where_there_are_any() -> None:
    i, n = Index("i"), atom_affine(Size("n"))
    assert "4 points with 0 ≤ i &lt; 6, at n = 4" in (picture(within(atom_affine(i), n)) or "")
    assert "4 points with 0 ≤ i &lt; 12" in (picture(less(constant(7), atom_affine(i))) or "")


def test_data_have_no_points_to_show() -> None:
    f = tl.parse("f(x: [n]R, E: rel(n)) = sum i:n. [E(i)] * x[i]")
    pred = f.body.body.pred  # type: ignore[union-attr]
    assert pred._repr_html_() is None
    assert pred._repr_latex_() == "$E(i)$"


def test_lowered_code_begins_with_the_program_and_folds_what_it_calls() -> None:
    html = tl.lower(tl.adjoint(LOSS))._repr_html_() or ""
    text = text_of(html)
    assert text.index("lines of imports and helpers") < text.index("def loss_adjoint(x, w, z, loss_bar):")
    source = tl.lower(tl.adjoint(LOSS)).source
    assert all(line in text for line in source.splitlines())


def test_an_error_that_is_raised_shows_the_users_own_lines() -> None:
    try:
        tl.parse("f(x: R) = y")
    except tl.ScopeError as error:
        *where, told = error._render_traceback_()
    assert len(where) == 1 and 'tl.parse("f(x: R) = y")' in where[0] and "test_display.py" in where[0]
    assert told.startswith("ScopeError: <text>:1:11")
