"""The forms that bind names in text: lets, gens, sums, extrema, recurrences, and derivatives by variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tensorlang.errors import (
    ParseError,
    ScopeError,
    TensorlangError,
    TypeMismatch,
)
from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.grammar import (
    Bracket,
    Choice,
    Compared,
    Expr,
    Let,
    Var,
    extremum,
    gen,
    sums,
)
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.language.recurrence import kept_where, recurrence
from tensorlang.language.types import BoundedIndex, shape
from tensorlang.recursion import Deep, call
from tensorlang.surface.calls import CallReader
from tensorlang.surface.guards import opposite
from tensorlang.surface.lex import Token
from tensorlang.surface.operators import OF_NUMBERS, derived_in_place
from tensorlang.surface.pieces import Piece
from tensorlang.surface.share import share


class BindingReader(CallReader):
    """Reads forms that bind names. `looked_through` are variables for the bodies of operators, kept for the bounds
    check."""

    looked_through: list[Var]

    def let(self) -> Deep[Piece]:
        """`let x = e in e`."""
        token = self.advance()
        name = self.expect("name", "the name of a variable")
        self.expect("=", "'=' and an expression")
        self.defining.append(name.text)
        value: Piece = yield from call(self.expression())
        self.defining.pop()
        if self.token.kind != "in":
            goes_on = self.token.kind in ("name", "number", "(", "let", "gen", "sum", "end", "=")
            hint = f"`in` ends the value: let {name.text} = e in .." if goes_on else None
            raise self.unexpected("an operator or `in`", hint)
        self.advance()
        sizes, element = shape(value.expr.type)
        kind = value.expr.type
        var = IndexArray(name.text, sizes, element.size) if isinstance(element, BoundedIndex) else Var(name.text, kind)
        outer = self.bind(name, var)
        body: Piece = yield from call(self.expression())
        self.restore(name.text, outer)
        return self.piece(Let(var, value.expr, body.expr), token.start)

    def binder(self) -> Deep[Piece]:
        """`gen i:n, j:m. e` and `sum i:n, j:m where p. e`."""
        token = self.advance()
        binders, where, body = yield from call(self._range(token))
        if token.kind == "gen":
            return self.piece(gen(binders, body.expr), token.start)
        self.need_number(body, "the body of sum")
        e = body.expr if where is TRUE else Bracket(where, body.expr)
        return self.piece(sums(binders, e), token.start)

    def reduction(self) -> Deep[Piece]:
        """`max i:n where p. e`, and likewise min, argmax and argmin."""
        token = self.advance()
        binders, inside, body = yield from call(self._range(token))
        self.need_number(body, f"the body of {token.text}")
        sign = 1 if token.text.endswith("max") else -1
        where = self.lifted(binders, inside)
        if not token.text.startswith("arg"):
            return self.piece(extremum(sign, binders, where, body.expr), token.start)
        if len(binders) != 1:
            message = f"{token.text} chooses one index, found {len(binders)} of them"
            hint = f"one after the other: {token.text} i:n. max j:m. A[i, j], and then j"
            raise TypeMismatch(message, self.span(token.start), hint)
        ((index, size),) = binders
        return self.piece(Choice(sign, index, size, where, body.expr), token.start)

    def _range(self, token: Token) -> Deep[tuple[list[tuple[Index, Affine]], Predicate, Piece]]:
        """The binders, the condition and the body that follow the word `token`."""
        read = yield from call(self.binders(token.text))
        bound = self.bind_indices(read)
        where: Predicate = TRUE
        if self.token.kind == "where":
            if token.kind == "gen":
                raise self.unexpected("',' or '.'", "where a bracket is false there is 0: gen i:n. [p] * e")
            self.advance()
            where = yield from call(self.predicate())
            self.expect(".", "`and`, `or` or '.'")
        else:
            self.expect(".", "',' or '.'")
        body: Piece = yield from call(self.expression() if token.kind == "gen" else self.arithmetic())
        self.restore_all(bound)
        return [(index, size) for _, index, size in read], where, body

    def binds_time(self) -> bool:
        """Whether an index follows: `fold t:n`, or `fold reversed t:n`. Else the word is an ordinary name."""
        ahead = [self.peek(k) for k in (1, 2, 3)]
        return ahead[:2] == ["name", ":"] or ahead == ["name", "name", ":"]

    def recurrence(self) -> Deep[Piece]:
        """`fold t:n with s = e0, r = e1 . e`, where `reversed t:n` goes from the last t to the first."""
        token = self.advance()
        hint = f"a state, its first value, and the step: {token.text} t:n with s = 0 . s + x[t]"
        backwards = self.token.text == "reversed" and self.peek() == "name" and self.accept("name")
        binders = yield from call(self.binders(token.text))
        if len(binders) > 1:
            message = f"a {token.text} has one index, the time"
            raise ParseError(message, self.place(binders[1][0]), f"one {token.text} in the step of another")
        if not (self.token.kind == "name" and self.token.text == "with"):
            raise self.unexpected("`with`", hint)
        self.advance()
        names: list[Token] = []
        inits: list[Expr] = []
        while True:
            names.append(self.expect("name", "the name of a state"))
            if names[-1].text in [name.text for name in names[:-1]]:
                raise ScopeError(f"this {token.text} has two states called {names[-1].text}", self.place(names[-1]))
            self.expect("=", "'=' and the first value of the state")
            value: Piece = yield from call(self.expression())
            self.need_value(value, f"the first value of {names[-1].text}")
            inits.append(value.expr)
            if not self.accept(","):
                break
        ((_, index, size),) = binders
        states = [Var(name.text, e.type) for name, e in zip(names, inits, strict=True)]
        kept: Predicate | None = None
        if self.token.kind == "name" and self.token.text == "until":
            kept = yield from call(self._until(names, states))
        if self.token.kind != ".":
            raise self.unexpected("an operator, `until`, ',' or '.'", hint)
        self.advance()
        bound = self.bind_indices(binders)
        bound += [(name.text, self.bind(name, state)) for name, state in zip(names, states, strict=True)]
        step: Piece = yield from call(self.expression())
        self.restore_all(bound)
        self.need_value(step, f"the step of a {token.text}")
        try:
            if kept is not None:
                step = replace(step, expr=kept_where(states, kept, opposite(kept, self.holds), step.expr))
            e = recurrence(token.text, index, size, states, inits, step.expr, bool(backwards))
        except TypeMismatch as error:
            raise error.at(self.span(step.start, step.end)) from None
        return self.piece(e, token.start)

    def _until(self, names: list[Token], states: list[Var]) -> Deep[Predicate]:
        """`until c`, from which on the states stay the same. The time, which goes on, is not in scope in `c`."""
        self.advance()
        bound = [(name.text, self.bind(name, state)) for name, state in zip(names, states, strict=True)]
        found: Predicate = yield from call(self.predicate())
        self.restore_all(bound)
        return found

    def derivative_operator(self) -> Deep[Piece]:
        """`grad x, y. e` and its like; `derivative x = dx. e` has differentials, `adjoint x with c. e` a cotangent."""
        token = self.advance()
        wrt: list[Var] = []
        seeds: list[Piece] = []
        while True:
            wrt.append(self._differentiable(self.expect("name", "the name of a variable"), wrt))
            if token.text == "derivative":
                self.expect("=", f"'=' and how {wrt[-1].name} changes")
                seeds.append((yield from call(self.expression())))
            if not self.accept(","):
                break
        if token.text == "adjoint":
            if self.token.text != "with":
                raise self.unexpected("',' or `with`", f"the cotangent of e: adjoint {wrt[0].name} with c. e")
            self.advance()
            seeds.append((yield from call(self.expression())))
        if self.token.kind != ".":
            raise self.unexpected(
                "an operator, ',' or '.'", f"what is differentiated follows a point: {token.text} x. e"
            )
        self.advance()
        asked = dict(self.conditions)
        body: Piece = yield from call(self.expression())
        self.need_value(body, f"the body of {token.text}")
        if token.text in OF_NUMBERS:
            self.need_number(body, f"the body of {token.text}", f"{token.text} {wrt[0].name}. {{}}", self.shown(body))
        e = self.with_conditions(body.expr, {k: v for k, v in self.conditions.items() if k not in asked})
        self.conditions = asked
        try:
            derived = derived_in_place(token.text, e, wrt, [seed.expr for seed in seeds])
        except TensorlangError as error:
            error.place = self.span(token.start)
            raise
        # the body is checked for accesses out of bounds, and then left out
        self.looked_through.append(Var("e", e.type))
        return self.piece(Let(self.looked_through[-1], e, derived), token.start)

    def _differentiable(self, token: Token, others: list[Var]) -> Var:
        """The variable that `token` names, which must be differentiable."""
        named = self.scope.get(token.text)
        if not isinstance(named, Var):
            self.variable(token)
            raise TypeMismatch(f"derivatives are by real variables, and {token.text} is none", self.place(token))
        if named in others:
            raise ScopeError(f"{token.text} stands here twice", self.place(token))
        return named

    def with_conditions(self, e: Expr, found: Mapping[Any, tuple[IndexArray, Expr]]) -> Expr:
        """`e` with lets for the conditions on values that occur in it."""
        if not found:
            return e
        asked = dict(found.values())
        made_under = {value: tuple(self.free(value)) for value in asked.values()}
        return share(e, made_under=made_under, choices=asked, shared=(Compared,))
