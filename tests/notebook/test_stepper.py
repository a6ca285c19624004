"""Derivations to step through: nothing is lost or invented, the ledger is the derivation's own, and browsers show
it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import tensorlang as tl
from tensorlang import shown
from tensorlang.cli import main
from tensorlang.derivatives.derivation import DECLARED, RECURRENCE, RULES, Derivation, InnerProduct, Side
from tensorlang.derivatives.ledger import Ledger
from tensorlang.derivatives.transcript import tell
from tensorlang.normal.ssa import Constant, Input
from tensorlang.notebook import stepper
from tensorlang.notebook.stepper import page
from tensorlang.notebook.stepper.folds import Fold, repeats
from tensorlang.notebook.stepper.frames import frame as frame_html
from tensorlang.notebook.stepper.graph import graph_html
from tensorlang.notebook.stepper.laws import WORDS, law
from tensorlang.notebook.stepper.rows import Differential, LetRow, Paired
from tensorlang.notebook.stepper.view import HTML, Frame, Gap, Line, View
from tests.derivatives.test_derivation import example
from tests.support.programs import relation_data

LOSS = tl.parse("""
  loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
    let y = gen i:n. sum j:m. x[i + j] * w[j] in
    sum k:n. (y[k] - z[k])^2
""")
PAIRS = tl.parse("pairs(p: ([n]R, R), q: [n](R, R)) = (gen i:n. fst(p)[i] * snd(p), (sum i:n. fst(q[i]), 2))")
GREATEST = tl.parse("greatest(x: [n]R) = max i:n. x[i] * x[i]")
GRAPH = tl.parse("graph(x: [n]R, e: rel(n, n)) = sum i:n, j:n. [e(i, j)] * x[i] * x[j]")
CHOSEN = tl.parse("chosen(x: [n][m]R, y: [n]idx(m)) = sum i:n. x[i, y[i]]")
FLAT = tl.parse("flat(x: [n]R) = sum i:n. sign(x[i] * x[i]) * x[i]")
PROGRAMS = (LOSS, FLAT, PAIRS, GREATEST, GRAPH, CHOSEN, tl.parse("identity(x: [n]R) = x"), tl.parse("two(x: R) = 2"))
SEEDS = range(25)


def derivations() -> Iterator[Derivation]:
    """Derivations by all rules, with the sizes and data at which they are counted."""
    for f in PROGRAMS:
        yield tl.derive(f)
    yield tl.derive(tl.parse("inactive(x: [n]R, y: [n]R) = gen i:n. x[i] + sin(y[i])"), "x")
    for seed in SEEDS:
        d, sizes, data = example(seed)
        yield d.at(**{s.name: sizes[s.name] for s in d.function.sizes}, **relation_data(d.function, data))


Shown = tuple[View, list[Frame]]


@pytest.fixture(scope="module")
def views() -> list[Shown]:
    """Each derivation's view, and the frames of all its steps."""
    found = map(View, derivations())
    return [(view, [view.frame(k) for k in range(1, len(view.derivation.steps) + 1)]) for view in found]


def chain(length: int) -> Derivation:
    """The derivation of a program of `length` lets."""
    lets = [f"let y{k + 1} = gen i:n. sin(y{k}[i]) * x[i] in" for k in range(length)]
    return tl.derive(tl.parse(f"chain(y0: [n]R, x: [n]R) = {' '.join(lets)} sum i:n. y{length}[i]"))


def marked(lines: tuple[Line | Gap, ...], mark: str) -> list[str]:
    return [line.text.strip() for line in lines if isinstance(line, Line) and line.mark == mark]


def signed(product: str) -> str:
    return f"− {product[1:]}" if product.startswith("-") else f"+ {product}"


def test_the_programs_of_this_file_use_every_rule(views: list[Shown]) -> None:
    used = {frame.rule.number for _, frames in views for frame in frames}
    assert used == set(RULES)


def test_before_and_after_are_the_steps_own(views: list[Shown]) -> None:
    for view, frames in views:
        names = view.names
        for step, frame in zip(view.derivation.steps, frames, strict=True):
            if not step.before:
                continue
            before, after = marked(frame.lines, "before"), marked(frame.lines, "after")
            made = [x for x in step.made if not isinstance(x, Input | Constant)]
            reversed_ = [f"let d{names.of(x)} = <b>D</b>[{names.of(x)}] in" for x in [step.subject] if x is not None]
            assert sorted(before) == sorted(
                [
                    *(reversed_ if step.rule.number == "6.19" else []),
                    *(signed(names.product(q)) for q in step.before),
                ]
            )
            assert after == [
                *(f"let {names.definition(x)} in" for x in made),
                *([signed(names.product(q)) for q in step.after] or ["+ 0"]),
            ]


