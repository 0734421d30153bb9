"""One network by its likeliest weights and by a cloud around them: does doubt about the weights improve generalization?

Each has three candidates for what keeps it from overfitting: the number of epochs, and the scale of the prior. The
candidate is chosen for a set on a fifth of each split's training rows, and so is the noise of maximum likelihood, which
learned from the data would be too small; Bayes by Backprop learns its noise with the weights.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.core.trees import take
from credo.experiments.base import uninterrupted
from credo.experiments.uci.noise import best_noise, with_noise
from credo.experiments.uci.problem import (
    DRAWS,
    HELD_OUT,
    INITIAL_SCALE,
    LEARNING_RATE,
    LIKELIHOOD_EPOCHS,
    PRIOR_SCALES,
    Splits,
    dropout_epochs,
    hidden,
)
from credo.experiments.uci.scores import SplitScores, best
from credo.loop.progress import Listener
from credo.methods import Method
from credo.posteriors import DiagonalGaussian, Draws, Posterior
from credo.predictive import Predictive


def bayes_by_backprop(name: str, splits: Splits, seed: int, listener: Listener) -> SplitScores:
    """A normal distribution over every weight, as long as dropout; the scale of the prior is chosen."""
    begin, validation = time.monotonic(), splits.held_out(HELD_OUT)

    def run(data: Splits, scale: float) -> list[Predictive]:
        method = credo.BayesByBackprop(
            epochs=dropout_epochs(name),
            learning_rate=LEARNING_RATE,
            batch_size=128,
            initial_scale=INITIAL_SCALE,
            estimator="local",
            schedule=credo.Cosine(),
        )
        model = _model(name, data, likelihoods.LearnedGaussian(), priors.Normal(scale, fan_in=True))
        posterior = _fitted(model, data, method, seed, listener)
        assert isinstance(posterior, DiagonalGaussian)
        return [_split_of(posterior, split).predict(x, DRAWS, seed) for split, x in enumerate(data.x_test)]

    judged = [_log_likelihoods(run(validation, scale), validation) for scale in PRIOR_SCALES]
    predictions = run(splits, PRIOR_SCALES[best(torch.stack(judged))])
    return SplitScores.of(predictions, splits, time.monotonic() - begin)


def maximum_likelihood(name: str, splits: Splits, seed: int, listener: Listener) -> SplitScores:
    """The likeliest weights; the number of epochs and the noise are chosen."""
    begin, validation = time.monotonic(), splits.held_out(HELD_OUT)

    def run(data: Splits, epochs: int) -> list[Tensor]:
        """Outputs at each split's test inputs, (1, T, 1)."""
        method = credo.MaximumLikelihood(epochs, LEARNING_RATE, batch_size=128, schedule=credo.Cosine())
        model = _model(name, data, likelihoods.Gaussian(scale=1.0), priors.Normal())
        weights = _fitted(model, data, method, seed, listener).members()
        points = (weights.take([split]) for split in range(len(data)))
        return [Draws(model, w, Draws.uniform(w)).draw(1)(x) for w, x in zip(points, data.x_test, strict=True)]

    found = [best_noise(run(validation, epochs), validation.y_test) for epochs in LIKELIHOOD_EPOCHS]
    chosen = best(torch.stack([score for _, score in found]))
    outputs = run(splits, LIKELIHOOD_EPOCHS[chosen])
    predictions = [with_noise(draws, float(scale)) for draws, scale in zip(outputs, found[chosen][0], strict=True)]
    return SplitScores.of(predictions, splits, time.monotonic() - begin)


def _log_likelihoods(predictions: Sequence[Predictive], splits: Splits) -> Tensor:
    """Mean log density of each split's test targets, (M,)."""
    return torch.stack([p.log_prob(y).mean() for p, y in zip(predictions, splits.y_test, strict=True)])


def _model(name: str, splits: Splits, likelihood: likelihoods.Likelihood, prior: priors.Prior) -> credo.Model:
    return credo.Model(nets.MLP(splits.x.shape[-1], 1, hidden(name)), likelihood, prior)


def _fitted(model: credo.Model, splits: Splits, method: Method, seed: int, listener: Listener) -> Posterior:
    """Of all splits, trained at once."""
    members, data = credo.Ensemble(method, len(splits)), credo.PerMember(splits.x, splits.y)
    return uninterrupted(credo.fit(model, data, members, seed=seed, progress=listener), len(splits))


def _split_of(posterior: DiagonalGaussian, split: int) -> DiagonalGaussian:
    return replace(posterior, mean=posterior.mean.take([split]), scale=take(posterior.scale, [split]))
