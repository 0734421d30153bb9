"""Fashion-MNIST with LeNet-5; and digits with a small network, for a quick look."""

from __future__ import annotations

from functools import partial

import torch

import credo
from credo import nets
from credo.data.pixels import ImageTensors, image_tensors
from credo.data.sets import load
from credo.experiments.doubt import DoubtRow

MEMBERS = 5
"""Networks of the ensemble."""


def garments() -> ImageTensors:
    """60,000 images to learn from and 10,000 to test on, pixels from 0 to 1."""
    return image_tensors(load("fashion-mnist"))


def digits(seed: int) -> ImageTensors:
    """scikit-learn's images of 8 x 8: 1,400 to learn from, 397 to test on."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x = torch.as_tensor(data.x).float()[order].reshape(-1, 1, 8, 8) / 16.0
    y = torch.as_tensor(data.y).long()[order]
    return ImageTensors(x[:1400], y[:1400], x[1400:], y[1400:])


lenet = partial(nets.LeNet5, 1, 10)
small_net = partial(nets.CNN, 1, 10, 8, filters=(8, 16), dense=(50,))


def plain(epochs: int, batch_size: int) -> credo.MaximumLikelihood:
    return credo.MaximumLikelihood(epochs=epochs, batch_size=batch_size, learning_rate=1e-3)


def full() -> list[DoubtRow]:
    """LeNet-5, and five of them."""
    return [
        DoubtRow("lenet-5", lenet, plain(15, 128)),
        DoubtRow("ensemble", lenet, credo.Ensemble(plain(15, 128), MEMBERS)),
    ]


def quick() -> list[DoubtRow]:
    """Small networks for digits."""
    return [
        DoubtRow("digits-lenet-5", small_net, plain(15, 32)),
        DoubtRow("digits-ensemble", small_net, credo.Ensemble(plain(15, 32), MEMBERS)),
    ]
