"""The rule catalogue: each rule's law, an example of it that is run here, and the theorems that prove it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from textwrap import wrap
from typing import NamedTuple

import tensorlang as tl
from docs.catalogue.markdown import fence, folded
from docs.catalogue.proofs import theorems
from tensorlang.derivatives.derivation import RULES, Rule
from tensorlang.derivatives.transcript import Told
from tensorlang.normal.rules import PASS_RULES, PassRule

FIGURES: dict[str, tuple[str, ...]] = {
    "Figure 7: lifting lets": tuple(f"5.{k}" for k in range(1, 11)),
    "Figure 8: eliminating pairs": tuple(f"5.{k}" for k in range(11, 19)),
    "Figure 9: pushing gens outwards": ("5.21", "5.22", "5.23", "5.24", "5.24'"),
    "Figures 11 and 12: tensor SSA": tuple(f"5.{k}" for k in range(25, 35)),
}
"""The figures of the rules of normalisation."""


class Example(NamedTuple):
    """A program whose derivation by `wrt` applies a rule."""

    program: str
    wrt: str | None = None


_PAIR = Example("f(p: (R, R)) = fst(p) * snd(p)")
_SINE = Example("f(x: R) = sin(x)")
_SHIFT = Example("f(x: R, a: R) = 2 * x + a", "x")

EXAMPLES: dict[str, Example] = {
    "6.14": Example("f(x: R) = let y = sin(x) in cos(y)"),
    "6.15": _SINE,
    "6.16": Example("f(x: R) = (sin(x), cos(x))"),
    "6.17": _PAIR,
    "6.18": _PAIR,
    "6.19": _SINE,
    "6.20": Example("f(x: R) = sign(sin(x)) * x"),
    "6.21": _SINE,
    "6.22": _SHIFT,
    "6.23": Example("f(x: R) = sin(x) + 1"),
    "6.24": _SHIFT,
    "6.25": Example("f(x: [n]R) = gen i:n. x[i] * x[i]"),
    "6.26": Example("f(x: [n]R, a: R) = gen i:n. x[i] + [i = 0] * a"),
    "6.27": Example("f(x: [n]R) = gen i:n. exp(x[i])"),
    "6.28": Example("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. [j <= i] * A[i, j] * x[j]"),
    "6.29": Example("f(A: [n][n]R) = sum i:n. A[i, i]"),
}
"""For each rule of Figures 15 and 16 a program whose derivation applies it."""

SIZE = 4
"""The value of all sizes where the costs of a step are shown."""

WIDTH = 86
"""The most characters in a line of a law."""


def told(number: str) -> Told | None:
    """The first step by this rule in the derivation of its example; None if there is none."""
    example = EXAMPLES[number]
    f = tl.parse(example.program)
    steps = tl.derive(f, example.wrt).tell(**{size.name: SIZE for size in f.sizes})
    return next((step for step in steps if step.rule.number == number), None)


def passes_page() -> str:
    """The rules of Figures 7 to 12."""
    by_number = {rule.number: rule for rule in PASS_RULES}
    parts = []
    for title, numbers in FIGURES.items():
        parts += [f"### {title}\n", *(_pass_rule(by_number[number]) for number in numbers)]
    return "\n".join(parts)


def adjoint_page() -> str:
    """The rules of Figures 15 and 16."""
    return "\n".join(map(_adjoint_rule, RULES.values()))


def _pass_rule(rule: PassRule) -> str:
    before, after = tl.parse(rule.before), tl.parse(rule.after)
    costs = [str(tl.cost_polynomial(f)).replace("\n", " ") for f in (before, after)]
    verdict = f"Both cost `{costs[0]}`." if costs[0] == costs[1] else f"They cost `{costs[0]}` and `{costs[1]}`."
    example = fence(f"{rule.before}\n-- becomes\n{rule.after}", "tl")
    return "\n".join([_head(rule, 4), _law(rule.law), example, f"{verdict} {_proved(rule.theorems)}"])


def _adjoint_rule(rule: Rule) -> str:
    example, step = EXAMPLES[rule.number], told(rule.number)
    assert step is not None
    f = tl.parse(example.program)
    by = f", by `{example.wrt}`" if example.wrt else ""
    where = f"in the derivation of the adjoint of `{example.program}`{by}"
    if step.before == rule.law:  # the rule is about all lets, or about pairs, and rewrites no inner product of arrays
        shown = [f"Applied {where}.\n"]
    else:
        shown = [f"For example, {where}:\n", fence(_rewriting(step), "text")]
    at = ", ".join(f"{size.name} = {SIZE}" for size in f.sizes)
    cost = f"It costs {step.cost[0]} before and {step.cost[1]} after{f', at {at}' if at else ''}. " if step.cost else ""
    return "\n".join([_head(rule, 3), _law(rule.law), *shown, f"{cost}{_proved(rule.theorems)}"])


def _rewriting(step: Told) -> str:
    """The product that a step rewrites, the statements that it makes, and the products that it leads to."""
    lets = [f"let {statement} in" for statement in step.made]
    first, *others = [*lets, step.after] if step.after else lets or [""]
    lines = [step.before, f"->  {first}", *(f"    {line}" for line in others)]
    return "\n".join(line.replace("\n", "\n        ") for line in lines if line.strip("-> "))


def _law(law: str) -> str:
    """A law, broken where it is too long for one line."""
    before, _, after = law.partition("  ->  ")
    if len(law) <= WIDTH:
        return fence(law, "text")
    parts = re.split(r"(?<= in) (?=let |<)|(?<=;)  ", after)
    pieces = [piece for part in parts for piece in wrap(part, WIDTH, subsequent_indent="    ")]
    return fence(
        "\n".join([before, *(f"{'->' if k == 0 else '  '}  {piece}" for k, piece in enumerate(pieces))]), "text"
    )


def _head(rule: Rule | PassRule, level: int) -> str:
    return f"({target(rule.number)})=\n{'#' * level} {rule.number} {rule.name}\n"


def target(number: str) -> str:
    """The label of a rule's section."""
    return "rule-" + number.replace(".", "-").replace("'", "-prime")


_STATED = re.compile(r'href="#\w+-rule-([^"]+)">(<code>(\w+)</code>)?')


def linked(html: str, uri: Callable[[str], str]) -> str:
    """The HTML of a derivation, with rules linked to the page of rules, and theorems to their proofs; `uri` returns the
    address of a page."""

    def link(found: re.Match[str]) -> str:
        number, shown, name = found.groups()
        if name in theorems():
            t = theorems()[name]
            return f'href="{uri(f"source/proofs/{t.file}")}#L-{t.line}">{shown}'
        return f'href="{uri("reference/rules")}#{target(number)}">{shown or ""}' if number in RULES else found[0]

    return _STATED.sub(link, html)


def _proved(names: Iterable[str]) -> str:
    """The theorems, with links and statements."""
    known = [theorems()[name] for name in names]
    places = ", ".join(
        f'<a href="../source/proofs/{t.file}.html#L-{t.line}"><code>{t.name}</code> in {t.file}</a>' for t in known
    )
    statements = "\n\n".join(t.statement for t in known)
    what = "theorem" if len(known) == 1 else "theorems"
    return f"Proved: {places}.\n\n" + folded(f"The {what}", fence(statements, "coq"))
