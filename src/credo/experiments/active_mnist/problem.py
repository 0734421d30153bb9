"""The images, the network, and the rows: how labels are asked for, and how much is computed for each."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.rng import Stream
from credo.data.sets import load
from credo.likelihoods import Categorical
from credo.methods import MCDropout, Method
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal

THRESHOLDS = (90, 95)
"""Accuracies in per cent for which labels are counted."""
PER_CLASS = 2
"""Labels of each class to begin with."""
SAMPLES = 24_576
"""Images that a training goes through, whatever the number of labels, as in batchbald_redux."""
NO_DECAY, DECAY = Normal(100.0), Normal(1.0)
"""A prior so wide that it is none, as the paper has no weight decay; and one for the digits."""
NOISE = 0.1
"""Standard deviation of the noise on repeated images, in units of their own."""


@dataclass(frozen=True)
class OracleImages:
    """Images with labels that an oracle knows, and images to test on."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    def start(self, seed: int) -> list[int]:
        """Two images of each class, at random."""
        order = Stream(seed, ("active-mnist", "start")).permutation(len(self.x))
        return [int(row) for k in range(10) for row in order[self.y[order] == k][:PER_CLASS]]


@dataclass(frozen=True)
class LabelRow:
    """One curve: how labels are asked for, and what is computed.

    Attributes:
        name: of its file.
        acquisition: what makes an image worth a label.
        batch: labels per round.
        number: of the repetition, by which its seed differs.
        most: labels after which it ends.
        repeats: how often each image is in the pool, with noise where it is more than once.
        draws: of the posterior, for choosing and for testing.
        configurations: joint labels of a batch that are enumerated, or drawn.
        candidates: images that are looked at in a round; None for the whole pool.
        tested: test images.
        images: mnist or digits.
        samples: images that a training goes through.
    """

    name: str
    acquisition: str
    batch: int = 10
    number: int = 0
    most: int = 300
    repeats: int = 1
    draws: int = 20
    configurations: int = 10_000
    candidates: int | None = None
    tested: int = 10_000
    images: str = "mnist"
    samples: int = SAMPLES

    @property
    def curve(self) -> str:
        """The name without the repetition."""
        return self.name.rpartition("-")[0]

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        return {**asdict(self), "seed": seed}

    def model(self) -> Model:
        if self.images == "mnist":
            return Model(cnn, Categorical(), NO_DECAY)
        return Model(small, Categorical(), DECAY)

    def method(self, labels: int) -> Method:
        """Adam in batches of 64, with the paper's rate of 0.001; as many images whatever the number of labels."""
        rate = 1e-3 if self.images == "mnist" else 3e-3
        return MCDropout(epochs=math.ceil(self.samples / labels), learning_rate=rate, batch_size=64)

    def pool(self, seed: int) -> OracleImages:
        return (mnist if self.images == "mnist" else digits)(self.repeats, self.tested, seed)


def cnn() -> nn.Module:
    """The network of the BatchBALD paper: two convolutions of 5 x 5 and a hidden layer, with dropout after each."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 5), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1024, 128), nn.Dropout(0.5), nn.ReLU(), nn.Linear(128, 10)),
    )


def small() -> nn.Module:
    """A network for images of 8 x 8."""
    return nn.Sequential(nn.Flatten(), MLP(64, 10, (128,), dropout=0.5))


def mnist(repeats: int, tested: int, seed: int) -> OracleImages:
    """MNIST with pixels of mean 0 and standard deviation 1; repeated images differ by noise."""
    data = load("mnist")
    assert data.test is not None
    arrays = (data.x, data.y, *data.test)
    x, y, x_test, y_test = (torch.as_tensor(array) for array in arrays)
    x, x_test = ((t.float().unsqueeze(1) / 255.0 - 0.1307) / 0.3081 for t in (x, x_test))
    return _repeated(OracleImages(x, y.long(), x_test[:tested], y_test[:tested].long()), repeats, seed)


def digits(repeats: int, tested: int, seed: int) -> OracleImages:
    """scikit-learn's images of 8 x 8: the last ones to test on, the others in the pool."""
    data = load("digits")
    order = Stream(seed, ("digits",)).permutation(len(data.x))
    x, y = (torch.as_tensor(data.x).float()[order] - 4.9) / 6.0, torch.as_tensor(data.y).long()[order]
    x = x.view(-1, 1, 8, 8)
    return _repeated(OracleImages(x[:-tested], y[:-tested], x[-tested:], y[-tested:]), repeats, seed)


def _repeated(pool: OracleImages, repeats: int, seed: int) -> OracleImages:
    if repeats == 1:
        return pool
    x = pool.x.repeat(repeats, 1, 1, 1)
    noise = NOISE * Stream(seed, ("repeated images",)).normal(*x.shape)
    return replace(pool, x=x + noise, y=pool.y.repeat(repeats))


ASKED = {"bald-10": ("bald", 10, 20), "batchbald-10": ("batchbald", 10, 100), "random-10": ("random", 10, 20)}
"""Acquisition, labels per round, draws."""


def full() -> list[LabelRow]:
    """The rows of the paper: three repetitions in tens, one of BALD one at a time, and on repeated images."""
    tens = [
        LabelRow(f"{prefix}{name}-{number}", how, batch, number, draws=draws, repeats=repeats)
        for prefix, repeats in (("", 1), ("repeated-", 3))
        for name, (how, batch, draws) in ASKED.items()
        for number in range(3)
    ]
    return [*tens, LabelRow("bald-1-0", "bald", 1, draws=20)]


def smaller() -> list[LabelRow]:
    """What a processor core does in minutes a curve: 1,000 candidates in a round, 2,000 test images, fewer draws."""
    few = {"bald-10": 20, "batchbald-10": 50, "random-10": 20}
    return [
        LabelRow(
            f"small-{prefix}{name}-{number}",
            *ASKED[name][:2],
            number,
            most=most,
            repeats=repeats,
            draws=draws,
            candidates=1000,
            tested=2000,
        )
        for number in range(3)
        for prefix, repeats, most in (("", 1, 280), ("repeated-", 3, 200))
        for name, draws in few.items()
    ]


def quick() -> list[LabelRow]:
    """The digits of scikit-learn, three times each with noise; two repetitions."""
    numbers: dict[str, Any] = {"most": 60, "repeats": 3, "tested": 500, "images": "digits", "samples": 8_000}
    return [
        LabelRow(f"digits-{name}-{number}", how, batch, number, configurations=300, **numbers)
        for name, (how, batch, _) in ASKED.items()
        for number in range(2)
    ]
