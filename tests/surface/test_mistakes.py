"""Common mistakes, in text and in Python: each is refused at its place, with a correction."""

# the programs here are mistakes, written as users write them
# ruff: noqa: PLW0108, B018

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import PythonLine

TEXTS: dict[str, str] = {
    # beyond an array: changes that were tried, the most likely first
    "f(x: [n]R) = gen i:n. x[i+1] - x[i]": "a shorter range: gen i:n - 1\n  or: a longer array: x: [n + 1]R\n  or",
    "f(x: [n]R) = sum i:n. x[i - 1] * x[i]": "a range that begins later: sum i:n - 1, with i + 1 for i\n  or: a",
    "f(x: [n]R) = gen i:n. x[i-1] + x[i] + x[i+1]": "gen i:n - 2, with i + 1 for i",
    "f(x: [n]R) = let y = gen i:n. x[i + 1] in sum i:n. y[i]": "gen i:n - 1 and sum i:n - 1",
    "f(x: [n]R) = gen i:p. x[i]": "no parameter has the size p: did you mean n?",
    "f(x: [n]R) = sum i:N. x[i] * x[i]": "did you mean n?",
    "f(A: [n][m]R, v: [m]R) = gen i:n. sum j:m. A[j, i] * v[j]": "did you mean A[i, j]?\n  or: a bracket",
    "f(A: [n][m]R, B: [m][k]R) = gen i:n, j:k. sum l:m. A[i, l] * B[j, l]": "did you mean B[l, j]?",
    "f(x: [n]R, y: [m]R) = sum i:n. x[i] * y[i]": "one size says so: y: [n]R\n  or: a bracket",
    "f(A: [n][m]R) = sum i:n. A[i, i]": "one size says so: A: [n][n]R",
    "f(x: [n]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]": "gen i:n - m + 1\n  or: a longer array: x: [m + n - 1]R",
    "f(x: [n]R) = gen i:10. x[i]": "a shorter range: gen i:n",
    "f(x: [n]R) = x[n]": "a longer array: x: [n + 1]R",
    "f(x: [n]R) = x[0]": "a longer array: x: [n + 1]R",
    "f(x: [n]R) = x[-1]": "number 1 from the end of x: [n + 1]R is x[n]",
    "f(x: [n]R) = sum i:n. x[2*i]": "a longer array: x: [2*n - 1]R",
    "f(x: [n]R) = x[n - 1]": "number 1 from the end of x: [n + 1]R is x[n]",
    "f(x: [n]R) = x[n - 2]": "number 2 from the end of x: [n + 2]R is x[n]",
    "f(x: [n]R) = gen i:n. x[n - i]": "did you mean x[n - i - 1]?",
    # names
    "f(x: R) = y = x * x in y + y": "let y = e in ..",
    "f(x: R) = let y = x * x; y": "ends with `in`",
    "f(x: R) = let y = x * x y + 1": "`in` ends the value: let y = e in ..",
    "f(sum: R) = 2 * sum": "sum0 is a name",
    "f(x: [n]R) = let sum = x in 1": "sum0 is a name",
    "f(x: [n]R, idx: [m]R) = 1": "idx0 is a name",
    "f(x: R, x: R) = x": "another name for one of them: x1",
    "f(k: size, k: size) = k": "another name for one of them: k1",
    "f(weight: R) = wieght": "did you mean weight?",
    "f(x: [n]R) = sum i:n. x_i": "x[i]",
    "f(x: [n]R) = sum_i x[i]": "sum i:n. e",
    "f(x: R) = e^x": "exp(x)",
    "f(x: R) = pi * x": "3.14159",
    "f(x: [n]R) = sum i:n, i:n. x[i]": "another name for one of them: i1",
    "f(x: R) = inf": "values are finite",
    "f(x: [n]R) = stop_gradient(x)": "that wrt does not name",
    "f(x: [n]R) = sum i:n. ln(x[i])": "log(x)",
    "f(x: R) = f(x) + 1": "no program calls itself: a loop is a fold",
    "f(x: R) = zork(x)": "programs that are called stand above",
    # types and definitions
    "(x: R) = x": "a definition has a name",
    "f(: R) = 1": "a parameter has a name: x: R",
    "f(x: [n]R y: R) = 1": "a comma stands between parameters: .., y: R",
    "f(x: [n]R = 3) = x": "no values of their own",
    "f(x: R) => x": "= follows the parameters",
    "f(x: [-1]R) = 1": "[n]R is an array of n numbers",
    "f(x: [n+]R) = 1": "an operator stands between two values",
    "f(x: [n]bool) = 1": "r: rel(n)",
    "f(x: matrix) = 1": "[n][m]R",
    "examples/deblur.tl": "text is read, not a file",
    "f(x: R[n]) = 1": "sizes stand in front: [n]R",
    "f(x: R[n][m]) = 1": "sizes stand in front: [n][m]R",
    "f(x: [n, m]R) = 1": "[n][m]R",
    "f(x: R^n) = 1": "[n]R",
    "f(x: [n]) = 1": "the type of the elements follows the sizes: [n]R",
    "f(x) = x": "x: R for a number, x: [n]R for an array",
    "f(x: float) = x": "the type of numbers is R",
    "f(x: int) = 1": "idx(m)",
    "f(x: [n]R) -> R = 1": "the type of the result follows",
    "def f(x: R) = x": "a definition is written f(",
    "f(x: [n*m]R) = 1": "two sizes are two axes: x: [n][m]R",
    "f(x: [n/2]R) = 1": "call the half n and the whole 2*n",
    # ranges
    "f(x: [n]R) = sum(i:n. x[i])": "(sum i:n. e)",
    "f(x: [n]R) = sum(x)": "sum i:n. x[i]",
    "f(x: [n]R) = sum i in 0..n. x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: [n]R) = sum i in range(n). x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: [n]R) = sum i:0..n. x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: [n]R) = sum i=0:n. x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: [n]R) = sum i:n x[i]": "a dot ends the ranges: sum i:n. e",
    "f(x: [n]R) = sum i:n, x[i]": "a dot ends the ranges: sum i:n. x[..]",
    "f(x: [n]R) = sum i, j:n. x[i]": "sum i:n, j:n. e",
    "f(x: [n]R) = gen i: [n]. x[i]": "gen i:n. e",
    "f(x: [n]R) = sum i:n. sum j:i. x[j]": "sum j:n. [j < i] * e",
    "f(x: [n]R) = sum i=1..n. x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: [n]R) = sum i:n^2. 1": "two sizes are two ranges: sum i:n, j:n. e",
    "f(x: [n]R) = sum i:n. x[i] where i > 0": "sum i:n where i > 0. e",
    # conditions
    "f(x: R) = x and x": "[x < y] * e",
    "f(x: [n]R) = sum i:n. if i = 0: x[i] else 0": "if x > 0 then a else b",
    "f(x: [n]R) = sum i:n. [i <> 0] * x[i]": "unequal is written !=",
    "f(x: [n]R) = sum i:n. [i in 0..3] * x[i]": "[0 <= i < 3] * e",
    "f(x: R) = if x > 0 then x": "if x > 0 then a else b",
    "f(x: R, y: R) = x < y": "if x < y then a else b",
    "f(x: [n]R) = [x > 0] * x[0]": "an element of it: x[i]",
    "f(x: R) = [x] * x": "[x < y] * e",
    "f(x: R) = x > 0 ? x : 0": "if x > 0 then a else b",
    "f(x: [n]R) = sum i:n. x[i < n]": "stands in front: [i < n] * x[i]",
    "f(x: [n]R) = sum i:n. [i == 0] * x[i]": "one =",
    "f(x: [n]R) = sum i:n. [0 < i && i < 3] * x[i]": "`and`",
    "f(x: [n]R) = gen i:n. x[i % n]": "by integers: i // 2, i % 2",
    "f(x: [n]R) = gen i:n // 2. x[i]": "call the half n and the whole 2*n",
    "f(x: [n]R) = gen i:2*n + 1. x[i // 2]": "array: x: [n + 1]R\n  or: a bracket hides it there: [i // 2 < n]",
    "f(x: R) = x // 2": "numbers have /",
    "f(x: R) = x // twice": "a comment begins with --",
    "f(x: [n]R, r: rel(n)) = sum i:n. r(i) * x[i]": "stands in a bracket",
    "f(x: [n]R, r: rel(n, n)) = sum i:n. [r[i, i]] * x[i]": "r(i, j)",
    # indices
    "f(x: [n]R) = x[0.5]": "indices are whole numbers",
    "f(x: [n]R) = sum i:n. x[[i]]": "x[i], A[i, j]",
    "f(x: [n]R) = sum i:n. x[abs(i)]": "an element of an index array, y: [m]idx(n)",
    "f(x: [n]R) = sum i:n. x[i] mod 2": "mod(x, y) of numbers",
    "f(x: [n]R, y: [m]R) = gen i:m. x[y[i]]": "y: [m]idx(n)",
    "f(x: [2*n]R) = gen i:2*n. x[i/2]": "x[i // 2]",
    "f(x: [n]R) = x[1:n]": "gen i:n - 1. x[i + 1]",
    "f(x: [n]R) = sum i:n. x(i)": "x[i]",
    "f(x: [n]R, y: [n]R) = y[argmax i:n. x[i]]": "let k = argmax",
    "f(p: (R, R)) = p[0]": "fst(p), snd(p)",
    "f(A: [n][m]R) = sum i:n. A[i, i, i]": "A[i, j]",
    # products and arrays
    "f(x: [n]R) = sum i:n. [i < 3] x[i]": "a product is written with *: [p] * e",
    "f(x: R) = 2x": "a product is written with *",
    "f(x: R) = x x": "a product is written with *",
    "f(x: [n]R, y: [n]R) = x + y": "gen i:n. x[i] + y[i]",
    "f(x: [n]R) = 2 * x": "gen i:n. 2 * x[i]",
    "f(x: [n]R) = -x": "gen i:n. -x[i]",
    "f(x: [n]R) = exp(x)": "gen i:n. exp(x[i])",
    "f(x: [n]R) = sum i:n. x": "x[",
    "f(A: [n][m]R, v: [m]R) = A * v": "gen i:n. sum j:m. A[i, j] * v[j]",
    "f(A: [n][m]R, v: [m]R) = A @ v": "sum k:m. A[i, k] * B[k, j]",
    "f(x: [n]R) = max(x)": "max i:n. x[i]",
    "f(x: R) = max(x, x, x)": "max(x, max(x, x))",
    "f(x: R) = x ** 2": "a power is written with ^",
    # words of other languages
    "f(A: [n][n]R) = inv(A)": "jnp.linalg",
    "f(x: [n]R) = for i in n. x[i]": "gen i:n. e makes an array",
    "f(x: [n]R) = scan i:n. x[i]": "a state, its first value, and the step",
    "f(x: [n]R) = let h = gen i:n. h[i - 1] + x[i] in h[0]": "let h = scan t:n with s = 0 . ..",
    "f(x: [n]R) = mean i:n. x[i]": "(sum i:n. x[i]) / n",
    "f(x: [n]R) = sofmax(x)": "did you mean softmax",
    "f(x: [n]R, y: [m]R) = dot(x, y)": "dot(x: [n]R, y: [n]R)",
    "f(A: [n][m]R) = A.T": "A[j, i]",
    "f(x: [n]R) = x.shape": "f(x: [n]R) has n",
    "f(x: [n]R) = log_softmax(x)": "let m = max i:n. x[i] in",
    "f(x: [n]R) = return x": "a program is one expression",
    "f(x: R, y: R) = where(x > y, x, y)": "if x > 0 then a else b",
    "f(x: [n]R) = gen i:n. x[i] if i > 0 else 0": "if i > 0 then a else b",
    "f(x: R) = true * x": "a condition says when",
    "f(x: [n]R) = sum i:n. not i * x[i]": "[not i < n] * e",
    "f(x: [n]R) = sort(x)": "jax.numpy around tl.to_jax(f)",
    "f(x: [n]R) = std(x)": "sqrt(var(x))",
    "f(x: [n]R) = random(n)": "random numbers are parameters",
    "f(x: R) = grad(x)": "tl.grad(f)",
    "f(x: [n]R) = sum i:len(x). x[i]": "f(x: [n]R) has n",
    # spellings
    "f(x: [n]R) = sum[i:n] x[i]": "no brackets around a range: sum i:n. e",
    "f(x: [n]R) = sum i∈n. x[i]": "sum i:n. e has 0 <= i < n",
    "f(x: R) = let y := x in y": "let y = e in ..",
    "f(x: R) = let a = 2, b = 3 in a * b * x": "let a = e in let b = e in ..",
    "f(x: [n]R) = sum i:n. x[i].^2": "a power is written with ^",
    "f(x: R) = .5 * x": "0.5",
    "f(x: R) = 1.5.2 * x": "one dot",
    "f(x: R) = * x": "between two values",
    "f(x: R) = ()": "an expression stands between parentheses",
    "f(x: R) = x, x": "(a, b)",
    "f(x: [n]idx) = 1": "[n]idx(m)",
    "f(x: [n]R, n: R) = x": "such as n0",
    "f(x: R) = 1,000 * x": "a number has no commas",
    "f(x: R) = [1, 2, 3]": "an array of numbers is a parameter",
    "f(x: R) = x /* twice */": "a comment begins with --",
    # brackets
    "f(x: R) = (x + (x * 2)": "the '(' at 1:11 is not closed: (x + (x * 2)",
    "f(x: [n]R) = sum i:n. x[i * x[i]": "the '[' at 1:24 is not closed",
    "f(x: R) =\n  sin((x) +\n  2 * x": "the '(' at 2:6 is not closed: ((x) +",
    "f(x: [n + 1]R) = exp(x[0)": "the '[' at 1:23 is not closed",
    "f(x: R) = x)": "no '(' before it is open",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_mistake_in_text_is_met_with_its_mend(text: str) -> None:
    with pytest.raises(tl.TensorlangError) as caught:
        tl.parse(text)
    assert caught.value.place is not None
    assert TEXTS[text] in str(caught.value.hint)


n, m = tl.sizes("n m")
V, A = tl.R[n], tl.R[n, m]
data = np.ones(3)
total = tl.parse("total(x: [n]R) = sum i:n. x[i] * x[i]")
squares = tl.parse("squares(x: [n]R) = gen i:n. x[i] * x[i]")
inner = tl.parse("inner(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]")


def program(body: Callable[..., Any], **types: Any) -> Callable[[], Any]:
    return lambda: tl.function(body, **types)


PYTHON: list[tuple[Callable[[], Any], str]] = [
    # beyond an array, in Python's words
    (program(lambda x: tl.gen(n, lambda i: x[i + 1] - x[i]), x=V), "tl.gen(n - 1, lambda i: ..)\n  or: a longer array: "
     "x: tl.R[n + 1]\n  or: a bracket hides it there: (i + 1 < n) * x[i + 1]"),
    (program(lambda A: tl.gen((n, m), lambda i, j: A[j, i]), A=A), "did you mean A[i, j]?"),
    (program(lambda x, y: tl.sum(n, lambda i: x[i] * y[i]), x=V, y=tl.R[m]), "y: tl.R[n]"),
    # NumPy, JAX and Python
    (program(lambda x: np.sin(x), x=V), "tl.gen(n, lambda i: tl.sin(x[i]))"),
    (program(lambda x: np.heaviside(x, 0), x=tl.R), "tl.scalar_function"),
    (program(lambda x: np.sum(x), x=V), "tl.sum(n, lambda i: x[i])"),
    (program(lambda x: np.add.reduce(x), x=V), "tl.sum(n, lambda i: x[i])"),
    (program(lambda x: np.dot(x, x), x=V), "tl.sum(n, lambda i: x[i] * y[i])"),
    (program(lambda x: np.ones(3) * x, x=tl.R), "make it a parameter"),
    (program(lambda x: x * np.ones(3), x=tl.R), "make it a parameter"),
    (program(lambda x: np.array(x), x=V), "tl.to_jax(f)"),
    (program(lambda x: jnp.sin(x), x=tl.R), "tl.sin"),
    (program(lambda x: jnp.sum(x), x=V), "tl.to_jax(f)"),
    (program(lambda x: jnp.ones(3) * x, x=tl.R), "tl.to_jax(f)"),
    (program(lambda x: jax.nn.relu(x), x=tl.R), "tl.sin"),
    (program(lambda x: tl.gen(n, lambda i: x[i] * data[i]), x=V), "make it a parameter, data: tl.R[n]"),
    (program(lambda x: tl.gen(n, lambda i: x[i] * jnp.ones(3)[i]), x=V), "make it a parameter, data: tl.R[n]"),
    (program(lambda x: tl.gen(n, lambda i: x[i] * data), x=V), "make it a parameter"),
    (program(lambda A, x: A @ x, A=A, x=tl.R[m]), "tl.sum(m, lambda j: A[i, j] * v[j])"),
    (program(lambda x: x.sum(), x=V), "tl.sum(n, lambda i: x[i])"),
    (program(lambda x: x.mean(), x=V), "tl.sum(n, lambda i: x[i]) /"),
    (program(lambda x: tl.gen(x.shape[0], lambda i: x[i]), x=V), "its sizes are n"),
    (program(lambda x: tl.gen(len(x), lambda i: x[i]), x=V), 'tl.sizes("n")'),
    (program(lambda x: x.T, x=A), "A[j, i]"),
    (program(lambda x: x.reshape(3), x=V), "not reshaped"),
    (program(lambda x: x.at[0].set(1), x=V), "tl.gen(n, lambda i: (i == k) * v + (i != k) * x[i])"),
    (program(lambda x: x.__setitem__(0, 1), x=V), "values do not change"),
    (program(lambda x: x[1:], x=V), "x[i + 1]"),
    (program(lambda x: x(0), x=V), "x[i]"),
    (program(lambda x: x // 2, x=tl.R), "numbers have + - * / and **"),
    (program(lambda x: x << 2, x=tl.R), "numbers have + - * / and **"),
    (program(lambda x: round(x), x=tl.R), "tl.scalar_function"),
    (program(lambda x: sum(x[i] for i in range(n)), x=V), "loop with tl.gen or tl.sum"),
    (program(lambda x: max(x, 0), x=tl.R), "tl.maximum"),
    (program(lambda x: x if x > 0 else 0, x=tl.R), "tl.where(c, a, b)"),
    (program(lambda x: tl.gen(n, lambda i: (i > 0 and i < 3) * x[i]), x=V), "(0 <= i) & (i < n)"),
    (program(lambda x: [x, x], x=tl.R), "a tuple: (a, b)"),
    (program(lambda x: None, x=tl.R), "return the value"),
    (program(lambda x: x), "annotate it"),
    (program(lambda x: x, x=float), "x: tl.R is a number"),
    (program(lambda x=1.0: x, x=tl.R), "no default"),
    # calls of the package
    (program(lambda x: tl.sum(lambda i: x[i]), x=V), "the size comes first, then a function of the index"),
    (program(lambda x: tl.sum(x), x=V), "tl.sum(n, lambda i: x[i])"),
    (program(lambda x: tl.gen(lambda i: x[i], n), x=V), "the size comes first"),
    (program(lambda x: tl.gen([n, n], lambda i, j: x[i]), x=V), "several sizes are a tuple"),
    (program(lambda x: tl.gen("n", lambda i: x[i]), x=V), 'n = tl.sizes("n")'),
    (program(lambda x: tl.gen((n, n), lambda i: x[i]), x=V), "lambda i, j: .."),
    (program(lambda x, y: tl.gen(n, lambda i: x[y[i]]), x=V, y=V), "y: tl.idx(m)[n]"),
    (program(lambda x, y: x + y, x=V, y=V), "tl.gen(n, lambda i: x[i] + y[i])"),
    (program(lambda p: p[0], p=tl.pair_type(tl.R, tl.R)), "tl.fst(p)"),
    (program(lambda x: tl.gen(n // 2, lambda i: x[i]), x=V), "call the half n and the whole 2*n"),
    (program(lambda x: tl.gen(n, lambda i: x[i // n]), x=V), "has two axes"),
    (lambda: tl.R[n * m], "two sizes are two axes: tl.R[n, m]"),
    (lambda: tl.R(n), "tl.R[n]"),
    (lambda: tl.R["n"], 'tl.sizes("n")'),
    (lambda: tl.sizes(3), 'tl.sizes("n m")'),
    (lambda: tl.sizes("n gen"), "no word or function of the language"),
    (lambda: tl.sizes("n for"), "sizes are given as keyword arguments, as in tl.cost(f, n=3): for_"),
    (lambda: tl.certify(squares, bound="4"), "tl.certify(f, bound=4)"),  # type: ignore[arg-type]
    (lambda: tl.function("f(x: R) = x"), "tl.parse"),
    (lambda: tl.adjoint(total, wrt=0), 'wrt="x"'),
    (lambda: tl.adjoint(inner, wrt=("x", 1)), 'wrt="y"'),
    (lambda: tl.adjoint(total, wrt="xx"), "did you mean x?"),
    (lambda: tl.adjoint("f(x: R) = x"), "tl.adjoint(tl.parse(..))"),
    (lambda: tl.cost("f(x: R) = x"), "tl.parse"),
    (lambda: tl.lower(lambda x: x), "tl.function"),
    (lambda: tl.testing.assert_cheap_adjoint(None), "tl.parse"),
    (lambda: tl.grad(squares), "tl.adjoint(squares)"),
    (lambda: tl.lower(total, tarpet="jax"), "target='jax'"),
    (lambda: tl.mean, "tl.sum(n, lambda i: x[i]) /"),
    (lambda: tl.matmul, "tl.sum(m, lambda j: A[i, j] * v[j])"),
    (lambda: tl.vmap, "jax.vmap(tl.to_jax(f))"),
    (lambda: tl.ajoint, "did you mean tl.adjoint?"),
    (lambda: tl.cost(total, data), "tl.cost(total, n=3)"),
    (lambda: tl.cost(total, n=2.5), "such as n=3"),
    (lambda: total(), "total(x: [n]R)"),
    (lambda: total(1.0), "total(x: [n]R)"),
    (lambda: total(np.ones((2, 2))), "jax.vmap(tl.to_jax(total))"),
    (lambda: total("abc"), "arrays of NumPy, JAX and PyTorch"),
    (lambda: total(np.ones(2, complex)), "x.real and x.imag"),
    (lambda: total(np.ones(3), n=2.5), "such as n=3"),
    (lambda: inner(np.ones(3), np.ones(4)), "where the lengths differ, they are two sizes"),
    (lambda: tl.to_jax(inner)(np.ones(3), np.ones(4)), "where the lengths differ, they are two sizes"),
    (lambda: tl.R[-1], 'n = tl.sizes("n")'),
    (lambda: total + 1, "call it: total(..)"),
    (lambda: 2 * total, "call it: total(..)"),
    (lambda: total[0], "call it: total(..)"),
    (lambda: total.gradient, "tl.grad(f)"),
    (lambda: tl.lib.sofmax, "did you mean softmax"),
    (lambda: tl.limits(seconds="10").__enter__(), "tl.limits(seconds=10)"),
    (program(lambda x: tl.gen(n, lambda i: x[i][i]), x=V), "it is a number already"),
    (lambda: tl.scalar_function("mine", derivative=lambda x: x, evaluate=np.sin, source="{0}"), "lambda x, y: .."),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "mend"), PYTHON, ids=[f"{k}-{mend[:30]}" for k, (_, mend) in enumerate(PYTHON)])
def test_a_mistake_in_python_is_met_with_its_mend(mistake: Callable[[], Any], mend: str) -> None:
    with pytest.raises(tl.TensorlangError) as caught:
        mistake()
    place = caught.value.place
    assert place is not None and place.filename == __file__
    assert mend in str(caught.value.hint)
    assert "_Placeholder" not in str(caught.value)


def test_no_two_mistakes_are_the_same() -> None:
    assert len(TEXTS) + len(PYTHON) > 200


# -- proposed corrections work


@pytest.mark.parametrize("text", [text for text, mend in TEXTS.items() if "shorter range" in mend or "later" in mend])
def test_a_range_that_is_proposed_mends_the_program(text: str) -> None:
    with pytest.raises(tl.OutOfBounds) as caught:
        tl.parse(text)
    hint = str(caught.value.hint).split("\n", maxsplit=1)[0]
    mended = text
    for word, index, size in re.findall(r"(gen|sum) (\w+):(.*?)(?=,| and |$)", hint):
        mended = re.sub(rf"{word} {index}:.*?\.", f"{word} {index}:{size}.", mended, count=1)
        if (shift := re.search(rf"with (.*) for {index}", hint)) is not None:
            mended = re.sub(rf"\[{index}\b", f"[{shift[1]}", mended)
    tl.parse(mended)


@pytest.mark.parametrize("text", [text for text, mend in TEXTS.items() if "longer array" in mend])
def test_a_longer_array_that_is_proposed_mends_the_program(text: str) -> None:
    with pytest.raises(tl.OutOfBounds) as caught:
        tl.parse(text)
    found = re.search(r"longer array: (\w+): (\S.*R)", str(caught.value.hint))
    assert found is not None
    tl.parse(re.sub(rf"\b{found[1]}: (\[.*?\])+R", f"{found[1]}: {found[2]}", text, count=1))


def test_a_bracket_is_proposed_last() -> None:
    for text in TEXTS:
        with pytest.raises(tl.TensorlangError) as caught:
            tl.parse(text)
        if isinstance(caught.value, tl.OutOfBounds):
            lines = str(caught.value.hint).split("\n")
            assert not any("a bracket hides" in line for line in lines[:-1])


# -- NumPy, JAX and PyTorch


def test_elementwise_functions_of_numpy_work_on_terms() -> None:
    f = tl.function(
        lambda x, y: np.sin(x) * np.exp(np.float32(0.5) * y) + np.maximum(x, np.abs(y)) - np.square(x) / np.sqrt(y),
        x=tl.R,
        y=tl.R,
    )
    g = tl.parse("f(x: R, y: R) = sin(x) * exp(0.5 * y) + max(x, abs(y)) - x * x / sqrt(y)")
    assert str(f) == str(g)


@pytest.mark.parametrize(
    ("name", "count"),
    [(name, 1) for name in ("exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "sign", "reciprocal")]
    + [(name, 1) for name in ("absolute", "negative", "positive", "square")]
    + [(name, 2) for name in ("maximum", "minimum", "fmax", "fmin", "logaddexp")]
    + [(name, 2) for name in ("add", "subtract", "multiply", "divide")],
)
def test_a_function_of_numpy_means_on_terms_what_it_means_on_numbers(name: str, count: int) -> None:
    ufunc = getattr(np, name)
    parameters = {name: tl.R for name in "xy"[:count]}
    body = (lambda x: ufunc(x)) if count == 1 else (lambda x, y: ufunc(x, y))
    f = tl.function(body, **parameters)
    given = np.array([0.7, 1.3])[:count]
    assert np.isclose(tl.evaluate(f, *given), ufunc(*given))


def test_numbers_of_numpy_compare_with_indices() -> None:
    f = tl.function(lambda x: tl.sum(n, lambda i: (np.int64(1) < i) * x[np.int64(0) + i]), x=V)
    assert str(f) == str(tl.parse("f(x: [n]R) = sum i:n. [1 < i] * x[i]"))


class Tensor:
    """A tensor of another library, as PyTorch's looks from outside."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.shape = tuple(array.shape)
        self.dtype = f"other.{array.dtype}"
        self.device = device

    def detach(self) -> Tensor:
        return self

    def __dlpack__(self, **options: Any) -> Any:
        if self.device != (1, 0):
            raise BufferError("not on the host")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_tensors_of_other_libraries_are_taken_by_dlpack() -> None:
    x, y = np.arange(3.0), np.array([2.0, 1.0, 0.5])
    assert inner(Tensor(x), y) == tl.evaluate(inner, x, Tensor(y)) == tl.to_jax(inner)(Tensor(x), Tensor(y)) == x @ y
    picked = tl.parse("picked(x: [n]R, k: [m]idx(n)) = gen j:m. x[k[j]]")
    assert picked(Tensor(x), Tensor(np.array([2, 0]))).tolist() == [2.0, 0.0]


def test_a_tensor_on_another_device_is_refused_with_its_mend() -> None:
    with pytest.raises(tl.ArgumentError, match="not on the host") as caught:
        total(Tensor(np.ones(3), device=(2, 0)))
    assert "x.cpu()" in str(caught.value.hint)


def test_values_of_programs_look_like_plain_objects_to_those_who_ask() -> None:
    def body(x: Any) -> Any:
        assert not hasattr(x, "shape") and not hasattr(x, "no_such_name") and not hasattr(x, "_private")
        with pytest.raises(AttributeError):
            x.shape
        return x

    tl.function(body, x=V)
    assert not hasattr(tl, "no_such_name")


def test_public_functions_are_found_by_name_elsewhere() -> None:
    import pickle

    for function in (tl.adjoint, tl.gen, tl.sin, tl.testing.assert_cheap_adjoint, tl.pictures.lattice):
        assert pickle.loads(pickle.dumps(function)) is function


def test_an_error_of_the_user_s_own_stays_as_it_is() -> None:
    def body(x: Any) -> Any:
        return x * {}["nothing"]

    with pytest.raises(KeyError):
        tl.function(body, x=tl.R)
    with pytest.raises(TypeError, match="NoneType"):
        tl.function(lambda x: None + 1, x=tl.R)


JUNK: list[Any] = [None, 3, -1, 2.5, float("nan"), "x", b"x", (), (1, 2), [1], {"a": 1}, np.ones(3), lambda x: x, int,
                   object(), n, n < 3, total, tl.R, True]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in dir(tl) if inspect.isfunction(getattr(tl, name))])
def test_a_public_function_that_is_called_with_anything_gives_a_value_or_a_placed_error_of_ours(name: str) -> None:
    public = getattr(tl, name)
    for count in range(3):
        for arguments in itertools.product(JUNK, repeat=count):
            try:
                public(*arguments)
            except tl.TensorlangError as error:
                assert error.place is not None
                assert str(error)


def test_a_line_of_a_notebook_is_told_by_its_number_alone() -> None:
    line = PythonLine("/tmp/ipykernel_123/456.py", 2, "f(x)")
    assert str(line) == "line 2\n  f(x)"


def test_a_size_that_is_declared_and_not_used_is_taken() -> None:
    f = tl.parse("f(x: [6]R, n: size) = sum i:6. x[i]")
    x = np.ones(6, np.float32)
    assert f(x) == f(x, n=4) == tl.evaluate(f, x, n=4) == tl.to_jax(f)(x, n=4) == 6
    assert np.array_equal(tl.grad(f)(x, n=4), x)
    assert tl.cost(f, n=4) == 5
    with pytest.raises(tl.ArgumentError):
        f(x, m=4)


def test_a_program_is_copied_by_its_text() -> None:
    f = tl.function(lambda x, k: (x, (x, 2 * x)), x=tl.R, k=tl.idx(n))
    for made in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert str(made) == str(f)
        assert made(3.0, 0, n=2) == f(3.0, 0, n=2) == (3, (3, 6))
        assert str(tl.adjoint(made)) == str(tl.adjoint(f))