def test_what_is_shown_is_what_the_transcript_tells(views: list[Shown]) -> None:
    for view, frames in views:
        for told, frame in zip(tell(view.derivation, style=HTML), frames, strict=True):
            assert view.title(frame.number) == f"{told.rule.number} {told.rule.name}"
            texts = marked(frame.lines, "after")
            assert all(f"let {statement} in" in texts for statement in told.made)


def test_the_ledger_of_each_step_is_the_derivations_own(views: list[Shown]) -> None:
    for view, frames in views:
        ledger = Ledger(view.derivation, view.setting.data)
        for step, frame in zip(view.derivation.steps, frames, strict=True):
            own = frame.own
            assert own is not None
            if step.before or step.rule.number == "6.20":
                assert (own[0].total, own[1].total) == ledger.step(step), step.rule
            else:
                assert own[0].total == own[1].total, step.rule


def test_the_running_ledger_adds_up_what_is_there_and_never_rises(views: list[Shown]) -> None:
    for _, frames in views:
        for frame in frames:
            assert frame.running is not None
            before, after = frame.running
            costs = [(line.mark, line.cost) for line in frame.lines if isinstance(line, Line)]
            if not any(isinstance(line, Gap) for line in frame.lines):
                assert before.total == sum(cost or 0 for mark, cost in costs if mark != "after")
                assert after.total == sum(cost or 0 for mark, cost in costs if mark != "before")
            assert after.total <= before.total or frame.rule.number == "6.17"


def test_every_differential_is_used_up_and_every_statement_stays(views: list[Shown]) -> None:
    for view, _ in views:
        d = view.derivation
        end = [row.part for row in view.rows.alive(len(d.steps))]
        assert not any(isinstance(part, Differential) for part in end)
        lets = [part.statement for part in end if isinstance(part, LetRow)]
        assert len(lets) == len(set(lets))
        assert set(lets) >= {x for x in d.result.statements if not isinstance(x, Input | Constant)}
        products = [q for part in end for q in (part.parts if isinstance(part, Paired) else [part])]
        assert all(q.side is Side.DIFFERENTIAL for q in products if isinstance(q, InnerProduct))


def test_a_step_is_found_by_the_statement_that_it_is_about() -> None:
    view = View(tl.derive(LOSS))
    (product,) = [k for k in range(1, 25) if view.title(k) == "6.28 product"]
    assert view.about(product) == ("y", "x_bar", "w_bar")


def test_a_predicate_is_shown_as_the_set_of_its_points() -> None:
    view = View(tl.derive(LOSS).at(n=3, m=5))
    (frame,) = [f for f in map(view.frame, range(1, 25)) if f.rule.number == "6.28"]
    band = next(s for s in frame.sets if s.of == "x_bar")
    assert band.text == "{ i:m + n - 1, j:n, k:m | i = j + k }"
    assert (band.count, band.here) == ("m · n", 15)
    assert band.picture is not None
    assert band.picture.count("<circle") == 21  # 7 rows of 3, i down and j across
    assert "15 of 21 points" in band.picture


def test_sizes_that_nobody_gave_are_small_and_the_reader_is_told() -> None:
    view = View(tl.derive(LOSS))
    assert view.setting.data == {"m": 5, "n": 3}
    assert view.setting.words.startswith("Counted at m = 5, n = 3, as none were given")
    assert View(tl.derive(LOSS).at(n=100, m=7)).setting.words == "Counted at m = 7, n = 100."


def test_sizes_are_chosen_so_that_no_axis_is_empty() -> None:
    f = tl.parse("f(x: [n - 2*m]R, y: [k - n]R) = sum i:n - 2*m. x[i] * x[i]")
    data = View(tl.derive(f)).setting.data
    assert data["n"] > 2 * data["m"]
    assert data["k"] > data["n"]


def test_relations_and_index_arrays_that_nobody_gave_are_plain_and_the_reader_is_told() -> None:
    assert "e true everywhere" in View(tl.derive(GRAPH)).setting.words
    assert "y = 0, 1, 2, .." in View(tl.derive(CHOSEN)).setting.words
    given = tl.derive(GRAPH).at(e=np.eye(4, dtype=bool))
    assert View(given).setting.words == "Counted at the given e."


def test_a_derivation_is_counted_only_at_sizes_that_the_program_has() -> None:
    with pytest.raises(tl.ArgumentError, match="k"):
        tl.derive(LOSS).at(n=3, m=5, k=2)
    with pytest.raises(tl.ArgumentError, match="m"):
        tl.derive(LOSS).at(n=3)


