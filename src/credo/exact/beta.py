"""The beta distribution's function, which torch does not have."""

from __future__ import annotations

import math

import torch
from torch import Tensor

TINY = 1e-300
"""Stands in for a zero denominator (Lentz's method)."""


def log_beta(a: float, b: float) -> float:
    """log B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(theta: Tensor, a: float, b: float) -> Tensor:
    """The regularized incomplete beta function I_theta(a, b), element by element, for theta in [0, 1].

    I_theta(a, b) = theta^a (1 - theta)^b / (a B(a, b)) * K(theta),   K a continued fraction

    The fraction converges within O(sqrt(max(a, b))) terms below the mean; above the mean the symmetry
    I_theta(a, b) = 1 - I_(1-theta)(b, a) leads back there.

    Reference: M. Abramowitz, I. A. Stegun, "Handbook of mathematical functions", 1964, eq. 26.5.8.
    """
    flip = theta > (a + 1) / (a + b + 2)
    x = torch.where(flip, 1 - theta, theta)
    first, second = theta.new_tensor(a), theta.new_tensor(b)
    p, q = torch.where(flip, second, first), torch.where(flip, first, second)
    log_front = torch.special.xlogy(p, x) + torch.special.xlog1py(q, -x) - p.log() - log_beta(a, b)
    lower = log_front.exp() * _continued_fraction(x, p, q)
    return torch.where(flip, 1 - lower, lower)


def _continued_fraction(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """K(x) of eq. 26.5.8 by Lentz's method as modified by Thompson and Barnett."""
    c = torch.ones_like(x)
    d = _away_from_zero(1 - (p + q) * x / (p + 1)).reciprocal()
    value = d
    terms = 100 + 20 * math.isqrt(int(torch.maximum(p, q).max()) if x.numel() else 0)
    for m in range(1, terms):
        even = m * (q - m) * x / ((p + 2 * m - 1) * (p + 2 * m))
        odd = -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1))
        factor = torch.ones_like(x)
        for step in (even, odd):
            d = _away_from_zero(1 + step * d).reciprocal()
            c = _away_from_zero(1 + step / c)
            factor = c * d
            value = value * factor
        if bool(((factor - 1).abs() < 4e-16).all()):
            break
    return value


def _away_from_zero(t: Tensor) -> Tensor:
    return torch.where(t.abs() < TINY, TINY, t)
