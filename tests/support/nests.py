"""Random programs that nest extrema: over computed arrays, in windows, in each other, at places given by data.

They are written as text, with statements such as

    let t0 = gen i:n + 1, j:2*m. relu(x[i, j]) * w[j] in
    let c0 = gen i:n + 1. argmax a:2*m where a <= y[i]. t0[i, a] in
    sum i:n. (max a:n + 1 where i <= a and a <= i + 1. min b:2*m. t0[a, b])^2 + t0[i, c0[i]]

in bounds by construction, and no extremum is over nothing, whatever the sizes and the data.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorlang.language.function import Function


@dataclass(frozen=True)
class Extent:
    """scale * size + offset, or the offset if there is no size."""

    size: str
    scale: int
    offset: int

    def __str__(self) -> str:
        if not self.size:
            return str(self.offset)
        scaled = self.size if self.scale == 1 else f"{self.scale}*{self.size}"
        return scaled if not self.offset else f"{scaled} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    def of(self, sizes: Mapping[str, int]) -> int:
        return self.scale * sizes[self.size] + self.offset if self.size else self.offset

    def holds(self, other: Extent, moved: int = 0) -> bool:
        """Whether other + moved <= self at all sizes."""
        if other.size and other.size != self.size:
            return False
        return other.scale <= self.scale and other.offset + moved <= self.offset


RELATED = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
Indices = tuple[tuple[str, Extent], ...]

UNARY = {
    "exact": ("relu({})", "({})^2", "-({})", "abs({})", "2 * ({})", "({}) + 1"),
    "smooth": ("relu({})", "sin({})", "({})^2", "exp(0.1 * ({}))", "tanh({})", "log(1 + ({})^2)"),
}


@dataclass(frozen=True)
class Nest:
    """A program, whether its numbers are small integers and all its arithmetic is exact, and its parameters'
    extents."""

    text: str
    exact: bool
    reals: Mapping[str, Sequence[Extent]]
    arrays: Mapping[str, tuple[Sequence[Extent], Extent]]
    relations: Mapping[str, Sequence[Extent]]

    def untold(self, f: Function) -> list[str]:
        """The sizes of the program that no shape determines."""
        shapes = (*self.reals.values(), *self.relations.values(), *(extents for extents, _ in self.arrays.values()))
        return [s.name for s in f.sizes if not any(n.size == s.name for extents in shapes for n in extents)]

    def values(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Random arguments of these sizes; where they are integers, many are equal."""
        found: dict[str, Any] = {}
        for name, extents in self.reals.items():
            dims = [a.of(sizes) for a in extents]
            found[name] = rng.integers(-3, 4, dims).astype(float) if self.exact else rng.normal(size=dims)
        for name, (extents, range_) in self.arrays.items():
            found[name] = rng.integers(0, max(range_.of(sizes), 1), [a.of(sizes) for a in extents])
        for name, extents in self.relations.items():
            found[name] = rng.random([a.of(sizes) for a in extents]) < 0.4
        return found


