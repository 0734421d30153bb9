"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import rich.table
from rich.box import SIMPLE_HEAD
from rich.text import Text

from credo.reports.tables import Cell, Table, cell_text


def terminal_table(table: Table, styles: Mapping[str, str] | None = None) -> rich.table.Table:
    """The table as rich draws it.

    Args:
        table: what to show.
        styles: rich styles by the text of a cell, for example `{"differs": "bold red"}`.
    """
    drawn = rich.table.Table(box=SIMPLE_HEAD, title=Text(table.title, "bold"), title_justify="left", pad_edge=False)
    drawn.caption, drawn.caption_justify = Text(table.note, "dim") if table.note else None, "left"
    for index, name in enumerate(table.columns):
        if table.numeric(index):  # a number must not be cut, so words give way
            drawn.add_column(Text(name.replace(" ", "\n")), justify="right", no_wrap=True)
        else:
            drawn.add_column(Text(name))
    for row in table.rows:
        drawn.add_row(*(_text(cell, styles or {}) for cell in row))
    return drawn


def _text(cell: Cell, styles: Mapping[str, str]) -> Text:
    text = cell_text(cell)
    return Text(text, styles.get(text, ""))
