"""Rows of a table of image classifiers that are asked about images of no known class."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, metrics, uncertainty
from credo.calibration import ConformalSets, Temperature
from credo.core.config import encode
from credo.experiments.base import Progress, uninterrupted
from credo.methods.base import Method
from credo.posteriors import Draws, Posterior
from credo.predictive import predictive
from credo.priors import Normal, Prior
from credo.uncertainty import Doubt

SCORES = (
    Doubt.MAXIMUM_PROBABILITY,
    Doubt.ENTROPY,
    Doubt.MUTUAL_INFORMATION,
    Doubt.VARIATION_RATIO,
    Doubt.TOTAL_STDDEV,
    Doubt.DISAGREEMENT,
    Doubt.ENERGY,
)
"""Of the prediction. Those of the network's features come beside them."""
NEIGHBORS, DENSITY = "nearest neighbors", "density of features"
BY_CLASS = (Doubt.MUTUAL_INFORMATION, Doubt.VARIATION_RATIO, Doubt.TOTAL_STDDEV, Doubt.DISAGREEMENT)
"""Scores that say nothing of a single network."""
REFERENCES = 5000
"""Training images to whose features others are compared, and held-out images that calibrate, at most."""
FILTERED = 50
"""Points of the curve of the filter experiment."""
CURVE = 60
"""Points of a row's learning curve that are stored, at most."""
RATE = 0.05
"""Of false alarms."""
LEVEL = 0.95
"""Of the sets of classes."""
TRAINING = "training"
"""Where a run folder has the trainings that are not over."""


@dataclass(frozen=True, eq=False)
class Known:
    """Images of known classes, and of others.

    Attributes:
        x: to learn from, (N, C, H, W).
        y: their classes, (N,).
        held_out: images and classes that calibrate.
        test: images and classes that test.
        unknown: images of no known class, by what they are.
        examples: numbers of a test image and of an unknown image of the first kind that are shown.
    """

    x: Tensor
    y: Tensor
    held_out: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    unknown: Mapping[str, Tensor]
    examples: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class DoubtRow:
    """A classifier, and how it is trained.

    Attributes:
        name: for people and files.
        net: makes the network.
        method: trains it.
        draws: functions that a prediction averages; None for all there are.
        prior: of the weights.
    """

    name: str
    net: Callable[[], nn.Module]
    method: Method
    draws: int | None = None
    prior: Prior = field(default_factory=lambda: Normal(scale=1.0))

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        net = self.net()
        network = {"kind": type(net).__name__, "config": getattr(net, "config", None)}
        described = {"net": network, "method": encode(self.method), "prior": encode(self.prior)}
        return {**described, "draws": self.draws, "seed": seed}


@dataclass(frozen=True)
class DoubtResult:
    """What a row reached on the test images of known classes, and on the unknown ones.

    Attributes:
        name: the row's.
        weights: of one network.
        accuracy: on the known test images, by the mixture.
        members: the same for each network on its own, where there are several.
        log_likelihood: of the known test labels, per image in nats.
        calibration_error: of the known test images.
        temperature: that fits the held-out images best.
        scaled: log likelihood and calibration error with that temperature.
        set_size: mean number of classes in conformal sets of 95 %.
        set_coverage: part of the known test images whose set holds the class.
        detection: by kind of unknown images and score: area under the ROC curve, average precision, and the part of the
            known images that ring where 95 % of the unknown ones do.
        alarms: by score: part of the known test images that ring at a threshold of 5 % false alarms among held-out
            ones, and of the unknown images of each kind.
        filtered: by score: accuracy on the most certain part of known and unknown (first kind) images together, of
            which no unknown one counts as right; at `FILTERED` equal steps of the part.
        kept: accuracy on the most certain part of the known test images alone, by entropy, at the same parts.
        pictures: of a known and of an unknown image, (C, H, W) from 0 to 255 as nested lists.
        probabilities: of the two, by draw, (S, K).
        truth: class number of the known one.
        seconds: of training, all attempts together where it was resumed.
        epochs: of training, as the history counts them.
        curve: rows of the history, thinned.
        device: what it was trained on.
        finished: whether training came to its end.
    """

    name: str
    weights: int
    accuracy: float
    members: list[float]
    log_likelihood: float
    calibration_error: float
    temperature: float
    scaled: list[float]
    set_size: float
    set_coverage: float
    detection: dict[str, dict[str, list[float]]]
    alarms: dict[str, list[float]]
    filtered: dict[str, list[float]]
    kept: list[float]
    pictures: list[Any]
    probabilities: list[list[list[float]]]
    truth: int
    seconds: float
    epochs: int
    curve: list[dict[str, float]]
    device: str
    finished: bool


