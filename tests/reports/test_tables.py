"""Tables as values, markdown and terminal output."""

import io
import math

import pytest
from rich.console import Console

from credo.reports.tables import Table, cell_text, markdown, terminal_table


def test_cells_read_well() -> None:
    values = (None, "a", True, 3, 0.0, 0.5, 1 / 3, 999.96, 1234.5, 1.5e-5, 3.2e9, math.nan, math.inf)
    texts = ["-", "a", "True", "3", "0", "0.5", "0.3333", "1000", "1234", "1.5e-05", "3.200e+09", "nan", "inf"]
    assert [cell_text(value) for value in values] == texts


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns, and a row of 1"):
        Table("t", ("a", "b"), (("only one",),))


def test_markdown_sets_numbers_to_the_right_and_escapes_bars() -> None:
    table = Table("t", ("name", "n"), (("a|b", None), ("c", 2.0)))
    assert markdown(table).splitlines() == ["| name | n |", "| --- | ---: |", "| a\\|b | - |", "| c | 2 |"]


def test_a_table_without_rows_is_drawn() -> None:
    assert markdown(Table("t", ("a",), ())).splitlines() == ["| a |", "| --- |"]


def printed(table: Table, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(terminal_table(table, {"differs": "bold red"}))
    return file.getvalue()


def test_numbers_are_not_cut_on_a_narrow_terminal() -> None:
    names = tuple(f"number {i}" for i in range(5))
    row = ("a rather long name that must give way", 0.1234, 12.34, 1234.0, 0.001234, 5)
    text = printed(Table("Narrow", ("name", *names), (row,), "with a note"), width=60)
    assert all(cell_text(value) in text for value in row[1:])
    assert "…" not in text
    assert "with a note" in text


def test_markup_in_cells_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold]" in printed(Table("t", ("a",), (("[bold]x[/bold]",),)), width=60)
