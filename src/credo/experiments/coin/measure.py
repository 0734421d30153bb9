"""The numbers of the coin."""

from __future__ import annotations

from collections.abc import Mapping

from credo.exact import Coin, Grid
from credo.experiments.base import Table
from credo.experiments.coin.problem import THREE, TWENTY, notebook_grid


def examples() -> dict[str, Coin]:
    """The coins by what was seen of them."""
    return {"3 heads": THREE, "11 heads, 9 tails": TWENTY}


def measured(grids: Mapping[str, Grid]) -> dict[str, float]:
    """The closed form compared with the grid; nothing here is random."""
    three, twenty = grids.values()
    theta = three.axes[0]
    factors = THREE.density(theta) / theta**3
    closed = TWENTY.density(twenty.axes[0])
    evidences = [abs(grid.log_evidence - coin.log_evidence) for grid, coin in ((three, THREE), (twenty, TWENTY))]
    return {
        "three_heads_factor": float(factors[(factors - 4).abs().argmax()]),
        "three_heads_probability": THREE.head_probability,
        "three_heads_grid_probability": float(three.mean),
        "nineteen_points": float(notebook_grid(THREE).weights[-1]),
        "three_heads_maximum_likelihood": THREE.maximum_likelihood,
        "twenty_tosses_mean": TWENTY.mean,
        "twenty_tosses_grid_error": float((twenty.posterior - closed).abs().max() / closed.max()),
        "evidence_error": max(evidences),
    }


def table(grids: Mapping[str, Grid]) -> Table:
    """What the tosses say, one row per coin."""
    rows = []
    for name, coin in examples().items():
        grid, (lower, upper) = grids[name], coin.interval()
        span = f"{lower:.3f}-{upper:.3f}"
        rows.append((name, coin.maximum_likelihood, coin.head_probability, float(grid.mean), span, coin.log_evidence))
    columns = ("tosses", "max. lik.", "P(head)", "by grid", "95 % interval", "log p(data)")
    note = "P(head) averages over all coins with their posterior weights; maximum likelihood bets on one of them."
    return Table("What the tosses say", columns, tuple(rows), note)
