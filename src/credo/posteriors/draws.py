"""Weighted draws: a point, an ensemble, or the states of a chain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.posteriors.base import Posterior
from credo.posteriors.functions import Functions


@dataclass(frozen=True, eq=False)
class Draws(Posterior):
    """A finite set of weighted functions. One draw is a point estimate, M of them an ensemble.

    Attributes:
        variables: weights of the S draws, (S, *shape) each.
        log_weights: their log weights, (S,), normalised.
    """

    variables: Variables
    log_weights: Tensor

    @staticmethod
    def uniform(variables: Variables) -> Tensor:
        """Log weights that are all the same."""
        count = torch.tensor(float(variables.members), device=variables.device)
        return (-count.log()).repeat(variables.members)

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """All draws with their weights; with a count, that many by systematic resampling."""
        if count is None:
            return Functions(self.model, self.variables, self.log_weights)
        count = whole_number("count", count)
        chosen = _systematic(self.log_weights, count, Stream(seed, ("draw",)))
        picked = self.variables.take(chosen)
        return Functions(self.model, picked, Draws.uniform(picked))

    def point(self) -> Variables:
        return self.variables


def _systematic(log_weights: Tensor, count: int, stream: Stream) -> Tensor:
    """Indices such that draw s comes count * w_s times, rounded up or down."""
    start = torch.rand((), generator=stream.generator(), dtype=torch.float64)
    positions = (torch.arange(count, dtype=torch.float64) + start) / count
    cumulative = log_weights.double().cpu().exp().cumsum(0)
    return torch.searchsorted(cumulative / cumulative[-1], positions).clamp_max(len(log_weights) - 1)
