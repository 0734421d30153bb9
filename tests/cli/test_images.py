"""`credo fit`, `predict` and `report` on images."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

from image_files import write_digits

Command = Callable[..., Result]
QUICK = ("--method", "map", "--epochs", 2, "--size", 8)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_digits(tmp_path_factory.mktemp("photos") / "digits", (0, 1), 20)
    (root / "nothing").mkdir()
    return root


@pytest.fixture
def out(photos: Path, command: Command) -> Path:
    """A run, made once."""
    folder = photos.parent / "run"
    if not folder.exists():
        assert command("fit", photos, "--out", folder, *QUICK, "--quiet").exit_code == 0
    return folder


def test_a_folder_is_fitted_with_words(photos: Path, tmp_path: Path, command: Command) -> None:
    done = command("fit", photos, "-o", tmp_path / "run", *QUICK)
    assert done.exit_code == 0, done.output
    for words in (
        "40 images of 2 classes",
        "the folder 'nothing' holds no image, and no class is made of it.",
        "each is brought to 8 x 8 pixels in gray.",
        "32 training images, 8 held out",
        "On images it has never seen, it finds the right class",
        "Is the alarm set?",
        "run/report.html",
        "new-photos -o predictions.csv",
    ):
        assert words in done.stdout
    assert " rows" not in done.stdout
    assert "training" in done.stderr
    assert command("fit", photos, "-o", tmp_path / "run", *QUICK).exit_code == 2


def test_a_folder_is_fitted_for_a_program(photos: Path, tmp_path: Path, command: Command) -> None:
    done = command("fit", photos, "-o", tmp_path / "run", *QUICK, "--json", "-q", "--false-alarms", 0.3)
    found = json.loads(done.stdout)
    assert (found["classes"], found["trained"]) == ({"digit 0": 20, "digit 1": 20}, 32)
    assert (found["finished"], found["size"], found["network"]) == (True, 8, "cnn")
    assert 0.0 <= found["scores"]["accuracy"]["model"] <= 1.0
    assert done.stderr == ""


def test_files_and_folders_are_predicted(photos: Path, out: Path, tmp_path: Path, command: Command) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    done = command("predict", out, photos / "digit 0", photos / "digit 1" / "00.png", bad, "-o", tmp_path / "a.csv")
    assert done.exit_code == 0, done.output
    assert "21 images predicted; the alarm rings for " in done.stdout
    assert "; 1 could not be read. Written to" in done.stdout
    frame = pd.read_csv(tmp_path / "a.csv")
    assert list(frame.columns[:6]) == ["file", "label", "probability", "doubt", "alarm", "why"]
    assert frame["file"].iloc[-2:].tolist() == [str(photos / "digit 1" / "00.png"), str(bad)]
    lines = json.loads(command("predict", out, photos / "digit 0", "--json", "--quiet").stdout)
    assert (len(lines), lines[0]["label"] in ("digit 0", "digit 1")) == (20, True)


def test_a_report_is_made_again(out: Path, command: Command) -> None:
    before = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert "it finds the right class" in command("report", out).stdout
    assert (out / "report.html").read_bytes() == before
    assert json.loads(command("report", out, "--json").stdout)["evaluation"]


def test_files_of_which_none_is_an_image_are_a_failure(out: Path, tmp_path: Path, command: Command) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    done = command("predict", out, bad, "-o", tmp_path / "a.csv")
    assert (done.exit_code, pd.read_csv(tmp_path / "a.csv")["alarm"].tolist()) == (1, [True])
    assert "0 images predicted" in done.stdout
    assert "none of the files could be read" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fit", "{photos}", "-t", "x"), "--target is for tables, and"),
        (("fit", "{photos}", "--drop", "x"), "--drop is for tables"),
        (("fit", "{photos}", "--weights", "x"), "--weights is for tables"),
        (("fit", "{photos}", "--network", "vgg"), "network must be one of cnn, lenet5, resnet20"),
        (("fit", "{photos}", "--resume"), "there is no training to resume"),
        (("fit", "{photos}/digit 0"), "has no folders in it"),
        (("fit", "{photos}/digit 0/00.png"), "is one image: give a folder"),
        (("predict", "{out}", "nothing.png"), "nothing.png does not exist"),
        (("predict", "{out}", "{photos}/nothing"), "holds no image"),
        (("predict", "{out}", "{photos}/digit 0/00.png", "-o", "{photos}/digit 0/00.png"), "is itself to be predicted"),
        (("fit", "no-such-table.csv"), "no-such-table.csv does not exist"),
        (("fit", "no-such-table.csv", "--flip"), "--flip is for a folder of images"),
    ],
)
def test_what_must_change_is_said(
    words: tuple[str, ...], sentence: str, photos: Path, out: Path, command: Command, tmp_path: Path
) -> None:
    given = [word.format(photos=photos, out=out) for word in words]
    more = ("--out", tmp_path / "new") if given[0] == "fit" else ()
    done = command(*given, *more)
    assert (done.exit_code, sentence in done.stderr, done.stderr.count("credo:")) == (2, True, 1), done.stderr


def test_a_place_that_takes_no_file_is_refused_before_anything_is_predicted(
    photos: Path, out: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("credo.cli.images.open_vision_run", lambda run: pytest.fail("the run was opened"))
    for place, sentence in ((photos, "is a folder: name a file in it"), (tmp_path / "no" / "a.csv", "create it first")):
        done = command("predict", out, photos / "digit 0" / "00.png", "-o", place)
        assert (done.exit_code, sentence in done.stderr) == (2, True), done.stderr


def test_a_table_needs_a_target_and_one_file(tables: Path, command: Command) -> None:
    done = command("fit", tables / "table.csv")
    assert (done.exit_code, "is to be predicted: --target COLUMN" in done.stderr) == (2, True)
    done = command("predict", tables / "y-run", tables / "table.csv", tables / "table.csv")
    assert (done.exit_code, "predicts one file of rows: got 2" in done.stderr) == (2, True)
