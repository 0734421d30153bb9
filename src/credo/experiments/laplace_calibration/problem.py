"""Garments, and digits for a quick look, by networks that were trained for a short and for a long time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import credo
from credo import nets
from credo.core.optimizers import Cosine
from credo.data.pixels import image_tensors
from credo.data.sets import load
from credo.experiments.doubt import DoubtRow
from credo.methods import MAP, Laplace

HELD_OUT, CHOOSING = 5000, 1000
"""Images of the training set that are held out, and those of them that choose a precision or a temperature."""
FEW = 200
"""Images that choose in the quick size."""


@dataclass(frozen=True, eq=False)
class ImageSets:
    """Images and classes: to learn from, to choose by, and to test on."""

    x: Tensor
    y: Tensor
    x_held_out: Tensor
    y_held_out: Tensor
    x_test: Tensor
    y_test: Tensor


@dataclass(frozen=True)
class Treatment:
    """A posterior around a trained network, and how it predicts.

    Attributes:
        subset: the weights that get a distribution.
        held_out: whether the prior's precision is that of held-out images, not of the evidence.
        prediction: of the classes, from normal outputs.
    """

    subset: str
    held_out: bool = False
    prediction: str = "probit"


AS_IT_IS, TEMPERATURE = "as it is", "temperature"
TREATMENTS = {
    "last layer": Treatment("last"),
    "last layer, drawn": Treatment("last", prediction="linearized"),
    "last layer, bridge": Treatment("last", prediction="bridge"),
    "last layer, held out": Treatment("last", held_out=True),
    "all weights": Treatment("all"),
    "all weights, held out": Treatment("all", held_out=True),
}
"""Kronecker factors; the precision of the prior by the evidence, and probit, where nothing else is said."""


def method(subset: str) -> Laplace:
    """Kronecker factors, and the precision of the prior by the evidence."""
    return Laplace(subset=subset, batch_size=500)


@dataclass(frozen=True)
class CalibrationRow:
    """A network and its training, which is measured as it is and after treatments.

    Attributes:
        trained: the network.
        treatments: their names.
    """

    trained: DoubtRow
    treatments: tuple[str, ...] = tuple(TREATMENTS)

    @property
    def name(self) -> str:
        return self.trained.name

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        treatments = {name: asdict(TREATMENTS[name]) for name in self.treatments}
        return {**self.trained.settings(seed), "treatments": treatments, "choosing": CHOOSING}


def garments(seed: int) -> ImageSets:
    """Fashion-MNIST: 55,000 images to learn from, 1,000 to choose by, 10,000 to test on; pixels from 0 to 1."""
    data = image_tensors(load("fashion-mnist"))
    order = credo.Stream(seed, ("held out",)).permutation(len(data.x))
    rest, some = order[HELD_OUT:], order[:CHOOSING]
    return ImageSets(data.x[rest], data.y[rest], data.x[some], data.y[some], data.x_test, data.y_test)


def digits(seed: int) -> ImageSets:
    """scikit-learn's images of 8 x 8: 1,000 to learn from, 200 to choose by, 597 to test on."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x = torch.as_tensor(data.x).float()[order].reshape(-1, 1, 8, 8) / 16.0
    y = torch.as_tensor(data.y).long()[order]
    test = 1000 + FEW
    return ImageSets(x[:1000], y[:1000], x[1000:test], y[1000:test], x[test:], y[test:])


lenet = partial(nets.LeNet5, 1, 10)
small_net = partial(nets.CNN, 1, 10, 8, filters=(8, 16), dense=(50,))


def trained(epochs: int) -> MAP:
    """LeNet's training."""
    return MAP(epochs=epochs, batch_size=128, learning_rate=1e-3, schedule=Cosine())


def full() -> list[CalibrationRow]:
    """LeNet-5 for 10 epochs, and for 50, which makes it sure of what it does not know; around its last layer."""
    last = tuple(name for name, each in TREATMENTS.items() if each.subset == "last")
    return [
        CalibrationRow(DoubtRow(name, lenet, trained(epochs)), last) for name, epochs in (("short", 10), ("long", 50))
    ]


def quick() -> list[CalibrationRow]:
    """A small network for digits, likewise."""
    return [
        CalibrationRow(DoubtRow(name, small_net, MAP(epochs=epochs, batch_size=32, learning_rate=1e-3)))
        for name, epochs in (("digits-short", 20), ("digits-long", 80))
    ]
