"""Everything that a certificate says, checked; docs/certificates.md lists what that is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from . import syntax, trees
from .budget import Budget, TooLarge, few_collections
from .charges import Charge
from .costs import COMPARED, Costs
from .equal import Side, equal
from .externals import check_externals, read_externals
from .facts import positive
from .formulas import Formula, formula
from .functions import check_functions
from .gradient import is_gradient
from .loops import check_loops
from .points import FOR_ALL, Data, Sets
from .predicates import renamed
from .replay import THEOREMS, Derivation, Replay, components, product
from .report import Finding, Report
from .samples import Supremum, check_samples
from .search import search
from .semantics import Function, known, operations
from .statements import Operand, integers, reads, statement
from .transport import Carried, read_step
from .trees import (
    TRUE,
    Affine,
    All,
    ArrayType,
    Best,
    Call,
    Exists,
    Expr,
    Indices,
    Integer,
    Name,
    Num,
    Pair,
    PairType,
    Part,
    Pred,
    Program,
    Real,
    Refused,
    Rel,
    Test,
    Type,
    chooses,
    name,
    needed,
    number,
)

FORMAT = "tensorlang certificate 1"
ALL_SIZES = "all sizes"
SMALL_SIZES = "small sizes"
_KEYS = {
    "format": str,
    "bound": str,
    "program": str,
    "wrt": list,
    "adjoint": str,
    "derivation": str | None,
    "cotangent": str,
    "functions": list,
    "steps": list,
    "costs": dict,
    "compared": dict,
    "matches": dict,
    "transports": dict,
}
_MASKED = re.compile(r"_\[(\w+)\]$")
_FRACTION = re.compile(r"[0-9]+(/[0-9]+)?")
_FUNCTION = re.compile(r"[A-Za-z_]\w*|pow -?[0-9]{1,9}(/[0-9]{1,9})?", re.ASCII)
_DEPTH = 20_000
_SECONDS = 15.0
"""Seconds for a derivation of the checker's own, where that of the file is not decided."""
_BRIEFLY = 2.0
"""Seconds for that derivation before everything is tried that may decide the values of the file's derivation, and for
the search for a second way in which costs are carried."""
_SUPREMUM = {"least", "most", "where", "attained"}
_OPTIONAL = {"supremum", "external"}
_FURTHER = {"body", "program", "derivative"}
_STEP_KEYS = {"rule", "theorem", "before", "after", "made"}


def check(text: str, seconds: float = 60) -> Report:
    """Check the certificate `text`. Raises `Refused` with what is wrong, and `TooLarge` if it is not decided within
    `seconds`."""
    with _reading():
        return _Checked(json.loads(text), Budget(seconds)).report()


def carried(text: str, seconds: float = 60) -> dict[str, list[Any]]:
    """The steps by which the costs of a certificate are carried, in the form of its key "transports", for makers of
    certificates: the steps are searched for, and nothing else is checked. Raises as `check` does."""
    with _reading():
        return _Checked(json.loads(text), Budget(seconds)).carried()


