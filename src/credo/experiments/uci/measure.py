"""The two methods of the tables. All splits of a set train at once, as members with their own data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.experiments.base import Cell, DivergedRunsError, Progress, Table, uninterrupted
from credo.experiments.rows import results
from credo.experiments.uci.noise import best_noise, with_noise
from credo.experiments.uci.one_network import bayes_by_backprop, maximum_likelihood
from credo.experiments.uci.problem import (
    DRAWS,
    DROPOUT_RATES,
    ENSEMBLE_EPOCHS,
    ENSEMBLE_RATES,
    HELD_OUT,
    MEMBERS,
    RATE,
    Splits,
    UciRow,
    dropout_epochs,
    hidden,
)
from credo.experiments.uci.scores import SplitScores, best, mean_and_error
from credo.loop.progress import Listener
from credo.posteriors import Draws, Dropout
from credo.predictive import Predictive


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

    chosen = best(torch.stack([judged(rate) for rate in ENSEMBLE_RATES]))
    predictions = ensemble_predictions(name, splits, ENSEMBLE_RATES[chosen], seed, listener)
    return SplitScores.of(predictions, splits, time.monotonic() - begin)


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
            return best_noise(_dropout_outputs(name, validation, rate, seed, listener), validation.y_test)
        except DivergedRunsError:
            return (torch.full((len(validation),), math.nan),) * 2

    found = [judged(rate) for rate in DROPOUT_RATES]
    chosen = best(torch.stack([score for _, score in found]))
    outputs = _dropout_outputs(name, splits, DROPOUT_RATES[chosen], seed, listener)
    predictions = [with_noise(draws, float(s)) for draws, s in zip(outputs, found[chosen][0], strict=True)]
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


def scored(row: UciRow, splits: Callable[[], Splits], folder: Path, seed: int, progress: Progress) -> SplitScores:
    """What a row reached: read where the folder has it for these settings, trained and stored where not."""

    def train(row: UciRow) -> SplitScores:
        data = splits()
        listener = progress.of(f"{row.data}, {row.method}, {len(data)} splits at once")
        return METHODS[row.method](row.data, data, seed, listener)

    return results([row], SplitScores, folder, seed, train)[row.name]


CLOUD, POINT = "Bayes by Backprop", "maximum likelihood"
METHODS: dict[str, Callable[[str, Splits, int, Listener], SplitScores]] = {
    "deep ensemble": deep_ensemble,
    "MC dropout": mc_dropout,
    CLOUD: bayes_by_backprop,
    POINT: maximum_likelihood,
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


def generalization(found: AllScores) -> dict[str, float]:
    """Bayes by Backprop against maximum likelihood, over the sets that have both."""
    sets = [name for name, method in found if method == CLOUD and (name, POINT) in found]
    if not sets:
        return {}
    pairs = [(found[name, CLOUD], found[name, POINT]) for name in sets]
    ratio = fmean(math.log(fmean(cloud.rmse) / fmean(point.rmse)) for cloud, point in pairs)
    gain = fmean(fmean(cloud.log_likelihood) - fmean(point.log_likelihood) for cloud, point in pairs)
    return {"generalization.rmse": math.exp(ratio), "generalization.log-likelihood": gain}


def tables(found: AllScores) -> tuple[Table, ...]:
    """One row per set and method."""
    columns = ("set", "method", "splits", "RMSE", "s.e.", "log likelihood", "s.e.", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for (name, method), scores in found.items():
        rmse, log_likelihood = mean_and_error(scores.rmse), mean_and_error(scores.log_likelihood)
        rows.append((name, method, len(scores.rmse), *rmse, *log_likelihood, round(scores.seconds, 1)))
    note = "Means over the standard splits with their standard errors, in the units of the target and in nats."
    return (Table("Our scores on the test rows", columns, tuple(rows), note),) if rows else ()
