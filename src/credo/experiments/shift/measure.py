"""What is left of accuracy and calibration when images get worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import fmean

import torch
from torch import Tensor

import credo
from credo import metrics
from credo.data.corruptions import SEVERITIES, Corruption, corrupt
from credo.experiments.base import Cell, Progress, Table
from credo.experiments.doubt import DoubtRow, fitted, place_of, predicted
from credo.experiments.shift.problem import Shifted

ACCURACY, LOG_LIKELIHOOD, ERROR, ENTROPY = range(4)
"""Places in the numbers of a severity."""


@dataclass(frozen=True)
class ShiftResult:
    """What a row says of images that get worse.

    Attributes:
        name: the row's.
        clean: accuracy, log likelihood, calibration error and mean entropy on the test images as they are.
        worse: the same by corruption, for severities 1 to 5.
        seconds: of training.
        device: what it was trained on.
        finished: whether training came to its end.
    """

    name: str
    clean: list[float]
    worse: dict[str, list[list[float]]]
    seconds: float
    device: str
    finished: bool

    def by_severity(self, place: int) -> list[float]:
        """One of the numbers at severities 0 to 5, averaged over the corruptions."""
        each = [fmean(steps[severity - 1][place] for steps in self.worse.values()) for severity in SEVERITIES]
        return [self.clean[place], *each]


def train(row: DoubtRow, data: Shifted, folder: Path, seed: int, progress: Progress, device: str) -> ShiftResult:
    """Train a row, and show it what gets worse."""
    posterior = fitted(row, data.x, data.y, folder, seed, progress, device)

    def seen(x: Tensor) -> list[float]:
        return _numbers(predicted(posterior, x, row.draws), data.y_test)

    worse = {
        str(kind): [seen(corrupt(data.x_test, kind, severity, seed=seed, low=data.low)) for severity in SEVERITIES]
        for kind in Corruption
    }
    used = "cpu" if device == "cpu" else torch.cuda.get_device_name()
    clean, record = seen(data.x_test), posterior.record
    rmtree(place_of(row, folder), ignore_errors=True)
    return ShiftResult(row.name, clean, worse, record.seconds, used, record.finished)


def _numbers(prediction: credo.ClassPredictive, y: Tensor) -> list[float]:
    return [
        metrics.accuracy(prediction, y),
        metrics.log_likelihood(prediction, y),
        metrics.expected_calibration_error(prediction, y),
        float(prediction.entropy.double().mean()),
    ]


def numbers(found: Mapping[str, ShiftResult]) -> dict[str, float]:
    """The numbers of the claims for which there are rows."""
    measured: dict[str, float] = {}
    for prefix in ("", "digits-"):
        here = {name: found[prefix + name] for name in ("plain", "ensemble", "mc-dropout") if prefix + name in found}
        for name, each in here.items():
            measured[f"{prefix}{name}"] = each.clean[ACCURACY]
        if "ensemble" in here and "plain" in here:
            errors = {name: fmean(here[name].by_severity(ERROR)[1:]) for name in ("plain", "ensemble")}
            fits = {name: fmean(here[name].by_severity(LOG_LIKELIHOOD)[1:]) for name in ("plain", "ensemble")}
            measured[f"{prefix}error"] = errors["plain"] - errors["ensemble"]
            measured[f"{prefix}log-likelihood"] = fits["ensemble"] - fits["plain"]
            accuracy, entropy = (here["ensemble"].by_severity(place) for place in (ACCURACY, ENTROPY))
            measured[f"{prefix}falls"] = accuracy[0] - accuracy[-1]
            measured[f"{prefix}doubts"] = entropy[-1] - entropy[0]
    return measured


def tables(found: Mapping[str, ShiftResult]) -> tuple[Table, ...]:
    """By severity, and by corruption at the worst."""
    if not found:
        return ()
    titles = {ACCURACY: "Accuracy", LOG_LIKELIHOOD: "Log likelihood", ERROR: "Calibration error"}
    columns = ("row", "clean", *(f"severity {severity}" for severity in SEVERITIES))
    by_severity = [
        Table(
            f"{title} by severity, averaged over five corruptions",
            columns,
            tuple((name, *each.by_severity(place)) for name, each in found.items()),
        )
        for place, title in titles.items()
    ]
    worst: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(steps[-1][ACCURACY] for steps in each.worse.values())) for name, each in found.items()
    )
    note = "The corruptions are credo's own: these numbers are not to be held beside those of CIFAR-10-C."
    kinds = next(iter(found.values())).worse
    return (*by_severity, Table("Accuracy at severity 5, by corruption", ("row", *kinds), worst, note))
