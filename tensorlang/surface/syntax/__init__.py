"""The text syntax as data: every construct with its form, its meaning, an example and the nodes that it makes.

The parser is written by hand (`tensorlang.surface.expressions`), for better messages. This package describes what it
reads, in Lark's EBNF. The documentation's language reference is generated from it, and tests keep it and the parser
consistent: each example parses to its nodes, and every program that parses is a sentence of this grammar. The grammar
does not determine how far constructs that begin with a word extend (as far right as they can), nor the meanings of
names.
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
"""The terminals: words and numbers."""


def constructs() -> tuple[Construct, ...]:
    """Every construct, in order."""
    return tuple(construct for category in SYNTAX for construct in category.constructs)


def grammar() -> str:
    """The whole grammar in EBNF; a text is a `module`, and comments and blanks may stand between its words."""
    rules = "\n\n".join(category.rule for category in SYNTAX)
    return f"module: definition*\n\n{rules}\n{TERMINALS}"
