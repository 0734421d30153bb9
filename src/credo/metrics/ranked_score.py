"""The continuous ranked probability score: the error of a whole distribution, in units of y."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from credo.core.integrals import integral_by_pieces
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian, SharedGaussian
from credo.likelihoods.gaussian import MarginalGaussian
from credo.metrics.inputs import ArrayLike, elements, numeric, targets_like
from credo.metrics.weights import average, weights_of_rows
from credo.predictive import GaussianPredictive, NumericMixture, NumericPredictive, Predictive

ENTRIES = 2**22
"""Entries of the largest temporary tensor: 32 MiB in float64."""
NODES, WEIGHTS = (-math.sqrt(0.6), 0.0, math.sqrt(0.6)), (5 / 18, 8 / 18, 5 / 18)
"""Gauss-Legendre rule of three points on a panel, exact for polynomials of degree five."""
NORMAL = (Gaussian, LearnedGaussian, SharedGaussian, HeteroscedasticGaussian, MarginalGaussian)
"""Likelihoods whose formula is known; a subclass may be no normal distribution any more."""

EXACT = (NumericMixture, GaussianPredictive)
"""Predictions that are mixtures by their likelihood, and nothing else."""


def crps(prediction: Predictive, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean continuous ranked probability score, over all examples and targets; lower is better.

    1/B sum_b integral (F_b(z) - [z >= y_b])^2 dz

    In units of y; for a prediction without spread it is the absolute error. Exact for mixtures of Gaussians and for
    counts, by quadrature for other likelihoods.

    Args:
        prediction: a Predictive over numbers.
        y: what was observed, (B,) or (B, D).
        weights: how much each example counts, (B,); None for one each.

    Reference: T. Gneiting, A. E. Raftery, "Strictly proper scoring rules, prediction, and estimation", 2007,
        https://doi.org/10.1198/016214506000001437
    """
    prediction, y, weights = elements(prediction, y, weights)
    each = pointwise_crps(prediction, y)
    return average(each, weights_of_rows(weights, each, each))


def pointwise_crps(prediction: Predictive, y: ArrayLike) -> Tensor:
    """The score of each observation on its own, (B, D).

    Args:
        prediction: a Predictive over numbers.
        y: what was observed, (B,) or (B, D).
    """
    prediction, y, _ = elements(prediction, y)
    mixture = numeric(prediction, "crps")
    targets = targets_like(y, mixture.mean)
    if type(mixture) in EXACT and type(mixture.likelihood) in NORMAL:
        mean = mixture.likelihood.mean(mixture.draws, mixture.params).double()
        scale = mixture.likelihood.variance(mixture.draws, mixture.params).double().sqrt()
        return crps_of_gaussian_mixture(mean, scale, mixture.log_weights.double().exp(), targets)
    if mixture.likelihood.discrete:
        return _by_sum(mixture, targets)
    return _by_quadrature(mixture, targets)