@contextmanager
def _reading() -> Iterator[None]:
    """Raise `Refused` or `TooLarge` in place of other errors that a file causes."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        with few_collections():
            yield
    except ValueError as error:
        raise Refused(f"this is no JSON: {error}") from None
    except RecursionError:
        raise Refused("a program is nested too deeply to be read") from None
    except MemoryError:
        raise TooLarge("not within the memory") from None
    finally:
        sys.setrecursionlimit(limit)


class _Checked:
    def __init__(self, held: Any, budget: Budget) -> None:
        _need(isinstance(held, dict), "a JSON object")
        for key, kind in _KEYS.items():
            _need(key in held and isinstance(held[key], kind), f"the key {key!r}")
        unknown = held.keys() - _KEYS.keys() - _OPTIONAL
        self.budget = budget
        _need(not unknown, f"no keys but those of the format, found {unknown}")
        _need("supremum" in held, "the key 'supremum'")
        _need(held["format"] == FORMAT, f"the format {FORMAT!r}")
        self.held = held
        self.bound = _fraction(held["bound"])
        self.externals, self.rules, self.assumed = read_externals(held.get("external", []))
        self.program = syntax.program(held["program"], self.externals)
        self.adjoint = syntax.program(held["adjoint"], self.externals)
        self.has_steps = held["derivation"] is not None
        if self.has_steps:
            _need(not self.externals, "no derivation of a program with external functions")
            _need(not trees.recurs(self.program.body), "no derivation of a program with recurrences")
            self.derivation = syntax.program(held["derivation"])
        else:
            _need(not held["steps"], "the derivation, as there are steps")
            self.derivation = replace(self.adjoint, body=Num(Fraction(0)))
        self.wrt: list[str] = held["wrt"]
        self._parameters()
        self.programmed: dict[str, tuple[Any, Any]] = {}
        """The programs of functions with loops and of their derivatives."""
        self.functions = self._functions()
        self.data = self._data()
        self.costs = self._costs()
        self.supremum = self._supremum()
        self.matches = self._matches()
        self.transports = self._transports()
        self.sizes: list[str] = []

    def report(self) -> Report:
        """Check everything."""
        called = frozenset(f for f, _ in calls(self.program.body))
        looped = check_loops(self.programmed, self.functions, called, self.budget)
        check_externals(self.externals, self.rules, (self.program, self.adjoint), self.budget)
        known = check_functions(self.functions, called, self.budget, looped.told)
        assumptions = [*self.assumed, *known, *looped.assumed]
        if not self.has_steps:
            return self._gradient(assumptions, looped.findings)
        derivation = self.replayed = self._statements()
        self.extracted = 0
        replay = Replay(derivation, Sets(self.data, self.budget))
        for k, step in enumerate(self.held["steps"]):
            try:
                self._step(replay, step)
            except Refused as refused:
                raise Refused(f"step {k}, {refused}") from None
        replay.finish()
        unmade = [x for x in derivation.statements if x not in self.own and x not in replay.made]
        zeros = [x for x in unmade if derivation.statements[x].number == 0 and Name(x) in self.results]
        _need(unmade == zeros, f"every statement to be the program's or made by a step, found {unmade}")
        _need(not self.own & replay.made, "no statement to be the program's and made by a step")
        samples = check_samples(self)
        steps = Finding("the derivation", replay.decided.keys() <= {FOR_ALL})
        values = list(self._values(thorough=False))
        (cost,) = self._cheap(steps.decided)
        for seconds in (_BRIEFLY, _SECONDS):
            if all(finding.decided for finding in (steps, *values)):
                break
            own = self._derived(self.budget.part(seconds))
            if own.decided:
                steps = replace(own, how="and not by the derivation that the file holds, of which not all is decided")
                values = []
                break
            values = list(self._values(True, values))
        findings = (steps, *values, cost, *looped.findings)
        if not all(finding.decided for finding in findings):
            self.budget.ask()
            search(self, [not finding.decided for finding in values], not cost.decided)
            self.budget.ask()
        many = len(self.held["steps"])
        return Report(
            self.program.name,
            self.bound,
            findings,
            tuple(assumptions),
            many,
            replay.decided,
            samples,
            self.extracted,
            self.found.plain(),
            tuple(self.found.searched),
        )

    def _gradient(self, assumptions: list[str], looped: tuple[Finding, ...]) -> Report:
        """For a file without steps: that the adjoint is the gradient, by a derivation of the checker's own, and that it
        is cheap."""
        self.extracted = 0
        value = self._derived(self.budget.part(self.budget.seconds / 2))
        (cost,) = self._cheap(derived=False)
        samples = check_samples(self)
        if not (value.decided and cost.decided):
            self.budget.ask()
            search(self, [not value.decided], not cost.decided)
            self.budget.ask()
        found = (value, cost, *looped)
        carried = self.found.plain(), tuple(self.found.searched)
        return Report(self.program.name, self.bound, found, tuple(assumptions), 0, {}, samples, 0, *carried)

    def _derived(self, budget: Budget) -> Finding:
        """That the adjoint is the gradient, by a derivation of the checker's own, without that of the file."""
        given = self.program, self.adjoint, self.wrt, self.held["cotangent"], self.functions, self.rules
        try:
            why = is_gradient(*given, budget)
        except TooLarge as error:
            self.budget.ask()
            why = str(error)
        what = "that the adjoint is the gradient, derived by the checker"
        return Finding(what, why is None, f"not shown of {why}" if why else "", sampled=not self.externals)

    def carried(self) -> dict[str, list[Any]]:
        """How costs are carried, whether or not anything else is so."""
        if not self.has_steps:
            costs = Costs(self.derivation, self.functions, self.budget, self.transports)
            costs.cheap(self.program, self.adjoint, self.bound, self.counted)
            return costs.plain()
        self._statements()
        costs = Costs(self.derivation, self.functions, self.budget, self.transports)
        if costs.cheap(self.program, self.adjoint, self.bound, self.counted):
            costs.budget = self.budget.part(_BRIEFLY)  # a second way is worth no more
        costs.derived(self.program, self.adjoint, self.outputs, self.results)
        return costs.plain()

    # ---- what is decided

    def _values(self, thorough: bool, before: Sequence[Finding | None] = (None, None)) -> Iterator[Finding]:
        """That the derivation starts from the program and ends with the adjoint, each unless it was decided before."""
        links = {
            "program": ("the values of the program and its tensor SSA", self.program, 0),
            "adjoint": ("the values of the adjoint and the derivation's results", self.adjoint, 1),
        }
        for done, (key, (what, program, part)) in zip(before, links.items(), strict=True):
            if done is not None and done.decided:
                yield done
                continue
            try:
                sides = Side(program), Side(self.derivation, part)
                why = equal(*sides, self.matches[key], self.budget, thorough)
            except Refused as refused:
                raise Refused(f"{what}: {refused}") from None
            except TooLarge as error:
                self.budget.ask()
                why = str(error)
            yield Finding(what, why is None, f"not shown of {why}" if why else "")

    def _cheap(self, derived: bool) -> Iterator[Finding]:
        """That the adjoint costs at most `bound` times the program, inputs and outputs counted: by the derivation, for
        which the theorem states it with a bound of 4, or by their charges alone."""
        costs = Costs(self.derivation, self.functions, self.budget, self.transports)
        ways = []
        if costs.cheap(self.program, self.adjoint, self.bound, self.counted):
            ways.append("by the charges of both alone")
            costs.searches = not self.transports  # the maker of the certificate has searched for the second way in vain
        if self.bound >= 4 and derived and costs.derived(self.program, self.adjoint, self.outputs, self.results):
            ways.append("by the derivation and its theorem")
        self.found = costs
        yield Finding("the cost", bool(ways), ", and ".join(ways) or "not shown")

    @property
    def counted(self) -> set[str]:
        """The parameters whose numbers are counted as inputs and outputs."""
        return {*self.wrt, self.held["cotangent"]}

    def charges(self, budget: Budget) -> tuple[list[Charge], list[Charge], list[Charge]] | None:
        """The charges of the program and the adjoint, and the numbers of inputs and outputs; None if they are not
        exact."""
        return Costs(self.derivation, self.functions, budget).exact(self.program, self.adjoint, self.counted)

    def _step(self, replay: Replay, step: Any) -> None:
        _need(isinstance(step, dict) and step.keys() == _STEP_KEYS, f"the keys {sorted(_STEP_KEYS)}")
        self.budget.spend()
        for key in ("before", "after", "made"):
            _need(isinstance(step[key], list) and all(isinstance(x, str) for x in step[key]), f"texts in {key!r}")
        rule = step["rule"]
        _need(isinstance(rule, str) and rule in THEOREMS, "a rule")
        try:
            _need(step["theorem"] == THEOREMS[rule], f"the theorem {THEOREMS[rule]}")
            arrays = frozenset(self.data.arrays)
            read = {key: [product(text, self.variables, arrays) for text in step[key]] for key in ("before", "after")}
            replay.step(rule, read["before"], read["after"], step["made"])
        except Refused as refused:
            raise Refused(f"{rule}: {refused}") from None

    # ---- what the texts say

    def _parameters(self) -> None:
        cotangent = self.held["cotangent"]
        own = [(x, _flat_type(kind)) for x, kind in self.program.params]
        for other in (self.adjoint, self.derivation):
            theirs = [(x, _flat_type(kind)) for x, kind in other.params]
            _need(theirs[:-1] == own and len(theirs) == len(own) + 1, f"{other.name} to have the program's parameters")
            _need(set(other.sizes) <= set(self.program.sizes), f"{other.name} to have the program's parameters")
            _need(theirs[-1][0] == cotangent, f"the last parameter of {other.name} to be {cotangent}")
        _need(self.adjoint.params[-1] == self.derivation.params[-1], "one type of the cotangent")
        real = [x for x, kind in self.program.params if _is_real(kind)]
        _need(bool(self.wrt) and all(isinstance(x, str) and x in real for x in self.wrt), "wrt to name real parameters")
        _need(len(set(self.wrt)) == len(self.wrt), "wrt to name each parameter once")

    def _functions(self) -> dict[str, Function]:
        found: dict[str, Function] = {}
        for f in self.held["functions"]:
            fits = isinstance(f, dict) and f.keys() - _FURTHER == {"name", "arity", "cost", "components"}
            _need(fits and isinstance(f["name"], str) and f["name"] not in found, "scalar functions, each once")
            _need(f["name"] not in self.externals, f"{f['name']} to be one function")
            _need(_FUNCTION.fullmatch(f["name"]) is not None, "the name of a function")
            told = f["components"] is not None
            fits = type(f["arity"]) is int and f["arity"] >= 1 and type(f["cost"]) is int
            _need(fits and (not told or isinstance(f["components"], list)), f"the components of {f['name']}")
            parts = f["components"] if told else []
            _need(not told or len(parts) == f["arity"], f"as many components as {f['name']} has arguments")
            _need(all(e is None or isinstance(e, str) for e in (*parts, f.get("body"))), "texts")
            _need(told or not known(f["name"]), f"the derivative of {f['name']}")
            _need(f["cost"] >= 1, f"{f['name']} to cost something")
            parts = tuple(None if e is None else syntax.expression(e) for e in parts)
            body = None if f.get("body") is None else syntax.expression(f["body"])
            found[f["name"]] = Function(f["name"], f["arity"], f["cost"], parts, body)
            if f.keys() & {"program", "derivative"}:
                _need(f.keys() >= {"program", "derivative"} and body is None and told, "programs and no body")
                self.programmed[f["name"]] = f["program"], f["derivative"]
        used: set[str] = set()
        programs = (self.program, self.adjoint, self.derivation, *self.rules.values())
        for program in programs:
            used |= {f for f, _ in calls(program.body)}
        for program in programs:
            for f, call in calls(program.body):
                _need(f in found and len(call.arguments) == found[f].arity, f"{f} of as many arguments as it has")
        inner = {f for g in found.values() for e in (*g.components, g.body) if e is not None for f, _ in calls(e)}
        unknown = {f for f in used | inner if not known(f)}
        _need(
            used | unknown <= found.keys() <= used | inner, f"the scalar functions that occur, {sorted(used | inner)}"
        )
        for g in found.values() if self.has_steps else ():  # else nothing rests on the theorem
            there = [e for e in g.components if e is not None]  # the others pass on no term, and none is added
            spent = sum(operations(e, found) for e in there) + max(0, len(there) - 1)
            _need(spent <= 3 * g.cost, f"the derivative of {g.name}, which costs {spent}, to cost at most 3 * {g.cost}")
        return found

    def _data(self) -> Data:
        relations, arrays = {}, {}
        optional: dict[str, tuple[tuple[str, ...], Pred]] = {}
        for x, kind in self.program.params:
            sizes, element = _shape(kind)
            if isinstance(element, Rel):
                relations[x] = element.sizes
            elif isinstance(element, Indices):
                arrays[x] = (sizes, element.size)
        for x, value in trees.lets(self.derivation.body)[0]:
            made = statement(x, value)
            if made.is_choice:
                inner, guards = made.body, []
                while not isinstance(inner, Best | Test):
                    guards.append(inner.pred)  # type: ignore[union-attr]
                    inner = inner.body  # type: ignore[union-attr]
                own_sizes = tuple(n for _, n in made.own)
                if isinstance(inner, Test):
                    arrays[x] = own_sizes, number(2)
                    if guards:
                        at_own = {i: name(f"${k}") for k, (i, _) in enumerate(made.own)}
                        optional[x] = tuple(f"${k}" for k in range(len(at_own))), renamed(All(tuple(guards)), at_own)
                    continue
                arrays[x] = own_sizes, inner.size
                if guards or inner.where != TRUE or not positive(inner.size):
                    own = {i: name(f"${k}") for k, (i, _) in enumerate(made.own)}
                    there = All((*guards, Exists(inner.index, inner.size, inner.where)))
                    optional[x] = tuple(f"${k}" for k in range(len(own))), renamed(there, own)
        return Data(relations, arrays, optional)

    def _matches(self) -> dict[str, list[tuple[str, str]]]:
        held = self.held["matches"]
        _need(held.keys() == {"program", "adjoint"}, "lets that match those of the derivation")
        found = {}
        for key, pairs in held.items():
            fits = isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
            _need(fits and all(isinstance(x, str) for pair in pairs for x in pair), "pairs of names")
            found[key] = [(x, y) for x, y in pairs]
        return found

    def _transports(self) -> dict[str, list[Carried]]:
        held = self.held["transports"]
        _need(held.keys() <= set(COMPARED), f"transports of {', '.join(COMPARED)}")
        _need(all(isinstance(steps, list) for steps in held.values()), "the steps of transports")
        read = {key: [*map(read_step, steps)] for key, steps in held.items()}
        return {key: [step for step in steps if step is not None] for key, steps in read.items()}

    def _costs(self) -> dict[str, Formula | None]:
        held, compared = self.held["costs"], self.held["compared"]
        _need(held.keys() == {"program", "ssa", "derived", "adjoint"}, "the costs of four programs")
        _need(compared.keys() == {"program", "adjoint"}, "how two programs were compared")
        _need(all(how in (ALL_SIZES, SMALL_SIZES) for how in compared.values()), f"{ALL_SIZES!r} or {SMALL_SIZES!r}")
        found: dict[str, Formula | None] = {}
        for key, program in self.programs.items():
            text = held[key]
            _need(text is None or isinstance(text, str), "a formula or null")
            arrays = [x for x, kind in program.params if isinstance(_shape(kind)[1], Indices)]
            arrays += [x for x, value in trees.lets(program.body)[0] if chooses(value)]
            found[key] = None if text is None else formula(text, arrays, self.budget)
        return found

    def _supremum(self) -> Supremum | None:
        held = self.held["supremum"]
        both = self.costs["program"], self.costs["adjoint"]
        if held is None:
            return None
        _need(all(cost is not None and not cost.has_data for cost in both), "no supremum of what only data tell")
        _need(isinstance(held, dict) and held.keys() == _SUPREMUM, f"the keys {sorted(_SUPREMUM)}")
        _need(isinstance(held["least"], str) and isinstance(held["where"], str), "texts")
        _need(held["most"] == held["least"] and isinstance(held["most"], str), "one number, as text")
        _need(isinstance(held["attained"], bool), "true or false")
        most = _fraction(held["most"])
        _need(most <= self.bound, f"a supremum of at most {self.bound}")
        return Supremum(_fraction(held["least"]), most, held["where"], held["attained"])

    @property
    def programs(self) -> dict[str, Program]:
        """The programs whose costs are stated, by the names of these costs."""
        return {
            "program": self.program,
            "ssa": self.derivation,
            "derived": self.derivation,
            "adjoint": self.adjoint,
        }

    def _statements(self) -> Derivation:
        bound, body = trees.lets(self.derivation.body)
        mentioned = self._mentioned()
        wheres = [x for x, _ in bound if x.startswith("where") and x in mentioned]
        statements = {x: statement(x, value) for x, value in bound if x not in wheres}
        _need(len(statements) + len(wheres) == len(bound), "each name to be bound once")
        shapes: dict[Operand, tuple[Affine, ...]] = {}
        for p, kind in self.derivation.params:
            for leaf, part in leaves(Name(p), kind):
                shapes[leaf] = _shape(part)[0]
        for x in statements.values():
            for operand, sizes in reads(x):
                known = () if isinstance(operand, Num) else shapes.get(operand)
                fits = sizes == known or (isinstance(operand, Num) and not sizes) or isinstance(operand, Integer)
                _need(fits, f"{x.name} to read what is defined before it, at indices of its sizes")
            shapes[Name(x.name)] = tuple(n for _, n in x.own)
        _need(isinstance(body, Pair), "the outputs and the results")
        assert isinstance(body, Pair)
        outputs, results = components(body.first), components(body.second)
        self.leaves = [
            leaf for x, kind in self.derivation.params if _is_real(kind) for leaf, _ in leaves(Name(x), kind)
        ]
        cotangent = self.derivation.params[-1]
        dys = [leaf for leaf, _ in leaves(Name(cotangent[0]), cotangent[1])]
        kinds = dict(self.derivation.params)
        xs = [leaf for x in self.wrt for leaf, _ in leaves(Name(x), kinds[x])]
        _need(len(outputs) == len(dys), "a part of the cotangent for each output")
        _need(len(results) == len(xs), "a cotangent for each input")
        numbers = [integers(g) for g in outputs]
        for g, array, end in zip(outputs + results, numbers + [None] * len(results), dys + xs, strict=True):
            known = shapes.get(g) if array is None else array[1]  # type: ignore[arg-type]
            fits = known == shapes[end] or (isinstance(g, Num) and not shapes[end])
            _need(fits, f"{g} to have the sizes of {end}")
        self.outputs, self.results, self.bound_lets = outputs, results, bound
        self.variables = frozenset(x for x, _ in (*bound, *self.derivation.params))
        self.own = {x for x, _ in needed(bound, outputs)}
        by_name = {x: statement(x, value) for x, value in bound if x in wheres}
        _need(all(x in by_name for x, _ in bound[len(statements) :]), "predicates to come last")
        ends = list(zip(results, xs, strict=True))
        ends_of = [g if made is None else made[0] for g, made in zip(outputs, numbers, strict=True)]
        starts = list(zip(dys, ends_of, strict=True))
        return Derivation(statements, shapes, by_name, self.functions, frozenset(xs), starts, ends)  # type: ignore[arg-type]

    def _mentioned(self) -> set[str]:
        """The names of predicates that inner products have."""
        found = set()
        for step in self.held["steps"]:
            _need(isinstance(step, dict), "steps")
            for text in (*_list(step.get("before")), *_list(step.get("after"))):
                match = _MASKED.search(text) if isinstance(text, str) else None
                if match is not None:
                    found.add(match[1])
        return found


