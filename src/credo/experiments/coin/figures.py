"""Pictures of beliefs about a coin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes

from credo.exact import Coin, Grid
from credo.experiments.base import Figure
from credo.reports.style import BLACK, BLUE, GREEN, ORANGE, RED, SKY, drawing

CELLS = 25
"""Cells of the grid in the pictures: few enough to see each."""

HEADROOM = 1.5
"""Height of the posterior's panel over its highest density: the rest is for the legend."""

FINE = torch.linspace(0, 1, 401, dtype=torch.float64)


def beliefs_figure(folder: Path, examples: Mapping[str, Coin]) -> Figure:
    """Prior, likelihood and posterior side by side, one row per example."""
    path = "beliefs.png"
    with drawing(folder / path, 9.6, 2.9 * len(examples)) as figure:
        rows = figure.subplots(len(examples), 3, sharex=True, squeeze=False)
        for row, (name, coin) in zip(rows, examples.items(), strict=True):
            _row(row, name, coin)
        for axes in rows[-1]:
            axes.set_xlabel("θ, probability of heads")
    caption = (
        "The prior times the likelihood, normalized, is the posterior. Bars: the hacker's way, on a grid of "
        f"{CELLS} values of θ. Curves: the closed form. Dashed: P(head), the posterior's average of θ; dotted: the "
        "maximum-likelihood θ, which three heads put at certainty."
    )
    return Figure(path, caption)


def _row(row: Sequence[Axes], name: str, coin: Coin) -> None:
    grid = coin.grid(CELLS)
    likelihood = coin.log_likelihood(FINE).exp()
    highest = likelihood.max()
    _panel(row[0], grid, grid.prior, coin.prior.density(FINE), ORANGE)
    _panel(row[1], grid, coin.log_likelihood(grid.axes[0]).exp() / highest, likelihood / highest, GREEN)
    _panel(row[2], grid, grid.posterior, coin.density(FINE), BLUE)
    row[0].set(title=f"{name}: prior p(θ)", ylim=(0, 1.3), ylabel="density")
    row[1].set(title="likelihood p(data | θ)", ylim=(0, 1.3), ylabel="relative to the highest")
    row[2].set(title="posterior p(θ | data)", ylim=(0, HEADROOM * float(coin.density(FINE).max())), ylabel="density")
    for label, at, color, dashes in (
        ("P(head)", coin.head_probability, BLACK, "--"),
        ("max. likelihood", coin.maximum_likelihood, RED, ":"),
    ):
        row[2].axvline(at, ymax=1 / HEADROOM, color=color, linestyle=dashes, label=f"{label} = {at:.3f}")
    row[2].legend(loc="upper left")


def _panel(axes: Axes, grid: Grid, bars: torch.Tensor, curve: torch.Tensor, color: str) -> None:
    axes.bar(grid.axes[0].numpy(), bars.numpy(), width=0.85 * grid.cell, color=color, alpha=0.45, linewidth=0)
    axes.plot(FINE.numpy(), curve.numpy(), color=color)
    axes.set_xlim(-0.02, 1.02)


def tosses_figure(folder: Path, coins: Sequence[Coin]) -> Figure:
    """How the belief sharpens with the number of tosses."""
    path = "tosses.png"
    with drawing(folder / path, 7.0, 4.2) as figure:
        axes = figure.subplots()
        for coin, color in zip(coins, (ORANGE, GREEN, SKY, BLUE), strict=True):
            label = f"{coin.heads} of {coin.heads + coin.tails}"
            axes.plot(FINE.numpy(), coin.density(FINE).numpy(), color=color, label=label)
        axes.axvline(0.5, color=BLACK, linestyle=":", linewidth=1.2, label="a fair coin")
        axes.set(xlabel="θ, probability of heads", ylabel="posterior density", xlim=(0, 1), ylim=(0, None))
        axes.legend(title="heads")
    caption = (
        "The same share of heads, 55 % as far as whole tosses allow, and ever more tosses: the belief sharpens as one "
        "over the root of their number. After 100 tosses a fair coin is still well inside it."
    )
    return Figure(path, caption)
