"""Random-walk proposals with accept and reject, for chains that need no gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import ParameterInfo, Variables, ravel, unravel
from credo.model import Batch, Target

ENTRIES = 2**24
"""Of the largest activation of all chains together: as many examples are looked at in one pass."""


@dataclass(frozen=True)
class Place:
    """Where C chains are, and what is known of it.

    Attributes:
        flat: their weights side by side, (C, P).
        log_likelihood: of all the data, (C,), in float64.
        log_prior: of the weights, (C,), in float64.
    """

    flat: Tensor
    log_likelihood: Tensor
    log_prior: Tensor

    def where(self, chosen: Tensor, other: Place) -> Place:
        """This place for the chains that are chosen, (C,), the other one for the rest."""
        return Place(
            torch.where(chosen.unsqueeze(1), self.flat, other.flat),
            torch.where(chosen, self.log_likelihood, other.log_likelihood),
            torch.where(chosen, self.log_prior, other.log_prior),
        )


Level = Callable[[Place], Tensor]
"""The log density that chains explore, made of likelihood and prior, (C,)."""


@dataclass(frozen=True)
class Terrain:
    """Likelihood and prior of C chains as functions of their weights side by side, without gradients.

    Attributes:
        target: model and size of the data.
        batch: all the data.
        variables: of the chains at any time; names, shapes and buffers are taken from them.
    """

    target: Target
    batch: Batch
    variables: Variables

    def named(self, flat: Tensor) -> Variables:
        """Weights (C, P) by their names, with the buffers."""
        layout = {name: ParameterInfo(tuple(t.shape[1:]), 1) for name, t in self.variables.params.items()}
        return Variables(unravel(flat, layout), self.variables.buffers)

    @torch.no_grad()
    def __call__(self, flat: Tensor) -> Place:
        """What is found at these weights, (C, P)."""
        variables = self.named(flat)
        log_prior = self.target.log_prior(variables.params).double()
        return Place(flat, full_log_likelihood(self.target, variables, self.batch), log_prior)

    def here(self) -> Place:
        """What is found where the variables are."""
        return self(ravel(self.variables.params))


def single(value: float) -> float:
    """The nearest number of single precision, in which steps that are recorded on a GPU keep what changes."""
    return float(torch.tensor(value, dtype=torch.float32))


@torch.no_grad()
def full_log_likelihood(target: Target, variables: Variables, batch: Batch) -> Tensor:
    """sum_n log p(y_n | x_n, w) of each chain, (C,), summed in float64, some examples at a time."""
    example = batch.x[0] if batch.own else batch.x
    activations = target.model.network.trace(variables, example).activations
    rows = max(1, ENTRIES // (max(1, activations) * variables.members))
    parts = (target.log_likelihood(variables, part).double().sum(1) for part in _parts(batch, rows))
    return sum(parts, torch.zeros((), dtype=torch.float64, device=batch.x.device)) * (target.size / batch.examples)


def _parts(batch: Batch, rows: int) -> Iterator[Batch]:
    for start in range(0, batch.examples, rows):
        some = (slice(None),) * batch.own + (slice(start, start + rows),)
        yield Batch(batch.x[some], batch.y[some], batch.own)


def acceptance(log_ratio: Tensor) -> Tensor:
    """min(1, p(new) / p(old)) of each chain, (C,); what has no density is not accepted."""
    return log_ratio.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf).clamp_max(0.0).exp()


def walk(terrain: Terrain, place: Place, level: Level, jump: Tensor, uniform: Tensor) -> tuple[Place, Tensor]:
    """One proposal w + jump for every chain, accepted with probability min(1, p(w + jump) / p(w)).

    Args:
        terrain: what is explored.
        place: where the chains are.
        level: the log density.
        jump: a symmetric random step, (C, P).
        uniform: a number between 0 and 1 for every chain, (C,).

    Returns:
        Where the chains are now, and the probability with which the proposal was accepted, (C,).
    """
    new = terrain(place.flat + jump)
    probability = acceptance(level(new) - level(place))
    return new.where(uniform < probability, place), probability
