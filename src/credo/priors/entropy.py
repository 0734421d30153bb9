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
        scale: standard deviations, (M, *shape) each, all positive.
    """
    logs = torch.stack([_sum_of_logs(t.unsqueeze(-1).flatten(1)) for t in scale.values()]).sum(0)
    return logs + HALF_LOG_2PI_E * sum(t[0].numel() for t in scale.values())


def _sum_of_logs(t: Tensor) -> Tensor:
    """sum_i log t_i of every row, by the logarithms of pairs: these are the dear part, and half as many."""
    half = t.shape[1] // 2
    pairs = t[:, :half] * t[:, half : 2 * half]
    logs = pairs.log() if pairs.requires_grad else pairs.log_()
    return logs.sum(1) + t[:, 2 * half :].log().sum(1)
