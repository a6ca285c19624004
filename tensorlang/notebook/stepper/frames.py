"""The frames of a derivation as HTML: the program, each step, the adjoint."""

from __future__ import annotations

import json
import re
from html import escape

from tensorlang.costs.cost import cost
from tensorlang.costs.symbolic import CostPolynomial, cost_polynomial
from tensorlang.derivatives.derivation import Rule
from tensorlang.errors import ArgumentError, CountingError, LimitError, TensorlangError
from tensorlang.language.function import Function
from tensorlang.language.lets import bindings
from tensorlang.language.notation import UNICODE
from tensorlang.language.show import function_lines
from tensorlang.normal.ssa import is_given
from tensorlang.notebook.html import block, code, fold, note, preformatted, table
from tensorlang.notebook.stepper.formulas import formula
from tensorlang.notebook.stepper.laws import law, rule_id, words
from tensorlang.notebook.stepper.rows import cotangent
from tensorlang.notebook.stepper.sets import points_text
from tensorlang.notebook.stepper.view import HTML, Amount, Frame, Gap, ShownSet, View
from tensorlang.notebook.stepper.worked import number_text
from tensorlang.shown import beginning

_MOST_STATEMENTS = 200
_MOST_ORIGINS = 50
"""The most cotangents that are listed with the steps that made them."""
_TOKENS = re.compile(r"<[^>]*>|&\w+;|[A-Za-z_]\w*")
_DEFINED = re.compile(r"\s*(?:# |let )?(\w+) = ")
_SHORT = 20
"""The most lets of programs that are shown with their costs for all sizes, and with the generated code."""


def frame(view: View, k: int) -> str:
    """Frame `k` of len(steps) + 2: the program first, then the steps, then the adjoint."""
    if k == 0:
        return _frame(view, k, _program(view))
    if k == len(view.derivation.steps) + 1:
        return _frame(view, k, _adjoint(view))
    return _frame(view, k, _step(view, view.frame(k)))


def title(view: View, k: int) -> str:
    """The title of frame `k`."""
    steps = len(view.derivation.steps)
    return "the program" if k == 0 else "the adjoint" if k == steps + 1 else view.title(k)


def about(view: View, k: int) -> tuple[str, ...]:
    """The names of the statements that frame `k` is about."""
    return view.about(k) if 0 < k <= len(view.derivation.steps) else ()


def _frame(view: View, k: int, content: str) -> str:
    name, of = title(view, k), about(view, k)
    last = len(view.derivation.steps) + 1
    if k in (0, last):
        head = f"{name[0].upper()}{name[1:]}"
    else:
        rule = view.derivation.steps[k - 1].rule
        head = f"{k}. {_rule_link(view, rule, f'{rule.name} ({rule.number})')}" + (
            f": <code>{of[0]}</code>" if of else ""
        )
    is_open = " open" if k in (0, last) else ""
    return (
        f'<details class="frame" id="{view.key}-step-{k}" data-step="{k}" data-title="{escape(name)}" '
        f'data-about="{escape(" ".join(of))}"{is_open}>'
        f"<summary>{head}</summary>{content}</details>"
    )


def _traced(text: str, view: View) -> str:
    """HTML in which the name of each statement is a link to the step that made it."""

    def link(token: re.Match[str]) -> str:
        found = view.origins.get(token[0])
        return token[0] if found is None else f'<a class="from" href="#{view.key}-step-{found.step}">{token[0]}</a>'

    return _TOKENS.sub(link, text)


def _lines(html: str, view: View) -> str:
    """Lines of a program or of code, each with the name that it defines."""
    lines = []
    for line in html.split("\n"):
        defined = _DEFINED.match(line)
        name = f' data-names="{defined[1]}"' if defined else ""
        lines.append(f'<span class="line"{name}>{_traced(line, view)}</span>')
    return block("pre", "\n".join(lines))


def _rule_link(view: View, rule: Rule, text: str) -> str:
    """A link to the statement of `rule`, below the derivation and in the documentation."""
    return f'<a class="rule" href="#{rule_id(view.key, rule)}">{text}</a>'


def _step(view: View, shown: Frame) -> str:
    rule = shown.rule
    proved = ""
    if rule.theorems:
        value, spent = (_rule_link(view, rule, code(name)) for name in rule.theorems)
        proved = f"It keeps the value and never costs more: theorems {value} and {spent}."
    parts = [
        block("p", block("code", law(rule)), "law"),
        block("p", f"{words(rule)} {proved}", "note"),
        _expression(view, shown),
    ]
    if shown.own is not None:
        parts.append(_ledger(shown))
    if shown.sets:
        parts.append(block("ul", "".join(map(_set, shown.sets)), "sets"))
    return "".join(parts)


def _expression(view: View, shown: Frame) -> str:
    rows = []
    columns = [name for name, is_there in (("value", view.worked), ("cost", shown.own)) if is_there is not None]
    for line in shown.lines:
        if isinstance(line, Gap):
            cells = f"<td>⋮ {line.count:,} more</td>" + "<td></td>" * len(columns)
        else:
            spent = "" if line.cost is None else f"{line.cost:,}"
            held = {"value": line.value, "cost": spent}
            cells = f"<td><code>{_traced(line.text, view)}</code></td>"
            cells += "".join(f'<td class="number {name}">{held[name]}</td>' for name in columns)
        rows.append(f'<tr class="{line.mark or "both"}"><th scope="row">{line.mark}</th>{cells}</tr>')
    head = "".join(f'<th class="number {name}">{name}</th>' for name in columns)
    head = f"<thead><tr><th></th><th>expression</th>{head}</tr></thead>"
    told = ""
    if shown.sums is not None:
        before, after = map(number_text, shown.sums)
        told = note(f"The inner products add up to {before} before and {after} after the step.")
    return block("table", head + block("tbody", "".join(rows)), "expression") + told


