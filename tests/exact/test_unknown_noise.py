"""Linear regression with unknown noise against known noise, against integrals, and against its own parts."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

import credo
from credo.exact import GaussianWeights, LinearRegression, NormalInverseGamma


def data(rows: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    rng = credo.Stream(3)
    x = rng.child("x").normal(rows, 2, dtype=torch.float64)
    return x, x @ torch.tensor([1.0, -2.0], dtype=torch.float64) + 0.5 * rng.child("y").normal(rows).double()


def test_with_noise_that_is_as_good_as_known_it_is_the_regression_of_known_noise() -> None:
    x, y = data()
    sure = NormalInverseGamma.isotropic((), 2, precision=0.25, shape=1e12, rate=1e12 * 0.25).updated(x, y)
    known = LinearRegression(x, y, 0.5, GaussianWeights.isotropic(2, scale=1.0)).posterior
    torch.testing.assert_close(sure.mean, known.mean)
    mean, variance = sure.predict(x)
    torch.testing.assert_close(mean, x @ known.mean)
    torch.testing.assert_close(variance, (x @ known.covariance * x).sum(1), rtol=1e-9, atol=0)


def test_learning_in_parts_is_learning_at_once() -> None:
    x, y = data()
    prior = NormalInverseGamma.isotropic((), 2, precision=0.25, shape=6.0, rate=6.0)
    whole, parts = prior.updated(x, y), prior.updated(x[:5], y[:5]).updated(x[5:], y[5:])
    for name in ("mean", "precision", "shape", "rate"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))


def test_one_of_a_batch_is_taken_and_put_back() -> None:
    x, y = data()
    batch = NormalInverseGamma.isotropic((2, 3), 2, precision=0.25, shape=6.0, rate=6.0)
    after = batch.replaced(batch.of(1, 2).updated(x, y), 1, 2)
    single = NormalInverseGamma.isotropic((), 2, precision=0.25, shape=6.0, rate=6.0).updated(x, y)
    for name in ("mean", "precision", "shape", "rate"):
        torch.testing.assert_close(getattr(after, name)[1, 2], getattr(single, name))
        torch.testing.assert_close(getattr(after, name)[0], getattr(batch, name)[0])
    assert not batch.mean.any()


def test_the_posterior_is_the_joint_density_up_to_a_constant() -> None:
    """log p(y | w, v) + log p(w, v) - log p(w, v | y) is the evidence, whatever w and v are."""
    x, y = data()
    prior = NormalInverseGamma.isotropic((), 2, precision=0.25, shape=3.0, rate=2.0)
    posterior = prior.updated(x, y)

    def log_density(belief: NormalInverseGamma, w: torch.Tensor, v: float) -> float:
        covariance = (v * torch.linalg.inv(belief.precision)).numpy()
        of_weights = stats.multivariate_normal.logpdf(w.numpy(), belief.mean.numpy(), covariance)
        return float(of_weights + stats.invgamma.logpdf(v, float(belief.shape), scale=float(belief.rate)))

    evidence = []
    for w, v in (([0.3, -1.0], 0.2), ([1.0, -2.0], 0.4), ([-2.0, 5.0], 3.0)):
        weights = torch.tensor(w, dtype=torch.float64)
        likelihood = float(stats.norm.logpdf(y.numpy(), (x @ weights).numpy(), v**0.5).sum())
        evidence.append(likelihood + log_density(prior, weights, v) - log_density(posterior, weights, v))
    assert evidence[1:] == pytest.approx([evidence[0]] * 2, rel=1e-9)


def test_draws_of_a_weight_have_its_student_distribution_and_a_twin_has_not() -> None:
    x, y = data(6)
    posterior = NormalInverseGamma.isotropic((3,), 2, precision=0.25, shape=2.0, rate=1.0)
    posterior = posterior.updated(x.expand(3, 6, 2), y.expand(3, 6))
    weight = posterior.sample(5000, credo.Stream(0))[:, 1, 0]
    scale = float((posterior.rate[1] / posterior.shape[1] * torch.linalg.inv(posterior.precision)[1, 0, 0]).sqrt())
    student = stats.t(2 * float(posterior.shape[1]), float(posterior.mean[1, 0]), scale)
    # two Kolmogorov-Smirnov tests at 1e-6 each
    assert stats.kstest(weight.numpy(), student.cdf).pvalue > 1e-6
    assert stats.kstest(weight.numpy() + 0.2 * scale, student.cdf).pvalue < 1e-6
    both = posterior.sample(20_000, credo.Stream(1))[:, 2]
    correlation = torch.linalg.inv(posterior.precision)[2]
    wanted = float(correlation[0, 1] / (correlation[0, 0] * correlation[1, 1]).sqrt())
    assert float(torch.corrcoef(both.T)[0, 1]) == pytest.approx(wanted, abs=0.05)  # 20,000 draws: a sd of 0.007


def test_the_variance_of_a_prediction_is_infinite_where_it_does_not_exist() -> None:
    wide = NormalInverseGamma.isotropic((), 1, precision=1.0, shape=1.0, rate=1.0)
    assert float(wide.predict(torch.ones(1, 1))[1]) == float("inf")
    with pytest.raises(ValueError, match="shape must be a positive number"):
        NormalInverseGamma.isotropic((), 1, precision=1.0, shape=0.0, rate=1.0)
