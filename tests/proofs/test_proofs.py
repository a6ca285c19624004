"""Every rule has its theorem in proofs/, proved without axioms, or only with those of the real numbers: checked by name
everywhere, and by Coq where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tensorlang.derivatives.derivation import RULES, Rule
from tensorlang.normal.rules import PASS_RULES, PassRule
from tests.support import ROOT

PROOFS = ROOT / "proofs"
TEXTS = {
    ".".join(path.relative_to(PROOFS).with_suffix("").parts): path.read_text()
    for path in (*sorted(PROOFS.glob("*.v")), *sorted(PROOFS.glob("reals/*.v")))
}
STATED = re.compile(r"^\s*(?:Theorem|Lemma|Corollary)\s+([\w']+)", re.MULTILINE)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
THEOREMS = {name: f"TL.{stem}.{name}" for stem, text in TEXTS.items() for name in STATED.findall(COMMENT.sub("", text))}
README = (PROOFS / "README.md").read_text()
ASSUMED = re.compile(r"\b(Admitted|Axioms?|Parameters?|Conjectures?|admit|give_up|Abort|bypass_check|Unset Guard)\b")

MAIN_THEOREMS = [
    *("theorem_6_1", "theorem_6_35", "adjoint_cost", "adjoint_cost_4", "adjoint_run", "adjoint_wf", "inactive_zero"),
    *("forward_run", "forward_cost", "forward_wf", "D_equations", "deval_is_dual", "D_is_dual"),
    *("adjoint_touch", "adjoint_touch_5", "lets_value", "lets_cost", "greatest_value"),
    *("sum_times", "sum_pinned", "sum_times_recip", "aligned", "group_is_sum", "group_is_zero"),
    *("carry_counts", "carry_balance", "open_balance", "carried_sound"),
    *("prune_run", "prune_cost", "share_value", "share_cost", "alike_value", "alike_cost"),
    *(
        "compile_sound",
        "compiled_sound",
        "program_cost",
        "program_value",
        "accepts_well_formed",
        "transposes_are_cheap",
        "expand_sound",
        "expand_run",
        "adjoint_maps",
        "erased_value",
        "decided_fits",
        "fits_unique",
        "erase_value",
        "plain_value",
        "found_fits",
        "nested_value",
    ),
    *(f"asked_5_{k}" for k in (1, "1_sub", 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    "asked_in_a_question",
    *("loop_wf", "loop_cost", "loop_dcost", "loop_bound", "bwd_loop", "back_cost", "back_loop_cost"),
    *("cotangents", "supports_exact", "states_same", "states_masked", "states_added"),
    *("adjoint_of_path", "path_bound", "path_transposed", "runs_once"),
]
REAL_THEOREMS = [
    *("program_has_gradient", "program_gradient", "program_partial", "example_well_formed", "example_domains"),
    *("D_is_derivative", "adjoint_is_gradient", "adjoint_is_partial", "DT_val", "builtin_differentiable"),
    *("adjoint_again", "gradient_of_builtins", "compiled_of_builtins"),
    *("conditional_program_has_gradient", "conditions_stay", "strict_comparison_stays", "comparison_has_gradient"),
    *("squares_scoped", "squares_well_formed", "squares_smooth"),
    *("questions_have_gradient", "questions_stay", "fits_near", "each_square_neat", "each_square_well_formed"),
    *("each_square_smooth", "derive_erfinv", "path_has_gradient", "path_stays", "builtin_path_has_gradient"),
    "builtins_are_cheap",
    *("derive_lgamma", "derive_digamma", "derive_polygamma", "euler", "lgamma_1", "lgamma_next", "lgamma_factorial"),
    *("lgamma_convex", "only_lgamma"),
    *("strict_choice_stays", "greatest_is_derivative", "choice_is_derivative"),
    *("recurrence_has_gradient", "smooth_loop", "steps_before", "sines_keep", "sines_cheap", "sines_smooth"),
]
REAL_AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""The axioms of Coq's real numbers, and of its library about them."""

