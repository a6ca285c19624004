"""A certificate on one page, to be printed or kept with the code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tensorlang.certificate import Certificate
from tensorlang.costs.ratio import numbers_in
from tensorlang.costs.symbolic import CostPolynomial
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.language.function import Function
from tensorlang.language.show import unicode_text
from tensorlang.pictures.canvas import BLUE, GREEN, INK, ORANGE, PURPLE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 8.27, 11.69
_MARGIN = 0.7
_PAGE, _DARK, _GREY = "#ffffff", "#202020", "#5a5a5a"
_LINES = 400
_PLOTS = 3.1
_COLUMNS, _CODE = 108, 7.3
_GROWTH = tuple(2**k for k in range(13))
_FIXED = 8


def certificate_page(certificate: Certificate, /) -> Figure:
    """The certificate as a figure of A4 size: its verdict, the program, the adjoint, their costs, how the ratio of
    these goes as sizes grow, the derivation's steps by rule, and how their obligations were decided.

    `certificate_page(c).savefig("loss.pdf")` writes it to a file. Long lines are broken, and the page of a long program
    is longer. Of programs and costs of more than 400 lines the page has the first, and says how many there are.

    >>> page = tl.pictures.certificate_page(tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")))
    >>> [float(inches) for inches in page.get_size_inches()]
    [8.27, 11.69]
    """
    d = certificate.derivation
    figure: Figure = pyplot().figure(figsize=(_WIDTH, _HEIGHT), facecolor=_PAGE)
    page = _Page()
    by = ", ".join(x.name for x in d.wrt)
    mark = "✓" if certificate.is_decided else "(✓)"
    page.write(f"{mark} {d.function.name}", size=20, colour="#00785a", weight="bold")
    page.write(f"The adjoint by {by} costs at most {certificate.bound} times the program, inputs and outputs counted,")
    told = (
        "for all sizes from 1 on and whatever the data."
        if certificate.is_decided
        else "but counted at small sizes only."
    )
    page.write(told)
    page.heading("Program")
    page.code(unicode_text(d.function))
    page.heading("Adjoint")
    page.code(unicode_text(d.adjoint))
    page.heading("Cost")
    for title in ("program", "adjoint"):
        found = certificate.costs[title]
        told = "no closed form" if found is None else str(found).replace("\n", "\n" + " " * 7)
        page.code(f"{title}: {told}")
    if certificate.supremum is not None:
        page.write(f"Largest ratio: {certificate.supremum}", size=8.5)
    for title, how in certificate.compared.items():
        if how != "all sizes":
            page.write(f"That the {title} costs no more than what it is made of was counted at {how} only.", size=8)
    page.gap(0.4)
    steps, decided = _steps(certificate), _decided(certificate)
    bars = max(_PLOTS, 0.4 + 0.27 * len(steps))
    height = max(_HEIGHT, page.below + bars + _MARGIN)
    figure.set_size_inches(_WIDTH, height)
    page.draw(figure, height)
    _ratio(_axes(figure, height, page.below, 0.085, 0.48, 1.8), certificate)
    _bars(_axes(figure, height, page.below, 0.76, 0.17, bars), steps, "Steps by rule", BLUE)
    _bars(
        _axes(figure, height, page.below + _PLOTS - 0.7, 0.19, 0.37, 0.7),
        decided,
        "Obligations by how they were decided",
        GREEN,
    )
    return figure


@dataclass(frozen=True)
class _Line:
    """A line of text, at a distance in inches from the top."""

    below: float
    text: str
    size: float
    colour: str
    weight: str
    mono: bool


class _Page:
    """Text written from the top down, for as long as needed."""

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self.below = _MARGIN

    def gap(self, inches: float) -> None:
        """Leave space."""
        self.below += inches

    def write(
        self, text: str, size: float = 10.5, colour: str = _DARK, weight: str = "normal", mono: bool = False
    ) -> None:
        """Text, in as many lines as it takes."""
        longest = int(_COLUMNS * _CODE / size * (1 if mono else 1.1))
        indent = " " * (len(text) - len(text.lstrip()) + 4) if mono else ""
        options: dict[str, Any] = {"subsequent_indent": indent, "drop_whitespace": True, "break_on_hyphens": False}
        for line in wrap(text, longest, **options) or [""]:
            self.lines.append(_Line(self.below, line, size, colour, weight, mono))
            self.below += size * 1.42 / 72

    def heading(self, text: str) -> None:
        """A heading."""
        self.gap(0.14)
        self.write(text, size=11.5, colour=_GREY, weight="bold")

    def code(self, text: str) -> None:
        """Lines of code, with a note on how many are left out."""
        lines = text.splitlines()
        for line in lines[:_LINES]:
            self.write(line, size=_CODE, mono=True)
        if len(lines) > _LINES:
            self.write(f"… and {len(lines) - _LINES:,} lines more", size=_CODE, colour=_GREY)

    def draw(self, figure: Figure, height: float) -> None:
        """Put the text on a page `height` inches high."""
        for line in self.lines:
            figure.text(
                _MARGIN / _WIDTH,
                1 - line.below / height,
                line.text,
                fontsize=line.size,
                color=line.colour,
                weight=line.weight,
                family="monospace" if line.mono else "sans-serif",
                va="top",
                parse_math=False,
            )


def _axes(figure: Figure, page: float, below: float, left: float, width: float, height: float) -> Axes:
    """Axes `below` inches from the top of a `page`; `left` and `width` are fractions of its width."""
    made = figure.add_axes((left, 1 - (below + height) / page, width, height / page), facecolor=_PAGE)
    made.spines[["top", "right"]].set_visible(False)
    made.spines[:].set_color(_GREY)
    made.tick_params(colors=_GREY, labelsize=8)
    return made


def _ratio(ax: Axes, certificate: Certificate) -> None:
    """Draw the ratio as all sizes grow, and as each grows alone, below the bound."""
    d = certificate.derivation
    own, adjoint = certificate.program_cost, certificate.adjoint_cost
    ax.set_title("Adjoint / program, inputs and outputs counted", loc="left", fontsize=9, color=_GREY)
    curves: dict[str, list[tuple[int, float]]] = {}
    if own is not None and adjoint is not None:
        others = numbers_in(d.function, (d.function.type, *(x.type for x in d.wrt)))
        curves = _curves(d.function, own + others, adjoint + others)
    for (label, curve), colour, line in zip(
        curves.items(), (BLUE, ORANGE, GREEN, PURPLE), ("-", "--", "-.", ":"), strict=False
    ):
        if curve:
            ax.plot(*zip(*curve, strict=True), color=colour, linestyle=line, linewidth=1.6, label=label)
    ax.axhline(
        float(certificate.bound), color=_DARK, linewidth=1, linestyle=(0, (6, 3)), label=f"bound {certificate.bound}"
    )
    if certificate.supremum is not None and certificate.supremum.is_exact:
        least = certificate.supremum.least
        ax.axhline(float(least), color=INK, linewidth=1, linestyle=":", label=f"largest {least}")
    if any(curves.values()):
        ax.set_xscale("log", base=2)
    else:
        ax.set_xticks([])
        ax.text(0.5, 0.4, "up to the data", transform=ax.transAxes, ha="center", color=_GREY, fontsize=9)
    ax.set_ylim(0, 1.15 * float(certificate.bound))
    ax.legend(fontsize=7, frameon=False, labelcolor=_GREY, ncols=2, loc="lower center")


def _curves(f: Function, below: CostPolynomial, above: CostPolynomial) -> dict[str, list[tuple[int, float]]]:
    """Ratios at growing sizes, as far as these are allowed; none if they depend on data."""
    names = [size.name for size in f.sizes]
    ways = {"all sizes grow" if len(names) > 1 else f"{''.join(names)} grows": names} if names else {}
    if len(names) > 1:
        ways |= {f"{name} grows, the others {_FIXED}": [name] for name in names[:3]}
    found: dict[str, list[tuple[int, float]]] = {label: [] for label in ways}
    for label, growing in ways.items():
        for t in _GROWTH:
            sizes = {name: t if name in growing else _FIXED for name in names}
            try:
                found[label].append((t, above(**sizes) / below(**sizes)))
            except (ArgumentError, CountingError, ZeroDivisionError):
                continue  # an axis would be negative there, or the cost depends on data
    return found


def _steps(certificate: Certificate) -> dict[str, int]:
    steps = Counter(step.rule for step in certificate.derivation.steps)
    return {f"{rule.number} {rule.name}": many for rule, many in sorted(steps.items(), key=lambda x: x[0].number)}


def _decided(certificate: Certificate) -> dict[str, int]:
    return dict(Counter(o.decided for o in certificate.obligations))


def _bars(ax: Axes, counts: dict[str, int], title: str, colour: str) -> None:
    """Draw a bar with its number for each count."""
    bars = ax.barh(list(counts), list(counts.values()), color=colour, height=0.7)
    ax.bar_label(bars, fontsize=7.5, color=_GREY, padding=2)
    ax.invert_yaxis()
    ax.margins(x=0.16)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title(f"{title}, {sum(counts.values()):,}", loc="left", fontsize=9, color=_GREY)
