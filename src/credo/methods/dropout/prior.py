"""What dropout expects of the prior: the part of the evidence bound that weight decay stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from credo.core.squares import weighted_squares
from credo.core.trees import Params
from credo.model import Target, likelihood_params
from credo.nets.dropout import Site

Keep = float | Tensor
"""The probability that a weight's input stays: a number, or (M, ...) to be broadcast over the weight (M, *shape)."""


def fixed_keeps(sites: Sequence[Site]) -> dict[str, Keep]:
    """1 - rate of every weight whose inputs, or which itself, are dropped; where two masks meet, both must keep it."""
    keeps: dict[str, Keep] = {}
    for site in sites:
        if site.fed is not None and not site.alpha:
            keeps[site.fed.weight] = keeps.get(site.fed.weight, 1.0) * (1.0 - site.rate)
    return {name: keep for name, keep in keeps.items() if not isinstance(keep, float) or 0.0 < keep < 1.0}


def expected_log_prior(target: Target, params: Params, keeps: Mapping[str, Keep]) -> Tensor:
    """E_q[log p(w)] of each member, (M,), where q is w / keep with probability `keep` and 0 otherwise.

    E_q[log p(w)] = sum_i  keep_i log p(w_i / keep_i) + (1 - keep_i) log p(0)

    For a normal prior of length scale l this is -l^2 / 2 sum_i w_i^2 / keep_i; in the weights m = w / keep that stay it
    is -keep l^2 / 2 |m|^2. A prior without a density for each weight is taken at w.

    Args:
        target: with the prior.
        params: weights at their expectation, (M, *shape), and the likelihood's own parameters.
        keeps: of the weights that are dropped.
    """
    prior, layout = target.model.prior, target.layout
    weights = {name: params[name] for name in layout}
    own = target.model.likelihood.log_prior(likelihood_params(params))
    precision = prior.precision(layout)
    if precision is not None:
        return _normal(weights, precision, keeps) + own
    dropped = {name: weights[name] for name in keeps}
    large = prior.log_prob_each({name: w / keeps[name] for name, w in dropped.items()}, layout) if dropped else None
    if large is None:
        return target.log_prior(params)
    rest = {name: w for name, w in weights.items() if name not in keeps}
    gone = prior.log_prob_each({name: torch.zeros_like(w[:1]) for name, w in dropped.items()}, layout)
    assert gone is not None
    each = [keep * large[name] + (1.0 - keep) * gone[name] for name, keep in keeps.items()]
    total = torch.stack([t.flatten(1).sum(1) for t in each]).sum(0) + own
    return total + prior.log_prob(rest, layout) if rest else total


def _normal(weights: Params, precision: Mapping[str, float], keeps: Mapping[str, Keep]) -> Tensor:
    learned = {name: keep for name, keep in keeps.items() if isinstance(keep, Tensor)}
    fixed = {name: w for name, w in weights.items() if name not in learned}
    parts = [
        -0.5 * precision[name] * (_squares(weights[name], keep) / keep).flatten(1).sum(1)
        for name, keep in learned.items()
    ]
    if fixed:
        coefficients = [-0.5 * precision[name] / float(keeps.get(name, 1.0)) for name in fixed]
        parts.append(weighted_squares(list(fixed.values()), coefficients))
    logs = sum(0.5 * math.log(precision[name] / (2.0 * math.pi)) * w[0].numel() for name, w in weights.items())
    return torch.stack(parts).sum(0) + logs


def _squares(weight: Tensor, keep: Tensor) -> Tensor:
    """Squares of the weights, summed over those that share their keep: in the shape of `keep`."""
    shared = [axis for axis in range(1, weight.ndim) if keep.shape[axis] == 1]
    return torch.linalg.vector_norm(weight, dim=shared, keepdim=True).square() if shared else weight.square()
