"""An evaluation says what the held-out rows say, and survives the way to disk and back."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from credo.core.record import Record
from credo.core.storage import StorageError
from credo.evaluation.evaluate import POINTS, HeldOutRows, _thinned, evaluate
from credo.evaluation.scores import naive_numbers
from credo.evaluation.values import Evaluation
from credo.metrics import risk_coverage_of_losses
from credo.tabular import TableRun


@pytest.mark.parametrize("which", ["numbers", "classes", "single"])
def test_an_evaluation_comes_back_from_json(which: str, request: pytest.FixtureRequest) -> None:
    evaluation = request.getfixturevalue(which).evaluation
    text = json.dumps(evaluation.to_json(), allow_nan=False)
    assert Evaluation.from_json({"schema": 1, **json.loads(text)}) == evaluation


@pytest.mark.parametrize("data", [{}, {"kind": "Check"}, {"kind": "Evaluation"}, {"kind": "os.system"}, {"kind": []}])
def test_what_is_no_evaluation_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(StorageError, match="evaluation"):
        Evaluation.from_json(data)


def test_the_numbers_are_those_of_the_predictions_that_are_written(numbers: TableRun) -> None:
    frame, evaluation = numbers.predictions, numbers.evaluation
    errors = frame["mean"] - frame["observed"]
    # predictions are decoded after their moments were taken, the evaluation before: rounding in float32 remains
    assert evaluation.score("rmse").model == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-5)
    inside = (frame["lower"] <= frame["observed"]) & (frame["observed"] <= frame["upper"])
    assert evaluation.score("coverage").model == inside.mean()
    assert evaluation.held_out == len(frame) == 80
    assert evaluation.trained == 320
    assert evaluation.epistemic_share == pytest.approx(
        frame["epistemic"].sum() / (frame["epistemic"] + frame["aleatoric"]).sum(), rel=1e-5
    )  # likewise


def evaluated(factor: float, rows: int = 60) -> Evaluation:
    """Standard normal targets, predicted by a normal distribution of that scale."""
    rng = np.random.default_rng(0)
    known, y = torch.from_numpy(factor * rng.normal(size=1000)), torch.from_numpy(rng.normal(size=rows))
    guess, frame = naive_numbers(known, rows), pd.DataFrame({"x": np.zeros(rows)})
    return evaluate(HeldOutRows(guess, (), guess, y, np.arange(rows) + 1, frame, frame, "y", (), Record()))


@pytest.mark.parametrize(("factor", "words"), [(1.0, "Yes"), (2.5, "They are too wide"), (0.4, "They are too narrow")])
def test_error_bars_are_judged_by_their_tails_and_their_middle(factor: float, words: str) -> None:
    answers = {check.question: check.answer for check in evaluated(factor).checks}
    assert answers["Are the error bars honest?"].startswith(words)


def test_classes_are_counted(classes: TableRun) -> None:
    frame, evaluation = classes.predictions, classes.evaluation
    right = frame["label"] == frame["observed"]
    assert evaluation.score("accuracy").model == right.mean()
    confusion = np.array(evaluation.confusion)
    assert confusion.sum() == len(frame)
    assert np.trace(confusion) == right.sum()
    for i, name in enumerate(evaluation.classes):
        assert confusion[i].sum() == (frame["observed"] == name).sum()


def test_the_model_learns_what_there_is_to_learn(numbers: TableRun, classes: TableRun) -> None:
    rmse, accuracy = numbers.evaluation.score("rmse"), classes.evaluation.score("accuracy")
    assert rmse.model is not None
    assert rmse.naive is not None
    assert rmse.model < 0.5 * rmse.naive
    assert accuracy.model is not None
    assert accuracy.model > 0.85


def test_a_single_network_is_not_compared_with_itself(single: TableRun, numbers: TableRun) -> None:
    assert all(score.plain is None for score in single.evaluation.scores)
    assert all(score.plain is not None for score in numbers.evaluation.scores)
    assert single.evaluation.familiarity.threshold is None
    assert single.evaluation.epistemic_share == 0.0


def test_the_most_doubtful_rows_come_first(numbers: TableRun) -> None:
    doubtful = numbers.evaluation.doubtful
    by_row = numbers.predictions.set_index("row")["stddev"]
    scores = [by_row[row.row] for row in doubtful]
    assert scores == pytest.approx(sorted(scores, reverse=True), rel=1e-5)  # decoded before or after, in float32
    assert scores[0] == pytest.approx(by_row.max(), rel=1e-5)
    flags = numbers.predictions.set_index("row")["unfamiliar"]
    assert all(row.unfamiliar == flags[row.row] for row in doubtful)
    assert [name for name, _ in doubtful[0].features] == ["x", "z", "color"]


def test_the_least_sure_rows_of_classes_are_those_of_the_least_confidence(classes: TableRun) -> None:
    """Not those about whose logits the networks disagree, however sure all of them are."""
    frame = classes.predictions.set_index("row")
    confidence = frame.filter(like="probability_").max(axis=1)
    shown = [confidence[row.row] for row in classes.evaluation.doubtful]
    assert shown == sorted(shown)
    assert shown[0] == confidence.min()
    by_disagreement_twin = frame["unfamiliarity"].nlargest(8).index
    assert set(by_disagreement_twin) != {row.row for row in classes.evaluation.doubtful}


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    doubt = torch.arange(5000, dtype=torch.float64)
    curve = _thinned(risk_coverage_of_losses(doubt, doubt))
    assert len(curve.kept) == POINTS
    assert (curve.kept[0], curve.kept[-1]) == (1 / 5000, 1.0)
