"""The syntax of expressions, read by `tensorlang.surface.expressions`; from loose to tight."""

from __future__ import annotations

from tensorlang.language.affine import Lookup
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
)
from tensorlang.language.types import BoundedIndex, Pair
from tensorlang.surface.syntax.construct import Category, Construct

COMPARISONS = Category(
    "expression",
    "Conditions on values",
    (
        Construct(
            "comparison_of_values",
            'arithmetic ("<" | "<=" | "=" | ">" | ">=") arithmetic',
            "Whether it holds: a condition, which a `let` names under gens and brackets alone, and brackets ask for: "
            "`[c[i]]`, `[not c[i]]`. It is an index below 2, 1 where it holds, costs 1 and has no derivative: that of "
            "what a bracket takes is the derivative there, at ties too. Of nan no comparison holds, and its negation "
            "does.",
            "kept(x: [n]R) = let c = gen i:n. x[i] > 0 in gen i:n. [c[i]] * sqrt(x[i])",
            None,
            (Compared, Let),
        ),
    ),
    "arithmetic",
)

EXPRESSIONS = Category(
    "arithmetic",
    "Sums and differences",
    (
        Construct(
            "addition",
            'arithmetic "+" product',
            "The sum of two numbers. Arrays are added element by element, under a `gen`. Where one of the two is "
            "under a false bracket, it costs nothing.",
            "f(x: [n]R, y: R) = gen i:n. x[i] + y",
            "tl.gen(n, lambda i: x[i] + y)",
            (Add,),
        ),
        Construct(
            "subtraction",
            'arithmetic "-" product',
            "The difference of two numbers: one operation, an addition whose sign is -1.",
            "f(x: R, y: R) = x - y",
            "x - y",
            (Add,),
        ),
    ),
    "product",
)

PRODUCTS = Category(
    "product",
    "Products and quotients",
    (
        Construct(
            "multiplication",
            'product "*" operand',
            "The product of two numbers.",
            "f(x: R, y: R) = x * y",
            "x * y",
            (Mul,),
        ),
        Construct(
            "division",
            'product "/" operand',
            "The quotient of two numbers, `a * recip(b)`. That of two literals at the head of a product, such as "
            "`1/3`, is an exact constant.",
            "f(x: R, y: R) = x / y",
            "x / y",
            (Mul, Call),
        ),
    ),
    "operand",
)

