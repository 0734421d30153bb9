"""Run folders: whole or not at all, never over anything else, and readable only if they are ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from credo.cli.pipeline import Fitted
from credo.core.storage import StorageError
from credo.reports.words import training_words
from credo.tabular import open_run
from credo.tabular.runs import EVALUATION, FILES, PREDICTIONS, REPORT, TABLE, check_place, write_run

TEXTS = {PREDICTIONS: "a\n", REPORT: "<html>"}


def write(folder: Path, fitted: Fitted) -> Path:
    write_run(folder, fitted.posterior, fitted.story, fitted.encoder, fitted.evaluation, TEXTS)
    return folder


@pytest.fixture
def run(tmp_path: Path, numbers: Fitted) -> Path:
    return write(tmp_path / "run", numbers)


def test_a_run_comes_back(run: Path, numbers: Fitted, rows: pd.DataFrame) -> None:
    opened = open_run(run)
    assert (opened.story, opened.encoder) == (numbers.story, numbers.encoder)
    assert opened.evaluation == numbers.evaluation
    held = numbers.predictions
    again = opened.predict(rows.iloc[held["row"] - 1].reset_index(drop=True))
    pd.testing.assert_frame_equal(again, held[list(again)], check_exact=False, rtol=1e-6)


def test_a_run_of_a_version_that_did_not_count_cooling_can_be_read(run: Path) -> None:
    data = json.loads((run / TABLE).read_text())
    del data["story"]["lesson"]
    (run / TABLE).write_text(json.dumps(data))
    story = open_run(run).story
    assert story.lesson is None
    assert ", 40 epochs;" in training_words(story, 40)


def test_nothing_else_is_left_beside_it(run: Path) -> None:
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert {path.name for path in run.iterdir()} == set(FILES)


def test_a_run_replaces_a_run_and_leaves_the_files_of_others(run: Path, classes: Fitted) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "figures").mkdir()
    write(run, classes)
    assert open_run(run).evaluation == classes.evaluation
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "figures").is_dir()
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_what_cannot_be_written_leaves_the_old_run(run: Path, classes: Fitted, numbers: Fitted) -> None:
    texts = {"no/such/folder/x": "text"}
    with pytest.raises(StorageError, match="cannot be written"):
        write_run(run, classes.posterior, classes.story, classes.encoder, classes.evaluation, texts)
    assert open_run(run).evaluation == numbers.evaluation
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_place_with_a_run_needs_force(run: Path) -> None:
    with pytest.raises(StorageError, match="--force"):
        check_place(run, force=False)
    check_place(run, force=True)


def test_a_place_with_other_things_is_refused_even_by_force(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="not touched"):
        check_place(tmp_path, force=True)


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        check_place(tmp_path / "run", force=True)


def test_new_and_empty_folders_are_fine(tmp_path: Path, numbers: Fitted) -> None:
    check_place(tmp_path / "a" / "b", force=False)
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty", force=False)
    assert open_run(write(tmp_path / "empty", numbers)).story == numbers.story


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_found_out_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot be written"):
        check_place(tmp_path / "run", force=False)


def test_a_full_disk_is_found_out_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credo.tabular.runs.ROOM", 2**80)
    with pytest.raises(StorageError, match="full"):
        check_place(tmp_path / "run", force=False)


def test_what_is_not_there_or_not_ours_is_refused(tmp_path: Path, numbers: Fitted) -> None:
    with pytest.raises(StorageError, match="not there"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="no run"):
        open_run(tmp_path)
    numbers.posterior.save(tmp_path / "posterior")
    with pytest.raises(StorageError, match="something else"):
        open_run(tmp_path / "posterior")


def edited(run: Path, name: str, change: dict[str, object]) -> None:
    data = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps({**data, **change}))


@pytest.mark.parametrize("name", [TABLE, EVALUATION])
def test_a_run_of_a_newer_version_is_refused(run: Path, name: str) -> None:
    edited(run, name, {"schema": 99})
    with pytest.raises(StorageError, match="newer credo"):
        open_run(run)


@pytest.mark.parametrize("change", [{"story": None}, {"story": {"kind": "Evaluation"}}, {"encoder": {}}, {"story": 3}])
def test_a_damaged_description_is_refused(run: Path, change: dict[str, object]) -> None:
    edited(run, TABLE, change)
    with pytest.raises(StorageError):
        open_run(run)


def test_a_truncated_file_is_refused(run: Path) -> None:
    text = (run / EVALUATION).read_text()
    (run / EVALUATION).write_text(text[: len(text) // 2])
    with pytest.raises(StorageError, match="damaged"):
        open_run(run)
