"""Runs of images to folders: whole or not at all, never over anything else."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from credo.core.config import encode
from credo.core.folders import write_whole
from credo.core.storage import SCHEMA, write_folder
from credo.reports.image_page import DoubtfulImage, image_page
from credo.tabular.saving import json_text
from credo.vision.reading import pillow
from credo.vision.runs import EVALUATION, FILES, IMAGES, KNOWN, PREDICTIONS, REPORT, VisionRun


def save_vision_run(run: VisionRun, folder: Path) -> VisionRun:
    """Write a run and its report, so that the folder holds all of it or what it held before.

    Args:
        run: what to write.
        folder: where it goes; a run that lies there is replaced, other files in the folder stay.

    Returns:
        The run, with its folder.

    Raises:
        StorageError: if it cannot be written.
    """
    alarms = run.alarms
    facts = {
        "schema": SCHEMA,
        "metadata": encode(run.metadata),
        **{
            name: {"threshold": alarm.threshold, "known": alarm.known, "false_alarms": alarm.false_alarms}
            for name, alarm in (("unsure", alarms.unsure), ("unlike", alarms.unlike))
        },
        "neighbor": alarms.neighbors.k,
        "thumbnails": list(run.thumbnails),
    }
    texts = {
        IMAGES: json_text(facts),
        EVALUATION: json_text({"schema": SCHEMA, **run.evaluation.to_json()}),
        PREDICTIONS: run.predictions.to_csv(index=False),
        REPORT: image_report(run, folder.resolve().name),
    }

    def write(made: Path) -> None:
        run.posterior.save(made)
        write_folder(made, texts, {KNOWN: ({"known": alarms.neighbors.known}, {})})

    write_whole(folder, write, FILES)
    return replace(run, folder=folder)


def image_report(run: VisionRun, name: str) -> str:
    """The report of a run as HTML.

    Args:
        run: what it is about.
        name: of its folder, for the examples on the page.
    """
    record, rows = run.posterior.record, run.predictions
    doubtful = [
        DoubtfulImage(str(rows["file"].iloc[row.row - 1]), str(rows["why"].iloc[row.row - 1]), picture)
        for row, picture in zip(run.evaluation.doubtful, run.thumbnails, strict=False)
    ]
    rates = run.alarms.false_alarms, float(rows["alarm"].astype(bool).mean())
    return image_page(run.metadata, run.evaluation, record.history, record.notes, name, doubtful, rates)


def thumbnail(x: Tensor) -> str:
    """One image from 0 to 1, (1, C, H, W), as a PNG file in text."""
    pixels = np.asarray((x[0] * 255.0).round().byte().permute(1, 2, 0).numpy())
    file = io.BytesIO()
    pillow().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")
