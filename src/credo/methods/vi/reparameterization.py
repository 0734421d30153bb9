"""The gradient in weight space: one draw of all weights for the whole batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.methods.vi.estimators import Estimator
from credo.methods.vi.factors import Drawn, Factors
from credo.model import Batch, Target


@dataclass(frozen=True)
class Reparameterization(Estimator):
    """Bayes by Backprop's own: w = mean + scale * noise, shared by all examples of the batch. Any module will do.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    def log_likelihood(self, target: Target, q: Factors, batch: Batch, noise: Stream) -> tuple[Tensor, Drawn]:
        drawn = q.draw(q.uncertain, noise.child("weights"))
        variables = Variables({**q.mean, **drawn}, q.buffers)
        return target.training_log_likelihood(variables, batch, noise.child("network")), Drawn(drawn)
