"""Programs as JSON, and back: exactly, including their names, sharing, and the order of their indices.

    told    = [numbers, nodes, value]     the number of new variables and indices, by family; the new nodes; the value
    node    = [tag, field, ..]            after the nodes that it is made of, which it has by their places: see `_FORMS`
    value   = [place] | [-1, value, ..]   a node, several values, or a text, a number or none as it is

A question and its answer are encoded one after the other: an answer refers to the question's nodes by their places, and
so shares them, in particular its parameters. Variables and indices that only the answer has are new ones, in the order
in which they were made, which is that of the terms of affine expressions.

Programs that call functions of users are refused, since a name does not determine such a function.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from tensorlang.language.affine import CANONICAL, Affine, Atom, Index, IndexArray, Lookup, Size, bound_index, serials
from tensorlang.language.function import Function
from tensorlang.language.functions import function, power
from tensorlang.language.grammar import (
    Access,
    Add,
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
)
from tensorlang.language.grammar import serials as variables
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    bound_in_predicate,
)
from tensorlang.language.predicates import serials as relations
from tensorlang.language.routines import of_program
from tensorlang.language.special import BUILT_IN
from tensorlang.language.types import Array, BoundedIndex, Pair, Real, Type

_FORMS: dict[type, str] = {
    Real: "",
    Pair: "tt",
    Array: "at",
    BoundedIndex: "a",
    Size: "s",
    Index: "sr?s",
    IndexArray: "sAarb",
    Lookup: "yA",
    Affine: "+i",
    Relation: "sAr",
    Equal: "a",
    NonNegative: "a",
    Related: "RA",
    And: "P",
    Or: "P",
    Exists: "xap",
    Var: "str",
    Const: "q",
    Integer: "a",
    Add: "eei",
    Mul: "ee",
    Call: "fE",
    MakePair: "ee",
    Proj: "ie",
    Gen: "xae",
    Sum: "xae",
    Extremum: "ixape",
    Choice: "ixape",
    Compared: "see",
    Access: "ea.",
    Bracket: "pe",
    Let: "lee",
    Recur: "sxavee",
    Function: "sMeuZ",
}
"""The fields of each class, in order, as `_NODES` and `_SEVERAL` say, and

    s   a text       i   a whole number     +   terms: atoms with whole numbers     r   the rank in its family
    b   a truth      q   a fraction         f   a scalar function                   u   nested tuples
    ?   an affine expression or none        .   a place in a text, which is dropped: nothing depends on it
"""

_PARAMETERS = (Var, Relation, IndexArray)
_NODES: dict[str, Any] = {
    "a": Affine,
    "e": Expr,
    "l": (Var, IndexArray),
    "p": Predicate,
    "R": Relation,
    "t": Type,
    "v": Var,
    "x": Index,
    "y": IndexArray,
}
_SEVERAL: dict[str, Any] = {"A": Affine, "E": Expr, "M": _PARAMETERS, "P": Predicate, "Z": Size}
_PLAIN: dict[str, type] = {"s": str, "i": int, "b": bool}

_KINDS = list(_FORMS)
_FIELDS = {
    kind: tuple(zip(form, kind.__dataclass_fields__, strict=False))  # type: ignore[attr-defined]
    for kind, form in _FORMS.items()
}
_WITH_PARTS = {
    kind: tuple((form, name) for form, name in fields if form in _NODES or form in _SEVERAL or form in "?+f")
    for kind, fields in _FIELDS.items()
}
_TAGS = {kind: tag for tag, kind in enumerate(_FORMS)}
_FAMILIES = {Index: 0, IndexArray: 0, Var: 1, Relation: 2}
_COUNTERS = (serials, variables, relations)
"""Kinds of nodes that are distinguished by identity, with the counters that order each family by creation."""


class EncodingRefused(Exception):
    """The reason why something can't be encoded."""


