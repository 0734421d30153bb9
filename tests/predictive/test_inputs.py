"""What is no array of inputs is refused with a sentence that says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo.core.trees import Variables
from credo.posteriors import Chains, DiagonalGaussian, Draws, Dropout, Posterior, UnitNoise, Weighted

X = torch.linspace(-1.0, 1.0, 12)[:, None]
PAIRS = TensorDataset(X, X)


def lines() -> Draws:
    """Two functions f(x) = w x."""
    variables = Variables({"weight": torch.tensor([1.0, 2.0]).reshape(2, 1, 1)})
    model = credo.Model(nn.Linear(1, 1, bias=False), credo.likelihoods.Gaussian(scale=1.0))
    return Draws(model, variables, Draws.uniform(variables))


@pytest.mark.parametrize(
    "batches", [DataLoader(PAIRS, batch_size=4), PAIRS, iter([X, X])], ids=lambda b: type(b).__name__
)
def test_batches_are_refused_with_the_loop_that_goes_through_them(batches: Any) -> None:
    said = f"x is a {type(batches).__name__}, and predictions take a tensor or an array: loop over the batches"
    with pytest.raises(TypeError, match=said):
        lines().predict(batches)
    with pytest.raises(TypeError, match=said):
        next(lines().predict_batches(batches))


def test_the_loop_that_is_told_gives_the_prediction() -> None:
    posterior = lines()
    parts = [posterior.predict(inputs).mean for inputs, _ in DataLoader(PAIRS, batch_size=5)]
    torch.testing.assert_close(torch.cat(parts), posterior.predict(X).mean)


def posteriors() -> list[Posterior]:
    """One of each kind, of the two functions."""
    model, variables = lines().model, lines().variables
    return [
        lines(),
        Weighted(model, variables, torch.zeros(2), torch.tensor(0.1)),
        Chains(model, variables, Chains.numbered(variables, 2), {}),
        DiagonalGaussian(model, variables, {"weight": torch.full((2, 1, 1), 0.1)}),
        Dropout(model, variables),
        UnitNoise(model, variables, {"weight": torch.full((2, 1, 1), 0.1)}),
    ]


@pytest.mark.parametrize("posterior", posteriors(), ids=lambda p: type(p).__name__)
def test_numbers_of_draws_that_are_none_are_refused_by_the_name_of_the_argument(posterior: Posterior) -> None:
    for wrong in ("a", 1.5, 10.0, True, float("nan"), torch.tensor(2.5), np.float64(3.0)):
        with pytest.raises(TypeError, match=r"^count must be a whole number such as 10, got "):
            posterior.draw(wrong)
        with pytest.raises(TypeError, match=r"^draws must be a whole number such as 10, got "):
            posterior.predict(X, draws=wrong)
        with pytest.raises(TypeError, match=r"^draws must be a whole number such as 10, got "):
            next(posterior.predict_batches(X, draws=wrong))
    for wrong in (0, -3):
        with pytest.raises(ValueError, match=rf"^count must be a whole number of at least 1, got {wrong}"):
            posterior.draw(wrong)
        with pytest.raises(ValueError, match=rf"^draws must be a whole number of at least 1, got {wrong}"):
            posterior.predict(X, draws=wrong)
    for right in (3, np.int64(3), torch.tensor(3)):
        assert len(posterior.draw(right)) == 3
        assert lines().predict(X, draws=right).draws.shape == (3, 12, 1)


@pytest.mark.parametrize(
    "y", [X, X[:, 0], X.numpy(), X.long(), X.tolist()], ids=["tensor", "row", "array", "classes", "list"]
)
def test_targets_in_the_place_of_draws_are_told_where_they_go(y: Any) -> None:
    said = r"^draws must be .*predictions take the inputs alone, as in posterior\.predict\(x\).*log_prob\(y\)"
    with pytest.raises(TypeError, match=said):
        lines().predict(X, y)
    with pytest.raises(TypeError, match=said):
        next(lines().predict_batches(X, y))
    with pytest.raises(TypeError, match=r"^count must be a whole number such as 10, got "):
        lines().draw(y)


def test_rows_at_a_time_are_a_whole_number() -> None:
    for wrong in ("a", 1.5, X):
        with pytest.raises(TypeError, match=r"^rows must be a whole number such as 10, got "):
            next(lines().predict_batches(X, rows=wrong))
