"""Simulation-based calibration: true weights drawn from the prior must be one more draw of their posteriors.

Each chain has data of its own, so that hundreds of posteriors are explored by one run. The ranks of the true weights
among the draws are then uniform: a chi-square test over eight bins, rejected below 1e-4 for each of two weights.

Reference: S. Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration", 2018,
    https://arxiv.org/abs/1804.06788
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import credo
from credo import likelihoods, priors

CHAINS, EXAMPLES, DRAWS, LEVEL = 320, 6, 15, 1e-4
SAMPLERS = {
    "hmc": credo.HMC(draws=DRAWS, warmup=100, chains=CHAINS, thin=5),
    "nuts": credo.NUTS(draws=DRAWS, warmup=100, chains=CHAINS, thin=5),
}


def simulated(seed: int = 0) -> tuple[Tensor, credo.PerMember]:
    """Weights of logistic regressions from N(0, 1.5^2), (CHAINS, 2), and few labels of each: skewed posteriors."""
    streams = credo.Stream(seed, ("calibration",))
    x = streams.child("x").normal(CHAINS, EXAMPLES, 2, dtype=torch.float64) + 0.5
    w = 1.5 * streams.child("w").normal(CHAINS, 2, dtype=torch.float64)
    probs = torch.sigmoid((x @ w.unsqueeze(2)).squeeze(2))
    uniform = torch.rand(probs.shape, generator=streams.child("y").generator(), dtype=torch.float64)
    return w, credo.PerMember(x, (uniform < probs).double())


def p_value(sampler: Any, prior_scale: float) -> float:
    w, data = simulated()
    model = credo.Model(nn.Linear(2, 1, bias=False).double(), likelihoods.Bernoulli(), priors.Normal(prior_scale))
    posterior = credo.fit(model, data, sampler, progress=False, plan=credo.Plan.TOGETHER)
    draws = posterior.by_chain(posterior.variables.params["weight"].squeeze(1))  # (C, T, 2)
    ranks = (draws < w.unsqueeze(1)).sum(1)  # 0 .. DRAWS
    counts = [torch.bincount(column // 2, minlength=8) for column in ranks.T]
    return 2.0 * min(float(stats.chisquare(count.numpy()).pvalue) for count in counts)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_true_weights_rank_evenly_among_the_draws(sampler: Any) -> None:
    assert p_value(sampler, prior_scale=1.5) > LEVEL


def test_under_a_prior_that_is_too_narrow_they_do_not() -> None:
    assert p_value(SAMPLERS["hmc"], prior_scale=0.75) < LEVEL
