"""Ways to be fooled are found, and honest tables are hardly ever accused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from credo.data.copies import copies_of_rows
from credo.data.leaks import Leak, Way, leaks, normal_score_of_chi2
from credo.data.problem import pose
from credo.data.reading import table_of

TABLES = 150
ALARM = 1e-6
"""Probability that one of these tests fails although the code is right; with fixed seeds it does so always or never."""
CLASSES = ["a", "b", "c"]


def honest(seed: int, rows: int = 300) -> pd.DataFrame:
    """Independent rows of dependent columns: numbers, counts, ages, categories, dates, an identifier."""
    rng = np.random.default_rng(seed)
    x, z, noise = rng.normal(size=(3, rows))
    age, town = rng.integers(18, 90, rows), rng.choice(CLASSES, rows, p=[0.6, 0.3, 0.1])
    y = x + 0.02 * age + (town == "b") + 0.5 * noise
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, rows), unit="D")
    kind = np.where(y + 0.5 * rng.normal(size=rows) > 1.0, "high", "low")
    frame = {"x": x, "z": np.exp(z), "age": age, "town": town, "day": day, "id": rng.permutation(rows) + 1000}
    return pd.DataFrame({**frame, "y": y, "kind": kind})


def found(frame: pd.DataFrame, target: str, *, divided: bool = False) -> tuple[Leak, ...]:
    other = {"y": "kind", "kind": "y"}[target]
    return leaks(pose(table_of(frame.drop(columns=other), "table"), target), divided=divided)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_honest_tables_are_hardly_ever_accused(target: str) -> None:
    """Tests at one in a thousand each: of a drift with the day, and of groups of equal age and equal words."""
    accused = sum(bool(found(honest(seed), target)) for seed in range(TABLES))
    assert accused <= stats.binom.ppf(1.0 - ALARM, TABLES, 0.004)


COPIES: dict[str, Callable[[pd.DataFrame], object]] = {
    "itself": lambda t: t["y"],
    "other unit": lambda t: 7.0 - 1000.0 * t["y"],
    "rounded": lambda t: (t["y"] * 1000).round() / 1000,
    "monotone": lambda t: np.exp(t["y"]),
    "falling": lambda t: -(t["y"] ** 3),
    "with gaps": lambda t: t["y"].where(t["x"] < 0.3),
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_a_number_is_found(copy: str) -> None:
    frame = honest(0)
    (leak,) = found(frame.assign(copy=COPIES[copy](frame)), "y")
    assert (leak.way, leak.column) == (Way.COPY, "copy")
    assert "--drop copy" in leak.sentence


def test_words_for_numbers_are_found() -> None:
    frame = honest(0).assign(y=lambda t: t["age"] // 10 * 10.0)
    frame["decade"] = frame["y"].map(lambda number: f"in the {number:.0f}s")
    assert [leak.column for leak in found(frame.drop(columns="age"), "y")] == ["decade"]


CLASS_COPIES: dict[str, Callable[[pd.DataFrame], object]] = {
    "other words": lambda t: t["kind"].map({"high": "H", "low": "L"}),
    "finer words": lambda t: t["kind"] + "-" + t["town"],
    "number": lambda t: np.where(t["kind"] == "high", 1.5, 0.25) + 0.01 * t["x"].clip(-3, 3),
    "only where high": lambda t: t["z"].where(t["kind"] == "high"),
}


@pytest.mark.parametrize("copy", CLASS_COPIES)
def test_a_copy_of_a_class_is_found(copy: str) -> None:
    frame = honest(0)
    (leak,) = found(frame.assign(copy=CLASS_COPIES[copy](frame)), "kind")
    assert (leak.way, leak.column) == (Way.COPY, "copy")


def test_a_strong_column_is_no_copy() -> None:
    """A correlation of 0.999 with 5 % of the rows out of order is a good column."""
    frame = honest(0)
    rng = np.random.default_rng(1)
    assert not found(frame.assign(strong=frame["y"] + 0.03 * rng.normal(size=len(frame))), "y")


def drifting(frame: pd.DataFrame, days: np.ndarray) -> pd.DataFrame:
    y = frame["y"] + 4.0 * days / days.max()
    return frame.assign(y=y, kind=np.where(y > y.median(), "high", "low"))


@pytest.mark.parametrize("target", ["y", "kind"])
def test_a_drift_with_a_date_is_found(target: str) -> None:
    frame = honest(0)
    days = (frame["day"] - frame["day"].min()).dt.days.to_numpy(dtype=float)
    (leak,) = found(drifting(frame, days), target)
    assert (leak.way, leak.column) == (Way.TIME, "day")
    assert "--time day" in leak.sentence
    assert not found(drifting(frame, days), target, divided=True)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_a_drift_with_the_order_of_the_rows_is_found(target: str) -> None:
    frame = drifting(honest(0), np.arange(300.0)).drop(columns=["day", "id"])
    (leak,) = found(frame, target)
    assert (leak.way, leak.column) == (Way.TIME, "")
    assert not found(frame.sample(frac=1.0, random_state=0, ignore_index=True), target)


@pytest.mark.parametrize("by", ["y", "kind", "town", "x", "age"])
def test_a_file_that_is_sorted_is_no_time(by: str) -> None:
    frame = honest(0).drop(columns=["day", "id"]).sort_values(by, ignore_index=True)
    for target in {"y": ["y"], "kind": ["kind"]}.get(by, ["y", "kind"]):  # the other one is left out of the table
        assert not found(frame, target)


@pytest.mark.parametrize("names", ["words", "numbers", "identifier"])
def test_groups_are_found(names: str) -> None:
    """Five visits of each patient, whose sex and level stay the same."""
    frame, rng = honest(0), np.random.default_rng(2)
    patient = rng.permutation(300) // 5
    level, sex = rng.normal(size=60), rng.choice(["f", "m"], 60)
    column = {"words": [f"p{n}" for n in patient], "numbers": 7 * patient, "identifier": 1000 + patient}[names]
    name = {"identifier": "patient_id"}.get(names, "patient")
    frame = frame.assign(y=frame["y"] + 2 * level[patient], sex=sex[patient], **{name: column})
    (leak,) = found(frame, "y")
    assert (leak.way, leak.column) == (Way.GROUP, name)
    assert f"--group {name}" in leak.sentence
    shuffled_twin = frame.assign(**{name: rng.permutation(frame[name])})
    assert not found(shuffled_twin, "y")


def test_ages_are_no_groups_though_equal_ages_are_alike() -> None:
    """Rows of equal age have equal targets, and so have rows of nearly equal age."""
    frame = honest(0).assign(y=lambda t: t["age"] + 0.1 * t["x"])
    assert not found(frame.drop(columns="day"), "y")


def test_few_rows_say_nothing() -> None:
    frame = honest(0, rows=25)
    assert not found(frame.assign(copy=frame["y"]), "y")


@pytest.mark.parametrize("df", [1, 9, 18, 60])
def test_the_normal_score_of_chi_square(df: int) -> None:
    value = float(stats.chi2.isf(1e-3, df))
    # an approximation: the rate of accusations is 0.0010 to 0.0011
    assert normal_score_of_chi2(value, df) == pytest.approx(stats.norm.isf(1e-3), abs=0.07)


def test_repeated_rows_are_found() -> None:
    frame = honest(0)
    assert copies_of_rows(frame) is None
    again = pd.concat([frame, frame.head(30)], ignore_index=True)
    groups = copies_of_rows(again)
    assert groups is not None
    assert groups[300:].tolist() == groups[:30].tolist()
    assert len(np.unique(groups)) == 300


def test_rows_that_are_equal_by_chance_are_none() -> None:
    """Survey answers: 300 rows of three questions with four answers each repeat one another."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(list("abcd"), 300) for name in CLASSES})
    assert frame.duplicated().mean() > 0.5
    assert copies_of_rows(frame) is None
