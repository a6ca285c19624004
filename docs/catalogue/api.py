"""The reference of the public names, by the folder that each comes from; the errors have an index of their own."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import tensorlang as tl
from docs.catalogue.markdown import table
from tensorlang import testing
from tensorlang.errors import TensorlangError
from tensorlang.surface.scope import Surface

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SECTIONS: dict[str, tuple[str, str]] = {
    "surface": ("Writing programs", "Text, and the Python embedding."),
    "language": ("Programs", "What a program is, what it means, how it is shown."),
    "pipeline": ("Derivatives", "Programs made of programs."),
    "declared": ("Declared adjoints", "Whole functions of arrays; [](../howto/own-adjoint.md) says more."),
    "derivatives": ("Derivations", "How an adjoint came about, step by step."),
    "normal": ("Normal forms", "The passes on the way to tensor SSA, each usable alone."),
    "simplification": ("Simplification", "Programs as one would write them."),
    "costs": ("Costs", "What programs cost; [](../costs.md) says more."),
    "certificate": ("Certificates", "That adjoints are cheap, for all sizes; [](../certificates.md) says more."),
    "testing": ("Tests", "Assertions for the tests of programs."),
    "lowering": ("Generated code", "Programs as Python source."),
    "pictures": ("Pictures", "Where people would rather look than read; they need Matplotlib."),
    "transforms": ("Inside JAX programs", "Programs under JAX's transformations."),
    "jaxprs": ("From JAX programs", "Programs from JAX functions; [](../howto/from-jax.md) says more."),
    "jax": ("In the place of JAX's derivatives", "Functions that are called as those of `jax` are."),
}
"""A title and a sentence for each folder; names from other folders follow under the folder's name."""

_ELSEWHERE = "Names from `tensorlang.{}`."
_SCALARS = "tensorlang.surface.scalars"


def public() -> dict[str, object]:
    """Every public name except the errors, with its object; names of public modules after those of the package."""
    further = (what for name in tl.__all__ if inspect.ismodule(what := getattr(tl, name)))
    modules = [tl, testing, *(module for module in further if hasattr(module, "__all__"))]
    listed = {module: module.__all__ for module in modules} | {tl: [x for x in dir(tl) if not x.startswith("_")]}
    names = {f"{module.__name__}.{name}": getattr(module, name) for module, found in listed.items() for name in found}
    return {name: what for name, what in names.items() if not (_is_error(what) or inspect.ismodule(what))}


def page() -> str:
    """A section for each folder, and in it an entry for each name."""
    by_folder: dict[str, list[str]] = {}
    for name, what in public().items():
        by_folder.setdefault(_module(what).split(".")[1], []).append(name)
    order = [*SECTIONS, *sorted(by_folder.keys() - SECTIONS.keys())]
    parts = []
    for folder in order:
        if folder in by_folder:
            title, about = SECTIONS.get(folder, (folder.capitalize(), _ELSEWHERE.format(folder)))
            parts += [f"## {title}\n", f"{about}\n", _summary(by_folder[folder]), *_entries(by_folder[folder])]
    return "\n".join(parts)


def _summary(names: list[str]) -> str:
    """A table of the names of one folder, except scalar functions, each with the first sentence about it."""
    rows = [
        (f"`{name.replace('tensorlang.', 'tl.')}{_parameters(public()[name])}`", _first_sentence(public()[name]))
        for name in sorted(names, key=str.lower)
        if not _is_elementwise(public()[name])
    ]
    return table(("Name", "What it is"), rows)


def _parameters(what: object) -> str:
    """The names of the parameters of a function."""
    if inspect.isclass(what) or not callable(what):
        return ""
    try:
        parameters = inspect.signature(what).parameters.values()
    except ValueError:
        return ""
    return f"({', '.join(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)})"


def _first_sentence(what: object) -> str:
    documented = what if inspect.isclass(what) or inspect.isroutine(what) else type(what)
    paragraph = " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s(?=[A-Z])", paragraph)[0]


def _entries(names: list[str]) -> list[str]:
    """The entries of one folder: those of scalar functions in one paragraph."""
    elementwise = [name for name in names if _is_elementwise(public()[name])]
    entries = ["```{eval-rst}"]
    for name in sorted(set(names) - set(elementwise), key=str.lower):
        what = public()[name]
        entries += [f".. {_directive(what)}:: {name}", "   :members:" if inspect.isclass(what) else "", ""]
    entries.append("```\n")
    if elementwise:
        listed = ", ".join(f"`{name.replace('tensorlang.', 'tl.')}`" for name in sorted(elementwise))
        entries.append(f"The [scalar functions](functions.md), on numbers of a program: {listed}.\n")
    return entries


def is_internal(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Whether to leave a member out: members that all objects of the embedding share are of no use to a reader."""
    return True if hasattr(Surface, name) else None


def _directive(what: object) -> str:
    return "autoclass" if inspect.isclass(what) else "autofunction" if inspect.isroutine(what) else "autodata"


def _module(what: object) -> str:
    what = inspect.unwrap(what) if callable(what) else what
    return str(getattr(what, "__module__", None) or type(what).__module__)


def _is_elementwise(what: object) -> bool:
    return _module(what) == _SCALARS and "elementwise" in (inspect.getdoc(what) or "")


def _is_error(what: object) -> bool:
    return inspect.isclass(what) and issubclass(what, TensorlangError)


_CODE = re.compile(r"(`[^`]*`)")


def as_rst(lines: list[str]) -> list[str]:
    """Docstrings as reStructuredText: text between single backticks is code, all else is plain.

    Indented blocks are code; lists and paragraphs stay.
    """
    made: list[str] = []
    for line in lines:
        indented = line.startswith("    ")
        if indented and made and not made[-1].strip():
            previous = next((text for text in reversed(made) if text.strip()), "")
            if not previous.startswith("    ") and not previous.lstrip().startswith("- "):
                made += ["::", ""]
        made.append(line if indented else _escaped(line))
    return made


def _escaped(line: str) -> str:
    parts = _CODE.split(line)
    return "".join(
        f"`{part}`" if part.startswith("`") else re.sub(r"([*|_])(?=\S)|(?<=\S)([*|_])", r"\\\1\2", part)
        for part in parts
    )
