"""As much of NumPy as tensorlang asks for without JAX, in Python, for browsers: arrays are lists in row-major order.

What is here does as NumPy does, except that arrays of a single element without axes are plain numbers, that parts are
copies (`reshape` alone shares its numbers), and that numbers are Python's: int64 does not overflow, float32 is float64.
"""

from __future__ import annotations

import bisect
import builtins
import itertools
import math
import operator
from collections.abc import Callable
from contextlib import contextmanager
from fractions import Fraction

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None


class dtype:
    """A kind of elements: "b", "i", "f" or "O", with what makes one of another number."""

    def __new__(cls, kind, name=None, make=None):
        return object.__new__(cls) if make else _dtype(kind)

    def __init__(self, kind, name=None, make=None):
        if make:
            self.kind, self.name, self.make, self.itemsize = kind, name, make, 1 if kind == "b" else 8

    @property
    def type(self):
        """The class of the numbers."""
        return _CLASSES[self.kind]

    def __eq__(self, other):
        other = _dtype(other)
        return other is not None and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)

    def __repr__(self):
        return self.name

    __str__ = __repr__


class _Kind(type):
    """Classes of numbers, which only ever make Python's."""

    def __call__(cls, x=0):
        return _each(cls.dtype.make, x, cls.dtype) if isinstance(x, ndarray) else cls.dtype.make(x)


class generic:
    """A number of NumPy's, of which there is none."""


class number(generic):
    """A number, not a truth value."""


class integer(number):
    """A whole number."""


class floating(number):
    """A real number."""


class int64(integer, metaclass=_Kind):
    """A whole number."""

    dtype = dtype("i", "int64", int)


class float64(floating, metaclass=_Kind):
    """A real number."""

    dtype = dtype("f", "float64", float)


class bool_(generic, metaclass=_Kind):
    """A truth value."""

    dtype = dtype("b", "bool", bool)


class object_(generic, metaclass=_Kind):
    """Anything, such as a fraction."""

    dtype = dtype("O", "object", lambda x: x)


float32, int32 = float64, int64
_ORDER = "bifO"
_CLASSES = {"b": bool_, "i": int64, "f": float64, "O": object_}
_NAMES = {
    bool: "b", int: "i", float: "f", object: "O", "bool": "b", "int64": "i", "int32": "i", "int": "i",
    "float64": "f", "float32": "f", "float": "f", "object": "O", "b": "b", "i": "i", "f": "f", "O": "O",
}  # fmt: skip


def _dtype(d):
    if isinstance(d, dtype):
        return d
    if isinstance(d, _Kind):
        return d.dtype
    return _CLASSES[_NAMES[d]].dtype if d in _NAMES else None


def _kind(x):
    if isinstance(x, ndarray):
        return x.dtype.kind
    if isinstance(x, bool):
        return "b"
    if isinstance(x, int):
        return "i" if -(2**63) <= x < 2**63 else "O"
    return "f" if isinstance(x, float) else "O"


def _joined(kinds):
    return _CLASSES[builtins.max(kinds, key=_ORDER.index, default="f")].dtype


