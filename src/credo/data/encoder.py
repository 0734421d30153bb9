"""From rows to tensors and from predictions back to the units of the target; fitted once, written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.config import decode, encode
from credo.core.storage import StorageError
from credo.data import DataError, Task
from credo.data.columns import Block, CategoryColumn, DateColumn, Flags, InputColumn, NumericColumn, fit_column
from credo.data.problem import Kind, TableProblem
from credo.data.scaling import mean_and_scale, standardized
from credo.data.values import Series, infinities, numbers, words

VERSION = 1
"""Of the JSON form."""
ROUNDING = 1e-6
"""By how much the end of an interval may miss a whole number that it holds."""
CATEGORIES = 300
"""Categories of one column with a feature of their own, when the caller does not say how many."""


@dataclass(frozen=True)
class NumericTarget:
    """A number, standardized: (y - mean) / scale.

    Attributes:
        name: of the column.
        mean: of the training rows.
        scale: their standard deviation.
        whole: whether all of them were whole numbers from 0 on, as counts are: intervals then have such ends.
    """

    name: str
    mean: float
    scale: float
    whole: bool = False

    def encode(self, series: Series) -> Tensor:
        """Targets for the network, (B, 1)."""
        values = numbers(series)
        if np.isnan(values).any():
            raise DataError(f"column {self.name!r} has {int(np.isnan(values).sum())} cell(s) that are no numbers")
        return torch.tensor(standardized(values, self.mean, self.scale), dtype=torch.float32).unsqueeze(1)

    def decode(self, values: Any) -> NDArray[np.float64]:
        """Predicted means, quantiles or samples in the units of the target."""
        return np.asarray(values, dtype=np.float64) * self.scale + self.mean

    def decode_interval(self, lower: Any, upper: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of intervals in the units of the target; of counts the outermost whole numbers in them, from 0 on.

        An interval with no whole number in it becomes the one that is nearest to its middle.
        """
        low, high = self.decode(lower), self.decode(upper)
        if not self.whole:
            return low, high
        nearest = np.round(0.5 * (low + high)).clip(0.0)
        first, last = np.ceil(low - ROUNDING).clip(0.0), np.floor(high + ROUNDING)
        empty = first > last
        return np.where(empty, nearest, first), np.where(empty, nearest, last)

    def decode_scale(self, values: Any) -> NDArray[np.float64]:
        """Standard deviations in the units of the target."""
        return np.asarray(values, dtype=np.float64) * self.scale


@dataclass(frozen=True)
class ClassTarget:
    """One of several classes, by its number.

    Attributes:
        name: of the column.
        classes: names in the order of their numbers.
    """

    name: str
    classes: tuple[str, ...]

    def encode(self, series: Series) -> Tensor:
        """Class numbers, (B,)."""
        numbered = {word: number for number, word in enumerate(self.classes)}
        cells = words(series)
        strange = sorted({str(cell) for cell in cells if cell not in numbered})
        if strange:
            raise DataError(f"column {self.name!r} has the class {strange[0]!r}, which was not there in training")
        return torch.tensor([numbered[cell] for cell in cells], dtype=torch.long)

    def decode(self, labels: Any) -> list[str]:
        """Names of class numbers."""
        return [self.classes[int(label)] for label in np.asarray(labels).reshape(-1)]


