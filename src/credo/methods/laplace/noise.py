"""Learned observation noise: its estimate from residuals, whatever the likelihood is wrapped in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Variables
from credo.likelihoods import Likelihood
from credo.likelihoods.gaussian import LearnedScale
from credo.model import LIKELIHOOD_PREFIX, Batch, Target

LOG_SCALE = f"{LIKELIHOOD_PREFIX}log_scale"


def learned_noise(likelihood: Likelihood) -> bool:
    """Whether the noise is normal with standard deviations that are learned."""
    base = getattr(likelihood, "base", None)
    return isinstance(likelihood, LearnedScale) or (isinstance(base, Likelihood) and learned_noise(base))


@dataclass(frozen=True)
class NoiseSums:
    """Sums over batches.

    Attributes:
        residuals: squared, over the variance of the noise, for each scale (M, D).
        targets: how many there are, for each scale.
        count: batches, (M,).
    """

    residuals: Tensor
    targets: Tensor
    count: Tensor

    @staticmethod
    def zeros(target: Target, variables: Variables) -> NoiseSums:
        first = next(iter(variables.params.values()))
        like = variables.params[LOG_SCALE] if learned_noise(target.model.likelihood) else first.new_zeros(len(first), 0)
        zeros = torch.zeros_like(like, dtype=torch.float64)
        return NoiseSums(zeros, zeros.clone(), zeros.new_zeros(len(zeros)))

    def plus(self, other: NoiseSums) -> NoiseSums:
        return NoiseSums(self.residuals + other.residuals, self.targets + other.targets, self.count + other.count)

    @property
    def averages(self) -> tuple[Tensor, Tensor]:
        """Residuals and targets on the scale of all data, for each scale."""
        count = self.count.clamp_min(1.0).unsqueeze(1)
        return self.residuals / count, self.targets / count


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
        leaf = (variables.params[LOG_SCALE].detach() + by).requires_grad_()
        each = target.model.likelihood.log_prob(outputs, batch.y, {"log_scale": leaf})
        total = target.data_term(each, batch).sum()
    return torch.autograd.grad(total, leaf)[0].double()


def settled_noise(target: Target, variables: Variables, sums: NoiseSums) -> Variables:
    """The variables with the scales of noise under which the residuals are most probable."""
    if not learned_noise(target.model.likelihood):
        return variables
    residuals, targets = sums.averages
    log_scale = variables.params[LOG_SCALE]
    moved = 0.5 * (residuals / targets.clamp_min(1e-300)).log()
    moved = moved.clamp_min(math.log(torch.finfo(log_scale.dtype).eps))  # of targets that are fitted to the last digit
    return Variables({**variables.params, LOG_SCALE: log_scale + moved.to(log_scale)}, variables.buffers)
