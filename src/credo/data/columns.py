"""What a network sees of a column: fitted once, then the same for every row that comes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError
from credo.data.codes import PADDED
from credo.data.problem import Column, Kind
from credo.data.scaling import mean_and_scale, standardized
from credo.data.values import Floats, Series, days, infinities, numbers, origin_of, words

Flags = NDArray[np.bool_]
YEAR, WEEK = 365.2425, 7.0


@dataclass(frozen=True, eq=False)
class Block:
    """Some columns of the network's input.

    Attributes:
        values: (B, number of features).
        absent: whether the cell is missing or cannot be read, (B,).
        strange: whether it is so in a way that no training cell was, or infinite, (B,).
        unreadable: whether it is there and cannot be read, (B,).
        notes: what was strange about the cells, in a sentence at most.
    """

    values: Floats
    absent: Flags
    strange: Flags
    unreadable: Flags
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputColumn(ABC):
    """A column of the table as some columns of the network's input.

    Attributes:
        name: of the column in the table.
        missing: whether cells were missing in training, so that there is a feature that says so.
    """

    name: str
    missing: bool

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """Names of the network's inputs that it becomes."""

    @abstractmethod
    def encode(self, series: Series) -> Block:
        """The cells as numbers; never NaN."""

    def _block(self, values: list[Floats], absent: Flags, infinite: Flags, unreadable: Flags, note: str = "") -> Block:
        """The features with the one that says what is missing, and a note about missing cells that are new."""
        if self.missing:
            values = [*values, absent.astype(np.float64)]
        news, empty = [note] if note else [], int((absent & ~unreadable).sum())
        if empty and not self.missing:
            news.append(f"{empty} cell(s) are missing, as none was in training")
        if infinite.any():
            news.append(f"{int(infinite.sum())} cell(s) are infinite, as none was in training")
        notes = (f"column {self.name!r}: {'; '.join(news)}",) if news else ()
        strange = infinite | (absent & (not self.missing))
        return Block(np.stack(values, axis=1), absent, strange, unreadable, notes)

    def _features(self, *names: str) -> tuple[str, ...]:
        return (*names, f"{self.name} is missing") if self.missing else names


@dataclass(frozen=True)
class NumericColumn(InputColumn):
    """(x - mean) / scale, with the median for missing cells.

    Attributes:
        mean: of the training cells.
        scale: their standard deviation; one for a constant column.
        median: of the training cells.
        infinite: whether the table had infinite cells, which then count as missing; where it had none, an infinite
            cell is larger than all others.
        origin: what is subtracted before anything else, in whole numbers; zero unless the cells are whole numbers with
            more digits than float64 has.
    """

    mean: float
    scale: float
    median: float
    infinite: bool = False
    origin: int = 0

    @classmethod
    def fit(cls, series: Series, infinite: bool) -> NumericColumn:
        origin = origin_of(series)
        values = numbers(series, origin)
        return cls(str(series.name), bool(np.isnan(values).any()), *_center(values), infinite, origin)

    @property
    def features(self) -> tuple[str, ...]:
        return self._features(self.name)

    def encode(self, series: Series) -> Block:
        values, endless = numbers(series, self.origin), infinities(series)
        infinite = np.isinf(endless) & (not self.infinite)
        absent = np.isnan(values) & ~infinite
        unreadable = absent & series.notna().to_numpy() & ~np.isinf(endless)
        filled = np.where(infinite, endless, np.where(absent, self.median, values))
        note = _unreadable(series, unreadable, self.name, "numbers")
        return self._block([standardized(filled, self.mean, self.scale)], absent, infinite, unreadable, note)


MOST_RARE = 2000
"""Rare categories of a column that are remembered: where there are more, one that nobody has seen is no news."""


