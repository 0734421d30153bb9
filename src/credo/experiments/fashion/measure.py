"""How often garments are named rightly, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch

from credo import metrics
from credo.data.pixels import ImageTensors
from credo.experiments.base import Cell, Progress, Table
from credo.experiments.doubt import DoubtRow, fitted, place_of, predicted

PARTS = (1.0, 0.9, 0.8, 0.7, 0.5)
"""Of the images, the most certain ones."""


@dataclass(frozen=True)
class FashionResult:
    """What a row reached on the test images.

    Attributes:
        name: the row's.
        weights: of one network.
        accuracy: of the mixture.
        log_likelihood: per image in nats.
        calibration_error: expected, 15 bins.
        kept: accuracy on the most certain `PARTS` of the images, by entropy.
        confusion: images of each class (rows) by the class they were given.
        seconds: of training.
        device: what it was trained on.
        finished: whether training came to its end.
    """

    name: str
    weights: int
    accuracy: float
    log_likelihood: float
    calibration_error: float
    kept: list[float]
    confusion: list[list[int]]
    seconds: float
    device: str
    finished: bool


def train(row: DoubtRow, data: ImageTensors, folder: Path, seed: int, progress: Progress, device: str) -> FashionResult:
    """Train a row and measure it."""
    posterior = fitted(row, data.x, data.y, folder, seed, progress, device)
    prediction = predicted(posterior, data.x_test, row.draws)
    wrong = (prediction.label != data.y_test).double()
    curve = metrics.risk_coverage_of_losses(prediction.entropy, wrong)
    pairs = torch.bincount(10 * data.y_test + prediction.label, minlength=100).reshape(10, 10)
    result = FashionResult(
        name=row.name,
        weights=sum(p[0].numel() for p in posterior.members(1).params.values()),
        accuracy=metrics.accuracy(prediction, data.y_test),
        log_likelihood=metrics.log_likelihood(prediction, data.y_test),
        calibration_error=metrics.expected_calibration_error(prediction, data.y_test),
        kept=[1.0 - curve.risk_at(part) for part in PARTS],
        confusion=[[int(n) for n in counts] for counts in pairs.tolist()],
        seconds=posterior.record.seconds,
        device="cpu" if device == "cpu" else torch.cuda.get_device_name(),
        finished=posterior.record.finished,
    )
    rmtree(place_of(row, folder), ignore_errors=True)
    return result


def numbers(found: Mapping[str, FashionResult]) -> dict[str, float]:
    """The numbers of the claims for which there are rows."""
    measured = {name: each.accuracy for name, each in found.items()}
    for prefix in ("", "digits-"):
        if {f"{prefix}ensemble", f"{prefix}lenet-5"} <= found.keys():
            measured[f"{prefix}gain"] = found[f"{prefix}ensemble"].accuracy - found[f"{prefix}lenet-5"].accuracy
    return measured


def tables(found: Mapping[str, FashionResult]) -> tuple[Table, ...]:
    """Accuracy and what comes with it."""
    if not found:
        return ()
    columns = ("row", "weights", "accuracy", "log likelihood", "calibration error", "minutes")
    rows = tuple(
        (name, each.weights, each.accuracy, each.log_likelihood, each.calibration_error, each.seconds / 60.0)
        for name, each in found.items()
    )
    kept: tuple[tuple[Cell, ...], ...] = tuple((name, *each.kept) for name, each in found.items())
    return (
        Table("Test images", columns, rows),
        Table("Accuracy on the most certain images", ("row", *(f"most certain {p:.0%}" for p in PARTS)), kept),
    )
