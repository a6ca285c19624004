"""Functions of numbers as they stand in real code: special functions, activations, robust losses, splines, solvers,
equations of state. Each has a domain from which its arguments are taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl

FUNCTIONS: list[tuple[Callable[..., Any], tuple[tuple[float, float], ...]]] = []
LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905)
LANCZOS_END = (-0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def real(*domain: tuple[float, float], **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A function of the list, on this domain."""

    def entered(f: Callable[..., Any]) -> Any:
        made = tl.scalar(**options)(f) if options else tl.scalar(f)
        FUNCTIONS.append((made, domain))
        return made

    return entered


# special functions


@real((0.6, 6))
def gamma_lanczos(z):
    z -= 1
    x = 0.99999999999980993
    for i, c in enumerate(LANCZOS + LANCZOS_END):
        x += c / (z + i + 1)
    t = z + 7.5
    return math.sqrt(2 * math.pi) * t ** (z + 0.5) * math.exp(-t) * x


@real((0.2, 8))
def digamma_recurrence(x):
    r = 0.0
    while x < 6:
        r -= 1 / x
        x += 1
    f = 1 / (x * x)
    return r + math.log(x) - 0.5 / x - f * (1 / 12 - f * (1 / 120 - f * (1 / 252)))


@real((0.1, 3), (0.1, 4), bound=300)
def lower_gamma_series(a, x):
    term = 1 / a
    total = term
    k = 1
    while abs(term) > 1e-14 * abs(total):
        term *= x / (a + k)
        total += term
        k += 1
    return total * math.exp(-x + a * math.log(x))


@real((0.5, 4), (4.5, 9), bound=400)
def upper_gamma_fraction(a, x):
    tiny = 1e-300
    b = x + 1 - a
    c = 1 / tiny
    d = 1 / b
    h = d
    for i in range(1, 300):
        an = -i * (i - a)
        b += 2
        d = 1 / (an * d + b)
        c = b + an / c
        delta = d * c
        h *= delta
        if abs(delta - 1) < 1e-13:
            break
    return math.exp(-x + a * math.log(x)) * h


@real((-4, 4))
def bessel_j0(x):
    ax = abs(x)
    y = x * x
    if ax < 8:
        top = 57568490574.0 + y * (-13362590354.0 + y * (651619640.7 + y * (-11214424.18 + y * 77392.33017)))
        bottom = 57568490411.0 + y * (1029532985.0 + y * (9494680.718 + y * (59272.64853 + y * 267.8532712)))
        return top / bottom
    z = 8 / ax
    return math.sqrt(0.636619772 / ax) * math.cos(ax - 0.785398164) * (1 - 0.1098628627e-2 * z * z)


@real((0, 3))
def bessel_i0_series(x):
    total = term = 1.0
    k = 1
    while term > 1e-15 * total:
        term *= (x / 2) ** 2 / (k * k)
        total += term
        k += 1
    return total


@real((-3, 3))
def erf_series(x):
    term = total = x
    n = 0
    while abs(term) > 1e-15:
        n += 1
        term *= -x * x / n
        total += term / (2 * n + 1)
    return 2 / math.sqrt(math.pi) * total


@real((0.05, 0.95))
def agm(m):
    a, b = 1.0, math.sqrt(1 - m)
    while abs(a - b) > 1e-13:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return math.pi / (2 * a)


@real((-0.3, 5), bound=60)
def lambert_w(x):
    w = math.log(1 + x)
    while True:
        e = math.exp(w)
        step = (w * e - x) / (e * (w + 1))
        w -= step
        if abs(step) < 1e-12:
            return w


@real((1.2, 6))
def zeta_direct(s):
    total = 0.0
    for k in range(1, 20):
        total += k**-s
    return total + 20 ** (1 - s) / (s - 1) + 0.5 * 20**-s


@real((-1, 1))
def legendre_5(x):
    p, q = 1.0, x
    for n in range(1, 5):
        p, q = q, ((2 * n + 1) * x * q - n * p) / (n + 1)
    return q


@real((-1, 1))
def chebyshev_clenshaw(x):
    b1 = b2 = 0.0
    for c in (0.25, -0.5, 0.125, 1.0):
        b1, b2 = 2 * x * b1 - b2 + c, b1
    return b1 - x * b2


@real((-2, 2))
def dawson_rybicki(x):
    h = 0.4
    total = 0.0
    for k in range(-15, 16, 2):
        total += math.exp(-((x - k * h) ** 2)) / k
    return total / math.sqrt(math.pi)


@real((-3, 3))
def sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


