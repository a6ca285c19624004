"""Charges carried into others: whatever the steps, no charge is carried into a smaller one."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import islpy
import pytest

import tensorlang as tl
from proofs.checker.budget import Budget
from proofs.checker.carrying import never_more
from proofs.checker.certificate import check
from proofs.checker.charges import Charge, Domain
from proofs.checker.facts import Facts
from proofs.checker.predicates import within
from proofs.checker.semantics import NoIndex, Semantics, fine
from proofs.checker.syntax import program
from proofs.checker.transport import Carried, Ledger, Open, Piece, Split, Step, pieces_of, read_step, without_data
from proofs.checker.trees import (
    Affine,
    All,
    ArrayType,
    Compare,
    Element,
    Exists,
    Holds,
    Indices,
    Pred,
    Refused,
    Rel,
    affine,
    name,
    number,
)
from tensorlang.certificate import certify

N, M = name("n"), name("m")


def facts() -> Facts:
    found = Facts(Budget(3600))
    found.declare([("y", ArrayType(N, Indices(M))), ("e", Rel((N, M)))])
    return found


def random_domain(rng: random.Random) -> Domain:
    """One or two indices of ranges n and m, with random conditions on them and on data."""
    dims = tuple(f"$q{k}" for k in range(rng.choice((0, 1, 1, 2, 2))))
    sizes = [rng.choice((N, M)) for _ in dims]
    preds: list[Pred] = [within(name(x), n) for x, n in zip(dims, sizes, strict=True)]
    rows = [name(x) for x, n in zip(dims, sizes, strict=True) if n == N]
    columns = [name(x) for x, n in zip(dims, sizes, strict=True) if n == M]
    for _ in range(rng.randint(0, 2)):
        kind = rng.randrange(5)
        if kind < 2 and dims:
            a = affine([(x, rng.choice((-1, 1))) for x in dims], rng.randint(-1, 1))
            preds.append(Compare(rng.random() < 0.3, a + rng.choice((number(0), N, M))))
        elif kind == 2 and rows:
            preds.append(
                Compare(rng.random() < 0.5, Affine(((Element("y", (rows[0],)), 1),)) - number(rng.randint(0, 1)))
            )
        elif kind == 3 and rows and columns:
            preds.append(Holds("e", (rows[0], columns[0])))
        elif columns:
            at = Affine(((Element("y", (name("%z"),)), 1),))
            body: Pred = Compare(True, at - columns[0])
            preds.append(Exists("%z", N, body if rng.random() < 0.6 else Holds("e", (name("%z"), columns[0]))))
    return Domain(dims, tuple(preds))


def random_charges(rng: random.Random, many: int) -> list[Charge]:
    return [(Fraction(rng.randint(1, 3)), random_domain(rng)) for _ in range(many)]


def random_step(rng: random.Random, ledger: Ledger) -> Carried:
    low, high = rng.randrange(len(ledger.low)), rng.randrange(len(ledger.high))
    a, h = ledger.low[low], ledger.high[high]
    own = ledger.dims[: h.dims]
    if rng.random() < 0.15:
        return Open(low, rng.randrange(3)) if rng.random() < 0.5 else Split(low, rng.randrange(3))
    at = []
    for _ in range(a.dims):
        e = name(rng.choice(own)) if own and rng.random() < 0.9 else number(0)
        if rng.random() < 0.15:
            e = rng.choice((N, M)) - e + number(-1)
        if own and rng.random() < 0.1:
            e = e + name(rng.choice(own)).times(rng.choice((-1, 1, 2)))
        at.append(e)
    return Step(low, high, tuple(at))


class Counted:
    """The amount on each side at some sizes and data, counted point by point."""

    def __init__(self, ledger: Ledger, env: dict[str, Any]) -> None:
        self.ledger = ledger
        self.env = env
        self.meaning = Semantics({}, Budget(3600))

    def __call__(self) -> Fraction:
        """low - high"""
        return self._side(self.ledger.low) - self._side(self.ledger.high)

    def _side(self, pieces: list[Piece]) -> Fraction:
        return sum((p.weight * self._points(p) for p in pieces if p.weight), Fraction(0))

    def _points(self, piece: Piece) -> int:
        found = 0
        reach = range(4) if piece.domain is not None else range(-4, 6)  # the remainder may be in other coordinates
        for at in product(reach, repeat=piece.dims):
            values = dict(zip(self.ledger.dims, (*at, *[0] * self.ledger.most), strict=False))
            found += self._holds(piece.points, {**self.env, **values})
        return found

    def _holds(self, points: Any, env: dict[str, Any]) -> bool:
        question = self.ledger.question
        fixed = {own: env[x] for x, own in question.names.items() if x in env}
        for place, own in question.data.items():
            if points.find_dim_by_name(islpy.dim_type.param, own) < 0:
                continue
            try:
                match place:
                    case Element():
                        fixed[own] = self.meaning.index(Affine(((place, 1),)), env)
                    case Holds() | Exists():
                        fixed[own] = int(self.meaning.holds(place, env))
            except (NoIndex, Refused):  # a place that is out of bounds, where any index will do
                fixed[own] = 0
        for own, k in fixed.items():
            at = points.find_dim_by_name(islpy.dim_type.param, own)
            if at >= 0:
                points = points.fix_val(islpy.dim_type.param, at, islpy.Val(k))
        return not points.is_empty()


def settings(rng: random.Random) -> list[dict[str, Any]]:
    found = []
    for n, m in ((1, 1), (1, 2), (2, 1), (2, 3), (3, 2)):
        y = [rng.randrange(m) for _ in range(n)]
        e = {(i, j) for i in range(n) for j in range(m) if rng.random() < 0.5}
        found.append({"n": n, "m": m, "y": y, "e": e})
    return found


def attacked(seed: int) -> int:
    """Carry at random, and check after each step that low - high is never less than before. Return how many steps did
    something."""
    rng = random.Random(seed)
    charges = [*random_charges(rng, 3), *((-w, d) for w, d in random_charges(rng, 3))]
    known = facts()
    ledger = Ledger(known, pieces_of(charges, [], known))
    if not ledger.low or not ledger.high:
        return 0
    counts = [Counted(ledger, env) for env in settings(rng)]
    done = 0
    for _ in range(60):
        before = [count() for count in counts] if done < 6 else []
        size = len(ledger.steps)
        ledger.follow([random_step(rng, ledger)])
        if len(ledger.steps) == size:
            continue
        done += 1
        after = [count() for count in counts]
        for env, first, last in zip(settings(random.Random(seed)), before, after, strict=False):
            assert first <= last, (seed, env["n"], env["m"], ledger.steps[-1])
        if done >= 6:
            break
    return done


def test_no_step_carries_more_than_there_is() -> None:
    assert attacked(4) > 0


@pytest.mark.slow
def test_no_step_of_many_carries_more_than_there_is(share: int) -> None:
    count = 60 // share
    assert sum(map(attacked, range(1000, 1000 + count))) > 1.5 * count


def box(*sizes: Affine) -> Domain:
    dims = tuple(f"$b{k}" for k in range(len(sizes)))
    return Domain(dims, tuple(within(name(x), n) for x, n in zip(dims, sizes, strict=True)))


ONE = Fraction(1)


def test_boxes_are_carried_whatever_the_order_of_their_indices() -> None:
    for order in permutations((N, M, N + M, N + number(1))):
        assert never_more([(ONE, box(*order))], [(ONE, box(N, M, N + M, N + number(1)))], facts()) is not None
    assert never_more([(ONE, box(N, N))], [(ONE, box(N, M))], facts()) is None


def test_an_image_has_no_more_points_than_what_it_is_the_image_of() -> None:
    image = Exists("%z", N, Compare(True, Affine(((Element("y", (name("%z"),)), 1),)) - name("$b0")))
    domain = box(M)
    shadow = Domain(domain.dims, (*domain.preds, image))
    steps = never_more([(ONE, shadow)], [(ONE, box(N))], facts())
    assert steps is not None
    assert any(isinstance(step, Open) for step in steps)
    assert never_more([(ONE, box(M))], [(ONE, box(N))], facts()) is None


def of_one(x: str) -> Affine:
    return Affine(((Element("y", (name(x),)), 1),))


def test_pairs_of_which_each_index_has_one_are_no_fewer_than_the_indices() -> None:
    pairs = box(N, N)
    alike = Domain(pairs.dims, (*pairs.preds, Compare(True, of_one("$b0") - of_one("$b1"))))
    steps = never_more([(ONE, box(N))], [(ONE, alike)], facts())
    assert steps is not None
    assert any(isinstance(step, Open) for step in steps)
    assert never_more([(Fraction(2), box(N))], [(ONE, alike)], facts()) is None
    later = Domain(pairs.dims, (*pairs.preds, Compare(True, of_one("$b0") - of_one("$b1") + number(1))))
    assert never_more([(ONE, box(N))], [(ONE, later)], facts()) is None


def test_a_window_is_carried_into_what_has_room_for_each_of_its_values() -> None:
    low, high = (ONE, box(N, number(3))), box(N)
    assert never_more([low], [(Fraction(2), high)], facts()) is None
    steps = never_more([low], [(Fraction(3), high)], facts())
    assert steps is not None and any(isinstance(step, Split) for step in steps)


def test_only_an_index_of_few_values_is_split() -> None:
    known = facts()
    ledger = Ledger(known, pieces_of([(ONE, box(N, number(3)))], [(ONE, box(N))], known))
    assert not ledger.split(Split(0, 0)) and not ledger.split(Split(0, 2)) and not ledger.split(Split(1, 1))
    assert ledger.split(Split(0, 1)) and [p.dims for p in ledger.low if p.weight] == [1, 1, 1]
    assert not ledger.split(Split(0, 1))  # the piece is used up


def test_steps_are_read_as_they_are_written() -> None:
    steps = [Step(0, 3, (name("$d1"), N - name("$d0") + number(-1))), Open(2, 1), Split(1, 0)]
    assert [read_step(json.loads(json.dumps(step.plain()))) for step in steps] == steps
    for held in (None, [], [1], [0, 1, None], [0, 1, [{"0": 1.5}]], [0, "open", None], [0, 1, [[1]]], ["a", 1, []]):
        assert read_step(held) is None


TEXT = "f(x: [n][m]R, y: [n]idx(m)) = sum i:n. x[i, y[i]]^2 * (sum j:m. x[i, j])"


def test_a_certificate_is_decided_by_the_steps_that_it_was_made_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = json.loads(certify(tl.parse(TEXT)).to_json())
    assert held["transports"]["bound"]
    monkeypatch.setattr("proofs.checker.carrying._Search.decide", lambda search, opens: False)
    report = check(json.dumps(held))
    assert report.decided
    assert not report.searched
    for step in held["transports"]["bound"]:
        step[0] += 1
    held["transports"] = {"bound": held["transports"]["bound"]}
    assert not check(json.dumps(held)).decided


def test_a_report_says_for_what_the_file_has_no_steps() -> None:
    held = json.loads(certify(tl.parse(TEXT)).to_json())
    del held["transports"]["bound"]
    report = check(json.dumps(held))
    assert report.searched == ("bound",)
    assert "searched for, as the file does not tell: how costs are carried, of bound" in str(report)


def test_wrong_transports_change_nothing() -> None:
    held = json.loads(certify(tl.parse(TEXT)).to_json())
    held["transports"] = {"bound": [[0, 0, [{"0": 1}]], [9, 9, []], "x", [0, 1, [{"zz": 5}]]], "program": [None]}
    assert check(json.dumps(held)).decided


@pytest.mark.parametrize("c", [1, 2, 3])
def test_low_pieces_of_all_data_have_no_fewer_points(c: int) -> None:
    text = "f(x: [n]R, a: [n]idx(2), E: rel(n, n)) = sum i:n where exists k:n. a[k] + 2*k = i. x[i]"
    facts = Facts(Budget(10))
    facts.declare(program(text).params)
    k, size = name("%k"), name("n")
    i = name("$i")
    element = Affine(((Element("a", (k,)), 1),))
    some = Exists("%k", size, Compare(True, element + k.times(2) - i))
    inside = fine(within(i, size.times(3)))
    low, high = Domain(("$i",), (*inside, some)), Domain(("$i",), (*inside, Compare(False, element - number(1))))
    ((weight, found),) = without_data([(Fraction(c), low), (Fraction(-c), high)], facts)
    assert weight == c
    assert not found.has_data
    assert facts.implies(found.preds, within(name(found.dims[0]), size.times(2)))
    assert facts.implies(fine(within(name(found.dims[0]), size.times(2))), All(found.preds))


def window(a: Affine, q: Affine, c: int) -> tuple[Pred, ...]:
    """0 <= a - c*q < c, as two predicates."""
    return tuple(fine(within(a - q.times(c), number(c))))


def points_of(d: Domain, n: int) -> int:
    found = Semantics({}, Budget(20)).points([(x, number(40)) for x in d.dims], All(d.preds), {"n": n})
    return sum(1 for _ in found)


@pytest.mark.parametrize("seed", range(40))
def test_domains_without_quotients_have_as_many_points(seed: int) -> None:
    rng = random.Random(seed)
    i, k, q = map(name, ("$i", "$k", "$q"))
    c, shift = rng.choice([2, 3, 4]), rng.randint(-2, 3)
    a = i + k.times(rng.choice([0, 1, c])) + number(shift)
    inside = (*fine(within(i, N)), *fine(within(k, number(3))))
    said = [*window(a, q, c), *fine(within(q, rng.choice([N, number(2)])))]
    if rng.random() < 0.5:
        said += rng.choice([window(k, q, 2), (Compare(False, q - k),), (Compare(False, k + number(1) - q),)])
    d = Domain(("$i", "$k", "$q"), (*inside, *said))
    if rng.random() < 0.3:
        d = Domain(("$i", "$k"), (*inside, Exists("$q", N + number(5), All(tuple(said)))))
    other = d.without_quotients(facts())
    assert [points_of(other, n) for n in range(1, 7)] == [points_of(d, n) for n in range(1, 7)]


def test_what_is_wider_than_a_quotient_is_no_quotient() -> None:
    i, q = name("$i"), name("$q")
    wide = Domain(("$i", "$q"), (*fine(within(i, N)), *fine(within(q, N)), *fine(within(i - q.times(2), number(3)))))
    assert wide.without_quotients(facts()) == Domain(wide.dims, wide.preds)
    assert never_more([(ONE, wide)], [(ONE, box(N))], facts()) is None
    exact = Domain(wide.dims, (*wide.preds[:4], *window(i, q, 2)))
    assert never_more([(ONE, exact)], [(ONE, box(N))], facts()) is not None


def test_a_quotient_of_what_may_be_missing_stays_where_nothing_else_reads_it() -> None:
    known = facts()
    known.optional["y"] = ("$0",), Compare(False, N - name("$0") + number(-2))
    i, q = name("$i"), name("$q")
    y = Affine(((Element("y", (i,)), 1),))
    chosen = (*window(y.times(2) + number(1), q, 2), Compare(False, q - y))  # q = y[i], and y[i] <= q
    d = Domain(("$i", "$q"), (*fine(within(i, N)), *chosen))
    assert never_more([(ONE, box(N))], [(ONE, d)], known) is None  # there is no y[n - 1]
