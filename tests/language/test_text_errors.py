"""The messages about texts that are not programs, and about hostile ones."""

from __future__ import annotations

import pytest

from tensorlang.errors import (
    LimitError,
    ParseError,
    ScalarFunctionError,
    ScopeError,
    TensorlangError,
    TypeMismatch,
)
from tensorlang.language.latex import function_latex
from tensorlang.language.show import function_text, unicode_text
from tensorlang.surface.parse import parse, parse_module

ERRORS: dict[str, tuple[type[TensorlangError], str]] = {
    "f(x: R) = x +": (
        ParseError,
        "             ^\n"
        "expected an expression, found the end of the text\n"
        "hint: the text ends too early: an expression is missing",
    ),
    "f(x: R) = (x": (
        ParseError,
        "            ^\n"
        "expected an operator, ',' or ')', found the end of the text\n"
        "hint: the '(' at 1:11 is not closed: (x",
    ),
    "f(x: R) x": (
        ParseError,
        "        ^\nexpected '=' and an expression, found 'x'\nhint: '=' follows the parameters: f(..) = e",
    ),
    "f(x: R) = x x": (
        ParseError,
        "            ^\n"
        "expected an operator or the end of the definition, found 'x'\n"
        "hint: a product is written with *",
    ),
    "f(x: R) = x g(y": (
        ParseError,
        "            ^\n"
        "expected an operator or the end of the definition, found 'g'\n"
        "hint: a product is written with *",
    ),
    "f(x: r) = x": (
        ParseError,
        "     ^\nexpected a type: R, [n]R, (R, R) or [n]idx(m), found 'r'\nhint: the type of numbers is R",
    ),
    "f(x: []R) = x": (
        ParseError,
        "      ^\nexpected a size, found ']'\nhint: an array's type says its size: [n]R",
    ),
    "f(x: R) = (x, x, x)": (
        ParseError,
        "               ^\nexpected ')', found ','\nhint: a pair has two parts, which may be pairs: (a, (b, c))",
    ),
    "f(x: R) = let in = x in x": (
        ParseError,
        "              ^^\n"
        "expected the name of a variable, found the keyword in\n"
        "hint: in is a word of the language; in0 is a name",
    ),
    "f(x: R) = x ** 2": (
        ParseError,
        "             ^\nexpected an expression, found '*'\nhint: a power is written with ^",
    ),
    "f(x: R) = x ^ 1.5": (
        ParseError,
        "              ^^^\nexpected an integer exponent, found the number 1.5\nhint: x ^ 2, x ^ y, or pow(e, 3/2)",
    ),
    "f(x: R) = x ^ 2 ^ 3": (
        ParseError,
        "                ^\n"
        "expected an operator, found '^'\n"
        "hint: parentheses say which power comes first: (x ^ 2) ^ 3",
    ),
    "f(x: R) = 2x": (
        ParseError,
        "          ^^\nthe number is followed by 'x'\nhint: a product is written with *: 2 * x...",
    ),
    "f(x: R) = 1/0": (
        ParseError,
        "          ^^^\n"
        "a number is divided by zero\n"
        "hint: where a divisor may be zero, a bracket hides the quotient: [i != 0] * (x / y)",
    ),
    "f(x: R) = gen i:2.5*x": (
        ParseError,
        "                ^^^\n"
        "expected an integer, found the number 2.5\n"
        "hint: a blank after the dot ends the integer: gen i:3. e",
    ),
    "f(x: [n]R) = sum i:n. [i == 0] * x[i]": (
        ParseError,
        "                          ^\n"
        "expected an index, a size or an integer, found '='\n"
        "hint: equality is written with one =",
    ),
    "f(x: [n]R) = sum i:n. [i] * x[i]": (
        ParseError,
        "                       ^\nexpected a predicate, found an index expression\nhint: [i = j] compares two of them",
    ),
    "f(x: [n]R) = sum i:n. x[i < n]": (
        ParseError,
        "                          ^\n"
        "expected an operator, ',' or ']', found '<'\n"
        "hint: a bracket with a condition stands in front: [i < n] * x[i]",
    ),
    "f(x: [n]R) = sum i:n. x[i / 2]": (
        ParseError,
        "                          ^\n"
        "expected an index expression, which has only +, -, and *, // and % by an integer, found '/'\n"
        "hint: an index is divided by // and what is left is %: x[i // 2], [i % 2 = 0]",
    ),
    "f(x: [n]R) = sum i:n. x[i * i]": (
        TypeMismatch,
        "                        ^^^^^\n"
        "expected a product with an integer, found (i) * (i)\n"
        "hint: index expressions are linear in the indices and the sizes",
    ),
    "f(x: [n]R, y: R) = sum i:n. x[y]": (
        TypeMismatch,
        "                              ^\n"
        "expected an index or a size, found the variable y, a value of type R\n"
        "hint: an array that is read at is declared as one of indices: y: idx(n)",
    ),
    "f(x: R, r: rel(n)) = r(0) * x": (
        TypeMismatch,
        "                     ^\n"
        "expected a value, found the relation r\n"
        "hint: a relation stands in a bracket: [r(i, j)] * e",
    ),
    "f(x: R, r: rel(n)) = [r(0, 1)] * x": (
        TypeMismatch,
        "                      ^^^^^^^\nr relates 1 index, found 2\nhint: r(i)",
    ),
    "f(x: [n]R) = sum i:n. sum j:i. x[j]": (
        TypeMismatch,
        "                            ^\n"
        "expected a size, found the index i in it\n"
        "hint: a bracket makes a range depend on an index: sum j:n. [j < i] * e",
    ),
    "f(x: [n]R) = sum i:n. x": (
        TypeMismatch,
        "                      ^\n"
        "the body of sum must be a number, found a value of type [n]R\n"
        "hint: an element of it: x[i]",
    ),
    "f(x: [n]R) = 2 * x": (
        TypeMismatch,
        "                 ^\n"
        "the right side of * must be a number, found a value of type [n]R\n"
        "hint: arrays are computed with element by element: gen i:n. 2 * x[i]",
    ),
    "f(x: [n]R) = sum i:n. x[i, 0]": (
        TypeMismatch,
        "                           ^^\n"
        "only an array has elements, found [0] after a value of type R\n"
        "hint: an element of it: x[i]",
    ),
    "f(x: R) = fst(x)": (
        TypeMismatch,
        "              ^\n"
        "fst takes a pair, found a value of type R\n"
        "hint: a pair is written (a, b), and its type (R, R)",
    ),
    "f(x: R) = max(x)": (
        TypeMismatch,
        "          ^^^^^^\nmax takes 2 arguments, found 1\nhint: max(a, b)",
    ),
    "f(x: R) = y": (
        ScopeError,
        "          ^\nno variable is called y here\nhint: known here: x",
    ),
    "f(weight: R) = wieght": (
        ScopeError,
        "               ^^^^^^\nno variable is called wieght here\nhint: did you mean weight?",
    ),
    "f(x: [n]R) = sum i:n. x[q]": (
        ScopeError,
        "                        ^\nno index or size is called q here\nhint: known here: n, i",
    ),
    "f(x: R, x: R) = x": (
        ScopeError,
        "        ^\nf has two parameters called x\nhint: another name for one of them: x1",
    ),
    "f(x: [n]R) = sum n:n. 1": (
        ScopeError,
        "                 ^\nn is a size already; an index needs another name\nhint: such as n0",
    ),
    "f(x: R) = gen x:3. 1": (
        ScopeError,
        "              ^\nx is a variable already; an index needs another name\nhint: such as x0",
    ),
    "f(x: [x]R) = 1": (
        ScopeError,
        "  ^\nx is a size already; a variable needs another name\nhint: such as x0",
    ),
    "f(n: R, x: [n]R) = 1": (
        TypeMismatch,
        "            ^\n"
        "expected an index or a size, found the variable n, a value of type R\n"
        "hint: an index, a size or an integer is wanted here",
    ),
    "f(sin: R) = 1": (
        ScopeError,
        "  ^^^\nsin is a scalar function; a variable needs another name\nhint: such as sin0",
    ),
    "f(x: R) = gen i:2, i:3. x": (
        ScopeError,
        "                   ^\nthis gen binds i twice\nhint: another name for one of them: i1",
    ),
    "f(x: R) = [r(1)] * x": (
        ScopeError,
        "           ^\nno relation is called r\nhint: a relation is a parameter: r: rel(n, m)",
    ),
    "f(x: R) = sinn(x)": (
        ScalarFunctionError,
        "          ^^^^\nno scalar function is called sinn\nhint: did you mean sin or sinh?",
    ),
    "f(x: R) = x(2)": (
        ScalarFunctionError,
        "          ^\nx is a value, not a function\nhint: an element is written x[i]; a product is written with *",
    ),
    "f(x: R) = sin * x": (
        ScalarFunctionError,
        "          ^^^\nsin is a scalar function and needs its arguments\nhint: sin(e)",
    ),
    "f(x: R) = x \x00": (
        ParseError,
        "            ^\nno program contains the character '\\x00'",
    ),
    "f(x: R) = x ≤ 2": (
        ParseError,
        "            ^\nno program contains the character '\\u2264'\nhint: at most is written <=",
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_has_its_place_and_says_what_was_expected(text: str) -> None:
    kind, message = ERRORS[text]
    with pytest.raises(kind) as caught:
        parse(text, "name.tl")
    assert type(caught.value) is kind
    head, shown, rest = str(caught.value).split("\n", 2)
    assert head.startswith("name.tl:1:")
    assert shown == "  " + text.replace("\x00", " ")
    assert rest == "\n".join("  " + line if k == 0 else line for k, line in enumerate(message.split("\n")))


def test_an_error_on_a_later_line_is_shown_there() -> None:
    with pytest.raises(ScopeError) as caught:
        parse("f(x: [n]R) =\n  sum i:n.\n\tx[i] * y", "a.tl")
    assert str(caught.value).startswith("a.tl:3:9\n   x[i] * y\n          ^\n")


@pytest.mark.parametrize("text", ["", "  \n -- nothing\n", "f() = 1 g() = 2"])
def test_parse_wants_exactly_one_definition(text: str) -> None:
    with pytest.raises(ParseError, match="expected one definition, found"):
        parse(text)


def test_a_module_has_any_number_of_definitions() -> None:
    assert parse_module("") == {}
    found = parse_module("f(x: R) = x -- first\n\ng(n: R, x: [m]R) = n h() = 3")
    assert list(found) == ["f", "g", "h"]
    assert [len(f.params) for f in found.values()] == [1, 2, 0]
    with pytest.raises(ScopeError, match="f is defined twice"):
        parse_module("f() = 1\nf() = 2")


@pytest.mark.parametrize("value", [b"f() = 1", None, 3, ["f() = 1"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ParseError, match="expected the text of a program"):
        parse(value)  # type: ignore[arg-type]


def test_odd_names_are_just_names() -> None:
    f = parse("__import__(__class__: R, os: R) = let eval = os in eval * __class__")
    assert f.name == "__import__"
    assert function_text(f) == "__import__(__class__: R, os: R) =\n  let eval = os in\n  eval * __class__"


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R) = x[" + "9" * 19 + "]",
        "f(x: [n]R) = x[" + " * ".join(["9" * 18] * 3) + "]",
        "f() = " + "7" * 500,
        "f() = " + "7" * 100_000,
        "f() = 1e999999999999",
        "f(x: R) = x ^ " + "9" * 30,
        "f(x: R) = pow(x, 1e300)",
    ],
)
def test_huge_numbers_are_refused(text: str) -> None:
    with pytest.raises(LimitError):
        parse(text)


DEPTH = 10_000

DEEP = {
    "parentheses": "f(x: R) = " + "(" * DEPTH + "x" + ")" * DEPTH,
    "minus": "f(x: R) = " + "-(" * DEPTH + "x" + ")" * DEPTH,
    "predicate": "f(x: R) = [" + "(" * DEPTH + "1 < 2" + ")" * DEPTH + "]",
    "index": "f(x: [n + 2]R) = x[" + "(" * DEPTH + "1" + ")" * DEPTH + "]",
    "lets": "f(x: R) = " + "".join(f"let x{k} = x * x in " for k in range(DEPTH)) + "x",
    "sums": "f(x: R) = " + " + ".join(["x"] * DEPTH),
    "powers": "f(x: R) = " + "sin(" * DEPTH + "x" + ")" * DEPTH,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_programs_are_read_and_printed(name: str) -> None:
    f = parse(DEEP[name])
    for text in (function_text(f), unicode_text(f), function_latex(f)):
        assert text.startswith("f") or text.startswith("\\begin")


@pytest.mark.parametrize(
    "text", ["f(x: R) = " + "(" * DEPTH, "f(x: R) = [" + "(" * DEPTH, "f(x: " + "[" * DEPTH, "f(x: " + "(" * DEPTH]
)
def test_deep_programs_that_end_early_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="found"):
        parse(text)


DEEP_TYPES = {
    "pairs": "f(x: " + "(" * DEPTH + "R" + ", R)" * DEPTH + ") = 2 * x",
    "arrays": "f(x: " + "[n]" * DEPTH + "R) = 2 * x",
    "doubled": "f(x: R) = let x0 = x in " + "".join(f"let x{k + 1} = (x{k}, x{k}) in " for k in range(16)) + "2 * x16",
}


@pytest.mark.parametrize("name", DEEP_TYPES)
def test_a_deep_type_is_cut_in_messages(name: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        parse(DEEP_TYPES[name])
    assert len(caught.value.message) < 1000
