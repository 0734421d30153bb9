"""Columns that are the target in other words, and rows that are copies of one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from credo.data.values import is_nested

FEWEST = 30
"""Below this many rows nothing is certain enough to be said."""
COPIED = 0.99999
"""Correlation, of values or of ranks, from which a column is a copy of the target."""
LEAST_EACH = 5
"""Rows of a second class, or of a second category, before one can be a copy of the other."""
REPEATED = 0.01
"""Part of the rows that come again, from which it is told."""

Floats = NDArray[np.float64]


def follows(x: Floats, y: Floats) -> str:
    """Whether a column is the target itself, a straight line or another monotone function of it."""
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < max(FEWEST, 0.2 * len(y)) or len(np.unique(y[known])) < 5 or len(np.unique(x[known])) < 5:
        return ""
    a, b = x[known], y[known]
    if np.array_equal(a, b):
        return "is a copy of the target"
    if abs(np.corrcoef(scaled(a), scaled(b))[0, 1]) > COPIED:
        return "is the target on another scale (a straight line through all rows)"
    ranks = [pd.Series(values).rank().to_numpy() for values in (a, b)]
    if abs(np.corrcoef(*ranks)[0, 1]) > COPIED:
        return "puts the rows in the same order as the target, without exception"
    return ""


def scaled(values: Floats) -> Floats:
    """Numbers of at most one in size: the squares of huge ones have no number."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return values / largest if largest > 0.0 else values


def names_numbers(cells: Any, y: Floats) -> str:
    """Whether every category has one number, and several rows."""
    codes = pd.factorize(pd.Series(cells))[0]
    known = codes >= 0
    count = len(np.unique(codes[known]))
    if count < 3 or known.sum() < max(FEWEST, 3 * count) or len(np.unique(y)) < 3:
        return ""
    spread = pd.Series(y[known]).groupby(codes[known]).agg(lambda part: part.max() - part.min())
    return "has one value for each value of the target" if float(spread.max()) == 0.0 else ""


def names_classes(cells: Any, y: Any) -> str:
    """Whether every category belongs to one class alone."""
    codes = pd.factorize(pd.Series(cells).where(pd.notna(cells), "missing"))[0]
    table = pd.crosstab(codes, y).to_numpy()
    # a category of few rows belongs to one class by chance
    if (table > 0).sum(1).max() > 1 or table.sum(1).mean() < LEAST_EACH or not _varies(table.sum(0)):
        return ""
    return "names the class: every value of it belongs to one class alone"


def missing_names(x: Floats, y: Any) -> str:
    absent = np.isnan(x)
    if min(absent.sum(), (~absent).sum()) < LEAST_EACH:
        return ""
    if len(set(y[absent])) == len(set(y[~absent])) == 1 and len(set(y)) == 2:
        return "is missing in all rows of one class and in none of the other"
    return ""


def separates(x: Floats, y: Any) -> str:
    """Whether a threshold between any two neighboring classes tells all classes apart without a mistake."""
    known = np.isfinite(x)
    if known.sum() < max(FEWEST, 0.5 * len(y)):
        return ""
    ordered = np.argsort(x[known], kind="stable")
    a, b = x[known][ordered], y[known][ordered]
    changes = np.flatnonzero(b[1:] != b[:-1])
    counts = np.unique(b, return_counts=True)[1]
    if len(changes) + 1 != len(counts) or len(counts) < 2 or not _varies(counts):
        return ""
    if (a[changes] == a[changes + 1]).any():
        return ""
    return "tells the classes apart by itself, without a mistake"


def _varies(counts: Any) -> bool:
    """Whether there are enough rows of a second class."""
    return bool(np.sort(np.asarray(counts))[-2] >= LEAST_EACH) if len(counts) > 1 else False


def copies_of_rows(frame: pd.DataFrame) -> NDArray[np.int64] | None:
    """Number of the first row that is equal to each row, cell for cell, (N,); None where too few rows come again.

    In a table without a column whose cells are mostly different, equal rows are no surprise, and are not looked for.

    Args:
        frame: inputs and target.
    """
    plain = frame.loc[:, [not is_nested(frame[name]) for name in frame.columns]]
    first = plain.groupby(list(plain.columns), dropna=False, sort=False).ngroup().to_numpy()
    again = len(first) - len(np.unique(first))
    if again < max(2, REPEATED * len(first)) or len(first) < FEWEST:
        return None
    single = plain.drop_duplicates()
    most = max(single[name].nunique(dropna=False) for name in single.columns)
    return np.asarray(first, dtype=np.int64) if most > len(single) // 2 else None
