"""Constructs, each a way to write a phrase, and categories of phrases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Construct:
    """One way to write a phrase: its EBNF, what it means, a program with one, and the same program in Python.

    `python` is the value of the program's body, with the program's parameters and sizes as variables, or None if there
    is no separate form in Python. `nodes` are the classes of nodes that the construct makes.
    """

    name: str
    form: str
    meaning: str
    example: str
    python: str | None
    nodes: tuple[type, ...] = ()


@dataclass(frozen=True)
class Category:
    """A kind of phrase: `constructs`, or a phrase of the category `tighter`, whose operators bind tighter."""

    name: str
    title: str
    constructs: tuple[Construct, ...]
    tighter: str | None = None

    @property
    def rule(self) -> str:
        """Its alternatives in EBNF, each named after its construct."""
        forms = [self.tighter] if self.tighter else []
        forms += [f"{construct.form} -> {construct.name}" for construct in self.constructs]
        return f"{self.name}: " + "\n    | ".join(forms)
