"""Sets of classes hold the right one as often as they promise."""

from __future__ import annotations

import pytest
import torch

from calibration_problems import Classes, mixture_of
from credo.calibration import ConformalSets
from credo.core.rng import Stream
from credo.likelihoods import Bernoulli, Categorical
from credo.predictive import ClassPredictive

LEVEL, ROWS, REPEATS = 0.8, 99, 150


def coverage(adaptive: bool, on_training_rows: bool = False) -> float:
    held = []
    for repeat in range(REPEATS):
        problem = Classes(Stream(repeat))
        x, y = problem.train if on_training_rows else problem.rows(ROWS, "calibration")
        calibrator = ConformalSets.of(problem.predict(x), y, adaptive=adaptive)
        x, y = problem.rows(100, "new")
        prediction = calibrator.apply(problem.predict(x))
        assert isinstance(prediction, ClassPredictive)
        held.append(prediction.prediction_set(LEVEL).gather(1, y.unsqueeze(1)).double().mean())
    return float(torch.stack(held).mean())


# one fit has variance 0.16 (1 / 101 + 1 / 100): four standard errors of 150 fits, an error rate of 6e-5, are 0.019
@pytest.mark.parametrize("adaptive", [False, True])
def test_sets_hold_the_right_class_as_often_as_promised(adaptive: bool) -> None:
    found = coverage(adaptive)
    assert found > LEVEL - 0.019
    if not adaptive:  # whose scores are continuous, and hardly a set is empty
        assert found < LEVEL + 0.019


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_same_check_rejects_calibration_on_training_rows(adaptive: bool) -> None:
    assert coverage(adaptive, on_training_rows=True) < LEVEL - 0.05


def classes(probs: list[list[float]]) -> ClassPredictive:
    found = mixture_of(Categorical(), torch.tensor([probs], dtype=torch.float64).log())
    assert isinstance(found, ClassPredictive)
    return found


def test_without_a_calibrator_a_set_adds_up_probabilities() -> None:
    prediction = classes([[0.6, 0.3, 0.1], [0.05, 0.9, 0.05]])
    assert prediction.prediction_set(0.5).tolist() == [[True, False, False], [False, True, False]]
    assert prediction.prediction_set(0.8).tolist() == [[True, True, False], [False, True, False]]
    assert prediction.prediction_set(0.999).tolist() == [[True, True, True], [True, True, True]]


def test_scores_by_hand() -> None:
    prediction, y = classes([[0.6, 0.3, 0.1]]), torch.tensor([1])
    assert ConformalSets.of(prediction, y).scores.item() == pytest.approx(0.7)
    assert ConformalSets.of(prediction, y, adaptive=True).scores.item() == pytest.approx(0.9)
    regularized = ConformalSets.of(prediction, y, adaptive=True, penalty=0.05, free=0)
    assert regularized.scores.item() == pytest.approx(1.0)  # 0.9 and twice 0.05


def test_the_most_probable_class_always_belongs_and_too_few_rows_give_all() -> None:
    sure = classes([[0.98, 0.01, 0.01]] * 30)
    calibrator = ConformalSets.of(sure, torch.zeros(30, dtype=torch.long))
    doubtful = calibrator.apply(classes([[0.4, 0.35, 0.25]]))
    assert isinstance(doubtful, ClassPredictive)
    assert doubtful.prediction_set(0.9).tolist() == [[True, False, False]]
    assert doubtful.prediction_set(0.99).all()  # 30 rows promise no more than 30 / 31


def test_what_has_no_sets_is_refused() -> None:
    separate = mixture_of(Bernoulli(), torch.zeros(1, 3, 2))
    assert isinstance(separate, ClassPredictive)
    with pytest.raises(ValueError, match="one of K classes"):
        separate.prediction_set(0.9)
    with pytest.raises(ValueError, match="one of K classes"):
        ConformalSets.of(separate, torch.zeros(3, 2))
    with pytest.raises(ValueError, match="class numbers from 0 to 7"):
        ConformalSets.of(classes([[0.6, 0.3, 0.1]] * 2), [0, 7])
