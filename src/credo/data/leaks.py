"""Ways in which held-out rows flatter a model: copies of the target, order in time, groups, repeated rows.

Each detector is a test that accuses an honest column once in a thousand times, and asks for an effect that matters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from credo.core.rng import Stream
from credo.data import Task
from credo.data.copies import FEWEST, follows, missing_names, names_classes, names_numbers, scaled, separates
from credo.data.problem import Column, Kind, TableProblem, named_as_identifier
from credo.data.values import date_layout, days, is_date, is_nested, is_number, numbers, words

MOST = 20_000
"""Rows that are looked at."""
RATE = 0.001
"""How often a column is accused by chance."""
DRIFT = 0.02
"""Part of the variance of the target's ranks that time must explain to be worth a word."""
STRETCHES = 10
"""Of time."""
PAIRS = 3_000
"""Of rows that are compared."""
ALIKE = 0.15
"""By how much more often pairs within a group agree, before it matters."""
LARGEST_GROUPS = 20
"""Rows per value, on average, up to which a column may stand for persons or things that come several times."""

Floats = NDArray[np.float64]


class Way(Enum):
    """How held-out rows may flatter."""

    COPY = "copy"
    TIME = "time"
    GROUP = "group"


@dataclass(frozen=True)
class Leak:
    """A way in which the score on held-out rows may be better than what new rows will show.

    Attributes:
        way: which one.
        column: that it comes from; empty for the order of the rows.
        sentence: what was found and what to do.
    """

    way: Way
    column: str
    sentence: str


