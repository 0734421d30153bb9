"""Norms of channels, by name, and the one among them that torch does not have."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SMALLEST = 1e-6
"""Added to a mean square, so that channels of zeros can be divided by its root."""
GROUPS = 8
"""Of a group norm, at most."""


class FilterResponseNorm(nn.Module):
    """Each channel of each example divided by its own size, then scaled, shifted and cut off from below.

    y = max(gamma x / sqrt(nu^2 + eps) + beta, tau),   nu^2 the mean square over positions

    It needs no statistics of a batch, so that the log likelihood of an example does not depend on the others beside it,
    and it brings its own nonlinearity: no activation follows.

    Args:
        channels: of the inputs, (B, channels, *positions).

    Reference: S. Singh, S. Krishnan, "Filter response normalization layer", 2020, https://arxiv.org/abs/1911.09737
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma, self.beta, self.tau = (nn.Parameter(torch.empty(channels)) for _ in range(3))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.gamma)
        nn.init.zeros_(self.beta)
        nn.init.zeros_(self.tau)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, *positions)
        positions = tuple(range(2, x.ndim))
        gamma, beta, tau = (t.reshape(-1, *[1] * len(positions)) for t in (self.gamma, self.beta, self.tau))
        normed = x * torch.rsqrt(x.square().mean(positions, keepdim=True) + SMALLEST)
        return torch.maximum(gamma * normed + beta, tau)


def _frn(channels: int) -> nn.Module:
    return FilterResponseNorm(channels)


def _group(channels: int) -> nn.Module:
    groups = next(n for n in range(min(GROUPS, channels), 0, -1) if channels % n == 0)
    return nn.Sequential(nn.GroupNorm(groups, channels), nn.ReLU())


def _batch(channels: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())


NORMS: dict[str, Callable[[int], nn.Module]] = {"filter response": _frn, "group": _group, "batch": _batch}
"""Norms with the nonlinearity that follows them, for a number of channels.

Batch norm predicts by running statistics, which methods keep per member; samplers need one of the others.
"""


def normed(norm: str, channels: int) -> nn.Module:
    """The norm of that name and the nonlinearity after it."""
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(map(repr, NORMS))}, got {norm!r}")
    return NORMS[norm](channels)
