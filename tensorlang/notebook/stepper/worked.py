"""A derivation worked through with numbers: the values of its statements and differentials at small sizes.

The reference evaluator computes them. Arrays that are not given are random but reproducible, and so is the direction in
which the differentials are taken. Each inner product is then a number, and the sum of all is the same before and after
every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorlang.costs.cost import known
from tensorlang.derivatives.derivation import Derivation, InnerProduct, Side
from tensorlang.derivatives.total import with_differentials
from tensorlang.errors import ArgumentError, TensorlangError
from tensorlang.language.affine import Lookup, Size, atom_affine
from tensorlang.language.arguments import from_leaves, leaf_shapes
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Parameter
from tensorlang.language.grammar import Var
from tensorlang.language.grid import Setting, expand
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import TRUE, lookups
from tensorlang.normal.as_program import read, to_function
from tensorlang.normal.pattern import axes
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.normal.ssa import (
    SSA,
    Constant,
    Defining,
    Input,
    Integers,
    Outputs,
    Statement,
    integers,
    is_given,
    live,
    own_ranges,
)
from tensorlang.notebook.stepper.rows import (
    Closing,
    Differential,
    LetRow,
    Opening,
    Paired,
    Part,
    Split,
    Under,
    Zero,
    cotangent,
)
from tensorlang.notebook.stepper.settings import Chosen

Reals = NDArray[np.float64]

_MOST_STATEMENTS = 120
_MOST_ELEMENTS = 10_000
_SHOWN = 4
_SEED = 0


@dataclass(frozen=True)
class Worked:
    """The values of statements and of their differentials, and the setting at which they were computed."""

    values: Mapping[Statement, Reals]
    differentials: Mapping[Statement, Reals]
    setting: Setting
    cotangent: Var

    def product(self, product: InnerProduct) -> float | None:
        """The value of an inner product; None if its points depend on choices by the program itself."""
        left, right = self.values.get(product.left), self.differentials.get(product.right)
        if left is None or right is None:
            return None
        if product.pred is TRUE:
            return product.sign * float(np.sum(left * right))
        if any(lookup.array not in self.setting.arrays for lookup in lookups(product.pred)):
            return None
        ranges = own_ranges(product.right)
        points, _ = expand(ORIGIN, list(ranges.items()), product.pred, self.setting)
        at = tuple(points.columns[i] for i in ranges)
        return product.sign * float(np.sum(np.asarray(left * right)[at])) if points.count else 0.0

    def given(self) -> list[tuple[str, str]]:
        """The parameters, the differentials of differentiated ones, and their values."""
        own = [x for x in self.values if isinstance(x, Input) and is_given(x) and not isinstance(x, Integers)]
        rows = [(str(read(x, {})), array_text(self.values[x])) for x in own]
        return rows + [
            (f"d{read(x, {})}", array_text(self.differentials[x])) for x in own if self.differentials[x].any()
        ]

    def row(self, part: Part) -> Reals | None:
        """The value of a row of the expression: for a let, the value that it defines, else a number; None if none."""
        match part:
            case LetRow(x) | Under(x):
                return self.values.get(x)
            case Differential(x):
                return self.differentials.get(x)
            case Zero():
                return np.zeros(())
            case Closing():
                return None
            case InnerProduct():
                products = [part]
            case Paired(_, _, parts):
                products = list(parts)
            case Opening(outputs):
                products = [_whole(self.cotangent, path, x) for path, x in _parts(outputs)]
            case Split(outputs, path):
                products = [_whole(self.cotangent, (*path, *further), x) for further, x in _parts(outputs)]
        found = [self.product(product) for product in products]
        return None if any(value is None for value in found) else np.asarray(sum(found))  # type: ignore[arg-type]


def _whole(cotangent: Var, path: tuple[int, ...], x: Statement) -> InnerProduct:
    """<dY | D X> for a part of the output."""
    return InnerProduct(Input(cotangent, path, x.shape), x, Side.VARIABLE)


def _parts(outputs: Outputs) -> list[tuple[tuple[int, ...], Statement]]:
    """The parts of an output, from left to right, with the projections that lead to them."""
    found: list[tuple[tuple[int, ...], Statement]] = []
    stack: list[tuple[tuple[int, ...], Outputs]] = [((), outputs)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, tuple):
            stack += [((*path, 1), part[1]), ((*path, 0), part[0])]
        else:
            found.append((path, part))
    return found


def worked(d: Derivation, chosen: Chosen) -> Worked | None:
    """`d` at these sizes and data; None for long or large ones, for recurrences, and where there is no value."""
    program = d.program
    if len(program.statements) + len(d.result.statements) > _MOST_STATEMENTS or has_recurrences(d.function):
        return None
    lefts = [q.left for step in d.steps for q in (*step.before, *step.after)]
    made = [x for step in d.steps for x in step.made]
    points = {x: _points(x) for x in program.statements if isinstance(x, Defining)}
    total, differentials = with_differentials(program, d.wrt)
    outputs = [_whole(cotangent(d), *part).left for part in _parts(program.outputs)]
    wanted = [*program.statements, *outputs, *lefts, *made, *points.values()]
    try:
        setting = known(to_function(program), chosen.data)
        for positive in (False, True):  # logarithms and roots need positive numbers
            draw = _Draw(setting.sizes, chosen.data, positive)
            args = {p: draw(p) for p in (*d.result.params, *total.params[len(program.params) :])}
            values = _values(replace(program, params=d.result.params), wanted, args)
            found = _values(total, differentials.values(), args)
            if all(isfinite(v) for x in (*values.values(), *found.values()) for v in x.reshape(-1).tolist()):
                break
    except TensorlangError:
        return None
    zeros = {x: np.zeros_like(value) for x, value in values.items()}
    own = {x: found[y] for x, y in differentials.items() if y in found}
    arrays = {x.array: values[at].astype(np.int64)[None] for x, at in points.items()}
    return Worked(values, zeros | own, replace(setting, arrays={**setting.arrays, **arrays}), cotangent(d))


def _points(x: Defining) -> Statement:
    """The index array that `x` defines, as numbers."""
    own = axes(0, len(x.array.sizes))
    return integers(atom_affine(Lookup(x.array, tuple(map(atom_affine, own)))), x.array.sizes)


class _Draw:
    """Values for parameters: the given ones, else random ones with few digits."""

    def __init__(self, sizes: Mapping[Size, int], given: Mapping[str, Any], positive: bool) -> None:
        self.sizes, self.given = sizes, given
        self.random = Random(_SEED)  # Python's generator, which does not depend on the version of NumPy
        self.least = 0.5 if positive else -1.5

    def __call__(self, p: Parameter) -> Any:
        if p.name in self.given:
            return self.given[p.name]
        if not isinstance(p, Var):
            raise ArgumentError(f"nobody gave {p.name}")
        shapes = [tuple(n.value(self.sizes) for n in shape) for shape in leaf_shapes(p.type)]  # type: ignore[arg-type]
        if any(n < 0 for shape in shapes for n in shape) or sum(map(prod, shapes)) > _MOST_ELEMENTS:
            raise ArgumentError("an axis is negative, or there are too many numbers to look at")
        return from_leaves(p.type, map(self._array, shapes))

    def _array(self, shape: tuple[int, ...]) -> Reals:
        drawn = [round(self.random.uniform(self.least, 1.5), 1) for _ in range(prod(shape))]
        return np.asarray(drawn, np.float64).reshape(shape)


def _values(s: SSA, wanted: Iterable[Statement], args: Mapping[Parameter, Any]) -> dict[Statement, Reals]:
    """The values of the wanted statements, by one evaluation."""
    found = [x for x in dict.fromkeys(wanted) if not isinstance(x, Defining | Constant)]
    constants: dict[Statement, Reals] = {x: np.full((), float(x.value)) for x in wanted if isinstance(x, Constant)}
    if not found:
        return constants
    outputs: Outputs = found[-1]
    for x in reversed(found[:-1]):
        outputs = (x, outputs)
    whole = live(replace(s, statements=(*s.statements, *found), outputs=outputs, results=None))
    value = evaluate(to_function(whole), {p.name: args[p] for p in s.params})
    values = []
    for _ in found[:-1]:
        first, value = value
        values.append(first)
    constants.update(zip(found, map(np.asarray, (*values, value)), strict=True))
    return constants


def number_text(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}".replace("-", "−")


def array_text(value: Reals) -> str:
    """The first elements of an array, and its shape if that is not obvious."""
    if not value.ndim:
        return number_text(float(value))
    whole = value.size <= _SHOWN
    shown = [number_text(x) for x in value.reshape(-1)[: value.size if whole else _SHOWN - 1].tolist()]
    text = f"[{' '.join(shown if whole else [*shown, '…'])}]"
    return text if value.ndim == 1 and whole else f"{text} ({'×'.join(map(str, value.shape))})"
