"""Programs of the library with whole numbers as options: strides, dilations, padding, windows, groups.

    conv2d(x, k, stride=2, padding=1)

Each choice of options is a program of its own, whose text is written when it is first needed. A stride may leave over
elements that are too few for another step; their number follows from the lengths of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorlang.errors import ArgumentError, SizeMismatch, here
from tensorlang.language.affine import Affine, constant
from tensorlang.language.function import Function, did_you_mean
from tensorlang.language.types import shape
from tensorlang.memory import cached
from tensorlang.surface.terms import Term

Axes = tuple[Affine, ...]
Options = Mapping[str, int]
Read = Callable[[str, str], Function]


@dataclass(frozen=True, eq=False, repr=False)
class Adjustable(Function):
    """A program that takes `options` by name, besides its parameters and sizes; by itself it has the default options.

    `least` has the least meaningful value of each option; `read` makes a program of a text.
    """

    read: Read | None = None
    options: Options = field(default_factory=dict)
    least: Options = field(default_factory=dict)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The value, at these arguments, of the program with the options among them. Raises `ArgumentError`."""
        options = {name: kwargs.pop(name) for name in self.options if name in kwargs}
        given = {p.name: value for p, value in zip(self.params, args, strict=False)}
        given.update((p.name, kwargs[p.name]) for p in self.params if p.name in kwargs)
        return self.at({name: axes(value) for name, value in given.items()}, options)(*args, **kwargs)

    def at(self, given: Mapping[str, Axes], options: Mapping[str, Any]) -> Function:
        """The program with these options for arguments of these axes.

        Raises `ArgumentError` for an option that is no whole number, `SizeMismatch` if the sizes do not determine what
        a stride leaves over.
        """
        chosen = {**self.options, **self._checked(options)}
        if any(p.name not in given for p in self.params):
            return _made(self.name, tuple(chosen.items()), (0, 0), self.read)
        left = []
        for length, stride in _FAMILIES[self.name].lengths(_Chosen(chosen), given):
            if any(k % stride for _, k in length.terms):
                message = f"a stride of {stride} over the length {length} leaves over what its sizes do not tell"
                raise SizeMismatch(message, here(), f"sizes that are multiples say so: [{stride}*n]R")
            left.append(length.constant % stride)
        return _made(self.name, tuple(chosen.items()), (*left, 0, 0)[:2], self.read)

    def with_options(self, **options: int) -> Function:
        """The program with these options, for strides that leave nothing over. Raises what `at` raises."""
        return self.at({}, options)

    def _checked(self, options: Mapping[str, Any]) -> dict[str, int]:
        for name, value in options.items():
            if name not in self.options:
                known = did_you_mean(name, list(self.options))
                raise ArgumentError(f"{self.name} has no option {name}", here(), known)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < self.least[name]:
                message = f"the option {name} of {self.name} is a whole number of at least {self.least[name]}"
                raise ArgumentError(f"{message}, found {value!r}", here(), f"{name}={max(2, self.least[name])}")
        return {name: int(value) for name, value in options.items()}


def axes(value: Any) -> Axes:
    """The lengths of the axes of an array or a term."""
    if isinstance(value, Term):
        return shape(value.expr.type)[0]
    try:
        dims = value.shape if hasattr(value, "shape") else np.shape(value)
    except ValueError:  # no array, which raises an error where it is used
        return ()
    return tuple(constant(int(n)) for n in dims)


def adjustable(read: Read) -> dict[str, Function]:
    """The programs that take options, by name, with their defaults; `read` makes a program of a text."""
    made = {}
    for name, family in _FAMILIES.items():
        f = _made(name, tuple(family.options.items()), (0, 0), read)
        made[name] = Adjustable(f.name, f.params, f.body, f.results, f.further, read, family.options, family.least)
    return {**made}


@dataclass(frozen=True)
class _Chosen:
    """Options, as attributes."""

    values: Options

    def __getattr__(self, name: str) -> int:
        return self.values[name]

    @property
    def step(self) -> int:
        """The stride of a window, by default its length."""
        return self.values["stride"] or self.values["window"]


