"""Excel and Feather files are read like the CSV file of the same table."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pandas as pd
import pytest

from credo.data import DataError
from credo.data.reading import read_table

FRAME = pd.DataFrame(
    {
        "size": [1.5, None, 3.0],
        "town": ["Oslo", "None", None],
        "code": ["01003", "00501", "90210"],
        "day": pd.to_datetime(["2024-01-01", "2024-02-03", "2024-03-05"]),
        "count": [1, 2, 3],
    }
)


def test_an_excel_sheet_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.xlsx"
    FRAME.to_excel(path, index=False)
    found = read_table(path)
    assert found.notes == ()
    assert found.frame["size"].tolist()[::2] == [1.5, 3.0]
    assert found.frame["size"].isna().tolist() == [False, True, False]
    assert found.frame["town"].tolist()[:2] == ["Oslo", "None"]
    assert found.frame["code"].tolist() == ["01003", "00501", "90210"]
    assert found.frame["day"].tolist() == FRAME["day"].tolist()
    assert found.frame["count"].tolist() == [1, 2, 3]


def test_other_sheets_are_named(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.xlsx"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        FRAME.to_excel(book, sheet_name="first", index=False)
        FRAME.head(1).to_excel(book, sheet_name="second", index=False)
    found = read_table(path)
    assert len(found.frame) == 3
    assert "the first sheet is read, 'first', and not 'second'" in found.notes[0]


def test_an_archive_is_no_workbook(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", "a,b")
    with pytest.raises(DataError, match="no Excel workbook"):
        read_table(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match="no Excel workbook"):
        read_table(path)


def test_a_feather_file_is_a_table(tmp_path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    path = tmp_path / "table.feather"
    feather.write_feather(FRAME, str(path), compression="uncompressed")
    found = read_table(path).frame
    assert found["code"].tolist() == FRAME["code"].tolist()
    assert found["day"].tolist() == FRAME["day"].tolist()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="damaged Feather"):
        read_table(path)


def test_a_missing_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.xlsx"
    path.write_bytes(b"PK\x03\x04 and more")

    def missing(*_: object, **__: object) -> None:
        raise ImportError("no openpyxl")

    monkeypatch.setattr(pd, "ExcelFile", missing)
    with pytest.raises(DataError, match=r"install credo\[excel\]"):
        read_table(path)
