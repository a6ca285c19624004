"""Python source in colours."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.notebook.html import block, escape

_KINDS = ("Comment", "Keyword", "Literal.Number", "Literal.String", "Name.Function")


def highlighted(source: str) -> str:
    """`source` as HTML, with a class of the stylesheet for each kind of token. Without Pygments, it is plain."""
    try:
        from pygments.lexers.python import PythonLexer
        from pygments.token import string_to_tokentype
    except ModuleNotFoundError:
        return escape(source, quote=False)
    kinds = {string_to_tokentype(kind): kind.split(".")[-1].lower() for kind in _KINDS}

    def pieces() -> Iterator[str]:
        for token, text in PythonLexer(stripnl=False).get_tokens(source):
            kind = next((name for wanted, name in kinds.items() if token in wanted), None)
            shown = escape(text, quote=False)
            yield shown if kind is None else block("span", shown, kind)

    return "".join(pieces())
