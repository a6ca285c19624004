"""Values, derivatives and costs compared with the definitions at small sizes, with random data."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from . import trees
from .budget import Budget, TooLarge
from .extracted import agrees
from .names import extended
from .points import Sets
from .semantics import (
    Dual,
    Lazy,
    Semantics,
    Undefined,
    dual,
    flat,
    forced,
    names_in,
    plain,
)
from .trees import (
    Expr,
    Let,
    Refused,
    needed,
)

if TYPE_CHECKING:
    from .certificate import _Checked

_LARGEST = 3
_MOST_SAMPLES = 12
_DRAWS = 4
_MOST_OPERATIONS = 20_000
_LARGER = (1, 2, 3, 4, 7, 16, 33, 100)
_MOST_VECTORS = 600
_GROWN = (10**4, 10**6)
_SECONDS = 3.0

Numbers = Sequence[int]
"""The numbers that data are drawn from, in quarters."""
POSITIVE: Numbers = range(1, 9)
SIGNED: Numbers = (*range(-8, 0), *range(1, 9))
TIED: Numbers = (-4, 0, 0, 4)
"""Numbers of which many are 0 and many are equal: only for such data do comparisons of values differ."""


@dataclass(frozen=True)
class Supremum:
    """A claim about the largest ratio of adjoint to program, inputs and outputs counted: that it is between two
    numbers, and where it equals or approaches the lower one."""

    least: Fraction
    most: Fraction | None
    where: str
    attained: bool


def check_samples(held: _Checked) -> int:
    """Compare at small sizes what `held` says about values and costs. Return the number of choices of sizes."""
    found = 0
    budget = held.budget.part(_SECONDS)
    names = held.sizes = sorted(sizes_of(held))
    draws = range(_DRAWS if held.data.relations or held.data.arrays else 2)
    vectors = sorted(product(range(_LARGEST + 1), repeat=len(names)), key=lambda v: (sum(v), v))
    for values, draw in product(vectors, draws):
        sizes = dict(zip(names, values, strict=True))
        try:
            spent = _sample(held, sizes, random.Random(f"{values} {draw}"), budget, (POSITIVE, SIGNED)[draw % 2])
        except (Undefined, OverflowError):
            continue
        except TooLarge:
            break
        found += spent is not None and all(values)
        if found >= _MOST_SAMPLES * len(draws) or (spent or 0) > _MOST_OPERATIONS:
            break
    _check_formulas(held, names)
    _check_supremum(held, names)
    return found


def told_sizes(sizes: Mapping[str, int]) -> str:
    """Sizes as written in a message."""
    return ", ".join(f"{x} = {n}" for x, n in sizes.items()) or "every size"


def _check_supremum(held: _Checked, names: list[str]) -> None:
    """Check that the ratio is nowhere above its stated upper bound, and reaches its stated lower bound where that is
    claimed."""
    own, adjoint, told = held.costs["program"], held.costs["adjoint"], held.supremum
    if told is None or own is None or adjoint is None or own.has_data or adjoint.has_data:
        return

    def ratio(sizes: Mapping[str, int]) -> Fraction | None:
        others = sum(_numbers(meaning, kind, sizes) for x, kind in held.derivation.params if x in counted)
        below = own.at(sizes) + others
        return (adjoint.at(sizes) + others) / below if below else None

    counted = {*held.wrt, held.held["cotangent"]}
    meaning = Semantics({}, held.budget)
    for values in islice(product(_LARGER, repeat=len(names)), _MOST_VECTORS):
        sizes = dict(zip(names, values, strict=True))
        found = ratio(sizes) if _fits(held, sizes) else None
        if found is not None and told.most is not None and found > told.most:
            raise Refused(f"the ratio at {sizes} is {found}, more than the largest that is told, {told.most}")
    if told.least and not any(_is_reached(ratio, told, names, speeds) for speeds in product((1, 2), repeat=len(names))):
        raise Refused(f"the ratio does not come to {told.least} at {told.where}")


def _is_reached(ratio: Any, told: Supremum, names: list[str], speeds: tuple[int, ...]) -> bool:
    """Whether the ratio is `least` where that is claimed, or approaches it as sizes grow at these speeds."""
    distances: list[Fraction] = []
    for t in _GROWN:
        sizes = {x: t**speed for x, speed in zip(names, speeds, strict=True)}
        for part in told.where.split(", ") if told.where != "no size matters" else ():
            match = re.fullmatch(r"(\w+) (?:= (\d+)|grows)", part)
            if match is None or match[1] not in sizes:
                raise Refused(f"{told.where!r} does not say where")
            if match[2]:
                sizes[match[1]] = int(match[2])
        found = ratio(sizes)
        if found is None:
            return False
        distances.append(abs(found - told.least))
    if told.attained:
        return not any(distances)
    return distances[1] <= distances[0] and distances[1] < Fraction(1, 1000)


def _numbers(meaning: Semantics, kind: Any, sizes: Mapping[str, int]) -> int:
    """How many numbers a value holds."""
    match kind:
        case trees.ArrayType(size, element):
            return max(0, meaning.index(size, sizes)) * _numbers(meaning, element, sizes)
        case trees.PairType(first, second):
            return _numbers(meaning, first, sizes) + _numbers(meaning, second, sizes)
    return 1


def _check_formulas(held: _Checked, names: list[str]) -> None:
    """Check by the formulas at many sizes what is said to cost no more for all sizes, unless the formulas depend on
    data."""
    for key, small, large in (("program", "ssa", "program"), ("adjoint", "adjoint", "derived")):
        low, high = held.costs[small], held.costs[large]
        if low is None or high is None or low.has_data or high.has_data:
            continue
        for values in islice(product(_LARGER, repeat=len(names)), _MOST_VECTORS):
            sizes = dict(zip(names, values, strict=True))
            if held.held["compared"][key] == "all sizes" and low.at(sizes) > high.at(sizes) and _fits(held, sizes):
                raise Refused(f"by its formula {small!r} costs more than {large!r} at {sizes}")


def _fits(held: _Checked, sizes: Mapping[str, int]) -> bool:
    """Whether every parameter can have these sizes."""
    meaning = Semantics({}, held.budget)
    return all(n >= 0 for _, kind in held.derivation.params for n in _extents(meaning, kind, sizes))


def _extents(meaning: Semantics, kind: Any, sizes: Mapping[str, int]) -> list[int]:
    match kind:
        case trees.ArrayType(size, element):
            return [meaning.index(size, sizes), *_extents(meaning, element, sizes)]
        case trees.PairType(first, second):
            return [*_extents(meaning, first, sizes), *_extents(meaning, second, sizes)]
    return []


def sizes_of(held: _Checked) -> set[str]:
    """The names of the sizes in a certificate."""
    found: set[str] = set()
    for _, kind in held.derivation.params:
        found |= names_of_type(kind)
    for program in (held.program, held.adjoint, held.derivation):
        found |= _free(program)
    return (found - {x for x, _ in held.derivation.params}) | set(held.program.sizes)


def names_of_type(kind: Any) -> set[str]:
    """The sizes that a type names."""
    match kind:
        case trees.ArrayType(size, element):
            return set(names_in(size)) | names_of_type(element)
        case trees.PairType(first, second):
            return names_of_type(first) | names_of_type(second)
        case trees.Indices(size):
            return set(names_in(size))
        case trees.Rel(sizes):
            return set().union(*map(names_in, sizes))
    return set()


def _free(program: trees.Program) -> set[str]:
    """The names of sizes in a program: names in ranges that nothing binds."""
    ranges: set[str] = set()
    bound: set[str] = set()
    for node in trees.walked(program.body):
        if isinstance(node, trees.Gen | trees.Sum | trees.Best | trees.Exists | trees.Recur):
            ranges |= names_in(node.size)
            bound.add(node.index)
        if isinstance(node, Let):
            bound.add(node.name)
    return ranges - bound


def _sample(
    held: _Checked, sizes: Mapping[str, int], rng: random.Random, budget: Budget, numbers: Numbers
) -> int | None:
    """Compare at these sizes. Return the cost of the derivation, or None if some parameter can't have these sizes."""
    if not _fits(held, sizes):
        return None
    meaning = Semantics(held.functions, budget)
    env = drawn_env(held, meaning, sizes, rng, numbers, budget)
    if env is None:
        return None
    slopes = drawn_slopes(held, env, rng)
    if not held.has_steps:
        spent = _check_costs(held, meaning, env)[1]
        check_gradient(held, meaning, env, slopes)
        return spent
    results = _check_values(held, meaning, env, slopes)
    ssa, derived = _check_costs(held, meaning, env)
    d = held.replayed
    values = {leaf: forced(meaning.value(leaf, env)) for leaf in held.leaves}
    own = [x for x in d.statements if x in held.own]
    held.extracted += agrees(d, own, values, meaning, _with_lets(held.bound_lets, meaning, env), ssa, derived, results)
    return derived