KINDS = {kind.__name__: kind for kind in (NumericColumn, CategoryColumn, DateColumn, NumericTarget, ClassTarget)}


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as the network takes them.

    Attributes:
        x: inputs, (B, F).
        strange: whether a cell is infinite, or had to be made up although none was in training, or all had to be, (B,).
        notes: what was strange about the rows, in sentences.
    """

    x: Tensor
    strange: Flags
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Encoder:
    """How the rows of a table become inputs of a network.

    Attributes:
        inputs: the columns it learns from.
        target: what it predicts.
        left_out: names of the other columns of the training table.
    """

    inputs: tuple[InputColumn, ...]
    target: NumericTarget | ClassTarget
    left_out: tuple[str, ...] = ()

    @classmethod
    def fit(cls, problem: TableProblem, rows: Any = None, *, most_categories: int = CATEGORIES) -> Encoder:
        """Learn means, scales and categories.

        Args:
            problem: table, target and kinds of the columns.
            rows: numbers of the training rows; None for all. Test rows must have no part in what is learned here.
            most_categories: of one column with a feature of their own; the others share one.
        """
        frame = problem.frame if rows is None else problem.frame.iloc[np.asarray(rows)]
        inputs = [
            fit_column(c, frame[c.name], most_categories, _has_infinite(problem, c.name, c.kind))
            for c in problem.columns
            if c.used
        ]
        left_out = tuple(c.name for c in problem.columns if not c.used)
        return cls(tuple(inputs), _fit_target(problem, frame), left_out)

    @property
    def task(self) -> Task:
        return Task.REGRESSION if isinstance(self.target, NumericTarget) else Task.CLASSIFICATION

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the F inputs of the network."""
        return tuple(name for column in self.inputs for name in column.features)

    @property
    def codes(self) -> tuple[str, ...]:
        """Names of the columns that hold codes such as 01003, for `read_table`."""
        return tuple(column.name for column in self.inputs if isinstance(column, CategoryColumn) and column.codes)

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """Rows with the columns of the training table, in any order, with or without the target.

        Raises:
            DataError: if there is no row, a column is missing, or a column cannot be read at all.
        """
        if len(frame) == 0:
            raise DataError("the table has no rows: there is nothing to predict")
        absent = [column.name for column in self.inputs if column.name not in frame.columns]
        if absent:
            shown = ", ".join(map(repr, absent[:5])) + (" ..." if len(absent) > 5 else "")
            raise DataError(f"the table lacks {len(absent)} column(s) that the model was trained on: {shown}")
        blocks = [column.encode(frame[column.name]) for column in self.inputs]
        strange = _strange(blocks)
        values = np.concatenate([block.values for block in blocks], axis=1)
        notes = [note for block in blocks for note in block.notes]
        limit = float(np.finfo(np.float32).max)
        x = torch.tensor(values.clip(-limit, limit), dtype=torch.float32)
        return Encoded(x, strange, (*self._extra(frame), *notes, *self._unseen(frame)))

    def novelty(self, frame: pd.DataFrame, *, training: bool = False) -> NDArray[np.float64]:
        """How improbable the most improbable new category of each row is, (B,); 0 where all are known.

        Args:
            frame: rows.
            training: whether they are the training rows, each of which is compared with the others.
        """
        kinds = [column for column in self.inputs if isinstance(column, CategoryColumn)]
        each = [column.novelty(frame[column.name], training=training) for column in kinds]
        return np.max(np.stack([np.zeros(len(frame)), *each]), axis=0)

    @property
    def measured(self) -> tuple[bool, ...]:
        """Which of the F inputs are numbers that can lie beyond those of training: not yes or no, nor angles."""
        return tuple(
            place == 0 and not isinstance(column, CategoryColumn)
            for column in self.inputs
            for place in range(len(column.features))
        )

    def _extra(self, frame: pd.DataFrame) -> list[str]:
        known = {column.name for column in self.inputs} | {self.target.name, *self.left_out}
        extra = [str(name) for name in frame.columns if name not in known]
        return [f"column(s) unknown to the model are ignored: {', '.join(map(repr, extra))}"] if extra else []

    def _unseen(self, frame: pd.DataFrame) -> list[str]:
        notes = []
        for column in self.inputs:
            if isinstance(column, CategoryColumn) and (strange := column.unseen(frame[column.name])):
                shown = ", ".join(map(repr, strange[:3])) + (
                    f" and {len(strange) - 3} more" if len(strange) > 3 else ""
                )
                fate = "rare or unseen categories are treated alike" if column.others else "never seen in training"
                notes.append(f"column {column.name!r}: {fate}: {shown}")
        return notes

    def encode_target(self, frame: pd.DataFrame) -> Tensor:
        """Targets as the network learns them: (B, 1) standardized numbers or (B,) class numbers."""
        if self.target.name not in frame.columns:
            raise DataError(f"the table lacks the target column {self.target.name!r}")
        return self.target.encode(frame[self.target.name])

    def to_json(self) -> dict[str, Any]:
        """All that is needed to rebuild it, as JSON."""
        fields = {name: encode(getattr(self, name)) for name in ("inputs", "target", "left_out")}
        return {"encoder": VERSION, **fields}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Encoder:
        """The inverse of `to_json`.

        Raises:
            StorageError: if the data are damaged or from a newer credo.
        """
        version = data.get("encoder")
        if not isinstance(version, int):
            raise StorageError("the description of the table's columns is missing or damaged")
        if version > VERSION:
            raise StorageError(
                f"the description of the table's columns has version {version}, and this credo reads up to {VERSION}: "
                "install a newer credo"
            )
        try:
            return Encoder(*(decode(data[name], KINDS) for name in ("inputs", "target", "left_out")))
        except (KeyError, TypeError) as error:
            raise StorageError(f"the description of the table's columns is damaged ({error!r})") from None


def _has_infinite(problem: TableProblem, name: str, kind: Kind) -> bool:
    # all rows: what the table holds on either side of a split is no surprise later
    return kind is Kind.NUMERIC and bool(np.isinf(infinities(problem.frame[name])).any())


def _strange(blocks: list[Block]) -> Flags:
    """Rows with a cell unlike all of training, and rows without a single cell that can be used."""
    if np.all([block.unreadable for block in blocks]):
        raise DataError("no cell of the table can be read as in training: are the columns mixed up?")
    empty = np.all([block.absent for block in blocks], axis=0)
    return np.asarray(np.any([block.strange for block in blocks], axis=0) | empty)


def _fit_target(problem: TableProblem, frame: pd.DataFrame) -> NumericTarget | ClassTarget:
    if problem.task is Task.CLASSIFICATION:
        # all rows: a class that only test rows have is still a class
        return ClassTarget(problem.target, tuple(sorted(set(words(problem.frame[problem.target])), key=natural_order)))
    values = numbers(frame[problem.target])
    mean, scale = mean_and_scale(values)
    whole = bool((values == np.round(values)).all() and values.min() >= 0.0)
    return NumericTarget(problem.target, float(mean), float(scale), whole)


def natural_order(word: str) -> tuple[int, float, str]:
    """Numbers by their size, then words by the alphabet."""
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0.0, word
