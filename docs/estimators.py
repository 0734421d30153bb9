"""Draws the picture of the page on black-box VI: how far single estimates of one gradient lie apart.

    python docs/estimators.py

Weights of networks 1-H-1 on twenty points of a sine; every estimate is made of eight draws.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

import credo
from credo.diagnostics import gradient_draws
from credo.methods.vi import BayesByBackprop, BlackBoxVI
from credo.methods.vi.mean_field import MeanField
from credo.reports.style import COLORS, drawing

PICTURE = Path(__file__).parent / "assets" / "vi-gradients.png"
DRAWS, REPEATS, SHOWN = 8, 1000, 8
WIDTHS = (1, 2, 4, 8, 16, 32)
METHODS: dict[str, MeanField] = {
    "score function alone": BlackBoxVI(samples=DRAWS, rao_blackwell=False, control_variate=False, baseline_decay=0.0),
    "score function, Rao-Blackwellized, control variate": BlackBoxVI(samples=DRAWS),
    "Bayes by Backprop": BayesByBackprop(samples=DRAWS),
    "Bayes by Backprop, local reparameterization": BayesByBackprop(samples=DRAWS, estimator="local"),
}


def estimates(hidden: int) -> tuple[int, dict[str, Tensor]]:
    """The number of weights, and `REPEATS` gradients by all means for each method, (R, P)."""
    x = torch.linspace(-2.0, 2.0, 20)[:, None]
    with credo.Stream(0).borrowed_global():
        net = credo.nets.MLP(1, 1, (hidden,))
    model = credo.Model(net, credo.likelihoods.Gaussian(0.5))
    target, batch = credo.Target(model, size=20), credo.Batch(x, x.sin())
    state = BayesByBackprop(initial_scale=0.1).init(target, model.network.given(), credo.Stream(1))
    found = gradient_draws(METHODS, target, state, batch, REPEATS)
    weights = sum(w.numel() for w in state.mean.params.values())
    return weights, {name: draws[:, :weights] for name, draws in found.items()}


def main() -> None:
    tables = [estimates(hidden) for hidden in WIDTHS]
    shown = tables[WIDTHS.index(SHOWN)][1]
    with drawing(PICTURE, 8.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for place, ((name, draws), color) in enumerate(zip(shown.items(), COLORS, strict=False)):
            one = draws[:, -1]
            low, high = one.quantile(torch.tensor([0.05, 0.95])).tolist()
            left.plot([low, high], [-place, -place], color=color, linewidth=6, alpha=0.4, solid_capstyle="butt")
            error = 2 * float(one.std()) / REPEATS**0.5
            left.errorbar(float(one.mean()), -place, xerr=error, fmt="o", color=color, capsize=4, label=name)
            spread = [float(table[name].var(0).mean().sqrt()) for _, table in tables]
            right.plot([weights for weights, _ in tables], spread, "o-", color=color)
        left.set(xlabel="gradient by one weight", title=f"{REPEATS:,} estimates, {SHOWN} hidden units", yticks=[])
        right.set(xlabel="weights (log scale)", ylabel="standard deviation (log scale)", title="spread of one estimate")
        right.set(xscale="log", yscale="log")
        figure.legend(loc="outside upper center", ncols=2)
    print(PICTURE.name)


if __name__ == "__main__":
    main()
