"""The page of the benchmark says what its rows say."""

from __future__ import annotations

from pathlib import Path

import pytest

from credo.data import Task
from table_compare import COVERAGE, MEASURES, best_peer, coverage, duel, gather
from table_page import BLOCK, BLOCKS, PAGE, written
from table_rows import Row, write

RMSE, _, _, LOG_LIKELIHOOD = MEASURES[Task.REGRESSION]


def test_the_page_is_equal_to_the_stored_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {match[2] for match in BLOCK.finditer(page)} == set(BLOCKS)
    assert written(page, gather()) == page, "run: python benchmarks/table_page.py"


def add(folder: Path, method: str, table: str, seed: int, rmse: float, density: float | None = None) -> None:
    scores = {"rmse": rmse, "crps": 1.0, "interval_score": 1.0, "log_likelihood": density, "coverage": 0.9 + seed / 100}
    write(Row(method, table, seed, None, "p 1", 500, 4, 400, 100, 1.0, "1", scores), folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables; credo is better on one and worse on the other; the forest lacks one split."""
    for seed in (0, 1):
        add(tmp_path, "credo", "boston", seed, 1.0 + seed, -1.0)
        add(tmp_path, "hgb", "boston", seed, 2.0 + 2 * seed)
        add(tmp_path, "catboost", "boston", seed, 1.5, -1.5)
        add(tmp_path, "credo-before", "boston", seed, 3.0, -3.0)
        add(tmp_path, "credo-before", "yacht", seed, 3.0, -3.0)
        add(tmp_path, "credo", "yacht", seed, 2.0, -1.0)
        add(tmp_path, "hgb", "yacht", seed, 1.0)
        add(tmp_path, "catboost", "yacht", seed, 1.0, -0.5)
    return tmp_path


def test_ratios_are_of_means_over_splits_and_their_mean_is_geometric(folder: Path) -> None:
    results = gather(folder)
    found = duel(results, "credo", "hgb", results.tables(Task.REGRESSION, "credo"), RMSE)
    assert found is not None
    assert found.center == pytest.approx(1.0)  # sqrt(1/2 * 2)
    assert (found.wins, found.ties, found.losses) == (1, 0, 1)
    assert (found.worst, found.worst_value) == ("yacht", 2.0)


def test_differences_of_log_likelihoods_are_better_above_zero(folder: Path) -> None:
    results = gather(folder)
    found = duel(results, "credo", "catboost", results.tables(Task.REGRESSION, "credo"), LOG_LIKELIHOOD)
    assert found is not None
    assert (found.wins, found.losses, found.worst, found.worst_value) == (1, 1, "yacht", -0.5)
    assert duel(results, "credo", "hgb", results.tables(Task.REGRESSION, "credo"), LOG_LIKELIHOOD) is None


def test_the_best_peer_is_the_one_that_credo_does_worst_against(folder: Path) -> None:
    results = gather(folder)
    best = best_peer(results, "credo", results.tables(Task.REGRESSION, "credo"), RMSE)
    assert best is not None
    assert best.method == "catboost"
    assert best.center == pytest.approx(2.0**0.5)


def test_only_splits_that_every_method_has_are_compared(folder: Path) -> None:
    add(folder, "ngboost", "boston", 1, 4.0, -2.0)
    results = gather(folder)
    assert results.tables(Task.REGRESSION, "credo") == ["boston"]  # NGBoost has no row of the other
    assert results.score("credo", "boston", RMSE) == 2.0
    assert results.score("credo", "boston", COVERAGE) == pytest.approx(0.91)


def test_tables_that_the_newest_credo_has_not_been_run_on_are_shown_without_it(folder: Path) -> None:
    for method in ("credo-before", "hgb", "catboost"):
        add(folder, method, "diabetes", 0, 1.0, -1.0)
    results = gather(folder)
    assert results.tables(Task.REGRESSION, "credo") == ["boston", "yacht"]
    assert results.tables(Task.REGRESSION, "credo-before") == ["diabetes", "boston", "yacht"]
    assert results.score("credo", "diabetes", RMSE) is None


def test_a_coverage_is_averaged_over_splits_before_the_worst_is_found(folder: Path) -> None:
    found = coverage(gather(folder), "hgb", ["boston", "yacht"])
    assert found is not None
    assert (found.mean, found.lowest) == (pytest.approx(0.905), pytest.approx(0.905))
    assert (found.under, found.tables, found.splits) == (2, 2, 2)
