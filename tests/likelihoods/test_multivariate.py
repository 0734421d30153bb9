"""Correlated noise of several targets, against torch.distributions; its twin takes targets for independent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.distributions import MultivariateNormal

import credo
from credo.likelihoods import LearnedGaussian, MultivariateGaussian

LIKELIHOOD = MultivariateGaussian(0.7)


def drawn(targets: int, members: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(targets)
    return {name: p.double() for name, p in LIKELIHOOD.draw_parameters(targets, members, generator).items()}


@pytest.mark.parametrize("targets", [1, 2, 4])
def test_density_scales_and_curvature(targets: int) -> None:
    params = drawn(targets)
    rng = credo.Stream(targets)
    f, y = rng.child("f").normal(3, 5, targets).double(), rng.child("y").normal(5, targets).double()
    covariance = LIKELIHOOD.covariance(params)
    expected = torch.stack([MultivariateNormal(f[m], covariance[m]).log_prob(y) for m in range(3)])
    torch.testing.assert_close(LIKELIHOOD.log_prob(f, y, params), expected)
    torch.testing.assert_close(torch.diagonal(covariance, dim1=-2, dim2=-1), params["log_scale"].exp().square())
    one = {name: p[0] for name, p in params.items()}
    torch.testing.assert_close(LIKELIHOOD.hessian(f[0], y, one), LIKELIHOOD.fisher(f[0], one))
    torch.testing.assert_close(LIKELIHOOD.fisher(f[0], one)[2], torch.linalg.inv(covariance[0]))


def test_samples_have_the_covariance() -> None:
    params = {name: p[:1] for name, p in drawn(3).items()}
    zeros = torch.zeros(1, 40_000, 3, dtype=torch.float64)
    found = torch.cov(LIKELIHOOD.sample(zeros, params, torch.Generator().manual_seed(0))[0].T)
    wanted = LIKELIHOOD.covariance(params)[0]
    scale = wanted.diagonal().sqrt()
    # the standard error of an entry is at most sqrt(2 / 40000) = 0.007 of the scales; five of them
    assert bool(((found - wanted).abs() < 0.036 * scale * scale[:, None]).all())


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Two targets whose noise has a standard deviation of 0.3 and a correlation of 0.9."""
    x, e = torch.linspace(-1, 1, 300)[:, None], credo.Stream(1).normal(300, 2)
    noise = 0.3 * torch.stack([e[:, 0], 0.9 * e[:, 0] + (1 - 0.9**2) ** 0.5 * e[:, 1]], 1)
    return x, torch.cat([x, -x], 1) + noise


def test_the_correlation_is_learned_and_kept(data: tuple[torch.Tensor, torch.Tensor], tmp_path: Path) -> None:
    method = credo.MAP(epochs=400, learning_rate=0.02, batch_size=None)
    fitted = {}
    for likelihood in (MultivariateGaussian(), LearnedGaussian()):
        posterior = credo.fit(credo.Model(torch.nn.Linear(1, 2), likelihood), data, method)
        fitted[type(likelihood).__name__] = posterior
    posterior = fitted["MultivariateGaussian"]
    params = posterior.members().params
    learned = {name.removeprefix("likelihood."): p[0] for name, p in params.items() if name.startswith("likelihood.")}
    covariance = MultivariateGaussian().covariance(learned)
    scale = covariance.diagonal().sqrt()
    assert abs(float(covariance[0, 1] / scale.prod()) - 0.9) < 0.03  # three standard errors, (1 - 0.9^2) / sqrt(300)
    assert bool(((scale / 0.3 - 1).abs() < 0.13).all())  # three of 1 / sqrt(600)
    x, y = data
    joint, apart = (fitted[name].predict(x).log_prob(y).mean() for name in ("MultivariateGaussian", "LearnedGaussian"))
    assert float(joint - apart) > 0.6  # -log(1 - 0.9^2) / 2 = 0.83 is what the correlation tells
    posterior.save(tmp_path / "run")
    again = credo.load(tmp_path / "run", torch.nn.Linear(1, 2))
    assert torch.equal(again.predict(x).log_prob(y), posterior.predict(x).log_prob(y))


def test_a_joint_interval_holds_all_targets_at_once(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    model = credo.Model(torch.nn.Linear(1, 2), LearnedGaussian())
    posterior = credo.fit(model, data, credo.MAP(epochs=300, learning_rate=0.02, batch_size=None))
    prediction = posterior.predict(data[0])
    targets = prediction.sample(4000, seed=9)

    def held(lower: torch.Tensor, upper: torch.Tensor) -> float:
        return float(((targets >= lower) & (targets <= upper)).all(-1).double().mean())

    assert abs(held(*prediction.joint_interval(0.9)) - 0.9) < 0.01  # the error of quantiles of 2000, over 300 inputs
    assert held(*prediction.interval(0.9)) < 0.83  # the twin: two single intervals of 90 % hold both at 81 %
