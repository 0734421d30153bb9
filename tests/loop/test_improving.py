"""A run that ends too early says so; one that has arrived, or that only jumps about, does not."""

from __future__ import annotations

import pytest
import torch

import credo
from credo import likelihoods, priors
from credo.loop.advice import still_improving

X = torch.linspace(-1.0, 1.0, 40).unsqueeze(1)
Y = 2 * X + 0.5 + 0.3 * credo.Stream(1).normal(40, 1)


def notes(method: credo.Method) -> str:
    model = credo.Model(credo.nets.MLP(1, 1, hidden=()), likelihoods.Gaussian(0.3), priors.Normal(2.0))
    return " ".join(credo.fit(model, (X, Y), method, progress=False).notes)


@pytest.mark.parametrize("kind", [credo.MAP, credo.BayesByBackprop, credo.DeepEnsemble], ids=lambda k: k.__name__)
def test_a_line_after_a_hundred_small_steps(kind) -> None:
    # with 0.001 the rise is below the noise of Bayes by Backprop's draws in four runs of five; with 0.005 in none of 20
    assert "still getting better" in notes(kind(epochs=100, learning_rate=5e-3))
    assert "still getting better" not in notes(kind(epochs=300, learning_rate=0.05))


def rows(values: torch.Tensor) -> list[dict[str, float]]:
    return [{"log_likelihood": float(value)} for value in values]


def test_noise_is_no_progress() -> None:
    """Of 2000 runs that only jump about, at most 4 % are told to go on: two standard errors of a difference."""
    noise = credo.Stream(2).normal(2000, 100)
    told = sum(still_improving(rows(run)) is not None for run in noise)
    assert told <= 0.04 * 2000
    rising = noise + 0.5 * torch.arange(100)
    assert all(still_improving(rows(run)) is not None for run in rising)  # the twin


def test_small_rises_short_histories_and_nan_are_left_alone() -> None:
    assert still_improving(rows(-0.3 + 0.001 * torch.arange(50))) is None
    assert still_improving(rows(torch.arange(9.0))) is None
    assert still_improving(rows(torch.full((50,), torch.nan))) is None
    assert still_improving([{"kl": 1.0}] * 50) is None


def test_a_rise_is_judged_by_position() -> None:
    """A tenth of a nat for an image of a thousand pixels is nothing, and as much for each pixel is worth a word."""
    rising = [{"log_likelihood": 0.1 * epoch} for epoch in range(50)]
    assert still_improving(rising) is not None
    assert still_improving(rising, positions=1000) is None
    assert still_improving([{"log_likelihood": 1000 * row["log_likelihood"]} for row in rising], 1000) is not None
