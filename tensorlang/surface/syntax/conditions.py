"""The syntax of binders, predicates and index expressions, read by `tensorlang.surface.conditions`."""

from __future__ import annotations

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size
from tensorlang.language.grammar import Bracket, Compared, Sum
from tensorlang.language.predicates import And, Equal, Exists, NonNegative, Or, Related
from tensorlang.surface.syntax.construct import Category, Construct

BINDERS = Category(
    "binders",
    "Binders",
    (
        Construct(
            "ranges",
            'NAME ":" size ("," NAME ":" size)*',
            "Indices and their ranges: `i:n` is 0 <= i < n. Several in a row are nested, the first outermost. A "
            "size that no parameter determines is given by name when the program is called.",
            "outer(x: [n]R, y: [m]R) = gen i:n, j:m. x[i] * y[j]",
            "tl.gen((n, m), lambda i, j: x[i] * y[j])",
            (Index,),
        ),
    ),
)

PREDICATES = Category(
    "predicate",
    "Predicates",
    (
        Construct(
            "disjunction",
            'predicate "or" conjunction',
            "Either holds, or both. `and` binds tighter.",
            "border(x: [n]R) = gen i:n. [i = 0 or i = n - 1] * x[i]",
            "tl.gen(n, lambda i: ((i == 0) | (i == n - 1)) * x[i])",
            (Or,),
        ),
    ),
    "conjunction",
)

CONJUNCTIONS = Category(
    "conjunction",
    "Conjunctions",
    (
        Construct(
            "both",
            'conjunction "and" condition',
            "Both hold.",
            "band(A: [n][n]R) = gen i:n, j:n. [j <= i and i <= j + 1] * A[i, j]",
            "tl.gen((n, n), lambda i, j: ((j <= i) & (i <= j + 1)) * A[i, j])",
            (And,),
        ),
    ),
    "condition",
)

CONDITIONS = Category(
    "condition",
    "Conditions",
    (
        Construct(
            "comparison",
            'affine (("<" | "<=" | "=" | "!=" | ">" | ">=") affine)+',
            "A comparison of index expressions. Chains mean all of their comparisons. All comparisons are `a = 0`"
            " or `a >= 0` inside.",
            "f(x: [n]R, y: [m]R) = gen i:n, j:m. [0 < i = 2*j] * x[i] * y[j]",
            "tl.gen((n, m), lambda i, j: ((0 < i) & (i == 2 * j)) * x[i] * y[j])",
            (Equal, NonNegative),
        ),
        Construct(
            "value_comparison",
            'arithmetic (("<" | "<=" | "=" | "!=" | ">" | ">=") arithmetic)+',
            "A comparison of values, which the data decide at each point. Asked twice it is decided once, and only "
            "where the conditions beside it leave that open.",
            "positive(x: [n]R) = sum i:n. [sin(x[i]) > 0.5] * log(x[i])",
            "tl.sum(n, lambda i: (tl.sin(x[i]) > 0.5) * tl.log(x[i]))",
            (Compared,),
        ),
        Construct(
            "condition_by_name",
            'NAME ("[" affine ("," affine)* "]")+',
            "A condition that a `let` has named; an element of an index array below 2 is one that holds where it is 1.",
            "chosen(x: [n]R, c: [n]idx(2)) = gen i:n. [c[i]] * x[i]",
            "tl.gen(n, lambda i: (c[i] == 1) * x[i])",
        ),
        Construct(
            "opposite_condition",
            '"not" condition',
            "That it does not hold. That a relation does not hold, or nothing exists, is decided like a comparison of "
            "values, at a cost of 1.",
            "rest(x: [n]R) = gen i:n. [not (i = 1 or x[i] > 0)] * x[i]",
            "tl.gen(n, lambda i: ~((i == 1) | (x[i] > 0)) * x[i])",
            (Compared,),
        ),
        Construct(
            "related",
            'NAME "(" affine ("," affine)* ")"',
            "Whether a data relation holds at these indices.",
            "spread(E: rel(n, m), x: [m]R) = gen i:n. sum j:m. [E(i, j)] * x[j]",
            "tl.gen(n, lambda i: tl.sum(m, lambda j: E(i, j) * x[j]))",
            (Related,),
        ),
        Construct(
            "existence",
            '"exists" binders "." predicate',
            "There are indices in these ranges such that the predicate holds. It reaches as far right as it can.",
            "even(x: [n]R) = gen i:n. [exists k:n. i = 2*k] * x[i]",
            "tl.gen(n, lambda i: tl.exists(n, lambda k: i == 2 * k) * x[i])",
            (Exists,),
        ),
        Construct(
            "predicate_in_parentheses",
            '"(" predicate ")"',
            "The predicate in them.",
            "f(x: [n]R) = gen i:n. [(i < 2 or i = 5) and i < n - 1] * x[i]",
            "tl.gen(n, lambda i: (((i < 2) | (i == 5)) & (i < n - 1)) * x[i])",
        ),
    ),
)

