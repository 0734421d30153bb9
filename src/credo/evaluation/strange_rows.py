"""Held-out rows made strange on purpose, to see whether the posterior notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from credo.core.rng import Stream
from credo.data.columns import CategoryColumn, InputColumn, NumericColumn
from credo.data.scaling import mean_and_scale
from credo.data.values import numbers
from credo.evaluation.checks import DOUBTS_QUESTION
from credo.evaluation.digits import number, percent
from credo.evaluation.table_values import StrangeRows
from credo.evaluation.values import Check, Rating

ROWS = 200
"""Rows that are made strange."""
FAR = 3.0
"""Standard deviations by which numbers are moved."""
NEVER_SEEN = "a word that no row has"
MOST, HALF = 0.9, 0.5
"""Parts of the rows with all numbers moved, and with one, that a good alarm flags."""

ORDINARY, ALL, ONE, SHUFFLED, CATEGORY = "ordinary", "all numbers", "one number", "shuffled", "new category"

AnswerRows = Callable[[pd.DataFrame], pd.DataFrame]
"""From rows to their predictions, as `predict_rows` gives them."""


def probes(
    answer: AnswerRows, held_out: pd.DataFrame, trained: pd.DataFrame, columns: Sequence[InputColumn], seed: int
) -> tuple[StrangeRows, ...]:
    """How many rows of each kind get the flag, and how much wider their error bars are.

    Args:
        answer: the posterior.
        held_out: cells of the held-out rows; at most `ROWS` are used.
        trained: cells of the training rows.
        columns: inputs.
        seed: of what is chosen at random.

    Returns:
        The ordinary rows first.
    """
    rows = held_out
    if len(rows) > ROWS:
        chosen = Stream(seed, ("rows made strange",)).permutation(len(rows))[:ROWS].sort().values
        rows = rows.iloc[chosen.numpy()].reset_index(drop=True)
    tables = {ORDINARY: rows, **strange_rows(rows, trained, columns, seed)}
    found = {name: answer(table) for name, table in tables.items()}
    usual = _doubt(found[ORDINARY])
    return tuple(
        StrangeRows(
            name, TITLES[name], len(rows), _flagged(each), _doubt(each) / usual if usual else 1.0, "lower" in each
        )
        for name, each in found.items()
    )


TITLES = {
    ORDINARY: "ordinary rows",
    ALL: f"every number moved by {FAR:.0f} standard deviations",
    ONE: f"one number {FAR:.0f} standard deviations outside the range seen in training",
    SHUFFLED: "the cells of each column shuffled, so that they do not belong together",
    CATEGORY: "a category that was never seen",
}


def strange_rows(
    rows: pd.DataFrame, trained: pd.DataFrame, columns: Sequence[InputColumn], seed: int
) -> dict[str, pd.DataFrame]:
    """The rows made strange in every way that their columns allow.

    Args:
        rows: ordinary ones.
        trained: cells of the training rows.
        columns: inputs.
        seed: of what is chosen at random.
    """
    numeric = [column.name for column in columns if isinstance(column, NumericColumn)]
    categories = [column.name for column in columns if isinstance(column, CategoryColumn)]
    known = {name: numbers(trained[name]) for name in numeric}
    known = {name: values for name, values in known.items() if np.ptp(values[np.isfinite(values)]) > 0.0}
    stream, found = Stream(seed, ("strange rows",)), {}
    if known:
        moved = {name: numbers(rows[name]) + FAR * _spread(values) for name, values in known.items()}
        found[ALL] = _with_cells(rows, moved)
        found[ONE] = _one_outside(rows, known, stream)
    if len(columns) > 1:
        found[SHUFFLED] = _with_cells(rows, {c.name: _shuffled(rows, c.name, stream) for c in columns})
    if categories:
        found[CATEGORY] = _new_category(rows, categories, stream)
    return found


def _spread(values: NDArray[np.float64]) -> float:
    """Standard deviation of the cells that are there."""
    return float(mean_and_scale(values[np.isfinite(values)])[1])


def _with_cells(rows: pd.DataFrame, cells: Mapping[str, Any]) -> pd.DataFrame:
    changed = rows.copy()
    for name, values in cells.items():
        changed[name] = values
    return changed


def _one_outside(rows: pd.DataFrame, known: dict[str, NDArray[np.float64]], stream: Stream) -> pd.DataFrame:
    names = list(known)
    generator = stream.child("one").generator()
    which, side = (_choices(n, len(rows), generator) for n in (len(names), 2))
    cells = {name: numbers(rows[name]) for name in names}
    for place, name in enumerate(names):
        low, high, far = np.nanmin(known[name]), np.nanmax(known[name]), FAR * _spread(known[name])
        outside = np.where(side == 1, high + far, low - far)
        cells[name] = np.where(which == place, outside, cells[name])
    return _with_cells(rows, cells)


def _choices(among: int, count: int, generator: torch.Generator) -> NDArray[np.int64]:
    return np.asarray(torch.randint(among, (count,), generator=generator).numpy())


def _shuffled(rows: pd.DataFrame, name: str, stream: Stream) -> pd.Series:
    order = stream.child("shuffled", name).permutation(len(rows)).numpy()
    return rows[name].iloc[order].reset_index(drop=True)


def _new_category(rows: pd.DataFrame, categories: list[str], stream: Stream) -> pd.DataFrame:
    which = _choices(len(categories), len(rows), stream.child("category").generator())
    cells = {name: rows[name].astype(object).where(which != place, NEVER_SEEN) for place, name in enumerate(categories)}
    return _with_cells(rows, cells)


def _flagged(answers: pd.DataFrame) -> float | None:
    flags = answers["unfamiliar"]
    return None if flags.isna().all() else float(flags.fillna(False).astype(bool).mean())


def _doubt(answers: pd.DataFrame) -> float:
    """The typical width of an interval, or the mean distance of the confidence from one."""
    if "lower" in answers:
        return float((answers["upper"] - answers["lower"]).median())
    return float(1.0 - answers.filter(like="probability_").max(axis=1).mean())


def knows_unknowns(found: Sequence[StrangeRows]) -> Check:
    """Whether strange rows are noticed, in numbers.

    Args:
        found: of `probes`, the ordinary rows first.
    """
    named = {probe.name: probe for probe in found}
    usual = named[ORDINARY]
    if usual.flagged is None:
        return Check(
            DOUBTS_QUESTION,
            Rating.FAIR.value,
            "No: it is a single network, whose error bars hold the noise alone. Rows unlike the training data cannot "
            f"be flagged; use --method ensemble for that.{_widths(named)}",
        )
    rates = {name: named[name].flagged or 0.0 for name in (ALL, ONE, CATEGORY) if name in named}
    wanted = {ALL: MOST, ONE: HALF, CATEGORY: HALF}
    said = f"Flagged as unfamiliar: {_listed(named)}; of ordinary rows {percent(usual.flagged)}.{_widths(named)}"
    if all(rate >= wanted[name] for name, rate in rates.items()):
        return Check(DOUBTS_QUESTION, Rating.GOOD.value, f"Yes. {said}")
    if max(rates.values(), default=0.0) > 2.0 * usual.flagged + 0.1:
        return Check(DOUBTS_QUESTION, Rating.FAIR.value, f"In part. {said} A row without a flag may still be strange.")
    return Check(
        DOUBTS_QUESTION,
        Rating.POOR.value,
        f"No. {said} Check yourself that rows to predict are like those of the table.",
    )


def _listed(named: dict[str, StrangeRows]) -> str:
    phrases = {
        ALL: f"of rows with every number moved by {FAR:.0f} standard deviations {{}}",
        ONE: f"of rows with one number {FAR:.0f} standard deviations out of range {{}}",
        CATEGORY: "of rows with a category never seen {}",
        SHUFFLED: "of rows with shuffled cells {}",
    }
    return ", ".join(phrases[name].format(percent(named[name].flagged or 0.0)) for name in phrases if name in named)


def _widths(named: dict[str, StrangeRows]) -> str:
    if ALL not in named:
        return ""
    what = "error bars are" if named[ALL].interval else "distance from certainty is"
    return f" With every number moved, its {what} {number(named[ALL].doubt)} times as large as for ordinary rows."
