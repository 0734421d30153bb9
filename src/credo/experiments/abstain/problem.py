"""Garments, the networks that see few of them, and the rules that decide which answers to trust."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import credo
from credo import nets
from credo.core.optimizers import Cosine
from credo.data.sets import load
from credo.decide import FixedSequence, GuaranteedRisk, SelectionCurve
from credo.experiments.base import Size


@dataclass(frozen=True)
class AbstainSettings:
    """How much is trained and split.

    Attributes:
        trained: images to learn from; all others are for splits.
        held_out: images of each split that choose the threshold.
        seeds: networks of each kind that are judged, side by side.
        members: networks of an ensemble.
        splits: of each network's images.
        epochs: passes over the images.
    """

    trained: int
    held_out: int
    seeds: int
    members: int
    splits: int
    epochs: int


SETTINGS = {
    Size.QUICK: AbstainSettings(2_000, 2_000, 2, 2, 5, 10),
    Size.FULL: AbstainSettings(5_000, 5_000, 5, 3, 10, 15),
}
RISK = 0.03
ERRORS = (0.001, 0.1)
"""Probabilities with which the promise may fail: that of the published study, and credo's own."""
NOISE = 0.15
"""Standard deviation of noise on the pixels (0 to 1) that the last part adds, to show where the promise ends."""


@dataclass(frozen=True, eq=False)
class Garments:
    """Images (N, 784) with pixels 0 to 1, and classes (N,): some to learn from, the others for splits."""

    x: Tensor
    y: Tensor
    x_rest: Tensor
    y_rest: Tensor


def garments(settings: AbstainSettings) -> Garments:
    """Fashion-MNIST, all 70,000 images, in an order of our own.

    Raises:
        DataError: the file is not at hand.
    """
    data = load("fashion-mnist")
    assert data.test is not None
    x = torch.cat([torch.as_tensor(data.x), torch.as_tensor(data.test[0])]).flatten(1).float() / 255
    y = torch.cat([torch.as_tensor(data.y), torch.as_tensor(data.test[1])])
    order = credo.Stream(0, ("garments",)).permutation(len(x))
    x, y, cut = x[order], y[order], settings.trained
    return Garments(x[:cut], y[:cut], x[cut:], y[cut:])


def method(settings: AbstainSettings, members: int) -> credo.Method:
    """So many networks for each seed, side by side."""
    schedule, count = Cosine(), settings.seeds * members
    return credo.DeepEnsemble(count, epochs=settings.epochs, learning_rate=2e-3, batch_size=128, schedule=schedule)


def network() -> nets.MLP:
    return nets.MLP(784, 10, (100,))


class SelectionRule(ABC):
    """How the doubt up to which answers are trusted is chosen, with a promise or without."""

    @abstractmethod
    def threshold(self, curve: SelectionCurve, error: float) -> float | None:
        """The largest doubt of a decided image; None where none is decided."""


@dataclass(frozen=True)
class Tested(SelectionRule):
    """One of credo's rules."""

    rule: FixedSequence | GuaranteedRisk

    def threshold(self, curve: SelectionCurve, error: float) -> float | None:
        return self.rule.threshold(curve, RISK, error)


@dataclass(frozen=True)
class Empirical(SelectionRule):
    """The largest doubt up to which the held-out images themselves have no more than the risk."""

    def threshold(self, curve: SelectionCurve, error: float) -> float | None:
        fine = [d for d, loss, n in zip(curve.doubt, curve.loss, curve.count, strict=True) if loss <= RISK * n]
        return max(fine, default=None)


@dataclass(frozen=True)
class Stated(SelectionRule):
    """Take the network at its word: trust it where it says that its doubt is no more than the risk."""

    def threshold(self, curve: SelectionCurve, error: float) -> float | None:
        return RISK


RULES: Mapping[str, SelectionRule] = {
    "fixed sequence": Tested(FixedSequence()),
    "guaranteed risk": Tested(GuaranteedRisk()),
    "empirical threshold": Empirical(),
    "stated probability": Stated(),
}


@dataclass(frozen=True)
class AbstainRow:
    """A kind of network.

    Attributes:
        kind: single or ensemble.
        size: of the work.
    """

    kind: str
    size: Size

    @property
    def members(self) -> int:
        return 1 if self.kind == "single" else SETTINGS[self.size].members

    @property
    def name(self) -> str:
        return self.kind

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the data."""
        return {
            **vars(SETTINGS[self.size]),
            "kind": self.kind,
            "risk": RISK,
            "errors": list(ERRORS),
            "noise": NOISE,
            "seed": seed,
        }
