"""The zoo: modules of every shape under every method. Each cell is right, or refused by a sentence of the table."""

from __future__ import annotations

import pytest

from zoo.cells import check_cell, check_module, fitted, seeded
from zoo.own import OWN
from zoo.table import METHODS, SENTENCES, WORKS, expected

TABLE = expected()
CELLS = [(row, method) for row in OWN for method in METHODS]
EVERYDAY = [cell for i, cell in enumerate(CELLS) if i % 8 == 0]
"""A selection that meets every row and every method; `slow` has all of them."""


def check(row: str, method: str, folder) -> None:
    cell = TABLE[row][method]
    if cell == WORKS:
        check_cell(OWN[row], METHODS[method], folder)
        return
    with pytest.raises(ValueError, match=SENTENCES[cell]):
        fitted(OWN[row], seeded(OWN[row]), METHODS[method])


def test_the_table_names_every_network_and_most_of_it_works() -> None:
    assert [row for row in TABLE if ": " not in row] == list(OWN)
    cells = [cell for row in TABLE.values() for cell in row.values()]
    assert cells.count(WORKS) >= 400
    assert set(cells) - {WORKS} <= SENTENCES.keys()


IN_EVALUATION = [row for row in OWN if TABLE[row]["map"] == WORKS and row != "always dropping"]
"""Modules that are functions of their inputs in evaluation."""


@pytest.mark.parametrize("row", IN_EVALUATION)
def test_outputs_and_gradients_are_those_of_torch(row: str) -> None:
    check_module(OWN[row])


@pytest.mark.parametrize(("row", "method"), EVERYDAY)
def test_a_selection_of_cells(row: str, method: str, tmp_path) -> None:
    check(row, method, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "method"), CELLS)
def test_all_cells(row: str, method: str, tmp_path) -> None:
    check(row, method, tmp_path)
