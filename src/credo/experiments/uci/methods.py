"""The two methods of the tables. All splits of a set train at once, as members with their own data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.experiments.base import Progress, uninterrupted
from credo.experiments.kept import kept_numbers, write
from credo.experiments.uci.protocol import Scores, Splits
from credo.loop.progress import Listener
from credo.posteriors import Draws, Dropout
from credo.predictive import Predictive, predictive

Scored = Callable[[str, Splits, int, Listener], Scores]

MEMBERS = 5
ENSEMBLE_EPOCHS = 40
RATE = 0.05
DRAWS = 1000
HELD_OUT = 0.2
"""Part of the training rows on which settings are chosen."""
ENSEMBLE_RATES = (0.003, 0.01, 0.03)
DROPOUT_RATES = (0.005, 0.02)
"""Learning rates to choose from."""
NOISE_SCALES = torch.logspace(-2.5, 0.5, 61)
"""Candidates for the standard deviation of the noise, in standardised units, between 0.003 and 3."""


def hidden(name: str) -> tuple[int]:
    """One hidden layer of 50 units; 100 for protein."""
    return (100,) if name == "protein" else (50,)


def deep_ensemble(name: str, splits: Splits, seed: int, listener: Listener) -> Scores:
    """Five networks that predict mean and variance, 40 epochs in batches of 100 (Lakshminarayanan et al. 2017).

    The paper prints a learning rate of 0.1, with which training diverges on standardised data. Here it falls to zero
    from one of `ENSEMBLE_RATES`, chosen for the set on a fifth of each split's training rows.
    """
    begin = time.monotonic()
    validation = splits.held_out(HELD_OUT)

    def judged(rate: float) -> Tensor:
        predictions = ensemble_predictions(name, validation, rate, seed, listener)
        return torch.stack([p.log_prob(y).mean() for p, y in zip(predictions, validation.y_test, strict=True)])

    chosen = _best(torch.stack([judged(rate) for rate in ENSEMBLE_RATES]))
    predictions = ensemble_predictions(name, splits, ENSEMBLE_RATES[chosen], seed, listener)
    return Scores.of(predictions, splits, time.monotonic() - begin)


def _best(scores: Tensor) -> int:
    """Which row of scores, (candidates, M), has the largest mean; one with a score that is no number is the worst."""
    means = scores.mean(1)
    return int(torch.where(means.isfinite(), means, -math.inf).argmax())


def ensemble_predictions(name: str, splits: Splits, rate: float, seed: int, listener: Listener) -> list[Predictive]:
    """The ensemble's prediction of each split's test inputs."""
    net = nets.MLP(splits.x.shape[-1], 2, hidden(name))
    model = credo.Model(net, likelihoods.HeteroscedasticGaussian(), priors.Normal(scale=1.0))
    member = credo.MAP(epochs=ENSEMBLE_EPOCHS, learning_rate=rate, batch_size=100, schedule=credo.Cosine())
    method = credo.Ensemble(member, len(splits) * MEMBERS)
    data = credo.PerMember(splits.x.repeat_interleave(MEMBERS, 0), splits.y.repeat_interleave(MEMBERS, 0))
    posterior = uninterrupted(credo.fit(model, data, method, seed=seed, progress=listener))
    variables = posterior.point()
    predictions: list[Predictive] = []
    for split, x in enumerate(splits.x_test):
        own = variables.take(range(split * MEMBERS, (split + 1) * MEMBERS))
        predictions.append(Draws(posterior.model, own, Draws.uniform(own)).predict(x))
    return predictions


def mc_dropout(name: str, splits: Splits, seed: int, listener: Listener) -> Scores:
    """Dropout at rate 0.05, 400 epochs (200 for protein) in batches of 128 (Gal and Ghahramani 2016, ten-fold epochs).

    The noise of each split, and from which of `DROPOUT_RATES` the learning rate falls to zero in the set, are chosen on
    a fifth of each split's training rows; then the network learns from all of them.
    """
    begin = time.monotonic()
    validation = splits.held_out(HELD_OUT)

    def judged(rate: float) -> tuple[Tensor, Tensor]:
        return _best_noise(_dropout_outputs(name, validation, rate, seed, listener), validation.y_test)

    found = [judged(rate) for rate in DROPOUT_RATES]
    chosen = _best(torch.stack([score for _, score in found]))
    outputs = _dropout_outputs(name, splits, DROPOUT_RATES[chosen], seed, listener)
    predictions = [_with_noise(draws, float(s)) for draws, s in zip(outputs, found[chosen][0], strict=True)]
    return Scores.of(predictions, splits, time.monotonic() - begin)


def _dropout_outputs(name: str, splits: Splits, rate: float, seed: int, listener: Listener) -> list[Tensor]:
    """Outputs of the drawn functions at each split's test inputs, (S, T, 1)."""
    # the published prior is this wide: its length scale is 0.01, so a weight's standard deviation is about 100
    net = nets.MLP(splits.x.shape[-1], 1, hidden(name))
    model = credo.Model(net, likelihoods.Gaussian(scale=1.0), priors.Normal(scale=100.0))
    epochs = _dropout_epochs(name)
    dropout = credo.MCDropout(rate=RATE, epochs=epochs, learning_rate=rate, batch_size=128, schedule=credo.Cosine())
    method = credo.Ensemble(dropout, members=len(splits))
    data = credo.PerMember(splits.x, splits.y)
    posterior = uninterrupted(credo.fit(model, data, method, seed=seed, progress=listener))
    each = (Dropout(posterior.model, posterior.point().take([split])) for split in range(len(splits)))
    return [own.draw(DRAWS, seed)(x) for own, x in zip(each, splits.x_test, strict=True)]


