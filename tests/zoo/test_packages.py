"""The same table for networks of torchvision, timm, transformers and torch_geometric, where these are installed.

`pip install timm transformers torch_geometric` brings all of them; a package that does not load is skipped, with the
reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from functools import cache

import pytest
import torch

from zoo.cells import check_cell, check_module, fitted, seeded
from zoo.entry import Entry
from zoo.packages import PACKAGES
from zoo.table import METHODS, SENTENCES, WORKS, expected

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # these packages warn as they like
TABLE = expected()
ROWS = [row for row in TABLE if ": " in row]
NEEDS = {"timm": "torchvision"}
_OPERATORS: list[torch.library.Library] = []


@cache
def entries(package: str) -> dict[str, Entry]:
    """The networks of a package; none of a package that is not there."""
    if importlib.util.find_spec("torchvision") is not None:
        _declare_operators()
    if any(importlib.util.find_spec(name) is None for name in (package, NEEDS.get(package, package))):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(package)
        return PACKAGES[package]()


def _declare_operators() -> None:
    """torchvision from PyPI is built for CUDA: beside a torch for CPUs its operators, which no net here calls, are
    missing, and with them the package would not even be imported.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        _OPERATORS.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            _OPERATORS[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def entry(row: str) -> Entry:
    package, name = row.split(": ")
    found = entries(package)
    if not found:
        pytest.skip(f"{package} is not installed, or what it needs is not")
    return found[name]


def test_every_network_of_an_installed_package_has_its_row() -> None:
    for package in PACKAGES:
        if found := entries(package):
            assert [row for row in ROWS if row.startswith(f"{package}: ")] == [f"{package}: {name}" for name in found]


@pytest.mark.parametrize("row", [row for row in ROWS if TABLE[row]["map"] == WORKS])
def test_outputs_and_gradients_are_those_of_torch(row: str) -> None:
    check_module(entry(row))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", ROWS)
def test_cells(row: str, method: str, tmp_path) -> None:
    cell, found = TABLE[row][method], entry(row)
    if cell == WORKS:
        check_cell(found, METHODS[method], tmp_path)
        return
    with pytest.raises(ValueError, match=SENTENCES[cell]):
        fitted(found, seeded(found), METHODS[method])
