"""The figures of the course: each is a function that draws one file of `docs/assets/course`.

python docs/lessons [NAME ...]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lessons import beliefs, distributions, gradients, latent, monte_carlo, networks, variational, weights

ASSETS = Path(__file__).parents[1] / "assets" / "course"

FIGURES: dict[str, Callable[[Path], None]] = {
    "distributions": distributions.families,
    "three-ways": distributions.three_ways,
    "coin": beliefs.coin_by_toss,
    "line": beliefs.line_by_point,
    "two-valued": networks.two_valued,
    "criteria": networks.criteria,
    "divergence": variational.divergence,
    "family": variational.family,
    "elbo": variational.elbo,
    "log-derivative": gradients.log_derivative,
    "graphs": gradients.graphs,
    "reparameterization": gradients.reparameterization,
    "sampling": monte_carlo.sampling,
    "rejected": monte_carlo.rejected,
    "one-weight": weights.one_weight,
    "softplus": weights.softplus,
    "weight-decay": weights.weight_decay,
    "digits": weights.digits,
    "models": latent.models,
    "bounds": latent.bounds,
    "sgd": latent.sgd,
}
"""What draws a figure, by the name of its file."""


def draw(*names: str) -> None:
    """Draw these figures, or all."""
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name in names or FIGURES:
        FIGURES[name](ASSETS / f"{name}.png")
        print(f"course: assets/course/{name}.png")
