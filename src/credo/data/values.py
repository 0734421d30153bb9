"""Cells as numbers, words or dates: the same reading when a table is learned from and when it is predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Series = Any
"""A pandas Series."""

EXACT = 2**53
"""Whole numbers up to here are themselves in float64."""
PLACEHOLDERS = ("none", "unknown", "missing", "-", "--", ".", "inf", "-inf", "infinity", "-infinity")
"""Words that stand for no number among numbers."""
NATIVE = "native"
"""The format of dates that come as dates."""
DAY_FIRST = ("%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y")
MONTH_FIRST = ("%m/%d/%Y", "%m-%d-%Y")
OTHERS = ("%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
FORMATS = ("ISO8601", *(date + time for date in (*MONTH_FIRST, *DAY_FIRST, *OTHERS) for time in TIMES))
"""Ways to write a date, in the order in which they are tried."""


def is_number(series: Series) -> bool:
    """Whether the cells come as numbers (yes and no are none)."""
    return bool(pd.api.types.is_numeric_dtype(series)) and not is_flag(series)


def is_flag(series: Series) -> bool:
    return bool(pd.api.types.is_bool_dtype(series))


def is_nested(series: Series) -> bool:
    """Whether cells hold several values, as those of a Parquet file may."""
    return series.dtype == object and any(isinstance(cell, list | tuple | set | dict | np.ndarray) for cell in series)


def is_date(series: Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(series))


def numbers(series: Series, origin: int = 0) -> Floats:
    """Cells as numbers, NaN where they are missing, infinite or no numbers.

    Text may have a currency sign or a per cent sign, and commas between thousands.

    Args:
        series: the cells.
        origin: what is subtracted from them; from whole numbers before they become float64.
    """
    values = _read(series)
    if origin and pd.api.types.is_integer_dtype(series):
        present = series.notna().to_numpy()
        values[present] = [float(int(cell) - origin) for cell in series[present]]
    else:
        values = values - origin
    return np.where(np.isfinite(values), values, np.nan)


def origin_of(series: Series) -> int:
    """A cell of a column of whole numbers with more digits than float64 has; zero for all other columns.

    Examples:
        >>> origin_of(pd.Series([2**60 + 1, 2**60 + 2])), origin_of(pd.Series([2019, 2020]))
        (1152921504606846977, 0)
    """
    if not pd.api.types.is_integer_dtype(series) or not series.notna().any():
        return 0
    cells = series.dropna()
    return int(cells.iloc[0]) if max(abs(int(cells.min())), abs(int(cells.max()))) > EXACT else 0


def infinities(series: Series) -> Floats:
    """Plus or minus infinity where cells are infinite, zero elsewhere."""
    values = _read(series)
    return np.where(np.isinf(values), values, 0.0)


def _read(series: Series) -> Floats:
    if pd.api.types.is_timedelta64_dtype(series):
        return np.asarray(series.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan))
    if is_number(series) or is_flag(series):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    text = series.astype("object").where(series.notna(), "").astype(str).str.strip()
    text = text.str.replace(r"^([+-]?)[$€£]\s*|\s*[%€]$", r"\1", regex=True)
    text = text.str.replace(r"(?<=\d),(?=\d{3}(\D|$))", "", regex=True)
    return np.asarray(pd.to_numeric(text, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))


def placeholders(series: Series) -> int:
    """How many cells are words that stand for no number."""
    return int(series.dropna().astype(str).str.strip().str.lower().isin(PLACEHOLDERS).sum())


def words(series: Series) -> Any:
    """Cells as text (an array of objects), None where they are missing; 1.0 and 1 are the same word."""
    if pd.api.types.is_integer_dtype(series):
        return np.array([None if pd.isna(cell) else str(int(cell)) for cell in series], dtype=object)
    if is_number(series):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.array([None if np.isnan(v) else _word(v) for v in values], dtype=object)
    present = series.notna().to_numpy()
    text = series.astype("object").astype(str).str.strip().to_numpy(dtype=object)
    return np.where(present, text, None)


def _word(value: float) -> str:
    return str(int(value)) if np.isfinite(value) and value == np.floor(value) else repr(float(value))


def days(series: Series, layout: str) -> Floats:
    """Cells as days since 1970, with the time of day as a fraction; NaN where they are missing or no dates.

    Args:
        series: the cells.
        layout: one of `FORMATS`, or `NATIVE` for cells that are dates already.
    """
    if is_date(series):
        moments = series
    else:
        wanted = "ISO8601" if layout == NATIVE else layout
        text = series.astype("object").where(series.notna(), None)
        moments = pd.to_datetime(text, format=wanted, errors="coerce", utc=True)
    plain = pd.to_datetime(moments, utc=True).dt.tz_localize(None)
    microseconds = plain.to_numpy(dtype="datetime64[us]").astype(np.int64)
    return np.where(plain.isna().to_numpy(), np.nan, microseconds / 86400e6)


def date_layout(series: Series) -> tuple[str, bool] | None:
    """How the dates of a column of text are written, and whether day and month could be the other way round.

    None where fewer than 95 of 100 cells are dates in any one of the formats.
    """
    sample = series.dropna().drop_duplicates().head(1000)
    if len(sample) == 0 or not bool(sample.astype(str).str.contains(r"\d").all()):
        return None
    fitting = [layout for layout in FORMATS if np.isfinite(days(sample, layout)).mean() >= 0.95]
    if not fitting:
        return None
    best = max(fitting, key=lambda layout: float(np.isfinite(days(sample, layout)).mean()))
    ambiguous = best.startswith(MONTH_FIRST) and any(layout.startswith(DAY_FIRST) for layout in fitting)
    return best, ambiguous
