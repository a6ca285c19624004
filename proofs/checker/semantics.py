"""The meaning and the cost of programs at given sizes, only by the definitions of Figures 4 to 6: slowly, point by
point.

Numbers are exact fractions, floating-point ones where a scalar function needs them, or dual numbers. An array is a
list, and an array of pairs is a pair of arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import chain
from math import prod
from statistics import NormalDist
from typing import Any

from . import trees
from .budget import Budget, TooLarge
from .names import extended
from .polygamma import polygamma
from .trees import (
    Add,
    Affine,
    All,
    Apply,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Element,
    Exists,
    Expr,
    Gen,
    Holds,
    Integer,
    Let,
    Mul,
    Name,
    Num,
    Pair,
    Part,
    Pred,
    Recur,
    Refused,
    Sum,
    Test,
    chooses,
)

Env = Mapping[str, Any]
"""The values of names: integers for indices and sizes, values, sets of points for relations."""


class NoIndex(Exception):
    """An index chosen among none, or an element that an index array does not have. A comparison with it is false."""


class Undefined(ArithmeticError):
    """A value that does not exist: the reciprocal of 0, the maximum of nothing."""


@dataclass(frozen=True)
class Dual:
    """value + eps * slope, with eps^2 = 0: addition and multiplication also differentiate."""

    value: Any
    slope: Any

    def __add__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value - other.value, self.slope - other.slope)

    def __rsub__(self, other: Any) -> Dual:
        return dual(other) - self

    def __mul__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    __radd__ = __add__
    __rmul__ = __mul__


def dual(x: Any) -> Dual:
    """`x` as a dual number."""
    return x if isinstance(x, Dual) else Dual(x, 0)


def plain(x: Any) -> Any:
    """A number without its slope."""
    return x.value if isinstance(x, Dual) else x


@dataclass(frozen=True)
class Function:
    """A scalar function as a certificate declares it: its cost, its derivative over x0, x1, .., y and t, and its value
    over x0, x1, .. if the checker doesn't know it. Without components its derivative is not declared."""

    name: str
    arity: int
    cost: int
    components: tuple[Expr | None, ...]
    body: Expr | None = None


COSTS = {
    **dict.fromkeys(("erf", "erfc", "erfinv", "cbrt", "rsqrt", "mod"), 2),
    **dict.fromkeys(("asin", "acos", "atan", "asinh", "acosh", "atanh"), 2),
    **dict.fromkeys(("atan2", "power"), 5),
    "logaddexp": 7,
}
"""The costs of scalar functions that don't cost 1; powers cost their multiplications by repeated squaring."""


def known(f: str) -> bool:
    """Whether the checker knows the scalar function `f`."""
    return f in FUNCTIONS or f.startswith("pow ")


def known_cost(f: str) -> int:
    """The cost of a scalar function."""
    if f.startswith("pow "):
        exponent = Fraction(f.removeprefix("pow "))
        n = exponent.numerator
        return n.bit_length() + n.bit_count() - 2 if exponent.denominator == 1 and n >= 2 else 1
    return COSTS.get(f, 1)


def operations(e: Expr, functions: Mapping[str, Function]) -> int:
    """The cost of a scalar expression."""
    match e:
        case Num() | Name():
            return 0
        case Add(a, b, _) | Mul(a, b):
            return 1 + operations(a, functions) + operations(b, functions)
        case Call(f, arguments) if f in functions or known(f):
            own = functions[f].cost if f in functions else known_cost(f)
            return own + sum(operations(a, functions) for a in arguments)
    raise Refused("a derivative is made of numbers, arguments, +, -, * and declared functions")


_LARGE = 1e150


