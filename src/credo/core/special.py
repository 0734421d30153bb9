"""The incomplete beta function, which torch does not have: tails of Student's t and of counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

TINY = 1e-300
"""Stands in for a zero denominator (Lentz's method)."""
CONVERGED = 4e-16
"""Change of a continued fraction, as a part of it, below which it has converged."""


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """log B(a, b)."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def incomplete_beta(x: Tensor, rest: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The regularized incomplete beta function I_x(a, b) and 1 - I_x(a, b), element by element, in float64.

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * K(x),   K a continued fraction

    The fraction converges within O(sqrt(max(a, b))) terms below the mean; above the mean the symmetry
    I_x(a, b) = 1 - I_(1-x)(b, a) leads back there.

    Args:
        x: between 0 and 1.
        rest: 1 - x, which the caller may know to more digits than x says.
        a: above zero.
        b: above zero.

    Returns:
        Both, of which the smaller one has all its digits.

    Reference: M. Abramowitz, I. A. Stegun, "Handbook of mathematical functions", 1964, eq. 26.5.8.
    """
    x, rest, a, b = torch.broadcast_tensors(x.double(), rest.double(), a.double(), b.double())  # type: ignore[no-untyped-call]
    flip = x > (a + 1.0) / (a + b + 2.0)
    z, w = torch.where(flip, rest, x), torch.where(flip, x, rest)
    p, q = torch.where(flip, b, a), torch.where(flip, a, b)
    log_front = torch.special.xlogy(p, z) + torch.special.xlogy(q, w) - p.log() - log_beta(p, q)
    part = log_front.exp() * _continued_fraction(z, p, q)
    return torch.where(flip, 1.0 - part, part), torch.where(flip, part, 1.0 - part)


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
        if bool(((factor - 1).abs() < CONVERGED).all()):
            break
    return value


def _away_from_zero(t: Tensor) -> Tensor:
    return torch.where(t.abs() < TINY, TINY, t)
