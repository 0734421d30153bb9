"""What a column is, what is asked, and what cannot be answered."""

import numpy as np
import pandas as pd
import pytest

from credo.data import DataError, Task
from credo.data.problem import Kind, column_of, pose
from credo.data.reading import InputTable

ROWS = 60


def table(**columns) -> InputTable:
    return InputTable(pd.DataFrame(columns), "houses.csv")


def series(values) -> pd.Series:
    return pd.Series(values, name="column")


NUMBERS = np.random.default_rng(0).normal(size=ROWS)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (NUMBERS, Kind.NUMERIC),
        (np.arange(ROWS) % 7, Kind.NUMERIC),
        (np.where(NUMBERS > 1, np.nan, NUMBERS), Kind.NUMERIC),
        (np.where(NUMBERS > 1, np.inf, NUMBERS), Kind.NUMERIC),
        ([f"{v:.2f}" for v in NUMBERS[:-2]] + ["unknown", "n.a."], Kind.NUMERIC),
        ([f"${1000 + i:,}.50" for i in range(ROWS)], Kind.NUMERIC),
        (["none"] * 20 + [str(v) for v in NUMBERS[20:]], Kind.NUMERIC),
        (NUMBERS > 0, Kind.CATEGORICAL),
        (["a", "b", "c"] * 20, Kind.CATEGORICAL),
        (["a", None] * 30, Kind.CATEGORICAL),
        (["01003", "90210", None] * 20, Kind.CATEGORICAL),
        (["01003", "90210", "unknown"] * 20, Kind.CATEGORICAL),
        ([f"{i:05d}" for i in range(ROWS)], Kind.IDENTIFIER),
        (["0", "10", "0.5"] * 20, Kind.NUMERIC),
        (["01", "10", "0.5"] * 20, Kind.NUMERIC),
        ([3.0, None] * 30, Kind.CATEGORICAL),
        (pd.date_range("2020-01-01", periods=ROWS), Kind.DATE),
        (pd.date_range("2020-01-01", periods=ROWS, tz="Europe/Oslo"), Kind.DATE),
        (pd.date_range("2020-01-01", periods=ROWS).strftime("%Y-%m-%d"), Kind.DATE),
        (pd.date_range("2020-01-01", periods=ROWS).strftime("%d.%m.%Y %H:%M"), Kind.DATE),
        (pd.date_range("2020-01-01", periods=ROWS).strftime("%d %B %Y"), Kind.DATE),
        (np.arange(ROWS), Kind.IDENTIFIER),
        (1 + np.arange(ROWS), Kind.IDENTIFIER),
        ([f"user-{i}" for i in range(ROWS)], Kind.IDENTIFIER),
        ([f"a fine house with {i} rooms" for i in range(ROWS)], Kind.TEXT),
        ([1.0] * ROWS, Kind.CONSTANT),
        (["x"] * ROWS, Kind.CONSTANT),
        ([None] * ROWS, Kind.CONSTANT),
    ],
)
def test_kinds(values, kind):
    found = column_of(series(values))
    assert found.kind is kind
    assert bool(found.why) or found.used


def test_identifiers_by_name():
    shuffled = np.random.default_rng(0).permutation(ROWS) + 1000
    for name in ("id", "customer_id", "CustomerID", "Unnamed: 0", "row", "Order No"):
        assert column_of(pd.Series(shuffled, name=name)).kind is Kind.IDENTIFIER
    for name in ("price", "paid", "grid", "humid", "year"):
        assert column_of(pd.Series(shuffled, name=name)).kind is Kind.NUMERIC
    assert column_of(pd.Series(shuffled % 5, name="id")).kind is Kind.NUMERIC  # repeated numbers name no rows


def test_days_and_months():
    first_days = pd.date_range("2020-01-01", periods=12, freq="MS")
    told = column_of(series(first_days.strftime("%m/%d/%Y")))
    assert told.kind is Kind.DATE
    assert "month first" in told.why
    clear = column_of(series(pd.date_range("2020-01-01", periods=ROWS).strftime("%d/%m/%Y")))
    assert (clear.layout, clear.why) == ("%d/%m/%Y", "")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (NUMBERS, Task.REGRESSION),
        (np.arange(ROWS) % 6 + 3, Task.REGRESSION),  # scores from 3 to 8
        (np.arange(ROWS) % 30, Task.REGRESSION),
        (np.arange(ROWS) % 3, Task.CLASSIFICATION),
        (np.arange(ROWS) % 3 + 1.0, Task.CLASSIFICATION),
        (np.arange(ROWS) % 2 * 5.5, Task.CLASSIFICATION),
        (NUMBERS > 0, Task.CLASSIFICATION),
        (["yes", "no", "maybe"] * 20, Task.CLASSIFICATION),
        (["-", "+"] * 30, Task.CLASSIFICATION),
        ([f"{v:.2f}" for v in NUMBERS], Task.REGRESSION),
    ],
)
def test_task_by_the_target(values, task):
    problem = pose(table(x=NUMBERS, y=values), "y")
    assert problem.task is task
    assert any(note.startswith(f"{task.value}, because") for note in problem.notes)


