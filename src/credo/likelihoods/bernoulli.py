"""Yes or no."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.trees import Params
from credo.likelihoods.base import Likelihood, as_columns


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """D separate yes-or-no targets; the network's D outputs are logits.

    p(y = 1 | f) = sigmoid(f)
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "Bernoulli")
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("y holds values other than 0 and 1: likelihoods.Bernoulli needs 0 (no) or 1 (yes)")
        return y

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        target = y.to(outputs.dtype).expand_as(outputs)
        return -F.binary_cross_entropy_with_logits(outputs, target, reduction="none").sum(-1)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.sigmoid()

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.sigmoid() * (-outputs).sigmoid()

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(outputs.sigmoid(), generator=generator)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return torch.special.entr(outputs.sigmoid()) + torch.special.entr((-outputs).sigmoid())
