"""What makes all directions of the posterior look alike: an estimate of its covariance, through which momenta act.

Momenta are kept white. With the covariance estimated as L L^T, the usual momentum p = L^-T r has the mass matrix
(L L^T)^-1, and in terms of r ~ N(0, I) the mass matrix is gone from the kinetic energy |r|^2 / 2, from U-turns and from
the drawing of momenta: it enters where positions and gradients do, in these two products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Metric(ABC):
    """A factor L of the posterior's covariance."""

    @abstractmethod
    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        """r + step L^T g, (C, P)."""

    @abstractmethod
    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        """q + step L r, (C, P)."""

    @abstractmethod
    def force(self, gradient: Tensor) -> Tensor:
        """L^T g, (C, P): the gradient with respect to white positions."""

    @abstractmethod
    def whiten(self, offset: Tensor) -> Tensor:
        """L^-1 q, (C, P): differences of positions in units of the posterior's spread."""


@dataclass(frozen=True)
class DiagonalMetric(Metric):
    """Standard deviations of the weights one by one.

    Attributes:
        scale: (P,).
    """

    scale: Tensor

    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        return torch.addcmul(momentum, gradient, self.scale, value=step)

    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        return torch.addcmul(position, momentum, self.scale, value=step)

    def force(self, gradient: Tensor) -> Tensor:
        return gradient * self.scale

    def whiten(self, offset: Tensor) -> Tensor:
        return offset / self.scale


@dataclass(frozen=True)
class DenseMetric(Metric):
    """All covariances: worth its P^2 numbers where a few hundred weights are strongly correlated.

    Attributes:
        factor: lower triangular L, (P, P).
    """

    factor: Tensor

    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        return torch.addmm(momentum, gradient, self.factor, alpha=step)

    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        return torch.addmm(position, momentum, self.factor.T, alpha=step)

    def force(self, gradient: Tensor) -> Tensor:
        return gradient @ self.factor

    def whiten(self, offset: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, offset.T, upper=False).T


def unit_metric(count: int, like: Tensor, *, dense: bool) -> Metric:
    """The metric before anything is known: all scales one."""
    ones = torch.ones(count, dtype=like.dtype, device=like.device)
    return DenseMetric(torch.diag(ones)) if dense else DiagonalMetric(ones)