def leaks(problem: TableProblem, *, divided: bool = False, seed: int = 0) -> tuple[Leak, ...]:
    """All that is found.

    Args:
        problem: the table.
        divided: whether rows are divided by time or by groups already; then neither is looked for.
        seed: of the rows that are looked at, of a large table.
    """
    if len(problem.frame) < FEWEST:
        return ()
    rows = np.arange(len(problem.frame))
    if len(rows) > MOST:
        rows = np.sort(Stream(seed, ("rows that are searched for leaks",)).permutation(len(rows)).numpy()[:MOST])
    look = _Look(problem, problem.frame.iloc[rows].reset_index(drop=True), Stream(seed, ("leaks",)))
    found = list(look.copies())
    if not divided:
        found += [*look.drifts(), *look.groups()]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Look:
    problem: TableProblem
    frame: pd.DataFrame
    stream: Stream

    @property
    def used(self) -> list[Column]:
        return [column for column in self.problem.columns if column.used]

    @property
    def target(self) -> Any:
        return self.frame[self.problem.target]

    def copies(self) -> Iterator[Leak]:
        for column in self.used:
            what = self._copy(column)
            if what:
                advice = f"if it is not known when you predict, leave it out: --drop {column.name}"
                yield Leak(Way.COPY, column.name, f"column {column.name!r} {what}: {advice}")

    def _copy(self, column: Column) -> str:
        cells = self.frame[column.name]
        if self.problem.task is Task.REGRESSION:
            y = numbers(self.target)
            if column.kind is Kind.CATEGORICAL:
                return names_numbers(words(cells), y)
            return follows(_as_numbers(cells, column), y)
        y = words(self.target).astype(str)
        if column.kind is Kind.CATEGORICAL:
            return names_classes(words(cells), y)
        found = separates(_as_numbers(cells, column), y)
        return found or missing_names(_as_numbers(cells, column), y)

    def drifts(self) -> Iterator[Leak]:
        """By columns of dates; by the order of the rows where there is none."""
        dates = [column for column in self.problem.columns if column.kind is Kind.DATE or self._counts_years(column)]
        for column in dates:
            strength = self._drift(_as_numbers(self.frame[column.name], column))
            if strength >= DRIFT:
                yield Leak(
                    Way.TIME,
                    column.name,
                    f"{self.problem.target!r} drifts with {column.name!r}, and rows at random are of the same time as "
                    f"those learned from: if you will predict what comes later, test on the latest rows with --time "
                    f"{column.name}",
                )
        order = np.arange(len(self.frame), dtype=np.float64)
        if not dates and not self._is_sorted() and self._drift(order) >= DRIFT:
            yield Leak(
                Way.TIME,
                "",
                f"{self.problem.target!r} drifts with the order of the rows: if that is an order in time and you will "
                "predict what comes later, number the rows in a column and test on the latest with --time COLUMN",
            )

    def _counts_years(self, column: Column) -> bool:
        """Whether a column of whole numbers is time by its name, and the file is sorted by it."""
        if column.kind is not Kind.NUMERIC or re.search(r"year|date|time|quarter", column.name.lower()) is None:
            return False
        steps = np.diff(numbers(self.frame[column.name]))
        return bool((steps >= 0).all() and (steps > 0).any())

    def _drift(self, when: Floats) -> float:
        """Part of the variance of the target's ranks between stretches of time; 0 where chance explains it."""
        known = np.isfinite(when)
        if known.sum() < FEWEST or len(np.unique(when[known])) < 3:
            return 0.0
        rank = pd.Series(when[known]).rank(method="average").to_numpy() - 1.0
        stretch = np.minimum((rank * STRETCHES / known.sum()).astype(np.int64), STRETCHES - 1)
        outputs, chi2 = self._dependence(known, stretch)
        score = normal_score_of_chi2(chi2, outputs * (len(np.unique(stretch)) - 1))
        return chi2 / (outputs * float(known.sum())) if score > NormalDist().inv_cdf(1.0 - RATE) else 0.0

    def _dependence(self, known: NDArray[np.bool_], stretch: NDArray[np.int64]) -> tuple[int, float]:
        """Free outputs of the target, and chi-square: that of Kruskal and Wallis for numbers, Pearson's for classes."""
        if self.problem.task is Task.REGRESSION:
            ranks = pd.Series(numbers(self.target)[known]).rank().to_numpy()
            return 1, (len(ranks) - 1) * _between(ranks, stretch)
        y = words(self.target).astype(str)[known]
        names = sorted(set(y))
        each = [(y == name).astype(np.float64) for name in names]
        return max(len(names) - 1, 1), sum(len(y) * (1.0 - float(one.mean())) * _between(one, stretch) for one in each)

    def _is_sorted(self) -> bool:
        """Whether the file is sorted by a column, which then explains any order: by the target, say, or by towns."""
        plain = [name for name in self.frame.columns if not is_nested(self.frame[name])]
        # classes that drift lie together too, and more loosely than sorted ones
        return any(_sorted(self.frame[name], 0.05 if name == self.problem.target else 0.3) for name in plain)

    def groups(self) -> Iterator[Leak]:
        for column in self.problem.columns:
            cells = self.frame[column.name]
            if column.kind in (Kind.DATE, Kind.CONSTANT, Kind.TEXT) or is_nested(cells):
                continue
            share = self._alike(column.name, cells)
            if share is not None:
                per_value = len(self.frame) / max(column.distinct, 1)
                yield Leak(
                    Way.GROUP,
                    column.name,
                    f"the values of column {column.name!r} come {per_value:.1f} times each, and rows that share one "
                    f"are alike: if you will predict new ones, hold out whole groups with --group {column.name}",
                )

    def _alike(self, name: str, cells: Any) -> float | None:
        """By how much more often rows with the same value agree than rows with a neighboring one; None for no group."""
        keys = words(cells)
        present = np.array([key is not None for key in keys])
        values, group, counts = np.unique(keys[present].astype(str), return_inverse=True, return_counts=True)
        repeated = int((counts > 1).sum())
        if len(values) < 10 or repeated < 10 or not _may_name_things(name, cells, present, counts):
            return None
        rows = np.flatnonzero(present)
        same, other = _pairs(rows, group, _neighbors(cells, present, values, group), self.stream.child(name))
        if len(same) < FEWEST:
            return None
        others = [c for c in self.frame.columns if c != name and not is_nested(self.frame[c])]
        agree = np.stack([_agreement(self.frame[c], same, other) for c in others])  # (columns, 2, pairs)
        difference = agree[:, 0] - agree[:, 1]
        mean, error = difference.mean(1), difference.std(1, ddof=1) / math.sqrt(difference.shape[1])
        chance = NormalDist().inv_cdf(1.0 - RATE / len(others))  # of the largest of all columns
        alike = mean[(mean > chance * error) & (mean > ALIKE)]
        return float(alike.max()) if len(alike) else None


