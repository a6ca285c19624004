"""The standard library: programs to call on arrays, on terms of other programs, and by name in text.

tl.lib.softmax(x)                                             of an array
tl.gen(n, lambda i: tl.lib.mean(A[i]))                        in a program
tl.parse("f(A: [n][m]R) = gen i:n. softmax(A[i])")            in text
"""

from tensorlang.language.function import Function
from tensorlang.surface.parse import library


def __getattr__(name: str) -> Function:
    if name not in library():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return library()[name]


def __dir__() -> list[str]:
    return sorted(library())
