"""Whether two programs are the same up to the identity of their variables, indices, relations and index arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorlang.language.affine import Affine, Atom, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Proj,
    Recur,
    Sum,
    Var,
    children,
    type_of,
)
from tensorlang.language.predicates import And, Equal, Exists, NonNegative, Or, Predicate, Related, Relation
from tensorlang.recursion import Deep, run


def alike(f: Function, g: Function) -> bool:
    """Whether `f` and `g` are the same program; parameters, but not bound variables, must have the same names."""
    if len(f.params) != len(g.params) or f.name != g.name:
        return False
    names: _Names = _Names()
    for p, q in zip(f.params, g.params, strict=True):
        if p.name != q.name or type(p) is not type(q):
            return False
        if isinstance(p, Var) and isinstance(q, Var) and p.type is not q.type:
            return False
        if isinstance(p, IndexArray) and isinstance(q, IndexArray) and type_of(p) is not type_of(q):
            return False
        if isinstance(p, Relation) and isinstance(q, Relation) and p.sizes != q.sizes:
            return False
        names.same[p] = q
    return run(names.expressions(f.body, g.body))


class _Names:
    def __init__(self) -> None:
        self.same: dict[Any, Any] = {}
        self.done: set[tuple[Expr, Expr]] = set()

    def affine(self, a: Affine, b: Affine) -> bool:
        atoms: dict[Atom, Affine] = {i: atom_affine(self.same[i]) for i in a.indices if i in self.same}
        atoms |= {Lookup(y, ()): atom_affine(Lookup(self.same[y], ())) for y in a.arrays}
        return a.substitute(atoms) is b

    def expressions(self, a: Expr, b: Expr) -> Deep[bool]:
        if type(a) is not type(b):
            return False
        if isinstance(a, Var):
            return self.same.get(a) is b
        if isinstance(a, Const):
            return a is b
        if (a, b) in self.done:
            return True
        for x, y in self.bound(a, b):
            self.same[x] = y  # where a part is shared, one variable of one program corresponds to several of the other
        if not self.here(a, b) or len(children(a)) != len(children(b)):
            return False
        for x, y in zip(children(a), children(b), strict=True):
            if not (yield self.expressions(x, y)):
                return False
        self.done.add((a, b))
        return True

    def bound(self, a: Expr, b: Expr) -> Iterator[tuple[Any, Any]]:
        match a, b:
            case (Let(x, _, _), Let(y, _, _)):
                yield x, y
            case (Recur(_, i, _, s, _, _), Recur(_, j, _, r, _, _)):
                yield i, j
                yield s, r
            case (Gen(i, _, _), Gen(j, _, _)) | (Sum(i, _, _), Sum(j, _, _)):
                yield i, j
            case (Extremum(_, i, _, _, _), Extremum(_, j, _, _, _)) | (Choice(_, i, _, _, _), Choice(_, j, _, _, _)):
                yield i, j

    def here(self, a: Any, b: Any) -> bool:
        match a:
            case Gen() | Sum():
                return self.affine(a.size, b.size)
            case Extremum() | Choice():
                return bool(a.sign == b.sign) and self.affine(a.size, b.size) and self.predicates(a.pred, b.pred)
            case Recur():
                return bool(a.word == b.word) and self.affine(a.size, b.size) and a.state.type is b.state.type
            case Access():
                return self.affine(a.at, b.at)
            case Integer():
                return self.affine(a.value, b.value)
            case Bracket():
                return self.predicates(a.pred, b.pred)
            case Compared():
                return bool(a.op == b.op)
            case Call():
                return a.function is b.function
            case Proj():
                return bool(a.which == b.which)
            case Let():
                return type_of(a.var) is type_of(b.var)
        return bool(getattr(a, "sign", None) == getattr(b, "sign", None))

    def predicates(self, p: Predicate, q: Predicate) -> bool:
        match p, q:
            case (Equal(a), Equal(b)):
                return self.affine(a, b) or self.affine(-a, b)
            case (NonNegative(a), NonNegative(b)):
                return self.affine(a, b)
            case (Related(r, many), Related(s, others)):
                return self.same[r] is s and all(map(self.affine, many, others))
            case (And(parts), And(rest)) | (Or(parts), Or(rest)):
                return len(parts) == len(rest) and all(map(self.predicates, parts, rest))
            case (Exists(i, n, body), Exists(j, m, other)):
                self.same[i] = j
                return self.affine(n, m) and self.predicates(body, other)
        return False
