"""A network that stays random: every draw is the weights with some units dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws
from credo.posteriors.functions import Functions

DRAWS = 100
"""Functions drawn when the caller does not say how many."""
COLLAPSED = 1e-3
"""The largest learned rate below which nothing is dropped."""


@dataclass(frozen=True, eq=False)
class Dropout(Posterior):
    """Weights times Bernoulli masks; a draw fixes one mask for all inputs.

    w_draw = w * mask,   mask = 0 with probability `rate`, 1 / (1 - rate) otherwise,   so that E[w_draw] = w

    Attributes:
        variables: weights of the M members, (M, *shape) each, at their expectation.
        rates: learned dropout rates by the name of the place, (M, *mask of one example) or (M, 1, ..., 1); empty where
            rates were given, not learned.
    """

    variables: Variables
    rates: Mapping[str, Tensor] = field(default_factory=dict)

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = DRAWS if count is None else whole_number("count", count)
        even = torch.full((count,), -torch.log(torch.tensor(float(count))).item(), device=self.variables.device)
        return Functions(self.model, self.variables, even, masks=Stream(seed, ("draw", "masks")), rates=self.rates)

    def point(self) -> Variables:
        return self.variables

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences, with a verdict on learned rates."""
        return (*self.record.notes, *self._verdict())

    def _verdict(self) -> tuple[str, ...]:
        if not self.rates:
            return ()
        means = {name: float(rate.mean()) for name, rate in self.rates.items()}
        told = "learned dropout rates: " + ", ".join(f"{mean:.2g} at {name}" for name, mean in means.items())
        if max(float(rate.max()) for rate in self.rates.values()) < COLLAPSED:
            told += (
                ". They fell to nothing, so the draws are one function: each unit matters too much to be dropped. Use "
                "a wider network, or a method that doubts single weights"
            )
        return (told,)

    def naive(self) -> Draws:
        """The plain network with its weights at their expectation: one forward pass, and no epistemic part.

        p(y | x, E_q[w])   in the place of   E_q[ p(y | x, w) ]

        Example:
            `posterior.naive().predict(x)` beside `posterior.predict(x, draws=100)`.
        """
        return Draws(self.model, self.variables, Draws.uniform(self.variables), record=self.record)
