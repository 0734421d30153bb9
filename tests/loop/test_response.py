"""A fit that answers the same to every input says so."""

from __future__ import annotations

import pytest
import torch

import credo
from credo import likelihoods, priors

X = torch.linspace(-1, 1, 32).unsqueeze(1)
CLASSES = (X[:, 0] > 0).long() + (X[:, 0] > 0.5).long()


def notes(prior: credo.priors.Prior, y: torch.Tensor, likelihood: likelihoods.Likelihood, outputs: int) -> str:
    model = credo.Model(credo.nets.MLP(1, outputs), likelihood, prior)
    method = credo.DeepEnsemble(members=2, epochs=400, learning_rate=0.01, batch_size=None)
    return " ".join(credo.fit(model, (X, y), method, progress=False).notes)


@pytest.mark.parametrize(
    ("y", "likelihood", "outputs"),
    [(torch.sin(6 * X), likelihoods.Gaussian(1.0), 1), (CLASSES, likelihoods.Categorical(), 3)],
    ids=["numbers", "classes"],
)
def test_a_prior_that_outweighs_the_data_is_told_of(
    y: torch.Tensor, likelihood: likelihoods.Likelihood, outputs: int
) -> None:
    assert "hardly depend on the inputs" in notes(priors.Normal(0.1, fan_in=True), y, likelihood, outputs)
    assert "hardly depend on the inputs" not in notes(priors.Normal(3.0, fan_in=True), y, likelihood, outputs)


def test_targets_that_are_all_the_same_deserve_one_answer() -> None:
    assert "hardly depend" not in notes(priors.Normal(0.1), torch.ones(32, 1), likelihoods.Gaussian(1.0), 1)