def _recip(x: Any) -> Any:
    if x == 0:
        raise Undefined("the reciprocal of 0")
    if isinstance(x, float) and abs(x) > _LARGE:
        raise Undefined("a reciprocal whose square, which its derivative has, is rounded to 0")
    return 1 / x


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > 0 else math.exp(x) / (1.0 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log(x: Any) -> float:
    if x <= 0:
        raise Undefined("the logarithm of what is not positive")
    return math.log(x)


def _power(x: Any, y: Any) -> float:
    return math.pow(x, y)  # a power has no value where it is complex


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "recip": _recip,
    "abs": abs,
    "max": max,
    "min": min,
    "relu": lambda x: max(x, 0),
    "sign": lambda x: (x > 0) - (x < 0),
    "where_ge": lambda a, b, t: t if a >= b else 0,
    "where_gt": lambda a, b, t: t if a > b else 0,
    "exp": math.exp,
    "log": _log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "sigmoid": _sigmoid,
    "sqrt": math.sqrt,
    "erf": math.erf,
    "softplus": _softplus,
    "logaddexp": lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
    "log1p": math.log1p,
    "expm1": math.expm1,
    "log2": math.log2,
    "log10": math.log10,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "cbrt": math.cbrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "erfc": math.erfc,
    "erfinv": lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2),
    "lgamma": math.lgamma,
    "digamma": partial(polygamma, 0),
    "trigamma": partial(polygamma, 1),
    "tetragamma": partial(polygamma, 2),
    "pentagamma": partial(polygamma, 3),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "mod": lambda a, b: a % b,
    "atan2": math.atan2,
    "power": _power,
}
"""The scalar functions that this checker knows, except powers."""


KEEP_ZERO = frozenset(
    (
        *("abs", "relu", "sign", "ceil", "floor", "round"),
        *("sin", "sinh", "tan", "tanh", "asin", "asinh", "atan", "atanh"),
        *("sqrt", "cbrt", "erf", "erfinv", "expm1", "log1p"),
    )
)
"""The functions of one argument that are 0 at 0, except powers."""


def keeps_zero(f: str) -> bool:
    """Whether the scalar function `f`, of one argument, is 0 at 0."""
    return f in KEEP_ZERO or (f.startswith("pow ") and not f.startswith("pow -"))


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
_MOST_EXPONENT = 4096
_LONGEST = 100_000


def applied(name: str, arguments: Sequence[Any]) -> Any:
    """A scalar function of numbers that are not dual."""
    if name.startswith("pow "):
        exponent = Fraction(name.removeprefix("pow "))
        if abs(exponent) > _MOST_EXPONENT:
            raise TooLarge(f"a power of {exponent}")
        try:
            return arguments[0] ** (exponent.numerator if exponent.denominator == 1 else float(exponent))
        except ArithmeticError as error:
            raise Undefined(f"{name} of {arguments}: {error}") from None
    if name not in FUNCTIONS:
        raise Undefined(f"{name}, which is not known here")
    try:
        return FUNCTIONS[name](*arguments)
    except (ValueError, ArithmeticError) as error:
        raise Undefined(f"{name} of {arguments}: {error}") from None


EXACT = frozenset(("recip", "relu", "abs", "sign", "max", "min", "where_ge", "where_gt"))
"""The functions whose values at rational numbers are rational, except powers."""
_MOST_BITS = 4096


def length(x: Fraction) -> int:
    """The number of bits that a number takes."""
    return x.numerator.bit_length() + x.denominator.bit_length()


def exact(f: str, arguments: Sequence[Fraction | None]) -> Fraction | None:
    """The value of a scalar function at known rational numbers, if it is rational, and not too long to be useful."""
    known = [a for a in arguments if a is not None]
    power = Fraction(f.removeprefix("pow ")) if f.startswith("pow ") else Fraction(1)
    bits = sum(map(length, known))
    if f not in EXACT and not (f.startswith("pow ") and power.denominator == 1):
        return None
    if len(known) < len(arguments) or abs(power) * bits > _MOST_BITS:
        return None
    try:
        return Fraction(applied(f, known))
    except Undefined:
        return None


def fine(p: Pred) -> tuple[Pred, ...]:
    """The parts of a conjunction."""
    return tuple(chain.from_iterable(map(fine, p.parts))) if isinstance(p, All) else (p,)


