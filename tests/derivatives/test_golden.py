"""Every example of the paper, from its text to its generated source, as it was last approved.

`python tasks.py golden` writes the transcripts anew; read the difference before you commit it.
"""

from __future__ import annotations

import pytest

import tensorlang as tl
from tests.support import GOLDEN

PROGRAMS = tl.parse_module((GOLDEN / "paper.tl").read_text())
SIZES = {"n": 5, "m": 3, "B": 2}
WRT = {"batch": "w"}
PASSES = (
    ("let-lifted (Figure 7)", tl.let_lift),
    ("without pairs (Figure 8)", tl.eliminate_pairs),
    ("gen outermost (Figure 9)", tl.push_out_gen),
    ("tensor SSA (Figures 10 to 12)", tl.to_ssa),
)


def transcript(f: tl.Function) -> str:
    """Everything that the package makes of `f`."""
    sizes = {size.name: SIZES[size.name] for size in f.sizes}
    parts = [("program", str(f)), ("in the paper's notation", tl.unicode_text(f))]
    g = f
    for title, normal_pass in PASSES:
        g = normal_pass(g)
        parts.append((title, str(g)))
    parts.append(("simplified", str(tl.simplify(f))))
    parts.append(("derivative (Figure 13)", str(tl.derivative(f, WRT.get(f.name)))))
    derivation = tl.derive(f, WRT.get(f.name))
    parts.append(("derivation (Figures 14 to 16)", "\n".join(map(str, derivation.tell(**sizes)))))
    adjoint = derivation.adjoint
    parts.append(("adjoint", str(adjoint)))
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    costs = f"program {tl.cost(f, **sizes)}, adjoint {tl.cost(adjoint, **sizes)}{' at ' + at if at else ''}"
    parts.append(("costs", costs))
    parts.append(("source of the program", own_source(f)))
    parts.append(("source of the adjoint", own_source(adjoint)))
    return "\n".join(f"== {title}\n\n{text.strip()}\n" for title, text in parts)


def own_source(f: tl.Function) -> str:
    """The generated function, without its helpers."""
    source = tl.lower(f).source
    return source[source.rindex("\ndef ") + 1 :]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_transcript_is_the_approved_one(name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}.txt"
    found = transcript(PROGRAMS[name])
    if request.config.getoption("--update-golden"):
        path.write_text(found)
    assert found == path.read_text()


def test_no_transcript_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PROGRAMS)


def test_the_adjoint_of_a_convolution_is_a_correlation_without_a_one_hot() -> None:
    adjoint = str(tl.adjoint(PROGRAMS["convolution"], "x"))
    body = "gen i:m + n - 1. sum j:m. [0 <= i + j - m + 1 < n] * convolution_bar[i + j - m + 1] * c[j]"
    assert body in adjoint.replace("n + m - 1", "m + n - 1")


def test_the_sensitivity_of_a_convolution_is_the_kernel_shifted() -> None:
    assert "sum" not in str(tl.simplify(PROGRAMS["sensitivity"]))


def test_the_adjoint_of_trace_is_eye_and_of_eye_is_trace() -> None:
    assert "gen i:n, j:n. [i = j] * trace_bar" in str(tl.adjoint(PROGRAMS["trace"]))
    assert "sum i:n. eye_bar[i, i]" in str(tl.adjoint(PROGRAMS["eye"]))


def test_dead_code_costs_its_adjoint_nothing() -> None:
    assert tl.cost(tl.adjoint(PROGRAMS["dead_code"])) == 1


def test_the_adjoint_of_a_skipping_sum_adds_nothing() -> None:
    assert tl.cost(tl.adjoint(PROGRAMS["skipping"]), n=10) == 0


@pytest.mark.parametrize("n", [4, 64, 4096])
def test_the_adjoint_of_a_diagonal_s_dot_product_does_two_multiplications_at_every_size(n: int) -> None:
    assert tl.cost(tl.adjoint(PROGRAMS["diag_dot"]), n=n) == 2
