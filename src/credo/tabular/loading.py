"""The first half of the table job: what is asked for, and the table read, understood and divided."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from credo.data import Task
from credo.data.leaks import Leak, leaks
from credo.data.problem import Kind, TableProblem, pose
from credo.data.reading import InputTable, read_table, table_of
from credo.data.splits import Index, Split
from credo.data.values import numbers
from credo.tabular.recipes import RECIPES, Settings
from credo.tabular.sides import (
    GROUP_ROLE,
    TIME_ROLE,
    Sides,
    random_sides,
    sides_by_group,
    sides_by_time,
    with_copies,
    with_role,
)
from credo.tabular.weighing import RowWeights

LEAST = 8
"""Training rows."""
SMALLEST = 1e-100
"""Targets that vary less, or more than the inverse, have squares that a computer cannot hold."""


@dataclass(frozen=True)
class FitRequest:
    """What the user wants to know of a table.

    Attributes:
        target: name of the column to predict.
        method: a name in `RECIPES`.
        task: None decides by the target.
        test: part of the rows that is held out.
        seed: every stream of randomness derives from it.
        epochs: at most so many passes over the data before the learning rate falls; None for the method's own limit.
        drop: names of columns that must not be used.
        weights: name of the column that says how much each row counts; None for one each.
        time: name of the column that orders the rows in time, the latest are held out; None for rows at random.
        group: name of the column that says which rows belong together on one side; None for each by itself.
    """

    target: str
    method: str = "ensemble"
    task: Task | None = None
    test: float = 0.2
    seed: int = 0
    epochs: int | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    time: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.test < 1.0:
            raise ValueError(
                f"test must lie between 0 and 1, got {self.test}: it is the part of the rows that is held out to judge "
                "the result"
            )
        if self.target in self.drop:
            raise ValueError(f"{self.target!r} is the target and cannot be dropped")
        if self.weights is not None and self.weights in (self.target, *self.drop):
            role = "the target" if self.weights == self.target else "to be dropped"
            raise ValueError(f"{self.weights!r} is {role} and cannot weigh the rows")
        self._check_sides()
        if self.method not in RECIPES:
            raise ValueError(f"method must be one of {', '.join(RECIPES)}, got {self.method!r}")
        Settings(self.epochs)

    def _check_sides(self) -> None:
        if self.time is not None and self.group is not None:
            raise ValueError("time and group cannot both divide the rows: choose one")
        for name, column in (("time", self.time), ("group", self.group)):
            taken = {self.target: "the target", self.weights: "the weight of the rows"}
            if column is not None and column in taken:
                raise ValueError(f"{name}={column!r} is {taken[column]} and cannot divide the rows")

    @property
    def options(self) -> dict[str, object]:
        """What the numbers depend on, beside the cells of the table, by the names that the user knows."""
        return {
            "--target": self.target,
            "--method": self.method,
            "--task": None if self.task is None else self.task.value,
            "--test": self.test,
            "--seed": self.seed,
            "--epochs": self.epochs,
            "--drop": " --drop ".join(sorted(set(self.drop))) or None,
            "--weights": self.weights,
            "--time": self.time,
            "--group": self.group,
        }


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A table that has been read and understood.

    Attributes:
        request: what the user wants.
        table: as it was read.
        problem: what its columns are.
        parts: which rows are training rows and which are held out.
        started: when work began, by the monotonic clock.
        weights: of all rows of the table; None for one each.
        groups: number of the group of each row of the problem, that validation rows must not cut; None for none.
        leaks: ways in which held-out rows may flatter the result.
    """

    request: FitRequest
    table: InputTable
    problem: TableProblem
    parts: Split
    started: float
    weights: RowWeights | None = None
    groups: Index | None = None
    leaks: tuple[Leak, ...] = ()

    @property
    def file_rows(self) -> NDArray[np.int64]:
        """The numbers in the file, from 1, of the rows of the problem.

        Rows are left out by their target and their weight alone.
        """
        target = self.problem.target
        usable = self.table.frame[target].isin(self.problem.frame[target].unique()).to_numpy()
        if self.weights is not None:
            usable = usable & self.weights.counts
        return np.flatnonzero(usable) + 1


def load_table(table: pd.DataFrame | str | Path, request: FitRequest) -> LoadedTable:
    """Read a table, once, and find out what is in it.

    Args:
        table: a CSV or Parquet file, or a data frame.
        request: what the user wants.

    Raises:
        ValueError: if the table or the request makes no sense; the sentence says why.
    """
    started = time.monotonic()
    found = table_of(table, "the table") if isinstance(table, pd.DataFrame) else read_table(table)
    problem, weights = _posed(found, request)
    problem, sides = _divided(problem, request)
    _check_training_rows(problem, sides.parts, request.test)
    ways = leaks(problem, divided=request.time is not None or request.group is not None, seed=request.seed)
    problem = replace(problem, notes=(*problem.notes, *(leak.sentence for leak in ways)))
    return LoadedTable(request, found, problem, sides.parts, started, weights, sides.groups, ways)


def _divided(problem: TableProblem, request: FitRequest) -> tuple[TableProblem, Sides]:
    """Both sides of the table, and words about the column that divides it."""
    if request.time is not None:
        sides = sides_by_time(problem, request.time, request.test)
        return with_role(problem, request.time, TIME_ROLE), sides
    if request.group is not None:
        sides = sides_by_group(problem, request.group, request.test, request.seed)
        return with_role(problem, request.group, GROUP_ROLE), sides
    sides = random_sides(problem, request.test, request.seed)
    return with_copies(problem, sides), sides


def _posed(table: InputTable, request: FitRequest) -> tuple[TableProblem, RowWeights | None]:
    """What is asked of the rows that count, and how much each row does."""
    sides = [column for column in (request.time, request.group) if column is not None]
    unused = dict.fromkeys((*request.drop, *sides), Kind.IDENTIFIER)
    if request.weights is None:
        return pose(table, request.target, task=request.task, kinds=unused), None
    weights = RowWeights.of(table, request.weights)
    unused[request.weights] = Kind.IDENTIFIER
    problem = pose(weights.kept(table), request.target, task=request.task, kinds=unused)
    return weights.explained(problem), weights


def _check_training_rows(problem: TableProblem, parts: Split, test: float) -> None:
    """Refuse before training what would fail after it: too few training rows, or a target without a scale."""
    if len(parts.train) < LEAST:
        raise ValueError(
            f"test={test:g} leaves {len(parts.train)} of {len(problem.frame)} rows for training, and at least {LEAST} "
            "are needed: hold out fewer (--test)"
        )
    if problem.task is Task.CLASSIFICATION:
        return
    known = numbers(problem.frame[problem.target])[parts.train]
    largest, varies = float(np.abs(known).max()), float(np.ptp(known / 2.0)) * 2.0
    if not SMALLEST < varies <= largest * 2.0 < 1.0 / SMALLEST:
        raise ValueError(
            f"column {problem.target!r} varies by {varies:.3g} in the {len(known)} training rows (numbers up to "
            f"{largest:.3g}), which cannot be computed with: multiply it by a power of ten, or check its unit"
        )
    if varies <= 1e-7 * largest:
        raise ValueError(
            f"column {problem.target!r} varies by {varies:.3g} around {largest:.3g} in the training rows, too little "
            "to predict: subtract a constant from it"
        )