@cache
def names_in(p: Pred | Affine) -> frozenset[str]:
    """The names that occur in a predicate or an index expression, except those that it binds."""
    match p:
        case Affine(terms, _):
            if all(isinstance(atom, str) for atom, _ in terms):
                return frozenset(atom for atom, _ in terms)  # type: ignore[misc]
            found = [names_in_atom(atom) for atom, _ in terms]
        case Compare(_, a):
            found = [names_in(a)]
        case Holds(relation, at):
            found = [frozenset([relation]), *map(names_in, at)]
        case Exists(i, size, body):
            found = [names_in(size), names_in(body) - {i}]
        case _:
            found = [names_in(part) for part in p.parts]
    return frozenset().union(*found)


def names_in_atom(atom: str | Element) -> frozenset[str]:
    """The names in a name, or in an element of an index array."""
    if isinstance(atom, str):
        return frozenset([atom])
    return frozenset([atom.array]).union(*map(names_in, atom.at))


class Semantics:
    """The meaning and the cost of programs over some scalar functions."""

    def __init__(self, functions: Mapping[str, Function], budget: Budget) -> None:
        self.functions = functions
        self.budget = budget

    # ---- index expressions and predicates

    def index(self, a: Affine, env: Env) -> int:
        """The value of an index expression."""
        return a.constant + sum(k * self._atom(atom, env) for atom, k in a.terms)

    def _atom(self, atom: str | Element, env: Env) -> int:
        if isinstance(atom, str):
            if atom not in env:
                raise Refused(f"{atom} is bound nowhere")
            known: int = env[atom]
            return known
        found = forced(env[atom.array])
        for a in atom.at:
            at = self.index(a, env)
            if isinstance(found, list) and not 0 <= at < len(found):
                raise NoIndex
            found = _element(found, at, atom.array)
        if found is None:
            raise NoIndex
        index: int = found
        return index

    def holds(self, p: Pred, env: Env) -> bool:
        """Whether `p` is true."""
        match p:
            case Compare() | Holds():
                try:
                    return self._compares(p, env)
                except NoIndex:
                    return False
            case All(parts):
                return all(self.holds(part, env) for part in parts)
            case trees.Any(parts):
                return any(self.holds(part, env) for part in parts)
            case Exists(i, size, body):
                return any(True for _ in self.points([(i, size)], body, env))

    def _compares(self, p: Compare | Holds, env: Env) -> bool:
        if isinstance(p, Holds):
            return tuple(self.index(a, env) for a in p.at) in env[p.relation]
        value = self.index(p.value, env)
        return value == 0 if p.equal else value >= 0

    def points(self, binders: Sequence[tuple[str, Affine]], p: Pred, env: Env) -> Iterator[Env]:
        """The points of the ranges at which `p` is true; each of its parts is evaluated as soon as all names in it are
        bound."""
        own = [i for i, _ in binders]
        asked: list[list[Pred]] = [[] for _ in range(len(binders) + 1)]
        for part in fine(p):
            mentioned = names_in(part)
            asked[max((k + 1 for k, i in enumerate(own) if i in mentioned), default=0)].append(part)

        def extend(k: int, env: Env) -> Iterator[Env]:
            if not all(self.holds(part, env) for part in asked[k]):
                return
            if k == len(binders):
                yield env
                return
            i, size = binders[k]
            for at in self._values(i, range(self.index(size, env)), asked[k + 1], env):
                self.budget.spend()
                yield from extend(k + 1, extended(env, i, at))

        return extend(0, env)

    def _values(self, i: str, inside: range, parts: Sequence[Pred], env: Env) -> Sequence[int]:
        """The values of i in its range, only one if an equality of `parts` determines it."""
        for part in parts:
            if isinstance(part, Compare) and part.equal:
                for atom, k in part.value.terms:
                    if atom == i and abs(k) == 1:
                        rest = part.value - Affine(((atom, k),))
                        if i in names_in(rest):
                            continue
                        try:
                            at = -k * self.index(rest, env)
                        except NoIndex:
                            return ()
                        return (at,) if at in inside else ()
        return inside

    def _range(self, size: Affine, env: Env) -> Iterator[int]:
        for k in range(self.index(size, env)):
            self.budget.spend()
            yield k

    # ---- values

    def value(self, e: Expr, env: Env) -> Any:
        """The value of `e`."""
        match e:
            case Num(value):
                return value
            case Integer(a):
                try:
                    return Fraction(self.index(a, env))
                except NoIndex:
                    raise Undefined("the index where none was chosen") from None
            case Name(x):
                if x not in env:
                    raise Refused(f"{x} is bound nowhere")
                return forced(env[x])
            case Part(which, body):
                both = self.value(body, env)
                return both[which] if isinstance(both, tuple) else both
            case Pair(a, b):
                return self.value(a, env), self.value(b, env)
            case Add(a, b, sign):
                left, right = self.value(a, env), self.value(b, env)
                return left + right if sign > 0 else left - right
            case Mul(a, b):
                product = self.value(a, env) * self.value(b, env)
                if isinstance(plain(product), Fraction) and length(plain(product)) > _LONGEST:
                    raise TooLarge("numbers of many thousands of digits")
                return product
            case Call(f, arguments):
                return self.call(f, [self.value(a, env) for a in arguments])
            case Apply(f, _):
                raise Undefined(f"{f.name}, of which only the type and the cost are known here")
            case At(body, a):
                try:
                    return _element(self.value(body, env), self.index(a, env), "an array")
                except NoIndex:
                    raise Undefined("what is read where none was chosen") from None
            case Bracket(p, body):
                if self.holds(p, env):
                    return self.value(body, env)
                return None if chooses(body) else self.zero(body, env)
            case Gen(i, size, body):
                return _array([self.value(body, extended(env, i, k)) for k in self._range(size, env)])
            case Sum():
                binders, p, body = nest(e)
                return sum((self.value(body, at) for at in self.points(binders, p, env)), Fraction(0))
            case Best(sign, which, i, size, where, body):
                found: list[tuple[int, Any]] = [
                    (at[i], self.value(body, at)) for at in self.points([(i, size)], where, env)
                ]
                if not found:
                    raise Undefined("the greatest or least of nothing")
                k, best = reduce(lambda a, b: b if sign * plain(b[1]) > sign * plain(a[1]) else a, found)
                return k if which else best
            case Test(comparison, a, b):
                return int(_TESTS[comparison](plain(self.value(a, env)), plain(self.value(b, env))))
            case Recur():
                return self._recurrence(e, env)
            case Let(x, value, body):
                return self.value(body, extended(env, x, self.bound(value, env)))

    def _states(self, e: Recur, env: Env) -> Iterator[tuple[Env, Any]]:
        """The environment of each step, and the state after it."""
        state, kind = self.value(e.init, env), self._kind(e.init, env)
        for k in self._range(e.size, env):
            before = Lazy(lambda held=state: held, lambda: kind)  # type: ignore[misc]
            inside = extended(extended(env, e.index, k), e.state, before)
            state = self.value(e.step, inside)
            yield inside, state

    def _recurrence(self, e: Recur, env: Env) -> Any:
        first = self.value(e.init, env)
        later = [state for _, state in self._states(e, env)]
        match e.word:
            case "fold":
                return later[-1] if later else first
            case "scan":
                found = later
            case "prescan":
                found = [first, *later][: len(later)]
            case _:
                found = [first, *later]
        return _array(found) if found else _expanded(_arrays_kind(0, self._kind(e.init, env)))

    def call(self, f: str, arguments: Sequence[Any]) -> Any:
        """The value of a scalar function; for dual numbers, by its declared derivative."""
        body = self.functions[f].body if f in self.functions else None
        if body is None:
            y = applied(f, [plain(a) for a in arguments])
        else:
            y = self.value(body, {f"x{k}": plain(a) for k, a in enumerate(arguments)})
        if not any(isinstance(a, Dual) for a in arguments):
            return y
        known: dict[str, Any] = {f"x{k}": plain(a) for k, a in enumerate(arguments)}
        slope: Any = 0
        if len(self.functions[f].components) != len(arguments):
            raise Refused(f"the derivative of {f} is not declared")
        for component, a in zip(self.functions[f].components, arguments, strict=True):
            if component is not None and isinstance(a, Dual):
                slope = slope + self.value(component, {**known, "y": y, "t": a.slope})
        return Dual(y, slope)

    def zero(self, e: Expr, env: Env) -> Any:
        """0 of the type of `e`, which is not evaluated."""
        return _expanded(self._kind(e, env))

    def _kind(self, e: Expr, env: Env) -> Kind:
        match e:
            case Name(x):
                known = env[x]
                return known.kind() if isinstance(known, Lazy) else _kind_of(known)
            case Part(which, body):
                both = self._kind(body, env)
                assert isinstance(both, tuple)
                return both[which]
            case Pair(a, b):
                return self._kind(a, env), self._kind(b, env)
            case Apply(f, _):
                return self._kind_at(f.kind, self._sizes(e, env))
            case At(body, _):
                elements: Kind = _elements_kind(self._kind(body, env))
                return elements
            case Bracket(_, body):
                return self._kind(body, env)
            case Gen(_, size, body):
                return _arrays_kind(self.index(size, env), self._kind(body, env))
            case Recur(word, _, size, _, init, _):
                many = self.index(size, env) + (word == "states")
                return self._kind(init, env) if word == "fold" else _arrays_kind(many, self._kind(init, env))
            case Let(x, value, body):
                return self._kind(body, extended(env, x, self.bound(value, env)))
            case _:
                return None

    def _kind_at(self, kind: trees.Type, sizes: Env) -> Kind:
        match kind:
            case trees.ArrayType(size, element):
                return _arrays_kind(self.index(size, sizes), self._kind_at(element, sizes))
            case trees.PairType(first, second):
                return self._kind_at(first, sizes), self._kind_at(second, sizes)
        return None

    def _sizes(self, e: Apply, env: Env) -> Env:
        """The sizes of an external function where it is called."""
        found: dict[str, int] = {}
        for (_, declared), a in zip(e.external.params, e.arguments, strict=True):
            kind, known = declared, self._kind(a, env)
            while isinstance(kind, trees.ArrayType):
                if not isinstance(known, list):
                    raise Undefined("the sizes of an array that has no elements")
                many, inner = known
                assert isinstance(many, int) and not isinstance(inner, int)
                if len(kind.size.terms) == 1 and not kind.size.constant and kind.size.terms[0][1] == 1:
                    found.setdefault(str(kind.size.terms[0][0]), many)
                kind, known = kind.element, inner
        return found

    def bound(self, value: Expr, env: Env) -> Lazy:
        """The value that a let binds."""
        return Lazy(lambda: self.value(value, env), lambda: self._kind(value, env))

    # ---- costs

    def cost(self, e: Expr, env: Env) -> int:
        """Figure 6: additions, multiplications and scalar functions where `e` is evaluated; a reduction of N points
        costs N - 1."""
        match e:
            case Num() | Integer() | Name():
                return 0
            case Part(_, body) | At(body, _):
                return self.cost(body, env)
            case Pair(a, b):
                return self.cost(a, env) + self.cost(b, env)
            case Add(a, b, sign):
                meets = self._live(b, env) and (sign < 0 or self._live(a, env))
                return self.cost(a, env) + self.cost(b, env) + meets
            case Mul(a, b) | Test(_, a, b):
                return self.cost(a, env) + self.cost(b, env) + 1
            case Call(f, arguments):
                if f not in self.functions:
                    raise Refused(f"the certificate does not declare the scalar function {f}")
                return self.functions[f].cost + sum(self.cost(a, env) for a in arguments)
            case Apply(f, arguments):
                sizes = self._sizes(e, env)
                own: int = sum(weight * prod(sizes[x] for x in product) for weight, product in f.cost)
                return own + sum(self.cost(a, env) for a in arguments)
            case Bracket(p, body):
                return self.cost(body, env) if self.holds(p, env) else 0
            case Gen(i, size, body):
                return sum(self.cost(body, extended(env, i, k)) for k in self._range(size, env))
            case Sum():
                binders, p, body = nest(e)
                return self._reduction(body, self.points(binders, p, env))
            case Best(_, _, i, size, where, body):
                return self._reduction(body, self.points([(i, size)], where, env))
            case Recur():
                return self.cost(e.init, env) + sum(self.cost(e.step, inside) for inside, _ in self._states(e, env))
            case Let(x, value, body):
                return self.cost(value, env) + self.cost(body, extended(env, x, self.bound(value, env)))

    def _reduction(self, body: Expr, points: Iterator[Env]) -> int:
        spent = [self.cost(body, at) for at in points]
        return sum(spent) + max(0, len(spent) - 1)

    def _live(self, e: Expr, env: Env) -> bool:
        """Whether the outermost brackets of `e` hold; for a sum of bracketed terms, whether those of a term do."""
        if not is_bracketed(e):
            return True
        if isinstance(e, Add):
            return self._live(e.left, env) or self._live(e.right, env)
        assert isinstance(e, Bracket)
        inner = e.body
        return self.holds(e.pred, env) and (not isinstance(inner, Bracket) or self._live(inner, env))


