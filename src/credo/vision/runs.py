"""The run of a folder of images, in memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from credo.core.storage import StorageError, find, read_json, read_tensors
from credo.evaluation.image_metadata import ImageMetadata
from credo.evaluation.values import Evaluation
from credo.posteriors import Posterior, load
from credo.posteriors.writing import CONFIG, ENVIRONMENT, HISTORY, STATE
from credo.uncertainty import Alarm, NearestNeighbors
from credo.vision.alarms import ImageAlarms
from credo.vision.folder import Say
from credo.vision.pixels import ImageShape
from credo.vision.predictions import ImagePredictor

IMAGES, EVALUATION, PREDICTIONS, REPORT = "images.json", "evaluation.json", "predictions.csv", "report.html"
KNOWN = "known.safetensors"
FILES = (IMAGES, EVALUATION, PREDICTIONS, REPORT, KNOWN, CONFIG, STATE, HISTORY, ENVIRONMENT)
"""What a run folder holds."""


@dataclass(frozen=True, eq=False)
class VisionRun:
    """A posterior of images, with all that is needed to predict new ones.

    Attributes:
        posterior: of pixels from 0 to 1, which it standardizes itself.
        evaluation: what the held-out images say.
        alarms: when a new image rings.
        predictions: of the held-out images, with what was observed.
        metadata: how the run came about.
        thumbnails: the most doubtful held-out images as PNG files in text, in the order of `evaluation.doubtful`.
        folder: where it is saved; None where it is not.
    """

    posterior: Posterior
    evaluation: Evaluation
    alarms: ImageAlarms
    predictions: pd.DataFrame
    metadata: ImageMetadata
    thumbnails: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def report(self) -> Path | None:
        """The report for people, an HTML page; None where the run is not saved."""
        return None if self.folder is None else self.folder / REPORT

    @property
    def shape(self) -> ImageShape:
        """What every image is brought to."""
        return ImageShape(self.metadata.size, self.metadata.channels)

    def predict(self, files: Sequence[str | Path], say: Say = lambda text, share: None) -> pd.DataFrame:
        """One row for each file, in their order.

        The columns are file, label, probability (of that label), doubt (the entropy of the answer, in nats), alarm
        (a flag), why (unsure, unlike the training images, or not readable), a probability for each class, epistemic and
        aleatoric (entropies in nats that add up to the doubt) and distance (to the training images, in the network's
        features). A file that cannot be read rings, and has no label.

        Args:
            files: images.
            say: is called with what is going on.
        """
        return ImagePredictor(self.posterior, self.alarms, self.shape, self.metadata.classes).frame(files, say)

    def __repr__(self) -> str:
        done, score = self.metadata, self.evaluation.scores[0]
        shown = "undefined" if score.model is None else f"{score.model:.4g}"
        place = "not saved" if self.folder is None else f"saved in {self.folder}"
        return f"VisionRun({len(done.classes)} classes from {done.source}: {done.method}, {score.id} {shown}, {place})"


def is_vision_run(folder: Path) -> bool:
    """Whether a folder holds the run of images."""
    return folder.is_dir() and find(folder, IMAGES) is not None


def open_vision_run(folder: str | Path) -> VisionRun:
    """Read a run that `fit_folder` or `credo fit` wrote. Nothing in the folder can choose code to run.

    Raises:
        StorageError: if the folder is missing, damaged, from a newer credo, or something else.
    """
    path = Path(folder)
    if not is_vision_run(path):
        what = "does not exist" if not path.is_dir() else "holds no run of images"
        raise StorageError(f"{path} {what}: give the folder that `credo fit` wrote")
    data, evaluation = read_json(path, IMAGES), Evaluation.from_json(read_json(path, EVALUATION))
    tensors, _ = read_tensors(path, KNOWN)
    try:
        metadata = ImageMetadata.from_json(data["metadata"])
        unsure, unlike = (Alarm(**{name: data[which][name] for name in _ALARM}) for which in ("unsure", "unlike"))
        alarms = ImageAlarms(unsure, unlike, NearestNeighbors(tensors["known"], int(data["neighbor"])))
        thumbnails = tuple(str(text) for text in data["thumbnails"])
        numbers = [value for alarm in (unsure, unlike) for value in (alarm.threshold, alarm.false_alarms)]
        if not all(isinstance(value, float) for value in numbers) or not 1 <= alarms.neighbors.k <= len(
            tensors["known"]
        ):
            raise TypeError("its alarms are no numbers")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise StorageError(f"{path / IMAGES} is damaged ({error!r})") from None
    return VisionRun(load(path), evaluation, alarms, _predictions(path), metadata, thumbnails, path)


_ALARM = ("threshold", "known", "false_alarms")


def _predictions(folder: Path) -> pd.DataFrame:
    path = find(folder, PREDICTIONS)
    if path is None:
        raise StorageError(f"{folder} has no {PREDICTIONS}: its files belong together, copy them all")
    words = dict.fromkeys(("file", "observed", "label", "why"), str)
    try:
        return pd.read_csv(path, dtype=words, keep_default_na=False, na_values={"probability": [""], "doubt": [""]})
    except (ValueError, OSError) as error:
        raise StorageError(f"{path} is damaged ({error})") from None
