"""Gray values as probabilities: the cross-entropy, which is no density, and binary values drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.likelihoods.base import as_columns
from credo.likelihoods.classes import BernoulliLogits
from credo.likelihoods.continuous_bernoulli import check_unit_interval


@dataclass(frozen=True)
class GrayCrossEntropy(BernoulliLogits):
    """The Bernoulli's formula on values between 0 and 1. It is no density of them: `log_prob` is a score.

    score(y | f) = y log sigmoid(f) + (1 - y) log sigmoid(-f),   integral_0^1 exp(score) dy <= 1/2

    What it is: the expectation of the Bernoulli's log probability when each value is drawn as 0 or 1 with probability
    y. So it may train, and be compared with other cross-entropies, never with a log density. `ContinuousBernoulli` is
    the density, `BinarizedBernoulli` draws the binary values.

    Examples:
        >>> y = torch.linspace(0, 1, 1001)[:, None]
        >>> no_density = GrayCrossEntropy().log_prob(torch.full_like(y, 3.0), y, {}).exp()
        >>> round(float(torch.trapezoid(no_density, y[:, 0])), 3)
        0.302
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        return _gray(y, outputs, "GrayCrossEntropy")


@dataclass(frozen=True)
class BinarizedBernoulli(BernoulliLogits):
    """Binary values of which only the probabilities are given, such as gray pixels that are binarized dynamically.

    b ~ Bernoulli(y),   p(b = 1 | f) = sigmoid(f)

    A variational autoencoder draws b anew in every step, by the seed, and shows it to the encoder too. Where nothing is
    drawn, `log_prob` of values that are neither 0 nor 1 is the expectation over b.

    Reference: R. Salakhutdinov, I. Murray, "On the quantitative analysis of deep belief networks", 2008.
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        return _gray(y, outputs, "BinarizedBernoulli")

    def binarized(self, y: Tensor, generator: torch.Generator) -> Tensor:
        """0 or 1 for every value, with probability y for 1."""
        return torch.bernoulli(y, generator=generator)


def _gray(y: Tensor, outputs: int, name: str) -> Tensor:
    y = as_columns(y, outputs, name)
    check_unit_interval(y, name)
    return y
