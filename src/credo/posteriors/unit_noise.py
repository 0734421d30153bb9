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
from credo.posteriors.draws import Draws, dealt
from credo.posteriors.functions import NetworkFunctions


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

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = self.default_draws if count is None else whole_number("count", count)
        members = torch.arange(count) % self.mean.members
        center, spread = self.mean.take(members), take(dict(self.relative_scale), members)
        noise = Stream(seed, ("draw", "units")).normal_like({name: units(center.params[name]) for name in spread})
        params: Params = {
            name: w * torch.addcmul(torch.ones_like(noise[name]), noise[name], spread[name]) if name in spread else w
            for name, w in center.params.items()
        }
        return NetworkFunctions(self.model, Variables(params, center.buffers), Draws.uniform(center))

    def at_mean(self) -> Draws:
        """The plain network at the means: no epistemic part, one forward pass."""
        return Draws(self.model, self.mean, Draws.uniform(self.mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.mean, count)

    def check(self) -> None:
        super().check()
        for name, scale in self.relative_scale.items():
            weight = self.mean.params.get(name)
            if weight is None or weight.ndim < 3:
                raise ValueError(f"relative_scale holds {name!r}, which is not a weight of the network with inputs")
            single = (len(weight), *(1,) * (weight.ndim - 1))
            if tuple(scale.shape) not in (tuple(units(weight).shape), single) or scale.dtype != weight.dtype:
                raise ValueError(f"relative_scale of {name!r} has shape {tuple(scale.shape)}, that of other weights")
            if bool((scale < 0).any()):
                raise ValueError(f"relative_scale of {name!r} is negative in places")

    def kl(self) -> NoReturn:
        """Refused: weights that move together fill a line, so they have no density to compare with any prior's."""
        raise ValueError(
            "kl() needs a density over the weights, and weights that share the noise of their input unit have none. "
            "The KL of the units' noise from its log-uniform prior, per example, is posterior.history[-1]['kl']"
        )
