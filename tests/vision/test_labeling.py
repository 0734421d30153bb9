"""Labeling a folder of images: names of files in a table that a person fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from credo.cli.main import app
from credo.data import DataError
from credo.vision import label_images, labeling

COUNT = 40


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dark images with even numbers and bright ones with odd numbers, a file that is none, and half a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(labeling, "STEPS", 150)
    root, rng = tmp_path / "photos", np.random.default_rng(0)
    (root / "deeper").mkdir(parents=True)
    for number in range(COUNT):
        pixels = rng.integers(0, 100, (12, 12)) + 120 * (number % 2)
        name = f"deeper/{number}.png" if number > 30 else f"{number}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(root / name)
    (root / "notes.png").write_bytes(b"no image")
    whole = (root / "0.png").read_bytes()
    (root / "half.png").write_bytes(whole[: len(whole) // 2])
    return root


def answer(folder: Path) -> None:
    path = folder / "to-label.csv"
    frame = pd.read_csv(path)
    number = frame["image"].str.extract(r"(\d+)\.png", expand=False)
    frame["label"] = np.where(number.isna(), "torn", np.where(number.fillna("0").astype(int) % 2, "bright", "dark"))
    frame.to_csv(path, index=False)


def test_rounds(photos: Path) -> None:
    options: dict[str, Any] = {"ask": 14, "method": "dropout"}
    first = label_images(photos, "session", **options)
    assert (len(first.asked), first.learned) == (14, 0)
    assert "1 files are no readable images and are left out, such as notes.png" in first.notes
    answer(Path("session"))
    second = label_images(photos, "session", **options)
    assert (second.learned, second.judged, len(second.asked)) == (11, 3, 14)
    answer(Path("session"))
    third = label_images(photos, "session", **options)
    assert third.curve[-1].labels == 22
    assert third.curve[-1].score > 0.6
    guesses = pd.read_csv(Path("session") / "predictions.csv")
    assert len(guesses) == COUNT + 1
    assert set(guesses["round 2"]) <= {"bright", "dark", "torn"}


def test_the_command_takes_a_folder(photos: Path) -> None:
    done = CliRunner().invoke(app, ["label", "photos", "--ask", "5"])
    assert done.exit_code == 0, done.output
    assert "5 rows wait in photos-labels/to-label.csv" in done.output
    assert list(pd.read_csv("photos-labels/to-label.csv").columns) == ["pool row", "label", "image"]
    (photos / "new.png").write_bytes((photos / "1.png").read_bytes())
    changed = CliRunner().invoke(app, ["label", "photos"])
    assert changed.exit_code == 2
    assert "the pool of this session 41" in changed.output
    wrong = CliRunner().invoke(app, ["label", "photos", "--task", "regression", "--out", "other"])
    assert wrong.exit_code == 2
    assert "images get classes" in wrong.output


def test_mistakes(photos: Path) -> None:
    with pytest.raises(DataError, match="in the pool itself"):
        label_images(photos, photos / "session")
    with pytest.raises(ValueError, match="column of file names"):
        label_images(photos, "session", target="image")
    Path("empty").mkdir()
    with pytest.raises(DataError, match="no image that can be read"):
        label_images("empty", "session")
