"""Run folders: whole or not at all, never over anything else, and readable only if they are ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import save_file

from credo.core.folders import check_folder
from credo.core.storage import StorageError
from credo.reports.words import training_words
from credo.tabular import TableRun, open_run, save_run
from credo.tabular.runs import EVALUATION, FILES, TABLE
from credo.tabular.supporting import SUPPORT, support_tensors


def write(folder: Path, fitted: TableRun) -> Path:
    assert save_run(fitted, folder).folder == folder
    return folder


@pytest.fixture
def run(tmp_path: Path, numbers: TableRun) -> Path:
    return write(tmp_path / "run", numbers)


def test_a_run_comes_back(run: Path, numbers: TableRun, rows: pd.DataFrame) -> None:
    opened = open_run(run)
    assert (opened.metadata, opened.encoder) == (numbers.metadata, numbers.encoder)
    assert opened.evaluation == numbers.evaluation
    held = numbers.predictions
    again = opened.predict(rows.iloc[held["row"] - 1].reset_index(drop=True))
    pd.testing.assert_frame_equal(again, held[list(again)], check_exact=False, rtol=1e-6)
    pd.testing.assert_frame_equal(opened.predictions, held)
    assert opened.report == run / "report.html"


def in_first_words(run: Path) -> dict[str, Any]:
    """The description of a run as credo's first version wrote it."""
    data = json.loads((run / TABLE).read_text())
    story = data.pop("metadata")
    story["kind"], story["lesson"] = "Story", {**story.pop("training"), "kind": "Lesson"}
    story["columns"] = [{**column, "kind": "ColumnStory"} for column in story["columns"]]
    for column in data["encoder"]["inputs"]:
        column.pop("origin", None)
    return {**data, "story": story}


def test_a_run_of_the_first_version_can_be_read(run: Path, numbers: TableRun, rows: pd.DataFrame) -> None:
    (run / TABLE).write_text(json.dumps(in_first_words(run)))
    opened = open_run(run)
    assert (opened.metadata, opened.encoder) == (numbers.metadata, numbers.encoder)
    pd.testing.assert_frame_equal(opened.predict(rows), numbers.predict(rows))


def test_a_run_of_a_version_without_support_tells_by_disagreement(run: Path, rows: pd.DataFrame) -> None:
    assert open_run(run).support is not None
    (run / SUPPORT).unlink()
    opened = open_run(run)
    assert opened.support is None
    assert opened.predict(rows.head(3).assign(x=1e4))["unfamiliar"].all()


def test_support_of_another_table_is_refused(run: Path, tmp_path: Path, numbers: TableRun) -> None:
    tensors = support_tensors(numbers.support)
    narrow = {name: t[..., :2] if t.shape[-1:] == numbers.support.scale.shape else t for name, t in tensors.items()}
    save_file({name: t.contiguous() for name, t in narrow.items()}, run / SUPPORT)
    with pytest.raises(StorageError, match="another run"):
        open_run(run)


def test_a_run_of_a_version_that_did_not_count_cooling_can_be_read(run: Path) -> None:
    data = in_first_words(run)
    del data["story"]["lesson"]
    (run / TABLE).write_text(json.dumps(data))
    metadata = open_run(run).metadata
    assert metadata.training is None
    assert ", 40 epochs;" in training_words(metadata, 40)


def test_nothing_else_is_left_beside_it(run: Path) -> None:
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert {path.name for path in run.iterdir()} == set(FILES)


def test_a_run_replaces_a_run_and_leaves_the_files_of_others(run: Path, classes: TableRun) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "figures").mkdir()
    write(run, classes)
    assert open_run(run).evaluation == classes.evaluation
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "figures").is_dir()
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_what_cannot_be_written_leaves_the_old_run(
    run: Path, classes: TableRun, numbers: TableRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("credo.tabular.saving.PREDICTIONS", "no/such/folder/x")
    with pytest.raises(StorageError, match="cannot be written"):
        save_run(classes, run)
    assert open_run(run).evaluation == numbers.evaluation
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_place_with_a_run_needs_force(run: Path) -> None:
    with pytest.raises(StorageError, match="--force"):
        check_folder(run, force=False)
    check_folder(run, force=True)


def test_a_place_with_other_things_is_refused_even_by_force(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="not touched"):
        check_folder(tmp_path, force=True)


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        check_folder(tmp_path / "run", force=True)


def test_new_and_empty_folders_are_fine(tmp_path: Path, numbers: TableRun) -> None:
    check_folder(tmp_path / "a" / "b", force=False)
    (tmp_path / "empty").mkdir()
    check_folder(tmp_path / "empty", force=False)
    assert open_run(write(tmp_path / "empty", numbers)).metadata == numbers.metadata


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_found_out_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot be written"):
        check_folder(tmp_path / "run", force=False)


def test_a_full_disk_is_found_out_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credo.core.folders.MINIMUM_FREE", 2**80)
    with pytest.raises(StorageError, match="full"):
        check_folder(tmp_path / "run", force=False)


def test_what_is_not_there_or_not_ours_is_refused(tmp_path: Path, numbers: TableRun) -> None:
    with pytest.raises(StorageError, match="does not exist"):
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


@pytest.mark.parametrize(
    "change", [{"metadata": None}, {"metadata": {"kind": "Evaluation"}}, {"encoder": {}}, {"metadata": 3}]
)
def test_a_damaged_description_is_refused(run: Path, change: dict[str, object]) -> None:
    edited(run, TABLE, change)
    with pytest.raises(StorageError):
        open_run(run)


def test_a_truncated_file_is_refused(run: Path) -> None:
    text = (run / EVALUATION).read_text()
    (run / EVALUATION).write_text(text[: len(text) // 2])
    with pytest.raises(StorageError, match="damaged"):
        open_run(run)
