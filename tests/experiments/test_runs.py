"""Run folders: written once, read back whole, refused when damaged."""

import json
import math
from pathlib import Path

import pytest

from credo import StorageError
from credo.experiments.base import Card, Claim, Experiment, Figure, Outcome, Progress, Size, Table
from credo.experiments.runs import accepted, claims_table, perform

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


def test_a_run_is_written_as_it_was(tmp_path: Path) -> None:
    figures = (Figure("there.png", "what to see"),)
    done = perform(experiment(GOOD, figures), Size.QUICK, tmp_path / "deep" / "run", 3, Progress())
    data = json.loads((tmp_path / "deep" / "run" / "outcome.json").read_text())
    assert data["seconds"] == pytest.approx(done.seconds, abs=1e-3)  # milliseconds are what is written
    assert (data["experiment"], data["size"], data["seed"]) == ("made-up", "quick", 3)
    assert [(c["id"], c["measured"], c["verdict"]) for c in data["claims"]] == [
        (entry.claim.id, entry.measured, entry.verdict.value) for entry in done.judged
    ]
    assert (data["agrees"], data["figures"][0]["path"]) == (done.agrees, "there.png") == (True, "there.png")


def test_numbers_that_json_does_not_know_survive(tmp_path: Path) -> None:
    measured = {"right": math.nan, "least": math.inf}
    perform(experiment(measured, most="too slow here"), Size.FULL, tmp_path, 0, Progress())
    data = json.loads((tmp_path / "outcome.json").read_text(), parse_constant=pytest.fail)
    right, least, most = data["claims"]
    assert (right["measured"], least["measured"]) == ("nan", "inf")
    assert (most["measured"], most["reason"]) == (None, "too slow here")
    assert not data["agrees"]


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


def test_a_run_that_measured_nothing_shows_nothing(tmp_path: Path) -> None:
    run = perform(experiment({}, right="no data", least="no data", most="too slow"), Size.FULL, tmp_path, 0, Progress())
    assert not run.agrees
    assert claims_table(run).note.startswith("Not measured: 2 claims (no data). Not measured: ")
    assert claims_table(run).note.endswith("(too slow).")
