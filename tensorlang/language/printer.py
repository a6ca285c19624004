"""The printer of programs in every notation: parentheses, names and line breaks.

Parentheses are the fewest that preserve the program: each expression is printed for a place where it must bind at least
as tightly as `level`, and `follow` describes what comes after it. This matters since `let`, `gen` and `sum` extend as
far right as they can, and a bracket has the whole rest of a product as its body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.conditions import ConditionPrinter, Restorable
from tensorlang.language.function import Function, Parameter, sizes_of, unused_name
from tensorlang.language.functions import KEYWORDS, function
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
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
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
    children,
    type_of,
)
from tensorlang.language.layout import LINE, Doc, Row, concat, group, joined, nest, rigid
from tensorlang.language.names import Named, free_names, plain_name
from tensorlang.language.notation import ATOM, CLOSED, FACTOR, LOOSE, POWER, PRODUCT, SUM, Notation, decimal
from tensorlang.language.predicates import TRUE, Predicate, Relation
from tensorlang.language.types import BoundedIndex, Pair, Type, shape
from tensorlang.recursion import Deep, call, run

_END, _SUM_GOES_ON, _PRODUCT_GOES_ON = range(3)


class Printer(ConditionPrinter):
    """Prints in one notation; names that were printed, or are `given`, stay the same in later output."""

    def __init__(self, notation: Notation, given: Mapping[Named, str] | None = None) -> None:
        super().__init__(notation, given)
        self._types: dict[Type | Parameter, Doc] = {}

    def function(self, f: Function) -> Iterator[Row]:
        """The definition of `f`: each outermost let on lines of its own."""
        for named in [*f.sizes, *f.params, *free_names(f.body)]:
            self.names[named]
        params = [concat(self.name(p), ": ", run(self.type(p))) for p in f.params]
        params += [concat(self.name(size), ": ", self.notation.size) for size in _declared_alone(f)]
        title = self.notation.name(unused_name(plain_name(f.name), set(KEYWORDS)))
        head = group(title, "(", nest(joined(params, self.notation.line)), ") =")
        if isinstance(f.body, Let):
            yield 0, head
            yield from ((indent + 2, doc) for indent, doc in self._tail(f.body))
        else:
            yield 0, group(head, nest(LINE, run(self.expr(f.body))))

    def whole(self, e: Expr) -> Iterator[Row]:
        """An expression on its own, whose outermost lets are on lines of their own."""
        for named in free_names(e):
            self.names[named]
        return self._tail(e)

    def _tail(self, e: Expr) -> Iterator[Row]:
        bound = []
        while isinstance(e, Let):
            value = run(self.expr(e.value))
            bound.append(self._bind(e.var))
            yield 0, self._let(e.var, value)
            e = e.body
        yield 0, run(self.expr(e))
        for names in reversed(bound):
            self._restore(names)

    def type(self, kind: Type | Parameter) -> Deep[Doc]:
        """A type, or the declared type of a parameter."""
        if kind in self._types:
            return self._types[kind]
        if isinstance(kind, Relation):
            return f"{self.notation.relation}({self.affines(kind.sizes)})"
        sizes, element = shape(type_of(kind) if isinstance(kind, Var | IndexArray) else kind)
        inner: Doc = self.notation.real
        if isinstance(element, BoundedIndex):
            inner = f"{self.notation.index}({self.affine(element.size)})"
        elif isinstance(element, Pair):
            first: Doc = yield from call(self.type(element.first))
            second: Doc = yield from call(self.type(element.second))
            inner = concat("(", first, self.notation.between_types, second, ")")
        doc = self._types[kind] = concat(*(f"[{self.affine(size)}]" for size in sizes), inner)
        return doc

    def expr(self, e: Expr, level: int = LOOSE, follow: int = _END) -> Deep[Doc]:
        """An expression in a place where it must bind at least as tightly as `level`, and `follow` comes next."""
        key = (e, level, follow, self._scope)
        if key in self._known:
            return self._known[key]
        wrap = self._level(e) < level or _tolerates(e) < follow
        if wrap:
            follow = _END
        doc: Doc
        match e:
            case Var():
                doc = self.name(e)
            case Const(value):
                doc = self.notation.number(value)[0]
            case Integer(value):
                doc = self._integer(value)
            case Add():
                doc = yield from call(self._sum(e, follow))
            case Mul():
                doc = yield from call(self._product(e, follow))
            case Call():
                doc = yield from call(self._call(e))
            case MakePair(a, b):
                first = yield from call(self.expr(a))
                second = yield from call(self.expr(b))
                doc = self._enclosed(joined([first, second], self.notation.line))
            case Proj(which, body):
                inner = yield from call(self.expr(body))
                doc = concat(self.notation.projections[which], self._enclosed(inner))
            case Gen() | Sum() | Extremum() | Choice():
                doc = yield from call(self._binder(e))
            case Compared(op, a, b):
                first = yield from call(self.expr(a, SUM, _SUM_GOES_ON))
                second = yield from call(self.expr(b, SUM))
                doc = group(first, self.notation.line, concat(f"{self.notation.comparison[op]} ", second))
            case Access():
                doc = yield from call(self._access(e))
            case Bracket():
                doc = yield from call(self._bracket(e, follow))
            case Recur():
                doc = yield from call(self._recurrence(e))
            case Apply(routine, arguments):
                parts = []
                for argument in arguments:
                    parts.append((yield from call(self.expr(argument))))
                called = self.notation.name(routine.name)
                doc = concat(called, self._enclosed(joined(parts, self.notation.line)))
            case Let(var, value, body):
                value_doc = yield from call(self.expr(value))
                bound = self._bind(var)
                body_doc = yield from call(self.expr(body))
                doc = group(self._let(var, value_doc), LINE, body_doc)
                self._restore(bound)
        if wrap:
            doc = self._enclosed(doc)
        self._known[key] = doc
        return doc

    def _integer(self, a: Affine) -> Doc:
        """An index or a size by its name, anything else as real(a)."""
        text = self.affine(a)
        if len(a.terms) == 1 and not a.constant and a.terms[0][1] == 1 and not a.lookups:
            return text
        return concat(self.notation.number_of, self._enclosed(text))

    def _sum(self, e: Expr, follow: int) -> Deep[Doc]:
        terms: list[tuple[str, Expr]] = []
        while isinstance(e, Add):
            terms.append((" + " if e.sign > 0 else " - ", e.right))
            e = e.left
        first: Doc = yield from call(self.expr(e, PRODUCT, _SUM_GOES_ON))
        rest: list[Doc] = []
        for k, (sign, term) in enumerate(reversed(terms)):
            doc = yield from call(self.expr(term, PRODUCT, follow if k == len(terms) - 1 else _SUM_GOES_ON))
            rest += [self.notation.line, concat(sign[1:], doc)]
        return group(first, nest(*rest))

    def _product(self, e: Mul, follow: int) -> Deep[Doc]:
        if _is_negation(e):
            negated: Doc = yield from call(self.expr(e.right, CLOSED if isinstance(e.right, Const) else POWER, follow))
            return concat("-", negated)
        divisor = _divisor(e)
        if divisor is not None and self.notation.has_fractions:
            above: Doc = yield from call(self.expr(e.left))
            below: Doc = yield from call(self.expr(divisor))
            return rigid(r"\frac{", above, "}{", below, "}")
        factors: list[tuple[str, Expr]] = []
        head: Expr = e
        while isinstance(head, Mul) and not _is_negation(head):
            divisor = _divisor(head)
            if divisor is not None and self.notation.has_fractions:
                break
            factors.append(("/ ", divisor) if divisor is not None else (self.notation.times[1:], head.right))
            head = head.left
        first: Doc = yield from call(self.expr(head, PRODUCT, _PRODUCT_GOES_ON))
        rest: list[Doc] = []
        for k, (operator, factor) in enumerate(reversed(factors)):
            ends = k == len(factors) - 1 and operator != "/ "
            doc = yield from call(self.expr(factor, FACTOR, follow if ends else _PRODUCT_GOES_ON))
            rest += [self.notation.line, concat(operator, doc)]
        return group(first, nest(*rest))

    def _call(self, e: Call) -> Deep[Doc]:
        f = e.function
        if f.exponent is not None:
            suffix = self.notation.exponent(f.exponent)
            if suffix is not None:
                base: Doc = yield from call(self.expr(e.arguments[0], ATOM))
                return concat(base, suffix)
            base = yield from call(self.expr(e.arguments[0]))
            return concat(self.notation.name("pow"), self._enclosed(joined([base, str(f.exponent)])))
        template = self.notation.template(f)
        arguments: list[Doc] = []
        for argument in e.arguments:
            arguments.append((yield from call(self.expr(argument, template.inner if template else LOOSE))))
        if template is None:
            return concat(f.name, self._enclosed(joined(arguments, self.notation.line)))
        if template.fences is not None:
            opening, closing = template.fences
            return group(opening, nest(joined(arguments, self.notation.line)), closing)
        return rigid(*(arguments[piece] if isinstance(piece, int) else piece for piece in template.pieces))

    def _binder(self, e: Gen | Sum | Extremum | Choice) -> Deep[Doc]:
        """A binder together with those of the same kind directly under it; one with a condition is printed alone."""
        word = _word(e)
        binders: list[tuple[str, str]] = []
        bound: list[Restorable] = []
        where: Predicate = TRUE
        body: Expr = e
        while isinstance(body, Gen | Sum | Extremum | Choice) and _word(body) == word and where is TRUE:
            condition = TRUE if isinstance(body, Gen | Sum) else body.pred
            if binders and condition is not TRUE:
                break
            where = condition
            size = self.affine(body.size)
            bound.append(self._bind(body.index))
            binders.append((self.name(body.index), size))
            body = body.body
        shown: Doc | None = None
        if where is not TRUE:
            shown = yield from call(self.predicate(where))
        inner: Doc = yield from call(self.expr(body))
        for names in reversed(bound):
            self._restore(names)
        return group(self.notation.binder(word, binders, shown), nest(self.notation.after_binder, inner))

    def _recurrence(self, e: Recur) -> Deep[Doc]:
        """word index:size with state = init . step"""
        init: Doc = yield from call(self.expr(e.init))
        size = self.affine(e.size)
        bound = [self._bind(e.index), self._bind(e.state)]
        head = self.notation.recurrence(e.word, self.name(e.index), size, self.name(e.state), init)
        step: Doc = yield from call(self.expr(e.step))
        for names in reversed(bound):
            self._restore(names)
        return group(head, nest(LINE, step))

    def _access(self, e: Expr) -> Deep[Doc]:
        at: list[Affine] = []
        while isinstance(e, Access):
            at.append(e.at)
            e = e.body
        array: Doc = yield from call(self.expr(e, ATOM))
        return concat(array, f"[{self.affines(reversed(at))}]")

    def _bracket(self, e: Bracket, follow: int) -> Deep[Doc]:
        p: Doc = yield from call(self.predicate(e.pred))
        opening, closing = self.notation.brackets
        test = group(opening, nest(p), closing)
        if isinstance(e.body, Const) and e.body.value == 1:
            return test
        body: Doc = yield from call(self.expr(e.body, PRODUCT, follow))
        return concat(test, self.notation.times, body)

    def _let(self, var: Var | IndexArray, value: Doc) -> Doc:
        return concat(self.notation.let, self.name(var), " = ", value, self.notation.let_in)

    def _level(self, e: Expr) -> int:
        """How tightly `e` binds as it is printed."""
        match e:
            case Const(value):
                return self.notation.number(value)[1]
            case Add():
                return SUM
            case Mul():
                if _is_negation(e):
                    return FACTOR
                return POWER if self.notation.has_fractions and _divisor(e) is not None else PRODUCT
            case Call(f, _):
                if f.exponent is not None:
                    return POWER if self.notation.exponent(f.exponent) is not None else ATOM
                template = self.notation.template(f)
                return template.outer if template else ATOM
            case Compared():
                return LOOSE
            case Let() | Gen() | Sum() | Extremum() | Choice() | Recur() | Bracket():
                return POWER
            case Var() | Integer() | MakePair() | Proj() | Access() | Apply():
                return ATOM


def _declared_alone(f: Function) -> list[Size]:
    """The sizes that neither a parameter's type nor a range of `f` mentions."""
    known = {s for p in f.params for a in sizes_of(p) for s in a.sizes}
    others = [s for s in f.sizes if s not in known]
    seen: set[Expr] = set()
    stack = [f.body] if others else []
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack += children(e)
            if isinstance(e, Gen | Sum | Extremum | Choice | Recur):
                known.update(e.size.sizes)
    return [s for s in others if s not in known]


def _word(e: Gen | Sum | Extremum | Choice) -> str:
    return e.word if isinstance(e, Extremum | Choice) else "gen" if isinstance(e, Gen) else "sum"


def _tolerates(e: Expr) -> int:
    """What may follow `e` without parentheses: a bracket would absorb the rest of a product, a let anything."""
    if isinstance(e, Let | Gen | Sum | Extremum | Choice | Compared | Recur):
        return _END
    return _SUM_GOES_ON if isinstance(e, Bracket) else _PRODUCT_GOES_ON


def _is_negation(e: Mul) -> bool:
    """Whether `e` is -1 * e', unless it is better read as -1 / e'."""
    return isinstance(e.left, Const) and e.left.value == -1 and _divisor(e) is None


def _divisor(e: Mul) -> Expr | None:
    """b if `e` is a / b, unless that would be read as the quotient of two literals, which is a constant; else None."""
    if not (isinstance(e.right, Call) and e.right.function is function("recip")):
        return None
    divisor = e.right.arguments[0]
    literal = isinstance(divisor, Const) and divisor.value >= 0 and decimal(divisor.value) is not None
    if literal and isinstance(e.left, Const) and decimal(abs(e.left.value)) is not None:
        return None
    return divisor