@dataclass(frozen=True)
class _Family:
    """A family of programs: `text` writes the one for given options and numbers of elements left over; `lengths`
    returns the lengths of the axes beyond the first step, with their strides."""

    options: Options
    text: Callable[[_Chosen, tuple[int, ...]], str]
    lengths: Callable[[_Chosen, Mapping[str, Axes]], list[tuple[Affine, int]]]
    least: Options = field(default_factory=lambda: {"stride": 1, "dilation": 1, "padding": 0, "groups": 1, "window": 1})


@cached
def _made(name: str, options: tuple[tuple[str, int], ...], left: tuple[int, ...], read: Read | None) -> Function:
    assert read is not None
    return read(_FAMILIES[name].text(_Chosen(dict(options)), left), "lib.tl")


def _length(out: str, stride: int, reach: str, padding: int, left: int) -> str:
    """The number of elements that `out` steps of a window of length `reach` need, plus those `left` over."""
    return f"{stride}*{out} + {reach} + {left - stride - 2 * padding}"


def _inside(at: list[str], lengths: list[str], padding: int) -> str:
    """A bracket that holds where no place is padding."""
    return f"[{' and '.join(f'0 <= {a} < {n}' for a, n in zip(at, lengths, strict=True))}] * " if padding else ""


def _conv1d(o: _Chosen, left: tuple[int, ...]) -> str:
    n = _length("n", o.stride, f"{o.dilation}*m + {1 - o.dilation}", o.padding, left[0])
    at = f"{o.stride}*i + {o.dilation}*j - {o.padding}"
    return f"conv1d(x: [{n}]R, w: [m]R) = gen i:n. sum j:m. {_inside([at], [n], o.padding)}x[{at}] * w[j]"


def _conv2d(o: _Chosen, left: tuple[int, ...]) -> str:
    declared, product = _planes(o, left)
    if o.groups == 1:
        return f"conv2d(x: [c]{declared}, k: [d][c][a][b]R) = gen o:d, i:h, j:w. sum q:c, r:a, s:b. {product('q', 'q')}"
    channel = "[{} <= o < {}] * sum q:c, r:a, s:b. {}"
    sums = [channel.format(f"{g}*d", f"{g + 1}*d", product(f"{g}*c + q", "q")) for g in range(o.groups)]
    total = " + ".join(f"({e})" for e in sums)
    return f"conv2d(x: [{o.groups}*c]{declared}, k: [{o.groups}*d][c][a][b]R) = gen o:{o.groups}*d, i:h, j:w. {total}"


def _planes(o: _Chosen, left: tuple[int, ...]) -> tuple[str, Callable[[str, str], str]]:
    """The two axes of an image, and the product of its elements with those of a kernel, by their channels."""
    height = _length("h", o.stride, f"{o.dilation}*a + {1 - o.dilation}", o.padding, left[0])
    width = _length("w", o.stride, f"{o.dilation}*b + {1 - o.dilation}", o.padding, left[1])
    y = f"{o.stride}*i + {o.dilation}*r - {o.padding}"
    x = f"{o.stride}*j + {o.dilation}*s - {o.padding}"
    inside = _inside([y, x], [height, width], o.padding)
    return f"[{height}][{width}]R", lambda channel, q: f"{inside}x[{channel}, {y}, {x}] * k[o, {q}, r, s]"


def _depthwise(o: _Chosen, left: tuple[int, ...]) -> str:
    declared, product = _planes(o, left)
    e = product("o", "").replace("k[o, , r, s]", "k[o, r, s]")
    return f"depthwise_conv2d(x: [c]{declared}, k: [c][a][b]R) = gen o:c, i:h, j:w. sum r:a, s:b. {e}"


