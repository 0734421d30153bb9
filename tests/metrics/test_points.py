"""Errors, likelihood, coverage and width against scikit-learn, scipy and counting by hand."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.metrics import log_loss, mean_absolute_error, root_mean_squared_error

from credo import likelihoods, metrics
from credo.predictive import NumericPredictive, Predictive, predictive


def mixture(
    draws: int = 4, examples: int = 30, targets: int = 1, seed: int = 0
) -> tuple[NumericPredictive, torch.Tensor]:
    """A weighted mixture of Gaussians with its own scale in each draw, and observations near it."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(draws, examples, targets, generator=generator, dtype=torch.float64) * 2
    log_scale = torch.randn(draws, targets, generator=generator, dtype=torch.float64) * 0.5
    log_weights = torch.randn(draws, generator=generator, dtype=torch.float64)
    prediction = predictive(likelihoods.LearnedGaussian(), means, {"log_scale": log_scale}, log_weights)
    assert isinstance(prediction, NumericPredictive)
    return prediction, torch.randn(examples, targets, generator=generator, dtype=torch.float64) * 2


@pytest.mark.parametrize("targets", [1, 2])
def test_errors_equal_scikit_learn(targets):
    prediction, y = mixture(targets=targets)
    points = prediction.mean.numpy()
    assert metrics.rmse(prediction, y) == pytest.approx(np.sqrt(((points - y.numpy()) ** 2).mean()), rel=1e-12)
    if targets == 1:
        assert metrics.rmse(prediction, y) == pytest.approx(root_mean_squared_error(y, points), rel=1e-12)
    assert metrics.mae(prediction, y) == pytest.approx(mean_absolute_error(y, points), rel=1e-12)
    assert metrics.rmse(points, y.numpy()) == metrics.rmse(prediction, y)


def test_a_flat_target_is_never_broadcast_against_a_column():
    prediction, y = mixture()
    broadcast_twin = float((prediction.mean - y.squeeze(1)).square().mean().sqrt())
    assert metrics.rmse(prediction, y.squeeze(1)) == metrics.rmse(prediction, y)
    assert metrics.rmse(prediction, y.squeeze(1)) != pytest.approx(broadcast_twin, rel=1e-3)  # a wrong answer, far off


def test_log_likelihood_is_the_mean_log_of_the_mixture():
    prediction, y = mixture()
    means, scale = prediction.draws[..., 0].numpy(), prediction.params["log_scale"].exp().numpy()
    each = norm.logpdf(y[:, 0].numpy(), means, scale)  # (S, B)
    weights = prediction.weights.numpy()[:, None]
    assert metrics.log_likelihood(prediction, y) == pytest.approx(logsumexp(each, 0, b=weights).mean(), rel=1e-12)
    mean_of_logs_twin = (weights * each).sum(0).mean()
    assert metrics.log_likelihood(prediction, y) > mean_of_logs_twin + 0.1
    averaged = norm.logpdf(y[:, 0].numpy(), (weights * means).sum(0), (weights * scale).sum(0)).mean()
    assert metrics.log_likelihood(prediction, y) != pytest.approx(averaged, abs=0.05)  # averaged parameters are a twin


def test_log_likelihood_of_classes_equals_log_loss():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    y = np.random.default_rng(1).integers(0, 4, size=50)
    assert metrics.log_likelihood(probs, y) == pytest.approx(-log_loss(y, probs, labels=range(4)), rel=1e-12)


def test_coverage_counts_and_includes_the_ends():
    lower, upper = [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]
    assert metrics.coverage((lower, upper), [0.0, 1.0, 0.5, 1.1]) == 0.75
    assert metrics.sharpness((lower, upper)) == 1.0


def test_interval_of_one_gaussian():
    draws = torch.zeros(1, 5, 1, dtype=torch.float64)
    prediction = predictive(likelihoods.Gaussian(scale=2.0), draws, {}, torch.zeros(1, dtype=torch.float64))
    width = 2 * norm.ppf(0.95) * 2.0
    assert metrics.sharpness(prediction, 0.9) == pytest.approx(width, rel=1e-9)
    assert metrics.coverage(prediction, torch.tensor([0.0, 3.2, -3.2, 3.4, -3.4]), 0.9) == 0.6


def test_coverage_of_two_modes_is_that_of_the_mixture():
    """A quarter of the mass sits at 10: the fitted normal distribution would hold all of it, or miss the rest."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.tensor([0.0, 0.0, 0.0, 10.0], dtype=torch.float64).reshape(4, 1, 1).expand(4, 20_000, 1)
    prediction = predictive(likelihoods.Gaussian(scale=1.0), draws, {}, torch.zeros(4, dtype=torch.float64))
    picked = torch.randint(0, 4, (20_000,), generator=generator)
    y = draws[picked, torch.arange(20_000), 0] + torch.randn(20_000, generator=generator, dtype=torch.float64)
    spread = 5 * np.sqrt(0.5 * 0.5 / 20_000)  # more than five standard errors: fails by chance once in two million
    assert abs(metrics.coverage(prediction, y, 0.3) - 0.3) < spread
    center, scale = prediction.mean, prediction.stddev
    normal_twin = (center - norm.ppf(0.65) * scale, center + norm.ppf(0.65) * scale)
    assert abs(metrics.coverage(normal_twin, y) - 0.3) > 3 * spread


def test_bad_input_is_told():
    prediction, y = mixture()
    with pytest.raises(ValueError, match="they must agree"):
        metrics.rmse(prediction, y[:-1])
    with pytest.raises(ValueError, match="at least one row"):
        metrics.mae([], [])
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.coverage(prediction, y, 95)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got tensor"):
        metrics.sharpness(prediction, y)  # type: ignore[arg-type]
    assert metrics.sharpness(prediction, np.float32(0.5)) > 0
    with pytest.raises(ValueError, match="lower has shape"):
        metrics.sharpness(([0.0], [1.0, 2.0]))
    with pytest.raises(TypeError, match="cannot be read as numbers"):
        metrics.rmse(["a"], [1.0])
    classes: Predictive = predictive(likelihoods.Categorical(), torch.zeros(1, 3, 2), {}, torch.zeros(1))
    with pytest.raises(TypeError, match="over numbers"):
        metrics.coverage(classes, [0, 1, 1])


OF_NUMBERS = [
    metrics.rmse,
    metrics.mae,
    metrics.log_likelihood,
    metrics.coverage,
    metrics.crps,
    metrics.pointwise_crps,
    metrics.pit,
    metrics.coverage_curve,
    metrics.risk_coverage,
]


@pytest.mark.parametrize("metric", OF_NUMBERS, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_targets_that_are_not_finite_are_refused(metric, bad):
    prediction, y = mixture()
    metric(prediction, y)
    y[3] = bad
    with pytest.raises(ValueError, match=r"y has NaN or infinite values \(1, the first in row 3\)"):
        metric(prediction, y)
