"""The two networks of the paper, how they are trained, and small ones for a quick look."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from credo.core.config import encode
from credo.core.optimizers import Schedule
from credo.methods import MaximumLikelihood, Method, SparseVariationalDropout
from credo.methods.dropout.variational import THRESHOLD
from credo.methods.vi.objective import WarmUp

PIXELS_OVER = 255.0
"""Pixels from 0 to 1."""


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """Down to zero in a straight line, as in the authors' code."""

    def factor(self, fraction: float) -> float:
        return 1.0 - fraction


@dataclass(frozen=True)
class SquaredDecay(Schedule):
    """Down to zero, slower and slower."""

    def factor(self, fraction: float) -> float:
        return (1.0 - fraction) ** 2


SPARSE = SparseVariationalDropout(
    epochs=200,
    learning_rate=2e-3,
    noise_learning_rate=5e-4,
    batch_size=100,
    initial_scale=math.exp(-5.0),
    schedule=LinearDecay(),
    annealing=WarmUp(0.2),
)
"""The authors' recipe (Adam, batches of 100, log sigma^2 from -10, a step size that falls to zero, a KL that comes in
slowly), with step sizes chosen on 10,000 held-out training images."""

CONVOLUTIONAL = replace(SPARSE, learning_rate=4e-3, noise_learning_rate=1e-3, schedule=SquaredDecay())
"""Chosen likewise, with the threshold of its row."""

PLAIN = MaximumLikelihood(epochs=30, learning_rate=1e-3, batch_size=100, schedule=LinearDecay())


def lenet_300_100() -> nn.Module:
    """LeNet-300-100: 266,200 weights."""
    return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))


def lenet_5_caffe() -> nn.Module:
    """LeNet-5 as Caffe has it, for flat images: 430,500 weights."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
    )


def small_dense() -> nn.Module:
    """For images of 8 x 8."""
    return nn.Sequential(nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, 30), nn.ReLU(), nn.Linear(30, 10))


def small_convolutional() -> nn.Module:
    """For images of 8 x 8."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(72, 40), nn.ReLU(), nn.Linear(40, 10)),
    )


@dataclass(frozen=True)
class SparseRow:
    """A network, and how it is trained.

    Attributes:
        name: for people and files.
        net: makes it.
        method: trains it.
        threshold: of log alpha, above which weights are removed.
    """

    name: str
    net: Callable[[], nn.Module]
    method: Method
    threshold: float = THRESHOLD

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        threshold = {} if self.threshold == THRESHOLD else {"threshold": self.threshold}
        return {"net": self.net.__name__, "method": encode(self.method), "seed": seed, **threshold}


def full() -> list[SparseRow]:
    """The paper's two networks, and each of them plain."""
    return [
        SparseRow("lenet-300-100-plain", lenet_300_100, PLAIN),
        SparseRow("lenet-5-plain", lenet_5_caffe, PLAIN),
        SparseRow("lenet-300-100", lenet_300_100, replace(SPARSE, epochs=250)),
        SparseRow("lenet-5", lenet_5_caffe, CONVOLUTIONAL, threshold=1.0),
    ]


def quick() -> list[SparseRow]:
    """Small networks for scikit-learn's digits: fewer images, so larger steps of the noise."""
    sparse = SparseVariationalDropout(
        epochs=60, learning_rate=1e-2, noise_learning_rate=3e-2, batch_size=100, schedule=LinearDecay()
    )
    return [
        SparseRow("digits-dense", small_dense, sparse),
        SparseRow("digits-convolutional", small_convolutional, sparse),
    ]
