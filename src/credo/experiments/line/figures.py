"""Pictures of beliefs about a line."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from matplotlib.axes import Axes
from torch import Tensor

from credo.core.rng import Stream
from credo.exact import GaussianWeights, Grid, LinearRegression, with_intercept
from credo.experiments.base import Figure
from credo.experiments.line.problem import HALF_95, INTERCEPT, NOISE, SHIFT, SLOPE, X, Y
from credo.reports.style import BLACK, BLUE, GREEN, ORANGE, RED, drawing

ACROSS = torch.linspace(-6.0, 6.0, 121, dtype=torch.float64)
OFF = torch.tensor([1.0, -0.6], dtype=torch.float64)
"""How far the example of a lesser fit lies from the best one, in posterior standard deviations."""

LINES = 40
LEVELS = (0.5, 0.95)
"""Shares of the posterior inside the ellipses."""


def posterior_figure(folder: Path, exact: LinearRegression, grid: Grid) -> Figure:
    """The posterior over slope and intercept, and two of its lines among the data."""
    path = "posterior.png"
    best = exact.maximum_likelihood
    lesser = best + OFF * exact.posterior.scale
    share = float((exact.log_joint(lesser) - exact.log_joint(best)).exp())
    marks = ((best, RED, "s", "maximum likelihood"), (lesser, GREEN, "^", "a bit off"))
    with drawing(folder / path, 9.6, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        image = left.pcolormesh(*(axis.numpy() for axis in grid.axes), grid.posterior.T.numpy(), cmap="Grays")
        figure.colorbar(image, ax=left, label="posterior density, by the grid")
        _ellipses(left, exact.posterior, BLUE, "closed form, 50 % and 95 %")
        for weights, color, marker, label in marks:
            left.plot(*weights.tolist(), marker, color=color, markersize=8, label=label)
            right.plot(ACROSS, with_intercept(ACROSS) @ weights, color=color, label=label)
        left.set(title="Every point is a line a x + b", xlabel="slope a", ylabel="intercept b")
        left.grid(visible=False)
        _data(right, X)
        right.set(title="Two of these lines", xlabel="x", ylabel="y", xlim=(-6, 6), ylim=(-30, 30))
        for axes in (left, right):
            axes.legend(loc="upper left")
    caption = (
        "Left: the posterior over slope and intercept, as shades by the hacker's way (prior times likelihood on a "
        "grid, normalized) and as ellipses in closed form. Right: the best line, and one that is a bit off; it counts "
        f"{share:.2f} times as much."
    )
    return Figure(path, caption)


def prediction_figure(folder: Path, exact: LinearRegression, rng: Stream) -> Figure:
    """Drawn lines, and the prediction that averages over all of them."""
    path = "prediction.png"
    design = with_intercept(ACROSS)
    drawn = exact.posterior.sample(LINES, rng) @ design.T
    prediction, best = exact.predict(design), design @ exact.maximum_likelihood
    lower, upper = (end.squeeze(1) for end in prediction.interval(0.95))
    half = HALF_95 * NOISE
    with drawing(folder / path, 9.6, 4.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for k, line in enumerate(drawn):
            left.plot(ACROSS, line, color=BLUE, linewidth=0.8, alpha=0.5, label=None if k else f"{LINES} drawn lines")
        right.fill_between(ACROSS, lower, upper, color=BLUE, alpha=0.25, linewidth=0, label="95 %, all lines averaged")
        right.plot(ACROSS, prediction.mean, color=BLUE, label="mean of all lines")
        right.plot(ACROSS, best, color=RED, linestyle="--", linewidth=1.3, label="maximum-likelihood line")
        for side in (-1, 1):
            label = "95 % around it" if side > 0 else None
            right.plot(ACROSS, best + side * half, color=RED, linestyle=":", linewidth=1.3, label=label)
        left.set(title="Lines drawn from the posterior", ylabel="y", ylim=(-42, 48))
        right.set(title="Prediction of a new y")
        for axes in (left, right):
            truth = SLOPE * ACROSS + INTERCEPT
            axes.plot(ACROSS, truth, color=BLACK, linewidth=1.3, linestyle=(0, (5, 2)), label="true line")
            _data(axes, X)
            axes.set(xlabel="x", xlim=(-6, 6))
            axes.legend(loc="upper left")
    caption = (
        "Left: lines drawn from the posterior; between the points they agree, outside they fan out. Right: averaged, "
        "they predict with a band that widens away from the data; the band of the maximum-likelihood line is as wide "
        "as the noise everywhere."
    )
    return Figure(path, caption)


def mean_field_figure(folder: Path, shifted: LinearRegression, mean: Tensor, scale: Tensor) -> Figure:
    """The exact posterior, the best factorized normal, and what Bayes by Backprop found."""
    path = "mean_field.png"
    with drawing(folder / path, 9.6, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        found = GaussianWeights.diagonal(mean, scale)
        design = with_intercept(ACROSS + SHIFT)
        entries = (
            (shifted.posterior, BLUE, "-", "exact posterior"),
            (shifted.mean_field, ORANGE, "-", "best factorized normal"),
            (found, BLACK, ":", "Bayes by Backprop"),
        )
        for q, color, dashes, label in entries:
            _ellipses(left, q, color, label, dashes)
            stddev = q.predict(design, NOISE).epistemic.sqrt().squeeze(1)
            right.plot(ACROSS + SHIFT, stddev, color=color, linestyle=dashes, label=label)
        right.plot(X + SHIFT, torch.zeros(len(X)), "^", color=BLACK, markersize=8, clip_on=False, label="data")
        left.set(title="Posterior, 50 % and 95 %", xlabel="slope a", ylabel="intercept b")
        right.set(title="Doubt about the line", xlabel="x", ylabel="epistemic standard deviation", ylim=(0, None))
        left.legend(loc="upper right")
        right.legend(loc="upper center")
    caption = (
        f"The same four points with {SHIFT:g} added to every x, so that slope and intercept depend on each other. A "
        "factorized normal cannot lean: its variances are 1 / precision, not the marginal ones, and its doubt about "
        "the line is least at x = 0, where there are no data. Bayes by Backprop finds just that."
    )
    return Figure(path, caption)


def _ellipses(axes: Axes, q: GaussianWeights, color: str, label: str, dashes: str = "-") -> None:
    """Curves that hold the shares LEVELS of a normal over two weights."""
    angle = torch.linspace(0, 2 * math.pi, 200, dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()])
    for k, level in enumerate(LEVELS):
        radius = math.sqrt(-2 * math.log1p(-level))  # of a chi-square with two degrees of freedom
        around = q.mean.unsqueeze(1) + radius * torch.linalg.solve_triangular(q.root, circle, upper=True)
        axes.plot(*around.numpy(), color=color, linestyle=dashes, label=None if k else label)


def _data(axes: Axes, x: Tensor) -> None:
    axes.plot(x, Y, "o", color=BLACK, markersize=5, label="data", zorder=5)
