"""Where theory says a method must land: Bayesian linear regression with known noise, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import exact, likelihoods, priors
from credo.core.trees import Params, Variables
from credo.methods.point import PointMethod
from credo.model import Target
from credo.posteriors import Draws

NOISE, PRIOR, N = 0.7, 1.3, 40
SETTLED = {"epochs": 3000, "learning_rate": 0.05, "batch_size": None, "schedule": credo.Cosine()}


def problem() -> tuple[credo.Model, Tensor, Tensor, exact.LinearRegression]:
    """Two correlated features and an intercept, so that no sign, scale or axis error can hide."""
    stream = credo.Stream(1, ("conjugate",))
    x = stream.child("x").normal(N, 2, dtype=torch.float64)
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    noise = stream.child("y").normal(N, 1, dtype=torch.float64)
    y = x @ torch.tensor([[1.5], [-0.7]], dtype=torch.float64) + 0.4 + NOISE * noise
    net = nn.Linear(2, 1, dtype=torch.float64)
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    design = torch.cat([x, torch.ones(N, 1, dtype=torch.float64)], dim=1)
    truth = exact.LinearRegression(
        design, y.squeeze(1), noise_scale=NOISE, prior=exact.GaussianWeights.isotropic(3, PRIOR)
    )
    return model, x, y, truth


def flat(variables: Variables) -> Tensor:
    """Weights and intercept of each member, (M, 3)."""
    return torch.cat([variables.params["weight"].flatten(1), variables.params["bias"]], dim=1)


def landed(method: credo.Method) -> Tensor:
    model, x, y, _ = problem()
    return flat(credo.fit(model, (x, y), method, seed=2).members())


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max())


CLOSE = 1e-6


def test_map_lands_on_the_posterior_mean() -> None:
    truth = problem()[3]
    assert distance(landed(credo.MAP(**SETTLED)), truth.posterior.mean) < CLOSE


def test_maximum_likelihood_lands_on_least_squares() -> None:
    truth = problem()[3]
    assert distance(landed(credo.MaximumLikelihood(**SETTLED)), truth.maximum_likelihood) < CLOSE


def test_every_member_of_an_ensemble_lands_there_too() -> None:
    truth = problem()[3]
    assert distance(landed(credo.DeepEnsemble(members=3, **SETTLED)), truth.posterior.mean) < CLOSE


@dataclass(frozen=True)
class Broken(PointMethod):
    """A point estimate with a plausible mistake in the weight of the prior."""

    prior_weight: float = 1.0

    def regularizer(self, target: Target, params: Params) -> Tensor:
        return self.prior_weight * target.log_prior(params)


MISTAKES = {
    "prior counted once per example": N,
    "prior divided by the data": 1 / N,
    "prior divided by the number of tensors": 1 / 2,
    "prior with the wrong sign": -1.0,
}


@pytest.mark.parametrize("prior_weight", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_broken_twin_lands_elsewhere(prior_weight: float) -> None:
    truth = problem()[3]
    numbers = {**SETTLED, "epochs": 300}
    assert distance(landed(Broken(**numbers, prior_weight=prior_weight)), truth.posterior.mean) > 1000 * CLOSE


def test_the_target_is_the_exact_joint_density() -> None:
    model, x, y, truth = problem()
    target = credo.Target(model, N)
    weights = credo.Stream(3).normal(5, 3, dtype=torch.float64)
    variables = Variables({"weight": weights[:, None, :2], "bias": weights[:, 2:]})
    torch.testing.assert_close(target.log_joint(variables, credo.Batch(x, y)), truth.log_joint(weights))


def test_exact_draws_through_the_hourglass_give_the_exact_predictive() -> None:
    """The predictive of S exact draws has the exact moments up to Monte Carlo error.

    Error rate: 40 x 3 comparisons at 5 standard errors, each failing with probability 6e-7: below 1e-4 in all.
    """
    model, x, y, truth = problem()
    count = 4000
    weights = truth.posterior.sample(count, credo.Stream(4))
    variables = Variables({"weight": weights[:, None, :2], "bias": weights[:, 2:]})
    prediction = Draws(model, variables, Draws.uniform(variables)).predict(x)
    expected = truth.predict(truth.design)
    epistemic = expected.epistemic.reshape(-1, 1)
    z_mean = (prediction.mean - expected.mean.reshape(-1, 1)) / (epistemic / count).sqrt()
    z_variance = (prediction.epistemic / epistemic - 1) / (2 / count) ** 0.5
    assert float(z_mean.abs().max()) < 5
    assert float(z_variance.abs().max()) < 5
    torch.testing.assert_close(prediction.aleatoric, torch.full_like(prediction.aleatoric, NOISE**2))
    log_prob = expected.log_prob(y.squeeze(1)).reshape(-1)
    # the mixture of 4000 draws estimates the density itself; its relative error is below 3 % for these points
    torch.testing.assert_close(prediction.log_prob(y), log_prob, rtol=0, atol=0.03)

    averaged = prediction.average(prediction.draws)  # the broken twin: epistemic variance lost by averaging parameters
    twin = torch.distributions.Normal(averaged, NOISE).log_prob(y).squeeze(1)
    assert float((twin - log_prob).abs().max()) > 0.03


def test_weights_tilt_draws_from_another_posterior_to_the_exact_one() -> None:
    """Importance weights on draws of a wider normal: the weighted moments are the exact ones.

    Error rate: 3 comparisons at 5 standard errors: below 2e-6.
    """
    model, x, _, truth = problem()
    posterior, count = truth.posterior, 20000
    wide = exact.GaussianWeights.diagonal(posterior.mean, 1.5 * posterior.scale)
    weights = wide.sample(count, credo.Stream(5))
    log_weights = posterior.log_prob(weights) - wide.log_prob(weights)
    log_weights = log_weights - torch.logsumexp(log_weights, 0)
    variables = Variables({"weight": weights[:, None, :2], "bias": weights[:, 2:]})
    prediction = Draws(model, variables, log_weights).predict(x)
    effective = float(1 / log_weights.exp().square().sum())
    expected = truth.predict(truth.design)
    z = (prediction.mean - expected.mean.reshape(-1, 1)) / (expected.epistemic.reshape(-1, 1) / effective).sqrt()
    assert float(z.abs().max()) < 5
    unweighted = Draws(model, variables, Draws.uniform(variables)).predict(x)
    ratio = unweighted.epistemic / expected.epistemic.reshape(-1, 1)
    assert float(ratio.min()) > 1.3  # the twin that forgets the weights is 1.5^2 too wide in most directions


def test_temperature_does_not_move_the_map_but_scales_the_density() -> None:
    model, x, y, truth = problem()
    cold = credo.fit(model, (x, y), credo.MAP(**SETTLED), seed=2, temperature=0.1)
    assert distance(flat(cold.members()), truth.posterior.mean) < CLOSE
    variables = cold.members()
    ratio = credo.Target(model, N, temperature=0.1).log_joint(variables, credo.Batch(x, y)) / credo.Target(
        model, N
    ).log_joint(variables, credo.Batch(x, y))
    torch.testing.assert_close(ratio, torch.tensor([10.0], dtype=torch.float64))