@dataclass
class _Writer:
    rng: random.Random
    exact: bool
    extents: list[Extent]
    reals: dict[str, tuple[Extent, ...]] = field(default_factory=dict)
    computed: dict[str, tuple[Extent, ...]] = field(default_factory=dict)
    arrays: dict[str, tuple[tuple[Extent, ...], Extent]] = field(default_factory=dict)
    chosen: dict[str, tuple[tuple[Extent, ...], Extent]] = field(default_factory=dict)
    relations: dict[str, tuple[Extent, ...]] = field(default_factory=dict)
    lets: list[str] = field(default_factory=list)
    count: int = 0

    def chance(self, percent: int) -> bool:
        return self.rng.random() * 100 < percent

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- places

    def places(self, extent: Extent, scope: Indices) -> list[str]:
        """Places of an axis of this extent, made of the indices in scope."""
        found = []
        for i, e in scope:
            found += [i if not c else f"{i} + {c}" for c in (0, 1, 2) if extent.holds(e, c)]
            if extent == e and extent.size:
                found.append(f"{extent} - 1 - {i}")
            for a, width in scope:
                if a != i and not width.size and e.size and e.size == extent.size:
                    for step in (1, 2):
                        # step * i + a <= step * (e - 1) + width - 1 < extent
                        if extent.holds(Extent(e.size, step * e.scale, step * (e.offset - 1) + width.offset)):
                            found += [f"{i} + {a}" if step == 1 else f"{step}*{i} + {a}"] * 3
        for y, (extents, range_) in {**self.arrays, **self.chosen}.items():
            if range_ == extent:
                at = [[i for i, e in scope if e == n] for n in extents]
                if all(at):
                    found.append(f"{y}[{', '.join(map(self.rng.choice, at))}]")
        return found

    def element(self, scope: Indices) -> str | None:
        """An element of an array: a computed one if there are any, or a new one."""
        names = [*self.reals, *self.computed]
        self.rng.shuffle(names)
        names.sort(key=lambda x: x in self.reals and self.chance(80))
        options = []
        for x in names:
            extents = {**self.reals, **self.computed}[x]
            places = [self.places(n, scope) for n in extents]
            if all(places):
                at = [self.rng.choice(each) for each in places]
                # preferably with as many of the indices as possible
                used = sum(any(i in a for a in at) for i, _ in scope) + sum("c" in a for a in at)
                options.append((used, f"{x}[{', '.join(at)}]"))
        if options and not self.chance(10):
            best = max(n for n, _ in options)
            return next(text for n, text in options if n == best)
        if not scope or (len(self.reals) >= 4 and options):
            return options[0][1] if options else None
        some = self.rng.sample(scope, min(len(scope), self.rng.choice((1, 2, 2))))
        x = f"x{len(self.reals)}"
        self.reals[x] = tuple(e for _, e in some)
        return f"{x}[{', '.join(i for i, _ in some)}]"

    def pooled(self) -> tuple[Indices, str] | None:
        """Windows of an array, in each dimension or in some, that overlap, touch or leave gaps."""
        known = list((self.computed or self.reals).items())
        x, extents = self.rng.choice(known)
        outer: list[tuple[str, Extent]] = []
        inner: list[tuple[str, Extent]] = []
        at = []
        for n in extents:
            step, width = self.rng.choice(((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)))
            # step * i + a <= step * (count - 1) + width - 1 < n
            count = Extent(n.size, n.scale // step, (n.offset - width) // step + 1)
            i, a = self.fresh("i"), self.fresh("a")
            if not n.size or n.scale % step or count.offset < 0 or self.chance(15):
                outer.append((i, n))
                at.append(i)
                continue
            outer.append((i, count))
            place = i if step == 1 else f"{step}*{i}"
            inner += [(a, Extent("", 0, width))] * (width > 1)
            at.append(f"{place} + {a}" if width > 1 else place)
        if not inner:
            return None
        f, over = self.rng.choice(("max", "min")), ", ".join(f"{a}:{n}" for a, n in inner)
        element = f"{x}[{', '.join(at)}]"
        if self.chance(40):
            element = self.unary().format(element)
        elif self.chance(40):
            other = self.element((*outer, *inner))
            element = f"({element}) * ({other})" if other else element
        return tuple(outer), f"({f} {over}. {element})"

    def unary(self) -> str:
        return self.rng.choice(UNARY["exact" if self.exact else "smooth"])

    # -- expressions

    def scalar(self, scope: Indices, fuel: int) -> str:
        if fuel <= 0 or self.chance(12):
            return self.element(scope) or self.extremum(scope, 0)
        others = ("unary", "unary", "product", "product", "sum", "difference", "larger")
        kind = self.rng.choice(("extremum",) * 8 + others)
        kind = "bracket" if self.chance(8) and scope else kind
        match kind:
            case "extremum":
                return self.extremum(scope, fuel - 1)
            case "unary":
                return self.unary().format(self.scalar(scope, fuel - 1))
            case "product":
                return f"({self.scalar(scope, fuel - 2)}) * ({self.scalar(scope, fuel - 2)})"
            case "difference":
                return f"({self.scalar(scope, fuel - 2)}) - ({self.scalar(scope, fuel - 2)})"
            case "larger":
                f = self.rng.choice(("max", "min"))
                return f"{f}({self.scalar(scope, fuel - 2)}, {self.scalar(scope, fuel - 2)})"
            case "bracket":
                return f"[{self.condition(scope)}] * ({self.scalar(scope, fuel - 1)})"
            case _:
                s, extent = self.fresh("s"), self.some_extents(1)[0]
                return f"(sum {s}:{extent}. {self.scalar((*scope, (s, extent)), fuel - 1)})"

    def condition(self, scope: Indices) -> str:
        i, e = self.rng.choice(scope)
        options = [f"1 <= {i}", f"{i} != 1"]
        options += [f"{i} <= {j}" for j, other in scope if j != i]
        for y, (extents, range_) in {**self.arrays, **self.chosen}.items():
            at = [[j for j, other in scope if other == n] for n in extents]
            if range_ == e and all(at):
                options += [f"{i} {op} {y}[{', '.join(map(self.rng.choice, at))}]" for op in ("<=", "=", "!=")]
        return self.rng.choice(options)

    def extremum(self, scope: Indices, fuel: int) -> str:
        """max or min over one or two indices: full ranges, windows or the points that a condition leaves."""
        binders, conditions, guards = self.ranges(scope, self.rng.choice((1, 1, 1, 2)))
        body = self.scalar((*scope, *binders), fuel)
        over = ", ".join(f"{a}:{n}" for a, n in binders)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        made = f"({self.rng.choice(('max', 'min'))} {over}{where}. {body})"
        return f"([{' and '.join(guards)}] * {made})" if guards else made

    def ranges(self, scope: Indices, count: int) -> tuple[Indices, list[str], list[str]]:
        """Indices to take an extremum over, the conditions on them, and what must hold for there to be a point."""
        binders: list[tuple[str, Extent]] = []
        conditions: list[str] = []
        guards: list[str] = []
        for _ in range(count):
            a = self.fresh("a")
            kind = self.rng.choice(("window", "window", "where", "where", "where", "full"))
            (n,) = self.some_extents(1)
            if kind == "window":
                n = Extent("", 0, self.rng.choice((1, 2, 2, 3)))
            elif scope and self.chance(70):
                n = self.rng.choice([e for _, e in scope])
            where = self.limit(a, n, scope) if kind == "where" else None
            if where is not None:
                conditions.append(where)
            elif n.size and n.offset <= 0:
                guards.append(f"0 < {n}")
            binders.append((a, n))
        return tuple(binders), conditions, list(dict.fromkeys(guards))

    def limit(self, a: str, n: Extent, scope: Indices) -> str | None:
        """A condition on `a` that holds at some point of its range, wherever the program evaluates it."""
        options: list[str] = []
        for i, e in scope:
            if n.holds(e):
                w = self.rng.choice((1, 2, 3))
                options += [
                    f"{a} <= {i}",
                    f"{i} <= {a}",
                    f"{i} <= {a} and {a} <= {i} + {w}",
                    f"{i} - {w} <= {a} and {a} <= {i}",
                    f"{i} - {w} < {a} and {a} < {i} + {w}",
                    f"({a} = {i} or {a} = 0)",
                    f"0 <= {a} - {i} < {w}",
                ]
            if e.size and e.size == n.size and n.holds(Extent(e.size, 2 * e.scale, 2 * e.offset)):
                options += [f"2*{i} <= {a} and {a} < 2*{i} + 2", f"2*{i} <= {a} and {a} < 2*{i} + 3"]
            for r, extents in self.relations.items():
                if extents == (e, n):
                    options += [f"({r}({i}, {a}) or {a} = 0)"] * 2
        if not self.relations and scope and self.chance(10):
            i, e = self.rng.choice(scope)
            self.relations["r"] = (e, n)
            return f"(r({i}, {a}) or {a} = 0)" if n.offset > 0 or not n.size else None
        for y, (extents, range_) in {**self.arrays, **self.chosen}.items():
            at = [[j for j, other in scope if other == k] for k in extents]
            if range_ == n and all(at):
                place = f"{y}[{', '.join(map(self.rng.choice, at))}]"
                options += [f"{a} <= {place}", f"{place} <= {a}", f"{place} <= {a} and {a} <= {place} + 1"]
        if n.offset > 0 or not n.size:
            options += [f"{a} <= 1"]
        return self.rng.choice(options) if options else None

    # -- statements

    def some_extents(self, count: int) -> tuple[Extent, ...]:
        computed = [e for extents in self.computed.values() for e in extents]
        known = (computed if self.chance(60) else []) or [e for extents in self.reals.values() for e in extents]
        return tuple(self.rng.choice(known if known and self.chance(80) else self.extents) for _ in range(count))

    def binders(self, count: int) -> Indices:
        return tuple((self.fresh("i"), e) for e in self.some_extents(count))

    def statement(self) -> None:
        scope = self.binders(self.rng.choice((1, 2, 2, 3) if not self.computed else (1, 1, 2, 2)))
        over = ", ".join(f"{i}:{e}" for i, e in scope)
        extents = tuple(e for _, e in scope)
        if self.computed and self.chance(35):
            # a choice, with a guard where there may be nothing to choose
            scope = scope[: self.rng.choice((1, 2))]
            over, extents = ", ".join(f"{i}:{e}" for i, e in scope), tuple(e for _, e in scope)
            binders, conditions, guards = self.ranges(scope, 1)
            ((a, n),) = binders
            if guards:
                return
            where = f" where {conditions[0]}" if conditions else ""
            body = self.scalar((*scope, *binders), 1)
            c = f"c{len(self.chosen)}"
            self.lets.append(f"let {c} = gen {over}. {self.rng.choice(('argmax', 'argmin'))} {a}:{n}{where}. {body} in")
            self.chosen[c] = (extents, n)
            if self.chance(30):
                return
            # read where the index was chosen
            scope = tuple((self.fresh("i"), e) for e in extents)
            over, body = ", ".join(f"{i}:{e}" for i, e in scope), self.element(scope)
            if body is None:
                return
            t = f"t{len(self.computed)}"
            self.lets.append(f"let {t} = gen {over}. {self.unary().format(body)} in")
            self.computed[t] = extents
            return
        body = self.scalar(scope, self.rng.choice((1, 1, 2, 2)))
        pooled = self.pooled() if self.chance(30) else None
        if pooled is not None:
            scope, body = pooled
            over, extents = ", ".join(f"{i}:{e}" for i, e in scope), tuple(e for _, e in scope)
        t = f"t{len(self.computed)}"
        self.lets.append(f"let {t} = gen {over}. {body} in")
        self.computed[t] = extents

    def program(self) -> Nest:
        extents = self.some_extents(self.rng.choice((1, 2, 2)))
        self.reals["x0"] = extents
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            y = f"y{len(self.arrays)}"
            self.arrays[y] = (self.some_extents(1), self.some_extents(1)[0])
        for _ in range(self.rng.choice((1, 1, 2, 2))):
            self.statement()
        scope = self.binders(self.rng.choice((0, 1, 1, 2)))
        body = self.scalar(scope, self.rng.choice((1, 2, 2, 3)))
        pooled = self.pooled() if self.chance(25) else None
        if pooled is not None:
            scope, body = pooled
        if scope:
            over = ", ".join(f"{i}:{e}" for i, e in scope)
            body = self.rng.choice(("gen {}. {}", "sum {}. ({})^2")).format(over, body)
        params = [f"{x}: {''.join(f'[{n}]' for n in extents)}R" for x, extents in self.reals.items()]
        params += [f"{y}: {''.join(f'[{n}]' for n in at)}idx({r})" for y, (at, r) in self.arrays.items()]
        params += [f"{r}: rel({', '.join(map(str, extents))})" for r, extents in self.relations.items()]
        text = f"f({', '.join(params)}) =\n  " + "\n  ".join([*self.lets, body])
        return Nest(text, self.exact, self.reals, self.arrays, self.relations)


def random_nest(rng: random.Random) -> Nest:
    """A random nest of extrema."""
    one, other = rng.sample("nm", 2)
    extents = [Extent(one, k, c) for k, c in rng.sample(RELATED, 3)]
    extents += [Extent(other, k, c) for k, c in rng.sample(RELATED, rng.choice((0, 1, 2)))]
    extents += [Extent("", 0, rng.choice((1, 2, 3)))] * rng.choice((0, 0, 1))
    return _Writer(rng, rng.random() < 0.7, extents).program()
