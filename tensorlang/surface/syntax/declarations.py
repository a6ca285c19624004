"""The syntax of definitions, parameters, types and sizes, read by `tensorlang.surface.declarations`."""

from __future__ import annotations

from tensorlang.language.affine import Affine, IndexArray, Lookup, Size
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Array, Pair, Real
from tensorlang.surface.syntax.construct import Category, Construct

DEFINITIONS = Category(
    "definition",
    "Definitions",
    (
        Construct(
            "program",
            'NAME "(" [parameter ("," parameter)* ","?] ")" "=" expression',
            "A program: a name, parameters with their types, and an expression of them. A text may define "
            "several, which may call those before them. A comment runs from `--` to the end of its line.",
            "dot(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]  -- n is read off the arrays",
            "tl.sum(n, lambda i: x[i] * y[i])",
        ),
        Construct(
            "scalar",
            '"scalar" NAME "(" scalar_parameter ("," scalar_parameter)* ")" ["by" ("dual" | "reverse")] "=" block',
            "A function of numbers, with branches and with loops that data end: what `tl.scalar` makes of Python, and "
            "prints. Programs after it call it. Its derivatives come from dual numbers or from a stored reverse pass.",
            "scalar huber(x, d) = if abs(x) <= d then 0.5 * x ^ 2 else d * (abs(x) - 0.5 * d)  "
            "f(x: [n]R) = sum i:n. huber(x[i], 1)",
            None,
        ),
    ),
)

PARAMETERS = Category(
    "parameter",
    "Parameters",
    (
        Construct(
            "value_parameter",
            'NAME ":" type',
            "A real-valued parameter, or one of indices if its type ends in `idx(m)`. Names in its sizes that are"
            " not known yet are sizes from here on: natural numbers that the arguments' shapes tell.",
            "f(x: [n][m]R, y: [n]R) = gen i:n. sum j:m. x[i, j] * y[i]",
            "tl.gen(n, lambda i: tl.sum(m, lambda j: x[i, j] * y[i]))",
            (Var, Size),
        ),
        Construct(
            "relation_parameter",
            'NAME ":" "rel" "(" size ("," size)* ")"',
            "A data relation: a boolean array, or a SciPy sparse matrix of which only the places of entries "
            "count. It stands in predicates alone. Outside of its sizes it is false.",
            "degree(E: rel(n, m)) = gen i:n. sum j:m. [E(i, j)]",
            "tl.gen(n, lambda i: tl.sum(m, lambda j: E(i, j) * 1))",
            (Relation,),
        ),
        Construct(
            "size_parameter",
            'NAME ":" "size"',
            "A size that no type tells: an argument that is given by name. One that is the range of an index need not "
            "be declared.",
            "first(x: [n]R, k: size) = sum i:n. [i < k] * x[i]",
            "tl.sum(n, lambda i: (i < k) * x[i])",
            (Size,),
        ),
    ),
)

TYPES = Category(
    "type",
    "Types",
    (
        Construct(
            "real",
            '"R"',
            "A real number.",
            "f(x: R) = x * x",
            "x * x",
            (Real,),
        ),
        Construct(
            "array",
            '"[" size "]" type',
            "An array, the size in front as in the paper: `[n][m]R` is n rows of m numbers.",
            "transposed(x: [n][m]R) = gen j:m, i:n. x[i, j]",
            "tl.gen((m, n), lambda j, i: x[i, j])",
            (Array,),
        ),
        Construct(
            "pair_of_types",
            '"(" type "," type ")"',
            "Pairs of two types. In Python, a tuple; longer tuples are pairs nested to the right.",
            "f(p: ([n]R, R)) = sum i:n. fst(p)[i] * snd(p)",
            "tl.sum(n, lambda i: tl.fst(p)[i] * tl.snd(p))",
            (Pair,),
        ),
        Construct(
            "indices",
            '"idx" "(" size ")"',
            "An index, an integer from 0 to the size less 1. Only index arrays are of such types: parameters `y: "
            "[n]idx(m)`, an array of integers, and what a choice is bound to.",
            "picked(x: [n][m]R, y: [n]idx(m)) = gen i:n. x[i, y[i]]",
            "tl.gen(n, lambda i: x[i, y[i]])",
            (IndexArray, Lookup),
        ),
    ),
)

SIZES = Category(
    "size",
    "Sizes",
    (
        Construct(
            "declared_size",
            "affine",
            "An index expression without indices. An array of a negative size has no elements. To all functions sizes "
            'are given by name: as keywords (`n=3`), in a mapping as the last positional argument (`{"n": 3}`), or as '
            '`sizes={"n": 3}`, which is the only way where all keywords are options, as those of `tl.lower` are.',
            "f(x: [2*n + m - 1]R, w: [m]R) = gen i:2*n. sum j:m. x[i + j] * w[j]",
            "tl.gen(2 * n, lambda i: tl.sum(m, lambda j: x[i + j] * w[j]))",
            (Size, Affine),
        ),
    ),
)

DECLARED: tuple[Category, ...] = (DEFINITIONS, PARAMETERS, TYPES, SIZES)
"""From definitions down to sizes."""
