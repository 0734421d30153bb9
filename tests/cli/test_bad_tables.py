"""Tables that people really have: each gets a run or a sentence, never a traceback, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from credo.tabular import open_run

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


REFUSED = {
    "an empty file": (b"", "is empty"),
    "blank lines": (b"\n\n\n", "is empty"),
    "a header only": (b"x,z,y\n", "no rows"),
    "one row": (b"x,z,y\n1,2,3\n", "one row"),
    "too few rows": (b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5)), "at least 10"),
    "a constant target": (b"x,y\n" + b"".join(b"%d.5,3\n" % i for i in range(30)), "nothing to predict"),
    "a constant target of ones": (b"x,y\n" + b"".join(b"%d.5,1.0\n" % i for i in range(30)), "1 in every row"),
    "a target of huge numbers": (b"x,y\n" + b"".join(b"%d.5,%de300\n" % (i, i + 3) for i in range(30)), "'y' varies"),
    "a target of tiny numbers": (b"x,y\n" + b"".join(b"%d.5,%de-300\n" % (i, i + 3) for i in range(30)), "'y' varies"),
    "a target without values": (b"x,y\n" + b"".join(b"%d.5,\n" % i for i in range(30)), "y"),
    "nothing to learn from": (
        b"id,y\n" + b"".join(b"a%d,%d\n" % (i, i % 7) for i in range(30)),
        "no column to predict",
    ),
    "ten thousand classes": (b"x,y\n" + b"".join(b"%d.5,c%d\n" % (i, i) for i in range(10_000)), "too many"),
    "zero bytes": (bytes(range(256)) * 8, "not a text file"),
    "a spreadsheet": (b"PK\x03\x04 and so on", "Excel"),
    "a line that is too long": (b"a,b,y\n1,2,3\n1,2,3,4,5\n", "line 3"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_learned_from_gets_a_sentence(command: Command, content: bytes, words: str) -> None:
    Path("table.csv").write_bytes(content)
    done = command("fit", "table.csv", "-t", "y")
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.startswith("credo: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in Path.cwd().iterdir()] == ["table.csv"]


def test_too_few_rows_to_learn_from_get_a_sentence(command: Command, table: pd.DataFrame) -> None:
    table.head(60).to_csv("table.csv", index=False)
    done = command("fit", "table.csv", "-t", "y", "--test", "0.99")
    assert done.exit_code == 2
    assert "test=0.99 leaves 1 of 60 rows" in done.stderr


def test_columns_of_lists_are_left_out_and_told(command: Command, table: pd.DataFrame) -> None:
    table.assign(tags=[[1, 2]] * len(table)).to_parquet("table.parquet")
    done = command("fit", "table.parquet", "-t", "y", "--epochs", "2")
    assert done.exit_code == 0, done.output
    assert "column 'tags' is left out: its cells are lists" in done.stdout
    assert command("predict", "run", "table.parquet").exit_code == 0
    refused = command("fit", "table.parquet", "-t", "tags", "--out", "other")
    assert (refused.exit_code, "cannot be predicted" in refused.stderr) == (2, True)


def test_inputs_of_huge_and_tiny_numbers_are_no_trouble(command: Command, table: pd.DataFrame) -> None:
    learned(command, table.assign(x=table["x"] * 1e300, z=table["z"] * 1e-300))


def test_a_file_that_is_not_there_gets_a_sentence(command: Command) -> None:
    done = command("fit", "nowhere.csv", "-t", "y")
    assert (done.exit_code, "does not exist" in done.stderr) == (2, True)


def learned(command: Command, content: pd.DataFrame | bytes, **form: object) -> str:
    """What is said on a table that can be learned from."""
    if isinstance(content, bytes):
        Path("table.csv").write_bytes(content)
    else:
        content.to_csv("table.csv", index=False, **form)  # type: ignore[call-overload]
    done = command("fit", "table.csv", "-t", "y", "--epochs", "2")
    assert done.exit_code == 0, done.output
    assert Path("run/report.html").is_file()
    return done.stdout


def test_rows_without_target_are_left_out_and_told(command: Command, table: pd.DataFrame) -> None:
    table.loc[:9, "y"] = np.nan
    assert "10 row(s) have no usable value of 'y'" in learned(command, table)
    assert open_run("run").metadata.rows == 110


def test_identifiers_are_left_out_and_told(command: Command, table: pd.DataFrame) -> None:
    names = [f"customer-{i}" for i in range(len(table))]
    said = learned(command, table.assign(id=range(1, len(table) + 1), name=names))
    assert "column 'id' is left out" in said
    assert "column 'name' is left out" in said
    assert {column.name for column in open_run("run").encoder.inputs} == {"x", "z", "kind"}


def test_ten_thousand_categories_share_features(command: Command) -> None:
    rng = np.random.default_rng(0)
    count = 25_000
    frame = pd.DataFrame({"shop": rng.integers(0, 10_000, count).astype(str), "y": rng.normal(size=count)})
    frame["shop"] = "shop " + frame["shop"]
    learned(command, frame)
    assert len(open_run("run").encoder.features) == 301  # the 300 most frequent, and one that the others share


def test_nan_and_infinity_are_missing_cells(command: Command, table: pd.DataFrame) -> None:
    table.loc[0, "x"], table.loc[1, "x"], table.loc[2, "y"] = np.inf, np.nan, -np.inf
    said = learned(command, table)
    assert "2 missing cells" in said
    assert "1 row(s)" in said


def test_a_class_with_one_example_is_left_out_and_told(command: Command, table: pd.DataFrame) -> None:
    table = table.drop(columns="y").rename(columns={"kind": "y"})
    table.loc[3, "y"] = "singular"
    assert "is left out: 'singular'" in learned(command, table)
    assert open_run("run").evaluation.classes == ("high", "low")


def test_bytes_that_are_not_utf8_are_read_and_told(command: Command, table: pd.DataFrame) -> None:
    table["größe"] = np.where(table["x"] > 0, "größer", "kleiner")
    said = learned(command, table.to_csv(index=False).encode("latin-1"))
    assert "not UTF-8" in said
    assert "größe" in Path("run/report.html").read_text(encoding="utf-8")


def test_semicolons_and_decimal_commas_are_read_and_told(command: Command, table: pd.DataFrame) -> None:
    said = learned(command, table, sep=";", decimal=",")
    assert "semicolon" in said
    assert {column.taken_for for column in open_run("run").metadata.columns} == {"numeric", "categorical"}


def test_names_that_clash_with_answers_stay_apart(command: Command, table: pd.DataFrame) -> None:
    learned(command, table.rename(columns={"x": "mean", "z": "row"}))
    done = command("predict", "run", "table.csv", "--with-inputs")
    header = done.stdout.splitlines()[0].split(",")
    assert len(header) == len(set(header))
    assert done.exit_code == 0


def test_a_table_of_eleven_rows_is_enough(command: Command, table: pd.DataFrame) -> None:
    assert "2 rows held out" in learned(command, table.head(11))


def test_dates_are_understood(command: Command, table: pd.DataFrame) -> None:
    said = learned(command, table.assign(day=pd.date_range("2024-01-01", periods=len(table)).astype(str)))
    assert "1 date" in said
