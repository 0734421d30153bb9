"""The reference is complete: every public name stands on a page of it, and everything on a page exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import credo

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").rglob("*.md"))
DIRECTIVE = re.compile(r"^::: ([\w.]+)((?:\n +.*)*)", re.MULTILINE)
ROOMS = (
    "likelihoods",
    "priors",
    "methods",
    "methods.laplace",
    "methods.vi",
    "nets",
    "calibration",
    "posteriors",
    "predictive",
    "kernels",
    "metrics",
    "uncertainty",
    "diagnostics",
    "exact",
    "generative",
    "decide",
    "tabular",
    "vision",
    "estimators",
)


def resolve(path: str) -> Any:
    """The object of a dotted path; a module where a module and a function share the name."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


def shown(text: str) -> list[Any]:
    """The objects that a page explains: those it names, and the public names of the packages it names.

    A name that a function shares with a module of the same package is not counted with the package: the renderer shows
    neither.
    """
    found = []
    for path, _ in DIRECTIVE.findall(text):
        value = resolve(path)
        names = getattr(value, "__all__", ()) if isinstance(value, ModuleType) else ()
        folder = Path(value.__file__ or "").parent if isinstance(value, ModuleType) else Path()
        found += [value, *(getattr(value, name) for name in names if not (folder / f"{name}.py").is_file())]
    return found


SHOWN = [value for page in PAGES for value in shown(page.read_text(encoding="utf-8"))]
PUBLIC = [("credo", name) for name in credo.__all__] + [
    (f"credo.{room}", name) for room in ROOMS for name in importlib.import_module(f"credo.{room}").__all__
]


@pytest.mark.parametrize(("room", "name"), PUBLIC, ids=[f"{room}.{name}" for room, name in PUBLIC])
def test_a_public_name_has_its_place_in_the_reference(room: str, name: str) -> None:
    value = getattr(importlib.import_module(room), name)
    if isinstance(value, ModuleType):
        return
    assert any(value is one for one in SHOWN), (
        f"{room}.{name} is on no page of docs/reference: add a line `::: {room}.{name}`"
    )


def test_a_function_that_shares_its_name_with_a_module_needs_a_line_of_its_own() -> None:
    assert credo.diagnostics.agreement in shown("::: credo.diagnostics.agreement.agreement")
    assert credo.diagnostics.agreement not in shown("::: credo.diagnostics")
    assert credo.diagnostics.trust in shown("::: credo.diagnostics")