OPERANDS = Category(
    "operand",
    "Binding, brackets and powers",
    (
        Construct(
            "naming",
            '"let" NAME "=" expression "in" expression',
            "The second expression, in which the name stands for the first one, computed once. In Python a value "
            "that is used twice is shared without being asked for.",
            "f(x: R) = let y = sin(x) in y * y",
            "tl.let(tl.sin(x), lambda y: y * y)",
            (Let,),
        ),
        Construct(
            "generation",
            '"gen" binders "." expression',
            "The array of the expression's values. Index expressions, brackets and numbers may use the index.",
            "doubled(x: [n]R) = gen i:n. 2 * x[i]",
            "tl.gen(n, lambda i: 2 * x[i])",
            (Gen,),
        ),
        Construct(
            "summation",
            '"sum" binders ["where" predicate] "." expression',
            "The sum of a number over the range; over no point it is 0. With `where p`, over the points of p: the"
            " same as `sum i:n. [p] * e`.",
            "below(A: [n][n]R) = sum i:n, j:n where j < i. A[i, j]",
            "tl.sum((n, n), lambda i, j: A[i, j], where=lambda i, j: j < i)",
            (Sum, Bracket),
        ),
        Construct(
            "extremum",
            '("max" | "min") binders ["where" predicate] "." expression',
            "The greatest or least value over the range, or over those points of it where the predicate holds. "
            "That there is no such point is an error, unless a bracket hides it. The derivative reads the chosen "
            "point, the first among equals.",
            "largest(x: [n + 1]R) = max i:n + 1. x[i]",
            "tl.max(n + 1, lambda i: x[i])",
            (Extremum,),
        ),
        Construct(
            "choice",
            '("argmax" | "argmin") NAME ":" size ["where" predicate] "." expression',
            "The first index at which the greatest or least value is attained. It is an index, not a number: a "
            "`let` names it, under gens and brackets alone, and it is used in index expressions.",
            "at_peak(x: [n + 1]R, y: [n + 1]R) = let k = argmax i:n + 1. x[i] in y[k]",
            "y[tl.argmax(n + 1, lambda i: x[i])]",
            (Choice, Let, Lookup, BoundedIndex),
        ),
        Construct(
            "recurrence",
            '("fold" | "scan" | "prescan" | "states") ["reversed"] NAME ":" size "with" NAME "=" expression'
            ' ("," NAME "=" expression)* ["until" predicate] "." expression',
            "A state that steps change: it is the first value, and each step at a time below the size makes of it "
            "the value of the last expression, in which the name stands for the state before. `fold` is the state "
            "after all steps, `scan` the array of the states after each of them, `prescan` of those before each of "
            "them, `states` of all, one more than there are steps. Several states are given, and made by a step, like "
            "pairs. With `reversed` the time goes from the last to the first. The states are kept once `until` holds "
            "of them. A step costs what it computes, at each time at which it is made.",
            "decayed(x: [n]R, a: R) = scan t:n with s = 0. a * s + x[t]",
            "tl.scan(n, 0, lambda t, s: a * s + x[t])",
            (Recur,),
        ),
        Construct(
            "differentiation",
            '(("grad" | "jacobian" | "hessian") NAME ("," NAME)* | "derivative" NAME "=" expression'
            ' ("," NAME "=" expression)* | "adjoint" NAME ("," NAME)* "with" expression) "." expression',
            "The derivative of the last expression by variables, at their values: the gradient or Hessian of a number, "
            "the Jacobian of any value, the change where `derivative x = dx` says how each variable changes, the "
            "cotangents where `adjoint x with c` gives that of the expression. It is derived as that of a program is, "
            "whose parameters are what is free in the expression, and costs what that does. Operators may stand in "
            "one another.",
            "slope(x: [n]R) = grad x. sum i:n. sin(x[i])",
            "tl.grad(tl.function(lambda x: tl.sum(n, lambda i: tl.sin(x[i])), x=tl.R[n]))(x)",
            (),
        ),
        Construct(
            "bracket",
            '"[" predicate "]" ["*" product]',
            "Iverson's bracket: the value where the predicate holds, and the zero of its type elsewhere, where "
            "nothing in it is evaluated, nor costs anything, nor has to exist. `[p]` alone is `[p] * 1`; `[p] * a"
            " * b` is `[p] * (a * b)`. Compiled code may take what is hidden for finite; compiled with `strict=True` it"
            " doesn't.",
            "diagonal(x: [n]R) = gen i:n, j:n. [i = j] * x[i]",
            "tl.gen((n, n), lambda i, j: (i == j) * x[i])",
            (Bracket,),
        ),
        Construct(
            "branch",
            '"if" predicate "then" expression "else" expression',
            "The first value where the predicate holds, and the second elsewhere: of numbers `[p] * a + [not p] * b`, "
            "and of arrays and pairs, of one type, each of their numbers. Only the one that is taken has to exist, or "
            "has a derivative. Computed arrays and recurrences are computed before their elements are chosen, without "
            "their terms where they are not taken.",
            "rooted(x: [n]R) = gen i:n. if x[i] > 0 then sqrt(x[i]) else 2 * x[i]",
            "tl.gen(n, lambda i: tl.where(x[i] > 0, tl.sqrt(x[i]), 2 * x[i]))",
            (Compared, Add, Bracket),
        ),
        Construct(
            "negation",
            '"-" operand',
            "`-1 * e`; before a literal it makes a negative constant.",
            "f(x: R) = -x",
            "-x",
            (Mul, Const),
        ),
        Construct(
            "power",
            'atom "^" "-"? INTEGER',
            "A constant integer power. A natural exponent costs its multiplications by repeated squaring; `e ^ "
            "-k` is `recip(e ^ k)`. Not repeated: parentheses say which power comes first.",
            "f(x: R) = x ^ 3",
            "x ** 3",
            (Call,),
        ),
    ),
    "atom",
)

