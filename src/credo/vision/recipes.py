"""Networks and methods by name, with settings that suit a folder of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from credo.core.checks import check_at_least
from credo.core.optimizers import Cosine
from credo.data.augmentation import Augmentation
from credo.likelihoods import Categorical
from credo.methods import MAP, BayesByBackprop, Ensemble, MCDropout, Method
from credo.model import Model
from credo.nets import CNN, LeNet5, ResNet18, ResNet20, WideResNet
from credo.nets.scaling import InputScaling, LeafScaling
from credo.priors import Normal
from credo.vision.pixels import ImageShape

MEMBERS = 5
STEPS, FEWEST, MOST = 2_000, 3, 60
"""Steps of the training, and epochs between which it lies, when the user does not say."""
DROPOUT, FILTER_DROPOUT = 0.3, 0.1
SHIFT = 1 / 16
"""How far images are moved in training, as a part of their size."""
LEARNING_RATE = 2e-3
POINT_PRIOR = Normal(1.0)
"""Prior of methods that look for the best weights: the usual weight decay, 1/N. A narrower one for wide layers, as by
fan-in, would outweigh a thousand images, and the most probable network would be sure of nothing."""


def _cnn(shape: ImageShape, classes: int, drops: bool) -> nn.Module:
    rates = (DROPOUT, FILTER_DROPOUT) if drops else (0.0, 0.0)
    filters = (16, 32, 64) if shape.size >= 16 else (16, 32)
    return CNN(shape.channels, classes, shape.size, filters, (100,), *rates)


def _lenet(shape: ImageShape, classes: int, drops: bool) -> nn.Module:
    return LeNet5(shape.channels, classes, shape.size, dropout=DROPOUT if drops else 0.0)


NETWORKS: dict[str, Callable[[ImageShape, int, bool], nn.Module]] = {
    "cnn": _cnn,
    "lenet5": _lenet,
    "resnet20": lambda shape, classes, drops: ResNet20(shape.channels, classes),
    "resnet18": lambda shape, classes, drops: ResNet18(shape.channels, classes, "group", large=shape.size > 64),
    "wide-resnet": lambda shape, classes, drops: WideResNet(
        shape.channels, classes, 16, 4, "group", DROPOUT if drops else 0.0
    ),
}
"""By a shape of images, a number of classes, and whether something must drop. All leave examples independent."""
METHODS = ("ensemble", "map", "dropout", "vi")


@dataclass(frozen=True)
class VisionRequest:
    """What the user wants to know of a folder of images.

    Attributes:
        method: a name in `METHODS`.
        network: a name in `NETWORKS`.
        size: height and width to which images are brought; None for what suits them.
        test: part of the images that is held out.
        seed: every stream of randomness derives from it.
        epochs: passes over the training images; None for as many as suit their number.
        flip: whether a mirrored image is an image of the same class.
        rate: of false alarms.
        device: where to compute.
    """

    method: str = "ensemble"
    network: str = "cnn"
    size: int | None = None
    test: float = 0.2
    seed: int = 0
    epochs: int | None = None
    flip: bool = False
    rate: float = 0.05
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, value, known in (("method", self.method, METHODS), ("network", self.network, tuple(NETWORKS))):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name, part in (("test", self.test), ("rate", self.rate)):
            if not 0.0 < part < 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, got {part}")
        if self.method == "dropout" and self.network in ("resnet20", "resnet18"):
            raise ValueError(
                f"{self.network} has no dropout: take network cnn, lenet5 or wide-resnet, or another method"
            )
        if self.size is not None:
            check_at_least("size", self.size, 12 if self.network == "lenet5" else 8)
        if self.epochs is not None:
            check_at_least("epochs", self.epochs, 1)

    @property
    def options(self) -> dict[str, object]:
        """What the numbers depend on, beside the images, by the names that the user knows."""
        return {
            "--method": self.method,
            "--network": self.network,
            "--size": self.size,
            "--test": self.test,
            "--seed": self.seed,
            "--epochs": self.epochs,
            "--flip": self.flip,
            "--false-alarms": self.rate,
            "--device": self.device,
        }

    def batch(self, images: int) -> int:
        """Images per step, of so many training images."""
        return min(32 if images < 2_000 else 64 if images < 20_000 else 128, images)

    def passes(self, images: int) -> int:
        """Epochs, of so many training images."""
        if self.epochs is not None:
            return self.epochs
        return min(max(round(STEPS * self.batch(images) / images), FEWEST), MOST)

    def augmentation(self, size: int) -> Augmentation:
        """How images are varied in training."""
        return Augmentation(shift=round(SHIFT * size), flip=self.flip)

    def training_method(self, images: int) -> Method:
        """The method, for so many training images."""
        epochs, batch = self.passes(images), self.batch(images)
        if self.method == "dropout":
            return MCDropout(epochs, LEARNING_RATE, batch, schedule=Cosine())
        if self.method == "vi":
            return BayesByBackprop(epochs, LEARNING_RATE, batch, estimator="local", schedule=Cosine())
        point = MAP(epochs, LEARNING_RATE, batch, schedule=Cosine())
        return Ensemble(point, MEMBERS) if self.method == "ensemble" else point

    def model(self, shape: ImageShape, classes: int, mean: tuple[float, ...], scale: tuple[float, ...]) -> Model:
        """The network with channels standardized inside, so that a saved posterior takes pixels from 0 to 1."""
        net = NETWORKS[self.network](shape, classes, self.method == "dropout")
        prior = Normal(1.0, fan_in=True) if self.method == "vi" else POINT_PRIOR
        model = Model(net, Categorical(), prior)
        scaling = InputScaling((LeafScaling("", mean, scale, positions=2),))
        return model.with_network(model.network.with_scaling(scaling))
