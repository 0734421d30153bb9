"""credo compare: what it prints, writes and keeps, and how it ends."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import Result

from credo.cli import compare
from credo.experiments.judge.problem import CANDIDATES
from credo.reports.progress import Progress

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_quick_comparison(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = command("compare", "moons", "--quick", "--draws", 4, "--methods", "ensemble,map")
    assert result.exit_code == 0, result.output
    for part in ("the judge: HMC", "MAP", "deep ensemble", "not yet", "moons.png"):
        assert part in result.stdout
    assert "moons: the judge, HMC" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80  # the caption is wrapped as the table and its note are
    folder = tmp_path / "runs" / "compare-moons"
    assert {path.name for path in folder.iterdir()} == {
        "moons.png",
        "comparison.json",
        "summary.md",
        "judge-moons-4-0",
    }
    assert "| MAP |" in (folder / "summary.md").read_text()


def test_what_is_said_to_be_compared_is_compared(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README names every method of the comparison and no other, and help lists them."""
    monkeypatch.setenv("COLUMNS", "200")
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    (listed,) = re.findall(r"`credo compare sine` compares these methods \(([^)]*)\)", page)
    assert listed.split(", ") == [entry.label for entry in CANDIDATES]
    text = " ".join(command("compare", "--help").stdout.split())
    assert f"Some of {', '.join(entry.name for entry in CANDIDATES)}" in text


def test_json_is_all_there_is_on_the_standard_output(command: Command, tmp_path: Path) -> None:
    result = command("compare", "moons", "--draws", 4, "--methods", "map", "--json", "--out", "here")
    assert result.exit_code == 1  # the judge of four draws has not converged
    data = json.loads(result.stdout)
    assert data == json.loads((tmp_path / "here" / "comparison.json").read_text())
    assert data["judge"]["converged"] is False
    assert [row["method"] for row in data["methods"]] == ["the judge: HMC", "MAP"]
    assert 0.0 < data["methods"][1]["outside"]["total_variation"] < 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sinus"], "there is no problem 'sinus' to compare on: there are sine, moons, or a CSV file with --target"),
        (["houses.csv"], "--target must say which column"),
        (["houses.csv", "-t", "price"], "houses.csv"),
        (["moons", "--methods", "map,ensembel"], "did you mean ensemble?"),
        (["moons", "--draws", "3"], "--draws must be at least 4"),
        (["moons", "--methods", ","], "--methods names no method"),
        (["moons", "--out", "file/inside"], "choose another folder"),
    ],
)
def test_what_must_change_is_a_sentence(command: Command, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "file").write_text("")
    result = command("compare", *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("target", "drop"), [("y", "kind"), ("kind", "y")])
def test_a_table(command: Command, table: pd.DataFrame, tmp_path: Path, target: str, drop: str) -> None:
    table.drop(columns=drop).to_csv("table.csv", index=False)
    result = command("compare", "table.csv", "-t", target, "--quick", "--draws", 4, "--methods", "map", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["problem"] == "table"
    assert 0.0 <= data["methods"][1]["inside"]["total_variation"] < data["methods"][1]["outside"]["total_variation"]
    assert (tmp_path / "runs" / "compare-table" / "table.png").exists()


def test_a_table_too_long_for_a_judge(command: Command, table: pd.DataFrame) -> None:
    pd.concat([table] * 22, ignore_index=True).to_csv("table.csv", index=False)
    result = command("compare", "table.csv", "-t", "y")
    assert result.exit_code == 2
    assert "a sample of at most 2000" in " ".join(result.stderr.split())


def test_without_arviz_the_judge_is_not_even_asked(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str, extra: str) -> None:
        raise ImportError(f"this needs {package}, which is not installed: pip install 'credo[{extra}]'")

    monkeypatch.setattr("credo.experiments.judge.measure.optional", missing)
    result = command("compare", "moons", "--quick")
    assert result.exit_code == 2
    assert "pip install 'credo[mcmc]'" in " ".join(result.stderr.split())


@contextmanager
def interrupting(console: Console) -> Iterator[Progress]:
    """Press Ctrl-C at the first sign of the judge."""

    def show(text: str, share: float | None) -> None:
        if "judge" in text and share is not None and share < 1.0:
            signal.raise_signal(signal.SIGINT)

    yield Progress(show)


def test_ctrl_c_keeps_the_judge_and_the_same_command_goes_on(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ("compare", "moons", "--quick", "--draws", 30, "--methods", "map", "--json", "--quiet")
    with monkeypatch.context() as patched:
        patched.setattr(compare, "progress", interrupting)
        stopped = command(*order, "--out", "stopped")
    assert stopped.exit_code == 130
    assert "the same command continues them" in " ".join(stopped.stderr.split())
    assert not (tmp_path / "stopped" / "comparison.json").exists()
    resumed, whole = (json.loads(command(*order, "--out", out).stdout) for out in ("stopped", "whole"))
    assert resumed["judge"] == whole["judge"]
    assert resumed["methods"][1]["outside"] == whole["methods"][1]["outside"]
