"""Derivations as HTML: a fold for each step, which a script, if it may run, turns into a view to step through.

The HTML needs neither Python nor the network. Where styles and scripts are stripped, as on code-hosting sites, plain
tables and folds are left. The live widget shows the same frames. Repeated steps are folded together; if not all steps
fit, the first of these are kept.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import chain
from zlib import compress

from tensorlang.derivatives.derivation import Rule
from tensorlang.notebook.html import STYLE, note
from tensorlang.notebook.stepper.folds import Fold, folds
from tensorlang.notebook.stepper.frames import about, frame, title
from tensorlang.notebook.stepper.graph import graph_html
from tensorlang.notebook.stepper.laws import rule_entry
from tensorlang.notebook.stepper.view import View

_FOLDER = files("tensorlang.notebook.stepper")
SCRIPT = (_FOLDER / "stepper.js").read_text(encoding="utf-8")
CSS = STYLE + (_FOLDER / "stepper.css").read_text(encoding="utf-8")

_IN_A_NOTEBOOK = 250_000
"""The most characters of steps that a notebook gets as folds, which can be read without scripts."""
_MOST_IN_A_NOTEBOOK = 200
"""The most steps that a notebook gets as folds, with the others compressed; each takes some 3 ms to write."""
_ON_A_PAGE = 10_000
"""The number of steps saved by default; compressed, each takes 200 bytes."""
_IN_A_CHUNK = 200
"""The number of steps that are compressed together, and unpacked when one of them is viewed."""
_READ_THROUGH = 200
"""The number of saved steps that are folds, which can be read without scripts."""


def label(view: View) -> str:
    """The title of the whole."""
    f = view.derivation.function
    return f"The adjoint of {f.name} with respect to {', '.join(x.name for x in view.derivation.wrt)}"


def notebook_html(view: View) -> str:
    """The derivation as an output of a notebook, with as many steps as don't burden it."""
    return _styled(_section(view, _chosen(view, _MOST_IN_A_NOTEBOOK), _IN_A_NOTEBOOK))


def page(view: View, steps: range | None = None) -> str:
    """A whole page that steps through the derivation, or through those `steps` of it, counted from 1."""
    count = len(view.derivation.steps)
    wanted = _chosen(view, _ON_A_PAGE) if steps is None else [k for k in steps if 1 <= k <= count]
    name = escape(label(view))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>:root {color-scheme: light dark} body {font-family: system-ui, sans-serif; margin: 1em auto; "
        "padding: 0 1em; max-width: 76em; color: CanvasText; background: Canvas}</style></head>"
        f"<body><h1>{name}</h1>{_styled(_section(view, wanted, None))}</body></html>\n"
    )


def _chosen(view: View, most: int) -> list[int]:
    """At most `most` steps; among repeated ones, the first are preferred."""
    count = len(view.derivation.steps)
    if count <= most:
        return list(range(1, count + 1))
    repeated = {k for f in folds(view.derivation) for k in range(f.first + f.period, f.last + 1)}
    order = chain((k for k in range(1, count + 1) if k not in repeated), sorted(repeated))
    return sorted(list(order)[:most])


def _section(view: View, wanted: Sequence[int], budget: int | None) -> str:
    """The view: the `wanted` steps as folds as far as the budget allows, the others compressed. A page has no
    budget."""
    last = len(view.derivation.steps) + 1
    readable: dict[int, str] = {}
    for k in wanted[:_READ_THROUGH]:
        readable[k] = frame(view, k)
        if budget is not None and sum(map(len, readable.values())) > budget:
            break
    rest = wanted[len(readable) :]
    again = folds(view.derivation)
    parts = [frame(view, 0), *_folded(view, readable, again), frame(view, last)]
    if rest:
        parts.append(_packed(view, rest))
    if len(wanted) < last - 1:
        more = "" if budget is None else "; derivation.save(..) makes a page of more"
        parts.append(
            note(f"{'This page has' if budget is None else 'Here are'} {len(wanted):,} of {last - 1:,} steps{more}.")
        )
    parts += [graph_html(view), rules_html(view)]
    whole = ' data-page="whole"' if budget is None else ""
    counted = counted_at(view)
    head = note(counted) if counted else ""
    return (
        f'<section class="stepper" aria-label="{escape(label(view))}" data-folds="{json.dumps(again)}" '
        f'data-origins="{escape(json.dumps(view.origins))}"{whole}>'
        f"{head}{''.join(parts)}</section>"
    )


def _folded(view: View, frames: dict[int, str], again: Sequence[Fold]) -> Iterable[str]:
    """Frames in order, with repeated ones in folds of their own."""
    left = dict(frames)
    for f in again:
        yield from [left.pop(k) for k in list(left) if k < f.first]
        inside = [left.pop(k) for k in list(left) if k <= f.last]
        if inside:
            yield f'<details class="fold"><summary>{fold_title(view, f)}</summary>{"".join(inside)}</details>'
    yield from left.values()


def fold_title(view: View, f: Fold) -> str:
    """The title of a fold of repeated steps, as HTML."""
    rules = " + ".join(dict.fromkeys(title(view, k) for k in range(f.first, f.first + f.period)))
    return f"{f.first:,} to {f.last:,}: {escape(rules)} ×{f.times:,}"


def _packed(view: View, steps: Sequence[int]) -> str:
    """Compressed steps, which a script unpacks."""
    chunks = [steps[first : first + _IN_A_CHUNK] for first in range(0, len(steps), _IN_A_CHUNK)]
    held = {
        "steps": steps,
        "titles": [title(view, k) for k in steps],
        "about": [about(view, k) for k in steps],
        "size": _IN_A_CHUNK,
        "chunks": [_compressed([frame(view, k) for k in chunk]) for chunk in chunks],
    }
    text = json.dumps(held).replace("<", r"\u003c")
    return f'<script type="application/json" class="rest">{text}</script>'


def _compressed(frames: list[str]) -> str:
    return b64encode(compress(json.dumps(frames).encode(), 9)).decode()


def rules_of(view: View) -> list[Rule]:
    """The rules that the derivation applies, by number."""
    return sorted(set(step.rule for step in view.derivation.steps), key=lambda rule: (len(rule.number), rule.number))


def rules_html(view: View) -> str:
    """The rules, to which steps link."""
    entries = "".join(rule_entry(view.key, rule) for rule in rules_of(view))
    return f'<details class="rules"><summary>The rules of this derivation</summary><dl>{entries}</dl></details>'


def _styled(content: str) -> str:
    script = f'<script type="module">{SCRIPT}\neverywhere();</script>'
    return f'<div class="tensorlang"><style>{CSS}</style>{content}{script}</div>'


def counted_at(view: View) -> str:
    """The sizes and data at which costs are counted, or the reason why they aren't."""
    return f"Costs are not counted: {view.trouble}." if view.trouble else view.setting.words
