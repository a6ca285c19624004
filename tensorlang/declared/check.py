"""A declared adjoint compared with the derived one, or with finite differences of the function.

This is done at small sizes and random arguments, for a random cotangent of the value. A program's rule is compared
exactly wherever both can be evaluated on fractions; else, and for external functions, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tensorlang.errors import AdjointError, EvaluationError
from tensorlang.language.affine import Atom
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.grammar import Routine
from tensorlang.language.types import leaves, shape
from tensorlang.pipeline import adjoint

_MOST_SIZES = 8
_POINTS = 3
_STEP = 1e-5
_TOLERANCE = 1e-4

Examples = Callable[..., tuple[Any, ...]] | None


def check_rule(
    routine: Routine, f: Function | None, rule: Function, domain: tuple[float, float], examples: Examples
) -> None:
    """Raise `AdjointError` with a counterexample if `rule` is not the adjoint of `routine`, which is the program `f` or
    external."""
    rng = np.random.default_rng(0)
    derived = None if f is None else adjoint(f)
    compared = 0
    for sizes in _sizes(routine, 0 if f is not None and examples is None else 1):
        for _ in range(_POINTS):
            exact = derived is not None and examples is None
            arguments = _arguments(routine, sizes, domain, examples, rng, exact)
            bars = [_random(rng, _lengths(kind, sizes), (-2, 2), exact) for _, kind in leaves(routine.kind)]
            try:
                expected, found = _both(routine, f, derived, rule, arguments, bars, exact)
            except EvaluationError:
                if not exact:
                    continue
                arguments, bars = [x.astype(float) for x in arguments], [x.astype(float) for x in bars]
                exact = False
                expected, found = _both(routine, f, derived, rule, arguments, bars, exact)
            compared += _compare(routine, sizes, arguments, bars, expected, found, exact)
    if not compared:
        raise AdjointError(
            f"the adjoint of {routine.name} could not be checked: its value, or a derivative, is not finite at random "
            f"arguments from {domain[0]} to {domain[1]}",
            hint="domain=(0.5, 2.0), or examples=lambda rng, n: (arrays where it has a value)",
        )


def _sizes(routine: Routine, least: int) -> Iterator[dict[Atom, int]]:
    """Some combinations of small values for all sizes, the largest first."""
    names = list(dict.fromkeys(atom for p in routine.params for n in shape(p.type)[0] for atom in n.atoms))
    every = [dict(zip(names, values, strict=True)) for values in product(range(least, 4), repeat=len(names))]
    step = max(1, len(every) // _MOST_SIZES)
    yield from every[::-1][::step]


def _lengths(kind: Any, sizes: dict[Atom, int]) -> tuple[int, ...]:
    return tuple(n.value(sizes) for n in shape(kind)[0])


def _random(rng: np.random.Generator, lengths: Sequence[int], domain: tuple[float, float], exact: bool) -> Any:
    values = rng.uniform(*domain, size=lengths)
    if not exact:
        return np.asarray(values)
    made = np.empty(np.shape(values), object)
    flat = np.reshape(values, -1)
    made.reshape(-1)[:] = [Fraction(round(8 * float(x)), 8) for x in flat]
    return made


def _arguments(
    routine: Routine,
    sizes: dict[Atom, int],
    domain: tuple[float, float],
    examples: Examples,
    rng: np.random.Generator,
    exact: bool,
) -> list[Any]:
    if examples is None:
        return [_random(rng, _lengths(p.type, sizes), domain, exact) for p in routine.params]
    given = examples(rng, **{str(s): n for s, n in sizes.items()})
    given = given if isinstance(given, tuple | list) else (given,)
    made = [np.asarray(x, float) for x in given]
    wanted = [_lengths(p.type, sizes) for p in routine.params]
    if [x.shape for x in made] != wanted:
        raise AdjointError(
            f"examples gives arrays of the shapes {[x.shape for x in made]} for {routine.signature} at "
            f"{_shown_sizes(sizes)}, which has {wanted}",
            hint="a tuple of one array for each parameter",
        )
    return made


def _flat(value: Any) -> list[Any]:
    """The arrays of a value, tuples being pairs."""
    if isinstance(value, tuple):
        return [part for x in value for part in _flat(x)]
    return [np.asarray(value)]


def _both(
    routine: Routine,
    f: Function | None,
    derived: Function | None,
    rule: Function,
    arguments: list[Any],
    bars: list[Any],
    exact: bool,
) -> tuple[list[Any], list[Any]]:
    """The expected cotangents, derived or by finite differences, and those of the rule."""
    if f is None or derived is None:
        assert routine.compute is not None
        values = [np.asarray(x) for x in routine.compute(*arguments)]
        expected = _differences(routine.compute, arguments, bars)
    else:
        values = _flat(evaluate(f, *arguments, exact=exact))
        expected = _flat(evaluate(derived, *arguments, _nested(routine.kind, bars), exact=exact))
    found = evaluate(rule, *arguments, _nested(routine.kind, values), _nested(routine.kind, bars), exact=exact)
    return expected, _flat(found)


def _nested(kind: Any, parts: Sequence[Any]) -> Any:
    """The arrays as pairs, as `kind` has them."""
    left = iter(parts)

    def build(kind: Any) -> Any:
        return (build(kind.first), build(kind.second)) if hasattr(kind, "first") else next(left)

    return build(kind)


def _differences(compute: Callable[..., Any], arguments: list[Any], bars: list[Any]) -> list[Any]:
    """The derivative of <bars, value> with respect to each element: central differences, nan where the sides differ."""

    def total(values: Sequence[Any]) -> float:
        return float(sum(np.sum(np.asarray(y) * bar) for y, bar in zip(compute(*values), bars, strict=True)))

    here = total(arguments)
    found = []
    for k, x in enumerate(arguments):
        slopes = np.empty(x.shape)
        for at in np.ndindex(x.shape):
            sides = []
            for sign in (1, -1):
                moved = x.copy() if x.shape else np.asarray(x).copy()
                moved[at] += sign * _STEP
                sides.append(sign * (total([*arguments[:k], moved, *arguments[k + 1 :]]) - here) / _STEP)
            slopes[at] = sum(sides) / 2 if abs(sides[0] - sides[1]) <= 1e-2 * (1 + abs(sides[0])) else np.nan
        found.append(slopes)
    return found


def _compare(
    routine: Routine,
    sizes: dict[Atom, int],
    arguments: list[Any],
    bars: list[Any],
    expected: list[Any],
    found: list[Any],
    exact: bool,
) -> int:
    """The number of numbers that agree. Raises `AdjointError` for one that does not."""
    agree = 0
    for p, right, rule in zip(routine.params, expected, found, strict=True):
        for at in np.ndindex(right.shape):
            a, b = right[at], rule[at]
            if not exact and not np.isfinite(float(a)):
                continue
            if (a != b) if exact else not abs(float(a) - float(b)) <= _TOLERANCE * (1 + abs(float(a))):
                element = f"{p.name}[{', '.join(map(str, at))}]" if at else p.name
                how = "is" if exact else "is about"
                given = ", ".join(f"{q.name} = {_shown(x)}" for q, x in zip(routine.params, arguments, strict=True))
                raise AdjointError(
                    f"the declared adjoint of {routine.name} is not its adjoint: at {_shown_sizes(sizes)}{given}, for "
                    f"the cotangent {', '.join(map(_shown, bars))}, the cotangent of {element} {how} {_number(a)}, and "
                    f"the rule gives {_number(b)}",
                    hint="domain and examples say for which arguments it is to hold",
                )
            agree += 1
    return agree


def _shown_sizes(sizes: dict[Atom, int]) -> str:
    return "".join(f"{s}={n}, " for s, n in sizes.items())


def _shown(x: Any) -> str:
    if np.shape(x) == ():
        return _number(x.item() if hasattr(x, "item") else x)
    return f"[{', '.join(_shown(part) for part in x)}]"


def _number(x: Any) -> str:
    return str(x) if isinstance(x, Fraction | int) else f"{float(x):.5g}"
