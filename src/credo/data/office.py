"""Tables from Excel workbooks and Feather files."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path

import pandas as pd

from credo.data import DataError

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
"""Cells that stand for nothing. Neither None nor - is among them: both are names of classes in real tables."""


def excel(path: str | Path, codes: Collection[str] = ()) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The first sheet of a workbook (.xlsx), and a note where there are more.

    Args:
        path: of the file.
        codes: names of columns that hold codes, which stay text.

    Raises:
        DataError: if it is none, or its reader is not installed.
    """
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = [str(name) for name in book.sheet_names]
            # text stays text: 01003 is a code, and Excel says itself which cells are numbers
            cells = pd.read_excel(book, sheet_name=0, keep_default_na=False, na_values=list(MISSING), dtype=object)
            frame = cells.infer_objects()
            for name in frame.columns.intersection(list(codes)):
                frame[name] = frame[name].astype(str).where(frame[name].notna(), None)
    except ImportError:
        raise DataError(
            f"{path} is an Excel workbook, and reading it needs the package openpyxl: install credo[excel]"
        ) from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} is an archive and no Excel workbook, or a damaged one ({error}): give a CSV, Parquet, Feather or "
            "Excel file"
        ) from None
    if len(names) == 1:
        return frame, ()
    others = ", ".join(map(repr, names[1:4])) + (" ..." if len(names) > 4 else "")
    return frame, (f"of {path} the first sheet is read, {names[0]!r}, and not {others}",)


def feather(path: str | Path) -> pd.DataFrame:
    """A Feather file.

    Raises:
        DataError: if it is damaged, or its reader is not installed.
    """
    try:
        return pd.read_feather(path)
    except ImportError:
        raise DataError(
            f"{path} is a Feather file, and reading it needs the package pyarrow: install credo[parquet]"
        ) from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is a damaged Feather file ({error})") from None
