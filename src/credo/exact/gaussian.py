"""A normal distribution over a few weights, with its full covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_positive
from credo.core.rng import Stream
from credo.exact.inputs import matrix, vector
from credo.exact.predictives import NormalPredictive


@dataclass(frozen=True, eq=False)
class GaussianWeights:
    """N(mean, covariance), held as the triangular root of its precision so that nothing is ever inverted.

    precision = root^T root,   covariance = precision^-1

    `GaussianWeights.isotropic`, `.diagonal` and `.from_covariance` are the ways to make one.

    Attributes:
        mean: (P,).
        root: upper triangular with a positive diagonal, (P, P).

    Examples:
        >>> GaussianWeights.isotropic(2, scale=3.0).covariance.diagonal().tolist()
        [9.0, 9.0]
    """

    mean: Tensor
    root: Tensor

    @staticmethod
    def isotropic(size: int, scale: float) -> GaussianWeights:
        """N(0, scale^2 I) over `size` weights: the usual prior."""
        check_at_least("size", size, 1)
        check_positive("scale", scale)
        return GaussianWeights(torch.zeros(size, dtype=torch.float64), torch.eye(size, dtype=torch.float64) / scale)

    @staticmethod
    def diagonal(mean: Tensor, scale: Tensor) -> GaussianWeights:
        """Independent weights with the given standard deviations."""
        mean, scale = vector(mean, "mean"), vector(scale, "scale")
        if mean.shape != scale.shape or not bool((scale > 0).all()):
            raise ValueError("scale must hold one positive standard deviation for each entry of mean")
        return GaussianWeights(mean, scale.reciprocal().diag())

    @staticmethod
    def from_covariance(mean: Tensor, covariance: Tensor) -> GaussianWeights:
        """N(mean, covariance) from a symmetric positive definite matrix."""
        mean, covariance = vector(mean, "mean"), matrix(covariance, "covariance")
        if covariance.shape != (len(mean), len(mean)):
            raise ValueError(f"covariance has shape {tuple(covariance.shape)}, and mean {len(mean)} entries")
        if float((covariance - covariance.T).abs().max()) > 1e-10 * float(covariance.abs().max()):
            raise ValueError("covariance is not symmetric: if by rounding alone, give (covariance + covariance.T) / 2")
        lower, failed = torch.linalg.cholesky_ex(covariance)
        if bool(failed):
            raise ValueError(
                "covariance is not positive definite: some combination of the weights has no variance; "
                "fix that combination, or add a small number to the diagonal"
            )
        identity = torch.eye(len(mean), dtype=torch.float64)
        return GaussianWeights(mean, triangular(torch.linalg.solve_triangular(lower, identity, upper=False))[1])

    @property
    def size(self) -> int:
        """P."""
        return len(self.mean)

    @property
    def precision(self) -> Tensor:
        """Inverse of the covariance, (P, P)."""
        return self.root.T @ self.root

    @cached_property
    def covariance(self) -> Tensor:
        """(P, P)."""
        inverse = self._unroot(torch.eye(self.size, dtype=torch.float64))
        return inverse @ inverse.T

    @property
    def scale(self) -> Tensor:
        """Marginal standard deviation of each weight, (P,)."""
        return self.covariance.diagonal().sqrt()

    @property
    def log_det_root(self) -> float:
        """Half the log determinant of the precision."""
        return float(self.root.diagonal().log().sum())

    @property
    def entropy(self) -> float:
        """In nats."""
        return 0.5 * self.size * (1 + math.log(2 * math.pi)) - self.log_det_root

    def log_prob(self, weights: Tensor) -> Tensor:
        """Log density, (..., P) to (...)."""
        standard = (weights.double() - self.mean) @ self.root.T
        return self.log_det_root - 0.5 * (standard.square().sum(-1) + self.size * math.log(2 * math.pi))

    def sample(self, count: int, stream: Stream) -> Tensor:
        """`count` draws, (count, P)."""
        check_at_least("count", count, 1)
        return self.mean + self._unroot(stream.normal(self.size, count, dtype=torch.float64)).T

    def kl(self, other: GaussianWeights) -> float:
        """KL(self || other), in nats."""
        spread = other.root @ self._unroot(torch.eye(self.size, dtype=torch.float64))
        shift = other.root @ (self.mean - other.mean)
        squares = float(spread.square().sum() + shift.square().sum())
        return 0.5 * (squares - self.size) + self.log_det_root - other.log_det_root

    def predict(self, design: Tensor, noise_scale: float) -> NormalPredictive:
        """The distribution of y = design w + noise, when w has this distribution.

        Args:
            design: (B, P).
            noise_scale: standard deviation of the noise.
        """
        check_positive("noise_scale", noise_scale)
        rows = matrix(design, "design")
        if rows.shape[1] != self.size:
            raise ValueError(f"design has {rows.shape[1]} column(s), and there are {self.size} weight(s)")
        spread = torch.linalg.solve_triangular(self.root.T, rows.T, upper=False)  # (P, B)
        epistemic = spread.square().sum(0).unsqueeze(1)
        mean, noise = (rows @ self.mean).unsqueeze(1), torch.full_like(epistemic, noise_scale**2)
        return NormalPredictive(mean, epistemic, noise, spread.T)

    def _unroot(self, standard: Tensor) -> Tensor:
        """root^-1 standard, for (P, n)."""
        return torch.linalg.solve_triangular(self.root, standard, upper=True)


def triangular(tall: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal Q and upper triangular R with a positive diagonal, Q R = tall."""
    q, r = torch.linalg.qr(tall)
    signs = torch.where(r.diagonal() < 0, -1.0, 1.0).to(r)
    return q * signs, r * signs.unsqueeze(1)