def crps_of_gaussian_mixture(mean: Tensor, scale: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    """The score of a mixture of S normal distributions in closed form, (B, D).

    sum_s w_s A(y - m_s, v_s) - 1/2 sum_st w_s w_t A(m_s - m_t, v_s + v_t),
    A(m, v) = E|N(m, v)| = 2 sqrt(v) phi(m / sqrt(v)) + m (2 Phi(m / sqrt(v)) - 1)

    The S^2 pairs are summed a few draws at a time, so that memory stays bounded.

    Args:
        mean: m, (S, B, D).
        scale: sqrt(v), standard deviations, (S, B, D).
        weights: w, (S,), sum to one.
        y: what was observed, (B, D).

    Reference: E. P. Grimit et al., "The continuous ranked probability score for circular variables and its
        application to mesoscale forecast ensemble verification", 2006, https://doi.org/10.1256/qj.05.235
    """
    variance = scale.square()
    distance = torch.tensordot(weights, _expected_absolute(y - mean, variance), dims=1)
    spread, few = torch.zeros_like(y), max(1, ENTRIES // y.numel())
    for i in range(len(mean)):
        # E|z - z'| of two independent draws from the same component; every other pair is counted once, and so twice
        spread += weights[i].square() * scale[i] * (2.0 / math.sqrt(math.pi))
        for start in range(i + 1, len(mean), few):
            j = slice(start, start + few)
            pairs = _expected_absolute(mean[i] - mean[j], variance[i] + variance[j])
            spread += 2.0 * weights[i] * torch.tensordot(weights[j], pairs, dims=1)
    return distance - 0.5 * spread


def _expected_absolute(mean: Tensor, variance: Tensor) -> Tensor:
    """E|z| for z ~ N(mean, variance); |mean| where the variance is zero."""
    scale = variance.sqrt()
    z = mean / scale.clamp_min(torch.finfo(scale.dtype).tiny)
    bell = torch.exp(-0.5 * z.square()) * math.sqrt(2.0 / math.pi)
    return scale * bell + mean * torch.erf(z * math.sqrt(0.5))


def _by_sum(mixture: NumericPredictive, y: Tensor) -> Tensor:
    """sum_k (F(k) - [k >= y])^2 over whole numbers k: exact, because F is constant between them."""
    lower, upper = _reach(mixture, y)
    total, adds = torch.zeros_like(y), type(mixture) in EXACT
    below = mixture.cdf((lower - 1.0).to(mixture.draws.dtype)).double() if adds else total
    for offset in range(int((upper - lower).max()) + 1):
        k = lower + offset
        # one probability more is cheaper than the distribution function anew
        below = below + _probability(mixture, k) if adds else mixture.cdf(k.to(mixture.draws.dtype)).double()
        error = below - (k >= y).double()
        total += torch.where(k < upper, error.square(), 0.0)
    return total


def _probability(mixture: NumericPredictive, k: Tensor) -> Tensor:
    """Of whole numbers, (B, D) in float64."""
    draws, params = mixture.draws.double(), {name: value.double() for name, value in mixture.params.items()}
    return mixture.average(mixture.likelihood.log_prob_each(draws, k, params).exp().to(mixture.draws.dtype)).double()


def _by_quadrature(mixture: NumericPredictive, y: Tensor) -> Tensor:
    """integral of F^2 below y and of (1 - F)^2 above it, with panels halved until nothing changes any more."""
    lower, upper = _reach(mixture, y)

    def cdf(z: Tensor) -> Tensor:
        return mixture.cdf(z.to(mixture.draws.dtype)).double()

    knots = mixture.likelihood.knots(mixture.draws, mixture.params) if type(mixture) in EXACT else None
    if knots is not None:  # a heavy tail is too long for even panels
        places = torch.cat([knots.flatten(0, 1).double(), lower.unsqueeze(0), upper.unsqueeze(0)]).sort(0).values
        below = integral_by_pieces(lambda z: cdf(z).square(), places.minimum(y))
        return below + integral_by_pieces(lambda z: (1.0 - cdf(z)).square(), places.maximum(y))
    panels, before = 32, torch.full_like(y, torch.inf)
    while True:
        below = _integral(lambda z: cdf(z).square(), lower, y, panels)
        total = below + _integral(lambda z: (1.0 - cdf(z)).square(), y, upper, panels)
        if panels >= 2**14 or bool(((total - before).abs() <= 1e-6 * total).all()):
            return total
        panels, before = 2 * panels, total


def _reach(mixture: NumericPredictive, y: Tensor) -> tuple[Tensor, Tensor]:
    """Where the distribution function is neither 0 nor 1, and y."""
    lower, upper = mixture.support()
    return torch.minimum(lower.double(), y), torch.maximum(upper.double(), y)


def _integral(function: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor, panels: int) -> Tensor:
    step = (upper - lower) / panels
    total = torch.zeros_like(lower)
    for k in range(panels):
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            total += weight * function(lower + (k + 0.5 + 0.5 * node) * step)
    return total * step
