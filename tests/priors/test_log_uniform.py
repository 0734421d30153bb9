"""The log-uniform prior: every order of magnitude alike, known up to a constant."""

from __future__ import annotations

import math

import pytest
import torch

import credo
from credo import likelihoods, priors
from credo.core.trees import ParameterInfo, Params
from credo.posteriors import DiagonalGaussian, Draws
from credo.posteriors.gaussian import check_proper

LAYOUT = {"a": ParameterInfo((2, 3), 3), "b": ParameterInfo((), 1)}
PRIOR = priors.LogUniform(("a",), priors.Normal(2.0))


def weights() -> Params:
    return {n: credo.Stream(0, (n,)).normal(4, *i.shape, dtype=torch.float64) for n, i in LAYOUT.items()}


def test_the_density_falls_with_the_size_of_a_weight() -> None:
    params = weights()
    by_hand = -sum(params[name].abs().log().reshape(4, -1).sum(1) for name in params)
    torch.testing.assert_close(priors.LogUniform().log_prob(params, LAYOUT), by_hand, rtol=1e-12, atol=0)


def test_other_parameters_have_another_prior_or_none() -> None:
    params = weights()
    named = -params["a"].abs().log().flatten(1).sum(1)
    others = torch.distributions.Normal(0.0, torch.tensor(2.0, dtype=torch.float64)).log_prob(params["b"])
    torch.testing.assert_close(PRIOR.log_prob(params, LAYOUT), named + others, rtol=1e-12, atol=0)
    torch.testing.assert_close(priors.LogUniform(("a",)).log_prob(params, LAYOUT), named, rtol=1e-12, atol=0)
    assert float(priors.LogUniform().log_prob({}, LAYOUT)) == 0.0


def test_orders_of_magnitude_are_alike() -> None:
    """p(w) dw = d log w: scaling all weights changes the density by the volume alone. A normal prior's changes more."""
    params, factor = weights(), 10.0
    scaled = {name: factor * w for name, w in params.items()}

    def change(prior: priors.Prior) -> torch.Tensor:
        return prior.log_prob(scaled, LAYOUT) - prior.log_prob(params, LAYOUT) + 7 * math.log(factor)

    torch.testing.assert_close(change(priors.LogUniform()), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-12)
    assert bool((change(priors.Normal(1.0)).abs() > 1).all())


def test_nothing_can_be_drawn_from_it_and_nothing_compared_with_it() -> None:
    with pytest.raises(ValueError, match=r"improper.*give a prior that can be drawn from"):
        PRIOR.sample(LAYOUT, 3, credo.Stream(0))
    assert not PRIOR.proper
    assert PRIOR.kl(weights(), {}, LAYOUT) is None
    assert all(prior.proper for prior in (priors.Normal(), priors.ScaleMixture(), priors.StudentT(), priors.Laplace()))
    model = credo.Model(torch.nn.Linear(1, 1), likelihoods.Gaussian(), PRIOR)
    given = model.network.given()
    with pytest.raises(ValueError, match=r"a question needs a proper prior.*LogUniform.*improper"):
        check_proper(Draws(model, given, Draws.uniform(given)), "a question")
    with pytest.raises(ValueError, match=r"kl\(\) needs a proper prior"):
        DiagonalGaussian(model, given, {}).kl()


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="names must be"):
        priors.LogUniform("weight")
    with pytest.raises(TypeError, match="others must be"):
        priors.LogUniform(("weight",), "normal")
