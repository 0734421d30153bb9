"""credo beside each other method: means over the splits that all of them have, ratios, wins and losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from credo.data import Task
from table_peers import PEERS
from table_rows import RESULTS, Row, read
from table_sets import TABLES, Purpose
from tables import is_asked

OURS, BEFORE = "credo", "credo-before"
TITLES = {OURS: "credo", BEFORE: "credo before", **{name: peer.title for name, peer in PEERS.items()}}
ENOUGH = 100
"""Held-out rows from which on a coverage is said to be low or high."""


@dataclass(frozen=True)
class Measure:
    """A score, and how two of them are compared.

    Attributes:
        id: its name in the rows.
        title: as the page names it.
        better: which way is better; None where neither is.
        by: ratio, or difference where it may be zero or negative.
        tie: ratios and differences up to this are ties.
        digits: after the point, of a difference.
    """

    id: str
    title: str
    better: Literal["lower", "higher"] | None
    by: Literal["ratio", "difference"]
    tie: float
    digits: int = 2


MEASURES = {
    Task.REGRESSION: (
        Measure("rmse", "RMSE", "lower", "ratio", 0.02),
        Measure("crps", "CRPS", "lower", "ratio", 0.02),
        Measure("interval_score", "interval score at 95 %", "lower", "ratio", 0.02),
        Measure("log_likelihood", "log likelihood (nats per row)", "higher", "difference", 0.02),
    ),
    Task.CLASSIFICATION: (
        Measure("accuracy", "accuracy", "higher", "difference", 0.005, 3),
        Measure("brier", "Brier score", "lower", "difference", 0.005, 3),
        Measure("log_likelihood", "log likelihood (nats per row)", "higher", "difference", 0.02),
        Measure("calibration_error", "calibration error", "lower", "difference", 0.005, 3),
    ),
}
COVERAGE = Measure("coverage", "coverage of the 95 % interval", None, "difference", 0.0, 3)
SECONDS = Measure("seconds", "processor seconds to fit", "lower", "ratio", 0.02)


@dataclass(frozen=True, eq=False)
class Results:
    """All rows that are compared.

    Attributes:
        rows: by method and table, those of the splits that every method has.
    """

    rows: dict[tuple[str, str], list[Row]]

    def methods(self, task: Task) -> list[str]:
        """Those that have rows for such tables, credo first."""
        known = {method for method, table in self.rows if TABLES[table].task is task}
        return [name for name in TITLES if name in known]

    def tables(self, task: Task, ours: str, purposes: Iterable[Purpose] = tuple(Purpose)) -> list[str]:
        """Those that a row of credo, the new or the old, stands for, in the order of the list."""
        asked = set(purposes)
        return [
            name
            for name, each in TABLES.items()
            if each.task is task and each.purpose in asked and (ours, name) in self.rows
        ]

    def score(self, method: str, table: str, measure: Measure) -> float | None:
        """The mean over the splits; None where the method was not asked, failed, or has no such score."""
        found = [_value(row, measure) for row in self.rows.get((method, table), [])]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if found and len(known) == len(found) else None

    def against(self, ours: str, method: str, tables: Iterable[str], measure: Measure) -> list[tuple[str, float]]:
        """Ratio of credo, new or old, to a method, or difference from it, for each table where both have the score."""
        each = []
        for table in tables:
            mine, other = self.score(ours, table, measure), self.score(method, table, measure)
            if mine is not None and other is not None:
                each.append((table, mine / other if measure.by == "ratio" else mine - other))
        return each


def _value(row: Row, measure: Measure) -> float | None:
    if row.failed:
        return None
    return row.seconds if measure is SECONDS else row.scores[measure.id]


def gather(folder: Path = RESULTS) -> Results:
    """The stored rows, of the tables and splits that all methods have been run on that are asked there."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for method in TITLES:
        for row in read(method, folder):
            found.setdefault((method, row.table), {})[row.seed] = row
    each = {}
    for method, table in found:
        shared = set.intersection(*(set(found.get((other, table), {})) for other in _asked(found, table)))
        each[method, table] = [found[method, table][seed] for seed in sorted(shared)]
    return Results({key: rows for key, rows in each.items() if rows})


