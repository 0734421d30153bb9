"""Risk against coverage and the area under the ROC curve."""

from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from credo import likelihoods, metrics
from credo.predictive import predictive


@pytest.mark.parametrize("decimals", [8, 1, 0])
def test_auroc_equals_scikit_learn_with_and_without_ties(decimals):
    generator = np.random.default_rng(0)
    familiar = generator.normal(size=300).round(decimals)
    unfamiliar = generator.normal(0.7, size=200).round(decimals)
    labels = np.r_[np.zeros(300), np.ones(200)]
    expected = roc_auc_score(labels, np.r_[familiar, unfamiliar])
    assert metrics.auroc(familiar, unfamiliar) == pytest.approx(expected, rel=1e-12)
    assert metrics.auroc(unfamiliar, familiar) == pytest.approx(1 - expected, rel=1e-12)
    if decimals == 0:
        ties_won_twin = (familiar[:, None] <= unfamiliar[None, :]).mean()
        assert ties_won_twin > expected + 0.05


def test_auroc_of_edges():
    assert metrics.auroc([0.0], [1.0]) == 1.0
    assert metrics.auroc([1.0, 1.0], [1.0]) == 0.5
    assert metrics.auroc([0.0], [float("inf")]) == 1.0


def test_curve_equals_sorting():
    generator = np.random.default_rng(0)
    doubt, loss = generator.uniform(size=50), generator.integers(0, 2, size=50)
    ordered = loss[np.argsort(doubt)]
    expected = [ordered[: k + 1].mean() for k in range(50)]
    curve = metrics.risk_coverage_of_losses(doubt, loss)
    assert curve.risk.tolist() == pytest.approx(expected, rel=1e-12)
    assert curve.area == pytest.approx(np.mean(expected), rel=1e-12)
    assert curve.coverage.tolist() == pytest.approx([(k + 1) / 50 for k in range(50)], rel=1e-12)
    most_doubtful_first_twin = metrics.risk_coverage_of_losses(-doubt, loss)
    assert abs(most_doubtful_first_twin.area - curve.area) > 1e-3


def test_ties_count_with_the_mean_over_all_orders():
    doubt, loss = [0.1, 0.5, 0.5, 0.5, 0.9], [0.0, 1.0, 0.0, 3.0, 1.0]
    every_order = [
        [np.mean([0.0, *middle, 1.0][: k + 1]) for k in range(5)] for middle in permutations([1.0, 0.0, 3.0])
    ]
    curve = metrics.risk_coverage_of_losses(doubt, loss)
    assert curve.risk.tolist() == pytest.approx(np.mean(every_order, axis=0).tolist(), rel=1e-12)


def test_reading_the_curve():
    curve = metrics.risk_coverage_of_losses([0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 1.0])
    assert curve.risk_at(0.5) == 0.0
    assert curve.risk_at(1.0) == 0.5
    assert curve.risk_at(0.6) == pytest.approx(1 / 3)
    assert curve.coverage_at(0.0) == 0.5
    assert curve.coverage_at(0.4) == 0.75
    assert metrics.risk_coverage_of_losses([0.0, 0.0], [1.0, 0.0]).coverage_at(0.4) == 0.0


def test_coverage_never_cuts_a_group_of_equal_doubt():
    """At risk 0.4 one could keep three of the four equally doubtful rows only by looking at their answers."""
    curve = metrics.risk_coverage_of_losses([0.1, 0.5, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0, 1.0, 1.0])
    assert curve.coverage_at(0.4) == pytest.approx(0.2)
    assert curve.coverage_at(0.6) == pytest.approx(1.0)


def test_classes_and_numbers():
    draws = torch.randn(3, 60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prediction = predictive(likelihoods.Categorical(), draws, {}, torch.zeros(3, dtype=torch.float64))
    y = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(1))
    curve = metrics.risk_coverage(prediction, y)
    assert curve.risk_at(1.0) == pytest.approx(1 - metrics.accuracy(prediction, y), rel=1e-12)
    by_entropy = metrics.risk_coverage(prediction, y, prediction.entropy)
    assert by_entropy.risk_at(1.0) == pytest.approx(curve.risk_at(1.0), rel=1e-12)

    numbers = predictive(likelihoods.Gaussian(1.0), draws[..., :1], {}, torch.zeros(3, dtype=torch.float64))
    target = torch.zeros(60, dtype=torch.float64)
    curve = metrics.risk_coverage(numbers, target)
    assert curve.risk_at(1.0) == pytest.approx(metrics.rmse(numbers, target) ** 2, rel=1e-12)
    assert curve.doubt[0] == numbers.variance.min()


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="NaN"):
        metrics.auroc([float("nan")], [1.0])
    with pytest.raises(ValueError, match="at least one entry"):
        metrics.auroc([], [1.0])
    with pytest.raises(ValueError, match="they must agree"):
        metrics.risk_coverage_of_losses([0.1], [0.0, 1.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.risk_coverage_of_losses([0.1], [0.0]).risk_at(1.5)