def drawn_env(
    held: _Checked, meaning: Semantics, sizes: Mapping[str, int], rng: random.Random, numbers: Numbers, budget: Budget
) -> dict[str, Any] | None:
    """Sizes and random data; None if an index array can have no elements, but some are asked for."""
    env: dict[str, Any] = {**Sets(held.data, budget).draw(sizes, rng), **sizes}
    for x, kind in held.derivation.params:
        if x not in env:
            env[x] = _typed(meaning, _drawn(meaning, kind, sizes, rng, numbers), kind, sizes)
        elif x in held.data.arrays and flat(env[x]) and not meaning.index(held.data.arrays[x][1], sizes):
            return None
    return env


def _typed(meaning: Semantics, value: Any, kind: Any, sizes: Mapping[str, int]) -> Lazy:
    """A parameter's value with its type, which an empty array does not determine."""
    return Lazy(lambda: value, lambda: _kind(meaning, kind, sizes))


def _kind(meaning: Semantics, kind: Any, sizes: Mapping[str, int]) -> Any:
    match kind:
        case trees.ArrayType(size, element):
            return [meaning.index(size, sizes), _kind(meaning, element, sizes)]
        case trees.PairType(first, second):
            return _kind(meaning, first, sizes), _kind(meaning, second, sizes)
    return None


