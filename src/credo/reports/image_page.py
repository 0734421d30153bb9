"""The report of a folder of images: one HTML file that needs nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from credo.evaluation.digits import percent
from credo.evaluation.image_metadata import ImageMetadata
from credo.evaluation.values import Evaluation
from credo.reports.page import rendered
from credo.reports.words import method_in_words, seconds

CLASSES = 60
"""Classes that a table shows."""


@dataclass(frozen=True)
class DoubtfulImage:
    """One of the held-out images of the most doubt.

    Attributes:
        file: its name.
        why: why the alarm rings; empty where it does not.
        picture: a PNG file in text.
    """

    file: str
    why: str
    picture: str


def image_page(
    metadata: ImageMetadata,
    evaluation: Evaluation,
    history: Sequence[dict[str, float]],
    remarks: Sequence[str],
    run: str,
    doubtful: Sequence[DoubtfulImage],
    rates: tuple[float, float],
) -> str:
    """The report as HTML.

    Args:
        metadata: how the run came about.
        evaluation: what the held-out images say.
        history: one row per epoch.
        remarks: what credo chose and noticed in training.
        run: name of the run folder, for the examples.
        doubtful: pictures of `evaluation.doubtful`.
        rates: part of images like the held-out ones for which the alarm rings at most, and of the held-out ones
            themselves.
    """
    shown = [
        {
            "file": image.file,
            "why": image.why,
            "picture": image.picture,
            "predicted": row.predicted,
            "observed": row.observed,
            "unusual": ", ".join(f"{name} {dict(row.features)[name]}" for name in row.unusual),
            "share": percent(row.epistemic_share),
        }
        for row, image in zip(evaluation.doubtful, doubtful, strict=False)
    ]
    counts = list(zip(metadata.classes, metadata.counts, strict=True))
    return rendered(
        "images.html.jinja",
        evaluation,
        history,
        remarks,
        said=of_images,
        things="images",
        metadata=metadata,
        subtitle=_subtitle(metadata, evaluation),
        familiarity_words=alarm_words(*rates),
        doubtful_images=shown,
        counts=counts[:CLASSES],
        classes_note=f"{CLASSES} of {len(counts):,} classes are shown." if len(counts) > CLASSES else "",
        training_words=_training_words(metadata),
        run_quoted=shlex.quote(run),
        snippet=_snippet(run),
    )


def of_images(text: str) -> str:
    """A sentence of an evaluation, which speaks of rows, about images.

    Examples:
        >>> of_images("with 88 rows a true 95 % may show; one row in twenty")
        'with 88 images a true 95 % may show; one image in twenty'
    """
    return re.sub(r"\brow(s?)\b", r"image\1", text)


def alarm_words(promised: float, counted: float) -> str:
    """When the alarm rings."""
    return (
        "For a new image the alarm rings when the answer is more unsure, or the image is farther from the training "
        "images in what the network sees, than nearly all held-out images are. It rings for at most "
        f"{percent(promised)} of images of the same kind as these ({percent(counted)} of the held-out ones "
        "themselves). How many unknown images it finds, nobody can promise: try it with some."
    )


def _subtitle(metadata: ImageMetadata, evaluation: Evaluation) -> str:
    images = f"{evaluation.trained:,} training images, {evaluation.held_out:,} held out"
    return f"{images}; {method_in_words(metadata.method)} of {metadata.network}, {seconds(metadata.seconds)}."


def _training_words(metadata: ImageMetadata) -> str:
    name, epochs = method_in_words(metadata.method), f"{metadata.epochs:,} epoch{'s' * (metadata.epochs != 1)}"
    what = f"{name[0].upper()}{name[1:]} of {metadata.network}"
    return f"{what} on {metadata.device}, {epochs}; {seconds(metadata.seconds)} in all."


def _snippet(run: str) -> str:
    return (
        "from pathlib import Path\n"
        "from credo.vision import open_vision_run\n\n"
        f"run = open_vision_run({run!r})\n"
        'predicted = run.predict(sorted(Path("photos").glob("*.jpg")))  # one row of answers for each file\n'
        'print(predicted[["file", "label", "probability", "doubt", "alarm", "why"]])\n\n'
        "run.posterior   # the credo posterior itself, for pixels from 0 to 1\n"
        "run.evaluation  # the numbers of this page: run.evaluation.score('accuracy').model, ...\n"
    )
