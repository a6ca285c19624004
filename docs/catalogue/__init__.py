"""The parts of the documentation that are generated from the package itself, as an extension of Sphinx.

Comments in a page say where a part goes, `<!-- generated: errors -->` to `<!-- end of errors -->`; the text between
them is replaced by Markdown before the page is read. `PARTS` lists the parts. Pages are kept with these parts, so that
they can be read without being built; `python -m docs.catalogue` writes them anew, and a test fails when that is due.
Docstrings are converted to reStructuredText, and sources get pages of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from docs.catalogue import api, errors, functions, growth, language, rules, sources, tasks
from docs.catalogue.lexer import GrammarLexer, ProgramLexer

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PARTS: dict[str, Callable[[], str]] = {
    "api": api.page,
    "errors": errors.page,
    "functions": functions.page,
    "gallery": tasks.gallery_page,
    "growth": growth.growth_page,
    "gain": growth.home_page,
    "panels": growth.panels_page,
    "ratios": growth.ratios_page,
    "grammar": language.grammar_page,
    "nodes": language.nodes_page,
    "syntax": language.syntax_page,
    "rules of normalisation": rules.passes_page,
    "rules of the adjoint": rules.adjoint_page,
}

_PLACE = re.compile(r"<!-- generated: (.+?) -->(?:.*?<!-- end of \1 -->)?", re.DOTALL)
_FOR_SPHINX = re.compile(
    r"^\([\w-]+\)=\n|```\{raw\} html.*?```\n|```\{eval-rst\}.*?```\n|(?<=\.html)#L-\d+", re.MULTILINE | re.DOTALL
)
DOCS = Path(__file__).parent.parent

_LINKED = ("paper", "proofs")
"""Pages at the top whose names of files become links."""


def filled(text: str) -> str:
    """A page with its generated parts in place. Raises `KeyError` for an unknown part."""
    return _PLACE.sub(lambda match: PARTS[match[1]](), text)


def kept(text: str) -> str:
    """A page with its generated parts as far as they can be read without being built."""

    def part(match: re.Match[str]) -> str:
        made = _FOR_SPHINX.sub("", PARTS[match[1]]())
        return f"<!-- generated: {match[1]} -->\n\n{made.strip()}\n\n<!-- end of {match[1]} -->"

    return _PLACE.sub(part, text)


def pages() -> list[Path]:
    """The pages with generated parts."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _PLACE.search(path.read_text())]


def setup(app: Sphinx) -> dict[str, bool]:
    """Take part in a build."""
    app.add_lexer("tl", ProgramLexer)
    app.add_lexer("lark", GrammarLexer)
    app.connect("env-get-outdated", _made_of_the_package)
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-skip-member", api.is_internal)
    app.connect("doctree-resolved", _with_rules)
    app.connect("html-collect-pages", sources.pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _made_of_the_package(app: Sphinx, env: BuildEnvironment, *changed: set[str]) -> list[str]:
    """The pages with generated parts, which every build reads anew."""
    return [name for name in env.found_docs if _PLACE.search(env.doc2path(name).read_text())]


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    text = filled(source[0])
    source[0] = sources.linked(text) if name in _LINKED else text


def _with_rules(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Link the rules and theorems of derivations in notebooks to the pages that state and prove them."""
    from docutils import nodes  # imported here, as it is installed only where the pages are built

    for part in list(tree.findall(nodes.raw)):
        if 'class="rule"' in part.astext():
            text = rules.linked(part.astext(), lambda page: app.builder.get_relative_uri(name, page))
            part.replace_self(nodes.raw("", text, format=part["format"]))


def _docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = api.as_rst(lines)
