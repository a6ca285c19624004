"""Derivations as HTML: a fold for each step, which a script, where scripts may run, makes a view to step through.

What is here needs neither Python nor the network. Where styles and scripts are stripped, as code-hosting sites do,
there are plain tables and folds. The live widget shows the same frames.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from tensorlang.cost.cost import cost
from tensorlang.cost.symbolic import cost_polynomial
from tensorlang.errors import ArgumentError, CountingError, LimitError
from tensorlang.language.function import Function
from tensorlang.language.grammar import Let
from tensorlang.language.notation import UNICODE
from tensorlang.language.show import function_lines
from tensorlang.normal.ssa import is_given
from tensorlang.notebook.html import STYLE, block, code, note, preformatted, table
from tensorlang.notebook.stepper.laws import law, words
from tensorlang.notebook.stepper.rows import cotangent
from tensorlang.notebook.stepper.sets import points_text
from tensorlang.notebook.stepper.view import HTML, Amount, Frame, Gap, ShownSet, View
from tensorlang.shown import beginning

_FOLDER = files("tensorlang.notebook.stepper")
SCRIPT = (_FOLDER / "stepper.js").read_text(encoding="utf-8")
CSS = STYLE + (_FOLDER / "stepper.css").read_text(encoding="utf-8")

_IN_A_NOTEBOOK = 250_000
"""So many characters of steps are put into a notebook."""
_ON_A_PAGE = 1_000
"""So many steps are saved if nobody says how many."""
_READ_THROUGH = 200
"""So many of them are folds that can be read without scripts."""
_MOST_STATEMENTS = 200
_MOST_ORIGINS = 50
"""So many cotangents are listed with the steps that made them."""
_TOKENS = re.compile(r"<[^>]*>|&\w+;|[A-Za-z_]\w*")
_SHORT = 20
"""Programs of so few lets have their costs written for all sizes."""


def frame(view: View, k: int) -> str:
    """Frame `k` of len(steps) + 2: the program first, then the steps, then the adjoint."""
    if k == 0:
        return _frame(view, k, _program(view))
    if k == len(view.derivation.steps) + 1:
        return _frame(view, k, _adjoint(view))
    return _frame(view, k, _step(view, view.frame(k)))


def title(view: View, k: int) -> str:
    """What frame `k` is called."""
    steps = len(view.derivation.steps)
    return "the program" if k == 0 else "the adjoint" if k == steps + 1 else view.title(k)


def about(view: View, k: int) -> tuple[str, ...]:
    """The names of the statements that frame `k` is about."""
    return view.about(k) if 0 < k <= len(view.derivation.steps) else ()


def label(view: View) -> str:
    """What the whole is called."""
    f = view.derivation.function
    return f"The adjoint of {f.name} with respect to {', '.join(x.name for x in view.derivation.wrt)}"


def notebook_html(view: View) -> str:
    """The derivation as an output of a notebook: as many steps as are no burden to it."""
    last = len(view.derivation.steps) + 1
    end = frame(view, last)
    shown = list(_within(_IN_A_NOTEBOOK, (frame(view, k) for k in range(last))))
    cut = ""
    if len(shown) < last:
        cut = note(
            f"These are the first {len(shown) - 1:,} of {last - 1:,} steps; derivation.save(..) makes a page of more."
        )
    return _styled(_section(view, [*shown, end], cut))


def page(view: View, steps: range | None = None) -> str:
    """A whole page that steps through the derivation, or through those `steps` of it, counted from 1."""
    count = len(view.derivation.steps)
    wanted = [k for k in (steps or range(1, _ON_A_PAGE + 1)) if 1 <= k <= count]
    readable, rest = wanted[:_READ_THROUGH], wanted[_READ_THROUGH:]
    shown = [
        frame(view, k).replace("<details", f'<details id="step-{k}"', 1) for k in (0, *readable, count + 1)
    ]  # where no script runs, names lead to folds
    more = ""
    if rest:
        held = {
            "titles": [title(view, k) for k in rest],
            "about": [about(view, k) for k in rest],
            "frames": [frame(view, k) for k in rest],
        }
        text = json.dumps(held).replace("<", r"\u003c")
        more = f'<script type="application/json" class="rest">{text}</script>'
    if len(wanted) < count:
        more += note(f"This page has {len(wanted):,} of {count:,} steps.")
    name = escape(label(view))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>:root {color-scheme: light dark} body {font-family: system-ui, sans-serif; margin: 1em auto; "
        "padding: 0 1em; max-width: 68em; color: CanvasText; background: Canvas}</style></head>"
        f"<body><h1>{name}</h1>{_styled(_section(view, shown, more, is_page=True))}</body></html>\n"
    )


def _within(budget: int, parts: Iterator[str]) -> Iterator[str]:
    spent = 0
    for part in parts:
        spent += len(part)
        yield part
        if spent > budget:
            return


def _styled(content: str) -> str:
    script = f'<script type="module">{SCRIPT}\neverywhere();</script>'
    return f'<div class="tensorlang"><style>{CSS}</style>{content}{script}</div>'


def _section(view: View, frames: list[str], more: str, is_page: bool = False) -> str:
    whole = ' data-page="whole"' if is_page else ""
    counted = counted_at(view)
    head = note(counted) if counted else ""
    return f'<section class="stepper" aria-label="{escape(label(view))}"{whole}>{head}{"".join(frames)}{more}</section>'


def counted_at(view: View) -> str:
    """What costs are counted at, or why they aren't."""
    return f"Costs are not counted: {view.trouble}." if view.trouble else view.setting.words


