"""Rows of a table of image classifiers: each is trained once, measured, and stored in the run folder."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import credo
from credo import likelihoods, nets
from credo.core.config import encode
from credo.core.trees import take
from credo.data.sets import load
from credo.experiments.base import Progress, uninterrupted
from credo.methods.base import Method
from credo.posteriors import DiagonalGaussian, Draws, Posterior
from credo.priors import Prior

DRAWS = 100
"""Functions that are averaged where a row predicts with more than its mean."""

CURVE = 60
"""Points of a row's learning curve that are stored, at most."""

EDGES = torch.linspace(-0.5, 0.5, 201)
"""Of the bins into which weights are counted."""


@dataclass(frozen=True)
class Images:
    """Training and test images, (N, pixels), and their classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    def to(self, device: str) -> Images:
        return Images(*(t.to(device) for t in (self.x, self.y, self.x_test, self.y_test)))


def images(name: str, pixels_over: float) -> Images:
    """A set with test images of its own, its bytes divided by a number.

    Args:
        name: mnist or fashion-mnist.
        pixels_over: what the bytes are divided by: 126 in the paper.

    Raises:
        DataError: the set is not at hand.
    """
    data = load(name)
    assert data.test is not None
    arrays = (data.x, data.y, *data.test)
    x, y, x_test, y_test = (torch.as_tensor(array) for array in arrays)
    return Images(x.flatten(1).float() / pixels_over, y.long(), x_test.flatten(1).float() / pixels_over, y_test.long())


def digits(seed: int) -> Images:
    """scikit-learn's images of 8 x 8, 1,400 to learn from and 397 to test; pixels from 0 to 2, as bytes over 126."""
    data = load("digits")
    order = credo.Stream(seed, ("digits",)).permutation(len(data.x))
    x, y = torch.as_tensor(data.x).float()[order] / 8.0, torch.as_tensor(data.y).long()[order]
    return Images(x[:1400], y[:1400], x[1400:], y[1400:])