class Lazy:
    """A value that is computed when it is needed."""

    def __init__(self, make: Callable[[], Any], kind: Callable[[], Kind]) -> None:
        self.make: Callable[[], Any] | None = make
        self.made: Any = None
        self.find_kind: Callable[[], Kind] | None = kind
        self.known: Kind = None

    def kind(self) -> Kind:
        """Its type."""
        if self.find_kind is not None:
            self.known, self.find_kind = self.find_kind(), None
        return self.known


Kind = tuple["Kind", "Kind"] | list["int | Kind"] | None
"""The type of a value at given sizes: None for a number, the list of its length and the type of its elements for an
array."""


def _kind_of(value: Any) -> Kind:
    if isinstance(value, tuple):
        return _kind_of(value[0]), _kind_of(value[1])
    return [len(value), _kind_of(value[0]) if value else None] if isinstance(value, list) else None


def _arrays_kind(n: int, element: Any) -> Kind:
    if isinstance(element, tuple):
        return _arrays_kind(n, element[0]), _arrays_kind(n, element[1])
    return [n, element]


def _elements_kind(kind: Any) -> Any:
    return tuple(map(_elements_kind, kind)) if isinstance(kind, tuple) else kind[1]


def _expanded(kind: Any) -> Any:
    if isinstance(kind, tuple):
        return tuple(map(_expanded, kind))
    return Fraction(0) if kind is None else [_expanded(kind[1]) for _ in range(kind[0])]


