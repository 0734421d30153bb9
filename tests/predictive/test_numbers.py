"""Mixtures over numbers: distribution function, quantiles, intervals and entropy are the mixture's own."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special, stats
from torch import Tensor

from credo.core.rng import Stream
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian, Poisson
from credo.predictive import NumericPredictive, predictive

MEANS = np.array([-2.0, 0.5, 3.0])
SCALES = np.array([0.5, 1.0, 0.2])
WEIGHTS = np.array([0.2, 0.5, 0.3])


def normals(means=MEANS, scales=SCALES, weights=WEIGHTS, dtype=torch.float64) -> NumericPredictive:
    """One target at one input: a mixture of normals."""
    draws = torch.as_tensor(np.asarray(means), dtype=dtype).reshape(-1, 1, 1)
    params = {"log_scale": torch.as_tensor(np.log(scales), dtype=dtype).reshape(-1, 1)}
    return predictive(LearnedGaussian(), draws, params, torch.as_tensor(np.log(weights), dtype=dtype))


def counts(rates, weights=None) -> NumericPredictive:
    draws = torch.tensor(np.log(rates), dtype=torch.float64).reshape(-1, 1, 1)
    even = np.full(len(rates), 1 / len(rates))
    return predictive(Poisson(), draws, {}, torch.as_tensor(np.log(even if weights is None else weights)))


def cdf(y: float, means=MEANS, scales=SCALES, weights=WEIGHTS) -> float:
    return float(weights @ stats.norm.cdf(y, means, scales))


@pytest.mark.parametrize("level", [0.001, 0.025, 0.2, 0.5, 0.9, 0.999])
def test_quantiles_of_the_mixture(level):
    found = float(normals().quantile(level))
    assert found == pytest.approx(optimize.brentq(lambda y: cdf(y) - level, -10, 10, xtol=1e-14), abs=1e-9)
    assert float(normals().cdf(torch.tensor([[found]], dtype=torch.float64))) == pytest.approx(level, abs=1e-9)


def test_a_fitted_gaussian_has_other_quantiles():
    """The twin: mean +- 1.96 standard deviations of a mixture with two peaks."""
    means, scales, weights = np.array([-1.0, 1.0]), np.array([0.05, 0.05]), np.array([0.5, 0.5])
    prediction = normals(means, scales, weights)
    lower, upper = prediction.interval(0.95)
    inside = cdf(float(upper), means, scales, weights) - cdf(float(lower), means, scales, weights)
    assert inside == pytest.approx(0.95, abs=1e-9)
    low = float(prediction.mean - 1.96 * prediction.stddev)
    high = float(prediction.mean + 1.96 * prediction.stddev)
    assert cdf(high, means, scales, weights) - cdf(low, means, scales, weights) > 0.9999
    assert float(upper) == pytest.approx(1.0 + 0.05 * stats.norm.ppf(0.95), abs=1e-9)
    assert abs(high - float(upper)) > 0.5
    # between the peaks the median is anywhere; just left of it lies the lower peak
    assert float(prediction.quantile(0.49)) < -0.8 < 0.8 < float(prediction.quantile(0.51))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_by_simulation(level):
    """Targets drawn from the mixture fall between the ends as often as they should; error rate 1e-6."""
    draws = 2.0 * Stream(0).normal(20, 50, 2, dtype=torch.float64)
    scales = {"log_scale": 0.5 * Stream(1).normal(20, 2, dtype=torch.float64)}
    prediction = predictive(LearnedGaussian(), draws, scales, Stream(2).normal(20))
    y = prediction.sample(2000, seed=1)
    assert covers(prediction.interval(level), y, level)
    half = stats.norm.ppf(0.5 + level / 2) * prediction.aleatoric.sqrt()
    assert not covers((prediction.mean - half, prediction.mean + half), y, level)


def covers(interval: tuple[Tensor, Tensor], y: Tensor, level: float) -> bool:
    inside = ((y > interval[0]) & (y < interval[1])).double().mean(0)
    limit = stats.norm.isf(1e-6 / (2 * inside.numel())) * math.sqrt(level * (1 - level) / len(y))
    return bool(((inside - level).abs() < limit).all())


def test_the_two_tails_are_equal():
    lower, upper = normals().interval(0.8)
    assert cdf(float(lower)) == pytest.approx(0.1, abs=1e-9)
    assert cdf(float(upper)) == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_quantiles_in_any_unit_in_float32(scale):
    prediction = normals([0.0, 0.0], [scale, scale], [0.5, 0.5], dtype=torch.float32)
    assert float(prediction.quantile(0.975)) == pytest.approx(scale * stats.norm.ppf(0.975), rel=1e-4)  # float32


@pytest.mark.parametrize(("rates", "weights"), [([3.0], [1.0]), ([1.0, 20.0], [0.7, 0.3]), ([1e-8, 400.0], [0.5, 0.5])])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.69, 0.71, 0.975])
def test_quantiles_of_counts_are_counts(rates, weights, level):
    found = float(counts(rates, weights).quantile(level))
    assert found == int(found) >= 0
    grid = np.arange(1000)
    below = np.asarray(weights) @ stats.poisson.cdf(grid, np.asarray(rates)[:, None])
    assert found == grid[below >= level][0]


def test_cdf_takes_columns_rows_and_numbers():
    draws = Stream(0).normal(5, 3, 1, dtype=torch.float64)
    prediction = predictive(Gaussian(), draws, {}, torch.zeros(5))
    y = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    expected = stats.norm.cdf(y.numpy()[:, None], draws.numpy()[:, :, :]).mean(0)
    for given in (y, y.unsqueeze(1)):
        assert prediction.cdf(given).shape == (3, 1)
        np.testing.assert_allclose(prediction.cdf(given), expected, atol=1e-12)
    np.testing.assert_allclose(prediction.cdf(0.1)[0], expected[0], atol=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_levels_are_checked(level):
    for ask in (normals().quantile, normals().interval):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            ask(level)


def entropy_by_quadrature(means, scales, weights) -> float:
    def information(y: float) -> float:
        log_p = special.logsumexp(stats.norm.logpdf(y, means, scales), b=weights)
        return -math.exp(log_p) * log_p

    cuts = sorted(m + k * s for m, s in zip(means, scales, strict=True) for k in (-9, -4, -1, 0, 1, 4, 9))
    pairs = zip(cuts[:-1], cuts[1:], strict=False)  # noqa: RUF007 (floats, one by one)
    return sum(integrate.quad(information, a, b, epsabs=1e-13)[0] for a, b in pairs)


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 300.0])
def test_entropy_against_quadrature(spread):
    found = float(normals(spread * MEANS).entropy)
    assert found == pytest.approx(entropy_by_quadrature(spread * MEANS, SCALES, WEIGHTS), abs=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_apart_components_add_log_two(dtype):
    prediction = normals([-500.0, 500.0], [0.01, 0.01], [0.5, 0.5], dtype=dtype)
    single = 0.5 * math.log(2 * math.pi * math.e * 1e-4)
    # float32: around 500 numbers are 3e-5 apart, a 300th of the scale
    tolerance = 1e-7 if dtype == torch.float64 else 1e-3
    assert float(prediction.entropy) == pytest.approx(single + math.log(2), abs=tolerance)
    assert float(prediction.expected_entropy) == pytest.approx(single, abs=1e-5)
    assert float(prediction.mutual_information) == pytest.approx(math.log(2), abs=tolerance)


def test_entropy_of_mixed_counts():
    rates, weights = np.array([0.5, 30.0, 5000.0]), np.array([0.5, 0.3, 0.2])
    k = np.arange(7000)
    log_p = special.logsumexp(stats.poisson.logpmf(k[:, None], rates), b=weights, axis=1)
    prediction = counts(rates, weights)
    assert float(prediction.entropy) == pytest.approx(float(-(np.exp(log_p) * log_p).sum()), abs=1e-7)
    each = [-(stats.poisson.pmf(k, r) * np.nan_to_num(stats.poisson.logpmf(k, r), neginf=0)).sum() for r in rates]
    assert float(prediction.expected_entropy) == pytest.approx(float(weights @ each), abs=1e-7)


@pytest.mark.parametrize("likelihood", [Gaussian(scale=0.5), LearnedGaussian(), HeteroscedasticGaussian(), Poisson()])
def test_mutual_information_is_never_negative_and_zero_without_disagreement(likelihood):
    draws = Stream(0).normal(6, 5, 2, dtype=torch.float64)
    params = {n: Stream(1).normal(6, *p.shape, dtype=torch.float64) for n, p in likelihood.parameters(2).items()}
    prediction = predictive(likelihood, draws, params, Stream(2).normal(6))
    gap = prediction.entropy - prediction.expected_entropy
    assert bool((gap > 1e-4).all())
    assert torch.equal(prediction.mutual_information, gap)
    same = predictive(
        likelihood, draws[:1].expand(6, 5, 2), {n: p[:1].expand(6, 2) for n, p in params.items()}, torch.zeros(6)
    )
    torch.testing.assert_close(same.mutual_information, torch.zeros_like(same.mean), rtol=0, atol=1e-8)


def test_an_exploding_rate_does_not_stop_the_others():
    """A net extrapolating far out gives log rates of 100: infinite in float32, and no reason to fail or to hang."""
    draws = torch.tensor([[[100.0], [1.0]], [[30.0], [2.0]]])
    prediction = predictive(Poisson(), draws, {}, torch.zeros(2))
    alone = predictive(Poisson(), draws[:, 1:], {}, torch.zeros(2))
    assert float(prediction.quantile(0.9)[1]) == float(alone.quantile(0.9))
    assert float(prediction.entropy[1]) == pytest.approx(float(alone.entropy), abs=1e-5)
    assert float(prediction.mean[0]) == math.inf
