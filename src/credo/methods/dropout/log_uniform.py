"""The divergence of multiplicative normal noise from the log-uniform prior, by the two approximations in print.

q(w) = N(theta, alpha theta^2),  p(log |w|) = constant.  The divergence depends on alpha alone,

    KL(alpha) = E[log |e|] - log(alpha) / 2 + (gamma + log 2) / 2,   e ~ N(1, alpha),

up to the constant of an improper prior, which is chosen here so that it goes to 0 where alpha goes to infinity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

EULER_GAMMA = 0.5772156649015329
OFFSET = (EULER_GAMMA + 0.6931471805599453) / 2
"""(gamma + log 2) / 2 = -E[log |z|] of a standard normal z."""


class LogUniform(ABC):
    """An approximation to KL(alpha) for one weight, and its slope."""

    @abstractmethod
    def kl(self, log_alpha: Tensor) -> Tensor:
        """KL in nats of each entry."""

    @abstractmethod
    def slope(self, log_alpha: Tensor) -> Tensor:
        """d KL / d log_alpha of each entry: a new tensor."""


@dataclass(frozen=True)
class Polynomial(LogUniform):
    """A cubic for alpha up to 1, where it is too small by up to 0.041 nats; beyond it is of no use.

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, equation 14, https://arxiv.org/abs/1506.02557
    """

    c1: float = 1.16145124
    c2: float = -1.50204118
    c3: float = 0.58629921

    def kl(self, log_alpha: Tensor) -> Tensor:
        alpha = log_alpha.exp()
        inner = alpha.mul(self.c3).add_(self.c2).mul_(alpha).add_(self.c1)
        return inner.mul_(alpha).add_(log_alpha, alpha=0.5).neg_().add_(OFFSET)

    def slope(self, log_alpha: Tensor) -> Tensor:
        return self.slope_at(log_alpha.exp())

    def slope_at(self, alpha: Tensor, share: float | Tensor = 1.0) -> Tensor:
        """A share of the slope by log alpha, from alpha itself: a new tensor."""
        first, second, half = (alpha.new_full((), c) for c in (-self.c1, -2.0 * self.c2, -0.5))
        inner = torch.add(second, alpha, alpha=-3.0 * self.c3)
        torch.addcmul(first, inner, alpha, out=inner)
        return torch.addcmul(half, inner, alpha, out=inner).mul_(share)


@dataclass(frozen=True)
class Sigmoid(LogUniform):
    """A sigmoid for every alpha, off by less than 0.01 nats everywhere.

    KL = k1 - k1 sigmoid(k2 + k3 log alpha) + log(1 + 1 / alpha) / 2

    Reference: D. Molchanov, A. Ashukha, D. Vetrov, "Variational dropout sparsifies deep neural networks", 2017,
        equation 14, https://arxiv.org/abs/1701.05369
    """

    k1: float = 0.63576
    k2: float = 1.87320
    k3: float = 1.48695

    def kl(self, log_alpha: Tensor) -> Tensor:
        return F.softplus(-log_alpha).mul_(0.5).add_(self.rest(log_alpha), alpha=self.k1)

    def slope(self, log_alpha: Tensor) -> Tensor:
        return self.bell(self.rest(log_alpha)).sub_(torch.sigmoid(-log_alpha), alpha=0.5)

    def rest(self, log_alpha: Tensor) -> Tensor:
        """1 - sigmoid(k2 + k3 log alpha), without the loss of digits where alpha is large."""
        return torch.add(log_alpha.new_full((), -self.k2), log_alpha, alpha=-self.k3).sigmoid_()

    def bell(self, rest: Tensor, out: Tensor | None = None) -> Tensor:
        """The slope of k1 rest by log alpha."""
        return torch.addcmul(rest, rest, rest, value=-1.0, out=out).mul_(-self.k1 * self.k3)
