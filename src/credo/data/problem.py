"""A table and a question: what is predicted, from which columns, and what each column is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

import numpy as np
import pandas as pd

from credo.data import DataError, Task
from credo.data.codes import is_code
from credo.data.reading import InputTable
from credo.data.values import (
    NATIVE,
    Series,
    date_layout,
    is_date,
    is_flag,
    is_nested,
    is_number,
    numbers,
    placeholders,
    words,
)

MIN_ROWS = 10
"""Fewer rows teach nothing that could be tested."""
MAX_CLASSES = 100
FEW = 20
"""Below this many rows, distinct cells say nothing about what a column is."""


class Kind(Enum):
    """What the cells of a column are."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    DATE = "date"
    IDENTIFIER = "identifier"
    CONSTANT = "constant"
    TEXT = "text"


USED = (Kind.NUMERIC, Kind.CATEGORICAL, Kind.DATE)
"""Kinds that a network learns from."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: of the column.
        kind: what its cells are.
        missing: number of cells that are missing (or infinite).
        distinct: number of different cells.
        layout: how dates are written, where they are.
        why: the reason for the kind, where a person may want to know it.
    """

    name: str
    kind: Kind
    missing: int
    distinct: int
    layout: str = ""
    why: str = ""

    @property
    def used(self) -> bool:
        return self.kind in USED


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A table with a question.

    Attributes:
        frame: the rows that can be learned from, numbered from 0.
        target: name of the column that is predicted.
        task: a number or a class.
        columns: all other columns.
        notes: what was decided and what was left out, in sentences.
    """

    frame: pd.DataFrame
    target: str
    task: Task
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def pose(
    table: InputTable, target: str, *, task: Task | None = None, kinds: Mapping[str, Kind] | None = None
) -> TableProblem:
    """Find out what each column is, which rows have an answer, and what kind of answer it is.

    Args:
        table: as read.
        target: name of the column to predict.
        task: None decides by the cells: text, yes/no, and whole numbers 0 .. K or 1 .. K with few values are classes.
        kinds: columns whose kind you know better.

    Raises:
        DataError: if there is nothing to learn, or nothing to learn from.
    """
    frame, kinds, notes = table.frame, dict(kinds or {}), list(table.notes)
    for name in (target, *kinds):
        check_column(table, name)
    frame, task, more = _answered(frame, target, task, table.source)
    notes += more
    others = [name for name in frame.columns if name != target]
    columns = [column_of(frame[name], kinds.get(name)) for name in others]
    columns = _keep_the_only_one(columns, frame)
    if not any(column.used for column in columns):
        found = "; ".join(f"{c.name!r} is left out, because {c.why}" for c in columns) or "there is no other column"
        raise DataError(f"{table.source} has no column to predict {target!r} from: {found}")
    notes += [f"column {c.name!r} is left out: {c.why}" for c in columns if not c.used]
    notes += [f"column {c.name!r}: {c.why}" for c in columns if c.used and c.why]
    return TableProblem(frame, target, task, tuple(columns), tuple(notes))


def check_column(table: InputTable, name: str) -> None:
    """Refuse a name that no column has, with those that are near."""
    if name not in table.frame.columns:
        raise DataError(f"{table.source} has no column {name!r}; {_near(name, list(table.frame.columns))}")


def _near(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, 3, 0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(map(repr, names[:20])) + (" ..." if len(names) > 20 else "")
    return f"its columns are {shown}"


def column_of(series: Series, kind: Kind | None = None) -> Column:
    """What a column is.

    Args:
        series: its cells.
        kind: where the user knows it.
    """
    name, rows = str(series.name), len(series)
    if is_nested(series):
        return Column(
            name, Kind.TEXT, int(series.isna().sum()), 0, why="its cells are lists or tables, no single values"
        )
    as_numbers = numbers(series) if is_number(series) else None
    missing = int(series.isna().sum()) if as_numbers is None else int(np.isnan(as_numbers).sum())
    distinct = int(series.nunique())
    if kind is not None:
        return _as_kind(series, kind, missing, distinct)
    if missing == rows:
        return Column(name, Kind.CONSTANT, missing, 0, why="it is empty")
    if distinct <= 1 and missing == 0:
        return Column(name, Kind.CONSTANT, 0, distinct, why="it has the same value in every row")
    if is_flag(series) or distinct == 1:
        return Column(name, Kind.CATEGORICAL, missing, distinct)
    if is_date(series):
        return Column(name, Kind.DATE, missing, distinct, NATIVE)
    if is_code(series):
        return _of_codes(series, missing, distinct)
    why = _identifier(series, distinct, missing)
    if why:
        return Column(name, Kind.IDENTIFIER, missing, distinct, why=why)
    if as_numbers is not None:
        return Column(name, Kind.NUMERIC, missing, distinct)
    return _of_text(series, missing, distinct)


def _as_kind(series: Series, kind: Kind, missing: int, distinct: int) -> Column:
    name = str(series.name)
    if kind is Kind.DATE:
        found = (NATIVE, False) if is_date(series) else date_layout(series)
        if found is None:
            raise DataError(f"column {name!r} is to be read as dates, and no known way to write dates fits its cells")
        return Column(name, kind, missing, distinct, found[0])
    if kind is Kind.NUMERIC and bool(np.isnan(numbers(series)).all()):
        raise DataError(f"column {name!r} is to be read as numbers, and none of its cells is one")
    return Column(name, kind, missing, distinct, why="" if kind in USED else "as you asked")


def _identifier(series: Series, distinct: int, missing: int) -> str:
    """Why a column only names the rows, or nothing."""
    rows, name = len(series), str(series.name)
    whole = is_number(series) and missing == 0 and bool((numbers(series) == np.floor(numbers(series))).all())
    if rows < FEW or distinct < rows - missing or missing > rows // 2:
        return ""
    if is_number(series):
        if not whole:
            return ""
        if named_as_identifier(name):
            return "its name and its cells, all different, say that it only names the rows"
        first = numbers(series)[0]
        if first in (0.0, 1.0) and bool((numbers(series) == first + np.arange(rows)).all()):
            return "it only counts the rows"
        return ""
    if _mean_words(series) < 3.0 and np.isnan(numbers(series)).mean() > 0.5 and date_layout(series) is None:
        return "its cells are all different words, so it only names the rows"
    return ""


def named_as_identifier(name: str) -> bool:
    if not name or name.startswith("Unnamed:") or name == "row name":
        return True
    return re.search(r"(^|[_\s.-])(id|uuid|guid|key|index|idx|no|nr|number|row)$", name.lower()) is not None or (
        re.search(r"[a-z](ID|Id)$", name) is not None
    )


def _mean_words(series: Series) -> float:
    return float(series.dropna().astype(str).str.split().str.len().mean())


def _of_codes(series: Series, missing: int, distinct: int) -> Column:
    name, present = str(series.name), len(series) - missing
    if present >= FEW and distinct > present // 2:
        why = "its cells are codes (numbers that begin with 0), and nearly all are different"
        return Column(name, Kind.IDENTIFIER, missing, distinct, why=why)
    why = "some of its numbers begin with 0, so they are codes and no quantities"
    return Column(name, Kind.CATEGORICAL, missing, distinct, why=why)


def _of_text(series: Series, missing: int, distinct: int) -> Column:
    name, present = str(series.name), len(series) - missing
    readable = int(np.isfinite(numbers(series)).sum())
    if readable and readable >= 0.9 * (present - placeholders(series)):
        strange = present - readable
        why = f"{strange} cell(s) that are no numbers count as missing" if strange else ""
        return Column(name, Kind.NUMERIC, missing + strange, distinct, why=why)
    dates = date_layout(series)
    if dates is not None:
        layout, ambiguous = dates
        why = "dates are read with the month first; if the day comes first, write them as 2021-03-02" * ambiguous
        return Column(name, Kind.DATE, missing, distinct, layout, why)
    if present >= FEW and distinct > present // 2:
        if _mean_words(series) >= 3.0:
            return Column(name, Kind.TEXT, missing, distinct, why="it is free text")
        return Column(name, Kind.IDENTIFIER, missing, distinct, why="nearly all its cells are different words")
    return Column(name, Kind.CATEGORICAL, missing, distinct)


def _keep_the_only_one(columns: list[Column], frame: pd.DataFrame) -> list[Column]:
    """A single column that counts the rows is what there is to learn from, and no name of the rows."""
    if len(columns) == 1 and columns[0].kind is Kind.IDENTIFIER and is_number(frame[columns[0].name]):
        return [Column(columns[0].name, Kind.NUMERIC, columns[0].missing, columns[0].distinct)]
    return columns


def _answered(frame: pd.DataFrame, target: str, task: Task | None, source: str) -> tuple[pd.DataFrame, Task, list[str]]:
    """The rows whose target is known, and what is asked."""
    series, notes = frame[target], []
    if is_nested(series):
        raise DataError(f"column {target!r} holds lists or tables, no single values: it cannot be predicted")
    if len(frame) == 1:
        raise DataError(f"{source} has one row: there is nothing to learn from it; at least {MIN_ROWS} are needed")
    task, why = (task, "as you asked") if task is not None else task_of(series)
    if task is Task.REGRESSION:
        known = np.isfinite(numbers(series))
        if not known.any() and series.notna().any():
            raise DataError(f"column {target!r} holds no numbers: it cannot be the target of a regression")
    else:
        known = series.notna().to_numpy()
    if not known.all():
        lost = int((~known).sum())
        notes.append(f"{lost} row(s) have no usable value of {target!r} (missing or infinite) and are left out")
    if task is Task.CLASSIFICATION:
        known, more = _without_rare_classes(series, known, target)
        notes += more
    frame = frame.loc[known].reset_index(drop=True)
    if len(frame) < MIN_ROWS:
        raise DataError(
            f"{source} has {len(frame)} row(s) with a usable value of {target!r}: at least {MIN_ROWS} are needed"
        )
    _check_answers(frame[target], task, target)
    return frame, task, [*notes, f"{task.value}, because {why}"]


def task_of(series: Series) -> tuple[Task, str]:
    """What kind of answer the cells of a target are, and why."""
    name, distinct = str(series.name), int(series.nunique())
    if is_date(series):
        raise DataError(f"column {name!r} holds dates: turn it into a number (days since a date, say) to predict it")
    if is_code(series):
        return Task.CLASSIFICATION, f"{name!r} holds codes (some of its numbers begin with 0)"
    values = numbers(series)
    present = int(series.notna().sum())
    if is_flag(series) or np.isfinite(values).sum() < 0.9 * present or not np.isfinite(values).any():
        return Task.CLASSIFICATION, f"{name!r} holds words"
    known = np.unique(values[np.isfinite(values)])
    if len(known) == 2:
        return Task.CLASSIFICATION, f"{name!r} has two values"
    whole = bool((known == np.floor(known)).all())
    if whole and len(known) <= 20 and known[0] in (0.0, 1.0) and known[-1] - known[0] == len(known) - 1:
        return Task.CLASSIFICATION, f"{name!r} counts from {known[0]:.0f} to {known[-1]:.0f} as class numbers do"
    return Task.REGRESSION, f"{name!r} holds {distinct} different numbers"


def _without_rare_classes(series: Series, known: np.ndarray, target: str) -> tuple[np.ndarray, list[str]]:
    labels = words(series)
    names, counts = np.unique(labels[known].astype(str), return_counts=True)
    rare = names[counts < 2]
    if len(rare) == 0 or len(rare) > len(names) // 2:
        return known, []
    shown = ", ".join(map(repr, rare[:5].tolist())) + (" ..." if len(rare) > 5 else "")
    one = len(rare) == 1
    which, has, are = ("1 class", "has", "is") if one else (f"{len(rare)} classes", "have", "are")
    note = f"{which} of {target!r} {has} one row only, too few to learn, and {are} left out: {shown}"
    return known & ~np.isin(labels.astype(str), rare), [note]


def _check_answers(series: Series, task: Task, target: str) -> None:
    if task is Task.REGRESSION:
        values = numbers(series)
        if np.ptp(values) == 0:
            raise DataError(f"column {target!r} is {values[0]:g} in every row: there is nothing to predict")
        return
    distinct = len(set(words(series)))
    if distinct < 2:
        cell = words(series)[0]
        shown = cell if is_number(series) else repr(cell)
        raise DataError(f"column {target!r} is {shown} in every row: there is nothing to predict")
    if distinct > max(2, len(series) // 2) or distinct > MAX_CLASSES:
        raise DataError(
            f"column {target!r} has {distinct} classes in {len(series)} rows: too many to learn; is it a name or a "
            "number? For a number ask for regression"
        )
