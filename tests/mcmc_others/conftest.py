"""Targets whose moments are known, and chains held against them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import exact, likelihoods, priors
from credo.core.rng import Stream
from credo.core.trees import Layout, Params
from credo.priors.base import Prior


@dataclass(frozen=True)
class Line:
    """Linear regression with correlated inputs, and its exact posterior."""

    model: credo.Model
    x: Tensor
    y: Tensor
    exact: exact.LinearRegression

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        return self.x, self.y

    @property
    def scale(self) -> Tensor:
        """Standard deviation of each weight, (P,)."""
        return self.exact.posterior.covariance.diagonal().sqrt()


@pytest.fixture(scope="session")
def line() -> Line:
    x = Stream(1, ("line", "x")).normal(12, 3, dtype=torch.float64)
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    y = x @ torch.tensor([1.0, -2.0, 0.5]).double() + 0.5 * Stream(1, ("line", "y")).normal(12, dtype=torch.float64)
    model = credo.Model(nn.Linear(3, 1, bias=False).double(), likelihoods.Gaussian(0.5), priors.Normal(2.0))
    return Line(model, x, y, exact.LinearRegression(x, y, 0.5, exact.GaussianWeights.isotropic(3, scale=2.0)))


class Landscape(Prior):
    """A prior with any density of the weights of one linear layer, (M, P) to (M,): a target of one's own choice."""

    def __init__(self, log_density: Callable[[Tensor], Tensor]) -> None:
        self.log_density = log_density

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return self.log_density(params["weight"].flatten(1))

    def sample(self, layout: Layout, members: int, stream: Stream) -> Params:
        raise AssertionError("nobody draws from it")


@pytest.fixture(scope="session")
def landscape() -> Callable[..., tuple[credo.Model, tuple[Tensor, Tensor]]]:
    """A model whose posterior is a given density of P weights: its one example says nothing."""

    def make(log_density: Callable[[Tensor], Tensor], weights: int) -> tuple[credo.Model, tuple[Tensor, Tensor]]:
        net = nn.Linear(weights, 1, bias=False).double()
        model = credo.Model(net, likelihoods.Gaussian(1.0), Landscape(log_density))
        return model, (torch.zeros(1, weights).double(), torch.zeros(1).double())

    return make


@pytest.fixture(scope="session")
def z_scores() -> Callable[[Tensor, Tensor], Tensor]:
    """(average - exact) / standard error of K numbers per independent chain, (C, K): about standard normal each."""

    def scores(per_chain: Tensor, truth: Tensor) -> Tensor:
        return (per_chain.mean(0) - truth) / (per_chain.std(0) / len(per_chain) ** 0.5)

    return scores
