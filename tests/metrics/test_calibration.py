"""Reliability, calibration error, coverage curves and the probability integral transform."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from sklearn.calibration import calibration_curve

from credo import likelihoods, metrics
from credo.predictive import predictive


def confident_classes(count: int = 500, classes: int = 4):
    generator = np.random.default_rng(3)
    probs = generator.dirichlet(np.full(classes, 0.3), size=count)
    return probs, (generator.uniform(size=(count, 1)) > probs.cumsum(1)[:, :-1]).sum(1)


def brute_force(confidence, right, edges) -> float:
    """The definition, bin by bin, with bins (a, b]."""
    total = 0.0
    for a, b in itertools.pairwise(edges):
        inside = [i for i, c in enumerate(confidence) if a < c <= b]
        if inside:
            gap = sum(right[i] for i in inside) / len(inside) - sum(confidence[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(gap)
    return total


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_equal_width_error_equals_the_definition(bins):
    probs, y = confident_classes()
    right = probs.argmax(1) == y
    expected = brute_force(probs.max(1), right, np.linspace(0, 1, bins + 1))
    assert metrics.expected_calibration_error(probs, y, bins) == pytest.approx(expected, rel=1e-12)
    worst_class_twin = brute_force(probs.min(1), right, np.linspace(0, 1, bins + 1))
    assert abs(metrics.expected_calibration_error(probs, y, bins) - worst_class_twin) > 0.05


def test_equal_mass_error_equals_sorting_and_cutting():
    probs, y = confident_classes(count=600)
    order = np.argsort(probs.max(1))
    confidence, right = probs.max(1)[order], (probs.argmax(1) == y)[order]
    pieces = zip(np.array_split(confidence, 15), np.array_split(right, 15), strict=True)
    expected = sum(abs(c.mean() - r.mean()) * len(c) / 600 for c, r in pieces)
    ours = metrics.expected_calibration_error(probs, y, 15, equal_mass=True)
    assert ours == pytest.approx(expected, rel=1e-12)
    assert abs(ours - metrics.expected_calibration_error(probs, y, 15)) > 1e-4
    assert metrics.reliability_curve(probs, y, 15, equal_mass=True).count.tolist() == [40.0] * 15


def test_ties_share_a_bin_whatever_the_order():
    confidence = np.array([0.6] * 50 + [0.9] * 50)
    right = np.array([1] * 30 + [0] * 20 + [1] * 45 + [0] * 5)
    curve = metrics.reliability_of_scores(confidence, right, 10, equal_mass=True)
    assert curve.count.tolist() == [50.0, 50.0]
    assert curve.accuracy.tolist() == pytest.approx([0.6, 0.9], rel=1e-12)
    assert curve.expected_error == pytest.approx(0.0, abs=1e-12)
    cut_twin = sum(
        abs(c.mean() - r.mean()) * len(c) / 100
        for c, r in zip(np.array_split(confidence, 10), np.array_split(right, 10), strict=True)
    )
    assert cut_twin > 0.1  # cutting ties by the order of the rows calls a perfect prediction bad


@pytest.mark.parametrize(("equal_mass", "strategy"), [(False, "uniform"), (True, "quantile")])
def test_curve_of_scores_equals_scikit_learn(equal_mass, strategy):
    generator = np.random.default_rng(0)
    stated = generator.uniform(size=1000)
    right = generator.uniform(size=1000) < stated**2
    accuracy, confidence = calibration_curve(right, stated, n_bins=10, strategy=strategy)
    curve = metrics.reliability_of_scores(stated, right, 10, equal_mass=equal_mass)
    # scikit-learn's quantile edges lie between two examples and may move one of them to the next bin
    tolerance = 0.02 if equal_mass else 1e-12
    assert curve.accuracy.tolist() == pytest.approx(accuracy.tolist(), abs=tolerance)
    assert curve.confidence.tolist() == pytest.approx(confidence.tolist(), abs=tolerance)


def test_sure_predictions_fall_into_the_last_bin():
    curve = metrics.reliability_curve([[1.0, 0.0], [0.0, 1.0]], [0, 0], 10)
    assert curve.count.tolist() == [2.0]
    assert (curve.expected_error, curve.largest_error) == (0.5, 0.5)
    assert curve.gap.tolist() == [-0.5]


def test_calibrated_classes_have_a_small_error_and_sharpened_ones_do_not():
    """With 50,000 examples in 15 bins the error of honest probabilities is of order sqrt(15 / 50,000) / 2."""
    generator = np.random.default_rng(1)
    probs = generator.dirichlet(np.ones(3), size=50_000)
    y = (generator.uniform(size=(50_000, 1)) > probs.cumsum(1)).sum(1)
    assert metrics.expected_calibration_error(probs, y) < 0.015
    sharpened = probs**2 / (probs**2).sum(1, keepdims=True)
    assert metrics.expected_calibration_error(sharpened, y) > 0.05


def simulated(count: int, likelihood, seed: int = 0):
    """A mixture of three draws, and observations drawn from it (one draw for each input)."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(3, count, 1, generator=generator, dtype=torch.float64)
    prediction = predictive(likelihood, draws, {}, torch.tensor([0.2, 0.3, 0.5]).double().log())
    picked = torch.multinomial(prediction.weights, count, replacement=True, generator=generator)
    chosen = draws[picked, torch.arange(count)]
    return prediction, likelihood.sample(chosen, {}, generator)


