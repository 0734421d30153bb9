"""The beta distribution's function."""

from __future__ import annotations

import math

from torch import Tensor

from credo.core.special import incomplete_beta


def log_beta(a: float, b: float) -> float:
    """log B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(theta: Tensor, a: float, b: float) -> Tensor:
    """The regularized incomplete beta function I_theta(a, b), element by element, for theta in [0, 1]."""
    return incomplete_beta(theta, 1.0 - theta, theta.new_tensor(a), theta.new_tensor(b))[0]
