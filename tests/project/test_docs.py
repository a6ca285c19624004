"""The documentation is true: its outputs are real, its catalogues are complete, and its links lead somewhere."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import tensorlang as tl
from docs import catalogue
from docs.catalogue import errors, functions, language, proofs, rules, sources
from tensorlang.cli import main
from tensorlang.derivatives.derivation import RULES
from tensorlang.jaxprs.scalars import NAMES
from tensorlang.language import functions as registry
from tensorlang.language.function import Function
from tensorlang.language.special import BUILT_IN
from tensorlang.language.types import shape
from tensorlang.normal.rules import PASS_RULES
from tensorlang.surface.syntax import SYNTAX, Construct, constructs, grammar
from tests.support import ROOT
from tests.support.alike import alike
from tests.support.documents import blocks, outputs

DOCS = ROOT / "docs"
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if path.parent.name != "reference" and path.stem != "gallery" and blocks(path.read_text(), "python")
]


# -- pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_print_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("optax", "scipy", *(["torch"] if "import torch" in page.read_text() else [])):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_functions", registry.functions())  # registrations of a page end with it
    for example, printed in outputs(page.read_text(), page.name):
        assert example.printed in (None, printed), example.code


def test_all_pages_are_found() -> None:
    assert len(PAGES) > 8
    assert {"tutorial", "jax", "costs"} <= {page.stem for page in PAGES}


def test_an_example_that_prints_something_else_is_noticed() -> None:
    page = "```python\nprint(1)\n```\n\nprints\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n"
    assert [(e.printed, printed) for e, printed in outputs(page, "page")] == [("2\n", "1\n"), (None, "3\n")]


def test_the_lines_of_the_checker_are_as_many_as_the_page_says() -> None:
    told = re.search(r"about\s([\d,]+) lines of `proofs/checker`", (DOCS / "strength.md").read_text())
    assert told is not None
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / "proofs" / "checker").rglob("*.py"))
    assert lines == pytest.approx(int(told[1].replace(",", "")), rel=0.05)


@pytest.mark.slow
def test_the_commands_that_pages_show_work() -> None:
    shown = 0
    for path in DOCS.rglob("*.md"):
        for line in "".join(blocks(path.read_text(), "sh")).splitlines():
            program, *arguments = line.split()
            if program == "tensorlang" and arguments[0] == "check":
                found = CliRunner().invoke(main, [a.replace("examples/", f"{ROOT}/examples/") for a in arguments])
                assert found.exit_code == 0, found.output
                shown += 1
    assert shown >= 2


# -- catalogues


@pytest.mark.parametrize("page", catalogue.pages(), ids=lambda page: page.stem)
def test_the_reference_is_kept_as_it_is_generated(page: Path) -> None:
    assert page.read_text() == catalogue.kept(page.read_text()), "python -m docs.catalogue writes it anew"


def test_what_is_kept_is_read_without_being_built() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text()
        assert len(text.splitlines()) > 40
        assert "eval-rst" not in text


def nodes_in(f: Function) -> set[type]:
    """The classes of everything that a program consists of."""
    seen: dict[int, object] = {}
    stack: list[Any] = [f.params, f.body]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += part
        elif is_dataclass(part) and not isinstance(part, type) and id(part) not in seen:
            seen[id(part)] = part
            stack += [getattr(part, field.name) for field in fields(part)]
    return {type(part) for part in seen.values()}


each_construct = pytest.mark.parametrize("construct", constructs(), ids=lambda construct: construct.name)


@each_construct
def test_a_constructs_example_is_read_and_makes_its_nodes(construct: Construct) -> None:
    assert set(construct.nodes) <= nodes_in(tl.parse(construct.example))


@each_construct
def test_a_constructs_example_in_python_is_the_same_program(construct: Construct) -> None:
    if construct.python is not None:
        f = tl.parse(construct.example)
        names: dict[str, Any] = {"tl": tl, "Fraction": Fraction}
        exec(language.python_program(construct), names)
        assert alike(names[f.name], f)


def test_every_class_of_nodes_is_documented() -> None:
    made = {node for construct in constructs() for node in construct.nodes}
    known = {node for classes in language.KINDS.values() for node in classes}
    assert made == known
    assert all(language.meaning(node) for node in known)
    page = language.nodes_page()
    assert all(f"`{language.signature(node)}`" in page for node in known)


def test_the_grammar_names_each_category_and_construct_once() -> None:
    names = [category.name for category in SYNTAX] + [construct.name for construct in constructs()]
    assert len(names) == len(set(names))


def sentences() -> Iterator[str]:
    """Texts of all sizes that the parser reads."""
    for path in (*(ROOT / "tests" / "golden").glob("*.tl"), *(ROOT / "examples").glob("*.tl")):
        yield path.read_text()
    yield "f(x: [n + 1]R,) = (let y = -x[0]^2 in y) * [0 < n]*-1.5e-3 -- of one, not two\ng() = max(1, min i:3. 1/3)"


@pytest.fixture(scope="module")
def recogniser() -> Any:
    lark = pytest.importorskip("lark")
    return lark.Lark(grammar() + "%ignore /([ \\t\\r\\n]+|--[^\\n]*)+/\n", start="module")


@each_construct
def test_a_constructs_example_is_an_example_of_it(construct: Construct, recogniser: Any) -> None:
    tree = recogniser.parse(construct.example)
    assert construct.name in {part.data for part in tree.iter_subtrees()}


def test_programs_are_sentences_of_the_grammar(recogniser: Any) -> None:
    for text in sentences():
        assert tl.parse_module(text)
        recogniser.parse(text)


@pytest.mark.slow
def test_random_programs_are_sentences_of_the_grammar(recogniser: Any) -> None:
    import random

    from tests.support.programs import random_function

    for seed in range(60):
        recogniser.parse(str(random_function(random.Random(seed), fuel=8, chooses=True)))


@pytest.mark.parametrize(
    "text", ["f(x: [n]R) = x[", "f(x: R) = x ^ y", "f(x) = x", "f(x: R) = gen i. x", "f(x: R) = [i]*x"]
)
def test_what_is_no_program_is_no_sentence(text: str, recogniser: Any) -> None:
    from lark.exceptions import LarkError

    with pytest.raises(tl.TensorlangError):
        tl.parse(text)
    with pytest.raises(LarkError):
        recogniser.parse(text)


@pytest.mark.parametrize("kind", errors.classes(), ids=lambda kind: kind.__name__)
def test_each_kind_of_error_has_an_example_that_raises_just_it(kind: type[tl.TensorlangError]) -> None:
    for package in errors.EXAMPLES[kind].needs:
        pytest.importorskip(package)
    assert type(errors.raised(errors.EXAMPLES[kind])) is kind


def test_errors_have_no_examples_of_what_is_none() -> None:
    assert set(errors.EXAMPLES) == set(errors.classes())
    assert errors.raised(errors.Example("1 + 1", "")) is None


@pytest.mark.parametrize("number", RULES)
def test_each_rule_of_the_adjoint_is_applied_in_its_example(number: str) -> None:
    step = rules.told(number)
    assert step is not None
    assert step.rule is RULES[number]


def test_the_rule_catalogue_has_every_rule_and_theorem() -> None:
    listed = [number for numbers in rules.FIGURES.values() for number in numbers]
    assert listed == [rule.number for rule in PASS_RULES]
    assert set(rules.EXAMPLES) == set(RULES)
    stated = proofs.theorems()
    for rule in (*PASS_RULES, *RULES.values()):
        for name in rule.theorems:
            theorem = stated[name]
            line = (proofs.PROOFS / theorem.file).read_text().splitlines()[theorem.line - 1]
            assert f"Theorem {name}" in line
            assert "Proof" not in theorem.statement


def test_the_table_of_functions_has_every_function() -> None:
    page = functions.page()
    names = sorted(BUILT_IN | NAMES)
    assert all(f"| `{name}(" in page for name in names)
    assert all(callable(getattr(tl.fn, functions.PYTHON.get(name, name))) for name in names if name not in NAMES)


def test_sources_lead_to_files() -> None:
    assert sources.place("LetLift.v") == Path("proofs/LetLift.v")
    assert sources.place("normal/rules.py") == Path("tensorlang/normal/rules.py")
    assert sources.place("derivatives/test_rules.py") == Path("tests/derivatives/test_rules.py")
    assert sources.place("nowhere.py") is None


# -- the site


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon") and "href" in given:
            self.loads.append(given["href"])


def test_the_card_of_the_site_is_what_the_package_gives() -> None:
    from docs.catalogue import card

    assert (card.STATIC / "card.svg").read_text() == card.card()
    header = (card.STATIC / "card.png").read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:]) == card.SIZE


def test_rules_of_a_derivation_lead_to_the_pages_that_state_and_prove_them() -> None:
    html = tl.derive(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])"))._repr_html_()
    linked = rules.linked(html, lambda page: f"../{page}.html")
    assert 'href="../reference/rules.html#rule-6-27">scalar function (6.27)</a>' in linked
    assert re.search(r'href="../source/proofs/\w+\.v\.html#L-\d+"><code>value_6_27</code></a>', linked)
    assert 'href="#' in linked  # its steps
    assert not re.search(r'href="#[^"]*-rule-', linked)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "myst_nb", "furo", "sphinx_copybutton", "sphinx-mathjax-offline"):
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-d",
        str(out / "doctrees"),
        "docs",
        str(out),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


@pytest.mark.slow
def test_every_page_of_the_site_has_a_description_and_a_card(site: Path, pages: dict[Path, Page]) -> None:
    for path in pages:
        text = path.read_text()
        if "playground" in path.parts or "<html" not in text:
            continue
        found = re.search(r'<meta property="og:image" content="([^"]*)"', text)
        assert found is not None, path
        assert (path.parent / found[1]).resolve().is_file(), found[1]
        for tag in ('name="description"', 'property="og:title"', 'property="og:description"', '_static/favicon.svg"'):
            assert text.count(tag) == 1, (path, tag)


@pytest.mark.slow
def test_links_inside_the_site_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if known is None and not target.is_file():
                lost.append(f"{path.relative_to(site)}: {link}")
            elif known is not None and unquote(parts.fragment) not in known.anchors:
                lost.append(f"{path.relative_to(site)}: {link}, no such place on the page")
    assert not lost


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for load in page.loads:
            parts = urlsplit(load)
            assert parts.scheme in ("", "data"), f"{path.relative_to(site)} loads {load}"
            assert parts.scheme or (path.parent / unquote(parts.path)).is_file(), f"{path.relative_to(site)}: no {load}"


@pytest.mark.slow
def test_the_site_has_all_public_names_and_all_lessons(site: Path, pages: dict[Path, Page]) -> None:
    from docs.catalogue import api

    known = pages[site / "reference" / "api.html"]
    text = (site / "reference" / "api.html").read_text()
    for name in api.public():
        assert name in known.anchors or f"tl.{name.removeprefix('tensorlang.')}" in text, name
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert (site / "notebooks" / notebook.with_suffix(".html").name) in pages


# -- the cheat sheet

CELLS = "(x: [n]R, y: [n]R, v: [m]R, A: [n][m]R, B: [m][p]R, S: [n][n]R, k: [p]idx(n), u: [p]R)"


def cheats() -> list[tuple[str, str, str]]:
    """The rows of the cheat sheet that have three cells: NumPy, text and Python."""
    rows = []
    for line in (DOCS / "cheatsheet.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 3:
            rows.append((cells[0], cells[1], cells[2]))
    return rows


@pytest.mark.parametrize(("in_numpy", "text", "in_python"), cheats(), ids=[row[0] for row in cheats()])
def test_a_row_of_the_cheat_sheet_says_the_same_three_times(in_numpy: str, text: str, in_python: str) -> None:
    n, m, p = 4, 3, 2
    rng = np.random.default_rng(0)
    given = {"x": (n,), "y": (n,), "v": (m,), "A": (n, m), "B": (m, p), "S": (n, n), "u": (p,)}
    arrays: dict[str, Any] = {name: rng.uniform(0.5, 1.5, shape) for name, shape in given.items()}
    arrays["k"] = np.array([2, 0])
    want = eval(in_numpy, {"np": np, "jax": jax, "n": n, "m": m, "p": p, **arrays})
    f = tl.parse(f"f{CELLS} = {text}")
    sizes = dict(zip(("n", "m", "p"), tl.sizes("n m p"), strict=True))
    kinds = {q.name: tl.R[tuple(sizes[str(a)] for a in given_sizes(q))] for q in f.params if q.name != "k"}
    kinds["k"] = tl.idx(sizes["n"])[sizes["p"]]
    names = ", ".join(q.name for q in f.params)
    g = tl.function(eval(f"lambda {names}: {in_python}", {"tl": tl, **sizes}), **kinds)
    for program in (f, g):
        np.testing.assert_allclose(tl.evaluate(program, **arrays), want, rtol=1e-6)


def given_sizes(p: Any) -> tuple[Any, ...]:
    """The sizes of a parameter's axes."""
    return shape(p.type)[0]


def test_the_cheat_sheet_has_all_of_it() -> None:
    assert len(cheats()) > 40