class Encoding:
    """The nodes encoded so far, by their places: those of a question, then those of its answer."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._places: dict[Any, int] = {}
        self._newest = [-1] * len(_COUNTERS)

    def encode(self, value: Any) -> bytes:
        """Encode `value`, of tuples, texts, numbers, None and nodes. Raises `EncodingRefused` if part of it can't be
        encoded."""
        told = len(self._nodes)
        whole = self._value(value)
        new = self._nodes[told:]
        orders: list[list[int]] = [[] for _ in _COUNTERS]
        for node in new:
            if (family := _FAMILIES.get(type(node))) is not None and node.serial >= 0:
                orders[family].append(node.serial)
        ranks: list[dict[int, int]] = []
        for family, order in enumerate(orders):
            order.sort()
            if order and order[0] <= self._newest[family]:
                raise EncodingRefused("something that was told later was made before what was told")
            self._newest[family] = order[-1] if order else self._newest[family]
            ranks.append({serial: rank for rank, serial in enumerate(order)})
        rows = [self._row(node, ranks) for node in new]
        try:
            return json.dumps([list(map(len, ranks)), rows, whole], separators=(",", ":")).encode()
        except ValueError as error:  # Python refuses to write integers with thousands of digits
            raise EncodingRefused(str(error)) from None

    def decode(self, data: bytes) -> Any:
        """Decode a value that was encoded after the same values as here. Raises some error if `data` is damaged."""
        counts, rows, whole = json.loads(data)
        fresh = [[next(counter) for _ in range(count)] for counter, count in zip(_COUNTERS, counts, strict=True)]
        for tag, *fields in rows:
            kind = _KINDS[tag]
            own = fresh[_FAMILIES.get(kind, 0)]
            parts = [self._read(form, x, own) for (form, _), x in zip(_FIELDS[kind], fields, strict=True)]
            is_canonical = kind is Index and parts[1] < 0
            self._add(_canonical(parts[0], parts[1]) if is_canonical else kind(*parts))
        return self._told(whole)

    def _value(self, value: Any) -> Any:
        if value is None or type(value) in (str, int, bool):
            return value
        if type(value) is tuple:
            return [-1, *map(self._value, value)]
        if isinstance(value, Function) and type(value) is not Function and of_program(value) is None:
            value = Function(value.name, value.params, value.body, value.results, value.further)
        if type(value) not in _FIELDS:
            raise EncodingRefused(f"a {type(value).__name__}")
        self._enter(value)
        return [self._places[value]]

    def _told(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return tuple(map(self._told, value[1:])) if value[0] == -1 else self._node(value[0], tuple(_FIELDS))

    def _enter(self, root: Any) -> None:
        """Give places to all nodes of which `root` is made, then to `root`."""
        known = self._places
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                self._add(node)
            elif node not in known:
                stack.append((node, True))
                stack += [(part, False) for part in reversed(_parts(node)) if part not in known]

    def _add(self, node: Any) -> None:
        self._places[node] = len(self._nodes)
        self._nodes.append(node)

    def _node(self, place: Any, kind: Any) -> Any:
        if type(place) is not int or place < 0 or not isinstance(node := self._nodes[place], kind):
            raise ValueError(f"no {kind} has the place {place!r}")
        return node

    def _row(self, node: Any, ranks: list[dict[int, int]]) -> list[Any]:
        places = self._places
        row: list[Any] = [_TAGS[type(node)]]
        for form, name in _FIELDS[type(node)]:
            x = getattr(node, name)
            if form in _NODES:
                row.append(places[x])
            elif form in _SEVERAL:
                row.append([places[each] for each in x])
            elif form == "+":
                row.append([each for atom, k in x for each in (places[atom], k)])
            elif form == "?":
                row.append(None if x is None else places[x])
            elif form == "r" and x < 0:
                row.append(_canonical_rank(node))
            elif form == "r":
                row.append(ranks[_FAMILIES[type(node)]][x])
            elif form == "q":
                row.append(_digits(x))
            elif form == "f":
                row.append(x.name if x.exponent is None else [_digits(x.exponent)])
            else:
                row.append(None if form == "." else x)
        return row

    def _read(self, form: str, x: Any, fresh: list[int]) -> Any:
        if form in _NODES:
            return self._node(x, _NODES[form])
        if form in _SEVERAL:
            return tuple(self._node(each, _SEVERAL[form]) for each in x)
        if form in _PLAIN:
            if type(x) is not _PLAIN[form]:
                raise ValueError(f"expected a {_PLAIN[form].__name__}, found {x!r}")
            return x
        match form:
            case "+":
                if not all(type(k) is int for k in x):
                    raise ValueError(f"no terms: {x!r}")
                atoms = [self._node(each, Atom) for each in x[::2]]
                return tuple(zip(atoms, x[1::2], strict=True))
            case "r":
                return x if x < 0 else fresh[x]
            case "q":
                return _fraction(x)
            case "f":
                return function(x) if isinstance(x, str) else power(_fraction(x[0]))
            case "u":
                return _nested(x)
            case _:  # "?" and "."
                return None if x is None else self._node(x, Affine)


def _parts(node: Any) -> list[Any]:
    """The nodes of which `node` is made. Raises `EncodingRefused` for a node that can't be encoded."""
    found: list[Any] = []
    for form, name in _WITH_PARTS[type(node)]:
        x = getattr(node, name)
        if form in _NODES or (form == "?" and x is not None):
            found.append(x)
        elif form in _SEVERAL:
            found += x
        elif form == "+":
            found += [atom for atom, _ in x]
        elif form == "f" and x.exponent is None and not (x.name in BUILT_IN and function(x.name) is x):
            raise EncodingRefused(f"the function {x.name} of a user")
    if not all(type(part) in _FIELDS for part in found):
        raise EncodingRefused("a function of arrays whose adjoint is declared")
    if isinstance(node, Function) and of_program(node) is not None:
        raise EncodingRefused(f"{node.name}, whose adjoint is declared")
    return found


def _canonical_rank(i: Index) -> int:
    """-1 for an index that is read back, -2 - depth for one that a predicate binds."""
    if i is bound_index(i.name):
        return -1
    depth = i.serial + CANONICAL
    if i is bound_in_predicate(i.name, depth):
        return -2 - depth
    raise EncodingRefused(f"the index {i.name} of a normal form")


def _canonical(name: str, rank: int) -> Index:
    return bound_index(name) if rank == -1 else bound_in_predicate(name, -2 - rank)


def _digits(x: Fraction) -> str:
    """`x` in hexadecimal, for which Python has no limit of digits."""
    return f"{x.numerator:x}/{x.denominator:x}"


def _fraction(text: str) -> Fraction:
    above, below = text.split("/")
    return Fraction(int(above, 16), int(below, 16))


def _nested(x: Any) -> Any:
    return None if x is None else tuple(map(_nested, x))
