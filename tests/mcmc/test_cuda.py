"""The samplers on a GPU. Skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import credo
from credo import likelihoods, priors

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")

SAMPLERS = {
    "hmc": credo.HMC(draws=20, warmup=40, chains=64),
    "nuts": credo.NUTS(draws=20, warmup=40, chains=64, max_depth=6),
    "mclmc": credo.MCLMC(draws=20, warmup=40, chains=64),
    "mams": credo.MAMS(draws=20, warmup=40, chains=64),
}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
X = torch.linspace(-1, 1, 40).double().unsqueeze(1)
Y = 1.5 * X - 0.3


def line() -> credo.Model:
    return credo.Model(nn.Linear(1, 1).double(), likelihoods.Gaussian(0.5), priors.Normal(1.0))


def fit(sampler: Any, **more: Any) -> credo.Posterior:
    return credo.fit(line(), (X, Y), sampler, device="cuda", progress=False, **more)


@every_sampler
def test_a_line_has_its_exact_moments(sampler: Any) -> None:
    """Means within 0.2 and variances within 30 % of exact: some five standard errors of 1280 draws of 64 chains."""
    posterior = fit(sampler)
    design = torch.cat([X, torch.ones_like(X)], dim=1)
    covariance = torch.linalg.inv(design.T @ design / 0.25 + torch.eye(2).double())
    mean = covariance @ design.T @ Y.squeeze(1) / 0.25
    draws = torch.cat([posterior.variables.params["weight"].squeeze(1), posterior.variables.params["bias"]], 1).cpu()
    assert bool(((draws.mean(0) - mean).abs() / covariance.diagonal().sqrt() < 0.2).all())
    assert bool((draws.var(0) / covariance.diagonal() - 1.0).abs().max() < 0.3)
    assert posterior.predict(X).mean.device.type == "cuda"


@every_sampler
def test_a_run_that_was_cut_off_resumes_to_the_same_bits(sampler: Any, tmp_path) -> None:
    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    whole = fit(sampler)
    with pytest.warns(credo.CredoWarning, match="stopped"):
        fit(sampler, checkpoint=checkpoint, seconds=0.3)
    resumed = fit(sampler, checkpoint=checkpoint, resume=True)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name
