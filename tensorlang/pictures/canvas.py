"""Axes that are legible on light and dark pages: transparent, in greys and hues halfway between the two."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tensorlang.errors import MissingPackage
from tensorlang.pictures.palette import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, TICKS
from tensorlang.pictures.vector import html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "FAINT",
    "GREEN",
    "INK",
    "ORANGE",
    "PURPLE",
    "SMALL",
    "cut",
    "described",
    "dress",
    "head",
    "new_axes",
    "new_figure",
    "pyplot",
]

SMALL = 9
_LONGEST = 64


def pyplot() -> Any:
    """matplotlib.pyplot. Raises `MissingPackage`."""
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError:
        raise MissingPackage(
            "pictures are drawn by matplotlib, which is not installed", hint="pip install 'tensorlang[demo]'"
        ) from None
    return plt


def new_figure(width: float, height: float) -> Figure:
    """An empty transparent figure, of a size in inches, that notebooks show automatically."""
    figure: Figure = pyplot().figure(FigureClass=_picture(), figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure


@lru_cache(maxsize=1)
def _picture() -> Any:
    """A class of figures that web pages show in their own colours."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_html_(self) -> str:
            return html(self)

    return Picture


def new_axes(width: float, height: float) -> Axes:
    """The only axes of a new figure, in inches, dressed. Raises `MissingPackage`.

    >>> ax = tl.pictures.new_axes(4, 3)
    >>> [float(inches) for inches in ax.figure.get_size_inches()]
    [4.0, 3.0]
    """
    ax = new_figure(width, height).add_subplot()
    dress(ax)
    return ax


def dress(ax: Axes) -> None:
    """Give `ax` no background, and lines and texts that read on any.

    >>> from matplotlib import pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> tl.pictures.dress(ax)
    >>> print(ax.patch.get_alpha())
    0
    """
    ax.patch.set_alpha(0)
    ax.spines[:].set_color(FAINT)
    # notebooks put a background of the other theme under pictures whose labels are all dark, or all light
    ax.tick_params(axis="x", which="both", colors=INK, labelsize=SMALL)
    ax.tick_params(axis="y", which="both", color=INK, labelcolor=TICKS, labelsize=SMALL)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_color(INK)


def head(ax: Axes, title: str, note: str = "") -> None:
    """A title above `ax`, and a note in smaller type between the two."""
    ax.set_title(cut(title), loc="left", color=INK, fontsize=11, pad=20 if note else 6)
    if note:
        ax.annotate(
            note,
            (0, 1),
            (0, 5),
            xycoords="axes fraction",
            textcoords="offset points",
            color=INK,
            fontsize=SMALL,
            annotation_clip=False,
        )


def described(ax: Axes, words: str) -> None:
    """Describe what `ax` shows, for people who can't see it."""
    ax.set_label(" ".join(words.split()))


def cut(text: str, longest: int = _LONGEST) -> str:
    """`text` in one line, cut where it gets long."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
