"""Weights of examples that differ between heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import TensorTree
from credo.core.weights import example_weights
from credo.likelihoods.joint import SHARE
from credo.loop.masks import only_where


def weights_of_heads(
    weights: Mapping[Any, Any],
    y: Any,
    rows: tuple[int, ...],
    dtype: torch.dtype,
    prefix: str = "",
    *,
    some: bool = True,
) -> tuple[TensorTree, Tensor]:
    """Targets that carry the share of each head, and the weights of the examples, (N,) or (M, N).

    w_bh = a_b v_bh,   a_b = mean_h w_bh

    so that whatever knows weights of examples alone knows the a_b, and the likelihood of the heads the v_bh. What
    weighs nothing is a target that is missing.

    Args:
        weights: w, by the name of the head; a head that is not named weighs one.
        y: targets by head.
        rows: N, or M and N.
        dtype: of real numbers.
        prefix: of the names, for sentences.
        some: whether an example (of each member) must weigh more than zero.
    """
    listed = ", ".join(map(repr, weights))
    if not isinstance(y, TensorTree) or not isinstance(y.value, dict):
        raise ValueError(
            f"the {prefix}weights have names, {listed}, and {prefix}y has none: give one number per example"
        )
    for name in weights:
        if name not in y.value:
            have = ", ".join(map(repr, y.value))
            raise ValueError(f"there are {prefix}weights for {name!r}, and {prefix}y has {have}")
        if not isinstance(y.value[name], Tensor):
            raise ValueError(f"{prefix}y[{name!r}] must be one tensor, got a {type(y.value[name]).__name__}")
    ones = torch.ones(rows, dtype=torch.float64)
    each = {
        name: example_weights(weights[name], rows, f"{prefix}weights[{name!r}]", some=False).double().cpu()
        if name in weights
        else ones
        for name in y.value
    }
    mean = torch.stack(list(each.values())).mean(0)
    if some and not bool((mean > 0).any(-1).all()):
        raise ValueError(f"{prefix}weights are all zero in every head: no example would count")
    targets = {name: only_where(y.value[name], t > 0) for name, t in each.items()}
    shares = {name + SHARE: torch.where(mean > 0, t / mean, 1.0).to(y.device, dtype) for name, t in each.items()}
    return TensorTree(targets | shares), mean
