"""The syntax of functions of numbers, read by `tensorlang.surface.scalar_text`."""

from __future__ import annotations

from tensorlang.surface.syntax.construct import Category, Construct

BLOCKS = Category(
    "block",
    "Functions of numbers",
    (
        Construct(
            "names",
            '"let" NAME ("," NAME)* "=" block "in" block',
            "Names for the values of a block, which are as many.",
            "scalar f(x) = let y = x * x in y + sin(y)  g(x: R) = f(x)",
            None,
        ),
        Construct(
            "sides",
            '"if" quantity "then" block "else" block',
            "The values of the side that is taken. The other one is not evaluated, and has no derivative.",
            "scalar f(x) = if x > 0 then sqrt(x) else 2 * x  g(x: R) = f(x)",
            None,
        ),
        Construct(
            "loop",
            '"loop" NAME "=" quantity ("," NAME "=" quantity)* ["at" "most" INTEGER "times"] "while" block "do" block',
            "What the names are in the end: at first these values, and after each trip those of `do`, as long as "
            "`while` holds. With more trips than `at most` says, the results of the function are nan.",
            "scalar heron(a) = loop x = a at most 60 times while abs(x * x - a) > 1e-6 * a do 0.5 * (x + a / x)  "
            "f(a: R) = heron(a)",
            None,
        ),
        Construct(
            "values",
            '"(" block ("," block)+ ")"',
            "Several values: of a function, of the sides of a branch, or the next ones of a loop.",
            "scalar f(x) = let a, b = if x > 0 then (x, 1) else (-x, 2) in a * b  g(x: R) = f(x)",
            None,
        ),
    ),
    tighter="quantity",
)

QUANTITIES = Category(
    "quantity",
    "Numbers and conditions",
    (
        Construct(
            "operation",
            '(quantity ("or" | "and" | "<" | "<=" | "=" | "!=" | ">" | ">=" | "+" | "-" | "*" | "/" | "//" | "%") '
            'quantity | ("-" | "not") quantity | quantity "^" "-"? NUMBER)',
            "Operations on numbers and conditions; those that stand first bind loosest, `not` between `and` and "
            "comparisons, powers tightest. `//` and `%` are of whole numbers. A condition is no number: "
            "`where(c, 1, 0)` is one.",
            "scalar f(x, k: int) = if k % 2 = 0 and not x < 1 then x ^ 2 else -x  g(x: R) = f(x, 3)",
            None,
        ),
        Construct(
            "applied",
            '(NAME | "where") "(" block ("," block)* ")"',
            "A scalar function, a function of numbers that is defined before, or `where(condition, a, b)`.",
            "scalar f(x) = max(exp(x), where(x > 1, x, 0))  g(x: R) = f(x)",
            None,
        ),
        Construct(
            "simple",
            '(NAME | NUMBER | "(" block ")")',
            "A name, a number, or a block in parentheses that gives one. `true`, `false`, `nan` and `inf` are names.",
            "scalar f(x) = 2 * (if x > 0 then x else nan)  g(x: R) = f(x)",
            None,
        ),
    ),
)

SCALAR_PARAMETERS = Category(
    "scalar_parameter",
    "Their parameters",
    (
        Construct(
            "scalar_value",
            'NAME [":" "int"]',
            "A number, or a whole number, which has no derivative.",
            "scalar raised(x, k: int) = let y, i = loop y = x, i = 0 while i < k do (y * x, i + 1) in y  "
            "g(x: R) = raised(x, 3)",
            None,
        ),
    ),
)

SCALAR: tuple[Category, ...] = (SCALAR_PARAMETERS, BLOCKS, QUANTITIES)
"""The parts of functions of numbers."""