@pytest.mark.parametrize("likelihood", [likelihoods.Gaussian(0.5), likelihoods.Poisson()])
def test_transform_is_uniform_for_the_truth(likelihood):
    prediction, y = simulated(4000, likelihood)
    values = metrics.pit(prediction, y).flatten().numpy()
    assert kstest(values, "uniform").pvalue > 1e-4  # rejects the truth once in ten thousand seeds
    one_draw_twin = predictive(likelihood, prediction.draws[:1], {}, torch.zeros(1).double())
    assert kstest(metrics.pit(one_draw_twin, y).flatten().numpy(), "uniform").pvalue < 1e-8


def test_counts_need_the_jump_filled():
    prediction, y = simulated(4000, likelihoods.Poisson())
    unfilled_twin = prediction.cdf(y).flatten().numpy()
    assert kstest(unfilled_twin, "uniform").pvalue < 1e-8
    assert torch.equal(metrics.pit(prediction, y, seed=1), metrics.pit(prediction, y, seed=1))
    assert not torch.equal(metrics.pit(prediction, y, seed=1), metrics.pit(prediction, y, seed=2))


def test_transform_equals_scipy():
    draws = torch.tensor([[[0.0]], [[2.0]]], dtype=torch.float64)
    prediction = predictive(likelihoods.Gaussian(1.5), draws, {}, torch.tensor([0.25, 0.75]).double().log())
    expected = 0.25 * norm.cdf(1.0, 0.0, 1.5) + 0.75 * norm.cdf(1.0, 2.0, 1.5)
    assert float(metrics.pit(prediction, [1.0])) == pytest.approx(expected, rel=1e-12)


def test_coverage_curve_equals_coverage_at_each_level():
    prediction, y = simulated(500, likelihoods.Gaussian(0.5))
    curve = metrics.coverage_curve(prediction, y, [0.1, 0.5, 0.9])
    expected = [metrics.coverage(prediction, y, level) for level in (0.1, 0.5, 0.9)]
    assert curve.coverage.tolist() == pytest.approx(expected, abs=1e-12)


def test_coverage_curve_is_the_diagonal_for_the_truth():
    prediction, y = simulated(20_000, likelihoods.Gaussian(0.5))
    curve = metrics.coverage_curve(prediction, y)
    assert len(curve.level) == 19
    assert float((curve.coverage - curve.level).abs().max()) < 0.0195  # Kolmogorov's bound at error rate 1e-6
    too_sure_twin = predictive(likelihoods.Gaussian(0.25), prediction.draws, {}, prediction.log_weights)
    assert metrics.coverage_curve(too_sure_twin, y).error > 0.05


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        metrics.reliability_curve([[0.5, 0.5]], [0], 0)
    with pytest.raises(ValueError, match="right has 1 entries"):
        metrics.reliability_of_scores([0.5, 0.5], [True])
    prediction, y = simulated(5, likelihoods.Gaussian(0.5))
    with pytest.raises(ValueError, match="levels must lie between"):
        metrics.coverage_curve(prediction, y, [0.5, 1.0])