def test_the_user_decides():
    problem = pose(table(x=NUMBERS, y=np.arange(ROWS) % 3), "y", task=Task.REGRESSION)
    assert problem.task is Task.REGRESSION
    problem = pose(table(x=np.arange(ROWS), z=NUMBERS, y=NUMBERS), "y", kinds={"x": Kind.NUMERIC, "z": Kind.IDENTIFIER})
    assert [c.used for c in problem.columns] == [True, False]
    problem = pose(table(x=np.arange(ROWS) % 4, y=NUMBERS), "y", kinds={"x": Kind.CATEGORICAL})
    assert problem.columns[0].kind is Kind.CATEGORICAL


def test_a_single_column_that_counts_is_kept():
    assert pose(table(x=np.arange(ROWS), y=NUMBERS), "y").columns[0].kind is Kind.NUMERIC


def test_rows_without_an_answer_are_left_out_and_told():
    y = NUMBERS.copy()
    y[3], y[5], y[7] = np.nan, np.inf, -np.inf
    problem = pose(table(x=NUMBERS, y=y), "y")
    assert len(problem.frame) == ROWS - 3
    assert problem.frame.index.tolist() == list(range(ROWS - 3))
    assert any("3 row(s) have no usable value of 'y'" in note for note in problem.notes)


def test_a_class_with_one_row_is_left_out_and_told():
    labels = ["a", "b"] * 30
    labels[10] = "rare"
    problem = pose(table(x=NUMBERS, y=labels), "y")
    assert "rare" not in set(problem.frame["y"])
    assert any("1 class of 'y' has one row only" in note and "'rare'" in note for note in problem.notes)


def test_what_is_left_out_is_told():
    names = [f"user-{i}" for i in range(ROWS)]
    problem = pose(table(who=names, x=NUMBERS, same=[1] * ROWS, y=NUMBERS), "y")
    assert [c.name for c in problem.columns if c.used] == ["x"]
    assert sum("is left out" in note for note in problem.notes) == 2


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"x": [1.0], "y": [2.0]}, "has one row"),
        ({"x": NUMBERS[:5], "y": NUMBERS[:5]}, "5 row\\(s\\) with a usable value .* at least 10"),
        ({"x": NUMBERS, "y": [3.0] * ROWS}, "is 3 in every row"),
        ({"x": NUMBERS, "y": ["a"] * ROWS}, "is 'a' in every row"),
        ({"x": NUMBERS, "y": [np.nan] * ROWS}, "0 row\\(s\\) with a usable value"),
        ({"x": NUMBERS, "y": [f"n{i}" for i in range(ROWS)]}, "60 classes in 60 rows"),
        ({"x": NUMBERS, "y": pd.date_range("2020-01-01", periods=ROWS)}, "holds dates"),
        ({"y": NUMBERS}, "no other column"),
        ({"x": [1] * ROWS, "y": NUMBERS}, "no column to predict 'y' from: 'x' is left out, because it has the same"),
        ({"x": NUMBERS, "yy": NUMBERS}, "no column 'y'"),
        ({"x": NUMBERS, "target price": NUMBERS}, "its columns are 'x', 'target price'"),
    ],
)
def test_what_cannot_be_answered(columns, sentence):
    with pytest.raises(DataError, match=sentence):
        pose(table(**columns), "y")


def test_wishes_that_cannot_be_met():
    words = ["a", "b", "c"] * 20
    with pytest.raises(DataError, match="holds no numbers"):
        pose(table(x=NUMBERS, y=words), "y", task=Task.REGRESSION)
    with pytest.raises(DataError, match="no known way to write dates"):
        pose(table(x=words, y=NUMBERS), "y", kinds={"x": Kind.DATE})
    with pytest.raises(DataError, match="none of its cells is one"):
        pose(table(x=words, y=NUMBERS), "y", kinds={"x": Kind.NUMERIC})
    with pytest.raises(DataError, match="did you mean 'rooms'"):
        pose(table(rooms=words, y=NUMBERS), "y", kinds={"rooms2": Kind.NUMERIC})
    with pytest.raises(DataError, match="60 classes"):
        pose(table(x=NUMBERS, y=NUMBERS), "y", task=Task.CLASSIFICATION)


def test_codes_are_told_and_asked_for_as_classes():
    codes = ["01003", "90210", "00501"] * 20
    told = pose(table(zip=codes, y=NUMBERS), "y")
    assert any(note.startswith("column 'zip': some of its numbers begin with 0") for note in told.notes)
    assert pose(table(x=NUMBERS, y=codes), "y").task is Task.CLASSIFICATION
    assert pose(table(x=NUMBERS, y=codes), "y", task=Task.REGRESSION).task is Task.REGRESSION


def test_ambiguous_dates_get_advice_that_can_be_followed():
    ambiguous = [f"{1 + i % 12:02d}/{1 + i % 9:02d}/2021" for i in range(ROWS)]
    assert column_of(series(ambiguous)).why.endswith("write them as 2021-03-02")


def test_several_rare_classes_are_told_in_the_plural():
    problem = pose(table(x=NUMBERS, y=["a"] * 29 + ["b"] * 29 + ["c", "d"]), "y")
    told = "2 classes of 'y' have one row only, too few to learn, and are left out: 'c', 'd'"
    assert told in problem.notes
