"""Random lists of SSA statements, which reach forms that programs translated by the passes don't.

All accesses of SSA are at plain indices in their ranges, so any predicate will do.
"""

from __future__ import annotations

import random
from fractions import Fraction

from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.functions import power
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    not_equal,
)
from tensorlang.language.types import R, array
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Outputs,
    Statement,
    inner_ranges,
    own_indices,
    own_ranges,
)

SIZES = (atom_affine(Size("n")), atom_affine(Size("m")), constant(2), atom_affine(Size("n")) + 1)


def random_ssa(rng: random.Random, length: int = 5) -> SSA:
    """A random list of at most `length` statements of rank at most 2, of which the last ones are the outputs."""
    shapes = [(SIZES[0],), (SIZES[1],), *(_shape(rng) for _ in range(rng.randint(0, 2)))]
    variables = [Var(name, array(shape, R)) for name, shape in zip("xwzv", shapes, strict=False)]
    made: list[Statement] = [Input(x, (), shape) for x, shape in zip(variables, shapes, strict=False)]
    for _ in range(rng.randint(1, length)):
        made.append(rng.choice([_addition, _map, _contraction, _contraction, _contraction, _constant])(rng, made))
    statements = tuple(dict.fromkeys(made))
    outputs: Outputs = statements[-1]
    if rng.random() < 0.3:
        outputs = (rng.choice(statements), outputs)
    return SSA("f", tuple(variables), statements, outputs)


def _shape(rng: random.Random) -> tuple[Affine, ...]:
    return tuple(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2))))


def _addition(rng: random.Random, made: list[Statement]) -> Statement:
    shape = rng.choice(made[-3:]).shape
    operands = [x for x in made if x.shape == shape]
    places = own_ranges(Constant(Fraction(0), shape))
    terms = [
        Addend(rng.choice((1, 1, -1)), _predicate(rng, list(places), 2), rng.choice(operands))
        for _ in range(rng.choice((2, 2, 3, 1)))
    ]
    return Addition(tuple(terms), shape)


def _map(rng: random.Random, made: list[Statement]) -> Statement:
    x = rng.choice(made)
    return Map(_predicate(rng, list(own_indices(x)), 2), power(rng.choice((2, 3))), (x,), x.shape)


def _constant(rng: random.Random, made: list[Statement]) -> Statement:
    return Constant(Fraction(rng.randint(-2, 2)), rng.choice(made).shape)


def _contraction(rng: random.Random, made: list[Statement]) -> Statement:
    factors = tuple(rng.choice(made[-4:]) for _ in range(rng.choice((1, 2, 2))))
    summed = (rng.choice(SIZES),) if rng.random() < 0.3 else ()
    x = Contraction(TRUE, factors, summed, _shape(rng))
    indices = [*own_ranges(x), *inner_ranges(x)]
    parts = [_equality(rng, indices) for _ in range(rng.choice((0, 1, 2, 2, 3)))] if indices else []
    return Contraction(conjunction([*parts, _predicate(rng, indices, 1)]), factors, summed, x.shape)


def _equality(rng: random.Random, indices: list[Index]) -> Predicate:
    i, j = atom_affine(rng.choice(indices)), atom_affine(rng.choice(indices))
    return equal(i * rng.choice((1, 1, 1, 2)), j + rng.choice((0, 0, 0, 1, -1)))


def _predicate(rng: random.Random, indices: list[Index], depth: int) -> Predicate:
    kind = rng.random()
    if not indices or kind < 0.35:
        return TRUE
    if depth and kind < 0.5:
        parts = [_predicate(rng, indices, depth - 1) for _ in range(2)]
        return conjunction(parts) if rng.random() < 0.5 else disjunction(parts)
    if depth and kind < 0.57:
        k = Index("k")
        return Exists(k, rng.choice(SIZES), _predicate(rng, [*indices, k], depth - 1))
    i = atom_affine(rng.choice(indices))
    other = [atom_affine(rng.choice(indices)), constant(rng.randint(0, 2)), rng.choice(SIZES) - 1]
    return rng.choice([less, at_most, equal, not_equal])(i, rng.choice(other) + rng.choice((0, 0, 1)))
