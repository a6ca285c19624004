"""The text syntax as data: every construct with its form, its meaning, an example and the nodes that it makes.

The parser is written by hand (`tensorlang.surface.expressions`), for the sake of its messages. This is what it reads,
in EBNF as Lark has it; the documentation's language reference is made of it, and tests hold the two to each other:
each example is read, and makes these nodes, and every program that is read is a sentence of this grammar. What the
grammar leaves open is how far the word-headed constructs reach (as far right as they can), and what a name stands
for.
"""

from __future__ import annotations

from tensorlang.surface.lex import RESERVED
from tensorlang.surface.syntax.conditions import CONDITIONAL
from tensorlang.surface.syntax.construct import Category, Construct
from tensorlang.surface.syntax.declarations import DECLARED
from tensorlang.surface.syntax.expressions import EXPRESSED
from tensorlang.surface.syntax.scalars import SCALAR

__all__ = ["SYNTAX", "Category", "Construct", "constructs", "grammar"]

SYNTAX: tuple[Category, ...] = (*DECLARED, *EXPRESSED, *CONDITIONAL, *SCALAR)
"""All of the syntax, from definitions down to integers."""

TERMINALS = rf"""
NAME: /(?!({"|".join(sorted(RESERVED | {"pow"}))})\b)[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/
INTEGER: /[0-9]+/
"""
"""What words and numbers are."""


def constructs() -> tuple[Construct, ...]:
    """Every construct, in order."""
    return tuple(construct for category in SYNTAX for construct in category.constructs)


def grammar() -> str:
    """The whole grammar in EBNF; a text is a `module`, and comments and blanks may stand between its words."""
    rules = "\n\n".join(category.rule for category in SYNTAX)
    return f"module: definition*\n\n{rules}\n{TERMINALS}"
