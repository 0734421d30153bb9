"""Learned observation noise: its estimate from residuals, whatever the likelihood is wrapped in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Params, Variables
from credo.likelihoods import Joint, Likelihood
from credo.likelihoods.gaussian import LearnedScale
from credo.model import LIKELIHOOD_PREFIX, Batch, Target, likelihood_params


def learned_scales(likelihood: Likelihood) -> tuple[str, ...]:
    """The names of the logarithms of standard deviations that are learned, of normal noise: one for each head."""
    if isinstance(likelihood, Joint):
        return tuple(f"{head.name}.{name}" for head in likelihood.heads for name in learned_scales(head.likelihood))
    base = getattr(likelihood, "base", None)
    if isinstance(base, Likelihood):
        return learned_scales(base)
    return ("log_scale",) if isinstance(likelihood, LearnedScale) else ()


def is_all_noise(likelihood: Likelihood) -> bool:
    """Whether the curvature is inverse to one variance of noise: all targets have learned normal noise."""
    if isinstance(likelihood, Joint):
        return all(learned_scales(head.likelihood) for head in likelihood.heads)
    return bool(learned_scales(likelihood))


@dataclass(frozen=True)
class NoiseSums:
    """Sums over batches.

    Attributes:
        residuals: squared, over the variance of the noise, for each scale (M, D), those of all heads side by side.
        targets: how many there are, for each scale.
        count: batches, (M,).
    """

    residuals: Tensor
    targets: Tensor
    count: Tensor

    @staticmethod
    def zeros(target: Target, variables: Variables) -> NoiseSums:
        first = next(iter(variables.params.values()))
        scales = _scales(target, variables).values()
        like = torch.cat(list(scales), dim=1) if scales else first.new_zeros(len(first), 0)
        zeros = torch.zeros_like(like, dtype=torch.float64)
        return NoiseSums(zeros, zeros.clone(), zeros.new_zeros(len(zeros)))

    def plus(self, other: NoiseSums) -> NoiseSums:
        return NoiseSums(self.residuals + other.residuals, self.targets + other.targets, self.count + other.count)

    @property
    def averages(self) -> tuple[Tensor, Tensor]:
        """Residuals and targets on the scale of all data, for each scale."""
        count = self.count.clamp_min(1.0).unsqueeze(1)
        return self.residuals / count, self.targets / count


def _scales(target: Target, variables: Variables) -> Params:
    """The logarithms of the standard deviations, (M, D) each, by their short names."""
    params = likelihood_params(variables.params)
    return {name: params[name] for name in learned_scales(target.model.likelihood)}


def noise_sums(target: Target, variables: Variables, batch: Batch) -> NoiseSums:
    """Those of a batch, on the scale of all data.

    The log likelihood as a function of s = log scale has the derivative R exp(-2 (s - s_0)) - n: its values at two
    scales give the residuals R and the number of targets n, whatever masks, weights and units there are.
    """
    with torch.no_grad():
        outputs = target.model.network.evaluate(variables, batch.x, target.plan, x_per_member=batch.per_member)
    here, there = (_derivative(target, variables, outputs, batch, by) for by in (0.0, 1.0))
    residuals = (here - there) / (1.0 - math.exp(-2.0))
    return NoiseSums(residuals, residuals - here, torch.ones_like(residuals[:, 0]))


def _derivative(target: Target, variables: Variables, outputs: Tensor, batch: Batch, by: float) -> Tensor:
    with torch.enable_grad():
        leaves = {name: (t.detach() + by).requires_grad_() for name, t in _scales(target, variables).items()}
        params = {**likelihood_params(variables.params), **leaves}
        each = target.model.likelihood.log_prob(outputs, batch.y, params)
        total = target.data_term(each, batch).sum()
    return torch.cat(torch.autograd.grad(total, list(leaves.values())), dim=1).double()


def settled_noise(target: Target, variables: Variables, sums: NoiseSums) -> Variables:
    """The variables with the scales of noise under which the residuals are most probable."""
    scales = _scales(target, variables)
    if not scales:
        return variables
    residuals, targets = sums.averages
    moved = torch.where(targets > 0, 0.5 * (residuals / targets.clamp_min(1e-300)).log(), 0.0)
    parts = torch.split(moved, [t.shape[1] for t in scales.values()], dim=1)
    return moved_noise(variables, dict(zip(scales, parts, strict=True)))


def moved_noise(variables: Variables, by: Params) -> Variables:
    """The variables with these numbers added to the logarithms of scales, (M, D) each, by their short names."""
    params = dict(variables.params)
    for name, change in by.items():
        like = params[LIKELIHOOD_PREFIX + name]
        least = math.log(torch.finfo(like.dtype).eps)  # for targets that are fitted to the last digit
        params[LIKELIHOOD_PREFIX + name] = like + change.clamp_min(least).to(like)
    return Variables(params, variables.buffers)
