"""The rules of Figures 15 and 16 for readers: each law in the paper's notation, and its purpose in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from tensorlang.derivatives.derivation import Rule

WORDS: Mapping[str, str] = {
    "6.14": "A let comes out from under D, and its variable gets a differential.",
    "6.15": "Program lets first, then the differentials: from here on the program is left alone.",
    "6.16": "Of a pair, each part has an inner product of its own.",
    "6.17": "At a parameter the predicate goes to the cotangent and has done its work.",
    "6.18": "The cotangents of a pair are a pair.",
    "6.19": "The reversal: dX is used in one place only, so its definition goes there. What stands left of it is X's "
    "cotangent.",
    "6.20": "Nothing asks for this differential.",
    "6.21": "D of a variable is its differential.",
    "6.22": "The variable does not depend on what is differentiated.",
    "6.23": "A constant has no differential.",
    "6.24": "Adding 0 changes nothing.",
    "6.25": "All that is asked of dX, collected under the union of the predicates, so that X is reversed only once.",
    "6.26": "A sum passes its cotangent on to each term, under the term's predicate.",
    "6.27": "A scalar function passes its cotangent on by its own derivative, where the function was applied.",
    "6.28": "Of a product, each factor gets the cotangent times the other factor, summed over all places where it was "
    "read. Its predicate is the projection of those places.",
    "6.29": "Whatever was summed or copied gets the cotangents of all places where it was read, added up.",
    "6.R1": "The cotangent of a state is a recurrence that goes backwards and reads what the steps have stored. All "
    "other cotangents are sums over the steps.",
    "6.A": "The adjoint that is declared for the function is put in the place of one that would be derived.",
}
"""The purpose of each rule, by its number."""

_NOTATION = {
    "->": "→",
    "<": "⟨",
    ">": "⟩",
    "*": "·",
    "gen": "⊞",
    "sum": "Σ",
    "exists": "∃",
    "and": "∧",
    "or": "∨",
    "fst": "π₀",
    "snd": "π₁",
    "..": "…",
    "D": "<b>D</b>",
}
_TOKENS = re.compile(r"->|[<>*]|\.\.|\b(?:gen|sum|exists|and|or|fst|snd|D)\b")
_MASKS = re.compile(r"_\[([^][]*)\]")


def law(rule: Rule) -> str:
    """The law of `rule` as HTML, in the notation of the derivations."""
    text = _TOKENS.sub(lambda found: _NOTATION[found[0]], rule.law)
    return _MASKS.sub(r"<sub>[\1]</sub>", text).replace(" · ", "·").replace("·", " · ")


def words(rule: Rule) -> str:
    """What `rule` does, as HTML."""
    return escape(WORDS[rule.number], quote=False)


def rule_id(key: str, rule: Rule) -> str:
    """The id of the entry of `rule` below the derivation whose ids begin with `key`."""
    return f"{key}-rule-{rule.number}"


def rule_entry(key: str, rule: Rule) -> str:
    """`rule` in a list of definitions: its law, its purpose, and the theorems that prove it."""
    proved = " and ".join(f"<code>{name}</code>" for name in rule.theorems)
    told = f" Proved in Coq: {proved}." if proved else " Not proved."
    return (
        f'<dt id="{rule_id(key, rule)}">{rule.number} {escape(rule.name)}</dt>'
        f'<dd><p class="law"><code>{law(rule)}</code></p><p class="note">{words(rule)}{told}</p></dd>'
    )
