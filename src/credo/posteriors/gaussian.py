"""Independent normal weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from credo.core.rng import Stream
from credo.core.trees import Params, Variables, take
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws
from credo.posteriors.functions import Functions

DRAWS = 100
"""Functions drawn when the caller does not say how many."""


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(Posterior):
    """A normal distribution over the weights with a diagonal covariance, or an equal mixture of M of them.

    Attributes:
        mean: expectations, (M, *shape) each, and the buffers.
        scale: standard deviations, (M, *shape) each.
    """

    mean: Variables
    scale: Params

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = DRAWS if count is None else count
        if count < 1:
            raise ValueError(f"draws must be at least 1, got {count}")
        lanes = torch.arange(count) % self.mean.members
        centre, scale = self.mean.take(lanes), take(self.scale, lanes)
        noise = Stream(seed, ("draw", "weights")).normal_like(centre.params)
        drawn = {name: w + scale[name] * noise[name] for name, w in centre.params.items()}
        variables = Variables(drawn, centre.buffers)
        return Functions(self.model, variables, Draws.uniform(variables))

    def point(self) -> Variables:
        return self.mean
