"""A network that stays random: every draw is the weights with some units dropped."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.posteriors.base import Posterior
from credo.posteriors.functions import Functions

DRAWS = 100
"""Functions drawn when the caller does not say how many."""


@dataclass(frozen=True, eq=False)
class Dropout(Posterior):
    """Weights times Bernoulli masks; a draw fixes one mask for all inputs.

    Attributes:
        variables: weights of the M members, (M, *shape) each.
    """

    variables: Variables

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = DRAWS if count is None else count
        if count < 1:
            raise ValueError(f"draws must be at least 1, got {count}")
        members = self.variables.members
        variables = self.variables if members == 1 else self.variables.take(torch.arange(count) % members)
        even = torch.full((count,), -torch.log(torch.tensor(float(count))).item(), device=self.variables.device)
        return Functions(self.model, variables, even, masks=Stream(seed, ("draw", "masks")))

    def point(self) -> Variables:
        return self.variables
