"""The look that all figures share: colors that everyone can tell apart, legible type, one layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
RED = "#D55E00"
PURPLE = "#CC79A7"
GRAY = "#6E6E6E"
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, YELLOW)
"""The palette of M. Okabe and K. Ito, 2008, https://jfly.uni-koeln.de/color/, in the order in which it is used."""

LOOK: Any = {
    "axes.grid": True,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.10,
    "figure.dpi": 150,
    "figure.titlesize": 13,
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
}


@contextmanager
def drawing(path: Path, width: float = 7.0, height: float = 4.2) -> Iterator[Figure]:
    """A figure to draw on, saved as a PNG when the block ends well; no global setting of matplotlib outlives it.

    Args:
        path: file to write.
        width: in inches.
        height: in inches.

    Examples:
        `with drawing(folder / "band.png") as figure: predictive_band(figure.subplots(), x, mean, stddev)`
    """
    with rc_context(LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(path)
