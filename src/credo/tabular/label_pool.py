"""Rows that can be asked for, and what learns from some of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import as_tensor

from credo.data import DataError, Task
from credo.data.columns import fit_column
from credo.data.encoder import CATEGORIES, ClassTarget, Encoder, NumericTarget, natural_order
from credo.data.problem import Column, Kind, column_of
from credo.data.reading import InputTable
from credo.data.scaling import mean_and_scale
from credo.data.values import infinities, numbers
from credo.posteriors import Posterior
from credo.predictive import Predictive
from credo.tabular.choosing import TableRows
from credo.tabular.designing import design_table
from credo.tabular.label_session import ROW, LabelRequest
from credo.tabular.recipes import Recipe, Settings, recipe_of
from credo.tabular.supporting import FAR
from credo.tabular.training import learn

DRAWS = 100
"""Of methods that have any number of them."""


class LearnedPool(ABC):
    """What is believed about the rows of a pool."""

    @abstractmethod
    def predict(self, rows: Sequence[int]) -> Predictive:
        """The predictive of the labels of these rows."""

    @abstractmethod
    def decode(self, prediction: Predictive) -> list[Any]:
        """The most probable class, or the expected number, of each, as a person writes it."""


@dataclass(frozen=True, eq=False)
class LabelPool(ABC):
    """Rows that can be asked for.

    Attributes:
        table: what a person sees of them.
        request: what is wanted.
    """

    table: InputTable
    request: LabelRequest

    @property
    def settings(self) -> dict[str, Any]:
        """What a session must keep to be the same."""
        return self.request.settings(self.table)

    @abstractmethod
    def learned(self, labels: dict[int, str], task: Task, seed: int, folder: Path) -> LearnedPool:
        """Learn from the labels of some rows; a training that was begun in the folder goes on."""


@dataclass(frozen=True, eq=False)
class TablePool(LabelPool):
    """The rows of a table, which are inputs themselves."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: InputTable, request: LabelRequest) -> TablePool:
        """Find out what the columns are.

        Raises:
            DataError: if there is nothing to learn from, or a name is taken.
        """
        return cls(table, request, _inputs(table, request))

    def learned(self, labels: dict[int, str], task: Task, seed: int, folder: Path) -> LearnedPool:
        recipe = recipe_of(self.request.method, Settings())
        assert isinstance(recipe, Recipe)
        answers = pd.Series(list(labels.values()), name=self.request.target, dtype=object)
        target: NumericTarget | ClassTarget
        if task is Task.CLASSIFICATION:
            target = ClassTarget(self.request.target, tuple(sorted(set(labels.values()), key=natural_order)))
        else:
            mean, scale = mean_and_scale(numbers(answers))
            target = NumericTarget(self.request.target, float(mean), float(scale))
        encoder = self.encoder(target)
        x = encoder.encode(self.table.frame.iloc[list(labels)]).x
        known = isinstance(target, ClassTarget)
        y = target.encode(answers) if known else as_tensor(numbers(answers)).unsqueeze(1)
        made = design_table(encoder, TableRows(x, y), recipe, seed=seed, folder=folder)
        found = learn(made.model, x, made.y, recipe, seed=seed, folder=folder)
        posterior = made.design.noted(found.posterior)
        return LearnedTable(self.table.frame, made.encoder, posterior, self.request.method)

    def encoder(self, target: NumericTarget | ClassTarget) -> Encoder:
        """Of the whole pool, which is known from the beginning."""
        frame, used = self.table.frame, [column for column in self.columns if column.used]
        inputs = [
            fit_column(
                column,
                frame[column.name],
                CATEGORIES,
                column.kind is Kind.NUMERIC and bool(np.isinf(infinities(frame[column.name])).any()),
            )
            for column in used
        ]
        return Encoder(tuple(inputs), target, tuple(c.name for c in self.columns if not c.used))


@dataclass(frozen=True, eq=False)
class LearnedTable(LearnedPool):
    """A posterior, and how rows become its inputs."""

    frame: pd.DataFrame
    encoder: Encoder
    posterior: Posterior
    method: str

    def predict(self, rows: Sequence[int]) -> Predictive:
        x = self.encoder.encode(self.frame.iloc[list(rows)]).x.clamp(-FAR, FAR)
        return self.posterior.predict(x, None if self.method == "ensemble" else DRAWS)

    def decode(self, prediction: Predictive) -> list[Any]:
        mean, target = prediction.mean, self.encoder.target
        points = mean.argmax(1) if isinstance(target, ClassTarget) else mean.double().reshape(-1)
        return list(target.decode(points.cpu().numpy()))


def _inputs(table: InputTable, request: LabelRequest) -> tuple[Column, ...]:
    """What the columns of the pool are."""
    if ROW in table.frame.columns:
        raise DataError(f"{table.source} has a column {ROW!r}, which is what credo writes row numbers to: rename it")
    absent = [name for name in request.drop if name not in table.frame.columns]
    if absent:
        raise DataError(f"{table.source} has no column {absent[0]!r} to drop")
    others = [name for name in table.frame.columns if name != request.target]
    columns = tuple(column_of(table.frame[n], Kind.IDENTIFIER if n in request.drop else None) for n in others)
    if not any(column.used for column in columns):
        raise DataError(f"{table.source} has no column to learn from")
    return columns
