"""Accuracy and the Brier score against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, brier_score_loss

from credo import likelihoods, metrics
from credo.predictive import predictive


def random_classes(classes: int, count: int = 200):
    generator = np.random.default_rng(classes)
    return generator.dirichlet(np.ones(classes), size=count), generator.integers(0, classes, size=count)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scores_equal_scikit_learn(classes):
    probs, y = random_classes(classes)
    assert metrics.accuracy(probs, y) == accuracy_score(y, probs.argmax(1))
    expected = brier_score_loss(y, probs, labels=range(classes), scale_by_half=False)
    assert metrics.brier(probs, y) == pytest.approx(expected, rel=1e-12)
    one_column_twin = np.mean((1 - probs[np.arange(len(y)), y]) ** 2)
    assert abs(metrics.brier(probs, y) - one_column_twin) > 0.05


def test_predictive_arrays_and_labels_agree():
    draws = torch.randn(6, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prediction = predictive(likelihoods.Categorical(), draws, {}, torch.zeros(6, dtype=torch.float64))
    y = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(1))
    assert metrics.accuracy(prediction, y) == metrics.accuracy(prediction.probs, y)
    assert metrics.accuracy(prediction, y) == metrics.accuracy(prediction.label, y)
    assert metrics.brier(prediction, y) == metrics.brier(prediction.probs.numpy(), y.numpy())
    averaged_logits_twin = draws.mean(0).softmax(-1)
    assert metrics.brier(prediction, y) != pytest.approx(metrics.brier(averaged_logits_twin, y), abs=1e-3)


def test_the_probability_of_yes_alone_will_do():
    yes, y = np.array([0.9, 0.2, 0.6]), np.array([1, 0, 0])
    assert metrics.accuracy(yes, y) == 2 / 3
    assert metrics.brier(yes, y) == pytest.approx(2 * brier_score_loss(y, yes), rel=1e-12)
    assert metrics.brier(yes[:, None], y[:, None]) == metrics.brier(yes, y)


def test_separate_targets_are_separate_decisions():
    draws = torch.tensor([[[2.0, -2.0], [3.0, 1.0]]], dtype=torch.float64)
    prediction = predictive(likelihoods.Bernoulli(), draws, {}, torch.zeros(1, dtype=torch.float64))
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert metrics.accuracy(prediction, y) == 0.75
    yes = prediction.probs.reshape(-1).numpy()
    assert metrics.brier(prediction, y) == pytest.approx(2 * np.mean((yes - y.reshape(-1).numpy()) ** 2), rel=1e-12)


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="sum to one"):
        metrics.brier([[0.9, 0.9]], [0])
    with pytest.raises(ValueError, match="they must be 0 to 1"):
        metrics.brier([[0.5, 0.5]], [2])
    with pytest.raises(ValueError, match="they must agree"):
        metrics.accuracy([[0.5, 0.5]], [0, 1])
    with pytest.raises(ValueError, match="they must agree"):
        metrics.accuracy([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="y holds fractions"):
        metrics.accuracy([[0.5, 0.5]], [0.5])
    numbers = predictive(likelihoods.Gaussian(), torch.zeros(1, 3, 1), {}, torch.zeros(1))
    with pytest.raises(TypeError, match="over classes"):
        metrics.accuracy(numbers, [0, 0, 0])


OF_CLASSES = [metrics.accuracy, metrics.brier, metrics.log_likelihood, metrics.expected_calibration_error]


@pytest.mark.parametrize("metric", OF_CLASSES, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_classes_that_are_not_finite_are_refused(metric, bad):
    probs = [[0.6, 0.4], [0.3, 0.7]]
    metric(probs, [0.0, 1.0])
    with pytest.raises(ValueError, match="y has NaN or infinite values"):
        metric(probs, [0.0, bad])


def test_class_numbers_are_compared_with_finite_ones_only():
    assert metrics.accuracy([0, 1, 1], [0.0, 1.0, 0.0]) == 2 / 3
    with pytest.raises(ValueError, match="y has NaN or infinite values"):
        metrics.accuracy([0, 1, 1], [0.0, 1.0, np.nan])
