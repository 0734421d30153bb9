"""The sine of the assignment with every method tuned alike: does Bayes by Backprop improve generalization?

    python benchmarks/sine_tuned.py [DATA SETS [NOISE [METHODS]]]

Each method chooses one of its candidates by the log likelihood of held-out points (four folds of the 32), averaged over
data sets that differ in their noise; then it learns from all 32 points of each. Printed is the error of its mean to the
sine without noise, among the data: `*` marks the candidate that was chosen. The network (1-20-20-1) and the noise's
standard deviation are known to all, and every method has Adam with a step that falls to zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor

import credo
from credo import likelihoods, priors
from credo.core.threads import one_thread
from credo.core.trees import take
from credo.experiments.sine.problem import MIXTURE, SineProblem, plain_net, sine, variational_net
from credo.methods import BayesByBackprop, MaximumLikelihood, MCDropout, Method
from credo.nets import Net
from credo.posteriors import DiagonalGaussian, Draws, Dropout, Posterior

FOLDS, DRAWS = 4, 200
GRID = torch.linspace(-0.5, 0.5, 201).unsqueeze(1)
FALLING = {"batch_size": None, "schedule": credo.Cosine()}


@dataclass(frozen=True)
class Candidate:
    """A method with one value of what keeps it from overfitting."""

    name: str
    method: Method
    prior: priors.Prior
    net: Net = plain_net


def candidates() -> Iterator[list[Candidate]]:
    """Three or four of each method."""
    flat, wide = priors.Normal(1e6), (1.0, 3.0, 10.0, 30.0)
    yield [
        Candidate(f"maximum likelihood, {epochs} epochs", MaximumLikelihood(epochs, 0.01, **FALLING), flat)
        for epochs in (300, 1000, 3000)
    ]
    yield [
        Candidate(f"MAP, prior {s:g}", credo.MAP(1500, 0.01, **FALLING), priors.Normal(s, fan_in=True)) for s in wide
    ]
    yield [
        Candidate(
            f"MC dropout, rate {rate}", MCDropout(1500, 0.01, rate=rate, **FALLING), priors.Normal(30, fan_in=True)
        )
        for rate in (0.01, 0.03, 0.1)
    ]
    variational = BayesByBackprop(1500, 0.02, initial_scale=0.02, estimator="local", **FALLING)
    yield [Candidate(f"Bayes by Backprop, prior {s:g}", variational, priors.Normal(s, fan_in=True)) for s in wide]
    given = BayesByBackprop(1500, 0.08, batch_size=None, initial_scale=math.log(2.0))
    yield [Candidate("Bayes by Backprop, the assignment's numbers", given, MIXTURE, variational_net)]


def data_sets(count: int, noise: float) -> tuple[Tensor, Tensor]:
    """Inputs and targets of each, (R, 32, 1); the noise of the assignment, stretched."""
    problems = [SineProblem.of(seed) for seed in range(count)]
    x = torch.stack([problem.x for problem in problems])
    return x, sine(x) + noise * (torch.stack([problem.y for problem in problems]) - sine(x))


def predictions(candidate: Candidate, x: Tensor, y: Tensor, at: Tensor, noise: float) -> list[credo.NumericPredictive]:
    """Of each data set (M, N, 1) at its inputs `at`, (M, T, 1)."""
    model = credo.Model(candidate.net, likelihoods.Gaussian(noise), candidate.prior)
    ensemble = credo.Ensemble(candidate.method, len(x))
    posterior = credo.fit(model, credo.PerMember(x, y), ensemble, seed=0, progress=False)
    return [_member(posterior, m).predict(inputs, _draws(posterior)) for m, inputs in enumerate(at)]


def _draws(posterior: Posterior) -> int | None:
    return None if isinstance(posterior, Draws) else DRAWS


def _member(posterior: Posterior, member: int) -> Posterior:
    if isinstance(posterior, DiagonalGaussian):
        return replace(posterior, mean=posterior.mean.take([member]), scale=take(posterior.scale, [member]))
    variables = posterior.members().take([member])
    if isinstance(posterior, Dropout):
        return replace(posterior, variables=variables)
    return Draws(posterior.model, variables, Draws.uniform(variables))


def judged(candidate: Candidate, x: Tensor, y: Tensor, noise: float) -> float:
    """Log likelihood of held-out points, in nats per point, over folds and data sets."""
    held = torch.stack([torch.arange(x.shape[1]) % FOLDS == fold for fold in range(FOLDS)])
    parts = [
        (each[~fold], target[~fold], each[fold], target[fold])
        for each, target in zip(x, y, strict=True)
        for fold in held
    ]
    inputs, targets, at, truth = (torch.stack(column) for column in zip(*parts, strict=True))
    found = predictions(candidate, inputs, targets, at, noise)
    return float(torch.stack([p.log_prob(t).mean() for p, t in zip(found, truth, strict=True)]).mean())


def errors(candidate: Candidate, x: Tensor, y: Tensor, noise: float) -> Tensor:
    """Root mean squared error of the mean to the sine among the data, of each data set."""
    found = predictions(candidate, x, y, GRID.expand(len(x), -1, -1), noise)
    return torch.stack([(p.mean - sine(GRID)).square().mean().sqrt() for p in found])


def main() -> None:
    given = dict(enumerate(sys.argv))
    count, noise, wanted = int(given.get(1, "3")), float(given.get(2, "1")), given.get(3, "*")
    x, y = data_sets(count, noise)
    print(f"{count} data sets, noise {noise:g}       held out, nats   error to the sine (least to most)")
    for table in ([each for each in some if fnmatchcase(each.name, wanted)] for some in candidates()):
        scores = [judged(candidate, x, y, noise) for candidate in table]
        for candidate, score in zip(table, scores, strict=True):
            error = errors(candidate, x, y, noise)
            mark = "*" if score == max(scores) else " "
            numbers = f"{score:8.3f} {mark}  {error.mean():.2f} ({error.min():.2f} to {error.max():.2f})"
            print(f"{candidate.name:<44} {numbers}", flush=True)


if __name__ == "__main__":
    with one_thread():
        main()
