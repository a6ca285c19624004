"""Hints at what was probably meant by invalid text: spellings of other languages, and habits from them.

A mistake is recognised by the text before and after the place of the error, which the patterns mark by `@@`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence

from tensorlang.language.affine import Affine
from tensorlang.surface.lex import RESERVED, Token
from tensorlang.surface.words import WORDS

_AROUND = 120
_MARK = "@@"
_BINDER = r"\b(gen|sum|max|min|argmax|argmin|exists|prod)"
_NAME = r"([A-Za-z_]\w*)"

Mend = str | Callable[[re.Match[str]], str]

VALUE_CONDITION = (
    "a condition stands in a bracket: [x < y] * e is e where it holds and else 0, if x < y then a else b chooses, and "
    "let c = x < y in .. names it; data say where by a relation, r: rel(n)"
)

COMPUTED_PLACE = (
    "indices have + and -, and *, // and % by integers; a place that data give is an element of an index array, "
    "y: [m]idx(n) and x[y[i]]"
)


def _axes(match: re.Match[str]) -> str:
    sizes = [part.strip() for part in (match[1] + match[2]).split(",")]
    return f"every axis has its own brackets: {''.join(f'[{size}]' for size in sizes)}R"


def _in_front(match: re.Match[str]) -> str:
    sizes = [part.strip() for part in re.split(r"\]\s*\[|,", match[1].strip()[1:-1])]
    return f"sizes stand in front: {''.join(f'[{size}]' for size in sizes)}R"


def _counted(match: re.Match[str]) -> str:
    word, index, size = match[1], match[2], (match[3] or "").strip() or "n"
    return f"a range is a size: {word} {index}:{size}. e has 0 <= {index} < {size}"


def _indices(match: re.Match[str]) -> str:
    word, first, others, size = match.groups()
    names = [first, *(name.strip() for name in others.split(",") if name.strip())]
    return f"every index has its range: {word} {', '.join(f'{name}:{size}' for name in names)}. e"


_MISTAKES: tuple[tuple[str, Mend], ...] = (
    # types
    (rf"\bR\s*{_MARK}((?:\[[^\]]*\]\s*)+)", _in_front),
    (rf":\s*\[([^\]@]*){_MARK}(,[^\]]*)\]", _axes),
    (rf"\bR\s*{_MARK}\^\s*\(?(\w+)", r"an array's sizes stand in front: [\1]R"),
    (rf"\]\s*{_MARK}[,)]", "the type of the elements follows the sizes: [n]R"),
    (rf"[(,]\s*{_NAME}\s*{_MARK}[,)]", r"\1: R for a number, \1: [n]R for an array of them"),
    (rf"[(,]\s*{_MARK}:", "a parameter has a name: x: R"),
    (rf"[(,]\s*{_NAME}\s*:[^@]*\w\s+{_MARK}{_NAME}\s*:", r"a comma stands between parameters: .., \2: R"),
    (
        rf"[\w\]]\s*{_MARK}=[^=()]*[,)]\s*=",
        "parameters have no values of their own; a constant is given by let, or in Python",
    ),
    (rf"^\s*{_MARK}\(", "a definition has a name: f(x: R) = e"),
    (rf"\)\s*=\s*{_MARK}>", "= follows the parameters: f(x: R) = e"),
    (rf"\)\s*{_MARK}(?::|->)", "the type of the result follows from the expression: f(x: [n]R) = x[0]"),
    (rf"^\s*{_NAME}\s*\([^=]*\)\s*{_MARK}[\w(\[]", r"'=' follows the parameters: \1(..) = e"),
    (rf"^\s*(?:def|fn|fun|func|function|let)\s+{_MARK}", "a definition is written f(x: [n]R) = e"),
    (rf"^\s*{_NAME}\s+{_MARK}[\w=]", r"a definition names its parameters and their types: \1(x: R) = e"),
    (rf"^\s*{_NAME}\s*{_MARK}[./\\]", "text is read, not a file: tl.parse(open(path).read())"),
    # ranges
    (rf"{_BINDER}\s*{_MARK}\(\s*{_NAME}\s*:\s*([^.)]*)", r"no parentheses around a range: (\1 \2:\3. e)"),
    (rf"{_BINDER}\s*{_MARK}\(\s*{_NAME}\s*,", r"\1 i:n, j:m. e"),
    (rf"{_BINDER}\s*{_MARK}\(\s*{_NAME}\s*\)", r"\1 names its index and range: \1 i:n. \2[i]"),
    (rf"{_BINDER}\s*{_MARK}\(", r"\1 names its index and range: \1 i:n. e"),
    (rf"{_BINDER}\s+{_NAME}\s*{_MARK}(?:in\b|=|<)\s*(?:range\()?(?:\d+\s*(?:\.\.+|:|,)\s*)?([\w+* -]*)", _counted),
    (rf"{_BINDER}\s+{_NAME}\s*:[^.@]*{_MARK}\^", r"two sizes are two ranges: \1 \2:n, j:n. e"),
    (rf"{_BINDER}\s+{_NAME}\s*:\s*\d+\s*\.?{_MARK}\.+\s*([\w+* -]*)", _counted),
    (rf"{_BINDER}\s+{_NAME}\s*{_MARK}((?:,\s*\w+\s*)+):\s*([\w+* -]+)", _indices),
    (rf"{_BINDER}\s+{_NAME}\s*:\s*{_MARK}\[([^\]]*)\]", r"a range is a size without brackets: \1 \2:\3. e"),
    (rf"{_BINDER}\s+([^.@]*),\s*{_NAME}\s*{_MARK}\[", r"a dot ends the ranges: \1 \2. \3[..]"),
    (rf"{_BINDER}\s+({_NAME}\s*:[^.@]*?)\s*{_MARK}[\w(\[:]", r"a dot ends the ranges: \1 \2. e"),
    (rf"{_BINDER}\s+{_NAME}\s*{_MARK}", r"a range is a size: \1 \2:n. e has 0 <= \2 < n"),
    # names and values
    (rf"{_MARK}{_NAME}\s*=(?!=)", r"a name is given by let: let \1 = e in .."),
    (rf"{_MARK}where\s*\(", WORDS["select"].text),
    (rf"{_MARK}not\b", WORDS["not"].text),
    (rf"{_BINDER}\s*{_MARK}\[", r"no brackets around a range: \1 i:n. e"),
    (
        rf"{_BINDER}\s+[^.]*,\s*{_MARK}{_BINDER[2:]}\b",
        r"one word for all ranges, \1 i:n, j:m. e, or a dot before the next",
    ),
    (rf"\blet\s+{_NAME}\s*{_MARK}:=?", r"a name is given with =: let \1 = e in .."),
    (rf"\blet\b[^,]*{_MARK},", "each let has its own in: let a = e in let b = e in .."),
    (rf"{_MARK}\.\^", "a power is written with ^, of the elements of an array: gen i:n. x[i]^2"),
    (rf"{_MARK}if\b.*\belse\b", "the condition comes first: if i > 0 then a else b"),
    (rf"\d\.\d+{_MARK}\.", "a number has one dot; an element is written with brackets"),
    (rf"{_MARK}\.\d", "a number begins with a digit: 0.5"),
    (rf"\]\s*idx\s*{_MARK}", "the type says what the indices are less than: [n]idx(m)"),
    (rf"\(\s*{_MARK}\)", "an expression stands between parentheses"),
    (rf"/{_MARK}\*", "a comment begins with --, and ends with its line"),
    (rf"[=(,+*/-]\s*{_MARK}[*/]|[+*/-]\s*{_MARK}\]", "an operator stands between two values: x * y"),
    (
        rf"=\s*\[\s*[\d.]+\s*{_MARK},",
        "an array of numbers is a parameter, or made by place: gen i:2. [i = 0] * 5 + [i = 1] * 7",
    ),
    (rf"\d{_MARK},\d{{3}}", "a number has no commas: 1000"),
    (rf"[\w)\]]\s*{_MARK},", "two values are a pair, in parentheses: (a, b)"),
    (rf"{_MARK}(?:and|or)\b", VALUE_CONDITION),
    (
        rf"{_MARK}where\b",
        "conditions stand before the dot, sum i:n where i > 0. e, or in a bracket: [i > 0] * e",
    ),
    (rf"{_MARK}mod\b", "mod(x, y) of numbers; of indices x[i % 2]"),
    (rf"\bif\b[^@]*{_MARK}[:{{]", "if x > 0 then a else b"),
    (rf"\[[^\]@]*{_MARK}in\b", "a condition compares: [0 <= i < 3] * e"),
    (rf"<{_MARK}>", "unequal is written !="),
    (rf"\w\[{_MARK}\[", "one bracket for each element: x[i], A[i, j]"),
    (rf"\[[\w+* -]*{_MARK}\d*\.\d", "indices are whole numbers: x[i], x[2*i + 1], x[i // 2]"),
    (rf"\]\s*{_MARK}[\w(]", "a product is written with *: [p] * e"),
    (rf"{_MARK}(sum|gen|prod|mean|max|min)_", r"\1 i:n. e"),
    (rf"{_MARK}([A-Za-z]+)_([a-z])\b(?!\()", r"an element is written with brackets: \1[\2]"),
    (rf"\b(fst|snd)\s+{_MARK}{_NAME}", r"\1(\2)"),
    (rf"[\w)\]]\s+{_MARK}[\w(]", "a product is written with *"),
    (rf"\)\s*{_MARK}[\w(]", "a product is written with *"),
    (rf"\[[^\]@]*{_MARK}[<>]", "a bracket with a condition stands in front: [i < n] * x[i]"),
    (rf"[\w)\]]\s*{_MARK}==", "equality is written with one =: " + VALUE_CONDITION),
    (rf"[\w)\]]\s*{_MARK}[<>]", VALUE_CONDITION),
    (rf"{_NAME}\s*{_MARK}\.(\d)", r"the parts of a pair are fst(\1) and snd(\1)"),
    (rf"{_MARK}\.\s*{_NAME}", lambda match: _word(match[1]) or "a dot only ends a range: gen i:n. e"),
    (rf"\[[^\]@]*{_MARK}:", "a part of an array is made: gen i:n - 1. x[i + 1]; a row of a matrix is A[i]"),
    (rf":\s*(?:\[[^\]@]*\])*\[[^\]@]*{_MARK}/", "a size is not divided: for n/2, call the half n and the whole 2*n"),
    (rf"\[[^\]@]*{_MARK}/", "an index is divided by // and what is left is %: x[i // 2], [i % 2 = 0]"),
    (rf"{_MARK}/", "a range is not divided: for n/2, call the half n and the whole 2*n"),
)
_COMPILED = tuple((re.compile(pattern, re.DOTALL), mend) for pattern, mend in _MISTAKES)


def hint_at(text: str, tokens: Sequence[Token], position: int, unknown: bool = False) -> str | None:
    """A mend of `text` where the token at `position` is out of place, or an unknown name; None if there is none."""
    token = tokens[position]
    opened = unclosed(text, tokens, position)
    if opened is not None and token.kind in ("end", ")", "]"):
        return opened
    if (known := _word(token.text)) is not None and (unknown or token.text not in ("T", "e")):
        return known
    begin = max(0, token.start - _AROUND)
    around = text[begin : token.start] + _MARK + text[token.start : token.start + _AROUND]
    for pattern, mend in _COMPILED:
        if (match := pattern.search(around)) is not None:
            return match.expand(mend) if isinstance(mend, str) else mend(match)
    if token.text in RESERVED:
        return f"{token.text} is a word of the language; a name may be {token.text}0"
    if token.kind == "end":
        return "the text ends too early: an expression is missing"
    return unclosed(text, tokens, len(tokens) - 1)


def unclosed(text: str, tokens: Sequence[Token], position: int) -> str | None:
    """A hint at the bracket that should be closed before the token at `position`, or that there is none."""
    stack: list[Token] = []
    for token in tokens[:position]:
        if token.kind in ("(", "["):
            stack.append(token)
        elif token.kind in (")", "]") and stack:
            stack.pop()
    token = tokens[position]
    if stack and not (token.kind in (")", "]") and {"(": ")", "[": "]"}[stack[-1].kind] == token.kind):
        start = stack[-1].start
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        stop = min((k for k in (text.find("\n", start), start + 30) if k >= 0), default=len(text))
        return f"the '{stack[-1].kind}' at {line}:{column} is not closed: {text[start:stop].rstrip()}"
    if not stack and token.kind in (")", "]"):
        return f"no '{'(' if token.kind == ')' else '['}' before it is open"
    return None


def in_access(tokens: Sequence[Token], position: int) -> bool:
    """Whether the token at `position` is in the brackets of an access, not in those of a condition."""
    depth = 0
    for k in range(position - 1, 0, -1):
        depth += {"]": 1, "[": -1}.get(tokens[k].kind, 0)
        if depth < 0:
            return tokens[k - 1].kind in ("name", "]")
    return False


def _word(word: str) -> str | None:
    return WORDS[word].text if word in WORDS and word not in RESERVED else None


def letters(count: int, taken: Container[str]) -> list[str]:
    """Names for `count` indices."""
    free = [name for name in "ijklpqrs" if name not in taken]
    return (free + [f"i{k}" for k in range(count)])[:count]


def elementwise(form: str, parts: Sequence[tuple[str, tuple[Affine, ...]]], taken: Container[str]) -> str:
    """`form`, an expression of values of these shapes, written elementwise: gen i:n. x[i] + y[i]."""
    sizes = max((shape for _, shape in parts), key=len)
    indices = letters(len(sizes), taken)
    names = []
    for text, shape in parts:
        whole = text if re.fullmatch(r"\w+", text) else f"({text})"
        names.append(f"{whole}[{', '.join(indices[: len(shape)])}]" if shape else text)
    binders = ", ".join(f"{i}:{size}" for i, size in zip(indices, sizes, strict=True))
    shapes = [shape for _, shape in parts if shape]
    if form == "{} * {}" and len(shapes) == 2 and [len(s) for s in shapes] == [2, 1] and shapes[0][1] is shapes[1][0]:
        (a, v), (i, j) = (parts[0][0], parts[1][0]), indices
        return f"gen {i}:{sizes[0]}. sum {j}:{sizes[1]}. {a}[{i}, {j}] * {v}[{j}]"
    return f"arrays are computed with element by element: gen {binders}. {form.format(*names)}"
