"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import rich.table
from rich.box import SIMPLE_HEAD
from rich.text import Text

from credo.reports.tables import Cell, Table, cell_text

NAME = 12
"""Characters of a word that stay together where columns are narrow."""


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
