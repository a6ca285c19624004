"""The standard library: programs to call on arrays, on terms of other programs, and by name in text.

tl.lib.softmax(x)                                             of an array
tl.gen(n, lambda i: tl.lib.mean(A[i]))                        in a program
tl.parse("f(A: [n][m]R) = gen i:n. softmax(A[i])")            in text

>>> import tensorlang as tl
>>> tl.lib.mean([1.0, 2.0, 6.0])
Array(3., dtype=float32)
>>> print(tl.lib.mean)
mean(x: [n]R) = (sum i:n. x[i]) / n
"""

from tensorlang.errors import UnknownAttribute, here
from tensorlang.language.function import Function, did_you_mean
from tensorlang.surface.parse import library


def __getattr__(name: str) -> Function:
    if name not in library():
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        hint = did_you_mean(name, list(library())) or "docs/library.md has what there is"
        raise UnknownAttribute(f"the library has no program called {name}", here(), hint)
    return library()[name]


def __dir__() -> list[str]:
    return sorted(library())
