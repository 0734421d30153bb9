"""Figures as SVG inside a page: their text is text, and their colors are the page's, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from credo.reports.style import BLACK, BLUE, GRAY, GREEN, LOOK, ORANGE, PURPLE, RED, SKY, YELLOW

NAMES = {
    BLACK: "ink",
    BLUE: "blue",
    GREEN: "green",
    GRAY: "gray",
    ORANGE: "orange",
    PURPLE: "purple",
    RED: "red",
    SKY: "sky",
    YELLOW: "yellow",
}
"""The names of the page's colors (CSS custom properties) that stand for those of the palette."""

WIDTH, HEIGHT = 5.4, 3.5
"""In inches: small enough that ten-point letters stay readable on a phone."""


def svg(name: str, label: str, draw: Callable[[Figure], None], height: float = HEIGHT) -> str:
    """A figure as an SVG element.

    Args:
        name: of the figure in its page; letters and hyphens.
        label: text alternative: what the figure shows, for readers who do not see it.
        draw: draws on the figure it is given.
        height: in inches.
    """
    settings = {**LOOK, "svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10.0, "axes.labelsize": 10.0}
    with rc_context(settings):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _themed(_element(text.getvalue(), name, label), name)


def _element(document: str, name: str, label: str) -> str:
    """The bare element, without prologue and fixed size, and with its text alternative."""
    body = document[document.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]*)"', body)
    assert box is not None
    inner = body[body.index(">") + 1 :]
    opening = f'<svg viewBox="{box[1]}" role="img" aria-label="{_escaped(label)}" class="drawing" id="figure-{name}">'
    return opening + inner.strip()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _themed(element: str, name: str) -> str:
    """Colors by the page's names; only identities that the drawing itself refers to, made unique in the page."""
    for color, called in NAMES.items():
        element = re.sub(re.escape(color), f"var(--{called})", element, flags=re.IGNORECASE)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', element))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    head, rest = element.split(">", 1)
    rest = re.sub(r' id="([^"]+)"', renamed, rest)
    rest = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", rest)
    return f"{head}>{rest}"
