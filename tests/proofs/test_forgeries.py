"""Certificates made false by one change: none is accepted."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest

import tensorlang as tl
from proofs.checker.budget import TooLarge
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tensorlang.certificate import certify
from tests.support.programs import input_sizes, random_arguments
from tests.support.promises import close

Held = dict[str, Any]

PROGRAMS = (
    "loss(x: [n + m - 1]R, w: [m]R) = sum k:n. sin(sum j:m. x[k + j] * w[j])^2",
    "squares(x: [n]R) = sum i:n. x[i]^2",
    "product(A: [n][m]R, B: [m][n]R) = gen i:n, j:n. sum l:m. A[i, l] * B[l, j]",
    "chain(x: [n]R, y: [n]R) = let a = gen i:n. x[i] * y[i] in let b = gen i:n. exp(a[i]) * a[i] in "
    "sum i:n. b[i] * x[i]",
    "two(x: [n]R, y: [m]R) = (gen i:n. x[i] * sin(x[i]), sum j:m. y[j]^3)",
    "edges(x: [n]R, e: rel(n, n)) = sum i:n, j:n. [e(i, j)] * (x[i] - x[j])^2",
    "labels(x: [n][m]R, y: [n]idx(m)) = sum i:n. x[i, y[i]]^2",
    "rows(x: [n][m]R) = sum i:n. (max j:m. x[i, j])^2",
    "band(A: [n][n]R, x: [n]R) = sum i:n. (sum j:n where i <= j < i + 2. A[i, j] * x[j])^2",
    "soft(x: [n]R) = let t = max i:n. x[i] in t + log(sum i:n. exp(x[i] - t))",
    "sizes(x: [n]R) = sum i:n. abs(x[i]) * x[i]",
    "steps(x: [n]R, y: [n]R) = sum i:n. if x[i] > y[i] then x[i]^3 else y[i]",
    "inside(x: [n]R) = sum i:n. [x[i]^2 < 1] * sin(x[i])",
    "segments(x: [n]R, a: [n]idx(m)) = gen i:m. (sum k:n. [a[k] = i] * x[k])^2",
)


@cache
def certified(text: str) -> str:
    return certify(tl.parse(text)).to_json()


def genuine(text: str) -> Held:
    held: Held = json.loads(certified(text))
    return held


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text.partition("(")[0])
def test_genuine_certificates_are_decided_for_all_sizes(text: str) -> None:
    assert check(certified(text)).decided


# ---- templates: each changes a genuine certificate, or returns None where it does not fit


def without_formulas(held: Held) -> Held:
    """The certificate without the costs that would reveal a change."""
    held["costs"] = dict.fromkeys(held["costs"])
    held["supremum"] = None
    return held


MASKS = (
    "[{n} <= 5] * ({e})",
    "[{n} <= 40] * ({e})",
    "[{i} != 3] * ({e})",
    "[{i} <= 17] * ({e})",
    "[exists qq:{n}. {n} = 2*qq + 1] * ({e})",
    "({e}) + [6 <= {n}] * 1",
    "({e}) + [{i} = 4] * 1/1000",
    "({e}) + [{i} = 0 and {n} = 7] * 3",
    "max({e}, 0 - 50)",
    "({e}) * (1 + [9 <= {n}] * 1/100)",
)
"""Replacements of an expression e under an index i of a range n."""

COSTS = (
    "({e}) + [6 <= {n}] * (0 * (sum qa:{n}, qb:{n}, qc:{n}, qd:{n}, qe:{n}. 1))",
    "({e}) + 0 * (sum qa:{n}, qb:{n}, qc:{n}, qd:{n}. [qa <= 1 and 30 <= {n}] * 1)",
    "(let qq = gen qa:{n}, qb:{n}, qc:{n}, qd:{n}. [6 <= qa] * exp({i} - {i}) in {e})",
)
"""The same value, at a cost that is too high."""

_GEN = re.compile(r"\bgen ([\w:, *+-]+)\. ")
_BINDERS = re.compile(r"\b(?:sum|gen|exists|(?:arg)?(?:max|min)) [^.]*\.")
_BINDER = re.compile(r"(\w+):(\w+)(?=,|$)")


def masked(held: Held, rng: random.Random, key: str, masks: tuple[str, ...]) -> Held | None:
    """Change the body of one `gen` of a program."""
    text = held[key]
    places = list(_GEN.finditer(text, text.index(") =")))
    if not places:
        return None
    place = rng.choice(places)
    binders = _BINDER.findall(place[1])
    if not binders:
        return None
    i, n = rng.choice(binders)
    end = end_of(text, place.end())
    e = text[place.end() : end]
    held[key] = text[: place.end()] + rng.choice(masks).format(e=e, i=i, n=n) + text[end:]
    return _with_function(without_formulas(held), "max") if "max(" in held[key] else without_formulas(held)


def end_of(text: str, start: int) -> int:
    """The end of the expression that begins at `start`."""
    depth, k = 0, start
    while k < len(text):
        if binders := _BINDERS.match(text, k):
            k = binders.end()
            continue
        if depth == 0 and (text[k] in ",)]" or text.startswith(" in\n", k)):
            return k
        depth += (text[k] in "([") - (text[k] in ")]")
        k += 1
    return len(text)


def _with_function(held: Held, name: str) -> Held:
    declared = json.loads(certified("f(x: [n]R) = sum i:n. max(x[i], 0)"))["functions"]
    names = {f["name"] for f in held["functions"]}
    held["functions"] += [f for f in declared if f["name"] not in names]
    return held


def _negated_data(held: Held, rng: random.Random) -> Held | None:
    """The adjoint is right for positive data only."""
    text = held["adjoint"]
    reads = list(re.finditer(r"\b[xyAB]\[[\w, +*-]+\]", text[text.index(") =") :]))
    if not reads:
        return None
    one = rng.choice(reads)
    start = text.index(") =") + one.start()
    held["adjoint"] = text[:start] + f"max({one[0]}, 0)" + text[start + len(one[0]) :]
    return _with_function(without_formulas(held), "max")


def _bound(held: Held, rng: random.Random) -> Held | None:
    """A bound below the largest ratio."""
    if held["supremum"] is None:
        return None
    held["bound"] = str(Fraction(held["supremum"]["least"]) - Fraction(1, rng.choice((3, 10, 40))))
    return without_formulas(held)


def _bound_with_formulas(held: Held, rng: random.Random) -> Held | None:
    if held["supremum"] is None:
        return None
    held["bound"] = str(Fraction(held["supremum"]["least"]) - Fraction(1, rng.choice((3, 10, 40))))
    held["supremum"]["least"] = held["supremum"]["most"] = held["bound"]
    return held


def _step(held: Held, rng: random.Random) -> Held | None:
    """Another derivation: a step left out, done twice, or with another predicate or sign."""
    steps = held["steps"]
    k = rng.randrange(len(steps))
    match rng.randrange(4):
        case 0:
            del steps[k]
        case 1:
            steps.insert(k, steps[k])
        case 2:
            sides = [(s, side, j) for s in steps for side in ("before", "after") for j, _ in enumerate(s[side])]
            s, side, j = rng.choice(sides)
            s[side][j] = s[side][j][1:] if s[side][j].startswith("-") else "-" + s[side][j]
        case _:
            sides = [(s, j) for s in steps for j, text in enumerate(s["after"]) if "_[" in text]
            if not sides:
                return None
            s, j = rng.choice(sides)
            s["after"][j] = re.sub(r"_\[\w+\]", "", s["after"][j])
    return held


def _function(held: Held, rng: random.Random) -> Held | None:
    """A false derivative, or a false cost."""
    if not held["functions"]:
        return None
    f = rng.choice(held["functions"])
    match rng.randrange(3):
        case 0:
            f["cost"] += rng.choice((1, 5))
        case 1:
            f["components"] = ["t" if e != "t" else "2 * t" for e in f["components"]]
        case _:
            k = rng.randrange(len(f["components"]))
            f["components"][k] = f"({f['components'][k] or 0}) + where_gt(x0, 5, t)"
    return held


def _where(held: Held, rng: random.Random) -> Held | None:
    """A predicate of the derivation that is narrower at large sizes."""
    places = list(re.finditer(r"let where\d+ = (?:gen [^.]*\. )?\[", held["derivation"]))
    if not places:
        return None
    at = rng.choice(places).end()
    held["derivation"] = held["derivation"][:at] + "n <= 6 and " + held["derivation"][at:]
    return held


_TOKENS = re.compile(r"<=|<|(?<![<>!])=(?= \w)(?<!\w\) =)|\b\d+\b|(?<=\s)[-+](?=\s)")
_OTHERS = {"<=": ("<", "="), "<": ("<=", "="), "=": ("<=", "<"), "+": ("-",), "-": ("+",)}


def _is_comparison(text: str, at: int) -> bool:
    """Whether the = at this place does not belong to a let."""
    return "[" in text[text.rfind("\n", 0, at) : at].partition("=")[2]


def _token(held: Held, rng: random.Random) -> Held | None:
    """Another comparison, number or sign, anywhere in one of the programs."""
    key = rng.choice(("program", "adjoint", "derivation"))
    text = held[key]
    start = text.index(") =") + 3
    places = [m for m in _TOKENS.finditer(text, start) if not text[: m.start()].endswith("let ")]
    places = [m for m in places if m[0] != "=" or _is_comparison(text, m.start())]
    if not places:
        return None
    place = rng.choice(places)
    new = str(int(place[0]) + 1) if place[0].isdigit() else rng.choice(_OTHERS[place[0]])
    held[key] = text[: place.start()] + new + text[place.end() :]
    return without_formulas(held)


TEMPLATES: dict[str, Callable[[Held, random.Random], Held | None]] = {
    "the adjoint's value": lambda held, rng: masked(held, rng, "adjoint", MASKS),
    "the program's value": lambda held, rng: masked(held, rng, "program", MASKS),
    "the derivation's value": lambda held, rng: masked(held, rng, "derivation", MASKS),
    "the adjoint's cost": lambda held, rng: masked(held, rng, "adjoint", COSTS),
    "negative data": _negated_data,
    "the bound": _bound,
    "the bound with formulas": _bound_with_formulas,
    "a step": _step,
    "a function": _function,
    "a predicate": _where,
    "a comparison, a number or a sign": _token,
}


def forged(seed: int) -> tuple[str, Held] | None:
    """A forgery, and how it was made; None if the template does not fit."""
    rng = random.Random(seed)
    kind = list(TEMPLATES)[seed % len(TEMPLATES)]
    held = genuine(rng.choice(PROGRAMS))
    before = json.dumps(held)
    found = TEMPLATES[kind](held, rng)
    return None if found is None or json.dumps(found) == before else (kind, found)


def verdict(held: Held) -> str:
    """How the checker answers."""
    try:
        return "accepted" if check(json.dumps(held), seconds=20).decided else "not decided"
    except (Refused, TooLarge) as error:
        return type(error).__name__


def is_true_all_the_same(held: Held) -> bool:
    """Whether the adjoint is still the gradient of the program, whatever the derivation: by the package's own normal
    form, or else at some sizes, for data with zeros, equal numbers, and of either sign."""
    original = genuine(next(text for text in PROGRAMS if text.partition("(")[0] == held["program"].partition("(")[0]))
    gradient = original["adjoint"]
    if held["program"] != original["program"]:
        gradient = str(tl.adjoint(tl.parse(held["program"]), wrt=held["wrt"]))
    return held["adjoint"] == gradient or is_equal(tl.parse(held["adjoint"]), tl.parse(gradient))


def is_equal(f: tl.Function, g: tl.Function) -> bool:
    if str(tl.simplify(f)) == str(tl.simplify(g)):
        return True
    return agree(f, g)


def agree(f: tl.Function, g: tl.Function) -> bool:
    """Whether two programs have equal values at some sizes."""
    for seed, n in product(range(4), (1, 2, 3, 6, 8, 9, 18, 41)):
        rng = random.Random(seed)
        sizes = {size.name: n if k == seed % 2 else rng.randint(1, 3) for k, size in enumerate(g.sizes)}
        at = {size: sizes[size.name] for size in g.sizes}
        if any(a.value(at) < 0 for a in input_sizes(g)):
            continue
        data = random_arguments(g, rng, sizes, exact=False)
        if not close(*(tl.evaluate(h, data, **{size.name: sizes[size.name] for size in h.sizes}) for h in (f, g))):
            return False
    return True


def tried(seeds: range) -> Counter[str]:
    answers: Counter[str] = Counter()
    for seed in seeds:
        made = forged(seed)
        if made is None:
            continue
        kind, held = made
        answer = verdict(held)
        if answer != "Refused":
            assert is_true_all_the_same(held), (kind, seed, answer, held["program"], held["adjoint"])
            answer = "true all the same"
        answers[answer] += 1
    return answers


def test_forgeries_are_refused() -> None:
    answers = tried(range(20))
    assert answers["Refused"] >= 12


@pytest.mark.slow
def test_hundreds_of_forgeries_are_refused() -> None:
    answers = tried(range(1000, 1500))
    refused = answers["Refused"]
    assert refused >= 300
    assert answers["true all the same"] <= 20


# ---- forgeries that deceived an earlier checker


SQUARES = PROGRAMS[1]


def test_a_bound_below_the_largest_ratio_is_refused_with_and_without_formulas() -> None:
    held = genuine(PROGRAMS[0])
    for changed in ({"bound": "9/4"}, {"bound": "9/4", "supremum": None}):
        with pytest.raises(Refused):
            check(json.dumps({**held, **changed}))


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("adjoint", "t0 * x[i]", "t0 * x[i] + [4 <= n] * 0 * (sum a:n, b:n, c:n. x[a] * x[b] * x[c])"),
        ("adjoint", "t0 * x[i]", "[n <= 3] * t0 * x[i]"),
        ("program", "x[i] ^ 2", "(x[i] ^ 2 + [4 <= n] * x[i])"),
        ("program", "sum i", "[n <= 3] * (sum i"),
    ],
)
def test_what_differs_from_size_4_on_is_refused_with_sizes(key: str, old: str, new: str) -> None:
    held = without_formulas(genuine(SQUARES))
    assert old in held[key]
    held[key] = held[key].replace(old, new) + (")" if new.count("(") > new.count(")") else "")
    with pytest.raises(Refused, match="n = 4"):
        check(json.dumps(held))


@pytest.mark.parametrize("name", ["abs", "relu", "sign", "max", "where_ge"])
def test_a_function_with_another_derivative_is_refused(name: str) -> None:
    arguments = {"max": "x[i], 2", "where_ge": "x[i], 1, x[i]"}.get(name, "x[i]")
    held = genuine(f"f(x: [n]R) = sum i:n. {name}({arguments}) * x[i]")
    for f in held["functions"]:
        if f["name"] == name:
            f["components"] = ["t"] * f["arity"]
    with pytest.raises(Refused, match="is not its derivative"):
        check(json.dumps(held))
