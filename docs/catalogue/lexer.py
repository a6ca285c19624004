"""How programs, and the grammar of programs, are coloured."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from tensorlang.language.grammar import RECURRENCES
from tensorlang.surface.lex import RESERVED
from tensorlang.surface.reader import REDUCTIONS

_TYPES = {"R", "rel", "idx"}


class ProgramLexer(RegexLexer):
    """The text syntax."""

    name = "tensorlang"
    aliases: ClassVar[list[str]] = ["tl"]
    filenames: ClassVar[list[str]] = ["*.tl"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"--.*$", Comment.Single),
            (r"\s+", Whitespace),
            (words(sorted(RESERVED - _TYPES), suffix=r"\b"), Keyword),
            (words((*REDUCTIONS, *RECURRENCES), suffix=r"(?=\s+(reversed\s+)?\w+:)"), Keyword),
            (words(sorted(_TYPES), suffix=r"\b"), Keyword.Type),
            (r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", Number),
            (r"[A-Za-z_]\w*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"<=|>=|!=|//|[-+*/%^<>=]", Operator),
            (r"[()\[\],.:]", Punctuation),
        ]
    }


class GrammarLexer(RegexLexer):
    """EBNF as Lark has it."""

    name = "Lark grammar"
    aliases: ClassVar[list[str]] = ["lark"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r'"[^"]*"', String),
            (r"/\S+/", String.Regex),
            (r"(->)(\s+)(\w+)", bygroups(Punctuation, Whitespace, Name.Label)),
            (r"[a-z_]+(?=:)", Name.Function),
            (r"[A-Z]+", Name.Constant),
            (r"[a-z_]+", Name),
            (r"[|?*+]", Operator),
            (r"[()\[\]:]", Punctuation),
        ]
    }
