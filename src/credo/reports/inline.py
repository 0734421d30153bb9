"""Figures as SVG inside a page: their text is text, and their colors are the page's, light or dark."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote

from matplotlib import rc_context
from matplotlib.artist import Artist
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

WIDTH, HEIGHT = 4.3, 3.1
"""In inches: small enough that ten-point letters stay readable on a phone 390 pixels wide."""
HOVER = "hover:"


def hover(artist: Artist, texts: Sequence[str]) -> None:
    """Say what appears beside a mark when it is pointed at.

    Args:
        artist: whose marks, or the one shape that it is.
        texts: one for each mark, in their order.
    """
    artist.set_gid(HOVER + quote(json.dumps(list(texts))))  # without a character that SVG would escape


def svg(name: str, label: str, draw: Callable[[Figure], None], height: float = HEIGHT, width: float = WIDTH) -> str:
    """A figure as an SVG element.

    Args:
        name: of the figure in its page; letters and hyphens.
        label: text alternative: what the figure shows, for readers who do not see it.
        draw: draws on the figure it is given.
        height: in inches.
        width: likewise.
    """
    settings = {**LOOK, "svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10.0, "axes.labelsize": 10.0}
    with rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _themed(_titled(_element(text.getvalue(), name, label)), name)


def _element(document: str, name: str, label: str) -> str:
    """The bare element, without prologue and fixed size, and with its text alternative."""
    body = document[document.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]*)"', body)
    assert box is not None
    inner = body[body.index(">") + 1 :]
    opening = f'<svg viewBox="{box[1]}" role="img" aria-label="{_escaped(label)}" class="drawing" id="figure-{name}">'
    return opening + inner.strip()


def _titled(element: str) -> str:
    """Marks with the texts that appear beside them, as SVG's own titles: no script is needed."""
    parts = re.split(rf'<g id="{HOVER}([^"]*)">', element)
    found = [parts[0]]
    for texts, rest in zip(parts[1::2], parts[2::2], strict=True):
        end = _end_of_group(rest)
        found += ["<g>", _marks_titled(rest[:end], json.loads(unquote(texts))), rest[end:]]
    return "".join(found)


def _end_of_group(rest: str) -> int:
    """Where the group ends that was opened just before."""
    depth = 1
    for tag in re.finditer(r"<(/?)g\b[^>]*?(/?)>", rest):
        depth += 0 if tag[2] else -1 if tag[1] else 1
        if depth == 0:
            return tag.start()
    return len(rest)


def _marks_titled(group: str, texts: list[str]) -> str:
    titles = [f"<title>{_escaped(text)}</title>" for text in texts]
    marks = re.findall(r"<use [^>]*/>", group)
    if not marks and len(titles) == 1:
        return titles[0] + group
    if len(marks) != len(titles):  # marks outside of the axes are not drawn
        return group
    following = iter(titles)
    return re.sub(r"<use [^>]*/>", lambda mark: f"<g>{next(following)}{mark[0]}</g>", group)


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
