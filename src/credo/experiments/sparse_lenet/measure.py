"""Trains the rows, removes the weights that are noise, and measures what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import credo
from credo import likelihoods
from credo.decide import compression, log_alpha, prune_noise
from credo.experiments.base import Cell, Progress, Table, uninterrupted
from credo.experiments.classifiers import Images
from credo.experiments.sparse_lenet.problem import SparseRow
from credo.methods.dropout.variational import THRESHOLD
from credo.posteriors import DiagonalGaussian, Posterior

EDGES = torch.linspace(-12.0, 12.0, 97)
"""Of the bins into which log alphas are counted."""

THRESHOLDS = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Of log alpha; 3 is the paper's."""

CURVE = 80
"""Points of a row's learning curve that are stored, at most."""


@dataclass(frozen=True)
class SparseResult:
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
        left_over = sum(left for _, _, left in self.layers)
        return sum(weights for _, weights, _ in self.layers) / left_over if left_over else math.inf


def train(row: SparseRow, data: Images, seed: int, progress: Progress, device: str) -> SparseResult:
    """Train a network, prune it and test it."""
    data = data.to(device)
    model = credo.Model(row.net, likelihoods.Categorical())
    begin = time.monotonic()
    fitted = credo.fit(model, (data.x, data.y), row.method, seed=seed, device=device, progress=progress.of(row.name))
    if device != "cpu":
        torch.cuda.synchronize()
    seconds, posterior = time.monotonic() - begin, uninterrupted(fitted)
    history = posterior.history
    return SparseResult(
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
        weights = [(n, w[0].numel(), w[0].numel()) for n, w in posterior.members().params.items() if w.ndim > 2]
        return {"whole": error, "error": error, "drawn": error, "layers": weights, "by_threshold": [], "counts": {}}
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


def numbers(found: Mapping[str, SparseResult]) -> dict[str, float]:
    """What claims may be about."""
    errors = {f"{name}/error": result.error for name, result in found.items()}
    return errors | {f"{name}/compression": result.ratio for name, result in found.items()}


def tables(found: Mapping[str, SparseResult]) -> tuple[Table, ...]:
    """All rows, and what the layers lose."""
    if not found:
        return ()
    columns = ("row", "left", "compression", "error, %", "by draws, %", "unpruned, %", "seconds")
    lines: list[tuple[Cell, ...]] = []
    for name, r in found.items():
        left = sum(n for *_, n in r.layers)
        lines.append((name, left, r.ratio, r.error, r.drawn, r.whole, r.seconds))
    layers = tuple(
        (name, layer, weights, left, 100.0 * (1.0 - left / weights))
        for name, r in found.items()
        if r.counts
        for layer, weights, left in r.layers
    )
    return (
        Table("Networks", columns, tuple(lines), "Weights of layers, without biases, as in the paper."),
        Table("Layers", ("row", "layer", "weights", "left", "removed, %"), layers),
    )
