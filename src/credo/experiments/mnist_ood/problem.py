"""MNIST with garments and letters beside it; and digits up to seven with eights and nines, for a quick look."""

from __future__ import annotations

from functools import partial

import torch

import credo
from credo import nets
from credo.data.pixels import image_tensors
from credo.data.sets import load
from credo.experiments.doubt import DoubtRow, Known
from credo.nets.dropout import Drops

MEMBERS, DRAWS, FEW_DRAWS = 5, 50, 10
"""Networks of the ensemble, and functions that dropout draws; few of them in the quick size."""
KNOWN = 8
"""Digits of the quick size that are shown in training: 0 to 7."""
HELD_OUT = 5000
"""Images that calibrate, the last ones of the training set."""


def mnist() -> Known:
    """55,000 digits to learn from, 5,000 held out, 10,000 to test; as many garments and letters; pixels from 0 to 1."""
    digits, garments = image_tensors(load("mnist")), image_tensors(load("fashion-mnist"))
    letters = image_tensors(load("notmnist"))
    train, held_out = slice(None, -HELD_OUT), slice(-HELD_OUT, None)
    unknown = {"garment": garments.x_test, "letter": torch.cat([letters.x, letters.x_test])}
    return Known(
        digits.x[train],
        digits.y[train],
        (digits.x[held_out], digits.y[held_out]),
        (digits.x_test, digits.y_test),
        unknown,
    )


def small(seed: int) -> Known:
    """scikit-learn's digits below eight: 800 to learn from, 300 held out, the others to test; eights and nines."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x = torch.as_tensor(data.x).float()[order].reshape(-1, 1, 8, 8) / 16.0
    y = torch.as_tensor(data.y).long()[order]
    unknown = {"eight": x[y == 8], "nine": x[y == 9]}
    x, y = x[y < KNOWN], y[y < KNOWN]
    parts = [(x[start:stop], y[start:stop]) for start, stop in ((0, 800), (800, 1100), (1100, len(x)))]
    return Known(*parts[0], parts[1], parts[2], unknown)


lenet = partial(nets.LeNet5, 1, 10)
small_net = partial(nets.CNN, 1, KNOWN, 8, filters=(8, 16), dense=(50,))


def plain(epochs: int, batch_size: int) -> credo.MaximumLikelihood:
    return credo.MaximumLikelihood(epochs=epochs, batch_size=batch_size, learning_rate=1e-3)


def dropped(epochs: int, batch_size: int, rate: float, learning_rate: float = 1e-3) -> credo.MCDropout:
    return credo.MCDropout(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, rate=rate, drops=Drops.CHANNELS
    )


def full() -> list[DoubtRow]:
    """LeNet-5 as it is, five of them, and one with dropout."""
    return [
        DoubtRow("plain", lenet, plain(10, 128)),
        DoubtRow("ensemble", lenet, credo.Ensemble(plain(10, 128), MEMBERS)),
        DoubtRow("mc-dropout", lenet, dropped(20, 128, 0.1), DRAWS),
    ]


def quick() -> list[DoubtRow]:
    """Small networks for digits."""
    return [
        DoubtRow("digits-plain", small_net, plain(15, 32)),
        DoubtRow("digits-ensemble", small_net, credo.Ensemble(plain(15, 32), MEMBERS)),
        DoubtRow("digits-mc-dropout", small_net, dropped(10, 32, 0.1, 3e-3), FEW_DRAWS),
    ]
