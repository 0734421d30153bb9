"""The columns of the tutorial's training log that a history does not have: weight decay and accuracy in training.

The log prints averages over an epoch. Here they are taken halfway between the network at its beginning and at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from credo.experiments.base import Progress, uninterrupted
from credo.experiments.dropout_mnist1k.problem import DECAY, DigitImages, DropoutRow
from credo.fit import fit
from credo.methods import Ensemble, MCDropout
from credo.posteriors import Posterior

EPOCHS = (2, 6, 10)
"""Of the log."""
MASKS = 20
"""Of each repetition, for the accuracy."""


@dataclass(frozen=True)
class LogLine:
    """Of one network, or between two.

    Attributes:
        decay: 1e-4 times half the sum of squared weights: the tutorial's wd.
        accuracy: share of the training images that are read right under a mask: its acc.
    """

    decay: float
    accuracy: float

    @staticmethod
    def of(posterior: Posterior, data: DigitImages, members: int) -> LogLine:
        weights = [w.flatten(1) for w in posterior.members().params.values() if w.dim() > 2]  # (M, ...), not biases
        squares = torch.cat(weights, 1).double().square().sum()
        predicted = posterior.predict(data.x, MASKS * members).draws.argmax(-1)
        return LogLine(0.5 * DECAY * float(squares) / members, float((predicted == data.y).double().mean()))

    def halfway(self, other: LogLine) -> LogLine:
        return LogLine((self.decay + other.decay) / 2, (self.accuracy + other.accuracy) / 2)


def log_lines(row: DropoutRow, data: DigitImages, seed: int, progress: Progress) -> dict[int, LogLine]:
    """The lines of `EPOCHS`, averaged over the repetitions of the row."""
    ends = sorted({end for epoch in EPOCHS for end in (epoch - 1, epoch)})
    found = {end: _after(end, row, data, seed, progress) for end in ends}
    return {epoch: found[epoch - 1].halfway(found[epoch]) for epoch in EPOCHS}


def _after(epochs: int, row: DropoutRow, data: DigitImages, seed: int, progress: Progress) -> LogLine:
    """The same training, ended after so many epochs."""
    assert isinstance(row.method, MCDropout)
    method = Ensemble(replace(row.method, epochs=epochs), row.members)
    listener = progress.of(f"{row.label}: the log at epoch {epochs}")
    posterior = fit(row.model(data.pixels), (data.x, data.y), method, seed=seed, progress=listener)
    return LogLine.of(uninterrupted(posterior, row.members), data, row.members)


def numbers(lines: Mapping[int, LogLine]) -> dict[str, float]:
    """What claims are about."""
    decays = {f"log-decay-{epoch}": line.decay for epoch, line in lines.items()}
    return decays | {f"log-accuracy-{epoch}": line.accuracy for epoch, line in lines.items()}
