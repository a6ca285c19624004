"""A choice between two values of one type, a number, an array or a pair.

    if c then a else b     ->  [c] * a + [not c] * b                       of numbers
    if c then x else y     ->  gen i:n. [c] * x[i] + [not c] * y[i]        of arrays
    if c then p else q     ->  (if c then fst(p) else fst(q), ..)          of pairs

Only the side that is taken has to exist, part by part. Arrays that are computed get a name first, and so does what is
computed as a whole, such as a recurrence.
"""

from __future__ import annotations

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Access, Add, Expr, Gen, MakePair, Proj, Var, bracket
from tensorlang.language.lets import Binding, under
from tensorlang.language.predicates import Predicate
from tensorlang.language.types import Array, Pair, R, Type, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.surface.mistakes import letters


def either(p: Predicate, a: Expr, q: Predicate, b: Expr) -> Expr:
    """`a` where `p` holds, and `b` where `q` does, which must exclude each other; both sides are of one type."""
    named: list[Binding] = []

    def read(name: str, p: Predicate, e: Expr) -> Expr:
        """`e`, or its name."""
        if isinstance(e, MakePair) or _is_read(e):
            return e
        made = Var(name, e.type)
        named.append((made, bracket(p, e)))
        return made

    def visit(a: Expr, b: Expr) -> Deep[Expr]:
        match a.type:
            case Array(size, _):
                a, b, i = read("a", p, a), read("b", q, b), Index("i")
                at = atom_affine(i)
                return Gen(i, size, (yield from call(visit(Access(a, at, None), Access(b, at, None)))))
            case Pair():
                a, b, parts = read("a", p, a), read("b", q, b), []
                for k in (0, 1):
                    parts.append((yield from call(visit(_part(k, a), _part(k, b)))))
                return MakePair(*parts)
            case _:
                return Add(bracket(p, a), bracket(q, b), 1)

    whole = run(visit(a, b))
    return under(named, whole)


def _part(which: int, e: Expr) -> Expr:
    return (e.second if which else e.first) if isinstance(e, MakePair) else Proj(which, e)


def _is_read(e: Expr) -> bool:
    """Whether `e` is a variable or a part of one."""
    while isinstance(e, Access | Proj):
        e = e.body
    return isinstance(e, Var)


def one_type(a: Type, b: Type, python: bool = False) -> str:
    """A hint for sides of the types `a` and `b`, which differ."""
    for number, other in ((a, b), (b, a)):
        sizes, element = shape(other)
        if number is R and sizes and element is R:
            axes = letters(len(sizes), ())
            if python:
                several = f"({', '.join(map(str, sizes))})" if len(sizes) > 1 else str(sizes[0])
                return f"the number everywhere: tl.gen({several}, lambda {', '.join(axes)}: 0)"
            return f"the number everywhere: gen {', '.join(f'{i}:{n}' for i, n in zip(axes, sizes, strict=True))}. 0"
    return "two numbers, two arrays of the same sizes, or two pairs of such"
