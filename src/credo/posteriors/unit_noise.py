"""Weights that share the noise of the unit they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, take
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws
from credo.posteriors.functions import Functions

DRAWS = 100
"""Functions drawn when the caller does not say how many."""


def units(weight: Tensor) -> Tensor:
    """One entry for each input unit or channel, (M, 1, inputs, 1, ...), of a weight (M, outputs, inputs, ...)."""
    return weight[(slice(None), slice(1), slice(None), *(slice(1),) * (weight.ndim - 3))]


@dataclass(frozen=True, eq=False)
class UnitNoise(Posterior):
    """Weights times normal noise of their input unit, or an equal mixture of M such distributions.

    w_oi = mean_oi (1 + relative_scale_i noise_i)

    Attributes:
        mean: expectations, (M, *shape) each, and the buffers.
        relative_scale: standard deviation of the noise on each input of a weight, (M, 1, inputs, 1, ...), or on all of
            them, (M, 1, 1, 1, ...); a parameter that is not among them is a point at its mean.
    """

    mean: Variables
    relative_scale: Mapping[str, Tensor]

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = DRAWS if count is None else whole_number("count", count)
        lanes = torch.arange(count) % self.mean.members
        centre, spread = self.mean.take(lanes), take(dict(self.relative_scale), lanes)
        noise = Stream(seed, ("draw", "units")).normal_like({name: units(centre.params[name]) for name in spread})
        params: Params = {
            name: w * torch.addcmul(torch.ones_like(noise[name]), noise[name], spread[name]) if name in spread else w
            for name, w in centre.params.items()
        }
        return Functions(self.model, Variables(params, centre.buffers), Draws.uniform(centre))

    def point(self) -> Variables:
        return self.mean

    def at_mean(self) -> Draws:
        """The plain network at the means: no epistemic part, one forward pass."""
        return Draws(self.model, self.mean, Draws.uniform(self.mean), record=self.record)

    def kl(self) -> NoReturn:
        """Refused: weights that move together fill a line, so they have no density to compare with any prior's."""
        raise ValueError(
            "kl() needs a density over the weights, and weights that share the noise of their input unit have none. "
            "The KL of the units' noise from its log-uniform prior, per example, is posterior.history[-1]['kl']"
        )