def train(row: DoubtRow, data: Known, folder: Path, seed: int, progress: Progress, device: str) -> DoubtResult:
    """Train a row, or resume its training, and measure it."""
    posterior = fitted(row, data.x, data.y, folder, seed, progress, device)
    result = measured(row, posterior, data)
    rmtree(place_of(row, folder), ignore_errors=True)
    return result


def place_of(row: DoubtRow, folder: Path) -> Path:
    """Where a run folder has the training of a row until the row is done."""
    return folder / TRAINING / row.name


def fitted(row: DoubtRow, x: Tensor, y: Tensor, folder: Path, seed: int, progress: Progress, device: str) -> Posterior:
    """The posterior of a row; a training that was cut short goes on with what the folder has of it."""
    model = credo.Model(row.net(), likelihoods.Categorical(), row.prior)
    data, listener = (x.to(device), y.to(device)), progress.of(row.name)
    place = place_of(row, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.CredoWarning)  # a run that diverges is a result too
        options: dict[str, Any] = {"seed": seed, "device": device, "progress": listener}
        return uninterrupted(credo.fit(model, data, row.method, checkpoint=place, resume=True, **options))


def measured(row: DoubtRow, posterior: Posterior, data: Known) -> DoubtResult:
    """The numbers of a posterior."""
    held_out, test = (predicted(posterior, x, row.draws) for x, _ in (data.held_out, data.test))
    y_held_out, y = data.held_out[1], data.test[1]
    unknown = {name: predicted(posterior, x, row.draws) for name, x in data.unknown.items()}
    temperature = Temperature.of(held_out, y_held_out)
    scaled = temperature.apply(test)
    sets = ConformalSets.of(held_out, y_held_out).apply(test)
    assert isinstance(sets, credo.ClassPredictive)
    chosen = sets.prediction_set(LEVEL).cpu()
    scores = all_scores(posterior, data, held_out, test, unknown)
    history = posterior.history
    return DoubtResult(
        name=row.name,
        weights=sum(p[0].numel() for p in posterior.members(1).params.values()),
        accuracy=metrics.accuracy(test, y),
        members=_members(posterior, data),
        log_likelihood=metrics.log_likelihood(test, y),
        calibration_error=metrics.expected_calibration_error(test, y),
        temperature=temperature.temperature,
        scaled=[metrics.log_likelihood(scaled, y), metrics.expected_calibration_error(scaled, y)],
        set_size=float(chosen.sum(1).double().mean()),
        set_coverage=float(chosen.gather(1, y.unsqueeze(1)).double().mean()),
        detection=_detection(scores, list(unknown)),
        alarms=_alarms(scores, list(unknown)),
        filtered=_filtered(scores, test, y),
        kept=_accuracies(scores["entropy"]["test"], _wrong(test, y)),
        pictures=[_picture(x[i]) for x, i in zip(_shown(data), data.examples, strict=True)],
        probabilities=[
            _by_draw(posterior, x[i : i + 1], row.draws) for x, i in zip(_shown(data), data.examples, strict=True)
        ],
        truth=int(y[data.examples[0]]),
        seconds=posterior.record.seconds,
        epochs=len(history),
        curve=[
            dict(line) for line in history[:: max(1, len(history) // CURVE)] if all(map(math.isfinite, line.values()))
        ],
        device="cpu" if posterior.device.type == "cpu" else torch.cuda.get_device_name(),
        finished=posterior.record.finished,
    )


def predicted(posterior: Posterior, x: Tensor, draws: int | None) -> credo.ClassPredictive:
    """The prediction at some images, on the CPU."""
    parts = list(posterior.predict_batches(x, draws))
    first = parts[0]
    joined = torch.cat([part.draws for part in parts], dim=1).cpu()
    found = predictive(first.likelihood, joined, {}, first.log_weights.cpu())
    assert isinstance(found, credo.ClassPredictive)
    return found


Scores = dict[str, dict[str, Tensor]]
"""By the name of the score: those of the images called held_out and test, and of each kind of unknown ones."""


def all_scores(
    posterior: Posterior,
    data: Known,
    held_out: credo.ClassPredictive,
    test: credo.ClassPredictive,
    unknown: Mapping[str, credo.ClassPredictive],
) -> Scores:
    """Every measure of doubt that says something of this posterior."""
    predictions = {"held_out": held_out, "test": test, **unknown}
    wanted = [each for each in SCORES if len(test.draws) > 1 or each not in BY_CLASS]
    found = {str(name): {kind: uncertainty.score(p, name) for kind, p in predictions.items()} for name in wanted}
    images = {"held_out": data.held_out[0], "test": data.test[0], **data.unknown}
    seen = {kind: uncertainty.features(posterior, x).cpu() for kind, x in images.items()}
    known = uncertainty.features(posterior, data.x[:REFERENCES]).cpu()
    near = uncertainty.NearestNeighbors.of(known, k=min(50, len(known)))
    density = uncertainty.ClassDensity.of(known, data.y[:REFERENCES])
    found[NEIGHBORS] = {kind: near.score(values) for kind, values in seen.items()}
    found[DENSITY] = {kind: density.score(values) for kind, values in seen.items()}
    return found


def _detection(scores: Scores, unknown: list[str]) -> dict[str, dict[str, list[float]]]:
    return {
        kind: {
            name: [measure(each["test"], each[kind]) for measure in (metrics.auroc, metrics.aupr, _false_alarms)]
            for name, each in scores.items()
        }
        for kind in unknown
    }


def _false_alarms(known: Tensor, unknown: Tensor) -> float:
    return metrics.false_positive_rate(known, unknown)


def _alarms(scores: Scores, unknown: list[str]) -> dict[str, list[float]]:
    found = {}
    for name, each in scores.items():
        alarm = uncertainty.Alarm.of(each["held_out"], rate=RATE)
        found[name] = [float(alarm.rings(each[kind]).double().mean()) for kind in ("test", *unknown)]
    return found


def _wrong(prediction: credo.ClassPredictive, y: Tensor) -> Tensor:
    return (prediction.label.cpu() != y).double()


def _filtered(scores: Scores, test: credo.ClassPredictive, y: Tensor) -> dict[str, list[float]]:
    wrong = _wrong(test, y)
    found = {}
    for name, each in scores.items():
        strange = next(values for kind, values in each.items() if kind not in ("held_out", "test"))
        doubt = torch.cat([each["test"], strange])
        found[name] = _accuracies(doubt, torch.cat([wrong, torch.ones(len(strange), dtype=torch.float64)]))
    return found


def _accuracies(doubt: Tensor, wrong: Tensor) -> list[float]:
    """On the most certain part, at equal steps of the part up to all."""
    curve = metrics.risk_coverage_of_losses(doubt, wrong)
    return [1.0 - curve.risk_at((i + 1) / FILTERED) for i in range(FILTERED)]


def _members(posterior: Posterior, data: Known) -> list[float]:
    """Accuracy of each network of an ensemble on its own."""
    variables = posterior.members()
    if not isinstance(posterior, Draws) or variables.members == 1:
        return []
    alone = (Draws(posterior.model, one, Draws.uniform(one)) for one in _each(variables))
    return [metrics.accuracy(predicted(one, data.test[0], None), data.test[1]) for one in alone]


def _each(variables: Any) -> list[Any]:
    return [variables.take([m]) for m in range(variables.members)]


def _shown(data: Known) -> tuple[Tensor, Tensor]:
    return data.test[0], next(iter(data.unknown.values()))


def _picture(image: Tensor) -> list[Any]:
    """From 0 to 255, whatever range the network sees."""
    low, high = float(image.min()), float(image.max())
    pixels: list[Any] = ((image - low) / max(high - low, 1e-12) * 255.0).round().int().tolist()
    return pixels


def _by_draw(posterior: Posterior, x: Tensor, draws: int | None) -> list[list[float]]:
    probs = posterior.predict(x, draws).draws[:, 0].softmax(-1)
    return [[round(p, 5) for p in each] for each in probs.tolist()]
