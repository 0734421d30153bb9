"""Labeling a folder of images in rounds: the images that tell most, by name, in a file that a person fills in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from credo.core.status import Status
from credo.data import DataError, Task
from credo.data.encoder import natural_order
from credo.data.reading import table_of
from credo.decide import Acquisition
from credo.fit import fit
from credo.loop.checkpoints import Checkpoint
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive, Predictive
from credo.tabular.label_curve import Labeling
from credo.tabular.label_pool import LabelPool, LearnedPool
from credo.tabular.label_session import JUDGED, LabelRequest
from credo.tabular.labeling import label_rows
from credo.vision.folder import ImageFolder, Say, images_below
from credo.vision.pixels import DecodedImages, ImageShape, decode
from credo.vision.predictions import AT_ONCE, joined, predicted
from credo.vision.reading import Header, UnreadableImageError, pillow, read_header
from credo.vision.recipes import VisionRequest

STEPS = 600
"""Of a training, however few the labels are."""
SECONDS = 10.0
"""Between two checkpoints."""
IMAGE = "image"
"""The column that names the file of an image."""


def label_images(
    pool: str | Path,
    out: str | Path,
    *,
    ask: int = 20,
    target: str = "label",
    method: str = "ensemble",
    acquisition: Acquisition | str = Acquisition.BATCH_BALD,
    judged: float = JUDGED,
    seed: int = 0,
    say: Say = lambda text, share: None,
) -> Labeling:
    """One round of labeling a folder of images; `credo.tabular.label_table` says how a session goes.

    Args:
        pool: a folder with images, in it or in folders below.
        out: folder of the session, not inside the pool.
        ask: images to ask for.
        target: name of the column of labels in `to-label.csv`, beside the name of each image.
        method: ensemble, dropout or vi.
        acquisition: what makes an image worth asking for.
        judged: part of the images asked for that is drawn at random and never learned from.
        seed: the same seed and the same answers give the same questions.
        say: is called with what is going on.
    """
    root, place = Path(pool), Path(out)
    if place.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{out} lies in the pool itself: choose another folder for the session (--out)")
    if target == IMAGE:
        raise ValueError(f"{IMAGE!r} is the column of file names: call the labels something else (--target)")
    request = LabelRequest(target, method, acquisition, Task.CLASSIFICATION, judged, seed)
    return label_rows(ImagePool.of(root, request, say), place, ask)


@dataclass(frozen=True, eq=False)
class ImagePool(LabelPool):
    """The images of a folder."""

    folder: ImageFolder
    say: Say

    @classmethod
    def of(cls, root: Path, request: LabelRequest, say: Say) -> ImagePool:
        """Look at the files, and leave out those that are no images.

        Raises:
            DataError: if there is none.
        """
        pillow()
        headers: dict[str, Header] = {}
        bad, digest = list[str](), hashlib.blake2b(digest_size=16)
        for path in images_below(root):
            name = path.relative_to(root).as_posix()
            digest.update(f"{name} {path.stat().st_size}\n".encode())
            try:
                headers[name] = read_header(path)
            except UnreadableImageError:
                bad.append(name)
        if not headers:
            raise DataError(f"{root} holds no image that can be read: there is nothing to ask for")
        notes = (f"{len(bad):,} files are no readable images and are left out, such as {bad[0]}",) if bad else ()
        table = table_of(pd.DataFrame({IMAGE: list(headers)}), str(root), notes)
        labels = np.zeros(len(headers), dtype=np.int64)
        key = digest.hexdigest()
        folder = ImageFolder(root, (), tuple(headers), labels, tuple(headers.values()), notes, key)
        return cls(table, request, folder, say)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "files": self.folder.fingerprint}

    def learned(self, labels: dict[int, str], task: Task, seed: int, folder: Path) -> LearnedPool:
        shape = ImageShape(self.folder.size, self.folder.channels)
        images = decode(self.folder, shape, folder.with_name("pixels"), self.say)
        rows = [row for row in labels if images.readable[row]]
        classes = tuple(sorted({labels[row] for row in rows}, key=natural_order))
        if len(classes) < 2:
            raise DataError("the labeled images that can be read are of one class: label some of another")
        wanted = VisionRequest(method=self.request.method)
        batch = wanted.batch(len(rows))
        wanted = replace(wanted, epochs=math.ceil(STEPS * batch / len(rows)))
        model = wanted.model(shape, len(classes), *images.moments(np.arange(len(self.folder.files))))
        x, y = images.images(np.array(rows)), torch.tensor([classes.index(labels[row]) for row in rows])
        self.say(f"learning from {len(rows)} images", None)
        posterior = fit(
            model,
            (x, y),
            wanted.training_method(len(rows)),
            seed=seed,
            augment=wanted.augmentation(shape.size),
            checkpoint=Checkpoint(folder, SECONDS),
            resume=True,
            progress=False,
        )
        if posterior.record.interrupted:
            raise KeyboardInterrupt
        if posterior.record.status is Status.DIVERGED:
            raise ValueError(f"the training {posterior.record.reason}")
        return LearnedImages(images, posterior, classes)


@dataclass(frozen=True, eq=False)
class LearnedImages(LearnedPool):
    """A posterior of pixels, and the names of its classes."""

    images: DecodedImages
    posterior: Posterior
    classes: tuple[str, ...]

    def predict(self, rows: Sequence[int]) -> Predictive:
        chosen = np.asarray(list(rows))
        parts = [chosen[start : start + AT_ONCE] for start in range(0, len(chosen), AT_ONCE)]
        return joined([predicted(self.posterior, self.images.images(part)) for part in parts])

    def decode(self, prediction: Predictive) -> list[Any]:
        assert isinstance(prediction, ClassPredictive)
        return [self.classes[int(label)] for label in prediction.label]
