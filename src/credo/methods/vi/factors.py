"""The factorised normal q that variational inference fits, as its steps see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from credo.core.rng import Stream
from credo.core.trees import Params, Variables


@dataclass(frozen=True)
class Factors:
    """q(w) = prod_i N(w_i; mean_i, scale_i^2), and points where a parameter has no scale.

    Attributes:
        mean: expectations of all parameters, (M, *shape) each.
        scale: standard deviations of the uncertain ones, (M, *shape) each.
        buffers: tensors of the network that are not inferred.
    """

    mean: Params
    scale: Params
    buffers: Params

    @property
    def centre(self) -> Variables:
        return Variables(self.mean, self.buffers)

    def draw(self, names: Iterable[str], noise: Stream) -> Params:
        """Reparameterised draws w = mean + scale * noise of these uncertain parameters, (M, *shape) each."""
        chosen = {name: self.scale[name] for name in names}
        standard = noise.normal_like(chosen)
        return {name: torch.addcmul(self.mean[name], s, standard[name]) for name, s in chosen.items()}