def test_a_derivation_at_sizes_tells_its_costs() -> None:
    d = tl.derive(LOSS)
    assert "cost" not in str(d)
    assert str(d.at(n=5, m=3)).count("cost 60 -> 60") == 2
    assert d.at(n=5, m=3).tell() == d.tell(n=5, m=3)


def test_where_costs_depend_on_all_arrays_the_reader_is_told_what_is_missing() -> None:
    f = tl.parse("f(x: [n][m]R, c: [m]R) = let k = gen i:n. argmax j:m. x[i, j] in sum i:n. x[i, k[i]] * c[k[i]]")
    d = tl.derive(f)
    html = page.notebook_html(View(d))
    assert "Costs are not counted: the cost depends on the elements of k" in html
    assert '<table class="ledger">' not in html
    counted = View(d.at(x=np.arange(6.0).reshape(3, 2), c=np.ones(2)))
    assert counted.setting.words == "Counted at the given x, the given c."
    assert counted.totals


def test_where_costs_depend_on_what_steps_choose_the_rest_is_shown() -> None:
    f = tl.parse("f(x: [n]R, c: R) = let h = scan t:n with s = c. [s < 0.5] * sin(s) in gen i:n. x[i] * x[i]")
    shown = tl.derive(f)._repr_html_()
    assert '<span class="cost" data-formula=""></span>' in shown


def test_every_rule_has_a_sentence_and_a_law_in_the_notation_of_the_derivations() -> None:
    assert set(WORDS) == {*RULES, RECURRENCE.number, DECLARED.number}
    for rule in RULES.values():
        assert not re.search(r"->|\b(gen|sum|exists|and|or|fst|snd)\b|\*", law(rule)), rule.number
    assert law(RULES["6.21"]) == "⟨e | <b>D</b> X⟩<sub>[P]</sub>  →  ⟨e | dX⟩<sub>[P]</sub>"


def test_a_frame_of_a_long_derivation_is_short_and_says_what_it_leaves_out() -> None:
    view = View(chain(80))
    for number in (1, 100, 250, len(view.derivation.steps)):
        lines = view.frame(number).lines
        assert len(lines) <= 100
        alive = len(view.rows.alive(number)) + len(view.rows.changes[number - 1].taken)
        assert sum(line.count if isinstance(line, Gap) else 1 for line in lines) == alive
    html = page.notebook_html(view)
    assert len(html) < 500_000
    assert "Here are 200 of 725 steps; derivation.save(..) makes a page of more." in html
    assert "summary>1 to 160: 6.14 let ×160<" in html
    assert "725. projection" not in html  # it is compressed


def test_blocks_of_equal_steps_are_folded_and_all_others_are_not() -> None:
    assert repeats("aaaabcdbcdbcd") == [Fold(1, 1, 4), Fold(5, 3, 3)]
    assert repeats("aabaabaab") == [Fold(1, 3, 3)]
    assert repeats("aab") == repeats("") == repeats("abcd") == []
    rng = random.Random(0)
    for _ in range(300):
        keys = "".join(rng.choices("abc", k=rng.randrange(40)))
        last = 0
        for fold in repeats(keys):
            assert fold.first > last and fold.times > 1
            block = keys[fold.first - 1 : fold.first - 1 + fold.period]
            assert keys[fold.first - 1 : fold.last] == block * fold.times
            assert not keys[fold.last :].startswith(block)
            last = fold.last


def test_of_steps_that_repeat_the_first_are_kept_where_not_all_can_be() -> None:
    view = View(chain(20))
    assert page._chosen(view, 10**6) == list(range(1, len(view.derivation.steps) + 1))
    assert page._chosen(view, 9) == [1, 41, *range(42, 49)]  # a let, what follows the lets, and the first block


def test_the_inner_products_add_up_to_the_same_before_and_after_every_step(views: list[Shown]) -> None:
    checked = set()
    for view, frames in views:
        for frame in frames:
            if frame.sums is not None:
                before, after = frame.sums
                assert after == pytest.approx(before, rel=1e-9, abs=1e-9), (view.derivation.function, frame.rule)
                checked.add(frame.rule.number)
    assert checked == set(RULES)


