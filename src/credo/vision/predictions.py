"""Predictions for image files, as a person or a program reads them: one row for each file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from credo.loop.progress import clock
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive
from credo.vision.alarms import ImageAlarms, doubt_of, seen
from credo.vision.folder import Say
from credo.vision.pixels import ImageShape
from credo.vision.reading import UnreadableImageError, printable, read_image

AT_ONCE = 256
"""Images that are predicted together."""


def predicted(posterior: Posterior, x: Tensor) -> ClassPredictive:
    """The predictive at images from 0 to 1, on the CPU and in float64."""
    found = posterior.predict(x)
    assert isinstance(found, ClassPredictive)
    return replace(
        found,
        draws=found.draws.double().cpu(),
        params={name: t.double().cpu() for name, t in found.params.items()},
        log_weights=found.log_weights.double().cpu(),
    )


def joined(parts: Sequence[ClassPredictive]) -> ClassPredictive:
    """The predictives of parts of the images as one."""
    return replace(parts[0], draws=torch.cat([part.draws for part in parts], dim=1))


@dataclass(frozen=True, eq=False)
class ImagePredictor:
    """From image files to a table of answers.

    Attributes:
        posterior: of pixels from 0 to 1.
        alarms: when an image rings.
        shape: to which each is brought.
        classes: names of the classes.
    """

    posterior: Posterior
    alarms: ImageAlarms
    shape: ImageShape
    classes: tuple[str, ...]

    def frame(self, files: Sequence[str | Path], say: Say) -> pd.DataFrame:
        """One row for each file; see `VisionRun.predict`."""
        if not len(files):
            raise ValueError("there is no image to predict")
        return pd.concat(list(self._parts(files, say)), ignore_index=True)

    def _parts(self, files: Sequence[str | Path], say: Say) -> Iterator[pd.DataFrame]:
        begin = time.monotonic()
        for start in range(0, len(files), AT_ONCE):
            share = start / len(files)
            left = clock((time.monotonic() - begin) * (1 - share) / share) if share else "?"
            say(f"predicting: {start:,} of {len(files):,}, {left} left", share)
            yield self._part(files[start : start + AT_ONCE])

    def _part(self, files: Sequence[str | Path]) -> pd.DataFrame:
        images, troubles = [], []
        for file in files:
            try:
                images.append(read_image(file, self.shape.size, self.shape.channels))
                troubles.append("")
            except UnreadableImageError as error:
                troubles.append(f"not readable: {error}")
        answers = self.answers(torch.from_numpy(np.stack(images)).float() / 255.0) if images else self._nothing()
        places = np.cumsum([not trouble for trouble in troubles]) - 1
        rows = [
            {**({} if trouble else answers.iloc[place].to_dict()), **self._of_file(file, trouble)}
            for file, trouble, place in zip(files, troubles, places, strict=True)
        ]
        frame = pd.DataFrame(rows, columns=["file", *answers.columns])
        frame["alarm"] = frame["alarm"].astype(bool)
        return frame

    @staticmethod
    def _of_file(file: str | Path, trouble: str) -> dict[str, Any]:
        name = printable(file)
        return {"file": name, "alarm": True, "label": "", "why": printable(trouble)} if trouble else {"file": name}

    def _nothing(self) -> pd.DataFrame:
        """No row, with the columns of answers."""
        names = (*_FIRST, *(f"probability_{name}" for name in self.classes), *_LAST)
        return pd.DataFrame({name: [] for name in names})

    def answers(self, x: Tensor) -> pd.DataFrame:
        """The rows of images from 0 to 1, (B, C, H, W), without the names of their files."""
        return self.table(predicted(self.posterior, x), seen(self.posterior, x))

    def table(self, prediction: ClassPredictive, known: Tensor) -> pd.DataFrame:
        """The rows of images of which the prediction and the features are known."""
        probs, doubt = prediction.probs, doubt_of(prediction)
        distance = self.alarms.neighbors.score(known)
        rings, why = self.alarms.rings(doubt, distance)
        best = probs.max(-1)
        return pd.DataFrame(
            {
                "label": [self.classes[k] for k in best.indices.tolist()],
                "probability": best.values.numpy(),
                "doubt": doubt.numpy(),
                "alarm": rings.numpy(),
                "why": why,
                **{f"probability_{name}": probs[:, k].numpy() for k, name in enumerate(self.classes)},
                "epistemic": prediction.mutual_information.double().reshape(-1).numpy(),
                "aleatoric": prediction.expected_entropy.double().reshape(-1).numpy(),
                "distance": distance.numpy(),
            }
        )


_FIRST, _LAST = ("label", "probability", "doubt", "alarm", "why"), ("epistemic", "aleatoric", "distance")
