"""The table job as one call from Python."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import credo
from credo.core.folders import SavedElsewhereError
from credo.core.record import Record
from credo.core.storage import StorageError
from credo.data import Task
from credo.posteriors import Draws
from credo.tabular import TableRun, fit_table, fitting, open_run, saving, training
from credo.tabular.loading import LoadedTable
from credo.tabular.runs import FILES
from credo.tabular.training import ValidationPoint


def test_a_frame_and_its_file_give_the_same_run(whole: pd.DataFrame, tmp_path: Path, numbers: TableRun) -> None:
    frame = whole
    before = frame.copy()
    run = fit_table(frame, "y", epochs=40, drop=["kind"])
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(run.predictions, numbers.predictions)
    assert (run.folder, run.report) == (None, None)
    assert run.evaluation == numbers.evaluation
    assert (run.metadata.source, numbers.metadata.source) == ("the table", "table.csv")


def test_the_index_of_a_frame_is_no_column_and_its_rows_are_counted_from_one(whole: pd.DataFrame) -> None:
    frame = whole[::-1]
    run = fit_table(frame, "y", epochs=2, drop=["kind"])
    assert [column.name for column in run.encoder.inputs] == ["x", "z", "color"]
    observed = run.predictions.set_index("row")["observed"]
    assert observed.tolist() == frame["y"].iloc[observed.index - 1].tolist()


def test_a_run_in_a_folder_can_be_opened_again(whole: pd.DataFrame, tmp_path: Path) -> None:
    seen: list[object] = []
    out = tmp_path / "run"
    run = fit_table(whole, "kind", out=out, epochs=3, drop=["y"], on_loaded=seen.append, listener=seen.append)
    assert isinstance(seen[0], LoadedTable)
    assert all(isinstance(point, ValidationPoint) for point in seen[1:])
    assert {path.name for path in out.iterdir()} == set(FILES)
    assert run.report == out / "report.html"
    again = open_run(out)
    pd.testing.assert_frame_equal(again.predict(whole), run.predict(whole))
    pd.testing.assert_frame_equal(again.predictions, run.predictions)
    assert repr(again).startswith("TableRun('kind' from the table: ensemble, accuracy 0.")
    with pytest.raises(StorageError, match="force=True"):
        fit_table(whole, "kind", out=out, epochs=3)


def test_ctrl_c_and_resume_give_the_numbers_of_an_undisturbed_run(
    whole: pd.DataFrame, tmp_path: Path, numbers: TableRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: list[ValidationPoint] = []

    def stop(point: ValidationPoint) -> None:
        points.append(point)
        if len(points) == 2:
            raise KeyboardInterrupt

    wish = {"epochs": 40, "drop": ["kind"], "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt, match="resume=True"):
        fit_table(whole, "y", listener=stop, **wish)
    with pytest.raises(StorageError, match="resume=True"):
        fit_table(whole, "y", **wish)
    with pytest.raises(StorageError, match="another run"):
        fit_table(whole.assign(y=lambda frame: frame["y"] + frame["x"].fillna(0.0)), "y", resume=True, **wish)
    run = fit_table(whole, "y", resume=True, **wish)
    pd.testing.assert_frame_equal(run.predictions, numbers.predictions)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    "record",
    [Record(status=credo.Status.INTERRUPTED, reason="in other words"), Record(interrupted=True)],
    ids=["within a stage", "in its last step"],
)
def test_ctrl_c_inside_a_stage_ends_the_job(
    record: Record, whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop keeps what there is and returns; the job must not take that for the wish to go on."""
    plain = training.fit

    def interrupted(*args, **options):
        posterior = plain(*args, **options)
        return Draws(posterior.model, posterior.members(), posterior.log_weights, record=record)

    monkeypatch.setattr(training, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_table(whole, "y", epochs=2, out=tmp_path / "run")
    assert fit_table(whole, "y", epochs=2).posterior.record.status is record.status


def test_a_folder_that_fails_in_the_end_does_not_lose_the_run(
    whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, out = saving.save_run, tmp_path / "run"

    def full(run: TableRun, folder: Path) -> TableRun:
        if folder == out:
            raise StorageError(f"{folder} cannot be written (the disk is full)")
        return plain(run, folder)

    monkeypatch.setattr(fitting, "save_run", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SavedElsewhereError, match=r"the disk is full.*was saved to") as caught:
        fit_table(whole, "y", epochs=2, out=out)
    assert caught.value.run.folder is not None
    assert open_run(caught.value.run.folder).metadata.rows == len(whole)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"target": "z?"}, "no column 'z?'; did you mean"),
        ({"method": "magic"}, "method must be one of ensemble, map, dropout, vi, got 'magic'"),
        ({"test": 1.5}, "test must lie between 0 and 1, got 1.5"),
        ({"task": "ranking"}, "task must be 'regression' or 'classification', got 'ranking'"),
        ({"drop": ["y"]}, "cannot be dropped"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"resume": True}, "resume=True needs out="),
        ({"table": pd.DataFrame({"y": []})}, "has column names and no rows"),
        ({"table": pd.DataFrame([[1, 2, 3]], columns=["x", "x", "y"])}, "several columns called 'x'"),
        ({"table": "nowhere.csv"}, "does not exist"),
    ],
)
def test_arguments_that_make_no_sense_get_a_sentence(whole: pd.DataFrame, wish: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        fit_table(**{"table": whole, "target": "y", **wish})  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_task_can_be_named_by_its_word(whole: pd.DataFrame) -> None:
    run = fit_table(whole.assign(y=lambda frame: frame["y"].round() % 3), "y", task="regression", epochs=2)
    assert run.encoder.task is Task.REGRESSION
