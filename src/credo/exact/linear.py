"""Bayesian linear regression with known noise, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_positive
from credo.exact.gaussian import GaussianWeights, triangular
from credo.exact.grid import Grid
from credo.exact.inputs import matrix, vector
from credo.exact.predictives import MixturePredictive, NormalPredictive

RANK_TOLERANCE = 1e-12
"""Length left of a column, relative to its whole, once the columns before it are projected out, below which it counts
as their combination."""


def with_intercept(x: Any) -> Tensor:
    """Inputs (N,) or (N, D) as a design (N, D + 1) whose last column of ones belongs to the intercept.

    Examples:
        >>> with_intercept([2.0, 3.0]).tolist()
        [[2.0, 1.0], [3.0, 1.0]]
    """
    values = torch.as_tensor(x, dtype=torch.float64)
    columns = matrix(values.unsqueeze(1) if values.ndim == 1 else values, "x")
    return torch.cat([columns, torch.ones(len(columns), 1, dtype=torch.float64)], dim=1)


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """y = design w + noise, with a normal prior on w and normal noise of known standard deviation.

    w ~ prior,   y | w ~ N(design w, noise_scale^2 I),   p(w | data) = N(mean, precision^-1)
    precision = prior.precision + design^T design / noise_scale^2
    mean = precision^-1 (prior.precision prior.mean + design^T y / noise_scale^2)

    The normal equations are never formed: one QR decomposition of the design stacked on the root of the prior's
    precision gives mean, root of the precision and evidence, at the condition number of the design and not its square.

    Args:
        design: one row per example and one column per weight, (N, P); see `with_intercept`.
        y: targets, (N,) or (N, 1).
        noise_scale: standard deviation of the noise.
        prior: over the P weights, for example `GaussianWeights.isotropic(2, scale=10.0)`.

    Examples:
        >>> prior = GaussianWeights.isotropic(2, scale=1e3)
        >>> line = LinearRegression(with_intercept([0.0, 1.0]), [1.0, 3.0], 3.0, prior)
        >>> [round(w, 3) for w in line.posterior.mean.tolist()]  # slope, intercept
        [2.0, 1.0]

    Reference: C. M. Bishop, "Pattern recognition and machine learning", 2006, sections 3.3 and 3.5.
    """

    design: Tensor
    y: Tensor
    noise_scale: float
    prior: GaussianWeights

    def __post_init__(self) -> None:
        check_positive("noise_scale", self.noise_scale)
        object.__setattr__(self, "design", matrix(self.design, "design"))
        object.__setattr__(self, "y", vector(self.y, "y"))
        examples, columns = self.design.shape
        if len(self.y) != examples:
            raise ValueError(f"design has {examples} rows and y has {len(self.y)}: they must be the same number")
        if columns != self.prior.size:
            raise ValueError(f"design has {columns} column(s) and the prior {self.prior.size} weight(s)")

    @cached_property
    def posterior(self) -> GaussianWeights:
        """p(w | data)."""
        rows, targets = self._standardized
        q, root = triangular(rows)
        column = _dependent_column(rows, root)
        if column is not None:
            raise ValueError(
                f"column {column} of the design is a combination of the columns before it, and the prior is too wide "
                "to choose between them: drop that column, or give a narrower prior"
            )
        mean = torch.linalg.solve_triangular(root, (q.T @ targets).unsqueeze(1), upper=True).squeeze(1)
        return GaussianWeights(mean, root)

    @property
    def map_weights(self) -> Tensor:
        """The most probable weights, (P,): for a normal posterior its mean."""
        return self.posterior.mean

    @cached_property
    def maximum_likelihood(self) -> Tensor:
        """The weights of least squares, (P,), where these are unique."""
        if len(self.y) < self.prior.size:
            raise ValueError(
                f"{self.prior.size} weights are not determined by {len(self.y)} example(s): the maximum-likelihood "
                "weights are not unique; the posterior is"
            )
        q, root = triangular(self.design)
        column = _dependent_column(self.design, root)
        if column is not None:
            raise ValueError(
                f"column {column} of the design is a combination of the columns before it: the maximum-likelihood "
                "weights are not unique; drop that column, or use the posterior"
            )
        return torch.linalg.solve_triangular(root, (q.T @ self.y).unsqueeze(1), upper=True).squeeze(1)

    def log_likelihood(self, weights: Tensor) -> Tensor:
        """log p(y | w), (..., P) to (...)."""
        residuals = self.y - weights.double() @ self.design.T
        return -0.5 * (residuals / self.noise_scale).square().sum(-1) - self._log_noise

    def log_joint(self, weights: Tensor) -> Tensor:
        """log p(y | w) + log p(w), (..., P) to (...)."""
        return self.log_likelihood(weights) + self.prior.log_prob(weights)

    @property
    def log_evidence(self) -> float:
        """log p(y), the weights integrated out."""
        rows, targets = self._standardized
        squares = float((targets - rows @ self.posterior.mean).square().sum())
        return self.prior.log_det_root - self.posterior.log_det_root - 0.5 * squares - self._log_noise

    def predict(self, design: Tensor) -> NormalPredictive:
        """p(y | x, data) at new rows of the design, (B, P)."""
        return self.posterior.predict(design, self.noise_scale)

    def update(self, design: Tensor, y: Tensor) -> LinearRegression:
        """More data: today's posterior is tomorrow's prior."""
        return LinearRegression(design, y, self.noise_scale, self.posterior)

    @property
    def mean_field(self) -> GaussianWeights:
        """The best factorized normal, argmin_q KL(q || posterior): the exact mean, and variances 1 / precision_ii.

        These are the variances of each weight when all the others are known, so they are never above the marginal ones.
        """
        return GaussianWeights.diagonal(self.posterior.mean, self.posterior.precision.diagonal().rsqrt())

    @property
    def mean_field_gap(self) -> float:
        """log_evidence - elbo(mean_field) = (sum_i log precision_ii - log det precision) / 2, never negative."""
        return 0.5 * float(self.posterior.precision.diagonal().log().sum()) - self.posterior.log_det_root

    def elbo(self, q: GaussianWeights) -> float:
        """E_q[log p(y | w)] - KL(q || prior), for any normal q over the weights."""
        spread = q.predict(self.design, self.noise_scale).epistemic.sum() / self.noise_scale**2
        return float(self.log_likelihood(q.mean)) - 0.5 * float(spread) - q.kl(self.prior)

    def grid(self, axes: Sequence[Tensor]) -> Grid:
        """The posterior the hacker's way, on a grid with one axis per weight; practical for two or three weights."""
        if len(axes) != self.prior.size:
            raise ValueError(f"{len(axes)} axes were given for {self.prior.size} weight(s): give one axis per weight")
        points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        return Grid(tuple(axes), self.prior.log_prob(points), self.log_likelihood(points))

    def predict_by_grid(self, grid: Grid, design: Tensor) -> MixturePredictive:
        """p(y | x, data) as the weighted sum over all lines of the grid, at rows of the design (B, P)."""
        points = grid.points.flatten(0, -2)  # (K, P)
        functions = points @ matrix(design, "design").T
        return MixturePredictive(functions.unsqueeze(-1), grid.weights.flatten(), self.noise_scale)

    @property
    def _log_noise(self) -> float:
        return len(self.y) * (math.log(self.noise_scale) + 0.5 * math.log(2 * math.pi))

    @cached_property
    def _standardized(self) -> tuple[Tensor, Tensor]:
        """Rows and targets of the least-squares problem whose solution is the posterior mean: data, then prior."""
        rows = torch.cat([self.design / self.noise_scale, self.prior.root])
        targets = torch.cat([self.y / self.noise_scale, self.prior.root @ self.prior.mean])
        return rows, targets


def _dependent_column(rows: Tensor, root: Tensor) -> int | None:
    """The number of the first column that adds nothing new to those before it, if there is one."""
    lengths = rows.square().sum(0).sqrt()
    dependent = (root.diagonal().abs() <= RANK_TOLERANCE * lengths).nonzero()
    return int(dependent[0]) if len(dependent) else None
