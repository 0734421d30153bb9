"""The past and the future, and whole groups, on either side of a fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from credo.core.storage import StorageError
from credo.data.splits import folds
from credo.tabular import TableRun, fit_table, open_run, training, validation

ROWS = 150


@pytest.fixture
def visits() -> pd.DataFrame:
    """Patients who come three times, with a level of their own that no column explains."""
    rng = np.random.default_rng(3)
    patient = rng.permutation(np.arange(ROWS) // 3)
    x, noise = rng.normal(size=(2, ROWS))
    level = rng.normal(size=ROWS // 3)[patient]
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(ROWS), unit="D")
    names = [f"p{number:03d}" for number in patient]
    return pd.DataFrame({"patient": names, "day": day, "x": x, "y": x + level + 0.1 * noise})


def held_out(run: TableRun, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows and held-out rows."""
    rows = run.predictions["row"].to_numpy() - 1
    return frame.drop(index=rows), frame.loc[rows]


def test_the_future_is_held_out(visits: pd.DataFrame, tmp_path: Path) -> None:
    run = fit_table(visits, "y", time="day", drop=["patient"], epochs=2, out=tmp_path / "run")
    past, later = held_out(run, visits)
    assert past["day"].max() < later["day"].min()
    assert len(later) == 30
    assert [column.name for column in run.encoder.inputs] == ["x"]
    assert any("it orders the rows in time" in note for note in run.metadata.notes)
    assert (open_run(tmp_path / "run").metadata.time, run.metadata.group) == ("day", None)
    careless_past, careless_later = held_out(fit_table(visits, "y", drop=["patient"], epochs=2), visits)
    assert careless_past["day"].max() > careless_later["day"].min()


def test_no_patient_is_on_both_sides(visits: pd.DataFrame) -> None:
    run = fit_table(visits, "y", group="patient", epochs=2)
    known, new = held_out(run, visits)
    assert not set(known["patient"]) & set(new["patient"])
    assert len(new) == 30
    assert [column.name for column in run.encoder.inputs] == ["day", "x"]
    assert run.metadata.group == "patient"


@pytest.mark.parametrize("wish", [{"group": "patient"}, {"time": "day"}])
def test_validation_rows_keep_to_it_too(
    visits: pd.DataFrame, wish: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folds that choose the length of training get the groups, and cut none."""
    seen = []

    def watched(*args, **options):
        seen.append((args, options))
        return folds(*args, **options)

    monkeypatch.setattr(validation, "folds", watched)
    fit_table(visits, "y", epochs=2, **wish)  # type: ignore[arg-type]
    ((count, parts), options) = seen[0]
    groups = np.asarray(options["groups"])
    assert len(groups) == count == 120
    found = folds(count, parts, **options)
    assert all(not set(groups[held]) & set(groups[kept]) for held, kept in zip(found.held, found.kept, strict=True))


def test_a_training_is_resumed_with_the_same_sides(visits: pd.DataFrame, tmp_path: Path) -> None:
    def stop(point: training.ValidationPoint) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_table(visits, "y", group="patient", out=tmp_path / "run", listener=stop)
    with pytest.raises(StorageError, match="started with --group patient, and now it is left out"):
        fit_table(visits, "y", out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"time": "dya"}, "no column 'dya'; did you mean 'day'"),
        ({"time": "patient"}, "neither dates nor numbers"),
        ({"time": "gaps"}, "10 "),
        ({"time": "same"}, "the same in every row"),
        ({"group": "gaps"}, "10 cells are missing"),
        ({"group": "half"}, "2 different value"),
        ({"group": "most"}, "so large a group"),
        ({"group": "y"}, "is the target and cannot divide"),
        ({"group": "patient", "time": "day"}, "cannot both"),
        ({"group": "x", "weights": "x"}, "is the weight of the rows and cannot divide"),
    ],
)
def test_columns_that_cannot_divide_are_refused(visits: pd.DataFrame, wish: dict[str, str], words: str) -> None:
    gaps = np.where(np.arange(ROWS) < 10, np.nan, np.arange(ROWS))
    most = np.where(np.arange(ROWS) < 100, -1, np.arange(ROWS))
    frame = visits.assign(gaps=gaps, same=1, half=np.arange(ROWS) % 2, most=most)
    with pytest.raises(ValueError, match=words):
        fit_table(frame, "y", epochs=2, **wish)  # type: ignore[arg-type]
