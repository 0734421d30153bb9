"""`credo demo`: the main job from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

from credo.cli.data import as_frame
from credo.cli.demo import NEW_ROWS, write_tables
from credo.data.sets import load


def test_the_rows_to_predict_are_not_in_the_table(tmp_path: Path) -> None:
    frame = as_frame(load("diabetes"))
    write_tables(frame, "progression", tmp_path / "table.csv", tmp_path / "new.csv", seed=0)
    table, new = pd.read_csv(tmp_path / "table.csv"), pd.read_csv(tmp_path / "new.csv")
    assert (len(table), len(new)) == (len(frame) - NEW_ROWS, NEW_ROWS + 1)
    assert "progression" not in new
    shared = new.round(12).merge(table.drop(columns="progression").round(12), how="inner")
    assert len(shared) == 0


@pytest.mark.slow
def test_the_demo_ends_by_saying_where_everything_lies(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("demo", "--out", "demo")
    assert done.exit_code == 0, done.output
    told = done.stdout[done.stdout.index("Where everything lies") :]
    paths = [Path(line.split()[0]) for line in told.splitlines()[1:] if line.strip()]
    assert len(paths) == 5
    assert all(path.exists() for path in paths)
    assert pd.read_csv("demo/predictions.csv")["unfamiliar"].tolist() == [False] * NEW_ROWS + [True]