def forced(x: Any) -> Any:
    """A value, computed now if it was not before."""
    if isinstance(x, Lazy):
        if x.make is not None:
            x.made, x.make = x.make(), None
        return x.made
    return x


def nest(e: Expr) -> tuple[list[tuple[str, Affine]], Pred, Expr]:
    """The binders of the sums directly nested in `e`, all brackets among them, and the rest (5.24')."""
    binders: dict[str, Affine] = {}
    brackets: list[Pred] = []
    while True:
        if isinstance(e, Sum) and e.index not in binders:
            binders[e.index] = e.size
            e = e.body
        elif isinstance(e, Bracket):
            brackets.append(e.pred)
            e = e.body
        else:
            return list(binders.items()), All(tuple(brackets)), e


def is_bracketed(e: Expr) -> bool:
    """Whether `e` may be 0 by its outermost brackets."""
    return e.bracketed if isinstance(e, Add) else isinstance(e, Bracket)


def _element(array: Any, k: int, what: str) -> Any:
    if isinstance(array, tuple):
        return tuple(_element(part, k, what) for part in array)
    if not isinstance(array, list):
        raise Refused(f"{what} has too few axes")
    if not 0 <= k < len(array):
        raise Refused(f"{what} of {len(array)} elements is read at {k}")
    return array[k]


def _array(elements: list[Any]) -> Any:
    if elements and isinstance(elements[0], tuple):
        return tuple(_array(list(part)) for part in zip(*elements, strict=True))
    return elements


def flat(value: Any) -> list[Any]:
    """The numbers of a value in order."""
    if isinstance(value, tuple | list):
        return list(chain.from_iterable(map(flat, value)))
    return [value]
