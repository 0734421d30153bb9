"""The two methods of the tables. All splits of a set train at once, as members with their own data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.experiments.base import Cell, DivergedRunsError, Progress, Table, uninterrupted
from credo.experiments.rows import results
from credo.experiments.uci.problem import (
    DRAWS,
    DROPOUT_RATES,
    ENSEMBLE_EPOCHS,
    ENSEMBLE_RATES,
    HELD_OUT,
    MEMBERS,
    NOISE_SCALES,
    RATE,
    Splits,
    UciRow,
    dropout_epochs,
    hidden,
)
from credo.loop.progress import Listener
from credo.posteriors import Draws, Dropout
from credo.predictive import Predictive, predictive


@dataclass(frozen=True)
class SplitScores:
    """What one method reached on the splits of one set, in the units of the target.

    Attributes:
        rmse: root mean squared error of the predictive mean on each split.
        log_likelihood: mean log density of the test targets in nats on each split.
        seconds: training and prediction together.
    """

    rmse: list[float]
    log_likelihood: list[float]
    seconds: float

    @staticmethod
    def of(predictions: list[Predictive], splits: Splits, seconds: float) -> SplitScores:
        """The scores of one prediction per split. A density in standardized units is divided by the unit."""
        rmse, log_likelihood = [], []
        for prediction, y, unit in zip(predictions, splits.y_test, splits.unit, strict=True):
            rmse.append(float((prediction.mean.squeeze(1) - y).square().mean().sqrt() * unit))
            log_likelihood.append(float(prediction.log_prob(y).mean() - unit.log()))
        return SplitScores(rmse, log_likelihood, seconds)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over splits and its standard error."""
    return fmean(values), stdev(values) / math.sqrt(len(values))


def deep_ensemble(name: str, splits: Splits, seed: int, listener: Listener) -> SplitScores:
    """Five networks that predict mean and variance, 40 epochs in batches of 100 (Lakshminarayanan et al. 2017).

    The paper prints a learning rate of 0.1, with which training diverges on standardized data. Here it falls to zero
    from one of `ENSEMBLE_RATES`, chosen for the set on a fifth of each split's training rows.
    """
    begin = time.monotonic()
    validation = splits.held_out(HELD_OUT)

    def judged(rate: float) -> Tensor:
        try:
            predictions = ensemble_predictions(name, validation, rate, seed, listener)
        except DivergedRunsError:
            return torch.full((len(validation),), math.nan)
        return torch.stack([p.log_prob(y).mean() for p, y in zip(predictions, validation.y_test, strict=True)])

    chosen = _best(torch.stack([judged(rate) for rate in ENSEMBLE_RATES]))
    predictions = ensemble_predictions(name, splits, ENSEMBLE_RATES[chosen], seed, listener)
    return SplitScores.of(predictions, splits, time.monotonic() - begin)


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
    posterior = uninterrupted(credo.fit(model, data, method, seed=seed, progress=listener), method.members)
    variables = posterior.members()
    predictions: list[Predictive] = []
    for split, x in enumerate(splits.x_test):
        members = variables.take(range(split * MEMBERS, (split + 1) * MEMBERS))
        predictions.append(Draws(posterior.model, members, Draws.uniform(members)).predict(x))
    return predictions


def mc_dropout(name: str, splits: Splits, seed: int, listener: Listener) -> SplitScores:
    """Dropout at rate 0.05, 400 epochs (200 for protein) in batches of 128 (Gal and Ghahramani 2016, ten-fold epochs).

    The noise of each split, and from which of `DROPOUT_RATES` the learning rate falls to zero in the set, are chosen on
    a fifth of each split's training rows; then the network learns from all of them.
    """
    begin = time.monotonic()
    validation = splits.held_out(HELD_OUT)

    def judged(rate: float) -> tuple[Tensor, Tensor]:
        try:
            return _best_noise(_dropout_outputs(name, validation, rate, seed, listener), validation.y_test)
        except DivergedRunsError:
            return (torch.full((len(validation),), math.nan),) * 2

    found = [judged(rate) for rate in DROPOUT_RATES]
    chosen = _best(torch.stack([score for _, score in found]))
    outputs = _dropout_outputs(name, splits, DROPOUT_RATES[chosen], seed, listener)
    predictions = [_with_noise(draws, float(s)) for draws, s in zip(outputs, found[chosen][0], strict=True)]
    return SplitScores.of(predictions, splits, time.monotonic() - begin)


def _dropout_outputs(name: str, splits: Splits, rate: float, seed: int, listener: Listener) -> list[Tensor]:
    """Outputs of the drawn functions at each split's test inputs, (S, T, 1)."""
    # the published prior is this wide: its length scale is 0.01, so a weight's standard deviation is about 100
    net = nets.MLP(splits.x.shape[-1], 1, hidden(name))
    model = credo.Model(net, likelihoods.Gaussian(scale=1.0), priors.Normal(scale=100.0))
    epochs = dropout_epochs(name)
    dropout = credo.MCDropout(rate=RATE, epochs=epochs, learning_rate=rate, batch_size=128, schedule=credo.Cosine())
    method = credo.Ensemble(dropout, members=len(splits))
    data = credo.PerMember(splits.x, splits.y)
    posterior = uninterrupted(credo.fit(model, data, method, seed=seed, progress=listener), method.members)
    each = (Dropout(posterior.model, posterior.members().take([split])) for split in range(len(splits)))
    return [one.draw(DRAWS, seed)(x) for one, x in zip(each, splits.x_test, strict=True)]


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


def scored(row: UciRow, splits: Callable[[], Splits], folder: Path, seed: int, progress: Progress) -> SplitScores:
    """What a row reached: read where the folder has it for these settings, trained and stored where not."""

    def train(row: UciRow) -> SplitScores:
        data = splits()
        listener = progress.of(f"{row.data}, {row.method}, {len(data)} splits at once")
        return METHODS[row.method](row.data, data, seed, listener)

    return results([row], SplitScores, folder, seed, train)[row.name]


METHODS: dict[str, Callable[[str, Splits, int, Listener], SplitScores]] = {
    "deep ensemble": deep_ensemble,
    "MC dropout": mc_dropout,
}
"""The methods by the name under which the table has them."""

AllScores = Mapping[tuple[str, str], SplitScores]
"""Scores by set and method."""


def numbers(name: str, method: str, scores: SplitScores) -> dict[str, float]:
    """What claims say about a method on a set."""
    key = UciRow(name, method).name
    return {
        f"{key}.rmse": mean_and_error(scores.rmse)[0],
        f"{key}.log-likelihood": mean_and_error(scores.log_likelihood)[0],
    }


def tables(found: AllScores) -> tuple[Table, ...]:
    """One row per set and method."""
    columns = ("set", "method", "splits", "RMSE", "s.e.", "log likelihood", "s.e.", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for (name, method), scores in found.items():
        rmse, log_likelihood = mean_and_error(scores.rmse), mean_and_error(scores.log_likelihood)
        rows.append((name, method, len(scores.rmse), *rmse, *log_likelihood, round(scores.seconds, 1)))
    note = "Means over the standard splits with their standard errors, in the units of the target and in nats."
    return (Table("Our scores on the test rows", columns, tuple(rows), note),) if rows else ()
