"""Pictures as SVG in a page's own colours, with descriptions for people who can't see them.

Every colour of the palette becomes a mixture with the colour of the surrounding text, which contrasts with the page by
at least 4.5 to 1 on white and on black; greys become that colour itself. Text stays text. A picture is as wide as its
page, but stays legible: on a narrow page it scrolls.
"""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from tensorlang.pictures.palette import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, TICKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUE = 65
"""The share of the colour itself in a mixture, in percent."""
_LEAST = 0.85
"""The smallest scale of a picture, at which letters of 9 points are 10 pixels high."""
_COLOURED = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})\b")
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt"[^>]*?viewBox="([^"]*)"[^>]*>', re.DOTALL)
_LONG = re.compile(r"-?\d+\.\d{3,}")
_IDS = re.compile(r'\bid="([^"]*)"|(url\(#|href="#)([^)"]*)')


def svg(picture: Axes | Figure, /) -> str:
    """`picture` as an `svg` element to be put into a page: it takes the page's colours, scales with it, and has a title
    and a description for those who do not see it.

    >>> f = tl.parse("f(x: [n]R) = gen i:n, j:n. [i <= j] * x[i] * x[j]")
    >>> tl.pictures.svg(tl.pictures.support(f, n=3))[:5]
    '<svg '
    """
    figure: Figure = picture.get_figure(root=True)  # type: ignore[assignment]
    from matplotlib import rc_context

    held = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tensorlang"}):
        figure.savefig(held, format="svg", metadata={"Date": None, "Creator": None})
    text = held.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = _COLOURED.sub(lambda found: f"{found[1]}: {painted(found[2])}", text)
    text = _LONG.sub(lambda found: f"{float(found[0]):.2f}", text)
    title, words = described_as(figure)
    mark = sha256((title + words + _IDS.sub("", text)).encode()).hexdigest()[:8]
    numbers: dict[str, int] = {}

    def own(x: re.Match[str]) -> str:
        """An id that is unique on the page."""
        k = numbers.setdefault(x[1] or x[3], len(numbers))
        return f'id="{mark}-{k}"' if x[1] else f"{x[2]}{mark}-{k}"

    text = _IDS.sub(own, text)
    found = _SIZE.search(text)
    assert found is not None, "matplotlib says how large an SVG is"
    wide = float(found[1]) * 4 / 3
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-labelledby="{mark}-title" aria-describedby="{mark}-desc" viewBox="{found[2]}" '
        f'style="width: 100%; max-width: {wide:.0f}px; min-width: {_LEAST * wide:.0f}px; height: auto">'
        f'<title id="{mark}-title">{escape(title, quote=False)}</title>'
        f'<desc id="{mark}-desc">{escape(words, quote=False)}</desc>'
    )
    return start + text[found.end() :].rstrip()


def html(picture: Axes | Figure, /) -> str:
    """The same in a box that scrolls where the page is narrow."""
    return f'<div class="tensorlang-picture" style="overflow-x: auto">{svg(picture)}</div>'


def painted(colour: str) -> str:
    """`colour` in terms of the text's."""
    if colour in (INK, TICKS, "#000000"):
        return "currentColor"
    if colour == FAINT:
        return "color-mix(in srgb, currentColor 60%, transparent)"
    if colour in (BLUE, ORANGE, GREEN, PURPLE):
        return f"color-mix(in srgb, {colour} {HUE}%, currentColor)"
    return colour


def described_as(figure: Figure) -> tuple[str, str]:
    """The titles of the parts of `figure`, and the descriptions of these."""
    axes = figure.axes
    titles = [ax.get_title(loc="left") for ax in axes]
    words = [str(ax.get_label()) for ax in axes]
    return "; ".join(filter(None, titles)) or "picture", " ".join(filter(None, words))