DEFINED = re.compile(
    r"^\s*(?:Theorem|Lemma|Corollary|Definition|Fixpoint|Inductive|Record|Notation)\s+([\w']+)", re.MULTILINE
)

Rules = Iterable[PassRule | Rule]
EVERY_RULE: tuple[PassRule | Rule, ...] = (*PASS_RULES, *RULES.values())


def has_coquelicot() -> bool:
    if shutil.which("coqc") is None:
        return False
    where = subprocess.run(["coqc", "-where"], capture_output=True, text=True, check=True).stdout.strip()
    return (Path(where) / "user-contrib" / "Coquelicot").is_dir()


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


@pytest.mark.parametrize("folder", [PROOFS, PROOFS / "reals"], ids=lambda folder: folder.name)
def test_all_files_are_checked(folder: Path) -> None:
    listed = re.findall(r"^(\w+)\.v$", (folder / "_CoqProject").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in folder.glob("*.v"))


def test_the_guide_names_theorems_and_files_that_exist() -> None:
    said = {name for name in re.findall(r"`([A-Za-z]\w*)`", README) if "_" in name}
    stated = {name for text in TEXTS.values() for name in DEFINED.findall(COMMENT.sub("", text))}
    assert said - {axiom.split(".")[-1] for axiom in REAL_AXIOMS} <= stated
    files = set(re.findall(r"`((?:reals/)?\w+)\.v`", README))
    assert files == {stem.replace(".", "/") for stem in TEXTS}
    assert all(list((ROOT / "tests").glob(f"**/{name}")) for name in re.findall(r"\b(test_[\w*]+\.py)`", README))


def test_the_guide_names_the_main_theorems_over_the_real_numbers_and_their_axioms() -> None:
    assert {"program_has_gradient", "adjoint_is_gradient", "D_is_derivative"} <= set(re.findall(r"`(\w+)`", README))
    assert all(f"`{axiom.split('.')[-1]}`" in README for axiom in REAL_AXIOMS)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the proofs, checked by Coq."""
    folder = tmp_path_factory.mktemp("proofs")
    built_here = shutil.ignore_patterns("*.vo*", "*.glob", ".*", "CoqMakefile*", "diff", "checker")
    shutil.copytree(PROOFS, folder, ignore=built_here, dirs_exist_ok=True)
    made = subprocess.run(["make", "-j2"], cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


def assumptions(folder: Path, theorems: list[str]) -> list[str]:
    """The assumptions of each theorem as reported by Coq, in order."""
    names = [THEOREMS[theorem] for theorem in theorems]
    requires = "".join(f"Require {module}.\n" for module in sorted({name.rpartition(".")[0] for name in names}))
    prints = "".join(f"Print Assumptions {name}.\n" for name in names)
    (folder / "Coverage.v").write_text(requires + prints)
    asked = subprocess.run(
        ["coqc", "-Q", ".", "TL", "Coverage.v"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed")
def test_coq_accepts_the_proofs_and_finds_no_axioms(built: Path) -> None:
    theorems = [theorem for rule in EVERY_RULE for theorem in rule.theorems] + MAIN_THEOREMS
    assert assumptions(built, theorems) == ["Closed under the global context"] * len(theorems)


@pytest.mark.slow
@pytest.mark.skipif(not has_coquelicot(), reason="Coq with Coquelicot is not installed")
def test_the_theorems_over_the_real_numbers_rest_on_the_axioms_of_the_real_numbers_alone(built: Path) -> None:
    said = [line for line in assumptions(built, REAL_THEOREMS) if not line.startswith(" ")]
    axioms = {line.split()[0] for line in said} - {"Axioms:", "Closed"}
    assert axioms == REAL_AXIOMS


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed")
def test_without_coquelicot_the_real_numbers_are_left_out_with_a_message(tmp_path: Path) -> None:
    script = tmp_path / "coqc"
    script.write_text('#!/bin/sh\n[ "$1" = -where ] && echo /nowhere || exit 1\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    told = subprocess.run(
        ["make", "-o", "core", "reals"],
        cwd=PROOFS,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "libcoq-coquelicot" in told.stdout
