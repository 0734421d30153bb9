"""Graphical models, bounds on log p(x), and what stochastic gradient descent wanders in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.patches import FancyBboxPatch

from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED, drawing
from lessons.blocks import results


def models(path: Path) -> None:
    """A variational autoencoder beside a Bayesian network."""
    with drawing(path, 9.0, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        for axes, title in ((left, "variational autoencoder"), (right, "Bayesian network")):
            axes.set(title=title, xlim=(0, 10), ylim=(0, 6))
            axes.axis("off")
        _plate(left, (3.2, 0.5), 3.6, 5.0)
        _variable(left, 5, 4.4, "z")
        _variable(left, 5, 1.8, "x", observed=True)
        left.text(8.6, 3.1, "θ", ha="center", va="center", fontsize=13)
        left.text(1.4, 3.1, "φ", ha="center", va="center", fontsize=13)
        _arrow(left, (5, 4.4), (5, 1.8))
        _arrow(left, (8.6, 3.1), (5, 1.8))
        _arrow(left, (1.4, 3.1), (5, 4.4), dashed=True)
        _arrow(left, (5, 1.8), (5, 4.4), dashed=True, rad=0.55)
        left.text(3.45, 0.75, "each example", fontsize=8)
        _plate(right, (4.4, 0.5), 4.6, 5.0)
        _variable(right, 6.7, 4.4, "x", observed=True)
        _variable(right, 6.7, 1.8, "y", observed=True)
        _variable(right, 2.6, 3.1, "W")
        right.text(0.5, 3.1, "φ", ha="center", va="center", fontsize=13)
        _arrow(right, (6.7, 4.4), (6.7, 1.8))
        _arrow(right, (2.6, 3.1), (6.7, 1.8))
        _arrow(right, (0.5, 3.1), (2.6, 3.1), dashed=True)
        right.text(4.65, 0.75, "each example", fontsize=8)


def _variable(axes: Any, x: float, y: float, name: str, *, observed: bool = False) -> None:
    box = {"boxstyle": "circle,pad=0.45", "facecolor": "#D0D0D0" if observed else "white", "edgecolor": BLACK}
    axes.text(x, y, name, ha="center", va="center", fontsize=13, bbox=box, zorder=3)


def _plate(axes: Any, corner: tuple[float, float], width: float, height: float) -> None:
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle="round,pad=0.1", facecolor="none", edgecolor=GRAY))


def _arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False, rad: float = 0.0
) -> None:
    style = {"arrowstyle": "-|>", "color": BLUE if dashed else BLACK, "linestyle": "--" if dashed else "-"}
    axes.annotate(
        "", end, start, arrowprops={**style, "shrinkA": 17, "shrinkB": 19, "connectionstyle": f"arc3,rad={rad}"}
    )


def bounds(path: Path) -> None:
    """The bound with K draws, and the spread of single log weights."""
    page = results("latent")
    evidence = float(page["log_evidence"])
    with drawing(path, 9.5, 3.5) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(list(page["bounds"]), list(page["bounds"].values()), "o-", color=BLUE, label="bound with K draws")
        left.axhline(evidence, color=BLACK, linestyle="--", label="log p(x)")
        left.set(xscale="log", xlabel="draws K (log scale)", ylabel="nats", title="the bound rises with K")
        left.legend(loc="lower right")
        right.hist(page["draws"][:20_000].numpy(), 120, (evidence - 8, evidence + 2), color=ORANGE, alpha=0.6)
        right.axvline(evidence, color=BLACK, linestyle="--", label="log p(x)")
        right.axvline(page["elbo"], color=BLUE, label="their mean, the ELBO")
        right.set(xlabel="log p(x, z) - log q(z | x)", ylabel="draws", title="single log weights")
        right.legend(loc="upper left")


def sgd(path: Path) -> None:
    """The stationary variance of SGD, by the formula and by runs, and that of SGLD."""
    page = results("which")
    rates = torch.logspace(-2.3, -0.2, 60, dtype=torch.float64)
    with drawing(path, 7.0, 3.8) as figure:
        axes = figure.subplots()
        for batch, color in ((10, RED), (100, GREEN)):
            axes.plot(rates, page["predicted"](rates, batch), color=color, label=f"SGD, batches of {batch}")
            tried = (0.02, 0.1, 0.4)
            axes.plot(tried, [page["wander"](r, batch, steps=1500) for r in tried], "o", color=color)
        axes.axhline(page["posterior"], color=BLACK, linestyle="--", label="posterior")
        tried = (0.005, 0.02, 0.1)
        found = [page["wander"](r, page["count"], extra=2 * r / page["count"], steps=4000) for r in tried]
        axes.plot(tried, found, "s-", color=BLUE, label="SGLD, all data in a batch")
        axes.set(xscale="log", yscale="log", xlabel="learning rate (log scale)", ylabel="variance (log scale)")
        axes.set_title("how far the weights wander")
        axes.legend(loc="upper left")
