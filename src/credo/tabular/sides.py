"""Which rows are trained on and which are held out: at random, the past and the future, or whole groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError, Task
from credo.data.copies import copies_of_rows
from credo.data.group_splits import blocks_of_time, future, numbered
from credo.data.problem import TableProblem
from credo.data.splits import Index, Split, split
from credo.data.values import NATIVE, date_layout, days, is_date, is_number, numbers, words

TIME_ROLE = "it orders the rows in time: the latest are held out, and those before are trained on"
GROUP_ROLE = "it says which rows belong together: no group is both trained on and held out"
FEWEST_GROUPS = 5
"""Groups that can be divided into rows to train on, to validate on and to test on, each more than once."""


@dataclass(frozen=True, eq=False)
class Sides:
    """The two sides of a table.

    Attributes:
        parts: which rows are training rows and which are held out.
        groups: number of the group of each row, (N,), that validation rows must not cut either; None where rows are
            divided at random.
    """

    parts: Split
    groups: Index | None = None


def random_sides(problem: TableProblem, test: float, seed: int) -> Sides:
    """Rows at random; every class on both sides in proportion, and rows that are repeated on one side."""
    classes = words(problem.frame[problem.target]).astype(str) if problem.task is Task.CLASSIFICATION else None
    used = [column.name for column in problem.columns if column.used]
    copies = copies_of_rows(problem.frame[[*used, problem.target]])
    if copies is None:
        return Sides(split(len(problem.frame), test=test, seed=seed, classes=classes))
    _, first, which = np.unique(copies, return_index=True, return_inverse=True)
    parts = split(len(first), test=test, seed=seed, classes=None if classes is None else classes[first])
    train, held_out = (np.flatnonzero(np.isin(which, side)) for side in (parts.train, parts.test))
    return Sides(Split(train, np.array([], dtype=np.int64), held_out), which.astype(np.int64))


def with_copies(problem: TableProblem, sides: Sides) -> TableProblem:
    """The problem, with words about rows that come more than once, where they are kept on one side."""
    if sides.groups is None:
        return problem
    again = len(sides.groups) - len(np.unique(sides.groups))
    said = (
        f"{again:,} of {len(sides.groups):,} rows repeat another one, cell for cell: copies are kept on the same side, "
        "so that none is tested on what was learned"
    )
    return replace(problem, notes=(*problem.notes, said))


def sides_by_time(problem: TableProblem, column: str, test: float) -> Sides:
    """Train on the past, test on the future.

    Validation rows within the past are whole stretches of time.

    Raises:
        DataError: if the column does not order the rows.
    """
    times = times_of(problem.frame[column], column)
    if times.min() == times.max():
        raise DataError(f"column {column!r} is the same in every row: it cannot order them in time")
    held_out = future(times, test)
    groups = np.zeros(len(times), dtype=np.int64)
    groups[~held_out] = blocks_of_time(times[~held_out])
    groups[held_out] = groups.max() + 1
    none = np.array([], dtype=np.int64)
    return Sides(Split(np.flatnonzero(~held_out), none, np.flatnonzero(held_out)), groups)


def sides_by_group(problem: TableProblem, column: str, test: float, seed: int) -> Sides:
    """Whole groups on either side.

    Raises:
        DataError: if the groups cannot be divided.
    """
    groups = groups_of(problem.frame[column], column)
    sizes = np.bincount(groups)
    if len(sizes) < FEWEST_GROUPS:
        raise DataError(
            f"column {column!r} has {len(sizes)} different value(s): at least {FEWEST_GROUPS} groups are needed, so "
            "that some can be trained on and others held out"
        )
    if sizes.max() > len(groups) // 2:
        raise DataError(
            f"one value of column {column!r} has {sizes.max():,} of the {len(groups):,} rows: so large a group "
            "cannot be held out, and leaves too little to learn from"
        )
    return Sides(split(len(groups), test=test, seed=seed, groups=groups), groups)


def times_of(series: Any, column: str) -> NDArray[np.float64]:
    """When each row was, (N,), as days or in the column's own numbers.

    Raises:
        DataError: if a cell is missing, or the cells are neither dates nor numbers.
    """
    if is_date(series):
        times = days(series, NATIVE)
    elif is_number(series):
        times = numbers(series)
    else:
        found = date_layout(series)
        times = numbers(series) if found is None else days(series, found[0])
    lost = int(np.isnan(times).sum())
    if lost == len(times):
        raise DataError(f"column {column!r} cannot order the rows in time: its cells are neither dates nor numbers")
    if lost:
        raise DataError(
            f"column {column!r} cannot order the rows in time: {lost} of its cells are missing or cannot be read, the "
            f"first in row {int(np.isnan(times).argmax()) + 1} of those that are used"
        )
    return times


def groups_of(series: Any, column: str) -> Index:
    """Number of the group of each row, (N,).

    Raises:
        DataError: if a cell is missing.
    """
    cells = words(series)
    absent = np.array([cell is None for cell in cells])
    if absent.any():
        raise DataError(
            f"column {column!r} cannot say which rows belong together: {int(absent.sum())} cells are missing, the "
            f"first in row {int(absent.argmax()) + 1} of those that are used"
        )
    return numbered(cells.astype(str), len(cells))


def with_role(problem: TableProblem, column: str, role: str) -> TableProblem:
    """The problem, with words about a column that is no input but says which side a row is on."""
    columns = [replace(c, why=role) if c.name == column else c for c in problem.columns]
    before = f"column {column!r} is left out: "
    notes = [note for note in problem.notes if not note.startswith(before)]
    return replace(problem, columns=tuple(columns), notes=(*notes, f"column {column!r} is no input: {role}"))
