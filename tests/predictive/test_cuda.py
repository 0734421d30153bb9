"""Predictives on a GPU give what they give on the CPU. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from credo.core.rng import Stream
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    LearnedGaussian,
    NumericLikelihood,
    Poisson,
)
from credo.predictive import predictive

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")

LIKELIHOODS = [Gaussian(0.5), LearnedGaussian(), HeteroscedasticGaussian(), Categorical(), Bernoulli(), Poisson()]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda v: type(v).__name__)
def test_the_same_as_on_the_cpu(likelihood):
    draws = Stream(0).normal(5, 4, 2, dtype=torch.float64)
    own = {n: Stream(1).normal(5, *p.shape, dtype=torch.float64) for n, p in likelihood.parameters(2).items()}
    y = torch.ones(4, 1) if isinstance(likelihood, HeteroscedasticGaussian) else torch.ones(4, 2)
    y = torch.ones(4).long() if isinstance(likelihood, Categorical) else y
    results = []
    for device in ("cpu", "cuda"):
        moved = {name: p.to(device) for name, p in own.items()}
        prediction = predictive(likelihood, draws.to(device), moved, Stream(2).normal(5))
        values = [prediction.log_prob(y), prediction.mean, prediction.epistemic, prediction.aleatoric]
        values += [prediction.entropy, prediction.mutual_information]
        if isinstance(likelihood, NumericLikelihood):
            values += [*prediction.interval(0.9), prediction.cdf(torch.zeros(4, 1)), prediction.cdf(0.5)]
        assert all(v.device.type == device for v in values)
        assert prediction.sample(3).device.type == device
        results.append([v.cpu() for v in values])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-7, atol=1e-7)