def _ledger(shown: Frame) -> str:
    assert shown.own is not None
    rows = [_amount("what the step rewrites", shown.own[0]), _amount("what it becomes", shown.own[1])]
    if shown.running is not None:
        rows += [_amount("all, before", shown.running[0]), _amount("all, after", shown.running[1])]
    header = ("extended cost (Figure 17)", "lets", "differentials", "inner products", "together")
    told = table(rows, header, numbers=(1, 2, 3, 4)).replace("<table>", '<table class="ledger">', 1)
    if shown.own[1].total > shown.own[0].total:
        told += note("Only here may more be counted: what the bound is about is read off before the predicate goes.")
    return told


def _amount(name: str, amount: Amount) -> list[str]:
    return [name, *(f"{part:,}" for part in amount), f"{amount.total:,}"]


def _set(shown: ShownSet) -> str:
    points = shown.count or ""
    if shown.here is not None:
        points += f"{', here' if points else ''} {shown.here:,}"
    counted = f": {points} points" if points else ""
    return f"<li><code>{shown.of}</code> on <code>{shown.text}</code>{counted}{shown.picture or ''}</li>"


def _program(view: View) -> str:
    d = view.derivation
    found = [x for x in d.program.statements if not is_given(x)]
    statements = [view.names.definition(x) for x in found[:_MOST_STATEMENTS]]
    if len(found) > _MOST_STATEMENTS:
        statements.append(f"… {len(found) - _MOST_STATEMENTS:,} more")
    parts = [preformatted([beginning(function_lines(d.function, UNICODE))])]
    if statements:
        parts += [block("p", "In tensor SSA, where the derivation starts:"), _lines("\n".join(statements), view)]
    if view.worked is not None:
        rows = [[code(name), code(value)] for name, value in view.worked.given()]
        parts += [
            table(rows, ("given", "value")),
            note("Numbers that nobody gave are drawn at random, always the same."),
        ]
    if view.totals:
        start = f"⟨{HTML.expr(cotangent(d))} | <b>D</b> {escape(d.function.name)}⟩"
        parts.append(
            block("p", f"The extended cost of {start} is {view.totals[0].total:,} (Figure 17), and no step raises it.")
        )
    return "".join(parts)


def _adjoint(view: View) -> str:
    d = view.derivation
    parts = [
        block("p", "What stands left of the parameters' differentials is the adjoint. Simplified, it reads:"),
        _lines(escape(beginning(function_lines(d.adjoint, UNICODE)), quote=False), view),
        _origins(view),
        _generated(view),
    ]
    if view.ledger is not None:
        parts.append(_costs(view))
    return "".join(parts)


def _generated(view: View) -> str:
    """The generated code for the adjoint, in which lines are marked with the names that they define."""
    if not view.has_code or len(bindings(view.derivation.adjoint.body)[0]) > _SHORT:
        return ""
    from tensorlang.lowering.lower import lower  # which imports JAX

    try:
        source = lower(view.derivation.adjoint).source
    except TensorlangError:
        return ""
    _, start, own = source.rpartition("\ndef ")
    return fold("The code that is generated for it", _lines(escape(f"{start}{own}".strip("\n"), quote=False), view))


def _origins(view: View) -> str:
    """Each cotangent in order of derivation, with its statement, the rule and the step."""
    own = set(view.derivation.program.statements)
    rows: list[list[str]] = []
    for step, x in view.made.values():
        if x not in own and len(rows) < _MOST_ORIGINS:
            subject = view.derivation.steps[step - 1].subject
            texts = (view.names.definition(x), "" if subject is None else view.names.of(subject))
            parts = [_traced(block("code", text), view) for text in texts]
            rows.append([*parts, f"{view.title(step)}, step {step}"])
    if not rows:
        return ""
    header = ("before it was simplified", "from the statement", "by the rule")
    return table(rows, header)


def _costs(view: View) -> str:
    """The costs of program and adjoint at the current sizes, which a script lets the reader change."""
    d = view.derivation
    rows = []
    formulas = True
    for name, f in (("the program", d.function), ("its adjoint", d.adjoint)):
        found = _for_all_sizes(f)
        data = None if found is None else formula(found)
        formulas = formulas and data is not None
        here = f'<span class="cost" data-formula="{escape(data or "")}">{_here(view, f)}</span>'
        rows.append([name, here, "" if found is None else points_text(found)])
    counted = table(rows, ("cost (Figure 6)", "at these sizes", "for all sizes"), numbers=(1,))
    sizes = {size.name: view.setting.data[size.name] for size in d.function.sizes}
    if not formulas or not sizes:
        return counted
    return f'<div class="costs" data-sizes="{escape(json.dumps(sizes))}">{counted}</div>'


def _here(view: View, f: Function) -> str:
    try:
        return f"{cost(f, view.setting.data):,}"
    except (ArgumentError, CountingError, LimitError):
        return ""


def _for_all_sizes(f: Function) -> CostPolynomial | None:
    try:
        return cost_polynomial(f) if len(bindings(f.body)[0]) <= _SHORT else None
    except CountingError:
        return None
