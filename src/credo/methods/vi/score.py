"""The score-function gradient: for any q with a log density and any log joint, differentiable or not.

grad E_q[f(z)] = E_q[ f(z) grad log q(z) ],   f(z) = log p(z, data) - log q(z)

Only values of the log joint are needed. The price is variance, which three devices bring down without a bias:
Rao-Blackwellization leaves out of each factor's signal what does not depend on it; a control variate subtracts a
multiple of the score, whose expectation is zero; a baseline subtracts what earlier steps led to expect.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Family(ABC):
    """Distributions q(z) = prod_f q_f(z_f) with parameters that are tensors.

    The axes F of the factors stand in front in every parameter (*F, ...) and come after the draws elsewhere. A q that
    does not factorize has no such axes.
    """

    @abstractmethod
    def sample(self, params: Params, count: int, rng: Stream) -> Tensor:
        """`count` draws z, (S, ...)."""

    @abstractmethod
    def log_prob(self, params: Params, z: Tensor) -> Tensor:
        """log q_f(z_f) of S draws, (S, *F), differentiable in the parameters, which broadcast against an S in front."""

    def scores(self, params: Params, z: Tensor) -> Params:
        """grad log q_f(z_f) of every draw, (S, *F, ...) for each parameter."""
        leaves = {name: p.detach().expand(len(z), *p.shape).clone().requires_grad_() for name, p in params.items()}
        with torch.enable_grad():
            total = self.log_prob(leaves, z).sum()
        return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))


@dataclass(frozen=True)
class NormalFamily(Family):
    """q_f = N(mean_f, softplus(rho_f)^2), with parameters `mean` and `rho` of the same shape."""

    def sample(self, params: Params, count: int, rng: Stream) -> Tensor:
        mean = params["mean"]
        standard = rng.normal(count, *mean.shape, dtype=mean.dtype, device=mean.device)
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

    def sample(self, params: Params, count: int, rng: Stream) -> Tensor:
        probs = torch.sigmoid(params["logit"]).expand(count, *params["logit"].shape)
        return torch.bernoulli(probs, generator=rng.generator(probs.device))

    def log_prob(self, params: Params, z: Tensor) -> Tensor:
        return -F.softplus(torch.where(z > 0.5, -1.0, 1.0) * params["logit"])


@dataclass(frozen=True)
class LogJoint:
    """Values of log p(z, data) = shared(z) + sum_f factors_f(z_f) at S draws.

    Attributes:
        shared: what depends on all factors, (S,), or (S, 1, ...) to broadcast against factors.
        factors: what depends on one factor alone, such as its prior, (S, *F); 0 where there is nothing of the kind.
    """

    shared: Tensor
    factors: Tensor | float = 0.0


def signal(log_joint: LogJoint, log_q: Tensor, *, rao_blackwell: bool, axes: int | None = None) -> Tensor:
    """f(z) as each factor sees it, (S, *F).

    Args:
        log_joint: values at the draws.
        log_q: log q_f(z_f), (S, *F).
        rao_blackwell: leave out the terms of other factors, whose product with this factor's score averages to zero.
        axes: how many axes at the end of F belong to one q; None for all of them.
    """
    each = log_joint.factors - log_q
    if not rao_blackwell:
        count = log_q.ndim - 1 if axes is None else axes
        each = each.sum(tuple(range(log_q.ndim - count, log_q.ndim)), keepdim=True) if count else each
    shared = log_joint.shared
    return shared.reshape(*shared.shape, *([1] * (log_q.ndim - shared.ndim))) + each


def score_gradient(scores: Params, f: Tensor, baseline: Tensor | float = 0.0, *, control_variate: bool) -> Params:
    """An unbiased estimate of the gradient of the bound, (*F, ...) for each parameter.

    1/S sum_s (f_s - a_s - baseline) score_s,   a_s = sum_{t != s} f_t score_t^2 / sum_{t != s} score_t^2

    Args:
        scores: grad log q_f of S draws, (S, *F, ...).
        f: the signal, (S, *F), or a shape that broadcasts to it.
        baseline: any number that does not depend on the draws.
        control_variate: subtract a_s, the best multiple of the score, estimated from the other draws so that no bias
            comes in; it needs two draws.

    Reference: R. Ranganath, S. Gerrish, D. Blei, "Black box variational inference", 2014, eq. 8-9,
        https://arxiv.org/abs/1401.0118
    """
    centered = f - baseline
    return {name: _averaged(score, centered, control_variate and len(score) > 1) for name, score in scores.items()}


def _averaged(score: Tensor, f: Tensor, control_variate: bool) -> Tensor:
    f = f.reshape(*f.shape, *([1] * (score.ndim - f.ndim)))
    if control_variate:
        squares = score.square()
        above, below = f * squares, squares
        others = below.sum(0) - below
        f = f - torch.where(others > 0, (above.sum(0) - above) / others, 0.0)
    return (f * score).mean(0)


def bound_gradient(
    family: Family,
    params: Params,
    log_joint: Callable[[Tensor], LogJoint],
    samples: int,
    rng: Stream,
    *,
    baseline: Tensor | float = 0.0,
    rao_blackwell: bool = True,
    control_variate: bool = True,
) -> tuple[Params, Tensor]:
    """The gradient of E_q[log p(z, data) - log q(z)] by the score function, and the signal of each draw and factor.

    Args:
        family: of q.
        params: where it stands.
        log_joint: its values at draws (S, ...); it is never differentiated.
        samples: S.
        rng: all the randomness there is.
        baseline: what the signal is expected to be; the mean of the returned signal serves the next step.
        rao_blackwell: see `signal`.
        control_variate: see `score_gradient`.
    """
    with torch.no_grad():
        z = family.sample(params, samples, rng)
        f = signal(log_joint(z), family.log_prob(params, z), rao_blackwell=rao_blackwell)
    return score_gradient(family.scores(params, z), f, baseline, control_variate=control_variate), f
