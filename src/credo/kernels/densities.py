"""Log densities of priors and likelihoods with their gradients, written out for exactly the classes that are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from credo.core.trees import Layout, Params, unravel
from credo.likelihoods import Categorical, Gaussian, LearnedGaussian, Likelihood, Standardized
from credo.likelihoods.gaussian import HALF_LOG_2PI
from credo.priors import Normal, Prior

ValueAndGradient = Callable[[Tensor], tuple[Tensor, Tensor]]  # of flat weights (C, P): (C,) and (C, P)
KindT = TypeVar("KindT", Gaussian, LearnedGaussian, Categorical, Standardized, Normal)


def is_exactly(value: object, kind: type[KindT]) -> TypeGuard[KindT]:
    """Of this very class, whose formula is known, with nothing put on the instance."""
    return type(value) is kind and vars(value).keys() == kind.__dataclass_fields__.keys()


def prior_gradient(prior: Prior, layout: Layout, like: Tensor) -> ValueAndGradient:
    """log p(w) (C,) and its gradient (C, P), of weights (C, P)."""

    def of_any(flat: Tensor) -> tuple[Tensor, Tensor]:
        value, (gradient,) = by_autograd(lambda w: prior.log_prob(unravel(w, layout), layout), flat)
        return value, gradient

    if not is_exactly(prior, Normal):
        return of_any
    each = prior.precision(layout) or {}
    exact = torch.cat([torch.full((math.prod(i.shape),), each[n], dtype=torch.float64) for n, i in layout.items()])
    precision, constant = exact.to(like), 0.5 * float((exact / (2.0 * math.pi)).log().sum())

    def normal(flat: Tensor) -> tuple[Tensor, Tensor]:
        gradient = flat * precision
        return torch.linalg.vecdot(flat, gradient) * -0.5 + constant, gradient.neg_()

    return normal


def output_gradient(
    likelihood: Likelihood, f: Tensor, y: Tensor, learned: Params, weight: Tensor | None = None
) -> tuple[Tensor, Tensor, Params]:
    """log p(y | f) of outputs (C, E, B), (C,), and its gradients by them and by the learned parameters."""
    if weight is not None:
        return _output_gradient_by_autograd(likelihood, f, y, learned, weight)
    if is_exactly(likelihood, Gaussian):  # -(y - f)^2 / 2 s^2, whose gradient is (y - f) / s^2
        scale, error = likelihood.scale, y.T - f
        flat = error.flatten(1)
        constant = flat.shape[1] * (math.log(scale) + HALF_LOG_2PI)
        return torch.linalg.vecdot(flat, flat) * (-0.5 / scale**2) - constant, error.mul_(1.0 / scale**2), {}
    if is_exactly(likelihood, LearnedGaussian):  # with an s for each target; by log s it is ((y - f) / s)^2 - 1
        log_scale = learned["log_scale"]
        error, precision = y.T - f, torch.exp(-2.0 * log_scale)  # (C, E, B), (C, E)
        squares = torch.linalg.vecdot(error, error) * precision
        value = -(0.5 * squares + error.shape[2] * (log_scale + HALF_LOG_2PI)).sum(1)
        return value, error.mul_(precision.unsqueeze(2)), {"log_scale": squares - error.shape[2]}
    if is_exactly(likelihood, Categorical):  # log softmax(f)_y, whose gradient is 1[k = y] - p_k
        log_probs, index = f.log_softmax(1), y.expand(len(f), 1, -1)
        value = log_probs.gather(1, index).sum((1, 2))
        return value, log_probs.exp_().neg_().scatter_add_(1, index, torch.ones_like(index, dtype=f.dtype)), {}

    return _output_gradient_by_autograd(likelihood, f, y, learned, None)


def _output_gradient_by_autograd(
    likelihood: Likelihood, f: Tensor, y: Tensor, learned: Params, weight: Tensor | None
) -> tuple[Tensor, Tensor, Params]:
    """The same of any likelihood, where each example counts as much as it weighs, (B,)."""

    def log_prob(outputs: Tensor, *theta: Tensor) -> Tensor:
        each = likelihood.log_prob(outputs.mT, y, dict(zip(learned, theta, strict=True)))
        return (each if weight is None else torch.where(weight > 0, each, 0.0) * weight).sum(1)

    value, (by_outputs, *by_theta) = by_autograd(log_prob, f, *learned.values())
    return value, by_outputs, dict(zip(learned, by_theta, strict=True))


def by_autograd(function: Callable[..., Tensor | float], *given: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
    """Values of all chains, and the gradients: zeros where nothing depends on what is given."""
    leaves = [t.detach().requires_grad_() for t in given]
    with torch.enable_grad():
        value = torch.as_tensor(function(*leaves))
        if not value.requires_grad:
            return value, [torch.zeros_like(t) for t in given]
        gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
    return value.detach(), gradients
