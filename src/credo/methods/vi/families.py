"""Two families for the score-function gradient: normal numbers, and yes-or-no variables that no draw can be
differentiated through."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.vi.score import Family

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class NormalFamily(Family):
    """q_f = N(mean_f, softplus(rho_f)^2), with parameters `mean` and `rho` of the same shape."""

    def sample(self, params: Params, count: int, noise: Stream) -> Tensor:
        mean = params["mean"]
        standard = noise.normal(count, *mean.shape, dtype=mean.dtype, device=mean.device)
        return torch.addcmul(mean, F.softplus(params["rho"]), standard)

    def log_prob(self, params: Params, z: Tensor) -> Tensor:
        scale = F.softplus(params["rho"])
        return -0.5 * ((z - params["mean"]) / scale).square() - scale.log() - HALF_LOG_2PI

    def scores(self, params: Params, z: Tensor) -> Params:
        """In closed form: (z - mean) / scale^2, and ((z - mean)^2 / scale^2 - 1) / scale * sigmoid(rho)."""
        scale = F.softplus(params["rho"])
        standard = (z - params["mean"]) / scale
        return {"mean": standard / scale, "rho": (standard.square() - 1.0) / scale * torch.sigmoid(params["rho"])}


@dataclass(frozen=True)
class BernoulliFamily(Family):
    """q_f(1) = sigmoid(logit_f), with the parameter `logit`."""

    def sample(self, params: Params, count: int, noise: Stream) -> Tensor:
        probs = torch.sigmoid(params["logit"]).expand(count, *params["logit"].shape)
        return torch.bernoulli(probs, generator=noise.generator(probs.device))

    def log_prob(self, params: Params, z: Tensor) -> Tensor:
        return -F.softplus(torch.where(z > 0.5, -1.0, 1.0) * params["logit"])
