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
from credo.methods.vi.weighting import WarmUp

PIXELS_OVER = 255.0
"""Pixels from 0 to 1."""


@dataclass(frozen=True)
class Linear(Schedule):
    """Down to zero in a straight line, as in the authors' code."""

    def factor(self, fraction: float) -> float:
        return 1.0 - fraction


SPARSE = SparseVariationalDropout(
    epochs=200,
    learning_rate=2e-3,
    noise_learning_rate=5e-4,
    batch_size=100,
    initial_scale=math.exp(-5.0),
    schedule=Linear(),
    annealing=WarmUp(0.2),
)
"""The authors' recipe (Adam, batches of 100, log sigma^2 from -10, a step size that falls to zero, a KL that comes in
slowly), with step sizes chosen on 10,000 held-out training images: 3e-4 to 1e-2 for the noise, 1e-3 to 5e-3 for the
weights."""

FROM_TRAINED = replace(SPARSE, noise_learning_rate=3e-4, annealing=WarmUp(0.05))
"""For a network that has learnt already, chosen likewise: there is no need to wait with the KL."""

PLAIN = MaximumLikelihood(epochs=30, learning_rate=1e-3, batch_size=100, schedule=Linear())
FIRST = replace(PLAIN, epochs=15)


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
class Row:
    """A network, and how it is trained.

    Attributes:
        name: for people and files.
        net: makes it.
        method: trains it.
        first: gives it the weights to begin with; None for random ones.
    """

    name: str
    net: Callable[[], nn.Module]
    method: Method
    first: Method | None = None

    @property
    def methods(self) -> tuple[Method, ...]:
        """One after the other."""
        return (self.method,) if self.first is None else (self.first, self.method)

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        first = {} if self.first is None else {"first": encode(self.first)}
        return {"net": self.net.__name__, "method": encode(self.method), "seed": seed, **first}


def full() -> list[Row]:
    """The paper's two networks, and each of them plain."""
    return [
        Row("lenet-300-100-plain", lenet_300_100, PLAIN),
        Row("lenet-5-plain", lenet_5_caffe, PLAIN),
        Row("lenet-300-100", lenet_300_100, replace(SPARSE, epochs=250)),
        Row("lenet-5", lenet_5_caffe, FROM_TRAINED, FIRST),
    ]


def quick() -> list[Row]:
    """Small networks for scikit-learn's digits: fewer images, so larger steps of the noise."""
    sparse = SparseVariationalDropout(
        epochs=60, learning_rate=1e-2, noise_learning_rate=3e-2, batch_size=100, schedule=Linear()
    )
    return [Row("digits-dense", small_dense, sparse), Row("digits-convolutional", small_convolutional, sparse)]
