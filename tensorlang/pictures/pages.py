"""A certificate on one page, to be printed or kept beside the code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tensorlang.certificate import Certificate
from tensorlang.cost.ratio import numbers_in
from tensorlang.cost.symbolic import CostPolynomial
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.language.function import Function
from tensorlang.language.show import unicode_text
from tensorlang.pictures.canvas import BLUE, GREEN, INK, ORANGE, PURPLE, cut, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 8.27, 11.69
_MARGIN = 0.7
_PAGE, _DARK, _GREY = "#ffffff", "#202020", "#5a5a5a"
_LINES, _LEAST, _COST_LINES = 26, 10, 3
_PLOTS = 3.1
_COLUMNS = 108
_GROWTH = tuple(2**k for k in range(13))
_FIXED = 8


def certificate_page(certificate: Certificate, /) -> Figure:
    """The certificate as a figure of A4 size: its verdict, the program, the adjoint, their costs, how the ratio of
    these goes as sizes grow, the derivation's steps by rule, and how their obligations were decided.

    `certificate_page(c).savefig("loss.pdf")` writes it to a file. Programs of many lines are cut, which the page says.
    """
    d = certificate.derivation
    figure: Figure = pyplot().figure(figsize=(_WIDTH, _HEIGHT), facecolor=_PAGE)
    page = _Page(figure)
    by = cut(", ".join(x.name for x in d.wrt), 40)
    mark = "✓" if certificate.is_decided else "(✓)"
    page.write(f"{mark} {d.function.name}", size=20, colour="#00785a", weight="bold")
    page.write(f"The adjoint by {by} costs at most {certificate.bound} times the program, inputs and outputs counted,")
    told = (
        "for all sizes from 1 on and whatever the data."
        if certificate.is_decided
        else "but counted at small sizes only."
    )
    page.write(told)
    program, adjoint = unicode_text(d.function), unicode_text(d.adjoint)
    room = max(_LEAST, _LINES - len(adjoint.splitlines()))
    page.heading("Program")
    page.code(program, room)
    page.heading("Adjoint")
    page.code(adjoint, _LINES - min(room, len(program.splitlines())))
    page.heading("Cost")
    for title in ("program", "adjoint"):
        found = certificate.costs[title]
        told = "no closed form" if found is None else str(found).replace("\n", "\n" + " " * 7)
        page.code(f"{title}: {told}", _COST_LINES)
    if certificate.supremum is not None:
        page.write(f"Largest ratio: {certificate.supremum}", size=8.5)
    for title, how in certificate.compared.items():
        if how != "all sizes":
            page.write(f"That the {title} costs no more than what it is made of was counted at {how} only.", size=8)
    page.gap(0.4)
    _ratio(page.axes(0.085, 0.48, 1.8), certificate)
    _bars(page.axes(0.76, 0.17, _PLOTS), _steps(certificate), "Steps by rule", BLUE)
    page.gap(_PLOTS - 0.7)
    _bars(page.axes(0.19, 0.37, 0.7), _decided(certificate), "Obligations by how they were decided", GREEN)
    return figure


class _Page:
    """Text written from the top down."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.below = _MARGIN

    def gap(self, inches: float) -> None:
        """Leave space."""
        self.below += inches

    def write(
        self, text: str, size: float = 10.5, colour: str = _DARK, weight: str = "normal", mono: bool = False
    ) -> None:
        """A line of text."""
        self.figure.text(
            _MARGIN / _WIDTH,
            1 - self.below / _HEIGHT,
            text,
            fontsize=size,
            color=colour,
            weight=weight,
            family="monospace" if mono else "sans-serif",
            va="top",
            parse_math=False,
        )
        self.below += size * 1.42 / 72

    def heading(self, text: str) -> None:
        """A heading."""
        self.gap(0.14)
        self.write(text, size=11.5, colour=_GREY, weight="bold")

    def code(self, text: str, most: int) -> None:
        """At most `most` lines of code; how many are left out is said."""
        lines = text.splitlines()
        for line in lines[:most]:
            self.write(line if len(line) <= _COLUMNS else line[: _COLUMNS - 1] + "…", size=7.3, mono=True)
        if len(lines) > most:
            self.write(f"… and {len(lines) - most:,} lines more", size=7.3, colour=_GREY)

    def axes(self, left: float, width: float, height: float) -> Axes:
        """Axes below what is written; `left` and `width` are parts of the page's, `height` is in inches."""
        bottom = 1 - (self.below + height) / _HEIGHT
        made = self.figure.add_axes((left, bottom, width, height / _HEIGHT), facecolor=_PAGE)
        made.spines[["top", "right"]].set_visible(False)
        made.spines[:].set_color(_GREY)
        made.tick_params(colors=_GREY, labelsize=8)
        return made


def _ratio(ax: Axes, certificate: Certificate) -> None:
    """The ratio as all sizes grow, and as each does alone, below the bound."""
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
    """Ratios at growing sizes, where these are allowed; none where data tell."""
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
                continue  # an axis would be negative there, or only data tell the cost
    return found


def _steps(certificate: Certificate) -> dict[str, int]:
    steps = Counter(step.rule for step in certificate.derivation.steps)
    return {f"{rule.number} {rule.name}": many for rule, many in sorted(steps.items(), key=lambda x: x[0].number)}


def _decided(certificate: Certificate) -> dict[str, int]:
    return dict(Counter(o.decided for o in certificate.obligations))


def _bars(ax: Axes, counts: dict[str, int], title: str, colour: str) -> None:
    """A bar with its number for each."""
    bars = ax.barh(list(counts), list(counts.values()), color=colour, height=0.7)
    ax.bar_label(bars, fontsize=7.5, color=_GREY, padding=2)
    ax.invert_yaxis()
    ax.margins(x=0.16)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title(f"{title}, {sum(counts.values()):,}", loc="left", fontsize=9, color=_GREY)
