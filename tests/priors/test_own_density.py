"""Priors of users, made from those of the library."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import credo
from credo import priors
from credo.core.trees import Layout, ParameterInfo, Params
from credo.nets.network import Network
from credo.posteriors import DiagonalGaussian

LAYOUT = {"w": ParameterInfo((3,), 1)}
W = {"w": torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)}
SCALE = {"w": torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64)}


class Summed(priors.Normal):
    """Another total."""

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return sum(-w.pow(4).flatten(1).sum(1) for w in params.values())


class Each(priors.Normal):
    """Another density of each weight."""

    def log_density(self, w: Tensor) -> Tensor:
        return -w.pow(4)


class Shifted(priors.Normal):
    """The parent's density around one."""

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return super().log_prob({name: w - 1.0 for name, w in params.items()}, layout)


def test_a_density_of_one_s_own_may_call_that_of_its_parent() -> None:
    torch.testing.assert_close(Shifted().log_prob(W, LAYOUT), priors.Normal().log_prob({"w": W["w"] - 1.0}, LAYOUT))
    assert Shifted().precision(LAYOUT) is None


@pytest.mark.parametrize("prior", [Summed(), Each()], ids=["sum", "each"])
def test_a_density_of_one_s_own_is_not_mixed_with_the_closed_forms_of_its_parent(prior: priors.Prior) -> None:
    exact = -W["w"].pow(4).sum(1)
    torch.testing.assert_close(prior.log_prob(W, LAYOUT), exact)
    assert prior.precision(LAYOUT) is None
    assert prior.kl(W, SCALE, LAYOUT) is None
    each = prior.log_prob_each(W, LAYOUT)
    assert each is None or torch.allclose(each["w"].sum(1), exact)
    assert priors.Normal(2.0).precision(LAYOUT) == {"w": 0.25}  # the parent has its own still


def test_the_kl_of_a_posterior_is_that_from_the_prior_of_the_user() -> None:
    """E[w^4] = m^4 + 6 m^2 s^2 + 3 s^4; 20,000 draws, 5 standard errors: a false alarm with probability 6e-7."""
    net = torch.nn.Linear(2, 1, bias=False).double()
    model = credo.Model(net, credo.likelihoods.Gaussian(), Summed())
    m, s = torch.tensor([[[0.5, -1.0]]]).double(), torch.tensor([[[0.3, 0.2]]]).double()
    posterior = DiagonalGaussian(model, credo.core.trees.Variables({"weight": m}), {"weight": s})
    fourth = m**4 + 6 * m**2 * s**2 + 3 * s**4
    exact = fourth.sum() - (s.log() + 0.5 * math.log(2 * math.pi * math.e)).sum()
    spread = (m + s * credo.Stream(1).normal(20_000, 1, 2, dtype=torch.float64)).pow(4).sum((1, 2)).std()
    assert abs(float(posterior.kl(draws=20_000)) - float(exact)) < 5 * float(spread) / math.sqrt(20_000)


@pytest.mark.parametrize("prior", [Summed(), Each()], ids=["log_prob", "log_density"])
def test_draws_of_a_parent_are_not_inherited(prior: priors.Prior) -> None:
    network = Network(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="inherits the draws of Normal, which are not draws from it"):
        prior.sample(network.layout, 3, credo.Stream(0))


def test_draws_of_its_own_are_used() -> None:
    class Drawn(Each):
        def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
            return torch.full(shape, 7.0)

    network = Network(torch.nn.Linear(1, 1))
    assert bool((Drawn().sample(network.layout, 3, credo.Stream(0))["weight"] == 7.0).all())