@dataclass(frozen=True)
class CategoryColumn(InputColumn):
    """One feature for each frequent category, and one for all others, known or never seen.

    Attributes:
        categories: those with a feature of their own, the most frequent first.
        others: whether training rows had a category without one; where none had, a row that has one is unfamiliar: the
            network has learned nothing about it.
        rare: those that training rows had without one.
        once: those that a single training row had, with or without one: as many rows in all say how often a new row
            has a category that none had.
        rows: training rows; 0 where nothing is known of rare categories.
    """

    categories: tuple[str, ...]
    others: bool = True
    rare: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    rows: int = 0

    @classmethod
    def fit(cls, series: Series, most: int) -> CategoryColumn:
        cells = words(series)
        counts = Counter(cell for cell in cells if cell is not None)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        # a category seen once teaches its own row and nothing else
        frequent = [word for word in ordered if counts[word] > 1] or ordered
        known = tuple(frequent[:most])
        rare = tuple(word for word in ordered if word not in set(known))
        once = tuple(word for word in ordered if counts[word] == 1)
        missing = any(cell is None for cell in cells)
        if len(rare) > MOST_RARE:
            return cls(str(series.name), missing, known, True)
        return cls(str(series.name), missing, known, bool(rare), rare, once, len(cells))

    def novelty(self, series: Series, *, training: bool = False) -> Floats:
        """How improbable it is that a row has a category that no training row has, if it has one, else 0, (B,).

        -log P(a new row has a new category), and P = (categories that one row has) / (rows), by Good and Turing

        Args:
            series: cells.
            training: whether they are those of the training rows, each of which is compared with the others.
        """
        cells = words(series)
        if self.rows == 0:
            return np.zeros(len(cells))
        alone, known = set(self.once), {*self.categories, *self.rare}
        if training:
            value = np.log(self.rows / max(1, len(alone)))
            return np.array([value if cell in alone else 0.0 for cell in cells])
        value = np.log((self.rows + 1) / (len(alone) + 1))
        return np.array([0.0 if cell is None or cell in known else value for cell in cells])

    @property
    def features(self) -> tuple[str, ...]:
        return self._features(*(f"{self.name}={word}" for word in self.categories), f"{self.name}=other")

    def encode(self, series: Series) -> Block:
        cells = words(series)
        absent = np.array([cell is None for cell in cells], dtype=bool)
        values = [(cells == word).astype(np.float64) for word in self.categories]
        other = 1.0 - np.sum(values, axis=0) - absent
        none = np.zeros(len(cells), dtype=bool)
        block = self._block([*values, other], absent, none, none)
        return block if self.others else replace(block, strange=block.strange | (other > 0))

    @property
    def codes(self) -> bool:
        """Whether categories are numbers that begin with 0, which a file must not be read without."""
        return any(re.fullmatch(PADDED, word) for word in self.categories)

    def unseen(self, series: Series) -> tuple[str, ...]:
        """Words without a feature of their own."""
        known = set(self.categories)
        return tuple(sorted({cell for cell in words(series) if cell is not None} - known))


@dataclass(frozen=True)
class DateColumn(InputColumn):
    """The date as a number, and where in the year, the week and the day it lies (sine and cosine).

    Attributes:
        layout: how dates are written.
        mean: of the training dates, in days since 1970.
        scale: their standard deviation in days.
        median: of the training dates.
        cycles: periods in days of those cycles that vary in training.
    """

    layout: str
    mean: float
    scale: float
    median: float
    cycles: tuple[float, ...]

    @classmethod
    def fit(cls, series: Series, layout: str) -> DateColumn:
        values = days(series, layout)
        known = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
        covered = float(np.ptp(known))
        varies = {YEAR: covered > 60, WEEK: covered >= 2, 1.0: float(np.ptp(known % 1.0)) > 0.02}
        cycles = tuple(period for period, wanted in varies.items() if wanted)
        return cls(str(series.name), bool(np.isnan(values).any()), layout, *_center(known), cycles)

    @property
    def features(self) -> tuple[str, ...]:
        called = {YEAR: "year", WEEK: "week", 1.0: "day"}
        names = [f"{self.name}: {wave} of the {called[c]}" for c in self.cycles for wave in ("sine", "cosine")]
        return self._features(self.name, *names)

    def encode(self, series: Series) -> Block:
        values = days(series, self.layout)
        absent = np.isnan(values)
        unreadable = absent & series.notna().to_numpy()
        note = _unreadable(series, unreadable, self.name, "dates")
        filled = np.where(absent, self.median, values)
        waves = [wave(2 * np.pi * filled / period) for period in self.cycles for wave in (np.sin, np.cos)]
        none = np.zeros(len(values), dtype=bool)
        trend = standardized(filled, self.mean, self.scale)
        return self._block([trend, *waves], absent, none, unreadable, note)


def _center(values: Floats) -> tuple[float, float, float]:
    """Mean, scale and median of the cells that are there."""
    known = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    mean, scale = mean_and_scale(known)
    return float(mean), float(scale), 2.0 * float(np.median(known / 2.0))


def _unreadable(series: Series, strange: Flags, name: str, wanted: str) -> str:
    """A word about cells that are there and cannot be read; an error where most of several cannot."""
    count, present = int(strange.sum()), int(series.notna().sum())
    if count == 0:
        return ""
    first = str(series[strange].iloc[0])
    if count > present // 2 and present > 1:
        raise DataError(
            f"column {name!r} must hold {wanted}, and {count} of its {present} cells are none (the first: {first!r})"
        )
    return f"{count} cell(s) are no {wanted} and count as missing (the first: {first!r})"


def fit_column(column: Column, series: Series, most: int, infinite: bool) -> InputColumn:
    """The encoding of a column of a used kind.

    Args:
        column: what it is.
        series: its training cells.
        most: categories with a feature of their own.
        infinite: whether the table has infinite cells in this column, in training rows or others.
    """
    if column.kind is Kind.NUMERIC:
        return NumericColumn.fit(series, infinite)
    if column.kind is Kind.DATE:
        return DateColumn.fit(series, column.layout)
    return CategoryColumn.fit(series, most)
