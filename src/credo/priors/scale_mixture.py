"""The scale mixture of two normals of Bayes by Backprop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.priors.base import ElementwisePrior

Pair = tuple[float, float]


class _LogMixture(torch.autograd.Function):
    """log sum_k mass_k N(w; 0, 1 / precision_k), whose own graph would read and write large weights a dozen times."""

    generate_vmap_rule = True

    @staticmethod
    def forward(w: Tensor, precisions: Pair, log_masses: Pair) -> Tensor:
        square = w.square()
        first, second = (log_mass - 0.5 * math.log(2.0 * math.pi) for log_mass in log_masses)
        wide = (square * (-0.5 * precisions[0])).add_(first)
        return torch.logaddexp(wide, square.mul_(-0.5 * precisions[1]).add_(second))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
        ctx.numbers = inputs[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        found = _LogMixture.gradient(ctx.saved_tensors[0], *ctx.numbers)
        return (found * gradients[0] if torch.is_grad_enabled() else found.mul_(gradients[0])), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return _LogMixture.gradient(ctx.saved_tensors[0], *ctx.numbers) * tangents[0]

    @staticmethod
    def gradient(w: Tensor, precisions: Pair, log_masses: Pair) -> Tensor:
        """-w (r precision_1 + (1 - r) precision_2), with the responsibility r = sigmoid(log_1 - log_2)."""
        apart, offset = precisions[0] - precisions[1], log_masses[0] - log_masses[1]
        if torch.is_grad_enabled():
            r = torch.sigmoid(w.square() * (-0.5 * apart) + offset)
            return -w * (r * apart + precisions[1])
        r = torch.addcmul(w.new_full((), offset), w, w, value=-0.5 * apart).sigmoid_()
        return r.mul_(-apart).sub_(precisions[1]).mul_(w)


@dataclass(frozen=True)
class ScaleMixture(ElementwisePrior):
    """A wide and a narrow normal, both centered at zero.

    p(w) = weight N(w; 0, scale_1^2) + (1 - weight) N(w; 0, scale_2^2)

    Args:
        weight: mass of the first normal, strictly between 0 and 1.
        scale_1: its standard deviation.
        scale_2: standard deviation of the second normal.
        fan_in: narrow both by the root of the layer's fan-in.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, eq. 7, https://arxiv.org/abs/1505.05424
    """

    weight: float = 0.5
    scale_1: float = 1.0
    scale_2: float = 0.1
    fan_in: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale_1", self.scale_1)
        check_positive("scale_2", self.scale_2)
        if not 0.0 < self.weight < 1.0:
            raise ValueError(f"weight must lie strictly between 0 and 1, got {self.weight}")

    @property
    def _numbers(self) -> tuple[Pair, Pair]:
        """Precision and log of mass over scale of both normals."""
        log_masses = (math.log(self.weight / self.scale_1), math.log((1.0 - self.weight) / self.scale_2))
        return (1.0 / self.scale_1**2, 1.0 / self.scale_2**2), log_masses

    def log_density(self, w: Tensor) -> Tensor:
        return _LogMixture.apply(w, *self._numbers)  # type: ignore[no-untyped-call]

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        wide = torch.rand(shape, generator=generator, dtype=dtype) < self.weight
        standard = torch.randn(shape, generator=generator, dtype=dtype)
        return standard * torch.where(wide, self.scale_1, self.scale_2).to(standard)