def _sorted(cells: Any, loose: float) -> bool:
    """Whether equal cells lie together far more than by chance, or numbers nearly always rise or nearly always fall."""
    codes = pd.factorize(pd.Series(words(cells)))[0]
    part = np.unique(codes, return_counts=True)[1] / len(codes)
    expected = 1.0 - float((part**2).sum())  # changes from row to row, in random order
    if expected < 0.05:
        return False
    if float((codes[1:] != codes[:-1]).mean()) < loose * expected:
        return True
    steps = np.diff(numbers(cells)) if is_number(cells) else np.array([np.nan])
    known = steps[np.isfinite(steps)]
    return len(known) > 0 and len(part) > 2 and max((known >= 0).mean(), (known <= 0).mean()) > 0.9


def _may_name_things(name: str, cells: Any, present: NDArray[np.bool_], counts: NDArray[np.int64]) -> bool:
    """Whether a column could name persons or things: words or whole numbers, few rows for each."""
    if counts.mean() > LARGEST_GROUPS and not named_as_identifier(name):
        return False
    if not is_number(cells):
        return np.isnan(numbers(cells)[present]).mean() > 0.5 or named_as_identifier(name)
    known = numbers(cells)[present]
    return bool((known == np.floor(known)).all())


def _neighbors(cells: Any, present: NDArray[np.bool_], values: Any, group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group that each group is compared with: the next larger number, since quantities resemble their neighbors."""
    count = len(values)
    if not is_number(cells):
        return (np.arange(count) + count // 2) % count
    known = numbers(cells)[present]
    size = np.zeros(count)
    size[group] = known
    order = np.argsort(size)
    following = np.empty(count, dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


def _pairs(
    rows: NDArray[np.int64], group: NDArray[np.int64], neighbor: NDArray[np.int64], stream: Stream
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (P, 2) of the same group, and pairs of the same first rows with one of the neighboring group.

    One pair of each group, so that pairs are independent of one another.
    """
    order = stream.permutation(len(rows)).numpy()
    by_group: dict[int, list[int]] = {}
    for place in order:
        by_group.setdefault(int(group[place]), []).append(int(rows[place]))
    same: list[tuple[int, int]] = []
    other: list[tuple[int, int]] = []
    for number, members in by_group.items():
        if len(members) > 1 and len(same) < PAIRS:
            same.append((members[0], members[1]))
            other.append((members[0], by_group[int(neighbor[number])][0]))
    return np.array(same, dtype=np.int64).reshape(-1, 2), np.array(other, dtype=np.int64).reshape(-1, 2)


def _agreement(cells: Any, same: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
    """Whether the two cells of each pair agree, (2, P): equal words, or numbers nearer than a tenth of the spread."""
    if is_number(cells) or is_date(cells):
        values = days(cells, "native") if is_date(cells) else numbers(cells)
        values = scaled(values)
        near = 0.1 * float(np.nanstd(values))
        return np.stack([np.abs(values[p[:, 0]] - values[p[:, 1]]) <= near for p in (same, other)]).astype(np.float64)
    codes = pd.factorize(pd.Series(words(cells)))[0]
    return np.stack([codes[p[:, 0]] == codes[p[:, 1]] for p in (same, other)]).astype(np.float64)


def _as_numbers(cells: Any, column: Column) -> Floats:
    if column.kind is Kind.DATE:
        found = date_layout(cells) if not is_date(cells) else None
        return days(cells, column.layout or (found[0] if found else "native"))
    return numbers(cells)


def _between(values: Floats, stretch: NDArray[np.int64]) -> float:
    """Part of the variance that lies between the stretches."""
    whole = float(np.var(values))
    if whole == 0.0:
        return 0.0
    means = pd.Series(values).groupby(stretch).transform("mean").to_numpy()
    return float(np.var(means)) / whole


def normal_score_of_chi2(value: float, df: int) -> float:
    """The standard normal number that is as rare as this value of chi-square, nearly.

    Reference: E. B. Wilson, M. M. Hilferty, "The distribution of chi-square", 1931,
        https://doi.org/10.1073/pnas.17.12.684

    Examples:
        >>> round(normal_score_of_chi2(27.877, 9), 1)  # exceeded once in a thousand times
        3.1
    """
    spread = 2.0 / (9.0 * df)
    return ((max(value, 0.0) / df) ** (1.0 / 3.0) - (1.0 - spread)) / math.sqrt(spread)
