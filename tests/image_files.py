"""Folders of images that several tests write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from credo.data.sets import load

Image = pytest.importorskip("PIL.Image", reason="images are read by Pillow, of the extra images")

PER_CLASS = 40


def write_digits(root: Path, digits: tuple[int, ...], count: int = PER_CLASS) -> Path:
    """scikit-learn's digits as PNG files of 8 x 8."""
    data = load("digits")
    for digit in digits:
        folder = root / f"digit {digit}"
        folder.mkdir(parents=True)
        for number, row in enumerate(np.flatnonzero(data.y == digit)[:count]):
            pixels = (data.x[row].reshape(8, 8) * 15.9).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    return root
