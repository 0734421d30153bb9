"""Docstrings as the reference shows them. Skipped where the documentation's packages are not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("griffe")


@pytest.fixture(scope="module")
def docstrings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docstrings", Path(__file__).parents[2] / "docs" / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_formula_stands_in_a_block(docstrings: ModuleType) -> None:
    text = "A prior.\n\nlog p(w) = a * b,   b = c * d\n\nArgs:\n    scale: of b = 1."
    block = "```text\nlog p(w) = a * b,\nb = c * d\n```"
    assert docstrings.rewritten(text) == f"A prior.\n\n{block}\n\nArgs:\n    scale: of b = 1."


def test_sentences_and_examples_stay(docstrings: ModuleType) -> None:
    text = "Draws.\n\nHere a = b holds.\n\nExamples:\n    >>> x = 1\n\n    >>> y = 2"
    assert docstrings.rewritten(text) == text


def test_a_reference_of_several_lines_is_one_paragraph_with_links(docstrings: ModuleType) -> None:
    text = 'A method.\n\nReference: A. Author, "Title\n    of it", 2020, https://arxiv.org/abs/1.2.'
    shown = 'A method.\n\n**Reference.** A. Author, "Title of it", 2020, <https://arxiv.org/abs/1.2>.'
    assert docstrings.rewritten(text) == shown


def test_stars_of_patterns_are_no_emphasis(docstrings: ModuleType) -> None:
    assert (
        docstrings.rewritten('One.\n\nNames such as "*weight" or "0.*".')
        == 'One.\n\nNames such as `"*weight"` or `"0.*"`.'
    )
