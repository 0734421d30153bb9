"""Normal observation noise: fixed, learned, or predicted by the network."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
TAIL = 7.1
"""Standard deviations that leave about 1e-12 outside."""


class _Normal(NumericLikelihood):
    """What the three Gaussian likelihoods share once the scale is known."""

    @abstractmethod
    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor | float]:
        """Mean and standard deviation, broadcastable to (..., B, D)."""

    def density(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        mean, scale = self.location_scale(outputs, params)
        log_scale = scale.log() if isinstance(scale, Tensor) else math.log(scale)
        return -0.5 * ((y - mean) / scale).square() - (log_scale + HALF_LOG_2PI)

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.density(outputs, y, params).sum(-1)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return self.location_scale(outputs, params)[0]

    def _scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        mean, scale = self.location_scale(outputs, params)
        return mean, torch.as_tensor(scale, dtype=mean.dtype, device=mean.device).expand_as(mean)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return self._scale(outputs, params)[1].square()

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        mean, scale = self._scale(outputs, params)
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + scale * noise

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return self._scale(outputs, params)[1].log() + (HALF_LOG_2PI + 0.5)

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        mean, scale = self.location_scale(outputs, params)
        return torch.special.ndtr((y - mean) / scale)

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        mean, scale = self._scale(outputs, params)
        return mean - TAIL * scale, mean + TAIL * scale


@dataclass(frozen=True)
class Gaussian(_Normal):
    """Normal noise whose standard deviation is known.

    p(y | f) = N(y; f, scale^2)

    Args:
        scale: standard deviation, in the units of y.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale", self.scale)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "Gaussian")
        check_finite(y)
        return y

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, float]:
        return outputs, self.scale


@dataclass(frozen=True)
class LearnedGaussian(_Normal):
    """Normal noise with one unknown standard deviation for each target, learned with the weights.

    p(y | f) = N(y; f, exp(log_scale)^2),   log_scale ~ N(log initial_scale, 3^2)

    Args:
        initial_scale: where log_scale starts, and the centre of its (wide) prior.
    """

    initial_scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("initial_scale", self.initial_scale)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "LearnedGaussian")
        check_finite(y)
        return y

    def parameters(self, outputs: int) -> Params:
        return {"log_scale": torch.full((outputs,), math.log(self.initial_scale))}

    def log_prior(self, params: Params) -> Tensor:
        z = (params["log_scale"] - math.log(self.initial_scale)) / 3.0
        return (-0.5 * z.square() - math.log(3.0) - HALF_LOG_2PI).sum(-1)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        noise = torch.randn((members, outputs), generator=generator, device=generator.device)
        return {"log_scale": math.log(self.initial_scale) + 3.0 * noise}

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        return outputs, params["log_scale"].exp().unsqueeze(-2)


@dataclass(frozen=True)
class HeteroscedasticGaussian(_Normal):
    """Normal noise whose standard deviation depends on the input: the network has two outputs for each target.

    p(y | f, r) = N(y; f, (softplus(r) + floor)^2),   outputs = (f_1 .. f_D, r_1 .. r_D)

    Args:
        floor: smallest standard deviation, in the units of y; keeps the density bounded.

    Reference: D. A. Nix, A. S. Weigend, "Estimating the mean and variance of the target probability
        distribution", 1994.
    """

    floor: float = 1e-3

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("floor", self.floor)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "HeteroscedasticGaussian", per_target=2)
        check_finite(y)
        return y

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, dim=-1)
        return mean, F.softplus(raw) + self.floor
