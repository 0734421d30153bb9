"""Log densities of likelihoods and priors with their slopes: written out where simple, by autograd elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Layout, Params, ravel, unravel
from credo.likelihoods import Categorical, Gaussian, LearnedGaussian, Likelihood
from credo.likelihoods.gaussian import HALF_LOG_2PI
from credo.priors import Normal, Prior


@dataclass(frozen=True)
class OutputSlopes:
    """What a likelihood says of the network's outputs.

    Attributes:
        log_likelihood: sum over examples, (C,).
        outputs: its slopes with respect to the outputs, (C, E, B).
        own: its slopes with respect to the likelihood's own parameters, (C, D) each.
    """

    log_likelihood: Tensor
    outputs: Tensor
    own: Params


def output_slopes(likelihood: Likelihood, outputs: Tensor, y: Tensor, own: Params) -> OutputSlopes:
    """Of outputs (C, E, B), targets (B, D) or (B,), and the likelihood's own parameters (C, D)."""
    if isinstance(likelihood, Gaussian):
        return _gaussian(likelihood.scale, outputs, y)
    if isinstance(likelihood, LearnedGaussian):
        return _learned_gaussian(outputs, y, own["log_scale"])
    if isinstance(likelihood, Categorical):
        return _categorical(outputs, y)
    return _by_autograd(likelihood, outputs, y, own)


def _gaussian(scale: float, outputs: Tensor, y: Tensor) -> OutputSlopes:
    """-(y - f)^2 / 2 s^2, whose slope is (y - f) / s^2."""
    error = y.T - outputs
    flat = error.flatten(1)
    constant = flat.shape[1] * (math.log(scale) + HALF_LOG_2PI)
    value = torch.linalg.vecdot(flat, flat) * (-0.5 / scale**2) - constant
    return OutputSlopes(value, error.mul_(1.0 / scale**2), {})


def _learned_gaussian(outputs: Tensor, y: Tensor, log_scale: Tensor) -> OutputSlopes:
    """As above for each target's own s; the slope of log s is sum_b ((y - f) / s)^2 - 1."""
    error, precision = y.T - outputs, torch.exp(-2.0 * log_scale)  # (C, E, B), (C, E)
    squares = torch.linalg.vecdot(error, error) * precision
    value = -(0.5 * squares + error.shape[2] * (log_scale + HALF_LOG_2PI)).sum(1)
    return OutputSlopes(value, error.mul_(precision.unsqueeze(2)), {"log_scale": squares - error.shape[2]})


def _categorical(outputs: Tensor, y: Tensor) -> OutputSlopes:
    """log softmax of the true class, whose slope is 1[k = y] - p_k."""
    log_probs = outputs.log_softmax(1)
    index = y.expand(len(outputs), 1, -1)
    value = log_probs.gather(1, index).sum((1, 2))
    ones = torch.ones((), dtype=outputs.dtype, device=outputs.device).expand(index.shape)
    return OutputSlopes(value, log_probs.exp_().neg_().scatter_add_(1, index, ones), {})


def _by_autograd(likelihood: Likelihood, outputs: Tensor, y: Tensor, own: Params) -> OutputSlopes:
    leaves = [outputs.detach().requires_grad_(), *(t.detach().requires_grad_() for t in own.values())]
    with torch.enable_grad():
        named = dict(zip(own, leaves[1:], strict=True))
        value = likelihood.log_prob(leaves[0].mT, y, named).sum(1)
        slopes = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
    return OutputSlopes(value.detach(), slopes[0], dict(zip(own, slopes[1:], strict=True)))


def own_prior_slopes(likelihood: Likelihood, own: Params) -> tuple[Tensor | float, Params]:
    """log p of the likelihood's own parameters, (C,), and its slopes, (C, D) each."""
    if not own:
        return 0.0, {}
    leaves = {name: t.detach().requires_grad_() for name, t in own.items()}
    with torch.enable_grad():
        value = torch.as_tensor(likelihood.log_prior(leaves))
        if not value.requires_grad:
            return value, {name: torch.zeros_like(t) for name, t in own.items()}
        slopes = torch.autograd.grad(value.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
    return value.detach(), dict(zip(own, slopes, strict=True))


@dataclass(frozen=True)
class PriorSlopes:
    """log p(w) of flat weights (C, P), and its slopes.

    Attributes:
        prior: of the weights.
        layout: of the weights alone, in the order in which they lie flat.
        precision: 1 / variance of every weight, (P,), where the prior is normal.
        constant: log p at the origin.
    """

    prior: Prior
    layout: Layout
    precision: Tensor | None
    constant: float

    def __call__(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        if self.precision is not None:
            pull = flat * self.precision
            return torch.linalg.vecdot(flat, pull) * -0.5 + self.constant, pull.neg_()
        leaf = flat.detach().requires_grad_()
        with torch.enable_grad():
            value = self.prior.log_prob(unravel(leaf, self.layout), self.layout)
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope


def prior_slopes(prior: Prior, layout: Layout, like: Tensor) -> PriorSlopes:
    """The prior of weights with this layout, in numbers of the kind and on the device of `like`."""
    if not isinstance(prior, Normal):
        return PriorSlopes(prior, layout, None, 0.0)
    every = prior.precision(layout)
    ones = {name: torch.full((1, *info.shape), every[name], dtype=torch.float64) for name, info in layout.items()}
    precision = ravel(ones)[0]
    constant = 0.5 * float((precision / (2.0 * math.pi)).log().sum())
    return PriorSlopes(prior, layout, precision.to(like), constant)
