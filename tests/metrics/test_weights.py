"""An example that weighs two is one that comes twice, in every metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from credo import Stream, likelihoods, metrics
from credo.predictive import Predictive, predictive

N = 40
RNG = Stream(2)
WEIGHTS = torch.randint(0, 4, (N,), generator=RNG.child("weights").generator())
TWICE = torch.repeat_interleave(torch.arange(N), WEIGHTS)
"""The examples as often as they weigh."""
CLASSES = torch.randint(0, 3, (N,), generator=RNG.child("classes").generator())
YES = torch.randint(0, 2, (N, 2), generator=RNG.child("yes").generator())
COUNTS = torch.randint(0, 5, (N, 1), generator=RNG.child("counts").generator())
NUMBERS = RNG.child("numbers").normal(N, 2, dtype=torch.float64)
OUTPUTS = RNG.child("outputs").normal(4, N, 3, dtype=torch.float64)
LOG_WEIGHTS = torch.tensor([0.0, 0.3, -1.0, 0.5], dtype=torch.float64)
DOUBT = (RNG.child("doubt").normal(N) * 2).round()  # with ties

Maker = Callable[[Tensor], Predictive]


def mixture(likelihood: likelihoods.Likelihood, outputs: int) -> Maker:
    return lambda rows: predictive(likelihood, OUTPUTS[:, rows, :outputs], {}, LOG_WEIGHTS)


GAUSSIAN = mixture(likelihoods.Gaussian(0.7), 2)
CATEGORICAL = mixture(likelihoods.Categorical(), 3)
BERNOULLI = mixture(likelihoods.Bernoulli(), 2)
POISSON = mixture(likelihoods.Poisson(), 1)
TOY: dict[str, tuple[Callable[..., Any], Callable[[Tensor], tuple[Any, ...]]]] = {
    "rmse": (metrics.rmse, lambda i: (GAUSSIAN(i), NUMBERS[i])),
    "rmse of points": (metrics.rmse, lambda i: (OUTPUTS[0, i, :2], NUMBERS[i])),
    "mae": (metrics.mae, lambda i: (GAUSSIAN(i), NUMBERS[i])),
    "log likelihood": (metrics.log_likelihood, lambda i: (GAUSSIAN(i), NUMBERS[i])),
    "log likelihood of classes": (metrics.log_likelihood, lambda i: (CATEGORICAL(i), CLASSES[i])),
    "log likelihood of probabilities": (metrics.log_likelihood, lambda i: (CATEGORICAL(i).mean, CLASSES[i])),
    "coverage": (metrics.coverage, lambda i: (GAUSSIAN(i), NUMBERS[i], 0.5)),
    "coverage of ends": (metrics.coverage, lambda i: ((OUTPUTS[0, i, :2] - 1, OUTPUTS[0, i, :2]), NUMBERS[i])),
    "sharpness": (metrics.sharpness, lambda i: (GAUSSIAN(i),)),
    "crps": (metrics.crps, lambda i: (GAUSSIAN(i), NUMBERS[i])),
    "crps of counts": (metrics.crps, lambda i: (POISSON(i), COUNTS[i])),
    "accuracy": (metrics.accuracy, lambda i: (CATEGORICAL(i), CLASSES[i])),
    "accuracy of labels": (metrics.accuracy, lambda i: (CLASSES.roll(1)[i], CLASSES[i])),
    "accuracy of decisions": (metrics.accuracy, lambda i: (BERNOULLI(i), YES[i])),
    "brier": (metrics.brier, lambda i: (CATEGORICAL(i), CLASSES[i])),
    "brier of decisions": (metrics.brier, lambda i: (BERNOULLI(i), YES[i])),
    "calibration error": (metrics.expected_calibration_error, lambda i: (CATEGORICAL(i), CLASSES[i], 7)),
    "calibration error of decisions": (metrics.expected_calibration_error, lambda i: (BERNOULLI(i), YES[i])),
    "coverage curve": (lambda *a, **k: metrics.coverage_curve(*a, **k).error, lambda i: (GAUSSIAN(i), NUMBERS[i])),
    "largest gap": (
        lambda *a, **k: metrics.reliability_curve(*a, **k).largest_error,
        lambda i: (CATEGORICAL(i), CLASSES[i], 3),
    ),
    "risk of a part": (
        lambda *a, **k: metrics.risk_coverage(*a, **k).risk[-1].item(),
        lambda i: (CATEGORICAL(i), CLASSES[i]),
    ),
}
every_metric = pytest.mark.parametrize(("metric", "of"), TOY.values(), ids=TOY.keys())
ALL = torch.arange(N)


@every_metric
def test_a_weight_of_two_is_an_example_that_comes_twice(metric: Callable[..., Any], of: Any) -> None:
    repeated = metric(*of(TWICE))
    assert metric(*of(ALL), weights=WEIGHTS) == pytest.approx(repeated, rel=1e-12)
    assert metric(*of(ALL), weights=WEIGHTS.numpy() / 7.0) == pytest.approx(repeated, rel=1e-12), "any unit will do"
    assert metric(*of(ALL), weights=[1.0] * N) == pytest.approx(metric(*of(ALL)), rel=1e-12)
    assert abs(metric(*of(ALL)) - repeated) > 1e-6, "the twin without weights is told apart"


@pytest.mark.parametrize("bins", [1, 4, 7, 15])
def test_bins_of_equal_mass_hold_equal_weights(bins: int) -> None:
    repeated = metrics.reliability_curve(CATEGORICAL(TWICE), CLASSES[TWICE], bins, equal_mass=True)
    weighted = metrics.reliability_curve(CATEGORICAL(ALL), CLASSES, bins, equal_mass=True, weights=WEIGHTS)
    torch.testing.assert_close(weighted.count, repeated.count, rtol=0, atol=0)
    torch.testing.assert_close(weighted.accuracy, repeated.accuracy, rtol=1e-12, atol=0)
    thirds = metrics.reliability_curve(CATEGORICAL(ALL), CLASSES, bins, equal_mass=True, weights=WEIGHTS.double() / 3)
    torch.testing.assert_close(thirds.count * 3, repeated.count, rtol=1e-12, atol=0)


def test_the_risk_of_every_part_that_can_be_kept_is_that_of_repeated_examples() -> None:
    losses = NUMBERS[:, 0].square()
    weighted = metrics.risk_coverage_of_losses(DOUBT, losses, weights=WEIGHTS)
    repeated = metrics.risk_coverage_of_losses(DOUBT[TWICE], losses[TWICE])
    total = float(WEIGHTS.sum())
    for doubt in DOUBT.unique():
        mine, theirs = ((curve.doubt <= doubt).nonzero().max() for curve in (weighted, repeated))
        assert weighted.coverage[mine] == pytest.approx(float(repeated.coverage[theirs]), rel=1e-12)
        assert weighted.risk[mine] == pytest.approx(float(repeated.risk[theirs]), rel=1e-12)
        kept = doubt >= DOUBT
        by_hand = (losses * WEIGHTS)[kept].sum() / WEIGHTS[kept].sum()
        assert weighted.risk[mine] == pytest.approx(float(by_hand), rel=1e-12)
        assert weighted.coverage[mine] == pytest.approx(float(WEIGHTS[kept].sum()) / total, rel=1e-12)
    # a weight of two is one step of the curve and not two, so that the areas are those of two staircases
    assert weighted.area == pytest.approx(repeated.area, rel=0.1)
    assert len(weighted.risk) == int((WEIGHTS > 0).sum())


def test_auroc_of_pairs_by_weight() -> None:
    low, high = DOUBT[:25], DOUBT[25:] + 1
    first, second = WEIGHTS[:25], WEIGHTS[25:]
    found = metrics.auroc(low, high, familiar_weights=first, unfamiliar_weights=second)
    repeated = metrics.auroc(low.repeat_interleave(first), high.repeat_interleave(second))
    assert found == pytest.approx(repeated, rel=1e-12)
    wins = (high[:, None] > low).double() + 0.5 * (high[:, None] == low)
    by_hand = (wins * first * second[:, None]).sum() / (first.sum() * second.sum())
    assert found == pytest.approx(float(by_hand), rel=1e-12)
    assert found != pytest.approx(metrics.auroc(low, high), rel=1e-6)
    assert metrics.auroc(low, high, familiar_weights=first) == pytest.approx(
        metrics.auroc(low.repeat_interleave(first), high), rel=1e-12
    )


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.aupr, metrics.false_positive_rate])
def test_measures_of_detection_by_weight_are_those_of_repeated_inputs(metric: Callable[..., float]) -> None:
    low, high = DOUBT[:25], DOUBT[25:] + 1
    first, second = WEIGHTS[:25], WEIGHTS[25:]
    found = metric(low, high, familiar_weights=first, unfamiliar_weights=second)
    repeated = metric(low.repeat_interleave(first), high.repeat_interleave(second))
    assert found == pytest.approx(repeated, rel=1e-12)
    assert found == pytest.approx(
        metric(low, high, familiar_weights=first / 7, unfamiliar_weights=second / 7), rel=1e-6
    )
    assert abs(found - metric(low, high)) > 1e-6, "the twin without weights"
    with pytest.raises(ValueError, match="unfamiliar_weights has negative values"):
        metric(low, high, unfamiliar_weights=-second)


def test_an_impossible_example_that_weighs_nothing_does_not_count() -> None:
    probs, weights = [[1.0, 0.0], [0.5, 0.5]], [0, 1]
    assert metrics.log_likelihood(probs, [1, 0]) == -math.inf
    assert metrics.log_likelihood(probs, [1, 0], weights=weights) == pytest.approx(math.log(0.5), rel=1e-12)


BAD = {
    "too few": (np.ones(N - 1), r"weights has shape \(39,\), and there are 40 examples"),
    "a half": (np.ones(N // 2), r"weights has shape \(20,\), and there are 40 examples"),
    "for each target": (np.ones((N, 2)), r"weights has shape \(40, 2\), and there are 40 examples"),
    "negative": (-np.ones(N), "weights has negative values"),
    "NaN": (np.full(N, np.nan), "weights has NaN or infinite values"),
    "zero": (np.zeros(N), "weights are all zero: no example would count"),
}


@pytest.mark.parametrize(("weights", "message"), BAD.values(), ids=BAD.keys())
@every_metric
def test_bad_weights_get_a_sentence(metric: Callable[..., Any], of: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric(*of(ALL), weights=weights)
