"""Results about programs: costs, certificates, rules and steps, lowered code, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from tensorlang.certificate.certificate import Certificate
from tensorlang.costs.symbolic import CostPolynomial
from tensorlang.derivatives.derivation import Rule, Step, Told
from tensorlang.derivatives.transcript import told_alone
from tensorlang.errors import TensorlangError
from tensorlang.language.function import Function
from tensorlang.language.grammar import type_of
from tensorlang.language.notation import UNICODE
from tensorlang.language.predicates import Relation
from tensorlang.language.show import function_lines
from tensorlang.normal.rules import PassRule
from tensorlang.notebook.html import block, code, escape, fold, note, page, preformatted, table
from tensorlang.notebook.source import highlighted
from tensorlang.shown import GeneratedCode, Table, html, latex

_MOST_CELLS = 12
_MOST_ROWS = 300
_OPEN_LINES = 60
_MOST_TEXT = 20_000


@latex.register
def _cost_latex(cost: CostPolynomial) -> str | None:
    return rf"$\displaystyle {cost.latex}$" if len(cost.cells) <= _MOST_CELLS else None


@html.register
def _cost_html(cost: CostPolynomial) -> str | None:
    return None if len(cost.cells) <= _MOST_CELLS else page(_formula(cost))


def _formula(cost: CostPolynomial | None) -> str:
    """A cost, case by case, with the first cases open."""
    if cost is None:
        return "no closed form was found"
    cases = [re.sub(r"\^(\d+)", r"<sup>\1</sup>", escape(line).replace("*", "·")) for line in str(cost).splitlines()]
    shown, rest = [
        "<br>".join(block("code", case) for case in part) for part in (cases[:_MOST_CELLS], cases[_MOST_CELLS:])
    ]
    return shown + (fold(f"{len(cases) - _MOST_CELLS} more cases", rest) if rest else "")


@html.register
def _certificate_html(certificate: Certificate) -> str:
    """A short page, with the evidence in folds."""
    d = certificate.derivation
    wrt = ", ".join(x.name for x in d.wrt)
    decided = Counter(o.decided for o in certificate.obligations)
    by = ", ".join(f"{many} by {how}" for how, many in decided.items())
    rows = [
        ["cost of the program", _formula(certificate.program_cost)],
        ["cost of its adjoint", _formula(certificate.adjoint_cost)],
        ["largest ratio", escape(str(certificate.supremum or "up to the data, or not found"))],
        ["steps", f"{len(d.steps)}, each with a theorem that it keeps the value and raises no cost"],
        ["claims decided", f"{len(certificate.obligations)}: {by}" if by else "there are none"],
    ]
    rows += [
        ["only counted", escape(f"that the {name} costs no more than what it is made of, at {how}")]
        for name, how in certificate.compared.items()
        if how != "all sizes"
    ]
    rules = Counter(step.rule for step in d.steps)
    steps = [
        [escape(r.number), escape(r.name), str(many), code(r.law)] for r, many in sorted(rules.items(), key=_number)
    ]
    claims = [
        [str(o.step + 1), escape(o.number), escape(o.claim), o.decided, code(o.theorem)]
        for o in certificate.obligations[:_MOST_ROWS]
    ]
    left = len(certificate.obligations) - len(claims)
    mark, how = (
        ("✓", "at all sizes from 1 on") if certificate.is_decided else ("(✓)", "but counted at small sizes only")
    )
    return page(
        block(
            "h4", f"{mark} The adjoint of {escape(d.function.name)} costs at most {certificate.bound} times the program"
        ),
        note(f"By {wrt}, {how}, inputs and outputs counted."),
        table(rows),
        fold("The program and its adjoint", _program(d.function), _program(d.adjoint)),
        fold(f"{len(d.steps)} steps by rule", table(steps, ("rule", "name", "times", "law"), numbers=(2,))),
        fold(
            f"{len(certificate.obligations)} claims about integer sets, structure and arithmetic",
            table(claims, ("step", "rule", "claim", "decided by", "theorem"), numbers=(0,)),
            note(f"and {left} more") if left else "",
        ),
        note("save() writes a file that python -m proofs.checker checks again, with code of its own."),
    )


def _number(item: tuple[Rule, int]) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", item[0].number))


def _program(f: Function) -> str:
    return preformatted(islice(function_lines(f, UNICODE, _MOST_TEXT), _MOST_ROWS))


@html.register
def _rule_html(rule: Rule) -> str:
    return page(block("h4", f"{rule.number} {escape(rule.name)}"), _law(rule.law), _proved(rule.theorems))


@html.register
def _pass_rule_html(rule: PassRule) -> str:
    rows = [["before", code(rule.before)], ["after", code(rule.after)]]
    title = block("h4", f"{escape(rule.number)} {escape(rule.name)}")
    return page(title, _law(rule.law), table(rows), _proved(rule.theorems))


def _law(law: str) -> str:
    return preformatted(law.replace("  ->  ", "\n->  ").split("\n"), "law")


def _proved(theorems: Sequence[str]) -> str:
    if not theorems:
        return note("Tested, not proved: the paper has no recurrences.")
    return note(f"Proved in proofs/ as {' and '.join(theorems)}.")


@html.register
def _step_html(step: Step) -> str:
    told = told_alone(step)
    return page(_told(told), fold("the rule", _law(step.rule.law), _proved(step.rule.theorems)))


@html.register
def _told_html(told: Told) -> str:
    return page(_told(told))


def _told(told: Told) -> str:
    title = block("h4", f"{told.rule.number} {escape(told.rule.name)}")
    return title + preformatted(told.lines())


@html.register
def _lowered_html(lowered: GeneratedCode) -> str:
    """The source, which folds if it is long, and its arguments and results."""
    f = lowered.function
    helpers, definition, own = lowered.source.rpartition("\ndef ")
    shown, *rest = _cut(definition.lstrip() + own)
    parts = [_folded("lines of imports and helpers", part) for part in [helpers] if part]
    parts += [_source(shown), *(_folded("more lines", part) for part in rest)]
    types = [[code(p.name), code(str(p if isinstance(p, Relation) else type_of(p)))] for p in f.params]
    sizes = ", ".join(s.name for s in f.sizes)
    told = note(f"The sizes {sizes} are read off the arrays' shapes.") if sizes else ""
    return page(*parts, fold("parameters and result", table([*types, ["gives", code(str(f.type))]]), told))


@html.register
def _table_html(shown: Table) -> str:
    rows = [[code(text), *(_broken(cell) for cell in rest)] for text, *rest in shown.rows()]
    return page(table(rows, shown.HEADER), *(note(line) for line in shown.notes))


def _broken(cell: str) -> str:
    return "<br>".join(escape(line) for line in cell.split("\n"))


def _cut(text: str) -> list[str]:
    """A text as one part, or as its first lines and the others."""
    lines = text.split("\n")
    return ["\n".join(part) for part in (lines[:_OPEN_LINES], lines[_OPEN_LINES:]) if part]


def _folded(what: str, text: str) -> str:
    return fold(f"{len(text.splitlines())} {what}", _source(text))


def _source(text: str) -> str:
    return block("pre", highlighted(text.strip("\n")))


@html.register
def _error_html(error: TensorlangError) -> str:
    return page(block("h4", type(error).__name__), preformatted(str(error).split("\n")))
