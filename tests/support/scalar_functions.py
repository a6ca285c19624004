"""Random Python functions of numbers: branches, nested loops, break, continue, early returns."""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


sigmoid.__module__ = "math"  # the reader identifies the function by its module


@dataclass
class Writer:
    """Writes one function of `a`, `b`, `c` and a whole number `k`."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    serial: int = 0

    def expression(self, names: list[str], depth: int) -> str:
        r = self.rng.random()
        if depth == 0 or r < 0.3:
            return self.rng.choice(names) if self.rng.random() < 0.85 else str(self.rng.choice([0.5, 1.5, -0.7, 2.0]))
        one = self.expression(names, depth - 1)
        if r < 0.72:
            return f"({one} {self.rng.choice('+-*')} {self.expression(names, depth - 1)})"
        if r < 0.9:
            return f"{self.rng.choice(['sin', 'cos', 'tanh', 'sigmoid'])}({one})"
        if r < 0.94:
            return f"({one} / (1.5 + sigmoid({self.expression(names, depth - 1)})))"
        if r < 0.97:
            return f"({one} if {self.condition(names)} else {self.expression(names, depth - 1)})"
        return f"sigmoid({one}) ** {self.rng.choice(['2', '3', '0.5'])}"

    def condition(self, names: list[str]) -> str:
        one = f"{self.rng.choice(names)} {self.rng.choice(['<', '>', '<=', '>='])} {self.rng.choice([*names, '0.3'])}"
        r = self.rng.random()
        if r < 0.75:
            return one
        other = f"{self.rng.choice(names)} < {self.rng.choice(names)}"
        return f"{one} {self.rng.choice(['and', 'or'])} {other}" if r < 0.95 else f"not {other}"

    def block(self, names: list[str], indent: int, depth: int, length: int, loop: bool) -> list[str]:
        pad = "    " * indent
        for _ in range(length):
            r = self.rng.random()
            if r < 0.5 or depth == 0:
                fresh = f"t{self.serial}"
                self.serial += 1
                own = [*names[3:], fresh]
                v = self.rng.choice(own)
                self.lines.append(f"{pad}{v} = {self.expression(names, 2)}")
                names = names if v in names else [*names, v]
            elif r < 0.58 and loop:
                self.lines.append(f"{pad}if {self.condition(names)}:")
                self.lines.append(f"{pad}    {self.rng.choice(['break', 'continue'])}")
            elif r < 0.63 and indent > 1:
                self.lines.append(f"{pad}if {self.condition(names)}:")
                self.lines.append(f"{pad}    return {self.expression(names, 1)}")
            elif r < 0.8:
                self.lines.append(f"{pad}if {self.condition(names)}:")
                self.block(names, indent + 1, depth - 1, self.rng.randint(1, 2), loop)
                if self.rng.random() < 0.7:
                    self.lines.append(f"{pad}else:")
                    self.block(names, indent + 1, depth - 1, self.rng.randint(1, 2), loop)
            elif r < 0.9:
                i = f"i{self.serial}"
                self.serial += 1
                self.lines.append(f"{pad}{i} = 0")
                self.lines.append(f"{pad}while {i} < {self.rng.choice(['k', '2', '3'])}:")
                self.lines.append(f"{pad}    {i} += 1")
                self.block(names, indent + 1, depth - 1, self.rng.randint(1, 3), True)
            else:
                i = f"i{self.serial}"
                self.serial += 1
                self.lines.append(f"{pad}for {i} in range({self.rng.choice(['k', '3', 'k + 1'])}):")
                self.block([*names], indent + 1, depth - 1, self.rng.randint(1, 3), True)
        return names


def random_function(seed: int) -> tuple[str, Callable[..., Any]]:
    """The source of a function f(a, b, c, k: int), and the function."""
    writer = Writer(random.Random(seed))
    writer.lines.append("def fuzzed(a, b, c, k: int):")
    names = writer.block(["a", "b", "c"], 1, 3, 5, False)
    writer.lines.append(f"    return {writer.expression(names, 1)}")
    source = "\n".join(writer.lines)
    return source, compiled(source, "fuzzed", f"<fuzzed {seed}>")


def compiled(source: str, name: str, file: str) -> Callable[..., Any]:
    """The function `name` that a source defines, such that Python finds its source."""
    linecache.cache[file] = (len(source), None, [line + "\n" for line in source.split("\n")], file)
    names: dict[str, Any] = {"sin": math.sin, "cos": math.cos, "tanh": math.tanh, "sigmoid": sigmoid}
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names[name]
    return made
