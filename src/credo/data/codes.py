"""Codes that look like numbers: whole numbers some of which begin with 0, as postal codes do."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

import pandas as pd

from credo.data.values import PLACEHOLDERS, Series

WHOLE, PADDED = r"\d+", r"0\d+"


def is_code(series: Series) -> bool:
    """Whether cells of text are whole numbers, and some of two or more digits begin with 0: no quantity is written so.

    Examples:
        >>> is_code(pd.Series(["01003", "90210", None])), is_code(pd.Series(["0", "10"])), is_code(pd.Series(["00.5"]))
        (True, False, False)
    """
    if pd.api.types.is_numeric_dtype(series):
        return False
    text = series.dropna().astype(str).str.strip()
    text = text[~text.str.lower().isin(PLACEHOLDERS)]
    return bool(text.str.fullmatch(WHOLE).all() and text.str.fullmatch(PADDED).any())


def padded_columns(beginning: str, separator: str) -> frozenset[str]:
    """Names, as they stand in the first line, of the columns of a text file in which a number begins with 0.

    Args:
        beginning: of the file, with its first line.
        separator: of the cells.
    """
    if re.search(rf"(?<![\w.+-]){PADDED}", beginning) is None:  # most files have none, and need no closer look
        return frozenset()
    cells = csv.reader(io.StringIO(beginning, newline=""), delimiter=separator, skipinitialspace=True)
    places: set[int] = set()
    header: list[str] = []
    try:
        header = next(row for row in cells if row)
        places.update(place for row in cells for place in _padded(row, len(header)))
    except csv.Error:  # a quotation mark is left open: whoever reads the whole file says so
        pass
    return frozenset(header[place] for place in places)


def _padded(row: Sequence[str], width: int) -> list[int]:
    named = row[1:] if len(row) == width + 1 else row[:width]  # one cell more than names: the first names the row
    return [place for place, cell in enumerate(named) if re.fullmatch(PADDED, cell.strip())]


def unless_codes(series: Series, decimal: str) -> Series:
    """A column that was read as text: as it is if it holds codes, and else as numbers if all its cells are some.

    Args:
        series: the cells.
        decimal: what stands before the decimals.
    """
    if is_code(series):
        return series.str.strip()
    try:
        return pd.to_numeric(series.str.strip().str.replace(decimal, ".", regex=False))
    except ValueError:
        return series
