"""Trains the rows, removes the weights that are noise, and measures what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import credo
from credo import likelihoods
from credo.decide import compression, log_alpha, prune_noise
from credo.decide.compression import THRESHOLD
from credo.experiments.base import Progress, uninterrupted
from credo.experiments.classifiers import Images
from credo.experiments.kept import kept_numbers, write
from credo.experiments.sparse_lenet.rows import Row
from credo.posteriors import DiagonalGaussian, Posterior

EDGES = torch.linspace(-12.0, 12.0, 97)
"""Of the bins into which log alphas are counted."""

THRESHOLDS = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Of log alpha; 3 is the paper's."""

CURVE = 80
"""Points of a row's learning curve that are kept, at most."""


@dataclass(frozen=True)
class Result:
    """What a row reached. Errors are in per cent of the test images, by the plain network at the means.

    Attributes:
        name: the row's.
        whole: error with all weights.
        error: error without the weights that are noise; as with all of them for a plain network.
        drawn: the same when the probabilities of 100 drawn networks are averaged; None where that was not measured.
        layers: name, weights and weights that are left, of every layer.
        by_threshold: threshold of log alpha, error and compression there.
        counts: log alphas of each layer by the bins between `EDGES`; those beyond are in the outermost.
        curve: rows of the history, thinned.
        seconds: of training.
        steps: of training.
        device: what it was trained on.
        threshold: of log alpha, above which weights were removed.
    """

    name: str
    whole: float
    error: float
    drawn: float | None
    layers: list[tuple[str, int, int]]
    by_threshold: list[tuple[float, float, float]]
    counts: dict[str, list[int]]
    curve: list[dict[str, float]]
    seconds: float
    steps: int
    device: str
    threshold: float = THRESHOLD

    @property
    def ratio(self) -> float:
        """How many times fewer weights there are."""
        kept = sum(left for _, _, left in self.layers)
        return sum(weights for _, weights, _ in self.layers) / kept if kept else math.inf


def train(row: Row, data: Images, seed: int, progress: Progress, device: str) -> Result:
    """Train a network, prune it and test it."""
    data = data.to(device)
    model = credo.Model(row.net, likelihoods.Categorical())
    begin = time.monotonic()
    fitted = credo.fit(model, (data.x, data.y), row.method, seed=seed, device=device, progress=progress.of(row.name))
    if device != "cpu":
        torch.cuda.synchronize()
    seconds, posterior = time.monotonic() - begin, uninterrupted(fitted)
    history = posterior.history
    return Result(
        row.name,
        **_pruned(posterior, row.threshold, data),
        curve=[dict(line) for line in history[:: max(1, len(history) // CURVE)]],
        seconds=seconds,
        steps=row.method.steps(-(-len(data.x) // (row.method.batch_size or len(data.x)))),
        device=device if device == "cpu" else torch.cuda.get_device_name(),
        threshold=row.threshold,
    )


def _pruned(posterior: Posterior, threshold: float, data: Images) -> dict[str, Any]:
    """What is measured of the finished network."""
    if not isinstance(posterior, DiagonalGaussian):
        error = _error(posterior, data)
        weights = [(n, w[0].numel(), w[0].numel()) for n, w in posterior.point().params.items() if w.ndim > 2]
        return {
            "whole": error,
            "error": error,
            "drawn": error,
            "layers": weights,
            "by_threshold": [],
            "counts": {},
        }
    sparse = prune_noise(posterior, threshold)
    curve = [(t, prune_noise(posterior, t)) for t in THRESHOLDS]
    return {
        "whole": _error(posterior.at_mean(), data),
        "error": _error(sparse.at_mean(), data),
        "drawn": _error(sparse, data),
        "layers": [(layer.name, layer.weights, layer.kept) for layer in compression(sparse).layers],
        "by_threshold": [(t, _error(p.at_mean(), data), compression(p).ratio) for t, p in curve if compression(p).kept],
        "counts": {name: _counts(values) for name, values in log_alpha(posterior).items()},
    }


def _error(posterior: Posterior, data: Images) -> float:
    prediction = posterior.predict(data.x_test)
    assert isinstance(prediction, credo.ClassPredictive)
    return 100.0 * float((prediction.label != data.y_test).double().mean())


def _counts(values: torch.Tensor) -> list[int]:
    inside = values.flatten().cpu().float().clamp(float(EDGES[0]), float(EDGES[-1]))
    return [int(n) for n in torch.histogram(inside, EDGES).hist]


def trained(
    rows: Sequence[Row], data: Callable[[], Images], folder: Path, seed: int, progress: Progress, device: str = "cpu"
) -> dict[str, Result]:
    """The results of all rows: read where the folder has them for these settings, trained and written where not."""
    found = {row.name: kept(row, folder, seed) for row in rows}
    missing = [row for row in rows if found[row.name] is None]
    given = data() if missing else None
    for row in missing:
        assert given is not None
        found[row.name] = result = train(row, given, seed, progress, device)
        write(result, row, folder, seed)
    return {name: result for name, result in found.items() if result is not None}


def kept(row: Row, folder: Path, seed: int) -> Result | None:
    """The result of a row that the folder has for these very settings."""
    numbers = kept_numbers(row, folder, seed)
    return None if numbers is None else Result(**numbers)
