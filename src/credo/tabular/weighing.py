"""A column of the table that says how much each row counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError
from credo.data.problem import TableProblem, check_column
from credo.data.reading import InputTable
from credo.data.values import is_nested, numbers
from credo.loop.batches import weight_note

ROLE = "it says how much each row counts"


@dataclass(frozen=True, eq=False)
class RowWeights:
    """How much each row of a table counts.

    Attributes:
        column: that says so.
        values: of all rows, (N,), finite and not negative.
    """

    column: str
    values: NDArray[np.float64]

    @classmethod
    def of(cls, table: InputTable, column: str) -> RowWeights:
        """Read them.

        Raises:
            DataError: if there is no such column, or a cell of it is no weight.
        """
        check_column(table, column)
        series = table.frame[column]
        if is_nested(series):
            raise DataError(f"column {column!r} holds lists or tables, no single values: it cannot weigh rows")
        values = numbers(series)
        for bad, what in ((np.isnan(values), "missing, infinite or no numbers"), (values < 0, "negative")):
            if bad.any():
                raise DataError(
                    f"column {column!r} cannot weigh the rows: {int(bad.sum())} of its cells are {what}, the first in "
                    f"row {int(bad.argmax()) + 1}; a row may weigh 0 or more"
                )
        if values.max() > np.finfo(np.float32).max:
            raise DataError(f"column {column!r} cannot weigh the rows: its numbers go up to {values.max():.3g}")
        if not values.astype(np.float32).any():
            raise DataError(f"column {column!r} is zero in every row: no row would count")
        return cls(column, values)

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Whether a row counts at all, (N,)."""
        return self.values.astype(np.float32) > 0

    def kept(self, table: InputTable) -> InputTable:
        """The table without the rows that weigh nothing."""
        lost = int((~self.counts).sum())
        notes = (f"{lost} row(s) weigh nothing and are left out",) if lost else ()
        return InputTable(table.frame.loc[self.counts].reset_index(drop=True), table.source, (*table.notes, *notes))

    def explained(self, problem: TableProblem) -> TableProblem:
        """The problem, with words about the column that weighs."""
        columns = [replace(c, why=ROLE) if c.name == self.column else c for c in problem.columns]
        before = f"column {self.column!r} is left out: "
        notes = [note for note in problem.notes if not note.startswith(before)]
        total = float(numbers(problem.frame[self.column]).sum())
        said = (
            f"column {self.column!r} is no input: {ROLE}, in training and in the scores; what is counted on held-out "
            "rows (checks, promises, figures) counts every row as one"
        )
        notes += [said, *weight_note(total, len(problem.frame))]
        return replace(problem, columns=tuple(columns), notes=tuple(notes))
