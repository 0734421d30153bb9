"""Normal observation noise that is correlated between the targets of an example."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.trees import Params
from credo.likelihoods.gaussian import HALF_LOG_2PI, GaussianNoise

WIDTH = 3.0
"""Standard deviation of the prior of log_scale."""


@dataclass(frozen=True)
class MultivariateGaussian(GaussianNoise):
    """Normal noise with an unknown covariance of the D targets of an example, learned with the weights.

    p(y | f) = N(y; f, L L^T),   L = diag(exp(log_scale)) R,   row i of R = (z_i1 .. z_i,i-1, 1) / its length

    So exp(log_scale) are the standard deviations of the targets and R R^T is their correlation, whatever z is. Means,
    variances and intervals of single targets are those of independent noise; what differs is the probability of
    several together, and draws of them.

    log_scale ~ N(log initial_scale, 3^2),   z ~ N(0, 1)

    Args:
        initial_scale: where every standard deviation starts, and the center of its (wide) prior.

    Examples:
        >>> likelihood = MultivariateGaussian()
        >>> params = {"log_scale": torch.zeros(2), "correlation": torch.tensor([1.0])}
        >>> likelihood.covariance(params)
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]])
    """

    initial_scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("initial_scale", self.initial_scale)

    def parameters(self, outputs: int) -> Params:
        pairs = outputs * (outputs - 1) // 2
        log_scale = torch.full((outputs,), math.log(self.initial_scale))
        return {"log_scale": log_scale, **({"correlation": torch.zeros(pairs)} if pairs else {})}

    def log_prior(self, params: Params) -> Tensor:
        z = (params["log_scale"] - math.log(self.initial_scale)) / WIDTH
        prior = (-0.5 * z.square() - math.log(WIDTH) - HALF_LOG_2PI).sum(-1)
        if "correlation" in params:
            prior = prior - (0.5 * params["correlation"].square() + HALF_LOG_2PI).sum(-1)
        return prior

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        def noise(count: int) -> Tensor:
            return torch.randn((members, count), generator=generator, device=generator.device)

        pairs = outputs * (outputs - 1) // 2
        log_scale = math.log(self.initial_scale) + WIDTH * noise(outputs)
        return {"log_scale": log_scale, **({"correlation": noise(pairs)} if pairs else {})}

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        return outputs, params["log_scale"].exp().unsqueeze(-2)

    def root(self, params: Params) -> Tensor:
        """L, lower triangular, (..., D, D)."""
        log_scale = params["log_scale"]
        size = log_scale.shape[-1]
        rows = torch.eye(size, dtype=log_scale.dtype, device=log_scale.device).expand(*log_scale.shape, size)
        if "correlation" in params:
            place = torch.eye(size * size, dtype=rows.dtype, device=rows.device)
            below = torch.ones(size, size, device=rows.device).tril(-1).flatten().bool()
            rows = rows + (params["correlation"] @ place[below]).reshape(rows.shape)
        return rows * (log_scale.exp() / torch.linalg.vector_norm(rows, dim=-1)).unsqueeze(-1)

    def covariance(self, params: Params) -> Tensor:
        """L L^T, (..., D, D)."""
        root = self.root(params)
        return root @ root.mT

    @staticmethod
    def params_of(covariance: Tensor) -> Params:
        """The parameters whose covariance is this one, (..., D, D): the inverse of `covariance`."""
        root = torch.linalg.cholesky(covariance)
        log_scale = 0.5 * covariance.diagonal(dim1=-2, dim2=-1).log()
        size = root.shape[-1]
        rows, columns = torch.tril_indices(size, size, -1, device=root.device)
        if not len(rows):
            return {"log_scale": log_scale}
        ratios = root / root.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        return {"log_scale": log_scale, "correlation": ratios[..., rows, columns]}

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        root = self.root(params)
        white = torch.linalg.solve_triangular(root, (y - outputs).mT, upper=False)  # (..., D, B)
        volume = torch.diagonal(root, dim1=-2, dim2=-1).log().sum(-1) + root.shape[-1] * HALF_LOG_2PI
        return -0.5 * white.square().sum(-2) - volume.unsqueeze(-1)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        noise = torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype, device=outputs.device)
        return outputs + noise @ self.root(params).mT

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """(L L^T)^-1, the same for every example."""
        precision = torch.cholesky_inverse(self.root(params)).unsqueeze(-3)
        return precision.expand(*outputs.shape, outputs.shape[-1])
