"""What is no array of inputs is refused with a sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo.core.trees import Variables
from credo.posteriors import Draws

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
