"""Certificates: that the adjoint of a program is cheap, and why. See docs/certificates.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from itertools import product
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from tensorlang.budget import few_collections, limited, limits
from tensorlang.certificate.compare import costs_at_most, costs_no_more
from tensorlang.certificate.excess import PROVED, CheapAdjoint, calls_slopes
from tensorlang.certificate.matches import matches
from tensorlang.certificate.obligations import Obligation, obligations
from tensorlang.certificate.record import Record, described, described_external
from tensorlang.costs.domains import Domain
from tensorlang.costs.ratio import Supremum, numbers_in, supremum
from tensorlang.costs.symbolic import CostPolynomial, polynomial_of_one_trip
from tensorlang.derivatives.derivation import Derivation
from tensorlang.errors import ArgumentError, CertificateError, CountingError, LimitError, here
from tensorlang.language.affine import IndexArray
from tensorlang.language.function import Function
from tensorlang.language.grammar import Apply, Call, Expr, Let, Routine, ScalarFunction, Var
from tensorlang.language.grid import Setting
from tensorlang.language.lets import bindings
from tensorlang.language.routines import is_declared, rule_of, with_rule
from tensorlang.language.types import R
from tensorlang.normal import function_of
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.pipeline import Wrt, derive
from tensorlang.sets.scopes import postorder
from tensorlang.shown import Shown
from tensorlang.surface.inline import opened
from tensorlang.surface.parse import parse, reread

FORMAT = "tensorlang certificate 1"
_CHECKERS = ("proofs.checker", "tensorlang_checker")
_SECONDS = 20.0
"""The time for finding steps that show a checker that some costs are at most others."""

_STEPS_OF_A_FORMULA = 2_000_000
"""The most steps for finding the closed form of a cost: five times what those of the benchmarks take."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Shown):
    """That for all sizes from 1 on the adjoint costs at most `bound` times the program, inputs and outputs counted.

    `costs` are the costs of the program and of the adjoint with their parts, by name, or None where no closed form
    was found; `compared` says of the program in SSA and of the adjoint whether it is proved for "all sizes" that it
    costs no more than what it is made of, or only counted at "small sizes". `supremum` is how large the ratio of the
    adjoint to the program gets, inputs and outputs counted, where both have closed forms that no data are in.

    >>> certificate = tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2"))
    >>> print(certificate)
    f: the adjoint by x costs at most 4 times the program, inputs and outputs counted, for all sizes from 1 on
      program: [0 < n] * (2*n - 1)
      adjoint: n + 1
      largest ratio: 4/3, at n = 1
      11 steps, 11 obligations: 7 by integer sets, 3 by structure, 1 by arithmetic
    >>> certificate.is_decided
    True
    """

    derivation: Derivation
    bound: Fraction
    obligations: tuple[Obligation, ...]
    costs: Mapping[str, CostPolynomial | None]
    compared: Mapping[str, str]
    supremum: Supremum | None
    has_steps: bool = True
    """Whether its file has the derivation. Else a checker derives the gradient on its own, and compares it: of programs
    with recurrences, where adjoints are declared, and where derivatives of functions with loops are differentiated."""

    @property
    def is_decided(self) -> bool:
        """Whether `bound` was decided for all sizes from 1 on, not counted at small ones."""
        return all(how == "all sizes" for how in self.compared.values())

    @property
    def program_cost(self) -> CostPolynomial | None:
        """The program's cost, without inputs and outputs, for all sizes; None where no closed form was found.

        >>> print(tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).program_cost)
        [0 < n] * (2*n - 1)
        """
        return self.costs["program"]

    @property
    def adjoint_cost(self) -> CostPolynomial | None:
        """The adjoint's cost, without inputs and outputs, for all sizes; None where no closed form was found.

        >>> print(tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).adjoint_cost)
        n + 1
        """
        return self.costs["adjoint"]

    @cached_property
    def record(self) -> Record:
        """The derivation as names and texts.

        >>> print(tl.certify(tl.parse("f(x: R) = sin(x)")).record.text)
        f_derivation(x: R, f_bar: R) =
          let X1 = sin(x) in
          let X2 = cos(x) in
          let x_bar = X2 * f_bar in
          (X1, x_bar)
        """
        return Record(self.derivation)

    @property
    def assumed(self) -> tuple[str, ...]:
        """The unproved facts that it rests on: of functions with loops that data decide their derivatives, which a
        checker derives from the programs in the file, and what they cost on other paths than those with one trip of
        each loop.

        >>> tl.certify(tl.parse("f(x: R) = sin(x)")).assumed
        ()
        """
        called = {f.name: f.loops for f in _called(self.derivation.function.body) if f.loops is not None}
        loops = []
        for name, of in sorted(called.items(), key=lambda pair: pair[0]):
            derived = ", which a checker derives from its program," if of.programs() else ""
            loops.append(f"the derivative of {name}{derived} and that it costs what one trip of each loop costs")
        return (*loops, *(text for r in self.routines for text in _assumed_of(r)))

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions with declared adjoints that the program or its adjoint calls.

        >>> tl.certify(tl.parse("f(x: R) = sin(x)")).routines
        ()
        """
        d = self.derivation
        bodies = [with_rule(d.function).body, d.adjoint.body]
        return tuple(dict.fromkeys(r for body in bodies for r in _routines(body)))

    def to_json(self) -> str:
        """The certificate as text that `proofs/checker` checks; the same for the same program.

        Programs whose adjoints are declared stand in it with their bodies, external functions with what is declared of
        them, which is assumed.

        >>> import json
        >>> held = json.loads(tl.certify(tl.parse("f(x: R) = sin(x)")).to_json())
        >>> print(held["program"], held["adjoint"], held["bound"], sep="; ")
        f(x: R) = sin(x); f_adjoint(x: R, f_bar: R) = cos(x) * f_bar; 4
        """
        with few_collections:
            file = self._written
            return json.dumps({**file._held, "transports": file.transports}, indent=1) + "\n"

    @cached_property
    def _written(self) -> Certificate:
        """The certificate for its file: without declared adjoints of programs, it claims that the adjoint belongs to
        the program when the bodies of all functions are inlined in both."""
        if not self.routines:
            return self
        d = replace(self.derivation, function=opened(self.derivation.function), adjoint=opened(self.derivation.adjoint))
        return _without_steps(d, self.bound)

    @cached_property
    def transports(self) -> dict[str, list[Any]]:
        """The steps by which the checker is shown that costs are no more than others. They speak of charges as the
        checker reads them, so its search is asked, by the name that it has in the repository or in a wheel; where
        neither is there, there are none.

        The search takes 20 seconds at most.

        >>> list(tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).transports)
        ['bound', 'program', 'adjoint']
        """
        for checker in _CHECKERS:
            try:
                certificate = import_module(f"{checker}.certificate")
            except ImportError:
                continue
            try:
                found: dict[str, list[Any]] = certificate.carried(json.dumps(self._held | {"transports": {}}), _SECONDS)
            except (certificate.Refused, certificate.TooLarge):
                return {}
            return found
        return {}

    @cached_property
    def _held(self) -> dict[str, Any]:
        d = self.derivation
        outside = _externals((d.function, d.adjoint))
        return {
            "format": FORMAT,
            "bound": str(self.bound),
            "program": str(d.function),
            "wrt": [x.name for x in d.wrt],
            "adjoint": str(d.adjoint),
            "derivation": self.record.text if self.has_steps else None,
            "cotangent": d.adjoint.params[-1].name,
            "functions": [
                described(f, f.shared is None or f in set(_called(d.function.body)))
                for f in _functions((*self._programs, *(rule for rule in outside.values() if rule is not None)))
            ],
            **({"external": [described_external(r, rule) for r, rule in outside.items()]} if outside else {}),
            "steps": self.record.steps() if self.has_steps else [],
            "costs": {
                name: None if cost is None else _as_text(cost, self._texts[name]) for name, cost in self.costs.items()
            },
            "compared": dict(self.compared),
            "supremum": self._plain_supremum(),
            "matches": matches(self._named, self.record.function) if self.has_steps else {x: [] for x in self._named},
        }

    @property
    def _programs(self) -> tuple[Function, ...]:
        own = self.derivation.function, self.derivation.adjoint
        return (*own, self.record.function) if self.has_steps else own

    @property
    def _named(self) -> dict[str, Function]:
        return {"program": self.derivation.function, "adjoint": self.derivation.adjoint}

    @property
    def _texts(self) -> dict[str, Function]:
        more = {"ssa": self._programs[-1], "derived": self._programs[-1]} if self.has_steps else {}
        return {**self._named, **more}

    def _plain_supremum(self) -> dict[str, Any] | None:
        """The supremum for JSON, if it is exact and obviously approached as sizes grow, all at one rate or some with
        the square of others; else None."""
        found, own, adjoint = self.supremum, self.program_cost, self.adjoint_cost
        if found is None or not found.is_exact or own is None or adjoint is None:
            return None
        if any(_as_text(self.costs[name], f) is None for name, f in self._named.items()):
            return None
        d = self.derivation
        others = numbers_in(d.function, (d.function.type, *(x.type for x in d.wrt)))
        told = dict(re.findall(r"(\w+) = (\d+)", found.where))
        above, below, all_sizes = adjoint + others, own + others, d.function.sizes
        for speeds in product((1, 2), repeat=len(all_sizes)):
            distances = []
            for t in (10**4, 10**6):
                sizes = {x: int(told.get(x.name, t**speed)) for x, speed in zip(all_sizes, speeds, strict=True)}
                setting = Setting(sizes, {})
                distances.append(abs(Fraction(above.at(setting), below.at(setting)) - found.least))
            near = distances[1] <= distances[0] and distances[1] < Fraction(1, 1000)
            if distances == [0, 0] if found.attained else near:
                least = str(found.least)
                return {"least": least, "most": least, "where": found.where, "attained": found.attained}
        return None

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_json()` to a file.

        `python -m proofs.checker` checks it, or `tensorlang_checker` of an installed package. Raises
        `OSError` if it can't be written.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tl.certify(tl.parse("f(x: R) = sin(x)")).save(f"{folder}/f.json")
        ...     tl.Certificate.load(f"{folder}/f.json").is_decided
        True
        """
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Certificate:
        """The certificate that a file holds, made anew from its program.

        Raises `CertificateError` if the file is no certificate, or says anything else than what is made anew.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tl.certify(tl.parse("f(x: R) = sin(x)"), bound=2).save(f"{folder}/f.json")
        ...     tl.Certificate.load(f"{folder}/f.json").bound
        Fraction(2, 1)
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            held = json.loads(text)
            made = certify(parse(held["program"], fspath(path)), Fraction(held["bound"]), tuple(held["wrt"]))
        except OSError as error:
            raise CertificateError(f"{fspath(path)} can't be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CertificateError(f"{fspath(path)} is no certificate") from None
        if made._written._held != {key: value for key, value in held.items() if key != "transports"}:
            declared = made.has_steps and held.get("derivation", "") is None
            hint = (
                "python -m proofs.checker checks it: an adjoint in it was declared"
                if declared
                else "make it anew by certify"
            )
            raise CertificateError(f"{fspath(path)} is not the certificate of its program", hint=hint)
        return made

    def __str__(self) -> str:
        d = self.derivation
        wrt = ", ".join(x.name for x in d.wrt)
        claim = f"the adjoint by {wrt} costs at most {self.bound} times the program, inputs and outputs counted"
        how = "for all sizes from 1 on" if self.is_decided else "but counted at small sizes only"
        lines = [f"{d.function.name}: {claim}, {how}"]
        for name in ("program", "adjoint"):
            lines += _told(name, self.costs[name])
        if self.supremum is not None:
            lines.append(f"  largest ratio: {self.supremum}")
        decided = Counter(o.decided for o in self.obligations)
        counts = ", ".join(f"{many} by {how}" for how, many in decided.items())
        if self.has_steps:
            lines.append(f"  {len(d.steps)} steps, {len(self.obligations)} obligations: {counts}")
        else:
            lines.append("  that the adjoint is the gradient is for a checker to derive")
        for name, how in self.compared.items() if self.has_steps else ():
            if how != "all sizes":
                lines.append(f"  that the {name} costs no more than what it is made of was counted at {how} only")
        lines += [f"  assuming: {what}" for what in self.assumed]
        return "\n".join(lines)


@limited
def certify(f: Function, bound: int | float | Fraction = 4, wrt: Wrt = None) -> Certificate:
    """A certificate that the adjoint of `f` costs at most `bound` times `f`, inputs and outputs counted.

    Raises `CostBoundExceeded` if at some sizes it costs more, `CertificateError` if that can't be decided, and
    `ScopeError` if `wrt` names anything but a real-valued parameter. `ArgumentError` if the bound is not a number of
    at least 0.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> tl.certify(f).is_decided
    True
    """
    limit = _bound(bound)
    d = derive(f, wrt)
    if has_recurrences(with_rule(f)) or calls_slopes(f):
        return _without_steps(d, limit)
    shown = tuple(obligations(d))
    for obligation in shown:
        if obligation.decided == "open":
            raise CertificateError(f"{f.name} can't be certified: {obligation} could not be shown")
    ssa, derived = function_of(d.program), function_of(d.result)
    parts = {"program": f, "ssa": ssa, "derived": derived, "adjoint": d.adjoint}
    costs = {name: _cost(part) for name, part in parts.items()}
    largest = _supremum(d, costs["program"], costs["adjoint"])
    cheap = CheapAdjoint(d, largest)
    links = {"program": (ssa, f), "adjoint": (d.adjoint, derived)}
    compared = {name: "all sizes" if costs_no_more(*link) else "small sizes" for name, link in links.items()}
    by_theorem = limit >= PROVED and set(compared.values()) == {"all sizes"}
    if not (by_theorem or _within(d, largest, limit)):
        cheap.check(limit)
        if limit < PROVED:
            cheap.decide(limit)
    for name, how in compared.items():
        if how != "all sizes":
            cheap.compare(*links[name])
    return Certificate(d, limit, shown, costs, compared, largest)


def _assumed_of(r: Routine) -> Iterator[str]:
    """The facts about a function with a declared adjoint that are taken on trust."""
    how = "external" if r.body is None else "a program"
    if is_declared(r):
        yield f"that the declared adjoint of {r.name}, {how}, is its adjoint: it was compared at small sizes"
    if r.body is None:
        yield f"that a call of {r.name} costs what is declared"


def _without_steps(d: Derivation, bound: Fraction) -> Certificate:
    """A certificate of program and adjoint alone: their costs are compared directly, by closed forms, which hold for
    any number of steps of recurrences, or else at small sizes. A checker derives that the adjoint is the gradient."""
    costs = {"program": _cost(d.function), "ssa": None, "derived": None, "adjoint": _cost(d.adjoint)}
    largest = _supremum(d, costs["program"], costs["adjoint"])
    how = "all sizes" if _within(d, largest, bound) else "small sizes"
    if how != "all sizes":
        cheap = CheapAdjoint(d, largest)
        cheap.check(bound)
        if bound < PROVED:
            cheap.decide(bound)
    return Certificate(d, bound, (), costs, {"program": how, "adjoint": how}, largest, has_steps=False)


def _within(d: Derivation, largest: Supremum | None, bound: Fraction) -> bool:
    """Whether the adjoint is known to cost at most `bound` times the program at all sizes: by the ratio of closed
    forms, or by charges."""
    if largest is not None and largest.most is not None and largest.most <= bound:
        return True
    ((_, others),) = numbers_in(d.function, (d.function.type, *(x.type for x in d.wrt))).cells
    return costs_at_most(d.adjoint, d.function, others, bound)


def _supremum(d: Derivation, own: CostPolynomial | None, adjoint: CostPolynomial | None) -> Supremum | None:
    """The supremum of the ratio, inputs and outputs counted; None if it depends on data."""
    if own is None or adjoint is None or _has_data(own) or _has_data(adjoint):
        return None
    others = numbers_in(d.function, (d.function.type, *(x.type for x in d.wrt)))
    return _formula(lambda: supremum(adjoint + others, own + others))


def _has_data(cost: CostPolynomial) -> bool:
    """Whether it has numbers of points that only data determine."""
    return any(isinstance(x, Domain) for _, a in cost.cells for x in a.unknowns)


def _bound(bound: int | float | Fraction) -> Fraction:
    try:
        if isinstance(bound, str | bool):  # which Fraction reads
            raise TypeError
        limit = Fraction(bound)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"a bound is a number, found {bound!r}", here(), "tl.certify(f, bound=4)") from None
    if limit < 0:
        raise ArgumentError(f"a bound is at least 0, found {bound}")
    return limit


def _cost(f: Function) -> CostPolynomial | None:
    return _formula(lambda: polynomial_of_one_trip(f))


def _formula(found: Callable[[], T | None]) -> T | None:
    """The result of `found`, or None if that takes too many steps; nothing depends on having a formula."""
    try:
        with limits(steps=_STEPS_OF_A_FORMULA):
            return found()
    except (CountingError, LimitError):
        return None


def _as_text(cost: CostPolynomial | None, program: Function) -> str | None:
    """A formula with the names in the text of `program`; None if index arrays have other names there, as when two share
    one name, or are bound further in."""
    if cost is None:
        return None
    counted = [e.var for e in postorder(cost.program.body) if isinstance(e, Let) and isinstance(e.var, IndexArray)]
    outermost = {x.name for x in _arrays(reread(str(program)).body)} if counted else set()
    known = len({x.name for x in counted}) == len(counted) and {x.name for x in counted} <= outermost
    return str(cost) if known else None


def _arrays(e: Expr) -> Iterator[IndexArray]:
    """The index arrays that the outermost lets bind."""
    yield from (x for x, _ in bindings(e)[0] if isinstance(x, IndexArray))


def _told(name: str, cost: CostPolynomial | None) -> list[str]:
    if cost is None:
        return [f"  {name}: no closed form"]
    first, *rest = str(cost).splitlines()
    return [f"  {name}: {first}", *(f"    {line}" for line in rest)]


def _functions(programs: Sequence[Function]) -> list[ScalarFunction]:
    """The scalar functions in these programs, and those in their derivatives and bodies, sorted by name.

    Powers may have powers as derivatives without end, so only powers in the programs, their first derivatives and
    bodies are followed; of functions with loops only those that the first program, which is differentiated, calls.
    """
    found: dict[str, ScalarFunction] = {}
    waiting = [f for g in programs for f in _called(g.body)]
    first, own = set(waiting), set(_called(programs[0].body))
    while waiting:
        f = waiting.pop()
        name = described(f, False)["name"]
        if name not in found:
            found[name] = f
            if f.shared is not None and f not in own:
                continue
            arguments = tuple(Var(f"x{k}", R) for k in range(f.arity))
            told = [e for e in (*f.transpose(arguments, Var("y", R), Var("t", R)), f.body) if e is not None]
            waiting += [g for e in told for g in _called(e) if g.exponent is None or f in first or e is f.body]
    return [found[name] for name in sorted(found)]


def _routines(e: Expr) -> Iterator[Routine]:
    return (node.routine for node in postorder(e) if isinstance(node, Apply))


def _externals(programs: Sequence[Function]) -> dict[Routine, Function | None]:
    """The external functions that these programs and their adjoints call, with their adjoints, in which the bodies of
    all programs are inlined."""
    found: dict[Routine, Function | None] = {}
    waiting = [r for f in programs for r in _routines(f.body)]
    while waiting:
        r = waiting.pop()
        if r not in found:
            rule = found[r] = opened(rule_of(r)) if is_declared(r) else None
            waiting += [] if rule is None else _routines(rule.body)
    return dict(sorted(found.items(), key=lambda pair: pair[0].name))


def _called(e: Expr) -> Iterator[ScalarFunction]:
    return (node.function for node in postorder(e) if isinstance(node, Call))
