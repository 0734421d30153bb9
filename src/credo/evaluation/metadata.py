"""How a run of a table came about, for a person to read: the file, its columns, the settings, the time it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from credo.core.config import decode
from credo.data.problem import Column


@dataclass(frozen=True)
class ColumnMetadata:
    """What a column of the file was taken for.

    Attributes:
        name: of the column.
        taken_for: numeric, categorical, date, identifier, constant or text.
        missing: number of cells that are missing.
        distinct: number of different cells.
        used: whether the network learns from it.
        why: the reason, where a person may want to know it.
    """

    name: str
    taken_for: str
    missing: int
    distinct: int
    used: bool
    why: str


@dataclass(frozen=True)
class TrainingLength:
    """How long the networks of a run were trained.

    Attributes:
        epochs: passes over the data at the full learning rate.
        cooling: passes more, with a falling learning rate; 0 where they did not help.
        limit: the most that `epochs` could have been.
        chosen: whether validation rows chose the number of epochs.
    """

    epochs: int
    cooling: int
    limit: int
    chosen: bool

    def __str__(self) -> str:
        """In words.

        Examples:
            >>> print(TrainingLength(50, 15, 50, True))
            50 epochs and 15 more with a falling learning rate
        """
        whole = f"{self.epochs:,} epochs" if self.epochs != 1 else "one epoch"
        return f"{whole} and {self.cooling:,} more with a falling learning rate" if self.cooling else whole


@dataclass(frozen=True)
class RunMetadata:
    """How a run came about.

    Attributes:
        source: name of the file.
        rows: number of rows in it that could be used.
        target: name of the column that is predicted.
        columns: all other columns.
        notes: what was decided about the table, in sentences.
        method: name of the method.
        test: part of the rows that was held out.
        seed: every stream of randomness derives from it.
        seconds: from reading the file to the evaluation.
        created: date and time, ISO 8601.
        credo: version.
        training: how long it was; None in runs of versions that did not record it.
        time: name of the column by which the latest rows were held out; None where it was not so.
        group: name of the column whose values were held out as a whole; None where it was not so.
    """

    source: str
    rows: int
    target: str
    columns: tuple[ColumnMetadata, ...]
    notes: tuple[str, ...]
    method: str
    test: float
    seed: int
    seconds: float
    created: str
    credo: str
    training: TrainingLength | None = None
    time: str | None = None
    group: str | None = None

    @staticmethod
    def from_json(data: Any) -> RunMetadata:
        """The inverse of `credo.core.config.encode`, for folders of earlier versions too.

        Raises:
            KeyError, TypeError, AttributeError: the data are damaged.
        """
        if "lesson" in data:
            data = {**{name: value for name, value in data.items() if name != "lesson"}, "training": data["lesson"]}
        found = decode(data, KINDS)
        if not isinstance(found, RunMetadata):
            raise TypeError("it does not say how the run came about")
        return found


def columns_metadata(columns: Sequence[Column]) -> tuple[ColumnMetadata, ...]:
    """Columns as plain values, which JSON can hold."""
    return tuple(ColumnMetadata(c.name, c.kind.value, c.missing, c.distinct, c.used, c.why) for c in columns)


EARLIER_NAMES = {"Story": RunMetadata, "ColumnStory": ColumnMetadata, "Lesson": TrainingLength}
KINDS = {**{kind.__name__: kind for kind in (RunMetadata, ColumnMetadata, TrainingLength)}, **EARLIER_NAMES}
"""The classes that the metadata on disk may name; folders of credo's first version name some of them differently."""
