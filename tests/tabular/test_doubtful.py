"""What is unusual about a cell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from credo.evaluation.doubtful import cell_of, doubtful_rows, unusual_cells

NUMBERS = pd.Series(np.arange(1000.0))


def test_numbers_at_the_rim_are_unusual() -> None:
    assert unusual_cells(pd.Series([-1.0, 500.0, 2000.0, np.nan]), NUMBERS).tolist() == [True, False, True, True]


def test_a_missing_cell_is_usual_where_many_are_missing() -> None:
    half = NUMBERS.where(NUMBERS > 500)
    assert unusual_cells(pd.Series([np.nan]), half).tolist() == [False]


def test_rare_and_unseen_words_are_unusual() -> None:
    words = pd.Series(["often"] * 300 + ["rare"] * 2)
    assert unusual_cells(pd.Series(["often", "rare", "never", None]), words).tolist() == [False, True, True, True]


def test_flags_are_words() -> None:
    flags = pd.Series([True] * 300 + [False])
    assert unusual_cells(pd.Series([True, False]), flags).tolist() == [False, True]


def test_codes_are_words() -> None:
    """The smallest and the largest code lie at no rim; as quantities they would."""
    codes = pd.Series(["01003"] + ["50000"] * 150 + ["50001"] * 150 + ["90210"] * 4)
    judged = pd.Series(["01003", "50000", "70000", "90210"])
    assert unusual_cells(judged, codes).tolist() == [True, False, True, False]
    assert unusual_cells(judged, pd.to_numeric(codes)).tolist() != [True, False, True, False]


def test_cells_as_a_person_reads_them() -> None:
    shown = [cell_of(v) for v in (1.0, 0.123456, 7, "a", None, np.nan, pd.NaT, pd.NA, True, np.float64(2.5))]
    assert shown == ["1.0", "0.1235", "7", "a", "missing", "missing", "missing", "missing", "True", "2.5"]


def test_the_rows_are_ordered_by_doubt_and_carry_their_numbers() -> None:
    held = pd.DataFrame({"n": [1.0, 5000.0], "w": ["a", "a"]})
    trained = pd.DataFrame({"n": NUMBERS, "w": ["a"] * 1000})
    found = doubtful_rows(
        np.array([0.1, 0.9]), np.array([0.5, 0.7]), ["1", "2"], ["3", "4"], np.array([10, 20]), held, trained
    )
    assert [(row.row, row.predicted, row.observed) for row in found] == [(20, "2", "4"), (10, "1", "3")]
    assert found[0].unusual == ("n",)
    assert found[0].features == (("n", "5000.0"), ("w", "a"))