@real((-3, 3))
def normal_quantile_tail(x):
    t = math.sqrt(1 + x * x)
    p = 1 / (1 + 0.2316419 * t)
    return p * (0.31938153 + p * (-0.356563782 + p * (1.781477937 + p * (-1.821255978 + p * 1.330274429))))


# activation functions


@real((-4, 4))
def elu(x):
    return x if x > 0 else math.exp(x) - 1


@real((-4, 4))
def selu(x):
    if x > 0:
        return 1.0507009873554805 * x
    return 1.0507009873554805 * 1.6732632423543772 * (math.exp(x) - 1)


@real((-4, 4))
def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@real((-4, 4))
def hard_swish(x):
    return x * min(max(x + 3, 0), 6) / 6


@real((-4, 4))
def mish(x):
    return x * math.tanh(math.log1p(math.exp(x)))


@real((-30, 30))
def stable_softplus(x):
    if x > 20:
        return x
    if x < -20:
        return math.exp(x)
    return math.log1p(math.exp(x))


@real((-4, 4), (0.01, 0.4))
def prelu(x, a):
    return x if x >= 0 else a * x


@real((-4, 4))
def softsign(x):
    return x / (1 + abs(x))


@real((-4, 4))
def hard_sigmoid(x):
    if x < -3:
        return 0.0
    elif x > 3:
        return 1.0
    return x / 6 + 0.5


# robust losses


@real((-4, 4), (0.5, 2))
def huber(r, delta):
    if abs(r) <= delta:
        return 0.5 * r * r
    return delta * (abs(r) - 0.5 * delta)


@real((-6, 6))
def tukey(r):
    c = 4.685
    if abs(r) > c:
        return c * c / 6
    return c * c / 6 * (1 - (1 - (r / c) ** 2) ** 3)


@real((-4, 4))
def cauchy_loss(r):
    return math.log1p(r * r / 2)


@real((-3, 3), (-1, 3))
def barron(x, alpha):
    if alpha == 2:
        return 0.5 * x * x
    if alpha == 0:
        return math.log(0.5 * x * x + 1)
    b = abs(alpha - 2)
    return b / alpha * ((x * x / b + 1) ** (alpha / 2) - 1)


@real((-3, 3), (0.05, 0.95))
def pinball(r, q):
    return q * r if r >= 0 else (q - 1) * r


@real((-3, 3))
def log_cosh(x):
    a = abs(x)
    return a + math.log1p(math.exp(-2 * a)) - math.log(2)


@real((-3, 3))
def smooth_hinge(m):
    if m >= 1:
        return 0.0
    if m <= 0:
        return 0.5 - m
    return 0.5 * (1 - m) ** 2


# splines and interpolation

KNOTS = (0.0, 1.0, 2.5, 4.0, 5.0)
HEIGHTS = (0.0, 2.0, 1.0, 3.0, 2.5)


@real((-1, 6))
def linear_table(x):
    if x <= KNOTS[0]:
        return HEIGHTS[0]
    for k in range(4):
        if x < KNOTS[k + 1]:
            return HEIGHTS[k] + (HEIGHTS[k + 1] - HEIGHTS[k]) * (x - KNOTS[k]) / (KNOTS[k + 1] - KNOTS[k])
    return HEIGHTS[4]


@real((-3, 3))
def cubic_b_spline(x):
    a = abs(x)
    if a < 1:
        return 2 / 3 - a * a + a**3 / 2
    if a < 2:
        return (2 - a) ** 3 / 6
    return 0.0


@real((-2.5, 2.5))
def keys_kernel(x):
    a = -0.5
    t = abs(x)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    if t < 2:
        return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return 0.0


@real((-0.5, 1.5))
def smoothstep(x):
    x = min(max(x, 0.0), 1.0)
    return x * x * (3 - 2 * x)


# Newton and bisection


@real((0.5, 50), bound=60)
def sqrt_newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


@real((0.5, 50))
def cube_root_halley(a):
    x = 1.0
    for _ in range(40):
        y = x * (x**3 + 2 * a) / (2 * x**3 + a)
        if abs(y - x) < 1e-14:
            break
        x = y
    return x


@real((0.1, 3), (0.05, 0.8), bound=60)
def kepler(mean, e):
    anomaly = mean
    while True:
        step = (anomaly - e * math.sin(anomaly) - mean) / (1 - e * math.cos(anomaly))
        anomaly -= step
        if abs(step) < 1e-13:
            break
    return anomaly


@real((0.2, 4), bound=200)
def bisection_then_newton(target):
    low, high = 0.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        if middle + math.exp(0.3 * middle) < target + 1:
            low = middle
        else:
            high = middle
    x = (low + high) / 2
    return x - (x + math.exp(0.3 * x) - target - 1) / (1 + 0.3 * math.exp(0.3 * x))