def test_values_are_those_of_the_reference_evaluator_and_the_same_in_every_run() -> None:
    view = View(tl.derive(LOSS))
    assert view.worked is not None
    values = {str(x): value for x, value in view.worked.values.items() if isinstance(x, Input)}
    lines = {line.text.split()[1]: line.value for line in view.frame(18).lines if isinstance(line, Line)}
    arguments = {name: values[name] for name in ("x", "w", "z")}
    assert lines["X6"] == f"{tl.evaluate(LOSS, **arguments):.3g}"
    x_bar, *_ = tl.evaluate(tl.adjoint(LOSS), **arguments, loss_bar=values["loss_bar"])
    assert lines["x_bar"] == f"[{' '.join(f'{v:.3g}' for v in x_bar[:3])} …] (7)".replace("-", "−")
    first, again = (View(tl.derive(LOSS)).frame(18) for _ in range(2))
    assert first.lines == again.lines
    assert View(tl.derive(LOSS).at(n=10**6, m=3)).worked is None


def test_what_has_no_value_everywhere_is_worked_at_positive_numbers_or_not_at_all() -> None:
    root = View(tl.derive(tl.parse("f(x: [n]R) = sum i:n. sqrt(x[i]) * log(x[i])")))
    assert root.worked is not None
    assert all(np.isfinite(value).all() for value in root.worked.values.values())
    assert View(chain(80)).worked is None
    looked_up = tl.derive(tl.parse("f(x: [n]R, y: [m]idx(n)) = sum i:m. x[y[i]] * x[y[i]]"))
    assert View(looked_up).worked is not None
    assert View(looked_up.at(n=3, m=2)).worked is None  # y was not given
    loop = tl.parse("f(x: R, n: size) = fold k:n with s = x. sin(s) * x")
    assert View(tl.derive(loop)).worked is None


class Tags(HTMLParser):
    """Checks that elements are closed, in order, and keeps the text."""

    EMPTY = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


def tags(html: str) -> Tags:
    parser = Tags()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def test_the_static_view_has_a_fold_for_each_step_and_reads_without_styles_and_scripts(views: list[Shown]) -> None:
    for view, _ in views[:12]:
        found = tags(page.notebook_html(view))
        own = page.notebook_html(view).count('<details class="frame"')
        assert own == len(view.derivation.steps) + 2
        assert "The rules of this derivation" in found.text
        for number in range(1, len(view.derivation.steps) + 1):
            rule = view.derivation.steps[number - 1].rule
            assert f"{number}. {rule.name} ({rule.number})" in found.text
        assert "The program" in found.text
        assert "The adjoint" in found.text


def test_a_saved_page_needs_nothing_else(tmp_path: Path) -> None:
    tl.derive(LOSS).at(n=5, m=3).save(tmp_path / "loss.html")
    text = (tmp_path / "loss.html").read_text(encoding="utf-8")
    assert tags(text).counts["details"] == 26 + 3  # the lets that repeat, the generated code, and the rules
    without = text.replace('class="line"> import', "").replace("xmlns", "")
    assert not re.search(r'(src|href)="?[^"#]|https?:|\bimport [a-z{"]', without)
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= ids
    assert len(ids) == len(re.findall(r'\bid="', text))


def test_the_rules_of_a_derivation_stand_below_it_and_steps_lead_there(views: list[Shown]) -> None:
    for view, _ in views[:12]:
        html = page.notebook_html(view)
        used = {step.rule.number for step in view.derivation.steps}
        assert set(re.findall(r'<dt id="\w+-rule-([^"]+)"', html)) == used
        assert set(re.findall(r'href="#\w+-rule-([^"]+)"', html)) == used


def test_the_graph_has_the_statements_and_says_which_cotangents_are_theirs() -> None:
    view = View(tl.derive(LOSS))
    html = graph_html(view)
    nodes = dict(re.findall(r'<g class="node" data-names="([^"]*)" data-reversed="(\d+)"', html))
    assert {names.split()[0]: int(step) for names, step in nodes.items()} == {
        "x": 21, "w": 22, "z": 24, "y": 17, "X4": 13, "X5": 10, "X6": 7,
    }  # fmt: skip
    assert "y X4_bar y_bar" in nodes
    assert "<title>The statements of loss</title>" in html
    assert "X4 reads y, z" in html
    assert ">[i + k]</text>" in html
    for view in map(View, (tl.derive(GRAPH), tl.derive(CHOSEN), tl.derive(PAIRS), chain(80))):
        ElementTree.fromstring(graph_html(view))


def test_a_saved_page_may_have_some_of_the_steps(tmp_path: Path) -> None:
    tl.derive(LOSS).save(tmp_path / "some.html", steps=range(17, 20))
    text = tags((tmp_path / "some.html").read_text(encoding="utf-8")).text
    assert "This page has 3 of 24 steps." in text
    assert "18. product (6.28)" in text
    assert "20. variable" not in text


