"""A coin toss by toss, and a line point by point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from credo.exact import Coin, GaussianWeights, LinearRegression, with_intercept
from credo.experiments.line.problem import NOISE, X, Y
from credo.reports.style import BLACK, BLUE, GRAY, ORANGE, drawing

TOSSES = "HHHTHTHHTTHTHTTHHTHT"
"""Eleven heads and nine tails, the lecture's exercise, in an order that begins with its three heads."""
SHOWN = (0, 1, 3, 4, 10, 20)
PRIOR_SCALE = 3.0
"""Of slope and intercept: narrow enough to be seen beside four points."""


def coin_by_toss(path: Path) -> None:
    """The posterior after some tosses, and below it what it says of the next toss beside maximum likelihood."""
    theta = torch.linspace(0, 1, 301, dtype=torch.float64)
    with drawing(path, 11.0, 4.6) as figure:
        top, bottom = figure.subplots(2, len(SHOWN), sharey="row", height_ratios=(3, 2))
        for above, below, tosses in zip(top, bottom, SHOWN, strict=True):
            heads = TOSSES[:tosses].count("H")
            coin = Coin(heads, tosses - heads)
            above.fill_between(theta, coin.density(theta), color=BLUE, alpha=0.3, linewidth=0)
            above.plot(theta, coin.density(theta), color=BLUE)
            above.set(
                title=f"{heads} head{'s' * (heads != 1)} of {tosses}" if tosses else "before any toss",
                xlabel="θ",
                xlim=(0, 1),
            )
            p = coin.head_probability
            below.bar([-0.2, 0.8], [1 - p, p], 0.4, color=BLUE, label="average over all coins")
            if tosses:
                best = coin.maximum_likelihood
                below.bar([0.2, 1.2], [1 - best, best], 0.4, color=ORANGE, label="most likely coin")
            below.set(xticks=[0, 1], xticklabels=["tails", "heads"], ylim=(0, 1.08), xlim=(-0.5, 1.5))
        top[0].set_ylabel("posterior density")
        bottom[0].set_ylabel("P(next toss)")
        figure.legend(*bottom[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)


def line_by_point(path: Path) -> None:
    """The posterior over slope and intercept after 0 to 4 points, and below it what it says of y."""
    grid = torch.linspace(-5, 5, 201, dtype=torch.float64)
    slopes, intercepts = torch.meshgrid(*[torch.linspace(-9, 9, 181, dtype=torch.float64)] * 2, indexing="ij")
    weights = torch.stack([slopes, intercepts], -1)
    with drawing(path, 11.0, 5.4) as figure:
        top, bottom = figure.subplots(2, 5, sharey="row", sharex="row")
        for count, (above, below) in enumerate(zip(top, bottom, strict=True)):
            prior = GaussianWeights.isotropic(2, PRIOR_SCALE)
            line = LinearRegression(with_intercept(X[:count]), Y[:count], NOISE, prior) if count else None
            belief = prior if line is None else line.posterior
            density = belief.log_prob(weights).exp()
            above.contourf(slopes, intercepts, density, 8, cmap="Blues")
            above.set(title=f"{count} point{'s' if count != 1 else ''}", xlabel="slope")
            design = with_intercept(grid)
            mean = design @ belief.mean
            epistemic = ((design @ belief.covariance) * design).sum(1)
            total = (epistemic + NOISE**2).sqrt()
            below.fill_between(grid, mean - 2 * total, mean + 2 * total, color=BLUE, alpha=0.15, linewidth=0)
            spread = epistemic.sqrt()
            below.fill_between(grid, mean - 2 * spread, mean + 2 * spread, color=BLUE, alpha=0.3, linewidth=0)
            below.plot(grid, mean, color=BLUE)
            below.plot(X, Y, "o", color=GRAY, markersize=3, alpha=0.4)
            below.plot(X[:count], Y[:count], "o", color=BLACK, markersize=4.5)
            below.set(xlabel="x", ylim=(-32, 32), xticks=np.arange(-4, 5, 4))
        top[0].set_ylabel("intercept")
        bottom[0].set_ylabel("y")
