"""Networks whose forward pass looks at values: torch can neither vectorize nor, at times, differentiate them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods

X = torch.linspace(-1.0, 1.0, 40).unsqueeze(1)


class Branching(nn.Module):
    """Has another form where its mean is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.layer(x)
        return hidden if float(hidden.detach().mean()) > 0 else 2 * hidden


class Rounded(nn.Module):
    """Computes in numpy, in steps of a quarter."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.round(self.layer(x).detach().numpy() * 4) / 4)


def fitted(net: nn.Module, method: credo.Method) -> credo.Posterior:
    return credo.fit(credo.Model(net, likelihoods.Gaussian(0.3)), (X, 2 * X), method, progress=False)


SLOPES = (
    credo.MAP(epochs=2),
    credo.DeepEnsemble(epochs=2, members=2),
    credo.BayesByBackprop(epochs=2),
    credo.SGLD(epochs=4),
    credo.HMC(draws=4, warmup=4, chains=2),
)
NO_SLOPES = (
    credo.BlackBoxVI(epochs=5, batch_size=None),
    credo.Metropolis(draws=10, warmup=10, chains=2),
    credo.SimulatedAnnealing(sweeps=5),
)


def named(method: credo.Method) -> str:
    return type(method).__name__


@pytest.mark.parametrize("method", [*SLOPES, *NO_SLOPES], ids=named)
def test_a_network_with_branches_trains_and_predicts(method: credo.Method) -> None:
    posterior = fitted(Branching(), method)
    prediction = posterior.predict(X[:3], 4)
    assert prediction.mean.isfinite().all()
    drawn = posterior.draw(2, seed=1)
    both = drawn(torch.tensor([[0.9], [-0.9]]))
    assert both.shape == (len(drawn), 2, 1)


@pytest.mark.parametrize("method", NO_SLOPES, ids=named)
def test_a_network_without_gradients_trains_by_methods_that_need_none(method: credo.Method) -> None:
    assert fitted(Rounded(), method).predict(X[:3], 4).mean.isfinite().all()


@pytest.mark.parametrize("method", SLOPES, ids=named)
def test_and_is_refused_by_those_that_follow_gradients(method: credo.Method) -> None:
    """Without a word they would follow the prior alone."""
    with pytest.raises(ValueError, match="no gradient by its weights"):
        fitted(Rounded(), method)


def test_what_can_be_vectorized_is_tried_once() -> None:
    for net, expected in ((Branching(), False), (nn.Sequential(nn.Linear(1, 2), nn.LayerNorm(2)), True)):
        network = credo.Model(net).network
        assert network.vectorizes(network.given(), X) is expected
        assert network.drawing_plan(network.given(), X, 5) is (
            credo.Plan.TOGETHER if expected else credo.Plan.ONE_BY_ONE
        )