def test_the_command_line_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "loss.tl").write_text(str(LOSS))
    out = tmp_path / "pages" / "loss.html"
    arguments = ["derive", str(tmp_path / "loss.tl"), "--size", "n=9", "--size", "m=4", "--html", str(out)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, "")
    assert "Counted at m = 4, n = 9." in out.read_text(encoding="utf-8")


def test_a_notebook_without_anywidget_gets_the_static_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "find_spec", lambda name: None)
    forms = shown.bundle(tl.derive(LOSS))
    assert set(forms) == {"text/plain", "text/html"}
    assert forms["text/plain"] == "the derivation of loss's adjoint by x, w, z in 24 steps; print shows them"


@pytest.fixture
def widget() -> Any:
    pytest.importorskip("anywidget", reason="the live stepper needs anywidget")
    from tensorlang.notebook.stepper.widget import Stepper

    return Stepper(View(tl.derive(LOSS)))


def test_a_live_notebook_gets_the_widget_and_the_static_view(widget: Any) -> None:
    forms, _ = tl.derive(LOSS)._repr_mimebundle_()
    assert set(forms) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}


def test_the_widget_shows_the_frames_of_the_page(widget: Any) -> None:
    view = View(tl.derive(LOSS))
    assert widget.frames == {str(k): frame_html(view, k) for k in range(26)}
    assert widget.titles[18] == "6.28 product"
    assert widget.about[18] == "y x_bar w_bar"


def test_the_widget_counts_anew_at_other_sizes(widget: Any) -> None:
    widget.step = 18
    widget.sizes = {"m": 10, "n": 20}
    assert widget.note == "Counted at m = 10, n = 20."
    assert widget.frames == {"18": frame_html(View(tl.derive(LOSS).at(n=20, m=10)), 18)}
    widget.sizes = {"m": 0, "n": 0}
    assert widget.note.startswith("Not counted at these sizes: x has an axis")


def test_the_widget_of_a_long_derivation_makes_frames_as_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="the live stepper needs anywidget")
    from tensorlang.notebook.stepper.widget import Stepper

    long = Stepper(View(chain(50)))
    assert list(long.frames) == ["0"]
    sent: list[Any] = []
    monkeypatch.setattr(long, "send", sent.append)
    long._handle_custom_msg({"wanted": 200}, [])
    assert [list(message["frames"]) for message in sent] == [["200", "201"]]
    long.step = 10**9
    assert long.step == len(long.titles) - 1


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="browsers are driven by playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


