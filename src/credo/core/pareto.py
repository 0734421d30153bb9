"""The tail of importance weights: how heavy it is, and weights that are less noisy there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

USABLE = 0.7
"""k-hat from which on importance weights cannot be relied on."""

_QUARTILES = 3.0
"""First quartiles that set the scale of the grid of Zhang and Stephens."""
_PRIOR_COUNT, _PRIOR_SHAPE = 10.0, 0.5
"""A weak prior on k, worth ten observations at one half, as in Vehtari et al., appendix C."""


def fit_generalized_pareto(excess: Tensor) -> tuple[float, float]:
    """Shape k and scale of a generalized Pareto distribution, by the quasi-Bayesian estimate of Zhang and Stephens.

    p(x) = 1 / scale (1 + k x / scale)^(-1/k - 1),   x > 0

    Args:
        excess: positive numbers, (n,), in any order; at least 5.

    Examples:
        >>> uniform = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
        >>> shape, scale = fit_generalized_pareto(-(1 - uniform).log())  # quantiles of the exponential: k = 0
        >>> abs(shape) < 0.02, abs(scale - 1) < 0.02
        (True, True)

    Reference: J. Zhang, M. A. Stephens, "A new and efficient estimation method for the generalized Pareto
        distribution", 2009, https://doi.org/10.1198/tech.2009.08017
    """
    x = torch.sort(excess.double().cpu()).values
    n = len(x)
    if n < 5 or not float(x[-1]) > 0.0:
        raise ValueError(f"a generalized Pareto fit needs at least 5 positive numbers, got {n}")
    grid = 30 + math.isqrt(n)
    quartile = float(x[max(0, math.floor(n / 4 + 0.5) - 1)]) or float(x[x > 0][0])
    ranks = torch.arange(1, grid + 1, dtype=torch.float64)
    theta = 1.0 / float(x[-1]) + (1.0 - (grid / (ranks - 0.5)).sqrt()) / (_QUARTILES * quartile)
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
        k-hat; infinite where too few draws (below 5) make up the tail, or a weight is not a number, and minus infinity
        where the largest weights are all the same (where ArviZ says infinity).

    Reference: A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, "Pareto smoothed importance sampling", 2015,
        https://arxiv.org/abs/1507.02646; Y. Yao et al., "Yes, but did it work? Evaluating variational inference",
        2018, https://arxiv.org/abs/1802.02538
    """
    return smoothed(log_weights).k


@dataclass(frozen=True)
class Smoothed:
    """Importance weights after Pareto smoothing."""

    log_weights: Tensor  # on the scale of those that were given, (S,), in float64 on the CPU
    k: float  # k-hat


def smoothed(log_weights: Tensor) -> Smoothed:
    """Importance weights whose largest are replaced by the quantiles of a generalized Pareto tail fitted to them.

    The M weights above all but the largest min(S / 5, 3 sqrt(S)) become the (j - 1/2) / M quantiles of the fitted tail,
    none above the largest raw weight; M is smaller where weights are tied. Their order stays; what chance did to the
    last few of them is averaged out.

    Args:
        log_weights: log of target over proposal at S draws of the proposal, (S,), up to a constant.

    Returns:
        The weights; as they were where k-hat cannot be told, or is 1 or more: such a tail has no mean, and its
        quantiles would be noise on a larger scale. See `pareto_k` for what k-hat means.

    Examples:
        >>> equal = smoothed(torch.zeros(100))
        >>> equal.k, float(equal.log_weights.abs().max())
        (-inf, 0.0)

    Reference: A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, "Pareto smoothed importance sampling", 2015,
        https://arxiv.org/abs/1507.02646
    """
    raw = log_weights.detach().double().cpu()
    logs, order = torch.sort(raw, stable=True)
    count = math.ceil(min(0.2 * len(logs), 3.0 * math.sqrt(len(logs))))
    largest = logs[-1:]
    if count < 5 or not bool(largest.isfinite()):
        return Smoothed(raw, math.inf)
    cutoff = (logs[-count - 1] - largest).clamp_min(math.log(torch.finfo(torch.float64).tiny))
    if not float(cutoff.exp()) < 1.0:  # the largest weights are all the same: there is no tail
        return Smoothed(raw, -math.inf)
    tail = logs[logs - largest > cutoff] - largest  # without what ties with the cutoff
    excess = tail.exp() - cutoff.exp()
    if len(tail) < 5:
        return Smoothed(raw, math.inf)
    shape, scale = fit_generalized_pareto(excess)
    k = (shape * len(tail) + _PRIOR_COUNT * _PRIOR_SHAPE) / (len(tail) + _PRIOR_COUNT)
    if k >= 1.0:
        return Smoothed(raw, k)
    exponential = -torch.log1p(-(torch.arange(len(tail), dtype=torch.float64) + 0.5) / len(tail))
    quantiles = scale * (exponential if abs(k) < 1e-12 else torch.expm1(k * exponential) / k)
    fitted = (cutoff.exp() + quantiles).log().clamp_max(0.0) + largest
    return Smoothed(raw.scatter(0, order[-len(tail) :], fitted), k)