def _asked(found: dict[tuple[str, str], dict[int, Row]], table: str) -> list[str]:
    """The methods that must have rows of a table before it is shown: all that have been run, where they are for it.

    The newest credo is the exception: tables that it has not been run on are shown without it.
    """
    trained = next(row.trained for (_, name), rows in found.items() if name == table for row in rows.values())
    run = {method for method, name in found if TABLES[name].task is TABLES[table].task}
    asked = [method for method in run if is_asked(method, TABLES[table], trained)]
    return [method for method in asked if method != OURS or (OURS, table) in found]


@dataclass(frozen=True)
class Duel:
    """credo against one method over many tables, by one measure.

    Attributes:
        method: the other one.
        center: geometric mean of the ratios, or median of the differences.
        wins: tables where credo is better by more than a tie.
        ties: tables where neither is.
        losses: tables where the other one is.
        worst: the table where credo is furthest behind, or least ahead.
        worst_value: its ratio or difference.
    """

    method: str
    center: float
    wins: int
    ties: int
    losses: int
    worst: str
    worst_value: float


def duel(results: Results, ours: str, method: str, tables: Iterable[str], measure: Measure) -> Duel | None:
    """How credo does against a method; None where they share no score."""
    each = results.against(ours, method, tables, measure)
    if not each:
        return None
    values = np.array([value for _, value in each])
    gains = np.log(values) if measure.by == "ratio" else values
    center = float(np.exp(gains.mean())) if measure.by == "ratio" else float(np.median(gains))
    gains = -gains if measure.better == "lower" else gains
    tie = np.log1p(measure.tie) if measure.by == "ratio" else measure.tie
    worst = int(gains.argmin())
    wins, losses = int((gains > tie).sum()), int((gains < -tie).sum())
    return Duel(method, center, wins, len(each) - wins - losses, losses, each[worst][0], float(values[worst]))


def best_peer(results: Results, ours: str, tables: list[str], measure: Measure) -> Duel | None:
    """Against the single peer that does best of those that have a score for every table."""
    duels = [duel(results, ours, method, tables, measure) for method in PEERS]
    whole = [each for each in duels if each is not None and each.wins + each.ties + each.losses == len(tables)]
    sign = -1 if measure.better == "higher" else 1
    return max(whole, key=lambda each: sign * each.center, default=None)


@dataclass(frozen=True)
class Coverage:
    """How often a method's 95 % intervals hold what was observed.

    Attributes:
        method: its name.
        mean: over tables.
        worst: the table with enough held-out rows where it is lowest; empty where there is none.
        lowest: that coverage.
        under: tables with enough held-out rows where it is under 91 %.
        tables: with enough held-out rows.
        splits: of these tables, the fewest that were averaged.
    """

    method: str
    mean: float
    worst: str
    lowest: float
    under: int
    tables: int
    splits: int


def coverage(results: Results, method: str, tables: Iterable[str]) -> Coverage | None:
    """Of a method over tables; None where it gives no intervals."""
    each = {table: results.score(method, table, COVERAGE) for table in tables}
    known = {table: value for table, value in each.items() if value is not None}
    if not known:
        return None
    large = {t: value for t, value in known.items() if results.rows[method, t][0].held_out >= ENOUGH}
    worst = min(large, key=lambda t: large[t], default="")
    splits = min((len(results.rows[method, t]) for t in large), default=0)
    under = sum(value < 0.91 for value in large.values())
    mean = float(np.mean(list(known.values())))
    return Coverage(method, mean, worst, large.get(worst, float("nan")), under, len(large), splits)