class Stage:
    """A stepper on a page of a browser."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    @property
    def status(self) -> str:
        return str(self.tab.text_content("section.stepper output"))

    @property
    def heading(self) -> str:
        return str(self.tab.text_content("section.stepper details.frame[open] > summary"))

    def rows(self, mark: str) -> list[str]:
        return list(self.tab.locator(f"table.expression tr.{mark} td:nth-child(2)").all_text_contents())

    def click(self, label: str) -> None:
        self.tab.get_by_role("button", name=label, exact=True).click()

    def choose(self, menu: str, name: str) -> None:
        self.tab.get_by_role("combobox", name=menu).select_option(name)


@pytest.fixture
def saved(browser: Any, tmp_path: Path) -> Iterator[Stage]:
    """The saved page of the loss, in a browser, on which nothing may go wrong."""
    tl.derive(LOSS).at(n=5, m=3).save(tmp_path / "loss.html")
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    tab.goto((tmp_path / "loss.html").as_uri())
    yield Stage(tab)
    tab.close()
    assert not errors


def test_the_page_opens_at_the_program_and_steps_on_and_back(saved: Stage) -> None:
    assert saved.status == "the program"
    saved.click("one step on")
    assert saved.status == "step 1 of 24: 6.14 let"
    saved.click("one step on")
    assert saved.heading == "2. let (6.14): X4"
    saved.click("one step back")
    assert saved.heading == "1. let (6.14): y"
    saved.click("the adjoint")
    assert saved.status == "the adjoint"
    assert "loss_adjoint" in saved.tab.text_content("section.stepper .stage")


def test_the_page_jumps_by_rule_and_shows_what_is_rewritten(saved: Stage) -> None:
    saved.choose("rule", "6.28 product")
    assert saved.status == "step 18 of 24: 6.28 product"
    assert saved.rows("before") == ["+ ⟨X4_bar | D[y]⟩"]
    assert saved.rows("after")[2:] == ["+ ⟨x_bar | D x⟩[0 < n ∧ 0 < m]", "+ ⟨w_bar | D w⟩[0 < n]"]
    assert "⟨dY | D(⊞ g. Σ i0, i1, s." in saved.tab.text_content("section.stepper .law")
    saved.choose("rule", "6.19 reversal")
    assert saved.status == "step 7 of 24: 6.19 reversal"
    saved.click("on to the same rule")
    assert saved.status == "step 10 of 24: 6.19 reversal"
    saved.click("back to the same rule")
    assert saved.status == "step 7 of 24: 6.19 reversal"


def test_the_page_jumps_by_statement(saved: Stage) -> None:
    saved.choose("statement", "w_bar")
    assert saved.heading == "18. product (6.28): y"
    saved.choose("statement", "z")
    assert saved.heading == "23. collection (6.25): z"
    saved.click("back to the same statement")
    assert saved.heading == "16. variable (6.21): z"


def test_the_address_leads_to_the_step(saved: Stage) -> None:
    saved.choose("statement", "w_bar")
    assert saved.tab.url.endswith("#step-18")
    saved.tab.reload()
    assert saved.heading == "18. product (6.28): y"
    saved.tab.evaluate("location.hash = '#step-7'")
    saved.tab.wait_for_function("document.querySelector('.stage summary').textContent.startsWith('7.')")
    saved.tab.goto(saved.tab.url.split("#")[0] + "#step-no")
    saved.tab.reload()
    assert saved.status == "the program"


def test_names_in_the_adjoint_lead_to_the_steps_that_made_them_and_light_up_together(saved: Stage) -> None:
    saved.click("the adjoint")
    link = saved.tab.locator(".stage a.from", has_text="X4_bar").first
    link.hover()
    title = link.get_attribute("title")
    assert re.fullmatch(r"made in step \d+ by 6\.\d+ \w.*", str(title))
    # the term, its cotangent by both names, the nodes of the graph, the lines, and the steps
    assert set(saved.tab.locator(".stage a.lit").all_text_contents()) == {"X4_bar", "X4", "y", "y_bar"}
    lit = saved.tab.locator("g.node.lit text:first-of-type")
    assert set(lit.all_text_contents()) == {"X4", "y"}
    lines = saved.tab.locator(".stage .line.lit").all_text_contents()
    assert any(line.strip().startswith("y_bar = ") for line in lines)  # of the generated code
    assert any(line.strip().startswith("let y_bar = ") for line in lines)
    assert "6.27 scalar function X5" in saved.tab.locator(".outline a.lit").all_text_contents()
    link.click()
    assert saved.status.startswith(f"step {link_step(title)} of 24")
    assert any(row.startswith("let X4_bar = ") for row in saved.rows("after"))


def link_step(title: str | None) -> int:
    return int(str(title).split()[3])


@pytest.mark.slow
def test_the_page_evaluates_costs_at_the_sizes_of_its_reader(browser: Any, tmp_path: Path) -> None:
    thirds = tl.parse("f(x: [n]R) = gen i:n. [i % 3 = 1] * x[i] * x[i]")
    triangle = tl.parse("f(x: [n]R, y: [m]R) = sum i:n, j:m. [j <= 2*i] * x[i] * y[j]")
    for f in (LOSS, thirds, triangle):
        d = tl.derive(f)
        d.save(tmp_path / "page.html")
        tab = browser.new_page()
        tab.goto((tmp_path / "page.html").as_uri() + f"#step-{len(d.steps) + 1}")
        for sizes in ((7, 2), (0, 4), (1, 0), (123, 45), (4000, 3000)):
            given = dict(zip((size.name for size in f.sizes), sizes, strict=False))
            for name, n in given.items():
                tab.get_by_label(f"size {name}").fill(str(n))
            expected = [f"{tl.cost_polynomial(g)(**given):,}" for g in (f, d.adjoint)]
            assert tab.locator(".stage .cost").all_text_contents() == expected
        tab.close()


def test_the_page_steps_by_keys(saved: Stage) -> None:
    for key, status in (
        ("ArrowRight", "step 1 of 24: 6.14 let"),
        ("PageDown", "step 11 of 24: 6.27 scalar function"),
        ("ArrowLeft", "step 10 of 24: 6.19 reversal"),
        ("End", "the adjoint"),
        ("ArrowRight", "the adjoint"),
        ("Home", "the program"),
    ):
        saved.tab.keyboard.press(key)
        assert saved.status == status
    saved.tab.get_by_role("slider", name="step").fill("18")
    assert saved.heading == "18. product (6.28): y"


def test_all_controls_have_names_and_are_reached_by_the_tab_key(saved: Stage) -> None:
    saved.click("one step on")
    reached = set()
    for _ in range(90):
        saved.tab.keyboard.press("Tab")
        reached.add(saved.tab.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert reached >= {"one step back", "step", "one step on", "the adjoint", "rule", "statement"}
    assert saved.tab.locator("section.stepper :is(button, select, input):not([aria-label])").count() == 0


def test_the_text_is_legible_in_light_and_dark(saved: Stage) -> None:
    saved.choose("rule", "6.28 product")
    for scheme in ("light", "dark"):
        saved.tab.emulate_media(color_scheme=scheme)
        assert min(saved.tab.evaluate(CONTRASTS)) >= 4.5


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const over = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  return ["tr.before code", "tr.after code", "tr.both code", ".note", ".law code", "select", "td.value",
    ".outline a", ".outline [aria-current]", "a.rule", "figure.graph text", "g.now .small"].map((selector) => {
    const element = document.querySelector(`section.stepper ${selector}`);
    const grounds = [];
    let seen = 1;
    for (let at = element; at; at = at.parentElement) {
      grounds.unshift(getComputedStyle(at).backgroundColor);
      seen *= Number(getComputedStyle(at).opacity);
    }
    const ground = over(grounds);
    const full = over([...grounds, getComputedStyle(element).color]);
    const ink = full.map((v, k) => v * seen + ground[k] * (1 - seen));
    const [a, b] = [light(ground), light(ink)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""


def test_the_page_reads_without_scripts(browser: Any, tmp_path: Path) -> None:
    tl.derive(LOSS).save(tmp_path / "loss.html")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((tmp_path / "loss.html").as_uri())
    assert tab.locator("details.frame").count() == 26
    fold = tab.locator("details.frame").nth(18)
    assert not fold.locator("table.expression").is_visible()
    fold.locator("summary").click()
    cells = fold.locator("table.expression tr.before :is(th, td:not(.value))")
    assert cells.all_text_contents() == ["before", "+ ⟨X4_bar | D[y]⟩", "60"]
    repeated = tab.locator("details.fold")
    assert repeated.locator("> summary").text_content() == "1 to 4: 6.14 let ×4"
    assert not repeated.locator("details.frame").first.is_visible()
    repeated.locator("> summary").click()
    assert repeated.locator("details.frame").first.is_visible()
    context.close()


def test_steps_that_repeat_are_folded_and_open_on_a_click(saved: Stage) -> None:
    listed = saved.tab.locator(".outline > ol > li")
    assert listed.count() == 26 - 3
    assert saved.tab.locator(".outline [aria-current]").text_content() == "the program"
    saved.click("one step on")
    assert saved.tab.locator(".outline [aria-current]").text_content() == "6.14 let ×4"
    saved.tab.locator(".outline summary", has_text="×4").click()
    saved.tab.locator(".outline li li a", has_text="X5").click()
    assert saved.heading == "3. let (6.14): X5"
    assert saved.tab.url.endswith("#step-3")


def test_the_graph_marks_the_statement_of_the_step_and_what_has_been_reversed(saved: Stage) -> None:
    def marked_(mark: str) -> set[str]:
        return set(saved.tab.locator(f"g.node.{mark} text:first-of-type").all_text_contents())

    assert (marked_("now"), marked_("done")) == (set(), set())
    saved.choose("rule", "6.28 product")
    assert marked_("now") == {"y", "x", "w"}
    assert marked_("done") == {"y", "X4", "X5", "X6"}
    saved.tab.locator("g.node", has_text="X4²").click()
    assert saved.heading == "10. reversal (6.19): X5"
    assert marked_("now") == {"X5"}


def test_a_rule_leads_to_where_it_is_stated(saved: Stage) -> None:
    saved.choose("rule", "6.28 product")
    saved.tab.locator(".stage a.rule", has_text="value_6_28").click()
    entry = saved.tab.locator("details.rules dt.lit")
    assert entry.text_content() == "6.28 product"
    assert entry.is_visible()
    assert saved.tab.url.endswith("#step-18")


def test_a_page_of_some_steps_goes_by_their_numbers(browser: Any, tmp_path: Path) -> None:
    tl.derive(LOSS).save(tmp_path / "some.html", steps=range(17, 20))
    tab = browser.new_page()
    tab.goto((tmp_path / "some.html").as_uri() + "#step-18")
    stage = Stage(tab)
    assert (stage.heading, stage.status) == ("18. product (6.28): y", "step 18 of 24: 6.28 product")
    tab.locator("g.node", has_text="X4²").click()
    assert stage.status == "step 10 is not among the steps that are here"
    stage.click("the adjoint")
    assert stage.status == "the adjoint"
    tab.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_page(browser: Any, tmp_path: Path, width: int) -> None:
    tl.derive(LOSS).save(tmp_path / "loss.html")
    tab = browser.new_page(viewport={"width": width, "height": 800})
    for step in (0, 18, 25):
        tab.goto((tmp_path / "loss.html").as_uri() + f"#step-{step}")
        tab.reload()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        sizes = tab.evaluate(LETTERS)
        assert min(sizes) >= 9.5, sizes
    tab.close()


LETTERS = """() => [...document.querySelectorAll("figure.graph text")].map((text) =>
  parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a)"""


def test_a_page_of_many_steps_shows_those_that_are_no_folds(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_READ_THROUGH", 10)
    monkeypatch.setattr(page, "_IN_A_CHUNK", 4)
    tl.derive(LOSS).save(tmp_path / "loss.html")
    tab = browser.new_page()
    tab.goto((tmp_path / "loss.html").as_uri())
    stage = Stage(tab)
    for step, heading in ((10, "10. reversal (6.19): X5"), (11, "11. scalar function (6.27): X5"), (24, "24. pr")):
        tab.get_by_role("slider", name="step").fill(str(step))
        tab.locator(".stage summary", has_text=heading).wait_for()  # it is unpacked
        assert stage.heading.startswith(heading)
        assert tab.locator("details.frame").count() == 1
    tab.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab on this machine, with a notebook of one cell."""
    pytest.importorskip("jupyterlab", reason="the live stepper is tried out in JupyterLab")
    pytest.importorskip("ipykernel", reason="the live stepper is tried out in JupyterLab")
    pytest.importorskip("anywidget", reason="the live stepper needs anywidget")
    source = f"import tensorlang as tl\ntl.derive(tl.parse('''{LOSS}'''))"
    cell = {"cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "loss.ipynb").write_text(json.dumps(notebook))
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    folders |= {f"JUPYTERLAB_{name}_DIR": str(tmp_path / name) for name in ("SETTINGS", "WORKSPACES")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={tmp_path / 'root'}"]
    options += ["--no-browser", "--allow-root", "--IdentityProvider.token=t", "--LabApp.news_url=None"]
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        env={**os.environ, **folders, "IPYTHONDIR": str(tmp_path / "ipython")},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/api?token=t").close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.2)
        yield f"{address}/lab/tree/loss.ipynb?token=t"
    finally:
        server.terminate()
        server.wait(60)
        log.close()


@pytest.mark.slow
def test_the_widget_steps_and_counts_anew_in_jupyterlab(browser: Any, lab: str) -> None:
    tab = browser.new_page()
    tab.set_default_timeout(120_000)
    tab.goto(lab)
    tab.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    for _ in range(30):  # a kernel that is not quite ready loses requests
        tab.click(".jp-CodeCell .cm-content")
        tab.keyboard.press("Control+Enter")
        tab.wait_for_timeout(1000)
        if tab.text_content(".jp-CodeCell .jp-InputArea-prompt") != "[ ]:":
            break
    tab.wait_for_selector("section.stepper.live details.frame")
    stage = Stage(tab)
    assert stage.status == "the program"
    tab.focus("section.stepper .stage")
    tab.keyboard.press("ArrowRight")  # this key would leave the cell, if it reached JupyterLab
    assert stage.status == "step 1 of 24: 6.14 let"
    stage.choose("rule", "6.28 product")
    assert stage.heading == "18. product (6.28): y"
    assert stage.rows("before") == ["+ ⟨X4_bar | D[y]⟩"]
    size = tab.locator("section.stepper .sizes input").first
    size.fill("10")
    size.press("Enter")
    tab.wait_for_function("document.querySelector('section.stepper p[role=status]').textContent.includes('m = 10')")
    tab.locator("section.stepper table.expression tr.before td.number", has_text="120").wait_for()
    tab.close()


def test_the_stepper_keeps_its_colours_beside_other_outputs(browser: Any, tmp_path: Path) -> None:
    outputs = [tl.derive(LOSS), tl.certify(LOSS), tl.lower(LOSS), LOSS]
    shown = [str(output._repr_html_()) for output in (*outputs, *outputs[1:], *outputs)]
    page_ = tmp_path / "outputs.html"
    page_.write_text(f"<!DOCTYPE html><html><body>{''.join(shown)}</body></html>")
    tab = browser.new_page()
    tab.goto(page_.as_uri())
    for stepper_ in tab.locator("section.stepper").all():
        for _ in range(10):
            stepper_.get_by_role("button", name="one step on", exact=True).click()
    colours = {
        mark: {
            row.evaluate("row => getComputedStyle(row).backgroundColor")
            for row in tab.locator(f"table.expression tr.{mark}").all()
        }
        for mark in ("before", "after")
    }
    tab.close()
    for found in colours.values():
        assert len(found) == 1
        assert "rgba(0, 0, 0, 0)" not in found
    assert colours["before"] != colours["after"]
