"""A column of the table that says how much each row counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from credo import metrics
from credo.core.storage import StorageError
from credo.data import DataError
from credo.evaluation.checks import beats_naive
from credo.evaluation.scores import naive_classes, naive_numbers
from credo.tabular import TableRun, fit_table, open_run

QUICK: dict[str, Any] = {"epochs": 12, "drop": ["kind"], "weights": "w"}


@pytest.fixture
def weighted(whole: pd.DataFrame) -> pd.DataFrame:
    """The table with weights, whose first rows weigh nothing."""
    rng = np.random.default_rng(1)
    return whole.assign(w=np.r_[np.zeros(20), rng.integers(1, 4, len(whole) - 20) / 2.0])


@pytest.fixture
def run(weighted: pd.DataFrame) -> TableRun:
    return fit_table(weighted, "y", **QUICK)


def test_the_column_of_weights_is_no_input_and_rows_to_predict_need_none(
    run: TableRun, weighted: pd.DataFrame, rows: pd.DataFrame
) -> None:
    assert [column.name for column in run.encoder.inputs] == ["x", "z", "color"]
    found = run.predict_with_notes(rows)
    assert not any("'w'" in note or "unknown" in note for note in found.notes)
    pd.testing.assert_frame_equal(found.frame, run.predict(weighted))
    assert any("column 'w' is no input: it says how much each row counts" in note for note in run.metadata.notes)
    assert any("20 row(s) weigh nothing and are left out" in note for note in run.metadata.notes)
    assert run.evaluation.trained + run.evaluation.held_out == 380


def test_rows_that_weigh_nothing_are_as_good_as_absent(run: TableRun, weighted: pd.DataFrame) -> None:
    rest = weighted.iloc[20:].reset_index(drop=True)
    same = fit_table(rest, "y", **QUICK)
    assert same.evaluation.scores == run.evaluation.scores
    pd.testing.assert_frame_equal(same.predict(weighted), run.predict(weighted))
    assert (run.predictions["row"] - 20).tolist() == same.predictions["row"].tolist()
    assert run.predictions["observed"].tolist() == weighted["y"].iloc[run.predictions["row"] - 1].tolist()


def test_scores_are_averages_by_weight(run: TableRun, weighted: pd.DataFrame) -> None:
    answers, w = run.predictions, weighted["w"].iloc[run.predictions["row"] - 1].to_numpy()
    by_hand = np.sqrt(np.average((answers["mean"] - answers["observed"]) ** 2, weights=w))
    assert run.evaluation.score("rmse").model == pytest.approx(by_hand, rel=1e-6)
    inside = (answers["lower"] <= answers["observed"]) & (answers["observed"] <= answers["upper"])
    assert run.evaluation.score("coverage").model == pytest.approx(np.average(inside, weights=w), rel=1e-12)
    twin = metrics.rmse(answers["mean"].to_numpy(), answers["observed"].to_numpy())
    assert abs(twin - by_hand) > 1e-4, "the twin without weights"
    rest = weighted.drop(answers["row"] - 1).query("w > 0")
    naive = np.average((np.average(rest["y"], weights=rest["w"]) - answers["observed"]) ** 2, weights=w) ** 0.5
    assert run.evaluation.score("rmse").naive == pytest.approx(naive, rel=1e-6)


def test_training_is_weighted(whole: pd.DataFrame) -> None:
    """Targets of 0 and 1 that no input tells apart: where ones weigh three times as much the mean is 3/4."""
    y = np.tile([0.0, 1.0], len(whole) // 2) + np.linspace(0.0, 1e-3, len(whole))
    frame = pd.DataFrame({"x": whole["z"], "y": y, "w": np.where(y > 0.5, 1.5, 0.5)})
    mean = fit_table(frame, "y", epochs=15, weights="w").predict(frame)["mean"].mean()
    # what a short training leaves, and a smooth calibration of targets with two values; without weights it is 0.5
    assert mean == pytest.approx(0.75, abs=0.12)
    labels = frame.assign(y=np.where(y > 0.5, "yes", "no"))
    run = fit_table(labels, "y", epochs=15, weights="w")
    assert run.predict(frame)["probability_yes"].mean() == pytest.approx(0.75, abs=0.08)
    assert run.evaluation.score("accuracy").naive == pytest.approx(0.75, abs=0.05)


def test_a_run_with_weights_is_saved_opened_and_resumed_with_the_same_column_only(
    weighted: pd.DataFrame, tmp_path: Path, run: TableRun
) -> None:
    out = tmp_path / "run"

    def stop(point: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_table(weighted, "y", out=out, listener=stop, **QUICK)
    other = weighted.assign(v=weighted["w"])
    with pytest.raises(StorageError, match="was started with --weights w, and now it is left out"):
        fit_table(weighted, "y", out=out, resume=True, epochs=12, drop=["kind"])
    with pytest.raises(StorageError, match="was started with --weights w, and now it is v"):
        fit_table(other, "y", out=out, resume=True, **{**QUICK, "weights": "v"})
    with pytest.raises(ValueError, match="data"):
        fit_table(weighted.assign(w=weighted["w"] * 2), "y", out=out, resume=True, **QUICK)
    resumed = fit_table(weighted, "y", out=out, resume=True, **QUICK)
    pd.testing.assert_frame_equal(resumed.predictions, run.predictions)
    pd.testing.assert_frame_equal(open_run(out).predict(weighted), run.predict(weighted))


BAD: dict[str, tuple[Any, str]] = {
    "negative": (lambda w: w.where(w.index != 30, -1.0), "1 of its cells are negative, the first in row 31"),
    "missing": (lambda w: w.where(w.index < 30), "370 of its cells are missing, infinite or no numbers, .* row 31"),
    "infinite": (lambda w: w.where(w.index != 30, np.inf), "1 of its cells are missing, infinite or no numbers"),
    "words": (lambda w: w.astype(str) + " kg", "400 of its cells are missing, infinite or no numbers"),
    "all zero": (lambda w: w * 0.0, "zero in every row"),
    "too large": (lambda w: w * 1e300, r"its numbers go up to 1\.5e\+300"),
    "lists": (lambda w: w.map(lambda cell: [cell]), "lists or tables"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_bad_weights_get_a_sentence(weighted: pd.DataFrame, change: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"column 'w' .*{message}"):
        fit_table(weighted.assign(w=change(weighted["w"])), "y", **QUICK)


def test_bad_names_of_columns_get_a_sentence(weighted: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no column 'weigth'; "):
        fit_table(weighted, "y", weights="weigth")
    with pytest.raises(ValueError, match="'y' is the target and cannot weigh the rows"):
        fit_table(weighted, "y", weights="y")
    with pytest.raises(ValueError, match="'w' is to be dropped and cannot weigh the rows"):
        fit_table(weighted, "y", weights="w", drop=["w"])


def test_weights_that_do_not_count_rows_get_a_note(weighted: pd.DataFrame) -> None:
    run = fit_table(weighted.assign(w=weighted["w"] * 1000), "y", **{**QUICK, "epochs": 2})
    assert any("multiply the weights by" in note for note in run.metadata.notes)


def test_naive_answers_and_their_check_by_weight_are_those_of_repeated_rows() -> None:
    y, w = torch.tensor([1.0, 2.0, 5.0, 2.0]).double(), torch.tensor([2, 1, 3, 1])
    mine, theirs = naive_numbers(y, 2, w.double()), naive_numbers(y.repeat_interleave(w), 2)
    torch.testing.assert_close(mine.mean, theirs.mean)
    torch.testing.assert_close(mine.stddev, theirs.stddev)
    labels = torch.tensor([0, 1, 2, 1])
    weighted, repeated = naive_classes(labels, 3, 2, w.double()), naive_classes(labels.repeat_interleave(w), 3, 2)
    torch.testing.assert_close(weighted.mean, repeated.mean)
    losses, naive = torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0, 0.9])
    assert beats_naive(losses, naive, "").answer.startswith("Perhaps")
    assert beats_naive(losses, naive, "", torch.tensor([1.0, 1.0, 1e-9, 1e-9])).answer.startswith("Yes")
    assert beats_naive(losses, naive, "", torch.tensor([1.0, 1.0, 8.0, 1.0])).answer.startswith("No")
