"""Every rule has its theorem in proofs/, proved without axioms: by name everywhere, by Coq where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tensorlang.derivative.derivation import RULES, Rule
from tensorlang.normal.rules import PASS_RULES, PassRule

PROOFS = Path(__file__).parent.parent / "proofs"
TEXTS = {path.stem: path.read_text() for path in sorted(PROOFS.glob("*.v"))}
STATED = re.compile(r"^\s*(?:Theorem|Lemma|Corollary)\s+([\w']+)", re.MULTILINE)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
THEOREMS = {name: f"TL.{stem}.{name}" for stem, text in TEXTS.items() for name in STATED.findall(COMMENT.sub("", text))}
ASSUMED = re.compile(r"\b(Admitted|Axioms?|Parameters?|Conjectures?|admit|give_up|Abort|bypass_check|Unset Guard)\b")

MAIN_THEOREMS = [
    *("theorem_6_1", "theorem_6_35", "adjoint_cost", "adjoint_cost_4", "adjoint_run", "adjoint_wf", "inactive_zero"),
    *("adjoint_touch", "adjoint_touch_5", "deval_is_dual", "D_is_dual", "lets_value", "lets_cost", "greatest_value"),
    *("prune_run", "prune_cost", "share_value", "share_cost", "alike_value", "alike_cost"),
]

Rules = Iterable[PassRule | Rule]
EVERY_RULE: tuple[PassRule | Rule, ...] = (*PASS_RULES, *RULES.values())


def without_theorem(rules: Rules) -> list[str]:
    return [
        f"{rule.number}, {rule.name}: {theorem}"
        for rule in rules
        for theorem in rule.theorems
        if theorem not in THEOREMS
    ]


def test_every_rule_has_its_theorems() -> None:
    assert all(rule.theorems for rule in EVERY_RULE)
    assert without_theorem(EVERY_RULE) == []


def test_a_rule_without_a_theorem_is_noticed() -> None:
    assert without_theorem([Rule("6.99", "new rule", "e  ->  e")]) == [
        "6.99, new rule: value_6_99",
        "6.99, new rule: cost_6_99",
    ]


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.number)
def test_a_comment_says_which_rule_it_is(rule: PassRule | Rule) -> None:
    said = re.compile(rf"\b{re.escape(rule.number)}, {re.escape(rule.name)}\b")
    assert any(said.search(comment) for text in TEXTS.values() for comment in COMMENT.findall(text))


@pytest.mark.parametrize("stem", TEXTS)
def test_nothing_is_assumed(stem: str) -> None:
    found = ASSUMED.findall(COMMENT.sub("", TEXTS[stem]))
    assert not found, f"{stem}.v has {found}"


def test_all_files_are_checked() -> None:
    listed = re.findall(r"^(\w+)\.v$", (PROOFS / "_CoqProject").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(TEXTS)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed")
def test_coq_accepts_the_proofs_and_finds_no_axioms(tmp_path: Path) -> None:
    for path in (*PROOFS.glob("*.v"), PROOFS / "_CoqProject", PROOFS / "Makefile"):
        shutil.copy(path, tmp_path)
    built = subprocess.run(["make", "-j2"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    names = [THEOREMS[theorem] for rule in EVERY_RULE for theorem in rule.theorems]
    names += [THEOREMS[theorem] for theorem in MAIN_THEOREMS]
    requires = "".join(f"Require TL.{stem}.\n" for stem in sorted({name.split(".")[1] for name in names}))
    prints = "".join(f"Print Assumptions {name}.\n" for name in names)
    (tmp_path / "Coverage.v").write_text(requires + prints)
    asked = subprocess.run(
        ["coqc", "-Q", ".", "TL", "Coverage.v"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.splitlines() == ["Closed under the global context"] * len(names)
