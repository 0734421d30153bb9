"""A folder of images by class, and a run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from credo.vision import VisionRun, fit_folder
from image_files import write_digits


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("images") / "digits", (0, 1, 4))


@pytest.fixture(scope="session")
def run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> VisionRun:
    """An ensemble of a few epochs, saved."""
    return fit_folder(digits, out=tmp_path_factory.mktemp("runs") / "run", size=8, epochs=12, false_alarms=0.2)
