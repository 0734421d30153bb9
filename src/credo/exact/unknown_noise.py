"""Bayesian linear regression with unknown noise, in closed form; several regressions at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.checks import check_positive
from credo.core.rng import Stream


@dataclass(frozen=True, eq=False)
class NormalInverseGamma:
    """The joint distribution of weights and noise variance of a linear regression, for a batch (...) of regressions.

    y | w, v ~ N(design w, v I),   w | v ~ N(mean, v precision^-1),   v ~ InverseGamma(shape, rate)

    Each weight then has a Student distribution of 2 shape degrees of freedom.

    Attributes:
        mean: (..., P).
        precision: (..., P, P), relative to that of the noise.
        shape: (...).
        rate: (...).

    Examples:
        >>> prior = NormalInverseGamma.isotropic((), weights=1, precision=1e-6, shape=1.0, rate=1.0)
        >>> x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 6.0])
        >>> round(float(prior.updated(x, y).mean), 3)
        3.0

    Reference: C. M. Bishop, "Pattern recognition and machine learning", 2006, section 3.3 and exercise 3.12.
    """

    mean: Tensor
    precision: Tensor
    shape: Tensor
    rate: Tensor

    @staticmethod
    def isotropic(
        batch: tuple[int, ...], weights: int, precision: float, shape: float, rate: float
    ) -> NormalInverseGamma:
        """The usual prior, N(0, v / precision I) and InverseGamma(shape, rate).

        Args:
            batch: the axes of independent regressions; () for one.
            weights: P.
            precision: of each weight, relative to that of the noise.
            shape: of the noise variance; twice as many data are as good as the prior.
            rate: of the noise variance, whose expectation is rate / (shape - 1).
        """
        for name, value in (("precision", precision), ("shape", shape), ("rate", rate)):
            check_positive(name, value)
        eye = precision * torch.eye(weights, dtype=torch.float64)
        one = torch.ones(batch, dtype=torch.float64)
        return NormalInverseGamma(
            torch.zeros(*batch, weights, dtype=torch.float64),
            eye.expand(*batch, weights, weights),
            shape * one,
            rate * one,
        )

    def of(self, *place: int) -> NormalInverseGamma:
        """One regression of the batch."""
        return NormalInverseGamma(*(t[place] for t in (self.mean, self.precision, self.shape, self.rate)))

    def replaced(self, other: NormalInverseGamma, *place: int) -> NormalInverseGamma:
        """The batch with another regression in one place."""
        pairs = [(getattr(self, name).clone(), getattr(other, name)) for name in ("mean", "precision", "shape", "rate")]
        for whole, part in pairs:
            whole[place] = part
        return NormalInverseGamma(*(whole for whole, _ in pairs))

    def updated(self, design: Tensor, y: Tensor) -> NormalInverseGamma:
        """The posterior after more data.

        precision' = precision + X^T X,   mean' = precision'^-1 (precision mean + X^T y),   shape' = shape + n / 2
        rate' = rate + (|y - X mean'|^2 + (mean' - mean)^T precision (mean' - mean)) / 2

        Args:
            design: X, (..., n, P).
            y: (..., n).
        """
        x, y = design.double(), y.double()
        precision = self.precision + x.mT @ x
        moment = self.precision @ self.mean.unsqueeze(-1) + x.mT @ y.unsqueeze(-1)
        mean = torch.cholesky_solve(moment, torch.linalg.cholesky(precision)).squeeze(-1)
        off, shift = y - (x @ mean.unsqueeze(-1)).squeeze(-1), mean - self.mean
        moved = (shift * (self.precision @ shift.unsqueeze(-1)).squeeze(-1)).sum(-1)
        rate = self.rate + (off.square().sum(-1) + moved) / 2
        return NormalInverseGamma(mean, precision, self.shape + y.shape[-1] / 2, rate)

    def sample(self, count: int, rng: Stream) -> Tensor:
        """`count` draws of the weights, (count, ..., P)."""
        batch, weights = self.shape.shape, self.mean.shape[-1]
        gamma = torch._standard_gamma(self.shape.expand(count, *batch), rng.child("noise").generator())
        standard = rng.child("weights").normal(count, *batch, weights, dtype=torch.float64)
        scaled = standard * (self.rate / gamma).sqrt().unsqueeze(-1)
        # precision = L L^T, so L^-T z has covariance precision^-1; draws are columns, that one factor serves all
        columns = torch.linalg.solve_triangular(self._root.mT, scaled.movedim(0, -1), upper=True)
        return self.mean + columns.movedim(-1, 0)

    def predict(self, design: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of design w, the noise left out, (..., n) each; infinite variance for a shape up to 1.

        Args:
            design: (..., n, P).
        """
        x = design.double()
        spread = torch.linalg.solve_triangular(self._root, x.mT, upper=False).square().sum(-2)
        noise = torch.where(self.shape > 1.0, self.rate / (self.shape - 1.0).clamp_min(1e-300), torch.inf)
        return (x @ self.mean.unsqueeze(-1)).squeeze(-1), spread * noise.unsqueeze(-1)

    @cached_property
    def _root(self) -> Tensor:
        return torch.linalg.cholesky(self.precision)
