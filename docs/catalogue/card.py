"""The picture that other sites show of a link to this one: `python -m docs.catalogue.card` writes it.

It is an SVG with a program, its adjoint and the costs of both, as computed by the package, and the same as a PNG, which
Chromium draws (playwright is in the extra `lessons`).
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import tensorlang as tl
from tensorlang.language.show import unicode_text

STATIC = Path(__file__).parent.parent / "_static"
SIZE = (1200, 630)
PROGRAM = """
  loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
    let y = gen i:n. sum j:m. x[i + j] * w[j] in
    sum k:n. (y[k] - z[k])^2
"""
_LINE = 29


def card() -> str:
    """The card as SVG."""
    f = tl.parse(PROGRAM)
    adjoint = tl.adjoint(f, "w")
    certificate = tl.certify(f, wrt="w")
    largest = certificate.supremum
    assert certificate.is_decided and largest is not None
    y = 250
    blocks = []
    for title, program in (("a program", f), ("its derived adjoint by w", adjoint)):
        lines = unicode_text(program).splitlines()
        blocks.append(_text(64, y, title, 24, "#ffd166"))
        blocks += [_text(64, y + _LINE * k, line, 21, "#e8f1f5", mono=True) for k, line in enumerate(lines, 1)]
        y += _LINE * (len(lines) + 2)
    told = (
        f"costs at most {largest.most} times the program: decided for all sizes from 1 on, inputs and outputs counted"
    )
    width, height = SIZE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>tensorlang</title><desc>A program in index notation and its derived adjoint, which {told}.'
        f'</desc><rect width="{width}" height="{height}" fill="#0b4f6e"/>'
        '<g transform="translate(64 50) scale(3)"><rect width="32" height="32" rx="6" fill="#083b53"/>'
        '<path d="M11 7 H7 V25 H11 M21 7 H25 V25 H21" fill="none" stroke="#fff" stroke-width="2.6"/>'
        '<path d="M12 20 L20 12" stroke="#ffd166" stroke-width="3.4" stroke-linecap="round"/></g>'
        f"{_text(190, 108, 'tensorlang', 60, '#ffffff', bold=True)}"
        f"{_text(192, 152, 'index notation with brackets; gradients at most four times the program', 27, '#e8f1f5')}"
        f"{''.join(blocks)}{_text(64, height - 40, told, 22, '#ffd166')}</svg>\n"
    )


def _text(x: int, y: int, text: str, size: int, colour: str, mono: bool = False, bold: bool = False) -> str:
    family = "DejaVu Sans Mono, monospace" if mono else "DejaVu Sans, sans-serif"
    weight = ' font-weight="700"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" font-family="{family}" font-size="{size}"{weight} fill="{colour}" '
        f'xml:space="preserve">{escape(text)}</text>'
    )


def write() -> None:
    """Write the card as SVG and as PNG."""
    import shutil

    from playwright.sync_api import sync_playwright

    (STATIC / "card.svg").write_text(card())
    with sync_playwright() as playwright:
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.set_content(f'<body style="margin: 0">{card()}</body>')
        page.screenshot(path=STATIC / "card.png")
        browser.close()


if __name__ == "__main__":
    write()
