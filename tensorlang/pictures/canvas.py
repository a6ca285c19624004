"""Axes that read well on light and dark pages: transparent, in greys and hues halfway between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorlang.errors import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#7a7a7a"
"""Text and lines: as far from white as from black."""
FAINT = "#9a9a9a"
BLUE = "#1b85c4"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#b5629a"
"""After Okabe and Ito's colours, which colour-blind people can tell apart."""
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
    """An empty transparent figure, in inches, that notebooks show by themselves."""
    figure: Figure = pyplot().figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure


def new_axes(width: float, height: float) -> Axes:
    """The only axes of a new figure, in inches, dressed. Raises `MissingPackage`."""
    ax = new_figure(width, height).add_subplot()
    dress(ax)
    return ax


def dress(ax: Axes) -> None:
    """Give `ax` no background, and lines and texts that read on any."""
    ax.patch.set_alpha(0)
    ax.spines[:].set_color(FAINT)
    # notebooks put a card of the other theme under pictures whose labels are all dark, or all light
    ax.tick_params(axis="x", which="both", colors=INK, labelsize=SMALL)
    ax.tick_params(axis="y", which="both", color=INK, labelcolor="#828282", labelsize=SMALL)
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


def cut(text: str, longest: int = _LONGEST) -> str:
    """`text` in one line, cut where it gets long."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
