"""Run folders: written once, read back whole, refused when damaged."""

import json
import math
from pathlib import Path

import pytest

from credo import StorageError
from credo.experiments.base import Card, Claim, Experiment, Figure, Outcome, Progress, Size, Table
from credo.experiments.runs import accepted, claims_table, perform, read_run

CLAIMS = (
    Claim("right", "the right one", "a paper", 0.8, 0.79, 0.81, "by hand"),
    Claim("least", "at the least", "a paper", "grows", low=1.0),
    Claim("most", "at the most", "a paper", "small", high=2.0),
)
TABLE = Table("Numbers", ("name", "value"), (("a|b", 1.25), ("none", None), ("count", 3)), "a note")


def experiment(measured: dict[str, float], figures: tuple[Figure, ...] = (), **reasons: str) -> Experiment:
    def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
        progress.say(f"size {size.value}")
        (folder / "there.png").write_bytes(b"a picture")
        return Outcome(measured, (TABLE,), figures, reasons)

    return Experiment(Card("made-up", "A title", "a paper", "What it shows.", CLAIMS), run)


GOOD = {"right": 0.8, "least": 1.5, "most": 1.0}


def test_a_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    figures = (Figure("there.png", "what to see"),)
    done = perform(experiment(GOOD, figures), Size.QUICK, tmp_path / "deep" / "run", 3, Progress())
    back = read_run(tmp_path / "deep" / "run")
    assert back.seconds == pytest.approx(done.seconds, abs=1e-3)  # milliseconds are what is written
    assert (back.card, back.size, back.seed, back.judged, back.tables, back.figures, back.environment) == (
        (done.card, done.size, done.seed, done.judged, done.tables, done.figures, done.environment)
    )
    assert done.agrees
    assert back.agrees


def test_numbers_that_json_does_not_know_survive(tmp_path: Path) -> None:
    measured = {"right": math.nan, "least": math.inf}
    perform(experiment(measured, most="too slow here"), Size.FULL, tmp_path, 0, Progress())
    json.loads((tmp_path / "outcome.json").read_text(), parse_constant=pytest.fail)
    right, least, most = read_run(tmp_path).judged
    assert math.isnan(right.measured or 0.0)
    assert least.measured == math.inf
    assert (most.measured, most.reason) == (None, "too slow here")
    assert not read_run(tmp_path).agrees


def test_claims_table_says_published_ours_and_verdict(tmp_path: Path) -> None:
    run = perform(experiment({"right": 0.9, "least": 1.5}, most="too slow"), Size.FULL, tmp_path, 0, Progress())
    table = claims_table(run)
    assert table.rows == (
        ("the right one", 0.8, "0.79 to 0.81", 0.9, "differs"),
        ("at the least", "grows", "at least 1", 1.5, "agrees"),
        ("at the most", "small", "at most 2", None, "not measured"),
    )
    assert "too slow" in table.note


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.8 - 1e-6, 0.8 + 1e-6, "0.8 ± 1e-06"),
        (4.0, 4.0, "exactly 4"),
        (0.0, math.inf, "at least 0"),
        (1.0, 2.0, "1 to 2"),
    ],
)
def test_ranges_in_words(low: float, high: float, words: str) -> None:
    assert accepted(Claim("a", "s", "s", 0.8, low, high)) == words


def test_summary_is_readable(tmp_path: Path) -> None:
    perform(experiment(GOOD, (Figure("there.png", "what to see"),)), Size.FULL, tmp_path, 0, Progress())
    text = (tmp_path / "summary.md").read_text()
    for part in ("# A title", "What it shows.", "| a\\|b | 1.25 |", "a note", "by hand", "![what to see](there.png)"):
        assert part in text


def test_a_figure_that_was_not_written_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone\.png"):
        perform(experiment(GOOD, (Figure("gone.png", ""),)), Size.FULL, tmp_path, 0, Progress())
    assert not (tmp_path / "outcome.json").exists()


def test_a_folder_that_cannot_be_written_is_found_out_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said: list[str] = []
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="choose another folder"):
            perform(experiment(GOOD), Size.FULL, folder, 0, Progress(lambda text, _: said.append(text)))
    assert said == []
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda text: text[: len(text) // 2], "not readable JSON"),
        (lambda text: text.replace('"claims"', '"clams"'), "damaged"),
        (lambda text: text.replace('"quick"', '"huge"'), "damaged"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "newer credo"),
        (lambda text: "[]", "no JSON object"),
    ],
)
def test_damage_gets_a_sentence(tmp_path: Path, damage, sentence: str) -> None:  # type: ignore[no-untyped-def]
    perform(experiment(GOOD), Size.QUICK, tmp_path, 0, Progress())
    path = tmp_path / "outcome.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(StorageError, match=sentence):
        read_run(tmp_path)


def test_a_folder_of_something_else_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        read_run(tmp_path)
