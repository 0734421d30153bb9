"""The benchmark of tables at its smallest: every method answers for the held-out rows, and is scored alike."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from table_rows import Row, read, write
from table_scores import LEVELS, ClassAnswer, NumberAnswer
from table_sets import TABLES
from tables import METHODS, divide, fit_credo, is_installed, run

MEASURES = {
    "diabetes": {"rmse", "log_likelihood", "crps", "interval_score", "coverage"},
    "iris": {"accuracy", "log_likelihood", "brier", "calibration_error"},
}


@pytest.mark.parametrize("table", list(MEASURES))
@pytest.mark.parametrize("method", [name for name in METHODS if name != "credo-before"])
def test_every_method_answers_and_what_it_answered_is_kept(method: str, table: str, tmp_path: Path) -> None:
    if not is_installed(METHODS[method]):
        pytest.skip(f"{METHODS[method].package} is of the extra bench")
    if TABLES[table].task not in METHODS[method].tasks:
        pytest.skip(f"{method} is not for {TABLES[table].task.value}")
    run([method], [table], seeds=1, limit=60, folder=tmp_path)
    (row,) = read(method, tmp_path)
    assert row.failed == ""
    assert (row.trained, row.held_out) == (48, 12)
    assert set(row.scores) == MEASURES[table]
    assert all(value is None or np.isfinite(value) for value in row.scores.values())
    run([method], [table], seeds=1, limit=60, folder=tmp_path)
    assert read(method, tmp_path) == [row]


def test_credo_is_refused_where_it_holds_out_other_rows() -> None:
    split = divide(TABLES["iris"], seed=0, limit=40)
    other = divide(TABLES["iris"], seed=1, limit=40)
    with pytest.raises(RuntimeError, match="held out other rows"):
        fit_credo(dataclasses.replace(split, test=other.test))


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    row = Row("hgb", "iris", 0, None, "scikit-learn 1", 150, 4, 120, 30, 0.25, "1", {"accuracy": 0.5, "brier": None})
    write(row, tmp_path)
    write(dataclasses.replace(row, seed=1, scores={}, failed="ValueError: no"), tmp_path)
    assert read("hgb", tmp_path) == [row, dataclasses.replace(row, seed=1, scores={}, failed="ValueError: no")]


def normal(y: float, scale: float = 1.0) -> dict[str, float | None]:
    quantiles = scale * norm.ppf(LEVELS)[None, :]
    return NumberAnswer(np.zeros(1), quantiles, None).scores(np.array([y]))


@pytest.mark.parametrize("y", [-2.0, -0.3, 0.0, 1.0, 3.0])
def test_the_ranked_score_is_that_of_a_normal_distribution(y: float) -> None:
    """Gneiting and Raftery 2007, eq. 21: y (2 F(y) - 1) + 2 f(y) - 1 / sqrt(pi)."""
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    assert normal(y)["crps"] == pytest.approx(exact, abs=0.02)  # the midpoint rule with twenty points
    wrong_way_round = 2 * np.mean((y - norm.ppf(LEVELS)) * (1 - LEVELS - (y < norm.ppf(LEVELS))))
    if y != 0.0:
        assert abs(wrong_way_round - exact) > 0.1


def test_the_interval_score_charges_forty_times_what_lies_outside() -> None:
    width = 2 * norm.ppf(0.975)
    assert normal(0.0)["interval_score"] == pytest.approx(width)
    assert normal(norm.ppf(0.975) + 0.5)["interval_score"] == pytest.approx(width + 20)
    assert normal(-norm.ppf(0.975) - 0.5)["interval_score"] == pytest.approx(width + 20)
    assert (normal(1.9)["coverage"], normal(2.0)["coverage"]) == (1.0, 0.0)


def test_quantiles_that_cross_are_put_in_order() -> None:
    straight = NumberAnswer(np.zeros(1), norm.ppf(LEVELS)[None, :], None).scores(np.ones(1))
    crossed = NumberAnswer(np.zeros(1), norm.ppf(LEVELS)[None, ::-1], None).scores(np.ones(1))
    assert crossed == straight


def test_classes_are_scored_by_their_definitions() -> None:
    found = ClassAnswer(np.array([[0.8, 0.2], [0.3, 0.7], [1.0, 0.0]])).scores(np.array([0, 0, 1]))
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert found["brier"] == pytest.approx((2 * 0.2**2 + 2 * 0.7**2 + 2.0) / 3, rel=1e-5)  # 0 is raised to 1e-6
    assert found["log_likelihood"] == pytest.approx(np.log([0.8, 0.3, 1e-6]).mean(), rel=1e-6)
