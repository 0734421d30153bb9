"""The ranked probability score against quadrature, brute force and known formulas."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm, poisson

from credo import likelihoods, metrics
from credo.likelihoods.base import NumericLikelihood
from credo.metrics import ranked_score as module
from credo.predictive import predictive


def gaussian_mixture(draws: int, examples: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(draws, examples, 2, generator=generator, dtype=torch.float64) * 1.5
    log_weights = torch.randn(draws, generator=generator, dtype=torch.float64)
    y = torch.randn(examples, generator=generator, dtype=torch.float64) * 2
    return predictive(likelihoods.HeteroscedasticGaussian(), outputs, {}, log_weights), y


def by_quadrature(prediction, y: float, example: int) -> float:
    mean, scale = (t[:, example, 0].numpy() for t in prediction.likelihood.location_scale(prediction.draws, {}))
    weights = prediction.weights.numpy()

    def squared(z: float) -> float:
        return float((weights @ norm.cdf(z, mean, scale) - (z >= y)) ** 2)

    ends = (mean - 12 * scale).min(), (mean + 12 * scale).max()
    parts = [(min(ends[0], y), y), (y, max(ends[1], y))]
    return sum(quad(squared, a, b, limit=500, epsabs=1e-11, points=np.clip(mean, a, b))[0] for a, b in parts)


def test_mixture_of_gaussians_equals_quadrature():
    prediction, y = gaussian_mixture(draws=5, examples=8)
    expected = [by_quadrature(prediction, float(y[i]), i) for i in range(8)]
    ours = metrics.pointwise_crps(prediction, y)[:, 0]
    assert ours.tolist() == pytest.approx(expected, abs=1e-8)
    assert metrics.crps(prediction, y) == pytest.approx(np.mean(expected), abs=1e-8)
    mean, scale = prediction.mean[:, 0].numpy(), prediction.stddev[:, 0].numpy()
    z = (y.numpy() - mean) / scale
    fitted_normal_twin = scale * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert np.abs(fitted_normal_twin - expected).max() > 1e-2


def test_one_gaussian_has_the_textbook_value():
    y = torch.tensor([0.3, -4.0, 30.0], dtype=torch.float64)
    draws = torch.zeros(1, 3, 1, dtype=torch.float64)
    prediction = predictive(likelihoods.Gaussian(scale=2.0), draws, {}, torch.zeros(1, dtype=torch.float64))
    z = y.numpy() / 2.0
    expected = 2.0 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert metrics.pointwise_crps(prediction, y)[:, 0].tolist() == pytest.approx(expected.tolist(), rel=1e-12)


def test_without_spread_it_is_the_score_of_a_sample():
    """Point masses: E|x - y| - 1/2 E|x - x'|, by brute force over pairs; one point gives the absolute error."""
    generator = np.random.default_rng(0)
    points, weights, y = generator.normal(size=7), generator.dirichlet(np.ones(7)), 0.4
    pairs = np.abs(points[:, None] - points[None, :])
    expected = weights @ np.abs(points - y) - 0.5 * weights @ pairs @ weights
    mean = torch.tensor(points).reshape(7, 1, 1)
    target = torch.tensor([[y]], dtype=torch.float64)
    ours = module.crps_of_gaussian_mixture(mean, torch.zeros_like(mean), torch.tensor(weights), target)
    assert float(ours) == pytest.approx(expected, rel=1e-12)
    one = module.crps_of_gaussian_mixture(mean[:1], torch.zeros(1, 1, 1), torch.ones(1).double(), target)
    assert float(one) == pytest.approx(abs(points[0] - y), rel=1e-12)


def test_summing_pairs_in_small_pieces_changes_nothing(monkeypatch):
    prediction, y = gaussian_mixture(draws=9, examples=4)
    whole = metrics.pointwise_crps(prediction, y)
    monkeypatch.setattr(module, "ENTRIES", 8)
    assert torch.allclose(metrics.pointwise_crps(prediction, y), whole, rtol=0, atol=1e-12)


def test_float32_draws_are_scored_in_float64():
    prediction, y = gaussian_mixture(draws=20, examples=50)
    single = predictive(prediction.likelihood, prediction.draws.float(), {}, prediction.log_weights.float())
    # inputs rounded to 24 bits move the score by about 1e-7
    assert metrics.crps(single, y) == pytest.approx(metrics.crps(prediction, y), abs=1e-6)


