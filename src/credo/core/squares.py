"""A weighted sum of squares over a tree of tensors, with a gradient that costs one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class _WeightedSquares(torch.autograd.Function):
    """Autograd's own graph for this reads and writes large weights five times."""

    generate_vmap_rule = True

    @staticmethod
    def forward(coefficients: tuple[float, ...], *tensors: Tensor) -> Tensor:
        return torch.stack([_dot(t, t) * c for t, c in zip(tensors, coefficients, strict=True)]).sum(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.coefficients = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        twice = 2.0 * gradients[0]
        pairs = zip(ctx.saved_tensors, ctx.coefficients, strict=True)
        return None, *(t * (c * twice).view(-1, *([1] * (t.ndim - 1))) for t, c in pairs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        triples = zip(ctx.saved_tensors, tangents[1:], ctx.coefficients, strict=True)
        return torch.stack([_dot(t, dt) * (2.0 * c) for t, dt, c in triples if dt is not None]).sum(0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of each member, (M,); also where a member is one number."""
    return torch.linalg.vecdot(a.unsqueeze(-1).flatten(1), b.unsqueeze(-1).flatten(1))


def weighted_squares(tensors: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """sum_t c_t sum_i t_i^2 for each member, (M,), of tensors (M, *shape)."""
    return _WeightedSquares.apply(tuple(coefficients), *tensors)  # type: ignore[no-untyped-call]
