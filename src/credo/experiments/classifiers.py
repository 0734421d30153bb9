"""Rows of a table of image classifiers: each is trained once, measured, and kept as JSON in the run folder.

A run that was cut short, or a second run that wants more rows, goes on with what the folder has.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets
from credo.core.config import encode
from credo.core.trees import take
from credo.data.errors import DataError
from credo.data.sets import load
from credo.experiments.base import Progress, uninterrupted
from credo.experiments.kept import FOLDER, kept_numbers, write
from credo.methods.base import Method
from credo.posteriors import DiagonalGaussian, Draws, Posterior
from credo.priors import Prior

DRAWS = 100
"""Functions that are averaged where a row predicts with more than its mean."""

CURVE = 60
"""Points of a row's learning curve that are kept, at most."""

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


@dataclass(frozen=True)
class Row:
    """One classifier of a table, pixels - hidden - hidden - 10 with ReLU.

    Attributes:
        name: of its file.
        hidden: units in each of the two hidden layers.
        method: how it learns.
        prior: of the weights.
        dropout: rate after each hidden layer in training.
        pruned: parts of the weights that are removed, one after the other.
        members: runs, which differ in their first weights, order of data and noise, and are trained at once.
    """

    name: str
    hidden: int
    method: Method
    prior: Prior = field(default_factory=lambda: credo.priors.Normal(1.0))
    dropout: float = 0.0
    pruned: tuple[float, ...] = ()
    members: int = 3

    def model(self, inputs: int) -> credo.Model:
        net = nets.MLP(inputs, 10, (self.hidden, self.hidden), dropout=self.dropout)
        return credo.Model(net, likelihoods.Categorical(), self.prior)

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        numbers = {"hidden": self.hidden, "dropout": self.dropout, "pruned": self.pruned, "members": self.members}
        return {**encode(numbers), "method": encode(self.method), "prior": encode(self.prior), "seed": seed}


@dataclass(frozen=True)
class Result:
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


def train(row: Row, data: Images, seed: int, progress: Progress, device: str) -> Result:
    """Train all members of a row at once, and measure each on the test images."""
    data = data.to(device)
    posterior, seconds = _fitted(row, data, seed, progress, device)
    each = [_member(posterior, m) for m in range(row.members)]
    drawn = [_judged(own, data, DRAWS if isinstance(own, DiagonalGaussian) else None) for own in each]
    history, size = posterior.history, len(data.x)
    return Result(
        name=row.name,
        weights=sum(p[0].numel() for p in each[0].point().params.values()),
        at_mean=[_judged(_at_mean(own), data)[0] for own in each],
        drawn=[error for error, _ in drawn],
        log_likelihood=[fit for _, fit in drawn if math.isfinite(fit)],
        pruned={str(f): [_judged(_at_mean(_pruned(own, f)), data)[0] for own in each] for f in row.pruned},
        seconds=seconds,
        steps=row.method.steps(-(-size // (row.method.batch_size or size))),
        curve=[
            dict(line) for line in history[:: max(1, len(history) // CURVE)] if all(map(math.isfinite, line.values()))
        ],
        counts=_counts(each[0]),
        device=device if device == "cpu" else torch.cuda.get_device_name(),
        finished=posterior.record.finished,
    )


def _fitted(row: Row, data: Images, seed: int, progress: Progress, device: str) -> tuple[Posterior, float]:
    """The posterior, and how long it took."""
    method = credo.Ensemble(row.method, row.members) if row.members > 1 else row.method
    told, model = progress.of(f"{row.name}, {row.members} run(s) at once"), row.model(data.x.shape[1])
    begin = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.CredoWarning)  # a run that diverges is a result too
        posterior = credo.fit(model, (data.x, data.y), method, seed=seed, device=device, progress=told)
    if device != "cpu":
        torch.cuda.synchronize()
    return uninterrupted(posterior), time.monotonic() - begin


def _member(posterior: Posterior, member: int) -> Draws | DiagonalGaussian:
    """One member's own posterior."""
    if isinstance(posterior, DiagonalGaussian):
        return replace(posterior, mean=posterior.mean.take([member]), scale=take(posterior.scale, [member]))
    own = posterior.point().take([member])
    return Draws(posterior.model, own, Draws.uniform(own))


def _at_mean(own: Draws | DiagonalGaussian) -> Draws:
    return own.at_mean() if isinstance(own, DiagonalGaussian) else own


def _pruned(own: Draws | DiagonalGaussian, fraction: float) -> DiagonalGaussian:
    assert isinstance(own, DiagonalGaussian)
    return own.prune(fraction)


def _judged(own: Posterior, data: Images, draws: int | None = None) -> tuple[float, float]:
    """Error in per cent and mean log likelihood on the test images."""
    prediction = own.predict(data.x_test, draws)
    assert isinstance(prediction, credo.ClassPredictive)
    wrong = (prediction.label != data.y_test).double().mean()
    return 100.0 * float(wrong), float(prediction.log_prob(data.y_test).double().mean())


def _counts(own: Draws | DiagonalGaussian) -> list[int]:
    weights = own.draw(1).variables.params.values()
    flat = torch.cat([w.flatten().cpu() for w in weights]).clamp(float(EDGES[0]), float(EDGES[-1]))
    return [int(n) for n in torch.histogram(flat, EDGES).hist]


def trained(
    rows: Sequence[Row],
    data: Callable[[], Images],
    folder: Path,
    seed: int,
    progress: Progress,
    device: str = "cpu",
) -> dict[str, Result]:
    """The results of all rows: read where the folder has them for these settings, trained and written where not.

    Args:
        rows: what is wanted.
        data: gives the images; asked only if a row must be trained.
        folder: the run folder.
        seed: of every row.
        progress: whom to tell.
        device: where to compute.
    """
    found = {row.name: kept(row, folder, seed) for row in rows}
    missing = [row for row in rows if found[row.name] is None]
    given = data() if missing else None
    for row in missing:
        assert given is not None
        found[row.name] = result = train(row, given, seed, progress, device)
        write(result, row, folder, seed)
    return {name: result for name, result in found.items() if result is not None}


def at_full_size(
    rows: Sequence[Row], data: Callable[[], Images], folder: Path, seed: int, progress: Progress
) -> tuple[dict[str, Result], dict[str, str]]:
    """The results of all rows where there is a GPU, otherwise those that the folder has; and why others are missing."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # ten bits of mantissa in a product are enough for these nets
        try:
            return trained(rows, data, folder, seed, progress, "cuda"), {}
        except DataError as error:
            why = str(error)
    else:
        why = f"there is no GPU here, and {folder / FOLDER} has no result of this row for seed {seed}"
    found = {row.name: kept(row, folder, seed) for row in rows}
    present = {name: result for name, result in found.items() if result is not None}
    return present, {name: why for name, result in found.items() if result is None}


def kept(row: Row, folder: Path, seed: int) -> Result | None:
    """The result of a row that the folder has for these very settings."""
    numbers = kept_numbers(row, folder, seed)
    return None if numbers is None else Result(**numbers)