AFFINES = Category(
    "affine",
    "Index expressions",
    (
        Construct(
            "combination",
            'affine ("+" | "-") term',
            "Sums and differences. Index expressions are integer combinations of indices, sizes, elements of "
            "index arrays, and integers.",
            "f(x: [n + m]R) = gen i:n. x[i + m]",
            "tl.gen(n, lambda i: x[i + m])",
            (Affine,),
        ),
    ),
    "term",
)

TERMS = Category(
    "term",
    "Terms of index expressions",
    (
        Construct(
            "multiple",
            'term "*" factor',
            "A product of which one factor is an integer.",
            "f(x: [2*n]R) = gen i:n. x[2*i]",
            "tl.gen(n, lambda i: x[2 * i])",
            (Affine,),
        ),
        Construct(
            "quotient",
            'term "//" INTEGER',
            "A quotient by a positive integer, rounded down. It costs nothing: it is the one index of which that many "
            "times is at most the term, and one more is not.",
            "repeated(x: [n]R) = gen i:2*n. x[i // 2]",
            "tl.gen(2 * n, lambda i: x[i // 2])",
            (Sum, Bracket),
        ),
        Construct(
            "remainder",
            'term "%" INTEGER',
            "What is left of such a quotient, at least 0 and less than the integer.",
            "alternating(x: [n]R) = gen i:n. if i % 2 = 0 then x[i] else -x[i]",
            "tl.gen(n, lambda i: tl.where(i % 2 == 0, x[i], -x[i]))",
            (Exists,),
        ),
    ),
    "factor",
)

FACTORS = Category(
    "factor",
    "Factors of index expressions",
    (
        Construct(
            "integer",
            "INTEGER",
            "An integer, of at most 18 digits.",
            "f(x: [n + 3]R) = x[2]",
            "x[2]",
        ),
        Construct(
            "index_or_size",
            "NAME",
            "An index that is bound here, or a size; a size is never negative.",
            "reversed(x: [n]R) = gen i:n. x[n - 1 - i]",
            "tl.gen(n, lambda i: x[n - 1 - i])",
            (Index, Size),
        ),
        Construct(
            "lookup",
            'NAME ("[" affine ("," affine)* "]")+',
            "An element of an index array: an index like any other. Nothing but its range is known of it.",
            "gathered(x: [m]R, y: [n]idx(m)) = gen i:n. x[y[i]]",
            "tl.gen(n, lambda i: x[y[i]])",
            (Lookup, IndexArray),
        ),
        Construct(
            "opposite",
            '"-" factor',
            "The opposite.",
            "f(x: [n]R) = gen i:n. x[-i + n - 1]",
            "tl.gen(n, lambda i: x[-i + n - 1])",
        ),
        Construct(
            "affine_in_parentheses",
            '"(" affine ")"',
            "The index expression in them.",
            "f(x: [2*n + 2]R) = gen i:n. x[2*(i + 1)]",
            "tl.gen(n, lambda i: x[2 * (i + 1)])",
        ),
    ),
)

CONDITIONAL: tuple[Category, ...] = (BINDERS, PREDICATES, CONJUNCTIONS, CONDITIONS, AFFINES, TERMS, FACTORS)
"""From binders down to integers."""
