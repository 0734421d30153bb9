"""How heavy the tail of importance weights is: a verdict on how far an approximation can be trusted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_PRIOR = 3.0
"""Weight of the first quartile in the grid of Zhang and Stephens."""
_PULL, _TOWARDS = 10.0, 0.5
"""A weak prior on k, worth ten observations at one half, as in Vehtari et al., appendix C."""


def fit_generalised_pareto(excess: Tensor) -> tuple[float, float]:
    """Shape k and scale of a generalised Pareto distribution, by the quasi-Bayesian estimate of Zhang and Stephens.

    p(x) = 1 / scale (1 + k x / scale)^(-1/k - 1),   x > 0

    Args:
        excess: positive numbers, (n,), in any order; at least 5.

    Example:
        >>> uniform = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
        >>> shape, scale = fit_generalised_pareto(-(1 - uniform).log())  # quantiles of the exponential: k = 0
        >>> abs(shape) < 0.02, abs(scale - 1) < 0.02
        (True, True)

    Reference: J. Zhang, M. A. Stephens, "A new and efficient estimation method for the generalized Pareto
        distribution", 2009, https://doi.org/10.1198/tech.2009.08017
    """
    x = torch.sort(excess.double().cpu()).values
    n = len(x)
    if n < 5 or not float(x[-1]) > 0.0:
        raise ValueError(f"a generalised Pareto fit needs at least 5 positive numbers, got {n}")
    grid = 30 + math.isqrt(n)
    quartile = float(x[max(0, math.floor(n / 4 + 0.5) - 1)]) or float(x[x > 0][0])
    ranks = torch.arange(1, grid + 1, dtype=torch.float64)
    theta = 1.0 / float(x[-1]) + (1.0 - (grid / (ranks - 0.5)).sqrt()) / (_PRIOR * quartile)
    shapes = torch.log1p(-theta.unsqueeze(1) * x).mean(1)  # their k has the other sign
    profile = n * ((-theta / shapes).log() - shapes - 1.0)
    mean_theta = float((theta * torch.softmax(profile, 0)).sum())
    shape = float(torch.log1p(-mean_theta * x).mean())
    return shape, -shape / mean_theta


def pareto_k(log_weights: Tensor) -> float:
    """k-hat: the shape of the tail of importance weights, whose moments exist up to order 1 / k.

    Below 0.5 the weights have a finite variance and the approximation is close; up to 0.7 importance sampling still
    corrects it; above, the approximation misses a part of the target that matters. The reference implementation is
    `psislw` of ArviZ.

    Args:
        log_weights: log of target over proposal at S draws of the proposal, (S,), up to a constant.

    Returns:
        k-hat; infinite where there are too few draws to tell (S below 25) or a weight is not a number, and minus
        infinity where the largest weights are all the same.

    Reference: A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, "Pareto smoothed importance sampling", 2015,
        https://arxiv.org/abs/1507.02646; Y. Yao et al., "Yes, but did it work? Evaluating variational inference",
        2018, https://arxiv.org/abs/1802.02538
    """
    logs = torch.sort(log_weights.double().cpu()).values
    count = math.ceil(min(0.2 * len(logs), 3.0 * math.sqrt(len(logs))))
    if count < 5 or not bool(torch.isfinite(logs[-1])):
        return math.inf
    cutoff = logs[-count - 1].clamp_min(math.log(torch.finfo(torch.float64).tiny) + float(logs[-1]))
    tail = (logs[-count:] - logs[-1]).exp() - (cutoff - logs[-1]).exp()
    if not float(tail[-1]) > 0.0:  # the largest weights are all the same: there is no tail
        return -math.inf
    shape = fit_generalised_pareto(tail[tail > 0])[0] if int((tail > 0).sum()) >= 5 else math.inf
    return (shape * count + _TOWARDS * _PULL) / (count + _PULL)
