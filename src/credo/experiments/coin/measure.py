"""The numbers of the coin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from credo.exact import Coin, Grid
from credo.experiments.base import Outcome, Progress, Size, Table
from credo.experiments.coin.figures import beliefs_figure, tosses_figure

THREE = Coin(heads=3, tails=0)
TWENTY = Coin(heads=11, tails=9)
TOSSES = (0, 5, 20, 100)
"""How often the coin has been tossed when the belief is drawn."""


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Hold the closed form against the grid; nothing here is random, so the seed changes nothing."""
    points = 1000 if size is Size.FULL else 200
    progress.say("the posterior in closed form and on a grid")
    examples = {"3 heads": THREE, "11 heads, 9 tails": TWENTY}
    grids = {name: coin.grid(points) for name, coin in examples.items()}
    progress.say("drawing figures")
    figures = (beliefs_figure(folder, examples), tosses_figure(folder, [_after(n) for n in TOSSES]))
    return Outcome(_measured(grids), (_table(examples, grids),), figures)


def _measured(grids: Mapping[str, Grid]) -> dict[str, float]:
    three, twenty = grids.values()
    theta = three.axes[0]
    factors = THREE.density(theta) / theta**3
    closed = TWENTY.density(twenty.axes[0])
    evidences = [abs(grid.log_evidence - coin.log_evidence) for grid, coin in ((three, THREE), (twenty, TWENTY))]
    return {
        "three_heads_factor": float(factors[(factors - 4).abs().argmax()]),
        "three_heads_probability": THREE.head_probability,
        "three_heads_grid_probability": float(three.mean),
        "nineteen_points": float(_notebook_grid().weights[-1]),
        "three_heads_maximum_likelihood": THREE.maximum_likelihood,
        "twenty_tosses_mean": TWENTY.mean,
        "twenty_tosses_grid_error": float((twenty.posterior - closed).abs().max() / closed.max()),
        "evidence_error": max(evidences),
    }


def _notebook_grid() -> Grid:
    """Three heads on the 19 points 0.05, 0.10 .. 0.95, all equally probable before."""
    theta = 0.05 * torch.arange(1, 20, dtype=torch.float64)
    return Grid((theta,), torch.zeros(19, dtype=torch.float64), THREE.log_likelihood(theta))


def _after(tosses: int) -> Coin:
    """A coin that has shown heads in 55 % of its tosses, as in the lecture's 11 of 20, rounded to whole tosses."""
    heads = round(0.55 * tosses)
    return Coin(heads, tosses - heads)


def _table(examples: Mapping[str, Coin], grids: Mapping[str, Grid]) -> Table:
    rows = []
    for name, coin in examples.items():
        grid, (lower, upper) = grids[name], coin.interval()
        span = f"{lower:.3f}-{upper:.3f}"
        rows.append((name, coin.maximum_likelihood, coin.head_probability, float(grid.mean), span, coin.log_evidence))
    columns = ("tosses", "max. lik.", "P(head)", "by grid", "95 % interval", "log p(data)")
    note = "P(head) averages over all coins with their posterior weights; maximum likelihood bets on one of them."
    return Table("What the tosses tell", columns, tuple(rows), note)
