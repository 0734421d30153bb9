"""Learned observation noise: its estimate from residuals, whatever the likelihood is wrapped in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Params, Variables
from credo.likelihoods import Joint, Likelihood, MultivariateGaussian
from credo.likelihoods.gaussian import LearnedScale
from credo.likelihoods.joint import share_of
from credo.model import LIKELIHOOD_PREFIX, Batch, Target, likelihood_params


def learned_scales(likelihood: Likelihood) -> tuple[str, ...]:
    """The names of the logarithms of standard deviations that are learned, of normal noise: one for each head."""
    if isinstance(likelihood, Joint):
        return tuple(f"{head.name}.{name}" for head in likelihood.heads for name in learned_scales(head.likelihood))
    base = getattr(likelihood, "base", None)
    if isinstance(base, Likelihood):
        return learned_scales(base)
    return ("log_scale",) if isinstance(likelihood, LearnedScale) else ()


def correlated_heads(likelihood: Likelihood) -> tuple[str, ...]:
    """The heads whose noise has a learned covariance; an empty name for a likelihood that has it without heads."""
    if isinstance(likelihood, Joint):
        return tuple(head.name for head in likelihood.heads if isinstance(head.likelihood, MultivariateGaussian))
    return ("",) if isinstance(likelihood, MultivariateGaussian) else ()


def estimated_parameters(likelihood: Likelihood) -> tuple[str, ...]:
    """The names of all learned parameters that residuals say."""
    own = (f"{name}." if name else "" for name in correlated_heads(likelihood))
    return (*learned_scales(likelihood), *(prefix + part for prefix in own for part in ("log_scale", "correlation")))


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
        products: of the residuals of an example and a one, (M, D + 1, D + 1), for each head with correlated noise.
        count: batches, (M,).
    """

    residuals: Tensor
    targets: Tensor
    products: Params
    count: Tensor

    @staticmethod
    def zeros(target: Target, variables: Variables) -> NoiseSums:
        first = next(iter(variables.params.values()))
        scales = _scales(target, variables).values()
        like = torch.cat(list(scales), dim=1) if scales else first.new_zeros(len(first), 0)
        zeros = torch.zeros_like(like, dtype=torch.float64)
        params, likelihood = likelihood_params(variables.params), target.model.likelihood
        sizes = {name: params[_key(name, "log_scale")].shape[1] + 1 for name in correlated_heads(likelihood)}
        products = {name: zeros.new_zeros(len(zeros), size, size) for name, size in sizes.items()}
        return NoiseSums(zeros, zeros.clone(), products, zeros.new_zeros(len(zeros)))

    def plus(self, other: NoiseSums) -> NoiseSums:
        products = {name: t + other.products[name] for name, t in self.products.items()}
        return NoiseSums(
            self.residuals + other.residuals, self.targets + other.targets, products, self.count + other.count
        )

    @property
    def averages(self) -> tuple[Tensor, Tensor]:
        """Residuals and targets on the scale of all data, for each scale."""
        count = self.count.clamp_min(1.0).unsqueeze(1)
        return self.residuals / count, self.targets / count


def _key(head: str, name: str) -> str:
    """The name of a learned parameter of a head."""
    return f"{head}.{name}" if head else name


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
    products = {name: _products(target, name, outputs, batch) for name in correlated_heads(target.model.likelihood)}
    ones = torch.ones(len(outputs), dtype=torch.float64, device=outputs.device)
    if not _scales(target, variables):
        none = ones.new_zeros(len(ones), 0)
        return NoiseSums(none, none, products, ones)
    here, there = (_derivative(target, variables, outputs, batch, by) for by in (0.0, 1.0))
    residuals = (here - there) / (1.0 - math.exp(-2.0))
    return NoiseSums(residuals, residuals - here, products, ones)


def _products(target: Target, head: str, outputs: Tensor, batch: Batch) -> Tensor:
    """sum_b weight_b (r_b, 1) (r_b, 1)^T of the residuals of a head, on the scale of all data, (M, D + 1, D + 1)."""
    likelihood, y, share = target.model.likelihood, batch.y, None
    if isinstance(likelihood, Joint):
        outputs, y, share = outputs[..., likelihood.places[head]], y[head], share_of(y, head)
    away = y.double() - outputs.double()  # (M, B, D)
    kept = ~away.isnan().any(-1, keepdim=True)
    rows = torch.where(kept, torch.cat([away, torch.ones_like(away[..., :1])], -1), 0.0)
    weight = rows.new_tensor(target.factor(batch))
    for each in (batch.weight, share):
        weight = weight if each is None else weight * each.double()
    return (rows * weight.expand(rows.shape[:2]).unsqueeze(-1)).mT @ rows


def _derivative(target: Target, variables: Variables, outputs: Tensor, batch: Batch, by: float) -> Tensor:
    with torch.enable_grad():
        leaves = {name: (t.detach() + by).requires_grad_() for name, t in _scales(target, variables).items()}
        params = {**likelihood_params(variables.params), **leaves}
        each = target.model.likelihood.log_prob(outputs, batch.y, params)
        total = target.data_term(each, batch).sum()
    return torch.cat(torch.autograd.grad(total, list(leaves.values())), dim=1).double()


def settled_noise(target: Target, variables: Variables, sums: NoiseSums) -> Variables:
    """The variables with the scales of noise under which the residuals are most probable."""
    variables = _settled_covariances(variables, sums)
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


def _settled_covariances(variables: Variables, sums: NoiseSums) -> Variables:
    """Those of correlated noise: the average products of residuals."""
    params = dict(variables.params)
    for head, t in sums.products.items():
        like = params[LIKELIHOOD_PREFIX + _key(head, "log_scale")]
        covariance = t[:, :-1, :-1] / t[:, -1:, -1:].clamp_min(1e-300)
        size, trace = covariance.shape[-1], covariance.diagonal(dim1=1, dim2=2).sum(1)
        least = 10.0 * size * torch.finfo(like.dtype).eps * trace + torch.finfo(like.dtype).tiny
        found = MultivariateGaussian.params_of(covariance + torch.diag_embed(least.unsqueeze(1).expand(-1, size)))
        params |= {LIKELIHOOD_PREFIX + _key(head, name): value.to(like) for name, value in found.items()}
    return Variables(params, variables.buffers)
