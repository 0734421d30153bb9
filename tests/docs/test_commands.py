"""The commands of README and documentation: those of the first pages run, and every one exists."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from credo.cli.main import COMMANDS
from credo.experiments import registry

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
RUN = (ROOT / "README.md", ROOT / "docs" / "tutorials" / "table.md")
WORDS = re.compile(r"^(?:[A-Z_]+=\S+ )?(credo|make) +([a-z-]+)(?: +([a-z0-9-]+))?", re.MULTILINE)


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shape(text: str) -> str:
    """A text without its numbers and line breaks: other machines round otherwise."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*", "#", text))


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, readme: ModuleType, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    answers = readme.answers(tmp_path, text)
    assert len(answers) >= 3
    assert (tmp_path / "run" / "report.html").is_file()
    if page.name == "README.md":
        (block,) = readme.BLOCK.findall(text)
        answer = next(answer for words, answer in answers.items() if words.startswith("credo fit"))
        printed = shape(readme.shown(answer))
        # a verdict may differ from machine to machine, what is asked and where things lie may not
        asked = re.findall(r"[A-Z][a-z -]+\?|Report: \S+|Predict: [^`]+", shape(block))
        assert len(asked) == 10
        assert [one for one in asked if one.strip() not in printed] == []


def test_every_command_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = [
        (page.name, *words)
        for page in PAGES
        for block in re.findall(
            r"```(?:sh)?\n(.*?)```|`((?:credo|make) [^`\n]+)`", page.read_text(encoding="utf-8"), re.DOTALL
        )
        for words in WORDS.findall("\n".join(block))
    ]
    assert len(found) > 20
    for page, program, name, rest in found:
        assert name in (COMMANDS if program == "credo" else targets), f"{page}: {program} {name}"
        if name == "reproduce" and rest and not rest.startswith("-"):
            assert rest in registry.names(), f"{page}: {program} {name} {rest}"


def test_what_is_installed_is_what_the_project_offers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (line,) = re.findall(r"pip install .*", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert re.findall(r"\[(\w+)\]", line) == ["app", "app"]
    assert "app" in extras
