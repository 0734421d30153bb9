"""Tables as values, and as markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
"""What a table may hold; None is a dash."""


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Attributes:
        title: what the table shows.
        columns: names, with units.
        rows: cells in the order of the columns.
        note: what a reader should know, below the table.

    Example:
        >>> print(markdown(Table("Sides", ("shape", "sides"), (("triangle", 3), ("square", 4)))))
        | shape | sides |
        | --- | ---: |
        | triangle | 3 |
        | square | 4 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r} has {len(self.columns)} columns, and a row of {len(row)} cells")

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which are set to the right."""
        return any(isinstance(row[column], int | float) for row in self.rows)


def cell_text(value: Cell) -> str:
    """A cell as a person reads it: four significant digits, no exponent where it can be helped.

    Example:
        >>> [cell_text(v) for v in (0.8, 12, 1234.56, 0.0001234, None, "a")]
        ['0.8', '12', '1235', '0.0001234', '-', 'a']
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:.0f}" if abs(value) < 1e7 else f"{value:.3e}"
    return f"{value:.4g}"


def markdown(table: Table) -> str:
    """The table in GitHub's markdown, without its title and note."""
    rules = ["---:" if table.numeric(i) else "---" for i in range(len(table.columns))]
    lines = [table.columns, rules, *([cell_text(cell) for cell in row] for row in table.rows)]
    return "\n".join(_line(cells) for cells in lines)


def _line(cells: Sequence[str] | Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