ATOMS = Category(
    "atom",
    "Atoms",
    (
        Construct(
            "literal",
            "NUMBER",
            "An exact number: `2`, `0.5` and `1e-3` are fractions.",
            "f(x: R) = 0.5 * x",
            "0.5 * x",
            (Const,),
        ),
        Construct(
            "variable",
            "NAME",
            "A parameter, or what a `let` has named. An index or a size is the number that it is.",
            "f(x: [n]R) = x",
            "x",
            (Var,),
        ),
        Construct(
            "call",
            'NAME "(" (expression ",")* NAME "=" affine ("," NAME "=" affine)* ")"',
            "Another program: one that is defined before in the same text, or one of the standard library. Its body is "
            "put in place; that of a whole function whose adjoint is declared stays where it is. It is called like a "
            "scalar function, with arrays, indices and relations as its parameters say; sizes that no argument tells "
            "are given by name.",
            "f(x: [m]R) = gen i:m. x[i] * linspace(0, 1, n=m)[i]",
            None,
        ),
        Construct(
            "number_of_index",
            '"real" "(" affine ")"',
            "The number that an index expression is, which costs nothing and has no differential. An index or a size "
            "on its own needs no `real`: `x[i] * i`, `1 / n`.",
            "f(x: [n]R) = (sum i:n. x[i] * real(2*i + 1)) / n",
            "tl.sum(n, lambda i: x[i] * tl.real(2 * i + 1)) / n",
            (Integer,),
        ),
        Construct(
            "parentheses",
            '"(" expression ")"',
            "The expression in them.",
            "f(x: R, y: R) = 2 * (x + y)",
            "2 * (x + y)",
        ),
        Construct(
            "pair",
            '"(" expression "," expression ")"',
            "A pair of two values of any types.",
            "f(x: R) = (sin(x), cos(x))",
            "tl.pair(tl.sin(x), tl.cos(x))",
            (MakePair, Pair),
        ),
        Construct(
            "projection",
            '("fst" | "snd") "(" expression ")"',
            "One part of a pair.",
            "f(p: (R, R)) = fst(p) - snd(p)",
            "tl.fst(p) - tl.snd(p)",
            (Proj,),
        ),
        Construct(
            "application",
            'NAME "(" expression ("," expression)* ")"',
            "A scalar function of numbers. It is a black box with a derivative and a cost that are declared.",
            "f(x: R, y: R) = max(exp(x), y)",
            "tl.maximum(tl.exp(x), y)",
            (Call,),
        ),
        Construct(
            "constant_power",
            '"pow" "(" expression "," "-"? NUMBER ["/" NUMBER] ")"',
            "Any constant power.",
            "f(x: R) = pow(x, 3/2)",
            "x ** Fraction(3, 2)",
            (Call,),
        ),
        Construct(
            "access",
            'atom "[" affine ("," affine)* "]"',
            "An element of an array, or with fewer indices than axes a part of it. That it lies in the array, "
            "wherever it is evaluated, is proved when the program is read.",
            "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
            "tl.gen(n, lambda i: tl.sum(m, lambda j: x[i + j] * w[j]))",
            (Access,),
        ),
    ),
)

EXPRESSED: tuple[Category, ...] = (COMPARISONS, EXPRESSIONS, PRODUCTS, OPERANDS, ATOMS)
"""From sums down to atoms."""
