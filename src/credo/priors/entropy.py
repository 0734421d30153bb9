"""The entropy of independent normals, which every divergence of a factorised normal q needs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.core.trees import Params

HALF_LOG_2PI_E = 0.5 * math.log(2.0 * math.pi * math.e)


def entropy(scale: Params) -> Tensor:
    """Entropy of each member of q = prod_i N(., scale_i^2) in nats, (M,).

    H(q) = sum_i log scale_i + 1/2 log(2 pi e)

    Args:
        scale: standard deviations, (M, *shape) each, all positive; none of them for points, whose entropy is 0, ().
    """
    if not scale:
        return torch.zeros(())
    # a logarithm of each: products of small scales are no longer numbers
    logs = torch.stack([t.unsqueeze(-1).flatten(1).log().sum(1) for t in scale.values()]).sum(0)
    return logs + HALF_LOG_2PI_E * sum(t[0].numel() for t in scale.values())
