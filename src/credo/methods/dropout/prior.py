"""What dropout expects of the prior: the part of the evidence bound that weight decay stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from credo.core.trees import Params
from credo.model import Model, Target, likelihood_params
from credo.nets.dropout import Site
from credo.priors import Normal

Keep = float | Tensor
"""The probability that a weight's input stays: a number, or (M, ...) to be broadcast over the weight (M, *shape)."""


def keep_of_weights(sites: Sequence[Site], keeps: Sequence[Keep]) -> dict[str, Keep]:
    """The probability to stay of every weight whose inputs, or which itself, are dropped.

    Where two masks meet, both must keep it; behind alpha dropout, or where no single layer takes the units, there is
    none.
    """
    found: dict[str, Keep] = {}
    for site, keep in zip(sites, keeps, strict=True):
        if site.consumer is not None and not site.alpha:
            name, each = site.consumer.weight, keep if isinstance(keep, float) else site.consumer.by_weight(keep)
            found[name] = each * found[name] if name in found else each
    return {name: keep for name, keep in found.items() if not isinstance(keep, float) or 0.0 < keep < 1.0}


def expected_log_prior(target: Target, params: Params, keeps: Mapping[str, Keep]) -> Tensor:
    """E_q[log p(w)] of each member, (M,), where q is w / keep with probability `keep` and 0 otherwise.

    E_q[log p(w)] = sum_i  keep_i log p(w_i / keep_i) + (1 - keep_i) log p(0)

    For a normal prior of length scale l that is log p(w / sqrt(keep)), with -l^2 / 2 sum_i w_i^2 / keep_i; in the
    weights m = w / keep that stay it is -keep l^2 / 2 |m|^2. A prior that is not known weight by weight is taken at w.

    Args:
        target: with the prior.
        params: weights at their expectation, (M, *shape), and the likelihood's own parameters.
        keeps: of the weights that are dropped.
    """
    prior, layout = target.model.prior, target.layout
    dropped = {name: params[name] for name in keeps}
    if prior.precision(layout) is not None:
        roots = {name: keep**0.5 if isinstance(keep, float) else keep.sqrt() for name, keep in keeps.items()}
        return target.log_prior(params | {name: w / roots[name] for name, w in dropped.items()})
    large = prior.log_prob_each({name: w / keeps[name] for name, w in dropped.items()}, layout) if dropped else None
    zero = prior.log_prob_each({name: torch.zeros_like(w[:1]) for name, w in dropped.items()}, layout)
    if large is None or zero is None:
        return target.log_prior(params)
    each = [keep * large[name] + (1.0 - keep) * zero[name] for name, keep in keeps.items()]
    total = torch.stack([t.flatten(1).sum(1) for t in each]).sum(0)
    rest = {name: params[name] for name in layout if name not in keeps}
    total = total + prior.log_prob(rest, layout) if rest else total
    return total + target.model.likelihood.log_prior(likelihood_params(params))


def with_length_scale(model: Model, length_scale: float | None) -> Model:
    """The model with the prior N(0, 1 / l^2) for all weights; None leaves the prior that it has."""
    if length_scale is None:
        return model
    return Model(model.network, model.given_likelihood, Normal(1.0 / length_scale))
