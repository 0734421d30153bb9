"""The held-out rows of which a posterior is least sure, and what is unusual about them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from credo.data.codes import is_code
from credo.data.values import is_flag, is_number, numbers, words
from credo.evaluation.values import Doubtful

RARE = 0.01
"""A cell is unusual if no more than this part of the training rows has one like it."""
SHOWN = 8
"""Rows that are shown."""


def doubtful_rows(
    doubt: NDArray[np.float64],
    share: NDArray[np.float64],
    predicted: list[str],
    observed: list[str],
    rows: NDArray[np.int64],
    held_out: pd.DataFrame,
    trained: pd.DataFrame,
) -> tuple[Doubtful, ...]:
    """The rows of the most doubt, the most doubtful first.

    Args:
        doubt: by which rows are ordered, (B,).
        share: epistemic part of the doubt of each row, (B,).
        predicted: in words, (B,).
        observed: in words, (B,).
        rows: numbers in the user's file, (B,).
        held_out: the inputs of these rows, (B, columns).
        trained: the inputs of the training rows, against which cells are unusual.
    """
    chosen = np.argsort(-doubt, kind="stable")[:SHOWN]
    some = held_out.iloc[chosen]
    unusual = {str(name): unusual_cells(some[name], trained[name]) for name in some.columns}
    return tuple(
        Doubtful(
            row=int(rows[place]),
            predicted=predicted[place],
            observed=observed[place],
            epistemic_share=float(share[place]),
            features=tuple((str(name), cell_of(some[name].iloc[i])) for name in some.columns),
            unusual=tuple(name for name, flags in unusual.items() if flags[i]),
        )
        for i, place in enumerate(chosen)
    )


def unusual_cells(cells: pd.Series, trained: pd.Series) -> NDArray[np.bool_]:
    """Whether a cell lies at the rim of the training cells, or is a rare word, or is missing where few are.

    Args:
        cells: to be judged, (n,).
        trained: of the same column, (N,).
    """
    if (is_number(trained) or _mostly_numbers(trained)) and not (is_flag(trained) or is_code(trained)):
        return _at_the_rim(numbers(cells), numbers(trained))
    counts = pd.Series(words(trained)).value_counts(dropna=False, normalize=True)
    frequency = pd.Series(words(cells)).map(lambda word: counts.get(word, 0.0))
    return np.asarray(frequency.to_numpy(dtype=np.float64) <= RARE)


def _mostly_numbers(series: pd.Series) -> bool:
    return bool(np.isfinite(numbers(series)).mean() > 0.5)


def _at_the_rim(cells: NDArray[np.float64], trained: NDArray[np.float64]) -> NDArray[np.bool_]:
    absent = np.isnan(trained)
    known = trained[~absent]
    low, high = np.quantile(known, [RARE / 2, 1.0 - RARE / 2])
    rim = (cells < low) | (cells > high)
    return np.asarray(np.where(np.isnan(cells), absent.mean() <= RARE, rim))


def cell_of(value: object) -> str:
    """A cell as a person reads it.

    Examples:
        >>> cell_of(0.0380759064), cell_of("red"), cell_of(float("nan"))
        ('0.03808', 'red', 'missing')
    """
    if value is None or value is pd.NaT or (isinstance(value, float) and np.isnan(value)) or value is pd.NA:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) and not float(value).is_integer() else str(value)
