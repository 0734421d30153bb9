"""`credo label`: rounds of questions and answers in files that a person fills in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from credo.data import DataError
from credo.tabular import label_pool, label_table
from credo.tabular.recipes import Settings

Command = Callable[..., Result]
ROWS = 60


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two inputs without labels; `truth` knows them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(label_pool, "Settings", partial(Settings, epochs=20))  # it is not about how good it is
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=ROWS).round(3), "z": rng.normal(size=ROWS).round(3)})
    frame.to_csv("pool.csv", index=False)
    return tmp_path / "pool.csv"


def truth(frame: pd.DataFrame) -> Any:
    return np.where(frame["x"] + frame["z"] > 0, "high", "low")


def answer(folder: Path, by: Callable[[pd.DataFrame], Any] = truth, count: int | None = None) -> list[int]:
    """Fill in the file as a person does."""
    path = folder / "to-label.csv"
    frame = pd.read_csv(path, dtype={"label": object})
    frame["label"] = frame["label"].astype(object)
    chosen = frame.index[:count]
    frame.loc[chosen, "label"] = np.asarray(by(frame), dtype=object)[: len(chosen)]
    frame.to_csv(path, index=False)
    return frame.loc[chosen, "pool row"].tolist()


def test_rounds_from_nothing_to_a_table_that_fit_takes(command: Command, pool: Path) -> None:
    folder = pool.parent / "pool-labels"
    first = command("label", "pool.csv", "--ask", 20)
    assert first.exit_code == 0, first.output
    assert "20 rows wait in pool-labels/to-label.csv" in first.output
    assert pd.read_csv(folder / "to-label.csv")["label"].isna().all()
    asked = answer(folder)
    second = command("label", "pool.csv", "--ask", 10, "--json")
    state = json.loads(second.stdout)
    assert (state["learned"], state["judged"], state["taken"], state["task"]) == (16, 4, 20, "classification")
    assert len(state["asked"]) == 10
    assert not set(state["asked"]) & set(asked)
    answer(folder)
    third = command("label", "pool.csv", "--ask", 10)
    assert "30 labels, 10 of them new: 24 to learn from, 6 drawn at random to judge by" in third.output
    assert "accuracy on 6 rows" in third.output
    assert (folder / "curve.png").stat().st_size > 5_000
    labels = pd.read_csv(folder / "labels.csv")
    assert (labels["label"] == truth(labels)).all()
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.png",
        "labels.csv",
        "predictions.csv",
        "session.json",
        "to-label.csv",
    ]
    done = command("fit", folder / "labels.csv", "-t", "label", "--epochs", 5, "-q", "--out", pool.parent / "run")
    assert done.exit_code == 0, done.output
    assert "pool row" not in done.output


def test_a_call_without_answers_says_what_waits_and_changes_nothing(command: Command, pool: Path) -> None:
    command("label", "pool.csv", "--ask", 10)
    before = (pool.parent / "pool-labels" / "to-label.csv").read_text()
    again = command("label", "pool.csv", "--ask", 30)
    assert "10 rows wait" in again.output
    (pool.parent / "pool-labels" / "to-label.csv").unlink()
    command("label", "pool.csv", "--ask", 30)
    assert (pool.parent / "pool-labels" / "to-label.csv").read_text() == before


def test_some_answers_corrections_and_a_new_class(pool: Path) -> None:
    folder = pool.parent / "s"
    label_table(pool, folder, ask=20)
    rows = answer(folder, count=12)
    some = label_table(pool, folder, ask=10)
    assert (some.taken, some.learned + some.judged) == (12, 12)
    answer(folder, lambda frame: ["never seen before"] * len(frame))
    path = folder / "to-label.csv"
    corrected = pd.concat([pd.read_csv(path), pd.DataFrame({"pool row": [rows[0]], "label": ["low"]})])
    corrected.to_csv(path, index=False)
    more = label_table(pool, folder, ask=5)
    labels = pd.read_csv(folder / "labels.csv").set_index("pool row")["label"]
    assert labels[rows[0]] == "low"
    assert more.learned + more.judged == 22
    assert (labels == "never seen before").sum() == 10
    assert len(more.asked) == 5


def test_numbers_and_labels_that_the_pool_has(pool: Path) -> None:
    frame = pd.read_csv(pool)
    frame["y"] = (3 * frame["x"]).where(frame.index < 25)
    frame.to_csv(pool, index=False)
    options: dict[str, Any] = {"ask": 10, "target": "y"}
    state = label_table(pool, pool.parent / "n", **options)
    assert (state.learned, state.judged) == (25, 0)
    assert not set(state.asked) & set(range(1, 26))
    path = pool.parent / "n" / "to-label.csv"
    asked = pd.read_csv(path)
    asked.assign(y=3 * asked["x"]).to_csv(path, index=False)
    state = label_table(pool, pool.parent / "n", **options)
    assert (state.learned, state.judged) == (33, 2)
    assert np.isfinite(state.curve[-1].score)
    asked = pd.read_csv(path)
    asked.assign(y="many").to_csv(path, index=False)
    with pytest.raises(DataError, match="has the label 'many', and the labels are numbers"):
        label_table(pool, pool.parent / "n", **options)


def test_the_pool_is_used_up(pool: Path) -> None:
    for expected in (40, 20, 0):
        state = label_table(pool, pool.parent / "all", ask=40)
        assert len(state.asked) == expected
        answer(pool.parent / "all")
    assert state.learned + state.judged == ROWS
    again = label_table(pool, pool.parent / "all", ask=40)
    assert again.curve == state.curve


def test_na_is_a_label(pool: Path) -> None:
    label_table(pool, pool.parent / "na", ask=10)
    answer(pool.parent / "na", lambda frame: ["NA", "null"] * 5)
    state = label_table(pool, pool.parent / "na", ask=10)
    assert state.taken == 10
    assert "NA" in (pool.parent / "na" / "labels.csv").read_text()


def spoiled(pool: Path, what: str) -> None:
    path = pool.parent / "pool-labels" / "to-label.csv"
    if what == "strange row":
        asked = pd.read_csv(path)["pool row"]
        other = next(row for row in range(1, ROWS) if row not in set(asked))
        with path.open("a") as file:
            file.write(f"{other},high,0,0\n")
    elif what == "two labels":
        row = pd.read_csv(path)["pool row"][0]
        with path.open("a") as file:
            file.write(f"{row},high,0,0\n{row},low,0,0\n")
    elif what == "no column":
        pd.read_csv(path).drop(columns="label").to_csv(path, index=False)
    elif what == "other columns":
        pd.read_csv(pool).rename(columns={"z": "w"}).to_csv(pool, index=False)
    elif what == "fewer rows":
        pd.read_csv(pool).head(50).to_csv(pool, index=False)
    elif what == "other order":
        pd.read_csv(pool)[::-1].to_csv(pool, index=False)
    elif what == "empty":
        pool.write_text("x,z\n")


SPOILED = {
    "strange row": "which nobody asked about; nothing was taken",
    "two labels": "has two labels for row",
    "no column": "has no column 'label' any more",
    "other columns": "it lacks 'z' and has 'w'; the session in pool-labels is as it was",
    "fewer rows": "has 50 rows, and the pool of this session 60",
    "other order": "has other cells, or another order",
    "empty": "has column names and no rows",
}


@pytest.mark.parametrize(("what", "sentence"), SPOILED.items(), ids=SPOILED)
def test_what_cannot_be_is_a_sentence_and_the_session_is_kept(
    command: Command, pool: Path, what: str, sentence: str
) -> None:
    command("label", "pool.csv", "--ask", 10)
    before = (pool.parent / "pool-labels" / "session.json").read_text()
    spoiled(pool, what)
    done = command("label", "pool.csv")
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert (pool.parent / "pool-labels" / "session.json").read_text() == before


OPTIONS = {
    "--method map": "method must be one of ensemble, dropout, vi",
    "--acquisition surprise": "acquisition must be one of",
    "--judge 1.5": "from 0 to below 1",
    "--drop q": "no column 'q' to drop",
    "--drop x --drop z": "no column to learn from",
    "--seed 1": "was begun with --seed 0, and now it is 1",
    "--out .": "holds other files",
    "--target 'pool row' --out other": "credo writes row numbers",
}


@pytest.mark.parametrize(("options", "sentence"), OPTIONS.items(), ids=OPTIONS)
def test_options_that_cannot_be(command: Command, pool: Path, options: str, sentence: str) -> None:
    command("label", "pool.csv", "--ask", 10)
    done = command("label", "pool.csv", *shlex.split(options))
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())


def test_answers_are_on_disk_before_training_and_a_killed_call_goes_on(
    pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = pool.parent / "whole", pool.parent / "cut"
    for folder in (whole, cut):
        label_table(pool, folder, ask=24)
        answer(folder)
    expected = label_table(pool, whole, ask=10)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(label_pool, "learn", killed)
        with pytest.raises(KeyboardInterrupt, match="every label is kept"):
            label_table(pool, cut, ask=10)
    assert len(pd.read_csv(cut / "labels.csv")) == 24
    again = label_table(pool, cut, ask=10)
    assert again.asked == expected.asked
    assert (cut / "predictions.csv").read_text() == (whole / "predictions.csv").read_text()


def test_rows_to_judge_by_are_a_random_sample_and_never_learned_from(pool: Path) -> None:
    """Of 400 rows of which the first 40 are odd: chosen rows may be those, rows to judge by are so in proportion."""
    frame = pd.DataFrame({"x": np.r_[np.full(40, 50.0), np.random.default_rng(0).normal(size=360)].round(4)})
    frame["z"] = np.arange(400) % 7 + 0.5
    rows: list[int] = []
    for seed in range(20):
        folder = pool.parent / f"judge-{seed}"
        label_table(frame, folder, ask=50, judged=0.5, seed=seed)
        session = json.loads((folder / "session.json").read_text())
        rows += [int(row) for row, judge in session["asked"].items() if judge]
    assert len(rows) == 20 * 25
    odd = np.mean(np.array(rows) < 40)
    assert abs(odd - 0.1) < 4 * np.sqrt(0.1 * 0.9 / len(rows))  # an error rate of 6e-5