def _drawn(meaning: Semantics, kind: Any, sizes: Mapping[str, int], rng: random.Random, numbers: Numbers) -> Any:
    match kind:
        case trees.ArrayType(size, element):
            return [_drawn(meaning, element, sizes, rng, numbers) for _ in range(meaning.index(size, sizes))]
        case trees.PairType(first, second):
            return _drawn(meaning, first, sizes, rng, numbers), _drawn(meaning, second, sizes, rng, numbers)
    return Fraction(rng.choice(numbers), 4)


def _map(fn: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_map(fn, part) for part in value)
    return [_map(fn, part) for part in value] if isinstance(value, list) else fn(value)


def _check_values(held: _Checked, meaning: Semantics, env: Mapping[str, Any], slopes: Mapping[str, Any]) -> list[Any]:
    both = meaning.value(held.derivation.body, env)
    own, results = flat(both[0]), flat(both[1])
    same_values(own, flat(meaning.value(held.program.body, env)), "the program and its tensor SSA")
    same_values(results, flat(meaning.value(held.adjoint.body, env)), "the derivation's results and the adjoint")
    check_gradient(held, meaning, env, slopes, results)
    return _arrays(both[1])


def drawn_slopes(held: _Checked, env: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """A direction in which the parameters move."""
    return {x: _map(lambda _: Fraction(rng.randint(-4, 4), 2), forced(env[x])) for x in held.wrt}


def check_gradient(
    held: _Checked,
    meaning: Semantics,
    env: Mapping[str, Any],
    slopes: Mapping[str, Any],
    results: list[Any] | None = None,
) -> None:
    """Raise `Refused` if the adjoint, whose numbers are `results`, has a slope other than that of dual numbers."""
    if results is None:
        results = flat(meaning.value(held.adjoint.body, env))
    moving = {**env, **{x: _moving(env[x], d) for x, d in slopes.items()}}
    moved = [dual(y) for y in flat(meaning.value(held.program.body, moving))]
    dys = flat(forced(env[held.held["cotangent"]]))
    forward = sum((plain(y.slope) * dy for y, dy in zip(moved, dys, strict=True)), Fraction(0))
    directions = [d for x in held.wrt for d in flat(slopes[x])]
    backward = sum((g * d for g, d in zip(results, directions, strict=True)), Fraction(0))
    same_values([forward], [backward], "<dY | D f(x) dx> and <adjoint | dx>")


def _arrays(value: Any) -> list[Any]:
    """The arrays in nested pairs."""
    return [x for part in value for x in _arrays(part)] if isinstance(value, tuple) else [value]


def _moving(value: Lazy, slope: Any) -> Lazy:
    """A parameter's value as dual numbers."""
    return Lazy(lambda: _paired(forced(value), slope), value.kind)


def _paired(value: Any, slope: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_paired(v, s) for v, s in zip(value, slope, strict=True))
    if isinstance(value, list):
        return [_paired(v, s) for v, s in zip(value, slope, strict=True)]
    return Dual(value, slope)


def same_values(first: list[Any], second: list[Any], what: str) -> None:
    """Raise `Refused` if two lists of numbers are not the same."""
    if len(first) != len(second):
        raise Refused(f"{what} have {len(first)} and {len(second)} numbers")
    for a, b in zip(first, second, strict=True):
        exact = isinstance(a, int | Fraction) and isinstance(b, int | Fraction)
        if a != b if exact else abs(a - b) > 1e-8 * (1 + abs(a) + abs(b)):
            raise Refused(f"{what} differ: {a} and {b}")


def _check_costs(held: _Checked, meaning: Semantics, env: Mapping[str, Any]) -> tuple[int, int]:
    program = meaning.cost(held.program.body, env)
    adjoint = meaning.cost(held.adjoint.body, env)
    claimed = all(env[x] for x in held.sizes)  # claims are for sizes of at least 1
    if not held.has_steps:
        if claimed:
            _check_told(held, meaning, env, {"program": program, "adjoint": adjoint})
            _need_cheap(held, env, program, adjoint)
        return program, adjoint
    ssa = meaning.cost(_under(needed(held.bound_lets, held.outputs), held.outputs), env)
    derived = meaning.cost(_under(needed(held.bound_lets, held.results), held.results), env)
    if not claimed:
        return ssa, derived
    _check_told(held, meaning, env, {"program": program, "ssa": ssa, "derived": derived, "adjoint": adjoint})
    if ssa > program:
        raise Refused(f"the program's tensor SSA costs {ssa}, more than the program, {program}")
    if adjoint > derived:
        raise Refused(f"the adjoint costs {adjoint}, more than what was derived, {derived}")
    _need_cheap(held, env, program, adjoint)
    return ssa, derived


def _check_told(held: _Checked, meaning: Semantics, env: Mapping[str, Any], costs: Mapping[str, int]) -> None:
    """Raise `Refused` if a formula of the file states a different cost of a program."""
    for key, counted in costs.items():
        told = held.costs[key]
        if told is not None and told.at(_with_choices(held, meaning, key, env)) != counted:
            raise Refused(f"the cost of {key!r} is {counted}, not as told {told.at(env)}")


def check_bound(held: _Checked, meaning: Semantics, env: Mapping[str, Any]) -> None:
    """Raise `Refused` if the adjoint costs more than the bound times the program, inputs and outputs counted."""
    _need_cheap(held, env, meaning.cost(held.program.body, env), meaning.cost(held.adjoint.body, env))


def _need_cheap(held: _Checked, env: Mapping[str, Any], program: int, adjoint: int) -> None:
    others = sum(len(flat(forced(env[x]))) for x in held.counted)
    if adjoint + others > held.bound * (program + others):
        raise Refused(f"the adjoint costs {adjoint} and the program {program}, with {others} inputs and outputs")


def _with_choices(held: _Checked, meaning: Semantics, key: str, env: Mapping[str, Any]) -> Mapping[str, Any]:
    """`env` with the indices that the outermost lets of a program choose."""
    return _with_lets(trees.lets(held.programs[key].body)[0], meaning, env)


def _with_lets(lets: list[tuple[str, Expr]], meaning: Semantics, env: Mapping[str, Any]) -> Mapping[str, Any]:
    for x, value in lets:
        env = extended(env, x, meaning.bound(value, env))
    return env


def _under(lets: list[tuple[str, Expr]], roots: list[Expr]) -> Expr:
    e = roots[-1]
    for root in reversed(roots[:-1]):
        e = trees.Pair(root, e)
    for x, value in reversed(lets):
        e = Let(x, value, e)
    return e