def test_counts_by_an_exact_sum():
    rates = np.array([[0.3, 4.0, 50.0], [1.0, 5.0, 20.0]])
    outputs = torch.tensor(np.log(rates)).unsqueeze(-1)
    prediction = predictive(likelihoods.Poisson(), outputs, {}, torch.tensor([0.25, 0.75]).double().log())
    y = np.array([0, 9, 400])
    k = np.arange(0, 1000)
    cdf = 0.25 * poisson.cdf(k[:, None], rates[0]) + 0.75 * poisson.cdf(k[:, None], rates[1])
    expected = ((cdf - (k[:, None] >= y)) ** 2).sum(0)
    assert metrics.pointwise_crps(prediction, y)[:, 0].tolist() == pytest.approx(expected.tolist(), rel=1e-9)


@dataclass(frozen=True)
class Logistic(NumericLikelihood):
    """A likelihood the closed forms do not know: mean f, unit scale."""

    def check_targets(self, y, outputs):
        return y.reshape(-1, 1)

    def cdf(self, outputs, y, params):
        return torch.sigmoid(y - outputs)

    def log_prob_each(self, outputs, y, params):
        z = y - outputs
        return -z - 2 * torch.nn.functional.softplus(-z)

    def log_prob(self, outputs, y, params):
        return self.log_prob_each(outputs, y, params).sum(-1)

    def mean(self, outputs, params):
        return outputs

    def variance(self, outputs, params):
        return torch.full_like(outputs, np.pi**2 / 3)

    def sample(self, outputs, params, generator):
        return outputs + torch.logit(torch.rand(outputs.shape, generator=generator))

    def entropy(self, outputs, params):
        return torch.full_like(outputs, 2.0)

    def spread(self, outputs, params):
        return outputs - 30.0, outputs + 30.0


def test_other_likelihoods_by_quadrature():
    """The score of a logistic distribution is z - 2 log sigmoid(z) - 1 (Jordan, Krueger and Lerch 2019)."""
    y = torch.tensor([0.0, 1.5, -7.0, 100.0], dtype=torch.float64)
    draws = torch.zeros(1, 4, 1, dtype=torch.float64)
    prediction = predictive(Logistic(), draws, {}, torch.zeros(1, dtype=torch.float64))
    expected = y - 2 * torch.nn.functional.logsigmoid(y) - 1
    ours = metrics.pointwise_crps(prediction, y)[:, 0]
    # the quadrature stops when halving its panels changes less than 1e-6 of the value
    assert torch.allclose(ours, expected, rtol=2e-6, atol=0)


def test_quadrature_agrees_with_the_closed_form():
    prediction, y = gaussian_mixture(draws=4, examples=6)
    exact = metrics.pointwise_crps(prediction, y)
    # the quadrature stops when halving its panels changes less than 1e-6 of the value
    assert torch.allclose(module._by_quadrature(prediction, y.reshape(-1, 1)), exact, rtol=2e-6, atol=0)


def test_the_score_is_proper():
    """On 20,000 observations from N(0, 1) the true scale scores best; the standard error of a difference is 1e-3."""
    y = torch.randn(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def score(scale: float) -> float:
        zeros = torch.zeros(1, len(y), 1, dtype=torch.float64)
        return metrics.crps(predictive(likelihoods.Gaussian(scale), zeros, {}, torch.zeros(1).double()), y)

    assert score(1.0) < score(0.7) - 0.005
    assert score(1.0) < score(1.4) - 0.005


def test_classes_are_refused():
    prediction = predictive(likelihoods.Categorical(), torch.zeros(1, 3, 2), {}, torch.zeros(1))
    with pytest.raises(TypeError, match="crps needs a predictive distribution over numbers"):
        metrics.crps(prediction, [0, 1, 0])


class LogisticGaussian(likelihoods.Gaussian):
    """A user's: not a normal distribution any more."""

    def cdf(self, outputs, y, params):
        return torch.sigmoid((y - outputs) / self.scale)


def test_a_subclass_of_the_normal_is_scored_by_its_own_distribution_function():
    prediction = predictive(LogisticGaussian(1.0), torch.zeros(1, 1, 1, dtype=torch.float64), {}, torch.zeros(1))
    expected = 0.3 + 2.0 * np.log1p(np.exp(-0.3)) - 1.0  # y - 2 log F(y) - 1
    assert metrics.crps(prediction, [[0.3]]) == pytest.approx(expected, abs=1e-4)  # the quadrature stops at its ends
