"""CIFAR-10 without horses, as in the lecture; and digits without nines, for a quick look."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

import credo
from credo import nets
from credo.data.pixels import image_tensors
from credo.data.sets import load
from credo.data.splits import scikit_split
from credo.experiments.doubt import DoubtRow, Known
from credo.methods.vi import ConstantInit
from credo.nets.dropout import Drops

HORSE, NINE = 7, 9
"""The classes that nobody is shown."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "ship", "truck")
"""The nine that are known."""
VALIDATION, STATE = 0.4, 22
"""Part of the 45,000 images that the lecture holds out, and the state of its random choice."""
MEMBERS, DRAWS = 5, 50
"""Networks of the ensemble, and functions that the others draw."""


def without(y: Tensor, unknown: int) -> tuple[Tensor, Tensor]:
    """Which images are of known classes, and the numbers of these classes among themselves."""
    known = y != unknown
    return known, y - (y > unknown).long()


def cifar10() -> Known:
    """27,000 images to learn from, 18,000 held out, 9,000 to test, and 1,000 horses; pixels from -1 to 1."""
    data = image_tensors(load("cifar10"), low=-1.0)
    known, y = without(data.y, HORSE)
    x, y = data.x[known], y[known]
    train, held_out = (torch.as_tensor(rows) for rows in scikit_split(len(x), VALIDATION, STATE))
    known, y_test = without(data.y_test, HORSE)
    held_out = held_out[:5000]  # as many as thresholds and temperatures need
    test = data.x_test[known], y_test[known]
    return Known(x[train], y[train], (x[held_out], y[held_out]), test, {"horse": data.x_test[~known]}, examples=(5, 3))


def digits(seed: int) -> Known:
    """scikit-learn's images of 8 x 8 without nines: 900 to learn from, 300 held out, 417 to test, and 180 nines."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x = torch.as_tensor(data.x).float()[order].reshape(-1, 1, 8, 8) / 8.0 - 1.0
    y = torch.as_tensor(data.y).long()[order]
    known = y != NINE
    strange, x, y = x[~known], x[known], y[known]
    parts = [(x[start:stop], y[start:stop]) for start, stop in ((0, 900), (900, 1200), (1200, len(x)))]
    return Known(*parts[0], parts[1], parts[2], {"nine": strange})


_net = partial(nets.CNN, 3, 9, 32)
_small = partial(nets.CNN, 1, 9, 8, filters=(8, 16), dense=(50, 50))


def plain(epochs: int, batch_size: int = 128) -> credo.MaximumLikelihood:
    """Adam as the lecture has it."""
    return credo.MaximumLikelihood(epochs=epochs, batch_size=batch_size, learning_rate=1e-3)


def dropped(epochs: int, rate: float = 0.3, batch_size: int = 128, learning_rate: float = 1e-3) -> credo.MCDropout:
    """Single units dropped after every layer, as the lecture has it."""
    return credo.MCDropout(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, rate=rate, drops=Drops.UNITS
    )


def variational(
    epochs: int, batch_size: int = 128, learning_rate: float = 1e-3, rho: float = -3.0
) -> credo.BayesByBackprop:
    """Flipout with normal weights around a prior N(0, 1), and biases that are points, as the lecture has it."""
    return credo.BayesByBackprop(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        estimator="flipout",
        bayesian="*weight",
        prior_of_points=False,
        initial_rho=ConstantInit(rho),
    )


def full() -> list[DoubtRow]:
    """The lecture's four."""
    return [
        DoubtRow("plain", partial(_net, dropout=0.5), plain(50)),
        DoubtRow("ensemble", partial(_net, dropout=0.5), credo.Ensemble(plain(50), MEMBERS)),
        DoubtRow("mc-dropout", _net, dropped(400), DRAWS),
        DoubtRow("vi", _net, variational(700), DRAWS),
    ]


def shorter() -> list[DoubtRow]:
    """Ten epochs of each, for a CPU."""
    return [
        DoubtRow("ensemble-10", partial(_net, dropout=0.5), credo.Ensemble(plain(10), MEMBERS)),
        DoubtRow("mc-dropout-10", _net, dropped(10), DRAWS),
        DoubtRow("vi-10", _net, variational(10), DRAWS),
    ]


def quick() -> list[DoubtRow]:
    """Small networks for digits."""
    return [
        DoubtRow("digits-plain", _small, plain(15, 32)),
        DoubtRow("digits-ensemble", _small, credo.Ensemble(plain(15, 32), MEMBERS)),
        DoubtRow("digits-mc-dropout", _small, dropped(12, 0.1, 32, 3e-3), DRAWS),
        DoubtRow("digits-vi", _small, variational(20, 32, 3e-3, -5.0), DRAWS),
    ]
