"""Tables as values, as markdown and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import rich.table
from rich.box import SIMPLE_HEAD
from rich.text import Text

Cell = str | int | float | None
"""What a table may hold; None is a dash."""
NAME = 12
"""Characters of a word that stay together where columns are narrow."""


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Attributes:
        title: what the table shows.
        columns: names, with units.
        rows: cells in the order of the columns.
        note: what a reader should know, below the table.

    Examples:
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

    Examples:
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


def terminal_table(table: Table, styles: Mapping[str, str] | None = None) -> rich.table.Table:
    """The table as rich draws it.

    Args:
        table: what to show.
        styles: rich styles by the text of a cell, for example `{"differs": "bold red"}`.
    """
    drawn = rich.table.Table(box=SIMPLE_HEAD, title=Text(table.title, "bold"), title_justify="left", pad_edge=False)
    drawn.caption, drawn.caption_justify = Text(table.note, "dim") if table.note else None, "left"
    for index, name in enumerate(table.columns):
        texts = [cell_text(row[index]) for row in table.rows]
        if table.numeric(index):  # a number must not be cut, so words give way, beside it as in other columns
            numbers = [text for text, row in zip(texts, table.rows, strict=True) if not isinstance(row[index], str)]
            heading = Text(name.replace(" ", "\n"))
            drawn.add_column(heading, justify="right", min_width=_longest(numbers), no_wrap=texts == numbers)
        else:  # what a row is called can be broken between words, and where there is but one word not at all
            drawn.add_column(Text(name), overflow="fold", min_width=min(_longest(" ".join(texts).split(" ")), NAME))
    for row in table.rows:
        drawn.add_row(*(_text(cell, styles or {}) for cell in row))
    return drawn


def _longest(texts: Sequence[str]) -> int:
    return max((len(text) for text in texts), default=1)


def _text(cell: Cell, styles: Mapping[str, str]) -> Text:
    text = cell_text(cell)
    return Text(text, styles.get(text, ""))