@real((0.3, 3))
def fixed_point_cosine(a):
    x = 1.0
    for _ in range(60):
        x = math.cos(a * x / 3)
    return x


@real((8, 25), bound=60)
def implied_volatility(price):
    sigma = 0.4
    spot, strike, years = 100.0, 100.0, 1.0
    for _ in range(50):
        d1 = (math.log(spot / strike) + 0.5 * sigma * sigma * years) / (sigma * math.sqrt(years))
        d2 = d1 - sigma * math.sqrt(years)
        value = spot * 0.5 * (1 + math.erf(d1 / math.sqrt(2))) - strike * 0.5 * (1 + math.erf(d2 / math.sqrt(2)))
        vega = spot * math.sqrt(years) * math.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
        if abs(value - price) < 1e-12:
            return sigma
        sigma -= (value - price) / vega
    return sigma


@real((1e4, 1e6), (1e-5, 1e-3), bound=100)
def colebrook(reynolds, roughness):
    x = 8.0
    while True:
        y = -2 * math.log10(roughness / 3.7 + 2.51 * x / reynolds)
        if abs(y - x) < 1e-12:
            return 1 / (y * y)
        x = y


# equations of state, physics


@real((1.1, 4), (0.5, 3))
def van_der_waals(t, v):
    return 8 * t / (3 * v - 1) - 3 / (v * v) if v > 0.4 else math.inf


@real((300, 600), (2.0, 20.0), bound=60)
def peng_robinson_z(t, p):
    tc, pc, omega = 304.1, 73.8, 0.225
    kappa = 0.37464 + 1.54226 * omega - 0.26992 * omega**2
    alpha = (1 + kappa * (1 - math.sqrt(t / tc))) ** 2
    a = 0.45724 * alpha * (p / pc) / (t / tc) ** 2
    b = 0.0778 * (p / pc) / (t / tc)
    z = 1.0
    while True:
        f = z**3 - (1 - b) * z**2 + (a - 3 * b * b - 2 * b) * z - (a * b - b * b - b**3)
        slope = 3 * z * z - 2 * (1 - b) * z + (a - 3 * b * b - 2 * b)
        if abs(f) < 1e-13:
            return z
        z -= f / slope


@real((0.8, 2.5))
def lennard_jones_cut(r):
    if r >= 2.0:
        return 0.0
    s = 1 / r**6
    return 4 * (s * s - s) - 4 * (1 / 2.0**12 - 1 / 2.0**6)


@real((0.1, 3))
def debye_simpson(x):
    total = 0.0
    h = x / 20
    for i in range(1, 20):
        t = i * h
        w = 4 if i % 2 == 1 else 2
        total += w * t**3 / (math.exp(t) - 1)
    total += x**3 / (math.exp(x) - 1)
    return 3 / x**3 * total * h / 3


@real((200, 350))
def saturation_pressure(t):
    c = t - 273.15
    if c > 0:
        return 611.21 * math.exp((18.678 - c / 234.5) * (c / (257.14 + c)))
    return 611.15 * math.exp((23.036 - c / 333.7) * (c / (279.82 + c)))


@real((0.2, 3), (0.5, 2))
def ideal_nozzle(area, guess):
    mach = guess * 0.3 if guess < 1 else guess
    for _ in range(4):
        f = (1 + 0.2 * mach * mach) ** 3 / (1.728 * mach) - area - 1
        mach -= 0.1 * f * mach
    return mach


@real((0.01, 2), (0.5, 2))
def rk4_logistic(t, r):
    y = 0.1
    h = t / 10
    for _ in range(10):
        k1 = r * y * (1 - y)
        k2 = r * (y + h / 2 * k1) * (1 - y - h / 2 * k1)
        k3 = r * (y + h / 2 * k2) * (1 - y - h / 2 * k2)
        k4 = r * (y + h * k3) * (1 - y - h * k3)
        y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@real((0.0, 1.0))
def srgb_to_linear(c):
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


@real((-1.5, 0.4), (-1, 1))
def mandelbrot_smooth(re, im):
    x = y = 0.0
    k = 0
    while x * x + y * y < 64 and k < 30:
        x, y = x * x - y * y + re, 2 * x * y + im
        k += 1
    return k + x * 0.01 if k < 30 else x * x + y * y


def scale_of(f: Any, domain: tuple[tuple[float, float], ...], count: int = 6) -> Any:
    """Points inside a domain, the same each time."""
    rng = np.random.default_rng(len(f.name))
    return rng.uniform(*np.array(domain).T, size=(count, len(domain)))
