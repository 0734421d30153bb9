"""Weighted draws: a point, an ensemble, or the states of a chain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.posteriors.base import Posterior
from credo.posteriors.functions import NetworkFunctions


@dataclass(frozen=True, eq=False)
class Draws(Posterior):
    """A finite set of weighted functions. One draw is a point estimate, M of them an ensemble.

    Attributes:
        variables: weights of the S draws, (S, *shape) each.
        log_weights: their log weights, (S,), normalized.
    """

    unbounded: ClassVar[tuple[str, ...]] = ("log_weights",)

    variables: Variables
    log_weights: Tensor

    @staticmethod
    def uniform(variables: Variables) -> Tensor:
        """Log weights that are all the same."""
        count = torch.tensor(float(variables.members), device=variables.device)
        return (-count.log()).repeat(variables.members)

    @property
    def default_draws(self) -> int:
        """All of them."""
        return self.variables.members

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """All draws with their weights; with a count, that many by systematic resampling."""
        if count is None:
            return NetworkFunctions(self.model, self.variables, self.log_weights)
        offset = torch.rand((), generator=Stream(seed, ("draw",)).generator(), dtype=torch.float64)
        picked = resampled(self.variables, self.log_weights, whole_number("count", count), float(offset))
        return NetworkFunctions(self.model, picked, Draws.uniform(picked))

    def at_mean(self) -> Draws:
        """The posterior itself: each of its networks is a component, with no spread of its own."""
        return self

    def members(self, count: int | None = None) -> Variables:
        if bool((self.log_weights == self.log_weights[0]).all()):
            return dealt(self.variables, count)
        return resampled(self.variables, self.log_weights, count or self.variables.members)

    def check(self) -> None:
        super().check()
        check_log_weights(self.log_weights, self.variables)
        total = float(self.log_weights.double().logsumexp(0))
        if abs(total) > 1e-3:  # float32 weights of many draws do not add up exactly
            raise ValueError(f"the weights of the draws add up to {math.exp(min(total, 700.0)):.3g}, not to one")

    def of_members(self, members: Tensor) -> Self:
        chosen = self.variables.take(members)
        return replace(self, variables=chosen, log_weights=self.log_weights[members].log_softmax(0))


def dealt(variables: Variables, count: int | None) -> Variables:
    """`count` members, in turn; all of them for None."""
    if count is None or count == variables.members:
        return variables
    return variables.take(torch.arange(count) % variables.members)


def resampled(variables: Variables, log_weights: Tensor, count: int, offset: float = 0.5) -> Variables:
    """`count` members by systematic resampling: number s comes count * w_s times, rounded up or down."""
    positions = (torch.arange(count, dtype=torch.float64) + offset) / count
    cumulative = log_weights.double().cpu().softmax(0).cumsum(0)
    chosen = torch.searchsorted(cumulative / cumulative[-1], positions).clamp_max(len(log_weights) - 1)
    return variables.take(chosen)


def averaged(variables: Variables, log_weights: Tensor) -> Variables:
    """One network, (1, *shape) each: sum_s w_s variables_s; counters and flags are those of the first."""
    weights = log_weights.double().softmax(0)

    def average(tree: Params) -> Params:
        return {
            name: torch.tensordot(weights.to(t.device), t.double(), dims=1).to(t).unsqueeze(0)
            if t.is_floating_point()
            else t[:1]
            for name, t in tree.items()
        }

    return Variables(average(variables.params), average(variables.buffers))


def check_log_weights(log_weights: Tensor, variables: Variables) -> None:
    """Refuse log weights, from a file, that are not one for each draw."""
    shape = tuple(log_weights.shape)
    if shape != (variables.members,) or not log_weights.is_floating_point():
        raise ValueError(f"log_weights has shape {shape}, and there are {variables.members} draws")
    if bool(log_weights.isnan().any()) or not math.isfinite(log_weights.amax()):
        raise ValueError("log_weights holds NaN or infinite weights, or no weight at all")
