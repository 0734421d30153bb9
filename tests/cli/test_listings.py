"""`credo methods` and `credo data`."""

from __future__ import annotations

import importlib
import inspect
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import Result

import credo.methods
from credo.cli import methods
from credo.cli.commands import COMMANDS, SUBCOMMANDS
from credo.cli.methods import IN_PYTHON, entries
from credo.cli.options import COMPARED, DATA_SETS, METHODS, NETWORKS, PROBLEMS, experiments
from credo.data.sets import FOLDER, available
from credo.experiments import registry
from credo.experiments.judge.problem import CANDIDATES, CONTESTS, FULL_DRAWS, QUICK_DRAWS
from credo.tabular.predictions import RISK
from credo.tabular.recipes import RECIPES
from credo.tabular.training import COOLING
from credo.vision import recipes as vision_recipes

Command = Callable[..., Result]


def test_every_method_has_advice() -> None:
    assert {entry.name for entry in entries() if entry.name} == set(RECIPES) == set(IN_PYTHON)
    for entry in entries():
        assert all((entry.what, entry.advice.cost, entry.advice.use, entry.advice.avoid)), entry


def test_every_method_of_the_library_is_listed() -> None:
    listed = {entry.python for entry in entries()}
    assert {"MAP", "DeepEnsemble", "MCDropout", "BayesByBackprop", "MaximumLikelihood"} <= listed
    assert all(hasattr(credo.methods, name) for name in listed)
    assert not listed & {"Method", "State", "Info", "Tick"}


def test_methods_are_printed_for_people_and_programs(command: Command) -> None:
    assert "avoid:" in command("methods").stdout
    assert json.loads(command("methods", "--json").stdout)[0]["name"] == "ensemble"


def test_data_sets_are_listed(command: Command) -> None:
    done = command("data", "list")
    assert done.exit_code == 0
    for line in available():
        assert line.name in done.stdout
    assert {entry["name"] for entry in json.loads(command("data", "list", "--json").stdout)} == {
        line.name for line in available()
    }


def test_a_data_set_becomes_a_table(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("data", "get", "wine")
    assert (done.exit_code, "credo fit wine.csv --target class" in done.stdout) == (0, True)
    frame = pd.read_csv("wine.csv")
    assert (len(frame), frame["class"].nunique()) == (178, 3)
    assert command("data", "get", "diabetes", "-o", "-").stdout.startswith("age,sex,bmi")


def test_a_file_of_the_users_own_is_kept_unless_forced(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place, more in (("wine.csv", ()), ("mine.csv", ("--out", "mine.csv"))):
        Path(place).write_text("my own\n")
        done = command("data", "get", "wine", *more)
        assert (done.exit_code, place in done.stderr, "--force" in done.stderr) == (2, True, True)
        assert Path(place).read_text() == "my own\n"
        assert command("data", "get", "wine", *more, "--force").exit_code == 0
        assert len(pd.read_csv(place)) == 178
        assert command("data", "get", "wine", *more).exit_code == 0, "the same file again harms nobody"


def test_images_become_arrays(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(line.name == "notmnist" and line.ready for line in available()):
        pytest.skip(f"{FOLDER} does not name a folder with notmnist")
    monkeypatch.chdir(tmp_path)
    assert command("data", "get", "notmnist").exit_code == 0
    with np.load(io.BytesIO(Path("notmnist.npz").read_bytes())) as file:
        assert file["x"].shape == (10_000, 28, 28)


def test_names_that_are_none_and_sets_not_at_hand_get_a_sentence(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setenv("CREDO_CACHE", str(tmp_path / "none"))
    for name, words in (("win", "did you mean wine"), ("mnist", FOLDER)):
        done = command("data", "get", name)
        assert (done.exit_code, words in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_methods_are_wrapped_on_a_terminal_and_not_in_a_pipe(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = command("methods").stdout
    assert max(map(len, piped.splitlines())) > 80
    monkeypatch.setattr(methods, "answers", lambda: Console(force_terminal=True, color_system=None, width=80))
    shown = command("methods").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.split() == piped.split()
    assert "\n           small ones cost little more" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fills_its_lines(command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """No line ends early that had room for the next word, and no example is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    page = command(name, "--help").stdout.split("\n╭")[0]
    text = [line.removeprefix(" ").rstrip() for line in page.splitlines()[2:]]
    for line, after in itertools.pairwise(text):
        if line and after:
            assert not line.startswith(" "), f"broken: {line}"
            assert len(line) + 1 + len(after.split()[0]) > 78, f"ends early: {line}"
    assert f"    credo {name}" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.exit_code == 0
    assert "Example" in done.stdout
    assert f"credo {name}" in done.stdout


def test_the_names_in_the_help_are_those_of_the_modules() -> None:
    """The help has them as plain words, so that it need not load what knows them."""
    assert tuple(RECIPES) == METHODS == vision_recipes.METHODS
    assert tuple(vision_recipes.NETWORKS) == NETWORKS
    assert tuple(entry.name for entry in CANDIDATES) == COMPARED
    assert tuple(CONTESTS) == PROBLEMS
    assert tuple(line.name for line in available()) == DATA_SETS
    assert tuple(experiments()) == registry.names()
    assert (RISK, f"{100 * COOLING:.0f} %") == (
        inspect.signature(COMMANDS["predict"]).parameters["risk"].default,
        "30 %",
    )
    assert f"{FULL_DRAWS}; quick: {QUICK_DRAWS}" == "500; quick: 30"


@pytest.mark.parametrize("name", [*COMMANDS, *SUBCOMMANDS])
def test_a_command_takes_what_its_module_takes(name: str) -> None:
    if name == "data":
        return
    typed = COMMANDS.get(name) or SUBCOMMANDS[name]
    module = importlib.import_module(f"credo.cli.{'data' if name in SUBCOMMANDS else name}")
    work = getattr(module, {"list": "list_all", "get": "get"}.get(name, "run"))
    assert list(inspect.signature(typed).parameters) == list(inspect.signature(work).parameters)
