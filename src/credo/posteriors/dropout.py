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
from credo.posteriors.draws import Draws, dealt
from credo.posteriors.functions import NetworkFunctions

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

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = self.default_draws if count is None else whole_number("count", count)
        even = torch.full((count,), -torch.log(torch.tensor(float(count))).item(), device=self.variables.device)
        return NetworkFunctions(
            self.model, self.variables, even, masks=Stream(seed, ("draw", "masks")), rates=self.rates
        )

    def at_mean(self) -> Draws:
        """The plain network with its weights at their expectation: one forward pass, and no epistemic part.

        p(y | x, E_q[w])   in the place of   E_q[ p(y | x, w) ]

        Examples:
            `posterior.at_mean().predict(x)` beside `posterior.predict(x, draws=100)`.
        """
        return Draws(self.model, self.variables, Draws.uniform(self.variables), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.variables, count)

    def check(self) -> None:
        super().check()
        for name, rate in self.rates.items():
            if not rate.ndim or len(rate) != self.variables.members or rate.dtype != self.model.network.dtype:
                raise ValueError(f"the dropout rate {name!r} is not one of {self.variables.members} members")
            if bool(((rate < 0) | (rate >= 1)).any()):
                raise ValueError(f"the dropout rate {name!r} must be at least 0 and below 1")

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences, with a verdict on learned rates."""
        return (*self.record.notes, *self._verdict())

    def _verdict(self) -> tuple[str, ...]:
        if not self.rates:
            return ()
        means = {name: float(rate.mean()) for name, rate in self.rates.items()}
        verdict = "learned dropout rates: " + ", ".join(f"{mean:.2g} at {name}" for name, mean in means.items())
        if max(float(rate.max()) for rate in self.rates.values()) < COLLAPSED:
            verdict += (
                ". They fell to nothing, so the draws are one function: each unit matters too much to be dropped. Use "
                "a wider network, or a method that doubts single weights"
            )
        return (verdict,)
