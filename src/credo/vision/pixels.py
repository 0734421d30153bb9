"""Decoded images in a file, so that a folder larger than memory can be learned from, and none is decoded twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from credo.core.storage import StorageError
from credo.data import DataError
from credo.loop.progress import clock
from credo.vision.folder import ImageFolder, Say
from credo.vision.reading import UnreadableImageError, left_out_note, read_image

FILE = "pixels.u8"
SAMPLE = 20_000
"""Images by which channels are standardized, at most."""
EVERY = 0.5
"""Seconds between two words about progress."""


@dataclass(frozen=True)
class ImageShape:
    """What every image is brought to.

    Attributes:
        size: height and width.
        channels: 1 for gray, 3 for colors.
    """

    size: int
    channels: int

    @property
    def numbers(self) -> int:
        """Pixels times channels."""
        return self.channels * self.size**2

    @property
    def row_bytes(self) -> int:
        """Of an image in the file: whether it was readable, then its pixels."""
        return 1 + self.numbers


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """All images of a folder, in a file that is mapped rather than held in memory.

    Attributes:
        rows: (N, 1 + C * H * W) bytes.
        shape: of each image.
    """

    rows: NDArray[np.uint8]
    shape: ImageShape

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Whether each file could be read, (N,)."""
        return np.asarray(self.rows[:, 0] == 1)

    def images(self, places: Any) -> Tensor:
        """Some of them, from 0 to 1: (B, C, H, W)."""
        pixels = torch.from_numpy(np.asarray(self.rows[places, 1:]))
        return pixels.reshape(-1, self.shape.channels, self.shape.size, self.shape.size).float() / 255.0

    def moments(self, places: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each channel, over at most `SAMPLE` of these images."""
        chosen = places[:: max(1, -(-len(places) // SAMPLE))]
        total, squares, count = np.zeros(self.shape.channels), np.zeros(self.shape.channels), 0
        for part in np.array_split(chosen, -(-len(chosen) // 512)):
            x = self.images(part).double()
            total += x.sum((0, 2, 3)).numpy()
            squares += x.square().sum((0, 2, 3)).numpy()
            count += len(part) * self.shape.size**2
        mean = total / count
        scale = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
        # pixels from 0 to 1 in steps of 1/255: a sum of squares in float64 loses nothing that matters
        return tuple(mean.tolist()), tuple(np.where(scale > 1e-3, scale, 1.0).tolist())


def decode(folder: ImageFolder, shape: ImageShape, place: Path, say: Say = lambda text, share: None) -> DecodedImages:
    """Read every image once; what was read before a kill is not read again.

    Args:
        folder: of the images.
        shape: to which each is brought.
        place: folder for the file.
        say: is called with what is going on.

    Raises:
        StorageError: if the disk takes no more; what was read is kept.
    """
    path, count = place / FILE, len(folder.files)
    place.mkdir(parents=True, exist_ok=True)
    begin = done = (path.stat().st_size if path.exists() else 0) // shape.row_bytes
    started = said = time.monotonic()
    try:
        with path.open("ab") as file:
            file.truncate(done * shape.row_bytes)  # a kill may have cut a row
            for name in folder.files[done:]:
                file.write(_row(folder.root / name, shape))
                done += 1
                if time.monotonic() - said > EVERY:
                    said = time.monotonic()
                    left = (said - started) / (done - begin) * (count - done)
                    say(f"reading images: {done:,} of {count:,}, {clock(left)} left", done / count)
    except OSError as error:
        raise StorageError(
            f"{place} takes no more ({error.strerror or error}) after {done:,} of {count:,} images, and they need "
            f"{count * shape.row_bytes / 1e6:,.0f} MB: make room, and continue with --resume (resume=True), or choose "
            "another folder (--out) or a smaller --size"
        ) from None
    return DecodedImages(np.memmap(path, np.uint8, "r", shape=(count, shape.row_bytes)), shape)


def _row(path: Path, shape: ImageShape) -> bytes:
    try:
        return b"\1" + read_image(path, shape.size, shape.channels).tobytes()
    except UnreadableImageError:
        return bytes(shape.row_bytes)


def unreadable_notes(folder: ImageFolder, readable: NDArray[np.bool_]) -> tuple[str, ...]:
    """A sentence about the files that could not be read, which names the first and says what is wrong with it."""
    bad = np.flatnonzero(~readable)
    if not len(bad):
        return ()
    first = folder.root / folder.files[bad[0]]
    try:
        read_image(first, 8, 1)
        why = f"{first} could not be read"
    except DataError as error:
        why = str(error)
    return (left_out_note(len(bad), len(folder.files), why),)


class ImageRows(Dataset[tuple[Tensor, Tensor]]):
    """Some of the decoded images with their classes, for a DataLoader.

    Args:
        images: all of them.
        labels: class number of each, (N,).
        places: which ones.
    """

    def __init__(self, images: DecodedImages, labels: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        self.images, self.labels, self.places = images, torch.from_numpy(labels), places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        x, y = self.__getitems__([place])
        return x[0], y[0]

    def __getitems__(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """A batch at once, which a DataLoader asks for where it can."""
        rows = self.places[np.asarray(places)]
        return self.images.images(rows), self.labels[torch.from_numpy(rows)]
