"""Normal observation noise: fixed, learned, or predicted by the network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
TAIL = 7.1
"""Standard deviations that leave about 1e-12 outside."""


def normal_cdf(z: Tensor) -> Tensor:
    """Phi(z) = erfc(-z / sqrt 2) / 2, which keeps its digits in the lower tail."""
    return 0.5 * torch.special.erfc(z * -math.sqrt(0.5))


class GaussianNoise(NumericLikelihood):
    """What the three Gaussian likelihoods share once the scale is known."""

    outputs_per_target: ClassVar[int] = 1

    @abstractmethod
    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor | float]:
        """Mean and standard deviation, broadcastable to (..., B, D)."""

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, type(self).__name__, self.outputs_per_target)
        check_finite(y)
        return y

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        mean, scale = self.location_scale(outputs, params)
        log_scale = scale.log() if isinstance(scale, Tensor) else math.log(scale)
        return -0.5 * ((y - mean) / scale).square() - (log_scale + HALF_LOG_2PI)

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
        return normal_cdf((y - mean) / scale)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        mean, scale = self.location_scale(outputs, params)
        return normal_cdf((mean - y) / scale)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """1 / scale^2 on the diagonal."""
        return torch.diag_embed(self._scale(outputs, params)[1].square().reciprocal())

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        mean, scale = self._scale(outputs, params)
        return mean - TAIL * scale, mean + TAIL * scale


@dataclass(frozen=True)
class Gaussian(GaussianNoise):
    """Normal noise whose standard deviation is known.

    p(y | f) = N(y; f, scale^2)

    Args:
        scale: standard deviation, in the units of y.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale", self.scale)

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, float]:
        return outputs, self.scale


@dataclass(frozen=True)
class LearnedScale(GaussianNoise, ABC):
    """Normal noise whose standard deviations are learned with the weights, each with a wide prior.

    Args:
        initial_scale: where log_scale starts, and the center of its prior.
    """

    initial_scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("initial_scale", self.initial_scale)

    @abstractmethod
    def scales(self, outputs: int) -> int:
        """How many standard deviations there are."""

    def parameters(self, outputs: int) -> Params:
        return {"log_scale": torch.full((self.scales(outputs),), math.log(self.initial_scale))}

    def log_prior(self, params: Params) -> Tensor:
        z = (params["log_scale"] - math.log(self.initial_scale)) / 3.0
        return (-0.5 * z.square() - math.log(3.0) - HALF_LOG_2PI).sum(-1)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        noise = torch.randn((members, self.scales(outputs)), generator=generator, device=generator.device)
        return {"log_scale": math.log(self.initial_scale) + 3.0 * noise}

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        return outputs, params["log_scale"].exp().unsqueeze(-2)


@dataclass(frozen=True)
class LearnedGaussian(LearnedScale):
    """Normal noise with one unknown standard deviation for each target, learned with the weights.

    p(y | f) = N(y; f, exp(log_scale)^2),   log_scale ~ N(log initial_scale, 3^2)

    Args:
        initial_scale: where log_scale starts, and the center of its (wide) prior.
    """

    def scales(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True)
class SharedGaussian(LearnedScale):
    """Normal noise with one unknown standard deviation for all targets together, such as the pixels of an image.

    p(y | f) = prod_d N(y_d; f_d, exp(log_scale)^2),   log_scale ~ N(log initial_scale, 3^2)

    A pixel that is the same in all images would draw a scale of its own to zero, and its density to infinity.

    Args:
        initial_scale: where log_scale starts, and the center of its (wide) prior.
    """

    def scales(self, outputs: int) -> int:
        return 1


@dataclass(frozen=True)
class HeteroscedasticGaussian(GaussianNoise):
    """Normal noise whose standard deviation depends on the input: the network has two outputs for each target.

    p(y | f, r) = N(y; f, (softplus(r) + floor)^2),   outputs = (f_1 .. f_D, r_1 .. r_D)

    Args:
        floor: smallest standard deviation, in the units of y; keeps the density bounded.

    Reference: D. A. Nix, A. S. Weigend, "Estimating the mean and variance of the target probability
        distribution", 1994.
    """

    outputs_per_target: ClassVar[int] = 2

    floor: float = 1e-3

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("floor", self.floor)

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, dim=-1)
        return mean, F.softplus(raw) + self.floor

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """1 / s^2 for the means and 2 (ds/dr)^2 / s^2 for the raw scales r, on the diagonal; ds/dr = sigmoid(r)."""
        raw = outputs.chunk(2, dim=-1)[1]
        precision = (F.softplus(raw) + self.floor).square().reciprocal()
        return torch.diag_embed(torch.cat([precision, 2.0 * raw.sigmoid().square() * precision], dim=-1))


@dataclass(frozen=True)
class MarginalGaussian(GaussianNoise):
    """Normal targets whose standard deviations are given beside the outputs: what is left when noise was computed.

    p(y | f) = N(y; f, scale^2),   scale = params["scale"], broadcastable to the outputs
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        return Gaussian().check_targets(y, outputs)

    def params_at(self, params: Params, rows: slice, examples: int) -> Params:
        scale = params["scale"]
        if scale.ndim < 2 or scale.shape[-2] == 1 < examples:
            return params
        each = scale.shape[-2] // examples  # positions of an example
        return {"scale": scale[..., rows.start * each : rows.stop * each, :]}

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        return outputs, params["scale"]
