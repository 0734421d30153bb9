"""Known images made worse, step by step: CIFAR-10, and digits for a quick look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import credo
from credo import nets
from credo.data.pixels import image_tensors
from credo.data.sets import load
from credo.experiments.doubt import DoubtRow
from credo.nets.dropout import Drops

MEMBERS, DRAWS, FEW_DRAWS = 5, 50, 10
"""Networks of the ensemble, and functions that dropout draws; few of them in the quick size."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """Images to learn from and to test on, (N, C, H, W), pixels from `low` to 1, and their classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    low: float


def cifar10() -> Shifted:
    """50,000 images to learn from, 10,000 to make worse."""
    return Shifted(*image_tensors(load("cifar10"), low=-1.0), low=-1.0)


def digits(seed: int) -> Shifted:
    """scikit-learn's images of 8 x 8, twice as large: 1,000 to learn from, 200 to make worse."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x = torch.as_tensor(data.x).float()[order].reshape(-1, 1, 8, 8) / 16.0
    x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear").clamp(0.0, 1.0)
    y = torch.as_tensor(data.y).long()[order]
    return Shifted(x[:1000], y[:1000], x[1000:1200], y[1000:1200], low=0.0)


cnn = partial(nets.CNN, 3, 10, 32)
small_net = partial(nets.CNN, 1, 10, 16, filters=(8, 16), dense=(50,))


def plain(epochs: int, batch_size: int) -> credo.MaximumLikelihood:
    return credo.MaximumLikelihood(epochs=epochs, batch_size=batch_size, learning_rate=1e-3)


def dropped(epochs: int, batch_size: int, rate: float, learning_rate: float = 1e-3) -> credo.MCDropout:
    return credo.MCDropout(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, rate=rate, drops=Drops.CHANNELS
    )


def full() -> list[DoubtRow]:
    """The lecture's network with all ten classes."""
    return [
        DoubtRow("plain", partial(cnn, dropout=0.5), plain(50, 128)),
        DoubtRow("ensemble", partial(cnn, dropout=0.5), credo.Ensemble(plain(50, 128), MEMBERS)),
        DoubtRow("mc-dropout", cnn, dropped(100, 128, 0.1), DRAWS),
    ]


def quick() -> list[DoubtRow]:
    """Small networks for digits."""
    return [
        DoubtRow("digits-plain", small_net, plain(10, 32)),
        DoubtRow("digits-ensemble", small_net, credo.Ensemble(plain(10, 32), MEMBERS)),
        DoubtRow("digits-mc-dropout", small_net, dropped(10, 32, 0.1, 3e-3), FEW_DRAWS),
    ]
