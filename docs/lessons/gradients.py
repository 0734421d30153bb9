"""Estimates of a gradient: by scores, along draws, and the graphs that let a gradient pass or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from credo import Stream
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED, drawing
from lessons.blocks import results


def log_derivative(path: Path) -> None:
    """Single estimates of one gradient, and how their spread falls with the number of draws."""
    page = results("log-derivative")
    shown = (("plain", "scores alone", RED), ("centered", "with a baseline", ORANGE), ("path", "along the draws", BLUE))
    with drawing(path, 10.0, 3.7) as figure:
        left, right = figure.subplots(1, 2)
        sizes = np.array([1, 10, 100, 1000])
        for name, label, color in shown:
            one = page[name]
            left.hist(one.numpy(), 120, range=(-20, 20), density=True, histtype="step", color=color, label=label)
            spread = [float(one[: len(one) // s * s].reshape(-1, s).mean(1).std()) for s in sizes.tolist()]
            right.plot(sizes, spread, "o-", color=color, label=label)
        left.axvline(page["exact"], color=BLACK, linestyle="--", linewidth=1.2, label="the gradient")
        left.set(title="20,000 single estimates", xlabel="estimate", ylabel="density (log scale)", yscale="log")
        left.legend(loc="upper left")
        right.set(title="spread of their average", xlabel="draws S (log scale)", xscale="log", yscale="log")
        right.set_ylabel("standard deviation (log scale)")
        right.legend(loc="upper right")


def reparameterization(path: Path) -> None:
    """An estimate as a function of the mean, and the spread of three estimators in a network."""
    page = results("reparameterization")
    means = torch.linspace(-2, 2, 81)
    rng = Stream(3, ("lesson",))
    with drawing(path, 10.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        fresh = (means[:, None] + rng.child("fresh").normal(81, 8)).square().mean(1)
        same = (means[:, None] + rng.child("same").normal(1, 8)).square().mean(1)
        left.plot(means, fresh, ".-", color=RED, linewidth=0.8, label="new draws at every point")
        left.plot(means, same, color=BLUE, label="w = μ + σ ε, the same ε")
        left.plot(means, means.square() + 1, color=BLACK, linestyle="--", label="E[w²]")
        left.set(title="an estimate from eight draws", xlabel="mean μ of q", ylabel="estimate", ylim=(0, 9.5))
        left.legend(loc="upper center")
        names = ("reparameterization", "flipout", "local")
        right.bar(range(3), [page["spread"][name] for name in names], 0.5, color=(ORANGE, GREEN, BLUE))
        right.set(title="spread of one gradient estimate", ylabel="standard deviation")
        right.set_xticks(range(3), ["weights drawn once\nfor the batch", "Flipout", "local\nreparameterization"])


def graphs(path: Path) -> None:
    """The two computation graphs of Warakagoda's schematics: the draw in the way, and beside it."""
    with drawing(path, 10.0, 3.3) as figure:
        left, right = figure.subplots(1, 2)
        for axes, title in ((left, "w drawn from q(w; μ, ρ)"), (right, "w = μ + softplus(ρ) ε")):
            axes.set(title=title, xlim=(0, 10), ylim=(0, 6))
            axes.axis("off")
        forward, backward = [((4, 3), (6.75, 3)), ((7.25, 3), (9.2, 3))], [((9.2, 3), (7.25, 3)), ((6.75, 3), (4, 3))]
        _arrows(left, [((1, 4.5), (4, 3)), ((1, 1.5), (4, 3)), *forward])
        _gradients(left, backward)
        left.text(2.5, 3, "no gradient\npasses here", ha="center", va="center", color=RED, fontsize=9)
        _arrows(right, [((1, 4.5), (4, 3)), ((1, 1.5), (4, 3)), ((4, 5.6), (4, 3)), *forward])
        _gradients(right, [*backward, ((4, 3), (1, 4.5)), ((4, 3), (1, 1.5))])
        for axes, drawn in ((left, True), (right, False)):
            _node(axes, 1, 4.5, "μ", GRAY, "square")
            _node(axes, 1, 1.5, "ρ", GRAY, "square")
            _node(axes, 4, 3, "w", ORANGE if drawn else BLACK, "circle" if drawn else "square")
            _node(axes, 7, 3, "f(x; w)", BLACK, "square")
            _node(axes, 9.2, 3, "loss", BLACK, "square")
        _node(right, 4, 5.6, "ε", ORANGE, "circle")


def _node(axes: Any, x: float, y: float, text: str, color: str, kind: str) -> None:
    box = {"boxstyle": f"{kind},pad=0.35", "facecolor": "white", "edgecolor": color, "linewidth": 1.8}
    axes.text(x, y, text, ha="center", va="center", bbox=box, zorder=3)


def _arrows(axes: Any, pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    for start, end in pairs:
        style = {"arrowstyle": "-|>", "color": BLACK, "shrinkA": 16, "shrinkB": 18}
        axes.annotate("", end, start, arrowprops=style)


def _gradients(axes: Any, pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """The way back, beside the arrows."""
    for start, end in pairs:
        style = {"arrowstyle": "-|>", "color": BLUE, "linestyle": "--", "shrinkA": 18, "shrinkB": 18}
        style["connectionstyle"] = "arc3,rad=0.35"
        axes.annotate("", end, start, arrowprops=style)
