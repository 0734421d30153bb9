"""How a run of images came about, for a person to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from credo.core.config import decode


@dataclass(frozen=True)
class ImageMetadata:
    """How a run came about.

    Attributes:
        source: name of the folder.
        classes: names of the classes.
        counts: readable images of each class.
        size: height and width to which images are brought.
        channels: 1 for gray, 3 for colors.
        network: name of the network.
        method: name of the method.
        notes: what was found in the folder, in sentences.
        test: part of the images that was held out.
        seed: every stream of randomness derives from it.
        epochs: passes over the training images.
        device: what computed.
        seconds: from the first file to the evaluation.
        created: date and time, ISO 8601.
        credo: version.
    """

    source: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    size: int
    channels: int
    network: str
    method: str
    notes: tuple[str, ...]
    test: float
    seed: int
    epochs: int
    device: str
    seconds: float
    created: str
    credo: str

    @staticmethod
    def from_json(data: Any) -> ImageMetadata:
        """The inverse of `credo.core.config.encode`.

        Raises:
            KeyError, TypeError, AttributeError: the data are damaged.
        """
        found = decode(data, {"ImageMetadata": ImageMetadata})
        if not isinstance(found, ImageMetadata):
            raise TypeError("it does not say how the run came about")
        if len(found.classes) != len(found.counts) or len(found.classes) < 2 or found.channels not in (1, 3):
            raise TypeError("its classes, counts and channels do not fit together")
        return found