def _conv1d_transposed(o: _Chosen, left: tuple[int, ...]) -> str:
    n = f"{o.stride}*n + m + {-o.stride}"
    read = "y[i - j]" if o.stride == 1 else f"sum k:n. [i = {o.stride}*k + j] * y[k]"
    inside = "[0 <= i - j < n] * " if o.stride == 1 else ""
    return f"conv1d_transposed(y: [n]R, w: [m]R) = gen i:{n}. sum j:m. {inside}({read}) * w[j]"


def _pooled(name: str, reduced: Callable[[_Chosen, str, str], str]) -> Callable[[_Chosen, tuple[int, ...]], str]:
    def text(o: _Chosen, left: tuple[int, ...]) -> str:
        height, width = (_length(n, o.step, str(o.window), o.padding, e) for n, e in zip(("h", "w"), left, strict=True))
        y, x = f"{o.step}*i + r - {o.padding}", f"{o.step}*j + s - {o.padding}"
        inside = _inside([y, x], [height, width], o.padding)
        return f"{name}(x: [c][{height}][{width}]R) = gen q:c, i:h, j:w. {reduced(o, inside, f'x[q, {y}, {x}]')}"

    return text


def _greatest(o: _Chosen, inside: str, read: str) -> str:
    where = f" where {inside[1:].removesuffix('] * ')}" if inside else ""
    return f"max r:{o.window}, s:{o.window}{where}. {read}"


def _average(o: _Chosen, inside: str, read: str) -> str:
    return f"1/{o.window**2} * sum r:{o.window}, s:{o.window}. {inside}{read}"


def _causal(o: _Chosen, _: tuple[int, ...]) -> str:
    near = f" and i < l + {o.window}" if o.window else ""
    near_j = near.replace("l +", "j +")
    return f"""causal_attention(q: [n][d]R, k: [n][d]R, v: [n][p]R) =
  let s = gen i:n, j:n. [j <= i{near_j}] * ((sum l:d. q[i, l] * k[j, l]) / sqrt(d)) in
  let e = gen i:n, j:n. [j <= i{near_j}] * exp(s[i, j] - max l:n where l <= i{near}. s[i, l]) in
  let t = gen i:n. sum j:n. [j <= i{near_j}] * e[i, j] in
  gen i:n, l:p. (sum j:n. [j <= i{near_j}] * e[i, j] * v[j, l]) / t[i]"""


def _of_kernel(kernel: str, first: int) -> Callable[[_Chosen, Mapping[str, Axes]], list[tuple[Affine, int]]]:
    """A function that computes `lengths`, for the axes of x from `first` on and the last axes of the kernel."""

    def lengths(o: _Chosen, given: Mapping[str, Axes]) -> list[tuple[Affine, int]]:
        image = given["x"][first:]
        windows = given[kernel][len(given[kernel]) - len(image) :]
        return [(n - (m - 1) * o.dilation - 1 + 2 * o.padding, o.stride) for n, m in zip(image, windows, strict=False)]

    return lengths


def _of_window(o: _Chosen, given: Mapping[str, Axes]) -> list[tuple[Affine, int]]:
    return [(n - o.window + 2 * o.padding, o.step) for n in given["x"][1:]]


_CONVOLUTION = {"stride": 1, "dilation": 1, "padding": 0}
_POOL = {"window": 2, "stride": 0, "padding": 0}

_FAMILIES: dict[str, _Family] = {
    "conv1d": _Family(_CONVOLUTION, _conv1d, _of_kernel("w", 0)),
    "conv2d": _Family({**_CONVOLUTION, "groups": 1}, _conv2d, _of_kernel("k", 1)),
    "depthwise_conv2d": _Family(_CONVOLUTION, _depthwise, _of_kernel("k", 1)),
    "conv1d_transposed": _Family({"stride": 1}, _conv1d_transposed, lambda o, given: []),
    "max_pool": _Family(_POOL, _pooled("max_pool", _greatest), _of_window),
    "avg_pool": _Family(_POOL, _pooled("avg_pool", _average), _of_window),
    "causal_attention": _Family({"window": 0}, _causal, lambda o, given: []),
}
"""The families, by name; a window of 0 is the whole axis, and a stride of 0 is the window's length."""
