"""Accuracy, log likelihood and calibration of a network before and after Laplace's method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shutil import rmtree

import torch
from torch import Tensor

import credo
from credo import metrics
from credo.calibration import Temperature
from credo.experiments.base import Cell, Progress, Table, uninterrupted
from credo.experiments.doubt import fitted, place_of
from credo.experiments.laplace_calibration.problem import (
    AS_IT_IS,
    TEMPERATURE,
    TREATMENTS,
    CalibrationRow,
    ImageSets,
    Treatment,
    method,
)
from credo.posteriors import LaplaceGaussian, Posterior
from credo.predictive import predictive

ACCURACY, LOG_LIKELIHOOD, ERROR, CONFIDENCE, PRECISION = range(5)
"""Places of a treatment's numbers."""
AFTER = {"": "last layer", "held-out-": "last layer, held out", "all-": "all weights"}
"""The treatments of which something is claimed, by the beginning of the claim's id."""


@dataclass(frozen=True)
class CalibrationResult:
    """What a trained network reached on the test images, before and after.

    Attributes:
        name: the row's.
        weights: of the network.
        trained: accuracy and log likelihood of the network on the images that it has learned.
        treatments: accuracy, log likelihood per image, calibration error (15 bins), mean confidence and precision of
            the prior, by treatment.
        reliability: mean confidence, accuracy and number of images of each bin, by treatment.
        seconds: of training.
        finished: whether training came to its end.
    """

    name: str
    weights: int
    trained: list[float]
    treatments: dict[str, list[float]]
    reliability: dict[str, list[list[float]]]
    seconds: float
    finished: bool


def train(row: CalibrationRow, data: ImageSets, folder: Path, seed: int, progress: Progress) -> CalibrationResult:
    """Train a row, or resume its training, and measure it."""
    posterior = fitted(row.trained, data.x, data.y, folder, seed, progress, "cpu")
    result = measured(row, posterior, data, progress)
    rmtree(place_of(row.trained, folder), ignore_errors=True)
    return result


def measured(row: CalibrationRow, posterior: Posterior, data: ImageSets, progress: Progress) -> CalibrationResult:
    """The numbers of a trained network."""
    plain, known = posterior.predict(data.x_test), posterior.predict(data.x)
    scaled = Temperature.of(posterior.predict(data.x_held_out), data.y_held_out).apply(plain)
    found, curves = dict[str, list[float]](), dict[str, list[list[float]]]()

    def note(name: str, prediction: credo.Predictive, precision: float = 1.0) -> None:
        assert isinstance(prediction, credo.ClassPredictive)
        found[name] = [*_numbers(prediction, data.y_test), precision]
        curve = metrics.reliability_curve(prediction, data.y_test)
        curves[name] = [curve.confidence.tolist(), curve.accuracy.tolist(), curve.count.tolist()]

    note(AS_IT_IS, plain)
    around = cache(partial(laplace, posterior, data))
    for name in row.treatments:
        treatment = TREATMENTS[name]
        progress.say(f"{row.name}: {name}")
        each = treated(around(treatment.subset), treatment, data)
        note(name, _predicted(each, data.x_test), float(next(iter(each.precision.values())).mean()))
    note(TEMPERATURE, scaled)
    return CalibrationResult(
        name=row.name,
        weights=sum(p[0].numel() for p in posterior.members(1).params.values()),
        trained=[metrics.accuracy(known, data.y), metrics.log_likelihood(known, data.y)],
        treatments=found,
        reliability=curves,
        seconds=posterior.record.seconds,
        finished=posterior.record.finished,
    )


def laplace(posterior: Posterior, data: ImageSets, subset: str) -> LaplaceGaussian:
    """The posterior around a trained network, of these weights, with the precision of the largest evidence."""
    found = credo.fit(posterior.model, (data.x, data.y), method(subset), start=posterior, progress=False)
    found = uninterrupted(found)
    assert isinstance(found, LaplaceGaussian)
    return found


def treated(posterior: LaplaceGaussian, treatment: Treatment, data: ImageSets) -> LaplaceGaussian:
    """The same as a treatment says."""
    found = posterior.with_prediction(treatment.prediction)
    return found.choose_precision(data.x_held_out, data.y_held_out) if treatment.held_out else found


def _predicted(posterior: Posterior, x: Tensor) -> credo.Predictive:
    """Some images at a time, put together as one prediction by its class probabilities."""
    probs = [part.mean for part in posterior.predict_batches(x, rows=500)]
    draws = torch.cat(probs).log().unsqueeze(0)
    return predictive(posterior.model.likelihood, draws, {}, draws.new_zeros(1))


def _numbers(prediction: credo.ClassPredictive, y: Tensor) -> list[float]:
    return [
        metrics.accuracy(prediction, y),
        metrics.log_likelihood(prediction, y),
        metrics.expected_calibration_error(prediction, y),
        float(prediction.probs.amax(1).double().mean()),
    ]


def numbers(found: Mapping[str, CalibrationResult]) -> dict[str, float]:
    """The numbers of the claims for which there are rows."""
    measured: dict[str, float] = {}
    for row, each in found.items():
        before = each.treatments[AS_IT_IS]
        measured[f"{row}/overconfident"] = before[CONFIDENCE] - before[ACCURACY]
        for prefix, treatment in AFTER.items():
            if treatment not in each.treatments:
                continue
            after = each.treatments[treatment]
            measured[f"{row}/{prefix}error"] = before[ERROR] - after[ERROR]
            measured[f"{row}/{prefix}likelihood"] = after[LOG_LIKELIHOOD] - before[LOG_LIKELIHOOD]
            measured[f"{row}/{prefix}accuracy"] = after[ACCURACY] - before[ACCURACY]
    return measured


def tables(found: Mapping[str, CalibrationResult]) -> tuple[Table, ...]:
    """Before and after, one table for each network."""
    of_each = ("accuracy", "log likelihood", "calibration error", "confidence", "prior precision")
    columns = ("posterior", *of_each)
    return tuple(_table(each, columns) for each in found.values())


def _table(result: CalibrationResult, columns: tuple[str, ...]) -> Table:
    rows = tuple[tuple[Cell, ...], ...]((name, *values) for name, values in result.treatments.items())
    accuracy, log_likelihood = result.trained
    note = (
        f"{result.weights:,} weights, trained in {result.seconds:.0f} seconds. On the images that it has learned the "
        f"network has an accuracy of {accuracy:.4f} and a log likelihood of {log_likelihood:.4f}."
    )
    return Table(f"Test images, network {result.name}", columns, rows, note)
