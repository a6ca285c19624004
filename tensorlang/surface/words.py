"""Words of mathematics, NumPy, JAX and Python that the language does not have, and their replacements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """`text` and `python` are the same mend, in the two ways to write programs."""

    text: str
    python: str


def _same(hint: str) -> Word:
    return Word(hint, hint)


_SHAPE = Word(
    "sizes are names: f(x: [n]R) has n for the length of x",
    'sizes are names: n = tl.sizes("n"), and x: tl.R[n] has n for the length of x',
)
_LOOP = Word(
    "a loop that carries a state is a fold: fold t:n with s = 0 . s + x[t] is the last state, and scan t:n with .. the "
    "array of all of them; without a state, gen i:n. e makes an array, sum i:n. e a number",
    "a loop that carries a state is tl.fold(n, s0, lambda t, s: ..), the last state, or tl.scan(..), the array of all "
    "of them; without a state, tl.gen makes an array, tl.sum a number; steps of a number that Python knows may be a "
    "Python loop",
)
_SOLVE = Word(
    "there are no solvers or decompositions: use jnp.linalg around tl.to_jax(f)",
    "there are no solvers or decompositions: use jnp.linalg around tl.to_jax(f)",
)
_CHOICE = Word(
    "a value is chosen by if x > 0 then a else b, and [x > 0] * e is e where x > 0 and else 0; max, min and relu",
    "a value is chosen by tl.where(x > 0, a, b), and (x > 0) * e is e where x > 0 and else 0; tl.maximum, tl.minimum "
    "and tl.relu",
)
_PRODUCT = Word(
    "products of arrays are sums: sum i:n. x[i] * y[i]; gen i:n. sum j:m. A[i, j] * v[j]",
    "tl.lib has dot, matvec and matmul; products of arrays are sums: tl.sum(n, lambda i: x[i] * y[i]); "
    "tl.gen(n, lambda i: tl.sum(m, lambda j: A[i, j] * v[j]))",
)
_MEAN = Word(
    "mean(x) of an array; a mean is a sum by its size: (sum i:n. x[i]) / n",
    "tl.lib.mean(x) of an array; a mean is a sum by its size: tl.sum(n, lambda i: x[i]) / n",
)
_NORM = Word("sqrt(sum i:n. x[i]^2)", "tl.sqrt(tl.sum(n, lambda i: x[i] ** 2))")
_TURNED = Word(
    "a transposed array is read at swapped indices: A[j, i]", "a transposed array is read at swapped indices: A[j, i]"
)
_RESHAPED = _same("arrays are not reshaped: give them the axes that are read, and read where the element is")
_WHOLE = Word(
    "a function of an array is written for its elements: gen i:n. 2 * x[i]; sums and extrema name their index: "
    "sum i:n. x[i], max i:n. x[i]",
    "a function of an array is written for its elements: tl.gen(n, lambda i: 2 * x[i]); sums and extrema name their "
    "index: tl.sum(n, lambda i: x[i])",
)
_SOFTMAX = Word(
    "let m = max i:n. x[i] in let e = gen i:n. exp(x[i] - m) in gen i:n. e[i] / sum j:n. e[j]",
    "tl.lib.softmax(x): m = tl.max(n, lambda i: x[i]); e = tl.gen(n, lambda i: tl.exp(x[i] - m)); "
    "tl.gen(n, lambda i: e[i] / tl.sum(n, lambda j: e[j]))",
)
_PI = Word("a constant is written as a number: 3.141592653589793", "a constant is a Python number: math.pi")
_INFINITE = _same("values are finite: where some are left out, max i:n where p. e, and a bracket [p] * e, say which")
_CONSTANT = _same("what is held constant is what no derivative is taken by: a parameter that wrt does not name")
_RANGE = Word("the numbers from 0 to n - 1: gen i:n. i", "the numbers from 0 to n - 1: tl.gen(n, lambda i: i)")

WORDS: dict[str, Word] = {
    **dict.fromkeys(("shape", "len", "size", "ndim", "dim"), _SHAPE),
    **dict.fromkeys(
        ("for", "while", "loop", "fold", "scan", "prescan", "fori_loop", "while_loop", "cumsum", "cumprod", "foreach"),
        _LOOP,
    ),
    **dict.fromkeys(("inv", "inverse", "solve", "det", "svd", "eig", "cholesky", "qr", "linalg", "lstsq"), _SOLVE),
    **dict.fromkeys(("if", "then", "else", "where", "select", "cond", "switch", "clip", "clamp", "ifelse"), _CHOICE),
    **dict.fromkeys(("dot", "matmul", "inner", "einsum", "tensordot", "vdot", "mm", "bmm"), _PRODUCT),
    **dict.fromkeys(("mean", "average", "avg"), _MEAN),
    **dict.fromkeys(("T", "transpose", "mT", "swapaxes", "permute"), _TURNED),
    **dict.fromkeys(("reshape", "ravel", "flatten", "view", "squeeze", "expand_dims"), _RESHAPED),
    **dict.fromkeys(("sum", "max", "min", "argmax", "argmin", "prod", "any", "all", "map", "reduce"), _WHOLE),
    **dict.fromkeys(("range", "arange", "linspace", "enumerate", "iota"), _RANGE),
    **dict.fromkeys(("norm", "length"), _NORM),
    **dict.fromkeys(("softmax", "log_softmax"), _SOFTMAX),
    **dict.fromkeys(("pi", "tau"), _PI),
    **dict.fromkeys(("inf", "infinity", "nan"), _INFINITE),
    **dict.fromkeys(("stop_gradient", "detach", "no_grad"), _CONSTANT),
    **dict.fromkeys(("ln", "loge"), Word("log(x)", "tl.log(x)")),
    **dict.fromkeys(
        ("std", "stddev"),
        Word("sqrt(var(x)) of an array", "tl.sqrt(tl.lib.var(x)) of an array"),
    ),
    **dict.fromkeys(
        ("sort", "argsort", "unique", "fft", "ifft", "topk", "median", "quantile"),
        Word(
            "what moves elements by their values is done outside, with jax.numpy around tl.to_jax(f); places that data "
            "give are index arrays, k: [m]idx(n) and x[k[i]]",
            "what moves elements by their values is done outside, with jax.numpy around tl.to_jax(f); places that data "
            "give are index arrays, k: tl.idx(n)[m] and x[k[i]]",
        ),
    ),
    **dict.fromkeys(
        ("random", "rand", "randn", "normal", "uniform", "dropout"),
        _same("programs are functions: random numbers are parameters, drawn outside"),
    ),
    **dict.fromkeys(
        ("grad", "derivative", "adjoint", "jacobian", "hessian", "jacob", "deriv", "diff"),
        _same("derivatives are by variables: grad x. e, jacobian x. e, derivative x = dx. e; in Python tl.grad(f)"),
    ),
    **dict.fromkeys(
        ("true", "false", "True", "False"), _same("a condition says when: [i < n] * e; numbers are 1 and 0")
    ),
    "var": Word(
        "let m = (sum i:n. x[i]) / n in (sum i:n. (x[i] - m)^2) / n",
        "m = tl.sum(n, lambda i: x[i]) / n; tl.sum(n, lambda i: (x[i] - m) ** 2) / n",
    ),
    "prod": Word(
        "prod(x) of an array; a product over a range is a fold: fold i:n with p = 1 . p * x[i]",
        "tl.lib.prod(x) of an array; a product over a range is a fold: tl.fold(n, 1, lambda i, p: p * x[i])",
    ),
    "logsumexp": Word(
        "let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - m))",
        "m = tl.max(n, lambda i: x[i]); m + tl.log(tl.sum(n, lambda i: tl.exp(x[i] - m)))",
    ),
    "outer": Word("gen i:n, j:m. x[i] * y[j]", "tl.gen((n, m), lambda i, j: x[i] * y[j])"),
    "trace": Word("sum i:n. A[i, i]", "tl.sum(n, lambda i: A[i, i])"),
    "diag": Word(
        "gen i:n. A[i, i]; gen i:n, j:n. [i = j] * x[i]",
        "tl.gen(n, lambda i: A[i, i]); tl.gen((n, n), lambda i, j: (i == j) * x[i])",
    ),
    **dict.fromkeys(("zeros", "zeros_like"), Word("gen i:n. 0", "tl.gen(n, lambda i: 0)")),
    **dict.fromkeys(("ones", "ones_like", "full"), Word("gen i:n. 1", "tl.gen(n, lambda i: 1)")),
    **dict.fromkeys(("eye", "identity"), Word("gen i:n, j:n. [i = j]", "tl.gen((n, n), lambda i, j: (i == j) * 1)")),
    **dict.fromkeys(
        ("concatenate", "stack", "concat", "append"),
        Word(
            "gen i:n + m. [i < n] * x[i] + [n <= i] * y[i - n]",
            "tl.gen(n + m, lambda i: (i < n) * x[i] + (n <= i) * y[i - n])",
        ),
    ),
    **dict.fromkeys(
        ("array", "asarray", "tensor", "constant"), _same("data are parameters of the program, given when it is called")
    ),
    "at": Word(
        "values do not change: make the new array, gen i:n. [i = k] * v + [i != k] * x[i]",
        "values do not change: make the new array, tl.gen(n, lambda i: (i == k) * v + (i != k) * x[i])",
    ),
    **dict.fromkeys(
        ("dtype", "astype"),
        _same("numbers are of one kind, R; when a program runs, its dtype is that of its arguments"),
    ),
    "not": Word("a condition is negated in a bracket: [not i < n] * e", "a condition is negated by ~: ~(i < n)"),
    "return": Word("a program is one expression: f(x: R) = x * x", "return the value from the Python function"),
    "lambda": Word("a function of an index is gen: gen i:n. x[i]", "tl.gen(n, lambda i: x[i])"),
    "e": Word("exp(x)", "tl.exp(x)"),
    "square": Word("x^2", "x ** 2"),
    **dict.fromkeys(("power", "float_power"), Word("x^2, pow(x, 3/2)", "x ** 1.5")),
    "gelu": Word("0.5 * x * (1 + erf(x / sqrt(2)))", "0.5 * x * (1 + tl.erf(x / math.sqrt(2)))"),
    **dict.fromkeys(
        ("arctan", "arcsin", "arccos", "atan2", "arctan2", "floor", "ceil", "round", "expm1", "log1p"),
        _same("tl.scalar_function registers a function with its derivative, cost and code"),
    ),
    **dict.fromkeys(("jit", "compile"), _same("f(..) runs compiled, and jax.jit(tl.to_jax(f)) inside of JAX")),
    **dict.fromkeys(("vmap", "pmap"), _same("an axis more is a gen more; or jax.vmap(tl.to_jax(f))")),
    **dict.fromkeys(("vjp", "backward", "pullback"), _same("tl.adjoint(f), or jax.vjp(tl.to_jax(f), ..)")),
    **dict.fromkeys(
        ("jvp", "jacfwd", "linearize", "pushforward"), _same("tl.derivative(f), or jax.jvp(tl.to_jax(f), ..)")
    ),
    **dict.fromkeys(("jacrev", "gradient"), _same("tl.jacobian(f), tl.grad(f)")),
    **dict.fromkeys(("hessian",), _same("tl.jacobian(tl.grad(f)); times a vector: tl.hvp(f)")),
}
"""The replacements, by word."""
