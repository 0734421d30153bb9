"""What is public is explained, and the explanations run."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import credo

SOURCE = Path(credo.__file__).parent
MODULES = sorted(
    ".".join(("credo", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if path.name != "__main__.py"
)
EXTRAS = ("jinja2", "matplotlib", "pandas", "pyarrow", "rich", "sklearn", "typer")
"""Packages that only some rooms need, and that need not be there."""


def own_docstring(name: str, value: object) -> str:
    """What was written for this object itself; a dataclass without a docstring gets its signature for one."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return "" if text is None or text.startswith(f"{name}(") else text


@pytest.mark.parametrize("name", credo.__all__)
def test_public_names_are_explained(name: str) -> None:
    value = getattr(credo, name)
    assert own_docstring(name, value).strip(), f"credo.{name} has no docstring"


@pytest.mark.parametrize("room", ["likelihoods", "priors", "nets", "methods", "posteriors"])
def test_the_names_of_the_rooms_are_explained(room: str) -> None:
    module = importlib.import_module(f"credo.{room}")
    for name in module.__all__:
        assert own_docstring(name, getattr(module, name)).strip(), f"credo.{room}.{name} has no docstring"


def test_what_is_public_is_there_and_once() -> None:
    assert len(set(credo.__all__)) == len(credo.__all__)
    assert all(hasattr(credo, name) for name in credo.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        pytest.skip(f"needs {error.name}")
    assert module.__doc__, "a module says what it is for"
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder, modules = doctest.DocTestFinder(), (importlib.import_module(name) for name in ("credo.fit", "credo.model"))
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) > 3