def _frame(view: View, k: int, content: str) -> str:
    name, of = title(view, k), about(view, k)
    last = len(view.derivation.steps) + 1
    if k in (0, last):
        head = f"{name[0].upper()}{name[1:]}"
    else:
        rule = view.derivation.steps[k - 1].rule
        head = f"{k}. {rule.name} ({rule.number})" + (f": <code>{of[0]}</code>" if of else "")
    is_open = " open" if k in (0, last) else ""
    return (
        f'<details class="frame" data-title="{escape(name)}" data-about="{escape(" ".join(of))}"{is_open}>'
        f"<summary>{head}</summary>{content}</details>"
    )


def _traced(text: str, view: View) -> str:
    """HTML in which the name of each statement leads to the step that made it."""

    def link(token: re.Match[str]) -> str:
        if token[0] not in view.made:
            return token[0]
        step, _ = view.made[token[0]]
        made = escape(f"made in step {step} by {view.title(step)}")
        return f'<a class="from" tabindex="-1" href="#step-{step}" data-step="{step}" title="{made}">{token[0]}</a>'

    return _TOKENS.sub(link, text)


def _step(view: View, shown: Frame) -> str:
    rule = shown.rule
    proved = ""
    if rule.theorems:
        value, spent = rule.theorems
        proved = f"It keeps the value and never costs more: theorems {code(value)} and {code(spent)}."
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
    for line in shown.lines:
        if isinstance(line, Gap):
            cells = f"<td>⋮ {line.count:,} more</td><td></td>"
        else:
            spent = "" if line.cost is None else f"{line.cost:,}"
            cells = f'<td><code>{_traced(line.text, view)}</code></td><td class="number">{spent}</td>'
        rows.append(f'<tr class="{line.mark or "both"}"><th scope="row">{line.mark}</th>{cells}</tr>')
    counted = "cost" if shown.own is not None else ""
    head = f'<thead><tr><th></th><th>expression</th><th class="number">{counted}</th></tr></thead>'
    return block("table", head + block("tbody", "".join(rows)), "expression")


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
        parts += [block("p", "In tensor SSA, where the derivation starts:"), block("pre", "\n".join(statements))]
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
        _traced(preformatted([beginning(function_lines(d.adjoint, UNICODE))]), view),
    ]
    parts.append(_origins(view))
    if view.ledger is not None:
        named = (("the program", d.function), ("its adjoint", d.adjoint))
        rows = [[name, _here(view, f), _for_all_sizes(f)] for name, f in named]
        parts.append(table(rows, ("cost (Figure 6)", "at these sizes", "for all sizes"), numbers=(1,)))
    return "".join(parts)


def _origins(view: View) -> str:
    """Each cotangent as it was derived, with the statement that it is of, the rule and the step."""
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


def _here(view: View, f: Function) -> str:
    try:
        return f"{cost(f, view.setting.data):,}"
    except (ArgumentError, LimitError):
        return ""


def _for_all_sizes(f: Function) -> str:
    lets = 0
    e = f.body
    while isinstance(e, Let):
        lets, e = lets + 1, e.body
    try:
        return points_text(cost_polynomial(f)) if lets <= _SHORT else ""
    except CountingError:
        return ""