class ndarray:
    """Numbers in row-major order, with a shape."""

    __slots__ = ("data", "dtype", "shape")
    __hash__ = None
    __array_priority__ = 0

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, data, shape, d):
        self.data, self.shape, self.dtype = data, tuple(shape), d

    # shapes

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return len(self.data)

    @property
    def nbytes(self):
        return len(self.data) * self.dtype.itemsize

    @property
    def T(self):
        return self.transpose()

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def reshape(self, *shape, order="C"):
        dims = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
        if -1 in dims:
            at = dims.index(-1)
            dims[at] = 1
            dims[at] = len(self.data) // math.prod(dims) if math.prod(dims) else 0
        if math.prod(dims) != len(self.data):
            raise ValueError(f"cannot reshape array of size {len(self.data)} into shape {tuple(dims)}")
        return ndarray(self.data, dims, self.dtype)

    def ravel(self):
        return self.reshape(-1)

    flatten = ravel

    def transpose(self, *axes):
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        order = tuple(order) or tuple(reversed(range(self.ndim)))
        strides = _strides(self.shape)
        shape = tuple(self.shape[k] for k in order)
        return ndarray([self.data[p] for p in _walk(shape, [strides[k] for k in order])], shape, self.dtype)

    # elements

    def _places(self, key):
        """The numbers of the elements at `key`, and the shape that they make."""
        keys = list(key) if isinstance(key, tuple) else [key]
        keys = [asarray(k) if isinstance(k, list) else k for k in keys]
        masks = [k for k in keys if isinstance(k, ndarray) and k.dtype.kind == "b"]
        used = len([k for k in keys if k is not None and k is not Ellipsis]) + builtins.sum(m.ndim - 1 for m in masks)
        if not any(k is Ellipsis for k in keys):
            keys.append(Ellipsis)
        axis, strides = 0, _strides(self.shape)
        start, lengths, steps, chosen, at = 0, [], [], [], None
        for k in keys:
            if k is Ellipsis:
                for _ in range(self.ndim - used):
                    lengths.append(self.shape[axis])
                    steps.append(range(0, self.shape[axis] * strides[axis], strides[axis] or 1))
                    axis += 1
            elif k is None:
                lengths.append(1)
                steps.append((0,))
            elif isinstance(k, slice):
                rows = range(*k.indices(self.shape[axis]))
                lengths.append(len(rows))
                steps.append([r * strides[axis] for r in rows])
                axis += 1
            elif isinstance(k, ndarray) and (k.shape or k.dtype.kind == "b"):
                at = len(lengths) if at is None else at
                for rows in k.nonzero() if k.dtype.kind == "b" else (k,):
                    chosen.append((rows, self.shape[axis], strides[axis]))
                    axis += 1
            else:
                row, n = operator.index(k.data[0] if isinstance(k, ndarray) else k), self.shape[axis]
                if not -n <= row < n:
                    raise IndexError(f"index {row} is out of bounds for axis {axis} with size {n}")
                start += row % n * strides[axis]
                axis += 1
        if at is not None:
            rows = broadcast_arrays(*(r for r, _, _ in chosen))
            offsets = [0] * rows[0].size
            for picked, (_, n, stride) in zip(rows, chosen, strict=True):
                if any(not -n <= r < n for r in picked.data):
                    raise IndexError(f"an index is out of bounds for an axis with size {n}")
                offsets = [o + r % n * stride for o, r in zip(offsets, picked.data, strict=True)]
            steps.insert(at, offsets)
            lengths[at:at] = rows[0].shape
        if len(steps) == 1:
            return [start + s for s in steps[0]] if start else steps[0], lengths
        return [start + builtins.sum(s) for s in itertools.product(*steps)], lengths

    def __getitem__(self, key):
        places, shape = self._places(key)
        if not shape and not (isinstance(key, tuple) and Ellipsis in key):
            return self.data[places[0]]
        return ndarray([self.data[p] for p in places], shape, self.dtype)

    def __setitem__(self, key, value):
        places, shape = self._places(key)
        values = _spread(asarray(value), tuple(shape))
        make = self.dtype.make
        for p, x in zip(places, values, strict=True):
            self.data[p] = make(x)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __contains__(self, x):
        return x in self.data

    def _single(self):
        if len(self.data) != 1:
            raise ValueError("the truth value of an array with more than one element is ambiguous")
        return self.data[0]

    def __bool__(self):
        return bool(self._single())

    def __int__(self):
        return int(self._single())

    def __index__(self):
        return operator.index(self._single())

    def __float__(self):
        return float(self._single())

    def item(self, *at):
        return self[at] if at else self._single()

    def tolist(self):
        def nested(start, shape):
            if not shape:
                return self.data[start]
            step = math.prod(shape[1:])
            return [nested(start + k * step, shape[1:]) for k in range(shape[0])]

        return nested(0, self.shape)

    def copy(self):
        return ndarray(list(self.data), self.shape, self.dtype)

    def astype(self, d, copy=True):
        d = _dtype(d)
        return self.copy() if d == self.dtype else _each(d.make, self, d)

    def __repr__(self):
        return f"array({self.tolist()})"

    # reductions

    def _fold(self, of, axis=None, keepdims=False, kind=None, start=()):
        """`of` the numbers along axes."""
        axes = tuple(range(self.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
        axes = tuple(k % self.ndim for k in axes)
        kept = [k for k in range(self.ndim) if k not in axes]
        moved = self.transpose(*kept, *axes) if kept else self
        count = math.prod(self.shape[k] for k in axes)
        rows = [moved.data[r * count : (r + 1) * count] for r in range(math.prod(self.shape[k] for k in kept))]
        found = [of([*start, *row]) for row in rows]
        shape = [1 if k in axes else n for k, n in enumerate(self.shape)] if keepdims else [self.shape[k] for k in kept]
        return ndarray(found, shape, _CLASSES[kind or self.dtype.kind].dtype) if shape else found[0]

    def all(self, axis=None):
        return self._fold(all, axis, kind="b")

    def any(self, axis=None):
        return self._fold(any, axis, kind="b")

    def sum(self, axis=None, dtype=None, keepdims=False):
        d = _dtype(dtype) or self.dtype
        make = int if d.kind == "b" else d.make
        return self._fold(
            lambda row: builtins.sum(map(make, row), make(0)), axis, keepdims, "i" if d.kind == "b" else d.kind
        )

    def prod(self, axis=None):
        return self._fold(math.prod, axis)

    def max(self, axis=None, initial=None, keepdims=False):
        return self._fold(_highest, axis, keepdims, start=() if initial is None else (initial,))

    def min(self, axis=None, initial=None, keepdims=False):
        return self._fold(_lowest, axis, keepdims, start=() if initial is None else (initial,))

    def argmax(self, axis=None):
        return self._fold(lambda row: row.index(_highest(row)), axis, kind="i")

    def mean(self, axis=None):
        return self._fold(lambda row: builtins.sum(row) / len(row), axis, kind="f")

    def cumsum(self):
        return ndarray(list(itertools.accumulate(self.data)), (self.size,), self.dtype)

    def nonzero(self):
        found = [k for k, x in enumerate(self.data) if x]
        return unravel_index(ndarray(found, (len(found),), int64.dtype), self.shape)

    def __invert__(self):
        return _each((lambda x: not x) if self.dtype.kind == "b" else operator.invert, self, self.dtype)

    def __neg__(self):
        return _each(operator.neg, self, self.dtype)

    def __abs__(self):
        return _each(builtins.abs, self, self.dtype)


def _highest(row):
    return next((x for x in row if x != x), None) or builtins.max(row)


def _lowest(row):
    return next((x for x in row if x != x), None) or min(row)


def _strides(shape):
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _walk(shape, strides):
    """The numbers of the elements in row-major order, of an array that is read with these strides."""
    return map(
        builtins.sum, itertools.product(*([k * s for k in range(n)] for n, s in zip(shape, strides, strict=True)))
    )


def _each(f, a, d):
    return ndarray([f(x) for x in a.data], a.shape, d)


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes have together."""
    found = []
    for dims in itertools.zip_longest(*(s[::-1] for s in shapes), fillvalue=1):
        n = next((d for d in dims if d != 1), 1)
        if any(d not in (1, n) for d in dims):
            raise ValueError(f"operands could not be broadcast together with shapes {' '.join(map(str, shapes))}")
        found.append(n)
    return tuple(found[::-1])


def _spread(a, shape):
    """The numbers of `a` as those of an array of this shape."""
    if a.shape == shape:
        return a.data
    if broadcast_shapes(a.shape, shape) != tuple(shape):
        raise ValueError(f"could not broadcast input array from shape {a.shape} into shape {shape}")
    if len(a.data) == 1:
        return a.data * math.prod(shape)
    padded = (1,) * (len(shape) - a.ndim) + a.shape
    strides = [0 if n == 1 else s for n, s in zip(padded, _strides(padded), strict=True)]
    return [a.data[p] for p in _walk(shape, strides)]


def broadcast_to(a, shape):
    """`a` in this shape."""
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    a = asarray(a)
    return ndarray(list(_spread(a, shape)), shape, a.dtype)


def broadcast_arrays(*arrays):
    """The arrays in the shape that they have together."""
    made = [asarray(a) for a in arrays]
    shape = broadcast_shapes(*(a.shape for a in made))
    return [broadcast_to(a, shape) for a in made]


# functions of elements


def _mapped(f, *arguments, kind=None):
    """`f` at the elements of arrays that are broadcast; a number if none has an axis."""
    made = [asarray(a) for a in arguments]
    shape = broadcast_shapes(*(a.shape for a in made))
    found = [f(*xs) for xs in zip(*(_spread(a, shape) for a in made), strict=True)]
    d = _CLASSES[kind].dtype if kind else _joined(a.dtype.kind for a in made)
    return ndarray(found, shape, d) if shape else found[0]


def _operator(f, kind=None, back=False):
    def op(a, b):
        if not isinstance(b, ndarray | int | float | Fraction):
            return NotImplemented
        kinds = {_kind(a), _kind(b)}
        found = kind or _joined(kinds).kind
        if found == "b" and kind is None and f in (operator.add, operator.sub, operator.floordiv, operator.mod):
            found = "i"
        return _mapped(f, *((b, a) if back else (a, b)), kind=found)

    return op


def _quotient(x, y):
    try:
        return x / y
    except ZeroDivisionError:
        return nan if x == 0 or x != x else math.copysign(inf, x) * math.copysign(1, y)


def _raised(x, y):
    try:
        found = x**y
    except ZeroDivisionError:
        return inf
    except OverflowError:
        return inf if x > 0 or y % 2 == 0 else -inf
    return nan if isinstance(found, complex) else found


def _by_zero(f):
    def safe(x, y):
        return f(x, y) if y else 0 if isinstance(x, int) else nan

    return safe


for _name, _f, _to in (
    ("add", operator.add, None),
    ("sub", operator.sub, None),
    ("mul", operator.mul, None),
    ("floordiv", _by_zero(operator.floordiv), None),
    ("mod", _by_zero(operator.mod), None),
    ("truediv", _quotient, "f"),
    ("pow", _raised, None),
    ("and", operator.and_, None),
    ("or", operator.or_, None),
    ("xor", operator.xor, None),
):
    setattr(ndarray, f"__{_name}__", _operator(_f, _to))
    setattr(ndarray, f"__r{_name}__", _operator(_f, _to, back=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(ndarray, f"__{_name}__", _operator(getattr(operator, _name), "b"))


def _safe(f):
    def one(x):
        try:
            return f(x)
        except OverflowError:
            return inf
        except ValueError:
            return -inf if x == 0 else nan

    return one


def _real(f):
    safe = _safe(f)
    return lambda a, **options: _mapped(safe, a, kind="f")


exp, expm1, log, log2, log10, log1p = map(_real, (math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p))
sin, cos, tan, sinh, cosh, tanh = map(_real, (math.sin, math.cos, math.tan, math.sinh, math.cosh, math.tanh))
arcsin, arccos, arctan = map(_real, (math.asin, math.acos, math.atan))
arcsinh, arccosh, arctanh = map(_real, (math.asinh, math.acosh, math.atanh))
sqrt, cbrt = _real(math.sqrt), _real(math.cbrt)


def _added_logs(x, y):
    high, low = builtins.max(x, y), min(x, y)
    return high if high == low == -inf or high == inf else high + math.log1p(math.exp(low - high))


def _pointwise(f, kind=None):
    return lambda *arguments, **options: _mapped(f, *arguments, kind=kind)


logaddexp = _pointwise(_added_logs, "f")
arctan2 = _pointwise(math.atan2, "f")
power = _pointwise(_raised)
mod = remainder = _pointwise(_by_zero(operator.mod))
fmod = _pointwise(_by_zero(math.fmod))
divide = _pointwise(_quotient, "f")
multiply, subtract = _pointwise(operator.mul), _pointwise(operator.sub)
less, less_equal, equal = (_pointwise(f, "b") for f in (operator.lt, operator.le, operator.eq))
logical_and = _pointwise(lambda x, y: bool(x and y), "b")
isnan = _pointwise(lambda x: x != x, "b")
isfinite = _pointwise(lambda x: -inf < x < inf, "b")
abs = absolute = _pointwise(builtins.abs)
sign = _pointwise(lambda x: x if x != x else type(x)((x > 0) - (x < 0)))
clip = _pointwise(lambda x, low, high: min(builtins.max(x, low), high))
floor = _pointwise(lambda x: float(math.floor(x)) if isfinite(x) else x, "f")
round = _pointwise(lambda x: float(builtins.round(x)) if isfinite(x) else x, "f")
ceil = _pointwise(lambda x: float(math.ceil(x)) if isfinite(x) else x, "f")


def nan_to_num(a, nan=0.0, posinf=None, neginf=None):
    """`a` without what is not finite."""
    most = 1.7976931348623157e308
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    return _mapped(lambda x: nan if x != x else high if x == inf else low if x == -inf else x, a)


def where(condition, *values):
    """One value or the other, as the condition is true or not."""
    if not values:
        return nonzero(condition)
    kind = _joined(map(_kind, values)).kind
    return _mapped(lambda c, x, y: x if c else y, condition, *values, kind=kind)


class _Ufunc:
    """A function of two numbers, with what NumPy's ufuncs have besides."""

    def __init__(self, f):
        self.f = f

    def __call__(self, a, b, **options):
        return _mapped(self.f, a, b)

    def at(self, total, rows, terms):
        """Join `terms` into `total` in `rows`, one after the other."""
        places, shape = total._places(rows)
        for p, x in zip(places, _spread(asarray(terms), tuple(shape)), strict=True):
            total.data[p] = self.f(total.data[p], x)

    def reduceat(self, a, starts):
        """The numbers joined from each start to the next; of a last start, to the end."""
        ends = [*starts.data[1:], len(a.data)]
        rows = [a.data[s : builtins.max(stop, s + 1)] for s, stop in zip(starts.data, ends, strict=True)]
        found = [list(itertools.accumulate(row, self.f))[-1] for row in rows]
        return ndarray(found, (len(found),), a.dtype)

    def accumulate(self, a):
        """The numbers joined up to each."""
        return ndarray(list(itertools.accumulate(a.data, self.f)), a.shape, a.dtype)


add = _Ufunc(operator.add)
maximum = _Ufunc(lambda x, y: x if x != x or x >= y else y)
minimum = _Ufunc(lambda x, y: x if x != x or x <= y else y)


def frompyfunc(f: Callable, inputs: int, outputs: int):
    """`f` at each element, as objects."""
    return lambda *a: _mapped(f, *a, kind="O")


def vectorize(f: Callable, otypes=None, **options):
    """`f` at each element."""
    return lambda *a: _mapped(f, *a, kind=_dtype(otypes[0]).kind if otypes else "f")


# arrays


def _read(x):
    """The numbers in `x`, their shape, and their kind."""
    if isinstance(x, ndarray):
        return x.data, x.shape, x.dtype.kind
    if isinstance(x, list | tuple | range):
        parts = [_read(p) for p in x]
        if not parts:
            return [], (0,), "f"
        if any(p[1] != parts[0][1] for p in parts):
            raise ValueError("the rows differ in shape")
        kind = builtins.max((p[2] for p in parts), key=_ORDER.index)
        return [v for p in parts for v in p[0]], (len(parts), *parts[0][1]), kind
    return [x], (), _kind(x)


def asarray(x, dtype=None, copy=None):
    """`x` as an array."""
    wanted = _dtype(dtype) if dtype is not None else None
    if isinstance(x, ndarray):
        return x if wanted is None or x.dtype == wanted else x.astype(wanted)
    data, shape, kind = _read(x)
    d = wanted or _CLASSES[kind].dtype
    return ndarray([d.make(v) for v in data], shape, d)


ascontiguousarray = asarray


def array(x, dtype=None, copy=True):
    """A new array of what `x` holds."""
    return asarray(x, dtype).copy()


def atleast_1d(x):
    """`x` with an axis at least."""
    made = asarray(x)
    return made if made.shape else made.reshape(1)


def full(shape, value, dtype=None):
    """An array of the one value."""
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    d = _dtype(dtype) if dtype is not None else _CLASSES[_kind(value)].dtype
    return ndarray([d.make(value)] * math.prod(shape), shape, d)


def zeros(shape, dtype=float64):
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape, dtype=float64):
    """Ones."""
    return full(shape, 1, dtype)


empty = zeros


def zeros_like(a, dtype=None):
    """Zeros of the shape of `a`."""
    return zeros(shape(a), dtype or asarray(a).dtype)


def arange(*bounds, dtype=None):
    """The whole numbers of a range."""
    d = _dtype(dtype) or int64.dtype
    data = [d.make(k) for k in range(*map(int, bounds))]
    return ndarray(data, (len(data),), d)


def concatenate(parts, axis=0):
    """The parts one after the other along an axis."""
    made = [asarray(p) for p in parts]
    d = _joined(p.dtype.kind for p in made)
    if axis:
        moved = concatenate([moveaxis(p, axis, 0) for p in made])
        return moveaxis(moved, 0, axis)
    data = [d.make(x) for p in made for x in p.data]
    return ndarray(data, (builtins.sum(len(p) for p in made), *made[0].shape[1:]), d)


def stack(parts, axis=0):
    """The parts along a new axis."""
    made = [asarray(p) for p in parts]
    joined = ndarray(
        [x for p in made for x in p.data], (len(made), *made[0].shape), _joined(p.dtype.kind for p in made)
    )
    return moveaxis(joined, 0, axis)


def moveaxis(a, source, target):
    """`a` with an axis in another place."""
    made = asarray(a)
    order = [k for k in range(made.ndim) if k != source % made.ndim]
    order.insert(target % made.ndim, source % made.ndim)
    return made.transpose(*order)


def reshape(a, shape):
    """`a` in another shape."""
    return asarray(a).reshape(shape)


def shape(a):
    """The shape of `a`."""
    return asarray(a).shape


def ndim(a):
    """The number of axes of `a`."""
    return asarray(a).ndim


def size(a):
    """The number of elements of `a`."""
    return asarray(a).size


def sum(a, axis=None, dtype=None):
    """The sum of elements."""
    return asarray(a).sum(axis, dtype)


def prod(a, axis=None, dtype=None):
    """The product of elements."""
    return asarray(a).prod(axis)


def max(a, axis=None, initial=None):
    """The highest element."""
    return asarray(a).max(axis, initial)


def flatnonzero(a):
    """The numbers of the elements that are not zero."""
    return asarray(a).reshape(-1).nonzero()[0]


def nonzero(a):
    """The places of the elements that are not zero."""
    return asarray(a).nonzero()


def count_nonzero(a):
    """How many elements are not zero."""
    return builtins.sum(map(bool, asarray(a).data))


def repeat(a, counts):
    """Each element so many times."""
    made = asarray(a)
    times = _spread(asarray(counts), made.shape)
    data = [x for x, n in zip(made.data, times, strict=True) for _ in range(n)]
    return ndarray(data, (len(data),), made.dtype)


def cumsum(a, axis=None):
    """The sums up to each element."""
    return asarray(a).cumsum()


def diff(a):
    """The differences of neighbours."""
    return a[1:] - a[:-1]


def flip(a, axis=0):
    """`a` from its end to its start."""
    return a[(*[slice(None)] * axis, slice(None, None, -1))]


def take(a, rows, axis=0):
    """The rows of `a` along an axis."""
    return a[(*[slice(None)] * axis, asarray(rows))]


def argsort(a, kind=None):
    """The order of elements."""
    return asarray(sorted(range(len(a.data)), key=a.data.__getitem__), int64)


def lexsort(keys):
    """The order of elements by several keys, the last first."""
    columns = [asarray(k).data for k in reversed(keys)]
    return asarray(sorted(range(len(columns[0])), key=lambda r: tuple(c[r] for c in columns)), int64)


def searchsorted(a, values, side="left"):
    """The places of values in a sorted array."""
    found = bisect.bisect_left if side == "left" else bisect.bisect_right
    return _mapped(lambda x: found(a.data, x), values, kind="i")


def unique(a, return_index=False, return_inverse=False):
    """Each element once, sorted; the first place of each, and the place of each element among them."""
    first = {}
    for k, x in enumerate(a.data):
        first.setdefault(x, k)
    values = sorted(first)
    place = {x: k for k, x in enumerate(values)}
    found = [ndarray(values, (len(values),), a.dtype)]
    if return_index:
        found.append(ndarray([first[x] for x in values], (len(values),), int64.dtype))
    if return_inverse:
        found.append(ndarray([place[x] for x in a.data], a.shape, int64.dtype))
    return found[0] if len(found) == 1 else tuple(found)


def bincount(rows, weights=None, minlength=0):
    """How often each number occurs, or the sum of its weights."""
    places = rows.data
    count = builtins.max([x + 1 for x in places] + [minlength])
    found = [0] * count if weights is None else [0.0] * count
    for r, w in zip(places, itertools.repeat(1) if weights is None else weights.data, strict=False):
        found[r] += w
    return ndarray(found, (count,), (int64 if weights is None else float64).dtype)


def unravel_index(codes, shape):
    """The places of elements with these numbers in an array of this shape."""
    made = asarray(codes)
    data, found = made.data, []
    for n in reversed(shape):
        found.append(ndarray([x % n for x in data], made.shape, int64.dtype))
        data = [x // n for x in data]
    return tuple(reversed(found))


def array_split(a, parts):
    """`a` in so many parts of nearly one length."""
    each, more = divmod(len(a), parts)
    ends = list(itertools.accumulate([each + (k < more) for k in range(parts)], initial=0))
    return [a[s:stop] for s, stop in itertools.pairwise(ends)]


def ndindex(*shape):
    """All places of an array of this shape."""
    dims = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return itertools.product(*map(range, dims))


def array2string(a, separator=", ", **options):
    """The elements as text."""
    return str(a.tolist()).replace(", ", separator)


def array_equal(a, b):
    """Whether both hold the same."""
    a, b = asarray(a), asarray(b)
    return a.shape == b.shape and a.data == b.data


@contextmanager
def errstate(**options):
    """Errors of numbers are never raised."""
    yield


def __getattr__(name):
    """A function that is not here can be named, and refuses to be called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*arguments, **options):
        raise NotImplementedError(f"numpy.{name} is not among the functions of arrays in a browser")

    return refuse


import numpy.random  # noqa: E402
import numpy.typing  # noqa: E402, F401
