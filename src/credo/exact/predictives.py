"""What the exact models believe about new targets; the names and shapes are those of `credo.Predictive`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.checks import check_between
from credo.exact.inputs import vector

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class NormalPredictive:
    """A normal distribution for each of B targets.

    Attributes:
        mean: (B, 1).
        epistemic: variance that more data would remove, (B, 1).
        aleatoric: variance of the noise, (B, 1).
        spread: rows whose products are the covariances between the B expectations, (B, P).
    """

    mean: Tensor
    epistemic: Tensor
    aleatoric: Tensor
    spread: Tensor

    @property
    def variance(self) -> Tensor:
        return self.epistemic + self.aleatoric

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, (B, 1) each, with `level` between them."""
        check_between("level", level)
        half = math.sqrt(2) * torch.special.erfinv(torch.tensor(level, dtype=torch.float64)) * self.stddev
        return self.mean - half, self.mean + half

    def log_prob(self, y: Tensor) -> Tensor:
        """log p(y_b | x_b, data) of each example on its own, (B,)."""
        z = (_targets(y, len(self.mean)) - self.mean) / self.stddev
        return (-0.5 * z.square() - self.stddev.log() - HALF_LOG_2PI).squeeze(1)

    def joint_log_prob(self, y: Tensor) -> Tensor:
        """log p(y_1 .. y_B | x_1 .. x_B, data) of all examples together, ()."""
        covariance = self.spread @ self.spread.T + torch.diag(self.aleatoric.squeeze(1))
        normal = torch.distributions.MultivariateNormal(self.mean.squeeze(1), covariance, validate_args=False)
        return normal.log_prob(_targets(y, len(self.mean)).squeeze(1))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class MixturePredictive:
    """The weighted mixture over the functions of a grid: p(y | x, data) = sum_k w_k N(y; f_k(x), noise_scale^2).

    Attributes:
        functions: f_k(x_b), (K, B, 1).
        weights: posterior weights of the functions, (K,); they sum to one.
        noise_scale: standard deviation of the noise.
    """

    functions: Tensor
    weights: Tensor
    noise_scale: float

    @cached_property
    def mean(self) -> Tensor:  # (B, 1)
        return torch.tensordot(self.weights, self.functions, dims=1)

    @cached_property
    def epistemic(self) -> Tensor:  # (B, 1)
        return torch.tensordot(self.weights, (self.functions - self.mean).square(), dims=1)

    @property
    def aleatoric(self) -> Tensor:  # (B, 1)
        return torch.full_like(self.mean, self.noise_scale**2)

    @property
    def variance(self) -> Tensor:
        return self.epistemic + self.aleatoric

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        """log sum_k w_k N(y_b; f_k(x_b), noise_scale^2) of each example, (B,)."""
        return torch.logsumexp(self._by_function(y) + self.weights.log().unsqueeze(1), dim=0)

    def joint_log_prob(self, y: Tensor) -> Tensor:
        """log sum_k w_k prod_b N(y_b; f_k(x_b), noise_scale^2) of all examples together, ()."""
        return torch.logsumexp(self._by_function(y).sum(1) + self.weights.log(), dim=0)

    def _by_function(self, y: Tensor) -> Tensor:
        """log N(y_b; f_k(x_b), noise_scale^2), (K, B)."""
        z = (_targets(y, self.functions.shape[1]) - self.functions) / self.noise_scale
        return (-0.5 * z.square() - math.log(self.noise_scale) - HALF_LOG_2PI).squeeze(-1)


def _targets(y: Tensor, rows: int) -> Tensor:
    column = vector(y, "y").unsqueeze(1)
    if len(column) != rows:
        raise ValueError(f"y has {len(column)} rows and the prediction {rows}")
    return column