def calls(e: Expr) -> Iterator[tuple[str, Call]]:
    """The scalar functions that are called in `e`, with the calls."""
    for node in trees.walked(e):
        if isinstance(node, Call):
            yield node.function, node


def leaves(e: Operand, kind: Type) -> list[tuple[Operand, Type]]:
    """The parts of a parameter whose type is `kind`, from left to right, each an array of numbers."""
    kind = _flat_type(kind)
    if isinstance(kind, PairType):
        return [*leaves(Part(0, e), kind.first), *leaves(Part(1, e), kind.second)]
    return [(e, kind)]


def _flat_type(kind: Type) -> Type:
    """The type with pairs of arrays for arrays of pairs."""
    if isinstance(kind, PairType):
        return PairType(_flat_type(kind.first), _flat_type(kind.second))
    if isinstance(kind, ArrayType):
        element = _flat_type(kind.element)
        if isinstance(element, PairType):
            along = partial(ArrayType, kind.size)
            return PairType(_flat_type(along(element.first)), _flat_type(along(element.second)))
        return ArrayType(kind.size, element)
    return kind


def _shape(kind: Type) -> tuple[tuple[Affine, ...], Type]:
    sizes = []
    while isinstance(kind, ArrayType):
        sizes.append(kind.size)
        kind = kind.element
    return tuple(sizes), kind


def _is_real(kind: Type) -> bool:
    return all(isinstance(_shape(part)[1], Real) for _, part in leaves(Name(""), kind))


def _fraction(text: str) -> Fraction:
    try:
        if len(text) > 100 or not _FRACTION.fullmatch(text):
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Refused(f"expected a fraction, found {text!r}") from None


def _list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else []


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(f"expected {what}")