def _dropout_epochs(name: str) -> int:
    return 200 if name == "protein" else 400


def _with_noise(draws: Tensor, scale: float) -> Predictive:
    even = torch.full((len(draws),), -math.log(len(draws)))
    return predictive(likelihoods.Gaussian(scale), draws, {}, even)


def _best_noise(outputs: list[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """For each split the noise under which its validation targets are most probable, (M,), and how probable, (M,)."""
    found = [
        torch.stack([_with_noise(draws, float(scale)).log_prob(y).mean() for scale in NOISE_SCALES]).max(0)
        for draws, y in zip(outputs, targets, strict=True)
    ]
    return NOISE_SCALES[torch.stack([best.indices for best in found])], torch.stack([best.values for best in found])


@dataclass(frozen=True)
class Row:
    """A method on a set.

    Attributes:
        data: the set's name.
        method: one of `METHODS`.
    """

    data: str
    method: str

    @property
    def name(self) -> str:
        """As in the claims."""
        return f"{self.data}.{self.method.lower().replace(' ', '-')}"

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the data."""
        numbers = {"held_out": HELD_OUT, "hidden": list(hidden(self.data)), "seed": seed}
        if self.method == "deep ensemble":
            return {**numbers, "members": MEMBERS, "learning_rates": list(ENSEMBLE_RATES), "epochs": ENSEMBLE_EPOCHS}
        return {
            **numbers,
            "rate": RATE,
            "draws": DRAWS,
            "learning_rates": list(DROPOUT_RATES),
            "epochs": _dropout_epochs(self.data),
        }


def scored(row: Row, splits: Callable[[], Splits], folder: Path, seed: int, progress: Progress) -> Scores:
    """What a row reached: read where the folder has it for these settings, trained and written where not."""
    numbers = kept_numbers(row, folder, seed)
    if numbers is not None:
        return Scores(**numbers)
    data = splits()
    listener = progress.of(f"{row.data}, {row.method}, {len(data)} splits at once")
    scores = METHODS[row.method](row.data, data, seed, listener)
    write(scores, row, folder, seed)
    return scores


METHODS: dict[str, Scored] = {"deep ensemble": deep_ensemble, "MC dropout": mc_dropout}
"""The methods by the name under which the table has them."""
