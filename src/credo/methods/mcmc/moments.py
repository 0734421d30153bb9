"""Means and spreads of chains as they move: what a metric is made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.methods.mcmc.metric import DenseMetric, DiagonalMetric, Metric

_PRIOR_COUNT = 5.0
_PRIOR_VARIANCE = 1e-3
"""Stan's regularisation: the estimate is mixed with this variance, as if it had been seen so many times."""


@dataclass(frozen=True)
class Moments:
    """Sums over a window, by Welford's recursion.

    Chains are pooled: each is centred at its own mean, and their scatter is added up. So C chains learn the metric C
    times as fast, and chains that sit in different (for a network often mirrored) modes do not mistake the distance
    between the modes for the spread within one.

    Attributes:
        count: iterations seen, (1,).
        mean: of each chain, (C, P).
        scatter: sum over chains and iterations of squared deviations, (P,), or of their products, (P, P).
    """

    count: Tensor
    mean: Tensor
    scatter: Tensor

    @staticmethod
    def none(like: Tensor, *, dense: bool) -> Moments:
        """Nothing seen yet, of positions like these, (C, P)."""
        size = like.shape[1]
        scatter = like.new_zeros((size, size) if dense else (size,))
        return Moments(torch.zeros(1, dtype=torch.float64), torch.zeros_like(like), scatter)

    @property
    def seen(self) -> float:
        return float(self.count)

    def updated(self, position: Tensor) -> Moments:
        """With one more position of every chain, (C, P)."""
        count = self.count + 1.0
        before = position - self.mean
        mean = self.mean + before / float(count)
        after = position - mean
        if self.scatter.ndim == 2:
            return Moments(count, mean, torch.addmm(self.scatter, before.T, after))
        return Moments(count, mean, self.scatter + (before * after).sum(0))

    def metric(self) -> Metric:
        """The metric that this window teaches."""
        chains, total = len(self.mean), self.seen * len(self.mean)
        shrink = total / (total + _PRIOR_COUNT)
        covariance = self.scatter * (shrink / max(total - chains, 1.0))
        ridge = (1.0 - shrink) * _PRIOR_VARIANCE
        if self.scatter.ndim == 2:
            covariance.diagonal().add_(ridge)
            factor, failed = torch.linalg.cholesky_ex(covariance)
            if not bool(failed):
                # LAPACK lays it out by columns and a checkpoint by rows: products would round differently
                return DenseMetric(factor.contiguous())
            return DenseMetric(torch.diag(covariance.diagonal().sqrt()))
        return DiagonalMetric((covariance + ridge).sqrt())
