"""The generalized Pareto fit against scipy, and k-hat against cases where it is known.

With weights exp((a - 1) z) at z ~ Exponential(rate a), the importance weights of Exponential(1) under Exponential(a),
the tail has exactly the shape 1 - 1/a. ArviZ's `psislw` is the reference implementation of k-hat.
"""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from scipy import stats
from torch import nn

import credo
from credo import likelihoods, priors
from credo.diagnostics import Trust, fit_generalized_pareto, pareto_k, trust


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2, 0.5, 0.9, 1.5])
def test_the_fit_finds_the_shape_and_scale_of_scipy_s_draws(shape: float) -> None:
    draws = stats.genpareto.rvs(shape, scale=2.0, size=4000, random_state=numpy.random.default_rng(1))
    k, scale = fit_generalized_pareto(torch.from_numpy(draws))
    by_likelihood = stats.genpareto.fit(draws, floc=0)
    assert k == pytest.approx(by_likelihood[0], abs=0.01)  # two estimators; their own standard error is above 0.015
    assert scale == pytest.approx(by_likelihood[2], rel=0.01)  # likewise
    error = (1 + shape) / math.sqrt(4000)  # asymptotic, of maximum likelihood
    assert abs(k - shape) < 5 * error
    assert abs(-k - shape) > 5 * error or shape == 0.0  # the twin with the other sign convention


def test_the_fit_is_that_of_zhang_and_stephens_step_by_step() -> None:
    x = numpy.sort(stats.genpareto.rvs(0.4, size=60, random_state=numpy.random.default_rng(2)))
    n, grid = 60, 30 + int(math.sqrt(60))
    theta = [1 / x[-1] + (1 - math.sqrt(grid / (j - 0.5))) / (3 * x[int(n / 4 + 0.5) - 1]) for j in range(1, grid + 1)]
    profile = []
    for t in theta:
        k = numpy.log1p(-t * x).mean()
        profile.append(n * (math.log(-t / k) - k - 1))
    weight = [1 / sum(math.exp(other - one) for other in profile) for one in profile]
    mean = sum(t * w for t, w in zip(theta, weight, strict=True))
    k = numpy.log1p(-mean * x).mean()
    found = fit_generalized_pareto(torch.from_numpy(x))
    assert found == pytest.approx((k, -k / mean))


@pytest.mark.parametrize("rate", [1.2, 2.0, 4.0, 10.0])
def test_k_hat_is_the_known_shape_of_a_ratio_of_exponentials(rate: float) -> None:
    z = torch.empty(50, 4000, dtype=torch.float64).exponential_(rate, generator=credo.Stream(3).generator())
    found = torch.tensor([pareto_k((rate - 1.0) * row) for row in z], dtype=torch.float64)
    pulled = (190 * (1 - 1 / rate) + 5) / 200  # 190 weights in the tail, and the prior worth ten at one half
    assert abs(float(found.mean()) - pulled) < 5 * float(found.std()) / math.sqrt(50)
    assert abs(float(found.mean()) + 0.2 - pulled) > 5 * float(found.std()) / math.sqrt(50)


def test_k_hat_of_weights_without_a_tail_or_without_a_meaning() -> None:
    assert pareto_k(torch.zeros(100)) == -math.inf
    assert pareto_k(torch.zeros(10)) == math.inf  # too few to tell
    assert pareto_k(torch.cat([torch.zeros(99), torch.tensor([math.nan])])) == math.inf
    assert pareto_k(credo.Stream(0).normal(1000) * 100) > 1.0
    shifted = credo.Stream(0).normal(1000, dtype=torch.float64)
    assert pareto_k(shifted) == pytest.approx(pareto_k(shifted - 1e5))  # a constant does not matter


def test_too_few_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5"):
        fit_generalized_pareto(torch.ones(4))
    with pytest.raises(ValueError, match="positive"):
        fit_generalized_pareto(torch.zeros(10))


def test_trust_speaks_for_each_member_and_for_every_likelihood() -> None:
    x = credo.Stream(1).normal(30, 2)
    model = credo.Model(nn.Linear(2, 3), likelihoods.Categorical(), priors.ScaleMixture())
    posterior = credo.fit(model, (x, torch.arange(30) % 3), credo.Ensemble(credo.BayesByBackprop(epochs=5), 2))
    found = trust(posterior, (x, torch.arange(30) % 3), draws=100)
    assert len(found.k) == len(found.elbo) == len(found.log_evidence) == 2
    assert "k-hat" in found.verdict
    learned = credo.Model(nn.Linear(2, 1), likelihoods.LearnedGaussian())
    y = x[:, 0] + 0.5 * credo.Stream(2).normal(30)
    posterior = credo.fit(learned, (x, y), credo.BayesByBackprop(epochs=300, learning_rate=0.03, samples=4))
    assert trust(posterior, (x, y), draws=400).k[0] < 0.7


def test_trust_refuses_what_does_not_fit() -> None:
    x = credo.Stream(1).normal(30, 2)
    posterior = credo.fit(
        credo.Model(nn.Linear(2, 1), likelihoods.Gaussian()), (x, x[:, 0]), credo.BayesByBackprop(epochs=1)
    )
    with pytest.raises(ValueError, match="30 rows and y has 20"):
        trust(posterior, (x, x[:20, 0]))


def test_verdicts_follow_the_bounds() -> None:
    def verdict(*k: float) -> str:
        return Trust(k, ((0.0, 0.0),) * len(k), (0.0,) * len(k)).verdict

    assert "close" in verdict(0.1, 0.4)
    assert "mend" in verdict(0.1, 0.6)
    assert "misses" in verdict(0.1, 2.0)
    assert "cannot be estimated" in verdict(math.inf)
