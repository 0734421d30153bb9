"""What a distribution is, and the three ways to an expectation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from credo import Stream
from credo.exact import Coin
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED, drawing

COVARIANCE = torch.tensor([[1.0, 0.8], [0.8, 1.0]], dtype=torch.float64)
COIN = Coin(heads=3, tails=1)
"""Its expectation is 4/6, its mode 3/4."""


def families(path: Path) -> None:
    """A normal density in one dimension, in two, and a categorical distribution, each with draws from it."""
    rng = Stream(0, ("families",))
    with drawing(path, 10.0, 3.4) as figure:
        one, two, bars = figure.subplots(1, 3)
        x = np.linspace(-4, 4, 400)
        draws = rng.child("one").normal(2000).numpy()
        one.hist(draws, 40, range=(-4, 4), density=True, color=BLUE, alpha=0.35, label="2,000 draws")
        one.plot(x, np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi), color=BLUE, label="density")
        one.set(title="normal", xlabel="x", ylabel="density", ylim=(0, 0.55))
        one.legend(loc="upper left")
        root = torch.linalg.cholesky(COVARIANCE)
        for correlated, color, label in ((True, BLUE, "correlation 0.8"), (False, ORANGE, "independent")):
            z = rng.child(label).normal(400, 2, dtype=torch.float64)
            points = (z @ root.T if correlated else z).numpy()
            two.plot(points[:, 0], points[:, 1], ".", color=color, markersize=3, alpha=0.7, label=label)
        two.set(title="two normals, 400 draws", xlabel="x₁", ylabel="x₂", xlim=(-4, 4), ylim=(-4, 5.5))
        two.legend(loc="upper left", markerscale=3)
        p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
        drawn = torch.multinomial(p, 200, replacement=True, generator=rng.child("classes").generator())
        bars.bar(np.arange(3) - 0.2, p.numpy(), 0.4, color=GREEN, label="probability")
        counts = torch.bincount(drawn, minlength=3).double() / 200
        bars.bar(np.arange(3) + 0.2, counts.numpy(), 0.4, color=GRAY, label="share in 200 draws")
        bars.set(title="categorical", xlabel="class", ylabel="probability", xticks=range(3), ylim=(0, 0.72))
        bars.legend(loc="upper right")


def three_ways(path: Path) -> None:
    """The expectation of theta under a coin's posterior: by a sum, by draws, and by a normal in its place."""
    theta = torch.linspace(0, 1, 401, dtype=torch.float64)
    density, truth = COIN.density(theta).numpy(), COIN.mean
    with drawing(path, 10.0, 3.5) as figure:
        integrate, sample, approximate = figure.subplots(1, 3)
        for axes in (integrate, approximate):
            axes.plot(theta.numpy(), density, color=BLUE)
            axes.axvline(truth, ymax=0.72, color=BLACK, linestyle="--", linewidth=1.2, label=f"E[θ] = {truth:.3f}")
        grid = COIN.grid(20)
        integrate.bar(grid.axes[0].numpy(), grid.posterior.numpy(), 0.045, color=BLUE, alpha=0.3)
        found = float(grid.mean)
        integrate.set(title=f"integrate: {found:.3f}", xlabel="θ", ylabel="posterior density", ylim=(0, 3.2))
        many = COIN.sample(5 * 3000, Stream(1)).reshape(5, 3000)
        count = torch.arange(1, 3001)
        for row in many.cumsum(1) / count:
            sample.plot(count.numpy(), row.numpy(), color=GREEN, linewidth=1)
        error = 2 * math.sqrt(COIN.variance) / count.double().sqrt()
        sample.fill_between(count, truth - error, truth + error, color=GRAY, alpha=0.25, label="± 2 standard errors")
        sample.axhline(truth, color=BLACK, linestyle="--", linewidth=1.2)
        sample.set(title="sample: five runs", xlabel="draws L", ylabel="average of θ", xscale="log", ylim=(0.2, 1.1))
        sample.legend(loc="lower right")
        mode = COIN.maximum_likelihood
        curvature = 3 / mode**2 + 1 / (1 - mode) ** 2
        normal = np.sqrt(curvature / (2 * math.pi)) * np.exp(-0.5 * curvature * (theta.numpy() - mode) ** 2)
        approximate.plot(theta.numpy(), normal, color=RED, linestyle=":", label="normal at the mode")
        approximate.set(title=f"approximate: {mode:.3f}", xlabel="θ", ylim=(0, 3.2))
        for axes in (integrate, approximate):
            axes.legend(loc="upper left")