class NormalizedSoftplus(nn.Module):
    """A classifier whose outputs go through softplus, as Keras reads them: normalized to one, and kept from 0 and 1.

    p_k = softplus(z_k) / sum_j softplus(z_j), clipped to [1e-7, 1 - 1e-7]; its logarithm is what comes out.

    Args:
        net: gives z, (B, K).
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        positive = F.softplus(self.net(x))
        return (positive / positive.sum(-1, keepdim=True)).clamp(1e-7, 1 - 1e-7).log()


def keras_net(net: nets.MLP) -> NormalizedSoftplus:
    """The net started as Keras does (Glorot's uniform weights, biases zero), with softplus outputs."""
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return NormalizedSoftplus(net)


@dataclass(frozen=True)
class ClassifierRow:
    """One classifier of a table, pixels - hidden - hidden - 10 with ReLU.

    Attributes:
        name: of its file.
        hidden: units in each of the two hidden layers.
        method: how it learns.
        prior: of the weights.
        dropout: rate after each hidden layer in training.
        pruned: parts of the weights that are removed, one after the other.
        members: runs, which differ in their first weights, order of data and noise, and are trained at once.
        keras: whether the network starts and ends as the notebook's Keras networks do.
    """

    name: str
    hidden: int
    method: Method
    prior: Prior = field(default_factory=lambda: credo.priors.Normal(1.0))
    dropout: float = 0.0
    pruned: tuple[float, ...] = ()
    members: int = 3
    keras: bool = False

    def model(self, inputs: int) -> credo.Model:
        net = partial(nets.MLP, inputs, 10, (self.hidden, self.hidden), dropout=self.dropout)
        made = (lambda: keras_net(net())) if self.keras else net()
        return credo.Model(made, likelihoods.Categorical(), self.prior)

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        numbers = {"hidden": self.hidden, "dropout": self.dropout, "pruned": self.pruned, "members": self.members}
        numbers |= {"keras": True} if self.keras else {}  # stored rows of other networks have no such entry
        return {**encode(numbers), "method": encode(self.method), "prior": encode(self.prior), "seed": seed}


@dataclass(frozen=True)
class ClassifierResult:
    """What a row reached. Errors are in per cent of the test images, one for each member.

    Attributes:
        name: the row's.
        weights: of one network.
        at_mean: error of the network at the posterior mean (of the plain network, for a point).
        drawn: error when the probabilities of drawn networks are averaged; as at the mean for a point.
        log_likelihood: of the test labels, per image in nats, by drawn networks; those that are finite.
        pruned: error at the mean by the part of the weights removed, written as in "0.75".
        seconds: of training all members.
        steps: of training.
        curve: rows of the history, thinned; those that are finite.
        counts: weights of the first member by the bins between `EDGES`; of one draw, where there is one to draw.
        device: what it was trained on.
        finished: whether training came to its end; it does not if numbers become infinite.
    """

    name: str
    weights: int
    at_mean: list[float]
    drawn: list[float]
    log_likelihood: list[float]
    pruned: dict[str, list[float]]
    seconds: float
    steps: int
    curve: list[dict[str, float]]
    counts: list[int]
    device: str
    finished: bool


def train(row: ClassifierRow, data: Images, seed: int, progress: Progress, device: str) -> ClassifierResult:
    """Train all members of a row at once, and measure each on the test images."""
    data = data.to(device)
    posterior, seconds = _fitted(row, data, seed, progress, device)
    each = [_member(posterior, m) for m in range(posterior.members().members)]
    drawn = [_tested(one, data, DRAWS if isinstance(one, DiagonalGaussian) else None) for one in each]
    history, size = posterior.history, len(data.x)
    return ClassifierResult(
        name=row.name,
        weights=sum(p[0].numel() for p in each[0].members().params.values()),
        at_mean=[_tested(_at_mean(one), data)[0] for one in each],
        drawn=[error for error, _ in drawn],
        log_likelihood=[fit for _, fit in drawn if math.isfinite(fit)],
        pruned={str(f): [_tested(_at_mean(_pruned(one, f)), data)[0] for one in each] for f in row.pruned},
        seconds=seconds,
        steps=row.method.steps(-(-size // (row.method.batch_size or size))),
        curve=[
            dict(line) for line in history[:: max(1, len(history) // CURVE)] if all(map(math.isfinite, line.values()))
        ],
        counts=_counts(each[0]),
        device=device if device == "cpu" else torch.cuda.get_device_name(),
        finished=posterior.record.finished and len(each) == row.members,
    )


def _fitted(row: ClassifierRow, data: Images, seed: int, progress: Progress, device: str) -> tuple[Posterior, float]:
    """The posterior, and how long it took."""
    method = credo.Ensemble(row.method, row.members) if row.members > 1 else row.method
    listener, model = progress.of(f"{row.name}, {row.members} run(s) at once"), row.model(data.x.shape[1])
    begin = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.CredoWarning)  # a run that diverges is a result too
        posterior = credo.fit(model, (data.x, data.y), method, seed=seed, device=device, progress=listener)
    if device != "cpu":
        torch.cuda.synchronize()
    return uninterrupted(posterior), time.monotonic() - begin


def _member(posterior: Posterior, member: int) -> Draws | DiagonalGaussian:
    """The posterior of one member."""
    if isinstance(posterior, DiagonalGaussian):
        return replace(posterior, mean=posterior.mean.take([member]), scale=take(posterior.scale, [member]))
    weights = posterior.members().take([member])
    return Draws(posterior.model, weights, Draws.uniform(weights))


def _at_mean(posterior: Draws | DiagonalGaussian) -> Draws:
    return posterior.at_mean() if isinstance(posterior, DiagonalGaussian) else posterior


def _pruned(posterior: Draws | DiagonalGaussian, fraction: float) -> DiagonalGaussian:
    assert isinstance(posterior, DiagonalGaussian)
    return posterior.prune(fraction)


def _tested(posterior: Posterior, data: Images, draws: int | None = None) -> tuple[float, float]:
    """Error in per cent and mean log likelihood on the test images."""
    prediction = posterior.predict(data.x_test, draws)
    assert isinstance(prediction, credo.ClassPredictive)
    wrong = (prediction.label != data.y_test).double().mean()
    return 100.0 * float(wrong), float(prediction.log_prob(data.y_test).double().mean())


def _counts(posterior: Draws | DiagonalGaussian) -> list[int]:
    weights = posterior.draw(1).variables.params.values()
    flat = torch.cat([w.flatten().cpu() for w in weights]).clamp(float(EDGES[0]), float(EDGES[-1]))
    return [int(n) for n in torch.histogram(flat, EDGES).hist]
