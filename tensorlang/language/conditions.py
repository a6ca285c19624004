"""The printer's lower half: names, index expressions and predicates, in every notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, render
from tensorlang.language.comparisons import Chain, chains, unequal
from tensorlang.language.grammar import Expr, Var
from tensorlang.language.layout import Doc, concat, group, nest
from tensorlang.language.names import Bound, Named, ObjectNames, free_names
from tensorlang.language.notation import Notation
from tensorlang.language.predicates import And, Equal, Exists, NonNegative, Or, Predicate, Related
from tensorlang.recursion import Deep, call, run

Restorable = tuple[Bound, int]
"""The state that `ConditionPrinter._restore` needs."""

_OR, _AND, _TEST = range(3)


class ConditionPrinter:
    """Prints index expressions and predicates; names, once given, stay the same in later output."""

    def __init__(self, notation: Notation, given: Mapping[Named, str] | None = None) -> None:
        self.notation = notation
        self.names = ObjectNames(given)
        self._scope = 0
        self._scopes = count(1)
        self._known: dict[tuple[Expr | Predicate, int, int, int], Doc] = {}

    def whole_predicate(self, p: Predicate) -> Doc:
        """A predicate on its own."""
        for named in free_names(p):
            self.names[named]
        return run(self.predicate(p))

    def name(self, named: Named | Atom) -> str:
        """The name of a variable, index, size or relation; the text of an element of an index array."""
        if isinstance(named, Lookup):
            return self.name(named.array) + (f"[{self.affines(named.at)}]" if named.at else "")
        return self.notation.name(self.names[named])

    def affine(self, a: Affine) -> str:
        """An index expression."""
        return render(a, self.name, self.notation.scale)

    def affines(self, them: Iterable[Affine]) -> str:
        """Index expressions with commas."""
        return ", ".join(map(self.affine, them))

    def predicate(self, p: Predicate, level: int = _OR, last: bool = True) -> Deep[Doc]:
        """A predicate in a place for `level`; `last`: nothing follows into which an `exists` would extend."""
        key = (p, level, int(last), self._scope)
        if key in self._known:
            return self._known[key]
        doc: Doc
        match p:
            case Related(relation, arguments):
                doc = f"{self.name(relation)}({self.affines(arguments)})"
            case Exists():
                doc = yield from call(self._exists(p))
                doc = doc if last else self._enclosed(doc)
            case Equal() | NonNegative() | And() | Or():
                items = self._items(p)
                own = _TEST if len(items) == 1 else _OR if isinstance(p, Or) else _AND
                wrap = own < level
                word = self.notation.disjunction if isinstance(p, Or) else self.notation.conjunction
                docs: list[Doc] = []
                for k, item in enumerate(items):
                    shown: Doc
                    if isinstance(item, Chain):
                        shown = self._chain(item)
                    else:
                        ends = k == len(items) - 1 and (last or wrap)
                        operand = level if len(items) == 1 else own + 1
                        shown = yield from call(self.predicate(item, operand, ends))
                    docs += [self.notation.line, concat(word, " ", shown)] if docs else [shown]
                doc = self._enclosed(group(*docs)) if wrap else group(*docs)
        self._known[key] = doc
        return doc

    def _items(self, p: Equal | NonNegative | And | Or) -> list[Chain | Predicate]:
        """The operands of `and` or `or`: chains of comparisons, and other predicates."""
        parts: tuple[Predicate, ...] = p.parts if isinstance(p, And | Or) else (p,)
        if not parts:
            return [Chain((Affine((), 0), Affine((), int(isinstance(p, Or)))), ("=",))]
        items: list[Chain | Predicate] = []
        k = 0
        while k < len(parts):
            part = parts[k]
            chain = unequal(part, parts[k + 1]) if isinstance(p, Or) and k + 1 < len(parts) else None
            if chain is not None:
                items.append(chain)
                k += 2
                continue
            run_of: list[Equal | NonNegative] = []
            while (
                k < len(parts)
                and isinstance(part := parts[k], Equal | NonNegative)
                and not (isinstance(p, Or) and run_of)
            ):
                run_of.append(part)
                k += 1
            if run_of:
                items += chains(run_of, lambda atom: (isinstance(atom, Size), self.name(atom)))
            else:
                items.append(part)
                k += 1
        return items

    def _chain(self, chain: Chain) -> str:
        text = self.affine(chain.sides[0])
        for operator, side in zip(chain.operators, chain.sides[1:], strict=True):
            text += f" {self.notation.comparison[operator]} {self.affine(side)}"
        return text

    def _exists(self, p: Predicate) -> Deep[Doc]:
        binders, bound = [], []
        while isinstance(p, Exists):
            size = self.affine(p.size)
            bound.append(self._bind(p.index))
            binders.append((self.name(p.index), size))
            p = p.body
        body: Doc = yield from call(self.predicate(p))
        for names in reversed(bound):
            self._restore(names)
        return concat(self.notation.binder("exists", binders), " ", body)

    def _enclosed(self, doc: Doc) -> Doc:
        opening, closing = self.notation.parentheses
        return group(opening, nest(doc), closing)

    def _bind(self, named: Var | Index | IndexArray) -> Restorable:
        outer, self._scope = self._scope, next(self._scopes)
        return self.names.bind(named), outer

    def _restore(self, bound: Restorable) -> None:
        taken, self._scope = bound
        self.names.restore(taken)
