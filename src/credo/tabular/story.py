"""What was done with a table, for a person to read: the file, its columns, the settings, the time it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from credo.data.problem import Column


@dataclass(frozen=True)
class ColumnStory:
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
class Story:
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
    """

    source: str
    rows: int
    target: str
    columns: tuple[ColumnStory, ...]
    notes: tuple[str, ...]
    method: str
    test: float
    seed: int
    seconds: float
    created: str
    credo: str


def columns_told(columns: Sequence[Column]) -> tuple[ColumnStory, ...]:
    """Columns as plain values, which JSON can hold."""
    return tuple(ColumnStory(c.name, c.kind.value, c.missing, c.distinct, c.used, c.why) for c in columns)


KINDS = {kind.__name__: kind for kind in (Story, ColumnStory)}
"""The classes that a story on disk may name."""
